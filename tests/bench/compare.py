"""Cases on several sides in one run: each side in a process of its own, taking turns.

Turns keep the comparison fair where the machine's speed changes under way: a ratio is the median over rounds
of what two sides took in the same round. `best` compares the fastest turns, which others disturb least.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback

import numpy as np

from .known import SIDES
from .truth import error, truth

TURN_SECONDS = 0.1
REST_SECONDS = 0.02  # for the spinning threads of the side before to fall asleep
LEAST_ROUNDS, MOST_ROUNDS = 3, 15
QUIET = 0.1  # share of the machine that other programs may use without being waited for, or told of

TARGETS = {  # case -> times as fast as PyTorch that it should be
    "cc-b10": 100,
    "cc-b10-float64": 50,
    "cc-b1000": 5,
    "digits": 10,
    "cnn0": 4,
    "cnn1": 4,
    "cnn2": 3,
    "solar-50": 4,
    "solar-wide": 2.3,
    "solar-deep": 2.3,
    "solar-large": 2.2,
    "solar-cnn": 3.5,
}
FORWARD_TARGET = 2
MEMORY_TARGET = 2.5  # bytes an engine may hold, times what a training step cannot do without


def target(case_name: str) -> float | None:
    """Return the wanted speed relative to PyTorch; None where there is no target."""
    return FORWARD_TARGET if "-forward-" in case_name else TARGETS.get(case_name)


class Side:
    """A library in a process of its own, controlled through a pipe."""

    def __init__(self, name: str, threads: int):
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, name, threads), daemon=True)
        self._process.start()
        theirs.close()
        self.version = self._receive()

    def start(self, case) -> dict | None:
        """Make a case ready; None where the library has nothing comparable."""
        return self._ask("start", case)

    def turn(self) -> float:
        """Seconds of one batch, pass or product, the median of about a tenth of a second of them."""
        return self._ask("turn", None)

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(5)
        self._process.kill()

    def _ask(self, *question):
        self._pipe.send(question)
        return self._receive()

    def _receive(self):
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"the process of {self.name} died; is there enough memory?") from None
        if kind == "failed":
            raise RuntimeError(f"{self.name}: {value}")
        return value


def serve(pipe, name: str, threads: int) -> None:
    """Answer the questions of the pipe, in a side's process, which may use `threads` cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    try:
        side = SIDES[name]()
    except ImportError:
        return pipe.send(("done", None))
    pipe.send(("done", side.version))
    once = None
    while True:
        try:
            what, case = pipe.recv()
            if what == "turn":
                pipe.send(("done", turn(once)))
                continue
            started = side.start(case)
            once = started and started[0]
            pipe.send(("done", started and {"result": started[1], **started[2]}))
        except EOFError:  # the other end is closed: nothing more to do
            return
        except Exception:
            pipe.send(("failed", traceback.format_exc()))


def quietest_share(deadline: float) -> float | None:
    """others_share, once it is small or the deadline (time.perf_counter) is over."""
    while (share := others_share()) is not None and share > QUIET and time.perf_counter() < deadline:
        pass
    return share


def others_share(seconds: float = 0.1) -> float | None:
    """Return the share of the machine that other programs use; None where the system does not tell."""
    try:
        before = _processor_time()
        time.sleep(seconds)
        total, idle = (now - then for now, then in zip(_processor_time(), before, strict=True))
        return 1 - idle / total
    except OSError:
        return None


def _processor_time() -> tuple[int, int]:
    """Time of all cores since the machine started: in all, and idle."""
    with open("/proc/stat") as file:
        times = [int(word) for word in file.readline().split()[1:9]]
    return sum(times), times[3] + times[4]


def turn(once) -> float:
    """Return the median of what `once` measures during a turn."""
    began, seconds = time.perf_counter(), []
    while not seconds or time.perf_counter() - began < TURN_SECONDS:
        seconds.append(once())
    return float(np.median(seconds))


def compare(case, nn: Side, peers: list[Side], seconds: float, wait: float = 0) -> dict:
    """Measure a case on all sides for about `seconds`; returns figures of `nn`, and of each peer with its ratio.

    wait: seconds in all to wait for moments without other programs.
    """
    started = {side.name: (side, facts) for side in (nn, *peers) if (facts := side.start(case))}
    for side, _ in started.values():
        side.turn()  # not counted: the first may find cold caches
    busy, taken = [], {name: [] for name in started}
    deadline, measured = time.perf_counter() + wait, 0.0
    while len(busy) < LEAST_ROUNDS or measured < seconds and len(busy) < MOST_ROUNDS:
        if busy and measured > 10 * seconds:
            break
        busy.append(quietest_share(deadline))
        began = time.perf_counter()
        for name, (side, _) in started.items():
            time.sleep(REST_SECONDS)
            taken[name].append(side.turn())
        measured += time.perf_counter() - began
    true = truth(case)
    sides = {
        name: {
            "us": 1e6 * float(np.median(taken[name])),
            "ratio": float(np.median(np.divide(taken[name], taken[nn.name]))),
            "best_us": 1e6 * min(taken[name]),
            "best_ratio": min(taken[name]) / min(taken[nn.name]),
            "error": None if facts["result"] is None else error(facts["result"], true),
        }
        for name, (_, facts) in started.items()
    }
    ours = started[nn.name][1]
    own = sides.pop(nn.name)
    return {
        "case": case.name,
        "per": case.per,
        "dtype": case.dtype,
        **{name: own[name] for name in ("us", "best_us", "error")},
        "gflops": case.operations / own["us"] / 1e3,
        **{name: ours.get(name) for name in ("threads", "bytes", "needed_bytes")},
        "target": target(case.name),
        "busy": None if None in busy else float(np.median(busy)),
        "peers": sides,
    }
