"""Rows beside those of a training: planted drifts are found, unchanged rows are not;
row by row what training never had; from the command, from Python, in files, pages."""

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from support.command_line import run, succeed

import nn
from nn.core.two_samples import compared
from nn.data import profiles
from nn.data.profiles import Fields
from nn.pages.model_page import page_of_drift
from nn.test.drift import (
    FALSE_ALARM,
    ColumnDrift,
    Drift,
    Far,
    _has_many_rare,
    drift_of,
    reasons_of,
)

TOWNS = np.array(["Rome", "Oslo", "Bern", "Kyiv"])
ROWS = 1200


def people(rows: int = ROWS, seed: int = 0, first: int = 0) -> dict[str, list]:
    """A table with a column of each kind, the target last."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(1, 80, rows).round(1)
    fare = rng.exponential(30, rows).round(2)
    day = np.datetime64("2020-01-01") + np.arange(first, first + rows)
    y = (age + rng.normal(0, 20, rows) > 40).astype(int)
    return {
        "age": age.tolist(),
        "fare": fare.tolist(),
        "town": TOWNS[rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])].tolist(),
        "member": np.where(rng.random(rows) < 0.3, "yes", "no").tolist(),
        "day": day.astype(str).tolist(),
        "second": (1e5 + np.arange(first, first + rows)).tolist(),
        "y": y.tolist(),
    }


def write(path, columns: dict[str, list]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture(scope="module")
def model():
    return nn.fit(people(), "y", layers="auto,4,1", folds=2, holdout=0, epochs=30)


def new(rows: int = 200, seed: int = 1) -> dict[str, list]:
    """Rows as those of the training, before they are changed."""
    columns = people(rows, seed)
    old = people()
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(ROWS, rows, replace=False)).tolist()
    for name in ("day", "second"):
        columns[name] = [old[name][place] for place in places]
    return columns


def drifted(report: dict) -> dict[str, str]:
    return {
        found["column"]: found["text"] for found in report["found"] if found["drift"]
    }


def test_unchanged_rows_do_not_differ(model):
    for seed in range(1, 30):
        for rows in (50, 200, 1000):
            report = model.drift(new(rows, seed))
            assert report["drifted"] == 0, (seed, rows, report)
            assert report["rows"] == rows
            assert report["columns"] == 5, "four columns and the predictions"


@pytest.mark.parametrize(
    ("column", "change", "text"),
    [
        ("age", lambda v, k: v * 365, "100% above 80 (training: 1 to 80)"),
        ("fare", lambda v, k: -1 - v, "100% below 0.01 (training: 0.01 to 212.2)"),
        (
            "town",
            lambda v, k: "Mars" if k % 2 else v,
            "50% unseen words (training: 0%)",
        ),
        ("town", lambda v, k: "" if k % 4 else v, "75% missing (training: 0%)"),
        ("town", lambda v, k: "Kyiv", '100% "Kyiv" (training: '),
        ("age", lambda v, k: "" if k % 2 else v, "50% missing (training: 0%)"),
        ("age", lambda v, k: 20.2, "100% from "),
        ("member", lambda v, k: "yes", '100% "yes" (training: '),
    ],
)
def test_planted_drifts_are_found(model, column, change, text):
    columns = new()
    columns[column] = [change(value, k) for k, value in enumerate(columns[column])]
    found = drifted(model.drift(columns))
    assert column in found
    assert found[column].startswith(f"{column}: {text}")
    assert found.keys() <= {column, "predictions"}


def test_swapped_columns_are_found_and_the_worst_is_first(model):
    columns = new()
    swapped = {**columns, "age": columns["fare"], "fare": columns["age"]}
    assert {"age", "fare"} <= drifted(model.drift(swapped)).keys()
    columns["town"] = ["Oslo"] * 200
    columns["age"] = [1000.0] * 200
    report = model.drift(columns)
    assert report["found"][0]["column"] == "age"
    assert report["found"][0]["difference"] == 1.0
    differences = [found["difference"] for found in report["found"] if found["drift"]]
    assert differences == sorted(differences, reverse=True)


def test_dates_and_running_numbers_are_told_and_are_no_drift(model):
    report = model.drift(people(200, 5, first=5000))
    assert drifted(report).keys() <= {"predictions"}, "for which they are inputs"
    told = {found["column"]: found for found in report["found"]}
    assert told.keys() - {"predictions"} == {"day", "second"}
    assert told["day"]["text"] == (
        "day: 100% above 2023-04-14 (training: 2020-01-01 to 2023-04-14); no drift: "
        "such values go on"
    )
    assert not told["day"]["drift"]
    assert told["second"]["p"] < 1e-9


def test_of_few_rows_values_far_outside_are_named_and_nothing_drifts(model):
    columns = new(49)
    columns["age"] = [300.0] + [120.0] * 48  # the range is 79 wide
    columns["town"] = ["Mars"] * 49
    columns["day"] = ["1900-01-01", *columns["day"][1:]]
    report = model.drift(columns)
    assert report["drifted"] == 0
    assert report["found"] == []
    assert report["far"] == [
        {"row": 0, "column": "age", "what": "300 above 80 (training: 1 to 80)"},
        {
            "row": 0,
            "column": "day",
            "what": "1900-01-01 below 2020-01-01 (training: 2020-01-01 to 2023-04-14)",
        },
    ]


def test_the_predictions_are_compared(model):
    columns = new()
    order = np.argsort(columns["age"])[::-1][:100]
    old = {name: [values[k] for k in order] for name, values in columns.items()}
    report = model.drift(old)
    text = drifted(report)["predictions"]
    assert text.startswith("predictions: ")
    assert '"1" (training: ' in text
    numbers = people()
    numbers["y"] = [2 * age for age in numbers["age"]]
    of_numbers = nn.fit(numbers, "y", layers="auto,8,1", folds=2, holdout=0, epochs=20)
    found = drifted(of_numbers.drift(old))
    assert found["predictions y"].startswith("predictions y: ")
    assert of_numbers.drift(new())["drifted"] == 0


def test_each_fold_predicts_its_part_of_the_rows():
    """The networks of one of two folds name other numbers: so has half of the rows."""
    numbers = people()
    numbers["y"] = [2 * age for age in numbers["age"]]
    settings = {"layers": "auto,4,1", "folds": 2, "holdout": 0, "epochs": 10}
    model = nn.fit(numbers, "y", **settings)
    assert model.drift(new())["drifted"] == 0
    other = model.network.members[1]
    vector = other.vector.copy()
    vector[-1] += 1000
    other.vector = vector
    (text,) = drifted(model.drift(new())).values()
    assert text.startswith("predictions y: 50% above ")


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_each_fold_predicts_by_its_temperature_and_its_threshold(task):
    """Rows 0, 2, ... by the networks of the first of two folds, the others by the
    second, each as often as it counts."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2)).astype(np.float32)
    y = (x + rng.normal(size=(120, 2)) > 0).astype(int)
    outputs = 1 if task == "binary" else 2
    ds = nn.Dataset(x, y[:, 0] if task == "binary" else y, task)
    nets = [nn.Network(f"2,{outputs}", task, seed=seed) for seed in (0, 7)]
    for net, rate in zip(nets, (0.02, 0.2), strict=True):
        nn.train(net, ds, folds=2, epochs=20, holdout=0.0, learning_rate=rate)
    weights = [1.0, 2.0, 8.0, 3.0]
    net.combine([member for one in nets for member in one.members], weights)
    temperatures = [0.2, 5.0]
    cuts = [[0.7, 0.45], [0.6, 0.45]][outputs - 1]
    crossed = replace(net.crossed, temperatures=temperatures, thresholds=cuts)
    net.facts = replace(net.facts, crossed=crossed)
    columns = drift_of(net, ds).columns[-outputs:]
    for k, column in enumerate(columns):
        scores = []
        for row in range(120):
            of_fold = slice(row % 2, None, 2)
            of_members = [
                member.predict(x[row : row + 1])[0, k]
                for member in net.members[of_fold]
            ]
            score = np.average(of_members, weights=weights[of_fold])
            logit = np.log(score / (1 - score)) / temperatures[row % 2]
            scores.append(1 / (1 + np.exp(-logit)))
        if task == "binary":
            picked = [score >= cuts[row % 2] for row, score in enumerate(scores)]
            found = dict(zip(column.labels, column.counts[1].tolist(), strict=True))
            expected = [picked.count(False), picked.count(True)]
            assert [found['"0"'], found['"1"']] == expected
        else:
            usual = Fields(profiles.AXIS, crossed.calibrated[:, k])
            new_scores = Fields(profiles.AXIS, np.array(scores))
            expected = profiles.counts_of(new_scores, profiles.profile_of(usual))
            assert column.counts[1].tolist() == list(expected)


