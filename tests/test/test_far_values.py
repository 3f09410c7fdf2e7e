"""Targets whose squares leave float64: no number that is none reaches JSON, a table or
a page."""

import re
from pathlib import Path

import numpy as np
import pytest
from support.command_line import argv, run, succeed


def write(name: str, of_inputs: float, of_targets: float) -> None:
    """Write 40 rows whose target is the sum of two inputs, each times a number."""
    rng = np.random.default_rng(0)
    draws = rng.random((40, 2))
    rows = [
        f"{a * of_inputs!r},{b * of_inputs!r},{(a + b) * of_targets!r}"
        for a, b in draws.tolist()
    ]
    text = "\n".join(["a,b,y", *rows])
    Path(name).write_text(text + "\n")


@pytest.fixture
def models(folder):
    """Two models of ordinary numbers, which take targets of any size in a test."""
    write("t.csv", 1, 1)
    for seed, name in enumerate(("m.bin", "n.bin")):
        flags = argv(f"--networks 1 --epochs 2 --dtype float64 --seed {seed} -q")
        succeed("train", "t.csv", "-m", name, *flags)


COMMANDS = {
    "test": "test m.bin new.csv --json --report page.html",
    "intervals": "test m.bin new.csv --json --intervals",
    "table": "test m.bin new.csv",
    "compare": "compare m.bin n.bin --dataset new.csv --json --report page.html",
    "explain": "explain m.bin new.csv --json --report page.html",
    "bars": "explain m.bin new.csv",
    "plot": "plot m.bin --dataset new.csv -o pictures",
}


@pytest.mark.usual(4, 10)
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("size", [1e200, 8e307, 1e-200])
@pytest.mark.parametrize("name", COMMANDS)
def test_squares_beyond_float64_are_undefined_in_json_tables_and_pages(
    models, name, size
):
    write("new.csv", 1, size)
    result = run(*COMMANDS[name].split())
    assert result.code in (0, 65)
    assert "internal error" not in result.err
    assert not re.search(r"\b(NaN|nan|Infinity|inf)\b", result.out)
    if result.code:
        assert result.err.splitlines()[-1].startswith("nn: ")
    elif Path("page.html").exists():
        assert not re.search(r">(NaN|nan|inf)<", Path("page.html").read_text())
    if name == "test":
        assert result.code == 0
        mse = result.json["mse"]
        assert (mse is None) == (size > 1)
