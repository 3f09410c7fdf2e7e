"""The sides of a comparison: `nn` itself and the libraries that it is compared with.

A side is made once, in a process of its own: its libraries are imported there and
nowhere else. It then makes one case after the other ready: `start(case)` returns a
function that measures seconds of one batch, pass or product; what the side computes,
for its error to be told; and facts.

Everybody starts from the same parameters and works on the same data. A training step is
what a user of the library writes: rows in a new order every epoch, gathered into a
batch, forward, loss, backward, update.
"""

from __future__ import annotations

import importlib.util
import os
import time
from functools import partial

import numpy as np

from nn import __version__
from nn.core import extension
from nn.data.records import network_bytes
from nn.matrix import matmul
from nn.nn_aux import OPTIMIZERS
from nn.study.bench import (
    MODELS,
    Forward,
    Product,
    TrainStepCase,
    at_constant_rate,
    timed,
)

# rows of images in one forward pass of a library that keeps all activations of what it
# is given
BLOCK = 1000
LARGEST_CHECKED_BATCH = 128
# of an epoch that are timed where every batch costs about the same, and much
EAGER_BATCHES = 200
CHECKED = 64  # rows of a forward pass or of a product whose error is told


class ForwardOnGpu(Forward):
    """A forward pass over rows that lie on the GPU, where its outputs stay: of others
    they begin and end in the computer's memory."""


ON_GPU = [
    ForwardOnGpu(f"{model.name}-forward-{rows}-on-gpu", model, rows)
    for model in MODELS
    for rows in (1, 10_000)
]


def checked_rows(count: int) -> np.ndarray:
    """Return the indices of some of `count` rows, from the first to the last."""
    grid = np.linspace(0, count - 1, CHECKED)
    return np.unique(grid.astype(int))


def reads_images(layers) -> bool:
    return layers[0].in_shape[1:] != (1, 1)


def blocks(x, layers):
    """Return x in blocks if the activations of all rows would fill the memory."""
    if reads_images(layers):
        size = BLOCK
    else:
        size = len(x)
    return [x[at : at + size] for at in range(0, len(x), size)]


def checked_batches(case: TrainStepCase):
    """x and y of the batches that gradients are compared on. Several, and not the
    largest: in some a relu's decision flips on a rounding (of 5 million about one). Of
    images only one, for the judge is slow there."""
    if reads_images(case.model.network(case.dtype).layers):
        count = 1
    else:
        count = 3
    smallest = min(case.batch, LARGEST_CHECKED_BATCH)
    x, y = case.model.data(count * smallest, case.dtype)
    return [(x[i::count].copy(), y[i::count].copy()) for i in range(count)]


def in_order(gradients: dict, names) -> np.ndarray:
    """Gradients by name as one vector."""
    return np.concatenate(
        [np.asarray(gradients[name], np.float64).ravel() for name in names]
    )


def epoch_timer(epoch, batches: int):
    """Return a function that measures seconds of a batch over one call of `epoch`,
    which trains on `batches`."""

    def once() -> float:
        began = time.perf_counter()
        epoch()
        return (time.perf_counter() - began) / batches

    return once


def padding(layer) -> tuple[int, int, int, int]:
    """Zeros left, right, top and bottom of a convolution's image."""
    height, width = layer.in_shape[1:]
    out_height, out_width = layer.out_shape[1:]
    below = max(
        0, (out_height - 1) * layer.stride + layer.kernel - height - layer.pad_top
    )
    right = max(
        0, (out_width - 1) * layer.stride + layer.kernel - width - layer.pad_left
    )
    return layer.pad_left, right, layer.pad_top, below


def needed_bytes(case: TrainStepCase) -> int:
    """Return the least bytes of a step: parameters, the optimiser's state, the
    activations of one batch."""
    net = case.model.network(case.dtype)
    layers = [layer for layer in net.layers if layer.kind != "flatten"]
    copies = 1 + len(OPTIMIZERS[case.optimizer].moments_with(0.0))
    return network_bytes(layers, case.dtype, copies, case.batch)


