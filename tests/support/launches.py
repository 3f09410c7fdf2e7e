"""Launches for the tests of ranks: processes that a launcher's variables make ranks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from support.command_line import environment, write_two_classes

SMALL = ["--train", "--dataset", "two.csv", "--layers", "2,16,dropout0.2,8,1", "--model", "m.bin", "--quiet"]
MIRRORED = [*SMALL, "--distribute", "mirrored"]
SECONDS = 60  # for anything here to end, on a machine that is busy
LAUNCHERS = ("SLURM_", "PMI", "OMPI_", "MPI_", "HYD", "MASTER_", "NN_")


def alone(**variables) -> dict[str, str]:
    """An environment that says nothing of a launcher but these variables."""
    own = {name: value for name, value in environment().items() if not name.startswith(LAUNCHERS)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        own.pop(name, None)
    return {**own, **{name: str(value) for name, value in variables.items()}}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Process:
    """A rank that runs a program; ended when the test is over."""

    def __init__(self, program: str, **variables):
        self.popen = subprocess.Popen(
            [sys.executable, "-c", program],
            env=alone(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        out, err = self.popen.communicate(timeout=SECONDS)
        return self.popen.returncode, out, err


def prepare_launch(folder, monkeypatch) -> None:
    """Write SMALL's data, and make this process one that no launcher has started."""
    for name in [*os.environ]:
        if name.startswith(LAUNCHERS) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    write_two_classes(folder / "two.csv", rows=301)
