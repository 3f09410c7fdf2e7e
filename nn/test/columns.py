"""The raw columns of a model: their names, and the values of rows as people read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.table_rows import TableRows
from ..matrix import matmul
from ..utils import UsageError

CORRELATED = 0.9  # from which two columns share what they say


def names_of(net) -> list[str]:
    """Return the names of the raw columns that are inputs; their places where the data had no header."""
    encoding = net.members[0].encoding
    if encoding is not None:
        return [encoding.name(index) for index in range(encoding.features)]
    return list(net.columns or map(str, range(net.inputs)))


def raw_data(x) -> np.ndarray:
    """Return rows as they were given, (rows, columns): numbers, or objects where there are words; "" is missing."""
    if not isinstance(x, TableRows):
        return np.asarray(x).reshape(len(x), -1)
    found = np.empty((len(x), len(x.kinds)), object)
    for index, column in enumerate(x.columns):
        found[:, index] = [*column.values] if column.reads != "text" else words_of(x, index)
    return found


def words_of(x: TableRows, index: int) -> list[str]:
    """Return the words of a column of text, "" where one is missing."""
    words = [*x.columns[index].words, ""]
    return [words[code] for code in x.columns[index].values]


def groups_of(names: Sequence[str], text: str | None) -> list[tuple[str, list[int]]]:
    """Return (name, columns) of what importance is told of: each column, then each group of `a+b,c+d`.

    Raises UsageError for a column that is no input.
    """
    found = [(name, [index]) for index, name in enumerate(names)]
    for group in text.split(",") if text else ():
        columns = group.split("+")
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise UsageError(f"--group_columns {group}: {unknown[0]} is no input of the model: {', '.join(names)}")
        found.append((group, [names.index(name) for name in columns]))
    return found


def correlated(x, names: Sequence[str]) -> list[tuple[str, str, float]]:
    """Return pairs of columns of numbers whose correlation is at least 0.9, strongest first, with it."""
    numbers = _numbers(x)
    if len(numbers) < 2:
        return []
    each = np.array([values - values.mean() for values in numbers.values()])
    with np.errstate(invalid="ignore", divide="ignore"):
        each /= np.sqrt((each**2).sum(axis=1, keepdims=True))
    r = matmul(each, each.T)  # NumPy's library of matrices would end the process where a limit leaves it no memory
    places = [*numbers]
    pairs = [
        (names[places[a]], names[places[b]], float(r[a, b]))
        for a in range(len(places))
        for b in range(a)
        if abs(r[a, b]) >= CORRELATED
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


def _numbers(x) -> dict[int, np.ndarray]:
    """Return the columns of numbers, by their place; what is missing has the mean."""
    if isinstance(x, TableRows):
        found = {k: column.values for k, column in enumerate(x.columns) if column.reads == "number"}
    else:
        found = dict(enumerate(np.asarray(x).reshape(len(x), -1).T))
    filled = {}
    for place, values in found.items():
        values = np.asarray(values, np.float64)
        known = np.isfinite(values)
        if known.any():
            filled[place] = np.where(known, values, values[known].mean())
    return filled
