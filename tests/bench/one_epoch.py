"""`python -m tests.bench.one_epoch FOLDER`: what Keras learns of MNIST in one epoch,
and how long that takes; the digits study beside `nn study digits`.

FOLDER has MNIST's four files. The network, Adam and batches of 32 are those of the
study; a line for each seed, then the mean. The accuracy is that after one epoch; its
seconds are those of the second, and set-up is what the first took longer, as in a
sweep.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
import typer

import nn
from nn.study.bench import DIGITS_MODEL, TrainStepCase
from nn.terminal.tables import table

from .sides import Keras

CASE = TrainStepCase("digits", DIGITS_MODEL, 32, 1562)


def main(
    folder: Annotated[str, typer.Argument(help="Of MNIST's four files.")],
    backend: Annotated[str, typer.Option(help="omp, or cuda: a GPU.")] = "omp",
    seeds: Annotated[int, typer.Option(help="Trainings.")] = 5,
    batches: Annotated[int, typer.Option(help="Of an epoch.")] = CASE.batches,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
):
    """Train and test Keras's network once for each seed."""
    side = Keras(backend)
    training = _images(f"{folder}/train-images-idx3-ubyte.gz", CASE.batch * batches)
    testing = _images(f"{folder}/t10k-images-idx3-ubyte.gz", None)
    results = [run(side, seed, training, testing) for seed in range(seeds)]
    if as_json:
        print(json.dumps({"keras": side.version, "backend": backend, "runs": results}))
        return
    lines = [[str(n), *_texts(result)] for n, result in enumerate(results)]
    means = {key: float(np.mean([r[key] for r in results])) for key in results[0]}
    headers = ["seed", *results[0]]
    title = f"Keras {side.version}, {backend}, {len(training[0])} images"
    table(headers, [*lines, ["mean", *_texts(means)]], title)


def _images(path: str, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the first images of a file, from 0 to 1, and their labels."""
    ds = nn.load(path)
    return np.asarray(ds.x[:rows], np.float32) / 255, ds.y[:rows]


def run(side: Keras, seed: int, training: tuple, testing: tuple) -> dict:
    """Return the seconds of an epoch and of a test, and the accuracy."""
    side.keras.utils.set_random_seed(seed)
    model, net = side.model(CASE)
    model = side.keras.models.clone_model(model)  # parameters of Keras's own drawing
    side.compiled(model, net, CASE.optimizer, CASE.learning_rate)
    epoch = partial(model.fit, *training, batch_size=CASE.batch, verbose=0)
    predict = partial(model.predict, testing[0], batch_size=CASE.batch, verbose=0)
    first_s = seconds_of(epoch)
    accuracy = float((predict().argmax(axis=1) == testing[1]).mean())
    test_s = seconds_of(predict)
    epoch_s = seconds_of(epoch)
    return {
        "setup_s": max(0.0, first_s - epoch_s),
        "epoch_s": epoch_s,
        "test_s": test_s,
        "accuracy": accuracy,
    }


def seconds_of(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _texts(result: dict) -> list[str]:
    return [f"{value:.4g}" for value in result.values()]


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
