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
from nn import backends, nn_aux
from nn.data import scaling
from nn.data.dataset import Choices
from nn.terminal import flags
from nn.train.options import Options


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
        scaling.SCALINGS,
        backends.BACKENDS,
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


TAKES = {"load": nn.load, "network": nn.Network, "engine": nn.Network, "train": nn.train, "checkpoint": nn.train}
OF_SEVERAL = {"networks", "vary", "keep", "folds"}  # how many trainings there are, no options of one


@pytest.mark.parametrize("flag", [flag for flag in flags.FLAGS if flag.keyword_of], ids=lambda flag: flag.name)
def test_a_flag_is_a_keyword_of_what_takes_it(flag):
    keywords = {*inspect.signature(TAKES[flag.keyword_of]).parameters}
    if flag.keyword_of == "load":
        keywords |= {choice.name for choice in fields(Choices)}
    assert flag.name in keywords


def test_load_takes_no_choice_that_is_none(two):
    with pytest.raises(TypeError, match="colour"):
        nn.load("two.csv", colour="a")


def test_what_train_takes_is_an_option_of_a_training():
    taken = {flag.name for flag in flags.FLAGS if flag.keyword_of == "train"}
    assert taken - {option.name for option in fields(Options)} == OF_SEVERAL
