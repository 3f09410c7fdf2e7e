"""Every kernel of a layer, on an emulated GPU, against plain NumPy."""

import re

import numpy as np
import pytest
from support import plain_layers
from support.distances import relative_distance
from support.emulated_gpu import can_emulate, emulated_gpu
from support.emulated_libraries import emulate_libraries
from support.epochs import ended, settings
from support.moved_images import moved_images
from support.networks import (
    QUANTILES,
    check_gradients_against_numpy,
    fill,
    network,
    twins,
)

from nn.backends.cuda import device, small
from nn.backends.cuda import engine as engines
from nn.backends.cuda.abi import CONTROL_TYPE, THREADS, update_rule
from nn.backends.cuda.builder import Builder
from nn.backends.cuda.cublas import Cublas
from nn.backends.cuda.epoch import update_table
from nn.backends.cuda.program import (
    PRELUDE,
    Purpose,
    constant_line,
    source_file,
    sources,
    switches,
)
from nn.backends.cuda.runner import compiled
from nn.core.losses import weighted_classes
from nn.core.records import record_type
from nn.layers import InputColumn
from nn.nn_aux import ACTIVATIONS, LOSSES, loss_name, loss_of

COLUMNS = (
    InputColumn("number", waves=3),
    InputColumn("gap", fill=0.3, edges=(-0.5, 0.25, 0.75), waves=4),
    InputColumn("embedding", values=9, width=11),
    InputColumn("onehot", values=3),
    InputColumn("gap", fill=-1.5),
)
# strides, borders, more filters than a block or a thread takes, sums in several parts
NETWORKS = [
    ("16x7x5,conv33k3p1:tanh,conv18k3:tanh,maxpool2,pad1,18", "float32", 12),
    (
        "3x9x11,conv18k3s2p1:tanh,conv30k2:sigmoid,avgpool2s1:tanh,pad3,conv3k7s2:tanh,maxpool2:silu,3:tanh",
        "float64",
        9,
    ),
    ("5,33:softplus,dropout0.3,2:gelu,40:lrelu,flatten:tanh,17", "float64", 70),
    ("700,9:relu,2000:exp,6:selu,3", "float64", 20),
    ("40,700:tanh,1", "float64", 9),
]
OF_A_LIBRARY = {"dense_backward_bias"}
OF_FEW_ROWS = {"few_rows_forward"}  # test_gpu_emulated.py has these
FILES_OF_LAYERS = ["dense", "conv", "conv_direct", "conv_winograd", "pool", "pad"]
FILES_OF_LAYERS += ["dropout", "embedding"]


@pytest.fixture
def emulated(monkeypatch):
    if not can_emulate():
        pytest.skip("no g++ on Linux, which the emulation is for")
    with emulated_gpu(monkeypatch) as cupy:
        yield cupy


def net_of(spec: str, dtype: str):
    columns = COLUMNS if spec.startswith("5,") else ()
    return network(spec, "cuda", dtype, input_columns=columns)


@pytest.mark.parametrize(("spec", "dtype", "rows"), NETWORKS)
def test_gradients_are_those_of_numpy(spec, dtype, rows, emulated):
    check_gradients_against_numpy(net_of(spec, dtype), rows, seed=3, step=1)


def test_outputs_are_those_of_numpy(emulated):
    net = net_of(*NETWORKS[1][:2])
    x, _ = fill(net, 20)
    outs = plain_layers.forward(net.layers, net.parameters(), x)
    assert relative_distance(net.predict(x), outs[-1]) < 1e-13


def test_these_networks_have_every_kernel_of_a_layer_and_activation(emulated):
    functions = OF_A_LIBRARY | OF_FEW_ROWS
    activations = {"softmax", "steps"}  # of losses
    for spec, dtype, rows in NETWORKS:
        net = net_of(spec, dtype)
        itemsize = net.engine.dtype.itemsize
        builder = Builder(net.layers, net.loss, itemsize, device.processors())
        for kind in ("gradients", "predict"):
            program = builder.build(Purpose(kind, rows, dropout=kind == "gradients"))
            functions |= {op.function for phase in program.phases for op in phase}
        activations |= {layer.activation for layer in net.layers}
        activations |= {layer.function for layer in net.layers}
    assert set(ACTIVATIONS) <= activations
    for name in FILES_OF_LAYERS:
        kernels = re.findall(
            r"^__device__ void (\w+)\(", source_file(name), re.MULTILINE
        )
        assert kernels
        assert set(kernels) <= functions


