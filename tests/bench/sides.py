"""The sides of a comparison: `nn` itself and the libraries that it is compared with.

A side is made once, in a process of its own: its libraries are imported there and nowhere else. It then makes
one case after the other ready: `start(case)` returns a function that measures seconds of one batch, pass or
product; what the side computes, for its error to be told; and facts. None where nothing is comparable.

Everybody starts from the same parameters and works on the same data. A training step is what a user of the
library writes: rows in a new order every epoch, gathered into a batch, forward, loss, backward, update.
"""

from __future__ import annotations

import time

import numpy as np

from nn import __version__
from nn.data.records import network_bytes
from nn.nn_aux import OPTIMIZERS
from nn.study.bench import Forward, Product, TrainStepCase, at_constant_rate, timed

BLOCK = 1000  # rows of images in one forward pass of a library that keeps all activations of what it is given
LARGEST_CHECKED_BATCH = 128
EAGER_BATCHES = 200  # of an epoch that are timed where every batch costs about the same, and much
CHECKED = 64  # rows of a forward pass or of a product whose error is told


def checked_rows(count: int) -> np.ndarray:
    """Return the indices of some of `count` rows, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, CHECKED).astype(int))


def blocks(x, layers):
    """Return x in blocks if the activations of all rows would fill the memory."""
    size = BLOCK if layers[0].in_shape[1:] != (1, 1) else len(x)
    return [x[at : at + size] for at in range(0, len(x), size)]


def checked_batches(case: TrainStepCase):
    """x and y of the batches that gradients are compared on. Several, and not the largest: in some a relu's
    decision flips on a rounding (of 5 million about one). Of images only one, for the judge is slow there."""
    images = case.model.network(case.dtype).layers[0].in_shape[1:] != (1, 1)
    count = 1 if images else 3
    x, y = case.model.data(count * min(case.batch, LARGEST_CHECKED_BATCH), case.dtype)
    return [(x[i::count].copy(), y[i::count].copy()) for i in range(count)]


def in_order(gradients: dict, names) -> np.ndarray:
    """Gradients by name as one vector."""
    return np.concatenate([np.asarray(gradients[name], np.float64).ravel() for name in names])


def epoch_timer(epoch, batches: int):
    """Return a function that measures seconds of a batch over one call of `epoch`, which trains on `batches`."""

    def once() -> float:
        began = time.perf_counter()
        epoch()
        return (time.perf_counter() - began) / batches

    return once


def device_of(backend: str) -> str:
    """Return where a library computes beside that backend of nn."""
    return "cpu" if backend == "omp" else "cuda"


def padding(layer) -> tuple[int, int, int, int]:
    """Zeros left, right, top and bottom of a convolution's image."""
    (height, width), (out_height, out_width) = layer.in_shape[1:], layer.out_shape[1:]
    below = max(0, (out_height - 1) * layer.stride + layer.kernel - height - layer.pad_top)
    right = max(0, (out_width - 1) * layer.stride + layer.kernel - width - layer.pad_left)
    return layer.pad_left, right, layer.pad_top, below


def needed_bytes(case: TrainStepCase) -> int:
    """Return the least bytes of a step: parameters, the optimiser's state, the activations of one batch."""
    layers = [layer for layer in case.model.network(case.dtype).layers if layer.kind != "flatten"]
    return network_bytes(layers, case.dtype, 1 + len(OPTIMIZERS[case.optimizer].moments_with(0.0)), case.batch)


class Nn:
    """This project."""

    name = "nn"

    def __init__(self, backend: str = "omp"):
        self.backend = backend
        from nn.core import extension

        ffi, lib = extension("omp")
        self.version = f"{__version__} {ffi.string(lib.nn_isa()).decode()}"

    def start(self, case):
        run = case.start(self.backend)
        facts = {"threads": run.threads}
        if isinstance(case, Product):
            a, b = case.factors()
            from nn.matrix import matmul

            result = matmul(a, b)[checked_rows(case.m)]
        elif isinstance(case, Forward):
            x, _ = case.model.data(case.rows, case.dtype)
            result = run.network.predict(x)[checked_rows(case.rows)]
        elif case.networks > 1:  # its members' bits are those of one alone
            result = self.gradients(case)
        else:
            run.once()
            facts |= {"bytes": run.network.engine.bytes(), "needed_bytes": needed_bytes(case)}
            result = self.gradients(case)
        return run.once, result, facts

    def gradients(self, case: TrainStepCase):
        """Return the gradients of the checked batches, found from the steps of the timed loop."""
        gradient = self.stepped_gradient
        if any(layer.kind == "dropout" for layer in case.model.network(case.dtype).layers):
            gradient = self.told_gradient  # an epoch drops values, the truth does not
        return np.stack([gradient(case, *batch) for batch in checked_batches(case)])

    def told_gradient(self, case: TrainStepCase, x, y):
        net = case.model.network(case.dtype, self.backend)
        return in_order(net.gradients(x, y)[1], net.parameters())

    def stepped_gradient(self, case: TrainStepCase, x, y):
        """From the parameters before and after an epoch of one batch, whose step is made as large as the
        parameters so that little of it is lost in the difference."""
        net = case.model.network(case.dtype, self.backend)
        before = net.engine.get("parameters").astype(np.float64)
        rate = np.linalg.norm(before) / np.linalg.norm(self.told_gradient(case, x, y))
        settings = at_constant_rate("sgd", rate, len(x))
        net.engine.epoch(net.engine.load(x, y), np.arange(len(x)), settings, net.engine.progress())
        return (before - net.engine.get("parameters")) / rate


