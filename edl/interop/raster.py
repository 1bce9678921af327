"""A maze as pixels, in plain NumPy: a frame for Gymnasium's ``rgb_array``."""

import numpy as np

from edl.envs.layouts import Layout

LONGEST_SIDE = 480
OUTSIDE, INSIDE, START, WALL, POINT = (226, 228, 233), (255, 255, 255), (219, 240, 226), (38, 42, 54), (214, 64, 69)
MARGIN = 0.15
"""Width of the border around the maze, in cells."""


class Raster:
    """Draws a layout once, and then a point on copies of it."""

    def __init__(self, layout: Layout):
        low, high = layout.bounds
        self.low, self.high = low - MARGIN, high + MARGIN
        self.scale = max(2, int(LONGEST_SIDE / max(self.high - self.low)))
        width, height = np.ceil((self.high - self.low) * self.scale).astype(int)
        self.canvas = np.full((height, width, 3), OUTSIDE, np.uint8)
        for centre in layout.cells:
            self._fill(centre - 0.5, centre + 0.5, INSIDE)
        for centre in layout.starts:
            self._fill(centre - 0.5, centre + 0.5, START)
        thickness = max(1.0 / self.scale, 0.03)
        for ends in layout.walls:
            self._fill(ends.min(axis=0) - thickness, ends.max(axis=0) + thickness, WALL)

    def frame(self, position: np.ndarray) -> np.ndarray:
        """The maze with a disc at ``position``: (height, width, 3) of uint8."""
        frame = self.canvas.copy()
        column, row = self._pixel(position)
        rows, columns = np.ogrid[: frame.shape[0], : frame.shape[1]]
        radius = max(2.0, 0.14 * self.scale)
        frame[(rows - row) ** 2 + (columns - column) ** 2 <= radius**2] = POINT
        return frame

    def _pixel(self, point: np.ndarray) -> np.ndarray:
        """Column and row; rows count downwards."""
        return np.array([point[0] - self.low[0], self.high[1] - point[1]]) * self.scale

    def _fill(self, low: np.ndarray, high: np.ndarray, colour: tuple[int, int, int]) -> None:
        left, bottom = self._pixel(low).round().astype(int)
        right, top = self._pixel(high).round().astype(int)
        self.canvas[max(top, 0) : max(bottom, top + 1), max(left, 0) : max(right, left + 1)] = colour
