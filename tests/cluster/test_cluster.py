"""Ranks: how they are launched and meet, that none is left alone, and that they divide
a host's cores.

What ranks compute together is in test_mpi.py, with srun in test_slurm.py, on GPUs in
tests/gpu.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from support import launches
from support.command_line import argv, run, succeed
from support.launches import (
    MIRRORED,
    SMALL,
    abandoned,
    all_end,
    alone,
    kill,
    ours,
    process_ids,
    shared_memory,
)

import nn
from nn import cluster
from nn.backends import Device, ranks_and_devices
from nn.backends.cpu import share_cores
from nn.backends.member import RankMember
from nn.cli import _join_ranks, main
from nn.cluster.mpi import MpiGroup
from nn.terminal.parser import parse
from nn.utils import UsageError

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "4",
}
SALLOC = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "3"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
BY_HAND = {"RANK": "2", "WORLD_SIZE": "3"}


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({}, None),
        # a batch script, outside of srun
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, None),
        # a shell of salloc, which is a step for SLURM
        ({**SALLOC, "SLURM_STEP_ID": "4294967290"}, None),
        # a batch script, as newer versions say
        ({**SALLOC, "SLURM_STEP_ID": "4294967291"}, None),
        # mpiexec in such a shell
        ({**SALLOC, "SLURM_STEP_ID": "4294967290", **HYDRA}, ("mpiexec", 1, 3)),
        ({"WORLD_SIZE": "4"}, None),
        (STEP, ("srun", 1, 4)),
        # a step of some of the tasks of a job
        ({**STEP, "SLURM_NTASKS": "8"}, ("srun", 1, 4)),
        ({**STEP, "PMI_RANK": "1", "PMI_SIZE": "4"}, ("srun", 1, 4)),  # --mpi=pmi2
        ({**STEP, "PMIX_RANK": "1"}, ("srun", 1, 4)),  # --mpi=pmix
        (HYDRA, ("mpiexec", 1, 3)),
        (
            {**STEP, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", **HYDRA},
            ("mpiexec", 1, 3),
        ),
        (OPEN_MPI, ("mpiexec", 0, 2)),
        (BY_HAND, ("RANK and WORLD_SIZE", 2, 3)),
        ({**BY_HAND, **OPEN_MPI}, ("mpiexec", 0, 2)),  # MPI knows better
    ],
)
def test_the_environment_says_who_this_is(environ, expected):
    result = cluster.launch(environ)
    assert (result and (result.launcher, result.rank, result.size)) == expected


@pytest.mark.parametrize(
    "environ, words",
    [
        ({"RANK": "3", "WORLD_SIZE": "3"}, "rank 3 of 3"),
        ({"PMI_RANK": "0", "PMI_SIZE": "0"}, "rank 0 of 0"),
        ({"RANK": "one", "WORLD_SIZE": "3"}, "RANK=one"),
        (
            {"OMPI_COMM_WORLD_RANK": "-1", "OMPI_COMM_WORLD_SIZE": "3"},
            "OMPI_COMM_WORLD_RANK=-1",
        ),
        ({**STEP, "SLURM_PROCID": "9" * 5000}, "SLURM_PROCID=9{40} in"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(environ, words):
    with pytest.raises(UsageError, match=words):
        cluster.launch(environ)


@pytest.mark.parametrize(
    "rank, words, waits",
    [
        ("0", "^mpiexec started 3 trainings, each of which would write --model", []),
        ("1", "^the environment says that this is rank 1 of 3 trainings that", [1.0]),
        ("2", "^the environment says that this is rank 2 of 3 trainings that", [1.0]),
    ],
)
def test_of_trainings_that_do_not_know_of_each_other_the_first_speaks_at_once(
    rank, words, waits, monkeypatch
):
    """A launcher that ends the others then leaves it at the line of the first."""
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setenv("PMI_RANK", rank)
    monkeypatch.setenv("PMI_SIZE", "3")
    with pytest.raises(UsageError, match=words):
        cluster.expect_one()
    assert waited == waits


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_that_is_no_time_is_refused(text, monkeypatch):
    monkeypatch.setenv("NN_RENDEZVOUS_SECONDS", text)
    with pytest.raises(UsageError, match=f"NN_RENDEZVOUS_SECONDS={text}"):
        cluster.limit_seconds()


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (0, [0, 0, 0]),
        (1, [0, 0, 1]),
        (2, [0, 1, 2]),
        (7, [2, 4, 7]),
        (32, [10, 21, 32]),
    ],
)
def test_shares_are_whole_and_even(rows, ends):
    rank_group = cluster.RankGroup()
    rank_group.size = 3
    assert [rank_group.share(rows, rank) for rank in range(3)] == [
        *map(slice, [0, *ends[:2]], ends)
    ]


@pytest.mark.parametrize(
    "hosts, places",
    [("aaa", [0, 1, 2]), ("aabb", [0, 1, 0, 1]), ("abab", [0, 0, 1, 1])],
)
def test_a_rank_has_a_place_among_those_of_its_host(hosts, places, monkeypatch):
    monkeypatch.setattr(MpiGroup, "gather", lambda *_: list(hosts))
    for rank, place in enumerate(places):
        world = SimpleNamespace(
            Get_rank=lambda rank=rank: rank, Get_size=lambda: len(hosts)
        )
        monkeypatch.setattr(MpiGroup, "communicator", lambda _, world=world: world)
        assert MpiGroup(None, False).local_rank == place


@pytest.mark.parametrize(
    "messages, code, line",
    [
        ([["end", 0, None]] * 3, 0, ""),
        (
            [["value", 1], ["end", 0, None], ["value", 1]],
            1,
            "rank 1 of 3 ended while the others were still running",
        ),
        (
            [["end", 0, None], ["end", 3, "bad"], ["end", 5, "no"]],
            3,
            "rank 1 of 3: bad",
        ),
        ([["value", 1], ["end", 0, None], ["end", 4, "bad"]], 4, "rank 2 of 3: bad"),
        ([["end", 2, "wrong use"], ["value", 1]], 2, "wrong use"),
        ([["end", 0, None], ["end", 130, None]], 130, ""),
    ],
)
def test_all_ranks_end_as_the_first_that_failed_else_as_the_first_that_ended(
    messages, code, line
):
    group = object.__new__(MpiGroup)
    group.size = len(messages)
    outcome = group._outcome_of(messages)
    assert (outcome.exit_code, str(outcome)) == (code, line)


@pytest.mark.parametrize("wrong", [1, 2])
@pytest.mark.parametrize(
    "others, told",
    [
        (
            {"layers": (2, 2)},
            r"--layers: rank {} has \[2, 2\], rank 0 has \[2, 1\]; do so",
        ),
        ({"loss": "mae"}, "--loss: rank {} has mae, rank 0 has none; do so"),
        ({"seed": None}, "--seed: rank {} has none, rank 0 has 1; do so"),
    ],
)
def test_any_rank_that_has_other_facts_is_named(wrong, others, told):
    facts = [{"seed": 1, "layers": (2, 1)} for _ in range(3)]
    group = cluster.RankGroup()
    group.gather = lambda own: [json.loads(json.dumps(each)) for each in facts]
    group.agree(facts[0], "give all the same")
    facts[wrong] = facts[0] | others
    with pytest.raises(UsageError, match=told.format(wrong)):
        group.agree(facts[0], "do so", "--{}")


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_agree_on_what_changes_a_training_and_the_first_alone_tells_of_it(
    monkeypatch, rank
):
    """Each may have its own number of threads."""
    agreed = {}
    group = SimpleNamespace(rank=rank, agree=lambda facts, *_: agreed.update(facts))
    monkeypatch.setattr(cluster, "launch", lambda: "slurm")
    monkeypatch.setattr(cluster, "join", lambda: group)
    command = "train t.csv -m m.bin --layers 2,1 --folds 2 --seed 5 --target y --gpus 2"
    files = {"trace": "t.json", "history": "h.csv", "logdir": "l", "output": "o.csv"}
    told = [f"--{name}={value}" for name, value in files.items()]
    told += argv("--distribute mirrored --threads 3 --json -v --profile")
    flags = parse([*argv(command), *told])
    before = {**vars(flags)}
    _join_ranks(flags)
    assert agreed == {
        "layers": "2,1",
        "folds": 2,
        "seed": 5,
        "target": "y",
        "gpus": (0, 1),
        "distribute": "mirrored",
    }
    silent = {"quiet": True, "verbose": False, "json": False, "profile": False}
    if rank:
        before |= {**silent, **dict.fromkeys(files)}
    assert vars(flags) == before


WAITING = "rank_group.gather(0)"
BUSY = "time.sleep(1000)"
JOIN = "import os, sys, time\nfrom nn import cluster\nrank_group = cluster.join()\n"
# in one piece
HERE = "sys.stdout.write(f'{rank_group.rank} {os.getpid()}\\n'); sys.stdout.flush()\n"
END = "\nsys.exit(cluster.end(0))"


@pytest.mark.usual(1)
def test_a_group_gathers_in_rank_order_and_waits_for_the_last_to_end(mpi):
    program = (
        JOIN
        + """
