"""Times and rates that a training tells: computed by hand from steps and epochs of
known lengths."""

import csv
import itertools
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nn
from nn.backends.engine import PackJob, TimedStep
from nn.files.checkpoint import Checkpoint
from nn.study import sweep
from nn.test.out_of_fold import summary
from nn.train.engines import Ask
from nn.train.rows import Part
from nn.train.run import Run
from nn.utils import Stopped, StopRequest
from nn.watch.callbacks import Callback
from nn.watch.history import CsvHistory
from nn.watch.observe import inference_times, layer_times
from nn.watch.tensorboard import TensorBoard
from nn.watch.trace import Trace


def batch_of(begin: float, factor: float, lane: str = "") -> list[TimedStep]:
    """Return the steps of a batch of two dense layers, in milliseconds times factor."""
    lengths = [
        ("gather", None, 1),
        ("forward", 0, 2),
        ("forward", 1, 3),
        ("loss", None, 1),
        ("backward", 1, 6),
        ("update", 1, 1),
        ("backward", 0, 4),
        ("update", 0, 1),
        ("end", None, 1),
    ]
    steps = []
    for name, layer, ms in lengths:
        end = begin + ms * factor / 1e3
        step = TimedStep(name, layer, begin, end, lane)
        steps.append(step)
        begin = end
    return steps


def test_a_profile_is_medians_in_milliseconds_and_counts_two_operations_a_product():
    net = nn.Network("5,7,2", "regression")
    batches = [batch_of(k, factor) for k, factor in enumerate((1.0, 1.5, 9.0))]
    batches[0] += [TimedStep("forward", 0, 0.0, 99.0, "another GPU")]
    result = layer_times(net.layers, 10, batches)
    assert result["batches"] == 3
    assert result["rows"] == 10
    assert result["batch_ms"] == pytest.approx(1.5 * 20)
    expected = pytest.approx([1.5] * 3)
    assert [result[f"{name}_ms"] for name in ("gather", "loss", "end")] == expected
    first, second = result["layers"]
    keys = ("forward_ms", "backward_ms", "update_ms")
    expected = pytest.approx([3.0, 6.0, 1.5])
    assert [first[key] for key in keys] == expected
    expected = pytest.approx([4.5, 9.0, 1.5])
    assert [second[key] for key in keys] == expected
    expected = pytest.approx([7 / 20, 10 / 20])
    assert [first["share"], second["share"]] == expected
    expected = 2 * 10 * 5 * 7 / 3e-3 / 1e9
    assert first["gflops_forward"] == pytest.approx(expected)
    expected = 2 * 10 * 5 * 7 / 6e-3 / 1e9
    assert first["gflops_backward"] == pytest.approx(expected), "of its weights alone"
    expected = 2 * 2 * 10 * 7 * 2 / 9e-3 / 1e9
    assert second["gflops_backward"] == pytest.approx(expected), "and of its inputs"
    # below the first layer that learns nothing needs a gradient
    net = nn.Network("1x4x4,maxpool2,3,1", "regression")
    steps = [("backward", 2, 4), ("backward", 3, 8)]
    batch = [TimedStep(name, k, 0.0, ms / 1e3) for name, k, ms in steps]
    *_, third, fourth = layer_times(net.layers, 10, [batch])["layers"]
    assert third["gflops_backward"] == pytest.approx(2 * 10 * 12 / 4e-3 / 1e9)
    assert fourth["gflops_backward"] == pytest.approx(2 * 2 * 10 * 3 / 8e-3 / 1e9)


def test_a_call_takes_the_mean_of_its_threads_and_smaller_calls_do_not_count():
    """Two threads of three and one rows; a call of fewer rows is the last one."""
    net = nn.Network("5,7,2", "regression")

    def call(rows: int, factor: float) -> list[TimedStep]:
        return [
            TimedStep(name, layer, begin, begin + ms * factor / 1e3, lane, rows)
            for lane, begin, times in (("1", 0.0, 3.0), ("2", 5.0, 1.0))
            for name, layer, ms in (
                ("gather", None, 1 * times),
                ("forward", 0, 2 * times),
                ("forward", 1, 3 * times),
                ("forward", 1, 4 * times),
            )
        ]

    calls = [call(10, 1.0), call(10, 9.0), call(10, 2.0), call(3, 50.0)]
    result = inference_times(net.layers, calls)
    assert [result["calls"], result["rows"]] == [3, 10]
    # the median of the calls, 2, times the mean of the threads, 2
    expected = pytest.approx([4.0, 40.0])
    assert [result["gather_ms"], result["call_ms"]] == expected
    first, second = result["layers"]
    assert [first["forward_ms"], second["forward_ms"]] == pytest.approx([8.0, 28.0])
    assert [first["share"], second["share"]] == pytest.approx([0.2, 0.7])
    expected = 2 * 10 * 7 * 2 / 28e-3 / 1e9
    assert second["gflops_forward"] == pytest.approx(expected)


