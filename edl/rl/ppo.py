"""PPO (Schulman et al., 2017), written once, against `Objective`: one iteration plays episodes and descends on them.

L(theta) = E[ min(rho A, clip(rho, 1 - eps, 1 + eps) A) ] - c_V (V - R)^2 + c_H H(pi),  rho = pi / pi_old.

The actor sees (s, z). The critic sees (s, z) and whatever the objective lets it see besides (Sibling Rivalry: the
antigoal).
"""

from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from edl.artifacts import Integration, SkillPolicy, concatenate
from edl.envs.base import Env
from edl.envs.rollout import Episode, rollout
from edl.nets.optim import start
from edl.nets.distributions import Distribution, for_space
from edl.nets.mlp import mlp
from edl.nets.normalise import Normaliser, RunningMoments, identity, running_moments
from edl.objective import Objective
from edl.program import Program
from edl.rl.advantage import gae
from edl.rl.ppo_config import PPOConfig, falling
from edl.rl.ppo_fit import Agent, Batch, fit
from edl.types import Key, Metrics


class PPOState(NamedTuple):
    """What PPO carries from one iteration to the next."""

    agent: Agent
    objective: Any
    moments: RunningMoments


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
        state = state._replace(objective=objective.before_rewards(state.objective, episodes))
        batch, rewards = prepare(state, objective, episodes, policy, config)
        agent, losses = fit(descend_key, state.agent, batch, distribution, optimiser, config)
        learned, metrics = objective.update(update_key, state.objective, episodes)
        moments = state.moments.update(*flat_observations(episodes)) if config.normalise else state.moments
        metrics = {"return": jnp.mean(jnp.sum(rewards, axis=1)), **losses, **metrics}
        return PPOState(agent, learned, moments), metrics

    env_steps = config.rollouts * objective.siblings * env.horizon
    return Program(init, step, policy_of, config.iterations, env_steps)


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

    families = jax.vmap(family)(jax.random.split(key, rollouts))
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

    batch, rewards = jax.vmap(of_one)(episodes)
    batch = batch._replace(advantages=standardise(batch.advantages, batch.weights))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch), rewards


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
