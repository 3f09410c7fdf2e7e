"""The search of --vary and --effort: the worse networks are given up early, and of the
others those are chosen that together do best on rows that they do not know, by a metric
that exists."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from support.figures import log_loss
from support.packs import (
    BEST,
    SEED,
    alone,
    break_some,
    check_alone,
    data,
    network,
    vector,
)

import nn
from nn.core.metrics import metric
from nn.core.thresholds import best_temperature
from nn.nn import Network
from nn.nn_aux import METRICS
from nn.test.out_of_fold import out_of_fold
from nn.train.effort import Effort
from nn.train.options import Monitor
from nn.train.search import (
    PICKS,
    VALIDATION_SHARE,
    SuccessiveHalving,
    choose,
    choose_crossed,
    greedy_selection,
    survivors,
)
from nn.utils import NnError, UsageError
from nn.watch.callbacks import Callback

COUNT = 20
VARY = "learning_rate=1e-4..1e-1,hidden=4|16,dropout=0|0.3"


def together(task="binary", ds=None, networks=COUNT, **flags):
    net = network(task, SEED)
    given = {
        "epochs": 8,
        "validation": 0.3,
        "patience": 3,
        "monitor": BEST[task],
        "vary": VARY,
    }
    return net, nn.train(net, ds or data(task), networks=networks, **{**given, **flags})


class Told(Callback):
    """The losses of the epochs as they are told."""

    def __init__(self):
        self.losses = []

    def epoch(self, epoch, epochs, loss, *_):
        self.losses.append(loss)


def greedy_by_hand(count, picks, value):
    """The networks that are chosen, of those on the way the best; value: of a list of
    their numbers."""
    ways = [[]]
    for _ in range(picks):
        largest = max(range(count), key=lambda number: value([*ways[-1], number]))
        ways.append([*ways[-1], largest])
    return max(ways[1:], key=value)


def mean_of(scores, numbers):
    mean = np.mean([scores[number] for number in numbers], axis=0, dtype=np.float64)
    return mean.astype(np.float32)


def by_status(result, status):
    return [trial for trial in result["trials"] if trial["status"] == status]


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "task, name", [*BEST.items(), ("multiclass", "loss"), ("multiclass", "brier")]
)
def test_the_worst_are_given_up_and_members_are_those_of_a_greedy_selection_by_hand(
    task, name
):
    ds = data(task)
    flags = {"epochs": 8, "validation": 0.3, "patience": 3, "monitor": name}
    told = Told()
    net, result = together(task, ds, monitor=name, callback=told)
    check_alone(task, net, result, **flags)
    nets = [
        alone(task, trial["seed"], trial["settings"], **flags)
        for trial in result["trials"]
    ]
    given_up = [
        number
        for number, trial in enumerate(result["trials"])
        if trial["status"] == "given up"
    ]
    epochs = {result["trials"][number]["epochs"] for number in given_up}
    assert epochs <= {1, 2, 3, 4}
    # by hand: each network alone, compared by its best epoch of the first half
    if METRICS[name].higher_is_better:
        sign = 1
    else:
        sign = -1
    halves = [
        max(sign * value for value in net.history["val_metric"][:4]) for net in nets
    ]
    expected = sorted(
        sorted(range(COUNT), key=lambda number: (-halves[number], number))[COUNT // 2 :]
    )
    assert given_up == expected
    for epoch, loss in enumerate(told.losses):
        there = []
        for number, one in enumerate(nets):
            losses = one.history["loss"][: result["trials"][number]["epochs"]]
            if epoch < len(losses):
                there.append(losses[epoch])
            elif number not in given_up:  # it has stopped, and counts by what it keeps
                values = [sign * value for value in one.history["val_metric"]]
                there.append(losses[int(np.argmax(values))])
        assert loss == pytest.approx(np.mean(there))
    rows = nn.ds.split_rows(ds, 0.2, 0.3, SEED).validation
    left = [own for number, own in enumerate(nets) if number not in given_up]
    scores = [net.predict(ds.x[rows]) for net in left]

    def value(numbers):
        figure = metric(name, task, ds.y[rows], mean_of(scores, numbers))
        return sign * figure

    chosen = greedy_by_hand(len(left), PICKS, value)
    weights = {
        left[number].seed: float(chosen.count(number)) for number in sorted(set(chosen))
    }
    assert {member["seed"]: member["weight"] for member in result["members"]} == weights
    assert net.member_weights == list(weights.values())
    assert result["networks"] == len(weights)
    assert value(chosen) >= max(value([number]) for number in range(len(left)))
    lists = [member.history["loss"][0] for member in net.members]
    expected = np.average(lists, weights=net.member_weights)
    assert result["loss"][0] == pytest.approx(expected)


def test_a_network_whose_loss_is_no_number_fails_and_the_others_go_on(
    monkeypatch, caplog
):
    break_some(monkeypatch, {SEED + 1, SEED + 4})
    net, result = together()
    seeds = [trial["seed"] for trial in by_status(result, "failed")]
    assert seeds == [SEED + 1, SEED + 4]
    assert "network 1, seed 6, is left out: loss is nan" in caplog.text
    assert len(by_status(result, "given up")) == COUNT - 2 - COUNT // 2
    seeds = {member.seed for member in net.members}
    assert not seeds & {SEED + 1, SEED + 4}
    break_some(monkeypatch, set(range(SEED, SEED + COUNT)))
    with pytest.raises(NnError, match="loss is nan"):
        together()


def test_networks_are_chosen_before_their_refit_by_a_share_without_validation_rows():
    """The refit trains on the rows that choose."""
    net, result = together(networks=6)
    again, refitted = together(networks=6, refit=True)
    expected = [member["weight"] for member in refitted["members"]]
    assert [member["weight"] for member in result["members"]] == expected
    assert not np.array_equal(vector(net.members[0]), vector(again.members[0]))
    weights = [member["weight"] for member in result["members"]]
    assert len({*weights}) > 1, "the data should be such that weights differ"
    calibrated, _ = together(networks=6, refit=True, calibrate="temperature")
    ds = data()
    rows = nn.ds.split_rows(ds, 0.2, 0.3, SEED).validation
    temperature = best_temperature(ds.y[rows], net.predict(ds.x[rows]))
    assert calibrated.temperature == pytest.approx(temperature, rel=1e-5)
    flags = {"networks": 4, "vary": "learning_rate=1e-3..1e-1", "epochs": 2}
    net_of_one = network("binary")
    other = network("binary")
    (
        nn.train(net_of_one, data(), **flags),
        nn.train(other, data(), validation=VALIDATION_SHARE, **flags),
    )
    assert net_of_one.metadata() == other.metadata()
    assert np.array_equal(vector(net_of_one), vector(other))


def test_half_are_left_at_each_share_of_the_epochs_while_enough_can_be_chosen():
    left = {64: [32, 16], 20: [10], 41: [21, 11], 19: [10], 18: [], 2: []}
    assert {count: survivors(count) for count in left} == left
    halving = SuccessiveHalving(Monitor("loss"), [8, 16, 5, 1, *[8] * 16])
    assert [halving.epoch_of(n) for n in range(4)] == [4, 8, 3, 1]
    halving = SuccessiveHalving(Monitor("roc_auc"), [8, 16, 5, 1, *[8] * 36])
    assert [halving.epoch_of(n) for n in range(4)] == [2, 4, 2, 1]
    assert halving.waits(0, 2)
    assert not halving.waits(0, 1)
    metrics = {n: [0.01 * n, 0.2, 9.0] for n in range(40)}
    metrics |= {0: [0.2, 0.15], 2: [0.1] * 9, 3: [], 7: [math.nan, math.nan]}
    worse = halving.compare(metrics)
    # 39 to 21 have more than 0.2, and 1 has 9.0 in its first four epochs: these twenty
    # stay
    expected = [0, *[n for n in range(4, 21) if n != 7], 2, 3, 7]
    assert worse == expected
    assert halving.given_up == {*worse}
    assert halving.epoch_of(0) == 4


@pytest.mark.parametrize("name", ["rmse", "r2"])
def test_selection_among_ten_against_brute_force(name):
    rng = np.random.default_rng(3)
    value_of = partial(metric, name, "regression")
    truth = rng.normal(size=(60, 1))
    scores = [
        truth + rng.normal(size=(60, 1)) * rng.uniform(0.5, 2) + rng.normal()
        for _ in range(10)
    ]
    if METRICS[name].higher_is_better:
        sign = 1
    else:
        sign = -1

    def value(numbers):
        total = sum(scores[number] for number in numbers)
        return sign * value_of(truth, total / len(numbers))

    alone = max(value([number]) for number in range(10))
    for picks in (1, 2, 3, 5):
        counts = greedy_selection(
            scores, picks, Monitor(name), partial(value_of, truth)
        )
        chosen = [number for number, count in enumerate(counts) for _ in range(count)]
        assert chosen == sorted(greedy_by_hand(10, picks, value))
        sizes = (
            itertools.combinations_with_replacement(range(10), size)
            for size in range(1, picks + 1)
        )
        best = max(map(value, itertools.chain(*sizes)))
        assert alone <= value(chosen) <= best + 1e-12
        assert picks == 1 or value(chosen) > alone
        # most of what there is to gain
        assert value(chosen) - alone >= (best - alone) / 2


def test_a_network_may_be_chosen_repeatedly_by_means_that_are_the_prediction():
    scores = [np.array([[1.0]]), np.array([[-2.0]])]
    assert greedy_selection(
        scores, 3, Monitor("rmse"), lambda mean: float(np.abs(mean).max())
    ) == [2, 1]
    rng = np.random.default_rng(0)
    seen = []
    scores = [rng.random((5, 3), np.float32) for _ in range(3)]
    greedy_selection(
        scores, 2, Monitor("loss"), lambda mean: seen.append(mean) or float(len(seen))
    )
    expected = [*scores, *(mean_of(scores, [0, number]) for number in range(3))]
    assert all(
        mean.dtype == np.float32 and np.array_equal(mean, own)
        for mean, own in zip(seen, expected, strict=True)
    )


def guesses(rows: int = 60, seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Truth, and scores of networks each of which is good on a part of the rows."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(rows) < 0.4).astype(int)
    parts = np.arange(rows) % 3
    scores = [
        np.clip(
            truth * 0.4 + 0.3 + rng.normal(0, np.where(parts == part, 0.05, 0.3)),
            0.02,
            0.98,
        )[:, None]
        for part in range(3)
    ]
    return truth, scores


@pytest.mark.parametrize("name", ["loss", "accuracy", "roc_auc"])
def test_a_row_of_weight_2_chooses_as_the_row_twice(name):
    truth, scores = guesses()
    weights = np.where(np.arange(60) % 3 == 1, 9, 1)
    twice = np.repeat(np.arange(60), weights)
    monitor = Monitor(name)
    found = choose("binary", monitor, truth, scores, weights)
    repeated = [each[twice] for each in scores]
    assert found == choose("binary", monitor, truth[twice], repeated)
    assert found != choose("binary", monitor, truth, scores)
    if name == "loss":
        # the folds weigh unlike much
        of_row = np.where(np.arange(60) % 3 == 1, 0, 1 + np.arange(60) % 4)
        crossed = choose_crossed("binary", truth, scores, of_row, weights)
        assert crossed == choose_crossed(
            "binary", truth[twice], repeated, of_row[twice]
        )
        assert crossed != choose_crossed("binary", truth, scores, of_row)


def test_a_choice_by_decisions_is_by_the_threshold():
    truth = np.array([0, 0, 0, 1, 1, 1])
    apart_at_a_half = np.array([0.4, 0.4, 0.4, 0.6, 0.6, 0.6])[:, None]
    apart_at_a_fifth = np.array([0.1, 0.1, 0.1, 0.3, 0.3, 0.3])[:, None]
    scores = [apart_at_a_half, apart_at_a_fifth]
    for threshold, best in ((0.5, 0), (0.2, 1)):
        counts = choose("binary", Monitor("f1"), truth, scores, threshold=threshold)
        assert np.argmax(counts) == best


def test_networks_are_chosen_by_decisions_at_the_threshold_that_is_given():
    ds = data()
    flags = {"epochs": 6, "validation": 0.3, "monitor": "f1", "threshold": 0.3}
    vary = "learning_rate=1e-3..1e-1"
    net, result = together("binary", ds, 5, vary=vary, patience=None, **flags)
    trials = result["trials"]
    nets = [
        alone("binary", trial["seed"], trial["settings"], **flags) for trial in trials
    ]
    histories = [one.history["val_metric"] for one in nets]
    assert [trial["score"] for trial in trials] == [*map(max, histories)]
    assert any(values[-1] < max(values) for values in histories)
    rows = nn.ds.split_rows(ds, 0.2, 0.3, SEED).validation
    scores = [one.predict(ds.x[rows]) for one in nets]

    def value(numbers, threshold):
        mean = mean_of(scores, numbers)
        return metric("f1", "binary", ds.y[rows], mean, threshold=threshold)

    chosen = {}
    for threshold in (0.3, 0.5):
        picks = greedy_by_hand(5, PICKS, partial(value, threshold=threshold))
        chosen[threshold] = [float(picks.count(number)) for number in range(5)]
    assert chosen[0.3] != chosen[0.5], "the threshold matters here"
    assert [trial["weight"] for trial in trials] == chosen[0.3]
    assert net.threshold == 0.3


def test_an_estimator_tunes_too():
    pytest.importorskip("sklearn")
    x = np.random.default_rng(0).normal(size=(200, 4))
    vary = "learning_rate=1e-3..1e-1,hidden=4|8"
    estimator = nn.NetworkClassifier(
        networks=6, vary=vary, validation=0.3, epochs=4, batch_size=16
    )
    model = estimator.fit(x, x[:, 0] > 0)
    members = model.network_.members
    assert 1 <= len(members) <= 6
    assert estimator.network_.config["vary"] == vary
    assert estimator.score(x, x[:, 0] > 0) > 0.8


def test_effort_chooses_for_several_classes_what_predicts_best_out_of_fold():
    ds = data("multiclass", 120)
    scores = []
    folds = np.zeros(120, int)

    def train(net, ds, **settings):
        # the first candidate learns nothing
        if scores:
            slowly = {}
        else:
            slowly = {"learning_rate": 1e-9}
        figures = nn.train(net, ds, **{**settings, "epochs": 30, **slowly})
        rows, of_row, outputs = out_of_fold(net, ds)
        assert np.array_equal(rows, np.arange(ds.rows))
        folds[:] = of_row
        scores.append(outputs)
        return figures

    def value(numbers, rows=slice(None)):
        truth = ds.y[rows]
        return -log_loss(truth, mean_of([score[rows] for score in scores], numbers))

    _, result = Effort(ds, "standard", {"epochs": 30}, {"seed": SEED}).run(train)
    chosen = greedy_by_hand(len(scores), PICKS, value)
    counts = [chosen.count(number) for number in sorted({*chosen})]
    assert counts == [candidate["weight"] for candidate in result["chosen"]]
    assert len({*counts}) > 1
    losses = []
    for fold in range(8):  # is predicted with the weights that the others choose
        by_others = greedy_by_hand(
            len(scores), PICKS, partial(value, rows=folds != fold)
        )
        losses.append(-value(by_others, folds == fold))
    mean = np.average(losses, weights=np.bincount(folds))
    assert result["out_of_fold"]["log_loss"] == pytest.approx(mean, rel=1e-6)
    assert mean > -value(chosen)


@pytest.mark.parametrize("networks", [4, 20])
def test_a_metric_that_is_undefined_for_validation_rows_of_one_class_is_told(networks):
    ds = data("binary")
    rows = np.flatnonzero(ds.y == 1)[:30]
    flags = {"validation": ds.of_rows(rows), "epochs": 2, "vary": "epochs=1|2"}
    with pytest.raises(NnError, match="roc_auc is undefined"):
        nn.train(network("binary"), ds, networks=networks, monitor="roc_auc", **flags)


@pytest.mark.parametrize("monitor", ["loss", "brier"])
def test_a_choice_by_probabilities_where_there_are_none_is_refused_before_training(
    monitor,
):
    ds = data("multiclass")
    net = Network("6,4,3:linear", "multiclass", loss="mse")
    flags = {
        "networks": 4,
        "vary": "learning_rate=0.01|0.02",
        "validation": 0.3,
        "epochs": 1,
    }
    with pytest.raises(
        UsageError, match=f"--monitor {monitor}: .*probabilities.*linear"
    ):
        nn.train(net, ds, monitor=monitor, **flags)
    assert nn.train(net, ds, monitor="accuracy", **flags)["networks"]
