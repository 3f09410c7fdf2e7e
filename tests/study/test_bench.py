"""The benchmark: its cases, its measurements, and that what it times is right."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import REPOSITORY, run, succeed

import nn
from nn.study import bench
from nn.study.bench import CASES, CC, Forward, Product, TrainStepCase, select
from nn.utils import UsageError

sys.path.append(str(REPOSITORY))
from tests.bench.compare import MEMORY_TARGET, measure
from tests.bench.growth import WIDTHS, width_case
from tests.bench.sides import Nn, needed_bytes
from tests.bench.truth import error, truth

TRAINING = [
    case for case in CASES if isinstance(case, TrainStepCase) and case.networks == 1
]
SMALL = [
    TrainStepCase("small", CC, 10, 3, "sgd", 0.01),
    Forward("small-forward", CC, 7),
    Product("small-product", 5, 7, 3, transposed="a"),
    TrainStepCase("small-x3", CC, 10, 3, "sgd", 0.01, networks=3),
]


@pytest.fixture
def quick(monkeypatch):
    """Measure as little as possible."""
    monkeypatch.setattr(bench, "MEASURING_SECONDS", 0.0)


def test_a_name_selects_its_one_case_and_a_beginning_all_of_them():
    names = {case.name for case in CASES}
    assert len(names) == len(CASES)
    names = [case.name for case in select(["cc-b10"])]
    assert names == ["cc-b10"]
    names = {case.name for case in select(["cnn0", "cnn"])}
    assert names >= {"cnn0", "cnn2", "cnn1-forward-1"}
    assert select() == CASES
    with pytest.raises(UsageError, match="no case solr"):
        select(["solr"])


def test_a_case_has_its_operations_and_the_same_data_and_a_duration_three_digits():
    forward = 30 * 60 + 60 * 10 + 10  # backward takes twice that, but for the input
    expected = 2 * 10 * (3 * forward - 30 * 60)
    assert TrainStepCase("", CC, 10, 1).operations == expected
    x, y = CC.data(1000, "float32")
    assert (x == CC.data(1000, "float32")[0]).all(), "labels are balanced"
    assert y.mean() == 0.5, "labels are balanced"
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 1) < 0.02
    durations = [bench.duration(us) for us in (0.8, 12.345, 2486, 999_400, 18.54e6)]
    assert durations == ["0.80 us", "12.3 us", "2.49 ms", "999 ms", "18.5 s"]


@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_a_measured_epoch_trains(backend):
    started = SMALL[0].start(backend)
    before = started.network.engine.get("parameters")
    assert started.once() > 0
    assert (started.network.engine.get("parameters") != before).any()


def test_the_table_has_every_case_on_every_backend_but_slow_ones_only_if_named(
    quick, monkeypatch, capsys
):
    monkeypatch.setattr(bench, "CASES", SMALL)
    result = bench.bench()
    expected = [(case.name, backend) for case in SMALL for backend in ("seq", "omp")]
    assert [
        (r["case"], r["backend"])
        for r in result["results"]
        if r["backend"] in ("seq", "omp")
    ] == expected
    by_case = {(r["case"], r["backend"]): r for r in result["results"]}
    for r in result["results"]:
        assert r["us"] > 0
        assert r["gflops"] > 0
        assert r["times_seq"] == by_case[r["case"], "seq"]["us"] / r["us"]
    bench.report(result)
    out = capsys.readouterr().out
    assert "times seq" in out
    assert f"{by_case[SMALL[0].name, 'omp']['times_seq']:.3g}  " in out
    assert all(out.count(case.name + " ") >= 2 for case in SMALL)
    monkeypatch.setattr(bench, "LONGEST_SECONDS", 0.0)
    result = bench.bench()
    assert not result["results"]
    assert bench.bench(["small-product"])["results"]
    expected = [case.name for case in SMALL]
    assert [s["case"] for s in result["skipped"] if s["backend"] == "omp"] == expected


def test_the_command_line_prints_one_object_and_refuses_an_unknown_case(quick):
    result = succeed(
        "bench", "cc-b10,cc-forward-1", "--backend", "omp", "--threads", 1, "--json"
    ).json
    pairs = [(r["case"], r["threads"]) for r in result["results"]]
    assert pairs == [("cc-b10", 1), ("cc-forward-1", 1)]
    assert [r["times_seq"] for r in result["results"]] == [None, None]
    wrong = run("--bench=cc-b11")
    assert wrong.code == 2
    assert "cc-b11" in wrong.err
    assert len(wrong.err.splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["cc-b10", "cc-b10-float64", "cc-b32-adam", "digits", "cnn0", "solar-50"]
)
def test_the_timed_loop_steps_along_the_true_gradient(name):
    """1e-5, 1e-12: the tolerances of docs/numbers.md for one batch's gradients; the
    step's difference loses less."""
    case = select([name])[0]
    assert (
        error(Nn().gradients(case), truth(case))
        < {"float32": 1e-5, "float64": 1e-12}[case.dtype]
    )


@pytest.mark.usual(8)
@pytest.mark.parametrize(
    "case", [*TRAINING, *map(width_case, WIDTHS)], ids=lambda case: case.name
)
def test_the_engine_holds_at_most_two_and_a_half_times_what_a_step_needs(case):
    """On 2 threads, after an epoch. The step needs: parameters, the optimiser's moments
    (Adam: two vectors as long as they), and one batch's input and the output of every
    layer but flatten. The engine holds beside these gradients, packed operands, zeros
    that fill rows up to whole vectors, the targets: all it has but the data set itself.
    It may do with less: outputs that only the next layer reads, forward, are not kept
    for the whole batch."""
    run = replace(case, batches=1).start("omp", threads=2)
    run.once()
    parameters = run.network.engine.get("parameters")
    if case.optimizer == "adam":
        moments = 2
    else:
        moments = 0
    layers = [layer for layer in run.network.layers if layer.kind != "flatten"]
    values = layers[0].inputs + sum(layer.outputs for layer in layers)
    needed = parameters.itemsize * (
        (1 + moments) * parameters.size + case.batch * values
    )
    assert needed == needed_bytes(case)
    assert (
        parameters.itemsize * (1 + moments) * parameters.size
        < run.network.engine.bytes()
        <= MEMORY_TARGET * needed
    )


