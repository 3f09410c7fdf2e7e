"""The GPU itself: finding it and its libraries, memory, and running programs (program.py) on it.

CuPy is imported here and nowhere else, and not before somebody wants a GPU.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..utils import NnError, UsageError
from .program import PRELUDE, THREADS, Program, blocks_of, epoch_source, phases_source, sources

CUPY = {13: "cuda13", 12: "cuda12"}  # major version of CUDA -> extra of this package
OLDEST = 12

CONTROL = np.dtype(  # struct control in common.cu
    [
        (name, np.int64)
        for name in (
            "parameters", "gradients", "moment1", "moment2", "rows", "capacity", "x", "y", "order", "count", "batch",
            "row_loss", "updates", "parts", "out", "input_gradient", "arrivals", "seed", "step", "row", "index",
        )
    ]
)  # fmt: skip


# ---------------------------------------------------------------- finding a GPU


@functools.cache
def _driver_version() -> int | None:
    """The CUDA version that the driver can run, e.g. 13000; None without a driver."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef("int cuDriverGetVersion(int *version);")
    try:
        library = ffi.dlopen("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    version = ffi.new("int *")
    return version[0] if library.cuDriverGetVersion(version) == 0 else None


def missing() -> str | None:
    """Why no GPU can be used, in words that say what to do; None if one can be tried. Does not import CuPy."""
    version = _driver_version()
    if version is None:
        return "there is no NVIDIA driver; install one, or use --backend omp"
    if version < OLDEST * 1000:
        return (
            f"the NVIDIA driver can run CUDA {version // 1000}.{version % 1000 // 10}, {OLDEST}.0 is the oldest that "
            "will do; update the driver, or use --backend omp"
        )
    if importlib.util.find_spec("cupy") is None:
        return f'CuPy is not installed; pip install "nn-trainer[{_extra(version)}]"'
    return None


def _extra(version: int) -> str:
    return CUPY[min(max(version // 1000, min(CUPY)), max(CUPY))]


@functools.cache
def cupy():
    """The CuPy module, with a GPU behind it. UsageError, which says what to do, where there is none."""
    if reason := missing():
        raise UsageError(f"--backend cuda: {reason}")
    try:
        import cupy as module
    except ImportError as error:
        reinstall = f'pip install --force-reinstall "nn-trainer[{_extra(_driver_version())}]"'
        raise UsageError(f"--backend cuda: CuPy cannot be loaded ({_line(error)}); {reinstall}") from error
    try:
        count = module.cuda.runtime.getDeviceCount()
    except module.cuda.runtime.CUDARuntimeError as error:
        raise UsageError(
            f"--backend cuda: no GPU can be used ({_line(error)}); check nvidia-smi and the driver, "
            f'pip install "nn-trainer[{_extra(_driver_version())}]", or use --backend omp'
        ) from error
    if not count:
        raise UsageError("--backend cuda: there is no GPU; check nvidia-smi, or use --backend omp")
    return module


def _line(error: BaseException) -> str:
    """The first line of an error's text that says something, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" =\t")]
    return lines[0] if lines else type(error).__name__


def check_device(number: int) -> None:
    """Raise UsageError if there is no GPU of that number."""
    count = cupy().cuda.runtime.getDeviceCount()
    if not 0 <= number < count:
        raise UsageError(f"GPU {number}: there is no such GPU; this machine has 0 to {count - 1}")


def library_path(name: str, package: str) -> list[str]:
    """Where a CUDA library may be, the likeliest first: wheels of NVIDIA, the toolkit, the system's own search."""
    found = []
    for root in map(Path, sys.path):
        whole_toolkits = sorted((root / "nvidia").glob("cu[0-9]*/lib"), reverse=True)
        for folder in (root / "nvidia" / package / "lib", *whole_toolkits):
            found += sorted(map(str, folder.glob(f"{name}.so*")), reverse=True)
    for toolkit in filter(None, (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), "/usr/local/cuda")):
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib"):
            found += sorted(map(str, Path(toolkit, folder).glob(f"{name}.so*")), reverse=True)
    return found


# ---------------------------------------------------------------- errors


@contextmanager
def told(what: str, remedy: str):
    """Turn CuPy's errors inside into NnError: memory runs out while making `what`; the remedy is what to do then."""
    module = cupy()
    try:
        yield
    except module.cuda.memory.OutOfMemoryError as error:
        raise NnError(f"the GPU's memory is too small for {what}; {remedy}") from error
    except (module.cuda.runtime.CUDARuntimeError, module.cuda.driver.CUDADriverError) as error:
        if "memory" in str(error).lower() and "illegal" not in str(error).lower():
            raise NnError(f"the GPU's memory is too small for {what}; {remedy}") from error
        raise NnError(f"the GPU failed at {what} ({_line(error)}); check nvidia-smi, or use --backend omp") from error


# ---------------------------------------------------------------- programs on the GPU


class Runner:
    """A program ready to run: its memory, its kernels. Everything happens on the stream that is current."""

    cooperative = True  # all blocks of a launch are resident, so that they can meet

    def __init__(self, program: Program, dtype: np.dtype, parameters, code: str):
        self.program, self.dtype, self.parameters = program, dtype, parameters
        cp, rows = cupy(), program.purpose.rows
        self.rows = cp.zeros(max(1, rows * program.row_values), dtype)
        self.gradients = cp.zeros(max(1, program.gradient_values), dtype)
        self.parts = cp.zeros(max(1, program.part_values), dtype)
        self.control = cp.empty(CONTROL.itemsize, np.uint8)
        self.arrivals = cp.zeros(1, np.uint32)
        self.input_gradient = None
        self.module = compiled(code, dtype.name, self.cooperative)
        self.graphs: dict[int, object] = {}

    def bytes(self) -> int:
        """Memory it holds."""
        return self.rows.nbytes + self.gradients.nbytes + self.parts.nbytes + self.control.nbytes

    def address(self, buffer) -> int:
        """Of a Buffer, for libraries."""
        at = buffer.at * (self.program.purpose.rows if buffer.of == "rows" else 1)
        return getattr(self, buffer.of).data.ptr + at * self.dtype.itemsize

    def parameter(self, at: int) -> int:
        """Address of value `at` of the parameter vector."""
        return self.parameters.data.ptr + at * self.dtype.itemsize

    def set(self, **members: int) -> None:
        """Fill in the control structure; members that are not named are 0."""
        cp = cupy()
        control = np.zeros((), CONTROL)
        own = {
            "parameters": self.parameters, "gradients": self.gradients, "rows": self.rows, "parts": self.parts,
            "arrivals": self.arrivals,
        }  # fmt: skip
        for name, array in own.items():
            control[name] = array.data.ptr
        control["capacity"] = self.program.purpose.rows
        for name, value in members.items():
            control[name] = value
        self.control.set(np.frombuffer(control.tobytes(), np.uint8), stream=cp.cuda.get_current_stream())
        self.batch, self.count = members["batch"], members["count"]

    def run(self, first: int, batches: int) -> None:
        """Batches first .. first + batches - 1 of those that `set` described, one after the other."""
        raise NotImplementedError


class WholeEpochs(Runner):
    """Batches in one cooperative launch: for programs whose phases are about as short as starting a kernel."""

    def __init__(self, program: Program, dtype: np.dtype, parameters):
        super().__init__(program, dtype, parameters, epoch_source(program))
        self.kernel = self.module.get_function("epoch")
        # one block a multiprocessor: of two, some phases would put both on one and leave others idle
        self.blocks = max(1, min(max(map(blocks_of, program.phases)), processors()))

    def run(self, first: int, batches: int) -> None:
        """See Runner."""
        self.arrivals.data.memset_async(0, 4)
        arguments = (self.control, np.int64(first * self.batch), np.int64(first), np.int64(batches))
        self.kernel((self.blocks,), (THREADS,), arguments, shared_mem=self.program.shared_bytes)


class Phases(Runner):
    """A kernel a phase, and libraries: for programs with large products. Captured once as a graph for each number of
    rows that a batch may have, and replayed."""

    cooperative = False

    def __init__(self, program: Program, dtype: np.dtype, parameters):
        super().__init__(program, dtype, parameters, phases_source(program))
        self.kernels = [
            self.module.get_function(f"phase{index}") if blocks_of(phase) else None
            for index, phase in enumerate(program.phases)
        ]
        self.advance = self.module.get_function("advance")

    def run(self, first: int, batches: int) -> None:
        """See Runner."""
        for index in range(first, first + batches):
            rows = min(self.batch, self.count - index * self.batch)
            if rows not in self.graphs:
                self._launch(rows)  # the first time as it is: libraries set themselves up, and some cannot be captured
                self.graphs[rows] = self._capture(rows)
            else:
                self.graphs[rows].launch()

    def _capture(self, rows: int):
        stream = cupy().cuda.get_current_stream()
        stream.begin_capture()
        self._launch(rows)
        return stream.end_capture()

    def _launch(self, rows: int) -> None:
        """One batch of that many rows."""
        for index in range(len(self.program.phases)):
            self._launch_phase(index, rows)
        self.advance((1,), (1,), (self.control,))

    def _launch_phase(self, index: int, rows: int) -> None:
        phase, kernel = self.program.phases[index], self.kernels[index]
        for op in phase:
            if op.host:
                op.host(self, rows)
        if kernel:
            blocks = max(1, min(blocks_of(phase), MOST_BLOCKS))
            kernel((blocks,), (THREADS,), (self.control,), shared_mem=self.program.shared_bytes)


MOST_BLOCKS = 1 << 16


class TimedPhases(Phases):
    """The same without graphs, an event after each phase; `times` has a list of seconds a batch."""

    def __init__(self, program: Program, dtype: np.dtype, parameters):
        super().__init__(program, dtype, parameters)
        self.events: list[list] = []
        self.room = 0  # batches still to be timed

    def run(self, first: int, batches: int) -> None:
        """See Runner."""
        for index in range(first, first + batches):
            self.events.append([self._event()])
            self._launch(min(self.batch, self.count - index * self.batch))
            if len(self.events) > self.room:
                self.events.pop()

    def _event(self):
        event = cupy().cuda.Event()
        event.record(cupy().cuda.get_current_stream())
        return event

    def _launch_phase(self, index: int, rows: int) -> None:
        super()._launch_phase(index, rows)
        if len(self.events) <= self.room:
            self.events[-1].append(self._event())

    def times(self) -> list[list[float]]:
        """Seconds since the first timed batch began, at the beginning and after each phase of each batch."""
        elapsed = cupy().cuda.get_elapsed_time
        return [[elapsed(self.events[0][0], event) / 1e3 for event in batch] for batch in self.events]


def batch_losses(row_loss, first: int, batches: int, batch: int, count: int) -> np.ndarray:
    """The sums of so many batches' row losses (losses.cu); waits for them."""
    sums = cupy().empty(batches)
    kernel = compiled(PRELUDE + sources("common", "losses"), "float64", False).get_function("batch_losses")
    arguments = (sums, row_loss, *map(np.int64, (batch, count, first)))
    kernel((batches,), (THREADS,), arguments, shared_mem=THREADS * 8)
    return sums.get()


def processors() -> int:
    """Multiprocessors of the current GPU."""
    return cupy().cuda.Device().attributes["MultiProcessorCount"]


@functools.cache
def compiled(code: str, dtype: str, cooperative: bool):
    """A module of kernels, compiled by NVRTC; CuPy keeps it on disk for the next run."""
    real = {"float32": "float", "float64": "double"}[dtype]
    return cupy().RawModule(
        code=code, options=("-std=c++17", f"-DREAL={real}"), enable_cooperative_groups=cooperative
    )
