"""Exact walking distance in a maze. For evaluation only: learners must not see it, because it uses the walls.

A shortest path among zero-thickness walls is a chain of straight segments. It bends only at posts with an open angle of
more than 180 degrees: the free end of a wall, and the outer side of a corner of two walls. These posts are the nodes of
a visibility graph. A post has at most one such side, so a path at the post is on a known side of its walls. A segment
may touch walls only at its two ends: a segment that touches a post in between is split into two. The remaining edges
run along a wall from end to end; they exist if one side of that wall has no other walls attached.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from edl.config import check
from edl.envs.layouts import Layout

PairwiseDistance = Callable[[Float[np.ndarray, "n s"], Float[np.ndarray, "m s"]], Float[np.ndarray, "n m"]]
"""A function that returns the distance from each x to each y."""
PairedDistance = Callable[[Float[np.ndarray, "n s"], Float[np.ndarray, "n s"]], Float[np.ndarray, " n"]]
"""A function that returns the distance from the first x to the first y, from the second x to the second y, ..."""
Pairs = Bool[np.ndarray, "n m"]

MARGIN = 1e-6
"""Points are moved at least this far into their cell, so that no point lies on a wall."""
TOUCH = 1e-9
"""A straight line this close to a post touches it. Points are much farther away than this."""
CHUNK = 1_000_000
"""Maximum number of straight lines processed at once, to bound memory."""
MAX_NODES = 10_000
"""A maze of about 130 x 130 cells full of walls has this many; it takes minutes and gigabytes."""
EAST, NORTH, WEST, SOUTH = range(4)


class Lattice(NamedTuple):
    """The walls as bitmaps. Post (i, j) is at ``origin + (i, j)``, at the lower left of cell (i, j).

    ``vertical[i, j]`` is the wall from post (i, j) up, ``horizontal[i, j]`` the wall to the right; ``arms[i, j]`` are
    the walls that meet at the post: east, north, west, south.
    """

    origin: Float[np.ndarray, " 2"]
    cells: Bool[np.ndarray, "w h"]
    vertical: Bool[np.ndarray, "w1 h"]
    horizontal: Bool[np.ndarray, "w h1"]
    arms: Bool[np.ndarray, "w1 h1 4"]


class Nodes(NamedTuple):
    """The posts where a path can bend.

    ``inner`` points into the quadrant between the two walls of a corner, from which the post cannot be used; it is zero
    at the free end of a wall.
    """

    posts: Int[np.ndarray, "p 2"]
    inner: Int[np.ndarray, "p 2"]


@dataclasses.dataclass(frozen=True)
class Geodesic:
    """Precomputed walking distances: the walls of a maze, its nodes, and the distances ``between`` the nodes."""

    lattice: Lattice
    nodes: Nodes
    between: Float[np.ndarray, "p p"]

    @classmethod
    def from_layout(cls, layout: Layout) -> "Geodesic":
        """Build from ``layout.walls`` (end points) and ``layout.cells`` (centres) on a lattice of unit cells."""
        lattice = lattice_of(np.asarray(layout.walls, float), np.asarray(layout.cells, float))
        nodes = nodes_of(lattice)
        got = f"a maze where paths can bend at {len(nodes.posts)} posts"
        check(
            len(nodes.posts) <= MAX_NODES,
            f"walking distances are computed for at most {MAX_NODES} posts (got {got}). Use a smaller maze.",
        )
        return cls(lattice, nodes, shortest_between(lattice, nodes))

    def distance(self, x: Float[np.ndarray, "n 2"], y: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, "n m"]:
        """Length of the shortest path from each x to each y; infinite for a point outside the maze."""
        x, inside_x = self._to_lattice(x)
        y, inside_y = self._to_lattice(y)
        posts = self.nodes.posts.astype(float)
        result = np.where(clear(self.lattice, x, y), euclidean(x, y), np.inf)
        from_x, from_y = (np.where(self._sees(p), euclidean(p, posts), np.inf) for p in (x, y))
        through = min_plus(from_x, self.between)
        result = np.minimum(result, min_plus(through, from_y.T))
        return np.where(inside_x[:, None] & inside_y, result, np.inf)

    def paired(self, x: Float[np.ndarray, "n 2"], y: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """Length of the shortest path from x_i to y_i; infinite if x_i is outside the maze.

        If y_i is outside the maze, the path ends at the nearest point inside, and the straight gap is added.
        """
        inside = self.nearest_inside(y)
        gap = np.linalg.norm(inside - y, axis=-1)
        x, inside_x = self._to_lattice(x)
        y, _ = self._to_lattice(inside)
        posts = self.nodes.posts.astype(float)
        straight = np.where(clear_paired(self.lattice, x, y), np.linalg.norm(x - y, axis=-1), np.inf)
        from_x, from_y = (np.where(self._sees(p), euclidean(p, posts), np.inf) for p in (x, y))
        bent = np.min(min_plus(from_x, self.between) + from_y, axis=1, initial=np.inf)
        return np.where(inside_x, np.minimum(straight, bent), np.inf) + gap

    def nearest_inside(self, x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """The points themselves; those outside the maze are moved to the nearest point of a cell."""
        x = np.array(x, float)
        outside = ~self._to_lattice(x)[1]
        corners = self.lattice.origin + np.argwhere(self.lattice.cells)
        candidates = np.clip(x[outside, None], corners + MARGIN, corners + 1 - MARGIN)
        gaps = np.linalg.norm(candidates - x[outside, None], axis=-1)
        x[outside] = candidates[np.arange(len(candidates)), np.argmin(gaps, axis=1)]
        return x

    def _to_lattice(self, x: Float[np.ndarray, "n 2"]) -> tuple[Float[np.ndarray, "n 2"], Bool[np.ndarray, " n"]]:
        """Points in lattice coordinates, moved off the walls, and whether each is inside the maze."""
        x = np.asarray(x, float) - self.lattice.origin
        shape = np.array(self.lattice.cells.shape)
        # Comparisons with NaN are false, so NaN is outside.
        inside = np.all((x >= 0) & (x <= shape), axis=-1)
        cell = np.clip(np.floor(np.where(inside[:, None], x, 0.0)).astype(int), 0, shape - 1)
        inside &= self.lattice.cells[cell[:, 0], cell[:, 1]]
        x = np.where(inside[:, None], x, cell + 0.5)
        return np.clip(x, cell + MARGIN, cell + 1 - MARGIN), inside

    def _sees(self, x: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, "n p"]:
        """Whether a path can go straight from each point to each node and bend there."""
        return clear(self.lattice, x, self.nodes.posts.astype(float)) & approaches(x, self.nodes)


def lattice_of(walls: Float[np.ndarray, "w 2 2"], cells: Float[np.ndarray, "c 2"]) -> Lattice:
    """Split walls of any integer length into unit walls, and write them and the cells into bitmaps."""
    corners = np.concatenate([walls.reshape(-1, 2), cells - 0.5, cells + 0.5])
    origin = corners.min(axis=0)
    width, height = np.rint(corners.max(axis=0) - origin).astype(int)
    inside = np.zeros((width, height), bool)
    inside[tuple(np.rint(cells - 0.5 - origin).astype(int).T)] = True
    vertical, horizontal = np.zeros((width + 1, height), bool), np.zeros((width, height + 1), bool)
    for ends in np.rint(walls - origin).astype(int):
        (left, low), (right, high) = ends.min(axis=0), ends.max(axis=0)
        if left == right:
            vertical[left, low:high] = True
        else:
            horizontal[left:right, low] = True
    arms = np.zeros((width + 1, height + 1, 4), bool)
    arms[:-1, :, EAST], arms[1:, :, WEST] = horizontal, horizontal
    arms[:, :-1, NORTH], arms[:, 1:, SOUTH] = vertical, vertical
    return Lattice(origin, inside, vertical, horizontal, arms)


def nodes_of(lattice: Lattice) -> Nodes:
    """Posts with one wall, or with two walls at a right angle."""
    arms = lattice.arms.astype(int)
    direction = np.stack([arms[..., EAST] - arms[..., WEST], arms[..., NORTH] - arms[..., SOUTH]], axis=-1)
    degree = arms.sum(axis=-1)
    corner = (degree == 2) & np.all(direction != 0, axis=-1)
    posts = np.argwhere(corner | (degree == 1))
    at = tuple(posts.T)
    return Nodes(posts, np.where(corner[at][:, None], direction[at], 0))


def shortest_between(lattice: Lattice, nodes: Nodes) -> Float[np.ndarray, "p p"]:
    """Lengths of the shortest paths between nodes."""
    from scipy.sparse import csgraph  # imported here because the import takes a quarter of a second

    posts = nodes.posts.astype(float)
    lengths = euclidean(posts, posts)
    open_line = clear(lattice, posts, posts)
    open_line &= approaches(posts, nodes) & approaches(posts, nodes).T & ~along_wall(lattice, nodes.posts)
    edges = np.where((open_line | wall_edges(lattice, nodes)) & (lengths > 0), lengths, 0.0)
    return csgraph.shortest_path(csgraph.csgraph_from_dense(edges), directed=False) if len(posts) else edges


def clear(lattice: Lattice, a: Float[np.ndarray, "n 2"], b: Float[np.ndarray, "m 2"]) -> Pairs:
    """Whether the straight line from each a to each b touches no wall strictly between its ends."""
    rows = max(1, CHUNK // max(1, len(b)))
    chunks = [_clear(lattice, a[i : i + rows], b) for i in range(0, len(a), rows)]
    return np.concatenate(chunks) if chunks else np.ones((0, len(b)), bool)


def _clear(lattice: Lattice, a: Float[np.ndarray, "n 2"], b: Float[np.ndarray, "m 2"]) -> Pairs:
    starts, ends = np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))
    return clear_paired(lattice, starts, ends).reshape(len(a), len(b))


def clear_paired(lattice: Lattice, a: Float[np.ndarray, "n 2"], b: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " n"]:
    """`clear` for the lines from a_i to b_i. Follows each from one lattice line to the next, to its end or a wall."""
    result = np.ones(len(a), bool)
    posts = lattice.arms.sum(axis=-1) > 0
    for axis, walls, ends in ((0, lattice.vertical, posts), (1, lattice.horizontal.T, posts.T)):
        pair = np.flatnonzero(result)
        start, other = a[pair, axis], a[pair, 1 - axis]
        way = b[pair, axis] - start
        slope = (b[pair, 1 - axis] - other) / np.where(way == 0, 1.0, way)
        line = np.where(way > 0, np.floor(start) + 1, np.ceil(start) - 1)
        while len(pair):
            on = np.abs(line - start) < np.abs(way)
            pair, start, other, way, slope, line = (x[on] for x in (pair, start, other, way, slope, line))
            crossing = other + (line - start) * slope
            nearest = np.rint(crossing).astype(int)
            unit = np.clip(np.floor(crossing).astype(int), 0, walls.shape[1] - 1)
            touches = np.abs(crossing - nearest) < TOUCH
            at = line.astype(int)
            hit = (touches & ends[at, nearest]) | (~touches & walls[at, unit])
            result[pair[hit]] = False
            pair, start, other, way, slope, line = (x[~hit] for x in (pair, start, other, way, slope, line))
            line = line + np.sign(way)
    return result


def approaches(x: Float[np.ndarray, "n 2"], nodes: Nodes) -> Bool[np.ndarray, "n p"]:
    """Whether each point lies on the open side of each node's corner."""
    return ~np.all((x[:, None] - nodes.posts) * nodes.inner > 0, axis=-1)


