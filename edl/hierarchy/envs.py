"""Worlds made of worlds: one that ends at a goal, and one whose actions are skills."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.envs.base import Box, Discrete, Env, Step
from edl.types import Key


class GoalWorld(Env):
    """A world that terminates where the features come within 1 of a goal, measured in ``radius``."""

    inner: Env
    goal: Float[Array, " s"]
    radius: Float[Array, " s"]
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Box | Discrete:
        """That of the world."""
        return self.inner.action_space

    def reset(self, key: Key) -> Any:
        """Draw s_0."""
        return self.inner.reset(key)

    def step(self, key: Key, state: Any, action: Array) -> Step:
        """Draw s_{t+1}; at the goal, that is the end."""
        step = self.inner.step(key, state, action)
        offset = (self.features(step.observation) - self.goal) / self.radius
        return step._replace(terminated=step.terminated | (jnp.sum(offset**2) <= 1.0))

    def observe(self, state: Any) -> Float[Array, " o"]:
        """What the policy sees."""
        return self.inner.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """Features of the world."""
        return self.inner.features(observation)


def goal_world(inner: Env, goal: Float[Array, " s"], radius: Float[Array, " s"]) -> GoalWorld:
    """The task to get within ``radius`` of a goal."""
    sizes = {"observation_size": inner.observation_size, "feature_size": inner.feature_size}
    return GoalWorld(inner=inner, goal=goal, radius=radius, horizon=inner.horizon, **sizes)


class SkillWorld(Env):
    """A world in which an action is a skill, followed for ``hold`` steps. An episode takes as many steps as before."""

    inner: Env
    policy: SkillPolicy
    hold: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)

    @property
    def action_space(self) -> Discrete:
        """One action for each skill."""
        return Discrete(self.policy.codes.shape[0])

    def reset(self, key: Key) -> Any:
        """Draw s_0."""
        return self.inner.reset(key)

    def step(self, key: Key, state: Any, action: Array) -> Step:
        """Follow a skill. An end on the way is the end, though the world moves on until the skill is over."""
        code = self.policy.codes[action]

        def follow(state: Any, key: Key) -> tuple[Any, tuple]:
            act_key, step_key = jax.random.split(key)
            step = self.inner.step(step_key, state, self.policy.act(act_key, self.inner.observe(state), code))
            return step.state, (step.terminated, step.truncated)

        state, (terminated, truncated) = jax.lax.scan(follow, state, jax.random.split(key, self.hold))
        over = jnp.cumsum(terminated | truncated) - (terminated | truncated)  # ends before this step
        return Step(state, self.observe(state), jnp.any(terminated & (over == 0)), jnp.any(truncated))

    def observe(self, state: Any) -> Float[Array, " o"]:
        """What the skills see, the controller sees."""
        return self.inner.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """Features of the world."""
        return self.inner.features(observation)


def skill_world(inner: Env, policy: SkillPolicy, hold: int) -> SkillWorld:
    """The same world, acted in by choosing skills."""
    horizon = max(inner.horizon // hold, 1)
    sizes = {"observation_size": inner.observation_size, "feature_size": inner.feature_size}
    return SkillWorld(inner=inner, policy=policy, hold=hold, horizon=horizon, **sizes)
