"""The small networks that tests compare with NumPy and with each other, and the judge
of one."""

import numpy as np
import pytest

from nn import Dataset, train
from nn.backends.cuda import cudnn, device
from nn.layers import InputColumn
from nn.nn import Network
from nn.nn.parameters import by_name
from nn.nn_aux import ACTIVATIONS, LOSSES, loss_name
from nn.utils import UsageError
from support import plain_layers
from support.distances import relative_distance

BACKENDS = ["seq", "omp"]
# relative distance of a whole vector: rounding of sums of some thousand terms, float64
# and float32
TOLERANCE = {"float64": 1e-13, "float32": 2e-6}

# one layer alone; the last item's output is the network's, so that its gradient can be
# chosen freely
ALONE = [
    "1x1x1,conv1k1",
    "3x1x1,conv5k3p1",
    "2x5x7,conv3k2",
    "3x7x5,conv4k3p1:tanh",
    "1x28x28,conv4k2same",
    "4x13x11,conv4k2same",
    "5x9x9,conv7k3s2p1",
    "2x12x13,conv2k5s4same",
    "1x2x9,conv17k2s2p3",
    "2x11x7,conv3k2s3",  # stride larger than the kernel: gaps
    "3x4x3,conv2k3p5",  # padding larger than the kernel: outputs that see zeros only
    # whole vectors of channels; one more than those and tiles
    "16x6x33,conv16k3p1",
    "17x5x17,conv33k3p1",
    "31x3x29,conv15k3",
    "32x10x10,conv64k3p1",
    "33x7x7,conv65k1",
    "8x17x19,conv12k4s2p1",
    "3x20x9,conv24k5s3p2",
    "2x9x40,conv3k7p3",
    "3x32x32,conv16k3p1",
    "18x9x23,conv20k3p4",
    "21x13x6,conv35k3same",
    "40x4x4,conv16k3p1",
    "16x19x18,conv32k3s2p1",
    "3x9x9,conv3k5s7p4",
    "16x8x8,conv5k3",
    "64x3x3,conv48k3",  # few outputs of many channels; one window
    # windows that overlap; with gaps
    "1x3x3,maxpool2",
    "3x7x5,maxpool2s1",
    "2x11x13,maxpool2s3",
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
    "mixed,5",
    "onehot,17:tanh",
    "table,1",
    "pieces,6",
    "waves,7",
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
    "mixed,dropout0.2,20:relu,flatten,18:gelu,3",
    "table,60:tanh,10:relu,1",
    "onehot,40:relu,8:tanh,2",
    "pieces,40:tanh,8:relu,2",
    "waves,40:tanh,8:relu,2",
    "only waves,9:tanh,2",
]
# first word of a spec here -> the values of a row that its embedding layer reads
TABLES = {
    "mixed": (
        InputColumn("number"),
        InputColumn("gap", fill=0.25),
        InputColumn("embedding", 7, 3),
        InputColumn("onehot", 4),
        InputColumn("number"),
        InputColumn("embedding", 19, 5),
        InputColumn("embedding", 1, 1),
    ),
    "onehot": (
        InputColumn("gap", fill=-1.5),
        InputColumn("onehot", 33),
        InputColumn("onehot", 1),
    ),
    "table": (InputColumn("number"), InputColumn("embedding", 500, 17)),
    "pieces": (
        InputColumn("number", edges=(-0.5, 0.75)),
        InputColumn("gap", fill=0.3, edges=tuple(k / 8 - 2 for k in range(33))),
        InputColumn("embedding", 9, 2),
        InputColumn("number", edges=(-1.5, -1.0, 0.125, 0.25, 1.75, 3.0)),
    ),
    "waves": (
        InputColumn("number", waves=3),
        InputColumn("embedding", 9, 2),
        InputColumn("gap", fill=0.3, edges=(-0.5, 0.25, 0.75), waves=17),
        InputColumn("number"),
        InputColumn("onehot", 2),
        InputColumn("embedding", 5, 3),
        InputColumn("gap", fill=-1.5, waves=8),
    ),
    "only waves": (
        InputColumn("number"),
        InputColumn("number", waves=12),
        InputColumn("number", waves=1),
    ),
}
KINDS = {  # layer kind -> a network with a layer of it
    "dense": "7,5:tanh,3",
    "conv": "2x6x5,conv3k2:tanh,4",
    "pad": "2x4x3,pad2,conv3k2:tanh,3",
    "maxpool": "2x6x7,conv3k2:tanh,maxpool2,3",
    "avgpool": "2x6x7,conv3k2:tanh,avgpool2,3",
    "dropout": "6,9:tanh,dropout0.4,5:tanh,3",
    "flatten": "2x3x4,flatten:tanh,3",
    "activation": "2x5x4,conv3k2:silu,4:gelu,3",
    "embedding": "mixed,6:tanh,3",
}


