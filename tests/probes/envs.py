"""Tiny envs with known answers: the best first action and its value.

Each probe isolates one part of a learner: the policy, the value of a termination, the value of a time limit, and the
assignment of credit back through time. The name of a failing probe says which part is wrong.
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
    """An env, a reward for reaching a state, and the right answers in the start state."""

    env: Env
    reward: Callable[[Float[Array, " s"]], Float[Array, ""]]
    best_action: float | None
    """Mean of the best policy; None if all policies are equally good."""
    value: float
    """Value of the start state under the best policy, discounted with ``GAMMA``."""


def at(tile: float) -> Callable[[Float[Array, " s"]], Float[Array, ""]]:
    """Reward 1 in one tile, 0 elsewhere."""
    return lambda state: jnp.float32(state[0] == tile)


PROBES = {
    "policy": Probe(OneStep(), lambda state: -((state[0] - 0.3) ** 2), best_action=0.3, value=0.0),
    "termination": Probe(chain(2, 8, terminates=True), at(1), best_action=RIGHT, value=1.0),
    "time_limit": Probe(chain(1, 8, terminates=False), at(0), best_action=None, value=1 / (1 - GAMMA)),
    "credit": Probe(chain(4, 16, terminates=True), at(3), best_action=RIGHT, value=GAMMA**2),
}
