"""The comment of a C file: the network, what goes in and what comes out."""

from pathlib import Path

import numpy as np
import pytest
from support.command_line import succeed

import nn

ROWS = 80
RNG = np.random.default_rng(0)
NUMBER = RNG.normal(size=ROWS).round(2)
DAYS = np.datetime64("2020-01-01") + RNG.integers(0, 500, ROWS)
TABLE = {
    "a": NUMBER,
    "word": RNG.choice(["x", "y", "z */"], ROWS),
    "day": DAYS.astype("datetime64[s]"),
    "price": [f"${value:,.2f}" for value in RNG.uniform(500, 5000, ROWS)],
    "y": np.where(NUMBER > 0, "yes", "no"),
}
LABELS = {
    "a": NUMBER,
    "b": np.where(NUMBER > 1, np.nan, NUMBER),
    "p": RNG.choice(["yes", "no"], ROWS),
    "q": RNG.choice(["yes", "no"], ROWS),
}
COUNTS = {"a": NUMBER, "time": RNG.uniform(1, 2, ROWS), "y": RNG.poisson(2, ROWS)}


def images() -> nn.Network:
    pixels = RNG.integers(0, 256, (ROWS, 2, 3, 4), np.uint8)
    net = nn.Network("2x3x4,conv2k2,3", "multiclass")
    ds = nn.Dataset(pixels, np.arange(ROWS) % 3, "multiclass", ["a", "b", "c"])
    nn.train(net, ds, epochs=1)
    return net


def fitted(data, target, layers, **settings) -> nn.Network:
    return nn.fit(data, target, layers=layers, epochs=1, **settings).network


def of_labels() -> nn.Network:
    net = fitted(LABELS, "p,q", "auto,3,2")
    net.threshold = [0.25, 0.5]
    return net


MODELS = {
    "several": (
        lambda: fitted(TABLE, "y", "auto,3,1", networks=2),
        [
            "Network: the mean of 2 networks, task binary, 74 parameters",
            "  4,3:relu,1:sigmoid",
        ],
        "a float); NaN is a gap, infinity cannot be used",
        [
            "   0  a: number",
            "   1  word: word: one of 3, by nn_code",
            "   2  day: date: seconds since 1970-01-01, in universal time",
            "   3  price: number (the value of what training wrote as $1,234.5)",
        ],
        ["  0  probability of class yes"],
    ),
    "numbers": (
        lambda: fitted(
            RNG.normal(size=(ROWS, 3)),
            RNG.normal(size=(ROWS, 2)),
            "auto,3,2",
            dtype="float64",
        ),
        ["Network: task regression, 20 parameters", "  3,3:relu,2:linear"],
        "a double); NaN becomes the median of training, infinity cannot be used",
        ["  3 numbers, in the order of training"],
        ["  0  predicted 0", "  1  predicted 1"],
    ),
    "images": (
        images,
        ["Network: task multiclass, 57 parameters", "  2x3x4,conv2k2:relu,3:softmax"],
        "a float); NaN and infinity cannot be used",
        [
            "  2 x 3 x 4 bytes, 0 to 255: channels x rows x columns of pixels, "
            "channel by channel"
        ],
        [f"  {place}  probability of class {'abc'[place]}" for place in range(3)],
    ),
    "labels": (
        of_labels,
        ["Network: task multilabel, 20 parameters", "  2,3:relu,2:sigmoid"],
        "a float); NaN is a gap, infinity cannot be used",
        ["   0  a: number", "   1  b: number"],
        [
            "  0  score p: yes from 0.25 on, else no",
            "  1  score q: yes from 0.5 on, else no",
        ],
    ),
    "counts": (
        lambda: fitted(COUNTS, "y", "auto,3,1", loss="poisson", exposure="time"),
        ["Network: task regression, 10 parameters", "  1,3:relu,1:exp"],
        "a float); NaN becomes the median of training, infinity cannot be used",
        [
            "   0  a: number",
            "  1, the last: time, by which outputs are multiplied, above 0; nn_interval "
            "takes",
            "  the outputs of a row where it is 1, and its ends are to be multiplied",
        ],
        ["  0  predicted y"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_comment_says_what_goes_in_and_what_comes_out(name, folder):
    make, network, numbers, inputs, outputs = MODELS[name]
    make().export("m.bin")
    succeed("export", "m.bin", "-o", "m.c", "-q")
    comment = Path("m.c").read_text().split("*/")[0]
    lines = [line[3:] for line in comment.splitlines()]
    _, told_network, told_inputs, told_outputs, *_ = "\n".join(lines).split("\n\n")
    assert told_network.splitlines() == network
    assert told_inputs.splitlines() == [f"Inputs, nn_real ({numbers}:", *inputs]
    kind = "double" if "double" in numbers else "float"
    assert told_outputs.splitlines() == [f"Outputs, nn_output (a {kind}):", *outputs]