def torch_model(torch, layers, parameters, with_output: bool):
    """Return a network as a Sequential with these parameters; without an output activation that the loss has."""
    nn, modules = torch.nn, []
    functions = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "softmax": lambda: nn.Softmax(dim=1)}
    kinds = {
        "dense": lambda layer: nn.Linear(layer.inputs, layer.outputs),
        "maxpool": lambda layer: nn.MaxPool2d(layer.kernel, layer.stride),
        "avgpool": lambda layer: nn.AvgPool2d(layer.kernel, layer.stride),
        "dropout": lambda layer: nn.Dropout(layer.rate),
        "flatten": lambda _: nn.Flatten(),
    }
    for layer in layers:
        if layer.kind == "conv":
            zeros = padding(layer)
            pad = zeros[0] if len(set(zeros)) == 1 else 0
            modules += [] if len(set(zeros)) == 1 else [nn.ZeroPad2d(zeros)]
            modules.append(nn.Conv2d(layer.in_shape[0], layer.out_shape[0], layer.kernel, layer.stride, pad))
        else:
            modules.append(kinds[layer.kind](layer))
        in_loss = layer is layers[-1] and layer.activation in ("sigmoid", "softmax") and not with_output
        if layer.activation != "linear" and not in_loss:
            modules.append(functions[layer.activation]())
    model = nn.Sequential(*modules)
    with torch.no_grad():
        for own, ours in zip(model.parameters(), parameters, strict=True):
            own.copy_(torch.from_numpy(ours))
    return model


class Torch:
    """PyTorch, eager."""

    name = "torch"

    def __init__(self, backend: str = "omp"):
        import torch

        self.torch, self.version, self.device = torch, torch.__version__, device_of(backend)
        torch.backends.cudnn.allow_tf32 = False  # as everywhere else

    def start(self, case):
        if isinstance(case, Product):
            a, b = map(self.torch.from_numpy, case.factors())
            return timed(lambda: a @ b), (a @ b).numpy()[checked_rows(case.m)], {}
        return self.start_forward(case) if isinstance(case, Forward) else self.start_training(case)

    def model(self, case, with_output: bool):
        """Return the network in PyTorch (see torch_model), and our own."""
        net = case.model.network(case.dtype)
        model = torch_model(self.torch, net.layers, net.parameters().values(), with_output)
        return model.to(self.device, getattr(self.torch, case.dtype)), net

    def rows(self, x, net):
        """x (rows, inputs) as a tensor of the network's input shape."""
        shape = net.layers[0].in_shape
        return self.torch.from_numpy(x.reshape(len(x), *(shape if shape[1:] != (1, 1) else shape[:1]))).to(self.device)

    def targets(self, y):
        y = self.torch.from_numpy(y).to(self.device)
        return y.long() if y.ndim == 1 else y

    def start_training(self, case: TrainStepCase):
        torch = self.torch
        model, net = self.model(case, with_output=False)
        losses = {"bce": torch.nn.BCEWithLogitsLoss, "ce": torch.nn.CrossEntropyLoss, "mse": torch.nn.MSELoss}
        loss_of = losses[net.loss]()

        model.eval()
        gradients = []
        for x, y in checked_batches(case):
            model.zero_grad()
            loss_of(model(self.rows(x, net)), self.targets(y)).backward()
            gradients.append(np.concatenate([p.grad.cpu().numpy().ravel() for p in model.parameters()]))

        model.train()
        x, y = case.data()
        x, y = self.rows(x, net), self.targets(y)
        optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[case.optimizer]
        optimizer = optimizer(model.parameters(), lr=case.learning_rate)

        batches = min(case.batches, EAGER_BATCHES)

        def epoch():
            for rows in torch.randperm(len(x), device=self.device).split(case.batch)[:batches]:
                optimizer.zero_grad()
                loss_of(model(x[rows]), y[rows]).backward()
                optimizer.step()
            if self.device == "cuda":
                torch.cuda.synchronize()

        return epoch_timer(epoch, batches), np.stack(gradients), {}

    def start_forward(self, case: Forward):
        model, net = self.model(case, with_output=True)
        model.eval()
        parts = blocks(self.rows(case.model.data(case.rows, case.dtype)[0], net), net.layers)

        def call():
            with self.torch.inference_mode():
                return [model(part).cpu() for part in parts]

        return timed(call), self.torch.cat(call()).numpy()[checked_rows(case.rows)], {}


SIDES = {side.name: side for side in (Nn, Torch)}
PEERS = [name for name in SIDES if name != "nn"]
