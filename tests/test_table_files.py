"""The borders of nn/data: table formats, types of fields and encoders keep to the written interfaces."""

import contextlib
import gzip
import inspect
import sqlite3
from typing import Protocol

import numpy as np
import pytest
from support.command_line import REPOSITORY

import nn
from nn.data import column_blocks, encoders, field_types, formats, table_files
from nn.data.encoding import ENCODERS
from nn.data.field_types import ClassName, FieldType, Number, TargetNumber
from nn.data.formats import FORMATS
from nn.data.source import TABLE_SUFFIXES, digest_text
from nn.data.table_files import Fields, RowIndex
from nn.terminal.flags import FLAGS
from nn.utils import DataError

TABLES = [known for known in FORMATS if known.table]
ROWS = np.array([[0.5, 1, 7, 0], [1.5, 2, 8, 1], [2.5, 3, 9, 0], [3.5, 4, 10, 1], [4.5, 5, 11, 1]])
BLOCKS = (column_blocks.Words, column_blocks.Numbers, column_blocks.Dates, column_blocks.Opaque)
INTERFACES = [
    *((table_files.TableFiles, known.table) for known in TABLES),
    *((FieldType, own) for own in (Number, TargetNumber, ClassName)),
    *((encoders.ColumnEncoder, encoder) for encoder in ENCODERS.values()),
    *((column_blocks.ColumnBlock, block) for block in BLOCKS),
]


def methods(protocol: type) -> dict:
    """The methods that a Protocol asks for, by name, without those that Python gives it."""
    routines = {name: getattr(protocol, name) for name, member in vars(protocol).items() if inspect.isroutine(member)}
    return {name: routine for name, routine in routines.items() if routine.__module__ == protocol.__module__}


