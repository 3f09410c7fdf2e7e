"""--predict: its columns, and large files block by block, with the same result as at
once."""

import csv
import math

import numpy as np
import pandas
import pytest
from support.command_line import (
    ONE,
    argv,
    predictions,
    run,
    succeed,
    write_numbers,
    write_three_classes,
    write_two_classes,
)
from support.tables import csv_of

import nn
from nn.commands.predictions import fold_table, prediction_table
from nn.data.scaling import Scaling

HUGE = "3e38"  # a number of float32, but not when it is divided by a deviation of 0.001


@pytest.fixture
def small_blocks(monkeypatch):
    """256 rows a block."""
    monkeypatch.setattr("nn.commands.predictions.ROWS_OF_PREDICTIONS", 256)


def test_blocks_give_what_the_whole_file_gives_in_a_file_too(folder, small_blocks):
    write_numbers(folder / "numbers.csv", rows=700)
    succeed(
        "--train", "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 2, "-q"
    )
    call = "--predict", "--dataset", "numbers.csv", "--model", "m.bin", "-o"
    assert succeed(*call, "p.csv").out == ""
    text = (folder / "p.csv").read_text()
    assert text == succeed(*call, "-").out
    net = nn.Model.load("m.bin").network
    ds = nn.load("numbers.csv")
    table = predictions("m.bin", "numbers.csv")
    numbers = [int(line["row"]) for line in table]
    assert numbers == list(range(700))
    expected = net.predict(ds.x)[:, 0]
    np.testing.assert_array_equal(
        [np.float32(line["predicted power"]) for line in table], expected
    )
    numbers = [float(line["true power"]) for line in table]
    expected = ds.y[:, 0]
    np.testing.assert_allclose(numbers, expected)


