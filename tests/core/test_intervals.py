"""Intervals of metrics: against the reports of repeated rows."""

import logging
import time

import numpy as np
import pytest
from scipy import stats
from support.command_line import (
    run,
    succeed,
    write_numbers,
    write_three_classes,
    write_two_classes,
)

import nn
from nn.core import bootstrap
from nn.core.bootstrap import (
    Sampling,
    interval,
    intervals,
    intervals_and_by_target,
    student_quantile,
    wilson,
)
from nn.core.metrics import Judged, checked_weights
from nn.pages.model_page import page_of_model
from nn.pages.page import markdown_of
from nn.test import (
    QUICK,
    binary_report,
    figures_of,
    multiclass_report,
    regression_report,
)
from nn.test.reports import QUICK_ROWS
from nn.utils import figure_text


@pytest.fixture(autouse=True)
def no_warnings(caplog):
    """Resampled rows may lack a class, and a thousand reports would say so."""
    caplog.set_level(logging.ERROR, logger="nn")


RESAMPLES = bootstrap.RESAMPLES  # before conftest.py makes them few


@pytest.fixture(autouse=True)
def all_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", RESAMPLES)


def draws(rows, seed=0, resamples=RESAMPLES):
    """How often each resample has each row: (resamples, rows)."""
    return np.stack([Sampling(rows).drawn(number, seed) for number in range(resamples)])


def binary_intervals(truth, scores, threshold, weights=None):
    judged = Judged("binary", truth, scores, threshold)
    return intervals(judged, checked_weights(weights, len(truth)))


def two_classes(ties=True):
    rng = np.random.default_rng(0)
    truth = (rng.random(60) < 0.4).astype(np.int32)
    scores = np.clip(rng.normal(0.3 + 0.3 * truth, 0.2), 0, 1)
    return truth, (scores.round(1) if ties else scores)


def assert_percentiles(found, names, reports, but=()):
    """found: intervals by name; each has NumPy's percentiles of the figure, in those
    reports that hold it."""
    assert list(found) == names.split()
    for name, ends in found.items():
        if name in but:
            continue
        values = [{**report, **report.get("macro", {})}[name] for report in reports]
        percentiles = np.percentile(
            [value for value in values if value is not None], [2.5, 97.5]
        )
        assert ends == pytest.approx(percentiles, rel=1e-9), name


def test_resamples_have_all_rows_drawn_evenly_and_differ_by_number_and_seed():
    """37,000 draws of 37 rows: the sum of squares is chi-squared with 36 degrees of
    freedom, below 72 but in 3e-4."""
    times = draws(37)
    assert times.shape == (1000, 37)
    assert (times.sum(axis=1) == 37).all()
    assert times.min() == 0
    total = times.sum(axis=0)
    assert ((total - 1000) ** 2 / 1000).sum() < 72
    assert len(np.unique(times, axis=0)) == 1000
    assert not np.array_equal(times, draws(37, seed=1))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(monkeypatch, threads):
    usual = binary_intervals(*two_classes(), 0.5)
    monkeypatch.setattr(bootstrap, "default_threads", lambda: threads)
    assert binary_intervals(*two_classes(), 0.5) == usual


# Wilson's interval, where rows are independent and have no weights
RATES = ("precision", "recall", "f1", "accuracy")


@pytest.mark.usual(2)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_intervals_of_two_classes_are_percentiles_of_reports(ties, weighted):
    truth, scores = two_classes(ties=ties)
    if weighted:
        rng = np.random.default_rng(1)
        weights = rng.random(len(truth))
    else:
        weights = np.ones(len(truth))
    reports = [
        binary_report(truth, scores, 0.45, times * weights)
        for times in draws(len(truth))
    ]
    names = "precision recall f1 accuracy mcc roc_auc pr_auc log_loss brier"
    assert_percentiles(
        binary_intervals(truth, scores, 0.45, weights),
        names,
        reports,
        but=() if weighted else RATES,
    )


