"""The first rows of a CSV file as cells, and what tells that the first of them is a header."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core import extension
from .table_files import GAPS, TRUTHS
from .written import is_number, is_written

ffi, lib = extension("seq")

PLACE = np.dtype(  # struct csv_place
    [("line", "i8"), ("start", "i8"), ("stop", "i8"), ("quoted", "i4"), ("doubled", "i4"), ("is_number", "i4")],
    align=True,
)
_ROW = np.dtype([("line", "i8"), ("fields", "i8")])  # struct csv_row
_UNLIKELY = math.log(0.01)
_YEAR = re.compile(r"(1[5-9]|20)\d\d", re.ASCII)
_LEAST_NAMES = 3  # numbers that are taken for names where they ascend or stand in quotes
_MANY_COLUMNS = 8  # whose numbers do not count 0, 1, 2, ... by chance
_HEAD_FIELDS = 30_000  # looked at, but for the first two rows, which are whole


class Cell(NamedTuple):
    """A field of the first rows: its text without quotes and blanks, and whether it stood in quotes."""

    text: str
    quoted: bool


def decoded(text: bytes) -> str:
    """Decode text of a CSV file: as UTF-8 or, where it is not UTF-8, as Latin-1, which knows every byte."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


# -- rows ----------------------------------------------------------------------------------------------------


class FirstRows:
    """The first rows that are not blank: the first two whole, further ones up to _HEAD_FIELDS.

    The last one may be open: the text ends within its quotes.

    lines, counts: of each row its line in the file and the number of its fields, 0 where it is open.
    """

    def __init__(self, text: bytes, separator: str, most: int):
        self._text = text
        rows = split(text, separator, most)
        total = np.cumsum(rows["fields"])
        rows = rows[(total <= _HEAD_FIELDS) | (np.arange(len(rows)) < 2)]
        self._places = np.empty(total[len(rows) - 1], PLACE)
        split(text, separator, len(rows), self._places)
        self.lines, self.counts = rows["line"].tolist(), rows["fields"].tolist()
        self._starts = total[: len(rows)] - rows["fields"]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def is_open(self) -> bool:
        """True if the text ends within the quotes of the last row."""
        return self.counts[-1] == 0

    def row(self, index: int) -> list[Cell]:
        """Return the fields of a row."""
        start = self._starts[index]
        return _cells(self._text, self._places[start : start + self.counts[index]])

    def columns_below(self) -> list[ColumnBelow]:
        """Return the columns of the first row, as the rows below it have them; a row may have too few fields."""
        starts, counts = self._starts[1:], np.array(self.counts[1:])
        return [ColumnBelow(self._text, self._places[starts[counts > i] + i]) for i in range(self.counts[0])]


class ColumnBelow:
    """The fields of a column below the first row, gaps left out."""

    def __init__(self, text: bytes, places: np.ndarray):
        self._text, self._places = text, places

    @cached_property
    def cells(self) -> list[Cell]:
        """The fields one by one."""
        return [cell for cell in _cells(self._text, self._places) if cell.text not in GAPS]

    @cached_property
    def _are_numbers(self) -> bool:
        return len(self._places) > 0 and bool(self._places["is_number"].all())  # then none is a gap

    @cached_property
    def kind(self) -> str | None:
        """The kind of nearly all fields, text if there is no such kind; None: there are no fields."""
        return "number" if self._are_numbers else _kind_of(self.cells)

    @cached_property
    def any_quoted(self) -> bool:
        """True if a field stands in quotes."""
        if self._are_numbers:
            return bool(self._places["quoted"].any())
        return any(cell.quoted for cell in self.cells)


