"""Figure 6 and the appendix's matrix, "Interpolating between skills": what a policy does with a code between two.

A blend of two codes should end at the blend of the two goals. The error is measured against what a policy gains by it:
one that took every blend for the nearer of the two skills would be off by the distance from that skill's goal.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl import evaluate
from edl.artifacts import SkillPolicy
from edl.envs.layouts import Layout
from edl.evaluate.evaluate import last_states
from edl.evaluate.geodesic import Geodesic
from edl.runs import stages
from edl.paper import recipes
from edl.paper.bottleneck import ENV
from edl.paper.figure import LABELS, Made, PaperFigure, Picture, Runs
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better
from edl.runs.result import Run
from edl.types import Key

SHARES = (0.25, 0.5, 0.75)
STRAIGHT = 1.05
"""Goals between which walking is this many times longer than flying at most have nothing in their way."""
SHOWN, SHOWN_LARGE = 3, 5
"""Rows and columns of the matrix, and of the appendix's."""


class Errors(NamedTuple):
    """Over pairs and shares, per seed: of the blends, and of taking each for the nearer of its two skills."""

    blended: list[float]
    nearer: list[float]


def needed(grid: Grid) -> dict[str, Recipe]:
    """EDL as in the paper, and ours."""
    return {
        "siblings": recipes.edl(grid, ENV, "oracle", recipes.with_siblings(grid)),
        "ours": recipes.edl(grid, ENV, "frontier", recipes.on_foot(grid)),
    }


def make(runs: Runs) -> Made:
    """Blends of all pairs in numbers, and of some in a matrix."""
    found = {label: errors(run) for label, run in runs.items()}
    caption = (
        "Rollouts of the mean of two codes, in the mean of two colours: row and column show the skills that are "
        "blended, crosses the mean of their goals."
    )
    pictures = {
        "": Picture(matrix(runs["ours"], SHOWN), caption),
        "matrix": Picture(matrix(runs["ours"], SHOWN_LARGE), caption),
    }
    numbers = {label: {name: each._asdict() for name, each in kinds.items()} for label, kinds in found.items()}
    return Made(pictures, verdicts(found), numbers)


def errors(run: Run) -> dict[str, Errors]:
    """Over all pairs, and over those with no wall in between."""
    assert run.skills is not None
    assert run.layout is not None
    pairs = np.array(list(itertools.combinations(range(run.config.num_skills), 2)))
    codes, goals = (np.asarray(x, float) for x in (run.skills.codes, run.skills.goals))
    last = np.mean(last_states(blends(run, blended(codes, pairs), 10)), axis=2)
    target = blended(goals, pairs)
    off = np.linalg.norm(last - target, axis=-1).reshape(len(goals), len(SHARES), -1)
    both = (np.tile(goals[:, pairs[:, i]], (1, len(SHARES), 1)) for i in (0, 1))
    ways = np.stack([np.linalg.norm(target - each, axis=-1) for each in both])
    nearer = np.min(ways, axis=0).reshape(off.shape)
    free = np.stack([unobstructed(run.layout, each, pairs) for each in goals])

    def kind(chosen: np.ndarray) -> Errors:
        rows = [(o[:, c], n[:, c]) for o, n, c in zip(off, nearer, chosen, strict=True) if c.any()]
        return Errors([float(o.mean()) for o, _ in rows], [float(n.mean()) for _, n in rows])

    return {"all pairs": kind(np.ones_like(free)), "pairs without a wall between": kind(free)}


def blended(points: Float[np.ndarray, "seeds k d"], pairs: np.ndarray) -> Float[np.ndarray, "seeds m d"]:
    """(1 - a) x_i + a x_j, for every share a, and for every pair within it."""
    first, second = points[:, pairs[:, 0]], points[:, pairs[:, 1]]
    return np.concatenate([(1 - share) * first + share * second for share in SHARES], axis=1)


def unobstructed(layout: Layout, goals: Float[np.ndarray, "k 2"], pairs: np.ndarray) -> np.ndarray:
    """Which pairs of goals can be walked between in a (nearly) straight line."""
    walk = Geodesic.from_layout(layout).distance(goals, goals)[pairs[:, 0], pairs[:, 1]]
    return walk <= STRAIGHT * np.linalg.norm(goals[pairs[:, 0]] - goals[pairs[:, 1]], axis=-1) + 1e-6


def blends(run: Run, codes: Float[np.ndarray, "seeds m z"], num: int) -> Any:
    """Rollouts of any codes."""

    def one(key: Key, policy: SkillPolicy, codes: Float[Array, "m z"]) -> Any:
        return evaluate.rollouts(key, run.env, policy, codes, num=num)

    assert run.policy is not None
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 2))(stages.keys(run.config, "evaluate"))
    return jax.device_get(jax.vmap(one)(keys, run.policy, jnp.asarray(codes, jnp.float32)))


def matrix(run: Run, size: int) -> Any:
    """Skills along both edges, drawn by lot, and their blends in between."""
    from edl.figures.palette import palette
    from edl.figures.panels import Panel, blend, panels_figure

    assert run.skills is not None
    assert run.layout is not None
    layout, total = run.layout, run.config.num_skills
    lot = np.random.default_rng(0).permutation(total)
    size = min(size, total // 2)
    across, down = lot[:size], lot[size : 2 * size]
    pairs = [(i, i) for i in (*across, *down)] + [(i, j) for i in down for j in across]
    index = np.array(pairs)
    codes, goals = (np.asarray(x[0], float) for x in (run.skills.codes, run.skills.goals))
    mean_code, mean_goal = (0.5 * (x[index[:, 0]] + x[index[:, 1]]) for x in (codes, goals))
    paths = blends(run, np.broadcast_to(mean_code, (run.config.num_seeds, *mean_code.shape)), 20).features[0]
    colours = palette(total)
    drawn = [
        Panel(layout, paths=paths[n : n + 1], colours=[blend(colours[i], colours[j])], targets=mean_goal[n : n + 1])
        for n, (i, j) in enumerate(pairs)
    ]
    top: Sequence[Panel | None] = [None, *drawn[:size]]
    inner = [[drawn[size + r], *drawn[2 * size + r * size : 2 * size + (r + 1) * size]] for r in range(size)]
    return panels_figure([top, *inner], side=2.1)


def verdicts(found: dict[str, dict[str, Errors]]) -> list[Verdict]:
    """The claim of the paper about blends, for its EDL and for ours."""
    return [
        better(
            f"Blended skills reach the straight-line blend of the goals ({LABELS[label]}, {kind}).",
            "distance of the end from the blend of the goals",
            Scores("blends", each.blended),
            Scores("the nearer of the two skills", each.nearer),
            lower=True,
        )
        for label, kinds in found.items()
        for kind, each in kinds.items()
        if each.blended
    ]


FIGURE = PaperFigure("Interpolating between skills", needed, make)
