"""The rules of CONTRIBUTING.md, Style, that a program can check, in all code of nn."""

import ast
from pathlib import Path

import pytest
from support.command_line import REPOSITORY

PYTHON = sorted((REPOSITORY / "nn").rglob("*.py"))
MOST_PARAMETERS = 14


def name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_there_is_code():
    assert len(PYTHON) > 100


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_a_function_has_few_parameters(path):
    """A record, or **settings that are checked by one, takes the place of more."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            found[node.name] = len([one for one in given if one not in ("self", "cls")])
    assert {function: count for function, count in found.items() if count > MOST_PARAMETERS} == {}
