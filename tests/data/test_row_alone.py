"""A prediction depends on its row alone: a row of a file by itself is predicted as it is among the others, bit for bit,
in every door, whatever the type is that other rows of its columns would need."""

import json

import numpy as np
import pytest
from support.command_line import ONE, predictions, succeed
from support.onnx_models import session
from support.table_formats import pa, pd, write_database
from support.tables import trained_on

import nn
from nn.data.loading import load_for

ROWS = 60


def column_of(kind: str) -> list:
    rng = np.random.default_rng(3)
    drawn = rng.normal(size=ROWS)
    return {
        "seconds": (1.7e9 + rng.integers(0, 100_000, ROWS)).tolist(), "small": (drawn / 7).round(9).tolist(),
        "large": (drawn * 1e6).round(3).tolist(), "whole": rng.integers(-9, 9, ROWS).tolist(),
        "far": (1e7 + drawn).round(6).tolist(),
        "day": [f"2020-01-{1 + k % 28:02} 0{k % 10}:30:00" for k in range(ROWS)],
        "word": rng.choice(["red", "blue", "green"], ROWS).tolist(), "truth": rng.choice(["yes", "no"], ROWS).tolist(),
        "gaps": [None if k % 5 == 0 else float(x) for k, x in enumerate(drawn.round(7))],
        "price": [f"${n:,}.50" for n in rng.integers(1, 99_999, ROWS)],
    }[kind]  # fmt: skip


TABLES = {
    "plain": ["small", "large", "whole"], "seconds": ["seconds", "small", "large"], "far": ["far", "gaps", "small"],
    "mixed": ["seconds", "day", "word", "truth", "gaps", "price"], "words": ["small", "word", "day", "gaps"],
}  # fmt: skip


@pytest.fixture(params=TABLES)
def table(request, folder):
    """A frame of features, and the model m.bin of them."""
    frame = pd.DataFrame({name: column_of(name) for name in TABLES[request.param]})
    goal = frame.select_dtypes("number").rank().sum(axis=1)
    frame.assign(goal=goal).to_csv("old.csv", index=False)
    succeed(*ONE, "--dataset", "old.csv", "--task", "regression", "--model", "m.bin", "--epochs", 4, "--holdout", 0)
    return frame


def doors(rows, folder) -> dict:
    """What a model predicts, with the same rows in every form."""
    rows = rows.reset_index(drop=True)
    records = [{name: None if pd.isna(v) else v for name, v in row.items()} for row in rows.to_dict("records")]
    rows.to_csv(folder / "new.csv", index=False)
    pa.parquet.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "new.parquet")
    (folder / "new.jsonl").write_text("\n".join(json.dumps(row) for row in records))
    (folder / "new.db").unlink(missing_ok=True)
    write_database(rows, folder / "new.db")
    frames = {"frame": rows, "columns": rows.to_dict("list"), "records": records, "objects": rows.to_numpy(object)}
    if all(kind.kind in "if" for kind in rows.dtypes):
        frames |= {"array": rows.to_numpy(), "lists": rows.to_numpy().tolist(), "frame of arrays": rows.astype(float)}
    return frames | {name: str(folder / f"new.{name}") for name in ("csv", "parquet", "jsonl", "db")}


def test_a_row_alone_is_predicted_as_among_others_in_every_door(table, folder):
    net = nn.Model.load("m.bin").network
    expected = net.predict(load_for(net, "old.csv").x)
    beside = table.iloc[[0, 1]].assign(**{name: 0 for name in table.select_dtypes("number")})  # zeros beside each row
    for name, source in doors(table, folder).items():
        np.testing.assert_array_equal(net.predict(source), expected, name)
    for row in (0, 7, 23):
        for name, source in doors(table.iloc[[row]], folder).items():
            np.testing.assert_array_equal(net.predict(source), expected[[row]], name)
        for name, source in doors(pd.concat([table.iloc[[row]], beside]), folder).items():
            np.testing.assert_array_equal(net.predict(source)[:1], expected[[row]], name)
    alone = [predictions("m.bin", "new.csv")[0] for _ in [table.iloc[[7]].to_csv("new.csv", index=False)]]
    assert alone[0]["predicted goal"] == predictions("m.bin", "old.csv")[7]["predicted goal"]


def test_a_row_alone_is_exported_as_it_is_read(table, folder):
    if {"day", "price"} & {*table}:
        pytest.skip("dates and written numbers have tests of their own")
    net = nn.Model.load("m.bin").network
    succeed("--export", "--model", "m.bin", "-o", "m.onnx")
    found = session("m.onnx")
    plain = net.encoding is None
    rows = table.to_numpy(float)
    given = {"features": rows} if plain else {name: rows[:, [k]] for k, name in enumerate(table)}
    own = found.run(None, given)[0]
    np.testing.assert_allclose(own.reshape(-1), net.predict(table).reshape(-1), rtol=2e-5)


def test_the_type_is_a_fact_of_the_model_in_tests_explanations_validation_and_data_sets(folder):
    frame = pd.DataFrame({name: column_of(name) for name in ("seconds", "whole")})
    frame["goal"] = (frame["seconds"] % 1000 > 500).map({True: "up", False: "down"})
    frame.to_csv("old.csv", index=False)
    frame.iloc[[5]].to_csv("one.csv", index=False)
    net = trained_on(nn.load("old.csv"))
    assert net.number_type == "float64" and load_for(net, "one.csv").x.dtype == np.float64
    whole = nn.test(net, "old.csv", threshold=0.5)
    assert whole["rows"] == ROWS
    ds = nn.load("one.csv")
    np.testing.assert_array_equal(net.predict(load_for(net, "one.csv").x), net.predict(load_for(net, "old.csv").x)[[5]])
    assert ds.rows == 1
    narrow = trained_on(nn.load({"a": [0.1, 0.2, 0.3, 0.4] * 9, "goal": [0, 1, 0, 1] * 9}))
    assert narrow.number_type == "float32"
    new = {"a": [1.7e9, 1.7e9 + 50]}  # a column that float32 would blur, alone or beside others
    assert load_for(narrow, new, labelled=False).x.dtype == np.float32
    both, first = narrow.predict(np.array([[0.1], [1e8 + 1]])), narrow.predict(np.array([[0.1]]))
    np.testing.assert_array_equal(both[:1], first)
    np.testing.assert_array_equal(narrow.predict({"a": [0.1]}), first)
    np.testing.assert_array_equal(narrow.predict(np.array([[0.1]], np.float32)), first)


def test_a_model_that_names_no_type_reads_rows_as_they_need_it(folder):
    net = trained_on(nn.load({"a": [0.1, 0.2, 0.3, 0.4] * 9, "goal": [0, 1, 0, 1] * 9}))
    net.number_type = None
    nn.Model(net).save("old.bin")
    assert "number_type" not in succeed("--info", "--model", "old.bin", "--json").json
    old = nn.Model.load("old.bin").network
    assert load_for(old, {"a": [1.7e9, 1.7e9 + 50]}, labelled=False).x.dtype == np.float64
