"""Env wrappers: `GoalEnv` terminates at a goal, and in `SkillActionEnv` an action is a skill."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillPolicy
from edl.envs.base import Box, Discrete, Env, EnvWrapper, Step
from edl.envs.clock import at_time_left
from edl.types import Key


class GoalEnv(EnvWrapper):
    """An env that terminates when the features are within ``radius`` of a goal (an ellipsoid, one radius per axis).

    The inner env may also terminate elsewhere, which is a failure. So the only feature is 1 at the goal, and else 0.
    """

    inner: Env
    goal: Float[Array, " s"]
    radius: Float[Array, " s"]
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True, default=1)

    @property
    def action_space(self) -> Box | Discrete:
        return self.inner.action_space

    def reset(self, key: Key) -> Any:
        return self.inner.reset(key)

    def step(self, key: Key, state: Any, action: Array) -> Step:
        """A step of the inner env that also terminates at the goal."""
        step = self.inner.step(key, state, action)
        return step._replace(terminated=step.terminated | self._at_goal(step.observation))

    def observe(self, state: Any) -> Float[Array, " o"]:
        return self.inner.observe(state)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " 1"]:
        return self._at_goal(observation)[None].astype(jnp.float32)

    def _at_goal(self, observation: Float[Array, " o"]) -> Bool[Array, ""]:
        offset = (self.inner.features(observation) - self.goal) / self.radius
        return jnp.sum(offset**2) <= 1.0


def goal_env(inner: Env, goal: Float[Array, " s"], radius: Float[Array, " s"]) -> GoalEnv:
    """The task of reaching ``goal`` in the env ``inner``."""
    sizes: dict[str, Any] = {"horizon": inner.horizon, "observation_size": inner.observation_size}
    return GoalEnv(inner=inner, goal=goal, radius=radius, **sizes)


class SkillActionState(NamedTuple):
    """The state of the inner env, and the last observation of its episode. After its end, the inner env still steps."""

    inner: Any
    observation: Float[Array, " o"]


class SkillActionEnv(EnvWrapper):
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

    def reset(self, key: Key) -> SkillActionState:
        state = self.inner.reset(key)
        return SkillActionState(state, self.inner.observe(state))

    def step(self, key: Key, state: SkillActionState, action: Array) -> Step:
        """Play a skill for ``hold`` steps.

        If the inner env terminates in one of them, this step terminates, and the observation is that of this inner
        step. The remaining inner steps are still played.
        """
        code = self.policy.codes[action]

        def inner_step(carry: tuple, inputs: tuple) -> tuple[tuple, tuple]:
            (state, last, ended), (key, left) = carry, inputs
            act_key, step_key = jax.random.split(key)
            observation = self.inner.observe(state)
            if self.policy.horizon:  # the skill has to be at its goal after ``hold`` steps
                observation = at_time_left(observation, left, self.policy.horizon)
            step = self.inner.step(step_key, state, self.policy.act(act_key, observation, code))
            reached = SkillActionState(step.state, jnp.where(ended, last, step.observation))
            terminated = step.terminated & ~ended
            return (*reached, ended | step.terminated | step.truncated), (terminated, step.truncated)

        keys, left = jax.random.split(key, self.hold), self.hold - jnp.arange(self.hold)
        carry, (terminated, truncated) = jax.lax.scan(inner_step, (*state, jnp.bool_(False)), (keys, left))
        reached = SkillActionState(*carry[:2])
        return Step(reached, self.observe(reached), jnp.any(terminated), jnp.any(truncated))

    def observe(self, state: SkillActionState) -> Float[Array, " o"]:
        """The observation of the skills is also that of the controller."""
        return state.observation

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return self.inner.features(observation)


def skill_action_env(inner: Env, policy: SkillPolicy, hold: int) -> SkillActionEnv:
    """The env ``inner`` with skills as actions. Its horizon is ``hold`` times shorter."""
    horizon = max(inner.horizon // hold, 1)
    sizes: dict[str, Any] = {"observation_size": inner.observation_size, "feature_size": inner.feature_size}
    return SkillActionEnv(inner=inner, policy=policy, hold=hold, horizon=horizon, **sizes)
