"""The command line as a user types it: modes, files, what goes to stdout and what to
stderr."""

import json
import re

import pytest
from support.command_line import (
    ONE,
    REPOSITORY,
    argv,
    run,
    start,
    succeed,
    write_three_classes,
)

import nn
from nn.backends import TRAITS


def test_train_and_test_work_with_nothing_else_said(folder):
    data = REPOSITORY / "datasets" / "CC.csv"
    succeed(*ONE, "--dataset", data, "--model", "m.bin")
    result = succeed("--test", "--model", "m.bin", "--json").json
    # of the held-out fifth
    assert result["rows"] == 1000
    assert result["f1"] > 0.7
    assert (
        succeed("--info", "--model", "m.bin", "--json").json["layers"]
        == "30,60:relu,10:relu,1:sigmoid"
    )


def test_the_module_and_the_command_are_the_same_program(trained):
    process = start("--test", "--model", trained, "--json")
    assert (
        process.communicate()[0] == succeed("--test", "--model", trained, "--json").out
    )
    assert not process.returncode


def test_training_tells_its_figures_as_one_json_object(two):
    given = [*ONE, "--dataset", "two.csv", "--model", "m.bin", "--json"]
    result = succeed(*given, "--epochs", 3).json
    assert result["rows"] == 48
    assert result["holdout"] == 12
    assert result["epochs"] == 3
    assert result["model"] == "m.bin"
    assert len(result["loss"]) == len(result["val_loss"]) == 3
    result = succeed(*given, "--holdout", 0, "--epochs", 1).json
    assert result["rows"] == 60
    assert result["holdout"] == 0
    assert result["val_loss"] is None


def test_testing_several_classes_names_them(folder):
    write_three_classes(folder / "three.csv")
    succeed(*ONE, *argv("--dataset three.csv --model m.bin --epochs 1"))
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert list(figures["macro"]) == ["precision", "recall", "f1"]
    table = succeed("--test", "--model", "m.bin").out
    names = [row["class"] for row in figures["per_class"]]
    assert sorted(names) == ["blue", "green", "red"]
    for name, counts in zip(names, figures["confusion"], strict=True):
        assert re.search(
            rf"^{name} +" + " +".join(map(str, counts)) + "$", table, re.MULTILINE
        )
    assert re.search(rf"^accuracy +{figures['accuracy']:.4f}$", table, re.MULTILINE)


def test_the_first_lines_say_what_runs_on_which_data(two):
    result = succeed(
        *ONE, *argv("--dataset two.csv --model m.bin --backend seq --seed 5")
    )
    lines = result.err.splitlines()
    engine = f"nn {nn.__version__}: seq, 1 thread, float32, seed 5"
    assert lines[0] == f"{engine}; --networks replaces the choice of --effort"
    assert lines[1] == "two.csv: 60 rows x 2 inputs; binary, classes 0 (40), 1 (20)"
    assert lines[2] == "target Class (the last column; --target chooses)"
    text = argv("train two.csv -m m.m --activation sigmoid --epochs 1")
    first = succeed(*text).err.splitlines()[0]
    assert first.endswith("; a .m model replaces the choice of --effort")


@pytest.mark.parametrize("flags", [[], ["--intervals"]])
@pytest.mark.parametrize("classes", [5, 10])
def test_a_test_of_several_classes_fits_25_lines(folder, classes, flags):
    lines = []
    for k in range(200):
        lines.append(f"{k * k % 7},{k % 11},c{k % classes}")
    rows = "\n".join(lines)
    (folder / "many.csv").write_text(f"x,y,kind\n{rows}\n")
    succeed(*ONE, "--dataset", "many.csv", "--model", "m.bin", "--epochs", 1, "-q")
    out = succeed("--test", "--model", "m.bin", *flags).out
    assert len(out.splitlines()) <= 25
    assert "macro F1" in out
    assert ("most frequent errors" in out) == (classes == 10)


@pytest.mark.parametrize(
    "epochs, flags, message",
    [
        (12, [], [1, 3, 5, 7, 9, 11, 12]),
        (12, ["--verbose"], [*range(1, 13)]),
        (3, [], [1, 2, 3]),
    ],
)
def test_a_pipe_gets_plain_lines_of_some_epochs_and_of_all_if_verbose(
    two, epochs, flags, message
):
    _, out, err = succeed(
        *ONE, "--dataset", "two.csv", "--model", "m.bin", "--epochs", epochs, *flags
    )
    matches = re.findall(rf"^epoch +(\d+)/{epochs}  loss \d", err, re.M)
    assert [int(number) for number in matches] == message
    matches = re.findall("^epoch", err, re.M)
    assert len(matches) == len(message)
    assert "\x1b" not in err + out