KERNEL = """
extern "C" __global__ void kernel_{number}(const control *where, real *values)
{{
    const control c = where[{number}];
    const batch b = batch_of(c, c.row, c.index);
    {call}, c, b, block_range{{(int)blockIdx.x, (int)gridDim.x}});
}}
"""


class Kernels:
    """Functions of .cu files as kernels of one module, which takes a second to compile;
    each has a struct control of its own."""

    def __init__(self, cupy, code: str):
        self._cupy = cupy
        self._code = code
        self._controls = []
        self.arrays = []

    def add(self, call: str, code: str = "", **members) -> None:
        """Add a function by the beginning of its call, behind code of its own; members:
        of struct control, arrays or numbers."""
        self._code += code + KERNEL.format(number=len(self._controls), call=call)
        control = np.zeros((), CONTROL_TYPE)
        arrays = {}
        for name, value in members.items():
            if isinstance(value, np.ndarray):
                arrays[name] = self._cupy.asarray(np.ascontiguousarray(value))
                control[name] = arrays[name].data.ptr
            else:
                control[name] = value
        self._controls.append(control)
        self.arrays.append(arrays)

    def run(self, number: int, values) -> np.ndarray:
        """Call a function for values by two blocks; return these."""
        on_gpu = self._cupy.asarray(np.ascontiguousarray(values))
        where = self._cupy.asarray(np.stack(self._controls).view(np.uint8))
        module = compiled(PRELUDE + self._code, "float64", False)
        kernel = module.get_function(f"kernel_{number}")
        kernel((2,), (THREADS,), (where, on_gpu), shared_mem=8 * THREADS)
        return on_gpu


LOSS_OF_ITS_OWN = """
#undef LOSS_CONSTANT
#undef LOSS_CONSTANTS
{constants}
namespace of_{number} {{
{source}
}}
"""
LAST_LAYERS = [  # loss, activation
    *((loss, loss_of(loss).activation or "tanh") for loss in LOSSES),
    ("mse", "softmax"),
    ("huber=0.25", "softmax"),
    ("quantile=0.9", "linear"),
    (QUANTILES, "steps"),
    ("focal=0.5", "sigmoid"),
    ("tweedie=1.9", "exp"),
]


