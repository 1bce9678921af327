"""`edl downstream`: what skills are good for. Sparse tasks, a controller over frozen skills, and what it has to beat.

Goals are far from the start, in the farthest `FAR` of the world: centres of cells in a maze, by walking distance (in
the bottleneck maze they are across the bottleneck); explored states elsewhere, by distance in standard deviations. All
methods of one world get the same goals and the same number of environment steps.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from edl import evaluate
from edl.artifacts import SkillPolicy
from edl.config import ConfigError
from edl.hierarchy.controller import ControlConfig, controller, flat, play_tasks, succeeded, zero_shot
from edl.hierarchy.envs import goal_world, skill_world
from edl.envs.base import Env
from edl.envs.host import check_hosts
from edl.evaluate.evaluate import last_states
from edl.evaluate.statistics import bootstrap
from edl.runs.assess import yardstick_of
from edl.runs.driver import Work, advance, finish, outline
from edl.runs.result import Run
from edl.types import Key

FILE = "downstream.json"
FIRST_KEY = 1000
"""Folded into a seed's key; the stages of a run have smaller numbers."""
FAR = 0.3
EPISODES = 50
"""Of each task, by which what was learned is judged."""

Say = Callable[[str, float], None]
"""Who wants to know which learner is how far."""


class Tasks(NamedTuple):
    """Goals, and how near is near enough, along each dimension."""

    goals: Float[Array, "g s"]
    radius: Float[Array, " s"]


def tasks_of(run: Run, num_goals: int, radius: float, seed: int = 0) -> Tasks:
    """Goals far from where a run's episodes start."""
    yardstick = yardstick_of(run)
    targets = yardstick.targets if run.layout is None else np.asarray(run.layout.cells, float)
    starts = np.asarray(jax.vmap(lambda key: _first(run.env, key))(jax.random.split(jax.random.key(seed), 64)), float)
    distances = yardstick.distance(starts, targets).mean(axis=0)
    far = np.flatnonzero(distances >= np.quantile(distances, 1 - FAR))
    if num_goals > len(far):
        raise ConfigError(f"num_goals={num_goals}: at most {len(far)} are wanted. Change --num-goals.")
    chosen = np.random.default_rng(seed).choice(far, num_goals, replace=False)
    size = np.broadcast_to(radius * np.asarray(yardstick.unit, float), yardstick.targets.shape[1:])
    return Tasks(jnp.asarray(targets[chosen], jnp.float32), jnp.asarray(size, jnp.float32))


def _first(env: Env, key: Key) -> Float[Array, " s"]:
    return env.features(env.observe(env.reset(key)))


def downstream(
    run: Run,
    config: ControlConfig,
    tasks: Tasks,
    *,
    compare: Mapping[str, Any] | None = None,
    say: Say = lambda name, share: None,
) -> dict[str, Any]:
    """Learn and judge. ``compare`` is the result of another run in the same world, whose flat learner is taken over."""
    if run.policy is None:
        raise ConfigError(f"{str(run.path)!r} has no policy: skills are wanted. Run `edl learn` first.")
    if run.env.horizon % config.hold:
        raise ConfigError(
            f"hold={config.hold}: a divisor of the {run.env.horizon} steps of an episode is wanted. "
            "Change --control.hold."
        )
    shared = (tasks.goals, tasks.radius, config)
    work = Work(controller, (run.env, run.policy, *shared), (False, True, False, False, False))
    curve, learned = _learn(run, work, 0, lambda share: say("controller", share))
    success, skills_used = _judge(run, config, tasks, learned)
    result = {
        "env": run.config.env,
        "method": run.config.method,
        "goals": np.asarray(tasks.goals).tolist(),
        "radius": np.asarray(tasks.radius).tolist(),
        "env_steps": config.env_steps,
        "hold": config.hold,
        "controller": {**_summary(success), "curve": curve, "skills_in_a_success": skills_used},
        "zero_shot": _summary(_null(run, tasks)),
    }
    if compare is not None:
        return {**result, "flat": compare["flat"]}
    flat_work = Work(flat, (run.env, run.policy.normaliser, *shared), (False, True, False, False, False))
    curve, learned = _learn(run, flat_work, 1, lambda share: say("flat", share))
    success = _judge_flat(run, tasks, learned)
    return {**result, "flat": {**_summary(success), "curve": curve}}


