"""The commands of `nn`: one function for each mode.

    train.py        --train: load, choose or train, write the model
    stopped.py      a training that a signal ends: what is kept, the exit code
    use.py          --test, --predict, --compare, --explain, --info, --export: uses of a
                    model
    drift.py        --drift
    rethreshold.py  --rethreshold
    study.py        --bench, --sweep, --study, --plot
    predictions.py  the tables of predictions and contributions
    table_file.py   tables as CSV, Parquet, JSON lines, JSON
    common.py       shared by several commands

Modules that take time to import (numpy among them) are imported where a command begins
to need them.
Imports: everything below, from utils to study. Imported by: cli.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

from ..settings.flags import MODES
from .common import check_files


def run(mode: str, flags: SimpleNamespace) -> int:
    """Call the mode's function, if no file that it writes is one that it reads; returns
    the exit code, 0 unless the mode has another answer."""
    check_files(mode, flags)
    module = import_module(f"{__name__}.{MODES[mode].module}")
    return getattr(module, f"{mode}_command")(flags) or 0
