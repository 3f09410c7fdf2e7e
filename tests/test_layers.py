"""Each layer kind, alone and stacked, against plain NumPy (plain_layers.py) and examples worked by hand."""

import numpy as np
import plain_layers
import pytest

from nn.layers import parse
from nn.nn import Network
from nn.utils import NnError

BACKENDS = ["seq", "omp"]
# relative distance of a whole vector: rounding of sums of some thousand terms, float64 and float32
TOLERANCE = {"float64": 1e-13, "float32": 2e-6}

# one layer alone; the last item's output is the network's, so that its gradient can be chosen freely
ALONE = [
    "1x1x1,conv1k1",
    "3x1x1,conv5k3p1",
    "2x5x7,conv3k2",
    "3x7x5,conv4k3p1:tanh",
    "1x28x28,conv4k2same",
    "4x13x11,conv4k2same",
    "5x9x9,conv7k3s2p1",
    "2x11x7,conv3k2s3",  # stride larger than the kernel: gaps
    "2x12x13,conv2k5s4same",
    "3x4x3,conv2k3p5",  # padding larger than the kernel: outputs that see zeros only
    "1x2x9,conv17k2s2p3",
    "16x6x33,conv16k3p1",  # whole vectors of channels
    "17x5x17,conv33k3p1",  # one more than whole vectors and tiles
    "31x3x29,conv15k3",
    "32x10x10,conv64k3p1",
    "33x7x7,conv65k1",
    "8x17x19,conv12k4s2p1",
    "3x20x9,conv24k5s3p2",
    "2x9x40,conv3k7p3",
    "16x8x8,conv5k3",  # few outputs of many channels
    "3x32x32,conv16k3p1",
    "64x3x3,conv48k3",  # one window
    "18x9x23,conv20k3p4",
    "21x13x6,conv35k3same",
    "40x4x4,conv16k3p1",
    "16x19x18,conv32k3s2p1",
    "3x9x9,conv3k5s7p4",
    "1x3x3,maxpool2",
    "3x7x5,maxpool2s1",  # windows that overlap
    "2x11x13,maxpool2s3",  # windows with gaps
    "5x8x8,maxpool4",
    "17x9x6,maxpool3s2",
    "16x6x6,maxpool2",
    "33x5x4,maxpool2",
    "1x1x1,maxpool1",
    "3x7x5,avgpool2s1",
    "2x11x13,avgpool2s3",
    "5x8x8,avgpool4:sigmoid",
    "17x9x6,avgpool3s2",
    "32x6x7,avgpool3",
    "1x1x1,pad3",
    "3x5x7,pad2:tanh",
    "17x3x3,pad1",
    "16x5x4,pad4",
    "2x3x5,flatten",
    "17x3x5,flatten:sigmoid",
    "7,5",
    "33,17:tanh",
]
STACKS = [
    "1x12x12,conv4k2same:tanh,conv4k2same:tanh,maxpool4,8:tanh,3",
    "3x16x16,conv16k3p1:relu,maxpool2,conv32k3p1:relu,maxpool2,20:relu,10",
    "3x10x10,conv16k3:softplus,conv32k3:lrelu,avgpool2,conv3k3,7",
    "3x8x8,pad4,conv17k3:tanh,maxpool3s2,conv5k2,pad1:sigmoid,avgpool2,4",
    "2x9x9,maxpool2s1,conv16k3s2p1:relu,pad1,conv16k1:relu,flatten:tanh,5",
    "16x6x6,conv3k2,conv20k2:relu,conv2k2",
    "1x6x6,flatten,9,4:relu",
    "5x7x7,conv32k3p1:relu,conv64k3p1:relu,maxpool2,conv16k3p1:tanh,6",
    "3x6x6,conv16k3p1:relu,maxpool2",
    "3x9x9,conv18k3:relu,maxpool2s1,conv16k3:relu,maxpool3s2:relu,3",
    "2x18x21,conv8k3p1:relu,dropout0.2,conv4k2same:tanh,conv2k3:relu,maxpool2,flatten,dropout0.2,3",
    "1x17x16,conv4k5p2:relu,maxpool3,conv6k2,conv1k3:sigmoid",
]


def network(spec, backend="seq", dtype="float64", **options):
    if backend == "omp":
        pytest.importorskip("nn.backends._omp", reason="the omp extension is not built")
    return Network(spec, "regression", backend=backend, dtype=dtype, **options)


