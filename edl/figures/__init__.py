"""Figures and the report. The only package that imports matplotlib. Takes arrays, returns figures or bytes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure

from edl.envs.layouts import Layout
from edl.figures.codebook import assignment_figure, usage_figure
from edl.figures.curves import curves_figure
from edl.figures.filmstrip import filmstrip_figure, message_figure
from edl.figures.maze import draw_maze
from edl.figures.palette import palette
from edl.figures.report import Picture, report_html
from edl.figures.skills import skills_figure
from edl.figures.states import coverage_figure, density_figure, states_figure, visits_figure
from edl.figures.style import to_png, to_svg


class RunData(NamedTuple):
    """What the figures of a run are drawn from: arrays of one seed, and the log. Data that a run lacks are None.

    ``paths`` are the rollouts of the skills. ``samples`` are the explored states, and ``assignments`` their codes.
    ``decoded`` are the goals before snapping, and ``off_support`` marks those far from all explored states. ``rows``
    are the rows of the log, and ``random`` the metrics of random actions.
    """

    layout: Layout | None
    paths: Float[np.ndarray, "k n t s"]
    goals: Float[np.ndarray, "k s"] | None = None
    samples: Float[np.ndarray, "m s"] | None = None
    assignments: Int[np.ndarray, " m"] | None = None
    decoded: Float[np.ndarray, "k s"] | None = None
    off_support: Bool[np.ndarray, " k"] | None = None
    usage: Float[np.ndarray, " k"] | None = None
    rows: Iterable[Mapping[str, Any]] = ()
    random: Mapping[str, float | None] | None = None
    title: str = "Skills"


class RunFigure(NamedTuple):
    """A figure of the report. ``draw`` returns None if the run lacks its data."""

    title: str
    caption: str
    draw: Callable[[RunData], Figure | None]


def draw_states(data: RunData) -> Figure | None:
    return None if data.samples is None else states_figure(data.layout, data.samples)


def draw_assignments(data: RunData) -> Figure | None:
    if data.samples is None or data.assignments is None or data.goals is None:
        return None
    return assignment_figure(data.layout, data.samples, data.assignments, data.goals, data.decoded, data.off_support)


FIGURES: dict[str, RunFigure] = {
    "skills": RunFigure(
        "Skills",
        "Each colour is a skill: its rollouts from the start (black dot), their ends (small dots), and the skill's "
        "goal (star) with its number. Methods without goals have a circle where a typical rollout ends.",
        lambda data: skills_figure(data.layout, data.paths, data.goals, data.title),
    ),
    "states": RunFigure(
        "Explored states", "Samples of p(s), the result of stage 1 and the input of stage 2.", draw_states
    ),
    "assignments": RunFigure(
        "Codes",
        "Explored states in the colour of their code, argmax q(z|s). Stars are goals. An arrow points from a decoded "
        "goal to the explored state that replaced it. A red cross marks a goal decoded far from all explored states.",
        draw_assignments,
    ),
    "usage": RunFigure(
        "Codebook usage",
        "Share of p(s) assigned to each code. Perplexity is the effective number of codes in use.",
        lambda data: None if data.usage is None else usage_figure(data.usage),
    ),
    "curves": RunFigure(
        "Learning curves",
        "Mean and range over seeds. Dashed lines are random actions.",
        lambda data: curves_figure(data.rows, random=data.random),
    ),
}
"""The figures of a run with skills, by name, in the order of the report. To add a figure, add an entry."""

OTHER_CAPTIONS = {
    "visits": (
        "Visits",
        "Number of visits of the explorer to each bin, on a log scale. White bins were never visited.",
    ),
    "density": (
        "Explored density",
        "p(s) relative to the uniform density: blue regions were visited more often, orange less.",
    ),
    "coverage": ("Coverage", "Share of the bins that the explorer visited; mean and range over seeds."),
    "robot": ("Robot", "One rollout of each skill, from its start to its end. The camera follows the robot."),
    "pictures": ("Pictures", "One episode of each skill, from its start to its end, as the env renders it."),
}
"""Title and caption of the figures of exploration, of robots, and of envs that render."""


def run_figures(data: RunData) -> dict[str, Figure]:
    """The figures of one seed of a run, by name, in the order of the report; figures without data are left out."""
    drawn = {name: figure.draw(data) for name, figure in FIGURES.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def code_figures(
    layout: Layout | None,
    goals: Float[np.ndarray, "k s"],
    *,
    samples: Float[np.ndarray, "m s"],
    assignments: Int[np.ndarray, " m"],
    decoded: Float[np.ndarray, "k s"],
    off_support: Bool[np.ndarray, " k"],
    usage: Float[np.ndarray, " k"],
) -> dict[str, Figure]:
    """The figures of stage 2, by name: the codes of the states, and how evenly they are used."""
    codes = assignment_figure(layout, samples, assignments, goals, decoded, off_support)
    return {"assignments": codes, "usage": usage_figure(usage)}


def explore_figures(
    layout: Layout | None,
    samples: Float[np.ndarray, "m s"],
    *,
    paths: Float[np.ndarray, "e t s"] | None = None,
    lengths: Int[np.ndarray, " e"] | None = None,
    steps: Float[np.ndarray, " u"] | Int[np.ndarray, " u"] | None = None,
    coverage: Float[np.ndarray, "*seeds u"] | None = None,
) -> dict[str, Figure]:
    """The figures of stage 1, by name. ``paths`` and ``lengths`` are fields of an `Experience`."""
    figures = {"states": states_figure(layout, samples)}
    if paths is not None:
        figures["visits"] = visits_figure(layout, paths, lengths)
    if steps is not None and coverage is not None:
        figures["coverage"] = coverage_figure(steps, coverage)
    figures["density"] = density_figure(layout, samples)
    return figures


def with_captions(
    figures: Mapping[str, Figure | bytes], instead: Mapping[str, str] = MappingProxyType({})
) -> list[Picture]:
    """Figures with their titles and captions, as `report_html` takes them. ``instead`` has captions that differ."""
    captions = OTHER_CAPTIONS | {name: (figure.title, figure.caption) for name, figure in FIGURES.items()}
    captions |= {name: (captions[name][0], caption) for name, caption in instead.items()}
    return [(*captions.get(name, (name, "")), figure) for name, figure in figures.items()]


__all__ = [
    "FIGURES",
    "RunData",
    "RunFigure",
    "assignment_figure",
    "code_figures",
    "coverage_figure",
    "curves_figure",
    "density_figure",
    "draw_maze",
    "explore_figures",
    "filmstrip_figure",
    "message_figure",
    "palette",
    "report_html",
    "run_figures",
    "skills_figure",
    "states_figure",
    "to_png",
    "to_svg",
    "usage_figure",
    "visits_figure",
    "with_captions",
]
