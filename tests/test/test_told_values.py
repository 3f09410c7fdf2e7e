"""What `compare`, `importance` and `explain` tell, computed another way: scikit-learn,
and loops over the rows."""

import functools
import itertools
import operator
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics
from support.figures import placements_by_hand

import nn
from nn.core.bootstrap import Sampling, in_each_resample
from nn.data.dataset import as_read_by
from nn.nn.crossed import Crossed
from nn.test import importance as of_importance
from nn.test import shapley
from nn.test.compare import Side, _disagree, compared, compared_sides
from nn.test.importance import curves, importance
from nn.test.out_of_fold import out_of_fold
from nn.test.reports import figures_by_target
from nn.test.shapley import explain
from nn.test.trained_rows import Trained

NAMES = ("a", "b")


def rows_of_two_classes(weighted: bool, rows: int = 150):
    rng = np.random.default_rng(11)
    # sums of them are exact, so that ties are ties everywhere
    draws = rng.normal(size=(rows, 3))
    x = np.round(8 * draws) / 8
    draws = rng.normal(size=rows)
    y = (x[:, 0] - x[:, 1] + draws > 0.4).astype(int)
    return nn.Dataset(
        x,
        y,
        "binary",
        ["0", "1"],
        weights=rng.integers(0, 9, rows) / 4 if weighted else None,
    )


def linear(weights, bias=0.0, task="binary", **facts):
    net = nn.Network(f"{len(weights)},1", task, dtype="float64")
    net.set_parameters({"layer0.weight": [weights], "layer0.bias": [bias]})
    net.facts = replace(net.facts, **facts)
    return net


def figures_of_scikit_learn(net, ds) -> dict:
    predictions = net.predict(ds.x)
    scores = predictions[:, 0]
    truth = ds.y
    w = ds.weights
    said = scores >= net.threshold
    return {
        "precision": metrics.precision_score(truth, said, sample_weight=w),
        "recall": metrics.recall_score(truth, said, sample_weight=w),
        "f1": metrics.f1_score(truth, said, sample_weight=w),
        "accuracy": metrics.accuracy_score(truth, said, sample_weight=w),
        "mcc": metrics.matthews_corrcoef(truth, said, sample_weight=w),
        "roc_auc": metrics.roc_auc_score(truth, scores, sample_weight=w),
        "pr_auc": metrics.average_precision_score(truth, scores, sample_weight=w),
        "log_loss": metrics.log_loss(truth, scores, sample_weight=w),
        "brier": metrics.brier_score_loss(truth, scores, sample_weight=w),
    }


@pytest.mark.parametrize("weighted", [False, True])
def test_two_models_have_scikit_learns_figures_each_at_its_own_threshold(weighted):
    ds = rows_of_two_classes(weighted)
    nets = (
        linear([0.2, 0.1, 1.0], threshold=0.3),
        linear([1.0, -1.0, 0.0], -0.4, threshold=0.6),
    )
    comparison = compared([Side.of(net, ds) for net in nets], NAMES)
    figures_of_a = figures_of_scikit_learn(nets[0], ds)
    figures_of_b = figures_of_scikit_learn(nets[1], ds)
    assert comparison["metrics"].keys() == figures_of_a.keys()
    assert comparison["rows"] == 150
    assert comparison["models"] == ["a", "b"]
    for name, told in comparison["metrics"].items():
        expected = [figures_of_a[name], figures_of_b[name]]
        assert [told["a"], told["b"]] == pytest.approx(expected, rel=1e-9), name
        expected = figures_of_b[name] - figures_of_a[name]
        assert told["difference"] == pytest.approx(expected, rel=1e-9), name
    losses = [f"{each['log_loss']:.4g}" for each in (figures_of_b, figures_of_a)]
    assert (
        comparison["verdict"]
        == f"b is better than a: log loss {losses[0]} beside {losses[1]}"
    )
    assert comparison["metric"] == "log_loss"
    assert comparison["better"] == "b"


