"""Values that lie on a border: a score that equals its threshold is of class 1 in every
place that names a class."""

import csv
import io

import numpy as np
import pytest
from support.c_models import Library
from support.command_line import argv, run, succeed
from support.onnx_models import outputs, session

import nn
from nn.data.written import date_of
from nn.nn import Network
from nn.pages import model_page
from nn.pages.page import Table

ROWS = 40
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}  # ONNX's -> NumPy's


@pytest.fixture(scope="module")
def rows():
    """Inputs of a network, in an order of falling scores."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(ROWS, 1))
    return np.sort(draws, axis=0)[::-1].astype(np.float32)


def network_with_threshold_of(
    rows, place: int, dtype: str
) -> tuple[Network, np.ndarray]:
    """Return (a network whose threshold is the score of one of these rows, to the last
    bit; all scores)."""
    net = nn.Network("1,1", "binary", dtype=dtype, backend="seq")
    net.set_parameters(
        {"layer0.weight": np.array([[1.1]]), "layer0.bias": np.array([0.1])}
    )
    net.classes = ["no", "yes"]
    net.columns = ["size"]
    net.targets = ["answer"]
    predictions = net.predict(rows.astype(dtype))
    scores = predictions[:, 0]
    net.threshold = float(scores[place])
    return net, scores


@pytest.mark.usual(3)
@pytest.mark.parametrize("place", [0, 1, 17, ROWS - 1])
def test_a_score_that_equals_the_threshold_is_of_class_1_everywhere(
    folder, rows, dtype, place
):
    net, scores = network_with_threshold_of(rows, place, dtype)
    # scores fall, none comes twice
    expected = ["yes" if row <= place else "no" for row in range(ROWS)]
    assert len({*scores}) == ROWS
    net.export("m.bin")
    np.savetxt("new.csv", rows, "%.17g", header="size", comments="")
    flags = ("-m", "m.bin", "--dataset", "new.csv", "--backend", "seq")
    output = succeed("--predict", *flags)
    assert [
        line[1] for line in list(csv.reader(io.StringIO(output.out)))[1:]
    ] == expected
    model = nn.Model.load("m.bin", backend="seq")
    assert list(model.predict(rows)) == expected

    of_c = Library.of(net, folder)
    answers_of_c = of_c.predict(rows)
    assert [of_c.label(answer) for answer in answers_of_c] == labels_of(
        answers_of_c[:, 0], net.threshold
    )
    # the same exp gives the same bits
    assert dtype == "float32" or float(answers_of_c[place, 0]) == net.threshold
    nn.export(net, "m.onnx")
    (reference,) = session("m.onnx").get_inputs()
    by_onnx = outputs("m.onnx", {reference.name: rows.astype(TYPES[reference.type])})
    labels = labels_of(by_onnx["probabilities"][:, 1], net.threshold)
    assert list(by_onnx["label"]) == labels


def labels_of(scores, threshold: float) -> list[str]:
    """Return the classes that these scores stand for."""
    return ["yes" if float(score) >= threshold else "no" for score in scores]


def test_counts_tables_and_the_page_take_a_score_at_the_threshold_for_class_1(rows):
    net, _scores = network_with_threshold_of(rows, 11, "float32")
    truth = np.arange(ROWS) % 2
    ds = nn.Dataset(
        rows, truth, "binary", ["no", "yes"], columns=["size"], targets=["answer"]
    )
    figures = nn.test(net, ds)
    assert figures["tp"] + figures["fp"] == 12
    assert figures["tp"] == truth[:12].sum()
    page = model_page.page_of_model(net, "m.bin", ds)
    table = next(table for table in tables_of(page) if table.headers[0] == "threshold")
    line = next(line for line in table.lines if "(used)" in line[0])
    assert float(line[1]) == pytest.approx(figures["precision"], abs=1e-4)
    assert float(line[2]) == pytest.approx(figures["recall"], abs=1e-4)
    expected = 1000 * 12 / ROWS
    assert float(line[4]) == pytest.approx(expected)


def tables_of(page) -> list:
    """Return the tables of a page, those inside other blocks too."""
    return [
        block
        for blocks in page.sections.values()
        for block in blocks
        if isinstance(block, Table)
    ]


@pytest.mark.parametrize(
    "written, date",
    [
        ("01.02.68", "2068-02-01"),
        ("01.02.69", "1969-02-01"),
        ("01.02.00", "2000-02-01"),
        ("01.02.99", "1999-02-01"),
    ],
)
def test_a_year_of_two_digits_is_of_the_century_that_posix_names(written, date):
    """From 69 on that of 1900, as strptime has it."""
    seconds = date_of(written, "%d.%m.%y")
    expected = np.datetime64(date, "s")
    assert np.datetime64(int(seconds), "s") == expected


def test_a_fold_that_diverges_ends_in_one_line(folder):
    draws = np.random.default_rng(1)
    table = np.column_stack([draws.normal(size=(60, 2)), draws.normal(size=60)])
    np.savetxt("t.csv", table, delimiter=",", header="a,b,y", comments="")
    result = run(
        *argv("train t.csv -m m.bin --layers 2,8,1 --folds 3 --optimizer sgd"),
        "--learning_rate",
        1e30,
        *argv("--scaling none --epochs 5"),
    )
    lines = result.err.rstrip("\n").splitlines()
    last = lines[-1]
    assert result.code == 1
    assert last.startswith("nn: ")
    assert "learning_rate" in last
    assert "Traceback" not in result.err
    assert not (folder / "m.bin").exists()
