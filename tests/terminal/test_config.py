"""--config: flags from JSON and TOML files."""

import json
import os
import shlex
import threading

import numpy as np
import pytest
from support.command_line import (
    ONE,
    argv,
    run,
    succeed,
    write_numbers,
    write_two_classes,
)

import nn
from nn.pages import model_page
from nn.terminal import parser


@pytest.fixture
def folder(folder):
    write_two_classes(folder / "two.csv")
    return folder


def train(folder, text, *flags, name="flags"):
    (folder / name).write_text(text)
    return run(
        *ONE, *argv(f"--dataset two.csv --model m.bin --config {name} --json"), *flags
    )


def test_json_and_toml_say_the_same_whatever_the_file_is_called(folder):
    as_json = '{"epochs": 3, "batch-number": 7, "layers": [2, 5, 1], "learning_rate": 2e-3, "quiet": true}'
    as_toml = 'epochs = 3\nbatch_number = 7\nlayers = "2,5,1"\nlearning_rate = 0.002\nquiet = true\n'
    models = []
    for text, name in ((as_json, "a.toml"), (as_toml, "b.json")):
        result = train(folder, text, name=name)
        assert result.code == 0
        assert result.err == ""
        assert result.json["epochs"] == 3
        assert result.json["parameters"] == 21
        models.append((folder / "m.bin").read_bytes())
    assert models[0] == models[1]


def test_the_command_line_wins(folder):
    assert train(folder, '{"epochs": 3}', "--epochs", 2).json["epochs"] == 2
    assert run("--info", "--model", "m.bin", "--config", "flags", "--quiet").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"epohcs": 3}', ["flags", "epohcs", "did you mean epochs?"]),
        ('{"epochs": "many"}', ["epochs many"]),
        ('{"epochs": 0}', ["epochs 0", "whole number from 1"]),
        ('{"epochs": 2.5}', ["epochs 2.5", "whole number"]),
        ("bach_number = 3", ["bach_number", "did you mean batch_number?"]),
        ('{"config": "a"}', ["no such flag config"]),
        ('{"quiet": 1}', ["quiet", "expected true or false"]),
        ('{"optimizer": true}', ["optimizer", "found true"]),
        (
            '{"optimizer": {"name": "adam"}}',
            ["optimizer", "expected adam, sgd, rmsprop or adagrad"],
        ),
        ('{"batch_number": 3, "batch-number": 4}', ["batch_number", "twice"]),
        ('{"epochs": 3, "epochs": 4}', ["epochs", "twice"]),
    ],
)
def test_wrong_flags_in_a_file_are_wrong_use(folder, text, message):
    result = train(folder, text)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert not (folder / "m.bin").exists()
    assert [words for words in ("flags", *message) if words not in result.err] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"epochs": 3,\n "layers": }', ["flags, row 2, column 12"]),
        ("epochs = \n", ["flags", "line 1"]),
        ("[1, 2]", ["flags", "expected JSON or TOML"]),
        ('{"epochs": ' + "[" * 100_000, ["flags"]),
        ("#" * (1 << 20) + "\n", ["flags: more than 1048576 bytes"]),
    ],
)
def test_a_file_that_is_neither_json_nor_toml_is_bad_data(folder, text, message):
    result = train(folder, text)
    assert result.code == 65
    assert [words for words in message if words not in result.err] == []
    assert train(folder, '{"epochs": 3}', "--config", "nowhere.json").code == 66


@pytest.mark.parametrize(
    ("value", "gpus"),
    [("2", (0, 1)), ("[2]", (2,)), ("[0, 2]", (0, 2)), ('"2,"', (2,))],
)
def test_a_list_of_gpus_names_them(folder, value, gpus):
    (folder / "flags").write_text(f'{{"gpus": {value}}}')
    assert parser.parse(["--train", "--config", "flags"]).gpus == gpus


def test_null_and_false_leave_a_flag_unsaid(folder):
    result = train(
        folder, '{"epochs": 1, "learning_rate": null, "verbose": false, "quiet": true}'
    )
    assert result.code == 0
    assert result.err == ""


def test_a_mode_may_stand_in_the_file(folder):
    train(folder, '{"epochs": 1}')
    (folder / "run.json").write_text('{"test": true, "model": "m.bin", "json": true}')
    assert run("--config", "run.json").json["rows"] == 12
    # not --test then
    assert run("--info", "--config", "run.json").json["model"] == "m.bin"


def test_flags_of_training_do_not_disturb_a_test_with_the_same_file(folder):
    text = '{"epochs": 1, "scaling": "normalization", "layers": "2,3,1", "dataset": "two.csv"}'
    assert train(folder, text).code == 0
    assert nn.Model.load("m.bin").network.scaling.kind == "normalization"
    result = succeed("--test", "--model", "m.bin", "--config", "flags", "--json")
    assert "ignored" not in result.err
    assert result.json["rows"] == 60


