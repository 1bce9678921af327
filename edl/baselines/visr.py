"""VISR (Hansen et al., 2020): skills that are tasks w, paid for features that tell them, r = phi(s) . w.

The skill is a direction w, uniform on the unit sphere of R^d, and q(w|s) is von Mises-Fisher around phi(s):

    log q(w|s) = kappa phi(s) . w + const,  ||phi(s)|| = ||w|| = 1;     L_phi = -E[phi(s) . w],     r(s, w) = phi(s) . w

(kappa only scales the reward: 1). As the reward is linear in w, the critics learn successor features psi(s,w,a), by
which the policy of one task can be valued at another, and the policy for w is improved upon the best of several
policies z_j around w (generalised policy improvement). That also gives task inference: once a reward is known in some
states, w = argmin sum_i (phi(s_i) . w - r_i)^2, scaled to unit length, is the skill to play (`infer_task`).

Departs from the paper, which learns psi by Q-learning over the discrete actions of Atari and acts by GPI itself: here
psi belongs to the critics of SAC, and GPI improves an actor (`edl.rl.successor`), because no maximum over actions can
be taken where they are continuous, and because skills are then a policy pi(a|s,w) like those of all other methods. The
z_j are unit vectors along w + c u, u uniform on the sphere, in place of von Mises-Fisher draws around w: also symmetric
around w, and had for nothing by taking for u the tasks of other rows of the batch. phi learns from replayed steps. The
K skills to be known by are spread evenly over the sphere.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.goals import medoids
from edl.baselines.visits import Moves, moves, sgd
from edl.config import ConfigError, config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, start
from edl.nets.mlp import MLP, mlp
from edl.objective import Linear, Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

DIRECTIONS = 2048
"""Of which the K skills are chosen."""


@config
class VISRConfig:
    """d = 5 as in the paper."""

    num_skills: int = 10
    dimensions: int = 5
    """d, of phi(s) and w."""
    policies: int = 2
    """Policies around w, besides its own, that GPI compares; the paper has 10."""
    around: float = 0.5
    """c: how far around."""
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    epochs: int = 1
    minibatches: int = 16
    """Of the steps that are recalled in an iteration, for phi."""
    sac: SACConfig = SACConfig(
        iterations=400, rollouts=20, update_every=20, recall=4096, gamma=0.95, tau=0.01, entropy_weight=0.1
    )


def visr(env: Env, config: VISRConfig) -> Program[Any, SkillPolicy]:
    """Skills for all tasks that are linear in what can be controlled; ``policy.model`` is phi, for `infer_task`."""
    program = sac(env, visr_objective(env, config), config.sac, codes=directions(config.num_skills, config.dimensions))

    def finish(state: SACState) -> SkillPolicy:
        return dataclasses.replace(program.finish(state), model=state.objective.params)

    return dataclasses.replace(program, finish=finish)


def visr_objective(env: Env, config: VISRConfig) -> Objective:
    """w uniform on the sphere, r = phi(s) . w, and how phi is fitted."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))

    def init(key: Key) -> Trained:
        return start(optimiser, mlp(key, (env.feature_size, *config.hidden, config.dimensions)))

    def choose(key: Key, state: Trained) -> Skill:
        return Skill(code=unit(jax.random.normal(key, (config.dimensions,))), index=jnp.int32(-1))

    def reward(state: Trained, reached: Float[Array, " s"], skill: Skill) -> Scalar:
        return jnp.dot(phi(state.params, reached), skill.code)

    def cumulants(state: Trained, episode: Episode) -> Float[Array, "t d"]:
        return jax.vmap(phi, (None, 0))(state.params, episode.features[1:])

    def update(key: Key, state: Trained, episodes: Episode) -> tuple[Trained, Metrics]:
        return sgd(key, optimiser, state, posterior_loss, moves(episodes), config.epochs, config.minibatches)

    linear = Linear(cumulants, lambda codes: neighbours(codes, config.policies, config.around))
    return Objective(init, choose, per_visit(reward), update, linear=linear)


def unit(x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """x / ||x||."""
    return x * jax.lax.rsqrt(jnp.sum(x**2, axis=-1, keepdims=True) + 1e-12)


def phi(features: MLP, state: Float[Array, " s"]) -> Float[Array, " d"]:
    """The mean direction of q(w|s), a unit vector."""
    return unit(features(state))


def posterior_loss(features: MLP, rows: Moves) -> tuple[Scalar, Metrics]:
    """-log q(w|s) up to constants, -phi(s) . w, over the states that were reached."""
    told = jnp.sum(jax.vmap(phi, (None, 0))(features, rows.after) * rows.code, axis=1)
    value = jnp.sum(rows.weight * told) / jnp.maximum(jnp.sum(rows.weight), 1.0)
    return -value, {"told": value}


def neighbours(codes: Float[Array, "n d"], num: int, around: float | Scalar) -> Float[Array, "g n d"]:
    """Tasks around each task: w + c u, scaled to unit length, u being the task of another row."""
    return jnp.stack([unit(codes + around * jnp.roll(codes, i + 1, axis=0)) for i in range(num)])


def directions(num: int, dimensions: int) -> Float[Array, "k d"]:
    """Unit vectors all over the sphere; always the same."""
    drawn = unit(jax.random.normal(jax.random.key(0), (max(DIRECTIONS, num), dimensions)))
    return medoids(drawn, num)


def infer_task(policy: SkillPolicy, states: Float[Array, "n s"], rewards: Float[Array, " n"]) -> Float[Array, " d"]:
    """The code w whose reward phi(s) . w fits a reward best: argmin sum_i (phi(s_i) . w - r_i)^2, to unit length."""
    features = policy.model
    if features is None:
        raise ConfigError("this policy has no phi: that of VISR is wanted. Train with `edl baseline visr`.")
    return unit(jnp.linalg.lstsq(jax.vmap(phi, (None, 0))(features, states), rewards)[0])
