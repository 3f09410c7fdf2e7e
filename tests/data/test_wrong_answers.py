"""The target of a model in other data: found by its name, or not there; of two columns
of its name by its place.

Everywhere a column was once taken for the target that is none, without a word.
"""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.table_formats import pa, pd
from support.tables import as_frame, csv_of, saved, trained_on

import nn

ROWS = 120
QUICK = ("--networks", 1, "--epochs", 2, "--batch_number", 16, "-q")
TARGETS = {"regression": "price", "binary": "sold", "multiclass": "kind"}
FILES = ["csv", "parquet", "db"]
FRAMES = ["pandas", "arrow", "columns", "rows"]


def house_table(task: str, seed: int = 0) -> dict[str, list]:
    """Columns by name, as in a file to train on: an id, numbers, a text, and the target
    behind them."""
    rng = np.random.default_rng(seed)
    size = rng.integers(20, 900, ROWS) / 4
    age = rng.integers(20, 900, ROWS) / 4
    town = rng.choice(["Ulm", "Bonn", "Kiel"], ROWS)
    worth = 3 * size - age + 40 * (town == "Ulm")
    multiclass = np.array(["low", "mid", "top"])[
        np.digitize(worth, np.quantile(worth, [0.3, 0.7]))
    ]
    binary = np.where(worth > np.median(worth), "yes", "no")
    truth = {"regression": worth, "binary": binary, "multiclass": multiclass}
    columns = {
        "Id": 10_000 + 7 * rng.permutation(ROWS),
        "size": size,
        "age": age,
        "town": town,
    }
    return {
        name: values.tolist()
        for name, values in (columns | {TARGETS[task]: truth[task]}).items()
    }


def without(columns: dict, *names: str) -> dict:
    return {name: values for name, values in columns.items() if name not in names}


def renamed(columns: dict, name: str, other: str) -> dict:
    return {
        other if known == name else known: values for known, values in columns.items()
    }


def predicted(dataset: str, *flags) -> tuple[list[str], list[list[str]]]:
    """What --predict writes: (header, rows)."""
    out = succeed(
        "--predict", "--model", "m.bin", "--dataset", dataset, "-q", *flags
    ).out
    header, *rows = csv.reader(io.StringIO(out))
    return header, rows


def figures(*flags) -> dict:
    return succeed("--test", "--model", "m.bin", "--json", *flags).json


def trained(dataset: str, *flags) -> None:
    succeed("--train", "--dataset", dataset, "--model", "m.bin", *QUICK, *flags)


def refused(mode: str, dataset: str, *flags) -> str:
    """What m.bin says of a data set with which the mode cannot go on."""
    result = run(mode, "--model", "m.bin", "--dataset", dataset, *flags)
    assert result.code == 65
    assert not result.out
    return result.err.splitlines()[-1]


@pytest.fixture(params=list(TARGETS))
def learned(request, folder) -> str:
    """Each task; the current folder has a model of it, that was trained on
    train.csv."""
    trained(saved(house_table(request.param), "train.csv"))
    return request.param


def shuffled(columns: dict) -> dict:
    """The same without an order that training knew, and with columns that it did
    not."""
    names = sorted(columns, reverse=True)
    return {
        "more": ["x"] * ROWS,
        **{name: columns[name] for name in names},
        "last": [0.5] * ROWS,
    }


@pytest.mark.parametrize("suffix", FILES)
def test_a_file_without_the_target_is_predicted_as_one_with_it_and_no_test(
    learned, suffix
):
    """One column that training left out, or did not know, is there in its place, until
    it is asked for."""
    new = house_table(learned, seed=1)
    target = TARGETS[learned]
    labelled = saved(new, f"known.{suffix}")
    header, rows = predicted(labelled)
    metrics = figures("--dataset", labelled)
    assert header[-1].startswith("true")
    gone = without(new, target)
    cost = renamed(new, target, "cost")
    for number, columns in enumerate([gone, shuffled(gone), cost, shuffled(cost)]):
        path = saved(columns, f"new{number}.{suffix}")
        expected = (header[:-1], [row[:-1] for row in rows])
        assert predicted(path) == expected
        choices = [[]]
        if suffix == "csv":
            choices.append(["--memory", "500MB"])
        for flags in choices:
            message = refused("--test", path, *flags)
            assert f"{path}: no column {target}, expected every column" in message
            assert f"{target} as the target" in message
            assert message.endswith("; add it, or choose the target with --target")
    assert figures("--dataset", path, "--target", "cost") == metrics
    assert predicted(path, "--target", "cost") == (header, rows)


