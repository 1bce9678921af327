"""DADS: dynamics-aware unsupervised discovery of skills (Sharma, Gu, Levine, Kumar and Hausman, ICLR 2020).

    I(s'; z | s) >= E[ log q(s'|s,z) - log p(s'|s) ],       p(s'|s) ~ 1/(L+1) (q(s'|s,z) + sum_i q(s'|s,z_i)),
    r(s, s', z) = log (L+1) - log (1 + sum_i exp(log q(s'|s,z_i) - log q(s'|s,z))),     z_i ~ p(z)      (their Eq. 6)

A skill should change the state in a way that is predictable given the skill, and different from other skills. The skill
dynamics q is a mixture of Gaussians with a fixed deviation over the whitened change s' - s, fitted by maximum
likelihood to the new episodes of each iteration. It is a model of the env whose actions are skills: to reach a goal,
plan with it (`edl.baselines.dads_planning`). Discrete skills are one-hot, and the z_i are all other skills. Continuous
skills are uniform over [-1,1]^d, and L alternatives z_i are drawn in each iteration.

Departs from the authors' code:
- SAC also replays older episodes, with rewards from the current dynamics and without importance weights (this is
  between their on-policy and off-policy variants).
- All transitions of an iteration share the same L alternatives.
- Running moments whiten s and s' - s, instead of batch normalisation.
- The policy and q observe all of s, because in a maze the effect of a move depends on the position.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.model_fitting import Moves, moves_of, weighted_mean
from edl.baselines.skill_priors import example_box_points, sample_in_box, sample_one_hot
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, RunningMoments, running_moments
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

MAX_LOG_RATIO = 50.0
"""Log-ratios are clipped here, as in the authors' code, so that one unlikely move does not dominate the reward."""


@config
class DADSConfig:
    """The mixture, entropy and discount are the authors'. With our networks, training takes minutes on two cores."""

    num_skills: int = 10
    """Number of skills, or of example codes to evaluate if skills are continuous."""
    skills: Literal["discrete", "continuous"] = "discrete"
    """One-hot skills, or points of [-1,1]^d."""
    skill_size: int = 2
    """Dimensions of a continuous skill."""
    alternatives: int = 32
    """L, the number of alternative skills in the reward, if skills are continuous."""
    components: int = 4
    """Number of components of the mixture q."""
    deviation: float = 1.0
    """Standard deviation of each component, in standard deviations of s' - s."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers of q."""
    learning_rate: float = 1e-3
    """Learning rate of q."""
    epochs: int = 4
    """Passes of q over the episodes of an iteration."""
    minibatches: int = 8
    """Minibatches per epoch of q."""
    sac: SACConfig = SACConfig(iterations=400, rollouts=20, update_every=20, normalise=True, entropy_weight=0.1)
    """Settings of SAC."""


class SkillDynamics(eqx.Module):
    """q(s'|s,z): the distribution of the next state when a skill acts."""

    net: MLP
    states: Normaliser
    changes: Normaliser
    deviation: Scalar
    discrete: bool = eqx.field(static=True)
    """Whether skills are one-hot. Otherwise they are points of [-1,1]^d."""

    def mixture(
        self, state: Float[Array, " s"], code: Float[Array, " z"]
    ) -> tuple[Float[Array, " c"], Float[Array, "c s"]]:
        """Log-weights and means of the components, in whitened changes."""
        out = self.net(jnp.concatenate([self.states(state), code]))
        parts = out.reshape(-1, state.shape[0] + 1)
        return jax.nn.log_softmax(parts[:, 0]), parts[:, 1:]

    def log_prob(self, before: Float[Array, " s"], after: Float[Array, " s"], code: Float[Array, " z"]) -> Scalar:
        """log q(s'|s,z), as a density of the whitened change."""
        log_weights, means = self.mixture(before, code)
        errors = (self.changes(after - before) - means) / self.deviation
        constant = before.shape[0] * (jnp.log(self.deviation) + 0.5 * jnp.log(2 * jnp.pi))
        return jax.nn.logsumexp(log_weights - 0.5 * jnp.sum(errors**2, axis=1)) - constant

    def predict(self, state: Float[Array, " s"], code: Float[Array, " z"]) -> Float[Array, " s"]:
        """E[s'|s,z]."""
        log_weights, means = self.mixture(state, code)
        return state + self.changes.inverse(jnp.exp(log_weights) @ means)


