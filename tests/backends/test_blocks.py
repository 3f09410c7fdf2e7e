"""The limits of blocks: one below, at and one above each, of products, convolutions,
batches, predictions and shuffles.

Most other tests fill one block at most, and would not see a fault in the second.
"""

import csv
import io
from itertools import product

import numpy as np
import pytest
from support import plain_layers
from support.command_line import argv, run
from support.distances import relative_distance
from support.epochs import ended, settings
from support.networks import TABLES, TOLERANCE, check_against_numpy, fill, network

import nn
from nn.core import metrics, random
from nn.nn import PREDICT_BLOCK


def around(*limits: int) -> list[int]:
    """Return one below, at and one above each limit."""
    return [size for limit in limits for size in (limit - 1, limit, limit + 1)]


# ---- products: the constants of csrc/omp/matrix.c for AVX-512 and for the others,
# float32 and float64

HEIGHTS = around(40, 96, 120, 192)  # rows of c: FEW_ROWS, HEIGHT
DEPTHS = around(384, 512, 1024)  # terms of a sum: DEPTH, and two blocks of them
WIDTHS = around(144, 256, 512, 768, 1024)  # columns of c: NARROW, THIN, WIDTH
FEWEST = 3  # of the other two sizes, where one is at its limit


def sizes_of_products() -> list[tuple[int, int, int]]:
    """Return sizes (m, n, k): each limit beside small others, and all limits of blocks
    together."""
    alone = [(m, FEWEST, FEWEST) for m in HEIGHTS] + [
        (FEWEST, n, FEWEST) for n in WIDTHS
    ]
    alone += [(FEWEST, FEWEST, k) for k in DEPTHS]
    together = product(around(96, 192), around(768), around(512))  # AVX-512
    off_by_one = product((121,), (1025,), (385, 1025))
    return [*alone, *together, *off_by_one]


@pytest.mark.slow
@pytest.mark.parametrize("a_by_columns", [False, True], ids=["", "a transposed"])
@pytest.mark.parametrize("b_by_columns", [False, True], ids=["", "b transposed"])
def test_products_at_the_limits_of_blocks_are_exact_of_whole_numbers(
    dtype, a_by_columns, b_by_columns
):
    draws = np.random.default_rng(0)
    for m, n, k in sizes_of_products():
        # sums below 2^24: no rounding
        a = draws.integers(-8, 9, (m, k))
        b = draws.integers(-8, 9, (k, n))
        expected = a.astype(np.float64) @ b.astype(np.float64)
        a = a.astype(dtype)
        b = b.astype(dtype)
        if a_by_columns:
            a = np.asfortranarray(a)
        if b_by_columns:
            b = np.asfortranarray(b)
        np.testing.assert_array_equal(
            nn.matmul(a, b), expected, err_msg=f"{m} x {k} times {k} x {n}"
        )


# ---- layers: vectors of channels, tiles of windows, blocks of tiles

DENSE = [
    f"{inputs},{outputs}" for inputs in around(48, 512) for outputs in around(3, 8, 48)
]
WINOGRAD = [
    f"{c}x{side}x9,conv{f}k3p1"
    for c, f in ((16, 16), (17, 32), (31, 33))
    for side in around(4, 8)
]
# more tiles of 4 x 4 than one block of Winograd holds
BLOCK_OF_TILES = ["16x41x43,conv16k3p1", "32x29x25,conv16k3p1"]
DIRECT = [
    f"{c}x7x{side},conv{f}k2"
    for c, f in ((15, 31), (16, 32), (17, 33))
    for side in around(13, 17)
]
PLANES = [
    f"3x{side}x{side + 2},conv{f}k3p1" for f in around(4) for side in around(4, 16)
]
POOLS = [
    f"{c}x{side}x6,{kind}2"
    for c in around(16)
    for side in around(4)
    for kind in ("maxpool", "avgpool")
]


@pytest.mark.parametrize(
    "spec", [*DENSE, *WINOGRAD, *BLOCK_OF_TILES, *DIRECT, *PLANES, *POOLS]
)
def test_layers_at_the_limits_of_blocks_are_those_of_numpy(spec, dtype):
    net = network(spec, "omp", dtype)
    check_against_numpy(net, 3)


# ---- batches: rows that are gathered, micro-batches, weights


