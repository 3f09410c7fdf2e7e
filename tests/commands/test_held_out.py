"""--test without --dataset: the rows that the training held out, where its data are."""

import shutil

import pytest
from support.command_line import ONE, argv, run, succeed, write_two_classes

import nn
from nn.data import loading
from nn.settings.flags import MODE_WORDS, flags_of_mode


def test_held_out_rows_are_tested_where_the_data_was_or_beside_the_model(
    trained, folder, monkeypatch
):
    (folder / "other").mkdir()
    monkeypatch.chdir(folder / "other")
    assert succeed("--test", "--model", trained, "--json").json["rows"] == 12, (
        "where they were"
    )
    for path in (trained, folder / "two.csv"):
        path.rename(folder / "other" / path.name)
    monkeypatch.chdir(folder)
    assert succeed("--test", "--model", "other/m.bin", "--json").json["rows"] == 12, (
        "moved with the model"
    )


def test_data_that_changed_is_refused_unless_forced_and_data_that_is_gone_said_so(
    trained,
):
    write_two_classes(trained.parent / "two.csv", rows=90)
    result = run("--test", "--model", trained)
    assert result.code == 65
    assert "has changed" in result.err
    assert result.out == ""
    forced = succeed("--test", "--model", trained, "--force", "--json")
    assert forced.json["rows"] == 18
    assert "nn: warning: " in forced.err
    # of folds too, whose rows are as many
    folds = ["--folds", 3, "--holdout", 0, "--model", "folds.bin", "--epochs", 1]
    succeed(*ONE, "--dataset", "two.csv", *folds)
    text = (trained.parent / "two.csv").read_text()
    (trained.parent / "two.csv").write_text(text + "\n")
    assert run("--test", "--model", "folds.bin").code == 65
    forced = succeed("--test", "--model", "folds.bin", "--force", "--json")
    assert forced.json["rows"] == 90
    assert "nn: warning: " in forced.err
    (trained.parent / "two.csv").unlink()
    result = run("--test", "--model", trained)
    assert result.code == 66
    assert "two.csv" in result.err
    assert "--dataset" in result.err


@pytest.mark.parametrize(
    "model, flags, message",
    [
        ("m.bin", ["--holdout", 0], "--holdout 0"),
        ("m.m", ["--activation", "sigmoid"], "m.m"),
    ],
)
def test_a_model_that_held_nothing_out_or_cannot_tell_asks_for_data(
    two, model, flags, message
):
    succeed(*ONE, "--dataset", "two.csv", "--model", model, "--epochs", 1, *flags)
    result = run("--test", "--model", model)
    assert result.code == 2
    assert message in result.err
    assert "--dataset" in result.err
    figures = succeed("--test", "--model", model, "--dataset", "two.csv", "--json").json
    assert figures["rows"] == 60


def test_reference_tests_all_rows(two):
    succeed(
        *argv(
            "--train --reference --dataset two.csv --model m.bin --layers 2,4,1 --epochs 1"
        )
    )
    for flags in (["--reference"], []):
        result = succeed("--test", "--model", "m.bin", *flags, "--json")
        assert result.json["rows"] == 60, flags
        assert result.json["trained_rows"] is None
        assert "trained on" not in result.err


def test_data_too_small_to_hold_rows_out_is_tested_whole_and_said_so(folder):
    (folder / "xor.csv").write_text("0,0,0\n0,1,1\n1,0,1\n1,1,0\n")
    trained = succeed(*ONE, "--dataset", "xor.csv", "--model", "m.bin", "--epochs", 1)
    tested = succeed("--test", "--model", "m.bin", "--json")
    assert trained.err.count("hold") == 1
    usual = succeed("train", "xor.csv", "-m", "n.bin", "--epochs", 1)
    reason = "4 rows are too few to be divided into folds"
    assert f"one network of the usual layers: {reason}\n" in usual.err
    assert tested.json["rows"] == 4
    assert "trained on" in tested.err


def test_the_target_column_of_a_file_without_names_is_remembered(folder):
    write_two_classes(folder / "last.csv", header=False)
    text = (folder / "last.csv").read_text()
    rows = [line.split(",") for line in text.split()]
    lines = []
    for a, b, label in rows:
        lines.append(f"{label},{a},{b}\n")
    text = "".join(lines)
    (folder / "first.csv").write_text(text)
    succeed(
        *ONE,
        *argv(
            "--dataset first.csv --target 0 --model m.bin --epochs 30 --learning_rate 0.01"
        ),
    )
    whole = succeed(
        "--test", "--model", "m.bin", "--dataset", "first.csv", "--json"
    ).json
    assert whole["tp"] + whole["fn"] == 20
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == 12


LAYOUT = {"target": "b", "separator": ";", "header": "no", "strict": True}
OF_FLAGS = {
    "load_for": LAYOUT | {"memory": 300 << 20},
    "held_out": {"memory": 300 << 20, "force": True},
    "training_dataset": {"memory": 300 << 20, "force": True},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A table and models of it, of held-out rows and of folds."""
    folder = tmp_path_factory.mktemp("models")
    use = ("train", write_two_classes(folder / "two.csv"), "--epochs", 1, "-q")
    for name, flags in {"held": (), "folds": ("--folds", 2, "--holdout", 0)}.items():
        succeed(*use, "--layers", "2,1", "-m", folder / f"{name}.bin", *flags)
    return folder


@pytest.mark.parametrize(
    "command, readers",
    [
        ("predict held.bin two.csv", ["load_for"]),
        ("drift held.bin two.csv", ["load_for"]),
        ("test {} {}", OF_FLAGS),
        ("explain {} {}", OF_FLAGS),
        ("compare {} other.bin {}", OF_FLAGS),
        ("plot {} -o pictures {}", OF_FLAGS),
        ("threshold {} f1 {} -o new.bin", OF_FLAGS),
    ],
)
def test_every_command_reads_rows_and_computes_as_its_flags_say(
    models, monkeypatch, command, readers
):
    """A file by its layout, rows of the training although they have changed, all within
    the memory that is given."""
    monkeypatch.chdir(models)
    shutil.copy("held.bin", "other.bin")
    flags = argv("--target b --separator ; --header no --strict --force --memory 300M")
    flags += argv("--backend seq --threads 1 --dtype float64 -q")
    engines = []
    usual = nn.Network.of_file

    def of_file(path, **engine):
        engines.append(engine)
        return usual(path, **engine)

    monkeypatch.setattr(nn.Network, "of_file", of_file)
    for reader in readers:
        read = {}

        def reading(net, path, read=read, **options):
            read.update(options)
            raise nn.DataError("read")

        model = "folds.bin" if reader == "training_dataset" else "held.bin"
        data = "--dataset two.csv" if reader == "load_for" else ""
        words = argv(command.format(model, data))
        with monkeypatch.context() as patch:
            patch.setattr(loading, reader, reading)
            assert run(*words, *flags) == (65, "", "nn: read\n"), reader
        known = flags_of_mode(MODE_WORDS[words[0]])
        expected = {name: v for name, v in OF_FLAGS[reader].items() if name in known}
        assert read | expected == read, reader
    asked = {"backend": "seq", "threads": 1, "dtype": "float64"}
    count = 2 if words[0] == "compare" else 1
    assert engines == [asked] * count * len(readers)
