"""State Marginal Matching (Lee et al., 2019): the paper's stage 1 without an oracle.

SAC trains a mixture of policies, distinguished by a one-hot z. The reward is high for states that the policy itself
rarely visits and that reveal which policy is acting:

    r_z(s) = nu_density (log p*(s) - log q_z(s)) + nu_discriminator (log q(z|s) - log p(z)),

where p* is uniform (a constant that is left out), q_z(s) is the density of the states of policy z, q(z|s) is a
classifier, and p(z) is uniform. With exact models and both weights 1 this is -log q_mix(s), the novelty for the whole
mixture, because q(z|s) = q_z(s) p(z) / q_mix(s). A density of the mixture in place of q_z would add log q(z|s) to that,
i.e. reward each policy for staying where it is. The VAE is conditioned on z as in the code of Lee et al.: it models the
pair (s, z). The other densities are fitted to each policy's states separately.

Both models are trained on states drawn uniformly from all experience (historical averaging), and p(s) is drawn in the
same way. Rewards are recomputed whenever a transition is sampled (``refresh_rewards``), because both models keep
changing.

``reference_sign`` uses -log q(z|s) instead, like the public code of Lee et al. This contradicts the formula; it exists
only to replicate that code.

`SMMConfig.paper` is the recipe of EDL's authors, whose code has the sign of the formula. Departs from it:
- An iteration plays an episode of 50 steps and then takes 50 gradient steps. In their code every step is followed by
  one gradient step.
- p(s) also contains the start states; theirs has the 50 states after the start. Their tree maze has the states of the
  first 5,000 steps, ours all 50,000, as the paper's table says.
- log std of the policy lies between -5 and 2; theirs between -20 and 2.
- The differences that `edl.explore.density_vae` lists.
"""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import Experience, States, empty_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import draw_states, record
from edl.explore.density_vae import VAEConfig, init_vae, update_vae
from edl.explore.region import Predicate
from edl.nets.density import DENSITIES, Density
from edl.nets.mlp import MLP, Initialisation, mlp
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

SQUARE = ("square",)
"""Envs with the weights of the authors' square maze. Others have those of their tree maze."""


@config
class SMMConfig:
    """The paper's table: 50,000 steps with 50 steps per episode. Its grids: alpha 0.1, 1, 10; beta 0.01, 0.1, 1.

    The paper does not state the weights nu. The defaults of the settings that are not in the table are ours.
    """

    iterations: int = 1000
    """Number of iterations."""
    rollouts: int = 1
    """Episodes per iteration."""
    policies: int = 4
    """Number of policies in the mixture."""
    density_weight: float = 10.0
    """Weight nu of the density in the reward."""
    discriminator_weight: float = 1.0
    """Weight nu of the discriminator in the reward."""
    reference_sign: bool = False
    """Reverse the sign of the discriminator's reward, as in the public code of SMM."""
    entropy_weight: float = 1.0
    """Weight alpha of the policy's entropy in SAC."""
    density: Literal["vae", "histogram", "kde", "knn"] = "vae"
    """Model of q_z(s): the paper's VAE, trained by gradient steps, or a density that is refitted every iteration."""
    min_log_density: float = -20.0
    """Lower limit of log q_z(s) in the reward: a histogram has -inf in cells that were never visited."""
    fitted_to: int = 1024
    """Number of states that a density other than the VAE is fitted to."""
    vae: VAEConfig = VAEConfig()
    """Settings of the VAE."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the policies, critics and discriminator."""
    initialisation: Initialisation = "xavier"
    """Initial weights of all networks: ``xavier``, or ``fan_in``, the default of PyTorch, as in the authors' code."""
    normalise: bool = True
    """Normalise the inputs of the policies and critics by running moments of the states."""
    value_network: bool = False
    """Learn V with a network of its own, as in the first version of SAC and in the authors' code."""
    refresh_rewards: bool = True
    """Compute the reward of a transition when it is sampled, instead of when it is played, as in the authors' code."""
    learning_rate: float = 1e-3
    """Learning rate of SAC."""
    discriminator_learning_rate: float = 1e-3
    """Learning rate of the discriminator."""
    adam_epsilon: float = 1e-8
    """Epsilon of Adam for SAC and the discriminator."""
    gamma: float = 0.99
    """Discount factor of SAC."""
    tau: float = 0.005
    """Step size of SAC's target networks towards the critics."""
    batch_size: int = 128
    """States or transitions per gradient step."""
    warmup: int = 128
    """Environment steps before the first gradient step."""
    update_every: int = 1
    """Environment steps per gradient step of the policies, of q_z(s) and of q(z|s)."""
    capacity: int = 50_000
    """Capacity of SAC's replay buffer, in transitions."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""

    @classmethod
    def paper(cls, env: str) -> "SMMConfig":
        """The recipe of the authors' code in the env of this name."""
        on_square = env in SQUARE
        return cls(
            density_weight=0.05 if on_square else 1.0,
            entropy_weight=1.0 if on_square else 0.1,
            min_log_density=-math.inf,
            vae=VAEConfig.paper(),
            hidden=(128, 128, 128),
            initialisation="fan_in",
            normalise=False,
            value_network=True,
            refresh_rewards=False,
            adam_epsilon=1e-3,
            warmup=1000,
        )