def read(path) -> list[dict]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_history_has_each_epochs_own_numbers_and_the_rate_at_its_beginning(
    tmp_path,
):
    history = CsvHistory(str(tmp_path / "h.csv"))
    done = [(4.0, 5.0, 2.0), (3.0, None, 1.0)]
    resumed = {"done": done, "metrics": [0.5, 0.625]}
    history.start(
        {
            "monitor": "roc_auc",
            "epochs": 5,
            "batches": 8,
            "learning_rate": 0.1,
            "schedule": "linear",
            "resumed": resumed,
        }
    )
    history.judged(3, "roc_auc", float("nan"), False)
    history.epoch(3, 5, 2.0, None, 1.23456789, 123.456789)
    history.judged(4, "roc_auc", 0.75, True)
    history.epoch(4, 5, 1.5, 2.5, 3.0, 4.0)
    history.refit(2, 100)
    history.epoch(1, 2, 9.0, None, 9.0, 9.0)
    history.close()
    names = ["epoch", "loss", "val_loss", "seconds", "us_per_batch", "val_metric"]
    table = read(tmp_path / "h.csv")
    expected = [
        ["1", "4.0", "5.0", "2", "250000", "0.5"],
        ["2", "3.0", "", "1", "125000", "0.625"],
        ["3", "2.0", "", "1.23457", "123.457", ""],
        ["4", "1.5", "2.5", "3", "4", "0.75"],
    ]
    assert [[line[name] for name in names] for line in table] == expected
    expected = pytest.approx([0.1, 0.08, 0.06, 0.04])
    assert [float(line["learning_rate"]) for line in table] == expected


def test_a_trace_has_microseconds_from_its_first_event(tmp_path):
    trace = Trace()
    net = nn.Network("5,7,2", "regression")
    trace.span("reading", "reading", 10.0, 10.5)
    trace.batches(net.layers, [batch_of(11.0, 1.0)])
    trace.write(str(tmp_path / "t.json"))
    events = {}
    for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"]:
        if event["ph"] == "X":
            events[event["name"]] = event
    assert [events["reading"][key] for key in ("ts", "dur")] == [0.0, 500_000.0]
    batch = [events["batch 1"][key] for key in ("ts", "dur")]
    assert batch == pytest.approx([1_000_000.0, 19_000.0]), "without its end"
    assert [events["backward 1 2"][key] for key in ("ts", "dur")] == pytest.approx(
        [1_007_000.0, 6_000.0]
    )
    layers = {name: event["args"].get("layer") for name, event in events.items()}
    assert layers["gather"] == "input"
    assert layers["loss"] == 1
    assert layers["update 0 7"] == 0


def test_what_holds_others_comes_before_them_in_the_rows_of_a_trace(tmp_path):
    trace = Trace()
    spans = {"inner": (1.0, 2.0), "early": (0.5, 0.75), "whole": (1.0, 4.0)}
    for row in ("GPU 0", ""):
        for name, (begin, end) in spans.items():
            trace.span(f"{name} {row}".strip(), "step", begin, end, row)
    trace.write(str(tmp_path / "t.json"))
    told = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = [event["name"] for event in told if event["ph"] == "X"]
    own = ["early", "whole", "inner"]
    assert names == [*own, *(f"{name} GPU 0" for name in own)]
    numbers = {e["args"]["name"]: e["tid"] for e in told if e["name"] == "thread_name"}
    assert numbers == {"training": 1, "GPU 0": 2}
    assert {e["tid"] for e in told if e["name"].endswith("GPU 0")} == {2}


