"""Building nn where something is missing."""

import re
import subprocess
import sys

import pytest
from support.command_line import REPOSITORY, environment


@pytest.mark.parametrize(
    "compiler, problem",
    [("no-such-gcc", "is not there"), ("false", "finds no Python.h")],
)
def test_without_a_compiler_the_first_line_says_so_and_the_next_what_to_install(
    compiler, problem
):
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env=environment(CC=compiler),
    )
    reason, *cures = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 1
    assert reason.startswith("nn is built by a C compiler")
    assert f"{problem} ({compiler})" in reason
    assert any("apt install build-essential python3-dev" in line for line in cures)


def test_every_folder_of_the_package_is_installed():
    text = (REPOSITORY / "pyproject.toml").read_text()
    listed = re.search(r"^packages = \[(.*)\]$", text, re.M)[1]
    folders = {
        path.parent.relative_to(REPOSITORY)
        for path in (REPOSITORY / "nn").rglob("__init__.py")
    }
    expected = {".".join(folder.parts) for folder in folders}
    assert {name.strip(' "') for name in listed.split(",")} == expected
