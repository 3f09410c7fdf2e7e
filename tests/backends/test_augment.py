"""--augment: images are moved as drawn from seed, step and place in the batch, the same
for any thread count."""

import numpy as np
import pytest
from support.distances import relative_distance
from support.epochs import settings
from support.moved_images import check_moves
from support.networks import flattened

import nn
from nn.nn_aux import AUGMENTATIONS
from nn.utils import UsageError


def pictures(shape, rows, dtype):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (rows, *map(int, shape.split("x"))), np.uint8)
    if dtype == "bytes":
        return pixels
    return (pixels / 255).astype(dtype)


@pytest.mark.parametrize("dtype", ["bytes", "float32", "float64"])
@pytest.mark.parametrize("augment", sorted(AUGMENTATIONS.keys() - {"none"}))
@pytest.mark.parametrize("shape", ["1x28x28", "3x9x7", "5x4x12", "2x1x6"])
def test_images_are_moved_as_the_rule_says(processor, shape, augment, dtype):
    x = pictures(shape, 70, dtype)
    y = np.arange(70, dtype=np.int32) % 3
    real = dtype.replace("bytes", "float32")
    spec = f"{shape},conv4k1,3"
    check_moves(
        lambda: nn.Network(spec, "multiclass", backend=processor, dtype=real),
        x,
        y,
        augment,
    )


def test_a_side_of_one_pixel_moves_nowhere_and_others_a_tenth():
    how = settings(augment="both")
    assert how.moves((30, 1, 1)) == (0, 0, 0)
    assert how.moves((3, 20, 1)) == (2, 0, 0)
    assert how.moves((1, 1, 11)) == (0, 2, 1)


@pytest.mark.parametrize(("rows", "batch"), [(200, 64), (2100, 2000)])
def test_moved_images_have_the_same_bits_for_any_thread_count(rows, batch):
    indices = np.arange(rows, dtype=np.int32)
    y = indices % 3
    ds = nn.Dataset(
        pictures("3x10x10", rows, "bytes"), y, "multiclass", ["a", "b", "c"]
    )
    ends = []
    for backend, threads in (("omp", 1), ("omp", 2), ("omp", 5), ("seq", 1)):
        net = nn.Network(
            "3x10x10,conv8k3,maxpool2,dropout0.2,3",
            "multiclass",
            backend=backend,
            threads=threads,
        )
        nn.train(net, ds, epochs=2, batch_number=batch, augment="both")
        ends.append(flattened(net.parameters()))
    for end in ends[:3]:
        assert np.array_equal(end, ends[0])
    # Adam magnifies what is rounded otherwise in small gradients
    assert relative_distance(ends[3], ends[0]) < 1e-4


def test_a_model_keeps_how_images_were_moved_and_predicts_from_them_as_they_are():
    ds = nn.Dataset(
        pictures("1x8x8", 60, "bytes"),
        np.arange(60, dtype=np.int32) % 2,
        "binary",
        ["a", "b"],
    )
    nets = [nn.Network("1x8x8,conv2k3,1", "binary") for _ in range(2)]
    for net, augment in zip(nets, ("none", "shift"), strict=True):
        nn.train(net, ds, epochs=1, augment=augment)
    assert "augment" not in nets[0].config
    assert nets[1].config["augment"] == "shift"
    nets[1].set_parameters(nets[0].parameters())
    expected = nets[1].predict(ds.x)
    predictions = nets[0].predict(ds.x)
    assert np.array_equal(predictions, expected)


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("5,1", (5,), "is for images, the data are a table"),
        ("64,1", (1, 8, 8), "begin --layers with 1x8x8"),
    ],
)
def test_what_is_no_image_to_the_network_cannot_be_moved(spec, shape, message):
    indices = np.arange(20, dtype=np.int32)
    ds = nn.Dataset(
        np.zeros((20, *shape), np.float32), indices % 2, "binary", ["a", "b"]
    )
    net = nn.Network(spec, "binary")
    with pytest.raises(UsageError, match=message):
        nn.train(net, ds, epochs=1, augment="both")
