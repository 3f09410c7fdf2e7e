"""Arrow's columns as column blocks; pyarrow is imported when one is first needed."""

from __future__ import annotations

import os
import sys
from types import ModuleType

import numpy as np

from ..utils import UsageError, check_room_to_load, has_address_limit
from .column_blocks import ColumnBlock, Dates, Numbers, Opaque, Words, durations, truths

_ROOM = 192 << 20  # bytes of addresses that pyarrow's libraries and threads take


def pyarrow(what: str) -> ModuleType:
    """Return the package. Raises UsageError if it is not installed; `what` needs it."""
    if "pyarrow" not in sys.modules:
        _prepare()
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise UsageError(f'{what} need the package pyarrow: pip install "nn-trainer[arrow]"') from None
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
    if types.is_integer(kind) or types.is_floating(kind):
        return _numbers(pa, column)
    if types.is_boolean(kind):
        return truths(_filled(pa, column, False), _is_null(column))
    if types.is_timestamp(kind) or types.is_date(kind):
        return _dates(pa, column)
    if types.is_duration(kind):
        return durations(_ticks(pa, column, pa.int64(), f"timedelta64[{kind.unit}]"))
    if types.is_nested(kind) or _is_binary(pa, kind) or _is_binary(pa, getattr(kind, "value_type", kind)):
        return Opaque(len(column), _name_of(kind), _is_null(column))
    return _words(pa, column)


def as_numbers(column):
    """Return the block of a column of numbers, and any other column (pyarrow.ChunkedArray) as it is."""
    types = pyarrow("columns of Arrow").types
    return arrow_block(column) if types.is_integer(column.type) or types.is_floating(column.type) else column


def _name_of(kind) -> str:
    return f"fields of type {str(kind).replace('element', 'item')}"


def _is_binary(pa: ModuleType, kind) -> bool:
    is_view = getattr(pa.types, "is_binary_view", lambda kind: False)
    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, is_view)) or (
        pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)
    )


def _is_null(column) -> np.ndarray | None:
    return column.is_null().to_numpy() if column.null_count else None


def _whole(pa: ModuleType, column):
    """Return a column as one array, without a copy where it is one."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _filled(pa: ModuleType, column, value) -> np.ndarray:
    """Return the values, `value` for a null."""
    array = _whole(pa, column)
    if array.null_count:
        array = array.fill_null(pa.scalar(value, array.type))
    return array.to_numpy(zero_copy_only=False)


def _numbers(pa: ModuleType, column) -> Numbers:
    if pa.types.is_float16(column.type) and column.null_count:
        return Numbers(column.to_numpy())  # nan for a null
    return Numbers(_filled(pa, column, 0), _is_null(column))


def _dates(pa: ModuleType, column) -> Dates:
    """Return the block of dates; a timestamp with a zone holds universal time."""
    kind = column.type
    unit = "ms" if pa.types.is_date64(kind) else "D" if pa.types.is_date32(kind) else kind.unit
    return Dates(_ticks(pa, column, pa.int32() if unit == "D" else pa.int64(), f"datetime64[{unit}]"))


def _ticks(pa: ModuleType, column, whole, dtype: str) -> np.ndarray:
    """Return a column of times, stored as the whole numbers of this type, as an array of a type of times."""
    ticks = _whole(pa, column).view(whole)
    times = (ticks.fill_null(0) if ticks.null_count else ticks).to_numpy().astype(np.int64).view(dtype)
    is_null = _is_null(column)
    return times if is_null is None else np.where(is_null, np.array("NaT", dtype), times)


def _words(pa: ModuleType, column) -> ColumnBlock:
    """Return the block of a column whose fields have a text; each different field is converted once."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = _whole(pa, column.unify_dictionaries() if column.num_chunks > 1 else column)
    indices, is_null = array.indices.cast(pa.int32()), _is_null(column)
    codes = np.frombuffer(indices.buffers()[1], np.int32, len(indices), 4 * indices.offset)
    codes = codes if is_null is None else np.where(is_null, np.int32(-1), codes)
    values = array.dictionary.to_pylist()
    if len(codes) and codes.max() >= len(values):
        raise pa.ArrowInvalid("an index beyond its dictionary")
    if all(isinstance(value, str) for value in values):
        return Words(codes, values)
    return Words.recoded(codes, values)
