"""Walking distance is estimated from moves alone, and no path leads through a wall."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import Experience
from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.maze import MazeState, maze
from edl.evaluate.geodesic import Geodesic
from edl.explore.random_walk import random_action
from edl.learn import walking as module
from edl.learn.rivalry import rival_weight
from edl.learn.walking import (
    WalkingConfig,
    WalkingDistance,
    last_crossing,
    squared_distances_to_rows,
    walking_distance,
)
from tests.compiling import jit
from tests.envs.random_mazes import random_text
from tests.learn.episodes import episode

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
    env = maze(layout)

    def one(key):
        start_key, key = jax.random.split(key)
        first = MazeState(env.sample_states(start_key, 1)[0], jnp.int32(0))

        def step(carry, key):
            state, action = carry
            again_key, action_key, step_key = jax.random.split(key, 3)
            fresh = random_action(action_key, env.action_space)
            action = jnp.where(jax.random.uniform(again_key) < persistence, action, fresh)
            state = env.step(step_key, state, action).state
            return (state, action), (state.position, action)

        _, (path, actions) = jax.lax.scan(step, (first, jnp.zeros(2)), jax.random.split(key, 50))
        return jnp.concatenate([first.position[None], path]), actions

    paths, actions = jit(jax.vmap(one))(jax.random.split(jax.random.key(1), episodes))
    return Experience(paths, actions, jnp.full(episodes, 50))


@functools.cache
def in_two_rooms():
    """Experience in two rooms. Several tests share it."""
    return experience_in(layouts.parse(TWO_ROOMS, "two_rooms"))


@functools.cache
def in_bottleneck():
    """Experience in the bottleneck maze. Two tests share it."""
    return experience_in(layouts.load("bottleneck"))


along = jit(lambda distance, path, goal: distance.along(path, goal))
along_many = jit(lambda distance, paths, goals: jax.vmap(distance.along)(paths, goals))


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
def test_distances_agree_with_the_maze_and_no_path_leads_through_a_wall(name, build):
    layout = layouts.parse(TWO_ROOMS, name) if name == "two_rooms" else layouts.load(name)
    experience = {"two_rooms": in_two_rooms, "bottleneck": in_bottleneck}.get(name, lambda: experience_in(layout))()
    distance = build(jax.random.key(0), experience, CONFIG)
    truth = Geodesic.from_layout(layout)
    rows = np.flatnonzero(np.asarray(distance.connected))
    assert len(rows) > 0.9 * CONFIG.landmarks * min(1, len(layout.cells) / 20)
    places = np.asarray(distance.landmarks * distance.unit)[rows][:100]
    unit = float(np.exp(np.mean(np.log(distance.unit))))
    lengths = np.asarray(distance.path_lengths)[np.ix_(rows, rows)][:100, :100] * unit
    real = truth.distance(places, places)
    assert np.min(lengths - real) > -0.6
    far = real > 2
    assert np.median(lengths[far] / real[far]) < 1.3

    paths, goals = experience.paths[:64], places[np.arange(64) % len(places)]
    estimates = np.asarray(along_many(distance, paths, jnp.asarray(goals)))
    real = np.stack([truth.distance(np.asarray(p), g[None])[:, 0] for p, g in zip(paths, goals, strict=True)])
    assert np.corrcoef(estimates.ravel(), real.ravel())[0, 1] > 0.85
    assert np.mean(estimates < real - 1.5) < 0.02


def test_the_distance_decreases_along_a_wall_towards_its_gap(build, monkeypatch):
    # From the start to the wall at y = 1.5, then along it to the gap, which begins at x = 6.5. The goal is beyond it.
    distance = build(jax.random.key(0), in_bottleneck(), WalkingConfig())
    to_the_wall = [(0.0, 0.0), (0.9, 0.4), (1.8, 0.8), (2.7, 0.9), (3.6, 1.0), (4.3, 1.0), (4.7, 1.2)]
    path = jnp.array(to_the_wall + [(x, 1.45) for x in np.arange(5.0, 6.6, 0.1)])

    def rise():
        traced_again = jit(lambda distance, path: distance.along(path, jnp.array([1.2, 7.7])))
        distances = np.asarray(traced_again(distance, path))[len(to_the_wall) :]
        return np.max(distances - np.minimum.accumulate(distances)), distances[0] - distances[-1]

    largest_rise, decrease = rise()
    assert largest_rise < 0.3
    assert decrease > 1.0
    monkeypatch.setattr(module, "SIGHT_RADIUS", np.inf)  # in a straight line, the goal is nearer before the gap
    assert rise()[0] > 0.5


def test_an_ambiguous_position_is_the_one_farther_from_the_goal(monkeypatch):
    # A wall on y = 0 ends at the origin. Landmarks: its end, one above the wall, one below it. The goal is above.
    landmarks = jnp.array([[0.0, 0.0], [-1.1, 0.15], [-1.1, -0.2]])
    distance = WalkingDistance(
        unit=jnp.ones(2),
        landmarks=landmarks,
        half_segments=jnp.zeros((3, 2)),  # no move crosses a landmark
        connected=jnp.ones(3, bool),
        starts=jnp.array([True, False, False]),
        path_lengths=jnp.array([[0.0, 1.11, 1.12], [1.11, 0.0, 2.23], [1.12, 2.23, 0.0]]),
        visible=jnp.array([[0, 1, 2], [1, 0, 1], [2, 0, 2]]),
        reference_states=jnp.array([[-4.0, 1.0]]),
        reference_landmarks=jnp.array([1]),
        goal_distances=jnp.array([[4.1, 3.0, 5.2]]),
    )
    along_the_wall = jnp.array([[0.0, 0.0], [-1.1, -0.01]])  # 0.16 from the landmark above, 0.19 from the one below

    def at_the_wall():
        return float(distance.along(along_the_wall, jnp.array([-4.0, 1.0]))[1])

    assert at_the_wall() == pytest.approx(5.2 + 0.19)
    monkeypatch.setattr(module, "AMBIGUITY_RADIUS", 0.0)
    assert at_the_wall() == pytest.approx(3.0 + 0.16)


def test_an_episode_is_followed_on_its_side_of_every_wall(build):
    layout = layouts.parse(random_text(np.random.default_rng(0), 6, 6), "random")
    experience = experience_in(layout)
    distance = build(jax.random.key(0), experience, CONFIG)
    paths = experience.paths[:200]
    rows = jit(lambda distance, paths: jax.vmap(distance.follow)(paths / distance.unit))(distance, paths)
    places = np.asarray(distance.landmarks * distance.unit)[np.asarray(rows)][:, 10::20].reshape(-1, 2)
    states = np.asarray(paths)[:, 10::20].reshape(-1, 2)
    walk = np.diag(Geodesic.from_layout(layout).distance(states, places))
    assert np.mean(walk > np.linalg.norm(states - places, axis=1) + 1.0) < 0.01


def test_distances_for_given_goals_equal_those_for_any_goal(build):
    experience = in_two_rooms()
    distance = build(jax.random.key(0), experience, CONFIG)
    goals = experience.paths[:4, 30]
    to_goals = jit(lambda distance, goals: distance.for_goals(goals))(distance, goals)
    assert to_goals.reference_states.shape == (4, 2)
    for goal in goals:
        np.testing.assert_allclose(
            along(to_goals, experience.paths[9], goal), along(distance, experience.paths[9], goal), rtol=1e-5
        )


def test_a_state_at_a_wall_is_on_the_side_that_its_episode_came_from(build):
    distance = build(jax.random.key(0), in_two_rooms(), CONFIG)
    wall = 1.5
    towards_the_wall = jnp.stack([jnp.linspace(0.0, wall - 0.005, 8), jnp.zeros(8)], axis=1)
    behind_the_wall = jnp.array([wall + 0.3, 0.0])
    assert along(distance, towards_the_wall, behind_the_wall)[-1] > 3.0
    assert along(distance, towards_the_wall, jnp.array([1.2, 0.0]))[-1] < 0.5


def test_last_crossing_agrees_with_argmax():
    fractions = np.random.default_rng(0).uniform(size=(200, 300)).astype(np.float32)
    fractions[np.random.default_rng(1).uniform(size=fractions.shape) < 0.98] = -1.0
    fractions[0], fractions[1] = -1.0, 0.0
    fractions[2], fractions[2, 299], fractions[3, 0] = -1.0, 1.0, 1.0
    found, column = jit(last_crossing)(jnp.asarray(fractions))
    np.testing.assert_array_equal(found, fractions.max(axis=1) >= 0)
    assert not found[0]
    assert found[1]
    assert (column[2], column[3]) == (299, 0)
    rows = np.asarray(found)
    np.testing.assert_allclose(fractions[rows, column[rows]], fractions[rows].max(axis=1), atol=2.0**-13)


def test_squared_distances_to_rows_by_hand():
    points, state = jnp.array([[0.0, 0.0, 1.0], [3.0, 4.0, 1.0], [1.0, 1.0, 3.0]]), jnp.array([0.0, 0.0, 1.0])
    assert squared_distances_to_rows(state, points, jnp.array([0, 1, 2])).tolist() == [0.0, 25.0, 6.0]
    assert squared_distances_to_rows(state, points, jnp.array([2, 2, 1])).tolist() == [6.0, 6.0, 25.0]


@pytest.mark.slow
def test_no_path_leads_through_a_wall_in_three_dimensions(build):
    """A box with a wall at x = 0 between its halves. The wall covers y < 0 only."""

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
    distance = build(jax.random.key(0), experience, WalkingConfig(landmarks=768, episodes=1000, spacing=1.0))
    connected = np.asarray(distance.connected)
    places = np.asarray(distance.landmarks * distance.unit)[connected]
    unit = float(np.exp(np.mean(np.log(distance.unit))))
    lengths = np.asarray(distance.path_lengths)[np.ix_(connected, connected)] * unit
    low_left, low_right = (places[:, 0] < -0.3) & (places[:, 1] < -1), (places[:, 0] > 0.3) & (places[:, 1] < -1)
    assert low_left.sum() > 2
    assert low_right.sum() > 2
    assert lengths[np.ix_(low_left, low_right)].min() > 2.0


def test_at_least_one_of_two_siblings_trains(build):
    """Also if they end close together: an episode knows on which side of a wall it is, and a state alone does not."""
    experience = in_bottleneck()
    distance, ends = build(jax.random.key(0), experience, CONFIG), experience.paths[:200, -1]
    nearest = np.argmin(np.linalg.norm(ends[:, None] - ends, axis=-1) + 100 * np.eye(200), axis=1)

    @jit
    @jax.vmap
    def weights(one, other, goal):
        pairs = (one, other[-1]), (other, one[-1])
        return jnp.stack([rival_weight(distance, 0.15, 0.0, episode(path, goal, rival=end)) for path, end in pairs])

    found = np.asarray(weights(experience.paths[:200], experience.paths[nearest], jnp.roll(ends, 7, axis=0)))
    assert (found.sum(axis=1) >= 1).all()
    assert found.sum() < 225  # the closer sibling rarely trains


@pytest.mark.slow
def test_walking_distance_under_vmap_equals_each_seed_alone():
    experience = experience_in(layouts.load("corridor_left"), episodes=100)
    two = jax.tree.map(lambda x: jnp.stack([x, x]), experience)
    config = WalkingConfig(landmarks=64, episodes=100, neighbours=16)
    keys = jax.random.split(jax.random.key(0), 2)
    both = jit(jax.vmap(lambda key, e: walking_distance(key, e, config)))(keys, two)
    alone = jit(lambda key, e: walking_distance(key, e, config))(keys[1], experience)
    assert np.allclose(np.asarray(both.path_lengths[1]), np.asarray(alone.path_lengths), atol=1e-4)


def test_a_part_of_an_episode_is_measured_like_the_whole(build):
    """The landmark at the end of a part is remembered, and nothing else is needed to go on."""
    experience = in_two_rooms()
    distance, goal = build(jax.random.key(0), experience, CONFIG), jnp.array([3.0, 0.0])
    path = experience.paths[7]

    @jit
    def in_parts(distance, path):
        memory, found = distance.start(path[0]), []
        for begin in range(0, 50, 10):
            distances, memory = distance.along_part(memory, path[begin : begin + 11], goal)
            found.append(distances[1:])
        return jnp.concatenate(found)

    np.testing.assert_allclose(in_parts(distance, path), along(distance, path, goal)[1:], rtol=1e-5)


def test_small_steps_are_moves_if_they_are_taken_together(build):
    """An env that needs 4 steps per move: with a stride of 4 the distance is that of the moves."""
    experience, stride = in_two_rooms(), 4
    starts, ends = experience.paths[:, :-1, None], experience.paths[:, 1:, None]
    shares = jnp.arange(stride)[:, None] / stride
    between = (starts + shares * (ends - starts)).reshape(len(starts), -1, 2)
    slow = Experience(
        jnp.concatenate([between, experience.paths[:, -1:]], axis=1),
        jnp.repeat(experience.actions, stride, axis=1),
        experience.lengths * stride,
    )
    config = dataclasses.replace(CONFIG, stride=stride)
    expected, found = build(jax.random.key(0), experience, CONFIG), build(jax.random.key(0), slow, config)
    np.testing.assert_allclose(found.unit, expected.unit, rtol=1e-5)
    np.testing.assert_allclose(found.landmarks, expected.landmarks, atol=1e-4)
    # Along the small steps, the distance to the goal is close to that along the moves.
    goal = jnp.array([3.0, 0.0])
    whole, fine = along(expected, experience.paths[7], goal), along(found, slow.paths[7], goal)
    assert np.median(np.abs(np.asarray(fine)[::stride] - np.asarray(whole))) < 0.1
    with pytest.raises(ConfigError, match=r"walking.stride must be between 1 and the 50 steps .* \(got 51\)"):
        walking_distance(jax.random.key(0), experience, dataclasses.replace(CONFIG, stride=51))
