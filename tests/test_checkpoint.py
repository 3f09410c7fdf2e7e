"""Checkpoints: a training that was killed, stopped or resumed ends in the same bytes as one left in peace."""

import csv
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from support.command_line import environment, position, read_until, run, start, succeed, write_two_classes
from support.effort import EFFORT

import nn
import nn.commands.train
from nn.ds import Dataset
from nn.files import checkpoint as checkpoints
from nn.utils import DataError, Stopped, StopRequest, UsageError
from nn.watch.callbacks import Callback

KILLS = 13 * EFFORT  # of each of four trainings
DENSE = ["--layers", "2,48,dropout0.2,16,1"]
CONV = ["--layers", "1x8x8,conv4k3p1,maxpool2,dropout0.25,16,dropout0.5,3"]
SMALL = ["--train", "--dataset", "two.csv", "--layers", "2,4,1", "--epochs", 3]

# saves after every epoch, however short, so that kills hit the writing too
SAVING_EACH_EPOCH = """
import sys, nn.files.checkpoint, nn.cli
nn.files.checkpoint.LEAST_SECONDS = 0
sys.exit(nn.cli.main())
"""


@pytest.fixture
def folder(folder):
    write_two_classes(folder / "two.csv", rows=2000)
    x, y = images(500)
    np.savez(folder / "images.npz", x=x, y=y)
    return folder


def images(rows):
    """Noise of 8x8 pixels with a bright stripe, whose place is the class."""
    numbers = np.random.default_rng(1)
    x = numbers.integers(0, 100, (rows, 1, 8, 8), dtype=np.uint8)
    y = np.arange(rows, dtype=np.int32) % 3
    x[np.arange(rows), 0, 2 * y + 1] += 80
    return x, y


def start_saving_each_epoch(*arguments):
    """`nn ARGUMENTS` as a process of its own that takes a checkpoint after every epoch."""
    command = [sys.executable, "-c", SAVING_EACH_EPOCH, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment(), **pipes)


def wait_for(process, timeout=30):
    """(exit code, what was left of stderr)"""
    try:
        _, err = process.communicate(timeout=timeout)
        return process.returncode, err
    finally:
        process.kill()
        process.wait()


# ---------------------------------------------------------------- killed and stopped from outside


@pytest.mark.parametrize("backend", ["seq", "omp"])
@pytest.mark.parametrize(
    "dataset, layers, epochs", [("two.csv", DENSE, 250), ("images.npz", CONV, 200)], ids=["dense", "conv"]
)
def test_a_training_killed_at_random_moments_ends_in_the_same_bytes(folder, dataset, layers, epochs, backend):
    moments = random.Random(f"{dataset} {backend}")
    given = ["--train", "--dataset", dataset, *layers, "--epochs", epochs, "--backend", backend]
    succeed(*given, "--model", "peace.bin")
    given += ["--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"]
    killed = advanced = 0
    while killed < KILLS:
        before = position("c.ck") if os.path.exists("c.ck") else None
        process = start_saving_each_epoch(*given)
        try:
            read_until(process, "training on")
            time.sleep(moments.uniform(0, 0.2))
        finally:
            process.kill()
            process.communicate()
        if process.returncode == 0:  # it was over sooner: begin again
            assert (folder / "m.bin").read_bytes() == (folder / "peace.bin").read_bytes()
            (folder / "m.bin").unlink()
            (folder / "c.ck").unlink()
            continue
        assert process.returncode == -signal.SIGKILL
        killed += 1
        advanced += before is not None and position("c.ck")["epoch"] > before["epoch"]
    assert advanced >= 2  # the kills were no mere restarts
    code, err = wait_for(start_saving_each_epoch(*given))
    assert code == 0, err
    assert (folder / "m.bin").read_bytes() == (folder / "peace.bin").read_bytes()


