"""Several GPUs: what can be told without one. Who takes which rows, when gradients are
sent, who waits for whom."""

import functools
import json
import operator
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import cffi
import numpy as np
import pytest

from nn.backends.cuda import device, epoch, group, nccl
from nn.backends.cuda.abi import UPDATE
from nn.backends.cuda.builder import BUCKET_BYTES, Builder
from nn.backends.cuda.program import LINE, Purpose, phases_source
from nn.backends.engine import EpochSettings
from nn.cluster import ALONE
from nn.layers import parse
from nn.study.sweep import read_plan
from nn.utils import NnError, UsageError

PROCESSORS = 132
ALL_LAYERS = (
    "3x12x12,pad1,conv8k3p1,conv70k3:softplus,conv8k7same:tanh,conv3k2s3:lrelu,maxpool2s1,avgpool2:tanh,dropout0.3,"
    "flatten:sigmoid,300,35,2,10"
)
SAME = "it uses the same GPU as rank 0"
FEWER = "its host has fewer GPUs than ranks"
GIANT = "50,25600,12800,6656,1"
SOLAR_CNN = "1x50x50,conv32k3,conv64k3,maxpool2,dropout0.25,128,dropout0.5,1:relu"


# of 5, the third takes one of 8 rows, and two of 7
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize(
    ("rows", "batch"), [(103, 10), (40, 8), (7, 100), (9, 1), (15, 8), (2, 3), (0, 5)]
)
def test_members_take_every_row_of_every_batch_once(rows, batch, size):
    order = np.random.default_rng(0).permutation(rows)
    batches = [order[start : start + batch] for start in range(0, rows, batch)]
    shares = [
        [list(b[member.share(len(b))]) for b in batches]
        for member in group.thread_groups(size)
    ]
    assert [row for parts in zip(*shares) for part in parts for row in part] == list(
        order
    )
    for member, parts in zip(group.thread_groups(size), shares):
        assert list(group.rows_of_member(order, batch, member)) == functools.reduce(
            operator.iadd, parts, []
        )
        assert group.most_rows(rows, batch, member) == max(map(len, parts), default=0)
    assert group.rows_of_member(order, batch, ALONE) is order


def test_the_weight_of_a_batch_is_summed_over_members_and_divides_its_step():
    weights = np.arange(20.0)
    order = np.random.default_rng(0).permutation(20)
    expected = [weights[order[start : start + 8]].sum() for start in (0, 8, 16)]
    assert epoch.batch_weights(None, order, 8, ALONE) is None
    assert epoch.batch_weights(weights, order, 8, ALONE).tolist() == expected
    for sums in on_threads(
        3, lambda rank: epoch.batch_weights(weights, order, 8, rank)
    ):
        assert sums.tolist() == expected
    batch_weights = epoch.batch_weights(weights, order[:16], 8, ALONE)
    assert batch_weights.tolist() == expected[:2]
    how = EpochSettings("sgd", 8, [0.5] * 9)
    table = epoch.update_table(
        how, epoch.Progress(), 20, np.float64, np.array([4.0, 0.0, 0.5])
    )
    assert table[:, UPDATE.index("inv_rows")].tolist() == [0.25, 0, 2]
    assert table[:, UPDATE.index("rate")].tolist() == [0.125, 0, 1]
    ones = epoch.update_table(
        how, epoch.Progress(), 20, np.float64, np.array([8.0, 8.0, 4.0])
    )
    bits = epoch.update_table(how, epoch.Progress(), 20, np.float64).tobytes()
    assert ones.tobytes() == bits


def program(spec, distribute="mirrored", kind="train", here=True):
    """(program, layers); here: the weights are updated by this member."""
    layers = parse(spec, "relu", "softmax" if spec is ALL_LAYERS else "linear")
    purpose = Purpose(
        kind,
        100,
        dropout=True,
        optimizer="ADAM",
        distribute=distribute,
        updates_weights=here,
    )
    return Builder(layers, "ce" if spec is ALL_LAYERS else "mse", 4, PROCESSORS).build(
        purpose
    ), layers


