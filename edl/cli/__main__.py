"""``python -m edl.cli``."""

import sys

from edl.cli import main

sys.exit(main())
