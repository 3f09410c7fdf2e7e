"""--sweep: train one network after another as a plan says, and write a line of figures for each.

A plan is JSON or TOML. Its keys are flags, `data` and what is in PLAN_KEYS; a flag may have a list of values,
and every combination of them is an entry. `parts` holds several such objects, which share the keys beside it:

    {"data": {"clouds": {"rows": 8640, "step": 10}, "form": "table", "horizon": 60},
     "epochs": 3, "batch_number": [100, 1000],
     "parts": [{"layers": ["50,50,1", "50,100,1"], "backend": "omp", "threads": [1, 2]}]}

Each entry runs in a process of its own: what it needs in memory is its own, and whatever ends it ends only
it.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import hashlib
import inspect
import io
import itertools
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from .backends import device_numbers
from .config import flag_value, read_config
from .history import Watchers
from .layers import parse
from .utils import DataError, InputNotFound, NnError, OutputError, UsageError, available_memory, os_reason

INFERENCE_ROWS = (1, 2, 64, 512, 1024)
MOST_RECORDED = 20_000  # batches whose times are noted one by one
OK = "ok"
STOPPED = {code for signum in (signal.SIGINT, signal.SIGTERM) for code in (-signum, 128 + signum)}

NO_KEYS = {
    "self",
    "net",
    "ds",
    "progress",
    "stop",
    "reference",
    "checkpoint",
    "checkpoint_every",
    "resume",
}  # arguments that are no flags, or not for a plan
PLAN_KEYS = {
    "name": "of the plan, the file's name by default",
    "data": "what to learn from: DATA_KEYS",
    "batches": "at most so many batches an epoch, where only their time is wanted",
    "parts": "plans that share the keys beside them",
}
DATA_KEYS = {
    "path": "a file, as --dataset; relative to the plan",
    "test": "a file to find the error on; held-out rows without it",
    "target": "as --target",
    "clouds": "a synthetic series: rows, stations, seed, step",
    "series": "a measured series as CSV, relative to the plan",
    "stations": "the coordinates of its stations as CSV, relative to the plan",
    "form": "of a series: table or maps",
    "wanted": "the station to forecast",
    "horizon": "seconds ahead (60)",
    "test_share": "of a series' time, at its end (0.2)",
}

COLUMNS = (
    "entry", "plan", "index", "status", "data", "layers", "kind", "depth", "width", "parameters", "rows",
    "inputs", "batch_number", "epochs", "backend", "engine", "device", "cores", "threads", "threads_used", "gpus",
    "distribute", "dtype", "train_s", "epoch_s", "batch_ms", "batch_p95_ms", *(f"infer_{n}_ms" for n in
    INFERENCE_ROWS), "network_bytes", "peak_bytes", "loss", "rmse", "mae", "r2", "skill", "accuracy", "nn",
    "numpy", "python", "when",
)  # fmt: skip


# ---------------------------------------------------------------- plans


@dataclass(frozen=True)
class Entry:
    """One line of the results to be: its settings, which alone decide its name."""

    plan: str
    index: int
    settings: dict
    folder: Path

    @property
    def name(self) -> str:
        """The same for the same settings, in whatever plan and place."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:12]

    def facts(self) -> dict:
        """What is known of it before it has run."""
        s = self.settings
        told = {
            key: s.get(key, "") for key in ("layers", "backend", "threads", "gpus", "distribute", "dtype")
        }
        told |= {key: s.get(key, "") for key in ("batch_number", "epochs")}
        told["gpus"] = _gpu_count(s.get("gpus"))
        told |= {"entry": self.name, "plan": self.plan, "index": self.index, "data": _data_name(s["data"])}
        with contextlib.suppress(UsageError):
            told |= _network_facts(parse(s["layers"]))
        return told

    def describe(self) -> str:
        """The entry in a few words."""
        s = self.settings
        more = [f"{key} {s[key]}" for key in ("backend", "threads", "gpus", "distribute", "batch_number") if key in s]
        return ", ".join([s["layers"], *more])


def _gpu_count(gpus) -> int | str:
    """How many GPUs an entry asks for, whichever they are; "" where it does not say."""
    try:
        return "" if gpus is None else len(device_numbers(gpus))
    except ValueError:
        return str(gpus)  # running it will say what is wrong


def read_plan(path: str) -> list[Entry]:
    """The entries of a plan, in order. Raises InputNotFound, DataError, UsageError (naming a wrong key)."""
    plan = read_config(path, "--sweep")
    name = str(plan.pop("name", Path(path).stem))
    parts = plan.pop("parts", [{}])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise UsageError(f"{path}: parts: expected a list of objects")
    settings = [entry for part in parts for entry in _combinations(path, {**plan, **part})]
    unique = {json.dumps(entry, sort_keys=True): entry for entry in settings}
    return [Entry(name, index, entry, Path(path).parent) for index, entry in enumerate(unique.values())]


