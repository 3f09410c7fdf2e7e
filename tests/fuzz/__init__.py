"""Fuzzing: all that nn reads, made by strangers: read, or refused with an error of nn. `python -m tests.fuzz`.

targets.py     what is read, and how: a line for each format
seeds.py       the files that changes begin with, made by code
judge.py       one input: an error of nn or none, and the time and memory that it takes
mutation.py    changes at random
campaign.py    a process for each target, which reads its inputs
__main__.py    the command
findings/      inputs that were findings once, TARGET-what; tests/house/test_fuzz.py replays them
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # of support/, for `python -m tests.fuzz` too
