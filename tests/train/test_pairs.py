"""Settings two by two: every pair of them trains a small model in some case, after
which the same promises are checked.

The cases are a covering array of the table FACTORS (allpairspy). What cannot go
together is in REFUSED, whose pairs are refused in one line and stand in no case.
"""

import csv
import io
import json
import os
import signal
from collections import OrderedDict
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from support import c_models, launches, onnx_models
from support.command_line import ONE, argv, run, succeed

import nn
from nn.data.splits import split_rows
from nn.files import model_file
from nn.nn_aux import METRICS
from nn.train.member import Member

allpairspy = pytest.importorskip("allpairspy")

FACTORS = OrderedDict(
    columns=("numbers", "gaps", "words", "tables", "ordered", "dates"),
    target=("two", "three", "number", "numbers"),
    way=("one", "networks", "folds", "vary", "quick", "standard"),
    row_weights=("none", "weight"),
    class_weight=("none", "balanced"),
    threshold=("usual", "0.3", "f1"),
    calibrate=("none", "temperature"),
    division=("rows", "group", "time"),
    validation=("none", "0.25", "fold"),
    refit=("no", "yes"),
    split_seed=("usual", "7"),
    dtype=("float32", "float64"),
    memory=("all", "400M"),
)
USUAL = {name: values[0] for name, values in FACTORS.items()}
EFFORTS = ("quick", "standard")
CLASSES = ("two", "three")
OUTPUTS = {"two": 1, "three": 3, "number": 1, "numbers": 2}
ROWS = 90
METRICS_TOLD = {*METRICS, "macro_precision", "macro_recall", "macro_f1"}


class Rule(NamedTuple):
    """Settings that cannot go together: whether a case has them, an example, and the
    words that refuse it."""

    holds: object  # case -> bool; a setting that the case lacks so far is None
    example: dict
    words: str


REFUSED = [
    Rule(
        lambda case: (
            case.get("threshold") not in ("usual", None)
            and case.get("target") not in ("two", None)
        ),
        {"threshold": "f1", "target": "three"},
        "--threshold f1: is for two classes",
    ),
    Rule(
        lambda case: (
            case.get("class_weight") == "balanced"
            and case.get("target") in ("number", "numbers")
        ),
        {"class_weight": "balanced", "target": "number"},
        "works for classification only",
    ),
    Rule(
        lambda case: (
            case.get("calibrate") == "temperature"
            and case.get("target") in ("number", "numbers")
        ),
        {"calibrate": "temperature", "target": "numbers", "validation": "0.25"},
        "needs class probabilities",
    ),
    Rule(
        lambda case: (
            case.get("calibrate") == "temperature"
            and case.get("class_weight") == "balanced"
        ),
        {"calibrate": "temperature", "class_weight": "balanced", "validation": "0.25"},
        "--calibrate temperature beside --class_weight balanced",
    ),
    Rule(
        lambda case: (
            case.get("calibrate") == "temperature"
            and case.get("validation") == "none"
            and case.get("way") in ("one", "networks", "vary")
        ),
        {"calibrate": "temperature"},
        "needs validation rows",
    ),
    Rule(
        lambda case: (
            case.get("way") in EFFORTS and case.get("validation") not in ("none", None)
        ),
        {"way": "quick", "validation": "0.25"},
        "--validation is not for it",
    ),
    Rule(
        lambda case: case.get("way") in EFFORTS and case.get("refit") == "yes",
        {"way": "standard", "refit": "yes"},
        "--refit is not for it",
    ),
    Rule(
        lambda case: (
            case.get("validation") == "fold" and case.get("way") not in ("folds", None)
        ),
        {"validation": "fold", "way": "networks"},
        "give --folds too",
    ),
    Rule(
        lambda case: (
            case.get("refit") == "yes" and case.get("validation") not in ("0.25", None)
        ),
        {"refit": "yes"},
        "--refit: needs validation rows",
    ),
]


def is_possible(values: list) -> bool:
    """Return whether a case, or the beginning of one, has no settings that are refused
    together."""
    case = dict(zip(FACTORS, values))
    return not any(rule.holds(case) for rule in REFUSED)