@pytest.mark.parametrize(
    "kind, backend, rows",
    [("dense", "seq", 50000), ("dense", "omp", 300000), ("conv", "seq", 20000), ("conv", "omp", 100000)],
)
def test_a_signal_in_the_middle_of_an_epoch_saves_the_state_where_it_is(folder, kind, backend, rows):
    """Epochs long enough to be hit inside, stopped again and again until the training is over."""
    ds = dense_data(rows=rows, inputs=2) if kind == "dense" else image_data(rows)
    np.savez("data.npz", x=ds.x, y=ds.y)
    moments = random.Random(f"{kind} {backend}")
    given = ["--train", "--dataset", "data.npz", *(DENSE if kind == "dense" else CONV), "--backend", backend]
    given += ["--epochs", 4, "--batch_number", 1]
    succeed(*given, "--model", "peace.bin")
    given += ["--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"]
    codes, inside = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: 130}, 0
    for signum, code in codes.items():
        process = start(*given)
        read_until(process, "training on")
        time.sleep(moments.uniform(0, 0.2))
        process.send_signal(signum)
        found, err = wait_for(process, timeout=10)
        if found == 0:
            break
        assert found == code, err
        last = err.splitlines()[-1]
        assert last == (
            f"nn: stopped by {signal.Signals(signum).name}: the state is saved in c.ck, "
            "continue with --resume auto, m.bin was not written"
        )
        inside += position("c.ck")["row"] > 0
    assert inside
    succeed(*given)
    assert (folder / "m.bin").read_bytes() == (folder / "peace.bin").read_bytes()
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
def test_a_signal_while_the_data_is_read_loses_nothing(folder, monkeypatch, signum, saving, code):
    def endless_reading(*_):
        os.kill(os.getpid(), signum)
        time.sleep(60)

    monkeypatch.setattr(nn.commands.train, "_load_training_data", endless_reading)
    (folder / "c.ck").write_bytes(b"as it was")
    result = run(*SMALL, "--model", "m.bin", *(["--checkpoint", "c.ck"] if saving else []))
    assert result.code == code
    name = signal.Signals(signum).name
    assert result.err == f"nn: stopped by {name}: training had not begun, m.bin was not written\n"
    assert (folder / "c.ck").read_bytes() == b"as it was"
    assert not (folder / "m.bin").exists()


def test_a_second_signal_leaves_at_once_and_the_old_checkpoint_stays(folder):
    """The first batch of this network lasts longer than anyone wants to wait."""
    (folder / "c.ck").write_bytes(b"as it was")
    given = ["--layers", "2,3000,3000,1", "--batch_number", 1600, "--backend", "seq", "--checkpoint", "c.ck"]
    process = start("--train", "--dataset", "two.csv", "--model", "m.bin", *given)
    try:
        read_until(process, "training on")
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        assert process.poll() is None  # still in its batch
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 143
    finally:
        process.kill()
        process.communicate()
    assert (folder / "c.ck").read_bytes() == b"as it was"


# ---------------------------------------------------------------- stopped after every few batches


def dense_data(task="binary", rows=150, inputs=5):
    x = np.random.default_rng(2).normal(size=(rows, inputs))
    if task == "regression":
        return Dataset(x, x[:, :2] @ np.array([[1.0, 2.0], [3.0, -1.0]]), task)
    return Dataset(x, (x[:, 0] > x[:, 1]).astype(np.int32), task, classes=["0", "1"])


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
    "plain sgd": (dense_data, {"layers": "5,8,1", "dtype": "float64"}, {"optimizer": "sgd", "holdout": 0.0}),
    "reference": (
        dense_data,
        {"layers": "5,4,1", "reference": True},
        {"learning_rate": 0.1, "batch_number": 7},
    ),
    "regression": (lambda: dense_data("regression"), {"layers": "5,8,2"}, {"schedule": "cosine"}),
    "conv": (image_data, {"layers": CONV[1]}, {}),
}


def stop_in_an_epoch(engine, stop):
    """From now on an epoch ends after its first batch; on a GPU, which looks before one, after some."""
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
            threading.Thread(target=stop_after_some, args=(progress, progress.row), daemon=True).start()
        epoch(data, order, settings, progress)

    engine.epoch = interrupted


