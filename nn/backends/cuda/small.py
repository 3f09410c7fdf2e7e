"""Small networks of dense layers on the GPU: a kernel that trains whole epochs with the
weights in shared memory.

One block where a batch is small: it computes the batch and steps the weights itself.
Several where it is large: each computes a few rows, their gradients meet in global
memory, and two barriers of the grid a batch are all that is waited for.

In a pack (pack.py) each network has one block, and a batch that is large is computed
part by part: its parts are those of the network alone, and so is the order in which
their gradients are added up. One block for the network alone is the same kernel, a
network a row of the grid.
"""

from __future__ import annotations

import numpy as np

from ...layers import Layer
from ...utils import plural
from .abi import MOMENTS, THREADS, UPDATE
from .device import cupy, processors
from .program import BYTE_ROWS, PRELUDE, Program, Purpose, lanes_of, sources, switches
from .runner import WholeEpochs

LEAST_SHARED = 48 << 10  # bytes a block may have on any GPU without asking
ONE_BLOCK_WORK = 60_000  # products of weights and rows; more are worth several blocks
# parameters a block can take through its few rows in a few microseconds
MOST_WORK = 3_000
MOST_EACH = 8  # rows a thread computes at once
UPDATE_WORK = 45  # instructions of a parameter's step, beside those of its gradient
LEAST_ROWS_OF_BLOCK = 5  # of a block, where there are several
# blocks of a pack for which a multiprocessor is to have the registers, if it has the
# shared memory
RESIDENT = 3
# bytes of a multiprocessor's shared memory that each block takes beside its own
RESERVED_BYTES = 1 << 10


def fits(layers: list[Layer], purpose: Purpose, dtype: np.dtype) -> bool:
    """Return whether this kernel suits a network and batch."""
    if (
        purpose.kind != "train"
        or purpose.rows_as.kind == "records"
        or any(layer.kind != "dense" for layer in layers)
    ):
        return False
    return Plan(layers, "", purpose, dtype).fits()


