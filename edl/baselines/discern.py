"""DISCERN (Warde-Farley et al., 2019): reach goals, where a learned similarity decides whether a goal is reached.

The skill is a goal g from a buffer of visited states. I(S_T;G) >= H(G) + E[log q(g|s_T)] with a non-parametric q, the
probability of picking the goal among K decoys d_k from the same buffer by its similarity to the last state:

    log q(g | s_T, d_1 .. d_K) = log exp(beta l_g) / (exp(beta l_g) + sum_k exp(beta l_{d_k})),   l_x = xi(s_T) . xi(x),
    r_T = max(0, l_g), and 0 before T,

with unit vectors xi(.) and beta = K + 1. The embedding xi is trained to maximise log q. The reward is the clipped
similarity and not log q, because log q is never positive and would always be clipped to 0. A share of the steps is
replayed in hindsight, with a goal that their episode reached later.

Goals should be diverse: a visited state replaces a random member of the buffer if its mean distance to the other
members is larger, and otherwise with a small probability.

Departs from the paper:
- SAC replaces distributed Q-learning on pixels, because actions are continuous here.
- Time is not observed, so the critic's value is that of an episode that may end at any step.
- The buffer starts with start states instead of states visited by a random policy, and states are proposed much more
  often (a run has 10^5 steps instead of 10^9).
- xi is also trained on the share of hindsight goals, because otherwise it has no signal before the policy has learned.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.baselines.goal_skills import goal_skill, start_states, with_example_goals
from edl.baselines.skill_priors import unit_vector
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import Objective, goal_metrics
from edl.program import Program
from edl.rl.replay import Replay, add, empty_replay, read, sample
from edl.rl.sac import SACConfig, check_whole_episodes, sac
from edl.types import Key, Metrics, Scalar


@config
class DiscernConfig:
    """Hindsight and the number of goals follow the paper; the rest is tuned for small envs."""

    num_skills: int = 10
    """Number of example goals that are evaluated."""
    num_goals: int = 1024
    """Size of the goal buffer."""
    proposals: int = 16
    """Visited states proposed as goals per iteration."""
    admit: float = 1e-3
    """Probability of accepting a proposal that does not increase diversity."""
    decoys: int = 10
    """K, the number of decoys."""
    hindsight: float = 0.25
    """Share of the steps that are replayed with a goal that their episode reached later."""
    embedding: int = 8
    """Dimensions of xi."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers of xi."""
    learning_rate: float = 1e-3
    """Learning rate of xi."""
    gradient_steps: int = 16
    """Gradient steps of xi per iteration."""
    batch_size: int = 128
    """Episodes per gradient step of xi."""
    memory: int = 1024
    """Number of most recent episodes on which xi is trained."""
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
    """Settings of SAC."""


class Ends(NamedTuple):
    """The last state of each episode, and its goal."""

    last: Float[Array, "n s"]
    goal: Float[Array, "n s"]


class DiscernState(NamedTuple):
    """The embedding xi, the goal buffer, and the recent ends of episodes on which xi is trained."""

    embedding: Trained
    goals: Float[Array, "m s"]
    ends: Replay


def discern(env: Env, config: DiscernConfig) -> Program[Any, SkillPolicy]:
    """Collect diverse goals, and train a policy to reach them, as measured by a learned similarity."""
    check_whole_episodes(config.sac)
    program = sac(env, discern_objective(env, config), config.sac, codes=jnp.zeros((1, env.feature_size)))
    return with_example_goals(program, lambda state: state.goals, config.num_skills)


def discern_objective(env: Env, config: DiscernConfig) -> Objective:
    """Goals from the buffer, the similarity of the last state as reward, and hindsight goals."""
    optimiser = optax.flatten(optax.adam(config.learning_rate))

    def init(key: Key) -> DiscernState:
        goal_key, embedding_key = jax.random.split(key)
        embedding = mlp(embedding_key, (env.feature_size, *config.hidden, config.embedding))
        goals = start_states(goal_key, env, config.num_goals)
        return DiscernState(new_trained(optimiser, embedding), goals, empty_replay(Ends(goals, goals), config.memory))

    def sample_goal(key: Key, state: DiscernState) -> Skill:
        return goal_skill(state.goals[jax.random.randint(key, (), 0, config.num_goals)])

    def reward(state: DiscernState, episode: Episode) -> Float[Array, " t"]:
        return end_reward(state.embedding.params, episode)

    def relabel(key: Key, state: DiscernState, step: Episode, later: Float[Array, " s"]) -> Skill:
        return goal_skill(jnp.where(jax.random.uniform(key) < config.hindsight, later, step.skill.code))

    def update(key: Key, state: DiscernState, episodes: Episode) -> tuple[DiscernState, Metrics]:
        goal_key, learn_key = jax.random.split(key)
        new_ends = Ends(jax.vmap(lambda episode: episode.last)(episodes), episodes.skill.code)
        ends = add(state.ends, new_ends, jnp.ones(new_ends.last.shape[0], bool))
        goals = update_goals(goal_key, state.goals, episodes, config)
        batches = sample_batches(learn_key, ends, goals, config)
        embedding, metrics = jax.lax.scan(
            lambda trained, batch: gradient_step(optimiser, trained, discern_loss, *batch), state.embedding, batches
        )
        metrics = {**jax.tree.map(jnp.mean, metrics), "goal_spread": spread(goals), **goal_metrics(episodes)}
        return DiscernState(embedding, goals, ends), metrics

    return Objective(init, sample_goal, reward, update, relabel=relabel)


