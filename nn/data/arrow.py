"""Tables that pyarrow reads: Parquet, Arrow (Feather) and ORC, and columns of Arrow as
blocks.

Values are taken where Arrow has them: its to_numpy imports pandas, its is_null and
fill_null their own module, and both take longer than reading a table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from ..utils import DataError, InputNotFound, default_threads
from .column import Column
from .source import local, not_there, pyarrow
from .typed import Opened, Unreadable, numbers, recoded, texts, times, truths

_NEED = "Parquet, Arrow and ORC"
_TEXT_TYPES = ("string", "large_string", "string_view")
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")
# as Arrow calls NumPy's types
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def _opener(open_file: Callable) -> Callable[[str], Opened]:
    """Return what opens a file by open_file: (path) -> (names, rows, pieces, piece),
    and tells the failures of pyarrow.

    piece(number), below `pieces`, returns some rows, a table or a batch.
    """

    def opened(path: str) -> Opened:
        with _reading(path):
            names, rows, pieces, piece = open_file(local(path))
        if rows < 0:
            raise _damaged(path, f"{rows} rows")
        chosen = [i for i, name in enumerate(names) if not _ROW_NUMBERS.fullmatch(name)]

        def block(columns: list, place: int) -> Column:
            with _reading(path):
                return arrow_block(columns[chosen[place]])

        def parts(_places: list[int]) -> Iterator[tuple[int, Callable[[int], Column]]]:
            with _reading(path):
                for number in range(pieces):
                    columns = piece(number).columns
                    if len(set(map(len, columns))) > 1:
                        raise _damaged(path, "columns of different lengths")
                    if len(columns[0]):
                        yield len(columns[0]), partial(block, columns)

        return Opened([names[i] for i in chosen], rows, parts)

    return opened


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn the failures of pyarrow into a DataError."""
    pa = pyarrow(_NEED)
    try:
        yield
    except FileNotFoundError:
        raise not_there(path) from None
    except ArithmeticError as error:
        raise _damaged(path, "a decimal that is none") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise InputNotFound(
                f"{path}: cannot read: {os.strerror(error.errno)}"
            ) from error
        raise _damaged(path, str(error)) from error


def _damaged(path: str, reason: str) -> DataError:
    reason = " ".join(reason.split()).rstrip(".")[:200]
    return DataError(
        f"{path}: cannot be read ({reason}); copy it again or write it anew"
    )


# ---------------------------------------------------------------- the formats


@_opener
def parquet(path: str) -> tuple:
    """Open a Parquet file: row groups one after another, texts as indices into a
    dictionary."""
    from pyarrow import parquet

    opened = parquet.ParquetFile(path)
    metadata = opened.metadata
    schema = opened.schema_arrow
    texts = [field.name for field in schema if str(field.type) in _TEXT_TYPES]
    if texts:
        opened = parquet.ParquetFile(path, metadata=metadata, read_dictionary=texts)

    def piece(group: int):
        table = opened.read_row_group(group, use_threads=default_threads() > 1)
        if table.num_rows != metadata.row_group(group).num_rows:
            raise pyarrow(_NEED).ArrowInvalid(
                "a row group with other rows than it says"
            )
        return table

    return schema.names, metadata.num_rows, metadata.num_row_groups, piece


@_opener
def feather(path: str) -> tuple:
    """Open a file of Arrow's file format, which is Feather's as well."""
    from pyarrow import ipc

    def opened(columns: list[int]):
        return ipc.open_file(
            path, options=ipc.IpcReadOptions(included_fields=columns, use_threads=False)
        )

    def piece(number: int):
        batch = whole.get_batch(number)
        # pyarrow believes the places of texts that a file names
        batch.validate(full=True)
        return batch

    whole = opened([])
    names = whole.schema.names
    pieces = whole.num_record_batches
    first_columns = opened(names and [0])  # of the columns
    return (
        names,
        sum(first_columns.get_batch(number).num_rows for number in range(pieces)),
        pieces,
        piece,
    )


@_opener
def orc(path: str) -> tuple:
    """Open an ORC file."""
    from pyarrow import orc

    opened = orc.ORCFile(path)
    return opened.schema.names, opened.nrows, opened.nstripes, opened.read_stripe


# ---------------------------------------------------------------- columns


def arrow_block(column) -> Column:
    """Return the block of a column (pyarrow.Array or ChunkedArray). Raises
    Unreadable."""
    pa = pyarrow("columns of Arrow")
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    kind = column.type
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind)
    if types.is_null(kind) or not len(column):
        return texts(np.full(len(column), -1, np.int32), [])
    if types.is_duration(kind):
        raise Unreadable("durations")
    # a timestamp with a zone holds universal time
    is_time = types.is_timestamp(kind) or types.is_date(kind)
    is_number = types.is_integer(kind) or types.is_floating(kind)
    if not is_number and not is_time and not types.is_boolean(kind):
        return _texts(pa, column)
    array = _whole(pa, column)
    is_null = None
    if array.null_count:
        is_null = ~_bits(array.buffers()[0], array)
    if types.is_boolean(kind):
        return truths(_bits(array.buffers()[1], array), is_null)
    name = str(kind)
    if not is_time:
        return numbers(_values(array, _FLOATS.get(name, name)), is_null)
    unit = {"date64[ms]": "ms", "date32[day]": "D"}.get(name) or kind.unit
    ticks = _values(array, "int32" if unit == "D" else "int64").astype(np.int64)
    if is_null is not None:
        ticks[is_null] = np.iinfo(np.int64).min  # NaT
    return times(ticks.view(f"datetime64[{unit}]"))


def _whole(pa, column):
    """Return a column as one array, without a copy where it is one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks)


def _bits(buffer, array) -> np.ndarray:
    """Return a buffer's bit for each field of an array."""
    bits = np.unpackbits(
        np.frombuffer(buffer, np.uint8),
        bitorder="little",
        count=array.offset + len(array),
    )
    return bits[array.offset :].view(bool)


def _values(array, dtype: str) -> np.ndarray:
    """Return the values of an array as what they are stored as, a type of numbers;
    anything for a null."""
    return np.frombuffer(
        array.buffers()[1], dtype, len(array), np.dtype(dtype).itemsize * array.offset
    )


def _texts(pa, column) -> Column:
    """Return the block of a column whose fields have a text; each different field is
    converted once."""
    kind = column.type
    try:
        if not pa.types.is_dictionary(kind):
            column = column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # lists, structures, ...
        raise Unreadable(
            f"fields of type {str(kind).replace('element', 'item')}"
        ) from None
    array = _whole(pa, column.unify_dictionaries() if column.num_chunks > 1 else column)
    indices = array.indices
    values = array.dictionary.to_pylist()
    if any(isinstance(value, bytes) for value in values):
        raise Unreadable(f"fields of type {kind}")
    codes = _values(indices, str(indices.type))
    is_known = slice(None)
    if indices.null_count:
        is_known = _bits(indices.buffers()[0], indices)
    known_codes = codes[is_known]
    if len(known_codes) and not 0 <= known_codes.min() <= known_codes.max() < len(
        values
    ):
        raise pa.ArrowInvalid("an index beyond its dictionary")
    places = np.full(len(codes), -1, np.int32)
    places[is_known] = known_codes
    if all(isinstance(value, str) for value in values):
        return texts(places, values)
    return recoded(places, values)
