"""Limits that are checked before any stage runs: a run that cannot fit into memory, or cannot end, is refused."""

import collections
import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from edl.config import ConfigError, check
from edl.evaluate.skill_rollouts import NUM_ROLLOUTS
from edl.evaluate.summary import NUM_TARGETS
from edl.runs.config import RunConfig
from edl.runs.driver import Outline

MAX_COUNT = 2**31 - 1
"""Iterations are counted in 32 bits."""
MAX_ITERATIONS = 100_000_000
MAX_SKILLS = 100_000
MAX_SEEDS = 100_000
MAX_LAYERS = 100
"""Compiling a network takes a second per dozen layers."""
LARGE = 1_000_000
COUNTS_WITHOUT_ARRAYS = ("iterations", "seed")
MEMORY_SHARE = 0.75
"""Share of the memory that a run may need by these estimates, which leave out temporary arrays."""
COPIES_TO_SAVE = 2
"""Arrays are copied twice while they are written: to bytes, and to the bytes of the file."""
KEY_BYTES = 8
"""Every iteration of every seed has a random key."""
MAX_ENV_STEPS_PER_SECOND = 1e9
"""More than any device reaches, so that only runs are refused that would take too long on every device."""
MAX_ITERATIONS_PER_SECOND = 1e5
MAX_DAYS = 60
SECONDS_PER_DAY = 86400
USUAL_ITERATIONS_PER_SECOND = 1e3
"""What one run of the default learner reaches on a fast GPU."""
EVALUATION_BYTES = 5 * NUM_ROLLOUTS * NUM_TARGETS * 8
"""Bytes per skill that the evaluation needs: the distances from the last states to all targets, of the skills and of
random actions, a resample of each, and one for temporary arrays."""
EVALUATION_SECONDS = 1.0
"""What the evaluation of a seed with ten skills takes."""


def check_sizes(config: RunConfig) -> None:
    """Refuse numbers that are too large to build the programs of a run on any machine."""
    check(
        config.num_skills <= MAX_SKILLS,
        f"{_evaluation(config)}, and must be at most {MAX_SKILLS}. Ask for fewer skills.",
    )
    days = config.num_seeds * EVALUATION_SECONDS / SECONDS_PER_DAY
    check(
        config.num_seeds <= MAX_SEEDS,
        f"num_seeds={config.num_seeds} would take about {days:,.0f} days to evaluate, and must be at most {MAX_SEEDS}. "
        "Start several runs with other --seed.",
    )
    for path, count in collections.Counter(path for path, _ in _integers(config, "")).items():
        check(count <= MAX_LAYERS, f"{path} must have at most {MAX_LAYERS} numbers (got {count}). Leave some out.")
    for path, value in _integers(config, ""):
        check(value <= MAX_COUNT, f"{path} must be at most {MAX_COUNT} (got {value}). Choose a smaller number.")
        if path.rsplit(".", 1)[-1] == "iterations":
            _check_iterations(path, value)


def check_skills(config: RunConfig) -> None:
    """Refuse more skills than can be evaluated on this machine, or than the discoverer has samples of p(s)."""
    needed, usable = _evaluation(config), usable_memory()
    check(
        config.num_skills * EVALUATION_BYTES <= usable,
        f"{needed}, and {format_bytes(usable)} can be used. Ask for fewer skills.",
    )
    samples = getattr(config.discoverer, "num_samples", config.num_skills)
    check(
        config.num_skills <= samples,
        f"num_skills={config.num_skills} exceeds num_samples={samples}: raise num_samples of the discoverer "
        f"(--discoverer.num-samples {config.num_skills}), or ask for fewer skills. {needed}.",
    )


def _evaluation(config: RunConfig) -> str:
    needed = format_bytes(config.num_skills * EVALUATION_BYTES)
    return f"num_skills={config.num_skills} needs about {needed} of memory to evaluate"


