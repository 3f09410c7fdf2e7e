"""Irradiance series of a field of stations, as data to forecast one station from all of
them.

A series (measured, or of synthetic clouds that the wind drives over the field) becomes
a table, a row of which holds all stations now, or maps of 50 x 50 pixels interpolated
from the stations; the target of both is one station some seconds later, or its change
until then. Where the sun's place is known a series may be of clear-sky indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np

from ..core.random import uniform
from ..data.column import BYTE_ORDER_MARK, decoded
from ..data.dataset import CHANGE
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
LEAST_CLEAR_SKY = 60.0  # W/m2 of a clear sky, below which it is night
METRES_A_DEGREE = 111_195.0  # of latitude, on a sphere of 6371 km


@dataclass
class Series:
    """Irradiance of several stations at the same times.

    times: (rows,) seconds, rising; values: (rows, stations) W/m2; stations: their
    names; places: (stations, 2) metres to the east and north, None if unknown;
    clear_sky: (rows,) W/m2 that there would be without clouds, None if unknown.
    """

    times: np.ndarray
    values: np.ndarray
    stations: list[str]
    places: np.ndarray | None = None
    clear_sky: np.ndarray | None = None

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

    def sunlight(self) -> np.ndarray:
        """Return clear_sky. Raises UsageError where it is unknown."""
        if self.clear_sky is None:
            raise UsageError(
                "the sun's place is unknown; give --location, or --stations with degrees"
            )
        return self.clear_sky

    def by_day(self) -> Series:
        """Return the series without its nights, of which a line tells."""
        is_day = self.sunlight() >= LEAST_CLEAR_SKY
        if is_day.all():
            return self
        log.warning(
            "left out %d of %d rows, at which a clear sky has less than %g W/m2",
            np.count_nonzero(~is_day),
            len(is_day),
            LEAST_CLEAR_SKY,
        )
        if not is_day.any():
            raise DataError("all rows of the series are at night; check --location")
        return replace(
            self,
            times=self.times[is_day],
            values=self.values[is_day],
            clear_sky=self.clear_sky[is_day],
        )

    def index(self) -> Series:
        """Return the series of clear-sky indices: values as shares of the clear sky's,
        by day."""
        series = self.by_day()
        values = series.values / series.clear_sky[:, None]
        return replace(series, values=values.astype(np.float32))


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
    times = DAY_BEGINS + elapsed + nights
    return Series(times, values, names, places, _clear_sky(elapsed))


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


# ---------------------------------------------------------------- the sun


def clear_sky_of(times: np.ndarray, latitude: float, longitude: float) -> np.ndarray:
    """Return W/m2 on level ground under a clear sky (Haurwitz 1945), 0 at night; times:
    seconds since 1970, degrees to the north and east."""
    sine = np.maximum(sine_of_elevation(times, latitude, longitude), 1e-3)
    return np.where(sine > 1e-3, 1098 * sine * np.exp(-0.057 / sine), 0.0)


def sine_of_elevation(
    times: np.ndarray, latitude: float, longitude: float
) -> np.ndarray:
    """Return how high the sun stands, by the Astronomical Almanac's formulas of low
    precision (0.01 degrees)."""
    days = np.asarray(times, np.float64) / 86400 - 10957.5  # since 2000-01-01 12:00
    anomaly = np.radians(357.528 + 0.9856003 * days)
    ecliptic = np.radians(
        280.460
        + 0.9856474 * days
        + 1.915 * np.sin(anomaly)
        + 0.020 * np.sin(2 * anomaly)
    )
    tilt = np.radians(23.439 - 4e-7 * days)
    ascension = np.arctan2(np.cos(tilt) * np.sin(ecliptic), np.cos(ecliptic))
    declination = np.arcsin(np.sin(tilt) * np.sin(ecliptic))
    sidereal = np.radians(280.46061837 + 360.98564736629 * days + longitude)
    north = math.radians(latitude)
    return math.sin(north) * np.sin(declination) + math.cos(north) * np.cos(
        declination
    ) * np.cos(sidereal - ascension)


# ---------------------------------------------------------------- files


def read_series(
    path: str,
    stations_path: str | None = None,
    columns: Sequence[str] | None = None,
    location: tuple[float, float] | None = None,
) -> Series:
    """Return a series from CSV (gzip or not): the time first, ISO 8601 or seconds, then
    a column for each station.
    A time without a zone is universal time.

    columns: the stations to read, None: all. location: latitude and longitude, where
    the stations' are not known.

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
    stations = list(columns or header[1:])
    fields = _fields_of(stations, header, path)
    times = []
    values = []
    left_out = 0
    for number, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise DataError(
                f"{path}, row {number}: {len(line)} columns, expected {len(header)} as in the header"
            )
        try:
            values.append([float(line[field]) for field in fields])
            times.append(seconds_of(line[0]))
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
    series = Series(times, values, stations)
    if stations_path:
        series.places, middle = _places(stations_path, stations)
        location = location or middle
    if location is not None:
        series.clear_sky = clear_sky_of(times, *location)
    return series


