"""--test without --dataset: the rows that the training held out, where its data are."""

import pytest
from support.command_line import ONE, argv, run, succeed, write_two_classes


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
