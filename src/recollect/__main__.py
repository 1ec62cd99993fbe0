"""``python -m recollect`` is the command ``recollect``."""

import sys

from recollect.cli import main

if __name__ == "__main__":
    sys.exit(main())
