"""Ours, for envs that step slowly, such as Gymnasium envs: a policy learns to be at visited states at a deadline.

Random actions that persist play the first episodes, as in `drift`. Then one policy pi(a|s,g,k) learns with SAC to be at
a goal g in k steps, where g is drawn uniformly from the visited set (`edl.explore.visited`). Every step is replayed
with other goals and deadlines (`edl.rl.deadlines`), so few env steps teach much.

p(s) is nearly uniform over the visited states that the policy *reaches on purpose*. An env has states that only chance
leads to, and a skill for such a state would fail. With n recent attempts at goals g_i, of which some were reached,

    p(s) ~ (c(s) + 0.02)^2 / density of visits,   c(s) = sum_i w_i(s) 1[reached_i] / sum_i w_i(s),

where w_i(s) falls with the distance from g_i to s. An attempt is reached if its episode ends within `SUCCESS_RADIUS`
standard deviations of the visited states, as in the evaluation.

The policy sees the time left, so the env must show it (``timed``).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience, SkillPolicy, States, empty_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.envs.success import SUCCESS_RADIUS
from edl.explore.beyond import play_at_random
from edl.explore.bonus import reached_states
from edl.explore.collect import record, resample
from edl.explore.region import Predicate
from edl.explore.visited import VisitedSet, empty_set
from edl.nets.normalise import Normaliser, identity_normaliser, running_moments
from edl.objective import Objective
from edl.program import Program, StoppingState, stop_at_target
from edl.rl.deadlines import DeadlineStart, Hindsight, check_timed, deadline_sac, goal_code, replay_in_hindsight
from edl.rl.playing import flat_observations
from edl.rl.replay import Replay, Transition, add, empty_replay, to_transitions
from edl.rl.sac import SACConfig, SACStart, SACState, check_whole_episodes, sac
from edl.types import Key, Metrics

NEIGHBOURHOOD = 0.5
"""Distance, in standard deviations, at which an attempt at another goal still says something about a state."""

MIN_SHARE = 0.02
"""Added to c(s), so that p(s) exists even if nothing was reached on purpose."""


@config
class HindsightConfig:
    """The defaults are those for Gymnasium envs: about 130,000 steps with 200 steps per episode."""

    first_episodes: int = 128
    """Episodes of random actions that are played first."""
    cell: float = 0.1
    """Initial side of the cells of the visited set, in standard deviations of the states that random actions reach."""
    cells: int = 8192
    """Maximum number of cells. When there are more, the side of a cell doubles."""
    states_per_cell: int = 4
    """Number of visited states that are kept per cell. p(s) is drawn from them."""
    particles: int = 2048
    """Number of visited states that represent the visited set in more than 4 dimensions, instead of cells."""
    neighbours: int = 8
    """Number of nearest particles from which their density is estimated."""
    attempts: int = 512
    """Number of latest attempts from which it is estimated which states are reached on purpose."""
    sac: SACConfig = deadline_sac()
    """Settings of SAC."""
    stop_at: float = 0.97
    """Stop early when the running share of attempts that are reached has this value. Above 1: never."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class Attempts(NamedTuple):
    """Goals, and where the episodes ended that were played for them."""

    goal: Float[Array, "n s"]
    end: Float[Array, "n s"]


class HindsightState(NamedTuple):
    """The visited set, the latest attempts and all episodes so far. ``key`` is for drawing p(s) at the end.

    ``normaliser`` makes codes of goals. It has the moments of the states that random actions reach.
    """

    key: Key
    normaliser: Normaliser
    visited: VisitedSet
    attempts: Replay
    experience: Experience
    episodes: Int[Array, ""]


def hindsight(env: Env, config: HindsightConfig) -> Program[StoppingState, States]:
    """Learn to be at visited states on time; p(s) is nearly uniform over those that are reached on purpose."""
    check_timed(env)
    objective = hindsight_objective(env, config)
    check_whole_episodes(config.sac)
    learner = sac(env, objective, config.sac, codes=jnp.zeros((1, env.feature_size)))

    def init(key: Key) -> SACState:
        learner_key, play_key, visit_key, goal_key = jax.random.split(key, 4)
        state = learner.init(learner_key)
        keys = jax.random.split(play_key, config.first_episodes)
        episodes = jax.vmap(lambda key: play_at_random(key, env))(keys)
        reached, valid = reached_states(episodes)
        normaliser = normaliser_of(reached, valid)
        visited = empty_set(normaliser.scale, config).add(visit_key, reached, valid)
        learned: HindsightState = state.objective._replace(normaliser=normaliser, visited=visited)
        learned = recorded(learned, episodes)
        skills = jax.vmap(lambda key: objective.sample(key, learned))(jax.random.split(goal_key, len(keys)))
        episodes = episodes._replace(skill=skills)
        replay = add(state.replay, *to_transitions(episodes, jnp.zeros(episodes.valid.shape)))
        moments = state.moments.update(*flat_observations(episodes))
        return state._replace(replay=replay, objective=learned, moments=moments)

    def finish(state: SACState) -> States:
        learned: HindsightState = state.objective
        states, weights = learned.visited.visited()
        weights = weights * (MIN_SHARE + reached_on_purpose(learned, states)) ** 2
        if config.region is not None:
            weights = weights * jax.vmap(config.region)(states)
        samples = states[resample(learned.key, weights, config.num_samples)]
        return States(samples, learned.experience, goal_policy(learner.finish(state), state))

    program = Program(init, learner.step, finish, learner.iterations, learner.env_steps)
    return stop_at_target(program, "goal_success", config.stop_at, rate=0.2)


