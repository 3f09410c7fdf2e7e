"""The sides of bench.py: this project, PyTorch and JAX on the GPU.

A side makes a case ready for one of three things: `epoch(case)` returns a function that trains one epoch and how many
batches that is; `forward(case, rows)` one that computes the outputs of `rows` rows, which lie on the GPU, and brings
them back; `results(case)` the gradients and outputs of the checked rows, so that errors can be told (of JAX, slow to
compile, tests/bench tells them). All sides start from the same parameters and work on the same rows.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from nn.backends.engine import EpochSettings
from nn.core.random import PhiloxOrder
from nn.layers import parse
from nn.nn_aux import TASKS
from nn.study.bench import TrainStepCase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.bench.sides import Jax as JaxSide  # noqa: E402 - of this checkout, which need not be installed
from tests.bench.sides import torch_model  # noqa: E402

EAGER_BATCHES = 100  # of an epoch that PyTorch is timed on: every batch costs about the same
CHECKED_BATCHES, CHECKED_ROWS = 3, 64  # several, for in some a relu's or a maximum's choice turns on a rounding
LARGEST_CHECKED = 10**8  # parameters
SAMPLE = 10**6  # of a gradient's values that its error is told from
BLOCK_ROWS = 5000  # of images in one forward pass of a library that keeps all activations of what it is given


def network(case: TrainStepCase) -> SimpleNamespace:
    """What every side must know of the network: layers, loss, task."""
    output, loss = TASKS[case.model.task]
    return SimpleNamespace(layers=parse(case.model.layers, "relu", output), loss=loss, task=case.model.task)


@functools.lru_cache(1)
def parameters_of(case: TrainStepCase) -> list[np.ndarray]:
    """Weights and biases, layer by layer."""
    rng, arrays = np.random.default_rng(0), []
    for layer in network(case).layers:
        if layer.weight_shape:
            scale = np.float32(np.sqrt(24 / layer.fan_in))
            arrays.append(scale * (rng.random(layer.weight_shape, np.float32) - np.float32(0.5)))
            arrays.append(np.zeros(layer.biases, np.float32))
    return arrays


def rows_of(case: TrainStepCase, rows: int, seed: int = 0):
    """x (rows, inputs), and labels (rows,) or y (rows, outputs)."""
    layers, rng = network(case).layers, np.random.default_rng(seed)
    x = rng.standard_normal((rows, layers[0].inputs), np.float32)
    if case.model.task == "regression":
        return x, rng.standard_normal((rows, layers[-1].outputs), np.float32)
    labels = rng.integers(0, max(2, layers[-1].outputs), rows)
    return x, labels.astype(np.int32) if case.model.task == "multiclass" else labels[:, None].astype(np.float32)


def checked_batches(case: TrainStepCase):
    """The rows whose gradients and outputs are compared."""
    return [rows_of(case, CHECKED_ROWS, seed) for seed in range(1, CHECKED_BATCHES + 1)]


def sampled(gradients) -> np.ndarray:
    """Some values from the first to the last of a list of arrays."""
    flat = np.concatenate([np.asarray(g, np.float64).ravel() for g in gradients])
    return flat[:: max(1, len(flat) // SAMPLE)]


class Ours:
    """This project, on the backend cuda or cudnn."""

    def __init__(self, backend: str, tf32: bool = False):
        import cupy

        self.backend, self.tf32 = backend, tf32
        self.version = f"CuPy {cupy.__version__}"

    def engine(self, case: TrainStepCase):
        """The engine with the common parameters."""
        from nn import backends

        net = network(case)
        engine = backends.create(self.backend, net.layers, net.loss, "float32", tf32=self.tf32)
        engine.set("parameters", np.concatenate([array.ravel() for array in parameters_of(case)]))
        return engine

    def epoch(self, case: TrainStepCase, batches: int | None = None):
        batches = batches or case.batches
        engine, rows = self.engine(case), batches * case.batch
        data, order = engine.load(*rows_of(case, rows)), PhiloxOrder(rows, 0, ahead=True)
        rates, number = [case.learning_rate] * 9, 0
        settings = EpochSettings(optimizer=case.optimizer, batch=case.batch, rates=rates, seed=0)

        def run():
            nonlocal number
            engine.epoch(data, order.epoch(number), settings, engine.progress(step=number * batches))
            number += 1

        return run, batches

    def forward(self, case: TrainStepCase, rows: int):
        engine = self.engine(case)
        data = engine.load(rows_of(case, rows)[0])
        return lambda: engine.predict(data)

    def results(self, case: TrainStepCase):
        engine, gradients, outputs = self.engine(case), [], []
        for x, y in checked_batches(case):
            targets = np.eye(engine.outputs, dtype=np.float32)[y] if y.ndim == 1 else y
            gradients.append(sampled([engine.gradients(x, targets)[1]]))
            outputs.append(engine.predict(engine.load(x)))
        return gradients, outputs


class Torch:
    """PyTorch, eager or with its step captured in a CUDA graph."""

    def __init__(self, graph: bool = False, tf32: bool = False, dtype: str = "float32"):
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self.torch, self.graph, self.dtype = torch, graph, getattr(torch, dtype)
        self.version = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"

    def network(self, case: TrainStepCase, with_output: bool):
        """The network with the common parameters; without an output activation that the loss has."""
        model = torch_model(self.torch, network(case).layers, parameters_of(case), with_output)
        return model.to("cuda", self.dtype)

    def tensors(self, case: TrainStepCase, x, y):
        """Rows and targets on the GPU, as the network and its loss want them."""
        layers, torch = network(case).layers, self.torch
        shape = layers[0].in_shape if layers[0].in_shape[1:] != (1, 1) else (-1,)
        y = torch.from_numpy(y).cuda()
        y = y.long() if y.ndim == 1 else y.to(self.dtype)
        return torch.from_numpy(x.reshape(len(x), *shape)).to("cuda", self.dtype), y

    def loss_of(self, case: TrainStepCase):
        names = {"multiclass": "cross_entropy", "binary": "binary_cross_entropy_with_logits"}
        return getattr(self.torch.nn.functional, names.get(case.model.task, "mse_loss"))

    def captured(self, call):
        """`call` as a function that replays its graph."""
        torch, side = self.torch, self.torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
        graph.of = call  # a graph does not keep the tensors alive that it works on
        return graph, result

    def epoch(self, case: TrainStepCase):
        torch, model, loss_of = self.torch, self.network(case, with_output=False), self.loss_of(case)
        batches = min(case.batches, EAGER_BATCHES)
        x, y = self.tensors(case, *rows_of(case, batches * case.batch))
        if case.optimizer == "adam":
            optimizer = torch.optim.Adam(model.parameters(), lr=case.learning_rate, capturable=self.graph)
        else:
            optimizer = torch.optim.SGD(model.parameters(), lr=case.learning_rate)

        def step(rows):
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(x[rows]), y[rows]).backward()
            optimizer.step()

        if self.graph:
            rows = torch.arange(case.batch, device="cuda")
            graph, _ = self.captured(lambda: step(rows))

            def replay(batch_rows):
                rows.copy_(batch_rows)
                graph.replay()
        else:
            replay = step

        def run():
            for rows in torch.randperm(len(x), device="cuda").split(case.batch):
                replay(rows)
            torch.cuda.synchronize()

        return run, batches

    def forward(self, case: TrainStepCase, rows: int):
        torch, model = self.torch, self.network(case, with_output=True).eval()
        x, _ = self.tensors(case, *rows_of(case, rows))
        parts = x.split(BLOCK_ROWS if x.ndim == 4 else len(x))

        def outputs():
            with torch.inference_mode():
                return [model(part) for part in parts]

        if not self.graph:
            return lambda: [part.cpu() for part in outputs()]
        graph, result = self.captured(outputs)

        def run():
            graph.replay()
            return [part.cpu() for part in result]

        return run

    def results(self, case: TrainStepCase):
        model, whole = (self.network(case, with_output=which).eval() for which in (False, True))
        gradients, outputs = [], []
        for x, y in (self.tensors(case, *batch) for batch in checked_batches(case)):
            model.zero_grad()
            self.loss_of(case)(model(x), y).backward()
            gradients.append(sampled([p.grad.cpu().numpy() for p in model.parameters()]))
            with self.torch.inference_mode():
                outputs.append(whole(x).cpu().numpy())
        return gradients, outputs


class Jax:
    """JAX: an epoch in one jitted scan, a forward pass in one jitted function."""

    def __init__(self, tf32: bool = False):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=2")  # tries kernels, does not check their results
        self.side = JaxSide("cuda")
        self.jax, self.version = self.side.jax, f"JAX {self.side.version}"
        self.jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")

    def arrays(self, *arrays):
        return [self.jax.numpy.asarray(array) for array in arrays]

    def epoch(self, case: TrainStepCase):
        parameters, rows = self.arrays(*parameters_of(case)), self.arrays(*rows_of(case, case.rows))
        return self.side.epochs(case, network(case), parameters, *rows), case.batches

    def forward(self, case: TrainStepCase, rows: int):
        layers, parameters = network(case).layers, self.arrays(*parameters_of(case))
        (x,) = self.arrays(rows_of(case, rows)[0])
        size = BLOCK_ROWS if layers[0].in_shape[1:] != (1, 1) else len(x)
        parts = [x[at : at + size] for at in range(0, len(x), size)]
        outputs = self.jax.jit(lambda parameters, x: self.side.forward(layers, parameters, x, with_output=True))
        return lambda: [np.asarray(outputs(parameters, part)) for part in parts]


SIDES = {
    "cuda": lambda: Ours("cuda"),
    "cudnn": lambda: Ours("cudnn"),
    "cuda tf32": lambda: Ours("cuda", tf32=True),
    "cudnn tf32": lambda: Ours("cudnn", tf32=True),
    "torch": lambda: Torch(),
    "torch graph": lambda: Torch(graph=True),
    "torch tf32": lambda: Torch(graph=True, tf32=True),
    "jax": lambda: Jax(),
    "jax tf32": lambda: Jax(tf32=True),
}
TRUTH = "truth"
OURS = [name for name in SIDES if name.startswith("cu")]


def make(side: str):
    """A side by its name; TRUTH is PyTorch in float64."""
    return Torch(dtype="float64") if side == TRUTH else SIDES[side]()
