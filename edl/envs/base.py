"""The interface of an env: reset, step, observe, features. Pure functions of a key; an env is a pytree."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PyTree

from edl.types import Key


class Box(NamedTuple):
    """Continuous actions between ``low`` and ``high``."""

    low: Float[Array, " a"]
    high: Float[Array, " a"]

    @property
    def size(self) -> int:
        return self.low.shape[0]


class Discrete(eqx.Module):
    """Actions 0 .. n-1, as an integer scalar."""

    n: int = eqx.field(static=True)


def random_action(key: Key, space: Box | Discrete) -> Array:
    """Draw an action uniformly."""
    if isinstance(space, Discrete):
        return jax.random.randint(key, (), 0, space.n)
    return jax.random.uniform(key, space.low.shape, minval=space.low, maxval=space.high)


class Step(NamedTuple):
    """The result of a step. A time limit truncates and does not terminate; ``state`` is the state reached."""

    state: PyTree
    observation: Float[Array, " o"]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Env(eqx.Module):
    """An environment. Subclasses are final. Every array they hold is a leaf, so envs of one shape can be vmapped."""

    horizon: eqx.AbstractVar[int]
    """Maximum number of steps per episode. Static."""
    observation_size: eqx.AbstractVar[int]
    feature_size: eqx.AbstractVar[int]
    timed: bool = eqx.field(static=True, default=False, kw_only=True)
    """Whether the last number of an observation is the time left (`edl.envs.clock`)."""

    @property
    def slow_to_compile(self) -> bool:
        """Whether a step is a large program. Loops over steps then repeat it once, and not several times."""
        return False

    @property
    def features_are_place(self) -> bool:
        """Whether all features say where the agent is, in one unit of which it can travel many."""
        return False

    @property
    @abc.abstractmethod
    def action_space(self) -> Box | Discrete: ...

    @abc.abstractmethod
    def reset(self, key: Key) -> Any:
        """Draw s_0."""

    @abc.abstractmethod
    def step(self, key: Key, state: Any, action: Array) -> Step:
        """Draw s_{t+1}.

        Batches are stepped together, so an episode that has ended is still stepped, from its last state. Its results
        are thrown away and may be anything, e.g. NaN.
        """

    @abc.abstractmethod
    def observe(self, state: Any) -> Float[Array, " o"]:
        """The observation of a state: the input of the policy."""

    @abc.abstractmethod
    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """The features that skills are about: the ``s`` of p(s), q(z|s) and q(s|z)."""


class EnvWrapper(Env):
    """An env around another one, which takes most of the time to compile."""

    inner: eqx.AbstractVar[Env]

    @property
    def slow_to_compile(self) -> bool:
        return self.inner.slow_to_compile
