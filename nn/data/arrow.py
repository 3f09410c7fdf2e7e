"""Tables that pyarrow reads: Parquet, Arrow (Feather), ORC and JSON lines, and columns of Arrow as blocks.

Values are taken where Arrow has them: its to_numpy imports pandas, its is_null and fill_null their own module, and both
take longer than reading a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import numpy as np

from ..utils import DataError, InputNotFound, default_threads, os_reason
from .assemble import Part, TypedSource, check_same_columns
from .blocks import Block, Numbers, Opaque, Texts, Times, durations, objects, truths
from .records import fits
from .source import Files, random_access, read_blocks
from .uris import Fetched, pyarrow

_NEED = "Parquet, Arrow, ORC and JSON lines"
_TEXTS = ("string", "large_string", "string_view")
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}  # as Arrow calls NumPy's types


@dataclass
class Opened:
    """A file of columns: their names, its rows, and pieces(columns), which yields these columns of some rows each."""

    names: list[str]
    rows: int
    pieces: Callable[[list[int]], Iterator[list]]


class ArrowSource(TypedSource):
    """Files of one of pyarrow's formats. open_file: returns an Opened for a path."""

    def __init__(self, open_file: Callable, paths: list[str], path: str, options=None):
        pyarrow(_NEED)
        self.files, self._opened, self._chosen = Files(paths), [], []
        for file in paths:
            with _reading(file):
                opened = open_file(file)
            if opened.rows < 0:
                raise _damaged(file, f"{opened.rows} rows")
            self._opened.append(opened)
            self._chosen.append([i for i, name in enumerate(opened.names) if not _ROW_NUMBERS.fullmatch(name)])
        names = [[opened.names[i] for i in chosen] for opened, chosen in zip(self._opened, self._chosen, strict=True)]
        for file, others in zip(paths, names, strict=True):
            check_same_columns(file, others, paths[0], names[0])
        self._open(path, names[0], [opened.rows for opened in self._opened])

    def _parts(self, number: int, places: list[int]) -> Iterator[Part]:
        path, chosen = self.files.paths[number], self._chosen[number]

        def block(columns: dict, place: int) -> Block:
            with _reading(path):
                return arrow_block(columns[place])

        with _reading(path):
            for columns in self._opened[number].pieces([chosen[place] for place in places]):
                if len(set(map(len, columns))) > 1:
                    raise _damaged(path, "columns of different lengths")
                yield Part(len(columns[0]), partial(block, dict(zip(places, columns, strict=True))))


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn the failures of pyarrow into a DataError."""
    pa = pyarrow(_NEED)
    try:
        yield
    except FileNotFoundError:
        raise InputNotFound(f"{path}: no such file or folder; check the path") from None
    except ArithmeticError as error:
        raise _damaged(path, "a decimal that is none") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(path, Fetched) and isinstance(error, OSError):
            raise path.failure(error) from None
        raise _damaged(path, os_reason(error) if isinstance(error, OSError) else str(error)) from error


def _damaged(path: str, reason: str) -> DataError:
    reason = " ".join(reason.split()).rstrip(".")[:200]
    return DataError(f"{path}: cannot be read ({reason}); copy it again or write it anew")


# ---------------------------------------------------------------- the formats


def parquet(path: str) -> Opened:
    """Open a Parquet file: row groups one after another, texts as indices into a dictionary."""
    from pyarrow import parquet

    file = random_access(path)
    opened = parquet.ParquetFile(file)
    metadata, schema = opened.metadata, opened.schema_arrow
    texts = [field.name for field in schema if str(field.type) in _TEXTS]
    if texts:
        opened = parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts)
    leaves = list(map(_leaves, schema.types))
    of_columns = [range(stop - count, stop) for count, stop in zip(leaves, accumulate(leaves), strict=True)]

    def pieces(columns: list[int]) -> Iterator[list]:
        wanted = [leaf for column in columns for leaf in of_columns[column]]
        for group in range(metadata.num_row_groups):
            table = opened.reader.read_row_group(group, column_indices=wanted, use_threads=default_threads() > 1)
            if table.num_rows != metadata.row_group(group).num_rows:
                raise pyarrow(_NEED).ArrowInvalid("a row group with other rows than it says")
            if table.num_rows:
                yield table.columns

    return Opened(schema.names, metadata.num_rows, pieces)


def _leaves(kind) -> int:
    """Return how many of Parquet's columns hold a column of this type."""
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) if kind.num_fields else 1


def feather(path: str) -> Opened:
    """Open a file of Arrow's file format, which is Feather's as well."""
    pa = pyarrow(_NEED)
    from pyarrow import ipc

    file = random_access(path)

    def opened(*columns: int):
        return ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=list(columns), use_threads=False))

    def pieces(columns: list[int]) -> Iterator[list]:
        some = opened(*columns)
        for number in range(some.num_record_batches):
            batch = some.get_batch(number)
            batch.validate(full=True)  # pyarrow believes the places of texts that a file names
            if batch.num_rows:
                yield [pa.chunked_array([column]) for column in batch.columns]

    names = opened().schema.names
    first = opened(*names and [0])
    return Opened(names, sum(first.get_batch(i).num_rows for i in range(first.num_record_batches)), pieces)


