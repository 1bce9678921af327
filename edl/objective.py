"""A method is an objective: what the one learner maximises.

The four functions are the columns of the paper's Table 1, where p(z), p(s), p(s|z) and p(z|s) come from. Reverse MI,
forward MI, DIAYN, VIC, ... learn while the policy does; EDL's objective is frozen, and that is the paper.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.rollout import Episode, Skill
from edl.types import Key, Metrics, Scalar


def no_extra_input(state: Any, episode: Episode) -> Float[Array, " 0"]:
    """The critic sees no more than the policy."""
    return jnp.zeros(0)


def train_on_all(state: Any, episode: Episode) -> Scalar:
    """Every episode trains the policy."""
    return jnp.float32(1.0)


def keep_skill(key: Key, state: Any, step: Episode, later: Float[Array, " s"]) -> Skill:
    """A step is replayed with the skill it was played with."""
    return step.skill


class Linear(NamedTuple):
    """A reward r_t = phi_t . z that is linear in the code z, as successor features want it.

    ``cumulants`` are the features phi_0 .. phi_{T-1} of an episode, and ``policies`` are codes z_1 .. z_g for each code
    of a batch, whose policies are compared when that of the code is improved (generalised policy improvement).
    """

    cumulants: Callable[[Any, Episode], Float[Array, "t d"]]
    policies: Callable[[Float[Array, "n d"]], Float[Array, "g n d"]]


def unchanged(state: Any, episodes: Episode) -> Any:
    """The reward of an episode does not depend on the others played beside it."""
    return state


class Objective(NamedTuple):
    """What a method learns besides the policy, which skills it asks for, and what it pays.

    ``init``    whatever it learns: a discriminator, a density, a goal buffer, nothing.
    ``sample``  z ~ p(z): fixed, learned (VIC), a curriculum (VALOR), a goal buffer (DISCERN, Skew-Fit).
    ``reward``  the rewards r_0 .. r_{T-1} of one episode, r_t being paid for reaching s_{t+1}; the learner vmaps.
    ``update``  learn from a batch of episodes, and report; EDL reports only.

    The others say how episodes are played and used, and most methods leave them alone. Sibling Rivalry is why the first
    three exist: it plays ``siblings = 2`` episodes per skill from one start (each finds the other's end in
    `episode.rival`), its critic sees the antigoal too (``privileged``), and not every sibling trains the policy
    (``weight``). ``before_rewards`` takes in the batch of episodes that is about to be paid, for rewards that depend on it as a
    whole (the visit counts of SNN4HRL). PPO knows these alone, and SAC the rest:

    ``relabel`` the skill that a step, an episode of length one, is replayed with; ``later`` is a state that its episode
                reached then or thereafter, drawn uniformly (hindsight).
    ``linear``  what the reward is made of, if it is linear in z: the critics then learn successor features.
    """

    init: Callable[[Key], Any]
    sample: Callable[[Key, Any], Skill]
    reward: Callable[[Any, Episode], Float[Array, " t"]]
    update: Callable[[Key, Any, Episode], tuple[Any, Metrics]]
    siblings: int = 1
    privileged: Callable[[Any, Episode], Float[Array, " c"]] = no_extra_input
    weight: Callable[[Any, Episode], Scalar] = train_on_all
    before_rewards: Callable[[Any, Episode], Any] = unchanged
    relabel: Callable[[Key, Any, Episode, Float[Array, " s"]], Skill] = keep_skill
    linear: Linear | None = None


VisitReward = Callable[[Any, Float[Array, " s"], Skill], Scalar]


def per_visit(reward: VisitReward) -> Callable[[Any, Episode], Float[Array, " t"]]:
    """Lift a reward r(s, z) written for one state to an episode: r_t = r(s_{t+1}, z)."""

    def of_episode(state: Any, episode: Episode) -> Float[Array, " t"]:
        return jax.vmap(reward, in_axes=(None, 0, None))(state, episode.features[1:], episode.skill)

    return of_episode


def at_the_end(reward: Callable[[Any, Episode], Scalar]) -> Callable[[Any, Episode], Float[Array, " t"]]:
    """Lift a reward for a whole episode: paid at its last valid step, nothing before."""

    def of_episode(state: Any, episode: Episode) -> Float[Array, " t"]:
        return jnp.zeros(episode.valid.shape[0]).at[episode.length - 1].set(reward(state, episode))

    return of_episode


MoveReward = Callable[[Any, Float[Array, " s"], Float[Array, " s"], Skill], Scalar]


def per_move(reward: MoveReward) -> Callable[[Any, Episode], Float[Array, " t"]]:
    """Lift a reward r(s, s', z) written for one move to an episode: r_t = r(s_t, s_{t+1}, z)."""

    def of_episode(state: Any, episode: Episode) -> Float[Array, " t"]:
        before, after = episode.features[:-1], episode.features[1:]
        return jax.vmap(reward, in_axes=(None, 0, 0, None))(state, before, after, episode.skill)

    return of_episode