def fill(net, rows, seed=7):
    """Random parameters, biases too, such that no layer saturates; x and y of that many rows."""
    rng = np.random.default_rng(seed)
    for name, values in net.parameters().items():
        fan_in = np.prod(values.shape[1:])
        net.set_parameters({name: rng.normal(size=values.shape) / np.sqrt(fan_in)})
    x = rng.normal(size=(rows, *net.layers[0].in_shape)).astype(net.dtype)
    return x, rng.normal(size=(rows, net.outputs)).astype(net.dtype)


def distance(a, b):
    a, b = np.ravel(a).astype(np.float64), np.ravel(b).astype(np.float64)
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300)


def check_against_numpy(net, rows):
    x, y = fill(net, rows)
    tolerance = TOLERANCE[net.dtype]
    outs = plain_layers.forward(net.layers, net.parameters(), x)
    assert distance(net.predict(x), outs[-1]) < tolerance
    loss, grads, dx = net.gradients(x, y)
    want_loss, want, want_dx = plain_layers.gradients(net.layers, net.parameters(), x, y)
    assert loss == pytest.approx(want_loss, rel=tolerance)
    assert np.linalg.norm(want_dx) > 0
    assert distance(dx, want_dx) < 4 * tolerance
    assert grads.keys() == want.keys()
    for name in grads:
        assert distance(grads[name], want[name]) < 4 * tolerance, name


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("spec", ALONE)
def test_a_layer_alone_agrees_with_numpy(spec, backend, dtype):
    check_against_numpy(network(spec, backend, dtype), rows=3)


@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("spec", STACKS)
def test_a_stack_of_layers_agrees_with_numpy(spec, backend, rows):
    check_against_numpy(network(spec, backend), rows)


@pytest.mark.parametrize("spec", STACKS)
def test_omp_in_float32_agrees_with_seq_in_float32(spec):
    """Median of 20 batches, as single ones may turn on a relu's or a maximum's rounding."""
    seq, omp = network(spec, "seq", "float32"), network(spec, "omp", "float32")
    apart = []
    for seed in range(20):
        x, y = fill(seq, 4, seed)
        fill(omp, 4, seed)
        both = [net.gradients(x, y)[1] for net in (omp, seq)]
        apart.append(distance(*(np.concatenate([g.ravel() for g in grads.values()]) for grads in both)))
    assert np.median(apart) < 1e-5


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("spec", [*STACKS, "3x32x32,conv16k3p1,maxpool2,conv32k3p1,maxpool2,100,10"])
def test_omp_gives_the_same_bits_for_any_thread_count(spec, dtype):
    results = []
    for threads in (1, 2, 3, 8):
        net = network(spec, "omp", dtype, threads=threads)
        x, y = fill(net, 37)
        loss, grads, dx = net.gradients(x, y)
        results.append((loss, bytes(dx), bytes(net.predict(x)), *map(bytes, grads.values())))
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_does_not_depend_on_the_batch_around_it(backend):
    net = network(STACKS[1], backend, "float32")
    x, _ = fill(net, 9)
    whole = net.predict(x)
    assert all(np.array_equal(net.predict(x[i : i + 1])[0], whole[i]) for i in range(9))


# ---- examples worked by hand: Zhang, Lipton, Li, Smola, «Dive into Deep Learning», sections 7.2, 7.3 and 7.5

