"""--number_embedding: inputs added to columns of numbers, from the flag to the
predictions."""

import numpy as np
import pytest
from support.command_line import ONE, run, succeed
from support.networks import BACKENDS

import nn
from nn.nn import Network
from nn.utils import UsageError

WAVES = ("--number_embedding", "waves5:0.5")
TRAIN = (*ONE, "--dataset", "a.csv", "--epochs", 2, "-q")


def jagged(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two numbers, and which bands of the first one they lie in: nothing that a
    straight line tells."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (count, 2)).astype(np.float32)
    return x, (np.floor(3 * x[:, 0]) % 2).astype(np.int32)


@pytest.fixture
def table(folder) -> None:
    """Plain numbers in a.csv."""
    rows = zip(*(part.tolist() for part in jagged(400)), strict=True)
    lines = []
    for (a, b), y in rows:
        lines.append(f"{a:.5f},{b:.5f},{y}\n")
    text = "a,b,y\n" + "".join(lines)
    (folder / "a.csv").write_text(text)


def test_a_table_of_numbers_gets_an_encoding_that_the_model_keeps(table, folder):
    done = succeed(
        *ONE, "--dataset", "a.csv", "--model", "m.bin", "--epochs", 2, *WAVES
    )
    assert "number: a (5 waves), b (5 waves)" in done.err
    assert "2 columns become 22 inputs" in done.err
    net = Network.load("m.bin")
    assert net.metadata()["format"] == 3
    assert net.spec == "2,60:relu,10:relu,1:sigmoid"
    assert net.config["number_embedding"] == "waves5:0.5"
    assert net.layers[0].frequencies == 10
    info = succeed("--info", "--model", "m.bin", "--json").json
    assert info["config"]["number_embedding"] == "waves5:0.5"
    assert "5 waves" in succeed("--info", "--model", "m.bin", "--verbose").out
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == 80
    result = succeed("--predict", "--model", "m.bin", "--dataset", "a.csv")
    assert len(result.out.splitlines()) == 401
    # as in other models of plain numbers
    (folder / "gap.csv").write_text("a,b,y\n1,2,0\n3,,1\n")
    failed = run("--predict", "--model", "m.bin", "--dataset", "gap.csv", "--strict")
    assert failed.code == 65
    assert "row 3, column b: found an empty field" in failed.err
    succeed(*TRAIN, "--model", "m.bin")  # without the flag nothing is said of it
    assert b"number_embedding" not in (folder / "m.bin").read_bytes()
    assert Network.load("m.bin").encoding is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_waves_learn_bands_that_the_number_alone_does_not_tell(backend):
    x, y = jagged(1500)
    ds = nn.Dataset(x, y, "binary", ["0", "1"])
    scores = {}
    for embedding in ("linear", "waves8", "pieces12"):
        net = Network("2,16,1", "binary", backend=backend)
        figures = nn.train(
            net,
            ds,
            number_embedding=embedding,
            epochs=30,
            batch_number=64,
            learning_rate=0.01,
        )
        rows = ds.of_rows(np.arange(1000, 1500))
        scores[embedding] = nn.test(net, rows)["roc_auc"]
        assert figures["columns"] == {"0": "number", "1": "number"}
    assert scores["waves8"] > 0.95 > scores["linear"] + 0.1


def test_rows_of_an_array_and_of_a_frame_are_predicted_alike(table, folder):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv("a.csv", dtype={"a": np.float32, "b": np.float32})
    net = Network("2,8,1", "binary")
    nn.train(net, nn.load(frame), epochs=2, number_embedding="waves4")
    by_frame = net.predict(frame[["b", "a"]])
    rows = frame[["a", "b"]].to_numpy()
    expected = net.predict(rows)
    np.testing.assert_array_equal(by_frame, expected)
    net.export("m.bin")
    predictions = Network.load("m.bin").predict(frame)
    np.testing.assert_array_equal(predictions, by_frame)


def test_bytes_do_not_depend_on_threads_or_memory_but_on_the_network_and_the_fold(
    table, folder
):
    models = set()
    cases = (
        ("--threads", 1),
        ("--threads", 3),
        ("--memory", "100M"),
        ("--networks", 1),
    )
    for flags in cases:
        succeed(*TRAIN, *WAVES, "--model", "m.bin", *flags)
        models.add((folder / "m.bin").read_bytes())
    assert len(models) == 1
    succeed(*TRAIN, *WAVES, "--networks", 3, "--model", "m.bin")
    first_layers = [
        member.parameters()["layer0.weight"]
        for member in Network.of_file("m.bin").members
    ]
    assert len(first_layers) == 3
    weights = {weight.tobytes() for weight in first_layers}
    assert len(weights) == 3
    succeed(*TRAIN, *WAVES, "--model", "alone.bin", "--seed", 1, "--split_seed", 0)
    parameters = Network.load("alone.bin").parameters()
    np.testing.assert_array_equal(parameters["layer0.weight"], first_layers[1])
    succeed(*TRAIN, *WAVES, "--folds", 3, "--model", "f.bin")
    for member in Network.of_file("f.bin").members:
        assert member.layers[0].frequencies == 10


def test_the_reference_and_images_have_no_such_thing(table):
    failed = run(*TRAIN, "--model", "m.bin", *WAVES, "--reference")
    assert failed.code == 2
    assert "--number_embedding waves5:0.5: --reference has no such thing" in failed.err
    x = np.zeros((20, 1, 4, 4), np.uint8)
    y = np.arange(20, dtype=np.int32) % 2
    images = nn.Dataset(x, y, "binary", ["0", "1"])
    with pytest.raises(UsageError, match="the data are images"):
        nn.train(Network("1x4x4,3,1", "binary"), images, number_embedding="waves3")