@pytest.mark.usual(32)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("spec", ["5,4:tanh,2", "mixed,4:tanh,2"])
@pytest.mark.parametrize("rows", around(32, 64, 128, 256))
def test_the_step_of_a_batch_at_the_limits_of_micro_batches_is_that_of_numpy(
    spec, rows, threads, dtype
):
    net = network(spec, "omp", dtype, threads=threads)
    x, y = fill(net, rows)
    weights = np.arange(rows, dtype=dtype) % 3
    before = net.parameters()
    sums = {name: np.zeros(value.shape) for name, value in before.items()}
    losses = np.zeros(rows)
    for row in range(rows):
        losses[row], gradients, _ = plain_layers.gradients(
            net.layers, before, x[[row]], y[[row]]
        )
        for name, gradient in gradients.items():
            sums[name] += weights[row] * gradient
    records = records_of(net, x)
    after = ended(
        net,
        records,
        y,
        settings(optimizer="sgd", batch=rows, rates=[1.0] * 9),
        weights=weights,
    )
    expected = float(weights @ losses)
    rel = 10 * TOLERANCE[dtype]
    assert after.losses[0] == pytest.approx(expected, rel=rel)
    net.take_parameters()
    for name, value in net.parameters().items():
        step = before[name] - value
        expected = sums[name] / weights.sum()
        distance = relative_distance(step, expected)
        assert distance < 100 * TOLERANCE[dtype], name


def records_of(net, x):
    """Return rows as the engine takes them: those of a table as they are, numbers for
    all columns."""
    return np.ascontiguousarray(x.reshape(len(x), -1))


# ---- predictions and losses of more rows than a block


@pytest.fixture(scope="module")
def long_table():
    """Columns of numbers and words with one row more than a block, two classes that
    follow them, and weights."""
    draws = np.random.default_rng(2)
    rows = PREDICT_BLOCK + 1
    frame = {
        "size": draws.normal(size=rows).astype(np.float32),
        "town": draws.choice([f"town {k:02d}" for k in range(40)], rows),
        "kind": draws.choice(["a", "b", "c"], rows),
    }
    logit = 2 * frame["size"] + (frame["kind"] == "a") - 0.5
    selected = np.where(draws.random(rows) < 1 / (1 + np.exp(-logit)), "yes", "no")
    return (frame, selected, draws.integers(1, 4, rows))


@pytest.fixture(scope="module")
def pair_of_networks(long_table):
    """Two networks that predict together, trained on the first rows."""
    frame, answers, _ = long_table
    few = {name: values[:400] for name, values in frame.items()}
    ds = nn.load(few, y=answers[:400])
    net = nn.Network.for_data(ds, "auto,4:tanh,1", seed=1)
    nn.train(net, ds, epochs=3, networks=2)
    return net


def test_predictions_beyond_a_block_are_those_of_each_part(
    pair_of_networks, long_table
):
    frame, answers, _ = long_table
    x = nn.load(frame, y=answers).x
    together = pair_of_networks.predict(x)
    for part in (
        slice(0, PREDICT_BLOCK - 1),
        slice(0, PREDICT_BLOCK),
        slice(PREDICT_BLOCK - 1, PREDICT_BLOCK + 1),
    ):
        expected = pair_of_networks.predict(x[part])
        np.testing.assert_array_equal(together[part], expected)
    deviations = pair_of_networks.deviation(x)
    half = PREDICT_BLOCK // 2  # of two networks a block has half of the rows
    expected = pair_of_networks.deviation(x[half - 1 : half + 2])
    np.testing.assert_array_equal(deviations[half - 1 : half + 2], expected)
    assert deviations[-1] > 0


def test_metrics_of_more_rows_than_a_block_weigh_each_row(pair_of_networks, long_table):
    frame, answers, weights = long_table
    ds = nn.load({**frame, "count": weights}, y=answers, weight="count")
    figures = nn.test(pair_of_networks, ds)
    predictions = pair_of_networks.predict(ds.x)[:, 0]
    p = predictions.astype(np.float64)
    is_yes = answers == pair_of_networks.classes[1]
    selected = np.where(is_yes, p, 1 - p)
    row_losses = -np.log(selected)
    expected = np.average(row_losses, weights=weights)
    assert figures["log_loss"] == pytest.approx(expected, rel=1e-6)
    expected = np.average((p - is_yes) ** 2, weights=weights)
    assert figures["brier"] == pytest.approx(expected, rel=1e-6)
    right = (p >= pair_of_networks.threshold) == is_yes
    expected = np.average(right, weights=weights)
    assert figures["accuracy"] == pytest.approx(expected, rel=1e-9)
    expected = weights[right & is_yes].sum()
    assert figures["tp"] == expected
    expected = weights[right & ~is_yes].sum()
    assert figures["tn"] == expected