def test_of_many_columns_one_must_differ_more_surely():
    labels = ["missing", "x", "y", "other"]

    def column(name: str, most: int, is_apart: bool = False) -> ColumnDrift:
        counts = np.array([[0, 500, 500, 0], [0, most, 100 - most, 0]])
        return ColumnDrift(name, labels, counts, slice(1, 3), is_apart=is_apart)

    unsure = column("a", 69)
    assert FALSE_ALARM / 10 < unsure.p < FALSE_ALARM
    alike = [column(f"b{number}", 50) for number in range(9)]
    assert Drift(100, [unsure], []).drifted == [unsure]
    assert Drift(100, [unsure, *alike], []).drifted == []
    apart = [column(f"c{number}", 50, True) for number in range(9)]
    assert Drift(100, [unsure, *apart], []).drifted == [unsure]


def test_p_and_difference_are_those_of_the_counts():
    counts = np.array([[0, 0, 100, 100, 100, 0], [30, 0, 20, 25, 15, 10]])
    labels = [
        "missing",
        "below 1",
        "from 1 to 2",
        "from 2 to 3",
        "from 3 to 4",
        "above 4",
    ]
    column = ColumnDrift("a", labels, counts, slice(2, 5), "1 to 4")
    expected = compared(counts[:, 2:5], counts[:, [0, 1, 5]])
    assert (column.p, column.difference) == expected
    assert column.difference == pytest.approx(0.3)
    assert column.text == "a: 30% missing (training: 0%)"
    counts = np.array([[0, 0, 60, 30, 10, 0], [0, 0, 50, 10, 40, 0]])
    less_than_before = ColumnDrift("a", labels, counts, slice(2, 5), "1 to 4")
    assert less_than_before.text == "a: 40% from 3 to 4 (training: 10%)"
    counts = np.array([[0, 60, 30, 200, 9], [30, 5, 10, 5, 1]])
    words = ColumnDrift("b", ["missing", "x", "y", "z", "other"], counts, slice(1, 4))
    assert words.p == compared(counts[:, [3, 1, 2]], counts[:, [0, 4]])[0]


