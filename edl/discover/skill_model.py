"""From codes to a `SkillModel` with goals g_z = argmax_s q(s|z): decode each code, and snap its goal to a state.

A decoder can put a goal where no state is: inside a wall, or outside the maze. Such a goal cannot be reached, and a
skill that is rewarded for reaching it learns to press against the wall. `snap` moves it to the nearest explored state.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.artifacts import SkillModel
from edl.nets.mlp import MLP
from edl.nets.normalise import Normaliser, fit_normaliser
from edl.nets.quantiser import code_usage, nearest


def build_skill_model(
    codes: Float[Array, "k z"],
    networks: tuple[MLP | None, MLP | None],
    normaliser: Normaliser,
    samples: Float[Array, "n s"],
    *,
    snap_to: Float[Array, "m s"] | None,
    continuous: bool = False,
) -> SkillModel:
    """The result of stage 2 from its codes and its networks (encoder, decoder).

    ``samples`` determine the usage of the codes. Goals are snapped to ``snap_to``, unless it is None.
    """
    zeros = jnp.zeros((codes.shape[0], samples.shape[-1]))
    encoder, decoder = networks
    model = SkillModel(codes, zeros, zeros, jnp.zeros(codes.shape[0]), encoder, decoder, normaliser, continuous)
    decoded = jax.vmap(model.decode)(codes)
    return dataclasses.replace(
        model,
        decoded=decoded,
        goals=decoded if snap_to is None else snap(decoded, snap_to),
        usage=code_usage(jax.vmap(model.assign)(samples), codes.shape[0]),
    )


def snap(goals: Float[Array, "k s"], states: Float[Array, "n s"]) -> Float[Array, "k s"]:
    """The state nearest to each goal. Each dimension is measured in its standard deviation over the states."""
    scale = fit_normaliser(states)
    return states[jax.vmap(nearest, in_axes=(0, None))(jax.vmap(scale)(goals), jax.vmap(scale)(states))]
