"""Checkpoints: a training that was killed, stopped or resumed ends in the same bytes as
one left in peace."""

import os
import random
import signal
import sys
import threading
import time
from importlib import import_module

import numpy as np
import pytest
from support.checkpoints import (
    CONV,
    SMALL,
    dense_data,
    images,
    start_saving_each_epoch,
    wait_for,
    write_data,
)
from support.command_line import argv, position, read_until, run, start, succeed
from support.effort import EFFORT

import nn
from nn.ds import Dataset
from nn.utils import Stopped, StopRequest

KILLS = 3 * EFFORT  # of each of four trainings
DENSE = ["--layers", "2,48,dropout0.2,16,1"]


@pytest.fixture
def folder(folder):
    return write_data(folder)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "dataset, layers, epochs, backend",
    [
        ("two.csv", DENSE, 120, "omp"),
        ("images.npz", CONV, 100, "seq"),
        pytest.param("two.csv", DENSE, 120, "seq", marks=pytest.mark.long),
        pytest.param("images.npz", CONV, 100, "omp", marks=pytest.mark.long),
    ],
)
def test_a_training_killed_at_random_moments_ends_in_the_same_bytes(
    folder, dataset, layers, epochs, backend
):
    moments = random.Random(f"{dataset} {backend}")
    given = [
        *argv(f"--train --dataset {dataset}"),
        *layers,
        *argv(f"--epochs {epochs} --backend {backend}"),
    ]
    succeed(*given, "--model", "peace.bin")
    given += ["--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"]
    killed = advanced = 0
    # a busy machine may get nowhere before some kills
    while killed < KILLS or advanced < 2:
        assert killed < 10 * KILLS
        if os.path.exists("c.ck"):
            before = position("c.ck")
        else:
            before = None
        process = start_saving_each_epoch(*given)
        try:
            read_until(process, "training on")
            time.sleep(moments.uniform(0, 0.2))
        finally:
            process.kill()
            process.communicate()
        if process.returncode == 0:  # it was over sooner: begin again
            data = (folder / "m.bin").read_bytes()
            assert data == (folder / "peace.bin").read_bytes()
            (folder / "m.bin").unlink()
            (folder / "c.ck").unlink()
            continue
        assert process.returncode == -signal.SIGKILL
        killed += 1
        advanced += before is not None and position("c.ck")["epoch"] > before["epoch"]
    code, err = wait_for(start_saving_each_epoch(*given))
    assert code == 0, err
    data = (folder / "m.bin").read_bytes()
    assert data == (folder / "peace.bin").read_bytes()


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "kind, backend, rows",
    [
        ("dense", "seq", 50000),
        ("conv", "omp", 100000),
        pytest.param("dense", "omp", 300000, marks=pytest.mark.long),
        pytest.param("conv", "seq", 20000, marks=pytest.mark.long),
    ],
)
def test_a_signal_in_the_middle_of_an_epoch_saves_the_state_where_it_is(
    folder, kind, backend, rows
):
    """Epochs long enough to be hit inside, stopped again and again until the training
    is over."""
    if kind == "dense":
        ds = dense_data(rows=rows, inputs=2)
    else:
        ds = image_data(rows)
    np.savez("data.npz", x=ds.x, y=ds.y)
    moments = random.Random(f"{kind} {backend}")
    given = [
        *argv("--train --dataset data.npz"),
        *(DENSE if kind == "dense" else CONV),
        "--backend",
        backend,
    ]
    given += ["--epochs", 2, "--batch_number", 1]
    succeed(*given, "--model", "peace.bin")
    given += ["--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"]
    codes = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: 130}
    inside = 0
    for signum, code in codes.items():
        process = start(*given)
        read_until(process, "training on")
        time.sleep(moments.uniform(0, 0.2))
        process.send_signal(signum)
        exit_code, err = wait_for(process, timeout=10)
        if exit_code == 0:
            break
        assert exit_code == code, err
        message = "the state is saved in c.ck, continue with --resume auto, m.bin was not written"
        expected = f"nn: stopped by {signum.name}: {message}"
        assert err.splitlines()[-1] == expected
        inside += position("c.ck")["row"] > 0
    assert inside
    succeed(*given)
    data = (folder / "m.bin").read_bytes()
    assert data == (folder / "peace.bin").read_bytes()
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize(
    "signum, saving, code",
    [
        (signal.SIGTERM, True, 75),
        (signal.SIGUSR1, True, 75),
        (signal.SIGINT, True, 130),
        (signal.SIGUSR1, False, 143),
    ],
)
def test_a_signal_while_the_data_is_read_loses_nothing(
    folder, monkeypatch, signum, saving, code
):
    def endless_reading(*_):
        os.kill(os.getpid(), signum)
        time.sleep(60)

    monkeypatch.setattr(import_module("nn.train.fit"), "training_data", endless_reading)
    (folder / "c.ck").write_bytes(b"as it was")
    result = run(
        *SMALL, "--model", "m.bin", *(["--checkpoint", "c.ck"] if saving else [])
    )
    message = (
        f"nn: stopped by {signum.name}: training had not begun, m.bin was not written\n"
    )
    assert result.code == code
    assert result.err == message
    assert (folder / "c.ck").read_bytes() == b"as it was"
    assert not (folder / "m.bin").exists()


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "first, second, saving",
    [
        (signal.SIGUSR1, signal.SIGTERM, ["--checkpoint", "c.ck"]),
        (signal.SIGINT, signal.SIGINT, []),
    ],
)
def test_a_second_signal_leaves_at_once_and_the_old_checkpoint_stays(
    folder, first, second, saving
):
    """The first batch of this network lasts longer than anyone wants to wait."""
    (folder / "c.ck").write_bytes(b"as it was")
    given = [*argv("--layers 2,3000,3000,1 --batch_number 1600 --backend seq"), *saving]
    process = start("--train", "--dataset", "two.csv", "--model", "m.bin", *given)
    try:
        read_until(process, "training on")
        process.send_signal(first)
        time.sleep(0.3)
        assert process.poll() is None  # still in its batch
        process.send_signal(second)
        assert process.wait(timeout=5) == 128 + second
    finally:
        process.kill()
        process.communicate()
    assert (folder / "c.ck").read_bytes() == b"as it was"
    assert not (folder / "m.bin").exists()


