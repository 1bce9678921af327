"""The paper's canonical baseline for the forward form of the mutual information (its Section 2.2).

    I(S;Z) = H(S) - H(S|Z) >= E[log q(s|z)] - E[log p(s)],
    r(s, z) = log q(s|z) - log 1/K sum_i q(s|z_i)                                                   (Eq. 8 by our count)

It is a model-free variant of DADS (Sharma et al., 2020). q(s|z) is Gaussian around a learned mean mu(z), fitted by
maximum likelihood to the states that the policy itself visits; p(s) is the average of q(s|z) over all skills. The paper
does not state the variance. The authors' code has log q(s|z) = -||s - mu(z)||^2 + const, i.e. a variance of 1/2.

In each iteration the means are fitted before the rewards are computed: to a batch of episodes of their own
(``separate_batch``, the authors' code), or to the episodes that train the policy. See `edl.baselines.reverse_mi`.

`ForwardMIConfig.paper` is the recipe of the authors' code. Departs from it:
- The sum is computed as a log-sum-exp. Their sum of exponentials underflows at a distance of 10 units from every mean,
  and the reward is infinite there.
- The differences that `edl.baselines.reverse_mi` and `edl.rl.ppo` list.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.model_fitting import Visits, visits_of, weighted_mean
from edl.baselines.pick_rules import NearestMean, with_pick_rule
from edl.baselines.skill_priors import sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, RunningMoments, running_moments
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.ppo import PPOConfig, paper_ppo, ppo
from edl.types import Key, Metrics, Scalar


@config
class ForwardMIConfig:
    """The model's size, learning rate, variance and minibatches are the authors'; PPO's settings are ours.

    ``ppo.initialisation`` and ``ppo.normalise`` also apply to the model, as in the authors' code: its output is then a
    state in units of the running moments.
    """

    num_skills: int = 10
    """Number of skills."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of mu(z), the mean of q(s|z)."""
    variance: float = 0.5
    """Variance of q(s|z) in each dimension."""
    learning_rate: float = 1e-3
    """Learning rate of mu(z)."""
    adam_epsilon: float = 1e-8
    """Epsilon of Adam for mu(z)."""
    epochs: int = 4
    """Passes of mu(z) over the episodes of an iteration."""
    minibatches: int = 10
    """Minibatches per epoch of mu(z)."""
    separate_batch: bool = False
    """Fit mu(z) to a second batch of episodes, as the authors do, and not to the one that trains the policy."""
    ppo: PPOConfig = PPOConfig()
    """Settings of PPO."""

    @classmethod
    def paper(cls, env: str) -> "ForwardMIConfig":
        """The recipe of the authors' code in the env of this name: 2 x 50 episodes per iteration, 12.5M steps."""
        return cls(adam_epsilon=1e-3, separate_batch=True, ppo=paper_ppo(env))


class ForwardMIState(NamedTuple):
    """mu(z) in units of the moments of the states it was fitted to (of none, if states are not normalised)."""

    model: Trained
    moments: RunningMoments

    @property
    def means(self) -> Float[Array, "k s"]:
        """mu(z) of every skill."""
        return skill_means(self.model.params, self.moments.normaliser())


def forward_mi(env: Env, config: ForwardMIConfig) -> Program[Any, SkillPolicy]:
    """Train skills that visit states near their own mean and far from the means of the others."""
    program = ppo(env, forward_mi_objective(env, config), config.ppo, codes=jnp.eye(config.num_skills))
    return with_pick_rule(program, lambda state: NearestMean(state.means))


def forward_mi_objective(env: Env, config: ForwardMIConfig) -> Objective:
    """r(s, z) = log q(s|z) - log 1/K sum_i q(s|z_i), and the means of q(s|z)."""
    optimiser = optax.adam(config.learning_rate, eps=config.adam_epsilon)

    def init(key: Key) -> ForwardMIState:
        sizes = (config.num_skills, *config.hidden, env.feature_size)
        model = mlp(key, sizes, initialisation=config.ppo.initialisation)
        return ForwardMIState(new_trained(optimiser, model), running_moments(env.feature_size))

    def reward(state: ForwardMIState, features: Float[Array, " s"], skill: Skill) -> Scalar:
        return forward_reward(state.means, features, skill.index, config.variance)

    def update(key: Key, state: ForwardMIState, episodes: Episode) -> tuple[ForwardMIState, Metrics]:
        rows, moments = visits_of(episodes), state.moments
        if config.ppo.normalise:
            moments = moments.update(rows.states, rows.weight > 0)
        normaliser = moments.normaliser()

        def loss(model: MLP, rows: Visits) -> tuple[Scalar, Metrics]:
            return density_loss(skill_means(model, normaliser), rows, config.variance)

        model, metrics = sgd(key, optimiser, state.model, loss, rows, config.epochs, config.minibatches)
        return ForwardMIState(model, moments), metrics

    return Objective(
        init,
        sample=lambda key, state: sample_one_hot(key, config.num_skills),
        reward=per_visit(reward),
        update=update,
        learns="separately" if config.separate_batch else "before",
        needs="steps",
    )


def skill_means(model: MLP, normaliser: Normaliser) -> Float[Array, "k s"]:
    """mu(z) of every skill."""
    return jax.vmap(lambda code: normaliser.inverse(model(code)))(jnp.eye(model.input_size))


def log_density(means: Float[Array, "k s"], state: Float[Array, " s"], variance: float | Scalar) -> Float[Array, " k"]:
    """log q(s|z) of every skill, up to a constant that is the same for all."""
    return -jnp.sum((state - means) ** 2, axis=-1) / (2 * variance)


def forward_reward(
    means: Float[Array, "k s"], state: Float[Array, " s"], index: Int[Array, ""], variance: float | Scalar = 0.5
) -> Scalar:
    """log q(s|z) - log 1/K sum_i q(s|z_i): finite at any distance, at most log K."""
    log_q = log_density(means, state, variance)
    return log_q[index] - jax.nn.logsumexp(log_q) + jnp.log(means.shape[0])


def density_loss(means: Float[Array, "k s"], rows: Visits, variance: float | Scalar) -> tuple[Scalar, Metrics]:
    """Weighted mean of -log q(s|z), up to a constant."""
    log_q = jax.vmap(log_density, (None, 0, None))(means, rows.states, variance)
    log_q_skill = jnp.take_along_axis(log_q, rows.skills[:, None], axis=1)[:, 0]
    loss = -weighted_mean(rows.weight, log_q_skill)
    return loss, {"density_loss": loss}
