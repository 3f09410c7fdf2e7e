"""Whole trainings beside plain NumPy: settings drawn together, each batch of each
epoch, what judges, what is kept.

The plain and the fast core share csrc/train.c: a fault there would be the same in both.
The draws of the generator, the initial parameters and the split of rows are taken as
they are: tests/backends and tests/data judge them.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pytest

import nn
from nn.core.random import STREAM_SHUFFLE, shuffled
from nn.data.splits import fold_rows, split_rows

OUTPUTS = {"two": 1, "three": 3, "labels": 2, "number": 1, "numbers": 2, "counts": 1}
OF_SHARES = ("two", "labels")  # tasks whose outputs are sigmoids
LOSSES = {
    "counts": ("poisson",),
    "number": (None, "mae", "huber=0.5"),
    "numbers": (None, "mae", "huber=0.5"),
}
METRICS = {
    "two": ("accuracy", "brier"),
    "three": ("accuracy", "brier"),
    "labels": (),
    "number": ("rmse", "mae"),
    "numbers": ("rmse", "mae"),
    "counts": ("rmse", "mae"),
}
SCHEDULES = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1 - done,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "cooldown": lambda done: 1.0 if done <= 0.75 else 4 * (1 - done),
}
ACTIVATIONS = {  # of hidden values, and the slope from them
    "tanh": (np.tanh, lambda a: 1 - a**2),
    "sigmoid": (lambda z: 1 / (1 + np.exp(-z)), lambda a: a * (1 - a)),
    "softplus": (lambda z: np.logaddexp(0, z), lambda a: 1 - np.exp(-a)),
}
BETAS = {"adam": (0.9, 0.999), "rmsprop": (0.9,)}
EPSILONS = {"adam": 1e-8, "rmsprop": 1e-8, "adagrad": 1e-10}
ROWS = 70
OTHERS = 25  # rows of another data set, which may judge
CASES = 100


class Case(NamedTuple):
    task: str
    seed: int
    way: str  # one, networks, folds
    settings: dict
    network: dict  # settings of it
    hidden: int
    activation: str
    has_others: bool  # which judge


def drawn_case(seed: int) -> Case:
    rng = np.random.default_rng([7, seed])

    def one_of(*values):
        return values[rng.integers(len(values))]

    task = one_of(*OUTPUTS)
    settings = {
        "epochs": int(rng.integers(2, 7)),
        "batch_number": int(rng.integers(4, 20)),
        "learning_rate": 0.05,
        "weight_decay": one_of(0.0, 0.2),
        "schedule": one_of(*SCHEDULES),
        "scaling": one_of("standardization", "normalization", "none"),
        "holdout": one_of(0.0, 0.2),
        "optimizer": one_of("adam", "sgd", "sgd", "rmsprop", "adagrad"),
        "split_seed": one_of(None, 9),
        "freeze": one_of(None, None, 1),
    }
    network = {
        "backend": one_of("seq", "omp"),
        "loss": one_of(*LOSSES.get(task, [None])),
        "init": one_of(None, "glorot", "he"),
        "dtype": "float64",
    }
    has_others = False
    if settings["scaling"] == "none":  # far numbers, from which larger steps diverge
        settings["learning_rate"] = 0.002
    if settings["optimizer"] == "sgd":
        settings["momentum"] = one_of(0.0, 0.8)
    else:
        settings["epsilon"] = one_of(None, 0.1)
    if settings["optimizer"] == "adam":
        settings["betas"] = one_of(None, (0.6, 0.95), (0.0, 0.9))
    if settings["optimizer"] == "rmsprop":
        settings["betas"] = one_of(None, (0.5,))
    if task in ("two", "three"):
        settings["class_weight"] = one_of(
            "none", "balanced", "1,3,0.5"[: 3 + 4 * (task == "three")]
        )
    if task == "labels":
        settings["class_weight"] = one_of("none", "balanced", "1,3", "1,3,2,0.5")
    if task == "two":
        settings["threshold"] = one_of(0.5, 0.35)
    if one_of(True, True, False):
        settings["validation"] = 0.25
        settings["monitor"] = one_of(None, *METRICS[task])
        settings["patience"] = one_of(None, 1, 2)
        has_others = one_of(True, False, False)
        settings["refit"] = None if has_others else one_of(None, True)
    way = one_of("one", "one", "networks", "folds")
    if way != "one":
        settings[way] = 3
    if settings["scaling"] != "none":
        of_sgd = settings["optimizer"] == "sgd"
        settings["scale_rate"] = one_of(None, None, 0.5 if of_sgd else 2.0)
    given = {name: value for name, value in settings.items() if value is not None}
    hidden = one_of(3, 5, 35)  # the fast core fills rows up to whole vectors
    activation = one_of(*ACTIVATIONS)
    return Case(task, seed, way, given, network, hidden, activation, has_others)


def drawn_data(case: Case) -> nn.Dataset:
    rng = np.random.default_rng([8, case.seed])
    rows = ROWS + OTHERS
    x = rng.normal(size=(rows, 4)) * [1, 3, 0.5, 2] + [0, 5, -1, 0]
    score = x[:, 0] + x[:, 3] / 2 + rng.normal(size=rows)
    facts = {}
    if rng.random() < 0.6:
        facts["weights"] = rng.choice(
            [0.0, 0.5, 1.0, 3.0], rows, p=[0.1, 0.3, 0.3, 0.3]
        )
    if rng.random() < 0.3:
        facts["groups"] = np.arange(rows) // 3
    if case.task in ("two", "three"):
        y = np.digitize(score, [-0.4] if case.task == "two" else [-1, 1])
        names = ["a", "b", "c"][: y.max() + 1]
        task = "binary" if case.task == "two" else "multiclass"
        return nn.Dataset(x, y.astype(np.int32), task, names, **facts)
    if case.task == "labels":
        y = (np.stack([score, x[:, 1]], axis=1) > [0.5, 5]).astype(float)
        y[rng.random(rows) < 0.2, 1] = np.nan
        return nn.Dataset(x, y, "multilabel", **facts)
    if case.task == "counts":
        facts["exposures"] = rng.uniform(0.5, 3, rows)
        y = rng.poisson(np.exp(score / 3) * facts["exposures"]).astype(float)
    else:
        y = 40 + 6 * score
    if case.task == "numbers":
        y = np.stack([y, score - x[:, 1]], axis=1)
        y[rng.random(rows) < 0.3, 1] = np.nan
    return nn.Dataset(x, y, "regression", **facts)


class Plain:
    """The training of one network on some rows of a case, judged by others."""

    def __init__(self, case, ds, seed, start, training, judging):
        self.case = case
        self.settings = case.settings
        self.seed = seed
        self.start = start
        self.x = ds.x
        self.y = np.array(ds.y, float).reshape(ds.rows, -1)
        self.weights = np.ones(ds.rows) if ds.weights is None else ds.weights
        if case.task == "counts":  # rates, which count by their exposures
            self.y = self.y / ds.exposures[:, None]
            self.weights = self.weights * ds.exposures / ds.exposures.mean()
        self.training = training
        self.judging = judging
        self.losses = []
        self.judged = []
        self.values = []
        self.kept = start

    # ---- what training rows decide

    @cached_property
    def constants(self):
        """Shift and scale of the inputs."""
        x = self.x[self.training]
        if self.settings["scaling"] == "none":
            return 0.0, 1.0
        if self.settings["scaling"] == "normalization":
            return x.min(axis=0), x.max(axis=0) - x.min(axis=0)
        return self.moments(x, self.training)

    @cached_property
    def inputs(self) -> np.ndarray:
        shift, scale = self.constants
        return (self.x - shift) / scale

    def moments(self, values, rows):
        """Return mean and deviation of columns by the rows that have them."""
        both = []
        for column in values.T:
            known = ~np.isnan(column)
            weights = self.weights[rows][known]
            mean = np.average(column[known], weights=weights)
            square = np.average((column[known] - mean) ** 2, weights=weights)
            both.append((mean, math.sqrt(square)))
        return np.array(both).T

    @cached_property
    def units(self):
        """Shift and scale of the targets."""
        is_plain = self.settings["scaling"] == "none"
        if is_plain or self.case.task in ("two", "three", "labels"):
            return 0.0, 1.0
        shift, scale = self.moments(self.y[self.training], self.training)
        return (0.0 if self.case.task == "counts" else shift), scale

    @cached_property
    def counts(self) -> np.ndarray:
        """As how much each row counts in the loss."""
        asked = self.settings.get("class_weight", "none")
        if asked == "none" or self.case.task == "labels":
            return self.weights
        labels = self.y[:, 0].astype(int)
        if asked != "balanced":
            return self.weights * np.array(list(map(float, asked.split(","))))[labels]
        rows = self.training
        sums = np.bincount(labels[rows], self.weights[rows])
        return self.weights * (sums.sum() / len(sums) / sums)[labels]

    @cached_property
    def label_weights(self) -> np.ndarray:
        """As how much each label of each row counts beside the row's weight, by its
        class: on average once in the training rows that have it."""
        asked = self.settings.get("class_weight", "none")
        weights = np.ones(self.y.shape)
        if asked == "none" or self.case.task != "labels":
            return weights
        for k, column in enumerate(self.y.T):
            known = self.training[~np.isnan(column[self.training])]
            sums = np.bincount(column[known].astype(int), self.weights[known])
            pair = 1 / sums
            if asked != "balanced":
                numbers = list(map(float, asked.split(",")))
                pair = np.array((numbers * 2)[2 * k : 2 * k + 2])
            pair = pair * sums.sum() / (pair @ sums)
            weights[:, k] = np.where(column == 1, pair[1], pair[0])
        return weights

    # ---- the network

    def outputs(self, vector, rows):
        """Return what the layers give: hidden values and those before the loss."""
        w1, b1, w2, b2 = self.parts(vector)
        activation, _ = ACTIVATIONS[self.case.activation]
        hidden = activation(self.inputs[rows] @ w1.T + b1)
        return hidden, hidden @ w2.T + b2

    def parts(self, vector):
        inputs = self.x.shape[1]
        outputs = OUTPUTS[self.case.task]
        hidden = self.case.hidden
        ends = np.cumsum([hidden * inputs, hidden, outputs * hidden])
        w1, b1, w2, b2 = np.split(vector, ends)
        return w1.reshape(hidden, inputs), b1, w2.reshape(outputs, hidden), b2

    def row_losses(self, z, rows):
        """Return the loss of each row, and its slope by z."""
        shift, scale = self.units
        y = (self.y[rows] - shift) / scale
        if self.case.task in OF_SHARES:
            losses = np.logaddexp(0, z) - z * y
            slopes = (1 / (1 + np.exp(-z)) - y) / y.shape[1]
            losses = losses * self.label_weights[rows]
            slopes = slopes * self.label_weights[rows]
            missing = np.isnan(y)
            return np.where(missing, 0, losses).mean(axis=1), np.where(
                missing, 0, slopes
            )
        if self.case.task == "three":
            one_hot = np.arange(3) == y
            log_sum = np.logaddexp.reduce(z, axis=1)
            return log_sum - z[one_hot], np.exp(z - log_sum[:, None]) - one_hot
        if self.case.task == "counts":
            logs = np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), 0)
            return (2 * (logs - y * z - y + np.exp(z)))[:, 0], 2 * (np.exp(z) - y)
        error = np.where(np.isnan(y), 0, z - y)
        loss = self.case.network["loss"]
        losses = error**2
        slopes = 2 * error
        if loss == "mae":
            losses = np.abs(error)
            slopes = np.sign(error)
        elif loss:  # huber: half squares up to .5, straight lines from there on
            size = np.abs(error)
            losses = np.where(size <= 0.5, size**2 / 2, 0.5 * size - 0.125)
            slopes = np.clip(error, -0.5, 0.5)
        return losses.mean(axis=1), slopes / y.shape[1]

    def gradient(self, vector, rows):
        """Return the sum of the losses of rows, by their weights, and its gradient."""
        hidden, z = self.outputs(vector, rows)
        losses, slopes = self.row_losses(z, rows)
        slopes = slopes * self.counts[rows, None]
        _, _, w2, _ = self.parts(vector)
        _, slope = ACTIVATIONS[self.case.activation]
        below = slopes @ w2 * slope(hidden)
        gradient = [
            below.T @ self.inputs[rows],
            below.sum(0),
            slopes.T @ hidden,
            slopes.sum(0),
        ]
        if self.settings.get("freeze"):
            gradient[:2] = [0 * gradient[0], 0 * gradient[1]]
        return (losses * self.counts[rows]).sum(), np.concatenate(
            [g.ravel() for g in gradient]
        )

    # ---- epochs

    def train(self, epochs: int):
        """Train for so many epochs, or until patience ends; return the parameters."""
        settings = self.settings
        vector = self.start.copy()
        decays = np.concatenate(
            [np.full(part.size, part.ndim == 2) for part in self.parts(vector)]
        )
        if settings.get("freeze"):
            decays[: self.case.hidden * self.x.shape[1]] = False
        moments = [np.zeros_like(vector), np.zeros_like(vector)]
        scales = np.ones(self.x.shape[1])
        moments_of_scales = [np.zeros_like(scales), np.zeros_like(scales)]
        has_scales = "scale_rate" in settings and not settings.get("freeze")
        step = 0
        size = settings["batch_number"]
        for epoch in range(epochs):
            order = self.training[
                shuffled(len(self.training), self.seed, STREAM_SHUFFLE, epoch)
            ]
            loss = 0.0
            for at in range(0, len(order), size):
                rows = order[at : at + size]
                step += 1
                sum_of_losses, gradient = self.gradient(vector, rows)
                loss += sum_of_losses
                gradient = gradient / self.counts[rows].sum()
                rate = self.rate(epoch, at / len(order))
                keep = 1 - rate * settings["weight_decay"] * decays
                if has_scales:  # w = v s, and both v and s learn
                    vector = vector.copy()  # it may be the best so far
                    w1 = self.parts(vector)[0]
                    g1 = self.parts(gradient)[0]
                    w1 /= scales
                    of_scales = (g1 * w1).sum(axis=0)
                    g1 *= scales
                vector = keep * vector - rate * self.step(moments, gradient, step)
                if has_scales:
                    change = self.step(moments_of_scales, of_scales, step)
                    scales = scales - settings["scale_rate"] * rate * change
                    scales = np.maximum(scales, 1 / 64)
                    self.parts(vector)[0][:] *= scales
            self.losses.append(loss / self.counts[self.training].sum())
            if not len(self.judging):
                continue
            self.judge(vector)
            if self.best == epoch:
                self.kept = vector
            if epoch - self.best >= settings.get("patience", math.inf):
                break
        return vector

    def step(self, moments: list, gradient, step: int):
        """Return what a step of the rate 1 takes off the parameters; step: from 1."""
        optimizer = self.settings["optimizer"]
        betas = self.settings.get("betas", BETAS.get(optimizer))
        epsilon = self.settings.get("epsilon", EPSILONS.get(optimizer))
        if optimizer == "sgd":
            moments[0] = self.settings["momentum"] * moments[0] + gradient
            return moments[0]
        if optimizer == "adagrad":
            moments[0] = moments[0] + gradient**2
            return gradient / (np.sqrt(moments[0]) + epsilon)
        if optimizer == "rmsprop":
            moments[0] = betas[0] * moments[0] + (1 - betas[0]) * gradient**2
            return gradient / (np.sqrt(moments[0]) + epsilon)
        moments[0] = betas[0] * moments[0] + (1 - betas[0]) * gradient
        moments[1] = betas[1] * moments[1] + (1 - betas[1]) * gradient**2
        mean = moments[0] / (1 - betas[0] ** step)
        root = np.sqrt(moments[1] / (1 - betas[1] ** step))
        return mean / (root + epsilon)

    def rate(self, epoch: int, done: float) -> float:
        """Return the rate where a share of the epoch is done: between its eighths in a
        straight line."""
        factor = SCHEDULES[self.settings["schedule"]]
        eighths = [factor((epoch + k / 8) / self.settings["epochs"]) for k in range(9)]
        return self.settings["learning_rate"] * np.interp(
            8 * done, np.arange(9), eighths
        )

    def judge(self, vector):
        rows = self.judging
        _, z = self.outputs(vector, rows)
        self.judged.append(
            np.average(self.row_losses(z, rows)[0], weights=self.counts[rows])
        )
        monitor = self.settings.get("monitor")
        self.values.append(self.metric(monitor, z) if monitor else self.judged[-1])

    def metric(self, name: str, z) -> float:
        """Return a metric of the rows that judge, by the weights of rows alone."""
        weights = self.weights[self.judging]
        y = self.y[self.judging]
        if self.case.task in ("two", "three"):
            share = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
            truth = np.arange(3) == y
            said = z.argmax(axis=1)
            if self.case.task == "two":
                share = 1 / (1 + np.exp(-z))
                truth = y
                said = share[:, 0] >= self.settings.get("threshold", 0.5)
            values = said == y[:, 0]
            if name == "brier":
                values = ((share - truth) ** 2).sum(axis=1)
            return np.average(values, weights=weights)
        shift, scale = self.units
        values = np.exp(z) if self.case.task == "counts" else z
        errors = values * scale + shift - y
        known = ~np.isnan(errors)
        by_value = (known * weights[:, None])[known]
        if name == "rmse":
            return math.sqrt(np.average(errors[known] ** 2, weights=by_value))
        return np.average(np.abs(errors[known]), weights=by_value)

    @property
    def best(self) -> int:
        """The first of the best epochs, from 0."""
        is_higher = self.settings.get("monitor") == "accuracy"
        values = [-value if is_higher else value for value in self.values]
        return values.index(min(values))


def plainly_trained(case, ds, seed, start, split):
    """Return (the training that chooses the epoch, the parameters that are kept, the
    losses of the refit)."""
    is_validated = "validation" in case.settings
    judging = split.validation if is_validated else split.holdout
    if case.has_others:
        judging = np.arange(ROWS, ds.rows)
        judging = (
            judging[ds.weights[judging] > 0] if ds.weights is not None else judging
        )
    choosing = Plain(case, ds, seed, start, split.training, judging)
    vector = choosing.train(case.settings["epochs"])
    if not case.settings.get("refit"):
        return choosing, choosing.kept if is_validated else vector, []
    again = Plain(case, ds, seed, start, split.known, split.known[:0])
    vector = again.train(choosing.best + 1)
    return choosing, vector, again.losses


def splits_of(case, ds) -> list:
    """Return the split of each network's rows."""
    ds = ds.of_rows(np.arange(ROWS))
    seed = case.settings.get("split_seed", case.seed)
    validation = case.settings.get("validation", 0.0)
    if case.has_others:
        validation = 0.0
    split = split_rows(ds, case.settings["holdout"], validation, seed)
    if case.way != "folds":
        return [split] * case.settings.get("networks", 1)
    splits = []
    for fold in fold_rows(ds, split.known, 3, seed):
        of_fold = split_rows(ds, 0.0, validation, seed, fold.training)
        splits.append(of_fold._replace(holdout=fold.tested))
    return splits


