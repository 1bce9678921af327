"""Stochastic Neural Networks for Hierarchical RL (Florensa, Duan and Abbeel, 2017): fast skills in separate cells.

    r_t = r_proxy(s_t, s_{t+1}) + alpha_H log p_hat(z | c(s_{t+1})),      p_hat(z|c) = N[c,z] / sum_z' N[c,z']

c(s) is the cell of a grid over the first two dimensions, N[c,z] counts the visits of skill z to this cell in the
current batch of episodes, and the proxy reward is the distance covered in a step, a speed. The bonus is at most 0; its
mean is -alpha_H H(Z|C), so with a fixed p(z) it maximises I(C;Z). The policy receives z by bilinear integration: its
input is [s, z, s (x) z], so with a one-hot z every skill has first-layer weights of its own.

Departs from the paper and its code:
- PPO replaces TRPO, and a learned critic replaces the linear baseline. z is drawn once per episode; their code also
  switches it every 100 steps with a virtual reset of the position.
- The grid wraps around after ``cells`` cells, so it does not depend on the size of the env. Two states never share a
  cell by wrapping in envs less than cells / mesh_density units wide.
- alpha_H is 1, not 0.05: here a step covers about one unit, and the bonus needs a similar weight. With 0.05 all skills
  of the square maze become the same fast skill.
- A pseudo-count keeps log p_hat finite in cells that the batch did not visit; their bonus is log 1/K.
- Pre-training only: the manager that picks z for a task is not included. To reach a state x, the skill is
  argmax_z p_hat(z|c), where c is the cell nearest to x that the last batch of episodes visited.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.model_fitting import visits_of
from edl.baselines.pick_rules import with_pick_rule
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar

PSEUDO_COUNT = 1e-3
"""Initial count of visits of each skill to each cell."""
Counts = Float[Array, "c k"]


@config
class SNN4HRLConfig:
    """The density of the grid is that of the authors' code; PPO's settings are ours."""

    num_skills: int = 10
    """Number of skills."""
    bonus_weight: float = 1.0
    """alpha_H, the weight of the bonus."""
    mesh_density: float = 5.0
    """Grid cells per unit of length."""
    cells: int = 128
    """Cells along each side of the grid, after which it wraps around."""
    ppo: PPOConfig = PPOConfig()
    """Settings of PPO."""


class NearestVisitedCell(PickRule):
    """argmax_z p_hat(z|c) of the nearest visited cell c. ``winners`` has -1 in cells that were not visited."""

    winners: Int[Array, " c"]
    density: Scalar
    cells: int = eqx.field(static=True)
    rule: ClassVar[str] = "argmax_z p_hat(z|c) in the nearest visited cell c"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""]:
        place = target[:2] * self.density
        indices = jnp.arange(self.winners.shape[0])[:, None]
        centres = indices // self.cells ** jnp.arange(place.shape[0]) % self.cells + 0.5
        gaps = (place - centres + self.cells / 2) % self.cells - self.cells / 2  # the grid wraps around
        distances = jnp.where(self.winners >= 0, jnp.sum(gaps**2, axis=1), jnp.inf)
        return jnp.maximum(self.winners[jnp.argmin(distances)], 0)


def snn4hrl(env: Env, config: SNN4HRLConfig) -> Program[Any, SkillPolicy]:
    """Train fast skills that each stay in cells of their own."""
    num_cells = config.cells ** min(env.feature_size, 2)

    def count_visits(state: Counts, episodes: Episode) -> Counts:
        states, skills, weight = visits_of(episodes)
        cells = jax.vmap(cell_index, (0, None, None))(states, config.mesh_density, config.cells)
        return jnp.zeros_like(state).at[cells, skills].add(weight)

    def bonuses(state: Counts, episode: Episode) -> Float[Array, " t"]:
        cells = jax.vmap(cell_index, (0, None, None))(episode.features[1:], config.mesh_density, config.cells)
        return jax.vmap(log_posterior, (0, None))(state[cells], episode.skill.index)

    def reward(state: Counts, episode: Episode) -> Float[Array, " t"]:
        return speeds(episode) + config.bonus_weight * bonuses(state, episode)

    def update(key: Key, state: Counts, episodes: Episode) -> tuple[Counts, Metrics]:
        total = jnp.sum(episodes.valid)
        bonus = jnp.sum(jax.vmap(bonuses, (None, 0))(state, episodes) * episodes.valid) / total
        speed = jnp.sum(jax.vmap(speeds)(episodes) * episodes.valid) / total
        return state, {"speed": speed, "information": bonus + jnp.log(config.num_skills)}

    objective = Objective(
        init=lambda key: jnp.zeros((num_cells, config.num_skills)),
        sample=lambda key, state: sample_one_hot(key, config.num_skills),
        reward=reward,
        update=update,
        before_rewards=count_visits,
        needs="steps",
    )
    program = ppo(env, objective, config.ppo, codes=jnp.eye(config.num_skills), integrate=bilinear)
    return with_pick_rule(program, lambda state: nearest_visited_cell(state, config))


def nearest_visited_cell(counts: Counts, config: SNN4HRLConfig) -> NearestVisitedCell:
    """The rule, from the visits of each skill to each cell."""
    winners = jnp.where(jnp.any(counts > 0, axis=1), jnp.argmax(counts, axis=1), -1)
    return NearestVisitedCell(winners, jnp.asarray(config.mesh_density, jnp.float32), config.cells)


def bilinear(observation: Float[Array, " o"], code: Float[Array, " z"]) -> Float[Array, " i"]:
    """[s, z, s (x) z]."""
    return jnp.concatenate([observation, code, jnp.outer(observation, code).reshape(-1)])


def speeds(episode: Episode) -> Float[Array, " t"]:
    """The proxy reward ||s_{t+1} - s_t||."""
    return jnp.linalg.norm(jnp.diff(episode.features, axis=0), axis=1)


def cell_index(state: Float[Array, " s"], density: float | Scalar, cells: int) -> Int[Array, ""]:
    """Index of the grid cell that contains a state."""
    place = jnp.floor(state[:2] * density).astype(jnp.int32) % cells
    return jnp.sum(place * cells ** jnp.arange(place.shape[0]))


def log_posterior(counts: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log p_hat(z|c), from the number of visits of each skill to the cell."""
    smoothed = counts + PSEUDO_COUNT
    return jnp.log(smoothed[index]) - jnp.log(jnp.sum(smoothed))