def test_losses_of_an_engine_weigh_each_row_of_every_block(dtype, processor):
    rows = PREDICT_BLOCK // 16 + 1
    net = network("4,3:tanh,1", processor, dtype)
    x, y = fill(net, rows)
    indices = np.arange(rows)
    # no two blocks have the same weights
    weights = (indices % 7).astype(dtype)
    data = net.engine.load(x.reshape(rows, -1), y, weights)
    indices = np.arange(rows)
    order = indices[::-1].copy()
    outputs = plain_layers.forward(net.layers, net.parameters(), x)[-1]
    mean = ((outputs - y) ** 2).mean(axis=1)
    expected = np.average(mean, weights=weights)
    loss = net.engine.loss(data, order)
    rel = 20 * TOLERANCE[dtype]
    assert loss == pytest.approx(float(expected), rel=rel)


# ---- two columns of words side by side, an unseen word in the first


def test_an_unseen_word_leaves_the_column_beside_it_alone(processor):
    columns = TABLES["mixed"]
    net = network("mixed,5:tanh,2", processor, "float64")
    x, _ = fill(net, 9)
    places = []
    for index, column in enumerate(columns):
        if column.kind == "embedding" and column.width > 1:
            places.append(index)
    first_column, second_column = places
    # 0: the slot of unseen words
    x[:, first_column, 0, 0] = 0
    x[:, second_column, 0, 0] = np.arange(9) % columns[second_column].values
    expected = plain_layers.forward(net.layers, net.parameters(), x)[-1]
    predictions = net.predict(x)
    np.testing.assert_allclose(predictions, expected, rtol=1e-12)
    predictions = net.predict(x)
    assert len({tuple(row) for row in predictions}) == 9


# ---- shuffles


@pytest.mark.parametrize(
    "rows",
    [1, *around(random.BLOCK_ROWS, random.BLOCK_ROWS * random.DRAWN_BLOCKS), 200_000],
)
def test_a_shuffle_by_blocks_has_every_row_once_and_takes_whole_blocks(rows):
    order = random.shuffled_by_blocks(rows, 5, 2)
    expected = np.arange(rows)
    np.testing.assert_array_equal(np.sort(order), expected)
    places = np.argsort(order)
    spans = [
        np.ptp(places[row : row + random.BLOCK_ROWS])
        for row in range(0, rows, random.BLOCK_ROWS)
    ]
    # a block's rows lie among those of the blocks drawn with it
    assert max(spans) < random.BLOCK_ROWS * random.DRAWN_BLOCKS
    if rows > 1:
        assert not np.array_equal(order, random.shuffled_by_blocks(rows, 5, 3))


def test_rows_that_are_drawn_together_have_a_draw_of_their_own():
    drawn = random.BLOCK_ROWS * random.DRAWN_BLOCKS
    in_block = random.shuffled_by_blocks(2 * drawn, 5, 2) % random.BLOCK_ROWS
    assert not np.array_equal(in_block[:drawn], in_block[drawn:])


# ---- fields with line breaks before one that cannot be read


# 40,000: in a later block of bytes
@pytest.mark.parametrize("rows_before", [0, 1, 3000, 40_000])
def test_a_field_with_line_breaks_does_not_move_the_place_of_a_bad_one(
    folder, rows_before
):
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(["size", "remark", "y"])
    for row in range(rows_before + 2):
        table.writerow([row / 7, "two\nlines\nand one", row % 2])
    table.writerow(["broken", "plain", 1])
    (folder / "t.csv").write_text(written.getvalue())
    result = run(*argv("train t.csv -m m.bin --numbers size --strict --drop remark"))
    assert result.code == 65
    assert f'data row {rows_before + 3}, column size: found "broken"' in result.err
    with open(folder / "t.csv", "a") as file:
        file.write("1,2,3,4\n")
    lines = written.getvalue().count("\n") + 1
    result = run("train", "t.csv", "-m", "m.bin", "--drop", "remark")
    assert result.code == 65
    assert f"row {lines}: 4 columns, expected 3" in result.err


def test_the_area_of_more_rows_than_a_block_is_that_of_counted_pairs():
    draws = np.random.default_rng(3)
    rows = 70_001
    y = draws.integers(0, 2, rows)
    scores = np.round(draws.normal(size=rows) + y, 1)  # many ties
    positive = scores[y == 1]
    negative = np.sort(scores[y == 0])
    below = np.searchsorted(negative, positive, "left")
    upto = np.searchsorted(negative, positive, "right")
    total = (below + upto).sum()
    expected = total / 2 / len(positive) / len(negative)
    figure = metrics.metric("roc_auc", "binary", y, scores)
    assert figure == pytest.approx(expected, rel=1e-12)
