"""PPO (Schulman et al., 2017), written once against `Objective`.

Each iteration plays episodes with the current policy and takes gradient steps on them:

    L(theta) = E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_V (V - R)^2 + c_H H(pi),  rho = pi / pi_old.

The actor sees (s, z). The critic sees (s, z) and the objective's ``privileged`` input (Sibling Rivalry: the antigoal).
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from edl.artifacts import Integration, SkillPolicy, concatenate
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, rollout
from edl.nets.distributions import Distribution, action_distribution
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, RunningMoments, identity_normaliser, running_moments
from edl.nets.optim import Trained, apply_gradients, minibatch_orders, new_trained
from edl.objective import Objective, check_supported
from edl.program import Program
from edl.rl.advantage import gae
from edl.types import Key, Metrics, Scalar

SUPPORTED = ("siblings", "privileged", "weight", "before_rewards")
"""The optional fields of an `Objective` that PPO uses. It rejects an objective that sets any other."""


@config
class PPOConfig:
    """The defaults are ours, tuned to reach good skills quickly; `paper_ppo` returns the paper's settings."""

    iterations: int = 400
    """Iterations. Each plays episodes and takes gradient steps on them."""
    rollouts: int = 128
    """Skills drawn per iteration. Each is played once, or once per sibling."""
    epochs: int = 4
    """Passes over the episodes of an iteration."""
    minibatches: int = 8
    """Minibatches per epoch."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the actor and of the critic."""
    distribution: Literal["beta", "tanh_gaussian"] = "beta"
    """Distribution of continuous actions. Discrete actions always have a categorical distribution."""
    normalise: bool = False
    """Normalise observations by running moments (otherwise by the moments of the explored states, if there are any)."""
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
    """c_V, the weight of the critic's loss."""
    max_gradient_norm: float | None = 0.5
    """Maximum norm of the gradient of both networks together. None: no limit."""
    adam_epsilon: float = 1e-5
    """Epsilon of Adam."""


def paper_ppo(**changes: Any) -> PPOConfig:
    """The paper's table: horizon 2500, batches of 250, 4 epochs; Adam's epsilon as in the authors' code."""
    recipe: dict[str, Any] = {
        "iterations": 2500,
        "rollouts": 50,
        "minibatches": 10,
        "learning_rate": 3e-4,
        "last_learning_rate": 3e-4,
        "gae_lambda": 0.98,
        "entropy_weight": 0.01,
        "max_gradient_norm": None,
        "adam_epsilon": 1e-3,
    }
    return PPOConfig(**(recipe | changes))


class Agent(NamedTuple):
    """The actor pi(a|s,z) and the critic V(s,z), each with its own optimiser: they share no parameters."""

    actor: Trained
    critic: Trained


class PPOState(NamedTuple):
    """The carry from one iteration to the next. ``objective`` is the state of the objective."""

    agent: Agent
    objective: Any
    moments: RunningMoments


class Batch(NamedTuple):
    """One row per step. ``inputs`` are the critic's; their first columns are the actor's."""

    inputs: Float[Array, "n c"]
    actions: Array
    log_probs: Float[Array, " n"]
    advantages: Float[Array, " n"]
    returns: Float[Array, " n"]
    weights: Float[Array, " n"]


def ppo(
    env: Env,
    objective: Objective,
    config: PPOConfig,
    *,
    codes: Float[Array, "k z"],
    normaliser: Normaliser | None = None,
    integrate: Integration = concatenate,
) -> Program[PPOState, SkillPolicy]:
    """Train pi(a|s,z) to maximise the objective's reward; ``integrate`` combines s and z into the networks' input."""
    check_supported(objective, "ppo()", SUPPORTED)
    distribution = action_distribution(env.action_space, config.distribution)
    fixed = identity_normaliser(env.observation_size) if normaliser is None else normaliser
    optimiser = optax.adam(linear_schedule(config), eps=config.adam_epsilon)

    def policy_of(state: PPOState) -> SkillPolicy:
        normaliser = state.moments.normaliser() if config.normalise else fixed
        return SkillPolicy(state.agent.actor.params, normaliser, distribution, codes, integrate=integrate)

    def init(key: Key) -> PPOState:
        actor_key, critic_key, objective_key, example_key = jax.random.split(key, 4)
        learned = objective.init(objective_key)
        example = jax.eval_shape(lambda: privileged_example(example_key, env, objective, learned, distribution))
        inputs = jax.eval_shape(integrate, jnp.zeros(env.observation_size), codes[0]).shape[0]
        actor = mlp(actor_key, (inputs, *config.hidden, distribution.size), last_scale=1e-2)
        critic = mlp(critic_key, (inputs + example.shape[0], *config.hidden, 1))
        agent = Agent(new_trained(optimiser, actor), new_trained(optimiser, critic))
        return PPOState(agent, learned, running_moments(env.observation_size))

    def step(state: PPOState, key: Key) -> tuple[PPOState, Metrics]:
        play_key, shuffle_key, update_key = jax.random.split(key, 3)
        policy = policy_of(state)
        episodes = play_episodes(play_key, env, objective, state.objective, policy, config.rollouts)
        state = state._replace(objective=objective.before_rewards(state.objective, episodes))
        batch, rewards = prepare_batch(state, objective, episodes, policy, config)
        agent, losses = update_agent(shuffle_key, state.agent, batch, distribution, optimiser, config)
        learned, metrics = objective.update(update_key, state.objective, episodes)
        moments = state.moments.update(*flat_observations(episodes)) if config.normalise else state.moments
        metrics = {"return": jnp.mean(jnp.sum(rewards, axis=1)), **losses, **metrics}
        return PPOState(agent, learned, moments), metrics

    env_steps = config.rollouts * objective.siblings * env.horizon
    return Program(init, step, policy_of, config.iterations, env_steps)


