"""Make data for the solar study: forecast one station's irradiance from those of a
whole field.

From a measured series, or from synthetic clouds:

    python datasets/solar.py --series hope_melpitz_1s.csv.gz \\
        --stations hope_melpitz_stations.csv --change --table solar.csv
    python datasets/solar.py --series dtu_2016_05-08_1min.csv.gz \\
        --columns GHI,DNI,DHI --location 55.79,12.525 --index --change \\
        --lags 60,300,600 --horizon 600 --test_from 2016-08-01 --table solar.csv
    python datasets/solar.py --rows 8640 --step 10 --table solar.csv --maps solar.npz

The last fifth of the time, or what is from --test_from on, goes to files of its own,
solar_test.csv and solar_test.npz.
"""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nn.study import solar
from nn.utils import NnError, UsageError, speaking_of_flags


def write_series(
    path: str, series: solar.Series, stations_path: str | None = None
) -> None:
    """Write a series, and its stations' places (columns station, x, y), as read_series
    reads them."""
    rows = np.column_stack([series.times, series.values])
    formats = ["%g", *["%.1f"] * len(series.stations)]
    np.savetxt(
        path,
        rows,
        formats,
        ",",
        header=",".join(["seconds", *series.stations]),
        comments="",
    )
    if stations_path:
        lines = [
            f"{name},{x:.1f},{y:.1f}\n"
            for name, (x, y) in zip(series.stations, series.places, strict=True)
        ]
        Path(stations_path).write_text("station,x,y\n" + "".join(lines))


def write(path: str, ds) -> None:
    """Write a data set of `table` as CSV, or one of `maps` as NPZ (x, y)."""
    if ds.x.ndim == 2:
        header = ",".join([*ds.columns, *ds.targets])
        np.savetxt(
            path, np.hstack([ds.x, ds.y]), "%.7g", ",", header=header, comments=""
        )
    else:
        np.savez_compressed(path, x=ds.x, y=ds.y, now=ds.now)


def numbers(
    flag: str, text: str | None, count: int | None = None
) -> tuple[float, ...] | None:
    """Return the numbers of a flag. Raises UsageError."""
    if text is None:
        return None
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if not found or (count and len(found) != count):
        raise UsageError(f"{flag} {text}: expected numbers with commas between them")
    return found


def moment(flag: str, text: str | None) -> float | None:
    """Return the seconds since 1970 of a flag's moment. Raises UsageError."""
    if text is None:
        return None
    try:
        return solar.seconds_of(text)
    except ValueError as error:
        raise UsageError(
            f"{flag} {text}: expected a moment such as 2016-08-01 or 2016-08-01T12:00"
        ) from error


def main(  # noqa: PLR0913 - the flags of a program
    series: Annotated[
        str | None, typer.Option(help="CSV: time, one column a station.")
    ] = None,
    stations: Annotated[
        str | None, typer.Option(help="CSV: station, lat, lon.")
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Rows of the synthetic series, without --series.")
    ] = 8640,
    step: Annotated[
        float, typer.Option(help="Seconds from one of its rows to the next.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic series.")] = 0,
    wanted: Annotated[
        str | None, typer.Option(help="The station to forecast (the middle one).")
    ] = None,
    horizon: Annotated[float, typer.Option(help="Seconds ahead.")] = 60.0,
    test_share: Annotated[
        float,
        typer.Option(
            "--test_share", help="Share of the time, at its end, kept for testing."
        ),
    ] = 0.2,
    test_from: Annotated[
        str | None,
        typer.Option("--test_from", help="Moment, 2016-08-01, to test from instead."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Stations to read, A,B (all columns).")
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(help="LATITUDE,LONGITUDE, where --stations has no degrees."),
    ] = None,
    day: Annotated[bool, typer.Option("--day", help="Leave out nights.")] = False,
    index: Annotated[
        bool,
        typer.Option(
            "--index",
            help="Shares of a clear sky's irradiance instead of W/m2, by day.",
        ),
    ] = False,
    change: Annotated[
        bool, typer.Option("--change", help="Targets are changes until then.")
    ] = False,
    lags: Annotated[
        str | None,
        typer.Option(help="Seconds, 60,300: a table has the stations then, too."),
    ] = None,
    sun: Annotated[
        bool, typer.Option("--sun", help="A table has the clear sky's W/m2, too.")
    ] = False,
    table: Annotated[
        str | None,
        typer.Option(help="CSV to write: all stations now, the wanted one later."),
    ] = None,
    maps: Annotated[
        str | None, typer.Option(help="NPZ to write: 50x50 maps, the same target.")
    ] = None,
    save: Annotated[
        str | None, typer.Option(help="CSV(.gz) to write: the series itself.")
    ] = None,
    save_stations: Annotated[
        str | None,
        typer.Option("--save_stations", help="CSV to write: the stations' places."),
    ] = None,
) -> None:
    with speaking_of_flags():
        try:
            if series:
                place = numbers("--location", location, 2)
                names = columns.split(",") if columns else None
                data = solar.read_series(series, stations, names, place)
            else:
                data = solar.clouds(rows, seed=seed, step=step)
            if save:
                write_series(save, data, save_stations)
            if day:
                data = data.by_day()
            if index:
                data = data.index()
            begin = moment("--test_from", test_from)
            options = {"change": change}
            of_table = {"lags": numbers("--lags", lags) or (), "sun": sun}
            for form, path, more in (("table", table, of_table), ("maps", maps, {})):
                if path:
                    train, test = solar.forecast(
                        data,
                        form,
                        wanted,
                        horizon,
                        test_share,
                        begin,
                        **options,
                        **more,
                    )
                    write(path, train)
                    if test is not None:
                        write(
                            str(Path(path).with_stem(Path(path).stem + "_test")), test
                        )
        except (NnError, OSError) as error:
            sys.exit(f"solar.py: {error}")


if __name__ == "__main__":
    typer.run(main)
