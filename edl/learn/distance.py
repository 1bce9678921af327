"""Distances for the Gaussian q(s|z): straight through walls (the paper's), or `WalkingDistance` (ours)."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from edl.nets.normalise import Normaliser
from edl.types import Scalar


class Distance(eqx.Module):
    """d(s, g) from each state of an episode to a goal."""

    @abc.abstractmethod
    def along(self, path: Float[Array, "t1 s"], goal: Float[Array, " s"]) -> Float[Array, " t1"]:
        """d(s_0, g), ..., d(s_T, g)."""

    def start(self, state: Float[Array, " s"]) -> Any:
        """What is remembered in the first state of an episode: nothing, if a distance depends on its state alone."""
        del state

    def along_part(
        self, memory: Any, path: Float[Array, "t1 s"], goal: Float[Array, " s"]
    ) -> tuple[Float[Array, " t1"], Any]:
        """The distances along a part of an episode, and what is remembered in the last state of the part."""
        return self.along(path, goal), memory

    def confirms(self, distance: Scalar, state: Float[Array, " s"], goal: Float[Array, " s"]) -> Bool[Array, ""]:
        """Whether a state is as near to a goal as the straight line says, by its ``distance`` along its episode."""
        del distance, state, goal
        return jnp.bool_(True)

    def for_goals(self, goals: Float[Array, "k s"]) -> "Distance":
        """The same distance for these goals only, which may be faster to compute."""
        del goals
        return self


class EuclideanDistance(Distance):
    """||s - g||: the paper's Gaussian, which "does not consider the actual connectivity within the MDP"."""

    def along(self, path: Float[Array, "t1 s"], goal: Float[Array, " s"]) -> Float[Array, " t1"]:
        return jnp.sqrt(jnp.sum((path - goal) ** 2, axis=-1) + 1e-12)


class NormalisedDistance(Distance):
    """||(s - g) / scale||, in standard deviations of p(s): for envs whose dimensions have no common unit."""

    normaliser: Normaliser

    def along(self, path: Float[Array, "t1 s"], goal: Float[Array, " s"]) -> Float[Array, " t1"]:
        return jnp.sqrt(jnp.sum(((path - goal) / self.normaliser.scale) ** 2, axis=-1) + 1e-12)
