"""The rules of CONTRIBUTING.md, Style, that a program can check, in all code of nn."""

import ast
import re
from pathlib import Path

import pytest
from support.command_line import REPOSITORY

SOURCES = [
    path
    for folder in ("nn", "csrc")
    for path in sorted((REPOSITORY / folder).rglob("*"))
]
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
CODE = [path for path in SOURCES if path.suffix in (".py", ".c", ".h", ".cu")]
MOST_PARAMETERS = 14
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_there_is_code():
    assert len(PYTHON) > 100
    assert len(CODE) - len(PYTHON) > 50


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_docstring_begins_with_a_verb_or_a_noun(path):
    nodes = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, DOCUMENTED):
            nodes.append(node)
    docstrings = [ast.get_docstring(node) or "" for node in nodes]
    assert [
        text.splitlines()[0]
        for text in docstrings
        if re.match(r"(What|Whether|That)\b", text)
    ] == []


@pytest.mark.parametrize("path", CODE, ids=name)
def test_a_comment_repeats_the_noun(path):
    assert re.findall(r".*\b(?:so many|it is there)\b.*", path.read_text()) == []


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_function_has_few_parameters(path):
    """A record, or **settings that are checked by one, takes the place of more."""
    counts = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            given = []
            for parameter in (
                *node.args.posonlyargs,
                *node.args.args,
                *node.args.kwonlyargs,
            ):
                given.append(parameter.arg)
            counts[node.name] = len(
                [parameter for parameter in given if parameter not in ("self", "cls")]
            )
    assert {
        function: count for function, count in counts.items() if count > MOST_PARAMETERS
    } == {}


@pytest.mark.parametrize("path", sorted({*CODE} - {*PYTHON}), ids=name)
def test_a_line_of_c_has_at_most_100_characters_beside_texts(path):
    lines = [re.sub(r'"[^"]*"', '""', line) for line in path.read_text().splitlines()]
    assert [line for line in lines if len(line) > 100] == []


def test_the_formatter_is_rarely_told_to_skip_a_table():
    """Only tables of numbers are laid out by hand."""
    paths = [*PYTHON, *(REPOSITORY / "tests").rglob("*.py")]
    skipped = [path for path in paths if "# fmt: " + "skip" in path.read_text()]
    assert len(skipped) <= 12


def test_a_constant_has_one_value_in_all_modules():
    """A second module that needs the name needs another name, or the first one's."""
    values: dict[str, set[str]] = {}
    for path in PYTHON:
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id.isupper():
                    constant = target.id.lstrip("_")
                    values.setdefault(constant, set()).add(ast.unparse(node.value))
    constants = {
        constant for constant, values_found in values.items() if len(values_found) > 1
    }
    assert constants == set()
