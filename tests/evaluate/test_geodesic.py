"""Walking distance by hand, by Dijkstra on a fine grid, and by a visibility graph without special cases."""

import itertools

import numpy as np
import pytest
from scipy.sparse import coo_array, csgraph

from edl.envs import layouts
from edl.evaluate.geodesic import Geodesic, euclidean

ROOT2 = np.sqrt(2)


def maze(*rows: str) -> layouts.Layout:
    return layouts.parse("\n".join(rows))


def walk(layout: layouts.Layout, x, y) -> float:
    distances = Geodesic.from_layout(layout).distance(np.array([x], float), np.array([y], float))
    return float(distances[0, 0])


def uniform(layout: layouts.Layout, n: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return layout.cells[generator.integers(len(layout.cells), size=n)] + generator.uniform(-0.49, 0.49, size=(n, 2))


def crosses(walls: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether the segments from a to b meet any wall, ends included: four orientation tests for all pairs."""

    def side(p, q, r):
        return np.sign((q - p)[..., 0] * (r - p)[..., 1] - (q - p)[..., 1] * (r - p)[..., 0])

    a, b = a[:, None], b[:, None]
    c, d = walls[:, 0], walls[:, 1]
    return np.any((side(a, b, c) * side(a, b, d) <= 0) & (side(c, d, a) * side(c, d, b) <= 0), axis=-1)


def open_room(height: int, width: int) -> tuple[str, ...]:
    border = "+" + "-+" * width
    inner = "+" + " +" * width
    row = "|" + " " * (2 * width - 1) + "|"
    rows = [border]
    for i in range(height):
        rows += [row if i else "|S" + row[2:], inner if i < height - 1 else border]
    return tuple(rows)


ROUND_A_TIP = maze("+-+-+", "|S| |", "+ + +", "|   |", "+-+-+")
ROUND_A_WALL = maze("+-+-+-+", "|S|   |", "+ + + +", "| |   |", "+ + + +", "|     |", "+-+-+-+")
ZIGZAG = maze("+-+-+-+", "|S|   |", "+ +-+ +", "|   | |", "+-+ + +", "|     |", "+-+-+-+")


def test_a_straight_line_without_obstacles():
    assert walk(maze(*open_room(3, 3)), (0.3, 0.2), (1.9, -1.7)) == pytest.approx(np.hypot(1.6, 1.9))


def test_round_the_free_end_of_a_wall():
    assert walk(ROUND_A_TIP, (0, 0), (1, 0)) == pytest.approx(2 * np.hypot(0.5, 0.5))
    # Downwards, the line of sight touches the end of the wall exactly.
    assert walk(ROUND_A_TIP, (0, 0), (1, -1)) == pytest.approx(ROOT2)
    assert walk(ROUND_A_TIP, (0.49, 0.4), (0.51, 0.4)) == pytest.approx(2 * np.hypot(0.01, 0.9))


def test_round_a_wall_of_two_units():
    assert walk(ROUND_A_WALL, (0, 0), (1, 0)) == pytest.approx(2 * np.hypot(0.5, 1.5))


def test_round_both_sides_of_a_block():
    """The walls enclose a cell outside the maze; the path bends at two or three corners of this block."""
    block = maze("+-+-+-+", "|S    |", "+ +-+ +", "| |#| |", "+ +-+ +", "|     |", "+-+-+-+")
    assert walk(block, (0, -1), (2, -1)) == pytest.approx(1 + 2 * np.hypot(0.5, 0.5))
    assert walk(block, (0, 0), (2, -2)) == pytest.approx(2 * np.hypot(0.5, 1.5))
    assert walk(block, (0.4, -0.9), (2, -1)) == pytest.approx(np.hypot(0.1, 0.4) + 1 + np.hypot(0.5, 0.5))


def test_paths_do_not_cross_a_bent_wall():
    """The wall goes down, right, and down again: (0.5, -0.5) and (1.5, -0.5) are corners on opposite sides of it."""
    assert walk(ZIGZAG, (0, 0), (1, -1)) == pytest.approx(np.hypot(0.5, 0.5) + np.hypot(0.5, 0.5))
    # Cells (1, 0) and (0, 0) are neighbours with a wall between them; the path goes round its lower end (1.5, -1.5).
    down = np.hypot(1.0, 1.0)
    expected = np.hypot(0.5, 0.5) + down + 1.0 + np.hypot(0.5, 0.5)
    assert walk(ZIGZAG, (0, 0), (1, 0)) == pytest.approx(expected)


def test_paths_do_not_cross_a_post_where_four_walls_meet():
    """Diagonal neighbours are far apart, even next to the post."""
    cross = maze(
        "+-+-+-+-+",
        "|S      |",
        "+ + + + +",
        "|   |   |",
        "+ +-+-+ +",
        "|   |   |",
        "+ + + + +",
        "|       |",
        "+-+-+-+-+",
    )
    near = 1e-3
    for sx, sy in itertools.product((-1, 1), repeat=2):
        a, b = (1.5 + sx * near, -1.5 + sy * near), (1.5 - sx * near, -1.5 - sy * near)
        assert walk(cross, a, b) == pytest.approx(2 + ROOT2, abs=0.01)
    assert walk(cross, (1.4, -1.4), (1.6, -1.4)) == pytest.approx(2 * np.hypot(0.1, 0.9))


def test_points_outside_and_nan_have_infinite_distance():
    geodesic = Geodesic.from_layout(layouts.load("square"))
    outside = np.array([[1.0, 0.0], [100.0, 0.0], [np.nan, 0.0], [0.0, -1e9]])
    assert np.all(np.isinf(geodesic.distance(outside, np.zeros((1, 2)))))
    assert geodesic.distance(np.zeros((0, 2)), outside).shape == (0, 4)


def test_a_point_on_a_wall_is_on_its_upper_or_right_side():
    """The env uses the same rule."""
    assert walk(ROUND_A_TIP, (0.5, 0.2), (0.6, 0.2)) == pytest.approx(0.1, abs=1e-5)
    assert walk(ROUND_A_TIP, (0.5, 0.2), (0.4, 0.2)) == pytest.approx(0.7 + np.hypot(0.1, 0.7), abs=1e-5)


def test_single_precision_points_close_to_a_wall_stay_on_their_side():
    left = np.nextafter(np.float32(0.5), np.float32(0))
    assert walk(ROUND_A_TIP, (left, 0.0), (0.51, 0.0)) == pytest.approx(0.5 + np.hypot(0.01, 0.5), abs=1e-5)


@pytest.mark.parametrize("name", layouts.NAMES)
def test_against_dijkstra_on_a_fine_grid(name):
    """A grid path is never shorter than the shortest path; 32 directions make it up to 1.4 % longer, plus the bends."""
    layout = layouts.load(name)
    side = 0.1 if len(layout.cells) < 64 else 0.2
    offsets = (np.arange(round(1 / side)) + 0.5) * side - 0.5
    inner = np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2)
    points = (layout.cells[:, None] + inner).reshape(-1, 2)
    number = {key: i for i, key in enumerate(map(tuple, np.rint(points / side * 2).astype(int).tolist()))}
    slants = ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
    moves = [(1, 0), (0, 1), *slants, *((a, -b) for a, b in slants)]
    ends = ((i, (p + 2 * dp, q + 2 * dq)) for (p, q), i in number.items() for dp, dq in moves)
    pairs = np.array([(i, number[end]) for i, end in ends if end in number])
    pairs = pairs[~crosses(layout.walls, points[pairs[:, 0]], points[pairs[:, 1]])]
    lengths = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=-1)
    graph = coo_array((lengths, tuple(pairs.T)), shape=(len(points),) * 2).tocsr()
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(len(points), size=15), generator.integers(len(points), size=200)
    reference = csgraph.dijkstra(graph, directed=False, indices=sources)[:, targets]
    distance = Geodesic.from_layout(layout).distance(points[sources], points[targets])
    assert np.all(distance <= reference + 1e-5)
    # These two bend every few cells, and a bend costs half a side.
    longer = 1.034 if name in ("spiral", "hardest") else 1.014
    assert np.all(reference <= longer * distance + 3 * side)


def nudged_visibility_distance(layout: layouts.Layout, x: np.ndarray, y: np.ndarray, nudge: float = 1e-5) -> np.ndarray:
    """Four nodes around every post at a small offset, and plain segment intersection; exact up to a few offsets."""
    posts = np.unique(np.concatenate([unit_posts(wall) for wall in layout.walls]), axis=0)
    quarters = np.array(list(itertools.product((-nudge, nudge), repeat=2)))
    points = np.concatenate([x, y, (posts[:, None] + quarters).reshape(-1, 2)])
    first, second = np.triu_indices(len(points), 1)
    free = ~crosses(layout.walls, points[first], points[second])
    first, second = first[free], second[free]
    lengths = np.linalg.norm(points[first] - points[second], axis=-1)
    graph = coo_array((lengths, (first, second)), shape=(len(points),) * 2).tocsr()
    return csgraph.dijkstra(graph, directed=False, indices=np.arange(len(x)))[:, len(x) : len(x) + len(y)]


def unit_posts(wall: np.ndarray) -> np.ndarray:
    return np.linspace(wall[0], wall[1], round(np.abs(wall[1] - wall[0]).sum()) + 1)


def random_maze(seed: int, height: int = 4, width: int = 5) -> layouts.Layout:
    """A random spanning tree keeps all cells reachable; some of the other borders between cells are walls."""
    generator = np.random.default_rng(seed)
    grid = np.array([list(row) for row in open_room(height, width)])
    borders = [(r, c) for r in range(1, 2 * height) for c in range(1, 2 * width) if r % 2 != c % 2]
    density = generator.uniform(0.3, 1.0)
    group = {(r, c): (r, c) for r in range(1, 2 * height, 2) for c in range(1, 2 * width, 2)}
    for r, c in generator.permutation(borders):
        step = (0, 1) if r % 2 else (1, 0)
        one, other = group[r - step[0], c - step[1]], group[r + step[0], c + step[1]]
        if one != other:
            group = {cell: one if name == other else name for cell, name in group.items()}
        elif generator.random() < density:
            grid[r, c] = "|" if r % 2 else "-"
    return layouts.parse("\n".join("".join(row) for row in grid))


@pytest.mark.parametrize("seed", range(12))
def test_against_an_independent_visibility_graph_in_random_mazes(seed):
    layout = random_maze(seed)
    x, y = uniform(layout, 15, seed), uniform(layout, 15, seed + 100)
    y[:5] = layout.cells[:5]  # lines of sight between cell centres touch posts
    x[:5] = layout.cells[-5:]
    geodesic = Geodesic.from_layout(layout)
    distance = geodesic.distance(x, y)
    np.testing.assert_allclose(distance, nudged_visibility_distance(layout, x, y), atol=5e-4)
    np.testing.assert_allclose(distance, geodesic.distance(y, x).T, atol=1e-9)
    assert np.all(distance >= euclidean(x, y) - 1e-5)


def test_triangle_inequality_in_a_large_maze():
    layout = random_maze(0, 30, 30)
    x = uniform(layout, 200)
    distance = Geodesic.from_layout(layout).distance(x, x)
    assert np.all(np.isfinite(distance))
    assert np.all(distance <= distance[:, :1] + distance[:1] + 1e-5)


@pytest.mark.parametrize("name", ["bottleneck", "tree"])
def test_paired_distances_are_the_diagonal_of_all_distances(name):
    layout = layouts.load(name)
    geodesic = Geodesic.from_layout(layout)
    x, y = uniform(layout, 40, seed=1), uniform(layout, 40, seed=2)
    np.testing.assert_allclose(geodesic.paired(x, y), np.diag(geodesic.distance(x, y)))


def test_an_end_outside_the_maze_is_reached_from_the_nearest_point_inside():
    geodesic = Geodesic.from_layout(ROUND_A_TIP)  # x in [-0.5, 1.5], y in [-1.5, 0.5]
    x = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    y = np.array([[0.0, 0.9], [1.0, 0.8], [-2.0, -3.0]])
    round_the_tip = np.hypot(0.5, 0.5) + np.hypot(0.5, 1.0)
    by_hand = [0.5 + 0.4, round_the_tip + 0.3, np.hypot(0.5, 1.5) + np.hypot(1.5, 1.5)]
    np.testing.assert_allclose(geodesic.paired(x, y), by_hand, atol=1e-5)
    assert np.isinf(geodesic.paired(np.array([[9.0, 9.0]]), x[:1]))
    assert np.isinf(geodesic.paired(np.array([[np.nan, 0.0]]), x[:1]))
