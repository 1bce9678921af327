"""A config is a frozen dataclass that is also a pytree: floats are traced leaves, everything else is static.

So one program is compiled for a whole grid of learning rates, and a hyperparameter sweep is a ``vmap`` over a config
whose float fields are arrays. The constructor does not validate, because unflattening calls it with tracers. Functions
that take a user's config validate it once, with `check`.
"""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Iterable
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")

MAY_BE_ZERO = {"warmup_iterations", "patience"}
"""Integer fields that may be zero."""
MAY_BE_INFINITE = {"max_gradient_norm", "min_log_density"}
"""Float fields that may be infinite, for no limit."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def config(cls: type[T]) -> type[T]:
    """Make ``cls`` a frozen, keyword-only dataclass whose float and config fields are pytree leaves."""
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    leaves = [name for name in names if is_traced(hints[name])]
    static = [name for name in names if name not in leaves]
    # At run time a leaf may be a tracer or the array of a sweep: the type checker of the tests must not require float.
    cls.__init__.__annotations__.update(dict.fromkeys(leaves, Any))
    return jax.tree_util.register_dataclass(cls, data_fields=leaves, meta_fields=static)


def is_traced(annotation: Any) -> bool:
    """Whether a field of this type is a pytree leaf: a float, another config, or an optional one of either."""
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


def check_numbers(config: Any, where: str = "") -> None:
    """Reject counts below one, negative numbers and NaN, in a config and in the configs nested in it.

    The default of a field determines the range: a float that is negative or infinite by default may be so, and an
    integer that is zero by default may be zero. `MAY_BE_ZERO` and `MAY_BE_INFINITE` list further exceptions. A float
    may be given as an integer. Arrays and tracers are not checked.
    """
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value: Any = getattr(config, field.name)
        default: Any = field.default
        path = f"{where}.{field.name}" if where else field.name
        if dataclasses.is_dataclass(value) and not callable(value):
            check_numbers(value, path)
        elif isinstance(value, int | float) and type(default) is int and not is_traced(hints[field.name]):
            least = 0 if field.name in MAY_BE_ZERO else min(default, 1)
            _check_number(type(value) is int and value >= least, path, value, f"an integer of at least {least}")
        elif isinstance(value, int | float) and type(default) in (int, float):
            _check_number(not isinstance(value, bool) and not math.isnan(value), path, value, "a number")
            unbounded = math.isinf(default) or field.name in MAY_BE_INFINITE
            _check_number(unbounded or not math.isinf(value), path, value, "a finite number")
            _check_number(value >= 0 or default < 0, path, value, "at least 0")
        elif isinstance(value, tuple) and isinstance(default, tuple):
            for each in value:
                _check_number(not isinstance(each, int) or each >= 1, path, value, "integers of at least 1")


def _check_number(valid: bool, path: str, value: Any, expected: str) -> None:
    if not valid:
        raise ConfigError(f"{path} must be {expected} (got {value}). Change --{path.replace('_', '-')}.")


class ConfigError(ValueError):
    """Bad user input. The command line prints the message alone and exits with status 2."""


class RunWarning(UserWarning):
    """Something that the user should know and that does not stop the work. The command line prints the message."""