@pytest.mark.parametrize(
    "flags",
    [
        ["--epochs", "2", "--seed", "7", "--loss", "mse", "--layers", "2,4:tanh,3,1"],
        argv(
            "--epochs 2 --optimizer sgd --momentum 0.5 --init uniform --dtype float64"
        ),
        ["--epochs", "2", "--reference", "--batch_number", "10"],
        argv("--epochs 2 --target 0 --task regression --holdout 0 --weight_decay 0.01"),
        argv(
            "--networks 4 --vary optimizer=sgd|adam,momentum=0..0.9,batch_size=8|16,epochs=2..4,hidden=4|9"
        ),
        argv(
            "--networks 3 --vary number_embedding=linear|waves2,learning_rate=1e-3..1e-1"
        ),
    ],
)
def test_the_facts_of_a_model_train_it_again_byte_for_byte(folder, flags):
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "-q", *flags)
    text = succeed("--info", "--model", "m.bin", "--json").out
    os.mkfifo("facts")
    writer = threading.Thread(target=lambda: (folder / "facts").write_text(text))
    writer.start()  # as bash's <(nn --info ...)
    succeed("--train", "--config", "facts", "--model", "m2.bin", "-q")
    writer.join()
    data = (folder / "m2.bin").read_bytes()
    assert data == (folder / "m.bin").read_bytes()


def test_the_flat_config_of_a_model_does_too(folder):
    write_numbers(folder / "numbers.csv")
    given = [*ONE, "--dataset", "numbers.csv", "-q", "--model"]
    succeed(*given, "m.bin", "--epochs", 2, "--activation", "tanh")
    config = succeed("--info", "--model", "m.bin", "--json").json["config"]
    (folder / "flat.json").write_text(json.dumps(config))
    succeed(*given, "m2.bin", "--config", "flat.json")
    data = (folder / "m2.bin").read_bytes()
    assert data == (folder / "m.bin").read_bytes()


def test_what_a_person_chose_of_columns_trains_a_model_again_byte_for_byte(folder):
    rng = np.random.default_rng(0)
    lines = ["code,size,grade,day,extra,y"]
    for row in range(40):
        size, extra = rng.random(2)
        grade = "SML"[row % 3]
        lines.append(
            f"{row % 4},{size},{grade},0{row % 9 + 1}.0{row % 3 + 1}.2021,{extra},{'ny'[row % 2]}"
        )
    (folder / "columns.csv").write_text("\n".join(lines))
    flags = argv(
        "--categories code --numbers size --dates day=%d.%m.%Y --ordered grade=S<M<L"
        " --drop extra --positive n --strict --epochs 2 --networks 1 -q"
    )
    succeed("--train", "--dataset", "columns.csv", "--model", "m.bin", *flags)
    (folder / "facts").write_text(succeed("--info", "--model", "m.bin", "--json").out)
    succeed("--train", "--config", "facts", "--model", "m2.bin", "-q")
    made = (folder / "m.bin").read_bytes()
    assert (folder / "m2.bin").read_bytes() == made
    network = nn.Model.load("m.bin").network
    assert network.columns == ["code", "size", "grade", "day"]
    assert network.classes == ["y", "n"]
    command = model_page.command_of(network, "m3.bin", "columns.csv")
    succeed(*shlex.split(command)[1:], "-q")
    assert (folder / "m3.bin").read_bytes() == made


@pytest.mark.parametrize(
    "given, expected",
    [
        (["--batch_size", "7"], 7),
        (["--batch-size", "7"], 7),
        (["--batch_number", "7"], 7),
        (["--batch_size", "7", "--batch_number=7"], 7),
        (["--config", "c.json"], 8),
        (["--config", "c.json", "--batch_number", "5"], 5),
        (["--config", "c.json", "--batch_size", "6"], 6),
    ],
)
def test_the_batch_size_has_two_names_and_the_command_line_wins_by_either_one(
    folder, given, expected
):
    (folder / "c.json").write_text('{"batch_size": 8}')
    assert parser.parse(["--train", *given]).batch_number == expected


def test_two_names_of_one_flag_must_not_differ(folder):
    message = "nn: --batch_number 8 and --batch_size 7: two names of one flag; leave one out\n"
    assert run("--train", "--batch-size", 7, "--batch_number=8") == (2, "", message)
    message = (
        "nn: flags: batch_number and batch_size: two names of one flag; remove one\n"
    )
    assert train(folder, '{"batch_size": 7, "batch_number": 8}') == (2, "", message)
