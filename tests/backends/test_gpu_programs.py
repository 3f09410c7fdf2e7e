"""The programs of the GPU, as far as they can be judged without one: nothing that a
table has and a kernel lacks passes in silence."""

import dataclasses
import functools
import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest

from nn.backends.cuda import abi, runner, small
from nn.backends.cuda.builder import LAYER_FILES, Builder
from nn.backends.cuda.data import CudaData, row_format
from nn.backends.cuda.program import (
    PLAIN,
    Op,
    Purpose,
    epoch_source,
    layer_routes,
    sources,
)
from nn.core.records import record_type
from nn.layers import COLUMN_KINDS, LAYER_KINDS, InputColumn, parse
from nn.nn_aux import ACTIVATIONS, LOSSES, OPTIMIZERS
from nn.utils import UsageError

PROCESSORS = 132
ONE_OF_EACH_KIND = "2x6x5,pad1,conv3k2:relu,maxpool2s1,avgpool2:tanh,dropout0.25,flatten:sigmoid,7,5:silu,2"


RECORDS = record_type("float32", 2, 1, 1, 1)
COLUMNS = (
    InputColumn("number"),
    InputColumn("gap", fill=-0.5),
    InputColumn("embedding", values=10_000, width=8),
    InputColumn("onehot", values=5),
    InputColumn("embedding", values=3, width=300),
)


def test_kernels_are_told_every_name_of_the_tables_and_have_formulas_for_them():
    in_capitals = [name.upper() for name in (*ACTIVATIONS, *LOSSES, *COLUMN_KINDS)]
    for name in (
        *in_capitals,
        *abi.MOMENTS,
        *abi.CONTROL_MEMBERS,
        *abi.UPDATE,
        *abi.CONSTANTS,
    ):
        assert re.search(rf"\b{name}\b", abi.declarations()), name
    for name in ACTIVATIONS.keys() - {"softmax", "steps"}:  # a value, and a derivative
        assert (
            sources("activation").count(f"if constexpr (ACTIVATION == {name.upper()})")
            == 2
        ), name
    for name in LOSSES:
        assert f"if constexpr (LOSS == {name.upper()})" in sources("loss"), name
    for name, momentum in itertools.product(OPTIMIZERS, (0.0, 0.9)):
        rule = abi.update_rule(name, momentum)
        assert rule in abi.MOMENTS, (name, momentum)
        assert f"if constexpr (OPTIMIZER == {rule})" in sources("optimizer"), (
            name,
            momentum,
        )


def test_every_layer_kind_has_kernels_and_one_without_is_named():
    images = parse(ONE_OF_EACH_KIND, "relu", "linear")
    table = parse("5,3", columns=COLUMNS)
    kinds = {layer.kind for layer in [*images, *table]}
    assert kinds == set(LAYER_FILES) == set(LAYER_KINDS)
    for layers in (images, table):
        built = Builder(layers, "mse", 4, PROCESSORS).build(
            Purpose("train", 10, dropout=True, optimizer="SGD")
        )
        assert "epoch" in epoch_source(built)
    layers = parse("30,60,1")
    layers[0] = dataclasses.replace(layers[0], kind="attention")
    with pytest.raises(
        UsageError,
        match="--backend cuda: the GPU has no attention layers, only dense, conv, ",
    ):
        Builder(layers, "mse", 4, PROCESSORS).build(Purpose("predict", 10))


class Library:
    """Takes over what cuBLAS and cuDNN may."""

    def wants_product(self, m, n, k):
        return min(m, n, k) >= 100

    def convolves(self, layer):
        return layer.kernel == 5

    def pools(self, layer):
        return layer.kind == "avgpool"

    def __getattr__(self, name):
        return lambda *_: lambda runner, rows: None


