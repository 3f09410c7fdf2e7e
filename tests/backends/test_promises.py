"""The promises of docs/numbers.md, for fully connected networks: the same bits for any
number of threads, seq and omp in agreement, the same file from the same seed."""

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
from support.command_line import argv, environment
from support.distances import relative_distance
from support.networks import flattened

import nn
from nn.backends.engine import EpochSettings
from nn.core import extension, random
from nn.nn_aux import INITIALIZERS, OPTIMIZERS, SCHEDULES

SMALL = [
    "30,60,10,1",
    "7,19:tanh,3:softplus,2",
    "5,1",
    "9,257:lrelu,129:sigmoid,2",
    "1,1,1",
]
WIDE = "50,700,301,3"  # wide enough that 8 threads all have work


def regression_data(shape, outputs, rows, seed=1):
    rng = np.random.default_rng(seed)
    size = (rows, *np.atleast_1d(shape))
    x = rng.normal(size=size).astype(np.float32)
    draws = rng.normal(size=(np.prod(shape), outputs))
    y = np.tanh(x.reshape(rows, -1) @ draws)
    y += 0.1 * rng.normal(size=(rows, outputs))
    return nn.Dataset(x=x, y=y.astype(np.float32), task="regression")


def binary_data(inputs, rows, seed):
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(rows, inputs))
    x = draws.astype(np.float32)
    draws = rng.normal(size=inputs)
    y = (x @ draws + 0.3 * rng.normal(size=rows) > 0).astype(np.int32)
    return nn.Dataset(x=x, y=y, task="binary", classes=["0", "1"])


def trained(spec, ds, backend="omp", threads=1, dtype="float32", seed=0, **settings):
    """(network, what train returns)"""
    net = nn.Network(
        spec, ds.task, backend=backend, dtype=dtype, threads=threads, seed=seed
    )
    return net, nn.train(net, ds, **settings)


def parameters(*arguments, **settings):
    return flattened(trained(*arguments, **settings)[0].parameters())


def with_the_same_bits(spec, ds, counts, **settings):
    """The parameters that training ends with on any of these numbers of threads; losses
    and predictions are compared, too."""
    ends = []
    for threads in counts:
        net, figures = trained(spec, ds, threads=threads, **settings)
        predictions = net.predict(ds.x)
        vector = flattened(net.parameters())
        ends.append((vector, figures["loss"], figures.get("val_loss"), predictions))
        np.testing.assert_equal(ends[-1], ends[0], f"{threads} threads")
    return ends[0][0]


def threads_for(rows, spec, counts, **options):
    nets = (
        nn.Network(spec, "regression", backend="omp", threads=threads, **options)
        for threads in counts
    )
    return [net.engine.threads_for(rows) for net in nets]


@pytest.mark.usual(2, 4)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_omp_gives_the_same_bits_for_any_thread_count(dtype, optimizer):
    if not extension("omp")[1].nn_has_openmp():
        pytest.skip("built without OpenMP: there is one thread only")
    counts = [1, 2, 3, 4, 8]
    assert threads_for(200, WIDE, counts, dtype=dtype) == counts, (
        "this network should be worth that many threads"
    )
    ds = regression_data(50, 3, 500, seed=1)
    how = {"epochs": 2, "batch_number": 200, "optimizer": optimizer}
    with_the_same_bits(WIDE, ds, counts, dtype=dtype, **how)


@pytest.mark.usual(1, 3)
@pytest.mark.parametrize("rows", [5300, 4150])
@pytest.mark.parametrize(
    "spec", ["30,60:sigmoid,10:sigmoid,1", "50,50,dropout0.3,20,1", "20,300,200,1"]
)
def test_a_large_batch_of_a_small_network_has_the_same_bits_for_any_thread_count(
    spec, rows
):
    """It is trained in parts, as many as its rows ask for, and the shorter last batch
    in fewer, or as a whole."""
    inputs = int(spec.split(",")[0])
    ds = binary_data(inputs, rows, seed=1)
    how = {
        "dtype": "float64",
        "epochs": 1,
        "batch_number": 4000,
        "optimizer": "adam",
        "holdout": 0.0,
    }
    end = with_the_same_bits(spec, ds, (1, 2, 3, 8), **how)
    expected = parameters(spec, ds, "seq", **how)
    assert relative_distance(end, expected) < 1e-9