def _keys(run: Run, number: int) -> Array:
    seeds = np.arange(run.config.seed, run.config.seed + run.config.num_seeds, dtype=np.uint32)
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), FIRST_KEY + number))(seeds)


def _learn(run: Run, work: Work, number: int, say: Callable[[float], None]) -> tuple[dict[str, Any], SkillPolicy]:
    """Run a learner to its end: success by environment steps on a task, one row per seed, and what it learned."""
    keys = _keys(run, number)
    total = outline(work, len(keys)).iterations
    steps, values, position = [], [], None
    for tick in advance(work, keys):
        position = tick.position
        if tick.row is not None:
            steps.append(position.iteration)
            values.append(tick.row["success"])
        say(position.iteration / total)
    assert position is not None
    per_iteration = work.inputs[-1].env_steps / total
    curve = {"env_steps": [int(step * per_iteration) for step in steps], "success": np.asarray(values).T.tolist()}
    return curve, finish(work, position, len(keys))


def _judge(
    run: Run, config: ControlConfig, tasks: Tasks, learned: SkillPolicy
) -> tuple[Float[np.ndarray, "n g"], float]:
    """Success of each seed on each task, and how many different skills a successful episode chains."""

    def judge(key: Key, env: Env, policy: SkillPolicy, each: SkillPolicy) -> tuple[Array, Array]:
        def task(goal: Float[Array, " s"]) -> Env:
            return skill_world(goal_world(env, goal, tasks.radius), policy, config.hold)

        episodes = play_tasks(key, each, task, tasks.goals, EPISODES)
        chosen = jax.nn.one_hot(episodes.actions, policy.codes.shape[0]) * episodes.valid[..., None]
        return succeeded(episodes), jnp.sum(jnp.any(chosen > 0, axis=-2), axis=-1)

    won, different = jax.jit(jax.vmap(judge, in_axes=(0, None, 0, 0)))(_keys(run, 2), run.env, run.policy, learned)
    check_hosts(run.env)
    won, different = np.asarray(won), np.asarray(different)
    return won.mean(axis=-1), float(different[won].mean()) if won.any() else 0.0


def _judge_flat(run: Run, tasks: Tasks, learned: SkillPolicy) -> Float[np.ndarray, "n g"]:
    def judge(key: Key, env: Env, each: SkillPolicy) -> Array:
        episodes = play_tasks(key, each, lambda goal: goal_world(env, goal, tasks.radius), tasks.goals, EPISODES)
        return succeeded(episodes)

    won = jax.jit(jax.vmap(judge, in_axes=(0, None, 0)))(_keys(run, 3), run.env, learned)
    check_hosts(run.env)
    return np.asarray(won).mean(axis=-1)


def _null(run: Run, tasks: Tasks) -> Float[np.ndarray, "n g"]:
    """Success of the skill whose goal is nearest; of a method without goals, the one whose rollouts end nearest."""
    picks = jnp.asarray(np.stack([_nearest(run, seed, tasks) for seed in range(run.config.num_seeds)]))
    play = jax.jit(jax.vmap(zero_shot, in_axes=(0, None, 0, 0, None, None, None)), static_argnums=6)
    won = play(_keys(run, 4), run.env, run.policy, picks, *tasks, EPISODES)
    check_hosts(run.env)
    return np.asarray(won)


def _nearest(run: Run, seed: int, tasks: Tasks) -> Int[np.ndarray, " g"]:
    one = run.seed(seed)
    assert one.policy is not None
    goals = one.skills.goals if one.skills is not None else one.policy.goals
    if goals is None:
        ends = last_states(evaluate.rollouts(_keys(run, 5)[seed], run.env, one.policy, one.policy.codes))
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
    """What was compared: name, success and interval."""
    for name in ("controller", "flat", "zero_shot"):
        yield name, result[name]["success"], tuple(result[name]["ci95"])
