"""Columns become rows in C, on several threads."""

import numpy as np
import pytest

from nn.core.rows import row_writer
from nn.data.typed import each
from nn.utils import DataError


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_columns_of_any_type_become_rows_rounded_as_numpy_does(dtype):
    rng = np.random.default_rng(3)
    columns = [
        rng.integers(0, 99, 101).astype(f"{order}{kind}")
        for order in "<>"
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
    ]
    columns += [np.repeat(column, 3)[::3] for column in columns] + [columns[0][::-1]]
    if dtype != "uint8":
        columns += [rng.normal(size=101) * 10.0**power for power in (-40, 0, 30)] + [
            np.array([np.nan, -0.0, 2**53 + 1] * 34)[:101]
        ]
        columns += [rng.integers(-(2**63), 2**63, 101), rng.integers(0, 2**64, 101, np.uint64)]
    x = np.full((101, len(columns)), 7, dtype)
    write = row_writer(x[1:100], columns)
    for start, stop in ((33, 99), (0, 33)):
        write(start, stop)
    expected = np.column_stack([column.astype(dtype)[:99] for column in columns])
    assert x[1:100].tobytes() == expected.tobytes()
    assert (x[[0, 100]] == 7).all()
    with pytest.raises(ValueError):
        write(0, 100)


def test_several_threads_raise_what_fails_first():
    def halved(number: int) -> int:
        if number % 20 == 7:
            raise DataError(f"{number}")
        return number // 2

    assert each(halved, range(7), 1 << 20) == [0, 0, 1, 1, 2, 2, 3]
    for _ in range(20):
        with pytest.raises(DataError, match="^7$"):
            each(halved, range(100), 1 << 20)
