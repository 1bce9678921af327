"""``python -m edl.studio.worker DIR``: continue the run in DIR to its end, as ``edl run --out DIR --resume`` does.

It also writes what the live view shows. SIGINT writes a checkpoint and ends the process with status 130.
"""

import signal
import sys

DONE, BAD_INPUT, INTERRUPTED = 0, 2, 130


def main(path: str) -> int:
    """Run, and return the exit status."""
    # A server in the background may have been started with SIGINT ignored, which its children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from edl import runtime
    from edl.config import ConfigError

    runtime.enable()
    from edl.runs import store
    from edl.runs.resolve import make_context
    from edl.runs.result import saved_config
    from edl.runs.run import execute_run
    from edl.studio.live import LIVE, LiveView

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the queue blocks it while the worker starts
        folder = store.open_run(path)
        config = saved_config(folder)
        context = make_context(config)
        execute_run(config, out=path, resume=True, progress=LiveView(folder, context.layout, context.env.horizon))
        folder.remove(LIVE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ConfigError as error:
        print(f"edl studio: {error}", file=sys.stderr)
        return BAD_INPUT
    return DONE


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