@pytest.mark.usual(0, 5)
@pytest.mark.parametrize("batch", [500, 1500])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("spec", "outputs"),
    [("330,240:tanh,270,1", 1), ("270,260:softplus,250:sigmoid,33", 33)],
)
def test_large_products_have_the_same_bits_for_any_thread_count(
    spec, outputs, optimizer, batch
):
    """Those of the matrix unit, where there is one: of all three passes, with steps in
    the product and without."""
    shape = int(spec.split(",")[0])
    ds = regression_data(shape, outputs, 1300)
    how = {
        "epochs": 1,
        "batch_number": batch,
        "optimizer": optimizer,
        "learning_rate": 1e-3,
    }
    end = with_the_same_bits(spec, ds, (1, 2, 5), **how)
    expected = parameters(spec, ds, "seq", **how)
    assert relative_distance(end, expected) < 1e-5


@pytest.mark.usual(2, 6)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("spec", "shape", "outputs", "used"),
    [
        (
            "1x28x28,conv4k2same,conv4k2same,maxpool4,128,10",
            (1, 28, 28),
            10,
            [1, 2, 3, 4],
        ),
        ("200,200,200,1", 200, 1, [1, 1, 1, 4]),
        ("400,400,400,1", 400, 1, [1, 2, 3, 4]),
    ],
)
def test_small_batches_have_the_same_bits_for_any_thread_count(
    spec, shape, outputs, used, optimizer
):
    """Layers are then parted by columns, if they are wide, or not counted as work for
    another thread."""
    assert threads_for(32, spec, (1, 2, 3, 4)) == used
    ds = regression_data(shape, outputs, 190)
    with_the_same_bits(
        spec, ds, (1, 2, 3, 4), epochs=2, batch_number=32, optimizer=optimizer
    )


def test_an_image_is_not_shared_by_threads_while_rows_are_fewer():
    """A network's large fully connected layers are, and images are dealt out where
    there are as many as threads."""
    images = nn.Network(
        "3x32x32,conv32k3p1,conv32k3p1,10", "multiclass", backend="omp", threads=4
    )
    assert [images.engine.threads_for(rows) for rows in (1, 2, 4)] == [1, 2, 4]
    dense = nn.Network("3200,1600,800,1", "regression", backend="omp", threads=4)
    assert dense.engine.threads_for(1) == 4


@pytest.mark.parametrize("reserved", [1020, 800])
def test_batches_after_a_pass_over_more_rows_have_the_bits_of_a_fresh_engine(reserved):
    """Blocks of a product of fewer rows may take more scratch than those of one of more
    rows: found by sanitizers."""
    ds = regression_data(270, 1, 1020, seed=1)
    ends = []
    for rows in (reserved, 0):
        engine = nn.Network("270,128,1", "regression", backend="omp", threads=1).engine
        data = engine.load(ds.x, ds.y)
        if rows:
            engine.gradients(ds.x[:rows], ds.y[:rows])
        for batch in (512, 439):
            engine.epoch(
                data,
                np.arange(1020),
                EpochSettings("adam", batch, [0.001] * 9),
                engine.progress(),
            )
        ends.append(engine.get("parameters").tobytes())
    assert ends[0] == ends[1]


def test_moments_of_weights_without_gradients_do_not_become_subnormal(dtype):
    """As they decay: they would stay so for ever, and processors need a hundred times
    as long for such numbers."""
    tiny = np.finfo(dtype).tiny
    rng = np.random.default_rng(6)
    draws = rng.normal(size=(300, 3))
    x = draws.astype(dtype)
    x[:, 0] = 0
    net = nn.Network("3,2", "regression", backend="omp", dtype=dtype, threads=2)
    engine = net.engine
    for moment in ("moment1", "moment2"):
        engine.set(moment, np.full(engine.size, tiny, dtype))
    settings = EpochSettings(
        optimizer="adam", batch=1, rates=[1e-3] * 9, momentum=0, weight_decay=0, seed=1
    )
    data = engine.load(x, x[:, :2].copy())
    engine.epoch(data, np.arange(300), settings, engine.progress())
    for moment in ("moment1", "moment2"):
        weight_moments = engine.get(moment)[:6].reshape(2, 3)
        assert ((weight_moments[:, 0] == 0) | (weight_moments[:, 0] == tiny)).all()
        assert (np.abs(weight_moments[:, 1:]) > tiny).all()
    assert (np.full(100, tiny, dtype) / 2 > 0).all(), (
        "the caller's own arithmetic keeps such numbers"
    )


