"""Odd words among at least 95 % numbers or dates are gaps, told once a column; --strict
refuses them. What a person says of columns: --ordered, --dates."""

import re
import shlex

import numpy as np
import pytest
from support.command_line import ONE, argv, run, succeed
from support.tables import as_frame, refusal, saved, trained_on

import nn
from nn.data import far_values
from nn.data.fields import gap_advice
from nn.settings.values import split_names

ROWS = 200
# row -> the word that stands there
ODD = {7: "n.a.", 90: "n.a.", 120: "tbd", 130: "?!", 140: "12 o'clock"}
TOLD = (
    'column size: 5 values that are no number are taken for a gap: "n.a." (2), "tbd", "?!", ...; correct them, or use '
    "--categories size; --strict refuses them"
)
REFUSED = 'column size: found "n.a.", expected a number as in most rows; correct it, take it for a gap (--missing n.a.)'


def sizes(odd: dict[int, str], rows: int = ROWS) -> dict[str, list]:
    """A table whose column size has these odd words, whose target is the last digit of
    size."""
    values = [7 * i % 41 for i in range(rows)]
    size = [odd.get(i, str(value)) for i, value in enumerate(values)]
    y = ["small", "big"]
    a = [i * 13 % 17 for i in range(rows)]
    return {"a": a, "size": size, "y": [y[value > 20] for value in values]}


def in_form(form: str, columns: dict, name: str = "t"):
    """What nn.load takes: a file in the current folder, or a frame."""
    if form in ("pandas", "columns"):
        return as_frame(columns, form)
    return saved(columns, f"{name}.{form}")


ALL = ["csv", "db", "parquet", "pandas", "columns"]
FORMS = pytest.mark.parametrize("form", ALL)


@FORMS
def test_odd_words_are_gaps_told_in_one_line_with_three_examples_and_the_cures(
    folder, form
):
    path = in_form(form, sizes(ODD))
    ds = nn.load(path)
    lines = [line for line in ds.remarks if "size" in line]
    assert lines == [TOLD]
    columns = sizes(dict.fromkeys(ODD, ""))
    clean = nn.load(in_form(form, columns, "clean"))
    expected = clean.x.columns[1].values
    values = ds.x.columns[1].values
    assert np.array_equal(values, expected, equal_nan=True)
    assert not clean.remarks
    values = ds.x.columns[1].values
    assert np.flatnonzero(np.isnan(values)).tolist() == [*ODD]
    assert np.array_equal(trained_on(ds).vector, trained_on(clean).vector)


@FORMS
def test_strict_refuses_them_with_the_first_row_and_the_cures_work(folder, form):
    source = in_form(form, sizes(ODD))
    message = refusal(lambda: nn.load(source, strict=True))
    if form == "csv":
        row = "row 9"
    else:
        row = "data row 8"
    assert (
        f"{row}, {REFUSED} or the column for categories (--categories size)" in message
    )
    words = ",".join({*ODD.values()})
    assert not nn.load(source, strict=True, missing=words).remarks
    ds = nn.load(source, strict=True, categories="size")
    assert ds.x.kinds == ("number", "text")


def test_of_many_columns_that_are_refused_twenty_are_named():
    columns = {f"c{k}": sizes(ODD)["size"] for k in range(23)}
    message = refusal(lambda: nn.load({**columns, "y": [1, 2] * 100}, strict=True))
    assert message.count(", expected a number") == 20
    assert message.endswith("; and 3 columns more")


@FORMS
def test_dates_are_as_patient(folder, form):
    days = (
        (np.datetime64("2020-01-01") + np.arange(ROWS) * 3 % 700).astype(str).tolist()
    )
    n = [i * 7 % 11 for i in range(ROWS)]
    day = [*days[:-1], "soon"]
    y = list(range(ROWS))
    columns = {"day": day, "n": n, "y": y}
    ds = nn.load(in_form(form, columns))
    assert ds.x.kinds == ("date", "number")
    values = ds.x.columns[0].values
    assert np.isnan(values[-1])
    message = 'column day: 1 value that is no date is taken for a gap: "soon"; correct it, or use --categories day; '
    assert ds.remarks[0].startswith(message)


