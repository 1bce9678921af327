"""The paper's canonical baseline for the reverse form of the mutual information (its Section 2.1).

    I(S;Z) = H(Z) - H(Z|S) >= E[log q(z|s)] - E[log p(z)],      r(s, z) = log q(z|s) - log p(z)     (Eq. 5 by our count)

It is VIC (Gregor et al., 2016) with a fixed uniform prior and with every state of the episode in the objective, or
DIAYN (Eysenbach et al., 2019) without the entropy of actions. q(z|s) is a classifier, fitted by maximum likelihood to
the states that the policy itself visits. This is the flaw that EDL removes: the reward of an unseen state is zero.

Departs from the authors' code: their code plays a second batch of episodes to train the classifier. Ours trains the
classifier on the episodes that train the policy, and needs half the environment steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.model_fitting import Visits, sgd, visits_of
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar


@config
class ReverseMIConfig:
    """The classifier's settings are those of the authors' code; PPO's are ours."""

    num_skills: int = 10
    """Number of skills."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the classifier q(z|s)."""
    learning_rate: float = 1e-3
    """Learning rate of the classifier."""
    epochs: int = 4
    """Passes of the classifier over the episodes of an iteration."""
    minibatches: int = 10
    """Minibatches per epoch of the classifier."""
    ppo: PPOConfig = PPOConfig()
    """Settings of PPO."""


def reverse_mi(env: Env, config: ReverseMIConfig) -> Program[Any, SkillPolicy]:
    """Train skills that a classifier can distinguish by the states they visit."""
    optimiser = optax.adam(config.learning_rate)

    def init(key: Key) -> Trained:
        return new_trained(optimiser, mlp(key, (env.feature_size, *config.hidden, config.num_skills)))

    def reward(state: Trained, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return reverse_reward(state.params(features), skill.index)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        rows = visits_of(episodes)
        return sgd(key, optimiser, state, classifier_loss, rows, config.epochs, config.minibatches)

    objective = Objective(init, lambda key, state: sample_one_hot(key, config.num_skills), per_visit(reward), update)
    return ppo(env, objective, config.ppo, codes=jnp.eye(config.num_skills))


def reverse_reward(logits: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log q(z|s) - log p(z) with uniform p; at most log K."""
    return jax.nn.log_softmax(logits)[index] + jnp.log(logits.shape[0])


def classifier_loss(classifier: MLP, rows: Visits) -> tuple[Scalar, Metrics]:
    """Weighted cross-entropy of q(z|s)."""
    states, skills, weight = rows
    log_q = jax.nn.log_softmax(jax.vmap(classifier)(states))
    log_q_skill = jnp.take_along_axis(log_q, skills[:, None], axis=1)[:, 0]
    total = jnp.maximum(jnp.sum(weight), 1.0)
    loss = -jnp.sum(weight * log_q_skill) / total
    accuracy = jnp.sum(weight * (jnp.argmax(log_q, axis=1) == skills)) / total
    return loss, {"classifier_loss": loss, "accuracy": accuracy}
