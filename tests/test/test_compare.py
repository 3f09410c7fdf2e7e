"""Two models on the same rows: metrics, the interval of their difference, and what the
rows can tell."""

import numpy as np
import pytest
from support.command_line import argv, run, succeed

import nn
from nn.data.loading import held_out
from nn.test.compare import Side, compared
from nn.utils import DataError, UsageError

NAMES = ("a", "b")


def data(rows: int = 400, task: str = "binary", seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    value = x[:, 0] + x[:, 1] * x[:, 2]
    return nn.Dataset(
        x, value if task == "regression" else (value > 0).astype(int), task=task
    )


def trained(ds, epochs: int, layers: str = "4,16,1"):
    net = nn.Network(layers, ds.task, seed=1)
    nn.train(net, ds, epochs=epochs, learning_rate=0.02)
    return net


def test_targets_that_lack_in_the_same_rows_are_the_same():
    """Where a target lacks on one side alone, or has another value, they are others."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    y = x + rng.normal(size=(30, 2))
    y[::3, 1] = np.nan
    ds = nn.Dataset(x, y, "regression")
    nets = [nn.Network("2,3,2", "regression", seed=seed) for seed in (0, 1)]
    assert compared([Side.of(net, ds) for net in nets], NAMES)["rows"] == 30
    for row, value in ((0, 1.0), (1, np.nan), (2, y[2, 1] + 0.5)):
        others = y.copy()
        others[row, 1] = value
        other = nn.Dataset(x, others, "regression")
        with pytest.raises(DataError, match="different rows or targets"):
            compared([Side.of(nets[0], ds), Side.of(nets[1], other)], NAMES)


def test_models_that_are_the_same_are_not_told_apart():
    ds = data()
    net = trained(ds, 1)
    comparison = compared([Side.of(net, ds), Side.of(trained(ds, 1), ds)], NAMES)
    assert comparison["better"] is None
    assert "cannot tell" in comparison["verdict"]
    assert comparison["disagree"] == []


def test_other_tasks_and_other_rows_are_refused():
    ds = data()
    values = data(task="regression")
    net = trained(ds, 1)
    nets = [net, trained(values, 1)]
    with pytest.raises(UsageError, match="a and b predict different things"):
        compared([Side.of(nets[0], ds), Side.of(nets[1], values)], NAMES)
    sides = [Side.of(net, ds), Side.of(net, data(seed=5))]
    with pytest.raises(DataError, match="different rows or targets"):
        compared(sides, NAMES)
    assert nn.compare(net, nn.Model(trained(ds, 20)), data(seed=9))["better"] == "b"


def test_the_command_compares_rows_that_no_model_saw(folder):
    ds = data()
    np.savetxt(
        "t.csv",
        np.column_stack([ds.x, ds.y]),
        delimiter=",",
        header="a,b,c,d,y",
        comments="",
        fmt="%.5g",
    )
    for name, flags in {
        "a": ["--layers", "4,3,1", "--epochs", 1],
        "b": ["--layers", "4,16,1", "--epochs", 40],
    }.items():
        succeed("--train", "--dataset", "t.csv", "--model", f"{name}.bin", *flags)
    succeed("--train", "--dataset", "t.csv", "--model", "c.bin", "--effort", "quick")
    printed = succeed("compare", "a.bin", "b.bin").out.splitlines()
    assert len(printed) <= 25
    assert printed[0] == "79 rows"
    assert "is better than" in printed[-1]
    of_seeds = []
    for seed in (0, 1):
        command = ("--compare", "a.bin,b.bin", "--json", "--seed", seed)
        told = succeed(*command).json
        assert told["better"] == "b.bin"
        nets = [nn.Model.load(name).network for name in ("a.bin", "b.bin")]
        sides = [Side.of(net, held_out(net, "a.bin")) for net in nets]
        metrics = compared(sides, ("a.bin", "b.bin"), seed=seed)["metrics"]
        assert told["metrics"] == metrics
        of_seeds.append(metrics)
    assert of_seeds[0]["f1"]["interval"] != of_seeds[1]["f1"]["interval"]
    report = succeed("compare", "a.bin", "c.bin", "--dataset", "t.csv", "--json").json
    assert report["rows"] == 400
    assert report["trained_rows"] == 321
    assert report["better"] is None
    assert report["verdict"].startswith(
        "no verdict: a.bin was trained on 321 of these 400 rows; give rows that neither"
    )
    succeed(*argv("--train --dataset t.csv --model d.bin --effort quick --seed 5"))
    # out of fold
    assert succeed("compare", "c.bin", "d.bin", "--json").json["rows"] == 400
    # held out by the first
    assert succeed("compare", "a.bin", "c.bin", "--json").json["rows"] == 79
    assert run("compare", "a.bin").code == 2
