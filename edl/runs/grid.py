"""What a sweep is asked to do: a file that names a run, and for some of its settings a list of values.

    metric = "goal_success"          # what the best point is picked by; "goal_distance" and the like are minimised
    [run]                            # as in a run's config.json
    env = "bottleneck"
    num_seeds = 10
    [grid]                           # every combination is a point
    "learner.epsilon" = [2.5, 5.0]
    "learner.ppo.learning_rate, learner.ppo.last_learning_rate" = [3e-4, 1e-3]      # set together

Settings that are floats become one vmapped program; the others, of which a program is compiled for each value, are an
outer loop around it.
"""

import dataclasses
import itertools
import json
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from edl.config import ConfigError
from edl.runs import stages, store
from edl.runs.result import from_json
from edl.config import check_name
from edl.runs.config import NESTED, RunConfig, own_fields

FIELDS = ("metric", "goal", "run", "grid")
METRICS = (
    "goal_success",
    "goal_distance",
    "skill_coverage",
    "zero_shot_distance",
    "mutual_information",
    "state_entropy",
    "data_coverage",
    "discriminability",
)


class Axis(NamedTuple):
    """One direction of the grid: settings that take the same value together. ``traced`` ones are floats."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    traced: bool

    @property
    def label(self) -> str:
        """How the axis is called in tables: by the last word of its first setting."""
        return self.names[0].rsplit(".", 1)[-1]


class Point(NamedTuple):
    """One combination of values, in the order of the axes, and the run it stands for."""

    number: int
    values: tuple[Any, ...]
    config: RunConfig

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:03d}"


class Grid(NamedTuple):
    """A sweep. ``groups`` are points whose programs are the same."""

    axes: tuple[Axis, ...]
    groups: tuple[tuple[Point, ...], ...]
    metric: str
    goal: Literal["max", "min"]

    @property
    def points(self) -> list[Point]:
        """All points, in order of their number."""
        return sorted(itertools.chain(*self.groups), key=lambda point: point.number)


def read(path: str | Path) -> Grid:
    """The grid that a TOML or JSON file asks for."""
    whose, data = str(path), store.read_file(path)
    if Path(path).suffix == ".json":
        return parse(store.parse_json(data, whose), whose)
    try:
        return parse(tomllib.loads(data.decode()), whose)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{whose} is not TOML ({error}): mend it, or give a file that ends in .json.") from error


def parse(asked: Any, whose: str) -> Grid:
    """The grid, checked: every setting known and of the right type, every point a run that could be made."""
    if not isinstance(asked, dict):
        raise ConfigError(f"{whose} holds no table: a sweep with [run] and [grid] is wanted.")
    for name in asked:
        check_name(name, FIELDS, f"setting {name!r} of a sweep in {whose}", "Settings of the run go under [run].")
    metric = asked.get("metric", METRICS[0])
    check_name(str(metric), METRICS, f"metric {metric!r} in {whose}")
    goal = asked.get("goal", "min" if "distance" in metric else "max")
    if goal not in ("max", "min"):
        raise ConfigError(f"goal={goal!r} in {whose}: 'max' or 'min' is wanted. Change it, or leave it out.")
    run, grid = (_table(asked, name, whose) for name in ("run", "grid"))
    if not grid:
        raise ConfigError(f"{whose} has an empty [grid]: a setting with a list of values is wanted. Add one.")
    lists = {name: _values(name, values, whose) for name, values in grid.items()}
    traced = {name: _is_traced(name, run, {n: v[0] for n, v in lists.items()}, whose) for name in lists}
    axes = tuple(Axis(split(name), values, traced[name]) for name, values in lists.items())
    return Grid(axes, tuple(_groups(axes, run, whose)), metric, goal)


def split(name: str) -> tuple[str, ...]:
    """The settings of an axis."""
    return tuple(part.strip() for part in name.split(","))


def _table(asked: Mapping[str, Any], name: str, whose: str) -> dict[str, Any]:
    found = asked.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{name}={found!r} in {whose}: a table of settings is wanted.")
    return found


def _values(name: str, values: Any, whose: str) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{name}={values!r} in the grid of {whose}: a list of at least one value is wanted.")
    if any(one == other for one, other in itertools.combinations(values, 2)):
        raise ConfigError(f"{name}={values!r} in the grid of {whose}: the same value twice. Leave one out.")
    return tuple(values)


def _is_traced(name: str, run: Mapping, first: Mapping[str, Any], whose: str) -> bool:
    """Whether all settings of an axis are floats; and refuse those that the run, at its first point, does not have."""
    base = _config(run, {each: value for name, value in first.items() for each in split(name)}, whose)
    return all(_hint(base, path, whose) is float for path in split(name))


def _hint(config: Any, path: str, whose: str) -> Any:
    """The type of a setting."""
    hint: Any = type(config)
    for word in path.split("."):
        if not dataclasses.is_dataclass(config):
            raise ConfigError(f"{path!r} in {whose}: this run has no such stage, or {word!r} is not one of settings.")
        check_name(word, own_fields(config), f"setting {path!r} in {whose}", "Rename it.")
        hint, config = typing.get_type_hints(type(config))[word], getattr(config, word)
    return hint


def _groups(axes: tuple[Axis, ...], run: Mapping, whose: str) -> Iterator[tuple[Point, ...]]:
    """Points with the same values of what is static; numbered as a table would list them, the last axis fastest."""
    groups: dict[str, list[Point]] = {}
    for number, values in enumerate(itertools.product(*(axis.values for axis in axes))):
        pairs = list(zip(axes, values, strict=True))
        config = _config(run, {name: value for axis, value in pairs for name in axis.names}, whose)
        static = json.dumps([value for axis, value in pairs if not axis.traced])
        groups.setdefault(static, []).append(Point(number, values, config))
    yield from map(tuple, groups.values())


def _config(run: Mapping, changes: Mapping[str, Any], whose: str) -> RunConfig:
    """The run of one point, complete and checked."""
    merged = json.loads(json.dumps(run))
    for path, value in changes.items():
        *parents, last = path.split(".")
        check_name(path.split(".", 1)[0], own_fields(RunConfig()), f"setting {path!r} in {whose}", "Rename it.")
        place = merged
        for word in parents:
            place = place.setdefault(word, {})
        place[last] = value
    config = stages.settle(from_json(merged, whose))
    for name in NESTED:
        if merged.get(name) and getattr(config, name) is None:
            raise ConfigError(f"{name} has settings in {whose}, but this run has no {name}. Leave them out.")
    return config


def unique(keys: Iterable[str]) -> tuple[list[int], list[int]]:
    """Where each different key is first, and for every key the number of its like among those."""
    first: dict[str, int] = {}
    places, which = [], []
    for index, key in enumerate(keys):
        if key not in first:
            first[key] = len(places)
            places.append(index)
        which.append(first[key])
    return places, which
