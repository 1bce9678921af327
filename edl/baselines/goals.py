"""What methods whose skills are goals share: the skill of a goal, K goals to be known by, and how they are reached.

Such a method has as many skills as there are states. K of them stand for all where there must be a finite number: those
nearest to the centroids of the states that the method would take for goals.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.quantiser import lloyd, squared_distances
from edl.program import Program
from edl.rl.sac import SACState
from edl.types import Key, Metrics

LLOYD_STEPS = 50
SUCCESS = 0.5
"""An episode succeeds if it ends this close to its goal (Euclidean, in the units of the world)."""


def goal_skill(goal: Float[Array, " s"]) -> Skill:
    """Go there: the goal is the code."""
    return Skill(code=goal, index=jnp.int32(-1), goal=goal)


def starts(key: Key, env: Env, num: int) -> Float[Array, "n s"]:
    """Where episodes begin: the goals of a method that has been nowhere yet."""
    return jax.vmap(lambda key: env.features(env.observe(env.reset(key))))(jax.random.split(key, num))


def with_goals(
    program: Program[SACState, SkillPolicy], candidates: Callable[[Any], Float[Array, "n s"]], num_skills: int
) -> Program[SACState, SkillPolicy]:
    """The same program, whose policy is known by K of the goals that the objective has come to."""

    def finish(state: SACState) -> SkillPolicy:
        goals = medoids(candidates(state.objective), num_skills)
        return dataclasses.replace(program.finish(state), codes=goals, goals=goals)

    return dataclasses.replace(program, finish=finish)


def medoids(points: Float[Array, "n s"], num: int) -> Float[Array, "k s"]:
    """The points nearest to the centroids of k-means, which begins with points far from each other."""
    centroids = lloyd(points, far_apart(points, num), LLOYD_STEPS)
    gaps = jax.vmap(squared_distances, in_axes=(0, None))(centroids, points)
    return points[jnp.argmin(gaps, axis=1)]


def far_apart(points: Float[Array, "n s"], num: int) -> Float[Array, "k s"]:
    """Each point is the one farthest from those before it; the first, from the mean."""

    def choose(gaps: Float[Array, " n"], at: Array) -> tuple[Float[Array, " n"], Float[Array, " s"]]:
        chosen = points[jnp.argmax(gaps)]
        new = squared_distances(chosen, points)
        return jnp.where(at == 0, new, jnp.minimum(gaps, new)), chosen

    return jax.lax.scan(choose, squared_distances(jnp.mean(points, axis=0), points), jnp.arange(num))[1]


def goal_metrics(episodes: Episode) -> Metrics:
    """How far from their goals episodes ended, and the share that ended within `SUCCESS`."""
    ends = jax.vmap(lambda episode: episode.last)(episodes)
    distances = jnp.linalg.norm(ends - episodes.skill.goal, axis=-1)
    return {"goal_distance": jnp.mean(distances), "goal_success": jnp.mean(distances <= SUCCESS)}