def linear_schedule(config: PPOConfig) -> optax.Schedule:
    """From the first learning rate to the last one, over all gradient steps."""
    total = config.iterations * config.epochs * config.minibatches
    return lambda count: config.learning_rate + (config.last_learning_rate - config.learning_rate) * count / total


def privileged_example(
    key: Key, env: Env, objective: Objective, learned: Any, distribution: Distribution
) -> Float[Array, " c"]:
    """The privileged input of the critic for one episode. Only its shape is used."""
    params = jnp.zeros(distribution.size)
    skill, no_extras = objective.sample(key, learned), jnp.zeros(())
    episode = rollout(key, env, lambda key, *_: (distribution.sample(key, params), no_extras), skill)
    return objective.privileged(learned, episode._replace(rival=episode.last))


# Playing


def play_episodes(
    key: Key, env: Env, objective: Objective, learned: Any, policy: SkillPolicy, rollouts: int
) -> Episode:
    """Draw ``rollouts`` skills and play each from its own start, ``objective.siblings`` times.

    Siblings share the skill and the start. ``episode.rival`` of each is the state in which the other one ended.
    ``episode.extras`` are the parameters of the action distribution.
    """

    def act(noise, observation, code):
        params = policy(observation, code)
        return policy.distribution.transform(noise, params), params

    def play_siblings(key):
        skill_key, start_key, play_key = jax.random.split(key, 3)
        skill = objective.sample(skill_key, learned)
        keys = jax.random.split(play_key, objective.siblings)
        noise = policy.distribution.noise
        episodes = jax.vmap(lambda key: rollout(key, env, act, skill, start_key=start_key, draw=noise))(keys)
        episodes = episodes._replace(skill=jax.tree.map(lambda x: jnp.stack([x] * objective.siblings), skill))
        return episodes._replace(rival=jnp.roll(jax.vmap(lambda episode: episode.last)(episodes), 1, axis=0))

    siblings = jax.vmap(play_siblings)(jax.random.split(key, rollouts))
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), siblings)


def flat_observations(episodes: Episode) -> tuple[Float[Array, "n o"], Array]:
    """The observation before every step, and whether the step is valid."""
    observations = episodes.observations[:, :-1]
    return observations.reshape(-1, observations.shape[-1]), episodes.valid.reshape(-1)


# Preparing the batch


def prepare_batch(
    state: PPOState, objective: Objective, episodes: Episode, policy: SkillPolicy, config: PPOConfig
) -> tuple[Batch, Float[Array, "e t"]]:
    """The batch of the episodes that ``policy`` played, flattened to one row per step; and their rewards."""

    def of_one(episode: Episode) -> tuple[Batch, Float[Array, " t"]]:
        rewards = jnp.where(episode.valid, objective.reward(state.objective, episode), 0.0)
        weights = objective.weight(state.objective, episode) * episode.valid
        observations = jax.vmap(policy.normaliser)(episode.observations)
        actor_inputs = jax.vmap(policy.integrate, (0, None))(observations, episode.skill.code)
        privileged = jnp.tile(objective.privileged(state.objective, episode), (actor_inputs.shape[0], 1))
        critic_inputs = jnp.concatenate([actor_inputs, privileged], axis=-1)
        values = jax.vmap(state.agent.critic.params)(critic_inputs)[:, 0]
        terminated = episode.terminated if config.bootstrap else episode.terminated | episode.truncated
        advantages = gae(rewards, values, terminated, episode.valid, config.gamma, config.gae_lambda)
        log_probs = jax.vmap(policy.distribution.log_prob)(episode.extras, episode.actions)
        returns = advantages + values[:-1]
        return Batch(critic_inputs[:-1], episode.actions, log_probs, advantages, returns, weights), rewards

    batch, rewards = jax.vmap(of_one)(episodes)
    batch = batch._replace(advantages=standardise(batch.advantages, batch.weights))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch), rewards


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
    """-E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_H H(pi)."""
    params = actor.apply_batch(batch.inputs[:, : actor.input_size])
    log_probs = jax.vmap(distribution.log_prob)(params, batch.actions)
    entropies = jax.vmap(distribution.entropy)(params)
    ratios = jnp.exp(log_probs - batch.log_probs)
    clipped = jnp.clip(ratios, 1 - config.clip, 1 + config.clip)
    gains = jnp.minimum(ratios * batch.advantages, clipped * batch.advantages)
    loss, entropy = -weighted_mean(gains, batch), weighted_mean(entropies, batch)
    outside = weighted_mean((jnp.abs(ratios - 1) > config.clip).astype(jnp.float32), batch)
    return loss - config.entropy_weight * entropy, {"policy_loss": loss, "entropy": entropy, "clipped": outside}


def value_loss(critic: MLP, batch: Batch, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """c_V (V - R)^2."""
    loss = weighted_mean((critic.apply_batch(batch.inputs)[:, 0] - batch.returns) ** 2, batch)
    return config.value_weight * loss, {"value_loss": loss}


def weighted_mean(x: Float[Array, " n"], batch: Batch) -> Scalar:
    """Mean over the rows of the batch by their weights."""
    return jnp.sum(x * batch.weights) / jnp.maximum(jnp.sum(batch.weights), 1.0)
