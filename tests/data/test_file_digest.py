"""The SHA-256 of a data file, which may be taken after the file was read."""

import hashlib
import os
import pickle
import shutil

import numpy as np
import pytest
from support.command_line import run

import nn

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")


@pytest.fixture
def one_of_numbers(tmp_path):
    """A Parquet file, and the SHA-256 of its bytes."""
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": range(40), "b": np.arange(40) / 7, "y": [0, 1] * 20}).to_parquet(path)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_has_a_digest_that_goes_with_its_rows(one_of_numbers):
    path, sha256 = one_of_numbers
    ds = nn.load(path)
    assert pickle.loads(pickle.dumps(nn.load(path))).sha256 == ds.of_rows([1, 3]).sha256 == sha256
    path.unlink()
    assert ds.sha256 == sha256


def test_rows_whose_file_was_written_to_or_removed_since_have_no_digest(one_of_numbers, tmp_path):
    path, _ = one_of_numbers
    ds, other = nn.load(path), nn.load(shutil.copy(path, tmp_path / "b.parquet"))
    os.remove(tmp_path / "b.parquet")
    with open(path, "r+b") as file:
        file.write(b"PAR1")
    os.utime(path, (1e9, 1e9))
    assert ds.sha256 is other.sha256 is None and pickle.loads(pickle.dumps(ds)).sha256 is None
    net = nn.Network("2,1", task="binary")
    nn.train(net, ds)
    net.export(tmp_path / "m.bin")
    failed = run("--test", "--model", tmp_path / "m.bin")
    assert failed.code == 65 and "has changed since" in failed.err
