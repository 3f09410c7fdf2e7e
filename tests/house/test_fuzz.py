"""The fuzzer: what it found once stays mended, it sees what it should, and a seed gives
the same inputs."""

import hashlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fuzz import campaign, judge, seeds
from fuzz.judge import judged
from fuzz.mutation import mutations
from fuzz.targets import TARGETS, Target, signed
from support.command_line import environment

from nn.files import model_file
from nn.utils import DataError

TESTS = Path(__file__).parents[1]
FINDINGS = {}  # target -> its files
for found in sorted((TESTS / "fuzz" / "findings").iterdir()):
    FINDINGS.setdefault(found.name.partition("--")[0], []).append(found)


def target_of(name):
    for needed in TARGETS[name].needs:
        if not shutil.which(needed):
            pytest.importorskip(needed)
    return TARGETS[name]


def read(name, data, folder):
    path = folder / TARGETS[name].file
    path.write_bytes(data)
    return judged(target_of(name), path)


@pytest.mark.parametrize("name", FINDINGS)
def test_findings_stay_mended(name, tmp_path, monkeypatch):
    """In a process of its own: some of them ended it."""
    inputs = [finding.read_bytes() for finding in FINDINGS[name]]
    monkeypatch.setitem(
        TARGETS, name, replace(target_of(name), seeds=lambda: inputs, cost=1)
    )
    monkeypatch.chdir(tmp_path)
    result = campaign.run(name, seed=1, runs=len(inputs))
    assert result.inputs == len(inputs)
    assert result.findings == []


@pytest.mark.usual(8)
@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read(name, tmp_path):
    """So that changed ones come far."""
    target = target_of(name)
    path = tmp_path / TARGETS[name].file
    for data in target.seeds()[:1]:
        path.write_bytes(data)
        target.read(path)
    assert all(read(name, data, tmp_path) is None for data in target.seeds())


def test_a_changed_model_has_a_digest_that_is_right():
    data = seeds.model_facts()[0]
    model_file.unpacked(signed(data, "nn"))
    with pytest.raises(DataError, match="`seed` is 99"):
        model_file.unpacked(
            signed(re.sub(rb'"seed":\d+', b'"seed":' + b"9" * 20, data), "nn")
        )


def test_a_seed_gives_the_same_inputs():
    def some(seed):
        return list(
            itertools.islice(
                mutations("csv", seeds.csv(), TARGETS["csv"].words, seed), 200
            )
        )

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert len(set(some(1))) > 150


def refuse(path):
    raise DataError("as it should be")


@pytest.mark.parametrize(
    "reader, message",
    [
        (lambda path: 1 / 0, "ZeroDivisionError in "),
        (lambda path: path.read_bytes().decode(), "UnicodeDecodeError in "),
        (lambda path: [0 for _ in itertools.count()], "more than 0.2 s: TooSlow in "),
        (refuse, None),
    ],
    ids=["error", "decoding", "time", "an error of nn is no finding"],
)
def test_the_judge_finds(reader, message, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.2)
    (tmp_path / "input").write_bytes(b"\xff")
    finding = judged(Target(list, reader), tmp_path / "input")
    assert message in finding.what if message else finding is None


def test_the_judge_finds_memory(tmp_path):
    """In a process of its own: this one may have had as much before."""
    (tmp_path / "input").write_bytes(b"\xff")
    program = """
import pathlib, sys
from fuzz.judge import judged
from fuzz.targets import Target
print(judged(Target(list, lambda path: bytearray(b"1") * (300 << 20)), pathlib.Path(sys.argv[1])).what)
"""
    done = python("-c", program, tmp_path / "input")
    assert "MiB for a table of 1 bytes" in done.stdout, done.stderr


def python(*arguments, **options) -> subprocess.CompletedProcess:
    """Run Python, which finds the folder fuzz/."""
    env = environment(
        PYTHONPATH=os.pathsep.join([str(TESTS), environment()["PYTHONPATH"]])
    )
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, **options)


def test_the_command_prints_a_line_for_a_target(tmp_path):
    ended = python(
        "-m", "fuzz", "--target", "layers", "--runs", "300", "--seed", "7", cwd=tmp_path
    )
    heading, line = ended.stdout.splitlines()
    assert ended.returncode == 0
    assert "--seed 7" in heading
    assert re.fullmatch(r"layers +300 inputs +\d+/s, 0 findings", line)
    assert not list(tmp_path.iterdir())
    ended = python("-m", "fuzz", "--target", "plan", *FINDINGS["plan"], cwd=tmp_path)
    assert ended.returncode == 0
    assert ended.stdout.count("read or refused, as it should be") == len(
        FINDINGS["plan"]
    )


@pytest.mark.parametrize(
    "reader, message",
    [
        (lambda path: os.kill(os.getpid(), signal.SIGKILL), "ended by SIGKILL"),
        (lambda path: time.sleep(60), "ended by SIGALRM after a silence"),
        (lambda path: os.write(2, b"told\n") and os._exit(3), "exit code 3: told"),
    ],
    ids=["signal", "silence", "exit"],
)
def test_a_process_that_dies_is_a_finding(tmp_path, monkeypatch, reader, message):
    monkeypatch.setattr(campaign, "MOST_DEATHS", 2)
    monkeypatch.setattr(campaign, "SILENT_SECONDS", 1)
    monkeypatch.setitem(TARGETS, "dying", Target(lambda: [b"x"], reader))
    monkeypatch.chdir(tmp_path)
    digest = hashlib.sha256(b"x").hexdigest()
    kept = f"finding-dying-{digest[:8]}"
    expected = 2 * [f"{kept}: {message}"]
    assert campaign.run("dying", seed=1).findings == expected
    assert (tmp_path / kept).read_bytes() == b"x"
