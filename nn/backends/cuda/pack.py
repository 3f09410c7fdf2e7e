"""Packs on the GPU: small networks side by side, each in a block of one launch
(small.py); all others take turns.

A member has the bits of the network alone: its block computes the same parts of a batch
and adds them up in the same order, and draws the same order of rows (shuffle.cu).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter

import numpy as np

from ...cluster import ALONE
from ...core.random import STREAM_SHUFFLE
from ..engine import EpochSettings, PackJob
from ..member import (
    check_members,
    check_vector,
    describe_turns,
    train_in_turns,
)
from .abi import CONTROL_TYPE, THREADS
from .data import check_numbers
from .device import cupy, shared_of_block
from .epoch import batch_weights, summed, total_weight, update_table
from .memory import whole_lines
from .program import (
    LINE,
    PRELUDE,
    Program,
    Purpose,
    epoch_source,
    losses_source,
    sources,
)
from .runner import batch_losses, compiled, compiling
from .small import Plan

# Parts of a batch that a block of a pack computes in the time in which the network
# alone, a part a block, computes all. Members that are too few for that to pay take
# turns.
PARTS_A_TURN = 4
# between two looks at the stop flags, before anybody knows how long they take
FIRST_BATCHES = 16
LONGEST_WAIT = 0.04  # seconds between two looks at the stop flags
# operations of a block in the time in which the engine starts a forward pass of one
# member
BLOCK_FLOPS = 1.5e7
# bytes for the orders and losses of the members that are trained at a time, or for
# their activations
PACK_BYTES = 1 << 30
# of the shared memory that shuffle.cu needs beside a row's 2
DRAWN_BYTES = 2 * 2 * (THREADS - 32) * 4
MOST_DRAWN = 1 << 16  # rows whose order it draws: their numbers have two bytes there

# Fields of EpochSettings of which members of one kernel have each a number of its own
# (_control, _updates); of the batches the kernel knows the rows.
OF_MEMBER = frozenset({"batch", "rates", "weight_decay", "seed"})
# Fields that update_table does not read; the rates are a list, and are compared apart.
NOT_IN_UPDATES = frozenset({"rates", "seed", "augment"})


def _all_fields_but(names: Collection[str]) -> attrgetter:
    """Return the function that gives the other fields of an EpochSettings, as a key:
    jobs of the same key may be treated as one. A new field is in every key until it is
    named above."""
    return attrgetter(*(f.name for f in fields(EpochSettings) if f.name not in names))


program_key = _all_fields_but(OF_MEMBER)
updates_key = _all_fields_but(NOT_IN_UPDATES)


class CudaPack:
    """Networks on one GPU; the interface is Pack in engine.py. Their vectors are there.
    rows: of most batches."""

    def __init__(self, engine, count: int, rows: int):
        self.count = count
        self._engine = engine
        self._rows = rows
        self._plans = {}
        self._kernels = {}
        self._chunks = {}
        # (members, parameters) of each vector that is there
        self._on_gpu: dict[str, object] = {}
        with engine.gpu_context(
            f"{count} networks of {engine.size} parameters",
            "use fewer networks, or smaller layers",
        ):
            self._matrix("parameters")

    def describe(self) -> str:
        with self._engine.gpu_context("a network's program"):
            together = self._side_by_side(
                self._engine.likely_purpose(self._rows), self.count
            )
        if together:
            return f"{self.count} networks, each in a block of the GPU"
        return describe_turns(self.count)

    def bytes(self) -> int:
        return self._engine.bytes() + sum(
            matrix.nbytes for matrix in self._on_gpu.values()
        )

    # ---- vectors

    def _matrix(self, what: str):
        """Return the members' vectors on the GPU; the first call makes them, of
        zeros."""
        if what not in self._on_gpu:
            # kernels load whole vectors
            size = max(1, whole_lines(self._engine.length(what)))
            self._on_gpu[what] = cupy().zeros((self.count, size), self._engine.dtype)
        return self._on_gpu[what]

    def set(self, member: int, what: str, vector: np.ndarray) -> None:
        engine = self._engine
        check_vector(engine, what, vector)
        check_members([member], self.count)
        with engine.gpu_context("the parameters"):
            if len(vector):
                self._matrix(what)[member, : len(vector)].set(
                    np.ascontiguousarray(vector), stream=engine.stream
                )
            engine.stream.synchronize()

    def get(self, member: int, what: str) -> np.ndarray:
        check_members([member], self.count)
        with self._engine.gpu_context("the parameters"):
            return self._matrix(what)[member, : self._engine.length(what)].get()

    def keep(self, member: int) -> None:
        check_members([member], self.count)
        with self._engine.gpu_context(
            "a copy of the parameters", "use fewer networks, or smaller layers"
        ):
            cupy().copyto(
                self._matrix("kept")[member], self._matrix("parameters")[member]
            )
            self._engine.stream.synchronize()

    def _check(self, jobs: Sequence[PackJob]) -> None:
        """Raise ValueError for members that there are not, or are there twice, and for
        rows that a data set has not."""
        check_members([job.member for job in jobs], self.count)
        checked = set()
        for place, job in zip(_places(jobs), jobs, strict=True):
            if (place, id(job.data)) not in checked:
                checked.add((place, id(job.data)))
                check_numbers(job.rows, job.data.rows)

    # ---- which way

    def _side_by_side(self, purpose: Purpose, members: int) -> bool:
        """Return whether that many members train together; the current GPU's memory
        decides."""
        plan = self._plan(purpose)
        return plan is not None and plan.fits() and members * PARTS_A_TURN >= plan.parts

    def _plan(self, purpose: Purpose) -> Plan | None:
        """Return what a block of the pack is to run; None: nothing does."""
        if purpose not in self._plans:
            plan = None
            if self._engine.runs_small(purpose):
                plan = self._engine.plan(purpose, pack=True)
            self._plans[purpose] = plan
        return self._plans[purpose]

    def epoch(self, jobs: Sequence[PackJob]) -> None:
        """Train every job's member; see Pack.epoch. Jobs whose batches are alike train
        together."""
        self._check(jobs)
        for purpose, group in self._by_purpose(jobs).items():
            with self._engine.gpu_context(f"batches of {purpose.rows} rows"):
                resident = all(job.data.resident for job in group)
                together = resident and self._side_by_side(purpose, len(group))
                if together:
                    for part in _in_memory(group, 0):
                        self._train(purpose, part)
            if not together:
                train_in_turns(self._engine, self, group)

    def _by_purpose(self, jobs: Sequence[PackJob]) -> dict[Purpose, list[PackJob]]:
        """Return the jobs that have rows left, by the purpose of their programs; it is
        found once for jobs that agree in all that it is made of."""
        groups = {}
        by_purpose = {}
        for job in jobs:
            left = len(job.rows) - job.progress.row
            if left > 0:
                rows = min(job.settings.batch, left)
                key = rows, id(job.data), program_key(job.settings)
                groups.setdefault(key, []).append(job)
        for (rows, _, _), group in groups.items():
            job = group[0]
            purpose = self._engine.epoch_purpose(job.data, job.settings, rows)
            by_purpose.setdefault(purpose, []).extend(group)
        return by_purpose

    # ---- training side by side

    def _train(self, purpose: Purpose, jobs: list[PackJob]) -> None:
        """Train members whose programs are alike, some batches of all at a time, until
        they end or are stopped."""
        kernel = self._kernel(purpose)
        progress = [job.progress for job in jobs]
        begun = np.array([counter.row for counter in progress])
        control, batches, _arrays = self._control(purpose, jobs, begun)
        arrivals = cupy().zeros(len(control), np.uint32)
        control["arrivals"] = (
            arrivals.data.ptr + np.arange(len(control)) * arrivals.itemsize
        )
        ends = batches.tolist()
        launched = []
        done = 0
        while True:
            active = [
                k
                for k, counter in enumerate(progress)
                if done < ends[k] and not counter.stop
            ]
            if not active:
                return
            if active != launched:
                launched = active
                on_gpu = cupy().asarray(control[active].view(np.uint8))
            chunk = self._chunks.get(purpose, FIRST_BATCHES)
            most = max(ends[k] for k in active) - done
            losses = [progress[k].loss for k in active]
            began = time.perf_counter()
            losses = kernel.run(on_gpu, losses, done, min(chunk, most), arrivals)
            if time.perf_counter() - began < LONGEST_WAIT / 2:
                self._chunks[purpose] = 2 * chunk
            done += min(chunk, most)
            taken = np.minimum(done, batches)
            trained = np.minimum(taken * control["batch"], control["count"])
            rows = (begun + trained).tolist()
            steps = (control["step"] + taken).tolist()
            for k, loss in zip(active, losses, strict=True):
                progress[k].row = rows[k]
                progress[k].step = steps[k]
                progress[k].loss = loss

    def _kernel(self, purpose: Purpose) -> SideBySide:
        if purpose not in self._kernels:
            plan = self._plan(purpose)
            with compiling:
                self._kernels[purpose] = SideBySide(plan, purpose, self._engine.dtype)
        return self._kernels[purpose]

    def _control(self, purpose: Purpose, jobs: list[PackJob], begun: np.ndarray):
        """Return (control structures of the jobs, their batches, arrays on the GPU that
        these point to). begun: the rows of the epoch before."""
        counts = np.array([len(job.rows) for job in jobs])
        batch = np.array([job.settings.batch for job in jobs])
        left = counts - begun
        batches = -(-left // batch)
        orders = Orders(jobs, counts, purpose.weighted)
        row_loss = cupy().empty(int(left.sum()))
        updates, at = self._updates(jobs, orders)
        control = controls(jobs, self._matrix("parameters"))
        members = np.array([job.member for job in jobs])
        for what in jobs[0].settings.moments:
            matrix = self._matrix(what)
            control[what] = matrix.data.ptr + members * matrix[:1].nbytes
        control["order"] = orders.addresses + 8 * begun
        control["count"] = left
        control["batch"] = batch
        control["row_loss"] = row_loss.data.ptr + 8 * (np.cumsum(left) - left)
        control["updates"] = updates.data.ptr + at * updates[0].nbytes
        control["seed"] = [job.settings.seed for job in jobs]
        control["step"] = [job.progress.step for job in jobs]
        return control, batches, (orders, row_loss, updates)

    def _updates(self, jobs: list[PackJob], orders: Orders):
        """Return the optimisers' numbers on the GPU, and at which batch each job's
        begin; jobs alike share them."""
        tables = []
        places = {}
        at = []
        batches = 0
        rates = {id(job.settings.rates): tuple(job.settings.rates) for job in jobs}
        for k, job in enumerate(jobs):
            settings = job.settings
            rows = len(job.rows)
            done = job.progress.row
            key = rows, done, job.progress.step, rates[id(settings.rates)]
            key += (updates_key(settings),)
            weights = None
            if job.data.weights is not None:
                key += (k,)  # the weights of its batches are those of its own order
                left = orders.on_host[k][done:]
                weights = batch_weights(job.data.weights, left, settings.batch, ALONE)
            if key not in places:
                table = update_table(
                    settings, job.progress, rows, self._engine.dtype, weights
                )
                tables.append(table)
                places[key] = batches
                batches += len(table)
            at.append(places[key])
        return cupy().asarray(np.concatenate(tables)), np.array(at)

    # ---- forward passes

    def predict(self, jobs: Sequence[PackJob]) -> list[np.ndarray]:
        return self._passes("predict", jobs)

    def loss(self, jobs: Sequence[PackJob]) -> list[float]:
        sums = self._passes("loss", jobs)
        weights = {}  # of the same rows of the same data
        means = []
        for job, place, loss in zip(jobs, _places(jobs), sums, strict=True):
            key = id(job.data), place
            if key not in weights:
                weights[key] = total_weight(job.data.weights, job.rows)
            if weights[key]:
                means.append(loss / weights[key])
            else:
                means.append(0.0)
        return means

    def _passes(self, kind: str, jobs: Sequence[PackJob]) -> list:
        """Return what a forward pass gives for each job: outputs (rows, outputs), or
        the sum of the rows' losses. Jobs whose passes are alike are in a launch
        together."""
        engine = self._engine
        by_rows = {}
        by_purpose = {}
        results = {}  # of members
        self._check(jobs)
        for job in jobs:
            by_rows.setdefault((id(job.data), len(job.rows)), []).append(job)
        for (_, count), group in by_rows.items():
            purpose = engine.forward_purpose(kind, group[0].data, count)
            batches = -(-count // purpose.rows)
            by_purpose.setdefault((purpose, batches), []).extend(group)
        for (purpose, batches), group in by_purpose.items():
            passes = None
            with engine.gpu_context(
                "a forward pass", "use fewer networks, or a smaller network"
            ):
                if self._passes_pay(purpose, batches, group):
                    passes = self._forward(purpose)
                if passes:
                    parameters = self._matrix("parameters")
                    for part in _in_memory(group, passes.bytes):
                        members = [job.member for job in part]
                        outputs = passes.run(parameters, part, batches)
                        results.update(zip(members, outputs, strict=True))
            if not passes:
                for job in group:
                    results[job.member] = self._alone(kind, job)
        return [results[job.member] for job in jobs]

    def _passes_pay(self, purpose: Purpose, batches: int, jobs: list[PackJob]) -> bool:
        """Return whether one block a member is as quick as the whole GPU for one member
        after the other."""
        work = batches * self._engine.flops(purpose)
        return 0 < work <= BLOCK_FLOPS * len(jobs) and all(
            job.data.resident for job in jobs
        )

    def _forward(self, purpose: Purpose) -> Passes | None:
        """Return the kernel of a forward pass; None where the network alone has
        several."""
        if purpose not in self._kernels:
            engine = self._engine
            passes = None
            program = engine.whole_epochs(purpose)
            if program:
                with compiling:
                    passes = Passes(program, engine.dtype, engine.outputs)
            self._kernels[purpose] = passes
        return self._kernels[purpose]

    def _alone(self, kind: str, job: PackJob):
        """Return what _passes returns for a job, of the whole GPU."""
        engine = self._with(job)
        if kind == "predict":
            return engine.predict(job.data, job.rows)
        return summed(engine.row_losses(job.data, job.rows))

    def _with(self, job: PackJob):
        """Return the engine with the member's parameters."""
        with self._engine.gpu_context("the parameters"):
            size = max(1, self._engine.size)
            parameters = self._matrix("parameters")[job.member, :size]
            cupy().copyto(self._engine.vector("parameters"), parameters)
        return self._engine


