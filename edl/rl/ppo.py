"""PPO (Schulman et al., 2017), written once, against `Objective`: one iteration plays episodes and descends on them.

L(theta) = E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_V (V - R)^2 + c_H H(pi),  rho = pi / pi_old.

The actor sees (s, z). The critic sees (s, z) and whatever the objective lets it see besides (Sibling Rivalry: the
antigoal).
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from edl import pair
from edl.artifacts import Integration, SkillPolicy, concatenate
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, rollout
from edl.nets.descend import Trained, follow, start
from edl.nets.distributions import Distribution, for_space
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, RunningMoments, identity, running_moments
from edl.objective import Objective
from edl.program import Program
from edl.rl.advantage import gae
from edl.rl.shuffle import shuffles
from edl.types import Key, Metrics, Scalar


@config
class PPOConfig:
    """Defaults are ours, tuned for wall-clock time to quality; `paper` has the paper's."""

    iterations: int = 400
    """Cycles of playing and descending."""
    rollouts: int = 128
    """Skills drawn per iteration; each is played once, or once per sibling."""
    epochs: int = 4
    minibatches: int = 8
    hidden: tuple[int, ...] = (128, 128)
    distribution: Literal["beta", "tanh_gaussian"] = "beta"
    """Of continuous actions; discrete ones always have a categorical."""
    normalise: bool = False
    """Normalise observations by running moments (otherwise by those of the explored states, where there are any)."""
    bootstrap: bool = True
    """At the time limit, bootstrap from V(s_T); off where the reward is terminal and undiscounted."""
    learning_rate: float = 2e-3
    last_learning_rate: float = 2e-4
    """The learning rate falls to this in a straight line."""
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_weight: float = 0.002
    value_weight: float = 0.5
    max_gradient_norm: float | None = 0.5
    """Longer gradients, of both networks together, are shortened to this; None leaves them as they are."""
    adam_epsilon: float = 1e-5


def paper(**changes: Any) -> PPOConfig:
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
    """The actor pi(a|s,z) and the critic V(s,z), each with its optimiser: they have no parameter in common."""

    actor: Trained
    critic: Trained


class PPOState(NamedTuple):
    """What PPO carries from one iteration to the next."""

    agent: Agent
    objective: Any
    moments: RunningMoments


class Batch(NamedTuple):
    """One row per step played."""

    inputs: Float[Array, "n c"]
    """Of the critic; the first ones are the actor's."""
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
    """Train pi(a|s,z) to maximise the objective's reward; ``integrate`` says how networks are told z."""
    distribution = for_space(env.action_space, config.distribution)
    fixed = identity(env.observation_size) if normaliser is None else normaliser
    optimiser = optax.adam(falling(config), eps=config.adam_epsilon)

    def policy_of(state: PPOState) -> SkillPolicy:
        normaliser = state.moments.normaliser() if config.normalise else fixed
        return SkillPolicy(state.agent.actor.params, normaliser, distribution, codes, integrate=integrate)

    def init(key: Key) -> PPOState:
        actor_key, critic_key, objective_key, probe_key = jax.random.split(key, 4)
        learned = objective.init(objective_key)
        privileged = jax.eval_shape(lambda: probe(probe_key, env, objective, learned, distribution)).shape[0]
        inputs = jax.eval_shape(integrate, jnp.zeros(env.observation_size), codes[0]).shape[0]
        actor = mlp(actor_key, (inputs, *config.hidden, distribution.size), last_scale=1e-2)
        critic = mlp(critic_key, (inputs + privileged, *config.hidden, 1))
        agent = Agent(start(optimiser, actor), start(optimiser, critic))
        return PPOState(agent, learned, running_moments(env.observation_size))

    def step(state: PPOState, key: Key) -> tuple[PPOState, Metrics]:
        play_key, descend_key, update_key = jax.random.split(key, 3)
        policy = policy_of(state)
        episodes = play(play_key, env, objective, state.objective, policy, config.rollouts)
        state = state._replace(objective=objective.look(state.objective, episodes))
        batch, rewards = prepare(state, objective, episodes, policy, config)
        agent, losses = fit(descend_key, state.agent, batch, distribution, optimiser, config)
        learned, metrics = objective.update(update_key, state.objective, episodes)
        moments = state.moments.update(*flat_observations(episodes)) if config.normalise else state.moments
        metrics = {"return": jnp.mean(jnp.sum(rewards, axis=1)), **losses, **metrics}
        return PPOState(agent, learned, moments), metrics

    env_steps = config.rollouts * objective.siblings * env.horizon
    return Program(init, step, policy_of, config.iterations, env_steps)


