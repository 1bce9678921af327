"""What stage 3 pays. The paper's Eq. 9, r(s,z) = log q(s|z), in four versions, each in any `Distance`.

``log_likelihood``  r_t = log q(s_{t+1}|z) = -d(s_{t+1}, g_z)^2 / 2 + const: the equation, with unit variance.
``shipped``         r_t = -d(s_{t+1}, g_z) + 1{d <= delta}: what the authors' code pays.
``progress``        r_t = d(s_t, g_z) - d(s_{t+1}, g_z): what each step adds to -d. Its undiscounted sum depends on s_0
                    and s_T only, so it asks for the same end state as log q(s_T|z), whose maximum it shares, but the
                    credit for every step is paid at once and returns have the same scale for near and far goals.
``visits``          r_t = 1 / (1 + d(s_{t+1}, g_z)^2): the likelihood itself, of a Cauchy distribution, whose tails
                    leave something to climb from afar. For worlds in which one cannot stay at a goal, e.g. one with a
                    speed (it pays to come by often), or in which episodes end early (being positive, it pays to go on).

and, from the paper's appendix, the road not taken: the reverse form with the posterior of the VQ-VAE, which is one-hot.

``posterior``       r_t = q(z|s_{t+1}): 1 in the region of the skill and 0 outside, sparse and flat.
"""

from collections.abc import Callable

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


def negative(distance: Float[Array, " t1"]) -> Float[Array, " t1"]:
    """-d."""
    return -distance


def likelihood(distance: Float[Array, " t1"]) -> Float[Array, " t1"]:
    """q(s|z) of a Cauchy distribution, up to a constant."""
    return 1 / (1 + distance**2)


SCORES: dict[str, Score] = {
    "log_likelihood": log_likelihood,
    "shipped": negative,
    "progress": negative,
    "visits": likelihood,
}
"""How good it is to be at a distance from the goal, for each reward."""
REWARDS = tuple(SCORES)


def reward(name: str, distance: Distance, radius: float | Scalar, episode: Episode) -> Float[Array, " t"]:
    """The rewards of one episode, r_t being paid for reaching s_{t+1}."""
    d = distance.along(episode.features, episode.skill.goal)
    score = SCORES[name](d)
    if name == "progress":
        return score[1:] - score[:-1]
    if name == "shipped":
        return score[1:] + (d[1:] <= radius)
    return score[1:]


def posterior(skills: SkillModel, episode: Episode) -> Float[Array, " t"]:
    """q(z|s) of the states reached, with q(z|s) one-hot on the nearest code: no distance is in it, and no goal."""
    return (jax.vmap(skills.assign)(episode.features[1:]) == episode.skill.index).astype(jnp.float32)
