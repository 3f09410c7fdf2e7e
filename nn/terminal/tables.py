"""What a person sees: progress while training, tables of results. Rich on a terminal, plain in a pipe.

Progress and remarks go to stderr, results to stdout: `nn --test ... > report.txt` keeps the report only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Sequence

REDRAW_SECONDS = 0.1


def say(line: str) -> None:
    """One line to stderr. A log that nobody reads any more is no reason to lose a training."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """One line whatever is in it: a file name may hold a line break or bytes that are no text."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class WarningLines(logging.Handler):
    """The package's warnings as `nn: warning: ...` on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"nn: {record.levelname.lower()}: {record.getMessage()}")


def say_run(about: str, backend: str, threads: int, dtype: str, seed: int) -> None:
    """The first lines of a run: what computes, in what way, on which data."""
    from . import __version__

    say(f"nn {__version__}: {backend}, {threads} thread{'s' * (threads > 1)}, {dtype}, seed {seed}")
    say(about)


def about(ds, rows: str = "rows") -> str:
    """A data set in one line: where from, its shape, its classes. rows: what to call its rows."""
    from .source import short_name

    if ds.outputs is None:
        kind = "no targets"
    elif ds.classes is None:
        kind = f"regression of {', '.join(ds.targets) if ds.targets else ds.outputs}"
    else:
        counts = [f"{name} ({count})" for name, count in zip(ds.classes, ds.class_counts(), strict=True)]
        kind = f"{ds.task}, classes {listed(counts)}"
    shape = "x".join(map(str, ds.row_shape))
    return f"{short_name(ds.path)}: {ds.rows} {rows} x {shape} inputs; {kind}"


def listed(names: Sequence[str], most: int = 10) -> str:
    """Names with commas; of a long list the first ones and their number."""
    return ", ".join(names[:most]) + (f", ... ({len(names)})" if len(names) > most else "")


# ---------------------------------------------------------------- progress


def progress(about: str, quiet: bool = False, verbose: bool = False):
    """What `train` tells its progress to: a bar on a terminal, lines in a pipe, nothing if quiet.

    about: the data in one line.
    """
    if quiet:
        return None
    return Bar(about, every_epoch=verbose) if on_terminal(sys.stderr) else Lines(about)


class Lines:
    """The first lines of a run, then a plain line an epoch."""

    def __init__(self, about: str):
        self._about = about

    def start(self, info: dict) -> None:
        """info: as train.Training tells it."""
        say_run(self._about, info["backend"], info["threads"], info["dtype"], info["seed"])
        say("{layers}: {parameters} parameters, loss {loss}, scaling {scaling}".format(**info))
        held_out = ", {holdout} held out".format(**info) if info["holdout"] else ""
        batches = "{epochs} epochs of {batches} batches of {batch_number}".format(**info)
        steps = "{optimizer}, learning rate {learning_rate:g}, {schedule}".format(**info)
        say(f"training on {info['rows']} rows{held_out}: {batches}, {steps}")
        if info["window"]:
            say("reading in parts: windows of {rows} rows, {count} of them".format(**info["window"]))
        if info["resumed"]:
            say("going on from {file}: {epoch} epochs and {row} rows are done".format(**info["resumed"]))

    def update(self, epoch: int, rows_done: int, rows: int, loss: float) -> None:
        """Of an epoch's rows so many are done, with this mean loss. Lines keep quiet until it is over."""

    def epoch(
        self,
        epoch: int,
        epochs: int,
        loss: float,
        val_loss: float | None,
        seconds: float,
        us_per_batch: float,
    ) -> None:
        """An epoch (from 1) is over."""
        held_out = "" if val_loss is None else f"  held-out {val_loss:<11.6g}"
        say(
            f"epoch {epoch:{len(str(epochs))}}/{epochs}  loss {loss:<11.6g}{held_out}"
            f"  {seconds:.3g} s  {us_per_batch:.1f} us a batch"
        )

    def close(self) -> None:
        """Training is over, in whatever way."""


