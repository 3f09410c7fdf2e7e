"""--predict: its columns, and large files block by block, with the same result as at once."""

import csv
import io
import math

import numpy as np
import pandas
import pytest
from support.command_line import ONE, run, succeed, write_numbers, write_three_classes, write_two_classes

import nn
import nn.data.loading


@pytest.fixture
def small_blocks(monkeypatch):
    """256 rows a block."""
    monkeypatch.setattr("nn.commands.predictions.BLOCK_ROWS", 256)


def lines(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_blocks_give_what_the_whole_file_gives(folder, small_blocks):
    write_numbers(folder / "numbers.csv", rows=700)
    succeed("--train", "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 2, "-q")
    succeed("--predict", "--dataset", "numbers.csv", "--model", "m.bin", "-o", "p.csv")
    net, ds = nn.Model.load("m.bin").network, nn.load("numbers.csv")
    table = lines("p.csv")
    assert [int(line["row"]) for line in table] == list(range(700))
    np.testing.assert_array_equal([np.float32(line["predicted power"]) for line in table], net.predict(ds.x)[:, 0])
    np.testing.assert_allclose([float(line["true power"]) for line in table], ds.y[:, 0])


def test_a_block_without_a_class_does_not_change_its_number(folder, small_blocks):
    """A .m file knows no class names: they come from the file, in which one class follows the other."""
    write_two_classes(folder / "two.csv", rows=900)
    head, *rows = (folder / "two.csv").read_text().splitlines()
    rows.sort(key=lambda row: row[-1])
    (folder / "sorted.csv").write_text("\n".join([head, *rows]) + "\n")
    flags = ["--layers", "2,5:sigmoid,1:sigmoid", "--epochs", 20, "-q"]
    succeed("--train", "--dataset", "two.csv", "--model", "two.m", *flags)
    succeed("--predict", "--dataset", "sorted.csv", "--model", "two.m", "-o", "p.csv")
    assert [line["true"] for line in lines("p.csv")] == [row[-1] for row in rows]


def test_class_names_survive_blocks_that_lack_some(folder, small_blocks):
    write_three_classes(folder / "three.csv", rows=600)
    succeed("--train", "--dataset", "three.csv", "--model", "m.bin", "--epochs", 2, "-q")
    head, *rows = (folder / "three.csv").read_text().splitlines()
    rows.sort(key=lambda row: row.rsplit(",", 1)[1], reverse=True)
    (folder / "sorted.csv").write_text("\n".join([head, *rows]) + "\n")
    succeed("--predict", "--dataset", "sorted.csv", "--model", "m.bin", "-o", "p.csv")
    assert [line["true"] for line in lines("p.csv")] == [row.rsplit(",", 1)[1] for row in rows]


def test_a_mistake_in_a_late_row_is_named_before_anything_is_written(folder, small_blocks):
    write_numbers(folder / "numbers.csv", rows=700)
    succeed("--train", "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 1, "-q")
    text = (folder / "numbers.csv").read_text().splitlines()
    text[650] = "1.0,oops,3.0"
    (folder / "bad.csv").write_text("\n".join(text) + "\n")
    for output in ("p.csv", "-"):
        result = run("--predict", "--dataset", "bad.csv", "--model", "m.bin", "-o", output)
        assert result.code == 65 and "bad.csv, row 651, column y" in result.err and '"oops"' in result.err
        assert result.out == ""
    assert not (folder / "p.csv").exists() and not list(folder.glob(".p.csv*"))


def test_arrays_are_predicted_too(folder, small_blocks):
    x = np.linspace(-1, 1, 600 * 16).reshape(600, 1, 4, 4).astype(np.float32)
    np.savez("x.npz", x=x, y=x.mean(axis=(1, 2, 3)))
    layers = "1x4x4,conv2k3,4,1"
    succeed("--train", "--dataset", "x.npz", "--model", "m.bin", "--epochs", 1, "--layers", layers, "-q")
    succeed("--predict", "--dataset", "x.npz", "--model", "m.bin", "-o", "p.csv")
    predicted = nn.Model.load("m.bin").network.predict(x)
    np.testing.assert_array_equal([np.float32(line["predicted"]) for line in lines("p.csv")], predicted[:, 0])


def read_csv(text: str) -> list[dict]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_of_two_classes_agree_with_the_test(trained):
    rows = read_csv(succeed("--predict", "--model", trained, "--dataset", "two.csv").out)
    assert list(rows[0]) == ["row", "predicted", "score 1", "true"]
    assert [row["row"] for row in rows] == [str(i) for i in range(60)]
    figures = succeed("--test", "--model", trained, "--dataset", "two.csv", "--json").json
    assert sum(row["predicted"] == row["true"] == "1" for row in rows) == figures["tp"]
    assert sum(row["predicted"] == "1" != row["true"] for row in rows) == figures["fp"]
    assert all((float(row["score 1"]) >= 0.5) == (row["predicted"] == "1") for row in rows)


def test_predictions_of_several_classes_give_each_a_score(folder):
    write_three_classes(folder / "three.csv")
    succeed(*ONE, "--dataset", "three.csv", "--model", "m.bin", "--epochs", 20)
    rows = read_csv(succeed("--predict", "--model", "m.bin", "--dataset", "three.csv").out)
    for row in rows:
        scores = {name.removeprefix("score "): float(value) for name, value in row.items() if name.startswith("score")}
        assert set(scores) == {"red", "green", "blue"}
        assert sum(scores.values()) == pytest.approx(1, abs=1e-6)
        assert scores[row["predicted"]] == max(scores.values())


def test_predictions_of_numbers_are_in_their_units(folder):
    write_numbers(folder / "numbers.csv")
    succeed(*ONE, "--dataset", "numbers.csv", "--model", "m.bin", "--epochs", 100, "--learning_rate", 0.01)
    rows = read_csv(succeed("--predict", "--model", "m.bin", "--dataset", "numbers.csv").out)
    assert list(rows[0]) == ["row", "predicted power", "true power"]
    error = sum(abs(float(row["predicted power"]) - float(row["true power"])) for row in rows) / len(rows)
    assert error == pytest.approx(
        succeed("--test", "--model", "m.bin", "--dataset", "numbers.csv", "--json").json["mae"], rel=1e-4
    )


def test_data_without_targets_can_be_predicted(trained):
    labelled = succeed("--predict", "--model", trained, "--dataset", "two.csv").out
    lines = (trained.parent / "two.csv").read_text().splitlines()
    (trained.parent / "new.csv").write_text("".join(line.rsplit(",", 1)[0] + "\n" for line in lines))
    rows = read_csv(succeed("--predict", "--model", trained, "--dataset", "new.csv").out)
    assert list(rows[0]) == ["row", "predicted", "score 1"]
    assert [row["score 1"] for row in rows] == [row["score 1"] for row in read_csv(labelled)]


def test_predictions_go_to_a_file(trained):
    result = succeed("--predict", "--model", trained, "--dataset", "two.csv", "-o", "p.csv")
    assert result.out == ""
    assert (trained.parent / "p.csv").read_text() == succeed(
        "--predict", "--model", trained, "--dataset", "two.csv", "-o", "-"
    ).out


# ---------------------------------------------------------------- values beyond the numbers' type


HUGE = "3e38"  # a number of float32, but not when it is divided by a deviation of 0.001


@pytest.fixture(params=["one", "several", "effort", "regression", "words"])
def narrow(request, folder):
    """Train on column `a` of small deviation; return the header and a good row of its features."""
    rng, words = np.random.default_rng(0), request.param == "words"
    table = [f"{a / 1000:.6g},{b:.6g}{',red' * words},{'pq'[int(a > 0)]}" for a, b in rng.normal(size=(80, 2))]
    if request.param == "regression":
        table = [f"{line[:-1]}{number}.5" for number, line in enumerate(table)]
    table = [line.replace("red", ("red", "blue")[number % 2]) for number, line in enumerate(table)]
    header, good = f"a,b{',colour' * words}", f"0.001,1{',red' * words}"
    (folder / "train.csv").write_text("\n".join([f"{header},y", *table]) + "\n")
    flags = {"several": ["--networks", 3], "effort": ["--effort", "quick"]}.get(request.param, ["--networks", 1])
    succeed("--train", "--dataset", "train.csv", "--model", "m.bin", "--epochs", 2, "-q", *flags)
    return header, good


def written(folder, header, good, row, at=400):
    """Write good rows with a bad one, the third of the file's or far behind; return its number among the data rows."""
    (folder / "new.csv").write_text("\n".join([header, *[good] * at, row, good]) + "\n")
    return at + 1


@pytest.mark.parametrize("at", [2, 400])
def test_a_row_that_overflows_when_scaled_is_refused(narrow, folder, small_blocks, at):
    header, good = narrow
    number = written(folder, header, good, good.replace("0.001", HUGE), at)
    for output in ("p.csv", "-"):
        result = run("--predict", "--dataset", "new.csv", "--model", "m.bin", "-o", output)
        assert result.code == 65 and "nan" not in result.out
        assert f"nn: new.csv, data row {number}, column a: found 3e+38" in result.err.splitlines()[-1]
    assert not (folder / "p.csv").exists() and "Warning" not in result.err
    (folder / "new.csv").write_text("\n".join([header, *[good] * at, good.replace("1", "-3e37")]) + "\n")
    table = run("--predict", "--dataset", "new.csv", "--model", "m.bin", "-q")
    assert "nan" not in table.out and table.code in (0, 65)


def test_a_test_names_such_a_row_too(narrow, folder, small_blocks):
    header, good = narrow
    truth = succeed("--predict", "--dataset", "train.csv", "--model", "m.bin", "-q").out.splitlines()[-1].split(",")[-1]
    written(folder, f"{header},y", f"{good},{truth}", f"{good},{truth}".replace("0.001", HUGE))
    for flags in ([], ["--memory", "1G"]):
        result = run("--test", "--dataset", "new.csv", "--model", "m.bin", *flags)
        assert result.code == 65 and "new.csv, data row 401, column a: found 3e+38" in result.err


def test_python_refuses_such_a_row_by_name_and_value(narrow, folder):
    header, good = narrow
    written(folder, header, good, good.replace("0.001", HUGE), 2)
    net = nn.Model.load("m.bin").network
    frame = pandas.read_csv("new.csv")
    for x in [frame] if net.encoding else [frame, frame.to_numpy(np.float32)]:
        for compute in (net.predict, net.deviation) if len(net.members) > 1 else (net.predict,):
            with pytest.raises(nn.DataError, match=r"^row 3, column a: found 3e\+38, .*not finite"):
                compute(x)
            assert np.isfinite(compute(x[:2])).all()


@pytest.mark.parametrize("rows", [1, 20])
def test_values_that_overflow_inside_a_network_are_refused(rows):
    net = nn.Network("2,4:linear,1", "regression")
    net.set_parameters({name: np.full_like(value, 10) for name, value in net.parameters().items()})
    x = np.ones((rows, 2), np.float32)
    x[-1] = 1, -3e38
    with pytest.raises(nn.DataError, match=rf"^row {rows}, column 2 of 2: found -3e\+38, .*not finite"):
        net.predict(x)
    x[-1] = 1, np.nan
    with pytest.raises(nn.DataError, match=f"^row {rows}, column 2 of 2: found nan, expected a number"):
        net.predict(x)


# ---------------------------------------------------------------- columns beside the predictions


@pytest.fixture
def with_ids(folder):
    """A model of a table with two columns of ids; the table's path, its first two rows as text."""
    rows = [f'"n, {i}",{7 * i:03},{math.sin(i):.3f}0,{math.cos(3 * i):.2f},{i % 2}' for i in range(60)]
    (folder / "t.csv").write_text("\n".join(["name,no,a,b,y", *rows]) + "\n")
    succeed(*ONE, "--dataset", "t.csv", "--model", "m.bin", "--epochs", 2, "--id", "name,no")
    return rows


def beside(*given) -> list[list[str]]:
    return list(csv.reader(succeed("predict", "m.bin", *given, "-q").out.splitlines()))


def test_several_columns_of_ids_stand_beside_the_predictions(with_ids):
    head, first, *_ = beside("t.csv")
    assert head == ["row", "name", "no", "predicted", "score 1", "true"]
    assert first[:3] == ["0", "n, 0", "000"]


@pytest.mark.parametrize(
    "names, kept", [("*", ["name", "no", "a", "b", "y"]), ("b,name", ["b", "name"]), ("-1", ["y"]), ("a", ["a"])]
)
def test_a_prediction_keeps_any_columns_as_they_are_written(with_ids, names, kept):
    head, *lines = beside("t.csv", "--id", names)
    assert head == ["row", *kept, "predicted", "score 1", "true"]
    own = [dict(zip(["name", "no", "a", "b", "y"], row)) for row in csv.reader(with_ids)]
    assert [line[1 : 1 + len(kept)] for line in lines] == [[row[name] for name in kept] for row in own]
    assert [line[-2] for line in lines] == [line[-2] for line in beside("t.csv")[1:]]


def test_a_file_without_ids_in_another_order_can_be_predicted(with_ids, folder):
    (folder / "new.csv").write_text("b,a\n" + "".join(f"{row.split(',')[4]},{row.split(',')[3]}\n" for row in with_ids))
    head, *lines = beside("new.csv")
    assert head == ["row", "predicted", "score 1"]
    assert [line[-1] for line in lines] == [line[-2] for line in beside("t.csv")[1:]]
    assert beside("new.csv", "--id", "*")[0] == ["row", "b", "a", "predicted", "score 1"]


def test_what_is_read_once_keeps_no_columns(with_ids, folder):
    wrong = run("predict", "m.bin", "-", "--id", "*")
    assert wrong.code == 2 and "--id *: reads the file twice" in wrong.err
    assert "--id colour: no column of this name" in run("predict", "m.bin", "t.csv", "--id", "colour").err
