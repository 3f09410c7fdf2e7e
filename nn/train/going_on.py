"""Going on from a model, --init MODEL: the network with which a training begins, what
is refused beside it, the settings that its networks keep."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping

from ..data.loading import load_for, split_seed_of
from ..data.schema import COLUMN_CHOICES
from ..ds import Dataset, taken_beside
from ..layers import completed, input_shape, parse, to_spec
from ..nn import Network
from ..nn.model import packed, target_of
from ..nn_aux import INITIALIZERS, TASKS
from ..settings.flags import BY_NAME, DEFAULTS, settings_of
from ..settings.values import enumerated, in_a_list
from ..utils import InputNotFound, UsageError
from .options import LOSS, Monitor, Options, options_of

# how the rows at hand are read and computed with, whatever the model has
_OF_READING = ("separator", "header", "memory", "strict")
# settings of a training that decide how rows are read: the model has done so
_OF_INPUTS = ("scaling", "number_embedding", "target_means", "clip")
# settings of what judged the model, which say nothing of other rows
_OF_JUDGING = ("validation", "monitor", "patience", "refit", "calibrate")
_OF_ONE = ("freeze",)  # that say nothing of a further training
# that few rows are trained on, unless the model's own epochs have less
LEAST_STEPS = 200
_PARTS = 3  # of the epochs and the learning rate of the model, of which one is left


def is_model(init) -> bool:
    """Return whether a value of --init is a model, not the name of an initialiser."""
    return init is not None and not (isinstance(init, str) and init in INITIALIZERS)


def begun(network_settings: dict, given: Mapping) -> dict:
    """Return settings of a network with the model that --init names in its place; those
    without one as they are. given: all settings that are given. Raises UsageError for
    one that says otherwise than the model."""
    init = network_settings.get("init")
    if not is_model(init):
        return network_settings
    engine = {
        flag.name: network_settings[flag.name]
        for flag in (*settings_of("engine"), BY_NAME["distribute"])
        if flag.name in network_settings
    }
    net = _network(init, engine)
    _check_given(net, given)
    if "seed" in network_settings:
        net.next_seed = BY_NAME["seed"].check(network_settings["seed"])
    return {**network_settings, "init": net}


def _network(init, engine: dict) -> Network:
    """Return the network of a model: a file, or what Python has, which stays as it
    is."""
    init = getattr(init, "network", init)  # of a Model
    if isinstance(init, Network):
        return init.copied(**engine)
    if not isinstance(init, (str, os.PathLike)):
        raise _no_model(type(init).__name__)
    try:
        return Network.of_file(init, **engine)
    except InputNotFound:
        raise _no_model(init) from None


def _no_model(name) -> UsageError:
    names = enumerated(list(INITIALIZERS), "or")
    return UsageError(f"--init {name}: no such model, expected a model or {names}")


def take_next_seed(net: Network) -> None:
    """Let the networks of a model go on with the shuffles of seeds from that on which
    is asked for, once all is known that the model's own says: how its rows are divided,
    the digest of its file."""
    if net.next_seed is None:
        return
    net.seed = net.next_seed
    for number, member in enumerate(net.members):
        member.seed = net.seed + number


# ---- what the model decides


def _check_given(net: Network, given: Mapping) -> None:
    """Raise UsageError for a setting that says otherwise than the model."""
    free = {*_OF_READING, "init", "seed", "distribute"}
    free |= {flag.name for flag in settings_of("engine", "train", "checkpoint")}
    decided = _known(net)
    free = free.difference(_OF_INPUTS)
    for name, value in given.items():
        if name in free or value is None or value is False:
            continue
        if name == "layers":
            same = _spec_of(net, value, given.get("activation"))
            is_same = all(member.spec == same for member in net.members)
        elif name == "activation" and given.get("layers"):
            is_same = True  # of the layers that are compared
        else:
            is_same = value == decided.get(name)
        if not is_same:
            of_model = f", {decided[name]}" if name in decided else ""
            raise UsageError(
                f"--{name} {value}: the model of --init has decided it{of_model}; leave it out"
            )


def _known(net: Network) -> dict:
    """Return what a model has decided, by the names of the flags."""
    names = [in_a_list(name) for name in net.targets or ()]
    return {
        "layers": net.spec,
        "task": net.task,
        "loss": net.loss,
        "target": ",".join(names) or target_of(net),
        "networks": len(net.members),
        **{name: net.config.get(name) for name in _OF_INPUTS},
        **net.config.get("table", {}),
    }


def _spec_of(net: Network, layers: str, activation: str | None) -> str:
    """Return layers that are given as the model has them."""
    columns = net.layers[0].columns
    inputs = input_shape(net.layers)
    shape = inputs if isinstance(inputs, tuple) else (inputs,)
    text = completed(layers, shape, net.outputs)
    layer_list = parse(text, activation or "relu", TASKS[net.task].output, columns)
    return to_spec(layer_list)


def data_for(net: Network, data, target, load_settings: dict) -> Dataset:
    """Read data as a model reads it. target: values beside the data, None: they are
    among it. load_settings: settings; the model has the names of columns."""
    reading = {
        name: load_settings[name] for name in _OF_READING if name in load_settings
    }
    beside = taken_beside(data, dict(load_settings))
    return load_for(net, data, y=target, **reading, **beside)


# ---- the settings that it keeps


def options_going_on(net: Network, ds: Dataset, given: Mapping) -> Options:
    """Return the settings of a training in which a network goes on. given: those that
    are not left to its model."""
    kept = settings_going_on(net, ds.rows)
    return options_of(net, ds, kept | given)


def settings_going_on(net: Network, rows: int) -> dict:
    """Return the settings with which a network goes on with a number of rows, where
    none are given: those of its training, but a third of its rate and epochs, of few
    rows more epochs, and none of what judged it."""
    config = net.config
    kept = {
        flag.name: config[flag.name]
        for flag in settings_of("train")
        if flag.name not in (*_OF_JUDGING, *_OF_ONE)
        and config.get(flag.name) is not None
    }
    kept["split_seed"] = split_seed_of(net)
    kept["epochs"] = _further_epochs(net, rows, kept.get("batch_number"))
    if "learning_rate" in kept:
        rate = BY_NAME["learning_rate"].check(kept["learning_rate"])
        kept["learning_rate"] = rate / _PARTS
    kept.pop("threshold", None)
    # those of several targets are no setting: thresholds_going_on
    if net.task in ("binary", "multilabel") and not isinstance(net.threshold, list):
        kept["threshold"] = net.threshold
    return kept


def thresholds_going_on(net: Network, given: dict) -> dict:
    """Return the fact `threshold` of a network of several targets that goes on, where
    each has its own and none is given."""
    if isinstance(net.threshold, list) and given.get("threshold") is None:
        return {"threshold": net.threshold}
    return {}


def config_going_on(net: Network) -> dict:
    """Return what the settings of a model keep that goes on: how its files are read,
    and the digest of the file that it was."""
    names = ("target", "table", "left_out", *COLUMN_CHOICES)
    kept = {name: net.config[name] for name in names if name in net.config}
    return {**kept, "init": f"sha256:{hashlib.sha256(packed(net)).hexdigest()}"}


def _further_epochs(net: Network, rows: int, batch_number) -> int:
    """Return how many epochs a network goes on for with some rows: a third of its
    own, of few rows as many as have LEAST_STEPS, but no more than its own."""
    epochs_before = _epochs_of(net)
    of_batch = BY_NAME["batch_number"].check(batch_number or DEFAULTS["batch_number"])
    needed = math.ceil(LEAST_STEPS / math.ceil(rows / of_batch))
    return max(math.ceil(epochs_before / _PARTS), min(epochs_before, needed))


def _epochs_of(net: Network) -> int:
    """Return how many epochs made a network: up to its best one, where it is known."""
    metrics = net.history.get("val_metric")
    if metrics:
        defined = [math.nan if value is None else value for value in metrics]
        best = Monitor(net.config.get("monitor") or LOSS).best(defined)
        if best:
            return best
    return len(net.history["loss"]) or DEFAULTS["epochs"]