@pytest.mark.parametrize("backend", ["seq", "omp", "cuda", "cudnn"])
@pytest.mark.parametrize("case", CASES)
def test_a_training_stopped_after_every_few_batches_ends_in_the_same_bytes(tmp_path, case, backend):
    make, network, options = CASES[case]
    if network.get("reference") and backend != "seq":
        pytest.skip("--reference is of backend seq")
    if backend in ("cuda", "cudnn"):
        from nn.backends.cuda import device

        reason = device.missing()
        if reason:
            pytest.skip(f"no CUDA device: {reason}")
    ds = make()
    options = {"epochs": 4, "batch_number": 8, **options}

    def fresh():
        return nn.Network(task=ds.task, seed=3, backend=backend, **network)

    peace = fresh()
    expected = nn.train(peace, ds, **options)
    peace.export(tmp_path / "peace.bin")
    saved, inside = tmp_path / "c.ck", 0
    for attempt in range(1000):
        net, stop = fresh(), StopRequest()
        if backend in ("seq", "omp") or attempt < 5:  # making a network ready takes a GPU long
            stop_in_an_epoch(net.engine, stop)
        try:
            result = nn.train(net, ds, **options, checkpoint=saved, resume="auto", stop=stop)
            break
        except Stopped:
            inside += position(saved)["row"] > 0
    net.export(tmp_path / "m.bin")
    assert (tmp_path / "m.bin").read_bytes() == (tmp_path / "peace.bin").read_bytes()
    assert result["loss"] == expected["loss"] and result["val_loss"] == expected["val_loss"]
    assert inside > 40 or backend in ("cuda", "cudnn")


def test_a_stop_in_the_middle_of_the_validation_is_exact_too(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["nn.train.rows"], "VALIDATION_ROWS", 8)
    ds = dense_data()
    peace = nn.Network("5,8,1", task="binary")
    expected = nn.train(peace, ds, epochs=3)
    net, stop = nn.Network("5,8,1", task="binary"), StopRequest()
    loss = net.engine.loss

    def interrupted(*arguments):
        if len(arguments[1]) and net.history["loss"] == []:
            stop.request(signal.SIGUSR1)
        return loss(*arguments)

    monkeypatch.setattr(net.engine, "loss", interrupted)
    with pytest.raises(Stopped):
        nn.train(net, ds, epochs=3, checkpoint=tmp_path / "c.ck", stop=stop)
    facts = position(tmp_path / "c.ck")
    assert (facts["epoch"], facts["row"]) == (0, expected["rows"])
    net = nn.Network("5,8,1", task="binary")
    result = nn.train(net, ds, epochs=3, checkpoint=tmp_path / "c.ck", resume=tmp_path / "c.ck")
    assert result["val_loss"] == expected["val_loss"] and result["loss"] == expected["loss"]
    for name, array in peace.parameters().items():
        np.testing.assert_array_equal(net.parameters()[name], array)


def test_ctrl_c_in_a_python_program_saves_too(tmp_path):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(Stopped):
        nn.train(
            nn.Network("5,64,64,1", task="binary"),
            dense_data(rows=2000),
            epochs=10**6,
            checkpoint=tmp_path / "c.ck",
        )
    timer.join()
    assert position(tmp_path / "c.ck")["step"] > 0


# ---------------------------------------------------------------- files and figures


