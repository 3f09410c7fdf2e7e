"""Conformal prediction beside plain loops, and by hand where rows are few."""

import contextlib
import math

import numpy as np
import pytest

from nn.core.conformal import (
    LEVELS,
    OWN_ROWS,
    ClassSets,
    Intervals,
    LabelSets,
    known_at,
    masses_of,
    scale_near,
    upper_quantiles,
)
from nn.utils import UsageError


def plain_upper(values, masses, level):
    """The smallest value up to which the rows count level (n + 1)."""
    pairs = sorted(zip(values, masses, strict=True))
    needed = level * (sum(masses) + 1)
    whole = 0.0
    for value, mass in pairs:
        whole += mass
        if whole >= needed - 1e-9 * sum(masses):
            return value
    return pairs[-1][0]


def plain_scale(predicted, sizes, masses, at):
    """The mean size of the residuals of the rows nearest to a prediction."""
    near = min(len(predicted), max(30, round(len(predicted) / 10)))
    order = sorted(range(len(predicted)), key=lambda row: abs(predicted[row] - at))
    chosen = order[:near]
    whole = sum(masses[row] for row in chosen)
    return sum(masses[row] * sizes[row] for row in chosen) / whole


def drawn(rows, seed=0):
    """Truth and predictions whose errors grow with the prediction."""
    rng = np.random.default_rng(seed)
    predicted = rng.exponential(size=rows)
    truth = predicted + (0.1 + predicted) * rng.standard_t(4, size=rows)
    return truth[:, None], predicted[:, None]


