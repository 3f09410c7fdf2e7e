"""--vary, train_many: networks with settings of their own, trained together, are those
trained alone with these."""

from functools import partial
from importlib import import_module

import numpy as np
import pytest
from support.command_line import argv, run, succeed, write_two_classes
from support.packs import (
    LAYERS,
    SEED,
    StopSoon,
    check_alone,
    data,
    network,
    until_ended,
    vector,
)

import nn
from nn.core.random import uniform
from nn.files.checkpoint import Checkpoint
from nn.nn import Network
from nn.train.vary import DRAWN_SETTINGS, Choice, Range, Variation, layers_with
from nn.utils import Stopped, UsageError

COUNT = 6
TIMES = ("seconds", "us_per_batch", "threads")
VARY = {
    "all": "learning_rate=1e-3..1e-1,weight_decay=0..0.3,dropout=0..0.5,hidden=7|16|9-5,batch_number=8..64,epochs=2..5,"
    "optimizer=adam|sgd,momentum=0..0.9,schedule=constant|cosine",
    "options": "learning_rate=1e-3..1e-1,weight_decay=0.001|0.1,batch_size=16|32",
    "hidden": "hidden=7|16",
    "numbers": "number_embedding=linear|pieces5|waves3:0.5,hidden=7|16,learning_rate=1e-3..1e-1",
}


def together(
    vary, task="binary", backend="omp", ds=None, networks=COUNT, seed=SEED, **flags
):
    net = network(task, seed, backend)
    result = nn.train(
        net,
        ds or data(task),
        networks=networks,
        vary=vary,
        **{"epochs": 3, "validation": 0.25, **flags},
    )
    return net, result


def of_layers(layers, drawn):
    """The settings of train_many for those that --vary drew."""
    settings_of_network = {
        name: value
        for name, value in drawn.items()
        if name not in ("hidden", "dropout")
    }
    return {**settings_of_network, "layers": layers_with(layers, drawn)}


@pytest.mark.usual(8)
@pytest.mark.parametrize("task", LAYERS)
@pytest.mark.parametrize("vary", VARY)
@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_each_member_is_the_network_alone_with_its_settings(vary, task, backend):
    flags = {"validation": 0.25, "patience": 2}
    net, result = together(VARY[vary], task, backend, **flags)
    check_alone(task, net, result, backend, **flags)
    settings = {str(trial["settings"]) for trial in result["trials"]}
    assert len(settings) > 1
    expected = sum(member.parameter_count for member in net.members)
    assert result["parameters"] == expected


@pytest.mark.usual(6)
@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("task", LAYERS)
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"validation": 0.3, "patience": 2, "calibrate": "temperature"},
        {"validation": 0.3, "refit": True},
    ],
    ids=str,
)
def test_each_of_many_networks_is_the_one_alone(flags, task, backend):
    ds = data(task)
    each = []
    if task == "regression":
        flags = {
            name: value for name, value in flags.items() if name != "calibrate"
        } | {"clip": True}
    for number, vary in enumerate([*VARY.values(), *VARY.values()]):
        drawn = Variation.parse(vary).draw(number)
        each.append({"epochs": 3, **of_layers(LAYERS[task], drawn), "seed": number % 5})
    for (net, figures), own in zip(
        nn.train_many(ds, each, backend=backend, **flags), each, strict=True
    ):
        given = dict(own)
        alone = Network(
            given.pop("layers"), task, seed=given.pop("seed"), backend=backend
        )
        expected = nn.train(alone, ds, **flags, **given)
        assert np.array_equal(vector(net), vector(alone))
        assert net.metadata() == alone.metadata()
        assert {name: figures[name] for name in expected} == {
            **expected,
            **{name: figures[name] for name in TIMES},
        }


