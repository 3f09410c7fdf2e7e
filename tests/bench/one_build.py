"""One build's side of `--against`: the code that a process of each checkout runs, from that checkout.

Only what every checkout has is used here, so that old ones can be compared: the benchmark's `select`, `width_case`
and `rows_case`, and `start` of a case. Lines on stdin ask («cases», «start NAME», «turn»), lines of JSON answer.
"""

import json
import sys
import time

from tests.bench.__main__ import select
from tests.bench.growth import ROWS, WIDTHS, rows_case, width_case

TURN_SECONDS, THREADS = float(sys.argv[1]), int(sys.argv[2])


def turn(once) -> float:
    """Return the median seconds that `once` measures during a turn."""
    began, seconds = time.perf_counter(), []
    while not seconds or time.perf_counter() - began < TURN_SECONDS:
        seconds.append(once())
    return sorted(seconds)[len(seconds) // 2]


cases = {case.name: case for case in [*select(), *map(width_case, WIDTHS), *map(rows_case, ROWS)]}
once = None
for line in sys.stdin:
    question, *name = line.split()
    if question == "cases":
        answer = list(cases)
    elif question == "start":
        once = None  # frees what the last case held
        once = cases[name[0]].start("omp", THREADS).once
        once()  # the first finds cold caches
        answer = True
    else:
        answer = turn(once)
    print(json.dumps(answer), flush=True)
