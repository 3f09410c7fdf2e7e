"""The first layer of a network on a table with more than numbers: its columns, and the packed rows that it reads."""

import numpy as np
import pytest

from nn.core.records import check_rows, counts_of, record_type, values_of
from nn.layers import InputColumn, input_shape, parameter_shapes, parse, to_spec
from nn.nn import Network
from nn.utils import UsageError

COLUMNS = (
    InputColumn("number"),
    InputColumn("gap", fill=-0.5),
    InputColumn("embedding", values=70000, width=4),
    InputColumn("embedding", values=300, width=3),
    InputColumn("onehot", values=5),
    InputColumn("embedding", values=20, width=2),
)

# ---- the grammar


def test_the_embedding_layer_comes_first_and_the_first_item_counts_features():
    layers = parse("4,9:relu,2", columns=COLUMNS)
    first = layers[0]
    assert (first.kind, first.item, first.features, first.columns) == ("embedding", "", 4, COLUMNS)
    assert first.in_shape == (6, 1, 1) and first.out_shape == (1 + 2 + 4 + 3 + 5 + 2, 1, 1)
    assert layers[1].in_shape == first.out_shape and [layer.kind for layer in layers[1:]] == ["dense", "dense"]
    assert input_shape(layers) == 4 and to_spec(layers) == "4,9:relu,2:linear"


def test_tables_are_one_flat_weight_without_a_bias():
    shapes = parameter_shapes(parse("4,9,2", columns=COLUMNS))
    tables = 70000 * 4 + 300 * 3 + 20 * 2
    expected = {"layer0.weight": (tables,), "layer1.weight": (9, 17), "layer1.bias": (9,), "layer2.weight": (2, 9)}
    assert list(shapes.items()) == [*expected.items(), ("layer2.bias", (2,))]


def test_without_tables_the_layer_has_no_parameters():
    layers = parse("1,2", columns=[InputColumn("gap"), InputColumn("onehot", values=3)])
    assert layers[0].parameters == 0 and list(parameter_shapes(layers)) == ["layer0.weight", "layer0.bias"]
    assert parameter_shapes(layers)["layer0.weight"] == (2, 5)


@pytest.mark.parametrize(
    ("spec", "columns", "message"),
    [
        ("3x2x2,4", [InputColumn("number")], "the input is an image, the data a table"),
        ("3,conv2k1,4", [InputColumn("number")], "conv2k1 is for images"),
        ("1,4", [InputColumn("word")], "input column 1: 'word' is no kind; the kinds are number, gap"),
        ("1,4", [InputColumn("number"), InputColumn("onehot")], "input column 2: 0 different values"),
        ("1,4", [InputColumn("embedding", values=2**24 + 1, width=1)], "16777217 different values"),
        ("1,4", [InputColumn("embedding", values=2)], "a table 0 wide"),
        ("1,4", [InputColumn("embedding", values=2, width=2**31 - 1)] * 2, "more than 2147483647"),
        ("1,4", [InputColumn("embedding", values=2**24, width=2**17)], "more than 2.40 parameters"),
    ],
)
def test_columns_that_cannot_be_are_refused(spec, columns, message):
    with pytest.raises(UsageError, match=message):
        parse(spec, columns=columns)


def test_rows_of_a_table_begin_with_length_1_or_so():
    """Each table's deviation is one by the root of its own width."""
    columns = [InputColumn("embedding", values=4000, width=width) for width in (2, 8)]
    tables = Network("2,1", "regression", backend="seq", input_columns=columns).parameters()["layer0.weight"]
    for width, table in ((2, tables[:8000]), (8, tables[8000:])):
        assert table.std() == pytest.approx(width**-0.5, rel=0.03) and abs(table.mean()) < 0.03
    given = Network("2,1", "regression", backend="seq", input_columns=columns, init="he").parameters()["layer0.weight"]
    np.testing.assert_allclose(given, tables * np.sqrt(2), rtol=1e-6)


# ---- records


def test_a_record_has_its_fields_without_gaps_and_begins_at_a_number():
    records = record_type("float64", 3, 1, 3, 6)
    assert [(name, records.fields[name][1]) for name in records.names] == [
        ("numbers", 0), ("codes4", 24), ("codes2", 28), ("codes1", 34),
    ]  # fmt: skip
    assert records.itemsize == 40 and counts_of(records, "float64") == (3, 1, 3, 6)
    assert record_type("float32", 0, 0, 0, 5).names == ("codes1",) and record_type("float32", 0, 0, 0, 5).itemsize == 8


@pytest.mark.parametrize("other", [np.dtype("float32"), record_type("float64", 2, 0, 0, 1), np.dtype([("x", "f4", 2)])])
def test_other_rows_are_no_records(other):
    with pytest.raises(ValueError, match="expected records of float32 numbers"):
        counts_of(other, "float32")


def records_of(rows: int, dtype, seed: int = 3) -> np.ndarray:
    """Rows for COLUMNS; the third number of gaps is one, the code of 1 byte that is one-hot may have no place."""
    rng = np.random.default_rng(seed)
    records = np.zeros(rows, record_type(dtype, 2, 1, 1, 2))
    records["numbers"] = rng.normal(size=(rows, 2))
    records["numbers"][rng.random(rows) < 0.3, 1] = np.nan
    records["codes4"] = rng.integers(70000, size=(rows, 1))
    records["codes2"] = rng.integers(300, size=(rows, 1))
    records["codes1"] = rng.integers([6, 20], size=(rows, 2))
    return records


def test_values_of_records_come_in_order():
    records = records_of(4, "float64")
    values = list(values_of(records))
    assert [value.dtype.name for value in values] == ["float64", "float64", "uint32", "uint16", "uint8", "uint8"]
    np.testing.assert_array_equal(values[5], records["codes1"][:, 1])
    check_rows(records, COLUMNS)


@pytest.mark.parametrize(("field", "k", "code"), [("codes4", 0, 70000), ("codes2", 0, 300), ("codes1", 1, 20)])
def test_a_code_past_its_table_is_refused(field, k, code):
    records = records_of(5, "float32")
    records[field][2, k] = code
    with pytest.raises(ValueError, match=f"to {code}, expected 0 to {code - 1}"):
        check_rows(records, COLUMNS)


def test_rows_of_other_columns_are_refused():
    with pytest.raises(ValueError, match="expected 5 values a row, got 6"):
        check_rows(records_of(2, "float32"), COLUMNS[1:])
    with pytest.raises(ValueError, match="value 3 of a record: expected a number, got uint32"):
        check_rows(records_of(2, "float32"), (*COLUMNS[:2], InputColumn("number"), *COLUMNS[3:]))
    for x in (-1.0, np.nan, 70000.0):
        with pytest.raises(ValueError, match="value 3: codes from"):
            check_rows(np.array([[0, 0, x, 1, 1, 1]]), COLUMNS)
