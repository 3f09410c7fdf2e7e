"""Records beside the checkpoint: written once, used again by the training that goes on,
and never trusted."""

import glob
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, environment, run, succeed
from support.launches import ours, prepare_launch
from support.packs import until_ended
from support.people import as_csv, people

import nn
from nn.data import records
from nn.data.encoding import Encoding
from nn.utils import OutputError, Stopped, StopRequest
from nn.watch.callbacks import Callback

MAPPED = """
import os, sys, nn.data.records as r
r.LEAST_BYTES = r.LEAST_BYTES_MAPPED = 0
r.fits = lambda size: False
write = r.atomic_file
def told(path, **more):
    os.write(2, b"WRITES ")
    return write(path, **more)
r.atomic_file = told
import nn.cli
sys.exit(nn.cli.main(sys.argv[1:]))
"""
TRAIN = argv(
    "--train --dataset people.csv --layers auto,8,1 --epochs 3 --checkpoint c.ck -q"
)
TRAIN += ["--model", "m.bin"]


@pytest.fixture
def folder(folder):
    (folder / "people.csv").write_text(as_csv(people(2000)))
    return folder


def in_process(program: str, *flags):
    command = [sys.executable, "-c", program, *flags]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60
    )


def files() -> list[str]:
    return glob.glob("c.ck.rows-*")


class AtEpochs(Callback):
    """Do something after each epoch to the files of records."""

    def __init__(self, act):
        self.epoch = lambda *_: act(*files())


def stopped(ds=None, **flags):
    """Train until the first epoch's end; the file of records stays."""
    stop = StopRequest()
    with pytest.raises(Stopped):
        trained(
            ds,
            callback=AtEpochs(lambda *_: stop.request(signal.SIGTERM)),
            stop=stop,
            **flags,
        )
    return files()


def trained(ds=None, **flags):
    ds = ds or nn.load("people.csv")
    net = nn.Network.for_data(ds, "auto,8,1", seed=5)
    nn.train(net, ds, **{"epochs": 3, "checkpoint": "c.ck"} | flags)
    return net


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """The rows of each block that was encoded."""
    blocks = []
    fill = Encoding._fill
    monkeypatch.setattr(
        Encoding, "_fill", lambda *way: blocks.append(len(way[2])) or fill(*way)
    )
    return blocks


def test_a_training_that_goes_on_uses_the_file_and_the_end_removes_it(
    folder, mapped, encoded
):
    peace = trained().vector
    assert encoded == [2000]
    assert files() == []
    (path,) = stopped()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o400
    before = os.stat(path).st_ino
    encoded.clear()
    assert stopped(resume="auto") == [path]
    assert os.stat(path).st_ino == before
    np.testing.assert_array_equal(trained(resume="auto").vector, peace)
    assert encoded == []
    assert files() == []


DAMAGES = {
    "cut": lambda data: data[:-100],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0",
    "changed": lambda data: data[:1000] + bytes([data[1000] ^ 1]) + data[1001:],
    "of another key": lambda data: (
        data[:-32] + records.hashlib.sha256(data[:-32]).digest()
    ),
}


@pytest.mark.usual(2)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_whole_is_written_anew(folder, mapped, encoded, damage):
    peace = trained().vector
    (path,) = stopped()
    whole = Path(path).read_bytes()
    os.chmod(path, 0o600)
    content = DAMAGES[damage](whole)
    Path(path).write_bytes(content)
    encoded.clear()
    assert stopped(resume="auto") == [path]
    assert Path(path).read_bytes() == whole
    assert encoded == [2000]
    np.testing.assert_array_equal(trained(resume="auto").vector, peace)


def test_a_file_of_others_a_link_or_one_with_a_wrong_code_is_written_anew(
    folder, mapped, encoded, monkeypatch
):
    (path,) = stopped()
    whole = Path(path).read_bytes()
    os.chmod(path, 0o666)
    assert stopped() == [path]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o400
    os.replace(path, "elsewhere")
    os.symlink("elsewhere", path)
    assert stopped() == [path]
    assert not os.path.islink(path)
    assert Path(path).read_bytes() == whole
    (path,) = stopped()
    whole = Path(path).read_bytes()
    fill = Encoding._fill

    def too_large(self, x, out, rows):
        fill(self, x, out, rows)
        out["codes1"] = 255

    monkeypatch.setattr(Encoding, "_fill", too_large)
    os.remove(path)
    with pytest.raises(OutputError, match="the file has changed since"):
        stopped()
    assert Path(path).read_bytes() != whole
    monkeypatch.setattr(Encoding, "_fill", fill)
    assert stopped() == [path]
    assert Path(path).read_bytes() == whole


def attacking(attack):
    """Do something to the file of records after the first epoch."""
    attacks = [attack]
    return AtEpochs(lambda *paths: attacks and attacks.pop()(*paths))


def other_bytes(path):
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(1000)
        file.write(bytes(range(100)))


def swap(path):
    content = os.urandom(os.path.getsize(path))
    Path("other").write_bytes(content)
    os.replace("other", path)


def test_records_that_change_while_a_training_reads_them_end_it(folder, mapped):
    with pytest.raises(
        OutputError, match="c.ck.rows-.*: was changed while a training read it"
    ):
        trained(callback=attacking(other_bytes))
    assert not os.path.exists("c.ck")


