"""CIC: contrastive intrinsic control (Laskin, Liu, Peng, Yarats, Rajeswaran and Abbeel, 2022).

    I(tau;Z) = H(tau) - H(tau|Z),        tau = (s, s')

The first term is the particle entropy of the states (`edl.baselines.batch_entropy`), in a space h(s) that the second
term shapes: noise-contrastive estimation between moves and skills, over a batch:

    f(s, s', z) = g(h(s), h(s')) . q(z) / (||g|| ||q|| T)
    c_i         = f(move i, z_i) - log 1/(N-1) sum_{j != i} exp f(move j, z_i),           L = -E[c_i]
    r(s, s', z) = log(1 + 1/k sum_{s_j in kNN(s')} ||h(s') - h(s_j)|| / scale) + beta c

z is uniform over a box, T = 0.5 and k = 16 as in the authors' code.

Departs from the authors' code:
- Their reward is the entropy alone (beta = 0), which contains no term in z: in a maze, all skills are then alike. The
  default here is the whole bound, beta = 1.
- SAC instead of DDPG, and z ~ [-1, 1]^d instead of [0, 1]^64, which are the same for a network.
- z lasts for an episode, and not for 50 steps of a longer one.
- s and s' share the network h; theirs has one for each.
- In the reward, the mean in c is over all moves of the batch, move i included.
- In the loss, f_ii is left out of the sum; theirs subtracts exp(1/T), its largest possible value.
See also `edl.baselines.batch_entropy`.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.batch_entropy import Particles, entropy_reward, no_particles, particles_of, thinned
from edl.baselines.model_fitting import Moves, moves_of, weighted_mean
from edl.baselines.skill_priors import example_box_points, sample_in_box, unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.objective import Objective, per_move
from edl.program import Program
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class CICConfig:
    """k and T are the authors'."""

    num_skills: int = 10
    """Number of example codes to evaluate."""
    skill_size: int = 16
    """Dimensions of z and of h(s)."""
    neighbours: int = 16
    """k, the number of nearest states of the batch."""
    temperature: float = 0.5
    """T, the temperature of the contrast."""
    contrast_weight: float = 1.0
    """beta, the weight of the contrast in the reward; 0 in the authors' code."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of h, g and q."""
    learning_rate: float = 1e-3
    """Learning rate of h, g and q."""
    minibatches: int = 20
    """Gradient steps of h, g and q per iteration, over the steps that SAC samples from its replay buffer."""
    sac: SACConfig = SACConfig(
        iterations=300, rollouts=20, update_every=20, objective_batch_size=2560, entropy_weight=0.03
    )
    """Settings of SAC."""


class Contrast(eqx.Module):
    """h(s), g(h(s), h(s')) and q(z)."""

    embed: MLP
    move: MLP
    skill: MLP

    def moves(self, before: Float[Array, "n s"], after: Float[Array, "n s"]) -> Float[Array, "n d"]:
        """g(h(s), h(s')), scaled to unit length."""
        pairs = jnp.concatenate([jax.vmap(self.embed)(before), jax.vmap(self.embed)(after)], axis=1)
        return jax.vmap(unit_vector)(jax.vmap(self.move)(pairs))

    def skills(self, codes: Float[Array, "n z"]) -> Float[Array, "n d"]:
        """q(z), scaled to unit length."""
        return jax.vmap(unit_vector)(jax.vmap(self.skill)(codes))


class CICState(NamedTuple):
    """The networks; the particles and the moves of the batch whose rewards are computed (otherwise none)."""

    trained: Trained
    particles: Particles
    moves: Float[Array, "p d"]


def cic(env: Env, config: CICConfig) -> Program[Any, SkillPolicy]:
    """Train skills that visit states far from each other, in a space that tells skills apart."""
    optimiser, size = optax.flatten(optax.adam(config.learning_rate)), config.skill_size

    def init(key: Key) -> CICState:
        embed_key, move_key, skill_key = jax.random.split(key, 3)
        contrast = Contrast(
            embed=mlp(embed_key, (env.feature_size, *config.hidden, size)),
            move=mlp(move_key, (2 * size, *config.hidden, size)),
            skill=mlp(skill_key, (size, *config.hidden, size)),
        )
        return CICState(new_trained(optimiser, contrast), no_particles(size), jnp.zeros((0, size)))

    def see_batch(state: CICState, episodes: Episode) -> CICState:
        params, rows = state.trained.params, thinned(moves_of(episodes))
        return CICState(state.trained, particles_of(params.embed, episodes), params.moves(rows.before, rows.after))

    def reward(state: CICState, before: Float[Array, " s"], after: Float[Array, " s"], skill: Skill) -> Scalar:
        params = state.trained.params
        entropy = entropy_reward(params.embed(after), state.particles, config.neighbours)
        move, code = params.moves(before[None], after[None])[0], params.skills(skill.code[None])[0]
        return entropy + config.contrast_weight * identification(move, code, state, config.temperature)

    def loss(params: Contrast, rows: Moves) -> tuple[Scalar, Metrics]:
        moves, skills = params.moves(rows.before, rows.after), params.skills(rows.code)
        return noise_contrast(skills @ moves.T / config.temperature, rows.weight)

    def update(key: Key, state: CICState, episodes: Episode) -> tuple[CICState, Metrics]:
        trained, metrics = sgd(key, optimiser, state.trained, loss, moves_of(episodes), 1, config.minibatches)
        return CICState(trained, no_particles(size), jnp.zeros((0, size))), metrics

    objective = Objective(
        init,
        sample=lambda key, state: sample_in_box(key, size),
        reward=per_move(reward),
        update=update,
        before_rewards=see_batch,
    )
    return sac(env, objective, config.sac, codes=example_box_points(config.num_skills, size))


def identification(
    move: Float[Array, " d"], code: Float[Array, " d"], state: CICState, temperature: float | Scalar
) -> Scalar:
    """c of the module docstring for one move: how much better it fits its skill than the moves of the batch do."""
    others = jnp.where(state.particles.real, state.moves @ code / temperature, -jnp.inf)
    count = jnp.maximum(jnp.sum(state.particles.real), 1)
    return move @ code / temperature - jax.nn.logsumexp(others) + jnp.log(count)


def noise_contrast(similarities: Float[Array, "n n"], weight: Float[Array, " n"]) -> tuple[Scalar, Metrics]:
    """-E[f_ii - log mean_{j != i} exp f_ij] over the rows with a weight. ``identified``: how often f_ii is largest."""
    others = jnp.where(jnp.eye(weight.shape[0], dtype=bool) | (weight == 0), -jnp.inf, similarities)
    against = jax.nn.logsumexp(others, axis=1) - jnp.log(jnp.maximum(jnp.sum(weight) - 1, 1.0))
    bound = weighted_mean(weight, jnp.diagonal(similarities) - against)
    largest = jnp.diagonal(similarities) >= jnp.max(others, axis=1)
    return -bound, {"bound": bound, "identified": weighted_mean(weight, largest)}
