"""The speed of Gymnasium envs in a compiled program, relative to Gymnasium's own vector env.

    python benchmarks/host_stepping.py MountainCarContinuous-v0 HalfCheetah-v5

Ours: episodes of the default horizon, rolled out by `rollout` through `HostEnv`, including resets. Gymnasium's: as many
envs in a `SyncVectorEnv` that only steps. Actions are uniform and drawn before the first step. Both sides count the
steps of real episodes only: not the steps that a vector env spends on resets, nor steps after the end of an episode.
The two sides alternate, because other work on the machine then slows both. The result is the median ratio over the
rounds, of seconds and, where all steps run in this process, of CPU seconds. The target is a ratio above 0.7.

The environment variable ``ENVS`` sets the number of envs; the default is that of ``edl run``.
"""

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from edl.envs.host import HostEnv, check_hosts
from edl.envs.rollout import Skill, rollout
from edl.explore.random_walk import random_action
from edl.interop.env_names import make_env
from edl.runs.config import RunConfig
from edl.runs.presets import complete
from edl.runtime import threefry

ROUNDS = 9
ENV_IDS = ("MountainCarContinuous-v0", "CartPole-v1", "Pendulum-v1")


class Cost(NamedTuple):
    """Seconds per step."""

    wall: float
    cpu: float


def ours(env: HostEnv, envs: int) -> Callable[[int], int]:
    """Roll out a batch of episodes in a compiled program, and count their steps."""

    @jax.jit
    def play(env: HostEnv, key: jax.Array) -> jax.Array:
        draw = functools.partial(random_action, space=env.action_space)
        skill = Skill(jnp.zeros(0), jnp.int32(0))
        keys = jax.random.split(key, envs)
        return jax.vmap(lambda key: rollout(key, env, act, skill, draw=draw))(keys).valid.sum()

    def act(action: jax.Array, observation: jax.Array, code: jax.Array) -> tuple[jax.Array, jax.Array]:
        return action, jnp.zeros(0)

    return lambda seed: int(play(env, jax.random.key(seed)))


def theirs(name: str, horizon: int, envs: int) -> Callable[[int], int]:
    """Step a vector env for one horizon, and count the steps of real episodes."""
    vector = gymnasium.make_vec(name, num_envs=envs, vectorization_mode="sync")
    vector.reset(seed=0)
    actions = [vector.action_space.sample() for _ in range(horizon)]

    def play(seed: int) -> int:
        del seed
        ends = sum(int(np.sum(np.logical_or(*vector.step(action)[2:4]))) for action in actions)
        return envs * horizon - ends  # an env spends the step after an end on a reset

    return play


def measure(play: Callable[[int], int], seed: int) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    steps = play(seed)
    return Cost((time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps)


def main() -> None:
    """Print one line per env."""
    threefry.enable()  # as the command line does
    for name in sys.argv[1:] or ENV_IDS:
        envs = int(os.environ.get("ENVS", 0)) or complete(RunConfig(env=name)).learner.ppo.rollouts
        env = make_env(name)
        assert isinstance(env, HostEnv)
        players = ours(env, envs), theirs(name, env.horizon, envs)
        rounds = [[measure(play, seed) for play in players] for seed in range(ROUNDS + 1)][1:]  # the first one compiles
        check_hosts(env)
        workers = env.host.workers  # type: ignore[attr-defined]
        env.host.close()  # type: ignore[attr-defined]
        wall, cpu = (statistics.median(b[i] / a[i] for a, b in rounds) for i in range(2))
        rates = [1 / min(each[i].wall for each in rounds) for i in range(2)]
        note = f"{workers} workers" if workers else f"{cpu:.2f} by CPU time"
        speeds = f"{rates[0]:>9,.0f} of {rates[1]:>9,.0f} steps/s"
        print(f"{name:<28} {envs:>4} envs {speeds}: {wall:.2f}  ({note})", flush=True)


if __name__ == "__main__":
    main()
