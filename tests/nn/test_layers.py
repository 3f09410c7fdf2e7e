"""Each layer kind, alone and stacked, against plain NumPy (support/plain_layers.py) and
examples worked by hand."""

import numpy as np
import pytest
from support import plain_layers
from support.distances import relative_distance
from support.emulated_gpu import can_emulate, emulated_gpu
from support.networks import (
    ALONE,
    EVERY,
    KINDS,
    STACKS,
    check_against_numpy,
    fill,
    flattened,
    network,
)

import nn
from nn import backends
from nn.layers import parse
from nn.utils import NnError, UsageError


@pytest.mark.parametrize(
    ("spec", "dtype", "rows"),
    [
        *[(spec, dtype, 3) for spec in ALONE for dtype in ("float64", "float32")],
        *[(spec, "float64", rows) for spec in STACKS for rows in (1, 2, 33)],
    ],
)
def test_a_layer_alone_and_a_stack_agree_with_numpy(spec, dtype, rows, processor):
    check_against_numpy(network(spec, processor, dtype), rows)


@pytest.mark.parametrize(
    ("spec", "rows"),  # many terms of an output, of a weight, of an input
    [
        ("3000,3", 4),
        ("2,3", 5000),
        ("2,3000", 4),
        ("60x7x7,conv3k7", 4),
        ("2x9x9,conv3k2", 100),
        ("1x60x60,avgpool60", 3),
    ],
)
def test_sums_of_float32_are_added_up_in_double_on_seq(spec, rows):
    """Some roundings of single values are left: a sum of 3,000 in float32 has more."""
    nets = [network(spec, "seq", dtype) for dtype in ("float32", "float64")]
    x, y = fill(nets[0], rows)
    nets[1].set_parameters(nets[0].parameters())
    ends = []
    for net in nets:
        inputs = x.astype(net.dtype)
        _, *gradients = net.engine.gradients(
            inputs.reshape(rows, -1), y.astype(net.dtype)
        )
        ends.append([net.predict(inputs), *gradients])
    assert max(map(relative_distance, *ends)) < 1.5e-7


@pytest.mark.parametrize("name", EVERY)
def test_every_layer_kind_activation_and_loss_agrees_with_numpy(name, dtype, backend):
    for spec, options in EVERY[name]:
        net = network(spec, backend, dtype, **options)
        assert name not in KINDS or name in [layer.kind for layer in net.layers]
        check_against_numpy(net, rows=6, seed=3, step=1)


@pytest.mark.usual(9)
@pytest.mark.parametrize("spec", STACKS)
def test_omp_in_float32_agrees_with_seq_in_float32(spec):
    """Median of 20 batches, as single ones may turn on a relu's or a maximum's
    rounding."""
    seq = network(spec, "seq", "float32")
    omp = network(spec, "omp", "float32")
    apart = []
    for seed in range(20):
        grads = [flattened(net.gradients(*fill(net, 4, seed))[1]) for net in (omp, seq)]
        apart.append(relative_distance(*grads))
    assert np.median(apart) < 1e-5


@pytest.mark.parametrize("pool", ["", "maxpool2,"])
def test_windows_of_zeros_are_decided_as_seq_decides_them(pool):
    """With biases of 0 their sums are exactly 0, at which relu has no gradient; of
    equal maxima the first has it."""
    spec = f"16x24x24,conv32k3p1:relu,{pool}conv16k3p1:relu,10"
    seq = network(spec, "seq", "float64")
    omp = network(spec, "omp", "float64")
    rng = np.random.default_rng(4)
    x = rng.normal(size=(6, 16, 24, 24))
    y = rng.normal(size=(6, 10))
    x[:, :, :14] = 0
    x[:, :, :, 18:] = 0
    _, expected, wanted_dx = seq.gradients(x, y)
    _, grads, dx = omp.gradients(x, y)
    assert relative_distance(flattened(grads), flattened(expected)) < 1e-12
    assert relative_distance(dx, wanted_dx) < 1e-12


