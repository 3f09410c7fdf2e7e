"""Model files: safetensors with one JSON string of metadata.

A file is either returned whole and checked or refused with one line: nothing in it is
executed, no size it claims is believed before the bytes are there, and any changed bit
of a safetensors model is noticed.
"""

from __future__ import annotations

import json
import math
import os
from itertools import chain, pairwise

import numpy as np

from ..data import profiles, row_hashes
from ..data.column import CODE_PAGES, LABEL_TYPES, labels_of
from ..data.encoding import Encoding, are_places
from ..data.pixels import are_pictures
from ..data.schema import COLUMN_CHOICES
from ..layers import Layer, parameter_shapes
from ..layers import parse as parse_layers
from ..nn_aux import METRICS, SCALINGS, TASKS
from ..settings.values import THRESHOLD
from ..utils import DataError, UsageError, is_file_name
from .checks import (
    is_bool,
    is_choice,
    is_number,
    is_string,
    is_true,
    is_whole,
    list_of,
    map_of,
    object_of,
    one_of,
    or_none,
)
from .tensor_file import TensorFile, shortened
from .text_model import RETRAIN, is_text

# the format of files that are written; 1 and 2, which know less of their data, are read
# too
MODEL_FORMAT = 3
_TENSOR_TYPES = {"float32": "F32", "float64": "F64"}
# tensors of the rows that a model was trained on, of no network
FOLD = "rows.fold"
SCORE = "rows.score"
SCORE_TYPE = np.dtype(np.float32)  # of these scores, whatever the type of the networks
_FOLD_TYPES = {"U8": np.uint8, "U32": np.uint32}
# trainings that a model remembers by their data, the last ones
MOST_ANCESTORS = 64
IN_MEMORY = "the network"  # how errors call a file that is none
_MODEL_FILE = TensorFile(
    "nn",
    "model file",
    "a model that `nn --train` wrote",
    RETRAIN,
    "write one with `nn --train`",
)


def _damaged(path, fault: str) -> DataError:
    return DataError(f"{path}: damaged model file: {fault}; {RETRAIN}")


# ---------------------------------------------------------------- safetensors


def save(
    path: str | os.PathLike, tensors: dict[str, np.ndarray], metadata: dict
) -> None:
    """Write a model as a safetensors file, replacing `path` only once the new file is
    complete.

    tensors: "layer0.weight" (out, in), "layer0.bias" (out,), ..., all of
    metadata["dtype"].
    metadata: the facts beside the numbers (keys: see `_METADATA`); `format` and
    `sha256` are added here.
    The same arguments give the same bytes. Raises OutputError if the file cannot be
    written, DataError if the model could not be loaded again (a number that is not
    finite, a fact that is missing).
    """
    _MODEL_FILE.save(path, *_checked(path, tensors, metadata))


def packed(tensors: dict[str, np.ndarray], metadata: dict) -> bytes:
    """Return the bytes that `save` writes, for `unpacked`. Raises DataError as it
    does."""
    return b"".join(
        _MODEL_FILE.packed(IN_MEMORY, *_checked(IN_MEMORY, tensors, metadata))
    )


def _checked(
    path, tensors: dict[str, np.ndarray], metadata: dict
) -> tuple[dict[str, np.ndarray], dict]:
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    metadata = {**metadata, "format": MODEL_FORMAT}
    _check(path, tensors, metadata)
    return tensors, metadata


def load(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict]:
    """Read a model written by `save`: (tensors, metadata), everything checked.

    Raises InputNotFound if there is no such file, DataError if it is foreign, cut,
    changed or hostile.
    """
    return unpacked(_MODEL_FILE.read(path), path)


def unpacked(data: bytes, path=IN_MEMORY) -> tuple[dict[str, np.ndarray], dict]:
    """Return the model that these bytes of a file are, everything checked. Raises
    DataError."""
    header, metadata = _MODEL_FILE.header(path, data)
    _check_metadata(path, metadata)
    _MODEL_FILE.check_digest(path, data, metadata)
    _check_types(path, header, metadata["dtype"])
    tensors = _MODEL_FILE.tensors(path, data)
    _check(path, tensors, metadata)
    return tensors, metadata


