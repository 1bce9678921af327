"""SAC (Haarnoja et al., 2018), written once against `Objective`.

Each iteration plays episodes, adds them to a replay buffer (`edl.rl.replay`), lets the objective learn, and takes
gradient steps on sampled transitions:

    V(s,z)   = E_{a ~ pi} [ min_i Q_i(s,z,a) - alpha log pi(a|s,z) ]
    L_Q      = sum_i (Q_i(s,z,a) - r - gamma (1 - terminated) V'(s',z))^2,   V' from targets that follow the Q_i slowly
    L_pi     = -V(s,z), through the actions
    L_alpha  = log alpha (H(pi(.|s,z)) - H*), if alpha is learned

The expectation is over one reparametrised action, or over all actions if they are discrete (Christodoulou, 2019).

The first version of SAC, which the authors of EDL use, learns V with a network of its own (``value_network``):

    L_V      = (V(s,z) - min_i Q_i(s,z,a) + alpha log pi(a|s,z))^2,      a ~ pi(.|s,z)
    L_Q      = sum_i (Q_i(s,z,a) - r - gamma (1 - terminated) V'(s',z))^2,   V' a target that follows V slowly
    L_pi     = alpha log pi(a|s,z) - Q_1(s,z,a),   through the action a ~ pi(.|s,z)

Old rewards go out of date while an objective learns. So rewards are computed again whenever a minibatch is sampled
(``refresh_rewards``), for each transition as an episode of one step: see `edl.rl.replay.as_episode`. Turn this off for
a reward for whole episodes; each step then keeps the reward computed when it was played. The objective learns before
the gradient steps, from the new episodes of the iteration as under PPO, or from ``objective_batch_size`` steps of the
replay buffer. An objective that learns from whole old episodes has to store them itself (`edl.explore.smm` does).

If the reward is linear in z, the critics learn successor features (`edl.rl.successor`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy
from edl.config import check, config
from edl.envs.base import Env, random_action
from edl.envs.clock import timed_horizon
from edl.envs.rollout import Episode, Skill, empty_skill, rollout
from edl.nets.distributions import Categorical, action_distribution
from edl.nets.mlp import MLP, Initialisation, mlp
from edl.nets.normalise import Normaliser, RunningMoments, identity_normaliser, running_moments
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import LearnerView, Objective, check_supported, keep_skill
from edl.program import Program
from edl.rl.playing import flat_observations, play_episodes
from edl.rl.replay import (
    Replay,
    Transition,
    add,
    as_episode,
    empty_replay,
    end_at_time_limit,
    read,
    relabel_skills,
    sample,
    sample_steps,
    to_transitions,
)
from edl.rl.sac_losses import LOSS_METRICS, Actions, Agent, Batch, Loss, LossSettings, sac_loss, value_network_loss
from edl.rl.successor import successor_loss
from edl.types import Key, Metrics, Scalar

SUPPORTED = ("before_rewards", "relabel", "rewrite", "linear", "see_learner", "change_skill")
"""The optional fields of an `Objective` that SAC uses. It rejects an objective that sets any other."""


@config
class SACConfig:
    """The default is one gradient step per environment step, as in the paper of SAC."""

    iterations: int = 1000
    """Iterations. Each plays episodes and takes gradient steps on the replay buffer."""
    rollouts: int = 4
    """Episodes per iteration."""
    capacity: int = 100_000
    """Transitions that the replay buffer holds."""
    warmup: int = 1000
    """Environment steps before the first gradient step. The untrained policy plays them."""
    update_every: int = 1
    """Environment steps per update."""
    gradient_steps: int = 1
    """Gradient steps per update."""
    batch_size: int = 128
    """Transitions per gradient step."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the actor and of the critics."""
    initialisation: Initialisation = "xavier"
    """``xavier``: Xavier-uniform weights, zero biases, and a policy that starts at its mean. ``fan_in``: the default of
    PyTorch, as in the authors' code of EDL."""
    normalise: bool = True
    """Normalise observations by running moments of the observations seen in training. Otherwise they are normalised by
    the normaliser that the method passes to `sac`, if any."""
    random_episodes: int = 0
    """Episodes of random actions that are played before training. Their moments normalise observations until the end,
    as in the code of METRA. They are not counted as environment steps. 0: running moments. Only with ``normalise``."""
    value_network: bool = False
    """Learn V(s,z) with a network of its own, and train the policy on Q_1 alone, as in the first version of SAC and in
    the authors' code of EDL. There the target of V starts at random weights and not at those of V; so it does here."""
    refresh_rewards: bool = True
    """Compute the reward of a transition when it is sampled, instead of when it is played."""
    objective_batch_size: int = 0
    """Replayed steps per iteration that the objective learns from. 0: it learns from the new episodes."""
    bootstrap: bool = True
    """Bootstrap from V(s_T) at the time limit. Turn it off if the reward is terminal."""
    learn_entropy_weight: bool = False
    """Learn alpha, such that the entropy of the policy stays near the target entropy H*."""
    entropy_in_value: bool = True
    """Count the entropy of later steps in V, as in the paper of SAC. Otherwise V is a sum of rewards alone: without
    discounting, the entropy of a long episode would outweigh a reward at its end."""
    target_entropy_share: float = 0.2
    """H* is the entropy of a uniform distribution over this share of the actions (per dimension)."""
    entropy_weight: float = 0.1
    """alpha, or its initial value if it is learned."""
    learning_rate: float = 1e-3
    """Learning rate of the actor, the critics, V and alpha."""
    adam_epsilon: float = 1e-8
    """Epsilon of Adam."""
    gamma: float = 0.99
    """Discount factor."""
    tau: float = 0.005
    """Fraction by which the target networks move towards the critics (or towards V) per gradient step."""


