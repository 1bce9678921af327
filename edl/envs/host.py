"""Envs that run outside of JAX: a callback steps a whole batch of episodes on the host.

A `HostEnv` is an ordinary `Env`: learners, explorers and objectives treat it like any other, and a program is still
compiled as a whole. Under ``vmap`` the callback receives the whole batch (episodes and seeds), and the host steps it as
a vector. The key seeds the reset, so an episode is a pure function of its key and its actions. Results therefore do not
depend on which seeds run together, and resuming is bit for bit, for every env that is deterministic given its seed.

A callback cannot raise without aborting the program. A host that fails stores a message in ``failure`` and returns NaN
from then on. The code that ran the program then calls `check_hosts`, which raises the message.
"""

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.config import ConfigError
from edl.envs.base import Box, Discrete, Env, Step
from edl.envs.clock import with_time_left
from edl.envs.features import Features, select_features
from edl.types import Key

buffer_callback: Any = None
with contextlib.suppress(ImportError):  # experimental; without it, a callback costs 0.1 ms more
    from jax.experimental.buffer_callback import buffer_callback

C = TypeVar("C")
FINISHED_EPISODE = -1.0
"""Replaces the slot of an episode that has ended: the host ignores the row."""
DEFAULT_HORIZON = 200
"""Maximum number of steps per episode in envs of other libraries, unless ``horizon`` is set: skills are short."""


@runtime_checkable
class Host(Protocol):
    """Steps batches of episodes. A row is a flat vector, because a callback then moves one array in and one out.

    Each episode occupies a slot of the host, which `reset` returns and `step` receives.
    """

    name: str
    failure: str | None

    def reset(self, seeds: Int[Array | np.ndarray, "*b"]) -> Float[np.ndarray, "*b r"]:
        """Start one episode per seed. A row of the result is (slot, first observation)."""
        ...

    def step(self, moves: Float[Array | np.ndarray, "*b m"]) -> Float[np.ndarray, "*b r"]:
        """Map rows of (slot or `FINISHED_EPISODE`, time, action) to (slot, observation, terminated, truncated)."""
        ...

    def close(self) -> None:
        """Close the envs. Episodes that are still played get NaN; the next reset makes new envs."""
        ...


class EnvError(ConfigError):
    """An env outside of JAX failed during a run. Earlier checkpoints of the run remain valid."""


class HostState(NamedTuple):
    """An episode: its slot on the host, the number of steps, the last observation, and whether it has ended."""

    slot: Float[Array, ""]
    time: Int[Array, ""]
    observation: Float[Array, " o"]
    ended: Bool[Array, ""]


class HostEnv(Env):
    """An env stepped by a `Host`. ``num_actions`` is 0 if actions are continuous, between ``low`` and ``high``."""

    low: Float[Array, " a"]
    high: Float[Array, " a"]
    host: Host = eqx.field(static=True)
    chosen_features: Features = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    observation_size: int = eqx.field(static=True)
    feature_size: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True, default=0)

    @property
    def action_space(self) -> Box | Discrete:
        return Discrete(self.num_actions) if self.num_actions else Box(self.low, self.high)

    def with_time_left(self) -> "HostEnv":
        """The same env, played by the same host, whose observations include the time left."""
        return dataclasses.replace(self, observation_size=self.observation_size + 1, timed=True)

    def reset(self, key: Key) -> HostState:
        """Start an episode; the key determines its seed."""
        seed = jax.random.randint(key, (), 0, 2**31 - 1)
        answer = call_host(self.host.reset, seed, 1 + self.host_size)
        return HostState(answer[0], jnp.int32(0), answer[1:], jnp.bool_(False))

    def step(self, key: Key, state: HostState, action: Array) -> Step:
        """Step the episode. One that has ended keeps its state, and the host skips it."""
        slot = jnp.where(state.ended, FINISHED_EPISODE, state.slot)
        flat = jnp.atleast_1d(jnp.asarray(action, jnp.float32))
        move = jnp.concatenate([slot[None], state.time[None].astype(jnp.float32), flat])
        answer = call_host(self.host.step, move, 3 + self.host_size)
        time = state.time + ~state.ended
        terminated = ~state.ended & (answer[-2] > 0)
        truncated = (~state.ended & (answer[-1] > 0)) | (time >= self.horizon)
        observation = jnp.where(state.ended, state.observation, answer[1:-2])
        slot = jnp.where(state.ended, state.slot, answer[0])
        reached = HostState(slot, time, observation, state.ended | terminated | truncated)
        return Step(reached, self.observe(reached), terminated, truncated)

    def observe(self, state: HostState) -> Float[Array, " o"]:
        if not self.timed:
            return state.observation
        return with_time_left(state.observation, self.horizon - state.time, self.horizon)

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        return select_features(self.chosen_features, observation[..., : self.host_size])

    @property
    def host_size(self) -> int:
        """The size of an observation of the host, which has no time."""
        return self.observation_size - self.timed


