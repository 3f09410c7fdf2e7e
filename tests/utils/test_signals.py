"""Signals at random moments, for each mode of the command: the right exit code, one
line, no file in part or left over.

Each command is run once in peace, then again and again, with a signal at a moment drawn
from the time that it took.
"""

import builtins
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest
from support.campaign import OLD, TRAIN, Case
from support.command_line import ONE, argv, environment, run, succeed, write_two_classes
from support.effort import EFFORT

import nn
import nn.commands.use
import nn.utils

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the signals are those of POSIX"
)

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# after the signal, on a machine that does much else; alone it is a fraction of one
SECONDS = 20

# Python's own start is not nn's: a closed pipe tells when nn has begun
LAUNCH = f"""
TESTS = {str(Path(__file__).parents[1])!r}
import os, runpy, sys
import nn
sys.path = [path for path in sys.path if path]
if "--sweep" in sys.argv:
    sys.path.append(TESTS)
    from support.sweeps import measure_briefly
    measure_briefly()
os.close(int(sys.argv.pop(1)))
runpy.run_module("nn", run_name="__main__", alter_sys=True)
"""


CASES = {
    "train": Case(f"{TRAIN} --layers 2,8,1 --epochs 100", whole=("m.bin",)),
    "train --checkpoint": Case(
        f"{TRAIN} --layers 2,8,1 --epochs 100 --checkpoint c.ck --history h.csv",
        whole=("m.bin",),
        timed=("c.ck",),
        lines=("h.csv",),
    ),
    "train --networks": Case(f"{TRAIN} --networks 3 --epochs 60", whole=("m.bin",)),
    "train --folds": Case(
        f"{TRAIN} --folds 3 --epochs 60 -o p.csv", whole=("m.bin", "p.csv")
    ),
    "train --effort": Case(f"{TRAIN} --effort quick", whole=("m.bin",)),
    "train --memory": Case(
        f"{TRAIN} --layers 2,8,1 --epochs 20 --memory 150M", whole=("m.bin",)
    ),
    "test": Case("--test --dataset two.csv --model old.bin --json --intervals"),
    "predict": Case(
        "--predict --dataset two.csv --model old.bin -o p.csv", whole=("p.csv",)
    ),
    "export": Case("--export --model old.bin -o m.onnx", whole=("m.onnx",)),
    "sweep": Case("--sweep plan.json -o r.csv", lines=("r.csv",)),
    "bench": Case("--bench=cc-b10 --backend seq --json"),
}