@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_a_difference_is_of_the_same_rows_drawn_for_both(weighted):
    ds = rows_of_two_classes(weighted)
    nets = linear([0.2, 0.1, 1.0]), linear([1.0, -1.0, 0.0], -0.4)
    metrics_of_models = compared([Side.of(net, ds) for net in nets], NAMES, seed=3)[
        "metrics"
    ]
    scores = [net.predict(ds.x)[:, 0] for net in nets]
    if ds.weights is None:
        w = np.ones(150)
    else:
        w = ds.weights
    losses = [-np.log(np.where(ds.y == 1, score, 1 - score)) for score in scores]
    draws = np.stack(in_each_resample(lambda times: times * w, Sampling(150), None, 3))
    for name, (one, other) in {
        "log_loss": losses,
        "brier": [(score - ds.y) ** 2 for score in scores],
        "accuracy": [((score >= 0.5) == ds.y).astype(float) for score in scores],
    }.items():
        total = draws.sum(axis=1)
        differences = draws @ (other - one) / total
        expected = np.quantile(differences, [0.025, 0.975])
        interval = metrics_of_models[name]["interval"]
        assert interval == pytest.approx(expected, rel=1e-6), name


def test_regressions_are_compared_by_scikit_learns_figures_with_weights():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 2))
    weights = rng.integers(1, 9, 80) / 4
    draws = rng.normal(size=80)
    y = x @ [1.0, 2.0] + draws
    ds = nn.Dataset(x, y, "regression", weights=weights)
    nets = (
        linear([1.0, 2.0], task="regression"),
        linear([0.0, 2.0], 0.5, task="regression"),
    )
    comparison = compared([Side.of(net, ds) for net in nets], NAMES)
    for name, net in zip(NAMES, nets, strict=True):
        predicted = net.predict(x)[:, 0]
        mse = metrics.mean_squared_error(y, predicted, sample_weight=weights)
        figures = {key: own[name] for key, own in comparison["metrics"].items()}
        expected = {
            "mse": mse,
            "rmse": mse**0.5,
            "r2": metrics.r2_score(y, predicted, sample_weight=weights),
            "mae": metrics.mean_absolute_error(y, predicted, sample_weight=weights),
        }
        assert figures == pytest.approx(expected)
    assert comparison["better"] == "a"
    assert comparison["metric"] == "rmse"
    rmse = [f"{comparison['metrics']['rmse'][name]:.4g}" for name in NAMES]
    assert (
        comparison["verdict"] == f"a is better than b: RMSE {rmse[0]} beside {rmse[1]}"
    )


def test_rows_on_which_models_differ_most_are_the_five_largest_distances_with_scores():
    ds = rows_of_two_classes(False)
    ds = nn.Dataset(ds.x, ds.y, "binary", ["no", "yes"])
    nets = linear([0.2, 0.1, 1.0]), linear([1.0, -1.0, 0.0], -0.4)
    for net in nets:
        net.classes = ["no", "yes"]
    differing_rows = compared([Side.of(net, ds) for net in nets], NAMES)["disagree"]
    predictions = nets[0].predict(ds.x)
    scores_of_a = predictions[:, 0]
    predictions = nets[1].predict(ds.x)
    other = predictions[:, 0]
    order = sorted(range(150), key=lambda k: -abs(scores_of_a[k] - other[k]))[:5]
    expected = [
        {
            "row": k,
            "true": ["no", "yes"][ds.y[k]],
            "a": [scores_of_a[k]],
            "b": [other[k]],
        }
        for k in order
    ]
    assert differing_rows == expected
    three = (
        nn.Network("3,3", "multiclass", dtype="float64", seed=1),
        nn.Network("3,3", "multiclass", dtype="float64"),
    )
    ds = nn.Dataset(ds.x[:20], np.arange(20) % 3, "multiclass", ["a", "b", "c"])
    predictions = three[0].predict(ds.x)
    distances = np.abs(predictions - three[1].predict(ds.x))
    apart = distances.max(axis=1)
    disagree = compared([Side.of(net, ds) for net in three], NAMES)["disagree"]
    rows = [row["row"] for row in disagree]
    expected = np.argsort(-apart)[:5].tolist()
    assert rows == expected
    # of a part, by their numbers in the data
    part = ds.of_rows(np.arange(1, 20, 2))
    disagree = compared([Side.of(net, part) for net in three], NAMES)["disagree"]
    expected = [row for row in np.argsort(-apart).tolist() if row % 2][:5]
    assert [row["row"] for row in disagree] == expected


