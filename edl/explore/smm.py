"""State Marginal Matching (Lee et al., 2019) as the paper uses it: its stage 1 without an oracle.

A mixture of policies, told apart by a one-hot z and trained by SAC, is paid for states that the mixture as a whole
seldom visits and that tell which of the policies is at work:

    r_z(s) = nu_density (log p*(s) - log q(s)) + nu_discriminator (log q(z|s) - log p(z)),

p* uniform (a constant, left out), q(s) a VAE, q(z|s) a classifier, p(z) uniform. Both models are fitted to states drawn
uniformly from all of the experience, and p(s), what is handed over, is drawn likewise: historical averaging. Rewards
are computed anew when a transition is sampled, since neither model ever rests.

``reference_sign`` pays -log q(z|s) instead, as the public code of Lee et al. does: against the formula, and only there
to replicate it. The paper is silent on the weights nu; its authors' code has 0.05 for the density on their square maze
and 1 on their tree.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from edl.artifacts import Experience, States, blank_experience
from edl.config import config
from edl.envs.base import Env
from edl.envs.rollout import Episode, Skill
from edl.explore.collect import draw_states, record
from edl.explore.density_vae import VAEConfig, init_vae, update_vae
from edl.explore.region import Predicate
from edl.nets.density import DENSITIES
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import MLP, mlp
from edl.objective import Objective, per_visit
from edl.program import Program
from edl.rl.sac import SACConfig, SACState, sac
from edl.types import Key, Metrics, Scalar

LEAST = -20.0
"""The least log q(s) that is paid for: a histogram's is -inf where nobody has been."""


@config
class SMMConfig:
    """The paper's table: 50,000 steps in a world of 50. Its grids: alpha 0.1, 1, 10; beta of the VAE 0.01, 0.1, 1."""

    iterations: int = 1000
    rollouts: int = 1
    policies: int = 4
    """In the mixture."""
    density_weight: float = 10.0
    discriminator_weight: float = 1.0
    reference_sign: bool = False
    """Pay for states that do not tell the policies apart, as the public code does."""
    entropy_weight: float = 1.0
    """alpha of SAC."""
    density: Literal["vae", "histogram", "kde", "knn"] = "vae"
    """What q(s) is: the paper's VAE, which takes gradient steps, or one that is fitted anew every iteration."""
    fitted_to: int = 1024
    """States that a density other than the VAE is fitted to."""
    vae: VAEConfig = VAEConfig()
    hidden: tuple[int, ...] = (128, 128)
    learning_rate: float = 1e-3
    discriminator_learning_rate: float = 1e-3
    gamma: float = 0.99
    tau: float = 0.005
    batch_size: int = 128
    update_every: int = 1
    """Environment steps per gradient step, of the policies and of q(s) and q(z|s) alike."""
    capacity: int = 50_000
    """Of the replay buffer that the policies learn from."""
    num_samples: int = 8192
    region: Predicate | None = None


class Models(NamedTuple):
    """q(s) and q(z|s)."""

    density: Trained
    discriminator: Trained


class Memories(NamedTuple):
    """States that were reached, and the z of the policy that reached them."""

    states: Float[Array, "n s"]
    policy: Int[Array, " n"]


class Knowledge(NamedTuple):
    """What the objective learns, and from what. ``policy`` is the z of each episode of the experience."""

    key: Key
    models: Models
    experience: Experience
    policy: Int[Array, " e"]
    episodes: Int[Array, ""]


