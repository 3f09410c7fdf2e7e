"""A model that is judged by rows it was trained on says so: those of its training file,
and those of others, whatever their format and order.

Tolerances of estimates: of 1,200 training rows 512 hashes are kept, so that a share is
told from 80 rows or more of 200, off by 4 % of them (a standard deviation); four of
these are allowed.
"""

import csv
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.command_line import ONE, argv, run, succeed

import nn
from nn.data import row_hashes
from nn.data.column import Column
from nn.data.splits import split_rows
from nn.data.table_rows import TableRows
from nn.files.model_file import MOST_ANCESTORS
from nn.test.trained_rows import Trained, ancestors_with, known_rows, trained_on
from nn.utils import Stopped, StopRequest

ROWS = 1500
WORDS = np.array(["red", "green", "blue", "so, so"])


def table(rows: int = ROWS, seed: int = 0) -> dict[str, list]:
    """Columns of every kind that a row may be known by."""
    rng = np.random.default_rng(seed)
    size = rng.normal(40, 9, rows).round(3)
    word = WORDS[rng.integers(4, size=rows)]
    draws = rng.integers(2, size=rows)
    agreed = np.array(["Yes", "no"])[draws]
    draws = rng.integers(0, 1500, rows).astype("timedelta64[D]")
    days = np.datetime64("2019-03-05") + draws
    second = 1.6e9 + rng.integers(0, 9000, rows)
    draws = rng.normal(size=rows)
    score = (size - 40) / 9 + (word == "red") + 0.5 * draws
    selected = np.where(score > 0.2, "good", "bad").tolist()
    return {
        "size": size.tolist(),
        "word": word.tolist(),
        "agreed": agreed.tolist(),
        "day": days.astype(str).tolist(),
        "second": second.tolist(),
        "y": selected,
    }


def numbers(rows: int = ROWS, seed: int = 0) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(rows, 3))
    x = draws.round(4)
    return {
        **{name: x[:, k].tolist() for k, name in enumerate("abc")},
        "y": (x[:, 0] > 0).astype(int).tolist(),
    }


def some(columns: dict[str, list], rows) -> dict[str, list]:
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def write(columns: dict[str, list], path: str) -> None:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])


MAKERS = {"mixed": table, "numbers": numbers}


@pytest.fixture(scope="module", params=MAKERS)
def models(request, tmp_path_factory):
    """A folder with t.csv, and models that held 20 % of it out (two splits) and that
    folds were trained for."""
    folder = tmp_path_factory.mktemp(request.param)
    columns = MAKERS[request.param]()
    write(columns, folder / "t.csv")
    call = ("--dataset", folder / "t.csv", "--epochs", 2)
    for name, seed in {"held": 0, "other": 5}.items():
        succeed(*ONE, *call, "--model", folder / f"{name}.bin", "--seed", seed)
    succeed(
        "--train", *call, "--model", folder / "folds.bin", "--folds", 3, "--holdout", 0
    )
    return folder, columns


@pytest.fixture
def here(models, folder):
    for path in models[0].iterdir():
        shutil.copy(path, folder)
    return models[1]


def held_out() -> np.ndarray:
    return nn.held_out(nn.Network.load("held.bin"), "held.bin").part_rows


def test_the_training_file_is_known_by_its_digest(here):
    result = succeed("test", "held.bin", "--json")
    count = ROWS - result.json["rows"]
    assert result.json["trained_rows"] == 0
    assert "trained on" not in result.err
    whole = succeed("test", "held.bin", "t.csv", "--json")
    assert whole.json["rows"] == ROWS
    assert whole.json["trained_rows"] == count
    line = f"nn: warning: held.bin was trained on {count:,} of these {ROWS:,} rows: its figures on them say how well it"
    assert whole.err.count(line) == 1
    shutil.copy("t.csv", "copy.csv")
    assert (
        succeed("test", "held.bin", "copy.csv", "--json").json["trained_rows"] == count
    )
    explained = succeed("explain", "held.bin", "t.csv", "--json")
    assert explained.json["trained_rows"] == count
    assert explained.err.count(line) == 1
    assert succeed("explain", "held.bin", "--json").json["trained_rows"] == 0


