"""How many threads are used: what a person says, then what the environment says, then
the cores."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import ROOT, environment, start

import nn
from nn.backends.cpu import share_cores
from nn.cluster import RankGroup
from nn.utils import asked_threads, available_cores, default_threads, machine


@pytest.mark.parametrize(
    "text, threads",
    [
        ("1", 1),
        ("3", 3),
        ("4,2", 4),
        (" 2 , 1 ", 2),
        ("+2", 2),
        ("1024", 1024),
        ("007", 7),
        ("", None),
        ("0", None),
        ("-1", None),
        ("2.5", None),
        ("two", None),
        ("4,", None),
        (",4", None),
        ("4,0", None),
        ("4 2", None),
        ("1e3", None),
        ("0x4", None),
        ("99999999999999999999", None),
        ("٣", None),
        ("2000", None),
    ],
)
def test_the_environment_is_read_as_openmp_reads_it(text, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert asked_threads() == threads
    assert default_threads() == (threads or available_cores())
    net = nn.Network("3,2", backend="omp")
    assert net.engine.threads == (threads or available_cores())
    assert nn.Network("3,2", backend="omp", threads=5).engine.threads == 5


def test_without_it_the_cores_decide(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert asked_threads() is None
    assert default_threads() == available_cores()
    assert available_cores() >= 1


@pytest.mark.parametrize(
    "files, cores",
    [
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "299999 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "350000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_a_control_group_grants_whole_cores(files, cores, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    root = "/sys/fs/cgroup"
    monkeypatch.setattr(
        machine, "Path", lambda path: Path(path.replace(root, str(tmp_path)))
    )
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: range(8))
    machine._cgroup_quota.cache_clear()
    try:
        assert available_cores() == (cores or 8)
    finally:
        machine._cgroup_quota.cache_clear()


@pytest.mark.parametrize("limit, free, left", [("max", 3 << 20, 3 << 20), ("9", 9, 0)])
def test_free_memory_is_what_the_machine_has_and_the_group_leaves(
    limit, free, left, tmp_path, monkeypatch
):
    """3 MiB of the machine; a group may have 9 bytes, of which the process has more."""
    group = tmp_path / "memory.max"
    group.write_text(limit)
    (tmp_path / "meminfo").write_text("MemTotal: 9999 kB\nMemAvailable: 3072 kB\n")
    monkeypatch.setattr(machine, "_group_files", lambda: [group, tmp_path / "none"])
    monkeypatch.setattr(
        machine, "Path", lambda path: Path(path.replace("/proc/mem", f"{tmp_path}/mem"))
    )
    monkeypatch.setattr(machine, "has_address_limit", lambda: False)
    assert machine.available_memory() == free
    assert machine.memory_left() == left


def test_limits_are_those_of_the_own_group_and_the_ones_above_it(tmp_path):
    """Of version 2, whose line names no controller, and of the memory of version 1."""
    lines = ["0::/user/job", "5:cpu,cpuacct:/other", "4:freezer,memory:/old/job", ""]
    (tmp_path / "cgroup").write_text("\n".join(lines))
    root = tmp_path / "root"
    files = machine._group_files(tmp_path / "cgroup", root)
    new = "memory.max"
    old = "memory.limit_in_bytes"
    expected = [root / group / new for group in ("user/job", "user", "")]
    above = ("old/job", "old", "")
    expected += [root / "memory" / group / old for group in above]
    assert files == expected
    alone = machine._group_files(tmp_path / "none", root)
    assert alone == [root / new, root / "memory" / old]


def test_the_name_of_the_processor_is_what_the_system_says(monkeypatch):
    lines = ["model\t\t: 106", "model name\t: Acme 3: Fast", "model name\t: Other", ""]

    def opened(path):
        if path != "/proc/cpuinfo" or not lines:
            raise FileNotFoundError(path)
        return io.StringIO("\n".join(lines))

    monkeypatch.setattr(machine, "open", opened, raising=False)
    assert machine.processor_name() == "Acme 3: Fast"
    lines[1:3] = []
    assert machine.processor_name() == ""
    lines.clear()
    monkeypatch.setattr("platform.processor", lambda: "arm")
    assert machine.processor_name() == "arm"


def test_each_rank_of_a_host_has_so_many(monkeypatch):
    group = RankGroup()
    group.size = 2
    group.gather = lambda value: [value, value]
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, mask: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert share_cores(group, None) == 3
    assert share_cores(group, 2) == 2


@pytest.mark.parametrize("flags, threads", [([], 1), (["--threads", 2], 2)])
def test_commands_say_the_threads_that_they_use(trained, flags, threads):
    process = start(
        "test", trained, "two.csv", *flags, env=environment(OMP_NUM_THREADS="1,4")
    )
    _, err = process.communicate(timeout=60)
    first_line = err.splitlines()[0]
    if threads == 1:
        assert ", 1 thread, float32" in first_line
    else:
        assert f", {threads} threads, float32" in first_line


def test_python_keeps_to_it_in_all_that_it_computes(folder):
    """No more threads are there after a training, predictions, explanations and a
    bootstrap than were allowed."""
    script = """
import threading, numpy as np, nn
most, usual = 0, threading.Thread.start
def start(thread):
    global most
    usual(thread)
    most = max(most, sum(t.name.startswith("ThreadPool") for t in threading.enumerate()))
threading.Thread.start = start
rng = np.random.default_rng(0)
x = rng.normal(size=(300, 4))
model = nn.fit(x, x[:, 0] > 0, layers="auto,4,1", epochs=2)
model.test(nn.load(x, y=x[:, 0] > 0), intervals=True)
model.explain(x[:50], background=x[50:90])
nn.matmul(x, x.T.copy())
print(most)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 1


def test_pages_of_mapped_files_are_not_the_memory_of_the_process_itself(tmp_path):
    if not machine.resident_bytes():
        pytest.skip("the system does not say what memory a process has")
    size = 64 << 20
    path = tmp_path / "file"
    path.write_bytes(bytes(size))

    def gained(take) -> tuple[int, int]:
        before = machine.resident_bytes(), machine.private_bytes()
        kept = take()
        assert kept[::4096].sum() >= 0
        after = machine.resident_bytes(), machine.private_bytes()
        return after[0] - before[0], after[1] - before[1]

    resident, private = gained(lambda: np.memmap(path, np.uint8, "r"))
    assert resident > 0.8 * size
    assert private < 0.2 * size
    resident, private = gained(lambda: np.ones(size, np.uint8))
    assert min(resident, private) > 0.8 * size
