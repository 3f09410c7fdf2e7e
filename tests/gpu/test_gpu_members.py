"""Several networks shared out among GPUs, of one process or of a rank each: the bytes
of one GPU."""

import json
import os
import signal
import sys
import time

import numpy as np
import pytest
from support.command_line import argv, succeed
from support.launches import SECONDS, find_mpi, ours, rank_process, wait_for_checkpoint
from support.networks import require

import nn
from nn.backends.cuda.pack import CudaPack
from nn.backends.member import Turns
from nn.watch.callbacks import Callback

DENSE = "30,60,10,1"  # a block of the GPU each
DROPPING = "30,64,dropout0.3,200,50,1"  # members take turns
CONV = "1x12x12,conv8k3,maxpool2,dropout0.25,20,3"
EARLY = ["--epochs", 4, "--validation", 0.3, "--monitor", "roc_auc", "--patience", 2]
WAYS = {
    "networks": [
        *argv(f"--networks 5 --layers {DENSE}"),
        *EARLY,
        *argv("--refit --class_weight balanced"),
    ],
    "turns": ["--networks", 3, "--layers", DROPPING, "--epochs", 2],
    "folds": ["--folds", 4, "--layers", DENSE, *EARLY, "--threshold", "f1"],
    "vary": [
        *argv(f"--networks 23 --layers {DENSE}"),
        *EARLY,
        "--vary",
        "hidden=7|60-10,learning_rate=1e-3..1e-2",
    ],
}
TIMES = ("seconds", "us_per_batch", "ranks", "model")


@pytest.fixture
def gpus(gpus):
    return len(gpus)


@pytest.fixture
def flags(datasets):
    return ["--train", "--dataset", datasets / "CC.csv", "--backend", "cuda", "--json"]


def timeless(figures):
    return {name: value for name, value in figures.items() if name not in TIMES}


@pytest.mark.parametrize("way", WAYS)
def test_gpus_of_a_process_and_a_rank_for_each_train_the_networks_of_one(
    way, flags, gpus, tmp_path
):
    command = [*flags, *WAYS[way], "--model", tmp_path / "m.bin"]
    model = tmp_path / "m.bin"
    report = succeed(*command).json
    expected = model.read_bytes()
    output = succeed(*command, "--gpus", gpus)
    assert timeless(output.json) == timeless(report)
    assert model.read_bytes() == expected, "GPUs of a process"
    # else there are more ranks than networks
    if gpus <= report["networks"] or "trials" in report:
        done = find_mpi("mpich").train(gpus, *command, "--distribute", "mirrored")
        assert ours(done.stderr) == []
        assert done.returncode == 0
        several = json.loads(done.stdout)
        assert several["ranks"] == gpus
        assert timeless(several) == timeless(report)
        assert model.read_bytes() == expected, "ranks"


@pytest.mark.parametrize("name", ["cuda", "cudnn"])
def test_networks_of_images_on_several_gpus_have_the_bytes_of_one(name, gpus, tmp_path):
    require(name)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 256, (500, 1, 12, 12), np.uint8)
    indices = np.arange(500, dtype=np.int32)
    ds = nn.Dataset(draws, indices % 3, "multiclass", ["a", "b", "c"])
    models = []
    for several in ((), gpus):
        net = nn.Network(CONV, ds.task, backend=name, gpus=several)
        nn.train(net, ds, epochs=2, networks=5, batch_number=32)
        net.export(tmp_path / "m.bin")
        models.append((tmp_path / "m.bin").read_bytes())
    assert models[0] == models[1]
    assert len({member.gpus for member in net.members}) == gpus


def test_the_gpus_compute_at_the_same_time(gpus, monkeypatch):
    """Some epoch begins on one before that of another has ended."""
    spans = []
    for kind in (CudaPack, Turns):

        def timed(self, jobs, usual=kind.epoch):
            began = time.perf_counter()
            usual(self, jobs)
            spans.append((self._engine.device, began, time.perf_counter()))

        monkeypatch.setattr(kind, "epoch", timed)
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(20_000, 30))
    x = draws.astype(np.float32)
    ds = nn.Dataset(x, (x[:, 0] > 0).astype(np.int32), "binary", ["a", "b"])
    net = nn.Network(DENSE, "binary", backend="cuda", gpus=gpus)
    nn.train(net, ds, epochs=5, networks=8)
    expected = set(range(gpus))
    assert {device for device, *_ in spans} == expected
    assert any(a[0] != b[0] and a[1] < b[1] < a[2] for a in spans for b in spans)


def test_several_gpus_that_are_stopped_go_on_with_any_number(gpus, flags, tmp_path):
    """To the bytes of one GPU that was not stopped."""
    ds = nn.load(flags[2])

    class AfterEpoch(Callback):
        def epoch(self, epoch, *_):
            if epoch == 3:
                stop.request(signal.SIGTERM)

    def trained(gpus, **settings):
        net = nn.Network(DENSE, ds.task, backend="cuda", gpus=gpus)
        nn.train(net, ds, epochs=6, networks=5, validation=0.3, patience=5, **settings)
        net.export(tmp_path / "m.bin")
        return (tmp_path / "m.bin").read_bytes()

    expected = trained(())
    for first, then in ((gpus, ()), ((), gpus), (gpus, gpus)):
        stop = nn.StopRequest()
        kept = tmp_path / f"{first}{then}.ck"
        with pytest.raises(nn.Stopped):
            trained(first, checkpoint=kept, stop=stop, callback=AfterEpoch())
        assert trained(then, resume=kept) == expected


def test_a_signal_to_one_rank_stops_all_gpus(mpich, gpus, flags, tmp_path):
    command = [
        *flags,
        *argv(f"--layers {DENSE} --networks 4 --epochs 100000 --distribute mirrored"),
        "--model",
        tmp_path / "m.bin",
        "--checkpoint",
        tmp_path / "c.ck",
        "--quiet",
    ]
    with mpich.started(gpus, sys.executable, "-m", "nn", *command) as launcher:
        wait_for_checkpoint(launcher, tmp_path / "c.ck")
        pid = rank_process(launcher, mpich, gpus - 1)
        os.kill(pid, signal.SIGTERM)
        _, err = launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == 75
    assert "stopped by SIGTERM: the state is saved" in err
    assert not (tmp_path / "m.bin").exists()
