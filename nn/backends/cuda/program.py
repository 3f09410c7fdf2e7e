"""The work of a GPU on one batch, as a list of phases: from layers to calls of the
functions in the .cu files.

An op is such a call. The ops of one phase do not wait for each other; a phase waits for
the one before it. The same list becomes one kernel that runs whole epochs, its blocks
meeting at a barrier after each phase (runner.WholeEpochs), or a kernel a phase,
replayed as a graph, beside calls of a library (runner.Phases).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from ...layers import Layer
from ...nn_aux import loss_of
from .abi import declarations

SOURCES = [
    "common",
    "activation",
    "loss",
    "gemm",
    "dense",
    "conv",
    "conv_direct",
    "conv_winograd",
    "pool",
    "pad",
    "dropout",
    "embedding",
    "gather",
    "optimizer",
]
LINE = 32  # values; buffers begin at multiples of it
ONE_BLOCK_WORK = 60_000  # products of weights and rows; more are worth several blocks
# product -> its part of a kernel's name
PASSES = {"forward": "forward", "input": "backward_input"}


@dataclass(frozen=True)
class Buffer:
    """Values in the GPU's memory, from value `at` of an array on.

    The array is a member of struct control for the kernels, an attribute of the runner
    for libraries. Of `rows`, value `at` of a row stands for all rows of a batch;
    `out_rows` is `out` from the batch's first row on, `at` values a row.
    """

    # parameters, gradients, rows, partial_sums, input_gradient, out, out_rows
    array: str
    at: int = 0

    def __str__(self) -> str:
        """Return its address in CUDA source; {batch} stands for the batch's name."""
        if self.array == "rows":
            return f"c.rows + c.capacity * {self.at}LL"
        if self.array == "out_rows":
            return f"c.out + {{batch}}.row * {self.at}LL"
        return f"c.{self.array} + {self.at}LL"

    def plus(self, values: int) -> Buffer:
        """Return the place that many values further on."""
        return Buffer(self.array, self.at + values)


# of sums that several blocks share, until the next phase
PARTIAL_SUMS = Buffer("partial_sums")
# arguments of an op: struct control, struct batch, its rows
CONTROL = "c"
BATCH = "{batch}"
BATCH_ROWS = "{batch}.n"


@dataclass(frozen=True)
class Op:
    """A call of a function of the .cu files by `blocks` blocks, or a call of a library:
    host(runner, rows)."""

    function: str  # its name, or the library's
    settings: tuple = ()  # template arguments
    # Buffers, numbers, None for NULL, and the above; a block_range comes last by
    # itself. Of a library: where its result goes
    arguments: tuple = ()
    blocks: int = 1
    host: Callable[[object, int], None] | None = None
    step: tuple[str, int | None] = ("", None)  # its step in a profile: (name, layer)

    @property
    def gives_gradients(self) -> bool:
        """Return whether it gives those of parameters: the other ops of its phase can
        wait until these are sent."""
        if not self.arguments:
            return False
        to = self.arguments[0]
        return isinstance(to, Buffer) and to.array == "gradients"

    def call(self, batch: str, first_block: int) -> str:
        """Return the call in CUDA source, for the batch of that name, by the blocks
        from `first_block` on."""
        settings = ", ".join(map(str, self.settings))
        arguments = ["0" if a is None else str(a) for a in self.arguments]
        text = ", ".join([*arguments, f"block_range_from({first_block})"])
        return f"{self.function}<{settings}>({text.format(batch=batch)});"


Phase = list[Op]


@dataclass(frozen=True)
class RowFormat:
    """How a data set stores the inputs of a row. Records are those of
    nn/core/records.py."""

    # plain: as the network computes with them, bytes: uint8 that counts as x / 255,
    # records
    kind: str = "plain"
    row_bytes: int = 0  # of a record
    counts: tuple[int, ...] = ()  # of its numbers, and of its codes of 4, 2 and 1 bytes


PLAIN = RowFormat()
BYTE_ROWS = RowFormat("bytes")


@dataclass(frozen=True)
class Purpose:
    """The purpose of a program, and with which data and settings."""

    kind: str  # train, gradients, loss, predict
    rows: int  # of a batch
    labels: bool = False  # targets are class indices
    rows_as: RowFormat = PLAIN  # inputs in the data set
    weighted: bool = False  # rows have weights
    dropout: bool = False  # dropout acts
    moves: tuple[int, int, int] = (0, 0, 0)  # how images are moved: EpochSettings.moves
    optimizer: str = ""  # SGD, MOMENTUM, ADAM
    timed: bool = False  # every op is a phase of its own, so that it can be timed
    # mirrored, central: the batch is shared by the members of a group; "": it is not
    distribute: str = ""
    # the parameters take their step here, not on another member
    updates_weights: bool = True
    lowest: int = 0  # index of the lowest layer that learns
    scales: bool = False  # the first dense layer's inputs have trained scales

    @property
    def backward(self) -> bool:
        return self.kind in ("train", "gradients")


