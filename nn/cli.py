"""The command `nn`: flags in, the Python API called, results out, one exit code.

Nothing heavy is imported before the flags are known to be right, so `--help` and wrong
use answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace

from . import cluster, commands
from .backends import TRAITS
from .settings.flags import (
    MODE_WORDS,
    MODES,
    check_reference,
    flags_of_mode,
    given_values,
    keywords,
)
from .terminal import console
from .terminal.parser import parse
from .utils import (
    MORE_THREADS,
    NO_ROOM_TO_LOAD,
    InputNotFound,
    Interrupted,
    NnError,
    OutputError,
    UsageError,
    check_room_to_load,
    has_address_limit,
    interruption,
    is_for_want_of_memory,
    log_line,
    signals_held,
    spare_addresses,
    speaking_of_flags,
)

log = logging.getLogger("nn")

AGAIN_SECONDS = 0.1  # until a signal is sent once more
# bytes of addresses that its libraries and their buffers take
ROOM_FOR_NUMPY = 80 << 20
CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EBADF)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code. argv: what follows the program's
    name (sys.argv's)."""
    if argv is None:
        argv = sys.argv[1:]
    _mend_streams()
    # NumPy's own threads are not used, and may not be there
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with speaking_of_flags(), _signals_as_errors(), warnings.catch_warnings():
        if not sys.warnoptions and "--debug" not in argv:
            # what a user should know is said in words of our own
            warnings.simplefilter("ignore")
        code = cluster.end(*_outcome(argv))
    _drop_unwritten()
    return code


def _outcome(argv: list[str]) -> tuple[int, str | None]:
    """Run the command; returns its exit code and, if it failed, the last line of
    stderr."""
    flags = None
    code = 0
    try:
        flags = parse(argv)
        if flags is not None:
            code = _run(flags)
        sys.stdout.flush()
        return code, None
    except BrokenPipeError:
        # the reader of stdout has seen enough, as in `nn --info ... | head`; of --help
        # nothing is missing
        return 0 if flags is None else 128 + signal.SIGPIPE, None
    except (Exception, KeyboardInterrupt, Interrupted) as error:
        if "--debug" in argv:
            for text in traceback.format_exc().splitlines():
                log_line(text)
        line, code = _explain(interruption(error) or error)
        return code, _in_words(line, argv)


