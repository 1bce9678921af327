"""`RunConfig`, all settings of one run, and its form as JSON.

A preset gives every setting a value, a saved config.json may change some, and the user's flags or arguments win.
"""

import dataclasses
import itertools
import math
import reprlib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from edl.config import ConfigError, check_name
from edl.explore.region import describe

DATASET = "dataset:"
"""Prefix of ``--explore dataset:PATH``: states from a file."""
GIVEN = "python:"
"""Prefix of the name of what a user passed as a Python object: ``discover="python:HASH"`` are skills,
``explore="dataset:python:HASH"`` are states, and ``explore="python:HASH"`` are states with experience."""
NESTED = ("explorer", "scout", "discoverer", "learner", "baseline")
DERIVED = {"region", "num_skills"}
"""Fields of nested configs that are set from the run's own fields and are therefore not repeated in JSON."""
TYPE_NAMES = {
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "tuple": "a list of integers",
}
"""Types of settings in words."""
RENAMED = {"recall": "objective_batch_size", "refresh": "refresh_rewards", "keep_actions": "target_entropy_share"}
"""Settings that had another name in edl 0.1, whose config files can still be read."""

NEUTRAL: dict[str, dict[str, Any]] = {
    "SACConfig": {"entropy_in_value": True, "random_episodes": 0},
    "BeyondConfig": {"inputs": "world"},
    "DIAYNConfig": {"match_policy": False, "sees": "features"},
    "METRAConfig": {"match_policy": False, "sees": "features", "constraint": "sum"},
}
"""Settings that were added within a version, by the name of their config, and the values with which the code computes
what it computed before. With these values they are no part of an identity, so results that were there stay valid."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Settings of one run.

    Nested configs belong to the methods named above them; a stage that does not run has None.
    """

    env: str = "square"
    """Name of an env (see `edl list`), path of a maze file, random maze, Gymnasium id, or ``module:name``."""
    maze: str | None = None
    """Text of the maze or MuJoCo model if ``env`` names a file, so that a run can be loaded after the file is gone."""
    features: Any = None
    """What skills are about, in an env that offers a choice: dimensions of the observation ("0,1") or a function."""
    horizon: int = 0
    """Steps per episode; 0 uses the env's own horizon."""
    timed: bool | None = None
    """Whether the policy sees the time left in the episode (not in mazes and robots). None: if the method needs it."""
    method: str = "edl"
    """``edl``, or the name of a baseline."""
    explore: str = ""
    """Name of an explorer, or ``dataset:PATH``."""
    discover: str = ""
    """Name of a discoverer."""
    preset: str = "fast"
    """Source of the default settings: ``fast`` or ``paper``."""
    num_skills: int = 10
    """Number of skills."""
    num_seeds: int = 1
    """Number of seeds. As many seeds at a time as suit the devices."""
    seed: int = 0
    """First seed."""
    region: Any = None
    """A predicate of one state, or its text, e.g. "x > 0": p(s) is restricted to it."""
    explorer: Any = None
    scout: Any = None
    discoverer: Any = None
    learner: Any = None
    baseline: Any = None


def to_json(config: Any) -> dict[str, Any]:
    """A config as JSON: nested configs as objects, a region as its text, infinity as ``"inf"``."""
    return {name: _to_json_value(getattr(config, name)) for name in own_fields(config)}


def all_settings(settings: Any) -> Any:
    """The JSON form of settings with derived fields included: everything that a stage depends on. See `NEUTRAL`."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        neutral = NEUTRAL.get(type(settings).__name__, {})
        values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
        return {
            name: all_settings(value) for name, value in values.items() if name not in neutral or value != neutral[name]
        }
    return _to_json_value(settings)


def own_fields(config: Any) -> list[str]:
    """The fields of a config that are not derived from the run's."""
    names = [field.name for field in dataclasses.fields(config)]
    return names if isinstance(config, RunConfig) else [name for name in names if name not in DERIVED]


