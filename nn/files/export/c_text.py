"""C as text: numbers and words as constants, and a template of which only the needed parts are kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

_WIDTH = 118
_SIZES = {"double": 8, "int": 4, "pointer": 8}  # bytes


class Constants:
    """Arrays of constants; equal ones are kept once.

    dtype: the NumPy type of nn_real. sizes: bytes of the types that the file defines. bytes: of all arrays so far,
    where pointers have 8.
    """

    def __init__(self, dtype: str, sizes: dict[str, int]):
        self.dtype, self.bytes, self._sizes = np.dtype(dtype), 0, _SIZES | sizes
        self._parts: list[str] = []
        self._names: dict[tuple, str] = {}

    def array(self, name: str, values, ctype: str = "nn_real", remark: str = "") -> str:
        """Return the name of an array: `name`, or that of an equal one. ctype: its type in C."""
        array = np.ravel(np.asarray(values, {"nn_real": self.dtype, "double": np.float64}.get(ctype, np.int64)))
        key = ctype, array.tobytes()
        if key not in self._names:
            self._names[key] = name = self._unused(name)
            self.bytes += array.size * self._sizes[ctype]
            self._add(ctype, name, _lines(numbers(array)), array.size, remark)
        return self._names[key]

    def words(self, name: str, words: list[bytes], remark: str = "") -> str:
        """Return the name of an array of texts: `name`, or that of an equal one."""
        key = "words", *words
        if key not in self._names:
            self._names[key] = name = self._unused(name)
            self.bytes += sum(len(word) + 1 + _SIZES["pointer"] for word in words)
            self._add("char *const", name, _lines(map(quoted, words)), len(words), remark)
        return self._names[key]

    def structs(self, ctype: str, name: str, rows: list[str], remark: str = "") -> str:
        """Add an array of structs, a line each, and return its name."""
        self._add(ctype, name, (f"    {row}\n" for row in rows), len(rows), remark)
        fields = sum(row.partition("/*")[0].count(",") for row in rows)
        self.bytes += 8 * fields
        return name

    def line(self, text: str) -> None:
        """Add a line that defines something else."""
        self._parts.append(f"{text}\n")

    def text(self) -> str:
        """Return all definitions."""
        return "".join(self._parts).rstrip("\n")

    def _unused(self, name: str) -> str:
        """Return the name, with a number behind it if an array has it already."""
        used, number = set(self._names.values()), 2
        first = name
        while name in used:
            name, number = f"{first}_{number}", number + 1
        return name

    def _add(self, ctype: str, name: str, lines: Iterable[str], size: int, remark: str) -> None:
        heading = f"/* {remark} */\n" if remark else ""
        self._parts += [f"\n{heading}static const {ctype} {name}[{size}] = {{\n", *lines, "};\n"]


def numbers(array: np.ndarray) -> list[str]:
    """Return the shortest decimals that give the numbers back."""
    if array.dtype == np.float32:
        return [f"{text}f" for text in array.astype(str).tolist()]
    return list(map(repr, array.tolist()))


def quoted(word: bytes) -> str:
    """Return a text as a literal of C; other bytes than letters of ASCII are octal, and no trigraph comes about."""
    plain = (chr(c) if 32 <= c < 127 and c not in b'"\\?' else _escaped(c) for c in word)
    return f'"{"".join(plain)}"'


def _escaped(c: int) -> str:
    return f"\\{chr(c)}" if c in b'"\\?' else f"\\{c:03o}"


def comment(text: str) -> str:
    """Return a text that may stand in a comment of one line."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    for two in ("/*", "*/", "??"):
        text = text.replace(two, f"{two[0]} {two[1]}")
    return text


def _lines(items: Iterable[str]) -> Iterator[str]:
    """Yield lines of items with commas."""
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > _WIDTH and line != "   ":
            yield f"{line}\n"
            line = "   "
        line += f" {item},"
    yield f"{line}\n"


# ---------------------------------------------------------------- templates


def template(name: str, features: Collection[str]) -> str:
    """Return a C file beside this module without the parts that depend on HAS_ names that are not among `features`."""
    kept, conditions = [], []  # None: a condition of the C file itself
    for line in _with_included(name):
        word, _, rest = line.partition(" ")
        if word in ("#if", "#ifdef", "#ifndef"):
            conditions.append(_holds(rest, features) if "HAS_" in rest else None)
            if conditions[-1] is not None:
                continue
        elif word in ("#else", "#endif") and conditions[-1] is not None:
            last = conditions.pop()
            if word == "#else":
                conditions.append(not last)
            continue
        elif word == "#endif":
            conditions.pop()
            if False not in conditions:
                kept.append(line)
            continue
        if False not in conditions:
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept) + "\n")


def _with_included(name: str) -> Iterator[str]:
    """Yield the lines of a C file beside this module; #include "layers.c" stands for the lines of that file."""
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        word, _, included = line.partition(" ")
        if word == "#include" and included.startswith('"'):
            yield from _with_included(included.strip('"'))
        else:
            yield line


def _holds(condition: str, features: Collection[str]) -> bool:
    """Return whether a condition of names, !, && and || is true."""

    def is_true(word: str) -> bool:
        word = word.strip()
        return (word.lstrip("!").removeprefix("HAS_") in features) != word.startswith("!")

    return any(all(map(is_true, part.split("&&"))) for part in condition.split("||"))


def filled(text: str, parts: dict[str, str]) -> str:
    """Return a template with its places, /*@name*/, filled."""
    return re.sub(r"/\*@(\w+)\*/", lambda found: parts[found[1]], text)
