"""Tuning: every method gets the same small grid in every maze, and EDL no more than the others.

The grid has nine points: the defaults, and the eight combinations of a low and a high value of three settings: the
entropy weight, the learning rate, and the method's main weight, or what comes near them (`TUNABLES`). Each point has
three seeds and `TUNING_SHARE` of the budget. The point with the lowest mean best_skill_distance, a metric that all
methods have, is then run with other seeds for the table of methods. All points in all mazes are one program per method.
"""

import functools
import itertools
from collections.abc import Iterable
from typing import NamedTuple

from edl.runs.config import RunConfig
from edl.tables.budget import budget, budgeted
from edl.tables.markdown import facts_line, markdown_table, mean_cell, million, missing_line
from edl.tables.table import (
    COMPARED,
    EDL,
    EDL_ORACLE,
    EDL_RUNNING,
    MAZES,
    Records,
    Result,
    Results,
    Row,
    Table,
    TableSettings,
    is_finished,
    method_row,
    setting,
    with_values,
)

NAME = "tuning"
SEED = 1000
"""The first seed of tuning. The seeds of the final runs start at 0."""
TUNING_SHARE = 0.25
SCORE = "best_skill_distance"
ENTROPY_FACTOR = 5.0
"""The entropy weight is divided and multiplied by this, which spans the values of the paper's grid."""
RATE_FACTOR = 2.0
DEFAULT = "default"


class Tunables(NamedTuple):
    """The settings of a method that are tuned. ``main`` is its main weight, with a low and a high value."""

    learner: str
    main: str
    main_values: tuple[float, float]
    entropy: str = "entropy_weight"
    entropy_factor: float = ENTROPY_FACTOR
    rate: str = "learning_rate"

    @property
    def entropy_path(self) -> str:
        return f"{self.learner}.{self.entropy}"

    @property
    def rate_paths(self) -> tuple[str, ...]:
        """Settings that are multiplied together: PPO's schedule has a first and a last learning rate."""
        names = (self.rate, "last_learning_rate") if self.learner.endswith("ppo") else (self.rate,)
        return tuple(f"{self.learner}.{name}" for name in names)


PPO, SAC = "baseline.ppo", "baseline.sac"
TUNABLES: dict[str, Tunables] = {
    "edl": Tunables("learner.ppo", "learner.focus", (0.0, 5.0)),
    "reverse_mi": Tunables(PPO, "baseline.learning_rate", (2e-4, 5e-3)),
    "forward_mi": Tunables(PPO, "baseline.variance", (0.25, 1.0)),
    "vic": Tunables(PPO, "baseline.prior_entropy_weight", (0.002, 0.05)),
    "snn4hrl": Tunables(PPO, "baseline.bonus_weight", (0.2, 5.0)),
    "valor": Tunables(PPO, "baseline.threshold", (0.75, 0.95)),
    # DIAYN's main weight is alpha, the entropy weight. The classifier's learning rate is what remains.
    "diayn": Tunables(SAC, "baseline.learning_rate", (2e-4, 5e-3)),
    "dads": Tunables(SAC, "baseline.deviation", (0.5, 2.0)),
    # METRA learns its entropy weight, for a target entropy.
    "metra": Tunables(SAC, "baseline.first_lambda", (10.0, 100.0), "target_entropy_share", 2.0),
    "visr": Tunables(SAC, "baseline.around", (0.25, 1.0)),
    "discern": Tunables(SAC, "baseline.hindsight", (0.1, 0.5)),
    "skewfit": Tunables(SAC, "baseline.skew", (-0.5, -0.75)),  # the paper has -1 <= alpha < 0
    "metra_ppo": Tunables(PPO, "baseline.first_lambda", (10.0, 100.0)),
    # LSD has no weight of its own; the learning rate of phi is what remains.
    "lsd": Tunables(SAC, "baseline.learning_rate", (2e-4, 5e-3), "target_entropy_share", 2.0),
    "csd": Tunables(SAC, "baseline.first_lambda", (10.0, 100.0), "target_entropy_share", 2.0),
    "csf": Tunables(SAC, "baseline.contrast", (2.0, 10.0), "target_entropy_share", 2.0),
    # APT has no weight of its own either.
    "apt": Tunables(SAC, "baseline.learning_rate", (2e-4, 5e-3)),
    "cic": Tunables(SAC, "baseline.contrast_weight", (0.2, 5.0)),
    "aps": Tunables(SAC, "baseline.entropy_reward_weight", (0.2, 5.0)),
    "becl": Tunables(SAC, "baseline.temperature", (0.2, 1.0)),
    "disco_dance": Tunables(SAC, "baseline.guidance", (0.02, 0.5)),
    "rsd": Tunables(SAC, "baseline.novelty", (0.2, 5.0), "target_entropy_share", 2.0),
    # HILP has no entropy weight: the inverse temperature of its advantages is what comes near one.
    "hilp": Tunables("baseline", "baseline.expectile", (0.9, 0.98), "temperature"),
    "fb": Tunables("baseline", "baseline.orthonormality", (0.2, 5.0)),
    # Evolution has no gradients: both deviations of its variation are tuned instead.
    "map_elites": Tunables("baseline", "baseline.cell", (0.25, 1.0), "line_sigma", 2.0, "iso_sigma"),
    "tldr": Tunables("explorer", "explorer.first_lambda", (10.0, 100.0)),
}
"""What is tuned for each method. Settings are paths in `RunConfig`, and all are floats: a grid is one program."""