said = [rank_group.gather({"r": rank_group.rank}), rank_group.sum(0.1 * (1 + rank_group.rank)),
        rank_group.gather(rank_group.rank == 2), rank_group.gather("é" * 70000 * rank_group.rank)]
assert said == [[{"r": 0}, {"r": 1}, {"r": 2}], 0.1 + 0.2 + 0.1 * 3, [False, False, True],
                ["", "é" * 70000, "é" * 140000]], said
for turn in range(50):
    said = rank_group.gather([turn, "x" * turn] if rank_group.rank == 0 else None)
    assert said == [[turn, "x" * turn], None, None], said
assert (rank_group.size, rank_group.local_rank) == (3, rank_group.rank)
rank_group.agree({"gpus": (0, 1), "memory": None}, "give all the same")
sys.stdout.write("well\\n")
time.sleep(0.7 * (rank_group.rank == 0))  # ranks that end well before it are no deaths
""".replace("\\\\", "\\")
        + END
    )
    done = mpi.run(3, program)
    assert done.returncode == 0
    assert done.stdout == "well\n" * 3
    assert done.stderr == ""


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "victim, doing",
    [(0, f"{BUSY} if rank_group.rank == 0 else {WAITING}"), (1, BUSY)],
    ids=["waiting", "busy"],
)
def test_a_killed_rank_ends_all_others_at_once_and_leaves_no_shared_memory_behind(
    mpi, doing, victim
):
    before = shared_memory()
    with mpi.started(3, sys.executable, "-c", JOIN + HERE + doing) as launcher:
        pids = process_ids(launcher, 3)
        kill(pids[victim])
        began = time.monotonic()
        out, err = launcher.communicate(timeout=30)
        assert all_end(pids)
        assert time.monotonic() - began < 10
    # the launcher tells of it
    assert launcher.returncode != 0
    assert ours(err) == []
    assert "Killed" in out + err
    assert not abandoned(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "failing, doing, who",
    [("== 0", WAITING, ""), ("== 2", BUSY, "rank 2 of 3: "), (">= 0", WAITING, "")],
    ids=["waiting", "busy", "all"],
)
def test_a_rank_that_fails_takes_the_others_with_it_and_the_cause_is_said_once(
    mpi, failing, doing, who
):
    program = f"""{JOIN}
