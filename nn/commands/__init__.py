"""The commands of `nn`, one for each mode flag: --train, --test, --predict, --info, --sweep, --plot, --bench.

Modules that take time to import (numpy among them) are imported where a command begins to need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from .common import (
    CHECKPOINT_FLAGS,
    DATA_FLAGS,
    ENGINE_FLAGS,
    NETWORK_FLAGS,
    PART_FLAGS,
    TRAIN_FLAGS,
    USE_FLAGS,
    WATCH_FLAGS,
)
from .study import bench_command, plot_command, sweep_command
from .train import train_command
from .use import info_command, predict_command, test_command


@dataclass(frozen=True)
class Mode:
    """What a mode does, the flags it cannot do without, and those that it reads beside the common ones."""

    run: Callable[[SimpleNamespace], None]
    needs: tuple[str, ...]
    reads: set[str]


MODES = {
    "train": Mode(
        train_command,
        ("dataset", "model"),
        DATA_FLAGS | PART_FLAGS | {"layers", "task"} | NETWORK_FLAGS | TRAIN_FLAGS | WATCH_FLAGS | CHECKPOINT_FLAGS,
    ),
    "test": Mode(test_command, ("model",), USE_FLAGS | {"report"}),
    "predict": Mode(predict_command, ("model", "dataset"), USE_FLAGS | {"output"}),
    "sweep": Mode(sweep_command, ("output",), {"output", "index", "report"}),
    "plot": Mode(plot_command, ("output",), DATA_FLAGS | {"output", "report"} | ENGINE_FLAGS),
    "info": Mode(info_command, (), {"model", "layers", "task", "activation"} | ENGINE_FLAGS),
    "bench": Mode(bench_command, (), {"case", "backend", "threads"}),
}
