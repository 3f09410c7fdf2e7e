"""Rows divided into shares and folds, beside plain loops: what is drawn at random is
taken as drawn (tests/backends has the generator), where rows go is told here again."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import nn
from nn.core.random import STREAM_FOLDS, STREAM_HOLDOUT, STREAM_VALIDATION, shuffled
from nn.data.checks import check_any_weight
from nn.data.splits import fold_rows, folds_and_splits, most_folds, split_rows
from nn.utils import DataError, UsageError

KINDS = ["classes", "numbers", "groups", "times", "groups and times"]


def drawn(kind: str, seed: int) -> tuple[nn.Dataset, np.random.Generator]:
    """Return a small data set in which times and sizes of groups are often equal, some
    rows weigh nothing, and some repeat another."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    rows = int(rng.integers(12, 60))
    x = rng.normal(size=(rows, 2))
    facts = {}
    if "groups" in kind:
        facts["groups"] = rng.integers(0, rng.integers(4, 20), rows)
    if "times" in kind:
        facts["times"] = rng.integers(0, 25, rows) * 60.0
    if rng.random() < 0.3:
        facts["weights"] = rng.choice([0.0, 1.0, 2.5], rows, p=[0.2, 0.6, 0.2])
    if rng.random() < 0.3:
        facts["sets_of_twins"] = rng.integers(0, rows, rows)
    if kind == "numbers" or ("times" in kind and rng.random() < 0.5):
        return nn.Dataset(x, rng.normal(size=rows), "regression", **facts), rng
    y = rng.choice(3, rows, p=[0.6, 0.3, 0.1]).astype(np.int32)
    return nn.Dataset(x, y, "multiclass", ["a", "b", "c"], **facts), rng


def label(ds, row: int) -> int:
    return 0 if ds.classes is None else int(ds.y[row])


def numbered_groups(ds, rows: list[int]) -> list[list[int]]:
    """Return the rows of each group, in the order of the groups' numbers."""
    return [
        [row for row in rows if ds.groups[row] == group]
        for group in sorted({int(ds.groups[row]) for row in rows})
    ]


def time_of(ds, rows: list[int], row: int) -> float:
    """Return when a row is: where there are groups, when the last row of its own is."""
    if ds.groups is None:
        return ds.times[row]
    return max(ds.times[other] for other in rows if ds.groups[other] == ds.groups[row])


def plainly_taken(ds, rows: list[int], share: str, seed: int, stream: int) -> list[int]:
    share = Fraction(share)
    if not share or not rows:
        return []
    wanted = share * len(rows)
    if ds.groups is not None:
        groups = numbered_groups(ds, rows)
        order = shuffled(len(groups), seed, stream).tolist()
        if ds.times is not None:
            order = sorted(
                range(len(groups)), key=lambda g: -time_of(ds, rows, groups[g][0])
            )
        taken = []
        for group in order[:-1]:
            further = [*taken, *groups[group]]
            if abs(len(further) - wanted) < abs(len(taken) - wanted):
                taken = further
            elif ds.times is not None:
                break
        return sorted(taken)
    if ds.times is not None:
        in_time = sorted(ds.times[row] for row in rows)
        last = in_time[len(rows) - int(wanted) - 1]
        return [row for row in rows if ds.times[row] > last]
    taken = []
    in_order = [rows[place] for place in shuffled(len(rows), seed, stream)]
    for one in range(3):
        of_class = [row for row in in_order if label(ds, row) == one]
        taken += of_class[: int(share * len(of_class))]
    return sorted(taken)


def plainly_divided(ds, rows, holdout: str, validation: str, seed: int) -> list:
    """Return the rows that are trained on, that validate, and that are held out."""
    kept = []
    sets = set()
    for row in sorted(rows):
        if ds.weights is not None and ds.weights[row] == 0:
            continue
        if ds.sets_of_twins is not None and ds.sets_of_twins[row] in sets:
            continue
        if ds.sets_of_twins is not None:
            sets.add(ds.sets_of_twins[row])
        kept.append(row)
    held = plainly_taken(ds, kept, holdout, seed, STREAM_HOLDOUT)
    rest = [row for row in kept if row not in held]
    judging = plainly_taken(ds, rest, validation, seed, STREAM_VALIDATION)
    return [[row for row in rest if row not in judging], judging, held]


