"""A table with every kind of column, and CSV files read as a program without nn reads
them."""

import csv

import numpy as np


def write_table(path, rows: int, seed: int, target: str, gaps: float = 0.05) -> None:
    """A table with every kind of column; some words, dates and gaps are in few rows
    alone."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(5, size=rows)
    words = np.array(["red", "green", "blue", "so, so", "Ü"])[draws]
    many = [f"place {k}" for k in (rng.pareto(1, size=rows) * 6).astype(int) % 60]
    size = rng.normal(40, 9, size=rows).round(3)
    gain = np.where(rng.random(rows) < 0.7, 0, rng.normal(size=rows) * 900)
    days = rng.integers(0, 1500, size=rows)
    when = (
        np.datetime64("2019-03-05T06:07:08")
        + days * np.timedelta64(1, "D")
        + days * np.timedelta64(13, "m")
    )
    draws = rng.integers(2, size=rows)
    truth = np.array(["Yes", "no"])[draws]
    draws = rng.normal(size=rows)
    score = (size - 40) / 9 + (words == "red") + 0.4 * (truth == "no") + 0.3 * draws
    selected = np.where(score > 0.4, "good", "bad")
    targets = {
        "two": selected,
        "three": np.digitize(score, [-0.5, 1]),
        "number": (1000 + 70 * score).round(2),
    }
    draws = rng.normal(1e6, 3e4, size=rows).round(1)
    columns = {
        "size": size,
        "colour": words,
        "place": many,
        "gain": gain.round(2),
        "when": when,
        "truth": truth,
        "flat": draws,
        "label": rng.integers(3, size=rows),
    }
    for name in ("size", "colour", "when", "place"):
        hidden = rng.random(rows) < gaps
        fields = enumerate(zip(columns[name], hidden))
        columns[name] = [
            ["", "NA", "?"][k % 3] if gap else str(value) for k, (value, gap) in fields
        ]
    columns["goal"] = targets[target]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))


def read_raw(path) -> dict[str, list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    return dict(zip(head, zip(*rows)))
