"""The answer to what is asked for, in one place for the command, `nn.fit` and the
estimators: a choice among candidates (Effort), or the one training that settings
describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..data.records import program_bytes
from ..data.splits import most_folds, split_rows
from ..ds import Dataset
from ..files.model_file import SCORE_TYPE
from ..nn import Network
from ..nn_aux import TASKS
from ..settings.flags import DEFAULTS
from ..utils import UsageError
from .candidates import JAGGED, MANY_FOLDS, SHORTEST, image_share
from .effort import Effort
from .going_on import is_model

# flags that say which networks are trained
REPLACING = ("layers", "networks", "folds", "vary", "validation", "refit", "reference")
# bounds of what candidates need memory for
MANY_CANDIDATES = 6
MOST_UNITS = 128
INPUTS_A_COLUMN = 24
INPUTS_A_DATE = 92
VECTORS = 6
OF_BEST = 2  # times as much: ten candidates, one of them twice as wide


def replacing(given: Mapping) -> str | None:
    """Return the setting, of those that are given, which replaces the choice; None
    where there is none."""
    if is_model(given.get("init")):
        return "init"
    return next((name for name in REPLACING if name in given), None)


def effort_for(effort: str | None, given: Mapping) -> str | None:
    """Return the effort to choose with; None where a setting that is given replaces the
    choice. effort: what is asked for, None: nothing. Raises UsageError for such a
    setting beside an effort that is asked for."""
    setting = replacing(given)
    if setting is None:
        return effort or DEFAULTS["effort"]
    if effort:
        raise UsageError(
            f"--effort {effort}: --{setting} is not for it; leave one of them out"
        )
    return None


def reason_against(ds: Dataset, chosen_by: str | None, asked: str | None) -> str | None:
    """Return why an effort cannot choose for a data set; None where it can, or where
    none is to. asked: the effort that is asked for. Raises UsageError where that one
    cannot."""
    if chosen_by is None:
        return None
    reason = why_not(ds, chosen_by)
    if reason and asked:
        raise UsageError(f"--effort {asked}: {reason}; leave it out or give --layers")
    return reason


def why_not(ds: Dataset, effort: str | None = None) -> str | None:
    """Return why nothing can be chosen for a data set; None where it can. effort: with
    which, None: any but best."""
    if ds.are_images:
        if len(ds.row_shape) < 3:
            return "the data are bytes without height and width"
        is_enough = len(split_rows(ds, 0.0, image_share(ds.rows), 0).validation)
        if is_enough:
            return None
        return f"{ds.rows} images are too few to set some apart"
    if ds.memory is not None and not fits(ds, effort):
        return "--memory has no room for several"
    if most_folds(ds, ds.without_duplicates(np.arange(ds.rows)), MANY_FOLDS, 0) is None:
        which = "rows"
        if TASKS[ds.task].by_output and np.isnan(ds.y).any():
            which = "rows, or those of one of its targets,"
        return f"{ds.rows} {which} are too few to be divided into folds"
    return None


def fits(ds: Dataset, effort: str | None) -> bool:
    """Return whether ds.memory has room for the networks; by sizes alone."""
    widest = Network.for_data(ds, JAGGED.layers(ds))
    dates = sum("date" in kind.kind for kind in ds.kinds)
    inputs = INPUTS_A_COLUMN * (ds.inputs - dates) + INPUTS_A_DATE * dates
    parameters = (inputs + MOST_UNITS) * MOST_UNITS
    vectors = MANY_FOLDS * MANY_CANDIDATES * VECTORS
    networks = vectors * parameters * np.dtype(widest.dtype).itemsize
    # and those of the choice
    scores = (MANY_CANDIDATES + 1) * ds.rows * (ds.outputs or 1) * SCORE_TYPE.itemsize
    needed = networks + scores
    if effort == "best":
        needed *= OF_BEST
    return program_bytes(widest, SHORTEST.batch_number) + needed <= ds.memory


class OneTraining:
    """The training that settings describe, with the interface of Effort."""

    def __init__(self, ds: Dataset, net: Network, settings: dict):
        """settings: keywords of `train`."""
        self._ds = ds
        self._settings = settings
        self.net = net

    def run(self, train: Callable[..., dict], **beside) -> tuple[Network, dict]:
        """Return the network and the figures of --json. train: trains a network with
        keywords. beside: callback and checkpoint."""
        return self.net, train(self.net, self._ds, **self._settings, **beside)

    def timed(self, batches: int) -> Network:
        """Return the network, whose engine has timed that many batches."""
        return self.net


def training_for(
    ds: Dataset,
    effort: str | None,
    layers: str | None,
    settings: dict,
    network_settings: dict,
) -> Effort | OneTraining:
    """Return what trains on a data set: the choice of an effort, or without one the
    training of these layers and settings, or the further one of a model.
    network_settings: as going_on.begun returns them."""
    init = network_settings.get("init")
    ds = ds.for_loss(network_settings.get("loss") or TASKS[ds.task][1])
    if isinstance(init, Network):
        kept_settings = {
            name: settings[name] for name in settings if name != "networks"
        }
        return OneTraining(ds, init, {**kept_settings, "goes_on": True})
    if effort is not None:
        return Effort(ds, effort, settings, network_settings)
    return OneTraining(ds, Network.for_data(ds, layers, **network_settings), settings)
