"""VALOR: Variational Autoencoding Learning of Options by Reinforcement (Achiam, Edwards, Amodei and Abbeel, 2018).

    max E_c E_tau [log P_D(c|tau)] + beta H(pi),      r_T = log P_D(c|tau),   r_t = 0 before          (its Eq. 1)

The decoder P_D reads a whole trajectory: N + 1 = 11 states at equal distances in time, and of these the N differences,
so that a skill is a way of moving rather than a place. It is a bidirectional recurrent network whose outputs are
averaged over time, and learns from the last batch alone. The number of contexts grows by a curriculum,

    K <- min(int(1.5 K + 1), K_max)   whenever   E[P_D(c|tau)] >= 0.86,

measured on episodes that the decoder has not yet learned from.

Departs from the paper:
- P_D is over the K contexts in use: those to come neither share in its probability nor learn that they never occur.
- The embedding of c is the first layer of the policy, whose input is one-hot: the same parameters, under one optimiser.
- PPO takes the place of vanilla policy gradient, and beta weighs the entropy per dimension of the Beta policy.
- Recalled from the paper, not checked against code, for none is public: the cell (an LSTM of 64), the mean over time.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.baselines.visits import sgd
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, start
from edl.nets.mlp import MLP, mlp
from edl.nets.recurrent import Bidirectional, bidirectional
from edl.objective import Objective, at_the_end
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar


@config
class VALORConfig:
    """beta and the curriculum are the paper's; PPO is ours."""

    num_skills: int = 10
    """K_max."""
    first_skills: int = 2
    """K at the start; ``num_skills`` or more switches the curriculum off."""
    threshold: float = 0.86
    """How well the decoder has to know the contexts in use before there are more."""
    segments: int = 10
    """N, the differences that the decoder reads of a trajectory."""
    hidden_size: int = 64
    learning_rate: float = 1e-3
    """Of the decoder."""
    epochs: int = 10
    minibatches: int = 4
    ppo: PPOConfig = PPOConfig(gae_lambda=0.98, bootstrap=False, entropy_weight=1e-3)


class Decoder(eqx.Module):
    """P_D(c|tau), as logits over K_max contexts."""

    reader: Bidirectional
    last: MLP

    def __call__(self, differences: Float[Array, "n s"]) -> Float[Array, " k"]:
        """One trajectory."""
        return self.last(jnp.mean(self.reader(differences), axis=0))


class VALORState(NamedTuple):
    """The decoder, and the number of contexts in use."""

    decoder: Trained
    contexts: Int[Array, ""]


def valor(env: Env, config: VALORConfig) -> Program[Any, SkillPolicy]:
    """Skills that a recurrent network can tell apart by how they move, ever more of them."""
    optimiser = optax.adam(config.learning_rate)
    codes = jnp.eye(config.num_skills)

    def init(key: Key) -> VALORState:
        reader_key, last_key = jax.random.split(key)
        reader = bidirectional(reader_key, env.feature_size, config.hidden_size)
        decoder = Decoder(reader, mlp(last_key, (2 * config.hidden_size, config.num_skills)))
        return VALORState(start(optimiser, decoder), jnp.int32(min(config.first_skills, config.num_skills)))

    def sample(key: Key, state: VALORState) -> Skill:
        index = jax.random.randint(key, (), 0, state.contexts)
        return Skill(code=codes[index], index=index)

    def reward(state: VALORState, episode: Episode) -> Scalar:
        logits = state.decoder.params(differences(episode, config.segments))
        return log_decoder(logits, state.contexts)[episode.skill.index]

    def update(key: Key, state: VALORState, episodes: Episode) -> tuple[VALORState, Metrics]:
        log_p = jax.vmap(reward, (None, 0))(state, episodes)
        moves = jax.vmap(differences, (0, None))(episodes, config.segments)
        contexts = jnp.full(log_p.shape, state.contexts)
        rows = (moves, episodes.skill.index, contexts)
        decoder, metrics = sgd(key, optimiser, state.decoder, decoder_loss, rows, config.epochs, config.minibatches)
        known = jnp.mean(jnp.exp(log_p))
        metrics["decoder_probability"] = known
        metrics["contexts"] = state.contexts.astype(jnp.float32)
        metrics["information"] = jnp.mean(log_p) + jnp.log(metrics["contexts"])
        more = curriculum(state.contexts, known, config.threshold, config.num_skills)
        return VALORState(decoder, more), metrics

    return ppo(env, Objective(init, sample, at_the_end(reward), update), config.ppo, codes=codes)


def differences(episode: Episode, segments: int) -> Float[Array, "n s"]:
    """s_{t_{i+1}} - s_{t_i} between states at equal distances in time over the valid part of an episode."""
    times = jnp.arange(segments + 1) * episode.length // segments
    return jnp.diff(episode.features[times], axis=0)


def log_decoder(logits: Float[Array, " k"], contexts: Int[Array, ""]) -> Float[Array, " k"]:
    """log P_D(.|tau) over the contexts in use; -inf for those to come."""
    in_use = jnp.arange(logits.shape[0]) < contexts
    return jax.nn.log_softmax(jnp.where(in_use, logits, -jnp.inf))


def curriculum(contexts: Int[Array, ""], known: Scalar, threshold: float | Scalar, most: int) -> Int[Array, ""]:
    """K <- min(int(1.5 K + 1), K_max), once K contexts are known well enough."""
    more = jnp.minimum((3 * contexts + 2) // 2, most)
    return jnp.where(known >= threshold, jnp.maximum(more, contexts), contexts)


def decoder_loss(
    decoder: Decoder, rows: tuple[Float[Array, "e n s"], Int[Array, " e"], Int[Array, " e"]]
) -> tuple[Scalar, Metrics]:
    """-E[log P_D(c|tau)]."""
    moves, skills, contexts = rows
    log_p = jax.vmap(log_decoder)(jax.vmap(decoder)(moves), contexts)
    loss = -jnp.mean(jnp.take_along_axis(log_p, skills[:, None], axis=1))
    return loss, {"decoder_loss": loss, "accuracy": jnp.mean(jnp.argmax(log_p, axis=1) == skills)}
