"""Model: the content of a model file, for Python: predictions, tests, explanations; the
comparison of two."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ..card import card_of
from ..core.conformal import known_at
from ..core.metrics import decide, decide_each
from ..data.column import labels_of
from ..data.dataset import Dataset
from ..data.given_rows import rows_and_exposures, times
from ..data.loading import load_for
from ..files.export.formats import export
from ..nn import Network
from ..nn_aux import METRICS, loss_of, metrics_told
from ..settings.flags import BY_NAME
from ..utils import UsageError, listed, network_of
from .compare import Side, compared_sides
from .drift import drift
from .importance import Importance, importance
from .learned import share_explained
from .out_of_fold import check_scores, test, unseen_of, unseen_parts
from .shapley import Explanation, explain

LINES = 12  # of columns that a repr names


def _labels_of(net: Network, scores: np.ndarray) -> np.ndarray:
    """Return the class of each of several targets (rows, targets), of their scores."""
    picked = decide_each(scores, net.threshold)
    if net.labels is None:
        return picked
    pairs = [labels_of(pair, net.label_type) for pair in net.labels]
    named = [pair[each] for pair, each in zip(pairs, picked.T, strict=True)]
    return np.stack(named, axis=1)


class Model:
    """The content of a model file: one network, or many whose mean predicts.

    network: a Network. metrics: those of its training, by the keys of `nn --train
    --json`; empty for a file that was loaded. columns: the names of the inputs.
    members: the networks.
    """

    def __init__(self, network: Network, metrics: dict | None = None):
        self.network = network_of("Model", network)
        self.metrics = metrics or {}

    @classmethod
    def load(cls, path, **engine) -> Model:
        """Return the model of a file, everything in it checked. engine: backend,
        threads, gpus, dtype."""
        return cls(Network.of_file(path, **engine))

    def save(self, path) -> None:
        """Write the model file, which is replaced whole or not at all."""
        self.network.export(path)

    def export(self, path, level: float | None = None) -> None:
        """Write the model for other programs: ONNX (.onnx) or C (.c). level: of the
        intervals, or sets of classes, that an ONNX file has; a C file has all."""
        export(self.network, path, level)

    @property
    def members(self) -> list[Network]:
        """Return the networks."""
        return self.network.members

    @property
    def columns(self) -> list[str] | None:
        """Return the names of the input columns; None where the data had none."""
        return self.network.columns

    def predict(self, rows, exposure=None) -> np.ndarray:
        """Return the class of each row (rows,), in the type in which training was given
        it, or the values (rows,), of several targets either (rows, targets). exposure:
        of each row, in place of a column."""
        net = self.network
        outputs = self.network.predict(rows, exposure)
        if net.task == "regression":
            if outputs.shape[1] == 1:
                return outputs[:, 0]
            return outputs
        if net.task == "multilabel":
            return _labels_of(net, outputs)
        picked = decide(outputs, net.threshold)
        if net.classes is None:
            return np.arange(max(2, net.outputs))[picked]
        return labels_of(net.classes, net.label_type)[picked]

    def predict_proba(self, rows) -> np.ndarray:
        """Return the probability of each class (rows, classes), or that each of several
        targets is positive (rows, targets). Raises UsageError for a regression."""
        if self.network.task == "regression":
            raise UsageError(
                "predict_proba: the task is regression, which has no classes; use predict"
            )
        outputs = self.network.predict(rows)
        if outputs.shape[1] == 1:
            return np.hstack([1 - outputs, outputs])
        return outputs

    def predict_interval(
        self, rows, level: float, exposure=None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the low and the high end of an interval of each prediction, each as
        predict returns values: at the level 0.9 nine of ten new rows lie in theirs.
        Raises UsageError for classes, for a level that the rows which judged the model
        cannot give, and where none judged it."""
        self._check_sure("predict_interval", level, True)
        net = self.network
        inputs, exposures = rows_and_exposures(net, rows, exposure)
        ends = net.conformal.interval(net.predict(inputs), level)
        low, high = [times(end, exposures) for end in ends]
        if net.outputs == 1:
            return low[:, 0], high[:, 0]
        return low, high

    def predict_set(self, rows, level: float) -> list[list]:
        """Return the set of classes of each row, of several targets a list of a set of
        each, as predict returns classes: at the level 0.9 nine of ten new rows have
        their class in theirs. Raises UsageError as
        predict_interval does, and for a regression."""
        self._check_sure("predict_set", level, False)
        net = self.network
        names: Sequence = range(max(2, net.outputs))
        if net.task == "multilabel":
            names = [labels_of(pair, net.label_type) for pair in net.labels or []]
            names = names or [range(2)] * net.outputs
        elif net.classes is not None:
            names = labels_of(net.classes, net.label_type)
        return net.conformal.named(net.predict(rows), level, names)

    def _check_sure(self, method: str, level, of_values: bool) -> None:
        """Raise UsageError for a level that predictions do not have, and a task that is
        not one of values."""
        net = self.network
        if (net.task == "regression") != of_values:
            other = "predict_set" if of_values else "predict_interval"
            raise UsageError(f"{method}: the task is {net.task}; use {other}")
        known_at(net.conformal, BY_NAME["level"].check(level))

    def test(self, data, **settings) -> dict:
        """Return the metrics on data, a path, a frame or a Dataset, by the keys of `nn
        --test --json`. Rows of the training are predicted out of fold, where folds were
        trained."""
        return test(self.network, data, **settings)

    def drift(self, rows) -> dict:
        """Return how rows differ from those of the training, column by column, by the
        keys of `nn drift --json`; see nn.test.drift."""
        return drift(self.network, rows)

    @property
    def classes_(self) -> np.ndarray | None:
        """Return the classes in the order of predict_proba, as scikit-learn names
        them, the numbers of several targets; None for a regression."""
        net = self.network
        if net.task == "regression":
            return None
        if net.task == "multilabel":
            return np.arange(net.outputs)
        if net.classes is None:
            return np.arange(max(2, net.outputs))
        return labels_of(net.classes, net.label_type)

    @property
    def feature_names_in_(self) -> np.ndarray | None:
        """Return the names of the input columns as scikit-learn has them; None where
        the data had none."""
        if self.columns is None:
            return None
        return np.array(self.columns, object)

    def score(self, data, y=None, exposure=None) -> float:
        """Return the accuracy, of a regression R2, of quantiles the share of the
        pinball loss that they explain, on data with the target among its columns, or
        on rows and their targets y. exposure: of each row beside targets, in place of
        a column."""
        net = self.network
        if y is None:
            rows = data if isinstance(data, Dataset) else load_for(net, data)
        else:
            targets = np.asarray(y)
            if net.task != "regression":
                are_right = self.predict(data) == targets
                return float(are_right.reshape(len(targets), -1).all(axis=1).mean())
            x, exposures = rows_and_exposures(net, data, exposure)
            rows = Dataset(x, targets, net.task, exposures=exposures)
        figures = test(net, rows)
        loss = loss_of(net.loss)
        if loss.takes_several:
            rows = rows.for_loss(net.loss)
            own = figures[loss.metric]
            return share_explained(net.loss, own, rows.y, rows.weights)
        return figures["r2" if net.task == "regression" else "accuracy"]

    def importance(self, data, **settings) -> Importance:
        """Return how much a metric loses without each column; see nn.importance."""
        if isinstance(data, Dataset):
            ds = data
        else:
            ds = load_for(self.network, data)
        parts = None
        if (
            unseen_of(self.network, ds) is not None
            and not self.network.crossed.is_retrained
        ):
            parts = unseen_parts(self.network, ds)
        return importance(self.network, ds, parts=parts, **settings)

    def explain(self, rows, background=None, **settings) -> Explanation:
        """Return what each column added to the prediction of each row; see
        nn.explain."""
        return explain(self.network, rows, background, **settings)

    def _repr_html_(self) -> str:
        """Return the card of the model, for notebooks."""
        lines = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in card_of(self.network).items()
        )
        return f"<table>{lines}</table>"

    def __repr__(self) -> str:
        """Return task, columns, members and out-of-fold metrics, a line each."""
        net = self.network
        lines = [
            f"<nn.Model: {net.task}"
            + (f", classes {listed(net.classes)}" if net.classes else "")
        ]
        lines.append(
            f"columns: {listed((net.columns or [f'{net.inputs} without names'])[:LINES])}"
        )
        count = len(net.members)
        parameters = sum(member.parameter_count for member in net.members)
        lines.append(
            f"{count} network{'s' if count > 1 else ''}, {parameters:,} parameters"
        )
        for name in ("out_of_fold", "validated", "mean"):
            metrics = self.metrics.get(name) or {}
            told = {*metrics_told(metrics), *metrics.keys() - METRICS.keys()}
            numbers = [
                f"{key} {value:.4g}"
                for key, value in metrics.items()
                if isinstance(value, float) and key in told
            ]
            if numbers:
                lines += [f"{name.replace('_', ' ')}: {', '.join(numbers)}"]
        return "\n  ".join(lines) + ">"


def compare(a, b, data, *, seed: int = 0) -> dict:
    """Return the metrics of two models on the same rows with the paired 95 % interval
    of each difference, which model is better or that the rows cannot tell, and where
    they disagree most; by the keys of `nn --compare --json`.

    a, b: Models, Networks or model files, called a and b in the result. data: as
    Model.test takes it.
    """
    nets = [model.network if isinstance(model, Model) else model for model in (a, b)]
    nets = [net if isinstance(net, Network) else Network.of_file(net) for net in nets]
    datasets = [
        data if isinstance(data, Dataset) else load_for(net, data) for net in nets
    ]
    unseen = [unseen_of(net, ds) for net, ds in zip(nets, datasets, strict=True)]
    for net, unseen_rows in zip(nets, unseen, strict=True):
        if unseen_rows is not None:
            check_scores(net)
    sides = [Side.of(*side) for side in zip(nets, datasets, unseen, strict=True)]
    return compared_sides(sides, ("a", "b"), seed=seed)
