"""Checkpoint files: what resuming tells and keeps, wrong use, damaged files."""

import csv
import os
import random
import re
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import safetensors.numpy
from support.checkpoints import SMALL, dense_data, wait_for, write_data
from support.command_line import (
    argv,
    position,
    read_until,
    run,
    start,
    succeed,
    write_two_classes,
)

import nn
import nn.commands.train
from nn.files import checkpoint as checkpoints
from nn.files.checkpoint import COUNTS, Checkpoint, Position, data_digest
from nn.utils import DataError, Stopped, StopRequest, UsageError
from nn.watch.callbacks import Callback


@pytest.fixture
def folder(folder):
    return write_data(folder)


@pytest.fixture
def saved(folder):
    """A checkpoint at the end of a training, and the model that it wrote."""
    succeed(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck", "-q")
    return folder


def resume(*flags, file="c.ck"):
    return run(*SMALL, "--model", "again.bin", "--resume", file, *flags)


def test_the_model_does_not_show_that_checkpoints_were_taken(saved):
    succeed(*SMALL, "--model", "without.bin")
    data = (saved / "m.bin").read_bytes()
    assert data == (saved / "without.bin").read_bytes()
    assert sorted(path.name for path in saved.iterdir()) == [
        "c.ck",
        "images.npz",
        "m.bin",
        "two.csv",
        "without.bin",
    ]


def test_resuming_a_finished_training_writes_its_model_again(saved):
    before = (saved / "c.ck").read_bytes()
    figures = succeed(*SMALL, "--model", "first.bin", "--json").json
    result = succeed(
        *SMALL, *argv("--model again.bin --resume c.ck --json --checkpoint c.ck")
    ).json
    data = (saved / "again.bin").read_bytes()
    assert data == (saved / "m.bin").read_bytes()
    assert (saved / "c.ck").read_bytes() == before
    assert result["us_per_batch"] > 0
    assert result["loss"] == figures["loss"]
    assert result["val_loss"] == figures["val_loss"]


def test_resume_auto_starts_afresh_where_there_is_no_checkpoint(folder):
    result = succeed(
        *SMALL, "--model", "m.bin", "--checkpoint", "c.ck", "--resume", "auto"
    )
    assert "going on" not in result.err
    assert position("c.ck")["epoch"] == 3


def test_checkpoint_every_counts_epochs(folder, monkeypatch):
    kept = []
    save = checkpoints.Checkpoint.save

    def noted(self, states):
        kept.append(states[0][0]["epoch"])
        save(self, states)
        self.finish()  # no epoch ends while the file is written

    monkeypatch.setattr(checkpoints.Checkpoint, "save", noted)
    given = argv(
        "--dataset two.csv --layers 2,4,1 --model m.bin --epochs 7 --checkpoint c.ck"
    )
    every_third = ["--checkpoint_every", 3]
    cases = ((0, every_third, [3, 6, 7]), (0, [], [*range(1, 8)]), (1000, [], [1, 7]))
    for seconds, every, epochs in cases:
        monkeypatch.setattr(checkpoints, "LEAST_SECONDS", seconds)
        kept.clear()
        succeed("--train", *given, *every)
        # with time between them the first, and the one at the end
        assert kept == epochs, seconds


def test_the_history_goes_on_where_it_was(folder):
    stop = StopRequest()

    class Stopping(Callback):
        def epoch(self, epoch, *_):
            if epoch == 2:
                stop.request(signal.SIGTERM)

    net = nn.Network("2,4,1", task="binary")
    ds = nn.load("two.csv")
    with pytest.raises(Stopped):
        nn.train(net, ds, epochs=5, checkpoint="c.ck", callback=Stopping(), stop=stop)
    messages = []
    for flags in (["--resume", "c.ck"], []):
        given = argv(
            "--train --dataset two.csv --layers 2,4,1 --epochs 5 --history h.csv"
        )
        succeed(*given, "--model", "m.bin", *flags)
        text = (folder / "h.csv").read_text()
        lines = csv.DictReader(text.splitlines())
        records = [(line["epoch"], line["loss"], line["val_loss"]) for line in lines]
        messages.append(records)
    assert messages[0] == messages[1]
    assert len(messages[0]) == 5


@pytest.mark.parametrize("name", ["c.ck", "m.bin"])
def test_what_killed_runs_left_beside_the_file_goes_away(name, folder):
    old = folder / f"{f'.{name}.abc'}.tmp"
    new = folder / f"{f'.{name}.def'}.tmp"
    other_file = folder / f"{f'.x{name}.abc'}.tmp"
    for path in (old, new, other_file):
        path.write_bytes(b"half a file")
    for path in (old, other_file):
        os.utime(path, (time.time() - 3600,) * 2)
    succeed(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck")
    assert not old.exists()
    assert new.exists()
    assert other_file.exists()


def test_a_checkpoint_that_would_be_lost_is_told_of(saved):
    messages = succeed(*SMALL, "--model", "m.bin", "--checkpoint", "c.ck").err
    assert (
        "nn: warning: c.ck will be replaced; --resume auto would go on from it"
        in messages.splitlines()
    )


def most_bytes(size):
    """Options of a process whose files may have so many bytes."""
    return {
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    }


def test_a_full_disk_ends_no_training_and_the_old_checkpoint_stays(folder):
    """The model is smaller than the state, which has no room."""
    (folder / "c.ck").write_bytes(b"as it was")
    given = ["--train", "--dataset", "two.csv", "--layers", "2,400,1", "--epochs", 3]
    process = start(
        *given, "--model", "m.bin", "--checkpoint", "c.ck", **most_bytes(16000)
    )
    code, err = wait_for(process)
    assert code == 73
    messages = [line for line in err.splitlines() if line.startswith("nn: ")]
    failure = "c.ck: cannot write: File too large"
    expected = [
        f"nn: warning: {failure}; the training goes on",
        f"nn: {failure}; m.bin is written",
    ]
    assert messages[-2:] == expected
    assert (folder / "c.ck").read_bytes() == b"as it was"
    assert sorted(path.name for path in folder.iterdir()) == [
        "c.ck",
        "images.npz",
        "m.bin",
        "two.csv",
    ]
    succeed(*given, "--model", "n.bin")
    data = (folder / "m.bin").read_bytes()
    assert data == (folder / "n.bin").read_bytes()


def test_a_state_that_cannot_be_written_leaves_the_network_beside_the_model(folder):
    given = argv("--train --dataset two.csv --layers 2,4000,1 --epochs 1000000")
    process = start(
        *given, "--model", "m.bin", "--checkpoint", "c.ck", **most_bytes(150000)
    )
    read_until(process, "cannot write")
    process.send_signal(signal.SIGTERM)
    code, err = wait_for(process)
    message = "nn: stopped by SIGTERM: c.ck: cannot write: File too large; the unfinished network is in m.bin.part"
    assert code == 73
    assert err.splitlines()[-1] == message
    succeed("--info", "--model", "m.bin.part")


def test_a_thread_that_cannot_start_ends_no_training(folder, monkeypatch):
    class Refusing(ThreadPoolExecutor):
        _adjust_thread_count = mock.Mock(
            side_effect=RuntimeError("can't start new thread")
        )

    monkeypatch.setattr(checkpoints, "ThreadPoolExecutor", Refusing)
    net = nn.Network("2,4,1", task="binary")
    nn.train(net, nn.load("two.csv"), epochs=2, checkpoint="c.ck")
    assert position("c.ck")["epoch"] == 2


@pytest.mark.parametrize(
    "flag, value",
    [
        ("epochs", 4),
        ("batch_number", 16),
        ("learning_rate", 0.01),
        ("optimizer", "sgd"),
        ("weight_decay", 0.5),
        ("schedule", "constant"),
        ("scaling", "none"),
        ("holdout", 0.1),
        ("threshold", 0.4),
        ("layers", "2,5,1"),
        ("loss", "mse"),
        ("init", "uniform"),
        ("seed", 1),
        ("dtype", "float64"),
        ("backend", "seq"),
        ("target", 2),
    ],
)
def test_another_value_of_a_flag_that_changes_numbers_is_named(saved, flag, value):
    result = resume(f"--{flag}", value)
    assert result.code == 2
    assert result.err.count("\n") == 1 or flag == "scaling"
    assert result.err.splitlines()[-1].startswith(
        f"nn: --{flag}: c.ck was written with "
    )
    assert not (saved / "again.bin").exists()


def test_other_data_is_refused(saved):
    write_two_classes(saved / "two.csv", rows=1999)
    code, _, err = resume()
    assert code == 2
    assert err.splitlines()[-1].startswith(
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
        (
            ["--resume", "none.ck"],
            66,
            "none.ck: no such checkpoint; leave out --resume to start afresh",
        ),
        (["--checkpoint", "none/c.ck"], 73, "none/c.ck: cannot write: no folder none"),
        (["--checkpoint", "."], 73, ".: is a folder"),
    ],
)
def test_wrong_use_is_told_in_one_line_before_the_data_is_read(
    folder, flags, code, words
):
    (folder / "two.csv").write_text("no data at all")
    result = run(*SMALL, "--model", "m.bin", *flags)
    assert result.code == code
    assert result.out == ""
    assert result.err.startswith(f"nn: {words}")
    assert result.err.count("\n") == 1


# ---------------------------------------------------------------- damaged files


def refused(data: bytes) -> str:
    """The line with which a file of these bytes is refused as a checkpoint."""
    Path("bad.ck").write_bytes(data)
    result = resume("-q", file="bad.ck")
    assert result.code == 65, result.err
    assert result.err.startswith("nn: bad.ck: ")
    assert result.err.count("\n") == 1
    return result.err


@pytest.mark.slow
def test_every_changed_bit_and_every_cut_is_noticed(saved):
    whole = (saved / "c.ck").read_bytes()
    places = random.Random(0)
    for _ in range(60):
        at = places.randrange(len(whole))
        bit = 1 << places.randrange(8)
        refused(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
    for _ in range(20):
        refused(whole[: places.randrange(len(whole))])
    refused(whole + b"\0")


def test_what_is_no_checkpoint_is_refused(saved):
    assert "without the metadata of a checkpoint" in refused(
        (saved / "m.bin").read_bytes()
    )
    assert "not a checkpoint" in refused(b"epoch,loss\n1,2\n")
    assert "empty" in refused(b"")
    folder_result = resume(file=".")
    as_model = run("--test", "--model", "c.ck")
    assert folder_result.code == as_model.code == 65
    assert "folder" in folder_result.err
    assert "without the metadata of a model file" in as_model.err


OF_RUN = ("config", "engine", "count")


def rewritten(**changed):
    """c.ck with other facts, also of its run and its network, and arrays of that, and a
    SHA-256 that fits: what only a hand writes. None: without that array."""
    old = position("c.ck")
    tensors = safetensors.numpy.load(Path("c.ck").read_bytes())
    for name in [
        name
        for name, value in changed.items()
        if isinstance(value, np.ndarray) or name == "moment1"
    ]:
        tensors[f"member0.{name}"] = changed.pop(name)
    tensors = {name: array for name, array in tensors.items() if array is not None}
    run_facts = {name: changed.pop(name) for name in OF_RUN if name in changed}
    counts = {name: changed.pop(name) for name in COUNTS if name in changed}
    member = old["members"][0]
    runs = [{**old["runs"][0], **run_facts}]
    facts = {"runs": runs, "members": [{**member, **counts}]}
    checkpoints._CHECKPOINT_FILE.save("made.ck", tensors, {**old, **facts, **changed})
    return Path("made.ck").read_bytes()


@pytest.mark.parametrize(
    "facts",
    [
        {"epoch": -1},
        {"epoch": "3"},
        {"epoch": 2},
        {"row": 10**30},
        {"config": None},
        {"data_sha256": 5},
        {"engine": None},
        {"format": 3},
        {"runs": []},
        {"members": []},
        {"members": [None]},
        {"count": 2},
        {"count": -1},
        {"parameters": np.zeros(3, np.float32)},
        {"parameters": np.zeros(17, np.float64)},
        {"moment1": None},
        {"more": np.zeros(3)},
        {"losses": np.zeros(2)},
        {"loss": np.zeros(0)},
        {"loss": np.zeros(1, np.float16)},
    ],
)
def test_facts_and_arrays_that_cannot_be_are_refused(saved, facts):
    refused(rewritten(**facts))


@pytest.mark.parametrize("losses", [np.array(0.5), np.zeros(0), np.zeros(4)])
def test_losses_before_a_refit_that_are_no_list_of_its_epochs_are_refused(
    folder, losses
):
    checkpoint = Checkpoint("c.ck")
    state = ({"epoch": 0, "row": 0, "step": 0}, {"first.losses": losses})
    run = {"judged": True, "monitored": False, "refit_rows": 8}
    with pytest.raises(DataError, match="damaged checkpoint"):
        checkpoint.position_of(state, Position(), {}, 3, 4, 8, **run)


@pytest.mark.parametrize(
    "epoch, row, step, may_be",  # of three epochs of two batches
    [
        *((2, 4, 5, True), (2, 8, 6, True), (3, 0, 6, True), (4, 0, 8, False)),
        *((3, 4, 7, False), (2, 4, 6, False), (2, 3, 5, False)),
    ],
)
def test_a_position_is_between_batches_of_the_epochs(folder, epoch, row, step, may_be):
    counts = {"epoch": epoch, "row": row, "step": step}
    place = Position(**counts, losses=[0.5] * epoch, epoch_seconds=[1.0] * epoch)
    run = {"judged": False, "monitored": False, "refit_rows": None}
    refusal = pytest.raises(DataError, match="damaged checkpoint: (epoch|batch) ")
    with nullcontext() if may_be else refusal:
        state = counts, place.arrays()
        found = Checkpoint("c.ck").position_of(state, Position(), {}, 3, 4, 8, **run)
        assert found == (place, {})


def test_a_checkpoint_of_an_earlier_or_a_later_state_is_refused_in_one_line(saved):
    message = refused(rewritten(format=1))
    assert "checkpoint format 1, of a training that this nn does otherwise" in message
    assert "leave out --resume to start afresh" in message
    later = "checkpoint format 99, this nn reads up to 2; install"
    assert later in refused(rewritten(format=99))


@pytest.mark.parametrize(
    "changed",
    [{"judged": None}, {"judged": np.zeros(3, np.float32)}, {"judged": np.zeros(40)}],
)
def test_scores_of_a_fold_that_do_not_fit_it_are_refused(folder, changed):
    ds = dense_data()
    flags = {"folds": 2, "validation": "fold", "epochs": 2, "batch_number": 16}
    net = nn.Network("5,4,1", task="binary")
    nn.train(net, ds, **flags, checkpoint="c.ck")
    tensors = safetensors.numpy.load(Path("c.ck").read_bytes())
    facts = position("c.ck")
    assert tensors["member0.judged"].dtype == np.float32
    assert tensors["member0.judged"].any()
    tensors.pop("member0.judged")
    tensors |= {
        f"member0.{name}": array for name, array in changed.items() if array is not None
    }
    checkpoints._CHECKPOINT_FILE.save("made.ck", tensors, facts)
    with pytest.raises(DataError, match="damaged checkpoint: judged does not fit"):
        nn.train(nn.Network("5,4,1", task="binary"), ds, **flags, resume="made.ck")


def test_a_run_that_is_done_again_keeps_those_behind_it(folder):
    runs = [checkpoints.RunFacts({"seed": seed}, "data", "omp") for seed in range(3)]
    for path, before, epochs in (("c.ck", None, [0, 1, 2]), ("d.ck", "c.ck", [5])):
        made = Checkpoint(path, resume=before)
        for facts, epoch in zip(runs, epochs):
            made.begin(facts, 1)
            counts = {"epoch": epoch, "row": 0, "step": 4}
            made.save([(counts, {"parameters": np.full(3, epoch)})])
        made.finish()
        read = Checkpoint(resume=path)
        found = [read.begin(facts, 1)[0] for facts in runs]
        for (counts, arrays), epoch in zip(found, [epochs[0], 1, 2], strict=True):
            assert counts["epoch"] == epoch
            assert arrays["parameters"].tolist() == [epoch] * 3


@pytest.mark.parametrize(
    "arrays",
    [
        {"order.rows": np.zeros(150, np.int64)},
        {"order.rows": np.arange(1, 151)},
        {"order.random": np.full(34, 2**31, np.uint32)},
    ],
)
def test_an_order_that_would_read_beyond_the_rows_is_refused(folder, arrays):
    ds = dense_data()
    options = {"epochs": 2, "batch_number": 7}
    net = nn.Network("5,4,1", task="binary", reference=True)
    nn.train(net, ds, **options, checkpoint="c.ck")
    rewritten(**arrays)
    with pytest.raises(DataError, match="damaged checkpoint"):
        nn.train(
            nn.Network("5,4,1", task="binary", reference=True),
            ds,
            **options,
            resume="made.ck",
        )


@pytest.mark.parametrize("name", ["y", "weights", "groups", "times"])
def test_what_else_rows_have_makes_them_other_data(name):
    ds = dense_data()
    digests = {data_digest(ds)}
    for values in (np.arange(ds.rows), np.arange(ds.rows)[::-1]):
        setattr(ds, name, values)
        digests.add(data_digest(ds))
    assert len(digests) == 3


def test_data_in_memory_is_known_by_its_numbers(tmp_path):
    ds = dense_data()
    net = nn.Network("5,4,1", task="binary")
    nn.train(net, ds, epochs=2, checkpoint=tmp_path / "c.ck")
    ds.x[7, 3] += 1e-9
    with pytest.raises(UsageError, match="other data"):
        nn.train(
            nn.Network("5,4,1", task="binary"), ds, epochs=2, resume=tmp_path / "c.ck"
        )


def test_another_processor_is_a_warning(saved, monkeypatch):
    (saved / "c.ck").write_bytes(rewritten(engine="omp (abacus)"))
    code, _, err = resume()
    assert code == 0
    assert "nn: warning: c.ck was written by omp (abacus), this is omp (" in err


def test_a_flag_that_differs_is_named_before_the_data_unless_data_decide_it():
    before = checkpoints.RunFacts({"layers": "2,1", "epochs": 3}, "a", "omp")
    cases = (
        ("epochs", 4, "a", "--epochs: c.ck was written with 3, this run has 4"),
        ("epochs", 4, "b", "--epochs: c.ck was written with 3, this run has 4"),
        ("layers", "3,1", "a", '--layers: c.ck was written with "2,1"'),
        ("layers", "3,1", "b", "--dataset: c.ck was written while training on other"),
    )
    for flag, value, data, message in cases:
        config = {**before.config, flag: value}
        run_now = checkpoints.RunFacts(config, data, "omp")
        with pytest.raises(UsageError, match=re.escape(message)):
            checkpoints._check_agreement("c.ck", before, run_now)
    checkpoints._check_agreement("c.ck", before, before)