@FORMS
def test_fields_of_a_row_without_a_target_do_not_matter_and_others_keep_their_rows(
    folder, form
):
    columns = sizes({5: "inf", 7: "tbd"})
    columns["y"][5] = columns["y"][7] = ""
    ds = nn.load(in_form(form, columns))
    assert ds.rows == ROWS - 2
    assert ds.unlabelled == 2
    assert isinstance(ds.x, np.ndarray)
    assert not [line for line in ds.remarks if "gap" in line]
    columns["size"] = [f"${i * 7 % 31}.50" if i != 9 else "soon" for i in range(ROWS)]
    with pytest.raises(nn.DataError, match='row 1[01], column size: found "soon"'):
        nn.load(in_form(form, columns, "words"), strict=True)


def test_more_than_a_twentieth_make_texts_but_one_word_among_many_numbers_is_a_gap(
    folder,
):
    for count, kind in ((10, "number"), (11, "text")):
        odd = {i: f"word {i}" for i in range(count)}
        ds = nn.load(in_form("csv", sizes(odd)))
        assert ds.x.kinds[1] == kind
        assert any("--strict" in line for line in ds.remarks) == (kind == "number")
    odd = dict.fromkeys(range(0, 60, 2), "Varies")
    source = in_form("csv", sizes(odd))
    ds = nn.load(source)
    assert (
        'column size: 30 values that are no number are taken for a gap: "Varies" (30); correct'
        in ds.remarks[0]
    )
    kinds = [kind.kind for kind in ds.kinds]
    assert kinds == ["number", "written number"]
    with pytest.raises(
        nn.DataError,
        match='row 2, column size: found "Varies", expected a number as in most rows',
    ):
        nn.load(source, numbers="size")


@FORMS
def test_new_rows_may_have_odd_words_in_any_share_but_not_in_every_row(folder, form):
    """A nightly prediction does not die of one word; a file with another column in this
    place is refused."""
    path = in_form("csv", sizes({3: ""}))
    net = trained_on(nn.load(path))
    half = {i: "n.a." for i in range(0, 40, 2)}
    path = in_form(form, sizes(half, 40), "new")
    new = nn.load_for(net, path)
    columns = sizes(dict.fromkeys(half, ""), 40)
    gaps = nn.load_for(net, in_form(form, columns, "gaps"))
    predictions = net.predict(new.x)
    expected = net.predict(gaps.x)
    np.testing.assert_array_equal(predictions, expected)
    nine = in_form(form, sizes(dict.fromkeys(range(9), "many"), 9), "nine")
    assert np.isnan(nn.load_for(net, nine).x.columns[1].values).all()
    ten = in_form(form, sizes(dict.fromkeys(range(10), "many"), 10), "ten")
    with pytest.raises(
        nn.DataError,
        match='column size: found "many", expected a number as in training; correct it',
    ):
        nn.load_for(net, ten)


def test_the_command_tells_new_rows_in_one_line(folder):
    in_form("csv", sizes({3: ""}))
    succeed(*ONE, *argv("--dataset t.csv --model m.bin --epochs 1 --layers auto,4,1"))
    in_form("csv", sizes({0: "n.a.", 5: "n.a."}, 12), "new")
    result = succeed("--predict", "--model", "m.bin", "--dataset", "new.csv")
    assert (
        'column size: 2 values that are no number are taken for a gap: "n.a." (2)\n'
        in result.err
    )
    assert len(result.out.splitlines()) == 13
    trained = succeed(
        *ONE,
        "--dataset",
        in_form("csv", sizes(ODD), "odd"),
        *argv("--model m.bin --epochs 1"),
    )
    assert TOLD in trained.err
    assert trained.err.count("taken for a gap") == 1
    refused = run(*ONE, "--strict", "--dataset", "odd.csv", "--model", "m.bin")
    assert refused.code == 65
    assert f"odd.csv, row 9, {REFUSED}" in refused.err


@FORMS
@pytest.mark.parametrize(
    "word, message",
    [
        *(
            (word, f'"{word}", expected a finite number; correct it')
            for word in ("inf", "-Infinity", "1e999")
        ),
        (
            "1e300",
            '"1e+300", expected at most 3.4e38 for float32; correct it or use --dtype float64',
        ),
    ],
)
def test_numbers_that_are_infinite_or_too_large_are_no_odd_words(
    folder, form, word, message
):
    for rows in (8, ROWS):
        if form == "csv":
            row = "row 7"
        else:
            row = "data row 6"
        with pytest.raises(
            nn.DataError, match=re.escape(f"{row}, column size: found {message}") + "$"
        ):
            nn.load(in_form(form, sizes({5: word}, rows), f"t{rows}"))