@pytest.mark.usual(4)
@pytest.mark.parametrize("spec", [*SMALL, WIDE])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)]
)
def test_one_batch_has_the_gradients_of_seq(spec, dtype, tolerance):
    """The median of 20 batches: a single one may exceed the tolerance where a relu
    decides on a rounding."""
    distances = []
    for seed in range(20):
        seq = nn.Network(spec, "regression", backend="seq", dtype=dtype, seed=seed)
        omp = nn.Network(spec, "regression", backend="omp", dtype=dtype, seed=seed)
        rows = 1 + 3 * seed
        ds = regression_data(seq.inputs, seq.outputs, rows, seed)
        loss, grads, dx = seq.gradients(ds.x, ds.y)
        omp_loss, omp_grads, omp_dx = omp.gradients(ds.x, ds.y)
        assert np.linalg.norm(flattened(grads)) > 0
        assert omp_loss == pytest.approx(loss, rel=tolerance)
        pairs = (flattened(omp_grads), flattened(grads)), (omp_dx, dx)
        distances.append([relative_distance(*pair) for pair in pairs])
    assert max(np.median(distances, axis=0)) < tolerance


@pytest.mark.usual(6, 12)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    "spec",
    [
        "30,60,10,1",
        "12,9:tanh,1",
        "20,40,1",
        "30,60:sigmoid,10:sigmoid,1",
        "20,50:sigmoid,1",
        "9,1027:softplus,1",
    ],
)
def test_three_epochs_of_float64_end_where_seq_ends(spec, optimizer):
    inputs = int(spec.split(",")[0])
    ds = binary_data(inputs, 2000, 3)
    how = {
        "threads": None,
        "dtype": "float64",
        "epochs": 3,
        "optimizer": optimizer,
        "momentum": 0.0,
    }
    assert (
        relative_distance(
            *(parameters(spec, ds, backend, **how) for backend in ("omp", "seq"))
        )
        < 1e-9
    )


@pytest.mark.usual(2)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("spec", ["30,60,10,1", "12,9:tanh,1"])
def test_three_epochs_of_float32_end_where_seq_ends(spec, optimizer):
    """Within 1e-5, as the median of 5 seeds: where a relu decides on a rounding, Adam
    makes a step of it."""
    distances = []
    for seed in range(5):
        inputs = int(spec.split(",")[0])
        ds = binary_data(inputs, 2000, seed)
        how = {"epochs": 3, "optimizer": optimizer}
        ends = (
            parameters(spec, ds, backend, threads=None, seed=seed, **how)
            for backend in ("omp", "seq")
        )
        distances.append(relative_distance(*ends))
    assert np.median(distances) < 1e-5


DRAWN = {  # the SHA-256 of 100,001 numbers that seed 3 draws, wherever the tests run
    "uniform": "1b10b8593c04325b6a43036f16326464624b79c71bb56b13b531c958938ddf03",
    "glorot": "b977a3e61db961a0874a335dddceab21785fd400ea22314b7f718a259a46a2d4",
    "he": "6cb2b4d445713c7890765f1d738d28522939422535e57ad0d46c12d2564feb93",
    "waves": "eb54befcfb535f10ec1a740d8ac805368dbf95b449cabb4b9394fc8930e4e078",
    "order": "ba1ea3234690bb98abae32943a86db26da07c8120d34f1f0f488d289984c083b",
}


def test_the_same_seed_draws_the_same_numbers_on_every_machine():
    count = 100_001
    drawn = {
        init: random.initial_weight(init, [(count, 9, 4)], 3, 1)
        for init in ("uniform", "glorot", "he")
    }
    waves = [(count, 0.1)]
    drawn["waves"] = random.initial_frequencies(waves, 3)
    drawn["order"] = random.shuffled(count, 3, random.STREAM_SHUFFLE, 5)
    assert {
        what: hashlib.sha256(values.tobytes()).hexdigest()
        for what, values in drawn.items()
    } == DRAWN


VARIANCES = {  # of the weights that an initialiser draws, by fan_in and fan_out
    "he": lambda fan_in, fan_out: 2 / fan_in,
    "lecun": lambda fan_in, fan_out: 1 / fan_in,
    "glorot": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
    "uniform": lambda fan_in, fan_out: 1 / 12,
}


