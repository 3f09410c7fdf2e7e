"""Whole numbers that are dates: 20150314, and 201503 where the column's name tells of a time."""

import contextlib
import sqlite3

import numpy as np
import pytest
from support.command_line import run, succeed
from support.people import as_csv

import nn

ONE = ("--layers", "auto,4,1", "--epochs", 1)


def sales(count: int = 400, first: str = "1995-01-01") -> dict[str, list[str]]:
    """Forty years of days, which float32 cannot tell apart as numbers."""
    random = np.random.default_rng(5)
    days = np.datetime64(first) + random.integers(0, 40 * 365, count)
    return {
        "day": [day.replace("-", "") for day in days.astype(str)],
        "size": random.integers(1, 9, count).astype(str).tolist(),
        "price": (days.astype(int) / 1000).round(3).astype(str).tolist(),
    }


def kinds(path, *flags) -> dict[str, str]:
    return succeed("--train", "--dataset", path, "--model", "m.bin", *ONE, "--json", *flags).json["columns"]


def written(folder, columns) -> str:
    (folder / "sales.csv").write_text(as_csv(columns))
    return "sales.csv"


def test_days_are_dates_exactly(folder):
    columns = sales()
    ds = nn.load(written(folder, columns))
    columns["day"] = [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in columns["day"]]
    (folder / "iso.csv").write_text(as_csv(columns))
    iso, nets = nn.load("iso.csv"), []
    for data in (ds, iso):
        net = nn.Network.for_data(data, "auto,4,1", seed=0)
        nn.train(net, data, epochs=1)
        nets.append(net)
    assert nets[0].encoding.encoders[0].kind == "written date" and nets[1].encoding.encoders[0].kind == "date"
    np.testing.assert_array_equal(nets[0].vector, nets[1].vector)
    np.testing.assert_array_equal(nets[0].predict(ds.x), nets[1].predict(iso.x))


def test_the_model_tests_and_predicts_and_is_the_same_in_windows(folder):
    path = written(folder, sales())
    assert kinds(path) == {"day": "written date", "size": "number"}
    assert "day (yearmonthday, trend" in succeed("--info", "--model", "m.bin").out
    whole = (folder / "m.bin").read_bytes()
    succeed("--test", "--model", "m.bin")
    assert kinds(path, "--memory", "4G") == {"day": "written date", "size": "number"}
    assert (folder / "m.bin").read_bytes() == whole
    (folder / "new.csv").write_text("size,day\n3,20260101\n4,20260230\n")
    told = succeed("--predict", "--model", "m.bin", "--dataset", "new.csv")
    assert len(told.out.splitlines()) == 3 and "column day" in told.err  # 30 February is a gap


@pytest.mark.parametrize("with_gaps", [False, True])
def test_every_format_gives_the_same_network(folder, with_gaps):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    columns = sales()
    if with_gaps:
        columns["day"][:120:5] = [""] * 24
    frame = pandas.read_csv(written(folder, columns))
    frame.to_parquet("sales.parquet")
    frame.to_feather("sales.feather")
    with contextlib.closing(sqlite3.connect("sales.db")) as database:
        frame.to_sql("sales", database, index=False)
    networks = []
    for source in ("sales.csv", "sales.parquet", "sales.feather", "sales.db:sales", frame):
        ds = nn.load(source)
        net = nn.Network.for_data(ds, "auto,4,1", seed=0)
        nn.train(net, ds, epochs=1)
        assert net.encoding.encoders[0].kind == "written date"
        networks.append((net.encoding.to_dict(), ds.sha256, net.vector.tobytes(), net.predict(ds.x).tobytes()))
    assert all(network == networks[0] for network in networks)


def changed(**columns) -> dict[str, list[str]]:
    return {name: columns.get(name, values) for name, values in sales().items()}


@pytest.mark.parametrize(
    "columns, flags, kind",
    [
        (changed(day=["20150230", *sales()["day"][1:]]), (), "number"),  # there is no such day
        (changed(day=["20150311.5", *sales()["day"][1:]]), (), "number"),
        (changed(day=[f"2015030{i % 7 + 1}" for i in range(400)]), (), "number"),  # seven days may be codes
        (changed(day=[f"2015030{i % 7 + 1}" for i in range(400)]), ("--dates", "day"), "written date"),
        (changed(day=[f"2015030{i % 8 + 1}" for i in range(400)]), (), "written date"),
        (changed(day=[day[:6] for day in sales()["day"]]), (), "written date"),
        (changed(), ("--numbers", "day"), "number"),
        (changed(), ("--categories", "day"), "category"),
        (changed(), ("--dates", "day"), "written date"),
        (changed(day=["?"] * 150 + sales()["day"][150:]), (), "written date"),
        (changed(day=[str(17000101 + 100 * (i % 12)) for i in range(400)]), (), "number"),
    ],
)
def test_what_is_a_date_and_what_is_none(folder, columns, flags, kind):
    assert kinds(written(folder, columns), *flags)["day"] == kind


@pytest.mark.parametrize("name, kind", [("month", "written date"), ("YYYYMM", "written date"), ("pin", "number")])
def test_months_are_told_by_the_name(folder, name, kind):
    columns = sales()
    columns = {name: [day[:6] for day in columns["day"]], "size": columns["size"], "price": columns["price"]}
    assert kinds(written(folder, columns))[name] == kind


def test_numbers_that_are_said_to_be_dates_and_are_none_are_refused(folder):
    columns = changed(day=[*sales()["day"][:7], "20150230", *sales()["day"][8:]])
    failed = run("--train", "--dataset", written(folder, columns), "--model", "m.bin", *ONE, "--dates", "day")
    assert failed.code == 65 and 'sales.csv, row 9, column day: found "20150230", expected a date' in failed.err


def test_a_table_without_a_header(folder):
    path = folder / "plain.csv"
    path.write_text("\n".join(as_csv(sales()).splitlines()[1:]))
    assert kinds(path) == {"0": "written date", "1": "number"}
