"""Fuzzing: all that nn reads, made by strangers: read, or refused with an error of nn.
`python -m tests.fuzz`.

targets.py: what is read, and how; seeds.py: the files that changes begin with;
findings/: what was a finding once.
"""

import sys
from pathlib import Path

# of support/, for `python -m tests.fuzz` too
sys.path.append(str(Path(__file__).parents[1]))