@pytest.mark.parametrize("init", INITIALIZERS)
def test_initial_weights_have_the_variance_of_their_rule(init):
    drawn = random.initial_weight(init, [(100_000, 50, 30)], 3, 1)
    deviation = np.sqrt(VARIANCES[init](50, 30))
    # 4.5 deviations of normal numbers'
    assert drawn.std() == pytest.approx(deviation, rel=0.01)
    # 4.7
    assert drawn.mean() == pytest.approx(
        0.5 if init == "uniform" else 0, abs=0.015 * deviation
    )


# of the learning rate, when 0, 1/2, 3/4, 7/8 and all of the training is over
SHARES = {
    "cooldown": (1, 1, 1, 0.5, 0),
    "plateau": (1, 1, 1, 0.5, 0),
    "constant": (1, 1, 1, 1, 1),
    "linear": (1, 0.5, 0.25, 0.125, 0),
    "cosine": (1, 0.5, (1 - math.sqrt(0.5)) / 2, (1 - math.cos(math.pi / 8)) / 2, 0),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_goes_from_the_whole_learning_rate_to_its_end(schedule):
    shares = [SCHEDULES[schedule](done) for done in (0, 0.5, 0.75, 0.875, 1)]
    assert shares == pytest.approx(SHARES[schedule], abs=1e-15)


def test_a_seed_gives_one_model_file_which_predicts_alike_on_both_backends(
    processor, datasets, tmp_path
):
    ds = nn.load(datasets / "CC.csv")
    files = []
    for threads in (1, 2):
        net, _ = trained("30,60,10,1", ds, processor, threads, seed=5, epochs=2)
        net.export(tmp_path / "m.bin")
        files.append((tmp_path / "m.bin").read_bytes())
    assert files[0] == files[1]
    other_seed = nn.Network("30,60,10,1", "binary", seed=6, backend=processor)
    expected = flattened(net.parameters())
    assert relative_distance(flattened(other_seed.parameters()), expected) > 0.1
    scores = [
        nn.Network.load(tmp_path / "m.bin", backend=backend).predict(ds.x)
        for backend in ("seq", "omp")
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


@pytest.mark.usual(3)
@pytest.mark.parametrize(
    "spec",
    [
        "30,60:sigmoid,10:tanh,1",
        "64,33,5",
        "3,1:sigmoid",
        "700,17,1",
        "600,2000,600,2:softplus",
    ],
)
def test_a_row_is_predicted_the_same_alone_and_among_many(spec, dtype):
    """Threads take blocks of rows as they come: which rows lie in one, and who computes
    it, must not show."""
    size = (301, int(spec.split(",")[0]))
    draws = np.random.default_rng(7).normal(size=size)
    x = draws.astype(dtype)
    net = nn.Network(spec, "regression", backend="omp", dtype=dtype, threads=4)
    many = net.predict(x)
    assert not np.array_equal(many[0], many[1])
    for rows, threads in (
        (slice(0, 1), 4),
        (slice(70, 77), 1),
        (slice(100, 200), 3),
        (slice(299, 301), 2),
    ):
        few = nn.Network(
            spec, "regression", backend="omp", dtype=dtype, threads=threads
        )
        predictions = few.predict(x[rows])
        np.testing.assert_array_equal(predictions, many[rows])
    net = nn.Network(spec, "regression", backend="seq", dtype=dtype)
    seq = net.predict(x)
    distance = relative_distance(many, seq)
    assert distance < {"float32": 1e-5, "float64": 1e-12}[dtype]


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        *[
            (1, 1, 1),
            (5, 3, 0),
            (32, 800, 300),
            (37, 65, 1024),
            (144, 32, 20_000),
            (3, 7, 8_209),
            (131, 517, 600),
        ],
        # few rows: stripes, and columns beside them
        *[(1, 800, 400), (2, 496, 90), (3, 400, 50), (4, 1200, 700)],
        # the matrix unit, if there is one
        *[(320, 320, 320), (301, 333, 517), (280, 2330, 70), (230, 250, 2065)],
    ],
)
def test_a_product_is_right_and_has_the_same_bits_for_any_thread_count(
    m, n, k, transposed
):
    """Of few rows, of long sums, of a grid, and of sums of nothing."""
    rng = np.random.default_rng(m + n + k)
    draws = rng.normal(size=(m, k))
    a = draws.astype(np.float32)
    draws = rng.normal(size=(k, n))
    b = draws.astype(np.float32)
    truth = a.astype(np.float64) @ b
    if "a" in transposed:
        a = np.asfortranarray(a)
    if "b" in transposed:
        b = np.asfortranarray(b)
    product = nn.matmul(a, b, threads=1)
    norm = np.linalg.norm(product - truth)
    assert norm <= 1e-6 * np.linalg.norm(truth)
    for threads in (2, 3, 5, 16):
        np.testing.assert_array_equal(nn.matmul(a, b, threads=threads), product)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32(3.4e38)])
