"""How much of a Gymnasium world's own vectorised speed is left when it is stepped from a compiled program.

    python benchmarks/host_stepping.py MountainCarContinuous-v0 HalfCheetah-v5

Ours: uniform actions drawn under jit, episodes of the world's horizon, stepped through `HostEnv`. Gymnasium's: the
same number of environments in a `SyncVectorEnv`, with actions drawn beforehand. Steps of real episodes a second, best
of several; the share is to stay above 0.7.
"""

import os
import sys
import time

import gymnasium
import jax

from edl.envs.host import check_hosts
from edl.explore.random_walk import wander
from edl.interop.gymnasium_host import host_env

ENVS, REPEATS = int(os.environ.get("ENVS", "64")), 5
WORLDS = ("MountainCarContinuous-v0", "Pendulum-v1")


def ours(name: str) -> tuple[float, int, int]:
    """Steps a second through a compiled program, the horizon, and the number of workers."""
    env = host_env(name)
    play = jax.jit(lambda env, key: jax.vmap(lambda key: wander(key, env, 0.0))(jax.random.split(key, ENVS)))
    jax.block_until_ready(play(env, jax.random.key(0)))
    best = 0.0
    for seed in range(REPEATS):
        began = time.perf_counter()
        steps = float(jax.block_until_ready(play(env, jax.random.key(seed))).valid.sum())
        best = max(best, steps / (time.perf_counter() - began))
    check_hosts(env)
    workers = env.host.workers  # type: ignore[attr-defined]
    env.host.close()  # type: ignore[attr-defined]
    return best, env.horizon, workers


def theirs(name: str, horizon: int) -> float:
    """Steps a second of a vector environment by itself."""
    envs = gymnasium.make_vec(name, num_envs=ENVS, vectorization_mode="sync")
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(horizon)]
    best = 0.0
    for _ in range(REPEATS):
        began = time.perf_counter()
        for action in actions:
            envs.step(action)
        best = max(best, ENVS * horizon / (time.perf_counter() - began))
    envs.close()
    return best


def main() -> None:
    """Print a line per world."""
    for name in sys.argv[1:] or WORLDS:
        mine, horizon, workers = ours(name)
        plain = theirs(name, horizon)
        print(f"{name:<28} {mine:>9,.0f} of {plain:>9,.0f} steps/s: {mine / plain:.2f}  ({workers} workers)")


if __name__ == "__main__":
    main()