def _fields_of(stations: list[str], header: list[str], path: str) -> list[int]:
    """Return where a line has the stations' values. Raises UsageError for a station
    that the header lacks."""
    for name in stations:
        if name not in header[1:]:
            raise UsageError(
                f"{path}: no column {name}; the columns are {', '.join(header[1:])}"
            )
    return [header.index(name, 1) for name in stations]


def _csv_rows(path: str) -> list[list[str]]:
    text = decoded(b"".join(read_blocks(path)).removeprefix(BYTE_ORDER_MARK))
    return [row for row in csv_lines(path, text) if row]


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of a moment, or the number that a text is. Raises
    ValueError."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    if moment.tzinfo is None:  # as in tables
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def _places(
    path: str, stations: list[str]
) -> tuple[np.ndarray, tuple[float, float] | None]:
    """Return the places of stations, (stations, 2) metres to the east and north, from a
    file of them; and the latitude and longitude of their middle, if it has degrees.
    Raises DataError."""
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
    if not has_degrees:
        return places, None
    longitude, latitude = places.mean(axis=0)
    metres = (places - places.mean(axis=0)) * METRES_A_DEGREE
    shrunk = np.array([math.cos(math.radians(latitude)), 1.0])
    return metres * shrunk, (float(latitude), float(longitude))


def _number(station: str) -> str:
    """Return the digits at the end of a name without zeros before them, by which files
    call a station alike."""
    digits = station[len(station.rstrip("0123456789")) :]
    if digits:
        return digits.lstrip("0") or "0"
    return station


# ---------------------------------------------------------------- data to learn from


def table(
    series: Series,
    target_station: str | None = None,
    horizon: float = 60.0,
    *,
    change: bool = False,
    lags: Sequence[float] = (),
    sun: bool = False,
) -> Dataset:
    """Return all stations now, x (rows, stations), and the target station `horizon`
    seconds later, y (rows, 1); W/m2.

    Of rows every 10 s and a horizon of 20 s, x has the rows at 0 s, 10 s, ..., and y
    the target station at 20 s, 30 s, ...; a row without one 20 s later is left out.
    change: y is how much the station changes until then. lags: seconds before now, of
    which x has all stations too. sun: x has the clear sky's W/m2 too.
    """
    station = series.station(target_station)
    now, later, *before = times_apart(series, horizon, lags)
    inputs = [series.values[rows] for rows in (now, *before)]
    columns = list(series.stations)
    for lag in lags:
        columns += [f"{name}_{lag:g}s_ago" for name in series.stations]
    if sun:
        inputs.append(series.sunlight()[now, None].astype(np.float32))
        columns.append("clear_sky")
    return Dataset(
        np.hstack(inputs),
        columns=columns,
        **_target(series, station, horizon, (now, later), change, station),
    )


