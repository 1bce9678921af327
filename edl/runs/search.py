"""Search methods of a sweep besides the grid: points that are sampled from ranges and choices.

    [search]
    method = "sobol"                 # or "random", or "optuna" (extra `tune`)
    points = 32
    seed = 0
    [search.space]
    "learner.ppo.learning_rate" = { low = 1e-4, high = 1e-2, log = true }
    "learner.ppo.gamma" = { low = 0.9, high = 0.99 }
    "num_skills" = [4, 8, 16]

``random`` and ``sobol`` choose all points at once. ``optuna`` chooses ``batch`` points at a time, so that lanes stay
full, from the results of those before; ``rounds`` splits the seeds of a point, and points that are clearly worse than
the best after a round get no further seeds.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from edl.config import ConfigError, check, check_name

METHODS = ("random", "sobol", "optuna")
FIELDS = ("method", "points", "seed", "space", "batch", "rounds")
ONLY_OPTUNA = ("batch", "rounds")
RANGE = ("low", "high", "log")
MAX_SOBOL_DIMENSIONS = 1000


class Dimension(NamedTuple):
    """A setting, or several that are set together, and its choices or its range. Integers have an integer range."""

    name: str
    low: float | int = 0
    high: float | int = 0
    log: bool = False
    choices: tuple[Any, ...] = ()

    @property
    def is_integer(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def value(self, u: float) -> Any:
        """The value for a number in [0, 1)."""
        if self.choices:
            return self.choices[int(u * len(self.choices))]
        if self.is_integer:
            return int(self.low + math.floor(u * (self.high - self.low + 1)))
        if self.log:
            return float(math.exp(math.log(self.low) + u * (math.log(self.high) - math.log(self.low))))
        return float(self.low + u * (self.high - self.low))


class Search(NamedTuple):
    """The table [search] of a sweep file, checked."""

    method: Literal["random", "sobol", "optuna"]
    points: int
    seed: int
    space: tuple[Dimension, ...]
    batch: int = 16
    rounds: int = 1


def parse_search(table: Mapping[str, Any], whose: str, max_points: int) -> Search:
    """The search of a sweep file; a `ConfigError` names what is wrong."""
    for name in table:
        check_name(name, FIELDS, f"setting in [search] of {whose}:")
    method = table.get("method")
    check(isinstance(method, str), f"[search] in {whose} needs a method: {', '.join(METHODS)}.")
    check_name(str(method), METHODS, f"method in [search] of {whose}:")
    for name in ONLY_OPTUNA:
        check(method == "optuna" or name not in table, f"{name} in [search] of {whose} is a setting of optuna.")
    space = table.get("space")
    if not isinstance(space, dict) or not space:
        raise ConfigError(f"[search.space] in {whose} is empty. Add a setting with a range or a list of values.")
    points = _integer(table, "points", 1, max_points, whose, None)
    batch = _integer(table, "batch", 1, max_points, whose, min(16, points))
    rounds = _integer(table, "rounds", 1, 100, whose, 1)
    seed = _integer(table, "seed", 0, 2**31 - 1, whose, 0)
    dimensions = tuple(_dimension(name, each, whose) for name, each in space.items())
    return Search(method, points, seed, dimensions, batch, rounds)  # pyright: ignore[reportArgumentType]


def sample(search: Search) -> list[tuple[Any, ...]]:
    """The values of all points of ``random`` or ``sobol``."""
    size = len(search.space)
    if search.method == "random":
        units = np.random.default_rng(search.seed).random((search.points, size))
    else:
        units = sobol(search.points, size, search.seed)
    return [tuple(each.value(float(u)) for each, u in zip(search.space, row, strict=True)) for row in units]


def sobol(points: int, size: int, seed: int) -> np.ndarray:
    """The first points of a scrambled Sobol sequence. It is balanced if their number is a power of two."""
    from scipy.stats import qmc

    check(size <= MAX_SOBOL_DIMENSIONS, f"sobol has at most {MAX_SOBOL_DIMENSIONS} dimensions (got {size}).")
    generator = np.random.default_rng(seed)
    try:
        engine = qmc.Sobol(size, rng=generator)
    except TypeError:  # SciPy 1.14
        engine = qmc.Sobol(size, seed=generator)  # pyright: ignore[reportCallIssue]
    return engine.random_base2(max(math.ceil(math.log2(points)), 0))[:points]


def centre(search: Search) -> tuple[Any, ...]:
    """The values of a point in the middle of the space, for checks."""
    return tuple(each.value(0.5) for each in search.space)


def _integer(table: Mapping, name: str, low: int, high: int, whose: str, default: int | None) -> int:
    value = table.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} in [search] of {whose} must be an integer from {low} to {high:,} (got {value!r}).")
    return value


def _dimension(name: str, given: Any, whose: str) -> Dimension:
    where = f"{name} in [search.space] of {whose}"
    if isinstance(given, list):
        check(len(given) > 0, f"{where} must have at least one value.")
        return Dimension(name, choices=tuple(given))
    if not isinstance(given, dict):
        raise ConfigError(f"{where} must be a list of values, or a range {{ low = 0.1, high = 1.0 }} (got {given!r}).")
    for key in given:
        check_name(key, RANGE, f"setting of {where}:")
    low, high, log = given.get("low"), given.get("high"), given.get("log", False)
    check(_is_number(low) and _is_number(high), f"{where} needs two numbers, low and high (got {given!r}).")
    check(isinstance(log, bool), f"log of {where} must be true or false (got {log!r}).")
    assert low is not None  # both are numbers
    assert high is not None
    check(low < high, f"low of {where} must be less than high (got {low} and {high}).")
    check(not log or low > 0, f"low of {where} must be above 0 for log = true (got {low}).")
    found = Dimension(name, low, high, log)
    check(not (log and found.is_integer), f"{where}: log = true needs a range of floats, e.g. {float(low)}.")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def clearly_worse(scores: Mapping[str, Mapping[str, Any] | None], goal: Literal["max", "min"]) -> set[str]:
    """The points whose 95 % interval is on the worse side of that of the best point, and those without a score."""
    known = {name: score for name, score in scores.items() if score is not None}
    if not known:
        return set(scores)
    sign = 1 if goal == "max" else -1
    best = max(known.values(), key=lambda score: sign * score["mean"])
    bound = min(sign * end for end in best["ci95"])
    return {name for name in scores if name not in known or max(sign * e for e in known[name]["ci95"]) < bound}


def round_seeds(num_seeds: int, rounds: int) -> list[int]:
    """The seeds of each round, about equally many."""
    rounds = min(rounds, num_seeds)
    return [len(part) for part in np.array_split(np.arange(num_seeds), rounds)]


def seeds_before(sizes: Sequence[int], number: int) -> int:
    return sum(sizes[:number])
