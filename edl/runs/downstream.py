"""`edl downstream`: sparse tasks, a controller over frozen skills, and the learners that it is compared with.

Goals lie in the `FAR_SHARE` of the env that is farthest from the start: centres of cells in a maze, by walking distance
(in the bottleneck maze they are across the bottleneck); explored states elsewhere, by distance in standard deviations.
All methods in one env get the same goals and the same number of environment steps.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.host import check_hosts
from edl.evaluate.skill_rollouts import last_states, play_skills
from edl.evaluate.statistics import bootstrap
from edl.hierarchy.controller import (
    ControlConfig,
    controller,
    play_tasks,
    ppo_without_skills,
    succeeded,
    zero_shot_success,
)
from edl.hierarchy.envs import goal_env, skill_action_env
from edl.runs.driver import Work, advance, finish, lane_mesh, outline
from edl.runs.evaluation import evaluator_of
from edl.runs.result import Run
from edl.runtime.effort import quick_jit
from edl.types import Key

FILE = "downstream.json"
FIRST_KEY = 1000
"""The first number that is folded into a seed's key; the stages of a run use smaller numbers."""
FAR_SHARE = 0.3
EPISODES = 50
"""Episodes per task that evaluate a learner."""

OnProgress = Callable[[str, float], None]
"""Receives the name of a learner and the share of its training that is done."""


class Tasks(NamedTuple):
    """Goals, and the radius within which they count as reached, per dimension."""

    goals: Float[Array, "g s"]
    radius: Float[Array, " s"]


def tasks_of(run: Run, num_goals: int, radius: float, seed: int = 0) -> Tasks:
    """Goals far from where a run's episodes start."""
    evaluator = evaluator_of(run)
    targets = evaluator.targets if run.layout is None else np.asarray(run.layout.cells, float)
    starts = np.asarray(jax.vmap(lambda key: _first(run.env, key))(jax.random.split(jax.random.key(seed), 64)), float)
    distances = evaluator.distance(starts, targets).mean(axis=0)
    far = np.flatnonzero(distances >= np.quantile(distances, 1 - FAR_SHARE))
    if num_goals > len(far):
        raise ConfigError(f"num_goals must be at most {len(far)} in this env (got {num_goals}). Change --num-goals.")
    chosen = np.random.default_rng(seed).choice(far, num_goals, replace=False)
    size = np.broadcast_to(radius * np.asarray(evaluator.unit, float), evaluator.targets.shape[1:])
    return Tasks(jnp.asarray(targets[chosen], jnp.float32), jnp.asarray(size, jnp.float32))


def _first(env: Env, key: Key) -> Float[Array, " s"]:
    return env.features(env.observe(env.reset(key)))


def downstream(
    run: Run,
    config: ControlConfig,
    tasks: Tasks,
    *,
    compare: Mapping[str, Any] | None = None,
    on_progress: OnProgress = lambda name, share: None,
) -> dict[str, Any]:
    """Train and evaluate. ``compare`` is the result of another run in the same env, whose flat learner is reused."""
    if run.policy is None:
        raise ConfigError(f"{str(run.path)!r} has no policy. Run `edl learn` first.")
    if run.env.horizon % config.hold:
        raise ConfigError(
            f"hold must divide the {run.env.horizon} steps of an episode (got {config.hold}). Change --control.hold."
        )
    shared = (tasks.goals, tasks.radius, config)
    work = Work(controller, (run.env, run.policy, *shared), (False, True, False, False, False))
    curve, learned = _learn(run, work, 0, lambda share: on_progress("controller", share))
    success, skills_used = _evaluate_controller(run, config, tasks, learned)
    result = {
        "env": run.config.env,
        "method": run.config.method,
        "goals": np.asarray(tasks.goals).tolist(),
        "radius": np.asarray(tasks.radius).tolist(),
        "env_steps": config.env_steps,
        "hold": config.hold,
        "controller": {**_summary(success), "curve": curve, "skills_in_a_success": skills_used},
        "zero_shot": _summary(_zero_shot(run, tasks)),
    }
    if compare is not None:
        return {**result, "flat": compare["flat"]}
    flat_work = Work(ppo_without_skills, (run.env, run.policy.normaliser, *shared), (False, True, False, False, False))
    curve, learned = _learn(run, flat_work, 1, lambda share: on_progress("flat", share))
    success = _evaluate_flat(run, tasks, learned)
    return {**result, "flat": {**_summary(success), "curve": curve}}


def _keys(run: Run, number: int) -> Array:
    seeds = np.arange(run.config.seed, run.config.seed + run.config.num_seeds, dtype=np.uint32)
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), FIRST_KEY + number))(seeds)


