"""Rows of equal inputs and target lie in one fold where they are copies, and one line
says how many there are."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import argv
from support.packs import data, network
from support.tables import csv_of

import nn
from nn.core import bootstrap
from nn.core.bootstrap import Sampling, intervals
from nn.core.metrics import Judged
from nn.data.splits import _fold_by_twins, fold_rows
from nn.data.twins import sets_of_twins, twins_to_keep_together
from nn.data.word_means import WordMeans
from nn.nn_aux import METRICS
from nn.pages import model_page
from nn.terminal.figures import ends_text, figure_text, rate_text
from nn.test.compare import Side, compared, compared_sides
from nn.test.out_of_fold import figures_out_of_fold, out_of_fold

ROWS = 200


def with_twins(task="binary", copies=20, times=2, **settings):
    """Return data of ROWS rows, of which the first `copies` stand at their end again,
    (times - 1) times."""
    ds = data(task, ROWS)
    rows = np.concatenate([np.arange(ROWS), *[np.arange(copies)] * (times - 1)])
    x = ds.x[rows]
    y = ds.y[rows]
    return nn.Dataset(x, y, task, ds.classes, **settings), rows


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("copies, times", [(20, 2), (5, 6), (3, 2)])
@pytest.mark.parametrize("folds", [2, 8])
def test_a_set_of_twins_lies_in_one_fold_and_classes_are_divided_evenly(
    task, copies, times, folds
):
    ds, of_row = with_twins(task, copies, times)
    rows = np.arange(ds.rows)
    folds_of_rows = fold_rows(ds, rows, folds, 3)
    fold = np.empty(ds.rows, int)
    for number, own in enumerate(folds_of_rows):
        fold[own.tested] = number
        assert not {*of_row[own.training]} & {*of_row[own.tested]}
    assert sum(len(own.tested) for own in folds_of_rows) == ds.rows
    for row in range(ROWS):
        assert len({*fold[of_row == row]}) == 1
    lengths = [len(own.tested) for own in folds_of_rows]
    assert np.ptp(lengths) <= len(ds.classes or [0])
    if ds.classes:
        counts = np.array([ds.class_counts(own.tested) for own in folds_of_rows])
        assert np.ptp(counts, axis=0).max() <= max(1, times)
    rows = np.arange(ds.rows)
    other = fold_rows(ds, rows, folds, 4)
    assert any(
        not np.array_equal(a.tested, b.tested)
        for a, b in zip(folds_of_rows, other, strict=True)
    )


def pairs_within(rows) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(rows).values())


def plainly_copies(x: list, y: list) -> bool:
    """Return whether rows (inputs, target) that are equal are copies of each other."""
    rows = Counter(zip(x, y, strict=True))
    if 100 * sum(count for count in rows.values() if count > 1) <= len(x):
        return False
    if 10 * sum(count == 1 for count in rows.values()) >= 9 * len(rows):
        return True
    disagree = 1 - pairs_within(zip(x, y, strict=True)) / pairs_within(x)
    shares = [count / len(y) for count in Counter(y).values()]
    return disagree <= 0.1 * (1 - sum(share**2 for share in shares))


def test_rows_are_copies_as_by_plain_counts():
    """Of tables that have a few copies, of coarse ones, and of those in which targets
    differ now and then."""
    found = Counter()
    for seed in range(300):
        rng = np.random.default_rng(seed)
        rows = int(rng.choice([60, 100, 200]))
        x = rng.integers(0, rng.choice([6, 40, 10_000]), rows)
        copies = int(rng.choice([0, 1, 2, rows // 10, rows // 2]))
        x[:copies] = x[rows - copies :]
        y = x % rng.choice([2, 3])
        noise = rng.random(rows) < rng.choice([0, 0.02, 0.05, 0.4])
        y = np.where(noise, rng.integers(0, 2, rows), y).astype(np.int32)
        ds = nn.Dataset(x[:, None].astype(float), y, "multiclass", ["a", "b", "c"])
        some = np.sort(rng.permutation(rows)[: rows - rng.integers(0, 3)])
        sets = twins_to_keep_together(ds, some)
        expected = plainly_copies(x[some].tolist(), y[some].tolist())
        assert (sets is not None) is expected, seed
        found[expected] += 1
    assert min(found.values()) > 50


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_sets_of_twins_are_dealt_to_folds_as_by_a_plain_loop(classes, seed):
    """Of each class the largest first, then as they were drawn: each to the fold with
    the fewest rows of the class, of equals to that with the fewest rows, as they are
    before rows without a twin."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 1, 1, 2, 3, 5], 60)
    of_set = rng.integers(0, classes, 60)
    sets = np.repeat(np.arange(60), sizes)[rng.permutation(sizes.sum())]
    labels = of_set[sets]
    order = rng.permutation(len(sets))
    order = order[np.argsort(labels[order], kind="stable")]
    drawn = [*dict.fromkeys(sets[order].tolist())]
    folds = 4
    filled = [0] * folds
    fold_of_set = {}
    for label in range(classes):
        in_class = [0] * folds
        rows = filled
        own = [one for one in drawn if of_set[one] == label]
        for one in sorted(own, key=lambda one: -sizes[one]):
            fold = min(range(folds), key=lambda f: (in_class[f], rows[f]))
            fold_of_set[one] = fold
            in_class[fold] += sizes[one]
            if sizes[one] > 1:
                rows = [a + b for a, b in zip(filled, in_class)]
        filled = [a + b for a, b in zip(filled, in_class)]
    expected = [fold_of_set[one] for one in sets.tolist()]
    assert _fold_by_twins(sets, labels, order, folds).tolist() == expected