def test_intervals_of_several_classes_are_percentiles_of_reports():
    rng = np.random.default_rng(2)
    # class 3 is not there
    truth = rng.integers(0, 3, 50)
    scores = rng.dirichlet(np.ones(4), 50)
    reports = [multiclass_report(truth, scores, weights=times) for times in draws(50)]
    names = "precision recall f1 accuracy mcc log_loss brier"
    ends = intervals(Judged("multiclass", truth, scores))
    assert_percentiles(ends, names, reports, but=("accuracy",))
    hits = (scores.argmax(axis=1) == truth).sum()
    expected = wilson_of_scipy(hits, 50)
    assert ends["accuracy"] == pytest.approx(expected)


def wilson_of_scipy(hits, rows) -> list[float]:
    return list(stats.binomtest(int(hits), int(rows)).proportion_ci(method="wilson"))


@pytest.mark.parametrize("hits, rows", [(0, 7), (3, 7), (7, 7), (1, 1), (480, 5000)])
def test_the_interval_of_a_rate_is_wilsons(hits, rows):
    assert wilson(hits, rows) == pytest.approx(wilson_of_scipy(hits, rows), abs=1e-12)
    assert wilson(0, 0) is None


def test_rates_of_independent_rows_have_wilsons_interval():
    truth, scores = two_classes()
    ends = binary_intervals(truth, scores, 0.45)
    called = scores >= 0.45
    both = (called & (truth == 1)).sum()
    expected = wilson_of_scipy(both, called.sum())
    assert ends["precision"] == pytest.approx(expected)
    expected = wilson_of_scipy(both, (truth == 1).sum())
    assert ends["recall"] == pytest.approx(expected)
    expected = wilson_of_scipy((called == truth).sum(), 60)
    assert ends["accuracy"] == pytest.approx(expected)
    # tp / (tp + fp + fn), of which F1 is 2 r / (1 + r)
    rows = (called | (truth == 1)).sum()
    overlap = wilson_of_scipy(both, rows)
    expected = [2 * end / (1 + end) for end in overlap]
    assert ends["f1"] == pytest.approx(expected)
    report = binary_report(truth, scores, 0.45)
    total = (truth == 1).sum()
    expected = 2 * both / (called.sum() + total)
    assert report["f1"] == pytest.approx(expected)
    for name, (low, high) in ends.items():
        assert low <= report[name] <= high


def test_a_perfect_area_ends_below_by_the_rule_of_three():
    """4 rows of the smaller class: 1 - 3 / 4. Percentiles alone would say from 1 to
    1."""
    truth = np.array([0] * 16 + [1] * 4)
    ends = binary_intervals(truth, np.linspace(0, 0.9, 20), 0.5)
    assert ends["roc_auc"] == ends["pr_auc"] == [0.25, 1.0]
    perfect = binary_intervals(truth, truth.astype(float), 0.5)
    assert perfect["mcc"] == [0.25, 1.0]
    assert perfect["f1"][0] < 1
    scores = np.array([0.1, 0.9])
    roc_auc = binary_intervals(np.array([0, 1]), scores, 0.5)["roc_auc"]
    assert roc_auc == [0.0, 1.0]


def test_the_rule_of_three_is_for_no_rate():
    """Of groups no rate has the interval of Wilson: all rows of resamples are right."""
    truth = np.array([0] * 16 + [1] * 4)
    judged = Judged("binary", truth, truth.astype(float), 0.5)
    ends = intervals(judged, sampling=Sampling(20, groups=np.arange(20) // 2))
    assert ends["accuracy"] == [1.0, 1.0]
    assert ends["roc_auc"] == ends["pr_auc"] == [0.25, 1.0]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 1000])
@pytest.mark.parametrize("share", [0.975, 0.9, 1 - 0.025 / 30])
def test_quantiles_of_student_are_those_of_scipy(freedom, share):
    """The expansion: 1 % off in the tail of three degrees, and nothing that is seen
    from ten on."""
    slack = {3: 0.12, 4: 0.03, 7: 1e-3}.get(freedom, 1e-5)
    assert student_quantile(share, freedom) == pytest.approx(
        stats.t.ppf(share, freedom), rel=slack
    )


