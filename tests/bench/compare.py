"""Cases on several sides in one run: each side in a process of its own, started in its
checkout, taking turns.

Turns keep the comparison fair where the machine's speed changes under way: a ratio is
the median over rounds of what two sides took in the same round. `best` compares the
fastest turns, which others disturb least.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from nn.study.bench import Product, named, select
from nn.utils import UsageError, log_line, processor_name

from .growth import ROWS, WIDTHS, rows_case, width_case
from .sides import ON_GPU, PEERS, ForwardOnGpu

ROOT = Path(__file__).resolve().parents[2]
CODE = Path(__file__).with_name("one_side.py").read_text()
CASES = {
    case.name: case
    for case in [*select(), *ON_GPU, *map(width_case, WIDTHS), *map(rows_case, ROWS)]
}
TURN_SECONDS = 0.1
REST_SECONDS = 0.02  # for the spinning threads of the side before to fall asleep
LEAST_ROUNDS = 3
MOST_ROUNDS = 15
# bytes an engine may hold, times what a training step cannot do without
MEMORY_TARGET = 2.5


class Side:
    """A library, or the build of a checkout, in a process of its own; one_side.py has
    the questions."""

    def __init__(
        self,
        name: str,
        checkout: Path,
        threads: int,
        turn_seconds: float,
        backend: str,
        called: str | None = None,
    ):
        self.name = called or name
        self.checkout = checkout
        command = [
            sys.executable,
            "-c",
            CODE,
            name,
            str(turn_seconds),
            str(threads),
            backend,
        ]
        options = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "text": True,
            "cwd": checkout,
        }
        env = {**os.environ, "PYTHONPATH": str(checkout)}
        self._process = subprocess.Popen(command, env=env, **options)
        self.version = self.ask("version")

    def ask(self, question: str):
        """Return the answer to «version», «cases», «start NAME» or «turn»."""
        with contextlib.suppress(BrokenPipeError):  # the missing answer says so
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise UsageError(
                f"the process of {self.name} in {self.checkout} ended; its error is above"
            )
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def take_turns(
    sides: list[Side], rounds: int, seconds: float | None = None
) -> dict[str, list[float]]:
    """Let sides that have started a case take turns, and in turn be first; return
    {side's name: seconds of each turn}.

    seconds: about how long, if there are LEAST_ROUNDS by then; None: all rounds.
    """
    taken = {side.name: [] for side in sides}
    measured = 0.0
    for number in range(rounds):
        if (
            seconds is not None
            and number
            and measured > (seconds if number >= LEAST_ROUNDS else 10 * seconds)
        ):
            break
        began = time.perf_counter()
        # there and back again: no side comes after the same one always
        order = sides if number % 2 == 0 else sides[::-1]
        for side in order:
            time.sleep(REST_SECONDS)
            taken[side.name].append(side.ask("turn"))
        measured += time.perf_counter() - began
    return taken


def compare(
    case, nn: Side, peers: list[Side], seconds: float | None, rounds: int = MOST_ROUNDS
) -> dict:
    """Measure a case on all sides for about `seconds`, or all rounds; returns figures
    of `nn`, and of each peer with its ratio: how many times the time of nn it takes."""
    started = {side: side.ask(f"start {case.name}") for side in (nn, *peers)}
    taken = take_turns(list(started), rounds, seconds)
    ours = taken[nn.name]
    sides = {
        side.name: {
            "us": 1e6 * float(np.median(taken[side.name])),
            "ratio": float(np.median(np.divide(taken[side.name], ours))),
            "best_us": 1e6 * min(taken[side.name]),
            "best_ratio": min(taken[side.name]) / min(ours),
            "error": facts.get("error"),
        }
        for side, facts in started.items()
    }
    own = sides.pop(nn.name)
    return {
        **{"case": case.name, "per": case.per, "dtype": case.dtype},
        **{name: own[name] for name in ("us", "best_us", "error")},
        "gflops": case.operations / own["us"] / 1e3,
        **{
            name: started[nn].get(name) for name in ("threads", "bytes", "needed_bytes")
        },
        "peers": sides,
    }


def measure(
    names: list[str],
    *,
    against: str = "",
    peers: list[str] = (),
    threads: int,
    backend: str = "omp",
    seconds: float | None = None,
    rounds: int | None = None,
    turn_seconds: float = TURN_SECONDS,
) -> dict:
    """Time the cases whose names begin so (all without names) with nn and its peers:
    libraries, or the build of another checkout. rounds: in place of seconds."""
    if against and not (Path(against) / "tests" / "bench").is_dir():
        raise UsageError(
            f"--against {against}: not a checkout of nn with its tests; expected tests/bench in it"
        )
    unknown = [name for name in peers if name not in PEERS]
    if unknown:
        raise UsageError(f"--peers {unknown[0]}: there are {', '.join(PEERS)}")
    more = threads, turn_seconds, backend
    nn = Side("build" if against else "nn", ROOT, *more, called="nn")
    if against:
        others = [Side("build", Path(against).resolve(), *more, called="old")]
    else:
        others = []
    others += [Side(name, ROOT, *more) for name in peers if not against]
    try:
        missing = [side.name for side in others if side.version is None]
        if missing:
            log_line(f"bench: not installed, left out: {', '.join(missing)}")
        others = [side for side in others if side.version is not None]
        if against:
            known = others[0].ask("cases")
        else:
            known = [*CASES]
        # growth's take long
        if against or names:
            usual = CASES
        else:
            usual = [case.name for case in [*select(), *ON_GPU]]
        chosen = [CASES[name] for name in named(names, usual)]
        results = []
        for case in chosen:
            if case.name not in known:
                log_line(f"bench: {case.name}: not in {against}, left out")
            # a product is computed on the processor only
            elif not isinstance(case, ForwardOnGpu if backend == "omp" else Product):
                results.append(
                    compare(
                        case,
                        nn,
                        others,
                        None if rounds else seconds,
                        rounds or MOST_ROUNDS,
                    )
                )
                text = ", ".join(
                    f"{name} {peer['ratio']:.3f}"
                    for name, peer in results[-1]["peers"].items()
                )
                log_line(f"bench: {case.name}: {text}")
        facts = {
            "processor": processor_name(),
            "threads": threads,
            "backend": backend,
            "against": against,
        }
        versions = {side.name: side.version for side in (nn, *others)}
        return {
            **facts,
            "versions": versions,
            "results": results,
            "geometric_means": geometric_means(results),
        }
    finally:
        for side in (nn, *others):
            side.close()


def geometric_means(results: list[dict]) -> dict[str, list[float]]:
    """Return the means of ratios, and of those of the shortest turns, by peer."""
    ratios = {}
    for result in results:
        for name, peer in result["peers"].items():
            ratios.setdefault(name, []).append([peer["ratio"], peer["best_ratio"]])
    return {
        name: np.exp(np.log(each).mean(axis=0)).tolist()
        for name, each in ratios.items()
    }
