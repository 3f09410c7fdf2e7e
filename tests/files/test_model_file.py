"""Model files: what is saved is what is loaded, and no damaged or hostile file gets
through."""

import copy
import hashlib
import itertools
import json
import os
import pickle
import struct

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import ONE, run, succeed
from support.effort import examples
from support.mixed_table import write_table

import nn
from nn.files import model_file, tensor_file, text_model
from nn.utils import DataError, InputNotFound, NnError, OutputError


def small_model(dtype="float32"):
    """A 2,3,1 network's tensors and metadata, with names that JSON has to escape."""
    tensors = {
        "layer0.weight": np.array([[0.5, -1.5], [2.0, 0.25], [1e-8, -0.0]], dtype),
        "layer0.bias": np.array([0.1, 0.2, 0.3], dtype),
        "layer1.weight": np.array([[1.0, -1.0, 3.0]], dtype),
        "layer1.bias": np.array([-0.5], dtype),
    }
    scaling = {"kind": "standardization", "shift": [0.1, -3.0], "scale": [2.0, 1e-3]}
    history = {"loss": [0.7, 0.1 + 0.2], "val_loss": None}
    dataset = {"path": "/data/x.csv", "sha256": "5" * 64}
    metadata = {
        "layers": "2,3:relu,1:sigmoid",
        "task": "binary",
        "loss": "bce",
        "dtype": dtype,
        "scaling": scaling,
        "target_scaling": None,
        "columns": ["a", 'with "quotes", commas \\ and ünïcode'],
        "targets": ["Class"],
        "classes": ["0", "1"],
        "threshold": 0.5,
        "seed": 7,
        "holdout": 0.2,
        "dataset": dataset,
        "history": history,
        "config": {"epochs": 2},
    }
    return tensors, metadata


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.bin"
    model_file.save(path, *small_model())
    return path