def all_pairs():
    """Yield every two settings that can go together."""
    names = list(FACTORS)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            for pair in product(FACTORS[first], FACTORS[second]):
                settings = dict(zip((first, second), pair))
                if not any(rule.holds(settings) for rule in REFUSED):
                    yield settings


def covering_cases() -> list[dict]:
    """Return cases in which every pair stands: the generator leaves out some that few
    cases may have."""
    values = allpairspy.AllPairs(list(FACTORS.values()), filter_func=is_possible)
    cases = [dict(zip(FACTORS, row)) for row in values]
    begun: list[dict] = []  # further cases, with the settings that they need
    for pair in all_pairs():
        if any(pair.items() <= case.items() for case in (*cases, *begun)):
            continue
        for place, settings in enumerate(begun):
            both = settings | pair
            if pair | settings == both and completed(both) is not None:
                begun[place] = both
                break
        else:
            begun.append(pair)
    return cases + [completed(settings) for settings in begun]


def completed(settings: dict) -> dict | None:
    """Return a case with some settings, the usual ones and what they need beside them;
    None where no case has them."""
    for needed in ({}, {"validation": "0.25"}, {"way": "folds"}, {"way": "quick"}):
        case = USUAL | needed | settings
        if is_possible(list(case.values())):
            return case
    return None


CASES = covering_cases()


def name_of(case: dict) -> str:
    return (
        "-".join(value for name, value in case.items() if value != USUAL[name])
        or "usual"
    )


# ---------------------------------------------------- the table and the flags of a case


def write_table(path: str, case: dict, seed: int = 0, rows: int = ROWS) -> None:
    """Write a table whose target follows its columns, with a weight, a person and a day
    for each row."""
    draws = np.random.default_rng(seed)
    a = draws.normal(size=rows).round(3)
    b = draws.normal(10, 3, size=rows).round(2)
    third = {
        "numbers": draws.integers(0, 5, size=rows).tolist(),
        "gaps": [
            "" if row % 7 == 3 else value
            for row, value in enumerate(draws.normal(size=rows).round(2).tolist())
        ],
        "words": draws.choice(["red", "green", "blue, dark"], rows).tolist(),
        "tables": [f"town {place}" for place in draws.integers(0, 18, size=rows)],
        "ordered": draws.choice(["low", "mid", "high"], rows).tolist(),
        "dates": [
            f"{np.datetime64('2020-01-01') + int(day)}T00:00:00"
            for day in draws.integers(0, 900, size=rows)
        ],
    }[case["columns"]]
    score = a + 0.2 * (b - 10) + 0.4 * draws.normal(size=rows)
    selected = np.where(score > 0.3, "yes", "no")
    targets = {
        "two": {"y": selected},
        "three": {"y": np.array(["A", "B", "C"])[np.digitize(score, [-0.5, 0.6])]},
        "number": {"y": (100 + 10 * score).round(2)},
        "numbers": {"y": (100 + 10 * score).round(2), "z": (score + a).round(3)},
    }[case["target"]]
    beside = {
        "weight": draws.integers(1, 4, size=rows),
        "person": [f"p{person}" for person in draws.integers(0, 30, size=rows)],
        "day": draws.permutation(rows),
    }
    table = {"a": a, "b": b, "third": third, **beside, **targets}
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def settings_of(case: dict) -> dict:
    """Return the settings of a case, as nn.fit takes them and the command has them as
    flags."""
    settings = {"target": "y,z" if case["target"] == "numbers" else "y", "seed": 3}
    roles = {
        "weight": case["row_weights"] == "weight",
        "group": case["division"] == "group",
    }
    roles["time"] = case["division"] == "time"
    columns = {"weight": "weight", "group": "person", "time": "day"}
    settings |= {role: columns[role] for role, is_asked in roles.items() if is_asked}
    unused = [columns[role] for role, is_asked in roles.items() if not is_asked]
    if unused:
        settings["drop"] = ",".join(unused)
    if case["columns"] == "ordered":
        settings["ordered"] = "third=low<mid<high"
    if case["way"] in EFFORTS:
        settings["effort"] = case["way"]
    else:
        settings |= {
            "layers": f"auto,4:tanh,{OUTPUTS[case['target']]}",
            "epochs": 4,
            "learning_rate": 0.02,
        }
        settings |= {
            "one": {},
            "networks": {"networks": 2},
            "folds": {"folds": 3},
            "vary": {"networks": 4, "vary": "weight_decay=0.01..0.3"},
        }[case["way"]]
    for name in (
        "class_weight",
        "threshold",
        "calibrate",
        "validation",
        "split_seed",
        "dtype",
        "memory",
    ):
        if case[name] != USUAL[name]:
            settings[name] = case[name]
    if case["refit"] == "yes":
        settings["refit"] = True
    return settings


