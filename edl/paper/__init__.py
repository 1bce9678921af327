"""The paper as numbers: every figure regenerated from scratch, with many seeds, and a verdict on every claim.

One file per figure: which runs it needs (`edl.paper.recipes`), what is measured on them, what is drawn, and
by which rule (`edl.paper.verdict`) each claim holds or does not. `reproduce` runs them.
"""

from edl.paper import (
    bottleneck,
    corridor,
    goals,
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
    "fig_goals": goals.FIGURE,
    "fig_landscapes": landscapes.FIGURE,
    "tab_mi_form": mi_form.FIGURE,
}
