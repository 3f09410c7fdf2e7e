"""A prediction depends on its row alone: a row of a file by itself is predicted as it
is among the others, bit for bit, in every door, whatever the type is that other rows of
its columns would need."""

import json

import numpy as np
import pytest
from support.command_line import ONE, argv, predictions, succeed
from support.onnx_models import session
from support.table_formats import pa, pd, write_database
from support.tables import trained_on

import nn
from nn.data.loading import load_for
from nn.test.compare import Side, compared
from nn.test.importance import importance

ROWS = 60


def column_of(kind: str) -> list:
    rng = np.random.default_rng(3)
    drawn = rng.normal(size=ROWS)
    texts = []
    for k in range(ROWS):
        texts.append(f"2020-01-{1 + k % 28:02} 0{k % 10}:30:00")
    gaps = []
    for k, x in enumerate(drawn.round(7)):
        gaps.append(None if k % 5 == 0 else float(x))
    seconds = (1.7e9 + rng.integers(0, 100_000, ROWS)).tolist()
    whole = rng.integers(-9, 9, ROWS).tolist()
    word = rng.choice(["red", "blue", "green"], ROWS).tolist()
    truth = rng.choice(["yes", "no"], ROWS).tolist()
    price = [f"${n:,}.50" for n in rng.integers(1, 99_999, ROWS)]
    small = (drawn / 7).round(9).tolist()
    large = (drawn * 1e6).round(3).tolist()
    far = (1e7 + drawn).round(6).tolist()
    return {
        "seconds": seconds,
        "small": small,
        "large": large,
        "whole": whole,
        "far": far,
        "day": texts,
        "word": word,
        "truth": truth,
        "gaps": gaps,
        "price": price,
    }[kind]


TABLES = {
    "plain": ["small", "large", "whole"],
    "seconds": ["seconds", "small", "large"],
    "far": ["far", "gaps", "small"],
    "mixed": ["seconds", "day", "word", "truth", "gaps", "price"],
    "words": ["small", "word", "day", "gaps"],
}


@pytest.fixture(params=TABLES)
def table(request, folder):
    """A frame of features, and the model m.bin of them."""
    frame = pd.DataFrame({name: column_of(name) for name in TABLES[request.param]})
    goal = frame.select_dtypes("number").rank().sum(axis=1)
    frame.assign(goal=goal).to_csv("old.csv", index=False)
    succeed(
        *ONE,
        *argv(
            "--dataset old.csv --task regression --model m.bin --epochs 4 --holdout 0"
        ),
    )
    return frame


def doors(rows, folder) -> dict:
    """What a model predicts, with the same rows in every form."""
    rows = rows.reset_index(drop=True)
    records = []
    for row in rows.to_dict("records"):
        records.append({name: None if pd.isna(v) else v for name, v in row.items()})
    rows.to_csv(folder / "new.csv", index=False)
    pa.parquet.write_table(
        pa.Table.from_pandas(rows, preserve_index=False), folder / "new.parquet"
    )
    text = "\n".join(json.dumps(row) for row in records)
    (folder / "new.jsonl").write_text(text)
    (folder / "new.db").unlink(missing_ok=True)
    write_database(rows, folder / "new.db")
    frames = {
        "frame": rows,
        "columns": rows.to_dict("list"),
        "records": records,
        "objects": rows.to_numpy(object),
    }
    if all(kind.kind in "if" for kind in rows.dtypes):
        lists = rows.to_numpy().tolist()
        frames |= {
            "array": rows.to_numpy(),
            "lists": lists,
            "frame of arrays": rows.astype(float),
        }
    return frames | {
        name: str(folder / f"new.{name}") for name in ("csv", "parquet", "jsonl", "db")
    }


@pytest.mark.usual(2)
def test_a_row_alone_is_predicted_as_among_others_in_every_door(table, folder):
    net = nn.Model.load("m.bin").network
    expected = net.predict(load_for(net, "old.csv").x)
    # zeros beside each row
    neighbours = table.iloc[[0, 1]].assign(
        **{name: 0 for name in table.select_dtypes("number")}
    )
    for name, source in doors(table, folder).items():
        np.testing.assert_array_equal(net.predict(source), expected, name)
    for row in (0, 7, 23):
        rows = table.iloc[[row]]
        for name, source in doors(rows, folder).items():
            np.testing.assert_array_equal(net.predict(source), expected[[row]], name)
        frame = pd.concat([table.iloc[[row]], neighbours])
        for name, source in doors(frame, folder).items():
            np.testing.assert_array_equal(
                net.predict(source)[:1], expected[[row]], name
            )
    alone = []
    for _ in [table.iloc[[7]].to_csv("new.csv", index=False)]:
        alone.append(predictions("m.bin", "new.csv")[0])
    assert (
        alone[0]["predicted goal"]
        == predictions("m.bin", "old.csv")[7]["predicted goal"]
    )


