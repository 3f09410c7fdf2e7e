"""Reading is compared with others: random tables through pandas, pyarrow and Python's csv, numbers through float().

CI draws the same few tables each time. By hand, new ones and more: NN_TEST_EFFORT=100 pytest FILE, this file.
A failure names the seed of its table, with which NN_SEED begins.
"""

import csv
import io
import math
import os
import random
import string
from collections.abc import Iterator

import numpy as np
import pytest
from support.effort import EFFORT
from support.tables import fields_of, read_csv

import nn

SEED = int(os.environ.get("NN_SEED", 0 if EFFORT == 1 else random.SystemRandom().randrange(1 << 32)))
TABLES = 40 * EFFORT
LETTERS = string.ascii_letters + string.digits + "äß€ .-+_/()'"


def drawn() -> Iterator[tuple[int, random.Random]]:
    """Yield seeds, each with the generator of one table."""
    return ((seed, random.Random(seed)) for seed in range(SEED, SEED + TABLES))


def number(rng) -> str:
    """A decimal as programs write them, or as nobody does."""
    digits = "".join(rng.choices(string.digits, k=rng.choice([1, 2, 5, 15, 17, 19, 20, 40])))
    if rng.random() < 0.7:
        at = rng.randint(0, len(digits))
        digits = digits[:at] + "." + digits[at:]
    exponent = f"{rng.choice('eE')}{rng.choice(['', '+', '-'])}{rng.choice([0, 1, 7, 22, 23, 120, 290])}"
    return rng.choice(["", "-", "+"]) + digits + (exponent if rng.random() < 0.4 else "")


def word(rng, extra="") -> str:
    """A text of a few letters, without blanks at its ends."""
    return "".join(rng.choices(LETTERS + extra, k=rng.randint(1, 12))).strip() or "x"


def read(path, texts, separator=","):
    reads = ["number", "number", *["text"] * texts]
    options = {"separator": separator, "header": "yes"}
    table = read_csv(path, reads=reads, options=options, missing=frozenset(), exact=frozenset({1}), dtype="float64")
    return table, [fields_of(table.columns[place]) for place in range(2, 2 + texts)]


def test_numbers_are_those_of_python(tmp_path):
    path = tmp_path / "a.csv"
    for seed, rng in drawn():
        rows = [(number(rng), number(rng)) for _ in range(200)]
        rows = [row for row in rows if all(math.isfinite(float(text)) for text in row)]
        path.write_text("a,y\n" + "".join(f"{a},{y}\n" for a, y in rows))
        table, _ = read(path, 0)
        expected = np.array(rows).astype(object)
        np.testing.assert_array_equal(table.numbers[:, 0], [float(a) for a in expected[:, 0]], f"NN_SEED={seed}")
        np.testing.assert_array_equal(table.columns[1].values, [float(y) for y in expected[:, 1]], f"NN_SEED={seed}")


def drawn_table(rng, separator: str, path, extra: str):
    rows = [[str(rng.randint(-99, 99)), str(rng.randint(0, 1)), word(rng, extra), word(rng, extra)]
            for _ in range(rng.randint(2, 60))]  # fmt: skip
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"]))
        writer.writerows([["a", "y", "t", "u"], *rows])
    return rows


def test_fields_are_those_of_pandas_and_of_python(tmp_path):
    pandas, path = pytest.importorskip("pandas"), tmp_path / "a.csv"
    for seed, rng in drawn():
        separator = rng.choice(",;\t|")
        rows = drawn_table(rng, separator, path, '",;|\n')
        table, words = read(path, 2, separator)
        frame = pandas.read_csv(path, sep=separator, dtype={"t": str, "u": str}, keep_default_na=False)
        again = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""), delimiter=separator))
        for place, name in enumerate("tu"):
            assert words[place] == frame[name].tolist() == [row[2 + place] for row in again[1:]], f"NN_SEED={seed}"
        assert table.numbers[:, 0].tolist() == frame["a"].tolist() == [int(row[0]) for row in rows], f"NN_SEED={seed}"


def test_tables_are_those_of_pyarrow(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    path = tmp_path / "a.csv"
    for seed, rng in drawn():
        drawn_table(rng, ",", path, '",')
        types = arrow_csv.ConvertOptions(column_types={"t": "string", "u": "string"}, strings_can_be_null=False)
        arrow = arrow_csv.read_csv(path, convert_options=types)
        _, words = read(path, 2)
        assert words == [arrow["t"].to_pylist(), arrow["u"].to_pylist()], f"NN_SEED={seed}"
        parquet.write_table(arrow, tmp_path / "a.parquet", row_group_size=rng.randint(1, 30))
        flags = {"target": "y", "categories": "t,u", "task": "regression"}
        ours, theirs = (nn.load(str(tmp_path / name), **flags) for name in ("a.csv", "a.parquet"))
        assert ours.sha256 == theirs.sha256 and ours.columns == theirs.columns, f"NN_SEED={seed}"
        for one, other in zip(ours.x.columns, theirs.x.columns, strict=True):
            np.testing.assert_array_equal(one.values, other.values, f"NN_SEED={seed}")
