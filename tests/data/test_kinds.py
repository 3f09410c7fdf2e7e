"""What a column is, by its fields and what a person says of it; and its words that have
no value."""

import re
import time

import numpy as np
import pytest
from support.patterns import patterns
from support.tables import texts

import nn
from nn.data import kinds, written
from nn.data.column import Column, Odd
from nn.data.encoders import CategoryEncoder, NumberEncoder
from nn.data.encoding import Encoding
from nn.data.kinds import (
    Kind,
    column_kind,
    in_a_list,
    parse_choices,
    reason_to_leave_out,
    split_names,
)
from nn.data.loading import canonical
from nn.data.schema import Choices
from nn.data.statistics import NumberStatistics, TextStatistics
from nn.data.written import Order, WrittenDates, WrittenNumbers


def kind(*words: str | None, choice: Kind | None = None) -> Kind:
    return column_kind(texts(*words), choice, "column day", "day")


@pytest.mark.parametrize(
    "words, expected",
    [
        (["yes", "No", "YES"], Kind.of(written.YesNo())),
        (["yes", None, "no"], Kind("category")),
        (["red", "blue", "red"], Kind("category")),
        ([None, None], Kind("category")),
        (["$1,234.50", "$3", "$4"], Kind.of(WrittenNumbers("1,234.5", "$"))),
        (["3.5 %", "3 %", "4 %"], Kind.of(WrittenNumbers("1,234.5", "", "%"))),
        (
            ["31.12.2019", "1.2.2019", "2.2.2019"],
            Kind.of(WrittenDates("day.month.year")),
        ),
        (["5%", "6%"], Kind("category")),
    ],
)
def test_what_texts_are(words, expected):
    assert kind(*words) == expected


@pytest.mark.parametrize(
    "words, choice, expected",
    [
        (["5%", "6%"], Kind("number"), Kind.of(WrittenNumbers("1,234.5", "", "%"))),
        (["1", "2.0", "1e0"], Kind("category"), Kind("category", decimals=True)),
        (["20150314", "20150301"], Kind("date"), Kind.of(WrittenDates("yearmonthday"))),
        *(
            (words, choice, choice)
            for words, choice in (
                (["1", "x"], Kind("number")),
                (["$1", "$2", "$3"], Kind("category")),
                (["yes", "no"], Kind("category")),
                (["2015-03-14", "2015-03-01"], Kind("date")),
                (["01.2019"], Kind.of(WrittenDates("%m.%Y"))),
                (["low", "x"], Kind.of(Order(["low", "high"]))),
            )
        ),
    ],
)
def test_a_person_may_say_what_texts_are(words, choice, expected):
    assert kind(*words, choice=choice) == expected


def test_texts_called_numbers_or_dates_are_odd_words_and_day_or_month_first_is_asked():
    """One place above refuses these, with the row."""
    for reads in ("number", "date"):
        assert column_kind(Column(reads, np.zeros(3)), None, "column a") == Kind(reads)
        column = texts("red", "blue", "red")
        kind_found = column_kind(column, Kind(reads), "column a")
        assert kind_found == Kind(reads)
        odd_words = canonical(column, kind_found).odd
        assert odd_words == {"red": Odd(2, 0), "blue": Odd(1, 1)}
    words = texts("01/02/2019", "03/04/2019", "05/06/2019")
    with pytest.raises(
        nn.DataError, match=re.escape("""--dates '"a, b'"'"'s=%d/%m/%Y"' or""")
    ):
        column_kind(words, None, "column a, b's", "a, b's")


@pytest.mark.parametrize(
    "name",
    ["a\nb", "a\r", "x" * 300_000, '"' * 300_001, " a ", 'a"b', "a,b", '"a",b', "a b"],
)
def test_any_name_can_stand_in_a_list(name):
    assert split_names(f"first,{in_a_list(name)}, last") == ["first", name, "last"]


def test_choices_are_read():
    choices = Choices(
        "a,2", "b", "c,day=%d.%m.%Y %H:%M,e=%d/%m/%Y", '"size, cm=S < M < L",f=1<2'
    )
    assert parse_choices(choices, names=["a=b, c"]) == [
        ("categories", "a", Kind("category")),
        ("categories", "2", Kind("category")),
        ("numbers", "b", Kind("number")),
        ("dates", "c", Kind("date")),
        ("dates", "day", Kind.of(WrittenDates("%d.%m.%Y %H:%M"))),
        ("dates", "e", Kind.of(WrittenDates("day/month/year"))),
        ("ordered", "size, cm", Kind.of(Order(["S", "M", "L"]))),
        ("ordered", "f", Kind.of(Order(["1", "2"]))),
    ]
    assert parse_choices(Choices()) == []
    expected = [("dates", "a=b, c", Kind("date"))]
    assert parse_choices(Choices(dates="a=b, c"), names=["a=b, c"]) == expected


