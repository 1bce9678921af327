"""A landmark graph of two rooms, which several test files share."""

import jax
import jax.numpy as jnp
import pytest

from edl.envs import layouts
from edl.envs.maze import maze
from edl.explore.random_walk import random_episode
from edl.graph.landmarks import add_episodes, empty_graph, typical_move
from edl.graph.shortest_paths import paths_from
from tests.compiling import jit

ROOMS = """\
+-+-+-+-+
|S  |   |
+ + + + +
|   |   |
+ + + + +
|   |  S|
+-+-+-+-+"""
BATCHES = 20


@pytest.fixture(scope="session")
def two_rooms():
    """The graph of two rooms with a wall at x = 1.5 between them, from random walks; and paths from the left room."""
    env = maze(layouts.parse(ROOMS), horizon=50)

    def walk(key):
        episode = random_episode(key, env, 0.5)
        return episode.features, episode.valid

    @jit
    def build(key):
        keys = jax.random.split(key, (BATCHES, 20))
        paths, valid = jax.lax.map(jax.vmap(walk), keys)
        graph = empty_graph(typical_move(paths[0], valid[0]), 512, 0.4)
        graph, _ = jax.lax.scan(lambda graph, batch: (add_episodes(graph, *batch), None), graph, (paths, valid))
        middle = jnp.argmin(graph.squared_distances(jnp.array([[0.5, -1.0]]) / graph.unit)[0])
        return graph, paths_from(graph, middle[None])

    return build(jax.random.key(0))
