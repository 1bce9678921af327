"""Brax- and MJX-style envs as an `Env`. They are pure JAX, so the whole program stays under ``jit``.

A Brax-style env has ``reset(rng) -> state``, ``step(state, action) -> state``, ``observation_size`` and
``action_size``, and its states have ``obs`` and ``done``: Brax, MuJoCo Playground, and others. This module imports none
of them.

    edl.run(lambda: brax.envs.get_environment("ant", exclude_current_positions_from_observation=False), features="0,1")

Physics can diverge after the end of an episode, or under too strong an action. Therefore an episode that has ended
keeps its state, and an episode whose next observation would not be finite terminates before it. The size of
observations comes from a traced reset, because the ``observation_size`` of a Brax env resets it outside of ``jit``,
which takes half a minute.
"""

import inspect
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.config import ConfigError
from edl.envs.base import Box, Env, Step
from edl.envs.features import Features, select_features
from edl.types import Key

NEEDED = ("reset", "step", "observation_size", "action_size")


def is_brax_style(made: Any) -> bool:
    """Whether an object has the interface of a Brax env."""
    return all(inspect.getattr_static(made, name, None) is not None for name in NEEDED)


class BraxState(NamedTuple):
    """The inner env's state, the number of steps, and whether the episode has ended."""

    inner: Any
    time: Int[Array, ""]
    ended: Bool[Array, ""]


class BraxEnv(Env):
    """A Brax-style env. Actions are in [-1, 1], as everywhere in Brax. ``done`` means terminated."""

    inner: Any = eqx.field(static=True)
    chosen_features: Features = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Box:
        return Box(-jnp.ones(self.num_actions), jnp.ones(self.num_actions))

    def reset(self, key: Key) -> BraxState:
        return BraxState(self.inner.reset(jax.random.key_data(key)), jnp.int32(0), jnp.bool_(False))

    def step(self, key: Key, state: BraxState, action: Float[Array, " a"]) -> Step:
        """Compute s_{t+1}. It does not use the key: the randomness of a Brax env comes from its reset."""
        inner = self.inner.step(state.inner, jnp.clip(action, -1.0, 1.0))
        diverged = ~jnp.all(jnp.isfinite(inner.obs))
        terminated = ~state.ended & (diverged | (jnp.asarray(inner.done) > 0))
        keep = state.ended | diverged
        inner = jax.tree.map(lambda old, new: jnp.where(keep, old, new), state.inner, inner)
        reached = BraxState(inner, state.time + 1, state.ended | terminated)
        return Step(reached, self.observe(reached), terminated, reached.time >= self.horizon)

    def observe(self, state: BraxState) -> Float[Array, " o"]:
        return jnp.asarray(state.inner.obs, jnp.float32)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return select_features(self.chosen_features, observation)


def observation_size_of(name: str, made: Any) -> int:
    """The size of the observations of a Brax-style env."""
    observed = jax.eval_shape(made.reset, jax.ShapeDtypeStruct((2,), jnp.uint32)).obs
    if not isinstance(observed, jax.ShapeDtypeStruct) or len(observed.shape) != 1:
        raise ConfigError(
            f"observations of env {name!r} must be a vector (got {observed}). Wrap the env to flatten them."
        )
    return observed.shape[0]


def brax_env(made: Any, chosen: Features, size: int, feature_size: int, horizon: int) -> BraxEnv:
    """Adapt a Brax-style env whose observations have ``size`` numbers."""
    return BraxEnv(
        inner=made,
        chosen_features=chosen,
        num_actions=int(made.action_size),
        horizon=horizon,
        observation_size=size,
        feature_size=feature_size,
    )
