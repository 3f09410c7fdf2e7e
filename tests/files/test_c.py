"""nn --export to .c: the file, compiled by any C or C++ compiler, gives the predictions
of nn."""

import ctypes
import gzip
import re
import subprocess
import timeit
from pathlib import Path

import numpy as np
import pytest
from support import c_models
from support.c_models import (
    SINGLE,
    Library,
    check_program,
    compiled,
    predicted,
    require,
    trained,
)
from support.command_line import argv, run, succeed
from support.distances import relative_distance
from support.mixed_table import read_raw
from support.networks import EVERY_ACTIVATION, EXPORTED, STACKS, fill, network

import nn
from nn.files.export import c_file, c_text

CODE = Path(c_file.__file__).with_name("model.c")
SOME = [*STACKS[:4], STACKS[10], "33,17:tanh,4", *EVERY_ACTIVATION[::2]]


@pytest.mark.usual(3, 33)
@pytest.mark.parametrize(
    "dtype, spec",
    [*(("float64", spec) for spec in EXPORTED), *(("float32", spec) for spec in SOME)],
)
def test_networks_have_the_bits_of_seq_or_in_float32_its_values(dtype, spec, folder):
    net = network(spec, "seq", dtype)
    x, _ = fill(net, 5)
    predictions = Library.of(net, folder).predict(x)
    expected = net.predict(x)
    assert (
        predictions.tobytes() == expected.tobytes()
        if dtype == "float64"
        else relative_distance(predictions, expected) < SINGLE
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_constants_come_back_as_they_were(dtype):
    info = np.finfo(dtype)
    rng = np.random.default_rng(0)
    spread = (rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, size=500)).astype(
        dtype
    )
    extremes = [
        0.0,
        -0.0,
        1,
        0.1,
        info.max,
        -info.max,
        info.tiny,
        info.smallest_subnormal,
        1e22,
        16777217,
    ]
    values = np.concatenate([spread, np.array(extremes, dtype)])
    again = np.array([text.rstrip("f") for text in c_text.numbers(values)]).astype(
        dtype
    )
    assert again.tobytes() == values.tobytes()
    for text in c_text.numbers(values):
        assert text.endswith("f") == (dtype == "float32")


@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e20])
def test_weights_are_digits_that_keep_24_bits_of_the_largest_of_an_input(spread):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(7, 30)).astype(np.float32)
    weights[1] *= np.float32(spread)
    weights[2] = 0
    whole, units = weights_of_digits(weights)
    errors = np.abs(whole * units - weights)
    largest = np.abs(weights).max(axis=1)
    assert (errors.max(axis=1) <= np.maximum(largest * 2.0**-23, units.min())).all()
    assert (whole[2] == 0).all()


def test_round_weights_are_kept_as_they_are():
    weights = np.array([[1, -2, 0.5, 2.0**-20], [3, 7, -1000, 0]], np.float32)
    whole, units = weights_of_digits(weights)
    np.testing.assert_array_equal(whole * units, weights)


def weights_of_digits(weights) -> tuple[np.ndarray, np.ndarray]:
    """What the digits of weights in a C file stand for, and the unit of each row."""
    constants = c_text.Constants("float32", {})
    _, unit = constants.digits("w", weights, "")
    size = weights.shape
    rows = re.findall('^"(.*)",$', constants.text(), re.M)
    texts = [row.replace("\\\\", "\\").encode() for row in rows]
    digits = np.array([list(text) for text in texts]) & 63
    whole = digits[:, 1:].reshape(*size, 4) @ 64 ** np.arange(4) - 2**23
    assert constants.bytes == size[0] * (1 + 4 * size[1] + 1)
    return whole, unit * 2.0 ** digits[:, :1]


