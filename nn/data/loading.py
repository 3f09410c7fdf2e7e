"""The road of a table: open its files, read the columns that are meant, decide what
they are, make a Dataset; the same with the columns of a model, and the rows that its
training held out.

path, frame ─► source ─► places ─► table ─► decision ─► Dataset
        formats       lookup    read     schema
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..settings.values import BYTES, split_names
from ..utils import (
    DataError,
    InputNotFound,
    LayersMismatch,
    UsageError,
    log,
    names_apart,
    network_of,
)
from . import records
from .arrays import Arrays, images_of
from .column import (
    CLASS_NAME,
    TYPES_OF_NUMPY,
    Column,
    Selection,
    Table,
    is_coarse,
    is_code,
    is_target_gap,
    odd_words,
    settled,
)
from .dataset import PICTURE_NAMES, Dataset, columns_digest, name_of, of_each_row
from .encoders import ColumnEncoder
from .fields import odd_remarks
from .formats import TABLE_FORMATS, recognise
from .frames import open_column, open_frame
from .kinds import NUMBER, Kind, column_kind, decide_kinds
from .lookup import column_mismatch, columns_asked_for, find_places
from .pixels import BYTE, log_range
from .remarks import remarks_on
from .roles import (
    role_values,
    rows_of_table,
    without_class_name,
    without_unlabelled,
    without_weightless,
)
from .schema import (
    EXPOSURE,
    ROW_ROLES,
    Choices,
    Places,
    Schema,
    check_has_exposure,
)
from .source import TableSource, absolute, are_there, is_uri, lies_elsewhere, short_name
from .splits import Split, split_rows
from .table_rows import TableRows
from .targets import dataset_of, now_among, targets_may_lack, targets_of
from .twins import sets_of_twins
from .written import canonical_word


def load(
    path,
    schema: Schema,
    *,
    labelled: bool = True,
    memory: int | str | None = None,
    y=None,
    beside: Mapping[str, Any] | None = None,
) -> Dataset:
    """Read a data set; ds.load explains the arguments and the errors. path: may be a
    data frame too. beside: weights, exposures, groups and times of the rows of such
    data, as a Dataset names them; rows of weight 0 leave before anything is decided by
    the rows."""
    if memory is not None:
        memory = BYTES("--memory", memory)
    with records.within(records.share_of(memory)):
        ds = _loaded(path, schema, labelled, y, beside or {})
    ds.memory = memory
    if schema.choices.drop_duplicates and ds.y is not None:
        if ds.are_images:
            raise UsageError(
                "--drop_duplicates: is for rows of tables, the data are images; leave it out"
            )
        ds.sets_of_twins = sets_of_twins(ds, np.arange(ds.rows))
    return ds


def _loaded(
    path, schema: Schema, labelled: bool, y, beside: Mapping[str, Any]
) -> Dataset:
    """Read data of any form: a data frame, an array, a file or a folder."""
    source = None
    if not isinstance(path, str):
        source = open_frame(path, y=y)
    if source is not None:
        if y is not None:
            schema = _with_targets_behind(source, schema)
        return _of_table(source, source.path, schema, labelled, beside)
    for name in beside:
        raise UsageError(
            f"--{name.removesuffix('s')}: values of rows go with a data frame or an array of features; name a column "
            "of the data"
        )
    if y is not None or not isinstance(path, (str, os.PathLike)):
        return _of_image_array(path, y, schema, labelled)
    path = os.fspath(path)
    file_format, files = recognise(path)
    if file_format.arrays:
        dtype = schema.number_type or schema.dtype
        return _of_arrays(file_format.arrays(files[0], dtype, labelled), path, schema)
    if file_format.pictures:
        return _of_arrays(file_format.pictures(files, schema, labelled), path, schema)
    source = file_format.table(files, path, schema)
    return _of_table(source, absolute(path), schema, labelled, beside)


def _with_targets_behind(source: TableSource, schema: Schema) -> Schema:
    """Return the schema of features with targets beside them, which are the last
    columns of the source."""
    places = range(source.features, source.width)
    if len(places) == 1 and not schema.follows_model:
        return replace(schema, target=None)  # the last column is the target anyway
    return replace(schema, target=",".join(map(str, places)))


def _of_image_array(path, y, schema: Schema, labelled: bool) -> Dataset:
    """Return the data set of images in an array. Raises UsageError for other data that
    are no table and no path."""
    is_array = isinstance(path, np.ndarray)
    if is_array and path.ndim in (3, 4) and (y is not None or not labelled):
        images = images_of(path, y, schema.number_type or schema.dtype)
        if images.targets is not None:
            images.targets.label_type = TYPES_OF_NUMPY.get(np.asarray(y).dtype.kind)
        return _of_arrays(images, None, schema)
    if y is not None:
        raise UsageError(
            "y: goes with a data frame or an array of features; leave it out"
        )
    if is_array:
        raise UsageError(
            f"an array of shape {path.shape}, expected (rows, columns), or images and y beside them"
        )
    raise UsageError(
        f"data: found {type(path).__name__}, expected a path, a data frame, an array, "
        "a dictionary of columns or a list of rows, each as long as the others"
    )


def _of_table(
    source: TableSource,
    recorded: str,
    schema: Schema,
    labelled: bool,
    beside: Mapping[str, Any],
) -> Dataset:
    """Return the data set of a table. recorded: its path, as a model keeps it.

    Rows of weight 0 leave before anything is decided by the rows, then those without a
    target.
    """
    places = find_places(source, schema, labelled)
    table = source.read(_selection_of(places, schema))
    rows = len(table)
    columns = {name: values for name, values in beside.items() if name in _AS_COLUMNS}
    beside = {
        name: of_each_row(name, values, rows, source.path)
        for name, values in beside.items()
        if name not in columns
    }
    weights = beside.get("weights")
    facts: dict[str, Any] = {"path": recorded}
    _unify_groups(table, places)
    has_weights = (labelled or schema.weighs) and not schema.plain
    if has_weights and "weight" in places.roles:
        weights = table.columns[places.roles["weight"]].values
    if has_weights and not schema.keeps_weightless:
        undecided = _undecided(places, schema)
        table, counts = without_weightless(table, weights, undecided)
        facts |= counts
    for place in places.targets:
        if table.columns[place].reads == "text" and schema.classes is None:
            table.columns[place] = without_class_name(table.columns[place])
    if labelled and not schema.plain:
        may_lack = targets_may_lack(table, places.targets, schema)
        table, counts = without_unlabelled(source, table, places, may_lack)
        facts |= counts
    targets = [table.columns[place] for place in places.targets]
    is_whole = labelled or not any(column.is_gap.any() for column in targets)
    has_targets = bool(targets) and is_whole
    if table.kept is not None:
        beside = {name: values[table.kept] for name, values in beside.items()}
    for name, values in columns.items():
        beside[name] = _column_beside(name, values, table.kept, rows, schema)
    return _dataset(source, table, places, schema, has_targets, beside, **facts)


def _unify_groups(table: Table, places: Places) -> None:
    """Give the groups of a table one word for 1, 1.0 and 1e0."""
    if "group" not in places.roles:
        return
    place = places.roles["group"]
    groups = table.columns[place]
    kind = column_kind(groups, Kind("category"), "")
    table.columns[place] = canonical(groups, kind)


# what is read beside rows as a column of theirs would be -> its role
_AS_COLUMNS = {"groups": "group", "times": "time"}


def _column_beside(
    name: str, values, kept: np.ndarray | None, rows: int, schema: Schema
) -> np.ndarray:
    """Return groups or times beside a frame, as a column of it gives them. kept: those
    of its rows that stay, None: all. Raises DataError."""
    role = _AS_COLUMNS[name]
    source = open_column(values, f"--{role}", "the data frame")
    places = Places([], [], roles={role: 0})
    table = source.read(_selection_of(places, replace(schema, encoding=None)))
    if len(table) != rows:
        raise DataError(
            f"{source.path}: {len(table)} {name} for {rows} rows, expected one for each"
        )
    _unify_groups(table, places)
    if kept is not None:
        stays = np.zeros(rows, bool)
        stays[kept] = True
        table = rows_of_table(table, stays)
    return role_values(source, table, places)[name]


def _selection_of(places: Places, schema: Schema) -> Selection:
    """Return what is read of a table: the columns that are meant, as a model has them,
    a person says, or they are."""
    target_kind = _target_kind(places, schema)
    reads = _feature_kinds(places, schema)
    reads |= dict.fromkeys(places.targets, target_kind)
    reads |= dict.fromkeys(places.ids, "text")
    exact = set(places.targets)
    for role, place in places.roles.items():
        reads[place] = ROLE_READS[role]
        if role != "group":
            exact.add(place)
    missing = schema.missing
    if schema.plain or (schema.is_numeric and not schema.follows_model):
        missing = frozenset()
    names = frozenset()
    if target_kind != "number":
        names = _class_names(schema, missing)
    return Selection(
        reads,
        frozenset(exact),
        frozenset(places.ids),
        frozenset(places.targets),
        missing,
        schema.number_type or schema.dtype,
        names,
        schema.number_type is not None,
    )


def _feature_kinds(places: Places, schema: Schema) -> dict[int, str | None]:
    """Return what features are read as, None for what their fields are."""
    if schema.is_numeric:
        return dict.fromkeys(places.features, "number")
    if schema.follows_model:
        kinds = [encoder.reads for encoder in schema.encoding.encoders]
        return dict(zip(places.features, kinds, strict=True))
    reads = dict.fromkeys(places.features)
    for place in reads.keys() & places.choices.keys():
        if places.choices[place] != NUMBER:
            reads[place] = "text"
    return reads


def _target_kind(places: Places, schema: Schema) -> str | None:
    """Return what targets are read as, None for what their fields are."""
    may_be_labels = schema.task in ("auto", "multilabel") and not schema.plain
    if schema.plain or (len(places.targets) > 1 and not may_be_labels):
        return "number"
    for name in schema.classes or ():
        if is_code(name) or is_target_gap(name, schema.missing):
            return "text"
    return None


def _undecided(places: Places, schema: Schema) -> list[int]:
    """Return the columns whose words decide what they are."""
    reads = _selection_of(places, schema).reads
    columns = {*places.features, *places.targets}
    return [place for place in columns if reads[place] is None]


def _class_names(schema: Schema, missing: frozenset[str]) -> frozenset[str]:
    """Return the words for a gap that a target may have as names of classes: those of a
    model, else CLASS_NAME."""
    if schema.task == "regression":
        return frozenset()
    if schema.classes is not None:
        gaps = (name for name in schema.classes if is_target_gap(name, missing))
        return frozenset(gaps)
    return frozenset({CLASS_NAME}.difference(split_names(schema.choices.missing)))


# what the columns that say something of their row are read as
ROLE_READS = {"weight": "number", "exposure": "number", "group": "text", "time": None}


class _Inputs(NamedTuple):
    """The columns that a network sees, by their places in the file."""

    columns: dict[int, Column]
    kinds: Sequence[Kind | ColumnEncoder] | None  # of each; None: all are numbers
    left_out: dict[int, str]  # place -> why
    are_clean: bool  # the columns of the file hold numbers only
    are_decided: bool  # whether these rows decided the kinds


def _dataset(
    source: TableSource,
    table: Table,
    places: Places,
    schema: Schema,
    has_targets: bool,
    beside: Mapping[str, np.ndarray],
    **facts,
) -> Dataset:
    """Return the data set of a table's rows: what its columns are, words that are none
    of their values, the number of columns, the rows, the facts of them. beside: what
    they have that is no column of the table."""
    inputs = _inputs_of(source, table, places, schema)
    columns = inputs.columns
    remarks = []
    if not inputs.are_clean:
        kinds = inputs.kinds or [NUMBER] * len(columns)
        remarks = odd_remarks(source, table, columns, places, schema, kinds)
    _check_width(source, inputs, schema)
    x, kinds = _rows_of(table, inputs, schema)
    targets = None
    if has_targets:
        targets = targets_of(source, table, places.targets, schema)
    facts |= _facts_of(source, table, places, schema, inputs) | beside
    if "exposures" in beside and not schema.follows_model:
        facts["kept_choices"] |= _exposure_beside(facts["columns"])
    if table.sha256 is None or not isinstance(x, np.ndarray):
        facts["digest"] = _digest_of(table, places, schema, columns, beside)
    if not inputs.are_decided:
        kinds = ()
    ds = dataset_of(x, targets, schema, kinds=tuple(kinds), **facts)
    remarks = [*_remarks_on_rows(source, table), *remarks]
    if schema.follows_model:
        for line in remarks:
            log.warning("%s", line)
        return ds
    bounds = [(column.low, column.high) for column in columns.values()]
    ds.remarks += [*remarks, *remarks_on(ds, bounds)]
    return ds


def _inputs_of(
    source: TableSource, table: Table, places: Places, schema: Schema
) -> _Inputs:
    """Return what the columns of a table are: as a model has them, else as their rows
    say."""
    columns = {place: table.columns[place] for place in places.features}
    are_clean = all(map(_is_clean, columns.values()))
    kinds = None
    left_out = {}
    if not schema.is_numeric:
        kinds = schema.encoding and schema.encoding.encoders
    is_undecided = not schema.follows_model and not schema.is_numeric
    if is_undecided:
        are_plain = are_clean and not places.choices
        decided, left_out = decide_kinds(source, columns, places.choices, are_plain)
        kinds = list(decided.values())
        columns = {place: columns[place] for place in decided}
    if not are_clean and kinds:
        pairs = zip(columns.items(), kinds, strict=True)
        columns = {place: canonical(column, kind) for (place, column), kind in pairs}
    return _Inputs(columns, kinds, left_out, are_clean, is_undecided and bool(kinds))


def _check_width(source: TableSource, inputs: _Inputs, schema: Schema) -> None:
    """Raise LayersMismatch unless the columns are as many as --layers say."""
    count = len(inputs.columns)
    if schema.width in (None, count):
        return
    if not inputs.left_out or count + len(inputs.left_out) != schema.width:
        width = count if schema.target is not None else source.width
        raise LayersMismatch(column_mismatch(source, width, schema))
    reasons = ", ".join(
        f"{source.name(place)} ({why})" for place, why in inputs.left_out.items()
    )
    raise LayersMismatch(
        f"{source.path}: {count} columns are inputs, expected {schema.width}; left out: {reasons}; begin "
        f"--layers with {count} or auto, or keep a column by --numbers or --categories"
    )


def _rows_of(table: Table, inputs: _Inputs, schema: Schema):
    """Return (rows, kinds of their columns): a matrix without kinds where all are plain
    numbers."""
    columns = inputs.columns
    are_plain = inputs.are_decided and (
        inputs.are_clean or all(map(_is_clean, columns.values()))
    )
    if not schema.is_numeric and not are_plain:
        return _in_one_type(TableRows(tuple(columns.values()))), inputs.kinds
    x = _matrix(table, list(columns))
    if schema.is_numeric and schema.pixels is not None:
        x = _pixels(x, schema)
    return x, ()


def _facts_of(
    source: TableSource, table: Table, places: Places, schema: Schema, inputs: _Inputs
) -> dict[str, Any]:
    """Return what a Dataset keeps of the table that its rows come from."""
    used = {*inputs.columns, *places.targets}
    names = source.names and [source.names[place] for place in inputs.columns]
    targets = source.names and [source.names[place] for place in places.targets]
    left_out = {source.name(place): why for place, why in inputs.left_out.items()}
    left_out_places = [place for place in range(source.width) if place not in used]
    reasons = dict.fromkeys(left_out_places, "dropped")
    reasons |= dict.fromkeys(places.ids, "id")
    reasons |= {place: role for role, place in places.roles.items()}
    reasons |= inputs.left_out
    facts = {
        "columns": names,
        "targets": targets,
        "given": source.path,
        "digest": table.sha256,
        "now": now_among(names, targets),
        "ids": _texts_of(source, table, places.ids),
        "places": tuple(inputs.columns),
        "left_out": left_out,
        "left_out_places": tuple(left_out_places),
        "unused": [[source.name(place), reasons[place]] for place in left_out_places],
        "kept_choices": schema.choices.kept(),
        "column_choices": schema.choices.of_columns(),
    }
    if places.roles:
        facts |= role_values(source, table, places)
    return facts


def _exposure_beside(columns: list[str] | None) -> dict[str, str]:
    """Return the choice that a model keeps whose exposures are no column of its rows:
    the name that the column of other rows has. Raises UsageError where an input has
    it."""
    if EXPOSURE in (columns or ()):
        raise UsageError(
            f"--exposure: values of each row, and a column called {EXPOSURE} is an input; leave that one out, "
            f"or give its name, --exposure {EXPOSURE}"
        )
    return {"exposure": EXPOSURE}


def _digest_of(
    table: Table,
    places: Places,
    schema: Schema,
    columns: dict[int, Column],
    beside: Mapping[str, np.ndarray],
) -> str:
    """Return the digest of all columns that are read, of a table that has none as a
    file."""
    targets = [
        _as_in_training(table.columns[place], schema) for place in places.targets
    ]
    roles = [table.columns[place] for place in places.roles.values()]
    roles += [Column("number", values.astype(np.float64)) for values in beside.values()]
    ids = [table.columns[place] for place in places.ids]
    return columns_digest(list(columns.values()), targets, roles, ids)


def _as_in_training(column: Column, schema: Schema) -> Column:
    """Return a target as the training of a model had it: an earlier version took codes,
    01, for numbers."""
    if column.reads != "text" or any(map(is_code, schema.classes or column.words)):
        return column
    return settled(column, None, is_pure=True)


def _remarks_on_rows(source: TableSource, table: Table) -> list[str]:
    """Return a line for rows that repeat the names of the columns."""
    if not table.repeats:
        return []
    times = f"{table.repeats} times" if table.repeats > 1 else "once"
    return [
        f"{source.path}: the names of the columns come again {times} among the rows; left out"
    ]


def _in_one_type(x: TableRows) -> TableRows:
    """Return rows with all columns of numbers in one type, as a model reads them: some
    were texts before."""
    numbers = [column for column in x.columns if column.reads == "number"]
    types = {column.values.dtype for column in numbers}
    if len(types) < 2:
        return x
    if any(is_coarse(column.low, column.high) for column in numbers):
        return x.in_type("float64")
    return x.in_type(min(types))


def _is_clean(column: Column) -> bool:
    """Return whether a column holds numbers only: no gap, no odd word, none that is
    infinite as float32."""
    return column.reads == "number" and bool(np.isfinite(column.values).all())


def canonical(column: Column, kind: Kind | ColumnEncoder) -> Column:
    """Return a column as its kind has it: dates and numbers for words that are, one
    word for 1, 1.0 and 1e0."""
    decimals = getattr(kind, "decimals", False)
    truths = getattr(kind, "truths", False)
    if decimals or truths:
        words = [canonical_word(word, decimals, truths) for word in column.words]
        return column.with_words(words)
    if kind.written:
        values = kind.written.values_of(column.words)
        return replace(column, odd=odd_words(column, values))
    return settled(column, kind.reads)


def _matrix(table: Table, places: list[int]) -> np.ndarray:
    """Return columns of numbers as an array (rows, columns), the table's own if it
    holds just these."""
    if places == table.number_places:
        return table.numbers
    kept = np.searchsorted(table.number_places, places).tolist()
    x = records.new_rows((len(table), len(kept)), table.numbers.dtype)
    np.take(table.numbers, kept, axis=1, out=x, mode="clip")
    return x


def _pixels(x: np.ndarray, schema: Schema) -> np.ndarray:
    """Return columns as pixels (rows, channels, height, width). In a training they are
    bytes where all are whole numbers in 0..255; in later uses only for a model of
    bytes, which reads other numbers likewise."""
    may_be_bytes = schema.pictures is None or schema.pictures["range"] == BYTE
    if may_be_bytes and ((x >= 0) & (x <= BYTE) & (x == np.floor(x))).all():
        x = x.astype(np.uint8)
    return x.reshape(-1, *schema.pixels)


def kept_columns(
    path: str, schema: Schema, names: str, flag: str = "id"
) -> dict[str, list[str]]:
    """Return the text of columns of a file, which predictions are written beside.
    names: with commas, * for all; flag: that asks for them."""
    file_format, files = recognise(path)
    if not file_format.table:
        raise UsageError(f"--{flag} {names}: keeps columns of a table, {path} is none")
    source = file_format.table(files, path, schema)
    if names == "*":
        places = list(range(source.width))
    else:
        places = columns_asked_for(source, flag, names)
    reads = dict.fromkeys(places, "text")
    table = source.read(Selection(reads, raw=frozenset(places), missing=frozenset()))
    return _texts_of(source, table, places)


def _texts_of(
    source: TableSource, table: Table, places: Sequence[int]
) -> dict[str, list[str]]:
    """Return the texts of columns by their names; of several of one name each has its
    own."""
    names = names_apart(list(map(source.name, places)))
    return {
        name: table.columns[place].texts()
        for name, place in zip(names, places, strict=True)
    }


# ---------------------------------------------------------------- images and arrays


def _of_arrays(arrays: Arrays, path: str | None, schema: Schema) -> Dataset:
    """Return the data set of a file's arrays; path: None for those that are beside the
    call."""
    where = path or "the array"
    if schema.target is not None:
        tables = ", ".join(entry.name for entry in TABLE_FORMATS if entry.table)
        raise UsageError(
            f"{where}: --target names a column of a table ({tables}); leave it out"
        )
    x = arrays.x
    shape = schema.pixels or (schema.inputs,)
    if schema.inputs is not None:
        same_values = math.prod(shape) == math.prod(x.shape[1:])
        if not same_values or (schema.pixels and x.ndim == 4 and shape != x.shape[1:]):
            shape_text = "x".join(map(str, x.shape[1:]))
            expected = "x".join(map(str, shape))
            raise LayersMismatch(
                f"{where}: {shape_text} values a row, expected {expected}, one "
                "per input of the network; check --layers"
            )
        if schema.pixels:
            x = x.reshape(-1, *shape)
    facts = {}
    if path is not None:
        facts = {"path": absolute(path), "given": path, "digest": arrays.sha256}
        facts["now"] = arrays.now
    if arrays.names is None:
        log_range(schema.pictures, x, where)
    else:
        facts["ids"] = {PICTURE_NAMES: arrays.names}
        facts["pixel_range"] = arrays.pixel_range
    return dataset_of(x, arrays.targets, schema, **facts)


# ---------------------------------------------------------------- the data of a model


def load_for(  # noqa: PLR0913 - settings by keyword
    net,
    path: str | os.PathLike,
    *,
    target=None,
    labelled: bool = True,
    separator: str | None = None,
    header: str | None = None,
    memory: int | None = None,
    y=None,
    strict: bool = False,
    weighs: bool = False,
    tells_unseen: bool = True,
    **roles,
) -> Dataset:
    """Read a data set with the columns, classes and target that `net` was trained with;
    else as ds.load.

    Gaps in columns of which training had plain numbers become their medians, with a
    remark; strict refuses them, and words among numbers. weighs: rows without targets
    have their weights too, where the data have that column. tells_unseen: log columns
    with many unseen values; not needed where the drift of a network that knows its
    columns is told. roles: weight, exposure, group, time: values of each row, in place
    of a column.
    Raises UsageError where `memory` is too little for the network.
    """
    net = network_of("load_for", net)
    if memory is not None:
        memory = BYTES("--memory", memory)
    records.check_memory(
        memory, records.program_bytes(net, records.PREDICTED_ROWS), "this network"
    )
    schema = replace(net.schema, weighs=weighs)
    if target is not None:
        schema = replace(schema, target=target)
    choices = replace(schema.choices, strict=strict)
    choices, beside = _without_columns(choices, roles)
    if separator:
        choices = replace(choices, separator=separator)
    if header:
        choices = replace(choices, header=header)
    schema = replace(schema, choices=choices)
    ds = load(path, schema, labelled=labelled, memory=memory, y=y, beside=beside)
    for line in filter(None, [ds.about_unlabelled(), ds.about_weightless()]):
        log.warning("%s: %s", name_of(ds), line)
    ds.is_left_out_logged = not ds.duplicates()
    if schema.fills_gaps and not strict:
        ds = without_gaps(net, ds, "; --strict refuses them")
    if net.encoding is not None and (tells_unseen or net.profiles is None):
        net.encoding.log_unknown(TableRows.of(ds.x))
    if labelled:
        return ds.for_loss(net.loss)
    return ds


def _without_columns(choices: Choices, roles: dict) -> tuple[Choices, dict]:
    """Return (choices without columns whose places values of each row take, these
    values as a Dataset names them). roles: the values, None for none. Raises UsageError
    for exposures that a model does not have, TypeError for another role."""
    for role in roles:
        if role not in ROW_ROLES:
            raise TypeError(f"load_for() got an unexpected keyword argument '{role}'")
    given = {role: values for role, values in roles.items() if values is not None}
    if "exposure" in given:
        check_has_exposure(choices)
    beside = {f"{role}s": values for role, values in given.items()}
    return replace(choices, **dict.fromkeys(given)), beside


def without_gaps(net, ds: Dataset, cure: str = "") -> Dataset:
    """Return a data set with the medians of `net`, trained on plain numbers, in its
    gaps, of which one line tells;
    other data as they are. cure: the end of the line."""
    with records.within(records.share_of(ds.memory)):
        x = net.reader.filled(ds.x, name_of(ds), cure)
    if x is ds.x:
        return ds
    return replace(ds, x=x, unfilled_x=ds.x)


def held_out(
    net,
    model: str | os.PathLike,
    *,
    whole: bool = False,
    force: bool = False,
    memory: int | None = None,
) -> Dataset:
    """Read the rows that `net`, read from the file `model`, was not trained on.

    Where the data was too small to hold any out these are all rows. `whole` takes all
    rows of a model that was to hold nothing out, as the original program tested.
    `force` takes data that has changed since. Raises UsageError if nothing was held out
    or the model does not say what it was trained on, InputNotFound if the data is gone,
    DataError if it has changed.
    """
    holdout = net.config.get("holdout", net.holdout)
    if net.config.get("window"):
        raise UsageError(
            f"{model} was trained on windows of rows, of which this nn holds none out; give --dataset"
        )
    if not (holdout or whole or net.config.get("reference")):
        raise UsageError(
            f"{model} was trained with --holdout 0, so no rows are left to test on; give --dataset"
        )
    ds = training_dataset(net, model, force=force, memory=memory)
    rows = split_of_model(net, ds).holdout
    if len(rows):
        return ds.of_rows(rows)
    return ds


def training_dataset(
    net, model: str | os.PathLike, *, force: bool = False, memory: int | None = None
) -> Dataset:
    """Read all rows of the data set that `net`, read from the file `model`, was trained
    on; as held_out."""
    if (net.dataset or {}).get("part"):
        path = short_name(net.dataset["path"])
        raise UsageError(
            f"{model} was trained on some rows of {path}, and does not know which; give --dataset"
        )
    ds = load_for(net, training_file(net, model), memory=memory)
    if ds.sha256 != net.dataset["sha256"]:
        changed = f"{name_of(ds)} has changed since {model} was trained on it"
        if not force:
            raise DataError(
                f"{changed}; restore the old file, give another with --dataset, or train again"
            )
        log.warning("%s; used anyway because of --force", changed)
    return ds


def split_of_model(
    net, ds: Dataset, holdout: float | None = None, split_seed: int | None = None
) -> Split:
    """Return the split of the data that a network was trained on into the rows that it
    was trained on, those that validated among them, and those that it held out.
    holdout, split_seed: of an ancestor."""
    is_whole = net.weightless_rows is None
    if holdout is None:
        holdout = net.holdout
    if split_seed is None:
        split_seed = split_seed_of(net)
    return split_rows(ds, holdout, 0.0, split_seed, keeps_weightless=is_whole)


def split_seed_of(net) -> int:
    """Return the seed that drew the rows that a network's training held out."""
    return net.config.get("split_seed", net.seed)


def training_file(net, model: str | os.PathLike) -> str:
    """Return where the data is that `net` was trained on: at its recorded place, else
    beside the file `model`."""
    recorded = (net.dataset or {}).get("path")
    if recorded is None:
        raise UsageError(f"{model} does not record its training data; give --dataset")
    files = [recorded] if os.path.exists(recorded) else recorded.split(",")
    copy = ",".join(str(Path(model).parent / _file_name(file)) for file in files)
    if not lies_elsewhere(recorded) and are_there(recorded):
        return recorded
    if are_there(copy):
        return copy
    if lies_elsewhere(recorded):
        raise UsageError(
            f"{model} was trained on {recorded}, and no host is asked because a model names it; copy the data to "
            f"{copy}, or give --dataset"
        )
    raise InputNotFound(
        f"{recorded}: the training data of {model} is missing, and so is {copy}; "
        "restore it or give other data with --dataset"
    )


def _file_name(file: str) -> str:
    """Return the name of a file without its folder, and without the query of a URI."""
    return Path(file.partition("?")[0] if is_uri(file) else file).name
