"""The grid of a sweep: a file with the settings of a run, and for some of them a list of values.

    metric = "goal_success"          # decides which point is best
    [run]                            # as in a run's config.json
    env = "bottleneck"
    num_seeds = 10
    [grid]                           # every combination is a point
    "learner.epsilon" = [2.5, 5.0]
    "learner.ppo.learning_rate, learner.ppo.last_learning_rate" = [3e-4, 1e-3]      # set together

All values of the settings that are floats run in one vmapped program, and so do all mazes, e.g. with
``env = ["square", "random:8x8?seed=1"]``. Every combination of the other settings is compiled separately.

Instead of [grid], [search] samples points from ranges: see docs/sweep.md.
"""

import dataclasses
import itertools
import json
import math
import tomllib
import typing
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from edl.config import ConfigError, check, check_name
from edl.evaluate.metrics import METRICS
from edl.interop.env_names import is_maze
from edl.runs import store
from edl.runs.config import NESTED, RunConfig, own_fields
from edl.runs.points import program_key
from edl.runs.presets import from_json
from edl.runs.resolve import resolve_config
from edl.runs.search import Search, centre, parse_search, sample

MAX_POINTS = 10_000
MAX_DEPTH = 20
MAX_INTEGER = 2**63
FIELDS = ("metric", "goal", "run", "grid", "search")