def test_a_trace_has_the_validation_behind_the_rows_of_its_epoch(tmp_path, monkeypatch):
    """Epochs of 4 s, of which 3 s train; of the second one no rows are judged."""
    now = [10.0]
    monkeypatch.setattr("nn.watch.trace.time.perf_counter", lambda: now[0])
    trace = Trace()
    trace.start({})
    for epoch, val_loss in ((1, 0.5), (2, None)):
        now[0] += 4.0
        trace.epoch(epoch, 2, 0.25, val_loss, 3.0, 1.0)
    trace.write(str(tmp_path / "t.json"))
    told = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    spans = [
        [event["name"], event["ts"] / 1e6, event["dur"] / 1e6, event["args"]["loss"]]
        for event in told
        if event["ph"] == "X"
    ]
    assert spans == [
        ["epoch 1", 0.0, 4.0, 0.25],
        ["held-out rows", 3.0, 1.0, 0.5],
        ["epoch 2", 4.0, 4.0, 0.25],
    ]


def test_a_sweep_tells_milliseconds_of_batches_without_the_first_epoch():
    class Engine:
        def __init__(self, batches):
            self.recorded = lambda: batches

    epochs = sweep._EpochTimes()
    for us in (9000.0, 1000.0, 2000.0, 6000.0):
        epochs.epoch(1, 4, 0.0, None, 0.0, us)
    expected = {
        "batch_ms": 2.0,
        "batch_p95_ms": pytest.approx(np.percentile([1, 2, 6], 95)),
    }
    assert sweep._batch_times(Engine([]), epochs) == expected
    alone = sweep._EpochTimes()
    alone.epoch(1, 1, 0.0, None, 0.0, 9000.0)
    assert sweep._batch_times(Engine([]), alone)["batch_ms"] == 9.0
    recorded = [batch_of(k, factor) for k, factor in enumerate((1.0, 2.0, 5.0))]
    result = sweep._batch_times(Engine(recorded), epochs)
    expected = {"batch_ms": 40.0, "batch_p95_ms": np.percentile([20, 40, 100], 95)}
    assert result == pytest.approx(expected)


def test_folds_have_the_mean_and_the_deviation_of_a_sample():
    first = {"rows": 3, "threshold": 0.5, "f1": 1.0, "mcc": None}
    second = {"rows": 4, "threshold": 0.2, "f1": 0.5, "mcc": 0.25}
    third = {"rows": 3, "threshold": 0.1, "f1": 0.75, "mcc": 0.75}
    folds = [first, second, third]
    result = summary(folds)
    assert result["mean"] == pytest.approx({"f1": 0.75, "mcc": 0.5})
    expected = {"f1": 0.25, "mcc": (2 * 0.25**2) ** 0.5}
    assert result["std"] == pytest.approx(expected)


def test_the_history_of_an_effort_has_the_number_of_the_candidate(tmp_path):
    history = CsvHistory(str(tmp_path / "h.csv"))
    history.begin([0.5, 0.5])
    for candidate in (1, 2, 3):
        history.start(
            {
                "monitor": None,
                "epochs": 2,
                "batches": 8,
                "learning_rate": 0.1,
                "schedule": "constant",
                "resumed": None,
            }
        )
        for epoch in (1, 2):
            history.epoch(epoch, 2, float(candidate), None, 1.0, 1.0)
        history.close()
        history.ended("2,1", "loss 1")
    history.end()
    records = []
    for line in read(tmp_path / "h.csv"):
        records.append((line["candidate"], line["epoch"], line["loss"]))
    assert records == [
        (str(k), str(epoch), f"{k}.0") for k in (1, 2, 3) for epoch in (1, 2)
    ]


def test_the_loss_on_the_way_is_by_weights_as_that_of_the_epoch():
    """Two networks, which have done 4 and 6 of 8 rows of weight 2 each."""
    told = []
    member = SimpleNamespace(
        rows=SimpleNamespace(
            count=8, training=Part(None, np.arange(8), None, np.full(9, 2.0))
        ),
        epoch_rows=lambda: 8,
        at=SimpleNamespace(epoch=2),
    )
    callback = SimpleNamespace(update=lambda *numbers: told.append(numbers))
    run = SimpleNamespace(members=[member, member], callback=callback)
    # sums of the rows' losses, 0.5 and 1.5 each, by their weights
    asks = {
        number: Ask(
            "epoch",
            PackJob(0, None, np.arange(8), None, SimpleNamespace(row=row, loss=loss)),
        )
        for number, (row, loss) in enumerate([(4, 4 * 2 * 0.5), (6, 6 * 2 * 1.5)])
    }
    Run._show(run, asks)
    assert told == [(3, 5, 8, pytest.approx((4 * 0.5 + 6 * 1.5) / 10))]


