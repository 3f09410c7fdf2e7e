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
from ...nn_aux import loss_name
from ...utils import plural
from .abi import MOMENTS, THREADS, UPDATE
from .device import processors, shared_of_block, shared_of_processor
from .program import (
    BYTE_ROWS,
    ONE_BLOCK_WORK,
    PRELUDE,
    Program,
    Purpose,
    constant_line,
    lanes_of,
    source_file,
    sources,
    switches,
)
from .runner import WholeEpochs

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
        or purpose.scales
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
        one_block_room = shared_of_block()
        half_room = shared_of_processor() // 2 - RESERVED_BYTES
        for room in (min(one_block_room, half_room), one_block_room):
            for slots in range(self.parts, 0, -1):
                self._lay_out(slots)
                all_at_once = slots == self.parts and self.bytes <= one_block_room
                if all_at_once or self.bytes <= room:
                    return slots
        return 1

    def _resident(self) -> int:
        """Return how many blocks of a pack a multiprocessor is to have at a time, at
        least."""
        room = shared_of_processor() // (self.bytes + RESERVED_BYTES)
        return max(1, min(RESIDENT, room))

    def fits(self) -> bool:
        """Return whether the GPU has the shared memory, and a block's work is short
        enough."""
        most_work = max(ONE_BLOCK_WORK, MOST_WORK * self.part_rows)
        work = self.parameters * self.part_rows
        return self.bytes <= shared_of_block() and work <= most_work

    def rows_of_thread(self, width: int) -> int:
        """Return the rows that a thread computes at once: as few as give every value a
        thread; in a pack those that take the fewest loads and products, one after the
        other."""

        def work(rows: int) -> int:
            turns = -(-self._threads(rows, width) // THREADS)
            return turns * (self.vector + rows * (1 + self.vector))

        if self.pack:
            return min(range(1, MOST_EACH + 1), key=work)
        rows = 1
        while rows < MOST_EACH and self._threads(rows, width) > THREADS:
            rows += 1
        return min(rows, self.rows)

    def _threads(self, rows_of_thread: int, width: int) -> int:
        """Return the threads that compute all rows, each rows_of_thread of them."""
        return -(-self.rows // rows_of_thread) * width

    def inputs_at_once(self, layer: Layer) -> int:
        """Return the inputs whose gradients, with one output, a thread computes: those
        that take the fewest loads, products and steps, one after the other."""
        if self.pack:
            rows = self.part_rows * self.parts
        else:
            rows = self.rows

        def work(inputs: int) -> int:
            threads = -(-(layer.inputs + 1) // inputs) * layer.outputs
            turns = -(-threads // THREADS)
            loads = 1 + -(-inputs // self.vector)
            return turns * (rows * (loads + inputs) + UPDATE_WORK * inputs)

        return min((2 * self.vector, self.vector, 1), key=work)

    # ---- layout; sizes as in small.cu

    def filled(self, n: int) -> int:
        """Return n values filled up to whole vectors."""
        return -(-n // self.vector) * self.vector

    def spread(self, n: int) -> int:
        """Return n values filled up to an odd number of vectors."""
        filled = self.filled(n)
        if filled // self.vector % 2:
            return filled
        return filled + self.vector

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
        first_layer = self.layers[0]
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
            self._place(f"x{parity}", self.padded * row(first_layer.inputs + 1))
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
        widths = [layer.outputs for layer in self.layers]
        widths += [layer.inputs for layer in self.layers[1:]]
        return max(
            -(-self.rows // rows) * rows for rows in map(self.rows_of_thread, widths)
        )

    # ---- source: the network, in front of the kernel in small_epoch.cu; its layers'
    # sizes are L0, L1 ..., and the places of shared memory have their names here

    def source(self) -> str:
        files = sources("common", "activation", "loss", "optimizer", "small")
        network = [self._types(), self._constants(), *self._functions()]
        return "\n".join(
            [
                switches(self.purpose) + constant_line(self.loss) + PRELUDE,
                files,
                *network,
                source_file("small_epoch"),
            ]
        )

    def _types(self) -> str:
        """Return the types with the sizes of the layers, and of a block's rows."""
        pack = str(self.pack).lower()
        lines = []
        for i, layer in enumerate(self.layers):
            sizes = (
                f"{layer.inputs}, {layer.outputs}, {self.rows}, {self.padded}, {pack}"
            )
            lines.append(f"typedef small_layer<{sizes}> L{i};")
            lines.append(
                f"static_assert(L{i}::INPUTS * L{i}::W == {self.weights(layer)}, "
                '"small.py has other sizes");'
            )
        rows = f"{self.parts}, {self.part_rows}, {self.slots}, {pack}"
        return _lines([*lines, f"typedef batch_rows<{rows}> part_rows;"])

    def _constants(self) -> str:
        """Return struct plan: all sizes that the kernel knows, and the places of shared
        memory."""
        resident = 0  # the compiler chooses how many registers a thread has
        if self.pack:
            resident = self._resident()
        constants = {
            "BLOCKS": self.blocks,
            "RESIDENT": resident,
            "CHUNKS": self.chunks,
            "SLOTS": self.slots,
            "PADDED": self.padded,
            "OUTPUTS": self.layers[-1].outputs,
            "BYTES": int(self.purpose.rows_as == BYTE_ROWS),
            "LABELS": int(self.purpose.labels),
            "VALUES": self.values,
            "NUMBERS": self.numbers,
        }
        constants |= {name.upper(): place for name, place in self.places.items()}
        members = ", ".join(f"{name} = {value}" for name, value in constants.items())
        return f"struct plan {{\n    enum {{ {members} }};\n}};"

    def _functions(self) -> list[str]:
        """Return the functions that the kernel calls, in its order. Several blocks do
        not export, one does not update: the kernel does not call these then."""
        network = "real *memory, const control &c"
        return [
            _function("fill_ones_of_layers", "real *memory", self._ones()),
            _function("import_parameters", network, self._moves("import")),
            _function("export_parameters", network, self._moves("export")),
            _function(
                "forward",
                "real *memory, const real *x, const void *y, const control &c, "
                "const batch &b, const part_rows &rows",
                self._forward(),
            ),
            _function(
                "backward_inputs",
                "real *memory, const real *x",
                self._backward_inputs(),
            ),
            _function(
                "backward_parameters",
                "real *memory, const real *x, const control &c, const part_rows &rows, "
                "const update &u",
                self._backward_parameters(),
            ),
            _function(
                "update_parameters",
                "real *memory, const control &c, const update &u",
                self._updates(),
            ),
        ]

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

    def _starts(self) -> list[int]:
        """Return where each layer's parameters begin in a parameter vector."""
        counts = [layer.parameters for layer in self.layers]
        return [sum(counts[:index]) for index in range(len(counts))]

    def _ones(self) -> list[str]:
        """Return the calls that write the ones behind the rows of every x."""
        lines = [
            f"fill_ones(memory + plan::X{odd}, {self.padded}, L0::X, L0::I);"
            for odd in (0, 1)
        ]
        for i in range(len(self.layers)):
            lines.append(
                f"fill_ones(memory + plan::OUT{i}, {self.padded}, L{i}::OUT, L{i}::O);"
            )
        return lines

    def _moves(self, way: str) -> list[str]:
        """Return the calls that import the parameters and moments that are kept in
        shared memory, or export them."""
        lines = []
        for vector, name in (("parameters", "w"), ("moment1", "m"), ("moment2", "v")):
            if f"{name}0" not in self.places:
                continue
            for i, start in enumerate(self._starts()):
                shared = f"memory + plan::{name.upper()}{i}"
                stored = f"c.{vector} + {start}"
                if way == "import":
                    lines.append(f"small_import<L{i}>({shared}, {stored});")
                else:
                    lines.append(f"small_export<L{i}>({stored}, {shared});")
        return lines

    def _forward(self) -> list[str]:
        """Return the calls of the forward pass and the loss."""
        lines = []
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            if i == last:
                activation = "LINEAR"
            else:
                activation = layer.activation.upper()
            settings = f"L{i}, {self.rows_of_thread(layer.outputs)}, {activation}"
            arguments = f"memory + plan::OUT{i}, {_input(i)}, memory + plan::W{i}"
            lines += [f"small_forward<{settings}>({arguments});", BARRIER]
        names = f"L{last}, {loss_name(self.loss).upper()}, {self.layers[last].activation.upper()}"
        sizes = f"plan::LABELS, {lanes_of(self.layers[last].outputs)}"
        values = f"memory + plan::DZ{last}, memory + plan::OUT{last}, y"
        lines.append(
            f"small_loss<{names}, {sizes}>({values}, c.row_loss + b.row, b.n, rows);"
        )
        return [*lines, BARRIER]

    def _backward_inputs(self) -> list[str]:
        """Return the calls for the gradients of all layers' inputs, from the last down:
        before the weights' step."""
        lines = []
        for i in range(len(self.layers) - 1, 0, -1):
            below = self.layers[i - 1].activation.upper()
            settings = f"L{i}, {self.rows_of_thread(self.layers[i].inputs)}, {below}"
            gradients = f"memory + plan::DZ{i - 1}, memory + plan::DZ{i}"
            values = f"{_input(i)}, memory + plan::W{i}"
            lines += [
                f"small_backward_input<{settings}>({gradients}, {values});",
                BARRIER,
            ]
        return lines

    def _backward_parameters(self) -> list[str]:
        """Return those for the gradients of all parameters, side by side: a layer's
        first is the next thread's. They take a step at once, or are a part of a sum."""
        lines = []
        first_thread = 0
        if self.pack:
            parts = f"{self.parts}, {self.part_rows}, {self.slots}"
        else:
            parts = f"1, {self.rows}, 1"
        for i, (layer, start) in enumerate(
            zip(self.layers, self._starts(), strict=True)
        ):
            inputs = self.inputs_at_once(layer)
            if self.chunks > 1:
                sums = f"rows.first, memory + plan::TOTAL{i}, memory + plan::SHARE{i}"
            else:
                sums = "0, memory, memory"
            values = f"memory + plan::DZ{i}, {_input(i)}, {sums}"
            settings = f"L{i}, {parts}, {inputs}, {first_thread}"
            take = self._takes_gradient(i, start)
            lines.append(f"small_backward_parameters<{settings}>({values}, {take});")
            first_thread += -(-(layer.inputs + 1) // inputs) * layer.outputs
        return lines

    def _takes_gradient(self, i: int, start: int) -> str:
        """Return what takes each gradient of layer i, whose parameters begin at `start`
        of a vector."""
        if self.blocks > 1:
            block = f"(size_t)blockIdx.x * {self.parameters}"
            return f"keep_partial_sum<L{i}>{{c.partial_sums + {block} + {start}}}"
        vectors = [f"memory + plan::W{i}"]
        for name in "mv":
            if f"{name}{i}" in self.places:
                vectors.append(f"memory + plan::{name.upper()}{i}")
            else:
                vectors.append("memory")
        return (
            f"step_at_once<L{i}, {self.purpose.optimizer}>{{{', '.join(vectors)}, u}}"
        )

    def _updates(self) -> list[str]:
        """Return the calls that add up the gradients of several blocks and step the
        parameters."""
        lines = []
        if self.blocks > 1:
            for i, start in enumerate(self._starts()):
                settings = (
                    f"L{i}, {self.purpose.optimizer}, {self.parts}, {self.parameters}"
                )
                values = f"{start}, c.partial_sums + {start}, memory + plan::SUMS"
                blocks = f"block_range_from({start // 32 + i})"
                lines.append(f"small_update<{settings}>({values}, c, u, {blocks});")
        return lines


BARRIER = "__syncthreads();"
_lines = "\n".join


def _function(name: str, parameters: str, statements: list[str]) -> str:
    """Return a function of CUDA source."""
    body = "".join(f"    {statement}\n" for statement in statements)
    return f"__device__ inline void {name}({parameters})\n{{\n{body}}}"


def _input(index: int) -> str:
    """Return the address of a layer's input."""
    if index:
        return f"memory + plan::OUT{index - 1}"
    return "x"


class Small(WholeEpochs):
    """The kernel, ready to run; see runner.Runner."""

    about = "runner Small: whole epochs in one launch, weights in shared memory"

    def __init__(self, plan: Plan, dtype: np.dtype, parameters):
        if plan.blocks > 1:
            sums = plan.blocks * plan.parameters
        else:
            sums = 0
        program = Program(
            plan.purpose,
            plan.loss,
            partial_sum_values=sums,
            shared_bytes=plan.bytes,
        )
        super().__init__(program, dtype, parameters, plan.source())
        self.blocks = plan.blocks
        self.kernel.max_dynamic_shared_size_bytes = plan.bytes