@pytest.fixture
def saved(folder):
    """A checkpoint at the end of a training, and the model that it wrote."""
    succeed(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck", "-q")
    return folder


def resume(*more, file="c.ck"):
    return run(*SMALL, "--model", "again.bin", "--resume", file, *more)


def test_the_model_does_not_show_that_checkpoints_were_taken(saved):
    succeed(*SMALL, "--model", "without.bin")
    assert (saved / "m.bin").read_bytes() == (saved / "without.bin").read_bytes()
    assert sorted(path.name for path in saved.iterdir()) == [
        "c.ck",
        "images.npz",
        "m.bin",
        "two.csv",
        "without.bin",
    ]


def test_resuming_a_finished_training_writes_its_model_again(saved):
    before = (saved / "c.ck").read_bytes()
    first = succeed(*SMALL, "--model", "first.bin", "--json").json
    result = resume("--json", "--checkpoint", "c.ck")
    assert result.code == 0, result.err
    assert (saved / "again.bin").read_bytes() == (saved / "m.bin").read_bytes()
    assert (saved / "c.ck").read_bytes() == before
    assert result.json["loss"] == first["loss"] and result.json["val_loss"] == first["val_loss"]
    assert result.json["us_per_batch"] > 0


def test_resume_auto_starts_afresh_where_there_is_no_checkpoint(folder):
    result = run(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto")
    assert result.code == 0 and "going on" not in result.err
    assert position("c.ck")["epoch"] == 3


def test_checkpoint_every_counts_epochs(folder, monkeypatch):
    monkeypatch.setattr(checkpoints, "LEAST_SECONDS", 0)
    kept = []

    def noted(self, run, at, vectors):
        kept.append(at.epoch)
        self._begun = time.monotonic()

    monkeypatch.setattr(checkpoints.Checkpoint, "save", noted)
    given = ["--dataset", "two.csv", "--model", "m.bin", "--epochs", 7, "--checkpoint", "c.ck"]
    succeed("--train", *given, "--checkpoint_every", 3)
    assert kept == [3, 6, 7]
    kept.clear()
    succeed("--train", *given)
    assert kept == [1, 2, 3, 4, 5, 6, 7]
    kept.clear()
    monkeypatch.setattr(checkpoints, "LEAST_SECONDS", 1000)
    succeed("--train", *given)
    assert kept == [1, 7]  # the first, and the one at the end


def test_the_history_goes_on_where_it_was(folder):
    stop = StopRequest()

    class Stopping(Callback):
        def epoch(self, epoch, *_):
            if epoch == 2:
                stop.request(signal.SIGTERM)

    net, ds = nn.Network("2,4,1", task="binary"), nn.load("two.csv")
    with pytest.raises(Stopped):
        nn.train(net, ds, epochs=5, checkpoint="c.ck", callback=Stopping(), stop=stop)
    given = ["--train", "--dataset", "two.csv", "--layers", "2,4,1", "--epochs", 5, "--history", "h.csv"]
    succeed(*given, "--model", "m.bin", "--resume", "c.ck")
    with open("h.csv") as file:
        resumed = [(line["epoch"], line["loss"], line["val_loss"]) for line in csv.DictReader(file)]
    succeed(*given, "--model", "peace.bin")
    with open("h.csv") as file:
        assert resumed == [(line["epoch"], line["loss"], line["val_loss"]) for line in csv.DictReader(file)]
    assert len(resumed) == 5


@pytest.mark.parametrize("name", ["c.ck", "m.bin"])
def test_what_killed_runs_left_beside_the_file_goes_away(name, folder):
    old, new = folder / f".{name}.abc.tmp", folder / f".{name}.def.tmp"
    other = folder / f".x{name}.abc.tmp"
    for path in (old, new, other):
        path.write_bytes(b"half a file")
    for path in (old, other):
        os.utime(path, (time.time() - 3600,) * 2)
    succeed(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck")
    assert not old.exists() and new.exists() and other.exists()


def test_a_checkpoint_that_would_be_lost_is_told_of(saved):
    result = run(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck")
    assert result.code == 0
    assert "nn: warning: c.ck will be replaced; --resume auto would go on from it" in result.err.splitlines()


def test_a_full_disk_ends_no_training_and_the_old_checkpoint_stays(folder):
    """The model is smaller than the state, which has no room."""
    (folder / "c.ck").write_bytes(b"as it was")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))

    given = ["--train", "--dataset", "two.csv", "--layers", "2,400,1", "--epochs", 3]
    process = start(*given, "--model", "m.bin", "--checkpoint", "c.ck", preexec_fn=small_files)
    code, err = wait_for(process)
    assert code == 73
    *_, warning, last = (line for line in err.splitlines() if line.startswith("nn: "))
    assert warning == "nn: warning: c.ck: cannot write: File too large; the training goes on"
    assert last == "nn: c.ck: cannot write: File too large; m.bin is written"
    assert (folder / "c.ck").read_bytes() == b"as it was"
    assert sorted(path.name for path in folder.iterdir()) == ["c.ck", "images.npz", "m.bin", "two.csv"]
    succeed(*given, "--model", "n.bin")
    assert (folder / "m.bin").read_bytes() == (folder / "n.bin").read_bytes()


def test_a_state_that_cannot_be_written_leaves_the_network_beside_the_model(folder):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150000, 150000))

    given = ["--train", "--dataset", "two.csv", "--layers", "2,4000,1", "--epochs", 1000000]
    process = start(*given, "--model", "m.bin", "--checkpoint", "c.ck", preexec_fn=small_files)
    read_until(process, "cannot write")
    process.send_signal(signal.SIGTERM)
    code, err = wait_for(process)
    assert code == 73
    found = "stopped by SIGTERM: c.ck: cannot write: File too large; the unfinished network is in m.bin.part"
    assert err.splitlines()[-1] == f"nn: {found}"
    succeed("--info", "--model", "m.bin.part")


