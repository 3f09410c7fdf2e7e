"""Running programs (program.py) on the GPU: their memory, their kernels, graphs of
them."""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from ...cluster import ALONE, RankGroup
from ..engine import TimedStep
from .abi import CONTROL_TYPE, CUDA_TYPES, THREADS
from .data import Segment
from .device import cupy, driver, processors
from .program import (
    ONE_BLOCK_WORK,
    Buffer,
    Program,
    blocks_of,
    epoch_source,
    losses_source,
    phases_source,
)


class Runner:
    """A program ready to run: its memory, its kernels. Everything happens on the stream
    that is current."""

    about = ""  # a line about the runner
    cooperative = True  # all blocks of a launch are resident, so that they can meet

    def __init__(self, program: Program, dtype: np.dtype, parameters, code: str):
        self.program = program
        self.dtype = dtype
        self.parameters = parameters
        self.rank_group = ALONE  # whose members share each batch
        cp = cupy()
        rows = program.purpose.rows
        self.rows = cp.zeros(max(1, rows * program.row_values), dtype)
        self.gradients = cp.zeros(max(1, program.gradient_values), dtype)
        self.partial_sums = cp.zeros(max(1, program.partial_sum_values), dtype)
        self.control = cp.empty(CONTROL_TYPE.itemsize, np.uint8)
        self.arrivals = cp.zeros(1, np.uint32)
        self.input_gradient = None
        self.module = compiled(code, dtype.name, self.cooperative)
        self.graphs: dict[int, object] = {}

    def bytes(self) -> int:
        arrays = (self.rows, self.gradients, self.partial_sums, self.control)
        return sum(array.nbytes for array in arrays)

    def address(self, buffer: Buffer) -> int:
        """Return a buffer's address, for libraries."""
        at = buffer.at
        if buffer.array == "rows":  # of all rows of a batch
            at *= self.program.purpose.rows
        return getattr(self, buffer.array).data.ptr + at * self.dtype.itemsize

    def set(self, segment: Segment, batch: int, **members: int) -> None:
        """Fill in the control structure for batches of a segment; members that are not
        named are 0."""
        self.batch = batch
        self.count = segment.rows
        control = np.zeros((), CONTROL_TYPE)
        for name in ("parameters", "gradients", "rows", "partial_sums", "arrivals"):
            control[name] = getattr(self, name).data.ptr
        for name in ("x", "y", "weights", "order"):
            control[name] = getattr(segment, name)
        control["capacity"] = self.program.purpose.rows
        control["batch"] = batch
        control["count"] = segment.rows
        control["rank"] = self.rank_group.rank
        control["size"] = self.rank_group.size
        for name, value in members.items():
            control[name] = value
        self.control.set(
            np.frombuffer(control.tobytes(), np.uint8),
            stream=cupy().cuda.get_current_stream(),
        )

    def run(self, first_batch: int, batches: int) -> None:
        """Run that many batches of those that `set` described, from first_batch on, one
        after the other."""
        raise NotImplementedError

    def start(self, batches: int) -> None:
        """Start all batches of those that `set` described, by what a graph may
        capture."""
        self.run(0, batches)

    def batch_losses(self, first_batch: int, batches: int) -> np.ndarray:
        """Return the sums of that many batches' row losses, of this member's rows;
        waits for them."""
        distribute = self.program.purpose.distribute
        return batch_losses(self.control, 1, first_batch, batches, distribute).get()[0]


