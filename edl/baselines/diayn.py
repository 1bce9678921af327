"""DIAYN: Diversity Is All You Need (Eysenbach, Gupta, Ibarz and Levine, ICLR 2019).

    F = I(S;Z) + H(A|S) - I(A;Z|S) = H(Z) - H(Z|S) + H(A|S,Z)
      >= E[log q(z|s) - log p(z)] + H(A|S,Z),            r(s, z) = log q(z|s) - log p(z)           (their Eqs. 2 and 3)

A classifier should distinguish skills by the states they visit, not by their actions, and each skill should act as
randomly as that allows. SAC with a fixed entropy scale alpha = 0.1 provides H(A|S,Z). q(z|s) is a classifier fitted to
replayed states, with one gradient step per gradient step of SAC. p(z) is uniform and fixed, because a learned prior
loses skills (their Section 5). Rewards are computed again whenever a transition is sampled, because the classifier
keeps changing.

Departs from the authors' code:
- The reward is for the state reached, r_t = log q(z|s_{t+1}) - log p(z), as in the paper's Algorithm 1; their code uses
  s_t.
- The policy is a squashed Gaussian; theirs is a mixture of four.
- In each iteration the classifier makes all its gradient steps before the policy. Only the order differs.
- Many episodes are played between updates, because here they cost less than gradient steps.
"""

from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.model_fitting import sgd, visits_of
from edl.baselines.pick_rules import MostLikelySkill, with_pick_rule
from edl.baselines.reverse_mi import classifier_loss, reverse_reward
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import mlp
from edl.nets.optim import Trained, new_trained
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class DIAYNConfig:
    """alpha, discount and batch size are the authors'. With 50-step episodes, training takes minutes on two cores."""

    num_skills: int = 10
    """Number of skills."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the classifier q(z|s)."""
    learning_rate: float = 1e-3
    """Learning rate of the classifier."""
    minibatches: int = 50
    """Gradient steps of the classifier per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=400,
        rollouts=20,
        update_every=20,
        objective_batch_size=6400,
        normalise=True,
        entropy_weight=0.1,
        tau=0.01,
    )
    """Settings of SAC."""


def diayn(env: Env, config: DIAYNConfig) -> Program[Any, SkillPolicy]:
    """Train skills that a classifier can distinguish by the states they visit, and that otherwise act at random."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))

    def init(key: Key) -> Trained:
        return new_trained(optimiser, mlp(key, (env.feature_size, *config.hidden, config.num_skills)))

    def reward(state: Trained, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return reverse_reward(state.params(features), skill.index)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, state, classifier_loss, visits_of(episodes), 1, config.minibatches)

    objective = Objective(init, lambda key, state: sample_one_hot(key, config.num_skills), per_visit(reward), update)
    program = sac(env, objective, config.sac, codes=jnp.eye(config.num_skills))
    return with_pick_rule(program, lambda state: MostLikelySkill(state.params))