def test_at_most_ten_lines_and_a_count():
    counts = np.array([[0, 0, 100, 0], [0, 0, 0, 100]])
    labels = ["missing", "below 1", "from 1 to 2", "above 2"]
    columns = [
        ColumnDrift(f"c{k}", labels, counts, slice(2, 3), "1 to 2") for k in range(14)
    ]
    lines = Drift(100, columns, []).lines()
    assert lines[0] == "14 of 14 columns differ from training"
    assert lines[1] == "c0: 100% above 2 (training: 1 to 2)"
    assert len(lines) == 12
    assert lines[-1] == "and 4 more"
    same = ColumnDrift(
        "c", labels, np.array([[0, 0, 100, 0], [0, 0, 99, 1]]), slice(2, 3), "1 to 2"
    )
    assert Drift(100, [same], []).lines() == []
    apart = ColumnDrift("d", labels, counts, slice(2, 3), "1 to 2", True)
    assert Drift(100, [apart, same], []).lines() == [apart.text]
    far = [Far(0, "a", "9 above 2"), Far(6, "b", "1 below 2")]
    told = ["row 1, a: 9 above 2", "row 7, b: 1 below 2"]
    assert Drift(7, [], far).lines() == told
    both = Drift(100, [apart, columns[0]], [])
    assert both.lines() == [
        "1 of 1 column differs from training",
        columns[0].text,
        apart.text,
    ]
    assert both.compared == 1
    page = page_of_drift(Drift(1234, columns, []), "x/m.bin", "y/t.csv")
    assert page.title == "t.csv beside m.bin"
    assert page.answer == [
        "Of 1,234 rows 14 of 14 columns differ from the rows that the model was trained on."
    ]
    worst = [(f"drift-{k}", f"Values of c{k}") for k in range(6)]
    assert [(picture.name, picture.title) for picture in page.pictures] == worst
    assert page.sections["Columns"][:12] == lines
    alike = page_of_drift(Drift(100, [same], []), "m.bin", "t.csv")
    assert alike.sections["Columns"] == ["1 column is as in training."]


