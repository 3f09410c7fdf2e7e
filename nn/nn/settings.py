"""Checks of a network's settings: known names, and a task, a loss and an output layer that go together."""

from __future__ import annotations

from ..layers import Layer
from ..nn_aux import ACTIVATIONS, DTYPES, INITIALIZERS, LOSSES, TASKS
from ..settings.values import GPUS
from ..utils import UsageError


def check_name(flag: str, name: str, known) -> None:
    """Raise UsageError for a name that is not among the known ones."""
    if name not in known:
        raise UsageError(f"{flag} {name}: unknown; choose from {', '.join(known)}")


def check_settings(task: str, activation: str, dtype: str, init: str | None, seed: int) -> None:
    """Raise UsageError for a name that is unknown, or a seed out of range."""
    check_name("--task", task, TASKS)
    check_name("--activation", activation, ACTIVATIONS)
    check_name("--dtype", dtype, DTYPES)
    check_name("--init", init or "he", INITIALIZERS)
    if ACTIVATIONS[activation].couples_outputs:
        raise UsageError(f"--activation {activation}: {activation} is for the last layer only")
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed {seed}: must be from 0 to 4294967295")


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


def device_numbers(gpus) -> tuple[int, ...]:
    """Return the numbers of the GPUs that `--gpus` or Python names. Raises UsageError."""
    if isinstance(gpus, (tuple, list)):
        return tuple(gpus)
    return GPUS("--gpus", gpus)
