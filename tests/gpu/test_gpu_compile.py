"""Where CUDA's compiler is, every kernel is compiled, in long.sh for two generations of
GPUs; no GPU is needed."""

import shutil
import subprocess

import numpy as np
import pytest

from nn.backends.cuda import small
from nn.backends.cuda.abi import MOMENTS
from nn.backends.cuda.builder import Builder
from nn.backends.cuda.data import row_format
from nn.backends.cuda.pack import shuffle_source
from nn.backends.cuda.program import (
    BYTE_ROWS,
    PRELUDE,
    Purpose,
    constant_line,
    epoch_source,
    losses_source,
    phases_source,
    sources,
)
from nn.core.records import record_type
from nn.layers import InputColumn, parse
from nn.nn_aux import ACTIVATIONS, LOSSES

ALL_LAYERS = (
    "3x12x12,pad1,conv8k3p1,conv70k3:softplus,conv8k7same:tanh,conv3k2s3:lrelu,maxpool2s1,avgpool2:tanh,dropout0.3,"
    "flatten:sigmoid,300:gelu,35:silu,2:selu,10"
)
# convolutions as products
LARGE = "3x40x40,conv32k3,conv64k3,maxpool2,maxpool3s2,600,5"
COLUMNS = (
    InputColumn("number", edges=(-1.0, 0.1, 1e30), waves=12),
    InputColumn("gap", fill=0.1, edges=(0.3, 0.4), waves=30),
    InputColumn("embedding", values=10_000, width=8),
    InputColumn("embedding", values=3, width=300),
    InputColumn("onehot", values=5),
    InputColumn("embedding", values=1, width=1),
)
KERNEL = 'extern "C" __global__ void kernel{number}(real *v, const update *u) {{ {statement}; }}'
PROCESSORS = 132


def programs(itemsize):
    for spec, kind, optimizer, distribute in (
        (ALL_LAYERS, "train", "ADAM", ""),
        (ALL_LAYERS, "gradients", "", ""),
        (ALL_LAYERS, "predict", "", ""),
        (LARGE, "train", "MOMENTUM", ""),
        (ALL_LAYERS, "gradients", "", "mirrored"),
        (LARGE, "train", "ADAM", "central"),
    ):
        layers = parse(spec, "relu", "softmax")
        purpose = Purpose(
            kind,
            100,
            labels=True,
            rows_as=BYTE_ROWS,
            weighted=kind == "train" and optimizer != "MOMENTUM",
            dropout=True,
            optimizer=optimizer,
            distribute=distribute,
            moves=(2, 4, 1) if kind == "train" else (0, 0, 0),
        )
        yield Builder(layers, "ce", itemsize, PROCESSORS).build(purpose)


def table_programs(dtype):
    """Programs of an embedding layer that read records."""
    rows_as = row_format(np.zeros(1, record_type(dtype, 2, 1, 1, 2)), np.dtype(dtype))
    for kind, rows, distribute in (("train", 1000, ""), ("gradients", 100, "mirrored")):
        layers = parse("6,30,3", "tanh", "softmax", COLUMNS)
        purpose = Purpose(
            kind, rows, rows_as=rows_as, optimizer="ADAM", distribute=distribute
        )
        yield Builder(layers, "ce", np.dtype(dtype).itemsize, PROCESSORS).build(purpose)


def packs(dtype, monkeypatch):
    """Plans of packs whose blocks have all parts of a batch at a time, and some."""
    monkeypatch.setattr(small, "shared_of_block", lambda: 227 << 10)
    monkeypatch.setattr(small, "shared_of_processor", lambda: 228 << 10)
    for rows, optimizer, weighted in ((32, "ADAM", False), (700, "MOMENTUM", True)):
        purpose = Purpose("train", rows, optimizer=optimizer, weighted=weighted)
        yield small.Plan(
            parse("30,60,10,1", "relu", "sigmoid"),
            "bce",
            purpose,
            np.dtype(dtype),
            pack=True,
        )


