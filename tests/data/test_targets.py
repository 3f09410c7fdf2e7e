"""What a target is taken for by its values, and what is said where it can be neither;
what gives it away."""

import contextlib
import gc

import numpy as np
import pandas as pd
import pytest
from support.command_line import argv, run, succeed
from support.tables import failure

import nn
from nn.data import checks
from nn.data.csv_table import CsvReader


def table(path, targets, name="t"):
    """Write two columns of numbers and these targets, each in quotes."""
    rows = "".join(
        f'{(7 * i) % 31},{(5 * i) % 17},"{target}"\n'
        for i, target in enumerate(targets)
    )
    path.write_text(f"a,b,{name}\n{rows}")
    return str(path)


def repeated(*words, rows=20):
    """The words in turn, each in that number of rows."""
    return [*words] * rows


def thinning(values):
    """Counts have thin tails: the larger a number, the fewer rows."""
    return [value for i, value in enumerate(values) for _ in range(1 + 100 // (1 + i))]


@pytest.mark.parametrize(
    "targets, task",
    [
        *(
            (targets, "multiclass")
            for targets in (
                # grades of a jury; a class is missing
                repeated(3, 4, 5, 6, 7, 8),
                repeated(1, 2, 3, 5, 6, 7),
                repeated(0, 2, 4),
                repeated(-1, 0, 1),
                repeated(2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14),
                thinning(range(3)),
                # many labels, but of many rows each
                thinning(range(10)),
                repeated(*range(26), rows=100),
            )
        ),
        *(
            (targets, "regression")
            for targets in (
                # ages, years at school, doses
                repeated(25, 26, 27, 28, 29),
                repeated(9, 12, 16, 20),
                repeated(0, 5, 10, 20),
                repeated(1999, 2000, 2001, 2002),
                repeated(*range(1990, 2010)),
                repeated(-14, -11, -10, -9),
                repeated(0, 1, 2, 1971),
                repeated(*range(0, 60, 4)),
                thinning([0.5, 1.5, 2]),
                thinning(range(28)),
                thinning(range(100)),
            )
        ),
        *(
            (targets, "binary")
            for targets in (
                repeated(5, 70),
                repeated(1999, 2000),
                repeated(0.5, 2),
                thinning([1, 2]),
            )
        ),
    ],
)
def test_labels_count_from_zero_or_one(tmp_path, targets, task):
    path = table(tmp_path / "a.csv", targets)
    ds = nn.load(path)
    values = {*targets}
    assert ds.task == task
    doubt = len(values) > 2 and all(value == int(value) for value in values)
    assert ["--task" in remark for remark in ds.remarks] == [True] * doubt


@pytest.mark.parametrize(
    "targets, may_count",
    [
        (np.repeat(np.arange(9), [50, 80, 60, 30, 15, 8, 4, 2, 1]), True),
        (np.repeat(np.arange(9), 20), False),  # digits
        # of the smaller half, 0 to 2, three quarters of the rows; one row less
        (np.repeat(np.arange(6), [30, 30, 30, 10, 10, 10]), True),
        (np.repeat(np.arange(6), [30, 30, 29, 11, 10, 10]), False),
        (np.repeat(np.arange(7), [30, 30, 20, 10, 10, 10, 10]), True),
        (np.repeat(np.arange(5), [50, 40, 20, 10, 5]), False),
        (np.repeat(np.arange(1, 10), [50, 80, 60, 30, 15, 8, 4, 2, 1]), False),
    ],
)
def test_what_may_be_counts_is_told_once(targets, may_count):
    x = np.random.default_rng(0).normal(size=len(targets))
    ds = nn.load({"a": x, "n": targets}, target="n")
    line = f"n: {len({*targets})} whole numbers from 0 are classes; if they count something, --loss poisson"
    assert [line in remark for remark in ds.remarks] == [may_count]
    ds = nn.load({"a": x, "n": targets}, target="n", task="regression")
    assert ds.remarks == []


@pytest.mark.parametrize(
    "values, rows, is_told",
    [(3, 5, True), (10, 12, True), (11, 21, False), (11, 22, True)],
)
def test_more_than_ten_whole_numbers_are_doubtful_where_each_comes_twice(
    values, rows, is_told
):
    targets = np.resize(7 * np.arange(values) + 20, rows)
    ds = nn.load({"a": np.arange(rows) % 7 / 7, "n": targets}, target="n")
    line = f"n: {values} whole numbers, taken as "
    assert [line in remark for remark in ds.remarks] == [True] * is_told


@pytest.mark.parametrize(
    "common, rare, positive",
    [
        ("negative", "Sick", "Sick"),
        ("Sick", "negative", "negative"),
        ("a", "b", "b"),
        ("b", "a", "a"),
        ("yes", "no", "yes"),
        ("n", "Y", "Y"),
        ("TRUE", "FALSE", "TRUE"),
        ("1", "0", "1"),
        ("1", "-1", "1"),
        ("2", "1", "1"),
        ("1", "2", "2"),
        ("4", "2", "2"),
    ],
)
def test_the_positive_class_is_yes_or_one_or_the_rarer(folder, common, rare, positive):
    path = table(folder / "t.csv", [rare, common, common] * 10)
    ds = nn.load(path)
    assert ds.classes[1] == positive
    assert ds.y.sum() == (10 if positive == rare else 20)
    if positive == rare:
        other = common
    else:
        other = rare
    classes = nn.load(path, positive=other).classes
    assert classes == [positive, other]
    result = succeed(
        "--train", "--dataset", path, "--model", "m.bin", "--networks", 1, "--epochs", 1
    )
    line = result.err.splitlines()[1]
    expected = ds.classes != ["0", "1"]
    assert (f"{positive} (" in line and "positive)" in line) == (expected)
    model = nn.Model.load("m.bin")
    assert model.network.classes == ds.classes


def test_the_original_takes_the_larger_of_ties_the_last_name_and_refuses_other_words(
    tmp_path,
):
    ds = nn.load(table(tmp_path / "t.csv", repeated("b", "a")))
    assert ds.classes == ["a", "b"]
    ds = nn.load(table(tmp_path / "t.csv", repeated("2", "2", "1")), plain=True)
    assert ds.classes == ["1", "2"]
    for words, message in (
        ("ab", "the classes a and b; name one of them"),
        ("abc", "3 classes, expected two classes"),
    ):
        path = table(tmp_path / "t.csv", repeated(*words))
        result = run(
            *argv(f"--train --dataset {path}"),
            "--model",
            tmp_path / "m.bin",
            "--positive",
            "c",
        )
        assert result.code == 2
        assert "--positive c: " in result.err
        assert f"has {message}" in result.err


@pytest.mark.parametrize(
    "words, warning",
    [
        (
            ["x", "y", "z"] * 5 + ["1"],
            'row 17, column t: found "1", expected text as in the other rows',
        ),
        (
            repeated("0", "1", "2", "3+"),
            'row 5, column t: found "3+", expected a number; correct it, or add --task',
        ),
        (
            repeated("alpha", "beta", "1"),
            'found "1", expected text as in the other rows; correct it, or add --task',
        ),
        (["0", "1"] * 20 + ["."] * 10, "or --missing . if that is a gap"),
        ([*range(18, 90), *["90+"] * 9], "or --missing 90+ if that is a gap"),
        (
            [*range(9)] * 4 + ["two words", "?!"],
            "or --missing 'two words,?!' if that is a gap",
        ),
    ],
)
def test_a_stray_among_numbers_or_texts_is_told_with_its_cures(
    tmp_path, words, warning
):
    path = table(tmp_path / "a.csv", words)
    message = failure(path)
    assert warning in message
    assert message.startswith(f"{path}, row ")
    if "?!" in words:
        ds = nn.load(path, missing="two words,?!")
        assert ds.unlabelled == 2
        assert ds.rows == 36
        expected = [*map(str, range(9))]
        assert ds.classes == expected
    row_count = nn.load(path, task="multiclass").rows
    assert row_count == len(words)


def test_a_reader_that_has_failed_is_freed_at_once(tmp_path):
    """In a circle with the error its memory is freed in any order, which ends some
    Pythons."""
    path = table(tmp_path / "a.csv", [*range(10_500), "oops"])
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(nn.DataError):
            nn.load(path)
        for item in gc.get_objects():
            assert not isinstance(item, CsvReader)
    finally:
        gc.enable()


def test_numbers_and_texts_are_classes_in_all_formats_if_a_person_or_network_says_so(
    tmp_path,
):
    pandas = pytest.importorskip("pandas")
    words = repeated("alpha", "beta", "1", "1.5")
    path = table(tmp_path / "a.csv", words)
    frame = pandas.read_csv(path, dtype={"t": str})
    parquet = str(tmp_path / "a.parquet")
    frame.to_parquet(parquet)
    for source in (path, parquet, frame):
        ds = nn.load(source, task="multiclass")
        assert ds.classes == ["1", "1.5", "alpha", "beta"]
        assert [ds.classes[y] for y in ds.y] == words
    path = table(tmp_path / "a.csv", repeated(5, 10, 15))
    classes = nn.load(path, outputs=3).classes
    assert classes == ["5", "10", "15"]
    assert nn.load(path, outputs=1).task == "regression"


def test_names_of_many_rows_are_classes_names_of_one_not_and_numbers_have_no_stray(
    tmp_path,
):
    texts = [f"n{i}" for i in range(30)]
    path = table(tmp_path / "a.csv", texts + ["n1", "n2"])
    assert (
        "30 different texts in 32 rows, expected class names, which come again; choose"
        in failure(path)
    )
    classes = nn.load(path, task="multiclass").classes
    assert len(classes) == 30
    names = [f"town {i}" for i in range(150)]
    ds = nn.load(table(tmp_path / "a.csv", repeated(*names, rows=10)))
    assert len(ds.classes) == 150
    assert "150 different texts" in failure(
        table(tmp_path / "a.csv", repeated(*names, rows=9))
    )
    path = table(tmp_path / "a.csv", [*range(10_500), "oops", *range(9)])
    message = 'row 10502, column t: found "oops", expected a number; correct it, or remove the row, or --missing oops'
    assert message in failure(path)
    assert message in failure(path, task="regression")


@pytest.mark.parametrize(
    "form", ["2019-03-{:02}", "3/{}/2019", "2019-03-{:02}T10:20:30Z", "Mar {}, 2019"]
)
def test_dates_are_no_classes(tmp_path, form):
    path = table(
        tmp_path / "a.csv",
        repeated(*(form.format(day) for day in range(1, 13)), rows=20),
    )
    assert (
        "column t: 12 different dates, expected class names or numbers; choose the target"
        in failure(path)
    )
    few = table(
        tmp_path / "b.csv",
        repeated(*(form.format(day) for day in range(1, 5)), rows=20),
    )
    assert len(nn.load(few).classes) == 4


SQUARES = [1000 + 137 * (i * i % 29) for i in range(40)]


@pytest.mark.parametrize(
    "words, values",
    [
        ([f"{n:,}.50" for n in SQUARES], [n + 0.5 for n in SQUARES]),
        ([f"{i}%" for i in range(40)], range(40)),
        ([f"{i}.5 kg" for i in range(40)], np.arange(40) + 0.5),
        ([f"{i} K" for i in range(40)], range(40)),
        ([f"${i},000.50" for i in range(1, 60)], np.arange(1000, 60_000, 1000) + 0.5),
        ([f"{900 + 10 * i:,}" for i in range(40)], range(900, 1300, 10)),
        # as in other columns
        (
            [f"{i % 4},{i % 3}" for i in range(48)],
            [i % 4 + i % 3 / 10 for i in range(48)],
        ),
        # more than may be classes
        ([f"{1000 + i:,}" for i in range(12_000)], range(1000, 13_000)),
    ],
)
def test_prices_are_numbers_and_the_unit_of_a_target_is_left_out(
    tmp_path, words, values
):
    path = table(tmp_path / "a.csv", words)
    for task in ("auto", "regression"):
        ds = nn.load(path, task=task)
        assert ds.task == "regression"
        expected = np.array(values, np.float32)
        y = ds.y[:, 0]
        np.testing.assert_array_equal(y, expected)
    classes = nn.load(table(tmp_path / "b.csv", repeated("2dr", "4dr", "5dr"))).classes
    assert classes == ["2dr", "4dr", "5dr"]


ONE = ("--layers", "auto,4,1", "--epochs", 2, "--holdout", 0)


def test_a_word_of_another_unit_than_the_other_targets_is_refused(tmp_path):
    succeed(
        "--train",
        "--dataset",
        table(tmp_path / "a.csv", range(1000, 1060)),
        "--model",
        tmp_path / "a.bin",
        *ONE,
    )
    new = table(tmp_path / "b.csv", ["1,200", "1200"])
    result = succeed("--predict", "--model", tmp_path / "a.bin", "--dataset", new)
    lines = result.out.splitlines()
    numbers = [float(line.split(",")[2]) for line in lines[1:]]
    assert numbers == [1200, 1200]
    new = table(tmp_path / "b.csv", ["1200", "1.2 kg"])
    for mode in ("--test", "--predict"):
        refused = run(mode, "--model", tmp_path / "a.bin", "--dataset", new)
        assert refused.code == 65
        assert (
            'b.csv, row 3, column t: found "1.2 kg", expected a number' in refused.err
        )


def test_the_cure_for_a_column_that_tells_the_target_is_one_that_a_shell_takes(
    tmp_path,
):
    rows = "".join(
        f"{(7 * i) % 31},{100 * (i % 2) + (i * i) % 13},{i % 2}\n" for i in range(60)
    )
    for name, flag in (("a, b", "'\"a, b\"'"), ("net pay", "'net pay'"), ("", "1")):
        text = f'a,"{name}",t\n{rows}'
        (tmp_path / "a.csv").write_text(text)
        path = str(tmp_path / "a.csv")
        (message,) = nn.load(path).remarks
        assert f"(--drop {flag})" in message


RNG = np.random.default_rng(0)
ROWS = 1200  # more than are looked at first
CASUAL = RNG.integers(0, 50, ROWS)
REGISTERED = RNG.integers(0, 300, ROWS)
NOISE = RNG.normal(size=ROWS)


def remarks(target, **columns) -> list[str]:
    return nn.load({**columns, "y": target}, target="y").remarks


@pytest.mark.parametrize(
    "target, message",
    [
        (
            CASUAL + REGISTERED,
            "columns a + b determine y in all 1200 rows; drop them (--drop a,b) unless their values are",
        ),
        (CASUAL - REGISTERED, "columns a + b determine y"),
        (
            2.54 * CASUAL + 3,
            "column a determines y in all 1200 rows; drop it (--drop a) unless its value is known",
        ),
        # a law to be learned
        (CASUAL + REGISTERED + 0.01 * NOISE, None),
        (CASUAL + 2 * REGISTERED, None),
        (CASUAL + REGISTERED + (np.arange(ROWS) == ROWS - 1), None),
    ],
)
def test_columns_that_are_the_target_are_told(target, message):
    result = remarks(target.astype(float), a=CASUAL, b=REGISTERED, c=NOISE)
    assert len(result) == (message is not None)
    assert message is None or result[0].startswith(message)


@pytest.mark.parametrize("classes", [2, 3])
def test_words_that_determine_classes_are_twice_as_many_at_most(classes):
    y = np.arange(ROWS) % classes
    for words in (classes, 2 * classes, 2 * classes + 1):
        own = [f"w{k % classes + classes * (k % 5 < 2)}" for k in range(ROWS)]
        if words == classes:
            own = [f"w{k % classes}" for k in range(ROWS)]
        if words > 2 * classes:
            own[classes] = "another"
        assert len({*own}) == words
        table = {"word": own, "noise": NOISE, "y": y}
        ds = nn.load(table, target="y", task="binary" if classes == 2 else "multiclass")
        told = [line for line in ds.remarks if "word determines y in all" in line]
        assert len(told) == (words <= 2 * classes)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_column_determines_classes_in_all_rows_or_is_not_told(classes, last):
    """The last row, behind the first thousand that are looked at before, says
    otherwise."""
    y = np.arange(ROWS) % classes
    number = y * 10 + NOISE / 100
    word = [f"w{k}" for k in y]
    if last:
        number[-1] -= 10
        word[-1] = f"w{(y[-1] + 1) % classes}"
    table = {"number": number, "falling": -number, "word": word, "noise": NOISE, "y": y}
    ds = nn.load(table, target="y", task="binary" if classes == 2 else "multiclass")
    told = [line.split()[1] for line in ds.remarks if "determines y in all" in line]
    determining = ["number", "falling", "word"] if classes == 2 else ["word"]
    assert told == ([] if last else determining)
    touching = np.where(y == 0, -1, 1) * np.abs(NOISE)
    touching[:2] = 0  # a row of each of two classes
    assert not any("determines" in line for line in remarks(y, touching=touching))


def test_a_sum_whose_first_rows_are_all_alike_is_told():
    a = np.where(np.arange(ROWS) < 50, 7, CASUAL)
    b = np.where(np.arange(ROWS) < 50, 7, REGISTERED)
    target = (a + b).astype(float)
    assert remarks(target, a=a, b=b, c=NOISE)[0].startswith("columns a + b determine y")


@pytest.mark.parametrize(
    "number, share, numbers, is_told",
    [
        (-200, 0.05, NOISE, True),
        (9999, 0.02, REGISTERED, True),
        # a stray, near the others
        (9999, 0.001, REGISTERED, False),
        (400, 0.05, REGISTERED, False),
        # of few values, which may be codes
        (0, 0.5, REGISTERED, False),
        (-200, 0.05, NOISE.round(0), False),
    ],
)
def test_a_frequent_number_far_from_all_others_may_stand_for_a_missing_value(
    number, share, numbers, is_told
):
    column = np.where(np.arange(ROWS) % round(1 / share) == 0, number, numbers).astype(
        float
    )
    result = remarks(RNG.normal(size=ROWS), a=column)
    assert bool(result) == is_told
    for line in result:
        assert f"add --missing={number}" in line


def test_the_cure_of_such_a_number_is_one_that_the_command_takes(folder):
    column = np.where(np.arange(ROWS) % 20 == 0, -200, NOISE.round(3))
    rows = []
    for a, b, y in zip(column, CASUAL, RNG.normal(size=ROWS), strict=True):
        rows.append(f"{a},{b},{y}\n")
    lines = "".join(rows)
    (folder / "t.csv").write_text("a,b,y\n" + lines)
    flags = argv("--train --dataset t.csv --model m.bin --networks 1 --epochs 1")
    errors = succeed(*flags).err
    told = next(line for line in errors.splitlines() if "missing value" in line)
    cure = told.split()[-1]
    assert cure == "--missing=-200"
    assert "missing value, add" not in succeed(*flags, cure).err
    columns = nn.load("t.csv", missing="-200").x.columns
    assert np.isnan(columns[0].values).sum() == 60


# ---- a target a million times the usual size


def prices(far: dict[int, float], rows: int = 100) -> list[float]:
    """Numbers from 500 to 1,500, whose median is 1,000 and a little, but for those of
    some rows."""
    usual = []
    for row in range(rows):
        usual.append((500, 1500, 1000, 1000)[row % 4] + row / 100)
    return [far.get(row, usual[row]) for row in range(rows)]


@pytest.mark.parametrize(
    ("far", "message"),
    [
        (
            {16: 1.01e9},
            "row 18, column price: found 1010000000, 1,000,000 times the median",
        ),
        (
            {16: 2.5e9, 3: -4e10},
            "row 5, column price: found -40000000000, 40,000,000 times the median, like 1 more",
        ),
        (
            {16: 1e15},
            "row 18, column price: found 1000000000000000, 1e+12 times the median",
        ),
        ({16: 9e8}, None),
        ({}, None),
        ({row: 1e10 for row in range(30)}, None),
        ({row: 0 for row in range(60)}, None),
    ],
)
def test_a_target_a_million_times_the_median_is_named(folder, far, message):
    """Wherever it is read from: row 17 of the data is line 18 of the file; so many are
    no slips."""
    values = prices(far)
    path = table(folder / "t.csv", values, "price")
    ds = nn.load(path, task="regression", dtype="float64")
    about = checks.about_far_targets(ds)
    of_network = argv("--task regression --layers 2,3,1 --epochs 1 --model m.bin")
    of_file = run("--train", "--dataset", path, *of_network).err
    if message is None:
        assert about == []
        assert "times the median" not in of_file
        return
    (line,) = about
    mark = message.partition("found ")[2].partition(",")[0]
    assert (
        line
        == f"{path}, {message}; correct it or remove the row, or --missing {mark} if that is a gap"
    )
    assert line.partition(": found")[0] in of_file
    assert "times the median" in of_file


def test_a_target_far_above_is_counted_among_those_that_are_not_zero(folder):
    """Most claims are 0, and their median with them."""
    values = [0.0] * 70 + prices({2: 3e9}, 30)
    (line,) = far_target(folder, values)
    # of the thirty that are not 0 the median is 1,000 and a little
    found = "row 74, column claim: found 3e+09, 3,000,000 times the median"
    assert f"{found}; correct it" in line
    for far, are_few in ((25, True), (26, False)):  # of a hundred rows
        values = [0.0] * 40 + prices(dict.fromkeys(range(0, 2 * far, 2), 3e10), 60)
        assert len(far_target(folder, values)) == are_few
    assert far_target(folder, [0.0] * 99 + [5.0]) == []


def far_target(folder, values) -> list[str]:
    path = table(folder / "t.csv", values, "claim")
    return checks.about_far_targets(nn.load(path, task="regression"))


def test_a_far_target_has_its_line_of_the_file_whatever_rows_leave_before_it(folder):
    """Rows without a target, and of those that are left rows of weight 0."""
    values = prices({16: 1e12, 40: -3e12})
    weights = np.ones(100)
    weights[[1, 2, 9, 20]] = 0
    told = [f"{value!r}" for value in values]
    told[5] = told[30] = ""
    lines = [f"{7 * i % 31},{w},{y}" for i, (w, y) in enumerate(zip(weights, told))]
    (folder / "t.csv").write_text("\n".join(["a,weight,price", *lines]) + "\n")
    for weight, least in ((None, 98), ("weight", 94)):
        ds = nn.load("t.csv", target="price", weight=weight, task="regression")
        assert ds.rows == least
        (line,) = checks.about_far_targets(ds)
        assert line.startswith("t.csv, row 42, column price: found -3e+12, ")


def test_a_far_target_is_named_in_python_too(folder):
    """A row keeps its name where rows without a target were left out before it, and
    where some rows are trained on."""
    values = prices({16: 1e12})
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2))
    a = x[:, 0]
    b = x[:, 1]
    frame = pd.DataFrame({"a": a, "b": b, "price": values})
    frame.loc[4, "price"] = None
    trains = (
        lambda: nn.fit(frame, "price", layers="2,3,1", epochs=1),
        lambda: nn.train(
            nn.Network("2,3,1", "regression"),
            nn.load(frame, target="price"),
            epochs=1,
            folds=2,
        ),
    )
    for train in trains:
        with pytest.warns(
            nn.NnWarning,
            match="data row 17, column price: found 1e.12, 1,000,000,000 times",
        ):
            train()
    ds = nn.Dataset(x, np.array(values), "regression")
    with pytest.warns(
        nn.NnWarning,
        match="data row 17, target 1: found 1000000000000, .* remove the row$",
    ):
        nn.train(
            nn.Network("2,3,1", "regression"), ds.of_rows(np.arange(10, 60)), epochs=1
        )
    columns = np.column_stack([values, values[::-1]])
    several = nn.Dataset(x, columns, "regression", targets=["one", "other"])
    assert [
        line.partition(": found")[0] for line in checks.about_far_targets(several)
    ] == ["the data, data row 17, column one", "the data, data row 84, column other"]
