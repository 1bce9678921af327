"""Draw where the skills of runs in mazes rest that fail: one panel per skill, with its goal and its rollouts.

    python benchmarks/failures.py OUT.png RUN [RUN ...]

A skill fails if less than `FAILED_SKILL` of its rollouts reach its goal. RUN is the folder of ``edl run``.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import edl
from edl.envs.layouts import Layout
from edl.figures.maze import draw_maze
from edl.figures.style import plot_figure, to_png
from edl.tables.table import FAILED_SKILL

HALF_WIDTH = 2.0
"""The panels show the goal and this many cells around it."""


class Failure(NamedTuple):
    """A skill that fails: a title, its maze and goal, and its rollouts."""

    title: str
    layout: Layout
    goal: np.ndarray
    paths: np.ndarray


def failures(run: edl.Run) -> list[Failure]:
    """The skills of all seeds of a run that fail."""
    assert run.layout is not None
    found = []
    for seed in run.seeds:
        assert seed.metrics is not None
        for skill in seed.metrics["skills"]:
            if skill["goal_success"] < FAILED_SKILL:
                paths = np.asarray(seed.rollout(skill["skill"]).features)
                title = f"{run.layout.name}\nskill {skill['skill']}: {skill['goal_success']:.2f} succeed"
                found.append(Failure(title, run.layout, np.asarray(skill["goal"]), paths))
    return found


def draw(found: list[Failure]) -> bytes:
    figure, panels = plot_figure(2.9, 2.9, columns=len(found), right=0.3)
    for each, axes in zip(found, panels, strict=True):
        draw_maze(axes, each.layout)
        for drawn in axes.collections:
            drawn.set_clip_on(True)  # only a part of the maze is shown
        axes.plot(*each.paths.transpose(2, 1, 0), color="#4477aa", linewidth=0.6, alpha=0.5, zorder=3)
        axes.scatter(*each.paths[:, -1].T, s=14, color="#4477aa", edgecolors="white", linewidths=0.4, zorder=7)
        axes.scatter(*each.goal, marker="*", s=110, color="#cc3311", edgecolors="white", linewidths=0.6, zorder=8)
        axes.set(xlim=each.goal[0] + HALF_WIDTH * np.array([-1, 1]), ylim=each.goal[1] + HALF_WIDTH * np.array([-1, 1]))
        axes.set_title(each.title, fontsize=6.5)
    return to_png(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    options = parser.parse_args()
    found = [each for path in options.runs for each in failures(edl.load(path))]
    if not found:
        print("no skill fails")
        return
    options.out.write_bytes(draw(found))


if __name__ == "__main__":
    main()