def container(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def error_of(path, load=model_file.load) -> str:
    """The one line that loading such a file ends with."""
    with pytest.raises(DataError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def refused(path, content: bytes, load=model_file.load) -> str:
    path.write_bytes(content)
    return error_of(path, load)


def sealed(content: bytes) -> bytes:
    """With a right SHA-256 in the place of the 64 zeros: damage is then not what gives
    a file away."""
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(b"0" * 64, digest.encode())


def unsealed_text(metadata: dict) -> str:
    return json.dumps(
        {"format": 1, "sha256": "0" * 64, **metadata},
        sort_keys=True,
        separators=(",", ":"),
    )


def file_of(tensors: dict, metadata: dict) -> bytes:
    """What `save` would write if it did not look at what it is given."""
    return sealed(safetensors.numpy.save(tensors, {"nn": unsealed_text(metadata)}))


# ---------------------------------------------------------------- safetensors


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_saved_model_comes_back_bit_for_bit(tmp_path, dtype):
    tensors, metadata = small_model(dtype)
    model_file.save(tmp_path / "m.bin", tensors, metadata)
    loaded, facts = model_file.load(tmp_path / "m.bin")
    bits = []
    for arrays in (loaded, tensors):
        bits.append(
            {name: (a.tobytes(), a.shape, a.dtype) for name, a in arrays.items()}
        )
    assert bits[0] == bits[1]
    assert {key: facts[key] for key in metadata} == metadata


@pytest.mark.parametrize("dtype", ["float32", "float64", "tf32"])
def test_a_copy_and_a_pickle_have_the_type_that_was_asked_for(dtype):
    net = nn.Network("2,1", dtype=dtype)
    copies = (net.copied(), copy.deepcopy(net), pickle.loads(pickle.dumps(net)))
    assert [one.asked_dtype for one in copies] == [dtype] * 3


@pytest.mark.parametrize("order", [1, -1])
def test_networks_that_embed_numbers_and_others_are_of_one_file(tmp_path, order):
    x = np.random.default_rng(0).normal(size=(60, 2))
    ds = nn.Dataset(x, x[:, 0], "regression", columns=["a", "b"])
    members = []
    for embedding in ("pieces4", None)[::order]:
        member = nn.Network.for_data(ds, "auto,4,1")
        nn.train(member, ds, epochs=1, number_embedding=embedding, learning_rate=0.1)
        members.append(member)
    net = members[0].copied()
    net.combine(members, [1.0, 2.0])
    net.export(tmp_path / "m.bin")
    again = nn.Model.load(tmp_path / "m.bin").network
    found = [member.encoding is None for member in again.members]
    assert found == [False, True][::order]
    np.testing.assert_array_equal(again.predict(x), net.predict(x))


def test_the_same_model_gives_the_same_bytes_however_its_parts_lie(tmp_path):
    tensors, metadata = small_model()
    model_file.save(tmp_path / "a.bin", tensors, metadata)
    columns_first = {
        name: np.asfortranarray(array) for name, array in reversed(tensors.items())
    }
    model_file.save(tmp_path / "b.bin", columns_first, dict(reversed(metadata.items())))
    data = (tmp_path / "a.bin").read_bytes()
    assert data == (tmp_path / "b.bin").read_bytes()


def test_the_file_is_safetensors_with_one_json_text_of_sorted_keys(saved):
    with safetensors.safe_open(saved, "numpy") as file:
        facts = file.metadata()
        assert sorted(file.keys()) == [
            "layer0.bias",
            "layer0.weight",
            "layer1.bias",
            "layer1.weight",
        ]
    metadata = json.loads(facts["nn"])
    assert list(facts) == ["nn"]
    assert list(metadata) == sorted(metadata)
    assert metadata["format"] == 3


@pytest.mark.parametrize(
    "shapes", [[(3, 2), (0,), (5,)], [(1,)], [(2, 1, 3), (), (7, 1)]]
)
def test_the_bytes_are_those_of_safetensors(shapes):
    types = ["float32", "float64", "int64", "uint32"]
    tensors = {
        f"{name}{number}": np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        for number, shape in enumerate(shapes)
        for name, dtype in zip("zéab", types)
    }
    metadata = {"nn": json.dumps({"a": [1, "\u00e9\n"]})}
    header, arrays = tensor_file._header_of(tensors, metadata)
    expected = safetensors.numpy.save(tensors, metadata)
    assert header + b"".join(map(bytes, arrays)) == expected


@pytest.mark.parametrize(
    "bits", ["a bit of every byte", pytest.param("every bit", marks=pytest.mark.long)]
)
def test_every_flipped_bit_is_refused(saved, bits):
    with open(saved, "r+b", buffering=0) as file:
        for position, byte in enumerate(file.read()):
            if bits == "every bit":
                flipped = range(8)
            else:
                flipped = [position % 8]
            for bit in flipped:
                os.pwrite(file.fileno(), bytes([byte ^ (1 << bit)]), position)
                error_of(saved)
            os.pwrite(file.fileno(), bytes([byte]), position)
    model_file.load(saved)


def test_every_cut_every_appended_byte_and_white_space_in_the_header_is_refused(
    saved, tmp_path
):
    content = saved.read_bytes()
    for length in reversed(range(len(content))):
        os.truncate(saved, length)
        error_of(saved)
    for extra in (b"\0", b" ", b"\n", content):
        refused(tmp_path / "longer.bin", content + extra)
    # the same JSON and numbers, but not the bytes that were written
    end = 8 + int.from_bytes(content[:8], "little")
    header = content[8:end] + b" " * 8
    refused(tmp_path / "padded.bin", container(header, content[end:]))


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "empty"),
        (b"1,2,3\n4,5,6\n" * 10, "not a model file"),
        (container(b'{"a":1 "b"}'), "JSON"),
        (b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.", "not a model file"),
        (b"\xff" * 8 + b"{}", "header"),
        (struct.pack("<Q", 2**63) + b"{}", "header"),
        (struct.pack("<Q", 3) + b"{}", "should have 3 bytes, but only 2 follow"),
        (container(b"{}"), "metadata"),
        (container(b'{"__metadata__":{"nn":7}}'), "metadata"),
        (container(b'{"__metadata__":{"nn":"[]"}}'), "metadata"),
        (container(b'{"__metadata__":{"nn":"{}"}}'), "missing"),
        (
            container(b'{"__metadata__":{"nn":"{\\"format\\":1,\\"format\\":1}"}}'),
            "twice",
        ),
        (container(b'{"__metadata__":{"nn":"{\\"threshold\\":NaN}"}}'), "NaN"),
        (container(b'{"__metadata__":{"nn":"{\\"threshold\\":1e999}"}}'), "1e999"),
        (
            container(b'{"__metadata__":{"nn":"{\\"seed\\":' + b"9" * 5000 + b'}"}}'),
            "digits",
        ),
        (container(b'{"__metadata__":{"nn":"\xff\xfe"}}'), "utf-8"),
        (container(b'{"a":' * 100000 + b"}" * 100000), "JSON"),
    ],
    ids=lambda value: value[:20].hex() if isinstance(value, bytes) else None,
)
def test_a_foreign_or_hostile_file_is_refused_with_one_line(tmp_path, content, words):
    assert words in refused(tmp_path / "x.bin", content)


