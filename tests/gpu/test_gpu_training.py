"""The promises of docs/numbers.md about the GPU: trainings that end where seq's end,
and the same bits in every run."""

import functools

import numpy as np
import pytest
from support.distances import relative_distance
from support.epochs import ended, settings
from support.moved_images import check_moves
from support.networks import fill, flattened

import nn
from nn.backends.cuda import engine as cuda

CC = "30,60,10,1"
DIGITS = "1x28x28,conv4k2same,conv4k2same,maxpool4,128,10"
IMAGES = "3x32x32,conv16k3p1,maxpool2,conv32k3p1,maxpool2,100,10"


FILES = {
    "fraud": "cc/CC_train.csv.gz",
    "digits": "mnist/train-images-idx3-ubyte.gz",
    "images": "cifar10/cifar10_train_4000.bin.gz",
}


def flat(net):
    return flattened(net.parameters())


@pytest.fixture(scope="module")
def data(shared):
    """A function: the first rows of a data set."""
    load = functools.cache(lambda name: nn.load(shared / "data" / FILES[name]))

    def part(name, rows=None, dtype=None):
        ds = load(name)
        return nn.Dataset(
            ds.x[:rows].astype(dtype or ds.x.dtype), ds.y[:rows], ds.task, ds.classes
        )

    return part


def trained(spec, backend, rows, record=0, **flags):
    """(network, data set of random rows, what training told); record: as many
    batches."""
    net = nn.Network(spec, "regression", backend=backend)
    ds = nn.Dataset(*fill(net, rows), "regression")
    net.engine.record(record)
    return net, ds, nn.train(net, ds, scaling="none", **flags)


@pytest.mark.parametrize("spec", [CC, DIGITS, "50,800,400,1"])
def test_recorded_calls_tell_each_layer_and_predict_the_same(spec, backend):
    net = nn.Network(spec, "regression", backend=backend)
    x, _ = fill(net, 3000)
    expected = net.predict(x)
    net.engine.record(2, predicts=True)
    np.testing.assert_allclose(net.predict(x), expected, rtol=1e-5, atol=1e-6)
    net.predict(x[:7])
    calls = net.engine.recorded()
    assert len(calls) == 2
    for call in calls:
        assert 0 < call[0].rows <= 3000
        forward = {step.layer for step in call if step.name == "forward"}
        assert max(forward) == len(net.layers) - 1
        assert {step.name for step in call} == {"gather", "forward"}
        assert call[-1].end > call[0].begin


def ends(ds, spec, backends, dtype, **flags):
    """The networks that each backend ends with."""
    nets = [
        nn.Network(spec, ds.task, backend=backend, dtype=dtype) for backend in backends
    ]
    for net in nets:
        nn.train(net, ds, **flags)
    return nets


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)]
)
@pytest.mark.parametrize(
    ("spec", "rows"), [(CC, 32), (DIGITS, 8), (IMAGES, 4), ("50,800,400,1", 20)]
)
def test_one_batch_has_the_gradients_of_seq(spec, rows, dtype, tolerance, backend):
    """The median of 20 batches: a single one may exceed the tolerance where a relu or
    maximum turns on a rounding."""
    nets = [
        nn.Network(spec, "regression", backend=b, dtype=dtype) for b in ("seq", backend)
    ]
    apart = []
    for seed in range(20):
        gradients = []
        for net in nets:
            x, y = fill(net, rows, seed)
            gradients.append(net.engine.gradients(x.reshape(rows, -1), y)[1])
        theirs, mine = gradients
        assert np.linalg.norm(theirs) > 0
        apart.append(relative_distance(mine, theirs))
    assert np.median(apart) < tolerance


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "adagrad"])
def test_three_epochs_on_the_fraud_data_end_where_seq_ends(data, optimizer, backend):
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-5)):
        ds = data("fraud", 6000, dtype)
        seq, ours = ends(
            ds,
            CC,
            ("seq", backend),
            dtype,
            epochs=3,
            optimizer=optimizer,
            batch_number=32,
        )
        distance = relative_distance(flat(ours), flat(seq))
        assert distance < tolerance, dtype


