"""The figures that a study's document states beside those of its plan here: the table
«then and now»; those of a run by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..layers import parse
from ..nn_aux import BACKENDS
from ..pages.page import Page, Table
from ..terminal.figures import short_text
from ..utils import plural
from ..utils.messages import figure_text
from .results import ERRORS, INFERENCE_ROWS, OK, read_results
from .studies import COUNTED, Study
from .sweep import Entry, read_plan
from .sweep_page import results_page

ALL_CORES = "all cores"
LINE_KEYS = ("data", "layers", "batch_number", "batches", "dtype", "epochs")
BY_DEVICE = {  # a table for each: its column of the results, its digits
    "Seconds an epoch": ("epoch_s", 3),
    "Seconds of set-up: the engine with its kernels, and what the first epoch took longer": (
        "setup_s",
        3,
    ),
    "Times seq, an epoch": ("times_seq", 3),
    "Milliseconds a batch": ("batch_ms", 3),
    **{
        f"Milliseconds to predict {plural(n, 'row')}": (f"infer_{n}_ms", 3)
        for n in INFERENCE_ROWS
    },
    "Seconds of a test": ("test_s", 3),
    **{name: (name, 4) for name in ERRORS},
}
# of these, what the terminal shows: the page has all
SHOWN = ("epoch_s", "setup_s", "times_seq", "accuracy", "f1", "rmse")
FIGURE_HEADERS = (
    "figure",
    "from",
    "machine of then",
    "then",
    "now",
    "then / now",
    "machine of now",
)


@dataclass(frozen=True)
class Measured:
    """An entry of a study's plan, and its line of the results; None: it has none, for
    the reason why it cannot run here, or as it was not run."""

    entry: Entry
    row: dict | None
    reason: str | None = None

    @property
    def device(self) -> str:
        """Return what the entry asks for: backend, threads, GPUs."""
        settings = self.entry.settings
        backend = str(settings.get("backend", "auto"))
        words = [backend]
        if backend == "omp" and "threads" not in settings:
            words.append(ALL_CORES)
        for unit, name in {"threads": "thread", "gpus": "GPU"}.items():
            if unit in settings:
                words.append(plural(settings[unit], name))
        if "distribute" in settings:
            words.append(settings["distribute"])
        return ", ".join(words)

    def value(self, column: str, layer: int | None = None) -> float | None:
        """Return a figure of the results, or what is counted of them; of times by layer
        that of one."""
        if self.row is None:
            return None
        if column in COUNTED:
            return COUNTED[column](self.row)
        value = self.row[column]
        if layer is None or value is None:
            return value
        times = str(value).split()
        return float(times[layer]) if layer < len(times) else None

    def fits(self, settings: dict) -> bool:
        """Return whether the entry has these settings."""
        return all(self.entry.settings.get(key) == settings[key] for key in settings)


def measured(study: Study, results: str, reasons: dict[str, str]) -> list[Measured]:
    """Return the entries of a study with their results. reasons: why some cannot run
    here, by their names."""
    rows = {}
    if Path(results).exists():
        rows = {row["entry"]: row for row in read_results(results)}
    entries = []
    for entry in read_plan(str(study.plan)):
        row = rows.get(entry.name)
        if row and row["status"] != OK:
            row = None
        entries.append(Measured(entry, row, reasons.get(entry.name)))
    return entries


# ---------------------------------------------------------------- then and now


def compared(study: Study, entries: list[Measured]) -> list[dict]:
    """Return each figure of a study with `now`, this run's, `ratio`, then / now, and
    the device of now; None for what is not known."""
    return [_compared(figure, entries) for figure in study.figures]


def _compared(figure: dict, entries: list[Measured]) -> dict:
    now, devices = _now(figure, figure["of"], entries)
    if "over" in figure:
        divisor, others = _now(figure, figure["over"], entries)
        devices = list(dict.fromkeys(devices + others))
        if now and divisor:
            now /= divisor
        else:
            now = None
            devices = []
    then = figure.get("then")
    ratio = None
    if now and isinstance(then, (int, float)) and not figure.get("unlike"):
        ratio = then / now
    about = {key: figure.get(key) for key in ("what", "unit", "from", "machine")}
    return {**about, "then": then, "now": now, "ratio": ratio, "device": devices}


def _now(figure: dict, settings: dict, entries: list[Measured]) -> tuple:
    """Return (the median of a figure over the entries with these settings, their
    devices)."""
    fitting = [
        entry for entry in entries if entry.row is not None and entry.fits(settings)
    ]
    values = [entry.value(figure["column"], figure.get("layer")) for entry in fitting]
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None, []
    return float(np.median(numbers)), list(dict.fromkeys(map(_machine, fitting)))


def _machine(entry: Measured) -> str:
    """Return the device that computed an entry, with its threads."""
    threads = plural(round(entry.row["threads"]), "thread")
    return f"{entry.row['device']}, {entry.device.replace(ALL_CORES, threads)}"


def figure_lines(figures: list[dict]) -> list[list[str]]:
    """Return the lines of the table «then and now»."""
    lines = []
    for figure in figures:
        ratio = ""
        if figure["ratio"] is not None:
            ratio = short_text(figure["ratio"])
        unit = figure["unit"] or ""
        lines.append(
            [
                figure["what"],
                figure["from"] or "",
                figure["machine"] or "",
                _with_unit(figure["then"], unit),
                _with_unit(figure["now"], unit),
                ratio,
                "; ".join(figure["device"]),
            ]
        )
    return lines


def _with_unit(value: float | str | None, unit: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:.5g} {unit}".rstrip()


# ---------------------------------------------------------------- by device


def device_tables(entries: list[Measured], columns: Sequence[str] = ()) -> list[Table]:
    """Return a table of each figure that a run has, or of those of some columns: a line
    for each network, a column for each device, which says so where it is not here."""
    lines: dict[tuple, list[Measured]] = {}
    keys = _line_keys(entries)
    for entry in entries:
        lines.setdefault(_line(entry, keys), []).append(entry)
    devices = list(dict.fromkeys(entry.device for entry in sorted(entries, key=_rank)))
    headers = [
        *(key.replace("batch_number", "batch") for key in keys),
        *(_header(device, entries) for device in devices),
    ]
    tables = []
    for title, (column, digits) in BY_DEVICE.items():
        if columns and column not in columns:
            continue
        cells = []
        for line, ones in lines.items():
            if column == "times_seq":
                values = [_times_seq(ones, device, entries) for device in devices]
            else:
                values = [_values(ones, device, column) for device in devices]
            cells.append([*line, *(_cell(each, column, digits) for each in values)])
        cells = [cell for cell in cells if any(cell[len(keys) :])]
        if cells:
            tables.append(Table(title, headers, cells, 1, True))
    return tables


def _header(device: str, entries: list[Measured]) -> str:
    """Return the head of a device's column, which says where it has no results."""
    of_device = [entry for entry in entries if entry.device == device]
    if any(entry.row for entry in of_device):
        return device
    if any(entry.reason for entry in of_device):
        return f"{device} (not here)"
    return f"{device} (not run)"