@pytest.mark.parametrize(
    "losses, exposure",
    [
        (["mse", "mae", "mse"], None),
        (["quantile=0.1,0.9", "mse", "quantile=0.1,0.9", "quantile=0.5"], None),
        (["poisson", "tweedie=1.5", "poisson"], "years"),
    ],
)
def test_networks_of_different_losses_learn_and_are_judged_by_their_own(
    losses, exposure
):
    draws = np.random.default_rng(3)
    table = {name: draws.normal(size=90) for name in "ab"}
    table |= {
        "years": draws.uniform(0.5, 2, 90),
        "claims": draws.poisson(2.0, 90) + 1.0,
    }
    ds = nn.load(table, target="claims", exposure=exposure, task="regression")
    each = [{"loss": loss, "seed": seed} for seed, loss in enumerate(losses)]
    for (net, figures), own in zip(
        nn.train_many(ds, each, epochs=3), each, strict=True
    ):
        alone = Network.for_data(ds, **own)
        expected = nn.train(alone, ds, epochs=3)
        assert np.array_equal(vector(net), vector(alone))
        for name in ("loss", "val_loss", "baseline", "learned"):
            assert figures[name] == expected[name]


def test_one_of_many_whose_loss_is_no_number_says_so():
    ds = data("regression")
    variants = [{"learning_rate": 0.01}, {"learning_rate": 1e38, "optimizer": "sgd"}]
    (_, good), (_, bad) = nn.train_many(ds, variants, layers="6,8,2", epochs=3)
    assert len(good["loss"]) == 3
    assert "loss is" in bad["failed"]


@pytest.mark.parametrize(
    "settings, expected",
    [
        ([], "no settings"),
        ([{"epochs": 0}], "--epochs 0"),
        ([{"layers": "6,1,x"}], "--layers"),
        (
            [{"lerning_rate": 1}],
            "network 0: lerning_rate: no such setting of train; did you mean learning_rate",
        ),
        ([{"networks": 2}], "networks: no such setting of train"),
    ],
)
def test_what_many_cannot_have_is_told(settings, expected):
    with pytest.raises(UsageError, match=expected):
        nn.train_many(data("binary"), settings)


def test_many_networks_that_were_stopped_go_on(folder):
    variants = [{"layers": f"6,{n},1", "epochs": n} for n in (3, 4, 5, 4)]
    trained = partial(nn.train_many, data("binary"), variants, validation=0.2)

    def saving(stop):
        return trained(checkpoint=Checkpoint(folder / "c.ck", resume="auto"), stop=stop)

    with pytest.raises(Stopped):
        saving(StopSoon(5))
    variants[3]["learning_rate"] = 0.1
    with pytest.raises(UsageError, match="c.ck"):
        saving(StopSoon(5))
    del variants[3]["learning_rate"]
    ended, stops = until_ended(saving, spread=5)
    assert stops > 1
    for (net, _), (own, _) in zip(ended, trained(), strict=True):
        assert np.array_equal(vector(net), vector(own))
        assert net.metadata() == own.metadata()


def test_bits_do_not_depend_on_threads():
    variation = Variation.parse("hidden=7|16|9-5,learning_rate=0.01|0.1")
    nets = {}
    variants = [
        of_layers(LAYERS["binary"], variation.draw(seed)) for seed in range(COUNT)
    ]
    for threads in (4, 1, 2, 3, 5):
        nets[threads] = [
            net
            for net, _ in nn.train_many(
                data(), variants, epochs=2, threads=threads, backend="omp"
            )
        ]
        for one, other in zip(nets[threads], nets[4], strict=True):
            assert np.array_equal(vector(one), vector(other))
            assert one.threads == threads


def test_members_that_differ_in_dropout_share_an_engine_to_predict():
    ds = data("binary")
    net = network("binary")
    variants = [
        {"layers": layers_with(LAYERS["binary"], {"dropout": rate})}
        for rate in (0, 0.1, 0.2, 0.3, 0.4)
    ]
    net.combine(
        [own for own, _ in nn.train_many(ds, variants, epochs=2, backend="omp")],
        [1.0] * 5,
    )
    scores = net.predict(ds.x)
    for member in net.members:
        assert member._engine is None
    predictions = [member.predict(ds.x) for member in net.members]
    assert np.allclose(scores, np.mean(predictions, 0), rtol=1e-6)


