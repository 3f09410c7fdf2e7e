"""Signals, pipes and terminals: how the command behaves to what it runs in."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
from support.checkpoints import wait_for
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
from nn.commands.stopped import unfinished
from nn.terminal import parser
from nn.utils import Stopped


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, code", [("SIGINT", 130), ("SIGTERM", 143), ("SIGUSR1", 143), ("SIGHUP", 143)]
)
def test_a_signal_keeps_the_network_as_it_stands_beside_the_old_model(
    folder, name, code
):
    write_two_classes(folder / "two.csv", rows=3000)
    (folder / "m.bin").write_bytes(b"the model before")
    given = argv("--layers 2,90,90,1 --epochs 100000 --batch_number 8 --backend seq")
    process = start("--train", "--dataset", "two.csv", "--model", "m.bin", *given)
    read_until(process, "epoch ")
    process.send_signal(getattr(signal, name))
    returncode, err = wait_for(process)
    assert returncode == code, err
    assert re.fullmatch(
        rf"nn: stopped by {name}: .*m\.bin\.part.*", err.splitlines()[-1]
    )
    assert (folder / "m.bin").read_bytes() == b"the model before"
    assert succeed("--test", "--model", "m.bin.part", "--json").json["rows"] == 600
    assert sorted(file.name for file in folder.iterdir()) == [
        "m.bin",
        "m.bin.part",
        "two.csv",
    ]


SAVED = "the state is saved in c.ck, continue with --resume auto"


@pytest.mark.parametrize(
    "name, checkpoint, failure, model, message, code",
    [
        ("SIGTERM", None, None, None, "nothing is kept", 143),
        (
            "SIGINT",
            None,
            None,
            "new.bin",
            "the unfinished network is in new.bin.part, new.bin was not written",
            130,
        ),
        ("SIGUSR1", "c.ck", None, None, SAVED, 75),
        ("SIGINT", "c.ck", None, "old.bin", f"{SAVED}, old.bin is unchanged", 130),
        ("SIGTERM", "c.ck", "no room", None, "no room; nothing is kept", 73),
    ],
)
def test_a_training_that_is_stopped_says_what_is_kept_of_what_was_asked_for(
    folder, name, checkpoint, failure, model, message, code
):
    (folder / "old.bin").touch()
    error = unfinished(
        SimpleNamespace(checkpoint=checkpoint, model=model),
        nn.Network("2,1"),
        SimpleNamespace(failure=failure),
        Stopped(signal.Signals[name]),
    )
    assert (str(error), error.exit_code) == (f"stopped by {name}: {message}", code)
    is_kept = "unfinished" in message
    assert (folder / f"{model}.part").exists() == is_kept


def test_ctrl_c_while_the_flags_are_read_is_no_success(monkeypatch):
    monkeypatch.setattr(
        parser, "SimpleNamespace", mock.Mock(side_effect=KeyboardInterrupt)
    )
    assert run("--info") == (130, "", "nn: stopped by SIGINT\n")


def test_a_reader_that_goes_away_is_no_failure_to_talk_about(trained):
    process = start(
        *argv(f"--predict --model {trained}"),
        "--dataset",
        write_two_classes(trained.parent / "big.csv", 20000),
    )
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=20) == 141
    assert "Error" not in err
    assert "nn: " not in err


def test_a_log_that_nobody_reads_does_not_end_the_training(two):
    reader, writer = os.pipe()
    os.close(reader)
    assert start("--help", stdout=writer).wait(20) == 0, "nothing is missing of it"
    process = start(*ONE, "--dataset", "two.csv", "--model", "m.bin", stderr=writer)
    os.close(writer)
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == 12


@pytest.mark.slow
def test_closed_output_streams_do_not_matter_to_a_training_that_writes_its_model(two):
    command = f"{sys.executable} -m nn --train --dataset two.csv --model m.bin >&- 2>&-"
    assert subprocess.run(command, shell=True, env=environment()).returncode == 0
    assert (two.parent / "m.bin").exists()


RESULTS = (
    "predict m.bin two.csv",
    "predict m.bin two.csv --json",
    "predict m.bin two.csv -o -",
    "test m.bin",
    "test m.bin --json -q",
    "info m.bin",
    "info m.bin --json",
    "explain m.bin two.csv",
    "--help",
    "--version",
    "train two.csv -m n.bin --epochs 1 --networks 1 --json",
    "train two.csv --folds 2 --epochs 1",
)
LOSSES = (">&-", "1</dev/null", ">/dev/full")


def marks_of(result: int, loss: int) -> list:
    """Return the marks of a result beside a way to lose it: each stands beside one of
    them, the others are long."""
    if result % len(LOSSES) == loss:
        return []
    return [pytest.mark.long]


@pytest.mark.usual(0, 6)
@pytest.mark.parametrize(
    "arguments, redirection",
    [
        pytest.param(arguments, redirection, marks=marks_of(result, loss))
        for result, arguments in enumerate(RESULTS)
        for loss, redirection in enumerate(LOSSES)
    ],
)
def test_results_are_not_lost_without_a_word(trained, arguments, redirection):
    if not trained.with_name("m.bin").exists():
        trained.rename(trained.with_name("m.bin"))
    command = f"{sys.executable} -m nn {arguments} {redirection}"
    done = subprocess.run(
        command, shell=True, env=environment(), stderr=subprocess.PIPE, text=True
    )
    reason = {
        ">&-": "standard output is closed, ",
        "1</dev/null": "output: Bad file",
        ">/dev/full": "output: No space",
    }
    assert done.returncode == 73
    assert done.stderr.splitlines()[-1].startswith(f"nn: {reason[redirection]}")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.slow
def test_a_closed_output_has_no_name_and_is_not_missed_by_what_does_not_need_it(
    trained,
):
    cases = (["-o", "/dev/stdout"], 73), (["-o", "p.csv"], 0)
    for flags, code in cases:
        command = [sys.executable, "-m", "nn", "predict", trained, "two.csv", *flags]
        closed = {
            "preexec_fn": lambda: os.close(1),
            "stderr": subprocess.PIPE,
            "env": environment(),
        }
        assert subprocess.run(command, **closed).returncode == code
    text = (trained.parent / "p.csv").read_text()
    assert text.count("\n") == 61


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_exit_code_73(trained):
    with open("/dev/full", "w") as full:
        process = start("--info", "--model", trained, stdout=full)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 73
    assert re.fullmatch("nn: .*\n", err)


def on_terminal(*arguments, **variables) -> tuple[int, str]:
    """Run `nn` on a terminal of 100 columns: exit code and all that was written to
    it."""
    main, sub = pty.openpty()
    variables = environment(TERM="xterm", COLUMNS="100", **variables)
    process = start(*arguments, stdin=sub, stdout=sub, stderr=sub, env=variables)
    os.close(sub)
    written = b""
    while select.select([main], [], [], 20)[0]:
        try:
            block = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        written += block
    os.close(main)
    return process.wait(timeout=20), written.decode()


def test_a_terminal_gets_a_bar_with_loss_speed_and_time_left(two):
    given = argv("--dataset two.csv --model m.bin --layers 2,200,200,1 --epochs 200")
    code, text = on_terminal("--train", *given)
    assert code == 0
    assert re.search(r"epoch \S*200\S*/\S*200", text)
    assert "━" in text
    assert "loss" in text
    assert "rows/s" in text
    assert re.search(r"\d:\d\d:\d\d", text)
    # the cursor is back
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert not re.search(r"^epoch +1/200  loss", text, re.MULTILINE)


@pytest.mark.slow
def test_no_color_is_respected(trained):
    cases = (
        ["--test", "--model", trained],
        [*ONE, "--dataset", "two.csv", "--model", "n.bin"],
    )
    for arguments in cases:
        code, text = on_terminal(*arguments, NO_COLOR="1")
        assert code == 0
        assert not re.search(r"\x1b\[[0-9;]*3[0-9][0-9;]*m", text)


def test_debug_shows_a_traceback_above_the_line(folder):
    code, _, err = run(
        "--train", "--dataset", "none.csv", "--model", "m.bin", "--debug"
    )
    assert code == 66
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("nn: ")