WRONG = {  # what metadata cannot be
    "format": ["1", True],
    "layers": [5, "2,3,conv", "", "2,99999999999"],
    "task": ["clustering", ["binary"]],
    "loss": [None],
    "dtype": ["float16", {}],
    "scaling": [
        *("none", None, {}, {"kind": "none"}, {"kind": [], "shift": [], "scale": []}),
        *(
            {"kind": "standardization", "shift": shift, "scale": scale}
            for shift, scale in ((1, 1), ([], []))
        ),
        *(
            {"kind": "x", "shift": shift, "scale": [1]}
            for shift in ([1, 2], ["a"], [int("9" * 400)])
        ),
        {"kind": "normalization", "shift": [0, 0], "scale": [1, -1]},
        {"kind": "normalization", "shift": [0], "scale": [1]},
        {"kind": "none", "shift": [0, 0], "scale": [1, 1]},
        {"kind": "normalization", "shift": [0, 0], "scale": [1, 1], "low": [0, 0]},
        {
            "kind": "normalization",
            "shift": [0, 0],
            "scale": [1, 1],
            "low": [0, 2],
            "high": [1, 1],
        },
    ],
    "target_scaling": [[], {"kind": "normalization", "shift": [0, 0], "scale": [1, 1]}],
    "columns": ["ab", [1], ["a"], []],
    "targets": [{}],
    "classes": [[None], [], ["0"], ["0", "1", "2"]],
    "threshold": ["0.5", True, None],
    "seed": [-1, 2**32, 1.0],
    "holdout": [1.0, -0.1, None],
    "dataset": ["x.csv", {"path": 1, "sha256": None}, {"path": "x.csv"}],
    "history": [[1], {"loss": "x"}, None, {"loss": [0.5]}],
    "config": [None],
    "sha256": ["0" * 63, "Z" * 64, 5],
}


@pytest.mark.parametrize(
    "key, value", [(key, value) for key, values in WRONG.items() for value in values]
)
def test_metadata_of_the_wrong_kind_is_refused_by_name(tmp_path, key, value):
    tensors, metadata = small_model()
    content = file_of(tensors, {**metadata, key: value})
    line = refused(tmp_path / "x.bin", content)
    assert f"`{key}`" in line or f"--{key}" in line


