"""The engine `cuda`: our own kernels, compiled for the network at hand, and cuBLAS for large products."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ..cluster import ALONE, Team
from ..utils import UsageError
from . import Step, small
from .builder import Builder
from .cublas import Cublas
from .gpu import Phases, Runner, TimedPhases, WholeEpochs, check_device, cupy, processors, told
from .group import Member, members_engines, most_rows, own_rows
from .program import Purpose

PREDICT_ROWS = 4096  # of a batch in a forward pass
OUT_ROWS = 1 << 16  # whose outputs come back at once
MOST_VALUES = 2**31 - 1  # of one buffer: what the kernels count in
# Operations of a batch up to which whole epochs run in one launch. Measured, microseconds a batch, one launch and
# graph: digits 31 and 36 (3e7), cnn0 77 and 71 (4e8), cnn1 93 and 85, cnn2 109 and 102.
WHOLE_EPOCH_FLOPS = 3e8
SHARE_FOR_DATA = 0.6  # of the free memory that a data set may take; a larger one is streamed
BLOCK_BYTES = 64 << 20  # of a streamed data set, at a time
FIRST_BATCHES = 16  # between two looks at the stop flag, before anybody knows how long they take
LONGEST_WAIT = 0.04  # seconds between two looks at the stop flag
UPDATE = ("rate", "inv_rows", "decay", "root_scale", "momentum", "gain1", "gain2", "epsilon")


@dataclass
class Training:
    """The settings of one epoch (nn_training in nn.h)."""

    optimizer: str
    batch: int
    rates: Sequence[float]  # at 0, 1/8 .. 8/8 of the epoch's rows, straight lines between
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    seed: int = 0

    @property
    def rule(self) -> str:
        """The optimiser's name in common.cu."""
        return "ADAM" if self.optimizer == "adam" else "MOMENTUM" if self.momentum else "SGD"


@dataclass
class Progress:
    """Where an epoch stands (nn_progress in nn.h); may be read, and `stop` set, while the epoch runs."""

    row: int = 0
    step: int = 0
    loss: float = 0.0
    stop: int = 0


@dataclass
class Segment:
    """Rows that lie on the GPU, in the order in which they are taken; order 0: as they lie. Of whole batches, of which
    a member has its `own` rows."""

    x: int
    y: int
    order: int
    rows: int
    own: int


