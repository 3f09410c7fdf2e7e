"""Methods of the arena: each program with its defaults, on rows in the form that suits it best."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import nn


@dataclass
class Method:
    """A program with its defaults: fit(x, y, classes) gives a function from rows to predictions.

    package: whose version it has. Rows are those of a data frame; predictions (rows,) numbers or (rows, classes).
    """

    package: str
    fit: Callable[[pd.DataFrame, np.ndarray, int], Callable[[pd.DataFrame], np.ndarray]]
    slow: bool = False

    @property
    def version(self) -> str:
        if self.package != "nn":
            return importlib.metadata.version(self.package)
        here = Path(nn.__file__).parent
        state = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True)
        return state.stdout.strip() or nn.__version__


def of_nn(**settings):
    """Return `fit` of nn, on the rows as they are."""

    def fit(x, y, classes):
        target = pd.Series(y, x.index) if not classes else pd.Series([f"k{code}" for code in y], x.index)
        task = "regression" if not classes else "binary" if classes == 2 else "multiclass"
        model = nn.fit(x.assign(target=target), "target", task=task, **settings)

        def predict(rows):
            if not classes:
                return model.predict(rows).reshape(len(rows))
            out, places = np.zeros((len(rows), classes)), [int(name[1:]) for name in model.network.classes]
            out[:, places] = model.predict_proba(rows)
            return out

        return predict

    return fit


def prepared(make: Callable[[pd.DataFrame], Callable], model: Callable[[int, pd.DataFrame], object]):
    """Return `fit` of a program with scikit-learn's interface. make: returns an encoding, from its training rows."""

    def fit(x, y, classes):
        encode = make(x)
        fitted = model(classes, encode(x)).fit(encode(x), y)
        return lambda rows: (fitted.predict_proba if classes else fitted.predict)(encode(rows))

    return fit


def words_of(x: pd.DataFrame) -> list[str]:
    return [name for name in x.columns if not pd.api.types.is_numeric_dtype(x[name]) or x[name].dtype == bool]


def as_text(x: pd.DataFrame) -> Callable:
    words = words_of(x)
    return lambda rows: rows.assign(**{name: rows[name].astype(str).fillna("nan").astype(object) for name in words})


def as_categories(x: pd.DataFrame) -> Callable:
    kinds = {name: pd.CategoricalDtype(sorted(x[name].dropna().astype(str).unique())) for name in words_of(x)}

    def encode(rows):
        texts = {name: rows[name].astype(str).where(rows[name].notna()) for name in kinds}
        return rows.assign(**{name: pd.Categorical(texts[name], dtype=kind) for name, kind in kinds.items()})

    return encode


def as_numbers(x: pd.DataFrame, one_hot: bool = False) -> Callable:
    """Return the encoding of gaps by the median and of words by their numbers, or one-hot and standardised."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    words = words_of(x)
    usual = [name for name in x.columns if name not in words]
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    of_words = OneHotEncoder(handle_unknown="ignore", sparse_output=False) if one_hot else OrdinalEncoder(**unknown)
    of_numbers = make_pipeline(SimpleImputer(strategy="median"), *([StandardScaler()] if one_hot else []))
    text = as_text(x)
    fitted = make_column_transformer((of_numbers, usual), (of_words, words)).fit(text(x))
    return lambda rows: fitted.transform(text(rows))


def dense(x: pd.DataFrame) -> Callable:
    return as_numbers(x, one_hot=True)


def kind(classes: int, regressor: str, classifier: str, module: str, **arguments):
    """Return a model of a module: the regressor, or the classifier."""
    return getattr(importlib.import_module(module), classifier if classes else regressor)(**arguments)


def sklearn_kind(name: str, module: str, **arguments):
    return lambda classes, _: kind(classes, f"{name}Regressor", f"{name}Classifier", f"sklearn.{module}", **arguments)


def catboost(classes: int, x: pd.DataFrame):
    words = words_of(x)
    return kind(classes, "CatBoostRegressor", "CatBoostClassifier", "catboost", cat_features=words, verbose=0,
                allow_writing_files=False)  # fmt: skip


def linear(classes: int, _):
    more = {"max_iter": 1000} if classes else {}
    return kind(classes, "RidgeCV", "LogisticRegression", "sklearn.linear_model", **more)


def gradient(package: str, name: str, **arguments):
    return lambda classes, _: kind(classes, f"{name}Regressor", f"{name}Classifier", package, **arguments)


METHODS = {
    "nn": Method("nn", of_nn()),
    "nn, quick": Method("nn", of_nn(effort="quick")),
    "nn, best": Method("nn", of_nn(effort="best")),
    "CatBoost": Method("catboost", prepared(as_text, catboost)),
    "LightGBM": Method("lightgbm", prepared(as_categories, gradient("lightgbm", "LGBM", verbose=-1))),
    "XGBoost": Method("xgboost", prepared(as_categories, gradient("xgboost", "XGB", enable_categorical=True))),
    "forest": Method("scikit-learn", prepared(as_numbers, sklearn_kind("RandomForest", "ensemble", n_jobs=-1))),
    "histogram boosting": Method(
        "scikit-learn",
        prepared(as_categories, sklearn_kind("HistGradientBoosting", "ensemble", categorical_features="from_dtype")),
    ),
    "linear": Method("scikit-learn", prepared(dense, linear)),
    "scikit-learn's MLP": Method("scikit-learn", prepared(dense, sklearn_kind("MLP", "neural_network"))),
    "RealMLP": Method("pytabkit", prepared(as_text, gradient("pytabkit", "RealMLP_TD_")), slow=True),
    "TabM": Method("pytabkit", prepared(as_text, gradient("pytabkit", "TabM_D_")), slow=True),
}


def is_there(method: Method) -> bool:
    try:
        return bool(method.version)
    except importlib.metadata.PackageNotFoundError:
        return False
