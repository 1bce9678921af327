"""DADS: dynamics-aware unsupervised discovery of skills (Sharma, Gu, Levine, Kumar and Hausman, ICLR 2020).

    I(s'; z | s) >= E[ log q(s'|s,z) - log p(s'|s) ],       p(s'|s) ~ 1/(L+1) (q(s'|s,z) + sum_i q(s'|s,z_i)),
    r(s, s', z) = log (L+1) - log (1 + sum_i exp(log q(s'|s,z_i) - log q(s'|s,z))),     z_i ~ p(z)      (their Eq. 6)

A skill should change the state in a way that is predictable, given the skill, and unlike that of other skills. The
skill dynamics q is a mixture of Gaussians over the whitened change s' - s with a fixed deviation, fitted by maximum
likelihood to the fresh episodes of each iteration. It is a model of the world with skills for actions: to reach a goal,
plan in it (`edl.baselines.dads_planning`). Discrete skills are one-hot, and the z_i are all the others; continuous ones
are uniform over [-1,1]^d, and L of them are drawn anew in each iteration.

Departs from the authors' code in that SAC replays older episodes too, with rewards as the dynamics are now and without
importance weights (between their on-policy and off-policy variants); that the L alternatives of an iteration serve all
of its transitions; that running moments whiten s and s' - s, rather than batch normalisation; and that the policy and
q see all of s, for in a maze what a move does depends on where it is made.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.continuous import box_draw, box_skill
from edl.baselines.visits import Moves, moves, one_hot_skill, sgd
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, start
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, RunningMoments, running_moments
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

MOST = 50.0
"""Log-ratios are cut off here, as in the authors' code: a move that q cannot explain must not outweigh all others."""


@config
class DADSConfig:
    """Their mixture, entropy and discount; networks and budget are sized for minutes on two cores."""

    num_skills: int = 10
    skills: Literal["discrete", "continuous"] = "discrete"
    skill_size: int = 2
    """Dimensions of a continuous skill, of which ``num_skills`` are shown and evaluated."""
    alternatives: int = 32
    """L, where skills are continuous; otherwise all others are."""
    components: int = 4
    """Of the mixture."""
    deviation: float = 1.0
    """Of each component, in deviations of s' - s."""
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-3
    epochs: int = 4
    minibatches: int = 8
    sac: SACConfig = SACConfig(iterations=400, rollouts=20, update_every=20, normalise=True, entropy_weight=0.1)


class SkillDynamics(eqx.Module):
    """q(s'|s,z): what a step of a skill does, whatever its actions."""

    net: MLP
    states: Normaliser
    changes: Normaliser
    deviation: Scalar
    discrete: bool = eqx.field(static=True)
    """Whether skills are one-hot (or else anything in [-1,1]^d)."""

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


class Knowledge(NamedTuple):
    """The network of q, the moments of s and s' - s that whiten it, and the alternatives z_i of this iteration."""

    net: Trained
    states: RunningMoments
    changes: RunningMoments
    alternatives: Float[Array, "l z"]


def dads(env: Env, config: DADSConfig) -> Program[Any, SkillPolicy]:
    """Skills whose steps are predictable and unlike each other; the policy's model is their `SkillDynamics`."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))
    discrete, size = config.skills == "discrete", env.feature_size
    codes = jnp.eye(config.num_skills) if discrete else box_draw(config.num_skills, config.skill_size)

    def choose(key: Key, known: Knowledge | None = None) -> Skill:
        return one_hot_skill(key, config.num_skills) if discrete else box_skill(key, config.skill_size)

    def imagine(key: Key) -> Float[Array, "l z"]:
        return jax.vmap(lambda key: choose(key).code)(jax.random.split(key, config.alternatives))

    def dynamics(net: MLP, known: Knowledge) -> SkillDynamics:
        states, changes = known.states.normaliser(), known.changes.normaliser()
        return SkillDynamics(net, states, changes, jnp.asarray(config.deviation, jnp.float32), discrete)

    def init(key: Key) -> Knowledge:
        net_key, imagine_key = jax.random.split(key)
        net = mlp(net_key, (size + codes.shape[-1], *config.hidden, config.components * (size + 1)))
        return Knowledge(start(optimiser, net), running_moments(size), running_moments(size), imagine(imagine_key))

    def reward(known: Knowledge, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        others = all_others(skill.code) if discrete else known.alternatives
        candidates = jnp.concatenate([skill.code[None], others])
        q = dynamics(known.net.params, known)
        return dads_reward(jax.vmap(q.log_prob, (None, None, 0))(before, after, candidates))

    def update(key: Key, known: Knowledge, episodes: Episode) -> tuple[Knowledge, Metrics]:
        fit_key, imagine_key = jax.random.split(key)
        rows = moves(episodes)
        known = whiten(known, rows)
        net, metrics = sgd(
            fit_key,
            optimiser,
            known.net,
            lambda net, rows: dynamics_loss(dynamics(net, known), rows),
            rows,
            config.epochs,
            config.minibatches,
        )
        return known._replace(net=net, alternatives=imagine(imagine_key)), metrics

    learning = sac(env, Objective(init, choose, per_move(reward), update), config.sac, codes=codes)

    def finish(state: SACState) -> SkillPolicy:
        known: Knowledge = state.objective
        return dataclasses.replace(learning.finish(state), model=dynamics(known.net.params, known))

    return dataclasses.replace(learning, finish=finish)


def dads_reward(log_q: Float[Array, " l1"]) -> Scalar:
    """log (L+1) - log (1 + sum_i exp(log q_i - log q_0)), q_0 being that of the skill at work; at most log (L+1)."""
    ratios = jnp.clip(log_q - log_q[0], -MOST, MOST)
    return jnp.log(log_q.shape[0]) - jax.nn.logsumexp(ratios)


def all_others(code: Float[Array, " k"]) -> Float[Array, "l k"]:
    """The other one-hot codes."""
    return jax.vmap(lambda places: jnp.roll(code, places))(jnp.arange(1, code.shape[0]))


def whiten(known: Knowledge, rows: Moves) -> Knowledge:
    """Take fresh moves into the moments."""
    counts = rows.weight > 0
    changes = known.changes.update(rows.after - rows.before, counts)
    return known._replace(states=known.states.update(rows.before, counts), changes=changes)


def dynamics_loss(dynamics: SkillDynamics, rows: Moves) -> tuple[Scalar, Metrics]:
    """-log q(s'|s,z) over the moves that count."""
    log_q = jax.vmap(dynamics.log_prob)(rows.before, rows.after, rows.code)
    loss = -jnp.sum(rows.weight * log_q) / jnp.maximum(jnp.sum(rows.weight), 1.0)
    return loss, {"dynamics_loss": loss}
