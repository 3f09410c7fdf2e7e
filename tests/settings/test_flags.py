"""The flags: their spellings, the help, the version."""

import inspect
import re
import resource
import subprocess
import sys
from dataclasses import fields

import pytest
from support.command_line import ONE, environment, succeed

import nn
from nn import nn_aux
from nn.data.dataset import Choices
from nn.settings import flags
from nn.utils import UsageError


def test_dashes_and_underscores_mean_the_same(two):
    succeed("--train", "--dataset", "two.csv", "--model", "a.bin", "--batch_number", 7, "--epochs=2")
    succeed("--train", "--dataset", "two.csv", "--model", "b.bin", "--batch-number", 7, "--epochs=2")
    assert (two.parent / "a.bin").read_bytes() == (two.parent / "b.bin").read_bytes()
    assert succeed("--info", "--model", "a.bin", "--json").json["config"]["batch_number"] == 7


def test_the_originals_spelling_of_standardization_is_understood(two):
    succeed("--train", "--dataset", "two.csv", "--model", "a.bin", "--scaling", "standarization")
    succeed("--train", "--dataset", "two.csv", "--model", "b.bin", "--scaling", "standardization")
    assert (two.parent / "a.bin").read_bytes() == (two.parent / "b.bin").read_bytes()


def test_help_lists_every_flag_and_every_name(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = succeed("--help").out
    for flag in flags.FLAGS:
        assert flag.long in text
    for names in (
        nn_aux.ACTIVATIONS,
        nn_aux.LOSSES,
        nn_aux.OPTIMIZERS,
        nn_aux.INITIALIZERS,
        nn_aux.SCHEDULES,
        nn_aux.TASKS,
        nn_aux.SCALINGS,
        nn_aux.BACKENDS,
    ):
        for name in names:
            assert re.search(rf"\b{name}\b", text), name


def test_help_tells_the_defaults_that_training_has(two, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = succeed("--help").out
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin")
    config = succeed("--info", "--model", "m.bin", "--json").json["config"]
    for name in (
        "epochs",
        "batch_number",
        "learning_rate",
        "momentum",
        "weight_decay",
        "holdout",
        "threshold",
        "seed",
        "optimizer",
        "schedule",
        "scaling",
    ):
        value = config[name] if isinstance(config[name], str) else f"{config[name]:g}"
        assert re.search(rf"--{name}\b.*\(([^()]*\b)?{re.escape(value)}\b[^()]*\)", text), name


@pytest.mark.timing
def test_help_takes_less_than_twice_what_a_small_typer_program_needs_for_it():
    """Half as much again, measured: as processor time, both in turn, so that a slow machine and other processes on it
    count on both sides."""
    small = """
import typer
app = typer.Typer()
@app.command()
def main(number: int = typer.Option(1, help="one"), name: str = typer.Option("x", help="two")):
    "A program."
app(["--help"])
"""

    def processor_seconds(*arguments) -> float:
        def used() -> float:
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            return children.ru_utime + children.ru_stime

        before = used()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment())
        return used() - before

    pairs = [(processor_seconds("-m", "nn", "--help"), processor_seconds("-c", small)) for _ in range(5)]
    ours, least = map(min, zip(*pairs))
    assert ours < 2 * least


def test_help_does_without_numpy():
    code = "import sys, nn.cli; nn.cli.main(['--help']); sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment())


def test_version_is_that_of_the_package():
    assert succeed("--version").out == f"nn {nn.__version__}\n"


# ---------------------------------------------------------------- one record for the command line and for Python


def parameters(function) -> set[str]:
    return {*inspect.signature(function).parameters}


TAKES = {
    "load": parameters(nn.load) | {choice.name for choice in fields(Choices)},
    "network": parameters(nn.Network),
    "engine": parameters(nn.Network),
    **dict.fromkeys(("train", "several", "checkpoint"), parameters(nn.train)),
}


@pytest.mark.parametrize("flag", [flag for flag in flags.FLAGS if flag.of], ids=lambda flag: flag.name)
def test_a_flag_is_a_keyword_of_what_takes_it(flag):
    assert flag.name in TAKES[flag.of]


def test_each_choice_of_load_is_a_flag():
    assert {choice.name for choice in fields(Choices)} <= {flag.name for flag in flags.settings_of("load")}


@pytest.mark.parametrize("estimator", [nn.NetworkClassifier, nn.NetworkRegressor])
def test_an_estimator_takes_the_settings_of_what_it_calls(estimator):
    taken = parameters(estimator) - {"random_state"}
    assert taken <= {"layers", "effort", "batch_size", *TAKES["load"], *TAKES["network"], *TAKES["train"]}
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        estimator(epoch=2)


def test_a_setting_that_is_none_is_refused_with_a_suggestion(two):
    ds = nn.load("two.csv")
    with pytest.raises(UsageError, match="epoch: no such setting of train; did you mean epochs?"):
        nn.train(nn.Network.for_data(ds), ds, epoch=2)
    with pytest.raises(UsageError, match="numeric: no such setting of load; did you mean"):
        nn.load("two.csv", numeric="a")


def test_a_setting_has_one_value(two):
    ds = nn.load("two.csv")
    with pytest.raises(UsageError, match="batch_number and batch_size are two names of one setting"):
        nn.train(nn.Network.for_data(ds), ds, batch_size=3, batch_number=4)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"epochs": 2.5}, "--epochs 2.5: expected a whole number from 1"),
        ({"refit": 1}, "--refit 1: expected true or false"),
        ({"learning_rate": "fast"}, "--learning_rate fast: expected a finite number above 0"),
        ({"optimizer": "adamw"}, "--optimizer adamw: expected adam or sgd"),
        ({"networks": 0}, "--networks 0: expected a whole number from 1"),
        ({"checkpoint": "c.ck", "checkpoint_every": 0}, "--checkpoint_every 0: expected a whole number from 1"),
    ],
)
def test_a_value_from_python_is_checked_as_one_that_is_typed(two, setting, told):
    ds = nn.load("two.csv")
    with pytest.raises(UsageError, match=told):
        nn.train(nn.Network.for_data(ds), ds, **setting)
