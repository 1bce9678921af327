"""Skills that are goal states (DISCERN, Skew-Fit): the skill of a goal, and K example goals.

Such a method has one skill per state. Evaluation needs a finite number of skills, so we use K examples: the medoids of
the method's own candidate goals.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy, TargetAsGoal
from edl.envs.base import Env
from edl.envs.rollout import Skill
from edl.graph.landmarks import farthest_points
from edl.nets.linalg import squared_distances
from edl.nets.quantiser import lloyd
from edl.program import Program
from edl.rl.sac import SACState
from edl.types import Key

LLOYD_STEPS = 50


def goal_skill(goal: Float[Array, " s"]) -> Skill:
    """The skill of reaching ``goal``. The goal itself is the code."""
    return Skill(code=goal, index=jnp.int32(-1), goal=goal)


def start_states(key: Key, env: Env, num: int) -> Float[Array, "n s"]:
    """Features of ``num`` start states: the first goals, before any state has been visited."""
    return jax.vmap(env.features)(start_observations(key, env, num))


def start_observations(key: Key, env: Env, num: int) -> Float[Array, "n o"]:
    """Observations of ``num`` start states."""
    return jax.vmap(lambda key: env.observe(env.reset(key)))(jax.random.split(key, num))


def with_example_goals(
    program: Program[SACState, SkillPolicy], candidates: Callable[[Any], Float[Array, "n s"]], num_skills: int
) -> Program[SACState, SkillPolicy]:
    """The same program, but its policy has K example goals, and any state can be its goal (`TargetAsGoal`).

    ``candidates`` reads all goals from the objective state.
    """

    def finish(state: SACState) -> SkillPolicy:
        goals = medoids(candidates(state.objective), num_skills)
        return dataclasses.replace(program.finish(state), codes=goals, goals=goals, pick=TargetAsGoal())

    return dataclasses.replace(program, finish=finish)


def medoids(points: Float[Array, "n s"], num: int) -> Float[Array, "k s"]:
    """The points nearest to the centroids of k-means, which starts from `initial_centroids`."""
    centroids = lloyd(points, initial_centroids(points, num), LLOYD_STEPS)
    gaps = jax.vmap(squared_distances, in_axes=(0, None))(centroids, points)
    return points[jnp.argmin(gaps, axis=1)]


def initial_centroids(points: Float[Array, "n s"], num: int) -> Float[Array, "k s"]:
    """Farthest-point sampling. The first point is the one farthest from the mean."""
    first = points[jnp.argmax(squared_distances(jnp.mean(points, axis=0), points))]
    chosen, _ = farthest_points(points, squared_distances(first, points), num - 1)
    return jnp.concatenate([first[None], points[chosen]])