@pytest.mark.parametrize(
    "given",
    [
        ["--epochs", 1000, "--networks", 1],
        ["--epochs", 100, "--networks", 1, "--validation", 0.3, "--refit"],
        argv(
            "--epochs 50 --networks 20 --vary learning_rate=1e-3..1e-2 --validation 0.3"
        ),
        ["--epochs", 50, "--folds", 4],
        ["--effort", "standard", "--epochs", 4],
    ],
    ids=lambda given: given[3],
)
def test_a_training_prints_at_most_thirty_lines_into_a_pipe(two, given):
    result = succeed("train", "two.csv", "-m", "m.bin", *given)
    lines = (result.err + result.out).splitlines()
    assert len(lines) <= 30
    *_, how_good, then = result.out.splitlines()
    assert re.search(
        r"loss [\d.e-]+.*; the class shares alone would have (log loss )?0.6\d+$",
        how_good,
    )
    assert then.startswith("next: ")


def test_the_flags_of_candidates_are_told_to_the_verbose(two):
    given = ["train", "two.csv", "-m", "m.bin", "--effort", "quick", "--epochs", 2]
    assert "--layers auto" not in succeed(*given).out
    assert "weight 1: --layers auto" in succeed(*given, "--verbose").out


@pytest.mark.parametrize(
    "given, step",
    [
        (["--epochs", 40], "nn test m.bin, nn predict m.bin DATA -o predictions.csv"),
        (
            ["--epochs", 40, "--holdout", 0],
            "nn test m.bin DATA, nn predict m.bin DATA -o predictions.csv",
        ),
        (
            ["--epochs", 1, "--learning_rate", 1e-9, "--seed", 1],
            "do what the warning says, and train again",
        ),
        (
            ["--dataset", REPOSITORY / "datasets" / "CC.csv"],
            "far below the held-out loss: try --validation 0.2 --patience 10, a larger --weight_decay",
        ),
    ],
    ids=["good", "without hold-out", "nothing learned", "by heart"],
)
def test_the_last_line_says_what_to_do_next(two, given, step):
    result = succeed(*ONE, "--model", "m.bin", "--dataset", "two.csv", *given)
    assert step in result.out.splitlines()[-1]


def test_quiet_says_nothing_but_the_result_that_goes_to_no_file(trained):
    result = succeed(*ONE, "--dataset", "two.csv", "--model", "n.bin", "--quiet")
    assert result == (0, "", "")
    _, out, err = succeed("--test", "--model", trained, "-q")
    assert "precision" in out
    assert err == ""
    writing = (
        "export m.bin -o m.c",
        "predict m.bin two.csv -o p.csv",
        "threshold m.bin 0.3 -o new.bin",
    )
    for command in writing:
        assert succeed(*argv(command), "-q") == (0, "", ""), command


def test_warnings_are_lines_of_their_own_on_stderr(folder):
    rows = []
    for i in range(20):
        rows.append(f"{i},7,{i % 2}\n")
    text = "a,b,c\n" + "".join(rows)
    (folder / "constant.csv").write_text(text)
    err = succeed(
        "--train", "--dataset", "constant.csv", "--model", "m.bin", "--epochs", 1
    ).err
    assert [
        line
        for line in err.splitlines()
        if line.startswith("nn: warning: 1 of 2 features")
    ]


def test_a_flag_that_a_mode_does_not_read_is_said_to_be_ignored(trained):
    messages = succeed(
        "--test", "--model", trained, "--epochs", 3, "--checkpoint", "c.ck"
    ).err
    for flag in ("epochs", "checkpoint"):
        assert f"nn: warning: --{flag} has no effect with --test; ignored" in messages


def test_verbose_names_the_kernels_of_each_layer_and_nothing_else_does(two):
    files = ("--dataset", "two.csv", "--model", "m.bin")
    flags = ("--train", *files, "--epochs", 1, "--layers", "2,5,1", "--backend", "omp")
    lines = succeed(*flags, "--verbose").err.splitlines()
    routes = [line for line in lines if line.startswith("layer ")]
    assert [line.split(":")[0] for line in routes] == ["layer 0 5", "layer 1 1"]
    for line in routes:
        assert line.split(": ")[1]
    assert "layer 0" not in succeed(*flags).err


# ---------------------------------------------------------------- model files


def test_the_same_seed_gives_the_same_file_whatever_is_displayed(two):
    given = [*ONE, "--dataset", "two.csv", "--epochs", 3]
    succeed(*given, "--model", "a.bin", "--seed", 3)
    succeed(*given, "--model", "b.bin", "-s", 3, "--json", "--quiet", "--threads", 2)
    succeed(*given, "--model", "c.bin", "-s", 4)
    a, b, c = [(two.parent / f"{name}.bin").read_bytes() for name in "abc"]
    assert a == b
    assert a != c


