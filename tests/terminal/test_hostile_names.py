"""Names from data, models and the command line never move a terminal's cursor: control characters are written out."""

import contextlib
import random
import re
import sqlite3

import pytest
from support.command_line import CONTROL, RICH, ROOT, on_terminal, run

EVIL = "\x1b]0;evil\x07\x9b2J\u202e\r[red]\nx"  # a window's title, a screen, an order of letters, a line, markup
WRITTEN_OUT = EVIL.encode("unicode_escape").decode()
BROKEN = re.compile(r"\\r(?!\[red\]\\nx)")  # a name that was taken for markup, or has a line's end


def write_table(path, target: str, kind) -> None:
    """Write a table whose columns, categories and classes have hostile names."""
    drawn = random.Random(1)
    names = [f"number{EVIL}", f"kind{EVIL}", f"left out{EVIL}", target]
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute("create table t (" + ", ".join(f'"{name}"' for name in names) + ")")
        rows = [(drawn.random(), f"{'abc'[row % 3]}{EVIL}", f"same{EVIL}", kind(row, drawn)) for row in range(60)]
        base.executemany("insert into t values (?, ?, ?, ?)", rows)


TASKS = {
    "binary": lambda row, drawn: f"{'no' if row % 3 else 'yes'}{EVIL}",
    "multiclass": lambda row, drawn: f"{'abc'[row % 3]}{EVIL}",
    "regression": lambda row, drawn: drawn.random(),
}


MODEL, OTHER = f"m{EVIL}.bin", f"n{EVIL}.bin"
ON_TABLE, ON_MODEL = ["--dataset", f"data{EVIL}.db", "--model", MODEL], ["--model", MODEL]
SMALL = ["--epochs", 2, "--batch_number", 16]
COMMANDS = [  # and their exit codes
    (0, ["--train", "--networks", 1, *ON_TABLE, *SMALL, "--verbose", "--checkpoint", f"c{EVIL}.ck"]),
    (0, ["--train", "--networks", 1, *ON_TABLE, *SMALL, "--checkpoint", f"c{EVIL}.ck", "--resume", "auto", "--debug"]),
    (0, ["--train", "--networks", 1, *ON_TABLE[:2], "--model", OTHER, *SMALL, "--holdout", 0.2, "--profile"]),
    (0, ["--train", "--effort", "quick", *ON_TABLE[:2], "--model", OTHER, "--verbose"]),
    (0, ["--train", "--networks", 2, *ON_TABLE, *SMALL, "--vary", "learning_rate=0.1|0.01"]),
    (0, ["--train", "--folds", 2, *ON_TABLE, *SMALL, "-o", "/dev/null"]),
    (0, ["--info", *ON_MODEL]),
    (0, ["--test", *ON_MODEL, "--intervals", "--verbose"]),
    (0, ["--test", *ON_TABLE]),
    (0, ["--test", *ON_TABLE, "--json"]),
    (0, ["--export", *ON_MODEL, "-o", f"m{EVIL}.onnx", "--debug"]),
    (0, ["--explain", *ON_TABLE, "-o", "-"]),
    (0, ["--explain", *ON_TABLE]),
    (0, ["--predict", *ON_TABLE]),
    (0, ["--predict", *ON_TABLE, "-o", "-", "--quiet"]),
    (66, ["--plot", f"t{EVIL}.csv", "-o", "pictures"]),
    (0, ["--plot", MODEL, "-o", f"pictures{EVIL}"]),
    (66, ["--train", "--dataset", f"none{EVIL}", "--model", MODEL, "--debug"]),
    (2, ["--train", *ON_TABLE, "--target", EVIL]),
    (65, ["--train", *ON_TABLE, "--numbers", f"kind{EVIL}", "--strict"]),
    (66, ["--predict", *ON_TABLE[:2], "--model", EVIL]),
    (2, ["--train", f"--{EVIL}"]),
    (2, ["--train", "--layers", EVIL, *ON_TABLE]),
    (73, ["--train", *ON_TABLE[:2], "--model", f"none{EVIL}/m.bin"]),
]


@pytest.mark.parametrize("task, start", [*((task, on_terminal) for task in TASKS), ("multiclass", run)])
def test_no_control_character_of_a_name_is_shown(folder, monkeypatch, task, start):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "2000")
    write_table(f"data{EVIL}.db", f"target{EVIL}", TASKS[task])
    wrong = []
    for code, command in COMMANDS:
        result = start(*command)
        text = RICH.sub("", result.out + result.err) if start is on_terminal else result.out + result.err
        found = CONTROL.search(text) or BROKEN.search("".join(text.split()))
        if start is run and code == 0 and ("--predict" in command or "-" in command):
            continue  # a pipe gets the names as they are
        if result.code != code or found or WRITTEN_OUT not in text:
            at = found.start() if found else len(text)
            wrong.append((command, result.code, text[max(at - 200, 0) : at + 50]))
    assert not wrong, "\n".join(map(repr, wrong))


def test_few_places_write_to_a_stream():
    """All others call show, say or table."""
    own = {path.relative_to(ROOT / "nn").as_posix(): path.read_text() for path in (ROOT / "nn").rglob("*.py")}
    printing = {
        name for name, text in own.items() if re.search(r"^ +print\(|std(out|err)\.write\(", text, re.MULTILINE)
    }
    known = {"utils/messages.py", "terminal/tables.py", "terminal/help.py", "commands/common.py", "__main__.py"}
    assert printing == known