@dataclass
class LayerNode:
    """A layer in the program: its neighbours, its place in the parameter vector, its
    activation here, its buffers."""

    layer: Layer
    index: int  # in the network, flatten counted: the layer of dropout's masks
    at: int  # of its weights in a parameter vector
    activation: str  # of its op; linear where the loss applies it
    node_below: LayerNode | None = None
    node_above: LayerNode | None = None
    activation_below: str = "linear"  # that gave x
    x: Buffer | None = None
    out: Buffer | None = None
    dz: Buffer | None = None
    dx: Buffer | None = None  # None: not needed
    gradient: Buffer | None = None
    row_splits: int = 1  # partial sums over rows that its gradient comes in
    # the sum of these, where members of a group add theirs up
    gradient_sum: Buffer | None = None
    # partial sums that its outputs come in and that the layer above adds up
    k_splits: int = 0
    # its outputs, the loss and dx are one op: last_layer in dense.cu
    loss_fused: bool = False
    # its kernels, rotated and transformed, where conv_winograd.cu computes dx
    rotated: Buffer | None = None

    def product(
        self, product: str
    ) -> tuple[Buffer, tuple[Buffer, ...], tuple, tuple, str]:
        """Return of a product, forward or input, (where its result goes, what it and
        its end are computed from, the shapes of a row's results and of what they are
        sums of, the activation at its end)."""
        layer = self.layer
        if product == "forward":
            return (
                self.out,
                (self.x, self.weight, self.bias),
                layer.out_shape,
                layer.in_shape,
                self.activation,
            )
        return (
            self.dx,
            (self.dz, self.weight, self.x),
            layer.in_shape,
            layer.out_shape,
            self.activation_below,
        )

    @property
    def weight(self) -> Buffer:
        return Buffer("parameters", self.at)

    @property
    def bias(self) -> Buffer:
        """Return the place of its biases, behind the weights."""
        return self.weight.plus(self.layer.parameters - self.layer.biases)

    @property
    def undecayed(self) -> Buffer:
        """Return the place of the parameters that weight decay leaves alone: biases, or
        frequencies."""
        return self.weight.plus(self.layer.parameters - self.layer.undecayed)


@dataclass
class Program:
    """Phases, and the memory that they need: values a row of the batch, and gradient
    values."""

    purpose: Purpose
    loss: str
    layers: list[Layer] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    row_values: int = 0
    gradient_values: int = 0
    partial_sum_values: int = 0
    shared_bytes: int = 0
    # of the gradients, at their beginning: what members of a group add up
    sum_values: int = 0
    # how members communicate, and how many values at a time
    sent: list[tuple[str, int]] = field(default_factory=list)
    # arrays in CUDA source that ops name as arguments
    declarations: list[str] = field(default_factory=list)

    @property
    def work(self) -> int:
        """Return the products of weights and rows of a batch's forward pass."""
        return self.purpose.rows * sum(layer.parameters for layer in self.layers)


def lanes_of(width: int) -> int:
    """Return how many threads share a row of that many outputs: a warp, or one."""
    if width > 2:
        return 32
    return 1


def layer_routes(program: Program) -> list[str]:
    """Return a line for each layer that computes something: the functions of its
    forward and backward pass."""
    functions: dict[tuple[int, str], list[str]] = {}
    for op in (op for phase in program.phases for op in phase):
        name, layer = op.step
        if layer is not None and name in ("forward", "backward"):
            functions.setdefault((layer, name), []).append(op.function)
    lines = []
    for index, layer in enumerate(program.layers):
        passes = [
            f"{name} {', '.join(dict.fromkeys(functions[index, name]))}"
            for name in ("forward", "backward")
            if (index, name) in functions
        ]
        if passes:
            lines += [f"layer {index} {layer.item or layer.kind}: {'; '.join(passes)}"]
    return lines


# ---------------------------------------------------------------- source text


@cache
def sources(*names: str) -> str:
    """Return the declarations of abi.py and the .cu files of these names, or of all
    that programs need."""
    return "\n".join([declarations(), *map(source_file, names or SOURCES)])