def _rank(entry: Measured) -> int:
    """Return the place of an entry's backend among all."""
    backend = entry.entry.settings.get("backend", "auto")
    return [*BACKENDS, backend].index(backend)


def _line_keys(entries: list[Measured]) -> list[str]:
    """Return the settings that tell the lines of a study apart: the layers, and those
    of which it has several."""
    values = {
        key: {str(entry.entry.settings.get(key)) for entry in entries}
        for key in LINE_KEYS
    }
    return ["layers", *(k for k in LINE_KEYS if k != "layers" and len(values[k]) > 1)]


def _line(measured: Measured, keys: list[str]) -> tuple[str, ...]:
    settings = measured.entry.settings | {"data": measured.entry.facts()["data"]}
    return tuple(str(settings.get(key, "")) for key in keys)


def _cell(values: list[float], column: str, digits: int) -> str:
    """Return the median of a figure over some entries; of several errors the deviation
    too."""
    if not values:
        return ""
    text = figure_text(float(np.median(values)), digits)
    if column in ERRORS and len(values) > 1:
        text += f" ± {np.std(values, ddof=1):.2g}"
    return text


def _values(entries: list[Measured], device: str, column: str) -> list[float]:
    values = [entry.value(column) for entry in entries if entry.device == device]
    return [value for value in values if value is not None]


