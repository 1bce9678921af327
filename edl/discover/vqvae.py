"""The paper's skill discovery: a VQ-VAE (van den Oord et al., 2017) whose codebook is the set of skills.

The encoder z_e(x) and the nearest code are q(z|s), the decoder D is the mean of q(s|z), and p(z) is uniform over the
rows e_1 .. e_K of the codebook. On states normalised by the moments of the dataset it descends

    L = ||x - D(z_q)||^2 + ||sg[z_e] - e||^2 + beta ||z_e - sg[e]||^2,      z_q = e_k,  k = argmin_j ||z_e - e_j||,

with the gradient of D's input handed straight through to z_e. The goal of skill k is g_k = D(e_k).

`VQVAEConfig.paper` is the recipe of the paper's table. It takes 50,000 steps to end 3 to 33 per cent above the
quantisation error of k-means (square and bottleneck mazes, five seeds each), and has no cure for a dead code.
The default ends 1 to 3 per cent above it, with every code in use, after some 300 steps:

* the first iteration trains a plain autoencoder, and the codebook then starts at z_e(c_k), c_k being the k-means
  centroids of the states, which minimise the first term of L;
* only a share of each batch is decoded from z_q, the rest from z_e: encoder and decoder remain each other's inverse
  between the codes, so that blends of codes decode to blends of goals;
* a code that (almost) no state is assigned to is moved onto a state that is badly served;
* it stops when the error over all samples stops improving.
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
from edl.discover.goals import skill_model
from edl.discover.kmeans import centroids_of
from edl.discover.samples import subsample
from edl.nets.optim import Trained, descend, start
from edl.nets.mlp import MLP, mlp
from edl.nets.normalise import Normaliser, moments
from edl.nets.quantiser import nearest, perplexity, quantise, shares
from edl.program import Program
from edl.types import Key, Metrics, Scalar

KMEANS_RESTARTS = 4
KMEANS_STEPS = 30
DEAD = 0.02
"""A code with less than this part of an even share of the states counts as dead."""
CANDIDATES = 16
"""Samples of which the worst served becomes the new place of a dead code."""
METRICS = ("loss", "binding", "perplexity", "usage_min", "codes_used", "revived", "done")


@config
class VQVAEConfig:
    """How the VQ-VAE is trained; the defaults are tuned for time to quality, `paper` is the paper's recipe."""

    num_skills: int = 10
    num_samples: int = 4096
    """States to learn from, drawn from those explored."""
    code_size: int = 16
    hidden_size: int = 128
    hidden_layers: int = 2
    learning_rate: float = 1e-3
    batch_size: int = 256
    gradient_steps: int = 500
    """At most."""
    steps_per_iteration: int = 50
    """Gradient steps between two looks at the metrics, at dead codes, and at whether to stop."""
    commitment: float = 0.25
    """beta. The paper searches {0.25 .. 1.25}; the authors' code has 1.5 throughout."""
    kmeans_init: bool = True
    """Start the codebook at the k-means centroids of the states instead of at U(-1/K, 1/K)."""
    warmup_iterations: int = 1
    """Iterations as a plain autoencoder before the codebook is used."""
    quantised_share: float = 0.5
    """Share of each batch that is decoded from z_q; the rest is decoded from z_e."""
    revive_codes: bool = True
    """Move dead codes onto states that are badly served."""
    patience: int = 3
    """Stop after this many iterations without progress; 0 never stops."""
    tolerance: float = 0.01
    """The relative decrease of the error that counts as progress."""
    snap_goals: bool = True
    """Move each decoded goal to the nearest explored state."""

    @classmethod
    def paper(cls) -> "VQVAEConfig":
        """The recipe of the paper's table, with the first value of its grid for beta."""
        return cls(
            learning_rate=2e-4,
            gradient_steps=50_000,
            steps_per_iteration=100,
            commitment=0.25,
            kmeans_init=False,
            warmup_iterations=0,
            quantised_share=1.0,
            revive_codes=False,
            patience=0,
            snap_goals=False,
        )


class VQVAE(eqx.Module):
    """What is learned: z_e, D and e."""

    encoder: MLP
    decoder: MLP
    codes: Float[Array, "k z"]


