"""Keyword arguments as a `RunConfig`, checked as the flags of the command line are.

Settings of a method are given as its config, as a dict, or by dotted names. These three are the same:

    edl.run("square", learner=LearnConfig(ppo=PPOConfig(iterations=50)))    # all other settings have their defaults
    edl.run("square", learner={"ppo": {"iterations": 50}})                  # all other settings are the preset's
    edl.run("square", **{"learner.ppo.iterations": 50})

All of them go through `with_changes`, which checks types and turns integers into floats where a float is wanted. So the
identity of a run does not depend on how its settings were given, and config.json gives the same settings again.
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from edl import baselines, discover, explore
from edl.config import ConfigError, check_name
from edl.learn import LearnConfig
from edl.runs.config import NESTED, RunConfig, is_json_hint, own_fields, typed, with_changes
from edl.runs.presets import complete, default_methods


def build_config(env: str, settings: Mapping[str, Any]) -> RunConfig:
    """The config of a run with these settings. What they leave open is None or empty: `complete` fills it."""
    plain, nested, changes = split_settings(settings)
    config = dataclasses.replace(with_changes(RunConfig(), plain, ""), env=env)
    for name, value in nested.items():
        check_method_config(config, name, value)
        config = dataclasses.replace(config, **{name: _checked(value, name)})
    for name in sorted(changes, key=lambda name: name == "scout"):  # the learner decides whether there is a scout
        completed = complete(config)
        current = getattr(completed, name)
        if current is None:
            raise ConfigError(f"{name} has no settings in this run: it has no such method. Leave out {name}.")
        config = dataclasses.replace(config, **{name: with_changes(current, changes[name], name)})
    return config


def split_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
    """Plain settings of the run, configs of methods, and changes to such configs, as nested dicts."""
    plain: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    changes: dict[str, dict[str, Any]] = {}
    names = own_fields(RunConfig())
    for given, value in settings.items():
        name, dot, rest = given.partition(".")
        check_name(name, names, "setting", "See docs/settings.md.")
        value = _without_arrays(value)
        if name not in NESTED:
            if dot:
                raise ConfigError(f"{name} has no settings of its own (got {given!r}). Pass {name}.")
            plain[name] = value
        elif dot or isinstance(value, Mapping):
            _merge(changes.setdefault(name, {}), _nested(rest, value) if dot else value)
        elif value is not None:
            nested[name] = value
    return plain, nested, changes


def _without_arrays(value: Any) -> Any:
    """A setting with the numbers and arrays of NumPy and JAX as Python numbers and tuples."""
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _without_arrays(each) for name, each in value.items()}
    return tuple(map(_without_arrays, value)) if isinstance(value, list | tuple) else value


def _checked(config: Any, where: str) -> Any:
    """The config of a method with the right types of the values that JSON can hold.

    A config of a user may have others, such as functions and arrays. They stay as they are.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        return config
    hints, values = typing.get_type_hints(type(config)), {}
    for name in own_fields(config):
        value, path = getattr(config, name), f"{where}.{name}"
        if dataclasses.is_dataclass(value) and not callable(value):
            values[name] = _checked(value, path)
        elif is_json_hint(hints[name]):
            values[name] = typed(_without_arrays(value), hints[name], path)
    return dataclasses.replace(config, **values)


def _nested(path: str, value: Any) -> dict[str, Any]:
    """``ppo.iterations`` and 50 become {"ppo": {"iterations": 50}}."""
    head, dot, rest = path.partition(".")
    return {head: _nested(rest, value) if dot else value}


def _merge(into: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value


def check_method_config(config: RunConfig, name: str, value: Any) -> None:
    """Reject settings of a method that are not its config."""
    expected = config_type(config, name)
    if expected is not None and not isinstance(value, expected):
        raise ConfigError(
            f"{name} must be a {expected.__name__} or a dict of its settings (got a {type(value).__name__})."
        )


def config_type(config: RunConfig, name: str) -> type | None:
    """The config of the method that ``name`` holds the settings of; None if the method is not known."""
    if name == "learner":
        return LearnConfig
    chosen = {
        "explorer": (config.explore or default_methods(config)["explore"], explore.METHODS),
        "scout": (default_methods(config)["scout"], explore.METHODS),
        "discoverer": (config.discover or default_methods(config)["discover"], discover.METHODS),
        "baseline": (config.method, baselines.METHODS),
    }
    method, methods = chosen[name]
    return methods[method].config if method in methods else None
