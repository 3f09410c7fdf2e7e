"""Rows of numbers and codes on the GPU, and the tables that a network learns for their
codes: against seq."""

import numpy as np
import pytest
from support.distances import relative_distance
from support.epochs import ended, settings
from support.networks import encoded

from nn.backends.cuda import engine as cuda
from nn.core.records import record_type, values_of
from nn.layers import InputColumn
from nn.nn import Network

# operations from which a batch is a graph of phases
GRAPHS = 0
ONE_LAUNCH = 1e12
# of one batch's gradients, docs/numbers.md
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}
# of the parameters after three epochs
AFTER_EPOCHS = {"float64": 1e-9, "float32": 1e-5}

NUMBER = InputColumn("number")
GAP = InputColumn("gap", fill=-0.375)
EDGES = tuple(np.linspace(-2.0, 1.5, 65).tolist())
PIECES = (
    InputColumn("number", edges=EDGES),
    InputColumn("gap", fill=0.3, edges=EDGES[::5]),
    NUMBER,
    InputColumn("gap", edges=(-0.5, 0.625)),
)
WAVES = (
    InputColumn("number", waves=12),
    InputColumn("gap", fill=0.3, edges=EDGES[::9], waves=57),
    NUMBER,
    InputColumn("gap", waves=1),
)


def table(values, width):
    return InputColumn("embedding", values=values, width=width)


def onehot(values):
    return InputColumn("onehot", values=values)


FIELDS = {  # columns of numbers, and of codes of 4, 2 and 1 bytes
    # a table of many blocks, and one that a block has threads for
    "mixed": (
        (NUMBER, GAP, NUMBER, GAP),
        (table(10_000, 8),),
        (table(300, 3), onehot(700)),
        (onehot(5), table(20, 2), table(1, 1)),
    ),
    # few values, so that their gradients come in many partial sums; a row of a table
    # longer than a block has threads
    "few": ((NUMBER,), (), (table(17, 5), table(3, 300)), ()),
    "no table": ((GAP, NUMBER), (), (), (onehot(4), onehot(1))),
    "pieces": (PIECES, (), (), (table(20, 2),)),
    "waves": (WAVES, (), (), (table(20, 2),)),
    "only waves": (
        (InputColumn("gap", fill=0.5, waves=12), InputColumn("number", waves=12)),
        (),
        (),
        (),
    ),
    "3 bytes of 4": ((), (), (), (table(256, 2),) * 3),
    "no codes of 4 bytes": ((NUMBER,), (), (table(65536, 1),) * 3, (onehot(3),)),
    "4 bytes of 8": ((), (table(90_000, 1),), (), ()),
    "no codes": ((NUMBER, GAP, NUMBER), (), (), ()),
}
COLUMNS = {name: sum(fields, ()) for name, fields in FIELDS.items()}


def network(name, backend, dtype, items="13:tanh,3", **options):
    columns = COLUMNS[name]
    net = Network(
        f"9,{items}",
        "regression",
        backend=backend,
        dtype=dtype,
        input_columns=columns,
        **options,
    )
    rng = np.random.default_rng(1)
    draws = rng.normal(0, 0.5, net.engine.size)
    net.engine.set(
        "parameters",
        draws.astype(dtype),
    )
    return net


def rows_of(name, dtype, rows):
    """Records and targets. A fifth of the numbers of gap columns are gaps, some one-hot
    codes have no place, half the codes of each table are its last one."""
    rng = np.random.default_rng(0)
    records = np.zeros(rows, record_type(dtype, *map(len, FIELDS[name])))
    # the values are views
    for column, values in zip(COLUMNS[name], values_of(records), strict=True):
        if column.kind in ("number", "gap"):
            values[:] = rng.normal(size=rows)
            values[rng.random(rows) < (0.2 if column.kind == "gap" else 0)] = np.nan
        else:
            values[:] = rng.integers(
                column.values + 2 * (column.kind == "onehot"), size=rows
            )
            values[rng.random(rows) < (0.5 if column.kind == "embedding" else 0)] = (
                column.values - 1
            )
    draws = rng.normal(size=(rows, 3))
    return records, draws.astype(dtype)


