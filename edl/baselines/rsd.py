"""RSD: efficient skill discovery via regret-aware optimization (Zhang, Zhou, Zhai, Sun and Xiong, ICML 2025).

A min-max game: the policy reduces its regret for the skills it is given, and a generator of skills looks for those with
the largest regret, i.e. those at which the policy is improving fastest:

    Reg_k(z) = V_k(s_0, z) - V_{k-1}(s_0, z)            V_k: the critic at the end of round k
    max_q  E_{z ~ q}[ Reg_k(z) - w_new log p(z) ] + w_near min(0, max_i log q(psi(s_T^i))) + H(q)

p is the population of earlier generators, so new skills differ from old ones, and the s_T^i are last states of replayed
episodes, so they stay near what can be reached. Each generator is a Gaussian; a new one joins the population at the end
of every round and replaces the one with the smallest regret if the population is full. p(z) is the population. It sees
the critic through ``see_learner`` of an `Objective`.

A skill is a point z in [-1,1]^d of a bounded map psi(s) = tanh(2 phi(s) / T) of temporal distances, where T is the
length of an episode:

    r(s, s', z) = T clip( ||z - psi(s)|| - ||z - psi(s')||, -c/T, c/T )
    L_phi       = -E[ (psi(s') - psi(s)) . u + lambda min(epsilon/T, 1/T - ||psi(s') - psi(s)||) - ||psi(s_0)|| ],
                  u = (z - psi(s)) / ||z - psi(s)||

To reach x, the skill is z = psi(x).

Departs from the authors' code:
- V is Q of the policy's mean action, without its entropy; theirs averages three samples.
- The generators have equal probability in the population; theirs prefers those near which more states were reached.
- The novelty -log p(z) is part of what REINFORCE maximises; theirs differentiates p(z) (log p(z) - log q(z)). Reg_k and
  log p are standardised over the sampled z; theirs only Reg_k. The entropy of q is ours.
- Every new generator joins; theirs only if its mean differs from those of the others. The one that it replaces is part
  of p(z) while the new one is trained; theirs is removed before.
- All rounds have the same length; theirs grow with the population. The first regret subtracts the critic before
  training; theirs takes V_0 = 0.
- psi(s_T) are of replayed episodes; theirs are of the episodes of the round.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.constraints import ConstrainedMap
from edl.baselines.directions import DirectionConfig
from edl.baselines.disco_dance import last_steps
from edl.baselines.goal_skills import medoids, start_observations
from edl.baselines.model_fitting import Moves, moves_of, weighted_mean
from edl.baselines.pick_rules import NUM_STARTS
from edl.baselines.skill_generators import GeneratorObjective, Generators, add_generator, draw_code, no_generators
from edl.baselines.skill_priors import unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import LearnerView, Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

NUM_CANDIDATES = 1024
"""Number of replayed states from which the skills for evaluation are picked."""


@config
class RSDConfig:
    """The learner's settings are those of METRA, with fewer iterations.

    Those of the generators are ours: the authors' population has 10 by default and 20 in their script for large envs,
    and their two weights are 3 or more.
    """

    num_skills: int = 10
    """Number of example codes to evaluate."""
    skill_size: int = 2
    """d, the dimensions of z and psi."""
    generators: int = 5
    """Maximum number of generators in the population."""
    round_iterations: int = 10
    """Iterations of a round, after which a new generator joins."""
    novelty: float = 1.0
    """w_new, the weight of the distance from the population."""
    nearness: float = 1.0
    """w_near, the weight of the nearness to reached states."""
    clip: float = 5.0
    """c, the largest reward of a step."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of phi."""
    learning_rate: float = 1e-3
    """Learning rate of phi and of log lambda."""
    first_lambda: float = 30.0
    """Initial value of the multiplier lambda."""
    slack: float = 1e-3
    """epsilon, the largest slack of the constraint that counts."""
    minibatches: int = 50
    """Gradient steps of phi and lambda per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = dataclasses.replace(DirectionConfig.sac, iterations=400)
    """Settings of SAC."""


class RSDState(NamedTuple):
    """The map, the population, the learner now and at the end of the last round, and the iteration."""

    map: Trained
    generators: Generators
    learner: LearnerView | None
    previous: LearnerView | None
    iteration: Int[Array, ""]


class PointInMap(PickRule):
    """z = psi(x)."""

    phi: MLP
    horizon: Float[Array, ""]
    rule: ClassVar[str] = "z = psi(x)"

    def __call__(self, target: Float[Array, " s"]) -> Float[Array, " z"]:
        return bounded(self.phi, target, self.horizon)


def rsd(env: Env, config: RSDConfig) -> Program[Any, SkillPolicy]:
    """Train skills that are points of a temporal map, drawn where the policy improves fastest."""
    program = sac(env, rsd_objective(env, config), config.sac, codes=jnp.zeros((config.num_skills, config.skill_size)))

    def finish(state: SACState) -> SkillPolicy:
        rule = PointInMap(state.objective.map.params.phi, jnp.float32(env.horizon))
        rows = evenly_spaced(state.replay.size, NUM_CANDIDATES)
        goals = medoids(state.replay.rows.features[rows, 1], config.num_skills)
        return dataclasses.replace(program.finish(state), codes=jax.vmap(rule)(goals), goals=goals, pick=rule)

    return dataclasses.replace(program, finish=finish)


def evenly_spaced(size: int | Int[Array, ""], count: int) -> Int[Array, " c"]:
    """The rows floor(i size / count). The product i size would not fit into 32 bits for a large replay buffer."""
    whole, rest = size // count, size % count
    index = jnp.arange(count)
    return index * whole + index * rest // count


def rsd_objective(env: Env, config: RSDConfig) -> Objective:
    """p(z) is the population of generators. The rewards, and the updates of the map and of the population."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    starts = start_observations(jax.random.key(0), env, NUM_STARTS)
    horizon = jnp.float32(env.horizon)

    def init(key: Key) -> RSDState:
        phi = mlp(key, (env.feature_size, *config.hidden, config.skill_size))
        log_lambda = jnp.log(jnp.asarray(config.first_lambda, jnp.float32))
        population = no_generators(config.generators, config.skill_size)
        return RSDState(new_trained(optimiser, ConstrainedMap(phi, log_lambda)), population, None, None, jnp.int32(0))

    def see_learner(state: RSDState, learner: LearnerView) -> RSDState:
        return state._replace(learner=learner, previous=learner if state.previous is None else state.previous)

    def sample(key: Key, state: RSDState) -> Skill:
        return Skill(code=draw_code(key, state.generators), index=jnp.int32(-1))

    def reward(state: RSDState, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        phi = state.map.params.phi
        gap_before, gap_after = (jnp.linalg.norm(skill.code - bounded(phi, s, horizon)) for s in (before, after))
        return jnp.clip(horizon * (gap_before - gap_after), -config.clip, config.clip)

    def loss(params: ConstrainedMap, rows: Moves) -> tuple[Scalar, Metrics]:
        return map_loss(params, rows, jax.vmap(env.features)(starts), horizon, config.slack)

    def update(key: Key, state: RSDState, episodes: Episode) -> tuple[RSDState, Metrics]:
        assert state.learner is not None
        assert state.previous is not None
        fit_key, generator_key = jax.random.split(key)
        trained, metrics = sgd(fit_key, optimiser, state.map, loss, moves_of(episodes), 1, config.minibatches)
        iteration = state.iteration + 1
        ends = iteration % config.round_iterations == 0
        learner, previous = state.learner, state.previous

        def regret(code: Float[Array, " z"]) -> Scalar:
            return jnp.mean(jax.vmap(lambda s: learner.value(s, code) - previous.value(s, code))(starts))

        def join(population: Generators) -> Generators:
            states, _, last = last_steps(episodes)
            reached = jax.vmap(lambda s: bounded(trained.params.phi, s, horizon))(states)
            objective = GeneratorObjective(regret, reached, last, config.novelty, config.nearness)
            return add_generator(generator_key, population, objective)

        population = jax.lax.cond(ends, join, lambda population: population, state.generators)
        previous = jax.tree.map(lambda new, old: jnp.where(ends, new, old), learner, previous)
        metrics |= {"generators": jnp.sum(population.present)}
        return RSDState(trained, population, learner, previous, iteration), metrics

    return Objective(init, sample, per_move(reward), update, see_learner=see_learner)


def bounded(phi: MLP, state: Float[Array, " s"], horizon: float | Scalar) -> Float[Array, " z"]:
    """psi(s) = tanh(2 phi(s) / T)."""
    return jnp.tanh(2 / horizon * phi(state))


def map_loss(
    params: ConstrainedMap, rows: Moves, starts: Float[Array, "m s"], horizon: Scalar, slack: float | Scalar
) -> tuple[Scalar, Metrics]:
    """L_phi of the module docstring, and the loss of log lambda."""
    psi = jax.vmap(lambda state: bounded(params.phi, state, horizon))
    before, after = psi(rows.before), psi(rows.after)
    directions = jax.lax.stop_gradient(jax.vmap(unit_vector)(rows.code - before))
    lengths = jnp.sqrt(jnp.sum((after - before) ** 2, axis=1) + 1e-12)
    towards = weighted_mean(rows.weight, jnp.sum((after - before) * directions, axis=1))
    mean_slack = weighted_mean(rows.weight, jnp.minimum(slack / horizon, 1 / horizon - lengths))
    origin = jnp.mean(jnp.sqrt(jnp.sum(psi(starts) ** 2, axis=1) + 1e-12))
    multiplier = jnp.exp(params.log_lambda)
    loss = -towards - jax.lax.stop_gradient(multiplier) * mean_slack + origin
    loss += params.log_lambda * jax.lax.stop_gradient(mean_slack)
    return loss, {
        "progress": towards,
        "step_length": weighted_mean(rows.weight, lengths) * horizon,
        "lambda": multiplier,
    }
