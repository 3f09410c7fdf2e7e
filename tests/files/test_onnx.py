"""nn --export to .onnx: onnxruntime gives the predictions of nn, from raw columns on."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from support.command_line import ONE, succeed
from support.command_line import run as run_nn
from support.distances import relative_distance
from support.mixed_table import read_raw, write_table
from support.networks import (
    ALONE,
    STACKS,
    TABLES,
    fill,
    members_with_and_without_an_encoding,
    network,
    with_activation,
)

import nn
from nn.files.export.onnx_layers import FLOAT32_ONLY
from nn.nn_aux import ACTIVATIONS

# onnxruntime adds up in another order; of the whole vector, as is every distance here
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
SPECS = [spec for spec in [*ALONE, *STACKS] if spec.partition(",")[0] not in TABLES]
EVERY_ACTIVATION = [spec for name in ACTIVATIONS for spec in with_activation(name)]


def session(path) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(str(path), full_check=True)
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def refused(code: int, *arguments) -> str:
    """What a command says that ends with this code."""
    result = run_nn(*arguments)
    assert result.code == code, result.err
    return result.err


def run(path, inputs: dict) -> dict:
    """Outputs by their names."""
    found = session(path)
    return dict(zip([output.name for output in found.get_outputs()], found.run(None, inputs)))


# ---------------------------------------------------------------- every layer kind and activation


@pytest.mark.parametrize("spec", [*SPECS, *EVERY_ACTIVATION])
def test_networks_of_every_layer_kind(spec, folder):
    net = network(spec, dtype="float32")
    x, _ = fill(net, 7)
    nn.export(net, folder / "m.onnx")
    rows = x.reshape(7, *net.layers[0].in_shape) if net.layers[0].in_shape[1:] != (1, 1) else x.reshape(7, -1)
    out = run(folder / "m.onnx", {"features": rows.astype(np.float64)})["values"]
    assert relative_distance(out, net.predict(x)) < TOLERANCE["float32"]


@pytest.mark.parametrize("spec", ["7,5", "33,17:tanh,4", *EVERY_ACTIVATION])
def test_dense_networks_in_float64(spec, folder):
    net = network(spec, dtype="float64")
    x, _ = fill(net, 7)
    alone = [name for name in FLOAT32_ONLY if name in spec]
    if alone:
        with pytest.raises(nn.UsageError, match="m.onnx: .*onnxruntime has no .* in float64; add --dtype float32"):
            nn.export(net, folder / "m.onnx")
        return
    nn.export(net, folder / "m.onnx")
    out = run(folder / "m.onnx", {"features": x.reshape(7, -1)})["values"]
    assert relative_distance(out, net.predict(x)) < TOLERANCE["float64"]


# ---------------------------------------------------------------- tables, against --predict


def as_inputs(found: onnxruntime.InferenceSession, raw: dict[str, list[str]]) -> dict:
    """The columns of a file as the inputs of a model, as a program without nn makes them."""

    def number(text: str) -> float:
        if text in ("", "NA", "?"):
            return np.nan
        return np.datetime64(text).astype("datetime64[s]").astype(np.int64) if "T" in text else float(text)

    arrays = {}
    for wanted in found.get_inputs():
        words = raw[wanted.name]
        is_text = wanted.type == "tensor(string)"
        arrays[wanted.name] = np.array([[word if is_text else number(word)] for word in words],
                                       object if is_text else np.float64)  # fmt: skip
    return arrays


def check_table(folder, data, new, scores: str) -> None:
    """The exported m.bin gives what --predict gives for the file `new`."""
    succeed("--export", "--model", folder / "m.bin", "-o", folder / "m.onnx", "-q")
    succeed("--predict", "--model", folder / "m.bin", "--dataset", new, "-o", folder / "p.csv", "-q")
    predicted, found = read_raw(folder / "p.csv"), session(folder / "m.onnx")
    outputs = [output.name for output in found.get_outputs()]
    out = dict(zip(outputs, found.run(None, as_inputs(found, read_raw(new)))))
    wanted = np.array([predicted[name] for name in predicted if name.startswith(scores)], np.float64).T
    values = out["probabilities"] if "probabilities" in out else out["values"]
    if wanted.shape[1] == 1 and values.shape[1] == 2:
        assert values.sum(axis=1) == pytest.approx(1, abs=1e-6)
        values = values[:, 1:]
    assert relative_distance(values, wanted) < TOLERANCE["float32"]
    if "probabilities" in out:
        label = out["label_" if "label_" in out else "label"]  # `label` is a column
        assert np.mean(label == np.array(predicted["predicted"])) == 1


@pytest.mark.parametrize("target, scores, flags", [
    ("two", "score", []),
    ("two", "score", ["--networks", "3", "--validation", "0.2", "--threshold", "f1", "--calibrate", "temperature"]),
    ("two", "score", ["--folds", "3", "--layers", "auto,9:gelu,1"]),
    ("three", "score", ["--validation", "0.2", "--calibrate", "temperature"]),
    ("three", "score", ["--networks", "2", "--scaling", "normalization", "--drop", "place"]),
    ("number", "predicted", ["--networks", "2"]),
    ("number", "predicted", ["--number_embedding", "waves6"]),
    ("number", "predicted", ["--scaling", "none", "--numbers", "label", "--categories", "truth"]),
    ("two", "score", ["--networks", "2", "--number_embedding", "waves5:0.7"]),
    ("number", "predicted", ["--number_embedding", "pieces4"]),
])  # fmt: skip
def test_tables_with_every_kind_of_column(target, scores, flags, folder):
    data, new = folder / "old.csv", folder / "new.csv"
    write_table(data, 500, 1, target)
    write_table(new, 300, 2, target, gaps=0.2)
    succeed(*ONE, "--dataset", data, "--model", folder / "m.bin", "--epochs", 4, "-q", *flags)
    check_table(folder, data, new, scores)


def test_gaps_and_words_that_training_did_not_have(folder):
    data, new = folder / "old.csv", folder / "new.csv"
    write_table(data, 400, 1, "two", gaps=0)
    write_table(new, 300, 2, "two", gaps=0.3)
    new.write_text(new.read_text(encoding="utf-8").replace("green", "purple"), encoding="utf-8")
    succeed(*ONE, "--dataset", data, "--model", folder / "m.bin", "--epochs", 4, "-q")
    check_table(folder, data, new, "score")


def test_yes_and_no_in_every_way_that_a_model_reads(folder):
    data, new = folder / "old.csv", folder / "new.csv"
    data.write_text("\n".join(["t,x,y", *(f"{['yes', 'no'][k * k % 3 % 2]},{k % 7},{k % 11 / 3}" for k in range(90))]))
    new.write_text(
        "\n".join(["t,x,y", *(f"{word},3,1" for word in ("yes", "nO", "T", "1", "0", "1.0", "0.0", "?", "2"))])
    )
    succeed(*ONE, "--dataset", data, "--model", folder / "m.bin", "--epochs", 4, "-q")
    check_table(folder, data, new, "predicted")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["standardization", "normalization", "none"])
def test_plain_numbers_with_a_time_among_them(dtype, scaling, folder):
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.normal(size=(300, 3)), 1.7e9 + rng.integers(0, 9000, size=300) * (scaling != "none")])
    y = (x[:, 0] * 3 + x[:, 1] > 0.2).astype(int)
    ds = nn.load(x, y=y, dtype=dtype)
    net = nn.Network.for_data(ds, dtype=dtype)
    nn.train(net, ds, epochs=3, scaling=scaling)
    nn.export(net, folder / "m.onnx")
    out = run(folder / "m.onnx", {"features": x})
    assert relative_distance(out["probabilities"][:, 1], net.predict(ds.x)) < TOLERANCE[dtype]
    assert out["label"].tolist() == ["01"[int(score >= 0.5)] for score in net.predict(ds.x)[:, 0]]


def test_plain_numbers_with_waves(folder):
    x = np.random.default_rng(3).normal(size=(300, 3))
    data = np.column_stack([x, (np.sin(9 * x[:, 0]) > x[:, 1]).astype(int)])
    np.savetxt(folder / "a.csv", data, fmt="%g", delimiter=",", header="a,b,label,y", comments="")
    succeed(*ONE, "--dataset", folder / "a.csv", "--model", folder / "m.bin", "--epochs", 4, "-q",
            "--number_embedding", "waves6")  # fmt: skip
    check_table(folder, folder / "a.csv", folder / "a.csv", "score")


def test_members_with_and_without_an_encoding(folder):
    x, nets = members_with_and_without_an_encoding()
    for net, columns in zip(nets, (True, False)):
        nn.export(net, folder / "m.onnx")
        inputs = {f"column_{k}": x[:, k : k + 1].astype(np.float64) for k in range(3)}
        out = run(folder / "m.onnx", inputs if columns else {"features": x.astype(np.float64)})["probabilities"]
        assert relative_distance(out[:, 1:], net.predict(x)) < TOLERANCE["float32"]


def test_decimals_are_found_however_they_are_written(folder):
    rows = [f"{k % 3 + 0.5:.2f},{k % 5},{k % 3 == 1}" for k in range(90)]
    (folder / "old.csv").write_text("\n".join(["size,x,goal", *rows]))
    succeed(*ONE, "--dataset", folder / "old.csv", "--model", folder / "m.bin", "--epochs", 3, "-q",
            "--categories", "size")  # fmt: skip
    (folder / "new.csv").write_text("\n".join(["size,x,goal", *(row.replace("0,", ",", 1) for row in rows)]))
    check_table(folder, folder / "old.csv", folder / "new.csv", "score")


def test_a_series_whose_targets_have_no_common_scale(folder):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 4))
    ds = nn.load(x, y=np.column_stack([x[:, 0] * 1e5 + 7e6, x[:, 1] * 1e-3]))
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=3)
    nn.export(net, folder / "m.onnx")
    out = run(folder / "m.onnx", {"features": x})["values"]
    for column in range(2):
        assert relative_distance(out[:, column], net.predict(ds.x)[:, column]) < TOLERANCE["float32"]


def test_predictions_that_are_clipped(folder):
    x = np.random.default_rng(3).normal(size=(200, 2))
    ds = nn.load(x, y=np.column_stack([9 * x[:, 0] + 50, x[:, 1]]))
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=2, clip=True)
    nn.export(net, folder / "m.onnx")
    far, wanted = 100 * x, net.predict((100 * x).astype(np.float32))
    assert relative_distance(run(folder / "m.onnx", {"features": far})["values"], wanted) < TOLERANCE["float32"]
    assert (wanted == wanted.max(axis=0)).sum() > 10  # at the bounds


def test_images_are_bytes_and_classes_have_names(folder):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 256, size=(60, 3, 6, 6)).astype(np.uint8)
    ds = nn.Dataset(x, np.array(["cat", "dog", "eel"])[rng.integers(3, size=60)], "multiclass")
    net = nn.Network.for_data(ds, "auto,conv4:silu,maxpool2,3")
    nn.train(net, ds, epochs=2)
    nn.export(net, folder / "m.onnx")
    out = run(folder / "m.onnx", {"features": x})
    assert relative_distance(out["probabilities"], net.predict(x)) < TOLERANCE["float32"]
    assert out["label"].tolist() == [ds.classes[k] for k in net.predict(x).argmax(axis=1)]


def test_a_text_model_of_the_original(folder):
    (folder / "m.m").write_bytes(b"")
    ds = nn.load(np.random.default_rng(1).normal(size=(50, 3)).round(2), y=np.arange(50) % 2)
    net = nn.Network("3,4:sigmoid,1:sigmoid", "binary", dtype="float64")
    nn.train(net, ds, epochs=2)
    net.export(folder / "m.m")
    succeed("--export", "--model", folder / "m.m", "-o", folder / "m.onnx", "-q")
    out = run(folder / "m.onnx", {"features": ds.x.astype(np.float64)})
    assert relative_distance(out["probabilities"][:, 1], nn.Network.load(folder / "m.m").predict(ds.x)) < 1e-12


def test_the_same_model_gives_the_same_bytes(folder):
    net = network("7,5:tanh,3", dtype="float32")
    nn.export(net, folder / "a.onnx")
    nn.export(net, folder / "b.onnx")
    assert (folder / "a.onnx").read_bytes() == (folder / "b.onnx").read_bytes()


# ---------------------------------------------------------------- what is refused


@pytest.fixture
def model(folder):
    net = network("4,3:gelu,2", dtype="float64")
    net.export(folder / "m.bin")
    return folder / "m.bin"


@pytest.mark.parametrize("output, code, told", [
    ("m.onnx", 2, "activation gelu: onnxruntime has no gelu in float64; add --dtype float32"),
    ("m.pt", 2, "the suffix .pt, expected .onnx"),
    ("m", 2, "no suffix, expected .onnx"),
    ("absent/m.onnx", 73, "no folder"),
])  # fmt: skip
def test_what_cannot_be_exported_is_told(model, output, code, told, folder):
    assert told in refused(code, "--export", "--model", model, "-o", folder / output)
    assert not (folder / output).exists()


def test_a_float64_network_is_exported_in_float32(model, folder):
    succeed("--export", "--model", model, "-o", folder / "m.onnx", "--dtype", "float32", "-q")
    x = np.random.default_rng(0).normal(size=(5, 4))
    out = run(folder / "m.onnx", {"features": x})["values"]
    assert relative_distance(out, nn.Network.load(model).predict(x)) < TOLERANCE["float32"]


def test_model_and_output_are_needed(model):
    assert "--export needs --output PATH" in refused(2, "--export", "--model", model)
    assert "--export needs --model PATH" in refused(2, "--export", "-o", "m.onnx")


def test_without_the_package_the_command_is_told(model, folder):
    program = "import sys; sys.modules['onnx'] = None; from nn.cli import main; sys.exit(main(sys.argv[1:]))"
    given = ["--export", "--model", model, "-o", folder / "m.onnx", "--dtype", "float32"]
    done = subprocess.run([sys.executable, "-c", program, *map(str, given)], capture_output=True, text=True)
    assert (done.returncode, 'pip install "onnx>=1.14"' in done.stderr) == (2, True)
