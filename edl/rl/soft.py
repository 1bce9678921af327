"""The losses of SAC: values that count the entropy of the policy as a reward, and what descends on them.

    V(s,z)   = E_{a ~ pi} [ min_i Q_i(s,z,a) - alpha log pi(a|s,z) ]
    L_Q      = sum_i (Q_i(s,z,a) - r - gamma (1 - terminated) V'(s',z))^2,   V' from targets that follow the Q_i slowly
    L_pi     = -V(s,z), through the actions
    L_alpha  = log alpha (H(pi(.|s,z)) - H*), where alpha is learned

The expectation is over one action, reparametrised, or over all of them where they are discrete (Christodoulou, 2019).
"""

from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.envs.base import Discrete, Env
from edl.nets.distributions import Categorical, TanhGaussian
from edl.nets.mlp import MLP, mlp
from edl.types import Key, Metrics, Scalar

LOSSES = ("critic_loss", "value", "entropy", "alpha")
"""What is reported of a gradient step."""
Actions: TypeAlias = Categorical | TanhGaussian


class Agent(eqx.Module):
    """The actor pi(a|s,z), both critics Q_i(s,z,a) with a leading axis, and log alpha, used where it is learned."""

    actor: MLP
    critics: MLP
    log_alpha: Scalar


class Rules(NamedTuple):
    """What the losses depend on besides.

    ``alpha`` is None where it is learned, so that the share ``keep`` of the actions stays in play.
    """

    actions: Actions
    gamma: float | Scalar
    alpha: float | Scalar | None
    keep: float | Scalar


class Batch(NamedTuple):
    """One row per transition. ``inputs`` are (s,z) and ``next_inputs`` (s',z), as the actor sees them.

    ``noise`` makes the actions that the actor takes in s' and in s; it has no columns where actions are discrete.
    ``rewards`` has a column per cumulant where the critics learn successor features.
    """

    inputs: Float[Array, "n i"]
    next_inputs: Float[Array, "n i"]
    actions: Array
    rewards: Float[Array, " n *d"]
    terminated: Bool[Array, " n"]
    noise: Float[Array, "n 2 a"]


def actions_of(env: Env) -> Actions:
    """How SAC draws the actions of a world."""
    space = env.action_space
    if isinstance(space, Discrete):
        return Categorical(size=space.n)
    return TanhGaussian(low=space.low, high=space.high, size=2 * space.size)


def new_agent(
    key: Key, inputs: int, actions: Actions, hidden: tuple[int, ...], alpha: float | Scalar, values: int = 1
) -> Agent:
    """An untrained agent. The critics of discrete actions put out ``values`` for each, others take the action in."""
    actor_key, critic_key = jax.random.split(key)
    first, last = (inputs, actions.size) if isinstance(actions, Categorical) else (inputs + actions.low.shape[0], 1)
    return Agent(
        actor=mlp(actor_key, (inputs, *hidden, actions.size), last_scale=1e-2),
        critics=jax.vmap(lambda key: mlp(key, (first, *hidden, last * values)))(jax.random.split(critic_key)),
        log_alpha=jnp.log(jnp.asarray(alpha, jnp.float32)),
    )


def sac_loss(agent: Agent, batch: Batch, targets: MLP, rules: Rules) -> tuple[Scalar, Metrics]:
    """L_Q + L_pi + L_alpha of the module docstring: no parameter is in more than one of them."""
    alpha = jnp.exp(agent.log_alpha) if rules.alpha is None else jnp.asarray(rules.alpha, jnp.float32)
    alpha, critics = jax.lax.stop_gradient((alpha, agent.critics))

    following, _ = soft_values(agent.actor, targets, batch.next_inputs, batch.noise[:, 0], rules.actions, alpha)
    backups = batch.rewards + rules.gamma * jnp.where(batch.terminated, 0.0, following)
    errors = played_values(agent.critics, batch, rules.actions) - jax.lax.stop_gradient(backups)
    critic_loss = jnp.sum(jnp.mean(errors**2, axis=1))

    values, entropies = soft_values(agent.actor, critics, batch.inputs, batch.noise[:, 1], rules.actions, alpha)
    value, entropy = jnp.mean(values), jnp.mean(entropies)
    loss = critic_loss - value
    if rules.alpha is None:
        loss += agent.log_alpha * jax.lax.stop_gradient(entropy - target_entropy(rules.actions, rules.keep))
    return loss, dict(zip(LOSSES, (critic_loss, value, entropy, alpha), strict=True))


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
        qs = jnp.min(evaluate(critics, inputs), axis=0)
        entropies = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=1)
        return jnp.sum(jnp.exp(log_probs) * qs, axis=1) + alpha * entropies, entropies
    drawn, log_probs = jax.vmap(actions.reparametrise)(noise, params)
    qs = jnp.min(evaluate(critics, jnp.concatenate([inputs, drawn], axis=1))[..., 0], axis=0)
    return qs - alpha * log_probs, -log_probs


def played_values(critics: MLP, batch: Batch, actions: Actions) -> Float[Array, "2 n"]:
    """Q_i(s,z,a) of the actions that were played."""
    if isinstance(actions, Categorical):
        return jnp.take_along_axis(evaluate(critics, batch.inputs), batch.actions[None, :, None], axis=2)[..., 0]
    return evaluate(critics, jnp.concatenate([batch.inputs, batch.actions], axis=1))[..., 0]


def evaluate(critics: MLP, inputs: Float[Array, "n i"]) -> Float[Array, "2 n q"]:
    """Both critics, of all inputs."""
    return jax.vmap(lambda critic: jax.vmap(critic)(inputs))(critics)


def target_entropy(actions: Actions, share: float | Scalar) -> Scalar:
    """H*: the entropy of a uniform choice among a ``share`` of the actions, per dimension (and of one at least)."""
    if isinstance(actions, Categorical):
        return jnp.log(1 + share * (actions.size - 1))
    return jnp.sum(jnp.log(share * (actions.high - actions.low)))