class Models(NamedTuple):
    """q_z(s) and q(z|s)."""

    density: Trained
    discriminator: Trained


class VisitedStates(NamedTuple):
    """States of the experience, and the z of the policy that reached each."""

    states: Float[Array, "n s"]
    policy: Int[Array, " n"]


class SMMState(NamedTuple):
    """The models and the experience they are trained on. ``policy`` is the z of each episode of the experience."""

    key: Key
    models: Models
    experience: Experience
    policy: Int[Array, " e"]
    episodes: Int[Array, ""]


def smm(env: Env, config: SMMConfig) -> Program[SACState, States]:
    """Match the state marginal to a uniform one; p(s) is drawn from all visited states, with equal weight per visit."""
    sac_config = SACConfig(
        iterations=config.iterations,
        rollouts=config.rollouts,
        capacity=config.capacity,
        warmup=config.warmup,
        update_every=config.update_every,
        batch_size=config.batch_size,
        hidden=config.hidden,
        initialisation=config.initialisation,
        normalise=config.normalise,
        value_network=config.value_network,
        refresh_rewards=config.refresh_rewards,
        learning_rate=config.learning_rate,
        adam_epsilon=config.adam_epsilon,
        gamma=config.gamma,
        tau=config.tau,
        entropy_weight=config.entropy_weight,
    )
    program = sac(env, smm_objective(env, config), sac_config, codes=jnp.eye(config.policies))

    def finish(state: SACState) -> States:
        smm_state: SMMState = state.objective
        return draw_states(smm_state.key, smm_state.experience, None, config.num_samples, config.region)

    return Program(program.init, program.step, finish, program.iterations, program.env_steps)