@pytest.mark.parametrize(
    "attack", [swap, os.utime, os.remove, lambda path: os.chmod(path, 0o644)]
)
def test_a_file_that_is_swapped_touched_or_removed_is_no_harm(folder, mapped, attack):
    peace = trained().vector
    np.testing.assert_array_equal(trained(callback=attacking(attack)).vector, peace)
    assert files() == []


def test_records_that_are_cut_while_a_training_reads_them_end_it_in_one_line(folder):
    """The system ended the process by SIGBUS, without a word."""
    cutting = """
import glob
from nn.train.member import Member
epoch = Member._train_on_rows
def cutting(self, *more):
    for path in glob.glob("c.ck.rows-*"):
        os.chmod(path, 0o600)
        os.truncate(path, 0)
    return epoch(self, *more)
Member._train_on_rows = cutting
"""
    program = MAPPED.replace("import nn.cli\n", "import nn.cli\n" + cutting)
    done = in_process(program, *TRAIN)
    (line,) = done.stderr.removeprefix("WRITES ").splitlines()
    assert done.returncode == 73
    assert line.startswith("nn: c.ck.rows-")
    assert "cannot be read any more" in line
    assert not os.path.exists("m.bin")


def test_other_data_and_another_format_have_another_file(folder, mapped, monkeypatch):
    paths = stopped()
    text = as_csv(people(2000, seed=1))
    (folder / "people.csv").write_text(text)
    second = stopped()
    monkeypatch.setattr(records, "RECORDS_FORMAT", 2)
    third = stopped()
    assert len(third) == 3
    assert set(paths) < set(second) < set(third)
    trained()
    assert files() == []


def test_parts_left_by_a_killed_run_are_removed_at_the_end_and_names_may_be_long(
    folder, mapped
):
    part = Path(".c.ck.rows-0123456789abcdef.12.tmp")
    path = Path("c.ck.rows-mine")
    part.write_bytes(b"part")
    path.write_bytes(b"")
    stopped()
    assert part.exists()
    trained()
    assert not part.exists()
    assert files() == [str(path)]
    trained(epochs=1, checkpoint="c" * 240)
    expected = {"c" * 240, "c.ck", "people.csv", str(path)}
    assert {*os.listdir()} == expected


def test_records_in_memory_and_rows_of_a_data_set_have_no_file(folder, request):
    """The digest is that of all rows."""
    peace = trained().vector
    assert stopped() == []
    net, stops = until_ended(lambda stop: trained(resume="auto", stop=stop))
    np.testing.assert_array_equal(net.vector, peace)
    assert stops
    request.getfixturevalue("mapped")
    rows = nn.load("people.csv").of_rows(slice(1000))
    assert stopped(rows) == []


@pytest.mark.slow
def test_a_killed_training_goes_on_with_its_records(folder):
    succeed(*TRAIN, "--epochs", 300, "--model", "peace.bin", "--checkpoint", "peace.ck")
    flags = [*TRAIN, "--epochs", "300", "--resume", "auto"]
    command = [sys.executable, "-c", MAPPED, *flags]
    process = subprocess.Popen(
        command, env=environment(), stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 60
    while (
        not os.path.exists("c.ck") and process.poll() is None and time.monotonic() < end
    ):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.communicate()[1].count("WRITES") == 1
    assert len(files()) == 1
    done = in_process(MAPPED, *flags)
    assert done.returncode == 0, done.stderr
    assert "WRITES" not in done.stderr, done.stderr
    assert Path("m.bin").read_bytes() == Path("peace.bin").read_bytes()
    assert files() == []


def test_a_full_disk_is_told(folder, mapped, monkeypatch):
    real = os.fsync

    def full(handle):
        if os.readlink(f"/proc/self/fd/{handle}").count("c.ck.rows-"):
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    result = run(*TRAIN)
    assert result.code == 73
    assert result.err.count("\n") == 1
    assert "No space left on device" in result.err
    assert not glob.glob(".*c.ck.rows-*")
    assert files() == []


@pytest.mark.parametrize("flags, count", [([], 1), (["--folds", "2"], 2)])
def test_one_rank_of_a_host_writes_and_the_others_map(
    folder, mpich, monkeypatch, flags, count
):
    """A file for each network: they are of different rows."""
    prepare_launch(folder, monkeypatch)
    given = [*TRAIN, *flags, "--distribute", "mirrored"]
    peace = mpich.train(2, *given, "--model", "peace.bin")
    done = mpich.launch(2, sys.executable, "-c", MAPPED, *given)
    assert peace.returncode == 0, peace.stderr + done.stderr
    assert done.returncode == 0, peace.stderr + done.stderr
    assert done.stderr.count("WRITES") == count
    assert files() == []
    assert Path("m.bin").read_bytes() == Path("peace.bin").read_bytes()


def test_a_writer_that_fails_ends_all_ranks_in_one_line(folder, mpich, monkeypatch):
    prepare_launch(folder, monkeypatch)
    failing = MAPPED.replace(
        "return write(path, **more)",
        "raise r.OutputError('cannot write: the disk is full')",
    )
    done = mpich.launch(
        2, sys.executable, "-c", failing, *TRAIN, "--distribute", "mirrored"
    )
    assert done.returncode != 0
    stderr = done.stderr.replace("WRITES ", "")
    assert len(ours(stderr)) == 1
    assert "the disk is full" in done.stderr
