"""tests/README.md names every module and every test file, and no other; a test file runs by itself."""

import re
from pathlib import Path

import nn

TESTS = Path(__file__).parent
PACKAGE = Path(nn.__file__).parent


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading of the page, its head left out."""
    text = (TESTS / "README.md").read_text().split(f"## {heading}\n")[1]
    lines = re.search(r"(?:^\|.*\n)+", text, re.M)[0].splitlines()
    return [line.strip("|").split("|") for line in lines[2:]]


def named(cell: str) -> list[str]:
    return re.findall("`([^`]+)`", cell)


def test_every_module_has_its_tests():
    modules = {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py")}
    listed = [name for row in table("Which tests guard which module") for name in named(row[0])]
    for name in listed:
        covered = {module for module in modules if module == name or (name.endswith("/") and module.startswith(name))}
        assert covered, f"there is no nn/{name}"
        modules -= covered
    assert not modules


def test_every_test_file_guards_something():
    page = (TESTS / "README.md").read_text()
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {name for name in named(page) if re.fullmatch(r"(gpu/)?test_\w+\.py", name)} == files
    assert all(named(row[1]) for row in table("Which tests guard which module"))


def test_every_shared_file_is_explained():
    listed = {name for row in table("What tests share") for name in named(row[0])}
    files = {path.relative_to(TESTS).as_posix() for path in (TESTS / "support").glob("*.py")}
    assert listed == files - {"support/__init__.py"}


def test_no_test_file_imports_another():
    """Else `pytest tests/test_folds.py` finds no tests/test_networks.py; support/ is what they share."""
    imports = re.compile(r"^\s*(?:from|import)\s+(?:tests\.)?(?:gpu\.)?test_\w+", re.M)
    assert not [path.name for path in TESTS.rglob("test_*.py") if imports.search(path.read_text())]
