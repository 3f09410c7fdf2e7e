"""--study: the plans of the founding studies, their figures of then, and what is shown
of both."""

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import run, succeed

from nn.study import studies, sweep, then_and_now
from nn.study.results import RESULT_COLUMNS
from nn.terminal.figures import short_text
from nn.utils import NnError

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = ("cnns", "course", "digits", "solar")
PLAN = {
    "data": {"clouds": {"rows": 200, "step": 60}, "horizon": 60},
    "layers": ["50,5,1", "50,5,3,1"],
    "batch_number": 20,
    "epochs": 3,
    "parts": [{"backend": "omp", "threads": [1, 4000]}, {"backend": ["seq", "cuda"]}],
}
SEQ = {"layers": "50,5,1", "backend": "seq"}
THEN = {
    "title": "A study",
    "remarks": ["What it is."],
    "figures": [
        {
            "what": "an epoch",
            "column": "epoch_s",
            "unit": "s",
            "of": SEQ,
            "then": 5000.0,
            "from": "table 1 (q)",
            "machine": "a computer",
        },
        {"what": "a plot", "column": "epoch_s", "of": SEQ},
        {"what": "said", "column": "rmse", "of": SEQ, "then": "small"},
        {
            "what": "rows unknown",
            "column": "epoch_s",
            "of": SEQ,
            "then": 7,
            "unlike": True,
        },
        {
            "what": "gain",
            "column": "epoch_s",
            "of": SEQ,
            "then": 3,
            "over": {**SEQ, "backend": "omp", "threads": 1},
        },
        {"what": "a layer", "column": "forward_ms", "layer": 1, "of": SEQ, "then": 1.5},
        {
            "what": "no device",
            "column": "epoch_s",
            "of": SEQ,
            "over": {"backend": "cuda"},
        },
    ],
}


def write_study(folder, then=THEN):
    plans = folder / "datasets" / "plans"
    (plans / "then").mkdir(parents=True, exist_ok=True)
    (plans / "made.json").write_text(json.dumps(PLAN))
    (plans / "made-small.json").write_text(json.dumps(PLAN))
    (plans / "then" / "made.json").write_text(json.dumps(then))


@pytest.fixture
def made(folder, brief, monkeypatch):
    """A folder with a study of ours, on a machine without a GPU."""
    write_study(folder)
    monkeypatch.setattr(
        studies, "_missing_backends", lambda: {"cuda": "no GPU of this kind"}
    )
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_of_then_is_of_an_entry_and_says_where_it_is_from(
    name, monkeypatch
):
    monkeypatch.chdir(REPOSITORY)
    study = studies.find(name)
    small = studies.find(f"{name}-small")
    assert small.figures == study.figures
    entries = then_and_now.measured(study, "none.csv", {})
    assert then_and_now.device_tables(entries) == []
    assert sweep.read_plan(str(small.plan))
    for figure in study.figures:
        for key in ("of", "over"):
            fitting = [one for one in entries if one.fits(figure.get(key, {}))]
            assert fitting, (figure["what"], key)
        assert figure["column"] in RESULT_COLUMNS or figure["column"] in studies.COUNTED
        marked = re.search(r"\((q|p|c)\)", figure["from"])
        assert ("then" in figure) <= bool(marked), figure


def test_a_study_is_a_plan_beside_its_figures_of_then(made):
    result = succeed("study", "made", "--report", "r.json")
    assert "«" not in result.out
    figures = {line[0]: line[3:6] for line in page_table("r.json", "Then and now")}
    seconds = sweep.read_results("study-made.csv")
    by_backend = {
        (row["backend"], row["threads"]): row
        for row in seconds
        if row["depth"] == 1 and row["status"] == "ok"
    }
    assert len(seconds) == 4, "what this machine has not is not run"
    seq = by_backend["seq", 1]["epoch_s"]
    omp = by_backend["omp", 1]["epoch_s"]
    assert figures["an epoch"] == ["5000 s", f"{seq:.5g} s", short_text(5000 / seq)]
    assert figures["a plot"] == ["", f"{seq:.5g}", ""]
    assert figures["said"][::2] == ["small", ""]
    assert figures["rows unknown"] == ["7", f"{seq:.5g}", ""], "no ratio of unlike"
    gain = seq / omp
    assert figures["gain"][1] == f"{gain:.5g}"
    assert float(figures["gain"][2]) == pytest.approx(3 / gain, rel=0.01)
    layer = by_backend["seq", 1]["forward_ms"].split()[1]
    assert float(figures["a layer"][1]) == float(layer)
    assert figures["no device"] == ["", "", ""]


