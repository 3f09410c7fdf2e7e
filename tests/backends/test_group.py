"""Several GPUs: what can be told without one. Who takes which rows, when gradients are sent, who waits for whom."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from nn.backends.cuda import device, epoch, group, nccl
from nn.backends.cuda.abi import UPDATE
from nn.backends.cuda.builder import BUCKET_BYTES, Builder
from nn.backends.cuda.program import LINE, Purpose, phases_source
from nn.backends.engine import EpochSettings
from nn.cluster import ALONE
from nn.layers import parse
from nn.utils import NnError, UsageError

PROCESSORS = 132
ALL_LAYERS = (
    "3x12x12,pad1,conv8k3p1,conv70k3:softplus,conv8k7same:tanh,conv3k2s3:lrelu,maxpool2s1,avgpool2:tanh,dropout0.3,"
    "flatten:sigmoid,300,35,2,10"
)
GIANT = "50,25600,12800,6656,1"
SOLAR_CNN = "1x50x50,conv32k3,conv64k3,maxpool2,dropout0.25,128,dropout0.5,1:relu"


# ---- slices


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("rows", "batch"), [(103, 10), (40, 8), (7, 100), (9, 1), (15, 8), (2, 3), (0, 5)])
def test_members_take_every_row_of_every_batch_once(rows, batch, size):
    order = np.random.default_rng(0).permutation(rows)
    taken = [list(group.own_rows(order, batch, rank_group)) for rank_group in group.thread_groups(size)]
    whole = []
    for first in range(0, rows, batch):
        here = order[first : first + batch]
        for rank, rank_group in enumerate(group.thread_groups(size)):
            own = here[rank_group.share(len(here))]
            assert list(own) == taken[rank][: len(own)]
            taken[rank] = taken[rank][len(own) :]
            assert len(own) <= group.most_rows(rows, batch, rank_group)
            whole += list(own)
    assert whole == list(order) and not any(taken)


def test_a_last_batch_may_give_a_member_more_than_a_full_one():
    rank_group = group.thread_groups(5)[2]  # 8 rows: 3 to 4; 7 rows: 2 to 4
    assert (rank_group.share(8), rank_group.share(7)) == (slice(3, 4), slice(2, 4))
    assert group.most_rows(15, 8, rank_group) == 2
    assert list(group.own_rows(np.arange(15), 8, rank_group)) == [3, 10, 11]


def test_one_alone_takes_all_rows_as_they_are():
    order = np.arange(10)
    assert group.own_rows(order, 3, ALONE) is order


def test_the_weight_of_a_batch_is_summed_over_members():
    weights, order = np.arange(20.0), np.random.default_rng(0).permutation(20)
    expected = [weights[order[first : first + 8]].sum() for first in (0, 8, 16)]
    assert epoch.batch_weights(None, order, 8, ALONE) is None
    assert epoch.batch_weights(weights, order, 8, ALONE).tolist() == expected
    for sums in on_threads(3, lambda rank: epoch.batch_weights(weights, order, 8, rank)):
        assert sums.tolist() == expected
    assert epoch.batch_weights(weights, order[:16], 8, ALONE).tolist() == expected[:2]


def test_the_steps_of_weighted_batches_are_divided_by_their_weights():
    how = EpochSettings("sgd", 8, [0.5] * 9)
    table = epoch.update_table(how, epoch.Progress(), 20, np.float64, np.array([4.0, 0.0, 0.5]))
    assert table[:, UPDATE.index("inv_rows")].tolist() == [0.25, 0, 2]
    assert table[:, UPDATE.index("rate")].tolist() == [0.125, 0, 1]
    ones = epoch.update_table(how, epoch.Progress(), 20, np.float64, np.array([8.0, 8.0, 4.0]))
    assert ones.tobytes() == epoch.update_table(how, epoch.Progress(), 20, np.float64).tobytes()


# ---- programs


def program(spec, distribute="mirrored", kind="train", rows=100, itemsize=4, updates_weights=True):
    layers = parse(spec, "relu", "softmax" if spec is ALL_LAYERS else "linear")
    purpose = Purpose(
        kind, rows, dropout=True, optimizer="ADAM", distribute=distribute, updates_weights=updates_weights
    )
    return Builder(layers, "ce" if spec is ALL_LAYERS else "mse", itemsize, PROCESSORS).build(purpose), layers


def positions(built, name):
    return [index for index, phase in enumerate(built.phases) if phase[0].step[0] == name]


@pytest.mark.parametrize("kind", ["train", "gradients"])
@pytest.mark.parametrize("spec", [ALL_LAYERS, GIANT, SOLAR_CNN, "30,60,10,1", "30,1"])
def test_every_gradient_is_sent_once_and_waited_for(spec, kind):
    """In large buckets, but for the last one."""
    built, layers = program(spec, kind=kind)
    assert all(4 * values >= BUCKET_BYTES for _, values in built.sent[:-1])
    sent = sum(values for _, values in built.sent)
    learners = [layer.parameters for layer in layers if layer.parameters]
    assert sent == built.sum_values == sum(-(-size // LINE) * LINE for size in learners)
    assert {how for how, _ in built.sent} == {"all_reduce"}
    together, updates = positions(built, "communication"), positions(built, "update")
    assert len(together) == len(built.sent) + 1  # and the wait
    assert together[-1] + 1 == updates[0] == len(built.phases) - 1


@pytest.mark.parametrize("spec", [ALL_LAYERS, GIANT, SOLAR_CNN])
@pytest.mark.parametrize("bucket", [1, 10_000, BUCKET_BYTES])
def test_a_bucket_is_sent_after_all_its_gradients(spec, bucket, monkeypatch):
    """Each address that is sent was written by ops of earlier phases only, by its layer's gradient op or their sum."""
    monkeypatch.setattr("nn.backends.cuda.builder.BUCKET_BYTES", bucket)
    built, _ = program(spec)
    writes = {}  # phase -> the places in the vector of sums that its ops fill
    for index, phase in enumerate(built.phases):
        for op in phase:
            if op.step[0] == "backward":
                writes.setdefault(index, []).extend([op.arguments[0].at] if op.gives_gradients else [])
    begin, ends = 0, []
    for _, values in built.sent:
        ends.append(begin + values)
        begin += values
    sends = positions(built, "communication")[:-1]
    for send, end, start in zip(sends, ends, [0, *ends], strict=False):
        late = [at for index, places in writes.items() if index > send for at in places if start <= at < end]
        early = [at for index, places in writes.items() if index < send for at in places if start <= at < end]
        assert early and not late


