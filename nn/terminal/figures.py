"""Figures as text: one way to write them, on the terminal and in a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence


def number_text(value) -> str:
    """Return a figure with six digits; `undefined` for None."""
    if value is None:
        return "undefined"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def rate_text(value: float | None) -> str:
    """Return a rate, or a figure as large, with four decimals; `undefined` for None."""
    return "undefined" if value is None else f"{value:.4f}"


def count_text(value: float) -> str:
    """Return a number of rows as it is, a sum of weights to a tenth."""
    return str(value) if isinstance(value, int) else f"{value:.1f}"


def ends_text(interval: Sequence[float] | None, shown: Callable) -> str:
    """Return both ends of an interval, each written by `shown`; `undefined` for None."""
    return "undefined" if interval is None else " to ".join(map(shown, interval))


def shape_text(shape: Sequence[int]) -> str:
    """Return `60` for a vector of 60 values, `4x28x28` for an image."""
    return str(shape[0]) if tuple(shape[1:]) == (1, 1) else "x".join(map(str, shape))


def layers_of(net) -> list[tuple[str, Sequence]]:
    """Return (title, layers) of a network, or of each of its members that differ in layers: how many have them."""
    counts = Counter(tuple(member.layers) for member in net.members)
    titles = [f"{count} network{'s' * (count > 1)}" if net.is_combined else "" for count in counts.values()]
    return list(zip(titles, counts, strict=True))