def test_truth_of_a_product_is_numpys_and_sides_of_several_networks_compute_it():
    a, b = (case := SMALL[2]).factors()
    assert error(a @ b, truth(case)) < 1e-6
    assert np.linalg.norm(truth(case)) > 1
    once, gradients, _ = Nn().start(SMALL[-1])
    # float32
    assert once() > 0
    assert error(gradients, truth(SMALL[-1])) < 1e-5


@pytest.mark.slow
def test_a_build_against_itself_takes_the_same_time_and_is_a_checkout_with_the_case(
    tmp_path, monkeypatch
):
    """Both checkouts are one with the package under test. The bounds are wide: a round
    is short and others use the machine."""
    for cases, against, message in (
        ([], tmp_path, "expected tests/bench"),
        (["solr"], REPOSITORY, "no case solr"),
    ):
        with pytest.raises(UsageError, match=message):
            measure(cases, against=str(against), threads=1, rounds=1)
    (tmp_path / "tests").symlink_to(REPOSITORY / "tests")
    directory = Path(nn.__file__).parent
    (tmp_path / "nn").symlink_to(directory)
    monkeypatch.setattr("tests.bench.compare.ROOT", tmp_path)
    names = ["cc-b10", "cc-forward-1", "product-thin", "width-50"]
    result = measure(
        names, against=str(tmp_path), threads=1, rounds=3, turn_seconds=0.005
    )
    mean, _ = result["geometric_means"]["old"]
    assert [r["case"] for r in result["results"]] == names
    assert 0.2 < mean < 5
    ratios = [r["peers"]["old"]["ratio"] for r in result["results"]]
    expected = np.prod(ratios) ** 0.25
    assert mean == pytest.approx(expected)


def test_a_median_is_without_the_first_measurement_and_units_change_at_a_thousand(
    monkeypatch,
):
    now = [0.0]
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])

    def measured(*seconds: float):
        left = list(seconds)

        def once() -> float:
            now[0] += left[0]
            return left.pop(0)

        return once

    assert bench.median_seconds(measured(9.0, 1.0, 2.0, 6.0), 18.0) == 2.0
    assert bench.median_seconds(measured(9.0, 1.0), 0.5) == 9.0
    assert [bench.duration(us) for us in (1000.0, 1e6, 2e9)] == [
        "1.00 ms",
        "1.00 s",
        "2000 s",
    ]


def test_times_are_of_a_batch_and_network_or_of_a_call_and_figures_have_their_units(
    monkeypatch,
):
    case = SimpleNamespace(name="made up", operations=4e6, dtype="float32", per="call")
    case.start = lambda backend, threads: bench.PreparedCase(lambda: 0.002, 3)
    monkeypatch.setattr(bench, "MEASURING_SECONDS", 0.0)
    result = bench.measure(case, "omp")
    assert result["us"] == pytest.approx(2000)
    assert result["gflops"] == pytest.approx(2)
    assert result["threads"] == 3
    assert result["bytes"] is None
    cases = ((SMALL[0], 6.0 / 3), (SMALL[3], 6.0 / 3 / 3))
    for case, seconds in cases:
        started = case.start("omp", 1)
        now = iter((1.0, 7.0))
        monkeypatch.setattr(bench.time, "perf_counter", lambda now=now: next(now))
        assert started.once() == pytest.approx(seconds)
    ticks = iter(range(100))
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(ticks) / 4000)
    calls = []
    once = bench.timed(lambda: calls.append(1))
    assert len(calls) == 4
    expected = pytest.approx(1 / 4000 / 4)
    assert once() == expected


def test_a_table_of_measurements_has_each_figure_in_its_column_and_unit(capsys):
    whole = {"case": "a", "backend": "omp", "dtype": "float32", "threads": 2}
    whole |= {"per": "batch", "us": 1500.0, "gflops": 12.34, "bytes": 2_510_000}
    alone = whole | {"case": "b", "threads": 1, "times_seq": None, "bytes": None}
    skipped = [
        {"case": None, "backend": "cuda", "reason": "no GPU"},
        {"case": "c", "backend": "seq", "reason": "takes long"},
    ]
    results = [whole | {"times_seq": 3.456}, alone]
    bench.report(
        {"processor": "P9", "cores": 4, "results": results, "skipped": skipped}
    )
    title, headers, *lines = [
        re.split(" {2,}", line) for line in capsys.readouterr().out.splitlines() if line
    ]
    assert title == ["P9, 4 cores"]
    expected = "case backend type threads time per times_seq GFLOP/s memory"
    assert [header.replace(" ", "_") for header in headers] == expected.split()
    start = ["a", "omp", "float32", "2", "1.50 ms"]
    assert lines[0] == [*start, "batch", "3.46", "12.3", "2.51 MB"]
    assert lines[1] == ["b", "omp", "float32", "1", "1.50 ms", "batch", "12.3"]
    assert lines[2:] == [
        ["case", "backend", "skipped"],
        ["all", "cuda", "no GPU"],
        ["c", "seq", "takes long"],
    ]