@pytest.mark.usual(1)
def test_folds_predict_the_rows_of_their_training_file_out_of_fold(here):
    alone = succeed("test", "folds.bin", "--json").json
    given = succeed("test", "folds.bin", "t.csv", "--json")
    assert given.json == alone
    assert alone["out_of_fold"] is True
    assert alone["trained_rows"] == 0
    remark = f"folds.bin was trained on these {ROWS:,} rows: each is predicted by those of its networks"
    assert given.err.count(remark) == 1
    model = nn.Model.load("folds.bin")
    assert alone.pop("drift") is None, "of rows of the training"
    assert model.test("t.csv") == alone == model.test(nn.load("t.csv"))
    explained = succeed("explain", "folds.bin", "t.csv", "--json")
    assert explained.err.count(remark) == 1
    assert explained.json == succeed("explain", "folds.bin", "--json").json
    assert explained.json["trained_rows"] == 0
    importance = explained.json["importance"]
    assert model.importance("t.csv").baseline == importance["baseline"]
    succeed("test", "folds.bin", "t.csv", "--report", "r.md")
    page = Path("r.md").read_text()
    assert "out-of-fold rows" in page
    assert "was trained on" not in page
    assert nn.test(model.network, "t.csv") == alone
    assert nn.test(model.network, nn.load("t.csv")) == alone
    result = succeed(
        "test", "folds.bin", "t.csv", "--json", "--threshold", 0.3, "--intervals"
    )
    settings = {"threshold": 0.3, "intervals": True}
    report = nn.test(model.network, nn.load("t.csv"), **settings)
    assert {**report, "drift": None} == result.json
    # a part of the rows is predicted by all networks together
    part = nn.test(model.network, nn.load("t.csv").of_rows(np.arange(300)))
    assert part["trained_rows"] == 300
    assert "out_of_fold" not in part


@pytest.mark.usual(1)
def test_rows_of_the_training_file_are_known_in_other_files_and_orders(here):
    rng = np.random.default_rng(7)
    indices = np.arange(ROWS)
    trained = np.setdiff1d(indices, held_out())
    mixed = {"all": (300, 0), "half": (200, 200), "few": (20, 400)}
    for name, (known, new) in mixed.items():
        rows = some(here, rng.permutation(trained)[:known])
        others = (table if "word" in here else numbers)(new, seed=99)
        joined = {column: rows[column] + others[column] for column in rows}
        order = rng.permutation(known + new)
        names = rng.permutation([column for column in joined if column != "y"]).tolist()
        columns = {
            **{c: some(joined, order)[c] for c in names},
            "y": some(joined, order)["y"],
        }
        write(columns, f"{name}.csv")
        result = succeed("test", "held.bin", f"{name}.csv", "--json")
        difference = abs(result.json["trained_rows"] - known)
        assert difference < 0.1 * (known + new), name
        about = f"was trained on about {result.json['trained_rows']:,} of these {known + new:,} rows"
        assert (about in result.err) == (name != "few")
        with_page = run("test", "held.bin", f"{name}.csv", "--report", "r.html")
        assert with_page.code == 0
        text = Path("r.html").read_text()
        assert (about in text) == (name != "few")
    new = succeed("test", "held.bin", "--json").json["rows"]
    write(some(here, held_out()), "held.csv")
    result = succeed("test", "held.bin", "held.csv", "--json")
    assert result.json["rows"] == new
    assert result.json["trained_rows"] == 0
    assert "trained on" not in result.err


