"""Several networks shared out among ranks (mpiexec): the same bytes as one process,
whatever stops them."""

import json
import os
import signal
import sys
import time

import numpy as np
import pytest
from support.command_line import argv, position, succeed, write_three_classes
from support.launches import (
    SECONDS,
    STOPPED_UNTIL_DONE,
    ours,
    prepare_launch,
    rank_process,
    running,
)

import nn

DATA = ["--train", "--dataset", "two.csv", "--quiet"]
LAYERS = ["--layers", "2,16,dropout0.2,8,1"]
DISTRIBUTE = ["--distribute", "mirrored"]
EARLY = ["--epochs", 9, "--validation", 0.3, "--monitor", "roc_auc", "--patience", 3]
WAYS = {
    "early": [
        "--networks",
        5,
        *EARLY,
        *argv(
            "--learning_rate 0.02 --refit --threshold f1 --calibrate temperature --history h.csv"
        ),
    ],
    "folds": ["--folds", 4, *EARLY, "--threshold", "f1", "-o", "out.csv"],
    "judged by folds": [
        "--folds",
        3,
        *EARLY[:2],
        *argv("--validation fold --class_weight 1,2 -o out.csv"),
    ],
    "judged in time": [
        "--folds",
        3,
        *EARLY[:2],
        *argv("--validation fold --patience 2 --time a --task regression -o out.csv"),
    ],
    "vary": [
        "--networks",
        23,
        *EARLY,
        "--vary",
        "learning_rate=1e-3..1e-1,hidden=7|16|9-5",
    ],
    "numbers": [
        "--networks",
        5,
        *EARLY,
        *argv(
            "--refit --class_weight balanced --vary number_embedding=linear|pieces5|waves2,hidden=7|9-5"
        ),
    ],
    "effort": argv("--effort standard --epochs 4 --history h.csv -o out.csv"),
    "infinite": argv(
        "--networks 4 --epochs 3 --vary learning_rate=0.01|1e30 --optimizer sgd"
    ),
}
TIMES = ("seconds", "us_per_batch", "threads")
LONG = [
    *DATA,
    *LAYERS,
    *argv("--networks 3 --model m.bin --checkpoint c.ck --resume auto"),
]
MORE = [*LONG, "--epochs", 60, "--validation", 0.3, "--patience", 100, "--refit"]
VARY = [*MORE, "--networks", 20, "--vary", "learning_rate=1e-3..1e-1"]
LIMITED = [*MORE, "--memory", "100M"]


@pytest.fixture
def folder(folder, monkeypatch):
    prepare_launch(folder, monkeypatch)
    return folder


def written(folder):
    """The bytes of all files that a training has written, without the times of a
    history."""
    kept = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name not in ("two.csv", "rows.csv")
    }
    if "h.csv" in kept:
        lines = kept["h.csv"].decode().splitlines()
        times = {
            place
            for place, name in enumerate(lines[0].split(","))
            if name in (*TIMES, "ranks")
        }
        kept["h.csv"] = [
            [v for k, v in enumerate(line.split(",")) if k not in times]
            for line in lines
        ]
    return kept


# each way with one of these two; with the other one in -m long
SIZES = [(2, "seq"), (3, "omp")]


@pytest.mark.usual(1, 4)
@pytest.mark.parametrize(
    "way, size, backend",
    [
        pytest.param(way, *how, marks=() if (row + column) % 2 else pytest.mark.long)
        for row, way in enumerate(WAYS)
        for column, how in enumerate(SIZES)
    ],
)
def test_ranks_write_and_print_what_one_process_does(mpich, folder, way, size, backend):
    command = [*DATA, "--model", "m.bin", "--backend", backend, "--json", *WAYS[way]]
    if way not in ("effort", "judged in time"):
        command += LAYERS
    alone = succeed(*command).json
    expected = written(folder)
    for name in expected:
        (folder / name).unlink()
    done = mpich.train(
        size, *command, "--distribute", "central" if size == 3 else "mirrored"
    )
    assert ours(done.stderr) == []
    assert done.returncode == 0
    assert way != "infinite" or {"member", "failed"} <= {
        trial["status"] for trial in alone["trials"]
    }
    several = json.loads(done.stdout)  # one object, of rank 0
    assert several == {
        **alone,
        "ranks": size,
        **{name: several[name] for name in TIMES},
    }
    assert written(folder) == expected


API = """
import hashlib, warnings, nn
warnings.simplefilter("ignore")  # it is judged by rows that it was trained on
from nn import cluster
ds = nn.load("two.csv")
net = nn.Network("2,16,1", task=ds.task, distribute="mirrored", backend="omp")
result = nn.train(net, ds, epochs=3, learning_rate=0.1, networks=4, split_seed=7)
rank_group = cluster.current()
own = [hashlib.sha256(b"".join(a.tobytes() for a in m.parameters().values())).hexdigest() for m in net.members]
assert result["ranks"] == rank_group.size == 3 and rank_group.gather(own) == [own] * 3 and len({*own}) == 4
if rank_group.rank == 1:
    net.export("m.bin")
if rank_group.rank != 1:  # each is alone with its networks
    assert nn.test(net, ds)["accuracy"] > 0 and net.deviation(ds.x).max() > 0
"""


