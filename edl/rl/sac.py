"""SAC (Haarnoja et al., 2018), written once, against `Objective`: one iteration plays episodes and descends on replay.

The losses are in `edl.rl.soft`, the ring of transitions is in `edl.rl.replay`, and the signature is that of
`edl.rl.ppo.ppo`. Actions may be continuous or discrete.

What was paid in the past goes out of date while an objective learns, so rewards are computed anew whenever a transition
is sampled (``refresh``), from that transition alone: see `edl.rl.replay.as_episode`. Where the reward is one for whole
episodes, turn that off, and each step keeps what it was paid when it was played. The objective learns as it does under
PPO, from the fresh episodes of each iteration, but before the gradient steps; or, where ``recall`` says so, from steps
drawn from the replay buffer, each as an episode of length one. One that wants to learn from older episodes as a whole
has to remember them (`edl.explore.smm` does).

An objective may have steps replayed with other skills than they were played with (``relabel``); and where its reward is
linear in z, the critics learn successor features (`edl.rl.successor`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import check, config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.nets.optim import Trained, descend, start
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, RunningMoments, identity, running_moments
from edl.objective import Objective, train_on_all, keep_skill, no_extra_input
from edl.program import Program
from edl.rl.ppo import flat_observations, play
from edl.rl.replay import (
    Replay,
    Transition,
    add,
    as_episode,
    blank_replay,
    ended,
    read,
    recalled,
    relabelled,
    sample,
    transitions_of,
)
from edl.rl.soft import LOSSES, Actions, Agent, Batch, Rules, actions_of, new_agent, sac_loss
from edl.rl.successor import successor_loss
from edl.types import Key, Metrics, Scalar


@config
class SACConfig:
    """How SAC plays and learns; a gradient step per environment step, as in its paper."""

    iterations: int = 1000
    """Cycles of playing and descending."""
    rollouts: int = 4
    """Episodes per iteration."""
    capacity: int = 100_000
    """Transitions that the replay buffer holds."""
    warmup: int = 1000
    """Environment steps before the first gradient step, played by the untrained policy."""
    update_every: int = 1
    """Environment steps per update."""
    gradient_steps: int = 1
    """Gradient steps per update."""
    batch_size: int = 128
    hidden: tuple[int, ...] = (128, 128)
    normalise: bool = False
    """Normalise observations by running moments (otherwise by the normaliser that is handed in, if any)."""
    refresh: bool = True
    """Compute rewards when a transition is sampled, rather than when it is played."""
    recall: int = 0
    """Replayed steps that the objective learns from in an iteration; with 0, it learns from the fresh episodes."""
    bootstrap: bool = True
    """At the time limit, bootstrap from V(s_T); off where the reward is paid at the end alone."""
    learn_entropy_weight: bool = False
    """Adapt alpha, so that the policy keeps ``keep_actions`` in play."""
    keep_actions: float = 0.2
    """H* is the entropy of a uniform choice among this share of the actions (per dimension)."""
    entropy_weight: float = 0.1
    """alpha; the first one, if it is learned."""
    learning_rate: float = 1e-3
    gamma: float = 0.99
    tau: float = 0.005
    """Share of the way to the critics that their targets go in a gradient step."""


Loss = Callable[[Agent, Batch, MLP, Rules], tuple[Scalar, Metrics]]


class Learner(NamedTuple):
    """What a gradient step changes."""

    agent: Trained
    targets: MLP


class SACState(NamedTuple):
    """What SAC carries from one iteration to the next."""

    learner: Learner
    replay: Replay
    objective: Any
    moments: RunningMoments


class Draws(NamedTuple):
    """All that is random in a gradient step: rows of the replay buffer, and the noise of the actions in s' and s.

    ``skill`` is what the rows are replayed with, where that is not the skill they were played with.
    """

    rows: Int[Array, " n"]
    noise: Float[Array, "n 2 a"]
    skill: Skill | None = None


def sac(
    env: Env,
    objective: Objective,
    config: SACConfig,
    *,
    codes: Float[Array, "k z"],
    normaliser: Normaliser | None = None,
) -> Program[SACState, SkillPolicy]:
    """Train pi(a|s,z) to maximise the objective's reward."""
    check_fits(env, objective, config)
    rules = rules_of(env, config)
    fixed = identity(env.observation_size) if normaliser is None else normaliser
    optimiser = optax.flatten(optax.adam(config.learning_rate))  # flat: one loop to compile instead of one per layer
    values = 1 if objective.linear is None else codes.shape[-1]
    loss = loss_of(objective)

    def policy_of(actor: MLP, moments: RunningMoments) -> SkillPolicy:
        return SkillPolicy(actor, moments.normaliser() if config.normalise else fixed, rules.actions, codes)

    def init(key: Key) -> SACState:
        agent_key, objective_key, probe_key = jax.random.split(key, 3)
        learned = objective.init(objective_key)
        inputs = env.observation_size + codes.shape[-1]
        agent = new_agent(agent_key, inputs, rules.actions, config.hidden, config.entropy_weight, values)
        moments = running_moments(env.observation_size)

        def some_transitions() -> Transition:
            episodes = play(probe_key, env, objective, learned, policy_of(agent.actor, moments), 1)
            return transitions_of(episodes, paid(objective, learned, episodes))[0]

        replay = blank_replay(jax.eval_shape(some_transitions), config.capacity)
        return SACState(Learner(start(optimiser, agent), agent.critics), replay, learned, moments)

    def step(state: SACState, key: Key) -> tuple[SACState, Metrics]:
        play_key, update_key, descend_key, relabel_key, recall_key = jax.random.split(key, 5)
        policy = policy_of(state.learner.agent.params.actor, state.moments)
        episodes = play(play_key, env, objective, state.objective, policy, config.rollouts)
        rewards = paid(objective, state.objective, episodes)
        replay = add(state.replay, *transitions_of(ended(episodes, config.bootstrap), rewards))
        lesson = recalled(recall_key, replay, config.recall) if config.recall else episodes
        learned, metrics = objective.update(update_key, state.objective, lesson)
        moments = state.moments.update(*flat_observations(episodes)) if config.normalise else state.moments
        normaliser = policy_of(policy.actor, moments).normaliser

        def improve(learner: Learner, draws: Draws) -> tuple[Learner, Metrics]:
            transitions = read(replay, draws.rows)
            transitions = transitions if draws.skill is None else transitions._replace(skill=draws.skill)
            rewards = worth(objective, learned, transitions) if config.refresh else transitions.reward
            batch = batch_of(transitions, rewards, draws.noise, normaliser)
            return gradient_step(learner, batch, rules, loss, optimiser, config.tau)

        draws = draw(descend_key, replay, rules.actions, (steps_per_iteration(env, config), config.batch_size))
        draws = draws._replace(skill=relabelled(relabel_key, objective, learned, replay, draws.rows))
        learner, losses = repeat_if(replay.size >= config.warmup, improve, state.learner, draws)
        metrics = {"return": jnp.mean(jnp.sum(rewards, axis=1)), **losses, **metrics}
        return SACState(learner, replay, learned, moments), metrics

    def finish(state: SACState) -> SkillPolicy:
        return policy_of(state.learner.agent.params.actor, state.moments)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def check_fits(env: Env, objective: Objective, config: SACConfig) -> None:
    """Refuse what SAC cannot do."""
    alone = objective.siblings == 1 and objective.privileged is no_extra_input and objective.weight is train_on_all
    check(alone, "an objective with siblings, under SAC", "its replay knows single episodes only", "Learn with PPO.")
    least = max(config.rollouts * env.horizon, config.warmup)
    check(
        config.capacity >= least,
        f"capacity={config.capacity}",
        f"the replay buffer must hold an iteration and the warm-up, {least} steps",
        "Raise it, or play fewer rollouts.",
    )
    check(
        config.refresh or (objective.relabel is keep_skill and objective.linear is None),
        "refresh=False",
        "an objective that relabels steps, or whose reward is linear, pays when they are sampled",
        "Leave refresh on.",
    )


