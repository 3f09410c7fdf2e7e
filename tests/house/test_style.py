"""The rules of CONTRIBUTING.md, Style, that a program can check, in all code of nn."""

import ast
import re
from pathlib import Path

from support.command_line import REPOSITORY
from support.source import in_each, tree

SOURCES = [
    path
    for folder in ("nn", "csrc")
    for path in sorted((REPOSITORY / folder).rglob("*"))
]
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
CODE = [path for path in SOURCES if path.suffix in (".py", ".c", ".h", ".cu")]
MOST_PARAMETERS = 14
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def test_there_is_code():
    assert len(PYTHON) > 100
    assert len(CODE) - len(PYTHON) > 50


def vague_docstrings(path: Path) -> list[str]:
    nodes = ast.walk(tree(path))
    docstrings = [
        ast.get_docstring(node) or "" for node in nodes if isinstance(node, DOCUMENTED)
    ]
    return [
        text.splitlines()[0]
        for text in docstrings
        if re.match(r"(What|Whether|That)\b", text)
    ]


def vague_comments(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line for line in lines if re.search(r"\b(so many|it is there)\b", line)]


def functions_of_many_parameters(path: Path) -> dict[str, int]:
    counts = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef):
            given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            names = [parameter.arg for parameter in given]
            counts[node.name] = len({*names} - {"self", "cls"})
    return {name: count for name, count in counts.items() if count > MOST_PARAMETERS}


def long_lines(path: Path) -> list[str]:
    lines = [re.sub(r'"[^"]*"', '""', line) for line in path.read_text().splitlines()]
    return [line for line in lines if len(line) > 100]


def test_a_docstring_begins_with_a_verb_or_a_noun():
    assert in_each(PYTHON, vague_docstrings) == {}


def test_a_comment_repeats_the_noun():
    assert in_each(CODE, vague_comments) == {}


def test_a_function_has_few_parameters():
    """A record, or **settings that are checked by one, takes the place of more."""
    assert in_each(PYTHON, functions_of_many_parameters) == {}


def test_a_line_of_c_has_at_most_100_characters_beside_texts():
    assert in_each([*{*CODE} - {*PYTHON}], long_lines) == {}


def test_the_formatter_is_rarely_told_to_skip_a_table():
    """Only tables of numbers are laid out by hand."""
    paths = [*PYTHON, *(REPOSITORY / "tests").rglob("*.py")]
    skipped = [path for path in paths if "# fmt: " + "skip" in path.read_text()]
    assert len(skipped) <= 12


def test_a_constant_has_one_value_in_all_modules():
    """A second module that needs the name needs another name, or the first one's."""
    values: dict[str, set[str]] = {}
    for path in PYTHON:
        for node in tree(path).body:
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
