"""Tiny envs with known solutions, for tests of learners. The paper analyses rewards on such a gridworld."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.envs.base import Box, Discrete, Env, Step
from edl.types import Key

MOVES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))
"""Displacement of each action: stay, right, up, left, down."""


class OneStep(Env):
    """The next state is the action, and the episode terminates: the reward of a state is the reward of an action."""

    horizon: int = eqx.field(static=True, default=1)
    observation_size: int = eqx.field(static=True, default=1)
    feature_size: int = eqx.field(static=True, default=1)

    @property
    def action_space(self) -> Box:
        return Box(low=-jnp.ones(1), high=jnp.ones(1))

    def reset(self, key: Key) -> Float[Array, " 1"]:
        return jnp.zeros(1)

    def step(self, key: Key, state: Float[Array, " 1"], action: Float[Array, " 1"]) -> Step:
        reached = jnp.clip(action, -1.0, 1.0)
        return Step(reached, reached, jnp.bool_(True), jnp.bool_(False))

    def observe(self, state: Float[Array, " 1"]) -> Float[Array, " 1"]:
        return state

    def features(self, observation: Float[Array, " 1"]) -> Float[Array, " 1"]:
        return observation


class GridState(NamedTuple):
    """Column and row of a tile, and the number of steps so far."""

    tile: Int[Array, " 2"]
    time: Int[Array, ""]


class GridWorld(Env):
    """A rectangle of tiles with a border, and optionally a tile that terminates the episode.

    The observation is (x, y) relative to the start, in tiles. If no tile terminates, ``end`` is outside of the grid.
    """

    shape: Int[Array, " 2"]
    start: Int[Array, " 2"]
    end: Int[Array, " 2"]
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True, default=2)
    feature_size: int = eqx.field(static=True, default=2)

    @property
    def action_space(self) -> Discrete:
        return Discrete(len(MOVES))

    def reset(self, key: Key) -> GridState:
        return GridState(self.start, jnp.int32(0))

    def step(self, key: Key, state: GridState, action: Int[Array, ""]) -> Step:
        """Move by one tile, unless the border blocks it."""
        tile = jnp.clip(state.tile + jnp.array(MOVES)[action], 0, self.shape - 1)
        reached = GridState(tile, state.time + 1)
        terminated = jnp.all(tile == self.end)
        return Step(reached, self.observe(reached), terminated, (reached.time >= self.horizon) & ~terminated)

    def observe(self, state: GridState) -> Float[Array, " 2"]:
        return (state.tile - self.start).astype(jnp.float32)

    def features(self, observation: Float[Array, " 2"]) -> Float[Array, " 2"]:
        return observation


def gridworld(width: int, height: int, horizon: int) -> GridWorld:
    """A grid that starts in the centre and never terminates, as in the paper's figure of reward landscapes."""
    shape = jnp.array([width, height], jnp.int32)
    return GridWorld(shape=shape, start=shape // 2, end=jnp.full(2, -1, jnp.int32), horizon=horizon)


def chain(length: int, horizon: int, *, terminates: bool) -> GridWorld:
    """A row of tiles that starts at the left. Its last tile terminates the episode if ``terminates`` is set."""
    last = jnp.array([length - 1, 0], jnp.int32)
    end = last if terminates else jnp.full(2, -1, jnp.int32)
    shape = jnp.array([length, 1], jnp.int32)
    return GridWorld(shape=shape, start=jnp.zeros(2, jnp.int32), end=end, horizon=horizon)
