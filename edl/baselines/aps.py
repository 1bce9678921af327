"""APS: active pretraining with successor features (Liu and Abbeel, ICML 2021).

It adds to VISR (`edl.baselines.visr`), which does not explore, the particle entropy of APT:

    I(S;Z) = H(S) - H(S|Z)
    r(s, w) = phi(s') . w  +  beta log(1 + 1/k sum_{s_j in kNN(s')} ||phi(s') - phi(s_j)|| / scale),     ||w|| = 1

phi(s) is a unit vector, trained by L_phi = -E[phi(s') . w], and w is uniform on the sphere. The critics learn successor
features. The second term is one more cumulant, whose weight is 1 in every task: the code is z = (w, 1), the reward is
(phi, beta log(1 + ...)) . z, and Q = psi . z.

To reach a state x, the skill is w = phi(x). For a task with labelled states, `edl.baselines.visr.infer_task` finds w;
play it as `with_bonus(w)`.

Departs from the authors' code:
- SAC instead of DDPG; their critic outputs psi but learns from the scalar psi . w, ours from each cumulant.
- w lasts for the episode, theirs for five steps.
- The neighbours are those of the unit vectors phi(s); in their code, of phi(s) before it is scaled to unit length.
See also `edl.baselines.batch_entropy`.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.batch_entropy import BatchState, entropy_reward, learn_and_forget, no_particles, see_batch
from edl.baselines.directions import no_other_codes
from edl.baselines.model_fitting import moves_of
from edl.baselines.skill_priors import sample_direction
from edl.baselines.visr import phi, posterior_loss, spread_directions
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import LinearReward, Objective
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics


@config
class APSConfig:
    """k is the authors'. The dimensions are those of VISR."""

    num_skills: int = 10
    """Number of skills that are evaluated."""
    dimensions: int = 5
    """d, the dimensions of phi(s) and w."""
    neighbours: int = 12
    """k, the number of nearest states of the batch."""
    entropy_reward_weight: float = 1.0
    """beta, the weight of the particle entropy."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of phi."""
    learning_rate: float = 1e-3
    """Learning rate of phi."""
    minibatches: int = 20
    """Gradient steps of phi per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, objective_batch_size=2560, gamma=0.95, entropy_weight=0.05
    )
    """Settings of SAC."""


class ModeWithBonus(PickRule):
    """z = (w, 1) with w = phi(x), the mode of q(w|x)."""

    features: MLP
    rule: ClassVar[str] = "w = phi(x), the mode of q(w|x)"

    def __call__(self, target: Float[Array, " s"]) -> Float[Array, " d1"]:
        return with_bonus(phi(self.features, target))


def aps(env: Env, config: APSConfig) -> Program[Any, SkillPolicy]:
    """Train skills for all tasks whose reward is linear in phi(s), which also visit states far from each other."""
    codes = jax.vmap(with_bonus)(spread_directions(config.num_skills, config.dimensions))
    program = sac(env, aps_objective(env, config), config.sac, codes=codes)

    def finish(state: SACState) -> SkillPolicy:
        features = state.objective.trained.params
        return dataclasses.replace(program.finish(state), model=features, pick=ModeWithBonus(features))

    return dataclasses.replace(program, finish=finish)


def with_bonus(task: Float[Array, " d"]) -> Float[Array, " d1"]:
    """(w, 1): the code of a task."""
    return jnp.append(task, 1.0)


def aps_objective(env: Env, config: APSConfig) -> Objective:
    """z = (w, 1), the cumulants (phi, beta log(1 + ...)), and the update of phi."""
    optimiser, size = optax.flatten(optax.adam(config.learning_rate)), config.dimensions

    def init(key: Key) -> BatchState:
        features = mlp(key, (env.feature_size, *config.hidden, size))
        return BatchState(new_trained(optimiser, features), no_particles(size))

    def sample(key: Key, state: BatchState) -> Skill:
        drawn = sample_direction(key, size)
        return drawn._replace(code=with_bonus(drawn.code))

    def cumulants(state: BatchState, episode: Episode) -> Float[Array, "t d1"]:
        points = jax.vmap(phi, (None, 0))(state.trained.params, episode.features[1:])
        bonus = jax.vmap(lambda point: entropy_reward(point, state.particles, config.neighbours))(points)
        return jnp.concatenate([points, config.entropy_reward_weight * bonus[:, None]], axis=1)

    def reward(state: BatchState, episode: Episode) -> Float[Array, " t"]:
        return cumulants(state, episode) @ episode.skill.code

    def fit(key: Key, trained: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        rows = moves_of(episodes)
        tasks = rows._replace(code=rows.code[:, :-1])
        return sgd(key, optimiser, trained, posterior_loss, tasks, 1, config.minibatches)

    return Objective(
        init,
        sample,
        reward,
        update=learn_and_forget(fit, size),
        before_rewards=see_batch(lambda params: lambda state: phi(params, state)),
        linear=LinearReward(cumulants, no_other_codes),
    )
