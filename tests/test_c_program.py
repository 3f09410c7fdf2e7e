"""The program that nn --export writes to .c with the model: what it reads, and what it tells of rows that it cannot."""

import os
import subprocess
from pathlib import Path

import pytest
from support.c_models import check_program, program, run, trained


def simple(folder, names: str = "a,b") -> Path:
    """The program of a model of two numbers."""
    rows = "".join(f"{k / 7},{(k * 5) % 11},{(k * 5) % 11 > k / 7}\n" for k in range(60))
    (folder / "old.csv").write_text(f"{names},goal\n{rows}" if names else rows)
    return program(trained(folder, folder / "old.csv"))


@pytest.fixture(scope="module")
def simple_program(tmp_path_factory) -> Path:
    return simple(tmp_path_factory.mktemp("simple"))


@pytest.mark.parametrize("text, told", [
    ("a,b\n1,2\n3,x\n", 'row 3, column b: found "x", expected a number'),
    ("a,b\n1,\n", "row 2, column b: found an empty field, expected a number"),
    ("a,b\n1,nan\n", 'row 2, column b: found "nan", expected a number'),
    ("a,b\n1,1e999\n", 'row 2, column b: found "1e999", expected a smaller number'),
    ("a,b\n\n1,2\n1,2,3\n", "row 4: found 3 columns, expected 2 as in the first row"),
    ("a,c,d,e\n1,2,3,4\n", "row 1: found 4 columns, expected 2, the inputs, or 3 as in training"),
    ("a,c\n1,2\n", 'row 1, column a: found "a", expected a number'),
    ('a,b\n1,"2\n', "row 2: found a field that begins with"),
    ("", "row 1: found no rows"),
    ("a,b\n1,0x10\n", 'row 2, column b: found "0x10", expected a number'),
    ("a,b\n1," + 60 * "y" + "\n", 'found "' + 40 * "y" + '...", expected a number'),
])  # fmt: skip
def test_bad_rows_are_told(text, told, simple_program):
    done = run(simple_program, text)
    assert done.returncode == 65
    assert told in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_an_input_that_cannot_be_read_is_no_end_of_it(simple_program, tmp_path):
    """A folder opens, and fails when it is read, as a disk may."""
    folder = os.open(tmp_path, os.O_RDONLY)
    done = subprocess.run([simple_program], stdin=folder, capture_output=True, text=True)
    os.close(folder)
    assert (done.returncode, done.stdout, done.stderr) == (74, "", "standard input: cannot read\n")


def test_rows_in_every_layout(simple_program):
    made = simple_program
    plain = run(made, "a,b\n1.5,2\n-3,4e0\n")
    assert (plain.returncode, len(plain.stdout.splitlines())) == (0, 3)
    for text in (
        "1.5,2\n-3,4e0\n",  # without a header
        "1.5,2,True\n-3,4e0,False\n",  # as in training
        "b,x,a\n2,9,1.5\n4,text,-3\n",  # by name, in another order
        "\ufeffa;b\r\n1,5;2\r\n\r\n-3;+4\r\n",
        '"a"\t"b"\n " 1.5" \t2\n-3\t4',
        "a|b\n1.5|2.\n-3|4\n",
        ' a   b \n1.5\t"2." \n\n -3  4\r\n',
    ):
        done = run(made, text)
        assert (done.stdout, done.stderr) == (plain.stdout, b""), text


def test_targets_and_ids_anywhere_in_the_file(folder):
    for names, rows, flags in (
        ("", [f"{k % 3},{k / 7},{(k * 5) % 11}" for k in range(60)], ["--target", 0]),
        ("", [f"{k / 7},{k % 3},{(k * 5) % 11},x{k}" for k in range(60)], ["--target", "1", "--drop", "3"]),
        ("a,n,y,b\n", [f"{k / 7},x{k},{k % 3},{(k * 5) % 11}" for k in range(60)], ["--target", "y", "--id", "n"]),
        ("", [f"{k / 7},x{k % 3},{k % 2},{k * 2}" for k in range(60)], ["--target", "-2", "--task", "regression"]),
    ):
        (folder / "old.csv").write_text(names + "\n".join(rows))
        trained(folder, folder / "old.csv", *flags)
        check_program(folder, folder / "old.csv")


def test_a_separator_of_ones_own(folder):
    rows = "".join(f"{k / 7}:{(k * 5) % 11}:{k % 2}\n" for k in range(60))
    (folder / "old.csv").write_text(f"a:b:goal\n{rows}")
    trained(folder, folder / "old.csv", "--separator", ":")
    check_program(folder, folder / "old.csv")


def test_rows_without_names(folder):
    made = simple(folder, names="")
    plain = run(made, "1.5,2\n-3,4\n")
    assert plain.returncode == 0, plain.stderr
    for text in ("1.5,2,True\n-3,4,False\n", "first,second\n1.5,2\n-3,4\n"):
        assert run(made, text).stdout == plain.stdout


def test_quotes_and_hostile_names(folder):
    words = ['a,"b"', "x */ y", "??/", "tab\\there", "Zürich", "1.50", "two\nlines"]
    names = ['"so, ""said"""', "/* */ ??/", "goal"]
    answers = ['yes, ""sure""', "no\\"]
    quoted = [word.replace('"', '""') for word in words]
    rows = [f'"{quoted[k % 7]}",{k % 5},"{answers[k % 7 > 2]}"' for k in range(120)]
    (folder / "old.csv").write_text("\n".join([",".join(names), *rows]) + "\n", encoding="utf-8")
    trained(folder, folder / "old.csv", "--categories", "0")
    check_program(folder, folder / "old.csv")
    latin = (folder / "old.csv").read_text(encoding="utf-8").replace("1.50", "1.5").encode("latin-1")
    (folder / "latin.csv").write_bytes(latin)
    check_program(folder, folder / "latin.csv")


DATES = ["2024-02-29", "2023/12/31 23:59", "2024-01-01T00:00:00Z", "2024-06-01 12:30:45.25+02:00",
         "1969-12-31T23:59-0130", '"2024-03-01 01:02 +03"', "NA", ""]  # fmt: skip
NO_DATES = ["2023-02-29", "2024-13-01", "yesterday", "2024-01-01T25:00", "2024-01-01x"]


def test_dates_as_files_have_them(tables, folder):
    old, new = tables("two")
    trained(folder, old, "--drop", "place")
    head = old.read_text(encoding="utf-8").splitlines()[0]
    new.write_text("\n".join([head, *(f"1,red,x,0,{when},yes,1e6,1,good" for when in DATES)]))
    check_program(folder, new)
    for when in NO_DATES:
        done = run(folder / "predict", f"{head}\n1,red,x,0,{when},yes,1e6,1,good\n")
        assert done.returncode == 65
        assert f'row 2, column when: found "{when}", expected a date' in done.stderr.decode()
