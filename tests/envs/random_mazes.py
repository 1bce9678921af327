"""Random mazes, and a reference check for collisions. Neither uses the code under test."""

import numpy as np

NEIGHBOURS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def random_text(rng: np.random.Generator, height: int, width: int) -> str:
    """A spanning tree over a random region of the grid, with more openings, one to three starts and '#' elsewhere."""
    region = _region(rng, height, width)
    grid = np.full((2 * height + 1, 2 * width + 1), " ")
    grid[::2, ::2] = "+"
    grid[1::2, 1::2] = "#"
    openness = rng.uniform(0, 0.6)
    opened = _spanning_tree(rng, region)
    for row, column in region:
        grid[2 * row + 1, 2 * column + 1] = " "
        for dr, dc in NEIGHBOURS:
            beyond = (row + dr, column + dc)
            edge = frozenset([(row, column), beyond])
            if beyond in region and rng.random() < openness:
                opened.add(edge)
            grid[2 * row + 1 + dr, 2 * column + 1 + dc] = " " if edge in opened else "|" if dc else "-"
    places = sorted(region)
    for index in rng.choice(len(places), size=min(len(places), int(rng.integers(1, 4))), replace=False):
        grid[2 * places[index][0] + 1, 2 * places[index][1] + 1] = "S"
    return "\n".join("".join(row) for row in grid)


def _region(rng: np.random.Generator, height: int, width: int) -> set[tuple[int, int]]:
    """A connected set of cells, grown from a random one."""
    region = {(int(rng.integers(height)), int(rng.integers(width)))}
    for _ in range(int(rng.integers(height * width // 2, 8 * height * width))):
        row, column = sorted(region)[int(rng.integers(len(region)))]
        dr, dc = NEIGHBOURS[int(rng.integers(4))]
        if 0 <= row + dr < height and 0 <= column + dc < width:
            region.add((row + dr, column + dc))
    return region


def _spanning_tree(rng: np.random.Generator, region: set[tuple[int, int]]) -> set[frozenset[tuple[int, int]]]:
    seen, stack, edges = {min(region)}, [min(region)], set()
    while stack:
        row, column = stack[-1]
        fresh = [(row + dr, column + dc) for dr, dc in NEIGHBOURS]
        fresh = [cell for cell in fresh if cell in region and cell not in seen]
        if not fresh:
            stack.pop()
            continue
        cell = fresh[int(rng.integers(len(fresh)))]
        edges.add(frozenset([(row, column), cell]))
        seen.add(cell)
        stack.append(cell)
    return edges


def unit_walls(text: str) -> np.ndarray:
    """Both ends of every single '-' and '|': (w, 2, 2)."""
    rows = text.split("\n")
    row0, column0 = next((r, c) for r, row in enumerate(rows) for c, char in enumerate(row) if char == "S")
    ends = []
    for r, row in enumerate(rows):
        for c, char in enumerate(row):
            x, y = (c - column0) / 2, (row0 - r) / 2
            if char == "-":
                ends.append([[x - 0.5, y], [x + 0.5, y]])
            elif char == "|":
                ends.append([[x, y - 0.5], [x, y + 0.5]])
    return np.array(ends)


def crosses(starts: np.ndarray, ends: np.ndarray, walls: np.ndarray) -> np.ndarray:
    """Whether each segment from ``starts`` to ``ends``, (n, 2), touches a wall. All end points belong to their segment.

    Computed in float64, where coordinates and their differences are exact, and products almost.
    """
    starts, ends = np.asarray(starts, np.float64), np.asarray(ends, np.float64)
    low, high = np.minimum(starts, ends), np.maximum(starts, ends)
    touched = np.zeros(len(starts), bool)
    for one, other in walls:
        near = np.flatnonzero(np.all((low <= np.maximum(one, other)) & (high >= np.minimum(one, other)), axis=1))
        sides = [_side(starts[near], ends[near], corner) for corner in (one, other)]
        touched[near] |= sides[0] * sides[1] <= 0
    return touched


def _side(starts: np.ndarray, ends: np.ndarray, corner: np.ndarray) -> np.ndarray:
    along, to = ends - starts, corner - starts
    return np.sign(along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0])
