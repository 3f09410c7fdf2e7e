"""Draw docs/page.svg: the upper part of a model's page, for README.

    python datasets/draw_page.py MODEL [-o FILE]

MODEL is the one of the tutorial, with its data beside it.
"""

import html
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from nn import Network
from nn.commands.common import OUT_OF_FOLD
from nn.data.loading import training_dataset
from nn.pages.chart import CHART_STYLE, Plot
from nn.pages.model_page import page_of_model
from nn.pages.page import Table
from nn.terminal.figures import BAR_CHARACTERS
from nn.test.out_of_fold import out_of_fold
from nn.test.trained_rows import Trained

WIDTH = 960
HEIGHT = 600
LINE = 19  # pixels between two lines of a table
LETTERS = 104  # of a line of the answer
PLOTS = ("roc", "curve-0", "scores")
PLOT_TOP = 336
PLOT_WIDTH = 300


def text(x: float, y: float, words: str, size: int = 13, kind: str = "") -> str:
    """Return words as an SVG text. kind: attributes."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" {kind}>{html.escape(words)}</text>'
    )


def drawn_table(
    title: str, table: Table, x: float, y: float, places: list[int]
) -> list[str]:
    """Return the first lines of a table. places: of its columns, right of x."""
    parts = [text(x, y, title, 12, 'opacity=".7"')]
    for row, line in enumerate(table.lines[:9], 1):
        for place, cell in zip(places, line, strict=True):
            colour = 'style="fill:#2a7fc0"' if {*cell} & BAR_CHARACTERS - {" "} else ""
            parts.append(text(x + place, y + row * LINE, cell, 12, colour))
    return parts


def placed(plot: Plot, x: float) -> str:
    """Return a picture at a place of the page's last row."""
    box = f'<svg x="{x}" y="{PLOT_TOP}" width="{PLOT_WIDTH}" height="270"'
    return plot.svg().replace("<svg", box, 1)


def write(
    model: Annotated[str, typer.Argument(help="A model file.")],
    output: Annotated[Path, typer.Option("-o", help="The picture.")] = Path("page.svg"),
) -> None:
    """Draw the page of a model that folds judge."""
    net = Network.of_file(model)
    ds = training_dataset(net, model)
    known = out_of_fold(net, ds)
    trained = Trained.none_of(len(known[0]))
    sheet = page_of_model(
        net, model, ds, OUT_OF_FOLD, out_of_fold=known, trained=trained
    )
    metrics = sheet.sections["Result"][0]
    matters = sheet.sections["Columns that matter"][0]
    pictures = {plot.name: plot for plot in sheet.pictures}
    lines = textwrap.wrap(sheet.answer[0], LETTERS)
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fff" stroke="#ccc"/>',
        text(30, 42, sheet.title, 22, 'font-weight="600"'),
        *(text(30, 72 + 20 * row, line, 15) for row, line in enumerate(lines)),
        *drawn_table("metrics, 95 % intervals", metrics, 30, 148, [0, 110, 180]),
        *drawn_table(
            "ROC-AUC lost without a column", matters, 470, 148, [0, 110, 250, 320]
        ),
        *(placed(pictures[name], 20 + 310 * k) for k, name in enumerate(PLOTS)),
    ]
    output.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" color="#222"><style>{CHART_STYLE}</style>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    typer.run(write)