def test_the_giant_sends_its_largest_gradients_while_the_layer_below_still_waits_for_its_own():
    """The product with the weights, which gives dz of the layer below, comes after the gradients are sent."""
    built, _ = program(GIANT, rows=1000)
    sends, backward = positions(built, "communication"), positions(built, "backward")
    assert len(built.sent) == 3
    assert all(any(send < later for later in backward) for send in sends[:2])


def test_central_reduces_steps_on_one_member_and_sends_the_parameters():
    for here in (True, False):
        built, layers = program(GIANT, "central", updates_weights=here)
        assert [how for how, _ in built.sent] == ["reduce"] * 3 + ["broadcast"]
        assert built.sent[-1][1] == sum(layer.parameters for layer in layers)
        updates = positions(built, "update")
        assert bool(updates) == here
        assert not updates or updates[0] < positions(built, "communication")[-2]


def test_a_program_that_nobody_shares_is_as_before():
    built, _ = program(ALL_LAYERS, "")
    assert not built.sent and not positions(built, "communication") and "#define SHARED" not in phases_source(built)
    assert "#define SHARED" in phases_source(program(ALL_LAYERS)[0])


# ---- threads as ranks


def on_threads(size, call):
    """call(rank_group) on a thread for each member: what they return, or the errors of wrong use."""

    def run(rank_group):
        try:
            return call(rank_group)
        except UsageError as error:
            return str(error)

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, group.thread_groups(size), timeout=30))