def test_the_distance_of_two_models_is_that_of_the_output_in_which_they_differ_most():
    net = nn.Network("1,3", "multiclass")
    one = np.zeros((7, 3))
    other = np.array(
        [
            [0.5, 0, 0],
            [0.3, 0.3, 0.3],
            [0, 0, 0],
            [0, -0.6, 0],
            [0.1, 0, 0],
            [0, 0, 0.2],
            [0, 0.05, 0],
        ]
    )
    truth = np.zeros(7, int)
    numbers = 10 * np.arange(7)
    differing_rows = _disagree(net, truth, [one, other], NAMES, numbers)
    assert [row["row"] for row in differing_rows] == [30, 0, 10, 50, 40]
    assert differing_rows[2]["b"] == [0.3, 0.3, 0.3]
    differing_rows = _disagree(net, truth[:3], [one[:3], other[:3]], NAMES, numbers)
    assert [row["row"] for row in differing_rows] == [0, 10]


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "counts, told, knowing",
    [
        (
            (3, 7),
            7,
            "a was trained on 3 of these 10 rows and b was trained on 7 of these 10 rows",
        ),
        ((7, 0), 7, "a was trained on 7 of these 10 rows"),
        ((0, 2), 2, "b was trained on 2 of these 10 rows"),
        ((None, 0), 0, None),
        ((None, None), None, None),
    ],
)
def test_the_larger_number_of_trained_rows_is_told_and_either_spoils_the_verdict(
    counts, told, knowing
):
    x = np.arange(10.0).reshape(-1, 1)
    ds = nn.Dataset(x, x[:, 0], "regression")
    nets = linear([1.0], 0.1, task="regression"), linear([1.0], 5.0, task="regression")
    sides = [
        Side(net, ds, None, Trained(10, count))
        for net, count in zip(nets, counts, strict=True)
    ]
    comparison = compared_sides(sides, NAMES)
    assert comparison["trained_rows"] == told
    if knowing is None:
        assert comparison["better"] == "a"
    else:
        assert comparison["better"] is None
        assert (
            comparison["verdict"]
            == f"no verdict: {knowing}; give rows that neither knows with --dataset"
        )


@pytest.mark.parametrize("rows", [9, 10])
def test_an_interval_and_a_verdict_begin_at_ten_rows(rows):
    indices = np.arange(rows, dtype=float)
    x = indices.reshape(-1, 1)
    indices = np.arange(rows)
    ds = nn.Dataset(x, x[:, 0] + 0.1 * (-1) ** indices, "regression")
    nets = linear([1.0], task="regression"), linear([1.0], 5.0, task="regression")
    comparison = compared([Side.of(net, ds) for net in nets], NAMES)
    has_interval = comparison["metrics"]["rmse"]["interval"] is not None
    if rows == 9:
        assert has_interval is False
        assert comparison["better"] is None
        assert comparison["verdict"] == "9 rows are too few to tell a and b apart"
    else:
        assert has_interval is True
        assert comparison["better"] == "a"


def test_models_with_folds_are_compared_by_their_thresholds_and_areas_within_folds():
    rng = np.random.default_rng(8)
    ds = rows_of_two_classes(False, 90)
    of_row = np.arange(90) % 3
    nets = []
    expected = []
    for number, cuts in enumerate(([0.3, 0.5, 0.7], [0.6, 0.4, 0.5])):
        draws = rng.integers(1, 20, 90)
        kept = (draws[:, None] / 20).astype(np.float32)  # as a model keeps them
        net = linear([1.0, 0.0, 0.0])
        crossed = Crossed.of(90, np.arange(90), of_row, kept, 3)
        temperatures = [0.5, 2.0, 3.0 + number]
        net.crossed = replace(crossed, temperatures=temperatures, thresholds=cuts)
        shares = kept[:, 0].astype(np.float64)
        logarithms = np.log(shares / (1 - shares))
        logits = logarithms / np.array(temperatures)[of_row]
        rounded = (1 / (1 + np.exp(-logits))).astype(np.float32)
        scores = rounded.astype(np.float64)
        nets.append(net)
        places = placements_by_hand(ds.y, kept[:, 0], of_row)
        expected.append(
            {
                "roc_auc": metrics.roc_auc_score(ds.y, places),
                "pr_auc": metrics.average_precision_score(ds.y, places),
                "log_loss": metrics.log_loss(ds.y, scores),
                "f1": metrics.f1_score(ds.y, scores >= np.array(cuts)[of_row]),
            }
        )
    sides = [Side.of(net, ds, out_of_fold(net, ds)) for net in nets]
    comparison = compared_sides(sides, NAMES)
    for name in expected[0]:
        figures = comparison["metrics"][name]
        assert [figures["a"], figures["b"]] == pytest.approx(
            [row[name] for row in expected], rel=1e-9
        ), name
    some = np.arange(0, 90, 2)
    only = Side.of(nets[0], ds, out_of_fold(nets[0], ds)).only(some)
    assert only.crossed.fold_of_row.tolist() == of_row[some].tolist()
    threshold_of_row = only.crossed.threshold_of_row.tolist()
    assert threshold_of_row == np.array([0.3, 0.5, 0.7])[of_row[some]].tolist()