def test_info_shows_layers_shapes_and_parameters(trained):
    text = succeed("--info", "--model", trained, "--verbose").out
    for line in (r"0  60 +relu +60 +180", r" +total +801", r"inputs +a, b"):
        assert re.search(f"^{line}$", text, re.MULTILINE), line
    figures = succeed("--info", "--model", trained, "--json").json
    assert figures["parameters"] == 801
    assert figures["classes"] == ["0", "1"]
    assert figures["config"]["epochs"] == 30


def test_info_describes_a_network_that_is_not_trained_yet():
    assert (
        succeed("--info", "--layers", "30,60,10,1", "--json").json["parameters"] == 2481
    )
    given = ("--info", "--layers", "30,60,1", "--task", "binary", "--json")
    for flags, name in ((), "relu"), (("--activation", "tanh"), "tanh"):
        facts = succeed(*given, *flags).json
        assert facts["layers"] == f"30,60:{name},1:sigmoid"
    text = succeed(
        *argv(
            "--info --layers 1x28x28,conv4k2same,maxpool4,dropout0.5,128,10 --task multiclass"
        )
    ).out
    for line in (
        "0  conv4k2same +relu +4x28x28 +20",
        "2  dropout0.5 +4x7x7 +0",
        "5  10 +softmax +10 +1,290",
    ):
        assert re.search(f"^{line}$", text, re.MULTILINE), line


def test_info_tells_the_memory_and_operations_of_a_batch():
    """By hand: 30,60,10,1 has 2481 parameters, 71 outputs a row and 2410 products."""
    layers = ("--info", "--layers", "30,60,10,1", "--batch_size", 100)
    batch = succeed(*layers, "--json").json["batch"]
    assert batch["bytes"] == {
        "parameters": 4 * 2481,
        "gradients": 4 * 2481,
        "moments": 2 * 4 * 2481,
        "activations": 4 * 100 * 71,
        "activation_gradients": 4 * 100 * 71,
        "batch": 4 * 100 * (30 + 1),
    }
    assert batch["multiply_adds"] == [100 * 1800, 100 * 600, 100 * 10]
    given = ("--optimizer", "sgd", "--dtype", "float64", "--json")
    batch = succeed(*layers, *given).json["batch"]
    assert batch["bytes"]["moments"] == 0
    assert batch["bytes"]["parameters"] == 8 * 2481
    momentum = ("--optimizer", "sgd", "--momentum", "0.9", "--json")
    batch = succeed(*layers, *momentum).json["batch"]
    assert batch["bytes"]["moments"] == 4 * 2481
    taken = []
    for backend in ("auto", "seq", "cuda"):
        batch = succeed(*layers, "--backend", backend, "--json").json["batch"]
        assert batch["backend"] == backend.replace("auto", "omp")
        taken.append(batch["training_bytes"])
    on_gpu = TRAITS["cuda"].base_bytes - TRAITS["seq"].base_bytes
    assert [more - taken[0] for more in taken] == [0, 0, on_gpu]
    text = succeed(*layers, "--memory", "1G", "--backend", "seq", *given[:-1]).out
    for line in (
        r"0  60 +180,000 +74.7%",
        r"parameters +19.4 KiB",
        "largest batch .*",
        "memory, float64, sgd",
        "a training takes .* beside its rows, by seq: .*",
    ):
        assert re.search(f"^{line}$", text, re.MULTILINE), line
    assert "batch" not in succeed(*layers[:3], "--json").json


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_largest_batch_that_info_names_trains_and_one_more_row_does_not(
    two, folder, dtype
):
    layers = ("--layers", "2,300,300,1", "--dtype", dtype, "--memory", "150M")
    figures = succeed("--info", *layers, "--batch_size", 1, "--json").json
    largest = figures["batch"]["largest_batch"]
    assert largest > 1000
    train = ("--train", "--dataset", two, "--model", "m.bin", "--epochs", 1, *layers)
    # what the file's rows take beside it is less than that of a hundred rows
    succeed(*train, "--backend", "omp", "--batch_number", largest - 100)
    refused = run(*train, "--backend", "omp", "--batch_number", largest + 1)
    assert refused.code == 2
    assert "--memory" in refused.err
    too_little = succeed(
        "--info", "--layers", "2,300,300,1", "--batch_size", 1, "--memory", "20M"
    )
    assert re.search("largest batch +none", too_little.out)


