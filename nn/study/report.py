"""--report: tables and pictures of a test, a model or a sweep as one HTML page that needs no other file."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from ..backends import TRAITS
from ..core.thresholds import cut_offs
from ..layers import describe, to_spec
from ..settings.values import parse_rule
from ..terminal.figures import count_text, ends_text, layers_of, number_text, rate_text, shape_text
from ..test import judged
from ..utils import atomic_write, counted
from . import plot, plot_model
from .results import INFERENCE_ROWS, OK
from .trials import COLUMNS as TRIAL_COLUMNS

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 70rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; margin-bottom: 1.2rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.3rem 0; color: #555; }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { border-bottom-color: #888; white-space: normal; vertical-align: bottom; } .word { text-align: left; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 0 2rem;
           align-items: start; }
.columns figure { margin: 0 0 1.5rem; } .columns figure svg { width: 100%; } .columns > * { min-width: 0; }
figure { margin: 1.5rem 0; } figure svg { max-width: 100%; height: auto; } figcaption { color: #555; }
@media (max-width: 30rem) { body { padding: 0 0.6rem; } table { font-size: 0.8rem; }
                            th, td { padding: 0.25rem 0.2rem; } }
"""
USUAL_THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)


# ---------------------------------------------------------------- pages


def of_test(result: dict, net, ds, model: str, scores: np.ndarray | None = None) -> str:
    """Return the page of a test: its figures, the model, the losses of its training, its errors.

    scores: of the rows, where they are not the network's (out of fold).
    """
    facts = {
        "model": model,
        "layers": "; ".join(counted(member.spec for member in net.members)),
        "networks": len(net.members) if len(net.members) > 1 else "",
        "parameters": f"{sum(member.parameter_count for member in net.members):,}",
        "loss": net.loss,
        "scaling": "; ".join(counted(member.scaling.kind for member in net.members)),
        "data": ds.path or "",
        "computed by": net.engine.describe(),
    }
    known = _table(["", ""], [[name, value] for name, value in facts.items() if value], "the model", 2)
    pictures, tables = _of_task(result, net, ds, scores)
    if net.history["loss"] or net.task == "regression":
        pictures = [*pictures, *plot_model.of_model(net, ds, scores)]
    beside = [f"<div>{''.join(tables)}</div>"] if tables else []
    parts = ["<h2>Result</h2>", _columns([_figure_table(result), *beside])]
    if pictures:
        parts += ["<h2>Pictures</h2>", _columns(map(_figure, pictures))]
    return _page(f"Test of {model}", [*parts, "<h2>Model</h2>", known])


def _figure_table(result: dict) -> str:
    """Return the table of all figures that are one number, with their intervals if there are any."""
    figures = {name: value for name, value in result.items() if not isinstance(value, (list, dict))}
    figures |= {f"macro_{name}": value for name, value in result.get("macro", {}).items()}
    intervals = result.get("intervals")
    lines = [[name, number_text(value)] for name, value in figures.items()]
    if intervals is None:
        return _table(["", ""], lines, "figures", 1)
    shown = number_text if "rmse" in result else rate_text
    for line in lines:
        line.append(ends_text(intervals[line[0]], shown) if line[0] in intervals else "")
    return _table(["", "", "95 % interval"], lines, "figures", 1)


def _of_task(result: dict, net, ds, scores) -> tuple[list[plot.Picture], list[str]]:
    """Return (pictures, tables) that tests of this task have beside the figures."""
    if "confusion" in result:
        return plot_model.of_several_classes(result), _class_tables(result)
    if "tp" not in result:
        return [], []
    truth, scores, weights = judged(net, ds, scores)
    scores, classes = scores[:, 0], net.classes or ["0", "1"]
    counts = [[result["tn"], result["fp"]], [result["fn"], result["tp"]]]
    headers, lines = threshold_table(result, truth, scores, weights, _costs(net))
    tables = [_confusion(classes, counts, "rows"), _table(headers, lines, "thresholds", 0)]
    return plot_model.of_two_classes(result, truth, scores, weights, classes), tables


