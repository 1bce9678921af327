"""Variational Intrinsic Control (Gregor, Rezende and Wierstra, 2016): skills that differ in where they end.

    I(Z; s_T | s_0) >= E[log q(z|s_0,s_T) - log p(z|s_0)],
    r_T = log q(z|s_0,s_T) - log p(z),   r_t = 0 before                                           (its Algorithm 1)

q(z|s_0,s_T) is a classifier fitted by maximum likelihood to the first and last states of the episodes. The prior is
learned too, by policy gradient on the same return,

    dl = (r_T - b) d log softmax(l)_z / dl + w dH(softmax(l)) / dl,      b a running mean of r_T.

The prior can drop skills that the classifier cannot yet distinguish; these skills are then not trained any more (the
collapse that DIAYN reports). ``effective_skills`` = exp(H(p)) shows it; ``learn_prior=False`` keeps p(z) uniform.

Departs from the paper:
- The prior does not depend on s_0, because our envs have one start region; the paper has p(z|s_0).
- The entropy bonus w of the prior is not in the paper: it limits the collapse. w = 0 switches it off.
- An episode ends at the env's time limit; in the paper, an action ends the option.
- PPO replaces Q-learning (its experiments) and plain policy gradient (its Algorithm 1).
- Explicit options only: the paper's second algorithm, with implicit options, is another method.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule, SkillPolicy
from edl.baselines.goal_skills import start_states
from edl.baselines.model_fitting import Visits
from edl.baselines.pick_rules import NUM_STARTS, with_pick_rule
from edl.baselines.reverse_mi import classifier_loss
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, gradient_step, new_trained, sgd
from edl.objective import Objective, per_episode
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar


@config
class VICConfig:
    """No discount and no bootstrap at the time limit, because the only reward comes at the end of the episode."""

    num_skills: int = 10
    """Number of skills."""
    learn_prior: bool = True
    """Learn p(z). Without it, p(z) is uniform."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the classifier q(z|s_0,s_T)."""
    learning_rate: float = 1e-3
    """Learning rate of the classifier."""
    epochs: int = 10
    """Passes of the classifier over the episodes of an iteration."""
    minibatches: int = 4
    """Minibatches per epoch of the classifier."""
    prior_learning_rate: float = 1.0
    """Learning rate of the prior's logits."""
    prior_entropy_weight: float = 0.01
    """w, the weight of the prior's entropy bonus."""
    baseline_rate: float = 0.1
    """Update rate of the running mean b."""
    ppo: PPOConfig = PPOConfig(gamma=1.0, gae_lambda=0.98, bootstrap=False)
    """Settings of PPO."""


class VICState(NamedTuple):
    """q(z|s_0,s_T), the logits of p(z), and the running mean of the reward."""

    posterior: Trained
    prior: Trained
    baseline: Scalar


class MostLikelyEnd(PickRule):
    """argmax_z mean_{s_0} q(z|s_0,x), over example start states."""

    classifier: MLP
    starts: Float[Array, "n s"]
    rule: ClassVar[str] = "argmax_z q(z|s_0,x)"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""]:
        logits = jax.vmap(lambda start: self.classifier(jnp.concatenate([start, target])))(self.starts)
        return jnp.argmax(jnp.mean(jax.nn.softmax(logits), axis=0))


def vic(env: Env, config: VICConfig) -> Program[Any, SkillPolicy]:
    """Train skills that a classifier can distinguish by their first and last states, and the prior over them."""
    optimiser, prior_optimiser = optax.adam(config.learning_rate), optax.sgd(config.prior_learning_rate)
    codes = jnp.eye(config.num_skills)

    def init(key: Key) -> VICState:
        posterior = mlp(key, (2 * env.feature_size, *config.hidden, config.num_skills))
        prior = new_trained(prior_optimiser, jnp.zeros(config.num_skills))
        return VICState(new_trained(optimiser, posterior), prior, jnp.float32(0.0))

    def sample(key: Key, state: VICState) -> Skill:
        index = jax.random.categorical(key, state.prior.params).astype(jnp.int32)
        return Skill(code=codes[index], index=index)

    def reward(state: VICState, episode: Episode) -> Scalar:
        return vic_reward(state.posterior.params(first_and_last(episode)), state.prior.params, episode.skill.index)

    def update(key: Key, state: VICState, episodes: Episode) -> tuple[VICState, Metrics]:
        skills = episodes.skill.index
        rewards = jax.vmap(reward, (None, 0))(state, episodes)
        rows = Visits(jax.vmap(first_and_last)(episodes), skills, jnp.ones(skills.shape))
        posterior, metrics = sgd(
            key, optimiser, state.posterior, classifier_loss, rows, config.epochs, config.minibatches
        )
        weight = config.prior_entropy_weight
        prior, prior_metrics = gradient_step(
            prior_optimiser, state.prior, prior_loss, skills, rewards - state.baseline, weight
        )
        baseline = state.baseline + config.baseline_rate * (jnp.mean(rewards) - state.baseline)
        return VICState(posterior, prior if config.learn_prior else state.prior, baseline), metrics | prior_metrics

    def rule_of(state: VICState) -> MostLikelyEnd:
        return MostLikelyEnd(state.posterior.params, start_states(jax.random.key(0), env, NUM_STARTS))

    program = ppo(env, Objective(init, sample, per_episode(reward), update), config.ppo, codes=codes)
    return with_pick_rule(program, rule_of)


def first_and_last(episode: Episode) -> Float[Array, " s2"]:
    """(s_0, s_T)."""
    return jnp.concatenate([episode.features[0], episode.last])


def vic_reward(posterior: Float[Array, " k"], prior: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log q(z|s_0,s_T) - log p(z). ``posterior`` and ``prior`` are logits."""
    return jax.nn.log_softmax(posterior)[index] - jax.nn.log_softmax(prior)[index]


def prior_loss(
    logits: Float[Array, " k"], skills: Int[Array, " e"], advantages: Float[Array, " e"], weight: float | Scalar
) -> tuple[Scalar, Metrics]:
    """-E[(r_T - b) log p(z)] - w H(p), whose gradient is that of the expected return."""
    log_p = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_p) * log_p)
    return -jnp.mean(advantages * log_p[skills]) - weight * entropy, {"effective_skills": jnp.exp(entropy)}
