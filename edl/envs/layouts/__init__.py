"""Mazes as text: walls and cells on a grid of (2h+1) x (2w+1) characters.

``+`` is a post, ``-`` and ``|`` are walls, a space is open, ``#`` is a cell outside the maze and ``S`` a start cell.
Cells are unit squares; the centre of the first ``S`` in reading order is the origin, x points right and y up. An error
in the text raises a `ConfigError` that names row and column, counted from 1.
"""

import dataclasses
import functools
import pathlib
from typing import NoReturn

import numpy as np

from edl.config import ConfigError

FOLDER = pathlib.Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))
"""The built-in layouts."""

MAX_BYTES = 1_000_000
MAX_CELLS = 256
"""Maximum number of cells per side. Beyond it, float32 coordinates are too coarse for the repulsion from the walls."""

DIRECTIONS = ((0, 1), (-1, 0), (0, -1), (1, 0))
"""(row, column) of one character to the right, up, left and down."""

POST, CELL, HORIZONTAL, VERTICAL = "a post", "a cell", "a horizontal wall", "a vertical wall"
ALPHABET = {POST: "+", CELL: " #S", HORIZONTAL: " -", VERTICAL: " |"}
KINDS = {(0, 0): POST, (1, 1): CELL, (0, 1): HORIZONTAL, (1, 0): VERTICAL}
"""The kind of a character, by the parity of its row and column."""
WALLS = ("-", "|")


@dataclasses.dataclass(frozen=True)
class Layout:
    """A maze as NumPy arrays. Adjacent walls in one line are merged into one segment; cells are in reading order."""

    name: str
    text: str
    walls: np.ndarray
    """(w, 2, 2): both end points of each wall, the lower or left one first."""
    cells: np.ndarray
    """(c, 2): centres of the cells inside the maze."""
    starts: np.ndarray
    """(m, 2): centres of the start cells."""
    passages: np.ndarray
    """(c, 4): whether a cell is open to its right, upper, left and lower neighbour, in this order."""

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower left and the upper right corner of the bounding box of the cells."""
        return self.cells.min(axis=0) - 0.5, self.cells.max(axis=0) + 0.5

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Whether each row of ``points`` lies in a cell of the maze."""
        low, high = self.bounds
        size = np.rint(high - low).astype(int)
        is_cell = np.zeros(size, bool)
        is_cell[tuple(np.rint(self.cells - low - 0.5).astype(int).T)] = True
        in_box = np.all((points >= low) & (points <= high), axis=1)
        corner = np.where(in_box[:, None], points - low, 0.0)
        return in_box & is_cell[tuple(np.minimum(corner.astype(int), size - 1).T)]


def load(name_or_path: str | pathlib.Path) -> Layout:
    """The built-in layout of that name, or the one in that file."""
    if str(name_or_path) in NAMES:
        return _built_in(str(name_or_path))
    path = pathlib.Path(name_or_path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise ConfigError(
            f"maze {str(path)!r} cannot be read ({error.args[-1]}). Use a text file or one of {', '.join(NAMES)}."
        ) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"maze {str(path)!r} must have at most {MAX_BYTES} bytes (got more). Use a maze text file.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(
            f"maze {str(path)!r} is not text. It must be a grid of '+', '-', '|', '#', 'S' and spaces."
        ) from None
    return parse(text, path.stem)


@functools.cache
def _built_in(name: str) -> Layout:
    """Parsed once: every run looks its maze up several times. Nobody can change the arrays."""
    layout = parse((FOLDER / f"{name}.txt").read_text("utf-8"), name)
    for array in (layout.walls, layout.cells, layout.starts, layout.passages):
        array.setflags(write=False)
    return layout


def parse(text: str, name: str = "maze") -> Layout:
    """Parse a maze. An invalid text raises an error that names row and column."""
    grid = _grid(text, name)
    starts = np.argwhere(grid == "S")
    if not len(starts):
        _fail(name, 1, 1, "the maze has no start cell", "put an 'S' in at least one cell")
    _check_closed(grid, name)
    inside = _reachable(grid, starts)
    for row, column in np.argwhere(_cells_mask(grid) & ~inside).tolist():
        _fail(name, row, column, "this cell cannot be reached from any 'S'", "open a wall to it, or make it '#'")
    cells = np.argwhere(inside)
    passages = [[grid[row + dr, column + dc] not in WALLS for dr, dc in DIRECTIONS] for row, column in cells.tolist()]
    origin = starts[0]
    return Layout(
        name=name,
        text="\n".join("".join(row) for row in grid),
        walls=_points(_wall_ends(grid), origin),
        cells=_points(cells, origin),
        starts=_points(starts, origin),
        passages=np.array(passages, bool),
    )


