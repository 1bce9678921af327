"""Random mazes by name, for results on mazes that were not used for tuning.

    random:8x8?loops=0.1&rooms=2&seed=7          8 cells wide, 8 cells high

1. *Rooms*: ``rooms`` rectangles of 2 to `MAX_ROOM` cells per side, without inner walls. They may overlap.
2. *Start*: a random cell.
3. *Tree*: a depth-first search from the start, which makes long corridors. It opens a wall if the cell behind it is not
   connected yet. So every cell is reachable, and without rooms the passages are a spanning tree: there is exactly one
   path between two cells.
4. *Loops*: a share of ``loops`` of the remaining inner walls is opened.

The name determines the maze, also on other machines: all choices come from ``random.Random(seed).random()``, whose
sequence Python guarantees.
"""

import collections
import random
import re
from typing import NamedTuple, NoReturn

import numpy as np
from jaxtyping import Int

from edl.config import ConfigError
from edl.envs import layouts
from edl.envs.layouts import DIRECTIONS, MAX_CELLS, Layout
from edl.envs.maze import HORIZON, MAX_ACTION

PREFIX = "random:"
EXAMPLE = "random:8x8?loops=0.1&rooms=2&seed=7"
SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})")
MAX_ROOM = 3
"""Maximum number of cells along a side of a room."""
HORIZON_SHARE = 0.8
"""A maze fits the horizon if this share of the steps suffices: a policy with noise needs some to spare."""
UNREACHED = -1

Cell = tuple[int, int]
"""Row and column."""
Wall = tuple[Cell, Cell]
"""An inner wall, by the cells that it separates: the upper or left one first."""


