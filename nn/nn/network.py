"""Network: layers, parameters and what a model must know to read raw data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .. import backends
from ..core.calibration import tempered
from ..core.random import GlibcRandom, initial_frequencies, initial_weight
from ..data.dataset import ColumnChoices, Dataset, Schema
from ..data.encoding import Encoding
from ..data.memory import check_free, network_bytes
from ..data.scaling import Scaling
from ..data.table_rows import TableRows
from ..files import model_file, text_model
from ..files.text_model import check_layers, is_text
from ..layers import (
    InputColumn,
    activations_of,
    completed,
    input_shape,
    parameter_shapes,
    parse,
    predict_alike,
    to_spec,
)
from ..nn_aux import (
    ACTIVATIONS,
    DEFAULTS,
    DTYPES,
    INITIALIZERS,
    LOSSES,
    REFERENCE,
    TASKS,
    check_reference,
    check_reference_layers,
)
from ..utils import DataError, NnError, UsageError, listed

FACTS = (  # what a model knows beside its parameters and settings
    "columns", "targets", "classes", "threshold", "holdout", "dataset", "history", "config", "temperature",
    "scaling", "target_scaling",
)  # fmt: skip
PREDICT_BLOCK = 65536  # rows scaled at a time, so that predicting needs no second copy of the data


class Network:
    """A feed-forward network.

    layers      grammar of layers.py, e.g. "30,60,10,1" or "1x28x28,conv4k2same,maxpool4,128,10"
    task        binary, multiclass, regression; None: regression unless the last item or the loss says otherwise
    loss        a name of nn_aux.LOSSES; None: by task
    activation  of the items that name none, the last aside (relu); the last one's is by task
    init        a name of nn_aux.INITIALIZERS; None: that of each layer's activation
    input_columns  of a table with more than numbers, what each value of a row is (layers.py); layer 0 then encodes them
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
        input_columns: Sequence[InputColumn] = (),
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
            asked = {"backend": backend, "dtype": dtype, "activation": activation, "loss": loss, "init": init}
            check_reference(asked)
            backend, dtype, activation, loss, init = (REFERENCE[name] for name in asked)
        self.reference, self.seed, self.init, self.dtype = reference, seed, init, dtype or "float32"
        self.task = task or _task_of(loss)
        self._check_settings(activation or "relu")
        self._set_layers(layers, activation or "relu", loss, input_columns)
        self._compute_on(backend, threads, gpus, distribute, tf32)
        self.random: GlibcRandom | None = None
        self._written = {"spec": layers, "activation": activation or "relu", "loss": loss}  # for adopt
        self._members: list[Network] = []
        self.member_weights: list[float] = [1.0]
        self._set_facts()
        self._check_memory()
        self._vector = self._initial_vector()

    @classmethod
    def for_data(cls, ds: Dataset, layers: str | None = None, **settings) -> Network:
        """Return a new network for a data set, with its task.

        layers: without them, or where they begin with `auto`, it has the inputs of the data; None: the usual ones of
        `nn --train`. settings: those of Network. Raises UsageError.
        """
        return cls(completed(layers, ds.row_shape, ds.outputs), ds.task, **settings)

    def __repr__(self) -> str:
        parts = [f"{len(self._members)} networks"] if self._members else []
        parts += [self.task, f"{sum(member.parameter_count for member in self.members)} parameters", self.dtype]
        if self.columns:
            parts.append(f"columns {listed(self.columns)}")
        if self.classes:
            parts.append(f"classes {listed(self.classes)}")
        return f"<nn.Network {self.spec}: {', '.join(parts)}>"

    # ---- copies: a model file in memory, and what such a file leaves out

    def __reduce__(self):
        beside = {name: getattr(self, name) for name in ("reference", "init", "random", "_written")}
        engine = {name: getattr(self, name) for name in ("threads", "gpus", "distribute", "tf32")}
        packed = model_file.packed(self._tensors(), self.metadata())
        return _network_of, (type(self), packed, {"backend": self._asked_backend, **engine}, beside)

    # ---- its stages

    def _check_settings(self, activation: str) -> None:
        """Raise UsageError for a name that is unknown, or a seed out of range."""
        _check_name("--task", self.task, TASKS)
        _check_name("--activation", activation, ACTIVATIONS)
        _check_name("--dtype", self.dtype, DTYPES)
        _check_name("--init", self.init or "he", INITIALIZERS)
        if ACTIVATIONS[activation].couples_outputs:
            raise UsageError(f"--activation {activation}: {activation} is for the last layer only")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"--seed {self.seed}: must be from 0 to 4294967295")

    def _set_layers(
        self, spec: str, activation: str, loss: str | None, columns: Sequence[InputColumn]
    ) -> None:
        """Parse the layers and choose the loss. Raises UsageError for what does not go together."""
        output, usual_loss = ("sigmoid", REFERENCE["loss"]) if self.reference else TASKS[self.task]
        self.layers = parse(spec, activation, output, columns)
        self.loss = loss or _loss_for(self.layers[-1].output_function, usual_loss)
        _check_name("--loss", self.loss, LOSSES)
        self._check_output()
        if self.reference:
            check_reference_layers(self.layers)

    def _set_facts(self) -> None:
        """Begin with nothing known of the data: what a model file holds beside its parameters."""
        self.encoding: Encoding | None = None
        self.scaling = Scaling()
        self.target_scaling: Scaling | None = None
        self.columns: list[str] | None = None
        self.targets: list[str] | None = None
        self.classes: list[str] | None = None
        self.threshold = 0.5
        self.temperature = 1.0  # of class probabilities: their logits are divided by it
        self.holdout = 0.0
        self.dataset: dict | None = None  # path, sha256
        self.history: dict = {"loss": [], "val_loss": None}
        self.config: dict = {}

    def adopt(self, encoding: Encoding) -> None:
        """Take the encoding of a table's columns: layer 0 then encodes them, and all parameters are the initial ones.

        Raises UsageError if --layers begin with another number of feature columns.
        """
        if self.reference:
            raise UsageError("--reference: the table holds more than numbers; give columns of numbers, or leave it out")
        if self.inputs != encoding.features:
            raise UsageError(
                f"--layers: the network has {self.inputs} inputs, the table has {encoding.features} columns of features"
            )
        self._set_layers(**self._written, columns=encoding.columns)
        self.encoding, self._engine = encoding, None
        self._check_memory()
        self._vector = self._initial_vector()

    # ---- members: a network of several

    @property
    def members(self) -> list[Network]:
        """The networks whose outputs the predictions are weighted means of; of a single network itself."""
        return self._members or [self]

    def combine(self, members: Sequence[Network], weights: Sequence[float]) -> None:
        """Become a network of these members: each prediction is the weighted mean of theirs.

        The parameters are the members' from now on. Raises ValueError for weights that are not positive.
        """
        if not members or len(members) != len(weights) or not all(0 < weight < math.inf for weight in weights):
            raise ValueError(f"{len(members)} members with weights {list(weights)}: expected as many, above 0")
        self._members, self.member_weights = list(members), [float(weight) for weight in weights]
        first = members[0]
        if first.layers != self.layers:
            self._written, self.layers, self._vector = first._written, first.layers, first._vector.copy()
            self._engine = None

    @property
    def written_layers(self) -> str:
        """The layers as they were given."""
        return self._written["spec"]

    def sibling(self, seed: int, layers: str | None = None) -> Network:
        """Return a network like this one with the initial parameters of another seed, nothing trained.

        layers: other ones, for the same inputs and outputs. Raises UsageError.
        """
        net = self._copy(seed)
        if layers is not None:
            net._relayer(layers, self.layers[0].columns)
        net._vector = net._initial_vector()
        return net

    def _relayer(self, layers: str, columns: Sequence[InputColumn]) -> None:
        """Take other layers for the same inputs; the parameters are 0 then."""
        self._written = {**self._written, "spec": layers}
        self._set_layers(**self._written, columns=columns)
        self._vector = np.zeros(self.parameter_count, self.dtype)

    def _copy(self, seed: int) -> Network:
        """Return a network like this one that computes on an engine of its own; its parameters are to be set."""
        net, encoding = object.__new__(type(self)), self.encoding
        net.__dict__.update(self.__dict__)
        net._engine, net._members, net.member_weights, net.seed = None, [], [1.0], seed
        net._set_facts()
        net.encoding, net._vector = encoding, np.zeros_like(self._vector)
        return net

    def compute_with(self, engine) -> None:
        """Compute with a given engine, which takes the parameters; None: with one of its own, from the next use on."""
        self._engine = engine
        if engine is not None:
            engine.set("parameters", self._vector)

    def describe(self, **facts) -> None:
        """Set what the network knows of its data and training: the names of FACTS. Raises TypeError for another."""
        for name, fact in facts.items():
            if name not in FACTS:
                raise TypeError(f"{name} is none of {', '.join(FACTS)}")
            setattr(self, name, fact)

    # ---- where it is computed

    def _compute_on(self, backend="auto", threads=None, gpus=(), distribute=None, tf32=False) -> None:
        """Set what the engine will be made with; see __init__."""
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
        """Return the backend's name; what `auto` stands for is decided at the first use."""
        if self._backend is None:
            self.expect_batches(DEFAULTS["batch_number"])
        return self._backend

    @property
    def traits(self) -> backends.BackendTraits:
        """Return what is known of the backend before it computes."""
        return backends.TRAITS[self.backend]

    def expect_batches(self, rows: int) -> None:
        """Choose the backend that `auto` stands for by batches of `rows` rows, if nothing was computed yet."""
        if self._engine is None:
            options = self._gpu_options()
            self._backend = backends.resolve(self._asked_backend, self.layers, rows, **options)

    def _gpu_options(self) -> dict:
        return {"gpus": self.gpus, "tf32": self.tf32}

    # ---- shapes and names

    @property
    def spec(self) -> str:
        """Return the layers as text, every activation named."""
        return to_spec(self.layers)

    @property
    def inputs(self) -> int:
        """Return the number of values that go in, of one row: feature columns, if layer 0 encodes them."""
        layer = self.layers[0]
        return layer.features or layer.inputs

    @property
    def outputs(self) -> int:
        """Return the number of values that come out, of one row."""
        return self.layers[-1].outputs

    @property
    def parameter_count(self) -> int:
        """Return the number of weights and biases."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def schema(self) -> Schema:
        """What the network knows of the columns of its data."""
        return Schema(
            self.task,
            inputs=input_shape(self.layers),
            outputs=self.outputs,
            classes=self.classes,
            columns=self.columns,
            targets=self.targets,
            target=self.config.get("target") if self.targets is None else None,  # no name: its place in training
            dtype=self.dtype,
            choices=ColumnChoices(**self.config.get("table", {})),
            plain=self.reference,
            of_model=True,
            encoding=self.encoding,
            left_out=tuple(self.config.get("left_out", ())),
        )

    def _check_output(self) -> None:
        last = self.layers[-1]
        wanted = LOSSES[self.loss].activation
        if wanted and last.output_function != wanted:
            raise UsageError(
                f"--loss {self.loss} needs a {wanted} output layer, not {last.output_function}; "
                f"end --layers in {last.item}:{wanted} or choose another --loss"
            )
        if self.task == "binary" and last.outputs != 1:
            raise UsageError(
                f"--layers: a binary task has 1 output, not {last.outputs}; use --task multiclass"
            )
        if self.task == "multiclass" and last.outputs < 2:
            raise UsageError("--layers: a multiclass task needs an output for each class, at least 2")

    def _check_memory(self) -> None:
        """Raise NnError if parameters and gradients, here and in the engine, do not fit the free memory."""
        needed = network_bytes(self.layers, self.dtype, copies=3)
        check_free(needed, f"--layers: {self.parameter_count} parameters", "use smaller layers")

    # ---- parameters

    def _initial_vector(self) -> np.ndarray:
        if self.reference:
            return self._reference_vector()
        vector = np.zeros(self.parameter_count, self.dtype)
        named = zip(self.layers, activations_of(self.layers), strict=True)
        activations = [name for layer, name in named if layer.weight_shape]
        for index, (layer, weight, bias) in enumerate(self._slots(vector)):
            init = self.init or ("lecun" if layer.columns else ACTIVATIONS[activations[index]].init)
            if INITIALIZERS[init].biases:
                both = initial_weight(init, [(layer.parameters, 0, 0)], self.seed, index)
                weight[:], bias[:] = both[: weight.size].reshape(weight.shape), both[weight.size :]
            else:
                values = initial_weight(init, layer.weight_parts, self.seed, index)
                weight.reshape(-1)[: values.size] = values
            if layer.frequencies:
                waves = [(column.waves, column.deviation) for column in layer.columns if column.waves]
                weight[-layer.frequencies :] = initial_frequencies(waves, self.seed)
        return vector

    def _reference_vector(self) -> np.ndarray:
        """Return the original's initial values: all biases, then all weights; shuffles go on with their stream."""
        vector = np.empty(self.parameter_count)
        self.random = GlibcRandom(self.seed)
        slots = list(self._slots(vector))
        for _, _, bias in slots:
            bias[:] = self.random.uniform(bias.size)
        for _, weight, _ in slots:
            weight[:] = self.random.uniform(weight.size).reshape(weight.shape)
        return vector

    def _slots(self, vector: np.ndarray):
        """Yield (layer, weight view, bias view) for each layer with parameters, in the order of a parameter vector."""
        at = 0
        for layer in self.layers:
            if layer.weight_shape:
                end = at + layer.parameters
                weight = vector[at : end - layer.biases].reshape(layer.weight_shape)
                yield layer, weight, vector[end - layer.biases : end]
                at = end

    def _named(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        named, at = {}, 0
        for name, shape in parameter_shapes(self.layers).items():
            named[name] = vector[at : at + math.prod(shape)].reshape(shape)
            at += named[name].size
        return named

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters: "layer0.weight" (out, in) or (out, in, kh, kw), "layer0.bias" (out,), ...
        An embedding layer has a weight only: the values of its tables, one table after another.

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
        """Return what computes this network, a backends.engine.Engine; made when it is first needed."""
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
        self._vector = None  # the old ones may be the only room there is
        self._vector = self.engine.get("parameters")

    # ---- computing

    def gradients(self, x, y) -> tuple[float, dict[str, np.ndarray], np.ndarray]:
        """Return (mean loss, {parameter name: gradient}, dx) of one batch, which is not scaled.

        x (rows, inputs) or (rows, C, H, W); y (rows, outputs), or class indices (rows,) for a classifier.
        """
        x = np.ascontiguousarray(x, self.dtype)
        shape = x.shape
        y = self.target_rows(np.asarray(y))
        loss, vector, dx = self.engine.gradients(x.reshape(len(x), -1), y)
        return loss, self._named(vector), dx.reshape(shape)

    def target_rows(self, y: np.ndarray) -> np.ndarray:
        """Return targets as rows (rows, outputs) of the network's type; class indices become one-hot rows."""
        if y.ndim == 1 and self.outputs > 1:
            return np.ascontiguousarray(np.arange(self.outputs) == y[:, None], self.dtype)
        return np.ascontiguousarray(y.reshape(len(y), -1), self.dtype)

    def engine_rows(self, x: np.ndarray | TableRows) -> np.ndarray:
        """Return raw rows as the engine takes them: scaled (rows, inputs), records; uint8 pixels stay as they are."""
        if self.encoding is not None and not (isinstance(x, np.ndarray) and x.dtype.names):
            return self.encoding.apply(TableRows.of(x), self.dtype)
        x = np.asarray(x)
        if x.dtype.names:
            return x
        if x.size != len(x) * self.inputs:
            raise DataError(f"the data has {x.size // len(x)} inputs per row, the network has {self.inputs}")
        as_they_are = self.scaling.kind in ("none", "pixel") and x.dtype == self.dtype
        if as_they_are or (x.dtype == np.uint8 and self.scaling.kind == "pixel"):
            return x
        return self.scaling.apply(x, self.dtype)

    def predict(self, x) -> np.ndarray:
        """Return outputs (rows, outputs) for raw features (rows, inputs) or (rows, C, H, W), or of a table.

        Features are scaled inside; outputs of a regression are in the targets' own units.
        """
        x = self._rows_of_frame(x)
        if 0 < len(x) <= PREDICT_BLOCK:
            out = self._outputs(x)
        else:
            out = np.empty((len(x), self.outputs), self.dtype)
            for at in range(0, len(x), PREDICT_BLOCK):
                out[at : at + PREDICT_BLOCK] = self._outputs(x[at : at + PREDICT_BLOCK])
        if np.isnan(out).any():
            self._refuse_gaps(x)
        return out

    def deviation(self, x) -> np.ndarray:
        """Return the standard deviation of the members' outputs for rows as predict takes them: (rows, outputs).

        It is weighted as the mean is; of a single network 0.
        """
        x = self._rows_of_frame(x)
        out, step = np.zeros((len(x), self.outputs), self.dtype), max(1, PREDICT_BLOCK // len(self.members))
        for at in range(0, len(x) if self._members else 0, step):
            each = np.stack(list(self.member_outputs(x[at : at + step]))).astype(np.float64)
            mean = np.average(each, axis=0, weights=self.member_weights)
            variance = np.average((each - mean) ** 2, axis=0, weights=self.member_weights)
            out[at : at + step] = np.sqrt(variance)
        return out

    def member_outputs(self, x) -> Iterator[np.ndarray]:
        """Yield each member's outputs (rows, outputs) for some rows; members alike take turns on one engine."""
        engine, data, read_by = self.engine, None, None
        for member in self.members:
            if not predict_alike(member.layers, self.layers):
                yield member._outputs(x)
                continue
            reads = (member.scaling, member.encoding)
            if read_by is None or any(a is not b for a, b in zip(reads, read_by, strict=True)):
                data, read_by = engine.load(member.engine_rows(x)), reads
            engine.set("parameters", member._vector)
            yield member._in_units(engine.predict(data))
        engine.set("parameters", self._vector)

    def _refuse_gaps(self, x) -> None:
        """Raise DataError that names the first gap of rows that cannot have any: it made an output nan."""
        if self.encoding is not None or x.dtype.kind != "f" or not np.isnan(x).any():
            return
        row, column = np.argwhere(np.isnan(x.reshape(len(x), -1)))[0].tolist()
        name = f"column {self.columns[column]}" if self.columns else f"column {column + 1} of {self.inputs}"
        raise DataError(f"row {row + 1}, {name}: found nan, expected a number; the network was trained without gaps")

    def _rows_of_frame(self, x) -> np.ndarray | TableRows:
        """Return what predict was given as rows; the columns of a data frame are found by their names."""
        if isinstance(x, TableRows) or (isinstance(x, np.ndarray) and not self._is_table(x)):
            return x
        from ..data.frame_table import open_frame  # the readers of files load the C core
        from ..data.loading import load

        if open_frame(x) is None:
            return self._rows_of_frame(np.asarray(x))
        known = self.columns is not None
        if isinstance(x, np.ndarray):
            known = x.shape[1] <= self.inputs + self._left_out
        return load(x, replace(self.schema, targets=[]) if known else self.schema, labelled=False).x

    @property
    def _left_out(self) -> int:
        """Return how many columns of its data are no inputs."""
        return len(self.config.get("left_out", ()))

    def _is_table(self, x: np.ndarray) -> bool:
        """Return whether the columns of an array are to be read as those of a file: text, or more than the features."""
        if x.ndim != 2 or x.dtype.names:
            return False
        return x.dtype.kind in "OUSM" or (self._left_out > 0 and x.shape[1] == self.inputs + self._left_out)

    def _outputs(self, x: np.ndarray | TableRows) -> np.ndarray:
        if self._members:
            mean, whole = np.zeros((len(x), self.outputs)), sum(self.member_weights)
            for weight, out in zip(self.member_weights, self.member_outputs(x), strict=True):
                mean += weight / whole * out
            return self.calibrated(mean.astype(self.dtype))
        engine = self.engine
        return self._in_units(engine.predict(engine.load(self.engine_rows(x))))

    def _in_units(self, out: np.ndarray) -> np.ndarray:
        """Return an engine's outputs as predictions: calibrated, in the targets' own units."""
        out = self.calibrated(out)
        return out if self.target_scaling is None else self.target_scaling.inverse(out).astype(self.dtype)

    def calibrated(self, scores: np.ndarray) -> np.ndarray:
        """Return class probabilities (rows, outputs) by the network's temperature."""
        return scores if self.temperature == 1 else tempered(scores, self.temperature)

    # ---- files

    def metadata(self) -> dict:
        """Return what a model file keeps beside the parameters (docs/command-line.md, Model file)."""
        own = self._own_metadata()
        if not self._members:
            return own
        return {**own, "format": model_file.FORMAT, "members": [*self._member_metadata(own)]}

    def _member_metadata(self, shared: dict) -> Iterator[dict]:
        """Yield the weight of each member, and those of its metadata that are not among the shared ones."""
        for weight, member in zip(self.member_weights, self._members, strict=True):
            own = member.metadata()
            if "encoding" in shared:
                own.setdefault("encoding", None)
            yield {"weight": weight, **{name: value for name, value in own.items() if shared.get(name) != value}}

    def _own_metadata(self) -> dict:
        """Return what is kept of a single network."""
        encoding = {} if self.encoding is None else {"encoding": self.encoding.to_dict()}
        return {
            "format": model_file.FORMAT if encoding else model_file.PLAIN_FORMAT,
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
            **({} if self.temperature == 1 else {"temperature": self.temperature}),
            **encoding,
        }

    def export(self, path) -> None:
        """Write the model: safetensors, or the original's text where `path` ends in .m (one dense sigmoid network
        only). The file is replaced whole or not at all. Raises OutputError, UsageError."""
        if is_text(path):
            check_layers(self.layers)
            if self._members:
                raise UsageError(f"--model: a .m file holds one network, not {len(self._members)}; use .bin")
            weights, biases = self._folded_parameters()
            sizes = [self.inputs, *(layer.outputs for layer in self.layers)]
            text_model.save(path, sizes, biases, weights, "%lf" if self.reference else "%.17g")
        else:
            model_file.save(path, self._tensors(), self.metadata())

    def _tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as a model file names them."""
        if not self._members:
            return self.parameters()
        return {
            f"{model_file.member_prefix(number)}{name}": value
            for number, member in enumerate(self._members)
            for name, value in member.parameters().items()
        }

    def _folded_parameters(self):
        """Return (weights, biases) in float64, the scaling folded into the first layer so that raw rows go in."""
        slots = list(self._slots(self._vector.astype(np.float64)))
        weights, biases = [w for _, w, _ in slots], [b for _, _, b in slots]
        if self.scaling.kind != "none" and not self.reference:
            shift, scale = self.scaling.flat((self.inputs,))
            weights[0] = weights[0] / scale
            biases[0] = biases[0] - weights[0] @ shift
        weights[-1], biases[-1] = weights[-1] / self.temperature, biases[-1] / self.temperature
        return weights, biases

    @classmethod
    def load(
        cls, path, *, dtype: str | None = None, **engine
    ) -> Network:
        """Read a model file, everything in it checked. engine: backend, threads, gpus, tf32, as Network takes them.
        Raises InputNotFound, DataError."""
        if is_text(path):
            return cls._from_text(path, dtype, engine)
        return cls._of_tensors(path, *model_file.load(path), dtype, engine)

    @classmethod
    def _of_tensors(cls, path, tensors: dict[str, np.ndarray], meta: dict, dtype: str | None, engine: dict) -> Network:
        """Return the network, or the network of several, that a model file holds."""
        parts = model_file.members_of(tensors, meta)
        net = cls._of_file(path, *parts[0], dtype, engine)
        if "members" in meta:
            members = [net._member_of(*part, meta) for part in parts]
            net.seed = meta["seed"]
            net._describe_by(meta)
            net.combine(members, [member["weight"] for member in meta["members"]])
        return net

    @classmethod
    def _of_file(cls, path, tensors: dict[str, np.ndarray], meta: dict, dtype: str | None, engine: dict) -> Network:
        """Return the one network of these parameters and metadata."""
        try:
            net = cls(
                meta["layers"], meta["task"], loss=meta["loss"], seed=meta["seed"], dtype=dtype or meta["dtype"]
            )
        except NnError as error:
            raise DataError(f"{path}: {error}") from error
        if "encoding" in meta:
            net.adopt(Encoding.from_dict(meta["encoding"], meta["columns"]))
        net._compute_on(**engine)
        net.set_parameters(tensors)
        net._describe_by(meta)
        return net

    def _describe_by(self, meta: dict) -> None:
        """Take the facts of a file's metadata."""
        facts = {name: meta[name] for name in FACTS if name in meta}
        for name in ("scaling", "target_scaling"):
            facts[name] = meta[name] and Scaling.from_dict(meta[name])
        self.describe(**facts)

    def _member_of(self, tensors: dict[str, np.ndarray], meta: dict, shared: dict) -> Network:
        """Return a member of this network's file; what it shares with the others, it shares as an object."""
        net = self._copy(meta["seed"])
        is_encoded_alike = meta.get("encoding") == shared.get("encoding")
        if not is_encoded_alike:
            net.encoding = None
        if meta["layers"] != self.spec or not is_encoded_alike:
            net._relayer(meta["layers"], self.layers[0].columns if is_encoded_alike else ())
        if not is_encoded_alike and "encoding" in meta:
            net.adopt(Encoding.from_dict(meta["encoding"], meta["columns"]))
        net._describe_by(meta)
        if meta["scaling"] == shared["scaling"]:
            net.scaling = self.scaling
        net.set_parameters(tensors)
        return net

    @classmethod
    def _from_text(cls, path, dtype, engine) -> Network:
        """Read the original's text: sigmoid everywhere, classes known by their number only."""
        sizes, biases, weights = text_model.load(path)
        net = cls(
            ",".join(map(str, sizes)) + ":sigmoid", "binary" if sizes[-1] == 1 else "multiclass", loss="mse",
            activation="sigmoid", dtype=dtype or "float64", **engine,
        )  # fmt: skip
        for index, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            net.set_parameters({f"layer{index}.weight": weight, f"layer{index}.bias": bias})
        return net


def _network_of(cls: type[Network], packed: bytes, engine: dict, beside: dict) -> Network:
    """Return the network that Network.__reduce__ has taken apart."""
    net = cls._of_tensors(model_file.IN_MEMORY, *model_file.unpacked(packed), None, engine)
    for name, value in beside.items():
        setattr(net, name, value)
    return net


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


def _task_of(loss: str | None) -> str:
    """Return the task whose usual loss this is, else regression."""
    return next((task for task, (_, usual) in TASKS.items() if usual == loss), "regression")


def _loss_for(activation: str, usual: str) -> str:
    """Return the task's loss, or mse where that loss does not go with the output layer's activation."""
    return usual if LOSSES[usual].activation in (None, activation) else "mse"


__all__ = ["FACTS", "Network"]
