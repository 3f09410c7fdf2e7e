"""tests/README.md names every folder of tests, and what they share; a test file runs by
itself."""

import re
from pathlib import Path
from types import SimpleNamespace

from support.usual import mark_slow

import nn

TESTS = Path(__file__).parents[1]
PACKAGE = Path(nn.__file__).parent


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading of the page, its head left
    out."""
    text = (TESTS / "README.md").read_text().split(f"## {heading}\n")[1]
    match = re.search(r"(?:^\|.*\n)+", text, re.M)
    lines = match[0].splitlines()
    return [line.strip("|").split("|") for line in lines[2:]]


def named(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_every_folder_of_modules_has_a_folder_of_tests():
    listed = {
        name
        for row in table("Which tests guard which module")
        for name in named(row[0])
    }
    folders = {
        f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()
    }
    assert folders < listed
    assert listed == {f"{path.parent.name}/" for path in TESTS.glob("*/test_*.py")}


def test_every_shared_file_is_explained():
    listed = {name for row in table("What tests share") for name in named(row[0])}
    files = {
        path.relative_to(TESTS).as_posix() for path in (TESTS / "support").glob("*.py")
    }
    assert listed == files - {"support/__init__.py"}


def test_no_test_file_imports_another():
    """Else `pytest tests/train/test_folds.py` finds no tests/train/test_networks.py;
    support/ is what they share."""
    imports = re.compile(r"^\s*(?:from|import)\s+(?:tests\.)?(?:gpu\.)?test_\w+", re.M)
    assert not [
        path.name
        for path in TESTS.rglob("test_*.py")
        if imports.search(path.read_text())
    ]


class Case:
    """A case of a test as pytest has it."""

    def __init__(self, nodeid: str, *usual: int):
        self.nodeid = nodeid
        self.usual = usual
        self.marks = []

    def get_closest_marker(self, name: str):
        if name == "usual" and self.usual:
            return SimpleNamespace(args=self.usual)
        return None

    def add_marker(self, name: str) -> None:
        self.marks.append(name)


def test_so_many_cases_of_a_test_are_usual_or_in_ci_as_its_marker_says():
    cases = [Case(f"a.py::many[{number}]", 3) for number in range(7)]
    few = [Case(f"a.py::few[{number}]", 3) for number in range(2)]
    others = [Case(f"a.py::others[{number}]") for number in range(2)]
    in_ci = [Case(f"a.py::in_ci[{number}]", 1, 3) for number in range(6)]
    none = [Case(f"a.py::none[{number}]", 0) for number in range(2)]
    mark_slow([*cases, *few, *others, *in_ci, *none])
    usual = [number for number, case in enumerate(cases) if not case.marks]
    assert usual == [0, 2, 4]
    assert not any(case.marks for case in [*few, *others])
    slow = [["slow"]]
    assert [case.marks for case in none] == 2 * slow
    long = [["long"]]
    assert [case.marks for case in in_ci] == [[], *long, *slow, *long, *slow, *long]
