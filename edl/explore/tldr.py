"""TLDR (Bae, Park and Lee, CoRL 2024): explore by goals that are far in temporal distance from all that was visited.

A map phi measures temporal distance: states that are many steps apart are far from each other, and one step covers at
most one unit, as in METRA (by dual descent with a multiplier lambda):

    max_phi  E_{s, g}[ f(||phi(s) - phi(g)||) ]   s.t. ||phi(s) - phi(s')||^2 <= 1,     f(x) = -softplus_{0.01}(500 - x)

s and g are independent visited states; f makes distances beyond 500 count less. phi does three things:
    goals     visited states with the largest mean distance to their k nearest neighbours in phi
    pi(a|s,g) reaches them, with the reward ||phi(s) - phi(g)|| - ||phi(s') - phi(g)||
    pi(a|s)   explores, with the particle entropy r = log(1 + 1/k sum_{kNN} ||phi(s') - phi(s_j)||)

Half of the episodes go to goals, half explore. All replayed steps train both roles; a goal is one of the pool, or a
state that the episode reached later. `States.policy` is pi(a|s,g).

Departs from the authors' code:
- The constraint is on the squared norm, as in the paper; theirs is on its mean over dimensions.
- pi(a|s) gets the novelty of s', theirs its increase from s to s': with discounting, their sums differ by a factor.
- Half of the replayed goals are in hindsight (theirs: 0.8), and SAC's entropy has a fixed weight.
- One network has both roles, by an input (g, 0) or (0, 1). Exploring episodes do not go to a goal first. The pool of
  states for k-nearest neighbours is drawn anew in every iteration.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import Experience, SkillPolicy, States, empty_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import draw_places, draw_states, record
from edl.explore.region import Predicate
from edl.nets.linalg import mean_nearest
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

FAR, SHARPNESS = 500.0, 0.01
"""f(x) = -softplus(FAR - x) with this sharpness, as in the authors' code."""


