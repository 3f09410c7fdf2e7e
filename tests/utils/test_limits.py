"""Limits of the machine and signals: a line with its cause, the right exit code,
nothing left over."""

import builtins
import errno
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from unittest import mock

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

import nn.__main__
import nn.cli
import nn.commands.use
from nn.data import records
from nn.utils import LONGEST_MESSAGE, OutputError, check_threads, machine, sole_writer
from nn.utils.machine import _group_files

TRAIN = [*ONE, "--dataset", "two.csv", "--model", "m.bin"]
NOT_OURS = (
    "internal error",
    "PLEASE READ",
    "SIGINT",
    "not built",
    "pip install",
    "codec",
)


def limited(megabytes: int) -> dict:
    """Options of a process that has so many addresses."""
    return {
        "preexec_fn": lambda: resource.setrlimit(
            resource.RLIMIT_AS, (megabytes << 20,) * 2
        )
    }


# what runs -> limits under which it is tried; two of three only in tests/long.sh, and
# Feather, which pyarrow reads as Parquet
MEGABYTES = {
    "train": [16, 60, 80, 100, 110, 120, 140, 160, 190, 240],
    "parquet": [180, 220, 270, 300, 330, 420, 500],
    "feather": [180, 220, 270, 300, 330, 420, 500],
    "pictures": [140, 155, 162, 166, 172, 178, 184, 190, 194, 197, 200, 205],
}


def marks_of(what: str, place: int) -> list:
    """Return the marks of a command under the limit of a place in MEGABYTES."""
    if what == "feather" or place % 3:
        return [pytest.mark.long]
    return []


LIMITS = [
    pytest.param(what, limit, marks=marks_of(what, k))
    for what, limits in MEGABYTES.items()
    for k, limit in enumerate(limits)
]


@pytest.mark.usual(1, 4)
@pytest.mark.parametrize("what, megabytes", LIMITS)
def test_a_small_limit_on_memory_is_one_line_for_pyarrow_and_for_pictures_too(
    trained, what, megabytes
):
    """The command ends well, or with one line of its own."""
    if what == "pictures":
        command = ["--plot", "m.bin", "-o", "pictures"]
    elif what == "train":
        command = [*TRAIN, "--epochs", 2, "--threads", 2]
    else:
        getattr(pytest.importorskip("pandas").read_csv("two.csv"), f"to_{what}")(
            "two.table"
        )
        command = [*ONE, "--dataset", "two.table", "--model", "m.bin", "--epochs", 2]
    process = start(*command, "--quiet", **limited(megabytes))
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 1), err
    assert len(err.splitlines()) == process.returncode, err
    for line in err.splitlines():
        assert line.startswith("nn: "), err
    for word in NOT_OURS:
        assert word not in err, err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),  # of mmap
        # of Python itself, under a limit
        SystemError("error return without exception set"),
    ],
)
def test_want_of_memory_is_told_as_such(trained, monkeypatch, error):
    monkeypatch.setattr(nn.cli, "has_address_limit", lambda: True)
    monkeypatch.setattr(nn.commands.use, "load_network", mock.Mock(side_effect=error))
    result = run("--info", "--model", "m.bin")
    assert result.code == 1
    assert result.err.startswith("nn: out of memory: ")
    assert result.err.count("\n") == 1


def test_more_networks_than_a_limit_on_addresses_holds_are_refused_with_what_fits(two):
    """4 MB a vector, 4 vectors a network."""
    given = argv(
        "--layers 2,1000,1000,1 --epochs 1 --threads 1 --quiet --dataset two.csv"
    )
    process = start(
        "--train", *given, "--model", "m.bin", "--networks", 200, **limited(1024)
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert err.startswith("nn: --networks 200: 200 networks need 3.2 GB, but only"), err
    match = re.search(r"--networks (\d+) fits", err)
    assert 1 < int(match[1]) < 60


def test_a_limit_on_addresses_is_part_of_the_memory_that_is_there():
    code = "from nn.utils import available_memory, memory_left; print(available_memory(), memory_left())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment(), capture_output=True, **limited(1024)
    )
    for size in done.stdout.split():
        assert 0 < int(size) < 1 << 30
    assert len(done.stdout.split()) == 2


