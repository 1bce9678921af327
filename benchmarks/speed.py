"""Environment steps a second, alone and with training at the paper's recipe. Ratios within one run are what counts."""

import statistics
import time

import jax

from edl import compile_cache
from edl.artifacts import States
from edl.discover.kmeans import KMeansConfig, kmeans
from edl.envs.maze import maze
from edl.explore.random_walk import wander
from edl.learn import learn, paper
from edl.learn.distance import Euclidean
from edl.program import execute, keys_of
from edl.rl import ppo

REPEATS = 5
BATCH = 4096
CYCLES = 10


def seconds(function, *inputs) -> tuple[float, float]:
    """Median and spread (largest minus smallest) of some calls after the first, which compiles."""
    jax.block_until_ready(function(*inputs))
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(function(*inputs))
        times.append(time.perf_counter() - began)
    return statistics.median(times), max(times) - min(times)


def main() -> None:
    """Print a table."""
    compile_cache.enable()
    world = maze("bottleneck")
    play = jax.jit(jax.vmap(lambda key: wander(key, world, 0.8).features))
    alone, spread = seconds(play, jax.random.split(jax.random.key(0), BATCH))
    print(f"{jax.devices()[0].device_kind}: medians of {REPEATS}, spread in brackets")
    print(f"world alone       {BATCH * world.horizon / alone:12,.0f} steps/s  [{100 * spread / alone:.0f} %]")

    states = States(world.sample_states(jax.random.key(1), 4096))
    skills, _ = jax.jit(lambda key: execute(kmeans(states, KMeansConfig()), key))(jax.random.key(2))
    recipe = paper(ppo=ppo.paper(iterations=CYCLES, gamma=1.0, bootstrap=False))
    program = learn(world, skills, Euclidean(), recipe)
    first, rest = keys_of(jax.random.key(3), CYCLES)
    train = jax.jit(lambda state, keys: jax.lax.scan(program.step, state, keys)[0])
    training, spread = seconds(train, jax.jit(program.init)(first), rest)
    steps = CYCLES * program.env_steps / training
    print(f"training, paper   {steps:12,.0f} steps/s  [{100 * spread / training:.0f} %]")


if __name__ == "__main__":
    main()