IMAGE = np.arange(9.0).reshape(1, 1, 3, 3)
KERNEL = {"layer0.weight": np.arange(4.0).reshape(1, 1, 2, 2), "layer0.bias": [0.0]}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "item, expected",
    [
        ("conv1k2", [[19, 25], [37, 43]]),
        ("conv1k2p1", [[0, 3, 8, 4], [9, 19, 25, 10], [21, 37, 43, 16], [6, 7, 8, 0]]),
        ("conv1k2same", [[19, 25, 10], [37, 43, 16], [7, 8, 0]]),  # the odd zero is right and bottom
        ("maxpool2s1", [[4, 5], [7, 8]]),
        ("avgpool2s1", [[2, 3], [5, 6]]),
    ],
)
def test_the_published_example_worked_by_hand(item, expected, backend, dtype):
    net = network(f"1x3x3,{item}", backend, dtype)
    if net.parameter_count:
        net.set_parameters(KERNEL)
    assert net.predict(IMAGE).tolist() == [np.ravel(expected).tolist()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_the_example_worked_by_hand(backend):
    """With targets 0 and 4 outputs, dz = 2 out / 4 = (9.5, 12.5, 18.5, 21.5)."""
    net = network("1x3x3,conv1k2", backend)
    net.set_parameters(KERNEL)
    loss, grads, dx = net.gradients(IMAGE, np.zeros((1, 4)))
    dz = np.array([[9.5, 12.5], [18.5, 21.5]])
    assert loss == (19**2 + 25**2 + 37**2 + 43**2) / 4
    assert grads["layer0.bias"].tolist() == [dz.sum()]
    patches = [IMAGE[0, 0, y : y + 2, x : x + 2] for y in (0, 1) for x in (0, 1)]
    assert grads["layer0.weight"].ravel().tolist() == [(patch * dz).sum() for patch in patches]
    assert dx[0, 0].tolist() == [
        [0 * 9.5, 1 * 9.5 + 0 * 12.5, 1 * 12.5],
        [2 * 9.5 + 0 * 18.5, 3 * 9.5 + 2 * 12.5 + 1 * 18.5 + 0 * 21.5, 3 * 12.5 + 1 * 21.5],
        [2 * 18.5, 3 * 18.5 + 2 * 21.5, 3 * 21.5],
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tie_in_max_pooling_goes_to_the_first_in_row_major_order(backend):
    net = network("1x2x4,maxpool2", backend)
    _, _, dx = net.gradients(np.array([[[[1.0, 1, 0, 2], [1, 1, 2, 2]]]]), np.zeros((1, 2)))
    assert dx[0, 0].tolist() == [[1, 0, 0, 2], [0, 0, 0, 0]]


# ---- dropout


def philox(seed, counter):
    """Philox4x32-10 in Python's own numbers (Salmon et al. 2011)."""
    c, key, low = list(counter), [seed, 0], 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & low, (a >> 32) ^ c[3] ^ key[1], a & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return c


def dropout_mask(shape, rate, seed, step, layer):
    """Factors of a batch by the rule of the README: word e % 4 of block (e / 4, step, layer)."""
    size = int(np.prod(shape))
    words = [w for block in range(-(-size // 4)) for w in philox(seed, (block, 0, step, layer))][:size]
    return (np.array(words).reshape(shape) >= rate * 2**32) / (1 - rate)


def test_philox_gives_the_published_words():
    """Known answers of Random123 (kat_vectors, philox4x32 10)."""
    assert philox(0, (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "spec",
    [
        "7,dropout0.5",
        "5x3x3,dropout0.25:sigmoid",
        "17x5x3,conv18k2:tanh,dropout0.3,conv3k2,dropout0.9,flatten,3",
    ],
)
def test_dropout_draws_the_masks_of_the_rule(spec, backend):
    net = network(spec, backend)
    x, y = fill(net, 5)
    masks = {
        index: dropout_mask((5, *layer.out_shape), layer.rate, 12345, 678, index)
        for index, layer in enumerate(net.layers)
        if layer.kind == "dropout"
    }
    loss, vector, dx = net.engine.gradients(x.reshape(5, -1), y, seed=12345, step=678)
    want_loss, want, want_dx = plain_layers.gradients(net.layers, net.parameters(), x, y, masks)
    assert loss == pytest.approx(want_loss, rel=1e-12)
    assert distance(dx, want_dx) < 1e-12
    for name, grad in net._named(vector).items():
        assert distance(grad, want[name]) < 1e-12, name


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_is_the_identity_when_predicting(backend):
    net = network("6x4x4,dropout0.5", backend)
    x, _ = fill(net, 3)
    assert np.array_equal(net.predict(x), x.reshape(3, -1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_drops_its_share_and_differs_from_step_to_step(backend):
    net = network("1000,dropout0.3", backend)
    x = np.ones((50, 1000))
    kept = [net.engine.gradients(x, x, seed=1, step=step)[2] != 0 for step in (0, 1)]
    # 50,000 draws: the share's standard deviation is 0.002
    assert all(abs(k.mean() - 0.7) < 0.01 for k in kept)
    assert (kept[0] != kept[1]).any()


# ---- shapes


def shapes(spec):
    return [layer.out_shape for layer in parse(spec)]


def test_windows_that_do_not_fit_are_dropped():
    assert shapes("1x7x8,maxpool3")[0] == (1, 2, 2)
    assert shapes("1x7x8,conv2k3s4")[0] == (2, 2, 2)


def test_same_keeps_the_size_at_stride_1_and_divides_it_rounded_up_otherwise():
    assert shapes("1x28x28,conv4k2same")[0] == (4, 28, 28)
    assert shapes("1x7x8,conv2k3s3same")[0] == (2, 3, 3)


def test_the_digit_network_has_26594_parameters():
    layers = parse("1x28x28,conv4k2same,conv4k2same,maxpool4,128,10")
    assert sum(layer.parameters for layer in layers) == 26594


def test_a_kernel_larger_than_its_input_is_said_to_be():
    with pytest.raises(NnError, match="conv64k9 does not fit its input 64x5x5"):
        parse("64x5x5,conv64k9,10")
