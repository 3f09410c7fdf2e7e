"""C as text: numbers, words and structs as constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

_LINE_WIDTH = 118
C_NUMBERS = {"float32": "float", "float64": "double"}
# bytes
_C_SIZES = {
    "double": 8,
    "pointer": 8,
    "layer": 88,
    "row_input": 88,
    "vocabulary": 16,
    "network": 88,
    "sureness": 72,
}


class Constants:
    """Arrays of constants; equal ones of numbers are kept once.

    dtype: the NumPy type of nn_real. sizes: bytes of types whose size the network
    decides. bytes: of all arrays so far, where pointers have 8.
    """

    def __init__(self, dtype: str, sizes: dict[str, int]):
        self.dtype = np.dtype(dtype)
        self.bytes = 0
        self._sizes = _C_SIZES | sizes
        self._sizes["nn_real"] = self.dtype.itemsize
        self._parts: list[str] = []
        self._names: dict[tuple, str] = {}

    def array(self, name: str, values, ctype: str = "nn_real", remark: str = "") -> str:
        """Return the name of an array: `name`, or that of an equal one. ctype: its type
        in C."""
        array = np.ravel(
            np.asarray(
                values,
                {"nn_real": self.dtype, "double": np.float64}.get(ctype, np.int64),
            )
        )
        key = ctype, array.tobytes()
        if key not in self._names:
            self._names[key] = name = self._unused(name)
            self.bytes += array.size * self._sizes[ctype]
            self._add(ctype, name, _lines(numbers(array)), array.size, remark)
        return self._names[key]

    def array_or_null(self, name: str, values, ctype: str = "nn_real") -> str:
        """Return the name of an array, NULL if it is empty."""
        if len(values):
            return self.array(name, values, ctype)
        return "NULL"

    def digits(self, name: str, weights: np.ndarray, remark: str) -> tuple[str, float]:
        """Add rows of weights, a literal for each; return the name of the first row,
        and the unit of all (model.c, layer)."""
        exponents, unit = _exponents(weights)
        whole = np.round(np.ldexp(weights.astype(np.float64), -exponents[:, None]))
        whole = np.clip(whole + _HALF, 0, 2 * _HALF - 1).astype(np.int64)
        places = whole[:, :, None] >> np.arange(0, 24, 6) & 63
        firsts = (exponents - unit)[:, None]
        rows = np.hstack([firsts, places.reshape(len(weights), -1)])
        texts = (row.tobytes().decode("ascii") for row in _DIGITS[rows])
        literals = (text.replace("\\", "\\\\") for text in texts)
        lines = (f'"{literal}",\n' for literal in literals)
        width = rows.shape[1] + 1
        self.bytes += len(rows) * width
        self._add("char", name, lines, len(rows), remark, f"[{width}]")
        return f"{name}[0]", float(np.ldexp(1.0, unit))

    def words(self, name: str, words: list[bytes], remark: str = "") -> str:
        self.bytes += sum(len(word) + 1 + _C_SIZES["pointer"] for word in words)
        self._add("char *const", name, _lines(map(quoted, words)), len(words), remark)
        return name

    def structs(self, ctype: str, name: str, rows: list[list[str]]) -> None:
        """Add an array of structs, a line of fields for each."""
        self._add(ctype, name, (f"    {braces(row)},\n" for row in rows), len(rows))
        self.bytes += len(rows) * self._sizes[ctype]

    def line(self, text: str) -> None:
        self._parts.append(f"{text}\n")

    def text(self) -> str:
        return "".join(self._parts).rstrip("\n")

    def _unused(self, name: str) -> str:
        """Return the name, with a number behind it if an array has it already."""
        used = set(self._names.values())
        number = 2
        wanted_name = name
        while name in used:
            name = f"{wanted_name}_{number}"
            number = number + 1
        return name

    def _add(
        self,
        ctype: str,
        name: str,
        lines: Iterable[str],
        size: int,
        remark: str = "",
        width: str = "",
    ) -> None:
        if remark:
            heading = f"/* {remark} */\n"
        else:
            heading = ""
        self._parts += [
            f"\n{heading}static const {ctype} {name}[{size}]{width} = {{\n",
            *lines,
            "};\n",
        ]


_HALF = 1 << 23  # what stands for a weight of 0: 4 digits hold twice as many numbers
_MOST_SHIFT = 30  # a row's unit is an int times that of all
_LEAST_EXPONENT = np.finfo(np.float32).minexp
# the last 6 bits of a character's code are the digit; none of them ends a trigraph
_DIGITS = np.array([*range(64, 127), ord("?")], np.uint8)


def _exponents(weights: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the exponent of each row's unit, of which 2^23 are no less than the
    largest weight, and the least that any has."""
    _, exponents = np.frexp(np.abs(weights).max(axis=1))
    exponents = exponents.astype(np.int64) - 23
    least = max(exponents.max() - _MOST_SHIFT, _LEAST_EXPONENT)
    exponents = np.maximum(exponents, least)
    return exponents, int(exponents.min())


def numbers(array: np.ndarray) -> list[str]:
    """Return the shortest decimals that give the numbers back."""
    if array.dtype == np.float32:
        return [f"{text}f" for text in array.astype(str).tolist()]
    return list(map(repr, array.tolist()))


def braces(items: Iterable) -> str:
    return f"{{{', '.join(map(str, items))}}}"


def quoted(word: bytes) -> str:
    """Return a text as a literal of C; other bytes than letters of ASCII are octal, and
    no trigraph comes about."""
    plain = (
        chr(c) if 32 <= c < 127 and c not in b'"\\?' else _escaped(c) for c in word
    )
    return f'"{"".join(plain)}"'


def _escaped(c: int) -> str:
    if c in b'"\\?':
        return f"\\{chr(c)}"
    return f"\\{c:03o}"


def comment(text: str) -> str:
    """Return a text that may stand in a comment of one line."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    for two in ("/*", "*/", "??"):
        text = text.replace(two, f"{two[0]} {two[1]}")
    return text


def _lines(items: Iterable[str]) -> Iterator[str]:
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > _LINE_WIDTH and line != "   ":
            yield f"{line}\n"
            line = "   "
        line += f" {item},"
    yield f"{line}\n"
