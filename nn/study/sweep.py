"""--sweep: train one network after another as a plan says, and write a line of figures
for each.

results.py keeps the figures. Each entry of a plan runs in a process of its own: what it
needs in memory is its own, and whatever ends it ends only it.

A plan's keys are flags, `data` (DATA_KEYS), `name`, `batches`, the most that an
epoch has, where a plan measures time only, and `profile`, which tells the time of each
layer on a GPU too; a flag may have a list of values, of which null is its default, and
every combination of them is an entry. `parts` holds several such objects, which share
the keys beside it:

    {"data": {"clouds": {"rows": 8640, "step": 10}, "form": "table", "horizon": 60},
     "epochs": 3, "batch_number": [100, 1000],
     "parts": [{"layers": ["50,50,1", "50,100,1"], "backend": "omp", "threads": [1,
     2]}]}
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from .. import __version__
from ..data.loading import split_of_model
from ..data.source import relative_to
from ..ds import Dataset, load
from ..layers import parse
from ..nn import Network
from ..settings.flags import BY_NAME, DEFAULTS, settings_of
from ..settings.values import device_numbers, enumerated
from ..terminal import tables
from ..terminal.config import flag_value, read_config
from ..test import test
from ..train import train
from ..utils import NnError, UsageError, available_cores, claim, claim_file, closest
from ..watch.callbacks import Callback
from ..watch.observe import PROFILED, layer_times
from . import images, solar
from .bench import median_seconds, timed
from .results import (
    ERRORS,
    INFERENCE_ROWS,
    OK,
    RESULT_COLUMNS,
    append_result,
    collect,
    figure_texts,
    read_results,
)

__all__ = [
    "OK",
    "RESULT_COLUMNS",
    "Entry",
    "collect",
    "load_data",
    "read_plan",
    "read_results",
    "report",
    "sweep",
]

STOPPED = {
    code
    for signum in (signal.SIGINT, signal.SIGTERM)
    for code in (-signum, 128 + signum)
}
MOST_RECORDED = 20_000  # batches whose times are noted one by one
INFERENCE_SECONDS = 0.2  # to measure calls of predict with some number of rows
CLAIM_SECONDS = 0.2  # between two looks at an entry that another process runs
MOST_ENTRIES = 100_000  # of a plan
DATA_KEYS = (  # datasets/README.md says what they mean
    "path",
    "test",
    "target",
    "clouds",
    "series",
    "images",
    "stations",
    "form",
    "wanted",
    "horizon",
    "test_share",
    "test_from",
    "columns",
    "location",
    "day",
    "index",
    "change",
    "lags",
    "sun",
)
FORECAST_KEYS = ("horizon", "test_share", "change", "lags", "sun")  # solar.forecast's

DATA_SOURCES = ("path", "series", "clouds", "images")  # of which `data` names one
SOURCE_NAMES = enumerated(DATA_SOURCES, "and")


def sweep(
    plan: str, results: str, log: Callable[[str], None] | None = None
) -> list[dict]:
    """Run the entries of a plan that `results` does not hold yet, or of PLAN:N the one
    of index N; all results then.

    Several sweeps may share the results: an entry that another one runs is left to it,
    and waited for at the end. Where the other one has died, the entry is run here.
    log: called with a line for each entry that runs. Raises InputNotFound, DataError,
    UsageError, OutputError.
    """
    path, _, number = plan.rpartition(":")
    is_one = number.isdecimal() and not os.path.exists(plan)
    if not is_one:
        path = plan
    entries = read_plan(path)
    if is_one:
        if int(number) >= len(entries):
            raise UsageError(
                f"--sweep {plan}: {path} has {len(entries)} entries, expected 0 to {len(entries) - 1}"
            )
        entries = [entries[int(number)]]
    run_entries(Runner(plan, results, is_one, log or (lambda line: None)), entries)
    return read_results(results)


def run_entries(runner: Runner, entries: list[Entry]) -> None:
    """Run the entries of a plan that the runner's results do not hold yet."""
    titles = [
        f"{number}/{len(entries)}: {entry.describe()}"
        for number, entry in enumerate(entries, 1)
    ]
    waiting = [
        pair for pair in zip(entries, titles, strict=True) if not runner.run(*pair)
    ]
    for entry, title in waiting:
        runner.wait_for(entry, title)


