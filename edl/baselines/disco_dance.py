"""DISCO-DANCE: learning to discover skills through guidance (Kim, Lee, Lee, Hwang, Park, Min and Choo, NeurIPS 2023).

DIAYN's skills stay where they are distinguishable. DISCO-DANCE selects the skill that has come farthest and lets it
guide the skills that are not distinguishable yet:

    guide        z* = argmax_z of the mean distance from the last states of z to their k nearest neighbours
    apprentices  w_z = (1 - q_z) 1{q_z <= threshold},       q_z: the mean of q(z|s_T) over the last states of z
    r(s', z)     = log q(z|s') - log p(z) - beta w_z KL( pi(.|s',z) || pi*(.|s',z*) )

Near the guide's last states, an apprentice becomes distinguishable, w_z falls to zero, and it diffuses from there by
DIAYN's reward. The guide is selected again in every round. pi* is a copy of the policy from the beginning of the round.
The reward sees both policies through ``see_learner`` of an `Objective`.

Departs from the authors' code:
- All K skills exist from the start. Theirs adds skills in every round, with the guide's weights.
- A round has a fixed number of iterations. Theirs ends when enough skills are distinguishable.
- The last states are those of replayed episodes. Theirs extends the episodes of each skill by random actions, to see
  how much space there is; here the neighbours of the last states say so.
- The guide has the largest mean over its last states; theirs has the single state that is farthest from others.
- q_z is a mean over the last states of replayed episodes of z. Theirs is q(z|s_T) of the replayed step's own episode,
  and a skill that was distinguishable when a round began is never an apprentice again.
- The KL is part of the reward of the step to s'; in theirs it is part of V(s'), set to 1 if it is at most 10, and at
  most 100. Their threshold is 0.5 and their beta starts at 1e-4; ours are 0.8 and 0.1.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.batch_entropy import thinned
from edl.baselines.model_fitting import visits_of
from edl.baselines.pick_rules import MostLikelySkill, with_pick_rule
from edl.baselines.reverse_mi import classifier_loss, reverse_reward
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode
from edl.nets.distributions import Categorical, TanhGaussian
from edl.nets.linalg import mean_nearest
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import LearnerView, Objective
from edl.program import Program
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class DiscoDanceConfig:
    """The settings of DIAYN (`edl.baselines.diayn`), and those of the guidance."""

    num_skills: int = 10
    """Number of skills."""
    round_iterations: int = 50
    """Iterations of a round. DIAYN alone learns in the first one."""
    guidance: float = 0.1
    """beta, the weight of the divergence from the guide."""
    threshold: float = 0.8
    """A skill with a larger q_z is no apprentice."""
    neighbours: int = 5
    """k, the number of neighbours of a last state."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the classifier q(z|s)."""
    learning_rate: float = 1e-3
    """Learning rate of the classifier."""
    minibatches: int = 50
    """Gradient steps of the classifier per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, objective_batch_size=6400, entropy_weight=0.1, tau=0.01
    )
    """Settings of SAC."""


class Guidance(NamedTuple):
    """The classifier, the current policy, the guide's policy and number, w_z of all skills, and the iteration."""

    classifier: Trained
    policy: SkillPolicy | None
    guide: SkillPolicy | None
    guide_index: Int[Array, ""]
    weights: Float[Array, " k"]
    iteration: Int[Array, ""]

    @property
    def params(self) -> MLP:
        """The classifier's network."""
        return self.classifier.params


def disco_dance(env: Env, config: DiscoDanceConfig) -> Program[Any, SkillPolicy]:
    """Train distinguishable skills; those that are not yet follow the one that has come farthest."""
    program = sac(env, disco_dance_objective(env, config), config.sac, codes=jnp.eye(config.num_skills))
    return with_pick_rule(program, lambda state: MostLikelySkill(state.params))


