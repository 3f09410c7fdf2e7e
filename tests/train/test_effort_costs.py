"""What an effort takes: never more than the next higher one, in operations and in
parameters, on any shape."""

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import nn
from nn.nn_aux import EFFORTS, USUAL_PATIENCES
from nn.train import duration
from nn.train.candidates import WIDE
from nn.train.effort_plan import EffortPlan, Planned

SHAPES = [(50, 20), (20, 300), (100, 700), (12_000, 20), (100_000, 20)]
LARGER_SHAPES = [
    pytest.param(*shape, marks=pytest.mark.long)
    for shape in ((20, 1000), (100, 2500), (12_000, 150))
]


def chosen(ds, effort):
    """Return (operations of all candidates, parameters of the largest network)."""
    candidates = EffortPlan(ds, effort, {}, {"threads": 1}).candidates()
    largest = max(net.parameter_count for _, net, _ in candidates)
    total = sum(cost for *_, cost in candidates)
    return total, largest


def told(rows, threads):
    """Return the least and the most seconds that are told."""
    x = np.random.default_rng(0).random((rows, 10), np.float32)
    planned = EffortPlan(nn.Dataset(x, x[:, 0], "regression"), "standard", {}, {})
    return duration.seconds_of(planned.candidates(), threads)


def test_the_seconds_that_are_told_follow_rows_threads_and_machine(monkeypatch):
    usual = duration.OF_SAMPLE
    monkeypatch.setattr(duration, "sample_seconds", lambda dtype: usual)
    least, most = told(1000, 1)
    assert 0.3 < least < most / 2 < 5
    assert told(4000, 1)[0] > 3 * least
    assert told(1000, 4)[0] < 0.5 * least
    assert told(1000, 64) == told(1000, 8), "a thread for each network is enough"
    monkeypatch.setattr(duration, "sample_seconds", lambda dtype: 2 * usual)
    assert told(1000, 1) == pytest.approx((2 * least, 2 * most))


def test_the_seconds_that_are_told_are_those_of_operations_batches_and_epochs(
    monkeypatch,
):
    """Two threads; of rows that folds judge five networks, of validation rows two."""
    times = {"float32": duration.OF_SAMPLE, "float64": 3 * duration.OF_SAMPLE}
    monkeypatch.setattr(duration, "sample_seconds", times.get)
    net = SimpleNamespace(parameter_count=500, dtype="float64")
    folds = replace(WIDE, folds=5, epochs=100, patience=4, batch_number=16)
    share = replace(folds, folds=None, epochs=10, batch_number=100)
    planned = [Planned(folds, net, 4e9), Planned(share, net, 1e9)]
    seconds = duration.OF_CHOICE
    for networks, epochs, operations, batch in (
        (5, USUAL_PATIENCES * 4, 4e9, 16),
        (2, 10, 1e9, 100),
    ):
        batches = operations / 500 / batch
        of_one_thread = duration.OF_OPERATION * operations
        of_one_thread += duration.OF_BATCH * batches
        of_one_thread += duration.OF_NETWORK_EPOCH * networks * epochs
        seconds += duration.OF_CANDIDATE + of_one_thread / 2**duration.SHARING
    expected = pytest.approx((3 * seconds / 2, 3 * 2 * seconds))
    assert duration.seconds_of(planned, 2) == expected


def test_the_sample_is_timed_without_its_first_epoch(monkeypatch):
    clock = [100.0]

    def epoch(engine, *given):
        clock[0] += 9.0 if clock[0] == 100 else 0.25

    engine = type(nn.Network("2,1", "regression", backend="omp").engine)
    monkeypatch.setattr(engine, "epoch", epoch)
    monkeypatch.setattr(
        duration, "time", SimpleNamespace(perf_counter=lambda: clock[0])
    )
    assert duration.sample_seconds("float32") == 0.25
    assert clock[0] == 109 + 0.25 * (duration.SAMPLES - 1)


@pytest.mark.timing
def test_a_training_takes_as_long_as_is_told():
    x = np.random.default_rng(0).random((1000, 10), np.float32)
    began = time.process_time()
    duration.sample_seconds("float32")
    assert time.process_time() - began < 0.05
    least, most = told(1000, 1)
    began = time.perf_counter()
    nn.fit(x, x[:, 0] * x[:, 1], threads=1)
    assert 0.5 * least < time.perf_counter() - began < 3 * most


@pytest.mark.usual(0, 4)
@pytest.mark.parametrize("rows, columns", [*SHAPES, *LARGER_SHAPES])
@pytest.mark.parametrize("kind", ["numbers", "sparse"])
def test_an_effort_costs_no_more_than_the_next_higher_one(rows, columns, kind):
    rng = np.random.default_rng(0)
    x = rng.random((rows, columns), np.float32)
    if kind == "sparse":  # most are one usual value, 0
        x[x < 0.9] = 0
    ds = nn.Dataset(x, rng.random(rows), "regression")
    costs = [chosen(ds, effort) for effort in EFFORTS]
    for lower, higher in itertools.pairwise(costs):
        assert lower[0] <= higher[0]
        assert lower[1] <= higher[1]


@pytest.mark.slow
def test_a_wide_table_of_few_rows_is_quick():
    rng = np.random.default_rng(0)
    x = rng.random((100, 3500), np.float32)
    operations, parameters = chosen(nn.Dataset(x, x[:, 0], "regression"), "quick")
    assert operations < 1e10
    assert parameters < 500_000


WIDE_SHAPES = [(60, 300), (60, 1000), (60, 3000)]
WIDEST_SHAPES = [
    pytest.param(*shape, marks=pytest.mark.long)
    for shape in ((100, 7000), (30, 20_000))
]


@pytest.mark.usual(1)
@pytest.mark.parametrize("rows, columns", [*WIDE_SHAPES, *WIDEST_SHAPES])
def test_the_least_effort_keeps_to_its_budget_in_wide_tables(rows, columns):
    rng = np.random.default_rng(0)
    x = rng.random((rows, columns), np.float32)
    operations, _ = chosen(nn.Dataset(x, x[:, 0], "regression"), "quick")
    assert operations <= EFFORTS["quick"]


@pytest.mark.parametrize("rows", [60, 12_000])
@pytest.mark.parametrize("columns", [100, 300, 1000, 3000, 7000, 20_000])
def test_of_the_widths_of_all_tables_an_effort_costs_no_more_than_the_next(
    rows, columns, monkeypatch
):
    """By the parameters of networks of so many columns, without making them."""

    class Counted:
        def __init__(self, candidate):
            numbers = {None: 1, "pieces16": 17, "pieces32": 33, "pieces48": 49}
            per_column = numbers.get(candidate.number_embedding, 33)
            sizes = [columns * per_column, *map(int, candidate.hidden.split("-")), 1]
            self.parameter_count = sum(a * b + b for a, b in itertools.pairwise(sizes))
            self.layers = (candidate.hidden, candidate.number_embedding)

    indices = np.arange(rows, dtype=np.float64)
    ds = nn.Dataset(np.zeros((rows, 2), np.float32), indices, "regression")
    costs = []
    for name in EFFORTS:
        plan = EffortPlan(ds, name, {}, {"threads": 1})
        plan.is_by_share = False
        plan.rows = np.arange(rows)
        plan.encoded_network = Counted
        costs.append(sum(one.operations for one in plan.candidates()))
    assert costs == sorted(costs)
    if columns <= 7000 and rows < 1000:
        assert costs[0] <= EFFORTS["quick"]
