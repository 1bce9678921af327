"""Worlds that live outside of JAX: episodes are stepped on the host, a whole batch in one callback.

A `HostEnv` is an `Env` like any other: the learners, explorers and objectives do not know the difference, and a program
stays one compiled thing. Under ``vmap`` the callback gets the whole batch (of rollouts, and of seeds), so that the host
steps it as a vector. An episode is a pure function of its key and its actions, because the key seeds the reset: seeds
do not depend on their company, and resuming is bit for bit, for every world that keeps to its seed.

A callback cannot raise without tearing the program down: a host that fails says so in ``failure`` and answers NaN from
then on, and whoever ran the program asks by `check_hosts`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from edl.config import ConfigError
from edl.envs.base import Box, Discrete, Env, Step
from edl.types import Key

Features = tuple[int, ...] | Callable[[Float[Array, " o"]], Float[Array, " s"]]
"""What skills are about: dimensions of the observation, or a function of it."""


@runtime_checkable
class Host(Protocol):
    """Steps episodes. Rows of a batch are flat vectors, so that a callback moves one array in and one out."""

    name: str
    failure: str | None

    def reset(self, seeds: Int[Array | np.ndarray, "*b"]) -> Float[np.ndarray, "*b r"]:
        """Begin an episode per seed: its ticket, then its first observation."""
        ...

    def step(self, moves: Float[Array | np.ndarray, "*b m"]) -> Float[np.ndarray, "*b r"]:
        """Ticket, time and action to ticket, observation, terminated and truncated."""
        ...


class WorldError(ConfigError):
    """A world outside of JAX failed while it was stepped. What was checkpointed before is safe."""


class HostState(NamedTuple):
    """An episode under way: the host's number for it, the steps taken, and what was last seen."""

    ticket: Float[Array, ""]
    time: Int[Array, ""]
    observation: Float[Array, " o"]


class HostEnv(Env):
    """A world stepped by a `Host`. ``num_actions`` is 0 if actions are continuous, in the box ``low`` to ``high``."""

    low: Float[Array, " a"]
    high: Float[Array, " a"]
    host: Host = eqx.field(static=True)
    about: Features = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True, default=0)

    @property
    def action_space(self) -> Box | Discrete:
        """The actions the world takes."""
        return Discrete(self.num_actions) if self.num_actions else Box(self.low, self.high)

    def reset(self, key: Key) -> HostState:
        """Begin an episode, seeded by the key."""
        seed = jax.random.randint(key, (), 0, 2**31 - 1)
        row = jax.ShapeDtypeStruct((1 + self.observation_size,), jnp.float32)
        answer = jax.pure_callback(self.host.reset, row, seed, vmap_method="broadcast_all")
        return HostState(answer[0], jnp.int32(0), answer[1:])

    def step(self, key: Key, state: HostState, action: Array) -> Step:
        """Step the episode. One that is over stays where it is."""
        flat = jnp.atleast_1d(jnp.asarray(action, jnp.float32))
        move = jnp.concatenate([state.ticket[None], state.time[None].astype(jnp.float32), flat])
        row = jax.ShapeDtypeStruct((3 + self.observation_size,), jnp.float32)
        answer = jax.pure_callback(self.host.step, row, move, vmap_method="broadcast_all")
        reached = HostState(answer[0], state.time + 1, answer[1:-2])
        return Step(reached, reached.observation, answer[-2] > 0, (answer[-1] > 0) | (reached.time >= self.horizon))

    def observe(self, state: HostState) -> Float[Array, " o"]:
        """What was last seen."""
        return state.observation

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """The dimensions, or the function, that skills are about."""
        return select(self.about, observation)


def select(about: Features, observation: Float[Array, " o"]) -> Float[Array, " s"]:
    """What skills are about, of an observation."""
    return about(observation) if callable(about) else observation[jnp.array(about, jnp.int32)]


def hosts_of(tree: PyTree) -> list[Host]:
    """The hosts of the worlds in a tree."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, HostEnv))
    return [leaf.host for leaf in leaves if isinstance(leaf, HostEnv)]


def check_hosts(tree: Any) -> None:
    """Raise what went wrong on the host, if anything did; the host is then ready for another try."""
    for host in hosts_of(tree):
        if host.failure is not None:
            failure, host.failure = host.failure, None
            raise WorldError(failure)
