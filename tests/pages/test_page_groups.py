"""Groups that err most and single mistakes on a page, by loops."""

import numpy as np
import pytest
from support.pages import TWO, pixels_of, weights_of

import nn
from nn.pages import task_blocks
from nn.test.errors import groups_that_err, row_losses
from nn.test.sureness import Held


def groups_by_loop(losses, members_of: dict, least: int, w) -> list:
    """Return the lines of groups that err clearly more than all, the clearest first. w:
    weights of the rows."""
    counting = [k for k in range(len(losses)) if w[k] > 0]
    mean = sum(losses[k] * w[k] for k in counting) / sum(w)
    deviation = (sum(w[k] * (losses[k] - mean) ** 2 for k in counting) / sum(w)) ** 0.5
    lines = []
    for (column, values), of_group in members_of.items():
        members = [k for k in of_group if w[k] > 0]
        if least <= len(members) < len(counting):
            rows = sum(w[k] for k in members)
            own_mean = sum(losses[k] * w[k] for k in members) / rows
            standard_error = deviation * sum(w[k] ** 2 for k in members) ** 0.5 / rows
            above = (own_mean - mean) / standard_error
            if above > 3:
                if isinstance(rows, int):
                    count = str(rows)
                else:
                    count = f"{rows:.1f}"
                line = [
                    column,
                    values,
                    count,
                    f"{own_mean:.4g}",
                    f"{own_mean / mean:.2f} times",
                ]
                lines.append((-above, line))
    return [line for _, line in sorted(lines)]


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_quarters_words_and_gaps_of_a_loss_three_standard_errors_above(
    weighted,
):
    rng = np.random.default_rng(8)
    x = rng.permutation(400).astype(float)
    word = np.where(x < 19, "few", np.where(x < 60, "bad", "good"))
    gap = np.where(rng.random(400) < 0.1, np.nan, rng.normal(size=400))
    columns = {"x": x, "word": word, "gap": gap, "y": x}
    ds = nn.load(columns, target="y")
    net = nn.Network("3,1", "regression")
    net.columns = ["x", "word", "gap"]
    errors = (
        rng.random(400)
        + 0.3 * (x < 19)
        + 0.6 * (x >= 300)
        + 0.5 * (word == "bad")
        + 0.7 * np.isnan(gap)
    )
    weights = weights_of(400) if weighted else None
    truth = np.zeros((400, 1))
    scores = errors[:, None]
    groups = task_blocks.groups(net, ds.x, truth, scores, weights)
    members_of = {("gap", "(missing)"): np.flatnonzero(np.isnan(gap))}
    for name in ("few", "bad", "good"):
        members_of["word", name] = np.flatnonzero(word == name)
    numbers_known = np.sort(gap[~np.isnan(gap)])
    cases = (
        ("x", x, np.quantile(x, [0, 0.25, 0.5, 0.75, 1])),
        ("gap", gap, np.quantile(numbers_known, [0, 0.25, 0.5, 0.75, 1])),
    )
    for column, values, edges in cases:
        for k in range(4):
            low = edges[k]
            high = edges[k + 1]
            if k < 3:
                is_below = values < high
            else:
                is_below = values <= high
            members = np.flatnonzero((values >= low) & is_below)
            members_of[column, f"{low:.4g} to {high:.4g}"] = members
    w = weights.tolist() if weighted else [1] * 400
    expected = groups_by_loop(errors, members_of, 20, w)
    assert len(expected) >= 2
    assert groups.lines == expected
    rows = f"{weights.sum():.1f}" if weighted else "400"
    mean = np.average(errors, weights=weights)
    assert groups.caption == f"groups of rows; all {rows}: {mean:.4g}"
    assert groups.headers == [
        "column",
        "values",
        "rows",
        "mean absolute error",
        "of all",
    ]


def test_a_group_needs_a_hundredth_of_the_rows_that_count():
    rows = 6000
    truth = np.zeros((rows, 1))
    x = np.arange(rows)[:, None].astype(np.float32)
    net = nn.Network("1,1", "regression")
    weights = np.where(np.arange(rows) < 3000, 1.0, 0.0)
    assert groups_that_err(net, x, truth, truth, weights).least == 30
    assert groups_that_err(net, x, truth, truth).least == 60


