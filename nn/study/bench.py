"""The benchmark cases, and how long they take on the backends of this machine.

One list, CASES, of training steps, forward passes and matrix products. `nn --bench`
times them on every backend; tests/bench times the same ones beside other libraries.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from ..backends import TRAITS
from ..backends.engine import EpochSettings, PackJob
from ..core import random
from ..core.random import PhiloxOrder, shuffled
from ..layers import Layer
from ..matrix import matmul
from ..nn import Network
from ..nn_aux import BACKENDS
from ..terminal import tables
from ..utils import (
    NnError,
    UsageError,
    available_cores,
    default_threads,
    processor_name,
)

BENCH_STREAM = 0x42000000  # of the random numbers that the cases' data are made of
MEASURING_SECONDS = 0.3  # of one case on one backend
# a case is skipped, unless asked for by name, where one measurement takes about longer
LONGEST_SECONDS = 4.0


# ---------------------------------------------------------------- data


def normal(
    shape: tuple[int, ...], dtype: str, stream: int = BENCH_STREAM
) -> np.ndarray:
    """Return an array of normal random numbers, the same everywhere for a shape and a
    stream."""
    return random.normal(math.prod(shape), 0, stream).reshape(shape).astype(dtype)


# ---------------------------------------------------------------- cases


@dataclass(frozen=True)
class Model:
    """A network that cases are about."""

    name: str
    layers: str
    task: str

    def network(
        self, dtype: str, backend: str = "auto", threads: int | None = None
    ) -> Network:
        return Network(
            self.layers, self.task, dtype=dtype, backend=backend, threads=threads
        )

    def data(self, rows: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Return x (rows, inputs) and targets as an engine takes them: labels (rows,),
        or y (rows, outputs)."""
        layers = self.network(dtype).layers
        x = normal((rows, layers[0].inputs), dtype)
        if self.task == "regression":
            return x, normal((rows, layers[-1].outputs), dtype, BENCH_STREAM + 1)
        labels = shuffled(rows, 0, BENCH_STREAM) % max(2, layers[-1].outputs)
        if self.task == "multiclass":
            return x, labels.astype(np.int32)
        return x, labels[:, None].astype(dtype)


@dataclass
class PreparedCase:
    """A case that is ready to be measured on a backend."""

    once: Callable[[], float]  # measures: seconds of one batch, call or product
    threads: int
    network: Network | None = None


@dataclass(frozen=True)
class TrainStepCase:
    """A training step, measured as training does: shuffle, gather, forward, loss,
    backward and update.

    networks: trained together, each on rows in an order of its own.
    """

    name: str
    model: Model
    batch: int
    batches: int  # of the data set
    optimizer: str = "adam"
    learning_rate: float = 0.001
    dtype: str = "float32"
    networks: int = 1

    @property
    def per(self) -> str:
        if self.networks == 1:
            return "batch"
        return "batch and network"

    @property
    def rows(self) -> int:
        return self.batch * self.batches

    @property
    def operations(self) -> float:
        """Return the multiplications and additions of a step: forward, of the weights,
        of all inputs but the first."""
        layers = self.model.network(self.dtype).layers
        counts = [multiplications(layer) for layer in layers]
        first_layer_count = next(count for count in counts if count)
        return 2.0 * self.batch * (3 * sum(counts) - first_layer_count)

    def start(self, backend: str, threads: int | None = None) -> PreparedCase:
        """Prepare a training; each measurement is one epoch, of all networks."""
        net = self.model.network(self.dtype, backend, threads)
        engine = net.engine
        data = net.engine.load(*self.data())
        settings = at_constant_rate(self.optimizer, self.learning_rate, self.batch)
        if self.networks == 1:
            epoch = self._alone(net, data, settings)
            used = engine.threads_for(self.batch)
        else:
            epoch = self._together(net, data, settings)
            used = min(engine.threads, self.networks)
        epochs = itertools.count()

        def once() -> float:
            number = next(epochs)
            began = time.perf_counter()
            epoch(number, lambda: engine.progress(step=number * self.batches))
            return (time.perf_counter() - began) / self.batches / self.networks

        return PreparedCase(once, used, net)

    def _alone(self, net: Network, data, settings: EpochSettings) -> Callable:
        order = PhiloxOrder(self.rows, net.seed, ahead=not net.traits.on_host)
        return lambda number, progress: net.engine.epoch(
            data, order.epoch(number), settings, progress()
        )

    def _together(self, net: Network, data, settings: EpochSettings) -> Callable:
        members = range(self.networks)
        rows = np.arange(self.rows)
        pack = net.engine.pack(self.networks, self.batch)
        for member in members:
            pack.set(member, "parameters", net.engine.get("parameters"))
        member_settings = [replace(settings, seed=member) for member in members]
        return lambda number, progress: pack.epoch(
            [
                PackJob(member, data, rows, member_settings[member], progress(), number)
                for member in members
            ]
        )

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        return self.model.data(self.rows, self.dtype)