@pytest.mark.slow
def test_the_same_rows_have_the_same_hashes_through_every_door(here):
    pandas = pytest.importorskip("pandas")
    rows = some(here, range(0, 400, 2))
    write(rows, "t200.csv")
    frame = pandas.DataFrame(rows)
    typed = frame.copy()
    if "day" in frame:
        typed["day"] = pandas.to_datetime(typed["day"])
        typed["agreed"] = typed["agreed"] == "Yes"
        typed["word"] = typed["word"].astype("category")
    else:
        typed[["a", "b"]] = typed[["a", "b"]].astype("float32")
    doors = {
        "csv": "t200.csv",
        "frame": frame,
        "typed": typed,
        "columns": rows,
        "back": frame[[*frame.columns[::-1]]],
    }
    doors["rows"] = [
        dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)
    ]
    if "day" not in frame:
        doors["array"] = nn.Dataset(
            frame[["a", "b", "c"]].to_numpy(),
            frame["y"].to_numpy(),
            "binary",
            ["0", "1"],
        )
    try:
        typed.to_parquet("t200.parquet")
        doors["parquet"] = "t200.parquet"
    except ImportError:
        pass
    model = nn.Model.load("held.bin")
    count = sum(row not in held_out() for row in range(0, 400, 2))
    trained_rows = {
        name: model.test(data)["trained_rows"] for name, data in doors.items()
    }
    assert abs(trained_rows["csv"] - count) < 35
    assert set(trained_rows.values()) == {trained_rows["csv"]}
    del rows["y"]
    unlabelled = nn.load_for(model.network, rows, labelled=False)
    assert trained_on(model.network, unlabelled).count == trained_rows["csv"], (
        "without a target"
    )


def test_frames_and_arrays_that_were_trained_on_are_known_in_the_object_and_the_file(
    folder,
):
    columns = numbers(400)
    x = np.column_stack([columns[name] for name in "abc"])
    y = np.array(columns["y"])
    fitted = nn.fit(columns, "y", layers="auto,4,1", epochs=1, holdout=0)
    by_arrays = nn.fit(x, y, layers="auto,4,1", epochs=1, holdout=0)
    estimator = nn.NetworkClassifier(layers="auto,4,1", epochs=1).fit(x, y)
    for number, net in enumerate(
        [fitted.network, by_arrays.network, estimator.network_]
    ):
        net.export(f"{number}.bin")
        for model in (nn.Model(net), nn.Model.load(f"{number}.bin")):
            assert model.test(columns)["trained_rows"] == 400
            report = model.test(some(columns, range(50, 80)))
            assert report["trained_rows"] == 30
            assert model.test(numbers(100, seed=5))["trained_rows"] == 0
    with_warning = nn.Model(fitted.network)
    assert with_warning.importance(columns).rows == 400


@pytest.mark.parametrize(
    "count, is_exact, is_told",
    [
        (0, True, False),
        (1, True, True),
        (9, False, False),
        (10, False, True),
        (None, False, False),
    ],
)
def test_an_estimate_is_told_from_a_tenth_of_the_rows(count, is_exact, is_told):
    trained = Trained(100, count, is_exact)
    assert trained.spoils_figures is is_told
    if is_told:
        about = "" if is_exact else "about "
        expected = f"m was trained on {about}{count} of these 100 rows"
        assert trained.warning("m") == expected


def test_the_last_ancestors_are_kept_each_once():
    """Of more than a file holds the first ones leave."""
    net = nn.Network("2,1", "regression")
    facts = {"dataset": {"sha256": "now"}, "config": {"split_seed": 7}, "holdout": 0.25}
    older = [
        {"data": str(number), "holdout": 0.25, "split_seed": 7}
        for number in range(MOST_ANCESTORS)
    ]
    newest = {"data": "now", "holdout": 0.25, "split_seed": 7}
    net.facts = replace(net.facts, ancestors=older, **facts)
    assert ancestors_with(net) == [*older[1:], newest]
    net.facts = replace(net.facts, ancestors=[newest, *older[:2]])
    assert ancestors_with(net) == [*older[:2], newest]


def test_rows_of_an_ancestors_data_are_known_by_the_split_of_that_training_alone():
    x = np.arange(40.0)[:, None]
    net = nn.Network("1,1", "regression")
    ancestors = [
        {"data": "one", "holdout": 0.25, "split_seed": 3},
        {"data": "two", "holdout": 0.5, "split_seed": 4},
    ]
    net.facts = replace(net.facts, ancestors=ancestors)
    for data, holdout, seed in (("one", 0.25, 3), ("two", 0.5, 4)):
        ds = nn.Dataset(x, x[:, 0], "regression")
        ds.digest = data
        expected = np.zeros(40, bool)
        expected[split_rows(ds, holdout, 0.0, seed).training] = True
        assert np.array_equal(known_rows(net, ds), expected)
    ds.digest = "three"
    assert known_rows(net, ds) is None


