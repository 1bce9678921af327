"""Worlds that live outside of JAX: episodes are stepped on the host, a whole batch in one callback.

A `HostEnv` is an `Env` like any other: the learners, explorers and objectives do not know the difference, and a program
stays one compiled thing. Under ``vmap`` the callback gets the whole batch (of rollouts, and of seeds), so that the host
steps it as a vector. An episode is a pure function of its key and its actions, because the key seeds the reset: seeds
do not depend on their company, and resuming is bit for bit, for every world that keeps to its seed.

A callback cannot raise without tearing the program down: a host that fails says so in ``failure`` and answers NaN from
then on, and whoever ran the program asks by `check_hosts`.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from edl.config import ConfigError
from edl.envs.base import Box, Discrete, Env, Step
from edl.types import Key

buffer_callback: Any = None
with contextlib.suppress(ImportError):  # experimental: without it, a step costs a tenth of a millisecond more
    from jax.experimental.buffer_callback import buffer_callback

C = TypeVar("C")
NOBODY = -1.0
"""The ticket of an episode that is over: its row needs no answer."""
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
        """Ticket (or `NOBODY`), time and action to ticket, observation, terminated and truncated."""
        ...


class WorldError(ConfigError):
    """A world outside of JAX failed while it was stepped. What was checkpointed before is safe."""


class HostState(NamedTuple):
    """An episode: the host's number for it, the steps taken, what was last seen, and whether it has ended."""

    ticket: Float[Array, ""]
    time: Int[Array, ""]
    observation: Float[Array, " o"]
    over: Bool[Array, ""]


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
        answer = ask(self.host.reset, seed, 1 + self.observation_size)
        return HostState(answer[0], jnp.int32(0), answer[1:], jnp.bool_(False))

    def step(self, key: Key, state: HostState, action: Array) -> Step:
        """Step the episode. One that is over stays where it is, and the host is not troubled with it."""
        ticket = jnp.where(state.over, NOBODY, state.ticket)
        flat = jnp.atleast_1d(jnp.asarray(action, jnp.float32))
        move = jnp.concatenate([ticket[None], state.time[None].astype(jnp.float32), flat])
        answer = ask(self.host.step, move, 3 + self.observation_size)
        time = state.time + ~state.over
        terminated = ~state.over & (answer[-2] > 0)
        truncated = (~state.over & (answer[-1] > 0)) | (time >= self.horizon)
        seen = jnp.where(state.over, state.observation, answer[1:-2])
        ticket = jnp.where(state.over, state.ticket, answer[0])
        return Step(HostState(ticket, time, seen, state.over | terminated | truncated), seen, terminated, truncated)

    def observe(self, state: HostState) -> Float[Array, " o"]:
        """What was last seen."""
        return state.observation

    def features(self, observation: Float[Array, " o"]) -> Float[Array, " s"]:
        """The dimensions, or the function, that skills are about."""
        return select(self.about, observation)


def ask(host: Callable[[Any], np.ndarray], question: Array, size: int) -> Float[Array, " r"]:
    """A row of ``size`` numbers from the host, which gets the questions of the whole batch at once.

    Where the program runs on the processor, the host reads and writes the program's own memory. The way that works
    everywhere makes JAX arrays of its arguments first, which takes longer than 20 steps of a simple world.
    """
    row = jax.ShapeDtypeStruct((size,), jnp.float32)
    if buffer_callback is None or jax.default_backend() != "cpu":
        return jax.pure_callback(host, row, question, vmap_method="broadcast_all")

    def answer(context: Any, out: Any, asked: Any) -> None:
        np.asarray(out)[...] = host(np.asarray(asked))

    return buffer_callback(answer, row, vmap_method="broadcast_all")(question)


@jax.custom_batching.custom_vmap
def any_of_all(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether it is so for any member of the batch, however many ``vmap`` there are: one answer for all of them."""
    return flag


@any_of_all.def_vmap
def _any_of_batch(size: int, batched: list[bool], flags: Bool[Array, "b ..."]) -> tuple[Array, bool]:
    return any_of_all(jnp.any(flags, axis=0)), False


def scan_while_any(
    playing: Callable[[Any], Bool[Array, ""]], body: Callable[[C, Any], tuple[C, PyTree]], first: C, xs: PyTree
) -> tuple[C, PyTree]:
    """`jax.lax.scan` for episodes that may end early: the loop ends with the last episode of the batch.

    An episode that is over stays as it is, and the rows after its end are all alike: what ``body`` makes of its end.
    So they do not depend on how long the rest of the batch goes on.
    """
    length = jax.tree.leaves(xs)[0].shape[0]

    def at(t: Int[Array, ""] | int) -> PyTree:
        return jax.tree.map(lambda x: x[t], xs)

    def goes_on(loop: tuple) -> Bool[Array, ""]:
        t, carry, _, _ = loop
        return (t < length) & any_of_all(playing(carry))

    def advance(loop: tuple) -> tuple:
        t, carry, rows, real = loop
        new, row = body(carry, at(t))
        rows, real = jax.tree.map(lambda all, one: put(all, one, t), (rows, real), (row, playing(carry)))
        return t + 1, jax.tree.map(lambda new, old: jnp.where(playing(carry), new, old), new, carry), rows, real

    def put(all: Array, one: Array, t: Int[Array, ""]) -> Array:
        return jax.lax.dynamic_update_index_in_dim(all, one, t, axis=0)

    shapes = jax.eval_shape(body, first, at(0))[1], jax.ShapeDtypeStruct((), bool)
    rows, real = jax.tree.map(lambda row: jnp.zeros((length, *row.shape), row.dtype), shapes)
    _, last, rows, real = jax.lax.while_loop(goes_on, advance, (jnp.int32(0), first, rows, real))
    _, after = body(last, at(length - 1))  # the chances of a step that it cannot have used
    return last, jax.vmap(lambda real, row: jax.tree.map(lambda x, y: jnp.where(real, x, y), row, after))(real, rows)


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
