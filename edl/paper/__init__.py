"""Reproduction of the paper: every figure from scratch, over many seeds, with a verdict on every claim.

One file per figure defines its runs (with `edl.paper.recipes`), its measurements, its drawing, and the rule of each
claim (with `edl.paper.verdict`). `edl.paper.reproduce` runs them. To add a figure, add a file and an entry here.
"""

from edl.paper import (
    bottleneck,
    corridor,
    entropy,
    goal_states,
    gridworld,
    interpolation,
    landscapes,
    mi_form,
    smm,
    tree_prior,
)
from edl.paper.figure import PaperFigure

FIGURES: dict[str, PaperFigure] = {
    "fig_bottleneck": bottleneck.FIGURE,
    "fig_smm": smm.FIGURE,
    "fig_corridor": corridor.FIGURE,
    "fig_tree_prior": tree_prior.FIGURE,
    "fig_interpolation": interpolation.FIGURE,
    "fig_gridworld": gridworld.FIGURE,
    "fig_goals": goal_states.FIGURE,
    "fig_landscapes": landscapes.FIGURE,
    "tab_mi_form": mi_form.FIGURE,
    "fig_entropy": entropy.FIGURE,
}

NUMBERED = {
    "fig1": "fig_bottleneck",
    "fig2": "fig_smm",
    "fig3": "fig_corridor",
    "fig4": "fig_tree_prior",
    "fig5": "fig_interpolation",
}
"""Other names: the numbers of the figures in the main text."""