def test_few_rows_against_many_are_not_told_by_chance(folder):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(50_000, 3))
    ds = nn.Dataset(draws, np.arange(50_000) % 2, "binary", ["0", "1"])
    net = nn.Network("3,2,1", "binary")
    nn.train(net, ds, epochs=1, holdout=0)
    few = ds.of_rows(slice(0, 10))
    assert trained_on(net, few).count is None, (
        "none of ten rows is among the hashes that are kept"
    )
    assert abs(trained_on(net, ds.of_rows(slice(0, 20_000))).count - 20_000) < 3000
    report = nn.test(net, few)
    assert report["trained_rows"] is None


def test_images_are_known_by_their_pixels(folder):
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 256, (300, 1, 20, 20))
    x = draws.astype(np.uint8)
    y = np.arange(300) % 3
    np.savez("i.npz", x=x, y=y)
    np.savez("part.npz", x=x[40:140][::-1], y=y[40:140][::-1])
    np.savez("new.npz", x=255 - x[:100], y=y[:100])
    call = ["--layers", "1x20x20,8,3", "--epochs", 1, "--holdout", 0]
    succeed("--train", "--dataset", "i.npz", "--model", "i.bin", *call)
    result = succeed("test", "i.bin", "part.npz", "--json")
    assert result.json["trained_rows"] == 100
    assert "was trained on about 100 of these 100 rows" in result.err
    assert succeed("test", "i.bin", "new.npz", "--json").json["trained_rows"] == 0
    net = nn.Network.load("i.bin")
    for pixels in (x, x.astype(np.float32), x.astype(np.float64)):
        assert (
            trained_on(net, nn.Dataset(pixels, y, "multiclass", ["0", "1", "2"])).count
            == 300
        )


def test_a_comparison_gives_no_verdict_on_rows_that_a_model_knows(here):
    write(some(here, range(200)), "part.csv")
    for data in ("t.csv", "part.csv"):
        report = succeed(
            "compare", "held.bin", "other.bin", "--dataset", data, "--json"
        ).json
        assert report["better"] is None
        assert report["trained_rows"] > 0.7 * report["rows"]
        assert report["verdict"].startswith("no verdict: held.bin was trained on ")
        assert "other.bin was trained on " in report["verdict"]
        printed = succeed("compare", "held.bin", "other.bin", "--dataset", data).out
        assert printed.splitlines()[-1].startswith("no verdict: ")
    in_python = nn.compare("held.bin", "other.bin", some(here, range(200)))
    assert in_python["better"] is None
    assert in_python["verdict"].startswith("no verdict: a was trained on about ")
    columns = (table if "word" in here else numbers)(300, seed=8)
    write(columns, "new.csv")
    new = succeed(
        "compare", "held.bin", "other.bin", "--dataset", "new.csv", "--json"
    ).json
    assert new["trained_rows"] == 0
    assert "no verdict" not in new["verdict"]


def test_models_that_held_out_other_rows_are_compared_on_those_that_neither_knows(here):
    nets = [nn.Network.load(path) for path in ("held.bin", "other.bin")]
    rows = [nn.held_out(net, "held.bin").part_rows for net in nets]
    shared = np.intersect1d(*rows)
    report = succeed("compare", "held.bin", "other.bin", "--json").json
    assert 0 < len(shared) < len(rows[0])
    assert report["rows"] == len(shared)
    assert report["trained_rows"] == 0
    by_hand = [
        nn.test(net, nn.load_for(net, "t.csv").of_rows(shared))["log_loss"]
        for net in nets
    ]
    assert [
        report["metrics"]["log_loss"][name] for name in ("held.bin", "other.bin")
    ] == pytest.approx(by_hand)
    with_folds = succeed("compare", "held.bin", "folds.bin", "--json").json
    assert with_folds["rows"] == len(rows[0])
    assert with_folds["trained_rows"] == 0


