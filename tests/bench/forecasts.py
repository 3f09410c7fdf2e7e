"""`python -m tests.bench.forecasts FOLDER`: what forecasts of two measured series are
worth, by time.

FOLDER has hope_melpitz_1s.csv.gz, hope_melpitz_stations.csv (50 pyranometers, an hour,
every second) and dtu_2016_05-08_1min.csv.gz (one station, four months, every minute).
A network of each of five seeds stands beside ridge regression of the same inputs,
persistence (nothing changes) and clear-sky persistence (the share of a clear sky's
irradiance stays).

    HOPE   trained on the first 40 minutes, tested on the last 20
    DTU    trained on May to July, tested on August, by day

Inputs, aim and settings of the network, and those of ridge, are chosen by
cross-validation within the training time, each of its blocks (HOPE four of ten minutes,
DTU the three months) judged by trainings on the others; what is chosen is trained anew
on all of them. No target of a training lies in the time that judges it, nor a target of
that time in the training's. Nothing is chosen on the test part.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

import nn
from nn.study import solar
from nn.utils import log_line

SEEDS = range(5)
LAYERS = (  # behind the inputs
    "1",
    "32,1",
    "32:tanh,1",
    "64,32,1",
    "dropout0.3,32,1",
    "32,dropout0.5,1",
)
WEIGHT_DECAYS = (0.15, 1.0, 3.0, 10.0)
PENALTIES = tuple(10.0**power for power in range(-4, 2))  # of ridge, times the rows
EPOCHS = 20


@dataclass(frozen=True)
class Case:
    """A forecast: of a series, `horizon` seconds ahead; moments are seconds since 1970.

    blocks: where each block of the training time begins. lags: the sets of seconds
    before now of which one is chosen. seeds: whose mean error chooses; those of many
    rows hardly differ.
    """

    name: str
    series: solar.Series = field(repr=False)
    horizon: float
    blocks: tuple[float, ...]
    test_from: float
    lags: tuple[tuple[float, ...], ...]
    batch: int
    seeds: int

    def parts(self, begin: np.ndarray, end: np.ndarray) -> Iterator:
        """Return which rows each block's training learns, and which judge it. begin,
        end: when a row is, and its target."""
        for first, last in itertools.pairwise((*self.blocks, self.test_from)):
            is_of_training = end < self.test_from
            is_learned = is_of_training & ((end < first) | (begin >= last))
            yield is_learned, (begin >= first) & (end < last)


class Candidate(NamedTuple):
    """Inputs, what is aimed at (change, or change of the index), and settings."""

    aim: str
    lags: tuple[float, ...]
    settings: tuple

    def __str__(self):
        lags = ", ".join(f"{lag:g}" for lag in self.lags)
        return f"{self.aim}, {f'{lags} s before, ' if lags else ''}{self.settings}"


def cases(folder: Path) -> Iterator[Case]:
    hope = solar.read_series(
        str(folder / "hope_melpitz_1s.csv.gz"),
        str(folder / "hope_melpitz_stations.csv"),
    )
    begin = hope.times[0]
    for horizon in (10.0, 60.0):
        lags = ((), (10.0,), (60.0,), (10.0, 20.0, 30.0))
        blocks = tuple(begin + 600 * block for block in range(4))
        yield Case("HOPE", hope, horizon, blocks, begin + 2400, lags, 32, 3)
    dtu = solar.read_series(
        str(folder / "dtu_2016_05-08_1min.csv.gz"),
        columns=["GHI", "DNI", "DHI"],
        location=(55.79064, 12.52505),
    ).by_day()
    months = [solar.seconds_of(f"2016-0{month}-01") for month in (5, 6, 7)]
    august = solar.seconds_of("2016-08-01")
    few = (60.0, 120.0, 300.0, 600.0)
    for horizon in (60.0, 600.0):
        lags = ((), few, (*few, 1200.0, 1800.0))
        yield Case("DTU", dtu, horizon, tuple(months), august, lags, 256, 1)


class Rows:
    """The rows of a case that have all lags: their inputs by aim, and truth in W/m2."""

    def __init__(self, case: Case):
        self.case = case
        series = case.series
        every_lag = sorted({lag for lags in case.lags for lag in lags})
        now, later, *_ = solar.times_apart(series, case.horizon, every_lag)
        station = series.station(None)
        self.begin = series.times[now]
        self.end = series.times[later]
        self.now = series.values[now, station].astype(float)
        self.truth = series.values[later, station].astype(float)
        self.sky_now = series.clear_sky[now]
        self.sky_later = series.clear_sky[later]
        self.tables = {}
        for aim, values in (("change", series), ("index", series.index())):
            self.tables[aim] = solar.table(
                values,
                horizon=case.horizon,
                change=True,
                lags=every_lag,
                sun=case.name == "DTU",
            )

    def inputs(self, candidate: Candidate) -> np.ndarray:
        """Return the columns that a candidate takes: those now, and of its lags."""
        ds = self.tables[candidate.aim]
        endings = tuple(f"_{lag:g}s_ago" for lag in candidate.lags)
        is_taken = [
            not name.endswith("s_ago") or name.endswith(endings) for name in ds.columns
        ]
        return ds.x[:, is_taken]

    def forecast(self, candidate: Candidate, output: np.ndarray) -> np.ndarray:
        """Return W/m2 of a candidate's outputs (rows,)."""
        if candidate.aim == "change":
            return self.now + output
        return (self.now / self.sky_now + output) * self.sky_later

    def rmse(self, forecast: np.ndarray, rows: np.ndarray) -> float:
        return float(np.sqrt(np.mean((forecast - self.truth)[rows] ** 2)))

    def learned(
        self, learn: Callable, candidate: Candidate, is_learned: np.ndarray, seed: int
    ) -> np.ndarray:
        """Return the forecast of all rows (rows,) by what is learned of some."""
        x = self.inputs(candidate)
        y = self.tables[candidate.aim].y
        predict = learn(x[is_learned], y[is_learned], candidate, self.case, seed)
        return self.forecast(candidate, predict(x))


