"""Mutation: seeds changed at random. Input n of a target is the same for the same seed
of the run."""

from __future__ import annotations

import copy
import itertools
import json
import random
from collections.abc import Sequence

VALUES = (
    None,
    True,
    -1,
    0,
    3,
    2**40,
    10**30,
    1.5,
    -1e300,
    "",
    "a",
    "\0",
    "\ud800",
    "0,1",
    [],
    [1],
    ["a"],
    [None],
    {},
)


def with_other_values(data: bytes, draw: random.Random) -> bytes:
    """Return a text whose first line is JSON with a value or two exchanged or left out;
    other texts as they are."""
    line, end, rest = data.partition(b"\n")
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return data
    for _ in range(draw.randint(1, 2)):
        _exchange(values, draw)
    return json.dumps(values).encode() + end + rest


def _exchange(values, draw: random.Random) -> None:
    """Exchange a value of a dictionary or list, or of one in it."""
    while isinstance(values, (dict, list)) and values:
        key = draw.choice([*values] if isinstance(values, dict) else range(len(values)))
        if (
            isinstance(values[key], (dict, list))
            and values[key]
            and draw.random() < 0.7
        ):
            values = values[key]
            continue
        if draw.random() < 0.15:
            del values[key]
        else:
            values[key] = copy.deepcopy(
                draw.choice([*VALUES, [values[key]], {"a": values[key]}])
            )
        return


def mutated(
    seeds: Sequence[bytes], words: Sequence[bytes], draw: random.Random
) -> bytes:
    """Return a seed with some bytes changed, cut, repeated, exchanged for words or
    spliced with another seed; of JSON perhaps with other values."""
    if draw.random() < 0.5:
        seed = draw.choice(seeds)
        changed = with_other_values(seed, draw)
        if changed != seed:
            return changed
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(data) + 1)
        length = draw.randint(0, 12)
        kind = draw.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length] * draw.randint(1, 4)
        elif kind == 3:
            data[at : at + length] = draw.choice(words)
        elif kind == 4:
            data[at:at] = draw.choice(words)
        else:
            other = draw.choice(seeds)
            start = draw.randrange(len(other) + 1)
            data[at : at + length] = other[start : start + draw.randint(0, 60)]
    return bytes(data)


def mutations(name: str, seeds: Sequence[bytes], words: Sequence[bytes], seed: int):
    """Yield inputs of a target without end: the seeds themselves first."""
    yield from seeds
    for number in itertools.count():
        yield mutated(seeds, words, random.Random(f"{name} {seed} {number}"))
