"""Fixtures for all tests. Run from a checkout with the package installed: `pytest`."""

import contextlib
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# `python -m pytest` puts the checkout first on the path; unless the core was built
# there, test what is installed
if not list((REPOSITORY / "nn" / "core").glob("_seq*.so")):
    sys.path = [entry for entry in sys.path if Path(entry).resolve() != REPOSITORY]

# what a script starts in the background ignores Ctrl-C, and so would all that tests
# start and send it to
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the command sets this for its process: NumPy's products have other bits on other
# numbers of threads, and a test would compare those of this process with those of one
# that it starts after a command ran here
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# a failed assertion there tells its values too
pytest.register_assert_rewrite("support")
with contextlib.suppress(ImportError):  # tests/gpu does without it
    from hypothesis import settings
    from support.effort import EFFORT

    # no deadline: an example is slow where the machine is busy
    settings.register_profile("nn", deadline=None, max_examples=100 * EFFORT)
    settings.load_profile("nn")

from support.command_line import ONE, argv, environment, succeed, write_two_classes  # noqa: E402
from support.launches import Mpi, find_mpi  # noqa: E402
from support.mixed_table import write_table  # noqa: E402
from support.networks import require  # noqa: E402
from support.streams import write_table_files  # noqa: E402
from support.usual import mark_slow  # noqa: E402

from nn.backends import TRAITS  # noqa: E402
from nn.backends.cuda import device  # noqa: E402
from nn.core import bootstrap  # noqa: E402
from nn.data import records  # noqa: E402
from nn.utils import UsageError, speaking_of_flags  # noqa: E402

GPU_BACKENDS = [name for name, traits in TRAITS.items() if not traits.on_host]


@cache
def reason_without_gpu() -> str | None:
    """Return why no test can use a GPU here; None where there is one."""
    try:
        device.cupy()
    except UsageError as error:
        return str(error)
    return None


def needs_gpu(item) -> bool:
    """Return whether a test computes on a GPU: it takes the fixture of one, or its
    backend computes there."""
    if "gpu" in item.fixturenames:
        return True
    if hasattr(item, "callspec"):
        parameters = item.callspec.params
    else:
        parameters = {}
    return parameters.get("backend") in GPU_BACKENDS


def pytest_collection_modifyitems(config, items) -> None:
    """Leave out the tests that cannot run here: without a GPU those of a GPU, unless
    they alone were asked for, and those that measure time where another process tests
    beside this one."""
    if reason_without_gpu() is not None:
        of_gpu = [item for item in items if needs_gpu(item)]
        if 0 < len(of_gpu) < len(items):
            config.hook.pytest_deselected(items=of_gpu)
            others = [item for item in items if not needs_gpu(item)]
            items.clear()
            items.extend(others)
    mark_slow(items)
    if "PYTEST_XDIST_WORKER" in os.environ:
        skip = pytest.mark.skip(reason="time is measured alone: pytest -m timing")
        for item in items:
            if item.get_closest_marker("timing"):
                item.add_marker(skip)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a process without tests take some of another, unless --dist says otherwise:
    some tests take long."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_terminal_summary(terminalreporter) -> None:
    """End with one line for each reason to skip, not one for each place, and one for
    what cannot run here at all."""
    skipped = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
    )
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")
    reason = reason_without_gpu()
    if reason is not None:
        terminalreporter.write_line(
            f"left out: all tests of {' and '.join(GPU_BACKENDS)}: {reason}"
        )


REFERENCE = REPOSITORY / "tests" / "reference"  # README.md says who made these


