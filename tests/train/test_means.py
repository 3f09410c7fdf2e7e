"""--target_means: means of the target by words, out of fold for the rows that are
trained on."""

from dataclasses import replace

import numpy as np
import pytest
from support.command_line import ONE, succeed
from support.packs import SEED, until_ended

import nn
from nn.core.random import STREAM_FOLDS, shuffled
from nn.data.encoding import Encoding
from nn.data.word_means import MEANS_PARTS, MOST_MEANS_TARGETS, SMOOTHING, WordMeans
from nn.train.plan import plan_of
from nn.utils import DataError, UsageError

ROWS = 300
WORDS = 40


def table(kind: str = "number", seed: int = 0) -> dict:
    """Rows of a word of many, with gaps, of a word of two, and of a number; the target
    is mostly the word's."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, WORDS, ROWS)
    x = rng.normal(size=ROWS)
    draws = rng.normal(size=WORDS)[codes]
    goal = draws + 0.3 * x
    y = {
        "number": goal,
        "two": (goal > 0).astype(int),
        "three": np.digitize(goal, [-0.5, 0.5]),
    }[kind]
    words = [None if code == 3 else f"w{code}" for code in codes]
    draws = rng.choice(["a", "b"], ROWS).tolist()
    return {"word": words, "few": draws, "x": x, "goal": y.tolist()}


def dataset(kind: str = "number", **fields) -> nn.Dataset:
    task = {"number": "regression", "two": "binary", "three": "multiclass"}[kind]
    ds = nn.load(table(kind), target="goal", task=task)
    return replace(ds, **fields)


def reader(ds: nn.Dataset, **settings) -> nn.Network:
    net = nn.Network.for_data(ds)
    settings = {"target_means": True, "holdout": 0.0, **settings}
    [trial] = plan_of(net, ds, settings, {}).trials
    net.prepared = trial.prepared
    return net


def inputs(ds: nn.Dataset, net: nn.Network) -> np.ndarray:
    """The means of the word in the records that the network is trained on (rows,
    means)."""
    records, *_ = replace(net.prepared, ds=ds).training_arrays()
    return records["numbers"][:, : net.encoding.encoders[0].targets]


@pytest.mark.parametrize("kind, means", [("number", 1), ("two", 1), ("three", 3)])
def test_new_rows_have_the_means_of_all_training_rows(kind, means):
    ds = dataset(kind)
    net = reader(ds)
    word, few, _ = net.encoding.encoders
    assert word.targets == means
    assert few.means == {}
    expected = set(ds.x.columns[0].words)
    assert set(word.means) == expected
    codes = ds.x.columns[0].values
    words = ds.x.columns[0].words
    if kind != "three":
        y = ds.y.reshape(ROWS, -1)
    else:
        y = np.eye(3)[ds.y]
    for target, own in enumerate(y.T.astype(float)):
        above = own - own.mean()
        shares_above = [
            above[codes == code].sum() / ((codes == code).sum() + SMOOTHING)
            for code in range(len(words))
        ]
        expected = shares_above / own.std()
        np.testing.assert_allclose(
            [word.means[one][target] for one in words], expected, rtol=1e-12, atol=1e-15
        )
    rows = {
        "word": ["w5", None, "unseen"],
        "few": ["a", "b", "c"],
        "x": [0.0, 1, 2],
        "goal": [0, 1, 2],
    }
    new = nn.load(rows, target="goal", task="regression", categories="word,few")
    numbers = net.encoding.apply(new.x, "float64")["numbers"]
    seen = numbers[:, :means]
    expected = [word.means["w5"], [0] * means, [0] * means]
    assert seen.tolist() == expected


@pytest.mark.parametrize("has_weights", [False, True])
def test_a_row_that_lacks_a_target_counts_for_no_mean_of_it(has_weights):
    columns = table()
    rng = np.random.default_rng(1)
    columns["other"] = (50 + 9 * rng.normal(size=ROWS)).tolist()
    for row in range(0, ROWS, 3):
        columns["other"][row] = None
    weight = rng.integers(1, 4, ROWS) if has_weights else None
    ds = nn.load(columns, target="goal,other", weight=weight)
    word, _, _ = reader(ds).encoding.encoders
    assert word.targets == 2
    counts = np.ones(ROWS) if weight is None else weight
    codes = ds.x.columns[0].values
    for target, own in enumerate(ds.y.astype(float).T):
        known = np.flatnonzero(~np.isnan(own))
        mean = np.average(own[known], weights=counts[known])
        deviation = np.average((own[known] - mean) ** 2, weights=counts[known]) ** 0.5
        for code, text in enumerate(ds.x.columns[0].words):
            rows = known[codes[known] == code]
            above = (counts[rows] * (own[rows] - mean)).sum()
            share = above / (counts[rows].sum() + SMOOTHING)
            assert word.means[text][target] == pytest.approx(share / deviation)


def test_the_own_target_is_no_input_of_a_row():
    ds = dataset()
    net = reader(ds)
    usual = inputs(ds, net)
    for row in (0, 7, 123):
        y = ds.y.copy()
        y[row] += 100
        changed = inputs(replace(ds, y=y), net)
        assert changed[row] == usual[row]
        assert (changed != usual).sum() > ROWS / 2
    numbers = net.encoding.apply(ds.x, net.dtype)["numbers"]
    every = numbers[:, :1]
    has_word = ds.x.columns[0].values >= 0
    assert (usual[has_word] != every[has_word]).mean() > 0.9
    assert not usual[~has_word].any()


def test_a_row_has_the_means_of_other_parts_by_weight_and_of_targets_that_are_known():
    """Rows of a part have one mean for a word, that of the rows elsewhere."""
    columns = table()
    columns["other"] = [None if row % 3 else row % 7 for row in range(ROWS)]
    weight = np.arange(ROWS) % 4 + 1
    ds = nn.load(columns, target="goal,other", weight=weight)
    net = reader(ds)
    means = inputs(ds, net)
    part = shuffled(ROWS, 0, STREAM_FOLDS, 1) % MEANS_PARTS
    codes = ds.x.columns[0].values
    for target, own in enumerate(ds.y.astype(float).T):
        for row in np.flatnonzero(codes >= 0)[::7]:
            rows = np.flatnonzero(~np.isnan(own) & (part != part[row]))
            mean = np.average(own[rows], weights=weight[rows])
            deviation = np.average((own[rows] - mean) ** 2, weights=weight[rows]) ** 0.5
            rows = rows[codes[rows] == codes[row]]
            above = (weight[rows] * (own[rows] - mean)).sum()
            share = above / (weight[rows].sum() + SMOOTHING)
            assert means[row, target] == pytest.approx(share / deviation, abs=1e-6)


def test_no_target_of_a_group_is_an_input_of_its_rows():
    groups = np.arange(ROWS) // 5
    ds = dataset(groups=groups)
    net = reader(ds)
    usual = inputs(ds, net)
    y = ds.y.copy()
    y[groups == 4] -= 50
    changed = inputs(replace(ds, y=y), net)
    assert (changed[groups == 4] == usual[groups == 4]).all()
    assert (changed != usual).sum() > ROWS / 2


def test_one_group_leaves_nothing_to_tell():
    ds = dataset(groups=np.zeros(ROWS))
    assert not inputs(ds, reader(ds)).any()


def test_rows_that_judge_have_the_means_of_all_training_rows():
    ds = dataset()
    net = reader(ds, validation=0.3)
    means = inputs(ds, net)
    numbers = net.encoding.apply(ds.x, net.dtype)["numbers"]
    every = numbers[:, :1]
    judged = net.prepared.split.validation
    assert len(judged) == 90
    assert (means[judged] == every[judged]).all()


def test_weights_count_and_the_unit_of_those_that_are_no_numbers_of_rows_does_not():
    draws = np.random.default_rng(1).integers(0, 3, ROWS)
    weights = draws.astype(float)
    fine = reader(dataset(weights=0.3 * weights)).encoding.encoders[0].means
    coarse = reader(dataset(weights=0.7 * weights)).encoding.encoders[0].means
    expected = {word: pytest.approx(mean) for word, mean in coarse.items()}
    assert fine == expected
    usual = reader(dataset(weights=weights)).encoding.encoders[0].means
    y = dataset().y.copy()
    y[weights == 0] = 1e6
    assert reader(dataset(weights=weights, y=y)).encoding.encoders[0].means == usual


def test_without_the_flag_and_for_few_words_or_many_targets_there_are_none():
    ds = dataset()
    for encoder in reader(ds, target_means=False).encoding.encoders:
        assert not encoder.means
    rng = np.random.default_rng(0)
    columns = table() | {"goal": rng.integers(0, MOST_MEANS_TARGETS + 1, ROWS).tolist()}
    many = nn.load(columns, target="goal", task="multiclass")
    assert many.outputs == MOST_MEANS_TARGETS + 1
    for encoder in reader(many).encoding.encoders:
        assert not encoder.means


def test_images_have_no_words():
    images = nn.Dataset(
        np.zeros((20, 1, 4, 4), np.uint8), np.arange(20) % 2, "binary", ["a", "b"]
    )
    with pytest.raises(UsageError, match="--target_means: is for words"):
        nn.train(nn.Network.for_data(images), images, target_means=True)


def test_the_model_keeps_them_and_refuses_damaged_ones():
    encoding = reader(dataset("three")).encoding
    kept = encoding.to_dict()
    assert Encoding.from_dict(kept, encoding.names) == encoding
    assert "means" not in kept["columns"][1]
    assert "means of the target" in encoding.encoders[0].summary()
    for damaged in (
        [],
        {"w1": [1.0]},
        {"w1": 1.0},
        {"w1": [0.0, 0.0, "a"]},
        {"w1": [float("nan")] * 3},
    ):
        means = kept["columns"][0]["means"]
        if isinstance(damaged, dict):
            wrong = means | damaged
        else:
            wrong = damaged
        columns = [kept["columns"][0] | {"means": wrong}, *kept["columns"][1:]]
        with pytest.raises(DataError, match="damaged encoding"):
            Encoding.from_dict(kept | {"columns": columns}, encoding.names)


# ---------------------------------------------------------------- the command


@pytest.fixture
def csv(folder):
    columns = table("two")
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)])
    (folder / "a.csv").write_text(text)
    return folder


def trained(folder, name: str, *flags) -> bytes:
    succeed("--train", "--dataset", "a.csv", "--model", name, "-q", *flags)
    return (folder / name).read_bytes()


@pytest.mark.slow
def test_the_choice_uses_them_and_its_flags_train_the_same(csv):
    figures = succeed(
        "--train", "--dataset", "a.csv", "--model", "m.bin", "--json", "--threads", 1
    ).json
    model = (csv / "m.bin").read_bytes()
    assert trained(csv, "n.bin", "--threads", 2) == model
    for candidate in figures["chosen"]:
        assert "--target_means" in candidate["flags"]
    net = nn.Model.load(csv / "m.bin").network
    for member in net.members:
        assert member.encoding.encoders[0].targets == 1
    flags = figures["chosen"][0]["flags"].split()
    alone = succeed(
        "--train", "--dataset", "a.csv", "--model", "n.bin", "--json", *flags
    ).json
    again = nn.Model.load(csv / "n.bin").network.members[0]
    assert alone["networks"] == 8
    assert (again.vector == net.members[0].vector).all()


def test_layers_alone_have_none(csv):
    assert b"target_means" not in trained(csv, "m.bin", *ONE[1:], "--epochs", 2)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "more", [{"folds": 3}, {"networks": 2, "validation": 0.2, "refit": True}], ids=str
)
@pytest.mark.parametrize("memory", [None, 100 << 20])
def test_a_stopped_training_goes_on_to_the_same_model(more, memory, csv, mapped):
    def trained(**how):
        ds = nn.load(csv / "a.csv", memory=memory)
        net = nn.Network.for_data(ds, "auto,8,1", seed=SEED, backend="omp")
        nn.train(net, ds, target_means=True, epochs=6, **more, **how)
        net.export(csv / "m.bin")
        return (csv / "m.bin").read_bytes()

    whole = trained()
    kept = csv / "state.nn"
    ended, stops = until_ended(
        lambda stop: trained(checkpoint=kept, resume="auto", stop=stop), 7, 30
    )
    assert stops > 1
    assert ended == whole


@pytest.mark.parametrize(
    "weights", [[1, 2, 3, 0, 1, 4, 2, 1], [0.5, 0.25, 1.5, 2.0, 0.5, 0.75, 1.0, 1.5]]
)
def test_weights_count_rows_in_the_means_of_words(weights):
    y = np.array([1.0, 5.0, -2.0, 7.0, 3.0, 0.5, 4.0, 9.0])
    codes = np.array([0, 0, 1, 1, 2, 0, -1, 1])
    words = ["a", "b", "c"]
    ds = nn.Dataset(np.zeros((8, 1)), y, "regression", weights=np.array(weights, float))
    w = np.array(weights, float)
    if (w != np.floor(w)).any():
        w = w / w.mean()
    mean = sum(w * y) / sum(w)
    total = sum(w * (y - mean) ** 2)
    deviation = (total / sum(w)) ** 0.5
    expected = {}
    for code, word in enumerate(words):
        rows_of_word = [k for k in range(8) if codes[k] == code]
        total = sum(w[k] * (y[k] - mean) for k in rows_of_word)
        expected[word] = [
            total / (sum(w[k] for k in rows_of_word) + SMOOTHING) / deviation
        ]
    means = WordMeans(ds, np.arange(8)).means_of_words(codes, words)
    assert means.keys() == expected.keys()
    for word in words:
        assert means[word] == pytest.approx(expected[word])