# ---------------------------------------------------------------- groups and times


def test_rows_of_a_group_are_drawn_together():
    groups = np.array([5, 5, 9, 9, 9, 2])
    sampling = Sampling(6, groups)
    assert sampling.units == 3
    assert not sampling.are_independent
    counts = np.stack([sampling.drawn(number) for number in range(500)])
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 2:5] == counts[:, [2]]).all()
    total = counts[:, [0, 2, 5]].sum(axis=1)
    assert (total == 3).all()  # as many groups as there are
    mean = counts[:, [0, 2, 5]].mean(axis=0)
    assert mean == pytest.approx([1, 1, 1], abs=0.15)


def starts_of_blocks(counts, rows: int) -> list[int]:
    """Return how many blocks of some rows begin at each row, from how often each row
    was drawn."""
    starts = []
    for row, count in enumerate(counts.tolist()):
        largest = max(0, row - rows + 1)
        total = sum(starts[largest:])
        starts.append(count - total)
    return starts


def test_rows_of_a_series_are_drawn_in_blocks_that_follow_each_other_in_time():
    order = np.random.default_rng(0).permutation(64)
    times = order.astype(float)
    sampling = Sampling(64, times=times)
    assert sampling.block_rows == 4
    assert sampling.units == 16
    begun = np.zeros(61)
    for number in range(1000):
        counts = sampling.drawn(number)[np.argsort(times)]
        starts = starts_of_blocks(counts, 4)
        assert min(starts) >= 0
        assert sum(starts) == 16
        assert starts[61:] == [0, 0, 0]
        begun += starts[:61]
    # four deviations
    expected = np.full(61, 16 / 61)
    assert begun / 1000 == pytest.approx(expected, abs=0.08)
    # the last block is cut
    assert Sampling(65, times=np.arange(65)).drawn(0).sum() == 65


def coverage(sampling_of, errors_of, trials: int = 60) -> float:
    """Return how often the interval of the mean absolute error holds that of many more
    rows."""
    rng = np.random.default_rng(99)
    truth = np.abs(errors_of(rng, 100_000)).mean()
    held = 0
    for trial in range(trials):
        errors = errors_of(np.random.default_rng(trial), 400)
        scores = errors[:, None]
        judged = Judged("regression", np.zeros((400, 1)), scores)
        low, high = intervals(judged, sampling=sampling_of(400))["mae"]
        held += low <= truth <= high
    return held / trials


