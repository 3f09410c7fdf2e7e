"""What watches a training: --profile, --trace, --history and --logdir; an inference:
the first two."""

import csv
import itertools
import json
import resource
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import argv, run, start, succeed

import nn
from nn.backends.engine import EpochSettings
from nn.core.random import PhiloxOrder
from nn.watch.observe import InferenceObservers
from nn.watch.tensorboard import TensorBoard

LAYERS = "1x8x8,conv3k3,dropout0.25,maxpool2,5,1"
NAMES = ["conv3k3", "dropout0.25", "maxpool2", "flatten", "5", "1"]
STEPS = {"gather", "forward", "loss", "backward", "update", "communication", "end"}


def train(folder, *given_flags):
    x = np.linspace(-1, 1, 120 * 64, dtype=np.float32).reshape(120, 1, 8, 8)
    y = np.sin(9 * x).mean(axis=(1, 2, 3))
    np.savez(folder / "x.npz", x=x, y=y)
    flags = argv(f"--layers {LAYERS} --epochs 3 --batch_number 10 --schedule linear -q")
    return succeed(
        "--train",
        "--dataset",
        folder / "x.npz",
        "--model",
        folder / "m.bin",
        *flags,
        *given_flags,
    )


@pytest.fixture(scope="module", params=["omp", "seq"])
def watched(request, tmp_path_factory):
    """A training that is watched: the folder with its files, and the figures that it
    told."""
    folder = tmp_path_factory.mktemp("watched")
    flags = [
        "--trace",
        folder / "t.json",
        "--history",
        folder / "h.csv",
        "--profile",
        "--json",
    ]
    return folder, train(folder, *flags, "--backend", request.param).json


def events(folder, *categories):
    trace = json.loads((folder / "t.json").read_text())
    assert trace["displayTimeUnit"] == "ms"
    return [
        event
        for event in trace["traceEvents"]
        if event.get("cat") in categories or not categories
    ]


def history(folder):
    with open(folder / "h.csv", newline="") as file:
        return list(csv.DictReader(file))


def within(event, other):
    return (
        other["ts"] - 1e-6 <= event["ts"]
        and event["ts"] + event["dur"] <= other["ts"] + other["dur"] + 1e-6
    )


def test_the_steps_of_a_batch_add_up_to_it(watched):
    batches = events(watched[0], "batch")
    steps = events(watched[0], *STEPS)
    assert len(batches) == 20
    for batch in batches:
        inside = [step for step in steps if within(step, batch)]
        of_layers = [step for step in inside if "layer" in step["args"]]
        assert {step["name"].split()[0] for step in of_layers} >= {
            "forward",
            "backward",
        }
        expected = pytest.approx(batch["dur"], abs=1e-3 * len(inside))
        assert sum(step["dur"] for step in inside) == expected
        expected = pytest.approx(batch["dur"], rel=0.05)
        assert sum(step["dur"] for step in of_layers) == expected
    layers = {step["args"]["layer"] for step in steps if step["cat"] == "forward"}
    assert layers == set(range(6))


def test_a_trace_is_what_the_viewers_want_and_epochs_hold_their_batches(watched):
    spans = [event for event in events(watched[0]) if event["ph"] == "X"]
    for event in spans:
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid"} <= event.keys()
        assert event["ts"] >= 0
        assert event["dur"] >= 0
    for span in spans:  # of one row: apart, or one within the other
        for other in spans:
            apart = (
                span["ts"] + span["dur"] <= other["ts"] + 1e-6
                or other["ts"] + other["dur"] <= span["ts"] + 1e-6
            )
            assert apart or within(span, other) or within(other, span)
    names = {
        event["args"]["name"] for event in events(watched[0]) if event["ph"] == "M"
    }
    assert names == {"nn", "training"}
    epochs = events(watched[0], "epoch")
    batches = events(watched[0], "batch")
    assert [epoch["name"] for epoch in epochs] == ["epoch 1", "epoch 2", "epoch 3"]
    # the first 20
    assert [sum(within(batch, epoch) for batch in batches) for epoch in epochs] == [
        10,
        10,
        0,
    ]
    assert all(map(within, events(watched[0], "validation"), epochs))
    assert len(events(watched[0], "validation")) == 3
    (reading,) = events(watched[0], "reading")
    assert reading["ts"] == 0
    expected = str(watched[0] / "x.npz")
    assert reading["args"]["file"] == expected
    assert reading["ts"] + reading["dur"] <= epochs[0]["ts"]


