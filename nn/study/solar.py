"""Irradiance series of a field of stations, as data to forecast one station from all of
them.

A series (measured, or of synthetic clouds that the wind drives over the field) becomes
a table, a row of which holds all stations now, or maps of 50 x 50 pixels interpolated
from the stations; the target of both is one station some seconds later.
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
# seconds from midnight to the first row of a day, and of the rows of a day: nights are
# left out
DAY_BEGINS = 8 * 3600.0
DAY_SECONDS = 8 * 3600.0
WIND = (9.0, 4.0)  # m/s to the east and to the north
CLOUD_WAVES = 48  # plane waves, of which the clouds are the sum
LONGEST_CLOUD = 6000.0  # metres, of a wave
SHORTEST_CLOUD = 400.0
CLOUD_BLOCK = 4096  # rows that are computed together
SOLAR_STREAM = 0x434C4400  # of the random numbers that make a series
METRES_A_DEGREE = 111_195.0  # of latitude, on a sphere of 6371 km


@dataclass
class Series:
    """Irradiance of several stations at the same times.

    times: (rows,) seconds, rising; values: (rows, stations) W/m2; stations: their
    names; places: (stations, 2) metres to the east and north, None if unknown.
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
            from_middle = self.places - self.places.mean(axis=0)
            return int(np.argmin((from_middle**2).sum(axis=1)))
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
    waves = _Waves.drawn(seed)
    phases = places @ waves.number + waves.phase
    elapsed = step * np.arange(rows)
    values = np.empty((rows, stations), np.float32)
    for start in range(0, rows, CLOUD_BLOCK):
        block = slice(start, start + CLOUD_BLOCK)
        sums = waves.sums(phases, elapsed[block])
        clearness = 0.25 + 0.75 / (1 + np.exp(-4 * sums))
        values[block] = _clear_sky(elapsed[block])[:, None] * clearness
    nights = np.floor(elapsed / DAY_SECONDS) * (24 * 3600 - DAY_SECONDS)
    names = [f"station_{number:02d}" for number in range(1, stations + 1)]
    return Series(DAY_BEGINS + elapsed + nights, values, names, places)


