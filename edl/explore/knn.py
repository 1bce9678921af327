"""Particle entropy (APT: Liu and Abbeel, 2021; RE3: Seo et al., 2021): a state is novel if its neighbours are far away.

The entropy of the visited states is estimated from the distances between particles. The reward that maximises it is

    r(s') = log(c + 1/k sum_{s_j in kNN(s')} ||s' - s_j||),

where the s_j are a uniform sample of all states visited so far.

Departs from the papers: distances are between whitened states, not between learned (APT) or random (RE3) embeddings of
images, because our states are already low-dimensional features; and neighbours come from a reservoir of fixed size
instead of the whole replay buffer, so that the cost of a step stays constant.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import States
from edl.config import check, config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.bonus import explore_with_bonus, no_skill, reached_states
from edl.explore.collect import reservoir_rows
from edl.explore.region import Predicate
from edl.nets.linalg import mean_nearest
from edl.nets.normalise import RunningMoments, running_moments
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOState
from edl.types import Key, Metrics, Scalar


@config
class KNNConfig:
    """Settings of kNN exploration: 100,000 steps by default in an env with 50 steps per episode."""

    iterations: int = 100
    """Number of iterations."""
    rollouts: int = 20
    """Episodes per iteration."""
    particles: int = 2048
    """Number of visited states that are kept, a uniform sample of all."""
    neighbours: int = 12
    """Number of nearest particles in the reward (k)."""
    constant: float = 1.0
    """Constant c inside the logarithm of the reward; 1 in APT."""
    learning_rate: float = 1e-3
    """Learning rate of PPO."""
    gamma: float = 0.99
    """Discount factor of PPO."""
    entropy_weight: float = 0.01
    """Weight of the policy's entropy in the loss of PPO."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class Particles(NamedTuple):
    """A uniform sample of the ``seen`` states so far. Until there are enough states, the last rows are padding."""

    states: Float[Array, "p s"]
    seen: Int[Array, ""]
    moments: RunningMoments


def knn(env: Env, config: KNNConfig) -> Program[PPOState, States]:
    """Explore states that are far from all visited states."""
    return explore_with_bonus(env, knn_bonus(env.feature_size, config), config)


def knn_bonus(size: int, config: KNNConfig) -> Objective:
    """The bonus for states of ``size`` dimensions."""
    check(
        config.neighbours <= config.particles,
        f"neighbours must be at most the number of particles (got neighbours={config.neighbours} and "
        f"particles={config.particles}). Lower --explorer.neighbours, or raise --explorer.particles.",
    )

    def init(key: Key) -> Particles:
        return Particles(jnp.zeros((config.particles, size)), jnp.int32(0), running_moments(size))

    def reward(particles: Particles, reached: Float[Array, " s"], skill: object) -> Scalar:
        distance = mean_distance(particles, reached, config.neighbours)
        # In the first iteration there are no neighbours yet, and no state is novel.
        return jnp.where(jnp.isfinite(distance), jnp.log(config.constant + distance), 0.0)

    def update(key: Key, particles: Particles, episodes: Episode) -> tuple[Particles, Metrics]:
        reached, valid = reached_states(episodes)
        states, seen = update_reservoir(key, particles.states, particles.seen, reached, valid)
        return Particles(states, seen, particles.moments.update(reached, valid)), {}

    return Objective(init=init, sample=no_skill, reward=per_visit(reward), update=update)


def mean_distance(particles: Particles, state: Float[Array, " s"], neighbours: int) -> Scalar:
    """Mean distance to the nearest particles, in standard deviations; infinite if there are too few particles."""
    scale = particles.moments.normaliser().scale
    real = jnp.arange(particles.states.shape[0]) < particles.seen
    return mean_nearest(state / scale, particles.states / scale, real, neighbours)


def update_reservoir(
    key: Key,
    reservoir: Float[Array, "p s"],
    seen: Int[Array, ""],
    states: Float[Array, "n s"],
    valid: Bool[Array, " n"],
) -> tuple[Float[Array, "p s"], Int[Array, ""]]:
    """Add the valid states in a batch to a uniform sample of all states; see `reservoir_rows`."""
    size = reservoir.shape[0]
    row = reservoir_rows(key, seen + jnp.cumsum(valid) - 1, size)
    return reservoir.at[jnp.where(valid, row, size)].set(states, mode="drop"), seen + jnp.sum(valid)
