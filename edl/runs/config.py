"""What a run is asked to do, all of it: `RunConfig`, its form as JSON, and the checks at the edge.

A preset gives every setting a value, a saved config.json may change some, and what the user says last wins.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from edl.config import MAY_BE_INFINITE, MAY_BE_ZERO, ConfigError, check_name
from edl.explore.region import describe

DATASET = "dataset:"
"""``--explore dataset:PATH``: states from a file."""
NESTED = ("explorer", "scout", "discoverer", "learner", "baseline")
DERIVED = {"region", "num_skills"}
"""Fields of nested configs that are set from the run's own, and are therefore not repeated."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One run. The nested configs belong to the methods named above them; a stage that is not run has None."""

    env: str = "square"
    maze: str | None = None
    """The text of the maze, where ``env`` was a file: a run can be loaded after the file is gone."""
    features: Any = None
    """In a Gymnasium world, what skills are about: dimensions of its observations ("0,1"), or a function of them."""
    horizon: int = 0
    """In a Gymnasium world, the steps of an episode; 0 leaves that to the world."""
    method: str = "edl"
    """``edl``, or the name of a baseline."""
    explore: str = ""
    discover: str = ""
    preset: str = "fast"
    num_skills: int = 10
    num_seeds: int = 1
    seed: int = 0
    region: Any = None
    """A predicate of one state, or its text."""
    explorer: Any = None
    scout: Any = None
    discoverer: Any = None
    learner: Any = None
    baseline: Any = None


def to_json(config: Any) -> dict[str, Any]:
    """A config as JSON: nested ones as objects, a region as its text, infinity as ``"inf"``."""
    return {name: _plain(getattr(config, name)) for name in own_fields(config)}


def own_fields(config: Any) -> list[str]:
    """The fields that a config decides by itself."""
    names = [field.name for field in dataclasses.fields(config)]
    return names if isinstance(config, RunConfig) else [name for name in names if name not in DERIVED]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not callable(value):
        return to_json(value)
    if callable(value):
        return describe(value)  # type: ignore[arg-type]
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def amended(config: Any, changes: Any, where: str) -> Any:
    """``config`` with the fields that ``changes``, read from JSON, names. Types are checked; messages say ``where``."""
    if not isinstance(changes, Mapping):
        raise ConfigError(f"{where}={changes!r}: an object of settings is wanted. Mend the config file.")
    hints = typing.get_type_hints(type(config))
    known, values = own_fields(config), {}
    for name, value in changes.items():
        path = f"{where}.{name}"
        check_name(name, known, "setting", "Remove or rename it.")
        current = getattr(config, name)
        nested = dataclasses.is_dataclass(current)
        values[name] = amended(current, value, path) if nested else _typed(value, hints[name], path)
    return dataclasses.replace(config, **values)


def _typed(value: Any, hint: Any, where: str) -> Any:
    """A value from JSON as the field's type has it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is typing.Union or isinstance(hint, types.UnionType):
        if value is None and type(None) in parts:
            return None
        return _typed(value, next(part for part in parts if part is not type(None)), where)
    if origin is Literal:
        if value in parts and isinstance(value, type(parts[parts.index(value)])):
            return value
    elif hint is float:
        if (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("inf", "-inf"):
            return float(value)
    elif origin is tuple and isinstance(value, list):
        return tuple(_typed(each, parts[0], where) for each in value)
    elif isinstance(hint, type) and isinstance(value, hint) and (hint is not int or not isinstance(value, bool)):
        return value
    wanted = f"one of {', '.join(map(repr, parts))}" if origin is Literal else getattr(hint, "__name__", str(hint))
    raise ConfigError(f"{where}={value!r}: {wanted} is wanted. Mend that setting.")


def check_numbers(config: Any, where: str) -> None:
    """Refuse counts below one and negative or undefined numbers, all through a config.

    What a number may be is told by its default (one that is negative or infinite by default may be so, and an integer
    that is zero by default may be zero) or by its name.
    """
    for field in dataclasses.fields(config):
        value, usual = getattr(config, field.name), field.default
        path = f"{where}.{field.name}" if where else field.name
        if dataclasses.is_dataclass(value) and not callable(value):
            check_numbers(value, path)
        elif isinstance(value, bool) or isinstance(usual, bool):
            continue
        elif isinstance(value, int) and isinstance(usual, int):
            least = 0 if field.name in MAY_BE_ZERO else min(usual, 1)
            _refuse(value < least, path, value, f"an integer of at least {least}")
        elif isinstance(value, float) and isinstance(usual, int | float):
            _refuse(math.isnan(value), path, value, "a number")
            bounded = math.isfinite(usual) and field.name not in MAY_BE_INFINITE
            _refuse(math.isinf(value) and bounded, path, value, "a finite number")
            _refuse(value < 0 <= usual, path, value, "a number that is not negative")
        elif isinstance(value, tuple):
            for each in value:
                _refuse(isinstance(each, int) and each < 1, path, value, "integers of at least 1")


def _refuse(wrong: bool, path: str, value: Any, wanted: str) -> None:
    if wrong:
        flag = f"--{path.replace('_', '-')}"
        raise ConfigError(f"{path}={value}: {wanted} is wanted. Change {flag}.")


def differences(one: RunConfig, other: RunConfig) -> list[str]:
    """What differs between two configs, setting by setting."""
    return [f"{path} was {a!r} and is now {b!r}" for path, a, b in _pairs(to_json(one), to_json(other), "") if a != b]


def _pairs(one: Mapping, other: Mapping, where: str) -> Iterable[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*one, *other]):
        a, b = one.get(name), other.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            yield from _pairs(a, b, f"{where}{name}.")
        else:
            yield f"{where}{name}", a, b


Preset = Callable[[RunConfig], RunConfig]
"""Fills the nested configs of the methods that a run names, where they are None."""
