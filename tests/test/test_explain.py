"""Explanations: contributions against all coalitions by hand, importance against
scikit-learn's, and the command."""

import csv
import itertools
import json
import re
from functools import cache

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.tables import csv_of

import nn as package
from nn.commands.predictions import _contributions, contribution_table
from nn.terminal import progress
from nn.test import shapley
from nn.test.importance import importance
from nn.test.shapley import Explainer, explain
from nn.test.values import Value, raw_data
from nn.utils import DataError, UsageError

COLUMNS = ["a", "b", "word", "c"]
WORDS = "red", "green", "blue"


def table(rows: int = 240, seed: int = 0, classes: int = 2) -> list[dict]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        a, b, c = rng.normal(size=3)
        word = WORDS[rng.integers(3)]
        value = 2 * a + b * c + (word == "red")
        target = np.clip(int(value + classes / 2), 0, classes - 1)
        found.append(
            {
                "a": a,
                "b": b if rng.random() > 0.05 else None,
                "word": word,
                "c": c,
                "y": f"class{target}",
            }
        )
    return found


def write(rows: list[dict], path: str = "t.csv") -> None:
    with open(path, "w", newline="") as file:
        columns = zip(*(row.values() for row in rows), strict=True)
        names = list(rows[0])
        file.write(csv_of(names, columns))


@pytest.fixture
def by_permutations(monkeypatch):
    """Nothing is small enough for all coalitions."""
    monkeypatch.setattr(shapley, "MOST_EXACT_ROWS", 0)


def trained(networks: int = 1, classes: int = 2, layers: str = "4,6:tanh,1"):
    ds = package.load(table(classes=classes), target="y")
    net = package.Network(
        layers if classes == 2 else f"4,6:tanh,{classes}", ds.task, seed=1
    )
    package.train(net, ds, epochs=3, learning_rate=0.02, networks=networks)
    return net, ds


def logits(net, x) -> np.ndarray:
    """The value of rows by the plain way: the network's scores, in float64 as far as
    they go."""
    predictions = net.predict(x).astype(np.float64)
    p = np.clip(predictions, 1e-12, 1 - 1e-12)
    if net.outputs == 1:
        return np.log(p / (1 - p))
    mean = np.log(p).mean(axis=1, keepdims=True)
    return np.log(p) - mean


def by_hand(net, rows, background) -> np.ndarray:
    """Shapley values by their definition: all orders of the columns, all background
    rows, raw rows predicted."""

    @cache
    def worth(number, inside):
        row = rows[number]
        mixed = [
            {name: (row if name in inside else other)[name] for name in COLUMNS}
            for other in background
        ]
        return logits(net, package.load_for(net, mixed, labelled=False).x).mean(axis=0)

    def share(number, name, order):
        before = order[: order.index(name)]
        return worth(number, frozenset([*before, name])) - worth(
            number, frozenset(before)
        )

    orders = [*itertools.permutations(COLUMNS)]
    return np.array(
        [
            [[share(k, name, o) for o in orders] for name in COLUMNS]
            for k in range(len(rows))
        ]
    ).mean(axis=2)


@pytest.mark.parametrize(("networks", "classes"), [(1, 2), (3, 2), (2, 3)])
def test_contributions_are_those_of_all_coalitions(networks, classes):
    """1e-4: float32 networks, whose scores near 0 and 1 have few digits as logits."""
    net, _ds = trained(networks, classes)
    rows = table(3, 7, classes)
    background = table(5, 8, classes)
    explanation = explain(
        net,
        *(package.load_for(net, some, labelled=False).x for some in (rows, background)),
    )
    expected = by_hand(net, rows, background)
    assert explanation.error == 0
    assert np.allclose(
        explanation.values, expected.reshape(explanation.values.shape), atol=1e-4
    )
    assert explanation.feature_names == COLUMNS
    assert explanation.data[0, 2] in WORDS


@pytest.mark.parametrize("exact", [True, False])
def test_base_and_columns_add_up_to_the_value(exact, by_permutations):
    net, ds = trained(3)
    explanation = explain(net, ds.x[:40], ds.x[100:150], exact=exact)
    values = Value(net).of(Value(net).read(ds.x[:40]))
    total = explanation.values.sum(axis=1)
    difference = np.abs(explanation.base_values + total - values[:, 0])
    assert difference.max() < 1e-9
    expected = logits(net, ds.x[:40])
    assert np.allclose(values, expected, atol=1e-4)


