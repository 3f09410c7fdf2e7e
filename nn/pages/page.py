"""--report: a page of sentences, tables and pictures, written as HTML that needs no
other file, as Markdown or as JSON.

One structure, Page, has the content; the suffix of the file chooses the writer.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from .. import __version__
from ..terminal.figures import BAR_CHARACTERS
from ..utils import UsageError, atomic_write, cut_line, printable
from . import chart
from .chart import Plot

MADE_BY = f"nn {__version__}"
CELL = 200  # characters of a cell
MANY = 8  # columns of a heat map: one of more has colours only on a phone
LONG = 11  # letters of a piece of a word, from which it may be broken anywhere
PIXELS = 48  # the most of an image in either direction
# marks in a word, but for the comma of a large number
_ENDS_A_LINE = re.compile(r"(?<=\w)([_/:]|,(?!\d{3}(?!\d)))(?=\w)")
PAGE_STYLE = """
:root { color-scheme: light dark; } @page { size: A4; margin: 14mm; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h1, p, figcaption { overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; break-after: avoid; }
.answer { font-size: 1.15rem; max-width: 48rem; } figcaption, footer { opacity: .75; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 0 2rem;
           align-items: start; }
.columns > * { min-width: 0; margin: 0 0 1.5rem; break-inside: avoid; } .columns > p, .wide { grid-column: 1 / -1; }
.scroll { overflow-x: auto; } figure svg { width: 100%; max-width: 38rem; height: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #8884; text-align: right; }
.long { overflow-wrap: anywhere; } td.long { min-width: 5em; }
th { border-bottom-color: #888; vertical-align: bottom; }
.many th, .many td { padding: .25rem .3rem; }
.word { text-align: left; } .bar { color: #2a7fc0; font-size: .75rem; white-space: nowrap; }
td img { width: 6rem; image-rendering: pixelated; }
@media (max-width: 30rem) { body { padding: 0 .7rem; } table { font-size: .75rem; } .bar { font-size: .4rem; }
                            th, td { padding: .25rem .2rem; } th { font-size: .7rem; }
                            .many th:not(.word), .many td:not(.word) { font-size: 0; padding: .6rem .28rem; } }
@media print { :root { color-scheme: light; font-size: 10px; } body { margin: 0; max-width: none; }
               .columns { grid-template-columns: 1fr 1fr; } .scroll { overflow: visible; } }
"""


@dataclass
class Table:
    """Lines of texts; the first `words` columns are words, the others numbers.

    shades: of the numbers, from 0 to 1; they make it a heat map.
    """

    caption: str
    headers: Sequence[str]
    lines: Sequence[Sequence[str]]
    words: int = 1
    is_wide: bool = False
    shades: Sequence[Sequence[float]] = ()


class Image(str):
    """A small image as a cell of a table: the data URI of a PNG file."""


Block = str | Table | Plot


@dataclass
class Page:
    """A title, the answer in a sentence or a few, and sections of blocks by their
    headings."""

    title: str
    answer: Sequence[str]
    sections: dict[str, Sequence[Block]] = field(default_factory=dict)

    @property
    def pictures(self) -> list[Plot]:
        """Return the pictures of all sections."""
        return [
            block
            for blocks in self.sections.values()
            for block in blocks
            if isinstance(block, Plot)
        ]


def check_suffix(path: str) -> None:
    """Raise UsageError for a file of no known kind."""
    if os.path.splitext(path)[1].lower() not in PAGE_WRITERS:
        raise UsageError(
            f"--report {path}: expected a name that ends in {', '.join(PAGE_WRITERS)}"
        )


def write(path: str, page: Page) -> None:
    """Write a page as the suffix says. Raises OutputError."""
    text = PAGE_WRITERS[os.path.splitext(path)[1].lower()](page)
    # a file's name may hold what is no character
    atomic_write(path, text.encode(errors="backslashreplace"))


# ---------------------------------------------------------------- HTML


def html_of(page: Page) -> str:
    """Return the page as HTML: two columns on a wide screen, one on a phone."""
    title = html.escape(printable(page.title))
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{title}</title><style>{PAGE_STYLE}{chart.CHART_STYLE}</style>'
    body = [
        f"<h1>{title}</h1>",
        *(
            f'<p class="answer">{html.escape(printable(text))}</p>'
            for text in page.answer
        ),
    ]
    for heading, blocks in page.sections.items():
        inside = "\n".join(map(_html_block, blocks))
        body.append(
            f'<section><h2>{html.escape(heading)}</h2><div class="columns">{inside}</div></section>'
        )
    body.append(f"<footer><p>{MADE_BY}</p></footer>")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _html_block(block: Block) -> str:
    if isinstance(block, str):
        text = html.escape(printable(block))
        if block.startswith("nn "):
            return f"<p><code>{text}</code></p>"
        return f"<p>{text}</p>"
    if isinstance(block, Table):
        return _html_table(block)
    return f"<figure>{block.svg()}</figure>"


def _html_table(table: Table) -> str:
    head = ""
    if any(table.headers):
        head = f"<thead>{_html_row('th', table.headers, table.words)}</thead>"
    body = "".join(
        _html_row("td", line, table.words, shades)
        for line, shades in zip_longest(table.lines, table.shades, fillvalue=())
    )
    title = ""
    if table.caption:
        title = f"<figcaption>{html.escape(cut_line(table.caption, CELL))}</figcaption>"
    looks = []
    if table.is_wide:
        looks.append("wide")
    if len(table.shades) > MANY:
        looks.append("many")
    wide = f' class="{" ".join(looks)}"' if looks else ""
    return f'<figure{wide}>{title}<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div></figure>'


def _html_row(
    tag: str, fields: Sequence[str], words: int, shades: Sequence[float] = ()
) -> str:
    """Return a line of a table. words: how many of its fields are words; shades: of the
    others, perhaps of none."""
    cells = []
    for k, text in enumerate(fields):
        shade = 0.0
        if words <= k < words + len(shades):
            shade = shades[k - words]
        cells.append(_html_cell(tag, text, k < words, shade))
    return f"<tr>{''.join(cells)}</tr>"


def _html_cell(tag: str, text: str, is_word: bool, shade: float) -> str:
    """Return a cell: a bar, a word, a number with its shade, or an image."""
    if isinstance(text, Image):
        inside = f'<img alt="" src="{text}">'
    else:
        text = cut_line(text, CELL)
        inside = html.escape(text)
        if is_word or tag == "th":
            inside = _with_breaks(inside)
    looks = []
    if text and {*text} <= BAR_CHARACTERS:
        looks = ["bar", "word"]
    elif is_word:
        looks = ["word"]
    if (is_word or tag == "th") and longest_piece(text) >= LONG:
        looks.append("long")
    look = f' class="{" ".join(looks)}"' if looks else ""
    if shade:
        look += f' style="background:rgb(42 127 192/{shade:.2f})"'
    return f"<{tag}{look}>{inside}</{tag}>"


def longest_piece(text: str) -> int:
    """Return the letters of the longest piece of a text, within which no line ends."""
    return max(map(len, re.split(r"[\s_,/:-]", text)))


def _with_breaks(text: str) -> str:
    """Return a text of HTML whose long words may end a line behind an underscore, a
    comma, a slash or a colon."""
    words = text.split(" ")
    for k, word in enumerate(words):
        if len(word) >= LONG and "&" not in word:
            words[k] = _ENDS_A_LINE.sub(r"\1<wbr>", word)
    return " ".join(words)


def image_of(image: np.ndarray) -> Image:
    """Return an image of bytes as a cell; of a large one every second pixel, every
    third one, ..."""
    step = -(-max(image.shape[:2]) // PIXELS)
    image = np.ascontiguousarray(image[::step, ::step])
    if image.ndim == 3:
        colour = 2
    else:
        colour = 0
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    header = struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, colour, 0, 0, 0)
    chunks = [b"IHDR" + header, b"IDAT" + zlib.compress(rows, 9), b"IEND"]
    data = b"\x89PNG\r\n\x1a\n"
    for chunk in chunks:
        # the length does not count the four letters of the name
        length = struct.pack(">I", len(chunk) - 4)
        data += length + chunk + struct.pack(">I", zlib.crc32(chunk))
    return Image(f"data:image/png;base64,{base64.b64encode(data).decode()}")


# ---------------------------------------------------------------- Markdown and JSON


def markdown_of(page: Page) -> str:
    """Return the page as Markdown; pictures are tables of their points."""
    parts = [f"# {_plain(page.title)}", *map(_plain, page.answer)]
    for heading, blocks in page.sections.items():
        parts += [f"## {heading}", *map(_markdown_block, blocks)]
    return "\n\n".join([*parts, MADE_BY]) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, str):
        if block.startswith("nn "):
            return f"    {printable(block)}"
        return _plain(block)
    if isinstance(block, Table):
        return _markdown_table(block.caption, block.headers, block.lines)
    return _markdown_table(block.title, *block.table())


def _markdown_table(
    caption: str, headers: Sequence[str], lines: Iterable[Sequence[str]]
) -> str:
    rows = [[_markdown_cell(field) for field in line] for line in (headers, *lines)]
    text = "\n".join(
        f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(headers), *rows[1:]]
    )
    if caption:
        return f"{_plain(caption)}\n\n{text}"
    return text


def _markdown_cell(text: str) -> str:
    if isinstance(text, Image):
        return f"![]({text})"
    return _plain(cut_line(text, CELL))


def _plain(text: str) -> str:
    """Return a text that Markdown takes for a text."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#&" else c for c in printable(str(text)))


def json_of(page: Page) -> str:
    """Return the page as JSON."""
    return json.dumps({**vars(page), "made_by": MADE_BY}, indent=1, default=vars) + "\n"


PAGE_WRITERS: dict[str, Callable[[Page], str]] = {
    ".html": html_of,
    ".md": markdown_of,
    ".json": json_of,
}
