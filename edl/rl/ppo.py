"""PPO (Schulman et al., 2017), written once against `Objective`.

Each iteration plays episodes with the current policy and takes gradient steps on them:

    L(theta) = E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_V (V - R)^2 + c_H H(pi),  rho = pi / pi_old.

The actor sees (s, z). The critic sees (s, z) and the objective's ``privileged`` input (Sibling Rivalry: the antigoal).

An iteration plays whole episodes, or, with ``unroll``, the next few steps of episodes that go on from one iteration to
the next. Long episodes need the latter: progress depends on the number of iterations more than on their size. The
advantage is then cut at the end of the part, where it bootstraps from V, and the metric ``return`` is the reward of a
part times the number of parts in an episode: the reward of an episode that runs to its time limit.

`paper_ppo` is the recipe of the authors' code. Departs from it:
- Running moments are updated once per iteration, and not after every gradient step; their variance has no minimum of
  0.01, and normalised inputs are not clipped to [-5, 5]. None of this matters for points in a maze.
- Episodes of weight 0 (masked siblings) stay in the minibatches, where they have no gradient; the authors remove them
  before they cut the rest into ten minibatches. Shapes must not depend on the data here.
- Adam divides its epsilon by the bias correction of the second moment in the authors' code, and here it does not. That
  slows down their first hundred gradient steps.
"""

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from edl.artifacts import Integration, SkillPolicy, concatenate
from edl.config import check, config
from edl.envs.base import Env
from edl.envs.clock import timed_horizon
from edl.envs.host import HostEnv
from edl.envs.rollout import Episode, Skill, continue_rollout, rollout
from edl.nets.distributions import Distribution, action_distribution
from edl.nets.mlp import MLP, Initialisation, mlp
from edl.nets.normalise import Normaliser, RunningMoments, fold_normaliser, identity_normaliser, running_moments
from edl.nets.optim import Trained, apply_gradients, minibatch_orders, new_trained
from edl.objective import Objective, check_supported
from edl.program import Program
from edl.rl.advantage import gae
from edl.rl.playing import actor_of, flat_observations, play_episodes
from edl.types import Key, Metrics, Scalar

SUPPORTED = ("siblings", "privileged", "weight", "entropy_scale", "before_rewards", "learns", "needs", "memory")
"""The optional fields of an `Objective` that PPO uses. It rejects an objective that sets any other."""


@config
class PPOConfig:
    """The defaults are ours, tuned to reach good skills quickly; `paper_ppo` returns the paper's settings."""

    iterations: int = 400
    """Iterations. Each plays episodes and takes gradient steps on them."""
    rollouts: int = 128
    """Skills drawn per iteration. Each is played once, or once per sibling."""
    unroll: int = 0
    """Steps of each episode per iteration; it must divide the horizon. ``rollouts`` episodes are then under way at the
    same time, and each is followed by a new one when it is over. 0: whole episodes."""
    epochs: int = 4
    """Passes over the episodes of an iteration."""
    minibatches: int = 8
    """Minibatches per epoch."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the actor and of the critic."""
    distribution: Literal["beta", "tanh_gaussian"] = "beta"
    """Distribution of continuous actions. Discrete actions always have a categorical distribution."""
    initialisation: Initialisation = "xavier"
    """``xavier``: Xavier-uniform weights, zero biases, and a policy that starts at its mean. ``fan_in``: the default of
    PyTorch, as in the authors' code."""
    normalise: bool = True
    """Normalise observations by running moments of the observations seen in training. Otherwise they are normalised by
    the normaliser that the method passes to `ppo`, if any."""
    normalise_codes: bool = False
    """Running moments also normalise z and the critic's privileged input, as in the authors' code. Only with
    ``normalise``."""
    bootstrap: bool = True
    """Bootstrap from V(s_T) at the time limit. Turn it off if the reward is terminal and undiscounted."""
    learning_rate: float = 2e-3
    """Learning rate of the first gradient step."""
    last_learning_rate: float = 2e-4
    """Learning rate of the last gradient step. The schedule between the two is linear."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation."""
    clip: float = 0.2
    """eps, the range in which the probability ratio is not clipped."""
    entropy_weight: float = 0.002
    """c_H, the weight of the entropy bonus."""
    value_weight: float = 0.5
    """c_V, the weight of the critic's loss. It acts almost only through ``max_gradient_norm``: the critic has its own
    Adam, whose steps do not depend on the scale of the loss."""
    max_gradient_norm: float | None = 0.5
    """Maximum norm of the gradient of both networks together. None: no limit."""
    adam_epsilon: float = 1e-5
    """Epsilon of Adam."""
    averaging: float = 0.9
    """The trained policy has averaged parameters: after each iteration, the average keeps this share of its value and
    takes the rest from the actor. A single actor is noisy if learning stops early, when its steps are still large. 0:
    no average."""


