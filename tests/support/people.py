"""A table of people as text: a column of each kind, and the class that they decide."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from support.command_line import ONE, succeed
from support.tables import csv_of

ROWS = 240


def people(count: int = ROWS, seed: int = 0) -> dict[str, list[str]]:
    """Columns of text by name: of each kind one, and the class that they decide."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 80, count)
    land = random.choice(["Chile", "Peru", "Cuba"], count, p=[0.5, 0.45, 0.05])
    member = random.choice(["Yes", "no"], count)
    day = np.datetime64("2021-03-01") + random.integers(0, 700, count)
    town = random.choice([f"town {i}" for i in range(30)], count)
    rich = (age > 45) ^ (member == "Yes") ^ (land == "Peru")
    return {
        "": [str(i) for i in range(count)],
        "age": [str(a) if random.random() > 0.1 else "NA" for a in age],
        "land": land.tolist(),
        "member": member.tolist(),
        "day": day.astype(str).tolist(),
        "town": town.tolist(),
        "name": [f"person {i}" for i in range(count)],
        "planet": ["earth"] * count,
        "rich": np.where(rich, "yes", "no").tolist(),
    }


def as_csv(columns: dict[str, list[str]], names=None) -> str:
    if names is None:
        names = list(columns)
    return csv_of(names, [columns[name] for name in names])


def train_on_people(folder) -> None:
    """Write people.csv and m.bin, which is trained on it, in a folder; it is trained
    once."""
    for name, data in _trained_on_people().items():
        (folder / name).write_bytes(data)


@cache
def _trained_on_people() -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        files = Path(folder, "people.csv"), Path(folder, "m.bin")
        files[0].write_text(as_csv(people()))
        succeed(
            *ONE, "--dataset", files[0], "--model", files[1], "--epochs", 3, "--quiet"
        )
        return {file.name: file.read_bytes() for file in files}
