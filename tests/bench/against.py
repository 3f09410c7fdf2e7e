"""`--against CHECKOUT`: every case with another build of nn and with this one, in turn, in one run.

Each build has a process of its own, started in its checkout. A case's ratio is the median over rounds of the old
build's time divided by the new one's in the same round: above 1 the new build is faster. The builds take turns in
being first, and `best` compares their fastest turns.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from nn.study.bench import duration, named
from nn.terminal.tables import table
from nn.utils import UsageError, processor_name, say

from .compare import ROOT, TURN_SECONDS, Side, take_turns


def measure(
    checkout: str, names: list[str], threads: int, rounds: int, turn_seconds: float = TURN_SECONDS, backend: str = "omp"
) -> dict:
    """Time the cases whose names begin so (all without names) with both builds."""
    if not (Path(checkout) / "tests" / "bench").is_dir():
        raise UsageError(f"--against {checkout}: not a checkout of nn with its tests; expected tests/bench in it")
    checkouts = Path(checkout).resolve(), ROOT
    old, new = sides = [Side("build", threads, path, turn_seconds, backend) for path in checkouts]
    new.name = "this build"
    try:
        known = old.ask("cases")
        chosen = named(names, new.ask("cases"))
        missing = [case for case in chosen if case not in known]
        if missing:
            say(f"bench: not in {checkout}, left out: {', '.join(missing)}")
        results = []
        for case in chosen:
            if case in known:
                results.append(compare(case, old, new, rounds))
                say(f"bench: {case}: {results[-1]['ratio']:.3f}")
        return {
            "processor": processor_name(),
            "threads": threads,
            "rounds": rounds,
            "against": checkout,
            "results": results,
            "geometric_mean": geometric_mean([result["ratio"] for result in results]),
        }
    finally:
        for side in sides:
            side.close()


def compare(case: str, old: Side, new: Side, rounds: int) -> dict:
    """Return a case's figures after `rounds` rounds."""
    for side in (old, new):
        side.ask(f"start {case}")
    before, now = take_turns([old, new], rounds).values()
    return {
        "case": case,
        "old_us": 1e6 * float(np.median(before)),
        "new_us": 1e6 * float(np.median(now)),
        "ratio": float(np.median(np.divide(before, now))),
        "best_ratio": min(before) / min(now),
    }


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def report(result: dict) -> None:
    """Print what `measure` returned as a table."""
    rows = [
        [r["case"], duration(r["old_us"]), duration(r["new_us"]), f"{r['ratio']:.3f}", f"{r['best_ratio']:.3f}"]
        for r in result["results"]
    ]
    best = geometric_mean([r["best_ratio"] for r in result["results"]])
    rows.append(["geometric mean", "", "", f"{result['geometric_mean']:.3f}", f"{best:.3f}"])
    title = f"{result['processor']}, {result['threads']} threads, {result['rounds']} rounds; old: {result['against']}"
    table(["case", "old", "new", "old / new", "best"], rows, title)