RAW_INPUTS = ("square",)
"""Envs in which the authors do not normalise inputs. They normalise them in their tree maze."""


def paper_ppo(env: str = "square", **changes: Any) -> PPOConfig:
    """The recipe of the authors' code: 50 episodes per iteration, ten minibatches of 250 steps, four epochs.

    It agrees with the paper's table. Where the table has a grid, it is the value of every config that the authors have
    released. ``env`` is the name of the env, which decides whether inputs are normalised.
    """
    recipe: dict[str, Any] = {
        "iterations": 2500,
        "rollouts": 50,
        "minibatches": 10,
        "initialisation": "fan_in",
        "normalise": env not in RAW_INPUTS,
        "normalise_codes": True,
        "learning_rate": 3e-4,
        "last_learning_rate": 3e-4,
        "gae_lambda": 0.98,
        "entropy_weight": 0.025,
        "max_gradient_norm": None,
        "adam_epsilon": 1e-3,
        "averaging": 0.0,
    }
    return PPOConfig(**(recipe | changes))


class Agent(NamedTuple):
    """The actor pi(a|s,z) and the critic V(s,z), each with its own optimiser: they share no parameters."""

    actor: Trained
    critic: Trained


class PPOState(NamedTuple):
    """The carry from one iteration to the next. ``objective`` is the state of the objective.

    ``average`` is the running average of the actor's parameters. ``running`` are the episodes under way, with
    ``unroll``.
    """

    agent: Agent
    average: MLP
    objective: Any
    moments: RunningMoments
    running: "RunningEpisode | None" = None


class RunningEpisode(NamedTuple):
    """An episode under way. ``parts_left`` is the number of parts until its time limit; 0 if it is over.

    ``memory`` is that of the reward, if it has one (`RewardMemory`).
    """

    state: PyTree
    skill: Skill
    parts_left: Int[Array, ""]
    memory: Any = None


class PPOStart(eqx.Module):
    """A trained policy as PPO needs it to go on: both networks, and the moments that normalise all their inputs.

    ``reward_unit`` is the length of the way to a goal for which they were rewarded with 1 in training.
    """

    actor: MLP
    critic: MLP
    moments: RunningMoments
    reward_unit: Scalar

    def with_reward_unit(self, unit: float | Scalar) -> "PPOStart":
        """The same, for rewards of 1 per ``unit``: the critic's values are multiplied by the ratio of the units."""
        ratio, critic = self.reward_unit / unit, self.critic
        weights, biases = (
            [*critic.weights[:-1], critic.weights[-1] * ratio],
            [*critic.biases[:-1], critic.biases[-1] * ratio],
        )
        critic = MLP(weights, biases, critic.activation)
        return PPOStart(self.actor, critic, self.moments, jnp.asarray(unit, jnp.float32))


class Batch(NamedTuple):
    """One row per step. ``inputs`` are the critic's; their first columns are the actor's."""

    inputs: Float[Array, "n c"]
    actions: Array
    log_probs: Float[Array, " n"]
    advantages: Float[Array, " n"]
    returns: Float[Array, " n"]
    weights: Float[Array, " n"]
    entropy_scales: Float[Array, " n"]


