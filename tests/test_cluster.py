"""Ranks: how they are launched and meet, that none is left alone, and that together they compute what one does.

What needs MPI (`pip install mpi4py mpich`) starts 2 and 3 ranks by mpiexec; test_slurm.py starts them by srun.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import environment, position, run, succeed, write_two_classes

import nn
from nn import cluster, rendezvous
from nn.backends.cpu import CpuEngine
from nn.utils import UsageError

SECONDS = 60  # for anything here to end, on a machine that is busy
LAUNCHERS = ("SLURM_", "PMI", "OMPI_", "MPI_", "HYD", "MASTER_", "NN_")


def alone(**variables) -> dict[str, str]:
    """An environment that says nothing of a launcher but these variables."""
    own = {name: value for name, value in environment().items() if not name.startswith(LAUNCHERS)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        own.pop(name, None)
    return {**own, **{name: str(value) for name, value in variables.items()}}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


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
            team = cluster.Team()
            team.size, shares = size, []
            for team.rank in range(size):
                shares.append(range(rows)[team.share(rows)])
            assert [row for share in shares for row in share] == list(range(rows))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


# ---------------------------------------------------------------- a team of processes, without MPI

JOIN = "import os, sys, time\nfrom nn import cluster\nteam = cluster.join()\n"
END = "\nsys.exit(cluster.end(0))"


class Process:
    """A rank that runs a program; ended when the test is over."""

    def __init__(self, program: str, **variables):
        self.popen = subprocess.Popen(
            [sys.executable, "-c", program],
            env=alone(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        out, err = self.popen.communicate(timeout=SECONDS)
        return self.popen.returncode, out, err


@pytest.fixture
def ranks():
    """Starts ranks of one launch: ranks(program, size, only=those, more variables)."""
    started = []

    def start(program, size=3, only=None, **variables):
        variables = {"MASTER_PORT": free_port(), "WORLD_SIZE": size, **variables}
        new = [Process(program, RANK=rank, **variables) for rank in (range(size) if only is None else only)]
        started.extend(new)
        return new

    yield start
    for process in started:
        process.popen.kill()
        process.popen.wait()
        for pipe in (process.popen.stdout, process.popen.stderr):
            pipe.close()


def test_a_team_gathers_in_rank_order(ranks):
    program = JOIN + "print([team.gather({'r': team.rank}), team.sum(0.1 * (1 + team.rank)), team.any(team.rank == 2),"
    program += " team.any(False), team.broadcast(7 * team.rank + 1), team.local_rank], flush=True)" + END
    for rank, process in enumerate(ranks(program)):
        code, out, err = process.end()
        assert (code, err) == (0, "")
        assert out.strip() == f"[[{{'r': 0}}, {{'r': 1}}, {{'r': 2}}], {0.1 + 0.2 + 0.1 * 3}, True, False, 1, {rank}]"


def test_ranks_with_the_same_facts_agree_whatever_their_types(ranks):
    program = JOIN + "team.agree({'gpus': (0, 1), 'memory': None}, 'give all the same')" + END
    assert [process.end() for process in ranks(program)] == [(0, "", "")] * 3


def test_a_rank_that_ends_well_first_is_no_death(ranks):
    program = JOIN + "time.sleep(0.7 * (team.rank == 0))" + END
    assert [process.end() for process in ranks(program)] == [(0, "", "")] * 3


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_ends_all_others_at_once(ranks, victim):
    processes = ranks(JOIN + "team.gather(0); print('here', flush=True); time.sleep(1000)")
    for process in processes:
        assert process.popen.stdout.readline() == "here\n"
    processes[victim].popen.kill()
    began = time.monotonic()
    for rank, process in enumerate(processes):
        code, _, err = process.end()
        if rank != victim:
            assert code == 1
        if rank == 0 != victim:
            assert err == f"nn: rank {victim} of 3 has ended; so does the training, see that rank's output for why\n"
    assert time.monotonic() - began < 10


def test_ranks_that_leave_because_one_was_lost_are_not_named_instead_of_it(monkeypatch):
    said = []
    monkeypatch.setattr(rendezvous, "leave", lambda code, text: said.append((code, text)))
    team = rendezvous.Ranks(0, 3, 0, {})
    team._lost(1)
    team._lost(2)  # it was told of 1, and may be gone before rank 0 has spoken
    assert [(code, text.split(" of ")[0]) for code, text in said] == [(1, "rank 1")]


def test_a_rank_that_fails_takes_the_others_with_it_and_rank_0_says_why(ranks):
    program = JOIN + "if team.rank == 2: sys.exit(cluster.end(65, 'bad data'))\ntime.sleep(1000)"
    ends = [process.end() for process in ranks(program)]
    assert [code for code, _, _ in ends] == [65] * 3
    assert [err for _, _, err in ends] == ["nn: rank 2 of 3: bad data\n", "", ""]


def test_what_is_wrong_for_all_is_said_once(ranks):
    ends = [process.end() for process in ranks(JOIN + "sys.exit(cluster.end(2, 'wrong'))")]
    assert ends == [(2, "", "nn: wrong\n"), (2, "", ""), (2, "", "")]


def test_an_exception_that_nobody_caught_ends_all(ranks):
    ends = [process.end() for process in ranks(JOIN + "if team.rank == 1: 1 / 0\nteam.gather(0)")]
    assert [code for code, _, _ in ends] == [1] * 3
    assert ends[0][2] == "nn: rank 1 of 3: ZeroDivisionError: division by zero\n"


def test_a_rank_that_ends_while_others_go_on_is_an_error(ranks):
    program = JOIN + "if team.rank != 1: team.gather(0)" + END
    codes = [process.end()[0] for process in ranks(program)]
    assert codes == [1] * 3


def test_ranks_that_do_not_come_are_named_within_the_limit(ranks):
    began = time.monotonic()
    some = ranks(JOIN, size=5, only=[0, 2, 3], NN_RENDEZVOUS_SECONDS=1.5)
    ends = [process.end() for process in some]
    assert time.monotonic() - began < 20
    assert [code for code, _, _ in ends] == [1] * 3
    assert "nn.utils.NnError: ranks 1, 4 have not come to 127.0.0.1 port " in ends[0][2]
    assert "within 1.5 s, of 5 that RANK and WORLD_SIZE speaks of" in ends[0][2]


def test_a_rank_0_that_does_not_come_is_named(ranks):
    (process,) = ranks(JOIN, only=[1], NN_RENDEZVOUS_SECONDS=0.5)
    code, _, err = process.end()
    assert code == 1 and "rank 0 has not come to" in err


def test_a_limit_that_is_no_time_is_refused(ranks):
    (process,) = ranks(JOIN, only=[1], NN_RENDEZVOUS_SECONDS="soon")
    assert "NN_RENDEZVOUS_SECONDS=soon" in process.end()[2]


def test_strangers_are_left_standing_and_the_ranks_still_meet(ranks):
    port = free_port()
    (first,) = ranks(JOIN + "print(team.gather(team.rank))" + END, size=2, only=[0], MASTER_PORT=port)
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
    (second,) = ranks(JOIN + "print(team.gather(team.rank))" + END, size=2, only=[1], MASTER_PORT=port)
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
        assert "there are two of rank 1; give each launch a MASTER_PORT of its own" in err


def test_two_versions_are_refused(ranks):
    port = free_port()
    older = "import nn; nn.__version__ = '0.0.1'\n" + JOIN
    two = ranks(JOIN, size=2, only=[0], MASTER_PORT=port) + ranks(older, size=2, only=[1], MASTER_PORT=port)
    for _, _, err in [process.end() for process in two]:
        assert "rank 1 runs nn 0.0.1, rank 0 nn " in err


# ---------------------------------------------------------------- wrong launches of the command

SMALL = ["--train", "--dataset", "two.csv", "--layers", "2,16,dropout0.2,8,1", "--model", "m.bin", "--quiet"]
MIRRORED = [*SMALL, "--distribute", "mirrored"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in [*os.environ]:
        if name.startswith(LAUNCHERS) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    write_two_classes(tmp_path / "two.csv", rows=301)
    return tmp_path


def test_distribute_without_a_launcher_says_how_to_start(folder):
    result = run(*MIRRORED, "--backend", "omp")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("nn: --distribute shares the batches among ranks, but nobody started several")
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


# ---------------------------------------------------------------- MPI

PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def mpiexec() -> str:
    """The mpiexec beside this Python's mpi4py."""
    if not importlib.util.find_spec("mpi4py"):
        pytest.skip("mpi4py is not installed (pip install mpi4py mpich)")
    found = shutil.which("mpiexec", path=os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]))
    if not found:
        pytest.skip("there is no mpiexec (pip install mpich)")
    return found


