"""Files that lie elsewhere, of a URI or from standard input, are read as those on this
machine."""

import gzip
import hashlib
import io
import os
import pickle
import sys
import tempfile

import numpy as np
import pytest
from support.command_line import run
from support.s3 import bucket
from support.table_formats import opened, pd, read, written
from support.tables import refusal

import nn
from nn.data import formats
from nn.data.source import (
    Source,
    absolute,
    are_there,
    data_files,
    relative_to,
    short_name,
)

pytest.importorskip("pyarrow.fs").S3FileSystem  # noqa: B018
USER = "AKIAKEY"
PASSWORD = "se/cr+et"
FRAME = pd.DataFrame(
    {"a": np.arange(9) / 7, "t": list("abcabcabc"), "y": np.arange(9) % 2}
)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server with the table in files of all formats."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PASSWORD)
    written(FRAME, tmp_path)
    files = {}
    for name in os.listdir(tmp_path):
        files[f"day/{name}"] = (tmp_path / name).read_bytes()
    files |= {f"days/day{n}.parquet": files["day/a.parquet"] for n in (2, 10)} | {
        "days/_SUCCESS": b""
    }
    with bucket(files) as server:
        yield server


def uri(server, name):
    return f"s3://bucket/{name}?endpoint_override={server.address}&scheme=http"


def told(action, error=nn.NnError) -> str:
    """The message of a failure, which is one line without a secret."""
    message = refusal(action, error)
    for secret in (USER, PASSWORD, "se%2Fcr", "tok123"):
        assert secret not in message
    return message


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.orc", "a.jsonl", "a.db"])
def test_every_format_is_read_from_a_server(server, name):
    source = opened(uri(server, f"day/{name}"))
    assert source.path == uri(server, f"day/{name}")
    table = read(source)
    expected = read(FRAME).numbers.tolist()
    assert table.numbers.tolist() == expected
    assert table.columns[1].words == ["a", "b", "c"]
    expected = hashlib.sha256(server.objects[f"day/{name}"]).hexdigest()
    assert table.sha256.sha256 == expected


def test_a_remote_file_is_read_from_a_copy_joins_local_ones_and_pickles_its_name(
    server, tmp_path
):
    assert len(read(f"{tmp_path}/a.parquet,{uri(server, 'day/a.parquet')}")) == 18
    known, files = formats.recognise(uri(server, "day/a.csv"))
    assert known.name == "CSV"
    with Source(files[0]) as source:
        assert source.read(1 << 20) == server.objects["day/a.csv"]
    copy = files[0].copy
    assert os.stat(copy).st_mode & 0o777 == 0o600
    del files, source
    assert not os.path.exists(copy)
    (file,) = data_files(uri(server, "day/a.csv"))
    assert (
        pickle.loads(pickle.dumps(file))
        == uri(server, "day/a.csv")
        == absolute(file)
        == relative_to("/else", file)
    )
    assert short_name(file) == "a.csv"
    assert short_name(f"{file},b.csv,c/d.csv") == "a.csv and 2 more"
    assert are_there(uri(server, "day/a.csv"))
    assert not are_there(uri(server, "day/gone.csv"))


def test_a_pattern_a_folder_and_a_file_that_is_not_there_or_not_for_us_are_one_line(
    server,
):
    for name in ("days/day*.parquet", "days", "days/"):
        message = told(
            lambda name=name: data_files(uri(server, name)), nn.InputNotFound
        )
        assert (
            message
            == f"{uri(server, name)}: not one file; give the URI of each file, with commas between them"
        )
    missing = told(lambda: opened(uri(server, "day/gone.parquet")), nn.InputNotFound)
    assert missing == f"{uri(server, 'day/gone.parquet')}: no such file; check the URI"
    # images are to be copied first
    server.objects["day/a.npz"] = b"PK\x03\x04" + bytes(500)
    assert "NPZ, expected" in told(
        lambda: formats.recognise(uri(server, "day/a.npz")), nn.DataError
    )
    server.is_denied = True
    assert "ACCESS_DENIED" in told(
        lambda: opened(uri(server, "day/a.parquet")), nn.InputNotFound
    )