def ppo(
    env: Env,
    objective: Objective,
    config: PPOConfig,
    *,
    codes: Float[Array, "k z"],
    normaliser: Normaliser | None = None,
    integrate: Integration = concatenate,
    start: PPOStart | None = None,
) -> Program[PPOState, SkillPolicy]:
    """Train pi(a|s,z) to maximise the objective's reward; ``integrate`` combines s and z into the networks' input.

    With ``start``, training begins with these networks and moments, and with a new optimiser.
    """
    check_supported(objective, "ppo()", SUPPORTED)
    check_unroll(env, objective, config)
    check_start(objective, config, start)
    distribution = action_distribution(env.action_space, config.distribution)
    fixed = identity_normaliser(env.observation_size) if normaliser is None else normaliser
    parts = env.horizon // config.unroll if config.unroll else 1
    optimiser = optax.adam(linear_schedule(config), eps=config.adam_epsilon)

    def policy_of(state: PPOState, actor: MLP) -> SkillPolicy:
        normaliser = fixed
        if normalises_codes(config):
            actor = fold_normaliser(actor, state.moments.normaliser())
            normaliser = identity_normaliser(env.observation_size)
        elif config.normalise:
            normaliser = state.moments.normaliser()
        return SkillPolicy(actor, normaliser, distribution, codes, integrate=integrate, horizon=timed_horizon(env))

    def init(key: Key) -> PPOState:
        actor_key, critic_key, objective_key, example_key = jax.random.split(key, 4)
        learned = objective.init(objective_key)
        example = jax.eval_shape(lambda: privileged_example(example_key, env, objective, learned, distribution))
        inputs = jax.eval_shape(integrate, jnp.zeros(env.observation_size), codes[0]).shape[0]
        critic_inputs = inputs + example.shape[0]
        how: dict[str, Any] = {"initialisation": config.initialisation}
        actor = mlp(actor_key, (inputs, *config.hidden, distribution.size), last_scale=1e-2, **how)
        critic = mlp(critic_key, (critic_inputs, *config.hidden, 1), **how)
        moments = running_moments(critic_inputs if normalises_codes(config) else env.observation_size)
        if start is not None:
            actor, critic, moments = start.actor, start.critic, start.moments
        agent = Agent(new_trained(optimiser, actor), new_trained(optimiser, critic))
        running = start_episodes(example_key, env, objective, learned, config) if config.unroll else None
        return PPOState(agent, actor, learned, moments, running)

    def step(state: PPOState, key: Key) -> tuple[PPOState, Metrics]:
        play_key, shuffle_key, update_key = jax.random.split(key, 3)
        policy, learned, metrics = policy_of(state, state.agent.actor.params), state.objective, {}
        if objective.learns == "separately":
            play_key, separate_key = jax.random.split(play_key)
            separate = play_episodes(separate_key, env, objective, learned, policy, config.rollouts)
            learned, metrics = objective.update(update_key, learned, separate)
        running = state.running
        if running is None:
            episodes = play_episodes(play_key, env, objective, learned, policy, config.rollouts)
        else:
            running, episodes = continue_episodes(play_key, env, objective, learned, policy, running, config.unroll)
        if objective.learns == "before":
            learned, metrics = objective.update(update_key, learned, episodes)
        state = state._replace(objective=objective.before_rewards(learned, episodes), running=running)
        batch, rewards, memory = prepare_batch(state, objective, episodes, policy, config)
        running = None if running is None else running._replace(memory=memory)
        agent, losses = update_agent(shuffle_key, state.agent, batch, distribution, optimiser, config)
        moments = update_moments(state, objective, episodes, policy, config)
        learned = state.objective
        if objective.learns == "after":
            learned, metrics = objective.update(update_key, learned, episodes._replace(memory=memory))
        metrics = {"return": parts * jnp.mean(jnp.sum(rewards, axis=1)), **losses, **metrics}
        average = average_parameters(state.average, agent.actor.params, config.averaging)
        return PPOState(agent, average, learned, moments, running), metrics

    def finish(state: PPOState) -> SkillPolicy:
        return policy_of(state, state.average)

    batches = 2 if objective.learns == "separately" else 1
    env_steps = batches * config.rollouts * objective.siblings * (config.unroll or env.horizon)
    check(
        config.minibatches <= env_steps // batches,
        f"minibatches={config.minibatches} exceeds the {env_steps // batches} steps per iteration: raise rollouts, or "
        "ask for fewer minibatches.",
    )
    return Program(init, step, finish, config.iterations, env_steps)