@config
class TLDRConfig:
    """100,000 steps by default in an env with 50 steps per episode. epsilon and first lambda are METRA's."""

    iterations: int = 100
    """Number of iterations."""
    rollouts: int = 20
    """Episodes per iteration."""
    dimensions: int = 4
    """Dimensions of phi."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of phi and of SAC's networks."""
    model_learning_rate: float = 1e-3
    """Learning rate of phi and of log lambda."""
    first_lambda: float = 30.0
    """Initial value of the multiplier lambda."""
    slack: float = 1e-3
    """epsilon, the largest slack of the constraint that counts."""
    gradient_steps: int = 100
    """Gradient steps of phi per iteration."""
    batch_size: int = 256
    """Moves per gradient step of phi, and transitions per gradient step of SAC."""
    update_every: int = 5
    """Environment steps per gradient step of SAC."""
    capacity: int = 400_000
    """Maximum number of transitions in the replay buffer of SAC."""
    particles: int = 512
    """Number of visited states in the pool."""
    neighbours: int = 12
    """k, the number of nearest states of the pool."""
    candidates: int = 20
    """Number of states of the pool that are goals."""
    hindsight: float = 0.5
    """Share of the replayed goals that the episode reached later."""
    learning_rate: float = 1e-3
    """Learning rate of SAC."""
    gamma: float = 0.99
    """Discount factor of SAC."""
    entropy_weight: float = 0.05
    """Weight of the policy's entropy in SAC."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class TemporalMap(eqx.Module):
    """phi, and log lambda, the multiplier of its constraint."""

    phi: MLP
    log_lambda: Scalar


class TLDRState(NamedTuple):
    """phi; the pool in phi; the goals; all episodes so far. ``key`` is for drawing p(s) at the end."""

    key: Key
    map: Trained
    points: Float[Array, "p d"]
    goals: Float[Array, "g s"]
    experience: Experience
    episodes: Int[Array, ""]


def tldr(env: Env, config: TLDRConfig) -> Program[SACState, States]:
    """Explore by going to visited states that are far from the others in temporal distance, and on from there."""
    learner = SACConfig(
        iterations=config.iterations,
        rollouts=config.rollouts,
        capacity=min(config.iterations * config.rollouts * env.horizon, config.capacity),
        warmup=config.rollouts * env.horizon,
        update_every=config.update_every,
        batch_size=config.batch_size,
        hidden=config.hidden,
        learning_rate=config.learning_rate,
        gamma=config.gamma,
        entropy_weight=config.entropy_weight,
    )
    program = sac(env, tldr_objective(env, config), learner, codes=jnp.zeros((1, env.feature_size + 1)))

    def finish(state: SACState) -> States:
        learned: TLDRState = state.objective
        states = draw_states(learned.key, learned.experience, None, config.num_samples, config.region)
        policy = goal_policy(program.finish(state), learned.goals)
        return States(states.samples, states.experience, policy)

    return Program(program.init, program.step, finish, program.iterations, program.env_steps)


def goal_policy(policy: SkillPolicy, goals: Float[Array, "g s"]) -> SkillPolicy:
    """pi(a|s,g): the policy without the input for its role, which is 0 on the way to a goal."""
    first, *others = policy.actor.weights
    actor = MLP([first[:-1], *others], policy.actor.biases, policy.actor.activation)
    return dataclasses.replace(policy, actor=actor, codes=goals, goals=goals)


def go_to(goal: Float[Array, " s"]) -> Skill:
    """The skill of reaching a goal."""
    return Skill(code=jnp.append(goal, 0.0), index=jnp.int32(0), goal=goal)


def wander(size: int) -> Skill:
    """The skill of exploring, which has no goal."""
    return Skill(code=jnp.append(jnp.zeros(size), 1.0), index=jnp.int32(1), goal=jnp.zeros(size))


def tldr_objective(env: Env, config: TLDRConfig) -> Objective:
    """Both roles, their rewards, and the updates of phi and of the pool."""
    optimiser = optax.flatten(optax.adam(config.model_learning_rate))
    size = env.feature_size

    def init(key: Key) -> TLDRState:
        keep_key, map_key = jax.random.split(key)
        phi = mlp(map_key, (size, *config.hidden, config.dimensions))
        trained = new_trained(optimiser, TemporalMap(phi, jnp.log(jnp.asarray(config.first_lambda, jnp.float32))))
        points, goals = jnp.zeros((config.particles, config.dimensions)), jnp.zeros((config.candidates, size))
        experience = empty_experience(env, config.iterations * config.rollouts)
        return TLDRState(keep_key, trained, points, goals, experience, jnp.int32(0))

    def choose(explores: Array, goal: Float[Array, " s"]) -> Skill:
        return jax.tree.map(lambda a, b: jnp.where(explores, a, b), wander(size), go_to(goal))

    def sample(key: Key, state: TLDRState) -> Skill:
        role_key, goal_key = jax.random.split(key)
        return choose(jax.random.bernoulli(role_key), jax.random.choice(goal_key, state.goals))

    def relabel(key: Key, state: TLDRState, step: Episode, later: Float[Array, " s"]) -> Skill:
        role_key, goal_key, later_key = jax.random.split(key, 3)
        goal = jax.random.choice(goal_key, state.goals)
        goal = jnp.where(jax.random.bernoulli(later_key, config.hindsight), later, goal)
        return choose(jax.random.bernoulli(role_key), goal)

    def reward(state: TLDRState, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        phi = state.map.params.phi
        progress = distance(phi(before), phi(skill.goal)) - distance(phi(after), phi(skill.goal))
        return jnp.where(skill.index == 1, jnp.log1p(novelty(phi(after), state.points, config.neighbours)), progress)

    def update(key: Key, state: TLDRState, episodes: Episode) -> tuple[TLDRState, Metrics]:
        fit_key, pool_key = jax.random.split(key)
        experience = record(state.experience, episodes, state.episodes)
        trained, metrics = fit_map(fit_key, optimiser, state.map, experience, config)
        num_states = jnp.where(experience.lengths > 0, experience.lengths + 1, 0)
        pool = experience.paths[*draw_places(pool_key, jnp.cumsum(num_states), config.particles)]
        points = jax.vmap(trained.params.phi)(pool)
        far = jax.vmap(lambda point: novelty(point, points, config.neighbours))(points)
        goals = pool[jax.lax.top_k(far, config.candidates)[1]]
        return TLDRState(state.key, trained, points, goals, experience, state.episodes + len(episodes.valid)), metrics

    return Objective(init, sample, per_move(reward), update, relabel=relabel)


def distance(x: Float[Array, " d"], y: Float[Array, " d"]) -> Scalar:
    """||x - y||, with a finite gradient at 0."""
    return jnp.sqrt(jnp.sum((x - y) ** 2) + 1e-6)


def novelty(point: Float[Array, " d"], points: Float[Array, "p d"], neighbours: int) -> Scalar:
    """Mean distance to the nearest points of the pool."""
    return mean_nearest(point, points, jnp.ones(points.shape[0], bool), neighbours)


def fit_map(
    key: Key,
    optimiser: optax.GradientTransformation,
    trained: Trained,
    experience: Experience,
    config: TLDRConfig,
) -> tuple[Trained, Metrics]:
    """Gradient steps of phi and lambda on moves of the recorded episodes."""
    ends = jnp.cumsum(experience.lengths)

    def step(trained: Trained, key: Key) -> tuple[Trained, Metrics]:
        move_key, goal_key = jax.random.split(key)
        rows, times = draw_places(move_key, ends, config.batch_size)
        before, after = experience.paths[rows, times], experience.paths[rows, times + 1]
        goals = jax.random.permutation(goal_key, after)
        return gradient_step(optimiser, trained, map_loss, before, after, goals, config.slack)

    trained, metrics = jax.lax.scan(step, trained, jax.random.split(key, config.gradient_steps))
    return trained, jax.tree.map(jnp.mean, metrics)


def map_loss(
    params: TemporalMap,
    before: Float[Array, "n s"],
    after: Float[Array, "n s"],
    goals: Float[Array, "n s"],
    slack: float | Scalar,
) -> tuple[Scalar, Metrics]:
    """The losses of phi and of log lambda, in one. No parameter has a gradient from both."""
    x, y, g = (jax.vmap(params.phi)(states) for states in (before, after, goals))
    distances = jax.vmap(distance)(x, g)
    spread = -jnp.mean(jax.nn.softplus(SHARPNESS * (FAR - distances))) / SHARPNESS
    squares = jnp.sum((y - x) ** 2, axis=1)
    mean_slack = jnp.mean(jnp.minimum(slack, 1.0 - squares))
    multiplier = jnp.exp(params.log_lambda)
    loss = -spread - jax.lax.stop_gradient(multiplier) * mean_slack
    loss += params.log_lambda * jax.lax.stop_gradient(mean_slack)
    return loss, {"map_distance": jnp.mean(distances), "squared_step": jnp.mean(squares), "lambda": multiplier}
