"""Columns of a table: what each is taken for, what becomes of it, and what the model
keeps of that."""

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from support.tables import texts

import nn
from nn.data.calendar import DATE_PARTS, part
from nn.data.column import Column
from nn.data.encoders import ENCODERS, CategoryEncoder, NumberEncoder
from nn.data.encoding import Encoding
from nn.data.kinds import LEAST_SLOT_ROWS, ONE_HOT, Kind, column_kind, decide_kinds
from nn.data.statistics import (
    MOST_REPEATED_VALUES,
    SAMPLE,
    NumberStatistics,
    TextStatistics,
    statistics_of,
)
from nn.data.table_rows import TableRows
from nn.layers import parse
from nn.nn_aux import MOST_EDGES, MOST_PIECES
from nn.settings.flags import BY_NAME
from nn.settings.values import number_embedding_value
from nn.utils import DataError, UsageError

NAN = np.nan


def column_of(values) -> Column:
    """A column of an array of numbers, a list of texts (None: a gap), or an array of
    datetime64."""
    if isinstance(values, list) and any(isinstance(value, str) for value in values):
        return texts(*values)
    if np.asarray(values).dtype.kind == "M":
        seconds = np.asarray(values).astype("datetime64[s]")
        return Column(
            "date", np.where(np.isnat(seconds), NAN, seconds.astype(np.int64))
        )
    return Column("number", np.asarray(values, np.float32))


def rows_of(**columns) -> TableRows:
    return TableRows(tuple(map(column_of, columns.values())))


def fitted(embedding=None, **columns) -> tuple[Encoding, TableRows]:
    """The encoding of columns, with the numbers as --number_embedding asks for them,
    and their rows."""
    rows = rows_of(**columns)
    kinds = []
    for i, column in enumerate(rows.columns):
        kinds.append(column_kind(column, None, f"column {i}"))
    embedding = embedding and number_embedding_value(embedding)
    return Encoding.fit(
        statistics_of(rows, kinds),
        kinds,
        "standardization",
        embedding,
        names=list(columns),
    ), rows


def test_numbers_are_standardised_gaps_become_the_median_of_training_and_an_input():
    encoding, rows = fitted(a=[1.0, 2.0, 3.0, 6.0])
    kinds = [column.kind for column in encoding.columns]
    assert kinds == ["number"]
    inputs = encoding.apply(rows, "float64")
    column_inputs = inputs["numbers"][:, 0]
    expected = (np.array([1, 2, 3, 6]) - 3) / np.std([1, 2, 3, 6])
    np.testing.assert_allclose(column_inputs, expected, rtol=1e-15)
    # a gap is the median of 2 and 3
    inputs = encoding.apply(rows_of(a=[NAN, 2.0]), "float64")
    later = inputs["numbers"][:, 0]
    expected = (column_inputs[1] + column_inputs[2]) / 2
    assert later[0] == pytest.approx(expected)
    encoder = NumberEncoder.fit(NumberStatistics(np.full(5, 7.0)))
    values = np.array([7.0, 9.0])
    assert encoder.encode(Column("number", values))[0].tolist() == [0, 0]
    encoding, rows = fitted(a=[1.0, NAN, 3.0, 8.0])
    (column,) = encoding.columns
    mean = np.mean([1, 3, 8])
    deviation = np.std([1, 3, 8])
    assert column.kind == "gap"
    expected = (3 - mean) / deviation
    assert column.fill == pytest.approx(expected)
    inputs = encoding.apply(rows, "float32")
    assert np.isnan(inputs["numbers"][1, 0])


def test_the_median_of_many_numbers_is_that_of_a_sample():
    rng = np.random.default_rng(1)
    values = rng.normal(size=3 * SAMPLE + 11)
    values[::10] = NAN
    statistics = NumberStatistics(values)
    numbers = values[~np.isnan(values)]
    expected = np.isnan(values).sum() / len(values)
    assert statistics.gap_share == expected
    assert statistics.median == np.median(numbers[::4])
    assert abs(statistics.median - np.median(numbers)) < 0.01
    np.testing.assert_allclose(statistics.moments.deviation, numbers.std(), rtol=1e-12)


