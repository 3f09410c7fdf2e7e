"""The first layer of a network on a table with more than numbers: its columns, and the
packed rows that it reads."""

from itertools import product

import numpy as np
import pytest
from support.distances import relative_distance
from support.networks import BACKENDS, encoded, network

from nn.backends.engine import EpochSettings
from nn.core import extension
from nn.core.records import check_rows, counts_of, record_type, values_of
from nn.layers import InputColumn, input_shape, parameter_shapes, parse, to_spec
from nn.nn import Network
from nn.nn_aux import OPTIMIZERS
from nn.utils import UsageError

COLUMNS = (
    InputColumn("number", edges=(-0.75, 0.0, 0.5)),
    InputColumn("gap", fill=-0.5, edges=tuple(k / 10 for k in range(-10, 9))),
    InputColumn("embedding", values=70000, width=4),
    InputColumn("embedding", values=300, width=3),
    InputColumn("onehot", values=5),
    InputColumn("embedding", values=20, width=2),
)


def test_the_embedding_layer_comes_first_and_its_tables_are_one_flat_weight():
    layers = parse("4,9:relu,2", columns=COLUMNS)
    embedding = layers[0]
    assert embedding.kind == "embedding"
    assert embedding.item == ""
    assert embedding.features == 4
    assert embedding.columns == COLUMNS
    assert embedding.in_shape == (6, 1, 1)
    assert embedding.out_shape == (3 + 20 + 4 + 3 + 5 + 2, 1, 1)
    assert layers[1].in_shape == embedding.out_shape
    kinds = [layer.kind for layer in layers[1:]]
    assert kinds == ["dense", "dense"]
    assert input_shape(layers) == 4
    assert to_spec(layers) == "4,9:relu,2:linear"
    shapes = parameter_shapes(parse("4,9,2", columns=COLUMNS))
    tables = 70000 * 4 + 300 * 3 + 20 * 2
    expected = {
        "layer0.weight": (tables,),
        "layer1.weight": (9, 37),
        "layer1.bias": (9,),
        "layer2.weight": (2, 9),
    }
    assert list(shapes.items()) == [*expected.items(), ("layer2.bias", (2,))]
    columns = [InputColumn("gap"), InputColumn("onehot", values=3)]
    layers = parse("1,2", columns=columns)
    assert layers[0].parameters == 0
    assert parameter_shapes(layers) == {"layer0.weight": (2, 5), "layer0.bias": (2,)}