def call_host(function: Callable[[Any], np.ndarray], row: Array, size: int) -> Float[Array, " r"]:
    """Call ``function`` with the rows of the whole batch; a row of the result has ``size`` numbers.

    On a CPU the host reads and writes the program's own memory. `jax.pure_callback`, which works on every device,
    converts its arguments to JAX arrays first, and that takes longer than 20 steps of a simple env.
    """
    result = jax.ShapeDtypeStruct((size,), jnp.float32)
    if buffer_callback is None or jax.default_backend() != "cpu":
        return jax.pure_callback(function, result, row, vmap_method="broadcast_all")

    def write(context: Any, out: Any, rows: Any) -> None:
        np.asarray(out)[...] = function(np.asarray(rows))

    return buffer_callback(write, result, vmap_method="broadcast_all")(row)


@jax.custom_batching.custom_vmap
def any_in_batch(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether the flag is set for any member of the batch, across all enclosing ``vmap``."""
    return flag


@any_in_batch.def_vmap
def _reduce_any(size: int, batched: list[bool], flags: Bool[Array, "b ..."]) -> tuple[Array, bool]:
    return any_in_batch(jnp.any(flags, axis=0)), False


def scan_while_any(
    playing: Callable[[Any], Bool[Array, ""]], body: Callable[[C, Any], tuple[C, PyTree]], first: C, xs: PyTree
) -> tuple[C, PyTree]:
    """`jax.lax.scan` for episodes that may end early: the loop stops when the last episode of the batch ends.

    An episode that has ended keeps its carry, and all rows after its end are equal to what ``body`` returns for that
    carry. They do not depend on the length of the other episodes.
    """
    length = jax.tree.leaves(xs)[0].shape[0]

    def at(t: Int[Array, ""] | int) -> PyTree:
        return jax.tree.map(lambda x: x[t], xs)

    def unfinished(loop: tuple) -> Bool[Array, ""]:
        t, carry, _, _ = loop
        return (t < length) & any_in_batch(playing(carry))

    def advance(loop: tuple) -> tuple:
        t, carry, rows, real = loop
        new, row = body(carry, at(t))
        rows, real = jax.tree.map(lambda all, one: put(all, one, t), (rows, real), (row, playing(carry)))
        return t + 1, jax.tree.map(lambda new, old: jnp.where(playing(carry), new, old), new, carry), rows, real

    def put(all: Array, one: Array, t: Int[Array, ""]) -> Array:
        return jax.lax.dynamic_update_index_in_dim(all, one, t, axis=0)

    shapes = jax.eval_shape(body, first, at(0))[1], jax.ShapeDtypeStruct((), bool)
    rows, real = jax.tree.map(lambda row: jnp.zeros((length, *row.shape), row.dtype), shapes)
    _, last, rows, real = jax.lax.while_loop(unfinished, advance, (jnp.int32(0), first, rows, real))
    # The random inputs of the last step can be used again: an episode that has used them has no rows after its end.
    _, after = body(last, at(length - 1))
    return last, jax.vmap(lambda real, row: jax.tree.map(lambda x, y: jnp.where(real, x, y), row, after))(real, rows)


def hosts_of(tree: PyTree) -> list[Host]:
    """The hosts of all `HostEnv` in a tree."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, HostEnv))
    return [leaf.host for leaf in leaves if isinstance(leaf, HostEnv)]


_users: collections.Counter[Host] = collections.Counter()
_users_lock = threading.Lock()


@contextlib.contextmanager
def using_hosts(tree: PyTree) -> Iterator[None]:
    """Close the hosts of all `HostEnv` in a tree at the end, except those that something else still uses."""
    hosts = set(hosts_of(tree))
    with _users_lock:
        _users.update(hosts)
    try:
        yield
    finally:
        with _users_lock:
            _users.subtract(hosts)
            for host in hosts:
                if not _users[host]:
                    del _users[host]
                    host.close()


def check_hosts(tree: Any) -> None:
    """Raise the failure of a host as an `EnvError`, and clear it: the host can then be used again."""
    for host in hosts_of(tree):
        if host.failure is not None:
            failure, host.failure = host.failure, None
            raise EnvError(failure)