def orc(path: str) -> Opened:
    """Open an ORC file."""
    pa = pyarrow(_NEED)
    from pyarrow import orc

    opened = orc.ORCFile(random_access(path))
    names = opened.schema.names
    has_plain_names = len(set(names)) == len(names) and not any("." in name for name in names)

    def pieces(columns: list[int]) -> Iterator[list]:
        wanted = [names[column] for column in columns]
        for number in range(opened.nstripes):
            stripe = opened.read_stripe(number, columns=wanted if has_plain_names else None)
            yield [pa.chunked_array([stripe.column(i)]) for i in (wanted if has_plain_names else columns)]

    return Opened(names, opened.nrows, pieces)


def json_lines(path: str) -> Opened:
    """Read a file of JSON lines, an object each; texts stay texts."""
    pa = pyarrow(_NEED)
    from pyarrow import json as arrow_json

    def read(**types):
        return arrow_json.read_json(pa.BufferReader(text), parse_options=arrow_json.ParseOptions(**types))

    text = _whole_text(path)
    try:
        table = read()
        names, times = table.column_names, [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        if times:  # of texts, which may have been written in another way
            table = read(explicit_schema=pa.schema([(name, pa.string()) for name in times]))
        columns = list(map(table.column, names))
    except (pa.ArrowInvalid, KeyError):  # texts among numbers, or long lines, or two columns of one name
        rows = _json_rows(path, text)
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = [[row.get(name) for row in rows] for name in names]
    return Opened(names, len(columns[0]) if columns else 0, lambda some: iter([[columns[i] for i in some]]))


def _whole_text(path: str) -> bytes:
    """Return the bytes of a file, unpacked. Raises DataError if the memory does not suffice for them."""
    blocks, size = [], 0
    for block in read_blocks(path):
        blocks.append(block)
        size += len(block)
        if not fits(4 * size):
            raise DataError(f"{path}: more text than the memory has room for; convert it to Parquet")
    return b"".join(blocks)


def _json_rows(path: str, text: bytes) -> list[dict]:
    rows = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                rows.append(None)
            if not isinstance(rows[-1], dict):
                raise DataError(f"{path}, line {number}: no JSON object, expected one on each line; correct the line")
    return rows


# ---------------------------------------------------------------- columns


def arrow_block(column) -> Block:
    """Return the block of a column (pyarrow.ChunkedArray, or a list of Python's values)."""
    if isinstance(column, list):
        return objects(column)
    pa = pyarrow("columns of Arrow")
    kind, types = column.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind)
    if types.is_null(kind):
        return Texts(np.full(len(column), -1, np.int8), [])
    if types.is_integer(kind) or types.is_floating(kind):
        array = _whole(pa, column)
        return Numbers(_values(array, kind), _is_null(array))
    if types.is_nested(kind) or _is_binary(pa, kind) or _is_binary(pa, getattr(kind, "value_type", kind)):
        return Opaque(len(column), f"fields of type {str(kind).replace('element', 'item')}")
    if types.is_boolean(kind):
        array = _whole(pa, column)
        return truths(_bits(array.buffers()[1], array), _is_null(array))
    if types.is_timestamp(kind) or types.is_date(kind):  # a timestamp with a zone holds universal time
        name = str(kind)
        unit = "ms" if name.startswith("date64") else "D" if name.startswith("date32") else kind.unit
        return Times(_ticks(_whole(pa, column), "int32" if unit == "D" else "int64", f"datetime64[{unit}]"))
    if types.is_duration(kind):
        return durations(_ticks(_whole(pa, column), "int64", f"timedelta64[{kind.unit}]"))
    return _texts(pa, column)


def _is_binary(pa, kind) -> bool:
    is_view = getattr(pa.types, "is_binary_view", lambda kind: False)
    return any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, is_view)) or (
        pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)
    )


def _whole(pa, column):
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


def _ticks(array, stored: str, dtype: str) -> np.ndarray:
    """Return an array of times, stored as numbers of this type, as one of a type of times."""
    times, is_null = _values(array, stored).astype(np.int64).view(dtype), _is_null(array)
    return times if is_null is None else np.where(is_null, np.array("NaT", dtype), times)


def _texts(pa, column) -> Block:
    """Return the block of a column whose fields have a text; each different field is converted once."""
    if not len(column):  # old versions of pyarrow make no empty dictionary of some types
        return Texts(np.zeros(0, np.int32), [])
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
        return Texts(codes, values)
    return Texts.recoded(codes, values)
