"""From a file to a Dataset: targets and task, bad input, hold-out; real tables, memory
and time."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.effort import examples
from support.tables import failure, peak_of_loading, seconds_of

from nn.ds import Dataset, check_trainable, load, split_rows
from nn.utils import DataError, InputNotFound, NnError, UsageError


@pytest.mark.parametrize(
    "target, values, columns",
    [
        (None, [4, 8], ["a", "b", "c"]),
        ("d", [4, 8], ["a", "b", "c"]),
        ("a", [1, 5], ["b", "c", "d"]),
        ("-1", [4, 8], ["a", "b", "c"]),
        ("1", [2, 6], ["a", "c", "d"]),
        (0, [1, 5], ["b", "c", "d"]),
        ("d,a", [[4, 1], [8, 5]], ["b", "c"]),
        ("-2, 0", [[3, 1], [7, 5]], ["b", "d"]),
    ],
)
def test_target_by_name_and_index(write, target, values, columns):
    ds = load(write("a,b,c,d\n1,2,3,4\n5,6,7,8\n"), target=target, task="regression")
    expected = np.array(values).reshape(2, -1).tolist()
    assert ds.y.tolist() == expected
    assert ds.columns == columns


def test_targets_that_are_not_there_and_too_few_or_too_many_columns_for_a_network(
    write,
):
    path = write("alpha,beta,gamma\n1,2,0\n3,4,1\n")
    assert "did you mean alpha?" in failure(path, UsageError, target="alfa")
    assert "from -3 to 2" in failure(path, UsageError, target="3")
    assert "twice" in failure(path, UsageError, target="0,alpha")
    assert "no header" in failure(write("1,2,0\n"), UsageError, target="alpha")
    assert "no input columns left" in failure(path, target="0,1,2")
    assert "2 columns have this name" in failure(
        write("a,a,b\n1,2,0\n3,4,1\n"), UsageError, target="a"
    )
    path = write("a,b,c,d\n1,2,3,0\n1,2,4,1\n")
    assert "4 columns, expected 31 (30 inputs and a target);" in failure(
        path, inputs=30, outputs=1
    )
    assert "or 5 (2 inputs and 3 outputs)" in failure(path, inputs=2, outputs=3)
    assert "3 columns besides the target, expected 2" in failure(
        path, inputs=2, outputs=1, target="a"
    )


def table(labels):
    rows = []
    for i, label in enumerate(labels):
        rows.append(f"{i},{label}\n")
    return "".join(rows)


@pytest.mark.parametrize(
    "labels, task, classes, y",
    [
        ([0, 1, 1], "binary", ["0", "1"], [0, 1, 1]),
        ([1, -1, 1], "binary", ["-1", "1"], [1, 0, 1]),
        ([2.5, 0.5], "binary", ["0.5", "2.5"], [1, 0]),
        (["no", "yes", "no"], "binary", ["no", "yes"], [0, 1, 0]),
        (["b", "c", "a"], "multiclass", ["a", "b", "c"], [1, 2, 0]),
        ([3, 1, 2, 10], "multiclass", ["1", "2", "3", "10"], [2, 0, 1, 3]),
        (range(10), "multiclass", [str(i) for i in range(10)], list(range(10))),
        (range(11), "regression", None, [[i] for i in range(11)]),
        (['"x, ""y"""', "z"], "binary", ['x, "y"', "z"], [0, 1]),
        (range(101), "regression", None, [[i] for i in range(101)]),
        ([0.5, 1.5, 2], "regression", None, [[0.5], [1.5], [2]]),
    ],
)
def test_auto_decides_the_task_by_the_values(write, labels, task, classes, y):
    ds = load(write(table(labels)))
    assert ds.task == task
    assert ds.classes == classes
    assert ds.y.tolist() == y
    expected = len(classes) if task == "multiclass" else 1
    assert ds.outputs == expected


@pytest.mark.parametrize(
    "labels, outputs, task, classes",
    [
        ([0, 1, 1], 2, "multiclass", ["0", "1"]),
        ([0, 2, 5], 6, "multiclass", [str(i) for i in range(6)]),
        ([1, 2, 5], 5, "multiclass", ["1", "2", "3", "4", "5"]),
        (["a", "b"], 2, "multiclass", ["a", "b"]),
        ([0, 1], 1, "binary", ["0", "1"]),
    ],
)
def test_labels_for_a_network_of_some_outputs(write, labels, outputs, task, classes):
    path = write(table(labels))
    ds = load(path, inputs=1, outputs=outputs)
    assert ds.task == task
    assert ds.classes == classes
    expected = [str(label) for label in labels]
    assert [ds.classes[i] for i in ds.y] == expected


