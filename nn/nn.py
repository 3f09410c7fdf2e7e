"""Network: layers, parameters and what a model must know to read raw data."""

from __future__ import annotations

import numpy as np

from . import backends
from .layers import Layer, parse, to_spec
from .nn_aux import (
    ACTIVATIONS,
    DTYPES,
    INITIALIZERS,
    LOSSES,
    REFERENCE,
    TASKS,
    GlibcRandom,
    initial_weight,
)
from .scaling import Scaling
from .utils import DataError, NnError, UsageError, available_memory

FORMAT = 1
PREDICT_BLOCK = 65536  # rows scaled at a time, so that predicting needs no second copy of the data


class Network:
    """A feed-forward network.

    layers      grammar of layers.py, e.g. "30,60,10,1" or "1x28x28,conv4k2same,maxpool4,128,10"
    task        binary, multiclass, regression; None: regression unless the last item or the loss says otherwise
    loss        mse, mae, huber, bce, ce; None: by task
    activation  of the items that name none, the last aside (relu); the last one's is by task
    init        he, glorot, uniform; None: he, and glorot for layers that do not end in a relu
    seed        0 .. 2^32-1, of the initial weights, and of shuffles and dropout masks when it is trained
    reference   the original program: seq, float64, sigmoid everywhere, its loss, its random numbers
    gpus        GPUs by their numbers, (0, 1), or as `--gpus` names them; none: the first, if the backend wants one
    distribute  mirrored, central: where the parameters are, of several GPUs or nodes; None: mirrored
    tf32        float32 products may be taken with 10 bits of mantissa, where a GPU can

    Raises UsageError for what does not fit together.
    """

    def __init__(
        self,
        layers: str,
        task: str | None = None,
        *,
        loss: str | None = None,
        activation: str | None = None,
        init: str | None = None,
        seed: int = 0,
        backend: str = "auto",
        dtype: str | None = None,
        threads: int | None = None,
        reference: bool = False,
        gpus: str | int | tuple[int, ...] = (),
        distribute: str | None = None,
        tf32: bool = False,
    ):
        if reference:
            given = {"backend": backend, "dtype": dtype, "activation": activation, "loss": loss, "init": init}
            backend, dtype, activation, loss, init = _only_reference(given)
        dtype = dtype or "float32"
        self.reference = reference
        self.task = task or _guess_task(loss)
        _check_name("--task", self.task, TASKS)
        _check_name("--activation", activation or "relu", ACTIVATIONS)
        _check_name("--dtype", dtype, DTYPES)
        _check_name("--init", init or "he", INITIALIZERS)
        if activation == "softmax":
            raise UsageError("--activation softmax: softmax is for the last layer only")
        if not 0 <= seed < 2**32:
            raise UsageError(f"--seed {seed}: must be from 0 to 4294967295")
        output, usual_loss = ("sigmoid", "mse") if reference else TASKS[self.task]
        self.layers = parse(layers, activation or "relu", output)
        self.loss = loss or _loss_for(self.layers[-1].activation, usual_loss)
        _check_name("--loss", self.loss, LOSSES)
        self._check_output()
        if reference:
            self._check_reference_layers()
        self.seed, self.dtype = seed, dtype
        self._compute_on(backend, threads, gpus, distribute, tf32)
        self.init = init
        # what a model knows beside its parameters
        self.scaling = Scaling()
        self.target_scaling: Scaling | None = None
        self.columns: list[str] | None = None
        self.targets: list[str] | None = None
        self.classes: list[str] | None = None
        self.threshold = 0.5
        self.holdout = 0.0
        self.dataset: dict | None = None
        self.history: dict = {"loss": [], "val_loss": None}
        self.config: dict = {}
        self.random: GlibcRandom | None = None
        self._check_memory()
        self._vector = self._initial_vector()

    # ---- where it is computed

    def _compute_on(self, backend="auto", threads=None, gpus=(), distribute=None, tf32=False) -> None:
        """Settings of the engine to be; see __init__."""
        _check_name("--backend", backend, backends.BACKENDS)
        _check_name("--distribute", distribute or "mirrored", backends.DISTRIBUTIONS)
        if tf32 and self.dtype != "float32":
            raise UsageError(f"--tf32: shortens float32, not {self.dtype}; leave one out")
        self.threads, self.gpus, self.distribute, self.tf32 = threads, _device_numbers(gpus), distribute, tf32
        self._asked_backend, self._backend, self._engine = backend, None, None
        if backend != "auto":
            self._backend = backends.resolve(backend, **self._gpu_options())

    @property
    def backend(self) -> str:
        """The backend's name; what `auto` stands for is decided when it is first needed."""
        if self._backend is None:
            self.expect_batches(backends.USUAL_ROWS)
        return self._backend

    def expect_batches(self, rows: int) -> None:
        """Batches of so many rows are to come: `auto` chooses by them, unless something was computed already."""
        if self._engine is None:
            options = self._gpu_options()
            self._backend = backends.resolve(self._asked_backend, self.layers, rows, **options)

    def _gpu_options(self) -> dict:
        return {"gpus": self.gpus, "tf32": self.tf32}

    # ---- shapes and names

    @property
    def spec(self) -> str:
        """The layers as text, every activation named."""
        return to_spec(self.layers)

    @property
    def inputs(self) -> int:
        """Values of one row that go in."""
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        """Values of one row that come out."""
        return self.layers[-1].outputs

    @property
    def parameter_count(self) -> int:
        """Number of weights and biases."""
        return sum(layer.parameters for layer in self.layers)

    def _check_output(self) -> None:
        last = self.layers[-1]
        wanted = {"bce": "sigmoid", "ce": "softmax"}.get(self.loss)
        if wanted and last.activation != wanted:
            raise UsageError(
                f"--loss {self.loss} needs a {wanted} output layer, not {last.activation}; "
                f"end --layers in {last.item}:{wanted} or choose another --loss"
            )
        if self.task == "binary" and last.outputs != 1:
            raise UsageError(
                f"--layers: a binary task has 1 output, not {last.outputs}; use --task multiclass"
            )
        if self.task == "multiclass" and last.outputs < 2:
            raise UsageError("--layers: a multiclass task needs an output for each class, at least 2")

    def _check_reference_layers(self) -> None:
        for layer in self.layers:
            if (layer.kind, layer.activation) != ("dense", "sigmoid"):
                raise UsageError(f"--layers: {layer.item}: --reference has dense sigmoid layers only")

    def _check_memory(self) -> None:
        """Refuse now what would be killed later: parameters and gradients, here and in the engine."""
        need = 3 * self.parameter_count * np.dtype(self.dtype).itemsize
        there = available_memory()
        if there is not None and need > there:
            raise NnError(
                f"--layers: {self.parameter_count} parameters need {need / 1e9:.1f} GB, and "
                f"{there / 1e9:.1f} GB are free; use smaller layers"
            )

    # ---- parameters

    def _initial_vector(self) -> np.ndarray:
        if self.reference:
            return self._reference_vector()
        vector = np.zeros(self.parameter_count, self.dtype)
        for index, (layer, weight, bias) in enumerate(self._slots(vector)):
            init = self.init or ("he" if layer.activation in ("relu", "lrelu") else "glorot")
            shape = layer.weight_shape
            if init == "uniform":  # biases too, as the original
                both = initial_weight(init, (layer.parameters,), 0, 0, self.seed, index)
                weight[:], bias[:] = both[: weight.size].reshape(shape), both[weight.size :]
            else:
                weight[:] = initial_weight(init, shape, layer.fan_in, layer.fan_out, self.seed, index)
        return vector

    def _reference_vector(self) -> np.ndarray:
        """The original's initial values: all biases, then all weights, from one stream that shuffles go on with."""
        vector = np.empty(self.parameter_count)
        self.random = GlibcRandom(self.seed)
        slots = list(self._slots(vector))
        for _, _, bias in slots:
            bias[:] = self.random.uniform(bias.size)
        for _, weight, _ in slots:
            weight[:] = self.random.uniform(weight.size).reshape(weight.shape)
        return vector

    def _slots(self, vector: np.ndarray):
        """(layer, weight view, bias view) for each layer with parameters, in the order of a parameter vector."""
        at = 0
        for layer in self.layers:
            if layer.weight_shape:
                end = at + layer.parameters
                weight = vector[at : end - layer.biases].reshape(layer.weight_shape)
                yield layer, weight, vector[end - layer.biases : end]
                at = end

    def _named(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        slots = self._slots(vector)
        return {
            f"layer{i}.{name}": array
            for i, (_, weight, bias) in enumerate(slots)
            for name, array in (("weight", weight), ("bias", bias))
        }

    def parameters(self) -> dict[str, np.ndarray]:
        """Copies of the parameters: "layer0.weight" (out, in) or (out, in, kh, kw), "layer0.bias" (out,), ...

        Layers are counted without those that have no parameters.
        """
        return self._named(self._vector.copy())

    def set_parameters(self, values: dict[str, np.ndarray]) -> None:
        """Replace parameters by name. ValueError for an unknown name or another shape."""
        own = self._named(self._vector)
        for name, value in values.items():
            if name not in own or np.shape(value) != own[name].shape:
                expected = own[name].shape if name in own else f"one of {', '.join(own)}"
                raise ValueError(f"{name} {np.shape(value)}: expected {expected}")
            own[name][...] = value
        if self._engine is not None:
            self._engine.set("parameters", self._vector)

    @property
    def engine(self):
        """What computes this network (backends/__init__.py); made when it is first needed."""
        if self._engine is None:
            loss = "reference" if self.reference else self.loss
            self._engine = backends.create(
                self.backend, self.layers, loss, self.dtype, self.threads,
                distribute=self.distribute, **self._gpu_options(),
            )  # fmt: skip
            self._engine.set("parameters", self._vector)
        return self._engine

    def take_parameters(self) -> None:
        """Bring the parameters back from the engine, after it has trained them."""
        self._vector = self.engine.get("parameters")

    # ---- computing

    def gradients(self, x, y) -> tuple[float, dict[str, np.ndarray], np.ndarray]:
        """(mean loss, {parameter name: gradient}, dx) of one batch as it stands, scaled by nobody.

        x (rows, inputs) or (rows, C, H, W); y (rows, outputs), or class indices (rows,) for a classifier.
        """
        x = np.ascontiguousarray(x, self.dtype)
        shape = x.shape
        y = self.target_rows(np.asarray(y))
        loss, vector, dx = self.engine.gradients(x.reshape(len(x), -1), y)
        return loss, self._named(vector), dx.reshape(shape)

    def target_rows(self, y: np.ndarray) -> np.ndarray:
        """Targets as rows (rows, outputs) of the network's type; class indices become one-hot rows."""
        if y.ndim == 1 and self.outputs > 1:
            return np.ascontiguousarray(np.arange(self.outputs) == y[:, None], self.dtype)
        return np.ascontiguousarray(y.reshape(len(y), -1), self.dtype)

    def engine_rows(self, x: np.ndarray) -> np.ndarray:
        """Raw rows scaled and typed as the engine wants them: (rows, inputs), or uint8 pixels as they are."""
        x = np.asarray(x)
        if x.size != len(x) * self.inputs:
            raise DataError(f"the data has {x.size // len(x)} inputs a row, the network {self.inputs}")
        as_they_are = self.scaling.kind in ("none", "pixel") and x.dtype == self.dtype
        if as_they_are or (x.dtype == np.uint8 and self.scaling.kind == "pixel"):
            return x
        return self.scaling.apply(x, self.dtype)

    def predict(self, x) -> np.ndarray:
        """Outputs (rows, outputs) for raw features (rows, inputs) or (rows, C, H, W): scaled inside, and
        regression targets given back in their own units."""
        x = np.asarray(x)
        if 0 < len(x) <= PREDICT_BLOCK:
            out = self._outputs(x)
        else:
            out = np.empty((len(x), self.outputs), self.dtype)
            for at in range(0, len(x), PREDICT_BLOCK):
                out[at : at + PREDICT_BLOCK] = self._outputs(x[at : at + PREDICT_BLOCK])
        if self.target_scaling is not None:
            out = self.target_scaling.inverse(out).astype(self.dtype)
        return out

    def _outputs(self, x: np.ndarray) -> np.ndarray:
        engine = self.engine
        return engine.predict(engine.load(self.engine_rows(x)))

    # ---- files

    def metadata(self) -> dict:
        """What a model file keeps beside the parameters (design: model file)."""
        return {
            "format": FORMAT,
            "layers": self.spec,
            "task": self.task,
            "loss": self.loss,
            "dtype": self.dtype,
            "seed": self.seed,
            "scaling": self.scaling.to_dict(),
            "target_scaling": self.target_scaling and self.target_scaling.to_dict(),
            "columns": self.columns,
            "targets": self.targets,
            "classes": self.classes,
            "threshold": self.threshold,
            "holdout": self.holdout,
            "dataset": self.dataset,
            "history": self.history,
            "config": self.config,
        }

    def export(self, path) -> None:
        """Write the model: safetensors, or the original's text where `path` ends in .m (dense sigmoid networks
        only). The file is replaced whole or not at all. Raises OutputError, UsageError."""
        from . import model_file

        if str(path).endswith(".m"):
            check_text_format(self)
            weights, biases = self._folded_parameters()
            sizes = [self.inputs, *(layer.outputs for layer in self.layers)]
            model_file.save_text(path, sizes, biases, weights, "%lf" if self.reference else "%.17g")
        else:
            model_file.save(path, self.parameters(), self.metadata())

    def _folded_parameters(self):
        """(weights, biases) in float64, the scaling folded into the first layer so that raw rows go in."""
        slots = list(self._slots(self._vector.astype(np.float64)))
        weights, biases = [w for _, w, _ in slots], [b for _, _, b in slots]
        if self.scaling.kind != "none" and not self.reference:
            shift, scale = self.scaling.flat((self.inputs,))
            weights[0] = weights[0] / scale
            biases[0] = biases[0] - weights[0] @ shift
        return weights, biases

    @classmethod
    def load(
        cls, path, *, dtype: str | None = None, **engine
    ) -> Network:
        """Read a model file, everything in it checked. engine: backend, threads, gpus, tf32, as Network takes them.
        Raises InputNotFound, DataError."""
        from . import model_file

        if str(path).endswith(".m"):
            return cls._from_text(path, dtype, engine)
        tensors, meta = model_file.load(path)
        try:
            net = cls(
                meta["layers"], meta["task"], loss=meta["loss"], seed=meta["seed"], dtype=dtype or meta["dtype"]
            )
        except NnError as error:
            raise DataError(f"{path}: {error}") from error
        own = {name: array.shape for name, array in net._named(net._vector).items()}
        if own != {name: array.shape for name, array in tensors.items()}:
            raise DataError(f"{path}: its tensors do not fit its layers {meta['layers']}")
        net._compute_on(**engine)
        net.set_parameters(tensors)
        net.scaling = Scaling.from_dict(meta["scaling"])
        net.target_scaling = meta["target_scaling"] and Scaling.from_dict(meta["target_scaling"])
        for name in ("columns", "targets", "classes", "threshold", "holdout", "dataset", "history", "config"):
            setattr(net, name, meta[name])
        return net

    @classmethod
    def _from_text(cls, path, dtype, engine) -> Network:
        """The original's text: sigmoid everywhere, classes known by their number only."""
        from . import model_file

        sizes, biases, weights = model_file.load_text(path)
        net = cls(
            ",".join(map(str, sizes)) + ":sigmoid", "binary" if sizes[-1] == 1 else "multiclass", loss="mse",
            activation="sigmoid", dtype=dtype or "float64", **engine,
        )  # fmt: skip
        for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            net.set_parameters({f"layer{index}.weight": weight, f"layer{index}.bias": bias})
        return net


def check_text_format(net: Network) -> None:
    """Raise UsageError if the original's text cannot hold this network; to be asked before training."""
    for layer in net.layers:
        if layer.kind != "dense":
            raise UsageError(
                f"--model: a .m file holds dense layers only, not {layer.item or layer.kind}; use .bin"
            )
        if layer.activation != "sigmoid":
            raise UsageError(
                f"--model: a .m file holds sigmoid layers only, not {layer.item}:{layer.activation}; "
                "add --activation sigmoid and end --layers in :sigmoid, or use .bin"
            )


def _check_name(flag: str, name: str, known) -> None:
    if name not in known:
        raise UsageError(f"{flag} {name}: unknown; choose from {', '.join(known)}")


def _device_numbers(gpus) -> tuple[int, ...]:
    if isinstance(gpus, (tuple, list)):
        return tuple(gpus)
    try:
        return backends.device_numbers(gpus)
    except ValueError as error:
        raise UsageError(f"--gpus {gpus}: expected how many GPUs (2), or their numbers (0,2)") from error


def _only_reference(given: dict) -> list:
    """The values that --reference stands for, once it is sure that none was asked to be another."""
    for name, value in given.items():
        if value not in (None, "auto", REFERENCE[name]):
            raise UsageError(f"--{name} {value}: --reference means {REFERENCE[name]}; leave one of them out")
    return [REFERENCE[name] for name in given]


def _guess_task(loss: str | None) -> str:
    return {"bce": "binary", "ce": "multiclass"}.get(loss, "regression")


def _loss_for(activation: str, usual: str) -> str:
    """The task's loss, or mse where the output layer was given an activation that it does not go with."""
    fits = {"bce": "sigmoid", "ce": "softmax"}.get(usual, activation) == activation
    return usual if fits else "mse"


__all__ = ["Layer", "Network", "check_text_format"]
