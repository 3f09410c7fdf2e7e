"""What training rows decide: by their weights as by the rows themselves, and beside
plain loops."""

from collections import Counter

import numpy as np
import pytest

import nn
from nn.data.prepared import Prepared, RowSettings
from nn.data.splits import Split
from nn.data.statistics import (
    LEAST_OTHERS,
    MOST_REPEATED_VALUES,
    REPEATED,
    ROWS_A_PIECE,
    ROWS_A_VALUE,
    USUAL_VALUE_PIECES,
    NumberStatistics,
)

ROWS = 400


def words(rng, count: int) -> list:
    """Words of which some are rare, and gaps."""
    codes = np.minimum(rng.geometric(3 / count, ROWS), count)
    return [None if code == 2 else f"w{code}" for code in codes]


def inputs(kind: str, rng):
    if kind == "numbers":
        x = rng.normal(size=(ROWS, 3)).round(1)
        x[:, 1] = np.where(rng.random(ROWS) < 0.6, 7.0, x[:, 1])
        return x
    if kind == "images":
        return rng.normal(size=(ROWS, 2, 3, 4)).astype(np.float32)
    x = rng.normal(size=ROWS).round(2)
    gaps = np.where(rng.random(ROWS) < 0.2, np.nan, x**2)
    days = np.datetime64("2020-01-01") + rng.integers(0, 700, ROWS)
    return {
        "gaps": gaps,
        "sometimes": np.where(rng.random(ROWS) < 0.55, 0.0, x),
        "few": words(rng, 6),
        "many": words(rng, 40),
        "day": days.astype("datetime64[s]"),
        "truth": rng.choice(["yes", "no"], ROWS).tolist(),
    }


def data(kind: str, task: str, seed: int) -> nn.Dataset:
    rng = np.random.default_rng(seed)
    x = inputs(kind, rng)
    y = rng.choice(3, ROWS, p=[0.7, 0.2, 0.1])
    if task == "regression":
        y = rng.gamma(2.0, size=(ROWS, 2))
        y[rng.random(ROWS) < 0.3, 1] = np.nan
        if kind == "images":
            y = y[:, 0]
    if isinstance(x, dict):
        return nn.load(x, y=y, task=task)
    classes = None if task == "regression" else ["a", "b", "c"]
    return nn.Dataset(x, y if classes is None else y.astype(np.int32), task, classes)


def facts(ds: nn.Dataset, rows: np.ndarray, **more) -> list:
    """Return what some rows decide: encoding, scalings, medians, weights of classes."""
    is_image = ds.are_images
    settings = RowSettings(
        shape=ds.row_shape if is_image else ds.inputs,
        outputs=ds.outputs,
        output_function="linear" if ds.classes is None else "softmax",
        loss="mse" if ds.classes is None else "ce",
        dtype="float64",
        reference=False,
        **{
            "scaling": "standardization",
            "number_embedding": None,
            "target_means": False,
            "class_weight": "balanced" if ds.classes else "none",
            "clip": ds.classes is None,
            **more,
        },
    )
    nobody = np.zeros(0, np.int64)
    prepared = Prepared.of(ds, Split(rows, nobody, nobody), settings)
    reader = prepared.reader
    weights = prepared.class_weights
    return [
        reader.encoding and reader.encoding.to_dict(),
        reader.scaling.to_dict(),
        reader.medians,
        prepared.target_scaling and prepared.target_scaling.to_dict(),
        weights if weights is None else weights.tolist(),
    ]


def assert_alike(found, expected, place: str = "") -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for name in expected:
            assert_alike(found[name], expected[name], f"{place}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for number, pair in enumerate(zip(found, expected, strict=True)):
            assert_alike(*pair, f"{place}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), place
    else:
        assert found == expected, place


@pytest.mark.parametrize(
    "kind, more",
    [
        ("numbers", {}),
        ("numbers", {"scaling": "normalization"}),
        ("numbers", {"number_embedding": "pieces8"}),
        ("images", {}),
        ("table", {}),
        ("table", {"number_embedding": "pieces5", "target_means": True}),
        ("table", {"number_embedding": "waves4", "scaling": "none"}),
    ],
)
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_a_row_of_weight_3_decides_as_the_row_three_times(kind, more, task):
    for seed in range(3):
        ds = data(kind, task, seed)
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(ROWS)[:300])
        counts = rng.integers(1, 4, ROWS)
        repeated = np.repeat(rows, counts[rows])
        expected = facts(ds, repeated, **more)
        ds.weights = counts.astype(np.float64)
        assert_alike(facts(ds, rows, **more), expected)
        # of others than these nothing is known
        ds.weights[np.setdiff1d(np.arange(ROWS), rows)] = 1000.0
        assert_alike(facts(ds, rows, **more), expected)


def plain_edges(numbers: list[float], pieces: int | None) -> list[float]:
    rows = Counter(numbers)
    usual = [value for value, count in rows.items() if 2 * count > len(numbers)]
    others = sorted(value for value in numbers if value not in usual)
    if len(rows) < 3:
        return []
    if pieces is None:
        if len(rows) < 4 or not usual or len(others) < LEAST_OTHERS:
            return []
        pieces = min(USUAL_VALUE_PIECES, len(others) // ROWS_A_PIECE)
    ends = {others[0]}
    for piece in range(1, pieces + 1):
        below = -(-piece * len(others) // pieces)  # so many values at or below the end
        ends.add(others[below - 1])
    return sorted(ends.union(usual))


def plain_frequent(numbers: list[float]) -> list[float]:
    rows = Counter(map(np.float32, numbers))
    usual = [value for value, count in rows.items() if 2 * count > len(numbers)]
    others = {value: count for value, count in rows.items() if value not in usual}
    known = sum(others.values())
    if not usual or known < REPEATED or len(rows) <= USUAL_VALUE_PIECES + 1:
        return []
    often = {value: n for value, n in others.items() if n >= ROWS_A_VALUE}
    if 2 * sum(often.values()) < known:
        return []
    first = sorted(often, key=lambda value: (-often[value], value))
    return sorted(first[:MOST_REPEATED_VALUES])


@pytest.mark.parametrize("different", [2, 3, 47, 48, 49, 100])
@pytest.mark.parametrize("others", [3, 99, 100, 998, 1000, 1300])
def test_ends_of_pieces_and_frequent_values_are_those_of_plain_loops(others, different):
    """Of as many rows as decide, one less or more: half of all, a hundred, a thousand
    others; 49 values, ten rows of each, half of the others."""
    rng = np.random.default_rng(others + different)
    for usual in (others - 1, others, others + 1):
        for singles in (0, others // 2, others // 2 + 1):
            values = rng.permutation(1000)[:different] / 1000
            repeated = np.resize(values, others - singles)
            alone = 1 + rng.permutation(2000)[:singles] / 1000
            numbers = np.concatenate([repeated, alone, np.full(usual, 9.5)])
            numbers = rng.permutation(numbers)
            gaps = rng.integers(0, len(numbers), 7)
            statistics = NumberStatistics(np.insert(numbers, gaps, np.nan))
            assert statistics.gap_share == pytest.approx(7 / (7 + len(numbers)))
            assert statistics.median == np.median(numbers)
            known = numbers.tolist()
            for pieces in (None, 1, 2, 7, 16):
                assert statistics.edges(pieces) == plain_edges(known, pieces)
            assert statistics.frequent() == plain_frequent(known)