def source_file(name: str) -> str:
    """Return the text of a .cu file."""
    return (files(__package__) / f"{name}.cu").read_text(encoding="utf-8")


PRELUDE = """
#define SPIN
extern __shared__ __align__(16) char block_memory[];
#define BLOCK_MEMORY block_memory
"""


def phases_source(program: Program) -> str:
    """Return CUDA source of a program: kernels phase0, phase1, ..., and advance, which
    goes on to the next batch."""
    kernels = [
        _phase_kernel(index, phase) for index, phase in enumerate(program.phases)
    ]
    return _source(program) + "\n".join(kernels) + ADVANCE


def switches(purpose: Purpose) -> str:
    """Return the lines that tell the .cu files whether members of a group share a
    batch, and rows have weights."""
    return ("#define SHARED\n" if purpose.distribute else "") + (
        "#define WEIGHTED\n" if purpose.weighted else ""
    )


def constant_line(loss: str) -> str:
    """Return the lines that tell loss.cu the constants of a loss, 0 where it has
    none."""
    constants = loss_of(loss).constants or (0.0,)
    return (
        f"#define LOSS_CONSTANT {constants[0]!r}\n"
        f"#define LOSS_CONSTANTS {{{', '.join(map(repr, constants))}}}\n"
    )


def losses_source(distribute: str = "") -> str:
    """Return CUDA source of the kernels that add up losses; distribute: of a
    Purpose."""
    return (
        switches(Purpose("loss", 1, distribute=distribute))
        + PRELUDE
        + sources("common", "loss_sums")
    )


def epoch_source(program: Program) -> str:
    """Return CUDA source of a program as one kernel, epoch, for programs that need no
    library."""
    return _source(program) + _epoch_kernel(program)


def _source(program: Program) -> str:
    """Return what stands in front of a program's kernels."""
    head = switches(program.purpose) + constant_line(program.loss) + PRELUDE
    return "\n".join([head, sources(), *program.declarations, ""])


ADVANCE = """
extern "C" __global__ void advance(control *where)
{
    where->row += where->batch;
    where->index++;
}
"""


def _calls(phase: Phase, indent: str, batch: str = "b", first_block: int = 0) -> str:
    """Return the phase's calls; each op's blocks begin where those of the op before it
    end."""
    lines = []
    for op in phase:
        if not op.host:
            lines.append(indent + op.call(batch, first_block))
            first_block += op.blocks
    return "\n".join(lines)


def blocks_of(phase: Phase) -> int:
    """Return the blocks that a phase's kernels can keep busy."""
    return sum(op.blocks for op in phase if not op.host)


def _phase_kernel(index: int, phase: Phase) -> str:
    if not blocks_of(phase):
        return ""
    return f"""
extern "C" __global__ void __launch_bounds__(THREADS, 2) phase{index}(const control *where)
{{
    const control c = *where;
    const batch b = batch_of(c, c.row, c.index);
{_calls(phase, "    ")}
}}
"""


def _epoch_kernel(program: Program) -> str:
    """Return a kernel that runs batches one after the other. While the last phase of a
    batch is computed, other blocks gather the rows of the next batch: nothing reads the
    old rows any more, unless that phase is the only one."""
    gather, *phases = program.phases
    body = "\n        grid_barrier(c.arrivals, target);\n".join(
        _calls(phase, " " * 8) for phase in phases
    )
    next_gather = _calls(gather, " " * 12, "next", blocks_of(phases[-1]))
    if len(phases) > 1:
        old_rows_read = ""
    else:
        old_rows_read = "grid_barrier(c.arrivals, target);"
    return f"""
extern "C" __global__ void __launch_bounds__(THREADS, 1)
epoch(const control *where, int64 index, int64 batches)
{{
    const control c = where[blockIdx.y];         /* of several networks each has a row of the grid */
    unsigned target = 0;
    {{
        const batch b = batch_of(c, index * c.batch, index);
{_calls(gather, " " * 8)}
    }}
    grid_barrier(c.arrivals, target);
    for (int64 done = 0; done < batches; done++) {{
        const batch b = batch_of(c, (index + done) * c.batch, index + done);
        if (!b.n)                       /* others of the networks have more batches */
            break;
{body}
        if (done + 1 < batches) {{
            {old_rows_read}
            const batch next = batch_of(c, (index + done + 1) * c.batch, index + done + 1);
{next_gather}
        }}
        grid_barrier(c.arrivals, target);
    }}
}}
"""
