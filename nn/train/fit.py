"""fit and Model: what `nn --train` does and a model file holds, from Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.metrics import decide
from ..data.dataset import Dataset
from ..ds import load
from ..files.checkpoint import Checkpoint
from ..files.export.formats import export
from ..nn import Network
from ..settings.flags import checked_settings, settings_of
from ..test import test
from ..test.compare import compared
from ..test.importance import Importance, importance
from ..test.shapley import Explanation, explain
from ..utils import UsageError, listed
from ..watch.callbacks import Callback
from .call import train
from .effort import OF_ONE_TRAINING, Effort, rule_for, why_not

STANDARD = "standard"
LINES = 12  # of columns that a repr names


def fit(
    data,
    target: str | int | np.ndarray | Sequence | None = None,
    *,
    effort: str = STANDARD,
    callback: Callback | None = None,
    checkpoint: str | Checkpoint | None = None,
    **settings,
) -> Model:
    """Train on data as `nn --train` does: the same settings give the same model file, byte for byte.

    data: a path, a data frame, an array, a dictionary of columns, or a Dataset. target: the name or place of a column,
    or an array beside the data. settings: by the names of the flags. Without those that say which networks there are
    (layers, networks, folds, vary, validation, ...) `effort` chooses them. Raises UsageError, DataError.
    """
    of_load, of_network, of_training = (
        checked_settings("fit", {name: settings[name] for name in settings if name in _names(*of)}, *of)
        for of in (("load",), ("network", "engine"), ("train", "several", "checkpoint"))
    )
    layers = settings.pop("layers", None)
    checked_settings("fit", settings, "load", "network", "engine", "train", "several", "checkpoint")
    ds = data if isinstance(data, Dataset) else _loaded(data, target, of_load)
    one = next((name for name in OF_ONE_TRAINING if settings.get(name) is not None), None) or (layers and "layers")
    reason = why_not(ds)
    if one or reason:
        if effort != STANDARD:
            raise UsageError(f"effort {effort}: {reason or f'{one} is not for it'}; leave one of them out")
        net = Network.for_data(ds, layers, **of_network)
        return Model(net, train(net, ds, callback=callback, checkpoint=checkpoint, **of_training))
    activation = {name: of_network[name] for name in ("activation",) if name in of_network}
    given = {**({} if "threshold" in of_training else rule_for(ds)), **of_training, **activation}
    saving = checkpoint if isinstance(checkpoint, Checkpoint) or checkpoint is None else Checkpoint(checkpoint)
    chosen = Effort(ds, effort, given, lambda own: Network.for_data(ds, own, **of_network), callback, saving)
    return Model(*chosen.run(train))


def _names(*of: str) -> set[str]:
    return {name for flag in settings_of(*of) for name in (flag.name, flag.alias) if name}


def _loaded(data, target, settings: dict) -> Dataset:
    """Read the data; target: as fit has it."""
    if target is None or isinstance(target, (str, int)):
        return load(data, **({} if target is None else {"target": target}), **settings)
    return load(data, y=target, **settings)


class Model:
    """The content of a model file: one network, or many whose mean predicts.

    network: a Network. metrics: those of its training, by the keys of `nn --train --json`; empty for a file that was
    loaded. columns: the names of the inputs. members: the networks.
    """

    def __init__(self, network: Network, metrics: dict | None = None):
        self.network, self.metrics = network, metrics or {}

    @classmethod
    def load(cls, path, **engine) -> Model:
        """Return the model of a file, everything in it checked. engine: backend, threads, gpus, tf32."""
        return cls(Network.load(path, **engine))

    def save(self, path) -> None:
        """Write the model file, which is replaced whole or not at all."""
        self.network.export(path)

    def export(self, path) -> None:
        """Write the model for other programs: ONNX (.onnx) or C (.c)."""
        export(self.network, path)

    @property
    def members(self) -> list[Network]:
        """Return the networks."""
        return self.network.members

    @property
    def columns(self) -> list[str] | None:
        """Return the names of the input columns; None where the data had none."""
        return self.network.columns

    def predict(self, rows) -> np.ndarray:
        """Return the class of each row (rows,), or the values (rows,), of several targets (rows, targets)."""
        net, outputs = self.network, self.network.predict(rows)
        if net.task == "regression":
            return outputs[:, 0] if outputs.shape[1] == 1 else outputs
        picked = decide(outputs[:, 0] if outputs.shape[1] == 1 else outputs, net.threshold)
        return np.array(net.classes or range(max(2, net.outputs)))[picked]

    def predict_proba(self, rows) -> np.ndarray:
        """Return the probability of each class (rows, classes). Raises UsageError for a regression."""
        if self.network.task == "regression":
            raise UsageError("predict_proba: the task is regression, which has no classes; use predict")
        outputs = self.network.predict(rows)
        return np.hstack([1 - outputs, outputs]) if outputs.shape[1] == 1 else outputs

    def test(self, data, **settings) -> dict:
        """Return the metrics on data, a path, a frame or a Dataset, by the keys of `nn --test --json`."""
        from ..data.loading import load_for

        ds = data if isinstance(data, Dataset) else load_for(self.network, data)
        return test(self.network, ds, **settings)

    def importance(self, data, **settings) -> Importance:
        """Return how much a metric loses without each column; see nn.importance."""
        from ..data.loading import load_for

        return importance(self.network, data if isinstance(data, Dataset) else load_for(self.network, data), **settings)

    def explain(self, rows, background=None, **settings) -> Explanation:
        """Return what each column added to the prediction of each row; see nn.explain."""
        return explain(self.network, rows, background, **settings)

    def __repr__(self) -> str:
        """Return task, columns, members and out-of-fold metrics, a line each."""
        net = self.network
        lines = [f"<nn.Model: {net.task}" + (f", classes {listed(net.classes)}" if net.classes else "")]
        lines.append(f"columns: {listed((net.columns or [f'{net.inputs} without names'])[:LINES])}")
        count = len(net.members)
        parameters = sum(member.parameter_count for member in net.members)
        lines.append(f"{count} network{'s' if count > 1 else ''}, {parameters:,} parameters")
        for name in ("out_of_fold", "validated", "mean"):
            found = self.metrics.get(name) or {}
            numbers = [f"{key} {value:.4g}" for key, value in found.items() if isinstance(value, float)]
            lines += [f"{name.replace('_', ' ')}: {', '.join(numbers)}"] if numbers else []
        return "\n  ".join(lines) + ">"


def compare(a, b, data, *, seed: int = 0) -> dict:
    """Return the metrics of two models on the same rows with the paired 95 % interval of each difference, which model
    is better or that the rows cannot tell, and where they disagree most; by the keys of `nn --compare --json`.

    a, b: Models, Networks or model files, called a and b in the result. data: as Model.test takes it.
    """
    from ..data.loading import load_for

    nets = [model.network if isinstance(model, Model) else model for model in (a, b)]
    nets = [net if isinstance(net, Network) else Network.load(net) for net in nets]
    datasets = [data if isinstance(data, Dataset) else load_for(net, data) for net in nets]
    return compared(nets, datasets, ("a", "b"), seed=seed)