@pytest.mark.parametrize("weighted", [False, True])
def test_fifths_of_the_predictions_tell_what_the_intervals_of_their_rows_hold(weighted):
    rng = np.random.default_rng(4)
    rows = 100
    # the predictions of the second target fall
    scores = np.arange(rows, dtype=float)[:, None] * [1, -1]
    are_held = (rng.random((rows, 2)) < [0.8, 0.4]).astype(float)
    are_held[::5, 1] = np.nan  # of rows without the second target
    widths = rng.random((rows, 2))
    weights = rng.integers(1, 5, rows).astype(float)
    net = nn.Network("1,2", "regression")
    held = Held(0.9, are_held, widths)
    tables = task_blocks.sureness(net, held, scores, weights if weighted else None)
    for target, (table, order) in enumerate(zip(tables, (1, -1), strict=True)):
        known = np.flatnonzero(~np.isnan(are_held[:, target]))
        for line, part in zip(table.lines, np.split(known[::order], 5), strict=True):
            counts = weights[part] if weighted else np.ones(len(part))
            share = np.average(are_held[part, target], weights=counts)
            width = np.average(widths[part, target], weights=counts)
            assert float(line[1]) == counts.sum()
            assert line[2] == f"{100 * share:.1f} %"
            assert float(line[3]) == pytest.approx(width, rel=1e-3)


@pytest.mark.parametrize(
    "share, text",
    [
        (0.0, "0 %"),
        (0.004, "0.4 %"),
        (0.0123, "1 %"),
        (0.5, "50 %"),
        (0.99, "99 %"),
        (0.996, "99.6 %"),
        (1.0, "100 %"),
        (None, "undefined"),
    ],
)
def test_a_share_near_none_or_all_has_more_digits(share, text):
    assert task_blocks.percent_text(share) == text