def test_permutations_come_near_all_coalitions_and_are_exact_for_columns_in_pairs(
    by_permutations,
):
    """A network of one hidden layer that squares: its output has products of two
    columns, and no more."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    net, ds = trained(2)
    squares = package.Network("5,5:linear,1", "regression", dtype="float64", seed=3)
    every = explain(squares, x[:4], x[30:40], exact=True)
    drawn = explain(squares, x[:4], x[30:40], exact=False)
    assert np.allclose(every.values, drawn.values, atol=1e-12)
    assert drawn.error < 1e-12
    every = explain(net, ds.x[:30], ds.x[100:200], exact=True)
    drawn = explain(net, ds.x[:30], ds.x[100:200], exact=False)
    mean = np.mean((drawn.values - every.values) ** 2)
    off = np.sqrt(mean)
    assert 0 < off < 3 * drawn.error < 0.1


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    ("classes", "exact"), [(2, True), (3, True), (2, False), (3, False)]
)
def test_the_error_by_the_choice_of_background_rows_is_the_deviation_over_draws(
    classes, exact, by_permutations
):
    """Twenty-four draws of 30 rows from 3,000: their deviation is known to 15 %, of
    several contributions better."""
    net, ds = trained(2, classes)
    path = table(3000, 5, classes)
    pool = package.load_for(net, path, labelled=False).x
    generator = np.random.default_rng(0)
    draws = [pool[generator.choice(3000, 30, replace=False)] for _ in range(24)]
    explanations = [
        explain(net, ds.x[:5], background, exact=exact, seed=k)
        for k, background in enumerate(draws)
    ]
    mean = np.var(
        [explanation.values for explanation in explanations], axis=0, ddof=1
    ).mean()
    real = np.sqrt(mean)
    mean = np.mean([explanation.background_error**2 for explanation in explanations])
    estimate = np.sqrt(mean)
    assert real > 0.01
    assert abs(estimate / real - 1) < 0.2
    largest = max(explanation.background_error for explanation in explanations)
    assert largest < 2 * real


@pytest.mark.parametrize("exact", [True, False])
def test_the_error_of_the_background_is_that_of_a_mean_over_its_rows(
    exact, by_permutations, monkeypatch
):
    """Rows explained against each background row alone; with two columns orders leave
    nothing open."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    net = package.Network("2,4:tanh,1", "regression", dtype="float64", seed=3)
    alone = [explain(net, x[:7], x[20 + k :][:1], exact=exact) for k in range(12)]
    together = explain(net, x[:7], x[20:32], exact=exact)
    each = np.array([explanation.values for explanation in alone])[:, : shapley.CHECKED]
    mean = np.mean(each.var(axis=0, ddof=1) / 12)
    expected = np.sqrt(mean)
    assert together.background_error == pytest.approx(expected, rel=1e-9)
    assert np.allclose(
        together.values[: shapley.CHECKED], each.mean(axis=0), atol=1e-12
    )
    assert {explanation.background_error for explanation in alone} == {None}, (
        "one row cannot tell"
    )
    monkeypatch.setattr(shapley, "THREAD_VALUES", 64 * 4)
    explanation = explain(net, x[:7], x[20:32], exact=exact)
    assert explanation.background_error == pytest.approx(expected, rel=1e-9)