def test_what_is_no_number_stays_so_in_a_product_and_does_not_spread(value):
    """A network that diverges must show it, however its large products are done."""
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(320, 320))
    a = draws.astype(np.float32)
    draws = rng.normal(size=(320, 320))
    b = draws.astype(np.float32)
    sound = nn.matmul(a, b)
    a[7, 300] = value
    product = nn.matmul(a, b)
    spoilt = nn.matmul(b, a)
    assert not np.isfinite(product[7]).any() or np.isfinite(value)
    expected = np.delete(sound, 7, axis=0)
    np.testing.assert_array_equal(np.delete(product, 7, axis=0), expected)
    assert not np.isfinite(spoilt[:, 300]).any() or np.isfinite(value)
    assert np.isfinite(np.delete(spoilt, 300, axis=1)).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e12, 1e30])
def test_a_product_is_exact_for_numbers_of_any_size_and_refuses_swapped_bytes(scale):
    rng = np.random.default_rng(6)
    a = rng.normal(size=(330, 350)) * scale
    b = rng.normal(size=(350, 320)) / scale
    a = a.astype(np.float32)
    b = b.astype(np.float32)
    assert relative_distance(nn.matmul(a, b), a.astype(np.float64) @ b) <= 1e-6
    with pytest.raises(ValueError, match="expected float32 or float64, got >f4"):
        nn.matmul(np.ones((2, 2), ">f4"), np.ones((2, 2), ">f4"))


INSTRUCTION_SETS = ["avx512", "avx2", "baseline"]
# products that take it: no lesser set has it
FOR_THE_MATRIX_UNIT = "320-320 or 301-333 or 280-2330 or 230-250"
CLAIMS = {  # tests above that the lesser instruction sets must pass, in one process
    "products": [
        test_one_batch_has_the_gradients_of_seq,
        test_a_product_is_right_and_has_the_same_bits_for_any_thread_count,
    ],
    "networks": [
        test_three_epochs_of_float64_end_where_seq_ends,
        test_omp_gives_the_same_bits_for_any_thread_count,
        test_a_row_is_predicted_the_same_alone_and_among_many,
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "isa",  # .ci/run has the others
    [
        "avx512",
        *(pytest.param(isa, marks=pytest.mark.long) for isa in ("avx2", "baseline")),
    ],
)
@pytest.mark.parametrize(
    "claims", ["products", pytest.param("networks", marks=pytest.mark.long)]
)
def test_lesser_instruction_sets_are_right_too(claims, isa):
    """Tests above once more in a process that may use no more than this instruction
    set."""
    ffi, lib = extension("omp")
    in_use = ffi.string(lib.nn_isa()).decode()
    if INSTRUCTION_SETS.index(isa) <= INSTRUCTION_SETS.index(in_use):
        pytest.skip(f"{in_use} is what all tests use here")
    tests = [f"{__file__}::{test.__name__}" for test in CLAIMS[claims]]
    command = [
        sys.executable,
        *argv("-m pytest -q -p no:cacheprovider"),
        "-m",
        "not long",
        "-k",
        f"not ({FOR_THE_MATRIX_UNIT})",
    ]
    done = subprocess.run(
        [*command, *tests], env=environment(NN_ISA=isa), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_an_unknown_instruction_set_is_refused():
    code = "import nn; nn.Network('2,1').gradients([[1, 2]], [[1]])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(NN_ISA="mmx"),
        capture_output=True,
        text=True,
    )
    assert "UsageError: NN_ISA=mmx" in done.stderr


def test_a_second_training_begins_with_a_fresh_optimiser(processor):
    ds = binary_data(6, 200, 1)
    once = nn.Network("6,4,1", "binary", backend=processor)
    nn.train(once, ds, epochs=2)
    again = nn.Network("6,4,1", "binary", backend=processor)
    again.set_parameters(once.parameters())
    for net in (once, again):
        nn.train(net, ds, epochs=1)
    np.testing.assert_equal(once.parameters(), again.parameters())
