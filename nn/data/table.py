"""Table: the fields of rows in typed columns, as every table format gives them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Span:
    """Rows of one file that follow each other in a table."""

    at: int  # index of the first one in the table
    line: int  # its line in the file, if no blank line comes in between
    number: int  # its number among the rows of the file, from 1
    path: str | None = None  # None: the only file
    has_blank_lines: bool = False
    word: str = "row"


@dataclass
class Table:
    """The fields of rows, in typed columns. A gap is nan among numbers and dates, and -1 among codes.

    `names` are the class names that `targets` counts, None if it is numbers.
    """

    inputs: np.ndarray  # (rows, columns of numbers) in the type asked for
    targets: np.ndarray  # (rows, targets) float64
    names: list[str] | None
    low: np.ndarray  # (columns of numbers) float64, before any rounding to float32, of all rows read so far
    high: np.ndarray
    spans: list[Span]
    codes: np.ndarray | None = None  # (rows, columns of text) int32, indices into `words`; None: no such column
    words: list[list[str]] = field(default_factory=list)  # of each column of text, as far as rows were read
    dates: np.ndarray | None = None  # (rows, columns of dates) float64, seconds since 1970-01-01; None: no such column
    ids: list[list[str]] = field(default_factory=list)  # of each id column the text of every row
    unlabelled: int = 0  # rows left out so far because a target is a gap

    def row(self, index: int) -> str:
        """Return how messages call a row: by its line in the file, counted from 1 (unknown behind a blank line)."""
        span = [span for span in self.spans if span.at <= index][-1]
        after = index - span.at
        place = f"data row {span.number + after}" if span.has_blank_lines else f"{span.word} {span.line + after}"
        return place if span.path is None else f"{place} of {span.path}"
