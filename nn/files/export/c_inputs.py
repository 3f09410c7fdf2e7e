"""The columns of a table as C structs: what the first layer gets of each, and the words
that columns may hold."""

from __future__ import annotations

import numpy as np

from ...data.calendar import DATE_PARTS
from ...data.column import Column, encodings_of
from ...data.encoders import (
    CategoryEncoder,
    DateEncoder,
    NumberEncoder,
    TruthEncoder,
)
from ...data.encoding import Encoding
from ...data.written import YES_NO, Order
from ...layers import InputColumn, input_shape
from ...utils import UsageError
from .c_text import Constants, numbers
from .columns import UNSEEN, distinct, exposure_name, input_kind, spellings

LONGEST_LITERAL = 4000  # bytes: a C compiler need not take more in a literal
SLOT_TYPES = {"unsigned char": 1, "unsigned short": 2, "unsigned": 4}  # and their bytes


def in_bytes(word: str, code_page: str) -> list[bytes]:
    """Return a word as files may hold it: in UTF-8 or, where that is no UTF-8, in the
    code page."""
    if UNSEEN in word:
        return []
    return encodings_of(word, code_page)


class Vocabulary:
    """The words of a column of text, of all encodings that members have of it; the
    place of a word is its code.

    any_case: the words, all in small letters, stand for those in capital letters too.
    """

    def __init__(self, encoders: list, code_page: str):
        self.any_case = all(isinstance(encoder, TruthEncoder) for encoder in encoders)
        known: set[str] = set()
        for encoder in encoders:
            if isinstance(encoder.written, Order):
                known.update(encoder.written.ranks_of_forms())
            elif isinstance(encoder, CategoryEncoder):
                for word in (*encoder.values, *encoder.means):
                    if word is not None:
                        known.update(encoder.forms(word))
            elif self.any_case:
                known.update(YES_NO)
            else:
                for word in YES_NO:
                    known.update(spellings(word))
        placed = sorted(
            (form, word) for word in known for form in in_bytes(word, code_page)
        )
        self.forms = [form for form, _ in placed]
        self.words = [word for _, word in placed]

    def slots(
        self, encoder: TruthEncoder | CategoryEncoder | NumberEncoder
    ) -> list[int]:
        """Return the value of each code: of words, of an unseen word, of a gap; of
        yes/no words 0, 1, 2 for neither; of ordered words their ranks, the number of
        them for other words and gaps."""
        if isinstance(encoder.written, Order):
            ranks = encoder.written.ranks_of_forms()
            beyond = len(encoder.written.order)
            return [ranks.get(word, beyond) for word in self.words] + [beyond, beyond]
        if isinstance(encoder, TruthEncoder):
            return [int(YES_NO.get(word.lower(), 2)) for word in self.words] + [2, 2]
        codes = np.array([*range(len(self.words) + 1), -1])
        words = [*map(encoder.canonical, self.words), UNSEEN]
        return encoder.encode(Column("text", codes, words))[0].tolist()


class Columns:
    """The raw columns of a row, in their order.

    names: None where they have none; labels: what messages and comments call them.
    reads: number, date or text of each. vocabularies: of each column of texts, none for
    plain numbers. encodings: of the members that have one. exposure: the name of a
    further column, by which outputs are multiplied; None: there is none.
    """

    def __init__(self, net, path):
        self.shape = input_shape(net.layers)
        self.count = net.inputs
        self.encodings = [
            member.encoding for member in net.members if member.encoding is not None
        ]
        self.exposure = exposure_name(net)
        self.names = distinct(net.columns)
        self.reads = ["number"] * self.count
        if self.encodings:
            self.reads = [input_kind(encoder) for encoder in self.encodings[0].encoders]
        if net.encoding is not None:
            self.names = distinct(net.encoding.names)
        if self.names is None or len(self.names) != self.count:
            self.names = None
        self.labels = self.names or [f"column {place}" for place in range(self.count)]
        self.vocabularies: list[Vocabulary | None] = []
        if self.encodings:
            self.vocabularies = vocabularies(
                self.encodings, self.labels, net.code_page, path
            )


def vocabularies(
    encodings: list[Encoding], names: list[str], code_page: str, path
) -> list[Vocabulary | None]:
    """Return the vocabulary of each column, None of one that is not text. Raises
    UsageError for a very long word."""
    vocabularies_of_columns = []
    encoders_of_members = [encoding.encoders for encoding in encodings]
    for name, *encoders in zip(names, *encoders_of_members, strict=True):
        if input_kind(encoders[0]) != "text":
            vocabularies_of_columns.append(None)
            continue
        vocabulary = Vocabulary(encoders, code_page)
        longest = max(map(len, vocabulary.forms), default=0)
        if longest > LONGEST_LITERAL:
            cure = f"expected at most {LONGEST_LITERAL} in C; shorten it, or leave the column out of the training (--drop)"
            raise UsageError(
                f"{path}: column {name}: a value of {longest} bytes, {cure}"
            )
        vocabularies_of_columns.append(vocabulary)
    return vocabularies_of_columns


def add_vocabularies(
    constants: Constants, vocabularies: list[Vocabulary | None], names: list[str]
) -> None:
    """Add the words of each column, and what finds them by a column's place."""
    rows = []
    kept = {}
    for place, vocabulary in enumerate(vocabularies or [None]):
        if vocabulary is None:
            rows.append(["NULL", "0", "0"])
            continue
        forms = tuple(vocabulary.forms or [b""])
        if forms not in kept:
            kept[forms] = constants.words(f"words_{place}", list(forms), names[place])
        rows.append(
            [kept[forms], str(len(vocabulary.forms)), str(int(vocabulary.any_case))]
        )
    constants.structs("vocabulary", "vocabularies", rows)


