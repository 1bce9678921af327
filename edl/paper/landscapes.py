"""The appendix's reward landscapes: the reward of forward MI, reverse MI and EDL at every position, at convergence.

q(s|z) and q(z|s) of the baselines are fitted by maximum likelihood to rollouts of the trained policies.

Not tested: "The reward functions follow a bell shape centered at each of the centroids". This is true by definition,
because q(s|z) is a Gaussian around the decoded state. The claim about entropic trajectories is in `edl.paper.entropy`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.spatial import KDTree

from edl.artifacts import SkillModel
from edl.baselines.forward_mi import forward_reward
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.evaluate.coverage import bins_of
from edl.evaluate.discriminability import fit_classifier, labelled_visits, log_posterior
from edl.evaluate.geodesic import Geodesic
from edl.paper import recipes
from edl.paper.bottleneck import ENV
from edl.paper.figure import FigureResult, PaperFigure, Picture
from edl.paper.measurements import PerSkill, Runs, first_seed_paths, play_run, reaches_goal
from edl.paper.recipes import Recipe, ReproductionConfig
from edl.paper.verdict import Scores, Verdict, at_least, greater, judge
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
from edl.runtime.effort import quick_jit
from edl.types import Key

if TYPE_CHECKING:
    from edl.figures.panels import Panel

UNEXPLORED = 0.5
"""A point is unexplored if it is farther than this from all visits."""
CONFIDENT = 0.5
"""A posterior above this value is confident: the other skills together are less likely."""
ROWS = {"forward_mi": "Forward MI", "reverse_mi": "Reverse MI: q(z|s)", "siblings": "EDL"}
"""The runs in the order of the rows, and the names of the rows."""
Points = Float[np.ndarray, "p 2"]
Field = Float[np.ndarray, "seeds k p"]
"""One value per seed, skill and point."""


def define_runs(settings: ReproductionConfig) -> dict[str, Recipe]:
    """Both baselines, EDL as in the paper, and EDL without siblings, for the local optima."""
    return {
        "forward_mi": recipes.baseline(settings, ENV, "forward_mi"),
        "reverse_mi": recipes.baseline(settings, ENV, "reverse_mi"),
        "siblings": recipes.edl(settings, ENV, "oracle", recipes.sibling_rivalry(settings, ENV)),
        "no_siblings": recipes.edl(settings, ENV, "oracle", recipes.without_siblings(settings, ENV)),
    }


def build(runs: Runs) -> FigureResult:
    """One row of landscapes per method: rollouts in grey, the start in black, a star at the maximum of the reward."""
    from edl.figures.panels import panels_figure

    layout = runs["siblings"].layout
    assert layout is not None
    grid, inside = bin_centres(layout)
    points = grid[inside]
    played = {label: play_run(run) for label, run in runs.items()}
    fields = {
        "forward_mi": forward_fields(played["forward_mi"], points),
        "reverse_mi": posterior_fields(runs["reverse_mi"], played["reverse_mi"], points),
        "siblings": decoder_fields(runs["siblings"], points),
    }
    rows = [landscape_panels(layout, inside, points, fields[x][0], first_seed_paths(played[x])) for x in ROWS]
    no_siblings = runs["no_siblings"]
    assert no_siblings.skills is not None
    deceived = np.stack([is_deceptive(layout, each) for each in np.asarray(no_siblings.skills.goals)])
    failed = ~reaches_goal(no_siblings, played["no_siblings"])
    numbers = {
        "maxima_unexplored": unexplored_maxima(fields["forward_mi"], points, played["forward_mi"]),
        "confidence_where_unexplored": unexplored_confidence(fields["reverse_mi"], points, played["reverse_mi"]),
        "deceptive_share": deceived.mean(axis=1).tolist(),
        "failures": {"deceptive": share_among(failed, deceived), "other": share_among(failed, ~deceived)},
    }
    caption = (
        "Reward of each skill at every position (darker is higher), one column per skill: r(s, z) of forward MI, "
        "q(z|s) of reverse MI, log q(s|z) of EDL with siblings. Rollouts are grey; the star marks the maximum."
    )
    picture = Picture(panels_figure(rows, names=list(ROWS.values()), side=1.55), caption)
    return FigureResult({"": picture}, verdicts(runs["reverse_mi"].config.num_skills, numbers), numbers)


def landscape_panels(
    layout: Layout,
    inside: Bool[np.ndarray, "i j"],
    points: Points,
    fields: Float[np.ndarray, "k p"],
    paths: Float[np.ndarray, "k n t s"],
) -> list["Panel"]:
    """One panel per skill."""
    from edl.figures.panels import Panel

    row = []
    for field, path in zip(fields, paths, strict=True):
        image = np.full(inside.shape, np.nan)
        image[inside] = field
        row.append(Panel(layout, paths=path[None], field=image, best=points[np.argmax(field)]))
    return row


def bin_centres(layout: Layout) -> tuple[Float[np.ndarray, "i j 2"], Bool[np.ndarray, "i j"]]:
    """The centres of all bins in the bounding box of the maze, and whether each is inside the maze."""
    grid = bins_of(layout)
    low, high = layout.bounds
    x, y = (low[i] + (np.arange(grid.shape[i]) + 0.5) * (high[i] - low[i]) / grid.shape[i] for i in (0, 1))
    return np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1), np.asarray(grid.reachable).reshape(grid.shape)


def forward_fields(episodes: Episode, points: Points) -> Field:
    """r(s, z) = log q(s|z) - log 1/K sum_i q(s|z_i), with q(s|z) around the mean of each skill's visits."""
    means = jnp.asarray(np.mean(np.asarray(episodes.features)[..., 1:, :], axis=(2, 3)))
    skills = jnp.arange(means.shape[1])
    of_points = jax.vmap(forward_reward, in_axes=(None, 0, None))
    of_skills = jax.vmap(of_points, in_axes=(None, None, 0))
    return np.asarray(jax.jit(jax.vmap(of_skills, in_axes=(0, None, None)))(means, jnp.asarray(points), skills))


