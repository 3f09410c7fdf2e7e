"""Regression as a task of its own: one or several targets, in their own units, by any
loss."""

import math

import numpy as np
import pytest
from support.command_line import argv, succeed
from support.mixed_table import read_raw

import nn


@pytest.fixture
def two_targets(folder):
    """Two inputs and two targets of very different size and unit."""
    lines = ["x,y,pascal,millimetre"]
    for i in range(400):
        x = math.sin(i)
        y = math.cos(7 * i)
        lines.append(
            f"{x:.6f},{y:.6f},{101_325 + 3_000 * x - 2_000 * y:.3f},{0.02 * x * y + 0.001:.7f}"
        )
    (folder / "two.csv").write_text("\n".join(lines) + "\n")
    return folder / "two.csv"


@pytest.mark.parametrize("loss", ["mse", "mae", "huber"])
def test_several_targets_come_back_in_their_own_units(two_targets, loss):
    flags = argv(
        "--target pascal,millimetre --layers 2,64,32,2 --epochs 100 --weight_decay 0 -q"
    )
    succeed(
        "--train", "--dataset", two_targets, "--model", "m.bin", "--loss", loss, *flags
    )
    succeed(
        "--predict", "--dataset", two_targets, "--model", "m.bin", "-o", "p.csv", "-q"
    )
    rows = read_raw("p.csv")
    for name in ("pascal", "millimetre"):
        truth = np.array(rows[f"{'true'} {name}"], float)
        predicted = np.array(rows[f"{'predicted'} {name}"], float)
        assert 1 - np.var(predicted - truth) / np.var(truth) > 0.97
        mean = np.mean(predicted - truth)
        deviation = np.std(truth)
        assert abs(mean) < 0.1 * deviation
    figures = succeed("--test", "--model", "m.bin", "--json", "-q").json
    assert figures["rows"] == 80
    assert figures["r2"] > 0.97
    expected = math.sqrt(figures["mse"])
    assert figures["rmse"] == pytest.approx(expected)
    assert figures["mae"] <= figures["rmse"]


def test_units_do_not_change_what_is_learned(two_targets):
    """A target in other units (here exactly 2^10 times as many) gives the same network,
    up to those units."""
    ds = nn.load(two_targets, target="pascal,millimetre")
    ends = []
    for factor in (1.0, 1024.0):
        net = nn.Network("2,8,2", "regression")
        changed = nn.Dataset(ds.x, ds.y.astype(np.float64) * factor, "regression")
        loss = nn.train(net, changed, epochs=3)["loss"]
        predictions = net.predict(ds.x)
        ends.append((loss, predictions / np.float32(factor)))
    np.testing.assert_equal(*ends)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("networks", [1, 2])
def test_the_first_row_with_any_output_that_is_not_finite_is_named(outputs, networks):
    """Of several outputs one is enough; rows and outputs behind it are no matter."""

    def linear(weights):
        net = nn.Network(f"2,{outputs}", "regression")
        weights = {"layer0.weight": weights, "layer0.bias": np.zeros(outputs)}
        net.set_parameters(weights)
        return net

    weights = np.zeros((outputs, 2))
    weights[-1, 0] = 10  # beyond float32 for the last output of row 3
    net = linear(weights)
    if networks == 2:
        net.combine([linear(np.ones((outputs, 2))), net], [1, 1])
    x = np.ones((8, 2), np.float32)
    x[3] = 1e38, 5
    x[5] = -1e38, 7
    x[6] = 3e38, 9
    with pytest.raises(nn.DataError, match="column 1 of 2: found 1e.38") as error:
        net.predict(x)
    assert str(error.value).startswith("row 4, ")
    with pytest.raises(nn.DataError) as error:
        net.deviation(x) if networks == 2 else net.predict(x[2:])
    assert str(error.value).startswith("row 4, " if networks == 2 else "row 2, ")


def test_a_gap_that_the_network_knows_is_not_what_makes_an_output_infinite():
    rng = np.random.default_rng(0)
    n = (rng.normal(size=120) / 1000).tolist()
    g = [None if k % 4 == 0 else float(k % 7) for k in range(120)]
    word = rng.choice(["x", "y"], 120).tolist()
    table = {"g": g, "word": word, "n": n}
    ds = nn.load({**table, "goal": [1000 * x for x in n]}, target="goal")
    net = nn.Network.for_data(ds, "auto,1")
    nn.train(net, ds, epochs=1)
    rows = {"g": [1.0, None], "word": ["x", "y"], "n": [0.1, 3e37]}
    with pytest.raises(nn.DataError, match="^row 2, column n: found 3e.37, for which"):
        net.predict(rows)


@pytest.mark.parametrize("count", [3, 5, 7])
def test_networks_that_say_the_same_say_it_together(count):
    """Their mean has a share for each, which is no number of float32."""
    net = nn.Network("1,1", "regression", backend="seq")
    members = [net.sibling(seed) for seed in range(count)]
    for member in members:
        member.set_parameters({"layer0.weight": [[0]], "layer0.bias": [7]})
    net.combine(members, [1.0] * count)
    assert net.predict(np.zeros((1, 1), np.float32)).tolist() == [[7.0]]
