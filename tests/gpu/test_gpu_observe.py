"""--profile and --trace on the GPU: times by events, layer by layer."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, succeed

# flatten counts, too
LAYERS = "1x12x12,conv16k3p1,dropout0.25,conv20k3,maxpool2,40,1"
LEARNERS = {0, 2, 5, 6}


@pytest.fixture(autouse=True)
def images(folder):
    grid = np.linspace(-1, 1, 600 * 144, dtype=np.float32)
    x = grid.reshape(600, 1, 12, 12)
    mean = np.sin(9 * x).mean(axis=(1, 2, 3))
    np.savez("x.npz", x=x, y=mean)


def train(backend, *options):
    flags = argv(f"--dataset x.npz --layers {LAYERS} --epochs 3 --batch_number 20 -q")
    return succeed(
        "--train", "--model", "m.bin", "--backend", backend, *flags, *options
    )


def events(**facts):
    """What the trace has with these facts."""
    trace = json.loads(Path("t.json").read_text())
    return [event for event in trace["traceEvents"] if facts.items() <= event.items()]


def inside(event, outer):
    return (
        outer["ts"] - 1e-3 <= event["ts"]
        and event["ts"] + event["dur"] <= outer["ts"] + outer["dur"] + 1e-3
    )


def test_the_steps_of_a_traced_batch_add_up_to_it(backend):
    train(backend, "--trace", "t.json")
    batches = events(cat="batch")
    epochs = events(cat="epoch")
    assert len(batches) == 20
    assert len(epochs) == 3
    steps = [
        step
        for name in ("gather", "forward", "loss", "backward", "update")
        for step in events(cat=name)
    ]
    lanes = {
        event["args"]["name"]: event["tid"] for event in events(name="thread_name")
    }
    tids = {step["tid"] for step in steps}
    assert tids == {lanes["gpu"]}
    for batch in batches:
        assert batch["tid"] == lanes["training"]
        assert inside(batch, epochs[0])
        batch_steps = [step for step in steps if inside(step, batch)]
        layers = {
            step["args"]["layer"] for step in batch_steps if step["cat"] == "update"
        }
        assert layers == LEARNERS
        total = sum(step["dur"] for step in batch_steps)
        assert total == pytest.approx(batch["dur"], rel=0.05)


def test_the_layers_of_a_profile_add_up_to_the_batch(backend):
    profile = train(backend, "--profile", "--json").json["profile"]
    steps = ("forward_ms", "backward_ms", "update_ms")
    layers = sum(layer[step] for layer in profile["layers"] for step in steps)
    rest = sum(profile.get(f"{name}_ms", 0.0) for name in ("gather", "loss"))
    assert profile["batch_ms"] > 0
    assert layers + rest == pytest.approx(profile["batch_ms"], rel=0.05)
    # cuda: done by the convolution
    if backend == "cudnn":
        by_others = ("flatten",)
    else:
        by_others = ("flatten", "maxpool2")
    for number, layer in enumerate(profile["layers"]):
        assert (layer["update_ms"] > 0) == (number in LEARNERS)
        assert (layer["forward_ms"] > 0) == (layer["layer"] not in by_others)


def test_watching_does_not_change_the_model(backend):
    train(backend)
    before = Path("m.bin").read_bytes()
    train(backend, "--profile", "--trace", "t.json")
    assert Path("m.bin").read_bytes() == before
