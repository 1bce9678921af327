"""Pictures and the report. The only importer of matplotlib; numpy arrays in, figures or bytes out, no files written."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from edl.envs.layouts import Layout
from edl.figures.codebook import assignment_figure, usage_figure
from edl.figures.curves import curves_figure
from edl.figures.maze import draw_maze
from edl.figures.palette import palette
from edl.figures.report import Picture, report_html
from edl.figures.skills import skills_figure
from edl.figures.states import coverage_figure, density_figure, states_figure, visits_figure
from edl.figures.style import to_png, to_svg

CAPTIONS = {
    "skills": (
        "Skills",
        "Each colour is a skill: its rollouts from the start (black dot), where each one ended (small dots), and the "
        "goal they were to reach (star) with the skill's number. Without goals, circles show where the rollouts end.",
    ),
    "states": ("Explored states", "Samples of p(s), what stage 1 hands over to stage 2."),
    "visits": ("Visits", "How often the explorer was where, on a log scale. White was never visited."),
    "density": ("Explored density", "p(s) against the uniform density: blue was visited more often, orange less."),
    "coverage": ("Coverage", "Share of the reachable bins visited; mean and range over seeds."),
    "assignments": (
        "Codes",
        "Explored states in the colour of the code that q(z|s) gives them. Stars are goals; an arrow leads from where "
        "a goal was decoded to the explored state that replaced it, a red cross marks one decoded off those states.",
    ),
    "usage": ("Codebook usage", "Share of p(s) that each code owns. Perplexity is the number of codes in even use."),
    "curves": ("Learning curves", "Mean and range over seeds. Dashed: random actions."),
}
"""Title and caption of each of the figures below, for the report."""


def run_figures(
    layout: Layout | None,
    paths: Float[np.ndarray, "k n t s"],
    goals: Float[np.ndarray, "k s"] | None = None,
    *,
    samples: Float[np.ndarray, "m s"] | None = None,
    assignments: Int[np.ndarray, " m"] | None = None,
    decoded: Float[np.ndarray, "k s"] | None = None,
    usage: Float[np.ndarray, " k"] | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    random: Mapping[str, float | None] | None = None,
    title: str = "Skills",
) -> dict[str, Figure]:
    """The pictures of one seed of a run, by name, in the order of the report; what there is no data for is left out."""
    figures: dict[str, Figure | None] = {"skills": skills_figure(layout, paths, goals, title)}
    if samples is not None:
        figures["states"] = states_figure(layout, samples)
        if assignments is not None and goals is not None:
            figures["assignments"] = assignment_figure(layout, samples, assignments, goals, decoded)
    if usage is not None:
        figures["usage"] = usage_figure(usage)
    figures["curves"] = curves_figure(rows, random=random)
    return {name: figure for name, figure in figures.items() if figure is not None}


def explore_figures(
    layout: Layout | None,
    samples: Float[np.ndarray, "m s"],
    *,
    paths: Float[np.ndarray, "e t s"] | None = None,
    lengths: Int[np.ndarray, " e"] | None = None,
    steps: Float[np.ndarray, " u"] | Int[np.ndarray, " u"] | None = None,
    coverage: Float[np.ndarray, "*seeds u"] | None = None,
) -> dict[str, Figure]:
    """The pictures of stage 1, by name. ``paths`` and ``lengths`` are an `Experience`'s."""
    figures = {"states": states_figure(layout, samples)}
    if paths is not None:
        figures["visits"] = visits_figure(layout, paths, lengths)
    if steps is not None and coverage is not None:
        figures["coverage"] = coverage_figure(steps, coverage)
    figures["density"] = density_figure(layout, samples)
    return figures


def with_captions(figures: Mapping[str, Figure | bytes]) -> list[Picture]:
    """Figures as `report_html` wants them, each with its title and caption."""
    return [(*CAPTIONS.get(name, (name, "")), figure) for name, figure in figures.items()]


__all__ = [
    "CAPTIONS",
    "assignment_figure",
    "coverage_figure",
    "curves_figure",
    "density_figure",
    "draw_maze",
    "explore_figures",
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
