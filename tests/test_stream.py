"""Data larger than memory: several files, NPY tables, windows of rows, and a limit that holds."""

import gzip
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.command_line import environment, position, run, start, succeed

import nn
from nn import backends
from nn.data import memory as budget
from nn.data.row_windows import RowWindows
from nn.data.stream import BLOCK_ROWS
from nn.ds import Dataset
from nn.utils import DataError, InputNotFound, Stopped, StopRequest, UsageError

ROWS = 24_000  # 24 blocks, the last one short
NAMES = ["number", "b", "c", "d", "Class"]
LAYERS = ["--layers", "4,8,1", "--epochs", 3, "--quiet"]
WINDOW = 5000


def numbered_table(count: int = ROWS) -> np.ndarray:
    """A row's number, three features, and the class that they decide, (count, 5).

    The first number is a half: a column that counts all rows would be left out.
    """
    random = np.random.default_rng(3)
    table = np.empty((count, 5))
    table[:, 0] = np.arange(count)
    table[0, 0] = 0.5
    table[:, 1:4] = random.normal([0, 1000, -5], [1, 0.5, 3], (count, 3)).round(4)
    table[:, 4] = table[:, 1] + (table[:, 3] + 5) / 3 > 0
    return table


def as_csv(table: np.ndarray, header: bool = True) -> str:
    lines = [",".join(map(repr, row)) for row in table.tolist()]
    return "\n".join(([",".join(NAMES)] if header else []) + lines) + "\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """One table: as a CSV file, as three CSV files in a folder, and as NPY files in both orders."""
    folder = tmp_path_factory.mktemp("prepared")
    table = numbered_table()
    (folder / "all.csv").write_text(as_csv(table))
    (folder / "days").mkdir()
    (folder / "days" / "day2.csv").write_text(as_csv(table[:9000]))
    (folder / "days" / "day3.csv").write_text(as_csv(table[9000:9100], header=False).rstrip("\n"))
    (folder / "days" / "day10.csv").write_text("\n" + as_csv(table[9100:]))
    np.save(folder / "all.npy", table)
    np.save(folder / "columns.npy", np.asfortranarray(table[:, :]))
    np.save(folder / "front.npy", table[:10_000])
    np.save(folder / "back.npy", table[10_000:])
    return folder


@pytest.fixture
def folder(folder, prepared):
    """The current folder: a copy of the prepared one."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    return folder


SAME = ["days", "days/day*.csv", "days/day2.csv,days/day3.csv,days/day10.csv", "all.npy", "columns.npy"]
SAME += ["front.npy,back.npy"]


# ---------------------------------------------------------------- several files, NPY


@pytest.mark.parametrize("path", SAME)
def test_files_in_their_order_are_one_table(folder, path):
    whole, ds = nn.load("all.csv"), nn.load(path)
    np.testing.assert_array_equal(ds.x, whole.x)
    np.testing.assert_array_equal(ds.y, whole.y)
    assert (ds.task, ds.classes) == (whole.task, whole.classes)
    assert ds.columns == (NAMES[:4] if "day" in path else None)


def test_the_digest_of_several_files_is_that_of_their_digests(folder):
    files = [folder / "days" / f"day{day}.csv" for day in (2, 3, 10)]
    digests = b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)
    assert nn.load("days").sha256 == hashlib.sha256(digests).hexdigest()
    assert nn.load("all.npy").sha256 == hashlib.sha256((folder / "all.npy").read_bytes()).hexdigest()


@pytest.mark.parametrize("path", ["days", "days/day*.csv", "days/day2.csv,days/day3.csv,days/day10.csv", "all.npy"])
def test_a_test_finds_the_files_again(folder, path):
    succeed("--train", "--dataset", path, "--model", "m.bin", *LAYERS)
    expected = succeed("--test", "--model", "m.bin", "--json").json
    os.chdir("/")
    assert succeed("--test", "--model", folder / "m.bin", "--json").json == expected
    os.chdir(folder)


