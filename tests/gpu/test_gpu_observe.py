"""--profile and --trace on the GPU: times by events, layer by layer."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import succeed

LAYERS = "1x12x12,conv16k3p1,dropout0.25,conv20k3,maxpool2,40,1"
LEARNERS = {0, 2, 5, 6}  # flatten counts, too


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 600 * 144, dtype=np.float32).reshape(600, 1, 12, 12)
    np.savez("x.npz", x=x, y=np.sin(9 * x).mean(axis=(1, 2, 3)))
    return tmp_path


def train(backend, *more):
    flags = ["--dataset", "x.npz", "--layers", LAYERS, "--epochs", 3, "--batch_number", 20, "-q"]
    return succeed("--train", "--model", "m.bin", "--backend", backend, *flags, *more)


def events(category):
    trace = json.loads(Path("t.json").read_text())
    return [event for event in trace["traceEvents"] if event.get("cat") == category]


def inside(event, other):
    return other["ts"] - 1e-3 <= event["ts"] and event["ts"] + event["dur"] <= other["ts"] + other["dur"] + 1e-3


def test_the_steps_of_a_traced_batch_add_up_to_it(folder, backend):
    train(backend, "--trace", "t.json")
    batches, epochs = events("batch"), events("epoch")
    assert len(batches) == 20 and len(epochs) == 3
    steps = [step for name in ("gather", "forward", "loss", "backward", "update") for step in events(name)]
    lanes = {event["args"]["name"]: event["tid"] for event in all_names()}
    assert {step["tid"] for step in steps} == {lanes["gpu"]}
    for batch in batches:
        assert batch["tid"] == lanes["training"]
        assert inside(batch, epochs[0])
        of_batch = [step for step in steps if inside(step, batch)]
        assert {step["args"]["layer"] for step in of_batch if step["cat"] == "update"} == LEARNERS
        assert sum(step["dur"] for step in of_batch) == pytest.approx(batch["dur"], rel=0.05)


def all_names():
    trace = json.loads(Path("t.json").read_text())
    return [event for event in trace["traceEvents"] if event["name"] == "thread_name"]


def test_the_layers_of_a_profile_add_up_to_the_batch(folder, backend):
    profile = train(backend, "--profile", "--json").json["profile"]
    steps = ("forward_ms", "backward_ms", "update_ms")
    layers = sum(layer[step] for layer in profile["layers"] for step in steps)
    others = sum(profile.get(f"{name}_ms", 0.0) for name in ("gather", "loss"))
    assert profile["batch_ms"] > 0
    assert layers + others == pytest.approx(profile["batch_ms"], rel=0.05)
    for number, layer in enumerate(profile["layers"]):
        assert (layer["update_ms"] > 0) == (number in LEARNERS)
        assert (layer["forward_ms"] > 0) == (
            layer["layer"] not in ("flatten", "maxpool2") or backend == "cudnn" and layer["layer"] == "maxpool2"
        )  # cuda: done by the convolution


def test_watching_does_not_change_the_model(folder, backend):
    train(backend)
    before = Path("m.bin").read_bytes()
    train(backend, "--profile", "--trace", "t.json")
    assert Path("m.bin").read_bytes() == before