def test_each_row_twice_is_noise_in_no_fold():
    ds, of_row = with_twins(copies=ROWS)
    for fold in fold_rows(ds, np.arange(ds.rows), 4, 0):
        assert not {*of_row[fold.training]} & {*of_row[fold.tested]}


def test_without_copies_folds_are_dealt_as_before():
    ds = data("binary", ROWS)
    sizes = []
    for fold in fold_rows(ds, np.arange(ROWS), 8, 0):
        sizes.append(len(fold.tested))
    assert sizes == [25] * 8


def test_rows_are_twins_by_all_columns_gaps_words_dates_and_the_target():
    rows = [
        ("red", 1.5, "2020-01-01", "a"),
        ("red", None, "2020-01-02", "b"),
        ("", -0.0, "", "a"),
    ]
    changed = [
        ("blue", 1.5, "2020-01-01", "a"),
        ("red", 1.25, "2020-01-01", "a"),
        ("red", 1.5, "2020-01-03", "a"),
        ("red", 1.5, "2020-01-01", "b"),
        ("red", 0.0, "2020-01-02", "b"),
    ]
    lines = [*rows, *changed, *rows[:2], ("", 0.0, "", "a")]
    names = ["word", "number", "day", "y"]
    columns = {}
    for place, name in enumerate(names):
        columns[name] = [line[place] for line in lines]
    ds = nn.load(columns, target="y")
    sets = sets_of_twins(ds, np.arange(len(lines)))
    expected = sets[-3:].tolist()
    assert sets[:3].tolist() == expected
    assert len({*sets}) == 8


def test_a_class_whose_rows_are_all_one_is_judged_by_no_fold():
    ds, _ = with_twins("binary", 12)
    ds.y = ds.y.copy()
    twins = [0, ROWS]
    ds.classes = ["a", "b", "c"]
    ds.task = "multiclass"
    ds.y[twins] = 2
    rows = np.arange(ds.rows)
    folds = fold_rows(ds, rows, 4, 0, rare=True)
    for fold in folds:
        assert {*twins} <= {*fold.training}