def _check(path, tensors: dict[str, np.ndarray], metadata: dict) -> None:
    """Raise DataError unless all networks of a file are what their layers say."""
    _check_metadata(path, metadata)
    names = tensors.keys()
    if "crossed" in metadata:
        _check_crossed(path, tensors, metadata)
        names = names - {FOLD, SCORE}
    if "members" not in metadata:
        _check_tensors(path, tensors, metadata)
        return
    prefixes = [member_prefix(number) for number in range(len(metadata["members"]))]
    for name in names:
        if "".join(name.partition(".")[:2]) not in prefixes:
            raise _damaged(path, f"{shortened(name)} is of no member")
    for number, (arrays, facts) in enumerate(members_of(tensors, metadata)):
        if facts["dtype"] != metadata["dtype"]:
            raise _damaged(path, f"member {number} is {facts['dtype']}")
        _check_metadata(path, facts)
        _check_tensors(path, arrays, facts)
        _check_member(path, number, facts, metadata)


_FACTS_OF_ALL_MEMBERS = (  # in which no member differs
    "task",
    "loss",
    "columns",
    "targets",
    "classes",
    "label_type",
    "gap_words",
    "code_page",
    "pictures",
    "number_type",
)
# fields of an encoded column that say how words stand for its values
_WAYS = ("way", "before", "behind", "order")


def _check_member(path, number: int, facts: dict, metadata: dict) -> None:
    """Raise DataError unless a member reads the columns that the model reads, and
    answers what it answers."""
    for name in _FACTS_OF_ALL_MEMBERS:
        if facts.get(name) != metadata.get(name):
            fault = f"member {number} has other `{name}` than the model, {shortened(facts.get(name))}"
            raise _damaged(path, fault)
    if _sizes(_layers_of(facts)) != _sizes(_layers_of(metadata)):
        fault = f"member {number} has the layers {shortened(facts['layers'])}, of other inputs or outputs"
        raise _damaged(path, f"{fault} than the model")
    if _columns_read(facts) != _columns_read(metadata):
        fault = f"member {number} has another `encoding` than the model, whose columns are of other kinds"
        raise _damaged(path, fault)


def _columns_read(metadata: dict) -> list[list]:
    """Return as what the columns of a table are read: words, whatever becomes of them,
    numbers or dates, and how words stand for their values."""
    if "encoding" not in metadata:
        return [["number", *[None] * len(_WAYS)]] * _sizes(_layers_of(metadata))[0]
    columns = []
    for column in metadata["encoding"]["columns"]:
        kind = column["kind"]
        if kind in ("yes/no", "category"):
            kind = "words"
        columns.append([kind, *map(column.get, _WAYS)])
    return columns


# ---------------------------------------------------------------- several networks


def member_prefix(number: int) -> str:
    """Return how the tensors of a member are called before their own names."""
    return f"member{number}."


def members_of(
    tensors: dict[str, np.ndarray], metadata: dict
) -> list[tuple[dict[str, np.ndarray], dict]]:
    """Return (tensors, metadata) of each network of a file; those of a single network
    as they are."""
    if "members" not in metadata:
        return [(tensors, metadata)]
    shared = {
        name: value for name, value in metadata.items() if name not in _NOT_SHARED
    }
    members = [({}, {**shared, **facts}) for facts in metadata["members"]]
    for _, facts in members:
        # a member without the encoding that the others share
        if facts.get("encoding", {}) is None:
            del facts["encoding"]
    arrays = {member_prefix(number): part for number, (part, _) in enumerate(members)}
    for name in tensors.keys() - {FOLD, SCORE}:
        member, dot, tensor = name.partition(".")
        arrays[member + dot][tensor] = tensors[name]
    return members


# ----------------------------------------------------- what the metadata must look like


BOUNDS = ("low", "high")
_ARE_TEXTS = list_of(is_string)
_ARE_NUMBERS = list_of(is_number)
_IS_SCALING_OBJECT = object_of(
    {
        "kind": one_of(SCALINGS)[0],
        **dict.fromkeys(("shift", "scale", *BOUNDS), _ARE_NUMBERS),
    },
    optional=BOUNDS,
)