def test_watching_does_not_change_the_model(watched):
    folder, result = watched
    before = (folder / "m.bin").read_bytes()
    train(folder, "--backend", result["backend"])
    assert (folder / "m.bin").read_bytes() == before


def test_nothing_is_noted_unless_asked_for():
    engine = nn.Network("2,4,1", "regression").engine
    data = engine.load(np.ones((50, 2), np.float32), np.ones((50, 1), np.float32))
    settings = EpochSettings(optimizer="adam", batch=10, rates=[0.001] * 9)
    for steps_noted in (0, 3):  # of 5: the window is full then
        if steps_noted:
            engine.record(steps_noted)
        engine.epoch(data, PhiloxOrder(50, 0).epoch(0), settings, engine.progress())
        assert len(engine.recorded()) == steps_noted
    steps = engine.recorded()[0]
    expected = [
        ("gather", None),
        ("forward", 0),
        ("forward", 1),
        ("loss", None),
        ("backward", 1),
        ("update", 1),
        ("backward", 0),
        ("update", 0),
        ("end", None),
    ]
    assert [(s.name, s.layer) for s in steps] == expected
    for before, step in itertools.pairwise(steps):
        assert step.begin == before.end


def test_the_profile_tells_every_layer_also_in_a_table(watched, tmp_path):
    output = train(tmp_path, "--profile").out
    header, *rows = output.splitlines()[1:]
    for name in ("forward ms", "backward ms", "share", "GFLOP/s"):
        assert name in header
    assert [row.split()[1] for row in rows[:6]] == NAMES
    profile = watched[1]["profile"]
    assert [layer["layer"] for layer in profile["layers"]] == NAMES
    assert profile["rows"] == 10
    assert profile["batches"] == 30
    shares = sum(layer["share"] for layer in profile["layers"])
    rest = (
        sum(profile[f"{name}_ms"] for name in ("gather", "loss", "end"))
        / profile["batch_ms"]
    )
    assert shares + rest == pytest.approx(1)
    first = profile["layers"][0]
    last = profile["layers"][-1]
    assert first["forward_ms"] > 0
    assert first["backward_ms"] > 0
    # 2 * rows * (outputs * inputs of each) operations: 3 maps of 6x6 from 3x3 windows;
    # 1 from 5
    expected = 2 * 10 * 3 * 36 * 9 / first["forward_ms"] / 1e6
    assert first["gflops_forward"] == pytest.approx(expected)
    expected = 2 * 10 * 3 * 36 * 9 / first["backward_ms"] / 1e6
    assert first["gflops_backward"] == pytest.approx(expected)
    expected = 2 * 2 * 10 * 5 / last["backward_ms"] / 1e6
    assert last["gflops_backward"] == pytest.approx(expected)
    assert profile["layers"][1]["gflops_forward"] is None


def threads_of(folder):
    """The names of the rows of the picture."""
    return [
        event["args"]["name"]
        for event in events(folder)
        if event["name"] == "thread_name"
    ]


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("mode", ["test", "predict"])
def test_an_inference_has_a_trace_and_a_profile_of_its_calls(folder, backend, mode):
    x = np.linspace(-1, 1, 20000 * 4, dtype=np.float32).reshape(20000, 4)
    np.savez("x.npz", x=x, y=np.sin(9 * x).mean(axis=1))
    net = nn.Network("4,32,1", "regression")
    net.export("m.bin")
    flags = ["--model", "m.bin", "--dataset", "x.npz", "--json", "--backend", backend]
    flags += ["--trace", "t.json", "--profile", "--threads", 1]
    if mode == "predict":
        flags += ["-o", "p.csv"]
    profile = succeed(f"--{mode}", *flags).json["profile"]
    assert threads_of(folder) == ["inference"]
    calls = events(folder, "call")
    rows = [call["args"]["rows"] for call in calls]
    # predict goes through the rows by 8192, test at once
    assert rows == {"predict": [8192, 8192, 3616], "test": [20000]}[mode]
    assert profile["rows"] == rows[0]
    assert profile["calls"] == rows.count(rows[0])
    assert [layer["layer"] for layer in profile["layers"]] == ["32", "1"]
    for number, layer in enumerate(profile["layers"]):
        operations = 2 * rows[0] * (4 * 32, 32)[number]
        expected = pytest.approx(operations / layer["forward_ms"] / 1e6)
        assert layer["gflops_forward"] == expected
    steps = events(folder, *STEPS)
    assert {step["cat"] for step in steps} <= {"gather", "forward"}
    for call in calls:
        inside = [step for step in steps if within(step, call)]
        forward = [step for step in inside if step["cat"] == "forward"]
        assert [step["args"]["layer"] for step in forward] == [0, 1]
        assert sum(step["dur"] for step in inside) <= call["dur"] + 0.01
    assert threads_of(folder) == ["inference"]
    assert len(events(folder, "reading")) == 1


