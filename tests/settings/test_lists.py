"""Settings that are lists, in every door: flags that come again, lists of Python and
files. NumPy's numbers; paths."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, run, succeed
from support.tables import refusal, saved

import nn
from nn.settings.values import FORMS, GPUS, LAYERS, NAMES, TEXT, split_names

ROWS = 60
QUICK = ["--networks", 1, "--epochs", 1]


def columns() -> dict[str, list]:
    """Numbers, ids, words, dates, sizes, a column whose name has a comma, and y."""
    rng = np.random.default_rng(0)
    texts = []
    for row in range(ROWS):
        texts.append(f"{1 + row % 12:02d}/{1 + row % 11:02d}/2019")
    until = []
    for row in range(ROWS):
        until.append(f"{1 + row % 11:02d}/{1 + row % 12:02d}/2019")
    a = rng.normal(size=ROWS).round(3).tolist()
    b = rng.normal(size=ROWS).round(3).tolist()
    y = [row % 2 for row in range(ROWS)]
    c = rng.integers(1, 4, ROWS).tolist()
    return {
        "a": a,
        "b": b,
        "c": c,
        "d, e": rng.normal(size=ROWS).round(3).tolist(),
        "size": rng.choice(["S", "M", "L"], ROWS).tolist(),
        "age": rng.choice(["old", "new", "mid"], ROWS).tolist(),
        "day": texts,
        "until": until,
        "id": [1000 + 7 * row for row in range(ROWS)],
        "key": [9000 - 11 * row for row in range(ROWS)],
        "y": y,
    }


DATES = {"day": "%d/%m/%Y", "until": "%d/%m/%Y"}
FLAGS = {  # the same by one flag, and by several
    "drop": (["a,b"], ["a", "b"]),
    "id": (["a,b"], ["a", "b"]),
    "categories": (["a,c"], ["a", "c"]),
    "numbers": (["id,key"], ["id", "key"]),
    "dates": (["day=%d/%m/%Y,until=%d/%m/%Y"], ["day=%d/%m/%Y", "until=%d/%m/%Y"]),
    "missing": (["old,mid"], ["old", "mid"]),
    "ordered": (["size=S<M<L,age=new<mid<old"], ["size=S<M<L", "age=new<mid<old"]),
}
LISTS = {  # the same as a list of Python
    "drop": ["a", "b"],
    "id": ("a", "b"),
    "categories": np.array(["a", "c"]),
    "numbers": ["id", "key"],
    "dates": DATES,
    "missing": ["old", "mid"],
    "ordered": {"size": ["S", "M", "L"], "age": ["new", "mid", "old"]},
}


def beside(name: str) -> list:
    """What dates of either form need beside another flag."""
    if name == "dates":
        return []
    return ["--dates", "day=%d/%m/%Y,until=%d/%m/%Y"]


def facts(path: str = "m.bin") -> dict:
    """What a model keeps of its columns."""
    metadata = nn.Network.of_file(path).metadata()
    table = metadata["config"].get("table")
    return {
        "columns": metadata["columns"],
        "encoding": metadata.get("encoding"),
        "table": table,
    }


@pytest.mark.parametrize("name", list(FLAGS))
def test_flags_of_lists_add_up(folder, name):
    saved(columns(), "t.csv")
    results = []
    for texts in FLAGS[name]:
        flags = [part for text in texts for part in (f"--{name}", text)]
        succeed(
            *argv("--train --dataset t.csv --model m.bin"),
            *QUICK,
            *flags,
            *beside(name),
        )
        results.append(facts())
    assert results[0] == results[1]
    flag = [f"--{name}", FLAGS[name][1][-1]]  # of which the last alone counted
    done = run(
        *argv("--train --dataset t.csv --model m.bin"), *QUICK, *flag, *beside(name)
    )
    assert done.code or facts() != results[0]


@pytest.mark.parametrize("name", list(FLAGS))
def test_lists_of_python_and_of_a_file_are_those_of_the_flags(folder, name):
    saved(columns(), "t.csv")
    flags = [f"--{name}", FLAGS[name][0][0], *beside(name)]
    succeed("--train", "--dataset", "t.csv", "--model", "m.bin", *QUICK, *flags)
    expected = facts()
    given = {"dates": DATES, name: LISTS[name]}
    nn.fit("t.csv", networks=1, epochs=1, **given).save("p.bin")
    assert facts("p.bin") == expected
    settings = {
        "networks": 1,
        "epochs": 1,
        "dates": "day=%d/%m/%Y,until=%d/%m/%Y",
        name: FLAGS[name][1],
    }
    Path("c.json").write_text(json.dumps(settings))
    succeed("--train", "--dataset", "t.csv", "--model", "c.bin", "--config", "c.json")
    assert facts("c.bin") == expected


def test_a_name_with_a_comma_is_one_word_of_a_list(folder):
    saved(columns(), "t.csv")
    ds = nn.load("t.csv", drop=["d, e", "day", "until"])
    assert ds.columns == ["a", "b", "c", "size", "age"]
    ds = nn.load("t.csv", target=["a", "d, e"], drop=["day", "until"])
    assert ds.targets == ["a", "d, e"]
    text = json.dumps({"networks": 1, "epochs": 1, "drop": ["d, e", "day", "until"]})
    Path("c.json").write_text(text)
    succeed("--train", "--dataset", "t.csv", "--model", "m.bin", "--config", "c.json")
    assert facts()["columns"] == ["a", "b", "c", "size", "age"]


@pytest.mark.parametrize(
    "given",
    [
        ["train", "t.csv", "-m", "m.bin", "--drop", "a", "b"],
        ["train", "--drop", "a", "b", "--dataset", "t.csv", "-m", "m.bin"],
        ["--train", "--dataset", "t.csv", "--drop", "a", "b", "-m", "m.bin"],
    ],
)
def test_a_list_without_commas_names_the_comma(folder, given):
    saved(columns(), "t.csv")
    result = run(*given)
    assert result.code == 2
    assert (
        result.err.splitlines()[-1]
        == "nn: unexpected argument b: --drop has commas between its words: a,b"
    )
    assert not Path("m.bin").exists()


def test_a_list_in_quotes_without_commas_names_the_comma_and_a_file_may_follow_one(
    folder,
):
    saved(columns(), "t.csv")
    result = run("train", "t.csv", "-m", "m.bin", "--drop", "a b")
    assert result.code == 2
    assert result.err.endswith("put commas between the columns: a,b\n")
    succeed("train", "--drop", "day,until", "t.csv", "-m", "m.bin", *QUICK)
    assert facts()["columns"] == ["a", "b", "c", "d, e", "size", "age"]


def test_texts_of_lists():
    assert NAMES.text_of(["a", 3, np.int64(4), 'b"c', "d,e"]) == 'a,3,4,"b""c","d,e"'
    forms = {"day": None, "at": "%d.%m.%Y", "size": np.float64(0.5)}
    assert FORMS.text_of(forms) == "day,at=%d.%m.%Y,size=0.5"
    for kind in (list, tuple, np.array):
        assert FORMS.text_of({"size": kind(["S", "M"]), "a": "b"}) == "size=S<M,a=b"
    assert LAYERS.text_of(np.array([4, 16, 3])) == "4,16,3"
    assert LAYERS.text_of("4,3") == "4,3"
    assert NAMES.text_of(3) == "3"
    assert TEXT.text_of(3) == 3
    assert split_names("a,b") == split_names("a,b", ["b", "a"]) == ["a", "b"]
    assert split_names("a,b", ["c", "a,b"]) == ["a,b"]
    assert split_names(3, ["3"]) == ["3"]
    expected = [(1,), (0, 2), (0, 1)]
    assert [GPUS("--gpus", value) for value in ([1], (0, 2), "2")] == expected


@pytest.mark.parametrize(
    "given, numbers",
    [(2, (0, 1)), (np.int64(2), (0, 1)), ("2", (0, 1)), ([2], (2,)), ("0,2", (0, 2))],
)
def test_a_number_alone_is_how_many_gpus(given, numbers):
    assert GPUS("--gpus", given) == numbers


# -------------------------------------------------------- NumPy's numbers, layers, rows


def test_numbers_of_numpy_are_numbers_in_model_files(folder):
    saved({name: columns()[name] for name in ("a", "b", "y")}, "t.csv")
    given = {
        "epochs": np.int64(2),
        "seed": np.int32(3),
        "holdout": np.float64(0.25),
        "learning_rate": np.float32(0.25),
    }
    plain = {"epochs": 2, "seed": 3, "holdout": 0.25, "learning_rate": 0.25}
    cases = (
        {"layers": [2, 4, 1], "refit": np.False_},
        {"effort": "quick"},
        {"layers": "2,4,1", "networks": 2},
    )
    for case in cases:
        for number, settings in enumerate((given, plain)):
            target = np.int64(-1)
            model = nn.fit("t.csv", target, **settings, **case)
            model.save(f"{number}.bin")
        assert Path("0.bin").read_bytes() == Path("1.bin").read_bytes()
    layers = np.array([2, 4, 1])
    net = nn.Network(layers, "binary", seed=np.int64(5), threads=np.int64(1))
    ds = nn.load("t.csv", target=np.int64(2))
    json.dumps(
        nn.train(
            net,
            ds,
            epochs=np.int16(1),
            clip=np.bool_(False),
            threshold=np.float64(0.25),
        )
    )
    net.export("n.bin")
    metrics = nn.test(net, ds, threshold=np.float32(0.25))
    assert json.dumps(metrics)
    assert nn.Network.load("n.bin").seed == 5
    pairs = nn.train_many(
        ds, [{"layers": [2, 3, 1], "seed": np.int64(1), "epochs": np.int64(1)}]
    )
    pairs[0][0].export("n.bin")


def test_layers_and_weights_of_classes_may_be_lists(folder):
    saved({name: columns()[name] for name in ("a", "b", "y")}, "t.csv")
    cases = ([1, 5], np.array([1, 5]))
    for weights in cases:
        nn.fit("t.csv", layers=[2, "4:tanh", 1], class_weight=weights, epochs=1).save(
            "list.bin"
        )
        nn.fit("t.csv", layers="2,4:tanh,1", class_weight="1,5", epochs=1).save(
            "text.bin"
        )
        assert Path("list.bin").read_bytes() == Path("text.bin").read_bytes()
    net = nn.Network.for_data(nn.load("t.csv"), ["auto", 4, 1])
    assert net.spec == "2,4:relu,1:sigmoid"


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_rows_and_targets_are_data(kind):
    rows = []
    for row in range(ROWS):
        rows.append(kind([0.5 * row, row % 3, ["u", "v"][row % 2]]))
    labels = [row % 2 for row in range(ROWS)]
    model = nn.fit(rows, labels, networks=1, epochs=1)
    assert model.network.encoding.features == 3
    assert len(model.predict(rows[:4])) == 4
    probabilities = model.predict_proba(rows[:4])
    assert probabilities.shape == (4, 2)
    assert nn.load(rows).classes == ["u", "v"]
    ds = nn.load(rows, target=1, task="multiclass")
    assert ds.classes == ["0", "1", "2"]
    numbers = nn.fit([row[:2] for row in rows], labels, layers="2,4,1", epochs=1)
    scores = numbers.predict_proba([kind([1.0, 2]), kind([3, 4])])
    expected = numbers.predict_proba(np.array([[1.0, 2], [3, 4]]))
    assert np.array_equal(scores, expected)
    assert "a list of rows, each as long" in refusal(lambda: nn.load([[1, 2], [3]]))
    last = nn.fit(rows, 2, networks=1, epochs=1)  # a column of the rows
    predictions = last.predict([row[:2] for row in rows])
    assert set(predictions) <= {"u", "v"}
    assert last.test(rows)["rows"] == ROWS


# ---------------------------------------------------------------- paths


def test_paths_are_taken_wherever_files_are(folder):
    data = Path(saved({name: columns()[name] for name in ("a", "b", "y")}, "t.csv"))
    model = nn.fit(
        data, layers="2,4,1", epochs=2, validation=data, checkpoint=Path("c.ckpt")
    )
    model.save(Path("m.bin"))
    nn.fit(
        data,
        layers="2,4,1",
        epochs=2,
        validation=data,
        checkpoint=Path("c.ckpt"),
        resume=Path("c.ckpt"),
    )
    model.export(Path("m.c"))
    nn.export(model.network, Path("n.c"))
    assert Path("m.c").exists()
    assert Path("n.c").exists()
    again = nn.Model.load(Path("m.bin"))
    assert again.test(data) == model.test("t.csv") == nn.test(model.network, data)
    predictions = list(again.predict(data))
    assert predictions == list(model.predict("t.csv"))
    assert np.array_equal(
        again.predict_proba(data),
        model.network.predict(data)[:, [0, 0]] * [-1, 1] + [1, 0],
    )
    explanation = again.explain(data, data)
    assert explanation.values.shape == (ROWS, 2)
    assert again.importance(data).names
    comparison = nn.compare(Path("m.bin"), Path("m.bin"), data)
    assert comparison["rows"] == ROWS
    row_count = nn.load(data).rows
    rows = nn.load_for(again.network, data)
    assert row_count == rows.rows == ROWS
    net = nn.Network.load(Path("m.bin"))
    assert nn.held_out(net, Path("m.bin")).rows < ROWS
