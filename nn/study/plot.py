"""The base of all pictures: their look, and a drawn figure as files. Needs matplotlib (extra `report`).

Colours are those of Okabe and Ito, which the colour-blind tell apart; every line has a marker of its own too.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..utils import OutputError, UsageError, atomic_write, make_room_for_matrices, needs_package, os_reason

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
DASHES = ("-", "--", "-.", ":")
MOST_INSIDE = len(COLOURS)  # lines that leave room for their legend
INCHES = (5.4, 4.0)  # of pictures of a model: two beside each other, and legible on a phone

STYLE = {
    "text.parse_math": False,  # a name may hold dollars
    "svg.fonttype": "none",  # text stays text: searchable, and as sharp as the page's
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.35,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@dataclass
class Picture:
    """A drawn figure: the name of its files, what it shows, its axes while it is drawn, then two formats of it."""

    name: str
    caption: str
    axes: list
    svg: bytes = b""
    png: bytes = b""


def check_matplotlib() -> None:
    """Raise UsageError with the remedy where matplotlib is missing, NnError where there is no room for its matrices."""
    make_room_for_matrices()
    log = logging.getLogger("matplotlib")
    if not log.level:  # else somebody has asked for its words, as on a folder for its cache
        log.setLevel(logging.ERROR)
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError(needs_package("report", "pictures need")) from None


def save(pictures: Iterable[Picture], folder: str) -> list[str]:
    """Write every picture as SVG and PNG; returns the files. Raises OutputError."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot make the folder: {os_reason(error)}") from error
    files = []
    for picture in pictures:
        for suffix, data in (("svg", picture.svg), ("png", picture.png)):
            files.append(str(Path(folder) / f"{picture.name}.{suffix}"))
            atomic_write(files[-1], data)
    return files


@contextlib.contextmanager
def _want_of_memory() -> Iterator[None]:
    """Raise MemoryError where others tell of the want of memory in another way: Pillow, which writes to memory here, by
    an OSError without a number; matplotlib's reading of a font by an exception that cannot be raised where it is."""
    usual, missed = sys.unraisablehook, []

    def look(found) -> None:
        if issubclass(found.exc_type, MemoryError):
            missed.append(True)
        else:
            usual(found)

    sys.unraisablehook = look
    try:
        yield
    except Exception as error:
        if missed or (isinstance(error, OSError) and error.errno is None):
            raise MemoryError from error
        raise
    finally:
        sys.unraisablehook = usual
    if missed:
        raise MemoryError


@contextlib.contextmanager
def drawing(
    name: str, caption: str, panels: int = 1, share: bool = True, inches: tuple[float, float] = (6.8, 4.6), **labels
) -> Iterator[Picture]:
    """Yield a picture whose `axes`, `panels` of them side by side, the block draws on; the same bytes from run to run.

    inches: width and height of one panel; several are as wide as they need. labels: of every panel, see Axes.set; the
    y-axis has its label on the first.
    """
    with _want_of_memory():  # all of it: the first import of matplotlib looks at every font of the machine
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        with rc_context({**STYLE, "svg.hashsalt": name}):
            figure = Figure(figsize=inches if panels == 1 else (4.6 * panels + 0.6, 4.6), layout="constrained")
            FigureCanvasAgg(figure)
            axes = figure.subplots(1, panels, sharex=share, sharey=share, squeeze=False)[0].tolist()
            axes[0].set_ylabel(labels.pop("ylabel", ""))
            for panel in axes:
                panel.set(**labels)
            picture = Picture(name, caption, axes)
            yield picture
            _label_powers(figure)
            _legend(figure)
            svg, png = io.BytesIO(), io.BytesIO()
            figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
            figure.savefig(png, format="png", dpi=150)
    picture.axes, picture.svg, picture.png = [], svg.getvalue(), png.getvalue()


def styles_of(names: Iterable[str]) -> dict[str, dict]:
    """Return a colour, a marker and a kind of line for each name, the same wherever the names are."""
    return {
        name: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
        }
        for i, name in enumerate(sorted(set(names)))
    }


def _label_powers(figure) -> None:
    """Label logarithmic axes with plain numbers: matplotlib's own labels are formulas, which no text is here."""
    from matplotlib.ticker import LogFormatterMathtext

    class PlainNumbers(LogFormatterMathtext):
        def __call__(self, x, pos=None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
            axis.set_major_formatter(PlainNumbers())
            axis.set_minor_formatter(PlainNumbers())


def _legend(figure) -> None:
    """One in each part of the figure; one below for all where more lines than MOST_INSIDE leave it no room."""
    parts = [axes for axes in figure.axes if axes.get_legend_handles_labels()[1]]
    named = {}
    for axes in parts:
        named |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if len(named) <= MOST_INSIDE:
        for axes in parts:
            axes.legend()
        return
    columns = max(1, int(figure.get_figwidth() / (0.6 + 0.075 * max(map(len, named)))))  # inches
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(named) // columns))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)