@pytest.mark.parametrize(
    "flag, word",
    [
        *(
            ("ordered", word)
            for word in (
                "size",
                "size=S",
                "size=S<",
                "size=S<<M",
                "=S<M",
                "size=S<M<S",
                "=",
            )
        ),
        *(
            ("dates", f"day={form}")
            for form in ("%d.%m.%Q", "%d.%d", "day", "%", "", "%a" * 60, "%b %B")
        ),
    ],
)
def test_an_order_has_two_words_or_more_and_a_format_that_cannot_be_is_refused(
    flag, word
):
    with pytest.raises(nn.UsageError, match=f"--{flag}"):
        parse_choices(Choices(**{flag: word}))


@pytest.mark.parametrize(
    "form, word, iso",
    [
        ("%m/%Y", "02/1949", "1949-02-01"),
        ("%Y%j", "2019032", "2019-02-01"),
        ("%d%b%y:%H:%M:%S", "05JAN19:14:30:01", "2019-01-05T14:30:01"),
        ("%A, %B %d, %Y", "Monday, January 5, 2015", "2015-01-05"),
        ("%I.%M %p %d-%m-%Y", "2.30 pm 5-1-2019", "2019-01-05T14:30"),
        ("100%% %Y", "100% 2019", "2019-01-01"),
        (
            "%Y-%m-%dT%H:%M:%S.%f%z",
            "2019-01-05T14:30:01.5+02:00",
            "2019-01-05T12:30:01.500",
        ),
        ("%Y  %m", "2019 \t 5", "2019-05-01"),
        ("(%Y)", "(2019)", "2019-01-01"),
    ],
)
def test_dates_in_a_format_that_a_person_gives(form, word, iso):
    expected = np.datetime64(iso, "ms").astype(int) / 1000
    assert written.date_of(word, form) == expected
    assert written.date_of(word + "x", form) is None


def test_odd_words_are_counted_with_first_rows_and_words_of_no_row_do_not_count():
    column = texts("$1", "soon", *(f"${i}" for i in range(1, 60)), "5 kg", "soon", None)
    kind_found = column_kind(column, None, "column a")
    odd_words = canonical(column, kind_found).odd
    assert odd_words == {"soon": Odd(2, 1), "5 kg": Odd(1, 61)}
    column = texts("31.12.2019", "2019-12-31", "n.a.")
    canonical_column = canonical(column, Kind.of(WrittenDates("day.month.year")))
    assert canonical_column.odd == {"n.a.": Odd(1, 2)}
    canonical_column = canonical(
        texts("low", "Low", "high"), Kind.of(Order(["low", "high"]))
    )
    assert canonical_column.odd == {"Low": Odd(1, 1)}
    assert canonical(texts("a", "b"), Kind("category")).odd == {}
    values = np.array([1.0, np.nan])
    numbers = Column("number", values, odd={"x": Odd(1, 1)})
    assert canonical(numbers, Kind("number")).odd == numbers.odd
    values = np.array([1, 2, 3] * 9)
    column = Column("text", values, ["soon", "$1", "$2", "$3", "later"])
    kind_found = column_kind(column, None, "column a")
    assert kind_found.kind == "written number"
    assert canonical(column, kind_found).odd == {}
    values = np.ones(9, int)
    assert (
        reason_to_leave_out(Column("text", values, ["a", "b"]), Kind("category"))
        == "one value only"
    )


def ordered(*words: str | None, order=("low", "mid", "high")) -> NumberEncoder:
    column = texts(*words)
    choice = Kind.of(Order(list(order)))
    kind = column_kind(column, choice, "column a")
    values = kind.written.values_of(column.words)[column.values]
    return NumberEncoder.fit(NumberStatistics(values), kind)


def test_ordered_words_become_scaled_ranks_and_other_words_gaps():
    encoder = ordered("low", "high", "mid", "mid")
    (values,) = encoder.encode(texts("low", "high", "mid", "mid"))
    assert values.mean() == 0
    assert values.std() == pytest.approx(1)
    assert values[0] < values[2] < values[1]
    assert values[2] == values[3]
    assert [column.kind for column in encoder.inputs()] == ["number"]
    assert encoder.summary() == "low < mid < high"
    encoding = Encoding((encoder,), ["size"], (0,))
    assert Encoding.from_dict(encoding.to_dict(), ["size"]) == encoding
    encoder = ordered("low", "high", "other", None)
    assert [column.kind for column in encoder.inputs()] == ["gap"]
    assert encoder.unknown_share == 0.5
    assert np.isnan(encoder.encode(texts("new", None))[0]).all()


def test_ordered_numbers_are_the_same_however_a_format_writes_them():
    encoder = ordered("1", "2", "3", order=("1", "2.0", "3"))
    codes = encoder.encode(texts(*["1.0", "2", "3"]))[0]
    other = encoder.encode(texts(*["1", "2.0", "3e0"]))[0]
    assert (codes == other).all()
    assert encoder.unknown(texts("1.0", "2", "x")) == pytest.approx(1 / 3)


