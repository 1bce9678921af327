"""Sibling Rivalry (Trott et al., 2019): two episodes from one start with one skill; each is the other's *antigoal*.

A distance to a goal is deceptive if a wall is in the way: the policy stays at the wall, the nearest point it knows. If
two siblings end apart, each is rewarded for its distance to the point g' where the other got stuck,

    r_T = min(0, -d(s_T, g) + d(s_T, g')) + 1{d(s_T, g) <= delta},   r_t = 1{d(s_{t+1}, g) <= delta} before,

so that a local optimum has no advantage once both siblings end in it. The antigoal g' is the last state s_T' of the
other sibling, or the goal itself if that one succeeded, d(s_T', g) <= delta, as in the authors' code: the reward of the
first is then 0 wherever it ends. The sibling farther from the goal always trains the policy. The closer one trains it
only if the two ended within epsilon of each other, or if it succeeded; a sibling that succeeded counts as ending at the
goal. The critic sees the antigoal; the policy does not.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.rollout import Episode
from edl.learn.distance import Distance
from edl.learn.reward import SCORES
from edl.types import Scalar


def rival_reward(name: str, distance: Distance, radius: float | Scalar, episode: Episode) -> Float[Array, " t"]:
    """The self-balancing terminal reward. -d is the score of the named reward: ``shipped`` is the formula above."""
    to_goal = distance.along(episode.features, episode.skill.goal)
    to_rival = distance.along(episode.features, antigoal(distance, radius, episode))
    score = SCORES[name]
    end = episode.length
    balance = jnp.minimum(0.0, score(to_goal)[end] - score(to_rival)[end])
    inside = jnp.where(episode.valid, to_goal[1:] <= radius, 0.0)
    return inside.at[end - 1].add(balance)


def antigoal(distance: Distance, radius: float | Scalar, episode: Episode) -> Float[Array, " s"]:
    """g': the last state of the other sibling, or the goal if that one succeeded."""
    goal = episode.skill.goal
    return jnp.where(distance.along(episode.rival[None], goal)[0] <= radius, goal, episode.rival)


def rival_weight(distance: Distance, radius: float | Scalar, epsilon: float | Scalar, episode: Episode) -> Scalar:
    """1 if this sibling trains the policy, else 0."""
    goal, end = episode.skill.goal, episode.features[episode.length]
    to_goal = distance.along(episode.features, goal)[episode.length]
    between = distance.along(episode.features, antigoal(distance, radius, episode))[episode.length]
    # A walking distance from a state alone differs from the one along the episode. Siblings compare by the first, which
    # both of them know, so one of them always trains.
    own, other = (distance_of_end(distance, radius, each, goal) for each in (end, episode.rival))
    return ((own >= other) | (between < epsilon) | (to_goal <= radius)).astype(jnp.float32)


def distance_of_end(
    distance: Distance, radius: float | Scalar, end: Float[Array, " s"], goal: Float[Array, " s"]
) -> Scalar:
    """The distance from the last state of an episode to the goal, or 0 if the episode succeeded."""
    to_goal = distance.along(end[None], goal)[0]
    return jnp.where(to_goal <= radius, 0.0, to_goal)