def test_a_members_settings_depend_on_its_seed_alone():
    variation = Variation.parse(VARY["all"])
    fewer = Variation.parse("hidden=7|16|9-5,learning_rate=1e-3..1e-1")
    ten = [variation.draw(SEED + number) for number in range(10)]
    trials = together(VARY["options"], networks=4)[1]["trials"]
    some = [trial["settings"] for trial in trials]
    trials = together(VARY["options"], networks=7)[1]["trials"]
    settings = [trial["settings"] for trial in trials]
    assert some == settings[:4]
    expected = [fewer.draw(SEED + n) for n in range(10)]
    assert [{name: variant[name] for name in fewer.of} for variant in ten] == expected
    assert len({str(variant) for variant in ten}) == 10


def test_ranges_are_drawn_evenly_on_their_scale_and_include_their_ends():
    def draws(text):
        return np.array(
            [
                next(iter(Variation.parse(text).draw(seed).values()))
                for seed in range(400)
            ]
        )

    rates = draws("learning_rate=1e-4..1e-2")
    assert rates.min() >= 1e-4
    assert rates.max() <= 1e-2
    assert rates[3] == float(f"{rates[3]:.4g}")
    halves = (
        rates < 1e-3,
        draws("weight_decay=0..0.3") < 0.15,
        draws("hidden=32|64") == "32",
    )
    # of a range on its scale; 5 deviations would be 50
    for half in halves:
        assert 160 < half.sum() < 240
    epochs = draws("epochs=2..4")
    assert {*epochs} == {2, 3, 4}
    assert 90 < (epochs == 4).sum() < 180
    last = np.nextafter(1, 0)
    for low, high in [(1, 1024), (2, 7), (1e-4, 1e-2), (0.5, 0.9)]:
        for log in (True, False):
            assert Range(low, high, log).at(0.0) == low
            assert Range(low, high, log).at(last) == high
    assert Choice(("a", "b")).at(last) == "b"
    assert uniform(3, 1, 2).tolist() == uniform(3, 1, 2).tolist()
    assert uniform(99, 1, 2).min() >= 0


@pytest.mark.parametrize(
    "layers, settings, expected",
    [
        ("30,60,10,1", {"hidden": "128-64"}, "30,128,64,1"),
        ("30,1", {"hidden": "8:tanh"}, "30,8:tanh,1"),
        (
            "30,60,dropout0.2,10,dropout0.3,1",
            {"hidden": "32-16"},
            "30,32,dropout0.2,16,dropout0.2,1",
        ),
        (
            "30,60,dropout0.2,10,dropout0.3,1",
            {"dropout": 0.1},
            "30,60,dropout0.1,10,dropout0.1,1",
        ),
        (
            "30,60:tanh,10,1",
            {"dropout": 0.25},
            "30,60:tanh,dropout0.25,10,dropout0.25,1",
        ),
        (
            "30,60,1",
            {"hidden": "8-4", "dropout": 0.0},
            "30,8,dropout0.0,4,dropout0.0,1",
        ),
        (
            "1x28x28,conv4k2same,maxpool4,128,10",
            {"hidden": "64"},
            "1x28x28,conv4k2same,maxpool4,64,10",
        ),
        ("30, 60 ,1", {}, "30,60,1"),
    ],
)
def test_layers_with_drawn_settings(layers, settings, expected):
    assert layers_with(layers, settings) == expected


@pytest.mark.parametrize(
    "vary, expected",
    {
        "learning_rate": "expected NAME=LOW..HIGH or NAME=A|B",
        "lerning_rate=1..2": "did you mean learning_rate",
        "seed=1..2": "choose from learning_rate",
        "learning_rate=0..1": "learning_rate 0: expected a finite number above 0",
        "learning_rate=1e-2..1e-4": "lower bound first",
        "learning_rate=fast|slow": "learning_rate fast: expected",
        "dropout=0..1": "dropout 1: expected a number from 0 to below 1",
        "batch_number=1.5|2": "batch_number 1.5",
        "hidden=32..64": "hidden has no range",
        "hidden=32-x": "hidden 32-x: expected the sizes",
        "optimizer=adam|lion": "optimizer lion: expected adam, sgd, rmsprop or adagrad",
        "epochs=1|2,epochs=3|4": "stands there twice",
        "momentum=0.1|0.9": "momentum: is for --optimizer sgd",
        **{f"{name}=": f"--vary {name}=: expected NAME=LOW" for name in DRAWN_SETTINGS},
    }.items(),
)
def test_a_wrong_spec_is_told_in_a_line(vary, expected):
    with pytest.raises(UsageError) as error:
        together(vary)
    assert str(error.value).startswith("--vary")
    assert expected in str(error.value)