def page_table(path, heading):
    """The lines of the first table of a section of a page."""
    with open(path) as file:
        blocks = json.load(file)["sections"][heading]
    return next(block["lines"] for block in blocks if isinstance(block, dict))


@pytest.mark.slow
def test_a_page_of_a_study_has_its_devices_and_says_which_are_not_here(made):
    succeed("study", "made", "-o", "r.csv", "--report", "r.json", "-q")
    with open("r.json") as file:
        page = json.load(file)
    assert page["title"] == "A study"
    assert page["sections"]["Then and now"][0] == "What it is."
    tables = {table["caption"]: table for table in page["sections"]["By device"]}
    epochs = tables["Seconds an epoch"]
    assert epochs["headers"] == [
        "layers",
        "seq",
        "omp, 1 thread",
        "omp, 4000 threads (not here)",
        "cuda (not here)",
    ]
    assert [line[0] for line in epochs["lines"]] == PLAN["layers"]
    for line in tables["Times seq, an epoch"]["lines"]:
        assert line[1] == "1"
        assert float(line[2]) > 0
        assert line[3:] == ["", ""]
    assert page["sections"]["Not here"] == [
        f"omp, 4000 threads: this machine has {studies.plural(studies.available_cores(), 'core')}",
        "cuda: no GPU of this kind",
    ]
    layers = page["sections"]["Layer by layer, milliseconds of a batch"]
    assert layers[0]["lines"][-1][0] == "all"
    first, second, both = [float(line[1]) for line in layers[0]["lines"]]
    assert both == pytest.approx(first + second, rel=0.01)
    assert page["sections"]["Command"] == ["nn study made"]
    assert page["sections"]["Measured on"]


def test_tables_by_device_have_the_medians_of_a_loop_and_seq_of_as_many_epochs_or_not():
    """Of three seeds each; seq has other epochs, and so lines of its own."""
    rng = np.random.default_rng(0)
    devices = {
        "seq": {"backend": "seq", "epochs": 2},
        "omp, 1 thread": {"backend": "omp", "threads": 1, "epochs": 5},
        "omp, all cores": {"backend": "omp", "epochs": 5},
    }
    networks = list(itertools.product(("2,3,1", "2,5,1"), (10, 20)))
    entries = []
    for (layers, batch), seed in itertools.product(networks, range(3)):
        for device in devices.values():
            line = {"layers": layers, "batch_number": batch, "seed": seed}
            entry = SimpleNamespace(
                settings={"data": {"path": "t.csv"}, **line, **device},
                facts=lambda: {"data": "t.csv"},
            )
            figures = {"epoch_s": rng.random(), "rmse": rng.random()}
            row = dict.fromkeys(RESULT_COLUMNS) | figures
            entries.append(then_and_now.Measured(entry, row))

    def values(layers, batch, device, column):
        return [
            entry.row[column]
            for entry in entries
            if entry.device == device
            and entry.entry.settings["layers"] == layers
            and entry.entry.settings["batch_number"] == batch
        ]

    tables = {
        name: then_and_now.device_tables(entries, [name])[0]
        for name in ("epoch_s", "times_seq", "rmse")
    }
    for name, table in tables.items():
        assert table.headers == ["layers", "batch", "epochs", *devices]
        told = {tuple(line[:3]): line[3:] for line in table.lines}
        assert len(told) == 8
        for (layers, batch), (device, asked) in itertools.product(
            networks, devices.items()
        ):
            column = "epoch_s" if name == "times_seq" else name
            own = values(layers, batch, device, column)
            if name == "times_seq":
                of_seq = np.median(values(layers, batch, "seq", "epoch_s"))
                own = [of_seq / seconds for seconds in own]
            text = f"{np.median(own):.3g}"
            if name == "rmse":
                text = f"{np.median(own):.4g} ± {np.std(own, ddof=1):.2g}"
            cells = told[layers, str(batch), str(asked["epochs"])]
            assert cells[list(devices).index(device)] == text


