"""Messages to people: one line each, of printable characters, and not too long."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from .errors import NnWarning, spoken

# characters of a message: one may quote what a file of any size holds
LONGEST_MESSAGE = 1000
MOST_WHOLE = 1e15  # below it float64 holds all whole numbers


class AsWarnings(logging.Handler):
    """Makes a remark a warning of Python, at the line that called nn."""

    def emit(self, record: logging.LogRecord) -> None:
        frame = caller = sys._getframe()
        while frame.f_back:
            is_ours = frame.f_globals.get("__name__", "").partition(".")[0] == "nn"
            frame = frame.f_back
            if is_ours:
                caller = frame
        registry = caller.f_globals.setdefault("__warningregistry__", {})
        where = caller.f_code.co_filename, caller.f_lineno
        warnings.warn_explicit(
            printable(spoken(record.getMessage())), NnWarning, *where, registry=registry
        )


log = logging.getLogger("nn")  # a command prints its remarks as lines
log.addHandler(AsWarnings(logging.WARNING))


@contextlib.contextmanager
def logged_once(*loggers: logging.Logger) -> Iterator[None]:
    """Let each message be logged once, whoever repeats it."""
    seen = set()

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_first = text not in seen
        seen.add(text)
        return is_first

    with contextlib.ExitStack() as stack:
        for logger in loggers:
            logger.addFilter(is_new)
            stack.callback(logger.removeFilter, is_new)
        yield


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return which of the names is most like a misspelt one; None if none is much like
    it."""
    import difflib

    matches = difflib.get_close_matches(name, list(names), 1)
    return next(iter(matches), None)


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return the names with commas between them; of more than `most` names the first
    ones, the others counted."""
    text = ", ".join(str(name) for name in names[:most])
    if len(names) <= most:
        return text
    return f"{text} and {len(names) - most} more"


def axis_texts(values: Sequence[float], digits: int = 4) -> list[str]:
    """Return numbers of one axis with this many digits, and with more where they lie
    far from 0 beside their spread, so that they can be told apart."""
    finite = [value for value in values if math.isfinite(value)]
    spread = max(finite, default=0.0) - min(finite, default=0.0)
    largest = max(map(abs, finite), default=0.0)
    if spread > 0 and math.isfinite(spread) and largest > spread:
        shared_digits = int(math.log10(largest / spread)) - 1
        if shared_digits > 0:
            digits_before_point = int(math.log10(max(largest, 0.1))) + 1
            digits = max(digits + shared_digits, digits_before_point)
    return [figure_text(value, min(digits, 17)) for value in values]


def target_text(names: Sequence[str] | None, asked, is_table: bool = True) -> str:
    """Return which columns are the targets, and how others are chosen where nobody has;
    empty for none of a table.

    names: of the target columns. asked: --target, None: the last column.
    """
    if not names:
        if not is_table:
            return ""
        if asked is None:
            return "target the last column (--target chooses)"
        return f"target column {asked}"
    if len(names) > 1:
        text = f"targets {listed(names)}"
        usual = "the last columns"
    else:
        text = f"target {listed(names)}"
        usual = "the last column"
    if asked is None:
        return f"{text} ({usual}; --target chooses)"
    return text


def figure_text(value: float | None, digits: int = 4) -> str:
    """Return a figure with this many digits, a large one as a whole number with
    thousands separators: `12,340`; `undefined` for None, and for what is not finite."""
    if value is None or not math.isfinite(value):
        return "undefined"
    text = f"{value:.{digits}g}"
    rounded = abs(float(text))
    if not 1000 <= rounded < MOST_WHOLE:
        return text
    decimals = max(0, digits - 1 - math.floor(math.log10(rounded)))
    text = f"{float(text):,.{decimals}f}"
    if decimals:
        text = text.rstrip("0").rstrip(".")
    return text


def distinct_names(names: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Return the names, each once and none that is taken: `_` behind one that would
    come again."""
    used = set(taken)
    distinct = []
    for name in names:
        candidate = name
        while candidate in used or (candidate != name and candidate in names):
            candidate += "_"
        used.add(candidate)
        distinct.append(candidate)
    return distinct


def names_apart(given: Sequence[str], taken: Iterable[str] = ()) -> list[str]:
    """Return the names that columns of a file get in a table beside its own columns,
    whose names are taken; log which of them change."""
    names = distinct_names(given, taken)
    changed = [
        f"{old} as {new}" for old, new in zip(given, names, strict=True) if old != new
    ]
    if changed:
        log.warning(
            "no two columns that are written have one name: %s", listed(changed)
        )
    return names


def counted(texts: Iterable[str]) -> list[str]:
    """Return the one text that all of these are, else each that differs with how many
    are so: `2 x none`."""
    counts = Counter(texts)
    return [
        f"{count} x {text}" if len(counts) > 1 else text
        for text, count in counts.items()
    ]


def plural(count: int, noun: str, ending: str = "s") -> str:
    """Return the count with its noun: `1 row`, `2 rows`."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{ending}"


def printable(text: str) -> str:
    """Return the text as one line of printable characters: a file name may hold a line
    break or undecodable bytes."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


def show(line: str) -> None:
    """Write one line to stdout."""
    print(cut_line(line))


def log_line(line: str) -> None:
    """Write one line to stderr. A log that nobody reads any more is no reason to lose a
    training."""
    with contextlib.suppress(OSError, ValueError):
        print(cut_line(line), file=sys.stderr, flush=True)


def cut_line(text: str, most: int = LONGEST_MESSAGE) -> str:
    """Return a text as one printable line of `most` characters or little more: its
    beginning, and its end, where the cure stands."""
    line = printable(text)
    if len(line) <= most:
        return line
    return f"{line[: most * 7 // 10 - 5]} ... {line[-(most * 3 // 10) :]}"


def os_reason(error: OSError) -> str:
    """Return the operating system's own words, without the path and number that Python
    adds."""
    return error.strerror or str(error)
