"""Where results are written: files, links, devices and pipes; what is in the way of it
is said before the work."""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from unittest import mock

import numpy as np
import pytest
from support.command_line import (
    ONE,
    argv,
    environment,
    read_until,
    run,
    start,
    succeed,
    write_two_classes,
)

import nn
from nn.commands.common import check_apart, part_of
from nn.utils import (
    OutputError,
    SideFileError,
    UsageError,
    atomic_file,
    atomic_write,
    check_writable,
)
from nn.watch.history import CsvHistory

TRAIN = [*ONE, "--dataset", "two.csv", "--epochs", 2, "--quiet"]
PREDICT = ["--predict", "--dataset", "two.csv", "--model", "m.bin", "--quiet"]


@pytest.fixture
def pipe(folder):
    """A named pipe."""
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


@pytest.mark.parametrize("target", ["/dev/null", "pipe", "/dev/stdout", "device"])
@pytest.mark.parametrize("flag", ["--model", "--checkpoint", "--trace"])
def test_a_device_or_a_pipe_is_no_place_for_a_file_that_is_replaced_whole(
    two, pipe, flag, target
):
    (two.parent / "device").symlink_to("/dev/null")
    if flag == "--model":
        flags = []
    else:
        flags = ["--model", "new.bin"]
    message = f"nn: {target}: a device or a pipe, expected a file name to write to\n"
    result = run(*TRAIN, *flags, flag, target)
    assert result == (73, "", message)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert not os.path.exists("new.bin")


def test_nothing_replaces_a_device_whoever_asks(pipe):
    with pytest.raises(OutputError, match="a device or a pipe"):
        atomic_write("pipe", b"text")
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_predictions_and_the_history_are_written_to_a_pipe_and_a_device(trained, pipe):
    expected = succeed(*PREDICT).out
    results = []
    commands = ([*PREDICT, "--output"], [*TRAIN, "--model", "new.bin", "--history"])
    for command in commands:
        thread = threading.Thread(target=lambda: results.append(pipe.read_text()))
        thread.start()
        succeed(*command, "pipe")
        thread.join(10)
        succeed(*command, "/dev/null")
        assert stat.S_ISFIFO(os.stat("pipe").st_mode)
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert results[0] == expected
    lines = results[1].splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "1", "2"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_device_is_named(trained):
    message = "nn: /dev/full: cannot write: No space left on device\n"
    result = run(*PREDICT, "--output", "/dev/full")
    assert result == (73, "", message)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"]
)
def test_predictions_go_to_an_open_file(trained, name):
    """Behind what was written there before: a shell's >> stays what it is."""
    (trained.parent / "link").symlink_to("/dev/stdout")
    expected = succeed(*PREDICT).out
    command = [sys.executable, "-m", "nn", *PREDICT, "--output", name]
    if name == "link":
        piped = subprocess.run(
            command, capture_output=True, text=True, env=environment()
        )
        assert piped.returncode == 0, piped.stderr
        assert piped.stdout == expected, piped.stderr
    with open("out.csv", "w") as file:
        file.write("before\n")
        file.flush()
        assert subprocess.run(command, stdout=file, env=environment()).returncode == 0
    text = (trained.parent / "out.csv").read_text()
    assert text == "before\n" + expected


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("exists", [True, False])
def test_the_target_of_a_link_is_replaced(two, exists):
    (two.parent / "sub").mkdir()
    files = {
        "--model": "m.bin",
        "--checkpoint": "c.ck",
        "--trace": "t.json",
        "--history": "h.csv",
    }
    for name in files.values():
        (two.parent / name).symlink_to(f"sub/{name}")
        if exists:
            (two.parent / "sub" / name).write_text("old")
    succeed(*TRAIN, *(part for pair in files.items() for part in pair))
    for name in files.values():
        assert (two.parent / name).is_symlink()
        assert (two.parent / "sub" / name).stat().st_size > 10
    names = sorted(os.listdir("sub"))
    assert names == ["c.ck", "h.csv", "m.bin", "t.json"]


@pytest.mark.parametrize(
    "mode, fails",
    [(0o600, False), (0o640, False), (0o444, False), (0o666, False), (0o666, True)],
)
def test_a_file_that_is_written_again_keeps_its_mode_if_that_can_be_set(
    folder, monkeypatch, mode, fails
):
    """On CIFS and some file systems of FUSE it cannot."""
    (folder / "m.bin").write_bytes(b"old")
    os.chmod("m.bin", mode)
    if fails:
        error = PermissionError(errno.EPERM, "Operation not permitted")
        monkeypatch.setattr(os, "fchmod", mock.Mock(side_effect=error))
    atomic_write("m.bin", b"new")
    assert (folder / "m.bin").read_bytes() == b"new"
    assert fails or stat.S_IMODE(os.stat("m.bin").st_mode) == mode


