"""CSD: controllability-aware unsupervised skill discovery (Park, Lee, Lee and Abbeel, ICML 2023).

One of METRA's family (`edl.baselines.directions`). Under Euclidean distance (LSD), skills do what is easy: they change
the features that the agent controls anyway. CSD replaces the distance by how unlikely a move is under the agent's own
behaviour, so that moves which are hard to make are long:

    max_{pi, phi}  E[ sum_t (phi(s_{t+1}) - phi(s_t)) . z ]        s.t. ||phi(s) - phi(s')||^2 <= d(s, s')
    d(s, s')    = (s' - mu(s))^T Sigma(s)^-1 (s' - mu(s))  =  -2 log q(s'|s) + const(s)
    r(s, s', z) = (phi(s') - phi(s)) . z

q(s'|s) = N(mu(s), Sigma(s)), with diagonal Sigma, is fitted to replayed moves by maximum likelihood. As in the authors'
code, q models the difference s' - s, Sigma^-1 is divided by the geometric mean of its diagonal, so that d only says
which directions are hard and keeps the unit of the states, and the constraint is enforced by dual descent on log
lambda, as in METRA.

Departs from the authors' code:
- Squared norms are sums over dimensions on both sides; theirs are means over the dimensions of s and of z.
- In each iteration, q, phi and lambda make all their gradient steps before the policy.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.constraints import ConstrainedMap, constrained_loss, constrained_map
from edl.baselines.directions import DirectionConfig, DirectionMethod, train_directions
from edl.baselines.model_fitting import Moves, weighted_mean
from edl.config import config
from edl.envs.base import Env
from edl.nets.mlp import MLP, mlp
from edl.program import Program
from edl.types import Key, Metrics, Scalar

LOG_DEVIATIONS = (-5.0, 2.0)
"""Least and largest logarithm of a standard deviation of q(s'|s)."""


@config
class CSDConfig(DirectionConfig):
    """First lambda and epsilon are those of METRA; so are the learner's settings, with fewer iterations."""

    first_lambda: float = 30.0
    """Initial value of the multiplier lambda."""
    slack: float = 1e-3
    """epsilon, the largest slack of the constraint that counts."""


class ControllabilityMap(eqx.Module):
    """The map with its multiplier, and the network of mu(s) - s and of the log deviations of q(s'|s)."""

    map: ConstrainedMap
    moves: MLP


def csd(env: Env, config: CSDConfig) -> Program[Any, SkillPolicy]:
    """Train skills that go far where the agent rarely goes by itself. ``policy.model`` is phi."""

    def init(key: Key, inputs: int, size: int) -> ControllabilityMap:
        map_key, moves_key = jax.random.split(key)
        learned = constrained_map(map_key, (inputs, *config.hidden, size), config.first_lambda)
        return ControllabilityMap(learned, mlp(moves_key, (inputs, *config.hidden, 2 * inputs)))

    def loss(params: ControllabilityMap, rows: Moves, directions: Float[Array, "n z"]) -> tuple[Scalar, Metrics]:
        scores, distances = jax.vmap(move_scores, (None, 0, 0))(params.moves, rows.before, rows.after)
        bounds = jax.lax.stop_gradient(distances)
        map_loss, metrics = constrained_loss(params.map, rows, directions, bounds, config.slack)
        log_likelihood = weighted_mean(rows.weight, scores)
        return map_loss - log_likelihood, {**metrics, "log_likelihood": log_likelihood}

    return train_directions(env, config, DirectionMethod(init, lambda params: params.map.phi, loss))


def move_scores(moves: MLP, before: Float[Array, " s"], after: Float[Array, " s"]) -> tuple[Scalar, Scalar]:
    """log q(s'|s) up to a constant, and the distance d(s, s')."""
    mean, log_deviation = jnp.split(moves(before), 2)
    log_deviation = jnp.clip(log_deviation, *LOG_DEVIATIONS)
    errors = after - before - mean
    scaled = (errors / jnp.exp(log_deviation)) ** 2
    distance = jnp.sum(errors**2 * jnp.exp(2 * (jnp.mean(log_deviation) - log_deviation)))
    return -0.5 * jnp.sum(scaled) - jnp.sum(log_deviation), distance
