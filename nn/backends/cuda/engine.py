"""The engine `cuda`: our own kernels, compiled for the network at hand, and cuBLAS for
large products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import numpy as np

from ...cluster import ALONE
from ...core.records import check_rows, counts_of
from ...utils import UsageError
from ..elsewhere import Reading
from ..engine import EpochSettings, Pack, Progress, TimedStep, vector_length
from ..member import Turns, check_vector
from . import small
from .abi import update_rule
from .builder import Builder, kind_of
from .cublas import Cublas
from .data import CudaData, check_numbers, row_format
from .device import GpuContext, Turn, check_gpus, cupy, processors
from .epoch import advance, batch_weights, mean_loss, update_table
from .group import Member, members_engines, most_rows
from .pack import FIRST_BATCHES, LONGEST_WAIT, CudaPack
from .program import PLAIN, Program, Purpose, RowFormat, epoch_source, layer_routes
from .runner import Phases, Runner, TimedPhases, WholeEpochs, compile_ahead, compiling
from .standing import MOST_BYTES, PassFromHere, PassThere, StandingPasses

# of a batch in a forward pass: the fewest and, where its values are few, the most
PREDICT_ROWS = 1 << 12
MOST_PREDICT_ROWS = 1 << 14
PREDICT_VALUES = 1 << 26
# of networks without images: 10,000 rows of 6,400 values are one product, which leaves
# fewer multiprocessors without a tile at its end than three
PREDICT_VALUES_OF_VECTORS = 1 << 28
OUT_ROWS = 1 << 16  # whose outputs come back at once
MOST_BUFFER_VALUES = 2**31 - 1  # of one buffer: what the kernels count in
# Operations of a batch up to which whole epochs run in one launch. Measured,
# microseconds a batch, one launch and graph: digits 31 and 36 (3e7), cnn0 77 and 71
# (4e8), cnn1 93 and 85, cnn2 109 and 102.
WHOLE_EPOCH_FLOPS = 3e8
# of the free memory that a data set may take; a larger one is streamed
SHARE_FOR_DATA = 0.6


def _on_gpu(array):
    """Return an array on the GPU: a copy, or the same memory where it lies there."""
    has_interface = hasattr(type(array), "__cuda_array_interface__")
    if isinstance(array, np.ndarray) or has_interface:
        return cupy().asarray(array)
    return cupy().from_dlpack(array)


class CudaEngine:
    """A network on a GPU; the interface is backends/engine.py. `layers` as layers.parse
    gives them.

    member: its place where several GPUs train together (group.py). All members then
    call `epoch` and `gradients` alike, with the whole batches' rows; each computes its
    share. Forward passes are each one's own.
    """

    library = Cublas
    threads = 1

    def __init__(
        self,
        backend: str,
        layers,
        loss: str,
        dtype: str,
        *,
        device: int = 0,
        tf32: bool = False,
        member: Member | None = None,
    ):
        if loss == "reference":
            raise UsageError("--reference computes on seq; leave out --backend")
        check_gpus((device,))
        for layer in layers:
            kind_of(layer)
        self.name = backend
        self.dtype = np.dtype(dtype)
        self.layers = layers
        self.loss_name = loss
        self.inputs = layers[0].inputs
        self.outputs = layers[-1].outputs
        self.size = sum(layer.parameters for layer in layers)
        self._has_dropout = any(layer.kind == "dropout" for layer in layers)
        self.device = device
        self.tf32 = tf32
        self.member = member or Member(ALONE, "", device)
        self.rank_group = self.member.rank_group
        if member:
            members_engines.add(self)
        # bytes a data set may take on the GPU; None: by the free memory
        self.data_room: int | None = None
        self._runners: dict[Purpose, Runner] = {}
        self._standing = StandingPasses()
        self._chunks: dict[Purpose, int] = {}
        self._library = None
        self._to_record = 0
        self._recorded_kind = "train"  # of the purposes that are timed
        self._recorders = []
        self._vectors: dict[str, object] = {}
        self._turn = Turn(device)
        self.stream = self._turn.stream
        with self.gpu_context(
            f"a network of {self.size} parameters", "use fewer or smaller layers"
        ):
            self.vector("parameters")

    def gpu_context(
        self, what: str, remedy: str = "use a smaller --batch_number"
    ) -> GpuContext:
        """Enter this engine's GPU and stream, one thread at a time; CuPy's errors
        become NnError."""
        return GpuContext(what, remedy, self._turn)

    # ---- facts of the engine

    def describe(self) -> str:
        if self.rank_group.size == 1:
            return f"{self.name} ({self.device_name()})"
        return f"{self.name} ({self.rank_group.size} x {self.device_name()}, {self.member.distribute})"

    def device_name(self) -> str:
        return cupy().cuda.runtime.getDeviceProperties(self.device)["name"].decode()

    def threads_for(self, rows: int) -> int:
        return 1

    def bytes(self) -> int:
        vectors = sum(vector.nbytes for vector in self._vectors.values())
        return vectors + sum(runner.bytes() for runner in self._runners.values())

    def pack(self, count: int, rows: int) -> Pack:
        """Return networks that train together where a block of the GPU is enough for
        each, and else take turns."""
        with self.gpu_context("a network's program"):
            together = self.rank_group.size == 1 and self.runs_small(
                self.likely_purpose(max(1, rows))
            )
        if together:
            return CudaPack(self, count, rows)
        return Turns(self, count)

    def reserve(self, rows: int) -> None:
        """Raise UsageError for batches whose values the kernels cannot count. Memory is
        taken later, by the epoch."""
        widest = max(self.inputs, *(layer.outputs for layer in self.layers))
        if rows * widest > MOST_BUFFER_VALUES:
            raise UsageError(
                f"--batch_number {rows}: a layer of {widest} values allows at most {MOST_BUFFER_VALUES // widest} on the GPU"
            )

    # ---- parameters and data

    def vector(self, what: str):
        """Return a parameter vector on the GPU; the first call makes it, of zeros."""
        if what not in self._vectors:
            self._vectors[what] = cupy().zeros(max(1, self.length(what)), self.dtype)
        return self._vectors[what]

    def length(self, what: str) -> int:
        return vector_length(self.layers, what)

    def set(self, what: str, vector: np.ndarray) -> None:
        is_stepped = what not in ("parameters", "kept")
        if is_stepped and not self.member.updates_weights:
            return
        check_vector(self, what, vector)
        with self.gpu_context("the parameters"):
            if len(vector):
                self.vector(what).set(np.ascontiguousarray(vector), stream=self.stream)
            self.stream.synchronize()

    def get(self, what: str) -> np.ndarray:
        with self.gpu_context("the parameters"):
            return self.vector(what)[: self.length(what)].get()

    def keep(self) -> None:
        with self.gpu_context(
            f"a copy of {self.size} parameters", "use fewer or smaller layers"
        ):
            cupy().copyto(self.vector("kept"), self.vector("parameters"))
            self.stream.synchronize()

    def load(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> CudaData:
        arrays = self.checked(x, y, weights)
        with self.gpu_context("the data set", "use a smaller data set"):
            return CudaData(*arrays, self.dtype, self._room())

    @contextmanager
    def beside_others(self) -> Iterator[Callable]:
        """Enter the GPU when what other libraries compute there is done; yield what
        copies an array to it, or sees one that lies there."""
        cupy().cuda.get_current_stream().synchronize()
        with self.gpu_context("the rows", "predict fewer rows at once"):
            yield _on_gpu

    def checked(self, x: np.ndarray, y: np.ndarray | None, weights: np.ndarray | None):
        """Return (x, y, weights) as `load` needs them: x (rows, inputs) or records
        (rows,). Raise ValueError for other shapes, and for codes that a table lacks."""
        x = self._checked_inputs(np.ascontiguousarray(x))
        if y is not None:
            y = np.ascontiguousarray(y)
            if y.dtype == np.int32:
                fits = y.shape == (len(x),)
            else:
                fits = y.shape == (len(x), self.outputs)
            if not fits or y.dtype not in (np.int32, self.dtype):
                raise ValueError(
                    f"targets {y.dtype} {y.shape} do not fit {len(x)} rows of {self.outputs} outputs"
                )
        if weights is not None:
            weights = np.ascontiguousarray(weights)
            if weights.shape != (len(x),) or weights.dtype != self.dtype:
                raise ValueError(
                    f"weights {weights.dtype} {weights.shape} do not fit {len(x)} rows of {self.dtype}"
                )
        return x, y, weights

    def _checked_inputs(self, x: np.ndarray) -> np.ndarray:
        columns = self.layers[0].columns
        if x.shape[1:] == (self.inputs,) and x.dtype == self.dtype and not columns:
            return x
        if columns and x.dtype.names:
            counts_of(x.dtype, self.dtype)
        else:
            x = x.reshape(len(x), -1)
            types = [self.dtype]
            if not columns:  # bytes are no codes
                types.append(np.dtype(np.uint8))
            if x.shape[1] != self.inputs or x.dtype not in types:
                expected = " or ".join(map(str, types))
                raise ValueError(
                    f"expected {expected} (rows, {self.inputs}), got {x.dtype} {x.shape}"
                )
        if columns:
            check_rows(x, columns)
        return x

    def _room(self) -> int:
        if self.data_room is not None:
            return self.data_room
        pool = cupy().get_default_memory_pool()
        return int(
            SHARE_FOR_DATA * (cupy().cuda.Device().mem_info[0] + pool.free_bytes())
        )

    # ---- running programs

    def _runner(self, purpose: Purpose) -> Runner:
        """Return the runner for a purpose; the first call builds and compiles its
        program and takes its memory."""
        if purpose not in self._runners:
            self._runners[purpose] = self.new_runner(purpose)
        return self._runners[purpose]

    def new_runner(self, purpose: Purpose) -> Runner:
        """Return a runner for a purpose, with memory of its own."""
        self.reserve(purpose.rows)
        together = ()
        if purpose.distribute:
            together = (self.rank_group, self.member.communicator())
        with compiling:
            kind = self._choose_runner(purpose)
            parameters = self.vector("parameters")
            if kind is small.Small:
                return kind(self.plan(purpose), self.dtype, parameters)
            return kind(self._program(purpose), self.dtype, parameters, *together)

    def _choose_runner(self, purpose: Purpose) -> type[Runner]:
        """Return what runs programs of this purpose; README.md has the table."""
        alone = not (purpose.timed or purpose.distribute)
        if (
            alone
            and not purpose.lowest
            and small.fits(self.layers, purpose, self.dtype)
        ):
            return small.Small
        if alone and not self._needs_library(purpose):
            return WholeEpochs
        if purpose.timed:
            return TimedPhases
        return Phases

    def _needs_library(self, purpose: Purpose) -> bool:
        """Return whether a library may take over ops: in large batches, in a group, or
        of a layer that is its own."""
        large = self.flops(purpose) > WHOLE_EPOCH_FLOPS
        return bool(purpose.distribute) or large or self.calls_library(purpose)

    def _program(self, purpose: Purpose) -> Program:
        library = None
        if self._needs_library(purpose):
            if self._library is None:
                self._library = self.library(self.dtype, self.stream, self.tf32)
            library = self._library
        return Builder(
            self.layers, self.loss_name, self.dtype.itemsize, processors(), library
        ).build(purpose)

    def routes(self, rows: int) -> list[str]:
        """Return how a training step of that many rows is computed: the runner, then
        each layer's kernels."""
        with self.gpu_context("a network's program"):
            member_rows = max(1, most_rows(rows, rows, self.rank_group))
            purpose = self.likely_purpose(member_rows)
            kind = self._choose_runner(purpose)
            if kind is small.Small:
                return self.plan(purpose).routes()
            return [kind.about, *layer_routes(self._program(purpose))]

    def plan(self, purpose: Purpose, pack: bool = False) -> small.Plan:
        """Return how small.py computes this network, alone or in a pack."""
        return small.Plan(self.layers, self.loss_name, purpose, self.dtype, pack)

    def runs_small(self, purpose: Purpose) -> bool:
        """Return whether a network alone is computed by small.py."""
        return self._choose_runner(purpose) is small.Small

    def likely_purpose(self, rows: int) -> Purpose:
        """Return the purpose of a training step of that many rows: the last one's, or
        the most likely."""
        used = (p for p in self._runners if p.kind == "train" and p.rows == rows)
        return next(
            used,
            self.train_purpose(rows, self.loss_name == "ce", PLAIN, False, "ADAM"),
        )

    def epoch_purpose(
        self, data: CudaData, settings: EpochSettings, rows: int
    ) -> Purpose:
        """Return the purpose of an epoch by batches of that many rows of the data."""
        rule = update_rule(settings.optimizer, settings.momentum)
        moves = settings.moves(self.layers[0].in_shape)
        weighted = data.weights is not None
        purpose = self.train_purpose(
            rows, data.labels, data.rows_as, weighted, rule, moves
        )
        return replace(
            purpose,
            lowest=settings.lowest(self.layers),
            scales=settings.scale_rate > 0,
        )

    def train_purpose(
        self,
        rows: int,
        labels: bool,
        rows_as: RowFormat,
        weighted: bool,
        rule: str,
        moves=(0, 0, 0),
    ) -> Purpose:
        """Return the purpose of training by batches of that many rows; rule: of the
        update, moves: of images."""
        return Purpose(
            "train",
            rows,
            labels,
            rows_as,
            weighted,
            self._has_dropout,
            moves,
            rule,
            timed=self._is_timed("train"),
            distribute=self.member.distribute,
            updates_weights=self.member.updates_weights,
        )

    def forget_programs(self) -> None:
        """Give up all programs, and the graphs that were captured of them."""
        for runner in self._runners.values():
            runner.graphs.clear()
        self._runners.clear()
        self._standing.clear()
        self._recorders = []

    def calls_library(self, purpose: Purpose) -> bool:
        """Return whether a library computes layers of this network whatever their
        size."""
        return False

    def flops(self, purpose: Purpose) -> float:
        """Return the operations of a batch, of layers with weights."""
        weighted = (layer for layer in self.layers if layer.weight_shape)
        forward = 2.0 * sum(layer.outputs * layer.fan_in for layer in weighted)
        if purpose.backward:
            return 3 * forward * purpose.rows
        return forward * purpose.rows

    # ---- training

    def progress(self, row: int = 0, step: int = 0, loss: float = 0.0) -> Progress:
        return Progress(row, step, loss)

    def epoch(
        self,
        data: CudaData,
        order: np.ndarray,
        settings: EpochSettings,
        progress: Progress,
    ) -> None:
        check_numbers(order, data.rows)
        left = order[progress.row :]
        batch = settings.batch
        if not len(left):
            return
        with self.gpu_context(f"batches of {batch} rows"):
            rows = max(1, most_rows(len(left), batch, self.rank_group))
            purpose = self.epoch_purpose(data, settings, rows)
            runner = self._runner(purpose)
            if purpose.timed:
                self._record_by(runner)
            weights = batch_weights(data.weights, left, batch, self.rank_group)
            updates = cupy().asarray(
                update_table(settings, progress, len(order), self.dtype, weights)
            )
            vectors = {
                name: self.vector(name).data.ptr
                for name in settings.vectors
                if self.member.updates_weights
            }
            done = 0
            for segment in data.segments(left, batch, self.rank_group):
                row_loss = cupy().empty(max(1, segment.member_rows))
                runner.set(
                    segment,
                    batch,
                    row_loss=row_loss.data.ptr,
                    updates=updates.data.ptr + done * updates[0].nbytes,
                    seed=settings.seed,
                    step=progress.step,
                    **vectors,
                )
                batches = -(-segment.rows // batch)
                trained = self._batches(runner, batches, progress)
                done += trained
                if trained < batches:
                    break

    def _batches(self, runner: Runner, batches: int, progress: Progress) -> int:
        """Run the batches that the runner was set to, in chunks: large, so that waiting
        for each costs nothing, but short enough to see `progress.stop` soon. Members
        agree on both. Return how many batches were done."""
        purpose = runner.program.purpose
        done = 0
        if purpose.distribute:
            runner.prepare()
        while done < batches and not any(self.rank_group.gather(bool(progress.stop))):
            chunk = min(self._chunks.get(purpose, FIRST_BATCHES), batches - done)
            began = time.perf_counter()
            runner.run(done, chunk)
            if purpose.distribute:
                self.stream.synchronize()  # see prepare: what comes next takes memory
            losses = runner.batch_losses(done, chunk)
            quick = time.perf_counter() - began < LONGEST_WAIT / 2
            quick, losses = self._agreed(quick, losses)
            if quick:
                self._chunks[purpose] = 2 * self._chunks.get(purpose, FIRST_BATCHES)
            begin = done * runner.batch
            end = min((done + chunk) * runner.batch, runner.count)
            advance(progress, losses, end - begin)
            done += chunk
        return done

    def _agreed(self, quick: bool, losses: np.ndarray) -> tuple[bool, np.ndarray]:
        """Return whether a chunk was quick for all members, and the sums of their
        losses, in member order."""
        if self.rank_group.size == 1:
            return quick, losses
        chunks = self.rank_group.gather([quick, losses.tolist()])
        all_quick = all(was_quick for was_quick, _ in chunks)
        return all_quick, sum(np.array(member_losses) for _, member_losses in chunks)

    # ---- --profile and --trace

    def record(self, batches: int, predicts: bool = False) -> None:
        """Time the steps of the next `batches` batches of training, or of predict, each
        op by itself, which is slower."""
        self._to_record = batches
        self._recorded_kind = "predict" if predicts else "train"
        self._recorders = []
        # the others have the times of batches before
        self._runners = {
            purpose: runner
            for purpose, runner in self._runners.items()
            if not purpose.timed
        }

    def _is_timed(self, kind: str) -> bool:
        """Return whether programs of this kind of purpose are timed."""
        return self._to_record > 0 and kind == self._recorded_kind

    def _record_by(self, runner: TimedPhases) -> None:
        """Let a runner keep the times of its batches."""
        runner.room = self._to_record
        if runner not in self._recorders:
            self._recorders.append(runner)

    def recorded(self) -> list[list[TimedStep]]:
        """Return the steps of each batch since `record`, in the order of time."""
        lane = "gpu"
        if self.rank_group.size > 1:
            lane = f"gpu {self.device}"
        batches = []
        with self.gpu_context("timing"):
            for runner in self._recorders:
                batches += runner.steps(lane)
        batches.sort(key=lambda steps: steps[0].begin)
        return batches[: self._to_record]

    # ---- one batch's gradients

    def gradients(self, x: np.ndarray, y: np.ndarray, seed: int = -1, step: int = 0):
        data = self.load(x, y)
        rows = len(x)
        with self.gpu_context(f"a batch of {rows} rows"):
            cp = cupy()
            member_rows = most_rows(rows, rows, self.rank_group)
            dropout = seed >= 0 and self._has_dropout
            purpose = Purpose(
                "gradients",
                max(1, member_rows),
                data.labels,
                data.rows_as,
                dropout=dropout,
                distribute=self.member.distribute,
            )
            runner = self._runner(purpose)
            out = cp.empty(max(1, self.size), self.dtype)
            row_loss = cp.zeros(max(1, member_rows))
            runner.input_gradient = cp.empty((member_rows, self.inputs), self.dtype)
            order = None
            if self.rank_group.size > 1:
                order = np.arange(rows)
            for segment in data.segments(order, rows, self.rank_group):
                runner.set(
                    segment,
                    rows,
                    out=out.data.ptr,
                    input_gradient=runner.input_gradient.data.ptr,
                    row_loss=row_loss.data.ptr,
                    seed=max(seed, 0),
                    step=step,
                )
                runner.graphs.clear()  # they hold the address of another input_gradient
                if purpose.distribute:
                    runner.prepare()
                    self.rank_group.gather(None)
                runner.run(0, 1)
                self.stream.synchronize()
            losses = row_loss.get()
            vector = out[: self.size].get()
            dx = runner.input_gradient.get()
        loss = self.rank_group.sum(float(losses.sum()))
        if self.rank_group.size > 1:
            dx_of_members = self.rank_group.gather(dx.tolist())
            dx = np.array(list(chain(*dx_of_members)), self.dtype)
            dx = dx.reshape(rows, self.inputs)
        return loss / rows, vector / self.dtype.type(rows), dx / self.dtype.type(rows)

    # ---- forward passes

    def predict_purpose(self, count: int, rows_as: RowFormat) -> Purpose:
        """Return the purpose of a forward pass over `count` rows stored so, which gives
        outputs."""
        widths = [self.inputs, *(layer.outputs for layer in self.layers)]
        if any(layer.kind == "conv" for layer in self.layers):
            values = PREDICT_VALUES
        else:
            values = PREDICT_VALUES_OF_VECTORS
        usual = min(MOST_PREDICT_ROWS, values // sum(widths))
        countable = max(1, (MOST_BUFFER_VALUES >> 3) // max(widths))
        most = min(max(PREDICT_ROWS, usual), countable)
        batch = min(1 << math.ceil(math.log2(max(count, 1))), 1 << int(math.log2(most)))
        timed = self._is_timed("predict")
        return Purpose("predict", batch, rows_as=rows_as, timed=timed)

    def forward_purpose(self, kind: str, data: CudaData, count: int) -> Purpose:
        """Return the purpose of a forward pass over `count` rows of data; kind: predict
        or loss."""
        predict = self.predict_purpose(count, data.rows_as)
        if kind == "predict":
            return predict
        return replace(
            predict,
            kind=kind,
            labels=data.labels,
            weighted=data.weights is not None,
            timed=self._is_timed(kind),
        )

    def compile_ahead(
        self, rows: int, judged_rows: int, record: np.dtype | None
    ) -> None:
        """Begin to compile the kernels of a training by batches of that many rows, of
        networks side by side, and of forward passes over the judged rows. record: the
        type of a row, None where it is a row of an array."""
        labels = self.loss_name == "ce"
        rows_as = row_format(np.empty(0, record or self.dtype), self.dtype)
        data = SimpleNamespace(labels=labels, rows_as=rows_as, weights=None)
        with self.gpu_context("a network's program"):
            train = self.train_purpose(rows, labels, rows_as, False, "ADAM")
            loss = self.forward_purpose("loss", data, judged_rows)
            predict = self.forward_purpose("predict", data, judged_rows)
            for purpose in (train, loss, predict):
                if self.runs_small(purpose):
                    source = self.plan(purpose, pack=True).source()
                    compile_ahead(source, self.dtype.name, True)
                elif program := self.whole_epochs(purpose):
                    compile_ahead(epoch_source(program), self.dtype.name, True)

    def whole_epochs(self, purpose: Purpose) -> Program | None:
        """Return the program of a purpose if one launch runs it for whole epochs; None:
        others do."""
        if self._choose_runner(purpose) is WholeEpochs:
            return self._program(purpose)
        return None

    def _forward(
        self, kind: str, data: CudaData, rows: np.ndarray | None, there: bool = False
    ) -> np.ndarray:
        """Return what a program gives for rows, by default all: `predict` outputs
        (rows, outputs), `loss` each row's loss times its weight (rows,); if `there` on
        the GPU."""
        count = data.rows
        if rows is not None:
            count = len(rows)
            check_numbers(rows, data.rows)
        purpose = self.forward_purpose(kind, data, count)
        if kind == "predict":
            member = "out"
            width = (self.outputs,)
            dtype = self.dtype
        else:
            member = "row_loss"
            width = ()
            dtype = np.float64
        result = (cupy() if there else np).empty((count, *width), dtype)
        done = 0
        batch = purpose.rows
        for at in range(0, count, OUT_ROWS):
            block = None  # all, as they stand
            if rows is not None:
                block = rows[at : at + OUT_ROWS]
            elif count > OUT_ROWS:
                block = np.arange(at, min(at + OUT_ROWS, count))
            runner = self._runner(purpose)
            if purpose.timed:
                self._record_by(runner)
            for segment in data.segments(block, batch):
                array = cupy().empty((segment.rows, *width), dtype)
                runner.set(segment, batch, **{member: array.data.ptr})
                runner.run(0, -(-segment.rows // batch))
                result[done : done + segment.rows] = array if there else array.get()
                done += segment.rows
        if there:
            self.stream.synchronize()  # others may read it
        return result

    def predict(
        self,
        data: CudaData,
        rows: np.ndarray | None = None,
        vector: np.ndarray | None = None,
    ) -> np.ndarray:
        with self._lent(vector):
            return self._forward("predict", data, rows)

    def predict_once(self, x: np.ndarray) -> np.ndarray:
        x = self._checked_inputs(np.ascontiguousarray(x))
        if self._may_stand(x):
            with self.gpu_context("a forward pass", "use a smaller network"):
                standing = self._standing.find(
                    ("here", len(x), x.dtype), None, lambda: PassFromHere(self, x)
                )
                if standing is not None:
                    return standing.outputs(x)
        return self.predict(self.load(x))

    def standing_there(
        self, rows, facts: object, reading: Callable[[], Reading | None]
    ) -> PassThere | None:
        """Return a pass over as many rows on the GPU as these, by a network of these
        facts; None the first time, and where they cannot be read there."""
        if not self._may_stand(rows):
            return None

        def make() -> PassThere | None:
            how = reading()
            if how is None:
                return None
            return PassThere(self, rows, how)

        return self._standing.find(("there", rows.shape, rows.dtype.char), facts, make)

    def _may_stand(self, x) -> bool:
        """Return whether a pass over such rows may be kept."""
        most = max(x.nbytes, len(x) * self.outputs * self.dtype.itemsize)
        return 0 < most <= MOST_BYTES and not self._is_timed("predict")

    def predict_there(self, x, vector: np.ndarray | None = None):
        """Return outputs as `predict` does, for inputs (rows, inputs) on the GPU,
        there."""
        data = CudaData(x, None, None, self.dtype, math.inf)
        with self._lent(vector):
            return self._forward("predict", data, None, there=True)

    @contextmanager
    def _lent(self, vector: np.ndarray | None) -> Iterator[None]:
        """Have other parameters for a forward pass; None: the engine's own."""
        with self.gpu_context("a forward pass", "use a smaller network"):
            if vector is None:
                yield
                return
            before = self.vector("parameters").copy()
            try:
                self.set("parameters", vector)
                yield
            finally:
                cupy().copyto(self.vector("parameters"), before)

    def loss(self, data: CudaData, rows: np.ndarray) -> float:
        return mean_loss(self.row_losses(data, rows), data.weights, rows)

    def row_losses(self, data: CudaData, rows: np.ndarray | None = None) -> np.ndarray:
        """Return each row's loss times its weight (rows,), by default of all rows."""
        with self.gpu_context("a forward pass", "use a smaller network"):
            return self._forward("loss", data, rows)