def disco_dance_objective(env: Env, config: DiscoDanceConfig) -> Objective:
    """DIAYN's reward and the divergence from the guide; the updates of the classifier, the guide and the weights."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    codes = jnp.eye(config.num_skills)

    def init(key: Key) -> Guidance:
        classifier = mlp(key, (env.feature_size, *config.hidden, config.num_skills))
        no_weights = jnp.zeros(config.num_skills)
        return Guidance(new_trained(optimiser, classifier), None, None, jnp.int32(0), no_weights, jnp.int32(0))

    def see_learner(state: Guidance, learner: LearnerView) -> Guidance:
        return state._replace(policy=learner.policy, guide=learner.policy if state.guide is None else state.guide)

    def reward(state: Guidance, episode: Episode) -> Float[Array, " t"]:
        assert state.policy is not None
        assert state.guide is not None
        policy, guide, code = state.policy, state.guide, codes[state.guide_index]

        def penalty(observation: Float[Array, " o"]) -> Scalar:
            own, guided = policy(observation, episode.skill.code), guide(observation, code)
            return action_divergence(policy.distribution, own, guided)

        index = episode.skill.index
        known = jax.vmap(lambda s: reverse_reward(state.params(s), index))(episode.features[1:])
        divergence = jax.vmap(penalty)(episode.observations[1:])
        return known - config.guidance * state.weights[index] * divergence

    def update(key: Key, state: Guidance, episodes: Episode) -> tuple[Guidance, Metrics]:
        classifier, metrics = sgd(
            key, optimiser, state.classifier, classifier_loss, visits_of(episodes), 1, config.minibatches
        )
        iteration = state.iteration + 1
        begins = iteration % config.round_iterations == 0
        farthest = farthest_skill(episodes, config.num_skills, config.neighbours)
        guide_index = jnp.where(begins, farthest, state.guide_index)
        guide = jax.tree.map(lambda new, old: jnp.where(begins, new, old), state.policy, state.guide)
        weights = apprentice_weights(classifier.params, episodes, config.num_skills, config.threshold)
        weights = jnp.where(iteration < config.round_iterations, 0.0, weights.at[guide_index].set(0.0))
        metrics |= {"guide": guide_index.astype(jnp.float32), "apprentices": jnp.sum(weights > 0).astype(jnp.float32)}
        return Guidance(classifier, state.policy, guide, guide_index, weights, iteration), metrics

    return Objective(
        init, lambda key, state: sample_one_hot(key, config.num_skills), reward, update, see_learner=see_learner
    )


def action_divergence(distribution: Any, own: Float[Array, " p"], guided: Float[Array, " p"]) -> Scalar:
    """KL(own || guided) of two action distributions; squashing does not change it."""
    if isinstance(distribution, Categorical):
        p, q = jax.nn.log_softmax(own), jax.nn.log_softmax(guided)
        return jnp.sum(jnp.exp(p) * (p - q))
    assert isinstance(distribution, TanhGaussian)
    (mean, log_std), (other_mean, other_log_std) = distribution.moments(own), distribution.moments(guided)
    ratio = jnp.exp(2 * (log_std - other_log_std))
    error = ((mean - other_mean) / jnp.exp(other_log_std)) ** 2
    return 0.5 * jnp.sum(ratio + error - 1) + jnp.sum(other_log_std - log_std)


def last_steps(episodes: Episode) -> tuple[Float[Array, "n s"], Int[Array, " n"], Float[Array, " n"]]:
    """All states that the steps reached, their skills, and 1 for the last state of an episode."""
    states, skills, _ = visits_of(episodes)
    last = (episodes.valid & (episodes.terminated | episodes.truncated)).reshape(-1).astype(jnp.float32)
    return states, skills, last


def mean_per_skill(
    values: Float[Array, " n"], skills: Int[Array, " n"], weight: Float[Array, " n"], num_skills: int
) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """The weighted mean of each skill (0 for a skill without rows), and its weight."""
    total = jnp.zeros(num_skills).at[skills].add(weight)
    return jnp.zeros(num_skills).at[skills].add(weight * values) / jnp.maximum(total, 1e-6), total


def farthest_skill(episodes: Episode, num_skills: int, neighbours: int) -> Int[Array, ""]:
    """The skill whose last states are farthest from their nearest neighbours, in standard deviations of all states."""
    states, skills, last = last_steps(episodes)
    scaled = states / jnp.maximum(jnp.std(states, axis=0), 1e-6)
    others = thinned(scaled)
    real = jnp.ones(others.shape[0], bool)
    distances = jax.vmap(lambda state: mean_nearest(state, others, real, neighbours))(scaled)
    return jnp.argmax(mean_per_skill(distances, skills, last, num_skills)[0]).astype(jnp.int32)


def apprentice_weights(
    classifier: MLP, episodes: Episode, num_skills: int, threshold: float | Scalar
) -> Float[Array, " k"]:
    """w_z = (1 - q_z) 1{q_z <= threshold}; 0 for a skill of which there is no last state."""
    states, skills, last = last_steps(episodes)
    log_q = jax.nn.log_softmax(jax.vmap(classifier)(states))
    q = jnp.exp(jnp.take_along_axis(log_q, skills[:, None], axis=1)[:, 0])
    mean, total = mean_per_skill(q, skills, last, num_skills)
    return jnp.where((mean <= threshold) & (total > 0), 1.0 - mean, 0.0)