def image_data(rows=120):
    x, y = images(rows)
    return Dataset(x, y, "multiclass", classes=["a", "b", "c"])


CASES = {
    "adam": (dense_data, {"layers": "5,8,dropout0.3,1"}, {}),
    "momentum": (
        dense_data,
        {"layers": "5,8,1"},
        {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1},
    ),
    "constants of adam": (
        dense_data,
        {"layers": "5,8,1"},
        {"betas": (0.8, 0.99), "epsilon": 0.001},
    ),
    "scales of inputs": (dense_data, {"layers": "5,8,1"}, {"scale_rate": 3.0}),
    "rmsprop": (
        dense_data,
        {"layers": "5,8,1"},
        {"optimizer": "rmsprop", "betas": "0.7"},
    ),
    "a loss with a constant": (dense_data, {"layers": "5,8,1", "loss": "focal=1"}, {}),
    "adagrad": (dense_data, {"layers": "5,8,1"}, {"optimizer": "adagrad"}),
    "plain sgd": (
        dense_data,
        {"layers": "5,8,1", "dtype": "float64"},
        {"optimizer": "sgd", "holdout": 0.0},
    ),
    "reference": (
        dense_data,
        {"layers": "5,4,1", "reference": True},
        {"learning_rate": 0.1, "batch_number": 7},
    ),
    "regression": (
        lambda: dense_data("regression"),
        {"layers": "5,8,2"},
        {"schedule": "cosine"},
    ),
    "several yes/no targets": (
        lambda: dense_data("multilabel"),
        {"layers": "5,8,2"},
        {"validation": 0.2},
    ),
    "classes of several targets with weights": (
        lambda: dense_data("multilabel"),
        {"layers": "5,8,2", "loss": "focal"},
        {"validation": 0.2, "class_weight": "1,4,3,1"},
    ),
    "conv": (image_data, {"layers": CONV[1]}, {}),
}


