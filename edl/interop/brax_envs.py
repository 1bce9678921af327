"""Brax- and MJX-style environments as worlds of ours: pure JAX, so that all of a program stays under ``jit``.

Anything with ``reset(rng) -> state``, ``step(state, action) -> state``, ``observation_size`` and ``action_size``, whose
states have ``obs`` and ``done``: Brax, MuJoCo Playground, and what follows their interface. Nothing is imported.

    edl.run(lambda: brax.envs.get_environment("ant", exclude_current_positions_from_observation=False), features="0,1")

Physics that goes on after the end, or takes too strong an action, may blow up. So an episode that is over stays where
it is, and one whose next observation would not be finite ends before it. And the size of observations is asked of a
traced reset: the ``observation_size`` of a Brax environment resets it outside of ``jit``, which takes half a minute.
"""

import inspect
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.config import ConfigError
from edl.envs.base import Box, Env, Step
from edl.envs.host import Features, select
from edl.types import Key

NEEDED = ("reset", "step", "observation_size", "action_size")


def is_brax_style(made: Any) -> bool:
    """Whether an object has what a Brax environment has."""
    return all(inspect.getattr_static(made, name, None) is not None for name in NEEDED)


class BraxState(NamedTuple):
    """The world's own state, how many steps it has taken, and whether it has ended."""

    inner: Any
    time: Int[Array, ""]
    over: Bool[Array, ""]


class BraxWorld(Env):
    """A Brax-style environment. Actions are in [-1, 1], as everywhere in Brax; ``done`` is a termination."""

    inner: Any = eqx.field(static=True)
    about: Features = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Box:
        """The unit box."""
        return Box(-jnp.ones(self.num_actions), jnp.ones(self.num_actions))

    def reset(self, key: Key) -> BraxState:
        """Draw s_0."""
        return BraxState(self.inner.reset(jax.random.key_data(key)), jnp.int32(0), jnp.bool_(False))

    def step(self, key: Key, state: BraxState, action: Float[Array, " a"]) -> Step:
        """Draw s_{t+1}. What is random in these worlds follows from their reset."""
        inner = self.inner.step(state.inner, jnp.clip(action, -1.0, 1.0))
        blown_up = ~jnp.all(jnp.isfinite(inner.obs))
        terminated = ~state.over & (blown_up | (jnp.asarray(inner.done) > 0))
        stays = state.over | blown_up
        inner = jax.tree.map(lambda old, new: jnp.where(stays, old, new), state.inner, inner)
        reached = BraxState(inner, state.time + 1, state.over | terminated)
        return Step(reached, self.observe(reached), terminated, reached.time >= self.horizon)

    def observe(self, state: BraxState) -> Float[Array, " o"]:
        """What the world shows."""
        return jnp.asarray(state.inner.obs, jnp.float32)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """The dimensions, or the function, that skills are about."""
        return select(self.about, observation)


def observation_size_of(name: str, made: Any) -> int:
    """How many numbers a Brax-style environment shows."""
    shown = jax.eval_shape(made.reset, jax.ShapeDtypeStruct((2,), jnp.uint32)).obs
    if not isinstance(shown, jax.ShapeDtypeStruct) or len(shown.shape) != 1:
        raise ConfigError(f"world {name!r} observes {shown}: a vector is wanted. Give an environment that flattens it.")
    return shown.shape[0]


def brax_world(made: Any, about: Features, size: int, feature_size: int, horizon: int) -> BraxWorld:
    """A world of ours from a Brax-style environment that shows so many numbers."""
    return BraxWorld(
        inner=made,
        about=about,
        num_actions=int(made.action_size),
        horizon=horizon,
        observation_size=size,
        feature_size=feature_size,
    )
