"""CSV files: the first lines tell the columns (csv_head), the first rows how each is
stored, and C reads the fields.

A large file is cut behind line ends into pieces, which several threads read at once. A
cut may lie within quotes. That shows at the end of the piece before it, whose quotes
are open then: the pieces are thrown away, as they are after any failure, and the file
is read from front to back, which knows all rows by lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from ..core import extension
from ..utils import DataError, default_threads
from .column import (
    BYTE_ORDER_MARK,
    MAX_WORDS,
    OTHERS,
    Column,
    Odd,
    Selection,
    Span,
    Table,
    are_names,
    decoded,
    encodings_of,
    number_in,
    settled,
    shortened,
    target_column,
)
from .csv_head import (
    LONGEST_CSV_LINE,
    FirstFile,
    Head,
    NoRows,
    open_quote,
    read_head,
    too_long,
)
from .records import new_rows
from .schema import UNSAID, Schema
from .source import BLOCK, Files, TableSource, check_same_columns, local, read_blocks
from .typed import joined, make_gaps

ffi, lib = extension("seq")

# different odd words of a column that are kept apart; further ones count as OTHERS
MOST_ODD = 1 << 16
# the first fields -> how a column is stored
_STORED = {None: "number", "number": "number", "date": "date"}
_ALLOCATED_BYTES = 1 << 22  # of rows for which memory is taken at a time
_PIECE_BYTES = 1 << 22  # fewer are not worth a thread
_LONGEST_ROW = 1 << 22  # bytes of a row whose quotes go over ends of lines


# -- a table ---------------------------------------------------------------------------


class CsvSource(TableSource):
    """The table of CSV files.

    The columns are those of the first file's header. A further file may have no header:
    some programs cut one file into several without repeating it.
    """

    def __init__(self, paths: list[str], path: str, schema: Schema = UNSAID):
        self.path = path
        self.files = Files(paths)
        self._heads = _heads_of(paths, schema)
        self._head = first_head = self._heads[0]
        self.names = first_head.names
        self.width = first_head.width
        self.default_target = first_head.last_filled
        self.column = first_head.column
        for head in self._heads[1:]:
            head.names = head.names or first_head.names
            if head.names and not first_head.names:
                raise DataError(
                    f"{head.path}: a header, expected none as in {first_head.path}; remove it, or add one there"
                )
            check_same_columns(
                head.path, head.names or [], first_head.path, first_head.names or []
            )
        point = next((head.point for head in self._heads if head.point), ".")
        # a file whose first numbers have no decimals is read as the others
        for head in self._heads:
            head.point = head.point or point

    def _table(self, selection: Selection) -> Table:
        stored = self._stored(selection)
        rows = self._rows(stored)
        columns = rows.columns
        kinds = selection.reads
        guessed = [p for p in kinds if kinds[p] is None and p not in selection.raw]
        targets = selection.pure & columns.keys()
        for place in targets:
            if columns[place].reads != "text":  # the words of texts are looked at below
                columns[place] = target_column(columns[place], selection, kinds[place])
        odd = [place for place in guessed if columns[place].odd]
        columns |= self._read_as_texts(odd, columns, stored)
        for place, column in columns.items():
            # a word in UTF-8 and in the code page is one
            if len({*column.words}) < len(column.words):
                columns[place] = column.with_words(column.words)
        point = self._head.point
        if self._head.separator == ";":
            self._check_decimals(columns, guessed, rows.spans)
        for place in targets:
            column = target_column(columns[place], selection, kinds[place], point)
            make_gaps(column, selection.missing)
            columns[place] = column
        for place in guessed:
            if columns[place].reads != "text":
                columns[place] = _without_numbers(columns[place])
            elif place not in targets:
                columns[place] = settled(columns[place], None, point)
                make_gaps(columns[place], selection.missing)
        table = Table(
            dict(sorted(columns.items())),
            rows.arrays["matrix"][: rows.csv.rows],
            rows.places["matrix"],
            rows.spans,
            repeats=rows.csv.repeats,
        )
        return self._filled(table, selection)

    def _read_as_texts(
        self, places: list[int], columns: dict[int, Column], stored: Selection
    ) -> dict[int, Column]:
        """Return those of some columns with odd words, read again as texts, that are no
        numbers or dates: targets, and others in which odd words are frequent."""
        reads = {}
        for place in places:
            if place in stored.pure or not columns[place].is_mostly_right():
                reads[place] = "text"
        if not reads:
            return {}
        raw = stored.raw | stored.pure
        return self._rows(stored._replace(reads=reads, raw=raw)).columns

    # -- storage -----------------------------------------------------------------------

    def _stored(self, selection: Selection) -> Selection:
        """Return how each column is stored, as the first rows look, and whether numbers
        need float64 for now.

        A column that float32 does not blur in some rows is blurred in no further ones,
        as its range grows at least as its size does; unless it is constant so far.
        """
        head_kinds = self._head.kinds(selection.reads, selection.missing)
        reads = {}
        bounds = []
        for place, kind in selection.reads.items():
            head_kind, low, high = head_kinds[place]
            if place in selection.raw or (
                kind is None
                and place in selection.pure
                and self._head.has_labels(place)
            ):
                kind = "text"
            elif kind is None:
                kind = _STORED.get(head_kind, "text")
            reads[place] = kind
            if kind == "number" and place not in selection.exact:
                bounds.append((low, high))
        text_targets = {place for place in selection.pure if reads[place] == "text"}
        dtype = selection.dtype_of(*np.reshape(bounds, (-1, 2)).T)
        has_constant = any(low >= high and low != 0 for low, high in bounds)
        if has_constant and not selection.is_fixed:
            dtype = "float64"
        return selection._replace(
            reads=reads, raw=selection.raw | text_targets, dtype=dtype
        )

    def _filled(self, table: Table, selection: Selection) -> Table:
        """Return the table, its matrix of all columns of numbers, in float64 where
        float32 would blur one."""
        columns = table.columns
        places = sorted(
            place
            for place, column in columns.items()
            if column.reads == "number" and place not in selection.exact
        )
        bounds = [(columns[place].low, columns[place].high) for place in places]
        dtype = selection.dtype_of(*np.reshape(bounds, (-1, 2)).T)
        still_numbers = [p for p in table.number_places if columns[p].reads == "number"]
        # since another column did not look like numbers
        is_widened = dtype == "float64" and table.numbers.dtype != "float64"
        if still_numbers and is_widened:
            reads = dict.fromkeys(still_numbers, "number")
            columns |= self._rows(selection._replace(reads=reads, dtype=dtype)).columns
        if places != table.number_places or dtype != table.numbers.dtype:
            numbers = [columns[place] for place in places]
            table.numbers = joined(numbers, len(table), dtype)
            table.number_places = places
        return table

    def _check_decimals(
        self, columns: dict[int, Column], guessed: list[int], spans: list[Span]
    ) -> None:
        """Raise DataError for a decimal comma where the first numbers with decimals
        have a point, or the other way round."""
        head = self._head
        name = "comma" if head.point == "," else "point"
        for place, column in columns.items():
            words = column.words if place in guessed else ()
            word = _with_other_point(column.odd or words, head.point)
            if word is None:
                continue
            if column.odd:
                index = column.odd[word].first_row
            else:
                index = np.argmax(column.values == column.words.index(word))
            row = Table({}, column.values, [], spans).row(index)
            raise DataError(
                f'{self.path}, {row}, {head.column(place)}: found "{shortened(word)}", expected a decimal {name} '
                f"as in the other numbers; write all numbers one way"
            )

    # -- rows --------------------------------------------------------------------------

    def _rows(self, stored: Selection) -> CsvReader:
        """Return all rows, of one large file that is not packed by several threads."""
        head = self._head
        several = len(self._heads) > 1
        if several or head.is_gzip:
            row_count = None  # not known beforehand
        else:
            size = os.path.getsize(local(head.path))
            rows = _read_pieces(head, stored, size)
            if rows:
                return rows
            row_count = head.rows_in(size)
        reader = CsvReader(head, stored, row_count, several)
        for number, head in enumerate(self._heads):
            if number:
                reader.begin(head)
            reader.read_blocks(read_blocks(head.path))
        return reader.taken()


def _without_numbers(column: Column) -> Column:
    """Return a column of numbers or dates; one of gaps only becomes one of texts."""
    if column.odd or not column.low > column.high:
        return column
    return Column("text", np.full(len(column), -1, np.int32))


def _with_other_point(words: Iterable[str], point: str) -> str | None:
    """Return the first word that is a number with the other decimal point, a comma for
    a point; None if there is none."""
    other = "," if point == "." else "."
    for word in words:
        if other in word and point not in word and number_in(word, other) is not None:
            return word
    return None


def _heads_of(paths: list[str], schema: Schema) -> list[Head]:
    """Return the heads of the files that have rows; names may be in one without. Raises
    DataError if none has rows."""
    heads = []
    lacking = []
    first_file = None
    for path in paths:
        try:
            heads.append(read_head(path, schema, first_file))
        except NoRows as lack:
            lacking.append(lack)
            if first_file is None and lack.names is not None:
                first_file = FirstFile(lack.names)
                named = path
            continue
        if first_file is None:
            first_file = FirstFile(heads[0].names)
        elif len(heads) == 1:
            names = heads[0].names
            if names is None and len(first_file.names) == heads[0].width:
                names = first_file.names
            check_same_columns(
                path, names or [""] * heads[0].width, named, first_file.names
            )
            heads[0].names = names
    if not heads:
        raise lacking[0]
    return heads


# -- rows in C -------------------------------------------------------------------------


def _point(c, memory: dict, **members) -> None:
    """Let members of a C struct point to arrays or bytes, which stay in `memory`."""
    for member, array in members.items():
        memory[member] = buffer = ffi.from_buffer(array)
        setattr(c, member, ffi.cast(ffi.typeof(getattr(c, member)), buffer))


def _gaps(missing: frozenset[str], code_page: str, memory: dict):
    """Return the words for a gap as C takes them, in every encoding that a file may
    have."""
    words = sorted(
        {form for word in missing if word for form in encodings_of(word, code_page)}
    )
    lengths = np.zeros(256, np.uint64)
    for word in words:
        lengths[word[0]] |= np.uint64(1 << min(len(word), 63))
    may_be_number = np.zeros(256, np.uint8)
    may_be_number[[word[0] for word in words if _is_number(word)]] = 1
    gaps = ffi.new("struct csv_gaps *")
    numbers = np.array(
        [number for number in map(number_in, missing) if number is not None]
    )
    gaps.count = len(words)
    gaps.empty = "" in missing
    gaps.number_count = len(numbers)
    _point(
        gaps,
        memory,
        text=b"".join(words),
        ends=_ends_of(words),
        lengths=lengths,
        numbers=numbers,
        may_be_number=may_be_number,
    )
    return gaps


def _ends_of(words: list[bytes]) -> np.ndarray:
    """Return where each word ends in the text that they are together."""
    return np.cumsum(list(map(len, words)), dtype=np.intc)


def _header(head: Head, memory: dict):
    """Return the names of the columns as C takes them, in every encoding that a file
    may have."""
    forms_of_names = [_forms_of(name, head.code_page) for name in head.names]
    count = max(map(len, forms_of_names))
    forms = []
    for encodings in forms_of_names:  # as many of each name: the first one again
        forms += encodings + encodings[:1] * (count - len(encodings))
    header = ffi.new("struct csv_header *")
    starts = np.zeros(256, np.uint8)
    starts[ord('"')] = 1
    for form in forms[:count]:  # an empty name ends at once
        starts[list(form[:1] or f"{head.separator}\n".encode())] = 1
    header.forms = count
    text = b"".join(forms)
    _point(header, memory, text=text, starts=starts, ends=_ends_of(forms))
    return header


def _forms_of(name: str, code_page: str) -> list[bytes]:
    """Return the bytes that a name may be in a file, where a quote in it is doubled
    too."""
    texts = dict.fromkeys([name, name.replace('"', '""')])
    return [form for text in texts for form in encodings_of(text, code_page)]


def _is_number(word: bytes) -> bool:
    """Return whether a word for a gap reads as a number, with a point or a comma before
    decimals."""
    text = word.decode("ascii", "replace")
    return number_in(text) is not None or number_in(text, ",") is not None


def _with_room(rows: np.ndarray, count: int, order: str = "C") -> np.ndarray:
    """Return an array of at least `count` rows that begins with these: itself, or a
    longer copy."""
    if count <= len(rows):
        return rows
    longer = new_rows(
        (max(count, len(rows) * 3 // 2), *rows.shape[1:]), rows.dtype, order
    )
    longer[: len(rows)] = rows
    return longer


class _Words:
    """The different words of a column, or its odd ones: memory for C's struct
    csv_words, and the words as text."""

    def __init__(self, c, are_odd: bool):
        self._c = c
        self._memory = {}
        self._text = np.empty(0, np.uint8)
        no_words = np.empty(0, np.int64)
        self._arrays = {"ends": no_words, "rows": no_words}
        if are_odd:
            c.limit = MOST_ODD
            self._arrays["first"] = no_words
        else:
            c.limit = MAX_WORDS

    def make_room(self, length: int) -> bool:
        """Make room for more words, the next one of `length` bytes. Return whether
        there may be more words."""
        c = self._c
        if c.count == c.limit:
            return False
        used = int(self._arrays["ends"][c.count - 1]) if c.count else 0
        if c.size - used < length or not c.size:
            c.size = 2 * used + max(length, 1024)
            self._text = _with_room(self._text, c.size)
            _point(c, self._memory, text=self._text)
        if c.count == c.most:
            c.most = min(c.limit, max(64, 4 * c.count))
            c.mask = (1 << (2 * c.most).bit_length()) - 1
            self._arrays = {
                name: _with_room(array, c.most + 1)
                for name, array in self._arrays.items()
            }
            table = np.zeros(c.mask + 1, np.uint64)
            _point(c, self._memory, table=table, **self._arrays)
            lib.csv_index(c)
        return True

    def hand_over(self, column: Column, code_page: str) -> None:
        """Let a column have the words and the rows of each, or the odd words, in the
        order of their first rows."""
        count = self._c.count
        ends = self._arrays["ends"][:count].tolist()
        rows = self._arrays["rows"]
        data = bytes(self._text[: ends[-1] if ends else 0])
        words = []
        for start, end in pairwise([0, *ends]):
            words.append(decoded(data[start:end], code_page))
        if "first" not in self._arrays:
            column.words = words
            column.word_rows = rows[:count]
            return
        slots = dict(enumerate(words))
        slots[self._c.most] = OTHERS  # of all further words
        for slot, word in slots.items():
            first_row = int(self._arrays["first"][slot]) - 1
            _add_odd(column.odd, word, Odd(int(rows[slot]), first_row))


def _add_odd(odd: dict[str, Odd], word: str, count: Odd, start: int = 0) -> None:
    """Count an odd word's further rows, which begin at `start`."""
    if count.rows:
        total = odd.setdefault(word, Odd(0, start + count.first_row))
        total.rows += count.rows


