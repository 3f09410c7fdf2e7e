"""`--reference` computes what the original C program computes: its stored outputs, and
runs that nobody stored."""

import ctypes
import ctypes.util
import itertools
import json
import math
import re

import numpy as np
import pytest
from support.command_line import succeed

import nn
from nn.core.random import GlibcRandom

XOR = {
    "layers": [2, 2, 1],
    "seed": 1,
    "epochs": 1,
    "batch_number": 1,
    "learning_rate": 0.5,
    "scaling": "none",
}


def train_reference(case: dict, path, **flags):
    layers = case["layers"]
    outputs = layers[-1]
    ds = nn.load(path, inputs=layers[0], outputs=outputs, dtype="float64")
    text = ",".join(map(str, layers))
    net = nn.Network(text, ds.task, seed=case["seed"], reference=True)
    result = nn.train(
        net,
        ds,
        epochs=case["epochs"],
        batch_number=case["batch_number"],
        learning_rate=case["learning_rate"],
        scaling=case["scaling"],
        **flags,
    )
    return net, ds, result


def in_original_order(parameters: dict) -> np.ndarray:
    """All biases, then all weights."""
    return np.concatenate(
        [
            parameters[name].ravel()
            for name in sorted(parameters, key=lambda n: n.endswith("weight"))
        ]
    )


@pytest.mark.usual(3)
@pytest.mark.parametrize(
    "name", ["cc", "cc_norm", "iris", "iris_deep", "pima", "xor", "xor_b4"]
)
def test_stored_outputs_and_confusion_counts_are_reproduced(name, golden, tmp_path):
    folder = golden(name)
    text = (folder / f"{name}.json").read_text()
    case = json.loads(text)
    stored = np.load(folder / f"{name}.npz")
    path = folder / case["dataset"]
    net, ds, result = train_reference(case, path)
    net.export(tmp_path / "model.m")
    expected = (folder / f"{name}.m").read_bytes()
    assert (tmp_path / "model.m").read_bytes() == expected
    # 1e-12 allows for another exp(); with the same C library they are equal
    np.testing.assert_allclose(
        in_original_order(net.parameters()), stored["params"], rtol=1e-12
    )
    np.testing.assert_allclose(result["loss"], stored["losses"], rtol=1e-12)
    predictions = net.predict(ds.x)[:, 0]
    np.testing.assert_allclose(predictions, stored["scores"], rtol=1e-12)
    if not name.startswith("iris"):
        report = nn.test(net, ds)
        assert {key: report[key] for key in ("tp", "fp", "fn", "tn")} == case[
            "confusion"
        ]


def test_what_learns_nothing_is_told_why_and_a_cure_that_the_reference_allows(datasets):
    """Weights from 0 to 1 saturate the sigmoids behind the first layer."""
    use = ["--reference", "--dataset", datasets / "CC.csv", "--model", "cc.m"]
    train = ["--train", *use, "--layers", "30,60,10,1", "--batch_number", 10]
    told = succeed(*train, "--epochs", 1).err
    (warning,) = [line for line in told.splitlines() if "learned nothing" in line]
    assert "all its weights begin above 0" in warning
    named = re.findall(r"--(\w+)", warning)
    assert named == ["scaling", "learning_rate", "epochs"]
    cure = ["--scaling", "standardization"]
    told = succeed(*train, *cure, "--learning_rate", 1, "--epochs", 20).err
    assert "learned nothing" not in told
    assert succeed("--test", *use, *cure, "--json").json["f1"] > 0.8


class Glibc:
    """rand() of the GNU C library, from its published recurrence."""

    def __init__(self, seed):
        # srand reads its argument as a signed number
        r = [(seed or 1) - (2**32 if seed >= 2**31 else 0)]
        for _ in range(30):
            r.append(16807 * r[-1] % 2147483647)
        r[0] %= 2**32
        r += r[:3]
        for i in range(34, 344):
            r.append((r[i - 31] + r[i - 3]) % 2**32)
        self.r = r

    def __call__(self):
        self.r.append((self.r[-31] + self.r[-3]) % 2**32)
        return self.r[-1] >> 1


def test_random_numbers_are_those_of_the_c_library():
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    if not hasattr(libc, "gnu_get_libc_version"):
        pytest.skip("this C library is not glibc")
    for seed in (0, 1, 7, 2147483647, 2147483648, 4294967295):
        libc.srand(ctypes.c_uint(seed))
        expected = np.array([libc.rand() / 2147483647 for _ in range(500)])
        np.testing.assert_array_equal(GlibcRandom(seed).uniform(500), expected)


def dot(a, b):
    s = 0.0
    for factor, other_factor in zip(a, b):
        s += factor * other_factor
    return s