def maps(
    series: Series,
    target_station: str | None = None,
    horizon: float = 60.0,
    side: int = MAP_SIDE,
    *,
    change: bool = False,
) -> Dataset:
    """Return the field as images x (rows, 1, side, side) in W/m2, north up; y as in
    `table`.

    A pixel is the mean of all stations, weighted by 1 / distance^2 (Shepard 1968); the
    pixel that holds a station has its value, that of the target station unrounded.
    """
    if series.places is None:
        raise UsageError("maps need the stations' coordinates; give --stations FILE")
    station = series.station(target_station)
    weights, pixels = _interpolation(series.places, side)
    now, later = times_apart(series, horizon)
    images = series.values[now] @ weights.T.astype(np.float32)
    pixel = int(pixels[station])
    images[:, pixel] = series.values[now, station]
    return Dataset(
        images.reshape(-1, 1, side, side),
        **_target(series, station, horizon, (now, later), change, pixel),
    )


def _target(
    series: Series,
    station: int,
    horizon: float,
    rows: tuple[np.ndarray, np.ndarray],
    change: bool,
    place: int,
) -> dict:
    """Return what a Dataset knows of its target. rows: now and later; place: that of
    the value now in a row of inputs."""
    now, later = rows
    y = series.values[later, station]
    name = series.stations[station]
    if change:
        y = y - series.values[now, station]
        name += "_change"
        place = CHANGE
    return {
        "y": y[:, None],
        "task": "regression",
        "targets": [f"{name}_in_{horizon:g}s"],
        "now": [place],
    }


def _interpolation(places: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
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
    for station, pixel in enumerate(pixels):  # where two share one, the later one
        weights[pixel] = np.arange(len(places)) == station
    return weights / weights.sum(axis=1, keepdims=True), pixels


def times_apart(
    series: Series, horizon: float, lags: Sequence[float] = ()
) -> list[np.ndarray]:
    """Return the rows that have a row `horizon` seconds after them and one each of the
    lags before them, and those rows: now, later, before."""
    for flag, seconds in [("--horizon", horizon), *(("--lags", lag) for lag in lags)]:
        if not (seconds > 0 and math.isfinite(seconds)):
            raise UsageError(f"{flag} {seconds:g}: expected seconds, above 0")
    places = []
    is_complete = np.ones(len(series.times), bool)
    for seconds in (horizon, *(-lag for lag in lags)):
        times = series.times + seconds
        rows = np.searchsorted(series.times, times - 1e-3)
        rows = np.minimum(rows, len(series.times) - 1)
        is_complete &= np.abs(series.times[rows] - times) < 1e-3
        places.append(rows)
    now = np.flatnonzero(is_complete)
    if not len(now):
        raise UsageError(
            f"--horizon {horizon:g}: no two rows of the series are this far apart"
        )
    return [now, *(rows[now] for rows in places)]


def forecast(
    series: Series,
    form: str = "table",
    target_station: str | None = None,
    horizon: float = 60.0,
    test_share: float = 0.2,
    test_from: float | None = None,
    **how,
) -> tuple[Dataset, Dataset | None]:
    """Return (data to train on, to test on): the last `test_share` of the time is for
    testing, None if that is 0, or what is from a moment on (seconds since 1970).

    form: table or maps, whose other settings are `how`. Neighbours in a series are
    almost equal, so that rows held out at random would say too much; for the same
    reason the last training rows, whose targets lie in the testing time, are left out.
    """
    if not 0 <= test_share < 1:
        raise UsageError(
            f"--test_share {test_share:g}: expected a share from 0 to below 1"
        )
    ds = {"table": table, "maps": maps}[form](series, target_station, horizon, **how)
    now, later, *_ = times_apart(series, horizon, how.get("lags", ()))
    if test_from is None:
        first_test = ds.rows - int(test_share * ds.rows)
    else:
        first_test = int(np.searchsorted(series.times[now], test_from))
    if first_test == ds.rows:
        return ds, None
    training = int(np.searchsorted(later, now[first_test]))
    if not training:
        raise UsageError("no rows are left to train on; test on less of the time")
    return ds.of_rows(slice(0, training)), ds.of_rows(slice(first_test, None))
