"""--effort on images: small convolutional networks within a budget, chosen and stopped
by validation rows."""

import math
import statistics

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.packs import until_ended

import nn
from nn.data.splits import split_rows
from nn.files.checkpoint import Checkpoint
from nn.nn.model import packed
from nn.nn_aux import EFFORTS
from nn.train import candidates
from nn.train.candidates import multiply_adds
from nn.train.chosen import Tried, loss_of
from nn.train.effort import Effort
from nn.train.effort_plan import EffortPlan


def bars(count, side=8, mirrored=True):
    """Images with a bright line across or, `mirrored`, down; else at their left or
    right."""
    rng = np.random.default_rng(0)
    y = (np.arange(count) % 2).astype(np.int32)
    draws = rng.integers(0, 120, (count, 1, side, side))
    x = draws.astype(np.uint8)
    at = rng.integers(1, side - 1, count)
    for image, place, down in zip(x[:, 0], at, y, strict=True):
        if mirrored and not down:
            line = image[place]
        elif mirrored:
            line = image[:, place]
        elif down:
            line = image[:, -2]
        else:
            line = image[:, 1]
        line[:] = 200
    return nn.Dataset(x=x, y=y, task="binary", classes=["across", "down"])


def chosen(ds, checkpoint=None, stop=None, activation="relu", **settings):
    """(network, metrics) of the choice."""
    choice = Effort(ds, "quick", settings, {"threads": 1, "activation": activation})
    return choice.run(
        lambda *given, **options: nn.train(*given, **options, stop=stop),
        checkpoint=checkpoint,
    )


@pytest.mark.parametrize(
    "settings, of_network, seed",
    [({}, {}, 0), ({}, {"seed": 3}, 3), ({"split_seed": 5}, {"seed": 3}, 5)],
)
def test_rows_that_judge_are_drawn_by_the_seed_of_the_trainings(
    settings, of_network, seed
):
    ds = bars(200)
    plan = EffortPlan(ds, "quick", {"holdout": 0.25, **settings}, of_network)
    split = split_rows(ds, 0.25, 0.2, seed)
    assert plan.validation_rows(0.2).tolist() == split.validation.tolist()
    assert plan.rows.tolist() == split_rows(ds, 0.25, 0.0, seed).training.tolist()


def test_the_figures_of_validation_rows_are_of_calibrated_scores(monkeypatch):
    monkeypatch.setattr(candidates, "MOST_EPOCHS", 4)
    _, figures = chosen(bars(200), calibrate="temperature")
    for name in ("log_loss", "brier"):
        before, after = figures["calibration"][name]
        assert before != pytest.approx(after, rel=1e-3)
        assert figures["validated"][name] == pytest.approx(after)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(candidates, "MOST_EPOCHS", 40)
    monkeypatch.setattr(candidates, "TRIAL_IMAGES", 6000)


SIZES = {
    "fashion": (20_000, (1, 28, 28)),
    "cifar": (4000, (3, 32, 32)),
    "mnist": (60_000, (1, 28, 28)),
    "digits": (1797, (1, 8, 8)),
}


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("name", SIZES)
def test_the_candidates_fit_the_budget_or_are_as_short_as_can_be(name, effort):
    rows, shape = SIZES[name]
    x = np.broadcast_to(np.uint8(0), (rows, *shape))
    ds = nn.Dataset(
        x=x,
        y=(np.arange(rows) % 10).astype(np.int32),
        task="multiclass",
        classes=[*"0123456789"],
    )
    found = EffortPlan(ds, effort, {}, {}).candidates()
    trials = [candidate for candidate, *_ in found if candidate.is_trial]
    tried = [candidate for candidate, *_ in found if not candidate.is_trial]
    assert len(trials) in (0, 2)
    assert len(tried) == (2 if effort == "best" else 1)
    for candidate in tried:
        assert candidate.networks >= 2
    shortest = all(
        candidate.networks == 2 and candidate.epochs == 4 for candidate in tried
    )
    assert (
        shortest
        or sum(cost for *_, cost in found) <= candidates.CONVOLVED * EFFORTS[effort]
    )
    augments = {trial.augment for trial in trials}
    assert augments in (set(), {"none", "mirror"}, {"shift", "both"})


@pytest.mark.parametrize(
    "shape, layers",
    [
        ((1, 28, 28), "conv24k3same,maxpool2,conv48k3same,maxpool2,conv96k3same,"),
        (
            (3, 32, 32),
            "conv24k3same,maxpool2,conv48k3same,maxpool2,conv96k3same,maxpool2,",
        ),
        (
            (3, 224, 200),
            "avgpool6,conv24k3same,maxpool2,conv48k3same,maxpool2,conv96k3same,maxpool2,",
        ),
        ((1, 4, 4), "conv24k3same,conv48k3same,conv96k3same,"),
        ((2, 1, 30), "conv24k3same,conv48k3same,conv96k3same,"),
    ],
)
def test_layers_fit_the_size_of_the_images(shape, layers):
    ds = nn.Dataset(
        x=np.zeros((60, *shape), np.uint8), y=np.arange(60) / 60.0, task="regression"
    )
    (*_, (candidate, net, _)) = EffortPlan(ds, "quick", {}, {}).candidates()
    assert candidate.layers(ds) == f"{'x'.join(map(str, shape))},{layers}dropout0.3,1"
    assert net.layers[-1].outputs == 1


