"""Rows of weight 0 leave, and a row of weight 2 is the row twice, in every statistic of
the training rows."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight
from support.command_line import argv, run, succeed

import nn
from nn.core.weighted import median, quantiles
from nn.data import medians
from nn.data.column import Column
from nn.data.encoders import CategoryEncoder, NumberEncoder
from nn.data.kinds import NUMBER, Kind
from nn.data.loading import held_out
from nn.data.medians import medians_of
from nn.data.prepared import _class_weights
from nn.data.splits import split_rows
from nn.data.statistics import statistics_of
from nn.data.table_rows import TableRows
from nn.files import model_file
from nn.test.importance import curves
from nn.test.shapley import background_rows

MARK = -9999.0
QUICK = {"layers": "auto,8,1", "epochs": 3, "holdout": 0.0}


def table(rows=600, seed=0):
    """Return (x, y, weights): every fifth row has no label, but a mark, and the weight
    0."""
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(rows, 3))
    x = draws.astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5]) + 10
    weights = np.ones(rows)
    weights[::5] = 0
    y[::5] = MARK
    x[::5] *= 1000
    return x, y, weights


def written(path, x, y, weights):
    lines = ["a,b,c,w,target"]
    lines += [
        ",".join(map(repr, map(float, (*row, w, t))))
        for row, w, t in zip(x, weights, y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def same_networks(one, other):
    assert one.vector.tobytes() == other.vector.tobytes()
    for name in ("shift", "scale", "low", "high"):
        for kind in ("scaling", "target_scaling"):
            expected = getattr(getattr(other, kind), name).tolist()
            assert getattr(getattr(one, kind), name).tolist() == expected


def test_rows_of_weight_0_of_a_file_leave_before_anything_is_decided(tmp_path):
    x, y, weights = table()
    ds = nn.load(written(tmp_path / "all.csv", x, y, weights), weight="w")
    left = nn.load(
        written(
            tmp_path / "left.csv", *(array[weights > 0] for array in (x, y, weights))
        ),
        weight="w",
    )
    assert ds.rows == 480
    assert ds.weightless == 120
    assert left.weightless == 0
    assert ds.about_weightless() == "left out: 120 rows of weight 0"
    np.testing.assert_array_equal(ds.x, left.x)
    np.testing.assert_array_equal(ds.y, left.y)
    nets = []
    for dataset in (ds, left):
        net = nn.Network.for_data(dataset, QUICK["layers"])
        nn.train(net, dataset, clip=True, epochs=2)
        nets.append(net)
    same_networks(*nets)


def test_rows_that_have_left_and_those_that_leave_later_are_counted_together(tmp_path):
    path = written(tmp_path / "t.csv", *table())
    ds = nn.load(path, weight="w")
    ds.weights[:7] = 0
    assert ds.left_out_rows == {"weightless": 127}
    left = ds.without_weightless()
    assert (left.rows, left.weightless) == (473, 127)
    assert left.left_out_rows == {"weightless": 127}
    assert left.without_weightless() is left


def test_a_class_whose_rows_all_have_weight_0_is_no_class(tmp_path):
    lines = [
        "a,w,target",
        *(f"{i},{int(i % 3 > 0)},{['none', 'no', 'yes'][i % 3]}" for i in range(60)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    ds = nn.load(str(tmp_path / "t.csv"), weight="w")
    assert ds.task == "binary"
    assert ds.classes == ["no", "yes"]
    assert ds.rows == 40


@pytest.mark.parametrize("word", ["n/k", "inf"])
def test_odd_words_of_rows_of_weight_0_are_nobodys(tmp_path, word):
    lines = [
        "a,w,target",
        *(f"{i % 7},{int(i % 3 > 0)},{i * 1.5 if i % 3 else word}" for i in range(90)),
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    ds = nn.load(str(tmp_path / "t.csv"), weight="w", task="regression")
    assert ds.rows == 60
    assert ds.task == "regression"
    assert float(ds.y.max()) == 133.5


@pytest.mark.parametrize("layers", ["auto,8,1", None])
def test_an_estimator_is_that_of_the_rows_that_count(layers):
    x, y, weights = table()
    counts = weights > 0
    if layers:
        settings = {"layers": layers, "epochs": 2}
    else:
        settings = {"effort": "quick"}
    if layers is None:
        x = x[:60]
        y = y[:60]
        weights = weights[:60]
        counts = counts[:60]
    whole = nn.NetworkRegressor(**settings).fit(x, y, sample_weight=weights)
    left = nn.NetworkRegressor(**settings).fit(
        x[counts], y[counts], sample_weight=weights[counts]
    )
    expected = left.predict(x[counts])
    predictions = whole.predict(x[counts])
    np.testing.assert_array_equal(predictions, expected)


def test_a_classifier_has_the_classes_of_rows_that_count():
    x, _, weights = table(60)
    y = np.where(weights == 0, -9999, (x[:, 0] > 0).astype(int))
    model = nn.NetworkClassifier(layers="auto,4,1", epochs=2).fit(
        x, y, sample_weight=weights
    )
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="non-zero number"):
        nn.NetworkClassifier(layers="auto,4,1", epochs=2).fit(
            x, y, sample_weight=np.zeros(60)
        )


def test_the_command_leaves_them_out_and_says_how_many(tmp_path):
    path = written(tmp_path / "t.csv", *table())
    model = str(tmp_path / "m.bin")
    flags = argv("--weight w --layers auto,16,1 --epochs 200 --learning_rate 0.01")
    done = run("--train", "--dataset", path, "--model", model, *flags)
    assert "left out: 120 rows of weight 0" in done.out + done.err
    tested = nn.test(nn.Network.of_file(model), nn.load(path, weight="w"))
    assert tested["rows"] == 480
    assert tested["r2"] > 0.99


# --------------------------------------------------- a row of weight 2 is the row twice


def counted(rows=400, seed=1):
    """Return (weights of 1, 2 and 3, the rows as often as these say)."""
    draws = np.random.default_rng(seed).integers(1, 4, rows)
    weights = draws.astype(np.float64)
    repeated = np.repeat(np.arange(rows), weights.astype(int))
    return weights, repeated


@pytest.mark.parametrize("rows", [1, 2, 5, 50, 401])
def test_medians_and_quantiles_are_those_of_the_repeated_values(rows):
    rng = np.random.default_rng(rows)
    values = rng.normal(size=rows).round(1)
    weights, many = counted(rows)
    shares = np.linspace(0, 1, 12)
    assert median(values, weights) == np.median(values[many])
    expected = np.quantile(values[many], shares, method="inverted_cdf")
    assert quantiles(values, shares, weights).tolist() == expected.tolist()


def test_statistics_of_columns_are_those_of_the_repeated_rows():
    rng = np.random.default_rng(4)
    weights, many = counted(3000)
    often = np.where(rng.random(3000) < 0.55, 0.0, rng.gamma(2.0, size=3000).round(1))
    gaps = np.where(rng.random(3000) < 0.1, np.nan, rng.normal(size=3000))
    draws = rng.integers(0, 10**9, 3000)
    dates = draws.astype(np.float64)
    codes = np.minimum(rng.geometric(0.01, 3000), 900).astype(np.int32) - 2
    codes[codes == 4] = -1
    words = [f"w{i}" for i in range(900)]
    columns = [
        Column("number", often),
        Column("number", gaps),
        Column("date", dates),
        Column("text", codes, words),
    ]
    kinds = [NUMBER, NUMBER, Kind("date"), Kind("category")]
    x = TableRows(tuple(columns))
    statistics = statistics_of(x, kinds, np.arange(3000), counts=weights)
    reference = statistics_of(x, kinds, many)
    for one, other in zip(statistics[:3], reference[:3], strict=True):
        assert one.gap_share == pytest.approx(other.gap_share, rel=1e-12)
        assert one.median == other.median
        assert one.edges() == other.edges()
        assert one.edges(16) == other.edges(16)
        assert one.frequent() == other.frequent()
    assert statistics[0].edges()
    assert statistics[0].frequent()
    assert statistics[3].counts == reference[3].counts
    assert statistics[3].gaps == reference[3].gaps
    assert statistics[3].rows == reference[3].rows
    model = CategoryEncoder.fit(statistics[3])
    assert model == CategoryEncoder.fit(reference[3])
    one = NumberEncoder.fit(statistics[0])
    other = NumberEncoder.fit(reference[0])
    expected = (other.shift, other.scale)
    assert (one.shift, one.scale) == pytest.approx(expected, rel=1e-12)


def test_weights_that_are_no_numbers_of_rows_count_by_their_mean():
    codes = np.arange(60, dtype=np.int32) % 6
    words = list("abcdef")
    indices = np.arange(60.0)[:, None]
    ds = nn.load(indices, y=np.arange(60.0))
    ds.weights = np.full(60, 1 / 60)
    counts = ds.row_counts(np.arange(60))
    x = TableRows((Column("text", codes, words),))
    assert statistics_of(x, [Kind("category")], counts=counts)[
        0
    ].counts == pytest.approx(dict.fromkeys(words, 10.0))


# ----------------------------------------- what is told, and models of earlier versions

TRAINED = argv("--train --layers auto,4,1 --epochs 2 --weight w --model m.bin")


def without_fact(path):
    """Make a model file as an earlier version wrote it: rows of weight 0 stayed where
    its rows were divided."""
    tensors, facts = model_file.load(path)
    del facts["weightless_rows"]
    model_file.save(path, tensors, facts)
    return nn.Network.of_file(path)


def test_the_number_of_rows_left_out_is_a_key_of_json_and_a_fact_of_the_model(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "t.csv", *table())
    output = succeed(*TRAINED, "--dataset", "t.csv", "--json")
    assert output.json["left_out_rows"] == {"weightless": 120}
    assert (
        succeed("--info", "--model", "m.bin", "--json").json["weightless_rows"] == 120
    )
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert figures["left_out_rows"] == {"weightless": 120}
    assert figures["rows"] == 96
    assert figures["trained_rows"] == 0
    text = "".join(f"{i},{i % 4},{'' if i % 4 == 1 else i}\n" for i in range(40))
    (tmp_path / "u.csv").write_text("a,w,y\n" + text)
    both = succeed(*TRAINED, "--dataset", "u.csv", "--json").json["left_out_rows"]
    assert both == {"weightless": 10, "unlabelled": 10}


def test_without_such_rows_nothing_is_told_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y, weights = table()
    written(tmp_path / "t.csv", x, y, weights + 1)
    assert "left_out_rows" not in succeed(*TRAINED, "--dataset", "t.csv", "--json").json
    assert succeed("--info", "--model", "m.bin", "--json").json["weightless_rows"] == 0


def test_a_fit_of_an_estimator_tells_how_many_rows_it_left_out(caplog):
    x, y, weights = table(60)
    nn.NetworkRegressor(layers="auto,4,1", epochs=1).fit(x, y, weights)
    assert [line for line in caplog.messages if "weight 0" in line] == [
        "sample_weight: left out: 12 rows of weight 0"
    ]


def test_a_model_of_an_earlier_version_is_tested_on_rows_that_its_training_held_out(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    x, y, weights = table()
    written(tmp_path / "t.csv", x, y, weights)
    succeed(*TRAINED, "--dataset", "t.csv")
    new = held_out(nn.Network.of_file("m.bin"), "m.bin")
    net = without_fact("m.bin")
    old = held_out(net, "m.bin")
    # of all rows, as without weights
    ds = nn.load(x, y=y)
    drawn = split_rows(ds, 0.2, 0.0, net.seed).holdout
    np.testing.assert_array_equal(old.x, x[drawn])
    np.testing.assert_array_equal(old.weights, weights[drawn])
    assert len(new.x) == 96
    assert len(old.x) == 120
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert figures["trained_rows"] == 0
    assert figures["rows"] == np.count_nonzero(weights[drawn])
    whole = succeed("--test", "--model", "m.bin", "--dataset", "t.csv", "--json").json
    assert whole["trained_rows"] == 480


def test_rows_of_weight_0_count_in_no_test_importance_curve_or_background(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    x, y, weights = table()
    counts = weights > 0
    ds = nn.load(x, y=y)
    left = nn.load(x[counts], y=y[counts])
    ds.weights = weights
    left.weights = weights[counts]
    net = nn.Network.for_data(left, QUICK["layers"])
    nn.train(net, left, epochs=3, holdout=0.0)
    figures = nn.test(net, ds, intervals=True)
    of_left = nn.test(net, left, intervals=True)
    assert figures.pop("left_out_rows") == {"weightless": 120}
    assert figures.pop("trained_rows") == 480
    assert of_left.pop("trained_rows") == 480
    assert figures == of_left
    importance = nn.importance(net, ds)
    assert importance == nn.importance(net, left)
    indices = np.arange(0, 600, 2)
    parts = [(indices, None), (np.arange(1, 600, 2), None)]
    place = np.cumsum(counts) - 1
    parts_left = [(place[rows[counts[rows]]], None) for rows, _ in parts]
    importance = nn.importance(net, ds, parts=parts)
    assert importance == nn.importance(net, left, parts=parts_left)
    assert curves(net, ds, ["0", "1"]) == curves(net, left, ["0", "1"])
    again = nn.Network.for_data(ds, QUICK["layers"])
    nn.train(again, ds, epochs=1, holdout=0.0)
    # the others are a thousand times as large
    assert np.abs(again.background.x).max() < 100
    written(tmp_path / "t.csv", x, y, weights)
    succeed(*TRAINED, "--dataset", "t.csv")
    rows = background_rows(nn.Network.of_file("m.bin"))
    assert len(rows) == 100
    assert np.abs(rows.x).max() < 100


def test_the_median_of_many_rows_is_that_of_every_second_one_by_its_weight(monkeypatch):
    monkeypatch.setattr(medians, "MEDIAN_ROWS", 4)
    x = np.array([[1.0], [5.0], [2.0], [5.0], [3.0], [5.0], [9.0]], np.float32)
    weights = np.array([1.0, 9.0, 1.0, 9.0, 1.0, 9.0, 4.0])
    assert medians_of(x, weights=weights) == [9.0]


@pytest.mark.parametrize("door", ["train", "train_many", "folds", "fit"])
def test_rows_of_weight_0_that_a_file_has_are_told_once_by_each_training(
    tmp_path, caplog, door
):
    path = tmp_path / "w.csv"
    text = "".join(f"{row % 7},{row % 3 % 2},{row % 2}\n" for row in range(60))
    path.write_text("a,w,y\n" + text)
    if door == "fit":
        nn.fit(path, layers="auto,1", epochs=1, weight="w")
    else:
        ds = nn.load(path, weight="w")
        net = nn.Network.for_data(ds, "auto,1")
        if door == "train_many":
            nn.train_many(ds, [{"layers": "auto,1", "epochs": 1}])
        else:
            nn.train(net, ds, epochs=1, **({"folds": 3} if door == "folds" else {}))
    lines = [line for line in caplog.messages if "weight 0" in line]
    assert lines == [f"{path}: left out: 40 rows of weight 0"]
    if door == "train":
        caplog.clear()
        nn.train(net, nn.load_for(net, path), epochs=1)
        assert len([line for line in caplog.messages if "weight 0" in line]) == 1


@pytest.mark.parametrize("whole", [True, False])
def test_balanced_classes_have_the_weights_of_scikit_learn(whole):
    """Of repeated rows, and as those of which each counts a part."""
    rng = np.random.default_rng(3)
    y = rng.choice(3, 200, p=[0.7, 0.2, 0.1])
    weights = rng.integers(1, 5, 200) * (1 if whole else 0.3)
    x = rng.normal(size=(200, 2))
    ds = nn.Dataset(x, y, "multiclass", ["a", "b", "c"], weights=weights)
    rows = np.arange(20, 180)
    times = np.round(weights / weights.min()).astype(int)
    expected = compute_class_weight(
        "balanced", classes=np.arange(3), y=np.repeat(y[rows], times[rows])
    )
    assert _class_weights(ds, rows, "balanced") == pytest.approx(expected)
