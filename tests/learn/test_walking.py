"""Walking distance comes from moves alone, and never takes a way through a wall."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import Experience
from edl.envs import layouts
from edl.envs.maze import MazeState, maze
from edl.evaluate.geodesic import Geodesic
from edl.explore.random_walk import random_action
from edl.learn import walking as module
from edl.learn.roads import crossings, shortest, spread_out
from edl.learn.walking import WalkingConfig, last, squares, walking_distance
from tests.compiling import jit
from tests.envs.random_mazes import random_text

CONFIG = WalkingConfig(landmarks=256, episodes=800)
TWO_ROOMS = """\
+-+-+-+-+
|S  |   |
+ + + + +
|   |   |
+ + + + +
|       |
+-+-+-+-+
"""


def experience_in(layout, episodes=800, persistence=0.8):
    """Episodes of persistent random actions that start anywhere in the maze."""
    world = maze(layout)

    def one(key):
        start_key, key = jax.random.split(key)
        first = MazeState(world.sample_states(start_key, 1)[0], jnp.int32(0))

        def step(carry, key):
            state, action = carry
            again_key, action_key, step_key = jax.random.split(key, 3)
            fresh = random_action(action_key, world.action_space)
            action = jnp.where(jax.random.uniform(again_key) < persistence, action, fresh)
            state = world.step(step_key, state, action).state
            return (state, action), (state.position, action)

        _, (path, actions) = jax.lax.scan(step, (first, jnp.zeros(2)), jax.random.split(key, 50))
        return jnp.concatenate([first.position[None], path]), actions

    paths, actions = jit(jax.vmap(one))(jax.random.split(jax.random.key(1), episodes))
    return Experience(paths, actions, jnp.full(episodes, 50))


@functools.cache
def in_two_rooms():
    """Experience in two rooms, which several tests share."""
    return experience_in(layouts.parse(TWO_ROOMS, "two_rooms"))


along = jit(lambda walking, path, goal: walking.along(path, goal))


@pytest.fixture(scope="module")
def build():
    return jit(walking_distance, static_argnums=2)


@pytest.mark.parametrize(
    "name",
    [
        "two_rooms",
        "bottleneck",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("square", "tree", "corridor_left")),
    ],
)
def test_distances_agree_with_the_maze_and_never_cut_through_a_wall(name, build):
    layout = layouts.parse(TWO_ROOMS, name) if name == "two_rooms" else layouts.load(name)
    experience = experience_in(layout)
    walking = build(jax.random.key(0), experience, CONFIG)
    truth = Geodesic.from_layout(layout)
    known = np.flatnonzero(np.asarray(walking.known))
    assert len(known) > 0.9 * CONFIG.landmarks * min(1, len(layout.cells) / 20)
    places = np.asarray(walking.landmarks * walking.unit)[known][:100]
    unit = float(np.exp(np.mean(np.log(walking.unit))))
    walks = np.asarray(walking.walks)[np.ix_(known, known)][:100, :100] * unit
    real = truth.distance(places, places)
    assert np.min(walks - real) > -0.6
    far = real > 2
    assert np.median(walks[far] / real[far]) < 1.3

    paths, goals = experience.paths[:64], places[np.arange(64) % len(places)]
    along = np.asarray(jax.jit(jax.vmap(walking.along))(paths, jnp.asarray(goals)))
    real = np.stack([truth.distance(np.asarray(p), g[None])[:, 0] for p, g in zip(paths, goals, strict=True)])
    assert np.corrcoef(along.ravel(), real.ravel())[0, 1] > 0.85
    assert np.mean(along < real - 1.5) < 0.02


def test_the_way_along_a_wall_to_its_gap_becomes_shorter(monkeypatch):
    # From the start to the wall at y = 1.5, then along it to the gap that begins at x = 6.5; the goal is far beyond it.
    layout = layouts.load("bottleneck")
    walking = jit(walking_distance, static_argnums=2)(jax.random.key(0), experience_in(layout), WalkingConfig())
    there = [(0.0, 0.0), (0.9, 0.4), (1.8, 0.8), (2.7, 0.9), (3.6, 1.0), (4.3, 1.0), (4.7, 1.2)]
    path = jnp.array(there + [(x, 1.45) for x in np.arange(5.0, 6.6, 0.1)])

    def rise():
        left = np.asarray(jit(lambda: walking.along(path, jnp.array([1.2, 7.7])))())[len(there) :]
        return np.max(left - np.minimum.accumulate(left)), left[0] - left[-1]

    most, gained = rise()
    assert most < 0.3
    assert gained > 1.0
    monkeypatch.setattr(module, "SIGHT", np.inf)  # as the crow flies, it is nearer from before the gap
    assert rise()[0] > 0.5


def test_an_episode_is_followed_on_the_right_side_of_every_wall(build):
    layout = layouts.parse(random_text(np.random.default_rng(0), 6, 6), "random")
    experience = experience_in(layout)
    walking = build(jax.random.key(0), experience, CONFIG)
    paths = experience.paths[:200]
    nodes = jax.jit(jax.vmap(lambda path: walking.follow(path / walking.unit)))(paths)
    places = np.asarray(walking.landmarks * walking.unit)[np.asarray(nodes)][:, 10::20].reshape(-1, 2)
    states = np.asarray(paths)[:, 10::20].reshape(-1, 2)
    walk = np.diag(Geodesic.from_layout(layout).distance(states, places))
    assert np.mean(walk > np.linalg.norm(states - places, axis=1) + 1.0) < 0.01


def test_aiming_at_goals_changes_nothing_but_what_is_remembered(build):
    experience = in_two_rooms()
    walking = build(jax.random.key(0), experience, CONFIG)
    goals = experience.paths[:4, 30]
    aimed = jit(lambda walking, goals: walking.aim(goals))(walking, goals)
    assert aimed.states.shape == (4, 2)
    for goal in goals:
        np.testing.assert_allclose(
            along(aimed, experience.paths[9], goal), along(walking, experience.paths[9], goal), rtol=1e-5
        )


def test_a_state_at_a_wall_is_on_the_side_it_came_from(build):
    walking = build(jax.random.key(0), in_two_rooms(), CONFIG)
    wall = 1.5
    towards_the_wall = jnp.stack([jnp.linspace(0.0, wall - 0.005, 8), jnp.zeros(8)], axis=1)
    behind_it = jnp.array([wall + 0.3, 0.0])
    assert along(walking, towards_the_wall, behind_it)[-1] > 3.0
    assert along(walking, towards_the_wall, jnp.array([1.2, 0.0]))[-1] < 0.5


def test_crossings_by_hand():
    starts, ends = jnp.array([[0.0, -1.0], [2.0, -1.0], [0.0, 0.1]]), jnp.array([[0.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    middles, pieces = jnp.array([[0.0, 0.0]]), jnp.array([[1.0, 0.0]])
    assert crossings(starts, ends, middles, pieces)[:, 0].tolist() == [True, False, False]
    parallel = crossings(jnp.array([[-1.0, 0.0]]), jnp.array([[1.0, 0.0]]), middles, pieces)
    assert not parallel[0, 0]


def test_the_last_share_is_found_as_argmax_finds_it():
    shares = np.random.default_rng(0).uniform(size=(200, 300)).astype(np.float32)
    shares[np.random.default_rng(1).uniform(size=shares.shape) < 0.98] = -1.0
    shares[0], shares[1] = -1.0, 0.0
    shares[2], shares[2, 299], shares[3, 0] = -1.0, 1.0, 1.0
    found, column = jit(last)(jnp.asarray(shares))
    np.testing.assert_array_equal(found, shares.max(axis=1) >= 0)
    assert not found[0]
    assert found[1]
    assert (column[2], column[3]) == (299, 0)
    rows = np.asarray(found)
    np.testing.assert_allclose(shares[rows, column[rows]], shares[rows].max(axis=1), atol=2.0**-13)


def test_squares_are_those_of_all_points_or_of_some():
    points, state = jnp.array([[0.0, 0.0, 1.0], [3.0, 4.0, 1.0], [1.0, 1.0, 3.0]]), jnp.array([0.0, 0.0, 1.0])
    assert squares(points, state).tolist() == [0.0, 25.0, 6.0]
    assert squares(points, state, jnp.array([2, 2, 1])).tolist() == [6.0, 6.0, 25.0]


def test_shortest_by_hand():
    none = np.inf
    roads = jnp.array([[none, 1.0, 5.0, none], [1.0, none, 1.0, none], [5.0, 1.0, none, none], [none] * 4])
    expected = np.array([[0, 1, 2, none], [1, 0, 1, none], [2, 1, 0, none], [none, none, none, 0]])
    assert np.array_equal(np.asarray(shortest(roads)), expected)


def test_spread_out_takes_the_farthest_and_leaves_out_what_is_unfit():
    points = jnp.array([[0.0], [0.25], [1.0], [2.0], [9.0]])
    chosen, gaps = spread_out(points, jnp.array([True, True, True, True, False]), 4)
    assert chosen.tolist() == [0, 3, 2, 1]
    assert gaps.tolist()[1:] == [2.0, 1.0, 0.25]


@pytest.mark.slow
def test_three_dimensions_have_no_way_through_a_wall(build):
    """A box in two halves; the wall x = 0 ends at y = 0."""

    def step(state, move):
        reached = jnp.clip(state + move, -2.0, 2.0)
        hit = (jnp.sign(reached[0]) != jnp.sign(state[0])) & ((state[1] < 0.0) | (reached[1] < 0.0))
        reached = jnp.where(hit, state.at[1:].set(reached[1:]), reached)
        return reached, reached

    def one(key):
        start_key, move_key = jax.random.split(key)
        start = jax.random.uniform(start_key, (3,), minval=-2.0, maxval=2.0)
        _, path = jax.lax.scan(step, start, jax.random.uniform(move_key, (50, 3), minval=-0.8, maxval=0.8))
        return jnp.concatenate([start[None], path])

    paths = jax.vmap(one)(jax.random.split(jax.random.key(0), 1000))
    experience = Experience(paths, jnp.zeros((1000, 50, 3)), jnp.full(1000, 50))
    walking = build(jax.random.key(0), experience, WalkingConfig(landmarks=768, episodes=1000, spacing=1.0))
    known = np.asarray(walking.known)
    places = np.asarray(walking.landmarks * walking.unit)[known]
    walks = np.asarray(walking.walks)[np.ix_(known, known)] * float(np.exp(np.mean(np.log(walking.unit))))
    low_left, low_right = (places[:, 0] < -0.3) & (places[:, 1] < -1), (places[:, 0] > 0.3) & (places[:, 1] < -1)
    assert low_left.sum() > 2
    assert low_right.sum() > 2
    assert walks[np.ix_(low_left, low_right)].min() > 2.0


@pytest.mark.slow
def test_seeds_can_be_vmapped():
    experience = experience_in(layouts.load("corridor_left"), episodes=100)
    two = jax.tree.map(lambda x: jnp.stack([x, x]), experience)
    config = WalkingConfig(landmarks=64, episodes=100, neighbours=16)
    keys = jax.random.split(jax.random.key(0), 2)
    both = jit(jax.vmap(lambda key, e: walking_distance(key, e, config)))(keys, two)
    alone = jit(lambda key, e: walking_distance(key, e, config))(keys[1], experience)
    assert np.allclose(np.asarray(both.walks[1]), np.asarray(alone.walks), atol=1e-4)