Signs = tuple[int, ...]
POINTS: dict[str, Signs] = {
    DEFAULT: (0, 0, 0),
    **{"".join("-+"[sign > 0] for sign in signs): signs for signs in itertools.product((-1, 1), repeat=3)},
}
"""The points of the grid: low (-1), default (0) or high (1), for entropy weight, learning rate and main weight."""


def values_at(config: RunConfig, method: str, signs: Signs) -> dict[str, float]:
    """The values of the tuned settings at a point of the grid, by path."""
    tunables, (entropy, rate, main) = TUNABLES[method], signs
    values = {tunables.entropy_path: setting(config, tunables.entropy_path) * tunables.entropy_factor**entropy}
    values |= {path: setting(config, path) * RATE_FACTOR**rate for path in tunables.rate_paths}
    low, high = tunables.main_values
    return values | {tunables.main: (low, setting(config, tunables.main), high)[main + 1]}


def tuning_steps(settings: TableSettings) -> int:
    return int(TUNING_SHARE * budget(settings))


def tuned_name(method: str) -> str:
    """The method whose tuning a method uses: variants of EDL have the settings of EDL itself."""
    return EDL if method in (EDL_ORACLE, EDL_RUNNING) else method


def key_of(maze: str, method: str, point: str) -> str:
    return f"{maze}/{method}/{point}"


@functools.lru_cache(maxsize=256)
def grid_of(settings: TableSettings, maze: str, method: str) -> tuple[Row, ...]:
    """All points of the grid of a method in a maze."""
    steps = tuning_steps(settings)
    base = budgeted(settings, maze, method, steps, seed=SEED, num_seeds=settings.tuning_seeds)
    found = []
    for point, signs in POINTS.items():
        values = values_at(base, method, signs)
        facts = {"point": point, "settings": values, "budget": steps}
        found.append(method_row(NAME, key_of(maze, method, point), method, with_values(base, values), facts))
    return tuple(found)


def rows_for(settings: TableSettings, methods: Iterable[str], mazes: Iterable[str]) -> list[Row]:
    """The grids of some methods in some mazes."""
    pairs = itertools.product(mazes, dict.fromkeys(map(tuned_name, methods)))
    return [row for maze, method in pairs for row in grid_of(settings, maze, method)]


def rows(settings: TableSettings, records: Records) -> list[Row]:
    return rows_for(settings, settings.chosen_methods(COMPARED), settings.chosen_mazes(MAZES))


def best_point(records: Records, settings: TableSettings, maze: str, method: str) -> Result | None:
    """The best point of a finished grid; None if results are missing, or if all points have failed."""
    grid = grid_of(settings, maze, tuned_name(method))
    if not all(is_finished(row, records) for row in grid):
        return None
    return best_of([records[NAME][row.key] for row in grid])


def best_of(points: list[Result]) -> Result | None:
    scored = [each for each in points if SCORE in each.get("mean", {})]
    return min(scored, key=lambda each: each["mean"][SCORE], default=None)


def view(results: Results) -> str:
    """The best point of every method in every maze, next to the defaults."""
    pairs = list(itertools.product(MAZES, TUNABLES))
    lines = {pair: _line(results, *pair) for pair in pairs}
    head = ["maze", "method", "best point", "its settings", SCORE, "with defaults", "points"]
    table = markdown_table(head, [line for line in lines.values() if line is not None])
    missing = missing_line([f"`{method}` in {maze}" for (maze, method), line in lines.items() if line is None])
    budgets = " or ".join(sorted({million(each["budget"]) for each in results.values()}))
    return f"{facts_line(results)} {budgets} steps per point.\n\n{table}{missing}"


def _line(results: Results, maze: str, method: str) -> list[str] | None:
    found = {point: results[key] for point in POINTS if (key := key_of(maze, method, point)) in results}
    best = best_of(list(found.values()))
    if best is None:
        return None
    values = ", ".join(f"{path.partition('.')[2]} {value:g}" for path, value in best["settings"].items())
    failed = sum("failed" in each for each in found.values())
    number = f"{len(found)}, {failed} failed" if failed else f"{len(found)}"
    default = mean_cell(found.get(DEFAULT, {}), SCORE)
    return [maze, f"`{method}`", best["point"], values, mean_cell(best, SCORE), default, number]


TABLE = Table("Tuning: the same grid of nine points for every method", rows, {"": view})