def test_threads_gather_in_order_again_and_again():
    def talk(rank_group):
        said = []
        for turn in range(50):
            time.sleep(0.0001 * (rank_group.rank * 7 % 3))
            gathered = rank_group.gather((rank_group.rank, turn))
            said.append((gathered, rank_group.gather(rank_group.rank == turn)))
        return said

    results = on_threads(4, talk)
    assert results[0] == [
        ([(rank, turn) for rank in range(4)], [rank == turn for rank in range(4)]) for turn in range(50)
    ]
    assert all(result == results[0] for result in results)


def test_threads_add_up_in_member_order():
    values = [1e16, 1.0, -1e16, 1.0]
    sums = on_threads(4, lambda rank_group: rank_group.sum(values[rank_group.rank]))
    assert sums == [((1e16 + 1.0) - 1e16) + 1.0] * 4


# ---- a group of engines that are no GPUs


class FakeEngine:
    """What Group asks of an engine, in NumPy; learns the sum of the rows it was given."""

    def __init__(self, backend, layers, loss, dtype, *, device, tf32, member):
        self.name, self.dtype, self.size, self.inputs, self.outputs = backend, np.dtype(dtype), 1, 2, 1
        self.device, self.rank_group, self.fails = device, member.rank_group, False
        self.vector, self.forgot = np.zeros(1), 0

    def device_name(self):
        return "Fake"

    def checked(self, x, y, weights):
        return x, y, weights

    def load(self, x, y=None, weights=None):
        return x

    def progress(self, row=0, step=0, loss=0.0):
        return SimpleNamespace(row=row, step=step, loss=loss)

    def epoch(self, data, order, training, progress):
        if self.fails:
            raise NnError("out of memory on GPU 1")
        own = group.own_rows(order, training, self.rank_group)
        self.vector = np.array([sum(self.rank_group.gather(float(data[own].sum())))])
        progress.row = len(order)

    def get(self, what):
        return self.vector

    def set(self, what, vector):
        self.vector = vector

    def predict(self, data, rows=None, vector=None):
        return data if rows is None else data[rows]

    def row_losses(self, data, rows):
        return self.predict(data, rows)[:, 0]

    def forget_programs(self):
        self.forgot += 1

    def bytes(self):
        return 10


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(device, "device_count", lambda: 4)
    return lambda gpus=(0, 1, 3), **more: group.Group(FakeEngine, "cuda", [], "mse", "float64", gpus=gpus, **more)


def test_a_group_trains_tests_and_predicts_as_one(fake):
    engine = fake()
    assert engine.describe() == "cuda (3 x Fake, mirrored)" and engine.bytes() == 30
    assert engine.device_name() == "Fake"  # a study's rows with one and with several are of one device
    x = np.random.default_rng(0).integers(0, 100, (2000, 2)).astype(float)
    data, progress = engine.load(x, x), engine.progress()
    for rows in (None, np.arange(1999, -1, -1), np.arange(5)):
        expected = x if rows is None else x[rows]
        assert np.array_equal(engine.predict(data, rows), expected)
    assert engine.loss(data, np.arange(2000)) == np.cumsum(x[:, 0])[-1] / 2000
    engine.epoch(data, np.arange(2000), 64, progress)
    assert engine.get("parameters")[0] == x.sum() and progress.row == 2000
    engine.set("parameters", np.ones(1))
    assert [member.vector[0] for member in engine.engines] == [1, 1, 1]


