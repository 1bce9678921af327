"""Figure 5 and the appendix's matrix, "Interpolating between skills": rollouts with a code between two codes.

A blend of two codes should end at the blend of the two goals. We compare its error, the walking distance from the end
to the blend of the goals, with that of a policy that plays the nearer of the two skills instead: the walking distance
from the nearer goal. Only pairs of skills that reach their own goals count, because a skill that fails says nothing
about blends.
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
from edl.evaluate.geodesic import Geodesic, PairedDistance
from edl.evaluate.skill_rollouts import last_states, play_skills
from edl.paper import recipes
from edl.paper.bottleneck import ENV
from edl.paper.figure import LABELS, FigureResult, PaperFigure, Picture
from edl.paper.measurements import Runs, first_seed_paths, play_run, reaches_goal
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Part, Scores, Verdict, judge, less
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

ALL_PAIRS, OPEN_PAIRS = "pairs", "pairs without a wall between"

Pairs = Int[np.ndarray, "p 2"]


class Errors(NamedTuple):
    """Mean error over pairs and shares, per seed: of the blends, and of playing the nearer of the two skills.

    ``pairs`` is the number of pairs of each seed; a seed without any has no errors.
    """

    blended: list[float]
    nearer: list[float]
    pairs: list[int]


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """EDL as in the paper, and our EDL."""
    return {
        "siblings": recipes.edl(settings, ENV, "oracle", recipes.sibling_rivalry(settings, ENV)),
        "ours": recipes.ours(settings, ENV, "frontier"),
    }


def build(runs: Runs) -> FigureResult:
    """The errors of the blends of all pairs, and a matrix of rollouts for some of them."""
    errors = {label: blend_errors(run) for label, run in runs.items()}
    caption = (
        "Rollouts of the mean of two codes, in the mean of their colours. Row and column show the two skills; crosses "
        "mark the mean of their goals. {}."
    )
    pictures = {
        "": Picture(draw_matrix(runs["siblings"], SIZE), caption.format(LABELS["siblings"])),
        "matrix": Picture(draw_matrix(runs["ours"], LARGE_SIZE), caption.format(LABELS["ours"])),
    }
    numbers = {label: {kind: each._asdict() for kind, each in kinds.items()} for label, kinds in errors.items()}
    return FigureResult(pictures, verdicts(errors), numbers)


def blend_errors(run: Run) -> dict[str, Errors]:
    """Errors over the pairs of skills that reach their goals, and over those with no wall between their goals."""
    assert run.skills is not None
    assert run.layout is not None
    pairs = np.array(list(itertools.combinations(range(run.config.num_skills), 2)))
    codes, goals = (np.asarray(x, float) for x in (run.skills.codes, run.skills.goals))
    last = last_states(play_codes(run, blend_pairs(codes, pairs), ROLLOUTS))
    walking = Geodesic.from_layout(run.layout).paired
    target = blend_pairs(goals, pairs)
    sides = [np.tile(goals[:, pairs[:, i]], (1, len(SHARES), 1)) for i in (0, 1)]
    shape = (len(goals), len(SHARES), len(pairs))
    blended = paired_distances(walking, last, target[:, :, None]).mean(axis=2).reshape(shape)
    nearer = np.min([paired_distances(walking, each, target) for each in sides], axis=0).reshape(shape)
    reached = reaches_goal(run, play_run(run))
    working = reached[:, pairs[:, 0]] & reached[:, pairs[:, 1]]
    open_pairs = np.stack([has_no_wall_between(run.layout, each, pairs) for each in goals])
    return {
        ALL_PAIRS: mean_errors(blended, nearer, working),
        OPEN_PAIRS: mean_errors(blended, nearer, working & open_pairs),
    }


def paired_distances(
    walking: PairedDistance, x: Float[np.ndarray, "*n 2"], y: Float[np.ndarray, "*m 2"]
) -> Float[np.ndarray, "*n"]:
    """The distance between corresponding points; ``y`` is broadcast to the shape of ``x``."""
    y = np.broadcast_to(y, x.shape)
    return walking(x.reshape(-1, 2), y.reshape(-1, 2)).reshape(x.shape[:-1])


def mean_errors(
    blended: Float[np.ndarray, "seeds shares p"],
    nearer: Float[np.ndarray, "seeds shares p"],
    chosen: Bool[np.ndarray, "seeds p"],
) -> Errors:
    """Mean errors over the chosen pairs of each seed."""
    errors = [
        [float(side[seed][:, pairs].mean()) for seed, pairs in enumerate(chosen) if pairs.any()]
        for side in (blended, nearer)
    ]
    return Errors(errors[0], errors[1], chosen.sum(axis=1).tolist())


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
        judge(
            "The policy learns to generalize, with interpolated skills reaching states that come from the "
            "interpolation in Euclidean space of the goals of the original skills."
            + (f" [{LABELS[label]}]" if label == "ours" else ""),
            "The end of a blend of two skills is nearer to the blend of their goals than the nearer of the two goals "
            "is, by walking distance: over all pairs of skills that reach their goals, and over those with no wall "
            "between the goals.",
            [blend_part(kind, each) for kind, each in kinds.items()],
            source="ours" if label == "ours" else "paper",
        )
        for label, kinds in errors.items()
    ]


def blend_part(kind: str, errors: Errors) -> Part:
    """Blends end nearer to the blend of the goals than the nearer skill does. Both are of the same runs: paired."""
    what = f"distance from the blend of the goals, {sum(errors.pairs)} {kind}"
    return less(what, Scores("blends", errors.blended), Scores("nearer skill", errors.nearer), paired=True)


FIGURE = PaperFigure("Interpolating between skills", define_runs, build)