@pytest.mark.parametrize(
    ("spec", "library", "routes"),
    [
        ("30,1", None, ["1: forward last_layer; backward narrow_backward_parameters"]),
        (
            "30,60,17",
            None,
            [
                "60: forward dense_forward; backward dense_backward_parameters",
                "17: forward dense_forward; backward dense_backward_input, dense_backward_parameters",
            ],
        ),
        (
            "200,300,1",
            Library(),
            [
                "300: forward cuBLAS gemm, output_finish; backward cuBLAS gemm, dense_backward_bias",
                "1: forward last_layer; backward narrow_backward_parameters",
            ],
        ),
        (
            "1x9x9,conv4k3,flatten,17",
            None,
            [
                "conv4k3: forward direct_forward; backward direct_backward_parameters",
                "17: forward dense_forward; backward "
                "dense_backward_input, dense_backward_parameters",
            ],
        ),
        (
            "16x8x8,conv16k3,maxpool2,1",
            None,
            [
                "conv16k3: forward winograd_kernels, winograd_forward; backward winograd_backward_parameters",
                "maxpool2: backward pool_backward",
                "1: forward last_layer; backward narrow_backward_parameters",
            ],
        ),
        (
            "8x60x60,conv70k3,conv2k5,avgpool2s1,1",
            Library(),
            [
                "conv70k3: forward conv_forward; backward direct_backward_parameters",
                "conv2k5: forward cuDNN convolution, output_finish; backward cuDNN convolution, "
                "conv_backward_parameters, input_finish",
                "avgpool2s1: forward cuDNN pooling; backward pool_backward",
                "1: forward last_layer; backward narrow_backward_parameters",
            ],
        ),
    ],
)
def test_routes_name_the_kernels_of_each_layer(spec, library, routes):
    layers = parse(spec, "relu", "linear")
    builder = Builder(layers, "mse", 4, PROCESSORS, library)
    program = builder.build(Purpose("train", 256, optimizer="SGD"))
    lines = layer_routes(program)
    assert [line.split(" ", 2)[2] for line in lines] == routes
    kernels = {
        word.strip(",;") for line in lines for word in line.split() if "_" in word
    }
    for kernel in kernels:
        assert re.search(rf"__device__ void {kernel}\(", sources())


@pytest.mark.parametrize(
    ("kind", "barriers"), [("predict", 3), ("loss", 3), ("train", 4)]
)
def test_rows_of_the_next_batch_do_not_replace_those_that_a_layer_alone_still_reads(
    kind, barriers
):
    """A forward pass of one layer has one phase; with more of them the last one reads
    other values."""
    built = Builder(parse("30,1"), "mse", 4, PROCESSORS).build(
        Purpose(kind, 10, optimizer="SGD")
    )
    kernel = epoch_source(built).split("epoch(const control *where")[1]
    assert kernel.count("grid_barrier") == barriers
    loop = kernel.split("for (int64 done")[1]
    assert (kind == "train") == (
        "grid_barrier"
        not in loop.split("if (done + 1 < batches)")[1].split("gather<")[0]
    )


def embedding_program(kind="train", rows=256, columns=COLUMNS, **options):
    layers = parse(f"{len(columns)},9,2", "relu", "linear", columns)
    return Builder(layers, "mse", 4, PROCESSORS).build(
        Purpose(kind, rows, optimizer="SGD", **options)
    )


def ops_of(built, function):
    return [op for phase in built.phases for op in phase if op.function == function]


@pytest.mark.parametrize(
    ("kind", "columns", "route", "gradients"),
    [
        ("train", COLUMNS, "; backward embedding_backward_table", 1),
        (
            "gradients",
            COLUMNS,
            "; backward embedding_backward_table, embedding_backward_input",
            1,
        ),
        ("gradients", COLUMNS[:2], "; backward embedding_backward_input", 1),
        ("train", COLUMNS[:2], "", 0),
        ("predict", COLUMNS, "", 0),
        (
            "train",
            (InputColumn("number", waves=5),),
            ", embedding_waves_forward; backward embedding_backward_waves",
            1,
        ),
    ],
)
def test_routes_name_kernels_of_columns_and_tables_and_gradients_that_are_used(
    kind, columns, route, gradients
):
    built = embedding_program(kind, columns=columns)
    assert (
        layer_routes(built)[0] == f"layer 0 embedding: forward embedding_forward{route}"
    )
    assert len(ops_of(built, "dense_backward_input")) == gradients