# of the losses that need a certain one
OUTPUT_ACTIVATIONS = {
    "bce": "sigmoid",
    "focal": "sigmoid",
    "ce": "softmax",
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exp"),
}


QUANTILES = "quantile=0.1,0.5,0.8"


def with_activation(name: str) -> list[str]:
    """Return specs of networks that have the activation wherever it may stand."""
    if name == "softmax":
        return ["4,9:tanh,5:softmax"]
    if name == "steps":
        return ["4,9:tanh,3:steps"]
    if name == "exp":  # of itself it soon overflows
        return ["4,9:exp,5:tanh", "4,9:tanh,5:exp", "2x5x5,conv3k2:exp,maxpool2:tanh"]
    return [
        f"4,9:{name},5:{name}",
        f"2x5x5,conv3k2:{name},maxpool2:{name},flatten:{name}",
    ]


BELOW_A_LOSS = "6,5:tanh,3", "2x4x4,conv3k2:tanh,3"
EVERY_ACTIVATION = [spec for name in ACTIVATIONS for spec in with_activation(name)]
# every layer kind and activation that can be exported without a table
EXPORTED = [
    spec
    for spec in [*ALONE, *STACKS, *EVERY_ACTIVATION]
    if spec.partition(",")[0] not in TABLES
]
# every layer kind, activation and loss -> networks that have it, as (spec, options of a
# network)
EVERY = {
    **{kind: [(spec, {})] for kind, spec in KINDS.items()},
    **{name: [(spec, {}) for spec in with_activation(name)] for name in ACTIVATIONS},
    **{
        name: [
            (f"{below}:{OUTPUT_ACTIVATIONS.get(name, 'linear')}", {"loss": name})
            for below in BELOW_A_LOSS
        ]
        for name in LOSSES
    },
}


def require(backend: str) -> None:
    """Skip the test where the backend's extension, library or device is absent."""
    if backend in ("seq", "omp"):
        pytest.importorskip(
            f"nn.core._{backend}", reason=f"the {backend} extension is not built"
        )
        return
    try:
        device.cupy()
        if backend == "cudnn":
            cudnn.library()
    except UsageError as error:
        pytest.skip(str(error))


def network(spec, backend="seq", dtype="float64", task="regression", **options):
    """Return the network of a spec, whose first word may be one of TABLES."""
    require(backend)
    if spec.endswith("3:steps"):
        options.setdefault("loss", QUANTILES)
    first, _, items = spec.partition(",")
    if first in TABLES:
        spec = f"{len(TABLES[first])},{items}"
        options["input_columns"] = TABLES[first]
    return Network(spec, task, backend=backend, dtype=dtype, **options)


def encoded(backend, dtype, columns, x, frequencies=None):
    """Return (rows, outputs): what the embedding layer makes of rows of columns without
    tables, their waves of these frequencies; a dense layer lets one output pass."""
    outputs = sum(column.outputs for column in columns)
    if frequencies is None:
        dense = "layer0"
    else:
        dense = "layer1"
    net = network(f"{len(columns)},{outputs}", backend, dtype, input_columns=columns)
    net.set_parameters({} if frequencies is None else {"layer0.weight": frequencies})
    net.set_parameters(
        {f"{dense}.weight": np.eye(outputs), f"{dense}.bias": np.zeros(outputs)}
    )
    return net.predict(np.array(x, dtype))