class Bar(Lines):
    """A bar over all epochs with loss, speed and time left; with `every_epoch` the lines above it too."""

    def __init__(self, about: str, every_epoch: bool = False):
        super().__init__(about)
        self._every_epoch = every_epoch

    def start(self, info):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().start(info)
        self._rows, self._epochs = info["rows"], info["epochs"]
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("{task.fields[loss]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(file=sys.stderr, highlight=False),
            auto_refresh=False,  # no second thread beside the training
        )
        self._began, self._drawn = time.monotonic(), 0.0
        resumed = info["resumed"]
        self._before = resumed["epoch"] * self._rows + resumed["row"] if resumed else 0
        total = self._epochs * self._rows
        self._task = self._bar.add_task(
            "", total=total, completed=self._before, epoch=1, epochs=self._epochs, loss="", speed=""
        )
        self._bar.start()

    def update(self, epoch, rows_done, rows, loss):
        self._advance(epoch, rows_done / rows, f"loss {loss:.6g}")

    def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
        if self._every_epoch:
            super().epoch(epoch, epochs, loss, val_loss, seconds, us_per_batch)
        held_out = "" if val_loss is None else f", held-out {val_loss:.6g}"
        self._advance(epoch, 1.0, f"loss {loss:.6g}{held_out}")

    def _advance(self, epoch: int, share: float, loss: str) -> None:
        now = time.monotonic()
        if now - self._drawn < REDRAW_SECONDS and share * epoch < self._epochs:  # epochs can be very short
            return
        self._drawn = now
        done = (epoch - 1 + share) * self._rows
        self._bar.update(
            self._task,
            completed=done,
            epoch=epoch,
            loss=loss,
            speed=f"{(done - self._before) / (now - self._began):,.0f} rows/s",
            refresh=True,
        )

    def close(self):
        self._bar.stop()


def on_terminal(stream) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show_cursor() -> None:
    """Undo what a bar did to the terminal, from inside a signal handler."""
    if on_terminal(sys.stderr):
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")


# ---------------------------------------------------------------- tables


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", left: int = 1) -> None:
    """A table on stdout; the first `left` columns, words, stand left, the others, numbers, stand right."""
    if on_terminal(sys.stdout):
        _rich_table(headers, rows, title, left)
    else:
        _plain_table(headers, rows, title, left)


def _rich_table(headers, rows, title, left):
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # file and class names are no markup

    grid = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_header=any(headers),
    )
    for number, header in enumerate(headers):
        grid.add_column(
            Text(header),
            justify="left" if number < left else "right",
            overflow="fold",
            no_wrap=number >= left,
        )
    for row in rows:
        grid.add_row(*(Text(printable(field)) for field in row))
    Console(highlight=False).print(grid)