@pytest.mark.parametrize(
    ("spec", "columns", "message"),
    [
        ("3x2x2,4", [InputColumn("number")], "the input is an image, the data a table"),
        ("3,conv2k1,4", [InputColumn("number")], "conv2k1 is for images"),
        (
            "1,4",
            [InputColumn("word")],
            "input column 1: 'word' is no kind; the kinds are number, gap",
        ),
        (
            "1,4",
            [InputColumn("number"), InputColumn("onehot")],
            "input column 2: 0 different values",
        ),
        (
            "1,4",
            [InputColumn("embedding", values=2**24 + 1, width=1)],
            "16777217 different values",
        ),
        ("1,4", [InputColumn("embedding", values=2)], "a table 0 wide"),
        (
            "1,4",
            [InputColumn("embedding", values=2, width=2**31 - 1)] * 2,
            "more than 2147483647",
        ),
        (
            "1,4",
            [InputColumn("embedding", values=2**24, width=2**17)],
            "more than 2.40 parameters",
        ),
        (
            "1,4",
            [InputColumn("onehot", 2, edges=(0.0, 1.0))],
            "edges of pieces for the kind onehot; only",
        ),
        (
            "1,4",
            [InputColumn("embedding", 2, 2, edges=(0.0, 1.0))],
            "edges of pieces for the kind embedding",
        ),
        (
            "1,4",
            [InputColumn("number", edges=(0.0,))],
            "input column 1: 1 edges of pieces; .* none, or 2 to 65",
        ),
        ("1,4", [InputColumn("gap", edges=tuple(range(66)))], "66 edges of pieces"),
        (
            "1,4",
            [InputColumn("number", edges=(0.0, 1.0, 1.0))],
            "an edge 1.0 after 1.0; edges must ascend",
        ),
        (
            "1,4",
            [InputColumn("number", edges=(0.0, 2.0, 1.0))],
            "an edge 1.0 after 2.0; edges must ascend",
        ),
        (
            "1,4",
            [InputColumn("number", edges=(0.0, 1e-31))],
            "an edge 1e-31 after 0.0; .* by 1e-30 at least",
        ),
        (
            "1,4",
            [InputColumn("number", edges=(0.0, np.nan))],
            "an edge at nan; .* between -1e.30 and 1e.30",
        ),
        ("1,4", [InputColumn("number", edges=(-np.inf, 0.0))], "an edge at -inf"),
        (
            "1,4",
            [InputColumn("onehot", 2, waves=1)],
            "waves for the kind onehot; only number and gap",
        ),
        (
            "1,4",
            [InputColumn("number", waves=-1)],
            "-1 waves; it must have between 0 and 256",
        ),
        ("1,4", [InputColumn("gap", waves=257)], "257 waves"),
        (
            "1,4",
            [InputColumn("gap", waves=2, deviation=0.0)],
            "waves of deviation 0.0; it must be above 0",
        ),
        (
            "1,4",
            [InputColumn("gap", waves=2, deviation=np.inf)],
            "waves of deviation inf",
        ),
        (
            "1,4",
            [InputColumn("gap", waves=2, deviation=np.nan)],
            "waves of deviation nan",
        ),
    ],
)
def test_columns_that_cannot_be_are_refused(spec, columns, message):
    with pytest.raises(UsageError, match=message):
        parse(spec, columns=columns)


def test_rows_of_a_table_begin_with_length_1_or_so():
    """Each table's deviation is one by the root of its own width."""
    columns = [InputColumn("embedding", values=4000, width=width) for width in (2, 8)]
    flags = {"backend": "seq", "input_columns": columns}
    usual_net = Network("2,1", "regression", **flags)
    he_net = Network("2,1", "regression", init="he", **flags)
    tables = usual_net.parameters()["layer0.weight"]
    given = he_net.parameters()["layer0.weight"]
    for width, table in ((2, tables[:8000]), (8, tables[8000:])):
        assert table.std() == pytest.approx(width**-0.5, rel=0.03)
        assert abs(table.mean()) < 0.03
    expected = tables * np.sqrt(2)
    np.testing.assert_allclose(given, expected, rtol=1e-6)


def test_frequencies_stand_behind_the_tables_and_are_normal_whatever_the_rule():
    columns = [
        InputColumn("embedding", values=7, width=3),
        InputColumn("number", waves=256, deviation=0.1),
        InputColumn("gap"),
        InputColumn("gap", waves=256, deviation=20.0),
    ]

    def drawn(columns, **options):
        net = Network(
            "4,1", "regression", backend="seq", input_columns=columns, **options
        )
        parameters = net.parameters()["layer0.weight"]
        return net.layers[0], parameters

    layer, weight = drawn(columns)
    assert weight.shape == (21 + 512,)
    assert layer.biases == 0
    assert layer.undecayed == 512
    deviation = weight[21:277].std()
    assert deviation == pytest.approx(0.1, rel=0.15)
    assert weight[277:].std() == pytest.approx(20, rel=0.15)
    for init in ("he", "glorot", "uniform"):
        np.testing.assert_array_equal(
            drawn(columns, init=init)[1][21:], weight[21:], init
        )
    assert not np.isin(drawn(columns, seed=1)[1][21:], weight[21:]).any()
    np.testing.assert_array_equal(drawn(columns[:1] * 4)[1][:21], weight[:21])