def texts(dtype, monkeypatch):
    """The sources of all kinds of kernels."""
    monkeypatch.setattr(small, "processors", lambda: PROCESSORS)
    for index, program in enumerate(
        [*programs(np.dtype(dtype).itemsize), *table_programs(dtype)]
    ):
        phases = index % 2 or program.purpose.distribute
        yield phases_source(program) if phases else epoch_source(program)
    for rows, optimizer, weighted in (
        (10, "ADAM", True),
        (1000, "SGD", False),
        (1000, "RMSPROP", False),
        (10, "ADAGRAD", True),
        (1000, "ADAM", True),
    ):
        purpose = Purpose("train", rows, optimizer=optimizer, weighted=weighted)
        yield small.Plan(
            parse("30,60,10,3", "relu", "softmax"), "ce", purpose, np.dtype(dtype)
        ).source()
    yield from (plan.source() for plan in packs(dtype, monkeypatch))
    yield shuffle_source()
    yield from map(losses_source, ("", "mirrored"))


def compiled(text, folder, *flags):
    """The compiler's exit status and what it says."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        pytest.skip("no nvcc: CUDA's compiler is not installed")
    (folder / "text.cu").write_text(text)
    command = [nvcc, "-std=c++17", *flags, "-o", "/dev/null", folder / "text.cu"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr


def compile_statements(statements, folder):
    """Compile a kernel for each statement: the compiler's exit status and what it
    says."""
    kernels = [
        KERNEL.format(number=number, statement=statement)
        for number, statement in enumerate(statements)
    ]
    text = "\n".join(
        [
            constant_line("huber") + PRELUDE,
            sources("common", "activation", "loss", "optimizer"),
            *kernels,
        ]
    )
    return compiled(text, folder, "-DREAL=float", "-arch=sm_90", "-ptx")


def formulas(activations, from_inputs, losses, rules):
    """Statements that use each formula of each name; from_inputs: activations with
    their derivative taken from z."""
    yield from (
        f"v[0] = activate<{name}>(v[1])" for name in (*activations, *from_inputs)
    )
    yield from (f"v[0] = derivative<{name}>(v[1])" for name in activations)
    yield from (f"v[0] = derivative_from_input<{name}>(v[1])" for name in from_inputs)
    yield from (
        f"v[0] = {f}<{name}>(v[1])"
        for f in ("loss_value", "loss_derivative")
        for name in losses
    )
    yield from (
        f"v[0] = stepped<{name}>(v[1], v[2], v + 3, v + 4, v[5], *u)" for name in rules
    )


def test_every_formula_of_the_tables_compiles_and_a_name_without_one_does_not(tmp_path):
    """As one would have that a table of nn_aux gained and the .cu files did not."""
    kinds = {
        name: activation.from_input
        for name, activation in ACTIVATIONS.items()
        if name not in ("softmax", "steps")
    }
    output_kinds = [name.upper() for name in kinds if not kinds[name]]
    input_kinds = [name.upper() for name in kinds if kinds[name]]
    # these are computed a row at a time
    losses = [name.upper() for name in ("mse", "mae", "huber", "quantile")]
    from_input = [
        name.upper() for name in LOSSES if name.upper() not in (*losses, "CE")
    ]
    statements = [
        *formulas(output_kinds, input_kinds, losses, MOMENTS),
        *(f"v[0] = loss_from_input<{name}>(v[1], v[2], v + 3)" for name in from_input),
    ]
    code, output = compile_statements(statements, tmp_path)
    assert code == 0, output
    statements = formulas(["99"], ["99"], ["99"], ["99"])
    code, output = compile_statements(statements, tmp_path)
    assert code != 0
    for function in (
        "activate",
        "derivative",
        "derivative_from_input",
        "loss_value",
        "loss_derivative",
        "stepped",
    ):
        assert f"{function}() has no formula for this" in output


@pytest.mark.parametrize(
    ("dtype", "arch", "how"),
    [
        pytest.param("float32", "sm_90", ["-ptx"], marks=pytest.mark.long),
        pytest.param(
            "float32", "sm_90", ["-cubin", "-Xptxas", "-O1"], marks=pytest.mark.long
        ),
        pytest.param(
            "float64", "sm_80", ["-cubin", "-Xptxas", "-O1"], marks=pytest.mark.long
        ),
    ],
)
def test_every_kernel_compiles(dtype, arch, how, tmp_path, monkeypatch):
    real = {"float32": "float", "float64": "double"}[dtype]
    for number, text in enumerate(texts(dtype, monkeypatch)):
        code, output = compiled(text, tmp_path, f"-DREAL={real}", f"-arch={arch}", *how)
        assert code == 0, f"{number}: {output}"