@pytest.mark.parametrize("width", [100, 1500])
def test_a_weight_takes_5_characters_unless_a_row_is_longer_than_a_literal(
    width, folder
):
    net = network(f"4,50:relu,{width}:relu,3", "seq", "float32")
    x, _ = fill(net, 5)
    predictions = Library.of(net, folder).predict(x)
    assert relative_distance(predictions, net.predict(x)) < SINGLE
    text = (folder / "m.c").read_text()
    extra = len(text) - len(CODE.read_text())
    is_short = extra < 5 * net.parameter_count + 8000
    assert is_short == (width == 100)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "flags, tolerance",
    [
        (["--drop", "when"], 0),
        (["--drop", "when", "--number_embedding", "waves4"], 0),
        (["--drop", "when", "--networks", "2"], 0),
        # NumPy's sine, of dates, and that of the C library differ by their last digits
        ([], 1e-14),
    ],
)
def test_float64_tables_have_the_bits_of_seq(flags, tolerance, tables, folder):
    old, new = tables("number")
    trained(folder, old, "--dtype", "float64", *flags)
    check_program(folder, new, tolerance, "seq")
    model = nn.Model.load(folder / "m.bin")
    encoders = model.network.encoding.encoders
    kinds = {encoder.kind for encoder in encoders}
    assert flags or kinds == {"number", "yes/no", "category", "date"}


def test_yes_and_no_that_are_categories_to_some_members(folder):
    """As in models of earlier versions, each network of which judged by its own rows
    whether there is a gap."""
    words = ["yes", "No", "YES", "no", "Yes"]
    members = []
    for gap in ("", "no"):
        rows = []
        for k in range(120):
            rows.append(
                f"{words[k * k % 5] if k != 3 else gap},{k % 7},{(k * 3 + k // 9) % 2}"
            )
        text = "\n".join(["t,x,y", *rows])
        (folder / "old.csv").write_text(text)
        trained(folder, folder / "old.csv", "--networks", "2")
        members += nn.Model.load(folder / "m.bin").network.members
    types = {type(member.encoding.encoders[0]).__name__ for member in members}
    assert types == {"TruthEncoder", "CategoryEncoder"}
    net = nn.Model.load(folder / "m.bin").network
    net.combine(members, [1.0] * len(members))
    net.export(folder / "m.bin")
    nn.export(net, folder / "m.c")
    asked = [
        *words,
        "yEs",
        "nO",
        "t",
        "True",
        "FALSE",
        "maybe",
        "",
        "NA",
        "Y",
        "1",
        "0",
        "1.0",
        "0.0",
        "2",
    ]
    text = "\n".join(["t,x,y", *(f"{word},3,1" for word in asked)])
    (folder / "new.csv").write_text(text)
    check_program(folder, folder / "new.csv")


def test_times_of_one_morning(folder):
    """A float holds two minutes of them."""
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 9000, size=300)
    size = rng.normal(size=300).round(3)
    when = np.datetime64("2024-05-06T08:00") + seconds * np.timedelta64(1, "s")
    rows = []
    for time, value, second in zip(when, size, seconds):
        rows.append(f"{time},{value},{0.001 * second + value}")
    text = "\n".join(["when,size,goal", *rows])
    (folder / "old.csv").write_text(text)
    trained(folder, folder / "old.csv", "--backend", "seq")
    check_program(folder, folder / "old.csv", backend="seq")


@pytest.mark.usual(2)
@pytest.mark.parametrize(
    "name, target, flags",
    [
        ("titanic", "survived", []),
        ("adult-train", None, ["--networks", "2"]),
        ("german", None, []),
        ("penguins", "species", ["--validation", "0.2", "--calibrate", "temperature"]),
        ("auto_imports", None, []),
        ("abalone", None, ["--number_embedding", "pieces5"]),
        ("diamonds", "price", []),
    ],
)
def test_real_tables(name, target, flags, shared, folder):
    path = shared / "tables" / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    text = "".join(lines[:801])
    (folder / "old.csv").write_text(text, encoding="utf-8")
    text = "".join([lines[0], *lines[-150:]])
    (folder / "new.csv").write_text(text, encoding="utf-8")
    trained(
        folder, folder / "old.csv", *(["--target", target] if target else []), *flags
    )
    check_program(folder, folder / "new.csv")


# ---------------------------------------------------------------- the interface


