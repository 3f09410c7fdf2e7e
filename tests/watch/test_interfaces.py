"""Interfaces are what their implementations have: the same methods with the same
parameters."""

import inspect
import re

import pytest

from nn.backends.cpu import CpuEngine, CpuPack
from nn.backends.cuda.cudnn import CudnnEngine
from nn.backends.cuda.engine import CudaEngine, Progress
from nn.backends.cuda.group import Group
from nn.backends.cuda.pack import CudaPack
from nn.backends.engine import Engine, Pack
from nn.backends.member import Turns
from nn.study.sweep import _EpochTimes
from nn.terminal.progress import Bar, Lines
from nn.watch.callbacks import Callback, Callbacks
from nn.watch.history import CsvHistory
from nn.watch.tensorboard import TensorBoard
from nn.watch.trace import Trace

ENGINES = [CpuEngine, CudaEngine, CudnnEngine, Group]
CALLBACKS = [Callbacks, CsvHistory, TensorBoard, Trace, Lines, Bar, _EpochTimes]
INTERFACES = {Engine: ENGINES, Pack: [CpuPack, CudaPack, Turns], Callback: CALLBACKS}


def methods(kind) -> dict:
    return {
        name: member
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and name[0] != "_"
    }


def parameters(method) -> list[tuple]:
    values = inspect.signature(method).parameters.values()
    return [(p.name, p.kind, p.default) for p in values]


def attributes_set(kind) -> set[str]:
    """Names that a class's methods and those of its bases give to self, and class
    attributes."""
    bases = kind.__mro__[:-1]
    rows = []
    for base in bases:
        if "__init__" in vars(base):
            rows.append(inspect.getsource(base.__init__))
    begun = "".join(rows)
    matches = re.findall(r"\bself\.(\w+)(?=[^=(\n]* = )", begun)
    return {*matches, *(name for base in bases for name in vars(base))}


@pytest.mark.parametrize(
    "interface, kind",
    [(one, kind) for one, kinds in INTERFACES.items() for kind in kinds],
)
def test_implementations_have_the_methods_and_attributes_of_the_interface(
    interface, kind
):
    for name, method in methods(interface).items():
        assert parameters(getattr(kind, name)) == parameters(method), name
    assert set(inspect.get_annotations(interface)) - attributes_set(kind) == set()


def test_progress_on_a_gpu_counts_what_that_of_the_core_counts():
    from nn.core import extension

    ffi, _ = extension("seq")
    names = [name for name, _ in ffi.typeof("nn_progress").fields]
    assert names == list(inspect.get_annotations(Progress))


@pytest.mark.parametrize("callback", CALLBACKS)
def test_callbacks_spell_out_no_method_that_does_nothing(callback):
    assert issubclass(callback, Callback)
    for name, method in methods(callback).items():
        lines = inspect.getsource(method).splitlines()
        code = [line for line in lines if line.strip()]
        assert code[-1].strip()[-3:] != '"""', (
            f"{callback.__name__}.{name} has a docstring only"
        )
