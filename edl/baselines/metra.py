"""METRA: scalable unsupervised RL with metric-aware abstraction (Park, Rybkin and Levine, ICLR 2024).

Instead of the mutual information it maximises the Wasserstein dependency of states and skills under the temporal
distance, the least number of steps from one state to another:

    sup_{pi, phi}  E[ sum_t (phi(s_{t+1}) - phi(s_t)) . z ]     s.t. ||phi(s) - phi(s')||^2 <= 1 for each move s -> s'

phi(s) is thus a map of the env on which one step covers at most one unit, and a skill goes as far as it can in its own
direction of the map. By dual descent with a multiplier lambda >= 0 (their Eq. 10 and Algorithm 1):

    r(s, s', z) = (phi(s') - phi(s)) . z                                        maximised by SAC
    L_phi       = -E[ r + lambda min(epsilon, 1 - ||phi(s) - phi(s')||^2) ]     over replayed moves
    L_lambda    = lambda E[ min(epsilon, 1 - ||phi(s) - phi(s')||^2) ]

Continuous skills are z ~ uniform over the unit sphere. Discrete skills are one-hot for the policy, and directions with
zero mean for phi: z = (one-hot - 1/K) K / (K - 1).

To reach x, the skill in the direction of phi(x) - phi(s_0) is played: the unit vector itself or, if skills are
discrete, the one with the largest component.

Departs from the authors' code:
- The constraint is on the squared norm, as in the paper. Their code uses its mean over dimensions, which allows steps
  of length sqrt(d) in d dimensions.
- In each iteration, phi and lambda make all their gradient steps before the policy.
- To reach x, their code computes the direction phi(x) - phi(s_t) again in every step. Here a skill lasts for the
  episode, as for all methods, and phi(s_0) is the mean over start states.
It follows the code in descending on log lambda, and in the entropy of SAC.
"""

import dataclasses
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.goal_skills import start_states
from edl.baselines.model_fitting import Moves, moves_of, sgd
from edl.baselines.pick_rules import NUM_STARTS
from edl.baselines.skill_priors import example_directions, sample_direction, sample_one_hot, unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar


@config
class METRAConfig:
    """epsilon, first lambda and entropy are the authors'. With our networks, training takes minutes on two cores."""

    num_skills: int = 10
    """Number of skills, or of example codes to evaluate if skills are continuous."""
    skills: Literal["discrete", "continuous"] = "discrete"
    """One-hot skills, or unit vectors."""
    skill_size: int = 2
    """Dimensions of a continuous skill."""
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
    sac: SACConfig = SACConfig(
        iterations=700,
        rollouts=20,
        update_every=20,
        objective_batch_size=6400,
        normalise=True,
        learn_entropy_weight=True,
        target_entropy_share=0.3,
        entropy_weight=0.01,
    )
    """Settings of SAC."""


class Abstraction(eqx.Module):
    """The map phi, and the multiplier of its constraint."""

    phi: MLP
    log_lambda: Scalar


class DirectionOfTarget(PickRule):
    """The skill in the direction of phi(x) - phi(s_0). ``origin`` is the mean of phi(s_0)."""

    phi: MLP
    origin: Float[Array, " z"]
    discrete: bool = eqx.field(static=True)
    rule: ClassVar[str] = "the direction phi(x) - phi(s_0)"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""] | Float[Array, " z"]:
        direction = self.phi(target) - self.origin
        return jnp.argmax(direction) if self.discrete else unit_vector(direction)


def metra(env: Env, config: METRAConfig) -> Program[Any, SkillPolicy]:
    """Train skills that go far, each in its own direction of the map phi. ``policy.model`` is phi."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    discrete = config.skills == "discrete"
    codes = jnp.eye(config.num_skills) if discrete else example_directions(config.num_skills, config.skill_size)

    def init(key: Key) -> Trained:
        phi = mlp(key, (env.feature_size, *config.hidden, codes.shape[-1]))
        return new_trained(optimiser, Abstraction(phi, jnp.log(jnp.asarray(config.first_lambda, jnp.float32))))

    def sample(key: Key, state: Trained) -> Skill:
        return sample_one_hot(key, config.num_skills) if discrete else sample_direction(key, config.skill_size)

    def reward(state: Trained, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        phi = state.params.phi
        return progress(phi(after) - phi(before), direction_of(skill.code, discrete))

    def loss(abstraction: Abstraction, rows: Moves) -> tuple[Scalar, Metrics]:
        directions = jax.vmap(lambda code: direction_of(code, discrete))(rows.code)
        return abstraction_loss(abstraction, rows, directions, config.slack)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, state, loss, moves_of(episodes), 1, config.minibatches)

    program = sac(env, Objective(init, sample, per_move(reward), update), config.sac, codes=codes)

    def finish(state: SACState) -> SkillPolicy:
        phi = state.objective.params.phi
        origin = jnp.mean(jax.vmap(phi)(start_states(jax.random.key(0), env, NUM_STARTS)), axis=0)
        rule = DirectionOfTarget(phi, origin, discrete)
        return dataclasses.replace(program.finish(state), model=phi, pick=rule)

    return dataclasses.replace(program, finish=finish)


def direction_of(code: Float[Array, " z"], discrete: bool) -> Float[Array, " z"]:
    """z as an input of phi: a continuous code unchanged, a one-hot code with zero mean and a 1 at its own index."""
    size = code.shape[0]
    return (code - jnp.mean(code)) * size / max(size - 1, 1) if discrete else code


def progress(step: Float[Array, " z"], direction: Float[Array, " z"]) -> Scalar:
    """(phi(s') - phi(s)) . z."""
    return jnp.dot(step, direction)


def abstraction_loss(
    abstraction: Abstraction, rows: Moves, directions: Float[Array, "n z"], slack: float | Scalar
) -> tuple[Scalar, Metrics]:
    """L_phi + L_lambda of the module docstring. No parameter has a gradient from both terms."""
    steps = jax.vmap(abstraction.phi)(rows.after) - jax.vmap(abstraction.phi)(rows.before)
    squares = jnp.sum(steps**2, axis=1)
    slacks = jnp.minimum(slack, 1.0 - squares)
    total = jnp.maximum(jnp.sum(rows.weight), 1.0)

    def average(x: Float[Array, " n"]) -> Scalar:
        return jnp.sum(rows.weight * x) / total

    mean_progress = average(jax.vmap(progress)(steps, directions))
    multiplier = jnp.exp(abstraction.log_lambda)
    phi_loss = -mean_progress - jax.lax.stop_gradient(multiplier) * average(slacks)
    lambda_loss = abstraction.log_lambda * jax.lax.stop_gradient(average(slacks))
    metrics = {"progress": mean_progress, "squared_step": average(squares), "lambda": multiplier}
    return phi_loss + lambda_loss, metrics