@pytest.mark.parametrize("how", ["denies", "drops"])
def test_a_server_that_fails_while_a_file_is_read_is_named(server, monkeypatch, how):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    (csv,) = data_files(uri(server, "day/a.csv"))
    server.is_denied = how == "denies"
    server.drops = how == "drops"
    message = told(lambda: Source(csv), nn.InputNotFound)
    assert message.startswith(uri(server, "day/a.").partition("?")[0])
    assert "cannot be read" in message


@pytest.mark.parametrize(
    "given, found",
    [
        (f"s3://{USER}:{PASSWORD}@bucket/x.csv", "a password"),
        (f"a.csv,s3://{USER}:x@b/y.csv", "a password"),
        ("abfs://c:tok123@a/x?scheme=http", "a password"),
        ("abfs://c@a/x?sas_token=tok123", "sas_token"),
        ("s3://key:tok#123@bucket/x.csv", "a password"),
        ("s3://key:12?tok@bucket/x.csv", "a password"),
        ("s3://key:to,k@bucket/x.csv", "a password"),
        ("s3://bucket/x.csv?tok123", "a key"),
        ("s3://bucket/x.csv#tok123", "a fragment"),
    ],
)
def test_a_uri_with_a_secret_is_refused(given, found):
    message = told(lambda: data_files(given), nn.UsageError)
    assert f"://...: {found} in the URI" in message
    assert "tok" not in message.replace("sas_token", "")


def test_uris_of_this_machine_are_files_and_so_are_names_like_uris(folder):
    (folder / "s3:" / "b").mkdir(parents=True)
    for name in ("-", "s3:/b/x.csv"):
        (folder / name).write_text("a,y\n1,2\n")
    assert data_files("-") == ["-"]
    assert type(data_files("-")[0]) is str
    assert data_files("s3://b/x.csv") == ["s3://b/x.csv"]
    FRAME.to_parquet("a b.parquet")
    there = folder.as_uri()
    cases = (
        f"{there}/a%20b.parquet",
        f"{there}/*.parquet",
        there,
        f"file://localhost{folder}/a%20b.parquet",
    )
    for given in cases:
        assert data_files(given) == [f"{folder}/a b.parquet"]
    assert len(read(f"{there}/a%20b.parquet")) == 9


def standard_input(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.db", "a.npy"])
def test_standard_input_is_read_once_and_is_a_table_of_any_format(
    tmp_path, monkeypatch, name
):
    written(FRAME, tmp_path)
    np.save(tmp_path / "a.npy", FRAME[["a", "y"]].to_numpy())
    data = (tmp_path / name).read_bytes()
    standard_input(monkeypatch, data)
    table = read("-")
    again = read("-")
    numbers = read(tmp_path / name).numbers.tolist()
    assert table.numbers.tolist() == again.numbers.tolist() == numbers
    expected = hashlib.sha256(data).hexdigest()
    assert table.sha256.sha256 == expected
    assert table.row(2) == "data row 3"
    assert not are_there("-")


def test_standard_input_may_be_packed_text(monkeypatch):
    standard_input(monkeypatch, gzip.compress(b"a,y\n1,2\n"))
    known, files = formats.recognise("-")
    assert known.name == "CSV"
    assert files == ["-"]
    with Source(files[0]) as source:
        assert source.read(99) == b"a,y\n1,2\n"
    standard_input(monkeypatch, b"")
    assert data_files("-")[0].copy != files[0].copy


def test_a_copy_that_cannot_be_written_names_the_folder_for_temporary_files(
    folder, monkeypatch
):
    standard_input(monkeypatch, b"a,y\n1,2\n")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(
        tempfile, "_candidate_tempdir_list", lambda: ["/nowhere", "/none"]
    )
    message = told(lambda: nn.load("-"), nn.OutputError)
    assert "'/nowhere', '/none'" in message
    assert "name a folder that can be written by TMPDIR" in message
    result = run("predict", "m.bin", "-")
    # the model is looked for first
    assert result.code == 66
    assert "m.bin" in result.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_copy_without_room_names_the_folder_too(folder, monkeypatch):

    def full_file(**_):
        return open("/dev/full", "wb")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full_file)
    for data in (b"a,y\n1,2\n", b"a,y\n" + b"1,2\n" * 10**6):
        standard_input(monkeypatch, data)
        message = told(lambda: nn.load("-"), nn.OutputError)
        told_of = f"-: cannot be copied to {tempfile.gettempdir()}, the folder for temporary files: No space"
        assert message.startswith(told_of)
