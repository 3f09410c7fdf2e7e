"""Small networks of dense layers on the GPU: a kernel that trains whole epochs with the weights in shared memory.

One block where a batch is small: it computes the batch and steps the weights itself. Several where it is large: each
computes a few rows, their gradients meet in global memory, and two barriers of the grid a batch are all that is
waited for.

In a pack (pack.py) each network has one block, and a batch that is large is computed part by part: its parts are those
of the network alone, and so is the order in which their gradients are added up. One block for the network alone is the
same kernel, a network a row of the grid.
"""

from __future__ import annotations

import numpy as np

from ...layers import Layer
from .abi import MOMENTS, THREADS, UPDATE
from .device import cupy, processors
from .program import BYTES, PRELUDE, Program, Purpose, lanes_of, sources, switches
from .runner import Runner

LEAST_SHARED = 48 << 10  # bytes a block may have on any GPU without asking
ONE_BLOCK_WORK = 60_000  # products of weights and rows; more are worth several blocks
MOST_WORK = 3_000  # parameters a block can take through its few rows in a few microseconds
MOST_EACH = 8  # rows a thread computes at once
UPDATE_WORK = 45  # instructions of a parameter's step, beside those of its gradient
LEAST_ROWS = 5  # of a block, where there are several
RESIDENT = 3  # blocks of a pack for which a multiprocessor is to have the registers, if it has the shared memory
RESERVED = 1 << 10  # bytes of a multiprocessor's shared memory that each block takes beside its own


def fits(layers: list[Layer], purpose: Purpose, dtype: np.dtype) -> bool:
    """Return whether this kernel suits a network and batch."""
    if purpose.kind != "train" or purpose.rows_as.kind == "records" or any(layer.kind != "dense" for layer in layers):
        return False
    return Plan(layers, "", purpose, dtype).fits()