def _times_seq(
    line: list[Measured], device: str, entries: list[Measured]
) -> list[float]:
    """Return how many times as fast as `seq` an epoch of a line is on a device, if both
    are known; entries: of the study, whose number of epochs may be another."""
    *keys, _ = LINE_KEYS
    alike = {key: line[0].entry.settings.get(key) for key in keys}
    seq = _values([entry for entry in entries if entry.fits(alike)], "seq", "epoch_s")
    if not seq:
        return []
    return [float(np.median(seq)) / value for value in _values(line, device, "epoch_s")]


def layer_tables(entries: list[Measured]) -> list[Table]:
    """Return for each network a table of its layers: milliseconds of a batch forward
    and backward on each device."""
    networks: dict[tuple, dict[str, Measured]] = {}
    for entry in entries:
        if entry.row and entry.row["forward_ms"]:
            key = (entry.row["layers"], entry.row["batch_number"])
            networks.setdefault(key, {})[entry.device] = entry
    tables = []
    for (text, batch), devices in networks.items():
        ways = ("forward", "backward")
        headers = ["layer", *(f"{d} {way}" for d in devices for way in ways)]
        columns = [
            entry.row[f"{way}_ms"].split() for entry in devices.values() for way in ways
        ]
        sums = [f"{sum(map(float, column)):.4g}" for column in columns]
        layers = [layer.item or layer.kind for layer in parse(text)]
        lines = [
            *map(list, zip(layers, *columns, strict=True)),
            ["all", *sums],
        ]
        title = f"{text}, a batch of {plural(round(batch), 'row')}"
        tables.append(Table(title, headers, lines, 1, True))
    return tables


# ---------------------------------------------------------------- the page


def study_page(study: Study, entries: list[Measured], command: str) -> Page:
    """Return the page of a study: then and now, its figures by device, then what the
    page of a sweep has."""
    page = results_page([entry.row for entry in entries if entry.row])
    page.title = study.title
    lines = figure_lines(compared(study, entries))
    sections = {"Then and now": [*study.remarks]}
    if lines:
        sections["Then and now"].append(Table("", FIGURE_HEADERS, lines, 3, True))
    sections["By device"] = device_tables(entries)
    sections["Layer by layer, milliseconds of a batch"] = layer_tables(entries)
    sections["Not here"] = not_here(entries)
    sections["Command"] = [command]
    sections |= page.sections
    page.sections = {name: blocks for name, blocks in sections.items() if blocks}
    return page


def tables_of(figures: list[dict], entries: list[Measured]) -> list[Table]:
    """Return the tables of a study for the terminal: the figures that have a value of
    now, and the times."""
    lines = figure_lines([figure for figure in figures if figure["now"] is not None])
    title = f"Then and now: {len(lines)} of {len(figures)} figures; --report has all"
    return [
        Table(title, FIGURE_HEADERS, lines, 3),
        *device_tables(entries, SHOWN),
    ]


def not_here(entries: list[Measured]) -> list[str]:
    """Return a sentence for each device that this machine has not."""
    missing = {entry.device: entry.reason for entry in entries if entry.reason}
    return [f"{name}: {reason}" for name, reason in missing.items()]
