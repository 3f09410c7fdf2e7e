"""What a user may get wrong: one line that helps, the right exit code, nothing changed
on disk."""

import gzip
import shutil

import numpy as np
import pytest
from support.command_line import (
    ONE,
    argv,
    run,
    succeed,
    write_numbers,
    write_three_classes,
    write_two_classes,
)

import nn

TABLES = {  # files that hold no table to train on, or not the one of a model
    "empty.csv": "",
    "blank.csv": "\n\n",
    "head.csv": "a,b,Class\n",
    "thin.csv": "7\n8\n9\n",
    "short.csv": "a,b,Class\n1,2,0\n3,4\n5,6,1\n",
    "long.csv": "a,b,Class\n1,2,0\n3,4,1,7\n5,6,1\n",
    "inf.csv": "a,b,Class\n1,2,0\ninf,4,1\n",
    "huge.csv": "a,b,Class\n1,2,0\n3,1e999,1\n",
    "gap.csv": "a,b,Class\n1,2,0\n3,4,\n",
    "gaps.csv": "a,b,Class\n1,2,\n3,4,\n",
    "same.csv": "a,b,Class\n1,2,0\n3,4,0\n",
    "bytes.csv": "\x00\x01\x02\x03\n\x04\n",
    "word.csv": "a,b,Class\n" + 20 * "1,2,0\n" + "3,four,1\n",
    "wide.csv": "1,2,3,0\n4,5,6,1\n",
    "named.csv": "a,b,c,d\n1,2,3,0\n4,5,6,1\n",
    "other.csv": "x,y,colour\n1,2,red\n3,4,yellow\n",
}
MODELS = {  # what became of a model
    "nothing": lambda good: b"",
    "cut": lambda good: good[:-1],
    "longer": lambda good: good + b"\0",
    "flipped": lambda good: good[:-9] + bytes([good[-9] ^ 1]) + good[-8:],
    "table": lambda good: TABLES["wide.csv"].encode(),
    "pickle": lambda good: (
        b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n."
    ),
    "gzip": gzip.compress,
}
TEXT_MODELS = {
    "cut": lambda good: good[:-3],
    "short": lambda good: good[: good.rindex(b"\n", 0, -1) + 1],
    "word": lambda good: good.replace(b"60", b"x", 1),
}
TRAIN = "--train --dataset two.csv --model new.bin"
ON_TWO = "--dataset two.csv --model two.bin"
OF_REFERENCE = [
    "--backend omp",
    "--dtype float32",
    "--optimizer adam",
    "--activation relu",
    "--loss bce",
    "--init he",
    "--momentum 0.9",
    "--betas 0.9,0.999",
    "--epsilon 1e-8",
    "--weight_decay 0.1",
    "--schedule cosine",
    "--layers 2,4:relu,1",
]
NAMES = {
    "optimizer": "adam",
    "activation": "relu",
    "loss": "bce",
    "init": "glorot",
    "schedule": "cosine",
    "scaling": "pixel",
    "task": "multiclass",
    "backend": "omp",
    "dtype": "float64",
}
NO_POSITIVE = ["0", "-1", "nan", "inf", "-inf", "ten", "1e400", "''"]
TOO_LARGE = "99999999999999999999999"
WRONG_NUMBERS = {  # flag -> values out of its range
    "epochs": [*NO_POSITIVE, "2.5", "1e3", TOO_LARGE],
    "batch_number": [*NO_POSITIVE, TOO_LARGE],
    "threads": [*NO_POSITIVE, TOO_LARGE],
    "learning_rate": NO_POSITIVE,
    "seed": ["-1", "4294967296", "1.5", "x", TOO_LARGE],
    "holdout": ["-0.1", "1", "nan", "x"],
    "momentum": ["-0.1", "1", "inf"],
    "betas": ["-0.1,0.9", "0.9,1", "nan,0", "x", "0.1,", "0.1,0.2,0.3", "''"],
    "epsilon": [*NO_POSITIVE, "1e-38", "1e38"],
    "weight_decay": ["-1", "nan", "inf"],
    "threshold": ["nan", "inf", "half"],
    "memory": ["0", "-1G", "nan", "inf", "1e400", "10X", "G"],
}
MODES = [
    "--train --model new.bin",
    "--test --model two.bin",
    "--predict --model two.bin",
]
ON_MODEL = ["--test --dataset two.csv", "--predict --dataset two.csv", "--info"]
NOT_WRITTEN = ["missing/new.bin", "two.csv/new.bin", "/proc/new.bin"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with good data sets, models of them, and files that are neither."""
    folder = tmp_path_factory.mktemp("prepared")
    cases = (
        (write_two_classes, "two"),
        (write_three_classes, "three"),
        (write_numbers, "numbers"),
    )
    for write, name in cases:
        data = write(folder / f"{name}.csv")
        path = folder / f"{name}.bin"
        succeed("--train", "--dataset", data, "--model", path, "--epochs", 1)
    flags = ["--epochs", 1, "--activation", "sigmoid"]
    succeed(
        "--train", "--dataset", folder / "two.csv", "--model", folder / "two.m", *flags
    )
    for name, text in TABLES.items():
        (folder / name).write_text(text)
    for damages, suffix in ((MODELS, "bin"), (TEXT_MODELS, "m")):
        for name, damage in damages.items():
            path = folder / f"two.{suffix}"
            content = damage(path.read_bytes())
            path = folder / f"{name}.{suffix}"
            path.write_bytes(content)
    content = gzip.compress((folder / "two.csv").read_bytes())[:-20]
    (folder / "cut.csv.gz").write_bytes(content)
    (folder / "sub").mkdir()
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """The current folder: a copy of the prepared one."""
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def contents(folder) -> dict:
    return {
        file.name: file.read_bytes() if file.is_file() else None
        for file in sorted(folder.iterdir())
    }


def fails(folder, code: int, *words: str, command: str) -> str:
    """Run the command, which must end with this code and a line with these words, and
    change no file; returns the line."""
    before = contents(folder)
    result = run(*command.split())
    *warnings, last = result.err.splitlines() or [""]
    assert result.code == code, result.err
    assert last.startswith("nn: "), result.err
    assert "Traceback" not in result.err, result.err
    assert result.out == ""
    assert contents(folder) == before
    for word in words:
        assert word in last, last
    assert code != 2 or not warnings, result.err
    return last


@pytest.mark.parametrize(
    "command, words",
    [
        ("--dataset two.csv --model two.bin", ["--train"]),
        ("--train --test --dataset two.csv --model new.bin", ["--train and --test"]),
        (
            "--test --info --predict --model two.bin",
            ["--test and --predict and --info"],
        ),
        ("--train --dataset two.csv", ["--model"]),
        ("--train --model new.bin", ["--train needs --dataset"]),
        ("--info --model two.bin --batch_size 9", ["--batch_size: ", "of --layers"]),
        ("--test --dataset two.csv", ["--model"]),
        ("--predict --model two.bin", ["--dataset"]),
        ("--info", ["--model"]),
        (f"{TRAIN} --epoch 3", ["--epoch:", "did you mean --epochs?"]),
        (f"{TRAIN} --batchnumber 3", ["did you mean --batch_number?"]),
        (f"{TRAIN} --learning-rates 3", ["did you mean --learning_rate?"]),
        (f"{TRAIN} --zzzz", ["--zzzz", "--help"]),
        (f"{TRAIN} -x", ["-x"]),
        (f"{TRAIN} banana", ["banana", "--help"]),
        (
            "tran --dataset two.csv",
            ["unexpected argument tran", "did you mean nn train?"],
        ),
        (
            "--train two.csv",
            ["unexpected argument two.csv", "did you mean --dataset two.csv?"],
        ),
        ("--test two.bin --quiet", ["did you mean --model two.bin?"]),
        ("--predict --model two.bin two.csv", ["did you mean --dataset two.csv?"]),
        (
            "train two.csv other.csv -m new.bin",
            ["unexpected argument other.csv", "train two.csv,other.csv"],
        ),
        ("threshold two.bin f1 two.csv x -o n.bin", ["; nn threshold takes --model"]),
        (
            "test two.bin two.csv more",
            ["unexpected argument more", "--model --dataset"],
        ),
        ("train two.csv new.bin", ["did you mean --model new.bin?"]),
        ("export two.bin new.c", ["did you mean --output new.c?"]),
        ("fit two.csv", ["did you mean nn train?"]),
        ("sweep -o new.csv", ["nn sweep needs PLAN -o FILE"]),
        (f"{TRAIN} --lr 3", ["--lr:", "did you mean --learning_rate?"]),
        (f"{TRAIN} --random-state 3", ["did you mean --seed?"]),
        (f"{TRAIN} --epochs", ["--epochs"]),
        ("--train --dataset two.csv --model --json", ["--model", "--json"]),
        (f"{TRAIN} --json=yes", ["--json"]),
        (f"{TRAIN} --quiet --verbose", ["--quiet", "--verbose"]),
        *(
            (f"{TRAIN} --{flag} nonsense", [f"--{flag} nonsense", flags])
            for flag, flags in NAMES.items()
        ),
        *((f"{TRAIN} --reference {other}", ["--reference"]) for other in OF_REFERENCE),
        (f"{TRAIN} --reference --batch_number 61", ["--batch_number 61", "60"]),
        (f"{TRAIN} --momentum 0.9", ["--momentum", "sgd"]),
        (f"{TRAIN} --betas 0.9", ["--betas 0.9", "2 numbers of adam", "is adam"]),
        (f"{TRAIN} --optimizer adagrad --betas 0.9", ["--betas 0.9", "is adagrad"]),
        (
            f"{TRAIN} --optimizer sgd --epsilon 0.1",
            ["--epsilon", "adam, rmsprop or adagrad", "sgd"],
        ),
        (f"{TRAIN} --activation step", ["step", "slope", "sigmoid"]),
        (f"{TRAIN} --layers 2,4:step,1", ["4:step", "slope", "sigmoid"]),
        (f"{TRAIN} --loss ce", ["--loss ce"]),
        (
            f"{TRAIN} --loss tweedie=2",
            ["--loss tweedie=2", "tweedie=P with 1.001 <= P"],
        ),
        (f"{TRAIN} --loss huber=", ["--loss huber=", "huber=D"]),
        (f"{TRAIN} --loss mse=1", ["--loss mse=1", "focal=G"]),
        (f"{TRAIN} --loss poisson --task binary", ["--loss poisson", "exp", "sigmoid"]),
        (
            "--train --dataset three.csv --model new.bin --layers 2,4,2",
            ["--layers 2,4,2", "3 classes"],
        ),
        (
            "--train --dataset two.csv --model new.m",
            [".m", "relu", "--activation sigmoid"],
        ),
        (
            "--train --dataset two.csv --model new.m --layers 2,4:tanh,1:sigmoid",
            [".m", "tanh"],
        ),
        (
            "--train --dataset two.csv --model new.m --task regression --activation sigmoid",
            [".m", "linear"],
        ),
        *(
            (
                f"--train --dataset two.csv --model new.m {flag}",
                [f"{flag}: a .m file holds one network"],
            )
            for flag in ("--networks 2", "--folds 2", "--effort quick")
        ),
        *(
            (f"{TRAIN} {flag} {alone}", [f"{flag}: --{name} is for one network"])
            for flag in ("--networks 2", "--folds 2")
            for name, alone in (("profile", "--profile"), ("trace", "--trace t.json"))
        ),
        (f"{TRAIN} --layers 2,1 -o o.csv", ["--output o.csv: ", "--folds F there"]),
        ("export two.bin -o new.c --threshold 0.3", ["--threshold 0.3: is not for"]),
        ("predict two.bin two.csv --profile", ["--profile: the pred", "--json"]),
        (f"--test {ON_TWO} --scaling none", ["--scaling: the model already stores"]),
        (f"{TRAIN} --target Clas", ["--target Clas", "did you mean Class?"]),
        (f"{TRAIN} --target 3", ["--target 3", "3 columns"]),
        (f"{TRAIN} --target -4", ["--target -4"]),
        # what is read is not overwritten
        ("--train --dataset two.csv --model two.csv", ["two.csv"]),
        (f"--predict {ON_TWO} -o two.csv", ["two.csv"]),
        (f"--predict {ON_TWO} -o two.bin", ["two.bin"]),
        (f"--test {ON_TWO} --report two.csv", ["two.csv"]),
        (f"--test {ON_TWO} --report two.bin", ["two.bin"]),
        (f"{TRAIN} --trace h --history h", ["--history h: the same file as --trace"]),
    ],
)
def test_wrong_use_is_one_line(folder, command, words):
    fails(folder, 2, *words, command=command)


@pytest.mark.parametrize("flag", WRONG_NUMBERS)
def test_numbers_out_of_their_range(folder, flag):
    for value in WRONG_NUMBERS[flag]:
        command = f"{TRAIN} --{flag} {value}"
        fails(folder, 2, f"--{flag} {value}", "expected", command=command)


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
        ("1x5x5,conv4k9,1", ["--layers", "conv4k9", "1x5x5"]),
        ("2,99999999999,1", ["--layers"]),
        ("2," + "1," * 10000 + "1", ["--layers: 10002 items"]),
    ],
)
def test_layers_that_do_not_fit(folder, layers, words):
    command = f"{TRAIN} --layers {layers}"
    fails(folder, 2, *words, command=command)


@pytest.mark.parametrize(
    "code, command, words",
    [
        *((66, f"{mode} --dataset none.csv", ["none.csv"]) for mode in MODES),
        *((66, f"{mode} --model none.bin", ["none.bin"]) for mode in ON_MODEL),
        *(
            (65, f"{mode} --model {name}.bin", [f"{name}.bin"])
            for mode in ON_MODEL
            for name in MODELS
        ),
        *(
            (65, f"--test --dataset two.csv --model {name}.m", [f"{name}.m"])
            for name in TEXT_MODELS
        ),
        (65, "--info --model sub", ["sub", "folder"]),
        (65, "--test --dataset named.csv --model two.bin", ["named.csv"]),
        (65, "drift two.csv two.bin", ["the order is nn drift two.bin two.csv"]),
        (
            65,
            "--test --dataset wide.csv --model two.bin",
            ["wide.csv", "4 columns", "expected"],
        ),
        (
            65,
            "--predict --dataset wide.csv --model two.bin",
            ["wide.csv", "4 columns", "expected"],
        ),
        (
            65,
            "--test --dataset other.csv --model three.bin",
            ["other.csv", "row 3", "yellow"],
        ),
        (
            1,
            "--train --dataset numbers.csv --model new.bin --optimizer sgd --learning_rate 1e30",
            ["loss is nan at epoch 1", "--learning_rate"],
        ),
        (73, "--train --dataset two.csv --model sub", ["sub", "folder"]),
        *(
            (73, f"--train --dataset two.csv --model {path}", ["cannot write", path])
            for path in NOT_WRITTEN
        ),
        (73, f"--predict {ON_TWO} -o missing/p.csv", ["missing/p.csv"]),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(folder, code, command, words):
    line = fails(folder, code, *words, command=command)
    is_exchanged = command.endswith("two.csv two.bin")
    assert ("the order is" in line) == is_exchanged


@pytest.mark.parametrize(
    "data, words",
    [
        ("empty.csv", ["empty"]),
        ("blank.csv", []),
        ("head.csv", ["header"]),
        ("thin.csv", ["1 column"]),
        ("short.csv", ["row 3", "2 columns", "expected 3"]),
        ("long.csv", ["row 3", "4 columns", "expected 3"]),
        ("inf.csv", ["row 3", "column a", "inf"]),
        ("huge.csv", ["row 3", "column b", "1e999"]),
        ("gap.csv", ["column Class", "only class 0"]),
        ("gaps.csv", ["no row has a target", "gap"]),
        ("same.csv", ["class 0"]),
        ("bytes.csv", []),
        ("cut.csv.gz", []),
        ("word.csv --strict", ["row 22", "column b", "four"]),
        ("word.csv --layers 2,1 --reference", ["row 22", "column b", "four"]),
    ],
)
def test_a_data_set_that_cannot_be_trained_on(folder, data, words):
    fails(
        folder,
        65,
        data.split()[0],
        *words,
        command=f"--train --model new.bin --dataset {data}",
    )


def test_outputs_that_no_class_belongs_to_are_refused(folder):
    for name, labels in {"two": "01", "three": "uvw"}.items():
        lines = []
        for i in range(60):
            lines.append(f"{i % 7},{i % 5},{labels[i % len(labels)]}\n")
        rows = "".join(lines)
        path = folder / f"{name}.csv"
        path.write_text("a,b,y\n" + rows)
        count = len(labels)
        message = f"column y: {count} classes, expected 16, one per output of the network; let --layers end in {count}"
        refused = run(
            *argv(f"--train --dataset {name}.csv --layers auto,16 --model m.bin")
        )
        assert refused.code in (2, 65)
        assert message in refused.err
        assert not (folder / "m.bin").exists()
        ds = nn.load(f"{name}.csv")
        with pytest.raises(
            nn.NnError, match="let .*layers end in 3|a binary task has 1 output, not 16"
        ):
            nn.train(nn.Network.for_data(ds, "auto,16"), ds)
        with pytest.raises(nn.NnError, match=f"{count} classes, expected 16"):
            nn.fit(f"{name}.csv", layers="auto,16")
    b = [i % 7 for i in range(60)]
    y = [i % 3 for i in range(60)]
    columns = {"a": list(range(60)), "b": b, "y": y}
    numbers = nn.load(columns)
    with pytest.raises(
        nn.DataError,
        match="3 classes, expected 5, one per output of the network; let .* end in 3",
    ):
        nn.train(nn.Network("2,5", "multiclass"), numbers, epochs=1)
    with pytest.raises(nn.DataError, match="3 classes, expected 5"):
        nn.train_many(numbers, [{"layers": "2,5"}], epochs=1)
    nn.train(nn.Network("2,3", "multiclass"), numbers, epochs=1)


def test_a_network_for_other_rows_is_told_with_its_numbers_and_those_of_the_rows():
    words = {"a": ["u", "v"] * 30, "b": ["w"] * 20 + ["x"] * 40}
    labels = nn.load(words | {"y": [0, 1, 1] * 20})
    rows = np.random.default_rng(0).normal(size=(60, 5))
    numbers = nn.Dataset(rows[:, :2], rows[:, 2:], "regression")
    cases = [
        ("3,1", labels, "--layers: the network has 3 inputs, .* has 2 per row"),
        ("2,1:linear", labels, "the data is binary, the network is regression"),
        ("2,2:linear", numbers, "--layers: 2 outputs, but .* has 3 targets"),
    ]
    for layers, ds, message in cases:
        task = "regression" if "linear" in layers else "binary"
        with pytest.raises(nn.UsageError, match=message):
            nn.train(nn.Network(layers, task), ds, epochs=1)
    with pytest.raises(nn.DataError, match="has 2 inputs per row, the network has 3"):
        nn.Network("3,1").predict(rows[:, :2])
    trained = nn.Network("2,1", "binary")
    nn.train(trained, labels, epochs=1)
    message = "the network has 3 inputs, the table has 2 columns of features"
    with pytest.raises(nn.UsageError, match=message):
        nn.Network("3,1", "binary").facts = trained.facts


def test_an_estimator_with_more_outputs_than_a_fold_has_classes_is_refused():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = np.arange(60) % 4
    with pytest.raises(
        ValueError, match="3 classes, expected 4, one per output of the network"
    ):
        nn.NetworkClassifier(layers="auto,8,4", epochs=1).fit(x[y < 3], y[y < 3])
    estimator = nn.NetworkClassifier(layers="auto,8,4", epochs=1).fit(x, y)
    assert estimator.predict_proba(x).shape == (60, 4)


@pytest.mark.parametrize("threshold", ["1.5", "-0.25"])
def test_a_threshold_that_no_score_can_have_is_refused(two, threshold):
    message = f"--threshold {threshold}: the scores are from 0 to 1"
    refused = run(
        *ONE,
        *argv("--dataset two.csv --model m.bin --epochs 1"),
        f"--threshold={threshold}",
    )
    assert refused.code == 2
    assert message in refused.err
    assert refused.err.count("\n") <= 3
    chosen = run(
        *argv("--train --dataset two.csv --model m.bin --effort quick"),
        f"--threshold={threshold}",
    )
    assert chosen.code == 2
    assert message in chosen.err
    succeed(*ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", 1)
    for mode in ("--test", "--predict"):
        refused = run(
            mode, "--model", "m.bin", "--dataset", "two.csv", f"--threshold={threshold}"
        )
        assert refused.code == 2
        assert message in refused.err
        assert refused.out == ""
    with pytest.raises(nn.UsageError, match="scores are from 0 to 1"):
        nn.Model.load("m.bin").test("two.csv", threshold=float(threshold))
    exported = run("--export", "--model", "m.bin", "-o", "m.c", "--threshold", 0.3)
    assert exported.code == 2
    assert "not for --export" in exported.err
    assert "train with it" in exported.err


def test_a_threshold_for_other_tasks_than_two_classes_is_refused(folder):
    for name, labels in {
        "three": ["u", "v", "w"],
        "number": [0.5, 1.25, 3.75, 9.5],
    }.items():
        lines = []
        for i in range(60):
            lines.append(f"{i},{i * i % 11},{labels[i % len(labels)]}\n")
        rows = "".join(lines)
        path = folder / f"{name}.csv"
        path.write_text("a,b,y\n" + rows)
        message = "is for two classes, the task is "
        refused = run(
            *ONE,
            *argv(f"--dataset {name}.csv --model m.bin --epochs 1 --threshold 0.3"),
        )
        assert refused.code == 2
        assert message in refused.err
        assert not (folder / "m.bin").exists()
        succeed(
            *ONE, "--dataset", f"{name}.csv", "--model", f"{name}.bin", "--epochs", 1
        )
        for mode in ("--test", "--predict"):
            refused = run(
                mode, *argv(f"--model {name}.bin --dataset {name}.csv --threshold 0.5")
            )
            assert refused.code == 2
            assert message in refused.err
            assert refused.out == ""
        with pytest.raises(nn.UsageError, match=message):
            nn.test(nn.Network.load(f"{name}.bin"), f"{name}.csv", threshold=0.4)


@pytest.mark.parametrize(
    "flags",
    [["--networks", 1, "--validation", 0.2], ["--folds", 3], ["--effort", "quick"]],
)
def test_calibration_beside_weights_of_classes_is_refused(two, flags):
    asked = ["--calibrate", "temperature", "--class_weight", "balanced"]
    refused = run("--train", "--dataset", "two.csv", "--model", "m.bin", *flags, *asked)
    assert refused.code == 2
    assert "--calibrate temperature beside --class_weight balanced" in refused.err
    assert "leave one of them out" in refused.err
    assert "candidate" not in refused.err


def test_a_shipped_table_is_looked_for_where_it_is(folder, datasets):
    """As somebody types it who has just fetched the project."""
    (folder / "datasets").symlink_to(datasets)
    for words in (("--train", "--dataset", "CC.csv"), ("train", "CC.csv")):
        result = run(*words, "-m", "m.bin")
        assert result.code == 66
        line = "nn: CC.csv: no such file or folder; did you mean datasets/CC.csv?"
        assert result.err.splitlines()[-1] == line
    # of a name in other letters and one with a suffix the first
    for name, meant in (("DATA.csv", "DATA.csv"), ("data", "data")):
        (folder / name).write_text("a,b\n1,2\n")
        line = f"nn: dAtA: no such file or folder; did you mean {meant}?"
        assert run("train", "dAtA", "-m", "m.bin").err.splitlines()[-1] == line
    missing = run("--train", "--dataset", "qqq.zz", "-m", "m.bin")
    assert missing.err.strip().endswith(
        "qqq.zz: no such file or folder; check the path"
    )
