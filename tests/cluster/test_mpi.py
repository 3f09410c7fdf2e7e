"""Ranks by MPI (`pip install mpi4py mpich`): 2 and 3 of them, started by mpiexec,
compute what one process does."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np
import pytest
from support import launches
from support.command_line import argv, position, succeed, write_two_classes
from support.distances import relative_distance
from support.launches import (
    MIRRORED,
    SECONDS,
    SMALL,
    STOPPED_UNTIL_DONE,
    all_end,
    find_mpi,
    kill,
    ours,
    rank_process,
)

import nn
from nn.utils import asked_threads, available_cores


@pytest.fixture
def folder(folder, monkeypatch):
    launches.prepare_launch(folder, monkeypatch)
    return folder


LONG = [*MIRRORED, "--epochs", 100_000, "--checkpoint", "c.ck", "--resume", "auto"]
NETWORKS = {
    "dense": "30,60:sigmoid,10:tanh,1",
    "conv": "3x8x8,conv8k3p1,maxpool2,dropout0.25,16,dropout0.5,3",
}
EPOCHS = """
import sys, numpy as np, nn
from nn import cluster
from nn.backends.engine import EpochSettings

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
                    settings = EpochSettings(optimizer="sgd", batch=batch, rates=[0.01] * 9, momentum=0.9, seed=3,
                                             scale_rate=2.0 * (rows > batch))
                    progress = engine.progress()
                    for vector in ("moment1", "scales"):
                        engine.set(vector, np.zeros(engine.length(vector), dtype))
                    engine.set("parameters", start)
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


@pytest.fixture(scope="module")
def epochs(mpich, tmp_path_factory):
    """Gradients of a batch and parameters after an epoch, by 1, 2 and 3 ranks."""
    folder = tmp_path_factory.mktemp("epochs")
    results = {}
    for size, ways in (
        (1, ["alone"]),
        (2, ["mirrored", "central"]),
        (3, ["mirrored", "central"]),
    ):
        done = mpich.launch(
            size,
            sys.executable,
            "-c",
            EPOCHS,
            repr(NETWORKS),
            folder / f"{size}.npz",
            *ways,
        )
        assert done.returncode == 0, done.stderr
        results[size] = np.load(folder / f"{size}.npz")
    return results


@pytest.mark.usual(4)
@pytest.mark.parametrize("how", ["mirrored", "central"])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_ranks_compute_what_one_process_does(epochs, name, processor, size, how):
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        prefix = f"{name} {processor} {dtype} {'alone'} "
        several = f"{name} {processor} {dtype} {how} "
        gradient = epochs[1][prefix + "31 moment1"]
        assert np.linalg.norm(gradient) > 0
        distance = relative_distance(epochs[size][several + "31 moment1"], gradient)
        assert distance < tolerance
        expected = epochs[1][prefix + "31 loss"]
        distance = relative_distance(epochs[size][several + "31 loss"], expected)
        assert distance < tolerance
    prefix = f"{name} {processor} float64 {'alone'} 107 "
    several = f"{name} {processor} float64 {how} 107 "
    for what in ("parameters", "loss"):
        expected = epochs[1][prefix + what]
        assert relative_distance(epochs[size][several + what], expected) < 1e-9
        for rows, dtype in ((31, "float64"), (31, "float32"), (107, "float32")):
            key = f"{name} {processor} {dtype} {how} {rows} {what}"
            expected = epochs[size][key.replace(how, "central")]
            assert relative_distance(epochs[size][key], expected) < 1e-6


WITHIN_AN_EPOCH = """
import sys, threading, time
import numpy as np, nn
from nn import cluster
from nn.backends.engine import EpochSettings

net = nn.Network("64,700:tanh,1", "regression", threads=1, distribute="mirrored", backend="omp")
engine, batch, rows = net.engine, 42, 42 * 200
x = np.repeat(np.random.default_rng(0).normal(size=(1, 64)), rows, axis=0).astype("f")
data = engine.load(x, np.full((rows, 1), 3, "f"))
of_row = engine.loss(data, np.arange(rows))
progress = engine.progress()
settings = EpochSettings(optimizer="sgd", batch=batch, rates=[0.0] * 9)
training = threading.Thread(target=engine.epoch, args=(data, np.arange(rows), settings, progress))
training.start()
seen = {}
while training.is_alive():
    row, loss = progress.row, progress.loss
    if row == progress.row:
        seen[row] = loss
    time.sleep(0.0002)
training.join()
np.testing.assert_allclose(progress.loss, rows * of_row, rtol=1e-4)
within = {row: loss for row, loss in seen.items() if 8 * batch <= row < rows}
assert within, seen
for row, loss in within.items():  # that of the batch at hand may be in it
    assert -0.01 < loss / of_row - row < 1.01 * batch, (row, loss / of_row)
print("seen\\n", end="")
sys.exit(cluster.end(0))
"""


