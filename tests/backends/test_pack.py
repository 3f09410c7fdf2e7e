"""Packs: each of several networks that an engine trains together has the bits of the
network alone."""

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from support.epochs import settings
from support.networks import KINDS, fill, network
from support.pack_members import Members

from nn.backends.cpu import CpuPack
from nn.backends.member import Turns
from nn.nn import Network
from nn.study.bench import select

ROWS = 150
MEMBERS = 5
HOW = [  # what each member does otherwise than the others
    {},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "rmsprop", "betas": (0.7,), "seed": 77, "scale_rate": 3.0},
    {
        "betas": (0.7, 0.95),
        "epsilon": 0.01,
        "weight_decay": 0.1,
        "rates": [0.02] * 5 + [0.01] * 4,
    },
    {"batch": 9, "seed": 3},
]


def members_of(spec, backend, dtype="float32", weights=None, **options):
    """Return members, each with rows and settings of its own."""
    net = network(spec, backend, dtype, **options)
    x, y = fill(net, ROWS)
    data = [
        net.engine.load(x, y, member_weights)
        for member_weights in weights or [None] * MEMBERS
    ]
    rows = [
        np.flatnonzero(np.arange(ROWS) % MEMBERS != member) for member in range(MEMBERS)
    ]
    return Members(net.engine, data, [settings(**changes) for changes in HOW], rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [CpuPack, Turns])
def test_each_member_has_the_bits_of_the_network_alone(processor, make, kind):
    rng = np.random.default_rng(1)
    draws = rng.integers(0, 3, (MEMBERS - 1, ROWS))
    weights = [
        None,
        *draws.astype("float32"),
    ]
    members = members_of(KINDS[kind], processor, weights=weights, threads=2)
    pack = members.pack(make)
    of_vectors = MEMBERS * members.engine.size * members.engine.dtype.itemsize
    if make is Turns:
        of_vectors += members.engine.bytes()
    assert pack.bytes() >= of_vectors
    members.check_forward(pack, members.check(pack, 2))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_bits_do_not_depend_on_threads(threads):
    """Batches that a network alone divides into micro-batches, and float64, on any
    number of threads."""
    members = members_of("6,60:relu,10:tanh,3", "omp", "float64", threads=threads)
    members.how = [
        replace(how, batch=149, freeze=number % 3)
        for number, how in enumerate(members.how)
    ]
    pack = members.pack(CpuPack)
    members.check_forward(pack, members.check(pack, 2))


def test_members_of_a_pack_begin_with_zeros_keep_parameters_and_refuse_others_jobs(
    processor,
):
    members = members_of("4,5,2", processor, threads=1)
    pack = members.engine.pack(3, ROWS)
    assert isinstance(pack, CpuPack)
    assert pack.count == 3
    assert pack.describe() == "3 networks, 1 at a time, each on one thread"
    members.check_vectors(pack)
    members.check_refusals(pack, ROWS)


def test_members_take_turns_where_a_network_alone_gains_more_threads():
    net = Network("50,800,400,1", threads=8, backend="omp")
    assert net.engine.threads_for(1000) > 2
    assert isinstance(net.engine.pack(2, 1000), Turns)
    assert isinstance(net.engine.pack(8, 1000), CpuPack)
    assert isinstance(net.engine.pack(2, 1), CpuPack)


@pytest.mark.parametrize("make", [CpuPack, Turns])
def test_a_stopped_job_goes_on_where_it_was(make):
    members = members_of("4,5:tanh,2", "omp", threads=2)
    expected = members.expected(1)
    pack = members.pack(make)
    jobs = members.jobs()
    for stop in (1, 0):
        for job in jobs:
            job.progress.stop = stop
        pack.epoch(jobs)
        assert not stop or [job.progress.row for job in jobs] == [
            job.settings.batch for job in jobs
        ]
    members.check_ends(pack, jobs, expected)


def test_an_epoch_runs_without_the_interpreters_lock():
    members = members_of("4,400:tanh,2", "seq")
    pack = CpuPack(members.engine, MEMBERS)
    jobs = members.jobs(None)
    for job in jobs:
        job.rows = np.tile(job.rows, 10000)
    worker = threading.Thread(target=pack.epoch, args=(jobs,))
    worker.start()
    while not jobs[0].progress.row:
        assert worker.is_alive()
    for job in jobs:
        job.progress.stop = 1
    worker.join()
    for job in jobs:
        assert job.progress.row < len(job.rows)


def test_memory_is_that_of_the_members_and_of_a_network_a_thread():
    net = Network("30,60,10,1", threads=2, backend="omp")
    vector = net.parameter_count * 4
    few = CpuPack(net.engine, 8)
    many = CpuPack(net.engine, 108)
    before = few.bytes()
    assert vector <= (many.bytes() - before) / 100 < 1.3 * vector
    for _ in range(2):
        few.get(0, "moment1")
        assert vector <= few.bytes() - before < 1.3 * vector
    # and an order of the most rows for each thread
    members = members_of("4,5,2", "omp", threads=2)
    sizes = []
    for times in (1, 11):
        pack = members.pack(CpuPack)
        jobs = members.jobs()
        jobs[1].rows = np.tile(jobs[1].rows, times)
        pack.epoch(jobs)
        sizes.append(pack.bytes())
    assert sizes[1] - sizes[0] == 2 * 8 * 10 * len(members.rows[1])


@pytest.mark.timing
def test_a_network_among_many_costs_the_processor_little_more_than_alone():
    """1.25 of the time of one thread are 1.6 times the speed on two cores; measured 1.1
    and 1.85."""

    def microseconds(case, networks):
        started = select([case])[0].start("omp")
        best = math.inf
        for _ in range(6):
            began = time.process_time()
            started.once()
            best = min(best, (time.process_time() - began) / networks)
        return best

    assert microseconds("cc-b32-adam-x64", 64) < 1.25 * microseconds("cc-b32-adam", 1)