def average_parameters(average: MLP, actor: MLP, keep: float | Scalar) -> MLP:
    """The average keeps a share of its value and takes the rest from the actor."""
    return jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, average, actor)


def check_unroll(env: Env, objective: Objective, config: PPOConfig) -> None:
    """Reject parts of episodes that the env or the objective cannot serve."""
    if not config.unroll:
        return
    check(
        not isinstance(env, HostEnv),
        f"parts of episodes need an env in JAX (got unroll={config.unroll} and an env outside of JAX, whose episodes "
        "start together and are not part of a checkpoint). Set unroll to 0.",
    )
    check(
        env.horizon % config.unroll == 0,
        f"unroll must divide the {env.horizon} steps of an episode (got {config.unroll}). Change ppo.unroll.",
    )
    check(
        objective.needs != "episode" and objective.siblings == 1 and objective.learns != "separately",
        f"this method needs whole episodes (got unroll={config.unroll}). Set ppo.unroll to 0.",
    )


def check_start(objective: Objective, config: PPOConfig, start: PPOStart | None) -> None:
    """Reject settings that do not fit the networks with which training begins."""
    if start is None:
        return
    hidden = tuple(weight.shape[-1] for weight in start.actor.weights[:-1])
    check(
        hidden == tuple(config.hidden),
        f"ppo.hidden must be that of the policy to start from, {hidden} (got {tuple(config.hidden)}). "
        "Change ppo.hidden, or start from scratch.",
    )
    check(
        normalises_codes(config) and objective.siblings == 1,
        "a policy to start from has normalised inputs and no siblings (got "
        f"ppo.normalise={config.normalise}, ppo.normalise_codes={config.normalise_codes}, "
        f"siblings={objective.siblings}). Set both to true and leave out siblings, or start from scratch.",
    )


def normalises_codes(config: PPOConfig) -> bool:
    """Whether running moments normalise all inputs of the networks, and not only observations."""
    return config.normalise and config.normalise_codes


def linear_schedule(config: PPOConfig) -> optax.Schedule:
    """From the first learning rate to the last one, over all gradient steps."""
    total = float(config.iterations * config.epochs * config.minibatches)  # it may have over 32 bits
    return lambda count: config.learning_rate + (config.last_learning_rate - config.learning_rate) * count / total


def privileged_example(
    key: Key, env: Env, objective: Objective, learned: Any, distribution: Distribution
) -> Float[Array, " c"]:
    """The privileged input of the critic for one episode. Only its shape is used."""
    params = jnp.zeros(distribution.size)
    skill, no_extras = objective.sample(key, learned), jnp.zeros(())
    episode = rollout(key, env, lambda key, *_: (distribution.sample(key, params), no_extras), skill)
    return objective.privileged(learned, episode._replace(rival=episode.last))


# Parts of episodes


def start_episodes(key: Key, env: Env, objective: Objective, learned: Any, config: PPOConfig) -> RunningEpisode:
    """New episodes. Their first one is shortened to a random number of parts, so that they do not end together."""

    def start(key: Key) -> RunningEpisode:
        parts_key, key = jax.random.split(key)
        episode = new_episode(key, env, objective, learned, config.unroll)
        return episode._replace(parts_left=jax.random.randint(parts_key, (), 1, episode.parts_left + 1))

    return jax.vmap(start)(jax.random.split(key, config.rollouts))


