"""Sweeps whose entries do not take a second to measure predictions."""

import subprocess
from pathlib import Path

from nn.study import sweep
from support.command_line import start

# instead of 0.2 for each number of rows; several calls still
SECONDS = 0.01
# a Python program that is nn, with these seconds in it and in all that it starts
PROGRAM = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from support.sweeps import measure_briefly
measure_briefly()
{sweep.LAUNCH}
"""


def measure_briefly(setting=setattr) -> None:
    """Let sweeps of this process, and the processes that they start, measure
    predictions for SECONDS."""
    setting(sweep, "INFERENCE_SECONDS", SECONDS)
    setting(sweep, "LAUNCH", PROGRAM)


def start_sweep(*arguments, **options) -> subprocess.Popen:
    """`nn --sweep ARGUMENTS` as a process of its own that measures briefly."""
    return start("--sweep", *arguments, program=("-c", PROGRAM), **options)
