"""The price of complexity is written down: CONTRIBUTING.md, A price for complexity."""

import price
import pytest
from support.command_line import REPOSITORY

FREE = 200  # lines of source that a change may add, or take away, without a word


@pytest.fixture(scope="module")
def today():
    return price.price()


def test_who_adds_200_lines_says_what_they_buy(today):
    written = price.recorded((REPOSITORY / "CHANGELOG.md").read_text())
    cure = 'python -m tests.price --record "what it buys", which writes it down in CHANGELOG.md'
    assert abs(today[0] - written[0]) <= FREE, f"{written[0]} lines became {today[0]}: {cure}"
    assert today[1:] == written[1:], f"flags, public names, modules of a row {written[1:]} became {today[1:]}: {cure}"


def test_a_line_that_nobody_can_read_counts_twice(tmp_path):
    path = tmp_path / "code.py"
    path.write_text("x = 1\n" + "y" * 121 + "\n")
    assert price.lines_of(path) == 3
    path.write_bytes(b"\xff\x00")
    assert price.lines_of(path) == 0