@FORMS
@pytest.mark.parametrize(
    "target, word, message",
    [
        (
            "y,size",
            "n.a.",
            "expected a number; correct it, or remove the row or the column",
        ),
        (
            "size",
            "n.a.",
            "expected a number; correct it, or remove the row, or --missing n.a. if that is a gap",
        ),
        (
            "size",
            "inf",
            "expected a finite number; correct it or remove the row or the column",
        ),
    ],
)
def test_an_odd_word_is_no_target(folder, form, target, word, message):
    y = list(range(ROWS))
    columns = sizes({5: word}) | {"y": y}
    with pytest.raises(
        nn.DataError, match=f'row [67], column size: found "{word}", {message}'
    ):
        nn.load(in_form(form, columns), target=target, task="regression")


@FORMS
@pytest.mark.parametrize("word", ["NA", "?", "null"])
def test_a_word_for_a_gap_is_no_number_of_several_targets(folder, form, word):
    columns = sizes({5: word, 9: word}) | {"y": list(range(ROWS))}
    ds = nn.load(in_form(form, columns), target="y,size", task="regression")
    assert np.flatnonzero(np.isnan(ds.y[:, 1])).tolist() == [5, 9]
    assert ds.y[:, 0].tolist() == list(range(ROWS))


@pytest.mark.parametrize(
    "texts, is_told",
    [
        (["n.a."], True),
        (["n.a.", "?", "it's"], True),
        (["$x", "-", "two words"], True),
        (["1,5"], False),
        (['say "no"'], False),
        (["a\nb"], False),
        (["long " * 9], False),
    ],
)
def test_the_flag_that_a_message_tells_takes_just_its_words_for_gaps(texts, is_told):
    """As a shell and the command take it; none is told that would take others."""
    advice = gap_advice(texts)
    assert bool(advice) is is_told
    if is_told:
        command = advice.removeprefix(", or ").removesuffix(" if that is a gap")
        flag, words = shlex.split(command)
        assert flag == "--missing"
        assert split_names(words) == texts


def test_a_network_of_plain_numbers_refuses_them(folder):
    numbers = {"y": [i % 2 for i in range(ROWS)]}
    in_form("csv", sizes({}) | numbers)
    flags = ("--model", "m.bin", "--layers", "2,4,1:sigmoid", "--epochs", 1)
    succeed("--train", "--reference", "--dataset", "t.csv", *flags)
    in_form("csv", sizes({5: "n.a."}) | numbers, "odd")
    modes = (
        ("--train", "--reference", *flags),
        ("--predict", "--model", "m.bin"),
        ("--test", "--model", "m.bin"),
    )
    for mode in modes:
        refused = run(*mode, "--dataset", "odd.csv")
        assert refused.code == 65
        assert 'row 7, column size: found "n.a.", expected a number' in refused.err


SIZES = ["small", "medium", "large"]
SHIRTS = {  # a price that follows the size
    "size": [SIZES[i * 7 % 3] for i in range(180)],
    "n": [i * 5 % 13 for i in range(180)],
    "price": [i * 7 % 3 + (i * 5 % 13) / 50 for i in range(180)],
}


@FORMS
def test_ordered_words_are_ranks_from_training_to_prediction(folder, form):
    ds = nn.load(in_form(form, SHIRTS), ordered="size=small<medium<large")
    assert not ds.remarks
    trained_on(ds, "auto,8,1", epochs=2).export("m.bin")
    net = nn.Network.load("m.bin")
    encoder = net.encoding.encoders[0]
    assert encoder.kind == "ordered"
    assert encoder.written.order == SIZES
    assert net.encoding.by_kind() == {
        "ordered": ["size (small < medium < large)"],
        "number": ["n"],
    }
    new = {"n": [1, 1, 1, 1, 1], "size": ["small", "medium", "large", "huge", ""]}
    path = in_form(form, new, "new")
    rows = nn.load_for(net, path, labelled=False)
    predictions = net.predict(rows.x)
    small, medium, large, huge, gap = predictions[:, 0]
    assert huge == gap == medium
    assert len({small, medium, large}) == 3


