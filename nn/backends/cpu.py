"""The engines `seq` and `omp`: the C core behind one thin wrapper."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from .. import cluster
from ..cluster import RankGroup
from ..core import SUFFIXES, extension, pointer
from ..core.random import STREAM_SHUFFLE
from ..core.records import check_codes, check_rows, check_types, counts_of
from ..nn_aux import loss_name, loss_of
from ..utils import (
    NnError,
    asked_threads,
    available_cores,
    check_threads,
    processor_name,
)
from .engine import (
    Engine,
    EpochSettings,
    Pack,
    PackJob,
    Progress,
    TimedStep,
    vector_length,
)
from .member import Turns, check_members

# of vectors that each thread predicts at a time: copying large weights must pay
MOST_BY_THREAD = 1000  # batches recorded of each thread; of more the first one's
LEAST_ROWS_OF_THREAD = 256
# of activations, in a block of rows that is predicted at a time: they stay in the cache
PREDICTED_BYTES = 1 << 20
MOST_SPARE = 8  # networks of the core that wait for predictions beside others
# what to do where memory runs out
LAYERS_REMEDY = "use fewer or smaller layers"
BATCH_REMEDY = "use a smaller --batch_number"
PACK_REMEDY = "use a smaller --batch_number, or fewer networks"


def share_cores(rank_group: RankGroup, threads: int | None) -> int:
    """Return how many threads to use, by default as many as OMP_NUM_THREADS says, else
    one a core.

    Ranks that may use the same cores of a host divide them, and each stays on its own
    cores, whose caches hold its data.
    """
    mask = []
    if hasattr(os, "sched_getaffinity"):
        mask = sorted(os.sched_getaffinity(0))
    cores_of_ranks = rank_group.gather([platform.node(), mask])
    own_cores = cores_of_ranks[rank_group.rank]
    sharing = cores_of_ranks.count(own_cores)
    threads = threads or asked_threads() or max(1, available_cores() // sharing)
    cores = len(mask) // sharing
    if sharing > 1 and threads <= cores:
        begin = cores * cores_of_ranks[: rank_group.rank].count(own_cores)
        os.sched_setaffinity(0, mask[begin : begin + cores])
    return threads


@dataclass
class CpuData:
    """A data set as the core sees it; holds the arrays alive that `struct` points
    to."""

    x: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None
    struct: object
    rows: int


@dataclass(slots=True)
class CoreNet:
    """A network of the core: buffers for one computation at a time, and the parameters
    that it computes with."""

    net: Any
    rows: int = 1  # that the buffers have room for
    parameters: Any = None
    lent: Any = None  # memory for parameters that are not the engine's


class CpuEngine:
    """A network in the C core; the interface is engine.py. loss: as --loss writes it,
    or `reference`.

    What trains, or predicts while nobody else computes, has the engine's own network of
    the core; predictions beside it have others, of one thread each. Parameters are
    replaced, never changed, so that all of them see whole ones.
    """

    rank_group = cluster.ALONE

    def __init__(
        self,
        backend: str,
        layers,
        loss: str,
        dtype: str,
        threads: int | None = None,
        distribute: str | None = None,
    ):
        self.name = backend
        self.dtype = np.dtype(dtype)
        self._suffix = "_" + SUFFIXES[self.dtype.name]
        self.ffi, self.lib = extension(backend)
        self.inputs = layers[0].inputs
        self.outputs = layers[-1].outputs
        self.size = sum(layer.parameters for layer in layers)
        # of the core, as they are needed: a row alone is predicted in microseconds
        self._functions: dict = {}
        threaded = backend != "seq" and self.lib.nn_has_openmp()
        if distribute:
            self.rank_group = cluster.expect_ranks()
        self.threads = share_cores(self.rank_group, threads if threaded else 1)
        if self.threads > 1:
            # a team beside the main thread, and a checkpoint's
            check_threads(self.threads + 1)
        self._edges = np.array(
            [edge for column in layers[0].columns for edge in column.edges], self.dtype
        )
        self._columns = self._column_specs(layers[0].columns)
        self._input_columns = layers[0].columns
        self._records = None, ()  # the type of records that came last, its counts
        self._shape = layers[0].in_shape
        self._plan = self._specs(layers), len(layers), self._loss_settings(loss)
        self._main_net = self._new_net(self.threads)
        self._spare_nets = []
        self._turn = Lock()
        self._process = os.getpid()
        self._parameters = self._new_vector(self._main_net.net)
        self._profile = None
        self._layers = layers
        self._layer_names = [layer.item or layer.kind for layer in layers]
        self._block_rows = self._rows_of_a_block(layers)
        self._ranks = None
        self._has_moments = True
        # the core shares batches with the other ranks over MPI
        if self.rank_group.size > 1:
            from . import mpi

            self._ranks = mpi.ranks(
                self.ffi, self.dtype.name, distribute, self.rank_group
            )
            self._has_moments = distribute == "mirrored" or self.rank_group.rank == 0
            self._call("net_ranks", self._main_net.net, self._ranks)

    def _rows_of_a_block(self, layers) -> int:
        """Return how many rows are predicted at a time."""
        row_bytes = self.dtype.itemsize * sum(layer.outputs for layer in layers)
        least = LEAST_ROWS_OF_THREAD * self.threads
        if any(layer.kind == "conv" for layer in layers):
            least = 32
        return min(max(PREDICTED_BYTES // row_bytes, least), 4096)

    def _new_net(self, threads: int) -> CoreNet:
        net = self._call("net_new", *self._plan, 1, threads)
        return CoreNet(self._freed_by(self._function("net_free"), net))

    def _new_vector(self, net):
        """Return a copy of a network's parameters as the core keeps them."""
        return self._freed_by(self.lib.nn_free, self._call("net_vector", net))

    def _freed_by(self, free, pointer):
        """Return a pointer whose memory is freed when Python drops it. Raises NnError
        where there was none."""
        if pointer == self.ffi.NULL:
            raise _out_of_memory(f"a network of {self.size} parameters", LAYERS_REMEDY)
        return self.ffi.gc(pointer, free)

    def _use(self, core_net: CoreNet, parameters) -> None:
        if core_net.parameters is not parameters:
            self._call("net_use", core_net.net, parameters)
            core_net.parameters = parameters

    @contextmanager
    def _alone(self, changes: bool = False) -> Iterator[Any]:
        """Yield the engine's own network of the core, when nobody else computes with
        it.

        changes: it has a copy of the parameters then, which are the engine's after the
        block.
        """
        if self._process != os.getpid():
            self._process = os.getpid()
            # by a thread that is not there in a process that was forked
            if self._turn.locked():
                self._main_net = self._new_net(self.threads)
                self._turn = Lock()
        with self._turn:
            core_net = self._main_net
            self._use(core_net, self._parameters)
            if changes:
                self._use(core_net, self._new_vector(core_net.net))
            try:
                yield core_net.net
            finally:
                self._parameters = core_net.parameters

    def _forward(self, name: str, rows: int, vector: np.ndarray | None, *arguments):
        """Return what a function of the core gives, in batches of up to `rows` rows,
        with the engine's parameters or those of a vector. It waits for nobody."""
        is_main = self._turn.acquire(False)
        try:
            if is_main:
                core_net = self._main_net
            else:
                core_net = self._spare_nets.pop()
        except IndexError:
            core_net = self._new_net(1)
        try:
            self._use(core_net, self._parameters)
            if vector is not None:
                core_net.lent = core_net.lent or self._new_vector(core_net.net)
                self._use(core_net, core_net.lent)
                values = self._pointer(vector, (self.size,))
                self._copy("net_set", core_net.net, "parameters", values)
            if rows > core_net.rows:
                if self._call("net_reserve", core_net.net, rows):
                    raise _out_of_memory(f"a batch of {rows} rows", BATCH_REMEDY)
                core_net.rows = rows
            return self._call(name, core_net.net, *arguments)
        finally:
            if is_main:
                self._turn.release()
            elif len(self._spare_nets) < MOST_SPARE:
                core_net.parameters = None
                self._spare_nets.append(core_net)

    def _constant(self, name: str) -> int:
        return getattr(self.lib, f"NN_{name.upper()}")

    def _loss_settings(self, loss: str):
        """Return nn_loss_settings; the loss of --reference has no constants."""
        settings = self.ffi.new("nn_loss_settings *")
        settings.loss = self._constant(loss_name(loss))
        if loss != "reference":
            settings.constants = loss_of(loss).constants
        return settings

    def _function(self, name: str):
        return getattr(self.lib, name + self._suffix)

    def _call(self, name: str, *arguments):
        if name not in self._functions:
            self._functions[name] = self._function(name)
        return self._functions[name](*arguments)

    def _pointer(self, array, shape=None, writable=False, dtype=None):
        return pointer(self.ffi, array, dtype or self.dtype, shape, writable)

    def _column_specs(self, columns):
        """Return the columns of an embedding layer as the core reads them; the core
        keeps pointers to them and to their edges."""
        specs = self.ffi.new("nn_column[]", len(columns))
        edges = self._pointer(self._edges)
        for spec, column in zip(specs, columns, strict=True):
            spec.kind = self._constant(f"column_{column.kind}")
            spec.values = column.values
            spec.width = column.width
            spec.fill = column.fill
            spec.pieces = column.pieces
            spec.edges = edges
            spec.waves = column.waves
            edges += len(column.edges)
        return specs

    def _specs(self, layers):
        specs = self.ffi.new("nn_layer[]", len(layers))
        offset = 0
        for spec, layer in zip(specs, layers, strict=True):
            spec.kind = self._constant(layer.kind)
            spec.activation = self._constant(layer.activation)
            spec.function = self._constant(layer.function or "linear")
            setattr(spec, "in", layer.in_shape)
            spec.out = layer.out_shape
            spec.kernel = layer.kernel
            spec.stride = layer.stride
            spec.rate = layer.rate
            spec.pad_top = layer.pad_top
            spec.pad_left = layer.pad_left
            if layer.columns:
                spec.columns = self._columns
            spec.weight = spec.bias = -1
            if layer.weight_shape:
                spec.weight = offset
                spec.bias = offset + layer.parameters - layer.undecayed
                offset += layer.parameters
        return specs

    def describe(self) -> str:
        name = self.name
        if name != "seq":
            name += f" ({self.ffi.string(self.lib.nn_isa()).decode()})"
        if self.rank_group.size > 1:
            return f"{name}, {self.rank_group.size} ranks"
        return name

    def device_name(self) -> str:
        return processor_name()

    def threads_for(self, rows: int) -> int:
        return self._call("net_threads", self._main_net.net, rows)

    def routes(self, rows: int) -> list[str]:
        """See Engine.routes; net_route in nn.h names the kernels."""
        text = self.ffi.new("char[]", 256)
        lines = []
        for layer, name in enumerate(self._layer_names):
            self._call("net_route", self._main_net.net, rows, layer, text, len(text))
            lines.append(f"layer {layer} {name}: {self.ffi.string(text).decode()}")
        return lines

    def bytes(self) -> int:
        return self._call("net_bytes", self._main_net.net)

    def pack(self, count: int, rows: int) -> Pack:
        """Return networks side by side, each on one thread; where one alone gains more
        threads, they take turns."""
        if self.rank_group.size > 1 or count < self.threads_for(rows):
            return Turns(self, count)
        return CpuPack(self, count)

    def set(self, what: str, vector: np.ndarray) -> None:
        if what in ("parameters", "kept") or self._has_moments:
            values = self._pointer(vector, (self.length(what),))
            with self._alone(changes=what == "parameters") as net:
                self._copy("net_set", net, what, values)

    def length(self, what: str) -> int:
        return vector_length(self._layers, what)

    def get(self, what: str) -> np.ndarray:
        vector = np.empty(self.length(what), self.dtype)
        with self._alone() as net:
            self._copy("net_get", net, what, self._pointer(vector, writable=True))
        return vector

    def _copy(self, name: str, net, what: str, values) -> None:
        if self._call(name, net, self._constant(what), values):
            raise _out_of_memory(f"{what} of {self.size} parameters", LAYERS_REMEDY)

    def keep(self) -> None:
        with self._alone() as net:
            if self._call("net_keep", net):
                raise _out_of_memory(f"a copy of {self.size} parameters", LAYERS_REMEDY)

    def load(
        self,
        x: np.ndarray,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> CpuData:
        x = np.ascontiguousarray(x)
        rows = len(x)
        struct = self.ffi.new("nn_data *")
        if x.dtype.names:
            self._load_records(struct, x)
        else:
            self._load_numbers(struct, x)
        if y is not None:
            y = np.ascontiguousarray(y)
            if y.dtype == np.int32:
                struct.labels = self._pointer(y, (rows,), dtype=np.int32)
            else:
                struct.y = self._pointer(y, (rows, self.outputs))
        if weights is not None:
            weights = np.ascontiguousarray(weights)
            struct.weights = self._pointer(weights, (rows,))
        return CpuData(x, y, weights, struct, rows)

    def _load_numbers(self, struct, x: np.ndarray) -> None:
        """Point the core to numbers or bytes (rows, ...); bytes are no codes."""
        if x.ndim != 2:
            x = x.reshape(len(x), -1)
        struct.x_type = self.lib.NN_SAME_TYPE
        dtype = self.dtype
        if x.dtype == np.uint8 and not self._input_columns:
            struct.x_type = self.lib.NN_BYTES
            dtype = x.dtype
        struct.x = self._pointer(x, (len(x), self.inputs), dtype=dtype)
        if self._input_columns:
            check_rows(x, self._input_columns)

    def _load_records(self, struct, x: np.ndarray) -> None:
        """Point the core to records. ValueError for those that record_type does not
        make, or another network."""
        known, counts = self._records
        if x.dtype is not known:
            counts = counts_of(x.dtype, self.dtype)
            if not self._input_columns:
                raise ValueError(
                    f"expected rows of {self.dtype} numbers for a network without an embedding layer"
                )
            check_types(x, self._input_columns)
            self._records = x.dtype, counts
        check_codes(x, self._input_columns)
        struct.x = self._pointer(x.view(np.uint8), dtype=np.uint8)
        struct.x_type = self.lib.NN_RECORDS
        struct.record_bytes = x.dtype.itemsize
        struct.numbers, struct.codes4, struct.codes2, struct.codes1 = counts

    def progress(self, row: int = 0, step: int = 0, loss: float = 0.0) -> Progress:
        return self.ffi.new("nn_progress *", {"row": row, "step": step, "loss": loss})

    def epoch(
        self,
        data: CpuData,
        order: np.ndarray,
        settings: EpochSettings,
        progress: Progress,
    ) -> None:
        rows = self._rows(data, order)
        training = self.ffi.new("nn_training *", self._training(settings))
        with self._alone(changes=True) as net:
            failed = self._call(
                "net_epoch", net, data.struct, *rows, training, progress
            )
        if failed == -1:
            raise _out_of_memory(f"batches of {settings.batch} rows", BATCH_REMEDY)
        if failed:
            raise NnError(
                "an MPI operation between ranks failed; see the other ranks' output"
            )

    def _training(self, settings: EpochSettings) -> dict:
        """Return the settings as the core reads them (nn_training in nn.h)."""
        *shift, mirror = settings.moves(self._shape)
        return {
            "batch": settings.batch,
            "rates": settings.rates,
            "constants": settings.constants,
            "weight_decay": settings.weight_decay,
            "scale_rate": settings.scale_rate,
            "seed": settings.seed,
            "shift": shift,
            "mirror": mirror,
            "lowest": settings.lowest(self._layers),
            "optimizer": self._constant(settings.optimizer),
            "moments": len(settings.moments),
        }

    def record(self, batches: int, predicts: bool = False) -> None:
        steps = 7 + 3 * len(self._layer_names)
        threads = 1
        if batches <= MOST_BY_THREAD:
            threads = self.threads
        self._stamps = np.zeros((batches, threads, steps))
        self._last = np.zeros(threads)
        self._called_rows = []
        self._profile = self.ffi.new("nn_profile *")
        self._profile.capacity = batches
        self._profile.threads = threads
        self._profile.predicts = predicts
        for name, array in (("seconds", self._stamps), ("last", self._last)):
            place = self._pointer(array, dtype=np.float64, writable=True)
            setattr(self._profile, name, place)
        self._call("net_profile", self._main_net.net, self._profile)

    def recorded(self) -> list[list[TimedStep]]:
        """Return the steps of each batch or call since `record`, those of a thread in
        the order of time; they fill the batch."""
        if self._profile is None:
            return []
        batches = []
        for number in range(self._profile.batches):
            rows = 0
            if self._profile.predicts:
                rows = self._called_rows[number]
            batch = []
            for thread, stamps in enumerate(self._stamps[number]):
                if stamps[0]:  # else it had nothing to do
                    lane = f"thread {thread + 1}" if thread else ""
                    batch += self._steps(np.cumsum(stamps).tolist(), lane, rows)
            if batch:
                batches.append(batch)
        return batches

    def _steps(self, times: list[float], lane: str, rows: int) -> list[TimedStep]:
        """Return the steps of a thread in a batch. times: when each began, and the last
        one's end."""
        layers = range(len(self._layer_names))
        # what ranks do, and one alone does not
        communication = ("communication", None)
        common_update = ("update", None)
        steps = [("gather", None), *(("forward", i) for i in layers), ("loss", None)]
        for i in reversed(layers):
            steps += [("backward", i), ("update", i)]
        steps += [communication, common_update, communication, ("end", None)]
        of_training = {"loss", "backward", "update", "communication"}
        timed = []
        for step, begin, end in zip(steps, times, times[1:], strict=False):
            is_needless = step in (communication, common_update)
            if self._profile.predicts:
                is_needless = step[0] in of_training
            if end > begin or not is_needless:
                timed.append(TimedStep(*step, begin, end, lane, rows))
        return timed

    def gradients(
        self, x: np.ndarray, y: np.ndarray, seed: int = -1, step: int = 0
    ) -> tuple[float, np.ndarray, np.ndarray]:
        rows = len(x)
        grads = np.empty(self.size, self.dtype)
        dx = np.empty((rows, self.inputs), self.dtype)
        loss = self.ffi.new("double *")
        results = loss, self._pointer(grads), self._pointer(dx)
        inputs = self._pointer(x, (rows, self.inputs))
        targets = self._pointer(y, (rows, self.outputs))
        with self._alone() as net:
            failed = self._call(
                "net_gradients", net, *results, inputs, targets, rows, seed, step
            )
        if failed:
            raise _out_of_memory(f"the gradients of {rows} rows", "use fewer rows")
        return loss[0], grads, dx

    def _rows(self, data: CpuData, rows: np.ndarray | None):
        if rows is None:
            return self.ffi.NULL, data.rows
        if len(rows) and not 0 <= rows.min() <= rows.max() < data.rows:
            raise ValueError("row out of range")
        return self._pointer(rows, dtype=np.int64), len(rows)

    predict_once = Engine.predict_once

    def predict(
        self,
        data: CpuData,
        rows: np.ndarray | None = None,
        vector: np.ndarray | None = None,
    ) -> np.ndarray:
        indices, count = self._rows(data, rows)
        out = np.empty((count, self.outputs), self.dtype)
        most = min(count, self._block_rows)
        if self._profile is not None:
            self._called_rows.append(count)
        self._forward(
            "net_predict", most, vector, self._pointer(out), data.struct, indices, count
        )
        return out

    def loss(self, data: CpuData, rows: np.ndarray) -> float:
        indices = self._rows(data, rows)[0]
        most = min(len(rows), self._block_rows)
        return self._forward("net_loss", most, None, data.struct, indices, len(rows))


class CpuPack:
    """Networks in the C core side by side, each on one thread; the interface is Pack in
    engine.py."""

    def __init__(self, engine: CpuEngine, count: int):
        self.count = count
        self._engine = engine
        pack = engine._call("pack_new", *engine._plan, count, engine.threads)
        if pack == engine.ffi.NULL:
            raise self._out_of_memory()
        self._pack = engine.ffi.gc(pack, engine._function("pack_free"))

    def _out_of_memory(self) -> NnError:
        networks = f"{self.count} networks of {self._engine.size} parameters"
        return _out_of_memory(networks, "use fewer networks, or smaller layers")

    def describe(self) -> str:
        return f"{self.count} networks, {min(self.count, self._engine.threads)} at a time, each on one thread"

    def bytes(self) -> int:
        return self._engine._call("pack_bytes", self._pack)

    def _member(self, name: str, member: int, *arguments) -> None:
        if not 0 <= member < self.count:
            raise ValueError(f"member {member} of {self.count}")
        if self._engine._call(name, self._pack, member, *arguments):
            raise self._out_of_memory()

    def set(self, member: int, what: str, vector: np.ndarray) -> None:
        engine = self._engine
        values = engine._pointer(vector, (engine.length(what),))
        self._member("pack_set", member, engine._constant(what), values)

    def get(self, member: int, what: str) -> np.ndarray:
        engine = self._engine
        vector = np.empty(engine.length(what), engine.dtype)
        values = engine._pointer(vector, writable=True)
        self._member("pack_get", member, engine._constant(what), values)
        return vector

    def keep(self, member: int) -> None:
        self._member("pack_keep", member)

    def epoch(self, jobs: Sequence[PackJob]) -> None:
        structs = self._structs(jobs)
        for struct, job in zip(structs, jobs, strict=True):
            struct.training = self._engine._training(job.settings)
            struct.progress = job.progress
            if job.shuffle is not None:
                struct.shuffled = 1
                struct.stream = STREAM_SHUFFLE
                struct.lane = job.shuffle
        batch = max((min(job.settings.batch, len(job.rows)) for job in jobs), default=1)
        self._run("pack_epoch", structs, batch, _most_rows(jobs))
        if any(struct.failed for struct in structs):
            raise _out_of_memory(f"batches of {batch} rows", PACK_REMEDY)

    def predict(self, jobs: Sequence[PackJob]) -> list[np.ndarray]:
        engine = self._engine
        structs = self._structs(jobs)
        outs = [np.empty((len(job.rows), engine.outputs), engine.dtype) for job in jobs]
        for struct, out in zip(structs, outs, strict=True):
            struct.out = engine._pointer(out, writable=True)
        self._run("pack_predict", structs, self._block(jobs))
        return outs

    def loss(self, jobs: Sequence[PackJob]) -> list[float]:
        structs = self._structs(jobs)
        self._run("pack_loss", structs, self._block(jobs))
        return [struct.loss for struct in structs]

    def _block(self, jobs: Sequence[PackJob]) -> int:
        return min(_most_rows(jobs), self._engine._block_rows)

    def _structs(self, jobs: Sequence[PackJob]):
        """Return the jobs as the core reads them (nn_job in nn.h); the arrays stay the
        caller's."""
        check_members([job.member for job in jobs], self.count)
        structs = self._engine.ffi.new("nn_job[]", len(jobs))
        for struct, job in zip(structs, jobs, strict=True):
            struct.member = job.member
            struct.data = job.data.struct
            struct.rows, struct.n = self._engine._rows(job.data, job.rows)
        return structs

    def _run(self, name: str, structs, batch: int, rows: int = 0) -> None:
        if self._engine._call("pack_reserve", self._pack, max(batch, 1), rows):
            raise _out_of_memory(f"batches of {batch} rows", PACK_REMEDY)
        self._engine._call(name, self._pack, structs, len(structs))


def _most_rows(jobs: Sequence[PackJob]) -> int:
    return max((len(job.rows) for job in jobs), default=0)


def _out_of_memory(what: str, remedy: str) -> NnError:
    return NnError(f"out of memory for {what}; {remedy}")
