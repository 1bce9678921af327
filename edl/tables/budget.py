"""Equal budgets: every method gets the environment steps that EDL is configured for, its exploration included.

The methods that learn with SAC play more episodes per iteration than by default, and take one gradient step per
`SAC_UPDATE_EVERY` environment steps. Every transition is then replayed about as often as with their own settings, and
millions of steps are feasible. EDL may stop early; the others use their whole budget. Offline methods get what EDL
explores, and take no other step.
"""

import dataclasses
import functools
from typing import Any

from edl.config import check
from edl.runs.config import RunConfig
from edl.runs.pipeline import outlines
from edl.runs.resolve import is_offline, make_context, resolve_config
from edl.tables.table import EDL, EDL_ORACLE, MAZES, TableSettings, last_stage, setting, with_values

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


def configured_steps(config: RunConfig, until: str = LEARN) -> int:
    """The environment steps of all stages of a run that does not stop early."""
    return sum(stage_steps(config, until).values())


def stage_steps(config: RunConfig, until: str = LEARN) -> dict[str, int]:
    """The environment steps of each stage. They do not depend on the maze or on the seeds."""
    return _stage_steps(dataclasses.replace(config, env=MAZES[0], maze=None, seed=0, num_seeds=1), until)


@functools.lru_cache(maxsize=64)
def _stage_steps(config: RunConfig, until: str) -> dict[str, int]:
    facts = outlines(config, make_context(config), until=until)
    return {name: each.iterations * each.env_steps for name, each in facts.items()}


@functools.lru_cache(maxsize=1024)
def budgeted(settings: TableSettings, env: str, method: str, steps: int, **changes: Any) -> RunConfig:
    """The config of a method in a maze, with this budget. ``adjust`` also sees the config with its budget."""
    config = with_budget(settings.config(env, method, **changes), steps, last_stage(method))
    return resolve_config(settings.adjust(config))


def with_budget(config: RunConfig, steps: int, until: str = LEARN) -> RunConfig:
    """The same run with as many iterations of its last stage as ``steps`` environment steps allow, and at least one."""
    path = path_of_learner(config, until)
    learner = setting(config, path)
    if hasattr(learner, "update_every"):
        learner = dataclasses.replace(
            learner, rollouts=SAC_ROLLOUTS, update_every=SAC_UPDATE_EVERY, capacity=SAC_CAPACITY
        )
    changed = _with_learner(config, path, dataclasses.replace(learner, iterations=1))
    taken = stage_steps(changed, until)
    others = sum(taken.values()) - taken[until]
    check(
        steps > others,
        f"steps must be more than the {others} steps of the stages before learning (got {steps}). Increase --steps.",
    )
    if is_offline(config):
        return config
    iterations = max((steps - others) // taken[until], 1)
    if config.method == EDL and until == LEARN:
        iterations = min(iterations, learner.iterations)
    return _with_learner(config, path, dataclasses.replace(learner, iterations=iterations))


def path_of_learner(config: RunConfig, until: str) -> str:
    """The path of the settings that have the number of iterations of the last stage."""
    part = "explorer" if until != LEARN else "learner" if config.method == EDL else "baseline"
    nested = [name for name in ("ppo", "sac") if hasattr(getattr(config, part), name)]
    return ".".join([part, *nested[:1]])


def _with_learner(config: RunConfig, path: str, learner: Any) -> RunConfig:
    return resolve_config(with_values(config, {path: learner}))