@pytest.mark.parametrize("size", [2, 3])
def test_the_loss_within_an_epoch_is_that_of_all_ranks(mpich, size):
    """Rows alike, a step of 0: after each batch the loss is that of the rows before."""
    done = mpich.run(size, WITHIN_AN_EPOCH)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["seen"] * size


def test_ranks_train_one_model_and_rank_0_tells(mpich, folder):
    given = [*SMALL, "--epochs", 4, "--dtype", "float64", "--json"]
    alone_result = succeed(*given).json
    test = ("--test", "--model", "m.bin", "--json")
    alone = succeed(*test).json
    config = nn.Network.load("m.bin").config
    done = mpich.train(
        3,
        *given,
        "--distribute",
        "central",
        "--history",
        "h.csv",
        "--checkpoint",
        "c.ck",
    )
    assert done.stderr == ""
    assert done.returncode == 0
    result = json.loads(done.stdout)  # one object, of rank 0
    assert result["ranks"] == 3
    assert len(result["loss"]) == 4
    # of all held-out rows
    assert result["val_loss"] == pytest.approx(alone_result["val_loss"], rel=1e-9)
    assert result["loss"] == pytest.approx(alone_result["loss"], rel=1e-9)
    text = (folder / "h.csv").read_text()
    assert len(text.splitlines()) == 5
    assert position("c.ck")["epoch"] == 4
    tested = succeed(*test).json
    for name in ("target", "drift"):
        assert tested.pop(name) == alone.pop(name)
    assert tested == pytest.approx(alone, rel=1e-6)
    assert nn.Network.load("m.bin").config == config  # nothing of ranks


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize(
    "how, more",
    [
        ("central", ["--memory", "100M"]),
        ("mirrored", ["--refit"]),
        pytest.param("mirrored", [], marks=pytest.mark.long),
        pytest.param("central", [], marks=pytest.mark.long),
    ],
)
def test_weights_and_the_best_epoch_are_those_of_one_process(mpich, folder, how, more):
    given = [*SMALL, *argv("--epochs 5 --dtype float64 --json --class_weight 1,3")]
    given += ["--validation", 0.3, "--monitor", "brier", "--patience", 2, *more]
    alone = succeed(*given).json
    several = json.loads(mpich.train(3, *given, "--distribute", how).stdout)
    for name in ("rows", "validation", "best_epoch"):
        assert several[name] == alone[name], name
    for name in ("loss", "val_loss", "val_metric"):
        assert several[name] == pytest.approx(alone[name], rel=1e-9), name


API = """
import hashlib, warnings, nn
warnings.simplefilter("ignore")  # it is judged by rows that it was trained on
ds = nn.load("two.csv")
net = nn.Network("2,16,1", task=ds.task, distribute=HOW)
result = nn.train(net, ds, epochs=3, batch_number=33)
here = hashlib.sha256(b"".join(array.tobytes() for array in net.parameters().values())).hexdigest()
rank_group = net.engine.rank_group
assert result["ranks"] == rank_group.size == 3 and rank_group.gather(here) == [here] * 3
print(f"{rank_group.rank} {result['loss']} {nn.test(net, ds)['accuracy']}\\n", end="")  # in one piece
"""


