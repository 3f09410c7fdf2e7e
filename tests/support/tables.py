"""What the tests of tables share: parsing one field in C, reading a CSV file into columns."""

import pytest
from nn.core._seq import ffi, lib

from nn.data.column import Wanted
from nn.data.csv_head import read_head
from nn.data.csv_table import CsvSource
from nn.data.dataset import Choices, Schema
from nn.ds import load
from nn.utils import DataError

ANY = "n,word,day,id,y\n"  # the header of a table with a column of each kind


def failure(path, error=DataError, **flags):
    """The message of the error that loading must end in: one line that names the file."""
    with pytest.raises(error) as caught:
        load(path, **flags)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path))
    return message


def c_number(text):
    """The number that C reads from a field, None if it is none."""
    value = ffi.new("double *")
    data = text.encode()
    return value[0] if lib.csv_number(value, data, len(data)) else None


def c_date(text):
    """The seconds since 1970 that C reads from a field, None if it is no date."""
    seconds = ffi.new("double *")
    data = text.encode()
    return seconds[0] if lib.csv_date(seconds, data, len(data)) else None


def head_of(path, **options):
    return read_head(str(path), Schema(choices=Choices(**options)))


def read_csv(*paths, reads=None, options=None, **wanted):
    """The table of CSV files; reads: of each column, None: as its fields are."""
    schema = Schema(choices=Choices(**(options or {})))
    source = CsvSource([str(path) for path in paths], ",".join(map(str, paths)), schema)
    reads = dict.fromkeys(range(source.width)) if reads is None else reads
    return source.read(Wanted(reads if isinstance(reads, dict) else dict(enumerate(reads)), **wanted))


def fields_of(column):
    """The fields of a column of text as texts, None for a gap."""
    return [column.words[code] if code >= 0 else None for code in column.values]


def odd_of(table, place):
    """The odd words of a column: how many rows have each, and the first of them."""
    return {word: (odd.rows, table.row(odd.first)) for word, odd in table.columns[place].odd.items()}
