"""The folds of a cross-validation keep one epoch, and each is judged at the one that
the others choose."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from support.packs import LAYERS, SEED, data, network, vector

import nn
from nn.core.crossed import are_best, means_of_all, means_of_others, relative
from nn.data.splits import fold_rows
from nn.test.learned import Baseline
from nn.test.out_of_fold import out_of_fold
from nn.train import common_epoch
from nn.train.options import Monitor
from nn.train.rows import Part
from nn.utils import Stopped, StopRequest
from nn.watch.callbacks import Callback

FOLDS = 4
EPOCHS = 12
FLAGS = {"epochs": EPOCHS, "learning_rate": 0.05, "batch_number": 8, "holdout": 0.0}


class StopAfter(Callback):
    """Stops a training after an epoch."""

    def __init__(self, epochs):
        self.epochs = epochs
        self.stop = StopRequest()

    def epoch(self, number, *_):
        if number == self.epochs:
            self.stop.request(15)


def trained_alone(task, ds, number, epochs, backend="omp"):
    """Return the network of a fold, trained alone on its rows and stopped after some
    epochs."""
    rows = np.arange(ds.rows)
    fold = fold_rows(ds, rows, FOLDS, SEED)[number]
    net = network(task, SEED + number, backend)
    stopping = StopAfter(epochs)
    try:
        nn.train(
            net,
            ds,
            rows=fold.training,
            split_seed=SEED,
            callback=stopping,
            stop=stopping.stop,
            **FLAGS,
        )
    except Stopped:
        assert epochs < EPOCHS
    return net, fold


def losses_alone(task, ds):
    """Return (losses (epochs, folds) of each fold's rows by the network trained alone
    that long, its predictions)."""
    losses = np.empty((EPOCHS, FOLDS))
    scores = {}
    for number in range(FOLDS):
        for epoch in range(EPOCHS):
            net, fold = trained_alone(task, ds, number, epoch + 1)
            predictions = net.predict(ds.x[fold.tested])
            scores[epoch, number] = predictions
            losses[epoch, number] = loss_of(
                task, ds, fold, net, predictions
            ) / baseline_of(task, ds, fold, net)
    return losses, scores


def loss_of(task, ds, fold, net, scores):
    y = ds.y[fold.tested]
    if task == "regression":
        return (((scores - y) / net.target_scaling.scale) ** 2).mean()
    if task == "binary":
        scores = np.hstack([1 - scores, scores])
    indices = np.arange(len(y))
    logarithms = np.log(scores[indices, y])
    return -logarithms.mean()


def baseline_of(task, ds, fold, net):
    """Return the loss of the class shares, or of the mean, of the rows that the fold's
    network is trained on."""
    if task == "regression":
        mean = ds.y[fold.training].mean(axis=0, dtype=np.float64)
        constant = np.broadcast_to(mean, ds.y[fold.tested].shape)
    else:
        counts = np.bincount(ds.y[fold.training])
        shares = counts / len(fold.training)
        constant = np.tile(
            shares if task == "multiclass" else shares[1:], (len(fold.tested), 1)
        )
    return loss_of(task, ds, fold, net, constant)


@pytest.mark.usual(1)
@pytest.mark.parametrize("task", LAYERS)
def test_the_common_epoch_and_those_that_judge_are_those_of_networks_trained_alone(
    task,
):
    ds = data(task, 122, 5)
    net = network(task)
    figures = nn.train(net, ds, folds=FOLDS, validation="fold", **FLAGS)
    losses, scores = losses_alone(task, ds)
    rows = np.arange(ds.rows)
    sizes = [len(fold.tested) for fold in fold_rows(ds, rows, FOLDS, SEED)]
    mean = np.average(losses, axis=1, weights=sizes)
    common = 1 + int(np.argmin(mean))
    best_epochs = [member["best_epoch"] for member in figures["members"]]
    assert best_epochs == [common] * FOLDS
    assert 1 < common < EPOCHS
    of_rows = out_of_fold(net, ds)
    crossed_epochs = []
    for number, member in enumerate(net.members):
        expected = vector(trained_alone(task, ds, number, common)[0])
        assert np.array_equal(vector(member), expected)
        other_folds = [fold for fold in range(FOLDS) if fold != number]
        weights = [sizes[fold] for fold in other_folds]
        by_others = np.average(losses[:, other_folds], axis=1, weights=weights)
        crossed_epochs.append(int(np.argmin(by_others)))
        judged = of_rows[2][of_rows[1] == number]
        expected = scores[crossed_epochs[-1], number]
        assert np.array_equal(judged, expected)
    assert len({*crossed_epochs, *np.argmin(losses, axis=0)}) > 1, (
        "the data should be such that folds disagree"
    )
    assert figures["folds"][0]["rows"] == sizes[0]


@pytest.mark.parametrize("monitor", ["brier", "accuracy"])
def test_folds_choose_by_the_weights_of_their_rows(monitor):
    rows = np.arange(122)
    folds = fold_rows(data("binary", 122, 6), rows, FOLDS, SEED)
    weights = np.ones(122)
    weights[folds[2].tested] = 8.0
    ds = data("binary", 122, 6, weights=weights)
    net = network("binary")
    nn.train(net, ds, folds=FOLDS, validation="fold", monitor=monitor, **FLAGS)
    metrics = np.array([member.history["val_metric"] for member in net.members])
    best = np.argmax if monitor == "accuracy" else np.argmin
    of_folds = np.array([weights[fold.tested].sum() for fold in folds])
    sizes = [len(fold.tested) for fold in folds]
    common = best(np.average(metrics, axis=0, weights=of_folds))
    by_rows = best(np.average(metrics, axis=0, weights=sizes))
    assert common != by_rows, "the data should be such that weights matter"
    of_rows = out_of_fold(net, ds)
    for number, member in enumerate(net.members):
        kept, fold = trained_alone("binary", ds, number, common + 1)
        assert np.array_equal(vector(member), vector(kept))
        others = [k for k in range(FOLDS) if k != number]
        judging = best(np.average(metrics[others], axis=0, weights=of_folds[others]))
        judge, _ = trained_alone("binary", ds, number, judging + 1)
        judged = of_rows[2][of_rows[1] == number]
        assert np.array_equal(judged, judge.predict(ds.x[fold.tested]))


def test_scores_of_folds_are_in_the_units_of_the_targets():
    ds = data("regression", 122, 5)
    net = network("regression")
    nn.train(net, ds, folds=FOLDS, validation="fold", **FLAGS)
    rows, _, scores = out_of_fold(net, ds)
    errors = ds.y[rows] - scores
    assert (np.abs(scores.mean(axis=0) - ds.y.mean(axis=0)) < ds.y.std(axis=0)).all()
    assert (errors.std(axis=0) < 1.2 * ds.y.std(axis=0)).all()
    assert net.crossed.scores[:, 0].mean() == pytest.approx(50, abs=5)


def test_patience_waits_by_the_mean_and_all_folds_run_as_long():
    ds = data("binary", 202)
    net = network("binary")
    figures = nn.train(
        net,
        ds,
        folds=FOLDS,
        validation="fold",
        **{**FLAGS, "epochs": 40, "patience": 3},
    )
    lengths = {len(member.history["loss"]) for member in net.members}
    (common,) = {member["best_epoch"] for member in figures["members"]}
    assert lengths == {common + 3}
    assert common + 3 < 40


def test_a_fold_in_time_that_has_ended_counts_by_the_epoch_that_it_keeps():
    """The first of three folds has ended: it keeps its second epoch."""
    metrics = [[3.0, 1.0, 4.0], [9.0, 8.5, 7.0, 6.5], [5.0, 4.0, 3.0, 2.0]]
    members = [
        SimpleNamespace(
            at=SimpleNamespace(val_metrics=values, epoch=len(values)),
            monitor=Monitor("rmse"),
            number=number,
            best_epoch=lambda values=values: 1 + int(np.argmin(values)),
            rows=SimpleNamespace(judging=Part(None, np.arange(4), None)),
        )
        for number, values in enumerate(metrics)
    ]
    epochs = common_epoch.FoldEpochs(members, are_own=True)
    # the others' means: (3 + 9) / 2, (1 + 8.5) / 2, (4 + 7) / 2, then (1 + 6.5) / 2
    assert epochs.is_judged_now(members[2])
    assert epochs.values(members[1]) == metrics[1]
    members[1].at.val_metrics = [9.0, 8.5, 7.0, 8.6]
    later = common_epoch.FoldEpochs(members, are_own=True)
    assert not later.is_judged_now(members[2]), "(1 + 8.6) / 2"


def test_losses_of_folds_are_parts_of_what_their_training_rows_tell():
    """The constant that is best for a fold's own rows is another one."""
    losses = [[3.0, 1.0], [9.0, 8.0], [5.0, 6.0]]
    baselines = [Baseline(2.0, 1.0), Baseline(4.0, 0.5), Baseline(5.0, 4.0)]
    members = [
        SimpleNamespace(
            at=SimpleNamespace(val_metrics=values, epoch=2),
            monitor=Monitor("loss"),
            number=number,
            baseline=baseline,
            rows=SimpleNamespace(judging=Part(None, np.arange(4 + number), None)),
        )
        for number, (values, baseline) in enumerate(zip(losses, baselines, strict=True))
    ]
    epochs = common_epoch.FoldEpochs(members, are_own=False)
    parts = np.transpose(losses) / [2.0, 4.0, 5.0]
    expected = np.average(parts, axis=1, weights=[4, 5, 6])
    assert epochs.values(members[1]) == pytest.approx(expected)


