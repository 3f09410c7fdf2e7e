"""The house drawn from its imports: one way down and no circle, those inside functions
counted too."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from support.source import tree

import nn

HOUSE = Path(nn.__file__).parent
MOST_ENTRIES = 29

# From the bottom up. A module imports from its own level, without a circle, and from
# those above it in this list.
# A level is a module of nn/ or a folder with everything in it.
LEVELS = [
    "__init__",
    "utils",
    "nn_aux",
    "layers",
    "settings",
    "core",
    "cluster",
    "data",
    "files",
    "ds",
    "backends",
]
LEVELS += [
    "nn",
    "card",
    "matrix",
    "watch",
    "test",
    "train",
    "terminal",
    "pages",
    "study",
    "commands",
    "cli",
    "__main__",
]


@cache
def modules() -> dict[str, Path]:
    """File of each module; a folder's __init__.py has the folder's name, and that of
    nn/ the name __init__."""
    folders = {}
    for path in HOUSE.rglob("*.py"):
        parts = path.relative_to(HOUSE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        folders[".".join(parts)] = path
    return folders


def imported(module: str, node: ast.ImportFrom) -> set[str]:
    """Modules of nn/ that a relative import names: `from . import a` means the file
    a.py if there is one."""
    package = ["nn", *module.split(".")]
    if module == "__init__":
        package = ["nn"]
    elif modules()[module].name != "__init__.py":
        package = package[:-1]
    base = package[: len(package) - node.level + 1]
    if node.module:
        base += node.module.split(".")
    names = {".".join([*base, alias.name][1:]) for alias in node.names}
    itself = ".".join(base[1:]) or "__init__"
    assert itself in modules(), (
        f"{module}: imports {itself}, which is an extension: nn/core loads those"
    )
    return {name if name in modules() else itself for name in names}


@cache
def graph() -> dict[str, set[str]]:
    """Modules that each module imports, wherever the statement stands."""
    targets = {}
    for module, path in modules().items():
        targets[module] = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                targets[module].update(imported(module, node))
    return targets


def edges() -> list[tuple[str, str]]:
    """Pairs of a module and one that it imports."""
    pairs = []
    for module, targets in graph().items():
        for target in targets:
            pairs.append((module, target))
    return pairs


def level(module: str) -> int:
    return LEVELS.index(module.split(".")[0])


def folders() -> list[str]:
    return sorted(
        module
        for module, path in modules().items()
        if path.name == "__init__.py" and module != "__init__"
    )


def neighbours(folder: str) -> tuple[set[str], set[str]]:
    """Levels that a folder's modules import, and levels of the modules that import
    them; __init__ counts for none."""
    inside = {
        module
        for module in modules()
        if module == folder or module.startswith(folder + ".")
    }
    imports = set()
    importers = set()
    for module, target in edges():
        if module in inside and target not in inside:
            imports.add(target.split(".")[0])
        if target in inside and module not in inside:
            importers.add(module.split(".")[0])
    return imports - {"__init__"}, importers


def levels_in(text: str) -> set[str]:
    """Levels that a text names; those in brackets are explanations."""
    matches = re.findall(r"\w+", re.sub(r"\(.*?\)", "", text))
    return {word for word in matches if word in LEVELS}


def test_every_module_has_a_level():
    assert {module.split(".")[0] for module in modules()} == set(LEVELS)


def test_imports_go_down():
    upward = {(a, b) for a, b in edges() if level(b) > level(a)}
    assert upward == set()


def test_no_modules_import_each_other_in_a_circle():
    # or CycleError
    TopologicalSorter(
        {module: targets - {module} for module, targets in graph().items()}
    ).prepare()


def test_nothing_is_imported_for_types_alone():
    assert [
        module
        for module, path in modules().items()
        if "TYPE_CHECKING" in path.read_text()
    ] == []


def test_no_module_names_the_package_absolutely():
    """An import that this file would not see."""
    for path in modules().values():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            assert not [name for name in names if name.split(".")[0] == "nn"], path


def test_public_names_are_where_the_package_says():
    assert {*nn._HOME.values()} <= modules().keys()


def test_the_first_look_is_short():
    entries = {
        path.name
        for path in HOUSE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert len(entries) <= MOST_ENTRIES


@pytest.mark.parametrize("folder", folders())
def test_a_folder_says_what_it_holds_and_what_it_imports(folder):
    """About ten lines: a sentence, a line for each file, and the levels that it imports
    and that import it."""
    text = ast.get_docstring(tree(modules()[folder])) or ""
    directory = modules()[folder].parent
    files = [path.stem for path in directory.glob("*.py") if path.stem != "__init__"]
    files += [f"{path.parent.name}/" for path in directory.glob("*/__init__.py")]
    for file in files:
        assert file in text
    assert "mport" in text
    assert len(text.splitlines()) >= 5


@pytest.mark.parametrize("folder", folders())
def test_a_folder_says_truly_what_it_imports_and_who_imports_it(folder):
    """Names of levels in a list are all there are; `everything from a to b` bounds
    them."""
    imports, importers = neighbours(folder)
    text = " ".join(ast.get_docstring(tree(modules()[folder])).split())
    said = re.search(r"Imports: ([^.]*(?:\.py[^.]*)*)\. Imported by: ([^;]*)", text)
    assert said, "the docstring lacks `Imports: a, b. Imported by: c, d.`"
    whole = re.match(r"everything .*?from (\w+) to (\w+)", said[1])
    if whole:
        low, high = sorted(map(LEVELS.index, whole.groups()))
        assert imports <= set(LEVELS[low : high + 1])
    else:
        assert imports == levels_in(said[1])
    assert importers == levels_in(said[2])
