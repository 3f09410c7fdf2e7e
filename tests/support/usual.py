"""Which cases of a test run by default, and which in CI alone."""

from collections import defaultdict


def mark_slow(items) -> None:
    """Mark the cases of tests that are marked usual(count, in_ci): all but `count` are
    slow; where in_ci is given, all but so many of them are long."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("usual"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        count, *in_ci = of_test[0].get_closest_marker("usual").args
        usual = _spread(of_test, count)
        in_ci = usual | _spread(of_test, *in_ci or [len(of_test)])
        for number, item in enumerate(of_test):
            if number not in in_ci:
                item.add_marker("long")
            elif number not in usual:
                item.add_marker("slow")


def _spread(of_test: list, count: int) -> set[int]:
    """Return the places of so many cases, from the first one on in equal steps."""
    return {number * len(of_test) // count for number in range(count)}