def errors_of_groups(draws, rows):
    """Errors that rows of a group share: 20 rows each."""
    repeated = np.repeat(draws.normal(size=-(-rows // 20)), 20)
    return repeated[:rows] + 0.5 * draws.normal(size=rows)


def errors_of_a_series(draws, rows):
    """An autoregressive series: 0.6 of an error is that of the row before."""
    shocks = draws.normal(size=rows)
    errors = np.empty(rows)
    errors[0] = shocks[0]
    for row in range(1, rows):
        errors[row] = 0.6 * errors[row - 1] + shocks[row]
    return errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "errors_of, sampling_of, least",
    [
        (errors_of_groups, lambda rows: Sampling(rows, np.arange(rows) // 20), 0.85),
        (errors_of_a_series, lambda rows: Sampling(rows, times=np.arange(rows)), 0.85),
    ],
    ids=["groups", "series"],
)
def test_intervals_that_know_groups_and_times_hold_more_often(
    monkeypatch, errors_of, sampling_of, least
):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 100)
    assert (
        coverage(sampling_of, errors_of) >= least > coverage(Sampling, errors_of) + 0.05
    )


def test_one_group_has_no_interval():
    truth = np.arange(5.0)[:, None]
    scores = np.zeros((5, 1))
    judged = Judged("regression", truth, scores)
    sampling = Sampling(5, np.zeros(5))
    assert set(intervals(judged, sampling=sampling).values()) == {None}


def test_a_test_of_rows_with_groups_draws_groups(folder):
    """A row 20 times is one row: its interval is as wide as that of the rows alone."""
    draws_of = np.random.default_rng(3)
    x = draws_of.normal(size=(30, 2)).astype(np.float32)
    y = draws_of.integers(0, 2, 30)
    net = nn.Network("2,3,1", "binary", seed=1)
    alone = nn.Dataset(x, y, "binary", ["0", "1"], groups=np.arange(30))
    groups = np.repeat(np.arange(30), 20)
    repeated = nn.Dataset(
        np.repeat(x, 20, axis=0), np.repeat(y, 20), "binary", ["0", "1"], groups=groups
    )
    expected = nn.test(net, alone, intervals=True)["intervals"]
    found = nn.test(net, repeated, intervals=True)["intervals"]
    for name, ends in found.items():
        assert ends == pytest.approx(expected[name], rel=1e-9), name


@pytest.mark.parametrize("offset", [0, 1e6])
def test_intervals_of_regression_are_percentiles_of_reports(offset):
    """Values far from 0 lose digits on both sides: 1e6 squared leaves 4 of 16."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(50, 2)) + offset
    predicted = truth + rng.normal(size=(50, 2)) / 2
    persistence = truth + rng.normal(size=(50, 2))
    ends = intervals(Judged("regression", truth, predicted, persistence=persistence))
    reports = [
        regression_report(truth, predicted, None, persistence, times)
        for times in draws(50)
    ]
    assert_percentiles(ends, "mse mae rmse r2 persistence_rmse skill", reports)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    """Accuracy 0.8 of 100 rows, 200 times: 95 % are 190, and 178 or fewer come in 2 of
    1000."""
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(200):
        right = (rng.random(100) < 0.8).astype(float)
        low, high = interval(draws(100, seed, 400) @ right / 100)
        covered += low <= 0.8 <= high
    assert 178 < covered <= 200


def test_what_is_undefined_has_no_interval():
    assert interval([np.nan, np.inf]) is None
    assert interval([np.nan, 1.0, 1.0]) == [1.0, 1.0]
    scores = np.arange(5) / 4
    ends = binary_intervals(np.zeros(5, int), scores, 0.5)
    assert ends["roc_auc"] is None
    assert ends["pr_auc"] is None
    assert ends["accuracy"] is not None
    scores = np.array([-1.0, 2.0])
    truth = np.array([0, 1])
    assert binary_intervals(truth, scores, 0.5)["brier"] is None
    truth = np.ones((4, 1))
    judged = Judged("regression", truth, np.zeros((4, 1)))
    assert intervals(judged)["r2"] is None
    # half the resamples of two rows lack a class, and do not count
    truth = np.array([0, 1])
    scores = np.array([0.9, 0.1])
    roc_auc = binary_intervals(truth, scores, 0.5)["roc_auc"]
    assert roc_auc == [0.0, 0.0]


@pytest.mark.timing
def test_the_rows_of_the_credit_card_test_take_less_than_a_second():
    """0.19 s measured on two cores."""
    rng = np.random.default_rng(0)
    truth = (rng.random(5725) < 0.02).astype(np.int32)
    scores = rng.random(5725).astype(np.float32)
    began = time.perf_counter()
    binary_intervals(truth, scores, 0.5)
    assert time.perf_counter() - began < 1


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "write", [write_two_classes, write_three_classes, write_numbers]
)
def test_a_test_gives_intervals_when_asked(folder, write):
    write(folder / "data.csv")
    succeed("--train", "--dataset", "data.csv", "--model", "m.bin", "--epochs", 2, "-q")
    plain = succeed("--test", "--model", "m.bin", "--json").json
    figures = succeed("--test", "--model", "m.bin", "--intervals", "--json").json
    assert "intervals" not in plain
    intervals = figures.pop("intervals")
    assert figures == plain
    output = succeed(
        "--test", "--model", "m.bin", "--intervals", "--json", "--threads", 1
    )
    assert output.json["intervals"] == intervals
    flat = plain | {
        f"macro_{name}": value for name, value in plain.get("macro", {}).items()
    }
    assert intervals
    for low, high in intervals.values():
        assert low <= high
    inside = [low <= flat[name] <= high for name, (low, high) in intervals.items()]
    assert sum(inside) >= len(inside) - 1
    table = succeed("--test", "--model", "m.bin", "--intervals").out
    assert "95 % interval" in table
    assert "95 %" not in succeed("--test", "--model", "m.bin").out
    if "mse" in plain:
        in_table = "{:.6g} to {:.6g}"
    else:
        in_table = "{:.4f} to {:.4f}"
    assert in_table.format(*next(iter(intervals.values()))) in table


def test_intervals_are_the_same_under_a_limit_and_not_of_the_reference(folder):
    write_two_classes(folder / "two.csv")
    succeed("--train", "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1, "-q")
    command = ("--test", "--model", "m.bin", "--dataset", "two.csv", "--intervals")
    output = succeed(*command, "--json", "--memory", "100M")
    assert output.json == succeed(*command, "--json").json
    result = run(*command, "--reference")
    assert result.code == 2
    assert "--intervals: --reference has no such thing" in result.err


# ---- the few that a training tells


def quick_data(task: str, rows: int = 120, **fields):
    """Return a network of a task with a data set, and scores of its rows."""
    rng = np.random.default_rng(1)
    if task == "regression":
        y = rng.normal(size=rows)
    else:
        y = rng.integers(0, {"binary": 2, "multiclass": 3}[task], rows)
    if task == "regression":
        classes = None
    else:
        classes = ["a", "b", "c"][: y.max() + 1]
    ds = nn.Dataset(np.zeros((rows, 1)), y, task, classes, **fields)
    scores = rng.random((rows, ds.outputs))
    if task == "multiclass":
        scores /= scores.sum(axis=1, keepdims=True)
    net = nn.Network(f"1,{ds.outputs}", task)
    return net, ds, scores


@pytest.mark.parametrize(
    "more", [{}, {"groups": np.arange(120) // 4}, {"times": np.arange(120)}], ids=str
)
@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("binary", ["roc_auc", "log_loss"]),
        ("multiclass", ["accuracy", "log_loss"]),
        ("regression", ["rmse"]),
    ],
)
def test_quick_intervals_are_of_the_first_metric_and_the_loss_by_the_first_resamples(
    task, names, more, monkeypatch
):
    net, ds, scores = quick_data(task, **more)
    quick = figures_of(net, ds, scores, intervals=QUICK)
    monkeypatch.setattr(bootstrap, "RESAMPLES", 200)
    every = figures_of(net, ds, scores, intervals=True)
    assert quick.pop("intervals") == {name: every["intervals"][name] for name in names}
    assert len(every.pop("intervals")) > 2
    assert quick == every


def test_quick_intervals_stop_at_ten_thousand_rows_and_at_one_group():
    assert QUICK_ROWS == 10_000
    for rows, has_intervals in ((QUICK_ROWS, True), (QUICK_ROWS + 1, False)):
        assert (
            "intervals" in figures_of(*quick_data("regression", rows), intervals=QUICK)
        ) is has_intervals
    of_one = figures_of(*quick_data("binary", groups=np.zeros(120)), intervals=QUICK)
    assert of_one["intervals"] == {"roc_auc": None, "log_loss": None}


def test_a_training_tells_them_of_its_groups(folder):
    """Rows of a group are alike: by groups the interval is much wider than by rows."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(30), 20)
    part = rng.normal(size=30)[group]
    x = rng.normal(size=600)
    table = {"x": x, "group": group, "y": x + part + 0.1 * rng.normal(size=600)}
    model = nn.fit(table, "y", effort="quick", **{"group": "group"})
    wide = model.metrics["out_of_fold"]["intervals"]["rmse"]
    model = nn.fit(table, "y", effort="quick", **{"drop": "group"})
    of_rows = model.metrics["out_of_fold"]["intervals"]["rmse"]
    assert np.ptp(wide) > 1.5 * np.ptp(of_rows)


def several_targets(task: str):
    """(truth, scores) of 50 rows, of three targets that some rows lack."""
    rng = np.random.default_rng(6)
    scores = rng.random((50, 3))
    truth = (rng.random((50, 3)) < scores).astype(float)
    if task == "regression":
        truth = scores + rng.normal(0, 0.4, (50, 3))
    truth[rng.random((50, 3)) < 0.15] = np.nan
    return truth, scores


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("draw", ["rows", "groups", "times"])
@pytest.mark.parametrize(
    "task, loss",
    [("multilabel", "bce"), ("regression", "mse"), ("regression", "quantile=.2,.5,.8")],
)
def test_each_target_has_its_intervals_by_the_resamples_of_all_rows(
    task, loss, draw, has_weights, monkeypatch
):
    """Beside a loop over targets and resamples, of repeated rows that have the
    target."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 40)
    truth, scores = several_targets(task)
    rng = np.random.default_rng(2)
    weights = rng.integers(1, 4, 50) if has_weights else None
    of_draw = {}
    if draw != "rows":
        of_draw[draw] = rng.permutation(np.arange(50) // 5)
    sampling = Sampling(50, **of_draw)
    cuts = [0.3, 0.5, 0.6] if task == "multilabel" else None
    judged = Judged(task, truth, scores, cuts, loss=loss)
    ends, of_targets = intervals_and_by_target(judged, weights, sampling)
    assert ends == intervals(judged, weights, sampling=sampling)
    assert len(of_targets) == 3
    for k, found in enumerate(of_targets):
        if task == "multilabel":
            own = ("binary", truth[:, k], scores[:, k], cuts[k])
            of_loss = None
        else:
            own = (task, truth[:, k, None], scores[:, k, None], None)
            of_loss = f"quantile={(0.2, 0.5, 0.8)[k]}" if "quantile" in loss else loss
        known = ~np.isnan(truth[:, k])
        values = []
        for number in range(40):
            times = sampling.drawn(number) * (1 if weights is None else weights)
            rows = np.repeat(np.arange(50), times * known)
            name, y, a, cut = own
            values.append(Judged(name, y[rows], a[rows], cut, loss=of_loss).values())
        name, y, a, cut = own
        whole = Judged(name, y[known], a[known], cut, loss=of_loss)
        counts = None if weights is None else weights[known]
        of_all = whole.values(counts)
        assert found.keys() == of_all.keys()
        is_wilson = draw == "rows" and not has_weights and task == "multilabel"
        for metric, (low, high) in found.items():
            if is_wilson and metric in ("accuracy", "precision", "recall", "f1"):
                expected = intervals(whole)[metric]
            else:
                expected = interval([one[metric] for one in values])
            expected = [
                min(expected[0], of_all[metric]),
                max(expected[1], of_all[metric]),
            ]
            np.testing.assert_allclose([low, high], expected, rtol=1e-9, atol=1e-12)


def test_figures_have_the_intervals_of_each_target():
    """In JSON and on the page; quick ones have none of targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)).astype(np.float32)
    y = x + rng.normal(0, 0.5, (200, 2))
    ds = nn.Dataset(x, y, "regression", targets=["u", "v"], columns=["a", "b"])
    net = nn.Network.for_data(ds, "2,2")
    nn.train(net, ds, epochs=20, holdout=0.0)
    figures = nn.test(net, ds, intervals=True)
    for k, target in enumerate(figures["per_target"]):
        judged = Judged("regression", y[:, [k]], net.predict(x)[:, [k]])
        assert target["intervals"] == intervals(judged)
        low, high = target["intervals"]["rmse"]
        assert low < target["rmse"] < high
    assert "intervals" not in nn.test(net, ds)["per_target"][0]
    quick = figures_of(net, ds, net.predict(x), intervals=QUICK)
    assert "intervals" not in quick["per_target"][0]
    assert figures["per_target"][0]["intervals"] != figures["intervals"]
    page = markdown_of(page_of_model(net, "m.bin", ds))
    low, high = map(figure_text, figures["per_target"][1]["intervals"]["rmse"])
    own = figure_text(figures["per_target"][1]["rmse"])
    assert f"{own} ({low} to {high})" in page