# ---------------------------------------------------------------- wrong use


@pytest.mark.parametrize(
    "flag, value",
    [
        ("epochs", 4), ("batch_number", 16), ("learning_rate", 0.01), ("optimizer", "sgd"),
        ("weight_decay", 0.5), ("schedule", "constant"), ("scaling", "none"), ("holdout", 0.1),
        ("threshold", 0.4), ("layers", "2,5,1"), ("loss", "mse"), ("init", "uniform"), ("seed", 1),
        ("dtype", "float64"), ("backend", "seq"), ("target", 2),
    ],
)  # fmt: skip
def test_another_value_of_a_flag_that_changes_numbers_is_named(saved, flag, value):
    result = resume(f"--{flag}", value)
    assert result.code == 2
    assert result.err.count("\n") == 1 or flag == "scaling"
    assert result.err.splitlines()[-1].startswith(f"nn: --{flag}: c.ck was written with ")
    assert not (saved / "again.bin").exists()


def test_other_data_is_refused(saved):
    write_two_classes(saved / "two.csv", rows=1999)
    result = resume()
    assert result.code == 2
    assert result.err.splitlines()[-1].startswith(
        "nn: --dataset: c.ck was written while training on other data"
    )


@pytest.mark.parametrize(
    "flags, code, words",
    [
        (["--resume", "auto"], 2, "--resume auto needs --checkpoint FILE"),
        (["--checkpoint_every", 2], 2, "--checkpoint_every needs --checkpoint FILE"),
        (
            ["--checkpoint", "c.ck", "--checkpoint_every", 0],
            2,
            "--checkpoint_every 0: expected a whole number",
        ),
        (["--checkpoint", "m.bin"], 2, "--checkpoint m.bin: the same file as --model"),
        (["--checkpoint", "./two.csv"], 2, "./two.csv is both input and output"),
        (["--resume", "none.ck"], 66, "none.ck: no such checkpoint; leave out --resume to start afresh"),
        (["--checkpoint", "none/c.ck"], 73, "none/c.ck: cannot write: no folder none"),
        (["--checkpoint", "."], 73, ".: is a folder"),
    ],
)
def test_wrong_use_is_told_in_one_line_before_the_data_is_read(folder, flags, code, words):
    (folder / "two.csv").write_text("no data at all")
    result = run(*SMALL, "--model", "m.bin", *flags)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"nn: {words}") and result.err.count("\n") == 1


def test_checkpoint_flags_say_nothing_to_other_modes(saved):
    result = run("--test", "--model", "m.bin", "--checkpoint", "c.ck")
    assert result.code == 0 and "--checkpoint has no effect with --test" in result.err


# ---------------------------------------------------------------- damaged files


