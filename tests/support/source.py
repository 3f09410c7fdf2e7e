"""The sources, each parsed once, and what is found in them."""

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

from .command_line import REPOSITORY


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def in_each(paths: list[Path], faults_of: Callable[[Path], object]) -> dict:
    """Return what is found in files, by the names of those in which something is."""
    found = {str(path.relative_to(REPOSITORY)): faults_of(path) for path in paths}
    return {name: faults for name, faults in found.items() if faults}
