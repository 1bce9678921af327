"""The rewards of stage 3: the paper's Eq. 9, r(s,z) = log q(s|z), in four versions, each with any `Distance`.

``log_likelihood``  r_t = log q(s_{t+1}|z) = -d(s_{t+1}, g_z)^2 / 2 + const: the equation, with unit variance.
``shipped``         r_t = -d(s_{t+1}, g_z) + 1{d <= delta}: the reward of the authors' code.
``progress``        r_t = d(s_t, g_z) - d(s_{t+1}, g_z): the increase of -d at each step. Its undiscounted sum depends
                    only on s_0 and s_T, so that it has the same optimal end state as log q(s_T|z). But every step is
                    rewarded at once, and returns have the same scale for near and far goals. Optionally divided by
                    a unit, plus a bonus for each step near the goal.
``visits``          r_t = 1 / (1 + d(s_{t+1}, g_z)^2): the likelihood itself, of a Cauchy distribution, whose heavy
                    tails give a gradient far from the goal. For envs in which the agent cannot stay at a goal, e.g.
                    because it has a velocity (frequent visits are rewarded), or in which episodes can end early (the
                    reward is positive, so longer episodes are better).

The paper's appendix argues against the reverse form, with the one-hot posterior of the VQ-VAE:

``posterior``       r_t = q(z|s_{t+1}): 1 in the region of the skill and 0 outside, i.e. sparse and flat.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillModel
from edl.envs.rollout import Episode
from edl.learn.distance import Distance
from edl.types import Scalar

Score = Callable[[Float[Array, " t1"]], Float[Array, " t1"]]


def log_likelihood(distance: Float[Array, " t1"]) -> Float[Array, " t1"]:
    """log q(s|z) of a Gaussian with unit variance, up to a constant."""
    return -0.5 * distance**2


def negative_distance(distance: Float[Array, " t1"]) -> Float[Array, " t1"]:
    return -distance


def cauchy_likelihood(distance: Float[Array, " t1"]) -> Float[Array, " t1"]:
    """q(s|z) of a Cauchy distribution, up to a constant."""
    return 1 / (1 + distance**2)


SCORES: dict[str, Score] = {
    "log_likelihood": log_likelihood,
    "shipped": negative_distance,
    "progress": negative_distance,
    "visits": cauchy_likelihood,
}
"""For each reward, the score of a state as a function of its distance to the goal."""


class RewardTerms(NamedTuple):
    """Numbers in a reward.

    ``radius`` is the distance within which a goal is reached. For ``progress``, ``bonus`` is the reward of a step
    within it, and ``unit`` is the length by which progress is divided.
    """

    radius: float | Scalar
    bonus: float | Scalar = 0.0
    unit: float | Scalar = 1.0


def reward(name: str, distance: Distance, terms: RewardTerms, episode: Episode) -> Float[Array, " t"]:
    """The rewards r_0 .. r_{T-1} of one episode; r_t is for reaching s_{t+1}."""
    return rewards_along(name, distance.along(episode.features, episode.skill.goal), terms)


def rewards_along(name: str, d: Float[Array, " t1"], terms: RewardTerms) -> Float[Array, " t"]:
    """The rewards of the moves between states whose distances to the goal are ``d``."""
    score = SCORES[name](d)
    if name == "progress":
        return (score[1:] - score[:-1]) / terms.unit + terms.bonus * (d[1:] <= terms.radius)
    if name == "shipped":
        return score[1:] + (d[1:] <= terms.radius)
    return score[1:]


def posterior_reward(skills: SkillModel, episode: Episode) -> Float[Array, " t"]:
    """r_t = q(z|s_{t+1}), one-hot on the nearest code. It uses no distance and no goal."""
    return (jax.vmap(skills.assign)(episode.features[1:]) == episode.skill.index).astype(jnp.float32)