def _combinations(path: str, part: dict) -> Iterable[dict]:
    of_network, of_training = flag_names()
    known = {*of_network, *of_training, "data", "batches"}
    for key in part:
        if key not in known:
            raise UsageError(f"{path}: no such key {key}{_suggestion(key, known)}")
    for key in ("data", "layers"):
        if key not in part:
            raise UsageError(f"{path}: a part without {key}; say it in the part or beside the parts")
    if not isinstance(part["data"], dict):
        raise UsageError(f"{path}: data: expected an object with path, series or clouds")
    for key in part["data"]:
        if key not in DATA_KEYS:
            raise UsageError(f"{path}: data: no such key {key}{_suggestion(key, DATA_KEYS)}")
    if sum(key in part["data"] for key in ("path", "series", "clouds")) != 1:
        raise UsageError(f"{path}: data: expected one of path, series and clouds")
    if part["data"].get("form", "table") not in ("table", "maps"):
        raise UsageError(f"{path}: data: form {part['data']['form']}: expected table or maps")
    for layers in part["layers"] if isinstance(part["layers"], list) else [part["layers"]]:
        if not isinstance(layers, str):
            raise UsageError(f"{path}: layers: found {json.dumps(layers)}, expected text such as \"30,60,10,1\"")
    part = {key: value for key, value in part.items() if value is not None}
    axes = [
        [(key, value) for value in (values if isinstance(values, list) else [values])]
        for key, values in part.items()
    ]
    return map(dict, itertools.product(*axes))


def flag_names() -> tuple[set[str], set[str]]:
    """The flags that a plan may name: those of Network and those of train."""
    from .nn import Network
    from .train import train

    return tuple(set(inspect.signature(call).parameters) - NO_KEYS for call in (Network.__init__, train))


def _suggestion(key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, sorted(known), 1)
    return f": did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(known))}"


# ---------------------------------------------------------------- data


def _data_name(data: dict) -> str:
    source = data.get("path") or data.get("series") or "clouds"
    return Path(source).name if "path" in data else f"{Path(source).name} {data.get('form', 'table')}"


def load_data(data: dict, folder: Path):
    """(training data, test data or None) of a plan's `data`; see DATA_KEYS."""
    from . import solar
    from .ds import load
    from .source import relative_to

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


# ---------------------------------------------------------------- one entry


