"""Write CC.csv: a *synthetic* table in the shape and style of Kaggle's credit-card
fraud set.

No row of it is real or derived from a real row. It borrows from the real set its
columns and, roughly, the standard deviations of V1..V28 and the mean of each over the
frauds, as generally quoted, written from memory.

    python datasets/make_cc.py [--seed N] [--rows N] [-o FILE]

The same seed and row count give the same bytes on every machine and Python: of the
standard library's generators only `Random.random()` is promised never to change, so
everything else is made from it here.
"""

from math import cos, exp, log, pi, sqrt
from pathlib import Path
from random import Random
from typing import Annotated

import typer

CC_CSV = Path(__file__).with_name("CC.csv")

FRAUD_SHARE = 0.04
# Most frauds look like frauds, some less so and some not at all: those bound the recall
# of any model, here
# to about that of models on the real set.
CAMOUFLAGED_SHARE = 0.12
# A few honest customers behave a little like frauds, so that precision has its limit
# too.
SUSPICIOUS_SHARE = 0.008
TWO_DAYS = 172_800  # seconds

# V1..V28, principal components in order of falling variance: standard deviation, from
# memory.
STD = (
    1.96,
    1.65,
    1.52,
    1.42,
    1.38,
    1.33,
    1.24,
    1.19,
    1.10,
    1.09,
    1.02,
    1.00,
    1.00,
    0.96,
    0.92,
    0.88,
    0.85,
    0.84,
    0.81,
    0.77,
    0.73,
    0.73,
    0.62,
    0.61,
    0.52,
    0.48,
    0.40,
    0.33,
)
FRAUD_MEAN = (
    -4.8,
    3.6,
    -7.0,
    4.5,
    -3.2,
    -1.4,
    -5.6,
    0.6,
    -2.6,
    -5.7,
    3.8,
    -6.3,
    -0.1,
    -7.0,
    -0.1,
    -4.1,
    -6.7,
    -2.2,
    0.7,
    0.4,
    0.7,
    0.0,
    0.0,
    -0.1,
    0.0,
    0.1,
    0.2,
    0.1,
)


def normal(rng: Random) -> float:
    """Standard normal number (Box and Muller 1958)."""
    radius = sqrt(-2 * log(1 - rng.random()))
    return radius * cos(2 * pi * rng.random())


def severity(rng: Random, is_fraud: bool) -> float:
    """How far the row lies from the normal customers towards the typical fraud: 0 not
    at all, 1 there."""
    special = rng.random()
    if is_fraud:
        return (
            0.12 * rng.random()
            if special < CAMOUFLAGED_SHARE
            else exp(0.5 * normal(rng) + 0.1)
        )
    return 0.6 * rng.random() if special < SUSPICIOUS_SHARE else 0.0


def components(rng: Random, is_fraud: bool) -> list[float]:
    """V1..V28: normal numbers of a random scale, which makes the tails heavy, moved by
    the severity.

    Every fraud goes its own way, some columns more and some less, so that no column
    alone betrays it.
    """
    level = severity(rng, is_fraud)
    # restless customers are restless in every column
    row_scale = exp(0.35 * normal(rng) - 0.06)
    spread = row_scale * (1 + level)
    return [
        level * mean * (1 + 0.5 * normal(rng))
        + spread * std * normal(rng) * exp(0.45 * normal(rng) - 0.2)
        for mean, std in zip(FRAUD_MEAN, STD, strict=True)
    ]


def second(rng: Random, is_fraud: bool) -> int:
    """Time within two days: frauds at any hour, customers five times as often by day as
    at night."""
    while True:
        t = int(TWO_DAYS * rng.random())
        busy = 0.6 - 0.4 * cos(2 * pi * (t / 86_400 - 1 / 8))
        if is_fraud or rng.random() < busy:
            return t


def amount(rng: Random, is_fraud: bool) -> float:
    """Log-normal: medians 9 (frauds) and 22; frauds are spread wider."""
    return 9 * exp(2.2 * normal(rng)) if is_fraud else 22 * exp(1.6 * normal(rng))


def table(rows: int, seed: int) -> list[str]:
    """The file's lines, header first, in order of Time."""
    rng = Random(seed)
    frauds = round(FRAUD_SHARE * rows)
    records = []
    for row in range(rows):
        is_fraud = row < frauds
        t = second(rng, is_fraud)
        # Six decimals hide the last bit, in which the mathematics libraries of two
        # systems may differ.
        values = ",".join(f"{v:.6f}" for v in components(rng, is_fraud))
        records.append(
            (t, f'{t},{values},{amount(rng, is_fraud):.2f},"{int(is_fraud)}"')
        )
    records.sort(key=lambda record: record[0])
    header = ["Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"]
    return [",".join(f'"{name}"' for name in header), *(line for _, line in records)]


def main(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    rows: Annotated[
        int, typer.Option(min=50, help="Number of rows; 4 % of them are frauds.")
    ] = 5000,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            show_default="CC.csv beside this script",
            help="File to write.",
        ),
    ] = CC_CSV,
) -> None:
    """Write a synthetic table in the style of the credit-card fraud set."""
    text = "\n".join(table(rows, seed)) + "\n"
    try:
        output.write_bytes(text.encode("ascii"))
    except OSError as error:
        raise SystemExit(f"make_cc: cannot write {output}: {error.strerror}") from None


if __name__ == "__main__":
    typer.run(main)