def hindsight_objective(env: Env, config: HindsightConfig) -> Objective:
    """Goals from the visited set, and a reward at the deadline.

    `init` returns an empty visited set. Add states to it before the first goal is drawn.
    """
    size, batch = env.feature_size, config.sac.rollouts
    capacity = config.first_episodes + config.sac.iterations * batch

    def init(key: Key) -> HindsightState:
        normaliser = identity_normaliser(size)
        example = Attempts(jnp.zeros((1, size)), jnp.zeros((1, size)))
        return HindsightState(
            key=key,
            normaliser=normaliser,
            visited=empty_set(normaliser.scale, config),
            attempts=empty_replay(example, max(config.attempts, batch)),
            experience=empty_experience(env, capacity),
            episodes=jnp.int32(0),
        )

    def sample(key: Key, state: HindsightState) -> Skill:
        return goal_code(state.visited.draw(key), state.normaliser)

    def how(state: HindsightState) -> Hindsight:
        def draw(key: Key, num: int) -> Float[Array, "n s"]:
            return jax.vmap(state.visited.draw)(jax.random.split(key, num))

        return Hindsight(draw, state.normaliser, state.normaliser.scale, SUCCESS_RADIUS, env.horizon)

    def reward(state: HindsightState, episode: Episode) -> Float[Array, " t"]:
        return how(state).rewards(episode)

    def rewrite(key: Key, state: HindsightState, replay: Replay, rows: Int[Array, "m n"]) -> Transition:
        return replay_in_hindsight(key, replay, rows, how(state))

    def update(key: Key, state: HindsightState, episodes: Episode) -> tuple[HindsightState, Metrics]:
        tried = Attempts(episodes.skill.goal, jax.vmap(lambda episode: episode.last)(episodes))
        state = recorded(state, episodes)._replace(
            visited=state.visited.add(key, *reached_states(episodes)),
            attempts=add(state.attempts, tried, jnp.ones(batch, bool)),
        )
        success = jnp.mean(reached_goals(tried, deviation_of(state.visited)))
        return state, {"visited": state.visited.size.astype(jnp.float32), "goal_success": success}

    return Objective(init, sample, reward, update, rewrite=rewrite)


def recorded(state: HindsightState, episodes: Episode) -> HindsightState:
    """The state after these episodes were recorded."""
    experience = record(state.experience, episodes, state.episodes)
    return state._replace(experience=experience, episodes=state.episodes + episodes.valid.shape[0])


def normaliser_of(states: Float[Array, "n s"], valid: Bool[Array, " n"]) -> Normaliser:
    """The moments of the valid states. A dimension that does not vary keeps its scale."""
    moments = running_moments(states.shape[1]).update(states, valid)
    return moments.normaliser()


def deviation_of(visited: VisitedSet) -> Float[Array, " s"]:
    """The standard deviation of p(s), if all visited states were reached on purpose."""
    states, weights = visited.visited()
    share = weights / jnp.maximum(jnp.sum(weights), 1e-6)
    deviation = jnp.sqrt(share @ (states - share @ states) ** 2)
    return jnp.where(deviation > 1e-6, deviation, visited.unit)


def reached_goals(tried: Attempts, deviation: Float[Array, " s"]) -> Bool[Array, " n"]:
    """Whether each attempt ended at its goal."""
    return jnp.linalg.norm((tried.end - tried.goal) / deviation, axis=-1) <= SUCCESS_RADIUS


def reached_on_purpose(state: HindsightState, states: Float[Array, "n s"]) -> Float[Array, " n"]:
    """c(s) of the module docstring: the share of the attempts at nearby goals that were reached."""
    deviation = deviation_of(state.visited)
    tried, real = state.attempts.rows, jnp.arange(state.attempts.capacity) < state.attempts.size
    reached = reached_goals(tried, deviation)

    def share_near(x: Float[Array, " s"]) -> Float[Array, ""]:
        gaps = jnp.sum(((tried.goal - x) / deviation / NEIGHBOURHOOD) ** 2, axis=-1)
        near = jnp.exp(-0.5 * gaps) * real
        return jnp.sum(near * reached) / jnp.maximum(jnp.sum(near), 1e-3)

    return jax.lax.map(share_near, states, batch_size=256)


def goal_policy(policy: SkillPolicy, state: SACState) -> SkillPolicy:
    """The policy together with what SAC needs to continue with it."""
    learner, learned = state.learner, state.objective
    start = SACStart(learner.agent.params, learner.targets, state.moments)
    return dataclasses.replace(policy, model=DeadlineStart(start, learned.normaliser))
