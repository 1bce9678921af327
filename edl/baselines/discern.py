"""DISCERN (Warde-Farley et al., 2019): reach goals, as judged by a similarity that learns to tell goals from decoys.

The skill is a goal g from a buffer of visited states. I(S_T;G) >= H(G) + E[log q(g|s_T)] with a non-parametric q, the
chance of picking the goal among K decoys d_k of the same buffer by its similarity to where the episode ended:

    log q(g | s_T, d_1 .. d_K) = log exp(beta l_g) / (exp(beta l_g) + sum_k exp(beta l_{d_k})),   l_x = xi(s_T) . xi(x),
    r_T = max(0, l_g), and 0 before T,

with unit vectors xi(.) and beta = K + 1. The embedding xi is trained to raise log q. The reward is the similarity
itself, clipped, and not log q, which is never positive: clipped that would be nothing. A share of the steps is replayed
in hindsight, with the goal of having gone where their episode did go later.

Goals are to be diverse: a visited state takes the place of a random member of the buffer if it is farther from the
others on average than that member is, and otherwise with a small probability.

Departs from the paper: SAC in place of distributed Q-learning on pixels, because actions are continuous here. Time is
not observed, and so the value is that of an end that may come at any step. The buffer starts with start states in place
of a random policy's, and states are proposed much more often (a run has 10^5 steps instead of 10^9). xi too sees the
share of hindsight, without which it has nothing to go by before the policy has learned.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.goals import goal_metrics, goal_skill, starts, with_goals
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import MLP, mlp
from edl.objective import Objective
from edl.program import Program
from edl.rl.replay import Replay, add, blank_replay, read, sample
from edl.rl.sac import SACConfig, sac
from edl.types import Key, Metrics, Scalar


@config
class DiscernConfig:
    """Hindsight and the number of goals follow the paper; the rest is fitted to small worlds."""

    num_skills: int = 10
    num_goals: int = 1024
    """Size of the goal buffer."""
    proposals: int = 16
    """Visited states that are proposed as goals in an iteration."""
    admit: float = 1e-3
    """Probability with which a proposal that is not diverse is taken all the same."""
    decoys: int = 10
    """K."""
    hindsight: float = 0.25
    embedding: int = 8
    """Dimensions of xi."""
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 1e-3
    gradient_steps: int = 16
    """Of xi, in an iteration."""
    batch_size: int = 128
    memory: int = 1024
    """Ends of episodes, the last so many, that xi learns from."""
    sac: SACConfig = SACConfig(
        iterations=400,
        rollouts=20,
        update_every=20,
        batch_size=256,
        bootstrap=False,
        gamma=0.98,
        tau=0.01,
        entropy_weight=0.001,
    )


class Ends(NamedTuple):
    """Where episodes ended, and where they were to end."""

    last: Float[Array, "n s"]
    goal: Float[Array, "n s"]


class Discernment(NamedTuple):
    """The embedding xi, the goal buffer, and what xi learns from."""

    embedding: Trained
    goals: Float[Array, "m s"]
    ends: Replay


def discern(env: Env, config: DiscernConfig) -> Program[Any, SkillPolicy]:
    """Goals that are diverse, and a policy that reaches them in the ways that can be controlled."""
    program = sac(env, discern_objective(env, config), config.sac, codes=jnp.zeros((1, env.feature_size)))
    return with_goals(program, lambda state: state.goals, config.num_skills)


def discern_objective(env: Env, config: DiscernConfig) -> Objective:
    """The goal buffer, the similarity at the end, and hindsight."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))

    def init(key: Key) -> Discernment:
        goal_key, embedding_key = jax.random.split(key)
        embedding = mlp(embedding_key, (env.feature_size, *config.hidden, config.embedding))
        goals = starts(goal_key, env, config.num_goals)
        return Discernment(start(optimiser, embedding), goals, blank_replay(Ends(goals, goals), config.memory))

    def choose(key: Key, state: Discernment) -> Skill:
        return goal_skill(state.goals[jax.random.randint(key, (), 0, config.num_goals)])

    def reward(state: Discernment, episode: Episode) -> Float[Array, " t"]:
        return end_reward(state.embedding.params, episode)

    def relabel(key: Key, state: Discernment, step: Episode, later: Float[Array, " s"]) -> Skill:
        return goal_skill(jnp.where(jax.random.uniform(key) < config.hindsight, later, step.skill.code))

    def update(key: Key, state: Discernment, episodes: Episode) -> tuple[Discernment, Metrics]:
        goal_key, learn_key = jax.random.split(key)
        fresh = Ends(jax.vmap(lambda episode: episode.last)(episodes), episodes.skill.code)
        ends = add(state.ends, fresh, jnp.ones(fresh.last.shape[0], bool))
        goals = diversify(goal_key, state.goals, episodes, config)
        rows = draw_rows(learn_key, ends, goals, config)
        embedding, metrics = jax.lax.scan(
            lambda trained, batch: descend(optimiser, trained, discern_loss, *batch), state.embedding, rows
        )
        metrics = {**jax.tree.map(jnp.mean, metrics), "goal_spread": spread(goals), **goal_metrics(episodes)}
        return Discernment(embedding, goals, ends), metrics

    return Objective(init, choose, reward, update, relabel=relabel)