def _places(jobs: Sequence[PackJob]) -> list[tuple]:
    """Return for each job what is the same for rows of the same memory: members may
    have views of their own of them."""
    places = {}  # of arrays, of which most jobs share one
    for job in jobs:
        rows = job.rows
        if id(rows) not in places:
            address = rows.__array_interface__["data"]
            places[id(rows)] = address, rows.shape, rows.strides, rows.dtype
    return [places[id(job.rows)] for job in jobs]


def _in_memory(jobs: list[PackJob], job_bytes: int) -> Iterator[list[PackJob]]:
    """Yield jobs in lists that the GPU has room for: orders, losses, and job_bytes of
    each."""
    most_rows = max(len(job.rows) for job in jobs)
    count = max(1, PACK_BYTES // (16 * most_rows + job_bytes))
    for begin in range(0, len(jobs), count):
        yield jobs[begin : begin + count]


def start(kernel, networks: int, arguments: tuple, shared_bytes: int) -> None:
    """Start a kernel with one block a network. It is compiled as for the network alone,
    whose blocks meet, so that its code is the same; but these never meet, and need not
    all be there at once as a cooperative launch wants."""
    grid = (1, networks)
    block = (THREADS,)
    kernel.kernel(
        grid, block, arguments, shared_mem=shared_bytes, enable_cooperative_groups=False
    )


class SideBySide:
    """The kernel of a pack, ready to run: a block a network."""

    def __init__(self, plan: Plan, purpose: Purpose, dtype: np.dtype):
        self.shared_bytes = plan.bytes
        self.kernel = compiled(plan.source(), dtype.name, True).get_function("epoch")
        self.kernel.max_dynamic_shared_size_bytes = self.shared_bytes
        self.add = compiled(losses_source(), "float64", False).get_function(
            "add_batch_losses"
        )

    def run(
        self, control, losses: list[float], first_batch: int, batches: int, arrivals
    ) -> list[float]:
        """Train networks on batches from `first_batch` on; return their sums of losses.
        losses: these sums before."""
        networks = len(losses)
        totals = cupy().asarray(np.array(losses))
        arguments = (control, np.int64(first_batch), np.int64(batches))
        arrivals.data.memset_async(0, arrivals.nbytes)
        start(self.kernel, networks, arguments, self.shared_bytes)
        sums = batch_losses(control, networks, first_batch, batches)
        arguments = (totals, sums, np.int64(networks), np.int64(batches))
        self.add((-(-networks // THREADS),), (THREADS,), arguments)
        return totals.get().tolist()


class Passes:
    """Forward passes of many networks in one launch: the program of the network alone,
    by a block each."""

    def __init__(self, program: Program, dtype: np.dtype, outputs: int):
        self.program = program
        self.dtype = dtype
        self.outputs = outputs
        values = {
            "rows": program.purpose.rows * program.row_values,
            "gradients": program.gradient_values,
            "partial_sums": program.partial_sum_values,
        }
        # each network's
        self._values = {
            what: max(LINE, whole_lines(count)) for what, count in values.items()
        }
        self.bytes = sum(self._values.values()) * dtype.itemsize  # of a network
        self.kernel = compiled(epoch_source(program), dtype.name, True).get_function(
            "epoch"
        )

    def run(self, parameters, jobs: list[PackJob], batches: int) -> list:
        """Return each job's outputs (rows, outputs), or the sum of its rows' losses.
        parameters: of all members."""
        count = len(jobs)
        counts = np.array([len(job.rows) for job in jobs])
        rows = int(counts.sum())
        begins = np.cumsum(counts) - counts
        addresses, _given = rows_on_gpu(jobs)
        predicts = self.program.purpose.kind == "predict"
        if predicts:
            member = "out"
            result = cupy().empty((rows, self.outputs), self.dtype)
        else:
            member = "row_loss"
            result = cupy().empty(rows)
        control = controls(jobs, parameters)
        arrays = {
            what: cupy().zeros((count, size), self.dtype)
            for what, size in self._values.items()
        }
        arrays["arrivals"] = cupy().zeros(count, np.uint32)
        for what, array in arrays.items():
            control[what] = array.data.ptr + np.arange(count) * array[:1].nbytes
        control[member] = result.data.ptr + begins * result[:1].nbytes
        control["order"] = addresses
        control["count"] = counts
        control["batch"] = control["capacity"] = self.program.purpose.rows
        on_gpu = cupy().asarray(control.view(np.uint8))
        arguments = (on_gpu, np.int64(0), np.int64(batches))
        start(self.kernel, count, arguments, self.program.shared_bytes)
        if predicts:
            return np.split(result.get(), begins[1:])
        return summed_losses(on_gpu, count)


def summed_losses(control, networks: int) -> list[float]:
    """Return the sum of the row losses of each network in `control`, on the GPU, as
    `summed` has it."""
    sums = cupy().empty(networks)
    kernel = compiled(losses_source(), "float64", False).get_function("add_row_losses")
    kernel((1, networks), (THREADS,), (sums, control), shared_mem=8 * THREADS)
    return sums.get().tolist()


def controls(jobs: list[PackJob], parameters) -> np.ndarray:
    """Return the jobs' control structures, with their parameters and data."""
    control = np.zeros(len(jobs), CONTROL_TYPE)
    members = np.array([job.member for job in jobs])
    control["parameters"] = parameters.data.ptr + members * parameters[:1].nbytes
    addresses = {}  # of x, y and weights of a data set; 0: it has none
    for job in jobs:
        if id(job.data) not in addresses:
            arrays = job.data.on_gpu
            addresses[id(job.data)] = [
                a.data.ptr if a is not None else 0 for a in arrays
            ]
    table = np.array([addresses[id(job.data)] for job in jobs])
    control["x"], control["y"], control["weights"] = table.T
    control["size"] = 1
    return control


def rows_on_gpu(jobs: list[PackJob]):
    """Return (the address of each job's rows as they stand, the arrays there); jobs of
    the same rows share them."""
    arrays = {}
    addresses = []
    for place, job in zip(_places(jobs), jobs, strict=True):
        if place not in arrays:
            rows = np.ascontiguousarray(job.rows, np.int64)
            arrays[place] = cupy().asarray(rows)
        addresses.append(arrays[place].data.ptr)
    return np.array(addresses), arrays


class Orders:
    """The row order of each job on the GPU: drawn there, or with `on_host` on the
    processor, where it is kept too."""

    def __init__(self, jobs: list[PackJob], counts: np.ndarray, on_host: bool):
        self.addresses, self._given = rows_on_gpu(jobs)
        self.on_host: dict[int, np.ndarray] = {}
        shuffled = [k for k, job in enumerate(jobs) if job.shuffle is not None]
        most = int(counts.max())
        shared = DRAWN_BYTES + 2 * most
        if on_host or shared > shared_of_block() or most > MOST_DRAWN:
            self.on_host = {k: job.order() for k, job in enumerate(jobs)}
            self._drawn = cupy().asarray(np.concatenate(list(self.on_host.values())))
            self.addresses = self._drawn.data.ptr + 8 * (np.cumsum(counts) - counts)
        elif shuffled:
            self._draw([jobs[k] for k in shuffled], shuffled, counts[shuffled], shared)

    def _draw(
        self, jobs: list[PackJob], places: list[int], counts: np.ndarray, shared: int
    ) -> None:
        """Let the GPU draw the orders of jobs, those at these places."""
        self._drawn = cupy().empty(int(counts.sum()), np.int64)
        to = self._drawn.data.ptr + 8 * (np.cumsum(counts) - counts)
        seeds = [job.settings.seed for job in jobs]
        epochs = [job.shuffle for job in jobs]
        self._deals = cupy().asarray(
            np.stack([self.addresses[places], to, counts, seeds, epochs], axis=1)
        )
        kernel = compiled(shuffle_source(), "float32", False).get_function("shuffle")
        kernel.max_dynamic_shared_size_bytes = shared
        kernel((len(jobs),), (THREADS,), (self._deals,), shared_mem=shared)
        self.addresses[places] = to


def shuffle_source() -> str:
    return (
        PRELUDE
        + f"enum {{ STREAM_SHUFFLE = {STREAM_SHUFFLE} }};\n"
        + sources("common", "shuffle")
    )
