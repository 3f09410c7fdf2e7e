"""Streamed training that is stopped and resumed, and that stays within a limit of memory."""

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.command_line import environment, position, run, start, succeed, write_two_classes
from support.streams import LAYERS, ROWS, WINDOW, alone

import nn
from nn import backends
from nn.data import memory as budget
from nn.data.row_windows import RowWindows
from nn.utils import Stopped, StopRequest, UsageError


@pytest.fixture
def folder(folder, table_files):
    """The current folder: one table in many files."""
    return shutil.copytree(table_files, folder, dirs_exist_ok=True)


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


@pytest.fixture
def several(tmp_path):
    """A training of 6 networks with 0.8 million parameters each."""
    rows = np.random.default_rng(0).normal(size=(20_000, 31))
    rows[:, 30] = rows[:, 0] > 0
    np.save(tmp_path / "t.npy", rows)
    given = ["--train", "--dataset", tmp_path / "t.npy", "--model", tmp_path / "m.bin", "--layers", "30,900,900,1"]
    return [*given, "--batch_number", 500, "--networks", 6, "--epochs", 1, "--validation", 0.2]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the system does not tell a process's peak")
@pytest.mark.parametrize(
    "limit, fits, more",
    [
        (600, True, ["--refit"]),
        (300, False, ["--refit"]),
        (270, False, ["--vary", "hidden=900-900|899-899|898-898|897-897|896-896", "--threshold", "f1", "--keep", 6]),
    ],
    ids=["at once", "on windows", "of several layers"],
)
def test_several_networks_stay_within_the_limit(several, tmp_path, limit, fits, more):
    """Their parameters, moments and best states, the copies of them that a checkpoint has, and what predicts."""
    assert peak_bytes(*several, *more, "--memory", f"{limit}M", "--checkpoint", tmp_path / "c.ck") <= limit << 20
    assert (nn.Network.load(tmp_path / "m.bin").config["window"] is None) == fits


def test_too_many_networks_for_the_limit_are_refused_with_those_that_fit(several):
    err = alone(*several, "--memory", "220M", code=2)
    fit = int(re.search("too little for 6 networks and batches of 500 .*; --networks ([2-5]) fits, or give", err)[1])
    alone(*several, "--networks", fit, "--memory", "220M")
    alone(*several, "--networks", fit + 1, "--memory", "220M", code=2)
    assert "any of 6 networks; at least" in alone(*several, "--memory", "20M", code=2)


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


def test_a_limit_of_the_memory_is_for_the_widest_network_and_the_largest_batch(tmp_path, monkeypatch):
    """The model is that of the window that is told."""
    monkeypatch.setattr(budget, "resident_bytes", lambda: 50 << 20)  # not that of the tests before
    path, models = write_two_classes(tmp_path / "two.csv", 3000), []
    for room in (480_000, 520_000):  # the training of the widest network needs 348,000
        limits = {"memory": backends.TRAITS["omp"].base_bytes + budget.READING_BYTES + room}
        for _ in range(2):
            net = nn.Network("2,8,1", "binary", seed=3, backend="omp")
            nn.train(net, nn.load(path, seed=3, **limits), networks=4, epochs=1, vary="hidden=7|360,batch_size=16|48")
            net.export(tmp_path / "net.bin")
            models.append((net.config["window"], (tmp_path / "net.bin").read_bytes()))
            limits = {"window": net.config["window"]}
    assert models[0] == models[1] and models[2] == models[3] and models[0][0] < models[2][0] < 2400
