"""The ranks that train one network together, as each of them sees the group."""

from __future__ import annotations

import functools
import json
import operator
import time

from .. import utils
from ..utils import NnError, UsageError

RANK_0_SECONDS = (
    1.0  # for rank 0 to report: a launcher that sees another end may end it
)


class RankGroup:
    """The ranks that train together; this class itself is the group of a process that
    trains alone.

    All ranks call the same methods in the same order, and get the same values.
    """

    rank = 0
    size = 1
    local_rank = 0  # among the ranks of this host

    def gather(self, value) -> list:
        """Return every rank's value, in rank order; values are what JSON can hold."""
        return [value]

    def sum(self, x: float) -> float:
        """Return the sum over the ranks, added up in rank order."""
        return functools.reduce(operator.add, self.gather(float(x)))

    def gather_arrays(self, array) -> list:
        """Return every rank's array (values,), in rank order: of one type, but of any
        length."""
        return self.gather(array)

    def share(self, rows: int, rank: int | None = None) -> slice:
        """Return a rank's slice of `rows` rows, by default this one's; slices differ by
        one row at most, and may be empty."""
        if rank is None:
            rank = self.rank
        return slice(rows * rank // self.size, rows * (rank + 1) // self.size)

    def agree(self, facts: dict, fix: str, name: str = "{}") -> None:
        """Raise UsageError if a rank has other facts than rank 0; the message has the
        first difference.

        facts: what JSON can hold; name: a fact's name in the message; fix: what to do.
        """
        # as the messages have them: lists for tuples
        facts_of_0, *facts_of_others = self.gather(json.loads(json.dumps(facts)))
        for rank, rank_facts in enumerate(facts_of_others, 1):
            for key in dict.fromkeys([*facts_of_0, *rank_facts]):
                fact_of_0 = facts_of_0.get(key)
                fact = rank_facts.get(key)
                if fact != fact_of_0:
                    raise UsageError(
                        f"{name.format(key)}: rank {rank} has {_shown(fact)}, rank 0 has {_shown(fact_of_0)}; {fix}"
                    )

    def end(self, code: int, text: str | None) -> int:
        """End this rank with an exit code and a last line; print the lines due, return
        the exit code of all."""
        print_last_line(text)
        return code


def print_last_line(text: str | None) -> None:
    """Print the last line of a failed run, if there is one."""
    if text:
        utils.log_line(f"nn: {text}")


def _shown(value) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    return json.dumps(value)


ALONE = RankGroup()


def after_rank_0(error: NnError, rank: int) -> NnError:
    """Return the error that this rank raises where all meet the same one, but cannot
    exchange messages: once rank 0 has reported it, if there is a rank 0. A launcher
    that ends the others then leaves it at one line."""
    if rank:
        time.sleep(RANK_0_SECONDS)
    return error