def test_a_member_that_fails_ends_the_others_and_the_group_can_be_used_again(fake):
    engine = fake()
    aborted = []

    class Line:
        def abort(self):
            aborted.append(self)

    engine._communicators[:] = [Line(), Line(), Line()]
    engine.engines[1].fails = True
    x = np.ones((30, 2))
    data = engine.load(x)
    for _ in range(2):  # the others wait for it in gather
        with pytest.raises(NnError, match="out of memory on GPU 1"):
            engine.epoch(data, np.arange(30), 10, engine.progress())
    assert len(aborted) == 3 and engine._communicators == [None] * 3
    assert [member.forgot for member in engine.engines] == [2, 2, 2]
    engine.engines[1].fails = False
    engine.epoch(data, np.arange(30), 10, engine.progress())
    assert engine.get("parameters")[0] == 60


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ((0, 1, 1), "--gpus 0,1,1: GPU 1 is listed twice"),
        (tuple(range(8)), "no GPU 4, 5, 6, 7, this machine has 4 GPUs, 0 to 3; use --gpus 4"),
    ],
)
def test_gpus_that_are_not_there_are_named(fake, gpus, words):
    with pytest.raises(UsageError, match=words):
        fake(gpus)


def test_more_gpus_than_rows_are_refused(fake):
    engine = fake()
    with pytest.raises(UsageError, match="3 GPUs are more than the 2 rows"):
        engine.epoch(engine.load(np.ones((2, 2))), np.arange(2), 10, engine.progress())


# ---- a process for each GPU


def devices(hosts, there, gpus=()):
    """The GPU of each rank, or its error: hosts, their names by rank; there: what each rank sees, by number."""
    seen = threading.local()

    def choose(rank_group):
        rank_group.local_rank = hosts[: rank_group.rank].count(hosts[rank_group.rank])
        seen.there, seen.host = there[rank_group.rank], hosts[rank_group.rank]
        return group._device_of_rank(gpus, rank_group)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nn.backends.cuda.device.device_count", lambda: len(seen.there))
        patch.setattr("nn.backends.cuda.device.address_of", lambda number: seen.there[number])
        patch.setattr("platform.node", lambda: seen.host)
        return on_threads(len(hosts), choose)


def test_ranks_take_the_gpus_of_their_host_in_turn():
    assert devices(["a", "a", "b", "b"], [["x", "y"]] * 4) == [0, 1, 0, 1]
    assert devices(["a", "a"], [["x", "y", "z"]] * 2, gpus=(2, 0)) == [2, 0]
    assert devices(["a", "a", "b"], [["x"], ["y"], ["x"]]) == [0, 0, 0]  # the launcher left each its own


@pytest.mark.parametrize(
    ("there", "gpus", "words"),
    [
        ([["x"], ["x"]], (), "it uses the same GPU as rank 0"),
        ([["x", "y"]] * 2, (1,), "it uses the same GPU as rank 0"),
        ([["x", "y"]] * 3, (), "its host has fewer GPUs than ranks"),
    ],
)
def test_ranks_that_would_share_a_gpu_are_refused(there, gpus, words):
    ends = devices(["a"] * len(there), there, gpus)
    assert all(end.startswith(f"rank {len(there) - 1}: {words}; start one rank per GPU") for end in ends)


# ---- plans


def test_a_plan_names_gpus_and_results_count_them(tmp_path):
    from nn.study.sweep import read_plan

    plan = {
        "data": {"path": "CC.csv"}, "layers": "30,5,1", "backend": "cuda", "gpus": [1, 2, "0,2", "3,"],
        "distribute": ["mirrored", "central"],
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    facts = [entry.facts() for entry in read_plan(str(tmp_path / "plan.json"))]
    assert [(f["gpus"], f["distribute"]) for f in facts] == [
        (count, how) for count in (1, 2, 2, 1) for how in ("mirrored", "central")
    ]


# ---- NCCL


def test_members_that_do_not_come_are_not_waited_for_longer_than_allowed(monkeypatch):
    monkeypatch.setenv("NN_RENDEZVOUS_SECONDS", "0.2")
    monkeypatch.setattr(nccl, "library", lambda: (None, None))
    monkeypatch.setattr(nccl.Communicator, "_meet", lambda self, *_: time.sleep(5))
    with pytest.raises(NnError, match=r"GPU 3, 2 of 4: the others did not connect within 0.2 s"):
        nccl.Communicator("00", 1, 4, 3)