HUGE = int("9" * 400), -int("9" * 400)
HOSTILE = [  # a fact of a table's model, and what cannot stand there
    *(
        (("encoding", "columns", 0, name), value)
        for name in ("shift", "scale", "unknown_share")
        for value in HUGE
    ),
    *((("encoding", "places", 0), value) for value in (*HUGE, -1, 2**63, 0.5)),
    *(
        (path, "half \ud800 of a pair")
        for path in (("columns", 1), ("targets", 0), ("classes", 1))
    ),
    (("encoding", "columns", 1, "values", 1), "half \udc80 of a pair"),
    (("config", "left_out"), [2**63]),
    (("config", "split_seed"), HUGE[0]),
    (("config", "table"), {"drop_duplicates": 1}),
    *((("number_type",), value) for value in ("float16", None, ["float32"], 64)),
    *(
        (("weightless_rows",), value)
        for value in (-1, True, 0.5, "3", None, [3], HUGE[1])
    ),
    *((("code_page",), value) for value in ("utf-7", None, ["latin-1"], 1252)),
    *(
        (("gap_words",), value)
        for value in ("NA", [1], {"NA": 1}, None, ["half \ud800 of a pair"])
    ),
    (
        ("config", "candidates"),
        [{"layers": "3,1", "loss": HUGE[0], "operations": 1.0, "weight": 1}],
    ),
    (("scaling", "shift"), [HUGE[0]]),
    *(
        (path, HUGE[0])
        for path in (("threshold",), ("temperature",), ("history", "loss", 0))
    ),
    # its classes are numbers
    *((("label_type",), value) for value in (5, "str", ["int"], "bool")),
    *(
        (("row_hashes", "hashes"), value)
        for value in (5, "", "AAAA", "no base64", "\u00e9" * 8, "A" * 10927)
    ),
    (("row_hashes", "hashes"), "/////////wAAAAAAAAAA"),  # not ascending
    *((("row_hashes", "rows"), value) for value in (0, -1, "7", True, 2**63, 3)),
    *(
        (("row_hashes", name), value)
        for name, value in (
            ("wide", [-1]),
            ("wide", 3),
            ("data", 5),
            ("data", "\ud800"),
        )
    ),
    *((("row_hashes", "salt"), value) for value in (None, 5, ["a"], "\ud800")),
    *((("row_hashes",), value) for value in (5, [], {}, {"hashes": "AAAAAAAAAAA="})),
    *((("dataset", "part"), value) for value in (False, 1, "yes")),
    *(
        (("medians",), value)
        for value in (5, ["0.5"], [HUGE[0]], [], [0.5, True, None], [0.5] * 99)
    ),
]


@pytest.fixture(scope="module")
def of_table(tmp_path_factory):
    """A model of a mixed table: its file, the table's, its arrays and its facts."""
    folder = tmp_path_factory.mktemp("table")
    write_table(folder / "t.csv", 120, 0, "three")
    succeed(
        *ONE, "--dataset", folder / "t.csv", "--model", folder / "m.bin", "--epochs", 1
    )
    tensors, facts = model_file.load(folder / "m.bin")
    del facts["sha256"]
    return folder, tensors, facts


@pytest.mark.parametrize("path, value", HOSTILE, ids=lambda value: ascii(value)[:40])
def test_a_fact_that_cannot_be_is_damage_in_every_use(of_table, path, value):
    folder, tensors, facts = of_table
    changed = at = copy.deepcopy(facts)
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    (folder / "x.bin").write_bytes(file_of(tensors, changed))
    model = ["--model", folder / "x.bin"]
    data = ["--dataset", folder / "t.csv"]
    commands = (
        ["--info"],
        ["--test", *data],
        ["--predict", *data],
        ["--export", "-o", folder / "x.onnx"],
    )
    for command in commands:
        result = run(*command, *model)
        assert result.code == 65, command
        assert "damaged" in result.err, command
        assert len(result.err.splitlines()) == 1, command


def test_a_file_of_a_later_format_asks_for_a_newer_nn_where_todays_is_read(tmp_path):
    tensors, metadata = small_model()
    content = file_of(tensors, {**metadata, "format": 4})
    told = "model file format 4, this nn reads up to 3; install a newer nn"
    assert told in refused(tmp_path / "x.bin", content)
    (tmp_path / "x.bin").write_bytes(file_of(tensors, metadata))
    layers = model_file.load(tmp_path / "x.bin")[1]["layers"]
    assert layers == metadata["layers"]