def test_words_gaps_and_what_cannot_be_predicted(tables, folder):
    old, _ = tables("two")
    trained(folder, old, "--drop", "when", "--backend", "seq")
    net = nn.Model.load(folder / "m.bin", backend="seq").network
    library = Library.of(net, folder)
    names = net.encoding.names
    raw = {name: values[:50] for name, values in read_raw(old).items()}
    texts = {"colour", "place", "truth"}
    columns = []
    for place, name in enumerate(names):
        words = raw[name]
        if name in texts:
            columns.append([library.code(place, word) for word in words])
        else:
            gaps = ("", "NA", "?")
            columns.append([np.nan if w in gaps else float(w) for w in words])
    rows = np.array(columns).T
    expected = np.array(predicted(folder, old)["score good"][:50], float)[:, None]
    assert relative_distance(library.predict(rows), expected) < SINGLE
    colour = names.index("colour")
    truth = names.index("truth")
    gap_code = library.code(colour, "")
    assert library.code(colour, "NA") == gap_code
    assert library.code(colour, "never seen") != gap_code
    yes_code = library.code(truth, "yes")
    assert library.code(truth, "YES") == yes_code
    assert library.code(truth, "No") != yes_code
    for column in (names.index("size"), 99, -1):
        assert library.code(column, "red") == -1
    gap = rows[0].copy()
    with_nan = rows[0].copy()
    gap[colour] = library.code(colour, "?")
    with_nan[colour] = np.nan
    assert library.answer(gap)[1] == library.answer(with_nan)[1]
    for place in range(len(names)):
        bad = rows[0].copy()
        bad[place] = np.inf
        code, out = library.answer(bad)
        assert code == place + 1
        assert np.isnan(out).all()


def test_plain_numbers_have_no_gaps_and_an_output_that_is_not_finite_is_told(folder):
    net = network("2,1", dtype="float32")
    net.set_parameters(
        {
            "layer0.weight": np.array([[2, 1]], np.float32),
            "layer0.bias": np.zeros(1, np.float32),
        }
    )
    library = Library.of(net, folder)
    cases = (
        ([0, np.nan], 2),
        ([-np.inf, np.nan], 1),
        ([0, 3e38], 0),
        ([3e38, 0], -1),
        ([1e38, 0], 0),
    )
    for row, code in cases:
        assert library.answer(row)[0] == code, row
    with pytest.raises(nn.DataError, match="not finite"):
        net.predict(np.array([[3e38, 0]], np.float32))
    # the values of a regression are no classes
    assert library.label(np.zeros(1, np.float32)) is None


def test_classes_that_are_called_as_the_words_of_a_column(folder):
    rows = []
    for k in range(120):
        rows.append(f"{'ab'[k % 2]},{k % 7},{'ab'[k % 3 == 0]}")
    text = "\n".join(["word,x,goal", *rows])
    (folder / "old.csv").write_text(text)
    trained(folder, folder / "old.csv", "--target", "goal")
    check_program(folder, folder / "old.csv")


def test_two_models_in_one_program(folder):
    functions = re.findall(
        r"^(?:int|const char \*)\s*(nn_\w+)\(.*;$", CODE.read_text(), re.M
    )
    assert len(functions) == 7
    for name in ("a", "b"):
        renamed = [f"-D{function}={name}{function[2:]}" for function in functions]
        net = network("2,3,1", dtype="float64", seed=ord(name))
        fill(net, 1, seed=ord(name))
        nn.export(net, folder / f"{name}.c")
        source = folder / f"{name}.c"
        compiled(source, "-c", *renamed, output=f"{name}.o")
    (folder / "main.c").write_text(
        '#define NN_HEADER\n#define nn_predict a_predict\n#include "a.c"\n'
        "int b_predict(const nn_real *row, nn_real *out);\n"
        "int main(void)\n{\n    const nn_real row[NN_INPUTS] = {0.5, -1};\n    nn_real a[NN_OUTPUTS], b[NN_OUTPUTS];\n"
        "    return a_predict(row, a) || b_predict(row, b) || a[0] == b[0];\n}\n"
    )
    both = compiled(
        folder / "main.c", str(folder / "a.o"), str(folder / "b.o"), output="main"
    )
    assert subprocess.run([both]).returncode == 0


