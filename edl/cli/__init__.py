"""The command line. Nothing heavy is imported before a command needs it, so that help is there at once."""

import difflib
import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence

COMMANDS = {
    "run": "explore, discover and learn, all in one",
    "explore": "stage 1 alone: samples of p(s)",
    "discover": "stage 2 alone, from the folder of stage 1: skills z, q(z|s), q(s|z)",
    "learn": "stage 3 alone, from the folder of stage 2: a policy pi(a|s,z)",
    "baseline": "a skill-discovery method without stages",
    "evaluate": "measure a run again",
    "figure": "draw a run again",
    "compare": "a table over runs, with intervals",
    "reproduce": "the figures of the paper, from scratch",
    "downstream": "put a run's skills to use: a controller on sparse tasks, against PPO without skills",
    "export": "a run's policy as one file that needs NumPy alone",
    "sweep": "a grid of runs as one program: table, heat map, and the best",
    "bench": "measure steps a second, time to quality and memory, beside other libraries",
    "list": "worlds, explorers, discoverers, methods",
}
ABOUT_FILES = ("discover", "learn", "evaluate", "figure", "compare", "downstream", "export", "sweep")
"""Commands whose world is named in a file. If it has to be imported from a module, ``--env`` says that it may be."""
EXAMPLES = """\
examples:
  edl run --env square --out runs/square
  edl run --env tree --explore oracle --num-skills 5 --region "x > 0"
  edl run --env my_maze.txt --explore dataset:states.npz --num-seeds 10
  edl run --out runs/square --resume
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C."""
    try:
        status = dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (`head`, a pager) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    if arguments is None and threading.active_count() > 1:
        sys.stderr.flush()
        os._exit(status)  # a thread is still compiling, and tearing it down could crash
    return status


def dispatch(words: list[str]) -> int:
    """Find the command that the first word names, and run it on the rest."""
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
        guess = f"did you mean {close[0]!r}? " if close else ""
        return complain(f"edl: unknown command {command!r}: {guess}Known are {', '.join(COMMANDS)}.")
    return attempt(command, rest)


def attempt(command: str, rest: list[str]) -> int:
    """Run one command, and turn what goes wrong into a message and a status."""
    try:
        return carry_out(command, rest)
    except SystemExit as error:  # tyro has said what was wrong, or has printed the help that was asked for
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt as stop:
        return complain(f"\nedl {command}: stopped. {' '.join(map(str, stop.args))}".rstrip(), status=130)


def carry_out(command: str, rest: list[str]) -> int:
    """Import what a command needs, and run it."""
    from edl.runtime import devices
    from edl.config import ConfigError

    devices.enable()
    # Tracing makes many objects that stay: looking for garbage among them would take a tenth of its time.
    gc.set_threshold(100_000, 50, 100)
    try:
        rest = with_world_named(command, rest)
        return importlib.import_module("edl.cli.commands").COMMANDS[command](rest)
    except ConfigError as error:
        return complain(f"edl {command}: {error}")
    except BrokenPipeError:
        raise
    except OSError as error:
        return complain(f"edl {command}: {error}. Every file that was written is whole.", status=1)


def with_world_named(command: str, words: list[str]) -> list[str]:
    """Note the world that ``--env`` names: it may be imported. What is about files needs nothing else of the flag."""
    for i, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == "--env" and (equals or i + 1 < len(words)):
            from edl.interop.env_names import name_world

            name_world(value if equals else words[i + 1])
            return words[:i] + words[i + (1 if equals else 2) :] if command in ABOUT_FILES else words
    return words


def complain(message: str, status: int = 2) -> int:
    """Say what went wrong."""
    print(message, file=sys.stderr)
    return status


def usage() -> str:
    """The overview that ``edl --help`` gives."""
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
            "`edl COMMAND --help` tells the options of each.",
            "",
            EXAMPLES,
        ]
    )
