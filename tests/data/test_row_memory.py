"""A row given as a dictionary or a list: read without the reader of tables once its
words are known, encoded by itself, with the bits of the row among others."""

import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import trained_on

import nn
from nn.data import loading, row_memory
from nn.data.column import Column
from nn.data.encoders import CategoryEncoder, DateEncoder, NumberEncoder
from nn.data.encoding import Encoding
from nn.data.table_rows import TableRows

ROWS = 90
MOST_SECONDS = 2e-3  # promised is half of it, of an idle core


def table_of(rows: int = ROWS) -> dict:
    rng = np.random.default_rng(5)
    age = rng.integers(1, 80, rows).tolist()
    gaps = [None if k % 7 == 0 else x for k, x in enumerate(rng.random(rows).tolist())]
    usual = np.where(rng.random(rows) < 0.6, 0.0, rng.random(rows) * 9).tolist()
    paid = [f"${n:,}.50" for n in rng.integers(1, 99_999, rows).tolist()]
    day = [f"2020-01-{1 + k % 28:02}" for k in range(rows)]
    word = rng.choice(["red", "blue", "green"], rows).tolist()
    truth = rng.choice(["yes", "no"], rows).tolist()
    goal = [a > 40 or w == "red" for a, w in zip(age, word, strict=True)]
    return {
        "age": age,
        "gaps": gaps,
        "usual": usual,
        "paid": paid,
        "day": day,
        "word": word,
        "truth": truth,
        "goal": goal,
    }


@pytest.fixture(scope="module")
def trained():
    """A table without its target, and a network of it."""
    table = table_of()
    net = trained_on(nn.load(table, target="goal"))
    table.pop("goal")
    return table, net


def row_of(table: dict, index: int) -> dict:
    return {name: values[index] for name, values in table.items()}


def refuse(*_, **__):
    raise AssertionError("the reader of tables was asked")


def test_a_row_that_is_known_needs_no_reader_and_has_its_bits(trained, monkeypatch):
    table, net = trained
    expected = net.predict(table)
    rows = [row_of(table, index) for index in range(ROWS)]
    for row, output in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(net.predict(row)[0], output)
    monkeypatch.setattr(loading, "load", refuse)
    for row, output in zip(rows, expected, strict=True):
        forms = (row, [row], [list(row.values())], {**row, "goal": True, "other": 3})
        for form in forms:
            np.testing.assert_array_equal(net.predict(form)[0], output)
    # numbers need not be known
    new = {**rows[0], "age": 33.5}
    assert net.predict(new).shape == (1, 1)
    with pytest.raises(AssertionError, match="was asked"):
        net.predict({**rows[0], "word": "violet"})


def test_numbers_of_numpy_and_names_with_blanks_are_read_as_they_are(trained):
    table, net = trained
    row = row_of(table, 4)
    expected = net.predict(row)
    types = {int: np.int64, float: np.float64, str: np.str_, bool: np.bool_}
    other = {name: types[type(field)](field) for name, field in row.items()}
    for _ in range(2):
        np.testing.assert_array_equal(net.predict(other), expected)
    # of two columns of one name the first
    first = {" age": 3, **row}
    fresh = net.copied().predict(first)
    for _ in range(2):
        np.testing.assert_array_equal(net.predict(first), fresh)
    half = {**row, "usual": np.float32(0.1)}
    np.testing.assert_array_equal(net.predict(half), net.predict({**row, "usual": 0.1}))


def test_no_more_words_are_remembered_than_there_is_room_for(trained, monkeypatch):
    monkeypatch.setattr(row_memory, "MOST_KNOWN", 40)
    table, net = trained
    row = row_of(table, 5)
    expected = net.predict(row)
    for k in range(60):
        net.predict({**row, "word": f"other {k}"})
    known = net.row_memory._known
    assert max(map(len, known)) <= 40
    np.testing.assert_array_equal(net.predict(row), expected)


def test_plain_numbers_are_known_at_once(monkeypatch):
    x = np.random.default_rng(0).normal(size=(50, 3))
    table = dict(zip("abc", x.T.tolist(), strict=True))
    net = trained_on(nn.load({**table, "y": x.sum(axis=1).tolist()}, target="y"))
    assert net.encoding is None
    expected = net.predict(x)
    monkeypatch.setattr(loading, "load", refuse)
    for row in (0, 7):
        alone = {"c": x[row, 2], "a": x[row, 0], "b": x[row, 1]}
        np.testing.assert_array_equal(
            net.predict({k: float(v) for k, v in alone.items()})[0], expected[row]
        )


def test_a_network_that_is_trained_again_forgets_the_fields_that_it_knows():
    age = [-999.0 if k % 5 == 0 else k % 9 for k in range(ROWS)]
    table = {"age": age, "y": [k / 7 for k in range(ROWS)]}
    row = {"age": -999.0}
    net = trained_on(nn.load(table, target="y"))
    net.predict(row)
    nn.train(net, nn.load(table, target="y", missing="-999"), epochs=1)
    np.testing.assert_array_equal(net.predict(row), net.copied().predict([row]))


def test_what_the_reader_tells_of_a_row_it_tells_each_time(trained, caplog):
    table, net = trained
    for name in ("age", "usual", "paid", "day"):
        odd = {**row_of(table, 1), name: "unknown"}
        for _ in range(3):
            caplog.clear()
            net.predict(odd)
            assert "unknown" in caplog.text, name
    for field in ("inf", math.inf, "1e99999"):
        for _ in range(2):
            with pytest.raises(nn.DataError, match="expected a finite number"):
                net.predict({**row_of(table, 1), "age": field})
    names = {name: name for name in table}
    for _ in range(2):
        with pytest.raises(nn.DataError, match="no row but the names"):
            net.predict(names)
    lacking = row_of(table, 1)
    del lacking["word"]
    for _ in range(2):
        with pytest.raises(nn.DataError, match="no column word"):
            net.predict(lacking)


