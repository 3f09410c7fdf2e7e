"""Several networks trained together: a data set and a network for each task, and a
training that is asked to stop."""

import signal

import numpy as np
import pytest

import nn
from nn.nn import Network
from nn.train.vary import layers_with
from nn.utils import Stopped, StopRequest

SEED = 5
LAYERS = {
    "binary": "6,12,dropout0.2,1",
    "multiclass": "6,12,dropout0.2,3",
    "regression": "6,12,dropout0.2,2",
}
BEST = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "rmse"}


def data(task="binary", rows=400, seed=1, **fields):
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(rows, 6))
    x = draws.astype(np.float32)
    draws = rng.normal(size=rows)
    score = x[:, 0] * x[:, 1] + draws / 2
    if task == "regression":
        stacked = np.stack([3 * score + 50, x[:, 2]], 1)
        return nn.Dataset(x, stacked.astype(np.float32), task, **fields)
    y = np.digitize(score, [0] if task == "binary" else [-0.5, 0.5]).astype(np.int32)
    classes = ["a", "b", "c"][: y.max() + 1]
    return nn.Dataset(x, y, task, classes, **fields)


def network(task, seed=SEED, backend="omp", **options):
    return Network(LAYERS[task], task, seed=seed, backend=backend, **options)


def vector(net):
    return np.concatenate([value.ravel() for value in net.parameters().values()])


def alone(task, seed, settings, backend="omp", ds=None, layers=None, **flags):
    """Return the network of a seed that is trained alone with these settings; layers:
    None, those of the task."""
    settings_of_network = {
        name: value
        for name, value in settings.items()
        if name not in ("hidden", "dropout")
    }
    net = Network(
        layers_with(layers or LAYERS[task], settings), task, seed=seed, backend=backend
    )
    nn.train(
        net,
        ds or data(task),
        split_seed=SEED,
        **{"epochs": 3, **flags, **settings_of_network},
    )
    return net


def check_alone(task, net, told, *given, **flags):
    """Check that members are networks alone. told: the figures of the training; given,
    flags: as `alone` takes them."""
    for member, own in zip(net.members, told["members"], strict=True):
        assert member.seed == own["seed"]
        net_alone = alone(task, member.seed, own["settings"], *given, **flags)
        facts = net_alone.metadata()
        for name in (
            "row_hashes",
            "profiles",
            "conformal",
        ):  # members have these in common
            facts.pop(name, None)
        assert np.array_equal(vector(member), vector(net_alone))
        assert member.metadata() == facts


def check_means(net, told, best_epochs):
    """Check the losses that are told of members: their means, to which one that has
    stopped gives its best epoch's."""
    for name in ("loss", "val_loss", "val_metric"):
        lists = [member.history[name] for member in net.members]
        epochs = len(told[name])
        lasting = [
            own + [own[best - 1]] * (epochs - len(own))
            for own, best in zip(lists, best_epochs, strict=True)
        ]
        assert epochs == max(map(len, lists)), name
        assert told[name] == net.history[name], name
        expected = np.average(lasting, 0, net.member_weights)
        assert told[name] == pytest.approx(expected, rel=1e-12), name  # one sum or two


def check_file(net, path, x):
    """Check that the file of a network holds all that it knows; returns what it
    holds."""
    net.export(path)
    again = Network.of_file(path, backend=net.backend)
    assert np.array_equal(again.predict(x), net.predict(x))
    assert again.metadata() == net.metadata()
    assert np.array_equal(again.deviation(x), net.deviation(x))
    assert again.seed == net.seed
    before = path.read_bytes()
    again.export(path)
    assert path.read_bytes() == before
    return again


class StopSoon(StopRequest):
    """Asks for a stop when it has been looked at that many times, wherever the training
    then is."""

    def __init__(self, looks):
        self.looks = looks
        super().__init__()

    @property
    def signum(self):
        self.looks -= 1
        if self.looks < 0:
            return signal.SIGTERM
        return None

    @signum.setter
    def signum(self, signum):
        pass


def until_ended(train, first=5, spread=7):
    """Return (what `train(stop)` returns when nothing stops it any more, how often it
    was stopped): each time a little later than before."""
    stops = 0
    while True:
        try:
            looks = first + stops % spread
            return train(StopSoon(looks)), stops
        except Stopped:
            stops += 1


def break_some(monkeypatch, broken):
    """Let the networks with these seeds have a loss that is no number."""
    usual = Network.sibling

    def sibling(self, seed, layers=None, encoding=None):
        net = usual(self, seed, layers, encoding)
        if seed in broken:
            name = list(net.parameters())[-2]
            parameters = net.parameters()[name]
            net.set_parameters({name: np.full_like(parameters, np.inf)})
        return net

    monkeypatch.setattr(Network, "sibling", sibling)
