"""Sibling Rivalry (Trott et al., 2019): two episodes from one start with one skill, each other's *antigoal*.

A distance to a goal deceives where a wall stands in between: the policy waits at the wall, the nearest point it knows.
Of two siblings that end apart, each is paid for leaving the point where the other got stuck,

    r_T = min(0, -d(s_T, g) + d(s_T, s_T')) + 1{d(s_T, g) <= delta},   r_t = 1{d(s_{t+1}, g) <= delta} before,

so that a local optimum pays nothing once it is common. The sibling farther from the goal always trains the policy; the
closer one only if the two ended within epsilon of each other, or if it succeeded. The critic sees the antigoal, the
policy never does.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.rollout import Episode
from edl.learn.distance import Distance
from edl.learn.reward import SCORES
from edl.types import Scalar


def rival_reward(name: str, distance: Distance, radius: float | Scalar, episode: Episode) -> Float[Array, " t"]:
    """The self-balancing terminal reward; d is the score of the named reward, so ``shipped`` is the formula above."""
    d = distance.along(episode.features, episode.skill.goal)
    away = distance.along(episode.features, episode.rival)
    score = SCORES[name]
    end = episode.length
    balance = jnp.minimum(0.0, score(d)[end] - score(away)[end])
    inside = jnp.where(episode.valid, d[1:] <= radius, 0.0)
    return inside.at[end - 1].add(balance)


def rival_weight(distance: Distance, radius: float | Scalar, epsilon: float | Scalar, episode: Episode) -> Scalar:
    """1 if this sibling trains the policy, else 0."""
    ends = jnp.stack([episode.last, episode.rival])
    mine, other = jnp.linalg.norm(ends - episode.skill.goal, axis=-1)
    succeeded = distance.along(episode.features, episode.skill.goal)[episode.length] <= radius
    apart = jnp.linalg.norm(episode.last - episode.rival)
    return ((mine >= other) | (apart < epsilon) | succeeded).astype(jnp.float32)
