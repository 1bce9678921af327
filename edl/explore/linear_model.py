"""A linear model of the env, ds = A s + B a + c, forward and inverse: accurate enough to follow one edge of a graph.

It is fitted to the moves that it explains best, because a move that ended at a wall says nothing about the effect of
actions.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.envs.base import Box, Env
from edl.envs.rollout import Episode
from edl.nets.linalg import exact_matmul
from edl.types import Scalar

REFITS = 16
"""Number of refits after dropping the moves with the largest errors."""
TOLERANCE = 1e-3
"""Errors below this fraction of a typical move count as zero, so that no explained move is dropped."""


class LinearModel(eqx.Module):
    """The rows of ``weights`` are the coefficients of s, of a (one-hot if actions are discrete), and the constant."""

    weights: Float[Array, "p s"]

    def forward(self, state: Float[Array, " s"], action: Float[Array, " a"]) -> Float[Array, " s"]:
        """The state that ``action`` leads to from ``state`` if nothing blocks the move."""
        return state + exact_matmul(jnp.concatenate([state, action, jnp.ones(1)]), self.weights)

    def inverse(self, state: Float[Array, " s"], target: Float[Array, " s"], space: Box) -> Float[Array, " a"]:
        """The action that leads closest to ``target``: ridge regression, clipped to the box."""
        size = state.shape[0]
        effect = self.weights[size:-1]
        move = target - self.forward(state, jnp.zeros(effect.shape[0]))
        gram = exact_matmul(effect, effect.T)
        ridge = 1e-4 * jnp.trace(gram) / gram.shape[0] + 1e-8
        action = jnp.linalg.solve(gram + ridge * jnp.eye(gram.shape[0]), exact_matmul(effect, move))
        return jnp.clip(action, space.low, space.high)


def as_vector(action: Array, env: Env) -> Float[Array, " a"]:
    """An action as the input vector of the model."""
    space = env.action_space
    return action if isinstance(space, Box) else jax.nn.one_hot(action, space.n)


def fit_linear_model(env: Env, episodes: Episode) -> LinearModel:
    """Fit by least trimmed squares, for each dimension, to the moves that are long in that dimension.

    Close to walls most moves are cut short, and a fit to the majority would find that actions have no effect. The moves
    that are longer than the median were not cut short.
    """
    states = episodes.features[:, :-1].reshape(-1, env.feature_size)
    moves = (episodes.features[:, 1:] - episodes.features[:, :-1]).reshape(-1, env.feature_size)
    actions = jax.vmap(lambda a: as_vector(a, env))(episodes.actions.reshape(-1, *episodes.actions.shape[2:]))
    inputs = jnp.concatenate([states, actions, jnp.ones((states.shape[0], 1))], axis=1)
    valid = episodes.valid.reshape(-1)

    def fit(moves: Float[Array, " n"]) -> Float[Array, " p"]:
        slack = TOLERANCE * jnp.sqrt(jnp.mean(moves**2, where=valid))
        far = valid & (jnp.abs(moves) >= jnp.maximum(median(jnp.abs(moves), valid), slack))

        def refit(weights, _):
            weighted = inputs * weights[:, None]
            gram = exact_matmul(weighted.T, inputs) + 1e-4 * jnp.eye(inputs.shape[1])
            model = jnp.linalg.solve(gram, exact_matmul(weighted.T, moves))
            errors = jnp.abs(moves - exact_matmul(inputs, model))
            return (far & (errors <= jnp.maximum(median(errors, far), slack))).astype(jnp.float32), model

        _, models = jax.lax.scan(refit, far.astype(jnp.float32), length=REFITS)
        return models[-1]

    return LinearModel(jax.vmap(fit, in_axes=1, out_axes=1)(moves))


def median(x: Float[Array, " n"], among: Bool[Array, " n"]) -> Scalar:
    """The median of the entries selected by ``among``."""
    ordered = jnp.sort(jnp.where(among, x, jnp.inf))
    return ordered[jnp.sum(among) // 2]