@pytest.mark.parametrize(
    ("name", "rows", "spec"), [("digits", 330, DIGITS), ("images", 170, IMAGES)]
)
def test_three_epochs_of_a_convolutional_network_in_float64_end_where_seq_ends(
    data, name, rows, spec, backend
):
    seq, ours = ends(
        data(name, rows), spec, ("seq", backend), "float64", epochs=3, holdout=0.0
    )
    assert relative_distance(flat(ours), flat(seq)) < 1e-9


# 1 point; the image set holds out 800 rows, of which a few turn with every rounding:
# three of their deviations
@pytest.mark.parametrize(
    ("name", "spec", "epochs", "points", "rel"),
    [
        ("digits", DIGITS, 1, 0.01, 0.02),
        ("images", IMAGES, 4, 0.01 + 3 * np.sqrt(0.25 / 800), 0.05),
    ],
)
def test_digits_and_images_in_float32_are_as_accurate_as_omp(
    data, name, spec, epochs, points, rel, backend
):
    ds = data(name)
    figures = []
    for net in ends(ds, spec, ("omp", backend), "float32", epochs=epochs):
        held = nn.ds.split_rows(ds, net.holdout, 0.0, net.seed).holdout
        few = nn.Dataset(x=ds.x[held], y=ds.y[held], task=ds.task, classes=ds.classes)
        accuracy = nn.test(net, few)["accuracy"]
        loss = net.history["loss"]
        figures.append((accuracy, loss[-1]))
    difference = abs(figures[0][0] - figures[1][0])
    assert difference < points
    expected = figures[0][1]
    assert figures[1][1] == pytest.approx(expected, rel=rel)


@pytest.mark.parametrize("raw", [True, False])
def test_images_are_moved_as_on_the_processor(data, raw, backend):
    """Training with --augment has the bits of training on images that the rule has
    moved; of streamed ones too."""
    ds = data("images", 330)
    if raw:
        x = ds.x
    else:
        x = (ds.x / 255).astype(np.float32)
    y = ds.y.astype(np.int32)
    check_moves(
        lambda: nn.Network(IMAGES, "multiclass", backend=backend),
        x,
        y,
        "both",
        rooms=(None, 0),
    )


@pytest.mark.parametrize(
    ("spec", "rows"),
    [(CC, 10), (CC, 700), (DIGITS, 32), (IMAGES, 32), ("30,2000,1500,1", 500)],
)
def test_every_run_gives_the_same_bits(spec, rows, backend):
    results = []
    for _ in range(2):
        net, ds, figures = trained(
            spec, backend, 4 * rows + 3, epochs=2, batch_number=rows
        )
        bits = flat(net).tobytes()
        predictions = net.predict(ds.x)
        results.append(
            (bits, figures["loss"], figures["val_loss"], predictions.tobytes())
        )
    assert results[0] == results[1]


@pytest.mark.parametrize("spec", [CC, IMAGES])
def test_an_epoch_that_stops_goes_on_with_the_same_bits(spec, backend, monkeypatch):
    monkeypatch.setattr(cuda, "FIRST_BATCHES", 3)
    results = []
    for pieces in (1, 2):
        net = nn.Network(spec, "regression", backend=backend)
        end = ended(
            net,
            *fill(net, 500),
            settings(rates=list(np.linspace(0.01, 0, 9))),
            pieces=pieces,
        )
        results.append((*end.bits, end.step))
    assert results[0] == results[1]


def test_whole_epochs_and_graphs_give_the_same_bits(gpu, monkeypatch):
    results = set()
    for limit in (0, cuda.WHOLE_EPOCH_FLOPS):
        monkeypatch.setattr(cuda, "WHOLE_EPOCH_FLOPS", limit)
        net, *_ = trained(
            "3x12x12,conv9k3p1,maxpool2,dropout0.2,40,3",
            "cuda",
            100,
            epochs=2,
            batch_number=16,
        )
        results.add(flat(net).tobytes())
    assert len(results) == 1