# ---------------------------------------------------------------- importance


def importance_by_loop(score, ds, columns: dict, repeats: int, seed: int) -> dict:
    """Return what `score` (of inputs) loses where a column's values are exchanged among
    the rows that count."""
    if ds.weights is None:
        counts = np.ones(len(ds.x), bool)
    else:
        counts = ds.weights > 0
    lost = {name: [] for name in columns}
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        draws = rng.choice(counts.sum(), counts.sum(), replace=False)
        chosen = np.flatnonzero(counts)[draws]
        for name, places in columns.items():
            donors = rng.permutation(chosen)
            x = ds.x.copy()
            for row, donor in zip(chosen, donors, strict=True):
                x[row, places] = ds.x[donor, places]
            lost[name].append(score(ds.x) - score(x))
    return {name: np.mean(each) for name, each in lost.items()}


@pytest.mark.usual(2)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric_name", ["roc_auc", "log_loss", "f1"])
def test_importance_is_what_scikit_learns_metric_loses_by_the_same_exchanges(
    metric_name, weighted
):
    ds = rows_of_two_classes(weighted)
    net = linear([1.0, -1.5, 0.25], -0.25, columns=["u", "v", "w"], threshold=0.35)
    signs = {"log_loss": -1}

    def score(x) -> float:
        changed = nn.Dataset(x, ds.y, "binary", ["0", "1"], weights=ds.weights)
        return (
            signs.get(metric_name, 1)
            * figures_of_scikit_learn(net, changed)[metric_name]
        )

    importances = importance(
        net, ds, metric_name=metric_name, repeats=3, seed=4, group_columns="u+w"
    )
    columns = {"u": [0], "v": [1], "w": [2], "u+w": [0, 2]}
    expected = importance_by_loop(score, ds, columns, 3, 4)
    assert dict(zip(importances.names, importances.mean, strict=True)) == pytest.approx(
        expected, rel=1e-6
    )
    assert importances.mean == sorted(importances.mean, reverse=True)
    if ds.weights is None:
        assert importances.rows == 150
    else:
        assert importances.rows == np.count_nonzero(ds.weights)
        assert importances.rows > 100
    assert importances.baseline == pytest.approx(
        figures_of_scikit_learn(net, ds)[metric_name], rel=1e-6
    )


