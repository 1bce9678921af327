"""The paper's skill discovery: a VQ-VAE (van den Oord et al., 2017) whose codebook is the set of skills.

The encoder z_e(x) and the nearest code are q(z|s), the decoder D is the mean of q(s|z), and p(z) is uniform over the
rows e_1 .. e_K of the codebook. The loss, on states x normalised by the moments of the dataset, is

    L = ||x - D(z_q)||^2 + ||sg[z_e] - e||^2 + beta ||z_e - sg[e]||^2,      z_q = e_k,  k = argmin_j ||z_e - e_j||,

where the gradient with respect to D's input is passed straight through to z_e. The goal of skill k is g_k = D(e_k). In
the authors' code the first term is the squared error in the units of the env (``raw_units``): it weighs each dimension
by its variance, and has more weight next to the other two terms in a larger env.

`VQVAEConfig.paper` is the recipe of the authors' code; a dead code stays dead. Departs from it: normalised states are
not clipped to [-5, 5]; and if the states come from SMM, it learns from 4096 of them, as the paper's table says, and not
from all. With normalised units and beta = 0.25 (edl 0.2), its error after 50,000 gradient steps was 3 to 33 % above the
quantisation error of k-means (square and bottleneck mazes, five seeds each). The default ends 1 to 3 % above k-means,
with every code in use, after about 300 steps:

* the first iteration trains a plain autoencoder, and the codebook then starts at z_e(c_k), where c_k are the k-means
  centroids of the states, which minimise the first term of L;
* only a part of each batch is decoded from z_q and the rest from z_e. Encoder and decoder then remain inverse to each
  other between the codes, so that a mean of two codes decodes to the mean of their goals;
* a code to which (almost) no state is assigned is moved to a state with a large error;
* training stops when the error over all samples stops improving.
"""

import math
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillModel, States
from edl.config import config
from edl.discover.kmeans import kmeans_centroids
from edl.discover.samples import check_enough, subsample
from edl.discover.skill_model import build_skill_model
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, fit_normaliser
from edl.nets.optim import Trained, gradient_step, new_trained
from edl.nets.quantiser import code_usage, nearest, perplexity, quantise
from edl.program import Program
from edl.types import Key, Metrics, Scalar

KMEANS_RESTARTS = 4
KMEANS_STEPS = 30
DEAD = 0.02
"""A code is dead if its usage is below this fraction of 1/K."""
CANDIDATES = 16
"""A dead code is moved to the sample with the largest error among this many random samples."""
METRIC_NAMES = ("loss", "codebook_error", "perplexity", "usage_min", "codes_used", "revived", "done")


@config
class VQVAEConfig:
    """Settings of the VQ-VAE. The defaults reach good skills quickly; `paper` is the paper's recipe."""

    num_skills: int = 10
    """Number of skills (rows of the codebook)."""
    num_samples: int = 4096
    """Number of explored states to train on."""
    code_size: int = 16
    """Dimensions of a code."""
    hidden_size: int = 128
    """Size of each hidden layer."""
    hidden_layers: int = 2
    """Number of hidden layers of the encoder and of the decoder."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    batch_size: int = 256
    """States per gradient step."""
    gradient_steps: int = 500
    """Maximum number of gradient steps."""
    steps_per_iteration: int = 50
    """Gradient steps per iteration. After each iteration, dead codes are revived and training may stop."""
    commitment: float = 0.25
    """Weight beta of the commitment loss. The paper searches 0.25 to 1.25; the authors' code always uses 1.5."""
    raw_units: bool = False
    """Measure the reconstruction error in the units of the env, as the authors do, and not in normalised units."""
    kmeans_init: bool = True
    """Initialise the codebook with the k-means centroids of the states instead of U(-1/K, 1/K)."""
    warmup_iterations: int = 1
    """Number of first iterations that train a plain autoencoder without the codebook."""
    quantised_share: float = 0.5
    """Fraction of each batch that is decoded from its nearest code; the rest is decoded from the encoder's output."""
    revive_codes: bool = True
    """Move dead codes to states with a large error."""
    patience: int = 3
    """Stop after this many iterations without progress; 0 disables early stopping."""
    tolerance: float = 0.01
    """Minimum relative decrease of the error that counts as progress."""
    snap_goals: bool = True
    """Move each decoded goal to the nearest explored state."""

    @classmethod
    def paper(cls) -> "VQVAEConfig":
        """The recipe of the authors' code: the paper's table, except for beta."""
        return cls(
            learning_rate=2e-4,
            gradient_steps=50_000,
            steps_per_iteration=100,
            commitment=1.5,
            raw_units=True,
            kmeans_init=False,
            warmup_iterations=0,
            quantised_share=1.0,
            revive_codes=False,
            patience=0,
            snap_goals=False,
        )


