"""The campaign of faults: for each mode of `nn` a command, each of its calls failing
once, and what must come of it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nn
from nn.utils import Stopped, StopRequest
from nn.watch.callbacks import Callback
from support.command_line import succeed, write_two_classes
from support.faults import Outcome, outcomes

OLD = "as it was\n"


@dataclass(frozen=True)
class Case:
    """A command, the files that it replaces and those that it only adds to or writes
    line by line."""

    command: str
    whole: tuple[str, ...] = ()  # replaced whole, the same bytes each time
    timed: tuple[str, ...] = ()  # replaced whole, but they hold times or a state
    lines: tuple[str, ...] = ()
    # beginnings of new files that hold what was written until the fault
    beside: tuple[str, ...] = ()
    is_long: bool = False


TRAIN = "--train --dataset two.csv --model m.bin"
CASES = {
    "train": Case(
        f"{TRAIN} --networks 1 --epochs 2 --checkpoint c.ck --history h.csv --trace t.json",
        whole=("m.bin",),
        timed=("t.json", "c.ck"),
        lines=("h.csv",),
    ),
    "train --logdir": Case(
        f"{TRAIN} --networks 1 --epochs 2 --logdir log",
        whole=("m.bin",),
        beside=("log/",),
    ),
    "train, .m": Case(
        "--train --dataset two.csv --model m.m --epochs 1 --layers 2,2,1:sigmoid --activation sigmoid",
        whole=("m.m",),
    ),
    "train --folds": Case(
        f"{TRAIN} --epochs 1 --folds 2 -o p.csv", whole=("m.bin", "p.csv")
    ),
    "train --resume": Case(
        f"{TRAIN} --layers 2,4,1 --epochs 2 --resume old.ck --checkpoint c.ck --history h.csv",
        whole=("m.bin",),
        timed=("c.ck",),
        lines=("h.csv",),
    ),
    "train --vary": Case(
        f"{TRAIN} --epochs 2 --networks 2 --vary epochs=1|2 --checkpoint c.ck",
        whole=("m.bin",),
        timed=("c.ck",),
    ),
    # a file is a large allocation, its arrays are none: without memory for its own
    # copy of one protobuf ends the process by SIGSEGV
    "export": Case("--export --model few.bin -o m.onnx", whole=("m.onnx",)),
    "predict": Case(
        "--predict --dataset two.csv --model old.bin -o p.csv", whole=("p.csv",)
    ),
    "test --report": Case(
        "--test --dataset two.csv --model old.bin --report r.html",
        timed=("r.html",),
        is_long=True,
    ),
    "plot": Case(
        "--plot old.bin -o pictures --report r.html", timed=("r.html",), is_long=True
    ),
}
FILES = ("create", "write", "fsync", "rename")


def prepare(folder: Path, case: Case) -> None:
    """Fill a folder with data, an old model, and old files in the place of all that the
    command writes."""
    write_two_classes(folder / "two.csv")
    here = Path.cwd()
    os.chdir(folder)
    given = ("--dataset", "two.csv", "--epochs", 1)
    succeed("--train", *given, "--model", "old.bin")
    few = ("--networks", 4, "--layers", "2,60,60,60,1")
    succeed("--train", *given, *few, "--model", "few.bin")
    _stop_half_way()
    os.chdir(here)
    for name in (*case.whole, *case.timed, *case.lines):
        (folder / name).write_text(OLD)


def _stop_half_way() -> None:
    """Write old.ck, the checkpoint of a training of two epochs that was stopped after
    the first."""
    stop = StopRequest()

    class Stopping(Callback):
        def epoch(self, *_):
            stop.request(signal.SIGINT)

    net = nn.Network("2,4,1", task="binary")
    rows = nn.load("two.csv")
    with contextlib.suppress(Stopped):
        nn.train(
            net, rows, epochs=2, checkpoint="old.ck", callback=Stopping(), stop=stop
        )


def faults_of(
    mode: str, kinds: Sequence[str], folder: Path, lasting: bool = False
) -> Iterator[tuple[Outcome, list[str]]]:
    """Yield what came of each fault, and what is wrong with that."""
    case = CASES[mode]
    command = f"{case.command} --quiet".split()
    for outcome in outcomes(kinds, command, folder, lasting=lasting):
        if outcome.n == 0:
            fine = outcome
            assert fine.code == 0, fine.err
        else:
            yield outcome, list(_wrong(case, fine, outcome))


def _wrong(case: Case, fine: Outcome, outcome: Outcome) -> Iterator[str]:
    """Yield what breaks a promise: old file or new one, one line, its exit code,
    nothing left over."""
    if outcome.code not in (0, 1, 73):
        yield f"exit code {outcome.code}"
    if (outcome.code == 0) == bool(outcome.err):
        yield f"exit code {outcome.code} with {outcome.err!r}"
    if outcome.code and (len(outcome.lines) != 1 or not outcome.err.startswith("nn: ")):
        yield f"not one line: {outcome.err!r}"
    if "Error" in outcome.err or "Traceback" in outcome.err:
        yield f"an internal error: {outcome.err!r}"
    for name in fine.files.keys() | outcome.files.keys():
        content = outcome.files.get(name)
        new = fine.files.get(name)
        if name.startswith(case.beside):
            continue
        if new is None:
            yield f"{name} is left over"
        elif name in case.timed:
            if content != OLD and (
                content is None or abs(len(content) - len(new)) > 0.2 * len(new)
            ):
                yield f"{name} is neither the old file nor the new one"
        elif name in case.lines:
            if content != OLD and not (content or "").endswith("\n"):
                yield f"{name} is neither the old file nor whole lines"
        elif (
            name not in case.whole
            and not (name.startswith("pictures") and content is None)
            and content != new
        ):
            yield f"{name} changed"
        elif name in case.whole and content not in (OLD, new):
            yield f"{name} is neither the old file nor the new one"
    if outcome.code == 0 and any(
        outcome.files.get(name) != fine.files[name] for name in case.whole
    ):
        yield "exit code 0, and an old file"
