"""fit: what `nn --train` does, from Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.dataset import Dataset
from ..ds import are_columns, load_described, parsed, taken_beside, target_text
from ..files.checkpoint import Checkpoint
from ..nn import Network
from ..nn_aux import TASKS
from ..settings.flags import takes
from ..settings.values import LAYERS
from ..test.model import Model
from ..utils import UsageError
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
    of values beside the data. settings: by the names of the flags; weight, exposure,
    group and time may be values of each row, too. Without those that
    say which networks there are (layers, networks, folds, vary, validation, ...)
    `effort` (standard) chooses them. init: a Model, or its file: it goes on with these
    data. Raises UsageError, DataError.
    """
    beside = taken_beside(data, settings)
    (
        load_settings,
        network_settings,
        engine_settings,
        train_settings,
        several,
        checkpoint_settings,
    ) = settings_by_kind("fit", settings, *OF_FIT)
    network_settings = network_settings | engine_settings
    training_settings = train_settings | several
    layers = LAYERS.text_of(layers)
    asked = {
        **load_settings,
        **network_settings,
        **training_settings,
        **({} if layers is None else {"layers": layers}),
    }
    chosen_by = effort_for(
        effort, {name: value for name, value in asked.items() if value is not False}
    )
    saving = Checkpoint.of(checkpoint, **checkpoint_settings)
    if target is not None and are_columns(data, target):
        asked["target"] = target_text(target)
    network_settings = begun(network_settings, asked)
    described = parsed(layers, network_settings)
    if isinstance(data, Dataset):
        for name in load_settings | beside:
            raise UsageError(
                f"{name}: is for data that are to be read, a Dataset has been; give it to nn.load"
            )
        ds = data
    else:
        load_settings |= beside
        ds = training_data(data, target, described, load_settings, network_settings)
    ds.log_left_out()
    if reason_against(ds, chosen_by, effort):
        chosen_by = None
    training = training_for(ds, chosen_by, layers, training_settings, network_settings)
    return Model(*training.run(train, callback=callback, checkpoint=saving))


def training_data(
    data, target, described, load_settings: dict, network_settings: dict
) -> Dataset:
    """Read data for a training, with targets as its loss learns them. target: as fit
    has it; described: what ds.parsed returns, which says how many columns are inputs.
    Raises UsageError where the layers do not fit the data."""
    init = network_settings.get("init")
    if isinstance(init, Network):
        names_columns = target is None or are_columns(data, target)
        ds = data_for(init, data, None if names_columns else target, load_settings)
    else:
        ds = load_described(data, target, described, load_settings, network_settings)
    return ds.for_loss(network_settings.get("loss") or TASKS[ds.task][1])
