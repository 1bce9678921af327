"""Every long computation is a `Program`: a state, and a step that a scan repeats.

Explorers, discoverers, the learners and the baselines all return one. So a single driver can show their progress,
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
    """A computation that is a pure function of a key: ``finish(scan(step, init(key), keys))``.

    ``iterations`` and ``env_steps`` (environment steps per iteration) are Python integers.
    """

    init: Callable[[Key], S]
    step: Callable[[S, Key], tuple[S, Metrics]]
    finish: Callable[[S], A]
    iterations: int
    env_steps: int = 0


def program_keys(key: Key, iterations: int) -> tuple[Key, Keys]:
    """The key of ``init`` and one key per iteration. Every function that runs a program takes its keys from here."""
    init_key, step_key = jax.random.split(key)
    return init_key, jax.random.split(step_key, iterations)


def run_program(program: Program[Any, A], key: Key) -> tuple[A, Metrics]:
    """Run a program from start to end in one scan; metrics are stacked over iterations."""
    init_key, step_keys = program_keys(key, program.iterations)
    state, metrics = jax.lax.scan(program.step, program.init(init_key), step_keys)
    return program.finish(state), metrics


def one_shot(compute: Callable[[Key], A]) -> Program[Any, A]:
    """A program without a loop: ``init`` computes the result, and the only step does nothing."""
    return Program(init=compute, step=lambda state, key: (state, {}), finish=lambda state: state, iterations=1)


class StoppingState(NamedTuple):
    """The state of `stop_at_target`: the program's own state, the running mean of the metric, and whether to stop."""

    inner: Any
    average: Scalar
    done: Bool[Array, ""]


NEVER_STOP = 2.0
"""A target that a success rate cannot reach: `stop_at_target` then never stops."""


def stop_at_target(
    program: Program[S, A], metric: str, target: float | Scalar, rate: float = 0.1
) -> Program[StoppingState, A]:
    """Stop a program once the running mean of a metric, which starts at 0, reaches ``target``.

    ``rate`` is the weight of the newest value in the running mean. The state is frozen after the target is reached. So
    the result does not depend on when the driver notices the metric ``done`` and stops, nor on the other seeds.
    """

    def init(key: Key) -> StoppingState:
        return StoppingState(program.init(key), jnp.float32(0.0), jnp.bool_(False))

    def step(state: StoppingState, key: Key) -> tuple[StoppingState, Metrics]:
        inner, metrics = program.step(state.inner, key)
        average = state.average + rate * (metrics[metric] - state.average)
        following = StoppingState(inner, average, average >= target)
        kept = jax.tree.map(lambda old, new: jnp.where(state.done, old, new), state, following)
        return kept, {**metrics, "done": kept.done.astype(jnp.float32)}

    return Program(init, step, lambda state: program.finish(state.inner), program.iterations, program.env_steps)


class Method(NamedTuple):
    """An entry of a registry: the config of a method, and the function that builds its program.

    ``offline``: a method without stages that learns from recorded states, ``build(env, states, config)``. A run then
    has an explorer or a dataset.
    """

    config: type
    build: Callable[..., Program]
    offline: bool = False
