"""Plans: JSON or TOML in, the entries that they stand for out.

A plan's keys are flags, `data` and PLAN_KEYS; a flag may have a list of values, and every combination of
them is an entry. `parts` holds several such objects, which share the keys beside it:

    {"data": {"clouds": {"rows": 8640, "step": 10}, "form": "table", "horizon": 60},
     "epochs": 3, "batch_number": [100, 1000],
     "parts": [{"layers": ["50,50,1", "50,100,1"], "backend": "omp", "threads": [1, 2]}]}
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..layers import parse
from ..settings.flags import settings_of
from ..settings.values import device_numbers
from ..terminal.config import read_config
from ..utils import UsageError, closest

MOST_ENTRIES = 100_000  # of a plan
PLAN_KEYS = {
    "name": "of the plan, the file's name by default",
    "data": "the data to learn from: DATA_KEYS",
    "batches": "the most batches an epoch has, for a plan that measures time only",
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
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:12]

    def facts(self) -> dict:
        """Return the columns of the results that are known before the entry runs."""
        flags = ("layers", "backend", "threads", "gpus", "distribute", "dtype", "batch_number", "epochs")
        facts = {key: self.settings.get(key, "") for key in flags}
        with contextlib.suppress(ValueError):  # the run refuses it
            facts["gpus"] = facts["gpus"] if facts["gpus"] in ("", None) else len(device_numbers(facts["gpus"]))
        data = self.settings["data"]
        source = Path(data.get("path") or data.get("series") or "clouds").name
        source += "" if "path" in data else f" {data.get('form', 'table')}"
        facts |= {"entry": self.name, "plan": self.plan, "index": self.index, "data": source}
        with contextlib.suppress(UsageError):
            facts |= network_facts(parse(facts["layers"]))
        return facts

    def describe(self) -> str:
        s = self.settings
        more = [f"{key} {s[key]}" for key in ("backend", "threads", "gpus", "distribute", "batch_number") if key in s]
        return ", ".join([s["layers"], *more])


def network_facts(layers) -> dict:
    """Kind, hidden layers that learn, neurons or filters of the largest of them, and parameters."""
    sizes = [layer.out_shape[0] for layer in layers if layer.weight_shape]
    return {
        "kind": "cnn" if any(layer.kind == "conv" for layer in layers) else "dense",
        "depth": len(sizes) - 1,
        "width": max(sizes[:-1], default=0),
        "parameters": sum(layer.parameters for layer in layers),
    }


def flag_names() -> tuple[set[str], set[str]]:
    """Return the flags that a plan may name: those of Network and those of train."""
    of_network, of_training = (
        {flag.name for flag in settings_of(*of)} for of in (("network", "engine"), ("train", "several"))
    )
    return (of_network | {"layers", "task"}) - {"reference"}, of_training


def read_plan(path: str) -> list[Entry]:
    """Return the entries of a plan, in order. Raises InputNotFound, DataError, UsageError (naming a wrong key)."""
    plan = read_config(path, "--sweep")
    name = str(plan.pop("name", Path(path).stem))
    parts = plan.pop("parts", [{}])
    settings: list[dict] = []
    try:
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise UsageError("parts: expected a list of objects")
        for part in parts:
            settings += _combinations({**plan, **part}, MOST_ENTRIES - len(settings))
        unique = {json.dumps(entry, sort_keys=True): entry for entry in settings}
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except TypeError as error:  # a date in TOML
        raise UsageError(f"{path}: a value that no flag has ({error}), expected numbers, texts and truths") from error
    return [Entry(name, index, entry, Path(path).parent) for index, entry in enumerate(unique.values())]


def _combinations(part: dict, most: int) -> Iterable[dict]:
    """Return every combination of a part's values. Raises UsageError for a wrong key, or more than `most`."""
    _check_keys(part, {*set().union(*flag_names()), "data", "batches"}, "")
    for key in ("data", "layers"):
        if key not in part:
            raise UsageError(f"a part without {key}; add it to the part or beside the parts")
    _check_data(part["data"])
    axes = [
        [(key, value) for value in (values if isinstance(values, list) else [values])]
        for key, values in part.items()
        if values is not None or key == "layers"
    ]
    for key, value in itertools.chain(*axes):
        if key == "layers" and not isinstance(value, str):
            raise UsageError(f'layers: found {json.dumps(value)}, expected text such as "30,60,10,1"')
    count = math.prod(map(len, axes))
    if count > most:
        raise UsageError(f"{count} more combinations of its values, expected at most {MOST_ENTRIES} in all")
    return map(dict, itertools.product(*axes))


def _check_data(data: dict) -> None:
    """Raise UsageError for what `data` of a plan cannot be."""
    if not isinstance(data, dict):
        raise UsageError("data: expected an object with path, series or clouds")
    _check_keys(data, DATA_KEYS, "data: ")
    if sum(key in data for key in ("path", "series", "clouds")) != 1:
        raise UsageError("data: expected one of path, series and clouds")
    if data.get("form", "table") not in ("table", "maps"):
        raise UsageError(f"data: form {data['form']}: expected table or maps")
    for key in ("path", "test", "series", "stations"):
        if not isinstance(data.get(key, ""), str):
            raise UsageError(f"data: {key}: found {data[key]}, expected the name of a file")


def _check_keys(keys: Iterable[str], known: Iterable[str], where: str) -> None:
    for key in keys:
        if key not in known:
            close = closest(key, sorted(known))
            cure = f": did you mean {close}?" if close else f"; the keys are {', '.join(sorted(known))}"
            raise UsageError(f"{where}no such key {key}{cure}")