def along_wall(lattice: Lattice, posts: Int[np.ndarray, "p 2"]) -> Bool[np.ndarray, "p p"]:
    """Whether two posts are the ends of one unit wall."""
    step = posts - posts[:, None]
    arms = lattice.arms[tuple(posts.T)]
    result = np.zeros(step.shape[:2], bool)
    for arm, direction in ((EAST, (1, 0)), (NORTH, (0, 1)), (WEST, (-1, 0)), (SOUTH, (0, -1))):
        result |= np.all(step == direction, axis=-1) & arms[:, None, arm]
    return result


def wall_edges(lattice: Lattice, nodes: Nodes) -> Bool[np.ndarray, "p p"]:
    """Whether a straight wall connects two nodes and has a side with no other walls attached."""
    number = {tuple(post): index for index, post in enumerate(nodes.posts.tolist())}
    result = np.zeros((len(number), len(number)), bool)
    arms = lattice.arms
    for (i, j), first in number.items():
        for forward, step, sides in ((EAST, (1, 0), (NORTH, SOUTH)), (NORTH, (0, 1), (EAST, WEST))):
            end, free = (i, j), ~arms[i, j, sides]
            while arms[(*end, forward)]:
                end = (end[0] + step[0], end[1] + step[1])
                free &= ~arms[(*end, sides)]
            last = number.get(end, first)
            if last != first and free.any():
                result[first, last] = result[last, first] = True
    return result


def euclidean(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "n m"]:
    """Straight-line distance from each x to each y."""
    return np.sqrt(np.sum((x[:, None] - y) ** 2, axis=-1))


def min_plus(x: Float[np.ndarray, "n p"], y: Float[np.ndarray, "p m"]) -> Float[np.ndarray, "n m"]:
    """min_p x[n, p] + y[p, m], the matrix product of shortest paths."""
    result = np.full((x.shape[0], y.shape[1]), np.inf)
    for column, row in zip(x.T, y, strict=True):
        np.minimum(result, column[:, None] + row, out=result)
    return result