def test_kinds_of_a_field_are_kept_apart(trained):
    """Equal values of several types are several fields."""
    table, net = trained
    row = row_of(table, 3)
    for first, second in ((True, 1), (1, True), ("1", 1), (1, 1.0)):
        again = {}
        for _ in range(2):
            for field in (first, second):
                output = net.predict({**row, "word": field})
                expected = again.setdefault(type(field), output)
                np.testing.assert_array_equal(output, expected)
                fresh = net.copied().predict({**row, "word": field})
                np.testing.assert_array_equal(output, fresh)


def test_equal_values_of_other_types_are_other_words():
    words = np.array(["1", "True", "1.0", "none"])
    rng = np.random.default_rng(2)
    table = {"word": rng.choice(words, ROWS).tolist(), "age": rng.random(ROWS).tolist()}
    y = [2.0 * (word == "1") for word in table["word"]]
    net = trained_on(nn.load({**table, "y": y}, target="y"))
    expected = {word: net.predict({"word": word, "age": 0.5})[0] for word in words}
    assert not np.array_equal(expected["1"], expected["True"])
    for order in ((1, True), (True, 1)):
        fresh = net.copied()
        for field in (*order, *order):
            output = fresh.predict({"word": field, "age": 0.5})[0]
            np.testing.assert_array_equal(output, expected[str(field)])


def test_a_number_that_is_a_gap_is_one_in_a_row_alone():
    rng = np.random.default_rng(1)
    age = [-999 if k % 5 == 0 else int(rng.integers(9)) for k in range(ROWS)]
    table = {"age": age, "word": ["a", "b", "c"] * (ROWS // 3), "y": age}
    net = trained_on(nn.load(table, target="y", missing="-999", task="regression"))
    expected = net.predict({"age": age, "word": table["word"]})
    for _ in range(2):
        for row in range(6):
            one = {"age": age[row], "word": table["word"][row]}
            np.testing.assert_array_equal(net.predict(one)[0], expected[row])


numbers = (  # any bits of a nan are a missing value
    st.just(math.nan)
    | st.floats(allow_nan=False)
    | st.integers(-(2**40), 2**40).map(float)
    | st.sampled_from([0.1, 0.5, 1.0, 2.0, 7.0])  # those of ENCODERS
)
ENCODERS = (
    NumberEncoder(3.25, 1.7, 2.5),
    NumberEncoder(3.25, 1e-30, 2.5, unknown_share=0.2),
    NumberEncoder(0.0, 0.0, 2.5),
    NumberEncoder(0.1, 0.7, 0.0, edges=[0.0, 1.0, 2.0], frequent=[0.1, 0.5, 7.0]),
    CategoryEncoder(["a", None, "b"], False, 0),
    CategoryEncoder(["a", "b"], True, 2, means={"a": [0.1, 2.0], "b": [3.0, 0.3]}),
    DateEncoder(1.5e9, 1e6, ["year"], unknown_share=0.1),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.tuples(*[numbers] * 4, *[st.sampled_from(["a", "b", "c", None])] * 2))
def test_a_row_alone_has_the_record_of_the_row_among_others(dtype, row):
    encoding = Encoding(ENCODERS, places=tuple(range(len(ENCODERS))))
    columns = [Column("number", np.array([x, 1.0])) for x in row[:4]]
    for word in row[4:]:
        code = -1 if word is None else 0
        words = [] if word is None else [word]
        columns.append(Column("text", np.array([code, -1], np.int32), words))
    columns.append(Column("date", np.array([1.6e9, 1.5e9])))
    rows = TableRows(tuple(columns))
    with np.errstate(all="ignore"):
        together = encoding.apply(rows, dtype)
        alone = encoding.apply(rows[:1], dtype)
    assert alone.dtype == together.dtype
    assert alone.tobytes() == together[:1].tobytes()


@pytest.mark.timing
def test_a_row_through_16_networks_takes_a_millisecond():
    table = table_of(240)
    model = nn.fit(
        table, "goal", networks=16, layers="auto,128,64,1", epochs=2, threads=1
    )
    assert len(model.members) == 16
    table.pop("goal")
    row = row_of(table, 0)
    seconds = math.inf
    for _ in range(300):
        start = time.thread_time()
        model.predict(row)
        seconds = min(seconds, time.thread_time() - start)
    assert seconds <= MOST_SECONDS


def test_a_row_with_an_exposure_is_read_each_time():
    rng = np.random.default_rng(2)
    years = rng.uniform(0.5, 2, ROWS).round(2).tolist()
    age = rng.integers(18, 80, ROWS).tolist()
    claims = rng.poisson(np.array(years)).tolist()
    table = {"age": age, "years": years, "claims": claims}
    ds = nn.load(table, target="claims", exposure="years", task="regression")
    net = nn.Network.for_data(ds, "auto,3,1", loss="poisson")
    nn.train(net, ds, epochs=1)
    expected = net.predict({"age": age, "years": years})
    for row in (0, 0, 5):
        one = {"age": age[row], "years": years[row]}
        np.testing.assert_array_equal(net.predict(one)[0], expected[row])
