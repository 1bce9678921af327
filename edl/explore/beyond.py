"""Ours, for envs whose dynamics must be learned first: a policy learns to reach all visited states and a margin beyond.

A robot that acts at random stays where it started, so an explorer without a policy finds nothing. Here one policy
pi(a|s,g) learns to reach goals g. The goals are what was reached so far, plus a margin:

    g   = x + m D epsilon / sqrt(d),  x a uniform point of the visited set,  epsilon ~ N(0, I)
    r_t = (||x_t - g|| - ||x_{t+1} - g||) / D + (b / T) max(0, 1 - ||x_{t+1} - g|| / (rho D))

x_t are the d features of s_t, D is the spread of the visited set (`edl.explore.visited`), and T is the length of an
episode. The better the policy reaches goals, the farther out the next goals are. Goals inside the set keep the policy
from forgetting the way, which is what a bonus for novelty lacks. p(s) is uniform over the visited set.

Where nothing bounds the env, a share of the goals is *far*: x is moved away from the centre c of the visited set, to
c + 2 (x - c). Most of these goals are out of reach, and all that their reward asks for is speed in one direction. The
bonus grows towards the goal. A constant bonus would be the same everywhere within rho D, which becomes a large radius
as the visited set grows.

* All lengths are relative to the spread D of what was reached, and inputs are normalised by running moments. Nothing
  depends on the units of the env.
* The networks see g - x_t besides the observation and g. Without it, learning to go to a goal takes far longer. Where
  the place does not matter, they can see ``inputs`` without g and x_t: what was learned in one place then holds
  everywhere. A robot that sees everything in its own frame has to learn to walk in one direction only.
* `init` plays random actions, which give the first visited set, the unit of each feature, and the first moments.
* The reward is a function of one move, and the visited set takes any states. So batches may be whole episodes or
  fragments of episodes.

A goal is a skill: `States.policy` is pi(a|s,g), whose codes are goals in the coordinates of the features.
"""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillPolicy, States
from edl.config import check, config
from edl.envs.base import Env
from edl.envs.mjx.env import MjxEnv
from edl.envs.rollout import Episode, Skill
from edl.explore.bonus import reached_states
from edl.explore.collect import EpisodeSample, empty_sample, record_sample, resample
from edl.explore.drift import random_persistence
from edl.explore.random_walk import random_episode
from edl.explore.region import Predicate
from edl.explore.visited import VisitedSet, empty_set, unit_of_spread
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.ppo import PPOConfig, PPOStart, PPOState, ppo
from edl.types import Key, Metrics, Scalar

Inputs = Literal["world", "offset", "egocentric"]
FAR_STRETCH = 2.0
"""Distance of a far goal from the centre of the visited set, in units of that of the point it was made from."""


