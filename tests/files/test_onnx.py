"""nn --export to .onnx, where it is not as .c: onnxruntime gives the predictions of nn,
from raw columns on."""

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from support.command_line import ONE, argv, succeed
from support.distances import relative_distance
from support.networks import EVERY_ACTIVATION, EXPORTED, fill, network
from support.onnx_models import TOLERANCE, check_table, outputs
from support.tables import saved

import nn
from nn.data.scaling import Scaling
from nn.files import model_file
from nn.files.export.onnx_graph import Graph
from nn.files.export.onnx_layers import FLOAT32_ONLY, outputs_of
from nn.layers import InputColumn

OF_FLOAT64 = ["7,5", "33,17:tanh,4", *EVERY_ACTIVATION]


@pytest.mark.usual(53)
@pytest.mark.parametrize(
    "dtype, spec",
    [
        *(("float32", spec) for spec in EXPORTED),
        *(("float64", spec) for spec in OF_FLOAT64),
    ],
)
def test_networks_of_every_layer_kind(dtype, spec, folder):
    net = network(spec, dtype=dtype)
    x, _ = fill(net, 7)
    if dtype == "float64" and any(name in spec for name in FLOAT32_ONLY):
        with pytest.raises(
            nn.UsageError,
            match="m.onnx: .*onnxruntime has no .* in float64; add --dtype float32",
        ):
            nn.export(net, folder / "m.onnx")
        return
    nn.export(net, folder / "m.onnx")
    if "x" in spec.split(",")[0]:
        rows = x.reshape(7, *net.layers[0].in_shape)
    else:
        rows = x.reshape(7, -1)
    inputs = {"features": rows.astype(np.float64)}
    out = outputs(folder / "m.onnx", inputs)["values"]
    distance = relative_distance(out, net.predict(x))
    assert distance < TOLERANCE[dtype]


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression"])
def test_members_of_several_shapes_count_by_their_own_weights(task, folder):
    """Members of one shape compute together, whatever stands between them."""
    outputs_of_task = 1 if task == "binary" else 3
    last = {"multiclass": "softmax", "regression": "linear"}.get(task, "sigmoid")
    members = []
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    for seed, hidden in enumerate((5, 7, 5, 6, 7)):
        spec = f"4,{hidden}:tanh,{outputs_of_task}:{last}"
        members.append(nn.Network(spec, task, seed=seed))
        members[-1].scaling = Scaling(
            "standardization", np.full(4, seed / 10), np.full(4, 1 + seed / 5)
        )
        if task == "regression":
            members[-1].target_scaling = Scaling(
                "standardization", np.full(3, 50.0 + seed), np.full(3, 3.0 + seed)
            )
        else:
            members[-1].temperature = 0.5 + seed
    net = nn.Network(members[0].spec, task)
    net.combine(members, [1.0, 2.0, 9.0, 4.0, 0.5])
    nn.export(net, folder / "m.onnx")
    found = outputs(folder / "m.onnx", {"features": x.astype(np.float64)})
    name = "values" if task == "regression" else "probabilities"
    expected = np.average(
        np.stack([member.predict(x) for member in members]).astype(np.float64),
        axis=0,
        weights=net.member_weights,
    )
    assert relative_distance(found[name][:, -outputs_of_task:], expected) < 2e-6
    assert relative_distance(net.predict(x), expected) < 2e-6


def test_plain_numbers_with_waves(folder):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    data = np.column_stack([x, (np.sin(9 * x[:, 0]) > x[:, 1]).astype(int)])
    np.savetxt(
        "a.csv", data, fmt="%g", delimiter=",", header="a,b,label,y", comments=""
    )
    succeed(
        *ONE,
        *argv("--dataset a.csv --model m.bin --epochs 4 -q --number_embedding waves6"),
    )
    check_table(folder, folder / "a.csv")


def test_decimals_are_found_however_they_are_written(folder):
    rows = []
    for k in range(90):
        rows.append(f"{k % 3 + 0.5:.2f},{k % 5},{k % 3 == 1}")
    text = "\n".join(["size,x,goal", *rows])
    (folder / "old.csv").write_text(text)
    succeed(
        *ONE, *argv("--dataset old.csv --model m.bin --epochs 3 -q --categories size")
    )
    text = "\n".join(["size,x,goal", *(row.replace("0,", ",", 1) for row in rows)])
    (folder / "new.csv").write_text(text)
    check_table(folder, folder / "new.csv")


def test_a_series_whose_targets_have_no_common_scale(folder):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 4))
    columns = np.column_stack([x[:, 0] * 1e5 + 7e6, x[:, 1] * 1e-3])
    ds = nn.load(x, y=columns)
    net = nn.Network.for_data(ds)
    nn.train(net, ds, epochs=3)
    nn.export(net, folder / "m.onnx")
    out = outputs(folder / "m.onnx", {"features": x})["values"]
    for column in range(2):
        predictions = net.predict(ds.x)[:, column]
        distance = relative_distance(out[:, column], predictions)
        assert distance < TOLERANCE["float32"]


