"""Env wrappers: `GoalEnv` terminates at a goal, and in `SkillActionEnv` an action is a skill."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.envs.base import Box, Discrete, Env, Step
from edl.envs.clock import at_time_left
from edl.types import Key


class GoalEnv(Env):
    """An env that terminates when the features are within ``radius`` of a goal (an ellipsoid, one radius per axis)."""

    inner: Env
    goal: Float[Array, " s"]
    radius: Float[Array, " s"]
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Box | Discrete:
        return self.inner.action_space

    def reset(self, key: Key) -> Any:
        return self.inner.reset(key)

    def step(self, key: Key, state: Any, action: Array) -> Step:
        """A step of the inner env that also terminates at the goal."""
        step = self.inner.step(key, state, action)
        offset = (self.features(step.observation) - self.goal) / self.radius
        return step._replace(terminated=step.terminated | (jnp.sum(offset**2) <= 1.0))

    def observe(self, state: Any) -> Float[Array, " o"]:
        return self.inner.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return self.inner.features(observation)


def goal_env(inner: Env, goal: Float[Array, " s"], radius: Float[Array, " s"]) -> GoalEnv:
    """The task of reaching ``goal`` in the env ``inner``."""
    sizes: dict[str, Any] = {"observation_size": inner.observation_size, "feature_size": inner.feature_size}
    return GoalEnv(inner=inner, goal=goal, radius=radius, horizon=inner.horizon, **sizes)


class SkillActionEnv(Env):
    """An env whose action is a skill, which acts for ``hold`` steps of the inner env."""

    inner: Env
    policy: SkillPolicy
    hold: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Discrete:
        """One action per skill."""
        return Discrete(self.policy.codes.shape[0])

    def reset(self, key: Key) -> Any:
        return self.inner.reset(key)

    def step(self, key: Key, state: Any, action: Array) -> Step:
        """Play a skill for ``hold`` steps.

        If the inner env terminates in one of them, this step terminates. The remaining inner steps are still played.
        """
        code = self.policy.codes[action]

        def inner_step(state: Any, inputs: tuple) -> tuple[Any, tuple]:
            key, left = inputs
            act_key, step_key = jax.random.split(key)
            observation = self.inner.observe(state)
            if self.policy.horizon:  # the skill has to be at its goal after ``hold`` steps
                observation = at_time_left(observation, left, self.policy.horizon)
            step = self.inner.step(step_key, state, self.policy.act(act_key, observation, code))
            return step.state, (step.terminated, step.truncated)

        keys, left = jax.random.split(key, self.hold), self.hold - jnp.arange(self.hold)
        state, (terminated, truncated) = jax.lax.scan(inner_step, state, (keys, left))
        ends_before = jnp.cumsum(terminated | truncated) - (terminated | truncated)
        return Step(state, self.observe(state), jnp.any(terminated & (ends_before == 0)), jnp.any(truncated))

    def observe(self, state: Any) -> Float[Array, " o"]:
        """The observation of the skills is also that of the controller."""
        return self.inner.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return self.inner.features(observation)


def skill_action_env(inner: Env, policy: SkillPolicy, hold: int) -> SkillActionEnv:
    """The env ``inner`` with skills as actions. Its horizon is ``hold`` times shorter."""
    horizon = max(inner.horizon // hold, 1)
    sizes: dict[str, Any] = {"observation_size": inner.observation_size, "feature_size": inner.feature_size}
    return SkillActionEnv(inner=inner, policy=policy, hold=hold, horizon=horizon, **sizes)
