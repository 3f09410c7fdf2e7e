"""Columns become rows on several threads."""

import pytest

from nn.data.typed import each
from nn.utils import DataError


def test_several_threads_raise_what_fails_first():
    def halved(number: int) -> int:
        if number % 20 == 7:
            raise DataError(f"{number}")
        return number // 2

    assert each(halved, range(7), 1 << 20) == [0, 0, 1, 1, 2, 2, 3]
    for _ in range(20):
        with pytest.raises(DataError, match="^7$"):
            each(halved, range(100), 1 << 20)
