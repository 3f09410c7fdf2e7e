"""What a user may get wrong: one line that helps, the right exit code, nothing changed on disk."""

import gzip
import shutil

import pytest
from support.command_line import run, succeed, write_numbers, write_three_classes, write_two_classes


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with good data sets and models of them."""
    folder = tmp_path_factory.mktemp("prepared")
    for write, name in ((write_two_classes, "two"), (write_three_classes, "three"), (write_numbers, "numbers")):
        write(folder / f"{name}.csv")
        succeed("--train", "--dataset", folder / f"{name}.csv", "--model", folder / f"{name}.bin", "--epochs", 1)
    succeed(
        "--train",
        "--dataset",
        folder / "two.csv",
        "--model",
        folder / "two.m",
        "--epochs",
        1,
        "--activation",
        "sigmoid",
    )
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """The current folder: a copy of the prepared one."""
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def contents(folder) -> dict:
    return {file.name: file.read_bytes() if file.is_file() else None for file in sorted(folder.iterdir())}


def fails(folder, code: int, *words: str, command: str) -> str:
    """Run the command, which must end with this code and a line with these words; returns the line."""
    before = contents(folder)
    result = run(*command.split())
    lines = result.err.splitlines()
    assert result.code == code, result.err
    assert lines and lines[-1].startswith("nn: "), result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    for word in words:
        assert word in lines[-1], lines[-1]
    if code == 2:
        assert len(lines) == 1, result.err
    assert contents(folder) == before
    return lines[-1]


TRAIN = "--train --dataset two.csv --model new.bin"


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize(
    "command, words",
    [
        ("", ["--train", "--test", "--predict", "--info", "--help"]),
        ("--dataset two.csv --model two.bin", ["--train"]),
        ("--train --test --dataset two.csv --model new.bin", ["--train and --test"]),
        ("--test --info --predict --model two.bin", ["--test and --predict and --info"]),
        ("--train --dataset two.csv", ["--model"]),
        ("--train --model new.bin", ["--dataset"]),
        ("--test --dataset two.csv", ["--model"]),
        ("--predict --model two.bin", ["--dataset"]),
        ("--info", ["--model"]),
        (f"{TRAIN} --epoch 3", ["--epoch:", "did you mean --epochs?"]),
        (f"{TRAIN} --batchnumber 3", ["did you mean --batch_number?"]),
        (f"{TRAIN} --learning-rates 3", ["did you mean --learning_rate?"]),
        (f"{TRAIN} --zzzz", ["--zzzz", "--help"]),
        (f"{TRAIN} -x", ["-x"]),
        (f"{TRAIN} banana", ["banana", "--help"]),
        ("tran --dataset two.csv", ["unexpected argument tran", "did you mean nn train?"]),
        ("--train two.csv", ["unexpected argument two.csv", "did you mean --dataset two.csv?"]),
        ("--test two.bin --quiet", ["did you mean --model two.bin?"]),
        ("--predict --model two.bin two.csv", ["did you mean --dataset two.csv?"]),
        ("train two.csv other.csv -m new.bin", ["unexpected argument other.csv", "train two.csv,other.csv"]),
        ("test two.bin two.csv more", ["unexpected argument more", "--model --dataset"]),
        ("train two.csv new.bin", ["did you mean --model new.bin?"]),
        ("export two.bin new.c", ["did you mean --output new.c?"]),
        ("fit two.csv", ["did you mean nn train?"]),
        ("help", ["did you mean nn --help?"]),
        ("train two.csv", ["--model"]),
        ("sweep -o new.csv", ["--sweep needs PLAN"]),
        (f"{TRAIN} --lr 3", ["--lr:", "did you mean --learning_rate?"]),
        (f"{TRAIN} --random-state 3", ["did you mean --seed?"]),
        (f"{TRAIN} --epochs", ["--epochs"]),
        ("--train --dataset two.csv --model --json", ["--model", "--json"]),
        (f"{TRAIN} --json=yes", ["--json"]),
        (f"{TRAIN} --quiet --verbose", ["--quiet", "--verbose"]),
    ],
)
def test_wrong_use_is_one_line(folder, command, words):
    fails(folder, 2, *words, command=command)


WRONG_NUMBERS = ["0", "-1", "nan", "inf", "-inf", "ten", "1e400", "''"]


@pytest.mark.parametrize("flag", ["epochs", "batch_number", "threads", "learning_rate"])
def test_numbers_that_must_be_positive(folder, flag):
    for value in WRONG_NUMBERS:
        fails(folder, 2, f"--{flag} {value}", "expected", command=f"{TRAIN} --{flag} {value}")


@pytest.mark.parametrize("flag", ["epochs", "batch_number", "threads", "seed"])
def test_numbers_that_are_too_large_to_count_with(folder, flag):
    fails(folder, 2, f"--{flag} 9", "expected", command=f"{TRAIN} --{flag} 99999999999999999999999")


@pytest.mark.parametrize(
    "flag, values",
    [
        ("seed", ["-1", "4294967296", "1.5", "x"]),
        ("holdout", ["-0.1", "1", "nan", "x"]),
        ("momentum", ["-0.1", "1", "inf"]),
        ("weight_decay", ["-1", "nan", "inf"]),
        ("threshold", ["nan", "inf", "half"]),
        ("epochs", ["2.5", "1e3"]),
        ("memory", ["0", "-1G", "nan", "inf", "1e400", "10X", "G"]),
    ],
)
def test_numbers_out_of_their_range(folder, flag, values):
    for value in values:
        fails(folder, 2, f"--{flag} {value}", "expected", command=f"{TRAIN} --{flag} {value}")


@pytest.mark.parametrize(
    "flag, known",
    [
        ("optimizer", "adam"),
        ("activation", "relu"),
        ("loss", "bce"),
        ("init", "glorot"),
        ("schedule", "cosine"),
        ("scaling", "pixel"),
        ("task", "multiclass"),
        ("backend", "omp"),
        ("dtype", "float64"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(folder, flag, known):
    fails(folder, 2, f"--{flag} nonsense", known, command=f"{TRAIN} --{flag} nonsense")


@pytest.mark.parametrize(
    "other",
    [
        "--backend omp",
        "--dtype float32",
        "--optimizer adam",
        "--activation relu",
        "--loss bce",
        "--init he",
        "--momentum 0.9",
        "--weight_decay 0.1",
        "--schedule cosine",
        "--layers 2,4:relu,1",
    ],
)
def test_what_contradicts_reference(folder, other):
    fails(folder, 2, "--reference", command=f"{TRAIN} --reference {other}")


def test_a_batch_larger_than_the_data_with_reference(folder):
    fails(folder, 2, "--batch_number 61", "60", command=f"{TRAIN} --reference --batch_number 61")


def test_momentum_without_sgd(folder):
    fails(folder, 2, "--momentum", "sgd", command=f"{TRAIN} --momentum 0.9")


@pytest.mark.parametrize(
    "layers, words",
    [
        ("3,4,1", ["--layers 3,4,1", "two.csv", "3 columns", "expected 4"]),
        ("1,4,1", ["--layers 1,4,1"]),
        ("2", ["--layers"]),
        ("2,,1", ["--layers", "empty"]),
        ("2,0,1", ["--layers", "0"]),
        ("2,-4,1", ["--layers", "-4"]),
        ("2,4.5,1", ["--layers", "4.5"]),
        ("2,4:swish,1", ["--layers", "swish"]),
        ("2,4:softmax,1", ["--layers", "softmax"]),
        ("2,conv4,1", ["--layers", "conv4"]),
        ("2,99999999999,1", ["--layers"]),
        ("2," + "1," * 10000 + "1", ["--layers: 10002 items"]),
        ("1x5x5,conv4k9,1", ["--layers", "conv4k9", "1x5x5"]),
    ],
)
def test_layers_that_do_not_fit(folder, layers, words):
    fails(folder, 2, *words, command=f"{TRAIN} --layers {layers}")


def test_fewer_outputs_than_classes(folder):
    fails(
        folder, 2, "--layers 2,4,2", "3 classes", command="--train --dataset three.csv --model new.bin --layers 2,4,2"
    )


def test_a_loss_that_does_not_go_with_the_output_layer(folder):
    fails(folder, 2, "--loss ce", command=f"{TRAIN} --loss ce")


@pytest.mark.parametrize(
    "flags, words",
    [
        ("", ["relu", "--activation sigmoid"]),
        ("--layers 2,4:tanh,1:sigmoid", ["tanh"]),
        ("--task regression --activation sigmoid", ["linear"]),
    ],
)
def test_a_text_model_of_another_network_is_refused_before_training(folder, flags, words):
    fails(folder, 2, ".m", *words, command=f"--train --dataset two.csv --model new.m {flags}")


def test_scaling_is_no_matter_of_testing(folder):
    fails(folder, 2, "--scaling", command="--test --model two.bin --dataset two.csv --scaling none")


# ---------------------------------------------------------------- data


def test_a_data_set_that_is_not_there(folder):
    fails(folder, 66, "none.csv", command="--train --dataset none.csv --model new.bin")
    fails(folder, 66, "none.csv", command="--test --dataset none.csv --model two.bin")
    fails(folder, 66, "none.csv", command="--predict --dataset none.csv --model two.bin")


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ["empty"]),
        ("\n\n", []),
        ("a,b,Class\n", ["header"]),
        ("a,b,Class\n1,2,0\n3,4\n5,6,1\n", ["row 3", "2 columns", "expected 3"]),
        ("a,b,Class\n1,2,0\n3,4,1,7\n5,6,1\n", ["row 3", "4 columns", "expected 3"]),
        ("a,b,Class\n1,2,0\ninf,4,1\n", ["row 3", "column a", "inf"]),
        ("a,b,Class\n1,2,0\n3,1e999,1\n", ["row 3", "column b", "1e999"]),
        ("a,b,Class\n1,2,0\n3,4,\n", ["column Class", "only class 0"]),
        ("a,b,Class\n1,2,\n3,4,\n", ["no row has a target", "gap"]),
        ("a,b,Class\n1,2,0\n3,4,0\n", ["class 0"]),
        ("7\n8\n9\n", ["1 column"]),
        ("\x00\x01\x02\x03\n\x04\n", []),
    ],
)
def test_a_data_set_that_cannot_be_trained_on(folder, text, words):
    (folder / "bad.csv").write_text(text)
    fails(folder, 65, "bad.csv", *words, command="--train --dataset bad.csv --model new.bin")


def test_a_word_among_numbers_where_none_may_be(folder):
    (folder / "bad.csv").write_text("a,b,Class\n" + 20 * "1,2,0\n" + "3,four,1\n")
    words = "bad.csv", "row 22", "column b", "four"
    fails(folder, 65, *words, command="--train --dataset bad.csv --model new.bin --strict")
    fails(folder, 65, *words, command="--train --dataset bad.csv --model new.bin --layers 2,1 --reference")


def test_a_cut_gz_file(folder):
    (folder / "cut.csv.gz").write_bytes(gzip.compress((folder / "two.csv").read_bytes())[:-20])
    fails(folder, 65, "cut.csv.gz", command="--train --dataset cut.csv.gz --model new.bin")


def test_a_target_that_is_not_there(folder):
    fails(folder, 2, "--target Clas", "did you mean Class?", command=f"{TRAIN} --target Clas")
    fails(folder, 2, "--target 3", "3 columns", command=f"{TRAIN} --target 3")
    fails(folder, 2, "--target -4", command=f"{TRAIN} --target -4")


def test_data_with_another_number_of_columns_than_the_model(folder):
    (folder / "wide.csv").write_text("a,b,c,d\n1,2,3,0\n4,5,6,1\n")
    fails(folder, 65, "wide.csv", command="--test --dataset wide.csv --model two.bin")
    (folder / "wide.csv").write_text("1,2,3,0\n4,5,6,1\n")
    for mode in ("--test", "--predict"):
        fails(folder, 65, "wide.csv", "4 columns", "expected", command=f"{mode} --dataset wide.csv --model two.bin")


def test_a_class_that_the_model_does_not_know(folder):
    (folder / "other.csv").write_text("x,y,colour\n1,2,red\n3,4,yellow\n")
    fails(folder, 65, "other.csv", "row 3", "yellow", command="--test --dataset other.csv --model three.bin")


def test_numbers_that_run_away_while_training(folder):
    line = fails(
        folder,
        1,
        "loss",
        "--learning_rate",
        command="--train --dataset numbers.csv --model new.bin --optimizer sgd --learning_rate 1e30",
    )
    assert "nan" in line or "inf" in line


# ---------------------------------------------------------------- model files


@pytest.mark.parametrize("mode", ["--test --dataset two.csv", "--predict --dataset two.csv", "--info"])
def test_a_model_that_is_not_there(folder, mode):
    fails(folder, 66, "none.bin", command=f"{mode} --model none.bin")


@pytest.mark.parametrize("mode", ["--test", "--predict --dataset two.csv", "--info"])
def test_models_that_are_cut_corrupted_or_foreign(folder, mode):
    good = (folder / "two.bin").read_bytes()
    damaged = {
        "empty": b"",
        "cut": good[:-1],
        "longer": good + b"\0",
        "flipped": good[:-9] + bytes([good[-9] ^ 1]) + good[-8:],
        "table": (folder / "two.csv").read_bytes(),
        "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n.",
        "gzip": gzip.compress(good),
    }
    for name, content in damaged.items():
        (folder / f"{name}.bin").write_bytes(content)
        fails(folder, 65, f"{name}.bin", command=f"{mode} --model {name}.bin")


def test_text_models_that_are_cut_or_wrong(folder):
    good = (folder / "two.m").read_text()
    for name, content in {
        "cut": good[:-3],
        "short": good[: good.rindex("\n", 0, -1) + 1],
        "word": good.replace("60", "x", 1),
    }.items():
        (folder / f"{name}.m").write_text(content)
        fails(folder, 65, f"{name}.m", command=f"--test --dataset two.csv --model {name}.m")


def test_a_folder_is_no_model_and_no_target(folder):
    (folder / "sub").mkdir()
    fails(folder, 65, "sub", "folder", command="--info --model sub")
    fails(folder, 73, "sub", "folder", command="--train --dataset two.csv --model sub")


# ---------------------------------------------------------------- targets that cannot be written


def test_a_model_that_cannot_be_written_is_said_before_training(folder):
    for path in ("missing/new.bin", "two.csv/new.bin", "/proc/new.bin"):
        line = fails(folder, 73, path, command=f"--train --dataset two.csv --model {path}")
        assert "cannot write" in line


def test_predictions_that_cannot_be_written(folder):
    fails(folder, 73, "missing/p.csv", command="--predict --dataset two.csv --model two.bin -o missing/p.csv")


def test_what_is_read_is_not_overwritten(folder):
    fails(folder, 2, "two.csv", command="--train --dataset two.csv --model two.csv")
    fails(folder, 2, "two.csv", command="--predict --dataset two.csv --model two.bin -o two.csv")
    for file in ("two.csv", "two.bin"):
        fails(folder, 2, file, command=f"--test --dataset two.csv --model two.bin --report {file}")
    fails(folder, 2, "--history h: the same file as --trace", command=f"{TRAIN} --trace h --history h")
    fails(folder, 2, "two.bin", command="--predict --dataset two.csv --model two.bin -o two.bin")