def _is_scaling(value) -> bool:
    """Return True for {"kind": name, "shift": numbers, "scale": numbers}, as
    Scaling.to_dict writes them, perhaps with "low" and "high"."""
    if not _IS_SCALING_OBJECT(value) or ("low" in value) != ("high" in value):
        return False
    lengths = {len(value[key]) for key in ("shift", "scale", *BOUNDS) if key in value}
    if len(lengths) != 1 or min(value["scale"], default=0) < 0:
        return False
    if bool(value["shift"]) != SCALINGS[value["kind"]].is_fitted:
        return False
    bounds = zip(value.get("low", []), value.get("high", []), strict=True)
    return all(low <= high for low, high in bounds)


_CHOICES = {  # what Choices.kept writes
    **dict.fromkeys(("id", "weight", "exposure", "group", "time"), is_choice),
    **dict.fromkeys(("missing", "separator", "header"), is_string),
    "drop_duplicates": is_bool,
}
_CANDIDATE = {
    "layers": is_string,
    "loss": or_none(is_number),
    "operations": is_number,
    "weight": is_whole,
}


def _is_threshold(value) -> bool:
    """Return whether a value is a number, or a rule by which a training found one."""
    if not is_string(value):
        return is_number(value)
    try:
        THRESHOLD("--threshold", value)
    except UsageError:
        return False
    return True


def _is_cut(value) -> bool:
    """Return whether a value is a threshold, or those of several targets."""
    return is_number(value) or (_ARE_NUMBERS(value) and len(value) > 1)


_CONFIG = {  # settings that later uses of a model read; the others are only shown
    "target": or_none(is_choice),
    "table": object_of(_CHOICES, _CHOICES, closed=True),
    "left_out": are_places,
    **dict.fromkeys(COLUMN_CHOICES, is_string),
    "strict": is_bool,
    "candidates": list_of(object_of(_CANDIDATE)),
    "split_seed": lambda value: is_whole(value) and 0 <= value < 2**32,
    "holdout": lambda value: is_number(value) and 0 <= value < 1,
    "window": or_none(lambda value: is_whole(value) and value > 0),
    "reference": or_none(is_bool),
    "folds": lambda value: is_whole(value) and value > 0,
    "monitor": or_none(is_string),
    "threshold": _is_threshold,
    "chosen": _ARE_TEXTS,
}
_DATASET = {
    "path": or_none(lambda value: is_string(value) and is_file_name(value)),
    "sha256": or_none(is_string),
    "part": is_true,
}
_HISTORY = {
    "loss": _ARE_NUMBERS,
    "val_loss": or_none(_ARE_NUMBERS),
    "val_metric": or_none(list_of(or_none(is_number))),
}