def flags_of(settings: dict) -> list[str]:
    flags = []
    for name, value in settings.items():
        if value is True:
            flags += [f"--{name}"]
        else:
            flags += [f"--{name}", str(value)]
    return flags


class Trained(NamedTuple):
    """A case that was trained, in a folder of its own: m.bin of t.csv, new rows in
    new.csv."""

    case: dict
    settings: dict
    figures: dict  # of --json

    @property
    def network(self) -> nn.Network:
        return nn.Network.of_file("m.bin")

    def test(self, *flags) -> dict:
        return succeed("test", "m.bin", "new.csv", "--json", *flags).json


@pytest.fixture(scope="module", params=CASES, ids=name_of)
def trained(request, tmp_path_factory) -> Trained:
    """Each case, trained by the command."""
    case = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("pair"))
        write_table("t.csv", case)
        write_table("new.csv", case, seed=1, rows=24)
        settings = settings_of(case)
        result = succeed(
            "train", "t.csv", "-m", "m.bin", *flags_of(settings), "--json", "-q"
        )
        yield Trained(case, settings, result.json)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "rule", REFUSED, ids=lambda rule: name_of(USUAL | rule.example)
)
def test_settings_that_cannot_go_together_are_refused_in_one_line(folder, rule):
    case = USUAL | rule.example
    assert rule.holds(case)
    write_table("t.csv", case)
    result = run("train", "t.csv", "-m", "m.bin", *flags_of(settings_of(case)))
    assert result.code == 2
    assert rule.words in result.err
    assert len(result.err.splitlines()) == 1
    assert not (folder / "m.bin").exists()


# ---------------------------------------------------------------- promises


def flat(figures: dict) -> dict:
    """Return the metrics of a test by name, macro ones as macro_NAME."""
    macro = {f"macro_{name}": value for name, value in figures.get("macro", {}).items()}
    return {
        name: value
        for name, value in (figures | macro).items()
        if name in METRICS_TOLD and value is not None
    }


@pytest.mark.usual(3, 20)
def test_a_test_tells_what_the_training_told(trained):
    figures = trained.figures.get("out_of_fold")
    if figures is None:
        pytest.skip("the training told losses alone")
    tested = succeed("test", "m.bin", "--json").json
    for name, value in flat(figures).items():
        assert flat(tested)[name] == value, name


@pytest.mark.usual(3, 20)
def test_python_trains_the_model_of_the_command(trained):
    settings = {
        name: value for name, value in trained.settings.items() if name != "target"
    }
    model = nn.fit("t.csv", trained.settings["target"], **settings)
    model.save("python.bin")
    tensors, facts = model_file.load("m.bin")
    others, other_facts = model_file.load("python.bin")
    expected = {name: array.tobytes() for name, array in others.items()}
    assert {name: array.tobytes() for name, array in tensors.items()} == expected
    assert {name for name in facts if facts[name] != other_facts.get(name)} <= {
        "sha256",
        "config",
    }


@pytest.mark.usual(8, 24)
def test_command_and_python_judge_new_rows_alike_and_figures_lie_in_their_intervals(
    trained,
):
    by_command = trained.test("--intervals")
    net = trained.network
    by_python = nn.test(net, nn.load_for(net, "new.csv"), intervals=True)
    document = json.loads(json.dumps(by_python))
    assert flat(document) == flat(by_command)
    figures = flat(by_command)
    for name, ends in by_command["intervals"].items():
        if ends is not None:
            assert ends[0] <= figures[name] <= ends[1], name