def signature(function) -> list[tuple]:
    """The parameters of a function: their names, kinds and defaults."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("protocol, implementation", INTERFACES, ids=lambda kind: kind.__name__)
def test_implementations_have_the_signatures_of_their_protocol(protocol, implementation):
    assert Protocol in protocol.__mro__
    assert len(methods(protocol)) >= 3
    for name, method in methods(protocol).items():
        assert signature(getattr(implementation, name)) == signature(method), f"{implementation.__name__}.{name}"


def test_every_type_of_fields_is_compared():
    found = {own for _, own in inspect.getmembers(field_types, inspect.isclass) if hasattr(own, "check_names")}
    assert found - {FieldType} == {own for protocol, own in INTERFACES if protocol is FieldType}


def write_tables(folder):
    """Write the rows as Parquet, Arrow and SQLite."""
    pyarrow, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({name: ROWS[:, i] for i, name in enumerate("abcd")})
    parquet.write_table(table, folder / "a.parquet", row_group_size=2)
    feather.write_feather(table, folder / "a.arrow", chunksize=3)
    with contextlib.closing(sqlite3.connect(folder / "a.db")) as connection:
        connection.execute("CREATE TABLE t (a REAL, b REAL, c REAL, d REAL)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS.tolist())
        connection.commit()


@pytest.fixture
def samples(tmp_path) -> dict[str, str]:
    """A small file of each format, by the format's name."""
    np.savetxt(tmp_path / "a.csv", ROWS, delimiter=",")
    np.save(tmp_path / "a.npy", ROWS)
    np.savez(tmp_path / "a.npz", x=ROWS[:, :3], y=ROWS[:, 3])
    idx = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in (2, 2, 2)) + bytes(range(8))
    (tmp_path / "a-images").write_bytes(idx)
    (tmp_path / "a-labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 0, 1]))
    (tmp_path / "a.bin").write_bytes(bytes([1]) + bytes(3072) + bytes([2]) + bytes(3072))
    (tmp_path / "folder" / "cat").mkdir(parents=True)
    (tmp_path / "folder" / "dog").mkdir()
    image = b"P5 2 1 255 " + bytes([7, 9])
    (tmp_path / "folder" / "cat" / "1.pgm").write_bytes(image)
    (tmp_path / "folder" / "dog" / "1.pgm").write_bytes(image)
    write_tables(tmp_path)
    names = ["a.csv", "a.npy", "a.parquet", "a.arrow", "a.db", "a.npz", "a-images", "a.bin", "folder"]
    formats_of = ["CSV", "NPY", "Parquet", "Arrow", "SQLite"]
    formats_of += ["NPZ", "IDX", "CIFAR-10 binary", "folder of class folders"]
    return {known: str(tmp_path / name) for known, name in zip(formats_of, names, strict=True)}


def test_every_format_recognises_its_files_and_no_others(samples):
    assert samples.keys() == {known.name for known in FORMATS}
    for name, path in samples.items():
        start = formats.start_of(path)
        assert [known.name for known in FORMATS if known.recognises(start)] == [name]


def test_every_format_reads_the_file_that_it_recognises(samples):
    for name, path in samples.items():
        if name == "folder of class folders":
            pytest.importorskip("PIL")
        ds = nn.load(path)
        assert ds.rows >= 2 and ds.y is not None and ds.sha256, name


def test_tables_of_every_format_are_found_in_a_folder(samples):
    found = {known.name for known in TABLES if samples[known.name].endswith(TABLE_SUFFIXES)}
    assert found == {known.name for known in TABLES} - {"SQLite"}  # a database holds tables itself


def packed(path: str) -> formats.Start:
    """How a file begins of which only a gzipped copy is there."""
    with open(path, "rb") as file, gzip.open(path + ".gz", "wb") as copy:
        copy.write(file.read())
    return formats.start_of(path + ".gz")


@pytest.mark.parametrize("name", ["CSV", "NPY", "IDX", "CIFAR-10 binary"])
def test_packed_files_are_recognised_by_what_is_in_them(samples, name):
    assert formats.format_of(packed(samples[name])).name == name


@pytest.mark.parametrize("name", ["NPZ", "Parquet", "Arrow", "SQLite"])
def test_packed_files_of_other_formats_are_to_be_unpacked(samples, name):
    with pytest.raises(DataError, match=f"a gzipped {name} file, .* unpack it with gunzip"):
        formats.format_of(packed(samples[name]))


def test_the_message_for_an_unknown_file_lists_every_format_of_files(tmp_path):
    (tmp_path / "a").write_bytes(bytes([200, 0, 200]))
    with pytest.raises(DataError) as refused:
        formats.recognise(str(tmp_path / "a"))
    assert [known.name for known in FORMATS if known.name not in str(refused.value)] == ["folder of class folders"]


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_the_documents_list_every_format(known):
    help_of_dataset = next(flag.help for flag in FLAGS if flag.name == "dataset")
    guide = (REPOSITORY / "docs" / "using.md").read_text().split("## Data")[1].split("\n## ")[0]
    for text in (help_of_dataset, nn.load.__doc__, guide):
        assert known.name.split()[0] in text


@pytest.mark.parametrize("known", TABLES, ids=lambda known: known.name)
def test_table_files_keep_to_the_protocol(samples, known):
    """All rows at once, in blocks, and any range of them again: the same numbers, the same digest."""
    files = known.table([samples[known.name]], samples[known.name])
    for name in table_files.TableFiles.__annotations__:
        assert hasattr(files, name), name
    assert files.columns == 4 and len(files.first_field(3)) > 0 and not files.is_packed
    fields = Fields([0, 2], [3], Number("float32", "float32"), TargetNumber(None, "or remove the row"))
    whole, sha256 = files.read(fields)
    np.testing.assert_array_equal(whole.inputs, ROWS[:, [0, 2]])
    np.testing.assert_array_equal(whole.targets, ROWS[:, [3]])
    np.testing.assert_array_equal([whole.low, whole.high], [ROWS[0, [0, 2]], ROWS[-1, [0, 2]]])
    index = RowIndex()
    blocks = list(files.blocks(fields, 2, index=index, step=1))
    np.testing.assert_array_equal(np.concatenate([block.inputs for block in blocks]), whole.inputs)
    np.testing.assert_array_equal([blocks[-1].low, blocks[-1].high], [whole.low, whole.high])
    assert [len(block.inputs) for block in blocks] == [2, 2, 1] and len(index.starts) == 6
    assert index.digests[0].hex() == digest_text(sha256)
    some = files.read_range(fields, index.starts[1], index.starts[4], 3)
    np.testing.assert_array_equal(some.inputs, whole.inputs[1:4])
    np.testing.assert_array_equal(some.targets, whole.targets[1:4])


@pytest.mark.parametrize("known", TABLES, ids=lambda known: known.name)
def test_table_files_refuse_numbers_that_are_no_bytes(samples, known):
    files = known.table([samples[known.name]], samples[known.name])
    whole = Fields([1, 2], [3], Number("uint8", "float32"), TargetNumber(None, "or remove the row"))
    assert files.read(whole)[0].inputs.dtype == np.uint8
    halves = Fields([0, 2], [3], Number("uint8", "float32"), TargetNumber(None, "or remove the row"))
    with pytest.raises(field_types.NotBytes):
        files.read(halves)
    table = table_files.read_as_needed(lambda fields: files.read(fields)[0], halves)
    assert table.inputs.dtype == np.float32


@pytest.mark.parametrize("known", TABLES, ids=lambda known: known.name)
def test_facts_of_numbers_alone(samples, known):
    files = known.table([samples[known.name]], samples[known.name])
    for rows in (None, 2):
        for facts in files.facts(table_files.GAPS, rows):
            assert facts.numbers == facts.rows == (rows or 5)
            assert facts.not_number is facts.infinite is None and facts.not_date.row


def test_numbers_that_float32_would_blur_are_read_as_float64(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{1.7e9 + i},{i % 2}\n" for i in range(4)))
    assert nn.load(str(tmp_path / "a.csv")).x.dtype == np.float64
    data = nn.load(str(tmp_path / "a.csv"), window=1)
    assert data.input_dtype == np.float64


def test_a_text_makes_the_target_a_class_where_it_may_be_one(tmp_path):
    (tmp_path / "a.csv").write_text("1,1\n2,red\n3,1\n")
    with pytest.raises(nn.DataError, match='row 2, column 2 of 2: found "red", expected a number; correct it, or add'):
        nn.load(str(tmp_path / "a.csv"))
    assert nn.load(str(tmp_path / "a.csv"), task="multiclass").classes == ["1", "red"]
    with pytest.raises(nn.DataError, match="correct it, or remove the row"):
        nn.load(str(tmp_path / "a.csv"), task="regression")
    (tmp_path / "a.csv").write_text("1,red\n2,blue\n3,1\n")
    with pytest.raises(nn.DataError, match='row 3, column 2 of 2: found "1", expected text as in the other rows'):
        nn.load(str(tmp_path / "a.csv"))


def test_a_networks_schema_reads_the_data_of_its_training(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{i},{i * i % 7},{'ab'[i % 2]}\n" for i in range(40)))
    ds = nn.load(str(tmp_path / "a.csv"))
    net = nn.Network("2,3,1", ds.task)
    nn.train(net, ds, epochs=1)
    assert (net.schema.task, net.schema.classes, net.schema.width) == ("binary", ["a", "b"], 2)
    again = nn.load_for(net, str(tmp_path / "a.csv"))
    np.testing.assert_array_equal(again.y, ds.y)
    assert again.classes == ds.classes
    images = nn.Network("1x2x2,3,1", "binary")
    assert images.schema.pixels == (1, 2, 2) and images.schema.width == 4
