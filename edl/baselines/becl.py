"""BeCL: behavior contrastive learning (Yang, Bai, Guo, Li, Zhao, Wang, Liu and Li, ICML 2023).

Two states of one skill are two views of it. Maximising their mutual information I(S1;S2) bounds I(S;Z) and also the
entropy of the states, because the negatives of the contrast push states apart:

    r(s_i) = 1/|P_i| sum_{j in P_i} exp(f(s_i) . f(s_j) / T)  /  sum_{j != i} exp(f(s_i) . f(s_j) / T)
    L_f    = -E[log r(s_i)],       P_i: the other states of the batch with the skill of s_i,  ||f|| = 1

The reward of a state depends on the batch it is in. It sees it through ``before_rewards`` of an `Objective`.

Departs from the authors' code:
- They use one positive per state, the first in the batch; we use the mean of all, which has the same expectation in r.
  Theirs minimises the mean of -log over positives, ours -log of the mean. We also leave out states equal to s_i.
- SAC instead of DDPG, and one network f instead of an encoder with a projection head.
- At most `MAX_PARTICLES` states of a batch are contrasted, so that the cost grows with the batch, not with its square.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.batch_entropy import thinned
from edl.baselines.model_fitting import Visits, visits_of, weighted_mean
from edl.baselines.skill_priors import sample_one_hot, unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class BeCLConfig:
    """T is the authors'."""

    num_skills: int = 10
    """Number of skills."""
    temperature: float = 0.5
    """T, the temperature of the contrast."""
    representation: int = 16
    """Dimensions of f(s)."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of f."""
    learning_rate: float = 1e-3
    """Learning rate of f."""
    minibatches: int = 20
    """Gradient steps of f per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, objective_batch_size=2560, entropy_weight=0.01, tau=0.01
    )
    """Settings of SAC."""


class BeCLState(NamedTuple):
    """f, and the states of the batch whose rewards are computed (otherwise none)."""

    trained: Trained
    batch: Visits


def becl(env: Env, config: BeCLConfig) -> Program[Any, SkillPolicy]:
    """Train skills whose states resemble each other and differ from those of other skills."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    no_visits = Visits(jnp.zeros((0, env.feature_size)), jnp.zeros(0, jnp.int32), jnp.zeros(0))

    def init(key: Key) -> BeCLState:
        return BeCLState(
            new_trained(optimiser, mlp(key, (env.feature_size, *config.hidden, config.representation))), no_visits
        )

    def see_batch(state: BeCLState, episodes: Episode) -> BeCLState:
        return state._replace(batch=thinned(visits_of(episodes)))

    def reward(state: BeCLState, reached: Float[Array, " s"], skill: Skill) -> Scalar:
        return contrast(state.trained.params, reached, skill.index, state.batch, config.temperature)

    def loss(params: MLP, rows: Visits) -> tuple[Scalar, Metrics]:
        found = jax.vmap(contrast, (None, 0, 0, None, None))(params, rows.states, rows.skills, rows, config.temperature)
        counted = rows.weight * (found > 0)  # a state without a positive has no loss
        mean_log = weighted_mean(counted, jnp.log(jnp.where(found > 0, found, 1.0)))
        return -mean_log, {"contrast": mean_log}

    def update(key: Key, state: BeCLState, episodes: Episode) -> tuple[BeCLState, Metrics]:
        trained, metrics = sgd(key, optimiser, state.trained, loss, visits_of(episodes), 1, config.minibatches)
        return BeCLState(trained, no_visits), metrics

    objective = Objective(
        init,
        sample=lambda key, state: sample_one_hot(key, config.num_skills),
        reward=per_visit(reward),
        update=update,
        before_rewards=see_batch,
    )
    return sac(env, objective, config.sac, codes=jnp.eye(config.num_skills))


def contrast(
    net: MLP, state: Float[Array, " s"], skill: Int[Array, ""], batch: Visits, temperature: float | Scalar
) -> Scalar:
    """r(s) of the module docstring, 0 if no other state of the batch has this skill. Equal states are one state."""
    if batch.weight.shape[0] == 0:
        return jnp.float32(0.0)
    f = jax.vmap(lambda state: unit_vector(net(state)))
    similarities = f(batch.states) @ unit_vector(net(state)) / temperature
    other = (batch.weight > 0) & jnp.any(batch.states != state, axis=1)
    positive = other & (batch.skills == skill)
    scores = jnp.exp(similarities - 1.0 / temperature)  # a similarity is at most 1
    positives = jnp.sum(positive * scores) / jnp.maximum(jnp.sum(positive), 1)
    return positives / jnp.maximum(jnp.sum(other * scores), 1e-12)