@pytest.mark.parametrize("lanes", [1, 32])
def test_losses_and_their_slopes_are_those_of_seq(lanes, emulated):
    """A row of a lane, and of a warp; targets are missing, classes and rows have
    weights."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12, 3))
    weights = rng.random(12)
    class_weights = np.array([[0.3, 2.0], [1.0, 1e-3], [0.0, 1e3]])
    head = switches(Purpose("loss", 12, weighted=True))
    kernels = Kernels(emulated, head + sources("common", "activation"))
    expected = []
    for number, (loss, activation) in enumerate(LAST_LAYERS):
        net = network(f"3,3:{activation}", "seq", "float64", loss=loss)
        _, y = fill(net, 12)
        if loss not in ("ce", QUANTILES):
            y[rng.random(y.shape) < 0.2] = np.nan
        if activation == "sigmoid":
            y = weighted_classes(y, class_weights)
        net.set_parameters({"layer0.weight": np.eye(3), "layer0.bias": np.zeros(3)})
        rows = [net.engine.gradients(z[r : r + 1], y[r : r + 1]) for r in range(12)]
        losses = weights * [row[0] for row in rows]
        slopes = weights[:, None] * [row[2].ravel() for row in rows]
        expected.append((losses, slopes))
        code = LOSS_OF_ITS_OWN.format(
            constants=constant_line(loss), number=number, source=source_file("loss")
        )
        names = f"{loss_name(loss).upper()}, {activation.upper()}, 3, 0, {lanes}"
        call = f"of_{number}::loss_backward<{names}>(values"
        members = {"y": y, "weights": weights, "row_loss": np.empty(12)}
        kernels.add(call, code, count=12, batch=12, **members)
    for number, (losses, slopes) in enumerate(expected):
        told = {"rtol": 1e-12, "atol": 1e-12, "err_msg": LAST_LAYERS[number]}
        np.testing.assert_allclose(kernels.run(number, z), slopes, **told)
        row_losses = kernels.arrays[number]["row_loss"]
        np.testing.assert_allclose(row_losses, losses, **told)


def test_a_batch_is_gathered_from_numbers_bytes_images_and_records(emulated):
    """The second one; images are moved by the rule."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(20, 42))
    pixels = rng.integers(0, 256, (20, 2, 3, 7), np.uint8)
    records = np.zeros(20, record_type("float64", 2, 1, 2, 3))
    for name in records.dtype.names:
        records[name] = rng.integers(0, 200, records[name].shape)
    records["codes4"] += 1 << 20
    records["codes2"] += 1 << 10
    order = rng.permutation(20)
    images = pixels[order[8:16]] * (1.0 / 255)
    moved = moved_images(images, 8, [1, 2, True], seed=5, first_step=4)
    values = [records[name][order[8:16]] for name in records.dtype.names]
    cases = [
        ("gather<42, 0>", numbers, numbers[order[8:16]]),
        ("gather<42, 1>", pixels, images.reshape(8, -1)),
        ("gather_moved<2, 3, 7, 1, 1, 2, 1>", pixels, moved.reshape(8, -1)),
        (f"gather_records<{records.itemsize}, 2, 1, 2, 3>", records, np.hstack(values)),
    ]
    kernels = Kernels(emulated, sources("common", "gather"))
    second = {"count": 20, "batch": 8, "row": 8, "index": 1, "seed": 5, "step": 3}
    for call, data, _ in cases:
        kernels.add(f"{call}(values", x=data, order=order, **second)
    for number, (call, _, expected) in enumerate(cases):
        x = kernels.run(number, np.full(expected.shape, np.nan))
        np.testing.assert_array_equal(x, expected, call)


RULES = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "adam", "betas": (0.7, 0.95), "epsilon": 0.01},
    {"optimizer": "rmsprop", "betas": (0.7,)},
    {"optimizer": "adagrad", "epsilon": 0.01},
]


def test_steps_of_optimizers_are_those_of_seq(emulated):
    """Of a layer, by many partial sums, and of one whose inputs have scales, by few."""
    net = network("19,5", "seq")
    x, y = fill(net, 4)
    engine = net.engine
    data = engine.load(x.reshape(4, -1), y)
    rng = np.random.default_rng(0)
    cases = [(rule, rate) for rule in RULES for rate in (0.0, 3.0)]
    kernels = Kernels(emulated, sources("common", "optimizer"))
    sums = []
    expected = []
    for rule, rate in cases:
        how = settings(batch=4, weight_decay=0.1, scale_rate=rate, **rule)
        members = {"count": 4, "batch": 4}
        members["updates"] = update_table(
            how, engine.progress(step=2), 4, np.dtype("float64")
        )
        for name in ("parameters", "moment1", "moment2", "scales"):
            members[name] = rng.random(engine.length(name))
            engine.set(name, members[name])
        rule_name = update_rule(how.optimizer, how.momentum)
        call = f"update_layer<{rule_name}, 20, 95, 100>(0, values"
        if rate:
            call = f"update_scaled<{rule_name}, 2, 19, 5>(0, values"
        kernels.add(call, **members)
        parts = rng.dirichlet(np.ones(2 if rate else 20), 100).T
        sums.append(parts * 4 * engine.gradients(x.reshape(4, -1), y)[1])
        engine.epoch(data, np.arange(4), how, engine.progress(step=2))
        changed = ("parameters", *how.vectors)
        expected.append({name: engine.get(name) for name in changed})
    for number, case in enumerate(cases):
        kernels.run(number, sums[number])
        for name, vector in expected[number].items():
            own = kernels.arrays[number][name]
            np.testing.assert_allclose(own, vector, 1e-12, err_msg=f"{case}, {name}")


