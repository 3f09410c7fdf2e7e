"""The flags: their spellings, the help, the version."""

import importlib
import inspect
import re
import resource
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from support.command_line import ONE, environment, run, succeed

import nn
from nn import nn_aux
from nn.backends.engine import EpochSettings
from nn.core.losses import row_losses
from nn.data.scaling import Scaling
from nn.data.schema import Choices
from nn.layers import parse
from nn.settings import flags
from nn.settings.values import BYTES, NUMBER_EMBEDDING, VALIDATION
from nn.terminal import help, parser
from nn.train.options import options_of
from nn.utils import UsageError


@pytest.mark.parametrize(
    "name, taken, refused",
    [
        ("seed", ["0", "4294967295"], ["-1", "4294967296"]),
        ("threads", ["1", "1024"], ["0", "1025"]),
        ("epsilon", ["1e-37", "1e37"], ["9.9e-38", "1.01e37"]),
        ("momentum", ["0", "0.999"], ["-0.001", "1"]),
        ("level", ["1e-9", "0.999"], ["0", "1"]),
        ("validation", ["1e-9", "0.999"], ["0", "1"]),
        ("weight_decay", ["0"], ["-1e-9", "inf"]),
        ("learning_rate", ["1e-30"], ["0", "nan"]),
        ("memory", ["1"], ["0"]),
    ],
)
def test_the_ends_of_what_a_number_may_be_are_allowed(name, taken, refused):
    flag = flags.BY_NAME[name]
    for text in taken:
        assert flag.check(text) == float(text)
    for text in refused:
        with pytest.raises(UsageError, match=f"--{name}"):
            flag.check(text)


@pytest.mark.parametrize(
    "name, output, target, loss",
    [
        ("l1", [4.0], [1.0], 3.0),
        ("l2", [4.0], [1.0], 9.0),
        ("crossentropy", [0.25, 0.75], [1.0, 0.0], np.log(4)),
        ("binary_crossentropy", [0.75], [0.0], np.log(4)),
    ],
)
def test_a_loss_by_another_name_is_the_one_of_its_formula(name, output, target, loss):
    with pytest.raises(UsageError, match=f"{name} is called ") as caught:
        flags.BY_NAME["loss"].check(name)
    meant = str(caught.value).rpartition(" ")[2]
    losses = row_losses(meant, np.array([output]), np.array([target]))
    assert losses == pytest.approx([loss])


@pytest.mark.parametrize(
    "name, ends", [("minmax", [0.0, 1.0]), ("zscore", [-(1.5**0.5), 1.5**0.5])]
)
def test_a_scaling_by_another_name_is_the_one_of_its_formula(name, ends):
    with pytest.raises(UsageError, match=f"{name} is called ") as caught:
        flags.BY_NAME["scaling"].check(name)
    meant = str(caught.value).rpartition(" ")[2]
    x = np.array([[1.0], [2.0], [3.0]])
    assert Scaling.fit(meant, x).apply(x)[::2, 0] == pytest.approx(ends)