class CudaData:
    """A data set: on the GPU as a whole where it fits, else in the computer's memory, from where it is streamed."""

    def __init__(self, x: np.ndarray, y: np.ndarray | None, room: int):
        self.x, self.y, self.rows = x, y, len(x)
        self.labels = y is not None and y.dtype == np.int32
        self.bytes = x.dtype == np.uint8
        size = x.nbytes + (0 if y is None else y.nbytes)
        self.resident = size <= room
        if self.resident:
            cp = cupy()
            self.on_gpu = cp.asarray(x), None if y is None else cp.asarray(y)

    def segments(self, order: np.ndarray | None, batch: int, team: Team = ALONE) -> Iterator[Segment]:
        """The rows of an order (None: all), in pieces of whole batches; a member's are its shares of these."""
        if not self.resident:
            yield from self._streamed(np.arange(self.rows) if order is None else order, batch, team)
            return
        x, y = self.on_gpu
        own = None if order is None else own_rows(order, batch, team)
        indices = None if own is None else cupy().asarray(own)
        rows = self.rows if order is None else len(order)
        yield Segment(
            x.data.ptr, 0 if y is None else y.data.ptr, 0 if indices is None else indices.data.ptr, rows,
            rows if own is None else len(own),
        )  # fmt: skip

    def _streamed(self, order: np.ndarray, batch: int, team: Team) -> Iterator[Segment]:
        """Two blocks take turns: while the GPU works on one, a thread gathers the next and sends it over."""
        row_bytes = self.x[0].nbytes + (0 if self.y is None else self.y[0].nbytes)
        each = max(1, most_rows(len(order), batch, team))
        batches = max(1, BLOCK_BYTES // (row_bytes * each))
        rows = batches * batch
        slots = [_Slot(self.x, self.y, min(batches * each, len(order))) for _ in range(2)]
        device, starts = cupy().cuda.Device(), range(0, len(order), rows)
        with ThreadPoolExecutor(1) as worker:

            def fill(number: int):
                piece = order[starts[number] : starts[number] + rows]
                return worker.submit(slots[number % 2].fill, own_rows(piece, batch, team), len(piece), device)

            coming = fill(0) if starts else None
            for number in range(len(starts)):
                segment = coming.result()
                slots[number % 2].wait_for_copy()
                if number + 1 < len(starts):
                    coming = fill(number + 1)
                yield segment
                cupy().cuda.get_current_stream().synchronize()  # the slot may be filled again


class _Slot:
    """Room for one block of a streamed data set: pinned memory, and its copy on the GPU."""

    def __init__(self, x: np.ndarray, y: np.ndarray | None, rows: int):
        from cupyx import empty_pinned

        cp = cupy()
        self.sources = [a for a in (x, y) if a is not None]
        self.pinned = [empty_pinned((rows, *a.shape[1:]), a.dtype) for a in self.sources]
        self.on_gpu = [cp.empty(a.shape, a.dtype) for a in self.pinned]
        self.stream, self.copied = cp.cuda.Stream(non_blocking=True), cp.cuda.Event()
        cp.cuda.get_current_stream().synchronize()  # the memory's last user may still be at work

    def fill(self, rows: np.ndarray, whole: int, device) -> Segment:
        """Gather rows, a member's of so many, and begin to send them over."""
        with device:
            for source, pinned, target in zip(self.sources, self.pinned, self.on_gpu, strict=True):
                np.take(source, rows, axis=0, out=pinned[: len(rows)])
                target[: len(rows)].set(pinned[: len(rows)], stream=self.stream)
            self.copied.record(self.stream)
        addresses = [array.data.ptr for array in self.on_gpu]
        return Segment(addresses[0], addresses[1] if len(addresses) > 1 else 0, 0, whole, len(rows))

    def wait_for_copy(self) -> None:
        """What is computed from now on finds the rows there."""
        cupy().cuda.get_current_stream().wait_event(self.copied)


class CudaEngine:
    """A network on a GPU; the interface of backends/__init__.py. `layers` as layers.parse gives them.

    member: its place where several GPUs train together (group.py). All members then call `epoch` and `gradients` alike,
    with the whole batches' rows; each computes its share. Forward passes are each one's own.
    """

    library = Cublas
    threads = 1

    def __init__(
        self, backend: str, layers, loss: str, dtype: str, *, device: int = 0, tf32: bool = False,
        member: Member | None = None,
    ):  # fmt: skip
        if loss == "reference":
            raise UsageError("--reference computes on seq; leave out --backend")
        check_device(device)
        self.name, self.dtype, self.layers, self.loss_name = backend, np.dtype(dtype), layers, loss
        self.inputs, self.outputs = layers[0].inputs, layers[-1].outputs
        self.size = sum(layer.parameters for layer in layers)
        self.device, self.tf32, self.member = device, tf32, member
        self.team = member.team if member else ALONE
        if member:
            members_engines.add(self)
        self.data_room: int | None = None  # bytes a data set may take on the GPU; None: by what is free
        self._runners: dict[Purpose, Runner] = {}
        self._chunks: dict[Purpose, int] = {}
        self._library = None
        self._to_record, self._recorder = 0, None
        self._vectors: dict[str, object] = {}
        with cupy().cuda.Device(device):
            self.stream = cupy().cuda.Stream(non_blocking=True)
        with self._here(f"a network of {self.size} parameters", "use fewer or smaller layers"):
            self._vector("parameters")

    @contextmanager
    def _here(self, what: str, remedy: str = "use a smaller --batch_number"):
        """On this engine's GPU and stream; its errors told in the program's words."""
        with told(what, remedy), cupy().cuda.Device(self.device), self.stream:
            yield

    # ---- what it is

    def describe(self) -> str:
        """Backend and the GPU's name, as the first line of a run says them."""
        if self.member is None:
            return f"{self.name} ({self.gpu_name()})"
        return f"{self.name} ({self.team.size} x {self.gpu_name()}, {self.member.distribute})"

    def gpu_name(self) -> str:
        """What its maker calls this GPU."""
        return cupy().cuda.runtime.getDeviceProperties(self.device)["name"].decode()

    def threads_for(self, rows: int) -> int:
        """Threads of the processor that a batch is worth."""
        return 1

    def bytes(self) -> int:
        """Memory on the GPU that the network holds beside the data set."""
        return sum(v.nbytes for v in self._vectors.values()) + sum(r.bytes() for r in self._runners.values())

    def reserve(self, rows: int) -> None:
        """Check that batches of that many rows can be counted. NnError when memory runs out comes from the epoch."""
        widest = max(self.inputs, *(layer.outputs for layer in self.layers))
        if rows * widest > MOST_VALUES:
            raise UsageError(
                f"--batch_number {rows}: a layer of {widest} values allows at most {MOST_VALUES // widest} on the GPU"
            )

    # ---- parameters and data

    def _vector(self, what: str):
        """A parameter vector on the GPU, made of zeros when it is first asked for."""
        if what not in self._vectors:
            self._vectors[what] = cupy().zeros(max(1, self.size), self.dtype)
        return self._vectors[what]

    def set(self, what: str, vector: np.ndarray) -> None:
        """Copy a parameter vector in; what: parameters, moment1, moment2 (nothing where another member has those)."""
        if what != "parameters" and not self._steps:
            return
        if vector.shape != (self.size,) or vector.dtype != self.dtype:
            raise ValueError(f"expected {self.dtype} ({self.size},), got {vector.dtype} {vector.shape}")
        with self._here("the parameters"):
            if self.size:
                self._vector(what).set(np.ascontiguousarray(vector), stream=self.stream)
            self.stream.synchronize()

    def get(self, what: str) -> np.ndarray:
        """Copy a parameter vector out."""
        with self._here("the parameters"):
            return self._vector(what)[: self.size].get()

    def load(self, x: np.ndarray, y: np.ndarray | None = None) -> CudaData:
        """Rows: x (rows, ...) of the engine's type, or uint8 that becomes x / 255; y (rows, outputs) of the
        engine's type, int32 labels (rows,), or None."""
        x, y = self.checked(x, y)
        with self._here("the data set", "use a smaller data set"):
            return CudaData(x, y, self._room())

    def checked(self, x: np.ndarray, y: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows as `load` wants them: x (rows, inputs), y or None. Raises ValueError for what does not fit."""
        x = np.ascontiguousarray(x).reshape(len(x), -1)
        if x.shape[1] != self.inputs or x.dtype not in (self.dtype, np.uint8):
            raise ValueError(f"expected {self.dtype} or uint8 (rows, {self.inputs}), got {x.dtype} {x.shape}")
        if y is not None:
            y = np.ascontiguousarray(y)
            fits = y.shape == (len(x),) if y.dtype == np.int32 else y.shape == (len(x), self.outputs)
            if not fits or y.dtype not in (np.int32, self.dtype):
                raise ValueError(f"targets {y.dtype} {y.shape} do not fit {len(x)} rows of {self.outputs} outputs")
        return x, y

    def _room(self) -> int:
        if self.data_room is not None:
            return self.data_room
        pool = cupy().get_default_memory_pool()
        return int(SHARE_FOR_DATA * (cupy().cuda.Device().mem_info[0] + pool.free_bytes()))

    # ---- running programs

    def _runner(self, purpose: Purpose) -> Runner:
        """The program for a purpose, written, compiled and given its memory when it is first asked for."""
        if purpose not in self._runners:
            self._runners[purpose] = self._new_runner(purpose)
        return self._runners[purpose]

    def _new_runner(self, purpose: Purpose) -> Runner:
        self.reserve(purpose.rows)
        # members make theirs at about the same time: one of them compiles, and the others find its work on disk
        together = self._together(purpose)
        with _compiling:
            return self._made(purpose, together)

    def _made(self, purpose: Purpose, together: dict) -> Runner:
        parameters = self._vector("parameters")
        alone = not (purpose.timed or purpose.distribute)
        if alone and small.fits(self.layers, purpose, self.dtype):
            return small.Small(self.layers, self.loss_name, purpose, self.dtype, parameters)
        whole = (
            not purpose.distribute
            and self._flops(purpose) <= WHOLE_EPOCH_FLOPS
            and not self.calls_library(purpose)
        )
        if not whole and self._library is None:
            self._library = self.library(self.dtype, self.stream, self.tf32)
        builder = Builder(
            self.layers, self.loss_name, self.dtype.itemsize, processors(), None if whole else self._library
        )
        program = builder.build(purpose)
        if alone and whole and program.only_kernels:
            return WholeEpochs(program, self.dtype, parameters)
        return (TimedPhases if purpose.timed else Phases)(program, self.dtype, parameters, **together)

    def _together(self, purpose: Purpose) -> dict:
        """What a program needs that members run together."""
        return {"team": self.team, "communicator": self.member.communicator()} if purpose.distribute else {}

    def forget_programs(self) -> None:
        """Give up all programs, and the graphs that were captured of them."""
        for runner in self._runners.values():
            runner.graphs.clear()
        self._runners.clear()
        self._recorder = None

    @property
    def _distribute(self) -> str:
        return self.member.distribute if self.member else ""

    @property
    def _steps(self) -> bool:
        return self.member is None or self.member.steps

    def calls_library(self, purpose: Purpose) -> bool:
        """Layers of this network are a library's business, whatever their size."""
        return False

    def _flops(self, purpose: Purpose) -> float:
        """Operations of one batch."""
        forward = 2.0 * sum(layer.outputs * layer.fan_in for layer in self.layers if layer.weight_shape)
        return forward * purpose.rows * (3 if purpose.backward else 1)

    def _has_dropout(self) -> bool:
        return any(layer.kind == "dropout" for layer in self.layers)

    # ---- training

    def training(self, **options) -> Training:
        """The settings of one epoch; `optimizer` by its name."""
        return Training(**options)

    def progress(self, row: int = 0, step: int = 0, loss: float = 0.0) -> Progress:
        """Where an epoch stands."""
        return Progress(row, step, loss)

    def epoch(self, data: CudaData, order: np.ndarray, training: Training, progress: Progress) -> None:
        """Train on data's rows order[progress.row:]; blocks until the end or `progress.stop`, without the GIL."""
        _check_rows(order, data.rows)
        left, batch = order[progress.row :], training.batch
        if not len(left):
            return
        with self._here(f"batches of {batch} rows"):
            rows = max(1, most_rows(len(left), batch, self.team))
            purpose = Purpose(
                "train", rows, data.labels, data.bytes, self._has_dropout(), training.rule,
                timed=self._to_record > 0, distribute=self._distribute, steps=self._steps,
            )  # fmt: skip
            runner = self._runner(purpose)
            if purpose.timed:
                runner.room = self._to_record
                self._recorder = runner
            updates = cupy().asarray(self._updates(training, progress, len(order)))
            moments = {
                name: self._vector(name).data.ptr
                for name, needed in (("moment1", training.rule != "SGD"), ("moment2", training.rule == "ADAM"))
                if needed and self._steps
            }
            done = 0
            for segment in data.segments(left, batch, self.team):
                row_loss = cupy().empty(max(1, segment.own))
                runner.set(
                    x=segment.x, y=segment.y, order=segment.order, count=segment.rows, batch=batch,
                    row_loss=row_loss.data.ptr, updates=updates.data.ptr + done * updates[0].nbytes,
                    seed=training.seed, step=progress.step, **moments,
                )  # fmt: skip
                batches = -(-segment.rows // batch)
                done_here = self._batches(runner, batches, progress)
                done += done_here
                if done_here < batches:
                    break

    def _batches(self, runner: Runner, batches: int, progress: Progress) -> int:
        """All batches of what the runner was set to, in so large pieces that waiting for each costs nothing, and so
        small ones that `progress.stop` is seen soon; members agree on both. Returns how many were done."""
        purpose, done = runner.program.purpose, 0
        if purpose.distribute:
            runner.prepare()
        while done < batches and not self.team.any(progress.stop):
            chunk = min(self._chunks.get(purpose, FIRST_BATCHES), batches - done)
            began = time.perf_counter()
            runner.run(done, chunk)
            if purpose.distribute:
                self.stream.synchronize()  # see prepare: what comes next takes memory
            losses = runner.batch_losses(done, chunk)
            quick, losses = self._agreed(time.perf_counter() - began < LONGEST_WAIT / 2, losses)
            if quick:
                self._chunks[purpose] = 2 * self._chunks.get(purpose, FIRST_BATCHES)
            first, last = done * runner.batch, min((done + chunk) * runner.batch, runner.count)
            # one after the other, so that the sum does not depend on the pieces
            progress.loss = float(np.cumsum(np.append(progress.loss, losses))[-1])
            progress.row += last - first
            progress.step += chunk
            done += chunk
        return done

    def _agreed(self, quick: bool, losses: np.ndarray) -> tuple[bool, np.ndarray]:
        """Whether a chunk of batches was quick for all members, and the sums of their losses, in member order."""
        if self.team.size == 1:
            return quick, losses
        everyone = self.team.gather([quick, losses.tolist()])
        return all(was_quick for was_quick, _ in everyone), sum(np.array(own) for _, own in everyone)

    def _updates(self, t: Training, progress: Progress, rows: int) -> np.ndarray:
        """(batches, numbers): what the optimiser must know of each batch from progress on (train.c, update_of)."""
        row = np.arange(progress.row, rows, t.batch)
        inv_rows = 1.0 / np.minimum(t.batch, rows - row)
        learning_rate = np.interp(row / rows, np.linspace(0, 1, len(t.rates)), t.rates)
        number = progress.step + 1.0 + np.arange(len(row))
        rate, root_scale = learning_rate, np.zeros(len(row))
        if t.rule == "ADAM":
            rate = learning_rate / (1 - t.beta1**number)
            root_scale = 1 / np.sqrt(1 - t.beta2**number)
        elif t.rule == "SGD":
            rate = learning_rate * inv_rows
        columns = {
            "rate": rate, "inv_rows": inv_rows, "decay": learning_rate * t.weight_decay, "root_scale": root_scale,
            "momentum": t.momentum, "gain1": 1 - t.beta1, "gain2": 1 - t.beta2, "epsilon": t.epsilon,
        }  # fmt: skip
        table = np.empty((len(row), len(UPDATE)), self.dtype)
        for place, name in enumerate(UPDATE):
            table[:, place] = columns[name]
        return table

    # ---- --profile and --trace

    def record(self, batches: int) -> None:
        """From now on note when the steps of training's batches begin and end, of so many batches: each op is started
        by itself then, which is slower than training without."""
        self._to_record, self._recorder = batches, None

    def recorded(self) -> list[list[Step]]:
        """The steps of each batch since `record`, in the order of time."""
        if self._recorder is None:
            return []
        recorder = self._recorder
        with self._here("timing"):
            times = recorder.times()
        names = [phase[0].step for phase in recorder.program.phases]
        messages = [step for step in names if step[0] == "communication" and step[1] is not None]
        lane = f"gpu {self.device}" if self.member else "gpu"

        def step_of(step, begin: float, end: float, lane: str) -> Step:
            return Step(*step, recorder.began + begin, recorder.began + end, lane)

        return [
            [step_of(*step, lane) for step in zip(names, stamps, stamps[1:], strict=False)]
            + [step_of(step, *when, f"{lane} nccl") for step, when in zip(messages, sent, strict=False)]
            for stamps, sent in times
        ]

    # ---- one batch's gradients

    def gradients(self, x: np.ndarray, y: np.ndarray, seed: int = -1, step: int = 0):
        """(mean loss, gradient vector, dx) of one batch: x (rows, inputs), y (rows, outputs)."""
        data, rows = self.load(x, y), len(x)
        with self._here(f"a batch of {rows} rows"):
            cp, own = cupy(), most_rows(rows, rows, self.team)
            dropout = seed >= 0 and self._has_dropout()
            purpose = Purpose(
                "gradients", max(1, own), data.labels, data.bytes, dropout, distribute=self._distribute
            )
            runner = self._runner(purpose)
            out, row_loss = cp.empty(max(1, self.size), self.dtype), cp.zeros(max(1, own))
            runner.input_gradient = cp.empty((own, self.inputs), self.dtype)
            order = None if self.team.size == 1 else np.arange(rows)
            for segment in data.segments(order, rows, self.team):
                runner.set(
                    x=segment.x, y=segment.y, order=segment.order, count=rows, batch=rows, out=out.data.ptr,
                    input_gradient=runner.input_gradient.data.ptr, row_loss=row_loss.data.ptr, seed=max(seed, 0),
                    step=step,
                )  # fmt: skip
                runner.graphs.clear()  # they hold the address of another input_gradient
                if self._distribute:
                    runner.prepare()
                    self.team.gather(None)
                runner.run(0, 1)
                self.stream.synchronize()
            losses, vector, dx = row_loss.get(), out[: self.size].get(), runner.input_gradient.get()
        loss = self.team.sum(float(losses.sum()))
        if self.team.size > 1:
            dx = np.array(sum(self.team.gather(dx.tolist()), []), self.dtype).reshape(rows, self.inputs)
        return loss / rows, vector / self.dtype.type(rows), dx / self.dtype.type(rows)

    # ---- forward passes

    def _forward(self, kind: str, data: CudaData, rows: np.ndarray | None, make):
        """Run the program `kind` over rows; make(count) gives the arrays that a segment fills, which are yielded."""
        count = data.rows if rows is None else len(rows)
        if rows is not None:
            _check_rows(rows, data.rows)
        widest = max(self.inputs, *(layer.outputs for layer in self.layers))
        most = min(PREDICT_ROWS, max(1, (MOST_VALUES >> 3) // widest))
        batch = min(1 << math.ceil(math.log2(max(count, 1))), 1 << int(math.log2(most)))
        purpose = Purpose(kind, batch, data.labels and kind != "predict", data.bytes)
        for at in range(0, count, OUT_ROWS):
            block = None if rows is None else rows[at : at + OUT_ROWS]
            if rows is None and count > OUT_ROWS:
                block = np.arange(at, min(at + OUT_ROWS, count))
            runner = self._runner(purpose)
            for segment in data.segments(block, batch):
                array, members = make(segment.rows)
                runner.set(
                    x=segment.x, y=segment.y, order=segment.order, count=segment.rows, batch=batch, **members
                )
                runner.run(0, -(-segment.rows // batch))
                yield array.get()

    def predict(self, data: CudaData, rows: np.ndarray | None = None) -> np.ndarray:
        """Outputs (rows, outputs) of data's rows, all of them by default."""

        def make(count):
            out = cupy().empty((count, self.outputs), self.dtype)
            return out, {"out": out.data.ptr}

        with self._here("a forward pass", "use a smaller network"):
            pieces = list(self._forward("predict", data, rows, make))
        return np.concatenate(pieces) if pieces else np.empty((0, self.outputs), self.dtype)

    def loss(self, data: CudaData, rows: np.ndarray) -> float:
        """Mean loss of data's rows."""
        return float(np.cumsum(self.row_losses(data, rows))[-1]) / len(rows)

    def row_losses(self, data: CudaData, rows: np.ndarray | None = None) -> np.ndarray:
        """Each row's loss (rows,), of all rows by default."""

        def make(count):
            losses = cupy().empty(count)
            return losses, {"row_loss": losses.data.ptr}

        with self._here("a forward pass", "use a smaller network"):
            pieces = list(self._forward("loss", data, rows, make))
        return np.concatenate(pieces) if pieces else np.empty(0)


_compiling = threading.Lock()


def _check_rows(rows: np.ndarray, count: int) -> None:
    if len(rows) and not 0 <= rows.min() <= rows.max() < count:
        raise ValueError("row out of range")