@pytest.mark.parametrize(
    "weighted, units, drawn",
    [
        (False, 60, {}),
        (True, 60, {}),
        (False, 6, {"groups": np.arange(60) % 6}),
        (True, 15, {"times": np.arange(60.0)}),
    ],
)
def test_the_ends_of_importance_lie_by_students_quantile_of_resamples(
    weighted, units, drawn
):
    """The degrees of freedom are one less than what a resample draws: rows, groups, or
    blocks of four of a series."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = x @ [1.0, 0.3] + rng.normal(size=60)
    if weighted:
        weights = rng.integers(1, 9, 60) / 4
    else:
        weights = None
    ds = nn.Dataset(x, y, "regression", weights=weights, **drawn)
    net = linear([1.0, 0.3], task="regression")
    if weights is None:
        w = np.ones(60)
    else:
        w = weights
    importances = importance(net, ds, metric_name="mse", repeats=2, seed=1)
    sampling = Sampling(60, **drawn)
    draws = np.stack(in_each_resample(lambda times: times * w, sampling, None, 0, 100))
    lost = {name: [] for name in "01"}
    for repeat in range(2):
        random = np.random.default_rng([1, repeat])
        chosen = random.choice(60, 60, replace=False)
        for column in (0, 1):
            changed = x.copy()
            order = random.permutation(chosen)
            changed[chosen, column] = x[order, column]
            gain = (changed @ [1.0, 0.3] - y) ** 2 - (x @ [1.0, 0.3] - y) ** 2
            total = draws.sum(axis=1)
            lost[str(column)].append(draws @ gain / total)
    for name, mean, low, high, holds in zip(
        importances.names,
        importances.mean,
        importances.low,
        importances.high,
        importances.holds,
        strict=True,
    ):
        deviation = np.mean(lost[name], axis=0).std(ddof=1)
        wide = stats.t.ppf(0.975, units - 1) * deviation
        expected = [mean - wide, mean + wide]
        assert [low, high] == pytest.approx(expected, abs=1e-3 * wide)
        assert holds == (mean > stats.t.ppf(1 - 0.05 / 4, units - 1) * deviation)


@pytest.mark.parametrize(
    "rows, repeats, taken", [(60, 2, 50), (60, 5, 50), (300, 2, 60), (40, 2, 40)]
)
def test_a_repeat_takes_a_fifth_of_many_rows_but_all_of_few_each_drawn_once(
    rows, repeats, taken, monkeypatch
):
    monkeypatch.setattr(of_importance, "ALL_ROWS", 50)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 2))
    draws = rng.normal(size=rows)
    y = x @ [1.0, 0.3] + draws
    importances = importance(
        linear([1.0, 0.3], task="regression"),
        nn.Dataset(x, y, "regression"),
        metric_name="mse",
        repeats=repeats,
        seed=1,
    )
    lost = np.empty((repeats, 2))
    for repeat in range(repeats):
        random = np.random.default_rng([1, repeat])
        chosen = random.choice(rows, taken, replace=False)
        for column in (0, 1):
            changed = x.copy()
            order = random.permutation(chosen)
            changed[chosen, column] = x[order, column]
            errors = [
                ((array @ [1.0, 0.3] - y)[chosen] ** 2).mean() for array in (changed, x)
            ]
            lost[repeat, column] = errors[0] - errors[1]
    mean = lost.mean(axis=0)
    expected = dict(zip("01", mean, strict=True))
    assert dict(zip(importances.names, importances.mean, strict=True)) == pytest.approx(
        expected, rel=1e-5
    )
    expected = ((x @ [1.0, 0.3] - y) ** 2).mean()
    assert importances.baseline == pytest.approx(expected, rel=1e-6)
    assert importances.rows == rows


@pytest.mark.parametrize("most", [4000, 50])
def test_importance_with_folds_exchanges_rows_within_folds_of_their_own_networks(
    most, monkeypatch
):
    monkeypatch.setattr(of_importance, "ALL_ROWS", most)
    rng = np.random.default_rng(5)
    x = rng.normal(size=(90, 2))
    draws = rng.normal(size=90)
    y = x @ [1.0, 0.3] + draws
    weights = rng.integers(0, 9, 90) / 4
    nets = [linear(own, task="regression") for own in ([1.0, 0.0], [0.5, 1.0])]
    # those of the last third are not judged
    indices = np.arange(1, 90, 3)
    rows = [indices, np.arange(0, 90, 3)]
    parts = [(own, [(net, 1.0)]) for own, net in zip(rows, nets, strict=True)]
    importances = importance(
        nets[0],
        nn.Dataset(x, y, "regression", weights=weights),
        metric_name="mse",
        repeats=2,
        seed=1,
        parts=parts,
    )
    counting = [row[weights[row] > 0] for row in rows]
    ways = np.array([[1.0, 0.0], [0.5, 1.0]])
    lost = np.empty((2, 2))
    for repeat in range(2):
        random = np.random.default_rng([1, repeat])
        chosen = [
            own[random.choice(len(own), min(len(own), most // 2), replace=False)]
            for own in counting
        ]
        judged = np.concatenate(chosen)
        way = np.repeat([0, 1], [len(rows) for rows in chosen])
        for column in (0, 1):
            changed = x.copy()
            for fold_rows in chosen:
                order = random.permutation(fold_rows)
                changed[fold_rows, column] = x[order, column]
            squares = [
                ((array[judged] * ways[way]).sum(axis=1) - y[judged]) ** 2
                for array in (changed, x)
            ]
            lost[repeat, column] = np.average(
                squares[0] - squares[1], weights=weights[judged]
            )
    mean = lost.mean(axis=0)
    expected = dict(zip("01", mean, strict=True))
    assert dict(zip(importances.names, importances.mean, strict=True)) == pytest.approx(
        expected, rel=1e-5
    )
    judged = np.concatenate(counting)
    way = np.repeat([0, 1], [len(own) for own in counting])
    total = (x[judged] * ways[way]).sum(axis=1)
    squares = (total - y[judged]) ** 2
    expected = np.average(squares, weights=weights[judged])
    assert importances.baseline == pytest.approx(expected, rel=1e-6)
    assert importances.rows == len(judged)


def test_correlated_columns_are_pairs_of_at_least_nine_tenths_gaps_as_the_mean():
    rng = np.random.default_rng(5)
    a = rng.normal(size=200)
    draws = rng.normal(size=200)
    table = {
        "a": a,
        "b": -a + 0.3 * draws,
        "c": a + 0.45 * rng.normal(size=200),
        "d": a + 0.6 * rng.normal(size=200),
    }
    table["b"][:10] = np.nan
    filled = {
        name: np.where(np.isnan(each), np.nanmean(each), each)
        for name, each in table.items()
    }
    r = np.corrcoef(list(filled.values()))
    expected = sorted(
        (-abs(r[k, j]), "abcd"[k], "abcd"[j], r[k, j])
        for k in range(4)
        for j in range(k)
        if abs(r[k, j]) >= 0.9
    )
    assert 2 <= len(expected) < 6
    ds = nn.load({**table, "y": a}, target="y")
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=1, holdout=0)
    correlated = importance(net, ds).correlated
    assert [pair[:2] for pair in correlated] == [pair[1:3] for pair in expected]
    assert [pair[2] for pair in correlated] == pytest.approx(
        [pair[3] for pair in expected]
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_curves_are_the_means_of_predictions_with_the_column_set_at_its_quantiles(
    weighted,
):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(300, 2)).round(2)
    net = nn.Network("2,4,3", "multiclass", dtype="float64", seed=2)
    net.columns = ["u", "v"]
    if weighted:
        weights = rng.integers(1, 9, 300) / 4
    else:
        weights = None
    points = curves(
        net,
        nn.Dataset(x, np.arange(300) % 3, "multiclass", weights=weights),
        ["v", "u"],
    )
    assert list(points) == ["v", "u"]
    for name, column in (("v", 1), ("u", 0)):
        ascending = np.sort(x[:, column])
        places = [int(299 * (0.01 + 0.98 * k / 15)) for k in range(16)]
        expected = sorted({ascending[place] for place in places})
        assert [value for value, _ in points[name]] == expected
        for value, scores in points[name]:
            changed = x.copy()
            changed[:, column] = value
            predictions = net.predict(changed)
            expected = np.average(predictions, axis=0, weights=weights)
            assert scores == pytest.approx(expected, abs=1e-12)


def test_the_curve_of_words_has_the_eight_most_frequent_and_gaps_among_them():
    words = (
        functools.reduce(operator.iadd, ([f"w{k}"] * (20 - k) for k in range(9)), [])
        + [""] * 17
    )
    rng = np.random.default_rng(7)
    table = [
        {"word": word, "z": float(rng.normal()), "y": float(rng.normal())}
        for word in words
    ]
    ds = nn.load(table, target="y")
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=2, holdout=0)
    points = curves(net, ds, ["word"])["word"]
    assert [word for word, _ in points] == [
        "w0",
        "w1",
        "w2",
        "",
        "w3",
        "w4",
        "w5",
        "w6",
    ]
    for word, scores in points:
        path = [{**row, "word": word} for row in table]
        changed = nn.load_for(net, path, labelled=False).x
        expected = net.predict(changed).mean(axis=0)
        assert scores == pytest.approx(expected, rel=1e-4)


# ---------------------------------------------------------------- contributions


def test_the_told_error_of_contributions_is_their_deviation_over_a_dozen_seeds(
    monkeypatch,
):
    """From all coalitions; a median over a dozen networks' tellings lies within a third
    of it."""
    monkeypatch.setattr(shapley, "MOST_EXACT_ROWS", 0)
    net = nn.Network("6,8:tanh,4:tanh,1", "regression", dtype="float64", seed=5)
    net.set_parameters({name: 2 * value for name, value in net.parameters().items()})
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 6))
    explanation = explain(net, x[:5], x[20:], exact=True)
    truth = explanation.values
    drawn = [explain(net, x[:5], x[20:], seed=2 * seed) for seed in range(12)]
    mean = np.mean([(draw.values - truth) ** 2 for draw in drawn])
    real = np.sqrt(mean)
    mean = np.mean([draw.error**2 for draw in drawn])
    estimate = np.sqrt(mean)
    assert real > 1e-3
    assert estimate == pytest.approx(real, rel=0.25)


def combined(task: str, weights, layers: str = "3,1"):
    members = [nn.Network(layers, task, dtype="float64", seed=seed) for seed in (1, 2)]
    net = nn.Network(layers, task, dtype="float64")
    net.combine(members, weights)
    return net, members, np.array(weights) / sum(weights)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0)])
def test_base_and_contributions_of_two_members_are_means_by_their_weights(weights):
    net, members, shares = combined("regression", weights)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    explanation = explain(net, x[:4], x[10:])
    parameters_of_members = [member.parameters() for member in members]
    w = sum(
        share * own["layer0.weight"][0]
        for share, own in zip(shares, parameters_of_members, strict=True)
    )
    b = sum(
        share * own["layer0.bias"][0]
        for share, own in zip(shares, parameters_of_members, strict=True)
    )
    mean = x[10:].mean(axis=0)
    expected = w * (x[:4] - mean)
    assert np.allclose(explanation.values, expected, atol=1e-12)
    mean = x[10:].mean(axis=0)
    expected = mean @ w + b
    assert np.allclose(explanation.base_values, expected, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_logit_of_one_network_is_that_of_its_score_with_its_temperature(
    temperature,
):
    net = linear([1.0, -2.0], 0.5, temperature=temperature)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    explanation = explain(net, x[:4], x[10:])
    mean = x[10:].mean(axis=0)
    expected = np.array([1.0, -2.0]) / temperature * (x[:4] - mean)
    assert np.allclose(explanation.values, expected, atol=1e-12)
    predictions = net.predict(x[:4])
    scores = predictions[:, 0]
    expected = np.log(scores / (1 - scores))
    total = explanation.values.sum(axis=1)
    assert np.allclose(explanation.base_values + total, expected, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0)])
@pytest.mark.parametrize("task, layers", [("binary", "3,1"), ("multiclass", "3,4")])
def test_contributions_add_up_to_the_logit_of_the_weighted_mean_of_scores(
    task, layers, weights, temperature
):
    net, members, shares = combined(task, weights, layers)
    net.temperature = temperature
    rng = np.random.default_rng(0)
    x = 3 * rng.normal(size=(30, 3))

    def value(rows):
        """By the scores: their mean, sharpened or dulled by the temperature."""
        p = sum(
            share * member.predict(rows)
            for share, member in zip(shares, members, strict=True)
        )
        if task == "binary":
            logarithms = np.log(p / (1 - p))
            return (logarithms / temperature)[:, 0]
        logs = np.log(p) / temperature
        return logs - logs.mean(axis=1, keepdims=True)

    explanation = explain(net, x[:4], x[10:])
    expected = value(x[10:]).mean(axis=0)
    assert np.allclose(explanation.base_values, expected, atol=1e-9)
    expected = value(x[:4])
    total = explanation.values.sum(axis=1)
    assert np.allclose(explanation.base_values + total, expected, atol=1e-9)


def test_a_column_of_several_holds_by_an_interval_that_is_wider_by_their_number():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    between = 0
    weights = np.linspace(0.05, 0.4, 12)
    x = rng.normal(size=(80, 12))
    draws = rng.normal(size=80)
    y = x @ weights + draws
    importances = importance(
        linear(weights.tolist(), task="regression"),
        nn.Dataset(x, y, "regression"),
        seed=2,
    )
    wide, wider = stats.t.ppf([1 - 0.05 / 2, 1 - 0.05 / 2 / 12], 79)
    for mean, high, holds in zip(
        importances.mean, importances.high, importances.holds, strict=True
    ):
        deviation = (high - mean) / wide
        assert holds == (mean > wider * deviation)
        between += wide * deviation < mean <= wider * deviation
    assert between > 0


def test_curves_of_many_rows_average_five_hundred_with_their_own_weights():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(700, 2))
    weights = rng.integers(1, 9, 700) / 4
    net = linear([1.0, -2.0], 0.3)
    curves_of_columns = curves(
        net, nn.Dataset(x, np.arange(700) % 2, "binary", weights=weights), ["0"], seed=4
    )
    averaged = np.random.default_rng(4).choice(700, 500, replace=False)
    for value, (score,) in curves_of_columns["0"]:
        exponentials = np.exp(-(value - 2 * x[averaged, 1] + 0.3))
        scores = 1 / (1 + exponentials)
        expected = np.average(scores, weights=weights[averaged])
        assert score == pytest.approx(expected, rel=1e-6)


def test_a_comparison_draws_whole_groups_and_knows_a_series():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = x @ [1.0, 0.5] + rng.normal(size=60)
    groups = np.arange(60) // 5
    ds = nn.Dataset(x, y, "regression", groups=groups, now=[0])
    nets = linear([1.0, 0.5], task="regression"), linear([0.5, 0.5], task="regression")
    metrics_of_models = compared([Side.of(net, ds) for net in nets], NAMES, seed=3)[
        "metrics"
    ]
    squares = [(x @ own - y) ** 2 for own in ([1.0, 0.5], [0.5, 0.5])]
    sampling = Sampling(60, groups=np.arange(60) // 5)
    draws = np.stack(in_each_resample(lambda times: times, sampling, None, 3))
    total = draws.sum(axis=1)
    differences = draws @ (squares[1] - squares[0]) / total
    expected = np.quantile(differences, [0.025, 0.975])
    interval = metrics_of_models["mse"]["interval"]
    assert interval == pytest.approx(expected, rel=1e-5)
    mean = np.mean((x[:, 0] - y) ** 2)
    persistence = mean**0.5
    assert metrics_of_models["persistence_rmse"]["a"] == pytest.approx(persistence)
    skills = [1 - np.mean(square) ** 0.5 / persistence for square in squares]
    assert [metrics_of_models["skill"][name] for name in NAMES] == pytest.approx(
        skills, rel=1e-5
    )


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_columns_in_any_order_are_the_same_rows_with_the_same_persistence(order):
    """Those of the network by their names: what it predicts, what rows have now, how
    much a column matters."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 3))
    y = np.stack([x @ [1.0, 0.5, 2.0], x @ [0.5, 1.0, -1.0]], axis=1)
    net = nn.Network("3,2", "regression", dtype="float64")
    weights = [[1.0, 0.4, 2.0], [0.5, 1.0, -0.8]]
    net.set_parameters({"layer0.weight": weights, "layer0.bias": [0, 0]})
    net.columns = ["a", "b", "c"]
    given = nn.Dataset(x, y, "regression", columns=["a", "b", "c"], now=[1, 2])
    names = [given.columns[place] for place in order]
    now = [order.index(place) for place in given.now]
    places = tuple(7 + 2 * place for place in order)
    facts = {"columns": names, "now": now, "places": places}
    moved = nn.Dataset(x[:, order], y, "regression", **facts)
    read = as_read_by(net, moved)
    assert read.columns == given.columns
    assert read.places == (7, 9, 11)
    assert read.now == given.now
    assert (read.x == given.x).all()
    assert (read.persistence() == x[:, [1, 2]]).all()
    assert nn.test(net, moved) == nn.test(net, given)
    found, expected = [importance(net, ds, repeats=2) for ds in (moved, given)]
    of_names = [dict(zip(one.names, one.mean)) for one in (found, expected)]
    assert of_names[0] == of_names[1]


