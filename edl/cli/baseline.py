"""``edl baseline METHOD``: skill discovery without stages."""

from edl.baselines import METHODS
from edl.cli.execution import first_argument, start_run
from edl.cli.options import wants_help
from edl.config import ConfigError, check_name

USAGE = f"usage: edl baseline METHOD [OPTIONS]\n\nMETHOD is one of {', '.join(METHODS)}. Each has its own options:\n"


def main(words: list[str]) -> int:
    method, rest = first_argument(words)
    if method is None and not wants_help(words):
        raise ConfigError(f"METHOD is missing. Name one first: edl baseline METHOD. Available: {', '.join(METHODS)}.")
    if method is None:
        print(USAGE)
        method = next(iter(METHODS))
    check_name(method, METHODS, "method", "`edl list` describes them.")
    about = f"Skill discovery without stages: {method}."
    nested = ("explorer", "baseline") if METHODS[method].offline else ("baseline",)
    return start_run(rest, f"baseline {method}", about, nested=nested, method=method)
