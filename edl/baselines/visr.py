"""VISR (Hansen et al., 2020): a skill is a task vector w, and its reward is linear in it, r = phi(s) . w.

The skill is a direction w, uniform on the unit sphere of R^d, and q(w|s) is von Mises-Fisher around phi(s):

    log q(w|s) = kappa phi(s) . w + const,  ||phi(s)|| = ||w|| = 1;     L_phi = -E[phi(s) . w],     r(s, w) = phi(s) . w

(kappa only scales the reward: 1). Because the reward is linear in w, the critics learn successor features psi(s,w,a),
which give the value of one task's policy at another task, and the policy for w improves on the best of several
policies z_j around w (generalised policy improvement). This also allows task inference: given the reward of some
states, w = argmin sum_i (phi(s_i) . w - r_i)^2, scaled to unit length, is the skill to play (`infer_task`). To reach a
state x, the skill is w = phi(x), the mode of q(w|x).

Departs from the paper:
- The paper learns psi by Q-learning over the discrete actions of Atari and acts by GPI. Here psi belongs to the critics
  of SAC, and GPI improves an actor (`edl.rl.successor`), because actions are continuous, so there is no maximum over
  them, and because the skills are then a policy pi(a|s,w) like those of all other methods.
- The z_j are unit vectors along w + c u, with u uniform on the sphere, instead of von Mises-Fisher samples around w.
  Both are symmetric around w, and u costs nothing: it is the task of another row of the batch.
- phi is trained on replayed steps.
- The K skills for evaluation are spread evenly over the sphere.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.goal_skills import medoids
from edl.baselines.model_fitting import Moves, moves_of, weighted_mean
from edl.baselines.skill_priors import sample_direction, unit_vector
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import LinearReward, Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

NUM_CANDIDATES = 2048
"""Number of random directions from which `spread_directions` picks the K skills."""


@config
class VISRConfig:
    """Settings of VISR. The number of dimensions is the paper's."""

    num_skills: int = 10
    """Number of skills that are evaluated."""
    dimensions: int = 5
    """d, the dimensions of phi(s) and w."""
    policies: int = 2
    """Number of policies around w that GPI compares with the policy of w. The paper has 10."""
    around: float = 0.5
    """c, the distance of these policies from w."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of phi."""
    learning_rate: float = 1e-3
    """Learning rate of phi."""
    epochs: int = 1
    """Passes of phi over the replayed steps of an iteration."""
    minibatches: int = 16
    """Minibatches per epoch of phi, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=400,
        rollouts=20,
        update_every=20,
        objective_batch_size=4096,
        gamma=0.95,
        tau=0.01,
        entropy_weight=0.1,
    )
    """Settings of SAC."""


class ModeOfPosterior(PickRule):
    """w = phi(x), the mode of q(w|x)."""

    features: MLP
    rule: ClassVar[str] = "w = phi(x), the mode of q(w|x)"

    def __call__(self, target: Float[Array, " s"]) -> Float[Array, " d"]:
        return phi(self.features, target)


def visr(env: Env, config: VISRConfig) -> Program[Any, SkillPolicy]:
    """Train skills for all tasks whose reward is linear in phi(s). ``policy.model`` is phi, for `infer_task`."""
    codes = spread_directions(config.num_skills, config.dimensions)
    program = sac(env, visr_objective(env, config), config.sac, codes=codes)

    def finish(state: SACState) -> SkillPolicy:
        features = state.objective.params
        return dataclasses.replace(program.finish(state), model=features, pick=ModeOfPosterior(features))

    return dataclasses.replace(program, finish=finish)


def visr_objective(env: Env, config: VISRConfig) -> Objective:
    """w uniform on the sphere, r = phi(s) . w, and the update of phi."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))

    def init(key: Key) -> Trained:
        return new_trained(optimiser, mlp(key, (env.feature_size, *config.hidden, config.dimensions)))

    def sample(key: Key, state: Trained) -> Skill:
        return sample_direction(key, config.dimensions)

    def reward(state: Trained, reached: Float[Array, " s"], skill: Skill) -> Scalar:
        return jnp.dot(phi(state.params, reached), skill.code)

    def cumulants(state: Trained, episode: Episode) -> Float[Array, "t d"]:
        return jax.vmap(phi, (None, 0))(state.params, episode.features[1:])

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, state, posterior_loss, moves_of(episodes), config.epochs, config.minibatches)

    linear = LinearReward(cumulants, lambda codes: neighbours(codes, config.policies, config.around))
    return Objective(init, sample, per_visit(reward), update, linear=linear)


def phi(features: MLP, state: Float[Array, " s"]) -> Float[Array, " d"]:
    """The mean direction of q(w|s), a unit vector."""
    return unit_vector(features(state))


def posterior_loss(features: MLP, rows: Moves) -> tuple[Scalar, Metrics]:
    """-log q(w|s) up to constants: the weighted mean of -phi(s') . w."""
    alignments = jnp.sum(jax.vmap(phi, (None, 0))(features, rows.after) * rows.code, axis=1)
    alignment = weighted_mean(rows.weight, alignments)
    return -alignment, {"alignment": alignment}


def neighbours(codes: Float[Array, "n d"], num: int, around: float | Scalar) -> Float[Array, "g n d"]:
    """Tasks around each task: w + c u, scaled to unit length, where u is the task of another row."""
    return jnp.stack([jax.vmap(unit_vector)(codes + around * jnp.roll(codes, i + 1, axis=0)) for i in range(num)])


def spread_directions(num: int, dimensions: int) -> Float[Array, "k d"]:
    """Unit vectors spread over the sphere. The result is always the same."""
    candidates = jax.random.normal(jax.random.key(0), (max(NUM_CANDIDATES, num), dimensions))
    return medoids(jax.vmap(unit_vector)(candidates), num)


def infer_task(policy: SkillPolicy, states: Float[Array, "n s"], rewards: Float[Array, " n"]) -> Float[Array, " d"]:
    """The skill w that fits ``rewards`` best: argmin sum_i (phi(s_i) . w - r_i)^2, scaled to unit length."""
    features = policy.model
    if features is None:
        raise ConfigError("infer_task needs a policy with phi (got a policy without a model). Use `edl baseline visr`.")
    return unit_vector(jnp.linalg.lstsq(jax.vmap(phi, (None, 0))(features, states), rewards)[0])