def test_the_files_are_found_beside_a_model_that_was_moved_with_them(folder):
    succeed("--train", "--dataset", "front.npy,back.npy", "--model", "m.bin", *LAYERS)
    (folder / "else").mkdir()
    for name in ("front.npy", "back.npy", "m.bin"):
        (folder / name).rename(folder / "else" / name)
    assert succeed("--test", "--model", "else/m.bin", "--json").json["rows"] > 4000


@pytest.mark.parametrize(
    "files, words",
    [
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,y,z\n1,2,3\n"}, ["b.csv", "3 columns", "2", "a.csv"]),
        ({"a.csv": "x,y,z\n1,2,3\n", "b.csv": "x,z,y\n1,2,3\n"}, ["b.csv", "column 2", '"z"', '"y"', "a.csv"]),
        ({"a.csv": "1,2\n2,1\n", "b.csv": "x,y\n1,2\n"}, ["b.csv", "header", "a.csv"]),
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n1,2\n\n2,1\ninf,1\n"}, ["b.csv", "row 5", "column x", "inf"]),
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n1,2,3\n"}, ["b.csv, row 2", "3 columns"]),
        ({"a.csv": "x,y\n1,2\n", "b.csv": ""}, ["b.csv", "empty"]),
    ],
)
def test_files_that_do_not_belong_together_are_named(tmp_path, files, words):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    for given in (str(tmp_path), f"{tmp_path}/a.csv,{tmp_path}/b.csv"):
        with pytest.raises(DataError) as error:
            nn.load(given)
        for word in words:
            assert word in str(error.value)


def test_no_file_that_is_read_is_written(folder):
    for path in ("days", "days/day2.csv,days/day3.csv", "days/day*.csv"):
        result = run("--train", "--dataset", path, "--model", "days/day3.csv", *LAYERS)
        assert result.code == 2 and "days/day3.csv is both input and output" in result.err
        for flag in ("--checkpoint", "--trace", "--history"):
            result = run("--train", "--dataset", path, "--model", "m.bin", flag, "days/day3.csv", *LAYERS)
            assert result.code == 2 and "days/day3.csv is both input and output" in result.err


def test_a_missing_or_foreign_file_among_several_is_named(folder):
    with pytest.raises(InputNotFound, match="gone.csv: no such file"):
        nn.load("all.csv,gone.csv")
    with pytest.raises(InputNotFound, match=r"no\*.csv: no file matches"):
        nn.load("no*.csv")
    with pytest.raises(InputNotFound, match="all.csv,: a name is missing before or after a comma"):
        nn.load("all.csv,")
    with pytest.raises(DataError, match="all.npy: expected CSV as in all.csv"):
        nn.load("all.csv,all.npy")


@pytest.mark.parametrize(
    "array, words",
    [
        (np.zeros(5), ["float64 of shape (5,)", "rows, columns"]),
        (np.zeros((2, 3, 4)), ["(2, 3, 4)", "numpy.savez"]),
        (np.zeros((0, 3)), ["no rows"]),
        (np.array([["a", "b"]]), ["<U1", "numbers"]),
        (np.array([[1.0, 0], [np.inf, 1]]), ["index 1", "column 0", "inf", "finite"]),
        (np.array([[1.0, 0], [1e39, 1]]), ["index 1", "column 0", "float32", "--dtype float64"]),
    ],
)
def test_an_array_that_is_no_table_is_refused(tmp_path, array, words):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DataError) as error:
        nn.load(str(tmp_path / "a.npy"))
    for word in ["a.npy", *words]:
        assert word in str(error.value)


def test_objects_and_cut_arrays_are_refused(folder):
    np.save(folder / "objects.npy", np.array([[1, None]], object), allow_pickle=True)
    with pytest.raises(DataError, match="objects.npy: object of shape"):
        nn.load("objects.npy")
    (folder / "cut.npy").write_bytes((folder / "all.npy").read_bytes()[:-8])
    with pytest.raises(DataError, match="cut.npy: 959992 bytes of numbers, expected 960000"):
        nn.load("cut.npy")
    (folder / "cut.npy").write_bytes((folder / "all.npy").read_bytes()[:20])
    with pytest.raises(DataError, match="cut.npy: damaged NPY"):
        nn.load("cut.npy")