@pytest.mark.parametrize(
    "flags, expected",
    [
        ({"networks": None}, "--networks K"),
        ({"networks": None, "folds": 3}, "leave out --folds"),
        ({"learning_rate": 0.1}, "--learning_rate 0.1 is given too"),
        ({"vary": "dropout=0.1|0.2"}, "no hidden layer"),
    ],
)
def test_what_does_not_go_with_it_is_refused(flags, expected):
    with pytest.raises(UsageError, match=expected):
        nn.train(
            Network("6,1", "binary"),
            data(),
            **{"networks": 3, "vary": "learning_rate=0.1|0.2", **flags},
        )


def test_varied_networks_on_the_command_line(two):
    call = argv(f"--train --dataset {two} --model v.bin --networks 4 --seed 2 --vary")
    result = succeed(
        *call, "learning_rate=0.01..0.1,hidden=4|6-3", "--epochs", 3, "-v", "--json"
    )
    report = result.json
    weights = [member["weight"] for member in report["members"]]
    assert len(report["trials"]) == 4
    assert Network.of_file("v.bin").member_weights == weights
    assert "4 networks of 2 architectures" in result.err
    assert "12 held out" in result.err
    rows = succeed("--info", "--model", "v.bin", "--verbose").out
    for member in report["members"]:
        assert f"{member['settings']['learning_rate']:g}" in rows
        assert member["settings"]["hidden"].split("-")[0] in rows
        assert set(member["settings"]) == {"learning_rate", "hidden"}
    info = succeed("--info", "--model", "v.bin", "--json").json
    assert info["parameters"] == report["parameters"]
    assert info["config"]["vary"].startswith("learning_rate")
    result = run(*call, "dropout=2..3")
    assert result.code == 2
    assert "dropout 2: expected" in result.err


def test_the_table_shows_the_best_first_and_verbose_all(folder):
    write_two_classes(folder / "data.csv", 120)
    flags = "--model m.bin --epochs 3 --validation 0.3 --networks 24 --split_seed 0 --monitor roc_auc"
    vary = "learning_rate=1e-3..1e-1,hidden=4|6-3,optimizer=adam|sgd"
    call = ["--train", "--dataset", "data.csv", *flags.split(), "--vary", vary]
    output = succeed(*call, "--verbose").out
    lines = output[output.index("24 networks tried\n") :].splitlines()
    assert lines[1].split() == [
        "weight",
        "seed",
        "learning_rate",
        "hidden",
        "optimizer",
        "epochs",
        "roc_auc",
    ]
    shown = [line.split() for line in lines[2:26]]
    weighted = [line for line in shown if line[0].isdigit()]
    assert shown[: len(weighted)] == weighted
    assert 1 <= len(weighted) <= 10
    losses_of_others = [
        float(line[-1]) for line in shown if line[:2] == ["not", "chosen"]
    ]
    assert losses_of_others == sorted(losses_of_others, reverse=True)
    assert shown[-1][:2] == ["given", "up"]
    output = succeed(*call).out
    best = output[output.index("24 networks tried, the best 8\n") :].splitlines()[2:10]
    assert [line.split() for line in best] == shown[:8]


@pytest.mark.parametrize(
    "asked", [{}, {"validation": 0.3}, {"validation": 0.3, "refit": True}]
)
def test_groups_stay_on_one_side_of_the_split_that_chooses(monkeypatch, asked):
    module = import_module("nn.data.splits")
    splits = []
    usual = module.split_rows
    monkeypatch.setattr(
        module, "split_rows", lambda *given: splits.append(usual(*given)) or splits[-1]
    )
    ds = data("binary")
    rng = np.random.default_rng(4)
    ds.groups = rng.integers(0, 30, ds.rows)
    vary = "learning_rate=1e-3..1e-1,number_embedding=linear|pieces5"
    nn.train(network("binary"), ds, networks=3, vary=vary, **asked)
    assert any(len(split.validation) for split in splits)
    for split in splits:
        groups = [set(ds.groups[rows]) for rows in split]
        assert not (groups[0] & groups[1])
        assert not (groups[0] & groups[2])
        assert not (groups[1] & groups[2])


