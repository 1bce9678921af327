"""EDL with its default settings: twice 200 seeds in the bottleneck maze, a spiral, and the paper's mazes.

The two executions have different seeds, because a CPU repeats an execution of the same seeds exactly. Their times can
be compared if nothing else runs: ``edl tables seeds --jobs 1``.

The spiral starts at its centre, 48 cells from its end, and an episode has 50 steps: only a walk without noise reaches
the end.
"""

import numpy as np

from edl.tables.markdown import NONE, facts_line, markdown_table, missing_line, seconds_cell, steps_cell
from edl.tables.table import EDL, EDL_ORACLE, Records, Result, Results, Row, Table, TableSettings

SEEDS, PAPER_MAZES = "seeds", "paper_mazes"
LOW_SUCCESS = 0.97
MANY = "bottleneck"
MORE = f"{MANY}/more"
"""The key of the second execution."""
FIRST_SEEDS = {MANY: 300, MORE: 500}
HARD = "spiral"
LABELS = {MANY: MANY, MORE: f"{MANY} (other seeds)", HARD: HARD}
MAZES = ("square", "corridor_center", "corridor_left", "tree", "bottleneck")
ORACLES = {EDL_ORACLE: "oracle", EDL: "no oracle"}


def seed_rows(settings: TableSettings, records: Records) -> list[Row]:
    """The two executions of many seeds are a job each."""
    if settings.methods and EDL not in settings.methods:
        return []
    many = {
        key: settings.config(MANY, EDL, seed=seed, num_seeds=settings.many_seeds) for key, seed in FIRST_SEEDS.items()
    }
    found = [Row(SEEDS, key, config, {"method": EDL}, alone=True) for key, config in many.items()]
    hard = settings.config(HARD, EDL, num_seeds=settings.num_seeds)
    found.append(Row(SEEDS, HARD, hard, {"method": EDL}))
    return [row for row in found if row.config.env in settings.chosen_mazes([MANY, HARD])]


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


def successes(result: Result) -> list[float]:
    """goal_success of each seed."""
    return [seed["goal_success"] for seed in result.get("per_seed", [])]


def seeds_view(results: Results) -> str:
    """Mean and worst seed, steps and time, and the seeds in which a skill fails."""
    found = {label: results[key] for key, label in LABELS.items() if successes(results.get(key, {}))}
    lines = []
    for label, each in found.items():
        success, low = np.array(successes(each)), low_seeds(each)
        shares = [f"{success.mean():.3f}", f"{success.min():.3f}", f"{len(low)}"]
        spent = [steps_cell(each), seconds_cell(each)]
        covered = f"{each['mean']['skill_coverage']:.2f}"
        lines.append([label, f"{len(success)} from {each['seed']}", *shares, covered, *spent])
    head = ["maze", "seeds", "goal_success", "worst seed", f"seeds below {LOW_SUCCESS}", "skill_coverage"]
    head += ["steps per seed", "time of all seeds"]
    low = {label: low_seeds(each) for label, each in found.items()}
    failing = [f"* {label}: {'; '.join(map(describe, each))}" for label, each in low.items() if each]
    about = f"Seeds below {LOW_SUCCESS}, with their goal_success and the skills that fail:\n\n" + "\n".join(failing)
    missing = missing_line([label for label in LABELS.values() if label not in found])
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
        cells = [cell for each in found.values() for cell in (_mean_and_worst(each), steps_cell(each or {}))]
        lines.append([maze, *cells, f"{random[0]:.2f}" if random else NONE])
    columns = [f"{label}: {column}" for label in ORACLES.values() for column in ("mean, worst seed", "steps")]
    head = ["maze", *columns, "random"]
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing_line(missing)}"


def _mean_and_worst(result: Result | None) -> str:
    success = successes(result or {})
    return f"{np.mean(success):.3f}, {min(success):.3f}" if success else NONE


SEEDS_TABLE = Table("Many seeds, and a hard maze", seed_rows, {"": seeds_view})
PAPER_TABLE = Table("EDL on the paper's mazes", paper_rows, {"": paper_view})