def test_what_the_others_find_is_computed_once_an_epoch(monkeypatch):
    computed = []

    def counted(values, weights):
        computed.append(len(values))
        return means_of_others(values, weights)

    monkeypatch.setattr(common_epoch, "means_of_others", counted)
    ds = data("binary", 202)
    nn.train(network("binary"), ds, folds=FOLDS, validation="fold", **FLAGS)
    of_epochs = computed[:EPOCHS]
    assert of_epochs == [*range(1, EPOCHS + 1)]
    # at the end once for each fold: whether it was ever judged
    assert computed[EPOCHS:] == [EPOCHS] * FOLDS


def test_folds_in_time_keep_epochs_of_their_own_and_are_judged_by_the_others():
    ds = data("binary", 300, times=np.arange(300.0))
    net = network("binary")
    figures = nn.train(
        net, ds, folds=FOLDS, validation="fold", **{**FLAGS, "patience": 2}
    )
    for number, member in enumerate(net.members):
        losses = member.history["val_metric"]
        best = int(np.argmin(losses)) + 1
        assert figures["members"][number]["best_epoch"] == best
        assert len(losses) == min(best + 2, EPOCHS)
    best_epochs = {member["best_epoch"] for member in figures["members"]}
    assert len(best_epochs) > 1
    rows, of_row, scores = out_of_fold(net, ds)
    kept = [
        member.predict(ds.x[rows[of_row == number]])
        for number, member in enumerate(net.members)
    ]
    assert any(
        not np.array_equal(scores[of_row == number], own)
        for number, own in enumerate(kept)
    )