def reals(records, dtype):
    """The same rows as the numbers that go into the network."""
    stacked = np.stack(list(values_of(records)), 1)
    return stacked.astype(dtype)


def trained(net, x, y, optimizer="adam", batch=64, **how):
    """What an engine has after some epochs."""
    if optimizer == "sgd":
        momentum = 0.9
    else:
        momentum = 0.0
    falling = list(np.linspace(0.02, 0.005, 9))
    settings_of_member = settings(
        optimizer=optimizer,
        batch=batch,
        rates=falling,
        momentum=momentum,
        weight_decay=0.01,
        scale_rate=2.0,
        seed=3,
    )
    return ended(net, x, y, settings_of_member, **how)


def assert_near(actual, expected, layers, tolerance):
    """Each table, and all the rest, is as near as the whole must be: a large table
    hides no small one."""
    sizes = [column.parameters for column in layers[0].columns if column.parameters]
    sizes += [column.waves for column in layers[0].columns if column.waves]
    ends = np.cumsum(sizes)
    for mine, theirs in zip(
        np.split(actual, ends), np.split(expected, ends), strict=True
    ):
        assert np.linalg.norm(theirs) > 0
        assert relative_distance(mine, theirs) < tolerance


@pytest.mark.parametrize(
    ("name", "rows", "dtype"),
    [
        ("mixed", 33, "float64"),
        ("mixed", 4096, "float32"),
        ("few", 1, "float64"),
        ("few", 700, "float64"),
        ("no table", 50, "float32"),
        ("waves", 700, "float64"),
        ("waves", 4096, "float32"),
        ("only waves", 33, "float64"),
        ("only waves", 65, "float32"),
    ],
)
def test_a_batch_has_the_gradients_of_seq(name, rows, dtype, backend):
    seq = network(name, "seq", dtype)
    ours = network(name, backend, dtype)
    records, y = rows_of(name, dtype, rows)
    x = reals(records, dtype)
    theirs = seq.engine.gradients(x, y)
    mine = ours.engine.gradients(x, y)
    assert mine[0] == pytest.approx(theirs[0], rel=TOLERANCE[dtype])
    assert_near(mine[1], theirs[1], ours.layers, TOLERANCE[dtype])
    distance = relative_distance(mine[2], theirs[2])
    assert distance < TOLERANCE[dtype]
    codes = [column.kind in ("onehot", "embedding") for column in COLUMNS[name]]
    assert not mine[2][np.isnan(x) | codes].any()
    assert mine[2][:, 0].any()


@pytest.mark.parametrize(
    ("name", "dtype", "optimizer", "batch", "runner"),
    [
        ("mixed", "float64", "adam", 64, ONE_LAUNCH),
        ("mixed", "float32", "sgd", 64, ONE_LAUNCH),
        ("mixed", "float64", "sgd", 64, GRAPHS),
        ("few", "float32", "adam", 300, ONE_LAUNCH),
        ("few", "float64", "sgd", 300, GRAPHS),
        ("no table", "float64", "adam", 64, ONE_LAUNCH),
        ("waves", "float64", "adam", 64, ONE_LAUNCH),
        ("waves", "float32", "sgd", 300, GRAPHS),
        ("only waves", "float32", "adam", 64, ONE_LAUNCH),
        ("only waves", "float64", "sgd", 300, GRAPHS),
    ],
)
def test_three_epochs_of_records_end_where_seq_ends(
    name, dtype, optimizer, batch, runner, backend, monkeypatch
):
    monkeypatch.setattr(cuda, "WHOLE_EPOCH_FLOPS", runner)
    records, y = rows_of(name, dtype, 701)
    ends = []
    outs = []
    for which in ("seq", backend):
        net = network(name, which, dtype)
        ends.append(trained(net, records, y, optimizer, batch, epochs=3))
        indices = np.arange(600)[::-1].copy()
        predictions = net.engine.predict(ends[-1].data, indices)
        outs.append(predictions)
    assert_near(ends[1].parameters, ends[0].parameters, net.layers, AFTER_EPOCHS[dtype])
    # gradients, ever smaller
    tolerance = 100 * AFTER_EPOCHS[dtype]
    assert_near(ends[1].moment1, ends[0].moment1, net.layers, tolerance)
    rel = 10 * AFTER_EPOCHS[dtype]
    assert ends[1].losses == pytest.approx(ends[0].losses, rel=rel)
    distance = relative_distance(outs[1], outs[0])
    assert distance < 10 * AFTER_EPOCHS[dtype]