def split(text: bytes, separator: str, most: int, places: np.ndarray | None = None) -> np.ndarray:
    """Return at most `most` rows (_ROW) that are not blank; the first of their fields go to places (PLACE)."""
    csv, rows = ffi.new("struct csv *"), np.empty(most, _ROW)
    csv.separator, csv.point = separator.encode(), b"."
    places = np.empty(0, PLACE) if places is None else places
    buffers = (ffi.from_buffer(f"struct {name}[]", array) for name, array in (("csv_row", rows), ("csv_place", places)))
    c_rows, c_places = buffers
    count = lib.csv_split(csv, c_rows, most, c_places, len(places), text + b"\0", len(text))
    return rows[:count]


def _cells(text: bytes, places: np.ndarray) -> list[Cell]:
    found = []
    for start, stop, quoted, doubled in places[["start", "stop", "quoted", "doubled"]].tolist():
        field = decoded(text[start:stop])
        found.append(Cell(field.replace('""', '"') if doubled else field, bool(quoted)))
    return found


# -- header --------------------------------------------------------------------------------------------------


def lacks_first_name(rows: FirstRows) -> bool:
    """Return whether the first row names all columns but the first one, that of the names of the rows, as R writes it.

    Every other row, of two or more, has exactly one field more, and they begin with fields that differ; an empty
    field at the end of each is another matter.
    """
    counts = rows.counts[:-1] if rows.is_open else rows.counts
    if len(counts) < 3 or {*counts[1:]} != {counts[0] + 1}:
        return False
    names = [cell.text for cell in rows.row(0)]
    if any(name in GAPS or is_number(name) for name in names) or len({*names}) < len(names):
        return False
    below = [rows.row(index) for index in range(1, len(counts))]
    return len({cells[0].text for cells in below}) == len(below) and any(cells[-1].text for cells in below)


def evidence(first: list[Cell], columns: list[ColumnBelow]) -> float:
    """Return how much the rows speak for a header: the log of how much likelier the first row is as one, by columns.

    A row of data begins like the rows below it; names are texts above numbers, dates or yes/no words, words that do
    not come again below where others do, or in quotes where no data are. Numbers are names where they ascend
    (0, 1, 2, ..., as programs name pixels; 1, 4, 0_red, 0_blue, as they name categories; 1990, 1991, ...), or where
    they alone are in quotes.
    """
    if not all(cell.quoted for cell in first):  # a writer may quote one number, not another
        first = [cell._replace(quoted=cell.quoted and not is_number(cell.text)) for cell in first]
    filled = [cell.text for cell in first if cell.text]
    numbers = [text for text in filled if is_number(text)]
    names = [text for text in filled if not is_number(text)]
    counts = _count_columns(first) and _cannot_count(columns)
    if counts or _ascend_above_others(first, columns) or _alone_in_quotes(first, columns):
        return 1.0
    evidence = 1.0 if filled and not numbers else 0.0
    evidence += _UNLIKELY * (len(names) - len({*names}))
    evidence += sum(_of_column(cell, column) for cell, column in zip(first, columns, strict=True))
    above = [cell.text for cell, column in zip(first, columns, strict=True) if _is_of_kind("number", cell, column)]
    return evidence + _of_numbers(above, numbers)


def _count_columns(first: list[Cell]) -> bool:
    """Return whether a row is 0, 1, 2, ... or 1, 2, 3, ..."""
    texts = [cell.text for cell in first]
    return len(texts) > 2 and any(texts == [str(start + i) for i in range(len(texts))] for start in (0, 1))


def _cannot_count(columns: list[ColumnBelow]) -> bool:
    """Return whether a row that counts its columns does not look like the rows below it: not all of those are numbers,
    or some are written as fractions, or there are many and none goes up by one from column to column."""
    filled = [below for below in columns if below.kind]
    if any(below.kind != "number" or all("." in cell.text for cell in below.cells) for below in filled):
        return True
    second = [below.cells[0].text for below in filled]
    ascends = all(text.isdecimal() for text in second) and {int(b) - int(a) for a, b in pairwise(second)} == {1}
    return len(filled) >= _MANY_COLUMNS and not ascends