def positions(built, name):
    return [
        index for index, phase in enumerate(built.phases) if phase[0].step[0] == name
    ]


@pytest.mark.parametrize("kind", ["train", "gradients"])
@pytest.mark.parametrize("spec", [ALL_LAYERS, GIANT, SOLAR_CNN, "30,60,10,1", "30,1"])
def test_every_gradient_is_sent_once_and_waited_for(spec, kind):
    """In large buckets, but for the last one."""
    built, layers = program(spec, kind=kind)
    for _, values in built.sent[:-1]:
        assert 4 * values >= BUCKET_BYTES
    sent = sum(values for _, values in built.sent)
    learners = [layer.parameters for layer in layers if layer.parameters]
    assert sent == built.sum_values == sum(-(-size // LINE) * LINE for size in learners)
    assert {how for how, _ in built.sent} == {"all_reduce"}
    together = positions(built, "communication")
    updates = positions(built, "update")
    expected = len(built.sent) + 1
    assert len(together) == expected  # and the wait
    assert together[-1] + 1 == updates[0] == len(built.phases) - 1


@pytest.mark.parametrize("spec", [ALL_LAYERS, GIANT, SOLAR_CNN])
@pytest.mark.parametrize("bucket", [1, 10_000, BUCKET_BYTES])
def test_a_bucket_is_sent_after_all_its_gradients(spec, bucket, monkeypatch):
    """Each address that is sent was written by ops of earlier phases only, by its
    layer's gradient op or their sum."""
    monkeypatch.setattr("nn.backends.cuda.builder.BUCKET_BYTES", bucket)
    built, _ = program(spec)
    ops = [
        (index, op)
        for index, phase in enumerate(built.phases)
        for op in phase
        if op.step[0] == "backward"
    ]
    # places in the vector of sums
    writes = [(index, op.arguments[0].at) for index, op in ops if op.gives_gradients]
    sends = positions(built, "communication")[:-1]
    ends = np.cumsum([values for _, values in built.sent])
    for send, start, end in zip(sends, [0, *ends], ends, strict=False):
        written = [index for index, at in writes if start <= at < end]
        assert written
        assert max(written) < send
    # the layer below still waits for its own: dz is worked out later
    if spec is GIANT and bucket == BUCKET_BYTES:
        assert len(sends) == 3
        for send in sends[:2]:
            assert send < max(positions(built, "backward"))


def test_central_reduces_on_one_member_and_sends_parameters_and_one_alone_sends_none():
    for here in (True, False):
        built, layers = program(GIANT, "central", here=here)
        expected = ["reduce"] * 3 + ["broadcast"]
        assert [how for how, _ in built.sent] == expected
        expected = sum(layer.parameters for layer in layers)
        assert built.sent[-1][1] == expected
        updates = positions(built, "update")
        assert bool(updates) == here
        assert not updates or updates[0] < positions(built, "communication")[-2]
    built, _ = program(ALL_LAYERS, "")
    assert not built.sent
    assert not positions(built, "communication")
    assert "#define SHARED" not in phases_source(built)
    assert "#define SHARED" in phases_source(program(ALL_LAYERS)[0])


def on_threads(size, call):
    """call(rank_group) on a thread for each member: what they return, or the errors of
    wrong use."""

    def run(rank_group):
        try:
            return call(rank_group)
        except UsageError as error:
            return str(error)

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, group.thread_groups(size), timeout=30))


def test_threads_gather_in_order_again_and_again_and_add_up_in_member_order():
    def talk(rank_group):
        gathered_values = []
        for turn in range(50):
            time.sleep(0.0001 * (rank_group.rank * 7 % 3))
            gathered = rank_group.gather((rank_group.rank, turn))
            gathered_values.append(
                (gathered, rank_group.gather(rank_group.rank == turn))
            )
        return gathered_values

    results = on_threads(4, talk)
    expected = [
        ([(rank, turn) for rank in range(4)], [rank == turn for rank in range(4)])
        for turn in range(50)
    ]
    assert results[0] == expected
    for result in results:
        assert result == results[0]
    values = [1e16, 1.0, -1e16, 1.0]
    sums = on_threads(4, lambda rank_group: rank_group.sum(values[rank_group.rank]))
    assert sums == [((1e16 + 1.0) - 1e16) + 1.0] * 4


