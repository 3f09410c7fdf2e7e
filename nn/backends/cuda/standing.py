"""Standing passes: forward passes over as many rows as earlier ones, each captured as
one graph. A call of few rows takes most of its time to start what computes them; the
graph is one thing to start.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..elsewhere import Reading
from .abi import CUDA_TYPES, THREADS
from .data import Segment, bytes_of, row_format
from .device import cupy, processors
from .program import PLAIN, RowFormat, sources
from .runner import captured, module_of

# kinds of calls that an engine knows, and bytes that all of its passes may keep
MOST_KINDS = 8
MOST_BYTES_KEPT = 512 << 20
# of rows and of outputs: of more, starting is a small part
MOST_BYTES = 16 << 20
# members of struct places
AT_ROWS, AT_PREDICTIONS, IS_REFUSED = range(3)


class StandingPasses:
    """The passes of an engine, by the kind of call: made when it comes again."""

    def __init__(self):
        # None of a kind that has come once
        self._passes: dict[tuple, StandingPass | None] = {}

    def find(
        self, kind: tuple, facts: object, make: Callable[[], StandingPass | None]
    ) -> StandingPass | None:
        """Return the pass for a kind of call by a network of these facts; None the
        first time, and where `make` says that there can be none."""
        known = self._passes.get(kind)
        if known is not None and known.facts is facts:
            return known
        if kind not in self._passes:
            if len(self._passes) == MOST_KINDS:
                self.clear()
            self._passes[kind] = None
            return None
        made = make()
        if made is None:
            return None
        made.facts = facts
        kept = [known.bytes() for known in self._passes.values() if known is not None]
        if sum(kept) + made.bytes() > MOST_BYTES_KEPT:
            self.clear()
        self._passes[kind] = made
        return made

    def clear(self) -> None:
        """Give up all passes."""
        self._passes.clear()


class StandingPass:
    """A forward pass over a number of rows at one place, whose outputs have one too."""

    facts: object = None  # of the network that it is for

    def __init__(self, engine, rows: int, rows_as: RowFormat):
        self.rows = rows
        purpose = engine.predict_purpose(rows, rows_as)
        self._batch = purpose.rows
        self._runner = engine.new_runner(purpose)

    def _capture(self, x: int, out: int):
        """Return a graph of what the pass starts. x, out: addresses of the rows and of
        their outputs."""
        segment = Segment(x, 0, 0, 0, self.rows, self.rows)
        self._runner.set(segment, self._batch, out=out)
        # the first time as it is: libraries set themselves up
        self._start()
        cupy().cuda.get_current_stream().synchronize()
        return captured(self._start)

    def _start(self) -> None:
        self._runner.start(-(-self.rows // self._batch))

    def bytes(self) -> int:
        """Return about how much memory of the GPU the pass keeps."""
        return self._runner.bytes()

    def _replay(self, graph) -> None:
        """Run a graph and wait for its end."""
        stream = cupy().cuda.get_current_stream()
        graph.launch()
        stream.synchronize()


class PassFromHere(StandingPass):
    """A pass over rows of the computer's memory. The GPU reads them there, and writes
    its outputs: that takes less time than copies."""

    def __init__(self, engine, x: np.ndarray):
        from cupyx import empty_pinned

        super().__init__(engine, len(x), row_format(x, engine.dtype))
        rows = bytes_of(x)
        self._x = empty_pinned(rows.shape, rows.dtype)
        self._x[...] = rows
        self._out = empty_pinned((self.rows, engine.outputs), engine.dtype)
        self._graph = self._capture(self._x.ctypes.data, self._out.ctypes.data)

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Return outputs (rows, outputs) for rows as engine.load takes them."""
        self._x[...] = bytes_of(x)
        self._replay(self._graph)
        return self._out.copy()


class PassThere(StandingPass):
    """A pass over rows that another library has on the GPU, where the predictions
    stay."""

    def __init__(self, engine, rows, reading: Reading):
        """rows: (rows, inputs) on the GPU, which are read so."""
        from cupyx import empty_pinned

        super().__init__(engine, len(rows), PLAIN)
        self._x = cupy().zeros(rows.shape, engine.dtype)
        self._out = cupy().empty((self.rows, engine.outputs), engine.dtype)
        types = {
            "GIVEN": rows.dtype.name,
            "READ_AS": reading.number_type or rows.dtype.name,
            "PREDICTION": reading.value_dtype,
        }
        switches = {
            "SCALES_INPUTS": len(reading.shift),
            "SCALES_OUTPUTS": len(reading.target_shift),
            "CLIPS": len(reading.low),
        }
        head = [f"#define {name} {CUDA_TYPES[kind]}" for name, kind in types.items()]
        head += [f"#define {name} {int(count > 0)}" for name, count in switches.items()]
        code = "\n".join([*head, sources("rows")])
        self._module = module_of(code, engine.dtype.name, False)
        self._value_dtype = np.dtype(reading.value_dtype)
        self._places = empty_pinned(3, np.int64)
        predictions = cupy().empty(self._out.shape, self._value_dtype)
        self._point_to(rows, predictions)
        self._constants_of_inputs = _on_gpu(reading.shift, reading.scale)
        self._constants_of_outputs = _on_gpu(
            reading.target_shift, reading.target_scale, reading.low, reading.high
        )
        self._graph = self._capture(self._x.data.ptr, self._out.data.ptr)

    def _start(self) -> None:
        read = (self._x, *self._constants_of_inputs)
        self._each("read_rows", read, self._x)
        super()._start()
        write = (self._out, *self._constants_of_outputs)
        self._each("write_predictions", write, self._out)

    def _each(self, name: str, arguments: tuple, values) -> None:
        """Start a kernel for each of the values (rows, ...)."""
        blocks = min(-(-values.size // THREADS), 4 * processors())
        width = np.int32(values.size // self.rows)
        where = np.int64(self._places.ctypes.data)
        self._module.get_function(name)(
            (blocks,),
            (THREADS,),
            (where, *arguments, width, np.int32(values.size)),
        )

    def _point_to(self, rows, predictions) -> None:
        """Let the next run read these rows, and write there."""
        self._places[AT_ROWS] = rows.data.ptr
        self._places[AT_PREDICTIONS] = predictions.data.ptr
        self._places[IS_REFUSED] = 0

    def predictions(self, rows):
        """Return predictions for rows (rows, inputs) on the GPU, there; None where a
        number is not finite."""
        predictions = cupy().ndarray(self._out.shape, self._value_dtype)
        self._point_to(rows, predictions)
        self._replay(self._graph)
        if self._places[IS_REFUSED]:
            return None
        return predictions


def _on_gpu(*constants: np.ndarray) -> list:
    """Return constants (values,) on the GPU, float64; one number in the place of
    none."""
    return [
        cupy().asarray(values if len(values) else np.zeros(1)) for values in constants
    ]
