"""GPUs that there are not: the part of CuPy that nn.backends.cuda uses, on NumPy arrays
and kernels compiled as C++.

Products and sums are rounded one by one (no fused multiply-add), so that kernels that
add up in the same order have the same bits, whatever a compiler makes of them.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

from nn.backends.cuda import device, runner
from nn.backends.cuda.program import PRELUDE

HEADER = Path(__file__).with_name("emulated_gpu.h")
FIBRES = HEADER.with_suffix(".cpp")
FLAGS = ["-fPIC", "-O1", "-w", "-ffp-contract=off"]
H200 = {  # but for its 132 processors, whose threads would take minutes here
    "MultiProcessorCount": 8,
    "MaxSharedMemoryPerBlockOptin": 227 << 10,
    "MaxSharedMemoryPerMultiprocessor": 228 << 10,
}
LAUNCH = """
extern "C" int launch_NAME(const unsigned *grid, unsigned threads, size_t shared, int together, unsigned seed, void **a)
{
    return launch(NAME, grid, threads, shared, together, seed, a);
}
"""
_seeds = itertools.count()
_one_at_a_time = threading.Lock()  # kernels share what stands for the GPU
_current = threading.local()  # stack of the GPUs that a thread has entered


def _device() -> int:
    """Return the number of a thread's GPU."""
    stack = getattr(_current, "stack", [])
    if stack:
        return stack[-1]
    return 0


class Array(np.ndarray):
    """An array of a GPU's memory."""

    def __array_finalize__(self, source):
        if isinstance(source, Array):
            self.gpu = source.gpu
        else:
            self.gpu = _device()

    @property
    def data(self):
        return _Memory(self.ctypes.data)

    @property
    def flags(self):
        return SimpleNamespace(c_contiguous=super().flags.c_contiguous)

    def get(self):
        return np.array(self)

    def set(self, values, stream=None):
        np.asarray(self)[...] = values


class _Memory:
    """A MemoryPointer: what it starts is done at once, or by a graph."""

    def __init__(self, address: int):
        self.ptr = address

    def memset_async(self, value: int, count: int):
        start(ctypes.memset, self.ptr, value, count)


def start(call, *arguments) -> None:
    """Do what was started, or keep it for the graph that is captured."""
    if (steps := getattr(_current, "captured", None)) is None:
        call(*arguments)
    else:
        steps.append(functools.partial(call, *arguments))


class _Event:
    def __init__(self, **options):
        pass

    def record(self, stream):
        self.at = time.perf_counter()


class _Graph:
    """What was started while a stream captured."""

    def __init__(self, steps: list):
        self._steps = steps

    def launch(self):
        for step in self._steps:
            step()


def _empty(shape, dtype=np.float64):
    array = np.empty(shape, dtype).view(Array)
    array.view(np.uint8)[...] = 0xFF  # NaN: nobody may count on zeros
    return array


@functools.cache
def _headers(options: tuple[str, ...]) -> tempfile.TemporaryDirectory:
    """Return a folder with the header, compiled: that takes as long as a kernel."""
    folder = tempfile.TemporaryDirectory(prefix="emulated_gpu")
    shutil.copy(HEADER, folder.name)
    subprocess.run(
        ["g++", *FLAGS, *options, "-x", "c++-header", HEADER.name],
        check=True,
        cwd=folder.name,
    )
    return folder


@functools.cache
def _fibres() -> tempfile.TemporaryDirectory:
    """Return a folder with what runs the threads of kernels, compiled."""
    folder = tempfile.TemporaryDirectory(prefix="emulated_gpu")
    command = ["g++", *FLAGS, "-c", str(FIBRES)]
    subprocess.run(command, check=True, cwd=folder.name)
    return folder


@functools.cache
def _library(code: str, options: tuple[str, ...]):
    """Return a library with a function launch_NAME for each kernel."""
    names = re.findall(
        r'extern "C" __global__ void(?: __launch_bounds__\([^)]*\))?\s+(\w+)\(', code
    )
    calls = "\n".join(LAUNCH.replace("NAME", name) for name in names)
    source = Path(_headers(options).name, f"{_library.cache_info().misses}.cpp")
    text = "\n".join([f'#include "{HEADER.name}"', code.replace(PRELUDE, ""), calls])
    source.write_text(text)
    library = source.with_suffix(".so")
    fibres = Path(_fibres().name, FIBRES.with_suffix(".o").name)
    # the C library has a function `advance` too
    command = [
        "g++",
        "-shared",
        "-Wl,-Bsymbolic",
        *FLAGS,
        *options,
        "-o",
        library,
        source,
        fibres,
    ]
    subprocess.run(list(map(str, command)), check=True)
    return ctypes.CDLL(str(library))