@pytest.mark.parametrize(
    "labels, task",
    [
        ([0, 1, 2], "auto"),
        ([0, 1, 1], "multiclass"),
        ([1, 2, 3], "auto"),
        ([0, 2, 5], "auto"),
        (["a", "b", "c"], "auto"),
    ],
)
def test_more_outputs_than_classes_are_refused_with_the_cure(write, labels, task):
    path = write(table(labels))
    x = [0.5] * len(labels)
    frame = {"x": x, "y": labels}
    with pytest.raises(
        DataError,
        match=f"classes, expected 16, .*; let --layers end in {len(set(labels))}",
    ):
        load(path, inputs=1, outputs=16, task=task)
    with pytest.raises(
        DataError,
        match=f"classes, expected 16, .*; let --layers end in {len(set(labels))}",
    ):
        load(frame, inputs=1, outputs=16, task=task)
    ds = load(path, inputs=1, task=task)
    assert ds.outputs == len(set(labels))


def test_several_target_columns_are_classes_if_one_hot_labels_if_bits_else_numbers(
    write,
):
    numbers = [[1, 0, 0], [0, 1, 1]]
    as_given = {"task": "regression", "dtype": "float64"}
    cases = (
        ("1,5,1,0,0\n2,6,0,0,1\n3,7,0,1,0\n", {}, "multiclass", [0, 2, 1]),
        ("1,5,1,0,0\n2,6,0,1,1\n", {}, "multilabel", numbers),
        ("1,5,1,0,0\n2,6,0,1,2\n", {}, "regression", [[1, 0, 0], [0, 1, 2]]),
        ("1,5,0\n2,6,2\n3,3,1\n", {}, "multiclass", [0, 2, 1]),
        ("1,5,1,0,0\n2,6,0,0,1\n", as_given, "regression", [[1, 0, 0], [0, 0, 1]]),
    )
    for text, flags, task, y in cases:
        ds = load(write(text), inputs=2, outputs=3, **flags)
        assert ds.task == task, text
        assert ds.y.tolist() == y, text
        if flags:
            dtype = np.float64
        elif task == "multiclass":
            dtype = np.int32
        else:
            dtype = np.float32
        assert ds.y.dtype == dtype, text


def test_tasks_that_the_values_do_not_allow(write):
    cases = (
        ([0, 1, 2], {"task": "binary"}, "3 classes, expected 2"),
        ([0, 1, 2], {"outputs": 2}, "3 classes, expected 2"),
        ([0, 1, 2], {"outputs": 1}, "--task regression"),
        ([0.5, 1.5, 2.5], {"task": "multiclass"}, "expected whole"),
        (["a", "b"], {"task": "regression"}, "row 1"),
    )
    for labels, flags, message in cases:
        path = write(table(labels))
        assert message in failure(path, inputs=1, **flags), (labels, flags)
    for task, message in (
        ("binary", "--task binary needs 1 output"),
        ("binari", "unknown task"),
    ):
        with pytest.raises(UsageError, match=message):
            load(write(table([0, 1])), task=task, inputs=1, outputs=2)


def test_labels_are_mapped_to_the_classes_of_a_model(write):
    classes = ["a", "b", "c"]
    ds = load(write("x,y\n1,c\n2,a\n"), classes=classes, inputs=1, outputs=3)
    assert ds.y.tolist() == [2, 0]
    assert ds.classes == classes
    assert ds.task == "multiclass"
    y = load(write("1,1.0\n2,1\n"), classes=["0", "1"]).y
    assert y.tolist() == [1, 1]
    message = failure(write("x,y\n1,c\n2,a\n3,d\n4,d\n"), classes=classes)
    assert 'row 4: found class "d"' in message
    assert "a, b, c" in message
    assert 'row 1: found class "2"' in failure(write("5,2\n5,0\n"), classes=["0", "1"])
    y = load(write("1,0,0,1\n2,1,0,0\n"), classes=classes, inputs=1, outputs=3).y
    assert y.tolist() == [2, 0]


