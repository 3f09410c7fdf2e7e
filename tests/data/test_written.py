"""Numbers and dates as people write them in words."""

import datetime

import numpy as np
import pytest
from support.command_line import ONE, argv, run, succeed
from support.tables import saved, trained_on

import nn
from nn.data import kinds, written
from nn.data.written import WrittenNumbers, date_of, forms_of
from nn.utils import DataError


def counted(way_of):
    return lambda words, rows=None: way_of(
        dict(zip(words, rows or [1] * len(words), strict=True))
    )


way_of_numbers = counted(kinds.way_of_numbers)
way_of_dates = counted(kinds.way_of_dates)


@pytest.mark.parametrize(
    "words, values",
    [
        (["$1,234.50", "$3.00", "-$5"], [1234.5, 3, -5]),
        (["12%", "3.5 %", "0%"], [12, 3.5, 0]),
        (["1,234", "56", "7,000,000"], [1234, 56, 7e6]),
        (["1.234,50 €", "2,5 €", "3 €"], [1234.5, 2.5, 3]),
        (["90.1 kg", "3 kg", "+4 kg"], [90.1, 3, 4]),
        (["10,000+", "5+", "1+"], [10000, 5, 1]),
        (["0", "$4.99", "$1"], [0, 4.99, 1]),
        (["2K", "3.5K", "4K"], [2, 3.5, 4]),
        (["1 234 567", "12", "-3 000.5"], [1234567, 12, -3000.5]),
        (["$1,234", "$2", "$3.5"], [1234, 2, 3.5]),
        (["12 000", "9.5", "5"], [12000, 9.5, 5]),
        (
            ["1 234,5 €", "1\u00a0000 €", "2\u202f500,25\u00a0€"],
            [1234.5, 1000, 2500.25],
        ),
    ],
)
def test_numbers_in_words(words, values):
    assert list(map(way_of_numbers(words).value_of, words)) == values


def test_words_for_a_gap_among_numbers_and_one_in_twenty_in_another_way():
    """Beside many numbers words without a digit are gaps; beside few they are
    categories of their own."""
    way = way_of_numbers(["1.5", "-", "2.5", "?", "4"])
    assert list(map(way.value_of, ("1.5", "-", "?"))) == [1.5, None, None]
    assert way_of_numbers(["1.5", "-", "2.5", "?", "4", "*"]) is None
    assert (
        way_of_numbers(["1.5", "2.5", "4", "red"])
        is way_of_numbers(["+", "-", "*"])
        is None
    )
    many = [str(i) for i in range(17)]
    for others in (["tbd"], ["Varies with device", "n.a."]):
        assert way_of_numbers(many + others) == WrittenNumbers("1,234.5")
    assert way_of_numbers([*many[:16], "tbd"]) is None
    assert (
        way_of_numbers([*many, "tbd", "soon", "never"])
        is way_of_numbers([*many, "c18"])
        is None
    )
    many = [f"{i}.5 kmpl" for i in range(40)]
    way = way_of_numbers([*many, "3 km/kg", "null kmpl"])
    assert way == WrittenNumbers("1,234.5", "", "kmpl")
    assert list(map(way.value_of, ("3 km/kg", "null kmpl", "3 kmpl"))) == [
        None,
        None,
        3,
    ]
    assert way_of_numbers([*many, "1 km/kg", "2 km/kg", "3 km/kg"]) is None
    assert way_of_numbers(
        ["$1", "$2", "$3", "5 kg"], [30, 30, 35, 5]
    ) == WrittenNumbers("1,234.5", "$")
    assert way_of_numbers(["$1", "$2", "$3", "5 kg"], [30, 30, 34, 6]) is None


@pytest.mark.parametrize(
    "words",
    [
        ["A11", "A12", "A13"],
        ["0-9", "10-19", "20-29"],
        ["1.2.3", "2.3.4", "1.0.0"],
        ["12%", "3.5", "1%"],
        ["$5", "5 €", "$7"],
        ["1.5", "2.5", "3.5"],
        ["12:30", "12:40", "25:00"],
        ["1,23,4", "1", "2"],
        ["5%", "6%"],
        ["3M", "4 Men", "5"],
        ["12 34", "56 78", "90 12"],
        ["012 345", "123 456", "234 567"],
    ],
)
def test_other_words_are_no_numbers(words):
    assert way_of_numbers(words) is None
    assert way_of_dates(words) is None


