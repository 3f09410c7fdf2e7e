"""Every layer kind, activation, loss and optimiser on the GPU, against plain float64
NumPy and against seq."""

import gc

import numpy as np
import pytest
from support.distances import relative_distance
from support.epochs import ended, settings
from support.networks import (
    ALONE,
    STACKS,
    check_against_numpy,
    fill,
    flattened,
    network,
    twins,
)

from nn.backends.cuda import engine as cuda
from nn.backends.cuda.runner import Phases
from nn.nn_aux import LOSSES, OPTIMIZERS, loss_name

EXPONENTIALS = [("6,5,1:exp", "regression"), ("6,5,3:exp", "regression")]
WITH_THEIR_ACTIVATION = {  # losses that are taken from logits
    "ce": [("6,5:tanh,4", "multiclass"), ("6,5:tanh,70", "multiclass")],
    "bce": [("6,5,1", "binary"), ("6,5,3:sigmoid", "regression")],
    "focal": [("6,5,1", "binary"), ("6,5,3:sigmoid", "regression")],
    **dict.fromkeys(("poisson", "gamma", "tweedie"), EXPONENTIALS),
}
WITH_ANY_ACTIVATION = [
    ("6,5:tanh,4:softmax", "multiclass"),
    ("6,5:tanh,2:softmax", "multiclass"),
    ("6,5,3:sigmoid", "regression"),
    ("6,5,3", "regression"),
]
# outputs -> several quantiles: a row of a lane, of a warp, of more than a warp's lanes
QUANTILES = {
    k: "quantile=" + ",".join(f"{i / (k + 1):.3f}" for i in range(1, k + 1))
    for k in (2, 3, 40)
}
WITH_MOMENTUM = settings(optimizer="sgd", batch=300, momentum=0.5)
# three tiles of a product each way, and one value more than whole tiles
PRODUCTS = ["129,130", "257,1", "1,257", "2,300:tanh,33", "2000,3"]
# convolutions by conv_winograd.cu whose channels, filters and tiles do not fill their
# blocks; one pools, too
FEWER_MULTIPLICATIONS = [
    "16x9x7,conv33k3p1:tanh,conv16k3:tanh,5",
    "20x8x10,conv18k3p1:tanh,maxpool2:tanh,3",
    "17x8x10,conv40k3p1:tanh,maxpool2,3",
]
# ends that are one op (dense.Last): dz of the layer below worked out, sums finished,
# rows shared by warps
ENDS = [
    "20,700:tanh,1",
    "300,90:tanh,7",
    "30,40:tanh,1500:sigmoid,2",
    "12,16",
    "3x5x5,conv4k3:tanh,dropout0.5,5",
]


@pytest.mark.parametrize(
    ("spec", "dtype", "rows"),
    [
        *(
            (spec, dtype, 3)
            for spec in [*ALONE, *STACKS, *PRODUCTS]
            for dtype in ("float64", "float32")
        ),
        *((spec, "float64", rows) for spec in STACKS for rows in (1, 33, 130)),
        *(
            (spec, "float32", rows)
            for spec in FEWER_MULTIPLICATIONS
            for rows in (1, 33, 130)
        ),
    ],
)
def test_a_network_agrees_with_numpy(spec, dtype, rows, backend):
    check_against_numpy(network(spec, backend, dtype), rows)


@pytest.mark.parametrize("spec", ["30,1", "30,17"])
def test_a_layer_alone_predicts_many_batches(spec, backend):
    """Its only phase reads the rows that the next batch's replace."""
    (seq, ours), (x, y) = twins(spec, ("seq", backend), "float64", 20_000)
    expected = seq.predict(x)
    assert relative_distance(ours.predict(x), expected) < 1e-13
    losses = [
        net.engine.loss(net.engine.load(x.reshape(20_000, -1), y), np.arange(20_000))
        for net in (seq, ours)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)]
)
@pytest.mark.parametrize("rows", [7, 300])
@pytest.mark.parametrize("spec", ENDS)
def test_the_last_layers_step_as_seq_does(
    spec, rows, dtype, tolerance, backend, monkeypatch
):
    """As an epoch in one launch and as graphs, ending in a short batch; nothing of it
    is `gradients`' program."""
    monkeypatch.setattr(cuda.small, "fits", lambda *_: False)
    backends = ("seq", backend, backend)
    nets, (x, y) = twins(spec, backends, dtype, 2 * rows + 3)
    how = settings(optimizer="sgd", batch=rows, rates=[0.05] * 9, seed=3)
    ends = []
    for net, limit in zip(nets, (None, 0, 1e12)):
        monkeypatch.setattr(cuda, "WHOLE_EPOCH_FLOPS", limit)
        order = np.arange(len(x))
        ends.append(ended(net, x, y, how, order=order))
    for end in ends[1:]:
        distance = relative_distance(end.parameters, ends[0].parameters)
        assert distance < tolerance
        assert end.losses == pytest.approx(ends[0].losses, rel=100 * tolerance)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize(
    ("spec", "task", "loss"),
    [
        *((f"6,5:tanh,{k}", "regression", loss) for k, loss in QUANTILES.items()),
        *(
            (*case, loss)
            for loss in (*LOSSES, "huber=0.25", "quantile=0.9", "tweedie=1.2")
            for case in WITH_THEIR_ACTIVATION.get(loss_name(loss), WITH_ANY_ACTIVATION)
        ),
    ],
)
def test_every_loss_agrees_with_seq(spec, task, loss, labels, backend):
    """Values, gradients, and the parameters after an epoch that ends in a short
    batch."""
    nets, (x, y) = twins(spec, ("seq", backend), "float64", 10, task=task, loss=loss)
    largest = max(2, nets[0].outputs)
    classes = np.arange(10) % largest
    if task != "regression":
        y = nets[0].target_rows(classes.astype(float) if task == "binary" else classes)
    if labels and task == "multiclass":
        targets = classes.astype(np.int32)
    else:
        targets = y
    ends = []
    for net in nets:
        value, grads, dx = net.engine.gradients(x.reshape(10, -1), y)
        how = settings(optimizer="sgd", batch=4, rates=[0.1] * 9)
        indices = np.arange(10)[::-1]
        order = indices.copy()
        end = ended(net, x, targets, how, order=order)
        assert end.step == 3
        parts = (
            [value],
            grads,
            dx,
            end.losses,
            end.parameters,
            [net.engine.loss(end.data, np.arange(7))],
        )
        ends.append([np.ravel(part) for part in parts])
    for mine, theirs in zip(*ends, strict=True):
        assert relative_distance(mine, theirs) < 1e-12


