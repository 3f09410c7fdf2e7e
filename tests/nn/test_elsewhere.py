"""Rows in arrays of other libraries: predictions are an array of the same library."""

from types import SimpleNamespace

import numpy as np
import pytest
from support.emulated_gpu import can_emulate, emulated_gpu

import nn
from nn.backends import elsewhere
from nn.backends.cuda import standing
from nn.utils import UsageError


class Foreign:
    """An array of a library that speaks DLPack, in the computer's memory or, as it
    says, on a GPU."""

    def __init__(self, values, device=1):
        self.values = np.asarray(values)
        self.ndim = self.values.ndim
        self._device = device

    def __dlpack__(self, **asked):
        return self.values.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self._device, 0

    def __array_namespace__(self):
        return SimpleNamespace(from_dlpack=lambda out: Foreign(np.from_dlpack(out)))


class Mute(Foreign):
    """One whose library makes no arrays of others."""

    __array_namespace__ = None

    def __getattribute__(self, name):
        if name == "__array_namespace__":
            raise AttributeError(name)
        return super().__getattribute__(name)


class OnCuda:
    """An array that has CUDA's interface alone."""

    ndim = 2
    __cuda_array_interface__ = {}


def trained(kind="regression", networks=1, **settings):
    rng = np.random.default_rng(0)
    x = (3 + 2 * rng.normal(size=(80, 3))).astype(np.float32)
    y = x[:, 0] * x[:, 1] + 5
    ds = nn.Dataset(x, np.column_stack([y, 9 - 40 * x[:, 2]]), kind)
    layers = "3,5,2"
    if kind != "regression":
        ds = nn.Dataset(x, (y > y.mean()).astype(np.int32), kind, ["a", "b"])
        layers = "3,5,1"
    if networks > 1:
        settings |= {"networks": networks}
        net = nn.fit(ds, layers=layers, epochs=2, **settings).network
        net.combine(net.members, [1.0, 2.5, 4.0][:networks])
        return net, x
    net = nn.Network(layers, kind)
    nn.train(net, ds, epochs=2, scaling="standardization", **settings)
    return net, x


def test_rows_of_another_library_give_an_array_of_that_library():
    net, x = trained()
    out = net.predict(Foreign(x))
    assert isinstance(out, Foreign)
    assert out.values.tobytes() == net.predict(x).tobytes()
    out = net.predict(Mute(x))  # else one of NumPy's
    assert isinstance(out, np.ndarray)
    assert out.tobytes() == net.predict(x).tobytes()
    assert type(net.predict(x)) is np.ndarray
    with pytest.raises(UsageError, match="exposure: is for rows of NumPy"):
        net.predict(Foreign(x), exposure=np.ones(len(x)))


@pytest.mark.parametrize("rows", [Foreign(np.zeros((4, 3)), 2), OnCuda()])
def test_rows_on_a_gpu_need_a_network_on_it(rows):
    net, _ = trained()
    with pytest.raises(UsageError, match="the rows are on a GPU, the network on omp"):
        net.predict(rows)


@pytest.mark.skipif(not can_emulate(), reason="there is no C++ compiler")
@pytest.mark.parametrize(
    "kind, networks, settings",
    [
        ("regression", 1, {"clip": True}),
        ("binary", 1, {}),
        ("regression", 3, {"clip": True}),
    ],
)
def test_rows_on_the_gpu_are_predicted_there(
    monkeypatch, tmp_path, kind, networks, settings
):
    net, x = trained(kind, networks, **settings)
    net.export(tmp_path / "m.bin")
    with emulated_gpu(monkeypatch):
        on_gpu = nn.Network.of_file(tmp_path / "m.bin", backend="cuda")
        with on_gpu.engine.beside_others() as there:
            far = 100 * x
            for rows in (x, far, x.astype(np.float64), x[::-1].copy(), x[:1], x[1:2]):
                out = elsewhere.outputs_there(on_gpu, there(rows), there)
                assert out.get().tobytes() == on_gpu.predict(rows).tobytes()
                # as many rows again: what is captured
                assert on_gpu.predict(rows).tobytes() == out.get().tobytes()
                for _ in range(2):
                    again = elsewhere.outputs_there(on_gpu, there(rows), there)
                    assert again.get().tobytes() == out.get().tobytes()
            gaps = x.copy()
            gaps[3, 1] = np.nan
            assert elsewhere.outputs_there(on_gpu, there(gaps), there) is None
            # a refusal is of its call alone
            out = elsewhere.outputs_there(on_gpu, there(x), there)
            assert out.get().tobytes() == on_gpu.predict(x).tobytes()
            wider = np.hstack([x, x])
            assert elsewhere.outputs_there(on_gpu, there(wider), there) is None
            for member in on_gpu.members:  # which read all numbers as float32
                member.number_type = "float32"
            fine = x * (1 + 1e-9 * np.arange(x.size).reshape(x.shape))
            assert (fine.astype(np.float32) != fine).any()
            out = elsewhere.outputs_there(on_gpu, there(fine), there)
            assert out.get().tobytes() == on_gpu.predict(fine).tobytes()
            for member in on_gpu.members:  # which take the decimals of float32
                member.number_type = "float64"
            assert elsewhere.outputs_there(on_gpu, there(x), there) is None
            out = elsewhere.outputs_there(on_gpu, there(x.astype(np.float64)), there)
            assert out.get().tobytes() == on_gpu.predict(x.astype(np.float64)).tobytes()
            on_gpu.temperature = 2.0  # which is the computer's to divide by
            assert elsewhere.outputs_there(on_gpu, there(x), there) is None


@pytest.mark.skipif(not can_emulate(), reason="there is no C++ compiler")
def test_members_of_other_layers_are_predicted_on_the_gpu_each_by_its_own(
    monkeypatch, tmp_path
):
    """Their parameters are as many: no length tells them apart."""
    net, x = trained("binary", 2)
    y = np.where(x[:, 0] <= x[0, 0], "a", "b")
    other = nn.fit(x, y, layers="3,5:tanh,1", epochs=2).network
    net.combine([*net.members, *other.members], [1.0, 2.5, 4.0])
    net.export(tmp_path / "m.bin")
    with emulated_gpu(monkeypatch):
        on_gpu = nn.Network.of_file(tmp_path / "m.bin", backend="cuda")
        np.testing.assert_allclose(on_gpu.predict(x), net.predict(x), 1e-5)
        with on_gpu.engine.beside_others() as there:
            assert elsewhere.outputs_there(on_gpu, there(x), there) is None


class Kept:
    """A pass that keeps so many bytes."""

    def __init__(self, megabytes):
        self.megabytes = megabytes

    def bytes(self):
        return self.megabytes << 20


def test_passes_stand_from_the_second_call_on_and_keep_half_a_gigabyte():
    passes = standing.StandingPasses()
    one = object()
    other = object()
    made = []

    def make(megabytes):
        made.append(Kept(megabytes))
        return made[-1]

    def find(kind, megabytes, facts=one):
        return passes.find((kind,), facts, lambda: make(megabytes))

    assert find("a", 300) is None
    first = find("a", 300)
    assert first is made[0]
    assert find("a", 300) is first
    assert find("a", 300, other) is made[1]  # another network's facts
    assert find("b", 200) is None
    assert find("b", 200) is made[2]
    assert find("a", 300, other) is made[1]
    assert find("c", 13) is None
    assert find("c", 13) is made[3]  # 513 of 512: the others leave
    assert find("a", 300, other) is None
    for kind in range(8):
        assert find(kind, 1) is None
    assert find("c", 13) is None  # more kinds than are known
    assert passes.find(("c",), one, lambda: None) is None
