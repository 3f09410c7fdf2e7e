"""`python -m nn` is the command `nn`."""

import signal
import sys


def main() -> int:
    """Run the command; returns its exit code. Ctrl-C while modules are imported, or at the end, has no traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from . import cli  # takes some tenths of a second

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
