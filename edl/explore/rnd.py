"""Random Network Distillation (Burda et al., 2019): novel is what a network has not yet learned to predict.

A fixed random network f embeds states; a predictor f_hat learns to imitate it where the agent has been (Section 2.2):

    r(s') = ||f_hat(s') - f(s')||^2 / running std of the discounted intrinsic returns,

on states whitened by running moments and clipped to [-5, 5] (Section 2.4).

Departs from the paper: one value head, because there is no extrinsic reward beside the bonus; at the time limit the
return bootstraps from V(s_T), where the paper's flows on into the next episode, because our episodes are whole; and the
running std forgets, because in a small world errors shrink a thousandfold, which a std over all time does not show.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from edl.artifacts import States
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.explore.bonus import flat_reached, no_skill, pursue
from edl.explore.region import Predicate
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import RunningMoments, running_moments
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOState
from edl.types import Key, Metrics, Scalar

CLIP = 5.0
MEMORY = 10
"""Iterations over which the scale of the returns is estimated."""


@config
class RNDConfig:
    """100,000 steps in a world of 50."""

    iterations: int = 100
    rollouts: int = 20
    hidden: tuple[int, ...] = (128, 128)
    embedding: int = 64
    """Outputs of f and f_hat."""
    epochs: int = 4
    minibatches: int = 4
    share: float = 0.25
    """Of each minibatch, how much the predictor is trained on: it must not learn faster than the agent can follow."""
    predictor_learning_rate: float = 1e-4
    learning_rate: float = 1e-3
    gamma: float = 0.99
    entropy_weight: float = 0.01
    num_samples: int = 8192
    region: Predicate | None = None


class RNDState(NamedTuple):
    """The two networks, and the scales of what goes in and comes out."""

    target: MLP
    predictor: Trained
    moments: RunningMoments
    running: Float[Array, " e"]
    """The discounted sum of past errors of each of the episodes that are played at once."""
    returns: RunningMoments


def rnd(env: Env, config: RNDConfig) -> Program[PPOState, States]:
    """Explore where prediction fails."""
    return pursue(env, rnd_bonus(env.feature_size, config), config)


def rnd_bonus(size: int, config: RNDConfig) -> Objective:
    """The bonus for states of ``size`` dimensions."""
    optimiser = optax.adam(config.predictor_learning_rate)
    sizes = (size, *config.hidden, config.embedding)

    def init(key: Key) -> RNDState:
        target_key, predictor_key = jax.random.split(key)
        return RNDState(
            target=mlp(target_key, sizes),
            predictor=start(optimiser, mlp(predictor_key, sizes)),
            moments=running_moments(size),
            running=jnp.zeros(config.rollouts),
            returns=running_moments(1),
        )

    def reward(state: RNDState, reached: Float[Array, " s"], skill: object) -> Scalar:
        error = prediction_error(state, reached) / state.returns.normaliser().scale[0]
        # The paper spends some random steps on the moments first: here they are those of the first iteration.
        return jnp.where(state.moments.count > 0, error, 0.0)

    def update(key: Key, state: RNDState, episodes: Episode) -> tuple[RNDState, Metrics]:
        reached, valid = flat_reached(episodes)
        errors = jax.vmap(jax.vmap(prediction_error, (None, 0)), (None, 0))(state, episodes.features[:, 1:])
        running, sums = discounted(state.running, errors, episodes.valid, config.gamma)
        new = RNDState(
            target=state.target,
            predictor=distil(key, state, reached, valid, optimiser, config),
            moments=state.moments.update(reached, valid),
            running=running,
            returns=forget(state.returns, MEMORY * valid.shape[0]).update(sums.reshape(-1, 1), valid),
        )
        return new, {"prediction_error": jnp.sum(errors * episodes.valid) / jnp.sum(episodes.valid)}

    return Objective(init=init, sample=no_skill, reward=per_visit(reward), update=update)


def whitened(moments: RunningMoments, state: Float[Array, " s"]) -> Float[Array, " s"]:
    """Zero mean, unit variance, clipped: the random network sees every world at one scale."""
    return jnp.clip(moments.normaliser()(state), -CLIP, CLIP)


def prediction_error(state: RNDState, reached: Float[Array, " s"]) -> Scalar:
    """||f_hat(s) - f(s)||^2."""
    x = whitened(state.moments, reached)
    return jnp.sum((state.predictor.params(x) - state.target(x)) ** 2)


def discounted(
    running: Float[Array, " e"], errors: Float[Array, "e t"], valid: Bool[Array, "e t"], gamma: float | Scalar
) -> tuple[Float[Array, " e"], Float[Array, "e t"]]:
    """R_t = gamma R_{t-1} + r_t, which goes on from one episode to the next, as returns do in the paper."""

    def add(total, step):
        error, counts = step
        total = jnp.where(counts, gamma * total + error, total)
        return total, total

    running, sums = jax.lax.scan(add, running, (errors.T, valid.T))
    return running, sums.T


def forget(moments: RunningMoments, most: int) -> RunningMoments:
    """The same moments, as of no more than ``most`` samples: those that come will count for more."""
    kept = jnp.minimum(1.0, most / jnp.maximum(moments.count, 1.0))
    return RunningMoments(moments.count * kept, moments.mean, moments.squares * kept)


def distil(
    key: Key,
    state: RNDState,
    reached: Float[Array, "n s"],
    valid: Bool[Array, " n"],
    optimiser: optax.GradientTransformation,
    config: RNDConfig,
) -> Trained:
    """Train the predictor on a random ``share`` of each minibatch."""
    inputs = jax.vmap(whitened, (None, 0))(state.moments, reached)
    targets = jax.vmap(state.target)(inputs)
    part = inputs.shape[0] // config.minibatches

    def loss(predictor: MLP, rows: Array, weights: Float[Array, " b"]) -> tuple[Scalar, Metrics]:
        errors = jnp.mean((jax.vmap(predictor)(inputs[rows]) - targets[rows]) ** 2, axis=1)
        return jnp.sum(errors * weights) / jnp.maximum(jnp.sum(weights), 1.0), {}

    def epoch(trained: Trained, key: Key) -> tuple[Trained, Metrics]:
        order_key, share_key = jax.random.split(key)
        order = jax.random.permutation(order_key, inputs.shape[0])[: part * config.minibatches]
        weights = valid[order] & (jax.random.uniform(share_key, order.shape) < config.share)
        rows, weights = (x.reshape(config.minibatches, part) for x in (order, weights.astype(jnp.float32)))
        return jax.lax.scan(lambda t, batch: descend(optimiser, t, loss, *batch), trained, (rows, weights))

    predictor, _ = jax.lax.scan(epoch, state.predictor, jax.random.split(key, config.epochs))
    return predictor