def test_a_figure_of_then_is_beside_the_median_of_now_and_their_ratio():
    """Of three runs of seq and one of omp; the GPU is not here."""
    entries = []
    runs = [("seq", 4.0), ("seq", 1.0), ("seq", 2.0), ("omp", 0.5), ("cuda", None)]
    for backend, seconds in runs:
        entry = SimpleNamespace(settings={"backend": backend, "threads": 3})
        row = {"device": "CPU", "threads": 3.0, "epoch_s": seconds}
        row["forward_ms"] = "0.25 8"
        entries.append(then_and_now.Measured(entry, row if seconds else None))
    seq = "CPU, seq, 3 threads"
    omp = "CPU, omp, 3 threads"

    def told(**figure):
        of = {"column": "epoch_s", "of": {"backend": "seq"}}
        study = SimpleNamespace(figures=[of | figure])
        (result,) = then_and_now.compared(study, entries)
        return tuple(result[name] for name in ("then", "now", "ratio", "device"))

    by_omp = {"over": {"backend": "omp"}}
    by_none = {"over": {"backend": "cuda"}}
    assert told(then=6) == (6, 2.0, 3.0, [seq])
    assert told(then="small") == ("small", 2.0, None, [seq])
    assert told(then=6, unlike=True) == (6, 2.0, None, [seq])
    assert told(then=6, **by_omp) == (6, 4.0, 1.5, [seq, omp])
    assert told(then=6, **by_none) == (6, None, None, []), "no device of no figure"
    assert told(then=6, of=by_none["over"]) == (6, None, None, [])
    assert told(then=4, column="forward_ms", layer=1) == (4, 8.0, 0.5, [seq])


def test_a_cell_has_the_median_of_several_seeds_and_the_deviation_of_errors():
    assert then_and_now._cell([1.0, 2.0, 9.0], "epoch_s", 3) == "2"
    assert then_and_now._cell([0.5, 0.6, 0.95], "accuracy", 4) == "0.6 ± 0.24"
    assert then_and_now._cell([12345.0], "times_seq", 3) == "12,300"
    assert then_and_now._cell([], "epoch_s", 3) == ""


@pytest.mark.slow
def test_a_column_that_was_not_run_says_so(made):
    succeed("study", "made", "-o", "r.csv", "-q")
    with open("r.csv") as file:
        lines = file.readlines()
    with open("cut.csv", "w") as file:
        file.writelines(line for line in lines if ",seq," not in line)
    study = studies.find("made")
    entries = then_and_now.measured(study, "cut.csv", {})
    (table, *_) = then_and_now.device_tables(entries)
    assert table.headers[1:3] == ["seq (not run)", "omp, 1 thread"]


def test_json_counts_entries_without_results_and_those_that_failed(made, monkeypatch):
    """Of three entries of a sweep one failed; of a study nothing was run."""
    monkeypatch.setattr(studies, "run", lambda *_: {})
    told = succeed("study", "made", "--json", "-q").json
    assert [told["rows"], told["left_out"]] == [8, 8]
    rows = [{"status": status} for status in ("ok", "ok", "out of memory")]
    monkeypatch.setattr(sweep, "sweep", lambda *_: rows)
    told = succeed("sweep", "plan.json", "-o", "r.csv", "--json", "-q").json
    assert [told["rows"], told["failed"]] == [3, 1]


def test_what_is_counted_of_a_line_is_in_its_unit():
    row = {"epoch_s": 0.5, "rows": 250, "batch_number": 100, "batch_ms": 125.0}
    row |= {"train_s": 4.5, "epochs": 3}
    counted = {name: formula(row) for name, formula in studies.COUNTED.items()}
    # milliseconds of a row; how much longer than its parts an epoch, and all, took
    assert counted == {"row_ms": 2.0, "in_epochs": 3.0, "in_batches": 500 / 125 / 3}


