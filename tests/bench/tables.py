"""`nn --train` with its defaults, less effort, and one network, beside other programs' defaults; mean ranks.

    python tests/bench/tables.py --install adult.csv.gz titanic.csv.gz:survived:-alive wine.csv.gz:-1:regression
    python tests/bench/tables.py --install $(printf 'scikit-learn:%s ' wine iris diabetes friedman1)

Each table is a CSV file, then what differs from «the last column is the target»: its name or index, columns to leave
out (-name), regression; or one that comes with scikit-learn, or that it generates (GENERATED). nn gets the raw rows;
the others, which take numbers only, gaps filled by the median and words one-hot. The same rows, a fifth by seed, test
all. --install gets the peers from PyPI; those that are not there are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

import nn
from nn.core.metrics import metric

EFFORTS = {  # of nn -> flags
    "one network": ["--networks", "1"],
    "quick": ["--effort", "quick"],
    "standard": [],
    "best": ["--effort", "best"],
}
PEERS = ("lightgbm", "xgboost", "scikit-learn", "pandas")
GENERATED = {  # by make_NAME of scikit-learn -> arguments
    "friedman1": {"n_samples": 1000, "noise": 1, "random_state": 0},
    "friedman2": {"n_samples": 600, "noise": 100, "random_state": 1},
    "classification": {"n_samples": 800, "n_informative": 6, "n_redundant": 4, "flip_y": 0.05, "random_state": 3},
    "moons": {"n_samples": 400, "noise": 0.3, "random_state": 0},
}


def read(spec: str) -> tuple[str, pd.DataFrame, pd.Series, bool]:
    """Return (name, features, target, whether it is a regression) of a table."""
    path, *more = spec.split(":")
    if path == "scikit-learn":
        return of_scikit_learn(more[0])
    head = pd.read_csv(path, nrows=5, header=None, dtype=str)
    named = not head.iloc[0].str.fullmatch(r"\s*[-+.\deE]+\s*").any() and any(head.iloc[0] != head.iloc[1])
    target = next((word for word in more if word != "regression" and not word.startswith("-")), None)
    table = pd.read_csv(path, header=0 if named and target else None, na_values=["?"], skipinitialspace=True)
    target = table.columns[-1] if target is None else target
    table = table.drop(columns=[word[1:] for word in more if word.startswith("-")])
    table.columns = [f"c{name}" for name in table.columns]
    y = table.pop(f"c{target}")
    return Path(path).name.split(".")[0], table, y, "regression" in more


def of_scikit_learn(name: str) -> tuple[str, pd.DataFrame, pd.Series, bool]:
    """Return what read does, of a table that scikit-learn has or makes; classes are words."""
    from sklearn import datasets

    arguments = GENERATED.get(name)
    make = getattr(datasets, f"load_{name}" if arguments is None else f"make_{name}")
    x, y = make(**({"return_X_y": True} if arguments is None else arguments))
    regression = y.dtype.kind == "f"
    table = pd.DataFrame(x, columns=[f"c{column}" for column in range(x.shape[1])])
    return name, table, pd.Series(y if regression else [f"class {value}" for value in y]), regression


def encoded(table: pd.DataFrame, training: np.ndarray) -> np.ndarray:
    """Return the features as numbers, standardised by the training rows."""
    numbers = table.select_dtypes("number").astype(float)
    words = table.drop(columns=numbers.columns).astype(str)
    numbers = numbers.fillna(numbers.iloc[training].median())
    numbers = (numbers - numbers.iloc[training].mean()) / numbers.iloc[training].std().replace(0, 1)
    onehot = pd.get_dummies(words).to_numpy(float) if len(words.columns) else np.zeros((len(table), 0))
    return np.hstack([numbers.to_numpy(), onehot])


def peers(regression: bool) -> dict:
    """Return the other programs' models by name, with their defaults."""
    from sklearn import ensemble, linear_model, neural_network

    kind = "Regressor" if regression else "Classifier"
    found = {
        "forest": getattr(ensemble, f"RandomForest{kind}")(random_state=0),
        "histogram boosting": getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=0),
        "scikit-learn's MLP": getattr(neural_network, f"MLP{kind}")(random_state=0),
        "linear": linear_model.Ridge() if regression else linear_model.LogisticRegression(max_iter=1000),
    }
    try:
        import lightgbm
        import xgboost

        found["LightGBM"] = getattr(lightgbm, f"LGBM{kind}")(verbose=-1)
        found["XGBoost"] = getattr(xgboost, f"XGB{kind}")()
    except ImportError:
        pass
    return found