def test_a_profile_of_an_inference_is_a_table_beside_the_predictions(folder):
    np.savez("x.npz", x=np.ones((300, 4)), y=np.linspace(0, 0.9, 300))
    nn.Network("4,32,1", "regression").export("m.bin")
    flags = ["--model", "m.bin", "--dataset", "x.npz", "--profile", "-q"]
    for given in (["--test"], ["--predict", "-o", "p.csv"]):
        out = succeed(*given, *flags).out
        assert "median of 1 calls of 300 rows" in out
        assert "GFLOP/s" in out
        assert "0  32" in out
    refused = run("--predict", *flags)
    assert refused.code == 2
    assert "--profile" in refused.err
    assert "--output" in refused.err
    figures = succeed("--predict", *flags, "--json").json
    assert len(figures["rows"]) == 300
    assert figures["profile"]["rows"] == 300


def test_scores_that_a_model_keeps_are_not_computed_and_a_line_says_so(two, folder):
    given = ("--layers", "2,4,1", "--folds", 2, "--epochs", 1, "-q")
    succeed("--train", "--dataset", "two.csv", "--model", "m.bin", *given)
    effort = ("--effort", "quick", "--epochs", 1, "-q")
    succeed("--train", "--dataset", "two.csv", "--model", "e.bin", *effort)
    for model, words in (("m.bin", ""), ("e.bin", "name a data set")):
        result = succeed("--test", "--model", model, "--profile", "--json")
        assert ("profile" in result.json) == (not words)
        assert words in result.err


def test_nothing_of_a_training_is_noted_as_a_call_and_nothing_of_a_call_as_a_batch():
    engine = nn.Network("2,4,1", "regression").engine
    data = engine.load(np.ones((50, 2), np.float32), np.ones((50, 1), np.float32))
    settings = EpochSettings(optimizer="adam", batch=10, rates=[0.001] * 9)
    rows = np.arange(50)
    engine.record(3)
    engine.predict(data)
    engine.loss(data, rows)
    assert engine.recorded() == []
    engine.epoch(data, rows, settings, engine.progress())
    engine.record(2, predicts=True)
    for count in (50, 7, 9):
        engine.loss(data, rows)
        engine.predict(data, rows[:count])
    calls = engine.recorded()
    assert [call[0].rows for call in calls] == [50, 7]
    expected = [("gather", None), ("forward", 0), ("forward", 1), ("end", None)]
    for call in calls:
        assert [step[:2] for step in call] == expected


@pytest.mark.parametrize(
    ("profile", "traced", "noted"), [(True, 20, 25), (False, 20, None), (True, 0, 25)]
)
def test_a_trace_has_twenty_calls_and_a_profile_beside_it_all(
    profile, traced, noted, tmp_path
):
    net = nn.Network("2,4,1", "regression", backend="seq")
    path = str(tmp_path / "t.json")
    flags = SimpleNamespace(profile=profile, trace=path if traced else None, dataset="")
    observers = InferenceObservers(flags, net, (0.0, 0.0))
    for _ in range(25):
        net.predict(np.ones((3, 2)))
    result = observers.finish()
    assert result.get("profile", {}).get("calls") == noted
    if traced:
        events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        calls = [event for event in events if event.get("cat") == "call"]
        assert [event["args"] for event in calls] == [{"rows": 3}] * traced


