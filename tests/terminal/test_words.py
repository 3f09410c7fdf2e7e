"""What people type who know other programs, or slip: each gets an answer in the words
they typed, with what they meant."""

import pytest

import nn
from tests.support.command_line import run, succeed

pandas = pytest.importorskip("pandas", reason="rows as a Series need pandas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with iris.csv, the same under names spelled otherwise, and a model."""
    folder = tmp_path_factory.mktemp("words")
    lines = []
    for k in range(40):
        lines.append(f"{k},{k % 7},setosa")
        lines.append(f"{k + 60},{k % 9},virginica")
        lines.append(f"{3 * k},{k % 4},versicolor")
    rows = "\n".join(lines) + "\n"
    (folder / "iris.csv").write_text(f"sepal_length,petal_length,kind\n{rows}")
    (folder / "dots.csv").write_text(f"Sepal.Length,PETAL LENGTH,kind\n{rows}")
    (folder / "other.csv").write_text(f"Sepal.Length,width,kind\n{rows}")
    given = ["--layers", "auto,4,3", "--epochs", 1]
    succeed("train", folder / "iris.csv", "-m", folder / "m.bin", *given)
    return folder


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


TRAIN = ("train", "iris.csv", "-m", "x.bin")


@pytest.mark.parametrize(
    "words, answer",
    [
        ((*TRAIN, "--dropout", "0.2"), "dropout0.2 among --layers"),
        ((*TRAIN, "--metric", "f1"), "did you mean --monitor?"),
        ((*TRAIN, "--scoring", "f1"), "did you mean --monitor?"),
        ((*TRAIN, "--eval_metric", "f1"), "did you mean --monitor?"),
        ((*TRAIN, "--time_limit", "60"), "did you mean --effort?"),
        ((*TRAIN, "--layers", "64,32"), "did you mean auto,64,32,3?"),
        ((*TRAIN, "--layers", "64,3"), "did you mean auto,64,3?"),
        ((*TRAIN, "--layers", "[2,16,3]"), "is written without brackets, 2,16,3"),
        ((*TRAIN, "--layers", "16"), "or auto,16,1"),
        ((*TRAIN, "--target_means", "yes"), "--target_means takes no value"),
        (
            (*TRAIN, "--drop", "sepal_length", "petal_length"),
            "--drop has commas between its words: sepal_length,petal_length",
        ),
        ((*TRAIN, "--task", "regression"), "leave --task out"),
        ((*TRAIN, "--activation", "swish"), "swish is called silu"),
        ((*TRAIN, "--optimizer", "AdamW"), "AdamW is called adam"),
        ((*TRAIN, "--backend", "gpu"), "gpu is called cuda"),
        ((*TRAIN, "--effort", "fast"), "fast is called quick"),
        ((*TRAIN, "--layers", "auto-16-3"), "commas between them: auto,16,3"),
        ((*TRAIN, "--layers", "auto 16 3"), "commas between them: auto,16,3"),
        ((*TRAIN, "--loss", "cross_entropy"), "cross_entropy is called ce"),
        ((*TRAIN, "--effort", "max"), "max is called best"),
        ((*TRAIN, "-target", "kind"), "did you mean --target?"),
        (
            (*TRAIN, "--batch-number", "8", "--epochs"),
            "'--epochs' requires an argument",
        ),
        ((*TRAIN, "--n_jobs", "2"), "did you mean --threads?"),
        ((*TRAIN, "--out", "p.csv"), "did you mean --output?"),
        ((*TRAIN, "--act", "relu"), "did you mean --activation?"),
        ((*TRAIN, "--exclude", "kind"), "did you mean --drop?"),
        ((*TRAIN, "--features", "a"), "--drop A,B names those that are not"),
        (("export", "m.bin", "--format", "onnx"), "the suffix of --output says it"),
        (("explain", "m.bin", "--shap"), "nn explain MODEL DATA -o FILE"),
        (("compare", "m.bin"), "as in nn compare A B"),
        (("run", "m.bin"), "did you mean nn predict?"),
        (("version",), "did you mean nn --version?"),
        (("-V",), "did you mean --version?"),
        ((*TRAIN, "--hlep"), "did you mean --help?"),
        (("train", "iris", "-m", "x.bin"), "did you mean iris.csv?"),
        (("train", "Iris.csv", "-m", "x.bin"), "did you mean iris.csv?"),
        (("train", "irs.csv", "-m", "x.bin"), "did you mean iris.csv?"),
        (("train", "far.parquet", "-m", "x.bin"), "far.parquet: no such file"),
        (("train", "https://a.org/b.csv", "-m", "x.bin"), "curl -O"),
        (("train",), "nn train needs DATA -m MODEL"),
        (("train", "iris.csv"), "nn train needs DATA -m MODEL"),
        (("predict", "m.bin"), "nn predict needs MODEL DATA"),
        (("export", "m.bin"), "nn export needs MODEL -o FILE"),
        (("predict", "iris.csv", "m.bin"), "order is nn predict m.bin iris.csv"),
        (("predict", "m.bin", "m.bin"), "m.bin: a model file of nn"),
        (("compare", "m.bin", "m.bin"), "the same model twice"),
        (("predict", "m.bin", "other.csv"), "no columns sepal_length, petal_length"),
        (
            ("predict", "m.bin", "dots.csv"),
            "has Sepal.Length, PETAL LENGTH where the model was trained on",
        ),
        (("help", "trian"), "help trian: expected one of train, "),
        (("serve",), "did you mean nn export?"),
        (("tune",), "did you mean nn train --effort best?"),
        (("iris.csv",), "did you mean nn train iris.csv -m MODEL?"),
        # the last word is no table
        (("train", "a.csv", "b.csv", "m.bin"), ": nn train a.csv,b.csv\n"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(words, answer):
    result = run(*words)
    assert result.code in (2, 65, 66)
    assert result.out == ""
    assert answer in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    "words, like",
    [
        (("help",), ("--help",)),
        ((), ("--help",)),
        (("help", "train"), ("train", "--help")),
        (("-h", "train"), ("train", "--help")),
        (("--help", "test", "--all"), ("test", "--help", "--all")),
        (("help", "test", "--all"), ("test", "--help", "--all")),
    ],
)
def test_help_is_given_however_it_is_asked_for(words, like):
    assert succeed(*words).out == succeed(*like).out


def test_a_setting_that_is_none_is_answered_in_python_too():
    with pytest.raises(nn.UsageError, match=r"write dropout0\.2 among"):
        nn.fit("iris.csv", dropout=0.2)


def test_functions_take_a_model_and_refuse_its_path():
    model = nn.Model.load("m.bin")
    assert nn.test(model, "iris.csv") == nn.test(model.network, "iris.csv")
    nn.export(model, "m.c")
    of_model = nn.importance(model, "iris.csv")
    of_network = nn.importance(model.network, nn.load_for(model, "iris.csv"))
    assert vars(of_model) == vars(of_network)
    frame = pandas.read_csv("iris.csv").drop(columns="kind").head(2)
    background = pandas.read_csv("iris.csv").drop(columns="kind").tail(5)
    assert len(nn.explain(model, frame, background).values) == 2
    calls = (
        lambda: nn.test("m.bin", "iris.csv"),
        lambda: nn.export("m.bin", "m.c"),
        lambda: nn.explain("m.bin", frame),
        lambda: nn.importance("m.bin", "iris.csv"),
        lambda: nn.load_for("m.bin", "iris.csv"),
        lambda: nn.Model("m.bin"),
    )
    for call in calls:
        with pytest.raises(nn.UsageError, match="found the path m.bin"):
            call()


def test_layers_of_one_number_are_refused_as_text_is():
    for call in (nn.Network, lambda layers: nn.fit("iris.csv", layers=layers)):
        with pytest.raises(nn.UsageError, match="needs an input and at least one"):
            call(16)


def test_a_list_without_names_needs_no_id():
    columns = pandas.read_csv("iris.csv").assign(number=range(120))
    columns["word"] = ["a", "b", "c"] * 40
    kept = columns[["number", "word", "sepal_length", "kind"]]
    model = nn.fit(kept, "kind", id="number", layers="auto,4,3", epochs=1)
    rows = kept.drop(columns="kind")
    expected = model.predict_proba(rows)[:3].tolist()
    inputs = rows.drop(columns="number")
    for table in (rows, inputs):
        lists = table.to_numpy(object).tolist()[:3]
        assert model.predict_proba(lists).tolist() == expected
        assert model.predict_proba(lists[:1]).tolist() == expected[:1]


def test_one_row_of_a_frame_is_a_frame():
    model = nn.Model.load("m.bin")
    frame = pandas.read_csv("iris.csv")
    with pytest.raises(nn.DataError, match=r"frame\.iloc\[\[0\]\]"):
        model.predict(frame.iloc[0])
    assert len(model.predict(frame.iloc[[0]])) == 1