def numbers(seed=0, count=900) -> dict:
    """Columns of numbers: dense, with gaps, mostly 0, of two values, of three, of
    one."""
    rng = np.random.default_rng(seed)
    gaps = np.where(np.arange(count) % 10 == 0, NAN, rng.normal(5, 3, count))
    zeros = np.where(rng.random(count) < 0.8, 0, rng.exponential(100, count))
    two = np.arange(count) % 2
    three = np.arange(count) % 3
    dense = rng.normal(size=count)
    return {
        "dense": dense,
        "gaps": gaps,
        "zeros": zeros,
        "two": two,
        "three": three,
        "one": np.ones(count),
    }


def embedded(text: str | None, **columns) -> dict[str, NumberEncoder]:
    """The encoders of columns by name, as --number_embedding asks for them."""
    encoding = fitted(text, **columns)[0]
    return dict(zip(columns, encoding.encoders, strict=True))


def test_by_default_only_a_usual_value_makes_pieces_which_hold_as_many_values_each():
    # one for each 30 of the other values, 48 at most
    for count, pieces in ((900, 6), (9000, 48)):
        encoders = embedded(None, **numbers(count=count))
        edges = {}
        for name, encoder in encoders.items():
            if encoder.edges:
                edges[name] = len(encoder.edges)
        assert edges == {"zeros": 1 + pieces + 1}
        assert not any(encoder.waves for encoder in encoders.values())
    for encoder in embedded("linear", **numbers()).values():
        assert not (encoder.edges)
        assert not (encoder.waves)
    columns = numbers()
    encoders = embedded("pieces5", **columns)
    counts = {}
    for name, encoder in encoders.items():
        if encoder.edges:
            counts[name] = len(encoder.edges) - 1
    assert counts == {"dense": 5, "gaps": 5, "zeros": 6, "three": 2}
    expected = pytest.approx([180] * 5, abs=3)
    assert (
        np.histogram(columns["dense"], encoders["dense"].edges)[0].tolist() == expected
    )
    unusual = columns["zeros"][columns["zeros"] > 0]
    counts = np.histogram(unusual, encoders["zeros"].edges[1:])[0]
    assert encoders["zeros"].edges[0] == 0
    assert counts == pytest.approx(len(unusual) / 5, abs=3)
    most = embedded(f"pieces{MOST_PIECES}", **columns)["zeros"]
    assert len(most.edges) == MOST_EDGES
    parse("1,2", columns=most.inputs())


def sums(others=2000, different=80, every=1.1) -> np.ndarray:
    """Numbers of which most are 0; the others, a gap among them, have so many different
    values."""
    steps = np.arange(others) % different + 1
    return np.concatenate([np.zeros(2 * others), steps * every, [NAN]]).astype(
        np.float32
    )


def test_values_that_are_often_repeated_beside_a_usual_one_have_inputs_of_their_own():
    values = np.concatenate([sums(), [7.77] * 9]).astype(np.float32)  # too rare
    encoder = embedded(None, a=values)["a"]
    expected = np.unique(sums()[sums() > 0]).tolist()
    assert encoder.frequent == expected
    pairs = [(one.kind, one.values) for one in encoder.inputs()]
    assert pairs == [("gap", 0), ("onehot", 80)]
    _encoding, rows = fitted(
        a=np.array([2.2, 0, 7.77, NAN, 88, 2.3, 1.1, 1e9], np.float32)
    )
    inputs = Encoding((encoder,)).apply(rows, "float32")
    codes = inputs["codes1"][:, 0]
    assert codes.tolist() == [1, 80, 80, 80, 79, 80, 0, 80]  # 80: none of them
    description = Encoding((encoder,)).to_dict()
    described = description["columns"][0]
    assert described["frequent"] == encoder.frequent
    assert Encoding.from_dict({"columns": [described], "places": [0]}, None)
    many = embedded(None, a=sums(5000, 200))["a"]
    assert len(many.frequent) == MOST_REPEATED_VALUES
    assert many.frequent == sorted(many.frequent)