# alone: many rows that threads take as they come; together: all threads in each layer
@pytest.mark.parametrize(
    ("spec", "rows"),
    [("30,40,1", 6000), ("900,700,600,1", 8)],
    ids=["alone", "together"],
)
def test_each_thread_of_an_inference_has_a_row(spec, rows):
    threads = 2
    net = nn.Network(spec, "regression", backend="omp", threads=threads)
    if not net.engine.threads > 1:
        pytest.skip("built without OpenMP")
    data = net.engine.load(np.ones((rows, net.inputs), np.float32))
    net.engine.record(20, predicts=True)
    for _ in range(20):
        net.engine.predict(data)
    lanes = {step.lane for call in net.engine.recorded() for step in call}
    assert lanes == {"", "thread 2"}
    for call in net.engine.recorded():
        assert {step.layer for step in call} >= set(range(len(net.layers)))


@pytest.mark.parametrize(
    ("spec", "batch"),
    [
        ("900,700,600,1", 64),
        ("30,40:tanh,1", 4000),
        ("1x12x12,conv8k3,maxpool2,40,1", 400),
    ],
    ids=["layers", "micro-batches", "fused"],
)
def test_each_thread_of_a_training_has_a_row(folder, spec, batch):
    net = nn.Network(spec, "regression", backend="omp", threads=2)
    if net.engine.threads_for(batch) < 2:
        pytest.skip("one thread trains this network here")
    rows = 3 * batch
    x = np.ones((rows, net.inputs), np.float32)
    data = net.engine.load(x, np.ones((rows, 1), np.float32))
    net.engine.record(20)
    settings = EpochSettings(optimizer="adam", batch=batch, rates=[0.001] * 9)
    net.engine.epoch(data, np.arange(rows), settings, net.engine.progress())
    batches = net.engine.recorded()
    assert len(batches) == 3
    for steps in batches:
        by_lane = {}
        for step in steps:
            by_lane.setdefault(step.lane, []).append(step)
        assert by_lane.keys() == {"", "thread 2"}
        for lane in by_lane.values():
            names = [step.name for step in lane if step.end > step.begin]
            assert {"forward", "backward"} <= {*names}
            for before, step in itertools.pairwise(lane):
                assert step.begin == before.end
        # none ends the batch before all have begun it
        begins = [lane[0].begin for lane in by_lane.values()]
        assert max(begins) < min(lane[-1].end for lane in by_lane.values())
    for steps, following in itertools.pairwise(batches):
        assert steps[0].begin < following[0].begin


def test_the_history_has_a_line_an_epoch(watched, tmp_path):
    lines = history(watched[0])
    result = watched[1]
    numbers = [int(line["epoch"]) for line in lines]
    assert numbers == [1, 2, 3]
    numbers = [float(line["loss"]) for line in lines]
    assert numbers == result["loss"]
    numbers = [float(line["val_loss"]) for line in lines]
    assert numbers == result["val_loss"]
    expected = pytest.approx([0.001, 0.001 * 2 / 3, 0.001 / 3])
    assert [float(line["learning_rate"]) for line in lines] == expected
    for line in lines:
        assert float(line["seconds"]) > 0
        assert float(line["us_per_batch"]) > 0
    train(tmp_path, "--history", tmp_path / "h.csv", "--holdout", 0)
    val_losses = [line["val_loss"] for line in history(tmp_path)]
    assert val_losses == ["", "", ""]


