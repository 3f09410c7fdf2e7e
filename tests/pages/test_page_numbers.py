"""Pages of numbers: predictions, errors and coverage by range, by loops."""

import numpy as np
import pytest
from support.pages import Drawing, pictures_of, tables_of, weights_of

import nn
from nn.pages import task_blocks
from nn.test import regression_report
from nn.test.errors import ranges


def numbers(targets: int, rows: int = 200):
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(rows, targets)) * 3
    return truth, truth + rng.normal(size=(rows, targets)) * 0.5 + 0.2 * np.arange(
        targets
    ) + 0.1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [1, 4])
def test_the_pictures_of_a_regression_are_predictions_and_errors_by_hand(
    targets, weighted
):
    truth, predicted = numbers(targets)
    weights = weights_of(200) if weighted else None
    net = nn.Network(f"2,{targets}", "regression")
    blocks = task_blocks.number_blocks(
        net, regression_report(truth, predicted), truth, predicted, weights
    )
    w = np.ones(200)
    if weighted:
        counting = weights > 0
        w = weights[counting]
        truth = truth[counting]
        predicted = predicted[counting]
    pictures = pictures_of(blocks)
    drawing = Drawing(pictures["predicted"])
    errors = predicted - truth
    wide = 0.02
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    assert np.allclose(
        drawing.points("r"), [[ends[0]] * 2, [ends[1]] * 2], atol=wide * 2
    )
    low = errors.min()
    high = errors.max()
    bins = int(len(truth) ** 0.5)
    shown = [f"output {k}" for k in range(min(targets, 3))]
    names = [line.name.partition(":")[0] for line in pictures["errors"].lines]
    assert names == shown
    names = [line.name for line in pictures["predicted"].lines]
    assert names == [*shown, "perfect prediction"]
    assert len(tables_of(blocks)) == len(shown)
    for k in range(len(shown)):
        expected = np.column_stack([truth[:, k], predicted[:, k]])
        points = drawing.points(f"dots s{k}")
        assert np.allclose(points, expected, atol=wide * 2)
        counts = np.zeros(bins)
        for error, weight in zip(errors[:, k], w, strict=True):
            counts[min(int((error - low) / (high - low) * bins), bins - 1)] += weight
        corners = Drawing(pictures["errors"]).points(f"a f{k} s{k}")
        assert np.allclose(corners[2 : 2 + 2 * bins : 2, 1], counts, atol=0.2)
        assert np.allclose(
            corners[1::2, 0][: bins + 1], np.linspace(low, high, bins + 1), atol=wide
        )
        mean = sum(errors[:, k] * w) / sum(w)
        deviation = (sum(w * (errors[:, k] - mean) ** 2) / sum(w)) ** 0.5
        name = pictures["errors"].lines[k].name
        assert name == f"output {k}: mean {mean:.3g}, deviation {deviation:.3g}"


