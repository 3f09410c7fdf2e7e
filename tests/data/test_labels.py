"""Classes as a file has them: one called None, codes with zeros before them; rows
without any, which are counted."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.table_formats import pa, pd
from support.tables import as_frame, refusal, saved

import nn

ROWS = 60
FORMS = ["csv", "parquet", "db", "jsonl", "pandas", "arrow", "columns", "rows", "y"]


def table(labels: list) -> dict[str, list]:
    """Two columns of numbers, and y with these labels again and again."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 2)).round(3)
    y = [labels[row % len(labels)] for row in range(ROWS)]
    a = x[:, 0].tolist()
    b = x[:, 1].tolist()
    return {"a": a, "b": b, "y": y}


def loaded(columns: dict[str, list], form: str, **choices) -> nn.Dataset:
    """A table as a door of nn reads it; None is its gap."""
    if form == "csv":
        columns = {
            name: ["" if value is None else value for value in values]
            for name, values in columns.items()
        }
    if form == "jsonl":
        pd.DataFrame(columns).to_json("t.jsonl", orient="records", lines=True)
        return nn.load("t.jsonl", **choices)
    Path("t.db").unlink(missing_ok=True)
    if form in ("csv", "parquet", "db"):
        path = saved(columns, f"t.{form}")
        return nn.load(path, **choices)
    if form == "y":
        x = np.array([columns["a"], columns["b"]]).T
        y = np.array(columns["y"], object)
        return nn.load(x, y=y, **choices)
    return nn.load(as_frame(columns, form), **choices)


def csv_with(labels: list, path: str = "t.csv") -> str:
    return saved(table(labels), path)


@pytest.fixture(autouse=True)
def in_folder(folder):
    return folder


# ---------------------------------------------------------------- None


@pytest.mark.parametrize("form", FORMS)
def test_none_is_a_class_of_words_beside_gaps_in_every_door(form):
    ds = loaded(table(["None", "yes", None]), form)
    assert ds.classes == ["None", "yes"]
    assert ds.rows == 40
    assert ds.unlabelled == 20
    assert ds.class_counts() == [20, 20]
    assert ds.about_unlabelled() == "left out: 20 rows without a target: empty (20)"
    columns = table(["None", "yes", "no", None])
    undone = loaded(columns, form, missing="None")
    assert undone.classes == ["no", "yes"]
    assert undone.unlabelled == 30
    assert (
        undone.about_unlabelled()
        == "left out: 30 rows without a target: None (15), empty (15)"
    )


@pytest.mark.parametrize("form", FORMS)
def test_beside_numbers_none_is_a_gap(form):
    cases = ((["1", "None", "0"], ["0", "1"]), (["0.5", "None", "3.25", "7.125"], None))
    for labels, classes in cases:
        ds = loaded(table(labels), form)
        assert ds.classes == classes
        assert ds.unlabelled == ROWS // len(labels)
        assert ds.about_unlabelled().endswith(f": None ({ds.unlabelled})")
    columns = table(["$1,200", "None", "$900.50", "$30"])
    assert loaded(columns, form, task="regression").unlabelled == 15


def test_all_other_words_for_a_gap_stay_so_in_any_case_of_letters():
    words = [
        "",
        "?",
        "NA",
        "na",
        "Na",
        "N/A",
        "n/a",
        "NaN",
        "nan",
        "NAN",
        "null",
        "NULL",
        "Null",
    ]
    for classes in (["None", "yes"], ["0", "1"]):
        labels = [*classes, *words]
        ds = nn.load(csv_with(labels))
        assert ds.classes == classes
        expected = ROWS - sum(ds.class_counts())
        assert ds.unlabelled == expected
        assert ds.unlabelled > 0
        counts = ds.unlabelled_words
        assert counts == {
            word: table([*classes, *words])["y"].count(word) for word in words
        }
    y = [*(row / 7 for row in range(57)), "na", "NULL", "nAn"]
    columns = {"a": range(60), "y": y}
    numbers = nn.load(saved(columns, "n.csv"))
    assert numbers.task == "regression"
    assert numbers.rows == 57
    assert (
        numbers.about_unlabelled()
        == "left out: 3 rows without a target: na (1), NULL (1), nAn (1)"
    )


def test_a_number_that_is_a_gap_is_counted_by_its_word():
    y = [*(row / 7 for row in range(57)), -999, "-999.0", ""]
    columns = {"a": range(60), "y": y}
    ds = nn.load(saved(columns, "n.csv"), missing="-999")
    assert (
        ds.about_unlabelled()
        == "left out: 3 rows without a target: -999 (2), empty (1)"
    )