def test_reasons_name_what_training_never_had(model):
    columns = new(6)
    columns["age"] = [40.0, 264.0, 0.5, "", 40.0, 40.0]
    columns["town"] = ["Rome", "Mars", "Oslo", "Rome", "", "Bern"]
    columns["day"] = [
        "2020-01-01",
        "2020-01-01",
        "2026-01-01",
        "2099-01-01",
        *["2020-01-01"] * 2,
    ]
    columns["second"] = [1e9] * 6
    ds = nn.load_for(model.network, columns, labelled=False)
    assert reasons_of(model.network, ds.x) == [
        "",
        'age 264 above 80; town "Mars" unseen',
        "age 0.5 below 1",
        "age missing; day 2099-01-01 above 2023-04-14",
        "town missing",
        "",
    ]


def test_rare_words_are_no_reason_where_they_are_many():
    columns = {
        "few": ["a", "b"] * 200,
        "many": [f"w{k}" if k % 3 else "common" for k in range(400)],
        "some": ["c" if k % 40 else f"r{k}" for k in range(400)],
        "y": [0, 1] * 200,
    }
    rare = nn.fit(columns, "y", layers="auto,1", epochs=1, categories="many,some")
    rows = {"few": ["a", "z"], "many": ["w1", "new"], "some": ["new", "c"]}
    ds = nn.load_for(rare.network, rows, labelled=False)
    assert reasons_of(rare.network, ds.x) == [
        'some "new" rare or unseen',
        'few "z" unseen',
    ]


def test_the_column_with_the_largest_difference_is_told_first():
    """Of equal ones the surest; columns that are no drift come last."""
    counts = np.array([[0, 0, 100, 0], [0, 0, 0, 100]])
    labels = ["missing", "below 1", "from 1 to 2", "above 2"]
    columns = []
    for name, difference, p, is_apart in (
        ("a", 0.9, 1e-9, True),
        ("b", 0.3, 1e-30, False),
        ("c", 0.5, 1e-8, False),
        ("d", 0.5, 1e-9, False),
        ("e", 0.05, 0.0, False),
    ):
        column = ColumnDrift(name, labels, counts, slice(2, 3), "1 to 2", is_apart)
        column.difference = difference
        column.p = p
        columns.append(column)
    drift = Drift(100, columns, [])
    assert [column.name for column in drift.differing] == ["d", "c", "b", "a"]
    assert [column.name for column in drift.drifted] == ["d", "c", "b"]


def test_a_gap_is_a_reason_where_training_had_none():
    columns = {"a": [1.0, 2.0] * 20, "b": [1.0, "", 3.0, 4.0] * 10, "y": [0, 1] * 20}
    net = nn.fit(columns, "y", layers="auto,1", epochs=1).network
    rows = {"a": ["", 1.5, ""], "b": [2.0, "", ""]}
    ds = nn.load_for(net, rows, labelled=False)
    assert reasons_of(net, ds.x) == ["a missing", "", "a missing"]


@pytest.mark.parametrize("rare, are_many", [(4, False), (5, False), (6, True)])
def test_rare_words_are_many_above_a_twentieth_of_the_rows(rare, are_many):
    assert _has_many_rare({"counts": [0, 100 - rare, rare]}) is are_many


