"""Pictures of skills in Gymnasium envs that render: one episode of each skill, from its start to its end.

The envs are made and rendered in a worker process, because a graphics library that is not set up may end the process
that uses it, and a run must not be lost with it.
"""

import functools
import subprocess
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from edl.envs.host import HostEnv
from edl.evaluate.skill_rollouts import Policy
from edl.interop.env_worker import StepFailure, make_rendering
from edl.interop.gymnasium_host import GymnasiumHost, Worker

SEED = 0
"""All episodes are reset with it, so that skills can be compared: they start in the same state."""
TIMEOUT_SECONDS = 60.0
"""A renderer that takes longer for one answer is given up."""


class Pictures(NamedTuple):
    """A row of pictures for each skill; or None, and the ``problem`` says why."""

    frames: UInt8[np.ndarray, "k f h w 3"] | None
    problem: str = ""


def renders(env: HostEnv) -> bool:
    """Whether the env says that it can make pictures."""
    return isinstance(env.host, GymnasiumHost) and "rgb_array" in env.host.render_modes


def skill_pictures(env: HostEnv, policy: Policy, codes: Float[Array, "k z"], times: Sequence[int]) -> Pictures | None:
    """Play one episode of each skill and render it after ``times`` steps. None if the env does not render."""
    if not renders(env):
        return None
    assert isinstance(env.host, GymnasiumHost)
    import cloudpickle

    factory = cloudpickle.dumps(functools.partial(make_rendering, env.host.factory))
    worker = Worker(factory, stderr=subprocess.DEVNULL)  # graphics libraries complain there about missing displays
    try:
        return Pictures(_film(worker, policy, codes, times))
    except StepFailure as failure:
        return Pictures(None, f"There are no pictures, because env {env.host.name!r} {failure.reason}.")
    finally:
        worker.close()


def _film(
    worker: Worker, policy: Policy, codes: Float[Array, "k z"], times: Sequence[int]
) -> UInt8[np.ndarray, "k f h w 3"]:
    """The pictures of all skills at all times. An episode that has ended stays as it is."""
    _ask(worker)
    slots = np.arange(len(codes))
    seen = _ask(worker, "reset", slots.tolist(), [SEED] * len(slots))
    running, frames = np.ones(len(slots), bool), {0: _ask(worker, "render", slots.tolist(), None)}
    act = jax.jit(jax.vmap(policy.act))
    keys = jax.random.split(jax.random.key(SEED), (max(times, default=0), len(slots)))
    for time in range(1, max(times, default=0) + 1):
        if running.any():
            actions = np.asarray(act(keys[time - 1], jnp.asarray(seen, jnp.float32), codes), np.float32)
            rows = actions.reshape(len(slots), -1)[running]
            reached = _ask(worker, "step", slots[running].tolist(), rows)
            seen[running] = reached[:, :-2]
            running[running] = ~reached[:, -2:].any(axis=1)
        if time in times:
            frames[time] = _ask(worker, "render", slots.tolist(), None)
    return np.stack([frames[time] for time in times], axis=1)


def _ask(worker: Worker, *message: Any) -> Any:
    """The answer of the worker, within `TIMEOUT_SECONDS`. Without a message, wait until it is ready."""
    if message:
        worker.send(*message)
    if not worker.pipe.poll(TIMEOUT_SECONDS):
        worker.process.kill()
        raise StepFailure(None, f"did not answer within {TIMEOUT_SECONDS:.0f} s when it was rendered")
    return worker.receive()