def test_a_table_of_pixels_becomes_images_of_bytes(write):
    rows = []
    for i in range(3):
        rows.append(",".join(map(str, range(i, i + 12))) + f",{i % 2}\n")
    text = "".join(rows)
    ds = load(write(text), inputs=(3, 2, 2), outputs=1)
    assert ds.x.shape == (3, 3, 2, 2)
    assert ds.x.dtype == np.uint8
    assert ds.x[1].ravel().tolist() == list(range(1, 13))
    ds = load(write(text.replace("11,", "255,")), inputs=(3, 2, 2), outputs=1)
    assert ds.x.dtype == np.uint8
    assert ds.x[0, 2, 1, 1] == 255
    for odd in ("0.5", "256", "-1"):
        path = write(text.replace("11,", odd + ","))
        ds = load(path, inputs=(3, 2, 2), outputs=1)
        assert ds.x.dtype == np.float32
        x = ds.x[0, 2, 1, 1]
        assert x == float(odd)


@pytest.mark.parametrize(
    "text, parts",
    [
        ("", ["empty"]),
        ("\n \n", ["empty"]),
        ("a,b,c\n", ["only a header"]),
        ('x,y\n"1,0\n', ["row 2"]),
        ("a,b,c\n1,2,0\n1,2\n", ["row 3: 2 columns, expected 3 as in the header"]),
        ("1\n2\n", ["1 column"]),
        ("1,2,0\n1,2,0,1\n", ["row 2: 4 columns, expected 3 as in row 1"]),
        ("a,b,c\n\n1,2,0\n\n1,2\n", ["row 5: 2 columns"]),
        ("a,b,c\n1,2,\n", ["no row has a target"]),
        (
            "a,b,c\n" + 20 * "1,2,0\n" + "1,x y,1\n",
            ['row 22, column b: found "x y", expected a number'],
        ),
        ("a,b,c\n" + 20 * "1,2,0\n" + "1,1e,1\n", ['row 22, column b: found "1e"']),
        ("a,b,c\n1,2,0\n-Inf,2,1\n", ['row 3, column a: found "-Inf"']),
        ("a,b,c\n1,2,0\n1e999,2,1\n", ['row 3, column a: found "1e999"']),
        (
            "a,b,c\n1,2,0\n1e39,2,1\n",
            ['row 3, column a: found "1e+39"', "--dtype float64"],
        ),
        (
            "1:2:0\n3:4:1\n",
            ["1 column, expected features and a target, separated by commas"],
        ),
        ("a,b\n" + "1,0\n" * 2000 + "1\x002,0\n", ["row 2002, column a", r'"1\x002"']),
        ("a,b\n1,0\n1\x002,0\n", ["not text (byte 10)"]),
        ("a,b\n" + 20 * "1,0\n" + "z" * 500 + ",0\n", ["row 22", "zz ... zz"]),
        # behind many good ones
        (
            "a,b\n" + "1.25,0\n" * 200_000 + "1.25,0,\n" + "1,1\n" * 10,
            ["row 200002: 3 columns"],
        ),
    ],
)
def test_bad_tables_are_named_by_row_and_column(write, text, parts):
    message = failure(write(text), strict=True)
    for part in parts:
        assert part in message, message
    assert len(message) < 400


def test_files_that_are_not_there_or_not_whole(write, tmp_path):
    assert failure(tmp_path / "none.csv", InputNotFound)
    whole = gzip.compress(b"1,2,0\n3,4,1\n" * 1000)
    cases = (
        (whole[:-20], "too early"),
        (whole[:15], "too early"),
        (whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:], "corrupt"),
        ("1,2,0\n".encode("utf-16"), "UTF-16"),
        (
            b"\x89ANY\r\n\x1a\n\0\0\0",
            "CSV, Excel, NPZ, NPY, Parquet, Arrow, ORC, SQLite, IDX, CIFAR-10 binary or pictures",
        ),
    )
    for data, message in cases:
        assert message in failure(write(data, "a.csv.gz"))