class Runner:
    """One of the processes that add to results. is_one: it runs one entry, in this
    process."""

    def __init__(
        self, plan: str, results: str, is_one: bool, log: Callable[[str], None]
    ):
        self._plan = plan
        self._results = results
        self._is_one = is_one
        self._log = log
        self._done: set[str] = set()
        self._look()

    def run(self, entry: Entry, title: str) -> bool:
        """Run an entry that is not among the results; return False where another
        process is at it."""
        if entry.name in self._done:
            return True
        if self._is_one and _was_claimed(self._results, entry):
            append_result(self._results, run_entry(entry))
            return True
        with claim(self._results, entry.name) as taken:
            if taken is None:
                return False
            self._look()  # another process may have run it meanwhile
            if entry.name in self._done:
                return True
            self._log(title)
            if self._is_one:
                append_result(self._results, run_entry(entry))
            else:
                _run_apart(self._plan, self._results, entry, taken.handle)
        return True

    def wait_for(self, entry: Entry, title: str) -> None:
        """Wait until an entry that another process runs is among the results; run it if
        that process ends before."""
        is_logged = False
        while not self.run(entry, title):
            if not is_logged:
                self._log(f"{title}: another sweep runs it; waiting for its end")
                is_logged = True
            time.sleep(CLAIM_SECONDS)
            self._look()

    def _look(self) -> None:
        if os.path.exists(self._results):
            self._done = {row["entry"] for row in read_results(self._results)}


def _was_claimed(results: str, entry: Entry) -> bool:
    """Return whether the process that has started this one had claimed the entry: the
    claim's file is standard input then, by which the claim lasts as long as either of
    the two."""
    try:
        return os.path.samestat(os.fstat(0), os.stat(claim_file(results, entry.name)))
    except OSError:
        return False


# `-m nn` would take a folder nn beside the caller for the package, such as this
# project's own sources
LAUNCH = "import sys; sys.path = [path for path in sys.path if path]; from nn.__main__ import main; sys.exit(main())"


def _run_apart(plan: str, results: str, entry: Entry, claimed: int | None) -> None:
    """Run an entry in a process of its own, which adds its line; where it could not,
    the line says why. claimed: the open file of the claim."""
    package = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    flags = ["--sweep", f"{plan}:{entry.index}", "-o", results, "--quiet"]
    ended = subprocess.run(
        [sys.executable, "-c", LAUNCH, *flags],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=claimed,
        capture_output=True,
        text=True,
        errors="replace",
    )
    code = ended.returncode
    if code in STOPPED:  # from outside, and the sweep with it
        raise KeyboardInterrupt
    if code:
        status = _reason(code, ended.stderr)
        append_result(results, {**entry.facts(), "status": status})


def _reason(code: int, errors: str) -> str:
    """Return why a process ended: its signal, else the last line of its errors."""
    if code == -signal.SIGKILL:
        return f"ended by signal {-code}: out of memory?"
    if code < 0:
        return f"ended by signal {-code}"
    lines = errors.strip().splitlines()
    if not lines:
        return f"exit code {code}"
    return lines[-1].removeprefix("nn: ")


def report(rows: list[dict]) -> None:
    """Print a line of figures for each network of a sweep."""
    headers = [
        "layers",
        "backend",
        "threads",
        "batch",
        "parameters",
        "ms/batch",
        "ms/row",
        "RMSE or accuracy",
        "",
    ]
    columns = {
        "threads": ".0f",
        "batch_number": ".0f",
        "parameters": ",.0f",
        "batch_ms": ".3g",
        "infer_1_ms": ".3g",
        "error": ".4g",
    }
    lines = []
    for row in rows:
        error = row["rmse"]
        if error is None:
            error = row["accuracy"]
        status = row["status"]
        if status == OK:
            status = ""
        layers = row["layers"].replace(":relu", "")
        figures = figure_texts(row | {"error": error}, columns)
        lines.append([layers, str(row["backend"]), *figures, status])
    tables.table(headers, lines, left=2)


# -------------------------------------------------- plans: JSON or TOML in, entries out