# one block of the small networks' kernel, and several
@pytest.mark.parametrize("rows", [3, 200])
@pytest.mark.parametrize(
    ("optimizer", "momentum"), [*((name, 0.0) for name in OPTIMIZERS), ("sgd", 0.9)]
)
@pytest.mark.parametrize(
    ("spec", "scale_rate"),
    [
        ("9,30,17:tanh,2", 0.0),
        ("45,30,17:tanh,2", 3.0),
        ("2x6x6,conv4k2same:tanh,avgpool2,5:sigmoid,2", 0.0),
    ],
)
def test_every_optimizer_steps_as_seq_does(
    spec, scale_rate, optimizer, momentum, dtype, rows, backend
):
    nets, (x, y) = twins(spec, ("seq", backend), dtype, 3 * rows + 1)
    falling = list(np.linspace(0.01, 0.002, 9))
    how = settings(
        optimizer=optimizer,
        batch=rows,
        rates=falling,
        momentum=momentum,
        weight_decay=0.2,
        scale_rate=scale_rate,
        seed=1,
    )
    ends = [ended(net, x, y, how, step=2) for net in nets]
    if dtype == "float64":
        tolerance = 1e-12
    else:
        tolerance = 1e-5
    expected = ends[0][0]
    assert relative_distance(ends[1][0], expected) < tolerance
    if momentum or optimizer != "sgd":
        expected = ends[0][1]
        distance = relative_distance(ends[1][1], expected)
        assert distance < 10 * tolerance


def test_bytes_become_pixels_as_in_seq(backend):
    nets, _ = twins(
        "1x6x6,conv3k2,maxpool2,4", ("seq", backend), "float64", 1, task="multiclass"
    )
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (50, 36), np.uint8)
    draws = rng.integers(0, 4, 50)
    y = draws.astype(np.int32)
    ends = []
    for net in nets:
        end = ended(net, x, y, settings(batch=8), order=np.arange(50))
        indices = np.arange(3, 40)
        predictions = net.engine.predict(end.data, indices)
        ends.append((end.parameters, predictions))
    assert max(map(relative_distance, ends[1], ends[0])) < 1e-12


def test_a_dead_engine_does_not_end_a_capture(gpu, monkeypatch):
    """An engine that nobody has any more closes cuBLAS when it is collected, which CUDA
    forbids within a capture."""
    monkeypatch.setattr(cuda, "WHOLE_EPOCH_FLOPS", 0)
    captures = []
    launch = Phases._launch

    def launch_and_drop(phases, rows):
        if gpu.cuda.get_current_stream().is_capturing():
            captures.append(rows)
            dead.clear()
            if gc.isenabled():
                gc.collect()
        launch(phases, rows)

    def trained():
        net = network("50,1031:tanh,1500:sigmoid,2", "cuda")
        ended(net, *fill(net, 700), WITH_MOMENTUM)
        return net

    dead = [trained()]
    dead[0].itself = dead[0]
    monkeypatch.setattr(Phases, "_launch", launch_and_drop)
    trained()
    assert captures
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)]
)
def test_products_of_cublas_agree_with_omp(dtype, tolerance, backend, monkeypatch):
    """Products large enough for cuBLAS, among others; a graph for whole batches and one
    for the short last one."""
    monkeypatch.setattr(cuda, "WHOLE_EPOCH_FLOPS", 0)
    (omp, ours), (x, y) = twins(
        "50,1031:tanh,1500:sigmoid,1029:tanh,2", ("omp", backend), dtype, 700
    )
    theirs = omp.gradients(x[:300], y[:300])
    mine = ours.gradients(x[:300], y[:300])
    ends = [
        ended(net, x, y, WITH_MOMENTUM, order=np.arange(700)).parameters
        for net in (omp, ours)
    ]
    vector = flattened(mine[1])
    pairs = (
        (vector, flattened(theirs[1])),
        (mine[2], theirs[2]),
        (ends[1], ends[0]),
    )
    for pair in pairs:
        assert relative_distance(*pair) < tolerance
    expected = omp.predict(x)
    distance = relative_distance(ours.predict(x), expected)
    assert distance < 10 * tolerance


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("outputs", QUANTILES)
def test_several_quantiles_are_predicted_as_on_seq_and_do_not_cross(
    outputs, dtype, backend
):
    spec = f"6,5:tanh,{outputs}"
    nets, (x, _) = twins(spec, ("seq", backend), dtype, 300, loss=QUANTILES[outputs])
    expected, found = [net.predict(x) for net in nets]
    assert (np.diff(found, axis=1) >= 0).all()
    assert relative_distance(found, expected) < {"float32": 1e-5}.get(dtype, 1e-12)