@pytest.fixture
def model(folder):
    network("4,3:gelu,2", dtype="float64").export(folder / "m.bin")
    return folder / "m.bin"


def test_a_float64_network_is_exported_in_float32(model, folder):
    succeed(
        *argv(f"--export --model {model}"),
        "-o",
        folder / "m.onnx",
        *argv("--dtype float32 -q"),
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 4))
    out = outputs(folder / "m.onnx", {"features": x})["values"]
    predictions = nn.Network.load(model).predict(x)
    assert relative_distance(out, predictions) < TOLERANCE["float32"]


def test_without_the_package_the_command_is_told(model, folder):
    program = "import sys; sys.modules['onnx'] = None; from nn.cli import main; sys.exit(main(sys.argv[1:]))"
    given = [
        *argv(f"--export --model {model}"),
        "-o",
        folder / "m.onnx",
        "--dtype",
        "float32",
    ]
    command = [sys.executable, "-c", program, *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert 'pip install "onnx>=1.14"' in done.stderr


def test_pieces_whose_edges_meet_in_float32_are_steps(folder):
    edges = (0.0, 1.0, 1 + 1e-12, 2.0)
    columns = [InputColumn("number", edges=edges)]
    net = network("1,4", "seq", "float32", input_columns=columns)
    net.set_parameters({"layer0.weight": np.eye(4), "layer0.bias": np.zeros(4)})
    x = np.array(
        [[np.nextafter(np.float32(1), np.float32(0))], [1.0], [1.5]], np.float32
    )
    graph = Graph("float32")
    given = graph.input("x", np.float32, (1,))
    graph.output(
        "out",
        outputs_of(graph, net.layers, net.parameters(), [given]),
        np.float32,
        (4,),
    )
    onnx.save(graph.model("0", {}), str(folder / "m.onnx"))
    out = outputs(folder / "m.onnx", {"x": x})["out"]
    np.testing.assert_array_equal(out, net.predict(x))
    predictions = net.predict(x)[:, 2]
    np.testing.assert_array_equal(predictions, [0, 1, 1])


def test_members_with_pieces_whose_edges_meet_have_steps_too(folder):
    """As models of earlier states may have them."""
    columns = {"a": np.linspace(0, 2, 90), "y": np.arange(90) % 7 + 0.5}
    given = {"number_embedding": "pieces3", "layers": "auto,2,1", "networks": 2}
    nn.fit(columns, "y", **given, epochs=1).save("m.bin")
    tensors, facts = model_file.load("m.bin")
    facts["encoding"]["columns"][0]["edges"] = [0.0, 1.0, 1 + 1e-12, 2.0]
    model_file.save("m.bin", tensors, facts)
    model = nn.Model.load("m.bin")
    model.export("m.onnx")
    rows = np.array([[1 - 1e-3], [1.0], [1 + 1e-3]])
    (out,) = outputs("m.onnx", {"features": rows}).values()
    np.testing.assert_allclose(out, model.network.predict(rows), rtol=1e-5)


def test_columns_may_have_the_names_of_values_inside_the_graph(folder):
    names = ["nn/Cast_1", "nn/constant_0", "nn/nn/Concat_0", "nn/"]
    rows = []
    for k in range(120):
        rows.append(
            [str((k * j + j) % 7) for j in range(1, 5)] + ["ab"[k % 2], str(k % 2)]
        )
    text = "\n".join(map(",".join, [[*names, "w", "y"], *rows]))
    (folder / "t.csv").write_text(text)
    succeed("--train", "--dataset", "t.csv", "--model", "m.bin", "--epochs", "2", "-q")
    check_table(folder, folder / "t.csv")


def test_a_file_keeps_the_facts_of_its_model_as_json(folder):
    net = nn.Network("2,1", "binary")
    net.classes = ["ok", "fraud"]
    net.columns = ["a", "b"]
    net.threshold = 0.25
    nn.export(net, folder / "m.onnx")
    facts = onnx.load(folder / "m.onnx").metadata_props
    assert {fact.key: json.loads(fact.value) for fact in facts} == {
        "task": "binary",
        "classes": ["ok", "fraud"],
        "columns": ["a", "b"],
        "targets": None,
        "threshold": 0.25,
    }


@pytest.mark.parametrize("networks", [1, 3])
def test_columns_of_words_side_by_side_have_codes_of_their_own(networks, folder):
    rng = np.random.default_rng(0)
    columns = {
        name: rng.choice([f"{name}{k}" for k in range(words)], 60).tolist()
        for name, words in {"a": 2, "b": 4, "c": 3}.items()
    }
    y = [len({*row}) + (row[1] == "b2") for row in zip(*columns.values(), strict=True)]
    saved({**columns, "y": np.add(y, rng.normal(size=60)).tolist()}, "t.csv")
    more = {"networks": networks} if networks > 1 else {}
    nn.fit("t.csv", "y", layers="auto,4,1", epochs=3, **more).save("m.bin")
    check_table(folder, "t.csv")