def test_a_dense_sigmoid_network_is_written_as_text_that_works_on_raw_data(two):
    given = argv(
        "--activation sigmoid --dtype float64 --epochs 40 --learning_rate 0.01"
    )
    messages = []
    for model in ("m.bin", "m.m"):
        succeed(*ONE, "--dataset", "two.csv", *given, "--model", model)
        result = succeed("--test", "--model", model, "--dataset", "two.csv", "--json")
        messages.append(result.json)
    assert (two.parent / "m.m").read_text().startswith("4\n2 60 10 1 \n")
    assert [message.pop("target") for message in messages] == ["Class", None], (
        "a file of text knows no names"
    )
    assert [message.pop("trained_rows") for message in messages] == [48, None], (
        "nor its rows"
    )
    assert [message.pop("drift") is None for message in messages] == [False, True]
    expected = pytest.approx(messages[0], rel=1e-9)
    assert messages[1] == expected


def test_reference_writes_the_originals_file_and_tests_it_with_its_scaling(
    golden, folder
):
    stored = golden("iris") / "iris.json"
    facts = json.loads(stored.read_text())
    data = stored.parent / facts["dataset"]
    layers = ",".join(map(str, facts["layers"]))
    given = [
        (f"--{name}", facts[name])
        for name in ("seed", "epochs", "batch_number", "learning_rate")
    ]
    use = ["--reference", "--dataset", data, "--model", "iris.m"]
    scaling = ["--scaling", facts["scaling"]]
    succeed(
        "--train",
        *use,
        "--layers",
        layers,
        *(part for pair in given for part in pair),
        *scaling,
    )
    assert (folder / "iris.m").read_bytes() == stored.with_suffix(".m").read_bytes()
    scaled = succeed("--test", *use, "--json", *scaling).json
    plain = succeed("--test", *use, "--json", *[]).json
    assert scaled["rows"] == plain["rows"] == 150
    assert scaled["accuracy"] > plain["accuracy"]


@pytest.mark.parametrize(
    ("asked", "message", "key"),
    [
        ([], "target Class (the last column; --target chooses)", "Class"),
        (["--target", "a"], "target a", "a"),
        (["--target", "0"], "target a", "a"),
    ],
)
def test_the_target_is_named_in_the_first_lines_and_in_json(
    folder, asked, message, key
):
    fields = []
    for i in range(60):
        fields.append(f"{i % 3},{i * i % 7 + 0.5},{'uv'[i % 2]}\n")
    rows = "".join(fields)
    (folder / "t.csv").write_text("a,b,Class\n" + rows)
    trained = succeed(
        *ONE, "--dataset", "t.csv", "--model", "m.bin", "--epochs", 1, *asked
    )
    tested = succeed("--test", "--model", "m.bin", "--report", "r.md")
    cases = (trained.err.splitlines()[:4], tested.err.splitlines()[:4])
    for lines in cases:
        assert lines.count(message) == 1
    output = succeed("--info", "--model", "m.bin").out
    assert output.splitlines()[0] == message
    assert f"It predicts the {message}." in (folder / "r.md").read_text()
    succeed("--info", "--model", "m.bin", "--report", "i.md")
    assert f"({message})" in (folder / "i.md").read_text()
    again = (*ONE, *argv("--dataset t.csv --model m.bin --epochs 1"), *asked, "--json")
    modes = (
        again,
        ("--test", "--model", "m.bin", "--json"),
        ("--info", "--model", "m.bin", "--json"),
    )
    for mode in modes:
        assert succeed(*mode).json["target"] == key
    model = nn.Model.load("m.bin")
    assert model.test("t.csv")["target"] == key


def test_targets_without_names_and_several_of_them_are_named(folder):
    rows = []
    for i in range(60):
        rows.append(f"{i % 2},{i * 0.5},{i * i % 11}.25\n")
    text = "".join(rows)
    (folder / "n.csv").write_text(text)
    ways = (
        ([], "target the last column (--target chooses)", None),
        (["--target", 0], "target column 0", "0"),
    )
    for asked, message, key in ways:
        call = (*ONE, "--dataset", "n.csv", "--model", "n.bin", "--epochs", 1, *asked)
        assert message in succeed(*call).err.splitlines()
        target = succeed(*call, "--json").json["target"]
        assert str(target) == str(key)
    lines = []
    for i in range(60):
        lines.append(f"{i},{i * 0.5},{i * i % 11}.25\n")
    text = "a,y,z\n" + "".join(lines)
    (folder / "s.csv").write_text(text)
    call = (*ONE, *argv("--dataset s.csv --model s.bin --epochs 1 --target y,z"))
    errors = succeed(*call).err
    assert "targets y and z" in errors or "targets y, z" in succeed(*call).err
    figures = succeed("--test", "--model", "s.bin", "--json").json
    assert figures["target"] == ["y", "z"]