class MazeSpec(NamedTuple):
    """The settings of a random maze. ``loops`` is a share of walls, and ``rooms`` a number of rooms."""

    width: int
    height: int
    loops: float = 0.0
    rooms: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of the maze, e.g. for ``--env``."""
        given = {"loops": f"{self.loops:g}", "rooms": str(self.rooms), "seed": str(self.seed)}
        return f"{PREFIX}{self.width}x{self.height}?" + "&".join(f"{key}={value}" for key, value in given.items())


def is_random(name: str) -> bool:
    """Whether a name means a random maze."""
    return name.startswith(PREFIX)


def parse_name(name: str) -> MazeSpec:
    """The settings in a name such as ``random:8x8?loops=0.1&rooms=2&seed=7``."""
    size, _, arguments = name.removeprefix(PREFIX).partition("?")
    match = SIZE.fullmatch(size)
    if not is_random(name) or match is None:
        _fail(name, f"must have a size of WIDTHxHEIGHT cells (got {size!r})")
    values: dict[str, str] = {}
    for part in filter(None, arguments.split("&")):
        key, equals, value = part.partition("=")
        if key not in ("loops", "rooms", "seed") or not equals:
            _fail(name, f"takes the settings loops, rooms and seed (got {part!r})")
        if key in values:
            _fail(name, f"has the setting {key!r} twice")
        values[key] = value
    try:
        loops = float(values.get("loops", "0"))
        rooms, seed = (int(values.get(key, "0")) for key in ("rooms", "seed"))
    except ValueError as error:
        _fail(name, f"needs a number for loops and whole numbers for rooms and seed ({error})")
    spec = MazeSpec(int(match[1]), int(match[2]), loops, rooms, seed)
    check_spec(spec, name)
    return spec


def check_spec(spec: MazeSpec, name: str | None = None) -> None:
    """Reject settings that are out of range."""
    name = spec.name if name is None else name
    if not (1 <= spec.width <= MAX_CELLS and 1 <= spec.height <= MAX_CELLS):
        _fail(name, f"must have 1 to {MAX_CELLS} cells per side (got {spec.width}x{spec.height})")
    if not 0.0 <= spec.loops <= 1.0:
        _fail(name, f"needs loops from 0 to 1, a share of the inner walls (got {spec.loops:g})")
    if spec.rooms < 0 or spec.seed < 0:
        _fail(name, f"needs rooms and seed of at least 0 (got rooms={spec.rooms}, seed={spec.seed})")


def _fail(name: str, problem: str) -> NoReturn:
    raise ConfigError(f"random maze {name!r} {problem}. For example: {EXAMPLE}.")


def random_layout(name: str) -> Layout:
    """The maze of a name such as ``random:8x8?seed=7``."""
    return layouts.parse(random_text(parse_name(name)), name)


def random_text(spec: MazeSpec) -> str:
    """The maze as text, in the format of `edl.envs.layouts`."""
    check_spec(spec)
    rng = random.Random(spec.seed)
    rooms = _rooms(rng, spec)
    start = (_below(rng, spec.height), _below(rng, spec.width))
    opened = rooms | _spanning_tree(rng, spec, start, rooms)
    closed = [wall for wall in _inner_walls(spec) if wall not in opened]
    opened |= set(_shuffled(rng, closed)[: round(spec.loops * len(closed))])
    return _draw(spec, [wall for wall in closed if wall not in opened], start)


def _below(rng: random.Random, count: int) -> int:
    """A random whole number from 0 to ``count - 1``."""
    return int(rng.random() * count)


def _shuffled(rng: random.Random, walls: list[Wall]) -> list[Wall]:
    return [wall for _, wall in sorted((rng.random(), wall) for wall in walls)]


def _wall(cell: Cell, beyond: Cell) -> Wall:
    return min(cell, beyond), max(cell, beyond)


def _neighbours(spec: MazeSpec, cell: Cell) -> list[Cell]:
    beside = [(cell[0] + down, cell[1] + right) for down, right in DIRECTIONS]
    return [(row, column) for row, column in beside if 0 <= row < spec.height and 0 <= column < spec.width]


def _inner_walls(spec: MazeSpec) -> list[Wall]:
    cells = [(row, column) for row in range(spec.height) for column in range(spec.width)]
    return sorted({_wall(cell, beyond) for cell in cells for beyond in _neighbours(spec, cell)})


def _rooms(rng: random.Random, spec: MazeSpec) -> set[Wall]:
    """The inner walls that the rooms remove."""
    opened: set[Wall] = set()
    for _ in range(spec.rooms):
        height, width = (min(2 + _below(rng, MAX_ROOM - 1), side) for side in (spec.height, spec.width))
        top, left = _below(rng, spec.height - height + 1), _below(rng, spec.width - width + 1)
        inside = {(row, column) for row in range(top, top + height) for column in range(left, left + width)}
        opened |= {_wall(cell, beyond) for cell in inside for beyond in _neighbours(spec, cell) if beyond in inside}
    return opened


def _spanning_tree(rng: random.Random, spec: MazeSpec, start: Cell, rooms: set[Wall]) -> set[Wall]:
    """The walls that a depth-first search opens. A search that enters a room has visited all of its cells."""
    opened: set[Wall] = set()
    visited: set[Cell] = set()
    stack: list[Cell] = []

    def enter(cell: Cell) -> None:
        connected = [cell]
        while connected:
            current = connected.pop()
            if current not in visited:
                visited.add(current)
                stack.append(current)
                connected += [beyond for beyond in _neighbours(spec, current) if _wall(current, beyond) in rooms]

    enter(start)
    while stack:
        fresh = [beyond for beyond in _neighbours(spec, stack[-1]) if beyond not in visited]
        if not fresh:
            stack.pop()
            continue
        beyond = fresh[_below(rng, len(fresh))]
        opened.add(_wall(stack[-1], beyond))
        enter(beyond)
    return opened


def _draw(spec: MazeSpec, closed: list[Wall], start: Cell) -> str:
    grid = np.full((2 * spec.height + 1, 2 * spec.width + 1), " ")
    grid[[0, -1], 1::2] = "-"
    grid[1::2, [0, -1]] = "|"
    grid[::2, ::2] = "+"
    for one, other in closed:
        grid[one[0] + other[0] + 1, one[1] + other[1] + 1] = "|" if one[0] == other[0] else "-"
    grid[2 * start[0] + 1, 2 * start[1] + 1] = "S"
    return "\n".join("".join(row) for row in grid)


def cell_distances(layout: Layout) -> Int[np.ndarray, " c"]:
    """The number of cells from the nearest start to each cell, by breadth-first search through the passages."""
    number = {tuple(cell): index for index, cell in enumerate(layout.cells.tolist())}
    distances = np.full(len(layout.cells), UNREACHED)
    queue = collections.deque(number[tuple(start)] for start in layout.starts.tolist())
    distances[list(queue)] = 0
    while queue:
        current = queue.popleft()
        x, y = layout.cells[current]
        for (down, right), is_open in zip(DIRECTIONS, layout.passages[current], strict=True):
            beyond = number[x + right, y - down] if is_open else current
            if distances[beyond] == UNREACHED:
                distances[beyond] = distances[current] + 1
                queue.append(beyond)
    return distances


def steps_to_farthest_cell(layout: Layout) -> float:
    """An upper bound on the steps of a noiseless walk from any start to any point.

    A step along an axis is at most `MAX_ACTION` long. Start and end are at most half a cell from the centres of their
    cells. A walk through open rooms, or around corners, takes fewer steps.
    """
    return float(cell_distances(layout).max() + 1) / MAX_ACTION


def fits_horizon(layout: Layout, horizon: int = HORIZON) -> bool:
    """Whether an agent reaches every cell within `HORIZON_SHARE` of the steps of an episode."""
    return steps_to_farthest_cell(layout) <= HORIZON_SHARE * horizon


def random_mazes(count: int, horizon: int = HORIZON) -> list[MazeSpec]:
    """The first ``count`` mazes of a fixed sequence that fit the horizon.

    The sequence varies the size from 6 x 6 to 10 x 10 cells, the loops and the rooms, and numbers the mazes by seed.
    """
    rng, found, seed = random.Random(0), [], 0
    while len(found) < count:
        width, height = (6 + _below(rng, 5) for _ in range(2))
        spec = MazeSpec(width, height, (0.0, 0.1, 0.2)[_below(rng, 3)], _below(rng, 4), seed)
        if fits_horizon(random_layout(spec.name), horizon):
            found.append(spec)
        seed += 1
    return found
