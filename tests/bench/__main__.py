"""`python -m tests.bench`: the cases of nn.study.bench, and growth's by name, beside
PyTorch or another build of nn.

python -m tests.bench                     all cases
python -m tests.bench cc digits           the cases whose names begin so
python -m tests.bench --peers torch cnn0  beside PyTorch alone
python -m tests.bench --backend cuda      on a GPU, beside PyTorch and JAX there
python -m tests.bench --against ../old    another checkout's build and this one, in turn
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from nn.study.bench import duration
from nn.terminal.tables import table
from nn.utils import NnError, default_threads, log_line

from .compare import measure
from .sides import PEERS


def main(
    cases: Annotated[
        list[str] | None,
        typer.Argument(help="Names, or beginnings of names (all cases)."),
    ] = None,
    peers: Annotated[
        str, typer.Option(help="Libraries to compare with, with commas (all).")
    ] = ",".join(PEERS),
    backend: Annotated[str, typer.Option(help="Of nn: omp, cuda or cudnn.")] = "omp",
    threads: Annotated[
        int, typer.Option(help="Cores that each side may use.")
    ] = default_threads(),
    seconds: Annotated[
        float, typer.Option(help="About how long to measure a case.")
    ] = 4.0,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Turns of each side, however long they take."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="CHECKOUT",
            help="Compare with the build of nn in another checkout instead.",
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
):
    """Time the cases of nn.study.bench beside other libraries, or another build of
    nn."""
    how = {
        "against": against,
        "peers": peers.split(","),
        "threads": threads,
        "backend": backend,
    }
    try:
        result = measure(cases or [], **how, seconds=seconds, rounds=rounds)
    except NnError as failure:
        log_line(f"bench: {failure}")
        sys.exit(failure.exit_code)
    if as_json:
        print(json.dumps(result, allow_nan=False))
    else:
        _report(result)


def _report(result: dict) -> None:
    versions = ", ".join(
        f"{name} {number}" for name, number in result["versions"].items()
    )
    title = f"{result['processor']}, {result['threads']} threads, {result['backend']}; {versions}"
    rows = []
    for r in result["results"]:
        own = [
            r["case"],
            r["per"],
            duration(r["us"]),
            f"{r['gflops']:.3g}",
            _error(r["error"]),
        ]
        peers = [_peer_fields(name, peer) for name, peer in r["peers"].items()] or [
            [""] * 5
        ]
        rows += [
            [*(own if peer is peers[0] else [""] * len(own)), *peer] for peer in peers
        ]
    for name, means in result["geometric_means"].items():
        rows.append(
            [
                "geometric mean",
                *[""] * 4,
                name,
                "",
                "",
                *(f"{mean:.3f}" for mean in means),
            ]
        )
    headers = [
        "case",
        "per",
        "nn",
        "GFLOP/s",
        "error",
        "peer",
        "time",
        "error",
        "ratio",
        "best",
    ]
    table(headers, rows, title, left=2)


def _peer_fields(name: str, peer: dict) -> list[str]:
    return [
        name,
        duration(peer["us"]),
        _error(peer["error"]),
        f"{peer['ratio']:.3f}",
        f"{peer['best_ratio']:.3f}",
    ]


def _error(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0e}"


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