def members_with_and_without_an_encoding(backend: str = "auto"):
    """Return rows of plain numbers and two trained networks of members that read them
    scaled, or encoded: the first one's own inputs are encoded, the other's are not."""
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(90, 3)).astype(np.float32)
    ds = Dataset(draws, rng.integers(0, 2, 90), "binary", ["0", "1"])
    nets = [Network("3,5,1", "binary", seed=seed, backend=backend) for seed in (0, 7)]
    for net, embedding in zip(nets, ("waves4", None)):
        train(net, ds, networks=2, epochs=2, number_embedding=embedding)
    both = []
    for first, second, embedding in ((*nets, "waves4"), (*nets[::-1], None)):
        net = Network("3,5,1", "binary", backend=backend)
        train(net, ds, epochs=1, number_embedding=embedding)
        net.combine([*first.members, *second.members], [1.0, 2.0, 1.0, 1.0])
        both.append(net)
    return ds.x, both


TARGETS = {  # loss -> targets that it can have, of normal numbers (rows, outputs)
    **dict.fromkeys(("mse", "mae", "huber", "quantile"), lambda values: values),
    **dict.fromkeys(("bce", "focal"), lambda values: (values > 0) * 1.0),
    **dict.fromkeys(("poisson", "tweedie"), lambda values: np.floor(2 * abs(values))),
    "gamma": lambda values: abs(values) + 0.1,
    "ce": lambda values: (values == values.max(1, keepdims=True)) * 1.0,
}


def fill(net, rows, seed=7):
    """Random parameters, biases too, such that no layer saturates; x and y of that many
    rows."""
    rng = np.random.default_rng(seed)
    for name, values in net.parameters().items():
        fan_in = np.prod(values.shape[1:])
        draws = rng.normal(size=values.shape)
        net.set_parameters({name: draws / np.sqrt(fan_in)})
    size = (rows, *net.layers[0].in_shape)
    x = rng.normal(size=size).astype(net.dtype)
    for k, column in enumerate(net.layers[0].columns):
        if column.kind == "gap":
            x[rng.random(rows) < 0.4, k] = np.nan
        elif column.values:  # a one-hot code may have no place
            x[:, k, 0, 0] = rng.integers(
                column.values + (column.kind == "onehot"), size=rows
            )
    draws = rng.normal(size=(rows, net.outputs))
    return x, TARGETS[loss_name(net.loss)](draws).astype(net.dtype)


def twins(spec, backends, dtype, rows, seed=7, **options):
    """Return the networks of some backends with the same random parameters, and x and y
    of that many rows."""
    nets = [network(spec, backend, dtype, **options) for backend in backends]
    filled = [fill(net, rows, seed) for net in nets]
    return nets, filled[0]


def flattened(named: dict) -> np.ndarray:
    """Return all values of named arrays as one vector."""
    return np.concatenate([values.ravel() for values in named.values()])


def check_against_numpy(net, rows, **draw):
    """draw: seed and step of the masks of dropout, if there are any."""
    x, _ = fill(net, rows)
    outs = plain_layers.forward(net.layers, net.parameters(), x)
    distance = relative_distance(net.predict(x), outs[-1])
    assert distance < TOLERANCE[net.dtype]
    check_gradients_against_numpy(net, rows, **draw)


def check_gradients_against_numpy(net, rows, **draw):
    x, y = fill(net, rows)
    tolerance = TOLERANCE[net.dtype]
    loss, vector, dx = net.engine.gradients(x.reshape(rows, -1), y, **draw)
    grads = by_name(net.layers, vector)
    if draw:
        masks = plain_layers.dropout_masks(net.layers, rows, **draw)
    else:
        masks = None
    want_loss, want, want_dx = plain_layers.gradients(
        net.layers, net.parameters(), x, y, masks, loss=net.loss
    )
    assert loss == pytest.approx(want_loss, rel=tolerance)
    assert np.linalg.norm(want_dx) > 0 or draw  # dropout may leave none
    distance = relative_distance(dx.reshape(want_dx.shape), want_dx)
    assert distance < 4 * tolerance
    assert grads.keys() == want.keys()
    for name in grads:
        distance = relative_distance(grads[name], want[name])
        assert distance < 4 * tolerance, name


class StopsAfter:
    """Progress whose stop flag is seen after some looks at it."""

    def __init__(self, looks):
        self.row = 0
        self.step = 0
        self.loss = 0.0
        self._looks = looks

    @property
    def stop(self):
        self._looks -= 1
        return self._looks < 0