@pytest.mark.slow
@pytest.mark.parametrize("mirrored", [True, False])
def test_images_are_mirrored_where_validation_rows_are_none_the_worse_for_it(
    mirrored, short
):
    ds = bars(300, mirrored=mirrored)
    net, metrics = chosen(ds)
    (flags,) = [candidate["flags"] for candidate in metrics["chosen"]]
    assert "conv24k3same" in flags
    assert f"--augment {'both' if mirrored else 'shift'}" in flags
    assert metrics["tried"] == 1
    assert len(net.members) == metrics["networks"] == 2
    assert metrics["validated"]["accuracy"] > 0.95
    assert metrics["learned"] is True
    predictions = net.predict(ds.x)[:, 0]
    assert np.mean((predictions > 0.5) == ds.y) > 0.95


def test_settings_that_are_given_hold_and_nothing_is_tried_for_them():
    net, metrics = chosen(bars(100), augment="mirror", epochs=2, activation="tanh")
    (flags,) = [candidate["flags"] for candidate in metrics["chosen"]]
    assert "--augment mirror" in flags
    assert "--epochs 2 " in flags
    assert "conv24k3same:tanh" in flags
    assert net.config["augment"] == "mirror"
    assert "augment" not in net.config["chosen"]


def test_every_door_trains_the_same_and_flags_that_are_told_the_same_networks(folder):
    ds = bars(100)
    np.savez("bars.npz", x=ds.x, y=ds.y)
    command = ["--train", "--dataset", "bars.npz", "--threads", 2, "--json"]
    own = argv("--model m.bin --effort quick --checkpoint c.ck --epochs 3")
    report = succeed(*command, *own).json
    model = nn.fit("bars.npz", effort="quick", threads=1, epochs=3)
    model.save("fit.bin")
    assert (folder / "fit.bin").read_bytes() == (folder / "m.bin").read_bytes()
    succeed(*command, "--model", "again.bin", *report["chosen"][0]["flags"].split())
    predictions = nn.Model.load("again.bin").network.predict(ds.x)
    assert np.array_equal(predictions, model.network.predict(ds.x))
    for flags in (["--test"], [*command, "-o", "o.csv"]):
        refused = run(*flags, "--model", "m.bin")
        assert refused.code == 2
        assert refused.err.count("\n") == 1


@pytest.mark.slow
def test_a_choice_that_is_stopped_again_and_again_ends_at_the_same_bytes(
    tmp_path, short
):
    ds = bars(60)
    state = tmp_path / "state.nn"
    whole, _ = chosen(ds)
    (net, _), stops = until_ended(
        lambda stop: chosen(ds, Checkpoint(state, resume="auto"), stop), 60, 1
    )
    assert stops > 2
    assert packed(net) == packed(whole)


@pytest.mark.parametrize(
    "x, why",
    [((6, 1, 4, 4), "6 images are too few"), ((40, 16), "without height and width")],
)
def test_images_get_one_network_unless_effort_is_asked_for(x, why, folder):
    indices = np.arange(x[0])
    np.savez("images.npz", x=np.zeros(x, np.uint8), y=indices % 2)
    command = ["--train", "--dataset", "images.npz", "--model", "m.bin", "--epochs", 1]
    result = succeed(*command, "--json")
    assert "effort" not in result.json
    assert why in result.err
    refused = run(*command, "--effort", "quick")
    assert refused.code == 2
    assert why in refused.err


@pytest.mark.long
@pytest.mark.parametrize(
    "train, test, least, least_of_all",
    [
        (
            "fashion/train20k-images-idx3-ubyte.gz",
            "fashion/t10k-images-idx3-ubyte.gz",
            0.91,
            0.9,
        ),
        (
            "cifar10/cifar10_train_4000.bin.gz",
            "cifar10/cifar10_test_1000.bin.gz",
            0.65,
            0.63,
        ),
        (
            "mnist/train-images-idx3-ubyte.gz",
            "mnist/t10k-images-idx3-ubyte.gz",
            0.99,
            0.985,
        ),
    ],
)
def test_images_are_recognised_without_a_flag(train, test, least, least_of_all, shared):
    models = [nn.fit(shared / "data" / train, seed=seed) for seed in range(3)]
    accuracy = [model.test(shared / "data" / test)["accuracy"] for model in models]
    assert statistics.mean(accuracy) >= least
    assert min(accuracy) >= least_of_all


def test_the_loss_of_validation_rows_is_the_least_of_the_epochs_that_have_one():
    net = nn.Network("2,1")
    validated = {"val_metric": [0.5, None, 0.25, 0.375]}
    assert loss_of(validated, net) == ("validation loss", 0.25)
    undefined = {"val_metric": [None]}
    assert loss_of(undefined, net) == ("validation loss", None)
    tried = Tried(None, net, 0.0, undefined)
    assert tried.loss == math.inf
    assert not tried.still_learns()


def test_multiply_adds_are_those_of_each_window_and_each_connection():
    net = nn.Network("2x8x6,conv4k3same,maxpool2,dropout0.1,10:relu,3", "multiclass")
    windows = 4 * 8 * 6 * (2 * 3 * 3)
    assert multiply_adds(net) == windows + 4 * 4 * 3 * 10 + 10 * 3
