"""Rows that lie on a GPU in arrays of CuPy, PyTorch and JAX: the predictions stay
there, with the bits of rows in the computer's memory."""

import numpy as np
import pytest
from support.networks import require

import nn

cupy = pytest.importorskip("cupy")


def trained(backend, layers="6,40,10,1", **settings):
    rng = np.random.default_rng(0)
    x = (3 + 2 * rng.normal(size=(500, 6))).astype(np.float32)
    fit = nn.fit(
        x, x[:, 0] * x[:, 1] + 5, layers=layers, epochs=2, backend=backend, **settings
    )
    return fit.network, x


@pytest.mark.parametrize("backend", ["cuda", "cudnn"])
@pytest.mark.parametrize("settings", [{}, {"networks": 3}, {"clip": True}])
def test_cupy_in_gives_cupy_out(backend, settings, monkeypatch):
    require(backend)
    net, x = trained(backend, **settings)
    expected = net.predict(x)
    rows = cupy.asarray(x)
    get = cupy.ndarray.get

    def get_truth_value(array, *args, **kwargs):
        assert array.size == 1, "rows or outputs come back on the way"
        return get(array, *args, **kwargs)

    monkeypatch.setattr(cupy.ndarray, "get", get_truth_value)
    out = net.predict(rows)
    monkeypatch.undo()
    assert isinstance(out, cupy.ndarray)
    assert out.get().tobytes() == expected.tobytes()
    transposed = cupy.asarray(np.asfortranarray(x))
    assert net.predict(transposed).get().tobytes() == expected.tobytes()


def test_rows_that_the_computer_must_read_come_back_to_the_gpu():
    require("cuda")
    net, x = trained("cuda", number_embedding="pieces8")
    out = net.predict(cupy.asarray(x))
    assert isinstance(out, cupy.ndarray)
    assert out.get().tobytes() == net.predict(x).tobytes()


def test_a_row_without_a_finite_output_is_refused_as_in_the_computer_s_memory():
    require("cuda")
    net, x = trained("cuda")
    rows = x.copy()
    rows[2, 1] = np.inf
    for array in (rows, cupy.asarray(rows)):
        with pytest.raises(nn.utils.DataError, match="inf"):
            net.predict(array)


def test_torch_in_gives_torch_out():
    require("cuda")
    torch = pytest.importorskip("torch")
    net, x = trained("cuda")
    out = net.predict(torch.from_numpy(x).cuda())
    assert out.is_cuda
    assert out.cpu().numpy().tobytes() == net.predict(x).tobytes()


def test_jax_in_gives_jax_out():
    require("cuda")
    jax = pytest.importorskip("jax")
    net, x = trained("cuda")
    out = net.predict(jax.device_put(x, jax.devices("gpu")[0]))
    assert isinstance(out, jax.Array)
    assert np.asarray(out).tobytes() == net.predict(x).tobytes()


@pytest.mark.parametrize("backend", ["cuda", "cudnn"])
@pytest.mark.parametrize("layers", ["6,40,10,1", "6,2048,2048,1"])
@pytest.mark.parametrize("rows", [1, 500])
def test_as_many_rows_as_before_have_the_same_bits(backend, layers, rows):
    """The second call is captured, the third replays it."""
    require(backend)
    net, x = trained(backend, layers=layers)
    others = x[::-1][:rows].copy()
    x = x[:rows]
    expected = net.predict(x).tobytes()
    of_others = net.predict(others).tobytes()
    assert of_others != expected
    for _ in range(3):
        assert net.predict(x).tobytes() == expected
        assert net.predict(others).tobytes() == of_others
        assert net.predict(cupy.asarray(x)).get().tobytes() == expected
        assert net.predict(cupy.asarray(others)).get().tobytes() == of_others
        wide = cupy.asarray(x.astype(np.float64))
        assert net.predict(wide).get().tobytes() == expected


def test_a_network_that_learns_on_predicts_by_what_it_has_learned():
    require("cuda")
    net, x = trained("cuda")
    rows = cupy.asarray(x)
    for _ in range(3):
        net.predict(x), net.predict(rows)
    ds = nn.Dataset(x, x[:, :1] * 7, "regression")
    nn.train(net, ds, epochs=2)
    expected = nn.Network.of_file(saved(net), backend="cuda").predict(x).tobytes()
    assert net.predict(x).tobytes() == expected
    for _ in range(3):
        assert net.predict(rows).get().tobytes() == expected


def saved(net):
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "m.bin"
    net.export(path)
    return path


@pytest.mark.parametrize("convolutions", ["cuda", "cudnn"])
def test_images_come_again(convolutions):
    require(convolutions)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (64, 1, 12, 12), dtype=np.uint8)
    y = rng.integers(0, 3, 64).astype(np.int32)
    ds = nn.Dataset(x, y, "multiclass", ["a", "b", "c"])
    net = nn.Network(
        "1x12x12,conv8k3,maxpool2,flatten,3", "multiclass", backend=convolutions
    )
    nn.train(net, ds, epochs=1)
    expected = net.predict(x).tobytes()
    for _ in range(3):
        assert net.predict(x).tobytes() == expected


def test_threads_share_what_is_captured():
    from concurrent.futures import ThreadPoolExecutor

    require("cuda")
    net, x = trained("cuda")
    expected = [net.predict(x[k : k + 1]).tobytes() for k in range(64)]
    with ThreadPoolExecutor(8) as pool:
        outputs = pool.map(lambda k: net.predict(x[k : k + 1]).tobytes(), range(64))
    assert list(outputs) == expected