def test_the_command_takes_an_order_and_tells_other_words(folder):
    size = SHIRTS["size"][1:]
    in_form("csv", SHIRTS | {"size": ["huge", *size]})
    flags = argv("--dataset t.csv --model m.bin --layers auto,4,1 --epochs 1")
    trained = succeed(
        "--train", *flags, "--ordered", "size=small<medium<large", "--json"
    )
    assert trained.json["columns"] == {"size": "ordered", "n": "number"}
    told = 'value that is none of small < medium < large is taken for a gap: "huge"; correct it, or add it to --ordered'
    assert told in trained.err
    assert "ordered: size (small < medium < large" in trained.err
    columns = {"size": ["large", "tiny", "small"], "n": [1, 2, 3]}
    in_form("csv", columns, "new")
    told = succeed("--predict", "--model", "m.bin", "--dataset", "new.csv")
    assert '"tiny"' in told.err
    assert len(told.out.splitlines()) == 4
    refused = run("--train", *flags, "--ordered", "size=small<medium<large", "--strict")
    told = 'row 2, column size: found "huge", expected one of small < medium < large'
    assert refused.code == 65
    assert told in refused.err


def test_dates_in_a_format_that_a_person_gives(folder):
    days = np.datetime64("2020-01-01") + np.arange(120) * 5
    n = [i * 5 % 13 for i in range(120)]
    columns = {"day": days.astype(str).tolist(), "n": n, "y": list(range(120))}
    other = trained_on(nn.load(in_form("csv", columns, "iso")))
    for form in ("%d.%m.%Y", "week %j/%Y"):
        read = [day.strftime(form) for day in days.tolist()]
        path = in_form("csv", columns | {"day": read})
        ds = nn.load(path, dates=f"day={form}")
        net = trained_on(ds)
        assert net.encoding.encoders[0].kind == "written date"
        assert other.encoding.encoders[0].kind == "date"
        np.testing.assert_array_equal(net.vector, other.vector)
        net.export("m.bin")
        again = nn.Network.load("m.bin")
        path = in_form("csv", columns | {"day": [*read[:-1], "soon"]}, "new")
        new = nn.load_for(again, path)
        predictions = again.predict(new.x)[:-1]
        expected = net.predict(ds.x)[:-1]
        np.testing.assert_array_equal(predictions, expected)


@pytest.mark.parametrize("form", [*ALL, "array"])
def test_whether_dates_have_day_or_month_first_is_asked_for_and_the_cures_work(
    folder, form
):
    days = [
        f"{i * 5 % 12 + 1:02}/{i * 7 % 12 + 1:02}/20{10 + i % 9}" for i in range(120)
    ]
    n = [i * 5 % 13 for i in range(120)]
    columns = {"n": n, "day": days, "y": list(range(120))}
    if form == "array":
        source = np.array([*columns.values()], object).T
    else:
        source = in_form(form, columns)
    if form == "array":
        name = "1"
        called = "1 of 3"
    else:
        name = "day"
        called = "day"
    message = refusal(lambda: nn.load(source))
    parts = (
        "no date tells which is the day and which the month",
        f'column {called}: found "{days[0]}"',
        f"add --dates {name}=%d/%m/%Y or --dates {name}=%m/%d/%Y",
    )
    for part in parts:
        assert part in message
    for form, way in (("%d/%m/%Y", "day/month/year"), ("%m/%d/%Y", "month/day/year")):
        dates = f"{name}={form}"
        ds = nn.load(source, dates=dates)
        assert ds.kinds[1].written.way == way
        assert ds.x.kinds == ("number", "text")


