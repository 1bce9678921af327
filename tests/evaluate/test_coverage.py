import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.artifacts import Experience
from edl.config import ConfigError
from edl.envs import layouts
from edl.evaluate import coverage as module
from edl.evaluate.coverage import (
    BinGrid,
    bins_of,
    box_grid,
    cells_of,
)

coverage, visited, visit_counts, first_visits, coverage_curve = map(
    jax.jit, (module.coverage, module.visited, module.visit_counts, module.first_visits, module.coverage_curve)
)
data_coverage = jax.jit(module.data_coverage, static_argnames="first_steps")
bin_of = jax.jit(BinGrid.bin_of)

TWO_CELLS = layouts.parse("+-+-+\n|S  |\n+-+-+")


@pytest.mark.parametrize("name", layouts.NAMES)
def test_bins_tile_the_reachable_area(name):
    layout = layouts.load(name)
    per_cell = 10 if len(layout.cells) >= 64 else 20
    assert int(jnp.sum(bins_of(layout).reachable)) == len(layout.cells) * per_cell**2
    assert int(jnp.sum(cells_of(layout).reachable)) == len(layout.cells)


@pytest.mark.parametrize("name", ["square", "bottleneck"])
def test_one_point_in_each_bin_covers_the_maze_and_one_less_does_not(name):
    layout = layouts.load(name)
    grid = bins_of(layout)
    side = 0.1 if name == "bottleneck" else 0.05
    offsets = np.arange(side / 2, 1, side) - 0.5
    inner = np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2)
    points = jnp.asarray((layout.cells[:, None] + inner).reshape(-1, 2), jnp.float32)
    bitmap = visited(grid, points)
    assert bool(jnp.all(bitmap == grid.reachable))
    assert float(coverage(grid, bitmap)) == 1.0
    assert int(jnp.sum(visited(grid, points[1:]))) == len(points) - 1


@given(
    cell=st.integers(-300, 300),
    ulps=st.integers(1, 3),
    upper=st.booleans(),
    per=st.sampled_from([bins_of, cells_of]),
)
def test_a_point_next_to_a_wall_is_never_in_a_bin_behind_it(cell, ulps, upper, per):
    """Holds up to the last floating-point number before the wall, at any distance from the origin."""
    layout = layouts.Layout(
        "line", "", TWO_CELLS.walls, np.array([[cell, 0.0], [cell + 1, 0.0]]), TWO_CELLS.starts, TWO_CELLS.passages
    )
    grid = per(layout)
    wall = np.float32(cell + 0.5)
    point = wall
    for _ in range(ulps):
        point = np.nextafter(point, np.float32(np.inf if upper else -np.inf))
    column = int(bin_of(grid, jnp.array([point, 0.0]))) // grid.shape[1]
    assert column == (grid.per_cell if upper else grid.per_cell - 1)


def test_a_point_on_a_wall_is_in_the_bin_above():
    grid = cells_of(TWO_CELLS)
    assert bin_of(grid, jnp.array([[-0.5, 0.0], [0.5, 0.0], [1.5, 0.0]])).tolist() == [0, 1, grid.size]


def test_states_outside_are_in_no_bin():
    grid = cells_of(layouts.load("square"))
    strange = jnp.array(
        [[1.0, 0.0], [-1.0, 0.0], [1e9, 0.0], [jnp.nan, 0.0], [jnp.inf, 0.0]]
    )  # the first is a '#' cell
    assert float(coverage(grid, visited(grid, strange))) == 0.0
    counts = visit_counts(grid, strange)
    assert int(counts[-1]) == 4
    assert int(jnp.sum(counts)) == 5


def test_visit_counts_by_hand_ignore_invalid_states():
    states = jnp.array([[0.0, 0.0], [0.4, 0.3], [1.0, 0.0], [1.0, 0.1]])
    valid = jnp.array([True, True, False, True])
    assert visit_counts(cells_of(TWO_CELLS), states, valid).tolist() == [2, 1, 0]
    assert visited(cells_of(TWO_CELLS), states, jnp.array([True, True, False, False])).tolist() == [True, False]


def test_bitmaps_combine_and_batches_have_any_shape():
    grid = bins_of(layouts.load("tree"))
    states = jax.random.uniform(jax.random.key(0), (4, 6, 2), minval=-3, maxval=3)
    joined = visited(grid, states[:2]) | visited(grid, states[2:])
    assert bool(jnp.all(joined == visited(grid, states)))


def box() -> Experience:
    """Three played episodes of 2, 1 and 2 steps along x, and an unplayed one, in an env of 10 bins."""
    x = jnp.array([[0.5, 1.5, 2.5], [0.5, 3.5, 9.5], [4.5, 1.5, 5.5], [8.5, 8.5, 8.5]])
    return Experience(paths=x[..., None], actions=jnp.zeros((4, 2, 1)), lengths=jnp.array([2, 1, 2, 0]))


@pytest.mark.parametrize(("steps", "bins"), [(0, 0), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (None, 6)])
def test_data_coverage_counts_environment_steps(steps, bins):
    grid = box_grid([0.0], [10.0], [10], [0])
    assert float(data_coverage(grid, box(), steps)) == pytest.approx(bins / 10)


def test_the_coverage_curve_is_data_coverage_at_each_step():
    grid = box_grid([0.0], [10.0], [10], [0])
    np.testing.assert_allclose(coverage_curve(grid, box(), jnp.arange(7)), np.array([0, 2, 3, 4, 5, 6, 6]) / 10)


def test_seeds_can_be_vmapped():
    grid = box_grid([0.0], [10.0], [10], [0])
    seeds = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), box())
    both = jax.vmap(first_visits, in_axes=(None, 0))(grid, seeds)
    assert bool(jnp.all(both == first_visits(grid, box())))


def test_a_grid_over_named_dimensions():
    grid = box_grid([-1.0, 0.0], [1.0, 3.0], [2, 3], [2, 0])
    states = jnp.array([[0.5, 99.0, -0.5], [2.5, -99.0, 0.5], [3.5, 0.0, 0.5]])
    assert bin_of(grid, states).tolist() == [0, 5, 6]
    assert float(coverage(grid, visited(grid, states))) == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [1.0, 2.0], [3], [0]), "must have the same length"),
        (([0.0], [0.0], [3], [0]), r"each low must be below its high \(got low=\[0.0\], high=\[0.0\]\)"),
        (([0.0], [1.0], [0], [0]), r"num must be at least 1 bin per dimension \(got \[0\]\)"),
        (([], [], [], []), "at least 1"),
        (([0.0] * 5, [1.0] * 5, [50] * 5, list(range(5))), "at most 10000000 bins .got 312500000 bins in 5 dimensions"),
    ],
)
def test_an_invalid_grid_is_rejected(arguments, message):
    with pytest.raises(ConfigError, match=message):
        box_grid(*arguments)