class Nn:
    """This project."""

    def __init__(self, backend: str = "omp"):
        self.backend = backend
        ffi, lib = extension("omp")
        self.version = f"{__version__} {ffi.string(lib.nn_isa()).decode()}"

    def start(self, case):
        run = case.start(self.backend)
        facts = {"threads": run.threads}
        if isinstance(case, Product):
            return run.once, matmul(*case.factors())[checked_rows(case.m)], facts
        if isinstance(case, Forward):
            x, _ = case.model.data(case.rows, case.dtype)
            predictions = run.network.predict(x)[checked_rows(case.rows)]
            if isinstance(case, ForwardOnGpu):
                from cupy import asarray

                there = asarray(x)
                return timed(lambda: run.network.predict(there)), predictions, facts
            return run.once, predictions, facts
        if case.networks == 1:  # of several, its members' bits are those of one alone
            run.once()
            facts |= {
                "bytes": run.network.engine.bytes(),
                "needed_bytes": needed_bytes(case),
            }
        return run.once, self.gradients(case), facts

    def gradients(self, case: TrainStepCase):
        """Return the gradients of the checked batches, found from the steps of the
        timed loop."""
        gradient = self.stepped_gradient
        if any(
            layer.kind == "dropout" for layer in case.model.network(case.dtype).layers
        ):
            gradient = self.told_gradient  # an epoch drops values, the truth does not
        return np.stack([gradient(case, *batch) for batch in checked_batches(case)])

    def told_gradient(self, case: TrainStepCase, x, y):
        net = case.model.network(case.dtype, self.backend)
        gradients = net.gradients(x, y)[1]
        return in_order(gradients, net.parameters())

    def stepped_gradient(self, case: TrainStepCase, x, y):
        """From the parameters before and after an epoch of one batch, whose step is
        made as large as the parameters so that little of it is lost in the
        difference."""
        net = case.model.network(case.dtype, self.backend)
        before = net.engine.get("parameters").astype(np.float64)
        norm = np.linalg.norm(self.told_gradient(case, x, y))
        rate = np.linalg.norm(before) / norm
        settings = at_constant_rate("sgd", rate, len(x))
        data = net.engine.load(x, y)
        indices = np.arange(len(x))
        net.engine.epoch(data, indices, settings, net.engine.progress())
        return (before - net.engine.get("parameters")) / rate


class Library:
    """A library beside nn. device: where it computes."""

    def __init__(self, backend: str):
        if backend == "omp":
            self.device = "cpu"
        else:
            self.device = "cuda"

    def start(self, case):
        kinds = {
            Product: self.start_product,
            Forward: self.start_forward,
            ForwardOnGpu: self.start_forward,
            TrainStepCase: self.start_training,
        }
        return (*kinds[type(case)](case), {})


