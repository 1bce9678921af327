"""A config is a frozen dataclass that is also a pytree: floats are traced leaves, everything else is static.

One program is therefore compiled for a whole grid of learning rates, and a hyperparameter sweep is a ``vmap`` over a
config whose float fields are arrays. Construction validates nothing, because unflattening constructs with tracers:
a config is checked once, at the edge, by `check`.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")

MAY_BE_ZERO = {"warmup_iterations", "patience"}
"""Counts for which zero means: leave it out."""
MAY_BE_INFINITE = {"max_gradient_norm"}
"""Numbers for which infinity means: no limit."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def config(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen, keyword-only dataclass whose float and config fields are pytree leaves."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    leaves = [name for name in names if is_traced(hints[name])]
    static = [name for name in names if name not in leaves]
    # At run time a leaf may be a tracer or the array of a sweep: the tests' type checker must not insist on float.
    cls.__init__.__annotations__.update(dict.fromkeys(leaves, Any))
    return jax.tree_util.register_dataclass(cls, data_fields=leaves, meta_fields=static)


def is_traced(annotation: Any) -> bool:
    """Whether a field of this type is a leaf: a float, another config, or either of them made optional."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return any(is_traced(part) for part in typing.get_args(annotation))
    return annotation is float or dataclasses.is_dataclass(annotation)


def check(condition: bool, message: str) -> None:
    """Raise a `ConfigError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise ConfigError(message)


def check_name(name: str, known: Iterable[str], what: str, hint: str = "") -> None:
    """Reject a name that is not in ``known``, suggest the closest one, and list them all."""
    known = list(known)
    if name not in known:
        close = difflib.get_close_matches(name.lower(), known, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown {what} {name!r}.{guess} Available: {', '.join(known)}. {hint}".rstrip())


class ConfigError(ValueError):
    """Bad user input. The command line prints the message alone and exits with status 2."""