def test_plain_folds_keep_their_last_epoch_and_are_judged_by_it():
    ds = data("binary", 202)
    net = network("binary")
    nn.train(net, ds, folds=FOLDS, **FLAGS)
    rows, of_row, scores = out_of_fold(net, ds)
    for number, member in enumerate(net.members):
        expected = vector(trained_alone("binary", ds, number, EPOCHS)[0])
        assert np.array_equal(vector(member), expected)
        expected = member.predict(ds.x[rows[of_row == number]])
        assert np.array_equal(scores[of_row == number], expected)


def test_a_fold_whose_metric_is_undefined_does_not_count():
    ds = data("binary", 210, groups=np.arange(210) // 70)
    ds.y[:70] = 0  # no ROC-AUC
    net = network("binary")
    figures = nn.train(net, ds, folds=3, validation="fold", monitor="roc_auc", **FLAGS)
    areas = [member.history["val_metric"] for member in net.members]
    assert sorted(area == [None] * EPOCHS for area in areas) == [False, False, True]
    defined = [area for area in areas if None not in area]
    mean = np.mean(defined, axis=0)
    common = 1 + int(np.argmax(mean))
    best_epochs = [member["best_epoch"] for member in figures["members"]]
    assert best_epochs == [common] * 3
    _rows, _of_row, _scores = out_of_fold(net, ds)
    of_undefined = areas.index([None] * EPOCHS)
    # the only other fold whose metric is defined chooses
    for number in {0, 1, 2} - {of_undefined}:
        (other,) = {0, 1, 2} - {of_undefined, number}
        expected = areas[number][int(np.argmax(areas[other]))]
        roc_auc = figures["folds"][number]["roc_auc"]
        assert roc_auc == pytest.approx(expected)


def test_folds_that_nobody_else_can_judge_are_judged_as_they_are():
    ds = data("multiclass", 120)
    # no probabilities
    net = nn.Network(
        "6,8:tanh,3:tanh", "multiclass", seed=SEED, loss="mse", backend="omp"
    )
    nn.train(net, ds, folds=2, validation="fold", monitor="brier", **FLAGS)
    rows, of_row, scores = out_of_fold(net, ds)
    for number, member in enumerate(net.members):
        assert member.history["val_metric"] == [None] * EPOCHS
        expected = member.predict(ds.x[rows[of_row == number]])
        assert np.array_equal(scores[of_row == number], expected)


# ---- by arrays


def test_means_of_all_and_of_others_leave_out_what_is_undefined():
    values = np.array([[1.0, 2.0, np.nan], [np.nan, np.nan, 4.0], [3.0, 5.0, 7.0]])
    weights = np.array([1.0, 3.0, 4.0])
    assert means_of_all(values, weights) == pytest.approx(
        [7 / 4, 4.0, (3 + 15 + 28) / 8]
    )
    other_means = means_of_others(values, weights)
    expected = [
        [2.0, 1.0, 7 / 4],
        [4.0, 4.0, math.nan],
        [(15 + 28) / 7, (3 + 28) / 5, 18 / 4],
    ]
    np.testing.assert_allclose(other_means, expected)


def test_the_mean_of_others_does_not_depend_on_the_own_value():
    rng = np.random.default_rng(0)
    values = rng.random((9, 5))
    weights = rng.random(5)
    changed = values.copy()
    changed[:, 2] = 1e300
    assert np.array_equal(
        means_of_others(values, weights)[:, 2], means_of_others(changed, weights)[:, 2]
    )


def test_the_last_epoch_is_best_only_where_it_is_better_and_defined():
    means = np.array(
        [[1.0, math.nan, 2.0, 1.0, math.nan], [1.0, 5.0, 1.0, math.nan, math.nan]]
    )
    assert are_best(means, higher_is_better=False).tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert are_best(-means, higher_is_better=True).tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert are_best(means[:1], higher_is_better=False).tolist() == [
        True,
        False,
        True,
        True,
        False,
    ]


def test_losses_are_parts_of_baselines_that_are_there():
    baselines = np.array([2.0, 0.0, math.nan, math.inf])
    losses = np.array([[1.0, 2.0, 3.0, 4.0]])
    shares = relative(losses, baselines)
    assert shares[0, 0] == 0.5
    assert np.isnan(shares[0, 1:]).all()