@dataclass
class _Waves:
    """Plane waves (waves,), of which the clouds are a sum with deviation 1.

    number: (2, waves), radians a metre to the east and north; rate: radians a second
    at a place.
    """

    strength: np.ndarray
    number: np.ndarray
    rate: np.ndarray
    phase: np.ndarray

    @classmethod
    def drawn(cls, seed: int) -> _Waves:
        """Return random waves that the wind moves and which change of themselves."""
        length, direction, phase, change = [
            uniform(CLOUD_WAVES, seed, SOLAR_STREAM + part) for part in (1, 2, 3, 4)
        ]
        length = LONGEST_CLOUD * (SHORTEST_CLOUD / LONGEST_CLOUD) ** length
        direction = 2 * math.pi * direction
        number = 2 * math.pi / length * np.array([np.cos(direction), np.sin(direction)])
        change = 0.15 * 2 * math.pi * (change - 0.5) / 60
        strength = length / np.sqrt((length**2).sum() / 2)
        rate = change - np.array(WIND) @ number
        return cls(strength, number, rate, 2 * math.pi * phase)

    def sums(self, phases: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
        """Return the sum of the waves at these times and stations, (times, stations).
        phases: (stations, waves) at the beginning."""
        moved = elapsed[:, None] * self.rate
        # cos(a + b) = cos a cos b - sin a sin b: two matrix products
        cosines = (self.strength * np.cos(moved)) @ np.cos(phases).T
        return cosines - (self.strength * np.sin(moved)) @ np.sin(phases).T


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
    places = None
    if stations_path:
        places = _places(stations_path, stations)
    return Series(times, values, stations, places)


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
    """Return the places of stations, (stations, 2) metres to the east and north, from a
    file of them. Raises DataError."""
    header, *lines = _csv_rows(path) or [[]]
    has_degrees = "lat" in header
    coordinates = ("x", "y")
    if has_degrees:
        coordinates = ("lon", "lat")
    try:
        name = header.index("station")
        east, north = map(header.index, coordinates)
        by_name = {
            line[name]: (float(line[east]), float(line[north])) for line in lines
        }
    except (ValueError, IndexError) as error:
        raise DataError(
            f"{path}: expected the columns station, lat, lon (or station, x, y) and numbers"
        ) from error
    by_number = {_number(station): place for station, place in by_name.items()}
    places = []
    missing = []
    for station in stations:
        place = by_name.get(station, by_number.get(_number(station)))
        if place is None:
            missing.append(station)
        places.append(place)
    if missing:
        raise DataError(
            f"{path}: no coordinates for {missing[0]} ({len(missing)} stations); add them"
        )
    places = np.array(places)
    if not np.isfinite(places).all():
        raise DataError(
            f"{path}: a place that is not finite, expected numbers; correct it"
        )
    if has_degrees:
        latitude = math.radians(places[:, 1].mean())
        metres = (places - places.mean(axis=0)) * METRES_A_DEGREE
        places = metres * np.array([math.cos(latitude), 1.0])
    return places


def _number(station: str) -> str:
    """Return the digits at the end of a name without zeros before them, by which files
    call a station alike."""
    digits = station[len(station.rstrip("0123456789")) :]
    if digits:
        return digits.lstrip("0") or "0"
    return station


# ---------------------------------------------------------------- data to learn from


def table(
    series: Series, target_station: str | None = None, horizon: float = 60.0
) -> Dataset:
    """Return all stations now, x (rows, stations), and the target station `horizon`
    seconds later, y (rows, 1); W/m2.

    Of rows every 10 s and a horizon of 20 s, x has the rows at 0 s, 10 s, ..., and y
    the target station at 20 s, 30 s, ...; a row without one 20 s later is left out.
    """
    station = series.station(target_station)
    now, later = _pairs(series, horizon)
    return Dataset(
        series.values[now],
        series.values[later, station][:, None],
        "regression",
        columns=list(series.stations),
        targets=[_target_name(series, station, horizon)],
        now=[station],
    )


def maps(
    series: Series,
    target_station: str | None = None,
    horizon: float = 60.0,
    side: int = MAP_SIDE,
) -> Dataset:
    """Return the field as images x (rows, 1, side, side) in W/m2, north up; y as in
    `table`.

    A pixel is the mean of all stations, weighted by 1 / distance^2 (Shepard 1968); the
    pixel that holds a station has its value, that of the target station unrounded.
    """
    if series.places is None:
        raise UsageError("maps need the stations' coordinates; give --stations FILE")
    station = series.station(target_station)
    weights, pixels = _interpolation(series.places, station, side)
    now, later = _pairs(series, horizon)
    images = series.values[now] @ weights.T.astype(np.float32)
    pixel = int(pixels[station])
    images[:, pixel] = series.values[now, station]
    return Dataset(
        images.reshape(-1, 1, side, side),
        series.values[later, station][:, None],
        "regression",
        targets=[_target_name(series, station, horizon)],
        now=[pixel],
    )


def _target_name(series: Series, station: int, horizon: float) -> str:
    return f"{series.stations[station]}_in_{horizon:g}s"


def _interpolation(
    places: np.ndarray, target_station: int, side: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (weights (pixels, stations), the pixel of each station)."""
    low = places.min(axis=0)
    high = places.max(axis=0)
    size = max(float((high - low).max()), 1.0) / side
    column, row = np.clip((places - low) // size, 0, side - 1).astype(int).T
    pixels = (side - 1 - row) * side + column
    middles = size * (np.arange(side) + 0.5)
    east = low[0] + middles
    north = (low[1] + middles)[::-1]
    to_east = east[None, :, None] - places[:, 0]
    to_north = north[:, None, None] - places[:, 1]
    distances = (to_east**2 + to_north**2).reshape(side * side, -1)
    weights = 1 / np.maximum(distances, 1e-6 * size**2)
    # where two share a pixel, the later one, and at last the target
    for station in [*range(len(places)), target_station]:
        weights[pixels[station]] = np.arange(len(places)) == station
    return weights / weights.sum(axis=1, keepdims=True), pixels


def _pairs(series: Series, horizon: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that have a row `horizon` seconds after them, and those rows."""
    if not (horizon > 0 and math.isfinite(horizon)):
        raise UsageError(f"--horizon {horizon:g}: expected seconds, above 0")
    times = series.times + horizon
    later = np.searchsorted(series.times, times - 1e-3)
    now = np.flatnonzero(later < len(series.times))
    now = now[np.abs(series.times[later[now]] - times[now]) < 1e-3]
    if not len(now):
        raise UsageError(
            f"--horizon {horizon:g}: no two rows of the series are this far apart"
        )
    return now, later[now]


def forecast(
    series: Series,
    form: str = "table",
    target_station: str | None = None,
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
    ds = {"table": table, "maps": maps}[form](series, target_station, horizon)
    first_test = ds.rows - int(test_share * ds.rows)
    if first_test == ds.rows:
        return ds, None
    step = horizon
    if len(series.times) > 1:
        step = float(np.median(np.diff(series.times)))
    training = max(1, first_test - math.ceil(horizon / step))
    return ds.of_rows(slice(0, training)), ds.of_rows(slice(first_test, None))
