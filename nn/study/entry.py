"""One entry of a plan: its data loaded, its network trained and measured."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from ..config import flag_value
from ..history import Watchers
from ..layers import parse
from ..utils import NnError, UsageError, available_memory
from .plan import Entry, flag_names, network_facts
from .results import INFERENCE_ROWS, OK

MOST_RECORDED = 20_000  # batches whose times are noted one by one


def load_data(data: dict, folder: Path):
    """(training data, test data or None) of a plan's `data`; see DATA_KEYS."""
    from .. import solar
    from ..ds import load
    from ..source import relative_to

    if "path" in data:
        paths = data["path"], data.get("test")
        given = {"target": data["target"]} if "target" in data else {}
        return (load(relative_to(folder, path), **given) if path else None for path in paths)
    if "clouds" in data:
        try:
            series = solar.clouds(**data["clouds"])
        except TypeError as error:
            raise UsageError(f"data: clouds: {error}; it has rows, stations, seed and step") from error
    else:
        stations = data.get("stations")
        series = solar.read_series(str(folder / data["series"]), stations and str(folder / stations))
    more = {key: data[key] for key in ("wanted", "horizon", "test_share") if key in data}
    return solar.forecast(series, data.get("form", "table"), **more)


def run_entry(entry: Entry) -> dict:
    """Train and measure one entry; the line of results. Whatever keeps it from running is its `status`."""
    from .. import __version__

    row = entry.facts()
    try:
        row |= {**_measure(entry), "status": OK}
    except (NnError, MemoryError) as error:
        row["status"] = str(error) or "out of memory"
    import numpy as np

    row |= {"nn": __version__, "numpy": np.__version__, "python": sys.version.split()[0]}
    return row | {"when": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def _measure(entry: Entry) -> dict:
    from .. import backends
    from ..bench import processor
    from ..nn import Network
    from ..test import test
    from ..train import train
    from ..utils import default_threads

    settings = entry.settings
    _check_values(entry)
    ds, test_ds = load_data(settings["data"], entry.folder)
    layers = parse(settings["layers"])
    of_network, of_training = flag_names()
    for key in settings:
        if key not in {*of_network, *of_training, "data", "batches"}:
            raise UsageError(f"there is no --{key} in this installation")
    options = {key: settings[key] for key in settings if key in of_training}
    batch = options.get("batch_number", 32)
    if "batches" in settings:
        rows = slice(settings["batches"] * batch)
        ds = replace(ds, x=ds.x[rows], y=ds.y[rows])
    dtype = settings.get("dtype", "float32")
    _check_memory(layers, dtype, batch, ds, backends.resolve(settings.get("backend", "auto")))
    net = Network(**{"task": ds.task} | {key: settings[key] for key in settings if key in of_network})
    net.expect_batches(batch)
    engine = net.engine
    total = options.get("epochs", 20) * -(-ds.rows // batch)
    if backends.on_host(net.backend):  # a GPU would start each op by itself, and be slower than without
        engine.record(min(total, MOST_RECORDED))
    epochs = _EpochTimes()
    given = {"holdout": 0.0} if test_ds is not None else {}
    result = train(net, ds, **given, **options, progress=epochs)
    return {
        "layers": net.spec,
        **network_facts(layers),
        "rows": result["rows"],
        "inputs": net.inputs,
        "batch_number": batch,
        "epochs": result["epochs"],
        "backend": net.backend,
        "engine": engine.describe(),
        "device": processor() if backends.on_host(net.backend) else engine.gpu_name(),
        "cores": default_threads(),
        "threads": engine.threads,  # that it may use; a small batch is not worth all of them
        "threads_used": result["threads"],
        "dtype": net.dtype,
        "train_s": result["seconds"],
        "epoch_s": result["seconds"] / result["epochs"],
        **_batch_times(engine, epochs),
        **{f"infer_{n}_ms": 1e3 * _inference(net, ds.x, n) for n in INFERENCE_ROWS},
        "network_bytes": engine.bytes(),
        "peak_bytes": _peak_bytes(),
        "loss": result["loss"][-1],
        **_errors(test(net, test_ds if test_ds is not None else _held_out(net, ds))),
    }


def _check_values(entry: Entry) -> None:
    """Raise UsageError for a value that its flag cannot have."""
    from ..flags import FLAGS

    for flag in FLAGS:
        value = entry.settings.get(flag.name)
        if value is not None and value is not False:
            flag_value(entry.plan, flag, value)


class _EpochTimes(Watchers):
    """Watches a training and keeps each epoch's time for a batch."""

    def __init__(self):
        super().__init__([])
        self.batch_ms: list[float] = []

    def epoch(self, *figures) -> None:
        """See train.Silent."""
        us_per_batch = figures[-1]
        self.batch_ms.append(us_per_batch / 1e3)


def _batch_times(engine, epochs: _EpochTimes) -> dict:
    """Median and 95th percentile of a batch in milliseconds; of the epochs' means on a GPU, where nothing waits for a
    single batch. The first epoch prepares what later ones use and does not count, if there are others."""
    import numpy as np

    batches = engine.recorded()
    times = 1e3 * np.array([max(s.end for s in steps) - min(s.begin for s in steps) for steps in batches])
    if not batches:
        times = np.array(epochs.batch_ms[1:] or epochs.batch_ms)
    return {"batch_ms": float(np.median(times)), "batch_p95_ms": float(np.percentile(times, 95))}


def _inference(net, x, rows: int) -> float:
    """Seconds of a call of predict for so many rows: the median of several."""
    import time

    import numpy as np

    some = x[np.arange(rows) % len(x)]
    net.predict(some)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 5 or (len(times) < 200 and time.perf_counter() - began < 0.2):
        before = time.perf_counter()
        net.predict(some)
        times.append(time.perf_counter() - before)
    return float(np.median(times))


def _held_out(net, ds):
    from ..ds import split_holdout

    rows = split_holdout(ds, net.holdout, net.seed)[1]
    return replace(ds, x=ds.x[rows], y=ds.y[rows]) if len(rows) else ds


def _errors(figures: dict) -> dict:
    return {
        key: figures[key]
        for key in ("rmse", "mae", "r2", "skill", "accuracy")
        if figures.get(key) is not None
    }


def _peak_bytes() -> int:
    """The largest resident memory that this process has had."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _check_memory(layers, dtype: str, batch: int, ds, backend: str) -> None:
    """Raise NnError where the host's memory cannot hold the training: the system would end the process."""
    from .. import backends

    size = {"float32": 4, "float64": 8}[dtype]
    parameters = sum(layer.parameters for layer in layers)
    largest = max(layer.parameters for layer in layers)
    copies = 2  # the network's own, and one on the way from the engine
    activations = 0
    if backends.on_host(backend):
        copies += 4  # parameters, gradients, two moments
        activations = 2 * batch * sum(layer.outputs for layer in layers)
    needed = size * (copies * parameters + activations + ds.x.size) + 8 * largest
    free = available_memory()
    if free is not None and needed > free:
        raise NnError(f"does not fit: {needed / 1e9:.1f} GB of memory needed, {free / 1e9:.1f} GB free")
