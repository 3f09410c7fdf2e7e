"""Print the price of nn's complexity: lines by folder, flags, public names, and the modules that a row passes.

`python -m tests.price` prints it, `python -m tests.price --record "what the change buys"` writes it down in
CHANGELOG.md, where test_price.py compares it: nobody adds 200 lines without a word.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = "nn", "csrc"
WIDTH = 120  # characters; a longer line counts twice
HEADING = "### Price\n"
RECORD = re.compile(r"^- ([\d,]+) lines of source, (\d+) flags, (\d+) public names, (\d+) modules:", re.M)
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


def lines_of(path: Path) -> int:
    """Return the lines of a text file, those of more than WIDTH characters twice; 0 of another file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return 0
    return len(lines) + sum(len(line) > WIDTH for line in lines)


def lines_by_folder(top: str) -> Counter:
    """Return the lines of each folder directly below a folder of the repository, and of its own files."""
    found = Counter()
    for path in (REPOSITORY / top).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".pyd"):
            found["/".join(path.relative_to(REPOSITORY).parts[:-1][:2])] += lines_of(path)
    return found


def source_lines() -> int:
    """Return the lines of the source: all text files of SOURCE."""
    return sum(sum(lines_by_folder(top).values()) for top in SOURCE)


def modules_of_a_row() -> int:
    """Return how many modules of nn a plain CSV file passes in nn.load."""
    file = REPOSITORY / "datasets" / "CC.csv"
    found = subprocess.run([sys.executable, "-c", WALK, file], capture_output=True, text=True, check=True)
    return int(found.stdout)


def price() -> tuple[int, int, int, int]:
    """Return (lines of source, flags, public names, modules that a row passes)."""
    import nn
    from nn.settings.flags import FLAGS

    return source_lines(), len(FLAGS), len(dir(nn)), modules_of_a_row()


def recorded(changelog: str) -> tuple[int, ...] | None:
    """Return the price that was written down last; None: none was."""
    found = RECORD.search(changelog)
    return found and tuple(int(number.replace(",", "")) for number in found.groups())


def record(reason: str) -> None:
    """Write today's price and what it buys at the top of the list in CHANGELOG.md."""
    path, (lines, flags, names, modules) = REPOSITORY / "CHANGELOG.md", price()
    told = f"- {lines:,} lines of source, {flags} flags, {names} public names, {modules} modules: {reason}"
    text, entry = path.read_text(), textwrap.fill(told, WIDTH, subsequent_indent="  ") + "\n"
    if HEADING not in text:
        text = text.replace("## Unreleased\n", f"## Unreleased\n{HEADING}\n", 1)
    path.write_text(text.replace(HEADING, HEADING + entry, 1))


def main() -> None:
    """Print the price, or record it."""
    for top in (*SOURCE, "tests"):
        folders = lines_by_folder(top)
        print(f"{sum(folders.values()):7,}  {top}")
        for folder, lines in folders.most_common():
            print(f"{lines:15,}  {folder}")
    lines, flags, names, modules = price()
    print(f"{lines:7,}  lines of source\n{flags:7}  flags\n{names:7}  public names\n{modules:7}  modules pass a row")
    if sys.argv[1:2] == ["--record"]:
        record(" ".join(sys.argv[2:]))


if __name__ == "__main__":
    main()
