"""Rows that lie on a GPU in arrays of CuPy, PyTorch and JAX: the predictions stay
there, with the bits of rows in the computer's memory."""

import numpy as np
import pytest
from support.networks import require

import nn

cupy = pytest.importorskip("cupy")


def trained(backend, **settings):
    rng = np.random.default_rng(0)
    x = (3 + 2 * rng.normal(size=(500, 6))).astype(np.float32)
    fit = nn.fit(
        x,
        x[:, 0] * x[:, 1] + 5,
        layers="6,40,10,1",
        epochs=2,
        backend=backend,
        **settings,
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
