"""One entry of a plan: its data loaded, its network trained and measured."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path

from ..layers import parse
from ..settings.flags import DEFAULTS, FLAGS
from ..terminal.config import flag_value
from ..utils import NnError, UsageError, default_threads
from ..watch.callbacks import Callback
from .plan import Entry, flag_names, network_facts
from .results import INFERENCE_ROWS, OK

MOST_RECORDED = 20_000  # batches whose times are noted one by one


def load_data(data: dict, folder: Path):
    """Return (training data, test data or None) of a plan's `data`; see DATA_KEYS."""
    from ..data.source import relative_to
    from ..ds import load
    from . import solar

    if "path" in data:
        paths = data["path"], data.get("test")
        given = {"target": data["target"]} if "target" in data else {}
        return (load(relative_to(folder, path), **given) if path else None for path in paths)
    if "clouds" in data:
        try:
            series = solar.clouds(**data["clouds"])
        except TypeError as error:
            raise UsageError(f"data: clouds: {error}; its keys are rows, stations, seed and step") from error
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
    """Load, train, time and test an entry; returns its columns of the results."""
    options = _training_options(entry)
    batch = options.get("batch_number", DEFAULTS["batch_number"])
    ds, test_ds = _data(entry, batch)
    net = _network(entry, ds, batch)
    epochs = _EpochTimes()
    result = _train(net, ds, test_ds, options, epochs)
    return {
        **_settings_used(net, result, batch),
        **_times(net, ds, result, epochs),
        "network_bytes": net.engine.bytes(),
        "peak_bytes": _peak_bytes(),
        "loss": result["loss"][-1],
        **_errors(net, ds, test_ds),
    }


def _training_options(entry: Entry) -> dict:
    """Return the keywords of `train` among the settings, all settings checked. Raises UsageError."""
    _check_values(entry)
    of_network, of_training = flag_names()
    for key in entry.settings:
        if key not in {*of_network, *of_training, "data", "batches"}:
            raise UsageError(f"--{key}: this version of nn has no such flag")
    return {key: value for key, value in entry.settings.items() if key in of_training}


def _data(entry: Entry, batch: int) -> tuple:
    """Return (training data, test data or None), the first cut to `batches` batches where the plan asks for that."""
    ds, test_ds = load_data(entry.settings["data"], entry.folder)
    if "batches" in entry.settings:
        rows = slice(entry.settings["batches"] * batch)
        ds = ds.of_rows(rows)
    return ds, test_ds


def _network(entry: Entry, ds, batch: int):
    from ..backends import resolve
    from ..nn import Network

    settings, (of_network, _) = entry.settings, flag_names()
    backend = resolve(settings.get("backend", "auto"))
    _check_memory(parse(settings["layers"]), settings.get("dtype", "float32"), batch, ds, backend)
    net = Network(**{"task": ds.task} | {key: value for key, value in settings.items() if key in of_network})
    net.expect_batches(batch)
    return net


def _train(net, ds, test_ds, options: dict, epochs: Callback) -> dict:
    """Train, on all rows where there are test data; single batches are timed where that costs nothing."""
    from ..train import train

    batch = options.get("batch_number", DEFAULTS["batch_number"])
    total = options.get("epochs", DEFAULTS["epochs"]) * -(-ds.rows // batch)
    if net.traits.times_single_batches:
        net.engine.record(min(total, MOST_RECORDED))
    given = {"holdout": 0.0} if test_ds is not None else {}
    return train(net, ds, **given, **options, callback=epochs)


def _settings_used(net, result: dict, batch: int) -> dict:
    """Return the columns that say what was trained, and on what."""
    return {
        "layers": net.spec,
        **network_facts(net.layers),
        "rows": result["rows"],
        "inputs": net.inputs,
        "batch_number": batch,
        "epochs": result["epochs"],
        "backend": net.backend,
        "engine": net.engine.describe(),
        "device": net.engine.device_name(),
        "cores": default_threads(),
        "threads": net.engine.threads,  # that it may use; a small batch is not worth all of them
        "threads_used": result["threads"],
        "dtype": net.dtype,
    }


def _times(net, ds, result: dict, epochs: _EpochTimes) -> dict:
    """Return the columns of times, those of predictions measured here."""
    return {
        "train_s": result["seconds"],
        "epoch_s": result["seconds"] / result["epochs"],
        **_batch_times(net.engine, epochs),
        **{f"infer_{n}_ms": 1e3 * _inference(net, ds.x, n) for n in INFERENCE_ROWS},
    }


def _check_values(entry: Entry) -> None:
    """Raise UsageError for a value that its flag cannot have."""
    for flag in FLAGS:
        value = entry.settings.get(flag.name)
        if value is not None and value is not False:
            flag_value(entry.plan, flag, value)


class _EpochTimes(Callback):
    """Keeps each epoch's time for a batch."""

    def __init__(self):
        self.batch_ms: list[float] = []

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch) -> None:
        """See Callback.epoch."""
        self.batch_ms.append(us_per_batch / 1e3)


def _batch_times(engine, epochs: _EpochTimes) -> dict:
    """Return median and 95th percentile of a batch in milliseconds, of the epochs' means on a GPU.

    On a GPU nothing waits for a single batch. The first epoch also prepares the engine; it does not count if there
    are others.
    """
    import numpy as np

    batches = engine.recorded()
    times = 1e3 * np.array([max(s.end for s in steps) - min(s.begin for s in steps) for steps in batches])
    if not batches:
        times = np.array(epochs.batch_ms[1:] or epochs.batch_ms)
    return {"batch_ms": float(np.median(times)), "batch_p95_ms": float(np.percentile(times, 95))}


def _inference(net, x, rows: int) -> float:
    """Return the median seconds of a call of predict for `rows` rows."""
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


def _errors(net, ds, test_ds) -> dict:
    """Return the errors on the test data, or on the rows held out, or on all rows."""
    from ..data.model_data import split_seed_of
    from ..ds import split_holdout
    from ..test import test

    if test_ds is None:
        rows = split_holdout(ds, net.holdout, split_seed_of(net))[1]
        test_ds = ds.of_rows(rows) if len(rows) else ds
    figures = test(net, test_ds)
    names = ("rmse", "mae", "r2", "skill", "accuracy")
    return {name: figures[name] for name in names if figures.get(name) is not None}


def _peak_bytes() -> int:
    """Return the largest resident memory that this process has had."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _check_memory(layers, dtype: str, batch: int, ds, backend: str) -> None:
    """Raise NnError where the host's memory cannot hold the training: the system would end the process."""
    import numpy as np

    from .. import backends
    from ..data.memory import check_free, network_bytes

    size = np.dtype(dtype).itemsize
    copies, rows = 2, 0  # the network's own, and one on the way from the engine
    if backends.TRAITS[backend].on_host:
        copies, rows = copies + 4, 2 * batch  # parameters, gradients, two moments; values and their gradients
    largest = max(layer.parameters for layer in layers)
    needed = network_bytes(layers, dtype, copies, rows) + size * ds.x.size + 8 * largest
    check_free(needed, "does not fit: the network and its data", "use a smaller one")
