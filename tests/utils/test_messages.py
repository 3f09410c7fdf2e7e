"""Messages: settings as their reader names them, remarks as warnings of Python."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from support.command_line import argv, environment

import nn
from nn.utils import errors


@pytest.fixture
def in_python(monkeypatch):
    """Messages as a program in Python gets them."""
    monkeypatch.setattr(errors, "_speaks_of_flags", False)


@pytest.mark.parametrize(
    "message, read",
    [
        (
            "--epochs 2.5: expected a whole number",
            "epochs=2.5: expected a whole number",
        ),
        ("try --validation 0.2 --patience 10", "try validation=0.2 patience=10"),
        (
            "try a smaller --learning_rate or more rows",
            "try a smaller learning_rate or more rows",
        ),
        ("--holdout -1: expected", "holdout=-1: expected"),
        ("--target alfa: no such column", "target alfa: no such column"),
        ('needs onnx: pip install --force-reinstall "nnbit[onnx]"', None),
        ("continue with nn --train", None),
        ("a--b", None),
    ],
)
def test_a_program_reads_of_parameters(message, read, in_python):
    assert str(nn.NnError(message)) == (read or message)
    with errors.speaking_of_flags():
        assert str(nn.NnError(message)) == message


def test_a_remark_is_a_warning_at_the_line_of_the_caller(two, in_python):
    ds = nn.load("two.csv")
    with pytest.warns(
        nn.NnWarning, match="learned nothing.* another learning_rate or seed"
    ) as caught:
        net = nn.Network.for_data(ds)
        nn.train(net, ds, epochs=1, learning_rate=1e-9)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", nn.NnWarning)
        with pytest.raises(nn.NnWarning, match="features hold one value"):
            nn.NetworkRegressor(networks=1, epochs=1).fit(
                np.ones((20, 2)), np.arange(20)
            )


def test_a_command_prints_remarks_as_lines_and_none_twice(two):
    given = argv(
        "--train --dataset two.csv --model m.bin --networks 1 --epochs 1 --debug"
    )
    command = [sys.executable, "-m", "nn", *given, "--learning_rate", "1e-9"]
    err = subprocess.run(
        command, capture_output=True, text=True, env=environment()
    ).stderr
    assert err.count("learned nothing") == 1
    assert "another --learning_rate" in err


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda net, ds: nn.train(ds, net),
            "found Dataset and Network, expected a Network and a Dataset",
        ),
        (
            lambda net, ds: nn.train(net, "two.csv"),
            "found Network and str, expected .*; nn.load reads a file",
        ),
        (
            lambda net, ds: nn.train(net, ds, callback=print),
            "callback .*: expected an object with methods of nn.Callback",
        ),
        (
            lambda net, ds: nn.train(net, ds, lr=0.1),
            "lr: no such setting of train; did you mean learning_rate?",
        ),
        (
            lambda net, ds: nn.train(net, ds, epochs=0),
            "^epochs=0: expected a whole number from 1",
        ),
    ],
)
def test_a_slip_of_a_call_is_told(two, in_python, call, message):
    ds = nn.load("two.csv")
    with pytest.raises(nn.UsageError, match=message):
        call(nn.Network.for_data(ds), ds)


def test_layers_may_be_a_list_and_what_is_tested_a_file(two):
    net = nn.Network([2, "5:tanh", 1], "binary")
    assert net.spec == "2,5:tanh,1:sigmoid"
    metrics = nn.test(net, "two.csv")
    rows = nn.load_for(net, "two.csv")
    assert metrics == nn.test(net, rows)
