"""--class_weight of several yes/no targets: each target has weights of its own two
classes, by the rows that have it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.class_weight import compute_class_weight
from support.command_line import run, succeed

import nn
from nn.data.prepared import _class_weights
from nn.utils import UsageError

# one step with all rows
STEP = {
    "optimizer": "sgd",
    "epochs": 1,
    "learning_rate": 0.5,
    "batch_number": 1000,
    "schedule": "constant",
    "holdout": 0.0,
    "scaling": "none",
}


def labels(rows=200, seed=0, weights=None):
    """Return rows of two noisy labels, the second one rare, with gaps."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = (x[:, :2] + rng.normal(size=(rows, 2)) > [0.0, 1.5]).astype(float)
    y[rng.random(y.shape) < 0.2] = np.nan
    y[np.isnan(y).all(axis=1)] = 0.0  # a row without any target would leave
    return nn.Dataset(
        x, y, "multilabel", targets=["p", "q"], weights=weights, columns=["a", "b", "c"]
    )


def trained(ds, layers="3,4:tanh,2", backend="seq", **flags):
    net = nn.Network(layers, "multilabel", dtype="float64", backend=backend)
    return net, nn.train(net, ds, **flags)


@pytest.mark.parametrize("weighted", [False, True])
def test_balanced_labels_have_the_weights_of_scikit_learn(weighted):
    """Of the training rows that have the target, each as often as it counts."""
    weights = np.random.default_rng(3).integers(0, 5, 200).astype(float)
    ds = labels(weights=weights if weighted else None)
    rows = np.arange(20, 180)
    found = _class_weights(ds, rows, "balanced")
    times = weights.astype(int) if weighted else np.ones(200, int)
    for k in range(2):
        own = np.repeat(ds.y[rows, k], times[rows])
        own = own[~np.isnan(own)]
        expected = compute_class_weight("balanced", classes=np.arange(2), y=own)
        assert found[k] == pytest.approx(expected)


def test_a_class_that_no_training_row_has_counts_as_it_is():
    ds = labels()
    rows = np.flatnonzero(~(ds.y[:, 1] == 1))
    assert _class_weights(ds, rows, "balanced")[1].tolist() == [1, 1]
    none_knows = np.flatnonzero(np.isnan(ds.y[:, 1]))
    assert _class_weights(ds, none_knows, "balanced")[1].tolist() == [1, 1]
    assert _class_weights(ds, none_knows, "1,3")[1].tolist() == [1, 3]


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("loss", ["bce", "focal=1.5"])
def test_positive_rows_of_weight_2_are_as_good_as_those_rows_twice(loss, backend):
    """Each target alone: without hidden layers the other one changes nothing."""
    ds = labels()
    weighted, _ = trained_by(loss, ds, backend, class_weight="1,2")
    for k in range(2):
        twice = np.concatenate([np.arange(200), np.flatnonzero(ds.y[:, k] == 1)])
        # the loss is the mean over all rows, also those that lack the target
        known = twice[~np.isnan(ds.y[twice, k])]
        share = (~np.isnan(ds.y[:, k])).mean()
        repeated = nn.Dataset(ds.x[known], ds.y[known], "multilabel")
        rate = STEP["learning_rate"] * share
        alone, _ = trained_by(loss, repeated, backend, learning_rate=rate)
        for name in ("layer0.weight", "layer0.bias"):
            ours, theirs = [net.parameters()[name][k] for net in (weighted, alone)]
            assert ours == pytest.approx(theirs, rel=1e-9)


def trained_by(loss, ds, backend, **flags):
    net = nn.Network("3,2", "multilabel", loss=loss, dtype="float64", backend=backend)
    return net, nn.train(net, ds, **{**STEP, **flags})


def test_two_numbers_are_those_of_each_target_whose_share_of_the_loss_stays():
    ds = labels()
    rows = np.arange(200)
    of_all = _class_weights(ds, rows, "2,6")
    assert (of_all == _class_weights(ds, rows, "2,6,2,6")).all()
    assert of_all == pytest.approx(_class_weights(ds, rows, "1,3"))
    assert of_all[:, 1] == pytest.approx(3 * of_all[:, 0])
    for k in range(2):
        own = ds.y[~np.isnan(ds.y[:, k]), k].astype(int)
        assert of_all[k][own].mean() == pytest.approx(1)
    of_each = _class_weights(ds, rows, "1,3,5,1")
    assert of_each[0] == pytest.approx(of_all[0])
    assert of_each[1, 0] == pytest.approx(5 * of_each[1, 1])


def test_weights_of_1_change_no_byte(tmp_path):
    for name, flags in (("a", {}), ("b", {"class_weight": "3,3"})):
        net, _ = trained(labels(), epochs=3, validation=0.25, **flags)
        net.export(tmp_path / name)
    nets = [nn.Model.load(tmp_path / name).network for name in "ab"]
    assert nets[0].vector.tobytes() == nets[1].vector.tobytes()
    assert nets[0].history["val_loss"] == nets[1].history["val_loss"]


