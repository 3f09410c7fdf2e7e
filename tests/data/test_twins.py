"""Rows of equal inputs and target lie in one fold where they are copies, and one line says how many there are."""

import numpy as np
import pytest
from support.packs import data
from support.tables import csv_of

import nn
from nn.data.splits import fold_rows
from nn.data.twins import count_of_twins, sets_of_twins, twins_to_keep_together
from nn.train.means import WordMeans

ROWS = 200


def with_twins(task="binary", copies=20, times=2, **more):
    """Return data of ROWS rows, of which the first `copies` stand at their end again, (times - 1) times."""
    ds = data(task, ROWS)
    rows = np.concatenate([np.arange(ROWS), *[np.arange(copies)] * (times - 1)])
    return nn.Dataset(ds.x[rows], ds.y[rows], task, ds.classes, **more), rows


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("copies, times", [(20, 2), (5, 6), (3, 2)])
@pytest.mark.parametrize("folds", [2, 8])
def test_a_set_of_twins_lies_in_one_fold_and_classes_are_divided_evenly(task, copies, times, folds):
    ds, of_row = with_twins(task, copies, times)
    found = fold_rows(ds, np.arange(ds.rows), folds, 3)
    fold = np.empty(ds.rows, int)
    for number, own in enumerate(found):
        fold[own.tested] = number
        assert not {*of_row[own.training]} & {*of_row[own.tested]}
    assert sum(len(own.tested) for own in found) == ds.rows
    assert all(len({*fold[of_row == row]}) == 1 for row in range(ROWS))
    assert np.ptp([len(own.tested) for own in found]) <= len(ds.classes or [0])
    if ds.classes:
        counts = np.array([ds.class_counts(own.tested) for own in found])
        assert np.ptp(counts, axis=0).max() <= max(1, times)
    other = fold_rows(ds, np.arange(ds.rows), folds, 4)
    assert any(not np.array_equal(a.tested, b.tested) for a, b in zip(found, other, strict=True))


@pytest.mark.parametrize("copies, times, are_together", [
    (0, 1, False), (1, 2, False), (2, 2, True), (19, 2, True), (30, 2, False), (ROWS, 2, False),
])  # fmt: skip
def test_repeated_rows_are_copies_where_they_are_some_and_most_rows_are_single(copies, times, are_together):
    ds, _ = with_twins(copies=copies, times=times)
    sets = sets_of_twins(ds, np.arange(ds.rows))
    assert count_of_twins(sets) == 2 * copies and len({*sets}) == ROWS
    assert (twins_to_keep_together(ds, np.arange(ds.rows)) is not None) == are_together


def test_without_copies_folds_are_dealt_as_before():
    ds = data("binary", ROWS)
    sizes = [len(fold.tested) for fold in fold_rows(ds, np.arange(ROWS), 8, 0)]
    assert sizes == [25] * 8


def test_rows_are_twins_by_all_columns_gaps_words_dates_and_the_target():
    rows = [("red", 1.5, "2020-01-01", "a"), ("red", None, "2020-01-02", "b"), ("", -0.0, "", "a")]
    changed = [
        ("blue", 1.5, "2020-01-01", "a"), ("red", 1.25, "2020-01-01", "a"), ("red", 1.5, "2020-01-03", "a"),
        ("red", 1.5, "2020-01-01", "b"), ("red", 0.0, "2020-01-02", "b"),
    ]  # fmt: skip
    lines = [*rows, *changed, *rows[:2], ("", 0.0, "", "a")]
    names = ["word", "number", "day", "y"]
    ds = nn.load({name: [line[place] for line in lines] for place, name in enumerate(names)}, target="y")
    sets = sets_of_twins(ds, np.arange(len(lines)))
    assert sets[:3].tolist() == sets[-3:].tolist() and len({*sets}) == 8


def test_a_class_whose_rows_are_all_one_is_judged_by_no_fold():
    ds, _ = with_twins("binary", 12)
    ds.y = ds.y.copy()
    twins = [0, ROWS]
    ds.classes = ["a", "b", "c"]
    ds.task = "multiclass"
    ds.y[twins] = 2
    folds = fold_rows(ds, np.arange(ds.rows), 4, 0, rare=True)
    assert all({*twins} <= {*fold.training} for fold in folds)


def test_twins_are_in_one_part_of_the_means_of_words():
    ds, of_row = with_twins("binary", 15)
    found = WordMeans(ds, np.arange(ds.rows))._units()
    assert [len({*found[of_row == row]}) for row in range(ROWS)] == [1] * ROWS and len({*found}) == ROWS
    assert WordMeans(ds, np.arange(ROWS))._units().tolist() == list(range(ROWS))


@pytest.mark.parametrize("flags, words", [
    ({"folds": 3, "holdout": 0.0}, "twins lie in one fold"),
    ({"folds": 3, "holdout": 0.2}, "on both sides of a split"), ({}, "on both sides of a split"),
    ({"holdout": 0.0, "validation": 0.2}, "on both sides of a split"), ({"holdout": 0.0}, None),
    ({"folds": 2, "holdout": 0.0, "groups": np.arange(ROWS + 20) // 20}, "on both sides of a split"),
])  # fmt: skip
def test_one_line_tells_how_many_rows_have_a_twin(flags, words, caplog):
    ds, _ = with_twins(**{name: flags[name] for name in ("groups",) if name in flags})
    net = nn.Network("6,4,1", "binary", backend="omp")
    nn.train(net, ds, epochs=1, **{name: value for name, value in flags.items() if name != "groups"})
    told = [text for text in caplog.messages if "twin" in text]
    assert len(told) == (words is not None)
    if words is not None:
        assert told[0].startswith("40 of 220 rows have a twin") and words in told[0]


def test_noise_with_twins_is_not_told_as_known(caplog):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 4)).astype(np.float32), rng.integers(0, 2, 300).astype(np.int32)
    rows = np.concatenate([np.arange(300), np.arange(30)])
    told = nn.fit(nn.Dataset(x[rows], y[rows], "binary", ["0", "1"]), effort="quick").metrics
    assert told["out_of_fold"]["roc_auc"] < 0.6
    assert len([text for text in caplog.messages if "twin" in text]) == 1


@pytest.mark.parametrize("more, count", [([], 1), (["--time", "day"], 0)])
def test_a_date_among_the_inputs_and_no_time_is_told_in_one_line(more, count, folder):
    from support.command_line import succeed

    days = [f"2021-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}" for number in range(120)]
    values = np.random.default_rng(0).normal(size=120).round(3)
    (folder / "days.csv").write_text(csv_of(["day", "v", "y"], [days, values, values * 2]))
    for kind in (["--effort", "quick"], ["--layers", "auto,4,1"]):
        done = succeed("--train", "--dataset", "days.csv", "--model", "m.bin", "--epochs", 1, *kind, *more)
        assert done.err.count("rows are divided at random; for a forecast of later days --time day") == count
