"""Computes the metrics of one seed: what its explorer covered, and where its skills go.

An `Evaluator` holds what the metrics of an env need and is built once. `rollouts` plays the episodes of one seed, and
`summarise` computes the metrics from them. `edl.evaluate.metrics` lists and explains the metrics.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode
from edl.envs.success import SUCCESS_RADIUS
from edl.evaluate.coverage import NEVER, BinGrid, bins_of, box_grid, cells_of, first_visits, visit_counts
from edl.evaluate.distances import (
    best_skill_distance,
    distances_to_goals,
    goal_distance,
    goal_success,
    success_per_skill,
    worst_skill_success,
    zero_shot_distance,
)
from edl.evaluate.geodesic import Geodesic, PairedDistance, PairwiseDistance, euclidean
from edl.evaluate.information import entropy, mutual_information
from edl.evaluate.metrics import DISTANCE_UNIT, METRICS
from edl.evaluate.skill_rollouts import last_states
from edl.evaluate.versus_random import Behaviour

NUM_TARGETS = 1000
EARLY_STEPS = 100_000


class Evaluator(NamedTuple):
    """The bins, distance and target points by which an env is evaluated.

    ``bins`` measure the coverage of explored data, ``cells`` that of skills. ``distance`` and ``paired`` are the same
    distance, between all points of two sets and between pairs of points. ``targets`` are points that a user might want
    to reach, the same for every seed and method. ``coverage_over`` describes in words what coverage refers to.
    Distances are divided by ``unit``, one number per dimension in envs whose dimensions have different units;
    ``distance_unit`` is the name of the resulting unit, in which a goal is reached within ``success_radius``.
    """

    bins: BinGrid
    cells: BinGrid
    distance: PairwiseDistance
    paired: PairedDistance
    targets: Float[np.ndarray, "m s"]
    coverage_over: str
    unit: Float[np.ndarray, " s"] | float = 1.0
    distance_unit: str = DISTANCE_UNIT
    success_radius: float = SUCCESS_RADIUS


def maze_evaluator(layout: Layout, num_targets: int = NUM_TARGETS, seed: int = 0) -> Evaluator:
    """Bins and unit cells of the reachable area, walking distance, and uniform reachable targets."""
    generator = np.random.default_rng(seed)
    cells = layout.cells[generator.integers(len(layout.cells), size=num_targets)]
    targets = cells + generator.uniform(-0.5, 0.5, size=cells.shape)
    walking = Geodesic.from_layout(layout)
    over = "the reachable area of the maze"
    return Evaluator(bins_of(layout), cells_of(layout), walking.distance, walking.paired, targets, over)


def box_evaluator(
    targets: Float[np.ndarray, "m s"],
    dims: Sequence[int],
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    fine: int = 50,
    coarse: int = 10,
    unit: Float[np.ndarray, " s"] | float = 1.0,
) -> Evaluator:
    """For envs that are not mazes: a grid over ``dims``, and the Euclidean distance between features.

    ``targets`` are states to reach, for example explored ones; the grid spans them unless ``bounds`` are given.
    ``unit`` is the standard deviation of each feature, or a number.
    """
    targets = np.asarray(targets, float)
    low, high = bounds_of(targets[:, list(dims)]) if bounds is None else bounds
    bins, cells = (box_grid(low, high, [num] * len(dims), dims) for num in (fine, coarse))
    spans = ", ".join(f"feature {d} in [{a:.3g}, {b:.3g}]" for d, a, b in zip(dims, low, high, strict=True))
    coverage_over = (
        f"a grid over {spans}: {fine} bins per side for data, {coarse} for skills. How much of it can be reached is "
        "unknown, so that full coverage may be below 1"
    )

    def straight(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "n m"]:
        return euclidean(x / unit, y / unit)

    def paired(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "n s"]) -> Float[np.ndarray, " n"]:
        return np.linalg.norm((x - y) / unit, axis=-1)

    distance_unit = "standard deviations" if np.ndim(unit) else "units of the features"
    return Evaluator(bins, cells, straight, paired, targets, coverage_over, unit, distance_unit)


def bounds_of(states: Float[np.ndarray, "n d"]) -> tuple[list[float], list[float]]:
    """The smallest box around the states, slightly widened because the upper end of a bin is not part of it.

    A feature that is constant gets a side of length 1.
    """
    low, high = states.min(axis=0), states.max(axis=0)
    room = np.where(high > low, 1e-3 * (high - low), 0.5)
    return (low - room).tolist(), (high + room).tolist()


def end_distances(evaluator: Evaluator, episodes: Episode) -> Float[np.ndarray, "k n m"]:
    """Distances from the last states to the targets."""
    last = last_states(episodes)
    return evaluator.distance(last.reshape(-1, last.shape[-1]), evaluator.targets).reshape(*last.shape[:2], -1)


def summarise(
    evaluator: Evaluator,
    episodes: Episode,
    picks: Int[np.ndarray, " m"] | None = None,
    distances: Float[np.ndarray, "k n m"] | None = None,
) -> dict[str, float | None]:
    """The metrics of one seed's skills from their rollouts; goal metrics are None for methods without goals.

    ``picks`` is the skill that the run picks for each target, if it picks one of these skills. Otherwise
    ``zero_shot_distance`` is missing here: see `edl.evaluate.picking`. ``distances`` are `end_distances` if known.
    """
    counts = np.asarray(visits_by_skill(evaluator.cells, episodes))
    to_goals = to_own_goals(evaluator, episodes)
    distances = end_distances(evaluator, episodes) if distances is None else distances
    zero_shot = {} if picks is None else {"zero_shot_distance": zero_shot_distance(distances, picks)}
    return {
        "skill_coverage": _share(evaluator.cells, np.any(counts[:, :-1], axis=0)),
        "goal_distance": None if to_goals is None else goal_distance(to_goals),
        "goal_success": None if to_goals is None else goal_success(to_goals, evaluator.success_radius),
        "worst_skill_success": (None if to_goals is None else worst_skill_success(to_goals, evaluator.success_radius)),
        "best_skill_distance": best_skill_distance(distances),
        **zero_shot,
        "mutual_information": mutual_information(counts),
        "state_entropy": entropy(np.sum(counts, axis=0)),
        **{name: metric.compute(evaluator, episodes) for name, metric in METRICS.items() if metric.compute is not None},
    }


def asked_for(evaluator: Evaluator, asked: Bool[np.ndarray, " m"]) -> Evaluator:
    """The evaluator with only the targets that were ``asked`` for, and the cells that contain them."""
    if asked.all() or not asked.any():
        return evaluator
    targets, cells = evaluator.targets[asked], evaluator.cells
    numbers = np.asarray(cells.bin_of(jnp.asarray(targets, jnp.float32)))
    mask = np.isin(np.arange(cells.size), numbers) & np.asarray(cells.reachable)
    return evaluator._replace(targets=targets, cells=dataclasses.replace(cells, reachable=jnp.asarray(mask)))


def behaviour_of(
    evaluator: Evaluator, episodes: Episode, distances: Float[np.ndarray, "k n m"] | None = None
) -> Behaviour:
    """What the rollouts did in the cells that count, and how near to the targets and to their goals they ended.

    ``distances`` are `end_distances` if known.
    """
    counted = np.asarray(evaluator.cells.reachable)

    def counts_in_region(counts: Int[np.ndarray, "k n c"]) -> Int[np.ndarray, "k n r"]:
        elsewhere = counts[..., :-1][..., ~counted].sum(axis=-1) + counts[..., -1]
        return np.concatenate([counts[..., :-1][..., counted], elsewhere[..., None]], axis=-1)

    last, to_goals = last_states(episodes), to_own_goals(evaluator, episodes)
    distances = end_distances(evaluator, episodes) if distances is None else distances
    reached = None if to_goals is None else to_goals <= evaluator.success_radius
    bins = np.asarray(evaluator.cells.bin_of(jnp.asarray(last, jnp.float32)))
    ends = np.eye(evaluator.cells.size + 1, dtype=int)[bins]
    visits = counts_in_region(visits_by_rollout(evaluator.cells, episodes))
    return Behaviour(visits, distances, reached, counts_in_region(ends))


def skill_results(evaluator: Evaluator, episodes: Episode) -> list[dict[str, Any]]:
    """The results of each skill of one seed: its goal, the mean of its last states, and how often it succeeds.

    The goal and all that depends on it are None for methods without goals.
    """
    ends, to_goals = np.mean(last_states(episodes), axis=1).round(4), to_own_goals(evaluator, episodes)
    num = episodes.valid.shape[1]
    results: list[dict[str, Any]] = [{"skill": k, "end": end, "rollouts": num} for k, end in enumerate(ends.tolist())]
    if to_goals is None:
        return [each | dict.fromkeys(("goal", "goal_distance", "goal_success")) for each in results]
    goals = np.asarray(episodes.skill.goal, float)[:, 0].round(4).tolist()
    distance = np.mean(to_goals, axis=1).tolist()
    success = success_per_skill(to_goals, evaluator.success_radius).tolist()
    return [
        each | {"goal": goals[k], "goal_distance": distance[k], "goal_success": success[k]}
        for k, each in enumerate(results)
    ]


def to_own_goals(evaluator: Evaluator, episodes: Episode) -> Float[np.ndarray, "k n"] | None:
    """The distance from the last state of each rollout to the goal of its skill; None for methods without goals."""
    goal = episodes.skill.goal
    if goal is None:
        return None
    return distances_to_goals(last_states(episodes), np.asarray(goal, float)[:, 0], evaluator.paired)


def summarise_data(evaluator: Evaluator, experience: Experience | None) -> dict[str, float | None]:
    """The metrics of one seed's exploration; None for an oracle or a dataset.

    A sample of the episodes does not say what the first steps reached. Its ``data_coverage`` is a lower bound.
    """
    if experience is None:
        return {"data_coverage": None, "data_coverage_100k": None}
    reached = np.asarray(jax.jit(first_visits)(evaluator.bins, experience))
    share = functools.partial(_share, evaluator.bins)
    early = None if experience.sampled else share(reached <= EARLY_STEPS)
    return {"data_coverage": share(reached < NEVER), "data_coverage_100k": early}


@jax.jit
def visits_by_skill(cells: BinGrid, episodes: Episode) -> Int[Array, "k c"]:
    """Number of states of each skill in each cell; the last entry counts states outside the grid."""
    start = jnp.ones_like(episodes.valid[..., :1])
    real = jnp.concatenate([start, episodes.valid], axis=-1)
    return jax.vmap(functools.partial(visit_counts, cells))(episodes.features, real)


def visits_by_rollout(cells: BinGrid, episodes: Episode) -> Int[np.ndarray, "k n c"]:
    """Number of states of each rollout of each skill in each cell; the last entry counts states outside the grid."""
    return np.asarray(jax.vmap(visits_by_skill, in_axes=(None, 1), out_axes=1)(cells, episodes))


def _share(grid: BinGrid, bitmap: Bool[np.ndarray, " bins"]) -> float:
    """`coverage` in double precision: a share of 0.95 is slightly less than 0.95 in single precision."""
    return float(np.mean(bitmap[np.asarray(grid.reachable)]))