@pytest.mark.slow
def test_a_python_program_has_all_networks_on_all_ranks(mpi, folder):
    done = mpi.run(3, API)
    assert done.stderr == ""
    assert done.returncode == 0
    ds = nn.load("two.csv")
    model = nn.Model.load("m.bin")
    for number, member in enumerate(model.network.members):
        alone = nn.Network("2,16,1", task=ds.task, seed=number)
        nn.train(alone, ds, epochs=3, learning_rate=0.1, split_seed=7)
        parameters = member.parameters()
        expected = alone.parameters()
        for name in expected:
            assert np.array_equal(parameters[name], expected[name])


def test_the_ranks_of_one_network_judge_by_numbers_of_its_type(mpich, folder):
    """Else what is defined on one rank, the Brier score of several classes, would be
    undefined on two."""
    write_three_classes(folder / "three.csv", 300)
    command = "--train --dataset three.csv --layers 2,8,3 --model m.bin --epochs 2 --validation 0.3 --monitor brier"
    alone = succeed(*command.split(), "--json", "-q").json["val_metric"]
    document = json.loads(
        mpich.train(2, *command.split(), "--json", "-q", *DISTRIBUTE).stdout
    )
    several = document["val_metric"]
    assert several == pytest.approx(alone, rel=1e-4)  # float32


@pytest.mark.slow
@pytest.mark.parametrize(
    "mpi, signum, code",
    [
        ("mpich", signal.SIGTERM, 75),
        ("openmpi", signal.SIGINT, 130),
        pytest.param("mpich", signal.SIGINT, 130, marks=pytest.mark.long),
        pytest.param("openmpi", signal.SIGTERM, 75, marks=pytest.mark.long),
    ],
    indirect=["mpi"],
    ids=str,
)
def test_a_signal_to_one_rank_stops_all_with_the_state_saved(mpi, folder, signum, code):
    with running(mpi, 2, *LONG, "--epochs", 100_000, *DISTRIBUTE) as launcher:
        os.kill(rank_process(launcher, mpi, 1), signum)
        out, err = launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == code
    assert out == ""
    assert ours(err) == [
        f"nn: stopped by {signal.Signals(signum).name}: the state is saved in c.ck, "
        "continue with --resume auto, m.bin was not written"
    ]
    assert [member["step"] > 0 for member in position("c.ck")["members"]] == [True] * 3


STOPPED = (
    """
import signal, nn
from nn import cluster
from nn.train.engines import Engines
from nn.utils import Stopped, StopRequest

def trained(**saving):
    net = nn.Network("2,16,dropout0.2,8,1", task=ds.task, distribute=HOW, backend="omp", threads=1)
    if saving:  # one rank, another each time, is asked to stop after the next batch of one of its networks
        def interrupted(self, what, asks):
            rank_group = cluster.current()
            if what == "epoch" and asks and rank_group.rank == len(stops) % rank_group.size:
                saving["stop"].request(signal.SIGUSR1)
                next(iter(asks.values())).job.progress.stop = 1
            return compute(self, what, asks)
        Engines.compute = interrupted
    nn.train(net, ds, epochs=5, batch_number=40, networks=4, validation=0.3, refit=True, **saving)
    Engines.compute = compute
    return net

ds, compute = nn.load("two.csv"), Engines.compute
"""
    + STOPPED_UNTIL_DONE
)


@pytest.mark.slow
def test_ranks_that_are_stopped_after_every_batch_end_in_the_same_bytes(mpi, folder):
    done = mpi.run(3, STOPPED.replace("HOW", "'mirrored'"))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10, done.stderr
    ended = (folder / "net.bin").read_bytes()
    assert ended == (folder / "peace.bin").read_bytes()
    (folder / "peace.bin").unlink()
    alone = mpi.run(1, STOPPED.replace("HOW", "None"))
    assert alone.returncode == 0, alone.stderr
    assert (folder / "peace.bin").read_bytes() == ended, alone.stderr


PATCHED = """
import os, signal, sys, time, nn.cli
from nn import cluster
from nn.train.member import Member
from nn.train.engines import Engines
from nn.utils import NnError

usual, calls = WHERE, []
def patched(self, *arguments):
    calls.append([*arguments, ""][0])
    if cluster.current().rank == RANK and (WHEN):
        THEN
    return usual(self, *arguments)
WHERE = patched
sys.exit(nn.cli.main(sys.argv[1:]))
"""