def test_networks_of_which_some_have_validation_rows_are_those_trained_alone():
    """The losses of a run are means over those that have them."""
    ds = data("binary")
    settings = [{"seed": 1}, {"seed": 3, "validation": 0.25, "monitor": "roc_auc"}]
    pairs = nn.train_many(ds, settings, layers="6,8,1", epochs=3)
    for own, (net, figures) in zip(settings, pairs, strict=True):
        options = {name: value for name, value in own.items() if name != "seed"}
        alone = nn.Network.for_data(ds, "6,8,1", seed=own["seed"])
        expected = nn.train(alone, ds, epochs=3, **options)
        assert figures["val_loss"] == expected["val_loss"]
        assert figures.get("val_metric") == expected.get("val_metric")
        np.testing.assert_array_equal(net.vector, alone.vector)


@pytest.mark.parametrize(
    "vary, chosen",
    [
        ("weight_decay=0.01..0.3", ["weight_decay"]),
        ("hidden=7|16,dropout=0..0.5", ["dropout", "hidden"]),
        ("optimizer=adam|sgd", ["learning_rate", "optimizer", "weight_decay"]),
    ],
)
def test_a_model_tells_what_was_varied_and_what_follows_from_it(vary, chosen):
    net, _ = together(vary)
    assert net.config["chosen"] == chosen


def test_each_setting_is_drawn_for_itself():
    """By random numbers of its own, the same beside whichever others."""
    both = Variation.parse(
        "learning_rate=0.001..0.1,weight_decay=0.001..0.1,momentum=0.1..0.9"
    )
    alone = Variation.parse("weight_decay=0.001..0.1")
    drawn = [both.draw(seed, "sgd") for seed in range(60)]
    expected = [alone.draw(seed)["weight_decay"] for seed in range(60)]
    assert [draw["weight_decay"] for draw in drawn] == expected
    columns = np.array([[draw[name] for draw in drawn] for name in both.of])
    difference = np.abs(np.corrcoef(columns) - np.eye(3))
    assert difference.max() < 0.4


def test_a_number_that_is_drawn_has_four_digits():
    assert (
        Range(1e-5, 1e-3, True).at(0.3) == float(f"{1e-5 * 100**0.3:.4g}") == 3.981e-05
    )
    assert Range(0.0, 0.00012346, False).at(0.5) == 6.173e-05
    assert Range(1000.0, 99999.0, False).at(0.5) == 50500.0


@pytest.mark.parametrize("door", ["fit", "command", "fit in time", "fit with hold-out"])
def test_groups_stay_together_in_every_door(monkeypatch, folder, door):
    """Of 40 groups of three rows no row of one is on another side of a split."""
    module = import_module("nn.data.splits")
    splits = []
    usual = module.split_rows

    def observed(ds, *given):
        split = usual(ds, *given)
        splits.append([set(ds.groups[rows]) for rows in split])
        return split

    monkeypatch.setattr(module, "split_rows", observed)
    rng = np.random.default_rng(4)
    rows = [
        {
            "a": rng.normal(),
            "g": f"g{row % 40}",
            "t": row,
            "y": "no" if rng.random() < 0.4 else "yes",
        }
        for row in range(120)
    ]
    asked = {
        "networks": 3,
        "epochs": 2,
        "group": "g",
        "layers": "auto,3,1",
        "vary": "learning_rate=1e-3..1e-1",
    }
    if door == "command":
        with open("t.csv", "w") as file:
            file.write(
                "a,g,y\n"
                + "".join(f"{row['a']},{row['g']},{row['y']}\n" for row in rows)
            )
        flags = [
            text for name, value in asked.items() for text in (f"--{name}", str(value))
        ]
        succeed("--train", "--dataset", "t.csv", "--model", "m.bin", *flags)
    elif door == "fit in time":
        nn.fit(rows, "y", **asked, time="t")
    else:
        nn.fit(
            rows,
            "y",
            **asked,
            holdout=0.3 if "hold-out" in door else 0.0,
            validation=0.25,
        )
    assert any(validation for _, validation, _ in splits)
    for training, validation, held in splits:
        assert not (training & validation)
        assert not (training & held)
        assert not (validation & held)
