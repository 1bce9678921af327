"""Fit a model to the policy's own episodes: rows of (s, z) or (s, s', z)."""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import check
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, fold_normaliser
from edl.nets.optim import Trained
from edl.objective import Objective
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac, steps_per_iteration
from edl.types import Key, Scalar

ModelInput = Literal["features", "observation"]
"""What a model of a method sees: the features, which skills are about, or the whole observation."""


class Fitted(NamedTuple):
    """The state of an objective that trains one model. ``normaliser`` is that of observations, if the model sees them.

    `sac_with_model` sets the normaliser to that of the policy before training.
    """

    model: Trained
    normaliser: Normaliser


def input_size(env: Env, sees: ModelInput) -> int:
    """Number of inputs of a model."""
    return env.feature_size if sees == "features" else env.observation_size


def with_model_inputs(episodes: Episode, sees: ModelInput, normaliser: Normaliser) -> Episode:
    """The same episodes, with the inputs of the model as features: all functions below then use these."""
    if sees == "features":
        return episodes
    return episodes._replace(features=(episodes.observations - normaliser.mean) / normaliser.scale)


def on_raw_inputs(fitted: Fitted, net: MLP, sees: ModelInput) -> MLP:
    """A network of the model as a function of features or observations that are not normalised."""
    return net if sees == "features" else fold_normaliser(net, fitted.normaliser)


def on_target_features(net: MLP, env: Env, sees: ModelInput, observation: Float[Array, " o"]) -> MLP:
    """A network of raw inputs as a function of the features x alone, to compute its output for a state to reach.

    If the network sees observations, x is put into ``observation``, e.g. one in which episodes start:
    o(x) = observation + J^+ (x - features(observation)), where J is the Jacobian of the features. This replaces the
    features and keeps the rest if features are dimensions of the observation or linear in it.
    """
    if sees == "features":
        return net
    inverse = jnp.linalg.pinv(jax.jacobian(env.features)(observation))
    offset = observation - inverse @ env.features(observation)
    first = inverse.T @ net.weights[0]
    return MLP([first, *net.weights[1:]], [net.biases[0] + offset @ net.weights[0], *net.biases[1:]], net.activation)


def sac_with_model(
    env: Env, objective: Objective, config: SACConfig, sees: ModelInput, codes: Float[Array, "k z"]
) -> Program[SACState, SkillPolicy]:
    """SAC for an objective whose state is a `Fitted` model.

    A model that sees observations gets the same inputs as the policy, which must not change while it learns.
    """
    check(
        sees == "features" or (config.normalise and config.random_episodes > 0),
        "a model of the observation needs a fixed normaliser: sac.random_episodes must be at least 1 and sac.normalise "
        f"must be true (got {config.random_episodes} and {config.normalise}). Set them, or let the model see features.",
    )
    program = sac(env, objective, config, codes=codes)

    def init(key: Key) -> SACState:
        state = program.init(key)
        return state._replace(objective=state.objective._replace(normaliser=state.moments.normaliser()))

    return program if sees == "features" else dataclasses.replace(program, init=init)


def with_model_steps(env: Env, config: SACConfig, minibatches: int, match_policy: bool) -> tuple[SACConfig, int]:
    """The settings of SAC, and the gradient steps of the model per iteration: ``minibatches``, or as the policy."""
    if not match_policy:
        return config, minibatches
    steps = steps_per_iteration(env, config)
    return dataclasses.replace(config, objective_batch_size=steps * config.batch_size), steps


class Visits(NamedTuple):
    """Rows of (s, z), with z as its index. ``weight`` is 0 for steps after the episode's end."""

    states: Float[Array, "n s"]
    skills: Int[Array, " n"]
    weight: Float[Array, " n"]


def visits_of(episodes: Episode) -> Visits:
    """Every state after the first one of each episode."""
    reached = episodes.features[:, 1:]
    skills = jnp.repeat(episodes.skill.index[:, None], reached.shape[1], axis=1)
    return Visits(
        states=reached.reshape(-1, reached.shape[-1]),
        skills=skills.reshape(-1),
        weight=episodes.valid.reshape(-1).astype(jnp.float32),
    )


class Moves(NamedTuple):
    """Rows of (s, s', z), with z as its code. ``weight`` is 0 for steps after the episode's end."""

    before: Float[Array, "n s"]
    after: Float[Array, "n s"]
    code: Float[Array, "n z"]
    weight: Float[Array, " n"]


def moves_of(episodes: Episode) -> Moves:
    """Every step of every episode."""
    count, horizon = episodes.valid.shape
    steps = Moves(
        before=episodes.features[:, :-1],
        after=episodes.features[:, 1:],
        code=jnp.repeat(episodes.skill.code[:, None], horizon, axis=1),
        weight=episodes.valid.astype(jnp.float32),
    )
    return jax.tree.map(lambda x: x.reshape(count * horizon, *x.shape[2:]), steps)


def weighted_mean(weight: Float[Array, " n"], x: Float[Array, " n"] | Bool[Array, " n"]) -> Scalar:
    """The mean of ``x`` over the rows, by their weights; 0 if no row has a weight."""
    return jnp.sum(weight * x) / jnp.maximum(jnp.sum(weight), 1.0)
