"""Random Network Distillation (Burda et al., 2019): a state is novel if a network cannot predict its embedding yet.

A fixed random network f embeds states. A predictor f_hat learns to imitate it on the visited states (Section 2.2):

    r(s') = ||f_hat(s') - f(s')||^2 / running std of the discounted intrinsic returns,

for states whitened by running moments and clipped to [-5, 5] (Section 2.4).

Departs from the paper: one value head, because there is no extrinsic reward besides the bonus; at the time limit the
return bootstraps from V(s_T) instead of continuing into the next episode, because our episodes are complete; and the
running std discounts old returns, because in a small env the errors shrink by a factor of a thousand, and a std over
all time would stay large.
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
from edl.explore.bonus import explore_with_bonus, no_skill, reached_states
from edl.explore.region import Predicate
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import RunningMoments, running_moments
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOState
from edl.types import Key, Metrics, Scalar

CLIP = 5.0
"""Whitened states are clipped to [-CLIP, CLIP]."""
RETURN_WINDOW = 10
"""Number of past iterations from which the scale of the returns is estimated."""


@config
class RNDConfig:
    """Settings of RND: 100,000 steps by default in an env with 50 steps per episode."""

    iterations: int = 100
    """Number of iterations."""
    rollouts: int = 20
    """Episodes per iteration."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of both networks."""
    embedding: int = 64
    """Size of the embedding, the output of both networks."""
    epochs: int = 4
    """Passes of the predictor over the states of an iteration."""
    minibatches: int = 4
    """Minibatches per epoch."""
    share: float = 0.25
    """Fraction of each minibatch that trains the predictor, which must not learn faster than the policy."""
    predictor_learning_rate: float = 1e-4
    """Learning rate of the predictor."""
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


class RNDState(NamedTuple):
    """The two networks, the moments of their inputs, and the moments of the returns."""

    target: MLP
    predictor: Trained
    moments: RunningMoments
    running: Float[Array, " e"]
    """The discounted sum of past errors, for each of the parallel episodes."""
    returns: RunningMoments


def rnd(env: Env, config: RNDConfig) -> Program[PPOState, States]:
    """Explore states where the prediction error is large."""
    return explore_with_bonus(env, rnd_bonus(env.feature_size, config), config)


def rnd_bonus(size: int, config: RNDConfig) -> Objective:
    """The bonus for states of ``size`` dimensions."""
    optimiser = optax.adam(config.predictor_learning_rate)
    sizes = (size, *config.hidden, config.embedding)

    def init(key: Key) -> RNDState:
        target_key, predictor_key = jax.random.split(key)
        return RNDState(
            target=mlp(target_key, sizes),
            predictor=new_trained(optimiser, mlp(predictor_key, sizes)),
            moments=running_moments(size),
            running=jnp.zeros(config.rollouts),
            returns=running_moments(1),
        )

    def reward(state: RNDState, reached: Float[Array, " s"], skill: object) -> Scalar:
        error = prediction_error(state, reached) / state.returns.normaliser().scale[0]
        # The paper estimates the moments from random steps first. Here the first iteration serves for that.
        return jnp.where(state.moments.count > 0, error, 0.0)

    def update(key: Key, state: RNDState, episodes: Episode) -> tuple[RNDState, Metrics]:
        reached, valid = reached_states(episodes)
        errors = jax.vmap(jax.vmap(prediction_error, (None, 0)), (None, 0))(state, episodes.features[:, 1:])
        running, sums = discounted_sums(state.running, errors, episodes.valid, config.gamma)
        new = RNDState(
            target=state.target,
            predictor=train_predictor(key, state, reached, valid, optimiser, config),
            moments=state.moments.update(reached, valid),
            running=running,
            returns=limit_count(state.returns, RETURN_WINDOW * valid.shape[0]).update(sums.reshape(-1, 1), valid),
        )
        return new, {"prediction_error": jnp.sum(errors * episodes.valid) / jnp.sum(episodes.valid)}

    return Objective(init=init, sample=no_skill, reward=per_visit(reward), update=update)


def whiten(moments: RunningMoments, state: Float[Array, " s"]) -> Float[Array, " s"]:
    """Zero mean, unit variance, clipped: the random network sees every env at the same scale."""
    return jnp.clip(moments.normaliser()(state), -CLIP, CLIP)


def prediction_error(state: RNDState, reached: Float[Array, " s"]) -> Scalar:
    """||f_hat(s) - f(s)||^2."""
    x = whiten(state.moments, reached)
    return jnp.sum((state.predictor.params(x) - state.target(x)) ** 2)


def discounted_sums(
    running: Float[Array, " e"], errors: Float[Array, "e t"], valid: Bool[Array, "e t"], gamma: float | Scalar
) -> tuple[Float[Array, " e"], Float[Array, "e t"]]:
    """R_t = gamma R_{t-1} + r_t, continued from one episode to the next, as in the paper."""

    def add(total, step):
        error, is_valid = step
        total = jnp.where(is_valid, gamma * total + error, total)
        return total, total

    running, sums = jax.lax.scan(add, running, (errors.T, valid.T))
    return running, sums.T


def limit_count(moments: RunningMoments, maximum: int) -> RunningMoments:
    """The same moments with at most ``maximum`` samples behind them, so that later samples have more weight."""
    kept = jnp.minimum(1.0, maximum / jnp.maximum(moments.count, 1.0))
    return RunningMoments(moments.count * kept, moments.mean, moments.squares * kept)


def train_predictor(
    key: Key,
    state: RNDState,
    reached: Float[Array, "n s"],
    valid: Bool[Array, " n"],
    optimiser: optax.GradientTransformation,
    config: RNDConfig,
) -> Trained:
    """Train the predictor on a random ``share`` of each minibatch."""
    inputs = jax.vmap(whiten, (None, 0))(state.moments, reached)
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
        return jax.lax.scan(lambda t, batch: gradient_step(optimiser, t, loss, *batch), trained, (rows, weights))

    predictor, _ = jax.lax.scan(epoch, state.predictor, jax.random.split(key, config.epochs))
    return predictor
