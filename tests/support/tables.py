"""What the tests of tables share: parsing one field in C, reading a CSV file stage by stage."""

import pytest
from nn.core._seq import ffi, lib

from nn.data.csv_head import read_head
from nn.data.csv_table import CsvFiles
from nn.data.field_types import Number, TargetNumber
from nn.data.table_files import GAPS, Fields, ReadOptions
from nn.ds import load
from nn.utils import DataError

NUMBERS = Number("float64", "float64")
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
    return read_head(str(path), ReadOptions(**options))


def facts_of(path, missing=GAPS, rows=None):
    return CsvFiles([str(path)], str(path)).facts(missing, rows)


def counts(facts):
    return facts.gaps, facts.numbers, facts.truths, facts.dates, facts.texts


def read_any(path, **fields):
    """The files, and the fields to read of a table like ANY."""
    wanted = {"texts": [1], "dates": [2], "ids": [3], "missing": GAPS} | fields
    files = CsvFiles([str(path)], str(path))
    return files, Fields([0], [4], NUMBERS, wanted.pop("kind", TargetNumber(None, "")), **wanted)