def falling(config: PPOConfig) -> optax.Schedule:
    """From the first learning rate to the last, over all descents."""
    total = config.iterations * config.epochs * config.minibatches
    return lambda count: config.learning_rate + (config.last_learning_rate - config.learning_rate) * count / total


def play(key: Key, env: Env, objective: Objective, learned: Any, policy: SkillPolicy, rollouts: int) -> Episode:
    """Draw skills, play each from its own start, ``siblings`` times; siblings are told where the other ended."""

    def act(noise, observation, code):
        params = policy(observation, code)
        return policy.distribution.transform(noise, params), params

    def family(key):
        skill_key, start_key, play_key = jax.random.split(key, 3)
        skill = objective.sample(skill_key, learned)
        keys = jax.random.split(play_key, objective.siblings)
        noise = policy.distribution.noise
        episodes = jax.vmap(lambda key: rollout(key, env, act, skill, start_key=start_key, draw=noise))(keys)
        episodes = episodes._replace(skill=jax.tree.map(lambda x: jnp.stack([x] * objective.siblings), skill))
        return episodes._replace(rival=jnp.roll(jax.vmap(lambda episode: episode.last)(episodes), 1, axis=0))

    families = pair.mapped(family, jax.random.split(key, rollouts))
    return jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), families)


def prepare(
    state: PPOState, objective: Objective, episodes: Episode, policy: SkillPolicy, config: PPOConfig
) -> tuple[Batch, Float[Array, "e t"]]:
    """Rewards, values and advantages of the episodes that a policy played, flattened to one row per step."""

    def of_one(episode: Episode) -> tuple[Batch, Float[Array, " t"]]:
        rewards = jnp.where(episode.valid, objective.reward(state.objective, episode), 0.0)
        weights = objective.weight(state.objective, episode) * episode.valid
        observations = jax.vmap(policy.normaliser)(episode.observations)
        actor_inputs = jax.vmap(policy.integrate, (0, None))(observations, episode.skill.code)
        privileged = jnp.tile(objective.privileged(state.objective, episode), (actor_inputs.shape[0], 1))
        critic_inputs = jnp.concatenate([actor_inputs, privileged], axis=-1)
        values = jax.vmap(state.agent.critic.params)(critic_inputs)[:, 0]
        ended = episode.terminated if config.bootstrap else episode.terminated | episode.truncated
        advantages = gae(rewards, values, ended, episode.valid, config.gamma, config.gae_lambda)
        log_probs = jax.vmap(policy.distribution.log_prob)(episode.extras, episode.actions)
        returns = advantages + values[:-1]
        return Batch(critic_inputs[:-1], episode.actions, log_probs, advantages, returns, weights), rewards

    batch, rewards = pair.mapped(of_one, episodes)
    batch = batch._replace(advantages=standardise(batch.advantages, batch.weights))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch), rewards