@pytest.mark.parametrize("form", FRAMES)
def test_a_frame_without_the_target_is_predicted_and_no_test(learned, form):
    net = nn.Model.load("m.bin").network
    new = house_table(learned, seed=1)
    target = TARGETS[learned]
    scores = net.predict(as_frame(new, form))
    judged = nn.test(net, as_frame(new, form))
    assert nn.test(net, as_frame(shuffled(new), form)) == judged
    cases = (
        without(new, target),
        shuffled(without(new, target)),
        renamed(new, target, "cost"),
    )
    for columns in cases:
        frame = as_frame(columns, form)
        np.testing.assert_array_equal(net.predict(frame), scores)
        for judge in (nn.test, nn.load_for):
            with pytest.raises(
                nn.DataError, match=f"no column {target}, .*; add it, or .* --target$"
            ):
                judge(net, frame)
        ds = nn.load_for(net, frame, labelled=False)
        assert ds.y is None
        assert ds.rows == ROWS
    path = as_frame(renamed(new, target, "cost"), form)
    ds = nn.load_for(net, path, target="cost")
    assert nn.test(net, ds) == judged


def test_a_data_set_that_was_read_without_the_model_is_no_test_of_another_column(
    folder,
):
    """The last column is the target of a training; a test by an input says so."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(ROWS, 3))
    price = table @ [1, 2, 3]
    a = table[:, 0]
    b = table[:, 1]
    columns = {"a": a, "b": b, "price": price}
    ds = nn.load(columns)
    net = trained_on(ds)
    z = table[:, 2]
    new = {"z": z, **without(columns, "price")}
    cases = ((new, ""), (saved(new, "new.csv"), "new.csv: "))
    for source, name in cases:
        with pytest.raises(
            nn.DataError,
            match=f"{name}the target is b, an input of the network, .* nn.load_for",
        ):
            nn.test(net, nn.load(source))
    with pytest.raises(nn.DataError, match="no target, expected one to test by"):
        nn.test(net, nn.load_for(net, new, labelled=False))
    metrics = nn.test(net, nn.load(renamed(columns, "price", "cost")))
    assert metrics == nn.test(net, ds)
    # of a series what it is now may have the name of what it will be
    names = ["a", "price"]
    later = nn.Dataset(table[:, :2], price, "regression", columns=names)
    later.targets = ["price"]
    assert nn.test(trained_on(later), later)["rows"] == ROWS


@pytest.mark.parametrize(
    "flags",
    [["--id", "Id"], ["--drop", "Id"], ["--numbers", "Id"], ["--layers", "4,3,1"]],
)
def test_ids_are_no_target_whatever_training_made_of_them(folder, flags):
    new = house_table("binary", seed=1)
    if "--layers" in flags:
        flags = [*flags, "--numbers", "Id"]
    trained(saved(house_table("binary"), "train.csv"), *flags)
    header, rows = predicted(saved(new, "known.csv"))
    expected = (header[:-1], [row[:-1] for row in rows])
    dataset = saved(without(new, "sold"), "new.csv")
    assert predicted(dataset) == expected
    assert ("Id" in header) == ("--id" in flags)
    refused("--test", "new.csv")


def test_pages_and_validation_files_know_no_target_either(folder):
    trained(saved(house_table("binary"), "train.csv"), "--id", "Id")
    new = saved(without(house_table("binary", seed=1), "sold"), "new.csv")
    tests = (
        ["--test", "--report", "r.html", "--model", "m.bin"],
        ["--plot", "m.bin", "--output", "pictures"],
    )
    training = [
        *argv("--train --dataset train.csv --model v.bin"),
        *QUICK,
        "--validation",
        new,
    ]
    cases = (*([*mode, "--dataset", new] for mode in tests), training)
    for flags in cases:
        failed = run(*flags)
        assert failed.code == 65
        assert "no column sold, expected every column" in failed.err
    assert not (folder / "r.html").exists()


def test_several_targets_are_all_there_or_none_and_two_of_one_name_are_two(folder):
    rng = np.random.default_rng(0)
    columns = {}
    for name in ("a", "b", "u", "v"):
        columns[name] = rng.normal(size=ROWS).round(3).tolist()
    trained(saved(columns, "train.csv"), "--target", "u,v", "--task", "regression")
    header, rows = predicted("train.csv")
    assert header == ["row", "predicted u", "predicted v", "true u", "true v"]
    columns |= {"c": columns["a"], "d": columns["a"]}
    for names in ("ab", "avb", "cbda", "vbua"):
        results = predicted(saved({name: columns[name] for name in names}, "new.csv"))
        if "u" in names:
            assert results == (header, rows)
            continue
        assert results == (header[:3], [row[:3] for row in rows])
        if "v" in names:
            absent = "column u"
        else:
            absent = "columns u, v"
        assert f"no {absent}, expected every column" in refused("--test", "new.csv")
    names, columns = pair_table("bnt", "y")
    cases = (("y", names), ("f", ["b", "u", "v"]))
    for file, header in cases:
        path = folder / f"{file}.csv"
        path.write_text(csv_of(header, columns))
    results = []
    for file in "yf":
        trained(f"{file}.csv", "--target", "1,2", "--task", "regression")
        results.append(
            (
                figures()["rmse"],
                figures("--dataset", f"{file}.csv")["rmse"],
                predicted(f"{file}.csv")[1],
            )
        )
    assert results[0] == results[1]
    text = csv_of([*names[1:], "b"], [*columns[1:], columns[0]])
    (folder / "other.csv").write_text(text)
    refused("--test", "other.csv")


def test_columns_without_names_are_found_by_place_and_arrays_with_targets_need_none(
    folder,
):
    """With no header in the file, or none in the training's: the target is behind the
    inputs, or not there."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 99, (ROWS, 3)) / 4
    columns = [*table.T.tolist(), (table @ [1, 2, 3]).tolist()]
    for end, count in (("", 4), ("_new", 3)):
        names = ["a", "b", "c", "y"][:count]
        text = csv_of(names, columns[:count])
        (folder / f"named{end}.csv").write_text(text)
        text = csv_of(None, columns[:count])
        (folder / f"plain{end}.csv").write_text(text)
        np.save(f"plain{end}.npy", np.array(columns[:count]).T)
    for file in ("named", "plain"):
        trained(f"{file}.csv", "--task", "regression")
        _, rows = predicted("plain.csv")
        metrics = figures("--dataset", "plain.csv")
        for labelled in ("named.csv", "plain.npy"):
            assert predicted(labelled)[1] == rows
            assert figures("--dataset", labelled) == metrics
        for new in ("named_new.csv", "plain_new.csv", "plain_new.npy"):
            expected = [row[:2] for row in rows]
            assert predicted(new)[1] == expected
            refused("--test", new)
    x = rng.normal(size=(ROWS, 2)).astype(np.float32)
    y = x @ np.float32([1, 2])
    a = x[:, 0]
    b = x[:, 1]
    frame = pd.DataFrame({"a": a, "b": b, "y": y})
    frame.to_csv("train.csv", index=False)
    trained("train.csv", "--task", "regression")
    np.savez("a.npz", x=x, y=y)
    np.savez("new.npz", x=x)
    rmse = figures("--dataset", "a.npz")["rmse"]
    assert rmse == pytest.approx(figures("--dataset", "train.csv")["rmse"], rel=1e-5)
    assert predicted("new.npz")[0] == ["row", "predicted y"]
    refused("--test", "new.npz")