@pytest.mark.usual(12)
def test_the_printed_figures_are_those_of_json(trained):
    printed = succeed("test", "m.bin", "new.csv").out
    figures = trained.test()
    if trained.case["target"] in ("number", "numbers"):
        digits = "{:.6g}"
    else:
        digits = "{:.4f}"
    for name in ("accuracy", "log_loss", "rmse", "mae", "precision"):
        if isinstance(figures.get(name), float):
            label = {"log_loss": "log loss", "rmse": "RMSE", "mae": "MAE"}.get(
                name, name
            )
            line = next(line for line in printed.splitlines() if line.startswith(label))
            expected = digits.format(figures[name])
            assert line.split()[-1] == expected


@pytest.mark.usual(8, 24)
def test_a_row_alone_is_the_row_among_others(trained):
    together = list(csv.reader(io.StringIO(succeed("predict", "m.bin", "new.csv").out)))
    head, *rows = Path("new.csv").read_text().splitlines()
    for row in (0, 3, 17):
        Path("alone.csv").write_text(f"{head}\n{rows[row]}\n")
        alone = list(
            csv.reader(io.StringIO(succeed("predict", "m.bin", "alone.csv").out))
        )
        expected = together[row + 1][1:]
        assert alone[1][1:] == expected


@pytest.mark.usual(12)
def test_a_row_of_weight_2_is_the_row_twice_in_every_figure(trained):
    net = trained.network
    ds = nn.load_for(net, "new.csv")
    weights = 1 + np.arange(ds.rows) % 3
    ds.weights = weights.astype(np.float64)
    ds.groups = None
    ds.times = None
    weighted = flat(nn.test(net, ds))
    ds.weights = None
    indices = np.arange(ds.rows)
    report = nn.test(net, ds.of_rows(np.repeat(indices, weights)))
    repeated = flat(report)
    assert weighted.keys() == repeated.keys()
    for name, value in weighted.items():
        assert value == pytest.approx(repeated[name], rel=1e-12, abs=1e-12), name


@pytest.mark.usual(0, 20)
def test_onnx_and_c_predict_what_predict_does_labels_too(trained, tmp_path):
    if trained.case["columns"] == "numbers":
        pytest.skip("rows of plain numbers are tests/files/test_exports.py's")
    folder = tmp_path
    (folder / "m.bin").write_bytes(Path("m.bin").read_bytes())
    onnx_models.check_table(folder, "new.csv")
    succeed("export", folder / "m.bin", "-o", folder / "m.c", "-q")
    if trained.case["dtype"] == "float64":
        tolerance = 1e-12
    else:
        tolerance = c_models.SINGLE
    c_models.check_program(folder, "new.csv", tolerance)


@pytest.mark.usual(8, 24)
def test_base_and_contributions_add_up_to_the_prediction(trained):
    net = trained.network
    rows = nn.load_for(net, "new.csv", labelled=False).x
    background = nn.load_for(net, "t.csv", labelled=False).x
    explained = nn.explain(net, rows[:4], background[:10])
    base_values = np.asarray(explained.base_values)
    total = base_values + np.asarray(explained.values).sum(axis=1)
    predictions = net.predict(rows[:4])
    outputs = predictions.astype(np.float64)
    if net.task == "binary":
        outputs = np.log(outputs / (1 - outputs))
    elif net.task == "multiclass":
        mean = np.log(outputs).mean(axis=1, keepdims=True)
        outputs = np.log(outputs) - mean
    np.testing.assert_allclose(
        total.reshape(outputs.shape), outputs, rtol=1e-4, atol=1e-4
    )


@pytest.mark.usual(8, 24)
def test_a_comparison_tells_the_figures_of_each_model(trained):
    usual = {
        name: value
        for name, value in trained.settings.items()
        if name in ("target", "drop", "weight", "ordered")
    }
    roles = {
        name: trained.settings[name]
        for name in ("group", "time")
        if name in trained.settings
    }
    succeed(
        *ONE,
        *argv("--dataset t.csv -m other.bin --epochs 1 -q"),
        *flags_of(usual | roles),
    )
    report = succeed(
        "compare", "m.bin", "other.bin", "--dataset", "new.csv", "--json"
    ).json
    for model in ("m.bin", "other.bin"):
        figures = succeed("test", model, "new.csv", "--json").json
        for name, pair in report["metrics"].items():
            value = flat(figures).get(name, flat(figures).get(f"macro_{name}"))
            assert pair[model] == (
                None if value is None else pytest.approx(value, rel=1e-12)
            ), name