def of_nn(effort: str, x: pd.DataFrame, y: pd.Series, rows, regression: bool, classes: list) -> np.ndarray:
    """Train by the command on raw rows; returns predictions (tested rows,) or (tested rows, classes)."""
    with tempfile.TemporaryDirectory() as folder:
        training = x.iloc[rows[0]].assign(target=y.iloc[rows[0]] if regression else y.iloc[rows[0]].astype(str))
        training.to_csv(f"{folder}/rows.csv", index=False)
        flags = ["--target", "target", *(["--task", "regression"] if regression else [])]
        flags += EFFORTS[effort]
        command = [sys.executable, "-m", "nn", "--train", "--dataset", f"{folder}/rows.csv", "--model"]
        subprocess.run([*command, f"{folder}/m.bin", *flags, "-q"], check=True)
        net = nn.Model.load(f"{folder}/m.bin").network
        out = net.predict(x.iloc[rows[1]])
    if regression:
        return out[:, 0]
    known = np.hstack([1 - out, out]) if out.shape[1] == 1 else out
    scores = np.zeros((len(known), len(classes)))
    scores[:, [classes.index(str(name)) for name in net.classes]] = known
    return scores


def of_peer(model, x: np.ndarray, y: np.ndarray, rows, classes: list) -> np.ndarray:
    """Train a peer on encoded rows; returns predictions as of_nn does."""
    if not classes:
        return model.fit(x[rows[0]], y[rows[0]]).predict(x[rows[1]])
    known, codes = np.unique(y[rows[0]], return_inverse=True)
    scores = np.zeros((len(rows[1]), len(classes)))
    scores[:, known] = model.fit(x[rows[0]], codes).predict_proba(x[rows[1]])
    return scores


def figures(y: np.ndarray, out: np.ndarray) -> tuple[float, float]:
    """Return (score, loss): R2 and RMSE, ROC-AUC or accuracy and log loss, of probabilities from 1e-7 on."""
    if out.ndim == 1:
        return 1 - np.mean((y - out) ** 2) / np.var(y), np.sqrt(np.mean((y - out) ** 2))
    out = np.clip(out.astype(float), 1e-7, 1)
    out, two = out / out.sum(axis=1, keepdims=True), out.shape[1] == 2
    task, out = ("binary", out[:, 1]) if two else ("multiclass", out)
    return metric("roc_auc" if two else "accuracy", task, y, out), metric("loss", task, y, out)


def main(
    tables: list[str],
    splits: Annotated[int, typer.Option(help="Splits of each table.")] = 2,
    efforts: Annotated[
        str, typer.Option(help=f"Of nn, with commas: {', '.join(EFFORTS)}.")
    ] = "one network,quick,standard",
    install: Annotated[bool, typer.Option("--install", help="Get the peers from PyPI into this environment.")] = False,
) -> None:
    """Print mean ranks among the peers by score and by loss, and the loss beside that of the first effort."""
    if install:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    warnings.simplefilter("ignore")
    ranks: dict[str, list] = {}
    for spec in tables:
        name, x, target, regression = read(spec)
        y, names = (target.to_numpy(float), []) if regression else pd.factorize(target.astype(str), sort=True)
        classes = list(map(str, names))
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(y))
            rows = np.sort(order[len(y) // 5 :]), np.sort(order[: len(y) // 5])
            dense = encoded(x, rows[0])
            found = {n: figures(y[rows[1]], of_peer(m, dense, y, rows, classes)) for n, m in peers(regression).items()}
            own = {e: figures(y[rows[1]], of_nn(e, x, target, rows, regression, classes)) for e in efforts.split(",")}
            first = next(iter(own.values()))[1]
            for effort, (score, loss) in own.items():
                by_score = 1 + sum(other > score for other, _ in found.values())
                by_loss = 1 + sum(other < loss for _, other in found.values())
                ranks.setdefault(effort, []).append((by_score, by_loss, loss / first))
            told = {n: [round(float(v), 4) for v in pair] for n, pair in {**own, **found}.items()}
            print(name, split, json.dumps(told), flush=True)
    for effort, all_ranks in ranks.items():
        score, loss, ratio = np.array(all_ranks).T
        among = f"of {len(peers(False)) + 1} by score {score.mean():.2f}, by loss {loss.mean():.2f}"
        print(f"nn, {effort}: mean rank {among}; loss beside the first {np.exp(np.log(ratio).mean()):.3f}")


if __name__ == "__main__":
    typer.run(main)