try:
    if rank_group.rank {failing}:
        sys.exit(cluster.end(65, "bad data"))
    {doing}
except Exception as error:
    sys.exit(cluster.end(error.exit_code, str(error)))
"""
    began = time.monotonic()
    done = mpi.run(3, program)
    assert done.returncode == 65
    assert time.monotonic() - began < 30
    assert ours(done.stderr) == [f"nn: {who}bad data"]


@pytest.mark.usual(1)
@pytest.mark.parametrize("doing", [WAITING, BUSY], ids=["waiting", "busy"])
def test_an_exception_that_nobody_caught_ends_all(mpich, doing):
    done = mpich.run(3, JOIN + f"if rank_group.rank == 1: 1 / 0\n{doing}")
    assert done.returncode == 1
    # the launcher may put a piece of another rank's traceback behind it
    (line,) = ours(done.stderr)
    assert line.startswith("nn: rank 1 of 3: ZeroDivisionError: division by zero")


@pytest.mark.usual(1)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_ends_while_others_go_on_is_an_error(mpich, rank):
    done = mpich.run(
        3, JOIN + f"if rank_group.rank != {rank}: rank_group.gather(0)" + END
    )
    assert done.returncode == 1
    message = f"nn: rank {rank} of 3 ended while the others were still running"
    # the launcher may put another rank's traceback before and behind it
    assert done.stderr.count(message) == 1


@pytest.mark.usual(1)
def test_a_rank_that_does_not_come_is_not_waited_for_longer_than_allowed(mpi):
    program = (
        f"import os, sys\nif os.environ['{mpi.rank}'] == '1': sys.exit(0)\n" + JOIN
    )
    began = time.monotonic()
    done = mpi.run(3, program, NN_RENDEZVOUS_SECONDS=1.5)
    # 1, or what the launcher makes of the ranks that it ends
    assert done.returncode != 0
    assert time.monotonic() - began < 20
    assert ours(done.stderr)[0].startswith(
        "nn: rank 0 of 3: MPI did not start within 1.5 s: a rank is missing"
    )


def test_a_signal_to_all_ranks_that_wait_for_each_other_is_told_once(mpich):
    """As Ctrl-C in a terminal; and rank 2, which has ended, waits for the others."""
    program = f"""{JOIN}{HERE}
