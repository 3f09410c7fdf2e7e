"""What a model keeps of the distribution of each column: cells against plain loops,
what a column is counted as, what a file has."""

import json
import math

import numpy as np
import pytest

import nn
from nn.data import profiles
from nn.data.profiles import Fields, are_profiles, counts_of, profile_of, profiles_of
from nn.test.trained_rows import encoders_of, known_words


def plain_counts(values, profile):
    """The rows in each cell of numbers, counted one after the other."""
    counts = [0] * (4 + len(profile["edges"]))
    for value in values:
        if math.isnan(value):
            counts[0] += 1
        elif value < profile["low"]:
            counts[1] += 1
        elif value > profile["high"]:
            counts[-1] += 1
        else:
            counts[2 + sum(edge < value for edge in profile["edges"])] += 1
    return counts


def drawn(kind: str, rows: int = 500) -> np.ndarray:
    rng = np.random.default_rng(len(kind))
    numbers = {
        "normal": rng.normal(50, 9, rows),
        "float32": rng.normal(0, 1e-3, rows).astype(np.float32),
        "whole": rng.integers(0, 4, rows).astype(float),
        "mostly 0": np.where(rng.random(rows) < 0.7, 0.0, rng.exponential(9, rows)),
        "large": rng.normal(1.7e9, 3, rows),
        "one": np.full(rows, 7.0),
        "negative": -rng.exponential(1e30, rows),
    }[kind]
    numbers[::17] = np.nan
    return numbers


@pytest.mark.parametrize(
    "kind", ["normal", "float32", "whole", "mostly 0", "large", "one", "negative"]
)
def test_numbers_have_cells_of_a_tenth_of_the_rows(kind):
    values = drawn(kind)
    profile = profile_of(Fields("number", values))
    known = values[~np.isnan(values)]
    assert profile["low"] == known.min()
    assert profile["high"] == known.max()
    assert profile["counts"] == plain_counts(values, profile)
    assert sum(profile["counts"]) == len(values)
    assert profile["counts"][0] == 30
    assert profile["counts"][1::99] == [0]
    assert profile["counts"][-1] == 0, "nothing is above the largest"
    inner = profile["counts"][2:-1]
    shares = np.unique(known, return_counts=True)[1] / len(known)
    # a cell has a tenth and, at most, the value at its end
    assert max(inner) <= (0.1 + shares.max()) * len(known) + 1
    assert min(inner) > 0
    if kind in ("normal", "float32", "large", "negative"):
        assert len(inner) == 10
    if kind == "whole":
        assert len(inner) == 4
    if kind == "one":
        assert inner == [len(known)]
        assert profile["edges"] == []
    others = np.concatenate([known * 2, [math.nan, 0.0], known - 1])
    assert counts_of(Fields("number", others), profile).tolist() == plain_counts(
        others, profile
    )
    assert are_profiles(json.loads(json.dumps([profile])))


def test_edges_are_the_shortest_numbers_between_two_values():
    rng = np.random.default_rng(3)
    for _ in range(300):
        low, high = np.sort(rng.normal(0, 10.0 ** rng.integers(-9, 9), 2)).tolist()
        edge = profiles._between(low, high)
        assert low <= edge < high
        assert len(repr(edge)) <= max(len(repr(low)), len(repr(high)))
    above = math.nextafter(0.1, 1)
    assert profiles._between(0.1, above) == 0.1
    assert profiles._between(1.0, 2.0) == 1.5
    assert profiles._between(-1.7e308, 1.7e308) == 0.0


def test_words_have_a_cell_each_if_they_are_among_the_commonest():
    words = [f"w{k}" for k in range(30)] + ["x" * 65, "rare"]
    codes = np.repeat(np.arange(32), [*range(40, 10, -1), 50, 3])
    codes = np.append(codes, [-1, -1])
    known = {*words} - {"rare", "w3"}
    fields = Fields("words", codes, words, known)
    profile = profile_of(fields)
    expected = [f"w{k}" for k in range(17) if k != 3]
    assert profile["words"] == expected
    rows = {word: int((codes == k).sum()) for k, word in enumerate(words)}
    others = sum(rows[f"w{k}"] for k in range(17, 30)) + rows["x" * 65]
    assert profile["counts"] == [
        2,
        *map(rows.get, expected),
        others,
        rows["w3"] + rows["rare"],
    ]
    assert are_profiles([profile])
    new = Fields("words", np.array([0, 0, 1, 2, -1]), ["new", "w2", "w29"], known)
    counts = counts_of(new, profile)
    assert counts[0] == 1, "a gap, w2"
    assert counts[3] == 1, "a gap, w2"
    assert counts[-1] == 2, "new, w29"
    assert counts[-2] == 1, "new, w29"
    assert profiles.are_unknown(new).tolist() == [True, True, False, False, False]


def test_numbers_that_only_go_up_are_running():
    up = np.arange(60.0)
    kinds = {
        "running": [up, -up, np.cumsum(np.random.default_rng(0).random(500))],
        "number": [up[:40], np.append(up, 3.0), np.append(up, 59.0), up * 0],
    }
    for kind, each in kinds.items():
        for values in each:
            assert profile_of(Fields("number", values))["kind"] == kind
    with_gap = up.copy()
    with_gap[5] = np.nan
    assert profile_of(Fields("number", with_gap))["kind"] == "number"
    assert profile_of(Fields("date", up))["kind"] == "date"


def test_a_column_without_values_has_no_range():
    profile = profile_of(Fields("number", np.full(9, np.nan)))
    assert profile == {
        "kind": "number",
        "low": None,
        "high": None,
        "edges": [],
        "counts": [9, 0, 0, 0],
    }
    assert are_profiles([profile])
    counts = counts_of(Fields("number", np.array([1.0, np.nan])), profile)
    assert counts.tolist() == [1, 0, 0, 1]


