"""Methods of the arena: each program with its defaults, on rows in the form that suits
it best."""

import importlib
import importlib.metadata
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import nn
from nn.utils import processor_name


@dataclass
class Method:
    """A program with its defaults: fit(x, y, classes) gives a function from rows to
    predictions.

    package: whose version it has. Rows are those of a data frame; predictions (rows,)
    numbers or (rows, classes).
    """

    package: str
    fit: Callable[[pd.DataFrame, np.ndarray, int], Callable[[pd.DataFrame], np.ndarray]]
    slow: bool = False

    @property
    def machine(self) -> str:
        """Return what the program computes on."""
        if self.package == "pytabkit":
            import torch

            if torch.cuda.is_available():
                return torch.cuda.get_device_name()
        return processor_name()

    @property
    def version(self) -> str | None:
        """Return the version of the package, or of the source; None where it is not
        installed."""
        if self.package != "nn":
            return next(
                (
                    distribution.version
                    for distribution in importlib.metadata.distributions(
                        name=self.package
                    )
                ),
                None,
            )
        here = Path(nn.__file__).parent
        state = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=here,
            capture_output=True,
            text=True,
        )
        return state.stdout.strip() or nn.__version__


def of_nn(**settings):
    """Return `fit` of nn, on the rows as they are."""

    def fit(x, y, classes):
        if not classes:
            target = pd.Series(y, x.index)
        else:
            target = pd.Series([f"k{code}" for code in y], x.index)
        if not classes:
            task = "regression"
        elif classes == 2:
            task = "binary"
        else:
            task = "multiclass"
        model = nn.fit(x.assign(target=target), "target", task=task, **settings)

        def predict(rows):
            if not classes:
                return model.predict(rows).reshape(len(rows))
            out = np.zeros((len(rows), classes))
            places = [int(name[1:]) for name in model.network.classes]
            out[:, places] = model.predict_proba(rows)
            return out

        return predict

    return fit


def prepared(
    make: Callable[[pd.DataFrame], Callable],
    model: Callable[[int, pd.DataFrame], object],
):
    """Return `fit` of a program with scikit-learn's interface. make: returns an
    encoding, from its training rows."""

    def fit(x, y, classes):
        encode = make(x)
        fitted = model(classes, encode(x)).fit(encode(x), y)
        return lambda rows: (fitted.predict_proba if classes else fitted.predict)(
            encode(rows)
        )

    return fit


def words_of(x: pd.DataFrame) -> list[str]:
    return [
        name
        for name in x.columns
        if not pd.api.types.is_numeric_dtype(x[name]) or x[name].dtype == bool
    ]


def as_text(x: pd.DataFrame) -> Callable:
    words = words_of(x)
    return lambda rows: rows.assign(
        **{name: rows[name].astype(str).fillna("nan").astype(object) for name in words}
    )


def as_categories(x: pd.DataFrame) -> Callable:
    kinds = {
        name: pd.CategoricalDtype(sorted(x[name].dropna().astype(str).unique()))
        for name in words_of(x)
    }

    def encode(rows):
        texts = {
            name: rows[name].astype(str).where(rows[name].notna()) for name in kinds
        }
        return rows.assign(
            **{
                name: pd.Categorical(texts[name], dtype=kind)
                for name, kind in kinds.items()
            }
        )

    return encode


def as_filled(x: pd.DataFrame) -> Callable:
    """Return the encoding of gaps in numbers by the median and a column that tells of
    them; words as text."""
    text = as_text(x)
    numbers = x.drop(columns=words_of(x))
    medians = numbers.median().fillna(0)
    gaps = [name for name in numbers if numbers[name].isna().any()]
    return lambda rows: (
        text(rows)
        .fillna(medians)
        .assign(**{f"no {name}": rows[name].isna() * 1.0 for name in gaps})
    )


def as_numbers(x: pd.DataFrame, one_hot: bool = False) -> Callable:
    """Return the encoding of gaps by the median and of words by their numbers, or
    one-hot and standardised."""
    from sklearn import compose, impute, pipeline, preprocessing

    words = words_of(x)
    text = as_text(x)
    of_numbers = [impute.SimpleImputer(strategy="median")]
    usual = [name for name in x.columns if name not in words]
    if one_hot:
        of_numbers.append(preprocessing.StandardScaler())
        of_words = preprocessing.OneHotEncoder(
            handle_unknown="ignore", sparse_output=False
        )
    else:
        of_words = preprocessing.OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1
        )
    each = (pipeline.make_pipeline(*of_numbers), usual), (of_words, words)
    fitted = compose.make_column_transformer(*each).fit(text(x))
    return lambda rows: fitted.transform(text(rows))


def of(module: str, name: str, of_classifier: Mapping = {}, **arguments) -> Callable:
    """Return what makes a model of a module: its regressor or its classifier."""

    def make(classes: int, x: pd.DataFrame):
        if module == "catboost":
            words = {"cat_features": words_of(x)}
        elif classes:
            words = of_classifier
        else:
            words = {}
        kind = getattr(
            importlib.import_module(module),
            name + ("Classifier" if classes else "Regressor"),
        )
        return kind(**arguments, **words)

    return make


def linear(classes: int, _):
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if classes:
        return LogisticRegression(max_iter=1000)
    return RidgeCV()


BY_LOSS = {"val_metric_name": "cross_entropy"}  # TabM's own is the share of errors
# networks of eight folds together, each of which keeps the epoch of its least loss
EIGHT = {"n_cv": 8, "n_refit": 0, "random_state": 0}
dense = partial(as_numbers, one_hot=True)
METHODS = {
    "nn": Method("nn", of_nn()),
    "nn, quick": Method("nn", of_nn(effort="quick")),
    "nn, best": Method("nn", of_nn(effort="best")),
    "CatBoost": Method(
        "catboost",
        prepared(
            as_text, of("catboost", "CatBoost", verbose=0, allow_writing_files=False)
        ),
    ),
    "LightGBM": Method(
        "lightgbm", prepared(as_categories, of("lightgbm", "LGBM", verbose=-1))
    ),
    "XGBoost": Method(
        "xgboost",
        prepared(as_categories, of("xgboost", "XGB", enable_categorical=True)),
    ),
    "forest": Method(
        "scikit-learn",
        prepared(as_numbers, of("sklearn.ensemble", "RandomForest", n_jobs=-1)),
    ),
    "histogram boosting": Method(
        "scikit-learn",
        prepared(
            as_categories,
            of(
                "sklearn.ensemble",
                "HistGradientBoosting",
                categorical_features="from_dtype",
            ),
        ),
    ),
    "linear": Method("scikit-learn", prepared(dense, linear)),
    "scikit-learn's MLP": Method(
        "scikit-learn", prepared(dense, of("sklearn.neural_network", "MLP"))
    ),
    "RealMLP": Method(
        "pytabkit",
        prepared(as_filled, of("pytabkit", "RealMLP_TD_", random_state=0)),
        slow=True,
    ),
    "TabM": Method(
        "pytabkit",
        prepared(as_filled, of("pytabkit", "TabM_D_", BY_LOSS, random_state=0)),
        slow=True,
    ),
    "RealMLP, eight": Method(
        "pytabkit",
        prepared(
            as_filled,
            of("pytabkit", "RealMLP_TD_", {**BY_LOSS, "use_ls": False}, **EIGHT),
        ),
        slow=True,
    ),
    "TabM, eight": Method(
        "pytabkit",
        prepared(as_filled, of("pytabkit", "TabM_D_", BY_LOSS, **EIGHT)),
        slow=True,
    ),
}