@dataclass
class Ended:
    """How a command ended, and the files of its folder then."""

    code: int
    err: str
    seconds: float  # since nn began
    files: dict[str, bytes]


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A folder with data, a model, and a plan."""
    folder = tmp_path / "prepared"
    folder.mkdir()
    write_two_classes(folder / "two.csv", rows=600)
    monkeypatch.chdir(folder)
    succeed(
        *argv("--train --dataset two.csv --model old.bin --layers 2,8,1 --epochs 1")
    )
    plan = '{"data": {"path": "two.csv"}, "layers": ["2,3,1", "2,4,1"], "epochs": 2, "batches": 2}'
    (folder / "plan.json").write_text(plan)
    return folder


def ended(
    case: Case, prepared: Path, signum: int | None = None, after: float = 0.0
) -> Ended:
    """Run the command in a copy of the folder, in which old files are in the place of
    the new ones; send it the signal `after` seconds after it began. Ctrl-C goes to all
    its processes, as from a terminal."""
    folder = prepared.parent / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prepared, folder)
    for name in case.whole:
        (folder / name).write_text(OLD)
    reading, writing = os.pipe()
    command = [
        sys.executable,
        "-c",
        LAUNCH,
        str(writing),
        *case.command.split(),
        "--quiet",
    ]
    options = {
        "cwd": folder,
        "env": environment(),
        "pass_fds": [writing],
        "start_new_session": True,
        "text": True,
    }
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options
    )
    os.close(writing)
    try:
        os.read(reading, 1)
        began = time.perf_counter()
        if signum is not None:
            time.sleep(after)
            if signum == signal.SIGINT:
                send = os.killpg
            else:
                send = os.kill
            with contextlib.suppress(ProcessLookupError):  # it has ended before
                send(process.pid, signum)
        _, err = process.communicate(timeout=SECONDS if signum else 120)
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        return Ended(process.returncode, err, time.perf_counter() - began, files)
    finally:
        os.close(reading)
        process.kill()
        process.wait()


def wrong(case: Case, peace: Ended, hit: Ended, signum: int) -> list[str]:
    """Return what breaks a promise."""
    trains = case.command.startswith("--train")
    code_of_line = 128 + (
        signal.SIGTERM if trains and signum == signal.SIGHUP else signum
    )
    if "c.ck" in case.timed and signum != signal.SIGINT:
        code_of_line = 75
    line = rf"nn: stopped by {signal.Signals(signum).name}(: .+)?\n"
    # -signum: before nn hears signals or when all is done
    lines = {0: "", -signum: "", 128 + signum: line, code_of_line: line}
    results = []
    if not re.fullmatch(lines.get(hit.code, "no such code"), hit.err):
        results.append(
            f"exit code {hit.code}, not the line that tells of the signal, or a line without need"
        )
    for name, data in hit.files.items():
        if name in case.whole:
            right = data == peace.files[name] or (hit.code and data == OLD.encode())
        elif name in case.lines:
            right = data == b"" or (
                data.endswith(b"\n")
                and data.count(b"\n") <= peace.files[name].count(b"\n")
            )
        elif trains and name in ("m.bin.part", "c.ck"):
            right = hit.code or name in peace.files
        else:
            right = data == peace.files.get(name)
        if not right:
            results.append(f"{name} is left over or half written")
    results += [
        f"{name} is gone"
        for name in peace.files.keys() - hit.files.keys() - {*case.lines, "c.ck"}
    ]
    return results


def check_goes_on(case: Case, peace: Ended, hit: Ended) -> None:
    """What a stopped training left in the current folder can be used: the network, and
    the state to go on from."""
    if "m.bin.part" in hit.files:
        succeed("--test", "--dataset", "two.csv", "--model", "m.bin.part", "--quiet")
    if "c.ck" in hit.files and hit.code:
        succeed(*case.command.split(), "--resume", "auto", "--quiet")
        assert Path("m.bin").read_bytes() == peace.files["m.bin"]


@pytest.mark.usual(0, 4)
@pytest.mark.parametrize("mode", CASES)
def test_a_signal_at_any_moment(prepared, monkeypatch, mode):
    case = CASES[mode]
    moments = random.Random(mode)
    peace = ended(case, prepared)
    assert peace.code == 0, peace.err
    assert not peace.err, peace.err
    stopped = 0
    least = EFFORT * len(SIGNALS)
    for number, signum in enumerate(10 * EFFORT * SIGNALS):
        # on a busy machine the time in peace may be longer than those that follow
        if number >= least and stopped:
            break
        moment = moments.uniform(0, peace.seconds)
        hit = ended(case, prepared, signum, moment)
        assert not wrong(case, peace, hit, signum), (
            wrong(case, peace, hit, signum),
            moment,
            hit.code,
            hit.err,
        )
        monkeypatch.chdir(prepared.parent / "copy")
        check_goes_on(case, peace, hit)
        stopped += hit.code != 0
    assert stopped


@contextlib.contextmanager
def handled(signum: signal.Signals, handler):
    """Meanwhile the signal has that handler in this process."""
    before = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, before)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_in_a_destructor_is_not_lost(prepared, monkeypatch, signum):
    """Python would print the error that is raised there, and go on."""

    class Interrupted:
        def __del__(self):
            os.kill(os.getpid(), signum)
            time.sleep(0.001)

    def endless(_flags):
        Interrupted()
        time.sleep(SECONDS)
        raise AssertionError("the signal was lost")

    monkeypatch.setattr(nn.commands.use, "load_network", endless)
    with handled(signum, signal.SIG_DFL):
        result = run("--info", "--model", "old.bin")
    assert result == (128 + signum, "", f"nn: stopped by {signum.name}\n")


def test_a_signal_is_no_failure_of_the_file_that_is_read(prepared, monkeypatch):
    def interrupted(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS)

    monkeypatch.setattr(nn.Network, "__init__", interrupted)
    assert run("--info", "--model", "old.bin") == (143, "", "nn: stopped by SIGTERM\n")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_modules_are_made_ends_with_its_own_code(prepared, signum):
    """Python ends a module's process by SIGINT once KeyboardInterrupt has left code
    that it made of a text."""
    text = (
        "import os, signal, sys, nn.cli, nn.ds\n"
        "usual = nn.ds.load\n"
        "def load(*given, **settings):\n"
        f"    exec('os.kill(os.getpid(), {int(signum)})', {{'os': os}})\n"
        "    return usual(*given, **settings)\n"
        "nn.ds.load = load\n"
        "sys.exit(nn.cli.main(sys.argv[1:]))\n"
    )
    (prepared / "hit.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "hit",
        *map(str, ONE),
        *argv("--dataset two.csv --model new.bin"),
    ]
    done = subprocess.run(
        command,
        cwd=prepared,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.startswith(
        f"nn: stopped by {signum.name}: training had not begun"
    )
    assert done.returncode == 143


@pytest.mark.parametrize(
    "mode, message", [("train", ": training had not begun"), ("info", "")]
)
def test_a_signal_while_a_class_names_its_attributes_is_told_as_one(
    prepared, monkeypatch, mode, message
):
    """Before Python 3.12 a RuntimeError hides what is raised there, as in a dataclass
    that is imported."""

    class Named:
        def __set_name__(self, *_):
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0.001)

    def interrupted(*_, **__):
        type("Made", (), {"named": Named()})
        raise AssertionError("the signal was lost")

    monkeypatch.setattr(import_module("nn.ds"), "load", interrupted)
    monkeypatch.setattr(nn.Network, "of_file", interrupted)
    if mode == "train":
        flags = ["--dataset", "two.csv", "--model", "new.bin"]
    else:
        flags = ["--model", "old.bin"]
    result = run(f"--{mode}", *flags)
    assert result.code == 143
    assert result.err.startswith(f"nn: stopped by SIGTERM{message}")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "module, call", [(nn.utils.output_files.fcntl, "flock"), (os, "unlink")]
)
def test_a_signal_while_a_lock_is_taken_or_given_back_leaves_no_file(
    tmp_path, monkeypatch, module, call
):
    usual = getattr(module, call)

    def signalled(*arguments):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.001)
        return usual(*arguments)

    monkeypatch.setattr(module, call, signalled)
    writer = nn.utils.sole_writer(tmp_path / "m.bin")
    usual_handler = signal.default_int_handler
    with (
        handled(signal.SIGINT, usual_handler),
        pytest.raises(KeyboardInterrupt),
        writer,
    ):
        assert call == "unlink"
    assert list(tmp_path.iterdir()) == []
    assert not nn.utils.output_files._locks


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_waits_while_onnx_is_imported(prepared, monkeypatch, signum):
    """What is raised in the code of C++ that makes its classes would end the process
    with SIGABRT."""
    pytest.importorskip("onnx")
    usual = builtins.__import__
    passed = []

    def importing(name, *arguments):
        if name == "onnx" and not passed:
            # to this thread: xdist has others, which would take it
            signal.raise_signal(signum)
            time.sleep(0.001)
            passed.append(name)
        return usual(name, *arguments)

    monkeypatch.chdir(prepared)
    monkeypatch.setattr(builtins, "__import__", importing)
    with handled(signum, signal.SIG_DFL):
        result = run("--export", "--model", "old.bin", "-o", "new.onnx")
    assert passed
    assert result.code == 128 + signum
    assert result.err == f"nn: stopped by {signum.name}\n"
    assert not os.path.exists("new.onnx")
