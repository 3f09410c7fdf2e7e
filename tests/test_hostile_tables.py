"""Tables that no person writes: numbers at the ends of float64, small files that would fill the memory, odd headers."""

import numpy as np
import pytest

import nn
from nn.utils import DataError


def write(path, rows, names="a,b,y"):
    path.write_text("\n".join([names, *rows]) + "\n")
    return str(path)


# -- numbers whose squares float64 cannot hold ---------------------------------------------------------------


@pytest.mark.parametrize("scale, gap", [("e200", ""), ("e-200", ""), ("e200", "?,1,1"), ("e-200", "?,1,1")])
@pytest.mark.parametrize("window", [None, 32])
def test_a_column_that_cannot_be_scaled_is_named(tmp_path, scale, gap, window):
    rows = [f"{a}{scale},{i % 7},{i % 2}" for i, a in enumerate([1, 2, -3, 4, 1] * 20)]
    path = write(tmp_path / "a.csv", rows + [gap] * bool(gap))
    ds = nn.load(path, dtype="float64", window=window)
    with pytest.raises(DataError, match=r"^column a: numbers from -3e.200 to 4e.200, expected differences between"):
        nn.train(nn.Network("2,3,1", ds.task, dtype="float64"), ds, epochs=1)


def test_targets_that_cannot_be_scaled_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", [f"{i % 9},{i % 7},{i}.5e198" for i in range(100)])
    ds = nn.load(path, dtype="float64")
    with pytest.raises(DataError, match="^target 1: numbers from"):
        nn.train(nn.Network("2,3,1", ds.task, dtype="float64"), ds, epochs=1)


def test_a_column_of_one_huge_number_is_constant(tmp_path):
    ds = nn.load(write(tmp_path / "a.csv", [f"1.7e308,{i % 7},{i % 2}" for i in range(100)]), dtype="float64")
    scaled = nn.Scaling.fit("standardization", ds.x).apply(ds.x, "float64")
    assert (scaled[:, 0] == 0).all() and np.isfinite(scaled).all()