def test_of_rows_that_both_have_those_are_counted_that_one_was_trained_on(folder):
    """Folds in time judge all rows but the first, which the other model knows too."""
    columns = {"day": list(range(90)), **numbers(90)}
    write(columns, "t.csv")
    settings = {"layers": "auto,1", "epochs": 1}
    judged = nn.fit("t.csv", "y", time="day", folds=3, holdout=0, **settings)
    other = nn.fit("t.csv", "y", drop="day", holdout=0.3, **settings)
    report = nn.compare(judged, other, "t.csv")
    rows = judged.network.crossed.rows
    trained = split_rows(nn.load("t.csv", target="y"), 0.3, 0.0, 0).training
    both = {*rows} & {*trained}
    assert report["rows"] == len(rows)
    assert report["trained_rows"] == len(both)
    assert len(rows) < 90
    assert len(both) < len(trained)


def test_models_that_leave_no_row_to_compare_on_are_refused(folder):
    columns = numbers(60)
    columns["g"] = [row % 2 for row in range(60)]
    write(columns, "t.csv")
    for name, seed in {"one": 0, "two": 1}.items():
        succeed(
            *ONE,
            *argv(
                f"--dataset t.csv --model {name}.bin --epochs 1 --holdout 0.1 --seed {seed} --target y"
            ),
        )
    rows = [
        set(nn.held_out(nn.Network.load(f"{name}.bin"), "t.csv").part_rows)
        for name in ("one", "two")
    ]
    assert not rows[0] & rows[1]
    refused = run("compare", "one.bin", "two.bin")
    assert refused.code == 65
    assert refused.out == ""
    assert "there is none that neither knows" in refused.err
    assert "give other rows with --dataset" in refused.err


def test_models_whose_names_are_keys_of_the_result_break_none(here):
    names = ("difference", "interval", "row", "true")
    for name in names:
        shutil.copy("held.bin", name)
    shutil.copy("other.bin", "difference")
    for pair in (("difference", "interval"), ("row", "true")):
        report = succeed("compare", *pair, "--json").json
        models = report["models"]
        assert models == [f"./{name}" for name in pair]
        for metric in report["metrics"].values():
            assert metric.keys() == {*models, "difference", "interval"}
            assert (
                None in metric.values()
                or metric["difference"] == metric[models[1]] - metric[models[0]]
            )
        for row in report["disagree"]:
            assert row.keys() == {*models, "row", "true"}
        assert succeed("compare", *pair, "--report", "r.md").code == 0


def test_some_rows_of_a_file_are_told_apart_from_all_of_it(folder):
    write(numbers(), "t.csv")
    ds = nn.load("t.csv")
    part = ds.of_rows(np.arange(0, ROWS, 3))
    net = nn.Network.for_data(part, "auto,4,1")
    nn.train(net, part, epochs=1)
    net.export("m.bin")
    for use in (["test"], ["explain"]):
        refused = run(*use, "m.bin")
        assert refused.code == 2
        assert refused.out == ""
        assert "give --dataset" in refused.err
        assert (
            "m.bin was trained on some rows of t.csv, and does not know which"
            in refused.err
        )
    with pytest.raises(nn.UsageError, match="some rows of t.csv"):
        nn.held_out(net, "m.bin")
    report = succeed("test", "m.bin", "t.csv", "--json").json
    assert abs(report["trained_rows"] - 400) < 60
    succeed("info", "m.bin", "--report", "r.md")
    assert (
        "The model was trained on some rows of t.csv, and does not say which."
        in Path("r.md").read_text()
    )
    by_rows = nn.Network.for_data(ds, "auto,4,1")
    nn.train(by_rows, ds, rows=np.arange(300), epochs=1)
    trained_rows = nn.test(by_rows, ds)["trained_rows"]
    assert abs(trained_rows - 300) < 60
    by_rows.export("r.bin")
    assert run("test", "r.bin").code == 2