@pytest.fixture(scope="session", autouse=True)
def elsewhere(tmp_path_factory) -> None:
    """Tests run in a folder of their own: `python -c` in the checkout would import its
    sources, not what is tested."""
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    # programs that tests start import what is tested, too
    os.environ["PYTHONPATH"] = environment()["PYTHONPATH"]


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[None]:
    """No test has a power cut: files need not reach the disk, which takes longer than
    what most tests do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def few_resamples() -> Iterator[None]:
    """Intervals are by a fifth of the resamples, which are most of the time that a test
    of figures takes; core/test_intervals.py has those by all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "RESAMPLES", bootstrap.RESAMPLES // 5)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and more golden outputs: $NN_SHARED, else `shared` beside
    the checkout."""
    folder = Path(os.environ.get("NN_SHARED", REPOSITORY.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is not there (set NN_SHARED)")
    return folder


@pytest.fixture
def golden(request):
    """Return the folder of a stored output of the original program, by its name: in the
    checkout, else in the shared data."""

    def folder(name: str) -> Path:
        if (REFERENCE / f"{name}.json").exists():
            return REFERENCE
        return request.getfixturevalue("shared") / "golden"

    return folder


@pytest.fixture(scope="session")
def datasets() -> Path:
    """The small data sets that the project ships."""
    return REPOSITORY / "datasets"


@pytest.fixture(params=list(TRAITS))
def backend(request) -> str:
    """Each backend that this machine can run."""
    require(request.param)
    return request.param


@pytest.fixture(params=["seq", "omp"])
def processor(request) -> str:
    """Each backend of the processor."""
    return request.param


@pytest.fixture(params=["float32", "float64"])
def dtype(request) -> str:
    return request.param


@pytest.fixture
def mapped(monkeypatch) -> None:
    """Let all rows lie in mapped files, as rows do that do not fit the memory."""
    monkeypatch.setattr(records, "LEAST_BYTES_MAPPED", 0)
    monkeypatch.setattr(records, "LEAST_BYTES", 0)
    monkeypatch.setattr(records, "fits", lambda size: False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(tmp_path):
    """A function (content, name) that writes a file and returns its path."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(scope="session", autouse=True)
def messages_name_flags():
    """Messages have one text in all tests, that of the command line;
    utils/test_messages.py has what Python reads."""
    with speaking_of_flags():
        yield


@pytest.fixture
def warnings_of(caplog):
    """The warnings said so far, each checked to be one line."""
    caplog.set_level(logging.WARNING, logger="nn")

    def messages():
        found = [
            record.getMessage()
            for record in caplog.records
            if record.name.partition(".")[0] == "nn"
        ]
        for message in found:
            assert "\n" not in message
        return found

    return messages


@pytest.fixture(scope="session")
def table_files(tmp_path_factory) -> Path:
    """A folder with one table in many files; not to be changed."""
    folder = tmp_path_factory.mktemp("tables")
    write_table_files(folder)
    return folder


@pytest.fixture
def two(folder):
    return write_two_classes(folder / "two.csv")


@pytest.fixture
def trained(two):
    """A model of two.csv in m.bin."""
    succeed(
        *ONE, *argv("--dataset two.csv --model m.bin --epochs 30 --learning_rate 0.01")
    )
    return two.parent / "m.bin"


@pytest.fixture
def brief(monkeypatch) -> None:
    """Let sweeps measure predictions briefly."""
    from support.sweeps import measure_briefly  # of what Windows lacks

    measure_briefly(monkeypatch.setattr)


@pytest.fixture
def tables(folder):
    """Two tables with every kind of column, the second one with more gaps."""

    def write(target: str, gaps: float = 0.05):
        write_table(folder / "old.csv", 400, 1, target, gaps)
        write_table(folder / "new.csv", 200, 2, target, 0.2)
        return folder / "old.csv", folder / "new.csv"

    return write


@pytest.fixture(scope="session")
def mpich() -> Mpi:
    """MPICH, from PyPI or the system."""
    return find_mpi("mpich")


@pytest.fixture(scope="session", params=["mpich", "openmpi"])
def mpi(request) -> Mpi:
    """Each MPI that this machine has."""
    return find_mpi(request.param)
