"""The paper's canonical baseline for the reverse form of the mutual information (its Section 2.1).

    I(S;Z) = H(Z) - H(Z|S) >= E[log q(z|s)] - E[log p(z)],      r(s, z) = log q(z|s) - log p(z)     (Eq. 5 by our count)

VIC (Gregor et al., 2016) with a fixed uniform prior and every state of the episode in the objective, or DIAYN
(Eysenbach et al., 2019) without the entropy of actions. q(z|s) is a classifier fitted by maximum likelihood to the
states that the policy itself visits. That is the flaw that EDL removes: unseen states pay nothing.

Departs from the authors' code: it plays a second batch of episodes that trains the classifier only. Ours learns from
the episodes that the policy learns from, and so takes half the steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.visits import one_hot_skill, sgd, visits
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, start
from edl.nets.mlp import MLP, mlp
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar


@config
class ReverseMIConfig:
    """The classifier's recipe is that of the authors' code; PPO is ours."""

    num_skills: int = 10
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    epochs: int = 4
    minibatches: int = 10
    ppo: PPOConfig = PPOConfig()


def reverse_mi(env: Env, config: ReverseMIConfig) -> Program[Any, SkillPolicy]:
    """Skills that a classifier can tell apart by the states they visit."""
    optimiser = optax.adam(config.learning_rate)

    def init(key: Key) -> Trained:
        return start(optimiser, mlp(key, (env.feature_size, *config.hidden, config.num_skills)))

    def reward(state: Trained, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return reverse_reward(state.params(features), skill.index)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        states, skills, valid = visits(episodes)
        rows = (states, skills, valid)
        return sgd(key, optimiser, state, classifier_loss, rows, config.epochs, config.minibatches)

    objective = Objective(init, lambda key, state: one_hot_skill(key, config.num_skills), per_visit(reward), update)
    return ppo(env, objective, config.ppo, codes=jnp.eye(config.num_skills))


def reverse_reward(logits: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log q(z|s) - log p(z), p uniform; at most log K."""
    return jax.nn.log_softmax(logits)[index] + jnp.log(logits.shape[0])


def classifier_loss(
    classifier: MLP, rows: tuple[Float[Array, "n s"], Int[Array, " n"], Float[Array, " n"]]
) -> tuple[Scalar, Metrics]:
    """Cross-entropy of q(z|s) over the visits that count."""
    states, skills, weight = rows
    log_q = jax.nn.log_softmax(jax.vmap(classifier)(states))
    picked = jnp.take_along_axis(log_q, skills[:, None], axis=1)[:, 0]
    total = jnp.maximum(jnp.sum(weight), 1.0)
    loss = -jnp.sum(weight * picked) / total
    right = jnp.sum(weight * (jnp.argmax(log_q, axis=1) == skills)) / total
    return loss, {"classifier_loss": loss, "accuracy": right}
