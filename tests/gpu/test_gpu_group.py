"""Several GPUs of one machine train as one: the same sums, the same end, whoever of
them fails."""

import json
import sys
import time

import numpy as np
import pytest
from support.command_line import ONE, argv, run, succeed
from support.distances import relative_distance
from support.epochs import ended, settings
from support.launches import all_end, kill, ours, process_ids, wait_for_checkpoint
from support.networks import fill, flattened, require

import nn
from nn.backends.cuda import engine as cuda
from nn.utils import NnError, UsageError
from nn.watch.observe import layer_times

DENSE = "50,2000,1500,1"
DROPPING = "1x12x12,conv8k3,conv16k3,maxpool2,dropout0.25,30,dropout0.5,3"
SMALL = "30,60,10,1"
FLAGS = ("--train", "--backend", "cuda", "--dtype", "float64", "--json", "-q")
KINDS = [("cuda", DENSE), ("cuda", DROPPING), ("cudnn", DROPPING), ("cuda", SMALL)]


def network(spec, gpus=(), distribute=None, backend="cuda", dtype="float64"):
    require(backend)
    return nn.Network(
        spec,
        "regression",
        backend=backend,
        dtype=dtype,
        gpus=gpus,
        distribute=distribute,
    )


def trained(net, rows, batch, optimizer="adam", **how):
    """(parameters, loss) after an epoch over `rows` random rows."""
    rates = list(np.linspace(0.01, 0, 9))
    falling = settings(optimizer=optimizer, batch=batch, rates=rates, seed=3)
    end = ended(net, *fill(net, rows), falling, **how)
    return end.parameters, end.losses[0]


def bits(*arguments, **how):
    parameters, loss = trained(*arguments, **how)
    return parameters.tobytes(), loss


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)]
)
@pytest.mark.parametrize(
    ("backend", "spec", "rows"),
    [
        ("cuda", DENSE, 500),
        ("cuda", DROPPING, 37),
        ("cudnn", DROPPING, 37),
        ("cuda", SMALL, 64),
        ("cuda", DROPPING, 1),
    ],
)
def test_one_batch_has_the_gradients_of_one_gpu(
    spec, rows, dtype, tolerance, gpus, backend
):
    """The median of several batches: a single one may exceed the tolerance where a relu
    turns on a rounding."""
    nets = [network(spec, which, None, backend, dtype) for which in ((), gpus)]
    apart = []
    for seed in range(5):
        gradients = []
        for net in nets:
            x, y = fill(net, rows, seed)
            records = x.reshape(rows, -1)
            gradients.append(net.engine.gradients(records, y, 5, seed))
        expected, actual = gradients
        assert np.linalg.norm(expected[1]) > 0
        assert actual[0] == pytest.approx(expected[0], rel=tolerance)
        distances = [
            relative_distance(b, a)
            for a, b in zip(expected[1:], actual[1:], strict=True)
        ]
        apart.append(distances)
    median = np.median(apart, axis=0)
    assert np.all(median < tolerance)


@pytest.mark.parametrize(
    ("backend", "spec", "rows", "batch", "optimizer"),
    [
        ("cuda", DENSE, 701, 100, "adam"),
        ("cuda", DROPPING, 333, 37, "adam"),
        ("cudnn", DROPPING, 333, 37, "adam"),
        ("cuda", DROPPING, 700, 64, "sgd"),
        ("cuda", DROPPING, 40, 3, "adam"),
        ("cuda", SMALL, 63, 31, "adam"),
    ],
)
def test_an_epoch_ends_where_one_gpu_ends(
    spec, rows, batch, optimizer, gpus, distribute, backend
):
    """Whether mirrored or central: they end alike."""
    expected = trained(network(spec), rows, batch, optimizer)
    net = network(spec, gpus, distribute, backend)
    gradients = trained(net, rows, batch, optimizer)
    assert relative_distance(gradients[0], expected[0]) < 1e-9
    assert gradients[1] == pytest.approx(expected[1], rel=1e-9)