class FakeEngine:
    """What Group asks of an engine, in NumPy; learns the sum of the rows it was
    given."""

    def __init__(self, backend, layers, loss, dtype, *, device, tf32, member):
        self.name = backend
        self.dtype = np.dtype(dtype)
        self.size = 1
        self.inputs = 2
        self.outputs = 1
        self.device = device
        self.rank_group = member.rank_group
        self.fails = False
        self.vector = np.zeros(1)
        self.forgot = 0

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
        rows_of_member = group.rows_of_member(order, training, self.rank_group)
        total = sum(self.rank_group.gather(float(data[rows_of_member].sum())))
        self.vector = np.array([total])
        progress.row = len(order)

    def get(self, what):
        return self.vector

    def set(self, what, vector):
        self.vector = vector

    def predict(self, data, rows=None, vector=None):
        if rows is None:
            return data
        return data[rows]

    def row_losses(self, data, rows):
        return self.predict(data, rows)[:, 0]

    def forget_programs(self):
        self.forgot += 1

    def bytes(self):
        return 10

    def record(self, batches, predicts):
        batches = "ab"[: batches - (self.device == 1)]
        self.steps = [[f"{self.device}{batch}"] for batch in batches]

    def recorded(self):
        return self.steps


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(device, "device_count", lambda: 4)
    make = functools.partial(FakeEngine, "cuda", [], "mse", "float64", tf32=False)
    return lambda gpus=(0, 1, 3), **options: group.Group(make, gpus, **options)


def test_a_group_trains_tests_and_predicts_as_one(fake):
    engine = fake()
    assert engine.describe() == "cuda (3 x Fake, mirrored)"
    assert engine.bytes() == 30
    # a study's rows with one and with several are of one device
    assert engine.device_name() == "Fake"
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 100, (2000, 2))
    x = draws.astype(float)
    data = engine.load(x, x)
    progress = engine.progress()
    indices = np.arange(1999, -1, -1)
    for rows in (None, indices, np.arange(5), None):  # they are on GPUs at last
        if rows is None:
            expected = x
        else:
            expected = x[rows]
        assert np.array_equal(engine.predict(data, rows), expected)
    loss = engine.loss(data, np.arange(2000))
    sums = np.cumsum(x[:, 0])
    assert loss == sums[-1] / 2000
    engine.epoch(data, np.arange(2000), 64, progress)
    assert engine.get("parameters")[0] == x.sum()
    assert progress.row == 2000
    engine.set("parameters", np.ones(1))
    assert [member.vector[0] for member in engine.engines] == [1, 1, 1]
    engine.record(2)
    steps = [["0a", "1a", "3a"], ["0b", "3b"]]  # a batch of which GPU 1 had no row
    assert engine.recorded() == steps


def test_a_member_that_fails_ends_the_others_and_the_group_can_be_used_again(fake):
    engine = fake()
    aborted = []
    communicator = SimpleNamespace(abort=lambda: aborted.append(1))
    engine._communicators = [communicator] * 3
    engine.engines[1].fails = True
    data = engine.load(np.ones((30, 2)))
    for _ in range(2):  # the others wait for it in gather
        with pytest.raises(NnError, match="out of memory on GPU 1"):
            engine.epoch(data, np.arange(30), 10, engine.progress())
    assert len(aborted) == 3
    assert engine._communicators == [None] * 3
    calls = [member.forgot for member in engine.engines]
    assert calls == [2, 2, 2]
    engine.engines[1].fails = False
    engine.epoch(data, np.arange(30), 10, engine.progress())
    assert engine.get("parameters")[0] == 60


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ((0, 1, 1), "--gpus 0,1,1: GPU 1 is listed twice"),
        (
            tuple(range(8)),
            "no GPU 4, 5, 6, 7, this machine has 4 GPUs, 0 to 3; use --gpus 4",
        ),
        ((0, 1, 3), "3 GPUs are more than the 2 rows"),
    ],
)
def test_gpus_that_are_not_there_are_named_and_more_than_rows_refused(
    fake, gpus, words
):
    with pytest.raises(UsageError, match=words):
        engine = fake(gpus)
        data = engine.load(np.ones((2, 2)))
        engine.epoch(data, np.arange(2), 10, engine.progress())