@dataclass(frozen=True)
class Entry:
    """One line of the results to be: its settings, which alone decide its name."""

    plan: str
    index: int
    settings: dict
    folder: Path

    @property
    def name(self) -> str:
        """Return a digest of the settings: the same in every plan and place."""
        return hashlib.sha256(
            json.dumps(self.settings, sort_keys=True).encode()
        ).hexdigest()[:12]

    def facts(self) -> dict:
        """Return the columns of the results that are known before the entry runs."""
        flags = (
            "layers",
            "backend",
            "threads",
            "gpus",
            "distribute",
            "dtype",
            "batch_number",
            "epochs",
        )
        facts = {key: self.settings.get(key, "") for key in flags}
        with contextlib.suppress(ValueError):  # the run refuses it
            if facts["gpus"] not in ("", None):
                facts["gpus"] = len(device_numbers(facts["gpus"]))
        data = self.settings["data"]
        source = Path(data.get("path") or data.get("series") or "clouds").name
        if "images" in data:
            source = "images"
        elif "path" not in data:
            source += f" {data.get('form', 'table')}"
        facts |= {
            "entry": self.name,
            "plan": self.plan,
            "index": self.index,
            "data": source,
        }
        with contextlib.suppress(UsageError):
            facts |= network_facts(parse(facts["layers"]))
        return facts

    def describe(self) -> str:
        words = [self.settings["layers"]]
        for name in ("backend", "threads", "gpus", "distribute", "batch_number"):
            if name in self.settings:
                words.append(f"{name} {self.settings[name]}")
        return ", ".join(words)


def network_facts(layers) -> dict:
    """Kind, hidden layers that learn, neurons or filters of the largest of them, and
    parameters."""
    sizes = [layer.out_shape[0] for layer in layers if layer.weight_shape]
    return {
        "kind": "cnn" if any(layer.kind == "conv" for layer in layers) else "dense",
        "depth": len(sizes) - 1,
        "width": max(sizes[:-1], default=0),
        "parameters": sum(layer.parameters for layer in layers),
    }


def flag_names() -> tuple[set[str], set[str]]:
    """Return the flags that a plan may name: those of Network and those of train."""
    network_flags = {flag.name for flag in settings_of("network", "engine")}
    training_flags = {flag.name for flag in settings_of("train", "several")}
    return (network_flags | {"layers", "task"}) - {"reference"}, training_flags


def read_plan(path: str) -> list[Entry]:
    """Return the entries of a plan, in order. Raises InputNotFound, DataError,
    UsageError (naming a wrong key)."""
    plan = read_config(path, "--sweep")
    name = str(plan.pop("name", Path(path).stem))
    parts = plan.pop("parts", [{}])
    settings: list[dict] = []
    try:
        if not isinstance(parts, list) or not all(
            isinstance(part, dict) for part in parts
        ):
            raise UsageError("parts: expected a list of objects")
        for part in parts:
            settings += _combinations({**plan, **part}, MOST_ENTRIES - len(settings))
        unique = {json.dumps(entry, sort_keys=True): entry for entry in settings}
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except TypeError as error:  # a date in TOML
        raise UsageError(
            f"{path}: a value that no flag has ({error}), expected numbers, texts and truths"
        ) from error
    return [
        Entry(name, index, entry, Path(path).parent)
        for index, entry in enumerate(unique.values())
    ]


def _combinations(part: dict, most: int) -> Iterable[dict]:
    """Return every combination of a part's values. Raises UsageError for a wrong key,
    or more than `most`."""
    allowed = {*set().union(*flag_names()), "data", "batches", "profile"}
    _check_keys(part, allowed, "")
    for key in ("data", "layers"):
        if key not in part:
            raise UsageError(
                f"a part without {key}; add it to the part or beside the parts"
            )
    _check_data(part["data"])
    axes = []
    for key, values in part.items():
        if not isinstance(values, list):
            values = [values]
        axes.append([(key, value) for value in values])
    for key, value in itertools.chain(*axes):
        if key == "layers" and not isinstance(value, str):
            raise UsageError(
                f'layers: found {json.dumps(value)}, expected text such as "30,60,10,1"'
            )
    count = math.prod(map(len, axes))
    if count > most:
        raise UsageError(
            f"{count} more combinations of its values, expected at most {MOST_ENTRIES} in all"
        )
    return map(_settings, itertools.product(*axes))