# key: (check, the words for an expected value); a key may not be missing, null stands
# for what a network does not have
_METADATA = {
    "format": (is_whole, "a whole number"),
    "layers": (is_string, "a text"),
    "task": one_of(TASKS),
    "loss": (is_string, "a text"),
    "dtype": one_of(_TENSOR_TYPES),
    "scaling": (_is_scaling, "kind, shift and scale"),
    "target_scaling": (or_none(_is_scaling), "kind, shift and scale"),
    "columns": (or_none(_ARE_TEXTS), "a list of texts"),
    "targets": (or_none(_ARE_TEXTS), "a list of texts"),
    "classes": (or_none(_ARE_TEXTS), "a list of texts"),
    "threshold": (_is_cut, "a number, or one for each of several targets"),
    "seed": (_CONFIG["split_seed"], "a whole number from 0 to 2^32-1"),
    "holdout": (_CONFIG["holdout"], "a number from 0 to below 1"),
    "dataset": (or_none(object_of(_DATASET, ["part"])), "path and sha256"),
    "history": (object_of(_HISTORY, ["val_metric"]), "lists of numbers"),
    "config": (
        object_of(_CONFIG, _CONFIG),
        "an object with the settings of a training",
    ),
}
_ANCESTOR = {
    "data": is_string,
    "holdout": _CONFIG["holdout"],
    "split_seed": _CONFIG["split_seed"],
}
_ARE_ANCESTORS = list_of(object_of(_ANCESTOR, closed=True))
_MEMBER_FACTS = {"weight": lambda value: is_number(value) and value > 0}
# what members' metadata do not take from that of all
_NOT_SHARED = (
    "members",
    "temperature",
    "crossed",
    "conformal",
    "row_hashes",
    "ancestors",
    "profiles",
)
# metrics of rows, or of a part of them
_ARE_RATES = {name: or_none(is_number) for name in METRICS}
_INTERVAL_ENDS = or_none(lambda ends: _ARE_NUMBERS(ends) and len(ends) == 2)
_OF_TARGET = {
    **_ARE_RATES,
    "target": is_string,
    "coverage": or_none(is_number),
    "intervals": map_of(_INTERVAL_ENDS),
}
_CROSSED_METRICS = {  # what `test` reports of all rows that folds judge
    **_ARE_RATES,
    **dict.fromkeys(("rows", "tp", "fp", "fn", "tn"), is_number),
    "threshold": _is_cut,
    **dict.fromkeys(("level", "coverage"), is_number),
    "width": or_none(is_number),
    "weighted": is_true,
    "exposure": is_choice,
    "target": or_none(lambda value: is_choice(value) or _ARE_TEXTS(value)),
    "left_out_rows": map_of(is_whole),
    "macro": object_of(_ARE_RATES, _ARE_RATES),
    "confusion": list_of(_ARE_NUMBERS),
    "per_class": list_of(
        object_of({**_ARE_RATES, "class": is_string, "support": is_number}, _ARE_RATES)
    ),
    "per_target": list_of(object_of(_OF_TARGET, _OF_TARGET.keys() - {"target"})),
    "intervals": map_of(_INTERVAL_ENDS),
}
_ARE_CROSSED_METRICS = object_of(
    _CROSSED_METRICS, _CROSSED_METRICS.keys() - {"rows"}, closed=True
)
_LEAST_METRICS = {  # without which figures cannot be reported
    "binary": {"tp", "fp", "fn", "tn", "threshold", "precision", "recall", "roc_auc"},
    "multiclass": {"accuracy", "macro", "confusion", "per_class"},
    "multilabel": {"accuracy", "hamming_loss", "per_target"},
    "regression": {"rmse", "mae", "r2"},
}


def are_figures(value) -> bool:
    """Return True for figures of some task, as `test` reports them."""
    return _ARE_CROSSED_METRICS(value) and any(
        names <= value.keys() for names in _LEAST_METRICS.values()
    )


_CROSSED = {
    "temperatures": list_of(_MEMBER_FACTS["weight"]),
    "thresholds": list_of(_is_cut),
    "figures": are_figures,
    "retrained": is_true,
}
_IS_TARGET = object_of(
    {
        **dict.fromkeys(("at", "scale", "low", "high"), _ARE_NUMBERS),
        "bounds": lambda ends: list_of(or_none(is_number))(ends) and len(ends) == 2,
    },
    closed=True,
)
_IS_INTERVALS = object_of(
    {"levels": _ARE_NUMBERS, "targets": list_of(_IS_TARGET)}, closed=True
)
_IS_CLASS_SETS = object_of(
    {
        "levels": _ARE_NUMBERS,
        "least": list_of(_ARE_NUMBERS),
        "of_class": list_of(is_whole),
    },
    closed=True,
)
_IS_LABEL_SETS = object_of({"labels": list_of(_IS_CLASS_SETS)}, closed=True)


def _are_ascending(values: list) -> bool:
    return len(values) > 0 and all(low < high for low, high in pairwise(values))


def _is_conformal(value) -> bool:
    """Return True for what one of KIND_OF_TASK of core.conformal writes."""
    if _IS_LABEL_SETS(value):
        return all(
            _is_conformal(one) and len(one["of_class"]) == 2 for one in value["labels"]
        )
    is_intervals = _IS_INTERVALS(value)
    if not is_intervals and not _IS_CLASS_SETS(value):
        return False
    levels = value["levels"]
    if not _are_ascending(levels) or levels[0] <= 0 or levels[-1] >= 1:
        return False
    if is_intervals:
        return all(_is_sound(target, len(levels)) for target in value["targets"])
    of_classes = value["least"]
    return all(len(least) == len(levels) for least in of_classes) and all(
        0 <= place < len(of_classes) for place in value["of_class"]
    )


