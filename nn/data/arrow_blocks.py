"""Arrow's columns as column blocks; pyarrow is imported when one is first needed.

Values are taken where Arrow has them: its to_numpy imports pandas, its is_null and fill_null their own module, and both
take longer than reading a table.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

import numpy as np

from ..utils import UsageError, check_room_to_load, has_address_limit, needs_package
from .column_blocks import ColumnBlock, Dates, Numbers, Opaque, Words, durations, truths

# types of numbers, as Arrow calls them where NumPy has another name
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}
_ROOM = 192 << 20  # bytes of addresses that pyarrow's libraries and threads take


def pyarrow(what: str) -> ModuleType:
    """Return the package. Raises UsageError if it is not installed; `what` needs it."""
    if "pyarrow" not in sys.modules:
        _prepare()
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise UsageError(needs_package("arrow", f"{what} need")) from None
    return pyarrow


def _prepare() -> None:
    """Where addresses are limited, let pyarrow reserve few: its threads end the process where they find none."""
    if has_address_limit():
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        os.environ.setdefault("MIMALLOC_ARENA_RESERVE", "16MiB")  # of 1 GiB
        check_room_to_load(_ROOM)


def arrow_block(column) -> ColumnBlock:
    """Return the block of a column (pyarrow.ChunkedArray)."""
    pa = pyarrow("columns of Arrow")
    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind)
    if types.is_null(kind):
        return Words(np.full(len(column), -1, np.int8), [])
    if _is_number(pa, kind):
        array = _whole(pa, column)
        return Numbers(_filled(array, kind), _is_null(array))
    if types.is_nested(kind) or _is_binary(pa, kind) or _is_binary(pa, getattr(kind, "value_type", kind)):
        return Opaque(len(column), _name_of(kind), _is_null(_whole(pa, column)))
    if types.is_boolean(kind):
        array = _whole(pa, column)
        values, is_null = _bits(array.buffers()[1], array), _is_null(array)
        return truths(values if is_null is None else values & ~is_null, is_null)
    if types.is_timestamp(kind) or types.is_date(kind):
        return _dates(_whole(pa, column))
    if types.is_duration(kind):
        return durations(_ticks(_whole(pa, column), "int64", f"timedelta64[{kind.unit}]"))
    return _words(pa, column)


def as_numbers(column):
    """Return the block of a column of numbers, and any other column (pyarrow.ChunkedArray) as it is."""
    return arrow_block(column) if _is_number(pyarrow("columns of Arrow"), column.type) else column


def _is_number(pa: ModuleType, kind) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _name_of(kind) -> str:
    return f"fields of type {str(kind).replace('element', 'item')}"


def _is_binary(pa: ModuleType, kind) -> bool:
    is_view = getattr(pa.types, "is_binary_view", lambda kind: False)
    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, is_view)) or (
        pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)
    )


def _whole(pa: ModuleType, column):
    """Return a column as one array, without a copy where it is one."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _bits(buffer, array) -> np.ndarray:
    """Return a buffer's bit for each field of an array."""
    if not len(array):
        return np.zeros(0, bool)
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little", count=array.offset + len(array))
    return bits[array.offset :].view(bool)


def _is_null(array) -> np.ndarray | None:
    return ~_bits(array.buffers()[0], array) if array.null_count else None


def _values(array, kind) -> np.ndarray:
    """Return the values of an array as what they are stored as, a type of numbers; anything for a null."""
    dtype = np.dtype(_FLOATS.get(str(kind), str(kind)))
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), dtype.itemsize * array.offset)


def _filled(array, kind) -> np.ndarray:
    """Return what _values does, 0 for a null."""
    values = _values(array, kind)
    return np.where(_is_null(array), values.dtype.type(0), values) if array.null_count else values


def _dates(array) -> Dates:
    """Return the block of dates; a timestamp with a zone holds universal time."""
    kind = array.type
    name = str(kind)
    unit = "ms" if name.startswith("date64") else "D" if name.startswith("date32") else kind.unit
    return Dates(_ticks(array, "int32" if unit == "D" else "int64", f"datetime64[{unit}]"))


def _ticks(array, stored: str, dtype: str) -> np.ndarray:
    """Return an array of times, stored as numbers of this type, as one of a type of times."""
    times = _filled(array, stored).astype(np.int64).view(dtype)
    is_null = _is_null(array)
    return times if is_null is None else np.where(is_null, np.array("NaT", dtype), times)


def _words(pa: ModuleType, column) -> ColumnBlock:
    """Return the block of a column whose fields have a text; each different field is converted once."""
    if not len(column):  # old versions of pyarrow make no empty dictionary of some types
        return Words(np.zeros(0, np.int32), [])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = _whole(pa, column.unify_dictionaries() if column.num_chunks > 1 else column)
    indices, is_null = array.indices, _is_null(array)
    codes, values = _values(indices, indices.type), array.dictionary.to_pylist()
    known = codes if is_null is None else codes[~is_null]
    if len(known) and not 0 <= known.min() <= known.max() < len(values):
        raise pa.ArrowInvalid("an index beyond its dictionary")
    codes = codes.astype(np.int32, copy=False)
    codes = codes if is_null is None else np.where(is_null, np.int32(-1), codes)
    if all(isinstance(value, str) for value in values):
        return Words(codes, values)
    return Words.recoded(codes, values)
