"""Tables as people have them: text, gaps, dates and ids go in as they are; the model knows what was done to them."""

import json

import numpy as np
import pytest
from support.command_line import ONE, run, succeed

import nn
from nn.data.model_data import load_for
from nn.data.table_rows import TableRows
from nn.ds import split_holdout
from nn.watch.callbacks import Callback

ROWS = 240


def people(count: int = ROWS, seed: int = 0) -> dict[str, list[str]]:
    """Columns of text by name: of each kind one, and the class that they decide."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 80, count)
    land = random.choice(["Chile", "Peru", "Cuba"], count, p=[0.5, 0.45, 0.05])
    member = random.choice(["Yes", "no"], count)
    day = np.datetime64("2021-03-01") + random.integers(0, 700, count)
    town = random.choice([f"town {i}" for i in range(30)], count)
    rich = (age > 45) ^ (member == "Yes") ^ (land == "Peru")
    return {
        "": [str(i) for i in range(count)],
        "age": [str(a) if random.random() > 0.1 else "NA" for a in age],
        "land": land.tolist(), "member": member.tolist(), "day": day.astype(str).tolist(), "town": town.tolist(),
        "name": [f"person {i}" for i in range(count)], "planet": ["earth"] * count,
        "rich": np.where(rich, "yes", "no").tolist(),
    }  # fmt: skip


def as_csv(columns: dict[str, list[str]], names=None) -> str:
    names = list(columns) if names is None else names
    return "\n".join([",".join(names), *map(",".join, zip(*(columns[name] for name in names), strict=True))]) + "\n"


@pytest.fixture
def trained(folder) -> str:
    (folder / "people.csv").write_text(as_csv(people()))
    return succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 3, "--json").json


def test_each_column_is_of_its_kind(trained, folder):
    assert trained["columns"] == {
        "age": "number", "land": "category", "member": "yes/no", "day": "date", "town": "category",
    }  # fmt: skip
    assert trained["classes"] == ["no", "yes"]


def test_a_training_says_a_line_for_each_kind_and_what_it_left_out(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    told = succeed("--train", "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1).err
    assert "left out: (no name) (counts the rows), name (nearly every value differs), planet (one value only)" in told
    for line in ("number: age (", "category: land (", "yes/no: member", "date: day (trend, year, week)"):
        assert f"\n{line}" in told, line
    info = succeed("--info", "--model", "m.bin").out
    assert "yes/no" in info and "town" in info


def test_a_test_finds_the_rows_that_were_held_out(trained, folder):
    figures = succeed("--test", "--model", "m.bin", "--json").json
    assert figures["rows"] == trained["holdout"] > 0


def test_columns_are_found_by_name_in_any_order_and_with_others_between(trained, folder):
    columns = people(50, seed=1)
    (folder / "same.csv").write_text(as_csv(columns))
    names = ["rich", "town", "more", "day", "age", "member", "land"]
    (folder / "moved.csv").write_text(as_csv({**columns, "more": ["x"] * 50}, names))
    one, other = (succeed("--predict", "--model", "m.bin", "--dataset", f).out for f in ("same.csv", "moved.csv"))
    assert one == other and len(one.splitlines()) == 51
    test = ("--test", "--model", "m.bin", "--json", "--dataset")
    one, other = (succeed(*test, f).json for f in ("same.csv", "moved.csv"))
    assert one == other and one["rows"] == 50


def test_a_missing_column_is_named(trained, folder):
    columns = people(50)
    (folder / "less.csv").write_text(as_csv(columns, [name for name in columns if name != "town"]))
    failed = run("--predict", "--model", "m.bin", "--dataset", "less.csv")
    assert failed.code == 65 and "no column town" in failed.err


def test_a_column_of_another_type_is_named(trained, folder):
    columns = people(50)
    columns["age"][7] = "old"
    (folder / "other.csv").write_text(as_csv(columns))
    failed = run("--predict", "--model", "m.bin", "--dataset", "other.csv")
    assert failed.code == 65 and "row 9, column age" in failed.err and '"old"' in failed.err


def test_many_unseen_values_are_told(trained, folder):
    columns = people(50)
    columns["land"] = ["Mars"] * 50
    (folder / "mars.csv").write_text(as_csv(columns))
    told = succeed("--test", "--model", "m.bin", "--dataset", "mars.csv").err
    assert "column land: 100% of the values are gaps or were not seen in training" in told


def test_all_obstacles_of_a_file_are_told_at_once_with_both_cures(folder):
    columns = people()
    columns["age"][4], columns["day"][9] = "old", "yesterday"
    (folder / "people.csv").write_text(as_csv(columns))
    failed = run("--train", "--dataset", "people.csv", "--model", "m.bin")
    assert failed.code == 65 and len(failed.err.splitlines()) == 1
    for words in ("row 6, column age", '"old"', "--missing old", "--categories age", "row 11, column day", "yesterday"):
        assert words in failed.err, words
    cured = ("--missing", "old,yesterday")
    succeed("--train", "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1, *cured)
    succeed("--test", "--model", "m.bin")  # the model knows the words


def test_flags_overrule_what_the_fields_look_like(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    flags = ("--categories", "age,member", "--drop", "day", "--numbers", "0", "--id", "name")
    result = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1, "--json", *flags).json
    assert result["columns"] == {
        "": "number", "age": "category", "land": "category", "member": "category", "town": "category",
    }  # fmt: skip
    lines = succeed("--predict", "--model", "m.bin", "--dataset", "people.csv").out.splitlines()
    assert lines[0].startswith("row,name,predicted") and lines[3].split(",")[1] == "person 2"


def test_a_name_that_comes_twice_and_is_left_out_once_is_found_again(folder):
    columns = people(200)
    rows = zip(columns["name"], columns["town"], columns["age"], columns["rich"], strict=True)
    (folder / "twice.csv").write_text("\n".join(["town,town,age,rich", *map(",".join, rows)]))
    trained = succeed("--train", "--dataset", "twice.csv", "--model", "m.bin", "--epochs", 1)
    assert "left out: town (nearly every value differs)" in trained.err
    succeed("--test", "--model", "m.bin")


def test_a_file_without_a_header_is_read_by_position(folder):
    columns = people()
    text = as_csv(columns).partition("\n")[2]
    (folder / "people.csv").write_text(text)
    result = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 2, "--json").json
    assert result["columns"] == {"1": "number", "2": "category", "3": "yes/no", "4": "date", "5": "category"}
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == result["holdout"]
    succeed("--predict", "--model", "m.bin", "--dataset", "people.csv")


def test_rows_without_a_target_are_left_out_and_counted(folder):
    columns = people()
    columns["rich"][3] = columns["rich"][100] = ""
    (folder / "people.csv").write_text(as_csv(columns))
    done = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1)
    assert "left out: 2 rows without a target" in done.err
    predicted = succeed("--predict", "--model", "m.bin", "--dataset", "people.csv").out.splitlines()
    assert len(predicted) == ROWS + 1


def test_rows_without_a_target_are_left_out_of_tables_of_numbers_too(folder):
    rows = [f"{(7 * i) % 31},{(11 * i) % 17},{i % 2}" for i in range(60)]
    rows[20] = "3,4,"
    (folder / "a.csv").write_text("\n".join(["a,b,y", *rows]))
    result = succeed(*ONE, "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1, "--json").json
    assert result["rows"] + result["holdout"] == 59 and nn.Network.load("m.bin").encoding is None
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == result["holdout"]
    assert succeed("--test", "--model", "m.bin", "--dataset", "a.csv", "--json").json["rows"] == 59
    assert len(succeed("--predict", "--model", "m.bin", "--dataset", "a.csv").out.splitlines()) == 61
    (folder / "gap.csv").write_text("a,b,y\n1,2,0\n3,,1\n")
    failed = run("--predict", "--model", "m.bin", "--dataset", "gap.csv")
    assert failed.code == 65 and "row 3, column b: found an empty field" in failed.err


def test_a_column_that_gives_the_target_away_gets_a_remark(folder):
    columns = people()
    columns["alive"] = ["dead" if rich == "no" else "living" for rich in columns["rich"]]
    (folder / "people.csv").write_text(as_csv(columns, ["age", "land", "alive", "rich"]))
    told = succeed(*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1).err
    assert "column alive alone tells rich of all 240 rows" in told and "--drop alive" in told
    assert told.count("alone") == 1


def test_layers_count_the_columns_that_are_kept(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    common = (*ONE, "--dataset", "people.csv", "--model", "m.bin", "--epochs", 1)
    for spec in ("5,8,1", "auto,8,1"):
        succeed(*common, "--layers", spec)
        assert nn.Network.load("m.bin").spec == "5,8:relu,1:sigmoid"
    failed = run(*common, "--layers", "8,8,1")
    assert failed.code == 2 and "left out" in failed.err and "auto" in failed.err


@pytest.mark.parametrize("backend", ["seq", "omp"])
def test_the_bytes_do_not_depend_on_threads(folder, backend):
    (folder / "people.csv").write_text(as_csv(people()))
    common = (*ONE, "--dataset", "people.csv", "--epochs", 2, "--backend", backend, "-q")
    models = []
    for threads in (1, 2, 3):
        succeed(*common, "--model", f"{threads}.bin", "--threads", threads)
        models.append((folder / f"{threads}.bin").read_bytes())
    assert models[0] == models[1] == models[2]


def test_data_that_fit_into_memory_train_to_the_same_bytes_under_a_limit(folder):
    (folder / "people.csv").write_text(as_csv(people(2000)))
    common = (*ONE, "--dataset", "people.csv", "--epochs", 2, "-q", "--model")
    succeed(*common, "a.bin")
    succeed(*common, "b.bin", "--memory", "2G")
    assert (folder / "a.bin").read_bytes() == (folder / "b.bin").read_bytes()


def test_windows_read_mixed_rows(folder):
    (folder / "people.csv").write_text(as_csv(people(5000)))
    common = (*ONE, "--dataset", "people.csv", "--epochs", 2, "--window", 1024, "-q", "--model")
    succeed(*common, "a.bin")
    succeed(*common, "b.bin", "--threads", 2)
    assert (folder / "a.bin").read_bytes() == (folder / "b.bin").read_bytes()
    figures = succeed("--test", "--model", "a.bin", "--json").json
    assert figures["rows"] > 500 and figures["accuracy"] > 0.5


def test_a_stopped_training_goes_on_to_the_same_bytes(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    common = (*ONE, "--dataset", "people.csv", "-q")
    succeed(*common, "--model", "whole.bin", "--epochs", 6)
    ds = nn.load("people.csv")
    net = nn.Network(f"{ds.inputs},60,10,1", ds.task)
    stop = nn.StopRequest()

    class StopAfterThree(Callback):
        def epoch(self, epoch, epochs, loss, val_loss, seconds, us_per_batch):
            if epoch == 3:
                stop.request(2)

    with pytest.raises(nn.Stopped):
        nn.train(net, ds, epochs=6, checkpoint="c.ck", stop=stop, callback=StopAfterThree())
    net = nn.Network(f"{ds.inputs},60,10,1", ds.task)
    nn.train(net, ds, epochs=6, checkpoint="c.ck", resume="auto")
    whole = nn.Network.load("whole.bin")
    for name, value in whole.parameters().items():
        np.testing.assert_array_equal(net.parameters()[name], value)


def test_the_layers_of_such_a_network_are_timed(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    train = (*ONE, "--dataset", "people.csv", "--model", "m.bin", "--json")
    result = succeed(*train, "--profile", "--trace", "t.json").json
    layers = result["profile"]["layers"]
    assert layers[0]["layer"] == "embedding" and len(layers) == 4 and layers[1]["forward_ms"] > 0
    names = {event["name"] for event in json.loads((folder / "t.json").read_text())["traceEvents"]}
    assert {"forward 0 embedding", "forward 1 60", "forward 3 1"} <= names


def test_a_model_comes_back_with_its_columns(trained, folder):
    net = nn.Network.load("m.bin")
    ds = load_for(net, "people.csv")
    assert isinstance(ds.x, TableRows) and net.encoding.names == ["age", "land", "member", "day", "town"]
    again = nn.Network.load("m.bin").predict(ds.x)
    np.testing.assert_array_equal(net.predict(ds.x), again)
    with open("m.bin", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert json.loads(header["__metadata__"]["nn"])["format"] == 2


def test_a_table_of_numbers_keeps_format_1(folder):
    rows = np.random.default_rng(0).normal(size=(50, 3)).round(3)
    (folder / "a.csv").write_text("\n".join(",".join(map(str, [*row, int(row[0] > 0)])) for row in rows))
    succeed(*ONE, "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1)
    assert b'"format\\":1' in (folder / "m.bin").read_bytes() and nn.Network.load("m.bin").encoding is None


def test_the_original_format_and_the_reference_know_numbers_only(folder):
    (folder / "people.csv").write_text(as_csv(people()))
    flags = ("--train", "--dataset", "people.csv", "--layers", "auto,4,1:sigmoid", "--activation", "sigmoid")
    failed = run(*flags, "--model", "m.m")
    assert failed.code == 2 and ".m file knows numbers" in failed.err
    failed = run("--train", "--dataset", "people.csv", "--model", "m.bin", "--reference", "--layers", "8,4,1")
    assert failed.code == 65 and "expected a number" in failed.err


@pytest.mark.parametrize(
    "values, task",
    [
        (range(3), "multiclass"), (range(10), "multiclass"), (range(28), "regression"), (range(100), "regression"),
        ([0.5, 1.5, 2], "regression"), ([1, 2], "binary"),
    ],
)  # fmt: skip
def test_few_whole_numbers_are_classes_and_more_are_numbers(folder, values, task):
    """Counts have thin tails: the larger a number, the fewer rows."""
    values = list(values)
    targets = [v for i, v in enumerate(values) for _ in range(1 + 100 // (1 + i))]
    (folder / "a.csv").write_text("\n".join(f"{(7 * i) % 31},{target}" for i, target in enumerate(targets)))
    ds = nn.load("a.csv")
    assert ds.task == task
    doubt = len(values) > 2 and all(v == int(v) for v in values)
    assert bool(ds.remarks) == doubt and (not doubt or "--task" in ds.remarks[0])


def test_many_labels_of_many_rows_each_are_classes(folder):
    (folder / "a.csv").write_text("\n".join(f"{(7 * i) % 31},{i % 26}" for i in range(2600)))
    assert nn.load("a.csv").task == "multiclass"


# ---------------------------------------------------------------- weights, groups, times


def sales(count: int = 200) -> dict[str, list[str]]:
    random = np.random.default_rng(4)
    area = random.normal(50, 10, count).round(2)
    return {
        "area": area.astype(str).tolist(), "floor": random.integers(0, 5, count).astype(str).tolist(),
        "seller": [f"s{i % 20}" for i in range(count)], "count": random.integers(1, 4, count).astype(str).tolist(),
        "sold": (np.datetime64("2020-01-01") + random.permutation(count)).astype(str).tolist(),
        "dear": np.where(area > 50, "yes", "no").tolist(),
    }  # fmt: skip


def test_a_column_of_weights_is_no_input_and_counts_in_figures(folder):
    (folder / "sales.csv").write_text(as_csv(sales()))
    train = (*ONE, "--dataset", "sales.csv", "--model", "m.bin", "--epochs", 2, "--json", "--drop", "sold,seller")
    result = succeed(*train, "--weight", "count").json
    assert list(result["columns"]) == ["area", "floor"]
    figures = succeed("--test", "--model", "m.bin", "--json").json
    counts = [figures[name] for name in ("tp", "fp", "fn", "tn")]
    assert figures["weighted"] is True and sum(counts) > figures["rows"]
    plain = sales(30)
    (folder / "new.csv").write_text(as_csv(plain, ["floor", "area"]))
    assert len(succeed("--predict", "--model", "m.bin", "--dataset", "new.csv").out.splitlines()) == 31


def test_weights_of_a_column_are_rows_that_occur_as_often(folder):
    columns = sales()
    (folder / "sales.csv").write_text(as_csv(columns))
    repeated = {name: [v for v, n in zip(values, columns["count"], strict=True) for _ in range(int(n))]
                for name, values in columns.items()}  # fmt: skip
    (folder / "often.csv").write_text(as_csv(repeated))
    losses = []
    for name, flags in (("sales", {"weight": "count"}), ("often", {"drop": "count"})):
        ds = nn.load(f"{name}.csv", dtype="float64", **({"drop": "sold,seller,count"} if "drop" in flags else
                     {"drop": "sold,seller", **flags}))  # fmt: skip
        net = nn.Network("2,4,1", ds.task, dtype="float64")
        settings = {"scaling": "none", "optimizer": "sgd", "learning_rate": 1e-4, "weight_decay": 0.0}
        result = nn.train(net, ds, epochs=3, holdout=0, batch_number=10_000, **settings)
        losses.append((result["loss"], net.parameters()))
    (one, parameters), (other, parameters_too) = losses
    np.testing.assert_allclose(one, other, rtol=1e-12)
    for name, value in parameters.items():
        np.testing.assert_allclose(value, parameters_too[name], rtol=1e-12)


def test_a_group_is_never_divided_and_a_test_holds_out_the_same(folder):
    (folder / "sales.csv").write_text(as_csv(sales()))
    ds = nn.load("sales.csv", group="seller", drop="sold")
    assert "seller" not in ds.columns
    training, held = split_holdout(ds, 0.2, 0)
    assert not {*ds.groups[training]} & {*ds.groups[held]} and len(held)
    flags = ("--group", "seller", "--drop", "sold")
    succeed(*ONE, "--dataset", "sales.csv", "--model", "m.bin", "--epochs", 1, *flags)
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == len(held)


def test_the_last_rows_in_time_are_held_out(folder):
    (folder / "sales.csv").write_text(as_csv(sales()))
    ds = nn.load("sales.csv", time="sold")
    training, held = split_holdout(ds, 0.2, 0)
    assert "sold" not in ds.columns and len(held) == 40
    assert ds.times[training].max() < ds.times[held].min()


@pytest.mark.parametrize("flag", ["--group", "--time"])
def test_splits_by_a_column_need_all_rows(folder, flag):
    (folder / "sales.csv").write_text(as_csv(sales()))
    failed = run("--train", "--dataset", "sales.csv", "--model", "m.bin", flag, "sold", "--window", 64)
    assert failed.code == 2 and f"{flag}: splits need all rows in memory" in failed.err


@pytest.mark.parametrize("flag", ["--weight", "--group", "--time", "--categories", "--missing"])
def test_the_reference_has_no_such_flags(folder, flag):
    (folder / "sales.csv").write_text(as_csv(sales()))
    train = ("--train", "--dataset", "sales.csv", "--model", "m.bin", "--reference", "--layers", "5,4,1")
    failed = run(*train, flag, "count")
    assert failed.code == 2 and f"{flag}: --reference has no such thing" in failed.err


def test_weights_that_cannot_be_are_named(folder):
    columns = sales()
    columns["count"][3] = "-1"
    (folder / "sales.csv").write_text(as_csv(columns))
    failed = run("--train", "--dataset", "sales.csv", "--model", "m.bin", "--weight", "count")
    assert failed.code == 65 and "weight" in failed.err and "-1" in failed.err


# ---------------------------------------------------------------- other formats, Python


def frame_of(columns: dict[str, list[str]]):
    """A data frame with the types that pandas finds, dates as dates."""
    pandas = pytest.importorskip("pandas")
    import io

    return pandas.read_csv(io.StringIO(as_csv(columns)), parse_dates=["day"]).rename(columns={"Unnamed: 0": ""})


def parameters_and_encoding(path_or_frame, **choices) -> tuple[dict, dict]:
    ds = nn.load(path_or_frame, **choices)
    net = nn.Network(f"{ds.inputs},8,1", ds.task)
    nn.train(net, ds, epochs=2)
    return net.parameters(), net.encoding.to_dict() | {"sha256": ds.sha256}


@pytest.mark.parametrize("form", ["parquet", "sqlite", "frame", "feather"])
def test_the_same_table_in_another_form_gives_the_same_network(folder, form):
    columns = people()
    del columns[""]  # a name that databases do not have
    (folder / "people.csv").write_text(as_csv(columns))
    frame, source = frame_of(columns), f"people.{form}"
    if form == "sqlite":
        import sqlite3

        with sqlite3.connect("people.db") as database:
            frame.to_sql("people", database, index=False)
        source = "people.db:people"
    elif form == "frame":
        source = frame
    else:
        pytest.importorskip("pyarrow")
        getattr(frame, f"to_{form}")(source)
    (one, how), (other, how_too) = parameters_and_encoding("people.csv"), parameters_and_encoding(source)
    assert how == how_too
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])


def in_forms(frame, name: str) -> dict:
    """Write a data frame as files of all kinds; returns what nn.load takes for each."""
    import sqlite3

    with sqlite3.connect(f"{name}.db") as database:
        truths = {column: "BOOLEAN" for column in frame.select_dtypes(bool)}
        frame.to_sql(name, database, index=False, dtype=truths)
    frame.to_parquet(f"{name}.parquet", row_group_size=77)
    frame.to_feather(f"{name}.feather")
    return {"parquet": f"{name}.parquet", "feather": f"{name}.feather", "sqlite": f"{name}.db:{name}", "frame": frame}


def everything(count: int = 300):
    """A data frame with a column of each kind, most with gaps, and one of each reason to be left out."""
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(11)
    amount, some = random.normal(size=count).round(3), lambda values: np.where(random.random(count) < 0.1, None, values)
    words = {name: random.choice(list(name), count) for name in ("abc", "uvwxyz")}
    return pandas.DataFrame({
        "amount": amount, "gappy": some(random.normal(size=count).round(2)).astype(float),
        "count": random.integers(0, 9, count), "land": some(words["abc"]), "town": random.zipf(1.3, count) % 90,
        "street": [f"{a}{b}" for a, b in zip(words["uvwxyz"], random.integers(0, 9, count), strict=True)],
        "member": random.choice(["yes", "no"], count), "flag": random.random(count) < 0.5,
        "day": np.datetime64("2020-01-01", "s") + random.integers(0, 900, count).astype("timedelta64[D]"),
        "price": [f"${n:,}.00" for n in random.integers(1, 9999, count)], "weight": random.integers(1, 3, count),
        "id": random.permutation(count), "name": [f"n{i}" for i in range(count)], "planet": "earth",
        "rich": some(np.where(amount > 0, "rich", "poor")),
    })  # fmt: skip


@pytest.mark.parametrize("flags", [["--layers", "auto,8,1"], ["--folds", "3", "--layers", "auto,8,1"]])
def test_a_mixed_table_trains_to_the_same_bytes_in_any_form_on_any_threads_and_in_parts(folder, flags):
    """All of a model but the recorded path: through every kind of file, 1 to 4 threads, with and without --memory."""
    pytest.importorskip("pyarrow")
    frame = everything()
    frame.to_csv("t.csv", index=False)
    sources = {"csv": "t.csv", **in_forms(frame.assign(day=frame["day"].astype(str)), "t")}
    del sources["frame"]
    frame.to_parquet("t.parquet", row_group_size=77)
    runs = [(form, threads, ()) for form in sources for threads in (1, 4)]
    if "--folds" not in flags:
        runs += [(form, 2, ("--memory", "4G")) for form in sources]
    found = {}
    for form, threads, more in runs:
        given = ("--dataset", sources[form], "--categories", "town", "--weight", "weight", "--epochs", 3, *flags, *more)
        succeed("--train", "--model", "m.bin", "--threads", threads, "--backend", "omp", "--seed", 3, *given)
        net = nn.Network.load("m.bin")
        for one in {net, *net.members}:
            one.describe(dataset={**one.dataset, "path": "t"})
        net.export("m.bin")
        found[form, threads, more] = (folder / "m.bin").read_bytes()
    kinds = {encoder.kind for encoder in net.encoding.encoders}
    assert kinds == {"number", "category", "yes/no", "date", "written number"}
    assert set(net.columns) == set(frame) - {"id", "name", "planet", "weight", "rich"}
    different = [run for run in runs if found[run] != found[runs[0]]]
    assert not different, different


def test_a_category_of_numbers_is_the_same_however_they_are_written(folder):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    written, values = ["1", "1.0", "1e0", "01", "2.50", "25e-1", "-0", "0.0", "?"], [1, 1, 1, 1, 2.5, 2.5, 0, 0, None]
    count, order = 270, [i % 9 for i in np.random.default_rng(0).permutation(270)]
    rows = [f"{written[i]},{written[i]},{n % 7}.5,{'no' if n % 2 else 'yes'}" for n, i in enumerate(order)]
    (folder / "a.csv").write_text("\n".join(["kind,team,x,y", *rows]))
    column = [values[i] for i in order]
    y = ["no" if n % 2 else "yes" for n in range(count)]
    frame = pandas.DataFrame({"kind": column, "team": column, "x": [n % 7 + 0.5 for n in range(count)], "y": y})
    choices = {"categories": "kind", "group": "team"}
    one, how = parameters_and_encoding("a.csv", **choices)
    assert set(how["columns"][0]["values"]) | {None} == {"0", "1", "2.5", None}  # a group is held out
    for form, source in in_forms(frame, "a").items():
        other, how_too = parameters_and_encoding(source, **choices)
        assert how == how_too, form
        assert all(np.array_equal(one[name], other[name]) for name in one), form
    succeed("--train", "--dataset", "a.csv", "--model", "m.bin", "--epochs", 1, "--categories", "kind")
    succeed("--test", "--model", "m.bin")  # reads the same digest
    (folder / "b.csv").write_text("kind,team,x\n1.00,1,2\n1,1,2\n10e-1,1,2\n2.5,1,2\n")
    told = succeed("--predict", "--model", "m.bin", "--dataset", "b.csv").out
    scores = [line.split(",")[2] for line in told.splitlines()]
    assert scores[1] == scores[2] == scores[3] != scores[4]


def test_a_frame_is_predicted_by_the_names_of_its_columns(trained, folder):
    frame = frame_of(people(30, seed=2))
    net = nn.Network.load("m.bin")
    moved = frame[["town", "rich", "age", "day", "member", "land"]]
    np.testing.assert_array_equal(net.predict(frame), net.predict(moved))
    with pytest.raises(nn.DataError, match="no column town"):
        net.predict(frame.drop(columns="town"))


def test_a_frame_of_numbers_is_predicted_by_name_too(folder):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame.a > frame.b).astype(int)
    ds = nn.load(frame)
    net = nn.Network("3,8,1", ds.task)
    nn.train(net, ds, epochs=2)
    np.testing.assert_array_equal(net.predict(frame[["a", "b", "c"]]), net.predict(frame[["c", "y", "b", "a"]]))
    np.testing.assert_array_equal(net.predict(frame), net.predict(ds.x))


def test_a_gap_that_a_network_cannot_take_is_named():
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    net = nn.Network("3,4,1", "binary")
    nn.train(net, nn.Dataset(x, (x[:, 0] > 0).astype(np.int32), "binary", classes=["0", "1"]), epochs=1)
    x[7, 1] = np.nan
    with pytest.raises(nn.DataError, match="row 8, column 2 of 3: found nan"):
        net.predict(x)
