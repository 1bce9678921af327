"""Downstream tasks: the goals of CSF (Zheng et al., 2025), and the hurdles of METRA (Park et al., 2024).

A `Task` is data: what it keeps during an episode, what the controller sees of it, and the reward of a step. `TASKS`
maps names to tasks, and `task_env` puts a task into an env. A controller chooses a skill every `TaskConfig.hold` steps,
and the frozen policy plays it by its mean; without a policy, PPO acts in the env directly.

* ``ant_multi_goal``: 4 goals in turn, 50 steps each. A goal is drawn within +-7.5 of the previous one, and the first
  within +-7.5 of the start. +1 per step within 3 of the goal. At most 200.
* ``half_cheetah_goal``: one goal in +-100. +1 per step within 3 of it. At most 200.
* ``half_cheetah_hurdle``: +1 for passing each of the hurdles at 3, 7, .., 27, and -1 for going back over one.

Both goal tasks are CSF's version of METRA's. In METRA's own code, a goal pays 2.5 once instead of 1 per step; the next
goal is drawn around the agent instead of around the previous goal; and when a goal is reached, the clock skips to the
next multiple of 50 steps instead of running on. Scores on these tasks compare with CSF's, and not with METRA's.

Departs from their code:
- METRA's hurdles are low boxes, which it counts by the hind foot. Here they are lines on the floor, which the torso has
  to pass: they ask for the way, and not for a jump.
- They train SAC or PPO with their own settings. Here both learners are our PPO.

How a controller names a skill depends on the policy (`skill_space`): one of K skills by its number; a direction of a
continuous prior by a vector; and a goal, for a goal-conditioned policy, by its offset from the position at the time of
the choice, up to `TaskConfig.reach` units in each dimension.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import check, check_name, config
from edl.envs.base import Box, Discrete, Env, EnvWrapper, Step
from edl.envs.clock import at_time_left
from edl.envs.rollout import Episode, Skill, empty_skill
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar

SkillSpace = Literal["codes", "directions", "goals"]


class Task(NamedTuple):
    """A task in an env with ``feature_size`` features x.

    ``init(key, x)`` makes what the task keeps, ``advance(key, kept, t, x)`` computes it after step ``t``, ``see(kept,
    x)`` is what the controller sees of it, and ``reward(before, after, x)`` is the reward of the step that reached x.
    """

    feature_size: int
    description: str
    init: Callable[[Key, Float[Array, " s"]], Any]
    advance: Callable[[Key, Any, Int[Array, ""], Float[Array, " s"]], Any]
    see: Callable[[Any, Float[Array, " s"]], Float[Array, " i"]]
    reward: Callable[[Any, Any, Float[Array, " s"]], Scalar]
    robot: str
    """The robot that the task is meant for, for messages."""


CLOSE = 3.0
"""Distance within which a goal counts."""
GOAL_STEPS, GOAL_RANGE = 50, 7.5
FAR_GOAL = 100.0
HURDLES = tuple(range(3, 28, 4))


def within(goal: Float[Array, " s"], features: Float[Array, " s"]) -> Scalar:
    """1 within `CLOSE` of the goal, and else 0."""
    return (jnp.linalg.norm(features - goal) <= CLOSE).astype(jnp.float32)


def next_goal(
    key: Key, goal: Float[Array, " s"], time: Int[Array, ""], features: Float[Array, " s"]
) -> Float[Array, " s"]:
    """Another goal near this one after every `GOAL_STEPS` steps."""
    drawn = goal + jax.random.uniform(key, goal.shape, minval=-GOAL_RANGE, maxval=GOAL_RANGE)
    return jnp.where((time + 1) % GOAL_STEPS == 0, drawn, goal)


def offset(goal: Float[Array, " s"], features: Float[Array, " s"]) -> Float[Array, " s"]:
    return goal - features


def reward_before(before: Any, after: Any, features: Float[Array, " s"]) -> Scalar:
    """The goal that was shown when the step was taken counts."""
    return within(before, features)


def hurdles_passed(features: Float[Array, " s"]) -> Scalar:
    return jnp.sum(features[0] > jnp.asarray(HURDLES, jnp.float32)).astype(jnp.float32)


def to_next_hurdle(passed: Scalar, features: Float[Array, " s"]) -> Float[Array, " 1"]:
    """The distance to the next hurdle; 0 after the last one."""
    hurdles = jnp.asarray(HURDLES, jnp.float32)
    ahead = jnp.where(hurdles >= features[0], hurdles - features[0], jnp.inf)
    return jnp.where(jnp.any(jnp.isfinite(ahead)), jnp.min(ahead), 0.0)[None]


TASKS: dict[str, Task] = {
    "ant_multi_goal": Task(
        2,
        "4 goals in turn, each 50 steps and within 7.5 of the previous one",
        lambda key, x: x + jax.random.uniform(key, x.shape, minval=-GOAL_RANGE, maxval=GOAL_RANGE),
        next_goal,
        offset,
        reward_before,
        "ant",
    ),
    "half_cheetah_goal": Task(
        1,
        "a goal between -100 and 100",
        lambda key, x: jax.random.uniform(key, x.shape, minval=-FAR_GOAL, maxval=FAR_GOAL),
        lambda key, goal, time, x: goal,
        offset,
        reward_before,
        "half_cheetah",
    ),
    "half_cheetah_hurdle": Task(
        1,
        "hurdles at 3, 7, .., 27",
        lambda key, x: hurdles_passed(x),
        lambda key, passed, time, x: hurdles_passed(x),
        to_next_hurdle,
        lambda before, after, x: after - before,
        "half_cheetah",
    ),
}
"""The tasks by name. To add one, add an entry."""


def check_task(name: str, env: Env, label: str) -> Task:
    """The task of that name; a `ConfigError` if it is unknown or does not fit the env, which is called ``label``."""
    check_name(name, TASKS, "task")
    task = TASKS[name]
    check(
        env.feature_size == task.feature_size,
        f"task {name!r} needs an env with {task.feature_size} feature{'s' * (task.feature_size > 1)} "
        f"(got env {label!r} with {env.feature_size}). Use a run with --env {task.robot}.",
    )
    return task


class TaskState(NamedTuple):
    """The state of the env, what the task keeps, the number of steps, and the reward since the last choice."""

    inner: Any
    kept: Any
    time: Int[Array, ""]
    reward: Scalar


class TaskEnv(EnvWrapper):
    """An env with a task. A step is one choice of a skill, or one action without ``policy``.

    The observation is that of the inner env, what is seen of the task, the share of the episode that has passed, and
    the reward of the last step, which is the only feature. The networks do not see the reward (`without_reward`).
    """

    inner: Env
    policy: SkillPolicy | None
    reach: Scalar
    task: Task = eqx.field(static=True)
    space: SkillSpace = eqx.field(static=True)
    hold: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True, default=1)

    @property
    def action_space(self) -> Box | Discrete:
        """The names of skills, or the actions of the inner env without a policy."""
        if self.policy is None:
            return self.inner.action_space
        if self.space == "codes":
            return Discrete(self.policy.codes.shape[0])
        size = self.policy.codes.shape[-1]
        return Box(-jnp.ones(size), jnp.ones(size))

    def reset(self, key: Key) -> TaskState:
        """A start of the inner env, and a new task."""
        reset_key, task_key = jax.random.split(key)
        inner = self.inner.reset(reset_key)
        return TaskState(inner, self.task.init(task_key, self._position(inner)), jnp.int32(0), jnp.float32(0.0))

    def step(self, key: Key, state: TaskState, action: Array) -> Step:
        """Play the chosen skill for ``hold`` steps, and sum up the rewards.

        If the inner env ends its episode in one of them, so does this step, and the state is the one reached then.
        """
        code = jnp.zeros(0) if self.policy is None else self._code(state, action)

        def inner_step(carry: tuple, inputs: tuple) -> tuple[tuple, tuple]:
            (state, ended), (key, left) = carry, inputs
            step_key, task_key = jax.random.split(key)
            chosen = action if self.policy is None else self._act(state.inner, code, left)
            step = self.inner.step(step_key, state.inner, chosen)
            position = self._position(step.state)
            kept = self.task.advance(task_key, state.kept, state.time, position)
            reward = state.reward + self.task.reward(state.kept, kept, position)
            reached = TaskState(step.state, kept, state.time + 1, reward)
            reached = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, reached)
            ends = ~ended & step.terminated, ~ended & step.truncated
            return (reached, ended | step.terminated | step.truncated), ends

        carry = state._replace(reward=jnp.float32(0.0)), jnp.bool_(False)
        inputs = jax.random.split(key, self.hold), self.hold - jnp.arange(self.hold)
        (reached, _), (terminated, truncated) = jax.lax.scan(inner_step, carry, inputs)
        timed_out = reached.time >= self.horizon * self.hold
        return Step(reached, self.observe(reached), jnp.any(terminated), jnp.any(truncated) | timed_out)

    def _act(self, inner: Any, code: Float[Array, " z"], left: Int[Array, ""]) -> Array:
        """The mean action of the skill, which is held for ``left`` more steps."""
        assert self.policy is not None
        observation = self.inner.observe(inner)
        if self.policy.horizon:  # the skill has to be at its goal at the end of ``hold`` steps
            observation = at_time_left(observation, left, self.policy.horizon)
        return self.policy.mode(observation, code)

    def _code(self, state: TaskState, action: Array) -> Float[Array, " z"]:
        """The code of the skill that an action names."""
        assert self.policy is not None
        if self.space == "codes":
            return self.policy.codes[action]
        if self.space == "directions":
            return action / jnp.maximum(jnp.linalg.norm(action), 1e-6)
        return self._position(state.inner) + self.reach * action

    def _position(self, inner: Any) -> Float[Array, " s"]:
        return self.inner.features(self.inner.observe(inner))

    def observe(self, state: TaskState) -> Float[Array, " o"]:
        seen = self.task.see(state.kept, self._position(state.inner))
        passed = state.time[None] / (self.horizon * self.hold)
        return jnp.concatenate([self.inner.observe(state.inner), seen, passed, state.reward[None]])

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " 1"]:
        """The reward since the last choice."""
        return observation[-1:]


def without_reward(observation: Float[Array, " o"], code: Float[Array, " z"]) -> Float[Array, " i"]:
    """The input of the networks: the observation without the reward."""
    return jnp.concatenate([observation[:-1], code])


@config
class TaskConfig:
    """Settings of the controller and of PPO without skills on a task. They differ only in their actions."""

    env_steps: int = 5_000_000
    """Environment steps, rounded up to whole iterations."""
    hold: int = 25
    """Number of steps for which each skill is held."""
    reach: float = 0.0
    """Largest offset, in each dimension, of a goal that a controller gives to a goal-conditioned policy. 0: twice the
    way that the policy goes in ``hold`` steps, by what its explorer has reached."""
    rollouts: int = 256
    """Episodes per iteration. PPO without skills plays ``hold`` steps of each, and continues them in the next one."""
    epochs: int = 4
    """Passes over the episodes of an iteration."""
    minibatches: int = 8
    """Minibatches per epoch."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the policy and of the critic."""
    learning_rate: float = 1e-3
    """Initial learning rate. It decreases linearly to a tenth."""
    gamma: float = 0.995
    """Discount per environment step."""
    entropy_weight: float = 0.005
    """Weight of the entropy bonus."""


