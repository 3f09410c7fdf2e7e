"""Data larger than memory: rows in mapped files give the same numbers, within a limit
that holds."""

import errno
import gzip
import os
import re
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.command_line import (
    argv,
    environment,
    position,
    run,
    succeed,
    write_two_classes,
)
from support.packs import StopSoon
from support.people import as_csv as as_mixed_csv
from support.people import people
from support.streams import LAYERS, NAMES, ROWS, SAME, alone, as_csv, numbered_table
from support.tables import is_mapped

import nn
from nn.core import random
from nn.data import records
from nn.data.csv_table import _with_room
from nn.nn import Network
from nn.utils import DataError, OutputError, Stopped, UsageError

LEAST = "100M"  # of --memory, for a small network: rows beyond 26 MiB are mapped


@pytest.fixture
def folder(folder, table_files):
    """The current folder: one table in many files."""
    return shutil.copytree(table_files, folder, dirs_exist_ok=True)


def test_arrays_beyond_the_limit_are_in_files_without_a_name(tmp_path):
    before = records.taken()
    with records.within(before + (3 << 20), str(tmp_path / "c.ck")):
        mapped = records.new_rows((1 << 19,), np.float32)
        beyond = records.new_rows((1 << 19,), np.float32, "F")
        assert not is_mapped(mapped)
        assert is_mapped(beyond)
        assert not beyond.any()
        assert records.taken() == before + (2 << 20)
        assert os.listdir(tmp_path) == []
        beyond[:] = np.arange(1 << 19)
        del mapped
        assert records.taken() == before
        array = records.new_rows((1 << 19,), np.float32)
        assert not is_mapped(array)
        assert beyond[12_345] == 12_345


@pytest.mark.parametrize("rows", [0, 1000, 4500])
@pytest.mark.parametrize("flags, blocks", [(0, 0), (300, 2), (300, 9)])
def test_rows_are_collected_in_a_file_where_memory_is_short(
    rows, flags, blocks, monkeypatch
):
    """From the first block on, from a later one, or when they are joined."""
    left = [True] * blocks
    monkeypatch.setattr(records, "fits", lambda size: bool(left) and left.pop())
    values = np.arange(3 * rows, dtype=np.float32).reshape(-1, 3)
    joined = np.empty((0, 3), np.float32)
    for start in range(0, rows, 1000):
        block = values[start : start + 1000]
        joined = _with_room(joined, start + 1000)
        joined[start : start + len(block)] = block
    joined = _with_room(joined, rows + flags)[: rows + flags]
    assert joined.shape == (rows + flags, 3)
    np.testing.assert_array_equal(joined[:rows], values)
    joined[rows:] = 1  # there is room


def test_a_file_of_rows_is_for_its_owner_and_never_in_memory(tmp_path, monkeypatch):
    facts = []
    allocate = os.posix_fallocate
    monkeypatch.setattr(
        os,
        "posix_fallocate",
        lambda at, *flags: facts.append(os.fstat(at)) or allocate(at, *flags),
    )
    with records.within(0, str(tmp_path / "c.ck")):
        records.new_rows((records.LEAST_BYTES,), np.uint8)
    pairs = [(stat.S_IMODE(status.st_mode), status.st_dev) for status in facts]
    assert pairs == [(0o600, os.stat(tmp_path).st_dev)]
    if os.path.isdir("/dev/shm") and records._is_in_memory("/dev/shm"):
        with records.within(0, "/dev/shm/c.ck"):
            assert records.folder_on_disk() != "/dev/shm"
    monkeypatch.setattr(records, "_is_in_memory", lambda folder: True)
    message = (
        "no folder on a disk for rows that do not fit the memory; name one by TMPDIR"
    )
    with pytest.raises(OutputError, match=message), records.within(0):
        records.new_rows((records.LEAST_BYTES,), np.uint8)


