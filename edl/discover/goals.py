"""From codes to goals g_z = argmax_s q(s|z): decode, see whether a goal is a state at all, and snap it to one.

A decoder is free to put a goal where no state is: into a wall, or outside. Such a goal cannot be reached, and a skill
that is paid for reaching it learns to press against the wall. `off_support` finds them, `snap` repairs them.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.artifacts import SkillModel, States
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, moments
from edl.nets.quantiser import nearest, perplexity, shares, squared_distances
from edl.types import Metrics, Scalar

SPACINGS = 4.0
"""How many typical spacings away from the nearest sample a goal is off the support. Between uniform samples of a plane
one point in 65,000 is that far away."""
PROBES = 512
"""Samples whose nearest neighbour is looked for: enough for a median."""


def skill_model(
    codes: Float[Array, "k z"],
    coders: tuple[MLP | None, MLP | None],
    normaliser: Normaliser,
    samples: Float[Array, "n s"],
    *,
    snap_to: Float[Array, "m s"] | None,
    continuous: bool = False,
) -> SkillModel:
    """The result of stage 2 from its codes and (encoder, decoder); goals are snapped to ``snap_to``, where given."""
    blank = jnp.zeros((codes.shape[0], samples.shape[-1]))
    encoder, decoder = coders
    bare = SkillModel(codes, blank, blank, jnp.zeros(codes.shape[0]), encoder, decoder, normaliser, continuous)
    decoded = jax.vmap(bare.decode)(codes)
    return dataclasses.replace(
        bare,
        decoded=decoded,
        goals=decoded if snap_to is None else snap(decoded, snap_to),
        usage=shares(jax.vmap(bare.assign)(samples), codes.shape[0]),
    )


def snap(goals: Float[Array, "k s"], samples: Float[Array, "n s"]) -> Float[Array, "k s"]:
    """The explored state nearest to each goal, every dimension measured in its standard deviations."""
    scaled, rows = in_deviations(goals, samples)
    return samples[jax.vmap(nearest, in_axes=(0, None))(scaled, rows)]


def off_support(goals: Float[Array, "k s"], samples: Float[Array, "n s"]) -> Bool[Array, " k"]:
    """Whether each goal lies off the explored states: many times farther from them than they are from each other."""
    scaled, rows = in_deviations(goals, samples)
    away = jax.vmap(lambda goal: jnp.min(squared_distances(goal, rows)))(scaled)
    return away > (SPACINGS * spacing(rows)) ** 2


def spacing(samples: Float[Array, "n s"]) -> Scalar:
    """The typical distance of a sample to the nearest sample that is not its equal."""
    probes = samples[:: max(1, samples.shape[0] // PROBES)]

    def to_neighbour(probe: Float[Array, " s"]) -> Scalar:
        squared = squared_distances(probe, samples)
        return jnp.sqrt(jnp.min(jnp.where(squared > 0.0, squared, jnp.inf)))

    typical = jnp.median(jax.vmap(to_neighbour)(probes))
    return jnp.where(jnp.isfinite(typical), typical, 1e-6)


def in_deviations(
    goals: Float[Array, "k s"], samples: Float[Array, "n s"]
) -> tuple[Float[Array, "k s"], Float[Array, "n s"]]:
    """Goals and samples in standard deviations of the samples, so that no dimension drowns the others."""
    scale = moments(samples)
    return jax.vmap(scale)(goals), jax.vmap(scale)(samples)


def goal_report(skills: SkillModel, states: States) -> Metrics:
    """What to know of a codebook before training on it: how evenly it is used, and whether its goals are states.

    ``goals_off_support`` counts the decoded goals, snapped or not; ``goal_offset`` is how far the worst goal was moved.
    """
    moved = jnp.linalg.norm(skills.goals - skills.decoded, axis=-1)
    return {
        "goals_off_support": jnp.sum(off_support(skills.decoded, states.samples)).astype(jnp.float32),
        "goal_offset": jnp.max(moved),
        "perplexity": perplexity(skills.usage),
        "usage_min": jnp.min(skills.usage),
        "codes_used": jnp.sum(skills.usage > 0).astype(jnp.float32),
    }
