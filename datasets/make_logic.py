"""Write the truth tables and.csv, or.csv, xor.csv and not.csv beside this script, or
into a folder.

    python datasets/make_logic.py [FOLDER]

They are the smallest useful data: good for a first look, too few rows for a hold-out.
"""

from itertools import product
from pathlib import Path
from typing import Annotated

import typer

HERE = Path(__file__).parent

# name: number of inputs, function
FUNCTIONS = {
    "and": (2, lambda a, b: a & b),
    "or": (2, lambda a, b: a | b),
    "xor": (2, lambda a, b: a ^ b),
    "not": (1, lambda a: 1 - a),
}


def truth_table(name: str) -> str:
    """CSV text: a column per input, the result as Class; a row per combination,
    counting up."""
    inputs, function = FUNCTIONS[name]
    header = [*(f"x{i + 1}" for i in range(inputs)), "Class"]
    rows = [",".join(f'"{column}"' for column in header)]
    rows += [
        ",".join(map(str, (*bits, function(*bits))))
        for bits in product((0, 1), repeat=inputs)
    ]
    return "\n".join(rows) + "\n"


def main(
    folder: Annotated[
        Path,
        typer.Argument(
            show_default="beside this script", help="Existing folder to write into."
        ),
    ] = HERE,
) -> None:
    """Write the truth tables of and, or, xor and not as CSV files."""
    for name in FUNCTIONS:
        path = folder / f"{name}.csv"
        try:
            path.write_bytes(truth_table(name).encode("ascii"))
        except OSError as error:
            raise SystemExit(
                f"make_logic: cannot write {path}: {error.strerror}"
            ) from None


if __name__ == "__main__":
    typer.run(main)