def steps_per_iteration(env: Env, config: SACConfig) -> int:
    """Gradient steps in an iteration, at least one."""
    return max(config.rollouts * env.horizon * config.gradient_steps // config.update_every, 1)


def rules_of(env: Env, config: SACConfig) -> Rules:
    """The config, as far as it is about losses."""
    alpha = None if config.learn_entropy_weight else config.entropy_weight
    return Rules(actions_of(env), config.gamma, alpha, config.keep_actions)


def draw(key: Key, replay: Replay, actions: Actions, shape: tuple[int, int]) -> Draws:
    """The draws of several gradient steps at once: inside their loop, each would be compiled and called by itself."""
    row_key, noise_key = jax.random.split(key)
    size = 0 if isinstance(actions, Categorical) else actions.low.shape[0]
    return Draws(sample(row_key, replay, shape), jax.random.normal(noise_key, (*shape, 2, size)))


def paid(objective: Objective, learned: Any, episodes: Episode) -> Float[Array, "e t"]:
    """The rewards of the valid steps of a batch of episodes."""
    return jnp.where(episodes.valid, jax.vmap(objective.reward, (None, 0))(learned, episodes), 0.0)


def worth(objective: Objective, learned: Any, transitions: Transition) -> Float[Array, " n *d"]:
    """What the objective pays for transitions now, cumulant by cumulant if its reward is linear in z."""
    pay = objective.reward if objective.linear is None else objective.linear.cumulants
    return jax.vmap(pay, (None, 0))(learned, jax.vmap(as_episode)(transitions))[:, 0]


def batch_of(
    transitions: Transition, rewards: Float[Array, " n *d"], noise: Float[Array, "n 2 a"], normaliser: Normaliser
) -> Batch:
    """Transitions as the agent sees them."""
    observations = jax.vmap(jax.vmap(normaliser))(transitions.observations)
    codes = transitions.skill.code
    return Batch(
        inputs=jnp.concatenate([observations[:, 0], codes], axis=1),
        next_inputs=jnp.concatenate([observations[:, 1], codes], axis=1),
        actions=transitions.action,
        rewards=rewards,
        terminated=transitions.terminated,
        noise=noise,
    )


def repeat_if(
    ready: Bool[Array, ""], improve: Callable[[Learner, Draws], tuple[Learner, Metrics]], learner: Learner, draws: Draws
) -> tuple[Learner, Metrics]:
    """Improve once per row of ``draws``, or leave the learner alone; metrics are means, zero if there are none yet."""

    def repeat(learner: Learner) -> tuple[Learner, Metrics]:
        learner, metrics = jax.lax.scan(improve, learner, draws)
        return learner, jax.tree.map(jnp.mean, metrics)

    nothing_yet = {name: jnp.float32(0.0) for name in LOSSES}
    return jax.lax.cond(ready, repeat, lambda learner: (learner, nothing_yet), learner)


def loss_of(objective: Objective) -> Loss:
    """That of SAC, or of SAC over successor features."""
    linear = objective.linear
    return sac_loss if linear is None else functools.partial(successor_loss, policies=linear.policies)


def gradient_step(
    learner: Learner,
    batch: Batch,
    rules: Rules,
    loss: Loss,
    optimiser: optax.GradientTransformation,
    tau: float | Scalar,
) -> tuple[Learner, Metrics]:
    """Actor, critics and alpha descend together, each on its own term of the loss; then the targets follow."""
    agent, metrics = descend(optimiser, learner.agent, loss, batch, learner.targets, rules)
    targets = jax.tree.map(lambda old, new: old + tau * (new - old), learner.targets, agent.params.critics)
    return Learner(agent, targets), metrics
