"""Files of formats that nn does not read: one line with what to do. Text that looks a
little like them is read."""

import bz2
import gzip
import io
import json
import lzma
import zipfile

import pytest
from support.command_line import ONE, run, succeed

import nn

ROWS = [{"a": i % 7, "b": i / 3, "y": i % 2} for i in range(60)]
CSV = "\n".join(["a,b,y", *(",".join(map(str, row.values())) for row in ROWS)]) + "\n"


def zipped(name: str) -> bytes:
    with zipfile.ZipFile(written := io.BytesIO(), "w") as archive:
        archive.writestr(name, CSV)
    return written.getvalue()


def libsvm(rows=ROWS) -> str:
    return "".join(f"{row['y']} 1:{row['a']} 2:{row['b']:.3f}\n" for row in rows)


FILES = {  # what a file holds -> (how the message calls it, what the cure says)
    "columns.json": (
        json.dumps({"a": [1, 2], "y": [0, 1]}, indent=1),
        "JSON",
        "json.load",
    ),
    "lists.json": (json.dumps([[1, 2], [3, 4]]), "JSON", "json.load"),
    "packed.json.gz": (
        gzip.compress(json.dumps([[1, 2], [3, 4]]).encode()),
        "JSON",
        "json.load",
    ),
    "page.html": (
        "\ufeff<!DOCTYPE html><html><body><table><tr><td>1</td></tr></table>",
        "XML or HTML",
        "read_html",
    ),
    "rows.xml": (
        '<?xml version="1.0"?>\n<data><row><a>1</a></row></data>',
        "XML or HTML",
        "pandas.read_xml",
    ),
    "rows.arff": (
        "% iris\n%\n@RELATION r\n@attribute a numeric\n@data\n1,0\n",
        "ARFF",
        "above the rows",
    ),
    "rows.libsvm": (libsvm(), "LIBSVM", "load_svmlight_file"),
    "many.libsvm": (libsvm(ROWS * 20), "LIBSVM", "load_svmlight_file"),
    "book.ods": (zipped("mimetype"), "a spreadsheet", "pandas.read_excel"),
    "book.xls": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500),
        "a spreadsheet",
        "pandas.read_excel",
    ),
    "rows.csv.zip": (zipped("rows.csv"), "a zip archive", "unpack it with unzip"),
    "rows.csv.bz2": (bz2.compress(CSV.encode()), "bzip2", "unpack it with bunzip2"),
    "rows.csv.xz": (lzma.compress(CSV.encode()), "xz", "unpack it with unxz"),
    "rows.csv.zst": (
        b"\x28\xb5\x2f\xfd" + bytes(100),
        "Zstandard",
        "unpack it with unzstd",
    ),
    "rows.h5": (b"\x89HDF\r\n\x1a\n" + bytes(500), "HDF5", "pandas.read_hdf"),
    "rows.pdf": (b"%PDF-1.4\n1 0 obj\n", "a PDF", "copy its tables"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_format_is_one_line_with_a_cure(folder, name):
    content, called, cure = FILES[name]
    (folder / name).write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    failed = run(*ONE, "--dataset", name, "--model", "m.bin")
    (line,) = failed.err.splitlines()
    assert failed.code == 65
    assert line.startswith(
        f"nn: {name}: {called}, expected JSON lines, JSON array, CSV, "
    )
    assert cure in line


def test_the_cures_in_python_work(folder):
    content = json.loads(json.dumps(ROWS))
    assert nn.load(content).rows == len(ROWS)
    datasets = pytest.importorskip("sklearn.datasets")
    (folder / "rows.libsvm").write_text(libsvm())
    x, y = datasets.load_svmlight_file("rows.libsvm")
    ds = nn.load(x.toarray(), y=y)
    assert ds.x.shape == (60, 2)


@pytest.mark.parametrize(
    "header, row",
    [
        ("<TICKER>,<PER>,<CLOSE>", "A,{0},{1}"),
        ("[a],[b],[c]", "{1},{0},{1}"),
        ("ORC,BZh9,PK", "{1},{0},{1}"),
        ("{a},{b},{c}", "{1},{0},{1}"),
        ("%a,%b,@c", "{1},{0},{1}"),
        ("time,1:2,3:4", "{1},{0},{1}"),
        ("<a> <b> <c>", "{1} {0} {1}"),
        ("a b c", "{1} 1:{0} {1}"),
    ],
)
def test_text_that_looks_a_little_like_one_is_a_table(folder, header, row):
    rows = [row.format(i * 7 % 11, i % 2) for i in range(60)]
    text = "\n".join([header, *rows])
    (folder / "t.csv").write_text(text)
    result = succeed(*ONE, "--dataset", "t.csv", "--model", "m.bin", "--epochs", 1)
    assert "t.csv: 60 rows" in result.err