@pytest.mark.parametrize(("backend", "spec"), KINDS)
def test_one_gpu_mirrored_is_one_gpu_bit_for_bit(spec, backend):
    ways = (), ((0,), "mirrored"), ((0,), "central")
    assert (
        len(
            {
                bits(network(spec, *how, backend=backend, dtype="float32"), 500, 64)
                for how in ways
            }
        )
        == 1
    )


@pytest.mark.parametrize(("backend", "spec"), KINDS)
def test_every_run_gives_the_same_bits(spec, gpus, distribute, backend):
    assert (
        len(
            {
                bits(network(spec, gpus, distribute, backend, "float32"), 777, 64)
                for _ in range(2)
            }
        )
        == 1
    )


def test_an_epoch_that_stops_and_data_that_are_streamed_have_the_same_bits(
    gpus, distribute, monkeypatch
):
    monkeypatch.setattr(cuda, "FIRST_BATCHES", 3)
    nets = {
        pieces: network(DROPPING, gpus, distribute, dtype="float32")
        for pieces in (1, 2)
    }
    assert len({bits(net, 777, 64, pieces=pieces) for pieces, net in nets.items()}) == 1
    monkeypatch.setattr("nn.backends.cuda.data.STREAMED_BYTES", 20_000)
    for spec in (SMALL, DROPPING):
        assert (
            len(
                {
                    bits(network(spec, gpus, distribute), 1003, 32, room=room)
                    for room in (None, 1000)
                }
            )
            == 1
        ), spec


