"""What the tests of large tables share: one table in several files, and nn as a process
of its own."""

import numpy as np

from support.command_line import start

ROWS = 24_000
NAMES = ["number", "b", "c", "d", "Class"]
LAYERS = ["--layers", "4,8,1", "--epochs", 3, "--quiet"]
# ways to name the table
SAME = [
    "days",
    "days/day*.csv",
    "days/day2.csv,days/day3.csv,days/day10.csv",
    "all.npy",
    "columns.npy",
]
SAME += ["front.npy,back.npy"]


def numbered_table(count: int = ROWS) -> np.ndarray:
    """A row's number, three features, and the class that they decide, (count, 5).

    The first number is a half: a column that counts all rows would be left out.
    """
    random = np.random.default_rng(3)
    table = np.empty((count, 5))
    table[:, 0] = np.arange(count)
    table[0, 0] = 0.5
    draws = random.normal([0, 1000, -5], [1, 0.5, 3], (count, 3))
    table[:, 1:4] = draws.round(4)
    table[:, 4] = table[:, 1] + (table[:, 3] + 5) / 3 > 0
    return table


def as_csv(table: np.ndarray, header: bool = True) -> str:
    lines = [",".join(map(repr, row)) for row in table.tolist()]
    return "\n".join(([",".join(NAMES)] if header else []) + lines) + "\n"


def write_table_files(folder):
    """Write one table: as a CSV file, as three CSV files in a folder, and as NPY files
    in both orders."""
    table = numbered_table()
    (folder / "all.csv").write_text(as_csv(table))
    (folder / "days").mkdir()
    (folder / "days" / "day2.csv").write_text(as_csv(table[:9000]))
    (folder / "days" / "day3.csv").write_text(
        as_csv(table[9000:9100], header=False).rstrip("\n")
    )
    (folder / "days" / "day10.csv").write_text("\n" + as_csv(table[9100:]))
    np.save(folder / "all.npy", table)
    np.save(folder / "columns.npy", np.asfortranarray(table[:, :]))
    np.save(folder / "front.npy", table[:10_000])
    np.save(folder / "back.npy", table[10_000:])
    return folder


def alone(*arguments, code: int = 0) -> str:
    """`nn ARGUMENTS` as a process of its own, which has nothing in memory but nn; its
    stderr."""
    process = start(*arguments)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    return err
