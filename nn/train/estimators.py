"""NetworkClassifier, NetworkRegressor: networks as scikit-learn trains and uses them.

A fit reads X and y as nn.load reads a file, and trains as `nn --train` does, with
--effort or with --holdout 0: the same rows and the same seed give the same numbers.
"""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np

from ..core.conformal import known_at
from ..core.losses import row_losses
from ..core.metrics import decide
from ..data import loading
from ..data.column import TYPES_OF_NUMPY, number_text
from ..data.dataset import Dataset, all_weightless, of_each_row
from ..data.encoding import CALL_ROWS
from ..data.frames import open_frame
from ..data.given_rows import times
from ..data.schema import Choices, Schema, check_has_exposure
from ..data.table_rows import TableRows, with_gaps
from ..layers import begins_auto, input_shape, parse
from ..nn import Network
from ..nn_aux import DTYPES, loss_of
from ..settings.flags import BY_NAME, DEFAULTS, settings_of, takes
from ..settings.values import LAYERS, plain
from ..test import without_remarks
from ..test.learned import share_explained
from ..utils import DataError, UsageError, available_memory, listed, log, needs_package
from .asked import REPLACING, training_for, why_not
from .call import train

try:
    from scipy.sparse import issparse
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.metrics import r2_score
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import (
        _check_partial_fit_first_call,
        check_classification_targets,
        type_of_target,
    )
    from sklearn.utils.validation import (
        _check_sample_weight,
        assert_all_finite,
        check_array,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError:
    raise UsageError(
        needs_package("sklearn", "nn.NetworkClassifier and nn.NetworkRegressor need")
    ) from None

# optimiser steps that one network is trained for at least where no epochs are given
QUICK_STEPS = 1000
_DENSE_VALUES = 1 << 22  # of a sparse matrix that are predicted at a time
_LEAST_PROBABILITY = 1e-12  # whose logit is finite
# of a column of objects
_FIELDS = (str, bool, np.bool_, numbers.Real, type(None), date, datetime, np.datetime64)
# Settings of files and of the command line, and those that have another name here.
_NONE = {
    "target",
    "task",
    "id",
    "weight",
    "group",
    "time",
    "separator",
    "header",
    "memory",
    "seed",
    "reference",
    "distribute",
    "holdout",
    "folds",
    "batch_number",
    "positive",
}
_NAMES_HERE = {"batch_number": "batch_size"}
_OF_CLASSES = {"class_weight", "threshold", "calibrate"}
_OF_NUMBERS = {"clip", "exposure"}
QUICK = "quick"
_QUICK_GIVES_WAY = ("activation", "epochs")  # to these too


class _Rows(NamedTuple):
    """Rows that are trained on or judge a training, as a person gives them."""

    X: Any
    y: Any
    sample_weight: Any = None
    exposure: Any = None


def _constructor(*without: str) -> Callable:
    """Return __init__ of an estimator, whose parameters are the settings but for
    some."""

    @takes("network", "train", "several", "load", "engine", without={*_NONE, *without})
    def __init__(
        self,
        layers: str | Sequence[int | str] | None = None,
        *,
        effort: str | None = None,
        batch_size: int | None = None,
        random_state: Any = 0,
        warm_start: bool = False,
        **settings,
    ):
        self.layers = layers
        self.effort = effort
        self.batch_size = batch_size
        self.random_state = random_state
        self.warm_start = warm_start
        names = self._get_param_names()
        for name in settings:
            if name not in names:
                raise TypeError(
                    f"{type(self).__name__}() got an unexpected keyword argument {name!r}"
                )
        for name in names:
            if name not in vars(self):
                setattr(self, name, settings.get(name))

    return __init__


class _NetworkEstimator(BaseEstimator):
    """The base of both estimators: rows are checked as scikit-learn does, then read as
    nn reads tables."""

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """Train on the rows of X and their targets y; returns the estimator.

        X (rows, columns): an array or a data frame, with texts, dates and gaps if there
        are any. sample_weight (rows,): a row of weight 2 counts as two. eval_set: (X,
        y) or (X, y, sample_weight) that choose the best epoch, in place of
        `validation`.
        Raises ValueError for what cannot be trained on, as scikit-learn does.
        """
        return self._fitted(_Rows(X, y, sample_weight), eval_set)

    def _fitted(self, rows: _Rows, eval_set):
        """Train on rows as fit does; returns the estimator."""
        self._need(rows.y)
        if self.warm_start and hasattr(self, "network_"):
            return self._go_on(rows, self._given("train"), eval_set)
        with _value_errors():
            ds = self._read(rows)
            if self._may_choose(ds, eval_set):
                effort = self.effort or DEFAULTS["effort"]
                return self._train(ds, effort, self._given("train"))
            return self._train(ds, None, self._settings_of_one(ds, eval_set))

    def _train(self, ds: Dataset, effort: str | None, settings: dict):
        """Train on rows as training_for says; returns the estimator."""
        training = training_for(
            ds, effort, self._layers(), settings, self._network_settings()
        )
        return self._keep(*training.run(train))

    def _need(self, y) -> None:
        """Raise ValueError where there are no targets."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )

    # ---- training, rows of which there are more

    @without_remarks()  # an epoch may have learned nothing yet
    def _part(self, rows: _Rows):
        """Train for one epoch on some of the rows: with the first of them a network
        whose scaling and encoding are by these, then that network; returns the
        estimator."""
        self._need(rows.y)
        if hasattr(self, "network_"):
            config = self.network_.members[0].config
            rate = {"learning_rate": config["learning_rate"]}
            settings = {**rate, **self._given("train"), **self._of_part()}
            return self._go_on(rows, settings)
        with _value_errors():
            ds = self._read(rows, is_part=True)
            settings = {**self._settings_of_one(ds, None), **self._of_part()}
            return self._train(ds, None, settings)

    def _of_part(self) -> dict:
        """Return the settings of a training on some of the rows, of which others
        follow."""
        return {"epochs": 1, "schedule": self.schedule or "constant"}

    def _go_on(self, rows: _Rows, settings: dict, eval_set=None):
        """Train the network further; return the estimator."""
        with _value_errors():
            net = self.network_
            ds = self._reader_of(rows)(net)
            ds.is_left_out_logged = True
            settings = {"holdout": 0.0, **settings}
            if eval_set is not None:
                settings["validation"] = self._validation(eval_set)
            figures = train(net, ds, goes_on=True, **settings)
        return self._keep(net, figures, self.loss_curve_)

    def _keep(self, net: Network, figures: dict, curve: Sequence[float] = ()):
        """Take what a training has made; returns the estimator. curve: the losses of
        trainings before."""
        self.network_ = net
        self.figures_ = figures
        self.loss_curve_ = [*curve, *net.history["loss"]]
        return self

    def _read(self, rows: _Rows, is_part: bool = False) -> Dataset:
        """Return the rows that are trained on first. is_part: others follow, and the
        classes are known."""
        names = _names(rows.y)
        X, y = self._checked(rows.X, rows.y)
        beside = self._beside(X, rows)
        X = self._dense(X)
        targets = self._counting_targets(y, beside.get("weights"), reset=not is_part)
        schema = self._schema()
        if is_part and self._class_names() is not None:
            schema = replace(schema, classes=self._class_names())
            targets = np.array(self._class_names())[targets]
        ds = loading.load(X, schema, y=targets, beside=beside)
        if ds.weightless:
            log.warning("sample_weight: %s", ds.about_weightless())
        if ds.duplicates():
            log.warning("%s", ds.about_duplicates())
        ds.is_left_out_logged = True
        # as the network and its members keep them
        ds.classes = self._class_names()
        ds.label_type = self._label_type()
        ds.targets = names if ds.columns else None
        return ds

    def _network_settings(self) -> dict:
        """Return the settings of the network."""
        seed = self.random_state
        if not isinstance(seed, numbers.Integral):
            seed = check_random_state(seed).randint(2**31)
        return {"seed": int(seed), **self._given("network", "engine")}

    # ---- which training

    def _may_choose(self, ds: Dataset, eval_set) -> bool:
        """Return whether `effort` chooses the network: nothing says which it is, and
        there are rows enough.

        Raises UsageError for an unknown effort, and for standard or best beside
        parameters that replace the choice.
        """
        replacing = [*REPLACING, *(_QUICK_GIVES_WAY if self.effort == QUICK else ())]
        given = [name for name in replacing if getattr(self, name, None) is not None]
        if eval_set is not None:
            given += ["eval_set"]
        if (
            self.effort is not None
            and BY_NAME["effort"].check(self.effort) != QUICK
            and given
        ):
            raise UsageError(
                f"effort {self.effort}: {given[0]} is not for it; leave one of them out"
            )
        return not given and why_not(ds, self.effort) is None

    def _settings_of_one(self, ds: Dataset, eval_set) -> dict:
        """Return the settings of the training of one network, or several, as the
        parameters say."""
        settings = {
            "holdout": 0.0,
            "batch_number": DEFAULTS["batch_number"],
            **self._given("train", "several"),
        }
        if eval_set is not None:
            settings["validation"] = self._validation(eval_set)
        batches = -(-ds.rows // max(settings["batch_number"], 1))
        settings.setdefault(
            "epochs", max(DEFAULTS["epochs"], -(-QUICK_STEPS // batches))
        )
        return settings

    # ---- what a person gives

    def _given(self, *of: str) -> dict:
        """Return the settings that are keywords of these (settings.flags.Flag.taker)
        and not None."""
        given = {}
        for flag in settings_of(*of):
            name = _NAMES_HERE.get(flag.name, flag.name)
            value = getattr(self, name, None)
            if value is not None:
                text_of = flag.value.text_of if flag.value else plain
                given[flag.name] = text_of(value)
        return given

    def _layers(self) -> str | None:
        return LAYERS.text_of(self.layers)

    def _dtype(self) -> str:
        return DTYPES[BY_NAME["dtype"].check(self.dtype or "float32")]

    def _schema(self) -> Schema:
        """Return the choices for the columns, which are made before they are read."""
        inputs = None
        layers = self._layers()
        if layers is not None and not begins_auto(layers):
            inputs = input_shape(parse(layers))
        choices = Choices(**self._given("load"))
        return Schema(self._task(), inputs, dtype=self._dtype(), choices=choices)

    def _beside(self, X, rows: _Rows) -> dict[str, np.ndarray]:
        """Return the weights and the exposures of rows X, where they have any."""
        beside = {}
        if rows.sample_weight is not None:
            array = X if isinstance(X, np.ndarray) else np.zeros((len(X), 1))
            beside["weights"] = _check_sample_weight(
                rows.sample_weight, array, dtype=np.float64
            )
        if rows.exposure is not None and getattr(self, "exposure", None) is not None:
            raise ValueError(
                f"exposure: the column {self.exposure} by the parameter, and values; leave one out"
            )
        if rows.exposure is not None:
            beside["exposures"] = rows.exposure
        return beside

    def _counting_targets(
        self, y: np.ndarray, weights: np.ndarray | None, reset: bool = True
    ) -> np.ndarray:
        """Return targets as _targets does, by the rows of a weight above 0; the others,
        which leave, have 0."""
        if weights is None:
            counts = slice(None)
        else:
            counts = weights != 0
        if weights is not None and not counts.any():
            raise all_weightless(len(y))
        counting = self._targets(y[counts], reset)
        targets = np.zeros((len(y), *counting.shape[1:]), counting.dtype)
        targets[counts] = counting
        return targets

    def _validation(self, eval_set):
        """Return a function that reads the rows of eval_set as a network reads its
        data."""
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not isinstance(eval_set, tuple) or len(eval_set) not in (2, 3, 4):
            raise ValueError(
                "eval_set: expected (X, y), (X, y, sample_weight) or (X, y, sample_weight, exposure)"
            )
        return self._reader_of(_Rows(*eval_set))

    def _reader_of(self, rows: _Rows) -> Callable[[Network], Dataset]:
        """Return a function that reads rows as a network reads its data."""
        X, y = self._checked(rows.X, rows.y, reset=False)
        X = self._dense(X)
        beside = self._beside(X, rows)
        targets = self._counting_targets(y, beside.get("weights"), reset=False)
        if self._class_names() is not None:
            targets = np.array(self._class_names())[targets]

        def read(net: Network) -> Dataset:
            schema = self._without_column(net.schema, rows.exposure)
            return loading.load(X, schema, y=targets, beside=beside)

        return read

    # ---- rows

    def _checked(self, X, y="no_validation", reset: bool = True):
        """Return X as a frame or an array, and y, checked as scikit-learn does, which
        notes or compares the columns."""
        X = with_gaps(X)
        is_frame = (
            not isinstance(X, (np.ndarray, dict, list, tuple))
            and not issparse(X)
            and open_frame(X) is not None
        )
        if is_frame:
            validate_data(self, X, skip_check_array=True, reset=reset)
        else:
            rules = {
                "dtype": None,
                "ensure_all_finite": "allow-nan",
                "accept_sparse": "csr",
                "reset": reset,
            }
            X = validate_data(self, X, **rules)
            if X.dtype.kind == "O":
                X = _fields(X)
        if isinstance(y, str):
            return X
        y = self._checked_targets(y)
        check_consistent_length(X, y)
        return X, y

    def _without_column(self, schema: Schema, exposure) -> Schema:
        """Return the schema of the network for rows whose exposures are no column.
        exposure: of each row, None: 1, unless the parameter names a column. Raises
        UsageError where the network knows no exposures."""
        if exposure is not None:
            check_has_exposure(schema.choices)
        elif getattr(self, "exposure", None) is not None:
            return schema
        return replace(schema, choices=replace(schema.choices, exposure=None))

    def _outputs(self, X, level: float | None = None, exposure=None) -> np.ndarray:
        """Return the network's outputs (rows, outputs) for these rows, or the ends of
        their intervals of a level (2, rows, outputs); a sparse matrix is made dense by
        batches. exposure: of each row."""
        check_is_fitted(self)
        with _value_errors():
            X = self._checked(X, reset=False)
            if exposure is not None:
                exposure = of_each_row("exposures", exposure, X.shape[0], "X")
            if not issparse(X):
                return times(self._predicted(X, level, exposure), exposure)
            count = max(1, _DENSE_VALUES // X.shape[1])
            batches = [
                X[start : start + count].toarray()
                for start in range(0, X.shape[0], count)
            ]
            outputs = [self._predicted(batch, level, exposure) for batch in batches]
            return times(np.concatenate(outputs, axis=-2), exposure)

    def _known_at(self, level: float):
        """Return how sure predictions are. Raises UsageError for a level that they do
        not have."""
        check_is_fitted(self)
        return known_at(self.network_.conformal, BY_NAME["level"].check(level))

    def _dense(self, X):
        """Return a sparse matrix as an array, other rows as they are. Raises UsageError
        if it has no room in memory."""
        if not issparse(X):
            return X
        dtype = np.dtype(self._dtype())
        free = available_memory()
        size = X.shape[0] * X.shape[1] * dtype.itemsize
        if free is not None and size > free:
            raise UsageError(
                f"X: {X.shape[0]} x {X.shape[1]} values of a sparse matrix take {size / 1e9:.3g} GB where they are "
                f"trained on, of {free / 1e9:.3g} GB that are free; leave out rare columns, as by "
                "OneHotEncoder(min_frequency=), or reduce them by TruncatedSVD"
            )
        return X.astype(dtype).toarray()

    def _predicted(self, X, level: float | None, exposure) -> np.ndarray:
        """Return what _outputs does of rows that are read as the network's data, before
        it is multiplied by exposures beside them."""
        schema = self._without_column(self.network_.schema, exposure)
        schema = replace(
            schema,
            targets=[],
            choices=replace(schema.choices, strict=bool(self.strict)),
        )
        ds = loading.load(X, schema, labelled=False)
        if schema.encoding is not None:
            schema.encoding.log_unknown(TableRows.of(ds.x), CALL_ROWS)
        outputs = self.network_.predict(ds.x)
        if level is not None:
            outputs = np.stack(self._known_at(level).interval(outputs, level))
        return times(outputs, ds.exposures)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags


class NetworkClassifier(ClassifierMixin, _NetworkEstimator):
    """A network that tells classes, for scikit-learn.

    The parameters have the names and meanings of the flags of `nn`; None: the default
    of `nn --train`. Network, training and members are chosen as `nn --train` chooses
    them, by `effort` (standard; quick, best), unless layers, networks, vary,
    validation, refit or eval_set say which networks there are, or rows are too few: one
    network, or those, is then trained on all rows, without `epochs` for 1,000 steps at
    least. quick gives way to activation and epochs too.
    warm_start: a further fit goes on with the network as `--init MODEL` does, which
    keeps its scaling, encoding and classes: with a third of its epochs and rate where
    none are given.
    random_state: the seed. dtype: float32, float64, tf32. class_weight: how much the
    rows of each class count in the loss, times their sample_weight: balanced (each
    class as much as another), {class: weight} (1 for the others), or a number for each
    class in the order of classes_. fit holds no rows out: `validation` or eval_set set
    some apart. y may be (rows, labels) of 0 and 1; classes_ are their numbers then, and
    class_weight is {0: weight, 1: weight} of all labels, or a list of one for each.

    Fitted: network_ (Network), classes_, n_features_in_, feature_names_in_, loss_curve_
    (an epoch's mean loss each), figures_ (those of `nn --train --json`).
    """

    __init__: Callable[..., None] = _constructor(*_OF_NUMBERS)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train for one epoch on some rows, others of which may follow; returns the
        estimator.

        classes: of all rows, which the first call needs. The first rows decide scaling
        and encoding for good. Raises ValueError as fit does.
        """
        _check_partial_fit_first_call(self, classes)
        return self._part(_Rows(X, y, sample_weight))

    def predict(self, X) -> np.ndarray:
        """Return the class of each row (rows,), or 0 and 1 of each of several labels
        (rows, labels); of two classes by the threshold."""
        scores = self._outputs(X)
        if self._are_labels:
            return (scores.astype(np.float64) >= self.network_.threshold).astype(int)
        picked = decide(scores, self.network_.threshold)
        return self.classes_[picked]

    def predict_proba(self, X) -> np.ndarray:
        """Return the probability of each class, or of each of several labels, (rows,
        classes), in the order of classes_."""
        scores = self._outputs(X)
        if scores.shape[1] == 1:
            return np.hstack([1 - scores, scores])
        return scores

    def predict_set(self, X, level: float) -> np.ndarray:
        """Return which classes are in the set of each row (rows, classes), in the order
        of classes_, of several labels without and with each (rows, labels, 2); see
        nn.Model.predict_set."""
        return self._known_at(level).sets(self._outputs(X), level)

    def predict_log_proba(self, X) -> np.ndarray:
        """Return the logarithm of predict_proba (rows, classes)."""
        proba = self.predict_proba(X)
        return np.log(np.maximum(proba, np.finfo(proba.dtype).tiny))

    def decision_function(self, X) -> np.ndarray:
        """Return how far each row is towards a class, by the logit of probabilities:
        above 0 it is classes_[1] (rows,), or has a label (rows, labels); of several
        classes (rows, classes)."""
        scores = self._outputs(X).astype(np.float64)
        are_probabilities = self.network_.layers[-1].output_function in (
            "sigmoid",
            "softmax",
        )
        if are_probabilities:
            level = _logit
        else:
            level = np.asarray
        if self._are_labels:
            return level(scores) - level(self.network_.threshold)
        if scores.shape[1] > 1:
            return level(scores)
        return level(scores[:, 0]) - level(self.network_.threshold)

    def _task(self) -> str:
        if self._are_labels:
            return "multilabel"
        if len(self.classes_) == 2:
            return "binary"
        return "multiclass"

    def _checked_targets(self, y) -> np.ndarray:
        if type_of_target(y, input_name="y") == "multilabel-indicator":
            y = check_array(y, accept_sparse="csr", input_name="y")
            y = y.toarray() if issparse(y) else y
            if not np.isin(y, (0, 1)).all():
                raise ValueError("y: several labels are told by 0 and 1")
            return y
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return y

    def _targets(self, y: np.ndarray, reset: bool = True) -> np.ndarray:
        """Return the indices of the classes, or 0 and 1 of labels; reset: y says which
        classes there are."""
        if reset or not hasattr(self, "network_"):
            self._are_labels = y.ndim == 2
        if self._are_labels != (y.ndim == 2):
            raise ValueError(
                "y: found one class of each row beside several labels; give both alike"
            )
        if self._are_labels:
            if reset:
                self.classes_ = np.arange(y.shape[1])
            if y.shape[1] != len(self.classes_):
                raise ValueError(
                    f"y: found {y.shape[1]} labels, expected {len(self.classes_)}"
                )
            return y.astype(np.int64)
        if reset:
            self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class, {self.classes_[0]!r}, expected two or more"
            )
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(
                f"y: found class {y[unknown][0]!r}, expected one of {listed(self.classes_.tolist())}"
            )
        return np.searchsorted(self.classes_, y)

    def _class_names(self) -> list[str] | None:
        if self._are_labels:
            return None
        are_numbers = self.classes_.dtype.kind in "iuf"
        return [
            number_text(value) if are_numbers else str(value)
            for value in self.classes_.tolist()
        ]

    def _label_type(self) -> str | None:
        return TYPES_OF_NUMPY.get(self.classes_.dtype.kind)

    def _given(self, *of: str) -> dict:
        given = super()._given(*of)
        weights = self.class_weight
        if isinstance(weights, dict):
            weights = [weights]
        if "class_weight" not in given or isinstance(weights, str):
            return given
        if all(isinstance(one, dict) for one in weights):
            classes = [0, 1] if self._are_labels else self.classes_.tolist()
            weights = [one.get(value, 1.0) for one in weights for value in classes]
        given["class_weight"] = ",".join(repr(float(weight)) for weight in weights)
        return given

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class NetworkRegressor(RegressorMixin, _NetworkEstimator):
    """A network that tells numbers, one or several of each row, for scikit-learn.

    The parameters, and how network, training and members are chosen, are those of
    NetworkClassifier, without those of classes; clip: keep predictions near the range
    of the targets. exposure: the column of X by which outputs are multiplied; fit,
    predict and score take exposures beside X instead, one of each row.

    Fitted: network_ (Network), n_features_in_, feature_names_in_, loss_curve_ (an
    epoch's mean loss each), figures_ (those of `nn --train --json`).
    """

    __init__: Callable[..., None] = _constructor(*_OF_CLASSES)

    def fit(self, X, y, sample_weight=None, eval_set=None, exposure=None):
        """Train as NetworkClassifier.fit does; returns the estimator. exposure (rows,):
        the time, area or number in which each row counts its target; eval_set may have
        a fourth member, that of its rows."""
        return self._fitted(_Rows(X, y, sample_weight, exposure), eval_set)

    def partial_fit(self, X, y, sample_weight=None, exposure=None):
        """Train for one epoch on some rows, others of which may follow, as
        NetworkClassifier.partial_fit does; returns the estimator."""
        return self._part(_Rows(X, y, sample_weight, exposure))

    def predict(self, X, exposure=None) -> np.ndarray:
        """Return what each row is told to be, float64: (rows,), or (rows, targets)
        where y had two axes, and (rows, quantiles) of several quantiles. exposure: of
        each row, where fit had it; None: 1."""
        values = self._outputs(X, exposure=exposure).astype(np.float64)
        if self._is_single and values.shape[1] == 1:
            return values[:, 0]
        return values

    def score(self, X, y, sample_weight=None, exposure=None) -> float:
        """Return R2 of the predictions, of quantiles the share of the pinball loss that
        they explain (scikit-learn's d2_pinball_score); exposure as predict takes it."""
        values = self.predict(X, exposure)
        loss = self.network_.loss
        if not loss_of(loss).takes_several:
            return r2_score(y, values, sample_weight=sample_weight)
        outputs = values.reshape(len(values), -1)
        truth = self._checked_targets(y).reshape(len(values), -1)
        truth = np.broadcast_to(truth, outputs.shape)
        weights = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, np.float64)
        own = np.average(row_losses(loss, outputs, truth), weights=weights)
        return share_explained(loss, own, truth, weights)

    def predict_interval(
        self, X, level: float, exposure=None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the low and the high end of an interval of each prediction, each as
        predict returns values; see nn.Model.predict_interval."""
        self._known_at(level)
        low, high = self._outputs(X, level, exposure)
        if self._is_single:
            return low[:, 0], high[:, 0]
        return low, high

    def _task(self) -> str:
        return "regression"

    def _checked_targets(self, y) -> np.ndarray:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        self._is_single = y.ndim == 1
        return y

    def _targets(self, y: np.ndarray, reset: bool = True) -> np.ndarray:
        return y

    def _class_names(self) -> None:
        return None

    def _label_type(self) -> None:
        return None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _names(y) -> list[str] | None:
    """Return the names of targets, None if they have none."""
    names = getattr(y, "columns", None)
    if names is None:
        names = [name for name in [getattr(y, "name", None)] if name is not None]
    return [str(name) for name in names] or None


def _logit(share) -> np.ndarray:
    share = np.clip(share, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return np.log(share) - np.log1p(-share)


def _fields(X: np.ndarray) -> np.ndarray:
    """Return an array of objects as numbers where all of them are, else as it is.
    Raises TypeError for others."""
    types = {type(value) for value in X.flat}
    other = [kind for kind in types if not issubclass(kind, _FIELDS)]
    if other:
        raise TypeError(
            f"X: argument must be a string or a number, not {other[0].__name__!r}"
        )
    if any(issubclass(kind, (str, date, datetime, np.datetime64)) for kind in types):
        return X
    return check_array(
        X, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X"
    )


@contextlib.contextmanager
def _value_errors() -> Iterator[None]:
    """Raise what nn refuses as scikit-learn's callers expect it."""
    try:
        yield
    except (DataError, UsageError) as error:
        raise ValueError(str(error)) from error
