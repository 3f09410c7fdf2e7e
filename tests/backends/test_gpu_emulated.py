"""Kernels of the GPU on the processor (support/emulated_gpu.py): packs have the bits of
the network alone."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.distances import relative_distance
from support.emulated_gpu import can_emulate, emulated_gpu
from support.epochs import settings
from support.moved_images import check_moves
from support.networks import StopsAfter, fill, network
from support.pack_members import Members
from support.threads import in_threads, two_classes

import nn
from nn.backends.cuda import abi, device, epoch, small
from nn.backends.cuda import engine as engines
from nn.backends.cuda import pack as packs
from nn.backends.cuda.engine import CudaEngine
from nn.backends.cuda.pack import CudaPack
from nn.backends.cuda.program import PLAIN
from nn.backends.engine import EpochSettings, PackJob, TimedStep
from nn.backends.member import Turns
from nn.utils import NnError, UsageError

pytestmark = pytest.mark.skipif(
    not can_emulate(), reason="no g++ on Linux, which the emulation is for"
)

SPEC = "6,9:relu,5:tanh,3"
ROWS = 83
MEMBERS = 3
HOW = [  # what each member does otherwise than the others
    {"weight_decay": 0.1},
    {"seed": 77, "rates": [0.02] * 5 + [0.01] * 4},
    {"weight_decay": 0.3, "momentum": 0.9},
]


@pytest.fixture
def emulated(monkeypatch):
    """A GPU on the processor. A fixture called `gpu` is a real one, and conftest.py
    leaves its tests out where there is none."""
    monkeypatch.setattr(packs, "PARTS_A_TURN", 1000)
    with emulated_gpu(monkeypatch) as cupy:
        yield cupy


def prepared(dtype="float32", weighted=False, spec=SPEC, **changes) -> Members:
    """Return members, each with rows and settings of its own."""
    net = network(spec, "seq", dtype)
    engine = CudaEngine("cuda", net.layers, net.loss, dtype)
    x, y = fill(net, ROWS)
    x = x.reshape(ROWS, -1)
    rng = np.random.default_rng(1)
    draws = rng.random((MEMBERS, ROWS))
    weights = draws.astype(dtype)
    data = [engine.load(x, y, weights[m] if weighted else None) for m in range(MEMBERS)]
    how = [settings(**{**own, **changes}) for own in HOW]
    rows = [
        np.flatnonzero(np.arange(ROWS) % 7 != m)[: ROWS - 14 - m]
        for m in range(MEMBERS)
    ]
    return Members(engine, data, how, rows)


def spy_on(monkeypatch):
    """The plans of the kernels that train packs."""
    plans = []
    original = packs.SideBySide.__init__

    def init(kernel, plan, purpose, dtype):
        plans.append(plan)
        original(kernel, plan, purpose, dtype)

    monkeypatch.setattr(packs.SideBySide, "__init__", init)
    return plans


@pytest.mark.usual(0, 2)
@pytest.mark.parametrize(
    ("changes", "dtype", "weighted"),
    [
        ({"optimizer": "adam"}, "float32", True),
        ({"optimizer": "sgd", "momentum": 0.0}, "float64", False),
        ({"optimizer": "sgd", "momentum": 0.9}, "float32", False),
        ({"optimizer": "rmsprop"}, "float32", True),
        ({"optimizer": "adagrad", "epsilon": 0.01}, "float64", False),
    ],
)
def test_a_network_in_one_block_has_the_same_bits_among_others(
    changes, dtype, weighted, emulated, monkeypatch
):
    members = prepared(dtype, weighted, **changes)
    plans = spy_on(monkeypatch)
    members.how = [replace(how, batch=10 + m % 2) for m, how in enumerate(members.how)]
    members.check(members.pack(), 2)
    assert {plan.parts for plan in plans} == {1}


@pytest.mark.slow
def test_each_setting_of_an_epoch_is_a_members_own_in_a_pack(emulated):
    """A new field of EpochSettings has a value here: members of a pack that differ in
    it must not share what it decides."""
    usual = settings()
    of_sgd = settings(optimizer="sgd", momentum=0.5)
    other_values = {
        "optimizer": "adagrad",
        "batch": 11,
        "rates": [0.02] * 5 + [0.01] * 4,
        "momentum": 0.9,
        "betas": (0.7, 0.95),
        "epsilon": 0.01,
        "weight_decay": 0.3,
        "scale_rate": 3.0,
        "seed": 77,
        "augment": "both",
        "freeze": 1,
    }
    expected = [field.name for field in fields(EpochSettings)]
    assert list(other_values) == expected
    members = prepared()
    members.how = [
        usual,
        of_sgd,
        *(replace(usual, **{name: value}) for name, value in other_values.items()),
        replace(of_sgd, momentum=0.9),
    ]
    members.data = [members.data[0]] * len(members.how)
    members.rows = [members.rows[0]] * len(members.how)
    members.check(members.pack(), 2)


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize(
    ("kilobytes", "chunks"), [(227, [1]), (14, range(2, 7)), (8, [7])]
)
def test_parts_of_a_batch_are_added_up_as_the_blocks_of_the_network_alone_do(
    kilobytes, chunks, emulated, monkeypatch
):
    """All parts at a time, some, or one after the other: as many as a block has room
    for."""
    monkeypatch.setattr(small, "ONE_BLOCK_WORK", 0)
    members = prepared()
    expected = members.expected(2)
    monkeypatch.setitem(
        emulated.cuda.Device().attributes,
        "MaxSharedMemoryPerBlockOptin",
        kilobytes << 10,
    )
    plans = spy_on(monkeypatch)
    members.check(members.pack(), 2, expected)
    (plan,) = plans
    assert plan.parts == 7
    assert plan.blocks == 1
    assert plan.chunks in chunks


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"betas": (0.7, 0.95), "epsilon": 0.01},
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "rmsprop", "betas": (0.7,)},
        {"optimizer": "adagrad", "epsilon": 0.01},
    ],
    ids=lambda how: " ".join(map(str, how.values())),
)
def test_a_training_step_ends_where_seq_ends(how, emulated):
    members = prepared("float64", **how)
    seq = network(SPEC, "seq", "float64").engine
    rows = fill(network(SPEC, "seq", "float64"), ROWS)
    cpu_data = [seq.load(*rows)] * MEMBERS
    ends = [
        group.alone(1, 1)
        for group in (members, replace(members, engine=seq, data=cpu_data))
    ]
    expected = ends[1][0][0]
    assert relative_distance(ends[0][0][0], expected) < 1e-12
    expected = ends[1][1]
    assert ends[0][1] == pytest.approx(expected, rel=1e-12)


def test_what_the_gpu_tells_of_a_network(emulated):
    engine = prepared(spec="12,4,3").engine
    assert engine.routes(32)[1:] == [
        "layer 0 4: forward small_forward; backward small_backward_parameters",
        "layer 1 3: forward small_forward; backward small_backward_input, small_backward_parameters",
    ]
    most = (2**31 - 1) // 12
    told = f"--batch_number {most + 1}: a layer of 12 values allows at most {most} "
    for widest in (engine, prepared(spec="4,12,3").engine):
        widest.reserve(most)
        with pytest.raises(UsageError, match=told):
            widest.reserve(most + 1)


def test_the_bytes_of_a_network_are_those_of_its_arrays(emulated, monkeypatch):
    taken = []
    zeros = emulated.zeros

    def noted(*arguments):
        taken.append(zeros(*arguments))
        return taken[-1]

    monkeypatch.setattr(emulated, "zeros", noted)
    engine = prepared(spec="30,64,3").engine
    data = engine.load(*np.split(np.ones((500, 33), np.float32), [30], axis=1))
    engine.epoch(data, np.arange(500), settings(batch=500), engine.progress())
    kept = [array.nbytes for array in taken if array.dtype != np.uint32]
    assert engine.bytes() == sum(kept) + abi.CONTROL_TYPE.itemsize


def test_programs_are_timed_for_what_is_recorded(emulated):
    """A training that is recorded predicts as always, and an inference trains so."""
    engine = prepared().engine
    data = engine.load(np.ones((50, 6), np.float32), np.ones((50, 3), np.float32))

    def timed():
        training = engine.epoch_purpose(data, settings(), 32)
        forward = [
            engine.forward_purpose(kind, data, 50) for kind in ("loss", "predict")
        ]
        return [purpose.timed for purpose in (training, *forward)]

    assert timed() == [False, False, False]
    engine.record(2)
    assert timed() == [True, False, False]
    engine.record(2, predicts=True)
    assert timed() == [False, False, True]
    assert engine.recorded() == []


def test_calls_of_several_runners_are_in_the_order_of_time(emulated):
    engine = prepared().engine
    engine.record(3, predicts=True)
    runners = []
    for begins in ((3.0, 5.0), (4.0, 6.0)):
        steps = [[TimedStep("forward", 0, begin, begin + 1)] for begin in begins]
        runners.append(SimpleNamespace(room=0, steps=lambda lane, steps=steps: steps))
        engine._record_by(runners[-1])
    engine._record_by(runners[0])
    assert [call[0].begin for call in engine.recorded()] == [3.0, 4.0, 5.0]
    assert [one.room for one in runners] == [3, 3]


@pytest.mark.usual(1, 6)
@pytest.mark.parametrize("outputs", [2, 3, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_small", [True, False])
def test_several_quantiles_train_and_predict_as_on_seq(
    is_small, dtype, outputs, emulated, monkeypatch
):
    """A row of a lane, of a warp, and of more outputs than a warp has lanes."""
    if not is_small:
        monkeypatch.setattr(small, "fits", lambda *_: False)
    shares = ",".join(f"{k / (outputs + 1):g}" for k in range(1, outputs + 1))
    loss = f"quantile={shares}"
    net = network(f"4,5:tanh,{outputs}", "seq", dtype, loss=loss)
    x, y = fill(net, 20)
    weights = np.linspace(0.5, 2, 20).astype(dtype)
    gpu = CudaEngine("cuda", net.layers, net.loss, dtype)
    gpu.set("parameters", net.engine.get("parameters"))
    how = settings(optimizer="sgd", batch=8, rates=[0.05] * 9)
    ends = []
    for engine in (net.engine, gpu):
        data = engine.load(x.reshape(20, -1), y, weights)
        progress = engine.progress()
        engine.epoch(data, np.arange(20), how, progress)
        assert (progress.row, progress.step) == (20, 3)
        outs = engine.predict(engine.load(x.reshape(20, -1)))
        assert (np.diff(outs, axis=1) >= 0).all()
        losses = progress.loss, engine.loss(data, np.arange(0, 20, 3))
        ends.append((engine.get("parameters"), outs, np.array(losses)))
    tolerance = 1e-11 if dtype == "float64" else 1e-5
    for own, expected in zip(*ends[::-1], strict=True):
        assert relative_distance(own, expected) < tolerance


def test_a_stopped_member_goes_on_where_it_was_and_others_go_on_at_once(
    emulated, monkeypatch
):
    monkeypatch.setattr(packs, "FIRST_BATCHES", 2)
    members = prepared(batch=10)
    expected = members.expected(1)
    pack = members.pack()
    jobs = members.jobs()
    jobs[1].progress = StopsAfter(1)
    pack.epoch(jobs)
    rows = [job.progress.row for job in jobs]
    assert rows == [
        len(jobs[0].rows),
        20,
        len(jobs[2].rows),
    ]
    jobs[1].progress = members.engine.progress(20, 2, jobs[1].progress.loss)
    pack.epoch([jobs[1]])
    members.check_ends(pack, jobs, expected)


def test_few_members_with_many_parts_take_turns_and_have_the_same_bits(
    emulated, monkeypatch
):
    monkeypatch.setattr(packs, "PARTS_A_TURN", 1)
    monkeypatch.setattr(small, "ONE_BLOCK_WORK", 0)
    members = prepared()
    plans = spy_on(monkeypatch)
    pack = members.pack()
    assert pack.describe() == "3 networks, which take turns"
    assert isinstance(pack, CudaPack)
    assert (
        members.engine.pack(7, 32).describe()
        == "7 networks, each in a block of the GPU"
    )
    members.check(pack, 1)
    assert not plans
    assert type(prepared(spec="4,5:tanh,dropout0.2,2").pack()) is Turns, (
        "no block computes them"
    )


def test_each_member_has_its_vectors_and_jobs_of_other_members_or_rows_are_refused(
    emulated,
):
    members = prepared()
    members.check_refusals(members.pack(), ROWS)
    engine = members.engine
    pack = members.engine.pack(3, 10)
    members.check_vectors(pack)
    lengths = [engine.size] * 4 + [engine.length("scales")]
    values = sum(map(packs.whole_lines, lengths))
    assert pack.bytes() - engine.bytes() == 3 * 4 * values
    for wrong in (np.zeros(3, np.float32), np.zeros(engine.size)):
        with pytest.raises(ValueError, match="expected float32"):
            pack.set(0, "parameters", wrong)


@pytest.mark.parametrize("counts", [[1, 2], [447, 448, 449], [1000, 3]])
def test_the_gpu_draws_the_orders_of_the_processor(counts, emulated):
    rows = [np.arange(count)[::-1] * 3 for count in counts]
    shared = np.arange(20)
    rows += [shared[:10], shared[::2], shared[:10]]  # which begin at one place
    counts = list(map(len, rows))
    how = [settings(seed=seed) for seed in (5, 2**32 - 1, 7, 8, 9, 10)]
    jobs = [
        PackJob(m, None, job_rows, how[m], None, 3 * m)
        for m, job_rows in enumerate(rows)
    ]
    drawn = packs.Orders(jobs, np.array(counts), False)
    assert not drawn.on_host
    ends = np.cumsum(counts)
    expected = [job.order() for job in jobs]
    np.testing.assert_equal(np.split(drawn._drawn, ends[:-1]), expected)


def test_losses_of_rows_are_added_up_as_on_the_processor(emulated):
    losses = [
        np.full(3, -0.0),
        *(
            np.random.default_rng(n).exponential(size=n)
            for n in (1, 255, 256, 257, 1000)
        ),
    ]
    on_gpu = device.cupy().asarray(np.concatenate(losses))
    counts = np.array([len(loss) for loss in losses])
    control = np.zeros(len(losses), abi.CONTROL_TYPE)
    control["row_loss"] = on_gpu.data.ptr + 8 * (np.cumsum(counts) - counts)
    control["count"] = counts
    sums = packs.summed_losses(
        device.cupy().asarray(control.view(np.uint8)), len(losses)
    )
    # -0 is not 0
    expected = np.array([epoch.summed(loss) for loss in losses]).tobytes()
    assert np.array(sums).tobytes() == expected


def test_the_emulation_notices_a_barrier_that_is_missing(emulated, monkeypatch):
    expected = prepared(batch=10).alone(1, 2)
    whole = small.Plan._forward

    def without_a_barrier(plan):
        statements = whole(plan)
        statements.remove(small.BARRIER)
        return statements

    monkeypatch.setattr(small.Plan, "_forward", without_a_barrier)
    broken = prepared(batch=10).alone(1, 2)
    assert not np.array_equal(broken[0][0], expected[0][0])


@pytest.mark.slow
def test_forward_passes_of_all_members_in_one_launch_have_the_bits_of_each_alone(
    emulated, monkeypatch
):
    monkeypatch.setattr(engines, "PREDICT_ROWS", 32)  # several batches
    members = prepared(weighted=True)
    pack = members.pack()
    jobs = [replace(job, rows=job.rows[::-1]) for job in members.jobs(1)][::-1]
    with monkeypatch.context() as patch:
        patch.setattr(CudaEngine, "_forward", None)  # of the network alone
        predictions = pack.predict(jobs)
        loss = pack.loss(jobs)
        assert len(predictions) == len(loss) == MEMBERS
    members.check_forward(pack, jobs)


@pytest.mark.parametrize("rows", [63, 64, 65, 83])
def test_outputs_that_come_back_some_at_a_time_are_those_of_seq(
    rows, emulated, monkeypatch
):
    """Of all rows or of some, in blocks of 64, each of batches of 16."""
    monkeypatch.setattr(engines, "OUT_ROWS", 64)
    monkeypatch.setattr("nn.backends.cuda.data.STREAMED_BYTES", 1)
    monkeypatch.setattr(engines, "PREDICT_ROWS", 16)
    monkeypatch.setattr(engines, "MOST_PREDICT_ROWS", 16)
    members = prepared("float64")
    both = (members.engine, network(SPEC, "seq", "float64").engine)
    for engine in both:
        engine.set("parameters", members.start(0))
    x = np.random.default_rng(0).normal(size=(rows, 6))
    some = np.random.default_rng(3).permutation(rows)
    for order in (None, some, some[:-1]):
        for room in (None, 0):  # all on the GPU, or streamed a batch at a time
            members.engine.data_room = room
            outputs = [engine.predict(engine.load(x), order) for engine in both]
            assert relative_distance(*outputs) < 1e-12


@pytest.mark.usual(0, 5)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("spec", ["33,9:relu,70:tanh,5", "9,300:sigmoid,250:relu,3"])
def test_few_rows_are_predicted_as_on_seq(spec, rows, emulated):
    """By warps, of one block and of several, and from five rows on in tiles."""
    net = network(spec, "seq", "float64")
    x, _ = fill(net, rows)
    gpu = CudaEngine("cuda", net.layers, net.loss, "float64")
    gpu.set("parameters", net.engine.get("parameters"))
    outputs = [engine.predict(engine.load(x)) for engine in (gpu, net.engine)]
    assert relative_distance(*outputs) < 1e-12
    program = gpu.whole_epochs(gpu.predict_purpose(rows, PLAIN))
    by_warps = [
        op.function == "few_rows_forward"
        for phase in program.phases
        for op in phase
        if op.step == ("forward", 0)
    ]
    assert by_warps == [rows <= 4]


def test_members_have_the_losses_of_their_own_rows_of_the_same_data(
    emulated, monkeypatch
):
    members = prepared("float64", weighted=True)
    members.data = members.data[:1] * MEMBERS
    pack = members.pack()
    jobs = members.jobs()
    together = pack.loss(jobs)
    for job, loss in zip(jobs, together, strict=True):
        members.engine.set("parameters", pack.get(job.member, "parameters"))
        expected = members.engine.loss(job.data, job.rows)
        assert loss == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(packs, "BLOCK_FLOPS", 0)  # one after the other
    assert pack.loss(jobs) == together


@pytest.mark.slow
def test_threads_predict_with_parameters_that_are_lent_and_the_engines_own_stay(
    emulated,
):
    members = prepared()
    engine = members.engine
    data = members.data[0]
    starts = [*map(members.start, range(4))]
    expected = []
    for start in starts:
        engine.set("parameters", start)
        expected.append(engine.predict(data))
    items = [*starts, *[None] * 4]
    results = in_threads(lambda vector: engine.predict(data, vector=vector), items)
    np.testing.assert_array_equal(results, [*expected, *[expected[-1]] * 4])
    np.testing.assert_array_equal(engine.get("parameters"), starts[-1])


@pytest.mark.usual(0, 2)
@pytest.mark.parametrize(
    ("least", "how"),  # as many GPUs at least are used
    [
        (
            3,
            {
                "networks": 5,
                "validation": 0.3,
                "monitor": "roc_auc",
                "refit": True,
                "class_weight": "balanced",
            },
        ),
        (3, {"folds": 3, "validation": 0.3}),
        (1, {"networks": 6, "vary": "hidden=4|6-3", "validation": 0.3}),
        (1, {"networks": 3, "vary": "number_embedding=linear|pieces3"}),
        (1, {"networks": 2}),
    ],
    ids=["networks", "folds", "layers", "numbers", "fewer than GPUs"],
)
def test_networks_on_several_gpus_have_the_bits_of_one(least, how, emulated, tmp_path):
    """Each kernel finds the memory of the GPU that it runs on: see Kernel."""
    emulated.cuda.runtime.getDeviceCount = lambda: 3
    ds = two_classes(90, 6)
    models = []
    results = []
    for gpus in ((), (0, 2, 1)):
        net = nn.Network("6,9,5,1", "binary", backend="cuda", gpus=gpus)
        results.append(nn.train(net, ds, epochs=2, **how))
        net.export(tmp_path / "m.bin")
        models.append((tmp_path / "m.bin").read_bytes())
        assert net.gpus == gpus
    assert models[0] == models[1]
    loss = results[0]["loss"]
    assert loss == results[1]["loss"]
    expected = results[1].get("folds")
    assert results[0].get("folds") == expected
    used = {member.gpus for member in net.members}
    assert used <= {(0,), (1,), (2,)}
    assert len(used) >= least


@pytest.mark.slow
def test_a_gpu_that_fails_ends_the_training_of_all_and_it_can_be_done_again(
    emulated, monkeypatch
):
    emulated.cuda.runtime.getDeviceCount = lambda: 2
    ds = two_classes(90, 6)
    net = nn.Network("6,9,1", "binary", backend="cuda", gpus=2)
    usual = CudaPack.epoch

    def fails(self, jobs):
        if self._engine.device == 1:
            raise NnError("this GPU is no more")
        usual(self, jobs)

    with (
        monkeypatch.context() as patch,
        pytest.raises(NnError, match="this GPU is no more"),
    ):
        patch.setattr(CudaPack, "epoch", fails)
        nn.train(net, ds, epochs=2, networks=4)
    assert nn.train(net, ds, epochs=2, networks=4)["networks"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(("augment", "raw"), [("shift", False), ("both", True)])
def test_images_are_moved_as_on_the_processor(augment, raw, emulated):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (70, 3, 9, 7), np.uint8)
    if raw:
        x = pixels
    else:
        x = (pixels / 255).astype(np.float32)
    y = (np.arange(70) % 3).astype(np.int32)
    check_moves(
        lambda: nn.Network("3x9x7,conv4k1,3", "multiclass", backend="cuda"),
        x,
        y,
        augment,
    )