def test_waves_need_numbers_of_three_values_and_come_back_from_their_description():
    encoders = embedded("waves12:0.25", **numbers())
    names = {name for name, encoder in encoders.items() if encoder.waves == 12}
    assert names == {"dense", "gaps", "zeros", "three"}
    assert encoders["two"].waves == encoders["one"].waves == 0
    assert encoders["gaps"].summary() == "10% gaps, 12 waves"
    assert encoders["zeros"].summary() == "7 pieces, 12 waves"
    (column,) = encoders["gaps"].inputs()
    assert column.kind == "gap"
    assert column.waves == 12
    assert column.deviation == 0.25
    assert column.outputs == 26
    assert embedded("waves3", **numbers())["dense"].deviation == 1
    b = np.arange(9.0) % 2
    encoding, _ = fitted("waves7:0.5", a=np.arange(9.0), b=b)
    waves, plain = encoding.to_dict()["columns"]
    assert waves["waves"] == 7
    assert waves["deviation"] == 0.5
    assert set(plain) == {"kind", "shift", "scale", "median", "unknown_share", "edges"}
    assert Encoding.from_dict(encoding.to_dict(), ["a", "b"]) == encoding


@pytest.mark.parametrize(
    "text",
    [
        "",
        "linear2",
        "pieces1",
        "pieces64",
        "pieces5:1",
        "waves",
        "waves0",
        "waves257",
        "waves12:0",
        "waves12:inf",
        "waves12:x",
        "Waves12",
        "waves1.5",
        12,
        True,
    ],
)
def test_other_number_embeddings_are_refused(text):
    with pytest.raises(UsageError, match="expected linear, piecesN"):
        BY_NAME["number_embedding"].check(text)


def codes_of(encoding, rows) -> list[int]:
    inputs = encoding.apply(rows, "float32")
    return inputs["codes1"][:, 0].tolist()


def test_few_values_and_gaps_have_an_input_each_and_rare_ones_share_one():
    encoding, rows = fitted(
        a=["x"] * 30 + ["y"] * LEAST_SLOT_ROWS + ["z"] * (LEAST_SLOT_ROWS - 1)
    )
    (column,) = encoding.columns
    assert column.kind == "onehot"
    assert column.values == 3
    codes = codes_of(encoding, rows)
    assert sorted(set(codes)) == [0, 1, 2]
    assert codes.count(0) == LEAST_SLOT_ROWS - 1
    assert codes_of(encoding, rows_of(a=["new", "y", None])) == [0, 2, 0]
    encoding, _ = fitted(a=["x"] * LEAST_SLOT_ROWS + ["y"] * LEAST_SLOT_ROWS)
    assert codes_of(encoding, rows_of(a=["new", "x"])) == [2, 0]  # no slot is shared
    encoding, rows = fitted(
        a=["x"] * LEAST_SLOT_ROWS + ["y"] * LEAST_SLOT_ROWS + [None] * LEAST_SLOT_ROWS
    )
    assert encoding.columns[0].values == 3
    assert len(set(codes_of(encoding, rows)[-LEAST_SLOT_ROWS:])) == 1


@pytest.mark.parametrize(
    "counts, own",
    [
        # few rows: two are enough for a slot
        ([4] * 8, 8),
        ([6] * 10, 10),
        ([9, 3, 2, 1], 3),
        ([1] * 16, 0),
        ([26, 2, 2], 1),
        ([25, 2, 2], 3),  # 10 rows a value on average are no longer few
        ([4] * (ONE_HOT + 1), 0),  # many values
    ],
)
def test_few_values_of_a_small_table_have_a_slot_each_if_they_come_again(counts, own):
    encoding, _rows = fitted(
        a=[f"v{i}" for i, count in enumerate(counts) for _ in range(count)]
    )
    encoder = encoding.encoders[0]
    expected = sorted(f"v{i}" for i in range(own))
    assert sorted(encoder.values) == expected
    assert encoder.shared == (own < len(counts))
    expected = sum(counts[own:]) / sum(counts)
    assert encoder.unknown_share == pytest.approx(expected)


def test_many_values_are_embedded_unseen_ones_share_a_slot_codes_ignore_row_order():
    values = [f"v{i}" for i in range(ONE_HOT + 1) for _ in range(LEAST_SLOT_ROWS + i)]
    encoding, rows = fitted(a=values)
    (column,) = encoding.columns
    # ceil(sqrt(17))
    assert column.kind == "embedding"
    assert column.width == 5
    codes = codes_of(encoding, rows)
    assert min(codes) == 0
    assert max(codes) < column.values
    assert (
        codes.count(0) == LEAST_SLOT_ROWS
    )  # the rarest value trains the slot of unseen ones
    assert codes_of(encoding, rows_of(a=["new", "v1"]))[0] == 0
    values = ["b"] * 6 + ["a"] * 7 + ["c"] * 5
    encoding, rows = fitted(a=values)
    reversed_encoding, reversed_rows = fitted(a=values[::-1])
    assert encoding == reversed_encoding
    inputs = encoding.apply(rows, "float32")
    reversed_inputs = reversed_encoding.apply(reversed_rows, "float32")
    assert (inputs == reversed_inputs[::-1]).all()


