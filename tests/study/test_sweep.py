"""--sweep: plans into lines of results, continued, apart, collected."""

import csv
import json
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import (
    read_until,
    run,
    succeed,
    write_numbers,
    write_two_classes,
)
from support.sweeps import measure_briefly, start_sweep

import nn
from nn.backends.engine import TimedStep
from nn.data.splits import split_rows
from nn.layers import parse
from nn.study import solar, sweep
from nn.study.results import MEASURED, NEEDED, RESULT_COLUMNS
from nn.utils import claim

CLOUDS = {"clouds": {"rows": 200, "step": 60}, "horizon": 60}
SMALL = {
    "data": CLOUDS,
    "layers": ["50,5,1", "50,5,3,1"],
    "epochs": 2,
    "batch_number": 20,
    "backend": "omp",
}


@pytest.fixture(scope="module", autouse=True)
def brief():
    with pytest.MonkeyPatch.context() as patch:
        measure_briefly(patch.setattr)
        yield


def write_plan(folder, plan, name="plan.json"):
    (folder / name).write_text(json.dumps(plan))
    return name


def sweep_here(plan, results, *flags):
    """Run a plan as --sweep does, but its entries in this process."""
    for index in range(len(sweep.read_plan(str(plan)))):
        succeed("--sweep", f"{plan}:{index}", "-o", results, "-q")
    return succeed("--sweep", plan, "-o", results, *flags)  # nothing is left to run


def test_lists_make_every_combination(folder):
    plan = {**SMALL, "batch_number": [10, 20], "threads": [1, 2, 3]}
    entries = sweep.read_plan(write_plan(folder, plan))
    assert len(entries) == 2 * 2 * 3
    indexes = [entry.index for entry in entries]
    assert indexes == list(range(12))
    assert len({entry.name for entry in entries}) == 12
    assert entries[0].settings["layers"] == "50,5,1"
    assert entries[0].settings["data"] == CLOUDS


def test_parts_share_what_stands_beside_them_and_nothing_runs_twice(folder):
    parts = [{"layers": "50,1"}, {"layers": ["50,1", "50,2,1"], "seed": [0]}]
    plan = {"data": CLOUDS, "epochs": 2, "parts": parts}
    assert [
        e.settings.get("seed") for e in sweep.read_plan(write_plan(folder, plan))
    ] == [None, 0, 0]
    plan["parts"][1].pop("seed")
    assert len(sweep.read_plan(write_plan(folder, plan))) == 2
    plans = {
        "a.json": {**SMALL, "name": "a"},
        "b.json": {"name": "b", **dict(reversed(SMALL.items()))},
    }
    names = []
    for name, plan in plans.items():
        entries = sweep.read_plan(write_plan(folder, plan, name))
        names.append([entry.name for entry in entries])
    assert names[0] == names[1], "an entry is called by its settings alone"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"epoch": 3}, "no such key epoch: did you mean epochs?"),
        ({"data": {"cloud": {}}}, "data: no such key cloud: did you mean clouds?"),
        (
            {"data": {**CLOUDS, "path": "a.csv"}},
            "one of path, series, clouds and images",
        ),
        ({"data": {**CLOUDS, "form": "map"}}, "expected table or maps"),
        ({"data": None}, "data: expected an object"),
        ({"layers": None}, "a part without layers"),
        ({"parts": 3}, "parts"),
        ({"layers": 50}, 'layers: found 50, expected text such as "30,60,10,1"'),
        ({"layers": ["50,5,1", [50, 5, 1]]}, "layers: found [50, 5, 1], expected text"),
        ({"data": {"path": 3}}, "data: path: found 3, expected the name of a file"),
        (
            {name: [*range(100)] for name in ("seed", "epochs", "threads")},
            "2000000 more combinations of its values",
        ),
    ],
)
def test_mistakes_in_a_plan_are_told_before_anything_runs(folder, change, message):
    plan = {}
    for name, value in {**SMALL, **change}.items():
        if (name, value) != ("layers", None):
            plan[name] = value
    result = run("--sweep", write_plan(folder, plan), "-o", "r.csv")
    assert result.code == 2
    assert message in result.err
    assert "plan.json" in result.err
    assert not (folder / "r.csv").exists()


