"""fit: what `nn --train` does, from Python."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from ..data.dataset import Dataset
from ..data.frames import columns_of
from ..ds import load
from ..files.checkpoint import Checkpoint
from ..layers import IMAGE_KINDS, Layer, begins_auto, input_shape, parse
from ..nn import Network
from ..nn_aux import TASKS, loss_of, quantiles_of
from ..settings.flags import REFERENCE, check_reference_layers, takes
from ..settings.values import LAYERS, joined_names
from ..test.model import Model
from ..utils import LayersMismatch, UsageError
from ..watch.callbacks import Callback
from .asked import effort_for, reason_against, training_for
from .call import train
from .going_on import begun, data_for
from .options import settings_by_kind

# whose settings fit takes
OF_FIT = "load", "network", "engine", "train", "several", "checkpoint"


@takes(*OF_FIT)
def fit(
    data,
    target: str | int | np.ndarray | Sequence | None = None,
    *,
    effort: str | None = None,
    layers: str | Sequence[int | str] | None = None,
    callback: Callback | None = None,
    checkpoint: str | Checkpoint | None = None,
    **settings,
) -> Model:
    """Train on data as `nn --train` does: the same settings give the same model file,
    byte for byte.

    data: a path, a data frame, an array, a dictionary of columns, a list of rows, or a
    Dataset. target: the name or place of a column, a list of them, or an array or list
    of values beside the data. settings: by the names of the flags. Without those that
    say which networks there are (layers, networks, folds, vary, validation, ...)
    `effort` (standard) chooses them. init: a Model, or its file: it goes on with these
    data. Raises UsageError, DataError.
    """
    of_load, of_network, of_engine, of_train, several, of_checkpoint = settings_by_kind(
        "fit", settings, *OF_FIT
    )
    of_network = of_network | of_engine
    of_training = of_train | several
    layers = LAYERS.text_of(layers)
    asked = {
        **of_load,
        **of_network,
        **of_training,
        **({} if layers is None else {"layers": layers}),
    }
    chosen_by = effort_for(
        effort, {name: value for name, value in asked.items() if value is not False}
    )
    saving = Checkpoint.of(checkpoint, **of_checkpoint)
    if target is not None and _names_columns(data, target):
        asked["target"] = _target_text(target)
    of_network = begun(of_network, asked)
    described = parsed(layers, of_network)
    if isinstance(data, Dataset):
        ds = data
    else:
        ds = training_data(data, target, described, of_load, of_network)
    ds.log_left_out()
    if reason_against(ds, chosen_by, effort):
        chosen_by = None
    training = training_for(ds, chosen_by, layers, of_training, of_network)
    return Model(*training.run(train, callback=callback, checkpoint=saving))


def parsed(layers: str | None, of_network: dict) -> tuple[str, list[Layer]] | None:
    """Return --layers, as text and parsed before the task is known; None without them.
    of_network: its settings."""
    if layers is None:
        return None
    if any(f",{kind}" in layers.replace(" ", "") for kind in IMAGE_KINDS):
        any_inputs = "1x512x512"
    else:
        any_inputs = "1"
    if begins_auto(layers):
        spec = layers.replace("auto", any_inputs, 1)
    else:
        spec = layers
    if not of_network.get("reference"):
        return layers, parse(spec, of_network.get("activation") or "relu")
    found = parse(spec, REFERENCE["activation"], "sigmoid")
    check_reference_layers(found)
    return layers, found


def training_data(data, target, described, of_load: dict, of_network: dict) -> Dataset:
    """Read data for a training, with targets as its loss learns them. target: as fit
    has it; described: what `parsed` returns, which says how many columns are inputs;
    of_load, of_network: settings. Raises UsageError where the layers do not fit the
    data."""
    ds = _loaded(data, target, described, of_load, of_network)
    return ds.for_loss(of_network.get("loss") or TASKS[ds.task][1])


def _loaded(data, target, described, of_load: dict, of_network: dict) -> Dataset:
    """Read data for a training, as training_data does, with targets as they are."""
    init = of_network.get("init")
    if isinstance(init, Network):
        names_columns = target is None or _names_columns(data, target)
        return data_for(init, data, None if names_columns else target, of_load)
    of_load = {
        **of_load,
        **{name: of_network[name] for name in ("dtype",) if name in of_network},
    }
    task = loss_of(of_network.get("loss") or TASKS["regression"].loss).task
    if task and of_load.get("task", "auto") == "auto":
        of_load["task"] = task
    if target is not None:
        of_load["target" if _names_columns(data, target) else "y"] = target
    if of_network.get("reference"):
        of_load |= {"dtype": REFERENCE["dtype"], "plain": True}
    if described is None:
        return load(data, **of_load)
    layers, found = described
    outputs = found[-1].outputs
    if quantiles_of(of_network.get("loss") or ""):
        outputs = 1  # of the data: several quantiles are of one target
    if begins_auto(layers):
        return load(data, outputs=outputs, **of_load)
    try:
        return load(data, inputs=input_shape(found), outputs=outputs, **of_load)
    except LayersMismatch as error:
        cure = _layers_meant(layers, found, load(data, **of_load))
        raise UsageError(f"--layers {layers}: {error}{cure}") from error


def _layers_meant(layers: str, found: list[Layer], ds: Dataset) -> str:
    """Return which layers a person probably meant who left out the inputs and perhaps
    the outputs, as scikit-learn's users do."""
    if input_shape(found) in (ds.row_shape, ds.row_shape[0]):
        return ""
    ending = f",{ds.outputs}"
    if layers.endswith(ending):
        ending = ""
    return f"; did you mean auto,{layers}{ending}?"


def _target_text(target: str | int | Sequence) -> str:
    """Return the names or places of target columns as the flag has them."""
    if isinstance(target, (list, tuple)):
        return joined_names(target)
    return str(target)


def _names_columns(data, target) -> bool:
    """Return whether a target names columns of the data; else it holds a value for each
    row."""
    if isinstance(target, (str, int, np.integer)):
        return True
    if not isinstance(target, (list, tuple)):
        return False
    if isinstance(data, (str, os.PathLike)):
        return True
    frame = columns_of(data)
    return (
        frame is not None
        and len(target) != frame.rows
        and {*target} <= {*(frame.names or ())}
    )
