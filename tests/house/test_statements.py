"""A statement says one thing: what ruff has no rule for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import REPOSITORY
from support.source import in_each, tree

FOLDERS = ("nn", "tests", "datasets")
PYTHON = [
    path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))
]
ORDERS = ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE}, {ast.Eq}, {ast.Is})


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def is_condition(node: ast.AST) -> bool:
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, ast.Compare | ast.BoolOp)


def exchanges(node: ast.Assign) -> bool:
    """Return whether a later value needs what an earlier target was, as in a swap."""
    targets = node.targets[0].elts
    values = node.value.elts
    for place, target in enumerate(targets):
        text = ast.unparse(target)
        parts = (part for value in values[place + 1 :] for part in ast.walk(value))
        if any(ast.unparse(part) == text for part in parts):
            return True
    return False


def is_of_unlike_values(node: ast.Assign) -> bool:
    target = node.targets[0]
    if not isinstance(node.value, ast.Tuple) or not isinstance(target, ast.Tuple):
        return False
    return not exchanges(node)


def names_what_comes_later(function: ast.FunctionDef) -> Iterator[ast.Lambda]:
    """Yield each lambda that reads a name of which all assignments come after it."""
    first_line: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            line = min(node.lineno, first_line.get(node.id, node.lineno))
            first_line[node.id] = line
    for node in ast.walk(function):
        if not isinstance(node, ast.Lambda):
            continue
        arguments = {
            argument.arg
            for argument in ast.walk(node.args)
            if isinstance(argument, ast.arg)
        }
        read = {part.id for part in ast.walk(node.body) if isinstance(part, ast.Name)}
        if any(
            first_line.get(name_read, 0) > node.end_lineno
            for name_read in read - arguments
        ):
            yield node


def faults_of_expression(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        parts = (part for part in ast.walk(node) if part is not node)
        if any(isinstance(part, ast.IfExp) for part in parts):
            yield "a conditional within a conditional"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        if any(map(is_text, sides)) and any(map(is_condition, sides)):
            yield "a text multiplied by a condition"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        kinds = {type(operator) for operator in node.ops}
        if not any(kinds <= order for order in ORDERS):
            yield "a chained comparison of different quantities"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
        if len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            yield "getattr by a text that is known"


def faults_of_loop(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.For | ast.comprehension) and isinstance(
        node.iter, ast.IfExp
    ):
        yield "a loop over what a condition chooses"
    generators = getattr(node, "generators", ())
    if sum(len(generator.ifs) for generator in generators) > 1:
        yield "a comprehension with two conditions"


def is_list(node: ast.AST) -> bool:
    parts = (node, getattr(node, "left", node), getattr(node, "right", node))
    return any(isinstance(part, ast.List | ast.ListComp) for part in parts)


def faults_of_assignment(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Assign):
        return
    if is_of_unlike_values(node):
        yield "several values assigned in one line"
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.GeneratorExp):
        yield "a generator unpacked into names"
    if (
        is_list(node.value)
        and isinstance(target, ast.Subscript)
        and ast.unparse(target.slice) == ":"
    ):
        yield "a value passed out by [:] ="


def faults(path: Path) -> list[str]:
    """Return `line: fault` for each statement of a module that says two things."""
    results = []
    for node in ast.walk(tree(path)):
        for rule in (faults_of_expression, faults_of_loop, faults_of_assignment):
            place = node if hasattr(node, "lineno") else getattr(node, "iter", node)
            results += [(place, fault) for fault in rule(node)]
        if isinstance(node, ast.FunctionDef):
            fault = "a lambda that names what is assigned later"
            results += [(each, fault) for each in names_what_comes_later(node)]
    return [f"{getattr(node, 'lineno', node)}: {fault}" for node, fault in results]


@pytest.mark.slow
def test_a_statement_says_one_thing():
    assert in_each(PYTHON, faults) == {}