def test_help_lists_every_flag_and_every_name(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = succeed("--help", "--all").out
    cases = [*flags.MODES.values(), *flags.FLAGS]
    for flag in cases:
        assert flag.long in text
    for name in {
        *nn_aux.ACTIVATIONS,
        *(name for flag in flags.FLAGS if flag.value for name in flag.value.names),
    }:
        assert re.search(rf"\b{name}\b", text), name
    names = {flag.name for flag in flags.FLAGS}
    assert {*help.COMMON, *flags.SYNONYMS.values()} <= names


def test_help_tells_the_defaults_that_training_has(two, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = succeed("--help", "--all").out
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin")
    config = succeed("--info", "--model", "m.bin", "--json").json["config"]
    names = {
        flag.name
        for flag in flags.FLAGS
        if flag.default is not None and flag.taker in ("train", "network")
    }
    for name in sorted(
        names & config.keys() | {"learning_rate", "weight_decay", "scaling"}
    ):
        if isinstance(config[name], str):
            value = config[name]
        else:
            value = f"{config[name]:g}"
        assert re.search(
            rf"--{name}\b.*\(([^()]*\b)?{re.escape(value)}\b[^()]*\)", text
        ), name


@pytest.mark.parametrize(
    "words", [(), ("train",), ("--train",), ("test",), ("predict",), ("info",)]
)
def test_help_is_one_screen(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = succeed(*words, "--help").out
    assert len(text.splitlines()) <= 36
    assert max(map(len, text.splitlines())) <= 80
    assert "score CLASS" in text or "predict" not in words
    expected = "train" in words or "--train" in words
    assert ("--epochs" in text) == expected


def test_help_of_a_mode_lists_all_of_its_flags_when_asked():
    text = succeed("test", "--help", "--all").out
    listed = {
        flag.name
        for flag in flags.FLAGS
        if any(f"  {name} " in text for name in flag.names)
    }
    shorts = {
        flag.name
        for flag in flags.FLAGS
        if flag.short and f"{flag.short}, {flag.long}" in text
    }
    expected = flags.flags_of_mode("test") - {"test"}
    assert listed | shorts == expected


def test_a_mode_has_its_function_and_its_words_are_flags():
    for mode in flags.MODES.values():
        module = importlib.import_module(f"nn.commands.{mode.module}")
        assert callable(getattr(module, f"{mode.name}_command"))
        assert {*mode.words, *mode.needs} <= {mode.name, *flags.BY_NAME}


@pytest.mark.parametrize(
    "line, completions",
    [
        ("''", [*flags.MODE_WORDS]),
        ("tr", ["train"]),
        ("train --thresh", ["--threshold"]),
        ("--train --thresh", ["--threshold"]),
        ("info --thresh", []),
        ("train CC.csv --optimizer ada", ["adam", "adagrad"]),
    ],
)
def test_bash_completes_words_flags_of_the_mode_and_names(line, completions):
    script = succeed("--completion", "bash").out
    script += f"COMP_WORDS=(nn {line}); COMP_CWORD={len(line.split())}; _nn; echo ${{COMPREPLY[*]}}"
    process = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == completions


def test_every_shell_gets_every_flag():
    for shell in help.SHELLS:
        text = succeed("--completion", shell).out
        for name in [*flags.MODES, *flags.BY_NAME]:
            assert name in text
    # of fish: -r asks for a value, -x for one of names
    lines = succeed("--completion", "fish").out.splitlines()
    for name, switches in {
        "model": "-s m -l model -r -d",
        "quiet": "-s q -l quiet -d",
        "optimizer": "-l optimizer -x -a 'adam sgd ",
        "bench": "-l bench -d",
    }.items():
        (line,) = [line for line in lines if f" -l {name} " in line]
        assert line.startswith(f"complete -c nn {switches}")
    assert "expected bash, zsh, fish" in run("--completion", "tcsh").err


@pytest.mark.timing
@pytest.mark.parametrize(
    "words, most", [(["--version"], 1.0), (["info", "m.bin"], 2.0)]
)
def test_the_command_starts_about_as_quickly_as_numpy(two, tmp_path, words, most):
    """Processor time, in turn, so that a slow machine and other processes on it count
    on both sides; of compiled modules, as an installation has them."""
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1)
    compiled = environment(
        PYTHONPYCACHEPREFIX=str(tmp_path / "compiled"), PYTHONDONTWRITEBYTECODE=""
    )

    def processor_seconds(*arguments) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, *arguments]
        subprocess.run(command, check=True, capture_output=True, env=compiled)
        # of the user and the system
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - sum(before[:2])

    pairs = [
        (processor_seconds("-m", "nn", *words), processor_seconds("-c", "import numpy"))
        for _ in range(10)
    ]
    ours, numpy = map(min, zip(*pairs[1:]))
    assert ours <= most * numpy


@pytest.mark.parametrize(
    "words, flagged",
    [
        (
            "train a.csv -m m.bin --epochs 3",
            "--train --dataset a.csv --model m.bin --epochs 3",
        ),
        (
            "-q train --epochs 3 a.csv -m m.bin",
            "--quiet --train --epochs 3 --dataset a.csv --model m.bin",
        ),
        (
            "train a.csv --batch-number 7 --split-seed=2",
            "--train --dataset a.csv --batch_number 7 --split_seed 2",
        ),
        # the original's
        (
            "train a.csv --scaling standarization",
            "--train --dataset a.csv --scaling standardization",
        ),
        (
            "train - -mm.bin -vs3",
            "--train --dataset - --model m.bin --verbose --seed 3",
        ),
        ("test m.bin", "--test --model m.bin"),
        (
            "predict m.bin a.csv -o -",
            "--predict --model m.bin --dataset a.csv --output -",
        ),
        ("predict m.bin -- -a.csv", "--predict --model m.bin --dataset -a.csv"),
        ("explain m.bin a.csv", "--explain --model m.bin --dataset a.csv"),
        ("info m.bin", "--info --model m.bin"),
        ("compare a.bin -v b.bin", "--compare a.bin,b.bin --verbose"),
        ("info --layers 3,1", "--info --layers 3,1"),
        ("export m.bin -o m.c", "--export --model m.bin --output m.c"),
        ("bench", "--bench"),
        ("bench small,large -q", "--bench=small,large --quiet"),
        ("sweep plan.json -o x.csv", "--sweep plan.json --output x.csv"),
    ],
)
def test_a_word_is_its_flags(words, flagged):
    assert parser.parse(words.split()) == parser.parse(flagged.split())


def test_of_a_model_or_data_given_twice_the_last_one_counts_and_that_is_said(trained):
    result = succeed("test", "other.bin", "--model", trained)
    assert (
        f"nn: warning: --model is given as other.bin and {trained}; the last one counts"
        in result.err
    )
    assert "last one counts" not in succeed("test", trained, "--model", trained).err
    assert (
        "last one counts"
        not in succeed("test", trained, "--threshold", ".1", "--threshold", ".2").err
    )


def test_help_does_without_numpy_and_version_is_that_of_the_package():
    code = (
        "import sys, nn.cli; nn.cli.main(['--help']); sys.exit('numpy' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, capture_output=True, env=environment())
    assert succeed("--version").out == f"nn {nn.__version__}\n"


# --------------------------------------- one record for the command line and for Python


def parameters(function) -> set[str]:
    return {*inspect.signature(function).parameters}


TAKES = {
    "load": parameters(nn.load) | {choice.name for choice in fields(Choices)},
    **dict.fromkeys(("network", "engine"), parameters(nn.Network)),
    **dict.fromkeys(("train", "several", "checkpoint"), parameters(nn.train)),
}


@pytest.mark.parametrize(
    "flag", [flag for flag in flags.FLAGS if flag.taker], ids=lambda flag: flag.name
)
def test_a_flag_is_a_keyword_of_what_takes_it(flag):
    assert flag.name in TAKES[flag.taker]


def test_each_choice_of_load_is_a_flag():
    names = {flag.name for flag in flags.settings_of("load")}
    assert {choice.name for choice in fields(Choices)} <= names


@pytest.mark.parametrize("estimator", [nn.NetworkClassifier, nn.NetworkRegressor])
def test_an_estimator_takes_the_settings_of_what_it_calls(estimator):
    taken = parameters(estimator) - {"random_state"}
    assert taken <= {
        "layers",
        "effort",
        "batch_size",
        "warm_start",
        *TAKES["load"],
        *TAKES["network"],
        *TAKES["train"],
    }
    # what has another name here, what X and y say, and what is of other targets
    others = {"NetworkClassifier": "clip", "NetworkRegressor": "class_weight"}
    of_other = others[estimator.__name__]
    assert taken.isdisjoint({"seed", "batch_number", "target", "holdout", of_other})
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        estimator(epoch=2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epochs": 2.5}, "--epochs 2.5: expected a whole number from 1"),
        ({"refit": 1}, "--refit 1: expected true or false"),
        (
            {"learning_rate": "fast"},
            "--learning_rate fast: expected a finite number above 0",
        ),
        (
            {"optimizer": "adamw"},
            "--optimizer adamw: expected adam, sgd, rmsprop or adagrad",
        ),
        ({"networks": 0}, "--networks 0: expected a whole number from 1"),
        (
            {"checkpoint": "c.ck", "checkpoint_every": 0},
            "--checkpoint_every 0: expected a whole number from 1",
        ),
        ({"epoch": 2}, "epoch: no such setting of train; did you mean epochs?"),
        (
            {"batch_size": 3, "batch_number": 4},
            "batch_number and batch_size are two names of one setting",
        ),
    ],
)
def test_a_value_from_python_is_checked_as_one_that_is_typed(two, setting, message):
    ds = nn.load("two.csv")
    with pytest.raises(UsageError, match=message):
        nn.train(nn.Network.for_data(ds), ds, **setting)


def test_load_refuses_what_is_no_setting_of_it_and_no_type_that_the_core_knows(
    two,
):
    with pytest.raises(
        UsageError, match="numeric: no such setting of load; did you mean"
    ):
        nn.load("two.csv", numeric="a")
    with pytest.raises(
        UsageError, match="dtype float16: expected float32, float64 or tf32"
    ):
        nn.load("two.csv", dtype="float16")
    assert nn.load("two.csv", dtype="tf32").x.dtype == "float32"


@pytest.mark.parametrize(("name", "instead"), flags.GONE.items())
def test_a_flag_that_has_gone_names_what_takes_its_place(name, instead):
    given = ["--train", "--dataset", "data.csv", "--model", "m.bin", f"--{name}", 8]
    expected = (2, "", f"nn: --{name}: has gone; use --{instead}\n")
    assert run(*given) == expected


SHARES = [f"{share / 1000:g}" for share in range(1, 101)]


@pytest.mark.parametrize(
    "name, taken, refused",
    [
        ("loss", ["huber=1e-30", "huber=1e30"], ["huber=0", "huber=1.1e30", "mse=1"]),
        ("loss", ["focal=0", "focal=100"], ["focal=-0.1", "focal=100.1"]),
        ("loss", ["tweedie=1.001", "tweedie=1.999"], ["tweedie=1", "tweedie=2"]),
        ("loss", ["quantile=0.001"], ["quantile=0", "quantile=1"]),
        ("loss", ["quantile=.1,.5"], ["quantile=.5,.5", "quantile=.5,.1", "huber=1,2"]),
        (
            "loss",
            [f"quantile={','.join(SHARES[:99])}"],
            [f"quantile={','.join(SHARES)}"],
        ),
        ("threshold", ["precision=1", "recall=1"], ["precision=0", "recall=1.01"]),
        ("threshold", ["cost=0:1"], ["cost=0:0", "cost=-1:1", "cost=1", "f1=1"]),
        ("threshold", ["fbeta=0.001"], ["fbeta=0", "fbeta=inf", "inf"]),
        ("class_weight", ["0,1"], ["0,0", "-1,1", "inf,1"]),
        ("betas", ["0,0.999", "0"], ["1", "0.1,0.2,0.3", "-0.1"]),
        ("gpus", ["1024", "0,"], ["0", "1025", "0,0", "-1,"]),
        ("number_embedding", ["pieces63", "waves256"], ["pieces64", "waves257"]),
    ],
)
def test_the_ends_of_what_constants_and_lists_may_be_are_allowed(name, taken, refused):
    flag = flags.BY_NAME[name]
    for text in taken:
        flag.check(text)
    for text in refused:
        with pytest.raises(UsageError, match=f"--{name}"):
            flag.check(text)


@pytest.mark.parametrize(
    "default, told",
    [(0.001, "0.001"), (0.25, "0.25"), (1.0, "1"), (0.0, "0"), (32, "32"), ("a", "a")],
)
def test_help_has_a_default_as_a_person_writes_it(default, told):
    assert (
        flags.Flag("rate", "How fast ({}).", default=default).help
        == f"How fast ({told})."
    )


def test_reference_takes_what_it_stands_for_and_defaults_of_what_came_later():
    """Another value of one that it stands for contradicts it."""
    for flag in flags.FLAGS:
        if flag.later and flag.default is not None:
            flags.check_reference({flag.name: flag.default})
        if flag.reference is None:
            continue
        flags.check_reference({flag.name: flag.reference})
        other = "another"
        if isinstance(flag.reference, float):
            other = flag.reference + 0.5
        with pytest.raises(UsageError, match=f"--{flag.name} {other} contradicts"):
            flags.check_reference({flag.name: other})
    flags.check_reference({"backend": "auto"})
    for layers, told in (("4,3:relu,1", "3:relu"), ("1x4x4,maxpool2,1", "maxpool2")):
        with pytest.raises(UsageError, match=f"--layers {told} contradicts"):
            flags.check_reference_layers(parse(layers, "sigmoid", "sigmoid"))


@pytest.mark.parametrize(
    "text, size",
    [
        ("4096", 4096),
        ("2K", 2048),
        ("500M", 500 * 1024**2),
        ("2G", 2 * 1024**3),
        ("1T", 1024**4),
        ("1.5k", 1536),
        ("3GiB", 3 * 1024**3),
        ("3gb", 3 * 1024**3),
    ],
)
def test_a_size_in_bytes_counts_in_1024s(text, size):
    assert BYTES("--memory", text) == size


@pytest.mark.parametrize(
    "text",
    ["pieces1", "pieces", "waves0", "waves3:0", "waves3:inf", "linear2", "pieces3:1"],
)
def test_a_number_has_two_pieces_or_one_wave_at_least(text):
    with pytest.raises(UsageError, match="expected linear, piecesN"):
        NUMBER_EMBEDDING("--number_embedding", text)
    for least in ("pieces2", "waves1"):
        assert NUMBER_EMBEDDING("--number_embedding", least) == least


def test_a_share_of_validation_rows_is_above_0_and_below_1():
    assert [
        VALIDATION("--validation", text) for text in ("0.001", "0.999", "a.csv")
    ] == [0.001, 0.999, "a.csv"]
    for text in ("0", "1", "1.0", "-0.1", "nan"):
        with pytest.raises(
            UsageError,
            match=f"--validation {text}: expected a share above 0 and below 1, or a file",
        ):
            VALIDATION("--validation", text)


# fields of EpochSettings that follow from several settings, or from the epoch
FOLLOWING = {"batch", "rates", "seed"}
ON_THE_WAY = ("call", "member", "run", "engines")
OTHER_THAN_USUAL = {
    "optimizer": "sgd",
    "momentum": 0.5,
    "betas": (0.8, 0.9),
    "epsilon": 0.25,
    "weight_decay": 0.125,
    "scale_rate": 2.5,
    "augment": "shift",
    "freeze": 1,
}


def test_a_setting_that_reaches_the_kernels_is_a_flag_and_a_field_of_its_name():
    """Between the two nobody names it."""
    names = [field.name for field in fields(EpochSettings)]
    assert {*names} - FOLLOWING == OTHER_THAN_USUAL.keys()
    rng = np.random.default_rng(0)
    images = nn.Dataset(rng.random((4, 1, 2, 2)), np.arange(4) % 2, "binary")
    net = nn.Network("1x2x2,3,1", "binary")
    for name, value in OTHER_THAN_USUAL.items():
        given = {name: value}
        if name == "momentum":
            given["optimizer"] = "sgd"
        settings = options_of(net, images, given).epoch_settings(0, 0, 1)
        assert getattr(settings, name) == value
        assert getattr(options_of(net, images, {}), name) != value
    for name in ON_THE_WAY:
        module = importlib.import_module(f"nn.train.{name}")
        words = {*re.findall(r"\w+", inspect.getsource(module))}
        assert words.isdisjoint(OTHER_THAN_USUAL), name