class Learner(NamedTuple):
    """The agent with its optimiser, and the target networks: those of the critics, or that of V."""

    agent: Trained
    targets: MLP


class SACStart(eqx.Module):
    """A trained agent as SAC needs it to go on, its target networks, and the moments of its observations."""

    agent: Agent
    targets: MLP
    moments: RunningMoments


class SACState(NamedTuple):
    """The carry from one iteration to the next. ``objective`` is the state of the objective."""

    learner: Learner
    replay: Replay
    objective: Any
    moments: RunningMoments


class Draws(NamedTuple):
    """The random numbers of a gradient step: rows of the replay buffer, and the noise of the actions in s' and s.

    ``skill`` are the skills that the rows are replayed with, or None if these are the skills they were played with.
    ``rewritten`` are the transitions that are replayed instead of the rows, or None.
    """

    rows: Int[Array, " n"]
    noise: Float[Array, "n 2 a"]
    skill: Skill | None = None
    rewritten: Transition | None = None


def sac(
    env: Env,
    objective: Objective,
    config: SACConfig,
    *,
    codes: Float[Array, "k z"],
    normaliser: Normaliser | None = None,
    start: SACStart | None = None,
) -> Program[SACState, SkillPolicy]:
    """Train pi(a|s,z) to maximise the objective's reward.

    With ``start``, training begins with this agent and these moments, and with a new optimiser.
    """
    check_supported(objective, "sac()", SUPPORTED)
    check_config(env, objective, config)
    settings, loss = loss_settings(env, config), select_loss(objective, config)
    fixed = identity_normaliser(env.observation_size) if normaliser is None else normaliser
    # flat: one loop to compile instead of one per layer
    optimiser = optax.flatten(optax.adam(config.learning_rate, eps=config.adam_epsilon))
    values = 1 if objective.linear is None else codes.shape[-1]

    def policy_of(actor: MLP, moments: RunningMoments) -> SkillPolicy:
        normaliser = moments.normaliser() if config.normalise else fixed
        return SkillPolicy(actor, normaliser, settings.actions, codes, horizon=timed_horizon(env))

    def init(key: Key) -> SACState:
        agent_key, objective_key, example_key = jax.random.split(key, 3)
        learned = objective.init(objective_key)
        agent, targets = new_networks(agent_key, env.observation_size + codes.shape[-1], settings, config, values)
        moments = running_moments(env.observation_size)
        if config.normalise and config.random_episodes:
            moments = moments_of_random_play(jax.random.fold_in(example_key, 1), env, config.random_episodes)
        if start is not None:
            agent, targets, moments = start.agent, start.targets, start.moments

        learned = objective.see_learner(learned, LearnerView(policy_of(agent.actor, moments), agent.critics))

        def example_transitions() -> Transition:
            episodes = play_episodes(example_key, env, objective, learned, policy_of(agent.actor, moments), 1)
            return to_transitions(episodes, episode_rewards(objective, learned, episodes)[0])[0]

        replay = empty_replay(jax.eval_shape(example_transitions), config.capacity)
        return SACState(Learner(new_trained(optimiser, agent), targets), replay, learned, moments)

    def step(state: SACState, key: Key) -> tuple[SACState, Metrics]:
        play_key, update_key, draw_key, relabel_key, objective_key = jax.random.split(key, 5)
        policy = policy_of(state.learner.agent.params.actor, state.moments)
        learned = objective.see_learner(state.objective, LearnerView(policy, state.learner.agent.params.critics))
        episodes = play_episodes(play_key, env, objective, learned, policy, config.rollouts)
        rewards, learned = episode_rewards(objective, learned, episodes)
        added = episodes if config.bootstrap else end_at_time_limit(episodes)
        replay = add(state.replay, *to_transitions(added, rewards))
        objective_batch = episodes
        if config.objective_batch_size:
            objective_batch = sample_steps(objective_key, replay, config.objective_batch_size)
        learned, metrics = objective.update(update_key, learned, objective_batch)
        moments = state.moments
        if config.normalise and not config.random_episodes:
            moments = moments.update(*flat_observations(episodes))
        normaliser = policy_of(policy.actor, moments).normaliser

        def improve(learner: Learner, draws: Draws) -> tuple[Learner, Metrics]:
            transitions = read(replay, draws.rows) if draws.rewritten is None else draws.rewritten
            transitions = transitions if draws.skill is None else transitions._replace(skill=draws.skill)
            rewards = transitions.reward
            if config.refresh_rewards:
                rewards = replayed_rewards(objective, learned, transitions)
            batch = to_batch(transitions, rewards, draws.noise, normaliser)
            return update_learner(learner, batch, settings, loss, optimiser, config.tau)

        shape = (steps_per_iteration(env, config), config.batch_size)
        draws = draw_batches(draw_key, replay, settings.actions, shape)
        draws = draws._replace(skill=relabel_skills(relabel_key, objective, learned, replay, draws.rows))
        if objective.rewrite is not None:
            draws = draws._replace(rewritten=objective.rewrite(relabel_key, learned, replay, draws.rows))
        learner, losses = repeat_if(replay.size >= config.warmup, improve, state.learner, draws)
        metrics = {"return": jnp.mean(jnp.sum(rewards, axis=1)), **losses, **metrics}
        return SACState(learner, replay, learned, moments), metrics

    def finish(state: SACState) -> SkillPolicy:
        return policy_of(state.learner.agent.params.actor, state.moments)

    return Program(init, step, finish, config.iterations, config.rollouts * env.horizon)


