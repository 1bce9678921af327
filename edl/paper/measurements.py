"""Measurements that several figures share: rollouts of a run, its metrics per seed, and positions in a maze."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.evaluate import play_skills
from edl.evaluate.skill_rollouts import NUM_ROLLOUTS
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


def metric_per_seed(run: Run, name: str) -> list[float]:
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


def end_spread(last: Float[np.ndarray, "seeds k n 2"]) -> list[float]:
    """Mean distance between the end of a rollout and the mean end of its skill, per seed."""
    return np.mean(np.linalg.norm(last - last.mean(axis=2, keepdims=True), axis=-1), axis=(1, 2)).tolist()
