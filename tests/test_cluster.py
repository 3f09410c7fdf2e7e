"""Ranks: how they are launched and meet, that none is left alone, and that they divide a host's cores.

What ranks compute together is in test_mpi.py, with srun in test_slurm.py, on GPUs in tests/gpu.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time

import pytest
from support.command_line import run, succeed
from support.launches import MIRRORED, SECONDS, SMALL, free_port, prepare_launch

import nn
from nn import cluster
from nn.backends.cpu import CpuEngine
from nn.cluster import rendezvous
from nn.utils import UsageError

# ---------------------------------------------------------------- how a process was launched

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "3"}


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({}, None),
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, None),  # a batch script, outside of srun
        ({"WORLD_SIZE": "4"}, None),
        ({**STEP, "SLURM_STEP_NUM_NODES": "1"}, ("srun", 1, 4, "127.0.0.1")),
        ({**STEP, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[03-04]"}, ("srun", 1, 4, "n03")),
        ({**STEP, "SLURM_STEP_NUM_NODES": "2", "MASTER_ADDR": "x"}, ("srun", 1, 4, "x")),
        ({**STEP, "SLURM_STEP_NUM_NODES": "1", "PMI_RANK": "1", "PMI_SIZE": "4"}, ("srun", 1, 4, "127.0.0.1")),
        (HYDRA, ("mpiexec", 1, 3, "127.0.0.1")),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", **HYDRA}, ("mpiexec", 1, 3, "127.0.0.1")),
        ({**HYDRA, "MPI_LOCALNRANKS": "2", "SLURM_JOB_NODELIST": "a[1-2],b"}, ("mpiexec", 1, 3, "a1")),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
         ("mpiexec", 0, 2, "127.0.0.1")),
        ({"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "h", "MASTER_PORT": "1234"},
         ("RANK and WORLD_SIZE", 2, 3, "h")),
    ],
)  # fmt: skip
def test_the_environment_says_who_this_is(environ, expected):
    found = cluster.launch(environ)
    assert (found and (found.by, found.rank, found.size, found.host)) == expected


def test_ranks_of_a_launch_agree_where_to_meet_and_those_of_another_do_not():
    ranks = [cluster.launch({**STEP, "SLURM_STEP_NUM_NODES": "1", "SLURM_PROCID": str(rank)}) for rank in range(4)]
    assert len({(rank.ports, rank.token) for rank in ranks}) == 1
    other = cluster.launch({**STEP, "SLURM_STEP_NUM_NODES": "1", "SLURM_JOB_ID": "8"})
    assert other.token != ranks[0].token and not set(other.ports) & set(ranks[0].ports)
    secret = cluster.launch({**STEP, "SLURM_STEP_NUM_NODES": "1", "NN_TOKEN": "secret"})
    assert secret.token != ranks[0].token


@pytest.mark.parametrize(
    "environ, words",
    [
        ({"RANK": "3", "WORLD_SIZE": "3"}, "rank 3 of 3"),
        ({"RANK": "one", "WORLD_SIZE": "3"}, "RANK=one"),
        ({**HYDRA, "MPI_LOCALNRANKS": "2"}, "set MASTER_ADDR"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(environ, words):
    with pytest.raises(UsageError, match=words):
        cluster.launch(environ)


@pytest.mark.parametrize(
    "nodes, first",
    [("n1", "n1"), ("n[1-4,7],m2", "n1"), ("r[2-3]n[05,09]", "r2n05"), ("a,b", "a"), ("gpu-a[010-020]x", "gpu-a010x")],
)
def test_the_first_host_of_a_list(nodes, first):
    assert cluster.first_host(nodes) == first


def test_shares_are_whole_and_even():
    for size in (1, 2, 3, 5):
        for rows in (0, 1, 2, 7, 32):
            rank_group = cluster.RankGroup()
            rank_group.size, shares = size, []
            for rank_group.rank in range(size):
                shares.append(range(rows)[rank_group.share(rows)])
            assert [row for share in shares for row in share] == list(range(rows))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


# ---------------------------------------------------------------- a group of processes, without MPI

JOIN = "import os, sys, time\nfrom nn import cluster\nrank_group = cluster.join()\n"
END = "\nsys.exit(cluster.end(0))"


def test_a_group_gathers_in_rank_order(ranks):
    program = JOIN + "print([rank_group.gather({'r': rank_group.rank}), rank_group.sum(0.1 * (1 + rank_group.rank)),"
    program += " rank_group.any(rank_group.rank == 2), rank_group.any(False),"
    program += " rank_group.broadcast(7 * rank_group.rank + 1), rank_group.local_rank], flush=True)" + END
    for rank, process in enumerate(ranks(program)):
        code, out, err = process.end()
        assert (code, err) == (0, "")
        assert out.strip() == f"[[{{'r': 0}}, {{'r': 1}}, {{'r': 2}}], {0.1 + 0.2 + 0.1 * 3}, True, False, 1, {rank}]"


def test_ranks_with_the_same_facts_agree_whatever_their_types(ranks):
    program = JOIN + "rank_group.agree({'gpus': (0, 1), 'memory': None}, 'give all the same')" + END
    assert [process.end() for process in ranks(program)] == [(0, "", "")] * 3


def test_a_rank_that_ends_well_first_is_no_death(ranks):
    program = JOIN + "time.sleep(0.7 * (rank_group.rank == 0))" + END
    assert [process.end() for process in ranks(program)] == [(0, "", "")] * 3


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_ends_all_others_at_once(ranks, victim):
    processes = ranks(JOIN + "rank_group.gather(0); print('here', flush=True); time.sleep(1000)")
    for process in processes:
        assert process.popen.stdout.readline() == "here\n"
    processes[victim].popen.kill()
    began = time.monotonic()
    for rank, process in enumerate(processes):
        code, _, err = process.end()
        if rank != victim:
            assert code == 1
        if rank == 0 != victim:
            assert err == f"nn: rank {victim} of 3 ended, and so does the training; see that rank's output\n"
    assert time.monotonic() - began < 10


def test_ranks_that_leave_because_one_was_lost_are_not_named_instead_of_it(monkeypatch):
    said = []
    monkeypatch.setattr(rendezvous, "leave", lambda code, text: said.append((code, text)))
    rank_group = rendezvous.ProcessGroup(0, 3, 0, {})
    rank_group._lost(1)
    rank_group._lost(2)  # it was told of 1, and may be gone before rank 0 has spoken
    assert [(code, text.split(" of ")[0]) for code, text in said] == [(1, "rank 1")]


def test_a_rank_that_fails_takes_the_others_with_it_and_rank_0_says_why(ranks):
    program = JOIN + "if rank_group.rank == 2: sys.exit(cluster.end(65, 'bad data'))\ntime.sleep(1000)"
    ends = [process.end() for process in ranks(program)]
    assert [code for code, _, _ in ends] == [65] * 3
    assert [err for _, _, err in ends] == ["nn: rank 2 of 3: bad data\n", "", ""]


def test_what_is_wrong_for_all_is_said_once(ranks):
    ends = [process.end() for process in ranks(JOIN + "sys.exit(cluster.end(2, 'wrong'))")]
    assert ends == [(2, "", "nn: wrong\n"), (2, "", ""), (2, "", "")]


def test_an_exception_that_nobody_caught_ends_all(ranks):
    ends = [process.end() for process in ranks(JOIN + "if rank_group.rank == 1: 1 / 0\nrank_group.gather(0)")]
    assert [code for code, _, _ in ends] == [1] * 3
    assert ends[0][2] == "nn: rank 1 of 3: ZeroDivisionError: division by zero\n"


def test_a_rank_that_ends_while_others_go_on_is_an_error(ranks):
    program = JOIN + "if rank_group.rank != 1: rank_group.gather(0)" + END
    codes = [process.end()[0] for process in ranks(program)]
    assert codes == [1] * 3


def test_ranks_that_do_not_come_are_named_within_the_limit(ranks):
    began = time.monotonic()
    some = ranks(JOIN, size=5, only=[0, 2, 3], NN_RENDEZVOUS_SECONDS=1.5)
    ends = [process.end() for process in some]
    assert time.monotonic() - began < 20
    assert [code for code, _, _ in ends] == [1] * 3
    assert "nn.utils.NnError: ranks 1, 4 of 5 (started by RANK and WORLD_SIZE) did not connect to 127" in ends[0][2]
    assert "within 1.5 s; see" in ends[0][2]


def test_a_rank_0_that_does_not_come_is_named(ranks):
    (process,) = ranks(JOIN, only=[1], NN_RENDEZVOUS_SECONDS=0.5)
    code, _, err = process.end()
    assert code == 1 and "rank 0 of " in err and "did not connect" in err


def test_a_limit_that_is_no_time_is_refused(ranks):
    (process,) = ranks(JOIN, only=[1], NN_RENDEZVOUS_SECONDS="soon")
    assert "NN_RENDEZVOUS_SECONDS=soon" in process.end()[2]


def test_strangers_are_left_standing_and_the_ranks_still_meet(ranks):
    port = free_port()
    (first,) = ranks(JOIN + "print(rank_group.gather(rank_group.rank))" + END, size=2, only=[0], MASTER_PORT=port)
    end = time.monotonic() + SECONDS
    greeting = json.dumps(["rank", {"rank": 1, "size": 2, "version": "9", "host": "x"}, "wrong token"]).encode()
    for words in (b"GET / HTTP/1.1\r\n\r\n", len(greeting).to_bytes(4, "big") + greeting, b"\xff" * 40):
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.sendall(words)
                    with contextlib.suppress(ConnectionError):
                        assert stranger.recv(1) == b""  # refused without an answer
                break
            except ConnectionRefusedError:  # not yet listening
                assert time.monotonic() < end
                time.sleep(0.05)
    (second,) = ranks(JOIN + "print(rank_group.gather(rank_group.rank))" + END, size=2, only=[1], MASTER_PORT=port)
    assert first.end() == second.end() == (0, "[0, 1]\n", "")


def test_ranks_of_unlike_launches_are_refused(ranks):
    port = free_port()
    two = ranks(JOIN, size=2, only=[0], MASTER_PORT=port) + ranks(JOIN, size=3, only=[1], MASTER_PORT=port)
    ends = [process.end() for process in two]
    assert [code for code, _, _ in ends] == [1, 1]
    for _, _, err in ends:
        assert "rank 1 was started as one of 3, rank 0 as one of 2" in err


def test_two_of_one_rank_are_refused(ranks):
    port = free_port()
    three = [process for rank in (0, 1, 1) for process in ranks(JOIN, only=[rank], MASTER_PORT=port)]
    ends = [process.end() for process in three]
    assert [code for code, _, _ in ends] == [1] * 3
    for _, _, err in ends:
        assert "two processes are rank 1; give each launch its own MASTER_PORT" in err


def test_two_versions_are_refused(ranks):
    port = free_port()
    older = "import nn; nn.__version__ = '0.0.1'\n" + JOIN
    two = ranks(JOIN, size=2, only=[0], MASTER_PORT=port) + ranks(older, size=2, only=[1], MASTER_PORT=port)
    for _, _, err in [process.end() for process in two]:
        assert "rank 1 runs nn 0.0.1, rank 0 nn " in err


# ---------------------------------------------------------------- wrong launches of the command


@pytest.fixture
def folder(folder, monkeypatch):
    prepare_launch(folder, monkeypatch)
    return folder


def test_distribute_without_a_launcher_says_how_to_start(folder):
    result = run(*MIRRORED, "--backend", "omp")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("nn: --distribute shares the batches among ranks, but only one process was started")
    assert "mpiexec -n 2 nn --train" in result.err and result.err.count("\n") == 1


def test_several_trainings_that_would_write_one_model_are_refused(folder, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = run(*SMALL)
    assert result.code == 2 and "started 2 trainings" in result.err and "--distribute mirrored" in result.err
    monkeypatch.setenv("RANK", "1")
    assert run(*SMALL) == (2, "", "")  # said by rank 0
    assert not (folder / "m.bin").exists()
    succeed(*SMALL, "--epochs", 1, "--force")
    succeed("--test", "--model", "m.bin")


def test_a_launch_of_one_is_no_distribution(folder, monkeypatch):
    succeed(*SMALL, "--epochs", 3)
    alone = (folder / "m.bin").read_bytes()
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    for how in ("mirrored", "central"):
        succeed(*SMALL, "--epochs", 3, "--distribute", how)
        assert (folder / "m.bin").read_bytes() == alone


# ---------------------------------------------------------------- cores


@pytest.mark.parametrize(
    "rank, asked, cores, threads, own",
    [
        (0, None, 7, 2, [0, 1]),
        (1, None, 7, 2, [2, 3]),
        (2, 1, 7, 1, [4, 5]),
        (1, 4, 7, 4, None),  # more threads than a rank's share: the system places them
        (1, None, 2, 1, None),  # more ranks than cores
    ],
)
def test_ranks_of_a_host_divide_its_cores(rank, asked, cores, threads, own, monkeypatch):
    class Three(cluster.RankGroup):
        size = 3

        def gather(self, value):
            return [value] * 3

    rank_group, bound = Three(), []
    rank_group.rank = rank
    engine = CpuEngine.__new__(CpuEngine)
    engine.rank_group = rank_group
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, mask: bound.append(list(mask)))
    monkeypatch.setattr("nn.backends.cpu.default_threads", lambda: cores)
    assert engine._share_cores(asked) == threads
    assert bound == ([own] if own else [])


def test_a_process_alone_is_left_where_it_is(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("bound"))
    assert nn.Network("3,2", backend="omp", threads=1).engine.threads == 1