def test_the_shipped_plans_are_plans_and_one_is_the_thesis_s_thirty_topologies(
    datasets,
):
    layers = {}
    for plan in (datasets / "plans").glob("*.json"):
        entries = sweep.read_plan(str(plan))
        layers[plan.stem] = {entry.settings["layers"] for entry in entries}
        assert all(map(parse, layers[plan.stem])), plan
    assert {*layers} >= {"smoke", "topologies", "batch_sizes", "cnn"}
    assert len(layers["topologies"]) == 30
    third = (13, 26, 52, 104, 208, 416, 832, 1664, 3328, 6656)
    for i, n in enumerate(50 * 2**k for k in range(10)):
        assert {
            f"50,{n},1",
            f"50,{n},{n // 2},1",
            f"50,{n},{n // 2},{third[i]},1",
        } <= layers["topologies"]
    (cnn,) = layers["cnn"]
    assert sum(layer.parameters for layer in parse(cnn)) == 4_352_641


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A folder in which a small plan has run."""
    folder = tmp_path_factory.mktemp("swept")
    parts = [
        {"layers": ["50,5,1", "50,5,3,1"], "backend": "omp"},
        {"layers": "50,5,1", "backend": "nowhere"},
        {"layers": "50,800000,800000,1"},
    ]
    plan = {"data": CLOUDS, "epochs": 2, "batch_number": 20, "parts": parts}
    write_plan(folder, plan)
    result = sweep_here(folder / "plan.json", folder / "r.csv", "--json")
    expected = {"results": str(folder / "r.csv"), "rows": 4, "failed": 2}
    assert result.json == expected
    return folder


def test_a_line_of_results_that_lacks_a_figure_is_told_by_its_number(swept, folder):
    with open(swept / "r.csv", newline="") as file:
        header, good, _, failed, _ = csv.reader(file)
    cases = [(good, name, "") for name in NEEDED + MEASURED]
    cases += [(failed, name, "") for name in NEEDED]
    for line, name, text in [*cases, (good, "backend", "abacus")]:
        wrong = [*line]
        wrong[header.index(name)] = text
        with open("wrong.csv", "w", newline="") as file:
            csv.writer(file).writerows([header, good, good, wrong])
        told = f"wrong.csv: line 3 of the results: {name} is missing or wrong"
        with pytest.raises(nn.DataError, match=told):
            sweep.read_results("wrong.csv")


def test_a_line_tells_all_that_was_measured(swept):
    one, two, _, _ = sweep.read_results(swept / "r.csv")
    net = nn.Network("50,5,1", "regression")
    data, test_data = sweep.load_data(CLOUDS, swept)
    nn.train(net, data, epochs=2, batch_number=20, holdout=0)
    rmse = nn.test(net, test_data)["rmse"]
    assert one["rmse"] == pytest.approx(rmse, rel=1e-5), "the error is the test's"
    assert one["layers"] == "50,5:relu,1:linear"
    assert two["layers"] == "50,5:relu,3:relu,1:linear"
    for row, layers in ((one, "50,5,1"), (two, "50,5,3,1")):
        net = nn.Network(layers, "regression")
        assert row["status"] == "ok"
        assert row["kind"] == "dense"
        assert row["plan"] == "plan"
        assert row["parameters"] == net.parameter_count
        expected = len(layers.split(",")) - 2
        assert row["depth"] == expected
        assert row["backend"] == "omp"
        assert row["engine"] == net.engine.describe()
        assert row["device"]
        assert row["rows"] == 159
        assert row["inputs"] == 50
        assert row["epochs"] == 2
        first = row["train_s"] - row["epoch_s"]
        assert row["setup_s"] > first - row["epoch_s"]
        assert row["test_rows"] == test_data.rows
        assert row["test_s"] > 0
        for way in ("forward_ms", "backward_ms"):
            times = [float(number) for number in row[way].split()]
            assert len(times) == len(net.layers), way
            assert times[-1] > 0
        # a batch that the system interrupts may take longer than another epoch
        assert 0 < row["batch_ms"] < 1e3 * row["epoch_s"]
        assert row["batch_ms"] <= row["batch_p95_ms"] < 1e3
        for n in (1, 2, 64, 512, 1024):
            assert row[f"infer_{n}_ms"] > 0
        assert 0 < row["network_bytes"] < row["peak_bytes"]
        assert row["rmse"] >= row["mae"] > 0
        assert row["r2"] < 1
        assert row["skill"] < 1
        assert row["nn"] == nn.__version__
        assert row["python"]
        assert row["numpy"]
        assert row["when"]


def test_the_rows_of_a_test_have_the_target_of_the_training_and_its_folder(folder):
    (folder / "data").mkdir()
    for name, rows in {
        "t.csv": "1.5,2,3\n4,5,7\n8,9,1\n",
        "test.csv": "6.5,7,8\n",
    }.items():
        (folder / "data" / name).write_text(f"a,b,c\n{rows}")
    data = {"path": "t.csv", "test": "test.csv", "target": "a"}
    found = sweep.load_data(data, Path("data"))
    assert [ds.y.ravel().tolist() for ds in found] == [[1.5, 4, 8], [6.5]]
    assert sweep.load_data({**data, "test": ""}, Path("data"))[1] is None


def test_set_up_is_apart_from_the_epochs():
    times = sweep._EpochTimes()
    for number, seconds in enumerate([1.5, 0.2, 0.4, 0.3]):
        times.epoch(number, 4, 0.0, 0.0, seconds, 9000.0 * seconds)
    expected = {"setup_s": pytest.approx(0.25 + 1.2), "epoch_s": 0.3}
    assert times.seconds_of_parts(0.25) == expected
    alone = sweep._EpochTimes()
    alone.epoch(0, 1, 0.0, 0.0, 1.5, 9000.0)
    assert alone.seconds_of_parts(0.25) == {"setup_s": 0.25, "epoch_s": 1.5}
    steps = [TimedStep("forward", 0, 1.0, 1.002), TimedStep("update", 0, 1.0, 1.001)]
    longer = [TimedStep("forward", 0, 2.0, 2.001), TimedStep("update", 0, 2.0, 2.004)]
    for batches, of_epochs, median, most in (
        ([], times, 2.7, 3.51),  # 1.8, 3.6, 2.7 ms of the epochs but the first
        ([], alone, 9.0, 9.0),
        ([steps, longer], times, 3.0, 3.9),
    ):
        engine = SimpleNamespace(recorded=partial(list, batches))
        expected = {"batch_ms": median, "batch_p95_ms": most}
        assert sweep._batch_times(engine, of_epochs) == pytest.approx(expected)


def test_one_gpu_alone_is_an_entry_however_it_would_share_and_null_is_a_default(folder):
    shared = {"gpus": [1, 2], "distribute": ["mirrored", "central"], "backend": "cuda"}
    entries = sweep.read_plan(write_plan(folder, {**SMALL, **shared, "layers": "50,1"}))
    found = [[e.settings.get(key) for key in ("gpus", "distribute")] for e in entries]
    assert found == [[1, None], [2, "mirrored"], [2, "central"]]
    plan = {**SMALL, "layers": "50,1", "threads": [1, None]}
    one, all_cores = sweep.read_plan(write_plan(folder, plan))
    assert one.settings["threads"] == 1
    assert "threads" not in all_cores.settings


def test_results_name_their_data(folder):
    sources = {
        "t.csv": {"path": "data/t.csv"},
        "images": {"images": {"rows": 9}},
        "s.csv table": {"series": "data/s.csv"},
        "s.csv sequence": {"series": "s.csv", "form": "sequence"},
        "clouds table": CLOUDS,
    }
    for name, data in sources.items():
        entry = sweep.Entry("plan", 3, {"data": data, "layers": "50,1"}, folder)
        assert entry.facts()["data"] == name


def test_images_are_classes_that_a_network_learns_and_the_same_each_time(folder):
    data = {"images": {"rows": 120, "shape": "2x9x10", "classes": 3}}
    ds, test_ds = sweep.load_data(data, folder)
    again, _ = sweep.load_data(data, folder)
    assert ds.x.shape == (120, 2, 9, 10)
    assert test_ds.x.shape == (24, 2, 9, 10)
    assert (ds.x == again.x).all()
    assert {*ds.y} == {*test_ds.y} == {0, 1, 2}
    net = nn.Network("2x9x10,3", "multiclass")
    nn.train(net, ds, epochs=20, batch_number=20, holdout=0)
    assert nn.test(net, test_ds)["accuracy"] > 0.9
    with pytest.raises(nn.NnError, match="keys are rows, shape, classes and seed"):
        sweep.load_data({"images": {"rows": 9, "height": 3}}, folder)
    with pytest.raises(nn.NnError, match="expected rows"):
        sweep.load_data({"images": {"rows": 0}}, folder)


def test_what_cannot_run_is_a_line_that_says_why(swept):
    *_, nowhere, large = sweep.read_results(swept / "r.csv")
    assert "nowhere" in nowhere["status"]
    assert nowhere["batch_ms"] is None
    assert large["status"].startswith("--layers: a network of ")
    assert "M are left" in large["status"]
    expected = 51 * 8e5 + 8e5 * (8e5 + 1) + 8e5 + 1
    assert large["parameters"] == expected


def test_values_that_a_flag_cannot_have_are_lines_that_say_what_it_can(folder):
    wrong = [
        {"epochs": "two"},
        {"dtype": "float16"},
        {"batch_number": 2.5},
        {"refit": 1},
        {"gpus": "x"},
    ]
    plan = {"data": CLOUDS, "layers": "50,1", "parts": wrong}
    sweep_here(write_plan(folder, plan), "r.csv")
    for row, (name, value) in zip(
        sweep.read_results("r.csv"), [next(iter(part.items())) for part in wrong]
    ):
        assert row["status"].startswith(f"plan: {name}")
        assert "expected" in row["status"]
        assert str(value) in row["status"]


def test_a_sweep_goes_on_where_it_stopped_and_prints_a_table(folder):
    plan = write_plan(folder, SMALL)
    results = folder / "r.csv"
    succeed("--sweep", f"{plan}:0", "-o", "r.csv", "-q")
    text = results.read_text()
    assert len(text.splitlines()) == 2
    results.write_text(text + "a line that was cut when the power fai")
    result = succeed("--sweep", plan, "-o", "r.csv")
    assert results.read_text().startswith(text)
    indexes = [row["index"] for row in sweep.read_results("r.csv")]
    assert indexes == [0, 1]
    assert "50,5,3,1" in result.err
    assert "50,5,1," not in result.err
    for words in ("ms/batch", "50,5,1", "261"):
        assert words in result.out
    before = results.read_bytes()
    succeed("--sweep", plan, "-o", "r.csv", "-q")
    assert results.read_bytes() == before


@pytest.mark.slow
def test_jobs_of_an_array_may_share_a_file_or_have_their_own(folder):
    plan = write_plan(folder, SMALL)
    (folder / "found").mkdir()
    jobs = [start_sweep(f"{plan}:{i}", "-o", "found/shared.csv", "-q") for i in (0, 1)]
    assert [job.wait() for job in jobs] == [0, 0]
    assert sorted(row["index"] for row in sweep.read_results("found/shared.csv")) == [
        0,
        1,
    ]
    for i in (0, 1):
        succeed("--sweep", f"{plan}:{i}", "-o", f"found/own-{i}.csv", "-q")
    indexes = [row["index"] for row in sweep.collect("found/own-*.csv")]
    assert indexes == [0, 1]
    assert len(sweep.collect("found")) == 2, "the same entries in three files"
    result = run("--sweep", f"{plan}:2", "-o", "x.csv")
    assert result.code == 2
    assert "2 entries" in result.err
    with pytest.raises(nn.InputNotFound):
        sweep.collect("none-*.csv")


def test_a_process_that_is_killed_leaves_a_line(folder, monkeypatch):
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    run_process = subprocess.run
    killed = lambda command, **options: run_process([command[0], "-c", kill], **options)  # noqa: E731
    monkeypatch.setattr(sweep.subprocess, "run", killed)
    plan = write_plan(folder, {**SMALL, "layers": "50,5,1"})
    (row,) = sweep.sweep(plan, "r.csv")
    assert row["status"] == "ended by signal 9: out of memory?"
    assert row["layers"] == "50,5,1"
    assert row["parameters"] == 261


@pytest.mark.slow
def test_a_sweep_can_be_stopped_and_keeps_what_it_has(folder):
    plan = write_plan(
        folder, {**SMALL, "layers": ["50,5,1", "50,800,800,1"], "epochs": [2, 100_000]}
    )
    process = start_sweep(plan, "-o", "r.csv", "-q", start_new_session=True)
    while not (folder / "r.csv").exists() or not (folder / "r.csv").stat().st_size:
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    for row in sweep.read_results("r.csv"):
        assert row["status"] == "ok"


def test_files_beside_the_plan_are_found_from_anywhere(folder):
    (folder / "there").mkdir()
    write_two_classes(folder / "there" / "two.csv", rows=90)
    write_numbers(folder / "there" / "numbers.csv", rows=90)
    parts = [
        {"data": {"path": "two.csv"}},
        {
            "data": {"path": "numbers.csv", "test": "numbers.csv"},
            "batches": 1,
            "batch_number": 8,
        },
        {"data": {"path": "numbers.csv", "target": "x"}},
        {"data": {"path": "numbers.csv,numbers.csv"}},
    ]
    plan = {"epochs": 1, "layers": "2,3,1", "parts": parts}
    sweep_here(write_plan(folder, plan, "there/plan.json"), "r.csv")
    rows = sweep.read_results("r.csv")
    states = [row["status"] for row in rows]
    assert states == ["ok"] * 4
    assert [row["rows"] for row in rows] == [72, 8, 72, 144]
    assert rows[0]["accuracy"] is not None
    assert rows[0]["rmse"] is None
    assert rows[1]["rmse"] is not None


def test_a_measured_series_is_data_too(folder, shared):
    series = shared / "data" / "solar" / "hope_melpitz_1s.csv.gz"
    if not series.exists():
        pytest.skip("no measured series in the shared data")
    data = {"series": os.path.relpath(series), "wanted": "ghi_040"}
    plan = {**SMALL, "data": data, "layers": "50,5,1"}
    sweep_here(write_plan(folder, plan), "r.csv")
    (row,) = sweep.read_results("r.csv")
    assert row["status"] == "ok"
    assert row["data"] == "hope_melpitz_1s.csv.gz table"
    assert row["rows"] == 2773


def test_other_files_are_no_plans_and_no_results_and_another_version_is_named(folder):
    result = run("--sweep", "none.json", "-o", "r.csv")
    assert result.code == 66
    assert "check --sweep" in result.err
    (folder / "bad.json").write_text("{,}")
    before = write_two_classes(folder / "two.csv").read_bytes()
    plan = write_plan(folder, SMALL)
    cases = (
        (65, "bad.json", "-o", "r.csv"),
        (2, plan),
        (65, plan, "-o", "two.csv"),
        (73, plan, "-o", "n/r"),
    )
    for code, *given in cases:
        assert run("--sweep", *given).code == code, given
    assert (folder / "two.csv").read_bytes() == before
    text = ",".join(name for name in RESULT_COLUMNS if name != "threads_used") + "\n"
    (folder / "r.csv").write_text(text)
    results = (
        run("--sweep", plan, "-o", "r.csv"),
        run("--plot", "r.csv", "-o", "pictures"),
    )
    for result in results:
        assert result.code == 65
        assert (
            "written by another version of nn, with other columns (threads_used)"
            in result.err
        )


# ---- several sweeps into one file

SLOW = {**SMALL, "layers": ["50,5,1", "50,6,1", "50,7,1", "50,8,1"], "epochs": 20}


def entries_of(results) -> list[str]:
    return sorted(row["entry"] for row in sweep.read_results(str(results)))


def names_of(plan) -> list[str]:
    return [entry.name for entry in sweep.read_plan(plan)]


def test_that_another_sweep_runs_an_entry_is_told_once(folder, monkeypatch):
    monkeypatch.setattr(sweep, "CLAIM_SECONDS", 0.0)
    lines = []
    runner = sweep.Runner("plan.json", "r.csv", False, lines.append)
    answers = iter([False, False, False, True])
    monkeypatch.setattr(runner, "run", lambda entry, title: next(answers))
    runner.wait_for(None, "2/3: a network")
    assert lines == ["2/3: a network: another sweep runs it; waiting for its end"]


@pytest.mark.slow
def test_sweeps_into_one_file_share_the_entries(folder):
    plan = write_plan(folder, SLOW)
    processes = [start_sweep(plan, "-o", "r.csv") for _ in range(3)]
    outputs = [process.communicate(timeout=120) for process in processes]
    returncodes = [process.returncode for process in processes]
    assert returncodes == [0, 0, 0], outputs
    assert entries_of("r.csv") == sorted(names_of(plan)), "each entry once"
    begun = [
        line
        for _, err in outputs
        for line in err.splitlines()
        if not line.endswith("waiting for its end")
    ]
    assert sorted(line[0] for line in begun) == ["1", "2", "3", "4"]
    for out, _ in outputs:
        assert out.count("50,") == 4, "each reports all"
    names = sorted(os.listdir(folder))
    assert names == [plan, "r.csv"]


@pytest.mark.slow
def test_single_entries_are_not_run_twice_either(folder):
    plan = write_plan(folder, SLOW)
    processes = [start_sweep(f"{plan}:1", "-o", "r.csv", "-q") for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert entries_of("r.csv") == [names_of(plan)[1]]
    for process in processes:
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("ends_well", [True, False])
def test_an_entry_that_another_sweep_runs_is_waited_for_and_taken_over_if_that_dies(
    folder, ends_well
):
    plan = write_plan(folder, SMALL)
    claimed, second = names_of(plan)
    with claim("r.csv", claimed):
        process = start_sweep(plan, "-o", "r.csv")
        heard = read_until(process, "waiting for its end")
        assert heard.startswith("2/2: 50,5,3,1")
        assert "1/2: 50,5,1, backend omp" in heard
        assert entries_of("r.csv") == [second]
        if ends_well:
            lines = (folder / "r.csv").read_text().splitlines()
            line = lines[1].replace(second, claimed)
            with open("r.csv", "a") as file:
                file.write(f"{line}\n")
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err.startswith("1/2: 50,5,1") != ends_well
    assert entries_of("r.csv") == sorted([claimed, second])


@pytest.mark.slow
def test_the_claim_of_a_killed_sweep_ends_with_it_and_its_entry(folder):
    """Its entry runs in a process of its own, which goes on and keeps the claim."""
    plan = write_plan(folder, {**SMALL, "layers": "50,5,1", "epochs": 500})
    killed = start_sweep(plan, "-o", "r.csv", stderr=subprocess.PIPE)
    assert killed.stderr.readline().startswith("1/1")
    while not Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text():
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    with claim("r.csv", names_of(plan)[0]) as taken:
        assert taken is None, "the entry goes on"
    succeed("--sweep", plan, "-o", "r.csv", "-q")
    assert len(entries_of("r.csv")) == 1
    # of a process that is no more
    (folder / f".r.csv.{names_of(plan)[0]}.lock").write_text("")
    (folder / "r.csv").unlink()
    succeed("--sweep", f"{plan}:0", "-o", "r.csv", "-q")
    assert len(entries_of("r.csv")) == 1
    assert not list(folder.glob(".r.csv*"))


@pytest.mark.parametrize(
    "layers, kind, depth, width",
    [
        ("9,30,80,50,1", "dense", 3, 80),
        ("9,99", "dense", 0, 0),
        ("1x8x8,conv4k3,maxpool2,6,20", "cnn", 2, 6),
    ],
)
def test_the_width_of_a_network_is_that_of_its_largest_hidden_layer(
    layers, kind, depth, width
):
    result = sweep.network_facts(parse(layers))
    assert result["kind"] == kind
    assert result["depth"] == depth
    assert result["width"] == width


def test_of_several_lines_of_an_entry_and_a_device_the_last_one_counts(tmp_path):
    cases = (
        ("a.csv", "x", 2, 1.0),
        ("a.csv", "y", 2, 2.0),
        ("a.csv", "x", 2, 3.0),
        ("b.csv", "y", 2, 4.0),
        ("b.csv", "y", 8, 5.0),
    )
    for name, device, cores, loss in cases:
        facts = dict.fromkeys(
            ("plan", "status", "layers", "kind", "data", "engine", "backend"), "failed"
        )
        facts |= dict.fromkeys(
            ("index", "depth", "width", "parameters", "batch_number"), 1
        )
        row = facts | {"entry": "e", "device": device, "cores": cores, "loss": loss}
        sweep.append_result(str(tmp_path / name), row)
    pairs = [(row["device"], row["loss"]) for row in sweep.collect(str(tmp_path))]
    assert pairs == [("x", 3.0), ("y", 4.0), ("y", 5.0)]


def test_errors_are_of_the_rows_held_out_and_the_table_has_the_accuracy_of_classes(
    capsys,
):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x[:, 0] ** 2
    ds = nn.Dataset(x, y, "regression")
    net = nn.Network("2,1", "regression", seed=2)
    nn.train(net, ds, epochs=1, holdout=0.25)
    rows = split_rows(ds, 0.25, 0.0, 2).holdout
    predictions = net.predict(x[rows])[:, 0]
    errors = predictions - x[rows, 0] ** 2
    result = sweep._errors(net, ds, None)
    expected = np.abs(errors).mean()
    assert result["mae"] == pytest.approx(expected, rel=1e-5)
    assert result["accuracy"] is None
    facts = dict.fromkeys(RESULT_COLUMNS) | {
        "layers": "2,1",
        "backend": "omp",
        "status": "ok",
        "batch_ms": 1.0,
    }
    sweep.report(
        [facts | {"accuracy": 0.98765}, facts | {"rmse": 1.25, "accuracy": None}]
    )
    lines = capsys.readouterr().out.splitlines()[1:3]
    assert [line.split()[-1] for line in lines] == ["0.9877", "1.25"]


def test_a_plan_has_the_settings_of_a_measured_series_that_solar_py_has(folder):
    minutes = np.arange(600)
    moments = np.datetime64("2016-06-30T19:00") + minutes.astype("timedelta64[m]")
    sky = np.sin(np.pi * minutes / 600)
    lines = [
        f"{moment},{400 * share:.1f},{9 * share:.1f}"
        for moment, share in zip(moments, sky, strict=True)
    ]
    (folder / "sky.csv").write_text("time,GHI,wind\n" + "\n".join(lines) + "\n")
    data = {
        "series": "sky.csv",
        "columns": ["GHI"],
        "location": [0, 180],  # it is noon at midnight UTC
        "index": True,
        "change": True,
        "lags": [60, 300],
        "sun": True,
        "horizon": 120,
        "test_from": "2016-07-01",
    }
    ds, test_ds = sweep.load_data(data, folder)
    assert ds.columns == ["GHI", "GHI_60s_ago", "GHI_300s_ago", "clear_sky"]
    assert ds.targets == ["GHI_change_in_120s"]
    place = solar.clear_sky_of(np.array([1467331200.0]), 0, 180)[0]
    assert test_ds.x[0, 3] == pytest.approx(place, rel=1e-5), "midnight is the first"
    value = 400 * sky[300] / place
    assert test_ds.x[0, 0] == pytest.approx(value, rel=1e-3), "a share of a clear sky"
    later = solar.clear_sky_of(np.array([1467331320.0]), 0, 180)[0]
    change = 400 * sky[302] / later - value
    assert test_ds.y[0, 0] == pytest.approx(change, abs=2e-3)
    by_day, _ = sweep.load_data({**data, "index": False, "day": True}, folder)
    assert by_day.x[-1, 0] > 100, "W/m2 again"
    for key, value in {"location": "Oslo", "lags": 60, "test_from": "July"}.items():
        with pytest.raises(nn.NnError, match="data: "):
            sweep.load_data({**data, key: value}, folder)