@pytest.fixture
def trained(folder):
    write(folder / "t.csv", people())
    succeed(
        *("train", "t.csv", "-m", "m.bin", "--layers", "auto,4,1", "--epochs", 2),
        *("--holdout", 0, "-q"),
    )
    columns = new()
    write(folder / "same.csv", columns)
    columns["age"] = [365 * age for age in columns["age"]]
    write(folder / "new.csv", columns)
    return folder


TOO_FEW = "too few to compare, only values far outside those of training are told"


def test_nn_drift_ends_with_3_where_something_drifted(trained):
    same = run("drift", "m.bin", "same.csv")
    assert same.code == 0
    assert same.out == "same.csv, 200 rows: 4 columns are as in training\n"
    # what is no drift, and one row far outside, is told behind that
    later = new()
    later["day"] = ["2099-01-01"] * 200
    write(trained / "later.csv", later)
    write(trained / "few.csv", {name: later[name][:3] for name in later})
    for name, first, second in (
        ("later.csv", "200 rows: 4 columns are as in training", "day: 100% above "),
        ("few.csv", f"3 rows: {TOO_FEW}", "row 1, day: 2099-01-01 above "),
    ):
        told = run("drift", "m.bin", name)
        assert told.code == 0
        lines = told.out.splitlines()
        assert lines[0] == f"{name}, {first}"
        assert lines[1].startswith(second)
    other = run("drift", "m.bin", "new.csv", "--report", "page.html")
    assert other.code == 3
    assert other.out.splitlines() == [
        "new.csv, 200 rows: 1 of 4 columns differs from training",
        "age: 100% above 80 (training: 1 to 80)",
    ]
    page = (trained / "page.html").read_text()
    assert "<h1>new.csv beside m.bin</h1>" in page
    assert "Of 200 rows 1 of 4 columns differs from" in page
    assert "Values of age" in page
    words = re.findall(r">([^<>]* to [^<>]*|above 80|missing)</text>", page)
    assert words[0].startswith("1 to ")
    assert words[-1] == "above 80"
    assert "..." not in page
    report = run("drift", "--model", "m.bin", "--dataset", "new.csv", "--json")
    assert report.code == 3
    without = nn.Model.load("m.bin").drift("new.csv")
    assert json.loads(report.out) == {"model": "m.bin", **without}


def test_predict_and_test_tell_it_on_stderr_and_in_json(trained):
    plain = succeed("predict", "m.bin", "same.csv")
    assert "training" not in plain.err
    other = succeed("predict", "m.bin", "new.csv")
    told = [line for line in other.err.splitlines() if "new.csv: " in line][1:]
    assert told == [
        "nn: warning: new.csv: 1 of 4 columns differs from training",
        "nn: warning: new.csv: age: 100% above 80 (training: 1 to 80)",
    ]
    assert other.out.splitlines()[0] == "row,predicted,score 1,true"
    report = succeed("predict", "m.bin", "new.csv", "--json").json
    assert report["drift"]["drifted"] == 1
    assert len(report["rows"]) == 200
    report = succeed("predict", "m.bin", "new.csv", "--json", "-o", "p.csv").json
    assert report["drift"]["found"][0]["column"] == "age"
    assert report["rows"] == 200
    report = succeed("test", "m.bin", "new.csv", "--json", "--report", "p.md").json
    assert report["drift"] == nn.Model.load("m.bin").drift("new.csv")
    page = (trained / "p.md").read_text()
    assert "1 of 4 columns differs from training" in page
    assert "| these rows | above 80 | 0.99" in page or "above 80 | 1 |" in page
    assert succeed("test", "m.bin", "same.csv", "-q").err == ""
    few = {name: values[:5] for name, values in new().items()}
    write(trained / "few.csv", {**few, "age": [40, 50, 400, 60, 70]})
    err = succeed("predict", "m.bin", "few.csv").err
    assert "few.csv: row 3, age: 400 above 80 (training: 1 to 80)" in err