def fit(
    key: Key,
    agent: Agent,
    batch: Batch,
    distribution: Distribution,
    optimiser: optax.GradientTransformation,
    config: PPOConfig,
) -> tuple[Agent, Metrics]:
    """``epochs`` passes over the batch in ``minibatches`` shuffled parts. Of two devices, each fits one network."""
    size = batch.weights.shape[0]
    part = size // config.minibatches
    row = jax.tree.map(lambda x: x[0], batch)
    as_row = jax.flatten_util.ravel_pytree(row)[1]
    # One array, so that a shuffled minibatch is one gather.
    rows = jax.vmap(lambda row: jax.flatten_util.ravel_pytree(row)[0])(batch)
    orders = shuffles(key, config.epochs, size)[:, : part * config.minibatches].reshape(-1, part)

    def passes(step: Callable, trained: Any) -> tuple[Any, Metrics]:
        trained, metrics = jax.lax.scan(lambda net, order: step(net, jax.vmap(as_row)(rows[order])), trained, orders)
        return trained, jax.tree.map(jnp.mean, metrics)

    def of_actor(actor: Trained, chosen: Batch) -> tuple[MLP, Metrics]:
        return jax.grad(policy_loss, has_aux=True)(actor.params, chosen, distribution, config)

    def of_critic(critic: Trained, chosen: Batch) -> tuple[MLP, Metrics]:
        return jax.grad(value_loss, has_aux=True)(critic.params, chosen, config)

    def alone(gradients: Callable) -> Callable:
        def step(trained: Trained, chosen: Batch) -> tuple[Trained, Metrics]:
            grads, metrics = gradients(trained, chosen)
            return follow(optimiser, trained, grads), metrics

        return step

    def together(agent: Agent, chosen: Batch) -> tuple[Agent, Metrics]:
        (for_actor, of_policy), (for_critic, of_value) = pair.apart(
            lambda: of_actor(agent.actor, chosen), lambda: of_critic(agent.critic, chosen)
        )
        for_actor, for_critic = shortened((for_actor, for_critic), config.max_gradient_norm)
        actor, critic = follow(optimiser, agent.actor, for_actor), follow(optimiser, agent.critic, for_critic)
        return Agent(actor, critic), of_policy | of_value

    if not pair.paired() or config.max_gradient_norm is not None:
        return passes(together, agent)
    # Without a limit, neither has to know the other's gradients before all is done.
    (actor, of_policy), (critic, of_value) = pair.apart(
        lambda: passes(alone(of_actor), agent.actor), lambda: passes(alone(of_critic), agent.critic)
    )
    return Agent(actor, critic), of_policy | of_value


def shortened(gradients: PyTree, limit: float | Scalar | None) -> PyTree:
    """The gradients of both networks, as one vector no longer than ``limit``."""
    if limit is None:
        return gradients
    clip = optax.clip_by_global_norm(limit)
    return clip.update(gradients, clip.init(gradients))[0]


def policy_loss(actor: MLP, batch: Batch, distribution: Distribution, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """-E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_H H(pi), over the rows that train."""
    params = actor.rows(batch.inputs[:, : actor.inputs])
    log_probs = jax.vmap(distribution.log_prob)(params, batch.actions)
    entropies = jax.vmap(distribution.entropy)(params)
    ratios = jnp.exp(log_probs - batch.log_probs)
    clipped = jnp.clip(ratios, 1 - config.clip, 1 + config.clip)
    gains = jnp.minimum(ratios * batch.advantages, clipped * batch.advantages)
    loss, entropy = -mean(gains, batch), mean(entropies, batch)
    outside = mean((jnp.abs(ratios - 1) > config.clip).astype(jnp.float32), batch)
    return loss - config.entropy_weight * entropy, {"policy_loss": loss, "entropy": entropy, "clipped": outside}


def value_loss(critic: MLP, batch: Batch, config: PPOConfig) -> tuple[Scalar, Metrics]:
    """c_V (V - R)^2, over the rows that train."""
    loss = mean((critic.rows(batch.inputs)[:, 0] - batch.returns) ** 2, batch)
    return config.value_weight * loss, {"value_loss": loss}


def mean(x: Float[Array, " n"], batch: Batch) -> Scalar:
    """Over the rows that train."""
    return jnp.sum(x * batch.weights) / jnp.maximum(jnp.sum(batch.weights), 1.0)


def standardise(x: Float[Array, "e t"], weights: Float[Array, "e t"]) -> Float[Array, "e t"]:
    """Zero mean and unit variance over the steps that train."""
    total = jnp.maximum(jnp.sum(weights), 1.0)
    mean = jnp.sum(x * weights) / total
    variance = jnp.sum((x - mean) ** 2 * weights) / total
    return (x - mean) / (jnp.sqrt(variance) + 1e-8)


def flat_observations(episodes: Episode) -> tuple[Float[Array, "n o"], Array]:
    """Every observation before a step, and whether the step counted."""
    observations = episodes.observations[:, :-1]
    return observations.reshape(-1, observations.shape[-1]), episodes.valid.reshape(-1)


def probe(key: Key, env: Env, objective: Objective, learned: Any, distribution: Distribution) -> Float[Array, " c"]:
    """What the critic sees besides (s, z), of some episode: for its shape."""
    params = jnp.zeros(distribution.size)
    skill, nothing = objective.sample(key, learned), jnp.zeros(())
    episode = rollout(key, env, lambda key, *_: (distribution.sample(key, params), nothing), skill)
    return objective.privileged(learned, episode._replace(rival=episode.last))
