"""One field of a CSV file: a number or a date, read in C."""

import math
import struct
import subprocess
import sys
from datetime import datetime, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.effort import examples
from support.tables import c_date, c_number


def assert_read_as_python_does(text):
    got = c_number(text)
    assert got is not None, text
    expected = struct.pack("<d", float(text))
    assert struct.pack("<d", got) == expected, text


@examples(500)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["{!r}", "{:.17g}", "{:.3f}", "{:.25e}"]),
)
def test_a_number_reads_as_the_double_that_python_reads(value, form):
    assert_read_as_python_does(form.format(value))


def test_at_each_border_of_the_ways_to_compute_it_a_number_is_that_of_python():
    """Digits that are exact as they are, as a product or quotient, in 128 bits; others
    by strtod."""
    whole = [1, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1, 10**19 - 1, 10**19]
    for exponent in range(-45, 46):
        for digits in whole:
            assert_read_as_python_does(f"{digits}e{exponent}")
            assert_read_as_python_does(f"-{digits}1e{exponent}")


DIGITS = st.text("0123456789", min_size=1, max_size=25)


@examples(1000)
@given(
    st.sampled_from(["", "+", "-"]),
    DIGITS,
    DIGITS,
    st.sampled_from(["{}.{}", "{}.", ".{1}", "{}"]),
    st.one_of(st.just(""), st.integers(-400, 400).map("e{}".format)),
)
def test_any_decimal_reads_as_the_double_that_python_reads(
    sign, whole, fraction, form, exponent
):
    assert_read_as_python_does(sign + form.format(whole, fraction) + exponent)


@examples(300)
@given(st.floats(1e-30, 1e30), st.sampled_from(["", "0", "1", "0" * 800 + "1"]))
def test_numbers_half_way_between_doubles_round_to_even_and_a_digit_more_decides(
    value, ending
):
    half_way = (Fraction(value) + Fraction(math.nextafter(value, math.inf))) / 2
    # the denominator is 2^power, so the decimal ends
    power = half_way.denominator.bit_length() - 1
    digits = str(half_way.numerator * 5**power).rjust(power + 1, "0")
    if power:
        text = f"{digits[:-power]}.{digits[-power:]}"
    else:
        text = f"{digits}.0"
    assert_read_as_python_does(text + ending)


def test_corner_cases_of_decimals():
    cases = (
        "0",
        "-0",
        "-0.0",
        "5.",
        ".5",
        "+1",
        "1E+05",
        "00012",
        "1e-400",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e400",
        "9007199254740993",
        "9007199254740992.5",
        "18446744073709551615",
        "18446744073709551616",
        "1" + "0" * 400,
        "0." + "0" * 400 + "1",
        "0" * 2000 + "1." + "0" * 2000 + "1",
        "0." + "0" * 5000 + "1e5001",
        "1" * 900 + "e-900",
        "1e99999999999999999999",
        "0e99999999999999999999",
        "12345678.12345678",
        "1.1234567",
        "1.12345678",
        "1.123456789",
        # above half way between two doubles by less than the 64 bits that are rounded:
        # the rest of a division decides
        "0.000000003521749804183414561",
        "0.000000009880621659616412464",
        "-3521749804183414561e-27",
    )
    for text in cases:
        assert_read_as_python_does(text)
    no_numbers = (
        "",
        ".",
        "-",
        "+-1",
        "--1",
        "1e",
        "1e+",
        "e5",
        "1_0",
        "0x10",
        "nan",
        "inf",
        "1 ",
        "1.2.3",
        "1,5",
        "1d5",
    )
    assert [text for text in no_numbers if c_number(text) is not None] == []


def test_numbers_do_not_depend_on_the_locale(write):
    code = """
import contextlib, locale, sys
from nn.ds import load
for name in ("C", "fr_FR.UTF-8", "de_DE.UTF-8"):
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, name)
print(repr(load(sys.argv[1], dtype="float64").x[0, 0].item()))
"""
    command = [sys.executable, "-c", code, write("1.2345678901234567890123,0\n2.5,1\n")]
    assert (
        float(subprocess.check_output(command, text=True)) == 1.2345678901234567890123
    )


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("1970-01-01", 0),
        ("2000/02/29", 951782400),
        ("1969-12-31 23:59", -60),
        ("2024-01-05T10:30:15.25Z", 1704450615.25),
        ("2024-01-05 10:30:15+01:30", 1704445215),
        ("2024-01-05T10:30-05", 1704468600),
        ("2024-01-05T10:30-03:30", 1704463200),
        ("0001-01-01", -62135596800),
        ("2024-01-05T10:30:15.123456789Z", 1704450615.123456789),
        ("9999-12-31 23:59:59", 253402300799),
        ("2024-01-05 10:30 +0100", 1704447000),
        *(
            (text, None)
            for text in (
                "2023-02-29",
                "1900-02-29",
                "2024-13-01",
                "2024-00-10",
                "2024-01-32",
                "2024-1-5",
                "2024-01/05",
                "24-01-05",
                "2024-01-05T",
                "2024-01-05T24:00",
                "2024-01-05T10:60",
                "2024-01-05T10",
                "2024-01-05T10:30:",
                "2024-01-05T10:30:15.",
                "2024-01-05T10:30+1",
                "2024-01-05T10:30+24:00",
                "2024-01-05x10:30",
                "20240105",
                "",
                "2024-01-0",
                "2024-01-05Z",
                "2024-01-05T10:30:61",
                "2024-01-05 10:30 ZZ",
            )
        ),
    ],
)
def test_dates_and_times_of_iso_8601_and_what_is_none(text, seconds):
    assert c_date(text) == seconds


@examples(200)
@given(st.datetimes(timezones=st.sampled_from([timezone.utc, None])))
def test_any_moment_reads_as_the_seconds_that_python_counts(moment):
    seconds = (moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()
    for separator in ("T", " "):
        # float64 has 1e-5 s in the year 9999
        assert abs(c_date(moment.isoformat(separator)) - seconds) < 1e-4
    assert (
        c_date(moment.strftime("%Y/%m/%d").rjust(10, "0")) == seconds // 86400 * 86400
    )