def _learn(
    run: Run, work: Work, number: int, on_progress: Callable[[float], None]
) -> tuple[dict[str, Any], SkillPolicy]:
    """Run a learner to its end: its learning curve (success by environment steps per task), and its policy."""
    keys = _keys(run, number)
    total = outline(work, len(keys)).iterations
    steps, values, position = [], [], None
    mesh = lane_mesh(len(keys), work.inputs)
    for tick in advance(work, keys, mesh=mesh):
        position = tick.position
        if tick.row is not None:
            steps.append(position.iteration)
            values.append(tick.row["success"])
        on_progress(position.iteration / total)
    assert position is not None
    per_iteration = work.inputs[-1].env_steps / total
    curve = {"env_steps": [int(step * per_iteration) for step in steps], "success": np.asarray(values).T.tolist()}
    return curve, finish(work, position, len(keys), mesh=mesh)


def _evaluate_controller(
    run: Run, config: ControlConfig, tasks: Tasks, learned: SkillPolicy
) -> tuple[Float[np.ndarray, "n g"], float]:
    """Success of each seed on each task, and the number of different skills in a successful episode."""

    def evaluate(key: Key, env: Env, policy: SkillPolicy, each: SkillPolicy) -> tuple[Array, Array]:
        def task(goal: Float[Array, " s"]) -> Env:
            return skill_action_env(goal_env(env, goal, tasks.radius), policy, config.hold)

        episodes = play_tasks(key, each, task, tasks.goals, EPISODES)
        chosen = jax.nn.one_hot(episodes.actions, policy.codes.shape[0]) * episodes.valid[..., None]
        return succeeded(episodes), jnp.sum(jnp.any(chosen > 0, axis=-2), axis=-1)

    won, different = jax.jit(jax.vmap(evaluate, in_axes=(0, None, 0, 0)))(_keys(run, 2), run.env, run.policy, learned)
    check_hosts(run.env)
    won, different = np.asarray(won), np.asarray(different)
    return won.mean(axis=-1), float(different[won].mean()) if won.any() else 0.0


def _evaluate_flat(run: Run, tasks: Tasks, learned: SkillPolicy) -> Float[np.ndarray, "n g"]:
    def evaluate(key: Key, env: Env, each: SkillPolicy) -> Array:
        episodes = play_tasks(key, each, lambda goal: goal_env(env, goal, tasks.radius), tasks.goals, EPISODES)
        return succeeded(episodes)

    won = jax.jit(jax.vmap(evaluate, in_axes=(0, None, 0)))(_keys(run, 3), run.env, learned)
    check_hosts(run.env)
    return np.asarray(won).mean(axis=-1)


def _zero_shot(run: Run, tasks: Tasks) -> Float[np.ndarray, "n g"]:
    """Success of the skill with the nearest goal or, for a method without goals, with the nearest rollout ends."""
    picks = jnp.asarray(np.stack([_nearest(run, seed, tasks) for seed in range(run.config.num_seeds)]))
    play = jax.jit(jax.vmap(zero_shot_success, in_axes=(0, None, 0, 0, None, None, None)), static_argnums=6)
    won = play(_keys(run, 4), run.env, run.policy, picks, *tasks, EPISODES)
    check_hosts(run.env)
    return np.asarray(won)


def _nearest(run: Run, seed: int, tasks: Tasks) -> Int[np.ndarray, " g"]:
    one = run.seed(seed)
    assert one.policy is not None
    goals = one.skills.goals if one.skills is not None else one.policy.goals
    if goals is None:
        ends = last_states(quick_jit(play_skills, "num")(_keys(run, 5)[seed], run.env, one.policy, one.policy.codes))
        goals = np.median(ends, axis=1)
    offsets = (np.asarray(goals)[None] - np.asarray(tasks.goals)[:, None]) / np.asarray(tasks.radius)
    return np.argmin(np.sum(offsets**2, axis=-1), axis=1)


def _summary(success: Float[np.ndarray, "n g"]) -> dict[str, Any]:
    """Mean success with its interval over seeds, and by seed and task."""
    per_seed = np.asarray(success, float).mean(axis=1)
    return {
        "success": float(per_seed.mean()),
        "ci95": list(bootstrap([per_seed])),
        "per_seed": per_seed.tolist(),
        "per_task": np.asarray(success, float).mean(axis=0).tolist(),
    }


def rows_of(result: Mapping[str, Any]) -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Name, success and interval of each learner."""
    for name in ("controller", "flat", "zero_shot"):
        yield name, result[name]["success"], tuple(result[name]["ci95"])
