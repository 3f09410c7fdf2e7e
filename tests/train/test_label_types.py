"""Classes that Python gives in a type come back in it, from a model file too; in files
and JSON they are texts."""

import numpy as np
import pytest
from support.command_line import argv, succeed
from support.table_formats import pd
from support.tables import as_frame

import nn

ROWS = 40
LABELS = {
    "int": [0, 1],
    "bool": [False, True],
    "float": [0.5, 1.5],
    "str": ["0", "1"],
    "three": [3, 4, 5],
}


def columns(labels: list) -> dict[str, list]:
    x = np.random.default_rng(0).normal(size=(ROWS, 2))
    return {
        "a": x[:, 0].tolist(),
        "b": x[:, 1].tolist(),
        "y": [labels[row % len(labels)] for row in range(ROWS)],
    }


def check(model: nn.Model, labels: list, rows) -> None:
    """Predictions of the model, and of its file, are labels in their type."""
    model.save("m.bin")
    for known in (model, nn.Model.load("m.bin")):
        predictions = known.predict(rows).tolist()
        assert set(predictions) <= set(labels)
        assert {type(label) for label in predictions} == {type(labels[0])}
        assert known.network.classes == [str(label) for label in labels]


@pytest.mark.parametrize("kind", list(LABELS))
@pytest.mark.parametrize("form", ["pandas", "arrow", "columns", "rows"])
def test_labels_come_back_as_a_frame_had_them(folder, kind, form):
    labels = LABELS[kind]
    frame = as_frame(columns(labels), form)
    check(nn.fit(frame, "y", networks=1, epochs=1), labels, frame)


@pytest.mark.parametrize("kind", list(LABELS))
@pytest.mark.parametrize("form", [list, np.array, pd.Series])
def test_labels_beside_the_rows_come_back_as_they_were(folder, kind, form):
    columns_of_table = columns(LABELS[kind])
    x = np.array([columns_of_table["a"], columns_of_table["b"]]).T
    model = nn.fit(x, form(columns_of_table["y"]), networks=1, epochs=1)
    check(model, LABELS[kind], x)


@pytest.mark.parametrize("kind", ["int", "bool", "str"])
def test_labels_of_parquet_have_its_type_and_those_of_csv_are_texts(folder, kind):
    frame = pd.DataFrame(columns(LABELS[kind]))
    frame.to_parquet("t.parquet")
    frame.to_csv("t.csv", index=False)
    model = nn.fit("t.parquet", networks=1, epochs=1)
    check(model, LABELS[kind], frame)
    model = nn.fit("t.csv", networks=1, epochs=1)
    labels = [str(label) for label in LABELS[kind]]
    check(model, labels, frame)


def test_gaps_and_categories_do_not_change_the_type(folder):
    frame = pd.DataFrame(columns([3, 7, None]))
    frame["y"] = pd.array(columns([3, 7, None])["y"], dtype="Int64")
    with pytest.warns(nn.NnWarning, match="without a target"):
        model = nn.fit(frame, "y", networks=1, epochs=1)
    check(model, [3, 7], frame)
    frame = pd.DataFrame(columns([3, 7])).astype({"y": "category"})
    check(nn.fit(frame, "y", networks=1, epochs=1), [3, 7], frame)


def test_labels_of_several_types_are_texts(folder):
    frame = {**columns([1, "a"])}
    model = nn.fit(frame, "y", task="binary", networks=1, epochs=1)
    check(model, ["1", "a"], frame)


def test_the_file_of_an_estimator_has_the_type_of_its_classes(folder):
    pytest.importorskip("sklearn")
    columns_of_table = columns([3, 5])
    x = np.array([columns_of_table["a"], columns_of_table["b"]]).T
    for labels in ([3, 5], [False, True], ["u", "v"]):
        y = np.array([labels[row % 2] for row in range(ROWS)])
        estimator = nn.NetworkClassifier(networks=1, epochs=1).fit(x, y)
        estimator.network_.export("m.bin")
        predictions = nn.Model.load("m.bin").predict(x)
        assert np.array_equal(predictions, estimator.predict(x))


def test_commands_and_json_have_texts(folder):
    pd.DataFrame(columns([0, 1])).to_parquet("t.parquet")
    succeed(*argv("--train --dataset t.parquet --model m.bin --networks 1 --epochs 1"))
    info = succeed("--info", "--model", "m.bin", "--json").json
    assert info["classes"] == ["0", "1"]
    assert info["label_type"] == "int"
    lines = succeed(
        "--predict", "--model", "m.bin", "--dataset", "t.parquet"
    ).out.splitlines()
    assert lines[1].split(",")[1] in "01"
    predictions = nn.Model.load("m.bin").predict(pd.read_parquet("t.parquet"))
    assert predictions.dtype.kind == "i"


def test_a_regression_of_whole_numbers_stays_float(folder):
    frame = pd.DataFrame(columns([1, 2]))
    model = nn.fit(frame, "y", task="regression", networks=1, epochs=1)
    assert model.predict(frame).dtype.kind == "f"
