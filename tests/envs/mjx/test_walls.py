"""The walls of a maze around a robot. Four boxes at the nearest post must act like all walls of the maze."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs import layouts
from edl.envs.mjx.physics import Settings, parse_spec
from edl.envs.mjx.reference import ReferenceRobot, reference_model
from edl.envs.mjx.robots import maze_horizon, put_in_maze
from edl.envs.mjx.walls import FAR_BELOW, HALF_THICKNESS, HEIGHT, UNITS_PER_CELL, move_walls, wall_map
from tests.envs.mjx.models import BALL, one, play

pytest.importorskip("mujoco.mjx")

MAZE = layouts.parse("+-+-+\n|  S|\n+ +-+\n|   |\n+-+-+", "corner")
"""Two by two cells. The start is the upper right one, and there is a wall below it."""
RIGHT, UP, LEFT, DOWN = range(4)
RADIUS = 0.5


@pytest.fixture(scope="module")
def env():
    return put_in_maze("ball", parse_spec("ball", BALL), Settings("exact", 5, 0.0), MAZE, horizon=40)


def test_the_map_has_the_walls_of_the_text():
    walls = wall_map(MAZE)
    np.testing.assert_array_equal(walls.corner, [-6.0, -6.0])  # 1.5 cells to the left of the start and below it
    arms = np.asarray(walls.arms)
    assert arms.shape == (3, 3, 4)
    np.testing.assert_array_equal(np.flatnonzero(arms[1, 1]), [RIGHT])
    np.testing.assert_array_equal(np.flatnonzero(arms[2, 1]), [UP, LEFT, DOWN])
    np.testing.assert_array_equal(np.flatnonzero(arms[0, 0]), [RIGHT, UP])
    np.testing.assert_array_equal(np.flatnonzero(arms[1, 2]), [RIGHT, LEFT])


@pytest.mark.parametrize("name", layouts.NAMES)
def test_the_walls_of_every_maze_are_those_of_its_layout(name):
    layout = layouts.load(name)
    walls = wall_map(layout)
    arms, corner = np.asarray(walls.arms), np.asarray(walls.corner) / UNITS_PER_CELL
    lengths = np.abs(layout.walls[:, 1] - layout.walls[:, 0]).sum()
    assert arms[..., :2].sum() == arms[..., 2:].sum() == lengths
    for cell, passages in zip(layout.cells, layout.passages, strict=True):
        i, j = np.rint(cell - 0.5 - corner).astype(int)  # the post at the lower left of the cell
        np.testing.assert_array_equal(
            [arms[i + 1, j, UP], arms[i, j + 1, RIGHT], arms[i, j, UP], arms[i, j, RIGHT]], ~passages
        )


def test_the_boxes_move_to_the_nearest_post(env):
    model = jax.tree.map(jnp.asarray, env.physics.mjx_model)
    moved = move_walls(model, env.physics.wall_geoms, env.walls, jnp.array([-0.5, -1.5]))
    places = moved.geom_pos[jnp.array(env.physics.wall_geoms)]
    # The post is the middle of the maze, at (-2, -2). One wall leaves it, to the right.
    expected = [(0, -2, HEIGHT / 2), (-2, 0, FAR_BELOW), (-4, -2, FAR_BELOW), (-2, -4, FAR_BELOW)]
    np.testing.assert_allclose(places, expected)


def test_features_are_cells_and_the_observation_is_in_units(env):
    state = env.reset(jax.random.key(0))
    np.testing.assert_allclose(env.features(env.observe(state)), [0.0, 0.0])
    np.testing.assert_allclose(env.features(jnp.array([4.0, -2.0, 0.0, 0.0])), [1.0, -0.5])
    states = env.sample_states(jax.random.key(0), 200)
    assert states.shape == (200, 2)
    assert states.min() >= -1.5
    assert states.max() <= 0.5


def test_episodes_start_in_the_start_cells(env):
    two = layouts.parse("+-+-+-+\n|S   S|\n+-+-+-+")
    mazes = put_in_maze("ball", parse_spec("ball", BALL), Settings("exact", 5, 0.0), two)
    states = jax.vmap(mazes.reset)(jax.random.split(jax.random.key(0), 64))
    assert {tuple(each) for each in np.asarray(states.qpos).tolist()} == {(0.0, 0.0), (8.0, 0.0)}


def test_four_boxes_act_like_all_walls_of_the_maze(env):
    directions = np.array([[2, 0.3], [-2, -1], [-1, 0.2], [-0.4, -1], [0.1, 1], [2, -1]], np.float32)
    actions = jnp.tile(directions[:, None], (1, env.horizon, 1))
    starts = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), len(directions)))
    played = play(env, starts, actions)[:, :, :2]
    robot = ReferenceRobot(env)
    for i in range(len(directions)):
        expected = robot.play(one(starts, i), np.asarray(actions[i]))[1:, :2]
        np.testing.assert_allclose(played[i], expected, atol=2e-2)
    inner = 2.0 - HALF_THICKNESS - RADIUS
    assert (played <= inner + 0.05).all()  # nothing leaves the maze to the right or at the top
    assert played[0, -1, 0] > inner - 0.05
    assert played[1, -1, 0] < -4.0  # to the left the start cell is open
    assert (played[5, :, 1] > -inner - 0.05).all()  # and below it there is a wall


def test_the_reference_has_every_wall(env):
    assert reference_model(env).ngeom - env.physics.model.ngeom == 9


def test_the_horizon_grows_with_the_maze():
    assert maze_horizon(layouts.parse("+-+\n|S|\n+-+")) == 200
    assert maze_horizon(layouts.parse("+" + "-+" * 11 + "\n|S" + " " * 20 + "|\n+" + "-+" * 11)) == 400
    assert [maze_horizon(layouts.load(name)) for name in ("u", "big", "hardest", "bottleneck")] == [240, 440, 600, 920]
