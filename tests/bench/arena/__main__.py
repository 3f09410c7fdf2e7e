"""The command of the arena: train what is not known yet, keep it, and tell."""

import csv
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from nn.terminal.tables import table as printed

from . import judge
from .methods import METHODS
from .tables import SMALL, read, tables_of


def known(path: Path) -> dict[tuple, dict]:
    """Return the results in a file of JSON lines by (method, version, table's digest,
    split)."""
    if path.exists():
        lines = path.read_text().splitlines()
    else:
        lines = []
    results = [json.loads(line) for line in lines if line.endswith("}")]
    return {
        (result["method"], result["version"], result["digest"], result["split"]): result
        for result in results
    }


def trained(table, rows, method) -> dict:
    """Return {"error", "train", "predict"} of a method on one split: seconds; error
    None, `failure` where it fails."""
    training, tested = rows
    began = time.perf_counter()
    try:
        predict = method.fit(table.x.iloc[training], table.y[training], table.classes)
        ended = time.perf_counter()
        predictions = predict(table.x.iloc[tested])
        out = np.asarray(predictions)
        seconds = {"train": ended - began, "predict": time.perf_counter() - ended}
        return {"error": judge.error_of(table.y[tested], out, table.classes), **seconds}
    except Exception as failure:  # of any program: it has the worst place
        return {
            "error": None,
            "train": time.perf_counter() - began,
            "predict": 0.0,
            "failure": repr(failure)[:300],
        }


def run(specs: list[str], methods: list[str], lite: bool, path: Path) -> list[dict]:
    """Return the results of all methods on all tables, trained where the file does not
    have them."""
    old = known(path)
    results = []
    for spec in specs:
        table = read(spec)
        for name in methods:
            method = METHODS[name]
            for split, rows in enumerate(table.splits(lite)):
                key = (name, method.version, table.digest, split)
                if key not in old:
                    if method.slow and len(table.y) > SMALL:
                        continue
                    about = dict(
                        zip(("method", "version", "digest", "split"), key, strict=True)
                    )
                    about |= {
                        "table": table.name,
                        "rows": len(rows[0]),
                        "tested": len(rows[1]),
                        "machine": method.machine,
                    }
                    old[key] = {**about, **trained(table, rows, method)}
                    with path.open("a") as file:
                        file.write(json.dumps(old[key]) + "\n")
                    print(
                        f"{table.name} {split} {name}: {old[key]['error']}",
                        file=sys.stderr,
                    )
                results.append(old[key])
    return results


def tell(results: list[dict], methods: list[str]) -> list[dict]:
    """Print a line for each method, best first, and each table's errors; returns the
    lines."""
    slow = {
        result["method"] for result in results if result["train"] > judge.MOST_SECONDS
    }
    methods = [name for name in methods if name not in slow]
    names, found = judge.errors(results, methods)
    reference = methods.index(judge.reference_of(methods))
    rating, (low, high) = judge.ratings(found, reference)
    ranks = judge.mean_ranks(found)
    lines = []
    for place, name in sorted(enumerate(methods), key=lambda one: -rating[one[0]]):
        results_of_method = [result for result in results if result["method"] == name]
        train = np.median(
            [1000 * result["train"] / result["rows"] for result in results_of_method]
        )
        predict = np.median(
            [
                1000 * result["predict"] / result["tested"]
                for result in results_of_method
            ]
        )
        total = sum(result["error"] is None for result in results_of_method)
        version = results_of_method[0]["version"]
        lines.append(
            {
                "method": name,
                "version": version,
                "elo": round(rating[place]),
                "low": round(low[place]),
                "high": round(high[place]),
                "rank": round(ranks[place], 2),
                "train": float(f"{train:.3g}"),
                "predict": float(f"{predict:.2g}"),
                "total": round(sum(result["train"] for result in results_of_method)),
                "failed": total,
            }
        )
    headers = list(lines[0])
    printed(
        headers,
        [list(map(str, line.values())) for line in lines],
        title=f"{len(names)} tables",
    )
    each = [
        [name, *(f"{value:.4g}" for value in np.nanmean(found[at], axis=0))]
        for at, name in enumerate(names)
    ]
    printed(["table", *methods], each, title="errors: 1 - ROC-AUC, log loss or RMSE")
    if slow:
        print(f"over {judge.MOST_SECONDS} s a fit, left out: {', '.join(sorted(slow))}")
    return lines


def draw(lines: list[dict], path: Path, reference: str) -> None:
    """Draw Elo over seconds to train 1,000 rows, with the front of methods that none
    beats in both."""
    from matplotlib import pyplot as plt

    columns = ("train", "elo", "low", "high")
    table = [[line[name] for name in columns] for line in lines]
    seconds, rating, low, high = np.array(table, float).T
    of_front = judge.front(seconds, rating)
    plt.figure(figsize=(8, 5), layout="constrained")
    plt.step(
        seconds[of_front], rating[of_front], where="post", color="silver", zorder=0
    )
    yerr = [rating - low, high - rating]
    plt.errorbar(seconds, rating, yerr=yerr, fmt="o", elinewidth=0.7)
    for line, x, y in zip(lines, seconds, rating, strict=True):
        plt.annotate(
            line["method"],
            (x, y),
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=9,
        )
    plt.xscale("log")
    plt.margins(x=0.12)  # for names
    plt.xlabel("seconds to train, per 1,000 rows")
    plt.ylabel(f"Elo ({reference} = 1000)")
    plt.savefig(path, dpi=120)


def main(
    specs: Annotated[list[str], typer.Argument(metavar="TABLE...")],
    methods: Annotated[str, typer.Option(help="With semicolons between.")] = "; ".join(
        METHODS
    ),
    folder: Annotated[Path, typer.Option(help="Where the tables lie.")] = Path(),
    lite: Annotated[
        bool, typer.Option("--lite", help="The first split of each table alone.")
    ] = False,
    results: Annotated[Path, typer.Option(help="The file of results.")] = Path(
        "arena.jsonl"
    ),
    plot: Annotated[Path | None, typer.Option(help="Picture of Elo over time.")] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="CSV file to which a line is added for each method."),
    ] = None,
) -> None:
    """Compare the defaults of programs on tables."""
    warnings.simplefilter("ignore")
    there = [
        name for name in map(str.strip, methods.split(";")) if METHODS[name].version
    ]
    lines = tell(run(tables_of(specs, folder), there, lite, results), there)
    if plot:
        draw(lines, plot, judge.reference_of(there))
    if log:
        with log.open("a") as file:
            date = time.strftime("%Y-%m-%d")
            if lite:
                kind = "lite"
            else:
                kind = "full"
            csv.writer(file, lineterminator="\n").writerows(
                [date, kind, *line.values()] for line in lines
            )


if __name__ == "__main__":
    typer.run(main)
