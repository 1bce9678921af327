"""Measurements that several figures share: rollouts of a run, its metrics per seed, and positions in a maze."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from edl.artifacts import SkillModel
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.evaluate import play_skills
from edl.evaluate.coverage import cells_of
from edl.evaluate.distances import distances_to_goals, success_per_skill
from edl.evaluate.geodesic import Geodesic
from edl.evaluate.skill_rollouts import NUM_ROLLOUTS, last_states
from edl.evaluate.summary import visits_by_skill
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
from edl.runtime.effort import quick_jit

Runs = Mapping[str, Run]
"""The runs of a figure by their label."""


def play_run(run: Run, num: int = NUM_ROLLOUTS) -> Episode:
    """``num`` rollouts per skill and seed, on the host. The default repeats the rollouts of the run's metrics."""
    assert run.policy is not None  # every run of a figure has finished
    goals = None if run.skills is None else run.skills.goals
    play = jax.vmap(
        lambda key, policy, goals: quick_jit(play_skills, "num")(key, run.env, policy, policy.codes, goals, num=num),
        in_axes=(0, 0, None if goals is None else 0),
    )
    return jax.device_get(play(stage_keys(run.config, "evaluate"), run.policy, goals))


def first_seed_paths(episodes: Episode) -> Float[np.ndarray, "k n t s"]:
    """The paths of the first seed. Figures always show the first seed, so that seeds are not selected by hand."""
    return np.asarray(episodes.features[0])


def metric_per_seed(run: Run, name: str) -> list[float | None]:
    """A metric of each seed; None if the run does not have it, e.g. goal_success without goals."""
    assert run.metrics is not None  # every run of a figure was evaluated
    return [seed[name] for seed in run.metrics["per_seed"]]


def run_numbers(runs: Runs) -> dict[str, Any]:
    """The metrics of each run, per seed and aggregated, for the JSON file of a figure."""
    kept = ("per_seed", "aggregate", "random", "steps", "seconds")
    return {label: {name: (run.metrics or {}).get(name) for name in kept} for label, run in runs.items()}


def lower_left_cell(layout: Layout) -> Float[np.ndarray, " 2"]:
    """Position of the lower left cell. Coordinates relative to it do not depend on the start of the maze."""
    return np.asarray(layout.cells).min(axis=0)


def right_share(last: Float[np.ndarray, "seeds k n 2"], border: float) -> list[float]:
    """Share of the rollouts of each seed that end at x > ``border``."""
    return np.mean(last[..., 0] > border, axis=(1, 2)).tolist()


MAJORITY = 0.5
"""A skill does something if more than this share of its rollouts does."""
PerSkill = Bool[np.ndarray, "seeds k"]
"""A property of each skill of each seed."""


def reaches_goal(run: Run, episodes: Episode) -> PerSkill:
    """Whether most rollouts of a skill end at its goal, by walking distance."""
    assert run.skills is not None
    assert run.layout is not None
    paired = Geodesic.from_layout(run.layout).paired
    last, goals = last_states(episodes), np.asarray(run.skills.goals, float)
    shares = [success_per_skill(distances_to_goals(x, g, paired)) for x, g in zip(last, goals, strict=True)]
    return np.stack(shares) > MAJORITY


def ends_in_region(run: Run, episodes: Episode) -> PerSkill:
    """Whether most rollouts of a skill end in a state to which q(z|s) assigns this skill."""

    def assign(skills: SkillModel, states: Float[jax.Array, "k n 2"]) -> Int[jax.Array, "k n"]:
        return jax.vmap(jax.vmap(skills.assign))(states)

    last = last_states(episodes).astype(np.float32)
    assigned = np.asarray(jax.jit(jax.vmap(assign))(run.skills, last))
    return np.mean(assigned == np.arange(last.shape[1])[:, None], axis=2) > MAJORITY


def visited_cells(layout: Layout, episodes: Episode) -> Bool[np.ndarray, "seeds cells"]:
    """Whether any rollout of a seed visits each reachable cell."""
    cells = cells_of(layout)
    counts = np.asarray(jax.vmap(visits_by_skill, in_axes=(None, 0))(cells, episodes))
    return np.any(counts[..., :-1], axis=1)[:, np.asarray(cells.reachable)]


def path_spread(paths: Float[np.ndarray, "seeds k n t 2"], chosen: PerSkill) -> list[float | None]:
    """How unpredictable trajectories are: the distance of a state from the mean state of its skill at the same step.

    It is averaged over all steps and rollouts of the chosen skills. A seed without any has None.
    """
    from_mean = np.linalg.norm(paths - paths.mean(axis=2, keepdims=True), axis=-1)
    per_skill = from_mean.mean(axis=(2, 3))
    return [float(x[c].mean()) if c.any() else None for x, c in zip(per_skill, chosen, strict=True)]


def shares(chosen: PerSkill) -> list[float]:
    """Share of the skills of each seed that are chosen."""
    return chosen.mean(axis=1).tolist()
