"""TLDR (Bae, Park and Lee, CoRL 2024): explore by goals that are far in temporal distance from all that was visited.

A map phi measures temporal distance: states that are many steps apart are far from each other, and one step covers at
most one unit, as in METRA (by dual descent with a multiplier lambda):

    max_phi  E_{s, g}[ f(||phi(s) - phi(g)||) ]   s.t. ||phi(s) - phi(s')||^2 <= 1,     f(x) = -softplus_{0.01}(500 - x)

s and g are independent visited states; f makes distances beyond 500 count less. phi does three things:
    goals     visited states with the largest mean distance to their k nearest neighbours in phi
    pi(a|s,g) reaches them, with the reward ||phi(s) - phi(g)|| - ||phi(s') - phi(g)||
    pi(a|s)   explores, with the particle entropy r = log(1 + 1/(k m) sum_{kNN} ||phi(s') - phi(s_j)||)

m is the running mean of such distances. All episodes go to a goal. Half of them explore from a random step on; those of
the first iteration only explore. All steps train both roles: replayed with their episode's goal, unless they explored,
or with a state that was reached later (hindsight). `States.policy` is pi(a|s,g).

Departs from the authors' code:
- The constraint is on the squared norm, as in the paper; theirs is on its mean over dimensions.
- pi(a|s) gets the novelty of s', theirs its increase from s to s'. Discounted, the sums differ by the factor 1 - gamma
  and by a function of the first state. So SAC's entropy, whose weight is fixed here and learned there, counts less.
- One network without layer normalisation has both roles, by an input (g, 0) or (0, 1). A replayed step trains one role,
  at random (theirs: both). gamma is 0.99 for both (theirs: 0.97 for goals), the share of hindsight 0.5 (theirs: 0.8).
- Goals, neighbours and m come from a pool of visited states, drawn once per iteration (theirs: from every minibatch).
  phi makes its gradient steps of an iteration before SAC, on batches of its own.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience, SkillPolicy, States, TargetAsGoal, empty_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import draw_states, draw_visited, record
from edl.explore.region import Predicate
from edl.nets.linalg import mean_nearest
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.replay import draw_places
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

FAR, SHARPNESS = 500.0, 0.01  # of f


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
    """Share of the goals that the episode reached later, among replayed steps that went to a goal."""
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
    """phi; the pool in phi; m; the goals; all episodes so far. ``key`` is for drawing p(s) at the end."""

    key: Key
    map: Trained
    points: Float[Array, "p d"]
    spacing: Scalar
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
        return dataclasses.replace(states, policy=goal_policy(program.finish(state), learned.goals))

    return Program(program.init, program.step, finish, program.iterations, program.env_steps)


def goal_policy(policy: SkillPolicy, goals: Float[Array, "g s"]) -> SkillPolicy:
    """pi(a|s,g): the policy without the input for its role, which is 0 on the way to a goal."""
    first, *others = policy.actor.weights
    actor = MLP([first[:-1], *others], policy.actor.biases, policy.actor.activation)
    return dataclasses.replace(policy, actor=actor, codes=goals, goals=goals, pick=TargetAsGoal())


def go_to(goal: Float[Array, " s"], switch: Int[Array, ""]) -> Skill:
    """The skill of reaching a goal. From step ``switch`` on, which is stored as its index, it explores."""
    return Skill(code=jnp.append(goal, 0.0), index=switch, goal=goal)


def in_role(skill: Skill, explore: Bool[Array, ""]) -> Skill:
    """The same skill in one of the roles."""
    return skill._replace(code=jnp.append(jnp.where(explore, 0.0, skill.goal), explore))


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
        return TLDRState(keep_key, trained, points, jnp.float32(1.0), goals, experience, jnp.int32(0))

    def sample(key: Key, state: TLDRState) -> Skill:
        goal_key, switch_key = jax.random.split(key)
        switch = jax.random.randint(switch_key, (), 0, 2 * env.horizon)  # in half of the draws: never
        return go_to(jax.random.choice(goal_key, state.goals), jnp.where(state.episodes == 0, 0, switch))

    def change_skill(state: TLDRState, skill: Skill, time: Int[Array, ""], features: Float[Array, " s"]) -> Skill:
        return in_role(skill, time >= skill.index)

    def relabel(key: Key, state: TLDRState, step: Episode, later: Float[Array, " s"]) -> Skill:
        role_key, later_key = jax.random.split(key)
        explored = step.skill.code[-1] > 0
        goal = jnp.where(explored | jax.random.bernoulli(later_key, config.hindsight), later, step.skill.goal)
        return in_role(go_to(goal, step.skill.index), jax.random.bernoulli(role_key))

    def reward(state: TLDRState, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        phi = state.map.params.phi
        progress = distance(phi(before), phi(skill.goal)) - distance(phi(after), phi(skill.goal))
        entropy = jnp.log1p(novelty(phi(after), state.points, config.neighbours) / state.spacing)
        return jnp.where(skill.code[-1] > 0, entropy, progress)

    def update(key: Key, state: TLDRState, episodes: Episode) -> tuple[TLDRState, Metrics]:
        fit_key, pool_key = jax.random.split(key)
        experience = record(state.experience, episodes, state.episodes)
        trained, metrics = fit_map(fit_key, optimiser, state.map, experience, config)
        pool = draw_visited(pool_key, experience, config.particles)
        points = jax.vmap(trained.params.phi)(pool)
        far = jax.vmap(lambda point: novelty(point, points, config.neighbours))(points)
        goals = pool[jax.lax.top_k(far, config.candidates)[1]]
        played = state.episodes + len(episodes.valid)
        spacing = state.spacing + (jnp.mean(far) - state.spacing) * len(episodes.valid) / played
        return TLDRState(state.key, trained, points, spacing, goals, experience, played), metrics

    return Objective(init, sample, per_move(reward), update, relabel=relabel, change_skill=change_skill)


def distance(x: Float[Array, " d"], y: Float[Array, " d"]) -> Scalar:
    """||x - y||, with a finite gradient at 0."""
    return jnp.sqrt(jnp.sum((x - y) ** 2) + 1e-6)


def novelty(point: Float[Array, " d"], points: Float[Array, "p d"], neighbours: int) -> Scalar:
    """Mean distance to the nearest points of the pool."""
    return mean_nearest(point, points, jnp.ones(points.shape[0], bool), neighbours)


def fit_map(
    key: Key, optimiser: optax.GradientTransformation, trained: Trained, experience: Experience, config: TLDRConfig
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
