"""Pictures as SVG, written by hand: lines, dots and areas over two axes.

They take the colours of the text around them, light or dark. The colours of lines are
legible on both and told apart by the colour-blind (after Okabe and Ito); lines differ
in markers and dashes too.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np

from ..utils import OutputError, atomic_write, axis_texts, cut_line, os_reason

# a plot, in units of the viewBox, and where its axes end
PLOT_WIDTH = 440
HEIGHT = 290
TOP = 28
RIGHT = 426
LETTER = 7.0  # usual width of a letter
LONGEST_LABEL = 40  # letters of a name in the legend
LONGEST_TITLE = 54  # letters
LONGEST_LABEL_WORD = 12  # letters of a word on an axis
TABLE_POINTS = 8  # of a line in a table
GRID = 400  # steps of a line in either direction: what moves less is left out
LEAST_SPAN = 20  # of a logarithmic axis, from its start to its end
MOST_MARKED = 30  # points of a line that have markers
COLOURS = ("#2a7fc0", "#d55e00", "#009e73", "#c0629a", "#a87800", "#3d9bd6", "#7f7f7f")
MARKERS = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "m-3-3h6v6h-6z",
    "m0-4l4 7h-8z",
    "m0-4l4 4-4 4-4-4z",
    "m0 4l-4-7h8z",
    "m-3-3l6 6m0-6l-6 6",
    "m-4 0h8m-4-4v8",
)
DASHES = ("", "7 4", "2 3", "9 3 2 3")
CHART_STYLE = """svg{color-scheme:light dark;font:12px system-ui,sans-serif} svg text{fill:currentColor}
svg .e{text-anchor:end} svg .m{text-anchor:middle} svg .h{font-weight:600;font-size:13px} svg .g{stroke:#8885;fill:none}
svg .l{fill:none;stroke-width:1.8} svg .dots{stroke-width:4;stroke-linecap:round;stroke-opacity:.6}
svg .mark{stroke-width:10;stroke-linecap:round} svg .a{fill-opacity:.35;stroke-width:1}
svg .r{stroke:#888;stroke-dasharray:3 3;fill:none}
""" + "".join(
    f"svg .s{i}{{stroke:{c}}}svg .f{i}{{fill:{c}}}" for i, c in enumerate(COLOURS)
)


@dataclass
class Axis:
    """The label and the ends of an axis. ends: None, those of the points; words: of the
    places 0, 1, 2, ...; log: where the points span LEAST_SPAN times."""

    label: str = ""
    log: bool = False
    ends: tuple[float, float] | None = None
    words: Sequence[str] = ()


@dataclass
class Line:
    """Points of a plot. look: line, steps (along x, then y), dots, area (x: edges),
    mark, rule (a reference).

    number: of its colour, marker and dashes; None: its place among the lines that have
    any.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: str = "line"
    number: int | None = None

    def __post_init__(self):
        x = np.asarray(self.x, np.float64)
        y = np.asarray(self.y, np.float64)
        if self.look in ("line", "steps") and len(x) > GRID:
            places = [
                GRID * (values - values.min()) / max(np.ptp(values), 1e-300)
                for values in (x, y)
            ]
            moved = (np.diff(np.round(places), axis=1) != 0).any(axis=0)
            kept = np.concatenate([[True], moved[:-1], [True]])
            x = x[kept]
            y = y[kept]
        self.x = x.tolist()
        self.y = y.tolist()


@dataclass
class Plot:
    """Lines over two axes. name: of its file; title: what it shows."""

    name: str
    title: str
    x: Axis
    y: Axis
    lines: list[Line] = field(default_factory=list)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return (headers, lines) of some points of each line."""
        lines = []
        for line in self.lines:
            if self.x.words:
                x = [self.x.words[int(place)] for place in line.x]
            else:
                x = axis_texts(line.x)
            y = axis_texts(line.y)
            count = min(TABLE_POINTS, len(y))
            shown = np.linspace(0, len(y) - 1, count).astype(int)
            lines += [[line.name, x[k], y[k]] for k in np.unique(shown)]
        return ["", self.x.label, self.y.label], lines

    def svg(self) -> str:
        """Return the picture as an <svg>."""
        words = [cut_line(word, LONGEST_LABEL_WORD) for word in self.x.words]
        letters = sum(len(word) + 2 for word in words)
        is_crowded = LETTER * letters > PLOT_WIDTH - 60
        bottom = HEIGHT - 46
        if is_crowded:
            bottom = HEIGHT - 86
        y = Scale(self.y, [v for line in self.lines for v in line.y], bottom, TOP)
        left = 28 + LETTER * max((len(text) for _, text in y.ticks), default=0)
        x = Scale(self.x, [v for line in self.lines for v in line.x], left, RIGHT)
        parts = [
            _text(PLOT_WIDTH / 2, 16, cut_line(self.title, LONGEST_TITLE), "h m"),
            *_axes(x, y, is_crowded),
            _text((left + RIGHT) / 2, HEIGHT - 14, x.label, "m"),
            _text(12, (TOP + bottom) // 2, y.label, "m", -90),
        ]
        number = 0
        for line in self.lines:
            if line.look != "rule" and line.number is None:
                line.number = number
                number += 1
        for line in self.lines:
            # of an area the last height is that of its last edge, too
            end = y.at(line.y[-1])
            places = zip_longest(map(x.at, line.x), map(y.at, line.y), fillvalue=end)
            parts.append(_drawn(line, places, bottom))
        legend, height = _legend(self.lines, left)
        inside = "".join([*parts, *legend])
        label = html.escape(cut_line(self.title, 80))
        return f'<svg role="img" aria-label="{label}" viewBox="0 0 {PLOT_WIDTH} {math.ceil(height)}">{inside}</svg>'


def _axes(x: Scale, y: Scale, is_crowded: bool) -> list[str]:
    """Return the grid of a plot, and the texts below and on the left of it; crowded
    ones below are turned."""
    left = x.start
    bottom = y.start
    grid = "".join(f"M{_n(left)} {_n(at)}H{RIGHT}" for at, _ in y.ticks)
    grid += "".join(f"M{_n(at)} {TOP}V{bottom}" for at, _ in x.ticks)
    parts = [f'<path class="g" d="{grid}"/>']
    parts += [_text(left - 5, at + 4, text, "e") for at, text in y.ticks]
    for at, text in x.ticks:
        if is_crowded:
            parts.append(_text(at + 4, bottom + 15, text, "e", -25))
        else:
            parts.append(_text(at, bottom + 15, text, "m"))
    return parts


def alone(picture: Plot) -> str:
    """Return a picture as a file of its own."""
    space = f'xmlns="http://www.w3.org/2000/svg" width="{2 * PLOT_WIDTH}"'
    tag, end, inside = picture.svg().partition(">")
    tag = tag.replace("<svg", f"<svg {space}", 1)
    return f"{tag}{end}<style>{CHART_STYLE}</style>{inside}\n"


def save(pictures: Iterable[Plot], folder: str) -> list[str]:
    """Write every picture as a file; returns the files. Raises OutputError."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot make the folder: {os_reason(error)}"
        ) from error
    files = []
    for picture in pictures:
        files.append(str(Path(folder) / f"{picture.name}.svg"))
        atomic_write(files[-1], alone(picture).encode())
    return files


class Scale:
    """Numbers from low to high, on a logarithmic axis their logarithms, at the places
    from start to end."""

    def __init__(self, axis: Axis, values: list[float], start: float, end: float):
        """values: those that are on the axis, which leaves them some room at its
        ends."""
        self.words = axis.words
        self.label = axis.label
        self.start = start
        self.end = end
        finite = [v for v in values if math.isfinite(v)]
        if axis.log:
            finite = [v for v in finite if v > 0]
        finite = finite or [0.1, 1.0]
        if axis.words:
            ends = (-0.5, len(axis.words) - 0.5)
        else:
            ends = axis.ends
        low, high = ends or (min(finite), max(finite))
        self.is_log = axis.log and high > LEAST_SPAN * low
        if self.is_log:
            self.label += ", logarithmic"
            low = math.log10(low)
            high = math.log10(high)
        room = 0.0
        self.least = 0.0  # between two ticks
        if not ends:
            room = 0.04 * (high - low) or abs(high) / 2 or 1.0
            self.least = float(all(v % 1 == 0 for v in finite))
        self.low = low - room
        self.high = high + room

    def at(self, value: float) -> float:
        """Return the place of a value; of one below a logarithmic axis its start."""
        if self.is_log:
            if value > 0:
                value = max(math.log10(value), self.low)
            else:
                value = self.low
        span = (self.high - self.low) or 1.0
        return self.start + (self.end - self.start) * (value - self.low) / span

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return (place, text) of the words, or of round values."""
        if self.words:
            return [
                (self.at(k), cut_line(word, LONGEST_LABEL_WORD))
                for k, word in enumerate(self.words)
            ]
        if self.is_log:
            values = self._decades()
        else:
            values = self._round()
        return [
            (self.at(value), text)
            for value, text in zip(values, axis_texts(values, 6), strict=True)
        ]

    def _decades(self) -> list[float]:
        """Return powers of ten, or 1, 2, 5 times them where there are few."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        digits = (1,)
        if len(powers) < 4:
            digits = (1, 2, 5)
        every = math.ceil(len(powers) / 6)
        values = [digit * 10.0**power for power in powers[::every] for digit in digits]
        low = self.low - 1e-9
        high = self.high + 1e-9
        return [value for value in values if low <= math.log10(value) <= high]

    def _round(self) -> list[float]:
        """Return about six multiples of 1, 2 or 5 times a power of ten."""
        rough = max((self.high - self.low) / 5, self.least)
        if rough > 0:
            power = 10.0 ** math.floor(math.log10(rough))
        else:
            power = 1.0
        step = next(power * d for d in (1, 2, 5, 10) if power * d >= rough * 0.999)
        low = math.ceil(self.low / step - 1e-9)
        high = math.floor(self.high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(low, high + 1)]


def _drawn(line: Line, places: Iterable[tuple[float, float]], bottom: float) -> str:
    """Return a line as paths. places: of its points; bottom: of an area."""
    number = line.number or 0
    colour = number % len(COLOURS)
    points = [(_n(x), _n(y)) for x, y in places]
    start = f"M{points[0][0]} "
    if line.look == "area":
        tops = "".join(f"H{x}V{y}" for x, y in points)
        return f'<path class="a f{colour} s{colour}" d="{start}{_n(bottom)}{tops}V{_n(bottom)}z"/>'
    if line.look in ("dots", "mark"):
        path = "".join(f"M{x} {y}h0" for x, y in points)
        return f'<path class="{line.look} s{colour}" d="{path}"/>'
    if line.look == "steps":
        steps = "".join(f"V{y}H{x}" for x, y in points[1:])
        path = start + points[0][1] + steps
    else:
        path = "M" + "L".join(f"{x} {y}" for x, y in points)
    if line.look == "rule":
        return f'<path class="r" d="{path}"/>'
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    dashed = ""
    if dashes:
        dashed = f' stroke-dasharray="{dashes}"'
    drawn = f'<path class="l s{colour}"{dashed} d="{path}"/>'
    if len(points) <= MOST_MARKED:
        marks = "".join(f"M{x} {y}{MARKERS[colour]}" for x, y in points)
        drawn += f'<path class="l s{colour}" d="{marks}"/>'
    return drawn


def _legend(lines: Sequence[Line], left: float) -> tuple[list[str], float]:
    """Return (parts, height of the picture) with the names of lines below."""
    named = [line for line in lines if line.name]
    if not named:
        return [], HEIGHT - 6
    parts = []
    x = left
    y = HEIGHT + 4
    most = min(LONGEST_LABEL, int((PLOT_WIDTH - left - 28) / LETTER))
    for line in named:
        name = cut_line(line.name, most)
        width = 28 + LETTER * len(name)
        if x + width > PLOT_WIDTH:
            x = left
            y += 17
        if line.look in ("dots", "mark"):
            sample = [(x + 9, y - 4)]
        else:
            sample = [(x, y - 4), (x + 18, y - 4)]
        parts += [_drawn(line, sample, y), _text(x + 24, y, name)]
        x += width + 10
    return parts, y + 8


def _text(x: float, y: float, text: str, kinds: str = "", turned: int = 0) -> str:
    """Return a text at a place. kinds: of CHART_STYLE; turned: by how many degrees."""
    place = f'x="{_n(x)}" y="{_n(y)}"'
    if kinds:
        place += f' class="{kinds}"'
    if turned:
        place += f' transform="rotate({turned} {_n(x)} {_n(y)})"'
    return f"<text {place}>{html.escape(cut_line(text, 80))}</text>"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