def test_a_file_reaches_the_disk_before_its_name_and_the_name_before_the_end(
    folder, monkeypatch
):
    """fsync of the file, rename, fsync of its folder: after a power cut there is the
    old file or the new one."""
    steps = []
    sync = os.fsync
    rename = os.replace

    def recorded_sync(handle):
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        step = (
            ("folder", os.fstat(handle).st_ino)
            if is_folder
            else ("file", os.fstat(handle).st_size)
        )
        steps.append(step)
        sync(handle)

    def recorded_rename(*names):
        step = ("renamed", os.path.basename(names[1]))
        steps.append(step)
        rename(*names)

    monkeypatch.setattr(os, "fsync", recorded_sync)
    monkeypatch.setattr(os, "replace", recorded_rename)
    (folder / "inside").mkdir()
    atomic_write(folder / "inside" / "m.bin", b"12345")
    inode = os.stat(folder / "inside").st_ino
    assert steps == [("file", 5), ("renamed", "m.bin"), ("folder", inode)]


def test_a_new_file_has_the_mode_that_the_umask_leaves_which_stays_what_it_is(
    folder, monkeypatch
):
    """It is the whole process's: another thread that makes a file meanwhile would make
    it for everybody."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(
                os, "umask", lambda mask: pytest.fail("the umask was changed")
            )
            atomic_write("new", b"text")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("new").st_mode) == 0o640


def test_a_temporary_file_in_use_is_not_removed_whatever_the_clock_says(folder):
    """A writer that has said nothing for long, or a file system whose clock is an hour
    behind."""
    with atomic_file("m.bin") as file:
        (temporary,) = folder.glob(".m.bin.*.tmp")
        file.write(b"slow")
        file.flush()
        os.utime(temporary, (time.time() - 3600,) * 2)
        atomic_write("m.bin", b"quick")
    assert (folder / "m.bin").read_bytes() == b"slow"


@pytest.mark.parametrize(
    "name", ["n" * 241, "n" * 242, "n" * 250, "n" * 255, "é" * 127], ids=len
)
def test_every_name_that_the_system_allows_can_be_written(folder, name):
    check_writable(name)
    atomic_write(name, b"text")
    assert (folder / name).read_bytes() == b"text"
    assert os.listdir(folder) == [name]
    part = part_of(name)
    atomic_write(part, b"text")
    assert part.endswith(".part")
    assert name.startswith(part.removesuffix(".part"))


@pytest.mark.parametrize("flag", ["--model", "--checkpoint", "--trace", "--history"])
def test_a_name_that_is_too_long_is_refused_before_the_training(two, flag):
    if flag == "--model":
        flags = []
    else:
        flags = ["--model", "new.bin"]
    code, _, err = run(*TRAIN, *flags, flag, "n" * 256)
    assert code == 73
    assert re.fullmatch("nn: .*: cannot write: File name too long\n", err)
    assert os.listdir() == ["two.csv"]


# --------------------------------------------------------------- files beside the model


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_history_that_cannot_be_written_ends_no_training(two, monkeypatch):
    result = run(*TRAIN[:-1], "--model", "m.bin", "--history", "/dev/full", "--json")
    messages = [line for line in result.err.splitlines() if line.startswith("nn: ")]
    *warnings, last = messages
    failure = "/dev/full: cannot write: No space left on device"
    warning = f"nn: warning: {failure}; the training goes on without it"
    assert warnings.count(warning) == 1
    assert result.code == 73
    assert last == f"nn: {failure}; m.bin is written"
    assert len(result.json["loss"]) == 2
    chosen = ("--dataset", "two.csv", "--effort", "standard", "--history", "/dev/full")
    (*_, told) = run("--train", *chosen, "--model", "c.bin").err.splitlines()
    assert told == f"nn: {failure}; c.bin is written"  # once of all its candidates
    without_model = run(*TRAIN, "--folds", 2, "--history", "/dev/full", "-q")
    assert without_model == (73, "", f"nn: {failure}\n")

    def full(*_):
        raise OutputError("o.csv: no room")

    monkeypatch.setattr("nn.commands.table_file.write_table", full)
    both = (*TRAIN, "--folds", 2, "--history", "/dev/full", "-o", "o.csv", "-q")
    assert run(*both) == (73, "", f"nn: {failure}; o.csv: no room\n")
    succeed(*TRAIN, "--model", "n.bin")
    data = (two.parent / "m.bin").read_bytes()
    assert data == (two.parent / "n.bin").read_bytes()


def test_an_old_history_stays_until_the_first_epoch_is_over(two):
    (two.parent / "h.csv").write_text("old")
    cases = (
        (2, ["--layers", "2,1,nonsense"]),
        (1, ["--learning_rate", 1e300, "--optimizer", "sgd"]),
    )
    for code, flags in cases:
        result = run(*TRAIN, "--model", "m.bin", "--history", "h.csv", *flags)
        assert result.code == code
        assert (two.parent / "h.csv").read_text() == "old"


def test_python_gets_the_figures_of_a_training_whose_history_is_lost(two):
    ds = nn.load("two.csv")
    net = nn.Network("2,3,1", ds.task)
    before = net.predict(ds.x)
    with pytest.raises(SideFileError, match="/dev/full: cannot write") as error:
        nn.train(net, ds, epochs=3, callback=CsvHistory("/dev/full"))
    assert len(error.value.result["loss"]) == 3
    assert (net.predict(ds.x) != before).any()


# ---------------------------------------------------------------- files that are read


OVER_TWO = ["-o", "two.csv"]


@pytest.mark.parametrize("flag", ["--model", "--history", "--checkpoint"])
@pytest.mark.parametrize(
    "read", ["config.json", "data.db", "classes/a/1.png", "old.ck", "held.csv"]
)
def test_no_training_replaces_a_file_that_it_reads(two, read, flag):
    with contextlib.closing(sqlite3.connect("data.db")) as base:
        base.execute("CREATE TABLE t (a, b, y)")
    os.makedirs("classes/a")
    for name in ("config.json", "classes/a/1.png", "old.ck"):
        (two.parent / name).write_text("{}")
    (two.parent / "held.csv").write_text(two.read_text())
    data = {"data.db": "data.db:t", "classes/a/1.png": "classes"}.get(read, "two.csv")
    before = (two.parent / read).read_bytes()
    is_resumed = read == "old.ck" and flag != "--checkpoint"
    flags = ["--config", "config.json", "--validation", "held.csv"]
    if is_resumed:
        flags += ["--resume", "old.ck"]
    result = run(
        *ONE, "--dataset", data, "--epochs", 1, "--model", "m.bin", *flags, flag, read
    )
    if read == "old.ck" and not is_resumed:
        assert result.code == 0  # what is gone on from may be written anew
    else:
        assert result.code == 2
        assert f"{read} is both" in result.err
        assert (two.parent / read).read_bytes() == before


@pytest.mark.parametrize(
    "command, code, message",
    [
        (
            ["--plot", "two.csv", "-o", "pictures", "--report", "two.csv"],
            2,
            "nn: two.csv is both input and output; choose another output file\n",
        ),
        (
            ["--explain", "--model", "m.bin", "--background", "two.csv", *OVER_TWO],
            2,
            "nn: two.csv is both input and output; choose another output file\n",
        ),
        (
            [*TRAIN, "--model", "m.bin", "--logdir", "a/" * 2500],
            73,
            "cannot write: too many folders one in another\n",
        ),
        (
            [*TRAIN, "--model", "m.bin", "--logdir", "./m.bin"],
            2,
            "nn: --logdir ./m.bin: the same file as --model; choose another file\n",
        ),
    ],
    ids=["results", "background", "thousands of folders", "model"],
)
def test_what_a_page_or_a_folder_of_events_would_replace_is_told_in_one_line(
    two, command, code, message
):
    result = run(*command)
    assert result.code == code
    assert result.err.endswith(message)
    assert result.err.count("\n") == 1
    assert os.listdir() == ["two.csv"]


@pytest.mark.parametrize("read", ["images", "./images", "../images"])
def test_an_image_of_the_data_is_no_output(folder, read):
    for name in ("images/a", "other/a"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.png").touch()
    (folder / "link.png").symlink_to("images/a/1.png")
    if read.startswith(".."):
        os.chdir("other")
    written = os.path.join(os.path.dirname(read), "images/a/1.png")
    for path in (written, written.replace("images/a/1", "link")):
        with pytest.raises(UsageError, match=f"{path} is both input and output"):
            check_apart(read, path)
    for path in ("images/a/2.png", "other/a/1.png"):
        check_apart(read, os.path.join(os.path.dirname(read), path))


@pytest.mark.parametrize(
    "flag", ["--history", "--trace", "--checkpoint", "--dataset", "--config"]
)
def test_no_file_of_a_training_is_that_of_its_unfinished_network(two, flag):
    if flag == "--dataset":
        content = two.read_bytes()
    else:
        content = b"{}"
    (two.parent / "m.bin.part").write_bytes(content)
    result = run(*TRAIN, "--model", "m.bin", flag, "./m.bin.part")
    assert result.code == 2
    assert "m.bin.part" in result.err
    assert "; choose another" in result.err
    assert sorted(os.listdir()) == ["m.bin.part", "two.csv"]
    assert (two.parent / "m.bin.part").read_bytes() == content


def test_no_file_gets_the_number_of_a_stream_that_is_closed():
    """A C library writes what it has to say to 2, whatever that is."""
    script = "import os; os.closerange(0, 3); import nn.cli; nn.cli._mend_streams(); os._exit(os.open('/dev/null', 0))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment())
    assert done.returncode > 2


def test_files_whose_names_are_no_characters_are_read_and_written(folder, brief):
    two = write_two_classes(folder / "o\udcff.csv")
    plan = '{"data": {"path": "two.csv"}, "layers": "2,3,1", "epochs": 1, "batches": 2}'
    (folder / "o\udcff.json").write_text(plan)
    (folder / "two.csv").write_bytes(two.read_bytes())
    several = [
        *argv("--train --networks 2 --vary epochs=1|2"),
        "--dataset",
        "o\udcff.csv",
    ]
    for _ in range(2):
        succeed(*several, "--model", "o\udcff.bin", "--history", "o\udcff.h", "-q")
    assert part_of("a/o\udcff.bin") == "a/o\udcff.bin.part"
    succeed(
        "--sweep", "o\udcff.json:0", "-o", "o\udcff.r", "--report", "s\udcff.html", "-q"
    )
    succeed("--test", "--model", "o\udcff.bin", "--report", "o\udcff.html", "-q")
    assert b"o\\udcff.bin" in (folder / "o\udcff.html").read_bytes()


def test_names_are_kept_where_the_locale_knows_ascii_alone(folder):
    write_two_classes(folder / "é.csv")
    plain = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    use = ["--dataset", "é.csv", "--model", "é.bin"]
    commands = ([*ONE, *use, "--epochs", 1, "--history", "é.h"], ["--test", *use])
    for command in commands:
        done = start(*command, "-q", env=plain)
        assert done.communicate(timeout=60)[1] == ""
        assert done.returncode == 0
    assert sorted(os.listdir()) == ["é.bin", "é.csv", "é.h"]


def obeying():
    """In a child of root: let it obey the permissions of files, as others do."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