@pytest.mark.usual(1)
@pytest.mark.parametrize("how", ["mirrored", "central"])
def test_a_python_program_trains_with_ranks_and_all_hold_the_same_network(
    mpich, folder, how
):
    done = mpich.run(3, API.replace("HOW", repr(how)))
    assert done.stderr == ""
    assert done.returncode == 0
    lines = sorted(done.stdout.splitlines())
    assert [line[0] for line in lines] == ["0", "1", "2"]
    assert len({line[1:] for line in lines}) == 1


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "failing", ["1 / 0", "net.engine.epoch = lambda *_: 1 / 0"], ids=["before", "epoch"]
)
def test_a_python_program_that_fails_on_one_rank_ends_on_all(mpich, folder, failing):
    """In an epoch the others wait for its gradients."""
    failing = f"if net.engine.rank_group.rank == 1: {failing}\nresult ="
    began = time.monotonic()
    done = mpich.run(3, API.replace("HOW", "'mirrored'").replace("result =", failing))
    assert done.returncode == 1
    assert time.monotonic() - began < 30
    # the launcher may put a piece of another rank's traceback behind it
    (line,) = ours(done.stderr)
    assert line.startswith("nn: rank 1 of 3: ZeroDivisionError: division by zero")
    assert not any(line[:1].isdigit() for line in done.stdout.splitlines())


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "signum, code",
    [
        (signal.SIGTERM, 75),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGUSR1, 75, marks=pytest.mark.long),
    ],
    ids=lambda value: str(value),
)
def test_a_signal_to_one_rank_stops_all_with_the_state_saved(
    mpich, folder, signum, code
):
    with launches.running(mpich, 3, *LONG) as launcher:
        os.kill(rank_process(launcher, mpich, 1), signum)
        out, err = launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == code
    assert out == ""
    assert position("c.ck")["step"] > 0
    message = (
        "the state is saved in c.ck, continue with --resume auto, m.bin was not written"
    )
    assert err == f"nn: stopped by {signal.Signals(signum).name}: {message}\n"


STOPPED = (
    """
import os, signal, sys, numpy as np, nn
from nn import cluster
from nn.ds import Dataset
from nn.utils import Stopped, StopRequest

def trained(**saving):
    net = nn.Network(LAYERS, task=ds.task, distribute=HOW, threads=1)
    if saving:  # one rank, another each time, is asked to stop after its next batch
        epoch, stop, rank_group = net.engine.epoch, saving["stop"], net.engine.rank_group
        def interrupted(data, order, settings, progress):
            if rank_group.rank == len(stops) % rank_group.size:
                stop.request(signal.SIGUSR1)
                progress.stop = 1
            epoch(data, order, settings, progress)
        net.engine.epoch = interrupted
    nn.train(net, ds, epochs=3, batch_number=40, **saving)
    return net

ds = nn.load(DATA)
"""
    + STOPPED_UNTIL_DONE
)


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize(
    "layers, data, how",
    [
        ("2,16,dropout0.2,8,1", "two.csv", "mirrored"),
        ("1x8x8,conv4k3,dropout0.3,3", "x.npz", "central"),
    ],
)
def test_ranks_that_are_stopped_after_every_batch_end_in_the_same_bytes(
    mpich, folder, layers, data, how
):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (200, 1, 8, 8), np.uint8)
    np.savez("x.npz", x=images, y=np.arange(200) % 3)
    program = (
        STOPPED.replace("HOW", repr(how))
        .replace("LAYERS", repr(layers))
        .replace("DATA", repr(data))
    )
    done = mpich.run(3, program)
    # of 3 epochs of 4 batches or more
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10, done.stderr
    expected = (folder / "peace.bin").read_bytes()
    assert (folder / "net.bin").read_bytes() == expected


@pytest.mark.slow
def test_a_killed_rank_ends_all_and_the_checkpoint_stays(mpi, folder):
    with launches.running(mpi, 3, *LONG) as launcher:
        pids = [rank_process(launcher, mpi, rank) for rank in range(3)]
        kill(pids[1])
        began = time.monotonic()
        _, err = launcher.communicate(timeout=SECONDS)
        assert all_end(pids)
        assert time.monotonic() - began < 10
    assert launcher.returncode != 0
    assert ours(err) == []
    assert not (folder / "m.bin").exists()
    done = position("c.ck")["step"]
    with launches.running(mpi, 3, *LONG) as launcher:
        pid = rank_process(launcher, mpi, 0)
        os.kill(pid, signal.SIGTERM)
        launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == 75
    assert position("c.ck")["step"] > done


