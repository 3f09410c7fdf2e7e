"""Print the price of nn's complexity: syntax nodes of Python, tokens of C, flags,
public names, modules of a row.

Neither packing nor unpacking code changes nodes or tokens; only deleting does. `python
-m tests.price` prints them by folder, `python -m tests.price --record "what the change
buys"` writes them down in CONTRIBUTING.md, where test_price.py compares them: nobody
adds a mechanism without a word.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
RECORDS = REPOSITORY / "CONTRIBUTING.md"
WIDTH = 120  # characters of a line of a record
HEADING = "### What was bought\n\n"
C_SUFFIXES = (".c", ".h", ".cu")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
TOKEN = re.compile(
    r"""[A-Za-z_]\w*                     # a name or a keyword
    | \.?\d(?:[eEpP][+-]|[\w.])*         # a number
    | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    | <<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[-+*/%&|^!=<>]=|&&|\|\||\#\#
    | \S                                 # any other sign""",
    re.X,
)
RECORD = re.compile(
    r"^- ([\d,]+) syntax nodes, ([\d,]+) tokens of C, (\d+) flags, (\d+) public names, (\d+) modules:",
    re.M,
)
WALK = """
import sys, nn
nn.load(sys.argv[1])
passed = set()
def look(frame, event, _):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.startswith("nn"):
        passed.add(name)
sys.setprofile(look)
nn.load(sys.argv[1])
sys.setprofile(None)
print(len(passed))
"""


class Price(NamedTuple):
    """What a reader of nn pays: sizes of the source, and what it has to show."""

    nodes: int
    tokens: int
    flags: int
    public_names: int
    modules_of_a_row: int


def nodes_of(source: str) -> int:
    """Return the nodes of the syntax tree of Python code, as ast.walk counts them."""
    return sum(1 for _ in ast.walk(ast.parse(source)))


def tokens_of(source: str) -> int:
    """Return the tokens of C code without its comments."""
    return len(TOKEN.findall(COMMENT.sub(" ", source)))


def sizes_by_folder(top: str, suffixes: tuple[str, ...], size_of) -> Counter:
    """Return the sizes of the files with these suffixes, by the folders directly below
    `top`."""
    sizes: Counter = Counter()
    for path in (REPOSITORY / top).rglob("*"):
        if path.suffix in suffixes:
            folder = "/".join(path.relative_to(REPOSITORY).parts[:-1][:2])
            sizes[folder] += size_of(path.read_text(encoding="utf-8"))
    return sizes


def nodes_by_folder(top: str) -> Counter:
    """Return the syntax nodes of the Python in each folder of nn or tests."""
    return sizes_by_folder(top, (".py",), nodes_of)


def tokens_by_folder() -> Counter:
    """Return the tokens of C and CUDA in each folder of csrc and nn."""
    return sizes_by_folder("csrc", C_SUFFIXES, tokens_of) + sizes_by_folder(
        "nn", C_SUFFIXES, tokens_of
    )


def modules_of_a_row() -> int:
    """Return how many modules of nn a plain CSV file passes in nn.load."""
    file = REPOSITORY / "datasets" / "CC.csv"
    printed = subprocess.run(
        [sys.executable, "-c", WALK, file], capture_output=True, text=True, check=True
    )
    return int(printed.stdout)


def price() -> Price:
    """Return today's price."""
    import nn
    from nn.settings.flags import FLAGS

    nodes = sum(nodes_by_folder("nn").values())
    tokens = sum(tokens_by_folder().values())
    return Price(nodes, tokens, len(FLAGS), len(dir(nn)), modules_of_a_row())


def recorded(text: str) -> Price | None:
    """Return the price that was written down last; None: none was."""
    match = RECORD.search(text)
    if match is None:
        return None
    return Price(*(int(number.replace(",", "")) for number in match.groups()))


def record(reason: str) -> None:
    """Write today's price and what it buys at the top of the list in
    CONTRIBUTING.md."""
    today = price()
    entry = (
        f"- {today.nodes:,} syntax nodes, {today.tokens:,} tokens of C, {today.flags} flags, "
        f"{today.public_names} public names, {today.modules_of_a_row} modules: {reason}"
    )
    lines = textwrap.fill(entry, WIDTH, subsequent_indent="  ") + "\n"
    RECORDS.write_text(RECORDS.read_text().replace(HEADING, HEADING + lines, 1))


def print_by_folder(unit: str, sizes: Counter) -> None:
    """Print a sum, and what each folder has of it, the largest first."""
    print(f"{sum(sizes.values()):9,}  {unit}")
    for folder, size in sizes.most_common():
        print(f"{size:17,}  {folder}")


def main() -> None:
    """Print the price, or record it."""
    print_by_folder("syntax nodes of Python in nn", nodes_by_folder("nn"))
    print_by_folder("syntax nodes of Python in tests (free)", nodes_by_folder("tests"))
    print_by_folder("tokens of C and CUDA", tokens_by_folder())
    today = price()
    print(f"{today.flags:9}  flags")
    print(f"{today.public_names:9}  public names")
    print(f"{today.modules_of_a_row:9}  modules pass a row")
    if sys.argv[1:2] == ["--record"]:
        record(" ".join(sys.argv[2:]))


if __name__ == "__main__":
    main()