@pytest.mark.parametrize("networks", [1, 2])
def test_each_epoch_has_its_own_seconds(networks, monkeypatch):
    """A second between two looks at the clock."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)
    monkeypatch.setattr(sys.modules["nn.train.member"], "time", clock)
    seconds = []
    x = np.random.default_rng(0).normal(size=(40, 2))
    ds = nn.Dataset(x, x[:, 0], "regression")
    net = nn.Network("2,1", "regression")
    how = {"epochs": 4, "networks": networks, "callback": Seconds(seconds)}
    result = nn.train(net, ds, **how)
    # two networks look by turns
    assert seconds == [seconds[0]] * 4
    assert seconds[0] <= 2
    assert result["seconds"] == 4 * seconds[0]


def test_a_training_tells_how_many_rows_train_judge_and_are_held_out():
    told = []

    class Told(Callback):
        def start(self, info):
            told.append([info[n] for n in ("rows", "validation", "holdout", "batches")])

    x = np.random.default_rng(0).normal(size=(200, 2))
    ds = nn.Dataset(x, x[:, 0], "regression")
    how = {"epochs": 1, "batch_number": 50, "callback": Told()}
    for given in ({}, {"validation": 0.25}, {"folds": 4}):
        nn.train(nn.Network("2,1", "regression"), ds, holdout=0.2, **given, **how)
    # of folds the rows of the first network, which its fold judges
    assert told == [[160, 0, 40, 4], [120, 40, 40, 3], [120, 0, 40, 3]]


def test_a_resumed_training_tells_the_seconds_of_before(tmp_path):
    """Of several networks those of the slowest, an epoch each."""
    told = []
    resumed = []

    class Told(Callback):
        def start(self, info):
            if info["resumed"]:
                resumed.extend(info["resumed"]["done"])

        def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
            told.append((loss, val_loss, seconds))
            if epoch == 3:
                stop.request(15)

    stop = StopRequest()
    x = np.random.default_rng(0).normal(size=(100, 2))
    ds = nn.Dataset(x, x[:, 0], "regression")
    how = {"epochs": 6, "networks": 3, "callback": Told(), "resume": "auto"}
    how["checkpoint"] = str(tmp_path / "c.ck")
    with pytest.raises(Stopped):
        nn.train(nn.Network("2,8,1", "regression"), ds, stop=stop, **how)
    before = told[:]
    stop = StopRequest()
    nn.train(nn.Network("2,8,1", "regression"), ds, stop=stop, **how)
    assert len(before) == 3
    assert [(*pair[:2],) for pair in resumed] == [(*pair[:2],) for pair in before]
    seconds = [pair[2] for pair in before]
    assert [pair[2] for pair in resumed] == pytest.approx(seconds)


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_resumed_training_goes_on_where_all_of_its_networks_are(
    tmp_path, monkeypatch, ahead
):
    """One of them may have ended an epoch more than the others when a signal came."""
    resumed = []
    epochs = []

    class Told(Callback):
        def start(self, info):
            resumed.append(info["resumed"])

        def epoch(self, epoch, epochs_of_run, *figures):
            epochs.append(epoch)
            if epoch == last:
                stop.request(15)

    def train(name):
        how = {"epochs": 5, "networks": 3, "callback": Told(), "resume": "auto"}
        net = nn.Network("2,4,1", "regression")
        nn.train(net, ds, stop=stop, checkpoint=str(tmp_path / name), **how)
        return net

    x = np.random.default_rng(0).normal(size=(100, 2))
    ds = nn.Dataset(x, x[:, 0], "regression")
    for last in (2, 3):
        stop = StopRequest()
        with pytest.raises(Stopped):
            train(f"{last}.ck")
    usual = Checkpoint.begin

    def begin(self, run, count):
        states = usual(Checkpoint(str(tmp_path / "2.ck"), resume="auto"), run, count)
        states[ahead] = usual(self, run, count)[ahead]
        return states

    last = 0
    stop = StopRequest()
    whole = train("none.ck")
    monkeypatch.setattr(Checkpoint, "begin", begin)
    epochs.clear()
    net = train("3.ck")
    assert resumed[-1]["epoch"] == len(resumed[-1]["done"]) == 2
    assert epochs == [3, 4, 5]
    for mixed, at_once in zip(net.members, whole.members, strict=True):
        assert np.array_equal(mixed.vector, at_once.vector)


def test_a_training_logs_microseconds_a_batch_of_each_epoch_and_of_the_median_one():
    messages = []

    class Told(Callback):
        def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
            messages.append((seconds, us_per_batch))

    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 2))
    net = nn.Network("2,1", "regression")
    y = x[:, 0]
    ds = nn.Dataset(x, y, "regression")
    result = nn.train(net, ds, epochs=4, holdout=0, batch_number=50, callback=Told())
    expected = [1e6 * seconds / 5 for seconds, _ in messages]
    assert [us for _, us in messages] == pytest.approx(expected)
    expected = 1e6 * np.median([seconds for seconds, _ in messages]) / 5
    assert result["us_per_batch"] == pytest.approx(expected)
    messages.clear()
    how = {"epochs": 4, "holdout": 0, "validation": 0.25, "refit": True}
    result = nn.train(net, ds, callback=Told(), **how)
    assert len(messages) > 4
    seconds = sum(seconds for seconds, _ in messages)
    assert result["seconds"] == pytest.approx(seconds), "of both trainings"
    expected = sum(seconds for seconds, _ in messages)
    assert result["seconds"] == pytest.approx(expected)


class Seconds(Callback):
    """The seconds of the epochs as they are told."""

    def __init__(self, told):
        self.told = told

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        self.told.append(seconds)


def test_several_networks_tell_microseconds_of_all_their_batches():
    """They are trained at the same time: three networks of four epochs of five
    batches."""
    x = np.random.default_rng(0).normal(size=(240, 2))
    net = nn.Network("2,1", "regression")
    ds = nn.Dataset(x, x[:, 0], "regression")
    seconds = []
    how = {"epochs": 4, "holdout": 0, "batch_number": 50}
    result = nn.train(net, ds, networks=3, callback=Seconds(seconds), **how)
    expected = 1e6 * result["seconds"] / (3 * 4 * 5)
    assert result["us_per_batch"] == pytest.approx(expected)
    # of the slowest network; the slowest of an epoch may be another one
    assert max(seconds) < result["seconds"] <= sum(seconds) * (1 + 1e-9)


def test_tensorboard_has_each_epochs_own_numbers_and_the_rate_at_its_beginning(
    tmp_path,
):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    pytest.importorskip("tensorboardX")
    net = nn.Network("2,1", "binary")
    board = TensorBoard(str(tmp_path), lambda: net)
    board.start(
        {
            "monitor": "roc_auc",
            "networks": 1,
            "epochs": 4,
            "learning_rate": 0.1,
            "schedule": "linear",
        }
    )
    board.judged(1, "roc_auc", 0.75, True)
    board.epoch(1, 4, 2.0, 3.0, 1.0, 10.0)
    board.judged(2, "roc_auc", 0.5, False)
    board.epoch(2, 4, 1.5, 2.5, 1.0, 20.0)
    board.refit(1, 50)
    board.epoch(1, 1, 1.25, None, 1.0, 30.0)
    board.close()
    result = reader.EventAccumulator(str(tmp_path))
    result.Reload()
    figures = {}
    for tag in result.Tags()["scalars"]:
        figures[tag] = [(event.step, event.value) for event in result.Scalars(tag)]
    learning_rate = [(1, pytest.approx(0.1)), (2, pytest.approx(0.075))]
    us_per_batch = [(1, 10.0), (2, 20.0)]
    assert figures == {
        "loss/training": [(1, 2.0), (2, 1.5)],
        "loss/validation": [(1, 3.0), (2, 2.5)],
        "metric/roc_auc": [(1, 0.75), (2, 0.5)],
        "us_per_batch": us_per_batch,
        "learning_rate": learning_rate,
        "refit/loss/training": [(1, 1.25)],
        "refit/us_per_batch": [(1, 30.0)],
        "refit/learning_rate": [(1, pytest.approx(0.1))],
    }
