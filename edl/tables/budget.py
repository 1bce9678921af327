"""Equal budgets: every method gets the environment steps that EDL is configured for, its exploration included.

The methods that learn with SAC play more episodes per iteration than by default, and take one gradient step per
`SAC_UPDATE_EVERY` environment steps. Every transition is then replayed about as often as with their own settings, and
millions of steps are feasible. EDL may stop early; the others use their whole budget.
"""

import dataclasses
import functools
from typing import Any

from edl.config import check
from edl.runs.config import RunConfig
from edl.runs.pipeline import outlines
from edl.runs.resolve import make_context, resolve_config
from edl.tables.table import EDL, EDL_ORACLE, MAZES, TableSettings

SAC_ROLLOUTS = 128
"""Episodes per iteration, as in PPO's default."""
SAC_UPDATE_EVERY = 32
SAC_CAPACITY = 400_000
"""Transitions in the replay buffer: those of the last 60 iterations. The default would hold those of 15."""
LEARN = "learn"


@functools.lru_cache(maxsize=8)
def budget(settings: TableSettings) -> int:
    """The environment steps that every method gets: the most that EDL is configured for, with and without an oracle."""
    return settings.steps or max(configured_steps(settings.config(MAZES[0], method)) for method in (EDL, EDL_ORACLE))


def configured_steps(config: RunConfig) -> int:
    """The environment steps of all stages of a run that does not stop early."""
    return sum(stage_steps(config).values())


def stage_steps(config: RunConfig) -> dict[str, int]:
    """The environment steps of each stage. They do not depend on the maze or on the seeds."""
    return _stage_steps(dataclasses.replace(config, env=MAZES[0], maze=None, seed=0, num_seeds=1))


@functools.lru_cache(maxsize=64)
def _stage_steps(config: RunConfig) -> dict[str, int]:
    facts = outlines(config, make_context(config))
    return {name: each.iterations * each.env_steps for name, each in facts.items()}


@functools.lru_cache(maxsize=1024)
def budgeted(settings: TableSettings, env: str, method: str, steps: int, **changes: Any) -> RunConfig:
    """The config of a method in a maze, with this budget. ``adjust`` also sees the config with its budget."""
    return resolve_config(settings.adjust(with_budget(settings.config(env, method, **changes), steps)))


def with_budget(config: RunConfig, steps: int) -> RunConfig:
    """The same run with as many iterations of its learner as ``steps`` environment steps allow, and at least one."""
    nested = "learner" if config.method == EDL else "baseline"
    method = getattr(config, nested)
    name = "ppo" if hasattr(method, "ppo") else "sac"
    learner = getattr(method, name)
    if name == "sac":
        learner = dataclasses.replace(
            learner, rollouts=SAC_ROLLOUTS, update_every=SAC_UPDATE_EVERY, capacity=SAC_CAPACITY
        )
    changed = _with_learner(config, nested, name, dataclasses.replace(learner, iterations=1))
    taken = stage_steps(changed)
    others = sum(taken.values()) - taken[LEARN]
    check(
        steps > others,
        f"steps must be more than the {others} steps of the stages before learning (got {steps}). Increase --steps.",
    )
    iterations = max((steps - others) // taken[LEARN], 1)
    if config.method == EDL:
        iterations = min(iterations, learner.iterations)
    return _with_learner(config, nested, name, dataclasses.replace(learner, iterations=iterations))


def _with_learner(config: RunConfig, nested: str, name: str, learner: Any) -> RunConfig:
    method = dataclasses.replace(getattr(config, nested), **{name: learner})
    return resolve_config(dataclasses.replace(config, **{nested: method}))