DATES = [
    (["12/31/2019", "1/2/2019", "3/4/2019 5:06 PM"], "month/day/year", (2019, 12, 31)),
    (["31/12/2019", "1/2/19", "3/4/2019"], "day/month/year", (2019, 12, 31)),
    (
        ["1/5/2015 23:30 +02:00", "1/16/2015 1:00Z", "1/7/2015"],
        "month/day/year",
        (2015, 1, 5, 21, 30),
    ),
    (["1.2.2019 14:30", "2.2.2019", "3.4.70"], "day.month.year", (2019, 2, 1, 14, 30)),
    (["5-Jan-2019", "31 December 2020", "1-Sept-18"], "day month year", (2019, 1, 5)),
    (["05JAN2019", "31DEC2020", "01SEP2018"], "day month year", (2019, 1, 5)),
    (
        ["Jan 5, 2019 12:00 am", "May 1 2020", "February 28th, 2019"],
        "month day, year",
        (2019, 1, 5),
    ),
    (["Dec-2015", "January 2016", "May 1999"], "month year", (2015, 12, 1)),
    (["Dec-85", "Jan-16", "May-02"], "month year", (1985, 12, 1)),
    (["17:24:30", "00:00:00", "5:06 pm"], "hour:minute", (1970, 1, 1, 17, 24, 30)),
    (["2019/1/5", "2019-1-5", "2019.01.05"], "year/month/day", (2019, 1, 5)),
    (["1949-02", "1950-12", "1950/1"], "year-month", (1949, 2, 1)),
    (
        ["20141013T000000", "20141209T1530", "20150225T15:30:01.5Z"],
        "yearmonthday",
        (2014, 10, 13),
    ),
    (["20141013", "20150228", "18000101"], "yearmonthday", (2014, 10, 13)),
]


def test_every_way_to_write_dates_is_tried():
    ways = {way for _, way, _ in DATES}
    assert ways == set(written.DATE_FORMS)
    assert len(written.DATE_FORMS) <= 10


@pytest.mark.parametrize("words, way, numbers", DATES)
def test_dates_in_words(words, way, numbers):
    assert way_of_dates(words) == way
    seconds = date_of(words[0], way)
    moment = datetime.datetime(*numbers)
    duration = datetime.timedelta(seconds=seconds)
    assert datetime.datetime(1970, 1, 1) + duration == moment


@pytest.mark.parametrize("form", ["day.month.year", "%d.%m.%Y %H:%M %z"])
@pytest.mark.parametrize(
    "zone", ["+02:00", "-03:30", "-0330", "+0545", "-00:15", "Z", "UTC", "GMT"]
)
def test_a_time_zone_is_taken_away_as_python_does(form, zone):
    seconds = date_of(f"05.01.2024 10:30 {zone}", form)
    iso = zone if zone[-1].isdigit() else "+0000"
    moment = datetime.datetime.strptime(
        f"2024-01-05T10:30{iso}", "%Y-%m-%dT%H:%M%z"
    ).timestamp()
    assert seconds == moment


def test_dates_of_which_one_part_is_always_the_same_do_not_say_which_is_the_day():
    """A day of 1 says so only while the month varies."""
    same = [f"5/1/{year}" for year in (2019, 2020, 2021)]
    for words in (same, [f"1/5/{year}" for year in (2019, 2020, 2021)]):
        with pytest.raises(DataError, match="no date tells which is the day"):
            way_of_dates(words)
    varied = [f"{month}/1/2020" for month in (5, 7, 9)]
    assert way_of_dates(varied) == "month/day/year"
    varied = [f"1/{month}/2020" for month in (5, 7, 9)]
    assert way_of_dates(varied) == "day/month/year"


@pytest.mark.parametrize("form, _", written.DATE_FORMS.values())
def test_what_strptime_writes_in_a_form_of_the_table_is_read(form, _):
    days = []
    for i in range(40):
        days.append(datetime.datetime(2019, 1, 25) + datetime.timedelta(hours=31 * i))
    words = [day.strftime(form) for day in days]
    result = way_of_dates(words)
    assert written.DATE_FORMS[result][0] == form
    since = datetime.datetime(1970 if "%Y" in form else 1900, 1, 1)
    expected = [
        (datetime.datetime.strptime(word, form) - since).total_seconds()
        for word in words
    ]
    assert [date_of(word, result) for word in words] == expected