@pytest.mark.parametrize("flags", [[], ["--networks", 2], ["--folds", 2]], ids=str)
def test_tensorboard_reads_what_was_logged(folder, flags):
    pytest.importorskip(
        "tensorboardX", reason="skipped: no tensorboardX (extra `tensorboard`)"
    )
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="no tensorboard",
    )
    result = train(folder, "--logdir", "log", "--json", *flags).json
    board = accumulator.EventAccumulator("log", size_guidance={"histograms": 0})
    board.Reload()
    cases = (("loss/training", result["loss"]), ("loss/held-out", result["val_loss"]))
    for name, values in cases:
        scalars = board.Scalars(name)
        assert [scalar.step for scalar in scalars] == [1, 2, 3]
        assert [scalar.value for scalar in scalars] == pytest.approx(values, rel=1e-6)
    assert {"learning_rate", "us_per_batch"} <= set(board.Tags()["scalars"])
    # the scalars of several networks are means
    assert bool(board.Tags()["histograms"]) == (not flags)
    if flags:
        parameters = {}
    else:
        parameters = nn.Network.load("m.bin").parameters()
    for name, values in parameters.items():
        histograms = board.Histograms(name.replace(".", "/"))
        steps = [histogram.step for histogram in histograms]
        assert steps == [0, 1, 2, 3]
        last = histograms[-1].histogram_value
        assert last.min == values.min()
        assert last.max == values.max()
        assert last.num == values.size
    nodes = board.Graph().node
    expected = [
        "input",
        "conv",
        "dropout",
        "maxpool",
        "flatten",
        "dense",
        "dense",
        "loss",
    ]
    assert [node.op for node in nodes] == expected
    for before, node in itertools.pairwise(nodes):
        assert node.input == [before.name]
    described = nn.Network.of_file("m.bin").layers
    assert nodes[0].attr["shape"].s == str(list(described[0].in_shape)).encode()
    for node, layer in zip(nodes[1:-1], described, strict=True):
        facts = layer.out_shape, layer.output_function, layer.parameters
        told = [node.attr[name].s for name in ("shape", "activation", "parameters")]
        assert told == [str(fact).encode() for fact in facts]


def test_of_a_large_weight_every_second_or_third_value_is_in_its_histogram(
    tmp_path, monkeypatch
):
    pytest.importorskip("tensorboardX", reason="no tensorboardX")
    monkeypatch.setattr("nn.watch.tensorboard.HISTOGRAM_VALUES", 5)
    net = nn.Network("6,2:relu,1", "regression")
    board = TensorBoard(str(tmp_path / "log"), lambda: net)
    told = {}

    def add(**fields):
        if "summary" not in fields:
            return
        for value in fields["summary"].value:
            told[value.tag] = value.histo

    monkeypatch.setattr(board, "_add", add)
    board.start({"networks": 1})
    for name, values in net.parameters().items():
        every = {12: 3, 2: 1, 1: 1}[values.size]
        kept = values.reshape(-1)[::every]
        histogram = told[name.replace(".", "/")]
        assert histogram.num == len(kept)
        assert histogram.sum == pytest.approx(kept.sum(), rel=1e-6)


def test_a_disk_that_becomes_full_keeps_whole_events_and_the_model(two, folder):
    pytest.importorskip(
        "tensorboardX", reason="skipped: no tensorboardX (extra `tensorboard`)"
    )
    most = 1 << 16
    given = argv("--layers 2,8,1 --epochs 60 --model m.bin --logdir log --quiet")
    limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
    process = start("--train", "--dataset", "two.csv", *given, preexec_fn=limited)
    _, err = process.communicate(timeout=60)
    (log,) = (folder / "log").iterdir()
    assert process.returncode == 73
    assert (
        err
        == f"nn: {log.relative_to(folder)}: cannot write: File too large; m.bin is written\n"
    )
    events = log.read_bytes()
    at = 0
    net = nn.Network.load("m.bin")
    assert len(net.history["loss"]) == 60
    assert most // 2 < len(events) <= most
    # a length of 8 bytes and 4 of its checksum, then the event and 4 of its checksum
    while at < len(events):
        at += 12 + int.from_bytes(events[at : at + 8], "little") + 4
    assert at == len(events)


def test_an_unwritable_trace_and_a_missing_package_are_said_before_training(
    two, folder, monkeypatch
):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    failures = {
        ("--trace", "no/t.json"): (73, "no/t.json"),
        ("--logdir", "log"): (2, 'pip install "tensorboardX>=2.6"'),
    }
    for flags, (code, words) in failures.items():
        result = run("--train", "--dataset", "two.csv", "--model", "m.bin", *flags)
        assert result.code == code, flags
        assert words in result.err, flags
        assert not (folder / "m.bin").exists(), flags