def task_env(
    env: Env, name: str, config: TaskConfig, policy: SkillPolicy | None = None, space: SkillSpace = "codes"
) -> TaskEnv:
    """The env with the task ``name``; actions are skills of ``policy``, or those of the env without one."""
    task, hold = TASKS[name], 1 if policy is None else config.hold
    example = jax.eval_shape(lambda key: _seen(env, task, key), jax.random.key(0))
    return TaskEnv(
        inner=env,
        policy=policy,
        reach=jnp.asarray(config.reach, jnp.float32),
        task=task,
        space=space,
        hold=hold,
        horizon=max(env.horizon // hold, 1),
        observation_size=env.observation_size + example.shape[0] + 2,
    )


def _seen(env: Env, task: Task, key: Key) -> Float[Array, " i"]:
    x = env.features(env.observe(env.reset(key)))
    return task.see(task.init(key, x), x)


def task_objective(horizon: int) -> Objective:
    """The reward of a step is the only feature of the state that it reached. ``horizon`` is in steps of the `TaskEnv`.

    ``score`` is the sum of the rewards of an episode, extrapolated if only a part of it was played. Steps after the end
    of an episode have no reward.
    """

    def sample(key: Key, state: None) -> Skill:
        return empty_skill()

    def reward(state: None, episode: Episode) -> Float[Array, " t"]:
        return episode.features[1:, 0]

    def update(key: Key, state: None, episodes: Episode) -> tuple[None, Metrics]:
        rewards = jnp.where(episodes.valid, episodes.features[:, 1:, 0], 0.0)
        return state, {"score": horizon * jnp.mean(rewards)}

    return Objective(init=lambda key: None, sample=sample, reward=reward, update=update, needs="steps")


def learn_task(task: TaskEnv, config: TaskConfig) -> Program[Any, SkillPolicy]:
    """PPO on a task: a controller if the env has a policy, and else PPO without skills."""
    unroll = config.hold if task.policy is None and task.horizon % config.hold == 0 else 0
    per_iteration = config.rollouts * (unroll or task.horizon) * task.hold
    settings = PPOConfig(
        iterations=math.ceil(config.env_steps / per_iteration),
        rollouts=config.rollouts,
        unroll=unroll,
        epochs=config.epochs,
        minibatches=config.minibatches,
        hidden=config.hidden,
        normalise=True,
        # A task ends at the time limit. What comes later must not count: going back over the hurdles would not matter.
        bootstrap=False,
        learning_rate=config.learning_rate,
        last_learning_rate=0.1 * config.learning_rate,
        gamma=config.gamma**task.hold,
        entropy_weight=config.entropy_weight,
    )
    program = ppo(task, task_objective(task.horizon), settings, codes=jnp.zeros((1, 0)), integrate=without_reward)
    return Program(program.init, program.step, program.finish, program.iterations, program.env_steps * task.hold)


class TaskBuilder(NamedTuple):
    """Builds the learner of a task for one seed. Equal builders share one compiled program."""

    name: str
    space: SkillSpace

    def __call__(self, env: Env, policy: SkillPolicy | None, config: TaskConfig) -> Program[Any, SkillPolicy]:
        return learn_task(task_env(env, self.name, config, policy, self.space), config)
