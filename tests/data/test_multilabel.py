"""Several yes/no targets: which columns are such, and what becomes of their fields."""

import numpy as np
import pytest
from sklearn import metrics

import nn
from nn.commands.predictions import prediction_table
from nn.utils import DataError, LayersMismatch, UsageError


def write(path, columns: dict) -> str:
    """Write columns of texts or numbers as a CSV file."""
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return str(path)


def made(rows: int = 60) -> dict:
    """Two columns of numbers, and bits that are not one-hot."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2)).round(3)
    bits = (x + rng.normal(size=(rows, 2)) > 0).astype(int)
    bits[:3] = [[1, 1], [0, 0], [1, 0]]
    return {"a": x[:, 0], "b": x[:, 1], "p": bits[:, 0], "q": bits[:, 1]}


WORDS = {
    "0/1": ("0", "1"),
    "yes/no": ("no", "yes"),
    "truths": ("False", "True"),
    "letters": ("N", "Y"),
}


@pytest.mark.parametrize("names", WORDS.values(), ids=WORDS)
def test_targets_that_are_all_yes_or_no_are_several_labels(tmp_path, names):
    columns = made()
    bits = np.stack([columns["p"], columns["q"]], axis=1)
    columns["q"] = [names[bit] for bit in columns["q"]]
    ds = nn.load(write(tmp_path / "t.csv", columns), target="p,q")
    assert ds.task == "multilabel"
    assert ds.labels == [["0", "1"], list(names)]
    assert ds.outputs == 2
    assert ds.classes is None
    assert ds.y.dtype == np.float32
    assert (ds.y == bits).all()


def test_one_hot_columns_stay_several_classes_unless_labels_are_asked_for(tmp_path):
    columns = made()
    columns["q"] = 1 - columns["p"]
    path = write(tmp_path / "t.csv", columns)
    assert nn.load(path, target="p,q").task == "multiclass"
    assert nn.load(path, target="p,q").classes == ["p", "q"]
    assert nn.load(path, target="p,q", task="multilabel").task == "multilabel"


def test_numbers_among_the_targets_stay_a_regression(tmp_path):
    columns = made()
    columns["q"] = np.arange(60) / 7
    assert nn.load(write(tmp_path / "t.csv", columns), target="p,q").task == (
        "regression"
    )


def test_a_regression_that_is_asked_for_has_bits_as_numbers(tmp_path):
    path = write(tmp_path / "t.csv", made())
    ds = nn.load(path, target="p,q", task="regression")
    assert ds.task == "regression"
    assert ds.labels is None


def test_any_two_classes_are_labels_where_they_are_asked_for(tmp_path):
    columns = made()
    columns["p"] = [[3, 7][bit] for bit in columns["p"]]
    columns["q"] = ["cat"] * 50 + ["dog"] * 10
    ds = nn.load(write(tmp_path / "t.csv", columns), target="p,q", task="multilabel")
    assert ds.labels == [["3", "7"], ["cat", "dog"]]
    assert ds.y[:, 1].sum() == 10, "the rarer one is positive"


def test_a_label_of_one_word_has_the_classes_of_another_target(tmp_path):
    columns = made()
    columns["p"] = [["no", "yes"][bit] for bit in columns["p"]]
    columns["q"] = ["no"] * 60
    ds = nn.load(write(tmp_path / "t.csv", columns), target="p,q")
    assert ds.labels == [["no", "yes"]] * 2
    assert not ds.y[:, 1].any()


POSITIVES = {  # --positive, or what Python takes -> the positive class of each target
    "no": ("1", "no"),
    "0": ("0", "yes"),
    "0.0,q=no": ("0", "no"),
    "q = no": ("1", "no"),
    "2=0,3=no": ("0", "no"),
    ("no", 0): ("0", "no"),
    (("p", 0), ("q", "no")): ("0", "no"),
}


@pytest.mark.parametrize("asked, positives", POSITIVES.items(), ids=map(str, POSITIVES))
def test_a_person_says_which_class_of_each_target_is_positive(
    tmp_path, asked, positives
):
    columns = made()
    columns["q"] = [["no", "yes"][bit] for bit in columns["q"]]
    columns["q"][5] = ""
    if asked[0] == ("p", 0):
        asked = dict(asked)
    path = write(tmp_path / "t.csv", columns)
    ds = nn.load(path, target="p,q", positive=asked)
    assert ds.labels == [
        sorted(["0", "1"], key=positives[0].__eq__),
        sorted(["no", "yes"], key=positives[1].__eq__),
    ]
    assert np.isnan(ds.y[5, 1])
    for target, name in zip("pq", positives, strict=True):
        of_file = [word != "" and str(word) == name for word in columns[target]]
        assert ((ds.y[:, "pq".index(target)] == 1) == of_file).all()


def test_targets_without_names_are_called_by_their_columns(tmp_path):
    lines = [f"{k * 7 % 11},{k % 5},{k % 2},{k // 3 % 2}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join([*lines, ""]))
    how = {"target": "2,3", "header": "no"}
    ds = nn.load(tmp_path / "t.csv", positive="2=0", **how)
    assert ds.labels == [["1", "0"], ["0", "1"]]
    with pytest.raises(UsageError, match="names both classes of column 2, 0 and 1"):
        nn.load(tmp_path / "t.csv", positive="2=0,2=1", **how)
    told = "the classes 0 and 1 of column 2, 0 and 1 of column 3"
    with pytest.raises(UsageError, match=told):
        nn.load(tmp_path / "t.csv", positive="5", **how)


def test_a_single_target_may_be_named_beside_its_positive_class(tmp_path):
    columns = made()
    columns["p"] = ["a=1" if bit else "b" for bit in columns["p"]]
    path = write(tmp_path / "t.csv", columns)
    for asked, positive in {"p=b": "b", "a=1": "a=1", "2=b": "b"}.items():
        ds = nn.load(path, target="p", drop="q", positive=asked)
        assert ds.classes[1] == positive, asked
        assert ds.y.sum() == columns["p"].count(positive)


@pytest.mark.parametrize(
    "asked, fault",
    [
        (
            "maybe",
            "--positive maybe: {} has the classes 0 and 1 of p, no and yes of q; ",
        ),
        ("q=0", "--positive q=0: {} has the classes"),
        ("r=no", "--positive r=no: {} has the classes"),
        ("no,q=yes", "names both classes of q, no and yes; name one of them"),
    ],
)
def test_words_that_are_no_positive_class_are_refused(tmp_path, asked, fault):
    columns = made()
    columns["q"] = [["no", "yes"][bit] for bit in columns["q"]]
    path = write(tmp_path / "t.csv", columns)
    with pytest.raises(UsageError) as refused:
        nn.load(path, target="p,q", positive=asked)
    assert fault.format(path) in str(refused.value)


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"q": ["a", "b", "c"] * 20}, "column q: 3 classes (a, b, c), expected two"),
        ({"q": ["no"] * 60}, "targets of one class only"),
        ({"q": np.arange(60)}, "column q: 60 classes"),
    ],
)
def test_targets_that_are_no_labels_are_refused_where_labels_are_asked_for(
    tmp_path, changes, fault
):
    path = write(tmp_path / "t.csv", made() | changes)
    with pytest.raises(DataError) as refused:
        nn.load(path, target="p,q", task="multilabel")
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


def test_one_target_is_no_several_labels(tmp_path):
    with pytest.raises(DataError, match="one target column, expected several"):
        nn.load(write(tmp_path / "t.csv", made()), target="p", task="multilabel")


def test_an_odd_word_among_numbers_is_named(tmp_path):
    columns = made()
    columns["q"] = [*columns["q"][:-1], "maybe"]
    with pytest.raises(DataError, match='column q: found "maybe", expected a number'):
        nn.load(write(tmp_path / "t.csv", columns), target="p,q")


def test_a_network_of_other_outputs_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", made())
    with pytest.raises(LayersMismatch, match="2 target columns of two classes"):
        nn.load(path, target="p,q", outputs=3)
    with pytest.raises(UsageError, match="an output for each target, at least 2"):
        nn.Network("2,1", "multilabel")


@pytest.fixture
def trained(tmp_path):
    """A model of two targets, the second one of words, and its data."""
    columns = made(200)
    columns["q"] = [["no", "yes"][bit] for bit in columns["q"]]
    path = write(tmp_path / "t.csv", columns)
    ds = nn.load(path, target="p,q")
    net = nn.Network.for_data(ds, "auto,4,2", seed=1)
    nn.train(net, ds, epochs=5)
    net.export(tmp_path / "m.bin")
    return nn.Network.load(tmp_path / "m.bin"), columns, tmp_path


def test_a_model_reads_its_labels_by_name_or_number(trained):
    net, columns, folder = trained
    assert net.labels == [["0", "1"], ["no", "yes"]]
    columns["p"] = [f"{bit}.0" for bit in columns["p"]]
    ds = nn.load_for(net, write(folder / "again.csv", columns))
    assert (ds.y[:, 0] == np.array(columns["p"], float)).all()
    assert (ds.y[:, 1] == (np.array(columns["q"]) == "yes")).all()
    columns["q"][7] = "perhaps"
    other = write(folder / "other.csv", columns)
    with pytest.raises(DataError) as refused:
        nn.load_for(net, other)
    told = 'row 9, column q: found "perhaps", expected no or yes'
    assert told in str(refused.value)


def test_the_loss_is_the_mean_of_bce_over_targets_and_rows(trained):
    net, _, folder = trained
    ds = nn.load_for(net, str(folder / "t.csv"))
    p = net.predict(ds.x).astype(np.float64)
    by_hand = -np.log(np.where(ds.y == 1, p, 1 - p)).mean()
    figures = nn.test(net, ds)
    assert net.loss == "bce"
    assert figures["log_loss"] == pytest.approx(by_hand, rel=1e-6)
    each = [target["log_loss"] for target in figures["per_target"]]
    assert np.mean(each) == pytest.approx(by_hand, rel=1e-6)


def test_labels_are_predicted_in_their_own_words(trained):
    net, columns, folder = trained
    rows = nn.load_for(net, str(folder / "t.csv")).x
    scores = net.predict(rows)
    predicted = nn.Model(net).predict(rows)
    assert predicted.shape == scores.shape == (200, 2)
    assert (predicted[:, 1] == np.where(scores[:, 1] >= 0.5, "yes", "no")).all()
    assert (predicted[:, 0] == np.where(scores[:, 0] >= 0.5, "1", "0")).all()
    # in a table beside the truth, which some rows lack
    columns["p"] = ["" if row == 5 else bit for row, bit in enumerate(columns["p"])]
    columns["q"][3] = ""
    ds = nn.load_for(net, write(folder / "gaps.csv", columns))
    table = prediction_table(net, ds)
    (block,) = table.blocks
    told = dict(zip(table.names, block, strict=True))
    for target, name in enumerate("pq"):
        assert told[f"true {name}"] == [str(bit) for bit in columns[name]]
        assert told[f"predicted {name}"] == predicted[:, target].tolist()


# ---- targets that are missing


def with_gaps(columns: dict) -> dict:
    """Return columns of which some rows lack a target, the last one both."""
    columns["p"] = ["" if row % 7 == 2 else bit for row, bit in enumerate(columns["p"])]
    columns["q"] = [
        "NA" if row % 5 == 1 else bit for row, bit in enumerate(columns["q"])
    ]
    columns["p"][-1] = columns["q"][-1] = ""
    return columns


def test_a_row_that_lacks_some_targets_stays(tmp_path):
    ds = nn.load(write(tmp_path / "t.csv", with_gaps(made())), target="p,q")
    rows = np.arange(60)
    lacking = np.stack([rows % 7 == 2, rows % 5 == 1], axis=1)
    lacking[-1] = True
    stays = ~lacking.all(axis=1)
    assert ds.task == "multilabel"
    assert ds.rows == 57
    assert ds.unlabelled == 3
    assert ds.about_unlabelled() == "left out: 3 rows without a target"
    assert (np.isnan(ds.y) == lacking[stays]).all()
    told = "rows without a target, which count for no loss of it: p (7), q (10)"
    assert told in ds.remarks


def test_one_hot_columns_with_gaps_stay_several_classes(tmp_path):
    columns = made()
    columns["q"] = 1 - columns["p"]
    ds = nn.load(write(tmp_path / "t.csv", with_gaps(columns)), target="p,q")
    assert ds.task == "multiclass"
    assert ds.rows == 60 - ds.unlabelled
    assert ds.unlabelled == 20


def test_metrics_of_a_target_are_those_of_the_rows_that_have_it(tmp_path):
    columns = with_gaps(made(300))
    path = write(tmp_path / "t.csv", columns)
    ds = nn.load(path, target="p,q")
    net = nn.Network.for_data(ds, "auto,8,2", seed=0)
    figures = nn.train(net, ds, epochs=20, learning_rate=0.02)
    assert figures["learned"]
    scores = net.predict(ds.x)
    ds.weights = np.arange(ds.rows) % 3 + 1.0
    found = nn.test(net, ds, intervals=True)
    for number, target in enumerate(found["per_target"]):
        known = ~np.isnan(ds.y[:, number])
        alone = (ds.y[known, number].astype(int), scores[known, number])
        weights = ds.weights[known]
        expected = metrics.roc_auc_score(*alone, sample_weight=weights)
        assert target["roc_auc"] == pytest.approx(expected, rel=1e-12)
        expected = metrics.log_loss(*alone, sample_weight=weights)
        assert target["log_loss"] == pytest.approx(expected, rel=1e-6)
        assert target["tp"] + target["fn"] == weights[alone[0] == 1].sum()
    wrong = (scores >= 0.5) != ds.y
    is_known = ~np.isnan(ds.y)
    all_right = ~(wrong & is_known).any(axis=1)
    assert found["accuracy"] == pytest.approx(np.average(all_right, weights=ds.weights))
    of_all = (ds.weights[:, None] * (wrong & is_known)).sum()
    of_all /= (ds.weights[:, None] * is_known).sum()
    assert found["hamming_loss"] == pytest.approx(of_all)
    for ends in found["intervals"].values():
        assert ends is not None


def test_the_baseline_of_effort_is_a_log_loss_of_targets_that_are_known(tmp_path):
    columns = with_gaps(made(300))
    columns["p"] = [bit if row % 2 else "" for row, bit in enumerate(columns["p"])]
    path = write(tmp_path / "t.csv", columns)
    model = nn.fit(path, target="p,q", effort="quick")
    assert model.metrics["baseline"] == pytest.approx(np.log(2), abs=0.03)


def test_a_target_that_no_row_of_a_test_has_is_undefined(tmp_path):
    ds = nn.load(write(tmp_path / "t.csv", made()), target="p,q")
    net = nn.Network.for_data(ds, "auto,2")
    ds.y[:, 1] = np.nan
    figures = nn.test(net, ds)
    assert figures["per_target"][1]["roc_auc"] is None
    assert figures["per_target"][1]["log_loss"] is None
    assert figures["f1"] == figures["per_target"][0]["f1"]


def test_the_one_target_of_a_row_cannot_be_missing_in_an_array():
    y = np.arange(9.0).reshape(9, 1)
    y[4] = np.nan
    ds = nn.Dataset(np.ones((9, 2), np.float32), y, "regression")
    with pytest.raises(DataError, match=r"y\[4, 0\]: found nan, expected a number"):
        nn.train(nn.Network.for_data(ds, "2,1"), ds)


# ---- arrays


def test_arrays_of_bits_are_labels_in_files_and_beside_images(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=(90, 3)) < 0.4).astype(int)
    x = rng.normal(size=(90, 4))
    np.savez(tmp_path / "a.npz", x=x, y=y)
    images = rng.integers(0, 255, (90, 8, 8), np.uint8)
    for ds in (
        nn.load(tmp_path / "a.npz"),
        nn.load(tmp_path / "a.npz", task="multilabel"),
        nn.load(images, y=y),
        nn.load(x, y=y),
    ):
        assert ds.task == "multilabel"
        assert ds.labels == [["0", "1"]] * 3
        assert (ds.y == y).all()
    net = nn.Network.for_data(nn.load(tmp_path / "a.npz"), "4,3")
    nn.train(net, nn.load(tmp_path / "a.npz"), epochs=1)
    assert (nn.load_for(net, tmp_path / "a.npz").y == y).all()
    np.savez(tmp_path / "b.npz", x=x, y=y + 1)
    with pytest.raises(DataError, match="other classes than the model's"):
        nn.load_for(net, tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=x, y=y * [1, 1, 0] + np.arange(3))
    with pytest.raises(DataError, match="target 3: 1 class .*expected two"):
        nn.load(tmp_path / "c.npz", task="multilabel")
    assert nn.load(tmp_path / "c.npz").task == "regression"