@pytest.mark.parametrize("number", range(CASES))
def test_a_training_is_the_one_in_plain_numpy(number):
    case = drawn_case(number)
    ds = drawn_data(case)
    layers = f"4,{case.hidden}:{case.activation},{OUTPUTS[case.task]}"
    net = nn.Network(layers, ds.task, seed=case.seed, **case.network)
    settings = dict(case.settings)
    if case.has_others:
        settings["validation"] = ds.of_rows(np.arange(ROWS, ds.rows))
    figures = nn.train(net, ds.of_rows(np.arange(ROWS)), **settings)
    trainings = []
    for place, (member, split) in enumerate(
        zip(net.members, splits_of(case, ds), strict=True)
    ):
        seed = case.seed + place
        start = nn.Network(layers, ds.task, seed=seed, **case.network).vector
        plain, vector, refit = plainly_trained(case, ds, seed, start, split)
        trainings.append(plain)
        if refit and case.way == "one":
            assert figures["refit"]["loss"] == pytest.approx(refit, rel=1e-8)
            assert figures["refit"]["rows"] == len(split.known)
        assert member.history["loss"] == pytest.approx(plain.losses, rel=1e-8)
        assert (member.history["val_loss"] or []) == pytest.approx(
            plain.judged, rel=1e-8
        )
        np.testing.assert_allclose(member.vector, vector, rtol=1e-6, atol=1e-9)
    first = trainings[0]
    split = splits_of(case, ds)[0]
    is_refit = "refit" in case.settings
    rows = split.known if is_refit else split.training
    assert figures["rows"] == len(rows)
    if "validation" in case.settings:
        assert figures["validation"] == len(first.judging)
    # what the network of all reads
    split = splits_of(case._replace(way="one"), ds)[0]
    rows = split.known if is_refit or case.way == "folds" else split.training
    assert figures["holdout"] == len(split.holdout)
    shift, scale = Plain(case, ds, 0, start, rows, rows).constants
    if case.settings["scaling"] != "none":
        np.testing.assert_allclose(net.scaling.shift, shift, rtol=1e-12)
        np.testing.assert_allclose(net.scaling.scale, scale, rtol=1e-12)
    means = {"loss": "losses", "val_loss": "judged"}
    if "validation" in case.settings:
        means["val_metric"] = "values"
        found = [figures] if case.way == "one" else figures["members"]
        best = [plain.best + 1 for plain in trainings]
        assert [one["best_epoch"] for one in found] == best
    longest = max(len(plain.losses) for plain in trainings)
    assert figures["epochs_run"] == longest
    for told, name in means.items():
        each = [lasting(getattr(plain, name), plain, longest) for plain in trainings]
        if all(each):
            assert figures[told] == pytest.approx(np.mean(each, axis=0), rel=1e-8)


def lasting(values: list, plain: Plain, epochs: int) -> list:
    """Return the values of all epochs: a network that has ended counts by that which
    it keeps."""
    if len(values) in (0, epochs):
        return values
    return values + [values[plain.best]] * (epochs - len(values))