class Torch(Library):
    """PyTorch, eager."""

    def __init__(self, backend: str):
        super().__init__(backend)
        import torch

        self.torch = torch
        self.version = torch.__version__
        torch.backends.cudnn.allow_tf32 = False  # as everywhere else

    def start_product(self, case: Product):
        a, b = map(self.torch.from_numpy, case.factors())
        return timed(lambda: a @ b), (a @ b).numpy()[checked_rows(case.m)]

    def model(self, case, with_output: bool):
        """Return the network as a Sequential with its parameters, without an output
        activation that the loss has unless asked for, and our own."""
        nn = self.torch.nn
        net = case.model.network(case.dtype)
        modules = []
        functions = {
            "relu": nn.ReLU,
            "sigmoid": nn.Sigmoid,
            "tanh": nn.Tanh,
            "softmax": lambda: nn.Softmax(dim=1),
        }
        kinds = {
            "dense": lambda layer: nn.Linear(layer.inputs, layer.outputs),
            "maxpool": lambda layer: nn.MaxPool2d(layer.kernel, layer.stride),
            "avgpool": lambda layer: nn.AvgPool2d(layer.kernel, layer.stride),
            "dropout": lambda layer: nn.Dropout(layer.rate),
            "flatten": lambda _: nn.Flatten(),
        }
        for layer in net.layers:
            if layer.kind == "conv":
                zeros = padding(layer)
                if len(set(zeros)) == 1:
                    pad = zeros[0]
                else:
                    pad = 0
                if len(set(zeros)) != 1:
                    modules += [nn.ZeroPad2d(zeros)]
                modules.append(
                    nn.Conv2d(
                        layer.in_shape[0],
                        layer.out_shape[0],
                        layer.kernel,
                        layer.stride,
                        pad,
                    )
                )
            else:
                modules.append(kinds[layer.kind](layer))
            in_loss = (
                layer is net.layers[-1]
                and layer.activation in ("sigmoid", "softmax")
                and not with_output
            )
            if layer.activation != "linear" and not in_loss:
                modules.append(functions[layer.activation]())
        model = nn.Sequential(*modules)
        with self.torch.no_grad():
            for own, ours in zip(
                model.parameters(), net.parameters().values(), strict=True
            ):
                own.copy_(self.torch.from_numpy(ours))
        return model.to(self.device, getattr(self.torch, case.dtype)), net

    def rows(self, x, net):
        """x (rows, inputs) as a tensor of the network's input shape."""
        shape = net.layers[0].in_shape
        x = x.reshape(len(x), *(shape if reads_images(net.layers) else shape[:1]))
        return self.torch.from_numpy(x)

    def targets(self, y):
        y = self.torch.from_numpy(y).to(self.device)
        if y.ndim == 1:
            return y.long()
        return y

    def start_training(self, case: TrainStepCase):
        torch = self.torch
        model, net = self.model(case, with_output=False)
        losses = {
            "bce": torch.nn.BCEWithLogitsLoss,
            "ce": torch.nn.CrossEntropyLoss,
            "mse": torch.nn.MSELoss,
        }
        loss_of = losses[net.loss]()

        model.eval()
        gradients = []
        for x, y in checked_batches(case):
            model.zero_grad()
            rows = self.rows(x, net).to(self.device)
            loss_of(model(rows), self.targets(y)).backward()
            gradients.append(
                np.concatenate(
                    [p.grad.cpu().numpy().ravel() for p in model.parameters()]
                )
            )

        model.train()
        x, y = case.data()
        x = self.rows(x, net).to(self.device)
        y = self.targets(y)
        optimizer = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[case.optimizer]
        optimizer = optimizer(model.parameters(), lr=case.learning_rate)
        batches = min(case.batches, EAGER_BATCHES)

        def epoch():
            for rows in torch.randperm(len(x), device=self.device).split(case.batch)[
                :batches
            ]:
                optimizer.zero_grad()
                loss_of(model(x[rows]), y[rows]).backward()
                optimizer.step()
            if self.device == "cuda":
                torch.cuda.synchronize()

        return epoch_timer(epoch, batches), np.stack(gradients)

    def start_forward(self, case: Forward):
        model, net = self.model(case, with_output=True)
        model.eval()
        parts = blocks(
            self.rows(case.model.data(case.rows, case.dtype)[0], net), net.layers
        )

        there = isinstance(case, ForwardOnGpu)
        if there:
            parts = [part.to(self.device) for part in parts]

        def call():
            with self.torch.inference_mode():
                outputs = [model(part.to(self.device)) for part in parts]
                if not there:
                    return [out.cpu() for out in outputs]
            self.torch.cuda.synchronize()
            return outputs

        outputs = self.torch.cat(call()).cpu().numpy()
        return timed(call), outputs[checked_rows(case.rows)]