def test_a_group_of_one_heavy_row_is_less_sure_than_its_weight():
    """Its mean's standard error, by the squares of its rows' shares."""
    rng = np.random.default_rng(2)
    word = np.where(np.arange(200) < 40, "bad", "good")
    weights = rng.choice([1.0, 2.0, 12.0], 200)
    truth = np.zeros((200, 1))
    scores = rng.random((200, 1)) + 0.9 * (word == "bad")[:, None]
    ds = nn.load({"word": word, "y": scores[:, 0]}, target="y")
    net = nn.Network("1,1", "regression")
    net.columns = ["word"]
    (group,) = groups_that_err(net, ds.x, truth, scores, weights).clear
    losses = scores[:, 0]
    mean = np.average(losses, weights=weights)
    deviation = np.sqrt(np.average((losses - mean) ** 2, weights=weights))
    shares = weights[:40] / weights[:40].sum()
    error = deviation * np.sqrt((shares**2).sum())
    expected = ((shares * losses[:40]).sum() - mean) / error
    assert group.column == "word"
    assert group.values == "bad"
    assert group.standard_errors == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "rows, bad, standard_errors, is_told",
    [
        (100, 20, 3.02, True),
        (100, 20, 2.98, False),
        (100, 19, 4.0, False),
        (3000, 29, 9.0, False),
        (3000, 30, 9.0, True),
    ],
)
def test_a_group_is_told_from_twenty_rows_a_hundredth_and_three_standard_errors(
    rows, bad, standard_errors, is_told
):
    """Errors are 1 and 3 by turns; those of the group are shifted until it lies so far
    above all."""
    word = np.array(["bad"] * bad + ["good"] * (rows - bad))
    base = np.where(np.arange(rows) % 2, 3.0, 1.0)

    def above(shift: float) -> float:
        losses = base + shift * (word == "bad")
        return (losses[:bad].mean() - losses.mean()) / (losses.std() / bad**0.5)

    low = 0.0
    high = 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if above(middle) < standard_errors:
            low = middle
        else:
            high = middle
    ds = nn.load({"word": word, "y": base}, target="y")
    losses = base + low * (word == "bad")
    net = nn.Network("1,1", "regression")
    net.columns = ["word"]
    truth = np.zeros((rows, 1))
    scores = losses[:, None]
    groups = task_blocks.groups(net, ds.x, truth, scores)
    if is_told:
        assert groups.lines[0][:3] == ["word", "bad", str(bad)]
        return
    least = max(20, rows // 100)
    assert groups.startswith(f"No group of at least {least} rows errs clearly more")


def losses_of(net, truth, scores) -> tuple:
    """Return what a page calls the loss of a row, and that of each."""
    rows = np.array(truth), np.array(scores, np.float32)
    losses = row_losses(net, *rows)
    told = task_blocks.groups(net, np.zeros((len(truth), 2)), *rows)
    label, _, mean = told.partition("than the rest (")[2].rpartition(" ")
    assert mean == f"{losses.mean():.4g})."
    return label, pytest.approx(losses, rel=1e-6)


def test_the_loss_of_a_row_is_its_log_loss_or_its_mean_absolute_error():
    probabilities = [0.8, 0.9, 1e-12]  # of the true class
    told = losses_of(TWO, [0, 1, 1], [[0.2], [0.9], [0.0]])
    assert told == ("log loss", -np.log(probabilities))
    three = nn.Network("2,3", "multiclass")
    told = losses_of(three, [2, 0], [[0.2, 0.5, 0.3], [0.1, 0.8, 0.1]])
    assert told == ("log loss", -np.log([0.3, 0.1]))
    linear = nn.Network("2,1:linear", "binary", loss="mse")
    linear.threshold = 0.4
    told = losses_of(linear, [0, 1, 1], [[0.4], [0.4], [0.39]])
    assert told == ("share of errors", [1, 0, 1])
    for loss, label in ((None, "mean absolute error"), ("mae", "MAE")):
        numbers_net = nn.Network("2,2", "regression", loss=loss)
        told = losses_of(numbers_net, [[1.0, 5.0]], [[3.0, 4.0]])
        assert told == (label, [1.5])
    counts = nn.Network("2,1:exp", "regression", loss="poisson")
    told = losses_of(counts, [[1.0]], [[np.e]])
    assert told == ("mean deviance", [2 * (np.e - 2)])
    labels = nn.Network("2,2", "multilabel")
    told = losses_of(labels, [[0.0, 1.0]], [[0.5, 0.5]])
    assert told == ("log loss", [np.log(2)])


def test_the_worst_mistakes_are_the_largest_losses_with_their_labels_and_pixels():
    rng = np.random.default_rng(9)
    x = rng.random((30, 1, 2, 3)) * 4 - 2
    truth = rng.integers(0, 3, 30)
    scores = rng.dirichlet(np.ones(3), 30)
    net = nn.Network("1x2x3,3", "multiclass")
    net.classes = ["a", "b", "c"]
    table = task_blocks.mistakes(net, x, truth, scores)
    order = sorted(range(30), key=lambda k: scores[k, truth[k]])[:12]
    rows = []
    for k in order:
        predicted = int(np.argmax(scores[k]))
        rows.append([str(k), "abc"[truth[k]], "abc"[predicted]])
    assert [line[1:] for line in table.lines] == rows
    for line, k in zip(table.lines, order, strict=True):
        low = x[k].min()
        high = x[k].max()
        expected = 255 * (x[k, 0] - low) / (high - low)
        assert np.array_equal(pixels_of(line[0]), expected.astype(np.uint8))


def test_true_and_predicted_values_near_a_thousand_million_are_told_apart():
    truth = np.array([[1_234_567_890.0], [2.0]])
    scores = truth + [[5.0], [0.5]]
    net = nn.Network("1x1x2,1", "regression")
    table = task_blocks.mistakes(net, np.zeros((2, 1, 1, 2)), truth, scores)
    texts = [line[2:] for line in table.lines]
    assert texts == [["1,234,567,890", "1,234,567,895"], ["2", "2.5"]]