def refused(data: bytes) -> str:
    """The line with which a file of these bytes is refused as a checkpoint."""
    with open("bad.ck", "wb") as file:
        file.write(data)
    result = resume("-q", file="bad.ck")
    assert result.code == 65, result.err
    assert result.err.startswith("nn: bad.ck: ") and result.err.count("\n") == 1
    return result.err


def test_every_changed_bit_and_every_cut_is_noticed(saved):
    whole = (saved / "c.ck").read_bytes()
    places = random.Random(0)
    for _ in range(60):
        at, bit = places.randrange(len(whole)), 1 << places.randrange(8)
        refused(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
    for _ in range(20):
        refused(whole[: places.randrange(len(whole))])
    refused(whole + b"\0")


def test_what_is_no_checkpoint_is_refused(saved):
    assert "without the metadata of a checkpoint" in refused((saved / "m.bin").read_bytes())
    assert "not a checkpoint" in refused(b"epoch,loss\n1,2\n")
    assert "empty" in refused(b"")
    result = resume(file=".")
    assert result.code == 65 and "folder" in result.err
    result = run("--test", "--model", "c.ck")
    assert result.code == 65 and "without the metadata of a model file" in result.err


def rewritten(path, facts=None, **arrays):
    """The checkpoint with other facts and arrays, and a SHA-256 that fits: what only a hand writes."""
    import safetensors.numpy

    old = position(path)
    with open(path, "rb") as file:
        tensors = safetensors.numpy.load(file.read())
    tensors = {name: array for name, array in {**tensors, **arrays}.items() if array is not None}
    checkpoints._FILE.save("made.ck", tensors, {**old, **(facts or {})})
    with open("made.ck", "rb") as file:
        return file.read()


@pytest.mark.parametrize(
    "facts",
    [
        {"epoch": 4}, {"epoch": -1}, {"epoch": "3"}, {"epoch": 2}, {"row": 1}, {"row": 10**30}, {"step": 5},
        {"config": None}, {"data_sha256": 5}, {"engine": None}, {"format": 2},
    ],
)  # fmt: skip
def test_facts_that_cannot_be_are_refused(saved, facts):
    refused(rewritten("c.ck", facts))


@pytest.mark.parametrize(
    "arrays",
    [
        {"parameters": np.zeros(3, np.float32)}, {"parameters": np.zeros(17, np.float64)}, {"moment1": None},
        {"more": np.zeros(3)}, {"losses": np.zeros(2)}, {"loss": np.zeros(0)},
        {"loss": np.zeros(1, np.float16)},
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(saved, arrays):
    refused(rewritten("c.ck", **arrays))


@pytest.mark.parametrize(
    "arrays",
    [
        {"order.rows": np.zeros(150, np.int64)},
        {"order.rows": np.arange(1, 151)},
        {"order.random": np.full(34, 2**31, np.uint32)},
    ],
)
def test_an_order_that_would_read_beyond_the_rows_is_refused(tmp_path, monkeypatch, arrays):
    monkeypatch.chdir(tmp_path)
    ds, options = dense_data(), {"epochs": 2, "batch_number": 7}
    nn.train(nn.Network("5,4,1", task="binary", reference=True), ds, **options, checkpoint="c.ck")
    rewritten("c.ck", **arrays)
    with pytest.raises(DataError, match="damaged checkpoint"):
        nn.train(nn.Network("5,4,1", task="binary", reference=True), ds, **options, resume="made.ck")


def test_data_in_memory_is_known_by_its_numbers(tmp_path):
    ds = dense_data()
    nn.train(nn.Network("5,4,1", task="binary"), ds, epochs=2, checkpoint=tmp_path / "c.ck")
    ds.x[7, 3] += 1e-9
    with pytest.raises(UsageError, match="other data"):
        nn.train(nn.Network("5,4,1", task="binary"), ds, epochs=2, resume=tmp_path / "c.ck")


def test_another_processor_is_a_warning(saved, monkeypatch):
    (saved / "c.ck").write_bytes(rewritten("c.ck", {"engine": "omp (abacus)"}))
    result = resume()
    assert result.code == 0
    assert "nn: warning: c.ck was written by omp (abacus), this is omp (" in result.err
