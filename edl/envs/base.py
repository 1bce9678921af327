"""What a world is: reset, step, observe. Pure functions of a key; its parameters are the arrays of a pytree."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Bool, Float, PyTree

from edl.types import Key


class Box(NamedTuple):
    """Actions in a box of R^a."""

    low: Float[Array, " a"]
    high: Float[Array, " a"]

    @property
    def size(self) -> int:
        """Number of numbers in an action."""
        return self.low.shape[0]


class Discrete(eqx.Module):
    """Actions 0 .. n-1, as an integer scalar."""

    n: int = eqx.field(static=True)


class Step(NamedTuple):
    """What a step leads to. Time limits are no terminations; ``state`` and ``observation`` are those reached."""

    state: PyTree
    observation: Float[Array, " o"]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Env(eqx.Module):
    """A world. Subclasses are final; every array they hold is a leaf, so worlds of one shape can be vmapped."""

    horizon: eqx.AbstractVar[int]
    """Static: an episode is truncated after this many steps."""
    observation_size: eqx.AbstractVar[int]
    feature_size: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def action_space(self) -> Box | Discrete:
        """The actions the world takes."""

    @abc.abstractmethod
    def reset(self, key: Key) -> Any:
        """Draw s_0."""

    @abc.abstractmethod
    def step(self, key: Key, state: Any, action: Array) -> Step:
        """Draw s_{t+1}."""

    @abc.abstractmethod
    def observe(self, state: Any) -> Float[Array, " o"]:
        """What the policy sees of a state."""

    @abc.abstractmethod
    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """What skills are about: the ``s`` of p(s), q(z|s) and q(s|z)."""