def test_threshold_can_be_set_by_the_compiler(folder):
    net = network("2,1:sigmoid", dtype="float64", task="binary")
    library = Library.of(net, folder, "-DNN_THRESHOLD=0.9")
    assert [library.label(np.array([score])) for score in (0.1, 0.7, 0.9)] == [
        "0",
        "0",
        "1",
    ]


# ------------------------------------------------------------- compilers and processors


def everything(tables, folder) -> Path:
    old, new = tables("two")
    trained(
        folder,
        old,
        "--networks",
        "2",
        "--validation",
        "0.2",
        "--calibrate",
        "temperature",
        "--number_embedding",
        "waves2",
        "--layers",
        "auto,7:gelu,5:selu,4:softplus,1",
    )
    return new


@pytest.mark.usual(2)
@pytest.mark.parametrize("name", c_models.COMPILERS)
def test_every_compiler_takes_it_without_warning_and_other_processors_give_the_same(
    name, tables, folder
):
    tools = c_models.toolchain(name)
    check_program(folder, everything(tables, folder), **tools)
    for dtype, tolerance in (("float32", SINGLE), ("float64", 1e-14)):
        layers = "2x9x7,conv4k3p1:silu,maxpool2:tanh,avgpool2,pad1:lrelu,flatten,5:gelu,3:softmax"
        net = network(layers, "seq", dtype, "multiclass")
        x, _ = fill(net, 6)
        nn.export(net, folder / "m.c")
        made = c_models.program(folder / "m.c", compiler=tools["compiler"])
        rows = x.reshape(6, -1).tolist()
        command = [*tools["runner"], made]
        _, outputs = c_models.answers(command, net, rows)
        assert (
            relative_distance(np.array(list(outputs.values())[1:]).T, net.predict(x))
            < tolerance
        ), dtype


def test_the_header_says_how_much_memory_it_takes(tables, folder):
    require("size")
    everything(tables, folder)
    compiled(folder / "m.c", "-c", "-fstack-usage", output="m.o")
    text = (folder / "m.c").read_text(encoding="utf-8")
    constants = int(re.search("Constants: (\\d+)", text)[1])
    stack = int(re.search("at most (\\d+) bytes", text)[1])
    lines = next(folder.glob("*.su")).read_text().splitlines()
    used = [line.split("\t")[1] for line in lines]
    # all functions at once: more than any chain of calls
    assert sum(map(int, used)) <= stack
    command = ["size", "-A", folder / "m.o"]
    sections = subprocess.run(command, capture_output=True, text=True).stdout
    result = dict(
        line.split()[:2] for line in sections.splitlines() if line.startswith(".")
    )
    kept = sum(
        int(size)
        for name, size in result.items()
        if ".rodata" in name or ".data.rel.ro" in name
    )
    assert kept == pytest.approx(constants, rel=0.1, abs=512)
    assert int(result.get(".bss", 0)) == int(result.get(".data", 0)) == 0