def test_twins_are_in_one_part_of_the_means_of_words():
    ds, of_row = with_twins("binary", 15)
    rows = np.arange(ds.rows)
    units = WordMeans(ds, rows)._units()
    lengths = []
    for row in range(ROWS):
        lengths.append(len({*units[of_row == row]}))
    assert lengths == [1] * ROWS
    assert len({*units}) == ROWS
    assert WordMeans(ds, np.arange(ROWS))._units().tolist() == list(range(ROWS))


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"folds": 3, "holdout": 0.0}, "twins lie in one fold"),
        ({"folds": 3, "holdout": 0.2}, "on both sides of a split"),
        ({}, "on both sides of a split"),
        ({"holdout": 0.0, "validation": 0.2}, "on both sides of a split"),
        ({"holdout": 0.0}, None),
        (
            {"folds": 2, "holdout": 0.0, "groups": np.arange(ROWS + 20) // 20},
            "on both sides of a split",
        ),
    ],
)
def test_one_line_tells_how_many_rows_have_a_twin(flags, words, caplog):
    ds, _ = with_twins(**{name: flags[name] for name in ("groups",) if name in flags})
    net = nn.Network("6,4,1", "binary", backend="omp")
    nn.train(
        net,
        ds,
        epochs=1,
        **{name: value for name, value in flags.items() if name != "groups"},
    )
    message = [text for text in caplog.messages if "twin" in text]
    assert len(message) == (words is not None)
    if words is not None:
        assert message[0].startswith("40 of 220 rows have a twin")
        assert words in message[0]


