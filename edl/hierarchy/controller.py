"""A controller over frozen skills, and the learner without skills that it has to beat, on the same sparse tasks.

A task pays 1 for coming near a goal, once, and nothing else. The controller is PPO over skills, each held for some
steps (options that return by the clock: Sutton, Precup and Singh, 1999); the flat learner is PPO over actions, with as
many environment steps. The null model learns nothing: it takes the skill whose goal is nearest, and keeps it.

Every task has a controller of its own; all tasks of a seed are one program, and seeds are a vmap over it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import config
from edl.hierarchy.envs import goal_world, skill_world
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill, rollout
from edl.nets.normalise import Normaliser
from edl.objective import Objective
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Keys, Metrics


@config
class ControlConfig:
    """Of both learners, which differ in what an action is and in nothing else."""

    env_steps: int = 400_000
    """Environment steps on each task."""
    hold: int = 5
    """Steps that a skill is followed before the next is chosen."""
    rollouts: int = 64
    epochs: int = 4
    minibatches: int = 4
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 2e-3
    gamma: float = 0.99
    """Discount of an environment step."""
    entropy_weight: float = 0.01


def reaching() -> Objective:
    """r_t = 1 where the task is fulfilled: the only end that these worlds have."""

    def sample(key: Key, state: None) -> Skill:
        return Skill(code=jnp.zeros(0), index=jnp.int32(0))

    def reward(state: None, episode: Episode) -> Float[Array, " t"]:
        return (episode.terminated & episode.valid).astype(jnp.float32)

    def update(key: Key, state: None, episodes: Episode) -> tuple[None, Metrics]:
        return state, {"success": jnp.mean(succeeded(episodes).astype(jnp.float32))}

    return Objective(init=lambda key: None, sample=sample, reward=reward, update=update)


def succeeded(episodes: Episode) -> Bool[Array, "*e"]:
    """Whether each episode fulfilled its task."""
    return jnp.any(episodes.terminated & episodes.valid, axis=-1)


def controller(
    env: Env,
    policy: SkillPolicy,
    goals: Float[Array, "g s"],
    radius: Float[Array, " s"],
    config: ControlConfig,
) -> Program[Any, SkillPolicy]:
    """Learn, for each goal, which skill to follow when."""

    def learn(goal: Float[Array, " s"]) -> Program:
        world = skill_world(goal_world(env, goal, radius), policy, config.hold)
        settings = _settings(config, config.rollouts * world.horizon * config.hold, config.gamma**config.hold)
        return ppo(world, reaching(), settings, codes=jnp.zeros((1, 0)), normaliser=policy.normaliser)

    return _for_each(goals, learn, config.hold)


def flat(
    env: Env,
    normaliser: Normaliser,
    goals: Float[Array, "g s"],
    radius: Float[Array, " s"],
    config: ControlConfig,
) -> Program[Any, SkillPolicy]:
    """Learn, for each goal, without skills."""

    def learn(goal: Float[Array, " s"]) -> Program:
        settings = _settings(config, config.rollouts * env.horizon, config.gamma)
        world = goal_world(env, goal, radius)
        return ppo(world, reaching(), settings, codes=jnp.zeros((1, 0)), normaliser=normaliser)

    return _for_each(goals, learn, 1)


def _settings(config: ControlConfig, env_steps: int, gamma: Any) -> PPOConfig:
    return PPOConfig(
        iterations=max(config.env_steps // env_steps, 1),
        rollouts=config.rollouts,
        epochs=config.epochs,
        minibatches=config.minibatches,
        hidden=config.hidden,
        learning_rate=config.learning_rate,
        last_learning_rate=0.1 * config.learning_rate,
        gamma=gamma,
        entropy_weight=config.entropy_weight,
    )


def _for_each(goals: Float[Array, "g s"], learn: Callable[[Float[Array, " s"]], Program], hold: int) -> Program:
    """One program for all goals: its state has a leading axis of goals, and its metrics are means over them."""
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
    task: Callable[[Float[Array, " s"]], Env],
    goals: Float[Array, "g s"],
    num: int,
) -> Episode:
    """``num`` episodes of each goal's controller, in the world that ``task`` makes of the goal."""

    def play(key: Key, goal: Float[Array, " s"], each: SkillPolicy) -> Episode:
        world, skill = task(goal), Skill(code=jnp.zeros(0), index=jnp.int32(0))
        return rollout(key, world, lambda key, seen, code: (each.act(key, seen, code), jnp.zeros(0)), skill)

    keys: Keys = jax.random.split(key, (goals.shape[0], num))
    return jax.vmap(jax.vmap(play, in_axes=(0, None, None)))(keys, goals, controllers)


def zero_shot(
    key: Key,
    env: Env,
    policy: SkillPolicy,
    picks: Int[Array, " g"],
    goals: Float[Array, "g s"],
    radius: Float[Array, " s"],
    num: int,
) -> Float[Array, " g"]:
    """Success of the null model: skill ``picks[g]`` from start to end."""

    def play(key: Key, goal: Float[Array, " s"], pick: Int[Array, ""]) -> Bool[Array, ""]:
        skill = Skill(code=policy.codes[pick], index=pick)
        world = goal_world(env, goal, radius)
        episode = rollout(key, world, lambda key, seen, code: (policy.act(key, seen, code), jnp.zeros(0)), skill)
        return succeeded(episode)

    keys: Keys = jax.random.split(key, (goals.shape[0], num))
    return jnp.mean(jax.vmap(jax.vmap(play, in_axes=(0, None, None)))(keys, goals, picks), axis=1)
