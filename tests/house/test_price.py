"""The price of complexity is written down: CONTRIBUTING.md, A price for complexity."""

import price
import pytest

# syntax nodes, or tokens of C, that a change may add, or take away, without a word
FREE = 1500
CURE = 'python -m tests.price --record "what it buys", which writes it down in CONTRIBUTING.md'


@pytest.fixture(scope="module")
def today():
    return price.price()


@pytest.fixture(scope="module")
def written():
    return price.recorded(price.RECORDS.read_text())


@pytest.mark.parametrize("unit", ["nodes", "tokens"])
def test_who_adds_a_mechanism_says_what_it_buys(today, written, unit):
    before = getattr(written, unit)
    now = getattr(today, unit)
    assert abs(now - before) <= FREE, f"{before} {unit} became {now}: {CURE}"


def test_who_adds_a_flag_a_name_or_a_module_says_what_it_buys(today, written):
    assert today[2:] == written[2:], (
        f"flags, public names, modules of a row {written[2:]} became {today[2:]}: {CURE}"
    )


def test_packing_code_changes_no_price():
    unpacked = "x = 1\ny = 2\nif x:\n    z = y\nelse:\n    z = x\n"
    assert (
        price.nodes_of(unpacked)
        == price.nodes_of(unpacked.replace("\n    ", " "))
        == 22
    )
    in_lines = 'int a = f(b->c, 1.5e-3f); // a comment\n/* another\n one */ char *s = "two words";\n'
    assert (
        price.tokens_of(in_lines)
        == price.tokens_of(in_lines.replace(", ", ",\n  "))
        == 18
    )


def test_the_newest_record_counts():
    text = "- 2,000 syntax nodes, 30 tokens of C, 4 flags, 5 public names, 6 modules: new\n"
    text += "- 1,000 syntax nodes, 20 tokens of C, 3 flags, 4 public names, 5 modules: old\n"
    assert price.recorded(text) == price.Price(2000, 30, 4, 5, 6)
    assert price.recorded("") is None
