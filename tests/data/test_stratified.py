"""Iterative stratification: rows of several labels in folds and shares."""

import numpy as np
import pytest

import nn
from nn.data.splits import dealt, fold_rows, split_rows


def labelled(rows: int = 300, seed: int = 0) -> nn.Dataset:
    """Rows of a frequent, a rare, a very rare label, and of one whose 0 is rare."""
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=(rows, 4)) < [0.4, 0.05, 0, 0.97]).astype(np.float32)
    y[rng.choice(rows, 5, replace=False), 2] = 1
    return nn.Dataset(rng.normal(size=(rows, 2)), y, "multilabel")


def test_a_rare_label_lies_in_every_fold_that_it_can():
    for seed in range(10):
        ds = labelled(seed=seed)
        folds = fold_rows(ds, np.arange(300), 5, seed)
        tested = [ds.y[fold.tested] for fold in folds]
        assert [len(each) for each in tested] == [60] * 5
        ones = np.array([each.sum(axis=0) for each in tested])
        zeros = np.array([(each == 0).sum(axis=0) for each in tested])
        assert (ones[:, 2] == 1).all(), "five rows in five folds"
        for counts in (ones[:, 0], ones[:, 1], zeros[:, 3]):
            assert np.ptp(counts) <= 1
        together = np.concatenate([fold.tested for fold in folds])
        assert (np.sort(together) == np.arange(300)).all()


def test_chance_would_leave_folds_without_the_rare_label():
    """Without which the test above could not fail."""
    ds = labelled()
    in_turn = np.arange(300) % 5
    found = [ds.y[in_turn == fold, 2].sum() for fold in range(5)]
    assert min(found) == 0


def test_shares_that_are_held_out_have_their_share_of_each_label():
    ds = labelled()
    split = split_rows(ds, 0.2, 0.25, seed=4)
    assert [len(part) for part in split] == [180, 60, 60]
    assert ds.y[split.holdout, 2].sum() == 1
    for part, share in ((split.holdout, 0.2), (split.validation, 0.2)):
        counts = ds.y[part].sum(axis=0)
        assert counts == pytest.approx(share * ds.y.sum(axis=0), abs=1)
    again = split_rows(ds, 0.2, 0.25, seed=4)
    for a, b in zip(split, again, strict=True):
        assert (a == b).all()
    other = split_rows(ds, 0.2, 0.25, seed=5)
    assert (other.holdout != split.holdout).any()


def test_twins_stay_in_one_fold():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).repeat(2, axis=0)
    y = (rng.uniform(size=(60, 2)) < 0.4).repeat(2, axis=0).astype(np.float32)
    ds = nn.Dataset(x, y, "multilabel")
    for fold in fold_rows(ds, np.arange(120), 4, 0):
        assert (fold.tested[::2] + 1 == fold.tested[1::2]).all()
        assert len(fold.tested) == 30


def test_the_rarest_label_is_dealt_first_to_the_part_that_lacks_most():
    """The paper's rule, a step at a time: of two rows of the rare label each part gets
    one, and the others follow what is then lacking."""
    labels = np.array([[1, 1], [1, 0], [1, 1], [0, 0], [0, 0], [0, 0], [0, 0]])
    part = dealt(labels, np.ones(7, np.int64), [0.5, 0.5], np.arange(7))
    assert part.tolist() == [0, 0, 1, 1, 0, 1, 0]


def plainly_dealt(labels, sizes, shares, order) -> list[int]:
    """Return the part of each unit by the rule of `dealt`, in loops."""
    rare = [set() for _ in sizes]
    for label, column in enumerate(labels.T):
        ones = sum(sizes[column == 1])
        zeros = sum(sizes[column == 0])
        rarer = 1 if ones <= zeros else 0
        for unit, value in enumerate(column):
            if value == rarer:
                rare[unit].add(label)
    every = -1  # which all units have
    names = [*range(labels.shape[1]), every]
    lacking = {}
    for name in names:
        rows = sum(
            size
            for size, of_unit in zip(sizes, rare, strict=True)
            if name == every or name in of_unit
        )
        lacking[name] = [share * rows for share in shares]
    part = [-1] * len(sizes)
    left = [unit for unit in order]
    while left:
        counts = {
            label: sum(label in rare[unit] for unit in left) for label in names[:-1]
        }
        known = [label for label, count in counts.items() if count]
        name = min(known, key=counts.get) if known else every
        for unit in [u for u in left if name == every or name in rare[u]]:
            part[unit] = max(
                range(len(shares)),
                key=lambda one: (lacking[name][one], lacking[every][one], -one),
            )
            for label in (*rare[unit], every):
                lacking[label][part[unit]] -= sizes[unit]
            left.remove(unit)
    return part


@pytest.mark.parametrize("shares", [[0.25] * 4, [0.75, 0.25], [0.5, 0.125, 0.375]])
@pytest.mark.parametrize("seed", range(4))
def test_units_are_dealt_as_by_a_plain_loop(shares, seed):
    rng = np.random.default_rng(seed)
    units = 60
    labels = (rng.uniform(size=(units, 3)) < [0.5, 0.1, 0.8]).astype(float)
    labels[rng.uniform(size=labels.shape) < 0.1] = np.nan
    sizes = rng.integers(1, 6, units)
    order = rng.permutation(units)
    expected = plainly_dealt(labels, sizes, shares, order.tolist())
    assert dealt(labels, sizes, shares, order).tolist() == expected


def test_a_label_that_is_not_known_counts_for_none():
    labels = np.array([[1.0], [np.nan], [np.nan], [1.0], [0.0], [0.0]])
    part = dealt(labels, np.ones(6, np.int64), [0.5, 0.5], np.arange(6))
    assert part[0] != part[3]
    assert np.bincount(part).tolist() == [3, 3]


def test_units_without_a_rare_label_are_dealt_by_their_rows():
    sizes = np.array([6, 1, 1, 1, 1, 1, 1])
    parts = dealt(np.zeros((7, 1)), sizes, [0.5, 0.5], np.arange(7))
    assert np.bincount(parts, sizes).tolist() == [6, 6]
    labels = np.array([[1], [1], [0], [0], [0], [0], [0], [0]])
    sizes = np.array([4, 2, 1, 1, 1, 1, 1, 1])
    parts = dealt(labels, sizes, [0.5, 0.5], np.arange(8))
    assert parts[0] != parts[1]
    assert np.bincount(parts, sizes).tolist() == [6, 6]
