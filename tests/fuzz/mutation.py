"""Mutation: seeds changed at random. Input n of a target is the same for the same seed of the run."""

from __future__ import annotations

import random
from collections.abc import Sequence


def mutated(seeds: Sequence[bytes], words: Sequence[bytes], draw: random.Random) -> bytes:
    """Return a seed with some bytes changed, cut, repeated, exchanged for words or spliced with another seed."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.randint(1, 6)):
        at, length = draw.randrange(len(data) + 1), draw.randint(0, 12)
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
    number = 0
    while True:
        yield mutated(seeds, words, random.Random(f"{name} {seed} {number}"))
        number += 1
