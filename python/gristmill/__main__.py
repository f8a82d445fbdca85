"""`python -m gristmill` is the command `gristmill`."""

import sys

from gristmill.cli import main

if __name__ == "__main__":
    sys.exit(main())
