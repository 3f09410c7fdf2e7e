"""Packs: each of several networks that an engine trains together has the bits of the network alone."""

import math
import threading
import time

import numpy as np
import pytest
from support.networks import BACKENDS, KINDS, fill, network

from nn.backends.cpu import CpuPack
from nn.backends.engine import EpochSettings, PackJob
from nn.backends.member import Turns
from nn.core.random import PhiloxOrder
from nn.nn import Network
from nn.study.bench import select

ROWS = 150
MEMBERS = 5
HOW = [  # what each member does otherwise than the others
    {},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "sgd", "seed": 77},
    {"weight_decay": 0.1, "rates": [0.02] * 5 + [0.01] * 4},
    {"batch": 9, "seed": 3},
]
VECTORS = ("parameters", "moment1", "moment2")


def settings(**changes):
    return EpochSettings(**{"optimizer": "adam", "batch": 32, "rates": [0.01] * 9, **changes})


def rows_of(member):
    """Return the member's training rows."""
    return np.flatnonzero(np.arange(ROWS) % MEMBERS != member)


def filled(spec, backend, dtype="float32", **options):
    """Return (network, x, y)."""
    net = network(spec, backend, dtype, **options)
    return net, *fill(net, ROWS)


def start_of(net, member):
    """Return the parameters that a member begins with."""
    vector = np.random.default_rng(member).normal(size=net.parameter_count) / 4
    return vector.astype(net.dtype)


def alone(net, data, member, epochs):
    """Return the vectors, the sum of losses, outputs and loss of a member that is trained alone."""
    engine, how, rows = net.engine, settings(**HOW[member]), rows_of(member)
    for what in VECTORS:
        engine.set(what, np.zeros(engine.size, engine.dtype))
    engine.set("parameters", start_of(net, member))
    step = 0
    for number in range(epochs):
        progress = engine.progress(step=step)
        engine.epoch(data, rows[PhiloxOrder(len(rows), how.seed).epoch(number)], how, progress)
        step = progress.step
    vectors = [engine.get(what) for what in VECTORS]
    return vectors, progress.loss, engine.predict(data, rows), engine.loss(data, rows)


def jobs_of(engine, data, epoch, steps, **changes):
    return [
        PackJob(m, data[m], rows_of(m), settings(**HOW[m]), engine.progress(step=steps[m]), epoch, **changes)
        for m in range(MEMBERS)
    ]


def together(engine, pack, net, data, epochs):
    """Return what `alone` returns, of each member."""
    for member in range(MEMBERS):
        pack.set(member, "parameters", start_of(net, member))
    steps = [0] * MEMBERS
    for number in range(epochs):
        jobs = jobs_of(engine, data, number, steps)
        pack.epoch(jobs[::-1])
        steps = [job.progress.step for job in jobs]
    vectors = [[pack.get(member, what) for what in VECTORS] for member in range(MEMBERS)]
    return list(zip(vectors, [job.progress.loss for job in jobs], pack.predict(jobs), pack.loss(jobs), strict=True))