@dataclass(frozen=True)
class Forward:
    """A forward pass over `rows` rows, as `predict` makes it."""

    name: str
    model: Model
    rows: int
    dtype: str = "float32"

    per = "pass"

    @property
    def operations(self) -> float:
        layers = self.model.network(self.dtype).layers
        return 2.0 * self.rows * sum(map(multiplications, layers))

    def start(self, backend: str, threads: int | None = None) -> PreparedCase:
        net = self.model.network(self.dtype, backend, threads)
        x, _ = self.model.data(self.rows, self.dtype)
        return PreparedCase(
            timed(lambda: net.predict(x)), net.engine.threads_for(self.rows), net
        )


@dataclass(frozen=True)
class Product:
    """A matrix product, a (m, k) times b (k, n); those `transposed` lie in memory as
    their transpose."""

    name: str
    m: int
    n: int
    k: int
    dtype: str = "float32"
    transposed: str = ""  # "a", "b" or "ab"

    per = "product"

    @property
    def operations(self) -> float:
        return 2.0 * self.m * self.n * self.k

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a (m, k) and b (k, n)."""
        a = self._factor("a", (self.m, self.k), BENCH_STREAM)
        b = self._factor("b", (self.k, self.n), BENCH_STREAM + 1)
        return a, b

    def _factor(self, name: str, shape: tuple[int, int], stream: int) -> np.ndarray:
        if name in self.transposed:
            return normal(shape[::-1], self.dtype, stream).T
        return normal(shape, self.dtype, stream)

    def start(self, backend: str, threads: int | None = None) -> PreparedCase:
        a, b = self.factors()
        if TRAITS[backend].threaded:
            threads = threads or default_threads()
        else:
            threads = 1
        return PreparedCase(
            timed(lambda: matmul(a, b, backend=backend, threads=threads)), threads
        )


def multiplications(layer: Layer) -> int:
    """Return the multiplications of one row in a layer's forward pass."""
    if layer.weight_shape:
        return layer.outputs * layer.fan_in
    return 0


def at_constant_rate(optimizer: str, rate: float, batch: int) -> EpochSettings:
    """Return the settings of an epoch with one learning rate."""
    return EpochSettings(optimizer=optimizer, batch=batch, rates=[rate] * 9)


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """Return a function that measures seconds of a call, over enough calls to hide the
    cost of reading the clock."""
    count = 0
    seconds = 0.0
    while seconds < 1e-3 and count < 1000:
        count += 1
        began = time.perf_counter()
        call()
        seconds += time.perf_counter() - began

    def once() -> float:
        began = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - began) / count

    return once


CC = Model("cc", "30,60:sigmoid,10:sigmoid,1", "binary")
CC_RELU = Model("cc-relu", "30,60,10,1", "binary")
DIGITS_MODEL = Model(
    "digits", "1x28x28,conv4k2same,conv4k2same,maxpool4,128,10", "multiclass"
)
# The CNN study's models 0 and 1. cnn2 is not its model 2: datasets/plans/cnns.json has
# that.
CNN0 = Model(
    "cnn0", "3x32x32,conv16k3p1,maxpool2,conv32k3p1,maxpool2,100,10", "multiclass"
)
CNN1 = Model(
    "cnn1", "3x40x40,conv16k3p1,maxpool2,conv32k3p1,maxpool2,100,10", "multiclass"
)
CNN2 = Model(
    "cnn2",
    "3x32x32,conv16k3p1,maxpool2,conv32k3p1,maxpool2,conv64k3p1,maxpool2,100,10",
    "multiclass",
)
SOLAR_50 = Model("solar-50", "50,50,1", "regression")
SOLAR_WIDE = Model("solar-wide", "50,6400,1", "regression")
SOLAR_DEEP = Model("solar-deep", "50,800,400,208,1", "regression")
SOLAR_LARGE = Model("solar-large", "50,3200,1600,832,1", "regression")
SOLAR_CNN = Model(
    "solar-cnn",
    "1x50x50,conv32k3,conv64k3,maxpool2,dropout0.25,128,dropout0.5,1:relu",
    "regression",
)
MODELS = [
    CC,
    DIGITS_MODEL,
    CNN0,
    CNN1,
    CNN2,
    SOLAR_50,
    SOLAR_WIDE,
    SOLAR_DEEP,
    SOLAR_LARGE,
    SOLAR_CNN,
]

