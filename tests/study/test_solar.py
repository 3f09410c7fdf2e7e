"""The solar study's data: synthetic clouds, series of stations, tables, maps; what a
forecast is worth."""

import math
import runpy
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from support.command_line import environment, succeed
from support.tables import csv_of

import nn
from nn.study import solar

OF_ALL_TESTS = ("target", "trained_rows", "drift")  # keys that are no metrics


@pytest.fixture
def series():
    """Five stations on a cross, 40 seconds, a gap of 10 s after the 20th; values that
    say who and when."""
    times = np.concatenate([np.arange(20.0), np.arange(30.0, 50.0)])
    values = (1000 * np.arange(5)[None, :] + times[:, None]).astype(np.float32)
    places = np.array([[0, 0], [100, 0], [0, 100], [-100, 0], [0, -100]], float)
    texts = [f"s{i}" for i in range(5)]
    return solar.Series(times, values, texts, places)


def test_clouds_are_the_same_for_a_seed_and_like_irradiance_of_days_without_nights():
    values = solar.clouds(500, seed=0, step=10).values
    again = solar.clouds(500, seed=0, step=10).values
    other = solar.clouds(500, seed=1, step=10).values
    np.testing.assert_array_equal(values, again)
    assert not np.allclose(values, other)
    assert values.shape == (500, 50)
    assert len(set(solar.clouds(5).stations)) == 50
    # clouds and clear sky
    assert values.min() > 0
    assert values.max() < solar.CLEAR_SKY
    assert values.std() > 100
    correlations = np.corrcoef(values[:-1].reshape(-1), values[1:].reshape(-1))
    near = correlations[0, 1]
    assert near > 0.9  # ten seconds later much is as it was
    series = solar.clouds(2 * 2880 + 10, step=10)
    assert series.times[2880] - series.times[2879] == 16 * 3600 + 10
    # six rows at each evening have no row a minute later
    expected = len(series.times) - 3 * 6
    assert solar.table(series, horizon=60).rows == expected


def test_the_wind_carries_the_clouds_to_the_east_and_north():
    """What a station sees comes later to one downwind, and sooner to one upwind: clouds
    can be forecast."""
    series = solar.clouds(2880, step=10)
    away = series.places - series.places[series.station(None)]
    wind = np.array(solar.WIND) / np.hypot(*solar.WIND)
    along = away @ wind
    across = away @ [-wind[1], wind[0]]
    middle = series.values[:, series.station(None)]
    lag = 6  # rows, 60 s: about 600 m
    downwind = int(
        np.argmin(np.abs(along - 60 * np.hypot(*solar.WIND)) + np.abs(across))
    )
    values = series.values[lag:, downwind]
    correlations = np.corrcoef(middle[:-lag], values)
    later = correlations[0, 1]
    values = series.values[:-lag, downwind]
    correlations = np.corrcoef(middle[lag:], values)
    sooner = correlations[0, 1]
    assert later > 0.5
    assert later > sooner + 0.3


@pytest.mark.parametrize("shipped", [True, False])
def test_a_series_survives_its_file_and_the_shipped_one_is_what_the_generator_makes(
    tmp_path, datasets, shipped
):
    files = [
        str((datasets if shipped else tmp_path) / name)
        for name in ("clouds.csv.gz", "clouds_stations.csv")
    ]
    if shipped:
        made = solar.clouds(1440, step=20)
    else:
        made = solar.clouds(20, stations=3, step=10)
    if not shipped:
        write_series = runpy.run_path(str(datasets / "solar.py"))["write_series"]
        write_series(files[0], made, files[1])
    read = solar.read_series(*files)
    np.testing.assert_allclose(read.values, made.values, atol=0.06)
    np.testing.assert_allclose(read.places, made.places, atol=0.06)
    np.testing.assert_array_equal(read.times, made.times)
    assert read.stations == made.stations