# t is the target, decided by b; n is noise, and called as the target is
LAYOUTS = ["nbt", "tbn", "ntb", "tnb"]
# a layout with other names from left to right
ELSEWHERE = {"nbt": "btn", "tbn": "bnt", "ntb": "nbt", "tnb": "tbn"}


def pair_table(
    layout: str, noise_name: str = "y", seed: int = 0
) -> tuple[list[str], list[list[float]]]:
    """Names and columns in this order. own: the name of the noise; f: a table to judge
    by, in which no name is there twice."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 400, ROWS) / 8
    b = rng.integers(0, 400, ROWS) / 8
    t = (2 * b + 1.5).tolist()
    columns = {"n": noise.tolist(), "b": b.tolist(), "t": t}
    names = {"n": noise_name, "b": "b", "t": "y"}
    return [names[letter] for letter in layout], [columns[letter] for letter in layout]


def pair_frame(form: str, *table):
    names, columns = pair_table(*table)
    if form == "arrow":
        return pa.Table.from_arrays(list(map(pa.array, columns)), names=names)
    return pd.DataFrame(np.array(columns).T, columns=names)


def write_pairs(layout: str) -> None:
    """Write y.csv, with two columns y, f.csv, which judges it, and new rows of both."""
    for noise_name in "yf":
        for seed, file in enumerate([f"{noise_name}.csv", f"{noise_name}_new.csv"]):
            text = csv_of(*pair_table(layout, noise_name, seed))
            Path(file).write_text(text)


def of_both(*flags) -> tuple[list[str], list[list[str]]]:
    """The predictions of new rows; figures of held-out or out-of-fold rows, of the
    whole file and of new rows, and these, are the same for both files."""
    results = []
    for noise_name in "yf":
        trained(f"{noise_name}.csv", *flags)
        new = f"{noise_name}_new.csv"
        results.append(
            (
                figures(),
                figures("--dataset", f"{noise_name}.csv"),
                figures("--dataset", new),
                predicted(new),
            )
        )
    assert results[0] == results[1]
    assert results[0][-1][0][-1] == "true y"
    return results[0][-1]


@pytest.fixture(params=LAYOUTS)
def layout(request, folder) -> str:
    """Each order of the columns; the current folder has the files of write_pairs."""
    write_pairs(request.param)
    return request.param


@pytest.mark.usual(3)
@pytest.mark.parametrize(
    "flags", [(), ("--folds", 3, "--holdout", 0), ("--networks", 2)]
)
def test_the_target_of_two_columns_of_its_name_is_that_of_training(layout, flags):
    _, rows = of_both("--target", layout.index("t"), *flags)
    numbers = [float(row[-1]) for row in rows]
    assert numbers == pair_table("t", seed=1)[1][0]


@pytest.mark.parametrize("flags", [(), ("--id", "id"), ("--drop", 0), ("--target", -1)])
def test_the_last_of_two_columns_of_one_name_is_found_as_the_last(folder, flags):
    """A column that is left out stands before both."""
    write_pairs("nbt")
    for file in folder.glob("*.csv"):
        lines = zip(
            ["id", *range(1000, 1000 + ROWS)],
            file.read_text().splitlines(),
            strict=True,
        )
        text = "".join(f"{one},{line}\n" for one, line in lines)
        file.write_text(text)
    of_both(*flags)


@pytest.mark.parametrize("form", ["pandas", "arrow"])
def test_a_frame_with_two_columns_of_one_name_is_read_as_its_file(layout, form):
    nets = {}
    for noise_name in "yf":
        path = pair_frame(form, layout, noise_name)
        ds = nn.load(path, target=layout.index("t"))
        nets[noise_name] = trained_on(ds, epochs=2)
    rows = pair_frame(form, layout, "f", 1)
    scores = nets["f"].predict(rows)
    rows = pair_frame(form, layout, "y", 1)
    predictions = nets["y"].predict(rows)
    np.testing.assert_array_equal(predictions, scores)
    for inputs in ("nb", "bn"):  # where y is there once it is the input
        rows = pair_frame(form, inputs, "y", 1)
        predictions = nets["y"].predict(rows)
        np.testing.assert_array_equal(predictions, scores)
    metrics = nn.test(nets["y"], pair_frame(form, layout, "y", 1))
    assert metrics == nn.test(nets["f"], pair_frame(form, layout, "f", 1))
    judges = (nn.test, nn.load_for, nn.Network.predict)
    for judge in judges:
        with pytest.raises(
            nn.DataError, match="columns ., . .from 0. are called y, expected one of"
        ):
            judge(nets["y"], pair_frame(form, ELSEWHERE[layout], "y", 1))


def test_an_input_with_the_targets_name_is_no_target_and_two_elsewhere_are_refused(
    layout, folder
):
    """A file of the inputs alone has the name once."""
    trained("y.csv", "--target", layout.index("t"))
    header, rows = predicted("y_new.csv")
    for inputs in ("nb", "bn"):
        text = csv_of(*pair_table(inputs, "y", 1))
        (folder / "inputs.csv").write_text(text)
        expected = (header[:-1], [row[:-1] for row in rows])
        assert predicted("inputs.csv") == expected
        assert "no column y besides the inputs, expected" in refused(
            "--test", "inputs.csv"
        )
    other = ELSEWHERE[layout]
    text = csv_of(*pair_table(other, "y", 1))
    (folder / "other.csv").write_text(text)
    lines = []
    for place, letter in enumerate(other):
        if letter != "b":
            lines.append(str(place))
    places = ", ".join(lines)
    for mode in ("--test", "--predict"):
        message = refused(mode, "other.csv")
        assert (
            f"other.csv: columns {places} (from 0) are called y, expected one of the target's name"
            in message
        )
        assert "--target INDEX" in message
    asked = ("--target", other.index("t"))
    assert figures("--dataset", "other.csv", *asked) == figures(
        "--dataset", "y_new.csv"
    )
    assert predicted("other.csv", *asked) == (header, rows)
