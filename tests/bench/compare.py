"""Cases on several sides in one run: each side in a process of its own, taking turns.

Turns keep the comparison fair where the machine's speed changes under way: a ratio is the median over rounds
of what two sides took in the same round. `best` compares the fastest turns, which others disturb least.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from nn.utils import UsageError

ROOT = Path(__file__).resolve().parents[2]
CODE = Path(__file__).with_name("one_side.py").read_text()
TURN_SECONDS = 0.1
REST_SECONDS = 0.02  # for the spinning threads of the side before to fall asleep
LEAST_ROUNDS, MOST_ROUNDS = 3, 15

MEMORY_TARGET = 2.5  # bytes an engine may hold, times what a training step cannot do without


class Side:
    """A library, or the build of a checkout, in a process of its own; one_side.py has the questions."""

    def __init__(
        self, name: str, threads: int, checkout: Path = ROOT, turn_seconds: float = TURN_SECONDS, backend: str = "omp"
    ):
        self.name, self.checkout = name, checkout
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE, name, str(turn_seconds), str(threads), backend],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version = self.ask("version")

    def ask(self, question: str):
        """Return the answer to «version», «cases», «start NAME» or «turn»."""
        try:
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer says so
        answer = self._process.stdout.readline()
        if not answer:
            raise UsageError(f"the process of {self.name} in {self.checkout} ended; its error is above")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def take_turns(sides: list[Side], rounds: int, seconds: float | None = None) -> dict[str, list[float]]:
    """Let sides that have started a case take turns, and in turn be first; return {side's name: seconds of each turn}.

    seconds: about how long, if there are LEAST_ROUNDS by then; None: all rounds.
    """
    taken, measured = {side.name: [] for side in sides}, 0.0
    for number in range(rounds):
        if seconds is not None and number and measured > (seconds if number >= LEAST_ROUNDS else 10 * seconds):
            break
        began = time.perf_counter()
        for side in sides if number % 2 == 0 else sides[::-1]:
            time.sleep(REST_SECONDS)
            taken[side.name].append(side.ask("turn"))
        measured += time.perf_counter() - began
    return taken


def compare(case, nn: Side, peers: list[Side], seconds: float) -> dict:
    """Measure a case on all sides for about `seconds`; returns figures of `nn`, and of each peer with its ratio."""
    started = {side: facts for side in (nn, *peers) if (facts := side.ask(f"start {case.name}")) is not None}
    taken = take_turns(list(started), MOST_ROUNDS, seconds)
    ours = taken[nn.name]
    sides = {
        side.name: {
            "us": 1e6 * float(np.median(taken[side.name])),
            "ratio": float(np.median(np.divide(taken[side.name], ours))),
            "best_us": 1e6 * min(taken[side.name]),
            "best_ratio": min(taken[side.name]) / min(ours),
            "error": facts["error"],
        }
        for side, facts in started.items()
    }
    own = sides.pop(nn.name)
    return {
        "case": case.name,
        "per": case.per,
        "dtype": case.dtype,
        **{name: own[name] for name in ("us", "best_us", "error")},
        "gflops": case.operations / own["us"] / 1e3,
        **{name: started[nn].get(name) for name in ("threads", "bytes", "needed_bytes")},
        "peers": sides,
    }
