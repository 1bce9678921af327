"""EDL with its default settings: 200 seeds in the bottleneck maze, a spiral, and the paper's mazes with an oracle.

The spiral starts at its centre, 48 cells from its end, and an episode has 50 steps: only a walk without noise reaches
the end.
"""

import numpy as np

from edl.tables.markdown import NONE, facts_line, markdown_table, missing_line
from edl.tables.table import EDL, EDL_ORACLE, Records, Result, Results, Row, Table, TableSettings

SEEDS, PAPER_MAZES = "seeds", "paper_mazes"
FIRST_SEED = 300
LOW_SUCCESS = 0.97
MANY = "bottleneck"
HARD = "spiral"
MAZES = ("square", "corridor_center", "corridor_left", "tree", "bottleneck")
ORACLES = {EDL_ORACLE: "oracle", EDL: "no oracle"}


def seed_rows(settings: TableSettings, records: Records) -> list[Row]:
    numbers = {MANY: (FIRST_SEED, settings.many_seeds), HARD: (0, settings.num_seeds)}
    found = []
    for maze in settings.chosen_mazes(list(numbers)) if _wants_edl(settings) else []:
        seed, num_seeds = numbers[maze]
        found.append(Row(SEEDS, maze, settings.config(maze, EDL, seed=seed, num_seeds=num_seeds), {"method": EDL}))
    return found


def paper_rows(settings: TableSettings, records: Records) -> list[Row]:
    return [
        Row(
            PAPER_MAZES,
            f"{maze}/{method}",
            settings.config(maze, method, num_seeds=settings.num_seeds),
            {"method": method},
        )
        for method in settings.chosen_methods(list(ORACLES))
        for maze in settings.chosen_mazes(MAZES)
    ]


def _wants_edl(settings: TableSettings) -> bool:
    return not settings.methods or EDL in settings.methods


def successes(result: Result) -> list[float]:
    """goal_success of each seed."""
    return [seed["goal_success"] for seed in result.get("per_seed", [])]


def seeds_view(results: Results) -> str:
    """Mean and worst seed, and the seeds in which a skill fails."""
    found = {maze: each for maze, each in results.items() if successes(each)}
    lines = []
    for maze, each in found.items():
        success, low = np.array(successes(each)), low_seeds(each)
        shares = [f"{success.mean():.3f}", f"{success.min():.3f}", f"{len(low)}"]
        lines.append([maze, f"{len(success)} from {each['seed']}", *shares, f"{each['mean']['skill_coverage']:.2f}"])
    head = ["maze", "seeds", "goal_success", "worst seed", f"seeds below {LOW_SUCCESS}", "skill_coverage"]
    failing = [f"* {maze}: {'; '.join(map(describe, low))}" for maze, each in found.items() if (low := low_seeds(each))]
    about = f"Seeds below {LOW_SUCCESS}, with their goal_success and the skills that fail:\n\n" + "\n".join(failing)
    missing = missing_line([maze for maze in (MANY, HARD) if maze not in found])
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing}" + (f"\n\n{about}" if failing else "")


def low_seeds(result: Result) -> list[Result]:
    return [seed for seed in result["per_seed"] if seed["goal_success"] < LOW_SUCCESS]


def describe(seed: Result) -> str:
    """A seed with its goal_success and the skills that fail, e.g. ``308 (0.955, skill 3)``."""
    skills = seed["failed_skills"]
    which = "no skill alone" if not skills else f"skill{'s' if len(skills) > 1 else ''} {', '.join(map(str, skills))}"
    return f"{seed['seed']} ({seed['goal_success']:.3f}, {which})"


def paper_view(results: Results) -> str:
    """goal_success with and without an oracle."""
    lines, missing = [], []
    for maze in MAZES:
        found = {method: results.get(f"{maze}/{method}") for method in ORACLES}
        missing += [f"{maze} ({ORACLES[method]})" for method, each in found.items() if each is None]
        random = [each["random"]["goal_success"] for each in found.values() if each is not None and each.get("random")]
        cells = [_mean_and_worst(each) for each in found.values()]
        lines.append([maze, *cells, f"{random[0]:.2f}" if random else NONE])
    head = ["maze", *(f"{label}: mean, worst seed" for label in ORACLES.values()), "random"]
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing_line(missing)}"


def _mean_and_worst(result: Result | None) -> str:
    success = successes(result or {})
    return f"{np.mean(success):.3f}, {min(success):.3f}" if success else NONE


SEEDS_TABLE = Table("Many seeds, and a hard maze", seed_rows, {"": seeds_view})
PAPER_TABLE = Table("EDL on the paper's mazes", paper_rows, {"": paper_view})
