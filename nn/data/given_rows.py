"""Rows that somebody gives to a prediction: a file, a data frame, a list, an array; as
a network's inputs are counted."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from ..utils import DataError
from .dataset import of_each_row
from .encoding import CALL_ROWS
from .schema import check_has_exposure
from .table_rows import TableRows, with_gaps


def rows_of(net, x) -> np.ndarray | TableRows:
    """Return what predict was given as rows: an array, a file, or a data frame, whose
    columns are found by their names. Medians are in the gaps of plain numbers, of which
    a remark tells."""
    return rows_and_exposures(net, x)[0]


def rows_and_exposures(
    net, x, exposure=None
) -> tuple[np.ndarray | TableRows, np.ndarray | None]:
    """Return what rows_of does, and the exposures of the rows (rows,) where they have
    any: rows that are the network's inputs already have none. exposure: of each row
    beside them, in place of a column. Raises UsageError where the network knows no
    exposures."""
    rows, exposures = _read(net, x, exposure)
    return net.reader.filled(rows, "the rows"), exposures


def times(outputs: np.ndarray, exposures: np.ndarray | None) -> np.ndarray:
    """Return outputs for rows (rows, outputs) times their exposures."""
    if exposures is None:
        return outputs
    return (outputs * exposures[:, None]).astype(outputs.dtype)


def read_rows(net, x) -> np.ndarray | TableRows:
    """Return the rows of a file, a table or an array as the network's inputs are
    counted."""
    return _read(net, x)[0]


def _read(net, x, exposure=None) -> tuple[np.ndarray | TableRows, np.ndarray | None]:
    """Return the rows that read_rows returns, and their exposures or None."""
    if isinstance(x, (str, os.PathLike)):
        from .loading import load_for

        ds = load_for(net, x, labelled=False, exposure=exposure)
        return ds.x, ds.exposures
    x = with_gaps(_numbers_of(x))
    if exposure is not None:
        return _rows_beside(net, x, exposure)
    fields = net.row_memory.fields_of(x)
    if fields is None:
        return _rows_of_any(net, x)
    rows = net.row_memory.rows_of(fields)
    if rows is None:
        rows, _ = _rows_of_any(net, x)
        net.row_memory.learn(fields, rows)
    return rows, None


def _rows_beside(net, x, exposure) -> tuple[np.ndarray | TableRows, np.ndarray]:
    """Return the rows of a table or an array, and their exposures, which are beside
    them."""
    check_has_exposure(net.schema.choices)
    rows, _ = _rows_of_any(net, x, has_column=False)
    return rows, of_each_row("exposures", exposure, len(rows), "the rows")


def _rows_of_any(
    net, x, has_column: bool = True
) -> tuple[np.ndarray | TableRows, np.ndarray | None]:
    """Return the rows of a table or an array, read as files are, and exposures.
    has_column: of exposures, where the network knows any."""
    if not _is_table(net, x):
        return _channels_first(net, x), None
    from .frames import open_frame  # the readers of files load the C core
    from .loading import load

    source = open_frame(x)
    if source is None:
        return _rows_of_any(net, _array_of(x), has_column)
    schema = net.schema
    if not has_column:
        schema = replace(schema, choices=replace(schema.choices, exposure=None))
    # a feature of the target's name is found with the target only
    is_named = source.names is not None and net.columns is not None
    if is_named and {*(net.targets or ())}.isdisjoint(net.columns):
        schema = replace(schema, targets=[])
    ds = load(x, schema, labelled=False)
    if net.encoding is not None:
        net.encoding.log_unknown(TableRows.of(ds.x), CALL_ROWS)
    return ds.x, ds.exposures


def _width_of_data(net) -> int:
    """Return the number of columns of the data that a network was trained on, those
    that it does not see too."""
    return net.inputs + len(net.config.get("left_out", ()))


def _is_table(net, x) -> bool:
    """Return whether columns of x are read as those of a file. Raises DataError for
    records that are no encoded rows of the network's."""
    if isinstance(x, TableRows):
        return False
    if not isinstance(x, np.ndarray):
        return True
    if x.dtype.names:
        if net.encoding is None or x.dtype != net.encoding.record_of(net.dtype):
            raise _no_table(x)
        return False
    if x.ndim != 2:
        return False
    if x.dtype.kind in "OUSM":
        return True
    # more than the features
    return x.shape[1] != net.inputs and x.shape[1] == _width_of_data(net)


def _channels_first(net, x):
    """Return images that have their channels last as data sets have them: first."""
    shape = net.layers[0].in_shape
    channels_last = (*shape[1:], shape[0])
    if x.ndim == 4 and shape != channels_last and x.shape[1:] == channels_last:
        return x.transpose(0, 3, 1, 2)
    return x


def _array_of(x) -> np.ndarray:
    """Return rows that are no table as an array of numbers or texts. Raises
    DataError."""
    try:
        array = np.asarray(x)
    except ValueError:  # lists of unequal lengths
        raise _no_table(x) from None
    if array.dtype.kind == "O" or not array.ndim:
        raise _no_table(x)
    return array


def _numbers_of(x):
    """Return a list of rows as an array if all of their fields are numbers; other rows
    as they are."""
    if not isinstance(x, (list, tuple)):
        return x
    try:
        array = np.asarray(x)
    except ValueError:  # lists of unequal lengths
        return x
    if array.dtype.kind in "biuf" and array.ndim > 1:
        return array
    return x


def _no_table(x) -> DataError:
    if type(x).__name__ == "Series":
        return DataError(
            "rows of type Series, expected a data frame; of one row that is frame.iloc[[0]], not frame.iloc[0]"
        )
    return DataError(
        f"rows of type {type(x).__name__}, expected an array (rows, columns) or a data frame"
    )