def test_the_error_of_a_weighted_background_is_that_of_a_weighted_mean(by_permutations):
    """By the sum of squared weighted differences; equal weights are none."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    weights = np.array([1.0, 2, 2, 7, 1, 3])
    net = package.Network("2,4:tanh,1", "regression", dtype="float64", seed=3)
    alone = [explain(net, x[:5], x[20 + k :][:1]).values for k in range(6)]
    each = np.array(alone)
    shares = (weights / weights.sum())[:, None, None]
    differences = each - (shares * each).sum(axis=0)
    squares = (shares * differences**2).sum(axis=0)
    of_weights = (shares**2).sum()
    expected = np.sqrt(np.mean(squares * of_weights / (1 - of_weights)))
    weighted = explain(net, x[:5], shapley.Background(x[20:26], weights))
    assert weighted.background_error == pytest.approx(expected, rel=1e-9)
    plain = explain(net, x[:5], x[20:26])
    equal = explain(net, x[:5], shapley.Background(x[20:26], np.full(6, 3.0)))
    assert equal.background_error == pytest.approx(plain.background_error, rel=1e-12)


def test_the_command_tells_the_error_of_the_background_beside_that_of_coalitions(
    folder, by_permutations
):
    write(table(300))
    succeed(*argv("--train --dataset t.csv --model m.bin --layers 4,3,1 --epochs 2"))
    asked = ["--explain", "--model", "m.bin", "--output", "o.csv"]
    output = succeed(*asked, "--json")
    report = json.loads(output.out)
    assert report["error"] > 0
    assert report["background_error"] > 0
    numbers = [
        f"within {report[name]:.2g} (a standard deviation)"
        for name in ("error", "background_error")
    ]
    line = f"o.csv: contributions of 100 background rows' difference, {numbers[0]}"
    line = f"{line}; by the choice of background rows {numbers[1]}"
    lines = succeed(*asked).err.splitlines()
    assert line in lines[-1]
    output = succeed(*asked, "--exact", "--json")
    exact = json.loads(output.out)
    assert exact["error"] == 0
    assert exact["background_error"] == pytest.approx(
        report["background_error"], rel=0.3
    )


def test_rows_are_explained_the_same_in_any_blocks(monkeypatch):
    """Whether all coalitions are computed is decided by all rows, not by those of a
    block."""
    net, ds = trained(2)
    # 4 columns, 30 rows, 20 of the background
    monkeypatch.setattr(shapley, "MOST_EXACT_ROWS", 2**4 * 30 * 20)
    whole = explain(net, ds.x[:40], ds.x[100:120])
    background = ds.x[100:120]
    explainer = shapley.Explainer(net, background, 40)
    blocks = [explainer.explain(ds.x[at : at + 20]).values for at in (0, 20)]
    assert whole.error > 0
    assert np.array_equal(whole.values, np.concatenate(blocks))
    explanation = explain(net, ds.x[:20], ds.x[100:120])
    assert explanation.error == 0


def test_importance_judges_only_rows_that_some_network_does_not_know(folder):
    """Folds by time go forward: nobody is tested on the first rows."""
    rows = [
        {"t": f"2024-01-01T00:{k // 60:02}:{k % 60:02}", **row}
        for k, row in enumerate(table(600))
    ]
    write(rows)
    succeed(
        *argv("--train --dataset t.csv --model m.bin --folds 3 --holdout 0 --time t")
    )
    found = succeed("--explain", "--model", "m.bin", "--json").json["importance"]
    tested = succeed("--test", "--model", "m.bin", "--json").json
    assert found["rows"] == tested["rows"]
    assert tested["rows"] < 600


def test_threads_change_no_bit_and_the_plain_core_judges_the_fast_one(by_permutations):
    """1e-5: float32, sums in another order."""
    net, ds = trained(2, layers="4,6:silu,dropout0.2,5,1")
    values = []
    for backend, threads in (("omp", 1), ("omp", 2), ("seq", 1)):
        for member in net.members:
            member.compute_on(backend, threads)
        explanation = explain(net, ds.x[:40], ds.x[100:150])
        values.append(explanation.values)
    assert np.array_equal(*values[:2])
    assert np.allclose(*values[1:], atol=1e-5)
    assert np.abs(values[0]).max() > 0.1


@pytest.mark.parametrize("exact", [True, False])
def test_columns_of_a_linear_model_add_their_weight_times_distance_from_the_mean(
    exact, by_permutations
):
    net = package.Network("5,1", "regression", dtype="float64", seed=3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 5))
    x[:, 4] = 1.0  # alike in all rows
    explanation = explain(net, x[:4], x[10:], exact=exact)
    mean = x[10:].mean(axis=0)
    parameters = net.parameters()["layer0.weight"]
    expected = parameters * (x[:4] - mean)
    assert np.allclose(explanation.values, expected, atol=1e-12)
    assert np.abs(explanation.values[:, 4]).max() < 1e-15
    explanation = explain(
        package.Network("1,3:tanh,1", "regression", dtype="float64", seed=3),
        x[:2, :1],
        x[2:8, :1],
    )
    assert explanation.error == 0, "one column"
    assert explanation.values.shape == (2, 1), "one column"
    assert explanation.values[0] != explanation.values[1], "one column"


def test_a_score_that_rounds_to_1_has_a_finite_value():
    net = package.Network("2,1", "binary", seed=0)
    net.set_parameters({"layer0.weight": [[300.0, 1.0]], "layer0.bias": [0.0]})
    x = np.array([[1.0, 0.0], [-1.0, 2.0], [0.0, 1.0]], np.float32)
    assert net.predict(x)[0, 0] == 1
    explanation = explain(net, x, x)
    total = explanation.values.sum(axis=1)
    assert np.allclose(explanation.base_values + total, [300, -298, 1], atol=1e-4)


def linear_network(weights) -> package.Network:
    """Return a network that adds up columns by these weights, and reads them as they
    are."""
    net = package.Network(f"{len(weights)},1", "regression", dtype="float64")
    net.set_parameters({"layer0.weight": np.array([weights]), "layer0.bias": [0.0]})
    return net


@pytest.mark.slow
def test_the_interval_of_importance_holds_the_truth_and_noise_is_seldom_above_0():
    """A network that adds 2 a + b + 0.3 c and, of five columns of noise, 0.05 each. A
    column of variance 1, of weight w in the network and t in the target, raises the mse
    by 2 w t: E (w x' - t x)^2 - E (w x - t x)^2, x' of another."""
    weights = np.array([2.0, 1.0, 0.3, *[0.05] * 5])
    draws = 25
    targets = np.array([2.0, 1.0, 0.3, *[0.0] * 5])
    truth = 2 * weights * targets
    held = np.zeros(8)
    above = np.zeros(8)
    named = 0
    for draw in range(draws):
        random = np.random.default_rng(draw)
        x = random.normal(size=(300, 8))
        y = x @ targets + random.normal(size=300)
        importances = importance(
            linear_network(weights),
            package.Dataset(x, y, "regression"),
            metric_name="mse",
            seed=draw,
        )
        figures = zip(
            importances.mean,
            importances.low,
            importances.high,
            importances.holds,
            strict=True,
        )
        by_column = dict(zip(importances.names, figures, strict=True))
        for column in range(8):
            mean, low, high, holds = by_column[str(column)]
            assert low <= mean <= high
            held[column] += low <= truth[column] <= high
            above[column] += low > 0
            named += holds and column >= 3
    assert 0.85 <= held.mean() / draws <= 0.99
    # one in forty is above 0 by chance
    assert above[3:].mean() / draws <= 0.07
    assert named <= 2
    assert (above[:2] == draws).all()


@pytest.mark.long
@pytest.mark.parametrize("metric_name", ["log_loss", "f1", "roc_auc", "pr_auc"])
def test_the_interval_of_importance_is_as_wide_as_other_rows_make_it(metric_name):
    """Its half width over 1.97 is the deviation of the importance over a dozen other
    tables of such rows."""
    net = package.Network("3,1", "binary", dtype="float64")
    net.set_parameters({"layer0.weight": [[1.5, 0.5, 0.1]], "layer0.bias": [-0.5]})
    means = []
    widths = []
    for draw in range(24):
        random = np.random.default_rng(draw)
        x = random.normal(size=(400, 3))
        y = (random.random(400) < 1 / (1 + np.exp(0.5 - x @ [1.5, 0.5, 0.0]))).astype(
            int
        )
        ds = package.Dataset(x, y, "binary", ["0", "1"])
        importances = importance(net, ds, metric_name=metric_name, seed=draw)
        place = importances.names.index("0")
        means.append(importances.mean[place])
        widths.append((importances.high[place] - importances.low[place]) / 2 / 1.97)
    # 24 draws: a deviation known to 15 %
    deviation = np.std(means, ddof=1)
    expected = np.mean(widths)
    assert deviation == pytest.approx(expected, rel=0.4)


def test_a_group_with_a_column_that_is_no_input_is_refused():
    net, ds = trained()
    with pytest.raises(UsageError, match="--group_columns a\\+d: d is no input"):
        importance(net, ds, group_columns="a+d")


def test_images_and_one_class_are_refused():
    images = np.zeros((2, 1, 4, 4), np.float32)
    net, ds = trained()
    with pytest.raises(UsageError, match="images have no columns"):
        explain(package.Network("1x4x4,conv2k3,2", "multiclass"), images, images)
    rows = np.flatnonzero(ds.y == 1)
    with pytest.raises(DataError, match="roc_auc is undefined"):
        importance(net, ds.of_rows(rows))
    with pytest.raises(UsageError, match="at most 20 have few enough coalitions"):
        explain(
            package.Network("30,1", "binary"),
            np.zeros((2, 30)),
            np.zeros((2, 30)),
            exact=True,
        )


def test_the_command_says_what_matters_in_few_lines_and_writes_contributions(folder):
    write(table())
    command = ("--train", "--dataset", "t.csv", "--model", "m.bin", "--epochs", 20)
    succeed(*command, "--layers", "auto,8,1", "--folds", 2)
    of_model = "--explain", "--model", "m.bin"
    printed = succeed(*of_model).out.splitlines()
    assert len(printed) <= 25
    assert "what it loses without a column" in printed[0]
    assert printed[2].split()[0] == "a"
    assert "█" in printed[2]
    asked = ("--monitor", "loss", "--group_columns", "a+b", "--report", "p.json")
    report = succeed(*of_model, "--json", *asked).json
    assert report["importance"]["metric"] == "loss"
    names = report["importance"]["names"]
    assert {*names} == {*COLUMNS, "a+b"}
    assert set(report["curves"]) == set(COLUMNS)
    page = json.loads((folder / "p.json").read_text())
    (drawn,) = page["sections"]["Columns that matter"][:1]
    assert "how much worse loss" in drawn["caption"]
    assert [line[0] for line in drawn["lines"]] == names
    output = succeed(*of_model, "--dataset", "t.csv", "-o", "why.csv")
    line = output.err.splitlines()[-1]
    assert line.startswith("why.csv: ")
    with open("why.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = ["row", "base", *COLUMNS, "value"]
    assert list(rows[0]) == expected
    assert len(rows) == 240
    for row in rows[:5]:
        total = sum(float(row[name]) for name in ["base", *COLUMNS])
        assert abs(total - float(row["value"])) < 1e-9
    few = table(2)[:20]
    write([{name: row[name] for name in COLUMNS} for row in few], "new.csv")
    refused = run(*of_model, "--dataset", "new.csv")
    assert refused.code == 65, "without the truth there is no importance"
    assert "target" in refused.err.splitlines()[-1], (
        "without the truth there is no importance"
    )
    succeed(*of_model, "--dataset", "new.csv", "-o", "why.csv")
    (folder / "t.csv").rename("moved.csv")
    refused = run(*of_model, "--dataset", "moved.csv", "-o", "why.csv")
    assert refused.code == 2
    lines = refused.err.splitlines()[-1]
    assert re.search("no background rows.*--background", lines)
    given = ("--background", "moved.csv", "-o", "why.csv")
    written = succeed(*of_model, "--dataset", "new.csv", *given)
    assert "has no effect" not in written.err


def test_a_seed_draws_the_background_and_exchanges_of_the_command_as_those_of_python(
    folder,
):
    write(table(300))
    write(table(3, 9), "three.csv")
    model = package.fit("t.csv", "y", layers="auto,4,1", epochs=3)
    model.save("m.bin")
    bases = []
    means = []
    for seed in (0, 1):
        command = ("explain", "m.bin", "three.csv", "-o", "why.csv", "--seed", seed)
        succeed(*command)
        with open("why.csv", newline="") as file:
            bases.append([float(row["base"]) for row in csv.DictReader(file)])
        explanation = explain(model.network, "three.csv", seed=seed)
        np.testing.assert_allclose(bases[-1], explanation.base_values, rtol=1e-6)
        command = ("explain", "m.bin", "t.csv", "--json", "--seed", seed)
        told = succeed(*command).json["importance"]
        means.append(told["mean"])
        ds = package.load_for(model.network, "t.csv")
        assert told["mean"] == importance(model.network, ds, seed=seed).mean
    assert bases[0] != bases[1]
    assert means[0] != means[1]


def test_a_seed_draws_the_orders_of_the_command_as_those_of_python(folder):
    """Of so many columns that not all coalitions are computed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 24))
    names = [f"c{column}" for column in range(24)]
    rows = np.column_stack([x, x[:, 0] * x[:, 1] + x[:, 2]])
    for name, part in (("t.csv", rows), ("few.csv", rows[:3, :24])):
        header = ",".join([*names, "y"][: part.shape[1]])
        np.savetxt(name, part, "%.4f", ",", header=header, comments="")
    model = package.fit("t.csv", "y", layers="auto,8:tanh,1", epochs=2)
    model.save("m.bin")
    told = []
    for seed in (0, 1):
        flags = ("--background", "t.csv", "-o", "why.csv", "--seed", seed)
        succeed("explain", "m.bin", "few.csv", *flags, "-q")
        values = np.loadtxt("why.csv", delimiter=",", skiprows=1)[:, 2:-1]
        explanation = explain(model.network, "few.csv", "t.csv", seed=seed)
        np.testing.assert_allclose(values, explanation.values, rtol=1e-5)
        told.append(values)
    assert (told[0] != told[1]).any()