class Module:
    """A RawModule."""

    def __init__(
        self, code: str, options: tuple[str, ...], enable_cooperative_groups: bool
    ):
        with _one_at_a_time:
            self._library = _library(code, options)
        self._together = enable_cooperative_groups

    def compile(self):
        """Compile it, which has been done."""

    def get_function(self, name: str):
        return Kernel(getattr(self._library, f"launch_{name}"), self._together)


class Kernel:
    """A kernel: kernel(grid, block, arguments, shared_mem=bytes)."""

    max_dynamic_shared_size_bytes = 48 << 10

    def __init__(self, launch, together: bool):
        self._launch = launch
        self._together = together
        self._device = _device()

    def __call__(self, grid, block, arguments, shared_mem=0):
        self.kernel(grid, block, arguments, shared_mem, self._together)

    def kernel(
        self, grid, block, arguments, shared_mem=0, enable_cooperative_groups=False
    ):
        """Launch it as a Function, which may be launched otherwise than its module
        says."""
        assert shared_mem <= max(self.max_dynamic_shared_size_bytes, 48 << 10)
        assert {self._device, *(a.gpu for a in arguments if isinstance(a, Array))} == {
            _device()
        }
        values = [
            ctypes.c_int64(a.ctypes.data if isinstance(a, Array) else int(a))
            for a in arguments
        ]
        grid = (ctypes.c_uint * 2)(*grid, *[1] * (2 - len(grid)))
        start(self._run, grid, block[0], values, shared_mem, enable_cooperative_groups)

    def _run(self, grid, threads: int, values: list, shared_mem: int, together: bool):
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.addressof(value) for value in values)
        )
        seed = ctypes.c_uint(next(_seeds))
        with _one_at_a_time:
            stuck = self._launch(
                grid, threads, ctypes.c_size_t(shared_mem), together, seed, pointers
            )
        assert not stuck, "threads wait for each other at different barriers"


class _Device:
    attributes = H200
    mem_info = (1 << 34, 1 << 34)

    def __init__(self, number=None):
        if number is None:
            self._number = _device()
        else:
            self._number = number

    def __enter__(self):
        _current.stack = [*getattr(_current, "stack", []), self._number]

    def __exit__(self, *_):
        _current.stack.pop()


class _Stream(nullcontext):
    ptr = 0

    def __init__(self, **options):
        super().__init__()

    def synchronize(self, *_):
        """Do nothing: everything is done at once."""

    wait_event = synchronize

    def begin_capture(self):
        _current.captured = []

    def end_capture(self):
        steps = _current.captured
        _current.captured = None
        return _Graph(steps)


def module() -> ModuleType:
    """Return what stands for CuPy."""
    cupy = ModuleType("cupy")
    errors = [type(name, (Exception,), {}) for name in ("A", "B", "C")]
    cupy.empty = cupy.ndarray = _empty
    cupy.copyto = np.copyto
    cupy.RawModule = Module
    cupy.zeros = lambda shape, dtype=np.float64: np.zeros(shape, dtype).view(Array)
    cupy.asarray = lambda array: np.array(array).view(Array)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0)
    properties = {
        "getDeviceCount": lambda: 1,
        "getDeviceProperties": lambda number: {"name": b"emulated"},
    }
    memory = SimpleNamespace(OutOfMemoryError=errors[0])
    driver = SimpleNamespace(CUDADriverError=errors[1])
    runtime = SimpleNamespace(CUDARuntimeError=errors[2], **properties)
    cupy.cuda = SimpleNamespace(
        Device=_Device,
        Event=_Event,
        get_elapsed_time=lambda begin, end: 1e3 * (end.at - begin.at),
        Stream=_Stream,
        get_current_stream=_Stream,
        memory=memory,
        driver=driver,
        runtime=runtime,
    )
    return cupy


def can_emulate() -> bool:
    """Return whether there is a C++ compiler for it."""
    return bool(shutil.which("g++")) and sys.platform == "linux"


@contextmanager
def emulated_gpu(monkeypatch):
    """Let nn.backends.cuda find this GPU; yields what stands for CuPy."""
    cupy = module()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(
        sys.modules, "cupyx", SimpleNamespace(empty_pinned=lambda *of: np.empty(*of))
    )
    monkeypatch.setattr(device, "missing", lambda *arguments: None)
    device.cupy.cache_clear(), runner.module_of.cache_clear()
    try:
        yield cupy
    finally:
        device.cupy.cache_clear(), runner.module_of.cache_clear()