def _ascend_above_others(first: list[Cell], columns: list[ColumnBelow]) -> bool:
    """Return whether the numbers of a row are names: years that ascend above other numbers, or whole numbers that
    ascend by one step above nothing but fractions."""
    above = [(cell.text, below) for cell, below in zip(first, columns, strict=True) if is_number(cell.text)]
    if len(above) < _LEAST_NAMES or not all(text.isdecimal() for text, _ in above):
        return False
    steps = {int(b) - int(a) for (a, _), (b, _) in pairwise(above)}
    fields = [cell.text for _, below in above for cell in below.cells]
    if min(steps) <= 0 or not fields:
        return False
    if all(_YEAR.fullmatch(text) for text, _ in above):
        return 2 * sum(bool(_YEAR.fullmatch(field)) for field in fields) < len(fields)
    return len(steps) == 1 and all("." in field for field in fields)


def _alone_in_quotes(first: list[Cell], columns: list[ColumnBelow]) -> bool:
    """Return whether a whole row stands in quotes and, but for the names of the rows in front, no number below does."""
    is_whole = len(first) >= _LEAST_NAMES and all(cell.quoted for cell in first)
    return is_whole and all(below.kind == "number" and not below.any_quoted for below in columns[1:])


def _of_column(cell: Cell, below: ColumnBelow) -> float:
    """Return how much one column speaks for a header; a number above numbers is judged with the others."""
    if cell.text in GAPS or not re.search(r"\w", cell.text) or not below.kind:
        return 0.0
    evidence = 0.0
    if cell.quoted and re.fullmatch(r"[\w .-]+", cell.text) and not below.any_quoted:
        evidence = -_UNLIKELY
    kind, own = below.kind, kind_of_field(cell.text)
    if kind == "text":
        return evidence + _of_texts(cell.text, [other.text for other in below.cells])
    if kind == own:
        return evidence + (0.0 if kind == "number" else _UNLIKELY)
    return evidence if own == "number" else evidence - _UNLIKELY


def _of_texts(text: str, below: list[str]) -> float:
    """Return how much a word above words speaks for a header: as much as a new word is rare among them."""
    counts = Counter(below)
    if text in counts:
        return _UNLIKELY
    if is_number(text) and not text.isdecimal():
        return 0.0
    once = sum(count == 1 for count in counts.values())
    return min(3.0, math.log((len(below) + 1) / (once + 1)))


def _of_numbers(above: list[str], numbers: list[str]) -> float:
    """Return how much numbers above numbers speak against a header: names ascend, and count best of all."""
    if not above:
        return 0.0
    plain = [int(text) for text in numbers if text.isdecimal()]
    if not plain or [str(number) for number in plain] != numbers or plain != sorted({*plain}):
        return _UNLIKELY * len(above)
    is_count = plain[0] in (0, 1) and plain == [*range(plain[0], plain[0] + len(plain))]
    return 0.98 * _UNLIKELY if is_count else _UNLIKELY


def _is_of_kind(kind: str, cell: Cell, below: ColumnBelow) -> bool:
    return kind_of_field(cell.text) == kind == below.kind


def _kind_of(cells: list[Cell]) -> str | None:
    """Return the kind of nearly all fields, text if there is no such kind; None where there are no fields."""
    if not cells:
        return None
    kind, count = Counter(kind_of_field(cell.text) for cell in cells).most_common(1)[0]
    return kind if count >= 0.95 * len(cells) else "text"


@lru_cache(1 << 12)
def kind_of_field(text: str) -> str:
    if is_number(text) or is_number(text.replace(",", ".", 1)):
        return "number"
    if text.lower() in TRUTHS:
        return "truth"
    data = text.encode()
    if text[:4].isdecimal() and lib.csv_date(ffi.new("double *"), data, len(data)):
        return "date"
    return "written" if is_written(text) else "text"