def test_a_row_alone_is_exported_as_it_is_read(table, folder):
    if {"day", "price"} & {*table}:
        pytest.skip("dates and written numbers have tests of their own")
    net = nn.Model.load("m.bin").network
    succeed("--export", "--model", "m.bin", "-o", "m.onnx")
    runtime = session("m.onnx")
    # numbers alone
    names = [feature.name for feature in runtime.get_inputs()]
    has_one_input = names == ["features"]
    rows = table.to_numpy(float)
    if has_one_input:
        given = {"features": rows}
    else:
        given = {}
        for k, name in enumerate(table):
            given[name] = rows[:, [k]]
    scores = runtime.run(None, given)[0]
    expected = net.predict(table).reshape(-1)
    np.testing.assert_allclose(scores.reshape(-1), expected, rtol=2e-5)


def test_the_model_decides_types_in_tests_explanations_validation_and_data_sets(folder):
    frame = pd.DataFrame({name: column_of(name) for name in ("seconds", "whole")})
    frame["goal"] = (frame["seconds"] % 1000 > 500).map({True: "up", False: "down"})
    frame.to_csv("old.csv", index=False)
    frame.iloc[[5]].to_csv("one.csv", index=False)
    net = trained_on(nn.load("old.csv"))
    assert net.number_type == "float64"
    assert load_for(net, "one.csv").x.dtype == np.float64
    whole = nn.test(net, "old.csv", threshold=0.5)
    assert whole["rows"] == ROWS
    ds = nn.load("one.csv")
    x = load_for(net, "one.csv").x
    np.testing.assert_array_equal(
        net.predict(x), net.predict(load_for(net, "old.csv").x)[[5]]
    )
    assert ds.rows == 1
    a = [0.1, 0.2, 0.3, 0.4] * 9
    columns = {"a": a, "goal": [0, 1, 0, 1] * 9}
    narrow = trained_on(nn.load(columns))
    assert narrow.number_type == "float32"
    # a column that float32 would blur, alone or beside others
    new = {"a": [1.7e9, 1.7e9 + 50]}
    rows = load_for(narrow, new, labelled=False)
    assert rows.x.dtype == np.float32
    both = narrow.predict(np.array([[0.1], [1e8 + 1]]))
    score = narrow.predict(np.array([[0.1]]))
    np.testing.assert_array_equal(both[:1], score)
    np.testing.assert_array_equal(narrow.predict({"a": [0.1]}), score)
    np.testing.assert_array_equal(narrow.predict(np.array([[0.1]], np.float32)), score)


def goods(rows: int = 160) -> dict:
    rng = np.random.default_rng(8)
    size = rng.normal(size=rows).round(3)
    code = rng.integers(1, 9, rows)
    worth = size + (code > 4)
    texts = [f"00{k}" for k in code]
    goal = np.where(worth > 0.5, "up", "down").tolist()
    age = rng.integers(0, 50, rows).tolist()
    return {"size": size.tolist(), "code": texts, "age": age, "goal": goal}


def test_a_data_set_with_other_orders_of_columns_and_classes_is_read_by_name(folder):
    columns = goods()
    ds = nn.load(columns, target="goal", categories="code")
    other = {name: columns[name] for name in ("age", "goal", "code", "size")}
    turned = nn.load(other, target="goal", categories="code")
    turned.classes = turned.classes[::-1]
    turned.y = 1 - turned.y
    net = trained_on(ds)
    assert turned.columns == ["age", "code", "size"]
    assert turned.classes == net.classes[::-1]
    metrics = nn.test(net, turned)
    assert metrics == nn.test(net, ds)
    plain = {name: columns[name] for name in ("size", "age", "goal")}
    plain_net = trained_on(nn.load(plain, target="goal"))
    table = {name: plain[name] for name in ("age", "size", "goal")}
    other = nn.load(table, target="goal")
    metrics = nn.test(plain_net, other)
    assert metrics == nn.test(plain_net, nn.load(plain, target="goal"))
    cases = ((net, ds, turned), (plain_net, nn.load(plain, target="goal"), other))
    for network, data, again in cases:
        assert vars(importance(network, data)) == vars(importance(network, again))
        sides = [Side.of(network, rows) for rows in (data, again)]
        compared_rows = compared(sides, ["a", "b"])
        assert compared_rows["metrics"]["log_loss"]["difference"] == 0
    path = {"size": plain["size"], "other": plain["age"], "goal": plain["goal"]}
    lacking = nn.load(path, target="goal")
    with pytest.raises(nn.DataError, match="no column age"):
        nn.test(plain_net, lacking)


def test_a_validation_data_set_and_one_that_a_network_goes_on_with_have_its_classes(
    folder,
):
    columns = goods()
    ds = nn.load(columns, target="goal", categories="code")
    turned = nn.load(columns, target="goal", categories="code")
    turned.classes = turned.classes[::-1]
    turned.y = 1 - turned.y
    histories = []
    for validation in (ds, turned):
        net = nn.Network.for_data(ds, seed=3)
        nn.train(net, ds, epochs=3, validation=validation)
        histories.append(net.history)
    val_loss = histories[0]["val_loss"]
    assert val_loss == histories[1]["val_loss"]
    classes = net.classes
    before = nn.test(net, ds)["roc_auc"]
    nn.train(net, turned, epochs=3)
    assert net.classes == classes
    roc_auc = nn.test(net, ds)["roc_auc"]
    assert roc_auc > max(0.8, before - 0.1)