def mpi_environment(**variables) -> dict[str, str]:
    """Messages stay on this machine."""
    return alone(FI_PROVIDER="tcp", FI_TCP_IFACE="lo", UCX_NET_DEVICES="lo", **variables)


def launch(mpiexec, size, *command, **variables) -> subprocess.CompletedProcess:
    """Run a command as that many ranks."""
    return subprocess.run(
        [mpiexec, "-n", str(size), *map(str, command)],
        env=mpi_environment(**variables), text=True, capture_output=True, timeout=4 * SECONDS,
    )  # fmt: skip


def train_as(mpiexec, size, *arguments, **variables) -> subprocess.CompletedProcess:
    """`nn ARGUMENTS` as that many ranks."""
    return launch(mpiexec, size, sys.executable, "-m", "nn", *arguments, **variables)


NETWORKS = {
    "dense": "30,60:sigmoid,10:tanh,1",
    "conv": "3x8x8,conv8k3p1,maxpool2,dropout0.25,16,dropout0.5,3",
}
EPOCHS = """
import sys, numpy as np, nn
from nn import cluster, rendezvous

NETWORKS, out = eval(sys.argv[1]), sys.argv[2]
found = {}
for name, spec in NETWORKS.items():
    for backend in ("seq", "omp"):
        for dtype in ("float64", "float32"):
            for how in sys.argv[3:]:
                net = nn.Network(spec, "regression", dtype=dtype, backend=backend, seed=3, threads=1,
                                 distribute=None if how == "alone" else how)
                engine, rng = net.engine, np.random.default_rng(1)
                x = rng.normal(size=(107, net.inputs)).astype(dtype)
                y = rng.normal(size=(107, net.outputs)).astype(dtype)
                data, start = engine.load(x, y), engine.get("parameters")
                # the first moment after a batch is its mean gradient; 107 rows are 15 batches of 7 and one of 2
                for rows, batch in ((31, 31), (107, 7)):
                    settings = engine.training(optimizer="sgd", batch=batch, rates=[0.01] * 9, momentum=0.9, seed=3)
                    progress = engine.progress()
                    for vector in ("moment1", "parameters"):
                        engine.set(vector, start if vector == "parameters" else 0 * start)
                    engine.epoch(data, np.arange(rows), settings, progress)
                    key = f"{name} {backend} {dtype} {how} {rows} "
                    found[key + "parameters"] = engine.get("parameters")
                    found[key + "moment1"] = engine.get("moment1")
                    found[key + "loss"] = np.array([progress.loss])
                    assert (progress.row, progress.step) == (rows, -(-rows // batch))
if cluster.current().rank == 0:
    np.savez(out, **found)
sys.exit(cluster.end(0))
"""