@config
class BeyondConfig:
    """The defaults are those of the prototype: whole episodes, and 60 million steps with 200 steps per episode.

    Runs in envs in JAX have other numbers (`edl.runs.presets`).
    """

    iterations: int = 150
    """Number of iterations."""
    rollouts: int = 2048
    """Episodes per iteration. As many episodes of random actions are played before the first iteration."""
    unroll: int = 0
    """Steps of each episode per iteration, see `PPOConfig.unroll`. 0: whole episodes."""
    margin: float = 0.4
    """m, the length of the noise that is added to a goal, as a share of the spread of the visited set."""
    far: float = 0.0
    """Share of the goals that are far: `FAR_STRETCH` times as far from the centre of the visited set. Most of them are
    out of reach, and the policy learns to go as far as it can in their direction."""
    inputs: Inputs = "world"
    """What the networks see: the observation, g and g - x in the frame of the ``world``; no g and no x, but the
    ``offset`` g - x and the rest of the observation, for envs in which it does not matter where the agent is, such as
    an empty floor; or these in the robot's own frame, ``egocentric``, so that it does not matter where it looks either
    (robots on a free joint on an empty floor)."""
    radius: float = 0.05
    """rho, the distance within which a goal is reached, as a share of the spread of the visited set."""
    bonus: float = 0.5
    """b, the reward for a whole episode at the goal. The way from the centre of the visited set to a typical point has
    the reward 1."""
    cell: float = 0.25
    """Initial side of the cells of the visited set, in standard deviations of the states that random actions reach."""
    cells: int = 16384
    """Maximum number of cells. When there are more, the side of a cell doubles."""
    states_per_cell: int = 4
    """Number of visited states that are kept per cell. p(s) is drawn from them."""
    particles: int = 2048
    """Number of visited states that represent the visited set in more than 4 dimensions, instead of cells."""
    neighbours: int = 8
    """Number of nearest particles from which their density is estimated."""
    episodes: int = 4096
    """Maximum number of recorded episodes, a uniform sample of all. They are the experience for walking distance."""
    epochs: int = 4
    """Passes of PPO over the episodes of an iteration."""
    minibatches: int = 64
    """Minibatches per epoch."""
    hidden: tuple[int, ...] = (256, 256)
    """Sizes of the hidden layers of the actor and of the critic."""
    learning_rate: float = 6e-4
    """Learning rate of the first gradient step of PPO."""
    last_learning_rate: float = 1e-4
    """Learning rate of the last gradient step of PPO. The schedule between the two is linear."""
    gamma: float = 0.99
    """Discount factor of PPO."""
    entropy_weight: float = 0.002
    """Weight of the policy's entropy in the loss of PPO."""
    max_gradient_norm: float = 1.0
    """Maximum norm of the gradient of both networks together."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class BeyondState(NamedTuple):
    """The visited set and a sample of the episodes. ``key`` is for drawing p(s) at the end."""

    key: Key
    visited: VisitedSet
    sample: EpisodeSample


@dataclasses.dataclass(frozen=True)
class GoalInput:
    """The input of the networks: [o, g, g - x], or [o without x, g - x] if ``kept`` are the entries of o without x.

    ``egocentric``: the latter in the frame of the robot. ``env`` has no arrays, so that instances can be hashed and
    compared.
    """

    env: Env
    kept: tuple[int, ...] | None = None
    egocentric: bool = False

    def __call__(self, observation: Float[Array, " o"], goal: Float[Array, " s"]) -> Float[Array, " i"]:
        offset = goal - self.env.features(observation)
        if self.egocentric:
            assert isinstance(self.env, MjxEnv)
            return self.env.egocentric(observation, offset)
        if self.kept is None:
            return jnp.concatenate([observation, goal, offset])
        return jnp.concatenate([observation[jnp.array(self.kept, int)], offset])


def beyond(env: Env, config: BeyondConfig) -> Program[PPOState, States]:
    """Learn to reach goals in the visited set and beyond; p(s) is uniform over the visited set."""
    objective, integrate = beyond_objective(env, config), goal_input(env, config.inputs)
    learner = ppo(env, objective, ppo_config(config), codes=jnp.zeros((1, env.feature_size)), integrate=integrate)

    def init(key: Key) -> PPOState:
        learner_key, play_key, visit_key, record_key, goal_key = jax.random.split(key, 5)
        state = learner.init(learner_key)
        episodes = jax.vmap(lambda key: play_at_random(key, env))(jax.random.split(play_key, config.rollouts))
        reached, valid = reached_states(episodes)
        learned = state.objective._replace(
            visited=empty_set(unit_of_spread(reached, valid), config).add(visit_key, reached, valid)
        )
        skills = jax.vmap(lambda key: objective.sample(key, learned))(jax.random.split(goal_key, config.rollouts))
        sample = record_sample(record_key, learned.sample, episodes._replace(skill=skills))
        inputs = jax.vmap(jax.vmap(integrate, (0, None)))(episodes.observations[:, :-1], skills.code)
        moments = state.moments.update(inputs.reshape(-1, inputs.shape[-1]), valid)
        state = state._replace(objective=learned._replace(sample=sample), moments=moments)
        # With ``unroll``, PPO has started episodes, whose goals were drawn before anything was visited.
        return state if state.running is None else state._replace(running=state.running._replace(skill=skills))

    def finish(state: PPOState) -> States:
        learned: BeyondState = state.objective
        states, weights = learned.visited.visited()
        if config.region is not None:
            weights = weights * jax.vmap(config.region)(states)
        samples = states[resample(learned.key, weights, config.num_samples)]
        experience = dataclasses.replace(learned.sample.in_order(), sampled=keeps_a_sample(env, config))
        return States(samples, experience, goal_policy(learner.finish(state), state))

    return Program(init, learner.step, finish, learner.iterations, learner.env_steps)


def ppo_config(config: BeyondConfig) -> PPOConfig:
    """The settings of PPO. All inputs of the networks are normalised, goals and offsets as well as observations."""
    return PPOConfig(
        iterations=config.iterations,
        rollouts=config.rollouts,
        unroll=config.unroll,
        epochs=config.epochs,
        minibatches=config.minibatches,
        hidden=config.hidden,
        normalise=True,
        normalise_codes=True,
        learning_rate=config.learning_rate,
        last_learning_rate=config.last_learning_rate,
        gamma=config.gamma,
        entropy_weight=config.entropy_weight,
        max_gradient_norm=config.max_gradient_norm,
    )


def beyond_objective(env: Env, config: BeyondConfig) -> Objective:
    """Goals in the visited set and beyond, and progress as reward.

    `init` returns an empty visited set. Add states to it before the first goal is drawn.
    """
    capacity = min(config.episodes, episodes_of(env, config))

    def init(key: Key) -> BeyondState:
        unit = jnp.ones(env.feature_size)
        sample = empty_sample(env, capacity, lanes=config.rollouts, code_size=env.feature_size)
        return BeyondState(key, empty_set(unit, config), sample)

    def sample(key: Key, state: BeyondState) -> Skill:
        point_key, noise_key, far_key = jax.random.split(key, 3)
        visited = state.visited
        point = visited.draw(point_key)
        stretch = jnp.where(jax.random.bernoulli(far_key, config.far), FAR_STRETCH, 1.0)
        noise = jax.random.normal(noise_key, visited.unit.shape) * visited.unit / visited.unit.shape[0] ** 0.5
        goal = visited.centre + stretch * (point - visited.centre) + config.margin * visited.spread * noise
        return Skill(code=goal, index=jnp.int32(-1), goal=goal)

    def reward(state: BeyondState, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        left = distance_to_goal(state, after, skill.goal)
        progress = distance_to_goal(state, before, skill.goal) - left
        return progress + config.bonus / env.horizon * jnp.maximum(1.0 - left / config.radius, 0.0)

    def update(key: Key, state: BeyondState, episodes: Episode) -> tuple[BeyondState, Metrics]:
        reached = jax.vmap(lambda episode: at_goal(state, episode, config.radius))(episodes)
        visit_key, record_key = jax.random.split(key)
        visited = state.visited.add(visit_key, *reached_states(episodes))
        state = BeyondState(state.key, visited, record_sample(record_key, state.sample, episodes))
        metrics = {
            "visited": state.visited.size.astype(jnp.float32),
            "spread": state.visited.spread * jnp.exp(jnp.mean(jnp.log(state.visited.unit))),
            "at_goal": jnp.sum(reached) / jnp.maximum(jnp.sum(episodes.valid), 1),
        }
        return state, metrics

    return Objective(init, sample, per_move(reward), update, needs="steps")


def episodes_of(env: Env, config: BeyondConfig) -> int:
    """Number of whole episodes that are played, with those of random actions."""
    played = config.iterations * config.rollouts * (config.unroll or env.horizon) // env.horizon
    return config.rollouts + played


def keeps_a_sample(env: Env, config: BeyondConfig) -> bool:
    """Whether some episodes are not recorded. With ``unroll``, more episodes begin than can be whole."""
    return config.unroll > 0 or config.episodes < episodes_of(env, config)


def distance_to_goal(state: BeyondState, features: Float[Array, " s"], goal: Float[Array, " s"]) -> Scalar:
    """||x - g|| / D."""
    return jnp.linalg.norm((features - goal) / state.visited.unit) / state.visited.spread


def at_goal(state: BeyondState, episode: Episode, radius: float | Scalar) -> Bool[Array, " t"]:
    """Whether each valid step ended within ``radius`` of the goal."""
    distances = jax.vmap(lambda x: distance_to_goal(state, x, episode.skill.goal))(episode.features[1:])
    return (distances <= radius) & episode.valid


def play_at_random(key: Key, env: Env) -> Episode:
    """One episode of random actions that persist, as in `drift`."""
    scale_key, play_key = jax.random.split(key)
    return random_episode(play_key, env, random_persistence(scale_key, env.horizon))


def goal_input(env: Env, inputs: Inputs = "world") -> GoalInput:
    """What the networks see in this env."""
    integrate = GoalInput(jax.tree.map(lambda leaf: None, env))
    try:
        jax.eval_shape(integrate, jnp.zeros(env.observation_size), jnp.zeros(env.feature_size))
    except (TypeError, AttributeError) as error:
        check(
            False,
            f"beyond needs features that depend on the observation alone ({type(env).__name__}.features uses arrays of "
            f"the env: {error}). Keep these numbers in static fields, or use another explorer.",
        )
    if inputs == "world":
        return integrate
    if inputs == "offset":
        return dataclasses.replace(integrate, kept=entries_besides_features(integrate.env))
    check(
        isinstance(env, MjxEnv) and env.features_are_place_on_floor,
        "explorer.inputs=egocentric needs a robot on a free joint on an empty floor, with its x and y as features (got "
        f"another {type(env).__name__}). Use offset or world.",
    )
    return dataclasses.replace(integrate, egocentric=True)


def entries_besides_features(env: Env) -> tuple[int, ...]:
    """The entries of an observation that are no features. Rejects features that are no entries."""
    with jax.ensure_compile_time_eval():
        slopes = np.asarray(jax.jacobian(env.features)(jnp.zeros(env.observation_size)))
    check(
        bool(np.all(np.isin(slopes, (0.0, 1.0))) and np.all(slopes.sum(axis=1) == 1.0)),
        "explorer.inputs=offset needs features that are entries of the observation, such as x and y of a robot (got "
        f"other features of {type(env).__name__}). Use world.",
    )
    return tuple(np.flatnonzero(slopes.sum(axis=0) == 0.0).tolist())


def goal_policy(policy: SkillPolicy, state: PPOState) -> SkillPolicy:
    """The policy together with what PPO needs to continue with it (`PPOStart`).

    The normaliser is part of the first layer of ``policy.actor``. That in ``policy.model`` needs normalised inputs.
    """
    visited = state.objective.visited
    unit = visited.spread * jnp.exp(jnp.mean(jnp.log(visited.unit)))
    return dataclasses.replace(policy, model=PPOStart(state.average, state.agent.critic.params, state.moments, unit))
