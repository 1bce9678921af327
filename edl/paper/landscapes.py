"""The appendix's reward landscapes: what forward MI, reverse MI and EDL pay for being where, at convergence.

q(s|z) and q(z|s) of the baselines are fitted anew, by maximum likelihood, to rollouts of the trained policies.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.spatial import KDTree

from edl.artifacts import SkillModel
from edl.baselines.forward_mi import forward_reward
from edl.runtime.effort import quick_jit
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.evaluate.coverage import bins_of
from edl.evaluate.discriminability import fit_classifier, log_posterior, visits_of
from edl.evaluate.geodesic import Geodesic
from edl.runs import stages
from edl.paper import recipes
from edl.paper.bottleneck import ENV
from edl.paper.figure import Made, PaperFigure, Picture, Runs, ends, first
from edl.paper.library import play
from edl.paper.recipes import Grid, Recipe
from edl.paper.verdict import Scores, Verdict, better, within
from edl.runs.result import Run
from edl.types import Key

UNEXPLORED = 0.5
"""A state farther than this from all visits was not explored."""
METHODS = ("forward_mi", "reverse_mi", "siblings")
NAMES = ("Forward MI", "Reverse MI: q(z|s)", "EDL")
Field = Float[np.ndarray, "seeds k p"]


def needed(grid: Grid) -> dict[str, Recipe]:
    """Both baselines and EDL as in the paper."""
    return {
        "forward_mi": recipes.baseline(grid, ENV, "forward_mi"),
        "reverse_mi": recipes.baseline(grid, ENV, "reverse_mi"),
        "siblings": recipes.edl(grid, ENV, "oracle", recipes.with_siblings(grid)),
    }


def make(runs: Runs) -> Made:
    """A row of landscapes for each method: rollouts in grey, the start in black, a star at the greatest reward."""
    from edl.figures.panels import panels_figure

    layout = runs["siblings"].layout
    assert layout is not None
    points, inside = lattice(layout)
    places = points[inside]
    played = {label: play(run) for label, run in runs.items()}
    fields = {
        "forward_mi": forward_fields(played["forward_mi"], places),
        "reverse_mi": posterior_fields(runs["reverse_mi"], played["reverse_mi"], places),
        "siblings": decoder_fields(runs["siblings"], places),
    }
    rows = [_panels(layout, inside, places, fields[x][0], first(played[x])) for x in METHODS]
    skills = runs["siblings"].skills
    assert skills is not None
    numbers = {
        "summits_unexplored": summits_unexplored(fields["forward_mi"], places, played["forward_mi"]),
        "confidence_where_unexplored": confidence_unexplored(fields["reverse_mi"], places, played["reverse_mi"]),
        "spread": {label: spread(ends(played[label])) for label in ("reverse_mi", "siblings")},
        "summit_to_goal": summit_to_goal(fields["siblings"], places, np.asarray(skills.decoded)),
        "deceptive": [deceptive_share(layout, each) for each in np.asarray(skills.goals)],
    }
    caption = (
        "What each skill is paid for being where (darker is more), one column per skill: r(s, z) of forward MI, q(z|s) "
        "of reverse MI, log q(s|z) of EDL. Rollouts in grey; the star is the maximum."
    )
    picture = panels_figure(rows, names=NAMES, side=1.55)
    return Made({"": Picture(picture, caption)}, verdicts(runs["reverse_mi"].config.num_skills, numbers), numbers)


def _panels(layout: Layout, inside: Any, places: Any, fields: Any, paths: Any) -> list[Any]:
    from edl.figures.panels import Panel

    row = []
    for field, path in zip(fields, paths, strict=True):
        image = np.full(inside.shape, np.nan)
        image[inside] = field
        row.append(Panel(layout, paths=path[None], field=image, best=places[np.argmax(field)]))
    return row


def lattice(layout: Layout) -> tuple[Float[np.ndarray, "i j 2"], Bool[np.ndarray, "i j"]]:
    """The centres of all bins in the box around the maze, and which of them are in it."""
    grid = bins_of(layout)
    low, high = layout.bounds
    across, up = (low[i] + (np.arange(grid.shape[i]) + 0.5) * (high[i] - low[i]) / grid.shape[i] for i in (0, 1))
    return np.stack(np.meshgrid(across, up, indexing="ij"), axis=-1), np.asarray(grid.reachable).reshape(grid.shape)


def forward_fields(episodes: Episode, places: Float[np.ndarray, "p 2"]) -> Field:
    """r(s, z) = log q(s|z) - log 1/K sum_i q(s|z_i), q(s|z) around the mean of each skill's visits."""
    means = jnp.asarray(np.mean(np.asarray(episodes.features)[..., 1:, :], axis=(2, 3)))
    skills = jnp.arange(means.shape[1])
    of_places = jax.vmap(forward_reward, in_axes=(None, 0, None))
    of_skills = jax.vmap(of_places, in_axes=(None, None, 0))
    return np.asarray(jax.jit(jax.vmap(of_skills, in_axes=(0, None, None)))(means, jnp.asarray(places), skills))