class Jax(Library):
    """JAX: a whole epoch in one jitted scan, a forward pass in one jitted function."""

    def __init__(self, backend: str):
        super().__init__(backend)
        import jax

        jax.config.update("jax_platforms", self.device)
        jax.config.update("jax_enable_x64", True)  # for the cases in float64
        jax.config.update("jax_default_matmul_precision", "highest")  # no TF32
        self.jax = jax
        self.version = jax.__version__

    def start_product(self, case: Product):
        a, b = map(self.jax.numpy.asarray, case.factors())
        product = self.jax.jit(self.jax.numpy.matmul)
        return timed(lambda: product(a, b).block_until_ready()), product(a, b)[
            checked_rows(case.m)
        ]

    def model(self, case):
        """Return our network, and its parameters as arrays of JAX."""
        net = case.model.network(case.dtype)
        return net, [
            self.jax.numpy.asarray(value) for value in net.parameters().values()
        ]

    def forward(self, layers, parameters, x, with_output: bool, key=None):
        """Outputs of rows x; without the output's activation if the loss has it. key:
        of dropout, or None."""
        jax = self.jax
        lax = self.jax.lax
        jnp = jax.numpy
        at = 0
        functions = {
            "linear": lambda z: z,
            "relu": jax.nn.relu,
            "sigmoid": jax.nn.sigmoid,
            "tanh": jnp.tanh,
            "softmax": jax.nn.softmax,
        }
        x = x.reshape(len(x), *(layers[0].in_shape if reads_images(layers) else (-1,)))
        for layer in layers:
            if layer.weight_shape:
                w, b = parameters[at : at + 2]
                at += 2
            if layer.kind == "dense":
                x = x @ w.T + b
            elif layer.kind == "conv":
                left, right, top, below = padding(layer)
                if not any((left, right, top, below)):
                    x = lax.conv(x, w, (layer.stride,) * 2, "VALID")
                else:
                    x = lax.conv_general_dilated(
                        x, w, (layer.stride,) * 2, [(top, below), (left, right)]
                    )
                x = x + b[:, None, None]
            elif layer.kind == "maxpool":
                window = (1, 1, layer.kernel, layer.kernel)
                steps = (1, 1, layer.stride, layer.stride)
                x = lax.reduce_window(x, -jnp.inf, lax.max, window, steps, "VALID")
            elif layer.kind == "flatten":
                x = x.reshape(len(x), -1)
            elif layer.kind == "dropout" and key is not None:
                key, now = jax.random.split(key)
                x = jnp.where(
                    jax.random.bernoulli(now, 1 - layer.rate, x.shape),
                    x / (1 - layer.rate),
                    0,
                )
            if (
                layer is not layers[-1]
                or with_output
                or layer.activation not in ("sigmoid", "softmax")
            ):
                x = functions[layer.activation](x)
        return x

    def loss(self, net, parameters, x, y, key=None):
        jnp = self.jax.numpy
        z = self.forward(net.layers, parameters, x, with_output=False, key=key)
        if net.loss == "ce":
            return -jnp.take_along_axis(
                self.jax.nn.log_softmax(z), y[:, None], 1
            ).mean()
        if net.loss == "bce":
            return (jnp.maximum(z, 0) - z * y + jnp.log1p(jnp.exp(-jnp.abs(z)))).mean()
        return ((z - y) ** 2).mean()

    def start_training(self, case: TrainStepCase):
        """Several networks are trained together, each on rows in an order of its
        own."""
        jnp = self.jax.numpy
        net, parameters = self.model(case)
        gradient_of = self.jax.grad(
            lambda parameters, *batch: self.loss(net, parameters, *batch)
        )
        gradients = [
            np.concatenate(
                [
                    np.ravel(g)
                    for g in gradient_of(parameters, *map(jnp.asarray, checked))
                ]
            )
            for checked in checked_batches(case)
        ]
        run = self.epochs(case, gradient_of, parameters, *map(jnp.asarray, case.data()))
        run()  # compiles
        batches = case.batches * case.networks
        return epoch_timer(run, batches), np.stack(gradients)

    def epochs(self, case: TrainStepCase, gradient_of, parameters: list, x, y):
        """A function that trains one epoch, of all networks, and waits for its end."""
        jax = self.jax
        jnp = self.jax.numpy
        lax = self.jax.lax
        rate = case.learning_rate
        beta1, beta2, epsilon = OPTIMIZERS["adam"].constants_with()

        def sgd(w, g, m, v, step):
            return w - rate * g, m, v

        def adam(w, g, m, v, step):
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            root = jnp.sqrt(v / (1 - beta2**step)).astype(w.dtype) + epsilon
            return w - (rate / (1 - beta1**step)).astype(w.dtype) * m / root, m, v

        update = {"adam": adam, "sgd": sgd}[case.optimizer]

        # arguments, for constants would become part of the program
        def epoch(state, x, y):
            def batch(state, rows):
                parameters, m, v, step, key = state
                key, now = jax.random.split(key)
                step = step + 1
                gradients = gradient_of(parameters, x[rows], y[rows], now)
                new = [
                    update(*each, step)
                    for each in zip(parameters, gradients, m, v, strict=True)
                ]
                parameters, m, v = map(list, zip(*new, strict=True))
                return (parameters, m, v, step, key), None

            *others, key = state
            key, now = jax.random.split(key)
            order = jax.random.permutation(now, len(x)).reshape(-1, case.batch)
            return lax.scan(batch, (*others, key), order)[0]

        zeros = [jnp.zeros_like(p) for p in parameters]
        state = (
            parameters,
            zeros,
            list(zeros),
            jnp.zeros((), x.dtype),
            jax.random.PRNGKey(0),
        )
        if (networks := case.networks) > 1:
            *others, _key = jax.tree.map(
                lambda a: jnp.broadcast_to(a, (networks, *a.shape)), state
            )
            state = *others, jax.random.split(state[-1], networks)
            epoch = jax.vmap(epoch, in_axes=(0, None, None))
        epoch = jax.jit(epoch)

        def run():
            nonlocal state
            state = jax.block_until_ready(epoch(state, x, y))

        return run

    def start_forward(self, case: Forward):
        jax = self.jax
        net, parameters = self.model(case)
        forward = jax.jit(
            lambda parameters, x: self.forward(
                net.layers, parameters, x, with_output=True
            )
        )
        x = case.model.data(case.rows, case.dtype)[0]
        if isinstance(case, ForwardOnGpu):
            x = jax.numpy.asarray(x)
            end = jax.block_until_ready
        else:
            end = partial(map, np.asarray)
        parts = blocks(x, net.layers)

        def call():
            return list(end([forward(parameters, part) for part in parts]))

        return timed(call), np.concatenate(call())[checked_rows(case.rows)]


