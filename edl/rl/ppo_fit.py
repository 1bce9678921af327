"""What PPO does with the episodes it has played: descend on its loss, in shuffled minibatches.

L(theta) = E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_V (V - R)^2 + c_H H(pi),  rho = pi / pi_old.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from edl.nets.optim import Trained, follow
from edl.nets.distributions import Distribution
from edl.nets.mlp import MLP
from edl.rl.ppo_config import PPOConfig
from edl.rl.shuffle import shuffles
from edl.types import Key, Metrics, Scalar


class Agent(NamedTuple):
    """The actor pi(a|s,z) and the critic V(s,z), each with its optimiser: they have no parameter in common."""

    actor: Trained
    critic: Trained


class Batch(NamedTuple):
    """One row per step played."""

    inputs: Float[Array, "n c"]
    """Of the critic; the first ones are the actor's."""
    actions: Array
    log_probs: Float[Array, " n"]
    advantages: Float[Array, " n"]
    returns: Float[Array, " n"]
    weights: Float[Array, " n"]


def fit(
    key: Key,
    agent: Agent,
    batch: Batch,
    distribution: Distribution,
    optimiser: optax.GradientTransformation,
    config: PPOConfig,
) -> tuple[Agent, Metrics]:
    """``epochs`` passes over the batch in ``minibatches`` shuffled parts."""
    size = batch.weights.shape[0]
    part = size // config.minibatches
    row = jax.tree.map(lambda x: x[0], batch)
    as_row = jax.flatten_util.ravel_pytree(row)[1]
    # One array, so that a shuffled minibatch is one gather.
    rows = jax.vmap(lambda row: jax.flatten_util.ravel_pytree(row)[0])(batch)
    orders = shuffles(key, config.epochs, size)[:, : part * config.minibatches].reshape(-1, part)

    def passes(step: Callable, trained: Any) -> tuple[Any, Metrics]:
        trained, metrics = jax.lax.scan(lambda net, order: step(net, jax.vmap(as_row)(rows[order])), trained, orders)
        return trained, jax.tree.map(jnp.mean, metrics)

    def together(agent: Agent, chosen: Batch) -> tuple[Agent, Metrics]:
        for_actor, of_policy = jax.grad(policy_loss, has_aux=True)(agent.actor.params, chosen, distribution, config)
        for_critic, of_value = jax.grad(value_loss, has_aux=True)(agent.critic.params, chosen, config)
        for_actor, for_critic = shortened((for_actor, for_critic), config.max_gradient_norm)
        actor, critic = follow(optimiser, agent.actor, for_actor), follow(optimiser, agent.critic, for_critic)
        return Agent(actor, critic), of_policy | of_value

    return passes(together, agent)


def shortened(gradients: PyTree, limit: float | Scalar | None) -> PyTree:
    """The gradients of both networks, as one vector no longer than ``limit``."""
    if limit is None:
        return gradients
    clip = optax.clip_by_global_norm(limit)
    return clip.update(gradients, clip.init(gradients))[0]


def policy_loss(actor: MLP, batch: Batch, distribution: Distribution, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """-E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_H H(pi), over the rows that train."""
    params = actor.rows(batch.inputs[:, : actor.inputs])
    log_probs = jax.vmap(distribution.log_prob)(params, batch.actions)
    entropies = jax.vmap(distribution.entropy)(params)
    ratios = jnp.exp(log_probs - batch.log_probs)
    clipped = jnp.clip(ratios, 1 - config.clip, 1 + config.clip)
    gains = jnp.minimum(ratios * batch.advantages, clipped * batch.advantages)
    loss, entropy = -mean(gains, batch), mean(entropies, batch)
    outside = mean((jnp.abs(ratios - 1) > config.clip).astype(jnp.float32), batch)
    return loss - config.entropy_weight * entropy, {"policy_loss": loss, "entropy": entropy, "clipped": outside}


def value_loss(critic: MLP, batch: Batch, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """c_V (V - R)^2, over the rows that train."""
    loss = mean((critic.rows(batch.inputs)[:, 0] - batch.returns) ** 2, batch)
    return config.value_weight * loss, {"value_loss": loss}


def mean(x: Float[Array, " n"], batch: Batch) -> Scalar:
    """Over the rows that train."""
    return jnp.sum(x * batch.weights) / jnp.maximum(jnp.sum(batch.weights), 1.0)
