"""Which cases of a test run by default."""

from collections import defaultdict


def mark_slow(items) -> None:
    """Mark as slow the cases of tests that are marked `usual`, but so many of each as
    the marker says, from the first one on in equal steps."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("usual"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        (most,) = of_test[0].get_closest_marker("usual").args
        usual = {number * len(of_test) // most for number in range(most)}
        for number, item in enumerate(of_test):
            if number not in usual:
                item.add_marker("slow")