def posterior_fields(run: Run, episodes: Episode, places: Float[np.ndarray, "p 2"]) -> Field:
    """q(z|s), fitted to all visits."""
    num_skills = run.config.num_skills

    def one(key: Key, episodes: Episode, places: Float[Array, "p 2"]) -> Float[Array, "k p"]:
        return jnp.exp(log_posterior(fit_classifier(key, visits_of(episodes), num_skills), places)).T

    keys = jax.vmap(lambda key: jax.random.fold_in(key, 3))(stages.keys(run.config, "evaluate"))
    return np.asarray(quick_jit(jax.vmap(one, in_axes=(0, 0, None)))(keys, episodes, jnp.asarray(places, jnp.float32)))


def decoder_fields(run: Run, places: Float[np.ndarray, "p 2"]) -> Field:
    """log q(s|z), up to a constant."""

    def one(skills: SkillModel, places: Float[Array, "p 2"]) -> Float[Array, "k p"]:
        of_places: Callable = jax.vmap(skills.log_likelihood, in_axes=(0, None))
        return jax.vmap(of_places, in_axes=(None, 0))(places, skills.codes)

    return np.asarray(jax.jit(jax.vmap(one, in_axes=(0, None)))(run.skills, jnp.asarray(places, jnp.float32)))


def unexplored(places: Float[np.ndarray, "p 2"], visits: Float[np.ndarray, "n 2"]) -> Bool[np.ndarray, " p"]:
    """Which places are far from all visits."""
    return KDTree(visits).query(places)[0] > UNEXPLORED


def _visits(episodes: Episode, seed: int) -> Float[np.ndarray, "n 2"]:
    return np.asarray(episodes.features[seed]).reshape(-1, episodes.features.shape[-1])


def summits_unexplored(fields: Field, places: Float[np.ndarray, "p 2"], episodes: Episode) -> list[float]:
    """Share of skills whose reward is greatest where no skill has been."""
    far = (unexplored(places, _visits(episodes, seed)) for seed in range(len(fields)))
    return [float(np.mean(off[np.argmax(field, axis=1)])) for field, off in zip(fields, far, strict=True)]


def confidence_unexplored(fields: Field, places: Float[np.ndarray, "p 2"], episodes: Episode) -> list[float]:
    """Mean of max_z q(z|s) over places where no skill has been; over all if there is none such."""
    far = [unexplored(places, _visits(episodes, seed)) for seed in range(len(fields))]
    far = [off if off.any() else ~off for off in far]
    return [float(np.mean(np.max(field, axis=0)[off])) for field, off in zip(fields, far, strict=True)]


def spread(last: Float[np.ndarray, "seeds k n 2"]) -> list[float]:
    """Mean distance of the end of a rollout from where its skill ends on average."""
    return np.mean(np.linalg.norm(last - last.mean(axis=2, keepdims=True), axis=-1), axis=(1, 2)).tolist()


def summit_to_goal(
    fields: Field, places: Float[np.ndarray, "p 2"], goals: Float[np.ndarray, "seeds k 2"]
) -> list[float]:
    """Mean distance of the place with the greatest reward from the skill's goal."""
    return np.mean(np.linalg.norm(places[np.argmax(fields, axis=2)] - goals, axis=-1), axis=1).tolist()


def deceptive_share(layout: Layout, goals: Float[np.ndarray, "k 2"]) -> float:
    """Share of the skills whose Euclidean reward leads astray: climbing it from the start ends in another cell.

    The climb goes from cell to cell, to the neighbour (of eight) with the greatest reward that can be walked to.
    """
    cells, start = np.asarray(layout.cells, float), np.asarray(layout.starts, float)[0]
    reach = Geodesic.from_layout(layout).distance(cells, cells) < 1.5
    astray = []
    for goal in np.asarray(goals, float):
        reward = -np.linalg.norm(cells - goal, axis=1)
        here = int(np.argmin(np.linalg.norm(cells - start, axis=1)))
        while (best := int(np.argmax(np.where(reach[here], reward, -np.inf)))) != here and reward[best] > reward[here]:
            here = best
        astray.append(here != int(np.argmax(reward)))
    return float(np.mean(astray))


def verdicts(num_skills: int, numbers: dict[str, Any]) -> list[Verdict]:
    """The claims of the paper's captions."""
    label = "mean over skills"
    return [
        within(
            "Forward MI: for some skills the reward is greatest in an unexplored region.",
            "share of skills",
            Scores(label, numbers["summits_unexplored"]),
            low=1 / num_skills,
        ),
        within(
            "Reverse MI: q(z|s) extends its partition to states that were never visited.",
            "mean of max_z q(z|s) over unvisited places",
            Scores(label, numbers["confidence_where_unexplored"]),
            low=0.5,
            about=f" (1/{num_skills} is indifference)",
        ),
        better(
            "Reverse MI: skills are highly entropic within their region, more than EDL's.",
            "mean distance of ends from their skill's mean end, of reverse MI",
            Scores("reverse MI", numbers["spread"]["reverse_mi"]),
            Scores("EDL", numbers["spread"]["siblings"]),
        ),
        within(
            "EDL: rewards are bells around the goals.",
            "distance from the place with the greatest reward to the decoded goal",
            Scores(label, numbers["summit_to_goal"]),
            high=0.5,
        ),
        within(
            "EDL: the Euclidean reward is deceptive in this maze.",
            "share of skills for which climbing the reward ends in another cell than the goal's",
            Scores(label, numbers["deceptive"]),
            low=1 / num_skills,
        ),
    ]


FIGURE = PaperFigure("Reward landscapes", needed, make)
