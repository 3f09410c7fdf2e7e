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
from nn.nn_aux import LOSSES, loss_name, loss_of

COLUMNS = (
    InputColumn("number", waves=3),
    InputColumn("gap", fill=0.3, edges=(-0.5, 0.25, 0.75), waves=4),
    InputColumn("embedding", values=9, width=2),
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
    ("700,9:tanh,2000,6:tanh,3", "float64", 20),
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


def test_these_networks_have_every_kernel_of_a_layer(emulated):
    functions = OF_A_LIBRARY | OF_FEW_ROWS
    for spec, dtype, rows in NETWORKS:
        net = net_of(spec, dtype)
        itemsize = net.engine.dtype.itemsize
        builder = Builder(net.layers, net.loss, itemsize, device.processors())
        for kind in ("gradients", "predict"):
            program = builder.build(Purpose(kind, rows, dropout=kind == "gradients"))
            functions |= {op.function for phase in program.phases for op in phase}
    for name in FILES_OF_LAYERS:
        kernels = re.findall(
            r"^__device__ void (\w+)\(", source_file(name), re.MULTILINE
        )
        assert kernels
        assert set(kernels) <= functions


LOSS_KERNEL = """
#undef LOSS_CONSTANT
#undef LOSS_CONSTANTS
{constants}
namespace of_{number} {{
{source}
}}
extern "C" __global__ void loss_{number}(const control *where, real *z)
{{
    const control c = where[{number}];
    of_{number}::loss_backward<{settings}>(z, c, batch_of(c, 0, 0), block_range{{0, 1}});
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
    weights. All kernels are of one module."""
    cupy = emulated
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12, 3))
    weights = rng.random(12)
    class_weights = np.array([[0.3, 2.0], [1.0, 1e-3], [0.0, 1e3]])
    code = switches(Purpose("loss", 12, weighted=True)) + PRELUDE
    code += sources("common", "activation")
    controls = np.zeros(len(LAST_LAYERS), CONTROL_TYPE)
    arrays = []
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
        names = f"{loss_name(loss).upper()}, {activation.upper()}, 3, 0, {lanes}"
        code += LOSS_KERNEL.format(
            constants=constant_line(loss),
            number=number,
            source=source_file("loss"),
            settings=names,
        )
        arrays.append([cupy.asarray(y), cupy.asarray(weights), cupy.empty(12)])
        members = ("y", "weights", "row_loss")
        for member, array in zip(members, arrays[-1], strict=True):
            controls[number][member] = array.data.ptr
    controls["count"] = controls["batch"] = 12
    where = cupy.asarray(controls.view(np.uint8))
    module = compiled(code, "float64", False)
    for number, (losses, slopes) in enumerate(expected):
        slopes_here = cupy.asarray(z)
        kernel = module.get_function(f"loss_{number}")
        kernel((1,), (THREADS,), (where, slopes_here))
        told = LAST_LAYERS[number]
        np.testing.assert_allclose(
            arrays[number][2], losses, 1e-12, 1e-12, err_msg=told
        )
        np.testing.assert_allclose(slopes_here, slopes, 1e-12, 1e-12, err_msg=told)


GATHER_KERNEL = """
extern "C" __global__ void rows_{number}(const control *where, real *x)
{{
    const control c = where[{number}];
    {call}(x, c, batch_of(c, 8, 1), block_range{{(int)blockIdx.x, (int)gridDim.x}});
}}
"""


def test_a_batch_is_gathered_from_numbers_bytes_images_and_records(emulated):
    """The second one, by two blocks; images are moved by the rule."""
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
    code = PRELUDE + sources("common", "gather")
    controls = np.zeros(len(cases), CONTROL_TYPE)
    on_gpu = [emulated.asarray(order)]
    for number, (call, data, _) in enumerate(cases):
        code += GATHER_KERNEL.format(number=number, call=call)
        on_gpu.append(emulated.asarray(np.frombuffer(data.tobytes(), np.uint8)))
        controls[number]["x"] = on_gpu[-1].data.ptr
    controls["order"] = on_gpu[0].data.ptr
    for name, value in {"count": 20, "batch": 8, "seed": 5, "step": 3}.items():
        controls[name] = value
    where = emulated.asarray(controls.view(np.uint8))
    module = compiled(code, "float64", False)
    for number, (call, _, expected) in enumerate(cases):
        x = emulated.empty(expected.shape)
        module.get_function(f"rows_{number}")((2,), (THREADS,), (where, x))
        np.testing.assert_array_equal(x, expected, call)


UPDATE_KERNEL = """
extern "C" __global__ void update_{number}(const control *where, const real *gradients)
{{
    const control c = where[{number}];
    {call}(0, gradients, c, batch_of(c, 0, 0), block_range{{(int)blockIdx.x, (int)gridDim.x}});
}}
"""
RULES = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "adam", "betas": (0.7, 0.95), "epsilon": 0.01},
    {"optimizer": "rmsprop", "betas": (0.7,)},
    {"optimizer": "adagrad", "epsilon": 0.01},
]
VECTORS = ("parameters", "moment1", "moment2", "scales")


def test_steps_of_optimizers_are_those_of_seq(emulated):
    """Of a layer, by many partial sums, and of one whose inputs have scales, by few."""
    net = network("19,5", "seq")
    x, y = fill(net, 4)
    engine = net.engine
    data = engine.load(x.reshape(4, -1), y)
    code = PRELUDE + sources("common", "optimizer")
    cases = [(rule, rate) for rule in RULES for rate in (0.0, 3.0)]
    controls = np.zeros(len(cases), CONTROL_TYPE)
    on_gpu = []
    expected = []
    for number, (rule, rate) in enumerate(cases):
        how = settings(batch=4, weight_decay=0.1, scale_rate=rate, **rule)
        rng = np.random.default_rng(number)
        vectors = {name: rng.random(engine.length(name)) for name in VECTORS}
        arrays = {name: emulated.asarray(vectors[name]) for name in VECTORS}
        arrays["updates"] = emulated.asarray(
            update_table(how, engine.progress(step=2), 4, np.dtype("float64"))
        )
        for name in VECTORS:
            engine.set(name, vectors[name])
        parts = rng.dirichlet(np.ones(2 if rate else 20), 100).T
        gradients = 4 * engine.gradients(x.reshape(4, -1), y)[1]
        arrays["gradients"] = emulated.asarray(np.ascontiguousarray(parts * gradients))
        engine.epoch(data, np.arange(4), how, engine.progress(step=2))
        changed = {"parameters", *how.vectors}
        expected.append({name: engine.get(name) for name in changed})
        for name, array in arrays.items():
            controls[number][name] = array.data.ptr
        on_gpu.append(arrays)
        name = update_rule(how.optimizer, how.momentum)
        call = f"update_layer<{name}, 20, 95, 100>"
        if rate:
            call = f"update_scaled<{name}, 2, 19, 5>"
        code += UPDATE_KERNEL.format(number=number, call=call)
    controls["count"] = controls["batch"] = 4
    where = emulated.asarray(controls.view(np.uint8))
    module = compiled(code, "float64", False)
    for number, (rule, rate) in enumerate(cases):
        kernel = module.get_function(f"update_{number}")
        kernel(
            (2,),
            (THREADS,),
            (where, on_gpu[number]["gradients"]),
            shared_mem=8 * THREADS,
        )
        for name, vector in expected[number].items():
            told = f"{rule}, {rate}, {name}"
            np.testing.assert_allclose(
                on_gpu[number][name], vector, 1e-12, err_msg=told
            )


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
