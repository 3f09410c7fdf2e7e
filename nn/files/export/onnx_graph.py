"""Graph: constants and operators of an ONNX graph. onnx is imported when the first one
is made."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ...utils import UsageError, needs_package, signals_held

# onnxruntime reads them from 1.12 on
OPSET = 17
ML_OPSET = 3
IR_VERSION = 8


def onnx_package() -> ModuleType:
    """Return the package onnx. Raises UsageError if it is not installed."""
    try:
        with signals_held():
            import onnx
            import onnx.helper
            import onnx.numpy_helper
    except ModuleNotFoundError:
        raise UsageError(needs_package("onnx", ".onnx needs")) from None
    return onnx


_SHARED_VALUES = 64  # values of a constant that may be shared
_MEMBER = "member"  # what names of constants that people read begin with


def _rename(names, value: str, name: str) -> None:
    """Give a value, where it is in the names of a node's values, another name."""
    for place, other in enumerate(names):
        if other == value:
            names[place] = name


class Graph:
    """A graph that is being made; its values are known by their names.

    dtype: the NumPy type of the network's numbers.
    """

    def __init__(self, dtype: str):
        self._onnx = onnx_package()
        self.dtype = np.dtype(dtype)
        self._nodes = []
        self._inputs = []
        self._outputs = []
        self._prefix = "nn/"  # of values inside
        self._constants: dict[tuple, str] = {}
        self._tensors = []

    def add(
        self,
        op: str,
        *inputs: str,
        domain: str = "",
        output: str | None = None,
        **attributes,
    ) -> str:
        """Add an operator with one output; return the name of its value."""
        output = output or f"{self._prefix}{op}_{len(self._nodes)}"
        self._nodes.append(
            self._onnx.helper.make_node(
                op, list(inputs), [output], domain=domain, **attributes
            )
        )
        return output

    def constant(self, values, dtype=None, name: str = "") -> str:
        """Return the name of a constant; the same few values are kept once. dtype: None
        takes that of the network. name: what people read; without one it has a
        number."""
        array = np.asarray(values, self.dtype if dtype is None else dtype)
        if array.size <= _SHARED_VALUES:
            few = array.tolist()
        else:
            few = len(self._constants)
        key = (array.dtype.str, array.shape, repr(few))
        if key not in self._constants:
            numbered = f"{self._prefix}constant_{len(self._constants)}"
            self._constants[key] = self._readable(name) or numbered
            self._tensors.append(
                self._onnx.numpy_helper.from_array(array, self._constants[key])
            )
        return self._constants[key]

    def _readable(self, name: str) -> str:
        """Return a name that people read, with the prefix where inputs have such
        names."""
        inputs = [value.name for value in self._inputs]
        if name and any(other.startswith(_MEMBER) for other in inputs):
            return f"{self._prefix}{name}"
        return name

    def cast(self, value: str, dtype) -> str:
        return self.add("Cast", value, to=self._type(dtype))

    def clip(self, value: str, low: float, high: float, dtype=None) -> str:
        return self.add(
            "Clip", value, self.constant(low, dtype), self.constant(high, dtype)
        )

    def columns(self, value: str, places) -> str:
        """Return these columns of a value (..., columns), in this order."""
        return self.add("Gather", value, self.constant(list(places), np.int64), axis=-1)

    def joined(self, values: list[str], axis: int = -1) -> str:
        """Return values (rows, columns) side by side."""
        if len(values) == 1:
            return values[0]
        return self.add("Concat", *values, axis=axis)

    def input(self, name: str, dtype, shape: tuple[int, ...]) -> str:
        """Add an input of the graph with rows of this shape; return its name. All
        inputs come before other values, whose names begin as no input's does."""
        while name.startswith(self._prefix):
            self._prefix = f"nn/{self._prefix}"
        self._inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, name: str, value: str, dtype, shape: tuple[int, ...]) -> None:
        """Give a value the name of an output of the graph; it has no other one from
        then on."""
        if value in [other.name for other in (*self._inputs, *self._outputs)]:
            value = self.add("Identity", value)
        for node in self._nodes:
            _rename(node.input, value, name)
            _rename(node.output, value, name)
        self._outputs.append(self._value(name, dtype, shape))

    def model(self, version: str, facts: dict[str, str]):
        """Return the ModelProto. facts: texts that are kept beside the graph."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "nn", self._inputs, self._outputs, self._tensors
        )
        opsets = [
            helper.make_opsetid("", OPSET),
            helper.make_opsetid("ai.onnx.ml", ML_OPSET),
        ]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name = "nn"
        model.producer_version = version
        helper.set_model_props(model, facts)
        return model

    def _value(self, name: str, dtype, shape: tuple[int, ...]):
        return self._onnx.helper.make_tensor_value_info(
            name, self._type(dtype), ["rows", *shape]
        )

    def _type(self, dtype) -> int:
        if dtype is str:
            return self._onnx.TensorProto.STRING
        return self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
