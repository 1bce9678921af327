"""The paper's canonical baseline for the reverse form of the mutual information (its Section 2.1).

    I(S;Z) = H(Z) - H(Z|S) >= E[log q(z|s)] - E[log p(z)],      r(s, z) = log q(z|s) - log p(z)     (Eq. 5 by our count)

It is VIC (Gregor et al., 2016) with a fixed uniform prior and with every state of the episode in the objective, or
DIAYN (Eysenbach et al., 2019) without the entropy of actions. q(z|s) is a classifier, fitted by maximum likelihood to
the states that the policy itself visits. This is the flaw that EDL removes: the reward of an unseen state is zero.

In each iteration the classifier is fitted first, and then computes the rewards. In the authors' code
(``separate_batch``) it is fitted to a batch of episodes of its own, played with the same policy, which does not train
the policy. By default ours is fitted to the episodes that train the policy, which needs half the environment steps.

`ReverseMIConfig.paper` is the recipe of the authors' code. Departs from it: in their code each episode has a goal at
random, and V(s_T) is not bootstrapped if the episode ends within 0.15 of it, which has no purpose in this method. The
docstring of `edl.rl.ppo` lists the differences that concern PPO.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.model_fitting import Visits, visits_of, weighted_mean
from edl.baselines.pick_rules import MostLikelySkill, with_pick_rule
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import RunningMoments, fold_normaliser, running_moments
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOConfig, paper_ppo, ppo
from edl.types import Key, Metrics, Scalar


@config
class ReverseMIConfig:
    """The classifier's size, learning rate and minibatches are the authors'; PPO's settings are ours.

    ``ppo.initialisation`` and ``ppo.normalise`` also apply to the classifier, as in the authors' code.
    """

    num_skills: int = 10
    """Number of skills."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the classifier q(z|s)."""
    learning_rate: float = 1e-3
    """Learning rate of the classifier."""
    adam_epsilon: float = 1e-8
    """Epsilon of Adam for the classifier."""
    epochs: int = 4
    """Passes of the classifier over the episodes of an iteration."""
    minibatches: int = 10
    """Minibatches per epoch of the classifier."""
    separate_batch: bool = False
    """Fit the classifier to a second batch of episodes, as the authors do, and not to that which trains the policy."""
    ppo: PPOConfig = PPOConfig()
    """Settings of PPO."""

    @classmethod
    def paper(cls, env: str) -> "ReverseMIConfig":
        """The recipe of the authors' code in the env of this name: 2 x 50 episodes per iteration, 12.5M steps."""
        return cls(adam_epsilon=1e-3, separate_batch=True, ppo=paper_ppo(env))


class ReverseMIState(NamedTuple):
    """The classifier, and the moments of the states it was fitted to (of none, if inputs are not normalised)."""

    classifier: Trained
    moments: RunningMoments

    @property
    def of_states(self) -> MLP:
        """The classifier as a network of states that are not normalised."""
        return fold_normaliser(self.classifier.params, self.moments.normaliser())


def reverse_mi(env: Env, config: ReverseMIConfig) -> Program[Any, SkillPolicy]:
    """Train skills that a classifier can distinguish by the states they visit."""
    program = ppo(env, reverse_mi_objective(env, config), config.ppo, codes=jnp.eye(config.num_skills))
    return with_pick_rule(program, lambda state: MostLikelySkill(state.of_states))


def reverse_mi_objective(env: Env, config: ReverseMIConfig) -> Objective:
    """r(s, z) = log q(z|s) - log p(z), and the classifier q(z|s)."""
    optimiser = optax.adam(config.learning_rate, eps=config.adam_epsilon)

    def init(key: Key) -> ReverseMIState:
        sizes = (env.feature_size, *config.hidden, config.num_skills)
        classifier = mlp(key, sizes, initialisation=config.ppo.initialisation)
        return ReverseMIState(new_trained(optimiser, classifier), running_moments(env.feature_size))

    def reward(state: ReverseMIState, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return reverse_reward(state.of_states(features), skill.index)

    def update(key: Key, state: ReverseMIState, episodes: Episode) -> tuple[ReverseMIState, Metrics]:
        rows, moments = visits_of(episodes), state.moments
        if config.ppo.normalise:
            moments = moments.update(rows.states, rows.weight > 0)
        scaled = rows._replace(states=jax.vmap(moments.normaliser())(rows.states))
        classifier, metrics = sgd(
            key, optimiser, state.classifier, classifier_loss, scaled, config.epochs, config.minibatches
        )
        return ReverseMIState(classifier, moments), metrics

    return Objective(
        init,
        sample=lambda key, state: sample_one_hot(key, config.num_skills),
        reward=per_visit(reward),
        update=update,
        learns="separately" if config.separate_batch else "before",
        needs="steps",
    )


def reverse_reward(logits: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log q(z|s) - log p(z) with uniform p; at most log K."""
    return jax.nn.log_softmax(logits)[index] + jnp.log(logits.shape[0])


def classifier_loss(classifier: MLP, rows: Visits) -> tuple[Scalar, Metrics]:
    """Weighted cross-entropy of q(z|s)."""
    states, skills, weight = rows
    log_q = jax.nn.log_softmax(jax.vmap(classifier)(states))
    log_q_skill = jnp.take_along_axis(log_q, skills[:, None], axis=1)[:, 0]
    loss = -weighted_mean(weight, log_q_skill)
    accuracy = weighted_mean(weight, jnp.argmax(log_q, axis=1) == skills)
    return loss, {"classifier_loss": loss, "accuracy": accuracy}
