"""Change one operator, number or condition of a module at a time, and tell which
changes no test sees.

`python -m tests.mutations nn/train/decision.py` tries some of all changes that
cosmic-ray knows (pip install cosmic-ray) in a copy of this checkout, whose core must be
built; without a module it tries those of TESTS. Read the survivors: one that changes
nothing that anybody sees is none, each other one is a test to write. `--most 0` tries
all.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = {  # module -> the tests that should see its faults
    "nn/core/bootstrap.py": "tests/core/test_intervals.py",
    "nn/core/metrics.py": "tests/core",
    "nn/core/thresholds.py": "tests/core",
    "nn/core/weighted.py": "tests/train/test_weightless.py",
    "nn/test/compare.py": "tests/test/test_compare.py",
    "nn/test/importance.py": "tests/test/test_explain.py",
    "nn/test/reports.py": "tests/core tests/test",
    "nn/test/shapley.py": "tests/test/test_explain.py",
    "nn/train/decision.py": "tests/train/test_validation.py tests/core/test_thresholds.py tests/train/test_pairs.py",
    "nn/core/crossed.py": "tests/train/test_crossed.py",
    "nn/data/twins.py": "tests/data/test_twins.py",
    "nn/test/errors.py": "tests/pages",
    "nn/pages/model_page.py": "tests/pages",
    "nn/pages/task_blocks.py": "tests/pages",
    "nn/terminal/figures.py": "tests/terminal tests/test",
    "nn/terminal/network_facts.py": "tests/terminal tests/test",
    "nn/terminal/tables.py": "tests/terminal",
}
NOT_COPIED = shutil.ignore_patterns(
    ".git", "build", ".venv*", "__pycache__", ".hypothesis", "mutants"
)
CONFIG = """
[cosmic-ray]
module-path = "{module}"
timeout = 300.0
excluded-modules = []
test-command = "{python} -m pytest -q -x -p no:cacheprovider {tests}"
[cosmic-ray.distributor]
name = "local"
"""


def keep_some(session: Path, most: int) -> int:
    """Leave at most so many changes in a session, drawn by a fixed seed; return their
    number."""
    with sqlite3.connect(session) as database:
        jobs = [
            job
            for (job,) in database.execute(
                "select job_id from work_items order by job_id"
            )
        ]
        kept = set(random.Random(0).sample(jobs, min(most or len(jobs), len(jobs))))
        for job in set(jobs) - kept:
            database.execute("delete from mutation_specs where job_id = ?", (job,))
            database.execute("delete from work_items where job_id = ?", (job,))
    return len(kept)


def mutate(module: str, tests: str, most: int) -> str:
    """Return the report of the changes of a module that its tests do not see."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "nn"
        session = Path(folder) / "session.sqlite"
        shutil.copytree(REPOSITORY, copy, ignore=NOT_COPIED)
        config = Path(folder) / "mutations.toml"
        config.write_text(
            CONFIG.format(module=module, tests=tests, python=sys.executable)
        )

        def cosmic_ray(*arguments: object) -> str:
            command = [sys.executable, "-m", "cosmic_ray.cli", *map(str, arguments)]
            return subprocess.run(
                command, cwd=copy, check=True, capture_output=True, text=True
            ).stdout

        cosmic_ray("init", config, session)
        count = keep_some(session, most)
        cosmic_ray("baseline", config)
        cosmic_ray("exec", config, session)
        report = [
            Path(sys.executable).with_name("cr-report"),
            "--surviving-only",
            "--show-diff",
            session,
        ]
        survivors = subprocess.run(report, check=True, capture_output=True, text=True)
        return f"== {module}: {count} changes\n{survivors.stdout}"


def main(
    modules: Annotated[list[str] | None, typer.Argument()] = None, most: int = 40
) -> None:
    """Print the survivors of modules of TESTS; of all without one. most: changes of
    each; 0: all."""
    for module in modules or TESTS:
        print(mutate(module, TESTS[module], most), flush=True)


if __name__ == "__main__":
    typer.run(main)