def _to_json_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not callable(value):
        return to_json(value)
    if callable(value):
        return describe(value)  # type: ignore[arg-type]
    if isinstance(value, tuple | list):
        return [_to_json_value(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def with_changes(config: Any, changes: Any, where: str) -> Any:
    """``config`` with the fields that ``changes`` (read from JSON) sets, after checking their names and types."""
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{where} must be an object of settings (got {changes!r}).")
    hints = typing.get_type_hints(type(config))
    known, values = own_fields(config), {}
    for given, value in changes.items():
        name = RENAMED[given] if given not in known and RENAMED.get(given) in known else given
        check_name(name, known, f"setting in {where}:" if where else "setting", "Remove or rename it.")
        current, path = getattr(config, name), f"{where}.{name}" if where else name
        nested = dataclasses.is_dataclass(current)
        values[name] = with_changes(current, value, path) if nested else typed(value, hints[name], path)
    return dataclasses.replace(config, **values)


def is_json_hint(hint: Any) -> bool:
    """Whether JSON can hold the values of a field of this type: numbers, texts, and tuples of them."""
    parts = [part for part in typing.get_args(hint) if part not in (type(None), Ellipsis)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType, tuple):
        return all(map(is_json_hint, parts))
    return hint in (int, float, bool, str) or typing.get_origin(hint) is Literal


def typed(value: Any, hint: Any, where: str) -> Any:
    """A JSON value converted to the type of its field."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is typing.Union or isinstance(hint, types.UnionType):
        if value is None and type(None) in parts:
            return None
        return typed(value, next(part for part in parts if part is not type(None)), where)
    if origin is Literal:
        if value in parts and isinstance(value, type(parts[parts.index(value)])):
            return value
    elif hint is float:
        if (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("inf", "-inf"):
            return _to_float(value, where)
    elif origin is tuple and isinstance(value, list | tuple):
        return tuple(typed(each, parts[0], where) for each in value)
    elif isinstance(hint, type) and isinstance(value, hint) and (hint is not int or not isinstance(value, bool)):
        return value
    name = "tuple" if origin is tuple else getattr(hint, "__name__", str(hint))
    expected = f"one of {', '.join(map(repr, parts))}" if origin is Literal else TYPE_NAMES.get(name, name)
    raise ConfigError(f"{where} must be {expected} (got {reprlib.repr(value)}).")


def _to_float(value: Any, where: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ConfigError(f"{where} must be a number that fits into 64 bits (got one of over 300 digits).") from error


def differences(before: RunConfig, now: RunConfig) -> list[str]:
    """The settings in which two configs differ."""
    pairs = _paired_settings(to_json(before), to_json(now), "")
    return [_difference(path, a, b) for path, a, b in pairs if a != b]


def _difference(path: str, before: Any, now: Any) -> str:
    """A setting that differs, in words. Of texts with many lines, e.g. the XML of a robot, only the first such line."""
    where = path
    if isinstance(before, str) and isinstance(now, str) and "\n" in before + now:
        lines = itertools.zip_longest(before.split("\n"), now.split("\n"))
        number, before, now = next((i, a, b) for i, (a, b) in enumerate(lines, 1) if a != b)
        where = f"line {number} of {path}"
    return f"{where} was {before!r} and is now {now!r}"


def _paired_settings(one: Mapping, other: Mapping, where: str) -> Iterable[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*one, *other]):
        a, b = one.get(name), other.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _paired_settings(a, b, f"{where}{name}.")
        else:
            yield f"{where}{name}", a, b


def plain_settings(saved: Any, whose: str) -> RunConfig:
    """The settings of a saved config that are not nested; a `ConfigError` if it is no config."""
    if not isinstance(saved, dict):
        raise ConfigError(f"{whose} is not a run's config: it must be a JSON object such as a saved config.json.")
    for name in ("features", "region"):  # in Python they may be functions; a file has their text
        if not isinstance(saved.get(name), str | None):
            raise ConfigError(f"{name} in {whose} must be text (got {reprlib.repr(saved[name])}).")
    plain = {name: value for name, value in saved.items() if name not in (*NESTED, "region")}
    return with_changes(RunConfig(), plain, Path(whose).name)