@pytest.mark.parametrize(("rows", "splits"), [(1, 1), (64, 1), (65, 2), (4096, 3)])
def test_each_value_of_a_table_has_one_thread_in_each_share_of_the_rows(rows, splits):
    """Blocks of 32 codes x 8 values, or of 256 values of one code; a table's gradients
    come in few partial sums."""
    first, second = ops_of(embedding_program(rows=rows), "embedding_backward_table")
    assert first.blocks == 313 * splits
    assert second.blocks == 3 * 2 * splits
    size = 80_900
    expected = (splits, size, 10_000, 8, 5, 2, 316, 3)
    assert first.settings == expected
    expected = (splits, size, 3, 300, 5, 4, 316, 16)
    assert second.settings == expected
    assert second.arguments[0].at - first.arguments[0].at == 80_000
    updates = ops_of(embedding_program(rows=rows), "update_layer")
    (update,) = [op for op in updates if op.step == ("update", 0)]
    # all of them weights, none a bias
    assert update.settings == ("SGD", splits, size, size)


@pytest.mark.parametrize("distribute", ["mirrored", "central"])
def test_members_send_the_gradients_of_tables(distribute):
    built = embedding_program(distribute=distribute)
    assert built.sum_values >= 80_900
    assert sum(values for how, values in built.sent if how != "broadcast") >= 80_900


def test_rows_are_gathered_as_they_are_stored_and_records_are_bytes_to_the_gpu():
    records = np.zeros(5, RECORDS)
    records["codes2"] = np.arange(5)[:, None]
    rows_as = row_format(records, np.dtype("float32"))
    (gather,) = ops_of(embedding_program(rows_as=rows_as), "gather_records")
    assert gather.settings == (RECORDS.itemsize, 2, 1, 1, 1) == (16, 2, 1, 1, 1)
    assert row_format(np.zeros(3, "float32"), np.dtype("float32")) == PLAIN
    assert not ops_of(embedding_program(), "gather_records")
    assert ops_of(embedding_program(), "gather")
    data = CudaData(records, None, None, np.dtype("float32"), room=0)  # streamed
    assert data.arrays[0].shape == (5, 16)
    assert data.arrays[0].dtype == np.uint8
    assert np.shares_memory(data.arrays[0], records)
    assert data.arrays[0][3, 12] == 3
    # the small runner leaves records and columns to others
    for layers, stored in (
        (parse("5,9,2"), rows_as),
        (parse("5,9,2", columns=COLUMNS), PLAIN),
    ):
        assert not small.fits(
            layers,
            Purpose("train", 10, rows_as=stored, optimizer="SGD"),
            np.dtype("float32"),
        )


def test_each_op_of_a_timed_forward_pass_has_a_time_of_its_own():
    layers = parse("1x28x28,conv4k2same,maxpool4,128,10", "relu", "linear")
    builder = Builder(layers, "mse", 4, PROCESSORS)
    timed = builder.build(Purpose("predict", 1024, timed=True))
    assert {len(phase) for phase in timed.phases} == {1}
    (name, layer), *steps = [phase[0].step for phase in timed.phases]
    assert name == "gather"
    assert layer is None
    assert {name for name, _ in steps} == {"forward"}
    with_kernels = [i for i, layer in enumerate(layers) if layer.kind != "flatten"]
    assert sorted({layer for _, layer in steps}) == with_kernels


def test_timed_steps_begin_and_end_at_their_events(monkeypatch):
    runtime = SimpleNamespace(
        cuda=SimpleNamespace(get_elapsed_time=lambda begin, end: 1e3 * (end - begin))
    )
    monkeypatch.setattr(runner, "cupy", lambda: runtime)
    op_of = functools.partial(Op, "op", (), (), 1)
    steps = [("forward", 0), ("communication", 0), ("update", None)]
    timed = object.__new__(runner.TimedPhases)
    timed.program = SimpleNamespace(phases=[[op_of(step=step)] for step in steps])
    timed.began = 100.0
    timed._phases = [[2.0, 3.0, 5.0, 6.0], [7.0, 8.0, 9.0, 11.0]]
    timed._sent = [[(3.5, 4.0)], []]
    timed._rows = [32, 20]
    assert timed.steps("gpu 1") == [
        [
            ("forward", 0, 100.0, 101.0, "gpu 1", 32),
            ("communication", 0, 101.0, 103.0, "gpu 1", 32),
            ("update", None, 103.0, 104.0, "gpu 1", 32),
            ("communication", 0, 101.5, 102.0, "gpu 1 nccl", 0),
        ],
        [
            ("forward", 0, 105.0, 106.0, "gpu 1", 20),
            ("communication", 0, 106.0, 107.0, "gpu 1", 20),
            ("update", None, 107.0, 109.0, "gpu 1", 20),
        ],
    ]