def test_a_date_becomes_a_trend_and_the_cycles_that_vary():
    days = np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]")
    encoding, rows = fitted(when=days.astype("datetime64[s]"))
    assert encoding.encoders[0].cycles == ["year", "week"]
    inputs = encoding.apply(rows, "float64")["numbers"]
    assert inputs.shape[1] == 5
    assert (np.diff(inputs[:, 0]) > 0).all()
    np.testing.assert_allclose(inputs[:, 1] ** 2 + inputs[:, 2] ** 2, 1)
    # sine of the week
    expected = inputs[:-7, 3]
    np.testing.assert_allclose(inputs[7:, 3], expected, atol=1e-9)
    hours = np.arange("2020-01-01", "2020-01-02", dtype="datetime64[h]").astype(
        "datetime64[s]"
    )
    encoders = fitted(when=hours)[0].encoders
    assert encoders[0].cycles == ["day"]


def test_the_parts_of_a_date_are_those_of_numpy():
    days = np.arange(-1_000_000, 3_000_000, 17)  # from before the year 0
    months = days.astype("datetime64[D]").astype("datetime64[M]")
    monthdays = days - months.astype("datetime64[D]").astype(np.int64) + 1
    month = months.astype(np.int64) % 12 + 1
    weekday = (days + 3) % 7
    expected = {"month": month, "monthday": monthdays, "weekday": weekday}
    for later in (0, 45_000, 86_399):
        hour = np.full(len(days), later / 3600)
        for name, values in (expected | {"hour": hour}).items():
            seconds = 86_400.0 * days + later
            np.testing.assert_allclose(
                part(seconds, name), values, rtol=0, atol=1e-9, err_msg=name
            )
    assert part(np.array([0.0]), "weekday") == 3  # a Thursday


def test_a_date_has_pieces_waves_and_its_parts_only_where_they_are_asked_for():
    days = np.arange("2021-01-01", "2022-01-01", dtype="datetime64[D]").astype(
        "datetime64[s]"
    )
    days[7] = np.datetime64("NaT")
    encoding, rows = fitted(embedding="waves3:0.5", when=days)
    (encoder,) = encoding.encoders
    assert encoder.parts == ["month", "monthday", "weekday"]
    assert encoder.cycles == ["year", "week"]
    assert encoding.by_kind() == {
        "date": ["when (trend, year, week, month, monthday, weekday, 3 waves)"]
    }
    waves = [column.waves for column in encoding.columns]
    assert waves == [3, 0, 0, 0, 0, 3, 3, 3]
    inputs = encoding.apply(rows, "float64")["numbers"]
    shift, scale = np.transpose([DATE_PARTS[name] for name in encoder.parts])
    # 1 February was a Monday
    np.testing.assert_allclose(inputs[31, 5:] * scale + shift, [2, 1, 0])
    assert np.isnan(inputs[7, 0])
    assert (inputs[7, 1:] == 0).all()
    assert Encoding.from_dict(encoding.to_dict(), encoding.names) == encoding
    months = np.arange("2001-01", "2003-01", dtype="datetime64[M]").astype(
        "datetime64[s]"
    )
    encoders = fitted(embedding="waves3", when=months)[0].encoders
    assert encoders[0].parts == ["month", "weekday"]
    # two values are no axis
    when = months[[0, 5] * 9]
    encoders = fitted(embedding="waves3", when=when)[0].encoders
    assert encoders[0].parts == []
    days = np.arange("2021-01-01", "2021-04-11", dtype="datetime64[D]").astype(
        "datetime64[s]"
    )
    (encoder,) = fitted(embedding="pieces4", when=days)[0].encoders
    assert len(encoder.edges) == 5
    assert not encoder.parts
    assert len(encoder.inputs()[0].edges) == 5
    for embedding in (None, "linear"):
        encoding, _ = fitted(embedding=embedding, when=days)
        # as models of earlier versions have it
        (described,) = encoding.to_dict()["columns"]
        assert list(described) == ["kind", "shift", "scale", "cycles", "unknown_share"]
        assert Encoding.from_dict(encoding.to_dict(), encoding.names) == encoding
    damages = (
        {"parts": ["year"]},
        {"parts": "month"},
        {"edges": [None]},
        {"waves": 1.5},
    )
    for damaged in damages:
        with pytest.raises(DataError, match="damaged"):
            Encoding.from_dict({"columns": [described | damaged], "places": [0]}, None)