@pytest.mark.parametrize(("backend", "spec"), KINDS)
def test_predictions_and_losses_are_those_of_one_gpu(spec, gpus, backend):
    single, several = nets = [
        network(spec, which, None, backend, "float32") for which in ((), gpus)
    ]
    for net in nets:
        x, y = fill(net, 5000)
    predictions = several.predict(x)
    assert relative_distance(predictions, single.predict(x)) < 1e-6
    expected = single.predict(x[:3])
    predictions = several.predict(x[:3])
    assert np.array_equal(predictions, expected)
    rng = np.random.default_rng(0)
    rows = rng.permutation(5000)[:4001]
    losses = [
        net.engine.loss(net.engine.load(x.reshape(5000, -1), y), rows) for net in nets
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_the_command_line_trains_and_tests_on_several_gpus(
    gpus, distribute, datasets, tmp_path
):
    count = str(len(gpus))
    figures = {}
    for name, flags in (
        ("one", ()),
        ("several", ("--gpus", count, "--distribute", distribute)),
    ):
        model = tmp_path / f"{name}.bin"
        data = (
            "--dataset",
            datasets / "CC.csv",
            *argv(f"--model {model} --dtype float64 --backend cuda --json"),
        )
        output = succeed(*ONE, *data, "--epochs", 3, *flags)
        trained = output.json
        output = succeed(
            "--test", "--model", model, "--backend", "cuda", "--json", *flags[:2]
        )
        tested = output.json
        figures[name] = (
            trained["loss"] + trained["val_loss"] + [tested["f1"], tested["roc_auc"]]
        )
    assert figures["several"] == pytest.approx(figures["one"], rel=1e-9)


def test_a_process_for_each_gpu_trains_as_one_process_does(
    mpich, gpus, distribute, datasets, tmp_path
):
    flags = (
        *FLAGS,
        "--dataset",
        datasets / "CC.csv",
        *argv(f"--epochs 3 --distribute {distribute}"),
    )
    done = mpich.train(len(gpus), *flags, "--model", tmp_path / "ranks.bin")
    assert done.stderr == ""
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["ranks"] == len(gpus)  # one object, of rank 0
    succeed(*flags, "--model", tmp_path / "threads.bin", "--gpus", len(gpus))
    nets = [
        nn.Network.load(tmp_path / f"{name}.bin", backend="cuda")
        for name in ("ranks", "threads")
    ]
    assert relative_distance(*(flattened(net.parameters()) for net in nets)) < 1e-9


def test_a_process_that_is_killed_takes_the_others_along(
    mpich, gpus, datasets, tmp_path
):
    """Their GPUs wait in NCCL for one that is no more."""
    flags = (
        *FLAGS,
        "--dataset",
        datasets / "CC.csv",
        "--epochs",
        10**6,
        "--distribute",
        "mirrored",
        "--model",
        tmp_path / "m.bin",
        "--checkpoint",
        tmp_path / "m.ck",
    )
    program = (
        "import os, sys, nn.cli; from nn import cluster; rank = cluster.launch().rank\n"
    )
    program += f"os.write(1, f'{{rank}} {{os.getpid()}}\\n'.encode()); sys.exit(nn.cli.main({[*map(str, flags)]!r}))"
    with mpich.started(len(gpus), sys.executable, "-c", program) as launcher:
        pids = process_ids(launcher, len(gpus))
        wait_for_checkpoint(launcher, tmp_path / "m.ck")
        kill(pids[-1])
        launcher.communicate(timeout=30)
        assert all_end(pids)
    assert launcher.returncode != 0
    assert not (tmp_path / "m.bin").exists()


def test_more_ranks_than_gpus_are_refused(mpich, gpu, datasets, tmp_path):
    ranks = gpu.cuda.runtime.getDeviceCount() + 1
    began = time.monotonic()
    done = mpich.train(
        ranks,
        *FLAGS,
        "--dataset",
        datasets / "CC.csv",
        "--distribute",
        "mirrored",
        "--model",
        tmp_path / "m.bin",
    )
    assert done.returncode == 2
    assert time.monotonic() - began < 60
    if ranks == 2:
        why = "it uses the same GPU as rank 0"
    else:
        why = "its host has fewer GPUs than ranks"
    message = f"nn: rank {ranks - 1}: {why}; start one rank per GPU, and list the GPUs of each host with --gpus"
    assert ours(done.stderr) == [message]


def test_memory_that_runs_out_on_one_gpu_ends_all_with_one_line(
    gpus, check_little_memory
):
    check_little_memory("cuda", gpus[-1], gpus=gpus)


def test_a_member_that_fails_while_others_compute_ends_all(gpus, monkeypatch):
    """The others' GPUs wait in NCCL for what never comes."""
    net = network(SMALL, gpus)
    trained(net, 500, 32)
    last = net.engine.engines[-1]

    def fail(*_):
        raise NnError("this GPU is no more")

    monkeypatch.setattr(last._runners[next(iter(last._runners))], "run", fail)
    with pytest.raises(NnError, match="this GPU is no more"):
        trained(net, 500, 32)
    monkeypatch.undo()
    again = trained(net, 500, 32)
    expected = trained(network(SMALL), 500, 32)[0]
    assert relative_distance(again[0], expected) < 1e-9


def test_gpus_that_are_not_there_are_refused(gpu, datasets, tmp_path):
    result = run(
        "--train",
        "--dataset",
        datasets / "CC.csv",
        "--model",
        tmp_path / "m.bin",
        "--gpus",
        "63",
    )
    assert result.code == 2
    assert "this machine has" in result.err
    assert result.err.count("\n") == 1
    net = nn.Network(SMALL, "binary")
    with pytest.raises(UsageError, match="--gpus: no GPU 99, this machine has "):
        cuda.CudaEngine("cuda", net.layers, "bce", "float32", device=99)


def test_a_group_says_what_it_is_and_what_its_members_do(gpus):
    net = network(DENSE, gpus)
    net.engine.record(2)
    trained(net, 700, 256)
    description = net.engine.describe()
    assert f"cuda ({len(gpus)} x " in description
    assert ", mirrored)" in net.engine.describe()
    batches = net.engine.recorded()
    assert len(batches) == 2
    for steps in batches:
        expected = {
            f"gpu {number}{suffix}" for number in gpus for suffix in ("", " nccl")
        }
        assert {step.lane for step in steps} == expected
        messages = [step for step in steps if step.lane.endswith("nccl")]
        assert {step.name for step in messages} == {"communication"}
        for step in messages:
            assert step.end > step.begin
    times = layer_times(net.layers, 256, batches)
    assert times["communication_ms"] >= 0
    assert times["batch_ms"] > 0
