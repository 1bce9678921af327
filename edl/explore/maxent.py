"""Maximum-entropy exploration (Hazan et al., 2019, Algorithm 1): Frank-Wolfe on the entropy of a mixture of policies.

The entropy H(d) of the state distribution d of a mixture is concave in d, and its gradient is a reward. Each round
trains a new policy on the frozen reward of the mixture so far, smoothed by sigma,

    r(s) = (grad H)(d_mix)(s) = -log(d_mix(s) + sigma),

and adds it to the mixture. All members have the same weight, and the first is the untrained policy. A constant offset
does not matter, since d sums to one, and neither does the scale: here the mixture's mean reward is 0, and the reward of
a state that was never visited is 1.

Departs from the paper: d of a member is estimated from the last episodes of its training instead of from additional
episodes, because then all env steps are counted. p(s) is drawn from the same episodes, i.e. from d_mix.
"""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import States
from edl.config import check, config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.bonus import RecordingState, explore_with_bonus, no_skill, reached_states
from edl.explore.collect import draw_states
from edl.explore.region import Predicate
from edl.nets.density import DENSITIES, Density
from edl.nets.normalise import Normaliser
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOState
from edl.types import Key, Metrics, Scalar


@config
class MaxEntConfig:
    """Settings of MaxEnt: 100,000 steps by default in an env with 50 steps per episode. The paper trains longer."""

    iterations: int = 100
    """Number of iterations."""
    rollouts: int = 20
    """Episodes per iteration."""
    rounds: int = 5
    """Number of trained policies in the mixture. Each is trained for ``iterations / rounds`` iterations."""
    particles: int = 400
    """Number of states that represent each member of the mixture."""
    density: Literal["kde", "knn", "histogram"] = "kde"
    """Density model of the mixture's states."""
    sigma: float = 1e-3
    """Constant added to the density of whitened states. (A uniform density is about 0.3^s in s dimensions.)"""
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


class Novelty(NamedTuple):
    """The frozen reward: the density of the mixture's states in units of their spread, and its mean over them."""

    normaliser: Normaliser
    density: Density
    log_sigma: Scalar
    mean: Scalar

    def __call__(self, state: Float[Array, " s"]) -> Scalar:
        """-log(d_mix(s) + sigma), shifted and scaled: its mean over the mixture is 0 and its maximum is 1."""
        return (self.raw(state) - self.mean) / jnp.maximum(-self.log_sigma - self.mean, 1.0)

    def raw(self, state: Float[Array, " s"]) -> Scalar:
        """-log(d_mix(s) + sigma)."""
        return -jnp.logaddexp(self.density.log_prob(self.normaliser(state)), self.log_sigma)


class Mixture(NamedTuple):
    """Samples of the states that each member visited, and the reward computed from them."""

    states: Float[Array, "m p s"]
    weights: Float[Array, "m p"]
    members: Int[Array, ""]
    iteration: Int[Array, ""]
    novelty: Novelty


def maxent(env: Env, config: MaxEntConfig) -> Program[PPOState, States]:
    """Explore with a mixture of policies, each trained to visit states that the earlier ones did not visit."""
    check(
        config.rounds <= config.iterations,
        f"rounds must be at most iterations={config.iterations} (got {config.rounds}). "
        "Use fewer rounds or more iterations.",
    )
    program = explore_with_bonus(env, maxent_bonus(env, config), config)

    def step(state: PPOState, key: Key) -> tuple[PPOState, Metrics]:
        step_key, agent_key = jax.random.split(key)
        round_ends = joins_mixture(state.objective.learned.iteration, config)
        state, metrics = program.step(state, step_key)
        new_agent = program.init(agent_key).agent
        agent = jax.tree.map(lambda new, old: jnp.where(round_ends, new, old), new_agent, state.agent)
        return state._replace(agent=agent), metrics

    def finish(state: PPOState) -> States:
        recorded: RecordingState = state.objective
        chosen = jax.vmap(lambda i: joins_mixture(i, config))(jnp.arange(config.iterations))
        weights = jnp.repeat(chosen.astype(jnp.float32), config.rollouts * (env.horizon + 1))
        return draw_states(recorded.key, recorded.experience, weights, config.num_samples, config.region)

    return dataclasses.replace(program, step=step, finish=finish)


def joins_mixture(iteration: Int[Array, ""], config: MaxEntConfig) -> Array:
    """Whether the policy of this iteration joins the mixture: the very first policy, and the last of each round."""
    rounds_before, rounds_after = ((i * config.rounds) // config.iterations for i in (iteration, iteration + 1))
    return (iteration == 0) | (rounds_after > rounds_before)


def maxent_bonus(env: Env, config: MaxEntConfig) -> Objective:
    """The reward -log(d_mix + sigma). It changes only when a policy joins the mixture."""
    shape = (1 + config.rounds, config.particles)

    def init(key: Key) -> Mixture:
        states, zero = jnp.zeros((*shape, env.feature_size)), jnp.int32(0)
        return Mixture(states, jnp.zeros(shape), zero, zero, fit_novelty(key, states, jnp.ones(shape), config))

    def reward(mixture: Mixture, state: Float[Array, " s"], skill: object) -> Scalar:
        # While the mixture is empty, all states are equally novel.
        return jnp.where(mixture.members > 0, mixture.novelty(state), 0.0)

    def update(key: Key, mixture: Mixture, episodes: Episode) -> tuple[Mixture, Metrics]:
        draw_key, fit_key = jax.random.split(key)
        reached, valid = reached_states(episodes)
        rows = jax.random.choice(draw_key, valid.shape[0], (config.particles,), p=valid / jnp.sum(valid))
        states = mixture.states.at[mixture.members].set(reached[rows])
        weights = mixture.weights.at[mixture.members].set(1.0)
        novelty = fit_novelty(fit_key, states, weights, config)
        new = Mixture(states, weights, mixture.members + 1, mixture.iteration, novelty)
        joined = joins_mixture(mixture.iteration, config)
        mixture = jax.tree.map(lambda a, b: jnp.where(joined, a, b), new, mixture)
        return mixture._replace(iteration=mixture.iteration + 1), {"members": mixture.members.astype(jnp.float32)}

    return Objective(init=init, sample=no_skill, reward=per_visit(reward), update=update)


def fit_novelty(key: Key, states: Float[Array, "m p s"], weights: Float[Array, "m p"], config: MaxEntConfig) -> Novelty:
    """Fit the density of the mixture's states, and compute its mean reward."""
    states, weights = states.reshape(-1, states.shape[-1]), weights.reshape(-1)
    shares = weights / jnp.sum(weights)
    mean = shares @ states
    scale = jnp.sqrt(shares @ (states - mean) ** 2)
    normaliser = Normaliser(mean, jnp.where(scale > 1e-6, scale, 1.0))
    density = DENSITIES[config.density](key, jax.vmap(normaliser)(states), weights)
    unshifted = Novelty(normaliser, density, jnp.log(jnp.maximum(config.sigma, 1e-30)), jnp.float32(0.0))
    return unshifted._replace(mean=shares @ jax.vmap(unshifted.raw)(states))