def embed(embedding: MLP, state: Float[Array, " s"]) -> Float[Array, " d"]:
    """xi(s), a unit vector."""
    return unit_vector(embedding(state))


def similarity(embedding: MLP, state: Float[Array, " s"], goal: Float[Array, " s"]) -> Scalar:
    """l_g = xi(s) . xi(g), at most 1."""
    return jnp.dot(embed(embedding, state), embed(embedding, goal))


def end_reward(embedding: MLP, episode: Episode) -> Float[Array, " t"]:
    """max(0, l_g) at the step that ends the episode, and 0 before. It also works for single steps of an episode."""
    similarities = jax.vmap(similarity, (None, 0, None))(embedding, episode.features[1:], episode.skill.code)
    return jnp.where(episode.terminated | episode.truncated, jnp.maximum(similarities, 0.0), 0.0)


def discern_loss(embedding: MLP, ends: Ends, decoys: Float[Array, "n k s"]) -> tuple[Scalar, Metrics]:
    """-log q(g | s_T, decoys), and the share of episodes whose goal is the most similar option."""
    options = jnp.concatenate([ends.goal[:, None], decoys], axis=1)
    embedded = jax.vmap(jax.vmap(embed, (None, 0)), (None, 0))(embedding, options)
    similarities = jnp.einsum("ncd,nd->nc", embedded, jax.vmap(embed, (None, 0))(embedding, ends.last))
    logits = options.shape[1] * similarities  # beta = K + 1, the number of options
    loss = -jnp.mean(jax.nn.log_softmax(logits)[:, 0])
    return loss, {"discern_loss": loss, "goal_accuracy": jnp.mean(jnp.argmax(logits, axis=1) == 0)}


def sample_batches(
    key: Key, ends: Replay, goals: Float[Array, "m s"], config: DiscernConfig
) -> tuple[Ends, Float[Array, "g n k s"]]:
    """Batches for xi, with decoys from the goal buffer. For a share of the rows, the last state replaces the goal."""
    row_key, hindsight_key, decoy_key = jax.random.split(key, 3)
    shape = (config.gradient_steps, config.batch_size)
    rows: Ends = read(ends, sample(row_key, ends, shape))
    in_hindsight = jax.random.uniform(hindsight_key, (*shape, 1)) < config.hindsight
    decoys = goals[jax.random.randint(decoy_key, (*shape, config.decoys), 0, goals.shape[0])]
    return Ends(rows.last, jnp.where(in_hindsight, rows.last, rows.goal)), decoys


def update_goals(key: Key, goals: Float[Array, "m s"], episodes: Episode, config: DiscernConfig) -> Float[Array, "m s"]:
    """The goal buffer after ``config.proposals`` random visited states were proposed to it."""
    episode_key, time_key, propose_key = jax.random.split(key, 3)
    count, horizon = episodes.valid.shape
    which = jax.random.randint(episode_key, (config.proposals,), 0, count)
    lengths = jnp.sum(episodes.valid, axis=1)[which]
    times = 1 + jnp.floor(jax.random.uniform(time_key, (config.proposals,)) * lengths).astype(jnp.int32)
    proposals = episodes.features[which, jnp.minimum(times, horizon)]

    def step(goals: Float[Array, "m s"], row: tuple[Key, Float[Array, " s"]]) -> tuple[Float[Array, "m s"], None]:
        key, proposal = row
        return propose_goal(key, goals, proposal, config.admit), None

    return jax.lax.scan(step, goals, (jax.random.split(propose_key, config.proposals), proposals))[0]


def propose_goal(
    key: Key, goals: Float[Array, "m s"], proposal: Float[Array, " s"], admit: float | Scalar
) -> Float[Array, "m s"]:
    """Replace a random goal if the proposal's mean distance to the others is larger, or with probability ``admit``."""
    row_key, admit_key = jax.random.split(key)
    row = jax.random.randint(row_key, (), 0, goals.shape[0])
    others = jnp.arange(goals.shape[0]) != row

    def distance_to_others(state: Float[Array, " s"]) -> Scalar:
        return jnp.sum(jnp.where(others, jnp.linalg.norm(goals - state, axis=1), 0.0))

    farther = distance_to_others(proposal) > distance_to_others(goals[row])
    accepted = farther | (jax.random.uniform(admit_key) < admit)
    return goals.at[row].set(jnp.where(accepted, proposal, goals[row]))


def spread(goals: Float[Array, "m s"]) -> Scalar:
    """Root mean square distance of the goals from their mean."""
    return jnp.sqrt(jnp.mean(jnp.sum((goals - jnp.mean(goals, axis=0)) ** 2, axis=1)))