def run_entry(entry: Entry) -> dict:
    """Train and measure one entry; the line of results. Whatever keeps it from running is its `status`."""
    from . import __version__

    row = entry.facts()
    try:
        row |= {**_measure(entry), "status": OK}
    except (NnError, MemoryError) as error:
        row["status"] = str(error) or "out of memory"
    import numpy as np

    row |= {"nn": __version__, "numpy": np.__version__, "python": sys.version.split()[0]}
    return row | {"when": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def _measure(entry: Entry) -> dict:
    from . import backends
    from .bench import processor
    from .nn import Network
    from .test import test
    from .train import train
    from .utils import default_threads

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
        **_network_facts(layers),
        "rows": result["rows"],
        "inputs": net.inputs,
        "batch_number": batch,
        "epochs": result["epochs"],
        "backend": net.backend,
        "engine": engine.describe(),
        "device": processor() if backends.on_host(net.backend) else engine.describe(),
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
    from .flags import FLAGS

    for flag in FLAGS:
        value = entry.settings.get(flag.name)
        if value is not None and value is not False:
            flag_value(entry.plan, flag, value)


def _network_facts(layers) -> dict:
    """Kind, hidden layers that learn, neurons or filters of the largest of them, and parameters."""
    sizes = [layer.out_shape[0] for layer in layers if layer.weight_shape]
    return {
        "kind": "cnn" if any(layer.kind == "conv" for layer in layers) else "dense",
        "depth": len(sizes) - 1,
        "width": max(sizes[:-1], default=0),
        "parameters": sum(layer.parameters for layer in layers),
    }


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
    from .ds import split_holdout

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
    from . import backends

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


# ---------------------------------------------------------------- results


def read_results(path: str) -> list[dict]:
    """The lines of a file of results, numbers as floats, empty fields as None; an unfinished line is none.

    Raises InputNotFound, and DataError for a file that is none of `--sweep`.
    """
    try:
        text = Path(path).read_bytes().decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: no text, expected the CSV that --sweep writes") from error
    except OSError as error:
        raise InputNotFound(f"{path}: cannot read: {os_reason(error)}") from error
    whole = text[: text.rfind("\n") + 1]
    if not text:
        return []
    header, *lines = list(csv.reader(io.StringIO(whole))) or [[]]
    if tuple(header) != COLUMNS:
        if header[:1] == ["entry"]:
            others = ", ".join(sorted({*header} ^ {*COLUMNS})) or "in another order"
            raise DataError(
                f"{path}: another version of nn wrote it, with other columns ({others}); name a new file to run the "
                f"plan again"
            )
        raise DataError(f"{path}: its columns are not those that --sweep writes; name another file")
    return [dict(zip(COLUMNS, map(_field, line), strict=True)) for line in lines if len(line) == len(COLUMNS)]


_TEXTS = {
    "entry",
    "plan",
    "status",
    "data",
    "layers",
    "kind",
    "backend",
    "engine",
    "device",
    "gpus",
    "distribute",
}
_TEXTS |= {"dtype", "nn", "numpy", "python", "when"}


def _field(text: str):
    try:
        number = float(text)
    except ValueError:
        return text or None
    return number if math.isfinite(number) else None


def collect(path: str) -> list[dict]:
    """The results in a file, in all CSV files of a folder, or in all that a pattern such as `r-*.csv` names.

    Of several lines of one entry, backend and device the last one counts.
    """
    import glob

    where = Path(path)
    if where.is_dir():
        files = sorted(map(str, where.glob("*.csv")))
    else:
        files = [path] if where.exists() else sorted(glob.glob(path))
    if not files:
        raise InputNotFound(f"{path}: no such file, and no CSV file fits it; write one with nn --sweep")
    rows = {}
    for file in files:
        for row in read_results(file):
            rows[row["entry"], row["device"], row["cores"]] = row
    return list(rows.values())


def append(path: str, row: dict) -> None:
    """Add a line to a file of results, after its header if it is new; several processes may do so at once."""
    try:
        with open(path, "a+b") as file:
            _lock(file)
            file.seek(0)
            text = file.read()
            whole = text.rfind(b"\n") + 1
            file.truncate(whole)  # a line that was cut when a run was ended
            line = io.StringIO()
            writer = csv.writer(line, lineterminator="\n")
            if not whole:
                writer.writerow(COLUMNS)
            writer.writerow([_text(row.get(column)) for column in COLUMNS])
            file.write(line.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {os_reason(error)}") from error


def _lock(file) -> None:
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed


def _text(value) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())


# ---------------------------------------------------------------- the sweep


def sweep(
    plan: str, results: str, index: int | None = None, say: Callable[[str], None] | None = None
) -> list[dict]:
    """Run the entries of a plan that `results` does not hold yet, or the one of that index; all results then.

    say: is told what runs, in a line. Raises InputNotFound, DataError, UsageError, OutputError.
    """
    entries = read_plan(plan)
    if index is not None:
        if not 0 <= index < len(entries):
            raise UsageError(
                f"--index {index}: {plan} has {len(entries)} entries, expected 0 to {len(entries) - 1}"
            )
        entries = [entries[index]]
    done = {row["entry"] for row in read_results(results)} if os.path.exists(results) else set()
    for number, entry in enumerate(entries, 1):
        if entry.name in done:
            continue
        if say:
            say(f"{number}/{len(entries)}: {entry.describe()}")
        if index is not None:
            append(results, run_entry(entry))
        else:
            _run_apart(plan, results, entry)
    return read_results(results)


# `-m nn` would take a folder nn beside the caller for the package, such as this project's own sources
LAUNCH = "import sys; sys.path = [path for path in sys.path if path]; from nn.cli import main; sys.exit(main())"


def _run_apart(plan: str, results: str, entry: Entry) -> None:
    """Run an entry in a process of its own, which adds its line; where it could not, the line says why."""
    package = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    command = [
        sys.executable,
        "-c",
        LAUNCH,
        "--sweep",
        plan,
        "--index",
        str(entry.index),
        "-o",
        results,
        "--quiet",
    ]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    if ended.returncode == 0:
        return
    if ended.returncode in STOPPED:  # from outside, and the sweep with it
        raise KeyboardInterrupt
    if ended.returncode < 0:
        reason = f"ended by signal {-ended.returncode}" + (
            ": out of memory?" if ended.returncode == -9 else ""
        )
    else:
        reason = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1].removeprefix(
            "nn: "
        )
    append(results, {**entry.facts(), "status": reason})


def report(rows: list[dict]) -> None:
    """The results as a table."""
    from . import console

    def number(value, digits: str = ".3g") -> str:
        return "" if not isinstance(value, float) else format(value, digits)

    lines = [
        [
            row["layers"].replace(":relu", ""),
            f"{row['backend']}",
            number(row["threads"], ".0f"),
            number(row["batch_number"], ".0f"),
            number(row["parameters"], ",.0f"),
            number(row["batch_ms"]),
            number(row["infer_1_ms"]),
            number(row["rmse"] if row["rmse"] is not None else row["accuracy"], ".4g"),
            row["status"] if row["status"] != OK else "",
        ]
        for row in rows
    ]
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
    console.table(headers, lines, left=2)