def launch_patched(mpi, size, rank, where, when, then, *command):
    """Ranks of nn of which one does something else in a method: `then`, when `when`."""
    program = (
        PATCHED.replace("WHERE", where)
        .replace("RANK", str(rank))
        .replace("WHEN", when)
        .replace("THEN", then)
    )
    return mpi.launch(
        size, sys.executable, "-c", program, *command, *(DISTRIBUTE if size > 1 else [])
    )


def ended(mpi, size, signal_name, *command):
    """Ranks of which the last sends itself a signal in the 20th epoch."""
    # the first checkpoint is written meanwhile
    then = f"time.sleep(0.5); os.kill(os.getpid(), signal.{signal_name})"
    when = "calls[-1] == 'epoch' and calls.count('epoch') == 20"
    return launch_patched(mpi, size, size - 1, "Engines.compute", when, then, *command)


def whole(folder, command):
    """The bytes of a training that nobody stops."""
    succeed(
        *(
            word
            for word in command
            if word not in ("--checkpoint", "c.ck", "--resume", "auto")
        )
    )
    content = (folder / "m.bin").read_bytes()
    (folder / "m.bin").unlink()
    return content


def check_goes_on(mpi, folder, size, command, expected):
    """A training that ended in its midst goes on with that many ranks to the bytes of
    one that nobody stopped."""
    assert not (folder / "m.bin").exists()
    assert 0 < position("c.ck")["members"][0]["epoch"] < 60
    done = mpi.train(size, *command, *(DISTRIBUTE if size > 1 else []))
    assert ours(done.stderr) == []
    assert done.returncode == 0
    assert (folder / "m.bin").read_bytes() == expected


@pytest.mark.usual(0, 2)
@pytest.mark.parametrize(
    "command, sizes",
    [
        pytest.param(MORE, (1, 3), id="rows, 1 to 3"),
        pytest.param(LIMITED, (2, 1), id="limited, 2 to 1"),
        pytest.param(VARY, (1, 3), id="vary, 1 to 3"),
        pytest.param(MORE, (2, 2), id="rows, 2 to 2", marks=pytest.mark.long),
        pytest.param(VARY, (2, 1), id="vary, 2 to 1", marks=pytest.mark.long),
    ],
)
def test_a_state_goes_on_with_any_number_of_ranks(mpich, folder, command, sizes):
    expected = whole(folder, command)
    assert ended(mpich, sizes[0], "SIGTERM", *command).returncode == 75
    check_goes_on(mpich, folder, sizes[1], command, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mpi, command",
    [
        pytest.param("mpich", MORE, id="mpich-rows"),
        pytest.param("openmpi", LIMITED, id="openmpi-limited"),
        pytest.param("mpich", LIMITED, id="mpich-limited", marks=pytest.mark.long),
        pytest.param("openmpi", MORE, id="openmpi-rows", marks=pytest.mark.long),
    ],
    indirect=["mpi"],
)
def test_a_killed_rank_ends_all_and_the_training_goes_on_from_the_checkpoint(
    mpi, folder, command
):
    expected = whole(folder, command)
    began = time.monotonic()
    done = ended(mpi, 3, "SIGKILL", *command)
    assert done.returncode != 0
    assert ours(done.stderr) == []
    assert time.monotonic() - began < 60
    check_goes_on(mpi, folder, 2, command, expected)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "mpi, where, when",
    [
        ("mpich", "Engines.compute", "calls[-1] == 'loss'"),
        ("mpich", "Member._begin_refit", "self.net.seed == 2"),
        ("openmpi", "Engines.compute", "True"),
    ],
    indirect=["mpi"],
)
def test_a_rank_that_fails_ends_all_with_its_line(mpi, folder, where, when):
    """Others compute meanwhile, and what the networks have learned is asked for at the
    end of each."""
    command = [
        *DATA,
        *LAYERS,
        *argv("--networks 3 --model m.bin --epochs 3 --validation 0.3 --refit"),
    ]
    began = time.monotonic()
    then = "raise NnError('this rank is no more')"
    done = launch_patched(mpi, 3, 1, where, when, then, *command)
    assert done.returncode == 1
    assert time.monotonic() - began < 30
    assert ours(done.stderr) == ["nn: rank 1 of 3: this rank is no more"]
    assert not (folder / "m.bin").exists()


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize("more", [["--networks", 2], ["--folds", 2]])
def test_ranks_that_are_more_than_networks_are_idle(mpich, folder, more):
    command = [*DATA, *LAYERS, "--model", "m.bin", "--epochs", 2, *more]
    of_one = whole(folder, command)
    done = mpich.train(3, *command, *DISTRIBUTE)
    assert ours(done.stderr) == []
    assert done.returncode == 0
    assert (folder / "m.bin").read_bytes() == of_one
