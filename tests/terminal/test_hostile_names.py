"""Names from data, models and the command line never move a terminal's cursor: control
characters are written out."""

import contextlib
import json
import random
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from support.command_line import CONTROL, RICH, ROOT, argv, on_terminal, run

# a window's title, a screen, an order of letters, a line, markup
EVIL = "\x1b]0;evil\x07\x9b2J\u202e\r[red]\nx"
WRITTEN_OUT = EVIL.encode("unicode_escape").decode()
# a name that was taken for markup, or has a line's end
BROKEN = re.compile(r"\\r(?!\[red\]\\nx)")


def write_plan(path) -> None:
    rows = []
    for row in range(60):
        rows.append(f"{row % 7},{row % 2}\n")
    text = "x,y\n" + "".join(rows)
    Path(f"rows{EVIL}.csv").write_text(text)
    data = {"path": f"rows{EVIL}.csv"}
    plan = {
        "name": f"entry{EVIL}",
        "data": data,
        "layers": ["1,2,1", "1,3,1"],
        "epochs": 1,
    }
    Path(path).write_text(json.dumps(plan))


def write_table(path, target: str, kind, seed: int = 1, words: str = "abc") -> None:
    """Write a table whose columns, categories and classes have hostile names."""
    drawn = random.Random(seed)
    names = [f"number{EVIL}", f"kind{EVIL}", f"left out{EVIL}", target]
    with contextlib.closing(sqlite3.connect(path)) as base, base:
        base.execute(
            "create table t (" + ", ".join(f'"{name}"' for name in names) + ")"
        )
        rows = []
        for row in range(60):
            rows.append(
                (
                    drawn.random(),
                    f"{words[row % 3]}{EVIL}",
                    f"same{EVIL}",
                    kind(row, drawn),
                )
            )
        base.executemany("insert into t values (?, ?, ?, ?)", rows)


