"""Which kernel each layer takes: the names that `--verbose` prints."""

import re

from nn.backends.cpu import extension
from nn.layers import InputColumn
from nn.nn import Network


def routes(layers, rows, task="regression", **options):
    net = Network(layers, task, **options)
    lines = net.engine.routes(rows)
    for number, line in enumerate(lines):
        assert line.startswith(f"layer {number} ")
    return [line.split(": ", 1)[1] for line in lines]


def vector(dtype):
    """Values of a vector of the instruction set in use."""
    ffi, lib = extension("omp")
    width = {"avx512": 64, "avx2": 32, "baseline": 16}[
        ffi.string(lib.nn_isa()).decode()
    ]
    return width // {"float32": 4, "float64": 8}[dtype]


def test_one_output_is_narrow_large_products_are_packed_and_seq_has_plain_loops(
    dtype,
):
    assert (
        routes("1x8x8,conv4k3,maxpool2,10,1", 32, backend="seq") == ["plain loops"] * 5
    )
    wide, narrow = routes("64,512,1", 64, backend="omp", threads=1)
    assert wide.startswith("product, ")
    assert narrow == "narrow"
    assert routes("16,48,48,1", 8, backend="omp", threads=1)[1].startswith(
        "product, in place, "
    )
    large = routes("2048,1024,512,2", 512, backend="omp", threads=1, dtype=dtype)
    assert large[1] == "product, packed blocks"


def test_an_embedding_layer_says_whether_it_learns(processor):
    coded = [InputColumn("gap"), InputColumn("onehot", values=5)]
    learned = [*coded, InputColumn("embedding", values=20, width=3)]
    waves = InputColumn("number", waves=2)
    for columns, name in (
        (coded, "columns"),
        (learned, "columns and tables"),
        ([*coded, waves], "columns and waves"),
        ([waves, *learned], "columns, waves and tables"),
    ):
        assert (
            routes("2,9,1", 32, backend=processor, threads=1, input_columns=columns)[0]
            == name
        )


def test_convolutions_name_their_algorithm(dtype):
    few = vector(dtype) // 2
    many = 32
    names = routes(
        f"{many}x32x32,conv{many}k3p1,conv{many}k5,conv{few}k3,1",
        32,
        backend="omp",
        threads=1,
        dtype=dtype,
    )
    algorithms = [re.split("[,;]", name)[0] for name in names[:3]]
    first_algorithm = {"float32": "winograd 4x4", "float64": "direct"}[dtype]
    assert algorithms == [first_algorithm, "direct", "planes"]


def test_layers_that_go_by_rows_are_fused_and_small_networks_train_in_micro_batches():
    first, pool, *_, last = routes(
        "3x32x32,conv16k3p1,maxpool2,10", 32, backend="omp", threads=1
    )
    assert first.endswith("; fused")
    assert pool == "vector loops; fused"
    assert not last.endswith("fused")
    table = [
        InputColumn("gap", fill=0.5, edges=(0.0, 1.0)),
        InputColumn("embedding", values=300, width=3),
    ]
    for rows in (32, 4096):
        names = routes("2,9:tanh,2", rows, threads=2, input_columns=table)
        assert {name.endswith("micro-batches") for name in names} == {rows == 4096}


def test_a_micro_batch_has_64_rows_at_least_and_the_kernels_of_as_many_rows():
    for spec in ("30,16,1", "300,4,1"):
        for rows in (64, 127, 128, 255, 256, 1023, 1024, 100_000):
            count = 1
            while rows >= 128 * count:
                count *= 2
            expected = routes(spec, rows // count, backend="omp", threads=1)
            if count > 1:
                expected = [f"{name}; {count} micro-batches" for name in expected]
            names = routes(spec, rows, backend="omp", threads=1)
            assert names == expected, (spec, rows)