def moments_of_random_play(key: Key, env: Env, num_episodes: int) -> RunningMoments:
    """The moments of the observations in episodes of uniformly random actions."""

    def play(key: Key) -> Episode:
        act = lambda key, *_: (random_action(key, env.action_space), jnp.zeros(0))  # noqa: E731
        return rollout(key, env, act, empty_skill())

    episodes = jax.vmap(play)(jax.random.split(key, num_episodes))
    return running_moments(env.observation_size).update(*flat_observations(episodes))


def check_config(env: Env, objective: Objective, config: SACConfig) -> None:
    """Raise a `ConfigError` if the replay buffer is too small, or if the settings do not fit the objective."""
    least = max(config.rollouts * env.horizon, config.warmup)
    check(
        config.capacity >= least,
        f"capacity must be at least {least} (got {config.capacity}), because the replay buffer must hold the steps of "
        "an iteration and the warm-up. Raise capacity, or lower rollouts or warmup.",
    )
    relabels = objective.relabel is not keep_skill or objective.rewrite is not None
    check(
        config.refresh_rewards or not (relabels or objective.linear is not None),
        "refresh_rewards must be true for an objective with 'relabel', 'rewrite' or 'linear' (got False), because its "
        "rewards can only be computed when transitions are sampled. Leave refresh_rewards at its default.",
    )
    check(
        not config.value_network or objective.linear is None,
        "value_network must be false for an objective with 'linear' (got True), because its critics learn successor "
        "features. Leave value_network at its default.",
    )
    check(
        not config.value_network or objective.rewrite is None,
        "value_network must be false for an objective with 'rewrite' (got True), because the loss of V ignores the "
        "bounds of the transitions that it returns. Leave value_network at its default.",
    )
    check(
        not config.value_network or config.entropy_in_value,
        "value_network must be false if entropy_in_value is false (got True), because a V with a network of its own "
        "counts the entropy of later steps. Leave value_network at its default, or set entropy_in_value to true.",
    )
    check(
        config.bootstrap or objective.rewrite is None,
        "bootstrap must be true for an objective with 'rewrite' (got False), because it decides itself which of the "
        "transitions that it returns have no next state. Leave bootstrap at its default.",
    )
    check(
        objective.rewrite is None or objective.relabel is keep_skill,
        "an objective must set 'relabel' or 'rewrite' (got both), because 'rewrite' returns whole transitions with "
        "their skills. Leave one of them at its default.",
    )