@pytest.mark.parametrize("key", [*small_model()[1], "format"])
def test_missing_metadata_is_refused_by_name(tmp_path, key):
    tensors, metadata = small_model()
    complete = json.loads(unsealed_text(metadata))
    del complete[key]
    content = sealed(
        safetensors.numpy.save(
            tensors, {"nn": json.dumps(complete, separators=(",", ":"))}
        )
    )
    message = refused(tmp_path / "x.bin", content)
    assert f"`{key}` is missing" in message


OTHER_TYPES = {"float64": "F64", "float16": "F16", "int32": "I32", "bool": "BOOL"}


@pytest.mark.parametrize("dtype", OTHER_TYPES)
@pytest.mark.parametrize("name", ["layer1.bias", "layer2.bias", "other"])
def test_a_tensor_of_another_type_or_of_no_layer_is_refused(tmp_path, name, dtype):
    tensors, metadata = small_model("float32")
    tensors[name] = tensors["layer1.bias"].astype(dtype)
    message = refused(tmp_path / "x.bin", file_of(tensors, metadata))
    assert f"'{name}' is of type '{OTHER_TYPES[dtype]}', expected F32" in message


@pytest.mark.parametrize(
    "layers, name, shape, expected",
    [
        ("2,3,2,1", "layer1.bias", (1,), (2,)),
        ("2,4,1", "layer0.bias", (3,), (4,)),
        ("2,1", "layer0.bias", (3,), (1,)),
        ("2,1000000,1000000,1", "layer0.bias", (3,), (1000000,)),
        ("2,3,1,1", "layer2.bias", None, (1,)),
        ("2,3,1", "layer2.bias", (1,), None),
        ("2,3,1", "other", (1,), None),
    ],
)
def test_tensors_that_do_not_fit_the_layers_are_refused_before_memory_is_taken(
    tmp_path, layers, name, shape, expected
):
    tensors, metadata = small_model()
    if expected is None:
        tensors[name] = tensors["layer1.bias"]
    content = file_of(tensors, {**metadata, "layers": layers})
    line = refused(tmp_path / "x.bin", content)
    assert f"{name}' has shape {shape}, its layers '{layers}' need {expected}" in line


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_in_both_directions(tmp_path, number):
    tensors, metadata = small_model()
    tensors["layer1.bias"][0] = number
    assert "layer1.bias" in refused(tmp_path / "x.bin", file_of(tensors, metadata))
    with pytest.raises(DataError, match="finite"):
        model_file.save(tmp_path / "y.bin", tensors, metadata)
    assert not (tmp_path / "y.bin").exists()