def test_long_names_are_shortened_in_a_terminal(folder):
    long = "a long name " * 5000
    names = long, f"twin {long}", "c", "y"
    write(
        [
            dict(zip(names, (k % 7, k % 7 + 0.01, k % 5, f"{long}{k % 7 > 3}")))
            for k in range(200)
        ]
    )
    succeed(
        *argv("--train --dataset t.csv --model m.bin --layers auto,4,1 --epochs 1 -q")
    )
    out = succeed("--explain", "--model", "m.bin").out
    assert "correlation" in out
    assert max(map(len, out.splitlines())) < 400


def test_contributions_to_rows_of_one_class_are_written_without_importance(folder):
    rows = table()
    write(rows)
    succeed(*argv("--train --dataset t.csv --model m.bin --layers auto,6,1 --epochs 2"))
    label = rows[0]["y"]
    write([row for row in rows if row["y"] == label][:10], "ten.csv")
    written = succeed("explain", "m.bin", "ten.csv", "-o", "why.csv", "--json")
    assert "importance" not in written.json
    assert written.json["contributions"] == "why.csv"
    assert (
        "no importance of columns: roc_auc is undefined for these 10 rows"
        in written.err
    )
    text = (folder / "why.csv").read_text()
    assert len(text.splitlines()) == 11
    alone = run("explain", "m.bin", "ten.csv")
    assert alone.code == 65
    assert "roc_auc is undefined" in alone.err


