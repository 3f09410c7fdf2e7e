"""Irradiance series of a field of stations, as data to forecast one station from all of
them.

A series (measured, or of synthetic clouds that the wind drives over the field) becomes
a table, a row of which holds all stations now, or maps of 50 x 50 pixels interpolated
from the stations; the target of both is the wanted station some seconds later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np

from ..core.random import uniform
from ..data.column import BYTE_ORDER_MARK, decoded
from ..data.source import read_blocks
from ..ds import Dataset
from ..utils import DataError, UsageError, log
from .results import csv_lines

MAP_SIDE = 50  # pixels
FIELD = 3000.0  # side of the synthetic field, in metres
CLEAR_SKY = 1000.0  # W/m2 at noon
# nights are left out
DAY_BEGINS = 8 * 3600.0
DAY_SECONDS = 8 * 3600.0
WIND = (9.0, 4.0)  # m/s to the east and to the north
CLOUD_WAVES = 48  # that the clouds are a sum of
# their lengths, in metres
LONGEST_CLOUD = 6000.0
SHORTEST = 400.0
SOLAR_STREAM = 0x434C4400  # of the random numbers that make a series
METRES_A_DEGREE = 111_195.0  # of latitude, on a sphere of 6371 km


@dataclass
class Series:
    """Irradiance of several stations at the same times.

    times: (rows,) seconds, rising; values: (rows, stations) W/m2; stations: their
    names; places: (stations,
    2) metres to the east and north, None if unknown.
    """

    times: np.ndarray
    values: np.ndarray
    stations: list[str]
    places: np.ndarray | None = None

    def station(self, name: str | None) -> int:
        """Return the index of a station; without a name that of the station nearest to
        the middle, or 0."""
        if name is None:
            if self.places is None:
                return 0
            return int(
                np.argmin(((self.places - self.places.mean(axis=0)) ** 2).sum(axis=1))
            )
        if name not in self.stations:
            raise UsageError(
                f"no station {name}; the stations are {', '.join(self.stations[:10])}, ..."
            )
        return self.stations.index(name)


# ---------------------------------------------------------------- synthetic clouds


def clouds(rows: int, stations: int = 50, seed: int = 0, step: float = 1.0) -> Series:
    """Return a synthetic series: days from 8 to 16 h, a row every `step` seconds,
    stations anywhere in 3 x 3 km.

    The clouds are a sum of plane waves, longer ones stronger, which the wind moves and
    which slowly change of themselves; where the sum is high the sky is clear. The same
    numbers on every machine, up to rounding.
    """
    if rows < 1 or stations < 1 or not step > 0:
        raise UsageError(
            f"clouds: {rows} rows of {stations} stations every {step:g} s; expected all above 0"
        )
    places = FIELD * uniform(2 * stations, seed, SOLAR_STREAM).reshape(stations, 2)
    length = LONGEST_CLOUD * (SHORTEST / LONGEST_CLOUD) ** uniform(
        CLOUD_WAVES, seed, SOLAR_STREAM + 1
    )
    direction = 2 * math.pi * uniform(CLOUD_WAVES, seed, SOLAR_STREAM + 2)
    phase = 2 * math.pi * uniform(CLOUD_WAVES, seed, SOLAR_STREAM + 3)
    # (2, waves), 1/m
    number = 2 * math.pi / length * np.array([np.cos(direction), np.sin(direction)])
    # 1/s: what does not come with the wind
    own = 0.15 * 2 * math.pi * (uniform(CLOUD_WAVES, seed, SOLAR_STREAM + 4) - 0.5) / 60
    strength = length / np.sqrt((length**2).sum() / 2)  # the sum's deviation is 1
    rate = own - np.array(WIND) @ number
    elapsed = step * np.arange(rows)
    there = places @ number + phase
    values = np.empty((rows, stations), np.float32)
    for at in range(0, rows, 4096):
        block = slice(at, at + 4096)
        moved = elapsed[block, None] * rate
        # cos(a + b) = cos a cos b - sin a sin b: the waves at all stations by two
        # matrix products
        field = (strength * np.cos(moved)) @ np.cos(there).T - (
            strength * np.sin(moved)
        ) @ np.sin(there).T
        values[block] = _clear_sky(elapsed[block])[:, None] * (
            0.25 + 0.75 / (1 + np.exp(-4 * field))
        )
    days = np.floor(elapsed / DAY_SECONDS)
    names = [f"station_{n:02d}" for n in range(1, stations + 1)]
    return Series(
        DAY_BEGINS + elapsed + days * (24 * 3600 - DAY_SECONDS), values, names, places
    )


def _clear_sky(elapsed: np.ndarray) -> np.ndarray:
    """Return W/m2 of a day without clouds, `elapsed` seconds of daytime after the first
    morning."""
    hour = (DAY_BEGINS + elapsed % DAY_SECONDS) / 3600
    return CLEAR_SKY * np.cos(math.pi * (hour - 12) / 14)


# ---------------------------------------------------------------- files


def read_series(path: str, stations_path: str | None = None) -> Series:
    """Return a series from CSV (gzip or not): the time first, ISO 8601 or seconds, then
    a column for each station.
    A time without a zone is universal time.

    stations_path: CSV of the coordinates, columns station, lat and lon (degrees) or x
    and y (metres); a station belongs to the column of its name, or to the one that ends
    in its number. Rows with an empty or unreadable value are left out, with one warning
    that counts them. Raises InputNotFound and DataError.
    """
    header, *lines = _csv_rows(path) or [[]]
    if len(header) < 2 or not lines:
        raise DataError(
            f"{path}: expected a header, a time column and at least one station; check --series"
        )
    times = []
    values = []
    left_out = 0
    for number, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise DataError(
                f"{path}, row {number}: {len(line)} columns, expected {len(header)} as in the header"
            )
        try:
            values.append([float(field) for field in line[1:]])
            times.append(_seconds(line[0]))
        except ValueError:
            values = values[: len(times)]
            left_out += 1
    if left_out:
        log.warning(
            "%s: ignored %d of %d rows, which have gaps", path, left_out, len(lines)
        )
    if not times:
        raise DataError(f"{path}: no row has a time and a number for every station")
    times = np.array(times)
    values = np.array(values, np.float32)
    if (np.diff(times) <= 0).any() or not np.isfinite(values).all():
        raise DataError(
            f"{path}: times that do not increase, or values that are not finite; sort and correct the rows"
        )
    stations = header[1:]
    return Series(
        times,
        values,
        stations,
        _places(stations_path, stations) if stations_path else None,
    )


def _csv_rows(path: str) -> list[list[str]]:
    text = decoded(b"".join(read_blocks(path)).removeprefix(BYTE_ORDER_MARK))
    return [row for row in csv_lines(path, text) if row]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    if moment.tzinfo is None:  # as in tables
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def _places(path: str, stations: list[str]) -> np.ndarray:
    header, *lines = _csv_rows(path) or [[]]
    try:
        degrees = "lat" in header
        name = header.index("station")
        first = header.index("lon" if degrees else "x")
        second = header.index("lat" if degrees else "y")
        known = {
            line[name]: (float(line[first]), float(line[second])) for line in lines
        }
    except (ValueError, IndexError) as error:
        raise DataError(
            f"{path}: expected the columns station, lat, lon (or station, x, y) and numbers"
        ) from error
    by_number = {_number(station): place for station, place in known.items()}
    places = [
        known.get(station, by_number.get(_number(station))) for station in stations
    ]
    missing = [
        station
        for station, place in zip(stations, places, strict=True)
        if place is None
    ]
    if missing:
        raise DataError(
            f"{path}: no coordinates for {missing[0]} ({len(missing)} stations); add them"
        )
    places = np.array(places)
    if not np.isfinite(places).all():
        raise DataError(
            f"{path}: a place that is not finite, expected numbers; correct it"
        )
    if degrees:
        middle = math.radians(places[:, 1].mean())
        places = (
            (places - places.mean(axis=0))
            * METRES_A_DEGREE
            * np.array([math.cos(middle), 1.0])
        )
    return places


def _number(station: str) -> str:
    """Return the digits at the end of a name without zeros before them, by which files
    call a station alike."""
    digits = station[len(station.rstrip("0123456789")) :]
    if digits:
        return digits.lstrip("0") or "0"
    return station


# ---------------------------------------------------------------- data to learn from


def table(series: Series, wanted: str | None = None, horizon: float = 60.0) -> Dataset:
    """All stations now, x (rows, stations), and the wanted one `horizon` seconds later,
    y (rows, 1); W/m2."""
    station = series.station(wanted)
    now, later = _pairs(series, horizon)
    return _dataset(
        series,
        station,
        horizon,
        later,
        series.values[now],
        station,
        list(series.stations),
    )


def maps(
    series: Series,
    wanted: str | None = None,
    horizon: float = 60.0,
    side: int = MAP_SIDE,
) -> Dataset:
    """Return the field as images x (rows, 1, side, side) in W/m2, north up; y as in
    `table`.

    A pixel is the mean of all stations, weighted by 1 / distance^2 (Shepard 1968); the
    pixel that holds a station is that station, and the wanted one's is its own.
    """
    if series.places is None:
        raise UsageError("maps need the stations' coordinates; give --stations FILE")
    station = series.station(wanted)
    weights, pixels = _interpolation(series.places, station, side)
    now, later = _pairs(series, horizon)
    images = (series.values[now] @ weights.T.astype(np.float32)).reshape(
        -1, 1, side, side
    )
    images.reshape(len(now), -1)[:, pixels[station]] = series.values[now, station]
    return _dataset(series, station, horizon, later, images, int(pixels[station]))


def _dataset(
    series: Series, station: int, horizon: float, later, x, now: int, columns=None
) -> Dataset:
    """later: the rows of the targets; now: the input that is the wanted station's value
    of the same time as x."""
    targets = [f"{series.stations[station]}_in_{horizon:g}s"]
    y = series.values[later, station][:, None]
    return Dataset(x, y, "regression", columns=columns, targets=targets, now=[now])


def _interpolation(
    places: np.ndarray, wanted: int, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (weights (pixels, stations), the pixel of each station)."""
    low = places.min(axis=0)
    high = places.max(axis=0)
    size = max(float((high - low).max()), 1.0) / side
    column, row = (np.clip((places - low) // size, 0, side - 1)).astype(int).T
    pixels = (side - 1 - row) * side + column
    east = low[0] + size * (np.arange(side) + 0.5)
    north = (low[1] + size * (np.arange(side) + 0.5))[::-1]
    distances = (east[None, :, None] - places[:, 0]) ** 2 + (
        north[:, None, None] - places[:, 1]
    ) ** 2
    weights = 1 / np.maximum(distances.reshape(side * side, -1), 1e-6 * size**2)
    # where two share a pixel, the later one, and at last the wanted
    for station in [*range(len(places)), wanted]:
        weights[pixels[station]] = np.arange(len(places)) == station
    return weights / weights.sum(axis=1, keepdims=True), pixels


def _pairs(series: Series, horizon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that have a row `horizon` seconds after them, and those rows."""
    if not (horizon > 0 and math.isfinite(horizon)):
        raise UsageError(f"--horizon {horizon:g}: expected seconds, above 0")
    wanted = series.times + horizon
    later = np.searchsorted(series.times, wanted - 1e-3)
    found = later < len(series.times)
    found[found] = np.abs(series.times[later[found]] - wanted[found]) < 1e-3
    if not found.any():
        raise UsageError(
            f"--horizon {horizon:g}: no two rows of the series are this far apart"
        )
    return np.flatnonzero(found), later[found]


def forecast(
    series: Series,
    form: str = "table",
    wanted: str | None = None,
    horizon: float = 60.0,
    test_share: float = 0.2,
) -> tuple[Dataset, Dataset | None]:
    """Return (data to train on, to test on): the last `test_share` of the time is for
    testing, None if that is 0.

    form: table or maps. Neighbours in a series are almost equal, so that rows held out
    at random would say too much; for the same reason the last training rows, whose
    targets lie in the testing time, are left out.
    """
    if not 0 <= test_share < 1:
        raise UsageError(
            f"--test_share {test_share:g}: expected a share from 0 to below 1"
        )
    ds = {"table": table, "maps": maps}[form](series, wanted, horizon)
    cut = ds.rows - int(test_share * ds.rows)
    if cut == ds.rows:
        return ds, None
    if len(series.times) > 1:
        step = float(np.median(np.diff(series.times)))
    else:
        step = horizon
    parts = slice(0, max(1, cut - math.ceil(horizon / step))), slice(cut, None)
    return tuple(ds.of_rows(rows) for rows in parts)