def _settings(combination: Iterable[tuple]) -> dict:
    """Return the settings of an entry without those that say nothing: flags at null,
    and how one GPU alone would share its work."""
    settings = {key: value for key, value in combination if value is not None}
    with contextlib.suppress(ValueError):  # which is told where entries are checked
        if "gpus" in settings and len(device_numbers(settings["gpus"])) == 1:
            settings.pop("distribute", None)
    return settings


def _check_data(data: dict) -> None:
    if not isinstance(data, dict):
        raise UsageError(f"data: expected an object with {SOURCE_NAMES}")
    _check_keys(data, DATA_KEYS, "data: ")
    if sum(key in data for key in DATA_SOURCES) != 1:
        raise UsageError(f"data: expected one of {SOURCE_NAMES}")
    if data.get("form", "table") not in ("table", "maps"):
        raise UsageError(f"data: form {data['form']}: expected table or maps")
    for key in ("path", "test", "series", "stations"):
        if not isinstance(data.get(key, ""), str):
            raise UsageError(
                f"data: {key}: found {data[key]}, expected the name of a file"
            )


def _check_keys(keys: Iterable[str], allowed: Iterable[str], where: str) -> None:
    for key in keys:
        if key not in allowed:
            close = closest(key, sorted(allowed))
            if close:
                cure = f": did you mean {close}?"
            else:
                cure = f"; the keys are {', '.join(sorted(allowed))}"
            raise UsageError(f"{where}no such key {key}{cure}")


# ---------------------------------------------------------------- one entry


def load_data(data: dict, folder: Path):
    """Return (training data, test data or None) of a plan's `data`; see DATA_KEYS."""
    if "path" in data:
        target = data.get("target")
        ds = load(relative_to(folder, data["path"]), target=target)
        if not data.get("test"):
            return ds, None
        return ds, load(relative_to(folder, data["test"]), target=target)
    if "images" in data:
        return _made(images.images, data, "images")
    try:
        return _forecast(_series(data, folder), data)
    except (TypeError, ValueError) as error:  # a value that is none of its key's
        raise UsageError(f"data: {error}") from error


def _series(data: dict, folder: Path) -> solar.Series:
    """Return the series, synthetic or measured, of a plan's `data`."""
    if "clouds" in data:
        series = _made(solar.clouds, data, "clouds")
    else:
        stations = data.get("stations")
        series = solar.read_series(
            str(folder / data["series"]),
            stations and str(folder / stations),
            data.get("columns"),
            data.get("location"),
        )
    if data.get("day"):
        series = series.by_day()
    if data.get("index"):
        series = series.index()
    return series


def _forecast(series: solar.Series, data: dict) -> tuple[Dataset, Dataset | None]:
    """Return the data of a forecast as a plan's `data` wants it."""
    options = {key: data[key] for key in FORECAST_KEYS if key in data}
    if "test_from" in data:
        options["test_from"] = solar.seconds_of(data["test_from"])
    form = data.get("form", "table")
    return solar.forecast(series, form, data.get("wanted"), **options)


def _made(maker: Callable, data: dict, name: str):
    """Return synthetic data of a plan's `data`. Raises UsageError for a wrong key."""
    try:
        return maker(**data[name])
    except TypeError as error:
        keys = enumerated([*inspect.signature(maker).parameters], "and")
        raise UsageError(f"data: {name}: {error}; its keys are {keys}") from error