def written_with(value: str, rows, folder, digits: int = 3) -> str:
    """A file of two columns of numbers and a target, with this value in some rows of
    the first."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(2, 300)).round(digits)
    goal = (columns.sum(axis=0) + rng.normal(size=300) / 5).round(3)
    cells = [*map(str, columns[0])]
    for row in rows:
        cells[row] = value
    lines = []
    for a, b, y in zip(cells, columns[1], goal, strict=True):
        lines.append(f"{a},{b},{y}")
    text = "\n".join(["a,b,y", *lines]) + "\n"
    (folder / "far.csv").write_text(text)
    return "far.csv"


@pytest.mark.parametrize("value", ["9.96921e36", "-1e30", "1e25"])
def test_a_fill_value_far_from_all_numbers_trains_and_the_cure_is_told(folder, value):
    path = written_with(value, range(0, 300, 15), folder)
    for flags in (
        [],
        ["--number_embedding", "pieces8"],
        ["--number_embedding", "waves4"],
    ):
        done = succeed(
            *ONE, "--dataset", path, "--model", "m.bin", "--epochs", 2, *flags
        )
        assert "far from all other numbers" in done.err
        assert "--missing=" in done.err
        net = nn.Network.load("m.bin")
        assert np.isfinite(net.vector).all()
    advice = done.err.split("add ")[1].split()[0]
    cured = succeed(*ONE, "--dataset", path, "--model", "m.bin", "--epochs", 2, advice)
    assert "far from" not in cured.err
    encoding = nn.Network.load("m.bin").encoding
    assert encoding.encoders[0].unknown_share > 0


@pytest.mark.parametrize("value", ["1e25", "-9.96921e36", "3e22"])
def test_a_number_that_makes_a_held_out_loss_infinite_is_named_with_the_cure(
    folder, value
):
    path = written_with("0.5", [7], folder)
    held = nn.ds.split_rows(nn.load(path), 0.5, 0.0, 0).holdout
    path = written_with(value, held[3:4], folder)
    flags = argv(
        f"--dataset {path} --model m.bin --epochs 2 --holdout 0.5 --split_seed 0"
    )
    failed = run(*ONE, *flags)
    assert failed.code == 65
    lines = failed.err.strip().splitlines()
    line = lines[-1]
    assert f"far.csv, data row {held[3] + 1}, column a: found " in line
    assert "--missing=" in line
    advice = line.split("with ")[-1].strip()
    assert float(advice.removeprefix("--missing=")) == float(value)
    succeed(*ONE, *flags, advice)


@pytest.mark.parametrize("first", [4, 12, 16, 24, 28, 38])
def test_the_first_number_far_from_all_others_is_named_in_every_block(
    first, monkeypatch
):
    """Every other row judges, in blocks of four rows; another one is further out."""
    monkeypatch.setattr(far_values, "BLOCK_OF_ROWS", 4)
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    ds = nn.Dataset(x, x[:, :1], "regression", columns=["a", "b", "c"])
    net = nn.Network("3,1", "regression")
    nn.train(net, ds, epochs=1)
    far = x.copy()
    far[first, 1] = -1e25
    far[[1, first + 1], 2] = 1e30
    rows = np.arange(0, 40, 2)
    error = far_values.far_field(net.reader, far, rows, "its loss is inf")
    told = f"row {first + 1}, column b: found -1e+25, so far from all other numbers"
    assert str(error).startswith(told)
    assert far_values.far_field(net.reader, x, rows, "its loss is inf") is None


@pytest.mark.parametrize("value", ["-999.9", "-999.900001", "1234567.891", "-9999"])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_number_that_a_remark_advises_is_that_of_the_file(folder, value, mixed):
    path = written_with(value, range(0, 300, 15), folder)
    if mixed:
        lines = (folder / path).read_text().splitlines()
        lines = [
            "c," + lines[0],
            *("uv"[k % 2] + "," + line for k, line in enumerate(lines[1:])),
        ]
        (folder / path).write_text("\n".join(lines))
    remarks = nn.load(path).remarks
    advice = [line for line in remarks if "far from all" in line]
    assert len(advice) == 1
    assert f"column a is {value} in 20 of 300 rows, far from all" in advice[0]
    assert advice[0].endswith(f"add --missing={value}")
    remarks = nn.load(path, missing=value).remarks
    assert not [line for line in remarks if "far from all" in line]


@pytest.mark.parametrize("between", [False, True])
def test_a_number_far_from_all_others_is_counted_in_all_rows(between):
    """Of 3,500 rows every third is looked at before; the second one, between the number
    and the others, is none of these."""
    numbers = np.random.default_rng(0).normal(size=3500).round(3)
    numbers[7::20] = -9999
    if between:
        numbers[1] = -9990
    columns = {"a": numbers, "b": np.roll(numbers, 5) > 0}
    ds = nn.load(columns, y=np.sin(np.arange(3500)))
    told = [line for line in ds.remarks if "far from all" in line]
    assert len(told) == (not between)
    assert between or told[0].startswith("column a is -9999 in 175 of 3500 rows, far")