def _check_iterations(path: str, value: int) -> None:
    days = value / USUAL_ITERATIONS_PER_SECOND / SECONDS_PER_DAY
    check(
        value <= MAX_ITERATIONS,
        f"{path}={value} would take about {days:,.0f} days at {USUAL_ITERATIONS_PER_SECOND:,.0f} iterations per "
        f"second, and must be at most {MAX_ITERATIONS}. Choose a smaller number.",
    )
    check_memory(f"{path}={value}", value * KEY_BYTES)


def traced(trace: Callable[[], dict[str, Outline]]) -> dict[str, Outline]:
    """The outlines of a run; a `ConfigError` if its arrays are too large to be described."""
    try:
        return trace()
    except (OverflowError, MemoryError) as error:
        raise ConfigError(
            f"the arrays of this run are too large ({error or 'out of memory'}). Choose smaller numbers, e.g. of "
            "rollouts or samples."
        ) from error


def check_estimates(config: RunConfig, found: Mapping[str, Outline]) -> None:
    """Refuse stages whose state, keys and artifacts do not fit into memory, or that take too long on any device.

    Seeds run in parts that fit, so one seed has to fit together with the artifacts of all.
    """
    artifacts = 0
    for name, each in found.items():
        saved = tree_bytes(each.artifact)
        artifacts += saved
        state = tree_bytes(each.state) / config.num_seeds + each.iterations * KEY_BYTES
        what = f"stage {name!r} with {each.iterations} iterations and num_seeds={config.num_seeds}"
        check_memory(what, state + artifacts + COPIES_TO_SAVE * saved)
        _check_time(what, each.iterations, each.env_steps * config.num_seeds)


def check_memory(what: str, needed: int | float) -> None:
    """Refuse what needs more memory than can be used."""
    usable = usable_memory()
    if needed > usable:
        raise ConfigError(
            f"{what} needs at least {format_bytes(needed)} of memory, and {format_bytes(usable)} can be used. "
            "Choose smaller numbers."
        )


def _check_time(what: str, iterations: int, env_steps: int) -> None:
    seconds = iterations * max(1 / MAX_ITERATIONS_PER_SECOND, env_steps / MAX_ENV_STEPS_PER_SECOND)
    days = seconds / SECONDS_PER_DAY
    if days > MAX_DAYS:
        raise ConfigError(
            f"{what} would take over {days:.0f} days on the fastest device (at most {MAX_DAYS} are allowed). "
            "Choose smaller numbers."
        )


def large_settings(config: RunConfig) -> list[tuple[str, int]]:
    """Settings so large that only the compiler knows whether a stage fits into memory, with their paths."""
    return [
        (path, value)
        for path, value in _integers(config, "")
        if value >= LARGE and path.rsplit(".", 1)[-1] not in COUNTS_WITHOUT_ARRAYS
    ]


def _integers(config: Any, where: str) -> Iterable[tuple[str, int]]:
    """All integers of a config and of the configs in it, with their paths."""
    for field in dataclasses.fields(config):
        value, path = getattr(config, field.name), f"{where}{field.name}"
        if dataclasses.is_dataclass(value) and not callable(value):
            yield from _integers(value, f"{path}.")
        else:
            several = value if isinstance(value, tuple) else (value,)
            yield from ((path, each) for each in several if isinstance(each, int) and not isinstance(each, bool))


def tree_bytes(tree: PyTree) -> int:
    """The size of arrays, of which only the shapes need to be known."""
    leaves = jax.tree.leaves(jax.eval_shape(_without_keys, tree))
    return sum(int(np.prod(leaf.shape, dtype=object)) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def _without_keys(tree: PyTree) -> PyTree:
    is_key = lambda leaf: jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if is_key(leaf) else leaf, tree)


def usable_memory() -> float:
    return MEMORY_SHARE * total_memory()


def total_memory() -> float:
    """Bytes of memory of all devices, or of this machine if they share its memory."""
    stats = [device.memory_stats() for device in jax.local_devices()]
    limits = [each["bytes_limit"] for each in stats if each and "bytes_limit" in each]
    return float(sum(limits)) if limits else float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def format_bytes(count: int | float) -> str:
    """12345678 -> 11.8 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.0f} TiB" if count < 1e6 else "over a million TiB"