@pytest.mark.parametrize(
    "rows, every, bins",
    [
        (50, 1, 10),
        (121, 1, 11),
        (1500, 1, 38),
        (1501, 2, 38),
        (3001, 3, 54),
        (4e3, 3, 60),
    ],
)
def test_of_more_rows_than_1500_some_are_dots_and_errors_have_up_to_sixty_bins(
    rows, every, bins
):
    truth = np.arange(int(rows) * 2.0).reshape(-1, 2)
    blocks = task_blocks.number_blocks(
        nn.Network("2,2", "regression"), {}, truth, truth[::-1], None
    )
    dots, errors, *_ = blocks
    for k in range(2):
        assert dots.lines[k].x == truth[::every, k].tolist()
        assert dots.lines[k].y == truth[::-1][::every, k].tolist()
        assert len(errors.lines[k].y) == bins


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_by_range_of_the_prediction_are_those_of_a_loop(weighted):
    truth, predicted = numbers(2)
    weights = weights_of(200) if weighted else None
    net = nn.Network("2,2", "regression")
    net.targets = ["u", "v"]
    tables = tables_of(
        task_blocks.number_blocks(
            net, regression_report(truth, predicted), truth, predicted, weights
        )
    )
    w = np.ones(200) if weights is None else weights
    counting = [row for row in range(200) if w[row] > 0]
    for k, name in enumerate("uv"):
        table = tables[f"errors of {name} by range of the prediction"]
        values = sorted(predicted[counting, k])
        edges = [np.quantile(values, at / 8) for at in range(9)]
        assert len(table.lines) == 8
        for at, line in enumerate(table.lines):
            high = edges[at + 1] if at < 7 else np.inf
            members = [row for row in counting if edges[at] <= predicted[row, k] < high]
            rows = sum(w[row] for row in members)
            pairs = sorted(
                (predicted[row, k] - truth[row, k], w[row]) for row in members
            )
            ends = []
            # the least error at or below which this share of the weights lies
            for share in (0.05, 0.95):
                passed = 0.0
                place = -1
                while passed < share * rows - 1e-9:
                    place += 1
                    passed += pairs[place][1]
                ends.append(pairs[place][0])
            errors = 0.0
            squares = 0.0
            for error, weight in pairs:
                errors += error * weight
                squares += error * error * weight
            count = f"{rows:.1f}" if weighted else str(len(members))
            assert line[0] == f"{edges[at]:.4g} to {edges[at + 1]:.4g}"
            assert line[1] == count
            assert line[2] == f"{errors / rows:.4g}"
            assert line[3] == f"{(squares / rows) ** 0.5:.4g}"
            assert line[4:] == [f"{ends[0]:.4g} to {ends[1]:.4g}"]


@pytest.mark.parametrize("weighted", [False, True])
def test_coverage_by_range_of_a_quantile_is_that_of_a_loop(weighted):
    """Whole numbers: many targets are their quantile, and not above it."""
    rng = np.random.default_rng(3)
    truth = np.repeat(rng.integers(0, 9, (200, 1)), 2, axis=1).astype(np.float64)
    predicted = truth + rng.integers(-2, 3, (200, 2))
    weights = weights_of(200) if weighted else None
    net = nn.Network("2,2", "regression", loss="quantile=.1,.5")
    net.targets = ["u"]
    blocks = task_blocks.number_blocks(net, {}, truth, predicted, weights)
    tables = tables_of(blocks)
    w = np.ones(200) if weights is None else weights
    assert "errors" not in pictures_of(blocks)
    for k, share_of in enumerate(("0.1", "0.5")):
        table = tables[f"coverage of u {share_of} by range of the prediction"]
        seen = 0.0
        for ends, count, share in table.lines:
            low, high = map(float, ends.split(" to "))
            is_last = ends == table.lines[-1][0]
            rows = 0.0
            covered = 0.0
            for row in range(200):
                value = predicted[row, k]
                if low <= value < high or (is_last and value == high):
                    rows += w[row]
                    covered += w[row] * (truth[row, k] <= value)
            assert count == (f"{rows:.1f}" if weighted else str(int(rows)))
            assert share == f"{100 * covered / rows:.1f} %"
            seen += rows
        assert seen == w.sum()


def test_errors_whose_squares_leave_float64_have_no_rmse_and_no_deviation():
    truth = np.linspace(1.0, 2.0, 16)[:, None] * 1e200
    blocks = task_blocks.number_blocks(
        nn.Network("2,1", "regression"), {}, truth, truth * 0.5, None
    )
    (table,) = tables_of(blocks).values()
    assert {line[3] for line in table.lines} == {"undefined"}
    expected = f"{-0.5 * truth[:2].mean():.4g}"
    assert next(line[2] for line in table.lines) == expected
    lines = pictures_of(blocks)["errors"].lines
    assert lines[0].name == "output 0: mean -7.5e+199, deviation undefined"


def test_ranges_hold_each_known_value_once_and_ties_together():
    values = np.array([1, 1, 1, 1, 1, 2, 3, 4, 5, np.nan, 6, 6])
    pairs = []
    for ends, own in ranges(values, 4):
        pairs.append((ends, values[own].tolist()))
    assert pairs == [
        ("1 to 2", [1.0] * 5),
        ("2 to 4.5", [2.0, 3.0, 4.0]),
        ("4.5 to 6", [5.0, 6.0, 6.0]),
    ]
    assert [*ranges(np.array([np.nan, np.nan]), 4)] == []