def smm_objective(env: Env, config: SMMConfig) -> Objective:
    """The reward r_z(s), and the training of q_z(s) and q(z|s)."""
    optimiser = optax.flatten(optax.adam(config.discriminator_learning_rate, eps=config.adam_epsilon))

    def init(key: Key) -> SMMState:
        keep_key, density_key, discriminator_key = jax.random.split(key, 3)
        total = config.iterations * config.rollouts
        density = new_density(density_key, env.feature_size, config)
        sizes = (env.feature_size, *config.hidden, config.policies)
        classifier = mlp(discriminator_key, sizes, initialisation=config.initialisation)
        return SMMState(
            key=keep_key,
            models=Models(density, new_trained(optimiser, classifier)),
            experience=empty_experience(env, total),
            policy=jnp.zeros(total, jnp.int32),
            episodes=jnp.int32(0),
        )

    def sample(key: Key, state: SMMState) -> Skill:
        index = jax.random.randint(key, (), 0, config.policies)
        return Skill(code=jax.nn.one_hot(index, config.policies), index=index)

    def reward(state: SMMState, reached: Float[Array, " s"], skill: Skill) -> Scalar:
        log_density = policy_log_density(state.models.density.params, reached, skill, config)
        log_posterior = jax.nn.log_softmax(state.models.discriminator.params(reached))[skill.index]
        return smm_reward(log_density, log_posterior, config)

    def train(state: SMMState, key: Key) -> tuple[Models, Metrics]:
        sample_key, density_key = jax.random.split(key)
        steps = max(config.rollouts * env.horizon // config.update_every, 1)
        batches = sample_experience(sample_key, state, (steps, config.batch_size))
        density, density_metrics = update_density(density_key, state, batches, config)
        discriminator, discriminator_metrics = jax.lax.scan(
            lambda model, batch: gradient_step(optimiser, model, discriminator_loss, batch),
            state.models.discriminator,
            batches,
        )
        return Models(density, discriminator), jax.tree.map(jnp.mean, density_metrics | discriminator_metrics)

    def wait(state: SMMState, key: Key) -> tuple[Models, Metrics]:
        return state.models, jax.tree.map(jnp.zeros_like, jax.eval_shape(train, state, key)[1])

    def update(key: Key, state: SMMState, episodes: Episode) -> tuple[SMMState, Metrics]:
        state = record_episodes(state, episodes)
        ready = jnp.sum(state.experience.lengths) >= config.warmup
        models, metrics = jax.lax.cond(ready, train, wait, state, key)
        return state._replace(models=models), metrics

    return Objective(init, sample, per_visit(reward), update)


def smm_reward(log_density: Scalar, log_posterior: Scalar, config: SMMConfig) -> Scalar:
    """r_z(s) from log q_z(s) and log q(z|s), with p* and p(z) uniform."""
    sign = -1.0 if config.reference_sign else 1.0
    distinctness = sign * log_posterior + jnp.log(config.policies)
    return -config.density_weight * log_density + config.discriminator_weight * distinctness


def policy_log_density(density: Density, state: Float[Array, " s"], skill: Skill, config: SMMConfig) -> Scalar:
    """log q_z(s), up to a constant that is the same for all z."""
    if config.density == "vae":
        log_density = density.log_prob(jnp.concatenate([state, skill.code]))
    else:
        log_density = jax.tree.map(lambda x: x[skill.index], density).log_prob(state)
    return jnp.maximum(log_density, config.min_log_density)


def new_density(key: Key, size: int, config: SMMConfig) -> Trained:
    """An untrained q_z(s) over states of ``size`` dimensions."""
    if config.density == "vae":
        return init_vae(key, size + config.policies, config.vae, config.initialisation)
    states_key, fit_key = jax.random.split(key)
    states = jax.random.normal(states_key, (config.fitted_to, size))
    return fit_densities(fit_key, VisitedStates(states, jnp.arange(config.fitted_to) % config.policies), config)


def update_density(key: Key, state: SMMState, batches: VisitedStates, config: SMMConfig) -> tuple[Trained, Metrics]:
    """q_z(s) after one gradient step per batch, or refitted to a sample of the experience."""
    if config.density != "vae":
        sample_key, fit_key = jax.random.split(key)
        return fit_densities(fit_key, sample_experience(sample_key, state, (config.fitted_to,)), config), {}
    keys = jax.random.split(key, batches.policy.shape[0])
    inputs = jnp.concatenate([batches.states, jax.nn.one_hot(batches.policy, config.policies)], axis=-1)
    return jax.lax.scan(lambda q, at: update_vae(at[0], q, at[1], config.vae), state.models.density, (keys, inputs))


def fit_densities(key: Key, visited: VisitedStates, config: SMMConfig) -> Trained:
    """One density per policy, with a leading axis. A policy without visits gets the density of all states."""

    def fit(index: Int[Array, ""]) -> Density:
        own = (visited.policy == index).astype(jnp.float32)
        weights = jnp.where(jnp.any(own > 0), own, 1.0)
        return DENSITIES[config.density](key, visited.states, weights)

    return Trained(jax.vmap(fit)(jnp.arange(config.policies)), ())


def record_episodes(state: SMMState, episodes: Episode) -> SMMState:
    """Append a batch of episodes to the experience."""
    count = episodes.valid.shape[0]
    return state._replace(
        experience=record(state.experience, episodes, state.episodes),
        policy=jax.lax.dynamic_update_slice_in_dim(state.policy, episodes.skill.index, state.episodes, axis=0),
        episodes=state.episodes + count,
    )


def sample_experience(key: Key, state: SMMState, shape: tuple[int, ...]) -> VisitedStates:
    """Draw visited states uniformly from all experience."""
    lengths = state.experience.lengths
    ends = jnp.cumsum(lengths)
    step = jax.random.randint(key, shape, 0, ends[-1])
    episode = jnp.searchsorted(ends, step, side="right")
    time = step - (ends - lengths)[episode] + 1
    return VisitedStates(state.experience.paths[episode, time], state.policy[episode])


def discriminator_loss(classifier: MLP, batch: VisitedStates) -> tuple[Scalar, Metrics]:
    """The cross-entropy of q(z|s)."""
    logits = jax.vmap(classifier)(batch.states)
    value = jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, batch.policy))
    return value, {"discriminator_loss": value}