def test_dropout_draws_the_masks_of_seq(backend):
    """Before and after the first dense layer: the layers' numbers count the
    embedding."""
    seq = network("few", "seq", "float64", "dropout0.25,9:tanh,dropout0.5,3")
    ours = network("few", backend, "float64", "dropout0.25,9:tanh,dropout0.5,3")
    records, y = rows_of("few", "float64", 130)
    theirs = seq.engine.gradients(reals(records, "float64"), y, 5, 3)
    mine = ours.engine.gradients(reals(records, "float64"), y, 5, 3)
    assert_near(mine[1], theirs[1], ours.layers, 1e-12)
    assert relative_distance(mine[2], theirs[2]) < 1e-12
    weights = np.arange(130.0) % 3
    ends = [
        trained(net, records, y, batch=48, weights=weights).parameters
        for net in (seq, ours)
    ]
    assert_near(ends[1], ends[0], ours.layers, 1e-9)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("3 bytes of 4", "float32"),
        ("no codes of 4 bytes", "float64"),
        ("4 bytes of 8", "float64"),
        ("no codes", "float32"),
    ],
)
def test_records_of_any_layout_are_read(name, dtype, gpu):
    records, _ = rows_of(name, dtype, 300)
    seq = network(name, "seq", dtype, "3")
    ours = network(name, "cuda", dtype, "3")
    data = seq.engine.load(records)
    indices = np.arange(1, 299)
    theirs = seq.engine.predict(data, indices)
    data = ours.engine.load(records)
    indices = np.arange(1, 299)
    mine = ours.engine.predict(data, indices)
    assert relative_distance(mine, theirs) < TOLERANCE[dtype]


def test_pieces_have_the_bits_of_seq(dtype, gpu):
    """Values between, on and beyond the edges; a dense layer lets one output of a row
    pass."""
    edges = np.array(EDGES)[:, None] + [0, 0.001, 3, -3]
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(400, 4))
    x = np.concatenate([edges, draws, [[0, np.nan, 0, np.nan]]])
    outs = [encoded(backend, dtype, PIECES, x) for backend in ("seq", "cuda")]
    np.testing.assert_array_equal(outs[1], outs[0])
    assert ((outs[0] > 0) & (outs[0] < 1)).sum() > 1000


def test_waves_are_good_to_a_few_units_in_the_last_place(dtype, gpu):
    rng = np.random.default_rng(3)
    columns = [InputColumn("number", waves=100)]
    draws = rng.normal(0, 100, (500, 1))
    x = np.concatenate([draws, [[1e30], [-1e30], [0]]])
    frequencies = rng.normal(size=100)
    outs = [
        encoded(backend, dtype, columns, x, frequencies) for backend in ("seq", "cuda")
    ]
    expected = outs[0][:, 1:]
    atol = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(outs[1][:, 1:], expected, atol=atol)