def run_entry(entry: Entry) -> dict:
    """Train and measure one entry; the line of results. Whatever keeps it from running
    is its `status`."""
    row = entry.facts()
    try:
        row |= {**_measure(entry), "status": OK}
    except (NnError, MemoryError) as error:
        row["status"] = str(error) or "out of memory"
    row |= {
        "nn": __version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
    }
    return row | {"when": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def _measure(entry: Entry) -> dict:
    """Load, train, time and test an entry; returns its columns of the results.

    It is trained on all rows where there are test data; single batches are timed where
    that costs nothing.
    """
    settings = entry.settings
    network_flags, training_flags = flag_names()
    for name, value in settings.items():
        if name in BY_NAME and value is not None and value is not False:
            flag_value(entry.plan, BY_NAME[name], value)
    options = {key: value for key, value in settings.items() if key in training_flags}
    batch = options.get("batch_number", DEFAULTS["batch_number"])
    epochs = options.get("epochs", DEFAULTS["epochs"])
    ds, test_ds = load_data(settings["data"], entry.folder)
    if "batches" in settings:
        ds = ds.of_rows(slice(settings["batches"] * batch))
    given = {key: value for key, value in settings.items() if key in network_flags}
    net = Network(**{"task": ds.task} | given)
    net.batch_number = batch
    began = time.perf_counter()
    net.engine.bytes()
    made_s = time.perf_counter() - began
    if net.traits.times_single_batches:
        net.engine.record(min(epochs * -(-ds.rows // batch), MOST_RECORDED))
    if test_ds is not None:
        options["holdout"] = 0.0
    times = _EpochTimes()
    result = train(net, ds, **options, callback=times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
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
        "cores": available_cores(),
        # that it may use; a small batch is not worth all of them
        "threads": net.engine.threads,
        "threads_used": result["threads"],
        "dtype": net.dtype,
        "train_s": result["seconds"],
        **times.seconds_of_parts(made_s),
        **_batch_times(net.engine, times),
        **{
            f"infer_{n}_ms": _inference_ms(net, ds.x[np.arange(n) % len(ds.x)])
            for n in INFERENCE_ROWS
        },
        "network_bytes": net.engine.bytes(),
        "peak_bytes": peak if sys.platform == "darwin" else 1024 * peak,
        "loss": result["loss"][-1],
        **_errors(net, ds, test_ds),
        **_layer_times(net, ds, batch, settings.get("profile", False)),
    }


class _EpochTimes(Callback):
    """Keeps each epoch's time, and its time for a batch."""

    def __init__(self):
        self.seconds: list[float] = []
        self.batch_ms: list[float] = []

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch) -> None:
        self.seconds.append(seconds)
        self.batch_ms.append(us_per_batch / 1e3)

    def seconds_of_parts(self, made_s: float) -> dict:
        """Return the seconds of an epoch, and of the set-up: `made_s` to make the
        engine, and what the first epoch took longer than those after it."""
        first, *later = self.seconds
        epoch_s = float(np.median(later or [first]))
        return {"setup_s": made_s + max(0.0, first - epoch_s), "epoch_s": epoch_s}


def _layer_times(net, ds, batch: int, is_asked: bool) -> dict:
    """Return the milliseconds of each layer, forward and backward, in a batch: of the
    batches that were timed, or of some more where the plan asks for them."""
    if is_asked and not net.engine.recorded():
        net.engine.record(PROFILED)
        rows = slice(PROFILED * batch)
        train(net, ds.of_rows(rows), epochs=1, batch_number=batch, holdout=0.0)
    recorded = net.engine.recorded()
    if not recorded:
        return {}
    layers = layer_times(net.layers, batch, recorded)["layers"]
    return {
        way: " ".join(f"{layer[way]:.4g}" for layer in layers)
        for way in ("forward_ms", "backward_ms")
    }


def _batch_times(engine, epochs: _EpochTimes) -> dict:
    """Return median and 95th percentile of a batch in milliseconds, of the epochs'
    means on a GPU.

    On a GPU nothing waits for a single batch. The first epoch also prepares the engine;
    it does not count if there are others.
    """
    times = [
        1e3 * (max(s.end for s in steps) - min(s.begin for s in steps))
        for steps in engine.recorded()
    ]
    times = times or epochs.batch_ms[1:] or epochs.batch_ms
    return {
        "batch_ms": float(np.median(times)),
        "batch_p95_ms": float(np.percentile(times, 95)),
    }


def _inference_ms(net, x) -> float:
    return 1e3 * median_seconds(timed(lambda: net.predict(x)), INFERENCE_SECONDS)


def _errors(net, ds, test_ds) -> dict:
    """Return the errors on the test data, or on the rows held out, or on all rows."""
    if test_ds is None:
        test_ds = ds
        rows = split_of_model(net, ds).holdout
        if len(rows):
            test_ds = ds.of_rows(rows)
    began = time.perf_counter()
    figures = test(net, test_ds)
    test_s = time.perf_counter() - began
    return {
        "test_rows": test_ds.rows,
        "test_s": test_s,
        **{name: figures.get(name) for name in ERRORS},
    }