@pytest.mark.parametrize(
    "path, closed",
    [("closed/two.csv", "closed"), ("closed", "closed"), ("images", "images/a")],
)
def test_what_the_system_does_not_let_be_read_is_named(trained, path, closed):
    for name in ("closed/two.csv", "images/a/1.png", "images/b/1.png"):
        os.makedirs(os.path.dirname(name), exist_ok=True)
        shutil.copy("two.csv", name)
    os.chmod(closed, 0)
    try:
        if path == closed:
            command = ["--predict", "--model", "m.bin", "-q"]
        else:
            command = [*TRAIN, "--model", "new.bin"]
        done = start(*command, "--dataset", path, preexec_fn=obeying)
        err = done.communicate(timeout=60)[1]
        assert done.returncode == 66
        assert err.startswith(f"nn: {closed}")
        assert err.count("\n") == 1
        assert err.endswith(": cannot read: Permission denied\n")
    finally:
        os.chmod(closed, 0o755)


@pytest.mark.parametrize("removed", ["before", "after"])
def test_a_current_folder_that_is_gone_is_told_as_that(two, removed):
    folder = two.parent / "sub"
    folder.mkdir()
    preexec_fn = folder.rmdir if removed == "before" else None
    options = {"cwd": folder, "preexec_fn": preexec_fn}
    done = start(
        *ONE, "--dataset", two, "--model", "m.bin", "--epochs", 10**6, **options
    )
    code = 66
    message = "nn: the current folder is not there any more; change to another one\n"
    if removed == "after":
        read_until(done, "loss")
        shutil.rmtree(folder)
        done.send_signal(signal.SIGTERM)
        code = 143
        message = "No such file or directory), m.bin was not written\n"
    err = done.communicate(timeout=60)[1]
    assert done.returncode == code
    assert err.endswith(message)


# ------------------------------------------------------- the names of files in messages


@pytest.mark.parametrize("format", ["csv", "npz"])
@pytest.mark.parametrize("flags", [(), ("--memory", "200M"), ("--layers", "9,3,1")])
def test_a_message_calls_a_file_as_it_was_given(folder, format, flags):
    os.mkdir("sub")
    if format == "csv":
        (folder / "sub" / "one.csv").write_text("a,b,y\n" + "1,2,0\n3,1,0\n" * 20)
    else:
        x = np.ones((40, 2))
        y = np.zeros(40, int)
        np.savez("sub/one.npz", x=x, y=y)
    paths = (
        f"sub/one.{format}",
        f"./sub/../sub/one.{format}",
        str(folder / "sub" / f"one.{format}"),
    )
    for path in paths:
        result = run(
            *ONE,
            *argv(f"--dataset {path} --model m.bin"),
            *flags,
            *argv("-q --task binary"),
        )
        assert result.code in (2, 65)
        assert path in result.err
        assert path.startswith("/") or str(folder) not in result.err