def test_a_compiler_leaves_out_what_a_network_does_not_need(folder):
    require("nm")
    nn.export(network("4,3:tanh,2", dtype="float32"), folder / "m.c")
    compiled(folder / "m.c", "-c", output="m.o")
    command = ["nm", folder / "m.o"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    absent = (
        r"\b(exp|erfc|sin|log|window_|find|gaps|encode_word|encode_cycle|vocabularies)"
    )
    assert "tanh" in names
    assert not re.search(absent, names)


def test_the_c_files_compile_as_they_stand():
    """As an editor opens them, and a compiler with the flags that most people give;
    each part is decided on."""
    require("cc")
    sources = sorted(CODE.parent.glob("*.c"))
    assert sources
    for source in sources:
        command = [
            "cc",
            *argv("-fsyntax-only -Wall -Wextra -Wundef"),
            "-Werror",
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0
        assert done.stderr == ""


@pytest.mark.timing
def test_one_row_takes_a_small_part_of_the_time_that_onnxruntime_takes(folder):
    """Both called from Python on one thread, in turn. 10 times as fast is the goal;
    half of it is left to the load of the machine."""
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 30)) * np.arange(1, 31)
    y = (x[:, 0] + x[:, 1] > 0).astype(int)
    ds = nn.load(x, y=y)
    net = nn.Network.for_data(ds, "30,60,10,1")
    nn.train(net, ds, epochs=1)
    nn.export(net, folder / "m.onnx")
    nn.export(net, folder / "m.c")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(
        folder / "m.onnx", options, providers=["CPUExecutionProvider"]
    )
    library = ctypes.CDLL(str(compiled(folder / "m.c", "-O2")))
    row = x[0].astype(net.dtype)
    out = np.zeros(1, net.dtype)
    pointers = ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(out.ctypes.data)
    calls = (
        lambda: library.nn_predict(*pointers),
        lambda: session.run(["probabilities"], {"features": x[:1]}),
    )
    blocks = [[timeit.timeit(call, number=500) for call in calls] for _ in range(60)]
    ours, theirs = np.min(blocks, axis=0)
    expected = session.run(["probabilities"], {"features": x[:1]})[0][0, 1]
    assert out[0] == pytest.approx(expected, abs=1e-5)
    assert theirs > 5 * ours


def test_numbers_that_are_not_finite_are_refused(folder):
    net = network("4,3", dtype="float32")
    net.set_parameters({"layer0.bias": np.array([0, np.nan, 0])})
    with pytest.raises(
        nn.UsageError, match="m.c: layer0.bias has values that are not finite"
    ):
        nn.export(net, folder / "m.c")


def test_a_very_long_word_is_refused(folder):
    rows = []
    for k in range(60):
        rows.append(f"{'ab'[k % 2] * 4001},{k % 5},{k % 3 == 1}")
    text = "\n".join(["word,x,y", *rows])
    (folder / "old.csv").write_text(text)
    succeed(
        "--train",
        "--dataset",
        folder / "old.csv",
        "--model",
        folder / "m.bin",
        *argv("--epochs 1 -q"),
    )
    result = run("--export", "--model", folder / "m.bin", "-o", folder / "m.c")
    assert result.code == 2
    assert "column word: a value of 4001 bytes, expected at most 4000" in result.err


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_every_kind_of_model_compiles_without_a_warning_at_every_level(
    level, tables, folder
):
    """Tables of plain numbers with pieces, of words, dates and waves, of several
    networks; images."""
    old, _ = tables("three")
    models = {"words": [], "waves": ["--number_embedding", "waves4", "--networks", "2"]}
    for name, flags in models.items():
        trained(folder, old, "--epochs", "1", *flags)
        net = nn.Model.load(folder / "m.bin").network
        nn.export(net, folder / f"{name}.c")
    text = "\n".join(["a,b,y", *(f"{k % 7},{k * k % 11},{k % 2}" for k in range(120))])
    (folder / "plain.csv").write_text(text)
    for name, flags in {
        "plain": [],
        "pieces": ["--number_embedding", "pieces4"],
    }.items():
        trained(folder, folder / "plain.csv", "--epochs", "1", *flags)
        net = nn.Model.load(folder / "m.bin").network
        nn.export(net, folder / f"{name}.c")
    nn.export(
        network("3x12x12,conv17k3p1,avgpool2,pad1,4", "seq", "float32"),
        folder / "images.c",
    )
    for name in (*models, "plain", "pieces", "images"):
        source = folder / f"{name}.c"
        compiled(source, level, "-c", output=f"{name}.o")


@pytest.mark.parametrize("flag", ["-ffast-math", "-ffinite-math-only"])
def test_flags_that_lose_nan_are_refused_by_the_file(flag, folder):
    nn.export(network("3,2", "seq", "float32"), folder / "m.c")
    require("gcc")
    command = ["gcc", flag, "-c", "m.c", "-o", "m.o"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode
    assert "#error" in done.stderr
    assert "without -ffast-math" in done.stderr
