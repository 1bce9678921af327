"""VALOR: Variational Autoencoding Learning of Options by Reinforcement (Achiam, Edwards, Amodei and Abbeel, 2018).

    max E_c E_tau [log P_D(c|tau)] + beta H(pi),      r_T = log P_D(c|tau),   r_t = 0 before          (its Eq. 1)

The decoder P_D reads a whole trajectory: the N differences between N + 1 = 11 states that are evenly spaced in time, so
that a skill is a way of moving rather than a place. It is a bidirectional recurrent network whose outputs are averaged
over time, and it is trained on the latest batch only. The number of contexts grows by a curriculum,

    K <- min(int(1.5 K + 1), K_max)   whenever   E[P_D(c|tau)] >= 0.86,

measured on episodes that the decoder has not been trained on yet.

Departs from the paper:
- P_D is over the K contexts in use: future contexts get no probability, and the decoder does not learn that they never
  occur.
- The embedding of c is the first layer of the policy, whose input is one-hot: the same parameters, with one optimiser.
- PPO replaces vanilla policy gradient, and beta weighs the entropy per dimension of the Beta policy.
- Recalled from the paper and not checked against code, because no code is public: the cell (an LSTM of 64 units) and
  the mean over time.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, new_trained, sgd
from edl.nets.recurrent import Bidirectional, bidirectional
from edl.objective import Objective, per_episode
from edl.program import Program
from edl.rl.ppo import PPOConfig, ppo
from edl.types import Key, Metrics, Scalar


@config
class VALORConfig:
    """beta and the curriculum are the paper's; PPO's other settings are ours."""

    num_skills: int = 10
    """K_max, the final number of skills."""
    first_skills: int = 2
    """K at the start. A value of at least ``num_skills`` switches the curriculum off."""
    threshold: float = 0.86
    """Mean decoder probability of the true context at which K grows."""
    segments: int = 10
    """N, the number of differences per trajectory that the decoder reads."""
    hidden_size: int = 64
    """LSTM units per direction."""
    learning_rate: float = 1e-3
    """Learning rate of the decoder."""
    epochs: int = 10
    """Passes of the decoder over the episodes of an iteration."""
    minibatches: int = 4
    """Minibatches per epoch of the decoder."""
    ppo: PPOConfig = PPOConfig(gae_lambda=0.98, bootstrap=False, entropy_weight=1e-3)
    """Settings of PPO."""


class Decoder(eqx.Module):
    """P_D(c|tau), as logits over K_max contexts."""

    reader: Bidirectional
    last: MLP

    def __call__(self, differences: Float[Array, "n s"]) -> Float[Array, " k"]:
        """Logits for one trajectory."""
        return self.last(jnp.mean(self.reader(differences), axis=0))


class DecoderRows(NamedTuple):
    """One row per episode: its differences, its skill, and the number of contexts in use."""

    differences: Float[Array, "e n s"]
    skills: Int[Array, " e"]
    contexts: Int[Array, " e"]


class VALORState(NamedTuple):
    """The decoder, and the number of contexts in use."""

    decoder: Trained
    contexts: Int[Array, ""]


def valor(env: Env, config: VALORConfig) -> Program[Any, SkillPolicy]:
    """Train a growing number of skills that a recurrent network can distinguish by how they move."""
    optimiser = optax.adam(config.learning_rate)
    codes = jnp.eye(config.num_skills)

    def init(key: Key) -> VALORState:
        reader_key, last_key = jax.random.split(key)
        reader = bidirectional(reader_key, env.feature_size, config.hidden_size)
        decoder = Decoder(reader, mlp(last_key, (2 * config.hidden_size, config.num_skills)))
        return VALORState(new_trained(optimiser, decoder), jnp.int32(min(config.first_skills, config.num_skills)))

    def sample(key: Key, state: VALORState) -> Skill:
        index = jax.random.randint(key, (), 0, state.contexts)
        return Skill(code=codes[index], index=index)

    def reward(state: VALORState, episode: Episode) -> Scalar:
        logits = state.decoder.params(differences(episode, config.segments))
        return log_decoder(logits, state.contexts)[episode.skill.index]

    def update(key: Key, state: VALORState, episodes: Episode) -> tuple[VALORState, Metrics]:
        log_p = jax.vmap(reward, (None, 0))(state, episodes)
        rows = DecoderRows(
            differences=jax.vmap(differences, (0, None))(episodes, config.segments),
            skills=episodes.skill.index,
            contexts=jnp.full(log_p.shape, state.contexts),
        )
        decoder, metrics = sgd(key, optimiser, state.decoder, decoder_loss, rows, config.epochs, config.minibatches)
        probability = jnp.mean(jnp.exp(log_p))
        metrics["decoder_probability"] = probability
        metrics["contexts"] = state.contexts.astype(jnp.float32)
        metrics["information"] = jnp.mean(log_p) + jnp.log(metrics["contexts"])
        contexts = next_num_contexts(state.contexts, probability, config.threshold, config.num_skills)
        return VALORState(decoder, contexts), metrics

    return ppo(env, Objective(init, sample, per_episode(reward), update), config.ppo, codes=codes)


def differences(episode: Episode, segments: int) -> Float[Array, "n s"]:
    """s_{t_{i+1}} - s_{t_i} for states evenly spaced in time over the valid part of an episode."""
    times = jnp.arange(segments + 1) * episode.length // segments
    return jnp.diff(episode.features[times], axis=0)


def log_decoder(logits: Float[Array, " k"], contexts: Int[Array, ""]) -> Float[Array, " k"]:
    """log P_D(.|tau) over the contexts in use; -inf for the others."""
    in_use = jnp.arange(logits.shape[0]) < contexts
    return jax.nn.log_softmax(jnp.where(in_use, logits, -jnp.inf))


def next_num_contexts(
    contexts: Int[Array, ""], probability: Scalar, threshold: float | Scalar, maximum: int
) -> Int[Array, ""]:
    """K <- min(int(1.5 K + 1), K_max) if the decoder's probability of the true context reaches the threshold."""
    more = jnp.minimum((3 * contexts + 2) // 2, maximum)
    return jnp.where(probability >= threshold, jnp.maximum(more, contexts), contexts)


def decoder_loss(decoder: Decoder, rows: DecoderRows) -> tuple[Scalar, Metrics]:
    """-E[log P_D(c|tau)]."""
    log_p = jax.vmap(log_decoder)(jax.vmap(decoder)(rows.differences), rows.contexts)
    loss = -jnp.mean(jnp.take_along_axis(log_p, rows.skills[:, None], axis=1))
    return loss, {"decoder_loss": loss, "accuracy": jnp.mean(jnp.argmax(log_p, axis=1) == rows.skills)}