def embed(embedding: MLP, state: Float[Array, " s"]) -> Float[Array, " d"]:
    """xi(s), a unit vector."""
    x = embedding(state)
    return x * jax.lax.rsqrt(jnp.sum(x**2) + 1e-12)


def similarity(embedding: MLP, state: Float[Array, " s"], goal: Float[Array, " s"]) -> Scalar:
    """l_g = xi(s) . xi(g), at most 1."""
    return jnp.dot(embed(embedding, state), embed(embedding, goal))


def end_reward(embedding: MLP, episode: Episode) -> Float[Array, " t"]:
    """max(0, l_g) where the episode ends, and 0 before; for whole episodes and for single steps of them alike."""
    reached = jax.vmap(similarity, (None, 0, None))(embedding, episode.features[1:], episode.skill.code)
    return jnp.where(episode.terminated | episode.truncated, jnp.maximum(reached, 0.0), 0.0)


def discern_loss(embedding: MLP, ends: Ends, decoys: Float[Array, "n k s"]) -> tuple[Scalar, Metrics]:
    """-log q(g | s_T, decoys), and how often the goal is picked."""
    options = jnp.concatenate([ends.goal[:, None], decoys], axis=1)
    embedded = jax.vmap(jax.vmap(embed, (None, 0)), (None, 0))(embedding, options)
    similarities = jnp.einsum("ncd,nd->nc", embedded, jax.vmap(embed, (None, 0))(embedding, ends.last))
    logits = options.shape[1] * similarities  # beta = K + 1, the number of options
    loss = -jnp.mean(jax.nn.log_softmax(logits)[:, 0])
    return loss, {"discern_loss": loss, "discerned": jnp.mean(jnp.argmax(logits, axis=1) == 0)}


def draw_rows(
    key: Key, ends: Replay, goals: Float[Array, "m s"], config: DiscernConfig
) -> tuple[Ends, Float[Array, "g n k s"]]:
    """Batches for xi, with decoys from the buffer; a share of the ends are given themselves as goals."""
    row_key, hindsight_key, decoy_key = jax.random.split(key, 3)
    shape = (config.gradient_steps, config.batch_size)
    rows: Ends = read(ends, sample(row_key, ends, shape))
    swapped = jax.random.uniform(hindsight_key, (*shape, 1)) < config.hindsight
    decoys = goals[jax.random.randint(decoy_key, (*shape, config.decoys), 0, goals.shape[0])]
    return Ends(rows.last, jnp.where(swapped, rows.last, rows.goal)), decoys


def diversify(key: Key, goals: Float[Array, "m s"], episodes: Episode, config: DiscernConfig) -> Float[Array, "m s"]:
    """The goal buffer after some visited states were proposed to it."""
    episode_key, time_key, turn_key = jax.random.split(key, 3)
    count, horizon = episodes.valid.shape
    which = jax.random.randint(episode_key, (config.proposals,), 0, count)
    lengths = jnp.sum(episodes.valid, axis=1)[which]
    times = 1 + jnp.floor(jax.random.uniform(time_key, (config.proposals,)) * lengths).astype(jnp.int32)
    proposals = episodes.features[which, jnp.minimum(times, horizon)]

    def turn(goals: Float[Array, "m s"], at: tuple[Key, Float[Array, " s"]]) -> tuple[Float[Array, "m s"], None]:
        return propose(at[0], goals, at[1], config.admit), None

    return jax.lax.scan(turn, goals, (jax.random.split(turn_key, config.proposals), proposals))[0]


def propose(
    key: Key, goals: Float[Array, "m s"], proposal: Float[Array, " s"], admit: float | Scalar
) -> Float[Array, "m s"]:
    """Put ``proposal`` in the place of a random goal, if its mean distance to the others is greater; or by chance."""
    row_key, chance_key = jax.random.split(key)
    row = jax.random.randint(row_key, (), 0, goals.shape[0])
    others = jnp.arange(goals.shape[0]) != row

    def away(state: Float[Array, " s"]) -> Scalar:
        return jnp.sum(jnp.where(others, jnp.linalg.norm(goals - state, axis=1), 0.0))

    taken = (away(proposal) > away(goals[row])) | (jax.random.uniform(chance_key) < admit)
    return goals.at[row].set(jnp.where(taken, proposal, goals[row]))


def spread(goals: Float[Array, "m s"]) -> Scalar:
    """How diverse goals are: their root mean square distance from their mean."""
    return jnp.sqrt(jnp.mean(jnp.sum((goals - jnp.mean(goals, axis=0)) ** 2, axis=1)))