class Keras(Library):
    """Keras, `fit` and `predict`, on JAX where that is installed, else on PyTorch."""

    def __init__(self, backend: str):
        super().__init__(backend)
        below = "torch"
        if importlib.util.find_spec("jax"):
            below = "jax"
            import jax

            jax.config.update("jax_platforms", self.device)
        os.environ["KERAS_BACKEND"] = below
        import keras

        keras.config.set_image_data_format("channels_first")
        self.keras = keras
        self.version = f"{keras.__version__} {below}"

    def start_product(self, case: Product):
        ops = self.keras.ops
        a, b = map(ops.convert_to_tensor, case.factors())

        def product():
            return ops.convert_to_numpy(ops.matmul(a, b))

        return timed(product), product()[checked_rows(case.m)]

    def model(self, case):
        """Return the network as a Sequential with its parameters, and our own."""
        net = case.model.network(case.dtype)
        layers = self.keras.layers
        shape = net.layers[0].in_shape
        parts = [layers.Input(shape if reads_images(net.layers) else shape[:1])]
        for layer in net.layers:
            parts += self.layers_of(layer)
        model = self.keras.Sequential(parts)
        own = [w for part in model.layers for w in part.weights if "seed" not in w.path]
        for weight, (name, ours) in zip(own, net.parameters().items(), strict=True):
            weight.assign(self.as_ours(name, ours, weight.shape))
        return model, net

    def layers_of(self, layer) -> list:
        """Return a layer of ours as Keras has it, behind its padding."""
        layers = self.keras.layers
        act = layer.activation
        if layer.kind == "conv":
            left, right, top, below = padding(layer)
            size = (layer.kernel, layer.stride)
            conv = layers.Conv2D(layer.out_shape[0], *size, activation=act)
            return [layers.ZeroPadding2D(((top, below), (left, right))), conv]
        makers = {
            "dense": lambda: layers.Dense(layer.outputs, activation=act),
            "maxpool": lambda: layers.MaxPooling2D(layer.kernel, layer.stride),
            "avgpool": lambda: layers.AveragePooling2D(layer.kernel, layer.stride),
            "dropout": lambda: layers.Dropout(layer.rate),
            # Flatten would put the channels last
            "flatten": lambda: layers.Reshape((-1,)),
        }
        return [makers[layer.kind]()]

    @staticmethod
    def as_ours(name: str, ours: np.ndarray, shape) -> np.ndarray:
        """Return parameters of ours in Keras's order: (inputs, outputs), and of a
        convolution (height, width, channels, filters)."""
        if ours.ndim == 1:
            return ours
        if len(shape) == 4:
            return ours.reshape(shape[3], shape[2], *shape[:2]).transpose(2, 3, 1, 0)
        return ours.T

    def rows(self, case, count: int, net):
        """Return x in the network's input shape, and y."""
        x, y = case.model.data(count, case.dtype)
        if reads_images(net.layers):
            x = x.reshape(len(x), *net.layers[0].in_shape)
        return x, y

    def compiled(self, model, net, optimizer: str, rate: float):
        """Return the model, ready to be fitted: what a user of Keras writes."""
        losses = {
            "bce": "binary_crossentropy",
            "ce": "sparse_categorical_crossentropy",
            "mse": "mse",
        }
        optimizers = self.keras.optimizers
        step = {"adam": optimizers.Adam, "sgd": optimizers.SGD}[optimizer]
        model.compile(step(rate), losses[net.loss])
        return model

    def start_training(self, case: TrainStepCase):
        model, net = self.model(case)
        self.compiled(model, net, case.optimizer, case.learning_rate)
        x, y = self.rows(case, case.rows, net)
        epoch = partial(model.fit, x, y, batch_size=case.batch, verbose=0)
        return epoch_timer(epoch, case.batches), None

    def start_forward(self, case: Forward):
        model, net = self.model(case)
        x, _ = self.rows(case, case.rows, net)
        call = partial(model.predict, x, batch_size=BLOCK, verbose=0)
        return timed(call), call()[checked_rows(case.rows)]


SIDES = {"nn": Nn, "torch": Torch, "jax": Jax, "keras": Keras}
PEERS = [name for name in SIDES if name != "nn"]