def stop_in_an_epoch(engine, stop):
    """From now on an epoch ends after its first batch; on a GPU, which looks before
    one, after some."""
    epoch = engine.epoch

    def stop_after_some(progress, row):
        while progress.row == row:
            time.sleep(1e-4)
        progress.stop = 1
        stop.request(signal.SIGTERM)

    def interrupted(data, order, settings, progress):
        if engine.name in ("seq", "omp"):
            progress.stop = 1
            stop.request(signal.SIGTERM)
        else:
            threading.Thread(
                target=stop_after_some, args=(progress, progress.row), daemon=True
            ).start()
        epoch(data, order, settings, progress)

    engine.epoch = interrupted


@pytest.mark.usual(0, 8)
@pytest.mark.parametrize("case", CASES)
def test_a_training_stopped_after_every_few_batches_ends_in_the_same_bytes(
    tmp_path, case, backend
):
    make, network, options = CASES[case]
    if network.get("reference") and backend != "seq":
        pytest.skip("--reference is of backend seq")
    ds = make()
    options = {"epochs": 4, "batch_number": 8, **options}

    def fresh():
        return nn.Network(task=ds.task, seed=3, backend=backend, **network)

    peace = fresh()
    expected = nn.train(peace, ds, **options)
    peace.export(tmp_path / "peace.bin")
    saved = tmp_path / "c.ck"
    inside = 0
    for attempt in range(1000):
        net = fresh()
        stop = StopRequest()
        # making a network ready takes a GPU long
        if backend in ("seq", "omp") or attempt < 5:
            stop_in_an_epoch(net.engine, stop)
        try:
            result = nn.train(
                net, ds, **options, checkpoint=saved, resume="auto", stop=stop
            )
            break
        except Stopped:
            inside += position(saved)["row"] > 0
    net.export(tmp_path / "m.bin")
    data = (tmp_path / "m.bin").read_bytes()
    assert data == (tmp_path / "peace.bin").read_bytes()
    assert result["loss"] == expected["loss"]
    assert result["val_loss"] == expected["val_loss"]
    assert inside > 40 or backend in ("cuda", "cudnn")


def test_a_stop_in_the_middle_of_the_validation_is_exact_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["nn.train.member"], "VALIDATION_ROWS", 8)
    ds = dense_data()
    peace = nn.Network("5,8,1", task="binary")
    expected = nn.train(peace, ds, epochs=3)
    net = nn.Network("5,8,1", task="binary")
    stop = StopRequest()
    loss = net.engine.loss

    def interrupted(*arguments):
        if len(arguments[1]) and net.history["loss"] == []:
            stop.request(signal.SIGUSR1)
        return loss(*arguments)

    monkeypatch.setattr(net.engine, "loss", interrupted)
    with pytest.raises(Stopped):
        nn.train(net, ds, epochs=3, checkpoint=tmp_path / "c.ck", stop=stop)
    facts = position(tmp_path / "c.ck")
    assert facts["epoch"] == 0
    assert facts["row"] == expected["rows"]
    net = nn.Network("5,8,1", task="binary")
    result = nn.train(
        net, ds, epochs=3, checkpoint=tmp_path / "c.ck", resume=tmp_path / "c.ck"
    )
    assert result["val_loss"] == expected["val_loss"]
    assert result["loss"] == expected["loss"]
    assert net.vector.tobytes() == peace.vector.tobytes()


def test_ctrl_c_in_a_python_program_saves_too(tmp_path):
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))

    # before a training has begun, Ctrl-C would end the tests
    class Starts(nn.Callback):
        def epoch(self, epoch, *_):
            if epoch == 1:
                timer.start()

    net = nn.Network("5,64,64,1", task="binary")
    ds = dense_data(rows=2000)
    with pytest.raises(Stopped):
        nn.train(net, ds, epochs=10**6, checkpoint=tmp_path / "c.ck", callback=Starts())
    timer.join()
    assert position(tmp_path / "c.ck")["step"] > 0
