"""csv-core: libFuzzer on the C reader of CSV (csv_reader.c), with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import seeds

NAME = "csv-core"
HERE = Path(__file__).parent
SANITIZERS = "-fsanitize=fuzzer,address,undefined"


@dataclass(frozen=True)
class Counts:
    """What libFuzzer tells of a run."""

    inputs: int
    seconds: float
    coverage: tuple[int, int] | None
    crashes: list[Path]
    told: str  # why it ended early


def build(folder: Path) -> tuple[Path | None, str]:
    """Return (the program, ""), or (None, why there is none)."""
    compiler = shutil.which("clang")
    if compiler is None:
        return None, "needs clang with libFuzzer (Debian: clang, libclang-rt-dev)"
    program = folder / "csv_reader"
    flags = ["-g", "-O1", "-fno-sanitize-recover=all", SANITIZERS, "-I", str(HERE.parents[1] / "csrc")]
    command = [compiler, *flags, str(HERE / "csv_reader.c"), "-lm", "-o", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        return None, f"clang cannot build it: {ended.stderr.strip()[-200:]}"
    return program, ""


def run(program: Path, folder: Path, seed: int, runs: int | None, seconds: float | None) -> Counts:
    """Run the program on seeds, which begin with two bytes that choose how a text is read."""
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, text in enumerate(seeds.csv()):
        for choice in (b"\0\x08", b"\1\x5a"):
            (corpus / f"seed{number}-{choice[0]}").write_bytes(choice + text)
    command = [str(program), f"-seed={seed % 2**31 + 1}", "-max_len=4096", "-timeout=10", f"-artifact_prefix={folder}/"]
    command += ["-print_final_stats=1", str(corpus)]
    command += [] if runs is None else [f"-runs={runs}"]
    command += [] if seconds is None else [f"-max_total_time={max(1, round(seconds))}"]
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    told = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment).stderr
    return _counts(told, [file for kind in ("crash", "timeout", "oom") for file in folder.glob(f"{kind}-*")])


def _counts(told: str, crashes: list[Path]) -> Counts:
    inputs = re.search(r"number_of_executed_units: (\d+)", told)
    rate = re.search(r"average_exec_per_sec: +(\d+)", told)
    covered = [int(count) for count in re.findall(r" cov: (\d+) ", told)]
    count = int(inputs[1]) if inputs else 0
    why = re.search(r"(ERROR: .*|runtime error: .*)", told)
    return Counts(
        count,
        count / max(1, int(rate[1])) if rate else 0.0,
        (covered[0], covered[-1]) if covered else None,
        crashes,
        why[1] if why else "libFuzzer ended early",
    )