class Axis(NamedTuple):
    """One axis of the grid: settings that take the same value together. ``traced``: its values share one program."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    traced: bool

    @property
    def label(self) -> str:
        """The name of the axis in tables: the last word of its first setting."""
        return self.names[0].rsplit(".", 1)[-1]


class Point(NamedTuple):
    """One combination of values, in the order of the axes, and the config of its run."""

    number: int
    values: tuple[Any, ...]
    config: RunConfig

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:03d}"


class SweepGrid(NamedTuple):
    """All points of a sweep. The points of a group share their programs. ``content`` is the parsed file.

    With a ``search``, an axis has the value of each point. Points of ``optuna`` are added while the sweep runs.
    """

    axes: tuple[Axis, ...]
    groups: tuple[tuple[Point, ...], ...]
    metric: str
    goal: Literal["max", "min"]
    content: dict[str, Any]
    search: Search | None = None

    @property
    def points(self) -> list[Point]:
        return sorted(itertools.chain(*self.groups), key=lambda point: point.number)


def read(path: str | Path) -> SweepGrid:
    """The grid in a TOML or JSON file."""
    whose, data = str(path), store.read_file(path)
    if Path(path).suffix == ".json":
        return parse(store.parse_json(data, whose), whose)
    try:
        content = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # what TOML and its numbers and text can raise
        raise ConfigError(f"{whose} is not valid TOML ({error}). Fix it, or pass a file that ends in .json.") from error
    return parse(content, whose)


def parse(content: Any, whose: str) -> SweepGrid:
    """The grid, checked: every setting is known and has the right type, and every point is a valid run."""
    if not isinstance(content, dict):
        raise ConfigError(f"{whose} must hold a table with [run] and [grid] or [search].")
    for name in content:
        check_name(name, FIELDS, f"setting in {whose}:", "Settings of the run go under [run].")
    metric = str(content.get("metric", "goal_success"))
    check_name(metric, METRICS, f"metric in {whose}:")
    goal = content.get("goal", "max" if METRICS[metric].direction == "higher" else "min")
    if goal not in ("max", "min"):
        raise ConfigError(f"goal in {whose} must be 'max' or 'min' (got {goal!r}). Change it, or leave it out.")
    run, grid = (_table(content, name, whose) for name in ("run", "grid"))
    if "search" in content:
        return _parse_search(content, metric, goal, whose)
    if not grid:
        raise ConfigError(f"[grid] in {whose} is empty. Add a setting with a list of values.")
    _check_count(grid, whose)
    _check_plain(content, whose)
    lists = {name: _values(name, values, whose) for name, values in grid.items()}
    first = {name: values[0] for name, values in lists.items()}
    traced = {name: _is_traced(name, values, run, first, whose) for name, values in lists.items()}
    axes = tuple(Axis(split(name), values, traced[name]) for name, values in lists.items())
    return SweepGrid(axes, tuple(_groups(axes, run, whose)), metric, goal, content)


def _parse_search(content: dict[str, Any], metric: str, goal: Literal["max", "min"], whose: str) -> SweepGrid:
    """The points of a search; of ``optuna`` only one in the middle of the space, which is not run."""
    check("grid" not in content, f"{whose} has [grid] and [search]. Keep one of them.")
    _check_plain(content, whose)
    search = parse_search(_table(content, "search", whose), whose, MAX_POINTS)
    empty = SweepGrid((), (), metric, goal, content, search)
    return with_points(empty, [centre(search)] if search.method == "optuna" else sample(search), whose)


def with_points(grid: SweepGrid, rows: Sequence[Sequence[Any]], whose: str = "the sweep file") -> SweepGrid:
    """The grid of a search with points that have these values."""
    search, run = grid.search, grid.content.get("run", {})
    assert search is not None  # a grid has the points of its axes
    names = [split(each.name) for each in search.space]
    first = {each.name: value for each, value in zip(search.space, rows[0], strict=True)}
    axes = []
    for index, each in enumerate(search.space):
        values = tuple(row[index] for row in rows)
        traced = _is_traced(each.name, each.choices or values, run, first, whose)
        axes.append(Axis(names[index], values, traced))
    return grid._replace(
        axes=tuple(axes), groups=tuple(_grouped(tuple(axes), [tuple(row) for row in rows], run, whose))
    )


def _check_count(grid: Mapping[str, Any], whose: str) -> None:
    """Refuse a grid with too many points before they are expanded."""
    points = math.prod(len(values) for values in grid.values() if isinstance(values, list))
    if points > MAX_POINTS:
        raise ConfigError(
            f"the grid of {whose} must have at most {MAX_POINTS:,} points (got {points:,}). "
            "Remove values, or split the sweep into several files."
        )


def _check_plain(value: Any, whose: str, depth: int = 0) -> None:
    """Reject what a config cannot hold: dates, which TOML has, numbers that are too large, and deep nesting."""
    if depth > MAX_DEPTH:
        raise ConfigError(f"{whose} is nested more than {MAX_DEPTH} levels deep. Settings need at most four.")
    if isinstance(value, Mapping):
        for each in value.values():
            _check_plain(each, whose, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_plain(each, whose, depth + 1)
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ConfigError(f"{whose} has a number of over 64 bits. Choose a smaller number.")
    elif not isinstance(value, str | int | float | None):
        kind = type(value).__name__
        raise ConfigError(f"{whose} has a {kind} ({value}). Settings are numbers, text, lists and tables.")


def split(name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in name.split(","))


def _table(content: Mapping[str, Any], name: str, whose: str) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{name} in {whose} must be a table of settings (got {found!r}).")
    return found


def _values(name: str, values: Any, whose: str) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{name} in the grid of {whose} must be a list of at least one value (got {values!r}).")
    if len({(isinstance(value, bool), json.dumps(value, sort_keys=True)) for value in values}) < len(values):
        raise ConfigError(f"{name} in the grid of {whose} has the same value twice (got {values!r}). Remove one.")
    return tuple(values)


def _is_traced(name: str, values: tuple, run: Mapping, first: Mapping[str, Any], whose: str) -> bool:
    """Whether all values of an axis are floats or mazes. Settings that the first point does not have are rejected."""
    base = _config(run, {path: value for names, value in first.items() for path in split(names)}, whose)
    hints = {path: _hint(base, path, whose) for path in split(name)}
    mazes = all(isinstance(value, str) and is_maze(value) for value in values)
    return all(hint is float or (path == "env" and mazes) for path, hint in hints.items())


def _hint(config: Any, path: str, whose: str) -> Any:
    """The type of a setting."""
    hint: Any = type(config)
    for word in path.split("."):
        if not dataclasses.is_dataclass(config):
            raise ConfigError(f"setting {path!r} in {whose} does not exist: this run has no such stage or setting.")
        check_name(word, own_fields(config), f"setting in {path!r} of {whose}:")
        hint, config = typing.get_type_hints(type(config))[word], getattr(config, word)
    return hint


def _groups(axes: tuple[Axis, ...], run: Mapping, whose: str) -> Iterator[tuple[Point, ...]]:
    """Points grouped by their programs. Points are numbered like rows of a table: the last axis varies fastest."""
    return _grouped(axes, itertools.product(*(axis.values for axis in axes)), run, whose)


def _grouped(
    axes: tuple[Axis, ...], rows: Iterable[tuple[Any, ...]], run: Mapping, whose: str
) -> Iterator[tuple[Point, ...]]:
    groups: dict[Hashable, list[Point]] = {}
    for number, values in enumerate(rows):
        pairs = list(zip(axes, values, strict=True))
        config = _config(run, {name: value for axis, value in pairs for name in axis.names}, whose)
        groups.setdefault(program_key(config), []).append(Point(number, values, config))
    yield from map(tuple, groups.values())


def _config(run: Mapping, changes: Mapping[str, Any], whose: str) -> RunConfig:
    """The config of one point, complete and checked. Names with dots in ``run`` are settings in its tables."""
    run = json.loads(json.dumps(run))
    dotted = {name: value for name, value in run.items() if "." in name}
    merged = {name: value for name, value in run.items() if name not in dotted}
    for path, value in {**dotted, **changes}.items():
        *parents, last = path.split(".")
        check_name(path.split(".", 1)[0], own_fields(RunConfig()), f"setting in {path!r} of {whose}:")
        place = merged
        for word in parents:
            place = place.setdefault(word, {})
            if not isinstance(place, dict):
                raise ConfigError(f"setting {path!r} in {whose} does not exist: {word!r} has no settings.")
        place[last] = value
    config = resolve_config(from_json(merged, whose))
    for name in NESTED:
        if merged.get(name) and getattr(config, name) is None:
            raise ConfigError(f"{whose} sets {name}, but this run has no {name}. Remove those settings.")
    return config