def test_a_record_has_its_fields_without_gaps_and_begins_at_a_number():
    records = record_type("float64", 3, 1, 3, 6)
    expected = [("numbers", 0), ("codes4", 24), ("codes2", 28), ("codes1", 34)]
    assert [(name, records.fields[name][1]) for name in records.names] == expected
    assert records.itemsize == 40
    assert counts_of(records, "float64") == (3, 1, 3, 6)
    assert record_type("float32", 0, 0, 0, 5).names == ("codes1",)
    assert record_type("float32", 0, 0, 0, 5).itemsize == 8
    for other in (
        np.dtype("float32"),
        record_type("float64", 2, 0, 0, 1),
        np.dtype([("x", "f4", 2)]),
    ):
        with pytest.raises(ValueError, match="expected records of float32 numbers"):
            counts_of(other, "float32")


def records_of(rows: int, dtype, seed: int = 3) -> np.ndarray:
    """Rows for COLUMNS; the third number of gaps is one, the code of 1 byte that is
    one-hot may have no place."""
    rng = np.random.default_rng(seed)
    records = np.zeros(rows, record_type(dtype, 2, 1, 1, 2))
    records["numbers"] = rng.normal(size=(rows, 2))
    records["numbers"][rng.random(rows) < 0.3, 1] = np.nan
    records["codes4"] = rng.integers(70000, size=(rows, 1))
    records["codes2"] = rng.integers(300, size=(rows, 1))
    records["codes1"] = rng.integers([6, 20], size=(rows, 2))
    return records


def test_values_of_records_come_in_order_and_codes_past_their_table_are_refused():
    records = records_of(4, "float64")
    values = list(values_of(records))
    names = [value.dtype.name for value in values]
    assert names == ["float64", "float64", "uint32", "uint16", "uint8", "uint8"]
    expected = records["codes1"][:, 1]
    np.testing.assert_array_equal(values[5], expected)
    check_rows(records, COLUMNS)
    for field, k, code in (("codes4", 0, 70000), ("codes2", 0, 300), ("codes1", 1, 20)):
        records = records_of(5, "float32")
        records[field][2, k] = code
        with pytest.raises(ValueError, match=f"to {code}, expected 0 to {code - 1}"):
            check_rows(records, COLUMNS)
    with pytest.raises(ValueError, match="expected 5 values a row, got 6"):
        check_rows(records_of(2, "float32"), COLUMNS[1:])
    with pytest.raises(
        ValueError, match="value 3 of a record: expected a number, got uint32"
    ):
        check_rows(
            records_of(2, "float32"),
            (*COLUMNS[:2], InputColumn("number"), *COLUMNS[3:]),
        )
    for x in (-1.0, np.nan, 70000.0):
        with pytest.raises(ValueError, match="value 3: codes from"):
            check_rows(np.array([[0, 0, x, 1, 1, 1]]), COLUMNS)


def numbers_of(records: np.ndarray, dtype) -> np.ndarray:
    """The same rows as numbers (rows, inputs)."""
    stacked = np.stack(list(values_of(records)), 1)
    return stacked.astype(dtype)


def engine_of(
    backend: str,
    dtype: str,
    layers: str = "6,40:tanh,9:relu,2",
    columns=COLUMNS,
    threads: int = 1,
):
    return network(
        layers, backend, dtype, input_columns=columns, threads=threads
    ).engine


def targets(rows: int, dtype) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.normal(size=(rows, 2)).astype(dtype)


def trained(engine, data, rows: int, batch: int, optimizer: str = "adam") -> np.ndarray:
    """The parameters after two epochs, the second in another order."""
    rate = OPTIMIZERS[optimizer].learning_rate
    rates = [rate] * 9
    settings = EpochSettings(optimizer, batch, rates, weight_decay=0.1, momentum=0.9)
    for seed in (0, 1):
        order = np.random.default_rng(seed).permutation(rows)
        engine.epoch(data, order, settings, engine.progress())
    return engine.get("parameters")


def test_records_count_as_the_numbers_in_them(processor, dtype):
    rows = 301
    records = records_of(rows, dtype)
    y = targets(rows, dtype)
    ends = []
    for x in (records, numbers_of(records, dtype)):
        engine = engine_of(processor, dtype)
        data = engine.load(x, y)
        some = np.arange(7, 250, 3)
        predictions = engine.predict(data, some)
        loss = engine.loss(data, some)
        before = (engine.predict(data), predictions, loss)
        ends.append(
            (*before, trained(engine, data, rows, 32), trained(engine, data, rows, 256))
        )
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)
    expected = ends[0][1]
    np.testing.assert_array_equal(ends[0][0][some], expected)
    assert np.isfinite(ends[0][3]).all()
    assert (ends[0][3] != ends[0][4]).any()


