"""No table of a page is wider than its column, on a screen of 1,400 pixels and on a
phone of 400: by the least width that a browser can give it.

A browser breaks words at their ends and some marks, long ones anywhere, and numbers
between words only; the widths of letters are those of system fonts, rounded up.
"""

import re

import numpy as np
import pytest

import nn
from nn.pages import model_page, page
from nn.pages.page import Table
from nn.terminal.figures import BAR_CHARACTERS
from nn.test.compare import Side, compared_sides

ROOT = 16  # pixels of a rem
LETTER = 0.6  # of the size of the font: a digit, or most letters
LEAST_LETTERS = 5 / LETTER  # of a cell that is broken anywhere
BARS = {1400: 0.75, 400: 0.4}  # the font of bars
SCREENS = {  # width: (of a table beside another, of a wide one, font, padding of a cell)
    1400: ((72 - 2 - 2) / 2, 72 - 2, 0.9, 2 * 0.7),
    400: (400 / ROOT - 1.4, 400 / ROOT - 1.4, 0.75, 2 * 0.2),
}


def html_of_table(table: Table) -> str:
    return page.html_of(page.Page("", [], {"": [table]})).partition("<figure")[2]


def least_width(table: Table, screen: int) -> float:
    """Return the least width of a table in rem."""
    *_, font, padding = SCREENS[screen]
    is_many = "many" in html_of_table(table)
    if is_many:
        padding = 2 * 0.3
    if is_many and screen == 400:
        padding = 2 * 0.28
    total = 0.0
    for k, column in enumerate(zip(*table.lines, strict=True)):
        is_word = k < table.words
        if is_many and screen == 400 and not is_word:
            total += padding  # a colour alone
            continue
        size = font
        if is_word:
            longest = max(map(page.longest_piece, column))
            if longest >= page.LONG:
                longest = LEAST_LETTERS
        else:
            longest = max(len(word) for cell in column for word in cell.split() or [""])
        if {*"".join(column)} <= BAR_CHARACTERS:
            size = BARS[screen]
            longest = max(map(len, column))
        total += longest * LETTER * size + padding
    return total


def tables_of(sheet) -> list[Table]:
    return [
        block
        for blocks in sheet.sections.values()
        for block in blocks
        if isinstance(block, Table)
    ]