def test_a_column_that_drifts_is_told_in_one_line(trained):
    """Not by the remark on unseen values too, which is for Python and other models."""
    columns = new()
    word = next(name for name, values in columns.items() if isinstance(values[0], str))
    write(trained / "strange.csv", {**columns, word: ["never seen"] * 200})
    for command in (["test", "m.bin"], ["predict", "m.bin"], ["drift", "m.bin"]):
        done = run(*command, "strange.csv")
        told = done.err + done.out * (command[0] == "drift")
        lines = [line for line in told.splitlines() if f"{word}:" in line]
        assert len(lines) == 1, told
        assert "not seen" not in told, told


def test_flags_are_a_column_in_every_format(trained):
    rows = {name: values[:3] for name, values in new().items()}
    write(trained / "few.csv", {**rows, "town": ["Rome", 'a "b", c', ""]})
    expected = ["", 'town "a "b", c" unseen', "town missing"]
    succeed("predict", "m.bin", "few.csv", "--flag", "-o", "p.csv")
    with open("p.csv", newline="") as file:
        table = list(csv.reader(file))
    assert table[0][-1] == "reasons"
    assert [line[-1] for line in table[1:]] == expected
    succeed("predict", "m.bin", "few.csv", "--flag", "-o", "p.jsonl")
    lines = [
        json.loads(line) for line in (trained / "p.jsonl").read_text().splitlines()
    ]
    nulls = [reason or None for reason in expected]
    assert [line["reasons"] for line in lines] == nulls
    report = succeed("predict", "m.bin", "few.csv", "--flag", "--json").json
    assert [row["reasons"] for row in report["rows"]] == nulls
    parquet = pytest.importorskip("pyarrow.parquet")
    succeed("predict", "m.bin", "few.csv", "--flag", "-o", "p.parquet")
    assert parquet.read_table("p.parquet")["reasons"].to_pylist() == nulls


def test_gaps_of_plain_numbers_are_seen_before_medians_fill_them(folder, monkeypatch):
    monkeypatch.setattr("nn.commands.predictions.ROWS_OF_PREDICTIONS", 32)
    rng = np.random.default_rng(0)
    columns = {"a": rng.normal(size=300), "b": rng.normal(size=300)}
    columns = {name: values.round(4).tolist() for name, values in columns.items()}
    write(folder / "t.csv", {**columns, "y": [0.5 * v for v in columns["a"]]})
    succeed(
        *("train", "t.csv", "-m", "m.bin", "--layers", "2,1", "--epochs", 1),
        *("--holdout", 0, "-q"),
    )
    columns["a"] = ["" if k % 3 == 0 else v for k, v in enumerate(columns["a"])]
    write(folder / "new.csv", columns)
    other = run("drift", "m.bin", "new.csv")
    assert other.code == 3
    assert "a: 33% missing (training: 0%)" in other.out
    report = nn.Model.load("m.bin").drift(
        {name: [v or None for v in values] for name, values in columns.items()}
    )
    assert drifted(report) == {"a": "a: 33% missing (training: 0%)"}
    succeed("predict", "m.bin", "new.csv", "--flag", "-o", "p.csv")
    with open("p.csv", newline="") as file:
        reasons = [line["reasons"] for line in csv.DictReader(file)]
    assert reasons == ["a missing" if k % 3 == 0 else "" for k in range(300)]


def test_a_model_that_does_not_know_says_so(trained):
    net = nn.Model.load("m.bin").network
    net.facts = replace(net.facts, profiles=None)
    net.export("old.bin")
    for call in (("drift",), ("predict", "--flag")):
        refused = run(call[0], "old.bin", "new.csv", *call[1:])
        assert refused.code == 65
        assert refused.out == ""
        told = (
            "nn: old.bin does not know how the columns of its training were distributed"
        )
        assert refused.err.splitlines()[-1].startswith(told)
    assert succeed("predict", "old.bin", "new.csv", "--json").json["drift"] is None
    assert succeed("test", "old.bin", "new.csv", "--json").json["drift"] is None
    with pytest.raises(nn.DataError, match="does not know how the columns"):
        nn.Model.load("old.bin").drift("new.csv")
    assert drift_of(net, nn.load_for(net, "new.csv")) is None
