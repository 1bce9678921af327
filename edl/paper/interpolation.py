"""Figure 6 and the appendix's matrix, "Interpolating between skills": rollouts with a code between two codes.

A blend of two codes should end at the blend of the two goals. We compare its error with that of a policy that treats
every blend as the nearer of the two skills: the distance from the blend of the goals to the nearer goal.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.evaluate.geodesic import Geodesic
from edl.evaluate.skill_rollouts import last_states, play_skills
from edl.paper import recipes
from edl.paper.bottleneck import ENV
from edl.paper.figure import LABELS, FigureResult, PaperFigure, Picture
from edl.paper.measurements import Runs, first_seed_paths
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, better
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
from edl.runtime.effort import quick_jit
from edl.types import Key

SHARES = (0.25, 0.5, 0.75)
NEARLY_STRAIGHT = 1.05
"""Two goals have no wall between them if their walking distance is at most this many times their Euclidean distance."""
ROLLOUTS = 10
"""Rollouts per blend for the errors."""
MATRIX_ROLLOUTS = 20
"""Rollouts per blend in the pictures."""
SIZE, LARGE_SIZE = 3, 5
"""Rows and columns of the figure's matrix, and of the appendix's matrix."""

Pairs = Int[np.ndarray, "p 2"]


class Errors(NamedTuple):
    """Mean error over pairs and shares, per seed: of the blends, and of playing the nearer of the two skills."""

    blended: list[float]
    nearer: list[float]


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """EDL as in the paper, and our EDL."""
    return {
        "siblings": recipes.edl(settings, ENV, "oracle", recipes.sibling_rivalry(settings)),
        "ours": recipes.edl(settings, ENV, "frontier", recipes.walking(settings)),
    }


def build(runs: Runs) -> FigureResult:
    """The errors of the blends of all pairs, and a matrix of rollouts for some of them."""
    errors = {label: blend_errors(run) for label, run in runs.items()}
    caption = (
        "Rollouts of the mean of two codes, in the mean of their colours. Row and column show the two skills; crosses "
        "mark the mean of their goals."
    )
    pictures = {
        "": Picture(draw_matrix(runs["ours"], SIZE), caption),
        "matrix": Picture(draw_matrix(runs["ours"], LARGE_SIZE), caption),
    }
    numbers = {label: {kind: each._asdict() for kind, each in kinds.items()} for label, kinds in errors.items()}
    return FigureResult(pictures, verdicts(errors), numbers)


def blend_errors(run: Run) -> dict[str, Errors]:
    """Errors over all pairs of skills, and over the pairs with no wall between their goals."""
    assert run.skills is not None
    assert run.layout is not None
    pairs = np.array(list(itertools.combinations(range(run.config.num_skills), 2)))
    codes, goals = (np.asarray(x, float) for x in (run.skills.codes, run.skills.goals))
    ends = np.mean(last_states(play_codes(run, blend_pairs(codes, pairs), ROLLOUTS)), axis=2)
    target = blend_pairs(goals, pairs)
    blended = np.linalg.norm(ends - target, axis=-1).reshape(len(goals), len(SHARES), -1)
    both = (np.tile(goals[:, pairs[:, i]], (1, len(SHARES), 1)) for i in (0, 1))
    to_goals = np.stack([np.linalg.norm(target - each, axis=-1) for each in both])
    nearer = np.min(to_goals, axis=0).reshape(blended.shape)
    open_pairs = np.stack([has_no_wall_between(run.layout, each, pairs) for each in goals])

    def mean_errors(chosen: Bool[np.ndarray, "seeds p"]) -> Errors:
        rows = [(b[:, c], n[:, c]) for b, n, c in zip(blended, nearer, chosen, strict=True) if c.any()]
        return Errors([float(b.mean()) for b, _ in rows], [float(n.mean()) for _, n in rows])

    return {
        "all pairs": mean_errors(np.ones_like(open_pairs)),
        "pairs without a wall between": mean_errors(open_pairs),
    }


def blend_pairs(points: Float[np.ndarray, "seeds k d"], pairs: Pairs) -> Float[np.ndarray, "seeds m d"]:
    """(1 - a) x_i + a x_j: all pairs for the first share a, then all pairs for the next share."""
    first, second = points[:, pairs[:, 0]], points[:, pairs[:, 1]]
    return np.concatenate([(1 - share) * first + share * second for share in SHARES], axis=1)


def has_no_wall_between(layout: Layout, goals: Float[np.ndarray, "k 2"], pairs: Pairs) -> Bool[np.ndarray, " p"]:
    """Whether the shortest path between the goals of each pair is (nearly) straight."""
    walking = Geodesic.from_layout(layout).distance(goals, goals)[pairs[:, 0], pairs[:, 1]]
    return walking <= NEARLY_STRAIGHT * np.linalg.norm(goals[pairs[:, 0]] - goals[pairs[:, 1]], axis=-1) + 1e-6


def play_codes(run: Run, codes: Float[np.ndarray, "seeds m z"], num: int) -> Episode:
    """``num`` rollouts of any codes."""

    def play(key: Key, policy: SkillPolicy, codes: Float[Array, "m z"]) -> Episode:
        return quick_jit(play_skills, "num")(key, run.env, policy, codes, num=num)

    assert run.policy is not None
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 2))(stage_keys(run.config, "evaluate"))
    return jax.device_get(jax.vmap(play)(keys, run.policy, jnp.asarray(codes, jnp.float32)))


def draw_matrix(run: Run, size: int) -> Any:
    """Randomly drawn skills along the top and the left edge, and their blends in between."""
    from edl.figures.palette import palette
    from edl.figures.panels import Panel, blend, panels_figure

    assert run.skills is not None
    assert run.layout is not None
    layout, total = run.layout, run.config.num_skills
    order = np.random.default_rng(0).permutation(total)
    size = min(size, total // 2)
    columns, rows = order[:size], order[size : 2 * size]
    pairs = [(i, i) for i in (*columns, *rows)] + [(i, j) for i in rows for j in columns]
    index = np.array(pairs)
    codes, goals = (np.asarray(x[0], float) for x in (run.skills.codes, run.skills.goals))
    mean_code, mean_goal = (0.5 * (x[index[:, 0]] + x[index[:, 1]]) for x in (codes, goals))
    every_seed = np.broadcast_to(mean_code, (run.config.num_seeds, *mean_code.shape))
    paths = first_seed_paths(play_codes(run, every_seed, MATRIX_ROLLOUTS))
    colours = palette(total)
    panels = [
        Panel(layout, paths=paths[n : n + 1], colours=[blend(colours[i], colours[j])], targets=mean_goal[n : n + 1])
        for n, (i, j) in enumerate(pairs)
    ]
    top: Sequence[Panel | None] = [None, *panels[:size]]
    inner = [[panels[size + r], *panels[2 * size + r * size : 2 * size + (r + 1) * size]] for r in range(size)]
    return panels_figure([top, *inner], side=2.1)


def verdicts(errors: dict[str, dict[str, Errors]]) -> list[Verdict]:
    """The paper's claim about blends, for its EDL and for ours."""
    return [
        better(
            f"Blended skills reach the straight-line blend of the goals ({LABELS[label]}, {kind}).",
            "distance of the end from the blend of the goals",
            Scores("blends", each.blended),
            Scores("the nearer of the two skills", each.nearer),
            lower=True,
        )
        for label, kinds in errors.items()
        for kind, each in kinds.items()
        if each.blended
    ]


FIGURE = PaperFigure("Interpolating between skills", define_runs, build)
