"""Write customers.csv and new_customers.csv: *synthetic* customers of a shop, for the
tutorial.

No row is real. A customer comes back by what the table says of it, and by chance: no
model can know more than about an area of 0.88.

    python datasets/make_customers.py [--seed N] [--folder FOLDER]

The same seed gives the same bytes on every machine and Python: of the standard
library's generators only `Random.random()` is promised never to change.
"""

from math import exp, log
from pathlib import Path
from random import Random
from typing import Annotated

import typer

FOLDER = Path(__file__).parent
ROWS = 1_500
NEW_ROWS = 40
HEAD = "customer,age,town,channel,newsletter,orders,spent,days_since"
TOWNS = {"Aachen": 0.5, "Bremen": 0.25, "Celle": 0.15, "Dresden": 0.1}
CHANNELS = {"shop": 0.0, "web": 0.6, "phone": -0.8}
NO_AGE = 0.12  # share of the customers who did not tell it


def picked(random: Random, shares: dict[str, float]) -> str:
    """A word by its share."""
    at = random.random() * sum(shares.values())
    for word, share in shares.items():
        if at < share:
            return word
        at -= share
    return next(iter(shares))


def customer(random: Random, number: int) -> tuple[str, bool]:
    """The fields of a customer, and whether it comes back."""
    age = 18 + int(62 * random.random())
    town = picked(random, TOWNS)
    channel = picked(random, dict.fromkeys(CHANNELS, 1.0))
    newsletter = random.random() < 0.4
    orders = 1 + int(-3 * log(1 - random.random()))
    spent = orders * (15 - 40 * log(1 - random.random()))
    days = 1 + int(-90 * log(1 - random.random()))
    score = CHANNELS[channel] + 0.9 * newsletter + 0.5 * min(orders, 8) - days / 60
    score += 0.8 * (town == "Celle") - ((age - 45) / 20) ** 2 / 2
    comes_back = random.random() < 1 / (1 + exp(-1.4 * score))
    told_age = "" if random.random() < NO_AGE else str(age)
    told_news = "yes" if newsletter else "no"
    fields = [f"C{number:05}", told_age, town, channel, told_news, str(orders)]
    return ",".join([*fields, f"{spent:.2f}", str(days)]), comes_back


def write(
    seed: Annotated[int, typer.Option(help="Makes other customers.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = FOLDER,
) -> None:
    """Write both files."""
    random = Random(seed)
    made = [customer(random, number) for number in range(ROWS + NEW_ROWS)]
    lines = [f"{fields},{'yes' if back else 'no'}" for fields, back in made[:ROWS]]
    new = [fields for fields, _ in made[ROWS:]]
    (folder / "customers.csv").write_text("\n".join([f"{HEAD},back", *lines]) + "\n")
    (folder / "new_customers.csv").write_text("\n".join([HEAD, *new]) + "\n")


if __name__ == "__main__":
    typer.run(write)
