"""`python -m tests.bench`: the cases of nn.study.bench beside the libraries that are installed.

python -m tests.bench                     all cases
python -m tests.bench cc digits           the cases whose names begin so
python -m tests.bench --peers torch cnn0  beside PyTorch alone
python -m tests.bench --backend cuda      on a GPU, beside PyTorch there
python -m tests.bench --against ../old    another checkout's build and this one, in turn (growth's cases too)
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from nn.study.bench import Product, duration, select
from nn.terminal.tables import table
from nn.utils import NnError, UsageError, default_threads, processor_name, say

from .compare import Side, compare
from .sides import PEERS


def main(
    cases: Annotated[list[str] | None, typer.Argument(help="Names, or beginnings of names (all cases).")] = None,
    peers: Annotated[str, typer.Option(help="Libraries to compare with, with commas (all).")] = "",
    backend: Annotated[str, typer.Option(help="Of nn: omp, cuda or cudnn.")] = "omp",
    threads: Annotated[int, typer.Option(help="Cores that each side may use.")] = default_threads(),
    seconds: Annotated[float, typer.Option(help="About how long to measure a case.")] = 4.0,
    against: Annotated[
        str, typer.Option(metavar="CHECKOUT", help="Compare with the build of nn in another checkout instead.")
    ] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Of --against: turns of each build.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
):
    """Time the cases of nn.study.bench beside the libraries that are installed."""
    try:
        if against:
            from .against import measure, report

            result, show = measure(against, cases or [], threads, rounds, backend=backend), report
        else:
            chosen, libraries = _cases(cases or [], backend), _names(peers)
            result, show = _comparison(chosen, libraries, threads, seconds, backend), _report
    except NnError as failure:
        say(f"bench: {failure}")
        sys.exit(failure.exit_code)
    if as_json:
        print(json.dumps(result, allow_nan=False))
    else:
        show(result)


def _cases(names: list[str], backend: str) -> list:
    """Return the cases of these names; a product by itself is computed on the processor only."""
    return [case for case in select(names) if backend == "omp" or not isinstance(case, Product)]


def _names(peers: str) -> list[str]:
    names = [name for name in peers.split(",") if name] or PEERS
    for name in names:
        if name not in PEERS:
            raise UsageError(f"--peers {name}: there are {', '.join(PEERS)}")
    return names


def _comparison(cases, peers: list[str], threads: int, seconds: float, backend: str) -> dict:
    sides = [Side(name, threads, backend=backend) for name in ("nn", *peers)]
    try:
        nn, *others = sides
        missing = [side.name for side in others if side.version is None]
        if missing:
            say(f"bench: not installed, left out: {', '.join(missing)}")
        others = [side for side in others if side.version is not None]
        results = []
        for case in cases:
            say(f"bench: {case.name}")
            results.append(compare(case, nn, others, seconds))
        versions = {side.name: side.version for side in (nn, *others)}
        told = {"processor": processor_name(), "threads": threads, "backend": backend, "versions": versions}
        return {**told, "results": results}
    finally:
        for side in sides:
            side.close()


def _report(result: dict) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    title = f"{result['processor']}, {result['threads']} threads, {result['backend']}; {versions}"
    rows = []
    for r in result["results"]:
        own = [r["case"], r["per"], duration(r["us"]), f"{r['gflops']:.3g}", _error(r["error"])]
        for number, (name, peer) in enumerate(r["peers"].items() or [("", None)]):
            rows.append([*(own if number == 0 else [""] * len(own)), *_peer_fields(name, peer)])
    headers = ["case", "per", "nn", "GFLOP/s", "error", "peer", "time", "error", "ratio", "best"]
    table(headers, rows, title, left=2)


def _peer_fields(name: str, peer: dict | None) -> list[str]:
    if peer is None:
        return [""] * 5
    ratios = [f"{peer['ratio']:.3g}", f"{peer['best_ratio']:.3g}"]
    return [name, duration(peer["us"]), _error(peer["error"]), *ratios]


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.0e}"


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