class Plan:
    """Blocks, rows a block, and where everything is in shared memory. pack: of networks with a block each."""

    def __init__(self, layers: list[Layer], loss: str, purpose: Purpose, dtype: np.dtype, pack: bool = False):
        self.layers, self.loss, self.purpose, self.dtype = layers, loss, purpose, np.dtype(dtype)
        self.parameters = sum(layer.parameters for layer in layers)
        self.vector = 16 // self.dtype.itemsize
        self._divide()
        self.pack = pack and self.parts > 1
        self.blocks = 1 if pack else self.parts
        self._lay_out(1)
        if self.pack:
            self._lay_out(self._slots())

    def _divide(self) -> None:
        """Divide a batch into parts, of which the network alone has each in a block."""
        rows, work = self.purpose.rows, self.purpose.rows * self.parameters
        parts = 1 if work <= ONE_BLOCK_WORK else min(processors(), -(-rows // LEAST_ROWS))
        self.part_rows = -(-rows // parts)
        self.parts = -(-rows // self.part_rows)

    def _slots(self) -> int:
        """Return how many parts a block of a pack computes at a time: all if it has room for them, else as many as two
        blocks of a multiprocessor have room for, or else one block."""
        attributes = cupy().cuda.Device().attributes
        most = attributes.get("MaxSharedMemoryPerBlockOptin", LEAST_SHARED)
        half = attributes.get("MaxSharedMemoryPerMultiprocessor", LEAST_SHARED) // 2 - RESERVED
        for room in (min(half, most), most):
            for slots in range(self.parts, 0, -1):
                self._lay_out(slots)
                if self.bytes <= (most if slots == self.parts else room):
                    return slots
        return 1

    def _resident(self) -> int:
        """Return how many blocks of a pack a multiprocessor is to have at a time, at least."""
        whole = cupy().cuda.Device().attributes.get("MaxSharedMemoryPerMultiprocessor", LEAST_SHARED)
        return max(1, min(RESIDENT, whole // (self.bytes + RESERVED)))

    def fits(self) -> bool:
        """Return whether the GPU has the shared memory, and a block's work is short enough."""
        limit = cupy().cuda.Device().attributes.get("MaxSharedMemoryPerBlockOptin", LEAST_SHARED)
        work = self.parameters * self.part_rows
        return self.bytes <= limit and work <= max(ONE_BLOCK_WORK, MOST_WORK * self.part_rows)

    def each(self, width: int) -> int:
        """Return the rows that a thread computes at once: as few as give every value a thread; in a pack those that
        take the fewest loads and products, one after the other."""
        if self.pack:
            turns = {each: -(-(-(-self.rows // each) * width) // THREADS) for each in range(1, MOST_EACH + 1)}
            return min(turns, key=lambda each: turns[each] * (self.vector + each * (1 + self.vector)))
        enough = (each for each in range(1, MOST_EACH) if -(-self.rows // each) * width <= THREADS)
        return min(next(enough, MOST_EACH), self.rows)

    def inputs_at_once(self, layer: Layer) -> int:
        """Return the inputs whose gradients, with one output, a thread computes: those that take the fewest loads,
        products and steps, one after the other."""
        rows = self.part_rows * self.parts if self.pack else self.rows

        def work(inputs: int) -> int:
            turns = -(-(-(-(layer.inputs + 1) // inputs) * layer.outputs) // THREADS)
            return turns * (rows * (1 + -(-inputs // self.vector) + inputs) + UPDATE_WORK * inputs)

        return min((2 * self.vector, self.vector, 1), key=work)

    # ---- layout; sizes as in small.cu

    def filled(self, n: int) -> int:
        """Return n values filled up to whole vectors."""
        return -(-n // self.vector) * self.vector

    def spread(self, n: int) -> int:
        """Return n values filled up to an odd number of vectors."""
        return self.filled(n) + (0 if self.filled(n) // self.vector % 2 else self.vector)

    def weights(self, layer: Layer) -> int:
        return self.filled(layer.inputs + 1) * self.spread(layer.outputs)

    def _place(self, name: str, values: int) -> None:
        self.places[name] = self.values
        self.values += self.filled(values)

    def _lay_out(self, slots: int) -> None:
        """Find everything a place, for that many parts of a batch at a time."""
        self.slots, self.chunks, self.rows = slots, -(-self.parts // slots) if self.pack else 1, slots * self.part_rows
        row = self.spread if self.pack else self.filled
        self.padded = self._padded()
        self.values, self.places = 0, {}
        first, last = self.layers[0], self.layers[-1]
        moments = MOMENTS[self.purpose.optimizer] if self.blocks == 1 else 0
        for index, layer in enumerate(self.layers):
            for name in ("w", "m", "v")[: 1 + moments]:
                self._place(f"{name}{index}", self.weights(layer))
            for name in ("total", "share") if self.chunks > 1 else ():
                self._place(f"{name}{index}", self.weights(layer))
        for parity in (0, 1):  # two batches: one is computed, one is loading
            self._place(f"u{parity}", len(UPDATE))
            self._place(f"x{parity}", self.padded * row(first.inputs + 1))
            self._place(f"y{parity}", self.padded * (last.outputs + self.purpose.weighted))  # weights behind targets
        for index, layer in enumerate(self.layers):
            self._place(f"out{index}", self.padded * row(layer.outputs + 1))
            self._place(f"dz{index}", self.padded * row(layer.outputs))
        if self.blocks > 1:
            self._place("sums", THREADS)
        self.numbers = self.values  # then the row numbers of two batches, 8 bytes each
        self.bytes = self.values * self.dtype.itemsize + 2 * 8 * self.padded

    def _padded(self) -> int:
        """Return the rows that need memory: a thread's last rows may be further ones."""
        if not self.pack:
            return self.rows + MOST_EACH
        each = {self.each(layer.outputs) for layer in self.layers}
        each |= {self.each(layer.inputs) for layer in self.layers[1:]}
        return max(-(-self.rows // rows) * rows for rows in each)

    # ---- source

    def at(self, name: str) -> str:
        return f"(memory + {self.places[name]})"

    def type(self, index: int) -> str:
        """Return the template argument that names a layer's sizes."""
        layer = self.layers[index]
        return f"small_layer<{layer.inputs}, {layer.outputs}, {self.rows}, {self.padded}, {str(self.pack).lower()}>"

    def source(self) -> str:
        layers, optimizer = range(len(self.layers)), self.purpose.optimizer
        first_part = "blockIdx.x" if self.blocks > 1 else f"step % {self.chunks} * {self.slots}" if self.pack else "0"
        first, last = self.layers[0], self.layers[-1]
        each_layer = [(i, self.type(i), self._parameter_at(i)) for i in layers]
        sizes = "\n".join(
            f'static_assert({t}::INPUTS * {t}::W == {self.weights(layer)}, "small.py has other sizes");'
            for layer, (_, t, _) in zip(self.layers, each_layer, strict=True)
        )
        imports = "\n".join(f"small_import<{t}>({self.at(f'w{i}')}, c.parameters + {at});" for i, t, at in each_layer)
        kinds = f"{int(self.purpose.rows_as == BYTES)}, {int(self.purpose.labels)}"
        data = f"fetch_data<{self.type(0)}, {last.outputs}, {kinds}>"
        moments = [(f"moment{n}", m) for n, m in ((1, "m"), (2, "v")) if f"{m}0" in self.places]
        if self.blocks == 1:
            ahead, after = "", ""  # the next batch begins with a barrier
            enter = "\n".join(
                f"small_import<{t}>({self.at(f'{m}{i}')}, c.{vector} + {at});"
                for vector, m in moments
                for i, t, at in each_layer
            )
            leave = "\n".join(
                f"small_export<{t}>(c.{vector} + {at}, {self.at(f'{m}{i}')});"
                for vector, m in [("parameters", "w"), *moments]
                for i, t, at in each_layer
            )
        else:
            ahead, enter, leave = "unsigned target = 0;", "", ""
            updates = "\n".join(
                f"small_update<{t}, {optimizer}, {self.parts}, {self.parameters}>"
                f"({at}, c.partial_sums + {at}, {self.at('sums')}, c, u, block_range_from({at // 32 + i}));"
                for i, t, at in each_layer
            )
            meet = "grid_barrier(c.arrivals, target);"
            after = f"{meet}\n{updates}\n{meet}\n{imports}\n__syncthreads();"
        ones = [(f"x{p}", f"{self.type(0)}::X", first.inputs) for p in (0, 1)]
        ones += [(f"out{i}", f"{t}::OUT", self.layers[i].outputs) for i, t, _ in each_layer]
        files = sources("common", "activation", "loss", "optimizer", "small")
        return switches(self.purpose) + PRELUDE + files + EPOCH.format(
            sizes=sizes, threads=THREADS, values=self.values, numbers=self.numbers, padded=self.padded,
            chunks=self.chunks, first_part=first_part, resident=f", {self._resident()}" if self.pack else "",
            rows=f"batch_rows<{self.parts}, {self.part_rows}, {self.slots}, {str(self.pack).lower()}>",
            ones="\n".join(f"fill_ones({self.at(n)}, {self.padded}, {row}, {w});" for n, row, w in ones),
            imports=imports, ahead=ahead, enter=enter, leave=leave, data=data, after=after,
            **{name: self.at(name) for name in ("u0", "u1", "x0", "x1", "y0", "y1")},
            forward=self._forward(), backward=self._backward_inputs(), parameters=self._backward_parameters(),
        )  # fmt: skip

    def routes(self) -> list[str]:
        lines = [f"{Small.about}, {self.blocks} block{'s' * (self.blocks > 1)}"]
        for index, layer in enumerate(self.layers):
            backward = "small_backward_input, small_backward_parameters" if index else "small_backward_parameters"
            lines.append(f"layer {index} {layer.item or layer.kind}: forward small_forward; backward {backward}")
        return lines

    def _parameter_at(self, index: int) -> int:
        return sum(layer.parameters for layer in self.layers[:index])

    def _input(self, index: int) -> str:
        return "x" if index == 0 else self.at(f"out{index - 1}")

    def _forward(self) -> str:
        lines, last = [], len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            activation = "LINEAR" if index == last else layer.activation.upper()
            lines.append(
                f"small_forward<{self.type(index)}, {self.each(layer.outputs)}, {activation}>"
                f"({self.at(f'out{index}')}, {self._input(index)}, {self.at(f'w{index}')});\n__syncthreads();"
            )
        layer = self.layers[last]
        lines.append(
            f"small_loss<{self.type(last)}, {self.loss.upper()}, {layer.activation.upper()}, "
            f"{int(self.purpose.labels)}, {lanes_of(layer.outputs)}>"
            f"({self.at(f'dz{last}')}, {self.at(f'out{last}')}, y, c.row_loss + b.row, b.n, rows);\n__syncthreads();"
        )
        return "\n".join(lines)

    def _backward_inputs(self) -> str:
        """Return the calls for the gradients of all layers' inputs, from the last down: before the weights' step."""
        lines = []
        for index in range(len(self.layers) - 1, 0, -1):
            below, width = self.layers[index - 1].activation.upper(), self.layers[index].inputs
            lines.append(
                f"small_backward_input<{self.type(index)}, {self.each(width)}, {below}>"
                f"({self.at(f'dz{index - 1}')}, {self.at(f'dz{index}')}, {self._input(index)}, {self.at(f'w{index}')});"
                "\n__syncthreads();"
            )
        return "\n".join(lines)

    def _backward_parameters(self) -> str:
        """Return those for the gradients of all parameters, side by side: a layer's first is the next thread's."""
        lines, start = [], 0
        for index, layer in enumerate(self.layers):
            inputs, dz, x = self.inputs_at_once(layer), self.at(f"dz{index}"), self._input(index)
            if self.pack:
                waiting = [self.at(f"{name}{index}") if self.chunks > 1 else "memory" for name in ("total", "share")]
                first = "rows.first" if self.chunks > 1 else "0"
                function = f"small_backward_parts<{self.type(index)}, {self.parts}, {self.part_rows}, {self.slots}"
                arguments = f"{dz}, {x}, {first}, {', '.join(waiting)}"
            else:
                function, arguments = f"small_backward_parameters<{self.type(index)}", f"{dz}, {x}"
            lines.append(f"{function}, {inputs}, {start}>({arguments}, {self._take(index)});")
            start += -(-(layer.inputs + 1) // inputs) * layer.outputs
        return "\n".join(lines)

    def _take(self, index: int) -> str:
        """Return what takes the gradients of a layer's parameters: a step at once, or a part of a sum."""
        if self.blocks > 1:
            part = f"c.partial_sums + (size_t)blockIdx.x * {self.parameters} + {self._parameter_at(index)}"
            return f"keep_partial_sum<{self.type(index)}>{{{part}}}"
        moments = [self.at(f"{m}{index}") if f"{m}{index}" in self.places else "memory" for m in "mv"]
        vectors = ", ".join([self.at(f"w{index}"), *moments])
        return f"step_at_once<{self.type(index)}, {self.purpose.optimizer}>{{{vectors}, u}}"


EPOCH = """
{sizes}
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
    int64 *numbers = (int64 *)(memory + {numbers});
    {ahead}
    fill(memory, {values}, 0);
    __syncthreads();
{ones}
{imports}
{enter}
    /* row numbers of a step are fetched two steps ahead, its data one step ahead */
    batch b = batch_at(c, index, 0), next = batch_at(c, index, 1);
    fetch_rows<{padded}>(numbers, c, b, rows_at(0));
    fetch_rows<{padded}>(numbers + {padded}, c, next, rows_at(1));
    copy_group();
    copy_wait<0>();
    __syncthreads();
    fetch_update({u0}, b);
    {data}({x0}, {y0}, numbers, c);
    for (int step = 0; step < (int)batches * {chunks} && b.n; step++) {{
        const int parity = step & 1;
        const {rows} rows = rows_at(step);
        real *x = parity ? {x1} : {x0};
        const void *y = parity ? {y1} : {y0};
        const batch later = batch_at(c, index, step + 2);
        copy_wait<0>();
        __syncthreads();
        fetch_update(parity ? {u0} : {u1}, next);
        {data}(parity ? {x0} : {x1}, parity ? {y0} : {y1}, numbers + (parity ? 0 : {padded}), c);
        fetch_rows<{padded}>(numbers + parity * {padded}, c, later, rows_at(step + 2));
        copy_group();
{forward}
{backward}
        const update u = *(const update *)(parity ? {u1} : {u0});
{parameters}
{after}
        b = next, next = later;
    }}
    copy_wait<0>();
    __syncthreads();
{leave}
}}
"""


class Small(Runner):
    """The kernel, ready to run; see runner.Runner."""

    about = "runner Small: whole epochs in one launch, weights in shared memory"

    def __init__(self, layers: list[Layer], loss: str, purpose: Purpose, dtype: np.dtype, parameters):
        plan = Plan(layers, loss, purpose, dtype)
        self.blocks, self.shared_bytes = plan.blocks, plan.bytes
        program = Program(purpose, partial_sum_values=plan.blocks * plan.parameters if plan.blocks > 1 else 0)
        super().__init__(program, dtype, parameters, plan.source())
        self.kernel = self.module.get_function("epoch")
        self.kernel.max_dynamic_shared_size_bytes = plan.bytes

    def run(self, first: int, batches: int) -> None:
        if self.blocks > 1:
            self.arrivals.data.memset_async(0, 4)
        arguments = (self.control, np.int64(first), np.int64(batches))
        self.kernel((self.blocks,), (THREADS,), arguments, shared_mem=self.shared_bytes)
