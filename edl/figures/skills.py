"""The main figure: the trajectories of every skill in its own colour, with its goal.

Follows the figures of the paper and adds the goals, their numbers, and the end of each rollout.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from edl.envs.layouts import Layout
from edl.figures.maze import draw_starts, env_figure, plane, points_per_unit
from edl.figures.palette import palette
from edl.figures.style import write_number

MANY = 50
"""With more rollouts per skill than this, lines are faint and ends are not drawn."""


def skills_figure(
    layout: Layout | None,
    paths: Float[np.ndarray, "k n t s"],
    goals: Float[np.ndarray, "k s"] | None = None,
    title: str = "Skills",
) -> Figure:
    """Rollouts of each skill; states after the end of an episode may be NaN.

    A skill's number is drawn at its goal, or at the end of a typical rollout if the method has no goals.
    """
    paths = plane(paths)
    figure, axes = env_figure(layout, title, f"{paths.shape[0]} skills, {paths.shape[1]} rollouts each")
    draw_trajectories(axes, paths)
    if layout is None:
        draw_starts(axes, paths[:, :, 0].mean(axis=(0, 1))[None])
    marks = nearest_to_median(last_points(paths)) if goals is None else plane(goals)
    draw_goals(axes, marks, marker="o" if goals is None else "*")
    return figure


def draw_trajectories(
    axes: Axes, paths: Float[np.ndarray, "k n t 2"], colours: Sequence[str] | None = None, rasterized: bool = False
) -> None:
    """Draw lines in one colour per skill, with a dot at the end of each."""
    skills, rollouts, times, _ = paths.shape
    # Drawn skill by skill, the last skills would hide the first; so the i-th rollouts of all skills are drawn together.
    order = paths.swapaxes(0, 1).reshape(-1, times, 2)
    colours = list(colours or palette(skills)) * rollouts
    many = rollouts > MANY
    alpha = float(np.clip(5 / np.sqrt(skills * rollouts), 0.08 if many else 0.25, 0.12 if many else 0.7))
    lines = LineCollection(list(order), colors=colours, linewidths=0.9, alpha=alpha, zorder=3, joinstyle="round")
    lines.set_rasterized(rasterized)
    axes.add_collection(lines)
    if not many:
        ends = last_points(paths).swapaxes(0, 1).reshape(-1, 2)
        area = 0.1 * mark_size(axes, skills) ** 2
        axes.scatter(*ends.T, s=area, c=colours, edgecolors="white", linewidths=0.3, zorder=4, rasterized=rasterized)
    if axes.get_aspect() != 1:
        axes.autoscale_view()


def draw_goals(axes: Axes, goals: Float[np.ndarray, "k 2"], marker: str = "*") -> None:
    """Draw numbered white marks with an outline in each skill's colour; the marks shrink with the number of skills."""
    colours = palette(len(goals))
    size = mark_size(axes, len(goals))
    area = (1.5 * size) ** 2 if marker == "*" else (0.8 * size) ** 2
    axes.scatter(
        *goals.T, s=area, marker=marker, facecolor="white", edgecolor=colours,
        linewidth=0.15 * size, zorder=8, clip_on=False,
    )  # fmt: skip
    for number, (goal, colour) in enumerate(zip(goals, colours, strict=True)):
        write_number(axes, number, tuple(goal), colour, size)


def mark_size(axes: Axes, num_skills: int) -> float:
    """Font size of the numbers in points; it shrinks with the number of skills and with the size of the maze."""
    unit = points_per_unit(axes) if axes.get_aspect() == 1 else 40.0
    return float(np.clip(min(30 / np.sqrt(num_skills), 0.28 * unit), 5.0, 9.5))


def nearest_to_median(points: Float[np.ndarray, "k n 2"]) -> Float[np.ndarray, "k 2"]:
    """The point of each row that is nearest to its median; the median itself may lie behind a wall."""
    gaps = np.linalg.norm(points - np.median(points, axis=1, keepdims=True), axis=-1)
    return points[np.arange(len(points)), np.argmin(gaps, axis=1)]


def last_points(paths: Float[np.ndarray, "*n t 2"]) -> Float[np.ndarray, "*n 2"]:
    """The last point of each path that is not NaN."""
    real = np.all(np.isfinite(paths), axis=-1)
    last = paths.shape[-2] - 1 - np.argmax(real[..., ::-1], axis=-1)
    return np.take_along_axis(paths, last[..., None, None], axis=-2)[..., 0, :]