def plainly_folded(ds, rows: list[int], folds: int, seed: int, rare: bool):
    """Return (rows that are trained on, rows that are tested) of each fold; None where
    there are too few of something."""
    counts = [sum(label(ds, row) == one for row in rows) for one in range(3)]
    if ds.times is not None:
        times = [time_of(ds, rows, row) for row in rows]
        cuts = [
            sorted(times)[len(rows) * part // (folds + 1)]
            for part in range(1, folds + 1)
        ]
        part = {
            row: sum(cut <= time for cut in cuts)
            for row, time in zip(rows, times, strict=True)
        }
        if len({*part.values()}) <= folds:
            return None
        pairs = [
            (
                [row for row in rows if part[row] <= fold],
                [row for row in rows if part[row] == fold + 1],
            )
            for fold in range(folds)
        ]
    else:
        fold_of = {}
        if ds.groups is not None:
            groups = numbered_groups(ds, rows)
            order = shuffled(len(groups), seed, STREAM_FOLDS).tolist()
            filled = [0] * folds
            for group in sorted(order, key=lambda g: -len(groups[g])):
                fewest = filled.index(min(filled))
                filled[fewest] += len(groups[group])
                fold_of |= dict.fromkeys(groups[group], fewest)
            if len(groups) < folds:
                return None
        else:
            if ds.classes and not rare and any(0 < n < folds for n in counts):
                return None
            dealt = 0
            order = shuffled(len(rows), seed, STREAM_FOLDS)
            for one in range(3):
                for place in order:
                    alone = ds.classes and counts[one] < 2
                    if label(ds, rows[place]) == one and not alone:
                        fold_of[rows[place]] = dealt % folds
                        dealt += 1
            if dealt < folds:
                return None
        pairs = [
            (
                [row for row in rows if fold_of.get(row) != fold],
                [row for row in rows if fold_of.get(row) == fold],
            )
            for fold in range(folds)
        ]
    for trained, _ in pairs:
        known = {label(ds, row) for row in trained}
        if ds.classes and known != {label(ds, row) for row in rows}:
            return None
    return pairs


def as_lists(parts) -> list[list[int]]:
    return [part.tolist() for part in parts]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_divided_into_shares_as_by_plain_loops(kind):
    shares = ["0", "0.1", "0.25", "0.29", "0.5"]
    for seed in range(60):
        ds, rng = drawn(kind, seed)
        holdout, validation = rng.choice(shares, 2).tolist()
        given = None
        if rng.random() < 0.3:
            given = rng.permutation(ds.rows)[: ds.rows // 2]
        rows = range(ds.rows) if given is None else given.tolist()
        split = split_rows(ds, float(holdout), float(validation), seed, given)
        expected = plainly_divided(ds, rows, holdout, validation, seed)
        assert as_lists(split) == expected, (kind, seed)
        # a file of an earlier version was divided with rows of weight 0
        everyone = SimpleNamespace(**{**vars(ds), "weights": None})
        whole = split_rows(ds, float(holdout), 0.0, seed, given, keeps_weightless=True)
        assert as_lists(whole) == plainly_divided(everyone, rows, holdout, "0", seed)


def test_rows_that_all_weigh_nothing_are_counted_as_they_are_given():
    x = np.arange(9.0)[:, None]
    weights = np.array([0.0] * 7 + [1, 2])
    ds = nn.Dataset(x, x[:, 0], "regression", weights=weights)
    seven = np.arange(7)
    refused = {
        "7 rows": lambda: split_rows(ds, 0.2, 0.0, 0, seven),
        "7 validation rows": lambda: check_any_weight(weights, seven, "validation"),
        "6 rows": ds.of_rows(slice(6)).without_weightless,
    }
    for told, call in refused.items():
        with pytest.raises(
            DataError, match=f"--weight: the weights of all {told} are 0"
        ):
            call()


@pytest.mark.parametrize("rare", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_dealt_to_folds_as_by_plain_loops(kind, rare):
    refused = 0
    for seed in range(60):
        ds, rng = drawn(kind, seed)
        folds = int(rng.integers(2, 6))
        rows = np.sort(rng.permutation(ds.rows)[: rng.integers(12, ds.rows + 1)])
        expected = plainly_folded(ds, rows.tolist(), folds, seed, rare)
        if expected is None:
            refused += 1
            with pytest.raises(UsageError, match=f"--folds {folds}"):
                fold_rows(ds, rows, folds, seed, rare)
            continue
        dealt = fold_rows(ds, rows, folds, seed, rare)
        assert [(f.training.tolist(), f.tested.tolist()) for f in dealt] == expected
    assert refused < 45, "most cases can be dealt"


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_folds_are_those_that_can_be_dealt_with_four_rows_each(kind):
    for seed in range(40):
        ds, _ = drawn(kind, seed)
        rows = list(range(ds.rows))
        possible = [
            folds
            for folds in range(2, 9)
            if 4 * folds <= len(rows) and plainly_folded(ds, rows, folds, seed, True)
        ]
        assert most_folds(ds, np.arange(ds.rows), 8, seed) == max(
            possible, default=None
        )


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_a_fold_are_divided_as_those_of_a_training_alone(kind):
    divided = 0
    for seed in range(40):
        ds, _ = drawn(kind, seed)
        split = split_rows(ds, 0.2, 0.25, seed)
        rows = sorted(split.known.tolist())
        expected = plainly_folded(ds, rows, 3, seed, False)
        judged_by_fold = plainly_folded(ds, rows, 3, seed, True)
        if expected is not None:
            divided += 1
            pairs = folds_and_splits(ds, split, 3, seed, 0.25)
            for (trained, tested), (_, of_fold) in zip(expected, pairs, strict=True):
                training, judging, _ = plainly_divided(ds, trained, "0", "0.25", seed)
                assert as_lists(of_fold) == [training, judging, tested]
        if judged_by_fold is not None:
            pairs = folds_and_splits(ds, split, 3, seed, None)
            for (trained, tested), (_, of_fold) in zip(
                judged_by_fold, pairs, strict=True
            ):
                assert as_lists(of_fold) == [trained, tested, tested]
    assert divided > 10
