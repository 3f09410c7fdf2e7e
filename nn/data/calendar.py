"""The calendar: parts and cycles of dates, which are seconds since 1970-01-01."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

DAY = 86_400.0  # seconds
YEAR_SECONDS = 31_556_952.0
DATE_CYCLES = ("year", "week", "day")
# part of a date -> the shift and scale of its input, the same for all tables: no date
# is far from the others
DATE_PARTS = {
    "month": (6.5, 3.5),
    "monthday": (16.0, 9.0),
    "weekday": (3.0, 2.0),
    "hour": (12.0, 7.0),
}
# days from 1 March of the year 0 to 1970-01-01, in the Gregorian calendar
MARCH_0 = 719_468
# centuries, years and months from March on: after n days (a n + b) / c of them are
# over, and `count` of them took (c count + d) / a days; both are rounded down
CALENDAR = ((4, 3, 146_097, 0), (4, 3, 1461, 0), (5, 2, 153, 2))


def phase(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """Return where in its year, week or day a date is, from 0 to below 1. A week has
    its days only, from Thursday."""
    if cycle == "week":
        return np.floor(seconds / DAY) % 7 / 7
    if cycle == "year":
        return seconds % YEAR_SECONDS / YEAR_SECONDS
    return seconds % DAY / DAY


def part(seconds, name: str, floor: Callable = np.floor):
    """Return a part of dates as numbers: the hour with its fraction, the weekday from
    Monday, 0, on. floor: of these numbers, an array or anything else that can be added,
    multiplied and divided."""
    days = floor(seconds / DAY)
    if name == "hour":
        return (seconds - days * DAY) / 3600
    if name == "weekday":
        return (days + 3) - floor((days + 3) / 7) * 7
    days_left = days + MARCH_0
    for a, b, c, d in CALENDAR:
        count = floor((days_left * a + b) / c)
        days_left = days_left - floor((count * c + d) / a)
    if name == "monthday":
        return days_left + 1
    # the last count is of months from March
    return count + 3 - floor((count + 2) / 12) * 12