@pytest.mark.parametrize(
    "asked, fault",
    [
        ("1,2,3", "3 numbers for 2 yes/no targets; give two, of the negative and"),
        ("1,2,0,0", "all training rows of target q have the weight 0; give its other"),
        ("1,-2", "expected none, balanced"),
    ],
)
def test_numbers_that_do_not_go_with_the_targets_are_refused(asked, fault):
    with pytest.raises(UsageError, match=fault):
        trained(labels(), epochs=1, class_weight=asked)


def test_a_loss_that_weighs_no_classes_is_refused():
    net = nn.Network("3,2:sigmoid", "multilabel", loss="mse")
    with pytest.raises(UsageError, match="is for --loss bce or focal, not mse"):
        nn.train(net, labels(), epochs=1, class_weight="balanced")


def write(path, ds) -> str:
    """Write rows as a table, whose words are no and yes."""
    words = np.array(["no", "yes", ""])
    frame = pd.DataFrame(ds.x, columns=ds.columns)
    for k, name in enumerate(ds.targets):
        frame[name] = words[np.nan_to_num(ds.y[:, k], nan=2.0).astype(int)]
    frame.to_csv(path, index=False)
    return str(path)


def row_log_losses(net, ds):
    """Return the log loss of each target of each row, nan where it is missing."""
    scores = net.predict(ds.x).astype(float)
    return np.where(
        np.isnan(ds.y), np.nan, -np.log(np.where(ds.y == 1, scores, 1 - scores))
    )


def test_a_loss_that_judges_has_the_weights_and_a_metric_does_not(folder):
    """As of one target: that of validation rows, of the constant beside them; not the
    log loss that chooses an epoch, and that of a test."""
    path = write(folder / "t.csv", labels())
    judging = write(folder / "v.csv", labels(90, seed=1))
    given = {"epochs": 4, "dtype": "float64", "validation": judging}
    net = nn.fit(
        path,
        target=["p", "q"],
        layers="auto,4:tanh,2",
        class_weight="1,4",
        monitor="log_loss",
        holdout=0.0,
        **given,
    )
    net = net.network
    figures = net.history
    ds, judged = [nn.load_for(net, name) for name in (path, judging)]
    weights = _class_weights(ds, np.arange(ds.rows), "1,4")
    losses = row_log_losses(net, judged)
    best = np.argmin(figures["val_metric"])
    metric = np.nanmean(losses, axis=0).mean()
    assert figures["val_metric"][best] == pytest.approx(metric)
    own = np.where(judged.y == 1, weights[:, 1], weights[:, 0])
    loss = np.where(np.isnan(losses), 0, losses * own).mean()
    assert figures["val_loss"][best] == pytest.approx(loss)
    assert loss != pytest.approx(metric, rel=0.05)
    assert nn.test(net, judging)["log_loss"] == pytest.approx(metric)


def test_networks_that_differ_in_it_train_together_as_each_alone():
    ds = labels()
    each = [{"class_weight": asked} for asked in ("none", "balanced", "1,4", "4,1")]
    flags = {"epochs": 3, "validation": 0.25}
    pairs = nn.train_many(ds, each, layers="3,4:tanh,2", **flags)
    vectors = set()
    for one, (net, result) in zip(each, pairs, strict=True):
        alone = nn.Network("3,4:tanh,2", "multilabel")
        expected = nn.train(alone, ds, **flags, **one)
        assert net.vector.tobytes() == alone.vector.tobytes()
        assert result["val_loss"] == expected["val_loss"]
        vectors.add(net.vector.tobytes())
    assert len(vectors) == len(each)


@pytest.mark.parametrize(
    "flags",
    [
        ("--effort", "quick"),
        ("--learning_rate", 0.05, "--layers", "auto,4,2", "--folds", 3),
    ],
)
def test_folds_and_effort_find_rare_labels_by_balanced_classes(flags, folder):
    path = write(folder / "t.csv", labels())
    given = ["--dataset", path, "--target", "p,q", "--epochs", 30, *flags, "-q"]
    succeed("train", *given, "--model", "n.bin")
    succeed("train", *given, "--class_weight", "balanced", "--model", "m.bin")
    told = [succeed("test", m, path, "--json").json for m in ("n.bin", "m.bin")]
    rare = [one["per_target"][1]["recall"] for one in told]
    assert rare[1] > rare[0] + 0.2
    succeed("train", "--init", "m.bin", path, "--epochs", 1, "--model", "o.bin")
    again = run("train", *given, "--class_weight", "1,2,3", "--model", "o.bin")
    assert again.code == 2
    assert "nn: --class_weight 1,2,3: 3 numbers for 2 yes/no targets" in again.err
    assert again.err.endswith("or two for each of p, q\n")
