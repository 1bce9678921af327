"""An env in which random actions hardly move: dynamics must be learned before anything can be reached."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.envs.base import Box, Env, Step


class ThrusterState(NamedTuple):
    position: Float[Array, " 2"]
    velocity: Float[Array, " 2"]
    time: Int[Array, ""]


class Thruster(Env):
    """A point with inertia in the plane. Its thrust is a product of three actions, so random actions have little of it.

    ``scale`` multiplies all lengths.
    """

    horizon: int = eqx.field(static=True, default=30)
    scale: float = eqx.field(static=True, default=1.0)
    observation_size: int = eqx.field(static=True, default=4)
    feature_size: int = eqx.field(static=True, default=2)

    @property
    def action_space(self) -> Box:
        return Box(low=-jnp.ones(4), high=jnp.ones(4))

    def reset(self, key):
        return ThrusterState(0.01 * jax.random.normal(key, (2,)), jnp.zeros(2), jnp.int32(0))

    def step(self, key, state, action):
        throttle = jnp.prod(jnp.maximum(action[2:], 0.0))
        velocity = 0.8 * state.velocity + 0.2 * throttle * action[:2]
        reached = ThrusterState(state.position + velocity, velocity, state.time + 1)
        return Step(reached, self.observe(reached), jnp.bool_(False), reached.time >= self.horizon)

    def observe(self, state):
        return self.scale * jnp.concatenate([state.position, state.velocity])

    def features(self, observation):
        return observation[:2]