@pytest.mark.parametrize("exposed", [False, True])
def test_rows_of_every_block_have_their_own_deviations(monkeypatch, exposed):
    monkeypatch.setattr("nn.commands.predictions.ROWS_OF_PREDICTIONS", 4)
    members = [nn.Network("3,2", "regression", seed=seed) for seed in (1, 2, 3)]
    net = nn.Network("3,2", "regression")
    net.combine(members, (1.0, 1.0, 1.0))
    x = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    exposures = np.arange(1.0, 11.0) if exposed else None
    ds = nn.Dataset(x, None, "regression", exposures=exposures)
    columns = [np.hstack(column) for column in zip(*prediction_table(net, ds).blocks)]
    each = np.stack([member.predict(x) for member in members])
    if exposed:
        each = each * exposures[:, None]
    np.testing.assert_allclose(np.transpose(columns[1:3]), each.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(np.transpose(columns[3:5]), each.std(axis=0), rtol=1e-5)


def test_rows_of_folds_in_time_have_their_own_numbers():
    """Of three parts of the rows the first is tested by no fold."""
    x = np.random.default_rng(1).normal(size=(60, 2)).astype(np.float32)
    y = (np.arange(60) % 7 < 3).astype(np.int32)
    ds = nn.Dataset(x, y, "binary", ["no", "yes"], times=np.arange(60.0))
    net = nn.Network("2,1", "binary")
    nn.train(net, ds, folds=2, epochs=1, holdout=0.0)
    (block,) = fold_table(net, ds).blocks
    assert block[0].tolist() == list(range(20, 60))
    assert block[1].tolist() == [0] * 20 + [1] * 20
    assert block[-1] == [["no", "yes"][label] for label in y[20:]]


@pytest.mark.parametrize(
    "write, model, flags",
    [
        (
            write_two_classes,
            "m.m",
            ["--layers", "2,5:sigmoid,1:sigmoid", "--epochs", 20],
        ),
        (write_three_classes, "m.bin", ["--epochs", 2]),
    ],
)
def test_class_names_survive_blocks_that_lack_some(
    folder, small_blocks, write, model, flags
):
    """A .m file knows no class names: they come from the file, in which one class
    follows the other."""
    path = write(folder / "data.csv", rows=900)
    head, *rows = path.read_text().splitlines()
    rows.sort(key=lambda row: row.split(",")[-1], reverse=model == "m.bin")
    text = "\n".join([head, *rows]) + "\n"
    (folder / "sorted.csv").write_text(text)
    succeed("--train", "--dataset", "data.csv", "--model", model, "-q", *flags)
    expected = [row.split(",")[-1] for row in rows]
    assert [line["true"] for line in predictions(model, "sorted.csv")] == expected


def test_a_mistake_in_a_late_row_is_named_before_anything_is_written(
    folder, small_blocks
):
    text = write_numbers(folder / "numbers.csv", rows=700).read_text().splitlines()
    succeed(
        "--train", "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 1, "-q"
    )
    text[650] = "1.0,oops,3.0"
    (folder / "bad.csv").write_text("\n".join(text) + "\n")
    for output in ("p.csv", "-"):
        result = run(
            "--predict", "--dataset", "bad.csv", "--model", "m.bin", "-o", output
        )
        assert result.code == 65
        assert "bad.csv, row 651, column y" in result.err
        assert '"oops"' in result.err
        assert result.out == ""
        assert not list(folder.glob("*p.csv*"))


def test_arrays_are_predicted_too(folder, small_blocks):
    x = np.linspace(-1, 1, 600 * 16).reshape(600, 1, 4, 4).astype(np.float32)
    y = x.mean(axis=(1, 2, 3))
    np.savez("x.npz", x=x, y=y)
    layers = "1x4x4,conv2k3,4,1"
    succeed(
        *argv(f"--train --dataset x.npz --model m.bin --epochs 1 --layers {layers} -q")
    )
    results = [np.float32(line["predicted"]) for line in predictions("m.bin", "x.npz")]
    net = nn.Model.load("m.bin").network
    expected = net.predict(x)[:, 0]
    np.testing.assert_array_equal(results, expected)


def test_predictions_of_two_classes_agree_with_the_test_and_need_no_targets(trained):
    rows = predictions(trained, "two.csv")
    assert list(rows[0]) == ["row", "predicted", "score 1", "true"]
    expected = [str(i) for i in range(60)]
    assert [row["row"] for row in rows] == expected
    figures = succeed(
        "--test", "--model", trained, "--dataset", "two.csv", "--json"
    ).json
    positives = [row for row in rows if row["predicted"] == "1"]
    true_positives = sum(row["true"] == "1" for row in positives)
    assert true_positives == figures["tp"]
    assert len(positives) - true_positives == figures["fp"]
    for row in rows:
        assert (float(row["score 1"]) >= 0.5) == (row["predicted"] == "1")
    lines = (trained.parent / "two.csv").read_text().splitlines()
    text = "".join(line.rsplit(",", 1)[0] + "\n" for line in lines)
    (trained.parent / "new.csv").write_text(text)
    new = predictions(trained, "new.csv")
    assert list(new[0]) == ["row", "predicted", "score 1"]
    expected = [row["score 1"] for row in rows]
    assert [row["score 1"] for row in new] == expected


@pytest.fixture(params=["one", "several", "effort", "regression", "words"])
def narrow(request, folder):
    """Train on column `a` of small deviation; return the header and a good row of its
    features."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(80, 2)).T
    words = request.param == "words"
    if request.param == "regression":
        y = np.arange(80) + 0.5
    else:
        y = np.where(a > 0, "q", "p")
    columns = {
        "a": (a / 1000).round(9),
        "b": b.round(6),
        **({"colour": ["red", "blue"] * 40} if words else {}),
        "y": y,
    }
    text = csv_of(columns, columns.values())
    (folder / "train.csv").write_text(text)
    flags = {"several": ["--networks", 3], "effort": ["--effort", "quick"]}.get(
        request.param, ["--networks", 1]
    )
    succeed(*argv("--train --dataset train.csv --model m.bin --epochs 2 -q"), *flags)
    return f"a,b{',colour' * words}", f"0.001,1{',red' * words}"


def test_a_row_that_overflows_when_scaled_is_refused_by_predict_test_and_python(
    narrow, folder, small_blocks
):
    header, good = narrow
    huge = good.replace("0.001", HUGE)
    truth = predictions("m.bin", "train.csv")[-1].popitem()[1]

    def write(at, row, truth_column="", after=()):
        """Behind that many good rows."""
        lines = [
            f"{header}{',y' if truth_column else ''}",
            *[good + truth_column] * at,
            row + truth_column,
            *after,
        ]
        text = "\n".join(lines) + "\n"
        (folder / "new.csv").write_text(text)

    for at in (2, 400):
        write(at, huge, after=[good])
        for output in ("p.csv", "-"):
            result = run(
                "--predict", "--dataset", "new.csv", "--model", "m.bin", "-o", output
            )
            assert result.code == 65
            assert "nan" not in result.out
            assert (
                f"nn: new.csv, data row {at + 1}, column a: found 3e+38"
                in result.err.splitlines()[-1]
            )
        assert not (folder / "p.csv").exists()
        assert "Warning" not in result.err
        write(at, good.replace("1", "-3e37"))
        table = run("--predict", "--dataset", "new.csv", "--model", "m.bin", "-q")
        assert "nan" not in table.out
        assert table.code in (0, 65)
    write(400, huge, f",{truth}", [f"{good},{truth}"])
    for flags in ([], ["--memory", "1G"]):
        result = run("--test", "--dataset", "new.csv", "--model", "m.bin", *flags)
        assert result.code == 65
        assert "new.csv, data row 401, column a: found 3e+38" in result.err
    write(2, huge, after=[good])
    net = nn.Model.load("m.bin").network
    frame = pandas.read_csv("new.csv")
    tables = [frame]
    if not net.encoding:
        tables.append(frame.to_numpy(np.float32))
    computations = [net.predict]
    if len(net.members) > 1:
        computations.append(net.deviation)
    for x in tables:
        for compute in computations:
            with pytest.raises(
                nn.DataError, match=r"^row 3, column a: found 3e\+38, .*not finite"
            ):
                compute(x)
            assert np.isfinite(compute(x[:2])).all()


@pytest.mark.parametrize("rows", [1, 20])
def test_values_that_overflow_inside_a_network_are_refused(rows):
    net = nn.Network("2,4:linear,1", "regression")
    parameters = net.parameters().items()
    net.set_parameters({name: np.full_like(value, 10) for name, value in parameters})
    x = np.ones((rows, 2), np.float32)
    cases = (
        (-3e38, r"found -3e\+38, .*not finite"),
        (np.nan, "found nan, expected a number"),
    )
    for value, message in cases:
        x[-1] = 1, value
        with pytest.raises(
            nn.DataError, match=rf"^row {rows}, column 2 of 2: {message}"
        ):
            net.predict(x)


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_networks_any_may_have_the_value_that_is_furthest_out(order):
    """One divides the second column by so much that for it the first is further."""
    divided = Scaling("standardization", np.zeros(2), np.array([1.0, 1e20]))
    nets = [nn.Network("2,1", "regression", seed=seed) for seed in (0, 1)]
    for net, scaling in zip(nets[::order], (Scaling(), divided), strict=True):
        net.set_parameters({"layer0.weight": np.full((1, 2), 10)})
        net.scaling = scaling
    net = nn.Network("2,1", "regression")
    net.combine(nets, [1.0, 1.0])
    with pytest.raises(nn.DataError, match=r"column 2 of 2: found 3e\+38"):
        net.predict(np.array([[1e30, 3e38]], np.float32))


@pytest.fixture
def with_ids(folder):
    """The rows of a table with two columns of ids, as text; the model of it is
    m.bin."""
    rows = []
    for i in range(60):
        rows.append(
            f'"n, {i}",{7 * i:03},{math.sin(i):.3f}0,{math.cos(3 * i):.2f},{i % 2}'
        )
    text = "\n".join(["name,no,a,b,y", *rows]) + "\n"
    (folder / "t.csv").write_text(text)
    succeed(
        *ONE, "--dataset", "t.csv", "--model", "m.bin", "--epochs", 2, "--id", "name,no"
    )
    return rows


def beside(*given) -> list[list[str]]:
    result = succeed("predict", "m.bin", *given, "-q")
    return list(csv.reader(result.out.splitlines()))


def test_ids_of_training_or_any_columns_stand_beside_the_predictions_as_written(
    with_ids,
):
    names = ["name", "no", "a", "b", "y"]
    records = [dict(zip(names, row)) for row in csv.reader(with_ids)]
    plain = beside("t.csv")[1:]
    asked = {
        "*": names,
        "b,name": ["b", "name"],
        "-1": ["y"],
        "a": ["a"],
        "": ["name", "no"],
    }
    for columns, kept in asked.items():
        head, *lines = beside("t.csv", *(["--id", columns] if columns else []))
        assert head == ["row", *kept, "predicted", "score 1", "true"], columns
        expected = [[row[name] for name in kept] for row in records]
        assert [line[1 : 1 + len(kept)] for line in lines] == expected, columns
        expected = [line[-2] for line in plain]
        assert [line[-2] for line in lines] == expected, columns
    folds = ("--folds", 2, "--id", "name,no", "--epochs", 1, "-o", "f.csv", "-q")
    succeed("train", "t.csv", *folds)
    with open("f.csv", newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["row", "fold", "name", "no", "predicted", "score 1", "true"]
    for row, _, *ids, _, _, true in lines:
        record = records[int(row)]
        assert [*ids, true] == [record[name] for name in ("name", "no", "y")]


def test_a_file_without_ids_in_any_order_is_predicted_and_a_stream_keeps_no_columns(
    with_ids, folder
):
    rows = []
    for row in with_ids:
        rows.append(f"{row.split(',')[4]},{row.split(',')[3]}\n")
    text = "b,a\n" + "".join(rows)
    (folder / "new.csv").write_text(text)
    head, *lines = beside("new.csv")
    assert head == ["row", "predicted", "score 1"]
    expected = [line[-2] for line in beside("t.csv")[1:]]
    assert [line[-1] for line in lines] == expected
    assert beside("new.csv", "--id", "*")[0] == [
        "row",
        "b",
        "a",
        "predicted",
        "score 1",
    ]
    wrong = run("predict", "m.bin", "-", "--id", "*")
    assert wrong.code == 2
    assert "--id *: reads the file twice" in wrong.err
    assert (
        "--id colour: no column of this name"
        in run("predict", "m.bin", "t.csv", "--id", "colour").err
    )
