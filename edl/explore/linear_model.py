"""A linear model of the world, ds = A s + B a + c, forward and inverse: enough to walk one leg of a way.

It is fitted to the moves that it explains best: a move that ended at a wall says nothing about how actions act.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.envs.base import Box, Env
from edl.envs.rollout import Episode
from edl.nets.exact import exact
from edl.types import Scalar

REFITS = 16
EXACT = 1e-3
"""Share of a typical move below which an error is none: of moves that are explained, none is dropped."""


class LinearModel(eqx.Module):
    """Rows of ``weights`` belong to s, to a (one-hot if actions are discrete) and to 1."""

    weights: Float[Array, "p s"]

    def forward(self, state: Float[Array, " s"], action: Float[Array, " a"]) -> Float[Array, " s"]:
        """Where ``action`` leads from ``state`` if nothing is in the way."""
        return state + exact(jnp.concatenate([state, action, jnp.ones(1)]), self.weights)

    def inverse(self, state: Float[Array, " s"], target: Float[Array, " s"], space: Box) -> Float[Array, " a"]:
        """The action that comes nearest to leading there: ridge regression, clipped to the box."""
        size = state.shape[0]
        effect = self.weights[size:-1]
        wanted = target - self.forward(state, jnp.zeros(effect.shape[0]))
        gram = exact(effect, effect.T)
        ridge = 1e-4 * jnp.trace(gram) / gram.shape[0] + 1e-8
        action = jnp.linalg.solve(gram + ridge * jnp.eye(gram.shape[0]), exact(effect, wanted))
        return jnp.clip(action, space.low, space.high)


def as_vector(action: Array, env: Env) -> Float[Array, " a"]:
    """An action as the model sees it."""
    space = env.action_space
    return action if isinstance(space, Box) else jax.nn.one_hot(action, space.n)


def fit_linear_model(env: Env, episodes: Episode) -> LinearModel:
    """Least trimmed squares, dimension by dimension, among the moves that went far in that dimension.

    Where walls are close most moves are cut short, and the majority would say that actions have no effect. The moves
    that went farther than most were not cut short.
    """
    states = episodes.features[:, :-1].reshape(-1, env.feature_size)
    moves = (episodes.features[:, 1:] - episodes.features[:, :-1]).reshape(-1, env.feature_size)
    actions = jax.vmap(lambda a: as_vector(a, env))(episodes.actions.reshape(-1, *episodes.actions.shape[2:]))
    inputs = jnp.concatenate([states, actions, jnp.ones((states.shape[0], 1))], axis=1)
    valid = episodes.valid.reshape(-1)

    def fit(moves: Float[Array, " n"]) -> Float[Array, " p"]:
        slack = EXACT * jnp.sqrt(jnp.mean(moves**2, where=valid))
        far = valid & (jnp.abs(moves) >= jnp.maximum(median(jnp.abs(moves), valid), slack))

        def refit(weights, _):
            weighted = inputs * weights[:, None]
            gram = exact(weighted.T, inputs) + 1e-4 * jnp.eye(inputs.shape[1])
            model = jnp.linalg.solve(gram, exact(weighted.T, moves))
            errors = jnp.abs(moves - exact(inputs, model))
            return (far & (errors <= jnp.maximum(median(errors, far), slack))).astype(jnp.float32), model

        _, models = jax.lax.scan(refit, far.astype(jnp.float32), length=REFITS)
        return models[-1]

    return LinearModel(jax.vmap(fit, in_axes=1, out_axes=1)(moves))


def median(x: Float[Array, " n"], among: Bool[Array, " n"]) -> Scalar:
    """The median of the entries in ``among``."""
    ordered = jnp.sort(jnp.where(among, x, jnp.inf))
    return ordered[jnp.sum(among) // 2]
