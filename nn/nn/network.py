"""Network: layers, parameters, members, an engine, and what a model must know to read
raw data."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from .. import backends
from ..backends import elsewhere
from ..cluster import RankGroup
from ..core.random import GlibcRandom
from ..core.thresholds import tempered
from ..data.dataset import Dataset
from ..data.encoding import Encoding
from ..data.given_rows import rows_and_exposures, times
from ..data.records import check_left, network_bytes
from ..data.row_memory import RowMemory
from ..data.row_reader import RowReader
from ..data.schema import Choices, Schema, targets_for
from ..layers import InputColumn, Layer, completed, input_shape, parse, to_spec
from ..nn_aux import DTYPES, INITIALIZERS, TASKS, loss_of, quantiles_of
from ..settings.flags import (
    BY_NAME,
    DEFAULTS,
    REFERENCE,
    check_reference,
    check_reference_layers,
)
from ..settings.values import GPUS, LAYERS, one_of, plain
from ..utils import UsageError, counted, listed, plural
from . import model, parameters, prediction
from .facts import FACTS, Facts, remember

_making = threading.RLock()  # an engine
if hasattr(os, "register_at_fork"):  # not Windows
    os.register_at_fork(
        before=_making.acquire,
        after_in_parent=_making.release,
        after_in_child=_making.release,
    )


class Network:
    """A feed-forward network.

    layers      grammar of layers.py, e.g. "30,60,10,1" or
                "1x28x28,conv4k2same,maxpool4,128,10", or their list
    task        binary, multiclass, multilabel, regression; None: regression unless the
                last item or the loss says otherwise
    loss        a name of nn_aux.LOSSES, with a constant: huber=0.5; None: by task
    activation  of the items that name none, the last aside (relu); the last one's is by
                task
    init        a name of nn_aux.INITIALIZERS; None: that of each layer's activation
    input_columns  of a table with more than numbers, what each value of a row is
                   (layers.py); layer 0 then encodes them
    seed        0 .. 2^32-1, of the initial weights, and of shuffles and dropout masks
                when it is trained
    reference   the original program: seq, float64, sigmoid everywhere, its loss, its
                random numbers
    gpus        GPUs by their numbers, (0, 1), or as `--gpus` names them; none: the
                first, if the backend wants one
    distribute  mirrored, central: where the parameters are, of several GPUs or nodes;
                None: mirrored
    dtype       float32, float64, or tf32: float32 whose products a GPU may take with 10
                bits of mantissa

    Raises UsageError for what does not fit together.
    """

    # for type checkers, the fields of the record of facts that a person asks for
    columns: list[str] | None
    targets: list[str] | None
    classes: list[str] | None
    threshold: float | list[float]
    history: dict
    config: dict

    def __init__(  # noqa: PLR0913 - settings by keyword
        self,
        layers: str | Sequence[int | str],
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
    ):
        layers = LAYERS.text_of(layers)
        seed = plain(seed)
        threads = plain(threads)
        if reference:
            asked = {
                "backend": backend,
                "dtype": dtype,
                "activation": activation,
                "loss": loss,
                "init": init,
            }
            check_reference(asked)
            backend = REFERENCE["backend"]
            dtype = REFERENCE["dtype"]
            activation = REFERENCE["activation"]
            loss = REFERENCE["loss"]
            init = REFERENCE["init"]
        _check(
            {
                "activation": activation,
                "loss": loss,
                "seed": seed,
                "dtype": dtype,
            }
        )
        if init is not None:
            one_of(INITIALIZERS)("--init", init)
        self.task = task or next(
            (name for name, usual in TASKS.items() if usual.loss == loss), "regression"
        )
        one_of(TASKS)("--task", self.task)
        self.reference = reference
        self.seed = seed
        self.init = init
        self.asked_dtype = dtype or "float32"
        self._set_layers(layers, activation or "relu", loss, input_columns)
        self._facts = Facts()
        self._row_memory: RowMemory | None = None
        self._reader: RowReader | None = None
        self._batch_number = DEFAULTS["batch_number"]
        self.compute_on(backend, threads, gpus, distribute)
        self.random: GlibcRandom | None = None
        # for `facts` and siblings
        self._written = {
            "spec": layers,
            "activation": activation or "relu",
            "loss": loss,
        }
        self._members: list[Network] = []
        self.member_weights: list[float] = [1.0]
        self._check_memory()
        self._vector: np.ndarray | None = None  # the initial one, until it is asked for
        # rows of the training for explanations, which no file keeps
        self.background = None
        self.next_seed: int | None = None  # of a training that goes on

    @classmethod
    def for_data(
        cls, ds: Dataset, layers: str | Sequence[int | str] | None = None, **settings
    ) -> Network:
        """Return a new network for a data set, with its task.

        layers: without them, or where they begin with `auto`, it has the inputs of the
        data; None: the usual ones of `nn --train`. settings: those of Network. Raises
        UsageError.
        """
        loss = settings.get("loss") or TASKS[ds.task][1]
        outputs = ds.for_loss(loss).outputs
        return cls(
            completed(LAYERS.text_of(layers), ds.row_shape, outputs),
            ds.task,
            **settings,
        )

    def __repr__(self) -> str:
        if self.is_combined:
            parts = [f"{len(self._members)} networks"]
        else:
            parts = []
        parts += [
            self.task,
            f"{sum(member.parameter_count for member in self.members)} parameters",
            self.dtype,
        ]
        if self.columns:
            parts.append(f"columns {listed(self.columns)}")
        if self.classes:
            parts.append(f"classes {listed(self.classes)}")
        layers = "; ".join(counted(member.spec for member in self.members))
        return f"<nn.Network {layers}: {', '.join(parts)}>"

    # ---- copies: a model file in memory, and what such a file leaves out

    def __getstate__(self) -> dict:
        packed = model.packed(self)
        beside = {
            name: getattr(self, name)
            for name in ("reference", "init", "random", "_written")
        }
        return {
            "model": packed,
            "dtype": self.asked_dtype,
            "engine": {"backend": self._asked_backend, **self.device._asdict()},
            "beside": beside,
        }

    def copied(self, dtype: str | None = None, **engine) -> Network:
        """Return a copy, as a model file would give it. engine: backend, threads, gpus,
        where it computes elsewhere."""
        asked = {"backend": self._asked_backend, **self.device._asdict(), **engine}
        packed = model.packed(self)
        return model.unpacked(type(self), packed, dtype or self.asked_dtype, asked)

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(
            vars(
                model.unpacked(
                    type(self), state["model"], state["dtype"], state["engine"]
                )
            ),
            **state["beside"],
        )

    # ---- layers and facts

    def _set_layers(
        self,
        spec: str,
        activation: str,
        loss: str | None,
        columns: Sequence[InputColumn],
    ) -> None:
        """Parse the layers and choose the loss. Raises UsageError for what does not go
        together."""
        if self.reference:
            output = "sigmoid"
            usual_loss = REFERENCE["loss"]
        else:
            output, usual_loss, *_ = TASKS[self.task]
            rule = loss_of(loss or usual_loss)
            if rule.task == self.task:
                output = rule.activation or output
        _check_quantiles(loss or usual_loss, parse(spec, columns=columns)[-1])
        self.layers = parse(spec, activation, output, columns)
        # values of a row: feature columns, if encoded
        self.inputs = self.layers[0].features or self.layers[0].inputs
        self.outputs = self.layers[-1].outputs
        if loss_of(usual_loss).activation not in (
            None,
            self.layers[-1].output_function,
        ):
            usual_loss = "mse"
        self.loss = loss or usual_loss
        check_output(self.task, self.loss, self.layers[-1])
        if self.reference:
            check_reference_layers(self.layers)

    @property
    def facts(self) -> Facts:
        """Return what the network knows of its data and training."""
        return self._facts

    @facts.setter
    def facts(self, facts: Facts) -> None:
        """Take a record. Layer 0 encodes as the record's encoding says; where that is
        another one, all parameters are the initial ones again.

        Raises UsageError if --layers begin with another number of feature columns.
        """
        encoding = facts.encoding
        if encoding is not None and encoding is not self.encoding:
            if self.reference:
                raise UsageError(
                    "--reference: the table holds more than numbers; give columns of numbers, or leave it out"
                )
            if self.inputs != encoding.features:
                raise UsageError(
                    f"--layers: the network has {self.inputs} inputs, the table has {encoding.features} columns of features"
                )
            self._set_layers(**self._written, columns=encoding.columns)
            self._engine = None
            self._vector = None
            self._check_memory()
        self._facts = facts
        self._row_memory = None
        self._reader = None

    # ---- members: a network of several

    @property
    def members(self) -> list[Network]:
        """Return the networks whose outputs are averaged into a prediction; of a single
        network itself."""
        return self._members or [self]

    @property
    def is_combined(self) -> bool:
        """Return whether the network is one of several; a single one has no members but
        itself."""
        return bool(self._members)

    def combine(self, members: Sequence[Network], weights: Sequence[float]) -> None:
        """Become a network of these members: each prediction is the weighted mean of
        theirs.

        The parameters are the members' from now on. Raises ValueError for weights that
        are not positive.
        """
        if (
            not members
            or len(members) != len(weights)
            or not all(0 < weight < math.inf for weight in weights)
        ):
            raise ValueError(
                f"{len(members)} members with weights {list(weights)}: expected as many, above 0"
            )
        self.member_weights = [float(weight) for weight in weights]
        self._members = list(members)
        first = members[0]
        if first.layers != self.layers:
            self._written = first._written
            self.layers = first.layers
            self.vector = first.vector.copy()
            self._engine = None

    @property
    def values(self) -> list[str] | None:
        """Return what the outputs of a regression are called: the targets, or several
        quantiles of one; None where they have no names."""
        return targets_for(self.loss, self.targets)

    @property
    def written_layers(self) -> str:
        """Return the layers as they were given."""
        return self._written["spec"]

    def sibling(
        self, seed: int, layers: str | None = None, encoding: Encoding | None = None
    ) -> Network:
        """Return a network like this one with the initial parameters of another seed,
        nothing trained.

        layers: other ones, for the same inputs and outputs. encoding: another one.
        Raises UsageError.
        """
        net = type(self)(
            layers or self._written["spec"],
            self.task,
            loss=self._written["loss"],
            activation=self._written["activation"],
            init=self.init,
            seed=seed,
            backend=self._asked_backend,
            dtype=self.asked_dtype,
            reference=self.reference,
            **self.device._asdict(),
        )
        net.facts = Facts(encoding=encoding or self.encoding)
        net._backend = self._backend
        return net

    # ---- where it is computed, and with which numbers

    @property
    def dtype(self) -> str:
        """Return the type of the parameters."""
        return DTYPES[self.asked_dtype]

    @property
    def value_dtype(self) -> str:
        """Return the type of predictions: that of the parameters, or float64 where
        float32 would blur the targets."""
        scalings = [member.target_scaling for member in self.members]
        if any(scaling is not None and scaling.is_blurred for scaling in scalings):
            return "float64"
        return self.dtype

    def compute_on(
        self, backend="auto", threads=None, gpus=(), distribute=None
    ) -> None:
        """Set what the engine will be made with; see __init__."""
        _check({"backend": backend, "threads": threads, "distribute": distribute})
        if isinstance(gpus, (tuple, list)):
            numbers = tuple(gpus)
        else:
            numbers = GPUS("--gpus", gpus)
        self.device = backends.Device(threads, numbers, distribute)
        self._asked_backend = backend
        self._backend = None
        if backend != "auto":
            self._backend = backends.resolve(backend, **self._gpu_options())

    @property
    def device(self) -> backends.Device:
        """Where it computes: a record of threads, gpus and distribute. Another one
        holds from the next use on."""
        return backends.Device(self.threads, self.gpus, self.distribute)

    @device.setter
    def device(self, device: backends.Device) -> None:
        self.threads, self.gpus, self.distribute = device
        self._engine = None

    @contextlib.contextmanager
    def apart(self) -> Iterator[tuple[RankGroup, list[backends.Device]]]:
        """Compute alone in the block, on the first of the devices that compute networks
        which have nothing to do with each other; yields (the ranks that share them out,
        this rank's devices). Raises what backends.ranks_and_devices does."""
        asked = self.device
        rank_group, devices = backends.ranks_and_devices(
            self.backend, **asked._asdict()
        )
        try:
            if rank_group.size > 1 or len(devices) > 1:
                self.device = devices[0]
            yield rank_group, devices
        finally:  # the engine stays
            self.threads, self.gpus, self.distribute = asked

    @property
    def backend(self) -> str:
        """Return the backend's name; what `auto` stands for is decided at the first
        use, by batches of `batch_number` rows."""
        if self._backend is None:
            self._backend = backends.resolve(
                self._asked_backend,
                self.layers,
                self._batch_number,
                **self._gpu_options(),
            )
        return self._backend

    @property
    def batch_number(self) -> int:
        """How many rows a batch is expected to have, which is known before the first
        use, or counts no more."""
        return self._batch_number

    @batch_number.setter
    def batch_number(self, rows: int) -> None:
        self._batch_number = rows
        if self._engine is None and self._asked_backend == "auto":
            self._backend = None

    @property
    def traits(self) -> backends.BackendTraits:
        """Return the backend's traits, which are known before it computes."""
        return backends.TRAITS[self.backend]

    def _gpu_options(self) -> dict:
        return {"gpus": self.gpus, "tf32": self.asked_dtype == "tf32"}

    # ---- shapes and names

    @property
    def spec(self) -> str:
        """Return the layers as text, every activation named."""
        return to_spec(self.layers)

    @property
    def parameter_count(self) -> int:
        """Return the number of weights and biases."""
        return parameters.count(self.layers)

    @property
    def schema(self) -> Schema:
        """Return what the network knows of the columns of its data."""
        left_out = tuple(self.config.get("left_out", ()))
        names = [name for name, _ in self.unused or ()]
        return Schema(
            self.task,
            inputs=input_shape(self.layers),
            outputs=1 if quantiles_of(self.loss) else self.outputs,
            classes=self.classes,
            labels=self.labels,
            columns=self.columns and [name.strip() for name in self.columns],
            targets=self.targets and [name.strip() for name in self.targets],
            # no name: its place in training
            target=self.config.get("target") if self.targets is None else None,
            dtype=self.dtype,
            choices=Choices(**self.config.get("table", {})),
            plain=self.reference,
            follows_model=True,
            encoding=self.encoding,
            left_out=left_out,
            names_left_out=tuple(
                (place, name)
                for place, name in zip(left_out, names, strict=False)
                if name
            ),
            asked=self.config.get("target"),
            fills_gaps=self.medians is not None,
            gaps=frozenset(self.gap_words),
            code_page=self.code_page,
            pictures=self.pictures,
            number_type=self.number_type,
            target_type=self.value_dtype if self.task == "regression" else None,
            keeps_weightless=self.weightless_rows is None,
        )

    @property
    def row_memory(self) -> RowMemory:
        """Return what it remembers of rows that it has read one by one."""
        if self._row_memory is None:
            self._row_memory = RowMemory(self.schema)
        return self._row_memory

    @property
    def reader(self) -> RowReader:
        """Return how the network reads raw rows."""
        if self._reader is None:
            self._reader = RowReader(
                self.dtype,
                input_shape(self.layers),
                self.scaling,
                self.encoding,
                self.columns,
                self.medians,
                self.number_type,
                self.pictures,
            )
        return self._reader

    def _check_memory(self) -> None:
        """Raise NnError if parameters and gradients, here and in the engine, do not fit
        the free memory."""
        what = f"--layers: a network of {self.parameter_count} parameters"
        check_left(
            network_bytes(self.layers, self.dtype, copies=3), what, "use smaller layers"
        )

    # ---- parameters

    @property
    def vector(self) -> np.ndarray:
        """All parameters, one layer after the other; the initial ones are drawn when
        they are asked for."""
        if self._vector is None and self.reference:
            self.random = GlibcRandom(self.seed)  # shuffles go on with this stream
            self._vector = parameters.initial_of_reference(self.layers, self.random)
        elif self._vector is None:
            self._vector = parameters.initial(
                self.layers, self.dtype, self.seed, self.init
            )
        return self._vector

    @vector.setter
    def vector(self, values: np.ndarray) -> None:
        self._vector = values

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of the parameters: "layer0.weight" (out, in) or (out, in, kh,
        kw), "layer0.bias" (out,), ...
        An embedding layer has a weight only: the values of its tables, one table after
        another.

        Layers are counted without those that have no parameters.
        """
        return parameters.by_name(self.layers, self.vector.copy())

    def set_parameters(self, values: dict[str, np.ndarray]) -> None:
        """Replace parameters by name. ValueError for an unknown name or another
        shape."""
        views = parameters.by_name(self.layers, self.vector)
        for name, value in values.items():
            if name not in views or np.shape(value) != views[name].shape:
                if name in views:
                    expected = views[name].shape
                else:
                    expected = f"one of {', '.join(views)}"
                raise ValueError(f"{name} {np.shape(value)}: expected {expected}")
            views[name][...] = value
        if self._engine is not None:
            self._engine.set("parameters", self.vector)

    @property
    def engine(self):
        """Return the engine of this network, a backends.engine.Engine; made when it is
        first needed."""
        if (engine := self._engine) is None:
            with _making:
                engine = self._engine = self._engine or self.new_engine()
        return engine

    def new_engine(self, device: backends.Device | None = None):
        """Return another engine, which has the parameters that the network has now.
        device: None: the network's."""
        if self.reference:
            loss = "reference"
        else:
            loss = self.loss
        engine = backends.create(
            self.backend,
            self.layers,
            loss,
            self.dtype,
            tf32=self.asked_dtype == "tf32",
            **(device or self.device)._asdict(),
        )
        engine.set("parameters", self.vector)
        return engine

    def take_parameters(self) -> None:
        """Bring the parameters back from the engine, after it has trained them."""
        self.vector = self.engine.get("parameters")

    # ---- computing

    def gradients(self, x, y) -> tuple[float, dict[str, np.ndarray], np.ndarray]:
        """Return (mean loss, {parameter name: gradient}, dx) of one batch, which is not
        scaled.

        x (rows, inputs) or (rows, C, H, W); y (rows, outputs), or class indices (rows,)
        for a classifier.
        """
        x = np.ascontiguousarray(x, self.dtype)
        shape = x.shape
        y = self.target_rows(np.asarray(y))
        loss, vector, dx = self.engine.gradients(x.reshape(len(x), -1), y)
        return loss, parameters.by_name(self.layers, vector), dx.reshape(shape)

    def target_rows(self, y: np.ndarray) -> np.ndarray:
        """Return targets as rows (rows, outputs) of the network's type; class indices
        become one-hot rows."""
        if y.ndim == 1 and self.outputs > 1:
            return np.ascontiguousarray(
                np.arange(self.outputs) == y[:, None], self.dtype
            )
        return np.ascontiguousarray(y.reshape(len(y), -1), self.dtype)

    member_outputs = prediction.member_outputs

    def predict(self, x, exposure=None) -> np.ndarray:
        """Return outputs (rows, outputs) for raw features (rows, inputs) or (rows, C,
        H, W), or for a table: a file, a data frame, whose columns are found by their
        names; see prediction.predict. Rows of a table have their exposures; exposure:
        of each row, in place of a column.

        x may be an array of another library, such as CuPy or PyTorch, on a GPU too: the
        outputs are one of the same library then."""
        if elsewhere.is_elsewhere(x):
            if exposure is not None:
                raise UsageError(
                    "exposure: is for rows of NumPy and of tables; multiply the outputs by it"
                )
            return elsewhere.predict(self, x, self.predict)
        rows, exposures = rows_and_exposures(self, x, exposure)
        return times(prediction.predict(self, rows), exposures)

    def deviation(self, x, exposure=None) -> np.ndarray:
        """Return the standard deviation of the members' outputs for rows as predict
        takes them: (rows, outputs)."""
        rows, exposures = rows_and_exposures(self, x, exposure)
        return times(prediction.deviation(self, rows), exposures)

    def calibrated(self, scores: np.ndarray) -> np.ndarray:
        """Return class probabilities (rows, outputs) by the network's temperature."""
        return tempered(scores, self.temperature, TASKS[self.task].by_output)

    # ---- files

    metadata = model.metadata
    export = model.export

    @classmethod
    def load(cls, path, *, dtype: str | None = None, **engine) -> Network:
        """Return the network of a model file, everything in it checked. Raises
        InputNotFound, DataError, and UsageError for a file of several networks.

        engine: backend, threads, gpus, as Network takes them.
        """
        net = cls.of_file(path, dtype=dtype, **engine)
        if len(net.members) > 1:
            raise UsageError(
                f"{path}: holds {len(net.members)} networks; nn.Model.load reads it"
            )
        return net

    @classmethod
    def of_file(cls, path, *, dtype: str | None = None, **engine) -> Network:
        """Return the network of a model file as `load` does, of several networks the
        one that predicts their mean."""
        return model.load(cls, path, dtype, engine)


def _attribute(name: str) -> property:
    """Return the attribute of networks that is a field of their facts."""

    def value(net: Network):
        return getattr(net.facts, name)

    def take(net: Network, value) -> None:
        remember(net, **{name: value})

    return property(value, take)


for name in FACTS:
    setattr(Network, name, _attribute(name))


def _check(given: dict) -> None:
    """Raise UsageError for a setting that its flag could not have; None: not given."""
    for name, value in given.items():
        if value is not None:
            BY_NAME[name].check(value)


# ---- the parts that go together: a task, a loss and an output layer


def _check_quantiles(loss: str, last: Layer) -> None:
    """Raise UsageError unless each of several quantiles has an output, and for steps,
    which are for nothing else."""
    shares = quantiles_of(loss)
    if shares and last.out_shape != (len(shares), 1, 1):
        raise UsageError(
            f"--layers: the network has {plural(last.outputs, 'output')}, --loss {loss} needs {len(shares)}, one for each "
            f"quantile; end --layers in {len(shares)}"
        )
    if last.output_function == "steps" and not shares:
        raise UsageError(
            f"--layers: steps are for several quantiles, --loss quantile=.1,.5,.9, not {loss}"
        )


def check_output(task: str, loss: str, last: Layer) -> None:
    """Raise UsageError if the last layer does not go with the loss or the task."""
    wanted = loss_of(loss).activation
    if wanted and last.output_function != wanted:
        if task == "multiclass" and wanted == "sigmoid":
            raise UsageError(
                f"--loss {loss} is for yes/no targets (--task binary or multilabel), not for several classes; "
                "choose --loss ce"
            )
        article = "an" if wanted == "exp" else "a"
        raise UsageError(
            f"--loss {loss} needs {article} {wanted} output layer, not {last.output_function}; "
            f"end --layers in {last.item}:{wanted} or choose another --loss"
        )
    if task == "binary" and last.outputs != 1:
        raise UsageError(
            f"--layers: a binary task has 1 output, not {last.outputs}; use --task multiclass"
        )
    each = {"multiclass": "class", "multilabel": "target"}.get(task)
    if each and last.outputs < 2:
        raise UsageError(
            f"--layers: a {task} task needs an output for each {each}, at least 2"
        )
