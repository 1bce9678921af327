"""Variational Intrinsic Control (Gregor, Rezende and Wierstra, 2016): options told apart by where they end.

    I(Z; s_T | s_0) >= E[log q(z|s_0,s_T) - log p(z|s_0)],
    r_T = log q(z|s_0,s_T) - log p(z),   r_t = 0 before                                           (its Algorithm 1)

q(z|s_0,s_T) is a classifier fitted by maximum likelihood to the first and last states of the episodes. The prior is
learned too, by policy gradient on the same return,

    dl = (r_T - b) d log softmax(l)_z / dl + w dH(softmax(l)) / dl,      b a running mean of r_T,

and may drop skills that cannot yet be told apart, so that they never get the practice they lack (the collapse that
DIAYN reports). ``effective_skills`` = exp(H(p)) shows it; ``learn_prior=False`` fixes p(z) uniform.

Departs from the paper:
- The prior does not depend on s_0, because worlds here have one region to start from; the paper's has p(z|s_0).
- The entropy bonus w of the prior is not in the paper: it keeps a floor under the collapse. 0 switches it off.
- An episode ends at the time limit of the world; the paper's options end by an action of their own.
- PPO takes the place of Q-learning (its experiments) and of plain policy gradient (its Algorithm 1).
- Explicit options alone: the paper's second algorithm, with implicit ones, is another method.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.reverse_mi import classifier_loss
from edl.baselines.visits import sgd
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import mlp
from edl.objective import Objective, at_the_end
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar


@config
class VICConfig:
    """Undiscounted and not bootstrapped at the time limit, for the reward is paid once, at the end."""

    num_skills: int = 10
    learn_prior: bool = True
    """Learn p(z); otherwise it is uniform."""
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    """Of the classifier."""
    epochs: int = 10
    minibatches: int = 4
    prior_learning_rate: float = 1.0
    prior_entropy_weight: float = 0.01
    baseline_rate: float = 0.1
    """Of the running mean b."""
    ppo: PPOConfig = PPOConfig(gamma=1.0, gae_lambda=0.98, bootstrap=False)


class VICState(NamedTuple):
    """q(z|s_0,s_T), the logits of p(z), and the running mean of what was paid."""

    posterior: Trained
    prior: Trained
    baseline: Scalar


def vic(env: Env, config: VICConfig) -> Program[Any, SkillPolicy]:
    """Options that a classifier can tell apart by where they began and ended, with a prior that is learned."""
    optimiser, prior_optimiser = optax.adam(config.learning_rate), optax.sgd(config.prior_learning_rate)
    codes = jnp.eye(config.num_skills)

    def init(key: Key) -> VICState:
        posterior = mlp(key, (2 * env.feature_size, *config.hidden, config.num_skills))
        prior = start(prior_optimiser, jnp.zeros(config.num_skills))
        return VICState(start(optimiser, posterior), prior, jnp.float32(0.0))

    def sample(key: Key, state: VICState) -> Skill:
        index = jax.random.categorical(key, state.prior.params).astype(jnp.int32)
        return Skill(code=codes[index], index=index)

    def reward(state: VICState, episode: Episode) -> Scalar:
        return vic_reward(state.posterior.params(ends(episode)), state.prior.params, episode.skill.index)

    def update(key: Key, state: VICState, episodes: Episode) -> tuple[VICState, Metrics]:
        skills = episodes.skill.index
        paid = jax.vmap(reward, (None, 0))(state, episodes)
        rows = (jax.vmap(ends)(episodes), skills, jnp.ones(skills.shape))
        posterior, metrics = sgd(
            key, optimiser, state.posterior, classifier_loss, rows, config.epochs, config.minibatches
        )
        weight = config.prior_entropy_weight
        moved, told = descend(prior_optimiser, state.prior, prior_loss, skills, paid - state.baseline, weight)
        baseline = state.baseline + config.baseline_rate * (jnp.mean(paid) - state.baseline)
        return VICState(posterior, moved if config.learn_prior else state.prior, baseline), metrics | told

    return ppo(env, Objective(init, sample, at_the_end(reward), update), config.ppo, codes=codes)


def ends(episode: Episode) -> Float[Array, " s2"]:
    """(s_0, s_T)."""
    return jnp.concatenate([episode.features[0], episode.last])


def vic_reward(posterior: Float[Array, " k"], prior: Float[Array, " k"], index: Int[Array, ""]) -> Scalar:
    """log q(z|s_0,s_T) - log p(z), both given by logits."""
    return jax.nn.log_softmax(posterior)[index] - jax.nn.log_softmax(prior)[index]


def prior_loss(
    logits: Float[Array, " k"], skills: Int[Array, " e"], advantages: Float[Array, " e"], weight: float | Scalar
) -> tuple[Scalar, Metrics]:
    """-E[(r_T - b) log p(z)] - w H(p); its gradient is that of the expected return."""
    log_p = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_p) * log_p)
    return -jnp.mean(advantages * log_p[skills]) - weight * entropy, {"effective_skills": jnp.exp(entropy)}