def _is_sound(target: dict, levels: int) -> bool:
    """Return whether the residuals of a target have a size above 0 wherever there is
    one, and two ends of each level."""
    return (
        _are_ascending(target["at"])
        and len(target["at"]) == len(target["scale"])
        and min(target["scale"]) > 0
        and len(target["low"]) == len(target["high"]) == levels
    )


def _is_name_and_reason(value) -> bool:
    return _ARE_TEXTS(value) and len(value) == 2


_JUDGED_FIGURES = {
    "rows": lambda value: is_whole(value) and value > 0,
    "by": one_of(("folds", "validation"))[0],
    "metrics": object_of(_ARE_RATES, _ARE_RATES, closed=True),
    "intervals": map_of(_INTERVAL_ENDS),
}
# facts that files leave out where they have the default of nn/facts.py
MAY_BE_MISSING = {
    "encoding": (lambda value: isinstance(value, dict), "an object"),
    "members": (
        lambda value: list_of(object_of(_MEMBER_FACTS))(value) and len(value) > 0,
        "a list of members, each with a weight above 0",
    ),
    "temperature": (_MEMBER_FACTS["weight"], "a number above 0"),
    "medians": (_ARE_NUMBERS, "a list of numbers"),
    "label_type": one_of(LABEL_TYPES),
    "labels": (
        list_of(lambda pair: _ARE_TEXTS(pair) and len(set(pair)) == len(pair) == 2),
        "two different texts for each target",
    ),
    "gap_words": (_ARE_TEXTS, "a list of words"),
    "number_type": one_of(_TENSOR_TYPES),
    "code_page": one_of(CODE_PAGES),
    "pictures": (are_pictures, "range, shape and alpha"),
    "crossed": (
        lambda value: (
            object_of(_CROSSED, ["figures", "retrained"])(value)
            and len(value["thresholds"]) > 0
            and len(value["thresholds"]) == len(value["temperatures"])
        ),
        "a temperature above 0 and a threshold for each fold",
    ),
    "conformal": (_is_conformal, "levels, and residuals or scores of each"),
    "ancestors": (
        lambda value: _ARE_ANCESTORS(value) and 0 < len(value) <= MOST_ANCESTORS,
        f"at most {MOST_ANCESTORS} trainings with data, holdout and split_seed",
    ),
    "row_hashes": (row_hashes.is_fact, "data, rows, wide and hashes"),
    "profiles": (profiles.are_profiles, "a distribution for each column"),
    "weightless_rows": (
        lambda value: is_whole(value) and value >= 0,
        "a number of rows, 0 or above",
    ),
    "unused": (list_of(_is_name_and_reason), "pairs of a name and a reason"),
    "judged": (object_of(_JUDGED_FIGURES), "figures of rows that no network knew"),
}
# facts with texts of a table
_TEXT_FACTS = (
    "columns",
    "targets",
    "classes",
    "labels",
    "encoding",
    "gap_words",
    "profiles",
    "unused",
)


def _check_metadata(path, metadata: dict) -> None:
    version = metadata.get("format")
    if is_whole(version) and version > MODEL_FORMAT:
        raise DataError(
            f"{path}: model file format {version}, this nn reads up to {MODEL_FORMAT}; install a newer nn"
        )
    for key, (check, expected) in (_METADATA | MAY_BE_MISSING).items():
        if key not in metadata:
            if key in MAY_BE_MISSING:
                continue
            raise _damaged(path, f"`{key}` is missing from its metadata")
        if not check(metadata[key]):
            raise _damaged(
                path, f"`{key}` is {shortened(metadata[key])}, expected {expected}"
            )
    try:
        json.dumps(
            [metadata.get(name) for name in _TEXT_FACTS], ensure_ascii=False
        ).encode()
    except UnicodeEncodeError:
        raise _damaged(path, "half of a surrogate pair in a name") from None
    _check_agreement(path, metadata)