def test_what_a_library_multiplies_ends_as_on_seq(emulated, monkeypatch):
    """Phases as graphs; the last batch is short."""
    emulate_libraries(monkeypatch)
    monkeypatch.setattr(engines, "WHOLE_EPOCH_FLOPS", 0)
    monkeypatch.setattr(small, "fits", lambda *_: False)
    monkeypatch.setattr(Cublas, "SMALLEST", 1)
    nets, (x, y) = twins("7,9:tanh,20:sigmoid,6", ("seq", "cuda"), "float32", 21)
    how = settings(optimizer="sgd", batch=8, rates=[0.1] * 9)
    ends = [ended(net, x, y, how, epochs=2) for net in nets]
    assert relative_distance(ends[1].parameters, ends[0].parameters) < 1e-6
    assert ends[1].losses == pytest.approx(ends[0].losses, rel=1e-6)
    assert relative_distance(nets[1].predict(x), nets[0].predict(x)) < 1e-6
    functions = " ".join(nets[1].engine.routes(8))
    for name in ("runner Phases", "cuBLAS gemm, output_finish", *OF_A_LIBRARY):
        assert name in functions


@pytest.mark.parametrize(("distribute", "room"), [("mirrored", None), ("central", 0)])
def test_gpus_that_share_batches_end_where_seq_ends(
    distribute, room, emulated, monkeypatch
):
    """Their sums come in several parts; in the last batch one of them has no row. Rows
    are on each GPU, or streamed a batch at a time."""
    emulate_libraries(monkeypatch)
    emulated.cuda.runtime.getDeviceCount = lambda: 3
    monkeypatch.setattr("nn.backends.cuda.data.STREAMED_BYTES", 1)
    spec = "5,9:tanh,dropout0.3,40:tanh,2"
    gpus = {"gpus": (2, 0), "distribute": distribute}
    seq = network(spec, "seq", input_columns=COLUMNS)
    group = network(spec, "cuda", input_columns=COLUMNS, **gpus)
    x, y = fill(seq, 281)
    group.vector[...] = seq.vector
    group.engine.set("parameters", seq.vector)
    weights = np.random.default_rng(1).random(281)
    how = settings(batch=140, weight_decay=0.1)
    ends = [ended(net, x, y, how, weights=weights, room=room) for net in (seq, group)]
    assert relative_distance(ends[1].parameters, ends[0].parameters) < 1e-12
    assert ends[1].losses == pytest.approx(ends[0].losses, rel=1e-12)
    members = group.engine.engines
    group.engine.keep()
    for engine in members:
        for name in ("parameters", "kept"):
            assert np.array_equal(engine.get(name), ends[1].parameters)
    assert [engine.device for engine in members] == [2, 0]
    if distribute == "central":
        return
    records = x.reshape(281, -1)
    for engine in (seq.engine, group.engine):
        engine.set("parameters", ends[0].parameters)
    expected = seq.engine.gradients(records, y, 5, 3)
    told = group.engine.gradients(records, y, 5, 3)
    assert told[0] == pytest.approx(expected[0], rel=1e-12)
    assert max(map(relative_distance, told[1:], expected[1:])) < 1e-12


def test_as_many_batches_are_timed_as_are_recorded(emulated):
    net = network("6,9:tanh,3", "cuda")
    x, y = fill(net, 20)
    engine = net.engine
    data = engine.load(x.reshape(20, -1), y)
    for batches, rows in ((2, [8, 8]), (9, [8, 8, 4])):
        engine.record(batches)
        engine.epoch(data, np.arange(20), settings(batch=8), engine.progress())
        told = engine.recorded()
        assert [steps[0].rows for steps in told] == rows
        times = [time for steps in told for step in steps for time in step[2:4]]
        assert times == sorted(times)
        names = [step.name for step in told[0]]
        assert names[0] == "gather"
        assert names[-2:] == ["update", "update"]
