"""The losses of SAC, with what they depend on: the agent and a batch of transitions. `edl.rl.sac` has the equations."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.nets.distributions import Categorical, TanhGaussian
from edl.nets.mlp import MLP
from edl.types import Metrics, Scalar

LOSS_METRICS = ("critic_loss", "value", "entropy", "alpha")
"""Metrics of a gradient step."""

Actions: TypeAlias = Categorical | TanhGaussian


class Agent(eqx.Module):
    """The actor pi(a|s,z), both critics Q_i(s,z,a) with a leading axis, and log alpha (unused if alpha is fixed).

    ``value`` is V(s,z), or None if it has no network of its own.
    """

    actor: MLP
    critics: MLP
    log_alpha: Scalar
    value: MLP | None = None


class LossSettings(NamedTuple):
    """What the losses depend on besides the networks and the batch. ``alpha`` is None if it is learned."""

    actions: Actions
    gamma: float | Scalar
    alpha: float | Scalar | None
    target_entropy_share: float | Scalar
    entropy_in_value: bool = True


class Batch(NamedTuple):
    """One row per transition. ``inputs`` are (s,z) and ``next_inputs`` (s',z), as the actor sees them.

    ``noise`` determines the actor's actions in s' and in s; it has no columns if actions are discrete. ``rewards`` has
    one column per cumulant if the critics learn successor features. ``bounds`` limit the backups, if they are known.
    """

    inputs: Float[Array, "n i"]
    next_inputs: Float[Array, "n i"]
    actions: Array
    rewards: Float[Array, " n *d"]
    terminated: Bool[Array, " n"]
    noise: Float[Array, "n 2 a"]
    bounds: Float[Array, "n 2"] | None = None


Loss: TypeAlias = Callable[[Agent, Batch, MLP, LossSettings], tuple[Scalar, Metrics]]


def sac_loss(agent: Agent, batch: Batch, targets: MLP, settings: LossSettings) -> tuple[Scalar, Metrics]:
    """L_Q + L_pi + L_alpha of `edl.rl.sac`: each parameter has a gradient from one of them only."""
    alpha, critics = frozen_alpha_and_critics(agent, settings)
    bonus = jnp.where(settings.entropy_in_value, alpha, 0.0)
    following, _ = soft_values(agent.actor, targets, batch.next_inputs, batch.noise[:, 0], settings.actions, bonus)
    backups = batch.rewards + settings.gamma * jnp.where(batch.terminated, 0.0, following)
    backups = backups if batch.bounds is None else jnp.clip(backups, *batch.bounds.T)
    errors = played_values(agent.critics, batch, settings.actions) - jax.lax.stop_gradient(backups)
    critic_loss = jnp.sum(jnp.mean(errors**2, axis=1))

    values, entropies = soft_values(agent.actor, critics, batch.inputs, batch.noise[:, 1], settings.actions, alpha)
    value, entropy = jnp.mean(values), jnp.mean(entropies)
    loss = critic_loss - value + entropy_weight_loss(agent, entropy, settings)
    return loss, dict(zip(LOSS_METRICS, (critic_loss, value, entropy, alpha), strict=True))


def value_network_loss(agent: Agent, batch: Batch, target: MLP, settings: LossSettings) -> tuple[Scalar, Metrics]:
    """L_V + L_Q + L_pi + L_alpha of `edl.rl.sac`, for an agent whose V has a network of its own."""
    assert agent.value is not None
    alpha, critics = frozen_alpha_and_critics(agent, settings)
    following = jax.vmap(target)(batch.next_inputs)[:, 0]
    backups = batch.rewards + settings.gamma * jnp.where(batch.terminated, 0.0, following)
    errors = played_values(agent.critics, batch, settings.actions) - jax.lax.stop_gradient(backups)
    critic_loss = jnp.sum(jnp.mean(errors**2, axis=1))

    soft, _ = soft_values(agent.actor, critics, batch.inputs, batch.noise[:, 0], settings.actions, alpha)
    value_errors = jax.vmap(agent.value)(batch.inputs)[:, 0] - jax.lax.stop_gradient(soft)

    first = jax.tree.map(lambda x: x[:1], critics)
    values, entropies = soft_values(agent.actor, first, batch.inputs, batch.noise[:, 1], settings.actions, alpha)
    value, entropy = jnp.mean(values), jnp.mean(entropies)
    loss = critic_loss + jnp.mean(value_errors**2) - value + entropy_weight_loss(agent, entropy, settings)
    return loss, dict(zip(LOSS_METRICS, (critic_loss, value, entropy, alpha), strict=True))


def frozen_alpha_and_critics(agent: Agent, settings: LossSettings) -> tuple[Scalar, MLP]:
    """alpha and the critics, without gradients."""
    alpha = jnp.exp(agent.log_alpha) if settings.alpha is None else jnp.asarray(settings.alpha, jnp.float32)
    return jax.lax.stop_gradient((alpha, agent.critics))


def entropy_weight_loss(agent: Agent, entropy: Scalar, settings: LossSettings) -> Scalar | float:
    """L_alpha of `edl.rl.sac`: 0 if alpha is fixed."""
    if settings.alpha is not None:
        return 0.0
    target = target_entropy(settings.actions, settings.target_entropy_share)
    return agent.log_alpha * jax.lax.stop_gradient(entropy - target)


def soft_values(
    actor: MLP,
    critics: MLP,
    inputs: Float[Array, "n i"],
    noise: Float[Array, "n a"],
    actions: Actions,
    alpha: Scalar,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """V(s,z), and the entropy of pi(.|s,z)."""
    params = jax.vmap(actor)(inputs)
    if isinstance(actions, Categorical):
        log_probs = jax.nn.log_softmax(params)
        qs = jnp.min(critic_values(critics, inputs), axis=0)
        entropies = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=1)
        return jnp.sum(jnp.exp(log_probs) * qs, axis=1) + alpha * entropies, entropies
    drawn, log_probs = jax.vmap(actions.reparametrise)(noise, params)
    qs = jnp.min(critic_values(critics, jnp.concatenate([inputs, drawn], axis=1))[..., 0], axis=0)
    return qs - alpha * log_probs, -log_probs


def played_values(critics: MLP, batch: Batch, actions: Actions) -> Float[Array, "2 n"]:
    """Q_i(s,z,a) of the actions in the batch."""
    if isinstance(actions, Categorical):
        return jnp.take_along_axis(critic_values(critics, batch.inputs), batch.actions[None, :, None], axis=2)[..., 0]
    return critic_values(critics, jnp.concatenate([batch.inputs, batch.actions], axis=1))[..., 0]


def critic_values(critics: MLP, inputs: Float[Array, "n i"]) -> Float[Array, "c n q"]:
    """The outputs of all critics (two, or one alone) for all inputs."""
    return jax.vmap(lambda critic: jax.vmap(critic)(inputs))(critics)


def target_entropy(actions: Actions, share: float | Scalar) -> Scalar:
    """H*: the entropy of a uniform distribution over a ``share`` of the actions, per dimension (at least one)."""
    if isinstance(actions, Categorical):
        return jnp.log(1 + share * (actions.size - 1))
    return jnp.sum(jnp.log(share * (actions.high - actions.low)))
