"""Every regular expression of nn, a constant or written where it is used, and how it is
used."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import nn
from nn import layers
from nn.data import written
from nn.data.formats import TABLE_FORMATS

# what looks at each place of a text
FROM_ANYWHERE = {"search", "findall", "finditer", "split", "sub", "subn"}
FUNCTIONS = {*FROM_ANYWHERE, "match", "fullmatch"}
FORMS = (*written.DATE_FORMS, "%d  %b  %Y  %H:%M:%S.%f  %z")
MADE = {  # module, argument of a function of re -> the patterns that it may be
    ("layers.py", "pattern"): layers._GRAMMAR,
    ("data/formats.py", "self.pattern"): [
        known.pattern for known in TABLE_FORMATS if known.pattern
    ],
    ("data/source.py", r"f'(?<!\\w){re.escape(secret)}(?!\\w)'"): [
        r"(?<!\w)1(?!\w)",
        r"(?<!\w)x(?!\w)",
    ],
    ("pages/model_page.py", "'|'.join(map(re.escape, longer_first))"): [
        re.escape("folder/m.bin") + "|" + re.escape("m.bin")
    ],
}


@cache
def patterns() -> dict[str, tuple[re.Pattern, bool]]:
    """Return each pattern by its place, and whether it is looked for anywhere in a
    text. KeyError for one that is made where it is used, and not among MADE."""
    package = Path(nn.__file__).parent
    found = {}
    searched = set()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in FUNCTIONS
            ):
                owner = ast.unparse(node.func.value)
                is_searched = node.func.attr in FROM_ANYWHERE
                if owner != "re":
                    if is_searched:
                        searched |= {owner.rpartition(".")[2]}
                    continue
                for pattern in _of_argument(name, node.args[0]):
                    found[f"{name}: {pattern!r}"] = re.compile(pattern), is_searched
    for module in pkgutil.walk_packages(nn.__path__, "nn."):
        if not re.search("__main__|cuda|mpi", module.name):
            values = vars(importlib.import_module(module.name))
            constants = {
                name: value
                for name, value in values.items()
                if isinstance(value, re.Pattern)
            }
            found |= {
                f"{module.name}.{name}": (value, name in searched)
                for name, value in constants.items()
            }
    return found | {form: (written.pattern_of(form), False) for form in FORMS}


def _of_argument(module: str, argument: ast.expr) -> Iterable[str | bytes]:
    """Return the patterns that the first argument of a function of re may be."""
    if isinstance(argument, ast.Constant):
        return [argument.value]
    return MADE[module, ast.unparse(argument)]