@pytest.mark.parametrize(
    "header, words",
    [
        ("{{{", "damaged NPY"),
        ("{1: 2, 'a': 3}", "damaged NPY"),
        ("{'descr': (), 'fortran_order': False, 'shape': (5, 6)}", "damaged NPY"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-5, -6)}", "damaged NPY"),
    ],
)
def test_headers_that_nobody_writes_are_refused(tmp_path, header, words):
    text = header.encode().ljust(117) + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(120))
    with pytest.raises(DataError, match=f"a.npy: {words}"):
        nn.load(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "f2", ">f8", "?"])
def test_numbers_of_any_type_are_read(tmp_path, dtype):
    table = np.array([[0, 1, 0], [1, 1, 1], [1, 0, 1]])
    np.save(tmp_path / "a.npy", table.astype(dtype))
    ds = nn.load(str(tmp_path / "a.npy"), target=1)
    np.testing.assert_array_equal(ds.x, table[:, [0, 2]])
    np.testing.assert_array_equal(ds.y, table[:, 1])


def test_columns_of_whole_numbers_are_pixels_for_a_network_of_images(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5 * 300, dtype=np.int64).reshape(300, 5) % 7)
    ds = nn.load(str(tmp_path / "a.npy"), inputs=(1, 2, 2))
    assert ds.x.shape == (300, 1, 2, 2) and ds.x.dtype == np.uint8
    data = nn.load(str(tmp_path / "a.npy"), inputs=(1, 2, 2), window=100)
    np.testing.assert_array_equal(data.gathered(data.everything).x, ds.x)


# ---------------------------------------------------------------- what an epoch is made of


def as_they_are(ds: Dataset):
    """What the engine gets here: the rows' numbers, and their classes."""
    return ds.x[:, :1], ds.y


def epoch_of(windows: RowWindows) -> tuple[list, list]:
    """(training windows, held-out windows) of one epoch, each a list of (numbers, classes, order, first)."""
    windows.start(0, 0, 1)
    found = []
    try:
        while windows._coming is not None:
            window = windows.next(lambda reading: reading.result())
            found.append((window.x[:, 0].copy(), window.y.copy(), window.order, window.first))
    finally:
        windows.close()
    return found[: windows.count], found[windows.count :]


def all_windows(data, window=WINDOW, batch=10, seed=0, **ranks):
    return epoch_of(RowWindows(data, window, (batch, 4096), as_they_are, seed, **ranks))


