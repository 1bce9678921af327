"""A controller over frozen skills, and PPO without skills on the same sparse tasks, for comparison.

A task gives one reward of 1 for reaching a goal. The controller is PPO whose actions are skills, each held for a fixed
number of steps (options with a fixed duration: Sutton, Precup and Singh, 1999). The skills of a goal-conditioned method
are its example goals. PPO without skills acts in the env directly. It gets as many environment steps as the controller,
or as many as the controller and the training of the skills together: ``config.env_steps`` says how many. A third
baseline needs no training: it plays one skill for the whole episode (`zero_shot_success`).

Both learners normalise observations by running moments, the same rule as for all methods. The frozen skills keep the
normaliser that they were trained with: it is part of the env of the controller, which sees observations as they are.

Every task has its own controller. All tasks of a seed are one program, which is vmapped over seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillPolicy
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill, empty_skill, rollout
from edl.hierarchy.envs import goal_env, skill_action_env
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Keys, Metrics


@config
class ControlConfig:
    """Settings of both learners. The learners differ only in their actions."""

    env_steps: int = 400_000
    """Environment steps per task, rounded up to whole iterations."""
    hold: int = 5
    """Number of steps for which each skill is held."""
    rollouts: int = 64
    """Episodes per iteration."""
    epochs: int = 4
    """Passes over the episodes of an iteration."""
    minibatches: int = 4
    """Minibatches per epoch."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers of the policy and of the critic."""
    learning_rate: float = 2e-3
    """Initial learning rate. It decreases linearly to a tenth."""
    gamma: float = 0.99
    """Discount per environment step."""
    entropy_weight: float = 0.01
    """Weight of the entropy bonus."""


def sparse_goal_objective() -> Objective:
    """r_t = 1 at the step that reaches the goal, which is the only feature of a `GoalEnv`."""

    def sample(key: Key, state: None) -> Skill:
        return empty_skill()

    def reward(state: None, episode: Episode) -> Float[Array, " t"]:
        return reaches_goal(episode).astype(jnp.float32)

    def update(key: Key, state: None, episodes: Episode) -> tuple[None, Metrics]:
        return state, {"success": jnp.mean(succeeded(episodes).astype(jnp.float32))}

    return Objective(init=lambda key: None, sample=sample, reward=reward, update=update)


def reaches_goal(episodes: Episode) -> Bool[Array, "*e t"]:
    """Whether each step of episodes in a `GoalEnv` reaches the goal, which ends the episode."""
    return (episodes.features[..., 1:, 0] > 0) & episodes.valid


def succeeded(episodes: Episode) -> Bool[Array, "*e"]:
    """Whether each episode reached its goal."""
    return jnp.any(reaches_goal(episodes), axis=-1)


def controller(
    env: Env,
    policy: SkillPolicy,
    goals: Float[Array, "g s"],
    radius: Float[Array, " s"],
    config: ControlConfig,
) -> Program[Any, SkillPolicy]:
    """Train one controller per goal that chooses a skill every ``config.hold`` steps."""

    def learn(goal: Float[Array, " s"]) -> Program:
        task = skill_action_env(goal_env(env, goal, radius), policy, config.hold)
        steps = config.rollouts * task.horizon * config.hold
        settings = _ppo_config(config, steps, config.gamma**config.hold)
        return ppo(task, sparse_goal_objective(), settings, codes=jnp.zeros((1, 0)))

    return _for_all_goals(goals, learn, config.hold)


def ppo_without_skills(
    env: Env,
    goals: Float[Array, "g s"],
    radius: Float[Array, " s"],
    config: ControlConfig,
) -> Program[Any, SkillPolicy]:
    """Train one policy per goal that acts in the env directly."""

    def learn(goal: Float[Array, " s"]) -> Program:
        settings = _ppo_config(config, config.rollouts * env.horizon, config.gamma)
        task = goal_env(env, goal, radius)
        return ppo(task, sparse_goal_objective(), settings, codes=jnp.zeros((1, 0)))

    return _for_all_goals(goals, learn, 1)


def steps_per_task(env: Env, config: ControlConfig) -> int:
    """Environment steps that a learner takes per task: ``config.env_steps``, rounded up to whole iterations.

    It is the same number for both learners if ``config.hold`` divides the horizon.
    """
    per_iteration = config.rollouts * env.horizon
    return math.ceil(config.env_steps / per_iteration) * per_iteration


def _ppo_config(config: ControlConfig, steps_per_iteration: int, gamma: Any) -> PPOConfig:
    return PPOConfig(
        iterations=math.ceil(config.env_steps / steps_per_iteration),
        rollouts=config.rollouts,
        epochs=config.epochs,
        minibatches=config.minibatches,
        hidden=config.hidden,
        normalise=True,
        learning_rate=config.learning_rate,
        last_learning_rate=0.1 * config.learning_rate,
        gamma=gamma,
        entropy_weight=config.entropy_weight,
    )


def _for_all_goals(goals: Float[Array, "g s"], learn: Callable[[Float[Array, " s"]], Program], hold: int) -> Program:
    """One program for all goals. Its state has a leading axis of goals, and its metrics are means over goals."""
    count = goals.shape[0]

    def init(key: Key) -> Any:
        return jax.vmap(lambda goal, key: learn(goal).init(key))(goals, jax.random.split(key, count))

    def step(state: Any, key: Key) -> tuple[Any, Metrics]:
        keys = jax.random.split(key, count)
        state, metrics = jax.vmap(lambda goal, each, key: learn(goal).step(each, key))(goals, state, keys)
        return state, {name: jnp.mean(value) for name, value in metrics.items()}

    def finish(state: Any) -> SkillPolicy:
        return jax.vmap(lambda goal, each: learn(goal).finish(each))(goals, state)

    one = learn(goals[0])
    return Program(init, step, finish, one.iterations, one.env_steps * hold * count)


def play_tasks(
    key: Key,
    controllers: SkillPolicy,
    make_task: Callable[[Float[Array, " s"]], Env],
    goals: Float[Array, "g s"],
    num: int,
) -> Episode:
    """``num`` episodes of each goal's controller, in the env ``make_task(goal)``."""

    def play(key: Key, goal: Float[Array, " s"], each: SkillPolicy) -> Episode:
        return rollout(
            key, make_task(goal), lambda key, seen, code: (each.act(key, seen, code), jnp.zeros(0)), empty_skill()
        )

    keys: Keys = jax.random.split(key, (goals.shape[0], num))
    return jax.vmap(jax.vmap(play, in_axes=(0, None, None)))(keys, goals, controllers)


def zero_shot_success(
    key: Key,
    env: Env,
    policy: SkillPolicy,
    codes: Float[Array, "g z"],
    goals: Float[Array, "g s"],
    radius: Float[Array, " s"],
    num: int,
) -> Float[Array, " g"]:
    """Success rate per goal g when the skill with code ``codes[g]`` is played for the whole episode."""

    def play(key: Key, goal: Float[Array, " s"], code: Float[Array, " z"]) -> Bool[Array, ""]:
        skill = Skill(code=code, index=jnp.int32(-1))
        task = goal_env(env, goal, radius)
        episode = rollout(key, task, lambda key, seen, code: (policy.act(key, seen, code), jnp.zeros(0)), skill)
        return succeeded(episode)

    keys: Keys = jax.random.split(key, (goals.shape[0], num))
    return jnp.mean(jax.vmap(jax.vmap(play, in_axes=(0, None, None)))(keys, goals, codes), axis=1)
