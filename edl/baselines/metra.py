"""METRA: scalable unsupervised RL with metric-aware abstraction (Park, Rybkin and Levine, ICLR 2024).

Instead of the mutual information it maximises the Wasserstein dependency of states and skills under the temporal
distance, the least number of steps from one state to another:

    sup_{pi, phi}  E[ sum_t (phi(s_{t+1}) - phi(s_t)) . z ]     s.t. ||phi(s) - phi(s')||^2 <= 1 for each move s -> s'

so that phi(s) is a map of the world in which a move takes at most one unit, and a skill goes as far as it can in its
own direction of the map. By dual descent with a multiplier lambda >= 0 (their Eq. 10 and Algorithm 1):

    r(s, s', z) = (phi(s') - phi(s)) . z                                        what SAC maximises
    L_phi       = -E[ r + lambda min(epsilon, 1 - ||phi(s) - phi(s')||^2) ]     over replayed moves
    L_lambda    = lambda E[ min(epsilon, 1 - ||phi(s) - phi(s')||^2) ]

Continuous skills are z ~ uniform over the unit sphere. Discrete ones are seen by the policy as one-hot, and by phi as
directions with zero mean: z = (one-hot - 1/K) K / (K - 1).

Departs from the authors' code in that the constraint is on the squared norm, as in the paper (the code takes its mean
over dimensions, which lets phi move by the root of their number); and that phi and lambda take all their steps of an
iteration before the policy takes its own. It follows the code in descending on log lambda, and in the entropy of SAC.
"""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.continuous import direction_skill, directions
from edl.baselines.visits import Moves, moves, one_hot_skill, sgd
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, start
from edl.nets.mlp import MLP, mlp
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar


@config
class METRAConfig:
    """Their epsilon, first lambda and entropy; networks and budget are sized for minutes on two cores."""

    num_skills: int = 10
    skills: Literal["discrete", "continuous"] = "discrete"
    skill_size: int = 2
    """Dimensions of a continuous skill, of which ``num_skills`` are shown and evaluated."""
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    """Of phi and of log lambda."""
    first_lambda: float = 30.0
    slack: float = 1e-3
    """epsilon: how much room below the constraint still counts."""
    minibatches: int = 50
    """Steps of phi and lambda in an iteration, over what SAC recalls for them."""
    sac: SACConfig = SACConfig(
        iterations=700,
        rollouts=20,
        update_every=20,
        recall=6400,
        normalise=True,
        learn_entropy_weight=True,
        keep_actions=0.3,
        entropy_weight=0.01,
    )


class Abstraction(eqx.Module):
    """The map phi, and the multiplier of its constraint."""

    phi: MLP
    log_lambda: Scalar


def metra(env: Env, config: METRAConfig) -> Program[Any, SkillPolicy]:
    """Skills that go far, each in its own direction of a map of temporal distances; the policy's model is the map."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    discrete = config.skills == "discrete"
    codes = jnp.eye(config.num_skills) if discrete else directions(config.num_skills, config.skill_size)

    def init(key: Key) -> Trained:
        phi = mlp(key, (env.feature_size, *config.hidden, codes.shape[-1]))
        return start(optimiser, Abstraction(phi, jnp.log(jnp.asarray(config.first_lambda, jnp.float32))))

    def choose(key: Key, state: Trained) -> Skill:
        return one_hot_skill(key, config.num_skills) if discrete else direction_skill(key, config.skill_size)

    def reward(state: Trained, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        phi = state.params.phi
        return progress(phi(after) - phi(before), direction_of(skill.code, discrete))

    def loss(abstraction: Abstraction, rows: Moves) -> tuple[Scalar, Metrics]:
        towards = jax.vmap(lambda code: direction_of(code, discrete))(rows.code)
        return abstraction_loss(abstraction, rows, towards, config.slack)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, state, loss, moves(episodes), 1, config.minibatches)

    learning = sac(env, Objective(init, choose, per_move(reward), update), config.sac, codes=codes)

    def finish(state: SACState) -> SkillPolicy:
        return dataclasses.replace(learning.finish(state), model=state.objective.params.phi)

    return dataclasses.replace(learning, finish=finish)


def direction_of(code: Float[Array, " z"], discrete: bool) -> Float[Array, " z"]:
    """z as phi sees it: continuous skills as they are, one-hot ones with zero mean and a 1 at their own place."""
    size = code.shape[0]
    return (code - jnp.mean(code)) * size / max(size - 1, 1) if discrete else code


def progress(step: Float[Array, " z"], direction: Float[Array, " z"]) -> Scalar:
    """(phi(s') - phi(s)) . z."""
    return jnp.dot(step, direction)


def abstraction_loss(
    abstraction: Abstraction, rows: Moves, towards: Float[Array, "n z"], slack: float | Scalar
) -> tuple[Scalar, Metrics]:
    """L_phi + L_lambda of the module docstring: no parameter is in both."""
    steps = jax.vmap(abstraction.phi)(rows.after) - jax.vmap(abstraction.phi)(rows.before)
    squares = jnp.sum(steps**2, axis=1)
    room = jnp.minimum(slack, 1.0 - squares)
    total = jnp.maximum(jnp.sum(rows.weight), 1.0)

    def average(x: Float[Array, " n"]) -> Scalar:
        return jnp.sum(rows.weight * x) / total

    gained = average(jax.vmap(progress)(steps, towards))
    multiplier = jnp.exp(abstraction.log_lambda)
    phi_loss = -gained - jax.lax.stop_gradient(multiplier) * average(room)
    lambda_loss = abstraction.log_lambda * jax.lax.stop_gradient(average(room))
    metrics = {"progress": gained, "squared_step": average(squares), "lambda": multiplier}
    return phi_loss + lambda_loss, metrics