def threshold_table(
    result: dict, truth: np.ndarray, scores: np.ndarray, weights, costs: tuple[float, float] | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return (headers, lines) of what several thresholds give, the one of the test marked.

    They are those that people ask for; of scores that are no probabilities, tenths of their range. costs: of a false
    alarm and of a missed row, which add a column.
    """
    cuts = cut_offs(truth, scores, weights)
    rows = (cuts.tp[-1] + cuts.fp[-1]).item()
    headers = ["threshold", "precision", "recall", "F1", "alarms per 1000 rows", *(["cost"] if costs else [])]
    usual = USUAL_THRESHOLDS
    if scores.min() < 0 or scores.max() > 1:
        usual = np.linspace(scores.min(), scores.max(), 11, dtype=np.float64).tolist()
    lines = []
    for threshold in sorted({*usual, result["threshold"]}):
        k = int((cuts.scores >= threshold).sum()) - 1  # cut-offs fall, the first is inf
        rates = [column[k] for column in (cuts.precision, cuts.recall, cuts.fbeta(1))]
        alarms = 1000 * (cuts.tp[k] + cuts.fp[k]) / rows
        mark = " (used)" if threshold == result["threshold"] else ""
        line = [f"{threshold:.4g}{mark}", *map(rate_text, rates), f"{alarms:.1f}"]
        lines.append(line + ([f"{cuts.cost(*costs)[k]:g}"] if costs else []))
    return headers, lines


def _costs(net) -> tuple[float, ...] | None:
    """Return what a false alarm and a missed row cost, if the network's threshold was chosen by that."""
    rule = net.config.get("threshold")
    name, numbers = parse_rule(rule) if isinstance(rule, str) else ("", ())
    return numbers if name == "cost" else None


def _class_tables(result: dict) -> list[str]:
    rates = ("precision", "recall", "f1")
    lines = [
        [row["class"], *(rate_text(row[name]) for name in rates), count_text(row["support"])]
        for row in result["per_class"]
    ]
    names = [row["class"] for row in result["per_class"]]
    confusion = _confusion(names, result["confusion"], "rows of each class by predicted class")
    return [_table(["class", *rates, "support"], lines, "classes", 1), confusion]


def _confusion(names: Sequence[str], counts: Sequence[Sequence], caption: str) -> str:
    lines = [[name, *map(count_text, row)] for name, row in zip(names, counts, strict=True)]
    return _table(["true \\ predicted", *names], lines, caption, 1)


def of_model(net, model: str, pictures: Sequence[plot.Picture]) -> str:
    """Return the page of a model: its layers and its pictures."""
    tables = []
    for title, layers in layers_of(net):
        lines = [
            [layer["layer"], layer["activation"], shape_text(layer["output"]), f"{layer['parameters']:,}"]
            for layer in describe(layers)
        ]
        caption = ": ".join(filter(None, [title, to_spec(layers)]))
        tables.append(_table(["layer", "activation", "output", "parameters"], lines, caption, 2))
    return _page(f"Model {model}", ["<h2>Layers</h2>", *tables, *_figures(pictures)])


def of_results(rows: list[dict], pictures: Sequence[plot.Picture]) -> str:
    """Return the page of a sweep: which device suits which network, pictures, and every figure."""
    done = [row for row in rows if row["status"] == OK]
    failed = [row for row in rows if row["status"] != OK]
    devices = sorted({(row["device"], row["engine"], f"{row['cores']:.0f}", row["nn"], row["python"]) for row in done})
    parts = [
        "<h2>Which device for which network?</h2>",
        *(f"<p>{html.escape(line)}</p>" for line in verdicts(rows)),
        _table(["device", "backend", "cores", "nn", "Python"], devices, "measured on", 2),
        *_figures(pictures),
        "<h2>All figures</h2>",
        _table([head for head, _, _ in FIGURES], [_line(row) for row in done], f"{len(done)} networks", 3),
    ]
    if failed:
        lines = [[row["layers"], row["backend"], f"{row['batch_number'] or 0:.0f}", row["status"]] for row in failed]
        parts += ["<h2>Not run</h2>", _table(["network", "backend", "batch", "why"], lines, "", 4)]
    plans = ", ".join(sorted({row["plan"] for row in rows}))
    return _page(f"Timing study: {plans}", parts)


def of_trials(rows: list[dict], pictures: Sequence[plot.Picture]) -> str:
    """Return the page of trials: pictures, and every one with its settings."""
    columns = [name for name in TRIAL_COLUMNS if any(row[name] is not None for row in rows)]
    lines = [["" if row[name] is None else _trial_field(row[name]) for name in columns] for row in rows]
    table = _table(columns, lines, f"{len(rows)} trials", 2)
    return _page("Trials", [*_figures(pictures), "<h2>All trials</h2>", table])


def _trial_field(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def write(path: str, page: str) -> None:
    """Write a page. Raises OutputError."""
    atomic_write(path, page.encode(errors="backslashreplace"))  # a file's name may hold what is no character


# ---------------------------------------------------------------- the answer in words


def verdicts(rows: list[dict]) -> list[str]:
    """For each kind of network and batch size, a sentence: up to which size the processor trains it faster.

    Compared are the fastest settings of the processor and of the accelerators, network by network.
    """
    best: dict = defaultdict(dict)  # (kind, batch size) -> {network: {on host: row}}
    for row in rows:
        if row["status"] == OK:
            network = best[row["kind"], row["batch_number"]].setdefault(row["layers"], {})
            side = TRAITS[row["backend"]].on_host
            if side not in network or row["batch_ms"] < network[side]["batch_ms"]:
                network[side] = row
    sentences = []
    for (kind, batch), networks in sorted(best.items()):
        both = [network for network in networks.values() if len(network) == 2]
        if both:
            sentences.append(_verdict(kind, batch, sorted(both, key=lambda network: network[True]["parameters"])))
    return sentences or ["Only one kind of device was measured: nothing to compare yet."]


def _verdict(kind: str, batch: float, networks: list[dict]) -> str:
    """networks: {on host: row}, by the number of parameters."""
    name = "Convolutional networks" if kind == "cnn" else "Dense networks"
    start = f"{name}, batches of {batch:.0f} rows:"
    wins = [network[True]["batch_ms"] <= network[False]["batch_ms"] for network in networks]
    first_loss = wins.index(False) if False in wins else len(wins)
    size = [f"{network[True]['parameters']:,.0f} parameters" for network in networks]
    host, device = networks[0][True]["device"], networks[0][False]["device"]
    if first_loss == 0:
        later = f", except {sum(wins)} of {len(wins)} networks" if any(wins) else ""
        return f"{start} {device} is faster than {host} from {size[0]} on, the smallest measured{later}."
    if first_loss == len(wins):
        return f"{start} {host} is faster than {device} up to {size[-1]}, the largest measured."
    again = sum(wins[first_loss:])
    later = f" ({again} larger ones are faster on {host} too)" if again else ""
    return f"{start} {host} is faster up to {size[first_loss - 1]}, {device} from {size[first_loss]} on{later}."


# ---------------------------------------------------------------- pieces

FIGURES = [  # header, column of the results, its format
    ("network", "layers", ""),
    ("data", "data", ""),
    ("backend", "engine", ""),
    ("threads", "threads", ".0f"),
    ("GPUs", "gpus", ""),
    ("batch", "batch_number", ".0f"),
    ("parameters", "parameters", ",.0f"),
    ("ms a batch", "batch_ms", ".3g"),
    ("95 %", "batch_p95_ms", ".3g"),
    ("s an epoch", "epoch_s", ".3g"),
    ("s in all", "train_s", ".3g"),
    *((f"ms for {n} row{'s' * (n > 1)}", f"infer_{n}_ms", ".3g") for n in INFERENCE_ROWS),
    ("MB", "network_bytes", ".3g"),
    ("RMSE", "rmse", ".4g"),
    ("MAE", "mae", ".4g"),
    ("R2", "r2", ".3g"),
    ("skill", "skill", ".3g"),
    ("accuracy", "accuracy", ".4f"),
]


def _line(row: dict) -> list[str]:
    layers = ",".join(item.split(":")[0] for item in row["layers"].split(","))
    row = row | {"layers": layers, "network_bytes": row["network_bytes"] / 1e6}
    return ["" if row[name] is None else format(row[name], digits) for _, name, digits in FIGURES]


def _table(headers: Sequence[str], lines: Iterable[Sequence[str]], caption: str, words: int) -> str:
    """Return a table whose first `words` columns are words."""

    def cells(tag: str, fields: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=word' if n < words else ''}>{html.escape(str(field))}</{tag}>"
            for n, field in enumerate(fields)
        )

    head = f"<thead><tr>{cells('th', headers)}</tr></thead>" if any(headers) else ""
    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<div class=scroll><table>{title}{head}<tbody>{body}</tbody></table></div>"


def _columns(parts: Iterable[str]) -> str:
    """Return the parts two beside each other on a wide screen, one below the other on a phone."""
    return f"<div class=columns>{''.join(parts)}</div>"


def _figures(pictures: Sequence[plot.Picture]) -> list[str]:
    return ["<h2>Pictures</h2>", *map(_figure, pictures)] if pictures else []


def _figure(picture: plot.Picture) -> str:
    """Return the picture as part of the page: an <svg> whose ids are its own."""
    svg = picture.svg.decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)  # HTML knows SVG without
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{picture.name}-", svg)
    caption = html.escape(picture.caption)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def _page(title: str, parts: Iterable[str]) -> str:
    from .. import __version__

    head = f"<meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>"
    view = '<meta name=viewport content="width=device-width, initial-scale=1">'
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts, f"<p>nn {__version__}</p>"])
    return f"<!DOCTYPE html>\n<html lang=en><head>{head}{view}</head>\n<body>\n{body}\n</body></html>\n"