class Plan:
    """Blocks, rows a block, and where everything is in shared memory. pack: of networks
    with a block each."""

    def __init__(
        self,
        layers: list[Layer],
        loss: str,
        purpose: Purpose,
        dtype: np.dtype,
        pack: bool = False,
    ):
        self.layers = layers
        self.loss = loss
        self.purpose = purpose
        self.dtype = np.dtype(dtype)
        self.parameters = sum(layer.parameters for layer in layers)
        self.vector = 16 // self.dtype.itemsize
        self._divide()
        self.pack = pack and self.parts > 1
        if pack:
            self.blocks = 1
        else:
            self.blocks = self.parts
        self._lay_out(1)
        if self.pack:
            self._lay_out(self._slots())

    def _divide(self) -> None:
        """Divide a batch into parts, of which the network alone has each in a block."""
        rows = self.purpose.rows
        work = self.purpose.rows * self.parameters
        if work <= ONE_BLOCK_WORK:
            parts = 1
        else:
            parts = min(processors(), -(-rows // LEAST_ROWS_OF_BLOCK))
        self.part_rows = -(-rows // parts)
        self.parts = -(-rows // self.part_rows)

    def _slots(self) -> int:
        """Return how many parts a block of a pack computes at a time: all if it has
        room for them, else as many as two blocks of a multiprocessor have room for, or
        else one block."""
        attributes = cupy().cuda.Device().attributes
        most = attributes.get("MaxSharedMemoryPerBlockOptin", LEAST_SHARED)
        half = (
            attributes.get("MaxSharedMemoryPerMultiprocessor", LEAST_SHARED) // 2
            - RESERVED_BYTES
        )
        for room in (min(half, most), most):
            for slots in range(self.parts, 0, -1):
                self._lay_out(slots)
                if self.bytes <= (most if slots == self.parts else room):
                    return slots
        return 1

    def _resident(self) -> int:
        """Return how many blocks of a pack a multiprocessor is to have at a time, at
        least."""
        whole = (
            cupy()
            .cuda.Device()
            .attributes.get("MaxSharedMemoryPerMultiprocessor", LEAST_SHARED)
        )
        return max(1, min(RESIDENT, whole // (self.bytes + RESERVED_BYTES)))

    def fits(self) -> bool:
        """Return whether the GPU has the shared memory, and a block's work is short
        enough."""
        limit = (
            cupy()
            .cuda.Device()
            .attributes.get("MaxSharedMemoryPerBlockOptin", LEAST_SHARED)
        )
        work = self.parameters * self.part_rows
        return self.bytes <= limit and work <= max(
            ONE_BLOCK_WORK, MOST_WORK * self.part_rows
        )

    def each(self, width: int) -> int:
        """Return the rows that a thread computes at once: as few as give every value a
        thread; in a pack those that take the fewest loads and products, one after the
        other."""
        if self.pack:
            turns = {
                each: -(-(-(-self.rows // each) * width) // THREADS)
                for each in range(1, MOST_EACH + 1)
            }
            return min(
                turns,
                key=lambda each: turns[each] * (self.vector + each * (1 + self.vector)),
            )
        enough = (
            each
            for each in range(1, MOST_EACH)
            if -(-self.rows // each) * width <= THREADS
        )
        return min(next(enough, MOST_EACH), self.rows)

    def inputs_at_once(self, layer: Layer) -> int:
        """Return the inputs whose gradients, with one output, a thread computes: those
        that take the fewest loads, products and steps, one after the other."""
        if self.pack:
            rows = self.part_rows * self.parts
        else:
            rows = self.rows

        def work(inputs: int) -> int:
            turns = -(-(-(-(layer.inputs + 1) // inputs) * layer.outputs) // THREADS)
            return turns * (
                rows * (1 + -(-inputs // self.vector) + inputs) + UPDATE_WORK * inputs
            )

        return min((2 * self.vector, self.vector, 1), key=work)

    # ---- layout; sizes as in small.cu

    def filled(self, n: int) -> int:
        """Return n values filled up to whole vectors."""
        return -(-n // self.vector) * self.vector

    def spread(self, n: int) -> int:
        """Return n values filled up to an odd number of vectors."""
        return self.filled(n) + (
            0 if self.filled(n) // self.vector % 2 else self.vector
        )

    def weights(self, layer: Layer) -> int:
        return self.filled(layer.inputs + 1) * self.spread(layer.outputs)

    def _place(self, name: str, values: int) -> None:
        self.places[name] = self.values
        self.values += self.filled(values)

    def _lay_out(self, slots: int) -> None:
        """Find everything a place, for that many parts of a batch at a time."""
        self.slots = slots
        if self.pack:
            self.chunks = -(-self.parts // slots)
        else:
            self.chunks = 1
        self.rows = slots * self.part_rows
        if self.pack:
            row = self.spread
        else:
            row = self.filled
        self.padded = self._padded()
        self.values = 0
        self.places = {}
        first = self.layers[0]
        last = self.layers[-1]
        if self.blocks == 1:
            moments = MOMENTS[self.purpose.optimizer]
        else:
            moments = 0
        for index, layer in enumerate(self.layers):
            for name in ("w", "m", "v")[: 1 + moments]:
                self._place(f"{name}{index}", self.weights(layer))
            if self.chunks > 1:
                self._place(f"total{index}", self.weights(layer))
                self._place(f"share{index}", self.weights(layer))
        for parity in (0, 1):  # two batches: one is computed, one is loading
            self._place(f"u{parity}", len(UPDATE))
            self._place(f"x{parity}", self.padded * row(first.inputs + 1))
            # weights behind targets
            self._place(
                f"y{parity}", self.padded * (last.outputs + self.purpose.weighted)
            )
        for index, layer in enumerate(self.layers):
            self._place(f"out{index}", self.padded * row(layer.outputs + 1))
            self._place(f"dz{index}", self.padded * row(layer.outputs))
        if self.blocks > 1:
            self._place("sums", THREADS)
        self.numbers = self.values  # then the row numbers of two batches, 8 bytes each
        self.bytes = self.values * self.dtype.itemsize + 2 * 8 * self.padded

    def _padded(self) -> int:
        """Return the rows that need memory: a thread's last rows may be further
        ones."""
        if not self.pack:
            return self.rows + MOST_EACH
        each = {self.each(layer.outputs) for layer in self.layers}
        each |= {self.each(layer.inputs) for layer in self.layers[1:]}
        return max(-(-self.rows // rows) * rows for rows in each)

    # ---- source; in the kernel a layer's sizes are L0, L1 ..., and a place has its
    # name here

    def source(self) -> str:
        optimizer = self.purpose.optimizer
        last = len(self.layers) - 1
        if self.blocks > 1:
            first_part = "blockIdx.x"
        elif self.pack:
            first_part = f"step % {self.chunks} * {self.slots}"
        else:
            first_part = "0"
        types = []
        at = [0]
        pack = str(self.pack).lower()
        for i, layer in enumerate(self.layers):
            sizes = layer.inputs, layer.outputs, self.rows, self.padded, pack
            types.append(
                f"typedef small_layer<{', '.join(map(str, sizes))}> L{i};\n"
                f'static_assert(L{i}::INPUTS * L{i}::W == {self.weights(layer)}, "small.py has other sizes");'
            )
            at.append(at[-1] + layer.parameters)
        layers = range(len(self.layers))
        vectors = [("parameters", "w"), ("moment1", "m"), ("moment2", "v")]
        moves = [
            (f"L{i}", f"{name}{i}", f"c.{vector} + {at[i]}")
            for vector, name in vectors
            if f"{name}0" in self.places
            for i in layers
        ]
        imports = _lines(
            f"small_import<{layer}>({here}, {there});" for layer, here, there in moves
        )
        leave = _lines(
            f"small_export<{layer}>({there}, {here});" for layer, here, there in moves
        )
        after = ""
        if self.blocks > 1:  # else the next batch begins with a barrier
            updates = _lines(
                f"small_update<L{i}, {optimizer}, {self.parts}, {self.parameters}>"
                f"({at[i]}, c.partial_sums + {at[i]}, sums, c, u, block_range_from({at[i] // 32 + i}));"
                for i in layers
            )
            meet = "grid_barrier(c.arrivals, target);"
            leave = ""
            after = _lines([meet, updates, meet, imports, "__syncthreads();"])
        ones = [(f"x{p}", "L0::X", "L0::I") for p in (0, 1)] + [
            (f"out{i}", f"L{i}::OUT", f"L{i}::O") for i in layers
        ]
        kinds = f"{int(self.purpose.rows_as == BYTE_ROWS)}, {int(self.purpose.labels)}"
        files = sources("common", "activation", "loss", "optimizer", "small")
        return (
            switches(self.purpose)
            + PRELUDE
            + files
            + EPOCH_KERNEL.format(
                types=_lines(types),
                threads=THREADS,
                values=self.values,
                numbers=self.numbers,
                padded=self.padded,
                chunks=self.chunks,
                first_part=first_part,
                resident=f", {self._resident()}" if self.pack else "",
                rows=f"batch_rows<{self.parts}, {self.part_rows}, {self.slots}, {pack}>",
                places=", ".join(
                    f"*{name} = memory + {place}" for name, place in self.places.items()
                ),
                ones=_lines(
                    f"fill_ones({name}, {self.padded}, {row}, {width});"
                    for name, row, width in ones
                ),
                imports=imports,
                ahead="unsigned target = 0;" if self.blocks > 1 else "",
                after=after,
                leave=leave,
                data=f"fetch_data<L0, L{last}::O, {kinds}>",
                forward=self._forward(),
                backward=self._backward_inputs(),
                parameters=self._backward_parameters(at),
            )
        )

    def routes(self) -> list[str]:
        lines = [f"{Small.about}, {plural(self.blocks, 'block')}"]
        for index, layer in enumerate(self.layers):
            if index:
                backward = "small_backward_input, small_backward_parameters"
            else:
                backward = "small_backward_parameters"
            lines.append(
                f"layer {index} {layer.item or layer.kind}: forward small_forward; backward {backward}"
            )
        return lines

    def _forward(self) -> str:
        lines = []
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            if i == last:
                activation = "LINEAR"
            else:
                activation = layer.activation.upper()
            function = f"small_forward<L{i}, {self.each(layer.outputs)}, {activation}>"
            lines.append(f"{function}(out{i}, {_input(i)}, w{i});\n__syncthreads();")
        names = f"L{last}, {self.loss.upper()}, {self.layers[last].activation.upper()}"
        sizes = f"{int(self.purpose.labels)}, {lanes_of(self.layers[last].outputs)}"
        arguments = f"dz{last}, out{last}, y, c.row_loss + b.row, b.n, rows"
        return _lines(
            [*lines, f"small_loss<{names}, {sizes}>({arguments});\n__syncthreads();"]
        )

    def _backward_inputs(self) -> str:
        """Return the calls for the gradients of all layers' inputs, from the last down:
        before the weights' step."""
        lines = []
        for i in range(len(self.layers) - 1, 0, -1):
            below = self.layers[i - 1].activation.upper()
            width = self.layers[i].inputs
            function = f"small_backward_input<L{i}, {self.each(width)}, {below}>"
            lines.append(
                f"{function}(dz{i - 1}, dz{i}, {_input(i)}, w{i});\n__syncthreads();"
            )
        return _lines(lines)

    def _backward_parameters(self, at: list[int]) -> str:
        """Return those for the gradients of all parameters, side by side: a layer's
        first is the next thread's. They take a step at once, or are a part of a sum."""
        lines = []
        start = 0
        if self.pack:
            parts = f"{self.parts}, {self.part_rows}, {self.slots}"
        else:
            parts = f"1, {self.rows}, 1"
        for i, layer in enumerate(self.layers):
            inputs = self.inputs_at_once(layer)
            if self.chunks > 1:
                waiting = f"rows.first, total{i}, share{i}"
            else:
                waiting = "0, memory, memory"
            if self.blocks > 1:
                part = (
                    f"c.partial_sums + (size_t)blockIdx.x * {self.parameters} + {at[i]}"
                )
                take = f"keep_partial_sum<L{i}>{{{part}}}"
            else:
                moments = (
                    f"{m}{i}" if f"{m}{i}" in self.places else "memory" for m in "mv"
                )
                take = f"step_at_once<L{i}, {self.purpose.optimizer}>{{w{i}, {', '.join(moments)}, u}}"
            function = f"small_backward_parameters<L{i}, {parts}, {inputs}, {start}>"
            lines.append(f"{function}(dz{i}, {_input(i)}, {waiting}, {take});")
            start += -(-(layer.inputs + 1) // inputs) * layer.outputs
        return _lines(lines)


_lines = "\n".join


def _input(index: int) -> str:
    if index:
        return f"out{index - 1}"
    return "x"


EPOCH_KERNEL = """
{types}
/* A step is a batch, or the next parts of one. */
__device__ inline batch batch_at(const control &c, int64 index, int step)
{{
    return batch_of(c, (index + step / {chunks}) * c.batch, index + step / {chunks});
}}

__device__ inline {rows} rows_at(int step)
{{
    {rows} rows = {{(int)({first_part})}};
    return rows;
}}

extern "C" __global__ void __launch_bounds__({threads}{resident})
epoch(const control *where, int64 index, int64 batches)
{{
    const control c = where[blockIdx.y];
    real *memory = (real *)BLOCK_MEMORY;
    real {places};
    int64 *numbers = (int64 *)(memory + {numbers});
    {ahead}
    fill(memory, {values}, 0);
    __syncthreads();
{ones}
{imports}
    /* row numbers of a step are fetched two steps ahead, its data one step ahead */
    batch b = batch_at(c, index, 0), next = batch_at(c, index, 1);
    fetch_rows<{padded}>(numbers, c, b, rows_at(0));
    fetch_rows<{padded}>(numbers + {padded}, c, next, rows_at(1));
    copy_group();
    copy_wait<0>();
    __syncthreads();
    fetch_update(u0, b);
    {data}(x0, y0, numbers, c);
    for (int step = 0; step < (int)batches * {chunks} && b.n; step++) {{
        const int parity = step & 1;
        const {rows} rows = rows_at(step);
        real *x = parity ? x1 : x0;
        const void *y = parity ? y1 : y0;
        const batch later = batch_at(c, index, step + 2);
        copy_wait<0>();
        __syncthreads();
        fetch_update(parity ? u0 : u1, next);
        {data}(parity ? x0 : x1, parity ? y0 : y1, numbers + (parity ? 0 : {padded}), c);
        fetch_rows<{padded}>(numbers + parity * {padded}, c, later, rows_at(step + 2));
        copy_group();
{forward}
{backward}
        const update u = *(const update *)(parity ? u1 : u0);
{parameters}
{after}
        b = next, next = later;
    }}
    copy_wait<0>();
    __syncthreads();
{leave}
}}
"""


class Small(WholeEpochs):
    """The kernel, ready to run; see runner.Runner."""

    about = "runner Small: whole epochs in one launch, weights in shared memory"

    def __init__(self, plan: Plan, dtype: np.dtype, parameters):
        if plan.blocks > 1:
            sums = plan.blocks * plan.parameters
        else:
            sums = 0
        program = Program(
            plan.purpose, partial_sum_values=sums, shared_bytes=plan.bytes
        )
        super().__init__(program, dtype, parameters, plan.source())
        self.blocks = plan.blocks
        self.kernel.max_dynamic_shared_size_bytes = plan.bytes