CASES = [
    TrainStepCase("cc-b10", CC, 10, 2000, "sgd", 0.01),
    TrainStepCase("cc-b10-float64", CC, 10, 2000, "sgd", 0.01, "float64"),
    TrainStepCase("cc-b10-relu", CC_RELU, 10, 2000, "sgd", 0.01),
    TrainStepCase("cc-b32-adam", CC_RELU, 32, 700),
    TrainStepCase("cc-b32-adam-x64", CC_RELU, 32, 700, networks=64),
    TrainStepCase("cc-b1000", CC, 1000, 20, "sgd", 0.01),
    TrainStepCase("digits", DIGITS_MODEL, 32, 100),
    TrainStepCase("digits-x16", DIGITS_MODEL, 32, 10, networks=16),
    TrainStepCase("cnn0", CNN0, 32, 20, "sgd", 0.01),
    TrainStepCase("cnn1", CNN1, 32, 20, "sgd", 0.01),
    TrainStepCase("cnn2", CNN2, 32, 20, "sgd", 0.01),
    TrainStepCase("solar-50", SOLAR_50, 1000, 20),
    TrainStepCase("solar-wide", SOLAR_WIDE, 1000, 10),
    TrainStepCase("solar-deep", SOLAR_DEEP, 1000, 10),
    TrainStepCase("solar-large", SOLAR_LARGE, 1000, 2),
    TrainStepCase("solar-cnn", SOLAR_CNN, 64, 2),
    *(
        Forward(f"{model.name}-forward-{rows}", model, rows)
        for model in MODELS
        for rows in (1, 10_000)
    ),
    *(Product(f"product-{n}", n, n, n) for n in (512, 1024, 2048, 4096)),
    *(
        Product(f"product-{n}-float64", n, n, n, "float64")
        for n in (512, 1024, 2048, 4096)
    ),
    Product("product-odd", 1021, 517, 769),
    Product("product-odd-float64", 1021, 517, 769, "float64"),
    Product("product-thin", 32, 800, 1568),
    Product("product-long", 144, 32, 20_000, transposed="a"),
    *(
        Product(f"product-1024-{t}", 1024, 1024, 1024, transposed=t)
        for t in ("a", "b", "ab")
    ),
]


def select(names: Iterable[str] = ()) -> list:
    """Return the cases of these names, or whose names begin so; all without names.
    Raises UsageError."""
    cases = {case.name: case for case in CASES}
    return [cases[name] for name in named(names, cases)]