TASKS = {
    "binary": lambda row, drawn: f"{'no' if row % 3 else 'yes'}{EVIL}",
    "multiclass": lambda row, drawn: f"{'abc'[row % 3]}{EVIL}",
    "regression": lambda row, drawn: drawn.random(),
}
MODEL = f"m{EVIL}.bin"
OTHER = f"n{EVIL}.bin"
ON_TABLE = ["--dataset", f"data{EVIL}.db", "--model", MODEL]
ON_MODEL = ["--model", MODEL]
SMALL = ["--epochs", 2, "--batch_number", 16]
COMMANDS = [  # and their exit codes
    (
        0,
        [
            *argv("--train --networks 1"),
            *ON_TABLE,
            *SMALL,
            "--verbose",
            "--checkpoint",
            f"c{EVIL}.ck",
        ],
    ),
    (
        0,
        [
            *argv("--train --networks 1"),
            *ON_TABLE,
            *SMALL,
            "--checkpoint",
            f"c{EVIL}.ck",
            *argv("--resume auto --debug"),
        ],
    ),
    (
        0,
        [
            *argv("--train --networks 1"),
            *ON_TABLE[:2],
            "--model",
            OTHER,
            *SMALL,
            *argv("--holdout 0.2 --profile"),
        ],
    ),
    (0, ["--train", "--effort", "quick", *ON_TABLE[:2], "--model", OTHER, "--verbose"]),
    (
        0,
        [
            *argv("--train --networks 2"),
            *ON_TABLE,
            *SMALL,
            "--vary",
            "learning_rate=0.1|0.01",
        ],
    ),
    (0, ["--train", "--folds", 2, *ON_TABLE, *SMALL, "-o", "/dev/null"]),
    (0, ["--info", *ON_MODEL]),
    (0, ["--test", *ON_MODEL, "--intervals", "--verbose"]),
    (0, ["--test", *ON_TABLE]),
    (0, ["--test", *ON_TABLE, "--json"]),
    (0, ["--export", *ON_MODEL, "-o", f"m{EVIL}.onnx", "--debug"]),
    (0, ["--explain", *ON_TABLE, "-o", "-"]),
    (0, ["--explain", *ON_TABLE]),
    (0, ["--train", "--networks", 1, *ON_TABLE[:2], "--model", OTHER, *SMALL]),
    (0, ["--compare", f"{MODEL},{OTHER}", *ON_TABLE[:2]]),
    (
        0,
        [
            "--compare",
            f"{MODEL},{OTHER}",
            *ON_TABLE[:2],
            "--report",
            f"compared{EVIL}.md",
        ],
    ),
    (0, ["--test", *ON_TABLE, "--report", f"page{EVIL}.md"]),
    (0, ["--test", "--dataset", f"odd{EVIL}.db", *ON_MODEL]),
    (0, ["--info", *ON_MODEL, "--report", f"page{EVIL}.html"]),
    (
        (0, 2),
        ["--train", "--networks", 1, *ON_TABLE, *SMALL, "--positive", f"yes{EVIL}"],
    ),
    (2, ["--train", *ON_TABLE, "--positive", EVIL]),
    (2, ["--train", *ON_TABLE, "--ordered", f"kind{EVIL}=a{EVIL}<{EVIL}<{EVIL}"]),
    (0, ["--sweep", f"plan{EVIL}.json", "-o", f"results{EVIL}.csv"]),
    (65, ["--sweep", f"rows{EVIL}.csv", "-o", f"results{EVIL}.csv"]),
    (0, ["--plot", f"results{EVIL}.csv", "-o", f"pictures{EVIL}"]),
    (2, ["--compare", EVIL]),
    (2, ["--test", *ON_TABLE, "--report", EVIL]),
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
# it starts processes, and shows the same of every task
OF_A_SWEEP = ("plan", "results")


@pytest.mark.usual(0, 2)
@pytest.mark.parametrize(
    "task, start",
    [("binary", run), ("multiclass", on_terminal), ("regression", on_terminal)],
)
def test_no_control_character_of_a_name_is_shown(
    folder, monkeypatch, brief, task, start
):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "2000")
    write_table(f"data{EVIL}.db", f"target{EVIL}", TASKS[task])
    write_table(f"odd{EVIL}.db", f"target{EVIL}", TASKS[task], 2, "xya")
    write_plan(f"plan{EVIL}.json")
    wrong = []
    for code, command in COMMANDS:
        if task == "regression" and str(command[1]).startswith(OF_A_SWEEP):
            continue
        result = start(*command)
        if start is on_terminal:
            text = RICH.sub("", result.out + result.err)
        else:
            text = result.out + result.err
        match = CONTROL.search(text) or BROKEN.search("".join(text.split()))
        if start is run and code == 0 and ("--predict" in command or "-" in command):
            continue  # a pipe gets the names as they are
        if (
            result.code not in np.atleast_1d(code)
            or match
            or not (WRITTEN_OUT in text or "1/2: 1,2,1" in text)
        ):
            if match:
                at = match.start()
            else:
                at = len(text)
            wrong.append((command, result.code, text[max(at - 200, 0) : at + 50]))
    assert not wrong, "\n".join(map(repr, wrong))
    pages = [
        page for kind in ("md", "html", "svg") for page in Path().rglob(f"*.{kind}")
    ]
    assert len(pages) > 3
    assert [page for page in pages if CONTROL.search(page.read_text())] == []


def test_few_places_write_to_a_stream():
    """All others call show, say or table."""
    sources = {
        path.relative_to(ROOT / "nn").as_posix(): path.read_text()
        for path in (ROOT / "nn").rglob("*.py")
    }
    printing = {
        name
        for name, text in sources.items()
        if re.search(r"^ +print\(|std(out|err)\.write\(", text, re.M)
    }
    assert printing == {
        "utils/messages.py",
        "terminal/tables.py",
        "terminal/help.py",
        "commands/common.py",
        "__main__.py",
    }
