"""The commands of `nn`: one function for each mode.

    train.py        --train: load, train, write the model; what a signal leaves behind
    effort.py       --train without --layers: what --effort chooses
    use.py          --test, --predict, --info, --export: uses of a model
    explain.py      --explain: columns that matter, contributions to predictions
    study.py        --bench, --sweep, --plot
    predictions.py  the table that --predict writes
    common.py       shared by several commands

Modules that take time to import (numpy among them) are imported where a command begins to need them.
Imports: everything below, from utils to study. Imported by: cli.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from .explain import explain_command
from .study import bench_command, plot_command, sweep_command
from .train import train_command
from .use import export_command, info_command, predict_command, test_command


@dataclass(frozen=True)
class Command:
    """A mode's function, and the flags with a path that it needs."""

    run: Callable[[SimpleNamespace], None]
    needs: tuple[str, ...] = ()


COMMANDS = {  # by their modes
    "train": Command(train_command, ("dataset",)),  # and model, but for --folds
    "test": Command(test_command, ("model",)),
    "predict": Command(predict_command, ("model", "dataset")),
    "explain": Command(explain_command, ("model",)),
    "sweep": Command(sweep_command, ("output",)),
    "plot": Command(plot_command, ("output",)),
    "info": Command(info_command),
    "export": Command(export_command, ("model", "output")),
    "bench": Command(bench_command),
}