@examples(150)
@given(st.text(alphabet='0129.,-e" \n\r\t\0axn\u00e9', max_size=60))
def test_any_text_is_read_or_refused_in_one_line(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "data.csv"
    path.write_text(text, newline="")
    try:
        ds = load(path)
    except NnError as error:
        assert error.exit_code in (2, 65)
        assert "\n" not in str(error)
        assert str(path) in str(error)
    else:
        # of a file with gaps
        if isinstance(ds.x, np.ndarray):
            columns = ds.x.T
        else:
            columns = [c.values for c in ds.x.columns]
        for values in columns:
            assert not np.isinf(values).any()
        assert len(ds.x) == len(ds.y)
        assert len(ds.x) > 0


def test_one_class_only_is_for_testing_not_for_training(write):
    ds = load(write("x,Class\n1,0\n2,0\n"))
    assert ds.classes == ["0"]
    with pytest.raises(
        DataError, match=r"data\.csv, column Class: only class 0 \(2 rows\)"
    ):
        check_trainable(ds)
    ds = load(write("x,Class\n1,0\n2,0\n3,1\n"))
    ds.weights = np.array([1.0, 2.0, 0.0])
    with pytest.raises(DataError, match=r"only class 0 \(2 rows\)"):
        check_trainable(ds)
    check_trainable(load(write("1,0\n2,1\n")))
    check_trainable(load(write("1,0.5\n2,0.25\n3,7.5\n")))
    with pytest.raises(DataError, match="only class 1"):
        check_trainable(load(write("1,1\n2,1\n"), classes=["0", "1"]))


def test_some_rows_of_some_rows_are_named_as_those_of_the_whole(write):
    whole = load(write("x,y\n" + "".join(f"{k},{k}.5\n" for k in range(40))))
    part = whole.of_rows(np.arange(5, 40, 3))
    again = part.of_rows(slice(2, 9)).of_rows(np.array([4, 0]))
    assert again.x[:, 0].tolist() == [23, 11]
    assert [again.row_name(row) for row in (0, 1)] == ["data row 24", "data row 12"]


def classified(counts):
    y = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    rng = np.random.default_rng(0)
    y = y[rng.permutation(len(y))]
    texts = [str(i) for i in range(len(counts))]
    x = np.zeros((len(y), 1), np.float32)
    return Dataset(x, y, "multiclass", texts)


def test_holdout_depends_on_the_seed_alone():
    ds = classified([100, 300])
    holdout = split_rows(ds, 0.2, 0, 1).holdout.tolist()
    again = split_rows(ds, 0.2, 0, 1).holdout.tolist()
    other = split_rows(ds, 0.2, 0, 2).holdout.tolist()
    assert holdout == again
    assert holdout != other
    x = np.zeros((10, 1))
    y = np.zeros((10, 1))
    ds = Dataset(x, y, "regression")
    assert len(split_rows(ds, 0.29, 0, 0).holdout) == 2
    for fraction in (-0.1, 1.0, math.nan):
        with pytest.raises(UsageError, match="--holdout"):
            split_rows(ds, fraction, 0, 0)


def test_the_credit_card_data_and_the_original_targets_of_several_columns(shared):
    iris = load(shared / "golden/iris.csv", inputs=4, outputs=3)
    assert iris.task == "multiclass"
    assert iris.classes == ["y1", "y2", "y3"]
    assert iris.class_counts() == [50, 50, 50]
    ds = load(shared / "data/cc/CC.csv.gz")
    assert ds.x.shape == (28_628, 30)
    assert ds.x.dtype == np.float32
    assert ds.class_counts() == [28_136, 492]
    assert ds.columns[0] == "Time"
    assert ds.columns[-1] == "Amount"
    assert ds.targets == ["Class"]
    # published: 60127.97
    x = ds.x[ds.y == 1, -1]
    assert round(float(x.astype(float).sum()), 1) == 60128.0


def test_reading_takes_less_than_three_times_the_memory_of_the_array(write):
    """60,000 rows of 31 columns, written as the credit-card data are."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 31))
    rows[:, -1] = rows[:, -1] > 1
    lines = []
    for row in rows:
        lines.append(",".join(f"{v:.15g}" for v in row) + "\n")
    wide = write("".join(lines) * 30, "wide.csv")
    assert peak_of_loading(wide, write("1,2,0\n3,4,1\n"))[0] < 3 * 60_000 * 30 * 4


@pytest.mark.timing
def test_tables_are_loaded_beside_pandas(shared, tmp_path):
    """Ready to be trained on: packed numbers in 0.7 to 1.0 of the time of pandas' C
    reader, texts in 1.2 to 1.7."""
    pandas = pytest.importorskip("pandas")
    numbers = shared / "data/cc/CC.csv.gz"
    texts = tmp_path / "adult.csv"
    data = (shared / "tables/adult-train.csv.gz").read_bytes()
    content = (gzip.decompress(data).strip() + b"\n") * 6
    texts.write_bytes(content)
    ours, theirs = seconds_of(lambda: load(numbers), lambda: pandas.read_csv(numbers))
    ours_of_texts, theirs_of_texts = seconds_of(
        lambda: load(texts), lambda: pandas.read_csv(texts, header=None)
    )
    assert ours < 1.3 * theirs
    assert ours_of_texts < 2.5 * theirs_of_texts