def _fail(name: str, row: int, column: int, problem: str, remedy: str) -> NoReturn:
    """Raise. ``row`` and ``column`` count from 0, the message counts from 1."""
    raise ConfigError(f"maze {name!r}, row {row + 1}, column {column + 1}: {problem}; {remedy}.")


def _grid(text: str, name: str) -> np.ndarray:
    """The characters as an array, after a check of their shape and kind."""
    lines = [line.removesuffix("\r") for line in text.rstrip().split("\n")]
    width = len(lines[0].rstrip())
    if width < 3 or width % 2 == 0:
        problem = f"the first row has {width} characters"
        _fail(name, 0, max(width - 1, 0), problem, "give every row 2 x cells + 1 characters, e.g. '+-+-+'")
    rows = [_fit(line, width, index) for index, line in enumerate(lines)]
    for index, row in enumerate(rows):
        if len(row) != width:
            problem = f"this row has {len(row)} characters, the first one {width}"
            _fail(name, index, min(len(row), width), problem, "make all rows equally long")
    if len(rows) < 3 or len(rows) % 2 == 0:
        _fail(name, len(rows) - 1, 0, f"the maze has {len(rows)} rows", "give it 2 x cells + 1 rows")
    if max(len(rows), width) > 2 * MAX_CELLS + 1:
        _fail(name, len(rows) - 1, width - 1, f"more than {MAX_CELLS} cells along a side", "make the maze smaller")
    _check_characters(rows, name)
    return np.array([list(row) for row in rows])


def _fit(line: str, width: int, index: int) -> str:
    """Restore the trailing space that editors strip from a row of cells, and drop spaces beyond the width."""
    stripped = index % 2 == 1 and len(line) == width - 1
    return line + " " if stripped else line[:width] + line[width:].rstrip()


def _check_characters(rows: list[str], name: str) -> None:
    for row, line in enumerate(rows):
        for column, character in enumerate(line):
            kind = KINDS[row % 2, column % 2]
            if character not in ALPHABET[kind]:
                known = any(character in characters for characters in ALPHABET.values())
                problem = f"{character!r} where {kind} belongs" if known else f"unknown character {character!r}"
                _fail(name, row, column, problem, f"{kind} is written {' or '.join(map(repr, ALPHABET[kind]))}")


def _cells_mask(grid: np.ndarray) -> np.ndarray:
    mask = np.zeros(grid.shape, bool)
    mask[1::2, 1::2] = grid[1::2, 1::2] != "#"
    return mask


def _check_closed(grid: np.ndarray, name: str) -> None:
    inside = np.pad(_cells_mask(grid), 1)
    for row, column in (np.argwhere(inside) - 1).tolist():
        for dr, dc in DIRECTIONS:
            beyond = inside[row + 1 + 2 * dr, column + 1 + 2 * dc]  # False in the padding
            if grid[row + dr, column + dc] not in WALLS and not beyond:
                _fail(name, row + dr, column + dc, "the maze leaks to the outside here", "close it with '-' or '|'")


def _reachable(grid: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The cells that a flood fill from all starts reaches. The maze must be closed."""
    seen = np.zeros(grid.shape, bool)
    stack = [tuple(start) for start in starts.tolist()]
    while stack:
        row, column = stack.pop()
        if not seen[row, column]:
            seen[row, column] = True
            open_to = [(dr, dc) for dr, dc in DIRECTIONS if grid[row + dr, column + dc] not in WALLS]
            stack.extend((row + 2 * dr, column + 2 * dc) for dr, dc in open_to)
    return seen


def _wall_ends(grid: np.ndarray) -> np.ndarray:
    """Both ends of each wall as (row, column), the lower or left one first. Adjacent walls in one line are merged."""
    height, width = grid.shape
    horizontal = [((row, a), (row, b)) for row in range(0, height, 2) for a, b in _runs(grid[row, 1::2] == "-")]
    vertical = [((b, col), (a, col)) for col in range(0, width, 2) for a, b in _runs(grid[1::2, col] == "|")]
    return np.array(horizontal + vertical).reshape(-1, 2, 2)


def _runs(wall: np.ndarray) -> list[tuple[int, int]]:
    """The start and the end of each unbroken run of walls, in characters."""
    edges = np.flatnonzero(np.diff(np.pad(wall.astype(np.int8), 1)))
    return [(2 * int(a), 2 * int(b)) for a, b in edges.reshape(-1, 2)]


def _points(places: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """(x, y) of characters at (row, column). Two characters are one unit."""
    offset = (places - origin).astype(np.float64) / 2
    return np.stack([offset[..., 1], -offset[..., 0]], axis=-1)