# ---------------------------------------------------------------- many columns


def wide(columns, rows=60):
    """Return a network and rows of many columns, of which the first alone tells the
    target."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(rows, columns))
    x = draws.astype(np.float32)
    ds = package.load(x, y=3.0 * x[:, 0])
    net = package.Network.for_data(ds, "auto,1")
    vector = np.zeros_like(net.vector)
    vector[0] = 1.0
    net.vector = vector
    return net, ds


@pytest.mark.usual(0, 2)
@pytest.mark.parametrize("columns, repeats", [(100, 5), (101, 4), (250, 2), (600, 1)])
def test_the_more_columns_the_fewer_repeats_which_one_line_tells(
    columns, repeats, caplog
):
    net, ds = wide(columns)
    steps = []
    importances = package.importance(
        net, ds, progress=lambda done, total: steps.append((done, total))
    )
    assert importances.repeats == repeats
    assert len(importances.names) == columns
    assert steps == [(done + 1, repeats * columns) for done in range(repeats * columns)]
    assert [
        name
        for name, holds in zip(importances.names, importances.holds, strict=True)
        if holds
    ] == ["0"]
    lines = [line for line in caplog.messages if line.startswith("importance: ")]
    times = {4: "4 times", 2: "2 times", 1: "once"}
    expected = f"importance: the values of {columns} columns are exchanged {times.get(repeats)} each, "
    assert lines == ([f"{expected}of up to 100 columns 5 times"] if repeats < 5 else [])
    if columns == 101:
        assert package.importance(net, ds, repeats=3).repeats == 3


@pytest.mark.parametrize(
    "total, step", [(1, 1), (7, 1), (10, 1), (19, 1), (500, 1), (1000, 41), (2500, 1)]
)
def test_a_long_computation_tells_at_most_ten_plain_lines(
    total, step, monkeypatch, capsys
):
    monkeypatch.setattr(progress, "STEP_SECONDS", 0.0)
    steps = progress.make_steps("importance of columns")
    for done in [*range(step, total, step), total]:
        steps(done, total)
    lines = capsys.readouterr().err.splitlines()
    expected = min(-(-total // step), 10)
    assert len(lines) == expected
    assert lines[-1].startswith(f"importance of columns: {total} of {total}, ")
    assert "\x1b" not in "".join(lines)


def test_a_short_computation_tells_nothing(capsys):
    steps = progress.make_steps("importance of columns")
    for done in range(1, 100):
        steps(done, 99)
    assert capsys.readouterr().err == ""


@pytest.mark.usual(1)
@pytest.mark.parametrize("more", [(), ("--output", "c.csv"), ("--report", "r.html")])
def test_explain_and_a_report_tell_how_far_they_are_but_not_with_quiet_or_json(
    more, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "STEP_SECONDS", 0.0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 10))
    np.savetxt("t.csv", np.column_stack([x, x[:, 0]]), "%.4f", ",")
    succeed(*argv("--train --layers auto,1 --epochs 1 --dataset t.csv --model m.bin"))
    if "--report" in more:
        mode = "--test"
    else:
        mode = "--explain"
    asked = (mode, "--model", "m.bin", "--dataset", "t.csv", *more)
    if "--output" in more:
        what = "contributions to predictions"
    else:
        what = "importance of columns"
    lines = succeed(*asked).err.splitlines()
    remarks = [line for line in lines if line.startswith(what)]
    assert 1 <= len(remarks) <= 30
    assert ", 0 s left" in remarks[-1]
    for silence in ("--quiet", "--json"):
        assert what not in succeed(*asked, silence).err


@pytest.mark.parametrize(
    "task, targets, kind",
    [
        ("regression", ["p", "q"], "target"),
        ("regression", None, "target"),
        ("multilabel", ["p", "q"], "target"),
        ("multiclass", None, "class"),
    ],
)
def test_a_line_of_each_output_ends_in_its_value(task, targets, kind):
    net = package.Network("3,4:tanh,2", task, dtype="float64", seed=2)
    net.targets = targets
    net.columns = ["row", "base", kind]
    x = np.random.default_rng(3).normal(size=(12, 3))
    written = contribution_table(net, Explainer(net, x[4:], 4), x[:4])
    (block,) = written.blocks
    columns = ["row_", "base_", f"{kind}_"]
    assert written.names == ["row", kind, "base", *columns, "value"]
    assert block[1] == (targets or ["0", "1"]) * 4
    expected = net.predict(x[:4])
    if task == "multilabel":
        expected = np.log(expected / (1 - expected))
    elif task == "multiclass":
        expected = np.log(expected)
        expected -= expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(block[-1], expected.reshape(-1), rtol=1e-9)
    assert block[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_contributions_are_the_same_in_however_many_blocks(tmp_path, monkeypatch):
    net, ds = wide(30)
    explainers = [Explainer(net, ds.x, 20, seed=0) for _ in range(2)]
    monkeypatch.setattr(shapley, "WALKED", 1)
    assert explainers[0].rows_at_a_time(256) == shapley.CHECKED
    steps = []
    told = _contributions(
        explainers[0], ds.x[:20], [], lambda *step: steps.append(step)
    )
    whole = list(told)
    ends = np.cumsum([len(block[0]) for block in whole])
    assert steps == [(end, 20) for end in ends]
    monkeypatch.setattr(shapley, "WALKED", 1 << 30)
    assert explainers[1].rows_at_a_time(256) == 256
    (at_once,) = _contributions(explainers[1], ds.x[:20], [], None)
    assert len(whole) == 4
    assert explainers[0].error == explainers[1].error
    for parts, values in zip(zip(*whole, strict=True), at_once, strict=True):
        np.testing.assert_array_equal(np.concatenate(parts), values)


def weighted(rows: int = 30) -> list[dict]:
    """Rows with the weights 0, 1, 2 in turn."""
    return [{"w": number % 3} | row for number, row in enumerate(table(rows, 7))]


def repeated(rows: list[dict]) -> list[dict]:
    """Rows as often as their weights say, without these."""
    plain = [
        {name: value for name, value in row.items() if name != "w"} for row in rows
    ]
    return [row for row, own in zip(plain, rows, strict=True) for _ in range(own["w"])]


@pytest.mark.parametrize("door", ["rows", "file", "Dataset"])
def test_a_background_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_is_none(
    folder, door
):
    write(weighted(60), "t.csv")
    net = package.fit("t.csv", layers="auto,4:tanh,1", epochs=2, weight="w").network
    rows = table(4, 3)
    some = weighted()
    if door == "Dataset":
        background = package.load_for(net, some)
    elif door == "rows":
        background = [
            {name: value for name, value in row.items() if name != "y"} for row in some
        ]
    else:
        write(some, "background.csv")
        background = "background.csv"
    explanation = explain(net, rows, background, exact=True)
    twice = explain(net, rows, repeated(some), exact=True)
    difference = np.abs(explanation.values - twice.values)
    assert difference.max() < 1e-9
    difference = np.abs(explanation.base_values - twice.base_values)
    assert difference.max() < 1e-9
    alike = explain(net, rows, [row | {"w": 1} for row in some], exact=True)
    difference = np.abs(explanation.base_values - alike.base_values)
    assert difference.max() > 1e-3


def test_weights_count_in_walks_and_in_the_command(folder, by_permutations):
    write(weighted(60), "t.csv")
    write(weighted(), "background.csv")
    write(table(4, 3), "rows.csv")
    net = package.fit("t.csv", layers="auto,4:tanh,1", epochs=2, weight="w").network
    net.export("m.bin")
    explanation = explain(net, "rows.csv", "background.csv")
    twice = explain(net, "rows.csv", repeated(weighted()))
    values = Value(net).of(Value(net).read(package.load_for(net, "rows.csv").x))
    total = explanation.values.sum(axis=1)
    difference = np.abs(explanation.base_values + total - values[:, 0])
    assert difference.max() < 1e-9
    difference = np.abs(explanation.base_values - twice.base_values)
    assert difference.max() < 1e-9
    result = succeed(
        *argv("explain m.bin rows.csv --background background.csv -o why.csv")
    )
    assert "background.csv: left out: 10 rows of weight 0" in result.err
    assert "of 20 background rows" in result.err
    with open("why.csv") as file:
        bases = [float(row["base"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(bases, explanation.base_values, rtol=1e-6)


@pytest.mark.parametrize("weight", [None, "w"])
def test_the_background_of_a_training_file_are_the_rows_that_were_trained_on(
    folder, weight
):
    """A row without a target, or of weight 0, was not."""
    rows = weighted(160)
    for row in rows[1::4]:
        row["y"] = None
    write(rows)
    settings = {"layers": "auto,4:tanh,1", "epochs": 2}
    drop = None if weight else "w"
    model = package.fit("t.csv", "y", weight=weight, drop=drop, **settings)
    model.save("m.bin")
    kept = model.network.background
    of_file = shapley.background_rows(package.Network.of_file("m.bin"))
    assert len(of_file) == (79 if weight else 100)
    of_both = [raw_data(rows.x).astype(str) for rows in (of_file, kept)]
    np.testing.assert_array_equal(*of_both)
    np.testing.assert_array_equal(of_file.weights, kept.weights)


@pytest.mark.parametrize(
    "columns, compared", [(100, 60), (250, 40), (600, 16), (2000, 10)]
)
def test_the_more_columns_the_fewer_background_rows_which_one_line_tells(
    columns, compared, caplog, by_permutations
):
    net, ds = wide(columns, 60)
    explainer = Explainer(net, ds.x, 2)
    explanation = explainer.explain(ds.x[:2])
    assert len(explainer.background) == compared
    value = Value(net)
    values = value.of(value.read(ds.x[:2]))[:, 0]
    total = explanation.values.sum(axis=1)
    difference = np.abs(explanation.base_values + total - values)
    assert difference.max() < 1e-9
    lines = [line for line in caplog.messages if line.startswith("contributions of ")]
    expected = f"contributions of {columns} columns: compared with {compared} of 60 background rows, of up to 100"
    assert lines == ([f"{expected} columns with all"] if columns > 100 else [])