@pytest.mark.parametrize(
    "group, program, size, count, least, most",
    [
        # many small columns count as one large array: each alone had room
        (200, 0, 4, 60, 64, 150),
        # a table had 100, the program and what reads the other 50
        (150, 31, 16, 9, 16, 70),
    ],
)
def test_a_control_group_keeps_room_for_the_program(
    monkeypatch, group, program, size, count, least, most
):
    """Else its limit of memory, in MiB, ends the process."""
    monkeypatch.setattr(
        records,
        "memory_left",
        lambda: max(0, ((group - program) << 20) - records.taken()),
    )
    monkeypatch.setattr(
        records, "private_bytes", lambda: (program << 20) + records.taken()
    )
    columns = []
    for _ in range(count):
        columns.append(records.new_rows((size << 18,), np.float32))
    assert (
        least << 20
        <= records.taken()
        < most << 20
        < sum(column.nbytes for column in columns)
    )


def test_rows_that_a_control_group_has_no_room_for_are_one_line(folder, monkeypatch):
    """The system killed the training: of each row it keeps more than the row."""
    cases = (("memory_left", 1 << 10), ("resident_bytes", 0), ("private_bytes", 0))
    for name, size in cases:
        monkeypatch.setattr(records, name, lambda size=size: size)
    monkeypatch.setattr(records, "LEAST_BYTES_FREE", 1 << 12)
    result = run("--train", "--dataset", "all.csv", "--model", "m.bin", *LAYERS)
    assert result.code == 1
    assert result.err.count("\n") == 1
    assert "use fewer rows, or raise the limit" in result.err


