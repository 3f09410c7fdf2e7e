"""Changes seeds at random and hands them to readers, each of which must read or refuse with an error of nn.

What else comes out is kept in the current folder as `finding-TARGET`, and ends the run with 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import nn
from nn.files import model_file, text_model
from nn.layers import parse
from nn.utils import NnError

CSV = b'a,"b c",Class\n1,2.5,x\n-3e5,,y\n"4","5",x\n6,7,"y"\n'
WORDS = [b'"', b",", b"\n", b"\r\n", b"\0", b"nan", b"1e999", b"-", b"0", b"9" * 400, b"\xff", b"{", b"[" * 50, b"true"]


def _model(folder: Path) -> bytes:
    net = nn.Network("2,3,1", "binary")
    net.export(folder / "seed.bin")
    return (folder / "seed.bin").read_bytes()


def targets(folder: Path) -> dict[str, tuple[bytes, Callable[[Path], object]]]:
    """Return (seed, reader) by name."""
    return {
        "csv": (CSV, lambda path: nn.load(str(path))),
        "model": (_model(folder), model_file.load),
        "m": (b"2\n2 1 \n0.5 \n1 -2.5 \n", text_model.load),
        "layers": (b"3x8x8,conv4k3p1:relu,maxpool2,flatten,10,dropout0.5,2:softmax", lambda path: _layers(path)),
    }


def _layers(path: Path) -> None:
    parse(path.read_bytes().decode("latin-1"))


def changed(seed: bytes, draw: random.Random) -> bytes:
    """Return the seed with some bytes changed, cut, repeated or exchanged for words that readers know."""
    data = bytearray(seed)
    for _ in range(draw.randint(1, 6)):
        at, length = draw.randrange(len(data) + 1), draw.randint(0, 12)
        kind = draw.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at : at + length]
        elif kind == 2:
            data[at:at] = data[at : at + length] * draw.randint(1, 4)
        else:
            data[at : at + length] = draw.choice(WORDS)
    return bytes(data)


def main() -> int:
    """Run all targets in turn until the time is over; print how many inputs each had."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument("--minutes", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    seed = random.randrange(2**32) if given.seed is None else given.seed
    draw, end, counts = random.Random(seed), time.monotonic() + 60 * given.minutes, {}
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as parent:
        known = targets(Path(parent))
        while time.monotonic() < end:
            for name, (original, read) in known.items():
                path = Path(parent) / f"input.{'csv' if name == 'csv' else name}"
                path.write_bytes(changed(original, draw))
                counts[name] = counts.get(name, 0) + 1
                try:
                    read(path)
                except NnError:
                    continue
                except Exception as error:
                    Path(f"finding-{name}").write_bytes(path.read_bytes())
                    print(f"{name}: {type(error).__name__}: {error}; kept in finding-{name} (--seed {seed})")
                    return 1
    print(", ".join(f"{name}: {count} inputs" for name, count in counts.items()), f"(--seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
