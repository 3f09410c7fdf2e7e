"""The programs of the GPU, as far as they can be judged without one: nothing that a table has and a kernel lacks passes
in silence."""

import dataclasses
import re

import pytest

from nn.backends.cuda import abi
from nn.backends.cuda.builder import KINDS, Builder
from nn.backends.cuda.program import Purpose, epoch_source, layer_routes, sources
from nn.layers import LAYER_KINDS, parse
from nn.nn_aux import ACTIVATIONS, LOSSES, OPTIMIZERS
from nn.utils import UsageError

PROCESSORS = 132
ONE_OF_EACH_KIND = "2x6x5,pad1,conv3k2:relu,maxpool2s1,avgpool2:tanh,dropout0.25,flatten:sigmoid,7,5:silu,2"


@pytest.mark.parametrize("name", [*ACTIVATIONS, *LOSSES, *abi.MOMENTS, *abi.CONTROL, *abi.UPDATE, *abi.CONSTANTS])
def test_kernels_are_told_every_name_of_the_tables(name):
    constant = name.upper() if name in [*ACTIVATIONS, *LOSSES] else name
    assert re.search(rf"\b{constant}\b", abi.declarations())


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "softmax"])
def test_every_activation_has_a_formula_and_a_derivative(name):
    assert sources("activation").count(f"if constexpr (ACTIVATION == {name.upper()})") == 2


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_a_formula(name):
    assert f"if constexpr (LOSS == {name.upper()})" in sources("loss")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_every_optimiser_has_an_update_rule(name, momentum):
    rule = abi.update_rule(name, momentum)
    assert rule in abi.MOMENTS and f"if constexpr (OPTIMIZER == {rule})" in sources("optimizer")


def test_an_optimiser_without_a_rule_is_named():
    with pytest.raises(UsageError, match="--optimizer rprop: the GPU has no such update rule; use adam or sgd"):
        abi.update_rule("rprop", 0.9)


def test_every_layer_kind_has_kernels():
    layers = parse(ONE_OF_EACH_KIND, "relu", "linear")
    assert {layer.kind for layer in layers} == set(KINDS) == set(LAYER_KINDS) - {"embedding"}
    built = Builder(layers, "mse", 4, PROCESSORS).build(Purpose("train", 10, dropout=True, optimizer="SGD"))
    assert "epoch" in epoch_source(built)


def test_a_layer_kind_without_kernels_is_named():
    layers = parse("30,60,1")
    layers[0] = dataclasses.replace(layers[0], kind="attention")
    with pytest.raises(UsageError, match="--backend cuda: the GPU has no attention layers, only dense, conv, "):
        Builder(layers, "mse", 4, PROCESSORS).build(Purpose("predict", 10))


# ---- which kernel computes a layer


class Library:
    """Takes over what cuBLAS and cuDNN may."""

    def wants_product(self, m, n, k):
        return min(m, n, k) >= 100

    def convolves(self, layer):
        return layer.kernel == 5

    def pools(self, layer):
        return layer.kind == "avgpool"

    def __getattr__(self, name):
        return lambda node: lambda runner, rows: None


@pytest.mark.parametrize(
    ("spec", "library", "routes"),
    [
        ("30,1", None, ["1: forward last_layer; backward narrow_backward_parameters"]),
        ("30,60,17", None, ["60: forward dense_forward; backward dense_backward_parameters",
                            "17: forward dense_forward; backward dense_backward_input, dense_backward_parameters"]),
        ("200,300,1", Library(), ["300: forward cuBLAS gemm, dense_finish; backward cuBLAS gemm, dense_backward_bias",
                                  "1: forward last_layer; backward narrow_backward_parameters"]),
        ("1x9x9,conv4k3,flatten,17", None, ["conv4k3: forward direct_forward; backward direct_backward_parameters",
                                            "17: forward dense_forward; backward "
                                            "dense_backward_input, dense_backward_parameters"]),
        ("16x8x8,conv16k3,maxpool2,1", None, [
            "conv16k3: forward winograd_kernels, winograd_forward; backward winograd_backward_parameters",
            "maxpool2: backward maxpool_backward",
            "1: forward last_layer; backward narrow_backward_parameters"]),
        ("8x60x60,conv70k3,conv2k5,avgpool2s1,1", Library(), [
            "conv70k3: forward conv_forward; backward direct_backward_parameters",
            "conv2k5: forward cuDNN convolution, conv_finish; backward cuDNN convolution, "
            "conv_backward_parameters, input_finish",
            "avgpool2s1: forward cuDNN pooling; backward avgpool_backward",
            "1: forward last_layer; backward narrow_backward_parameters"]),
    ],
)  # fmt: skip
def test_routes_name_the_kernels_of_each_layer(spec, library, routes):
    layers = parse(spec, "relu", "linear")
    built = Builder(layers, "mse", 4, PROCESSORS, library).build(Purpose("train", 256, optimizer="SGD"))
    lines = layer_routes(built)
    assert [line.split(" ", 2)[2] for line in lines] == routes
    kernels = {word.strip(",;") for line in lines for word in line.split() if "_" in word}
    assert all(re.search(rf"__device__ void {kernel}\(", sources()) for kernel in kernels)