def check_whole_episodes(config: SACConfig) -> None:
    """Reject replayed steps for an objective that learns from whole episodes, such as from where they end."""
    check(
        config.objective_batch_size == 0,
        f"sac.objective_batch_size must be 0 (got {config.objective_batch_size}), because this method learns from "
        "whole episodes. Leave sac.objective_batch_size at its default.",
    )


def steps_per_iteration(env: Env, config: SACConfig) -> int:
    """Gradient steps per iteration, at least one."""
    return max(config.rollouts * env.horizon * config.gradient_steps // config.update_every, 1)


def loss_settings(env: Env, config: SACConfig) -> LossSettings:
    """The action distribution of SAC for ``env``, and the part of the config that the losses depend on."""
    actions: Any = action_distribution(env.action_space, "tanh_gaussian")  # a Categorical if actions are discrete
    alpha = None if config.learn_entropy_weight else config.entropy_weight
    return LossSettings(actions, config.gamma, alpha, config.target_entropy_share, config.entropy_in_value)


def select_loss(objective: Objective, config: SACConfig) -> Loss:
    """`sac_loss`, `value_network_loss`, or `successor_loss` if the objective's reward is linear in z."""
    if objective.linear is None:
        return value_network_loss if config.value_network else sac_loss
    return functools.partial(successor_loss, gpi_codes=objective.linear.gpi_codes)


def new_networks(key: Key, inputs: int, settings: LossSettings, config: SACConfig, values: int) -> tuple[Agent, MLP]:
    """An untrained agent and its target networks."""
    how = config.initialisation
    agent = new_agent(key, inputs, settings.actions, config.hidden, config.entropy_weight, values, how)
    if not config.value_network:
        return agent, agent.critics
    sizes, keys = (inputs, *config.hidden, 1), jax.random.split(jax.random.fold_in(key, 1))
    value, target = (mlp(each, sizes, initialisation=how) for each in keys)
    return Agent(agent.actor, agent.critics, agent.log_alpha, value), target


def new_agent(
    key: Key,
    inputs: int,
    actions: Actions,
    hidden: tuple[int, ...],
    alpha: float | Scalar,
    values: int = 1,
    initialisation: Initialisation = "xavier",
) -> Agent:
    """An untrained agent whose critics compute ``values`` numbers per action.

    The critics of discrete actions compute them for all actions at once. Other critics take the action as an input.
    """
    actor_key, critic_key = jax.random.split(key)
    first, last = (inputs, actions.size) if isinstance(actions, Categorical) else (inputs + actions.low.shape[0], 1)
    how: dict[str, Any] = {"initialisation": initialisation}
    return Agent(
        actor=mlp(actor_key, (inputs, *hidden, actions.size), last_scale=1e-2, **how),
        critics=jax.vmap(lambda key: mlp(key, (first, *hidden, last * values), **how))(jax.random.split(critic_key)),
        log_alpha=jnp.log(jnp.asarray(alpha, jnp.float32)),
    )


# Rewards and batches


def episode_rewards(objective: Objective, learned: Any, episodes: Episode) -> tuple[Float[Array, "e t"], Any]:
    """The rewards of new episodes (0 for invalid steps), and the state that ``objective.before_rewards`` returned."""
    learned = objective.before_rewards(learned, episodes)
    return jnp.where(episodes.valid, jax.vmap(objective.reward, (None, 0))(learned, episodes), 0.0), learned


def replayed_rewards(objective: Objective, learned: Any, transitions: Transition) -> Float[Array, " n *d"]:
    """The current rewards of a minibatch of transitions, or their cumulants if the reward is linear in z."""
    steps = jax.vmap(as_episode)(transitions)
    learned = objective.before_rewards(learned, steps)
    reward = objective.reward if objective.linear is None else objective.linear.cumulants
    return jax.vmap(reward, (None, 0))(learned, steps)[:, 0]


def draw_batches(key: Key, replay: Replay, actions: Actions, shape: tuple[int, int]) -> Draws:
    """The random numbers of all gradient steps at once. Inside their loop, every draw would be compiled separately."""
    row_key, noise_key = jax.random.split(key)
    size = 0 if isinstance(actions, Categorical) else actions.low.shape[0]
    return Draws(sample(row_key, replay, shape), jax.random.normal(noise_key, (*shape, 2, size)))


def to_batch(
    transitions: Transition, rewards: Float[Array, " n *d"], noise: Float[Array, "n 2 a"], normaliser: Normaliser
) -> Batch:
    """The batch of these transitions, with normalised observations."""
    observations = jax.vmap(jax.vmap(normaliser))(transitions.observations)
    codes = transitions.skill.code
    return Batch(
        inputs=jnp.concatenate([observations[:, 0], codes], axis=1),
        next_inputs=jnp.concatenate([observations[:, 1], codes], axis=1),
        actions=transitions.action,
        rewards=rewards,
        terminated=transitions.terminated,
        noise=noise,
        bounds=transitions.bounds,
    )


# Gradient steps


def repeat_if(
    ready: Bool[Array, ""], improve: Callable[[Learner, Draws], tuple[Learner, Metrics]], learner: Learner, draws: Draws
) -> tuple[Learner, Metrics]:
    """Improve the learner once per row of ``draws`` if it is ``ready``. Metrics are means, or zero if it is not."""

    def repeat(learner: Learner) -> tuple[Learner, Metrics]:
        learner, metrics = jax.lax.scan(improve, learner, draws)
        return learner, jax.tree.map(jnp.mean, metrics)

    no_metrics = {name: jnp.float32(0.0) for name in LOSS_METRICS}
    return jax.lax.cond(ready, repeat, lambda learner: (learner, no_metrics), learner)


def update_learner(
    learner: Learner,
    batch: Batch,
    settings: LossSettings,
    loss: Loss,
    optimiser: optax.GradientTransformation,
    tau: float | Scalar,
) -> tuple[Learner, Metrics]:
    """One gradient step of all networks and alpha together, each on its own term of the loss; then of the targets."""
    agent, metrics = gradient_step(optimiser, learner.agent, loss, batch, learner.targets, settings)
    followed = agent.params.critics if agent.params.value is None else agent.params.value
    targets = jax.tree.map(lambda old, new: old + tau * (new - old), learner.targets, followed)
    return Learner(agent, targets), metrics