def posterior_fields(run: Run, episodes: Episode, points: Points) -> Field:
    """q(z|s), fitted to all visits."""
    num_skills = run.config.num_skills

    def one_seed(key: Key, episodes: Episode, points: Float[Array, "p 2"]) -> Float[Array, "k p"]:
        return jnp.exp(log_posterior(fit_classifier(key, labelled_visits(episodes), num_skills), points)).T

    keys = jax.vmap(lambda key: jax.random.fold_in(key, 3))(stage_keys(run.config, "evaluate"))
    fields = quick_jit(jax.vmap(one_seed, in_axes=(0, 0, None)))
    return np.asarray(fields(keys, episodes, jnp.asarray(points, jnp.float32)))


def decoder_fields(run: Run, points: Points) -> Field:
    """log q(s|z), up to a constant."""

    def one_seed(skills: SkillModel, points: Float[Array, "p 2"]) -> Float[Array, "k p"]:
        of_points: Callable = jax.vmap(skills.log_likelihood, in_axes=(0, None))
        return jax.vmap(of_points, in_axes=(None, 0))(points, skills.codes)

    return np.asarray(jax.jit(jax.vmap(one_seed, in_axes=(0, None)))(run.skills, jnp.asarray(points, jnp.float32)))


def is_unexplored(points: Points, episodes: Episode, seed: int) -> Bool[np.ndarray, " p"]:
    """Whether each point is far from all states that this seed visited."""
    visits = np.asarray(episodes.features[seed]).reshape(-1, episodes.features.shape[-1])
    return KDTree(visits).query(points)[0] > UNEXPLORED


def unexplored_maxima(fields: Field, points: Points, episodes: Episode) -> list[float]:
    """Share of skills whose maximum of the reward is at an unexplored point, per seed."""
    return [
        float(np.mean(is_unexplored(points, episodes, seed)[np.argmax(field, axis=1)]))
        for seed, field in enumerate(fields)
    ]


def unexplored_confidence(fields: Field, points: Points, episodes: Episode) -> list[float | None]:
    """Mean of max_z q(z|s) over unexplored points, per seed; None for a seed that explored every point."""
    chosen = [is_unexplored(points, episodes, seed) for seed in range(len(fields))]
    best = np.max(fields, axis=1)
    return [float(np.mean(x[c])) if c.any() else None for x, c in zip(best, chosen, strict=True)]


def share_among(failed: PerSkill, chosen: PerSkill) -> list[float | None]:
    """Share of the chosen skills of each seed that failed; None for a seed without any."""
    return [float(np.mean(f[c])) if c.any() else None for f, c in zip(failed, chosen, strict=True)]


def is_deceptive(layout: Layout, goals: Float[np.ndarray, "k 2"]) -> Bool[np.ndarray, " k"]:
    """Whether the Euclidean reward of each skill is deceptive: hill climbing from the start ends in another cell.

    Hill climbing moves to the best of the eight neighbouring cells that can be reached directly.
    """
    cells, start = np.asarray(layout.cells, float), np.asarray(layout.starts, float)[0]
    is_neighbour = Geodesic.from_layout(layout).distance(cells, cells) < 1.5
    deceived = []
    for goal in np.asarray(goals, float):
        reward = -np.linalg.norm(cells - goal, axis=1)
        cell = int(np.argmin(np.linalg.norm(cells - start, axis=1)))
        while (best := int(np.argmax(np.where(is_neighbour[cell], reward, -np.inf)))) != cell:
            if reward[best] <= reward[cell]:
                break
            cell = best
        deceived.append(cell != int(np.argmax(reward)))
    return np.array(deceived)


def verdicts(num_skills: int, numbers: dict[str, Any]) -> list[Verdict]:
    """The claims in the paper's captions."""
    failures = {kind: Scores(f"{kind} rewards", values) for kind, values in numbers["failures"].items()}
    return [
        judge(
            "For some skills, this point [of maximum reward of forward MI] belongs to an unexplored region of the "
            "state space.",
            f"On average over seeds, the reward of at least one of the {num_skills} skills is greatest at a point that "
            f"is farther than {UNEXPLORED:g} from all visits.",
            [at_least("share of skills", Scores("Forward MI", numbers["maxima_unexplored"]), 1 / num_skills)],
        ),
        judge(
            "q(z|s) extrapolates this partition to states that have never been visited by the policy.",
            f"At points farther than {UNEXPLORED:g} from all visits, the largest q(z|s) is above {CONFIDENT:g} on "
            f"average (a uniform q has 1/{num_skills}).",
            [
                at_least(
                    "mean of max_z q(z|s) where unexplored",
                    Scores("Reverse MI", numbers["confidence_where_unexplored"]),
                    CONFIDENT,
                )
            ],
        ),
        judge(
            "Training is prone to falling in local optima due to their deceptive nature [of EDL's rewards].",
            "Without siblings, a skill misses its goal more often if hill climbing on its reward does not lead to the "
            "goal than if it does.",
            [greater("share of skills that miss their goal", failures["deceptive"], failures["other"])],
        ),
    ]


FIGURE = PaperFigure("Reward landscapes", define_runs, build)
