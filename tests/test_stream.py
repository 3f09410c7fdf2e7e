"""Data larger than memory: several files, NPY tables, windows of rows, and a limit that holds."""

import re
import shutil

import numpy as np
import pytest
from support.command_line import succeed
from support.streams import LAYERS, ROWS, SAME, WINDOW, alone, as_csv, numbered_table

import nn
from nn.data.row_windows import RowWindows
from nn.data.stream import BLOCK_ROWS
from nn.ds import Dataset
from nn.utils import DataError


@pytest.fixture
def folder(folder, table_files):
    """The current folder: one table in many files."""
    return shutil.copytree(table_files, folder, dirs_exist_ok=True)


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
    # other rows are held out, 5000 of them: their mean tells a loss to some percent
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
