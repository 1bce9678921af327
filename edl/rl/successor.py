"""The loss of SAC for rewards that are linear in z: the critics learn successor features (Barreto et al., 2017).

With r_t = phi_t . z the critics learn psi(s,z,a) = E[ sum_t gamma^t phi_t ] of the policy pi(.|.,z), one number per
cumulant. Q = psi . w is then the value of that policy for every task w, not only for its own:

    L_psi  = sum_i || psi_i(s,z,a) - phi - gamma (1 - terminated) psi'(s',z,a') ||^2,      a' ~ pi(.|s',z)
    L_pi   = -E_{a ~ pi(.|s,z)} [ max_j psi(s,z_j,a) . z - alpha log pi(a|s,z) ]

psi' is the target critic with the smaller psi' . z. The maximum over the policies of z and of other codes z_j is
generalised policy improvement (GPI): the policy for z becomes at least as good at z as the best of them.

Departs from SAC: psi does not contain the entropy of later actions, because that is not linear in z. So alpha rewards
only the entropy of the next action.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.rl.sac_losses import (
    LOSS_METRICS,
    Actions,
    Agent,
    Batch,
    LossSettings,
    critic_values,
    entropy_weight_loss,
    frozen_alpha_and_critics,
)
from edl.types import Metrics, Scalar

GPICodes = Callable[[Float[Array, "n d"]], Float[Array, "g n d"]]


def successor_loss(
    agent: Agent, batch: Batch, targets: MLP, settings: LossSettings, gpi_codes: GPICodes
) -> tuple[Scalar, Metrics]:
    """L_psi + L_pi of the module docstring (and L_alpha of `edl.rl.sac`); ``batch.rewards`` are the cumulants."""
    alpha, critics = frozen_alpha_and_critics(agent, settings)
    size = batch.rewards.shape[1]
    codes = batch.inputs[:, -size:]

    following = expected_features(agent.actor, targets, batch.next_inputs, batch.noise[:, 0], settings.actions, size)
    following = smaller_features(following, codes)
    backups = batch.rewards + settings.gamma * jnp.where(batch.terminated[:, None], 0.0, following)
    errors = played_features(agent.critics, batch, settings.actions) - jax.lax.stop_gradient(backups)
    critic_loss = jnp.sum(jnp.mean(errors**2, axis=(1, 2))) * size

    values, entropies = gpi_values(agent.actor, critics, batch, settings.actions, gpi_codes(codes))
    value, entropy = jnp.mean(values + alpha * entropies), jnp.mean(entropies)
    loss = critic_loss - value + entropy_weight_loss(agent, entropy, settings)
    return loss, dict(zip(LOSS_METRICS, (critic_loss, value, entropy, alpha), strict=True))


def successor_features(critics: MLP, inputs: Float[Array, "n i"], size: int) -> Float[Array, "2 n q d"]:
    """psi_i of all inputs. Discrete actions: q of them. Continuous ones: q = 1, and the inputs end with the action."""
    flat = critic_values(critics, inputs)
    return flat.reshape(*flat.shape[:2], -1, size)


def expected_features(
    actor: MLP,
    critics: MLP,
    inputs: Float[Array, "n i"],
    noise: Float[Array, "n a"],
    actions: Actions,
    size: int,
) -> Float[Array, "2 n d"]:
    """E_{a ~ pi(.|s,z)} psi_i(s,z,a), over all actions if they are discrete, otherwise over one drawn action."""
    params = jax.vmap(actor)(inputs)
    if isinstance(actions, Categorical):
        features = successor_features(critics, inputs, size)
        return jnp.sum(jax.nn.softmax(params)[None, :, :, None] * features, axis=2)
    drawn, _ = jax.vmap(actions.reparametrise)(noise, params)
    return successor_features(critics, jnp.concatenate([inputs, drawn], axis=1), size)[:, :, 0]


def smaller_features(features: Float[Array, "2 n d"], codes: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """The features of the critic whose value psi . z for the code is smaller."""
    values = jnp.sum(features * codes, axis=-1)
    return jnp.where((values[0] < values[1])[:, None], features[0], features[1])


def played_features(critics: MLP, batch: Batch, actions: Actions) -> Float[Array, "2 n d"]:
    """psi_i(s,z,a) of the actions in the batch."""
    size = batch.rewards.shape[1]
    if isinstance(actions, Categorical):
        features = successor_features(critics, batch.inputs, size)
        return jnp.take_along_axis(features, batch.actions[None, :, None, None], axis=2)[:, :, 0]
    return successor_features(critics, jnp.concatenate([batch.inputs, batch.actions], axis=1), size)[:, :, 0]


def gpi_values(
    actor: MLP, critics: MLP, batch: Batch, actions: Actions, others: Float[Array, "g n d"]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """E_{a ~ pi(.|s,z)} max_j min_i psi_i(s,z_j,a) . z over z itself and ``others``, and the entropy of pi(.|s,z)."""
    size = others.shape[-1]
    observations, codes = batch.inputs[:, :-size], batch.inputs[:, -size:]
    params = jax.vmap(actor)(batch.inputs)
    if isinstance(actions, Categorical):
        drawn, entropies = jnp.zeros((params.shape[0], 0)), jax.vmap(actions.entropy)(params)
    else:
        drawn, log_probs = jax.vmap(actions.reparametrise)(batch.noise[:, 1], params)
        entropies = -log_probs

    def values_of(others: Float[Array, "n d"]) -> Float[Array, "n q"]:
        features = successor_features(critics, jnp.concatenate([observations, others, drawn], axis=1), size)
        return jnp.min(jnp.sum(features * codes[:, None], axis=-1), axis=0)

    best = jnp.max(jax.vmap(values_of)(jnp.concatenate([codes[None], others])), axis=0)
    if isinstance(actions, Categorical):
        return jnp.sum(jax.nn.softmax(params) * best, axis=1), entropies
    return best[:, 0], entropies