@pytest.mark.parametrize("form", ["csv", "frame"])
def test_truths_with_gaps_are_the_same_in_a_csv_file_and_in_typed_columns(folder, form):
    rng = np.random.default_rng(2)
    known = []
    for gap in rng.random(150) < 0.2:
        known.append(None if gap else bool(rng.integers(2)))
    goal = [0.5 if truth is None else 3.0 + truth for truth in known]
    frame = pd.DataFrame({"known": pd.array(known, dtype="boolean"), "goal": goal})
    words = {None: "", True: "TRUE", False: "FALSE"}
    frame.assign(known=[words[truth] for truth in known]).to_csv("t.csv", index=False)
    pa.parquet.write_table(
        pa.Table.from_pandas(frame, preserve_index=False), "t.parquet"
    )
    path = "t.csv" if form == "csv" else frame
    net = trained_on(nn.load(path, target="goal"))
    encoder = net.encoding.encoders[0]
    assert encoder.values == ["False", "True", None]
    expected = net.predict("t.csv")
    assert len(np.unique(expected)) == 3
    sources = (frame, "t.parquet", {"known": known}, {"known": np.array(known, object)})
    for source in sources:
        np.testing.assert_array_equal(net.predict(source), expected)
    nn.Model(net).save("m.bin")
    succeed("--export", "--model", "m.bin", "-o", "m.onnx")
    rows = [[{None: "", True: "TRUE", False: "false"}[truth]] for truth in known]
    given = np.array(rows, object)
    result = session("m.onnx").run(None, {"known": given})[0]
    np.testing.assert_allclose(result.reshape(-1), expected.reshape(-1), rtol=1e-5)


def test_codes_with_zeros_before_them_are_exported_as_they_are_written(folder):
    columns = goods()
    pd.DataFrame(columns).to_csv("g.csv", index=False)
    succeed(*ONE, *argv("--dataset g.csv --categories code --model m.bin --epochs 4"))
    net = nn.Model.load("m.bin").network
    expected = net.predict("g.csv").reshape(-1)
    assert (
        len(
            {
                *np.round(
                    expected
                    - net.predict({**columns, "code": ["001"] * 160}).reshape(-1),
                    4,
                )
            }
        )
        > 5
    )
    succeed("--export", "--model", "m.bin", "-o", "m.onnx")
    runtime = session("m.onnx")
    numbers = {}
    for name in ("size", "age"):
        numbers[name] = np.array(columns[name], float).reshape(-1, 1)
    for write in ("00{}", "{}", "00000{}", "{}.0"):
        rows = [[write.format(int(code))] for code in columns["code"]]
        codes = np.array(rows, object)
        given = runtime.run(None, {**numbers, "code": codes})
        scores = next(array for array in given if array.dtype.kind == "f").reshape(
            len(codes), -1
        )[:, -1]
        np.testing.assert_allclose(scores, expected, rtol=1e-4, err_msg=write)


def test_float16_and_blanks_around_names_are_read_alike_in_every_door(folder):
    rng = np.random.default_rng(4)
    half = rng.normal(size=80).astype(np.float16)
    b = np.arange(80) % 7
    frame = pd.DataFrame({" a ": half, "b": b, "goal ": half.astype(float) * 2})
    frame.to_csv("h.csv", index=False)
    frame.to_parquet("h.parquet")
    ds = nn.load("h.csv")
    columns = nn.load(frame).columns
    assert ds.columns == columns == nn.load("h.parquet").columns == ["a", "b"]
    assert ds.targets == nn.load(frame).targets == ["goal"]
    x = nn.load(frame).x
    np.testing.assert_array_equal(x, ds.x)
    net = trained_on(ds)
    expected = net.predict("h.csv")
    sources = (
        frame,
        "h.parquet",
        {name: frame[name].to_numpy() for name in frame},
        frame[[" a ", "b"]],
    )
    for source in sources:
        np.testing.assert_array_equal(net.predict(source), expected)
    both = np.column_stack([half, (np.arange(80) % 7).astype(np.float16)])
    np.testing.assert_array_equal(net.predict(both), expected)
    a = np.array([-1000, 1, 2, 3] * 9, np.float16)
    table = {"a": a, "y": [1.0, 2.5] * 18}
    x = nn.load(table, missing="-999.9").x
    assert isinstance(x, np.ndarray)


def test_a_model_that_names_no_type_reads_rows_as_they_need_it(folder):
    a = [0.1, 0.2, 0.3, 0.4] * 9
    columns = {"a": a, "goal": [0, 1, 0, 1] * 9}
    net = trained_on(nn.load(columns))
    net.number_type = None
    nn.Model(net).save("old.bin")
    assert "number_type" not in succeed("--info", "--model", "old.bin", "--json").json
    old = nn.Model.load("old.bin").network
    table = {"a": [1.7e9, 1.7e9 + 50]}
    rows = load_for(old, table, labelled=False)
    assert rows.x.dtype == np.float64