@pytest.mark.parametrize(
    "spec", [*STACKS, "3x32x32,conv16k3p1,maxpool2,conv32k3p1,maxpool2,100,10"]
)
def test_omp_gives_the_same_bits_for_any_thread_count(spec, dtype):
    results = set()
    for threads in (1, 2, 3, 8):
        net = network(spec, "omp", dtype, threads=threads)
        x, y = fill(net, 37)
        loss, grads, dx = net.gradients(x, y)
        predictions = net.predict(x)
        results.add((loss, bytes(dx), bytes(predictions), *map(bytes, grads.values())))
    assert len(results) == 1


@pytest.mark.parametrize(
    "spec", [STACKS[1], "mixed,40:tanh,9:relu,2", "waves,40:tanh,8:relu,2"]
)
def test_a_row_does_not_depend_on_the_batch_around_it(spec, processor):
    net = network(spec, processor, "float32")
    x, _ = fill(net, 200)
    whole = net.predict(x)
    for i in (*range(9), 63, 199):
        predictions = net.predict(x[i : i + 1])
        assert np.array_equal(predictions[0], whole[i])


@pytest.mark.parametrize(
    "item, expected",
    [
        ("conv1k2", [[19, 25], [37, 43]]),
        ("conv1k2p1", [[0, 3, 8, 4], [9, 19, 25, 10], [21, 37, 43, 16], [6, 7, 8, 0]]),
        # the odd zero is right and bottom
        ("conv1k2same", [[19, 25, 10], [37, 43, 16], [7, 8, 0]]),
        ("maxpool2s1", [[4, 5], [7, 8]]),
        ("avgpool2s1", [[2, 3], [5, 6]]),
    ],
)
def test_the_published_example_worked_by_hand(item, expected, processor, dtype):
    """Zhang, Lipton, Li, Smola, «Dive into Deep Learning», sections 7.2, 7.3 and
    7.5."""
    net = network(f"1x3x3,{item}", processor, dtype)
    if net.parameter_count:
        indices = np.arange(4.0).reshape(1, 1, 2, 2)
        net.set_parameters({"layer0.weight": indices, "layer0.bias": [0.0]})
    indices = np.arange(9.0).reshape(1, 1, 3, 3)
    predictions = net.predict(indices)
    assert predictions.tolist() == [np.ravel(expected).tolist()]


def test_a_tie_in_max_pooling_goes_to_the_first_in_row_major_order(processor):
    net = network("1x2x4,maxpool2", processor)
    _, _, dx = net.gradients(
        np.array([[[[1.0, 1, 0, 2], [1, 1, 2, 2]]]]), np.zeros((1, 2))
    )
    expected = [[1, 0, 0, 2], [0, 0, 0, 0]]
    assert dx[0, 0].tolist() == expected


def test_philox_gives_the_published_words():
    """Known answers of Random123 (kat_vectors, philox4x32 10)."""
    assert plain_layers.philox(0, (0, 0, 0, 0)) == [
        0x6627E8D5,
        0xE169C58D,
        0xBC57AC4C,
        0x9B00DBD8,
    ]


@pytest.mark.parametrize(
    "spec",
    [
        "7,dropout0.5",
        "5x3x3,dropout0.25:sigmoid",
        "17x5x3,conv18k2:tanh,dropout0.3,conv3k2,dropout0.9,flatten,3",
    ],
)
def test_dropout_draws_the_masks_of_the_rule(spec, processor):
    check_against_numpy(network(spec, processor), 5, seed=12345, step=678)


