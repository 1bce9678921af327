"""Every method in three mazes, with the same environment steps, and with settings that were tuned in each maze.

Every method has its best settings of the table `edl.tables.tuning` and other seeds. EDL with an oracle has the settings
of EDL without one. ``random`` are uniform actions.
"""

import functools
from collections.abc import Iterable

from edl.baselines import METHODS
from edl.runs.config import RunConfig
from edl.tables import tuning
from edl.tables.budget import budget, budgeted
from edl.tables.markdown import NONE, bold, facts_line, markdown_table, mean_cell, million, missing_line
from edl.tables.table import (
    COMPARED,
    EDL,
    EDL_ORACLE,
    MAZES,
    Records,
    Result,
    Results,
    Row,
    Table,
    TableSettings,
    total_steps,
)
from edl.tables.tuning import SCORE, best_point, with_values

NAME = "methods"
RANDOM = "random"
SHORT_LABELS = {EDL: bold("EDL"), EDL_ORACLE: "EDL"}
LABELS = {EDL: bold("EDL, no oracle"), EDL_ORACLE: bold("EDL, oracle"), RANDOM: "random actions"}
COLUMNS = {
    "mutual_information": "MI",
    "skill_coverage": "skill_coverage",
    "best_skill_distance": "best_skill_distance",
    "zero_shot_distance": "zero_shot_distance",
    "goal_success": "goal_success",
    "discriminability": "discriminability",
}
README_COLUMNS = ("best_skill_distance", "skill_coverage", "mutual_information")
README_METHODS = ("reverse_mi", "forward_mi", "diayn", "metra")
"""The baselines of the short table, besides the best one."""


def key_of(maze: str, method: str) -> str:
    return f"{maze}/{method}"


def label_of(method: str) -> str:
    return LABELS.get(method, f"`{method}`")


def tuned_config(
    settings: TableSettings, records: Records, config: RunConfig, tuned_in: str, method: str
) -> tuple[RunConfig, dict] | None:
    """A config with the settings that were best in the maze ``tuned_in``, and these settings. None: not tuned yet."""
    if not settings.tuned:
        return config, {"tuned": False}
    best = best_point(records, settings, tuned_in, method)
    if best is None:
        return None
    return with_values(config, best["settings"]), {"tuned": True, "point": best["point"], "settings": best["settings"]}


def rows_for(settings: TableSettings, records: Records, methods: list[str], mazes: list[str]) -> list[Row]:
    """The rows of methods in mazes whose tuning is finished, and the tuning of the others."""
    steps = budget(settings)
    found = tuning.rows_for(settings, methods, mazes) if settings.tuned else []
    for maze in mazes:
        for method in methods:
            base = budgeted(settings, maze, method, steps, num_seeds=settings.num_seeds)
            tuned = tuned_config(settings, records, base, maze, method)
            if tuned is not None:
                config, facts = tuned
                facts = {"method": method, "budget": steps, **facts}
                found.append(Row(NAME, key_of(maze, method), config, facts))
    return found


def rows(settings: TableSettings, records: Records) -> list[Row]:
    return rows_for(settings, records, settings.chosen_methods(COMPARED), settings.chosen_mazes(MAZES))


def ranking(results: Results, maze: str, methods: list[str]) -> list[str]:
    """Methods that have a result in a maze, the best one first."""
    scores = {method: results.get(key_of(maze, method), {}).get("mean", {}).get(SCORE) for method in methods}
    return sorted((method for method in methods if scores[method] is not None), key=lambda method: scores[method])


def results_in(results: Results, maze: str) -> dict[str, Result]:
    """The results in a maze, by method, in the order of the table."""
    return {method: results[key] for method in COMPARED if (key := key_of(maze, method)) in results}


def random_cells(found: dict[str, Result], columns: Iterable[str]) -> list[str]:
    """The metrics of uniform actions, which every run measures next to its own."""
    random = next((each["random"] for each in reversed(found.values()) if each.get("random")), {})
    return [f"{random[name]:.2f}" if name in random else NONE for name in columns]


def about(found: dict[str, Result]) -> str:
    """Seeds, steps, tuning, device and version."""
    budgets = " or ".join(sorted({million(each["budget"]) for each in found.values()}))
    untuned = [label_of(method) for method, each in found.items() if not each["tuned"]]
    whose = "Defaults" if len(untuned) == len(found) else f"Defaults for {', '.join(untuned)}; tuned"
    settings = f"{whose} settings" if untuned else "Settings tuned in this maze"
    return f"{facts_line(found)} Up to {budgets} environment steps per method and seed. {settings}."


def maze_view(maze: str, results: Results) -> str:
    """All methods in one maze."""
    found = results_in(results, maze)
    if not found:
        return f"{maze}: not measured."
    lines = [[label_of(RANDOM), *random_cells(found, COLUMNS), NONE]]
    for method, each in found.items():
        steps = NONE if "failed" in each else million(total_steps(each))
        lines.append([label_of(method), *(mean_cell(each, name) for name in COLUMNS), steps])
    table = markdown_table([maze, *COLUMNS.values(), "steps"], lines)
    return f"{about(found)}\n\n{table}{missing_line([label_of(each) for each in COMPARED if each not in found])}"


def readme_view(results: Results) -> str:
    """The best baseline and a few others in the bottleneck maze, without intervals."""
    found = results_in(results, MAZES[-1])
    if not found:
        return "Not measured."
    baselines = [method for method in METHODS if method in found]
    best = ranking(results, MAZES[-1], baselines)[:1]
    lines = [[label_of(RANDOM), "", *random_cells(found, README_COLUMNS), NONE]]
    for method in [*(each for each in README_METHODS if each in found and each not in best), *best, EDL_ORACLE, EDL]:
        if method not in found:
            continue
        note = f", the best of {len(baselines)} baselines" if method in best else ""
        each, oracle = found[method], {EDL_ORACLE: "yes", EDL: "no"}.get(method, "")
        cells = [f"{each['mean'][name]:.2f}" if name in each.get("mean", {}) else NONE for name in README_COLUMNS]
        steps = NONE if "failed" in each else million(total_steps(each))
        lines.append([f"{SHORT_LABELS.get(method, label_of(method))}{note}", oracle, *cells, steps])
    table = markdown_table([MAZES[-1], "oracle", *README_COLUMNS, "steps"], lines)
    return f"{about(found)}\n\n{table}"


def view(results: Results) -> str:
    return "\n\n".join(f"## {maze}\n\n{maze_view(maze, results)}" for maze in MAZES)


TABLE = Table(
    "Every method with the same environment steps",
    rows,
    {"": view, "readme": readme_view, **{maze: functools.partial(maze_view, maze) for maze in MAZES}},
)