def smm(env: Env, config: SMMConfig) -> Program[SACState, States]:
    """Match the marginal of the states to a uniform one; p(s) is where that led, every visit counting the same."""
    settings = SACConfig(
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
    learning = sac(env, smm_objective(env, config), settings, codes=jnp.eye(config.policies))

    def finish(state: SACState) -> States:
        known: Knowledge = state.objective
        weights = jnp.ones(known.experience.paths.shape[0] * known.experience.paths.shape[1])
        return draw_states(known.key, known.experience, weights, config.num_samples, config.region)

    return Program(learning.init, learning.step, finish, learning.iterations, learning.env_steps)


def smm_objective(env: Env, config: SMMConfig) -> Objective:
    """The reward r_z(s), and how q(s) and q(z|s) are fitted."""
    optimiser = optax.flatten(optax.adam(config.discriminator_learning_rate))

    def init(key: Key) -> Knowledge:
        keep_key, density_key, discriminator_key = jax.random.split(key, 3)
        total = config.iterations * config.rollouts
        density = new_density(density_key, env.feature_size, config)
        classifier = mlp(discriminator_key, (env.feature_size, *config.hidden, config.policies))
        return Knowledge(
            key=keep_key,
            models=Models(density, start(optimiser, classifier)),
            experience=blank_experience(env, total),
            policy=jnp.zeros(total, jnp.int32),
            episodes=jnp.int32(0),
        )

    def choose(key: Key, known: Knowledge) -> Skill:
        index = jax.random.randint(key, (), 0, config.policies)
        return Skill(code=jax.nn.one_hot(index, config.policies), index=index)

    def reward(known: Knowledge, state: Float[Array, " s"], skill: Skill) -> Scalar:
        log_density = jnp.maximum(known.models.density.params.log_prob(state), LEAST)
        log_posterior = jax.nn.log_softmax(known.models.discriminator.params(state))[skill.index]
        return smm_reward(log_density, log_posterior, config)

    def update(key: Key, known: Knowledge, episodes: Episode) -> tuple[Knowledge, Metrics]:
        known = remember(known, episodes)
        recall_key, density_key = jax.random.split(key)
        steps = max(config.rollouts * env.horizon // config.update_every, 1)
        memories = recall(recall_key, known, (steps, config.batch_size))
        density, fitted = improve_density(density_key, known, memories.states, config)
        discriminator, classified = jax.lax.scan(
            lambda model, batch: descend(optimiser, model, discriminator_loss, batch),
            known.models.discriminator,
            memories,
        )
        metrics = jax.tree.map(jnp.mean, fitted | classified)
        return known._replace(models=Models(density, discriminator)), metrics

    return Objective(init, choose, per_visit(reward), update)


def smm_reward(log_density: Scalar, log_posterior: Scalar, config: SMMConfig) -> Scalar:
    """r_z(s) from log q(s) and log q(z|s), with p* and p(z) uniform."""
    sign = -1.0 if config.reference_sign else 1.0
    identity = sign * log_posterior + jnp.log(config.policies)
    return -config.density_weight * log_density + config.discriminator_weight * identity


def new_density(key: Key, size: int, config: SMMConfig) -> Trained:
    """A q(s) that has seen nothing of the world."""
    if config.density == "vae":
        return init_vae(key, size, config.vae)
    states_key, fit_key = jax.random.split(key)
    return Trained(DENSITIES[config.density](fit_key, jax.random.normal(states_key, (config.fitted_to, size))), ())


def improve_density(
    key: Key, known: Knowledge, batches: Float[Array, "n b s"], config: SMMConfig
) -> tuple[Trained, Metrics]:
    """q(s) after a gradient step on each of the batches, or fitted anew to a sample of the experience."""
    if config.density == "vae":
        keys = jax.random.split(key, batches.shape[0])
        return jax.lax.scan(
            lambda q, at: update_vae(at[0], q, at[1], config.vae), known.models.density, (keys, batches)
        )
    recall_key, fit_key = jax.random.split(key)
    states = recall(recall_key, known, (config.fitted_to,)).states
    return Trained(DENSITIES[config.density](fit_key, states), ()), {}


def remember(known: Knowledge, episodes: Episode) -> Knowledge:
    """Write fresh episodes behind those that are there."""
    count = episodes.valid.shape[0]
    return known._replace(
        experience=record(known.experience, episodes, known.episodes),
        policy=jax.lax.dynamic_update_slice_in_dim(known.policy, episodes.skill.index, known.episodes, axis=0),
        episodes=known.episodes + count,
    )


def recall(key: Key, known: Knowledge, shape: tuple[int, ...]) -> Memories:
    """Draw uniformly from all of the experience."""
    lengths = known.experience.lengths
    ends = jnp.cumsum(lengths)
    step = jax.random.randint(key, shape, 0, ends[-1])
    episode = jnp.searchsorted(ends, step, side="right")
    time = step - (ends - lengths)[episode] + 1
    return Memories(known.experience.paths[episode, time], known.policy[episode])


def discriminator_loss(classifier: MLP, batch: Memories) -> tuple[Scalar, Metrics]:
    """Cross-entropy of q(z|s)."""
    logits = jax.vmap(classifier)(batch.states)
    value = jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, batch.policy))
    return value, {"discriminator_loss": value}
