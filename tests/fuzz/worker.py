"""The worker: reads the inputs of one target in a process of its own, and tells of them in lines of JSON."""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import logging
import os
import sys
import time
import warnings
from pathlib import Path

TELL_SECONDS = 1.0


def main() -> None:
    """Read inputs until the time is over or there were enough."""
    options = argparse.ArgumentParser(prog="worker")
    options.add_argument("--target")
    options.add_argument("--until", type=float, help="of time.monotonic")
    options.add_argument("--runs", type=int)
    options.add_argument("--seed", type=int)
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    concurrent.futures.ThreadPoolExecutor = AtOnce  # before nn is imported
    from .mutation import mutations
    from .targets import TARGETS

    target = TARGETS[given.target]
    reading = Reading(target, given, _own_stdout())
    for data in mutations(given.target, target.seeds(), target.words, given.seed):
        reading.read(data)


class AtOnce:
    """An executor whose work is done when it is submitted: threads would take most of the time of a small input."""

    def __init__(self, *_):
        pass

    def submit(self, function, *arguments) -> concurrent.futures.Future:
        """Call the function."""
        future = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, function, *items) -> list:
        """Call the function for all items."""
        return list(map(function, *items))

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *_) -> None:
        pass


class Reading:
    """Reads one input after another; findings go to `folder`, one of each place."""

    def __init__(self, target, given, told_to):
        from .judge import judged, limit_addresses

        self.target, self._judged, self._folder, self._told_to = target, judged, given.folder, told_to
        self._path = given.folder / target.file
        self._begun, self._told, self._end = time.monotonic(), 0.0, given.until or float("inf")
        self._runs, self.inputs, self._places = given.runs or float("inf"), 0, set()
        self._current = os.open(given.folder / "current", os.O_WRONLY | os.O_CREAT)  # for a process that dies of it
        limit_addresses()

    def read(self, data: bytes) -> None:
        """Read an input. Ends the process when it was the last one."""
        self._path.write_bytes(data)
        os.ftruncate(self._current, os.pwrite(self._current, data, 0))
        finding = self._judged(self.target, self._path)
        self.inputs += 1
        if finding and finding.place not in self._places:
            self._places.add(finding.place)
            name = f"found-{hashlib.sha256(data).hexdigest()[:8]}"
            (self._folder / name).write_bytes(data)
            self._tell(finding=finding.what, file=name)
        now = time.monotonic()
        if now >= self._end or self.inputs >= self._runs:
            self._tell_count(now)
            sys.stderr.flush()
            os._exit(0)
        if now - self._told > TELL_SECONDS:
            self._tell_count(now)

    def _tell_count(self, now: float) -> None:
        self._told = now
        self._tell(inputs=self.inputs, seconds=now - self._begun)

    def _tell(self, **facts) -> None:
        print(json.dumps(facts), file=self._told_to, flush=True)


def _own_stdout():
    """Return stdout; what readers print goes to stderr from now on."""
    told_to = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return told_to


if __name__ == "__main__":
    main()