def test_parts_of_the_training_data_are_known_row_by_row(folder):
    write(numbers(), "t.csv")
    ds = nn.load("t.csv")
    net = nn.Network.for_data(ds, "auto,4,1", seed=3)
    nn.train(net, ds, epochs=1)
    held = nn.ds.split_rows(ds, 0.2, 0.0, 3).holdout
    report = nn.test(net, ds.of_rows(held))
    assert report["trained_rows"] == 0
    indices = np.arange(ROWS)
    other_rows = np.setdiff1d(indices, held)[:7]
    mixed = np.concatenate([held[:50], other_rows])
    report = nn.test(net, ds.of_rows(mixed))
    assert report["trained_rows"] == 7
    report = nn.test(net, ds.of_rows(mixed).of_rows(slice(48, 57)))
    assert report["trained_rows"] == 7


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_a_network_that_goes_on_with_other_rows_knows_those_of_both_trainings(
    folder, maker
):
    first = maker(900)
    second = maker(900, seed=1)
    write(first, "first.csv")
    write(second, "second.csv")
    ds = nn.load("first.csv")
    net = nn.Network.for_data(ds, "auto,4,1")
    nn.train(net, ds, epochs=1, holdout=0.0)
    assert nn.test(net, "first.csv")["trained_rows"] == 900
    once = net.row_hashes
    nn.train(net, ds, epochs=1, holdout=0.0)
    assert net.row_hashes == once, "the same rows again"
    nn.train(net, nn.load_for(net, "second.csv"), epochs=1, holdout=0.2)
    net.export("m.bin")
    for model in (net, nn.Network.load("m.bin")):
        trained = len(
            nn.ds.split_rows(nn.load_for(net, "second.csv"), 0.2, 0.0, 0).training
        )
        assert nn.test(model, "second.csv")["trained_rows"] == trained, (
            "those held out are known"
        )
        assert trained < 900, "those held out are known"
        trained_rows = nn.test(model, "first.csv")["trained_rows"]
        assert abs(trained_rows - 900) < 1
        report = nn.test(model, some(first, range(300)))
        assert abs(report["trained_rows"] - 300) < 1
        assert nn.test(model, maker(900, seed=2))["trained_rows"] == 0
    assert len(row_hashes.kept_hashes(net.row_hashes)) == row_hashes.KEPT


def test_held_out_rows_that_an_earlier_training_had_are_told(folder):
    write(numbers(900), "t.csv")
    ds = nn.load("t.csv")
    net = nn.Network.for_data(ds, "auto,4,1")
    nn.train(net, ds, epochs=1, holdout=0.0)
    nn.train(net, ds, epochs=1, holdout=0.2)
    net.export("m.bin")
    trained_rows = nn.test(net, ds)["trained_rows"]
    assert abs(trained_rows - 900) < 1
    result = succeed("test", "m.bin", "--json")
    rows = result.json["rows"]
    assert result.json["trained_rows"] == rows
    assert rows < 900
    assert f"m.bin was trained on about {rows} of these {rows} rows" in result.err


@pytest.mark.parametrize("settings", [{}, {"rows": np.arange(100)}])
def test_a_network_whose_training_is_stopped_knows_its_rows(folder, settings):
    write(numbers(600), "t.csv")
    ds = nn.load("t.csv")
    stop = StopRequest()

    class Stopping(nn.Callback):
        def epoch(self, *_told, **_also):
            stop.request(2)

    net = nn.Network.for_data(ds, "auto,4,1")
    with pytest.raises(Stopped):
        nn.train(
            net, ds, epochs=50, holdout=0.5, callback=Stopping(), stop=stop, **settings
        )
    net.export("m.part")
    count = len(settings.get("rows", nn.ds.split_rows(ds, 0.5, 0.0, 0).training))
    report = nn.test(nn.Network.load("m.part"), some(numbers(600), range(600)))
    assert abs(report["trained_rows"] - count) < 1