def batch_losses(
    control, networks: int, first_batch: int, batches: int, distribute: str = ""
):
    """Return the sums of the batches' row losses on the GPU (networks, batches), each
    network's in `control`."""
    sums = cupy().empty((networks, batches))
    arguments = (control, np.int64(first_batch), np.int64(batches))
    kernel = compiled(losses_source(distribute), "float64", False).get_function(
        "batch_losses"
    )
    # a warp a batch
    kernel((-(-batches * 32 // THREADS), networks), (THREADS,), (sums, *arguments))
    return sums


class WholeEpochs(Runner):
    """Batches in one cooperative launch: for programs whose phases are about as short
    as starting a kernel."""

    about = "runner WholeEpochs: whole epochs in one launch, a barrier of the grid between phases"

    def __init__(
        self, program: Program, dtype: np.dtype, parameters, code: str | None = None
    ):
        super().__init__(program, dtype, parameters, code or epoch_source(program))
        self.kernel = self.module.get_function("epoch")
        # one block a multiprocessor: of two, some phases would put both on one and
        # leave others idle
        self.blocks = max(
            1, min(max(map(blocks_of, program.phases), default=1), processors())
        )
        if program.purpose.kind == "predict" and program.work <= ONE_BLOCK_WORK:
            self.blocks = 1  # which waits for no other

    def run(self, first_batch: int, batches: int) -> None:
        if self.blocks > 1:
            self.arrivals.data.memset_async(0, 4)
        arguments = (self.control, np.int64(first_batch), np.int64(batches))
        self.kernel(
            (self.blocks,), (THREADS,), arguments, shared_mem=self.program.shared_bytes
        )


class Phases(Runner):
    """A kernel a phase, and libraries: for programs with large products, and for
    members of a group. Captured once as a graph for each number of rows that a batch
    may have, and replayed.

    communicator: of a member, see nccl.py. What members do together happens on a second
    stream, beside what is computed meanwhile; it begins with `send` and is waited for
    by `meet`.
    """

    about = "runner Phases: a kernel or library calls a phase, replayed as a graph"
    cooperative = False

    def __init__(
        self,
        program: Program,
        dtype: np.dtype,
        parameters,
        rank_group: RankGroup = ALONE,
        communicator=None,
    ):
        super().__init__(program, dtype, parameters, phases_source(program))
        self.kernels = [
            self.module.get_function(f"phase{index}") if blocks_of(phase) else None
            for index, phase in enumerate(program.phases)
        ]
        self.advance = self.module.get_function("advance")
        # of the batch at hand, which `advance` counts: its row and its index
        self._first_row = self.control.view(np.int64)[-2:]
        self.rank_group = rank_group
        self.communicator = communicator
        self._connected = False
        if communicator is not None:
            cuda = cupy().cuda
            self.second = cuda.Stream(non_blocking=True, priority=FIRST_PRIORITY)
            self.ready = cuda.Event(disable_timing=True)
            self.sent = cuda.Event(disable_timing=True)

    def run(self, first_batch: int, batches: int) -> None:
        for index in range(first_batch, first_batch + batches):
            rows = min(self.batch, self.count - index * self.batch)
            if rows not in self.graphs:
                # the first time as it is: libraries set themselves up, and some cannot
                # be captured
                self._launch(rows)
                self.graphs[rows] = self._capture(rows)
            else:
                self.graphs[rows].launch()

    def start(self, batches: int) -> None:
        self._first_row.data.memset_async(0, self._first_row.nbytes)
        for index in range(batches):
            self._launch(min(self.batch, self.count - index * self.batch))

    def prepare(self) -> None:
        """Take memory and load code, for a member before the first of the batches that
        `set` described.

        CUDA lets that wait for all GPUs of the process, and for ever where one of them
        waits for what another member has yet to send. So all of it is done before any
        member sends, and none of it before all have received.
        """
        for rows in sorted(
            {min(self.batch, self.count), self.count % self.batch or self.batch}
        ):
            if rows not in self.graphs:
                self._rehearse(rows, lambda name: name not in COLLECTIVE)
                if not self._connected:
                    self.rank_group.gather(None)
                    self._rehearse(rows, lambda name: name == "communication")
                    self._connected = True
                self.graphs[rows] = self._capture(rows)

    def _rehearse(self, rows: int, is_rehearsed: Callable[[str], bool]) -> None:
        """Run some steps of a batch for what libraries set up at their first call; the
        results are not used."""
        share = self._share(rows)
        for index, phase in enumerate(self.program.phases):
            if is_rehearsed(phase[0].step[0]):
                self._launch_phase(index, share)
        cupy().cuda.get_current_stream().synchronize()

    def _capture(self, rows: int):
        return captured(lambda: self._launch(rows), self.communicator is not None)

    def _share(self, rows: int) -> int:
        """Return how many rows of a batch of that many are this member's."""
        share = self.rank_group.share(rows)
        return share.stop - share.start

    def _launch(self, rows: int) -> None:
        """Start one batch of that many rows, of which a member takes its share."""
        share = self._share(rows)
        if not share:
            self.gradients.data.memset_async(0, self.gradients.nbytes)
        for index in range(len(self.program.phases)):
            self._launch_phase(index, share)
        self.advance((1,), (1,), (self.control,))

    def _launch_phase(self, index: int, rows: int) -> None:
        phase = self.program.phases[index]
        kernel = self.kernels[index]
        if not rows and phase[0].step[0] not in COLLECTIVE:
            return
        for op in phase:
            if op.host:
                op.host(self, rows)
        if kernel:
            blocks = max(1, min(blocks_of(phase), MOST_BLOCKS))
            kernel(
                (blocks,),
                (THREADS,),
                (self.control,),
                shared_mem=self.program.shared_bytes,
            )

    def send(self, how: str, address: int, values: int) -> None:
        """Communicate values at an address, once all that was started up to now is
        done."""
        self.ready.record(cupy().cuda.get_current_stream())
        self.second.wait_event(self.ready)
        self._communicate(how, address, values)

    def _communicate(self, how: str, address: int, values: int) -> None:
        self.communicator.send(how, address, values, self.dtype, self.second)

    def meet(self) -> None:
        """Let later launches wait for everything sent."""
        self.sent.record(self.second)
        cupy().cuda.get_current_stream().wait_event(self.sent)


# the steps that a member takes part in which has no row of a batch
COLLECTIVE = ("communication", "update")
FIRST_PRIORITY = (
    -1
)  # priority of a stream whose kernels are started before others that wait
MOST_BLOCKS = 1 << 16


_captures: list[bool] = []  # of those under way: whether Python collected cycles before
_captures_lock = threading.Lock()


@contextmanager
def _nothing_collected():
    """Let Python free no cycles: an engine among them would close its libraries, and
    that ends the capture under way. The members of a group capture side by side: the
    last one lets collections go on."""
    with _captures_lock:
        _captures.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _captures_lock:
            if _captures.pop():
                gc.enable()


def captured(launch: Callable[[], None], keeps_priorities: bool = False):
    """Return a graph of what `launch` starts on the current stream, ready to be
    launched there."""
    stream = cupy().cuda.get_current_stream()
    with _nothing_collected():
        stream.begin_capture()
        try:
            launch()
        except BaseException:
            stream.end_capture()  # else the stream does nothing more
            raise
        if keeps_priorities:
            return Graph(stream)
        return stream.end_capture()


class Graph:
    """A graph that a stream has captured. As CuPy's, but launches of other streams keep
    their priorities: messages are sent while a product fills the GPU, not after it."""

    def __init__(self, stream):
        self.ffi, self.driver = driver()
        graph = self.ffi.cast(
            "void *", cupy().cuda.runtime.streamEndCapture(stream.ptr)
        )
        pointer = self.ffi.new("void **")
        try:
            self._check(
                self.driver.cuGraphInstantiateWithFlags(pointer, graph, NODE_PRIORITIES)
            )
        finally:
            self.driver.cuGraphDestroy(graph)
        self._executable = self.ffi.gc(pointer[0], self.driver.cuGraphExecDestroy)
        self._check(self.driver.cuGraphUpload(self._executable, self._stream()))
        stream.synchronize()

    def launch(self) -> None:
        self._check(self.driver.cuGraphLaunch(self._executable, self._stream()))

    def _stream(self):
        return self.ffi.cast("void *", cupy().cuda.get_current_stream().ptr)

    def _check(self, code: int) -> None:
        if code:
            raise cupy().cuda.driver.CUDADriverError(code)


NODE_PRIORITIES = 8  # CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY


class TimedPhases(Phases):
    """The same without graphs, an event after each phase, and on the second stream
    before and after what is sent."""

    about = "runner TimedPhases: each op by itself, timed by events"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.room = 0  # batches still to be timed
        self._timing = False  # a batch is under way that counts
        # when the first of them did, on the clock of time.perf_counter
        self.began = 0.0
        # an event at the beginning of each batch and after each phase
        self._phases: list[list] = []
        self._sent: list[list] = []  # and two for each message
        self._rows: list[int] = []  # of each batch

    def run(self, first_batch: int, batches: int) -> None:
        for index in range(first_batch, first_batch + batches):
            if not self._phases:
                cupy().cuda.get_current_stream().synchronize()
                self.began = time.perf_counter()
            rows = min(self.batch, self.count - index * self.batch)
            self._phases.append([self._event()])
            self._sent.append([])
            self._rows.append(rows)
            self._timing = True
            self._launch(rows)
            self._timing = False
            if len(self._phases) > self.room:
                self._phases.pop()
                self._sent.pop()
                self._rows.pop()

    def _capture(self, rows: int) -> None:
        """Capture nothing: each op is timed."""

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

    def steps(self, lane: str) -> list[list[TimedStep]]:
        """Return the steps of each timed batch, in the order of time: on the lane, and
        on `lane nccl` what was sent."""
        names = [phase[0].step for phase in self.program.phases]
        messages = [
            step for step in names if step[0] == "communication" and step[1] is not None
        ]

        def moment(event) -> float:
            elapsed = cupy().cuda.get_elapsed_time(self._phases[0][0], event)
            return self.began + elapsed / 1e3

        batches = []
        for phases, sent, rows in zip(
            self._phases, self._sent, self._rows, strict=True
        ):
            moments = [moment(event) for event in phases]
            steps = [
                TimedStep(*step, begin, end, lane, rows)
                for step, begin, end in zip(names, moments, moments[1:], strict=False)
            ]
            for step, (begin, end) in zip(messages, sent, strict=False):
                times = (moment(begin), moment(end))
                steps.append(TimedStep(*step, *times, f"{lane} nccl"))
            batches.append(steps)
        return batches


# GPUs need their programs at about the same time: one of them compiles, and the others
# find its work on disk
compiling = threading.Lock()


def compiled(code: str, dtype: str, cooperative: bool):
    """Return a module of kernels, compiled by NVRTC; CuPy keeps it on disk for the next
    run."""
    ahead = _ahead.pop((code, dtype, cooperative), None)
    if ahead:
        return ahead.result()
    return module_of(code, dtype, cooperative)


def compile_ahead(code: str, dtype: str, cooperative: bool) -> None:
    """Begin to compile a module that is going to be wanted; NVRTC compiles several at a
    time."""

    def compile_on(device) -> object:
        with device:
            module = module_of(code, dtype, cooperative)
            module.compile()
            return module

    if (code, dtype, cooperative) not in _ahead:
        _ahead[code, dtype, cooperative] = _compilers.submit(
            compile_on, cupy().cuda.Device()
        )


_ahead: dict[tuple[str, str, bool], Future] = {}
_compilers = ThreadPoolExecutor(8)


@functools.cache
def module_of(code: str, dtype: str, cooperative: bool):
    """Return a module; the first call compiles it."""
    return cupy().RawModule(
        code=code,
        options=("-std=c++17", f"-DREAL={CUDA_TYPES[dtype]}"),
        enable_cooperative_groups=cooperative,
    )
