"""The command line. A command is a module of this package with ``main(words)``, which returns the exit status.

Nothing heavy is imported before a command needs it, so ``edl --help`` is instant.
"""

import contextlib
import difflib
import errno
import importlib
import os
import signal
import sys
import threading
import unicodedata
import warnings
from collections.abc import Sequence

COMMANDS = {
    "run": "explore, discover and learn",
    "explore": "stage 1 alone: samples of p(s)",
    "discover": "stage 2 alone, from the folder of stage 1: skills z, q(z|s), q(s|z)",
    "learn": "stage 3 alone, from the folder of stage 2: a policy pi(a|s,z)",
    "baseline": "a skill-discovery method without stages",
    "evaluate": "compute the metrics of a run again",
    "figure": "draw the figures of a run again",
    "compare": "compare runs in a table with intervals",
    "reproduce": "reproduce the figures of the paper from scratch",
    "tables": "measure the tables of the documentation from scratch",
    "downstream": "train a controller over a run's skills on sparse tasks, against PPO without skills",
    "studio": "draw mazes, start runs, watch them and play with their skills, in a browser",
    "check": "check that every file of a run is whole and as the run wrote it",
    "export": "export a run's policy as one file that needs only NumPy, or as ONNX",
    "sweep": "run a grid of settings: table, heat map, and the best point",
    "bench": "measure speed, time to quality and memory, next to other libraries",
    "list": "list envs, explorers, discoverers and methods",
}
MODULES = {"list": "listing"}
"""The modules of commands whose name is not that of their module: a module ``list`` would hide the builtin here."""
EXAMPLES = """\
examples:
  edl run --env square --out runs/square
  edl run --env tree --explore oracle --num-skills 5 --region "x > 0"
  edl run --env my_maze.txt --explore dataset:states.npz --num-seeds 10
  edl run --out runs/square --resume
"""
BAD_PATHS = (
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EROFS,
)
"""Errors of the system that mean a path on the command line: a long name, a file instead of a folder, no permission."""
STOPPED = {130: "Ctrl-C", 143: "SIGTERM", 129: "SIGHUP"}
"""Exit statuses of a command that a signal has stopped: 128 and the number of the signal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    0: done. 1: system error, or damage that ``edl check`` found. 2: bad input. 130, 143, 129: stopped by Ctrl-C,
    SIGTERM or SIGHUP.
    """
    try:
        status = dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`head`, a pager) has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    if status in STOPPED and arguments is None:
        prepare_to_wait()
    return status


def prepare_to_wait() -> None:
    """Say that Python waits for a thread that compiles before it exits, and let a second Ctrl-C end it at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threads = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    if any(not thread.daemon for thread in threads):
        print_error("edl: waiting for the compiler. Press Ctrl-C again to quit at once.")


def dispatch(words: list[str]) -> int:
    """Run the command that the first word names."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] == "--version":
        from edl import __version__

        print(f"edl {__version__}")
        return 0
    command, *rest = words
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        return print_error(f"edl: unknown command {command!r}.{guess} Available: {', '.join(COMMANDS)}.")
    try:
        return run_command(command, rest)
    except SystemExit as error:  # tyro has printed its error message, or the help
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt as stop:
        from edl.runs.interrupt import Interrupted

        status = 128 + (stop.number if isinstance(stop, Interrupted) else signal.SIGINT)
        by = "" if status == 128 + signal.SIGINT else f" by {STOPPED.get(status, 'a signal')}"
        return print_error(f"\nedl {command}: stopped{by}. {' '.join(map(str, stop.args))}".rstrip(), status)


def run_command(command: str, words: list[str]) -> int:
    """Set up JAX, import a command and run it. Bad input becomes a message and status 2."""
    from edl import runtime
    from edl.config import ConfigError, RunWarning

    runtime.enable()
    try:
        with warnings.catch_warnings():
            show = warnings.showwarning
            warnings.simplefilter("always", RunWarning)
            warnings.showwarning = lambda message, category, *place: (
                print_error(f"edl {command}: {message}") if category is RunWarning else show(message, category, *place)
            )
            return importlib.import_module(f"edl.cli.{MODULES.get(command, command)}").main(words)
    except ConfigError as error:
        return print_error(f"edl {command}: {error}")
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in BAD_PATHS:
            where = "" if error.filename is None else f" ({str(error.filename)!r})"
            return print_error(f"edl {command}: {error.strerror}{where}. Choose another path.")
        return print_error(f"edl {command}: {error}. All files that were written are complete.", status=1)
    except (MemoryError, RuntimeError) as error:  # XLA raises a RuntimeError
        from edl.runs.lanes import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        return print_error(
            f"edl {command}: out of memory ({str(error).splitlines()[0] if str(error) else 'of this machine'}). Choose "
            "smaller numbers, e.g. of rollouts, samples, skills or seeds. All files that were written are complete.",
            status=1,
        )


def print_error(message: str, status: int = 2) -> int:
    """Print a message to standard error and return the exit status."""
    with contextlib.suppress(OSError):  # the terminal may be gone, after SIGHUP
        print(printable(message), file=sys.stderr, flush=True)
    return status


def printable(text: str) -> str:
    """The text without characters that control a terminal: each becomes its escape."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def usage() -> str:
    """The text of ``edl --help``."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, about in COMMANDS.items()]
    return "\n".join(
        [
            "usage: edl COMMAND [OPTIONS]",
            "",
            "Explore, Discover and Learn: skills without rewards (Campos et al., ICML 2020).",
            "",
            "commands:",
            *lines,
            "",
            "`edl COMMAND --help` shows the options of a command.",
            "",
            EXAMPLES,
        ]
    )