def check_same_bits(found, expected):
    for (vectors, *results), (own, *own_results) in zip(found, expected, strict=True):
        for what, vector, own_vector in zip(VECTORS, vectors, own, strict=True):
            assert np.array_equal(vector, own_vector), what
        assert results[0] == own_results[0] and results[2] == own_results[2]
        assert np.array_equal(results[1], own_results[1])
    assert len({vectors[0].tobytes() for vectors, *_ in found}) == len(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [CpuPack, Turns])
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_member_has_the_bits_of_the_network_alone(backend, make, kind):
    net, x, y = filled(KINDS[kind], backend, threads=2)
    weights = [None, *np.random.default_rng(1).integers(0, 3, (MEMBERS - 1, ROWS)).astype(net.dtype)]
    data = [net.engine.load(x, y, weight) for weight in weights]
    expected = [alone(net, data[member], member, 2) for member in range(MEMBERS)]
    check_same_bits(together(net.engine, make(net.engine, MEMBERS), net, data, 2), expected)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_bits_do_not_depend_on_threads(threads):
    """Batches that a network alone divides into micro-batches, and float64, on any number of threads."""
    net, x, y = filled("6,60:relu,10:tanh,3", "omp", "float64", threads=threads)
    data = [net.engine.load(x, y)] * MEMBERS
    how = [{**changes, "batch": 149} for changes in HOW]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("test_pack.HOW", how)
        expected = [alone(net, data[member], member, 2) for member in range(MEMBERS)]
        check_same_bits(together(net.engine, CpuPack(net.engine, MEMBERS), net, data, 2), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_engine_makes_a_pack_whose_members_begin_with_zeros_and_keep_parameters(backend):
    net, x, y = filled("4,5,2", backend, threads=1)
    before, pack = net.engine.get("parameters"), net.engine.pack(3, ROWS)
    assert isinstance(pack, CpuPack) and pack.count == 3
    assert not pack.get(2, "parameters").any() and not pack.get(2, "moment2").any()
    pack.set(1, "parameters", start_of(net, 1))
    pack.keep(1)
    pack.set(1, "parameters", start_of(net, 2))
    assert np.array_equal(pack.get(1, "kept"), start_of(net, 1))
    assert np.array_equal(pack.get(1, "parameters"), start_of(net, 2))
    assert not pack.get(0, "kept").any() and np.array_equal(net.engine.get("parameters"), before)


def test_members_take_turns_where_a_network_alone_gains_more_threads():
    net = Network("50,800,400,1", threads=8, backend="omp")
    assert net.engine.threads_for(1000) > 2
    assert isinstance(net.engine.pack(2, 1000), Turns) and isinstance(net.engine.pack(8, 1000), CpuPack)
    assert isinstance(net.engine.pack(2, 1), CpuPack)


@pytest.mark.parametrize("make", [CpuPack, Turns])
def test_a_stopped_job_goes_on_where_it_was(make):
    net, x, y = filled("4,5:tanh,2", "omp", threads=2)
    data = [net.engine.load(x, y)] * MEMBERS
    expected = [alone(net, data[member], member, 1) for member in range(MEMBERS)]
    pack = make(net.engine, MEMBERS)
    for member in range(MEMBERS):
        pack.set(member, "parameters", start_of(net, member))
    jobs = jobs_of(net.engine, data, 0, [0] * MEMBERS)
    for job in jobs:
        job.progress.stop = 1
    pack.epoch(jobs)
    assert [job.progress.row for job in jobs] == [job.settings.batch for job in jobs]
    for job in jobs:
        job.progress.stop = 0
    pack.epoch(jobs)
    for job, (vectors, loss, *_) in zip(jobs, expected, strict=True):
        assert np.array_equal(pack.get(job.member, "parameters"), vectors[0]) and job.progress.loss == loss


def test_an_epoch_runs_without_the_interpreters_lock():
    net, x, y = filled("4,400:tanh,2", "seq")
    pack = CpuPack(net.engine, MEMBERS)
    jobs = jobs_of(net.engine, [net.engine.load(x, y)] * MEMBERS, None, [0] * MEMBERS)
    for job in jobs:
        job.rows = np.tile(job.rows, 10000)
    worker = threading.Thread(target=pack.epoch, args=(jobs,))
    worker.start()
    while not jobs[0].progress.row:
        assert worker.is_alive()
    for job in jobs:
        job.progress.stop = 1
    worker.join()
    assert all(job.progress.row < len(job.rows) for job in jobs)


def test_memory_is_that_of_the_members_and_of_a_network_a_thread():
    net = Network("30,60,10,1", threads=2, backend="omp")
    vector = net.parameter_count * 4
    few, many = CpuPack(net.engine, 8), CpuPack(net.engine, 108)
    per_member = (many.bytes() - few.bytes()) / 100
    assert vector <= per_member < 1.3 * vector
    before = few.bytes()
    few.get(0, "moment1")
    assert vector <= few.bytes() - before < 1.3 * vector
    few.get(0, "moment1")
    assert few.bytes() - before < 1.3 * vector


@pytest.mark.parametrize("members", [[0, 0], [-1], [3]])
def test_jobs_of_no_member_or_of_one_member_twice_are_refused(members):
    net, x, y = filled("4,5,2", "seq")
    data = net.engine.load(x, y)
    jobs = [PackJob(member, data, rows_of(0), settings(), net.engine.progress()) for member in members]
    for call in (CpuPack(net.engine, 3).epoch, CpuPack(net.engine, 3).predict):
        with pytest.raises(ValueError, match="jobs of members"):
            call(jobs)


def test_rows_out_of_range_are_refused():
    net, x, y = filled("4,5,2", "seq")
    job = PackJob(0, net.engine.load(x, y), np.array([ROWS]), settings(), net.engine.progress())
    with pytest.raises(ValueError, match="out of range"):
        CpuPack(net.engine, 1).epoch([job])


@pytest.mark.timing
def test_a_network_among_many_costs_the_processor_little_more_than_alone():
    """1.25 of the time of one thread are 1.6 times the speed on two cores; measured 1.1 and 1.85."""

    def microseconds(case, networks):
        started, best = select([case])[0].start("omp"), math.inf
        for _ in range(6):
            began = time.process_time()
            started.once()
            best = min(best, (time.process_time() - began) / networks)
        return best

    assert microseconds("cc-b32-adam-x64", 64) < 1.25 * microseconds("cc-b32-adam", 1)