def test_an_encoding_comes_back_from_its_description():
    d = np.arange("2020-01-01", "2020-01-21", dtype="datetime64[D]").astype(
        "datetime64[s]"
    )
    a = [1.0, NAN] * 10
    encoding, _ = fitted(a=a, b=["x", None] * 10, c=["yes", "no"] * 10, d=d)
    assert Encoding.from_dict(encoding.to_dict(), encoding.names) == encoding
    assert list(encoding.by_kind()) == ["number", "category", "yes/no", "date"]
    encoding, rows = fitted(a=["Yes", "no", "YES", "No"])
    inputs = encoding.apply(rows, "float32")
    assert inputs["numbers"][:, 0].tolist() == [1, 0, 1, 0]


NUMBER = {"kind": "number", "shift": 0.0, "scale": 1.0, "median": 0.0}
WAVES = NUMBER | {"waves": 7, "deviation": 1.0}
WRITTEN = NUMBER | {"kind": "written number", "way": "1,234.5", "before": "$"}
ORDERED = NUMBER | {"kind": "ordered", "order": ["low", "high"]}


@pytest.mark.parametrize(
    "column, name, values",
    [
        (NUMBER, "kind", ["nothing"]),
        (NUMBER, "shift", ["1"]),
        (NUMBER, "scale", [np.inf]),
        (NUMBER, "more", [1]),
        (NUMBER, "frequent", ["3", [None], [NAN], 3.0]),
        (NUMBER, "median", [None]),
        (NUMBER, "written", [{"way": "1,234.5"}]),
        (WAVES, "waves", [-1, 257, 10**30, 1.0, "3", True, None]),
        (WAVES, "deviation", [0, -1.0, "1", NAN, np.inf]),
        (WRITTEN, "way", ["1-2"]),
        (WRITTEN, "before", [3]),
        (WRITTEN, "kind", ["yes/no"]),
        (ORDERED, "order", ["abc", ["low"], ["low", "low"], ["low", 3], None]),
    ],
)
def test_a_damaged_description_is_refused(column, name, values):
    encoding = Encoding.from_dict({"columns": [column], "places": [0]}, ["a"])
    assert encoding.encoders[0].kind == column["kind"]
    for value in values:
        columns = [column | {name: value}]
        described = {"columns": columns, "places": [0]}
        with pytest.raises(
            (DataError, UsageError),
            match="damaged encoding|input column 1|values written as",
        ):
            parse("1,1", columns=Encoding.from_dict(described, ["a"]).columns)


@pytest.mark.parametrize(
    "column, plain",
    [*((NUMBER, plain) for plain in (1.5, "yes", None, {})), (ORDERED, True)],
)
def test_only_numbers_can_be_plain(column, plain):
    values = {"columns": [NUMBER], "places": [0], "plain": True}
    assert Encoding.from_dict(values, None).plain
    encoding, _ = fitted(a=["x", "y"] * 9)
    plain_words = encoding.to_dict() | {"plain": True}
    damages = ({"columns": [column], "places": [0], "plain": plain}, plain_words)
    for damaged in damages:
        with pytest.raises(DataError, match="damaged encoding"):
            Encoding.from_dict(damaged, None)