@pytest.mark.parametrize(
    "group, files",
    [
        (
            "0::/jobs/7",
            {"jobs/7/memory.max": 700, "jobs/memory.max": "max", "memory.max": 900},
        ),
        (
            "9:name=systemd:/\n4:cpu,memory:/jobs/7",
            {"memory/jobs/7/memory.limit_in_bytes": 700},
        ),
        ("4:memory:/not/seen/here", {"memory/memory.limit_in_bytes": 700}),
        (None, {"memory.max": 700}),
    ],
)
def test_the_limits_of_the_group_and_of_those_above_it_count(tmp_path, group, files):
    for name, limit in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    if group:
        (tmp_path / "groups").write_text(group + "\n")
    paths = [
        path for path in _group_files(tmp_path / "groups", tmp_path) if path.exists()
    ]
    texts = {str(path.relative_to(tmp_path)) for path in paths}
    assert texts == set(files)


@pytest.mark.parametrize(
    "error, message",
    [
        (
            MemoryError(),
            "out of memory: nn cannot be loaded; raise the limit on memory (ulimit -v)",
        ),
        (
            SystemError("error return without exception set"),
            "out of memory: nn cannot be loaded; raise the limit",
        ),
        (
            ImportError("x.so: failed to map segment from shared object"),
            "out of memory: nn cannot be loaded; raise",
        ),
        (
            OSError(errno.EMFILE, "Too many open files"),
            "nn cannot be loaded: Too many open files; raise the limit on",
        ),
    ],
)
def test_nn_that_cannot_be_loaded_is_one_line(monkeypatch, capsys, error, message):
    usual = builtins.__import__

    def importing(name, globals=None, locals=None, fromlist=(), level=0):
        if fromlist and "cli" in fromlist:
            raise error
        return usual(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", importing)
    # Ctrl-C would end this process from then on
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert nn.__main__.main() == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nn: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("allowed", range(5))
def test_no_more_threads_is_one_line(two, monkeypatch, allowed):
    started = []
    usual = threading.Thread.start

    def starting(thread):
        if len(started) >= allowed:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        usual(thread)

    check_threads.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", starting)
    result = run(*TRAIN, "--epochs", 2, "--threads", 3, "--quiet", "--backend", "omp")
    check_threads.cache_clear()
    assert result.code == 1
    assert re.fullmatch(".*more threads.*ulimit -u.*\n", result.err)


def test_no_more_processes_is_one_line(two, monkeypatch):
    (two.parent / "plan.json").write_text(
        '{"data": {"path": "two.csv"}, "layers": "2,3,1", "epochs": 1}'
    )
    error = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    monkeypatch.setattr(subprocess, "run", mock.Mock(side_effect=error))
    result = run("--sweep", "plan.json", "-o", "results.csv", "--quiet")
    assert result.code == 1
    assert result.err.startswith(
        "nn: no more processes: raise the limit on processes (ulimit -u)"
    )
    assert not os.path.exists("results.csv")


def test_predictions_ended_by_a_signal_leave_the_old_file_and_nothing_else(trained):
    """While they are written; other signals, and other moments, are those of
    test_signals.py."""
    folder = trained.parent
    write_two_classes(folder / "large.csv", rows=200000)
    (folder / "p.csv").write_text("old")
    process = start(
        "--predict", "--dataset", "large.csv", "--model", "m.bin", "-o", "p.csv"
    )
    begun = time.monotonic()
    while not list(folder.glob(".p.csv.*.tmp")) and time.monotonic() < begun + 20:
        time.sleep(0.01)
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert err.splitlines()[-1] == "nn: stopped by SIGTERM"
    assert sorted(os.listdir()) == ["large.csv", "m.bin", "p.csv", "two.csv"]
    assert (folder / "p.csv").read_text() == "old"


def test_a_program_that_ignores_the_end_of_its_terminal_goes_on(two):
    process = start(
        *TRAIN,
        "--epochs",
        300,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    read_until(process, "loss")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_second_training_of_the_same_file_is_refused_and_the_first_goes_on(two):
    files = {"--model": "m.bin", "--checkpoint": "c.ck", "--history": "h.csv"}
    process = start(
        *TRAIN, "--epochs", 10**6, "--checkpoint", "c.ck", "--history", "h.csv"
    )
    read_until(process, "us a batch")
    for flag, path in files.items():
        (two.parent / f"link to {path}").symlink_to(path)
        if flag == "--model":
            flags = []
        else:
            flags = ["--model", "other.bin"]
        for name in (path, f"link to {path}"):
            second = run(
                *ONE, "--dataset", "two.csv", *flags, flag, name, "--epochs", 1
            )
            message = f"nn: {name}: another training is about to write it; wait for its end, or choose another file"
            assert second.code == 73
            assert second.err.splitlines()[-1] == message
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    expected = [
        "c.ck",
        "h.csv",
        *(f"link to {path}" for path in sorted(files.values())),
        "two.csv",
    ]
    assert sorted(os.listdir()) == expected
    succeed(*TRAIN, "--epochs", 1)


def test_a_lock_of_a_killed_training_holds_nobody_up(two):
    process = start(*TRAIN, "--epochs", 10**6)
    read_until(process, "loss")
    process.kill()
    process.communicate(timeout=30)
    succeed(*TRAIN, "--epochs", 1)
    assert sorted(os.listdir()) == ["m.bin", "two.csv"]


def test_a_lock_is_for_one_file_and_none_stays_where_the_file_system_has_none(
    folder, monkeypatch
):
    with (
        sole_writer("a"),
        sole_writer("b"),
        pytest.raises(OutputError, match="another training"),
        sole_writer("a"),
    ):
        pass
    with sole_writer("a"):
        pass
    assert os.listdir() == []
    side_effect = OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr("fcntl.flock", mock.Mock(side_effect=side_effect))
    with sole_writer("a"):
        assert os.listdir() == []
    assert os.listdir() == []


def test_warnings_of_libraries_are_not_printed(trained, monkeypatch):
    usual = nn.commands.use.load_network

    def warning(flags):
        warnings.warn("overflow encountered in cast", RuntimeWarning, stacklevel=1)
        return usual(flags)

    monkeypatch.setattr(nn.commands.use, "load_network", warning)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert run("--info", "--model", "m.bin").err == ""


def test_a_message_is_never_longer_than_a_screen(two):
    result = run(*TRAIN, "--layers", "2," + "x" * 20000 + ",1")
    assert result.code == 2
    assert len(result.err) <= LONGEST_MESSAGE + 1
    assert re.fullmatch(
        "nn: --layers: cannot read 'xxx.*optionally with :activation\n", result.err
    )


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_that_is_not_read_to_its_end_is_no_failure(flag):
    """As in `nn --help | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    process = start(flag, stdout=writer)
    os.close(writer)
    assert process.communicate()[1] == ""
    assert process.returncode == 0


@pytest.mark.parametrize("dtype, size", [("float32", 4), ("float64", 8)])
def test_a_network_needs_room_for_its_parameters_three_times(monkeypatch, dtype, size):
    """Here, in the engine, and their gradients."""
    count = 40 * 30 + 30 + 30 + 1
    monkeypatch.setattr(records, "LEAST_BYTES_FREE", 0)
    for name in ("resident_bytes", "private_bytes"):
        monkeypatch.setattr(records, name, lambda: 0)
    monkeypatch.setattr(records, "memory_left", lambda: 3 * size * count)
    assert nn.Network("40,30,1", dtype=dtype).parameter_count == count
    monkeypatch.setattr(records, "memory_left", lambda: 3 * size * count - 1)
    with pytest.raises(nn.NnError, match=f"a network of {count} parameters needs"):
        nn.Network("40,30,1", dtype=dtype)


def test_room_for_a_library_is_asked_for_where_addresses_are_limited(monkeypatch):
    more_than_any = 1 << 60
    monkeypatch.setattr(machine, "has_address_limit", lambda: False)
    machine.check_room_to_load(more_than_any)
    monkeypatch.setattr(machine, "has_address_limit", lambda: True)
    machine.check_room_to_load(1 << 12)
    with pytest.raises(nn.NnError, match="a library cannot be loaded"):
        machine.check_room_to_load(more_than_any)