def test_values_tell_day_or_month_first_else_it_is_asked_for_and_words_may_be_gaps():
    assert way_of_dates(["1/2/2019", "1/13/2019", "3/4/2019"]) == "month/day/year"
    assert way_of_dates(["1-2-2019", "13-1-2019", "3-4-2019"]) == "day/month/year"
    assert (
        way_of_dates(["1/2/2019", "1/13/2019", "13/1/2019"], [5, 90, 5])
        == "month/day/year"
    )
    # of months the first day is the part that never varies
    texts = [f"{month}/1/2019" for month in range(1, 13)]
    assert way_of_dates(texts) == "month/day/year"
    texts = [f"01/{month:02}/2019" for month in range(1, 13)]
    assert way_of_dates(texts) == "day/month/year"
    # either is the same
    texts = [f"01/01/{year}" for year in range(1990, 2010)]
    assert way_of_dates(texts) == "month/day/year"
    for words in (
        ["01/02/2019", "03/04/2019", "05/06/2019"],
        ["2/1/2019", "2/2/2019", "2/3/2019"],
    ):
        with pytest.raises(nn.DataError, match=words[0]):
            way_of_dates(words)
    words = ["1/31/2019", ".", "2/1/2019", "3/1/2019"]
    assert way_of_dates(words) == "month/day/year"
    assert date_of(".", "month/day/year") is None
    assert way_of_dates([*words, "*", "-"]) is None
    assert way_of_dates([*words, "soon"]) is None
    assert way_of_dates([".", "1/31/2019", "2/1/2019"]) is None
    many = [f"1/{day}/2019" for day in range(1, 32)]
    assert way_of_dates([*many, "soon", "never"]) == "month/day/year"


def test_what_is_no_date_in_any_form():
    for word in (
        "13/13/2019",
        "2/30/2019",
        "1/1/2019 25:00",
        "1/1/2019 13:00 PM",
        "1/1/2019 x",
    ):
        assert way_of_dates([word, "1/1/2019", "2/2/2019", "3/3/2019"]) is None, word
    words = (
        "1981-13",
        "1981-00",
        "2019366",
        "1991 W05",
        "1981 Foo",
        "25:60:00",
        "1:2:3",
        "Foo 1981",
        "2019-02-30",
        "",
    )
    assert [
        (word, way)
        for way in written.DATE_FORMS
        for word in words
        if date_of(word, way) is not None
    ] == []


OFFER = '"${0:,.2f}",{1},{2}/{3}/{4},{5}'
PLAIN = "{0:.2f},{1},{4}-{2:02}-{3:02},{5}"


def offers(form=OFFER, count: int = 300) -> list[str]:
    random = np.random.default_rng(0)
    price = np.exp(8 + random.normal(size=count))
    share = random.uniform(0, 100, count)
    day = random.integers(1, 29, (count, 2))
    gap = random.random(count) < 0.1
    return ["price,share,day,dear"] + [
        form.format(
            p,
            "?" if g else f"{s:.1f}%",
            1 + d[0] % 12,
            d[1],
            2010 + i % 9,
            "yes" if p > 3000 else "no",
        )
        for i, (p, s, d, g) in enumerate(zip(price, share, day, gap, strict=True))
    ]


@pytest.fixture
def offered(folder):
    (folder / "offers.csv").write_text("\n".join(offers()))
    return folder


def test_columns_of_such_words_are_inputs_and_a_model_knows_how_they_are_written(
    offered,
):
    trained = succeed(
        *ONE, "--dataset", "offers.csv", "--model", "m.bin", "--epochs", 2, "--json"
    )
    assert trained.json["columns"] == {
        "price": "written number",
        "share": "written number",
        "day": "written date",
    }
    assert "price ($1,234.5)" in trained.err
    assert "day (month/day/year, trend, year, week)" in trained.err
    succeed("--test", "--model", "m.bin")
    succeed("--export", "--model", "m.bin", "-o", "m.c")
    x = nn.load("offers.csv", categories="price,share").x
    assert x.kinds == ("text",) * 3
    (offered / "new.csv").write_text(
        'price,share,day\n"$5",7 %,1/2/2019\n?,call,soon\n'
    )
    told = succeed("--predict", "--model", "m.bin", "--dataset", "new.csv")
    assert len(told.out.splitlines()) == 3
    assert "column share" in told.err
    assert "column day" in told.err
    # in another unit
    (offered / "new.csv").write_text(
        "price,share,day\n?,7 kg,1/2/2019\n€5,8 kg,1/2/2019\n"
    )
    failed = run("--predict", "--model", "m.bin", "--dataset", "new.csv")
    told = (
        'row {}, column {}: found "{}", expected a number written as {} as in training'
    )
    for case in ((3, "price", "€5", "$1,234.5"), (2, "share", "7 kg", "1,234.5%")):
        assert failed.code == 65
        assert told.format(*case) in failed.err
    succeed(*ONE, *argv("--dataset offers.csv --model n.bin --epochs 2 --memory 500M"))
    data = (offered / "m.bin").read_bytes()
    assert data == (offered / "n.bin").read_bytes()


