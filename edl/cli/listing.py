"""``edl list``: all names that the command line takes."""

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console

from edl import baselines, discover, explore
from edl.citation import year_of
from edl.cli.console import new_console, print_line
from edl.cli.options import wants_help
from edl.config import check
from edl.envs.random_maze import EXAMPLE
from edl.envs.registry import ENVS, MazeFactory
from edl.program import Method

ABOUT = "List the envs, explorers, discoverers and methods that can be named on the command line."


def main(words: list[str]) -> int:
    if wants_help(words):
        print(f"usage: edl list\n\n{ABOUT}")
        return 0
    check(not words, f"edl list takes no arguments (got {' '.join(words)!r}).")
    console = new_console()
    print_names(console, "envs (--env)", {name: describe_env(factory) for name, factory in ENVS.items()})
    print_line(console, f"or a maze text file, {EXAMPLE}, ant:MAZE, mjx:FILE.xml, a Gymnasium id, module:name")
    print_names(console, "explorers (--explore)", with_years(describe_methods(explore.METHODS)))
    print_line(console, "or dataset:PATH")
    print_names(console, "discoverers (--discover)", describe_methods(discover.METHODS))
    about = with_years(describe_methods(baselines.METHODS))
    console.print("methods without stages (edl baseline METHOD), by family and year", style="bold")
    for family, names in group_methods(baselines.METHODS).items():
        print_names(console, f" {family}", {name: about[name] for name in names})
    return 0


def print_names(console: Console, title: str, descriptions: Mapping[str, str]) -> None:
    console.print(title, style="bold")
    width = max(map(len, descriptions), default=0)
    for name, about in descriptions.items():
        print_line(console, f"  {name:<{width}}  {about}".rstrip())


def describe_env(factory: Callable[..., Any]) -> str:
    """The size of a maze; for other envs, the first line of the factory's docstring."""
    if isinstance(factory, MazeFactory):
        return f"maze, {len(factory.layout.cells)} cells"
    while isinstance(factory, functools.partial):
        factory = factory.func
    return _first_line(inspect.getdoc(factory))


def describe_methods(methods: Mapping[str, Method]) -> dict[str, str]:
    """The first line of each method's module: it names the paper."""
    return {name: _first_line(sys.modules[method.build.__module__].__doc__) for name, method in methods.items()}


def with_years(descriptions: Mapping[str, str]) -> dict[str, str]:
    """The descriptions after the years of publication. What is in no paper has a blank instead."""
    return {name: f"{year_of(name) or '':<4}  {about}" for name, about in descriptions.items()}


def group_methods(methods: Iterable[str]) -> dict[str, list[str]]:
    """The methods by family, each family in the order of publication. Families of no known method come last."""
    groups: dict[str, list[str]] = {family: [] for family in baselines.FAMILIES}
    for name in sorted(methods, key=lambda name: year_of(name) or math.inf):
        groups.setdefault(baselines.family_of(name), []).append(name)
    return {family: names for family, names in groups.items() if names}


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n", 1)[0]