def test_records_resident_and_streamed_and_again_give_the_same_bits(
    backend, monkeypatch
):
    # some batches at a time
    monkeypatch.setattr("nn.backends.cuda.data.STREAMED_BYTES", 9_000)
    records, y = rows_of("mixed", "float32", 1003)
    results = []
    for room in (None, None, 1000):
        net = network("mixed", backend, "float32")
        end = trained(net, records, y, "sgd", epochs=2, room=room)
        assert end.data.resident == (room is None)
        indices = np.arange(900)[::-1].copy()
        predictions = net.engine.predict(end.data, indices)
        outs = (net.engine.predict(end.data), predictions)
        results.append((*end.bits, *(out.tobytes() for out in outs)))
    assert results[0] == results[1] == results[2]


def test_rows_of_numbers_and_records_give_the_same_bits(gpu):
    records, y = rows_of("few", "float32", 500)
    ends = []
    for x in (records, reals(records, "float32")):
        net = network("few", "cuda", "float32")
        end = trained(net, x, y, batch=300)
        indices = np.arange(5, 499)
        loss = net.engine.loss(end.data, indices)
        ends.append((end.bits, loss))
    assert ends[0] == ends[1]


def test_recorded_steps_name_the_layer(gpu):
    net = network("mixed", "cuda", "float32")
    net.engine.record(2)
    records, y = rows_of("mixed", "float32", 200)
    trained(net, records, y, "sgd")
    for steps in net.engine.recorded():
        layers = {step.layer for step in steps if step.name in ("forward", "update")}
        assert layers == {
            0,
            1,
            2,
        }


def test_rows_that_do_not_fit_the_columns_are_refused(gpu):
    engine = network("few", "cuda", "float32").engine
    records, _ = rows_of("few", "float32", 4)
    records["codes2"][2, 0] = 17
    with pytest.raises(
        ValueError, match="value 2: codes from .* to 17, expected 0 to 16"
    ):
        engine.load(records)
    with pytest.raises(ValueError, match="expected records of float32 numbers"):
        engine.load(rows_of("few", "float64", 4)[0])
    with pytest.raises(ValueError, match=r"expected float32 \(rows, 3\), got uint8"):
        engine.load(np.zeros((4, 3), np.uint8))


@pytest.mark.parametrize("name", ["mixed", "few", "no table", "waves"])
def test_several_gpus_have_the_gradients_of_one(name, gpus):
    net = network(name, "cuda", "float64", gpus=())
    two = network(name, "cuda", "float64", gpus=gpus)
    records, y = rows_of(name, "float64", 301)
    expected = net.engine.gradients(reals(records, "float64"), y)
    gradients = two.engine.gradients(reals(records, "float64"), y)
    assert gradients[0] == pytest.approx(expected[0], rel=1e-12)
    assert_near(gradients[1], expected[1], net.layers, 1e-12)
    assert relative_distance(gradients[2], expected[2]) < 1e-12


@pytest.mark.parametrize("name", ["mixed", "no table", "only waves"])
def test_several_gpus_train_on_records_as_one_does(name, distribute, gpus, monkeypatch):
    monkeypatch.setattr("nn.backends.cuda.data.STREAMED_BYTES", 9_000)
    records, y = rows_of(name, "float64", 701)
    net = network(name, "cuda", "float64")
    expected = trained(net, records, y)
    results = []
    for room in (None, 1000):
        two = network(name, "cuda", "float64", gpus=gpus, distribute=distribute)
        end = trained(two, records, y, room=room)
        predictions = two.engine.predict(end.data)
        results.append((end.parameters, end.losses, predictions))
    assert_near(results[0][0], expected.parameters, net.layers, 1e-9)
    assert results[0][1] == pytest.approx(expected.losses, rel=1e-9)
    data = net.engine.load(records)
    predictions = net.engine.predict(data)
    assert relative_distance(results[0][2], predictions) < 1e-9
    bits = results[0][0].tobytes()
    assert bits == results[1][0].tobytes()
    bits = results[0][2].tobytes()
    assert bits == results[1][2].tobytes()
