"""Envs on MJX: a robot in the open, and a robot in a text maze. Both are pure JAX and never terminate."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.base import Box, Env, Step
from edl.envs.features import Features, select_features
from edl.envs.maze import Maze
from edl.envs.mjx.physics import Physics, PhysicsState
from edl.envs.mjx.travel import are_place, are_place_on_floor
from edl.envs.mjx.view import own_view, turned
from edl.envs.mjx.walls import UNITS_PER_CELL, WallMap
from edl.types import Key


class MjxEnv(Env):
    """A robot without walls around it. The observation is qpos, qvel, and the bodies that features name.

    ``chosen_features`` are the features as config.json has them, and ``selection`` computes them.
    """

    physics: Physics = eqx.field(static=True)
    chosen_features: Any = eqx.field(static=True)
    selection: Features = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def slow_to_compile(self) -> bool:
        return True

    @property
    def action_space(self) -> Box:
        return self.physics.action_space

    @property
    def features_are_place(self) -> bool:
        return are_place(self.selection, self.physics.model, self.physics.bodies)

    @property
    def features_are_place_on_floor(self) -> bool:
        """Whether the features are where the robot is on an empty floor, so that nothing depends on them."""
        return are_place_on_floor(self.selection, self.physics.model)

    def egocentric(self, observation: Float[Array, " o"], offset: Float[Array, " 2"]) -> Float[Array, " i"]:
        """An observation without x and y, and an offset in the plane, both in the robot's own frame."""
        size = self.physics.model.nq
        view, angle = own_view(observation[:size], observation[size:])
        return jnp.concatenate([view, turned(offset, angle)])

    def reset(self, key: Key) -> PhysicsState:
        return self.physics.reset(key)

    def step(self, key: Key, state: PhysicsState, action: Float[Array, " a"]) -> Step:
        """Physics is deterministic, so the key is not used."""
        reached = self.physics.step(state, action)
        return Step(reached, self.observe(reached), jnp.bool_(False), reached.time >= self.horizon)

    def observe(self, state: PhysicsState) -> Float[Array, " o"]:
        return self.physics.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return select_features(self.selection, observation)


class MjxMaze(Env):
    """A robot in a maze. Features are its x and y in cells, as in `edl.envs.maze`; the observation is in units.

    The first two positions of the robot are its x and y. ``maze`` has the cells in which episodes start and those that
    the oracle draws from. Its own walls are not used.
    """

    walls: WallMap
    maze: Maze
    physics: Physics = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True, default=2)

    @property
    def slow_to_compile(self) -> bool:
        return True

    @property
    def action_space(self) -> Box:
        return self.physics.action_space

    def reset(self, key: Key) -> PhysicsState:
        """The robot in the middle of a uniform start cell."""
        start_key, robot_key = jax.random.split(key)
        start = self.maze.starts[jax.random.randint(start_key, (), 0, self.maze.num_starts)]
        state = self.physics.reset(robot_key)
        return state._replace(qpos=state.qpos.at[:2].add(UNITS_PER_CELL * start))

    def step(self, key: Key, state: PhysicsState, action: Float[Array, " a"]) -> Step:
        """Physics is deterministic, so the key is not used."""
        reached = self.physics.step(state, action, self.walls)
        return Step(reached, self.observe(reached), jnp.bool_(False), reached.time >= self.horizon)

    def observe(self, state: PhysicsState) -> Float[Array, " o"]:
        return self.physics.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " 2"]:
        return observation[:2] / UNITS_PER_CELL

    def sample_states(self, key: Key, n: int) -> Float[Array, "n 2"]:
        """The oracle: ``n`` positions in cells, uniform over the maze. The robot's body cannot touch all of them."""
        return self.maze.sample_states(key, n)
