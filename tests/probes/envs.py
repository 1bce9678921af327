"""Tiny worlds with what a learner must find in them: the best first action and its value.

Each isolates one thing: the policy alone, the value of a termination, that of a time limit, and credit that travels
back through time. A learner that fails a probe fails at what the probe is named after.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.envs.base import Env
from edl.envs.gridworld import OneStep, chain

GAMMA = 0.9
RIGHT = 1


class Probe(NamedTuple):
    """A world, what is paid for reaching a state in it, and the right answers in its start state."""

    env: Env
    reward: Callable[[Float[Array, " s"]], Float[Array, ""]]
    best_action: float | None
    """Mean of the best policy; None if all are equally good."""
    value: float
    """Of the start state under the best policy, discounted with ``GAMMA``."""


def at(place: float) -> Callable[[Float[Array, " s"]], Float[Array, ""]]:
    """Pays 1 in one tile."""
    return lambda state: jnp.float32(state[0] == place)


PROBES = {
    "policy": Probe(OneStep(), lambda state: -((state[0] - 0.3) ** 2), best_action=0.3, value=0.0),
    "termination": Probe(chain(2, 8, terminates=True), at(1), best_action=RIGHT, value=1.0),
    "time_limit": Probe(chain(1, 8, terminates=False), at(0), best_action=None, value=1 / (1 - GAMMA)),
    "credit": Probe(chain(4, 16, terminates=True), at(3), best_action=RIGHT, value=GAMMA**2),
}