def model_of(task: str):
    """A network of a few epochs, and its rows."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(570, 4))
    if task == "regression":
        y = 1e6 * (1 + x[:, :1]) + rng.normal(size=(570, 1))
        ds = nn.load(x, y=y[:, 0])
    else:
        classes = {"binary": 2, "several": 19}[task]
        y = (np.arange(570) % classes) if classes > 2 else (x[:, 0] > 0).astype(int)
        ds = nn.load(x, y=y, task="binary" if classes == 2 else "multiclass")
    net = nn.Network.for_data(ds, "auto,4," + ("19" if task == "several" else "1"))
    nn.train(net, ds, epochs=1)
    return net, ds


@pytest.mark.usual(2)
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("task", ["binary", "several", "regression"])
def test_no_table_of_a_model_is_wider_than_its_column(task, screen):
    net, ds = model_of(task)
    tables = tables_of(model_page.page_of_model(net, "m.bin", ds))
    assert len(tables) > 5
    for table in tables:
        beside, wide, *_ = SCREENS[screen]
        room = wide if table.is_wide else beside
        assert least_width(table, screen) <= room, table.caption


@pytest.mark.parametrize("screen", SCREENS)
def test_no_table_of_a_comparison_is_wider_than_its_column(screen):
    net, ds = model_of("regression")
    other = net.sibling(1)
    other.facts = net.facts
    sides = [Side.of(net, ds), Side.of(other, ds)]
    result = compared_sides(sides, ("a-long-name-of-a-model.bin", "b.bin"))
    for table in tables_of(model_page.page_of_comparison(result)):
        assert least_width(table, screen) <= SCREENS[screen][0], table.caption


@pytest.mark.parametrize("targets", [3, 12])
def test_metrics_of_each_target_are_no_wider_than_their_column(targets):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 4))
    y = (x @ rng.normal(size=(4, targets)) > 0).astype(int)
    ds = nn.load(x, y=y, task="multilabel")
    net = nn.Network.for_data(ds, f"auto,{targets}")
    nn.train(net, ds, epochs=1)
    sheet = model_page.page_of_model(net, "m.bin", ds)
    (table,) = [t for t in tables_of(sheet) if t.caption == "metrics by target"]
    width, *_ = SCREENS[1400][1 if table.is_wide else 0 :]
    assert least_width(table, 1400) <= width
    if targets == 3:
        assert least_width(table, 400) <= SCREENS[400][0]


def test_a_long_title_of_a_picture_is_cut_in_the_middle():
    axis = page.chart.Axis("x")
    title = f"Prediction if all rows had this {'very_' * 20}end"
    drawn = page.Plot("a", title, axis, axis, [page.chart.Line("", [1, 2], [1, 2])])
    shown = re.search(r'class="h m">([^<]*)<', drawn.svg())[1]
    assert " ... " in shown
    assert len(shown) <= page.chart.LONGEST_TITLE


@pytest.mark.parametrize("classes, has_colours_alone", [(8, False), (9, True)])
def test_a_heat_map_of_many_classes_has_colours_alone_on_a_phone(
    classes, has_colours_alone
):
    names = list("abcdefghi"[:classes])
    lines = [[name, *["1"] * classes] for name in names]
    shades = [[0.5] * classes] * classes
    table = Table("", ["", *names], lines, shades=shades)
    assert ('class="many"' in html_of_table(table)) == has_colours_alone


def test_a_wide_number_is_found_too_wide():
    table = Table("", ["", "x"], [["a", "1" * 80]])
    assert least_width(table, 400) > SCREENS[400][0]


def test_a_page_has_no_powers_of_ten_and_no_long_numbers():
    net, ds = model_of("regression")
    text = page.markdown_of(model_page.page_of_model(net, "m.bin", ds))
    result = text[text.index("## Result") : text.index("## Columns\n")]
    assert not re.findall(r"\d\.?\d*e\+\d\d", result)
    assert re.search(r"\b\d,\d{3},\d{3}\b", result)
    assert not re.findall(r"\d\.\d{6,}", result)


def test_a_logarithmic_axis_says_so():
    axis = page.chart.Axis("share", True)
    drawn = page.Plot(
        "a", "A", page.chart.Axis("x"), axis, [page.chart.Line("", [1, 2], [1.0, 1e4])]
    ).svg()
    assert "share, logarithmic" in drawn
    narrow = page.Plot(
        "a", "A", page.chart.Axis("x"), axis, [page.chart.Line("", [1, 2], [1.0, 2.0])]
    ).svg()
    assert "logarithmic" not in narrow


def test_networks_that_differ_in_their_seed_are_one_line():
    headers, lines = model_page._grouped(
        ["seed", "weight", "layers"],
        [["0", "1", "a"], ["1", "1", "a"], ["2", "3", "b"]],
    )
    assert headers == ["networks", "weight", "layers"]
    assert lines == [["2", "1", "a"], ["1", "3", "b"]]


def test_the_curves_of_a_page_share_one_axis():
    net, ds = model_of("binary")
    sheet = model_page.page_of_model(net, "m.bin", ds)
    curves = [plot for plot in sheet.pictures if plot.name.startswith("curve-")]
    assert len(curves) > 1
    assert len({plot.y.ends for plot in curves}) == 1
    assert all(
        curves[0].y.ends[0] < value < curves[0].y.ends[1]
        for plot in curves
        for line in plot.lines
        for value in line.y
    )
    for ends, expected in (
        ((1.0, 3.0), (0.92, 3.08)),
        ((6.0, 6.0), (3.0, 9.0)),
        ((-6.0, -6.0), (-9.0, -3.0)),
        ((0.0, 0.0), (-1.0, 1.0)),
    ):
        assert model_page._with_room(*ends) == pytest.approx(expected)
