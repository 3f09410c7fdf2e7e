"""`python -m nn` is the command `nn`."""

import signal
import sys

from . import __version__


def main() -> int:
    """Run the command; returns its exit code. Ctrl-C while modules are imported, or at
    the end, has no traceback."""
    if sys.argv[1:] == ["--version"] and _tell_version():
        return 0
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import logging

    logging.disable()  # hashlib tells of each digest for which it finds no memory
    try:
        from . import cli  # takes some tenths of a second
    except (MemoryError, SystemError, ImportError) as error:
        # as which Python and the loader tell of memory, too
        if isinstance(error, ImportError) and "failed to map" not in str(error):
            raise
        sys.stderr.write(
            "nn: out of memory: nn cannot be loaded; raise the limit on memory (ulimit -v)\n"
        )
        return 1
    except OSError as error:
        sys.stderr.write(
            f"nn: nn cannot be loaded: {error.strerror}; raise the limit on open files (ulimit -n)\n"
        )
        return 1
    finally:
        logging.disable(logging.NOTSET)
    return cli.main()


def _tell_version() -> bool:
    """Print the version before anything is imported; returns False where stdout cannot
    be written."""
    try:
        print(f"nn {__version__}", flush=True)
    except (OSError, AttributeError):
        return False
    return sys.stdout is not None


if __name__ == "__main__":
    sys.exit(main())