code, text = 0, None
try:
    {BUSY} if rank_group.rank == 1 else {WAITING} if rank_group.rank == 0 else None
except KeyboardInterrupt:
    code, text = 130, "stopped"
sys.exit(cluster.end(code, text))
"""
    with mpich.started(3, sys.executable, "-c", program) as launcher:
        pids = process_ids(launcher, 3)
        time.sleep(0.5)
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        _, err = launcher.communicate(timeout=30)
        assert all_end(pids)
    assert launcher.returncode == 130
    assert ours(err) == ["nn: stopped"]


def test_the_identifier_of_nccl_goes_from_rank_0_to_all(mpich):
    """The members' communicators, but for NCCL itself; GPUs that are too few are
    refused as on a machine with them."""
    program = """
from nn import cluster
from nn.backends.cuda import device, group, nccl
from nn.utils import UsageError
rank_group = cluster.join()
nccl.library = lambda: None
nccl.unique_id = lambda: f"{rank_group.rank} of rank 0 alone" * 8
nccl.Communicator = lambda *given: given
expected = "0 of rank 0 alone" * 8, rank_group.rank, 3, 7
assert group.Member(rank_group, "mirrored", 7).communicator() == expected
device.device_count, device.address_of = lambda: 2, str
try:
    group._device_of_rank((), rank_group)
except UsageError as error:
    cluster.end(2, str(error))
"""
    done = mpich.run(3, program)
    message = "its host has fewer GPUs than ranks; start one rank per GPU, and list the GPUs of each host with gpus"
    assert ours(done.stderr) == [f"nn: rank 2: {message}"]


def test_two_versions_are_refused(mpich, folder):
    older = f"import os, nn\nif os.environ['{mpich.rank}'] == '1': nn.__version__ = '0.0.1'\n"
    done = mpich.run(
        2, older + f"import sys, nn.cli; sys.exit(nn.cli.main({MIRRORED!r}))"
    )
    message = f"nn: version of nn: rank 1 has 0.0.1, rank 0 has {nn.__version__}; install one version everywhere"
    assert ours(done.stderr) == [message]
    assert done.returncode == 2


def test_a_program_that_has_started_mpi_itself_keeps_it(mpich):
    program = """
