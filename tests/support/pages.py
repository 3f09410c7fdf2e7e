"""What tests of pages and pictures read from them."""

import base64
import html.parser
import re
import xml.etree.ElementTree as ET
import zlib
from types import SimpleNamespace

import numpy as np

import nn
from nn.pages.chart import Plot
from nn.pages.page import Table

NEAR = 1.5e-3  # of an axis: paths have tenths of a unit, of some hundred
TWO = nn.Network("2,1", "binary")
TWO.classes = ["ok", "fraud"]


def named(pictures) -> dict:
    return {picture.name: picture for picture in pictures}


def texts(svg: str) -> list[str]:
    """What is written in a picture."""
    return [
        "".join(node.itertext()).strip()
        for node in ET.fromstring(svg).iter()
        if node.tag.endswith("text")
    ]


class Drawing:
    """A picture read back: the points of its paths in the units that its axes have by
    their ticks.

    logs: whether the axis across and the one upwards are logarithmic.
    """

    def __init__(self, picture, logs=(False, False)):
        nodes = [
            node
            for node in ET.fromstring(picture.svg()).iter()
            if node.tag.endswith(("path", "text"))
        ]
        self._paths = [
            (node.get("class"), node.get("d"))
            for node in nodes
            if node.tag.endswith("path")
        ]
        written = [node for node in nodes if node.tag.endswith("text")]
        upwards = [node for node in written if node.get("class") == "e"]
        bottom = max(
            float(node.get("y"))
            for node in written
            if node.get("transform") is None and _is_number(node)
        )
        across = [
            node
            for node in written
            if node.get("class") == "m" and float(node.get("y")) == bottom
        ]
        ticks = [
            (float(node.get("x")), float(node.text.replace(",", ""))) for node in across
        ]
        self._scales = [
            _scale(ticks, logs[0]),
            _scale(
                [
                    (float(node.get("y")) - 4, float(node.text.replace(",", "")))
                    for node in upwards
                ],
                logs[1],
            ),
        ]
        self._logs = logs

    def points(self, kind: str) -> np.ndarray:
        """Return the corners of the first path of this class, (points, 2)."""
        path = next(path for own, path in self._paths if own == kind)
        places = []
        x = 0.0
        y = 0.0
        for command, numbers in re.findall(r"([MLHVh])([-\d. ]+)", path):
            values = [float(number) for number in numbers.split()]
            if command == "h":
                continue
            if command in "ML":
                x, y = values
            elif command == "H":
                x = values[0]
            else:
                y = values[0]
            places.append((x, y))
        columns = []
        for at, (slope, start), is_log in zip(
            np.transpose(places), self._scales, self._logs, strict=True
        ):
            values = slope * at + start
            columns.append(10**values if is_log else values)
        return np.transpose(columns)


def _is_number(node) -> bool:
    return (
        node.get("class") == "m"
        and re.fullmatch(r"-?[\d.,]+(e[-+]?\d+)?", node.text or "") is not None
    )


def _scale(ticks, is_log: bool) -> np.ndarray:
    """Return the slope and the start of the line through the ticks, (place, value)
    each."""
    places, values = np.transpose(ticks)
    return np.polyfit(places, np.log10(values) if is_log else values, 1)


class Page(html.parser.HTMLParser):
    """The elements of a page: every opened one must be closed, and ids must be
    unique."""

    VOID = {"meta", "link", "br", "img", "hr", "wbr"}

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.tags = []
        self.ids = []
        self.links = []
        self.texts = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.links.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.tags[-1:] == ["wbr"]:  # one text goes on
            text = self.texts.pop() + text
        self.texts.append(text)


def check_alone(text: str) -> Page:
    """The page needs nothing from elsewhere."""
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link.startswith("data:image/png;base64,")
    assert not re.search(
        r"https?:|@import|<script|<link|<iframe|url\(|javascript", text
    )
    assert len(text) < 300_000
    assert "prefers-color-scheme" not in text
    assert "color-scheme: light dark" in text
    return page


# ---------------------------------------------------------------- blocks of a page


def two_classes(weighted: bool, rows: int = 240):
    """Truth, scores with ties on the borders of tenths, and weights."""
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 21, rows) / 20
    truth = (rng.random(rows) < 0.1 + 0.7 * scores).astype(int)
    return truth, scores, rng.integers(1, 8, rows) / 4 if weighted else None


def pictures_of(blocks) -> dict:
    return named(block for block in blocks if isinstance(block, Plot))


def tables_of(blocks) -> dict:
    return {block.caption: block for block in blocks if isinstance(block, Table)}


def importances_of(names, metric: str = "roc_auc", **figures) -> SimpleNamespace:
    """Return what a page is told of the importance of columns."""
    usual = {"mean": 0.1, "low": 0.0, "high": 0.2, "holds": True}
    by_column = {name: [value] * len(names) for name, value in usual.items()}
    facts = {"baseline": 0.75, "rows": 120, "correlated": [], **by_column, **figures}
    return SimpleNamespace(metric=metric, names=list(names), **facts)


def area(points) -> float:
    x, y = points.T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def weights_of(rows: int) -> np.ndarray:
    """Weights of rows, of which some are 0."""
    rng = np.random.default_rng(12)
    return rng.integers(0, 9, rows) / 4


def pixels_of(image: str) -> np.ndarray:
    """Return the bytes of an image of a cell: grey, or in three colours."""
    data = base64.b64decode(image.partition(",")[2])
    width = int.from_bytes(data[16 : 16 + 4], "big")
    height = int.from_bytes(data[20 : 20 + 4], "big")
    shape = (height, width, 3) if data[25] == 2 else (height, width)
    at = data.index(b"IDAT")
    size = int.from_bytes(data[at - 4 : at], "big")
    start = at + 4
    content = zlib.decompress(data[start : start + size])
    lines = np.frombuffer(content, np.uint8).reshape(height, -1)
    return lines[:, 1:].reshape(shape)