def test_a_table_has_all_stations_now_and_one_later_over_a_gap_where_there_are_rows(
    series,
):
    ds = solar.table(series, "s3", horizon=5)
    assert ds.columns == ["s0", "s1", "s2", "s3", "s4"]
    assert ds.targets == ["s3_in_5s"]
    assert ds.rows == 2 * 15  # none across the gap
    expected = ds.x[:, 3] + 5
    y = ds.y[:, 0]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(ds.persistence(), ds.x[:, [3]])
    ds = solar.table(series, "s0", horizon=15)
    expected = ds.x[:, 0] + 15
    y = ds.y[:, 0]
    np.testing.assert_array_equal(y, expected)
    assert ds.rows == 5 + 5 + 5  # seconds 0-4, 15-19 (over the gap) and 30-34
    for station, message in (("s0", "--horizon 1000"), ("s9", "no station s9")):
        with pytest.raises(nn.UsageError, match=message):
            solar.table(series, station, horizon=1000)


def test_a_map_shows_the_stations_at_their_places_and_else_means_by_distance(series):
    ds = solar.maps(series, "s1", horizon=5, side=5)
    assert ds.x.shape == (30, 1, 5, 5)
    x = ds.x[0, 0]
    assert x[2, 2] == 0
    assert x[2, 4] == 1000
    assert x[0, 2] == 2000
    assert x[2, 0] == 3000
    assert x[4, 2] == 4000
    expected = series.values[np.r_[0:15, 20:35], 1]
    np.testing.assert_array_equal(ds.persistence()[:, 0], expected)
    expected = solar.table(series, "s1", horizon=5).y
    np.testing.assert_array_equal(ds.y, expected)
    # Shepard 1968, for the pixel at (-80, 80)
    weights = 1 / ((series.places - [-80, 80]) ** 2).sum(axis=1)
    expected = np.average(np.arange(5) * 1000.0, weights=weights)
    assert x[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("target, shown", [("s0", 0), ("s3", 3), ("s1", 3)])
def test_of_stations_in_a_pixel_the_target_is_shown_or_else_the_last(
    series, target, shown
):
    """The first and the fourth station stand beside each other in the middle."""
    places = np.vstack([series.places, series.places[3]])
    places[3] = places[0] + 1
    values = np.hstack([series.values, series.values[:, :1] + 9000])
    names = [*series.stations, "s5"]
    series = replace(series, places=places, values=values, stations=names)
    ds = solar.maps(series, target, horizon=5, side=5)
    now = np.r_[0:15, 20:35]
    np.testing.assert_array_equal(ds.x[:, 0, 2, 2], values[now, shown])
    expected = values[now, names.index(target)]
    np.testing.assert_array_equal(ds.persistence()[:, 0], expected)


def test_testing_comes_after_training_and_shares_no_time_with_it():
    series = solar.clouds(500, step=10)
    training, testing = solar.forecast(series, horizon=60, test_share=0.2)
    whole = solar.table(series, horizon=60)
    expected = math.floor(0.2 * whole.rows)
    assert testing.rows == expected
    expected = whole.x[-testing.rows :]
    np.testing.assert_array_equal(testing.x, expected)
    # the last six would be told the first test rows
    expected = whole.rows - testing.rows - 6
    assert training.rows == expected
    assert solar.forecast(series, test_share=0)[1] is None


def test_a_target_may_be_the_change_and_inputs_what_was_before(series):
    ds = solar.table(series, "s3", horizon=5, change=True, lags=(2, 4), sun=False)
    assert ds.targets == ["s3_change_in_5s"]
    assert ds.columns[4:8] == ["s4", "s0_2s_ago", "s1_2s_ago", "s2_2s_ago"]
    assert ds.x.shape == (2 * 11, 15)
    expected = ds.x[:, :5] - 2
    np.testing.assert_array_equal(ds.x[:, 5:10], expected)
    expected = ds.x[:, :5] - 4
    np.testing.assert_array_equal(ds.x[:, 10:], expected)
    assert (ds.y == 5).all()
    np.testing.assert_array_equal(ds.persistence(), np.zeros((22, 1)))
    of_map = solar.maps(series, "s3", horizon=5, change=True)
    assert (of_map.y == 5).all()
    assert (of_map.persistence() == 0).all()
    with pytest.raises(nn.UsageError, match="--lags -1"):
        solar.table(series, lags=(-1,))
    with pytest.raises(nn.UsageError, match="--location"):
        solar.table(series, horizon=5, sun=True)


def test_testing_may_begin_at_a_moment(series):
    training, testing = solar.forecast(series, horizon=5, test_from=36, change=True)
    # the last target to train on is at 35 s: those of 31 s on are left out
    expected = [*range(15), 30]
    assert training.x[:, 0].tolist() == expected
    assert testing.x[0, 0] == 36
    assert solar.forecast(series, horizon=5, test_from=1e9)[1] is None
    with pytest.raises(nn.UsageError, match="no rows are left to train on"):
        solar.forecast(series, horizon=5, test_from=0)


@pytest.mark.parametrize(
    ("moment", "latitude", "longitude", "degrees"),
    [
        # noon of the longest day: 90 - latitude + 23.44
        ("2016-06-21T11:11:40", 55.79, 12.525, 57.65),
        # midnight of that day
        ("2016-06-20T23:11:40", 55.79, 12.525, -10.77),
        # an equinox: overhead on the equator, 7.4 minutes after noon by the clock
        ("2016-03-20T12:07:30", 0.0, 0.0, 90.0),
        ("2016-03-20T18:07:30", 0.0, 0.0, 0.0),
        ("2016-03-20T18:07:30", 0.0, -90.0, 90.0),
    ],
)
def test_the_sun_stands_where_astronomy_says(moment, latitude, longitude, degrees):
    times = np.array([solar.seconds_of(moment)])
    (sine,) = solar.sine_of_elevation(times, latitude, longitude)
    # the declination changes by 0.4 degrees a day
    assert math.degrees(math.asin(sine)) == pytest.approx(degrees, abs=0.25)


def test_a_clear_sky_is_that_of_haurwitz_and_dark_at_night():
    """1098 cos z exp(-0.057 / cos z)."""
    times = np.array([1466507500.0, 1466464300.0])
    noon, midnight = solar.clear_sky_of(times, 55.79, 12.525)
    height = math.sin(math.radians(57.65))
    assert noon == pytest.approx(1098 * height * math.exp(-0.057 / height), rel=1e-3)
    assert midnight == 0


def test_an_index_is_the_share_of_a_clear_sky_by_day(caplog):
    times = np.array([0.0, 10.0, 20.0])
    values = np.array([[5.0, 5.0], [500.0, 250.0], [400.0, 800.0]], np.float32)
    clear_sky = np.array([10.0, 500.0, 800.0])
    series = solar.Series(times, values, ["a", "b"], clear_sky=clear_sky)
    shares = series.index()
    assert shares.values.tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert shares.times.tolist() == [10.0, 20.0]
    assert "1 of 3 rows" in caplog.text
    ds = solar.table(series, horizon=10, sun=True)
    assert ds.columns == ["a", "b", "clear_sky"]
    assert ds.x[:, 2].tolist() == [10.0, 500.0]
    with pytest.raises(nn.DataError, match="at night"):
        solar.Series(times, values, ["a", "b"], clear_sky=clear_sky / 100).index()
    with pytest.raises(nn.UsageError, match="--location"):
        solar.Series(times, values, ["a", "b"]).index()


@pytest.mark.parametrize("bad", ["noon,3,30", ",3,30", "30,x,30", "30,3,", "noon,,"])
def test_a_row_that_is_left_out_moves_no_other(bad, tmp_path):
    lines = ["time,a,b", "10,1,10", "20,2,20", bad, "40,4,40"]
    (tmp_path / "s.csv").write_text("\n".join(lines) + "\n")
    series = solar.read_series(str(tmp_path / "s.csv"))
    assert series.times.tolist() == [10.0, 20.0, 40.0]
    assert series.values.tolist() == [[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]


def test_a_day_begins_at_sixty_watts_of_a_clear_sky():
    clear = np.array([59.9, 60.0, 61.0, 0.0, 60.0])
    values = np.full((5, 1), 30.0, np.float32)
    series = solar.Series(np.arange(5.0), values, ["s"], clear_sky=clear)
    assert series.by_day().times.tolist() == [1.0, 2.0, 4.0]
    expected = np.float32([0.5, 30 / 61, 0.5])
    np.testing.assert_array_equal(series.index().values[:, 0], expected)


def test_some_columns_of_a_series_are_read(tmp_path):
    """Gaps in the others leave no row out; the time may be called as a station is."""
    path = str(tmp_path / "s.csv")
    (tmp_path / "s.csv").write_text("c,a,b,c\n0,1,,3\n1,4,,6\n")
    series = solar.read_series(path, columns=["c", "a"], location=(50.0, 10.0))
    assert series.values.tolist() == [[3, 1], [6, 4]]
    assert series.stations == ["c", "a"]
    assert series.clear_sky.shape == (2,)
    with pytest.raises(nn.UsageError, match="no column d; the columns are a, b, c"):
        solar.read_series(path, columns=["d"])


def test_a_file_of_maps_knows_the_value_now(folder, datasets, caplog):
    write = runpy.run_path(str(datasets / "solar.py"))["write"]
    for name, change in (("value", False), ("change", True)):
        _, ds = solar.forecast(solar.clouds(300, step=10), "maps", change=change)
        write(f"{name}.npz", ds)
        read = nn.load(f"{name}.npz")
        assert read.now == ds.now
        np.testing.assert_array_equal(read.persistence(), ds.persistence())
        net = nn.Network("1x50x50,avgpool10,1", "regression")
        figures = nn.test(net, read)
        error = (ds.persistence() - ds.y).astype(float)
        expected = float(np.sqrt(np.mean(error**2)))
        assert figures["persistence_rmse"] == pytest.approx(expected)
    assert figures["skill"] < 0
    assert "the skill is below 0" in caplog.text


@pytest.mark.parametrize("now", [[4], [-2], [0, 1], [0.5], [[0]], ["a"]])
def test_places_that_a_row_does_not_have_are_refused(folder, now):
    np.savez("d.npz", x=np.zeros((3, 4)), y=np.zeros((3, 1)) + 0.5, now=now)
    with pytest.raises(nn.DataError, match="array now: expected for each of the 1"):
        nn.load("d.npz")


def test_a_model_without_the_value_now_is_judged_beside_it(folder):
    table = {"a": [1, 2, 3, 4], "b": [2, 1, 4, 3], "a_in_5s": [2.5, 1, 4, 3]}
    model = nn.fit(table, target="a_in_5s", drop="a", layers="1,2,1", epochs=1)
    figures = model.test(nn.load(table, target="a_in_5s"))
    expected = np.sqrt(np.mean(np.square([1.5, -1, 1, -1])))
    assert figures["persistence_rmse"] == pytest.approx(expected)


def test_rows_with_gaps_are_left_out_and_counted(tmp_path, caplog):
    times = [f"2020-01-01T00:00:0{k}Z" for k in range(3)]
    columns = [times, [1, "", 5], [2, 3, 6]]
    text = csv_of(["time", "a", "b"], columns)
    (tmp_path / "s.csv").write_text(text)
    series = solar.read_series(str(tmp_path / "s.csv"))
    expected = [[1, 2], [5, 6]]
    assert series.values.tolist() == expected
    assert np.diff(series.times).tolist() == [2]
    assert "1 of 3 rows" in caplog.text


@pytest.fixture
def in_berlin(monkeypatch):
    """A machine whose clocks go forward in spring."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_without_a_zone_are_universal_wherever_the_machine_is(folder, in_berlin):
    messages = [
        "2019-03-31T00:30:00",
        "2019-03-31T02:30:00",
        "2019-03-31 03:30:00Z",
        "2019-03-31T06:30:00+02:00",
    ]
    (folder / "s.csv").write_text(
        "\n".join(["time,a", *(f"{text},{row}" for row, text in enumerate(messages))])
        + "\n"
    )
    seconds = [1553992200.0, 1553999400.0, 1554003000.0, 1554006600.0]
    assert solar.read_series("s.csv").times.tolist() == seconds
    columns = nn.load("s.csv").x.columns
    assert columns[0].values.tolist() == seconds


def test_bad_series_and_stations_without_coordinates_are_told_of(tmp_path):
    series = tmp_path / "s.csv"
    places = tmp_path / "p.csv"
    told_of = {
        "time,a\n": "a header, a time column",
        "time,a\n0,1,2\n": "row 2: 3 columns",
    }
    told_of |= {
        "time,a\n1,1\n0,1\n": "do not increase",
        "time,a\nmorning,1\n": "no row has a time",
    }
    for text, message in told_of.items():
        series.write_text(text)
        with pytest.raises(nn.DataError, match=message):
            solar.read_series(str(series))
    series.write_text("time,ghi_001,ghi_002\n0,1,2\n1,1,2\n")
    places.write_text("station,lat,lon\n1,51.5,12.9\n")
    with pytest.raises(nn.DataError, match="no coordinates for ghi_002"):
        solar.read_series(str(series), str(places))
    with pytest.raises(nn.UsageError, match="coordinates"):
        solar.maps(solar.read_series(str(series)), horizon=1)


@pytest.mark.slow
def test_the_script_writes_what_nn_trains_on(tmp_path, datasets):
    def script(*arguments):
        command = [sys.executable, datasets / "solar.py", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True
        )

    done = script(
        "--rows", "400", "--step", "60", "--table", "t.csv", "--maps", "m.npz"
    )
    assert done.returncode == 0, done.stderr
    made = solar.forecast(solar.clouds(400, step=60))
    for path, ds in zip(("t.csv", "t_test.csv"), made, strict=True):
        read = nn.load(tmp_path / path)
        assert read.task == "regression"
        assert read.now == ds.now
        assert read.targets == ds.targets
        assert np.allclose(read.x, ds.x, rtol=1e-6, atol=0)
        assert np.allclose(read.y, ds.y, rtol=1e-6, atol=0)
    maps = nn.load(tmp_path / "m_test.npz")
    expected = solar.forecast(solar.clouds(400, step=60), "maps")[1].x
    np.testing.assert_array_equal(maps.x, expected)
    failed = script("--rows", "400", "--horizon", "-1", "--table", "t.csv")
    assert failed.returncode
    assert "Traceback" not in failed.stderr
    assert "--horizon" in failed.stderr


@pytest.mark.slow
def test_the_script_makes_indices_changes_and_lags_of_a_measured_series(
    tmp_path, datasets
):
    minutes = np.arange(np.datetime64("2016-06-20T00:00"), np.datetime64("2016-06-22"))
    noon = np.abs(np.arange(2880) % 1440 - 671)
    columns = [minutes, np.maximum(0, 800 - 2 * noon), np.full(2880, 7), [""] * 2880]
    (tmp_path / "s.csv").write_text(csv_of(["t", "GHI", "DHI", "gone"], columns))
    usual = ["--series", "s.csv", "--table", "t.csv", "--horizon", "60"]

    def script(*given):
        command = [sys.executable, datasets / "solar.py", *usual, *given]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True
        )

    given = ["--columns", "GHI,DHI", "--location", "55.8,12.5"]
    how = ["--index", "--change", "--lags", "60,300", "--sun"]
    done = script(*given, *how, "--test_from", "2016-06-21")
    assert done.returncode == 0, done.stderr
    test = nn.load(tmp_path / "t_test.csv")
    assert test.columns[:4] == ["GHI", "DHI", "GHI_60s_ago", "DHI_60s_ago"]
    assert test.columns[-1] == "clear_sky"
    assert test.targets == ["GHI_change_in_60s"]
    assert (test.persistence() == 0).all()
    x = test.x.astype(float)
    sky = x[:, -1:]
    np.testing.assert_allclose(x[:, 1:2] * sky, 7, rtol=1e-5)
    assert sky.min() >= solar.LEAST_CLEAR_SKY
    # what a minute is now was the minute before that one's 60 s ago
    np.testing.assert_allclose(x[:-1, 0], x[1:, 2], rtol=1e-6)
    np.testing.assert_allclose(test.y[:-1, 0], x[1:, 0] - x[:-1, 0], atol=1e-6)
    by_day = script(*given, "--day")
    assert by_day.returncode == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) < 2000
    for wrong, words in (
        (["--columns", "gone"], "no row has"),
        (["--columns", "none"], "no column none"),
        ([*given, "--lags", "x"], "--lags x"),
        (["--columns", "GHI", "--location", "1"], "--location 1"),
        (["--columns", "GHI", "--index"], "--location"),
        ([*given, "--test_from", "soon"], "--test_from soon"),
    ):
        failed = script(*wrong)
        assert failed.returncode, wrong
        assert "Traceback" not in failed.stderr, wrong
        assert words in failed.stderr, wrong


def test_a_forecast_is_better_than_persistence(folder, datasets):
    write = runpy.run_path(str(datasets / "solar.py"))["write"]
    for path, ds in zip(
        ("t.csv", "t_test.csv"),
        solar.forecast(solar.clouds(2880, step=10)),
        strict=True,
    ):
        write(path, ds)
    flags = ["--layers", "50,100,1", "--weight_decay", 0]
    succeed("--train", "--dataset", "t.csv", "--model", "m.bin", "-q", *flags)
    figures = succeed(
        "--test", "--dataset", "t_test.csv", "--model", "m.bin", "--json", "-q"
    ).json
    names = ["rows", "mse", "mae", "rmse", "r2", "persistence_rmse", "skill"]
    assert [name for name in figures if name not in OF_ALL_TESTS] == names
    ds = nn.load("t_test.csv")
    error = (ds.persistence() - ds.y).astype(float)
    expected = float(np.sqrt(np.mean(error**2)))
    assert figures["persistence_rmse"] == pytest.approx(expected)
    expected = 1 - figures["rmse"] / figures["persistence_rmse"]
    assert figures["skill"] == pytest.approx(expected)
    assert figures["skill"] > 0.15
    assert (
        "skill"
        in succeed("--test", "--dataset", "t_test.csv", "--model", "m.bin", "-q").out
    )
    result = succeed("--test", "--model", "m.bin", "--json", "-q")
    assert 0 < result.json["skill"] < 1


def test_data_that_is_no_series_has_no_skill(folder):
    rows = []
    for i in range(30):
        rows.append(f"{i},{2 * i + 0.5}\n")
    text = "a,b_in_60s\n" + "".join(rows)
    (folder / "d.csv").write_text(text)
    assert nn.load("d.csv").now is None  # there is no column b
    succeed("--train", "--dataset", "d.csv", "--model", "m.bin", "-q", "--epochs", 1)
    assert "skill" not in succeed("--test", "--model", "m.bin", "--json", "-q").json


def test_a_network_that_has_died_is_warned_of(caplog):
    net = nn.Network("2,1:relu", "regression")
    net.set_parameters({"layer0.weight": np.zeros((1, 2)), "layer0.bias": [-1.0]})
    x = np.ones((3, 2), np.float32)
    y = np.arange(3.0)[:, None]
    ds = nn.Dataset(x, y, "regression")
    nn.test(net, ds)
    assert "the same value for every row" in caplog.text


def test_stations_are_the_same_by_the_number_at_their_end():
    station = "AP" + "0" * 5000 + "7"
    places = (solar._number("DH07"), solar._number("AP7"), solar._number(station))
    assert len(set(places)) == 1
    assert solar._number("AP70") not in places
    assert solar._number("DH7x") == "DH7x"
    assert solar._number("9" * 5000) == solar._number("AP" + "9" * 5000)


def test_places_by_degrees_are_as_far_apart_as_on_a_sphere(tmp_path):
    (tmp_path / "s.csv").write_text("time,a,b,c\n0,1,2,3\n1,1,2,3\n")
    degrees = {"a": (51.5, 12.90), "b": (51.52, 12.90), "c": (51.51, 12.93)}
    lines = [f"{name},{lat},{lon}" for name, (lat, lon) in degrees.items()]
    text = "\n".join(["station,lat,lon", *lines])
    (tmp_path / "p.csv").write_text(text)
    path = str(tmp_path / "s.csv")
    stations_path = str(tmp_path / "p.csv")
    places = solar.read_series(path, stations_path).places
    for station in range(3):
        for other in range(3):
            (lat, lon) = np.radians(degrees["abc"[station]])
            (to_lat, to_lon) = np.radians(degrees["abc"[other]])
            square = (
                np.sin((to_lat - lat) / 2) ** 2
                + np.cos(lat) * np.cos(to_lat) * np.sin((to_lon - lon) / 2) ** 2
            )
            apart = 2 * 6_371_000 * np.arcsin(square**0.5)
            assert np.hypot(*(places[other] - places[station])) == pytest.approx(
                apart, abs=1.0
            )
    assert places[1, 1] > places[0, 1], "to the east, and to the north"
    assert places[2, 0] > places[0, 0], "to the east, and to the north"
