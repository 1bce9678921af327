"""The paper's canonical baseline for the forward form of the mutual information (its Section 2.2).

    I(S;Z) = H(S) - H(S|Z) >= E[log q(s|z)] - E[log p(s)],
    r(s, z) = log q(s|z) - log 1/K sum_i q(s|z_i)                                                   (Eq. 8 by our count)

It is a model-free variant of DADS (Sharma et al., 2020). q(s|z) is Gaussian with unit variance around a learned mean
mu(z), fitted by maximum likelihood to the states that the policy itself visits; p(s) is the average of q(s|z) over all
skills. The sum is computed as a log-sum-exp: a plain sum of exponentials underflows at a distance of 10 units from
every mean, and the reward would be infinite there.
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
class ForwardMIConfig:
    """The density model's learning rate is that of the authors' code; PPO's settings are ours."""

    num_skills: int = 10
    """Number of skills."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the density model q(s|z)."""
    learning_rate: float = 1e-2
    """Learning rate of the density model."""
    epochs: int = 4
    """Passes of the density model over the episodes of an iteration."""
    minibatches: int = 10
    """Minibatches per epoch of the density model."""
    ppo: PPOConfig = PPOConfig()
    """Settings of PPO."""


def forward_mi(env: Env, config: ForwardMIConfig) -> Program[Any, SkillPolicy]:
    """Train skills that visit states near their own mean and far from the means of the others."""
    optimiser = optax.adam(config.learning_rate)
    codes = jnp.eye(config.num_skills)

    def init(key: Key) -> Trained:
        return new_trained(optimiser, mlp(key, (config.num_skills, *config.hidden, env.feature_size)))

    def reward(state: Trained, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return forward_reward(jax.vmap(state.params)(codes), features, skill.index)

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        rows = visits_of(episodes)
        return sgd(key, optimiser, state, density_loss, rows, config.epochs, config.minibatches)

    objective = Objective(init, lambda key, state: sample_one_hot(key, config.num_skills), per_visit(reward), update)
    return ppo(env, objective, config.ppo, codes=codes)


def forward_reward(means: Float[Array, "k s"], state: Float[Array, " s"], index: Int[Array, ""]) -> Scalar:
    """log q(s|z) - log 1/K sum_i q(s|z_i): finite at any distance, at most log K."""
    log_q = -0.5 * jnp.sum((state - means) ** 2, axis=1)
    return log_q[index] - jax.nn.logsumexp(log_q) + jnp.log(means.shape[0])


def density_loss(model: MLP, rows: Visits) -> tuple[Scalar, Metrics]:
    """Weighted mean of -log q(s|z), up to a constant."""
    states, skills, weight = rows
    num_skills = model.weights[0].shape[0]
    means = jax.vmap(model)(jnp.eye(num_skills))[skills]
    errors = 0.5 * jnp.sum((states - means) ** 2, axis=1)
    loss = jnp.sum(weight * errors) / jnp.maximum(jnp.sum(weight), 1.0)
    return loss, {"density_loss": loss}
