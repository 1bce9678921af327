"""How much of a Gymnasium world's own vectorised speed is left when it is stepped from a compiled program.

    python benchmarks/host_stepping.py MountainCarContinuous-v0 HalfCheetah-v5

Ours: episodes of the default horizon, played by `rollout` through `HostEnv`, resets included. Gymnasium's: as many
environments in a `SyncVectorEnv` that does nothing but step. Actions are uniform, and drawn before the first step. Both
count steps of real episodes alone: not those that a vector environment spends on resets, nor any after an end. The two
take turns, because other work on the machine should slow them alike, and the share is the median over turns, of seconds
and, where all steps are taken in this process, of processor seconds. It is to stay above 0.7.

``ENVS`` in the environment sets the number of environments; by default it is that of ``edl run``.
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

from edl.runtime import threefry
from edl.envs.host import HostEnv, check_hosts
from edl.envs.rollout import Skill, rollout
from edl.runs.presets import complete
from edl.runs.config import RunConfig
from edl.explore.random_walk import random_action
from edl.interop.gymnasium_envs import host_env

ROUNDS = 9
WORLDS = ("MountainCarContinuous-v0", "CartPole-v1", "Pendulum-v1")


class Cost(NamedTuple):
    """Of a step, in seconds."""

    wall: float
    processor: float


def ours(env: HostEnv, envs: int) -> Callable[[int], int]:
    """Play a batch of episodes in a compiled program, and count their steps."""

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
    """Step a vector environment for as long as an episode lasts at most, and count real steps."""
    vector = gymnasium.make_vec(name, num_envs=envs, vectorization_mode="sync")
    vector.reset(seed=0)
    actions = [vector.action_space.sample() for _ in range(horizon)]

    def play(seed: int) -> int:
        del seed
        ends = sum(int(np.sum(np.logical_or(*vector.step(action)[2:4]))) for action in actions)
        return envs * horizon - ends  # an environment spends the step after its end on a reset

    return play


def timed(play: Callable[[int], int], seed: int) -> Cost:
    """What a step costs."""
    wall, processor = time.perf_counter(), time.process_time()
    steps = play(seed)
    return Cost((time.perf_counter() - wall) / steps, (time.process_time() - processor) / steps)


def main() -> None:
    """Print a line per world."""
    threefry.unroll()  # as every run does
    for name in sys.argv[1:] or WORLDS:
        envs = int(os.environ.get("ENVS", 0)) or complete(RunConfig(env=name)).learner.ppo.rollouts
        env = host_env(name)
        assert isinstance(env, HostEnv)
        players = ours(env, envs), theirs(name, env.horizon, envs)
        turns = [[timed(play, seed) for play in players] for seed in range(ROUNDS + 1)][1:]  # the first one compiles
        check_hosts(env)
        workers = env.host.workers  # type: ignore[attr-defined]
        env.host.close()  # type: ignore[attr-defined]
        wall, processor = (statistics.median(b[i] / a[i] for a, b in turns) for i in range(2))
        rates = [1 / min(turn[i].wall for turn in turns) for i in range(2)]
        by_processor = f"{workers} workers" if workers else f"{processor:.2f} by processor time"
        speeds = f"{rates[0]:>9,.0f} of {rates[1]:>9,.0f} steps/s"
        print(f"{name:<28} {envs:>4} envs {speeds}: {wall:.2f}  ({by_processor})", flush=True)


if __name__ == "__main__":
    main()
