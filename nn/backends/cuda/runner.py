"""The GPU itself: finding it and its libraries, memory, and running programs (program.py) on it.

CuPy is imported here and nowhere else, and not before somebody wants a GPU.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..cluster import ALONE, Team
from ..utils import NnError, UsageError
from .program import THREADS, Program, blocks_of, epoch_source, losses_source, phases_source

CUPY = {13: "cuda13", 12: "cuda12"}  # major version of CUDA -> extra of this package
OLDEST = 12

CONTROL = np.dtype(  # struct control in common.cu
    [
        (name, np.int64)
        for name in (
            "parameters", "gradients", "moment1", "moment2", "rows", "capacity", "x", "y", "order", "count", "batch",
            "row_loss", "updates", "parts", "out", "input_gradient", "arrivals", "seed", "step", "rank",
            "size", "row", "index",
        )
    ]
)  # fmt: skip


# ---------------------------------------------------------------- finding a GPU


@functools.cache
def _driver():
    """(ffi, lib) of the NVIDIA driver. OSError where there is none."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(DRIVER)
    return ffi, ffi.dlopen("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


DRIVER = """
int cuDriverGetVersion(int *version);
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags);
int cuGraphUpload(void *executable, void *stream);
int cuGraphLaunch(void *executable, void *stream);
int cuGraphDestroy(void *graph);
int cuGraphExecDestroy(void *executable);
"""


@functools.cache
def _driver_version() -> int | None:
    """The CUDA version that the driver can run, e.g. 13000; None without a driver."""
    try:
        ffi, library = _driver()
    except OSError:
        return None
    version = ffi.new("int *")
    return version[0] if library.cuDriverGetVersion(version) == 0 else None


def missing(instead: str = "use --backend omp") -> str | None:
    """Why no GPU can be used, in words that say what to do; None if one can be tried. Does not import CuPy.

    instead: what to do without one.
    """
    version = _driver_version()
    if version is None:
        return f"there is no NVIDIA driver; install one, or {instead}"
    if version < OLDEST * 1000:
        return (
            f"the NVIDIA driver can run CUDA {version // 1000}.{version % 1000 // 10}, {OLDEST}.0 is the oldest that "
            f"will do; update the driver, or {instead}"
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


def device_count() -> int:
    """GPUs that this process may use."""
    return cupy().cuda.runtime.getDeviceCount()


def check_device(number: int) -> None:
    """Raise UsageError if there is no GPU of that number."""
    count = device_count()
    if not 0 <= number < count:
        there = f"this machine has 0 to {count - 1}"
        raise UsageError(f"GPU {number}: there is no such GPU; {there}; change --gpus, or see CUDA_VISIBLE_DEVICES")


def place_of(number: int) -> str:
    """Where in its machine that GPU is: no other has the same. Raises UsageError if there is none of that number."""
    check_device(number)
    return cupy().cuda.runtime.deviceGetPCIBusId(number)


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
        self.team = ALONE  # whose members share each batch
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
        control["rank"], control["size"] = self.team.rank, self.team.size
        for name, value in members.items():
            control[name] = value
        self.control.set(np.frombuffer(control.tobytes(), np.uint8), stream=cp.cuda.get_current_stream())
        self.batch, self.count = members["batch"], members["count"]

    def run(self, first: int, batches: int) -> None:
        """Batches first .. first + batches - 1 of those that `set` described, one after the other."""
        raise NotImplementedError

    def batch_losses(self, first: int, batches: int) -> np.ndarray:
        """The sums of so many batches' row losses, of this member's rows; waits for them."""
        sums = cupy().empty(batches)
        module = compiled(losses_source(self.program.purpose), "float64", False)
        arguments = (sums, self.control, np.int64(first))
        module.get_function("batch_losses")((batches,), (THREADS,), arguments, shared_mem=THREADS * 8)
        return sums.get()


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
    """A kernel a phase, and libraries: for programs with large products, and for members of a group. Captured once as
    a graph for each number of rows that a batch may have, and replayed.

    communicator: of a member, see nccl.py. What members do together happens on a second stream, beside what is computed
    meanwhile; it begins with `send` and is waited for by `meet`.
    """

    cooperative = False

    def __init__(self, program: Program, dtype: np.dtype, parameters, team: Team = ALONE, communicator=None):
        super().__init__(program, dtype, parameters, phases_source(program))
        self.kernels = [
            self.module.get_function(f"phase{index}") if blocks_of(phase) else None
            for index, phase in enumerate(program.phases)
        ]
        self.advance = self.module.get_function("advance")
        self.team, self.communicator = team, communicator
        self._connected = False
        if communicator is not None:
            cuda = cupy().cuda
            self.second = cuda.Stream(non_blocking=True, priority=FIRST)
            self.ready, self.sent = (cuda.Event(disable_timing=True) for _ in range(2))

    def run(self, first: int, batches: int) -> None:
        """See Runner."""
        for index in range(first, first + batches):
            rows = min(self.batch, self.count - index * self.batch)
            if rows not in self.graphs:
                self._launch(rows)  # the first time as it is: libraries set themselves up, and some cannot be captured
                self.graphs[rows] = self._capture(rows)
            else:
                self.graphs[rows].launch()

    def prepare(self) -> None:
        """Of a member, before the first of the batches that `set` described: whatever may take memory or load code.

        CUDA lets that wait for all GPUs of the process, and for ever where one of them waits for what another member
        has yet to send. So all of it is done before any member sends, and none of it before all have received.
        """
        for rows in sorted({min(self.batch, self.count), self.count % self.batch or self.batch}):
            if rows not in self.graphs:
                self._try(rows, lambda name: name not in TOGETHER)
                if not self._connected:
                    self.team.gather(None)
                    self._try(rows, lambda name: name == "communication")
                    self._connected = True
                self.graphs[rows] = self._capture(rows)

    def _try(self, rows: int, wanted: Callable[[str], bool]) -> None:
        """The wanted steps of a batch, which will be taken again: only what they leave in libraries is of use."""
        own_rows = self._own(rows)
        for index, phase in enumerate(self.program.phases):
            if wanted(phase[0].step[0]):
                self._launch_phase(index, own_rows)
        cupy().cuda.get_current_stream().synchronize()

    def _capture(self, rows: int):
        stream = cupy().cuda.get_current_stream()
        with _nothing_collected:
            stream.begin_capture()
            self._launch(rows)
            return stream.end_capture() if self.communicator is None else Graph(stream)

    def _own(self, rows: int) -> int:
        """A member's share of a batch of that many rows."""
        own = self.team.share(rows)
        return own.stop - own.start

    def _launch(self, rows: int) -> None:
        """One batch of that many rows, of which a member takes its share."""
        own_rows = self._own(rows)
        if not own_rows:
            self.gradients.data.memset_async(0, self.gradients.nbytes)
        for index in range(len(self.program.phases)):
            self._launch_phase(index, own_rows)
        self.advance((1,), (1,), (self.control,))

    def _launch_phase(self, index: int, rows: int) -> None:
        phase, kernel = self.program.phases[index], self.kernels[index]
        if not rows and phase[0].step[0] not in TOGETHER:
            return
        for op in phase:
            if op.host:
                op.host(self, rows)
        if kernel:
            blocks = max(1, min(blocks_of(phase), MOST_BLOCKS))
            kernel((blocks,), (THREADS,), (self.control,), shared_mem=self.program.shared_bytes)

    def send(self, how: str, address: int, values: int) -> None:
        """Communicate values at an address, once all that was started up to now is done."""
        self.ready.record(cupy().cuda.get_current_stream())
        self.second.wait_event(self.ready)
        self._communicate(how, address, values)

    def _communicate(self, how: str, address: int, values: int) -> None:
        getattr(self.communicator, how)(address, values, self.dtype, self.second)

    def meet(self) -> None:
        """What is started from now on waits for all that was sent."""
        self.sent.record(self.second)
        cupy().cuda.get_current_stream().wait_event(self.sent)


TOGETHER = ("communication", "update")  # the steps that a member takes part in which has no row of a batch
FIRST = -1  # priority of a stream whose kernels are started before others that wait
MOST_BLOCKS = 1 << 16


class _NothingCollected:
    """A context in which Python frees no cycles: an engine among them would close its libraries, and that ends the
    capture under way. The members of a group capture side by side: the last one lets collections go on."""

    def __init__(self):
        self._lock, self._inside, self._collecting = threading.Lock(), 0, True

    def __enter__(self):
        with self._lock:
            if not self._inside:
                self._collecting = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if not self._inside and self._collecting:
                gc.enable()


_nothing_collected = _NothingCollected()


class Graph:
    """What a stream has captured. As CuPy's, but what other streams captured keeps their priorities: messages are sent
    while a product fills the GPU, not after it."""

    def __init__(self, stream):
        self.ffi, self.driver = _driver()
        graph = self.ffi.cast("void *", cupy().cuda.runtime.streamEndCapture(stream.ptr))
        pointer = self.ffi.new("void **")
        try:
            self._check(self.driver.cuGraphInstantiateWithFlags(pointer, graph, NODE_PRIORITIES))
        finally:
            self.driver.cuGraphDestroy(graph)
        self._executable = self.ffi.gc(pointer[0], self.driver.cuGraphExecDestroy)
        self._check(self.driver.cuGraphUpload(self._executable, self._stream()))
        stream.synchronize()

    def launch(self) -> None:
        """Run it on the current stream."""
        self._check(self.driver.cuGraphLaunch(self._executable, self._stream()))

    def _stream(self):
        return self.ffi.cast("void *", cupy().cuda.get_current_stream().ptr)

    def _check(self, code: int) -> None:
        if code:
            raise cupy().cuda.driver.CUDADriverError(code)


NODE_PRIORITIES = 8  # CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY


class TimedPhases(Phases):
    """The same without graphs, an event after each phase, and on the second stream before and after what is sent."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.room = 0  # batches still to be timed
        self._timing = False  # a batch is under way that counts
        self.began = 0.0  # when the first of them did, on the clock of time.perf_counter
        self._phases: list[list] = []  # an event at the beginning of each batch and after each phase
        self._sent: list[list] = []  # and two for each message

    def run(self, first: int, batches: int) -> None:
        """See Runner."""
        for index in range(first, first + batches):
            if not self._phases:
                cupy().cuda.get_current_stream().synchronize()
                self.began = time.perf_counter()
            self._phases.append([self._event()])
            self._sent.append([])
            self._timing = True
            self._launch(min(self.batch, self.count - index * self.batch))
            self._timing = False
            if len(self._phases) > self.room:
                self._phases.pop()
                self._sent.pop()

    def _capture(self, rows: int) -> None:
        """There are no graphs."""

    def _event(self, stream=None):
        event = cupy().cuda.Event()
        event.record(stream or cupy().cuda.get_current_stream())
        return event

    def _launch_phase(self, index: int, rows: int) -> None:
        super()._launch_phase(index, rows)
        if self._timing:
            self._phases[-1].append(self._event())

    def _communicate(self, how: str, address: int, values: int) -> None:
        before = self._event(self.second)
        super()._communicate(how, address, values)
        if self._timing:
            self._sent[-1].append((before, self._event(self.second)))

    def times(self) -> list[tuple[list[float], list[tuple[float, float]]]]:
        """For each timed batch the seconds since the first one began at its beginning and after each phase, and those
        at the beginning and end of each message."""

        def at(event) -> float:
            return cupy().cuda.get_elapsed_time(self._phases[0][0], event) / 1e3

        return [
            ([at(event) for event in phases], [(at(begin), at(end)) for begin, end in sent])
            for phases, sent in zip(self._phases, self._sent, strict=True)
        ]


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
