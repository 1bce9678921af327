"""Every long piece of work is a `Program`: a state, and a step that a scan repeats.

Explorers, discoverers, the learners and the baselines all return one, so that a single driver can draw their progress,
checkpoint them, resume them bit for bit, and run them for many seeds under ``vmap``.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from edl.types import Key, Keys, Metrics, Scalar

S = TypeVar("S")
A = TypeVar("A")


@dataclasses.dataclass(frozen=True)
class Program(Generic[S, A]):
    """Work that is a pure function of a key: ``finish(scan(step, init(key), keys))``.

    ``iterations`` and ``env_steps`` (environment steps in one iteration) are Python integers.
    """

    init: Callable[[Key], S]
    step: Callable[[S, Key], tuple[S, Metrics]]
    finish: Callable[[S], A]
    iterations: int
    env_steps: int = 0


def keys_of(key: Key, iterations: int) -> tuple[Key, Keys]:
    """The key of ``init`` and one key per iteration. Every way of running a program draws its keys here."""
    first, rest = jax.random.split(key)
    return first, jax.random.split(rest, iterations)


def execute(program: Program[Any, A], key: Key) -> tuple[A, Metrics]:
    """Run a program from start to end in one scan; metrics are stacked over iterations."""
    first, rest = keys_of(key, program.iterations)
    state, metrics = jax.lax.scan(program.step, program.init(first), rest)
    return program.finish(state), metrics


def instant(make: Callable[[Key], A]) -> Program[Any, A]:
    """A program that has nothing to repeat: its result is made in ``init``."""
    return Program(init=make, step=lambda state, key: (state, {}), finish=lambda state: state, iterations=1)


class Watched(NamedTuple):
    """What `until` keeps: the program's state, a running mean of one metric, and whether that is good enough."""

    inner: Any
    average: Scalar
    done: Bool[Array, ""]


def until(program: Program[S, A], metric: str, target: float | Scalar, rate: float = 0.1) -> Program[Watched, A]:
    """Stop a program once the running mean of a metric, which starts at 0, has reached ``target``.

    Its state is frozen from then on, so that what it gives does not depend on when, or beside which other seeds, the
    driver gets round to ending it; the metric ``done`` says that it may.
    """

    def init(key: Key) -> Watched:
        return Watched(program.init(key), jnp.float32(0.0), jnp.bool_(False))

    def step(state: Watched, key: Key) -> tuple[Watched, Metrics]:
        inner, metrics = program.step(state.inner, key)
        average = state.average + rate * (metrics[metric] - state.average)
        later = Watched(inner, average, average >= target)
        kept = jax.tree.map(lambda old, new: jnp.where(state.done, old, new), state, later)
        return kept, {**metrics, "done": kept.done.astype(jnp.float32)}

    return Program(init, step, lambda state: program.finish(state.inner), program.iterations, program.env_steps)


class Method(NamedTuple):
    """An entry of a registry: the config of a method, and what builds its program."""

    config: type
    build: Callable[..., Program]
