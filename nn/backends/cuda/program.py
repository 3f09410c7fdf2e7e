"""What a GPU does with one batch, as a list of phases: from layers to calls of the functions in the .cu files.

An op is such a call. The ops of one phase do not wait for each other; a phase waits for the one before it. The same
list becomes one kernel that runs whole epochs, its blocks meeting at a barrier after each phase, or a kernel a
phase, replayed as a graph, beside calls of a library (gpu.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from ..layers import Layer

SOURCES = [
    "common", "activation", "gemm", "dense", "conv", "direct", "winograd", "pool", "dropout", "rows", "optimizer",
]  # fmt: skip
THREADS = 256
LINE = 32  # values; buffers begin at multiples of it


@dataclass(frozen=True)
class Op:
    """A call of a device function by `blocks` blocks ({team}: which ones), or of a library: host(memory, rows)."""

    call: str = ""
    blocks: int = 1
    host: Callable[[object, int], None] | None = None
    learns: bool = False  # gives gradients of parameters: the others of its phase can wait where these are to be sent
    step: tuple[str, int | None] = ("", None)  # what it is part of, as backends.Step names it


class Buffer(str):
    """A place in the GPU's memory: the text is its address in CUDA source, `of` and `at` say the same to the host:
    rows, gradients or parameters, and the value in them (for rows: a row's value, times the rows of a batch)."""

    of: str
    at: int

    def __new__(cls, text: str, of: str, at: int):
        self = super().__new__(cls, text)
        self.of, self.at = of, at
        return self


Phase = list[Op]


@dataclass(frozen=True)
class Purpose:
    """What the program is for, and with which data and settings."""

    kind: str  # train, gradients, loss, predict
    rows: int  # of a batch
    labels: bool = False  # targets are class indices
    bytes: bool = False  # inputs are bytes
    dropout: bool = False  # dropout acts
    optimizer: str = ""  # SGD, MOMENTUM, ADAM
    timed: bool = False  # every op is a phase of its own, so that it can be timed
    distribute: str = ""  # mirrored, central: the batch is shared by the members of a group; "": it is not
    steps: bool = True  # the parameters take their step here, not on another member

    @property
    def backward(self) -> bool:
        """Gradients are wanted."""
        return self.kind in ("train", "gradients")


@dataclass
class Step:
    """A layer in the program: its place in the parameter vector, its activation here, its buffers."""

    layer: Layer
    index: int  # in the network, flatten counted: the layer of dropout's masks
    at: int  # of its weights in a parameter vector
    activation: str  # of its op; linear where the loss applies it
    x: Buffer | str = ""
    out: Buffer | str = ""
    dz: Buffer | str = ""
    dx: Buffer | str = ""  # "": not wanted
    below: str = "linear"
    gradient: Buffer | str = ""
    splits: int = 1  # parts that its gradients come in
    last: bool = False  # its outputs, the loss and dx are one op (layer_ops.Last)
    under: Step | None = None  # the step below
    above: Step | None = None
    parts: int = 0  # that the sums of its outputs come in, which the last layer adds up
    turned: Buffer | str = ""  # where its kernels, turned round, stand ready
    sum: Buffer | str = ""  # of these parts, where members of a group add theirs up


@dataclass
class Program:
    """Phases, and the memory that they need: values a row of the batch, and gradient values."""

    purpose: Purpose
    phases: list[Phase] = field(default_factory=list)
    row_values: int = 0
    gradient_values: int = 0
    part_values: int = 0
    shared_bytes: int = 0
    sum_values: int = 0  # of the gradients, at their beginning: what members of a group add up
    sent: list[tuple[str, int]] = field(default_factory=list)  # how members communicate, and how many values at a time

    @property
    def only_kernels(self) -> bool:
        """No phase calls a library."""
        return not any(op.host for phase in self.phases for op in phase)


def lanes_of(width: int) -> int:
    """Threads that share a row of that many outputs: a warp, or one."""
    return 32 if width > 2 else 1


# ---------------------------------------------------------------- source text


@cache
def sources(*names: str) -> str:
    """The text of the .cu files of these names, or of all that programs need."""
    folder = files(__package__)
    return "\n".join((folder / f"{name}.cu").read_text(encoding="utf-8") for name in names or SOURCES)


PRELUDE = """
#define SPIN
extern __shared__ __align__(16) char block_memory[];
#define BLOCK_MEMORY block_memory
"""


def phases_source(program: Program) -> str:
    """CUDA source of a program, a kernel a phase: phase0, phase1, ..., and advance, which goes on to the next batch."""
    kernels = [_phase_kernel(index, phase) for index, phase in enumerate(program.phases)]
    return shared_or_not(program.purpose) + PRELUDE + sources() + "\n".join(kernels) + ADVANCE


def shared_or_not(purpose: Purpose) -> str:
    """What tells common.cu that a batch is shared by the members of a group."""
    return "#define SHARED\n" if purpose.distribute else ""


def losses_source(purpose: Purpose) -> str:
    """CUDA source of batch_losses."""
    return shared_or_not(purpose) + PRELUDE + sources("common", "losses")


def epoch_source(program: Program) -> str:
    """CUDA source of a program as one kernel, epoch, for programs that need no library."""
    return PRELUDE + sources() + _epoch_kernel(program)


ADVANCE = """
extern "C" __global__ void advance(control *where)
{
    where->row += where->batch;
    where->index++;
}
"""


def _calls(phase: Phase, indent: str, start: int = 0) -> str:
    """The phase's calls; each op's blocks begin where those of the one before it end."""
    lines = []
    for op in phase:
        if op.call:
            lines.append(f"{indent}{op.call.format(team=f'team_from({start})')};")
            start += op.blocks
    return "\n".join(lines)


def blocks_of(phase: Phase) -> int:
    """Blocks that a phase's own ops can keep busy."""
    return sum(op.blocks for op in phase if op.call)


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
    """Batches one after the other. While the last phase of one updates the parameters, other blocks gather the rows
    of the next: nothing reads the old ones any more."""
    gather, *phases = program.phases
    body = "\n        grid_barrier(c.arrivals, target);\n".join(
        _calls(phase, " " * 8) for phase in phases
    )
    next_gather = _calls(gather, " " * 12, blocks_of(phases[-1])).replace(", b,", ", next,")
    return f"""
extern "C" __global__ void __launch_bounds__(THREADS, 1)
epoch(const control *where, int64 row, int64 index, int64 batches)
{{
    const control c = *where;
    unsigned target = 0;
    {{
        const batch b = batch_of(c, row, index);
{_calls(gather, " " * 8)}
    }}
    grid_barrier(c.arrivals, target);
    for (int64 done = 0; done < batches; done++) {{
        const batch b = batch_of(c, row + done * c.batch, index + done);
{body}
        if (done + 1 < batches) {{
            const batch next = batch_of(c, row + (done + 1) * c.batch, index + done + 1);
{next_gather}
        }}
        grid_barrier(c.arrivals, target);
    }}
}}
"""