@pytest.mark.parametrize("rare", [0, 4])
@pytest.mark.parametrize("gaps", [0, 4, 5, 9, 10, 30])
@pytest.mark.parametrize("frequent", [3, 15, 16, 17, 40])
def test_a_category_is_encoded_by_the_rows_of_its_values(rare, gaps, frequent):
    """A value of LEAST_SLOT_ROWS has a slot, a gap too; others share one; up to ONE_HOT
    slots have an input each."""
    counts = {f"w{k:02}": LEAST_SLOT_ROWS + k % 7 for k in range(frequent)}
    counts |= {f"r{k}": LEAST_SLOT_ROWS - 1 - k for k in range(rare)}
    counts["w00"] = 500  # else it is a small table
    codes = np.repeat(np.arange(len(counts)), [*counts.values()])
    codes = np.append(codes, np.full(gaps, -1))
    encoder = CategoryEncoder.fit(TextStatistics(codes, [*counts]))
    own = {word for word, rows in counts.items() if rows >= LEAST_SLOT_ROWS}
    own |= {None} if gaps >= LEAST_SLOT_ROWS else set()
    rare_gaps = gaps if gaps < LEAST_SLOT_ROWS else 0
    shared = bool(rare or rare_gaps)
    is_one_hot = len(own) + shared <= ONE_HOT
    assert bool(encoder.width) is not is_one_hot
    dropped = own - {*encoder.values}
    assert {*encoder.values} <= own
    if is_one_hot or shared:
        assert not dropped
    else:  # the rarest one trains the slot of the unseen
        (word,) = dropped
        rows = {**counts, None: gaps}
        assert rows[word] == min(rows[one] for one in own)
    assert encoder.shared is (shared or not is_one_hot)
    unknown = gaps + sum(n for n in counts.values() if n < LEAST_SLOT_ROWS)
    assert encoder.unknown_share == pytest.approx(unknown / len(codes))


def test_columns_without_names_are_told_by_their_places_in_the_file(folder):
    lines = [f"{k % 7},{'xyz'[k % 3]},{k * 0.37 % 1:.3f},{k % 2}" for k in range(60)]
    (folder / "t.csv").write_text("\n".join(lines))
    ds = nn.load("t.csv", drop="0", header="no")
    net = nn.Network.for_data(ds, "auto,1")
    nn.train(net, ds, epochs=1)
    by_kind = {"category": ["1 (3 values)"], "number": ["2"]}
    assert net.encoding.by_kind() == by_kind


def test_frequent_gaps_and_unseen_values_are_told(caplog):
    encoding, rows = fitted(a=[1.0, 2.0] * 10, b=["x", "y"] * 10)
    a = [NAN, 1.0] * 10
    strange = rows_of(a=a, b=["x", "new"] * 10)
    encoding.log_unknown(rows)
    encoding.log_unknown(strange, len(strange) + 1)
    assert not caplog.records
    encoding.log_unknown(strange, len(strange))
    warning_of_a, warning_of_b = caplog.messages
    assert "column a: 50% of the values are gaps" in warning_of_a
    assert "column b" in warning_of_b


@pytest.mark.parametrize(
    "usual, share, is_told",
    [(0, 1, False), (0, 2, True), (8, 10, False), (8, 16, False), (8, 17, True)],
)
def test_gaps_are_told_where_they_are_twice_as_many_and_a_twentieth_more(
    usual, share, is_told, caplog
):
    """Of twenty rows, or of training."""

    def rows_with(gaps):
        return [NAN] * gaps + [float(k % 5) for k in range(20 - gaps)]

    encoding, _ = fitted(a=rows_with(usual), b=["x", "y"] * 10)
    encoding.log_unknown(rows_of(a=rows_with(share), b=["x", "y"] * 10))
    assert ["column a: " in text for text in caplog.messages] == [True] * is_told


@pytest.mark.parametrize("days, has_year", [(90, False), (93, True), (150, True)])
def test_dates_over_a_quarter_of_a_year_have_its_cycle(days, has_year):
    statistics = NumberStatistics(86_400.0 * np.arange(days), are_dates=True)
    assert ("year" in statistics.cycles) is has_year


def decided(choices=None, has_names=True, **columns) -> dict[int, str]:
    """The columns that are left out, of which a person may have said the kind (choices,
    by name)."""
    names = list(columns)
    source = SimpleNamespace(
        names=names if has_names else None,
        column=lambda place: f"column {names[place]}",
    )
    chosen = {}
    for name, kind in (choices or {}).items():
        chosen[names.index(name)] = Kind(kind)
    return decide_kinds(
        source, dict(enumerate(map(column_of, columns.values()))), chosen, False
    )[1]


