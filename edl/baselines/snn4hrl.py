"""Stochastic Neural Networks for Hierarchical RL (Florensa, Duan and Abbeel, 2017): go fast, where no other skill goes.

    r_t = r_proxy(s_t, s_{t+1}) + alpha_H log p_hat(z | c(s_{t+1})),      p_hat(z|c) = N[c,z] / sum_z' N[c,z']

c(s) is the cell of a grid over the first two dimensions, N[c,z] counts the visits of skill z to it among the episodes
of the current batch, and the proxy is the distance covered in a step, a speed. The bonus is at most 0; its mean is
-alpha_H H(Z|C), so with a fixed p(z) it maximises I(C;Z). The policy is told z by bilinear integration: its input is
[s, z, s (x) z], so with a one-hot z every skill has first-layer weights of its own.

Departs from the paper and its code:
- PPO takes the place of TRPO, and a learned critic that of a linear baseline; z is drawn once per episode, where the
  code also switches it every 100 steps with a virtual reset of position.
- The grid wraps around after ``cells`` cells, so that it needs no knowledge of the world's size. Cells are never
  confused in worlds under cells / mesh_density units wide.
- alpha_H is 1, not 0.05: here a step covers about a unit, and the bonus has to weigh as much. With 0.05 all skills of
  the square maze become the same fast one.
- A pseudo-count keeps log p_hat finite where it is asked for cells that the batch did not visit; those pay log 1/K.
- Pre-training alone: the manager that picks z for a task is not part of it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.visits import one_hot_skill, visits
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar

PSEUDO_COUNT = 1e-3
"""Visits of each skill that every cell starts with."""
Counts = Float[Array, "c k"]


@config
class SNN4HRLConfig:
    """The density of the grid is that of the authors' code; PPO is ours."""

    num_skills: int = 10
    bonus_weight: float = 1.0
    """alpha_H."""
    mesh_density: float = 5.0
    """Cells per unit of length."""
    cells: int = 128
    """Along each side of the grid, after which it wraps around."""
    ppo: PPOConfig = PPOConfig()


def snn4hrl(env: Env, config: SNN4HRLConfig) -> Program[Any, SkillPolicy]:
    """Fast skills that keep to cells of their own."""
    table = config.cells ** min(env.feature_size, 2)

    def look(state: Counts, episodes: Episode) -> Counts:
        states, skills, valid = visits(episodes)
        cells = jax.vmap(cell, (0, None, None))(states, config.mesh_density, config.cells)
        return jnp.zeros_like(state).at[cells, skills].add(valid)

    def bonuses(state: Counts, episode: Episode) -> Float[Array, " t"]:
        cells = jax.vmap(cell, (0, None, None))(episode.features[1:], config.mesh_density, config.cells)
        return jax.vmap(log_posterior, (0, None))(state[cells], episode.skill.index)

    def reward(state: Counts, episode: Episode) -> Float[Array, " t"]:
        return speeds(episode) + config.bonus_weight * bonuses(state, episode)

    def update(key: Key, state: Counts, episodes: Episode) -> tuple[Counts, Metrics]:
        total = jnp.sum(episodes.valid)
        bonus = jnp.sum(jax.vmap(bonuses, (None, 0))(state, episodes) * episodes.valid) / total
        speed = jnp.sum(jax.vmap(speeds)(episodes) * episodes.valid) / total
        return state, {"speed": speed, "information": bonus + jnp.log(config.num_skills)}

    objective = Objective(
        init=lambda key: jnp.zeros((table, config.num_skills)),
        sample=lambda key, state: one_hot_skill(key, config.num_skills),
        reward=reward,
        update=update,
        before_rewards=look,
    )
    return ppo(env, objective, config.ppo, codes=jnp.eye(config.num_skills), integrate=bilinear)


def bilinear(observation: Float[Array, " o"], code: Float[Array, " z"]) -> Float[Array, " i"]:
    """[s, z, s (x) z]."""
    return jnp.concatenate([observation, code, jnp.outer(observation, code).reshape(-1)])


def speeds(episode: Episode) -> Float[Array, " t"]:
    """The proxy reward: ||s_{t+1} - s_t||."""
    return jnp.linalg.norm(jnp.diff(episode.features, axis=0), axis=1)


def cell(state: Float[Array, " s"], density: float | Scalar, cells: int) -> Int[Array, ""]:
    """The number of the grid's cell that a state lies in."""
    place = jnp.floor(state[:2] * density).astype(jnp.int32) % cells
    return jnp.sum(place * cells ** jnp.arange(place.shape[0]))


def log_posterior(counts: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log p_hat(z|c) from the visits of each skill to the cell."""
    smoothed = counts + PSEUDO_COUNT
    return jnp.log(smoothed[index]) - jnp.log(jnp.sum(smoothed))