@pytest.mark.usual(0, 1)
@pytest.mark.parametrize("data", ["two.csv", "images.npz", "times.csv"])
def test_ranks_choose_what_one_process_chooses(mpich, folder, data):
    """Also where two short trainings, whose batches they share, tell whether images are
    mirrored, and where networks are trained once more on all rows."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 1, 4, 4), np.uint8)
    mean = images[:, 0, 0].mean(1)
    np.savez(folder / "images.npz", x=images, y=(mean > 128).astype(int))
    lines = [
        f"{row % 7},{row * row % 11},{row},{row * row % 11 + row / 30}"
        for row in range(60)
    ]
    text = "\n".join(["a,b,t,y", *lines])
    (folder / "times.csv").write_text(text + "\n")
    if data == "times.csv":
        time_flags = ["--time", "t", "--epochs", 3]
    else:
        time_flags = []
    command = [
        *argv(f"--train --dataset {data} --model m.bin --effort quick -q"),
        *time_flags,
    ]
    succeed(*command)
    alone_bytes = (folder / "m.bin").read_bytes()
    done = mpich.train(2, *command, "--distribute", "mirrored", "--trace", "t.json")
    assert ours(done.stderr) == []
    assert done.returncode == 0
    assert (folder / "m.bin").read_bytes() == alone_bytes
    assert (folder / "t.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["mirrored", pytest.param("central", marks=pytest.mark.long)]
)
def test_two_ranks_give_the_same_bytes_by_any_mpi(folder, how):
    """Of two numbers there is one sum."""
    models = []
    for name in ("mpich", "openmpi"):
        done = find_mpi(name).train(2, *MIRRORED[:-1], how, "--epochs", 3)
        assert ours(done.stderr) == []
        assert done.returncode == 0
        models.append((folder / "m.bin").read_bytes())
    assert models[0] == models[1]


@pytest.mark.usual(1, 3)
@pytest.mark.parametrize(
    "command, code, line",
    [
        (
            ["--seed", "$PMI_RANK"],
            2,
            "nn: --seed: rank 1 has 1, rank 0 has 0; give all ranks the same flags",
        ),
        (["--dataset", "$D"], 2, "nn: SHA-256 of --dataset: rank 1 has "),
        (["--dataset", "$N"], 66, "nn: rank 1 of 2: none.csv: no such file"),
        (["--resume", "$R"], 66, "nn: rank 1 of 2: none.ck: no such checkpoint"),
        (["--reference", "--layers", "2,4,1"], 2, "nn: --reference"),
        (
            ["--holdout", 0.997],
            2,
            "nn: 3 ranks for 2 rows to train on: start at most 2, or give more data",
        ),
    ],
    ids=["seed", "data", "no data", "no checkpoint", "reference", "few rows"],
)
def test_ranks_that_are_not_about_to_do_the_same_or_too_many_are_told_so(
    mpich, folder, command, code, line
):
    write_two_classes(folder / "other.csv", rows=302)
    succeed(*SMALL, "--epochs", 2, "--checkpoint", "c.ck")
    choose = 'D=two.csv N=two.csv R=c.ck; if [ "$PMI_RANK" = 1 ]; then D=other.csv N=none.csv R=none.ck; fi; '
    command = " ".join(
        map(str, [sys.executable, "-m nn", *MIRRORED, "--epochs 2", *command])
    )
    began = time.monotonic()
    size = 3 if line.startswith("nn: 3 ranks") else 2
    done = mpich.launch(size, "sh", "-c", choose + "exec " + command)
    assert time.monotonic() - began < 30
    (lines,) = ours(done.stderr)
    assert done.returncode == code, done.stderr
    assert lines.startswith(line), done.stderr


def test_ranks_share_the_cores_of_their_host_and_the_profile_shows_their_messages(
    mpich, folder
):
    wide = "--layers", "2,900,900,1", "--json", "--epochs", 4, "--batch_number", 200
    report = json.loads(
        mpich.train(2, *MIRRORED, *wide, "--profile", "--trace", "t.json").stdout
    )
    assert report["threads"] == (asked_threads() or max(1, available_cores() // 2))
    assert report["profile"]["communication_ms"] > 0
    assert report["profile"]["update_ms"] > 0
    document = json.loads((folder / "t.json").read_text())
    names = {event["name"] for event in document["traceEvents"]}
    assert "communication" in names