def test_a_streamed_data_set_gives_the_same_bits(backend, monkeypatch):
    monkeypatch.setattr("nn.backends.cuda.data.STREAMED_BYTES", 20_000)
    for spec in (CC, "1x6x6,conv3k2,maxpool2,4"):
        results = []
        for room in (None, 1000):
            net = nn.Network(spec, "regression", backend=backend)
            end = ended(net, *fill(net, 1003), settings(), room=room)
            assert end.data.resident == (room is None)
            indices = np.arange(900)[::-1].copy()
            predictions = net.engine.predict(end.data, indices)
            out = (net.engine.predict(end.data), predictions)
            results.append((*end.bits, *(o.tobytes() for o in out)))
        assert results[0] == results[1]


def test_a_model_tests_the_same_on_every_backend(data, tmp_path, backend):
    ds = data("fraud", 4000, "float32")
    figures = {}
    (net,) = ends(ds, CC, [backend], "float32", epochs=3)
    net.export(tmp_path / "m.bin")
    for name in ("seq", "omp", "cuda", backend):
        again = nn.Network.load(tmp_path / "m.bin", backend=name)
        report = nn.test(again, ds)
        predictions = again.predict(ds.x)
        figures[name] = (report, predictions)
    for test, out in figures.values():
        for count in ("tp", "fp", "fn", "tn"):
            expected = figures["seq"][0][count]
            assert test[count] == expected
        assert relative_distance(out, figures["seq"][1]) < 1e-6


def test_a_model_of_images_predicts_the_same_here(data, tmp_path, backend):
    ds = data("images", 600)
    (net,) = ends(ds, IMAGES, ["omp"], "float32", epochs=1)
    net.export(tmp_path / "m.bin")
    again = nn.Network.load(tmp_path / "m.bin", backend=backend)
    expected = net.predict(ds.x)
    predictions = again.predict(ds.x)
    assert relative_distance(predictions, expected) < 1e-5


def test_too_little_memory_is_one_line_with_a_remedy(backend, check_little_memory):
    check_little_memory(backend, 0)


def test_steps_are_recorded_layer_by_layer(backend):
    net, *_ = trained(
        IMAGES, backend, 100, record=2, epochs=1, batch_number=32, holdout=0.0
    )
    batches = net.engine.recorded()
    assert len(batches) == 2
    for steps in batches:
        # the last layer's forward pass computes the loss, too
        names = {s.name for s in steps}
        assert names == {"gather", "forward", "backward", "update"}
        layers = {s.layer for s in steps if s.name == "update"}
        assert layers == {0, 2, 5, 6}
        for s in steps:
            assert s.begin <= s.end
        assert steps[0].begin < steps[-1].end


@pytest.mark.parametrize(
    ("spec", "freeze"),
    [(CC, 1), (CC, 2), (DIGITS, 1), (IMAGES, 2), ("50,800,400,1", 1)],
)
def test_frozen_layers_keep_their_bytes_and_the_others_end_where_seq_ends(
    spec, freeze, backend
):
    ends = []
    for name in (backend, "seq"):
        net = nn.Network(spec, "regression", backend=name, dtype="float64")
        ds = nn.Dataset(*fill(net, 200), "regression")
        start = net.vector.copy()
        how = {"scaling": "none", "holdout": 0.0, "epochs": 1, "batch_number": 50}
        nn.train(net, ds, freeze=freeze, **how)
        counts = [layer.parameters for layer in net.layers if layer.parameters]
        count = sum(counts[:freeze])
        assert np.array_equal(net.vector[:count], start[:count])
        assert not np.array_equal(net.vector[count:], start[count:])
        ends.append(net.vector)
    assert relative_distance(*ends) < 1e-9  # rounding of four steps