def test_a_model_of_words_in_a_form_that_went_is_refused_by_its_column():
    dates = {
        "kind": "written date",
        "shift": 0.0,
        "scale": 1.0,
        "cycles": [],
        "unknown_share": 0.0,
    }
    numbers = {
        "kind": "written number",
        "shift": 0.0,
        "scale": 1.0,
        "median": 0.0,
        "before": "$",
    }
    columns = (
        dates | {"way": "year quarter"},
        dates | {"way": "%Q"},
        numbers | {"way": "1,234.5K"},
    )
    for column in columns:
        cases = ((["when"], "when"), (None, "3"), ([], "3"))
        for names, called in cases:
            with pytest.raises(
                nn.DataError,
                match=f'column {called}: values written as "{column["way"]}"',
            ):
                Encoding.from_dict({"columns": [column], "places": [3]}, names)
    for form in ("month-year", "yearmonthdayTtime", "%m.%Y"):
        values = {"columns": [dates | {"way": form}], "places": [3]}
        (encoder,) = Encoding.from_dict(values, None).encoders
        assert encoder.written.way == form


def test_decimals_of_one_category_are_one():
    column = texts(*["1", "1.0", "2"] * 9)
    kind_found = column_kind(column, Kind("category"), "column a")
    column = canonical(column, kind_found)
    encoder = CategoryEncoder.fit(
        TextStatistics(column.values, column.words), kind_found
    )
    assert encoder.values == ["1", "2"]
    assert encoder.decimals
    canonical_column = canonical(texts("1e0", "01", "2.00", "2"), encoder)
    assert encoder.encode(canonical_column)[0].tolist() == [0, 0, 1, 1]


# texts that are made to be slow for a pattern: what is there often, before and behind
# it the rest
SLOW = [
    ("", "1", ""),
    ("", "1.", ""),
    ("", "1,234", "x"),
    ("1", ",234", "x"),
    ("1", " ", "x"),
    ("", "1 ", "x"),
    ("", "x", ""),
    ("1", "kg ", ""),
    ("1/1/2019", " ", "5"),
    ("12:00:00.", "1", "x"),
    ("", "1.", "2019"),
    ("", "-+$", ""),
    ("", "1\n", ""),
    ("Jan", " ", "2019"),
    ("2019", " \t", "x"),
    ("0.", "0", "x"),
]
PIECES = [  # for the patterns of files' beginnings, names of columns and lists of them
    " ",
    "\n",
    "\r",
    "%\n",
    ";  ",
    '"',
    "A",
    "1 1:1",
    "_in_1",
    "{",
    "[ ",
    "a ",
    "a+",
    "Id_",
]


def slow(before: str, piece: str, behind: str, length: int) -> str:
    return before + piece * (length // len(piece)) + behind


def seconds_of(words: list[str]) -> float:
    started = time.perf_counter()
    for way_of in (kinds.way_of_numbers, kinds.way_of_dates):
        way_of(dict.fromkeys(words, 1), asked=True)
    for word in words:
        written.date_of(word, "%d  %b  %Y  %H:%M:%S.%f  %z")
    order = (words[0], "x")
    encoder = ordered(*words, order=order)
    CategoryEncoder([words[0]], False, 0).unknown(texts(*words))
    encoder.unknown(texts(*words))
    return time.perf_counter() - started


@pytest.mark.timing
@pytest.mark.parametrize("parts", SLOW, ids=repr)
def test_time_grows_as_the_length_of_a_text_does(parts):
    """40 times the length takes 40 times the time; 8 times that is left to caches and
    the clock; the square would be 1,600 times."""
    short = [slow(*parts, 10000) + end for end in ("", "1", "a")]
    long = [slow(*parts, 400000) + end for end in ("", "1", "a")]
    fast = min(seconds_of(short) for _ in range(5))
    assert min(seconds_of(long) for _ in range(2)) < 320 * max(fast, 0.0005)


def test_no_pattern_takes_the_square_of_a_texts_length():
    """Of 20,000 characters each: some milliseconds, where the square takes seconds."""
    texts = []
    for parts in (*SLOW, *(("", piece, "") for piece in PIECES)):
        texts.append(slow(*parts, 20_000))
    results = []
    for name, (pattern, is_searched) in patterns().items():
        for text in (text + end for text in texts for end in ("", "x", ";", "\n")):
            if isinstance(pattern.pattern, bytes):
                text = text.encode()
            started = time.process_time()
            pattern.fullmatch(text)
            pattern.match(text)
            if is_searched:
                pattern.findall(text)
            if time.process_time() - started > 0.2:
                results.append((name, text[:10], time.process_time() - started))
    assert not results