@pytest.mark.parametrize("path", ["all.csv", "all.csv.gz", "all.npy"])
def test_a_full_disk_is_told(folder, path, mapped, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    content = gzip.compress((folder / "all.csv").read_bytes(), 1)
    (folder / "all.csv.gz").write_bytes(content)
    monkeypatch.setattr(os, "posix_fallocate", full)
    result = run(
        "--train", "--dataset", path, "--model", "m.bin", *LAYERS, "--memory", LEAST
    )
    assert result.code == 73
    assert result.err.count("\n") == 1
    assert "its rows do not fit the memory, and cannot be written to" in result.err
    assert "TMPDIR" in result.err


def model(folder, *flags, name="m.bin") -> bytes:
    succeed("--train", "--model", name, *LAYERS, *flags)
    return (folder / name).read_bytes()


@pytest.mark.parametrize("path", ["all.csv", *SAME])
def test_rows_are_the_same_in_files(folder, path, request):
    """And files in their order are one table."""
    expected = nn.load(path, target=4)
    whole = nn.load("all.csv")
    request.getfixturevalue("mapped")
    ds = nn.load(path, target=4)
    assert is_mapped(ds.x)
    assert not is_mapped(expected.x)
    for rows in (expected, whole):
        np.testing.assert_array_equal(ds.x, rows.x)
        np.testing.assert_array_equal(ds.y, rows.y)
    for fact in ("task", "classes", "columns", "sha256"):
        assert getattr(ds, fact) == getattr(expected, fact)
    assert ds.columns == (None if "npy" in path else NAMES[:4])


WAYS = {
    "one": [],
    "seq": ["--backend", "seq"],
    "float64": ["--dtype", "float64", "--target", "b"],
    "refit": argv("--validation 0.2 --refit --threshold f1 --class_weight balanced"),
    "weights": ["--layers", "auto,8,1", "--weight", "number"],
    "networks": ["--networks", 3, "--vary", "hidden=7|9"],
    "group": ["--layers", "auto,8,1", "--group", "d", "--folds", 3],
    "pieces": ["--number_embedding", "pieces8"],
    "time": ["--layers", "auto,8,1", "--time", "number", "--validation", 0.2],
    "reference": ["--reference"],
}


@pytest.mark.usual(3)
@pytest.mark.parametrize("way", WAYS)
def test_a_training_on_mapped_rows_has_the_same_bytes(folder, way, request):
    given = ["--dataset", "all.csv", "--epochs", 2, *WAYS[way]]
    whole = model(folder, *given)
    request.getfixturevalue("mapped")
    assert model(folder, *given, "--memory", LEAST) == whole


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_mixed_rows_in_files_train_to_the_same_bytes(folder, form, request):
    (folder / "people.csv").write_text(as_mixed_csv(people(2000)))
    if form == "parquet":
        pytest.importorskip("pyarrow")
        pytest.importorskip("pandas").read_csv(
            "people.csv", keep_default_na=False
        ).to_parquet("people.parquet")
    given = ["--dataset", f"people.{form}", "--layers", "auto,8,1", "--epochs", 2]
    whole = model(folder, *given)
    request.getfixturevalue("mapped")
    assert model(folder, *given) == whole
    succeed(
        "--predict", "--model", "m.bin", "--dataset", f"people.{form}", "-o", "p.csv"
    )


@pytest.mark.usual(1)
@pytest.mark.parametrize("column", ["Class", "number"])
def test_figures_and_predictions_are_the_same_under_a_limit(folder, column, mapped):
    (folder / "few.csv").write_text(as_csv(numbered_table(3000)))
    model(folder, "--dataset", "few.csv", "--target", column)
    few = ("--dataset", "few.csv")
    modes = (
        ["--test", "--json", "--intervals"],
        ["--test", "--json", "--intervals", *few],
        ["--predict", *few],
    )
    for mode in modes:
        whole = succeed(*mode, "--model", "m.bin", "-q", *[]).out
        data = succeed(*mode, "--model", "m.bin", "-q", *["--memory", "110M"]).out
        assert data == whole
    assert data.count("\n") == 3001


def test_a_bad_field_behind_many_good_ones_is_named(folder, mapped):
    lines = as_csv(numbered_table()).splitlines()
    lines[20_000] = "20000,1,oops,1,1"
    (folder / "bad.csv").write_text("\n".join(lines))
    with pytest.raises(
        DataError, match='bad.csv, row 20001, column c: found "oops", expected a number'
    ):
        nn.load("bad.csv", memory=1 << 20, strict=True)


@pytest.fixture
def by_blocks(monkeypatch):
    """Few rows are many here: 4 blocks of 32 are shuffled together."""
    for name, size in (("SHUFFLED_BYTES", 1), ("BLOCK_ROWS", 32), ("DRAWN_BLOCKS", 4)):
        monkeypatch.setattr(random, name, size)


@pytest.mark.parametrize("rows", [1, 31, 32, 128, 1000, 1025])
def test_the_rows_of_some_blocks_are_shuffled_together(by_blocks, rows):
    orders = [
        random.PhiloxOrder(rows, 3, by_blocks=True).epoch(number) for number in range(4)
    ]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(rows))
        full = []
        for part in np.split(order, range(128, rows, 128)):
            if len(part):
                full.append(part)
        for part in full:
            values = np.unique(part // 32)
            assert len(values) == -(-len(part) // 32) or rows % 32
    assert rows < 128 or len({order.tobytes() for order in orders}) == 4
    if rows == 1000:
        blocks = np.unique(orders[0][:128] // 32)
        # from anywhere
        assert len(blocks) <= 5
        assert np.ptp(blocks) > 4
        assert (np.abs(np.diff(orders[0][:128])) > 1).mean() > 0.9


def test_a_table_of_more_than_the_limit_is_shuffled_by_blocks(folder, monkeypatch):
    """As its size alone says: that of the encoded rows, 16 bytes each here."""
    whole = model(folder, "--dataset", "all.csv")
    monkeypatch.setattr(random, "SHUFFLED_BYTES", 16 * ROWS)
    assert model(folder, "--dataset", "all.csv") == whole
    monkeypatch.setattr(random, "SHUFFLED_BYTES", 16 * ROWS - 1)
    blocks = model(folder, "--dataset", "all.csv")
    assert blocks != whole
    assert model(folder, "--dataset", "all.csv", "--memory", LEAST) == blocks


def test_the_order_does_not_depend_on_the_memory(folder, by_blocks, request):
    given = [["--networks", 3], ["--folds", 3], ["--validation", 0.2, "--refit"]]
    whole = [model(folder, "--dataset", "all.csv", *flags) for flags in given]
    request.getfixturevalue("mapped")
    assert [
        model(folder, "--dataset", "all.csv", *flags, "--memory", LEAST)
        for flags in given
    ] == whole


@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_members_are_the_networks_alone_by_blocks_too(folder, by_blocks, backend):
    ds = nn.load("all.csv")

    def trained(seed, **flags):
        net = Network("4,8,1", ds.task, seed=seed, backend=backend)
        nn.train(net, ds, epochs=2, batch_number=100, **flags)
        return net

    for number, member in enumerate(trained(5, networks=3).members):
        np.testing.assert_array_equal(
            trained(5 + number, split_seed=5).vector, member.vector
        )


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "column, layers", [("Class", "4,8,1"), ("b", "4,8,1"), ("b,d", "3,8,2")]
)
def test_a_file_sorted_by_its_target_trains_as_well_as_a_shuffled_one(
    folder, monkeypatch, column, layers
):
    monkeypatch.setattr(random, "SHUFFLED_BYTES", 1)
    monkeypatch.setattr(random, "BLOCK_ROWS", 64)
    table = numbered_table()
    losses = {}
    order = np.argsort(table[:, NAMES.index(column.split(",")[0])], kind="stable")
    given = argv(
        f"--train --model m.bin --target {column} --layers {layers} --epochs 8 --json --quiet"
    )
    for name, rows in {"shuffled": table, "sorted": table[order]}.items():
        (folder / "t.csv").write_text(as_csv(rows))
        result = succeed(*given, "--dataset", "t.csv")
        losses[name] = result.json["val_loss"][-1]
    # other rows are held out, 5000 of them: their mean tells a loss to some percent
    expected = pytest.approx(losses["shuffled"], rel=0.1, abs=0.02)
    assert losses["sorted"] == expected
    assert losses["sorted"] < 0.8


def test_the_default_choice_judges_by_validation_rows_there(folder, by_blocks):
    table = numbered_table(2000)[:, [1, 2, 3, 4]]
    (folder / "few.csv").write_text(as_csv(table, header=False))
    given = argv("--train --dataset few.csv --model m.bin --effort quick --epochs 3")
    figures = succeed(*given, "--json").json
    assert figures["validated"]["rows"] in (399, 400)
    assert "out_of_fold" not in figures
    assert figures["networks"] == 2
    assert "validated:" in succeed(*given).out
    flags = figures["chosen"][0]["flags"]
    assert "--validation 0.2" in flags
    assert "--networks 2" in flags
    assert "--folds" not in flags
    whole = (folder / "m.bin").read_bytes()
    succeed(*given, "--memory", "300M")
    assert (folder / "m.bin").read_bytes() == whole


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("limits", [(None, 100 << 20), (100 << 20, None)])
def test_a_training_by_blocks_that_was_stopped_goes_on_under_any_limit(
    folder, by_blocks, mapped, backend, limits
):
    def trained(memory=None, **flags):
        net = Network("4,8,dropout0.2,6,1", "binary", backend=backend, seed=5)
        ds = nn.load("days", memory=memory)
        nn.train(net, ds, epochs=3, batch_number=100, **flags)
        return net

    peace = trained()
    before, after = limits
    with pytest.raises(Stopped):
        trained(before, checkpoint="c.ck", stop=StopSoon(6))
    assert position("c.ck")["epoch"] + position("c.ck")["row"] > 0
    net = trained(after, checkpoint="c.ck", resume="auto")
    assert net.metadata() == peace.metadata()
    np.testing.assert_array_equal(net.vector, peace.vector)


PEAK = """
import re, sys, threading, time, nn.cli
peak = 0
def look():
    global peak
    while True:
        status = open("/proc/self/status").read()
        peak = max(peak, 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]))
        time.sleep(0.002)
threading.Thread(target=look, daemon=True).start()
code = nn.cli.main(sys.argv[1:])
print("peak", peak)
sys.exit(code)
"""
TELLS = (
    os.path.exists("/proc/self/status")
    and "RssAnon" in Path("/proc/self/status").read_text()
)
TELLING = pytest.mark.skipif(
    not TELLS, reason="the system does not tell a process's own memory"
)


def peak_bytes(*arguments) -> int:
    """The most memory of its own that `nn ARGUMENTS` has had, as a process of its
    own."""
    command = [sys.executable, "-c", PEAK, *map(str, arguments), "--quiet"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=120
    )
    assert done.returncode == 0, done.stderr
    match = re.search("^peak (.*)$", done.stdout, re.M)
    return int(match[1])


@pytest.fixture(scope="module")
def large_rows():
    """Rows that stand many times in large files: 30 features and a class."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(4000, 31))
    table[:, 30] = table[:, 0] + table[:, 1] > 0
    return table


def write_csv(path: Path, rows, times: int) -> None:
    """Write these rows that many times."""
    lines = []
    for row in rows.tolist():
        lines.append(",".join(f"{value:.5f}" for value in row) + "\n")
    text = "".join(lines)
    with open(path, "w") as file:
        file.write(",".join([*map("c{}".format, range(30)), "Class"]) + "\n")
        for _ in range(times):
            file.write(text)


@pytest.fixture(scope="module")
def large_npy(tmp_path_factory, large_rows):
    """An NPY file of 300 MB."""
    folder = tmp_path_factory.mktemp("large")
    whole = np.lib.format.open_memmap(
        folder / "large.npy", "w+", np.float64, (1_200_000, 31)
    )
    whole.reshape(300, 4000, 31)[:] = large_rows
    return folder / "large.npy"


ON_LARGE = ["--layers", "30,8,1", "--batch_number", 500, "--epochs", 1]


@pytest.mark.slow
@TELLING
def test_memory_stays_within_the_limit(large_rows, folder):
    """Training and testing; in memory rows of 45 MB, and what reads them, take more."""
    write_csv(folder / "large.csv", large_rows, 90)
    given = ["--train", "--dataset", "large.csv", *ON_LARGE]
    limit = ("--memory", LEAST)
    assert (
        peak_bytes(*given, *limit, "--checkpoint", "c.ck", "--model", "limited.bin")
        <= 100 << 20
    )
    assert peak_bytes(*given, "--model", "m.bin") > 1.15 * (100 << 20)
    data = (folder / "limited.bin").read_bytes()
    assert data == (folder / "m.bin").read_bytes()
    assert peak_bytes("--test", "--model", "m.bin", *limit) <= 100 << 20


@TELLING
@pytest.mark.long
def test_memory_stays_within_the_limit_by_folds_too(large_rows, folder):
    write_csv(folder / "large.csv", large_rows, 140)
    given = ["--train", "--dataset", "large.csv", *ON_LARGE, "--folds", 3]
    assert peak_bytes(*given, "--memory", "180M", "--model", "m.bin") <= 180 << 20


@TELLING
@pytest.mark.long
def test_memory_stays_within_the_limit_of_an_array_too(large_npy, folder):
    assert large_npy.stat().st_size > 290e6
    given = ["--train", "--dataset", large_npy, *ON_LARGE]
    assert (
        peak_bytes(
            *given, "--memory", "130M", "--checkpoint", "c.ck", "--model", "m.bin"
        )
        <= 130 << 20
    )
    assert (
        peak_bytes(
            "--test", "--model", "m.bin", "--dataset", large_npy, "--memory", "230M"
        )
        <= 230 << 20
    )


@pytest.mark.slow
@TELLING
def test_predictions_of_many_rows_need_no_more_memory_than_blocks_of_them(folder):
    """Columns of one value are read as float64 first: that is mapped, too."""
    columns = 100
    rows = 80_000
    line = ",".join(str(i % 10) for i in range(columns)) + ",0.5\n"
    text = line * 500 + line.replace("0.5", "1.5") * 500
    (folder / "few.csv").write_text(text)
    with open("many.csv", "w") as file:
        for _ in range(rows // 1000):
            file.write(line * 1000)
    succeed(
        *argv("--train --dataset few.csv --model m.bin --task regression --epochs 1 -q")
    )
    predict = ("--predict", "--model", "m.bin", "-o", "out.csv", "--memory", LEAST)
    few = peak_bytes(*predict, "--dataset", f"{'few'}.csv")
    many = peak_bytes(*predict, "--dataset", f"{'many'}.csv")
    # a block has some 20 MiB; all rows beside one would be as many more
    assert many - few < rows * columns * 4
    assert many <= 100 << 20
    text = (folder / "out.csv").read_text()
    assert text.count("\n") == rows + 1


@pytest.fixture
def several(tmp_path):
    """A training of 6 networks with 0.8 million parameters each."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 31))
    rows[:, 30] = rows[:, 0] > 0
    np.save(tmp_path / "t.npy", rows)
    given = [
        "--train",
        "--dataset",
        tmp_path / "t.npy",
        "--model",
        tmp_path / "m.bin",
        "--layers",
        "30,900,900,1",
    ]
    return [
        *given,
        *argv("--batch_number 500 --networks 6 --epochs 1 --validation 0.2"),
    ]


@pytest.mark.slow
@TELLING
def test_several_networks_stay_within_the_limit(several, tmp_path):
    """Their parameters, moments and best states, the copies of them that a checkpoint
    has, and what predicts."""
    assert (
        peak_bytes(
            *several, "--refit", "--memory", "600M", "--checkpoint", tmp_path / "c.ck"
        )
        <= 600 << 20
    )


@pytest.mark.slow
def test_too_many_networks_for_the_limit_are_refused_with_what_is_enough(several):
    err = alone(*several, "--memory", "220M", code=2)
    match = re.search(
        r"too little for these 6 networks; at least (\d+M) is needed", err
    )
    alone(*several, "--memory", match[1])


def test_too_little_memory_is_refused_with_what_is_enough(folder):
    given = ["--dataset", "all.csv", "--model", "m.bin"]
    enough = r"at least (\d+M) is needed"
    modes = (
        ["--train", *given, *LAYERS],
        ["--predict", *given, "-o", "p.csv"],
        ["--test", "--model", "m.bin"],
    )
    for mode in modes:
        result = run(*mode, "--memory", "20M")
        assert result.code == 2
        assert "--memory 20M: too little" in result.err
        match = re.search(enough, result.err)
        result = run(*mode, "--memory", match[1])
        # now that there is room for the network, that for the rows is asked for
        if result.code:
            match = re.search(enough, result.err)
            alone(*mode, "--memory", match[1])


def test_a_window_is_refused_and_rows_that_a_model_of_windows_held_out_asked_for(
    folder,
):
    with pytest.raises(UsageError, match="window: has gone; use memory"):
        nn.load("all.csv", window=1000)
    (folder / "config.json").write_text('{"window": 5000}')
    cases = (
        (["--window=1000"], "--window: has gone; use --memory\n"),
        (["--config", "config.json"], "config.json: window: has gone; use memory\n"),
    )
    for flags, message in cases:
        result = run(
            "--train", "--dataset", "all.csv", "--model", "m.bin", *LAYERS, *flags
        )
        assert result.code == 2
        assert result.err == f"nn: {message}"
    net = Network("4,8,1", "binary")
    ds = nn.load("all.csv")
    nn.train(net, ds, epochs=1)
    net.config = {**net.config, "window": 5000}
    net.export("m.bin")
    result = run("--test", "--model", "m.bin")
    assert result.code == 2
    assert "m.bin was trained on windows of rows" in result.err
    assert "--dataset" in result.err
    succeed("--test", "--model", "m.bin", "--dataset", "all.csv")


def test_threads_that_read_give_the_memory_back(folder):
    """What rows take is counted, whoever lets them go."""
    before = records.taken()
    with ThreadPoolExecutor(4) as threads:
        read = [
            threads.submit(lambda: nn.load("all.csv", memory=1 << 30).rows)
            for _ in range(4)
        ]
        assert [array.result() for array in read] == [ROWS] * 4
    assert records.taken() == before


def test_a_limit_holds_for_rows_that_were_in_memory_before(tmp_path):
    """They go to a file where the network needs their place."""
    write_two_classes(tmp_path / "two.csv", 300_000)
    ds = nn.load(tmp_path / "two.csv", memory=1 << 30)
    assert not is_mapped(ds.x)
    x = ds.x.copy()
    ds.memory = (48 + 24 + 11) << 20
    net = Network("2,8,1", ds.task)
    nn.train(net, ds, epochs=1, batch_number=1000)
    assert is_mapped(ds.x)
    np.testing.assert_array_equal(ds.x, x)