@pytest.mark.parametrize("path", ["all.csv", *SAME])
def test_an_epoch_reads_every_row_once_and_holds_out_blocks(folder, path):
    data = nn.load(path, window=WINDOW, target=4, dtype="float64")
    training, held = all_windows(data)
    trained = np.concatenate([numbers[order] for numbers, _, order, _ in training])
    validated = np.concatenate([numbers[order] for numbers, _, order, _ in held])
    assert len(trained) == data.training.rows and len(validated) == data.holdout.rows
    np.testing.assert_array_equal(np.floor(np.sort(np.concatenate([trained, validated]))), np.arange(ROWS))
    assert set(validated // BLOCK_ROWS) == set(data.holdout.numbers) and not {*trained} & {*validated}
    assert np.isin(trained // BLOCK_ROWS, data.training.numbers).all()
    truth = numbered_table()[:, 4]
    for numbers, classes, _, _ in training + held:
        np.testing.assert_array_equal(classes, truth[numbers.astype(int)])


def test_the_short_window_comes_last_and_the_others_in_a_new_order(folder):
    data = nn.load("all.csv", window=3000)
    windows = RowWindows(data, 3000, (10, 4096), as_they_are, 0)
    orders = [windows.order(epoch) for epoch in range(6)]
    windows.close()
    assert all(order[-1] == windows.count - 1 and sorted(order) == list(range(windows.count)) for order in orders)
    assert len({tuple(order) for order in orders}) > 3
    training, _ = all_windows(data, 3000)
    assert [len(numbers) for numbers, *_ in training] == [3000] * (windows.count - 1) + [data.training.rows % 3000]
    assert [first for *_, first in training] == [3000 * place for place in range(windows.count)]
    for numbers, _, order, _ in training:  # a stretch of the file, shuffled
        assert (np.diff(numbers) > 0).all() and not (np.diff(order) > 0).all()


@pytest.mark.parametrize("share", [0, 0.05, 0.2, 0.29, 0.5])
def test_of_every_ten_blocks_the_share_is_held_out(folder, share):
    data = nn.load("all.csv", window=WINDOW, holdout=share)
    assert len(data.holdout.numbers) == pytest.approx(24 * share, abs=2)
    first = np.count_nonzero(data.holdout.numbers < 10), np.count_nonzero(data.holdout.numbers < 20)
    assert first == (int(share * 10), int(share * 20))


@pytest.mark.parametrize("ranks", [2, 3, 7])
@pytest.mark.parametrize("batch", [10, 3])
def test_ranks_read_their_share_of_every_batch(folder, ranks, batch):
    """Together they train on every row once, each on rows that it alone has read."""
    data = nn.load("all.csv", window=WINDOW)
    window = WINDOW // batch * batch
    found = [all_windows(data, window, batch, rank=rank, ranks=ranks) for rank in range(ranks)]
    alone = all_windows(data, window, batch)
    for kind, size in ((0, batch), (1, 4096)):
        for place, (numbers, _, order, _) in enumerate(alone[kind]):
            together = []
            for rank in range(ranks):
                own, _, own_order, _ = found[rank][kind][place]
                assert len(own_order) == len(order)
                taken = [
                    own_order[at + count * rank // ranks : at + count * (rank + 1) // ranks]
                    for at in range(0, len(order), size)
                    for count in [min(size, len(order) - at)]
                ]
                taken = np.concatenate(taken)
                assert len(own) == max(len(taken), 1)
                together.append(own[taken])
            np.testing.assert_array_equal(np.sort(np.concatenate(together)), np.sort(numbers))


def test_the_scaling_is_that_of_the_training_rows(folder):
    """But for roundings, although one column is 1000 +- 0.5: sums of squares would lose seven digits."""
    table = numbered_table()
    for kind in ("standardization", "normalization"):
        data = nn.load("all.csv", window=WINDOW, dtype="float64")
        training = np.isin(np.arange(ROWS) // BLOCK_ROWS, data.training.numbers)
        found = nn.Scaling.of_moments(kind, data.moments)
        expected = nn.Scaling.fit(kind, table[training, :4])
        np.testing.assert_allclose(found.shift, expected.shift, rtol=1e-13)
        np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)


def test_classes_are_found_wherever_they_are(tmp_path):
    """The third class is in the last row alone; names are text."""
    names = ["red", "green"] * 2999 + ["blue"]
    lines = [f"{i % 17},{i % 5},{name}" for i, name in enumerate(names)]
    (tmp_path / "a.csv").write_text("a,b,colour\n" + "\n".join(lines) + "\n")
    data = nn.load(str(tmp_path / "a.csv"), window=1000)
    assert (data.task, data.classes) == ("multiclass", ["blue", "green", "red"])
    assert data.class_counts() == [1, 2999, 2999] and data.outputs == 3
    ds = data.gathered(data.everything)
    assert [data.classes[y] for y in ds.y] == names


@pytest.mark.parametrize("column, task, classes", [(0, "regression", None), (4, "binary", ["0", "1"])])
def test_the_task_is_that_of_the_whole_table(folder, column, task, classes):
    data, ds = nn.load("all.csv", window=WINDOW, target=column), nn.load("all.csv", target=column)
    assert (data.task, data.classes) == (ds.task, ds.classes) == (task, classes)
    if classes:
        assert data.class_counts() == ds.class_counts()
    assert (data.rows, data.inputs, data.outputs) == (ds.rows, ds.inputs, ds.outputs)
    assert (data.columns, data.targets, data.sha256) == (ds.columns, ds.targets, ds.sha256)


def test_a_bad_field_behind_many_good_ones_is_named(folder):
    lines = as_csv(numbered_table()).splitlines()
    lines[20_000] = "20000,1,oops,1,1"
    (folder / "bad.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match='bad.csv, row 20001, column c: found "oops", expected a number'):
        nn.load("bad.csv", window=WINDOW)


# ---------------------------------------------------------------- training


def alone(*arguments, code: int = 0) -> str:
    """`nn ARGUMENTS` as a process of its own, which has nothing in memory but nn; its stderr."""
    process = start(*arguments)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    return err


def model(folder, *flags, name="m.bin") -> bytes:
    succeed("--train", "--model", name, *LAYERS, *flags)
    return (folder / name).read_bytes()


@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_what_fits_into_memory_trains_to_the_same_bytes(folder, backend):
    given = ["--dataset", "all.csv", "--backend", backend]
    plain = model(folder, *given)
    assert model(folder, *given, "--memory", "2G") == plain
    assert model(folder, *given, "--window", ROWS) == plain
    assert model(folder, *given, "--window", WINDOW) != plain


def test_the_numbers_do_not_depend_on_how_the_table_is_cut_into_files(folder):
    networks = []
    for path in ["all.csv", *SAME]:
        model(folder, "--dataset", path, "--window", WINDOW, "--backend", "seq")
        networks.append(nn.Network.load("m.bin"))
    for network in networks[1:]:
        for name, values in networks[0].parameters().items():
            np.testing.assert_array_equal(network.parameters()[name], values)
        assert network.history == networks[0].history


def test_a_config_brings_the_same_bytes(folder):
    alone("--train", "--dataset", "all.csv", "--model", "m.bin", *LAYERS, "--memory", "97M", "--batch_number", 100)
    plain = (folder / "m.bin").read_bytes()
    config = succeed("--info", "--model", "m.bin", "--json")
    assert 100 <= config.json["config"]["window"] < ROWS and config.json["config"]["window"] % 100 == 0
    (folder / "config.json").write_text(config.out)
    succeed("--train", "--model", "again.bin", "--config", "config.json", "--quiet")
    assert (folder / "again.bin").read_bytes() == plain


def test_the_window_is_told(folder):
    err = succeed("--train", "--dataset", "all.csv", "--model", "m.bin", "--epochs", 1, "--window", WINDOW).err
    rows = int(re.search(r"training on (\d+) rows", err)[1])
    assert f"streaming the data: {-(-rows // 4992)} windows of 4992 rows" in err
    err = succeed("--train", "--dataset", "all.csv", "--model", "m.bin", "--epochs", 1).err
    assert "streaming" not in err


@pytest.mark.parametrize("column, layers", [("Class", "4,8,1"), ("b", "4,8,1"), ("b,d", "3,8,2")])
def test_training_in_windows_learns_what_training_in_memory_does(folder, column, layers):
    losses = {}
    for flags in ([], ["--window", "2000"]):
        given = ["--dataset", "all.csv", "--target", column, "--layers", layers, "--epochs", 8]
        result = succeed("--train", "--model", "m.bin", "--json", "--quiet", *given, *flags).json
        losses[bool(flags)] = result["val_loss"][-1]
    # other rows are held out, 5000 of them: the mean of so many tells a loss to some percent
    assert losses[True] == pytest.approx(losses[False], rel=0.1, abs=0.02) and losses[True] < 0.8


def test_the_told_loss_of_held_out_rows_is_that_of_the_rows_that_a_test_finds(folder):
    given = ["--dataset", "all.csv", "--target", "number", "--scaling", "none", "--loss", "mse", "--window", "3000"]
    told = succeed("--train", "--model", "m.bin", "--layers", "4,8,1", "--epochs", 2, "--json", "-q", *given).json
    tested = succeed("--test", "--model", "m.bin", "--json").json
    assert tested["rows"] == told["holdout"]
    everything = nn.test(nn.Network.load("m.bin"), nn.load("all.csv", target="number", task="regression", window=3000))
    assert everything == pytest.approx(succeed("--test", "--model", "m.bin", "--dataset", "all.csv", "--json").json)
    assert tested["mse"] == pytest.approx(told["val_loss"][-1], rel=1e-5)  # sums in float32


def test_held_out_rows_are_the_same_for_every_window(folder):
    found = []
    for window in (1000, 7000):
        model(folder, "--dataset", "all.csv", "--window", window)
        found.append(nn.held_out(nn.Network.load("m.bin"), "m.bin"))
    data = nn.load("all.csv", window=1000)
    np.testing.assert_array_equal(found[0].x, found[1].x)
    assert set(found[0].x[:, 0] // BLOCK_ROWS) == set(data.holdout.numbers)
    assert found[0].sha256 == data.sha256 and len(found[0].x) == data.holdout.rows


@pytest.mark.parametrize("window", [[], ["--window", "3000"]])
@pytest.mark.parametrize("column", ["Class", "number", "text"])
def test_a_streamed_test_tells_the_same_figures(folder, window, column):
    if column == "text":
        table = numbered_table()
        names = ["low", "middle", "high"]
        lines = [f"{a},{b},{c},{names[int(d > -6) + int(d > -4)]}" for _, a, b, d, c in table.tolist()]
        (folder / "all.csv").write_text("a,b,c,text\n" + "\n".join(lines) + "\n")
    layers = ["--layers", {"Class": "4,8,1", "number": "4,8,1", "text": "3,8,3"}[column]]
    given = ["--dataset", "all.csv", "--target", column, *layers, "--epochs", 2]
    succeed("--train", "--model", "m.bin", "-q", *given, *window)
    for dataset in ([], ["--dataset", "all.csv"]):
        whole, data = (
            succeed("--test", "--model", "m.bin", "--json", *dataset, *memory).json
            for memory in ([], ["--memory", "200M"])
        )
        assert data.keys() == whole.keys()
        for name, value in whole.items():
            assert data[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value), name
    predictions = [
        succeed("--predict", "--model", "m.bin", "--dataset", "all.csv", *memory).out
        for memory in ([], ["--memory", "110M"])
    ]
    assert predictions[0] == predictions[1] and predictions[0].count("\n") == ROWS + 1


def test_data_that_changes_while_it_is_trained_on_is_noticed(folder):
    data = nn.load("days", window=WINDOW)
    with open("days/day10.csv", "a") as file:
        file.write("1,2,3,4,1\n")
    with pytest.raises(DataError, match="days/day10.csv: changed while it was read"):
        nn.train(nn.Network("4,8,1", "binary"), data, epochs=1)


def test_other_shares_to_hold_out_are_found_again(folder):
    """The scaling is that of the rows that training uses, whatever `load` was told."""
    nets = []
    for told in (0.5, 0.2):
        net = nn.Network("4,8,1", "binary", backend="seq")
        nn.train(net, nn.load("all.csv", window=WINDOW, holdout=told), epochs=1, holdout=0.2)
        nets.append(net)
    assert nets[0].metadata() == nets[1].metadata()


def test_a_table_of_one_block_is_trained_on_whatever_is_drawn(folder):
    """It would be held out for every fifth seed; then nothing is, as is said."""
    (folder / "few.csv").write_text(as_csv(numbered_table(900)))
    for seed in range(12):
        given = ["--dataset", "few.csv", "--model", "m.bin", "--window", 100, "--epochs", 1, "--seed", seed]
        result = succeed("--train", *given, "--json")
        assert result.json["rows"] == 900 and "too small for --holdout" in result.err
        result = succeed("--test", "--model", "m.bin", "--json")
        assert result.json["rows"] == 900 and "trained on" in result.err


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_compute_what_one_process_computes(mpich, folder, ranks):
    """A batch is a whole window here, so that the order inside it is no matter and only roundings differ."""
    given = ["--train", "--dataset", "days", "--dtype", "float64", "--backend", "omp", "--threads", "1", "-q"]
    given += ["--layers", "4,8,1", "--epochs", "3", "--window", "3001", "--batch_number", "3001"]
    alone(*given, "--model", "alone.bin")
    done = mpich.train(ranks, *given, "--model", "ranks.bin", "--distribute", "mirrored")
    assert done.returncode == 0, done.stderr
    expected, found = nn.Network.load("alone.bin"), nn.Network.load("ranks.bin")
    for name, values in expected.parameters().items():
        np.testing.assert_allclose(found.parameters()[name], values, rtol=1e-9, atol=1e-12)
    for losses in ("loss", "val_loss"):
        np.testing.assert_allclose(found.history[losses], expected.history[losses], rtol=1e-12)


# ---------------------------------------------------------------- stopped and resumed


def stopped_at(count: int, stop: StopRequest, monkeypatch) -> None:
    """Ask for a stop when the `count`th window is there: after one batch of it, or before it is validated."""
    taken = RowWindows.next

    def following(self, wait):
        window = taken(self, wait)
        self.taken = getattr(self, "taken", 0) + 1
        if self.taken == count:
            stop.request(signal.SIGTERM)
        return window

    monkeypatch.setattr(RowWindows, "next", following)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 8, 13])
@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_a_training_that_was_stopped_goes_on_to_the_same_numbers(folder, monkeypatch, count, backend):
    def trained(**flags):
        net = nn.Network("4,8,dropout0.2,6,1", "binary", backend=backend, seed=5)
        ds = nn.load("days", window=WINDOW, seed=5)
        nn.train(net, ds, epochs=3, batch_number=100, **flags)
        return net

    peace = trained()
    stop = StopRequest()
    with monkeypatch.context() as patch:
        stopped_at(count, stop, patch)
        with pytest.raises(Stopped):
            trained(checkpoint="c.ck", stop=stop)
    facts = position("c.ck")
    assert facts["step"] > 0 and (facts["epoch"], facts["row"]) != (3, 0)
    net = trained(checkpoint="c.ck", resume="auto")
    assert net.metadata() == peace.metadata()
    for name, values in peace.parameters().items():
        np.testing.assert_array_equal(net.parameters()[name], values)


def test_a_signal_in_a_window_saves_the_state_where_it_is(folder):
    given = ["--train", "--dataset", "all.csv", "--layers", "4,200,100,1", "--epochs", 4, "--window", 2000]
    given += ["--backend", "seq", "--batch_number", 20]
    succeed(*given, "--model", "peace.bin", "-q")
    given += ["--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"]
    inside = 0
    for _ in range(60):
        process = start(*given)
        while "training on" not in process.stderr.readline() and process.poll() is None:
            pass
        time.sleep(0.4)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        if (folder / "m.bin").exists():  # written; the signal may have come while the process left
            break
        assert process.returncode == 75
        inside += position("c.ck")["row"] % 2000 > 0
    assert process.returncode in (0, -signal.SIGTERM) and inside
    assert (folder / "m.bin").read_bytes() == (folder / "peace.bin").read_bytes()


def test_another_window_is_no_way_to_go_on(folder):
    given = ["--train", "--dataset", "all.csv", "--model", "m.bin", *LAYERS, "--checkpoint", "c.ck"]
    alone(*given, "--memory", "97M")
    for other in (["--memory", "98M"], ["--window", "3000"], []):
        err = alone(*given, *other, "--resume", "auto", code=2)
        assert err.startswith("nn: --memory or --window: c.ck was written with")
    alone(*given, "--memory", "97M", "--resume", "auto")


# ---------------------------------------------------------------- the limit


PEAK = """
import sys, nn.cli
code = nn.cli.main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print("peak", 1024 * int(peak.split()[1]))
sys.exit(code)
"""


def peak_bytes(*arguments) -> int:
    """The most memory that `nn ARGUMENTS` has had, as a process of its own."""
    command = [sys.executable, "-c", PEAK, *map(str, arguments), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    return int(re.search("^peak (.*)$", done.stdout, re.M)[1])


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A CSV file of 150 MB and an NPY file of 300 MB, 30 features and a class."""
    folder = tmp_path_factory.mktemp("large")
    table = np.random.default_rng(0).normal(size=(4000, 31))
    table[:, 30] = table[:, 0] + table[:, 1] > 0
    lines = "".join(",".join(f"{value:.5f}" for value in row) + "\n" for row in table.tolist())
    with open(folder / "large.csv", "w") as file:
        file.write(",".join([*map("c{}".format, range(30)), "Class"]) + "\n")
        for _ in range(140):
            file.write(lines)
    whole = np.lib.format.open_memmap(folder / "large.npy", "w+", np.float64, (1_200_000, 31))
    whole.reshape(300, 4000, 31)[:] = table
    whole.flush()
    del whole
    return folder


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not tell a process's peak")
@pytest.mark.parametrize("name, least", [("large.csv", 140e6), ("large.npy", 290e6)])
def test_memory_stays_within_the_limit(large, name, least):
    """Training, testing and predicting; in memory the table alone would be larger."""
    data, model = large / name, large / f"{name}.bin"
    assert data.stat().st_size > least
    given = ["--train", "--dataset", data, "--model", model, "--layers", "30,8,1", "--batch_number", 500]
    limit = 110 << 20
    assert peak_bytes(*given, "--epochs", 2, "--memory", "110M", "--checkpoint", large / "c.ck") <= limit
    assert nn.Network.load(model).config["window"] > 10_000
    if name == "large.csv":
        assert peak_bytes("--test", "--model", model, "--memory", "110M") <= limit
        predict = ["--predict", "--model", model, "--dataset", data, "-o", large / "p.csv"]
        assert peak_bytes(*predict, "--memory", "110M") <= limit
        assert peak_bytes(*given, "--epochs", 1) > 1.2 * limit
    else:
        assert peak_bytes("--test", "--model", model, "--dataset", data, "--memory", "200M") <= 200 << 20


def test_too_little_memory_is_refused_with_what_is_enough(folder):
    given = ["--train", "--dataset", "all.csv", "--model", "m.bin", *LAYERS]
    for more in ([], ["--window", "9000"]):
        err = alone(*given, *more, "--memory", "20M", code=2)
        assert "--memory 20M: too little" in err
        enough = re.search(r"at least (\d+M) is needed", err)[1]
        alone(*given, *more, "--memory", enough)
    for mode in (["--predict", "--dataset", "all.csv", "-o", "p.csv"], ["--test"]):
        result = run(*mode, "--model", "m.bin", "--memory", "20M")
        assert result.code == 2
        enough = re.search(r"at least (\d+M) is needed", result.err)[1]
        alone(*mode, "--model", "m.bin", "--memory", enough)


def test_what_is_loaded_beside_nn_does_not_change_the_windows(folder, monkeypatch):
    """A display flag such as --logdir changes no numbers: the same windows, or a refusal that says how to have smaller
    ones."""
    base = backends.TRAITS["omp"].base_bytes
    limit = base + budget.READING_BYTES + (1 << 20)
    net = nn.Network("4,8,1", "binary", backend="omp")
    table = nn.load("all.csv", memory=limit)
    found = set()
    for resident in (50 << 20, base + budget.SPARE_BYTES):
        monkeypatch.setattr(budget, "resident_bytes", lambda resident=resident: resident)
        found.add(budget.window_rows(table, net, 10, "standardization"))
    assert len(found) == 1 and 10 < found.pop() < ROWS
    monkeypatch.setattr(budget, "resident_bytes", lambda: base + budget.SPARE_BYTES + (1 << 19))
    with pytest.raises(UsageError, match=r"--logdir.*use --window \d+$") as caught:
        budget.window_rows(table, net, 10, "standardization")
    smaller = int(str(caught.value).split()[-1])
    table = nn.load("all.csv", memory=limit, window=smaller)
    assert budget.window_rows(table, net, 10, "standardization") == smaller


def test_what_cannot_be_streamed_is_refused(folder):
    (folder / "all.csv.gz").write_bytes(gzip.compress((folder / "all.csv").read_bytes(), 1))
    with pytest.raises(UsageError, match="all.csv.gz: a gzip file cannot be streamed; unpack it with gunzip"):
        nn.load("all.csv.gz", memory=1 << 30)
    np.savez(folder / "images.npz", x=np.zeros((9, 4)), y=np.arange(9))
    with pytest.raises(UsageError, match="images.npz: --memory and --window are for CSV and NPY"):
        nn.load("images.npz", window=4)
    result = run("--train", "--dataset", "all.csv", "--model", "m.bin", "--reference", "--window", 1000)
    assert result.code == 2 and "--reference shuffles all rows" in result.err