def _check_agreement(path, metadata: dict) -> None:
    """Raise DataError unless there are as many names, classes and constants as the
    layers need."""
    try:
        layers = _layers_of(metadata)
    except (UsageError, DataError) as error:
        raise DataError(f"{path}: damaged model file: {error}") from error
    inputs, outputs = _sizes(layers)
    features = layers[0].in_shape[0]  # of a table; channels of an image
    classes = outputs
    target_counts = (1, outputs)
    if metadata["task"] == "binary":
        classes = 2
    sure_of = ("of_class", classes)
    if TASKS[metadata["task"]].by_output:
        # several quantiles are of one
        are_steps = layers[-1].output_function == "steps"
        target_counts = (1 if are_steps else outputs,)
        sure_of = ("labels", outputs)
    if metadata["task"] == "regression":
        sure_of = ("targets", outputs)
    conformal = metadata.get("conformal")
    if conformal is not None and sure_of[0] not in conformal:
        raise _damaged(path, f"`conformal` is of no {metadata['task']} task")
    _check_labels(path, metadata)
    _check_thresholds(path, metadata, outputs)
    counts = {
        "columns": (metadata["columns"], (inputs,)),
        "medians": (metadata.get("medians"), (inputs,)),
        "profiles": (metadata.get("profiles"), (inputs,)),
        "classes": (metadata["classes"], (classes,)),
        "labels": (metadata.get("labels"), (outputs,)),
        "conformal": ((conformal or {}).get(sure_of[0]), sure_of[1:]),
        "scaling": (metadata["scaling"]["shift"], (0, features)),
        "targets": (metadata["targets"], target_counts),
        "target_scaling": (
            (metadata["target_scaling"] or {}).get("shift"),
            (0, outputs),
        ),
    }
    shape = metadata.get("pictures", {}).get("shape")
    if shape is not None and math.prod(shape) != inputs:
        raise _damaged(
            path,
            f"`pictures` has the shape {shortened(shape)}, its layers "
            f"{shortened(metadata['layers'])} need {inputs} values",
        )
    for key, (values, possible_counts) in counts.items():
        if values is not None and len(values) not in possible_counts:
            raise _damaged(
                path,
                f"`{key}` has {len(values)} entries, "
                f"its layers {shortened(metadata['layers'])} need {possible_counts[-1]}",
            )
    if not profiles.are_of(metadata.get("profiles") or [], _encoders_of(metadata)):
        raise _damaged(path, "`profiles` are those of columns of other kinds")


def _check_thresholds(path, metadata: dict, outputs: int) -> None:
    """Raise DataError for thresholds of targets that are not those of the task, and
    for folds some of which have them."""
    of_folds = metadata.get("crossed", {}).get("thresholds", [])
    possible = {0, outputs} if metadata["task"] == "multilabel" else {0}
    # 0 of a number, which is of all targets
    counts = [
        len(one) if isinstance(one, list) else 0
        for one in (*of_folds, metadata["threshold"])
    ]
    if not {*counts} <= possible or len({*counts[:-1]}) > 1:
        raise _damaged(path, f"`threshold` is of other targets than {outputs}")


def _check_labels(path, metadata: dict) -> None:
    """Raise DataError for classes that are not of the type that is told, and for pairs
    of classes of a task that has none."""
    labels = metadata.get("labels", [])
    if labels and metadata["task"] != "multilabel":
        raise _damaged(path, f"`labels` are of no {metadata['task']} task")
    names = [*(metadata["classes"] or []), *chain(*labels)]
    try:
        labels_of(names, metadata.get("label_type"))
    except ValueError:
        fault = f"`label_type` is {metadata['label_type']}, which a class is not"
        raise _damaged(path, fault) from None


def _encoders_of(metadata: dict) -> list:
    """Return the encoder of each column, None for plain numbers."""
    if "encoding" not in metadata:
        return [None] * _sizes(_layers_of(metadata))[0]
    return Encoding.from_dict(metadata["encoding"], metadata["columns"]).encoders


def _sizes(layers: list[Layer]) -> tuple[int, int]:
    """Return how many columns a network reads and how many values it answers."""
    return layers[0].features or layers[0].inputs, layers[-1].outputs


def _layers_of(metadata: dict) -> list[Layer]:
    """Return the layers of a model. Raises UsageError, or DataError for a damaged
    encoding of its columns."""
    if "encoding" not in metadata:
        return parse_layers(metadata["layers"])
    encoding = Encoding.from_dict(metadata["encoding"], metadata["columns"])
    layers = parse_layers(metadata["layers"], columns=encoding.columns)
    if layers[0].features != encoding.features:
        raise DataError(
            f"{encoding.features} encoded columns, expected {layers[0].features} as the layers have"
        )
    return layers