def _plain_table(headers, rows, title, left):
    lines = [[printable(field) for field in row] for row in ([headers, *rows] if any(headers) else rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        print(title)
    for line in lines:
        fields = [
            field.ljust(width) if number < left else field.rjust(width)
            for number, (field, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(fields).rstrip())
    print()


def facts(pairs: dict[str, str], title: str = "") -> None:
    """Names and values, one a line."""
    table(["", ""], list(pairs.items()), title, left=2)


# ---------------------------------------------------------------- results

RATES = {
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "accuracy": "accuracy",
    "mcc": "MCC",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
}
SERIES = {"persistence_rmse": "RMSE of persistence", "skill": "skill"}


def training_report(result: dict) -> None:
    """What came of a training, in a line or two."""
    losses = f"loss {result['loss'][-1]:.6g}"
    if result["val_loss"]:
        losses += f", held-out loss {result['val_loss'][-1]:.6g}"
    print(
        f"{printable(result['model'])}: {result['parameters']:,} parameters, {result['epochs']} epochs in "
        f"{result['seconds']:.2f} s ({result['us_per_batch']:.1f} us a batch), {losses}"
    )


def test_report(result: dict, classes: Sequence[str] | None, targets: Sequence[str] | None) -> None:
    """The figures of `test` as tables."""
    if "confusion" in result:
        _multiclass_report(result)
    elif "tp" in result:
        _binary_report(result, classes or ["0", "1"])
    else:
        facts(
            {
                "rows": str(result["rows"]),
                "MSE": _number(result["mse"]),
                "MAE": _number(result["mae"]),
                "RMSE": _number(result["rmse"]),
                "R2": _number(result["r2"]),
                **{label: _number(result[name]) for name, label in SERIES.items() if name in result},
            },
            title="of " + ", ".join(targets) if targets else "",
        )


def _binary_report(result, classes):
    negative, positive = classes
    table(
        ["", f"predicted {negative}", f"predicted {positive}"],
        [
            [f"true {negative}", f"{result['tn']} TN", f"{result['fp']} FP"],
            [f"true {positive}", f"{result['fn']} FN", f"{result['tp']} TP"],
        ],
        title=f"{result['rows']} rows, class {positive} from a score of {result['threshold']:g}",
    )
    facts({label: _rate(result[name]) for name, label in RATES.items()})


def _multiclass_report(result):
    per_class, confusion = result["per_class"], result["confusion"]
    names = [row["class"] for row in per_class]
    table(
        ["true \\ predicted", *names],
        [[name, *map(str, counts)] for name, counts in zip(names, confusion, strict=True)],
        title=f"{result['rows']} rows",
    )
    table(
        ["class", "precision", "recall", "F1", "rows"],
        [
            [
                row["class"],
                _rate(row["precision"]),
                _rate(row["recall"]),
                _rate(row["f1"]),
                str(row["support"]),
            ]
            for row in per_class
        ]
        + [
            [
                "macro",
                *(_rate(result["macro"][name]) for name in ("precision", "recall", "f1")),
                str(result["rows"]),
            ]
        ],
    )
    facts({"accuracy": _rate(result["accuracy"])})


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"


def model_report(net, model: str) -> None:
    """What the model in this file knows beside its parameters."""
    data = net.dataset or {}
    losses = [
        f"{name} {values[-1]:.6g}"
        for name, values in (("loss", net.history["loss"]), ("held-out loss", net.history["val_loss"]))
        if values
    ]
    known = {
        "model": model,
        "task": net.task,
        "loss": net.loss,
        "dtype": net.dtype,
        "scaling": net.scaling.kind,
        "inputs": listed(net.columns or [], 8),
        "targets": listed(net.targets or []),
        "classes": listed(net.classes or []),
        "threshold": f"{net.threshold:g}" if net.task == "binary" else "",
        "seed": str(net.seed),
        "hold-out": f"{net.holdout:g}",
        "data": data.get("path") or "",
        "sha256": data.get("sha256") or "",
        "trained": ", ".join([f"{len(net.history['loss'])} epochs", *losses]) if losses else "",
    }
    facts({name: value for name, value in known.items() if value})
    if net.config:
        facts(
            {name: "" if value is None else str(value) for name, value in sorted(net.config.items())},
            "config",
        )


def network_table(layers) -> None:
    """Layer, output shape and parameters, a row a layer, and their total."""
    rows = [["", "input", "", shape_text(layers[0].in_shape), "0"]]
    for number, layer in enumerate(layers):
        activation = layer.activation if layer.parameters or layer.activation != "linear" else ""
        rows.append(
            [
                str(number),
                layer.item or layer.kind,
                activation,
                shape_text(layer.out_shape),
                f"{layer.parameters:,}",
            ]
        )
    rows.append(["", "total", "", "", f"{sum(layer.parameters for layer in layers):,}"])
    table(["", "layer", "activation", "output shape", "parameters"], rows, left=3)


def shape_text(shape: Sequence[int]) -> str:
    """`60` for a vector of 60 values, `4x28x28` for an image."""
    return str(shape[0]) if tuple(shape[1:]) == (1, 1) else "x".join(map(str, shape))