@pytest.mark.parametrize(
    "entries",
    [
        [{"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}],
        [{"dtype": "F32", "shape": [2], "data_offsets": [4, 0]}],
        [{"dtype": "F32", "shape": [2], "data_offsets": [2**63, 2**64]}],
        [{"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 8]}],
        [{"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}],
        [{"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}],
        [{"dtype": "F32", "shape": "2", "data_offsets": [0, 8]}],
        [{"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}],
        [{"dtype": "F32", "shape": [2]}],
        [7],
        [{"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}] * 2,  # they overlap
    ],
)
def test_tensor_entries_that_lie_about_their_place_are_refused(tmp_path, entries):
    text = unsealed_text(small_model()[1])
    tensors = {
        "__metadata__": {"nn": text},
        **{f"layer{number}.weight": entry for number, entry in enumerate(entries)},
    }
    header = json.dumps(tensors).encode()
    content = container(header, b"\0" * 8)
    assert "SHA-256" not in refused(tmp_path / "x.bin", sealed(content))


def test_a_missing_model_file_and_a_folder_are_said_so(tmp_path):
    with pytest.raises(InputNotFound, match="no such model file"):
        model_file.load(tmp_path / "none.bin")
    with pytest.raises(DataError, match="folder"):
        model_file.load(tmp_path)
    with pytest.raises(DataError, match="not a file"):
        model_file.load("/dev/zero")  # which has no end


def test_a_failed_save_leaves_the_old_file_and_no_other(saved, tmp_path):
    before = saved.read_bytes()
    tensors, metadata = small_model()
    with pytest.raises(DataError):
        model_file.save(saved, tensors, {**metadata, "task": "clustering"})
    with pytest.raises(OutputError):
        model_file.save(tmp_path / "no folder" / "m.bin", tensors, metadata)
    assert saved.read_bytes() == before
    names = [file.name for file in tmp_path.iterdir()]
    assert names == ["m.bin"]


# ---------------------------------------------------------------- the original's text

SIZES = [2, 3, 1]
BIASES = [np.array([0.1, -2.0, 1 / 3]), np.array([1e-300])]
WEIGHTS = [
    np.array([[1.0, 2.0], [3.0, -4.0], [5e22, 6.0]]),
    np.array([[0.5, 0.25, 1e300]]),
]


def test_text_with_six_decimals_has_the_layout_of_the_original(tmp_path):
    weights = [np.array([[1.0, -2 / 3]])]
    biases = [np.array([0.5])]
    text_model.save(tmp_path / "x.m", [2, 1], biases, weights, "%lf")
    assert (tmp_path / "x.m").read_text() == "2\n2 1 \n0.500000 \n1.000000 -0.666667 \n"


@pytest.mark.parametrize("name", ["xor", "xor_b4", "iris", "iris_deep", "pima", "cc"])
def test_the_originals_own_files_are_read_and_written_byte_for_byte(
    golden, tmp_path, name
):
    stored = golden(name) / f"{name}.m"
    sizes, biases, weights = text_model.load(stored)
    text = stored.with_suffix(".json").read_text()
    assert sizes == json.loads(text)["layers"]
    text_model.save(tmp_path / "again.m", sizes, biases, weights, "%lf")
    assert (tmp_path / "again.m").read_bytes() == stored.read_bytes()


@examples(50)
@given(sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4), data=st.data())
def test_any_network_survives_the_text(tmp_path_factory, sizes, data):
    number = st.floats(allow_nan=False, allow_infinity=False)

    def draw(count):
        return np.array(data.draw(st.lists(number, min_size=count, max_size=count)))

    biases = [draw(outputs) for outputs in sizes[1:]]
    weights = []
    for i, o in itertools.pairwise(sizes):
        weights.append(draw(i * o).reshape(o, i))
    path = tmp_path_factory.getbasetemp() / "any.m"
    text_model.save(path, sizes, biases, weights)
    again = text_model.load(path)
    assert again[0] == sizes
    expected = [a.tobytes() for a in biases + weights]
    assert [a.tobytes() for a in again[1] + again[2]] == expected


def test_a_text_with_windows_line_ends_is_read_and_every_cut_is_refused(tmp_path):
    text = tmp_path / "x.m"
    text_model.save(text, SIZES, BIASES, WEIGHTS)
    text.write_bytes(text.read_bytes().replace(b"\n", b"\r\n"))
    assert text_model.load(text)[0] == SIZES
    text.write_bytes(text.read_bytes().replace(b"\r\n", b"\n"))
    for length in reversed(range(text.stat().st_size)):
        os.truncate(text, length)
        error_of(text, text_model.load)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "empty"),
        (b"\n", "line 1"),
        (b"x\n2 1 \n", "line 1"),
        (b"1\n2 \n", "line 1"),
        (b"-3\n2 3 1 \n", "line 1"),
        (b"2 2\n2 1 \n0 \n0 0 \n", "line 1"),
        (b"\x00" * 64 + b"\n", "line 1"),
        (b"99999999999999999999\n2 1 \n", "line 1"),
        (b"3\n2 1 \n0 \n0 0 \n", "line 2: 2 layer sizes, expected 3 as in line 1"),
        (b"2\n2 999999999 \n0 \n0 0 \n", "weight rows"),
        (b"2\n999999999 1 \n0 \n0 0 \n", "line 4"),
        (b"2\n2 0 \n0 \n0 0 \n", "line 2: layer size '0'"),
        (b"2\n2 -1 \n0 \n0 0 \n", "line 2"),
        (b"2\n2 1.5 \n0 \n0 0 \n", "line 2"),
        (b"2\n2 1 \n0 \n0 x \n", "line 4: 'x' in column 2"),
        (b"2\n2 1 \n0 \n0 nan \n", "line 4: 'nan' in column 2"),
        (b"2\n2 1 \n-inf \n0 0 \n", "line 3: '-inf' in column 1"),
        (b"2\n2 1 \n1e999 \n0 0 \n", "line 3"),
        (b"2\n2 1 \n1_0 \n0 0 \n", "line 3"),
        (b"2\n2 1 \n0 \n0 \n", "line 4: 1 numbers, expected 2"),
        (b"2\n2 1 \n0 \n0 0 0 \n", "line 4: 3 numbers, expected 2"),
        (b"2\n2 1 \n0 \n0 \xe9 \n", "byte 12 is not an ASCII"),
        (
            b"2\n2 1 \n0 \n0 0 \n0 0 \n",
            "3 lines of numbers, the sizes in line 2 need 2 (1 bias vectors, 1 weight rows)",
        ),
        (b"3\n2 3 1 \n0 \n", "need 6 (2 bias vectors, 4 weight rows)"),
        (b"2\n2 1 \n0 \n", "weight rows"),
    ],
)
def test_a_text_that_is_not_as_it_says_is_refused_by_line(tmp_path, content, words):
    assert words in refused(tmp_path / "x.m", content, text_model.load)


@pytest.mark.parametrize("place", [0, (1 << 16) - 1, 1 << 16, 90_000 - 1])
def test_a_number_that_is_not_finite_is_refused_wherever_it_is(tmp_path, place):
    nn.Network("300,300,1", "regression").export(tmp_path / "m.bin")
    tensors, metadata = model_file.load(tmp_path / "m.bin")
    tensors["layer0.weight"] = tensors["layer0.weight"].copy()
    tensors["layer0.weight"].reshape(-1)[place] = np.nan
    with pytest.raises(DataError, match="layer0.weight holds a number that is not fin"):
        model_file.save(tmp_path / "m.bin", tensors, metadata)


@pytest.mark.parametrize(
    "name, beginning",
    [
        ("m.bin", b""),
        ("m.m", b""),
        ("c.ck", b""),
        ("m.bin", b"\0\0\0\1\0\0\0\0{"),
        ("m.m", b"3\n2 3 1\n"),
    ],
)
def test_a_file_of_a_terabyte_is_no_model_or_does_not_fit_in_memory(
    two, name, beginning
):
    with open(name, "wb") as file:
        file.write(beginning)
        file.truncate(1 << 40)  # takes no room on the disk
    if name == "c.ck":
        use = ["--train", "--model", "new.bin", "--resume"]
    else:
        use = ["--test", "--model"]
    code, _, err = run(*use, name, "--dataset", "two.csv")
    if beginning:
        assert code == 1
        assert err.startswith(f"nn: {name}: a model file of 1048576 MiB, but only ")
    else:
        assert code == 65
        assert err.startswith(f"nn: {name}: not a ")
        assert "expected a" in err


def test_a_core_that_is_not_built_is_no_fault_of_the_model(trained, monkeypatch):
    def failing(*_, **__):
        raise NnError("the C core is not built")

    monkeypatch.setattr(nn.Network, "__init__", failing)
    result = run("--info", "--model", "m.bin")
    assert result.code == 1
    assert result.err == "nn: the C core is not built\n"
