"""--profile: how long each layer takes, forward and backward, in a batch of training."""

from __future__ import annotations

import numpy as np

from ..backends.engine import TimedStep
from ..layers import Layer

BATCHES = 200  # timed; medians of more say the same


def layer_times(layers: list[Layer], rows: int, batches: list[list[TimedStep]]) -> dict:
    """Return the median milliseconds of each step of a batch: `profile` of `--train --profile --json`.

    layers: of the network; rows: of a batch; batches: what the engine recorded. `share` is a layer's part of
    the whole batch. A layer's update is 0 where it is done together with the gradients, and its backward pass
    where nothing below it learns. GFLOP/s count multiplications and additions of dense and conv layers.
    """
    times: dict[tuple, list[float]] = {}
    for batch in batches:
        spent: dict[tuple, float] = {}
        for step in (step for step in batch if step.lane == batch[0].lane):  # of several GPUs the first one's
            spent[step.name, step.layer] = spent.get((step.name, step.layer), 0.0) + step.end - step.begin
        for key, seconds in spent.items():
            times.setdefault(key, []).append(1e3 * seconds)
    median = {key: float(np.median(values)) for key, values in times.items()}
    whole = sum(median.values())
    learners = [i for i, layer in enumerate(layers) if layer.weight_shape]
    table = []
    for i, layer in enumerate(layers):
        forward, backward, update = (median.get((name, i), 0.0) for name in ("forward", "backward", "update"))
        operations = 2.0 * rows * layer.outputs * layer.fan_in if layer.weight_shape else 0.0
        passes = 1 if learners[:1] == [i] else 2  # gradients of the weights, and of the input
        table.append(
            {
                "layer": layer.item or layer.kind,
                "forward_ms": forward,
                "backward_ms": backward,
                "update_ms": update,
                "share": (forward + backward + update) / whole if whole else 0.0,
                "gflops_forward": _rate(operations, forward),
                "gflops_backward": _rate(passes * operations, backward),
            }
        )
    others = {f"{name}_ms": value for (name, layer), value in median.items() if layer is None}
    return {"batches": len(batches), "rows": rows, "batch_ms": whole, **others, "layers": table}


def _rate(operations: float, ms: float) -> float | None:
    return operations / ms / 1e6 if operations and ms else None