@pytest.mark.usual(12)
def test_inputs_of_rows_that_are_held_out_change_no_bit_of_the_model(trained):
    if "effort" in trained.settings or trained.case["way"] == "folds":
        pytest.skip("no row is held out")
    net = trained.network
    ds = nn.load_for(net, "t.csv")
    seed = int(trained.settings.get("split_seed", trained.settings["seed"]))
    held_out = split_rows(ds, 0.2, 0.0, seed).holdout
    assert len(held_out)
    head, *rows = Path("t.csv").read_text().splitlines()
    for row in held_out:
        a, rest = rows[row].split(",", 1)
        rows[row] = f"{float(a) + 50},{rest}"
    text = "\n".join([head, *rows])
    Path("changed.csv").write_text(text + "\n")
    succeed(
        "train", "changed.csv", "-m", "changed.bin", *flags_of(trained.settings), "-q"
    )
    tensors, facts = model_file.load("m.bin")
    others, other_facts = model_file.load("changed.bin")
    for name, array in tensors.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)
    for name in (
        "layers",
        "scaling",
        "encoding",
        "threshold",
        "target_scaling",
        "classes",
        "medians",
        "temperature",
    ):
        assert facts.get(name) == other_facts.get(name), name


@pytest.mark.usual(0, 15)
def test_a_training_that_is_stopped_goes_on_to_the_same_bytes(trained):
    flags = [
        *argv("train t.csv -m resumed.bin"),
        *flags_of(trained.settings),
        *argv("-q --checkpoint c"),
    ]
    with StopsInEpoch(2):
        stopped = run(*flags)
    assert stopped.code == 75, stopped.err
    succeed(*flags, "--resume", "auto")
    assert Path("resumed.bin").read_bytes() == Path("m.bin").read_bytes()


class StopsInEpoch:
    """Sends SIGTERM to this process after some epochs of its trainings."""

    def __init__(self, epochs: int):
        self._epochs = epochs

    def __enter__(self):
        self._kept = Member._judge
        left = [self._epochs]

        def judge(member):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            yield from self._kept(member)

        Member._judge = judge

    def __exit__(self, *_):
        Member._judge = self._kept


# --------------------------------------------------------------------- on two ranks

RANKS = """
import json, sys, warnings
import nn
from nn import cluster

warnings.simplefilter("ignore")
for name, settings in json.load(open("cases.json")).items():
    model = nn.fit(f"{name}.csv", distribute="mirrored", **settings)
    if cluster.current().rank == 0:
        model.save(f"{name}.ranks.bin")
sys.exit(cluster.end(0))
"""


def cases_of_each_setting() -> list[dict]:
    """Return few cases in which every setting stands."""
    missing = {(name, value) for name, values in FACTORS.items() for value in values}
    chosen = []
    while missing:
        case = max(CASES, key=lambda case: len(missing & {*case.items()}))
        missing -= {*case.items()}
        chosen.append(case)
    return chosen


def test_two_ranks_train_what_one_process_trains(mpich, folder, monkeypatch):
    """Networks that ranks divide are the same bytes; a network whose batches they share
    differs by the rounding of sums."""
    launches.prepare_launch(folder, monkeypatch)
    settings = {}
    for number, case in enumerate(cases_of_each_setting()):
        write_table(f"{number}.csv", case)
        settings[number] = settings_of(case)
    Path("cases.json").write_text(json.dumps(settings))
    launched = mpich.run(2, RANKS)
    assert launched.returncode == 0, launched.stderr
    for number, of_case in settings.items():
        nn.fit(f"{number}.csv", **of_case).save(f"{number}.bin")
        by_ranks = Path(f"{number}.ranks.bin")
        if {"networks", "folds", "effort"} & of_case.keys():
            assert by_ranks.read_bytes() == Path(f"{number}.bin").read_bytes(), of_case
            continue
        alone = nn.Network.of_file(f"{number}.bin")
        several = nn.Network.of_file(by_ranks)
        table = f"{number}.csv"
        scores = alone.predict(nn.load_for(alone, table).x)
        assert several.predict(nn.load_for(alone, table).x) == pytest.approx(
            scores, rel=1e-3, abs=1e-5
        )
