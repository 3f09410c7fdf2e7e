"""Columns that say something of their rows: weights, groups and times."""

import numpy as np
import pytest
from support.command_line import ONE, run, succeed
from support.tables import saved

import nn
from nn.ds import split_rows


@pytest.fixture(autouse=True)
def columns(folder) -> dict[str, list[str]]:
    """The columns of sales.csv in the current folder."""
    columns = sales()
    saved(columns, "sales.csv")
    return columns


def sales(count: int = 200) -> dict[str, list[str]]:
    random = np.random.default_rng(4)
    area = random.normal(50, 10, count).round(2)
    return {
        "area": area.astype(str).tolist(), "floor": random.integers(0, 5, count).astype(str).tolist(),
        "seller": [f"s{i % 20}" for i in range(count)], "count": random.integers(1, 4, count).astype(str).tolist(),
        "sold": (np.datetime64("2020-01-01") + random.permutation(count)).astype(str).tolist(),
        "dear": np.where(area > 50, "yes", "no").tolist(),
    }  # fmt: skip


def test_a_column_of_weights_is_no_input_and_counts_in_figures(columns):
    assert nn.load("sales.csv", weight="count").weights.tolist() == [*map(float, columns["count"])]
    train = (*ONE, "--dataset", "sales.csv", "--model", "m.bin", "--epochs", 2, "--json", "--drop", "sold,seller")
    result = succeed(*train, "--weight", "count").json
    assert list(result["columns"]) == ["area", "floor"]
    figures = succeed("--test", "--model", "m.bin", "--json").json
    counts = [figures[name] for name in ("tp", "fp", "fn", "tn")]
    assert figures["weighted"] is True and sum(counts) > figures["rows"]
    saved({name: sales(30)[name] for name in ("floor", "area")}, "new.csv")
    assert len(succeed("--predict", "--model", "m.bin", "--dataset", "new.csv").out.splitlines()) == 31


@pytest.mark.parametrize("flag, column", [("--weight", "count"), ("--time", "sold")])
def test_a_prediction_does_not_read_what_a_column_says_of_its_rows(columns, flag, column):
    others = [name for name in ("count", "sold", "seller") if name != column]
    flags = ("--drop", ",".join(others), "--epochs", 1, flag, column)
    succeed(*ONE, "--dataset", "sales.csv", "--model", "m.bin", *flags)
    predict = ("--predict", "--model", "m.bin", "--dataset", "sales.csv", "--quiet")
    expected = succeed(*predict).out
    columns[column][7:9] = ["", "unknown"]
    saved(columns, "sales.csv")
    assert succeed(*predict).out == expected
    assert run("--test", "--model", "m.bin", "--dataset", "sales.csv").code == 65


def test_a_group_is_never_divided_and_a_test_holds_out_the_same():
    ds = nn.load("sales.csv", group="seller", drop="sold")
    assert "seller" not in ds.columns
    training, _, held = split_rows(ds, 0.2, 0, 0)
    assert not {*ds.groups[training]} & {*ds.groups[held]} and len(held)
    flags = ("--group", "seller", "--drop", "sold")
    succeed(*ONE, "--dataset", "sales.csv", "--model", "m.bin", "--epochs", 1, *flags)
    assert succeed("--test", "--model", "m.bin", "--json").json["rows"] == len(held)


def test_the_last_rows_are_held_out_by_times_that_may_be_dates_as_people_write_them(columns):
    ds = nn.load("sales.csv", time="sold")
    expected, (training, _, held) = ds.times, split_rows(ds, 0.2, 0, 0)
    assert "sold" not in ds.columns and len(held) == 40 and ds.times[training].max() < ds.times[held].min()
    columns["sold"] = [f"{int(day[5:7])}/{day[8:]}/{day[:4]}" for day in columns["sold"]]
    saved(columns, "sales.csv")
    np.testing.assert_array_equal(nn.load("sales.csv", time="sold").times, expected)
    columns["sold"][4] = "soon"
    saved(columns, "sales.csv")
    with pytest.raises(nn.DataError, match='row 6, column sold: found "soon", expected a number or a date for --time'):
        nn.load("sales.csv", time="sold")


@pytest.mark.parametrize("flag", ["--weight", "--group", "--time", "--categories", "--missing"])
def test_the_reference_has_no_such_flags(flag):
    train = ("--train", "--dataset", "sales.csv", "--model", "m.bin", "--reference", "--layers", "5,4,1")
    failed = run(*train, flag, "count")
    assert failed.code == 2 and f"{flag} count: --reference has no such thing" in failed.err


@pytest.mark.parametrize("flags, told", [
    (("--target", "dear", "--id", "dear"), "--id: column dear is that of --target too"),
    (("--target", "dear", "--drop", "dear"), "--drop: column dear is that of --target too"),
    (("--target", "dear", "--group", "-1"), "--group: column dear is that of --target too"),
    (("--id", "seller", "--group", "seller"), "--group: column seller is that of --id too"),
    (("--weight", "count", "--time", "count"), "--time: column count is that of --weight too"),
])  # fmt: skip
def test_a_column_has_one_use(flags, told):
    failed = run(*ONE, "--dataset", "sales.csv", "--model", "m.bin", *flags)
    assert failed.code == 2 and told in failed.err and failed.err.count("\n") == 1