class VQVAE(eqx.Module):
    """The parameters: z_e, D and e."""

    encoder: MLP
    decoder: MLP
    codes: Float[Array, "k z"]


class VQVAEState(NamedTuple):
    """The samples ``x`` in normalised space, the model, and the state of early stopping."""

    x: Float[Array, "n s"]
    normaliser: Normaliser
    centroids: Float[Array, "k s"] | None
    trained: Trained
    iteration: Int[Array, ""]
    best: Scalar
    stalled: Int[Array, ""]
    metrics: Metrics


class Assignment(NamedTuple):
    """For every sample and its code e: z_e, ||z_e - e||^2 and ||x - D(e)||^2; and the usage of each code."""

    encoded: Float[Array, "n z"]
    distances: Float[Array, " n"]
    usage: Float[Array, " k"]
    errors: Float[Array, " n"]


def vqvae(states: States, config: VQVAEConfig) -> Program[VQVAEState, SkillModel]:
    """Learn q(z|s), q(s|z) and ``num_skills`` codes from samples of p(s)."""
    check_enough(config, states)

    def init(key: Key) -> VQVAEState:
        sample_key, model_key = jax.random.split(key)
        return init_state(model_key, subsample(sample_key, states, config.num_samples), config)

    def step(state: VQVAEState, key: Key) -> tuple[VQVAEState, Metrics]:
        train_more = partial(train_iteration, config)
        state = jax.lax.cond(state.metrics["done"] > 0, lambda state, key: state, train_more, state, key)
        return state, state.metrics

    def finish(state: VQVAEState) -> SkillModel:
        model = state.trained.params
        samples = jax.vmap(state.normaliser.inverse)(state.x)
        snap_to = states.samples if config.snap_goals else None
        networks = (model.encoder, model.decoder)
        return build_skill_model(model.codes, networks, state.normaliser, samples, snap_to=snap_to)

    return Program(init, step, finish, iterations=-(-config.gradient_steps // config.steps_per_iteration))


def init_state(key: Key, samples: Float[Array, "n s"], config: VQVAEConfig) -> VQVAEState:
    """Xavier-uniform networks, and a codebook initialised by k-means or from U(-1/K, 1/K)."""
    code_key, encoder_key, decoder_key = jax.random.split(key, 3)
    normaliser = fit_normaliser(samples)
    x = jax.vmap(normaliser)(samples)
    hidden, bound = [config.hidden_size] * config.hidden_layers, 1.0 / config.num_skills
    encoder = mlp(encoder_key, [x.shape[-1], *hidden, config.code_size])
    decoder = mlp(decoder_key, [config.code_size, *hidden, x.shape[-1]])
    if config.kmeans_init:
        centroids = kmeans_centroids(code_key, x, config.num_skills, KMEANS_RESTARTS, KMEANS_STEPS)
        codes = jax.vmap(encoder)(centroids)
    else:
        centroids = None
        codes = jax.random.uniform(code_key, (config.num_skills, config.code_size), minval=-bound, maxval=bound)
    return VQVAEState(
        x=x,
        normaliser=normaliser,
        centroids=centroids,
        trained=new_trained(optimiser_of(config), VQVAE(encoder, decoder, codes)),
        iteration=jnp.int32(0),
        best=jnp.float32(jnp.inf),
        stalled=jnp.int32(0),
        metrics=dict.fromkeys(METRIC_NAMES, jnp.float32(0.0)),
    )


def train_iteration(config: VQVAEConfig, state: VQVAEState, key: Key) -> VQVAEState:
    """Train for one iteration, then revive dead codes and check for progress."""
    warmup = state.iteration < config.warmup_iterations
    batches, candidates = draw_rows(key, state.x.shape[0], config)
    model, opt_state = train(config, state, batches, warmup)
    if state.centroids is not None:
        model = with_codes(model, jnp.where(warmup, jax.vmap(model.encoder)(state.centroids), model.codes))
    assigned = assign(model, state.x)
    dead = jnp.zeros(config.num_skills, bool)
    if config.revive_codes:
        dead = ~warmup & (assigned.usage < DEAD / config.num_skills)
        model = with_codes(model, jnp.where(dead[:, None], worst_candidates(assigned, candidates), model.codes))
    error = jnp.mean(assigned.errors)
    progress = warmup | jnp.any(dead) | (error < (1.0 - config.tolerance) * state.best)
    stalled = jnp.where(progress, 0, state.stalled + 1)
    done = (stalled >= config.patience) if config.patience else jnp.bool_(False)
    return state._replace(
        trained=Trained(model, opt_state),
        iteration=state.iteration + 1,
        best=jnp.where(warmup, jnp.inf, jnp.minimum(error, state.best)),
        stalled=stalled,
        metrics=metrics_of(assigned, revived=jnp.sum(dead), done=done),
    )


def train(config: VQVAEConfig, state: VQVAEState, batches: Int[Array, "g b"], warmup: Bool[Array, ""]) -> Trained:
    """One gradient step per batch."""
    # The rows of a batch are drawn independently, so its first rows are a random part of it.
    quantised = ~warmup & (jnp.arange(config.batch_size) < config.quantised_share * config.batch_size)
    weights = LossWeights(
        dimensions=state.normaliser.scale**2 if config.raw_units else jnp.ones(state.x.shape[-1]),
        codebook=jnp.where(warmup, 0.0, 1.0),
        commitment=jnp.asarray(config.commitment, jnp.float32),
    )
    optimiser = optimiser_of(config)

    def minibatch_step(trained: Trained, batch: Int[Array, " b"]) -> tuple[Trained, Metrics]:
        return gradient_step(optimiser, trained, loss, state.x[batch], quantised, weights)

    return jax.lax.scan(minibatch_step, state.trained, batches)[0]


def optimiser_of(config: VQVAEConfig) -> optax.GradientTransformation:
    """Adam on the flattened parameters: one loop to compile instead of one per layer."""
    return optax.flatten(optax.adam(config.learning_rate))


def draw_rows(key: Key, num_samples: int, config: VQVAEConfig) -> tuple[Int[Array, "g b"], Int[Array, "k c"]]:
    """Random rows of the samples: a batch per gradient step, and candidates for the new place of each dead code."""
    batches, candidates = (config.steps_per_iteration, config.batch_size), (config.num_skills, CANDIDATES)
    count = math.prod(batches)
    rows = jax.random.randint(key, (count + math.prod(candidates),), 0, num_samples)
    return rows[:count].reshape(batches), rows[count:].reshape(candidates)


class LossWeights(NamedTuple):
    """Weights of the terms of L: ``dimensions`` of the first one (the squared unit of each dimension).

    ``codebook`` is the weight of the last two terms: 1, or 0 while the codebook is not in use. ``commitment`` is beta.
    """

    dimensions: Float[Array, " s"]
    codebook: Scalar
    commitment: Scalar


def loss(
    model: VQVAE, x: Float[Array, "b s"], quantised: Bool[Array, " b"], weights: LossWeights
) -> tuple[Scalar, Metrics]:
    """L of the module docstring over a batch. Rows that are not ``quantised`` are decoded from z_e."""
    z_e = jax.vmap(model.encoder)(x)
    z_q = jax.vmap(quantise, in_axes=(0, None))(z_e, model.codes)
    decoded = jax.vmap(model.decoder)(jnp.where(quantised[:, None], z_q.code, z_e))
    reconstruction = jnp.sum(weights.dimensions * (x - decoded) ** 2, axis=-1)
    return jnp.mean(reconstruction + weights.codebook * (z_q.codebook + weights.commitment * z_q.commitment)), {}


def assign(model: VQVAE, x: Float[Array, "n s"]) -> Assignment:
    """Encode and quantise every sample. Only the K codes are decoded."""
    encoded = jax.vmap(model.encoder)(x)
    index = jax.vmap(nearest, in_axes=(0, None))(encoded, model.codes)
    decoded = jax.vmap(model.decoder)(model.codes)
    return Assignment(
        encoded=encoded,
        distances=jnp.sum((encoded - model.codes[index]) ** 2, axis=-1),
        usage=code_usage(index, model.codes.shape[0]),
        errors=jnp.sum((x - decoded[index]) ** 2, axis=-1),
    )


def worst_candidates(assigned: Assignment, candidates: Int[Array, "k c"]) -> Float[Array, "k z"]:
    """For every code, z_e of the sample with the largest error among its candidates."""
    worst = jnp.argmax(assigned.errors[candidates], axis=-1)
    return assigned.encoded[jnp.take_along_axis(candidates, worst[:, None], axis=-1)[:, 0]]


def with_codes(model: VQVAE, codes: Float[Array, "k z"]) -> VQVAE:
    """The same networks with a new codebook."""
    return VQVAE(model.encoder, model.decoder, codes)


def metrics_of(assigned: Assignment, *, revived: Int[Array, ""], done: Bool[Array, ""]) -> Metrics:
    """The terms of L over all samples, and how evenly the codes are used. ``done`` is 1 after training has stopped.

    ``loss`` is the first term alone. The others (``codebook_error``) grow with the scale of z_e and do not measure
    success.
    """
    values = (
        jnp.mean(assigned.errors),
        jnp.mean(assigned.distances),
        perplexity(assigned.usage),
        jnp.min(assigned.usage),
        jnp.sum(assigned.usage > 0),
        revived,
        done,
    )
    return {name: jnp.float32(value) for name, value in zip(METRIC_NAMES, values, strict=True)}