class DADSState(NamedTuple):
    """The network of q, the moments that whiten s and s' - s, and the alternatives z_i of this iteration."""

    net: Trained
    states: RunningMoments
    changes: RunningMoments
    alternatives: Float[Array, "l z"]


def dads(env: Env, config: DADSConfig) -> Program[Any, SkillPolicy]:
    """Train skills whose steps are predictable and different from each other. ``policy.model`` is a `SkillDynamics`."""
    discrete = config.skills == "discrete"
    codes = jnp.eye(config.num_skills) if discrete else example_box_points(config.num_skills, config.skill_size)
    program = sac(env, dads_objective(env, config), config.sac, codes=codes)

    def finish(state: SACState) -> SkillPolicy:
        learned: DADSState = state.objective
        return dataclasses.replace(program.finish(state), model=dynamics_of(config, learned.net.params, learned))

    return dataclasses.replace(program, finish=finish)


def dads_objective(env: Env, config: DADSConfig) -> Objective:
    """The prior over skills, the reward, and the update of the skill dynamics."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    discrete, size = config.skills == "discrete", env.feature_size
    code_size = config.num_skills if discrete else config.skill_size

    def sample(key: Key, state: DADSState | None = None) -> Skill:
        return sample_one_hot(key, config.num_skills) if discrete else sample_in_box(key, config.skill_size)

    def sample_alternatives(key: Key) -> Float[Array, "l z"]:
        return jax.vmap(lambda key: sample(key).code)(jax.random.split(key, config.alternatives))

    def init(key: Key) -> DADSState:
        net_key, alternatives_key = jax.random.split(key)
        net = mlp(net_key, (size + code_size, *config.hidden, config.components * (size + 1)))
        alternatives = sample_alternatives(alternatives_key)
        return DADSState(new_trained(optimiser, net), running_moments(size), running_moments(size), alternatives)

    def reward(state: DADSState, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        others = all_others(skill.code) if discrete else state.alternatives
        candidates = jnp.concatenate([skill.code[None], others])
        dynamics = dynamics_of(config, state.net.params, state)
        return dads_reward(jax.vmap(dynamics.log_prob, (None, None, 0))(before, after, candidates))

    def update(key: Key, state: DADSState, episodes: Episode) -> tuple[DADSState, Metrics]:
        fit_key, alternatives_key = jax.random.split(key)
        rows = moves_of(episodes)
        state = update_moments(state, rows)

        def loss(net: MLP, rows: Moves) -> tuple[Scalar, Metrics]:
            return dynamics_loss(dynamics_of(config, net, state), rows)

        net, metrics = sgd(fit_key, optimiser, state.net, loss, rows, config.epochs, config.minibatches)
        return state._replace(net=net, alternatives=sample_alternatives(alternatives_key)), metrics

    return Objective(init, sample, per_move(reward), update)


def dynamics_of(config: DADSConfig, net: MLP, state: DADSState) -> SkillDynamics:
    """The skill dynamics with this network and the moments in ``state``."""
    states, changes = state.states.normaliser(), state.changes.normaliser()
    deviation = jnp.asarray(config.deviation, jnp.float32)
    return SkillDynamics(net, states, changes, deviation, config.skills == "discrete")


def dads_reward(log_q: Float[Array, " l1"]) -> Scalar:
    """log (L+1) - log (1 + sum_i exp(log q_i - log q_0)), with q_0 of the episode's skill; at most log (L+1)."""
    ratios = jnp.clip(log_q - log_q[0], -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return jnp.log(log_q.shape[0]) - jax.nn.logsumexp(ratios)


def all_others(code: Float[Array, " k"]) -> Float[Array, "l k"]:
    """The other one-hot codes."""
    return jax.vmap(lambda places: jnp.roll(code, places))(jnp.arange(1, code.shape[0]))


def update_moments(state: DADSState, rows: Moves) -> DADSState:
    """Update the running moments of s and s' - s with new moves."""
    counts = rows.weight > 0
    changes = state.changes.update(rows.after - rows.before, counts)
    return state._replace(states=state.states.update(rows.before, counts), changes=changes)


def dynamics_loss(dynamics: SkillDynamics, rows: Moves) -> tuple[Scalar, Metrics]:
    """Weighted mean of -log q(s'|s,z)."""
    log_q = jax.vmap(dynamics.log_prob)(rows.before, rows.after, rows.code)
    loss = -weighted_mean(rows.weight, log_q)
    return loss, {"dynamics_loss": loss}
