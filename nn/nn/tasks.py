"""The parts that go together: a task, a loss and an output layer."""

from __future__ import annotations

from ..layers import Layer
from ..nn_aux import LOSSES, TASKS
from ..utils import UsageError


def check_output(task: str, loss: str, last: Layer) -> None:
    """Raise UsageError if the last layer does not go with the loss or the task."""
    wanted = LOSSES[loss].activation
    if wanted and last.output_function != wanted:
        raise UsageError(
            f"--loss {loss} needs a {wanted} output layer, not {last.output_function}; "
            f"end --layers in {last.item}:{wanted} or choose another --loss"
        )
    if task == "binary" and last.outputs != 1:
        raise UsageError(f"--layers: a binary task has 1 output, not {last.outputs}; use --task multiclass")
    if task == "multiclass" and last.outputs < 2:
        raise UsageError("--layers: a multiclass task needs an output for each class, at least 2")


def task_of(loss: str | None) -> str:
    """Return the task whose usual loss this is, else regression."""
    return next((task for task, (_, usual) in TASKS.items() if usual == loss), "regression")


def loss_for(activation: str, usual: str) -> str:
    """Return the task's loss, or mse where that loss does not go with the output layer's activation."""
    return usual if LOSSES[usual].activation in (None, activation) else "mse"