def original(rows, sizes, seed, epochs, batch, rate):
    """Losses and parameters (biases, weights) of the original program, in plain Python
    floats."""
    rand = Glibc(seed)
    pairs = list(itertools.pairwise(sizes))
    biases = [[rand() / 2147483647 for _ in range(o)] for _, o in pairs]
    weights = [
        [[rand() / 2147483647 for _ in range(i)] for _ in range(o)] for i, o in pairs
    ]
    order = list(range(len(rows)))
    losses = []
    n = len(rows)
    for _ in range(epochs):
        for i in range(n - 1):
            j = i + rand() // (2147483647 // (n - i) + 1)
            order[i], order[j] = order[j], order[i]
        total = 0.0
        for start in range(0, n // batch * batch, batch):
            d = [[0.0] * len(b) for b in biases]
            D = [[[0.0] * len(row) for row in w] for w in weights]
            for index in order[start : start + batch]:
                x = rows[index][: sizes[0]]
                y = rows[index][sizes[0] :]
                a = [x]
                for w, b in zip(weights, biases):
                    z = [dot(row, a[-1]) + bias for row, bias in zip(w, b)]
                    a.append([1 / (1 + math.exp(-v)) for v in z])
                off = [out - truth for out, truth in zip(a[-1], y)]
                total += dot(off, off) / len(y)
                e = [(out - truth) * (out * (1 - out)) for out, truth in zip(a[-1], y)]
                for layer in reversed(range(len(weights))):
                    columns = zip(*weights[layer])
                    below = [
                        dot(column, e) * (out * (1 - out))
                        for column, out in zip(columns, a[layer])
                    ]
                    for j, error in enumerate(e):
                        d[layer][j] += error
                        for i, value in enumerate(a[layer]):
                            D[layer][j][i] += error * value
                    e = below
            factor = rate * (1.0 / batch)
            for layer in range(len(weights)):
                for j in range(len(biases[layer])):
                    biases[layer][j] -= d[layer][j] * factor
                    for i in range(len(weights[layer][j])):
                        weights[layer][j][i] -= D[layer][j][i] * factor
        losses.append(total / n)
    flat = [v for b in biases for v in b] + [
        v for w in weights for row in w for v in row
    ]
    return losses, np.array(flat)


@pytest.mark.parametrize(
    ("sizes", "seed", "epochs", "batch", "rate", "count"),
    [
        ([3, 4, 1], 0, 4, 3, 0.7, 20),
        ([2, 5, 4, 2], 5, 3, 4, 0.05, 13),
        ([6, 1], 4294967295, 3, 1, 0.2, 11),
        ([1, 7, 1], 2147483648, 2, 17, 1.5, 17),
        ([4, 3, 3, 3, 3], 99, 3, 5, 0.3, 24),
    ],
)
def test_other_runs_agree_with_an_independent_account(
    sizes, seed, epochs, batch, rate, count, tmp_path
):
    outputs = sizes[-1]
    # one class a row, every class there
    if outputs == 1:
        y = np.arange(count)[:, None] % 2
    else:
        indices = np.arange(count)[:, None]
        y = indices % outputs == np.arange(outputs)
    rng = np.random.default_rng(count)
    size = (count, sizes[0])
    draws = rng.normal(size=size)
    rows = np.hstack([draws, y]).tolist()
    text = "".join(",".join(map(repr, row)) + "\n" for row in rows)
    (tmp_path / "data.csv").write_text(text)
    losses, parameters = original(rows, sizes, seed, epochs, batch, rate)
    case = {
        "layers": sizes,
        "seed": seed,
        "epochs": epochs,
        "batch_number": batch,
        "learning_rate": rate,
    }
    net, _, result = train_reference(case | {"scaling": "none"}, tmp_path / "data.csv")
    np.testing.assert_allclose(
        in_original_order(net.parameters()), parameters, rtol=1e-12
    )
    np.testing.assert_allclose(result["loss"], losses, rtol=1e-12)


def test_what_the_reference_fixes_cannot_be_changed_nor_a_batch_exceed_the_data(
    datasets,
):
    with pytest.raises(nn.UsageError, match="--batch_number 5"):
        train_reference({**XOR, "batch_number": 5}, datasets / "xor.csv")
    for name, value in {
        "optimizer": "adam",
        "momentum": 0.5,
        "weight_decay": 0.1,
        "schedule": "cosine",
    }.items():
        with pytest.raises(nn.UsageError, match=f"--{name}"):
            train_reference(XOR, datasets / "xor.csv", **{name: value})


def test_the_original_program_has_no_columns_of_words():
    table = {"size": [1.0, 2.0, 3.0] * 4, "word": ["x", "y", "z"] * 4}
    ds = nn.load({**table, "answer": [0, 1, 1] * 4}, target="answer")
    net = nn.Network("2,3,1", "binary", reference=True)
    with pytest.raises(nn.UsageError, match="the table holds more than numbers"):
        nn.train(net, ds, epochs=1)
    assert net.encoding is None