TABLE = {
    "size": [f"{k % 37}.5" for k in range(200)],
    "agreed": ["YES" if k % 4 else "no" for k in range(200)],
    "grade": [("low", "mid", "high")[k % 3] for k in range(200)],
    "price": [f"{k % 50},{k % 10}5 EUR" for k in range(200)],
    "day": [f"2024-{1 + k % 12:02}-{1 + k % 28:02}" for k in range(200)],
    "town": [("Rome", "Oslo", "Bern")[k % 3] if k % 20 else "" for k in range(200)],
    "y": [k % 2 for k in range(200)],
}


def test_each_kind_of_column_is_counted_by_its_values():
    ds = nn.load(TABLE, target="y", ordered="grade=low<mid<high")
    net = nn.Network.for_data(ds, "auto,1")
    nn.train(net, ds, epochs=1, holdout=0.25)
    by_name = dict(zip(net.columns, net.profiles, strict=True))
    assert {name: by_name[name]["kind"] for name in by_name} == {
        "size": "number",
        "agreed": "words",
        "grade": "words",
        "price": "number",
        "day": "date",
        "town": "words",
    }
    rows = net.row_hashes["rows"]
    assert {sum(profile["counts"]) for profile in net.profiles} == {rows} == {150}
    assert set(by_name["agreed"]["words"]) == {"yes", "no"}
    assert set(by_name["grade"]["words"]) == {"low", "mid", "high"}
    assert by_name["price"]["low"] < 3
    assert by_name["price"]["high"] == 49.95
    assert by_name["day"]["low"] == 1704067200.0, "2024-01-01"
    assert by_name["town"]["counts"][0] > 0
    assert by_name["size"]["counts"][0] == 0
    encoders = encoders_of(net)
    again = profiles_of(ds.x, np.arange(200), encoders, known_words(net))
    dates = dict(zip(net.columns, again, strict=True))["day"]
    assert sum(dates["counts"]) == 200


def test_every_training_of_a_table_keeps_profiles_and_none_of_images(tmp_path):
    ds = nn.load(TABLE, target="y")
    for settings in ({}, {"networks": 2}, {"folds": 2}):
        net = nn.Network.for_data(ds, "auto,1")
        nn.train(net, ds, epochs=1, **settings)
        net.export(tmp_path / "m.bin")
        kept = nn.Model.load(tmp_path / "m.bin").network
        assert kept.profiles == net.profiles, settings
        assert len(kept.profiles) == 6, settings
        assert all(member.profiles is None for member in kept.members if settings)
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 5, 5), dtype=np.uint8)
    of_images = nn.Dataset(images, np.arange(40) % 2, "binary", classes=["0", "1"])
    net = nn.Network.for_data(of_images, "1x5x5,1")
    nn.train(net, of_images, epochs=1)
    assert net.profiles is None


def test_of_many_rows_some_are_counted_and_all_make_the_range():
    values = np.zeros((300_000, 1), np.float32)
    values[:, 0] = np.random.default_rng(0).normal(size=300_000)
    values[1, 0] = 99
    [profile] = profiles_of(values, np.arange(300_000), [], [])
    assert sum(profile["counts"]) == 100_000
    assert profile["high"] == 99.0
    assert profile["counts"][-1] == 0
    assert profiles.every(1000, 10) == 1
    assert profiles.every(1000, 1 << 22) == 1000


NUMBERS = profile_of(Fields("number", np.arange(40.0)))
OF_WORDS = profile_of(Fields("words", np.array([0, 1, 1]), ["a", "b"], {"a", "b"}))
HOSTILE = [
    None,
    {},
    "number",
    [1],
    [{}],
    [[NUMBERS]],
    *(
        [{**NUMBERS, name: value}]
        for name, value in (
            ("kind", "words"),
            ("kind", ["number"]),
            ("kind", {}),
            ("kind", "other"),
            ("low", 99.0),
            ("low", None),
            ("low", math.nan),
            ("low", True),
            ("high", "39"),
            ("high", 10**400),
            ("high", math.inf),
            ("edges", [1.0]),
            ("edges", [2.0] * 9),
            ("edges", list(range(1, 30))),
            ("edges", NUMBERS["edges"][::-1]),
            ("edges", {}),
            ("counts", []),
            ("counts", [0] * 13),
            ("counts", [-1, 2, *[0] * 11]),
            ("counts", [0.5] * 13),
            ("counts", [True] * 13),
            ("counts", [2**53, *[0] * 12]),
            ("more", 1),
        )
    ),
    *(
        [{**OF_WORDS, name: value}]
        for name, value in (
            ("words", ["a", "a"]),
            ("words", ["a", 1]),
            ("words", ["a", "x" * 65]),
            ("words", [str(k) for k in range(17)]),
            ("words", "ab"),
            ("words", [["a"], ["b"]]),
            ("counts", [1, 2, 3, 4]),
            ("counts", None),
            ("low", 1.0),
            ("kind", "number"),
        )
    ),
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: json.dumps(value)[:60])
def test_no_profile_of_a_file_that_cannot_be_is_taken(value):
    assert not are_profiles(value)


@pytest.mark.parametrize("rows, are_rare", [(11, 0), (10, 10), (6, 6)])
def test_words_that_just_have_enough_rows_to_be_told_apart_count_as_rare(
    rows, are_rare
):
    """That they have is chance."""
    words = [f"w{number}" for number in range(18)]
    codes = np.repeat(np.arange(18), [*17 * [40], rows])
    profile = profile_of(Fields("words", codes, words, {*words}))
    assert profile["words"] == words[:16]
    assert profile["counts"] == [0, *16 * [40], 40 + rows - are_rare, are_rare]