def _check_types(path, header: dict, dtype: str) -> None:
    """Raise DataError for a tensor of another type by the header, before the library
    makes an array of it."""
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        kind = None
        if isinstance(entry, dict):
            kind = entry.get("dtype")
        kinds = [_TENSOR_TYPES[dtype]]
        if name == FOLD:
            kinds += _FOLD_TYPES
        elif name == SCORE:
            kinds.append(_TENSOR_TYPES[SCORE_TYPE.name])
        if kind not in kinds:
            raise _damaged(
                path,
                f"{shortened(name)} is of type {shortened(kind)}, expected {kinds[0]}",
            )


def _check_classes_of_figures(path, figures: dict, outputs: int) -> None:
    """Raise DataError unless figures of several classes are of all classes that a
    network tells apart."""
    rows = figures.get("confusion", ())
    sizes = {len(rows), len(figures.get("per_class", ())), *map(len, rows)}
    if "confusion" in figures and (sizes != {outputs} or not any(map(any, rows))):
        raise _damaged(path, "`crossed` has figures of other classes")


def _check_crossed(path, tensors: dict[str, np.ndarray], metadata: dict) -> None:
    """Raise DataError unless the folds and scores of rows are those of the model's
    cross-validation."""
    folds = len(metadata["crossed"]["thresholds"])
    score = tensors.get(SCORE)
    fold = tensors.get(FOLD)
    if fold is None or fold.ndim != 1 or fold.dtype not in tuple(_FOLD_TYPES.values()):
        raise _damaged(path, f"{FOLD} is missing or no list of folds")
    members = len(metadata.get("members", ()))
    if metadata["config"].get("folds") != folds or not members or members % folds:
        raise _damaged(path, f"`crossed` has {folds} folds, its settings others")
    no_fold = np.iinfo(fold.dtype).max
    judged = fold[fold != no_fold]
    if judged.size and judged.max() >= folds:
        raise _damaged(path, f"{FOLD} has fold {judged.max()} of {folds}")
    if score is None:
        figures = metadata["crossed"].get("figures", {})
        if not _LEAST_METRICS[metadata["task"]] <= figures.keys():
            raise _damaged(path, f"{SCORE} is missing")
        _check_classes_of_figures(path, figures, _layers_of(metadata)[-1].outputs)
        return
    shape = (len(judged), _layers_of(metadata)[-1].outputs)
    # of the weights in files of an earlier state
    types = {SCORE_TYPE.name, metadata["dtype"]}
    if score.shape != shape or score.dtype.name not in types:
        kind = f"{score.dtype.name} {score.shape}"
        expected = f"{SCORE_TYPE.name} {shape}"
        raise _damaged(path, f"{SCORE} is {kind}, expected {expected}")
    _check_finite(path, SCORE, score)


def _check_tensors(path, tensors: dict[str, np.ndarray], metadata: dict) -> None:
    for name, array in tensors.items():
        if array.dtype.name != metadata["dtype"]:
            raise _damaged(
                path, f"{name} is {array.dtype.name}, expected {metadata['dtype']}"
            )
        _check_finite(path, name, array)
    shapes = {name: array.shape for name, array in tensors.items()}
    expected = parameter_shapes(_layers_of(metadata))
    for name in sorted(expected.keys() | shapes.keys()):
        if expected.get(name) != shapes.get(name):
            raise _damaged(
                path,
                f"{shortened(name)} has shape {shapes.get(name)}, "
                f"its layers {shortened(metadata['layers'])} need {expected.get(name)}",
            )


def _check_finite(path, name: str, array: np.ndarray) -> None:
    """Raise DataError unless all numbers are finite; looks at some at a time, for there
    may be little memory left."""
    values = array.reshape(-1)
    step = 1 << 16
    for start in range(0, values.size, step):
        if not np.isfinite(values[start : start + step]).all():
            raise DataError(
                f"{path}: {name} holds a number that is not finite; train again"
            )


def is_model(path: str | os.PathLike) -> bool:
    """Return True for a model, by its name or its first bytes (a safetensors header
    begins at byte 8)."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return is_text(path) or file.read(9)[8:] == b"{"
    except OSError:
        return False