def ridge(x, y, candidate: Candidate, case: Case, seed: int) -> Callable:
    """Return the function of inputs that ridge regression of scaled inputs finds."""
    (penalty,) = candidate.settings
    mean = x.mean(axis=0, dtype=float)
    deviation = x.std(axis=0, dtype=float) + 1e-9
    scaled = (x - mean) / deviation
    middle = y.mean(dtype=float)
    square = scaled.T @ scaled + penalty * len(x) * np.eye(x.shape[1])
    slopes = np.linalg.solve(square, scaled.T @ (y[:, 0] - middle))
    return lambda inputs: (inputs - mean) / deviation @ slopes + middle


def network(x, y, candidate: Candidate, case: Case, seed: int) -> Callable:
    """Return the predictions of a network that was trained on all rows."""
    layers, weight_decay = candidate.settings
    net = nn.Network(f"{x.shape[1]},{layers}", "regression", seed=seed)
    nn.train(
        net,
        nn.Dataset(x, y, "regression"),
        epochs=EPOCHS,
        batch_number=case.batch,
        weight_decay=weight_decay,
        holdout=0.0,
    )
    return lambda inputs: net.predict(inputs)[:, 0]


KINDS = {
    ridge: [(penalty,) for penalty in PENALTIES],
    network: [*itertools.product(LAYERS, WEIGHT_DECAYS)],
}


def chosen(rows: Rows, learn: Callable, seeds: int) -> Candidate:
    """Return the candidate with the least squared error over the blocks of the training
    time."""
    case = rows.case
    errors = {}
    for aim, lags, settings in itertools.product(rows.tables, case.lags, KINDS[learn]):
        candidate = Candidate(aim, lags, settings)
        errors[candidate] = np.mean(
            [
                rows.rmse(rows.learned(learn, candidate, is_learned, seed), judged) ** 2
                for is_learned, judged in case.parts(rows.begin, rows.end)
                for seed in range(seeds)
            ]
        )
    return min(errors, key=errors.get)


def line(case: Case) -> str:
    """Return a row of the table."""
    rows = Rows(case)
    of_ridge = chosen(rows, ridge, 1)
    of_network = chosen(rows, network, case.seeds)
    is_learned = rows.end < case.test_from
    judged = rows.begin >= case.test_from
    persistence = rows.rmse(rows.now, judged)
    clear_sky = rows.rmse(rows.now / rows.sky_now * rows.sky_later, judged)
    by_ridge = rows.rmse(rows.learned(ridge, of_ridge, is_learned, 0), judged)
    forecasts = [rows.learned(network, of_network, is_learned, seed) for seed in SEEDS]
    errors = np.array([rows.rmse(forecast, judged) for forecast in forecasts])
    of_mean = rows.rmse(np.mean(forecasts, axis=0), judged)
    skills = 1 - errors / persistence
    best_other = min(persistence, clear_sky, by_ridge)
    cells = [
        f"{case.name}, {case.horizon:g} s",
        f"{is_learned.sum():,} / {judged.sum():,}",
        f"{persistence:.1f}",
        f"{clear_sky:.1f} ({1 - clear_sky / persistence:+.3f})",
        f"{by_ridge:.1f} ({1 - by_ridge / persistence:+.3f})",
        f"{errors.mean():.1f} ({skills.mean():+.3f} ± {skills.std(ddof=1):.3f})",
        f"{of_mean:.1f} ({1 - of_mean / persistence:+.3f})",
        f"{(errors < best_other).sum()} of {len(SEEDS)}",
        str(of_ridge),
        str(of_network),
    ]
    return f"| {' | '.join(cells)} |"


def main(
    folder: Annotated[Path, typer.Argument(help="Where the series are.")],
    series: Annotated[str, typer.Option(help="HOPE or DTU alone.")] = "",
) -> None:
    """Print the table, a row a forecast."""
    logging.getLogger("nn").setLevel(logging.ERROR)
    log_line(
        "| series, horizon | rows to train / test | persistence | clear sky | ridge"
        " | network | mean of five | above all | ridge: chosen | network: chosen |"
    )
    log_line("|---" * 10 + "|")
    for case in cases(folder):
        if series in ("", case.name):
            log_line(line(case))


if __name__ == "__main__":
    typer.run(main)
