"""--networks with --window: several networks read a table in windows, one after the other."""

import gc
import signal
import sys
import weakref

import numpy as np
import pytest
from support.command_line import write_two_classes

import nn
from nn.files import checkpoint
from nn.files.pack_checkpoint import PackCheckpoint
from nn.nn import Network
from nn.train.loop import Training
from nn.train.pack import PackTraining
from nn.utils import NnError, Stopped, StopRequest

COUNT = 3
SEED = 5


@pytest.mark.parametrize("flags", [{}, {"validation": 0.25, "patience": 1, "learning_rate": 0.3}])
def test_members_are_the_networks_alone(folder, flags):
    path = write_two_classes(folder / "two.csv", 3000)

    def load():
        given = {"validation": flags["validation"]} if "validation" in flags else {}
        return nn.load(path, window=640, seed=SEED, **given)

    make = lambda seed: Network(f"{load().inputs},8,1", "binary", seed=seed, backend="omp")  # noqa: E731
    net = make(SEED)
    nn.train(net, load(), networks=COUNT, epochs=3, **flags)
    for number, member in enumerate(net.members):
        alone = make(SEED + number)
        nn.train(alone, load(), epochs=3, split_seed=SEED, **flags)
        assert np.array_equal(member.vector, alone.vector)


@pytest.mark.parametrize("broken", [{SEED}, {SEED + 1}, {SEED + 2}, {SEED, SEED + 1, SEED + 2}], ids=str)
def test_the_others_are_trained_too(broken, monkeypatch, folder):
    """The first one to fail is then the only one that has begun."""
    path, usual = write_two_classes(folder / "two.csv", 3000), Training._finish_epoch

    def fails(self, loss):
        return usual(self, np.nan if self.net.seed in broken else loss)

    monkeypatch.setattr(Training, "_finish_epoch", fails)
    net = Network("2,8,1", "binary", seed=SEED, backend="omp")
    if len(broken) == COUNT:
        with pytest.raises(NnError, match="loss is nan"):
            nn.train(net, nn.load(path, window=640, seed=SEED), networks=COUNT, epochs=2)
        return
    result = nn.train(net, nn.load(path, window=640, seed=SEED), networks=COUNT, epochs=2)
    left = [seed for seed in range(SEED, SEED + COUNT) if seed not in broken]
    assert [member.seed for member in net.members] == left and len(result["loss"]) == 2


def test_the_state_is_saved_from_the_first_network_on(monkeypatch, folder):
    monkeypatch.setattr(checkpoint, "LEAST_SECONDS", 0)
    path, begun, usual = write_two_classes(folder / "two.csv", 3000), [], PackCheckpoint.write

    def write(self):
        usual(self)
        begun.append(sum(state is not None for state in self.states))

    monkeypatch.setattr(PackCheckpoint, "write", write)
    net = Network("2,8,1", "binary", seed=SEED, backend="omp")
    nn.train(net, nn.load(path, window=640, seed=SEED), networks=COUNT, epochs=3, checkpoint=folder / "state.nn")
    assert {*begun} == {1, 2, 3} and begun == sorted(begun)


def test_no_network_begins_after_a_signal(monkeypatch, folder):
    """Small networks have done their batches before they hear of it, each of them."""
    path, stop, begun = write_two_classes(folder / "two.csv", 300), StopRequest(), []
    usual_begin, usual_finish = PackTraining._begin, Training._finish_epoch

    def begin(self, number):
        begun.append(number)
        usual_begin(self, number)

    def finish(self, loss):
        stop.request(signal.SIGTERM)
        return usual_finish(self, loss)

    monkeypatch.setattr(PackTraining, "_begin", begin)
    monkeypatch.setattr(Training, "_finish_epoch", finish)
    monkeypatch.setattr(sys.modules["nn.train.pack"], "stop_all", lambda asks: None)
    net = Network("2,3,1", "binary", seed=SEED, backend="omp")
    with pytest.raises(Stopped):
        nn.train(net, nn.load(path, window=64, seed=SEED), networks=COUNT, epochs=1, stop=stop)
    assert begun == [0]


@pytest.mark.parametrize("saving", [False, True])
def test_a_trained_network_frees_engine_and_rows(saving, monkeypatch, folder):
    """Else the limit of --memory would hold for the first network only."""
    path, engines, usual = write_two_classes(folder / "two.csv", 3000), [], PackTraining._begin

    def begin(self, number):
        gc.collect()
        assert [engine() for engine in engines] == [None] * number
        rows = [training.rows for training in self.members.trainings.values()]
        assert all(own.loaded is None and own.windows._buffers == [None, None] for own in rows)
        usual(self, number)
        engines.append(weakref.ref(self.members.trainings[number].engine))

    monkeypatch.setattr(PackTraining, "_begin", begin)
    net = Network("2,8,1", "binary", seed=SEED, backend="omp")
    flags = {"checkpoint": folder / "state.nn"} if saving else {}
    nn.train(net, nn.load(path, window=640, seed=SEED, validation=0.3), networks=COUNT, epochs=2, **flags,
             validation=0.3, refit=True)  # fmt: skip
    assert len(engines) == COUNT