class Discovery(NamedTuple):
    """The samples ``x`` in normalised space, the model, and what early stopping remembers."""

    x: Float[Array, "n s"]
    normaliser: Normaliser
    centroids: Float[Array, "k s"] | None
    trained: Trained
    iteration: Int[Array, ""]
    best: Scalar
    stalled: Int[Array, ""]
    metrics: Metrics


class Assignment(NamedTuple):
    """Where the model puts every sample: z_e, the share of each code, and ||x - D(z_q)||^2."""

    encoded: Float[Array, "n z"]
    distances: Float[Array, " n"]
    usage: Float[Array, " k"]
    errors: Float[Array, " n"]


def vqvae(states: States, config: VQVAEConfig) -> Program[Discovery, SkillModel]:
    """Learn q(z|s), q(s|z) and ``num_skills`` codes from samples of p(s)."""

    def init(key: Key) -> Discovery:
        sample_key, model_key = jax.random.split(key)
        return begin(model_key, subsample(sample_key, states, config.num_samples), config)

    def step(state: Discovery, key: Key) -> tuple[Discovery, Metrics]:
        state = jax.lax.cond(state.metrics["done"] > 0, lambda state, key: state, partial(advance, config), state, key)
        return state, state.metrics

    def finish(state: Discovery) -> SkillModel:
        model = state.trained.params
        samples = jax.vmap(state.normaliser.inverse)(state.x)
        snap_to = states.samples if config.snap_goals else None
        return skill_model(model.codes, (model.encoder, model.decoder), state.normaliser, samples, snap_to=snap_to)

    return Program(init, step, finish, iterations=-(-config.gradient_steps // config.steps_per_iteration))


def begin(key: Key, samples: Float[Array, "n s"], config: VQVAEConfig) -> Discovery:
    """Xavier-uniform networks, and a codebook from k-means or U(-1/K, 1/K)."""
    code_key, encoder_key, decoder_key = jax.random.split(key, 3)
    normaliser = moments(samples)
    x = jax.vmap(normaliser)(samples)
    hidden, bound = [config.hidden_size] * config.hidden_layers, 1.0 / config.num_skills
    encoder = mlp(encoder_key, [x.shape[-1], *hidden, config.code_size])
    decoder = mlp(decoder_key, [config.code_size, *hidden, x.shape[-1]])
    if config.kmeans_init:
        centroids = centroids_of(code_key, x, config.num_skills, KMEANS_RESTARTS, KMEANS_STEPS)
        codes = jax.vmap(encoder)(centroids)
    else:
        centroids = None
        codes = jax.random.uniform(code_key, (config.num_skills, config.code_size), minval=-bound, maxval=bound)
    return Discovery(
        x=x,
        normaliser=normaliser,
        centroids=centroids,
        trained=start(optimiser_of(config), VQVAE(encoder, decoder, codes)),
        iteration=jnp.int32(0),
        best=jnp.float32(jnp.inf),
        stalled=jnp.int32(0),
        metrics=dict.fromkeys(METRICS, jnp.float32(0.0)),
    )


def advance(config: VQVAEConfig, state: Discovery, key: Key) -> Discovery:
    """Train for one iteration, then look: revive dead codes, and stop where there is no more progress."""
    warming = state.iteration < config.warmup_iterations
    batches, candidates = drawn(key, state.x.shape[0], config)
    model, opt_state = train(config, state, batches, warming)
    if state.centroids is not None:
        model = with_codes(model, jnp.where(warming, jax.vmap(model.encoder)(state.centroids), model.codes))
    now = assign(model, state.x)
    dead = jnp.zeros(config.num_skills, bool)
    if config.revive_codes:
        dead = ~warming & (now.usage < DEAD / config.num_skills)
        model = with_codes(model, jnp.where(dead[:, None], badly_served(now, candidates), model.codes))
    error = jnp.mean(now.errors)
    progress = warming | jnp.any(dead) | (error < (1.0 - config.tolerance) * state.best)
    stalled = jnp.where(progress, 0, state.stalled + 1)
    done = (stalled >= config.patience) if config.patience else jnp.bool_(False)
    return state._replace(
        trained=Trained(model, opt_state),
        iteration=state.iteration + 1,
        best=jnp.where(warming, jnp.inf, jnp.minimum(error, state.best)),
        stalled=stalled,
        metrics=report(now, revived=jnp.sum(dead), done=done),
    )


def train(config: VQVAEConfig, state: Discovery, batches: Int[Array, "g b"], warming: Bool[Array, ""]) -> Trained:
    """A gradient step on every batch."""
    # Rows of a batch are drawn independently, so that its first rows are as good as any.
    quantised = ~warming & (jnp.arange(config.batch_size) < config.quantised_share * config.batch_size)
    binding, optimiser = jnp.where(warming, 0.0, 1.0), optimiser_of(config)

    def gradient_step(trained: Trained, batch: Int[Array, " b"]) -> tuple[Trained, Metrics]:
        return descend(optimiser, trained, loss, state.x[batch], quantised, binding, config.commitment)

    return jax.lax.scan(gradient_step, state.trained, batches)[0]


def optimiser_of(config: VQVAEConfig) -> optax.GradientTransformation:
    """Adam. Flat, it is one loop to compile instead of one for every layer."""
    return optax.flatten(optax.adam(config.learning_rate))


def drawn(key: Key, num_samples: int, config: VQVAEConfig) -> tuple[Int[Array, "g b"], Int[Array, "k c"]]:
    """Rows of the samples: a batch for every gradient step, and candidates for the place of every dead code."""
    batches, candidates = (config.steps_per_iteration, config.batch_size), (config.num_skills, CANDIDATES)
    count = math.prod(batches)
    rows = jax.random.randint(key, (count + math.prod(candidates),), 0, num_samples)
    return rows[:count].reshape(batches), rows[count:].reshape(candidates)


def loss(
    model: VQVAE, x: Float[Array, "b s"], quantised: Bool[Array, " b"], binding: Scalar, commitment: Scalar | float
) -> tuple[Scalar, Metrics]:
    """L of the module's docstring over a batch, in which the rows that are not ``quantised`` are decoded from z_e.

    ``binding`` weighs both terms that bind encoder and codebook: 1, or 0 while the codebook is not in use.
    """
    z_e = jax.vmap(model.encoder)(x)
    z_q = jax.vmap(quantise, in_axes=(0, None))(z_e, model.codes)
    decoded = jax.vmap(model.decoder)(jnp.where(quantised[:, None], z_q.code, z_e))
    reconstruction = jnp.sum((x - decoded) ** 2, axis=-1)
    return jnp.mean(reconstruction + binding * (z_q.codebook + commitment * z_q.commitment)), {}


def assign(model: VQVAE, x: Float[Array, "n s"]) -> Assignment:
    """Encode and quantise every sample; only K codes need decoding."""
    encoded = jax.vmap(model.encoder)(x)
    index = jax.vmap(nearest, in_axes=(0, None))(encoded, model.codes)
    decoded = jax.vmap(model.decoder)(model.codes)
    return Assignment(
        encoded=encoded,
        distances=jnp.sum((encoded - model.codes[index]) ** 2, axis=-1),
        usage=shares(index, model.codes.shape[0]),
        errors=jnp.sum((x - decoded[index]) ** 2, axis=-1),
    )


def badly_served(now: Assignment, candidates: Int[Array, "k c"]) -> Float[Array, "k z"]:
    """For every code, z_e of the sample with the largest error among its candidates."""
    worst = jnp.argmax(now.errors[candidates], axis=-1)
    return now.encoded[jnp.take_along_axis(candidates, worst[:, None], axis=-1)[:, 0]]


def with_codes(model: VQVAE, codes: Float[Array, "k z"]) -> VQVAE:
    """The same networks with another codebook."""
    return VQVAE(model.encoder, model.decoder, codes)


def report(now: Assignment, *, revived: Int[Array, ""], done: Bool[Array, ""]) -> Metrics:
    """The terms of L over all samples, and how evenly the codes are used; ``done`` once it has stopped.

    ``loss`` is the first term alone. The others (``binding``) grow with the scale of z_e and are no measure of success.
    """
    values = (
        jnp.mean(now.errors),
        jnp.mean(now.distances),
        perplexity(now.usage),
        jnp.min(now.usage),
        jnp.sum(now.usage > 0),
        revived,
        done,
    )
    return {name: jnp.float32(value) for name, value in zip(METRICS, values, strict=True)}
