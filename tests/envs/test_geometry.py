import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.envs import geometry, layouts
from tests.envs.random_mazes import crosses, random_text, unit_walls

WIDTH = 48
"""Walls per axis after padding: one compiled program then serves all random mazes."""
POINTS, STEPS, MAZES = 512, 100, 20

FRAME = np.array(
    [[[-0.5, -0.5], [-0.5, 0.5]], [[0.5, -0.5], [0.5, 0.5]], [[-0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]]
)


@jax.jit
def wander(key, walls, points):
    """Corners of the paths of all points, (steps, points, contacts + 1, 2), under random motions."""

    def advance(points, key):
        motion_key, slide_key = jax.random.split(key)
        motions = random_motions(motion_key, len(points))
        slide = jax.vmap(geometry.path, in_axes=(0, None, 0, 0))
        corners = jnp.stack(slide(jax.random.split(slide_key, len(points)), walls, points, motions), axis=1)
        return corners[:, -1], corners

    return jax.lax.scan(advance, points, jax.random.split(key, STEPS))[1]


def random_motions(key, n):
    """Motions of six kinds: uniform, corners of the box, along an axis, exact diagonals, tiny, and zero."""
    uniform_key, kind_key = jax.random.split(key)
    uniform = jax.random.uniform(uniform_key, (n, 2), minval=-0.95, maxval=0.95)
    along = jnp.where(jnp.abs(uniform) == jnp.max(jnp.abs(uniform), axis=1, keepdims=True), uniform, 0.0)
    diagonal = jnp.abs(uniform[:, :1]) * jnp.sign(uniform)
    kinds = jnp.stack([uniform, 0.95 * jnp.sign(uniform), along, diagonal, 1e-6 * uniform, 0 * uniform])
    return kinds[jax.random.choice(kind_key, 6, (n,), p=jnp.array([0.4, 0.2, 0.15, 0.15, 0.05, 0.05])), jnp.arange(n)]


def points_near_walls(rng, walls, n):
    """Points at most a few ulp away from a wall, many of them in a corner."""
    chosen = walls[rng.integers(len(walls), size=n)]
    share = np.where(rng.random((n, 1)) < 0.5, rng.integers(0, 2, size=(n, 1)), rng.random((n, 1)))
    points = (chosen[:, 0] + share * (chosen[:, 1] - chosen[:, 0])).astype(np.float32)
    toward = np.float32(1e3) * rng.choice([-1, 1], size=(n, 2)).astype(np.float32)
    for _ in range(4):
        points = np.where(rng.random((n, 2)) < 0.6, np.nextafter(points, toward), points)
    return points[~crosses(points, points, walls)]


@settings(max_examples=MAZES)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_path_touches_a_wall(seed):
    rng = np.random.default_rng(seed)
    text = random_text(rng, int(rng.integers(1, 9)), int(rng.integers(1, 9)))
    layout, wall_ends = layouts.parse(text), unit_walls(text)
    walls = geometry.pad(geometry.walls(layout.walls), WIDTH)
    cells = rng.choice(layout.cells, POINTS) + rng.uniform(-0.499, 0.499, (POINTS, 2))
    near = points_near_walls(rng, wall_ends, POINTS // 2)
    near = near[[np.abs(layout.cells - point).max(axis=1).min() < 0.5 for point in near]]
    points = np.concatenate([near, cells])[:POINTS].astype(np.float32)
    corners = np.asarray(wander(jax.random.key(seed), walls, points))
    starts, ends = corners[:, :, :-1].reshape(-1, 2), corners[:, :, 1:].reshape(-1, 2)
    assert not crosses(starts, ends, wall_ends).any()
    cell_set = {tuple(cell) for cell in layout.cells}
    assert {tuple(cell) for cell in np.unique(np.round(corners[:, :, -1].reshape(-1, 2)), axis=0)} <= cell_set


def test_the_random_tests_cover_a_million_moves():
    assert MAZES * POINTS * STEPS >= 1_000_000


def test_the_reference_check_finds_crossings():
    segments = np.array([[[0, 0], [1, 0]], [[0, 0], [0.4, 0]], [[0, 0], [0.5, 0.5]], [[0.6, 0], [0.9, 0.9]]])
    assert crosses(segments[:, 0], segments[:, 1], FRAME).tolist() == [True, False, True, False]


jitted_slide = jax.jit(geometry.slide)


def slide(point, motion, walls=FRAME, seed=0):
    walls = geometry.pad(geometry.walls(walls), WIDTH)
    arrays = jnp.array(point, jnp.float32), jnp.array(motion, jnp.float32)
    return np.asarray(jitted_slide(jax.random.key(seed), walls, *arrays))


def test_free_motion_is_exact():
    np.testing.assert_array_equal(slide((0, 0), (0.25, -0.125)), [0.25, -0.125])


@pytest.mark.parametrize(("motion", "axis"), [((0.8, 0.2), 0), ((-0.8, 0.2), 0), ((0.2, 0.8), 1), ((0.2, -0.8), 1)])
def test_a_point_slides_along_the_wall_and_is_repelled(motion, axis):
    ends = np.stack([slide((0, 0), motion, seed=seed) for seed in range(50)])
    np.testing.assert_allclose(ends[:, 1 - axis], motion[1 - axis], atol=1e-6)
    gaps = 0.5 - np.sign(motion[axis]) * ends[:, axis]
    assert np.all((gaps > 0) & (gaps < geometry.REPULSION))
    assert 0.004 < gaps.mean() < 0.006
    assert len(np.unique(gaps)) > 40


def test_a_point_stops_in_the_inner_corner():
    end = slide((0, 0), (0.9, 0.7))
    assert np.all((end < 0.5) & (end > 0.49))


def test_a_point_passes_the_end_of_a_wall():
    wall = np.array([[[0.5, -1.0], [0.5, 0.25]]])
    np.testing.assert_allclose(slide((0, 0), (0.8, 0.6), wall), [0.8, 0.6], atol=1e-6)  # at x = 0.5, y is 0.375
    end = slide((0, 0), (0.8, 0.3), wall)  # at x = 0.5, y is 0.1875: contact, then y = 0.3
    assert 0.49 < end[0] < 0.5
    assert end[1] == pytest.approx(0.3)


def test_repeated_contacts_never_cross_the_wall():
    point = np.zeros(2)
    for seed in range(200):
        point = slide(point, (0.95, 0.95), seed=seed)
        assert np.all((point < 0.5 - geometry.SKIN) & (point > 0.49))


@pytest.mark.parametrize("distance", [0.0, 3e-8, 1e-5, 1e-3])
def test_a_point_at_a_wall_can_leave_it_and_move_along_it(distance):
    start = np.array([-0.5 + distance, 0.1], np.float32)
    np.testing.assert_allclose(slide(start, (0.4, 0.0)), start + np.array([0.4, 0]), atol=1e-6)
    np.testing.assert_allclose(slide(start, (0.0, -0.4)), start + np.array([0, -0.4]), atol=1e-6)
    end = slide(start, (-0.4, 0.2))
    assert -0.5 < end[0] < -0.49
    assert end[1] == pytest.approx(0.3)


def test_a_point_stays_in_a_slit_narrower_than_the_repulsion():
    slit = np.array([[[0.0, -1.0], [0.0, 1.0]], [[0.004, -1.0], [0.004, 1.0]]])
    for seed in range(50):
        end = slide((0.002, 0), (0.5, 0.25), slit, seed)
        assert 0 < end[0] < 0.004
        assert end[1] == pytest.approx(0.25)


def test_padding_changes_nothing():
    walls = geometry.walls(layouts.load("tree").walls)
    wide = geometry.pad(walls, WIDTH)
    keys = jax.random.split(jax.random.key(0), 256)
    points, motions = jnp.zeros((256, 2)), random_motions(jax.random.key(1), 256)
    slide_all = jax.jit(jax.vmap(geometry.slide, in_axes=(0, None, 0, 0)))
    ends = [slide_all(keys, each, points, motions) for each in (walls, wide)]
    np.testing.assert_allclose(*ends, atol=1e-6)
