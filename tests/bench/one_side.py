"""One side of a comparison: the code that its process runs, in the folder of its
checkout.

    python -c CODE SIDE SECONDS_A_TURN THREADS BACKEND      SIDE: of sides.py, or
                                                            `build` for the nn of this
                                                            checkout

Lines on stdin ask («version», «cases», «start NAME», «turn»), lines of JSON answer. For
a build only what every checkout has is used, so that old ones can be compared:
`select`, `width_case`, `rows_case`, and `start` of a case.
"""

import json
import os
import sys
import time

from nn.study.bench import select
from tests.bench.growth import ROWS, WIDTHS, rows_case, width_case

SIDE = sys.argv[1]
TURN_SECONDS = float(sys.argv[2])
THREADS = int(sys.argv[3])
BACKEND = sys.argv[4]
CASES = {
    case.name: case
    for case in [*select(), *map(width_case, WIDTHS), *map(rows_case, ROWS)]
}


class Build:
    """The nn of this checkout."""

    version = "build"

    def start(self, case):
        """See the sides of sides.py."""
        return case.start(BACKEND, THREADS).once, None, {}


def library():
    """Return the side of that name, None where it is not installed. It may use
    `THREADS` cores."""
    from tests.bench.sides import ON_GPU, SIDES

    CASES.update({case.name: case for case in ON_GPU})

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    try:
        return SIDES[SIDE](BACKEND)
    except ImportError:
        return None


def started(side, case):
    """Return (what measures a case once, facts with the error of what is computed)."""
    once, result, facts = side.start(case)
    once()  # the first finds cold caches
    if SIDE != "build":
        from tests.bench.truth import error, truth

        facts = {
            **facts,
            "error": None if result is None else error(result, truth(case)),
        }
    return once, facts


def turn(once) -> float:
    """Return the median seconds that `once` measures during a turn."""
    began = time.perf_counter()
    seconds = []
    while not seconds or time.perf_counter() - began < TURN_SECONDS:
        seconds.append(once())
    return sorted(seconds)[len(seconds) // 2]


if SIDE == "build":
    side = Build()
else:
    side = library()
once = None
for line in sys.stdin:
    question, *name = line.split()
    if question == "version":
        answer = side and side.version
    elif question == "cases":
        answer = list(CASES)
    elif question == "start":
        once = None  # frees what the last case held
        once, answer = started(side, CASES[name[0]])
    else:
        answer = turn(once)
    print(json.dumps(answer), flush=True)
