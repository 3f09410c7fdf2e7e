"""Checks of the facts of a file, which is JSON from a stranger: small ones, and those
that are made of them.

    is_history = object_of({"loss": list_of(is_number), "epoch": is_whole}, ["epoch"])
    is_history({"loss": [0.5, 0.25]})  # True
    is_history({"loss": [0.5, None]})  # False
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

Check = Callable[[Any], bool]


def is_number(value) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    )


def is_whole(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_string(value) -> bool:
    return isinstance(value, str)


def is_choice(value) -> bool:
    return is_string(value) or is_whole(value)


def is_bool(value) -> bool:
    return isinstance(value, bool)


def is_true(value) -> bool:
    return value is True


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def map_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def object_of(
    checks: dict[str, Check], optional: Iterable[str] = (), *, closed: bool = False
) -> Check:
    """Return the check of an object with these keys, each with its own check; some may
    be missing. closed: it has no others."""

    def passes(value) -> bool:
        if not isinstance(value, dict) or (closed and value.keys() - checks.keys()):
            return False
        return all(
            check(value[key]) if key in value else key in optional
            for key, check in checks.items()
        )

    return passes


def one_of(names: Iterable[str]) -> tuple[Check, str]:
    """Return the check of a name, and the words for the names that may be."""
    names = tuple(names)  # a value that has no hash is none of them
    return names.__contains__, " or ".join(names)
