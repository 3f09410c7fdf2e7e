"""The command `nn`: flags in, the Python API called, results out, one exit code.

Nothing heavy is imported before the flags are known to be right, so `--help` and wrong use answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

from . import cluster, console
from .commands import MODES
from .commands.common import COMMON_FLAGS, NETWORK_FLAGS, PART_FLAGS, TRAIN_FLAGS
from .flags import parse, said
from .nn_aux import REFERENCE
from .utils import NnError, OutputError, UsageError

log = logging.getLogger("nn")

CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code. argv: what follows the program's name (sys.argv's)."""
    argv = sys.argv[1:] if argv is None else argv
    _mend_streams()
    return cluster.end(*_outcome(argv))


def _outcome(argv: list[str]) -> tuple[int, str | None]:
    """The exit code of the command, and the line with which it fails."""
    try:
        flags = parse(argv)
        if flags is not None:
            _run(flags)
        sys.stdout.flush()
        return 0, None
    except BrokenPipeError:  # the reader of stdout has seen enough, as in `nn --info ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE, None
    except cluster.Told as told:
        return told.exit_code, None
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in argv:
            traceback.print_exc()
        line, code = _explain(error)
        return code, line


def _mend_streams() -> None:
    """Make stdout and stderr what print expects: there, and never failing at a character."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, as in `nn ... 2>&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _explain(error: BaseException) -> tuple[str, int]:
    """The last line of a failed run, and its exit code."""
    if isinstance(error, NnError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT", 128 + signal.SIGINT
    if isinstance(error, MemoryError):
        return (
            "out of memory: use smaller --layers, a smaller --batch_number or fewer rows",
            NnError.exit_code,
        )
    if isinstance(error, OSError):
        kind = OutputError if error.errno in CANNOT_WRITE else NnError
        return f"{error.filename or 'output'}: {error.strerror or error}", kind.exit_code
    return f"internal error: {type(error).__name__}: {error}; please report it with the output of --debug", 1


def _run(flags: SimpleNamespace) -> None:
    name = next(name for name in MODES if getattr(flags, name))
    mode = MODES[name]
    if flags.train:
        _join_ranks(flags)
    with _warnings_shown(flags.quiet):
        for flag in mode.needs:
            if getattr(flags, flag) is None:
                raise UsageError(f"--{name} needs --{flag} PATH")
        _check_reference(flags)
        mode.run(flags)
        expected = mode.reads | COMMON_FLAGS | {name, "configured"} | flags.configured
        for flag in said(flags, vars(flags)):  # at the end: wrong use prints nothing but its one line
            if flag not in expected:
                log.warning("--%s says nothing to --%s and was ignored", flag, name)


@contextlib.contextmanager
def _warnings_shown(quiet: bool) -> Iterator[None]:
    """The package's warnings go to stderr while a mode runs, and nowhere with --quiet."""
    handler = logging.NullHandler() if quiet else console.WarningLines()
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def _check_reference(flags) -> None:
    """--reference is one fixed arithmetic; a flag that asks for another is a misunderstanding."""
    for name, value in REFERENCE.items():
        given = getattr(flags, name)
        if flags.reference and given not in (None, value, "auto"):
            raise UsageError(
                f"--{name} {given} contradicts --reference, which means --{name} {value}; leave one out"
            )


def _join_ranks(flags) -> None:
    """Meet the other ranks of --distribute; those but rank 0 say and write nothing from now on."""
    found = cluster.launch()
    if not flags.distribute:
        if found and found.size > 1 and not flags.force:
            error = UsageError(
                f"{found.by} started {found.size} trainings, each of which would write --model: add "
                "--distribute mirrored to share the work, start one, or say --force if they are different ones"
            )
            raise error if found.rank == 0 else cluster.Told(str(error), error.exit_code)
        return
    if found is None:
        if flags.backend in ("seq", "omp"):
            cluster.expect_ranks()
        return
    team = cluster.join()
    given = said(flags, sorted(NETWORK_FLAGS | TRAIN_FLAGS | PART_FLAGS | {"layers", "task", "target"} - {"threads"}))
    team.agree(given, "give all ranks the same flags", "--{}")
    if team.rank:
        flags.quiet, flags.verbose, flags.json, flags.profile = True, False, False, False
        flags.trace = flags.history = flags.logdir = None