@pytest.mark.parametrize("rows", (30, 31, 299, 1000))
@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("grouped", (False, True))
def test_intervals_beside_plain_loops(rows, weighted, grouped):
    truth, predicted = drawn(rows)
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, rows).astype(float) if weighted else None
    groups = rng.integers(0, rows // 3, rows) if grouped else None
    known = Intervals.of(truth, predicted, None, weights, groups)
    masses = masses_of(rows, weights, groups).tolist()
    count = rows if groups is None else len(set(groups.tolist()))
    assert math.isclose(sum(masses), count)
    (target,) = known.targets
    residuals = (truth - predicted)[:, 0]
    for at, scale in zip(target.at, target.scale, strict=True):
        plain = plain_scale(predicted[:, 0], np.abs(residuals), masses, at)
        assert scale == pytest.approx(plain, rel=1e-9)
    scaled = residuals / np.interp(predicted[:, 0], target.at, target.scale)
    for place, level in enumerate(known.levels):
        high = plain_upper(scaled.tolist(), masses, (1 + level) / 2)
        low = -plain_upper((-scaled).tolist(), masses, (1 + level) / 2)
        assert target.low[place] == low
        assert target.high[place] == high
    assert len(target.at) == 33 or rows < 33
    assert known.levels[-1] == pytest.approx(1 - 2 / (count + 1))


def test_quantiles_of_few_values_by_hand():
    values = np.array([3.0, 1.0, 2.0, 4.0])
    # level * (4 + 1): the first, second, third, fourth smallest
    found = upper_quantiles(values, np.ones(4), [0.2, 0.4, 0.41, 0.8, 0.99])
    assert found.tolist() == [1, 2, 3, 4, 4]
    # the value 2 counts as three rows: n is 6
    found = upper_quantiles(
        values, np.array([1, 1, 3, 1]), [1 / 7, 2 / 7, 4 / 7, 5 / 7]
    )
    assert found.tolist() == [1, 2, 2, 3]


def test_a_row_of_a_group_counts_as_its_part_of_it():
    masses = masses_of(6, None, np.array([7, 7, 7, 5, 5, 9]))
    assert masses == pytest.approx([1 / 3] * 3 + [1 / 2] * 2 + [1])


def test_the_rows_nearest_to_a_prediction():
    predicted = np.concatenate([np.zeros(40), np.full(40, 10.0)])
    sizes = np.concatenate([np.ones(40), np.full(40, 5.0)])
    at, scale = scale_near(predicted, sizes, np.ones(80))
    assert at.tolist() == [0, 10]
    assert scale.tolist() == [1, 5]


def test_equal_residuals_and_none_at_all():
    predicted = np.linspace(0, 1, 50)[:, None]
    exact = Intervals.of(predicted, predicted)
    low, high = exact.interval(predicted, 0.9)
    assert (low == predicted).all()
    assert (high == predicted).all()
    shifted = Intervals.of(predicted + 2, predicted)
    low, high = shifted.interval(predicted, 0.5)
    assert low == pytest.approx(predicted + 2)
    assert high == pytest.approx(predicted + 2)


def test_a_level_that_the_rows_cannot_give_is_refused():
    truth, predicted = drawn(39)
    known = Intervals.of(truth, predicted)
    known.interval(predicted, 1 - 2 / 40)
    with pytest.raises(UsageError, match="--level 0.951: .* at most 0.95$"):
        known.interval(predicted, 0.951)
    sets = ClassSets.of(np.arange(39) % 2, np.full((39, 1), 0.5))
    sets.sets(np.full((39, 1), 0.5), 1 - 1 / 40)
    with pytest.raises(UsageError, match="at most 0.975"):
        sets.sets(np.full((39, 1), 0.5), 0.976)


def test_between_two_levels_the_wider_interval():
    truth, predicted = drawn(1000)
    known = Intervals.of(truth, predicted)
    assert 0.85 in LEVELS
    assert 0.9 in LEVELS
    asked = known.interval(predicted, 0.86)
    assert all(map(np.array_equal, asked, known.interval(predicted, 0.9)))
    # 0.30000000000000004 is 0.3
    asked = known.interval(predicted, 0.1 + 0.2)
    assert all(map(np.array_equal, asked, known.interval(predicted, 0.3)))
    asked = known.interval(predicted, 0.9)
    narrower = known.interval(predicted, 0.85)
    assert (narrower[1] - narrower[0]).sum() < (asked[1] - asked[0]).sum()


def test_fewer_than_thirty_rows_tell_nothing():
    truth, predicted = drawn(29)
    assert Intervals.of(truth, predicted) is None
    assert ClassSets.of(np.arange(29) % 2, np.full((29, 1), 0.5)) is None
    truth, predicted = drawn(60)
    assert Intervals.of(truth, predicted, groups=np.zeros(60)) is None


def test_residuals_beyond_float64_tell_nothing():
    truth, predicted = drawn(60)
    truth[0] = 1.5e308
    predicted[0] = -1.5e308
    assert Intervals.of(truth, predicted) is None


def test_no_interval_leaves_the_bounds():
    truth, predicted = drawn(300)
    known = Intervals.of(truth, predicted, [(0.0, None)])
    free = Intervals.of(truth, predicted)
    low, high = known.interval(predicted, 0.9)
    assert low.min() == 0
    assert (free.interval(predicted, 0.9)[0] < 0).any()
    assert np.array_equal(high, free.interval(predicted, 0.9)[1].clip(0))


def test_each_target_has_its_own_intervals():
    one, predicted = drawn(200)
    other, _ = drawn(200, seed=5)
    both = Intervals.of(np.hstack([one, other]), np.hstack([predicted, predicted]))
    for number, truth in enumerate((one, other)):
        alone = Intervals.of(truth, predicted)
        assert both.targets[number] == alone.targets[0]
    low, high = both.interval(np.hstack([predicted, predicted]), 0.8)
    assert low.shape == high.shape == (200, 2)


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("grouped", (False, True))
def test_a_target_that_rows_lack_has_the_intervals_of_the_others(weighted, grouped):
    """Up to the largest level of the target with the fewest rows, or groups."""
    rng = np.random.default_rng(4)
    truth, predicted = map(np.hstack, zip(*[drawn(150, seed) for seed in range(3)]))
    truth[rng.uniform(size=truth.shape) < [0.6, 0, 0.3]] = np.nan
    weights = rng.integers(1, 4, 150).astype(float) if weighted else None
    groups = rng.integers(0, 70, 150) if grouped else None
    both = Intervals.of(truth, predicted, None, weights, groups)
    most = []
    for number, known in enumerate(~np.isnan(truth.T)):
        rows = [None if part is None else part[known] for part in (weights, groups)]
        own = truth[known, number, None], predicted[known, number, None]
        alone = Intervals.of(*own, None, *rows)
        most.append(alone.levels[-1])
        kept = both.targets[number]
        for place, level in enumerate(both.levels[:-1]):
            at = alone.levels.index(level)
            assert kept.low[place] == alone.targets[0].low[at]
            assert kept.high[place] == alone.targets[0].high[at]
    assert len({*most}) == 3
    assert both.levels[-1] == min(most)


def test_intervals_hold_the_share_that_is_asked():
    known = Intervals.of(*drawn(2000))
    truth, predicted = drawn(20000, seed=9)
    for level in (0.5, 0.8, 0.95):
        are_inside, _ = known.held_and_widths(truth, predicted, level)
        assert are_inside.mean() == pytest.approx(level, abs=0.02)
    _, widths = known.held_and_widths(truth, predicted, 0.9)
    large = predicted > 2
    assert widths[large].mean() > 3 * widths[predicted < 0.5].mean()


def class_scores(rows, classes, seed=0):
    """Classes that are drawn by their probabilities."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(rows, classes))
    scores = np.exp(logits)
    scores /= scores.sum(axis=1, keepdims=True)
    truth = (scores.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return truth, scores.astype(np.float32)


def plain_masses(weights, groups):
    """What rows count: their weights by the rows of their group, together as many as
    there are groups."""
    parts = [
        weight / sum(other == group for other in groups)
        for weight, group in zip(weights, groups, strict=True)
    ]
    return [part * len({*groups}) / sum(parts) for part in parts]


@pytest.mark.parametrize("weighted", (False, True))
@pytest.mark.parametrize("grouped", (False, True))
@pytest.mark.parametrize("own_rows", (OWN_ROWS, 199))  # 199 / 200 is a level
def test_sets_beside_plain_loops(weighted, grouped, own_rows):
    truth, scores = class_scores(250, 4)
    truth[truth == 3] = 0
    truth[:OWN_ROWS] = 0
    if own_rows > OWN_ROWS:
        truth = (np.argsort(np.argsort(-scores[:, 0])) >= own_rows).astype(int)
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, 250).astype(float) if weighted else np.ones(250)
    groups = rng.integers(0, 90, 250) if grouped else np.arange(250)
    known = ClassSets.of(
        truth, scores, weights if weighted else None, groups if grouped else None
    )
    every = np.ones(len(truth), bool)
    of_all = (every, plain_masses(weights, groups.tolist()))
    masses = {}
    for number in range(4):
        own = truth == number
        rows = own if own.sum() >= OWN_ROWS else every
        masses[number] = (rows, plain_masses(weights[rows], groups[rows].tolist()))
    wide = scores.astype(np.float64)
    for level in known.levels:
        found = known.sets(scores, level)
        for number in range(4):
            rows, counts = masses[number]
            if level * (sum(counts) + 1) > sum(counts) + 1e-6:
                rows, counts = of_all
            misses = [1 - wide[row, truth[row]] for row in np.flatnonzero(rows)]
            most = plain_upper(misses, counts, level)
            expected = 1 - wide[:, number] <= most + 1e-12
            likeliest = wide.argmax(axis=1) == number
            assert np.array_equal(found[:, number], expected | likeliest)
        assert found.any(axis=1).all()


def test_targets_have_the_levels_of_the_one_with_the_fewest_rows():
    rng = np.random.default_rng(0)
    scores = rng.random((300, 3))
    truth = (rng.random((300, 3)) < scores).astype(float)
    truth[rng.random((300, 3)) < [0.2, 0.8, 0.5]] = np.nan
    known = LabelSets.of(truth, scores)
    rows = (~np.isnan(truth)).sum(axis=0)
    assert known.levels[-1] == pytest.approx(rows.min() / (rows.min() + 1))
    beyond = (1 + known.levels[-1]) / 2
    for level, refused in ((known.levels[-1], None), (beyond, UsageError)):
        with pytest.raises(refused) if refused else contextlib.nullcontext():
            known_at(known, level).sets(scores, level)
    held, _ = known.held_and_widths(truth, scores, 0.9)
    for k, own in enumerate(~np.isnan(truth.T)):
        alone = ClassSets.of(truth[own, k], scores[own, k, None])
        expected, _ = alone.held_and_widths(truth[own, k], scores[own, k, None], 0.9)
        assert (held[own, k] == expected[:, 0]).all()
        assert np.isnan(held[~own, k]).all()


def test_sets_of_two_classes():
    rng = np.random.default_rng(0)
    scores = rng.random((3000, 1)).astype(np.float32)
    truth = (rng.random(3000) < scores[:, 0]).astype(int)
    known = ClassSets.of(truth[:1000], scores[:1000])
    found = known.sets(scores[1000:], 0.9)
    assert found.shape == (2000, 2)
    assert found.any(axis=1).all()
    for number in (0, 1):
        own = truth[1000:] == number
        assert found[own, number].mean() == pytest.approx(0.9, abs=0.03)
    are_right, sizes = known.held_and_widths(truth[1000:], scores[1000:], 0.9)
    assert are_right.mean() == pytest.approx(0.9, abs=0.02)
    assert np.array_equal(sizes[:, 0], found.sum(axis=1))


def test_a_set_is_never_empty():
    truth = np.zeros(60, int)
    known = ClassSets.of(truth, np.full((60, 3), 0.9))
    found = known.sets(np.array([[0.3, 0.4, 0.3]]), 0.9)
    assert found.tolist() == [[False, True, False]]


def test_it_comes_back_from_json():
    known = Intervals.of(*drawn(100), [(0.0, None)])
    assert Intervals.from_dict(known.to_dict()) == known
    sets = ClassSets.of(*class_scores(200, 3))
    assert ClassSets.from_dict(sets.to_dict()) == sets
