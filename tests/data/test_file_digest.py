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


@pytest.mark.parametrize("gone", [os.remove, lambda path: os.replace(shutil.copy(__file__, f"{path}.new"), path)])
def test_a_file_that_is_gone_has_its_digest_still(one_of_numbers, gone):
    path, sha256 = one_of_numbers
    ds = nn.load(path)
    gone(path)
    assert ds.of_rows([1, 3]).sha256 == ds.sha256 == sha256
    assert pickle.loads(pickle.dumps(ds)).sha256 == sha256


def test_rows_whose_file_was_written_to_since_have_no_digest(one_of_numbers, tmp_path):
    path, _ = one_of_numbers
    ds = nn.load(path)
    with open(path, "r+b") as file:
        file.write(b"PAR1")
    os.utime(path, (1e9, 1e9))
    assert ds.sha256 is None and pickle.loads(pickle.dumps(ds)).sha256 is None
    net = nn.Network("2,1", task="binary")
    nn.train(net, ds)
    net.export(tmp_path / "m.bin")
    failed = run("--test", "--model", tmp_path / "m.bin")
    assert failed.code == 65 and "has changed since" in failed.err
