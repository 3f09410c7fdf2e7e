"""What commands hand on: flags to what reads and computes, flags and figures to pages;
what they refuse before."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
from support.command_line import argv, run, succeed, write_two_classes

import nn
from nn.data import loading
from nn.pages import model_page
from nn.settings.flags import MODE_WORDS, flags_of_mode
from nn.study import bench, studies, sweep


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A table and models of it, of held-out rows and of folds."""
    folder = tmp_path_factory.mktemp("models")
    use = ("train", write_two_classes(folder / "two.csv", rows=200), "--epochs", 1)
    ways = {"held": ("--validation", 0.3), "folds": ("--folds", 2, "--holdout", 0)}
    for name, flags in ways.items():
        succeed(*use, "--layers", "2,1", "-m", folder / f"{name}.bin", *flags, "-q")
    return folder


def ending(seen):
    """What keeps what it is given, and ends the command."""

    def given(*values, **named):
        seen.append((*values, named))
        raise nn.DataError("read")

    return given


LAYOUT = {"target": "b", "separator": ";", "header": "no", "strict": True}
OF_FLAGS = {
    "load_for": LAYOUT | {"memory": 300 << 20},
    "held_out": {"memory": 300 << 20, "force": True},
    "training_dataset": {"memory": 300 << 20, "force": True},
}


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
        given = []
        model = "folds.bin" if reader == "training_dataset" else "held.bin"
        data = "--dataset two.csv" if reader == "load_for" else ""
        words = argv(command.format(model, data))
        with monkeypatch.context() as patch:
            patch.setattr(loading, reader, ending(given))
            assert run(*words, *flags) == (65, "", "nn: read\n"), reader
        known = flags_of_mode(MODE_WORDS[words[0]])
        expected = {name: v for name, v in OF_FLAGS[reader].items() if name in known}
        ((*_, options),) = given
        assert options | expected == options, reader
    asked = {"backend": "seq", "threads": 1, "dtype": "float64"}
    count = 2 if words[0] == "compare" else 1
    assert engines == [asked] * count * len(readers)


PAGES = {
    "test": "--threshold 0.25 --level 0.8",
    "explain": "--monitor accuracy --group_columns a,b --seed 3",
    "plot": "-o pictures",
}


@pytest.mark.parametrize("data", ["", "--dataset two.csv"])
@pytest.mark.parametrize("model", ["held.bin", "folds.bin"])
@pytest.mark.parametrize("command", PAGES)
def test_a_page_has_what_its_command_tells(models, monkeypatch, command, model, data):
    """The rows, how many of them are known, their drift, whether networks of folds
    judge them, the importance of columns; the threshold and the level."""
    monkeypatch.chdir(models)
    words = [model, *argv(data), *argv(PAGES[command]), "-q"]
    teller = "test" if command == "plot" else command
    told = succeed(teller, *words[: None if teller == command else -3], "--json").json
    given = []
    monkeypatch.setattr(model_page, "page_of_model", ending(given))
    assert run(command, *words, "--report", "r.html") == (65, "", "nn: read\n")
    ((_, name, ds, _, drawn),) = given
    assert (drawn["out_of_fold"] is not None) == (model == "folds.bin")
    assert name == model
    assert drawn["trained"].count == told["trained_rows"]
    if command == "explain":
        columns, curves = drawn["important"]
        expected = json.loads(json.dumps([vars(columns), curves]))
        assert expected == [told["importance"], told["curves"]]
    else:
        assert ds.rows == told["rows"]
    if command == "test":
        assert (drawn["threshold"], drawn["level"]) == (0.25, 0.8)
        assert (drawn["drift"] and drawn["drift"].to_dict()) == told["drift"]


def test_a_page_of_a_comparison_has_what_is_told_and_the_first_model(
    models, monkeypatch
):
    monkeypatch.chdir(models)
    words = argv("compare held.bin folds.bin --dataset two.csv --seed 3 -q")
    given = []
    monkeypatch.setattr(model_page, "page_of_comparison", ending(given))
    assert run(*words, "--report", "r.html") == (65, "", "nn: read\n")
    ((result, tested, about, _),) = given
    assert result == succeed(*words, "--json").json
    assert tested.net.crossed is None
    assert about == "rows"


MADE = SimpleNamespace(name="made")


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize(
    "command, runner, given",
    [
        ("bench a --backend seq --threads 3", (bench, "bench"), [["a"], "seq", 3]),
        ("sweep p.json:2 -o r.csv", (sweep, "sweep"), ["p.json:2", "r.csv"]),
        ("study made -o r.csv", (studies, "run"), [MADE, "r.csv"]),
    ],
)
def test_a_study_gets_the_flags_and_its_lines_are_for_a_person(
    folder, monkeypatch, capsys, command, runner, given, quiet
):
    seen = []
    monkeypatch.setattr(studies, "find", {"made": MADE}.get)
    monkeypatch.setattr(*runner, ending(seen))
    assert run(*argv(command), *["-q"] * quiet) == (65, "", "nn: read\n")
    ((*values, named),) = seen
    *flags, log = [*values, *named.values()]
    assert flags == given
    if log:
        log("a line")
    assert capsys.readouterr().err == ("" if quiet else "a line\n")


REFUSED = {
    "--report X.txt": "test N, explain N, info N, drift N D, compare N M, plot N -o pictures",
    "-o no/X.csv": "predict N D, explain N, sweep N, train D --folds 2",
    "-o no/X.bin": "threshold N 0.5",
    "-o X.onnx": "threshold N 0.5, sweep N",
    "-o X.txt": "export N",
    "--trace no/X.json": "predict N D, test N",
    "--checkpoint no/X.ck": "train D -m m.bin",
    "-m no/X.bin": "train D",
}


@pytest.mark.parametrize("output", REFUSED)
def test_an_output_that_cannot_be_is_refused_before_anything_is_read(folder, output):
    for command in REFUSED[output].split(", "):
        refused = run(*argv(command), *argv(output))
        assert refused.code == (73 if "no/" in output else 2), refused.err
        (line,) = refused.err.splitlines()
        assert "X." in line
        assert not refused.out
        assert os.listdir() == []