from mpi4py import MPI
from nn import cluster
rank_group = cluster.join()
assert rank_group.gather(MPI.COMM_WORLD.Get_rank()) == [0, 1]
cluster.end(0)
assert MPI.COMM_WORLD.allreduce(1) == 2 and not MPI.Is_finalized()
"""
    done = mpich.run(2, program)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_process_alone_loads_no_mpi(folder):
    program = f"import sys, nn.cli; code = nn.cli.main({SMALL!r})\n"
    program += "sys.exit(code or bool({'mpi4py', 'nn.cluster.mpi'} & set(sys.modules)))"
    for variables in ({}, {"PMI_RANK": "0", "PMI_SIZE": "1"}):
        subprocess.run(
            [sys.executable, "-c", program], env=alone(**variables), check=True
        )


@pytest.fixture
def folder(folder, monkeypatch):
    launches.prepare_launch(folder, monkeypatch)
    return folder


def test_distribute_without_a_launcher_says_how_to_start(folder):
    result = run(*MIRRORED, "--backend", "omp")
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(
        "nn: --distribute shares the batches among ranks, but only one process was started"
    )
    assert "mpiexec -n 2 nn --train" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize("flags", [SMALL, MIRRORED], ids=["alone", "distributed"])
def test_ranks_of_which_mpi_knows_nothing_are_refused_with_the_command(
    folder, monkeypatch, flags, rank
):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = run(*flags)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(
        f"nn: RANK={rank} and WORLD_SIZE=2 in the environment, but no MPI started this "
    )
    assert "mpiexec -n 2 nn --train --distribute mirrored" in result.err
    assert "srun --mpi=pmi2" in result.err
    assert result.err.count("\n") == 1
    assert not (folder / "m.bin").exists()
    # they are separate trainings, the user says
    succeed(*SMALL, "--epochs", 1, "--force")
    succeed("--test", "--model", "m.bin")


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_STEP_ID": "0", "SLURM_PROCID": "", "SLURM_STEP_NUM_TASKS": "2"},
        {
            "SLURM_STEP_ID": "3",
            "SLURM_PROCID": "",
            "SLURM_NTASKS": "2",
            "PMI_RANK": "",
            "PMI_SIZE": "2",
        },
        {"OMPI_COMM_WORLD_RANK": "", "OMPI_COMM_WORLD_SIZE": "2"},
        {"PMI_RANK": "", "PMI_SIZE": "2"},
        {"RANK": "", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"},
    ],
)
def test_a_training_whose_environment_is_that_of_a_rank_says_what_to_do_or_trains(
    folder, monkeypatch, variables, rank
):
    """In a task of srun, or in what a rank of mpirun or torchrun starts: there may be
    no rank 0 that would say it."""
    monkeypatch.setattr("nn.cluster.rank_group.RANK_0_SECONDS", 0.01)
    for name, value in variables.items():
        monkeypatch.setenv(name, value or rank)
    for quiet in ([], ["--quiet"], ["--json"]):
        result = run(
            "train", "two.csv", "-m", "m.bin", "--epochs", 1, "--networks", 1, *quiet
        )
        assert result.code == 2
        assert result.out == ""
        assert result.err.count("\n") == 1
        assert "2 trainings" in result.err or "WORLD_SIZE=2" in result.err
        assert "--force if this is a training of its own" in result.err
        assert not (folder / "m.bin").exists()
    succeed(
        "train", "two.csv", "-m", "m.bin", "--epochs", 1, "--networks", 1, "--force"
    )
    succeed("test", "m.bin", "two.csv")


@pytest.mark.parametrize(
    "variables",
    [
        {**SALLOC, "SLURM_STEP_ID": "4294967290"},
        SALLOC,
        {"SLURM_STEP_ID": "1", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
        {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"},
        {"RANK": "0", "WORLD_SIZE": "1"},
    ],
)
def test_a_shell_of_salloc_and_a_launch_of_one_train(folder, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    succeed("train", "two.csv", "-m", "m.bin", "--epochs", 1, "--networks", 1)


def test_an_impossible_environment_does_not_keep_a_training_alone_from_running(
    folder, monkeypatch
):
    monkeypatch.setenv("PMI_RANK", "5")
    monkeypatch.setenv("PMI_SIZE", "2")
    result = run("train", "two.csv", "-m", "m.bin")
    assert result.code == 2
    assert "unset its variables, or add --force" in result.err
    succeed(
        "train", "two.csv", "-m", "m.bin", "--epochs", 1, "--networks", 1, "--force"
    )


@pytest.mark.usual(1)
def test_several_trainings_that_would_write_one_model_are_refused(mpi, folder):
    done = mpi.train(2, *SMALL)
    assert done.returncode == 2
    assert not (folder / "m.bin").exists()
    remarks = [
        line
        for line in ours(done.stderr)
        if line.startswith("nn: mpiexec started 2 trainings")
    ]
    # beside it what a rank says that the launcher ends
    assert len(remarks) == 1
    assert "--distribute mirrored" in remarks[0]


def test_a_launch_of_one_is_no_distribution(folder, monkeypatch):
    succeed(*SMALL, "--epochs", 3)
    alone = (folder / "m.bin").read_bytes()
    for variables, how in (
        ("RANK WORLD_SIZE", "mirrored"),
        ("PMI_RANK PMI_SIZE", "central"),
    ):
        for name, value in zip(variables.split(), "01", strict=True):
            monkeypatch.setenv(name, value)
        succeed(*SMALL, "--epochs", 3, "--distribute", how)
        assert (folder / "m.bin").read_bytes() == alone, variables


def test_without_mpi4py_or_an_mpi_the_command_that_installs_it_is_told(mpich, folder):
    program = f"import sys; sys.modules['mpi4py'] = None\nimport nn.cli; sys.exit(nn.cli.main({MIRRORED!r}))"
    for done, lines in (
        (mpich.run(2, program), 'needs the package mpi4py: pip install "mpi4py>=4"'),
        (
            mpich.train(2, *MIRRORED, MPI4PY_LIBMPI="libnone.so"),
            "needs an MPI, and mpi4py finds none: pip install mpi",
        ),
    ):
        (line,) = set(ours(done.stderr))
        assert done.returncode == 2
        assert line.startswith(f"nn: --distribute {lines}")


def test_ranks_whose_mpi_is_another_than_their_launchers_are_refused(mpich, folder):
    """Open MPI's variables, but MPICH has started nothing: each process is alone."""
    before = shared_memory()
    environment = mpich.environment(**OPEN_MPI)
    done = subprocess.run(
        [sys.executable, "-m", "nn", *MIRRORED],
        env=environment,
        text=True,
        capture_output=True,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(
        "nn: mpiexec started this process as rank 0 of 2, but mpi4py's MPICH "
    )
    assert "reports rank 0 of 1; use the mpiexec of that MPI" in done.stderr
    assert not abandoned(before)


@pytest.mark.parametrize(
    "hosts, rank, asked, cores, threads, own",
    [
        ("aaa", 0, None, 7, 2, [0, 1]),
        ("aaa", 1, None, 7, 2, [2, 3]),
        ("aaa", 2, 1, 7, 1, [4, 5]),
        # more threads than a rank's share: the system places them
        ("aaa", 1, 4, 7, 4, None),
        ("aaa", 1, None, 2, 1, None),  # more ranks than cores
        ("abab", 2, None, 6, 3, [3, 4, 5]),
        ("abab", 1, None, 6, 3, [0, 1, 2]),
        ("baa", 0, None, 6, 6, None),  # alone on its host
    ],
)
def test_ranks_of_a_host_divide_its_cores(
    hosts, rank, asked, cores, threads, own, monkeypatch
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    rank_group = cluster.RankGroup()
    bound = []
    rank_group.rank = rank
    rank_group.size = len(hosts)
    rank_group.gather = lambda value: [[host, *value[1:]] for host in hosts]
    monkeypatch.setattr("platform.node", lambda: hosts[rank])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda pid, mask: bound.append(list(mask))
    )
    monkeypatch.setattr("nn.backends.cpu.available_cores", lambda: cores)
    assert share_cores(rank_group, asked) == threads
    assert bound == ([own] if own else [])


@pytest.mark.parametrize("asked, threads", [(None, 3), (2, 2)])
def test_threads_that_are_asked_for_come_before_those_of_the_environment(
    asked, threads, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert share_cores(cluster.ALONE, asked) == threads


@pytest.mark.parametrize(
    "backend, asked, threads", [("omp", None, 3), ("omp", 5, 5), ("seq", None, 1)]
)
def test_networks_of_ranks_have_the_threads_of_their_share(
    backend, asked, threads, monkeypatch
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    group = cluster.RankGroup()
    group.size = 2
    group.gather = lambda value: [value] * 2
    monkeypatch.setattr("nn.backends.expect_ranks", lambda: group)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, mask: None)
    monkeypatch.setattr("nn.backends.cpu.available_cores", lambda: 6)
    ranks, devices = ranks_and_devices(backend, asked, distribute="mirrored")
    assert ranks is group
    assert devices == [Device(threads)]
    # alone a network has as many as are asked for
    assert ranks_and_devices(backend, asked) == (cluster.ALONE, [Device(asked)])


def test_a_network_of_another_rank_has_the_parameters_last_set_or_its_owners():
    engine = nn.Network("3,1", backend="seq").engine
    owners = np.full(engine.size, 7, engine.dtype)
    of_owner = {"vector": owners}
    other = RankMember(engine, None, lambda vector: of_owner["vector"])
    own = np.arange(engine.size, dtype=engine.dtype)
    other.set("parameters", own)
    other.set("moment1", owners)
    kept = other.get("parameters")
    assert (kept == own).all()
    kept[:] = 0.0
    assert (other.get("parameters") == np.arange(engine.size)).all()
    other.shares_vectors = True
    assert other.get("parameters") is owners
    assert other.load(np.ones((2, 3), engine.dtype)) is None
    assert other.predict(None) is owners


def test_a_process_alone_is_left_where_it_is(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("bound"))
    net = nn.Network("3,2", backend="omp", threads=1)
    assert net.engine.threads == 1


def test_a_rank_that_has_ended_stays_deaf_to_its_launcher(monkeypatch):
    """The launcher ends the others by SIGTERM when it sees the first rank fail; all end
    by themselves."""

    def end(code, text):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return code

    monkeypatch.setattr(cluster, "end", end)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["--version"]) == 0
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