@pytest.mark.parametrize(
    ("hosts", "addresses", "gpus", "expected"),
    [
        ("aabb", ["xy"] * 4, (), [0, 1, 0, 1]),
        ("aa", ["xyz"] * 2, (2, 0), [2, 0]),
        ("aab", "xyx", (), [0, 0, 0]),  # the launcher left each its own
        ("aa", "xx", (), SAME),
        ("aa", ["xy"] * 2, (1,), SAME),
        ("aaa", ["xy"] * 3, (), FEWER),
    ],
)
def test_ranks_take_the_gpus_of_their_host_in_turn_and_do_not_share_one(
    hosts, addresses, gpus, expected, monkeypatch
):
    """hosts: their names by rank, a letter each; addresses: of the GPUs that
    each rank sees."""
    seen = threading.local()

    def choose(rank_group):
        rank_group.local_rank = hosts[: rank_group.rank].count(hosts[rank_group.rank])
        seen.addresses = addresses[rank_group.rank]
        seen.host = hosts[rank_group.rank]
        return group._device_of_rank(gpus, rank_group)

    monkeypatch.setattr(
        "nn.backends.cuda.device.device_count", lambda: len(seen.addresses)
    )
    monkeypatch.setattr(
        "nn.backends.cuda.device.address_of", lambda number: seen.addresses[number]
    )
    monkeypatch.setattr("platform.node", lambda: seen.host)
    ends = on_threads(len(hosts), choose)
    if expected in (SAME, FEWER):
        words = f"rank {len(addresses) - 1}: {expected}; start one rank per GPU"
        assert [end[: len(words)] for end in ends] == [words] * len(addresses)
    else:
        assert ends == expected


def test_a_plan_names_gpus_and_results_count_them(tmp_path):
    plan = {
        "data": {"path": "CC.csv"},
        "layers": "30,5,1",
        "backend": "cuda",
        "gpus": [1, 2, "0,2", "3,"],
    }
    (tmp_path / "plan.json").write_text(
        json.dumps({**plan, "distribute": ["mirrored", "central"]})
    )
    facts = [entry.facts() for entry in read_plan(str(tmp_path / "plan.json"))]
    # one GPU distributes nothing
    several = [(2, "mirrored"), (2, "central")]
    expected = [(1, ""), *several, *several, (1, "")]
    assert [(f["gpus"], f["distribute"]) for f in facts] == expected


def test_members_that_do_not_come_are_not_waited_for_longer_than_allowed(monkeypatch):
    monkeypatch.setenv("NN_RENDEZVOUS_SECONDS", "0.2")
    monkeypatch.setattr(nccl, "library", lambda: (None, None))
    monkeypatch.setattr(nccl.Communicator, "_meet", lambda self, *_: time.sleep(5))
    with pytest.raises(
        NnError, match=r"GPU 3, 2 of 4: the others did not connect within 0.2 s"
    ):
        nccl.Communicator("00", 1, 4, 3)


@pytest.mark.parametrize(
    "last, more", [(b"", ""), (b" socket\n closed ", " (socket closed)")]
)
def test_a_failing_call_of_nccl_tells_its_error_and_the_last_one(
    last, more, monkeypatch
):
    ffi = cffi.FFI()
    text = ffi.new("char[]", b"internal error")
    last = ffi.new("char[]", last)
    lib = SimpleNamespace(
        ncclGetErrorString=lambda _: text, ncclGetLastError=lambda _: last
    )
    monkeypatch.setattr(nccl, "library", lambda: (ffi, lib))
    nccl._check(0, "ncclReduce")
    with pytest.raises(NnError) as told:
        nccl._check(3, "ncclReduce")
    expected = (
        f"NCCL: ncclReduce: internal error{more}; set NCCL_DEBUG=INFO for details"
    )
    assert str(told.value) == expected