def test_they_become_what_plain_numbers_and_dates_become_and_may_be_called_so(offered):
    text = "\n".join(offers(PLAIN)).replace("%", "")
    (offered / "plain.csv").write_text(text)
    sets = nn.load("offers.csv"), nn.load("plain.csv")
    np.testing.assert_allclose(
        *(trained_on(ds).predict(ds.x) for ds in sets), rtol=1e-5
    )
    ds = nn.load("offers.csv", numbers="price", dates="day")
    assert [kind.kind for kind in ds.kinds] == [
        "written number",
        "written number",
        "written date",
    ]
    for name, said in (("day", "numbers"), ("price", "dates")):
        message = f"offers.csv, row 2, column {name}: found .*, expected a {said[:-1]} as in most rows"
        with pytest.raises(nn.DataError, match=message):
            nn.load("offers.csv", **{said: name})
    lines = offers()
    lines[5] = lines[5].replace(lines[5].split(",")[-2], "soon")
    (offered / "late.csv").write_text("\n".join(lines))
    with pytest.raises(
        nn.DataError, match='late.csv, row 6, column day: found "soon", expected a date'
    ):
        nn.load("late.csv", dates="day", strict=True)


WRITTEN = {  # a format of datetime.strftime -> how nn calls it
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y %H:%M": "month/day/year",
    "%d.%m.%Y": "day.month.year",
    "%d %b %Y": "day month year",
    "%Y%m%d": "yearmonthday",
    "%b %d, %Y": "month day, year",
}


def days(form: str, count: int = 200) -> list[str]:
    moment = datetime.datetime(2011, 1, 1)
    return [
        (moment + datetime.timedelta(37 * i % 2000, minutes=7 * i)).strftime(form)
        for i in range(count)
    ]


def trained_on_days(folder, form: str) -> dict[str, list]:
    """Train m.bin on a file of days; return its columns."""
    size = np.sin(np.arange(200)).round(3).tolist()
    y = (np.arange(200) / 7).tolist()
    columns = {"size": size, "day": days(form), "y": y}
    saved(columns, "days.csv")
    flags = (
        *argv("--layers auto,4,1 --epochs 1 --json"),
        *(("--dates", "day") * (form == "%Y%m%d")),
    )
    result = succeed("--train", "--dataset", "days.csv", "--model", "m.bin", *flags)
    assert result.json["columns"] == {"size": "number", "day": "written date"}
    return columns


@pytest.mark.parametrize("form, way", WRITTEN.items())
def test_a_model_of_written_dates_reads_dates_of_typed_columns_and_iso_dates(
    folder, form, way
):
    pandas = pytest.importorskip("pandas")
    columns = trained_on_days(folder, form)
    net = nn.Network.load("m.bin")
    encoder = net.encoding.encoders[1]
    assert encoder.written.way == way
    frame = pandas.DataFrame(columns)
    iso = days("%Y-%m-%dT%H:%M:00" if "%H" in form else "%Y-%m-%d")
    scores = net.predict(frame)
    parsed = pandas.to_datetime(pandas.Series(iso))
    cases = (
        parsed,
        parsed.dt.tz_localize("UTC"),
        parsed.dt.strftime("%Y-%m-%d %H:%M"),
        iso,
    )
    for other in cases:
        predictions = net.predict(frame.assign(day=other))
        np.testing.assert_array_equal(predictions, scores)


@pytest.mark.parametrize(
    "learned, form, expected",
    [
        ("%Y%m%d", "%d/%m/%Y", "yearmonthday"),
        ("%d.%m.%Y", "%Y%m%d", "day.month.year"),
        ("%d %b %Y", "%m/%d/%Y", "day month year"),
        ("%I:%M:%S %p", "%Y-%m-%d", "hour:minute"),
    ],
)
def test_a_column_of_dates_that_are_all_written_in_another_way_is_refused(
    folder, learned, form, expected
):
    columns = trained_on_days(folder, learned)
    columns["day"] = ["", "soon", *days(form)[2:]]
    saved(columns, "new.csv")
    line = f'new.csv, row 4, column day: found "{days(form)[2]}", expected a date written as {expected} as in training;'
    for mode in ("--predict", "--test"):
        failed = run(mode, "--model", "m.bin", "--dataset", "new.csv")
        assert failed.code == 65
        assert line in failed.err
    with pytest.raises(nn.DataError, match="column 1 of 2: found"):
        nn.Network.load("m.bin").predict(np.array([["1.0", days(form)[2]]]))


@pytest.mark.parametrize(
    "seconds, is_date", [("00", True), ("59", True), ("59.999", True), ("60", False)]
)
def test_a_minute_has_60_seconds(seconds, is_date):
    found = date_of(f"02.01.1970 00:01:{seconds}", "day.month.year")
    assert (found is not None) == is_date
    if is_date:
        assert found == pytest.approx(86_460 + float(seconds))


@pytest.mark.parametrize("word, longest", [("7", 12), ("-7", 13), ("1" * 14, 14)])
def test_a_code_has_zeros_before_it_up_to_twelve_digits(word, longest):
    whole = [form for form in forms_of(word, True, False) if "." not in form]
    assert max(map(len, whole)) == longest
    assert {int(form) for form in whole} == {int(word)}
    assert len(whole) == longest - len(word) + 1