def named(beginnings: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the names that are asked for, by themselves or by their beginnings; all
    for none. Raises UsageError."""
    names = list(names)
    chosen = {}
    for beginning in beginnings:
        matches = [name for name in names if name.startswith(beginning)]
        if beginning in names:
            matches = [beginning]
        if not matches:
            raise UsageError(f"no case {beginning}; the cases are {', '.join(names)}")
        chosen |= dict.fromkeys(matches)
    return list(chosen) or names


# ---------------------------------------------------------------- nn --bench


def bench(
    names: Iterable[str] = (),
    *,
    backend: str | None = None,
    threads: int | None = None,
    log=None,
) -> dict:
    """Time the cases on every backend of this machine, or on one; returns the figures
    of `--json`.

    names: of cases, all without. log: called with a line for each case that runs. A
    case that would take long on a backend is skipped unless it was asked for. Raises
    UsageError for a name that no case has, NnError where the one backend cannot be
    used.
    """
    names = list(names)
    results = []
    cases = select(names)
    backends, skipped = usable_backends(backend)
    for case, name in itertools.product(cases, backends):
        reason = _reason_to_skip(case, name, is_asked=bool(names))
        if reason:
            skipped.append({"case": case.name, "backend": name, "reason": reason})
            continue
        if log:
            log(f"{case.name} on {name}")
        results.append(measure(case, name, threads))
    _compare_with_seq(results)
    return {
        "processor": processor_name(),
        "cores": available_cores(),
        "results": results,
        "skipped": skipped,
    }


def _compare_with_seq(results: list[dict]) -> None:
    """Add to each result how many times as fast as `seq` it is, None where that was not
    measured."""
    seq = {r["case"]: r["us"] for r in results if r["backend"] == "seq"}
    for result in results:
        result["times_seq"] = None
        if result["case"] in seq:
            result["times_seq"] = seq[result["case"]] / result["us"]


def usable_backends(backend: str | None) -> tuple[list[str], list[dict]]:
    """Return the backends that this machine has, and why it has not the others. Raises
    NnError where the one that is asked for cannot be used."""
    asked = [backend]
    if backend in (None, "auto"):
        asked = BACKENDS
    usable = []
    skipped = []
    for name in asked:
        try:
            Network("1,1", backend=name).engine  # noqa: B018 - made only here, and fails if it cannot be
        except NnError as error:
            if name == backend:
                raise
            skipped.append({"case": None, "backend": name, "reason": str(error)})
            continue
        if name != "auto":
            usable.append(name)
    return usable, skipped


def _reason_to_skip(case, backend: str, is_asked: bool) -> str | None:
    """Return why a case is not measured on a backend; None: it is."""
    if isinstance(case, Product) and not TRAITS[backend].on_host:
        return "a product by itself is timed on the processor; on a GPU it is a part of the layers' kernels"
    expected = case.operations / TRAITS[backend].rate
    if not is_asked and expected > LONGEST_SECONDS:
        return f"a {case.per} takes about {expected:.0f} s; nn bench {case.name} measures it"
    return None


def median_seconds(once: Callable[[], float], seconds: float) -> float:
    """Return the median of what `once` measures for about `seconds`; the first counts
    only if there is no other."""
    began = time.perf_counter()
    times = [once()]
    while time.perf_counter() - began < seconds:
        times.append(once())
    return float(np.median(times[1:] or times))


def measure(case, backend: str, threads: int | None = None) -> dict:
    """Return the figures of one case on one backend: medians of the measurements of
    about MEASURING_SECONDS."""
    run = case.start(backend, threads)
    median = median_seconds(run.once, MEASURING_SECONDS)
    return {
        "case": case.name,
        "backend": backend,
        "dtype": case.dtype,
        "threads": run.threads,
        "per": case.per,
        "us": 1e6 * median,
        "gflops": case.operations / median / 1e9,
        "bytes": run.network and run.network.engine.bytes(),
    }


def report(result: dict) -> None:
    headers = ["case", "backend", "type", "threads", "time", "per", "times seq"]
    headers += ["GFLOP/s", "memory"]
    rows = []
    for r in result["results"]:
        memory = ""
        if r["bytes"] is not None:
            memory = f"{r['bytes'] / 1e6:.2f} MB"
        times_seq = ""
        if r["times_seq"] is not None:
            times_seq = f"{r['times_seq']:.3g}"
        figures = [
            str(r["threads"]),
            duration(r["us"]),
            r["per"],
            times_seq,
            f"{r['gflops']:.1f}",
            memory,
        ]
        rows.append([r["case"], r["backend"], r["dtype"], *figures])
    tables.table(headers, rows, f"{result['processor']}, {result['cores']} cores")
    if result["skipped"]:
        rows = [
            [s["case"] or "all", s["backend"], s["reason"]] for s in result["skipped"]
        ]
        tables.table(["case", "backend", "skipped"], rows, left=3)


def duration(us: float) -> str:
    """Return microseconds as text with three digits, in us, ms or s."""
    value = us
    unit = "us"
    for larger_unit in ("ms", "s"):
        if value >= 1000:
            value /= 1000
            unit = larger_unit
    decimals = max(0, 2 - int(math.log10(max(value, 1))))
    return f"{value:.{decimals}f} {unit}"
