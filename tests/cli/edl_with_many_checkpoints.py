"""`edl` with a checkpoint after every chunk, and a chunk after every iteration, for tests that stop it."""

import signal
import sys

from edl.cli import main
from edl.runs import driver, session

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process of a shell ignores Ctrl-C
    driver.CHUNK_SECONDS = session.CHECKPOINT_SECONDS = session.CHECKPOINT_COST = 0.0
    sys.exit(main())