def new_episode(key: Key, env: Env, objective: Objective, learned: Any, unroll: int) -> RunningEpisode:
    """An episode at its start, with a skill of the objective."""
    reset_key, skill_key = jax.random.split(key)
    state, skill = env.reset(reset_key), objective.sample(skill_key, learned)
    memory = None
    if objective.memory is not None:
        memory = objective.memory.start(learned, env.features(env.observe(state)))
    return RunningEpisode(state, skill, jnp.int32(env.horizon // unroll), memory)


def continue_episodes(
    key: Key,
    env: Env,
    objective: Objective,
    learned: Any,
    policy: SkillPolicy,
    running: RunningEpisode,
    unroll: int,
) -> tuple[RunningEpisode, Episode]:
    """Play the next ``unroll`` steps of every episode under way. Episodes that are over are replaced by new ones.

    The memory of the reward stays that of the first state of the part, until its rewards are computed.
    """

    def continue_one(key: Key, episode: RunningEpisode) -> tuple[RunningEpisode, Episode]:
        new_key, play_key = jax.random.split(key)
        fresh = new_episode(new_key, env, objective, learned, unroll)
        episode = jax.tree.map(lambda new, old: jnp.where(episode.parts_left == 0, new, old), fresh, episode)
        noise = policy.distribution.noise
        state, part = continue_rollout(
            play_key, env, actor_of(policy), episode.skill, episode.state, unroll, draw=noise
        )
        left = jnp.where(part.ended, 0, episode.parts_left - 1)
        return RunningEpisode(state, episode.skill, left, episode.memory), part

    return jax.vmap(continue_one)(jax.random.split(key, running.parts_left.shape[0]), running)


# Preparing the batch


def network_inputs(objective: Objective, learned: Any, episode: Episode, policy: SkillPolicy) -> Float[Array, "t1 c"]:
    """The inputs of the critic in every state of an episode. Their first columns are the actor's."""
    observations = jax.vmap(policy.normaliser)(episode.observations)
    actor_inputs = jax.vmap(policy.integrate, (0, None))(observations, episode.skill.code)
    privileged = jnp.tile(objective.privileged(learned, episode), (actor_inputs.shape[0], 1))
    return jnp.concatenate([actor_inputs, privileged], axis=-1)


def update_moments(
    state: PPOState, objective: Objective, episodes: Episode, policy: SkillPolicy, config: PPOConfig
) -> RunningMoments:
    """Add the episodes to the running moments, if there are any."""
    if not config.normalise:
        return state.moments
    if not config.normalise_codes:
        return state.moments.update(*flat_observations(episodes))
    inputs = jax.vmap(lambda episode: network_inputs(objective, state.objective, episode, policy)[:-1])(episodes)
    return state.moments.update(inputs.reshape(-1, inputs.shape[-1]), episodes.valid.reshape(-1))


def rewards_of(
    objective: Objective, learned: Any, episode: Episode, running: RunningEpisode | None
) -> tuple[Float[Array, " t"], Any]:
    """The rewards of an episode, or of the part that was just played of one; and the memory of the reward, if any."""
    if objective.memory is None:
        return objective.reward(learned, episode), None
    first = objective.memory.start(learned, episode.features[0]) if running is None else running.memory
    return objective.memory.rewards(learned, first, episode)


def prepare_batch(
    state: PPOState, objective: Objective, episodes: Episode, policy: SkillPolicy, config: PPOConfig
) -> tuple[Batch, Float[Array, "e t"], Any]:
    """The batch of the episodes that ``policy`` played, one row per step; their rewards; the memory of the reward."""

    def of_one(episode: Episode, running: RunningEpisode | None) -> tuple[Batch, Float[Array, " t"], Any]:
        rewards, memory = rewards_of(objective, state.objective, episode, running)
        rewards = jnp.where(episode.valid, rewards, 0.0)
        weights = objective.weight(state.objective, episode) * episode.valid
        critic_inputs = network_inputs(objective, state.objective, episode, policy)
        if normalises_codes(config):
            critic_inputs = jax.vmap(state.moments.normaliser())(critic_inputs)
        values = jax.vmap(state.agent.critic.params)(critic_inputs)[:, 0]
        terminated = episode.terminated if config.bootstrap else episode.terminated | episode.truncated
        advantages = gae(rewards, values, terminated, episode.valid, config.gamma, config.gae_lambda)
        log_probs = jax.vmap(policy.distribution.log_prob)(episode.extras, episode.actions)
        returns = advantages + values[:-1]
        scales = jnp.full(weights.shape, objective.entropy_scale(state.objective, episode))
        rows = Batch(critic_inputs[:-1], episode.actions, log_probs, advantages, returns, weights, scales)
        return rows, rewards, memory

    batch, rewards, memory = jax.vmap(of_one)(episodes, state.running)
    batch = batch._replace(advantages=standardise(batch.advantages, batch.weights))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch), rewards, memory


def standardise(x: Float[Array, "e t"], weights: Float[Array, "e t"]) -> Float[Array, "e t"]:
    """Shift and scale to zero mean and unit variance over the steps with weight."""
    total = jnp.maximum(jnp.sum(weights), 1.0)
    mean = jnp.sum(x * weights) / total
    variance = jnp.sum((x - mean) ** 2 * weights) / total
    return (x - mean) / (jnp.sqrt(variance) + 1e-8)


# Losses and gradient steps


def update_agent(
    key: Key,
    agent: Agent,
    batch: Batch,
    distribution: Distribution,
    optimiser: optax.GradientTransformation,
    config: PPOConfig,
) -> tuple[Agent, Metrics]:
    """``epochs`` passes over the batch in ``minibatches`` shuffled parts; metrics are means over all gradient steps."""
    row = jax.tree.map(lambda x: x[0], batch)
    unravel = jax.flatten_util.ravel_pytree(row)[1]
    # One array, so that a shuffled minibatch is one gather.
    rows = jax.vmap(lambda row: jax.flatten_util.ravel_pytree(row)[0])(batch)
    orders = minibatch_orders(key, batch.weights.shape[0], config.epochs, config.minibatches)

    def minibatch_step(agent: Agent, order: Array) -> tuple[Agent, Metrics]:
        chosen = jax.vmap(unravel)(rows[order])
        actor_grads, policy_metrics = jax.grad(policy_loss, has_aux=True)(
            agent.actor.params, chosen, distribution, config
        )
        critic_grads, value_metrics = jax.grad(value_loss, has_aux=True)(agent.critic.params, chosen, config)
        actor_grads, critic_grads = clip_gradients((actor_grads, critic_grads), config.max_gradient_norm)
        actor = apply_gradients(optimiser, agent.actor, actor_grads)
        critic = apply_gradients(optimiser, agent.critic, critic_grads)
        return Agent(actor, critic), policy_metrics | value_metrics

    agent, metrics = jax.lax.scan(minibatch_step, agent, orders)
    return agent, jax.tree.map(jnp.mean, metrics)


def clip_gradients(gradients: PyTree, max_norm: float | Scalar | None) -> PyTree:
    """Scale the gradients of both networks, as one vector, to a norm of at most ``max_norm``."""
    if max_norm is None:
        return gradients
    clip = optax.clip_by_global_norm(max_norm)
    return clip.update(gradients, clip.init(gradients))[0]


def policy_loss(actor: MLP, batch: Batch, distribution: Distribution, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """-E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_H E[ scale H(pi) ], with the objective's entropy scales."""
    params = actor.apply_batch(batch.inputs[:, : actor.input_size])
    log_probs = jax.vmap(distribution.log_prob)(params, batch.actions)
    entropies = jax.vmap(distribution.entropy)(params)
    ratios = jnp.exp(log_probs - batch.log_probs)
    clipped = jnp.clip(ratios, 1 - config.clip, 1 + config.clip)
    gains = jnp.minimum(ratios * batch.advantages, clipped * batch.advantages)
    loss, entropy = -weighted_mean(gains, batch), weighted_mean(entropies, batch)
    outside = weighted_mean((jnp.abs(ratios - 1) > config.clip).astype(jnp.float32), batch)
    bonus = weighted_mean(entropies * batch.entropy_scales, batch)
    return loss - config.entropy_weight * bonus, {"policy_loss": loss, "entropy": entropy, "clipped": outside}


def value_loss(critic: MLP, batch: Batch, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """c_V (V - R)^2."""
    loss = weighted_mean((critic.apply_batch(batch.inputs)[:, 0] - batch.returns) ** 2, batch)
    return config.value_weight * loss, {"value_loss": loss}


def weighted_mean(x: Float[Array, " n"], batch: Batch) -> Scalar:
    """Mean over the rows of the batch by their weights."""
    return jnp.sum(x * batch.weights) / jnp.maximum(jnp.sum(batch.weights), 1.0)
