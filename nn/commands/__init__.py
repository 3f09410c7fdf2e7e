"""The commands of `nn`: one function for each mode.

    train.py        --train: load, choose or train, write the model; what a signal leaves behind
    use.py          --test, --predict, --compare, --explain, --info, --export: uses of a model
    study.py        --bench, --sweep, --plot
    predictions.py  the table that --predict writes
    common.py       shared by several commands

Modules that take time to import (numpy among them) are imported where a command begins to need them.
Imports: everything below, from utils to study. Imported by: cli.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace


@dataclass(frozen=True)
class Command:
    """A mode's function, by its module, which is imported when the mode runs; the flags with a path that it needs."""

    mode: str
    module: str
    needs: tuple[str, ...] = ()

    def run(self, flags: SimpleNamespace) -> None:
        getattr(import_module(f"{__name__}.{self.module}"), f"{self.mode}_command")(flags)


COMMANDS = {
    command.mode: command
    for command in [
        Command("train", "train", ("dataset",)),  # and model, but for --folds
        Command("test", "use", ("model",)),
        Command("predict", "use", ("model", "dataset")),
        Command("explain", "use", ("model",)),
        Command("compare", "use"),
        Command("sweep", "study", ("output",)),
        Command("plot", "study", ("output",)),
        Command("info", "use"),
        Command("export", "use", ("model", "output")),
        Command("bench", "study"),
    ]
}