def test_the_ends_of_importance_are_by_the_threshold_of_the_model():
    """A threshold of 0.25 is one of 0.5 where the bias is higher by the logarithm of
    3."""
    ds = rows_of_two_classes(False)
    importances = importance(
        linear([1.0, -1.5, 0.25], -0.3, threshold=0.25), ds, metric_name="f1", repeats=2
    )
    bias = -0.3 + np.log(3)
    other = importance(linear([1.0, -1.5, 0.25], bias), ds, metric_name="f1", repeats=2)
    assert importances.names == other.names
    assert importances.mean == pytest.approx(other.mean)
    assert importances.low == pytest.approx(other.low)
    assert importances.high == pytest.approx(other.high)
    assert importances.low != pytest.approx(
        importance(linear([1.0, -1.5, 0.25], -0.3), ds, metric_name="f1", repeats=2).low
    )


def test_each_target_of_a_series_has_its_own_persistence():
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(30, 2))
    truth = draws * [1, 50]
    draws = rng.normal(size=(30, 2))
    predicted = draws * [1, 50]
    draws = rng.normal(size=(30, 2))
    now = draws * [1, 50]
    weights = rng.integers(1, 5, 30) / 2
    for k, told in enumerate(
        figures_by_target(truth, predicted, ["u", "v"], now, weights)
    ):
        mean = np.average((predicted[:, k] - truth[:, k]) ** 2, weights=weights)
        rmse = mean**0.5
        mean = np.average((now[:, k] - truth[:, k]) ** 2, weights=weights)
        persistence = mean**0.5
        assert told["persistence_rmse"] == pytest.approx(persistence)
        assert told["rmse"] == pytest.approx(rmse)
        expected = 1 - rmse / persistence
        assert told["skill"] == pytest.approx(expected)