def table_with_twins(copies=20):
    """Return columns of ROWS rows with words, gaps and dates, of which the first
    `copies` stand at their end again."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=ROWS).round(3)
    words = rng.choice(["red", "blue"], ROWS)
    texts = []
    for row in range(ROWS):
        texts.append(f"2021-{1 + row // 28 % 12:02d}-{1 + row % 28:02d}")
    y = ["yes" if value > 0 else "no" for value in values]
    word = ["", *words[1:].tolist()]
    columns = {
        "value": [None, *values[1:].tolist()],
        "word": word,
        "day": texts,
        "name": ["left out"] * ROWS,
        "y": y,
    }
    return {name: [*column, *column[:copies]] for name, column in columns.items()}


DROPPING = {"layers": "auto,4,1", "epochs": 2, "drop_duplicates": True}


def parameters_of(model):
    return [member.parameters() for member in model.members]


@pytest.mark.parametrize(
    "flags",
    [
        {"folds": 3, "holdout": 0.0},
        {"folds": 3, "holdout": 0.0, "validation": "fold"},
        {"holdout": 0.2},
        {},
        {"validation": 0.2, "refit": True},
    ],
)
def test_a_training_without_duplicates_is_that_of_the_distinct_rows(flags, caplog):
    dropped = nn.fit(table_with_twins(), "y", **DROPPING, **flags)
    assert "left out: 20 rows that repeat another" in " ".join(caplog.messages)
    assert "twin" not in caplog.text
    distinct = nn.fit(
        table_with_twins(0), "y", **{**DROPPING, "drop_duplicates": None}, **flags
    )
    for one, other in zip(parameters_of(dropped), parameters_of(distinct), strict=True):
        for name in one:
            assert np.array_equal(one[name], other[name])
    assert dropped.metrics.pop("left_out_rows") == {"duplicate": 20}
    assert not {"left_out_rows", "twins"} & {*dropped.metrics, *distinct.metrics}
    of_times = {"seconds", "us_per_batch"}
    expected = {}
    for n, v in distinct.metrics.items():
        if n not in of_times:
            expected[n] = v
    assert {n: v for n, v in dropped.metrics.items() if n not in of_times} == expected


def test_the_count_of_twins_is_a_key_of_the_figures_and_its_line_names_the_cure(caplog):
    metrics = nn.fit(
        table_with_twins(), "y", layers="auto,4,1", epochs=1, folds=3, holdout=0.0
    ).metrics
    assert metrics["twins"] == 40
    assert "--drop_duplicates leaves out all but one of them" in caplog.text


def test_of_twins_the_first_that_counts_stays_with_its_own_weight(folder):
    x = [1, 1, 1, 2, 2, 3]
    w = [0, 2, 5, 1, 1, 1]
    y = [0, 0, 0, 1, 1, 0]
    columns = {"x": x, "w": w, "y": y}
    ds = nn.load(columns, target="y", weight="w", drop_duplicates=True)
    assert ds.rows == 5
    assert ds.weightless == 1
    assert ds.duplicates() == 2
    split = nn.ds.split_rows(ds, 0.0, 0.0, 0)
    assert split.training.tolist() == [0, 2, 4]
    assert ds.weights[split.training].tolist() == [2, 1, 1]
    ds.weights = np.array([0.0, 5, 1, 1, 1])  # set since
    assert nn.ds.split_rows(ds, 0.0, 0.0, 0).training.tolist() == [1, 2, 4]
    assert nn.ds.split_rows(ds, 0.0, 0.0, 0, [3, 2]).training.tolist() == [2]


def test_a_model_finds_the_rows_again_that_it_was_trained_on_and_held_out(folder):
    from support.command_line import succeed

    table = table_with_twins()
    columns = [["" if v is None else v for v in c] for c in table.values()]
    text = csv_of(list(table), columns)
    (folder / "t.csv").write_text(text)
    flags = ["--layers", "auto,4,1", "--epochs", 1, "--json"]
    trained = succeed(
        "--train", "--dataset", "t.csv", "--model", "m.bin", "--drop_duplicates", *flags
    ).json
    assert trained["rows"] + trained["holdout"] == ROWS
    assert trained["left_out_rows"] == {"duplicate": 20}
    held_out = succeed("test", "m.bin", "--json").json
    assert held_out["rows"] == trained["holdout"]
    assert held_out["trained_rows"] == 0
    whole = succeed("test", "m.bin", "t.csv", "--json").json
    net = nn.Network.load("m.bin")
    rows = nn.load_for(net, "t.csv")
    training_rows = nn.ds.split_rows(rows, net.holdout, 0.0, 0).training
    assert whole["rows"] == ROWS + 20
    expected = len(training_rows) + np.count_nonzero(training_rows < 20)
    assert whole["trained_rows"] == expected
    rows = succeed("predict", "m.bin", "t.csv", "--json").json["rows"]
    assert len(rows) == ROWS + 20
    folds = ["--folds", 3, "--holdout", 0]
    crossed = succeed(
        *argv("--train --dataset t.csv --model f.bin --drop_duplicates"), *folds, *flags
    ).json
    rows = succeed("test", "f.bin", "--json").json["rows"]
    assert sum(fold["rows"] for fold in crossed["folds"]) == rows == ROWS


def test_estimators_leave_duplicates_out_too(caplog):
    from sklearn.datasets import make_classification

    x, y = make_classification(100, 5, random_state=0)
    rows = np.concatenate([np.arange(100), np.arange(10)])
    settings = {"layers": "auto,4,1", "epochs": 2}
    estimator = nn.NetworkClassifier(**settings, drop_duplicates=True).fit(
        x[rows], y[rows]
    )
    assert "left out: 10 rows that repeat another" in caplog.text
    other = nn.NetworkClassifier(**settings).fit(x, y)
    assert np.array_equal(estimator.predict_proba(x), other.predict_proba(x))


def test_duplicates_among_images_are_refused(folder):
    with pytest.raises(nn.UsageError, match="--drop_duplicates: is for rows of tables"):
        nn.load(
            np.zeros((4, 3, 3), np.uint8),
            y=np.array([0, 1, 0, 1]),
            drop_duplicates=True,
        )


def test_a_checkpoint_of_a_training_with_duplicates_is_not_continued_without_them(
    folder,
):
    from support.command_line import run

    table = table_with_twins()
    columns = [["" if v is None else v for v in c] for c in table.values()]
    text = csv_of(list(table), columns)
    (folder / "t.csv").write_text(text)
    flags = argv(
        "--train --dataset t.csv --model m.bin --layers auto,4,1 --checkpoint c"
    )
    run(*flags, "--epochs", 1)
    done = run(*flags, "--epochs", 1, "--resume", "auto", "--drop_duplicates")
    assert done.code == 2
    assert "c was written with" in done.err
    assert "drop_duplicates" in done.err


def test_noise_with_twins_is_not_told_as_known(caplog):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    y = rng.integers(0, 2, 300).astype(np.int32)
    rows = np.concatenate([np.arange(300), np.arange(30)])
    ds = nn.Dataset(x[rows], y[rows], "binary", ["0", "1"])
    metrics = nn.fit(ds, effort="quick").metrics
    assert metrics["out_of_fold"]["roc_auc"] < 0.6
    texts = [text for text in caplog.messages if "twin" in text]
    assert len(texts) == 1


@pytest.mark.parametrize("flags, count", [([], 1), (["--time", "day"], 0)])
def test_a_date_among_the_inputs_and_no_time_is_told_in_one_line(flags, count, folder):
    from support.command_line import succeed

    days = []
    for number in range(120):
        days.append(f"2021-{1 + number // 28 % 12:02d}-{1 + number % 28:02d}")
    rng = np.random.default_rng(0)
    values = rng.normal(size=120).round(3)
    columns = [days, values, values * 2]
    text = csv_of(["day", "v", "y"], columns)
    (folder / "days.csv").write_text(text)
    for kind in (["--effort", "quick"], ["--layers", "auto,4,1"]):
        done = succeed(
            *argv("--train --dataset days.csv --model m.bin --epochs 1"), *kind, *flags
        )
        assert (
            done.err.count(
                "rows are divided at random; for a forecast of later days --time day"
            )
            == count
        )


@pytest.mark.usual(1)
@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_intervals_of_folds_draw_all_copies_of_a_row_at_once(task, monkeypatch):
    """Each row is there three times: its interval is wider by the root of three than if
    each told something new, which a thousand resamples know to some percent."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 1000)
    ds, _ = with_twins(task, ROWS, 3)
    nets = [network(task, seed) for seed in (1, 2)]
    for net in nets:
        nn.train(net, ds, folds=4, epochs=2, holdout=0.0)
    rows, _, scores = out_of_fold(nets[0], ds)
    found = figures_out_of_fold(nets[0], ds, intervals=True)["intervals"]
    if task == "binary":
        judged = Judged(task, ds.y, scores, folds=nets[0].crossed.of_row)
    else:
        judged = Judged(task, ds.y, scores)
    name = "mae" if task == "regression" else "brier"
    copies = Sampling(len(rows), groups=sets_of_twins(ds, rows))
    assert found[name] == intervals(judged, sampling=copies)[name]
    if task == "binary":
        assert found["roc_auc"] == intervals(judged, sampling=copies)["roc_auc"]
    important = SimpleNamespace(
        **{key: [0.1] for key in ("mean", "low", "high")},
        **{"metric": name, "baseline": 0.5, "names": ["a"], "holds": [False]},
        correlated=[],
    )
    page = model_page.page_of_model(
        nets[0],
        "m.bin",
        ds,
        out_of_fold=out_of_fold(nets[0], ds),
        important=(important, {}),
    )
    lines = {line[0]: line[2] for line in page.sections["Result"][0].lines}
    shown = figure_text if task == "regression" else rate_text
    assert lines[METRICS[name].label] == ends_text(found[name], shown)
    ratio = np.ptp(found[name]) / np.ptp(intervals(judged)[name])
    assert ratio == pytest.approx(3**0.5, rel=0.15)
    sides = [Side.of(net, ds, out_of_fold(net, ds)) for net in nets]
    apart = compared_sides(sides, ("a", "b"))["metrics"][name]
    new_sides = [side._replace(crossed=None) for side in sides]
    as_new = compared(new_sides, ("a", "b"))["metrics"][name]
    assert apart["difference"] == as_new["difference"]
    ratio = np.ptp(apart["interval"]) / np.ptp(as_new["interval"])
    assert ratio == pytest.approx(3**0.5, rel=0.15)