def distance(a, b) -> float:
    return np.linalg.norm(a.astype(float) - b) / np.linalg.norm(b.astype(float))


@pytest.fixture(scope="module")
def epochs(mpiexec, tmp_path_factory):
    """Gradients of a batch and parameters after an epoch, by 1, 2 and 3 ranks."""
    folder = tmp_path_factory.mktemp("epochs")
    found = {}
    for size, ways in ((1, ["alone"]), (2, ["mirrored", "central"]), (3, ["mirrored", "central"])):
        done = launch(mpiexec, size, sys.executable, "-c", EPOCHS, repr(NETWORKS), folder / f"{size}.npz", *ways)
        assert done.returncode == 0, done.stderr
        found[size] = np.load(folder / f"{size}.npz")
    return found


@pytest.mark.parametrize("how", ["mirrored", "central"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize("name", NETWORKS)
def test_ranks_compute_what_one_process_does(epochs, name, backend, size, how):
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        one, several = (f"{name} {backend} {dtype} {way} " for way in ("alone", how))
        gradient = epochs[1][one + "31 moment1"]
        assert np.linalg.norm(gradient) > 0
        assert distance(epochs[size][several + "31 moment1"], gradient) < tolerance
        assert distance(epochs[size][several + "31 loss"], epochs[1][one + "31 loss"]) < tolerance
    one, several = (f"{name} {backend} float64 {way} 107 " for way in ("alone", how))
    for what in ("parameters", "loss"):
        assert distance(epochs[size][several + what], epochs[1][one + what]) < 1e-9


def test_mirrored_and_central_take_the_same_steps(epochs):
    for key in epochs[2].files:
        if " mirrored " in key and key.endswith(("parameters", "loss")):
            assert distance(epochs[2][key.replace("mirrored", "central")], epochs[2][key]) < 1e-6


def test_ranks_train_one_model_and_rank_0_tells(mpiexec, folder):
    succeed(*SMALL, "--epochs", 4, "--dtype", "float64")
    alone, config = succeed("--test", "--model", "m.bin", "--json").json, nn.Network.load("m.bin").config
    several = [*MIRRORED[:-2], "--distribute", "central", "--epochs", 4, "--dtype", "float64", "--json"]
    done = train_as(mpiexec, 3, *several, "--history", "h.csv", "--checkpoint", "c.ck")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)  # one object, of rank 0
    assert result["ranks"] == 3 and len(result["loss"]) == 4
    assert len((folder / "h.csv").read_text().splitlines()) == 5
    assert position("c.ck")["epoch"] == 4
    tested = succeed("--test", "--model", "m.bin", "--json").json
    assert tested == pytest.approx(alone, rel=1e-6)
    assert nn.Network.load("m.bin").config == config  # nothing of ranks


def test_the_validation_loss_is_of_all_held_out_rows(mpiexec, folder):
    given = [*SMALL[:-1], "--epochs", 2, "--dtype", "float64", "--json", "--quiet"]
    alone = succeed(*given).json
    done = train_as(mpiexec, 3, *given, "--distribute", "mirrored")
    several = json.loads(done.stdout)
    assert several["val_loss"] == pytest.approx(alone["val_loss"], rel=1e-9)
    assert several["loss"] == pytest.approx(alone["loss"], rel=1e-9)


API = """
import hashlib, nn
ds = nn.load("two.csv")
net = nn.Network("2,16,1", task=ds.task, distribute=HOW)
result = nn.train(net, ds, epochs=3, batch_number=33)
here = hashlib.sha256(b"".join(array.tobytes() for array in net.parameters().values())).hexdigest()
team = net.engine.team
assert result["ranks"] == team.size == 3 and team.gather(here) == [here] * 3
print(f"{team.rank} {result['loss']} {nn.test(net, ds)['accuracy']}\\n", end="")  # in one piece
"""


@pytest.mark.parametrize("how", ["mirrored", "central"])
def test_a_python_program_trains_with_ranks_and_all_hold_the_same_network(mpiexec, folder, how):
    done = launch(mpiexec, 3, sys.executable, "-c", API.replace("HOW", repr(how)))
    assert (done.returncode, done.stderr) == (0, "")
    lines = sorted(done.stdout.splitlines())
    assert [line[0] for line in lines] == ["0", "1", "2"] and len({line[1:] for line in lines}) == 1


def test_a_python_program_that_fails_on_one_rank_ends_on_all(mpiexec, folder):
    failing = API.replace("HOW", "'mirrored'").replace("result =", "net.engine.team.rank == 1 and 1 / 0\nresult =")
    done = launch(mpiexec, 3, sys.executable, "-c", failing)
    assert done.returncode != 0 and "nn: rank 1 of 3: ZeroDivisionError: division by zero" in done.stderr
    assert not any(line[:1].isdigit() for line in done.stdout.splitlines())


def rank_process(launcher: subprocess.Popen, rank: int, variable: str = "PMI_RANK") -> int:
    """The process id of a rank below a launcher."""
    children = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    below, found = [launcher.pid], []
    while below:
        below.extend(children.get(below[0], []))
        found.append(below.pop(0))
    for pid in found:
        with contextlib.suppress(OSError):
            if f"{variable}={rank}" in Path(f"/proc/{pid}/environ").read_text().split("\0") and (
                b"-m\0nn\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                return pid
    raise AssertionError(f"no rank {rank}")


@contextlib.contextmanager
def running(mpiexec, size, *arguments):
    """`nn ARGUMENTS` as ranks that train, once the first checkpoint c.ck is there."""
    before = Path("c.ck").read_bytes() if Path("c.ck").exists() else None
    launcher = subprocess.Popen(
        [mpiexec, "-n", str(size), sys.executable, "-m", "nn", *map(str, arguments)],
        env=mpi_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + SECONDS
        while not Path("c.ck").exists() or Path("c.ck").read_bytes() == before:
            assert launcher.poll() in (None, 0) and time.monotonic() < end, launcher.communicate(timeout=5)
            if launcher.poll() == 0:
                break
            time.sleep(0.01)
        yield launcher
    finally:
        launcher.kill()
        launcher.communicate()


LONG = [*MIRRORED, "--epochs", 100_000, "--checkpoint", "c.ck", "--resume", "auto"]


@pytest.mark.parametrize(
    "signum, code", [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)], ids=lambda value: str(value)
)
def test_a_signal_to_one_rank_stops_all_with_the_state_saved(mpiexec, folder, signum, code):
    with running(mpiexec, 3, *LONG) as launcher:
        os.kill(rank_process(launcher, 1), signum)
        out, err = launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == code
    assert out == "" and err.splitlines() == [
        f"nn: stopped by {signal.Signals(signum).name}: the training as it stands is in c.ck, "
        "--resume auto goes on from it, m.bin was not written"
    ]
    assert position("c.ck")["step"] > 0


STOPPED = """
import os, signal, sys, numpy as np, nn
from nn import cluster, rendezvous
from nn.ds import Dataset
from nn.utils import Stopped, StopRequest

def trained(**saving):
    net = nn.Network(LAYERS, task=ds.task, distribute=HOW, threads=1)
    if saving:  # one rank, another each time, is asked to stop after its next batch
        epoch, stop, team = net.engine.epoch, saving["stop"], net.engine.team
        def interrupted(data, order, settings, progress):
            if team.rank == len(stops) % team.size:
                stop.request(signal.SIGUSR1)
                progress.stop = 1
            epoch(data, order, settings, progress)
        net.engine.epoch = interrupted
    nn.train(net, ds, epochs=3, batch_number=40, **saving)
    return net

ds, stops = nn.load(DATA), []
peace = trained()
while True:
    try:
        net = trained(checkpoint="c.ck", resume="auto", stop=StopRequest())
        break
    except Stopped as stopped:
        assert stopped.signum == signal.SIGUSR1
        stops.append(stopped)
        cluster.current().gather(None)  # rank 0 has written
if cluster.current().rank == 0:
    peace.export("peace.bin")
    net.export("net.bin")
    print(len(stops))
"""


@pytest.mark.parametrize("how", ["mirrored", "central"])
@pytest.mark.parametrize("layers, data", [("2,16,dropout0.2,8,1", "two.csv"), ("1x8x8,conv4k3,dropout0.3,3", "x.npz")])
def test_ranks_that_are_stopped_after_every_batch_end_in_the_same_bytes(mpiexec, folder, layers, data, how):
    rng = np.random.default_rng(0)
    np.savez("x.npz", x=rng.integers(0, 256, (200, 1, 8, 8), np.uint8), y=np.arange(200) % 3)
    program = STOPPED.replace("HOW", repr(how)).replace("LAYERS", repr(layers)).replace("DATA", repr(data))
    done = launch(mpiexec, 3, sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10  # of 3 epochs of 4 batches or more
    assert (folder / "net.bin").read_bytes() == (folder / "peace.bin").read_bytes()


def test_a_killed_rank_ends_all_and_the_checkpoint_stays(mpiexec, folder):
    with running(mpiexec, 3, *LONG) as launcher:
        others = [rank_process(launcher, rank) for rank in (0, 2)]
        os.kill(rank_process(launcher, 1), signal.SIGKILL)
        began = time.monotonic()
        launcher.communicate(timeout=SECONDS)
        assert launcher.returncode != 0 and time.monotonic() - began < 10
    for pid in others:
        with contextlib.suppress(OSError):
            assert b"-m\0nn\0" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert not (folder / "m.bin").exists()
    done = position("c.ck")["step"]
    with running(mpiexec, 3, *LONG) as launcher:
        os.kill(rank_process(launcher, 0), signal.SIGTERM)
        launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == 75 and position("c.ck")["step"] > done


@pytest.mark.parametrize(
    "command, code, line",
    [
        (["--seed", "$PMI_RANK"], 2, "nn: --seed: rank 1 has 1, rank 0 has 0; give all ranks the same flags"),
        (["--optimizer", "$O"], 2, "nn: --optimizer: rank 1 has sgd, rank 0 has adam; give all ranks the same flags"),
        (["--dataset", "$D"], 2, "nn: SHA-256 of --dataset: rank 1 has "),
        (["--dataset", "$N"], 66, "nn: rank 1 of 3: none.csv: no such file"),
        (["--resume", "$R"], 66, "nn: rank 1 of 3: none.ck: no such checkpoint"),
        (["--reference", "--layers", "2,4,1"], 2, "nn: --reference"),
    ],
    ids=["seed", "optimizer", "data", "no data", "no checkpoint", "reference"],
)
def test_ranks_that_are_not_about_to_do_the_same_are_told_so(mpiexec, folder, command, code, line):
    write_two_classes(folder / "other.csv", rows=302)
    succeed(*SMALL, "--epochs", 2, "--checkpoint", "c.ck")
    choose = (
        'O=adam D=two.csv N=two.csv R=c.ck; if [ "$PMI_RANK" = 1 ]; then O=sgd D=other.csv N=none.csv R=none.ck; fi; '
    )
    command = " ".join(map(str, [sys.executable, "-m nn", *MIRRORED, "--epochs 2", *command]))
    began = time.monotonic()
    done = launch(mpiexec, 3, "sh", "-c", choose + "exec " + command)
    assert time.monotonic() - began < 30
    assert done.returncode == code, done.stderr
    ours = [text for text in done.stderr.splitlines() if text.startswith("nn:")]
    assert len(ours) == 1 and ours[0].startswith(line)


def test_more_ranks_than_rows_are_refused(mpiexec, folder):
    write_two_classes(folder / "two.csv", rows=4)
    done = train_as(mpiexec, 3, *MIRRORED, "--holdout", 0.5)
    assert done.returncode == 2
    assert done.stderr == "nn: 3 ranks for 2 rows to train on: start at most 2, or give more data\n"


def test_ranks_of_which_mpi_knows_nothing_are_refused(mpiexec, ranks, folder):
    program = f"import sys, nn.cli; sys.exit(nn.cli.main({MIRRORED!r} + ['--backend', 'omp']))"
    ends = [process.end() for process in ranks(program, size=2)]
    assert [code for code, _, _ in ends] == [2, 2]
    assert "RANK and WORLD_SIZE speaks of rank 0 of 2, but to mpi4py's" in ends[0][2]
    assert "start the ranks by mpiexec or srun" in ends[0][2] and ends[1][2] == ""


def test_without_mpi4py_its_command_is_told(ranks, folder):
    program = "import sys; sys.modules['mpi4py'] = None\nimport nn.cli; "
    program += f"sys.exit(nn.cli.main({MIRRORED!r} + ['--backend', 'omp']))"
    ends = [process.end() for process in ranks(program, size=2)]
    assert [code for code, _, _ in ends] == [2, 2]
    assert 'pip install "nn-trainer[mpi]"' in ends[0][2] and ends[0][2].count("\n") == 1


def test_the_cores_are_shared_among_the_ranks_of_a_host(mpiexec, folder):
    from nn.utils import default_threads

    done = train_as(mpiexec, 2, *MIRRORED[:-2], "--distribute", "mirrored", "--layers", "2,900,900,1", "--json",
                    "--epochs", 1, "--batch_number", 200)  # fmt: skip
    assert json.loads(done.stdout)["threads"] == max(1, default_threads() // 2)


def test_the_profile_shows_the_messages(mpiexec, folder):
    done = train_as(mpiexec, 2, *MIRRORED, "--epochs", 20, "--profile", "--json", "--trace", "t.json")
    profile = json.loads(done.stdout)["profile"]
    assert profile["communication_ms"] > 0 and profile["update_ms"] > 0
    names = {event["name"] for event in json.loads((folder / "t.json").read_text())["traceEvents"]}
    assert "communication" in names


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
    class Three(cluster.Team):
        size = 3

        def gather(self, value):
            return [value] * 3

    team, bound = Three(), []
    team.rank = rank
    engine = CpuEngine.__new__(CpuEngine)
    engine.team = team
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, mask: bound.append(list(mask)))
    monkeypatch.setattr("nn.backends.cpu.default_threads", lambda: cores)
    assert engine._share_cores(asked) == threads
    assert bound == ([own] if own else [])


def test_a_process_alone_is_left_where_it_is(monkeypatch):
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("bound"))
    assert nn.Network("3,2", backend="omp", threads=1).engine.threads == 1
