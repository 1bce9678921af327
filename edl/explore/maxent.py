"""Maximum-entropy exploration (Hazan et al., 2019, Algorithm 1): Frank-Wolfe on the entropy of a mixture of policies.

The entropy H(d) of the states of a mixture is concave in d, and its gradient is a reward. Each round trains a fresh
policy on the frozen reward of the mixture so far, smoothed by sigma,

    r(s) = (grad H)(d_mix)(s) = -log(d_mix(s) + sigma),

and adds it to the mixture, whose members all weigh the same. The first member is the untrained policy. A constant is
free, since d sums to one, and so is the scale: here the mixture is paid 0 on average, and a state never seen 1.

Departs from the paper: d of a member is estimated from the last episodes of its training, instead of from episodes
played for the purpose, so that no step goes uncounted. p(s) is drawn from the same episodes, i.e. from d_mix.
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
from edl.explore.bonus import Recorded, flat_reached, no_skill, pursue
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
    """100,000 steps in a world of 50; the paper would train each policy longer."""

    iterations: int = 100
    rollouts: int = 20
    rounds: int = 5
    """Policies in the mixture, besides the untrained one; each is trained for ``iterations / rounds``."""
    particles: int = 400
    """States by which each member is remembered."""
    density: Literal["kde", "knn", "histogram"] = "kde"
    sigma: float = 1e-3
    """Added to the density of whitened states; a uniform one is about 0.3 to the power of their dimensions."""
    learning_rate: float = 1e-3
    gamma: float = 0.99
    entropy_weight: float = 0.01
    num_samples: int = 8192
    region: Predicate | None = None


class Novelty(NamedTuple):
    """The frozen reward: a density of the mixture's states, in units of their spread, and what the mixture is paid."""

    normaliser: Normaliser
    density: Density
    log_sigma: Scalar
    usual: Scalar

    def __call__(self, state: Float[Array, " s"]) -> Scalar:
        """-log(d_mix(s) + sigma), shifted and scaled: the usual is 0, the most that there can be is 1."""
        return (self.raw(state) - self.usual) / jnp.maximum(-self.log_sigma - self.usual, 1.0)

    def raw(self, state: Float[Array, " s"]) -> Scalar:
        """-log(d_mix(s) + sigma)."""
        return -jnp.logaddexp(self.density.log_prob(self.normaliser(state)), self.log_sigma)


class Mixture(NamedTuple):
    """Samples of the states that its members visited, member by member, and the reward they amount to."""

    states: Float[Array, "m p s"]
    weights: Float[Array, "m p"]
    members: Int[Array, ""]
    iteration: Int[Array, ""]
    novelty: Novelty


def maxent(env: Env, config: MaxEntConfig) -> Program[PPOState, States]:
    """Explore with a mixture of policies, each trained to go where those before it were not."""
    check(
        config.rounds <= config.iterations,
        f"rounds={config.rounds} in iterations={config.iterations}",
        "each round takes at least one iteration",
        "Ask for fewer rounds.",
    )
    program = pursue(env, maxent_bonus(env, config), config)

    def step(state: PPOState, key: Key) -> tuple[PPOState, Metrics]:
        step_key, fresh_key = jax.random.split(key)
        over = joins(state.objective.learned.iteration, config)
        state, metrics = program.step(state, step_key)
        fresh = program.init(fresh_key).agent
        return state._replace(agent=jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh, state.agent)), metrics

    def finish(state: PPOState) -> States:
        seen: Recorded = state.objective
        chosen = jax.vmap(lambda i: joins(i, config))(jnp.arange(config.iterations))
        weights = jnp.repeat(chosen.astype(jnp.float32), config.rollouts * (env.horizon + 1))
        return draw_states(seen.key, seen.experience, weights, config.num_samples, config.region)

    return dataclasses.replace(program, step=step, finish=finish)


def joins(iteration: Int[Array, ""], config: MaxEntConfig) -> Array:
    """Whether the policy of this iteration is a member: the first of all, and the last of each round."""
    length = config.iterations // config.rounds
    return (iteration == 0) | ((iteration + 1) % length == 0)


def maxent_bonus(env: Env, config: MaxEntConfig) -> Objective:
    """-log(d_mix + sigma), which changes only when a policy joins the mixture."""
    shape = (1 + config.iterations // (config.iterations // config.rounds), config.particles)

    def init(key: Key) -> Mixture:
        states, none = jnp.zeros((*shape, env.feature_size)), jnp.int32(0)
        return Mixture(states, jnp.zeros(shape), none, none, novelty(key, states, jnp.ones(shape), config))

    def reward(mixture: Mixture, state: Float[Array, " s"], skill: object) -> Scalar:
        # Before anything is in the mixture all states are equally new.
        return jnp.where(mixture.members > 0, mixture.novelty(state), 0.0)

    def update(key: Key, mixture: Mixture, episodes: Episode) -> tuple[Mixture, Metrics]:
        draw_key, fit_key = jax.random.split(key)
        reached, valid = flat_reached(episodes)
        rows = jax.random.choice(draw_key, valid.shape[0], (config.particles,), p=valid / jnp.sum(valid))
        states = mixture.states.at[mixture.members].set(reached[rows])
        weights = mixture.weights.at[mixture.members].set(1.0)
        reward = novelty(fit_key, states, weights, config)
        new = Mixture(states, weights, mixture.members + 1, mixture.iteration, reward)
        joined = joins(mixture.iteration, config)
        mixture = jax.tree.map(lambda a, b: jnp.where(joined, a, b), new, mixture)
        return mixture._replace(iteration=mixture.iteration + 1), {"members": mixture.members.astype(jnp.float32)}

    return Objective(init=init, sample=no_skill, reward=per_visit(reward), update=update)


def novelty(key: Key, states: Float[Array, "m p s"], weights: Float[Array, "m p"], config: MaxEntConfig) -> Novelty:
    """Fit the density of the mixture."""
    states, weights = states.reshape(-1, states.shape[-1]), weights.reshape(-1)
    shares = weights / jnp.sum(weights)
    mean = shares @ states
    scale = jnp.sqrt(shares @ (states - mean) ** 2)
    normaliser = Normaliser(mean, jnp.where(scale > 1e-6, scale, 1.0))
    density = DENSITIES[config.density](key, jax.vmap(normaliser)(states), weights)
    unshifted = Novelty(normaliser, density, jnp.log(jnp.maximum(config.sigma, 1e-30)), jnp.float32(0.0))
    return unshifted._replace(usual=shares @ jax.vmap(unshifted.raw)(states))