def test_none_in_features_stays_a_gap():
    a = [1.5, "None", 2.5] * 20
    b = ["u", "None", "v"] * 20
    columns = {"a": a, "b": b, "y": ["None", "x"] * 30}
    ds = nn.load(saved(columns, "t.csv"))
    assert ds.classes == ["None", "x"]
    values = ds.x.columns[0].values
    assert np.isnan(values).sum() == 20
    column = ds.x.columns[1]
    assert column.words == ["u", "v"]
    column = ds.x.columns[1]
    assert column.is_gap.sum() == 20


def test_targets_of_several_columns_have_no_class_names():
    y = [0.5, "None", 2.5] * 20
    z = ["na", 1.25, 3.5] * 20
    columns = {"a": range(60), "y": y, "z": z}
    ds = nn.load(saved(columns, "t.csv"), target="y,z")
    assert ds.task == "regression"
    assert ds.rows == 60
    assert np.isnan(ds.y).sum(axis=0).tolist() == [20, 20]
    told = "rows without a target, which count for no loss of it: y (20), z (20)"
    assert told in ds.remarks


def test_a_model_knows_none_as_a_class_where_training_had_it():
    given = ["--train", "--layers", "2,4,1", "--epochs", 1]
    path = csv_with(["None", "yes", "NA"])
    done = succeed(*given, "--dataset", path, "--model", "m.bin", "--holdout", 0)
    assert "left out: 20 rows without a target: NA (20)" in done.err
    tested = succeed("--test", "--model", "m.bin", "--dataset", "t.csv", "--json")
    assert tested.json["rows"] == 40
    assert "t.csv: left out: 20 rows without a target: NA (20)" in tested.err
    path = csv_with(["None", ""], "only.csv")
    only = succeed("--test", "--model", "m.bin", "--dataset", path, "--json")
    assert only.json["rows"] == 30
    assert only.json["tp"] + only.json["fn"] == 0
    assert truths(["None", "yes"])[:2] == ["None", "yes"]
    # without it None is a gap, as before
    succeed(*given, "--dataset", csv_with(["no", "yes"]), "--model", "m.bin")
    path = csv_with(["no", "yes", "None"])
    tested = succeed("--test", "--model", "m.bin", "--dataset", path, "--json")
    assert tested.json["rows"] == 40
    assert "None (20)" in tested.err


def test_compare_and_validation_say_which_rows_they_leave_out():
    csv_with(["None", "yes", "NA"])
    for name in ("a.bin", "b.bin"):
        given = ["--layers", "2,4,1", "--epochs", 1, "--validation", "t.csv"]
        done = succeed("--train", "--dataset", "t.csv", "--model", name, *given)
        assert "t.csv: left out: 20 rows without a target: NA (20)" in done.err
    done = succeed("--compare", "a.bin,b.bin", "--dataset", "t.csv", "--json")
    assert done.json["rows"] == 40
    assert "left out: 20 rows without a target: NA (20)" in done.err


def test_python_says_it_too():
    with pytest.warns(
        nn.NnWarning, match=r"left out: 20 rows without a target: NA \(20\)"
    ):
        path = csv_with(["None", "yes", "NA"])
        model = nn.fit(path, layers="2,4,1", epochs=1)
    with pytest.warns(
        nn.NnWarning, match=r"left out: 20 rows without a target: NA \(20\)"
    ):
        model.test("t.csv")
    message = refusal(lambda: nn.fit(csv_with(["NA", "yes"]), layers="2,4,1", epochs=1))
    assert "only class yes (30 rows)" in message
    assert message.endswith("left out: 30 rows without a target: NA (30)")


# ---------------------------------------------------------------- codes


@pytest.mark.parametrize("form", FORMS)
def test_codes_keep_their_zeros_in_every_door(form):
    columns = table(["01", "02", "03"])
    assert loaded(columns, form).classes == ["01", "02", "03"]
    # two classes
    columns = table(["01", "1", "2"])
    assert loaded(columns, form).classes == ["01", "1", "2"]
    ds = loaded(table(["00", "01", "00"]), form)
    assert ds.task == "binary"
    assert ds.classes == ["00", "01"]
    assert ds.class_counts() == [40, 20]


def test_a_code_far_behind_the_first_rows_keeps_its_zeros():
    y = [*["1", "2"] * 499, "01", "02"]
    columns = {"a": range(1000), "y": y}
    ds = nn.load(saved(columns, "t.csv"))
    assert ds.classes == ["01", "1", "02", "2"]


