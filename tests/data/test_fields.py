"""Remarks on columns that give a target of numbers away, and on numbers that stand for missing values."""

import numpy as np
import pytest
from support.command_line import succeed

import nn

RNG = np.random.default_rng(0)
ROWS = 600
CASUAL, REGISTERED, NOISE = RNG.integers(0, 50, ROWS), RNG.integers(0, 300, ROWS), RNG.normal(size=ROWS)


def remarks(target, **columns) -> list[str]:
    return nn.load({**columns, "y": target}, target="y").remarks


@pytest.mark.parametrize(
    "target, told",
    [
        (CASUAL + REGISTERED, "columns a + b tell y of all 600 rows: leave them out (--drop a,b)"),
        (CASUAL - REGISTERED, "columns a + b tell y"),
        (2.54 * CASUAL + 3, "column a alone tells y of all 600 rows: leave it out (--drop a) unless it is known"),
        (CASUAL + REGISTERED + 0.01 * NOISE, None),
        (CASUAL + 2 * REGISTERED, None),  # a law to be learned
        (CASUAL + REGISTERED + (np.arange(ROWS) == ROWS - 1), None),
    ],
)
def test_columns_that_are_the_target_are_told(target, told):
    found = remarks(target.astype(float), a=CASUAL, b=REGISTERED, c=NOISE)
    assert len(found) == (told is not None) and (told is None or found[0].startswith(told))


def test_a_sum_whose_first_rows_are_all_alike_is_told():
    a, b = (np.where(np.arange(ROWS) < 50, 7, column) for column in (CASUAL, REGISTERED))
    assert remarks((a + b).astype(float), a=a, b=b, c=NOISE)[0].startswith("columns a + b tell y")


@pytest.mark.parametrize(
    "number, share, others, is_told",
    [
        (-200, 0.05, NOISE, True), (9999, 0.02, REGISTERED, True),
        (9999, 0.001, REGISTERED, False),  # a stray
        (400, 0.05, REGISTERED, False),  # near the others
        (0, 0.5, REGISTERED, False),
        (-200, 0.05, NOISE.round(0), False),  # of few values, which may be codes
    ],
)  # fmt: skip
def test_a_frequent_number_far_from_all_others_may_stand_for_a_missing_value(number, share, others, is_told):
    column = np.where(np.arange(ROWS) % round(1 / share) == 0, number, others).astype(float)
    found = remarks(RNG.normal(size=ROWS), a=column)
    assert bool(found) == is_told and all(f"add --missing={number}" in line for line in found)


def test_the_cure_of_such_a_number_is_one_that_the_command_takes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    column = np.where(np.arange(ROWS) % 20 == 0, -200, NOISE.round(3))
    lines = "".join(f"{a},{b},{y}\n" for a, b, y in zip(column, CASUAL, RNG.normal(size=ROWS), strict=True))
    (tmp_path / "t.csv").write_text("a,b,y\n" + lines.replace("-200.0,", "-200,"))
    flags = "--train", "--dataset", "t.csv", "--model", "m.bin", "--networks", 1, "--epochs", 1
    told = next(line for line in succeed(*flags).err.splitlines() if "missing value" in line)
    cure = told.split()[-1]
    assert cure == "--missing=-200" and "missing value, add" not in succeed(*flags, cure).err
    assert np.isnan(nn.load("t.csv", missing="-200").x.columns[0].values).sum() == 30
