"""The flags: their spellings, the help, the version."""

import inspect
import re
import resource
import subprocess
import sys
from dataclasses import fields

import pytest
from support.command_line import ONE, environment, run, succeed

import nn
from nn import backends, nn_aux
from nn.data import scaling
from nn.data.dataset import Choices
from nn.terminal import flags, help, parser
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
    text = succeed("--help", "--all").out
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
    text = succeed("--help", "--all").out
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


@pytest.mark.parametrize("words", [(), ("train",), ("--train",), ("test",), ("predict",), ("info",)])
def test_help_is_one_screen(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = succeed(*words, "--help").out
    assert len(text.splitlines()) <= 36
    assert max(map(len, text.splitlines())) <= 80
    if "predict" in words:
        assert "score CLASS" in text
    assert ("--epochs" in text) == ("train" in words or "--train" in words)


def test_help_of_a_mode_lists_all_of_its_flags_when_asked():
    text = succeed("test", "--help", "--all").out
    listed = {flag.name for flag in flags.FLAGS if any(f"  {name} " in text for name in flag.names)}
    shorts = {flag.name for flag in flags.FLAGS if flag.short and f"{flag.short}, {flag.long}" in text}
    assert listed | shorts == flags.read_by("test") - {"test"}


def test_help_shows_the_commonest_flags_of_each_mode():
    assert {*help.COMMON, *parser.SYNONYMS.values()} <= {flag.name for flag in flags.FLAGS}
    assert list(help.USAGE) == list(parser.WORDS) == flags.MODES


@pytest.mark.parametrize(
    "line, found",
    [
        ([], ["train", "test", "predict", "info", "export", "bench", "sweep", "plot"]),
        (["tr"], ["train"]),
        (["train", "--thresh"], ["--threshold"]),
        (["--train", "--thresh"], ["--threshold"]),
        (["info", "--thresh"], []),
        (["train", "CC.csv", "--optimizer", "ad"], ["adam"]),
    ],
)
def test_bash_completes_words_flags_of_the_mode_and_names(line, found):
    line = ["nn", *line] if line else ["nn", ""]
    script = succeed("--completion", "bash").out
    quoted = " ".join(f"'{word}'" for word in line)
    script += f"COMP_WORDS=({quoted}); COMP_CWORD={len(line) - 1}; _nn; echo ${{COMPREPLY[*]}}"
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout.split() == found


def test_every_shell_gets_every_flag():
    for shell in help.SHELLS:
        text = succeed("--completion", shell).out
        assert all(flag.name in text for flag in flags.FLAGS)
    assert "expected bash, zsh, fish" in run("--completion", "tcsh").err


@pytest.mark.timing
@pytest.mark.parametrize("words, most", [(["--version"], 1.0), (["info", "m.bin"], 2.0)])
def test_the_command_starts_about_as_quickly_as_numpy(two, tmp_path, words, most):
    """Processor time, in turn, so that a slow machine and other processes on it count on both sides; of compiled
    modules, as an installation has them."""
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1)
    compiled = environment(PYTHONPYCACHEPREFIX=str(tmp_path / "compiled"), PYTHONDONTWRITEBYTECODE="")

    def processor_seconds(*arguments) -> float:
        def used() -> float:
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            return children.ru_utime + children.ru_stime

        before = used()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=compiled)
        return used() - before

    pairs = [(processor_seconds("-m", "nn", *words), processor_seconds("-c", "import numpy")) for _ in range(6)]
    ours, numpy = map(min, zip(*pairs[1:]))
    assert ours <= most * numpy


# ---------------------------------------------------------------- words as commands


@pytest.mark.parametrize(
    "words, flagged",
    [
        ("train a.csv -m m.bin --epochs 3", "--train --dataset a.csv --model m.bin --epochs 3"),
        ("-q train --epochs 3 a.csv -m m.bin", "--quiet --train --epochs 3 --dataset a.csv --model m.bin"),
        ("train - -mm.bin -vs3", "--train --dataset - --model m.bin --verbose --seed 3"),
        ("test m.bin", "--test --model m.bin"),
        ("predict m.bin a.csv -o -", "--predict --model m.bin --dataset a.csv --output -"),
        ("predict m.bin -- -a.csv", "--predict --model m.bin --dataset -a.csv"),
        ("info m.bin", "--info --model m.bin"),
        ("info --layers 3,1", "--info --layers 3,1"),
        ("export m.bin -o m.c", "--export --model m.bin --output m.c"),
        ("bench small", "--bench --case small"),
        ("sweep plan.json -o x.csv", "--sweep plan.json --output x.csv"),
    ],
)
def test_a_word_is_its_flags(words, flagged):
    assert parser.parse(words.split()) == parser.parse(flagged.split())


def test_of_a_model_or_data_given_twice_the_last_one_counts_and_that_is_said(trained):
    result = succeed("test", "other.bin", "--model", trained)
    assert f"nn: warning: --model is given as other.bin and {trained}; the last one counts" in result.err
    assert "last one counts" not in succeed("test", trained, "--model", trained).err
    assert "last one counts" not in succeed("test", trained, "--threshold", ".1", "--threshold", ".2").err


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
