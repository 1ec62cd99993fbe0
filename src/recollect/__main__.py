"""``python -m recollect`` is the command ``recollect``."""

import sys

from recollect.cli import main

sys.exit(main())