def test_dropout_drops_its_share_differs_by_step_and_is_the_identity_in_predictions(
    processor,
):
    net = network("1000,dropout0.3", processor)
    x = np.ones((50, 1000))
    assert np.array_equal(net.predict(x), x)
    kept = [net.engine.gradients(x, x, seed=1, step=step)[2] != 0 for step in (0, 1)]
    # 50,000 draws: the share's standard deviation is 0.002
    for k in kept:
        assert abs(k.mean() - 0.7) < 0.01
    assert (kept[0] != kept[1]).any()


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        # windows that do not fit are dropped
        ("1x7x8,maxpool3", (1, 2, 2)),
        ("1x7x8,conv2k3s4", (2, 2, 2)),
        # divided by the stride, rounded up
        ("1x28x28,conv4k2same", (4, 28, 28)),
        ("1x7x8,conv2k3s3same", (2, 3, 3)),
    ],
)
def test_shapes_of_convolutions_and_pooling(spec, shape):
    assert parse(spec)[0].out_shape == shape


def test_a_kernel_larger_than_its_input_is_said_to_be():
    with pytest.raises(NnError, match="conv64k9 does not fit its input 64x5x5"):
        parse("64x5x5,conv64k9,10")


@pytest.mark.parametrize(
    "layers, message",
    [
        ("4,2147483647", None),
        ("4,2147483648,1", "2147483648 values are more than 2147483647"),
        ("2147483647,1", None),
        ("2147483648,1", "the input 2147483648 must have between 1 and 2147483647"),
        ("1x40000x40000,conv2k1,1", "3200000000 values are more than 2147483647"),
        ("1x4x4,pad2147483647,1", " are more than 2147483647"),
        ("1x4x4,conv4k3s2147483647p2147483647,1", None),
        ("1x4x4,conv4k3s2147483647p2147483648,1", "a number is too large"),
        ("1x4x4,conv4k3s2147483648,1", "a number is too large"),
        ("1x4x4,conv4k2147483648same,1", "a number is too large"),
        ("1x4x4,maxpool2s2147483647,1", None),
        ("1x4x4,maxpool2s2147483648,1", " are more than 2147483647"),
    ],
)
def test_no_number_of_a_layer_is_larger_than_the_core_counts(layers, message):
    if message is None:
        assert parse(layers)
        return
    with pytest.raises(NnError, match=f"layers: .*{message}") as refused:
        parse(layers)
    assert "\n" not in str(refused.value)


def pooled_gaps(backend: str, kernel: int) -> None:
    """Assert that a NaN anywhere in a window is what max pooling makes of it."""
    layers = parse(f"2x6x6,maxpool{kernel},flatten,1:linear")
    engine = backends.create(backend, layers[:1], "mse", "float32")
    side = 6 // kernel
    x = np.arange(36 * 72, dtype=np.float32).reshape(36, 2, 6, 6)
    places = [(row, row // 6, row % 6) for row in range(36)]
    expected = np.zeros((36, 2, side, side), bool)
    for row, line, column in places:
        x[row, row % 2, line, column] = np.nan
        expected[row, row % 2, line // kernel, column // kernel] = True
    out = engine.predict(engine.load(x))
    np.testing.assert_array_equal(np.isnan(out.reshape(expected.shape)), expected)


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("kernel", [2, 3])
def test_a_maximum_of_a_window_with_a_nan_is_one(backend, kernel):
    pooled_gaps(backend, kernel)


@pytest.mark.skipif(not can_emulate(), reason="there is no C++ compiler")
def test_a_maximum_of_a_window_with_a_nan_is_one_on_the_gpu(monkeypatch):
    with emulated_gpu(monkeypatch):
        pooled_gaps("cuda", 2)


@pytest.mark.parametrize(
    "task, each", [("multiclass", "class"), ("multilabel", "target")]
)
def test_a_task_of_several_outputs_has_two_at_least(task, each):
    told = f"--layers: a {task} task needs an output for each {each}, at least 2"
    with pytest.raises(UsageError, match=told):
        nn.Network("3,1:sigmoid", task)
    assert nn.Network("3,2", task).outputs == 2