@pytest.mark.slow
def test_a_study_goes_on_and_tells_json(made):
    one = succeed("study", "made", "--json", "-q").json
    assert list(one) == ["study", "results", "rows", "left_out", "figures"]
    assert one["results"] == "study-made.csv"
    assert one["rows"] == 8
    assert one["left_out"] == 4
    assert one["figures"][0]["then"] == 5000.0
    assert one["figures"][0]["ratio"] == pytest.approx(5000 / one["figures"][0]["now"])
    again = succeed("study", "made")
    assert "0 of 8 networks" in again.err
    assert succeed("study", "made", "--json", "-q").json == one


@pytest.mark.slow
def test_a_study_says_how_long_it_takes_and_names_its_sister(made):
    err = succeed("study", "made", "-o", "r.csv").err
    assert "4 of 8 networks, up to about 12 s; nn study made-small takes" in err
    err = succeed("study", "made-small", "-o", "small.csv").err
    assert "takes about a minute" not in err
    large = {"layers": "50,1000,1000,1", "backend": "seq", "epochs": 100}
    (made / "plan.json").write_text(json.dumps({**PLAN, **large, "parts": [{}]}))
    (entry,) = sweep.read_plan("plan.json")
    products = 50 * 1000 + 1000 * 1000 + 1000
    expected = 3 + 2 * products * (3 * 200 * 100 + 3 * 1603) / 1e9
    assert studies.expected_seconds(entry) == pytest.approx(expected)


@pytest.mark.parametrize(
    "seconds, told",
    [(3.4, "3 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")],
)
def test_a_rough_time_is_told_in_the_unit_of_a_person(seconds, told):
    assert studies._duration(seconds) == told


def test_more_gpus_or_cores_than_there_are_are_not_here(made, monkeypatch):
    monkeypatch.setattr(studies, "_missing_backends", dict)
    monkeypatch.setattr(studies, "gpu_count", lambda: 2)
    plan = {**PLAN, "layers": "50,1", "parts": [{"backend": "cuda", "gpus": [1, 2, 4]}]}
    (made / "plan.json").write_text(json.dumps(plan))
    entries = sweep.read_plan("plan.json")
    reasons = [studies.reason_not_here(entry) for entry in entries]
    assert reasons == [None, None, "this machine has 2 GPUs"]
    monkeypatch.setattr(studies, "available_cores", lambda: 4)
    plan["parts"] = [{"backend": "omp", "threads": [3, 4, 5]}]
    (made / "plan.json").write_text(json.dumps(plan))
    reasons = [studies.reason_not_here(entry) for entry in sweep.read_plan("plan.json")]
    assert reasons == [None, None, "this machine has 4 cores"]


def test_a_wrong_name_is_told_with_the_names_that_there_are(made):
    result = run("study", "mode")
    assert result.code == 2
    assert "--study mode: no such study; there are made" in result.err
    result = run("study")
    assert result.code == 2
    assert "NAME" in result.err


@pytest.mark.parametrize(
    "figures, message",
    [
        (3, "expected a list"),
        ([3], "a figure's keys are"),
        ([{"what": "x", "column": "epoch_s"}], "a figure's keys are"),
        ([{**THEN["figures"][1], "when": 3}], "a figure's keys are"),
        ([{**THEN["figures"][1], "column": "ms"}], "no column ms"),
        ([{**THEN["figures"][1], "of": 3}], "a figure's keys are"),
        ([{**THEN["figures"][1], "then": [3]}], "a figure's keys are"),
        ([{**THEN["figures"][1], "layer": "1"}], "a figure's keys are"),
    ],
)
def test_figures_that_are_none_are_refused(made, figures, message):
    write_study(made, {"figures": figures})
    with pytest.raises(NnError, match=message):
        studies.find("made")
    assert run("study", "made").code == 2