def test_numbers_with_zeros_before_them_are_numbers_where_the_task_is_a_regression():
    texts = [f"{row:03d}" for row in range(ROWS)]
    ds = nn.load(csv_with(texts))
    assert ds.classes is None
    y = ds.y[:, 0].tolist()
    assert y == list(range(ROWS))
    path = csv_with(["01", "02", "1.5"])
    y = nn.load(path, task="regression").y
    assert y[:3, 0].tolist() == [1.0, 2.0, 1.5]


def test_one_and_one_point_nought_are_one_class():
    ds = nn.load(csv_with(["1", "1.0", "2"]))
    assert ds.classes == ["1", "2"]
    ds = nn.load(csv_with(["01", "1.0", "1", "2"]))
    assert ds.class_counts() == [15, 30, 15]


def trained(labels: list, *flags) -> None:
    if len(labels) == 2:
        width = 1
    else:
        width = len(labels)
    given = ["--layers", f"2,4,{width}", "--epochs", 1, "--holdout", 0, *flags]
    succeed("--train", "--dataset", csv_with(labels), "--model", "m.bin", *given)


def truths(labels: list) -> list[str]:
    """The true labels that --predict writes for a file with these."""
    done = succeed(
        "--predict", "--model", "m.bin", "--dataset", csv_with(labels, "new.csv"), "-q"
    )
    return [row["true"] for row in csv.DictReader(io.StringIO(done.out))]


def test_other_spellings_are_the_same_class_in_a_test():
    trained(["01", "02", "3"])
    net = nn.Network.load("m.bin")
    assert net.classes == ["01", "02", "3"]
    spellings = (["1", "2", "3"], ["1.0", "2.0", "03"], ["01", "02", "3.0"])
    for spelling in spellings:
        assert truths(spelling)[:3] == ["01", "02", "3"]
        result = succeed("--test", "--model", "m.bin", "--dataset", "new.csv", "--json")
        assert result.json["rows"] == ROWS
    frame = pd.DataFrame(table([1, 2, 3]))
    model = nn.Model.load("m.bin")
    assert model.test(frame) == nn.Model.load("m.bin").test("t.csv")
    trained(["1", "2", "3"])
    assert truths(["01", "02", "03"])[:3] == ["1", "2", "3"]


def test_where_two_labels_would_be_one_the_spelling_decides():
    trained(["01", "1", "2"])
    assert truths(["01", "1", "2.0"])[:3] == ["01", "1", "2"]
    path = csv_with(["1.0", "2"], "new.csv")
    result = run("--test", "--model", "m.bin", "--dataset", path)
    line = result.err.splitlines()[-1]
    assert 'found class "1.0", expected one of the model\'s classes 01, 1, 2' in line


def test_exports_have_the_codes(folder):
    trained(["01", "02", "03"])
    succeed("--export", "--model", "m.bin", "-o", "m.c")
    assert '"01", "02", "03"' in (folder / "m.c").read_text()
    succeed("--export", "--model", "m.bin", "-o", "m.onnx")
    runtime = pytest.importorskip("onnxruntime").InferenceSession("m.onnx")
    features = np.zeros((1, 2))
    labels = runtime.run(["label"], {"features": features})[0]
    assert labels[0] in ("01", "02", "03")
    model = nn.Model.load("m.bin")
    predictions = model.predict(np.zeros((1, 2)))
    assert labels[0] == predictions[0]


def test_positive_and_the_page_name_codes():
    trained(["01", "02"], "--positive", "1")  # as 01 is spelled too
    assert nn.Network.load("m.bin").classes == ["02", "01"]
    succeed(
        "--test", "--model", "m.bin", "--dataset", "t.csv", "--report", "page.md", "-q"
    )
    with open("page.md") as page:
        assert "01" in page.read()
    assert "true 01" in succeed("--test", "--model", "m.bin", "--dataset", "t.csv").out


def test_a_model_of_mixed_columns_knows_its_file_again():
    b = ["u", "v", None, "w"] * 15
    columns = table(["01", "02", "03"]) | {"b": b}
    b = ["" if word is None else word for word in columns["b"]]
    saved(columns | {"b": b}, "t.csv")
    succeed(*argv("--train --dataset t.csv --model m.bin --layers 2,4,3 --epochs 1"))
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == 12


def test_classes_of_parquet_and_csv_are_the_same():
    columns = table(["01", "None", "x"])
    frame = pa.table(columns)
    classes = nn.load(frame, task="multiclass").classes
    ds = nn.load(saved(columns, "t.csv"), task="multiclass")
    assert classes == ds.classes