@pytest.mark.parametrize(
    "counts",
    [
        (2, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 1, 0),
        (0, 0, 0, 3),
        (1, 2, 0, 1),
        (1, 0, 1, 1),
    ],
)
def test_records_may_lack_any_of_their_fields(processor, counts):
    records = np.zeros(40, record_type("float64", *counts))
    for name in records.dtype.names:
        rng = np.random.default_rng(2)
        records[name] = rng.integers(9, size=records[name].shape)
    columns = [InputColumn("number")] * counts[0] + [
        InputColumn("embedding", values=9, width=2)
    ] * sum(counts[1:])
    outs = []
    for x in (records, numbers_of(records, "float64")):
        engine = engine_of(processor, "float64", f"{len(columns)},5:tanh,2", columns)
        data = engine.load(x)
        outs.append(engine.predict(data))
    np.testing.assert_array_equal(*outs)
    assert np.ptp(outs[0]) > 0


def test_rows_that_do_not_fit_are_refused(processor):
    engine = engine_of(processor, "float32")
    records = records_of(8, "float32")
    records["codes2"][5] = 300
    for x, message in (
        (records, "value 4: codes from .* to 300, expected 0 to 299"),
        (
            numbers_of(records, "float32"),
            "value 4: codes from .* to 300.0, expected 0 to 299",
        ),
        (records_of(8, "float64"), "expected records of float32 numbers"),
        (np.zeros((8, 6), np.uint8), "expected float32 .*, got uint8"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.load(x)
    with pytest.raises(ValueError, match="for a network without an embedding layer"):
        engine_of(processor, "float32", columns=()).load(records)


def test_a_code_outside_its_column_reads_and_trains_nothing(processor):
    # behind the values of a column are those of the next one of its kind
    columns = [
        InputColumn("onehot", values=3),
        InputColumn("onehot", values=3),
        InputColumn("embedding", 3, 2),
    ]
    input_columns = [*columns, InputColumn("embedding", 3, 2)]
    net = network("4,1", processor, input_columns=input_columns)
    x = np.array(
        [
            [code] * 4
            for code in (3, 1e12, -1, -1e12, np.inf, -np.inf, np.nan, 2.0**31, 2.0**63)
        ]
    )
    loss, grads, dx = net.gradients(x, np.ones((len(x), 1)))
    bias = net.parameters()["layer1.bias"][0]
    assert loss == pytest.approx((bias - 1) ** 2)
    assert not grads["layer0.weight"].any()
    assert not dx.any()
    assert not grads["layer1.weight"].any()
    expected = 2 * (bias - 1)
    assert grads["layer1.bias"][0] == pytest.approx(expected)


WAVES = (
    InputColumn("number", waves=12, deviation=2.0),
    InputColumn("gap", fill=0.25, waves=70),
    *COLUMNS[2:],
)
TABLES = (InputColumn("embedding", 300, 4), *COLUMNS[3:])
EDGES = (-1.0, -0.25, 0.5, 2.0)
SHARES = {  # x -> pieces between EDGES
    -3.0: (0, 0, 0),
    -1.0: (0, 0, 0),
    -0.625: (0.5, 0, 0),
    -0.25: (1, 0, 0),
    0.125: (1, 0.5, 0),
    0.5: (1, 1, 0),
    0.875: (1, 1, 0.25),
    2.0: (1, 1, 1),
    8.0: (1, 1, 1),
}


def test_pieces_have_their_shares_after_the_usual_outputs(processor, dtype):
    columns = [
        InputColumn("number", edges=EDGES),
        InputColumn("number"),
        InputColumn("gap", fill=0.875, edges=EDGES),
    ]
    out = encoded(
        processor, dtype, columns, [[x, 7, x] for x in SHARES] + [[0.125, 8, np.nan]]
    )
    expected = [[x, *shares, 7, x, 0, *shares] for x, shares in SHARES.items()]
    expected.append([0.125, *SHARES[0.125], 8, 0.875, 1, *SHARES[0.875]])
    np.testing.assert_array_equal(out, expected)


def test_any_number_of_pieces_has_the_same_bits_on_omp_as_on_seq(dtype):
    x = np.random.default_rng(4).normal(size=(70, 1))
    for count in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64):
        rng = np.random.default_rng(count)
        draws = rng.normal(size=count + 1)
        edges = np.sort(draws)
        columns = [InputColumn("number", edges=tuple(edges.tolist()))]
        seq = encoded("seq", dtype, columns, x)
        omp = encoded("omp", dtype, columns, x)
        steps = np.diff(edges)
        clipped = np.clip((x - edges[:-1]) / steps, 0, 1)
        expected = np.concatenate([x, clipped], 1)
        atol = {"float32": 1e-4, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(seq, expected, atol=atol)
        np.testing.assert_array_equal(omp, seq)


def test_edges_that_are_one_float32_make_a_step(processor):
    edges = (0.0, 1.0, 1 + 1e-12, 2.0)
    columns = [InputColumn("number", edges=edges)]
    out = encoded(
        processor,
        "float32",
        columns,
        [[np.nextafter(np.float32(1), np.float32(0))], [1.0], [1.5]],
    )
    np.testing.assert_array_equal(out[:, 2], [0, 1, 1])
    np.testing.assert_array_equal(out[:, 3], [0, 0, 0.5])


def test_a_piece_has_a_gradient_between_its_edges_alone(processor, dtype):
    columns = [
        InputColumn("number", edges=EDGES),
        InputColumn("gap", fill=0.875, edges=EDGES),
    ]
    net = network("2,1", processor, dtype, input_columns=columns)
    # by the widths: 1, 2, 2
    weights = np.array([[3, 0.75, 1.5, 3, 5, 9, 0.75, 1.5, 3]])
    net.set_parameters({"layer0.weight": weights, "layer0.bias": np.zeros(1)})
    x = np.array([[x, x] for x in SHARES] + [[0.125, np.nan]], dtype)
    predictions = net.predict(x)
    y = predictions - len(x) / 2  # mean squared error: dz is 1 in every row
    gradients = net.gradients(x, y)[2]
    dx = gradients.reshape(-1, 2)
    pieces = np.array([0, 0, 1, 0, 2, 0, 2, 0, 0])
    stacked = np.stack([3 + pieces, 5 + pieces], 1)
    expected = [*stacked, [5, 0]]
    np.testing.assert_allclose(dx, expected, rtol=1e-5)


def test_sines_and_cosines_come_last_and_are_exact_at_quarters(processor, dtype):
    columns = [
        InputColumn("number", waves=2),
        InputColumn("gap", fill=0.5, edges=(0.0, 1.0), waves=1),
    ]
    x = [[0.25, 0.25], [-0.5, np.nan], [3.0, 4.0]]
    out = encoded(processor, dtype, columns, x, [1.0, -2.0, 0.5])
    half = 0.5**0.5
    expected = [
        [0.25, 1, 0, 0, -1, 0.25, 0, 0.25, half, half],
        [-0.5, 0, 0, -1, 1, 0.5, 1, 0.5, 1, 0],
        [3, 0, 0, 1, 1, 4, 0, 1, 0, 1],
    ]
    atol = 2 * np.finfo(dtype).eps
    np.testing.assert_allclose(out, expected, atol=atol)


@pytest.mark.parametrize("waves", [1, 2, 3, 7, 8, 9, 12, 15, 16, 17, 31, 33, 256])
def test_any_number_of_waves_is_good_to_a_few_units_in_the_last_place(waves, dtype):
    """Of frequencies and numbers of few digits, whose products are exact."""
    rng = np.random.default_rng(waves)
    frequencies = rng.integers(-999, 999, waves) / 256
    draws = rng.integers(-999, 999, (60, 1))
    x = draws / 128
    angles = 2 * np.pi * (frequencies * x - np.rint(frequencies * x))
    expected = np.concatenate([x, np.sin(angles), np.cos(angles)], 1)
    for backend in BACKENDS:
        out = encoded(
            backend, dtype, [InputColumn("number", waves=waves)], x, frequencies
        )
        atol = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(out, expected, atol=atol)


def test_waves_of_huge_numbers_stay_within_their_bounds(processor, dtype):
    """Numbers of more turns than have a fraction, and more than the type holds."""
    huge = float(np.finfo(dtype).max)
    x = [[2.0**60], [huge], [-huge], [2.0**40 + 1], [1e5 + 0.1]]
    out = encoded(
        processor, dtype, [InputColumn("number", waves=3)], x, [1.0, 0.3, 1e9]
    )[:, 1:]
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= 1
    np.testing.assert_allclose(out[:, :3] ** 2 + out[:, 3:] ** 2, 1, rtol=1e-6)
    expected = [[0, 0, 0, 1, 1, 1]] * 3
    np.testing.assert_array_equal(out[:3], expected)


def test_a_gap_teaches_the_frequencies_by_its_fill_and_has_no_gradient(processor):
    input_columns = [InputColumn("gap", fill=0.5, waves=2)]
    net = network("1,1:tanh", processor, input_columns=input_columns)
    weight = net.parameters()["layer1.weight"].copy()
    weight[0, 1] = 0  # the output that tells the gap
    net.set_parameters({"layer1.weight": weight})
    gradients = net.gradients(np.array([[np.nan]]), np.ones((1, 1)))
    of_gap = gradients[1:]
    gradients = net.gradients(np.array([[0.5]]), np.ones((1, 1)))
    of_fill = gradients[1:]
    assert np.abs(of_gap[0]["layer0.weight"]).min() > 0
    assert not of_gap[1].any()
    assert of_fill[1].all()
    expected = of_fill[0]["layer0.weight"]
    np.testing.assert_array_equal(of_gap[0]["layer0.weight"], expected)


def test_weight_decay_acts_on_rows_that_the_batch_lacks_and_spares_frequencies(
    processor,
):
    columns = [
        InputColumn("number", waves=40),
        InputColumn("embedding", values=4, width=2),
    ]
    net = network("2,1", processor, input_columns=columns)
    before = net.parameters()["layer0.weight"]
    # at 0 no frequency has a gradient
    data = net.engine.load(np.array([[0.0, 1.0]]), np.array([[5.0]]))
    settings = EpochSettings("sgd", 1, [0.5] * 9, weight_decay=0.1)
    net.engine.epoch(data, np.zeros(1, np.int64), settings, net.engine.progress())
    after = net.engine.get("parameters")[:48]
    np.testing.assert_array_equal(after[8:], before[8:])
    expected = 0.95 * before[[0, 1, 4, 5, 6, 7]]
    np.testing.assert_allclose(after[[0, 1, 4, 5, 6, 7]], expected, rtol=1e-12)
    difference = np.abs(after[:8] - 0.95 * before[:8])
    assert (difference[2:4] > 1e-3).all()


ROWS = 512  # too many for layers that are fused
LEARNED = {  # a column of each kind, and what it reads
    "waves": (InputColumn("number", waves=12), 0.3),
    "gap and waves": (InputColumn("gap", fill=0.5, waves=5), np.nan),
    "table": (InputColumn("embedding", 7, 3), 4),
}


@pytest.mark.parametrize("before", [0, 6, 23])
@pytest.mark.parametrize("names", [("waves",), ("gap and waves", "table"), ("table",)])
def test_a_step_takes_the_whole_gradient_of_what_columns_learn(
    names, before, processor, dtype
):
    """Wherever among the outputs of the layer they lie, of which a training computes no
    others: with and without plain numbers before and behind them."""
    learned = [LEARNED[name] for name in names]
    numbers = [(InputColumn("number"), 1.5)]
    columns, row = zip(*(numbers * before + learned + numbers * (before // 2)))
    engine = engine_of(processor, dtype, f"{len(columns)},40:tanh,1", columns)
    rng = np.random.default_rng(before)
    x = np.tile(np.array(row), (ROWS, 1))
    x[:, 0] += rng.integers(0, 3, ROWS)
    x = x.astype(dtype)
    y = rng.normal(size=(ROWS, 1)).astype(dtype)
    start = engine.get("parameters")
    _, gradient, _ = engine.gradients(x, y)
    count = sum(column.parameters + column.waves for column in columns)
    assert gradient[:count].any()
    settings = EpochSettings("sgd", ROWS, [0.25] * 9)
    engine.epoch(engine.load(x, y), np.arange(ROWS), settings, engine.progress())
    step = (start - engine.get("parameters")) / 0.25
    assert relative_distance(step, gradient) < {"float64": 1e-9, "float32": 1e-3}[dtype]


TRAINED = {"pieces": COLUMNS[:2], "waves": WAVES[:2], "only waves": WAVES[:1]}
# one batch by all threads; micro-batches
BATCHES = [("400:tanh,300,2", 200), ("9:tanh,2", 4000)]


def trainings():
    """Return all crossings of columns, layers, optimizer and type; those are marked
    long whose pairs all stand in another one too."""
    crossed = []
    for name, (layers, batch), optimizer, dtype in product(
        TRAINED, BATCHES, OPTIMIZERS, ["float32", "float64"]
    ):
        places = (
            list(TRAINED).index(name),
            BATCHES.index((layers, batch)),
            list(OPTIMIZERS).index(optimizer),
        )
        if (sum(places) + (dtype == "float32")) % 2:
            marks = [pytest.mark.long]
        else:
            marks = []
        named = f"{dtype}-{layers}-{batch}-{name}-{optimizer}"
        crossed.append(
            pytest.param(
                TRAINED[name], layers, batch, optimizer, dtype, marks=marks, id=named
            )
        )
    return crossed


@pytest.mark.usual(1, 8)
@pytest.mark.parametrize("numbers, layers, batch, optimizer, dtype", trainings())
def test_omp_trains_to_the_same_bits_for_any_thread_count_and_as_seq(
    layers, batch, numbers, optimizer, dtype
):
    """As seq within the promised distance; float32 but for sgd as the median of 5 sets
    of rows: where a relu decides on a rounding, or a gradient is no more than one, the
    other optimizers make a whole step of it."""
    if not extension("omp")[1].nn_has_openmp():
        pytest.skip("built without OpenMP: there is one thread only")
    if len(numbers) == 1:
        columns = numbers
    else:
        columns = (*numbers, *TABLES)
    rows = 2 * batch + 150

    def end_of(backend, threads, seed=3):
        x = records_of(rows, dtype, seed)
        x["codes4"] %= 300
        if not (len(numbers) > 1):
            x = x["numbers"][:, :1]
        engine = engine_of(backend, dtype, f"{len(columns)},{layers}", columns, threads)
        assert batch != 200 or backend == "seq" or engine.threads_for(batch) == threads
        data = engine.load(np.ascontiguousarray(x), targets(rows, dtype))
        start = engine.get("parameters")
        end = trained(engine, data, rows, batch, optimizer)
        # frequencies are learned
        assert len(numbers) > 1 or (end[:12] != start[:12]).all()
        return end, engine.predict(data)

    by_omp = [end_of("omp", threads) for threads in (1, 2, 3, 8)]
    for one in by_omp[1:]:
        np.testing.assert_equal(one, by_omp[0])
    expected = end_of("seq", 1)[0]
    distances = [relative_distance(by_omp[0][0], expected)]
    if dtype == "float32" and optimizer != "sgd":
        for seed in (4, 5, 6, 7):
            distance = relative_distance(
                end_of("omp", 1, seed)[0], end_of("seq", 1, seed)[0]
            )
            distances.append(distance)
    median = np.median(distances)
    assert median < {"float64": 1e-9, "float32": 1e-5}[dtype]
