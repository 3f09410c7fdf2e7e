"""How long the tests that draw at random go on."""

import os

from hypothesis import settings

# 1 in CI; tests/long.sh sets more: as many times the examples, kills and signals
EFFORT = int(os.environ.get("NN_TEST_EFFORT", "1"))


def examples(count: int, **options) -> settings:
    """Return the decorator of a test that hypothesis calls with `count` examples."""
    return settings(max_examples=count * EFFORT, **options)
