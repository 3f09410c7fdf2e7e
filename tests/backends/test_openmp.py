"""nn in one process with packages that have an OpenMP library of their own."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from support.command_line import REPOSITORY, environment
from support.openmp_beside import PACKAGES


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_both_compute_the_same_in_either_order_of_imports(package):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    command = [sys.executable, REPOSITORY / "tests/support/openmp_beside.py", package]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=280
    )
    assert done.returncode == 0, done.stderr
    expected = [f"nn {package}", f"{package} nn"]
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == expected
