"""DIAYN: Diversity Is All You Need (Eysenbach, Gupta, Ibarz and Levine, ICLR 2019).

    F = I(S;Z) + H(A|S) - I(A;Z|S) = H(Z) - H(Z|S) + H(A|S,Z)
      >= E[log q(z|s) - log p(z)] + H(A|S,Z),            r(s, z) = log q(z|s) - log p(z)           (their Eqs. 2 and 3)

Skills should be told apart by the states they visit, not by their actions, and act as randomly as that allows. SAC with
a fixed entropy scale alpha = 0.1 provides H(A|S,Z); q(z|s) is a classifier fitted to replayed states, one step for each
step of SAC; p(z) is uniform and fixed, for a learned one loses skills (their Section 5). Rewards are computed anew when
a transition is sampled, since the classifier never rests.

Departs from the authors' code in that the state reached is paid, r_t = log q(z|s_{t+1}) - log p(z), as in the paper's
Algorithm 1 (the code pays s_t); that the policy is a squashed Gaussian (theirs is a mixture of four); that the
classifier takes all its steps of an iteration before the policy takes its own, which changes nothing but the order; and
that many episodes are played between updates, because here they cost less than gradient steps.
"""

from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.reverse_mi import classifier_loss, reverse_reward
from edl.baselines.visits import one_hot_skill, sgd, visits
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, start
from edl.nets.mlp import mlp
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class DIAYNConfig:
    """Their alpha, discount and batch; the budget is one that takes minutes on two cores in a world of 50 steps."""

    num_skills: int = 10
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    minibatches: int = 50
    """Steps of the classifier in an iteration, over what SAC recalls for it."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, recall=6400, normalise=True, entropy_weight=0.1, tau=0.01
    )


def diayn(env: Env, config: DIAYNConfig) -> Program[Any, SkillPolicy]:
    """Skills that a classifier can tell apart by the states they visit, and that otherwise act at random."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))

    def init(key: Key) -> Trained:
        return start(optimiser, mlp(key, (env.feature_size, *config.hidden, config.num_skills)))

    def reward(state: Trained, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return reverse_reward(state.params(features), skill.index)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, state, classifier_loss, visits(episodes), 1, config.minibatches)

    objective = Objective(init, lambda key, state: one_hot_skill(key, config.num_skills), per_visit(reward), update)
    return sac(env, objective, config.sac, codes=jnp.eye(config.num_skills))
