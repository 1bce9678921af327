"""The time left until a deadline, as the last number of an observation.

A goal that an agent passes, but at which it cannot stay, can only be reached on time by a policy that knows the time:
a car that has to be on a slope at a certain speed when the episode ends. k steps before the deadline, in an env with
episodes of T steps, the policy sees

    log(1 + k) / log(1 + T),

because the last steps differ more than the first ones.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Real

from edl.envs.base import Box, Discrete, Env, EnvWrapper, Step
from edl.types import Key


def time_left(steps: Real[Array, "*n"] | int, horizon: int) -> Float[Array, "*n"]:
    """What a policy sees ``steps`` steps before its deadline: 1 at the start of an episode, 0 at its end."""
    return jnp.log1p(jnp.asarray(steps, jnp.float32)) / math.log1p(horizon)


def steps_left(seen: Float[Array, "*n"], horizon: int) -> Int[Array, "*n"]:
    """The inverse of `time_left`."""
    return jnp.round(jnp.expm1(seen * math.log1p(horizon))).astype(jnp.int32)


def with_time_left(
    observation: Float[Array, "*n o"], steps: Real[Array, "*n"] | int, horizon: int
) -> Float[Array, "*n o1"]:
    """The observation with the time left appended."""
    return jnp.concatenate([observation, time_left(steps, horizon)[..., None]], axis=-1)


def timed_horizon(env: Env) -> int:
    """Number of steps of an episode if the observations of ``env`` include the time left, or else 0."""
    return env.horizon if env.timed else 0


class TimedState(NamedTuple):
    """A state of the inner env, and the number of steps since the reset."""

    inner: Any
    time: Int[Array, ""]


class TimedEnv(EnvWrapper):
    """An env in JAX whose observations include the time left. Skills are about the features of the inner env."""

    inner: Env
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def features_are_place(self) -> bool:
        return self.inner.features_are_place

    @property
    def sample_states(self) -> Callable[[Key, int], Float[Array, "n s"]]:
        """That of the inner env. As there, it is missing if the env has no oracle."""
        return self.inner.sample_states  # type: ignore[attr-defined]

    @property
    def action_space(self) -> Box | Discrete:
        return self.inner.action_space

    def reset(self, key: Key) -> TimedState:
        return TimedState(self.inner.reset(key), jnp.int32(0))

    def step(self, key: Key, state: TimedState, action: Array) -> Step:
        """A step of the inner env."""
        step = self.inner.step(key, state.inner, action)
        reached = TimedState(step.state, state.time + 1)
        return Step(reached, self.observe(reached), step.terminated, step.truncated)

    def observe(self, state: TimedState) -> Float[Array, " o"]:
        left = jnp.maximum(self.horizon - state.time, 0)
        return with_time_left(self.inner.observe(state.inner), left, self.horizon)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return self.inner.features(observation[..., :-1])


def timed_env(inner: Env) -> TimedEnv:
    """The env ``inner`` with the time left in its observations."""
    sizes = {"observation_size": inner.observation_size + 1, "feature_size": inner.feature_size}
    return TimedEnv(inner=inner, horizon=inner.horizon, timed=True, **sizes)


def at_time_left(
    observation: Float[Array, "*n o1"], steps: Real[Array, "*n"] | int, horizon: int
) -> Float[Array, "*n o1"]:
    """A timed observation with another time left."""
    return with_time_left(observation[..., :-1], steps, horizon)
