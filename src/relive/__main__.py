"""``python -m relive`` is the command ``relive``."""

import sys

from relive.cli import main

if __name__ == "__main__":
    sys.exit(main())