def _role_of(place: int, reads: str, selection: Selection) -> tuple[int, str]:
    """Return (what C does with a column's fields, the name of the array they go to)."""
    if reads == "text":
        if place in selection.raw:
            return lib.CSV_RAW, "codes"
        return lib.CSV_WORD, "codes"
    if reads == "date":
        return lib.CSV_DATE, "doubles"
    if place in selection.exact:
        return lib.CSV_EXACT, "doubles"
    return lib.CSV_NUMBER, "matrix"


class CsvReader:
    """Reads rows of some columns from the lines of file after file.

    selection: what is read of each column: number, text or date. rows: of a block of
    memory. Once they are `taken`: columns, as C stores them in `arrays`: matrix (rows,
    columns) has numbers, doubles the exact ones and dates, codes the indices of words,
    the rows of a column one after the other; places: of their columns; spans.
    """

    def __init__(
        self,
        head: Head,
        selection: Selection,
        rows: int | None = None,
        several: bool = False,
    ):
        self.csv = ffi.new("struct csv *")
        self._memory = {}
        self._reads = selection.reads
        self._several = several
        self.csv.columns = head.width
        self.csv.gaps = self._gaps = _gaps(
            selection.missing, head.code_page, self._memory
        )
        self._header_memory = {}
        if are_names(head.names):
            self.csv.header = self._names = _header(head, self._header_memory)
        self._rest = b""  # the front of a row whose end is still to come
        self.spans = []
        self.begin(head)
        csv = self.csv
        self.places = {"matrix": [], "doubles": [], "codes": []}
        roles = np.zeros((csv.columns, 2), np.intc)
        for place, reads in sorted(selection.reads.items()):
            role, name = _role_of(place, reads, selection)
            roles[place] = role, len(self.places[name])
            self.places[name].append(place)
        csv.numbers, csv.apart, csv.texts = map(len, self.places.values())
        roles[self.places["doubles"], 1] += csv.numbers
        csv.is_double = selection.dtype == "float64"
        self._low = np.full(csv.numbers + csv.apart, np.inf)
        self._high = np.full(csv.numbers + csv.apart, -np.inf)
        _point(
            csv,
            self._memory,
            roles=roles,
            low=self._low,
            high=self._high,
            row=np.empty(csv.numbers + csv.apart),
        )
        csv.words = self._c_words = ffi.new("struct csv_words[]", csv.columns)
        self._words = {}
        types = {"matrix": selection.dtype, "doubles": "float64", "codes": "int32"}
        self.arrays = {
            name: np.empty((0, len(self.places[name])), kind, "F")
            for name, kind in types.items()
        }
        widest = max(array.itemsize * array.shape[1] for array in self.arrays.values())
        self._block_rows = rows or max(1, _ALLOCATED_BYTES // max(1, widest))

    def begin(self, head: Head) -> None:
        """Go on with the rows of a file."""
        self._end_span()
        self._head = head
        csv = self.csv
        csv.separator = head.separator.encode()
        csv.point = (head.point or ".").encode()
        csv.first_line = head.first_line
        csv.line = 0
        span = Span(csv.rows, head.first_line)
        if self._several:
            span.path = head.path
        self.spans.append(span)

    def _end_span(self) -> None:
        for span in self.spans[-1:]:
            rows = self.csv.rows - span.at
            span.has_lines = rows == 0 or self.csv.row_line == span.line + rows - 1

    def read_blocks(self, blocks: Iterable[bytes]) -> None:
        """Take in a file, or a piece of it. Raises DataError."""
        for text in blocks:
            self.read(text)
        self.read(b"", is_end=True)
        if self._rest:
            raise open_quote(self._head.path, self.csv.row_line)

    def read(self, text: bytes, is_end: bool = False) -> None:
        """Take in the next bytes of the file. is_end: the last line is whole."""
        text = self._rest + text
        csv = self.csv
        head = self._head
        stop = len(text) if is_end else text.rfind(b"\n") + 1
        at = 0
        is_start = csv.line == 0 and csv.first_line > 0
        if is_start and text[:3] == BYTE_ORDER_MARK:
            at = min(3, stop)
        buffer = ffi.from_buffer(text)
        result = lib.csv_read(csv, buffer + at, stop - at)
        while result not in (lib.CSV_OK, lib.CSV_OPEN):
            self._make_way(result)
            at += csv.used
            result = lib.csv_read(csv, buffer + at, stop - at)
        self._rest = text[at + csv.used :]
        if len(self._rest) > LONGEST_CSV_LINE and b"\n" not in self._rest:
            raise too_long(head.path)
        if len(self._rest) > _LONGEST_ROW and result == lib.CSV_OPEN:
            raise open_quote(head.path, csv.row_line)

    def _make_way(self, result: int) -> None:
        """Make room for what C has no room for. Raises DataError for a row, and for a
        text, that cannot be."""
        csv = self.csv
        head = self._head
        place = csv.column
        if result == lib.CSV_FULL:
            self._make_room(csv.rows + self._block_rows)
            return
        if result == lib.CSV_RAGGED:
            model = "the header" if head.names else f"row {head.first_line}"
            raise DataError(
                f"{head.path}, row {csv.row_line}: {csv.found} columns, "
                f"expected {head.width} as in {model}; correct or remove the row"
            )
        if place not in self._words:
            is_text = self._reads[place] == "text"
            self._words[place] = _Words(self._c_words + place, not is_text)
        if not self._words[place].make_room(csv.length):
            raise DataError(
                f"{head.path}, row {csv.row_line}, {head.column(place)}: more than "
                f"{MAX_WORDS:,} different texts in this column; leave the column out with --drop"
            )

    def _make_room(self, rows: int) -> None:
        """Make room for this many rows."""
        for name, array in self.arrays.items():
            array = _with_room(array, rows, "C" if name == "matrix" else "F")
            self.arrays[name] = array
            _point(self.csv, self._memory, **{name: array.reshape(-1, order="A")})
            self.csv.capacity = len(array)

    def taken(self, room: int = 0) -> CsvReader:
        """Let the columns have the rows; the memory of their blocks is given back.
        room: for how many rows there is room behind them."""
        self._end_span()
        self._make_room(self.csv.rows + room)
        self._memory.clear()
        self.columns = {
            place: Column(self._reads[place], np.empty(0))
            for places in self.places.values()
            for place in places
        }
        # texts, which are last, have none
        bounds = zip(self._low.tolist(), self._high.tolist(), strict=True)
        for column, (low, high) in zip(self.columns.values(), bounds, strict=False):
            column.low = low
            column.high = high
        for place in list(self._words):
            words = self._words.pop(place)
            words.hand_over(self.columns[place], self._head.code_page)
        self.point_columns()
        return self

    def point_columns(self) -> None:
        """Let the columns have their parts of the arrays."""
        for name, places in self.places.items():
            for slot, place in enumerate(places):
                self.columns[place].values = self.arrays[name][: self.csv.rows, slot]


# -- one file --------------------------------------------------------------------------


def _read_pieces(head: Head, selection: Selection, size: int) -> CsvReader | None:
    """Return all rows of a file, read by a thread a piece; None if that cannot be done,
    or is not worth it."""
    pieces = min(default_threads(), size // _PIECE_BYTES)
    cuts = {0, size}
    failures = []
    with open(local(head.path), "rb") as file:
        for piece in range(1, pieces):
            file.seek(piece * size // pieces)
            if file.readline(BLOCK).endswith(b"\n"):
                cuts.add(file.tell())
    cuts = sorted(cuts)
    if len(cuts) < 3:
        return None

    # fewer where the file has become shorter or a piece has failed
    def blocks(at: int, stop: int) -> Iterator[bytes]:
        with open(local(head.path), "rb", buffering=0) as file:
            file.seek(at)
            while not failures and (block := file.read(min(BLOCK, stop - file.tell()))):
                yield block

    def read(start: int, stop: int) -> CsvReader:
        if start:
            piece_head = replace(head, first_line=0)
            size = stop - start
        else:  # there is room for the rows of all pieces behind those of the first
            piece_head = head
            size = cuts[-1]
        reader = CsvReader(piece_head, selection, head.rows_in(size))
        try:
            reader.read_blocks(blocks(start, stop))
        except DataError:
            failures.append(True)  # not the error, whose frames would hold the reader
        return reader

    with ThreadPoolExecutor(len(cuts) - 1) as pool:
        readers = list(pool.map(read, cuts[:-1], cuts[1:]))
        counts = [reader.csv.rows for reader in readers]
        if failures or not counts[0]:
            return None
        # the rows of all pieces will stand behind those of the first
        whole = readers[0].taken(sum(counts[1:]))
        return _joined([whole, *(reader.taken() for reader in readers[1:])], pool)


def _joined(pieces: list[CsvReader], pool: ThreadPoolExecutor) -> CsvReader | None:
    """Return the rows of all pieces, moved behind those of the first one; None if they
    have too many words."""
    whole = pieces[0]
    lines = pieces[0].csv.line
    last_line = pieces[0].csv.row_line
    for piece in pieces[1:]:
        start = whole.csv.rows
        whole.csv.rows = whole.csv.rows + piece.csv.rows
        whole.csv.repeats += piece.csv.repeats
        if piece.csv.rows:
            last_line = lines + piece.csv.row_line
        lines += piece.csv.line
        recode = partial(_recode, whole, piece, start)
        list(pool.map(recode, range(len(whole.places["codes"]))))
        if any(len(column.words) > MAX_WORDS for column in whole.columns.values()):
            return None
        for name in ("matrix", "doubles"):
            room = whole.arrays[name][start : whole.csv.rows]
            values = piece.arrays[name][: piece.csv.rows]
            parts = np.array_split(room, len(pieces))
            list(pool.map(np.copyto, parts, np.array_split(values, len(pieces))))
        for place, column in piece.columns.items():
            total = whole.columns[place]
            total.low = min(total.low, column.low)
            total.high = max(total.high, column.high)
            for word, count in column.odd.items():
                _add_odd(total.odd, word, count, start)
        piece.arrays.clear()
        piece.columns.clear()  # and the memory of both
    whole.spans[0].has_lines = last_line == whole.spans[0].line + whole.csv.rows - 1
    whole.point_columns()
    return whole


def _recode(whole: CsvReader, piece: CsvReader, start: int, slot: int) -> None:
    """Add the words of further rows to the first ones; their codes become codes among
    these. -1, a gap, stays."""
    place = whole.places["codes"][slot]
    column = whole.columns[place]
    further = piece.columns[place]
    words = column.words
    code_of = {word: code for code, word in enumerate(words)}
    for word in further.words:
        if word not in code_of:
            code_of[word] = len(words)
            words.append(word)
    codes = np.array([*map(code_of.get, further.words), -1], np.int32)
    column.word_rows = _with_room(column.word_rows, len(words))[: len(words)]
    np.add.at(column.word_rows, codes[:-1], further.word_rows)
    whole.arrays["codes"][start : whole.csv.rows, slot] = codes[further.values]
