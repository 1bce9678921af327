"""State Marginal Matching (Lee et al., 2019): the paper's stage 1 without an oracle.

SAC trains a mixture of policies, distinguished by a one-hot z. The reward is high for states that the mixture rarely
visits and that reveal which policy is acting:

    r_z(s) = nu_density (log p*(s) - log q(s)) + nu_discriminator (log q(z|s) - log p(z)),

where p* is uniform (a constant that is left out), q(s) is a VAE, q(z|s) is a classifier, and p(z) is uniform. Both
models are trained on states drawn uniformly from all experience (historical averaging), and p(s) is drawn in the same
way. Rewards are recomputed whenever a transition is sampled, because both models keep changing.

``reference_sign`` uses -log q(z|s) instead, like the public code of Lee et al. This contradicts the formula; it exists
only to replicate that code. The paper does not state the weights nu. Its authors' code uses 0.05 for the density on
their square maze and 1 on their tree maze.
"""

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
from edl.nets.density import DENSITIES
from edl.nets.mlp import MLP, mlp
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

MIN_LOG_DENSITY = -20.0
"""Lower limit of log q(s) in the reward: a histogram has -inf in cells that were never visited."""


@config
class SMMConfig:
    """The paper's table: 50,000 steps with 50 steps per episode. Its grids: alpha 0.1, 1, 10; beta 0.01, 0.1, 1."""

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
    """Model of q(s): the paper's VAE, trained by gradient steps, or a density that is refitted every iteration."""
    fitted_to: int = 1024
    """Number of states that a density other than the VAE is fitted to."""
    vae: VAEConfig = VAEConfig()
    """Settings of the VAE."""
    hidden: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the policies, critics and discriminator."""
    learning_rate: float = 1e-3
    """Learning rate of SAC."""
    discriminator_learning_rate: float = 1e-3
    """Learning rate of the discriminator."""
    gamma: float = 0.99
    """Discount factor of SAC."""
    tau: float = 0.005
    """Step size of SAC's target networks towards the critics."""
    batch_size: int = 128
    """States or transitions per gradient step."""
    update_every: int = 1
    """Environment steps per gradient step of the policies, of q(s) and of q(z|s)."""
    capacity: int = 50_000
    """Capacity of SAC's replay buffer, in transitions."""
    num_samples: int = 8192
    """Number of samples of p(s)."""
    region: Predicate | None = None
    """Restricts p(s) to the states inside it."""


class Models(NamedTuple):
    """q(s) and q(z|s)."""

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
        warmup=config.batch_size,
        update_every=config.update_every,
        batch_size=config.batch_size,
        hidden=config.hidden,
        learning_rate=config.learning_rate,
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
    """The reward r_z(s), and the training of q(s) and q(z|s)."""
    optimiser = optax.flatten(optax.adam(config.discriminator_learning_rate))

    def init(key: Key) -> SMMState:
        keep_key, density_key, discriminator_key = jax.random.split(key, 3)
        total = config.iterations * config.rollouts
        density = new_density(density_key, env.feature_size, config)
        classifier = mlp(discriminator_key, (env.feature_size, *config.hidden, config.policies))
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
        log_density = jnp.maximum(state.models.density.params.log_prob(reached), MIN_LOG_DENSITY)
        log_posterior = jax.nn.log_softmax(state.models.discriminator.params(reached))[skill.index]
        return smm_reward(log_density, log_posterior, config)

    def update(key: Key, state: SMMState, episodes: Episode) -> tuple[SMMState, Metrics]:
        state = record_episodes(state, episodes)
        sample_key, density_key = jax.random.split(key)
        steps = max(config.rollouts * env.horizon // config.update_every, 1)
        batches = sample_experience(sample_key, state, (steps, config.batch_size))
        density, density_metrics = update_density(density_key, state, batches.states, config)
        discriminator, discriminator_metrics = jax.lax.scan(
            lambda model, batch: gradient_step(optimiser, model, discriminator_loss, batch),
            state.models.discriminator,
            batches,
        )
        metrics = jax.tree.map(jnp.mean, density_metrics | discriminator_metrics)
        return state._replace(models=Models(density, discriminator)), metrics

    return Objective(init, sample, per_visit(reward), update)


def smm_reward(log_density: Scalar, log_posterior: Scalar, config: SMMConfig) -> Scalar:
    """r_z(s) from log q(s) and log q(z|s), with p* and p(z) uniform."""
    sign = -1.0 if config.reference_sign else 1.0
    distinctness = sign * log_posterior + jnp.log(config.policies)
    return -config.density_weight * log_density + config.discriminator_weight * distinctness


def new_density(key: Key, size: int, config: SMMConfig) -> Trained:
    """An untrained q(s) over states of ``size`` dimensions."""
    if config.density == "vae":
        return init_vae(key, size, config.vae)
    states_key, fit_key = jax.random.split(key)
    return Trained(DENSITIES[config.density](fit_key, jax.random.normal(states_key, (config.fitted_to, size))), ())


def update_density(
    key: Key, state: SMMState, batches: Float[Array, "n b s"], config: SMMConfig
) -> tuple[Trained, Metrics]:
    """q(s) after one gradient step per batch, or refitted to a sample of the experience."""
    if config.density == "vae":
        keys = jax.random.split(key, batches.shape[0])
        return jax.lax.scan(
            lambda q, at: update_vae(at[0], q, at[1], config.vae), state.models.density, (keys, batches)
        )
    sample_key, fit_key = jax.random.split(key)
    states = sample_experience(sample_key, state, (config.fitted_to,)).states
    return Trained(DENSITIES[config.density](fit_key, states), ()), {}


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