@pytest.mark.parametrize("change", ["rows", "targets", "inputs"])
def test_a_training_is_not_resumed_with_other_rows_or_targets_of_the_same_file(
    folder, change
):
    write(numbers(600), "t.csv")
    ds = nn.load("t.csv")
    first = ds.of_rows(slice(0, 300))
    second = ds.of_rows(slice(300, 600))
    if change == "targets":
        first = ds
        second = replace(ds, y=1 - ds.y)
    if change == "inputs":
        first = ds.of_rows(slice(0, 300))
        second = replace(ds.of_rows(slice(0, 300)), x=ds.x[300:])
    settings = {"epochs": 2, "checkpoint": "c.ck"}
    net = nn.Network.for_data(first, "auto,4,1")
    nn.train(net, first, **settings)
    net = nn.Network.for_data(second, "auto,4,1")
    with pytest.raises(nn.UsageError, match="data"):
        nn.train(net, second, **settings, resume="auto")
    again = nn.Network.for_data(first, "auto,4,1")
    nn.train(again, first, **settings, resume="auto")
    table_rows = nn.load(table(300), target="y")
    net = nn.Network.for_data(table_rows, "auto,4,1")
    nn.train(net, table_rows, epochs=2, checkpoint="d.ck")
    other = nn.load(table(300, seed=1), target="y")
    net = nn.Network.for_data(other, "auto,4,1")
    with pytest.raises(nn.UsageError, match="data"):
        nn.train(net, other, epochs=2, checkpoint="d.ck", resume="auto")


def test_a_network_that_was_fitted_to_a_frame_explains_rows_without_background(folder):
    for columns in (numbers(300), table(300)):
        model = nn.fit(columns, "y", layers="auto,4,1", epochs=1)
        rows = {name: values[:5] for name, values in columns.items() if name != "y"}
        contributions = model.explain(rows)
        assert contributions.values.shape == (5, len(rows))
        assert len(model.network.background) == 100
        total = model.explain(rows).values.sum(axis=1)
        expected = total + contributions.base_values
        total = contributions.values.sum(axis=1)
        assert np.allclose(contributions.base_values + total, expected)
        model.save("m.bin")
        with pytest.raises(nn.UsageError, match="no background rows"):
            nn.Model.load("m.bin").explain(rows)
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(50, 2))
    ds = nn.Dataset(draws, np.arange(50) % 2, "binary", ["0", "1"])
    net = nn.Network("2,3,1", "binary")
    nn.train(net, ds, epochs=1)
    explanation = nn.explain(net, ds.x[:3])
    assert explanation.values.shape == (3, 2)
    explanation = nn.explain(nn.fit(columns, "y", effort="quick").network, rows)
    assert explanation.values.shape == (5, len(rows))


def test_hashes_of_a_million_rows_take_little(folder):
    """Each row by a few vectorised operations a column: 0.2 s for 20 columns on one
    core; ten times that is allowed."""
    x = np.random.default_rng(0).random((1_000_000, 20), np.float32)
    ds = nn.Dataset(x, np.zeros(len(x), np.int32), "binary", ["0", "1"])
    began = time.process_time()
    rows = np.arange(len(x))
    fact = row_hashes.fact_of(ds, rows, [])
    assert time.process_time() - began < 2
    assert len(row_hashes.kept_hashes(fact)) == row_hashes.KEPT


@pytest.mark.parametrize("kind", ["number", "date"])
def test_rows_that_differ_in_a_minute_or_a_digit_are_other_rows(kind):
    """Dates and numbers that float32 would blur are hashed with all digits."""
    values = 1.7e9 + 60.0 * np.arange(50)
    y = np.arange(50) % 2
    x = TableRows((Column(kind, values), Column("number", np.ones(50))))
    ds = nn.Dataset(x, y, "binary", ["a", "b"])
    fact = row_hashes.fact_of(ds, np.arange(25), ())
    assert fact["rows"] == 25
    hashes = row_hashes.hashes_of(x, (), fact)
    assert len({*hashes.tolist()}) == 50
    known = np.isin(hashes, row_hashes.kept_hashes(fact))
    assert known.tolist() == [True] * 25 + [False] * 25
