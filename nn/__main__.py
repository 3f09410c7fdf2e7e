"""`python -m nn` is the command `nn`."""

import sys

from .cli import main

sys.exit(main())