def slot_type(encodings: list[Encoding]) -> str:
    """Return the smallest type for the places among the values of any column."""
    most = 0
    for encoding in encodings:
        for _, _, column in kinds_of(encoding):
            most = max(most, column.values)
    most = most or 2
    return next(name for name, size in SLOT_TYPES.items() if most < 1 << 8 * size)


def kinds_of(encoding: Encoding) -> list[tuple[str, int, InputColumn]]:
    """Return (kind in C, column of the table, input) of what the first layer gets, in
    its order.

    Sine and cosine of a date's cycle are one; means of targets are a table that is not
    trained, of a column of numbers.
    """
    kinds = []
    for (place, which), column in zip(encoding.order, encoding.columns, strict=True):
        encoder = encoding.encoders[place]
        if isinstance(encoder, DateEncoder) and which:
            names = []
            for cycle in encoder.cycles:
                names += [cycle, ""]  # sine and cosine
            names += encoder.parts
            name = names[which - 1]
            if name:
                kinds.append((name.upper(), place, column))
        elif isinstance(encoder, TruthEncoder):
            kinds.append(("TRUTH", place, column))
        elif isinstance(encoder.written, Order):
            ranks = column._replace(values=len(encoder.written.order))
            kinds.append((column.kind.upper(), place, ranks))
        elif isinstance(encoder, CategoryEncoder) and which:
            if which == 1:  # the table has the means of all targets
                values = len(encoder.means)
                means = column._replace(values=values, width=encoder.targets)
                kinds.append(("EMBEDDING", place, means))
        else:
            kinds.append((column.kind.upper(), place, column))
    return kinds


class Inputs:
    """Writes the inputs of networks."""

    def __init__(self, constants: Constants, vocabularies: list[Vocabulary | None]):
        self._constants = constants
        self._vocabularies = vocabularies

    def add(self, name: str, encoding: Encoding, weight: np.ndarray | None) -> int:
        """Add an array of inputs; return how many they are. weight: of the embedding
        layer. name: before all names."""
        frequencies = sum(column.waves for column in encoding.columns)
        table = 0
        if weight is None:
            wave = 0
        else:
            wave = len(weight) - frequencies
        rows = []
        for kind, place, column in kinds_of(encoding):
            encoder = encoding.encoders[place]
            learned = None
            table_name = name
            if kind == "EMBEDDING" and not column.parameters:
                learned = np.array([*encoder.means.values()])
                table_name = f"{name}means_"
            elif column.parameters:
                learned = weight[table : table + column.parameters]
                learned = learned.reshape(column.values, column.width)
                table += column.parameters
            elif column.waves:
                learned = weight[wave : wave + column.waves]
                wave += column.waves
            rows.append(self._fields(table_name, kind, place, column, encoder, learned))
        self._constants.structs("row_input", f"{name}inputs", rows)
        return len(rows)

    def _fields(
        self, name: str, kind: str, place: int, column: InputColumn, encoder, learned
    ) -> list[str]:
        array = self._constants.array_or_null
        counts = (
            place,
            int(encoder.kind != "number"),
            column.pieces,
            column.waves,
            column.values,
            column.width,
        )
        scaling = numbers(np.array(_scaling(kind, encoder, column)))
        if column.pieces:
            compared_name = f"{name}edges_{place}"
        else:
            compared_name = f"{name}frequent_{place}"
        compared = array(compared_name, _compared(encoder, column))
        if column.waves:
            frequencies = array(f"{name}frequencies_{place}", learned)
        else:
            frequencies = array(f"{name}frequencies_{place}", ())
        slots = "NULL"
        if input_kind(encoder) == "text":
            slots = self._slots(place, encoder, column)
        table = self._table(name, place, column, learned)
        numbers_of_input = [*map(str, counts), *scaling]
        return [kind, *numbers_of_input, compared, frequencies, slots, table]

    def _slots(self, place: int, encoder, column: InputColumn) -> str:
        vocabulary = self._vocabularies[place]
        slots = vocabulary.slots(encoder)
        has_values = column.kind == "number" and column.values
        if has_values and not isinstance(encoder.written, Order):  # means of targets
            places = {word: at for at, word in enumerate(encoder.means)}
            words = [*map(encoder.canonical, vocabulary.words), UNSEEN, UNSEEN]
            slots = [places.get(word, len(places)) for word in words]
        return self._constants.array(f"slots_{place}", slots, "nn_slot")

    def _table(self, name: str, place: int, column: InputColumn, learned) -> str:
        """Add a column's table, with a row of zeros behind it for words that have
        none."""
        if not column.width:
            return "NULL"
        table = np.vstack([learned, np.zeros((1, column.width))])
        return self._constants.array(f"{name}table_{place}", table)


def _compared(encoder, column: InputColumn) -> list[float] | tuple[float, ...]:
    """Return the numbers that a number is compared with: ends of pieces, or frequent
    values."""
    if column.kind == "onehot" and isinstance(encoder, NumberEncoder):
        return encoder.frequent
    if column.pieces:
        return column.edges
    return ()


def _scaling(kind: str, encoder, column: InputColumn) -> tuple[float, float, float]:
    """Return shift, scale and fill of an input."""
    if kind == "TRUTH":
        return 0.0, 0.0, encoder.share
    if kind.lower() in DATE_PARTS:
        shift, scale = DATE_PARTS[kind.lower()]
        return shift, scale, shift
    if kind not in ("NUMBER", "GAP"):
        return 0.0, 0.0, 0.0
    if kind == "GAP":
        fill = column.fill
    elif isinstance(encoder, NumberEncoder):
        fill = encoder.median
    else:
        fill = encoder.shift
    return encoder.shift, encoder.scale, fill
