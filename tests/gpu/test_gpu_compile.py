"""Where CUDA's compiler is, every kernel is compiled for two generations of GPUs; no GPU is needed."""

import itertools
import shutil
import subprocess

import numpy as np
import pytest

from nn.backends import small
from nn.backends.builder import Builder
from nn.backends.program import Purpose, epoch_source, losses_source, phases_source
from nn.layers import parse

ALL_LAYERS = (
    "3x12x12,pad1,conv8k3p1,conv70k3:softplus,conv8k7same:tanh,conv3k2s3:lrelu,maxpool2s1,avgpool2:tanh,dropout0.3,"
    "flatten:sigmoid,300,35,2,10"
)
LARGE = "3x40x40,conv32k3,conv64k3,maxpool2,maxpool3s2,600,5"  # convolutions as products
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
            kind, 100, labels=True, bytes=True, dropout=True, optimizer=optimizer, distribute=distribute
        )
        yield Builder(layers, "ce", itemsize, PROCESSORS).build(purpose)


def texts(dtype, monkeypatch):
    """The sources of all kinds of kernels."""
    monkeypatch.setattr(small, "processors", lambda: PROCESSORS)
    for index, program in enumerate(programs(np.dtype(dtype).itemsize)):
        phases = index % 2 or program.purpose.distribute
        yield phases_source(program) if phases else epoch_source(program)
    for rows, optimizer in ((10, "ADAM"), (1000, "SGD")):
        purpose = Purpose("train", rows, optimizer=optimizer)
        yield small.Plan(parse("30,60,10,3", "relu", "softmax"), "ce", purpose, np.dtype(dtype)).source()
    for distribute in ("", "mirrored"):
        yield losses_source(Purpose("train", 100, distribute=distribute))


@pytest.mark.parametrize(("dtype", "arch"), [("float32", "sm_90"), ("float64", "sm_80")])
def test_every_kernel_compiles(dtype, arch, tmp_path, monkeypatch):
    nvcc = shutil.which("nvcc")
    if not nvcc:
        pytest.skip("no nvcc: CUDA's compiler is not installed")
    real = {"float32": "float", "float64": "double"}[dtype]
    for number, text in zip(itertools.count(), texts(dtype, monkeypatch), strict=False):
        path = tmp_path / f"{number}.cu"
        path.write_text(text)
        command = [nvcc, "-std=c++17", f"-DREAL={real}", f"-arch={arch}", "-cubin", "-Xptxas", "-O1", "-o", "/dev/null"]
        done = subprocess.run([*command, str(path)], capture_output=True, text=True)
        assert done.returncode == 0, f"{number}: {done.stderr}"