def _drop_unwritten() -> None:
    """Turn a stream that cannot be written to nowhere: Python would try once more at
    its end, and end with an exit code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _in_words(line: str, argv: list[str]) -> str:
    """Return a message in the words that were typed: of a mode without its flags what
    it needs, as its usage has it."""
    word = next(iter(argv), "")
    mode = MODE_WORDS.get(word)
    if mode and line.startswith(f"--{mode} needs --"):
        return f"nn {word} needs {MODES[mode].usage}; nn {word} --help shows its flags"
    return line


@contextlib.contextmanager
def _signals_as_errors() -> Iterator[None]:
    """Raise Interrupted, or KeyboardInterrupt, where a signal would end the process at
    once: unfinished files are then removed."""

    def handle(signum, _frame):
        signal.signal(signum, signal.SIG_DFL)  # the second one ends it
        raise Interrupted(signum)

    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: handle,
        signal.SIGHUP: handle,
    }
    is_main = threading.current_thread() is threading.main_thread()
    heard = [
        signum
        for signum in handlers
        if is_main and signal.getsignal(signum) is signal.SIG_DFL
    ]
    for signum in heard:
        signal.signal(signum, handlers[signum])
    try:
        with _none_swallowed(handlers):
            yield
    finally:
        for signum in heard:
            # ranks that end together ignore them from then on
            if signal.getsignal(signum) is handlers[signum]:
                signal.signal(signum, signal.SIG_DFL)


@contextlib.contextmanager
def _none_swallowed(handlers: dict[int, Callable]) -> Iterator[None]:
    """Send a signal once more whose error was raised in a destructor, where Python
    prints it and goes on."""
    usual = sys.unraisablehook

    def swallowed(unraisable) -> None:
        error = unraisable.exc_value
        if not isinstance(error, (Interrupted, KeyboardInterrupt)):
            usual(unraisable)
            return
        if isinstance(error, Interrupted):
            signum = error.signum
        else:
            signum = signal.SIGINT
        # else a training knows of it
        if signal.getsignal(signum) in (signal.SIG_DFL, handlers.get(signum)):
            signal.signal(signum, handlers[signum])
            again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), signum))
            # an error that was raised in here would be lost too
            leaving = threading.Event()
            threading.Thread(target=lambda: leaving.wait() and again.start()).start()
            leaving.set()

    sys.unraisablehook = swallowed
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _mend_streams() -> None:
    """Make sure that stdout and stderr exist and can print any character, and that no
    file gets their numbers."""
    # what a C library says on 2 would stand in a file that is opened as 2
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # gets the lowest number that is free
            os.open(os.devnull, os.O_RDWR if number == 2 else os.O_RDONLY)
    if sys.stdout is None:  # closed by the caller, as in `nn ... >&-`
        sys.stdout = console.ClosedStream()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # what is in its buffer is written first; if it cannot be, the end tells
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")


def _explain(error: BaseException) -> tuple[str, int]:
    """Return the last line of a failed run, and its exit code."""
    if isinstance(error, (NnError, Interrupted)):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT", 128 + signal.SIGINT
    is_want = isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno == errno.ENOMEM
    )
    # "error return without exception set"
    if is_want or (isinstance(error, SystemError) and has_address_limit()):
        return (
            "out of memory: use smaller --layers, a smaller --batch_number or fewer rows",
            NnError.exit_code,
        )
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return f"no more threads: {MORE_THREADS}", NnError.exit_code
    if isinstance(error, ImportError):
        return _explain_import(error), NnError.exit_code
    if isinstance(error, BlockingIOError) and error.filename is None:
        return f"no more processes: {MORE_THREADS}", NnError.exit_code
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return (
            "the current folder is not there any more; change to another one",
            InputNotFound.exit_code,
        )
    if isinstance(error, OSError):
        if error.errno in CANNOT_WRITE:
            kind = OutputError
        else:
            kind = NnError
        return (
            f"{error.filename or 'output'}: {error.strerror or error}",
            kind.exit_code,
        )
    return (
        f"internal error: {type(error).__name__}: {error}; please report it with the output of --debug",
        1,
    )


def _explain_import(error: ImportError) -> str:
    """Return the line for a library that is there but cannot be loaded, most often for
    want of memory."""
    texts = [
        str(e) for e in (error, error.__cause__, error.__context__) if e is not None
    ]
    if any(map(is_for_want_of_memory, texts)):
        return NO_ROOM_TO_LOAD
    # the first line that says something, of the error that came first
    lines = "\n".join(reversed(texts)).strip().splitlines() or [""]
    return f"a library cannot be loaded ({lines[0].strip()}); install nn again, or run with --debug to see more"


def _run(flags: SimpleNamespace) -> int:
    """Run a mode; returns its exit code."""
    spare_addresses()
    # of which OpenBLAS would end the process, in words of its own
    if "numpy" not in sys.modules:
        check_room_to_load(ROOM_FOR_NUMPY)
        # its C code tells what a handler raises as a library that is missing
        with signals_held():
            import numpy  # noqa: F401
    remarks = vars(flags).pop("remarks")
    mode = next(name for name in MODES if getattr(flags, name))
    if flags.train:
        _join_ranks(flags)
    with _warnings_shown(flags.quiet):
        for flag in MODES[mode].needs:
            if getattr(flags, flag) is None:
                raise UsageError(f"--{mode} needs --{flag} PATH")
        if flags.reference:
            check_reference(given_values(flags, flags_of_mode(mode)))
        for remark in remarks:
            log.warning(remark)
        code = commands.run(mode, flags)
        read = flags_of_mode(mode)
        # at the end: wrong use prints nothing but its one line
        for flag in given_values(flags, vars(flags)):
            if flag not in read:
                log.warning("--%s has no effect with --%s; ignored", flag, mode)
    return code


@contextlib.contextmanager
def _warnings_shown(quiet: bool) -> Iterator[None]:
    """Send the package's warnings to stderr while a mode runs, and nowhere with
    --quiet."""
    if quiet:
        handler = logging.NullHandler()
    else:
        handler = console.WarningLines()
    usual = log.handlers, log.propagate
    log.handlers = [handler]
    log.propagate = False
    try:
        yield
    finally:
        log.handlers, log.propagate = usual


def _join_ranks(flags) -> None:
    """Meet the other ranks of --distribute; from then on only rank 0 prints and
    writes."""
    if not flags.distribute:
        if not flags.force:
            cluster.expect_one()
        return
    if cluster.launch() is None:
        if flags.backend in TRAITS and TRAITS[flags.backend].on_host:
            cluster.expect_ranks()
        return
    rank_group = cluster.join()
    given = keywords(
        flags, "load", "network", "engine", "train", "several"
    ) | given_values(flags, ["layers"])
    given.pop("threads", None)
    rank_group.agree(
        dict(sorted(given.items())), "give all ranks the same flags", "--{}"
    )
    if rank_group.rank:
        flags.quiet = True
        flags.verbose = False
        flags.json = False
        flags.profile = False
        flags.trace = flags.history = flags.logdir = flags.output = None