def reasons(**columns) -> dict[str, str]:
    """Why columns are left out, beside one that stays."""
    columns["other"] = np.resize([0.5, 1.5], len(next(iter(columns.values()))))
    return {[*columns][place]: why for place, why in decided(**columns).items()}


IDS = np.random.default_rng(0).permutation(200)


def test_columns_that_tell_nothing_are_left_out_with_the_reason_unless_all_would_be():
    name = [f"n{i}" for i in range(200)]
    none = np.full(200, NAN)
    columns = {
        "row": np.arange(200),
        "user_id": IDS * 3,
        "amount": IDS * 3,
        "one": np.ones(200),
        "same": ["x"] * 200,
        "name": name,
        "land": ["x", "y"] * 100,
        "none": none,
    }
    expected = {
        "row": "counts the rows",
        "user_id": "an id",
        "one": "one value only",
        "name": "nearly every value differs",
        "same": "one value only",
        "none": "gaps only",
    }
    assert reasons(**columns) == expected
    names = [
        "id",
        "ID",
        "customer_id",
        "PassengerId",
        "Index",
        "No",
        "",
        "order no",
        "rownames",
        "Unnamed: 0",
    ]
    flags = [
        "paid",
        "humid",
        "number",
        "casino",
        "age",
        "grid",
        "kid",
        "Unnamed: 0 kg",
        "cases",
        "arrow",
    ]
    assert reasons(**dict.fromkeys([*names, *flags], IDS)) == dict.fromkeys(
        names, "an id"
    )
    assert decided(rownames=IDS, rank=np.arange(200)) == {0: "an id"}
    assert decided(rownames=IDS, x=np.ones(200)) == {1: "one value only"}
    assert decided(has_names=False, a=np.arange(200)) == {}
    none = np.full(200, NAN)
    rows = {"row": np.arange(200), "none": none, "other": np.arange(200) % 7}
    assert decided(choices={"row": "number", "none": "number"}, **rows) == {
        1: "gaps only"
    }


@pytest.mark.parametrize(
    "counts, reason",
    [
        ([4] * 9, None),
        ([3] * 16, None),
        ([2, 2, 1], None),  # a factor of a small table
        ([4] * 50, "nearly every value has fewer than 5 rows"),
        ([2] * 17, "nearly every value has fewer than 5 rows"),
        ([1] * 9, "nearly every value differs"),
        ([2] + [1] * 9, "nearly every value differs"),
        ([2] * 5 + [1] * 50, "nearly every value differs"),
        ([1, 1], None),
        ([5] + [1] * 20, None),  # a fifth of the rows is enough
        ([5] + [1] * 21, "nearly every value differs"),
        ([4] * 5 + [1] * 80, "nearly every value differs"),
        ([4] * 5 + [1] * 79, "nearly every value has fewer than 5 rows"),
    ],
)
def test_texts_are_left_out_for_what_is_true_of_them_and_a_factor_of_few_rows_is_not(
    counts, reason
):
    words = [f"v{i}" for i, count in enumerate(counts) for _ in range(count)]
    assert reasons(a=words) == ({"a": reason} if reason else {})


@pytest.mark.parametrize(
    "name, numbers, reason",
    [
        ("t", range(200), "counts the rows"),
        ("year", range(1900, 2100), None),
        ("t", range(99), None),
        ("t", range(1, 101), "counts the rows"),
        ("t", [*range(199), 199.5], None),
        ("id", np.arange(200) // 2, None),
        ("id", np.arange(200) / 2, None),
        ("id", range(-200, 0), None),
        ("id", [NAN, *range(199)], None),
    ],
)
def test_numbers_that_count_rows_from_0_or_1_and_ids_that_never_repeat_tell_nothing(
    name, numbers, reason
):
    assert reasons(**{name: np.array(numbers, float)}) == (
        {name: reason} if reason else {}
    )


@pytest.mark.parametrize("kind", ENCODERS)
def test_each_field_of_an_encoder_is_checked_where_a_model_is_read(kind):
    encoder_class, written_class = ENCODERS[kind]
    names = {field.name for field in fields(encoder_class)}
    assert encoder_class.checks.keys() == names - {"written"}
    if written_class:
        assert written_class.checks.keys() == {f.name for f in fields(written_class)}
