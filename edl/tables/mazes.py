"""Fifty random mazes that fit the horizon and that chose no setting of EDL: EDL and the five best other methods.

The first mazes of the sequence were used while the learner was developed. They are not part of the table; results in
them are shown in lines of their own.

Every method has the settings that were best in the bottleneck maze, and EDL also its defaults. The five best other
methods are those of the table of methods in the bottleneck maze, unless methods are named.
"""

from collections.abc import Container, Sequence

import numpy as np

from edl.envs import layout_of
from edl.envs.random_maze import steps_to_farthest_cell
from edl.tables import methods as compared
from edl.tables.budget import budget, budgeted
from edl.tables.markdown import NONE, bold, facts_line, markdown_table, mean_steps_cell, million, missing_line
from edl.tables.methods import TUNED_IN, label_of, ranking, tuned_config
from edl.tables.table import (
    EDL,
    EDL_DEFAULT,
    FIRST_MAZE,
    RIVALS,
    Records,
    Result,
    Results,
    Row,
    Table,
    TableSettings,
    is_finished,
    maze_names,
    method_row,
)
from edl.tables.tuning import SCORE

NAME = "mazes"
LABELS = {EDL: bold("EDL"), EDL_DEFAULT: f"{bold('EDL')} with default settings"}
NUM_RIVALS = 5
LOOKED_AT = f"mazes before {FIRST_MAZE}, of which some were looked at"
LOW_SUCCESS = 0.9
"""A run with a lower goal_success is counted."""


def key_of(maze: str, method: str) -> str:
    return f"{maze}/{method}"


def best_rivals(settings: TableSettings, records: Records) -> list[str] | None:
    """The other methods of this table; None while results of the table of methods are missing."""
    if settings.methods:
        return settings.chosen_methods(RIVALS)
    needed = compared.rows_for(settings, records, list(RIVALS), [TUNED_IN])
    finished = [row.facts["method"] for row in needed if row.table == compared.NAME and is_finished(row, records)]
    if len(finished) < len(RIVALS):
        return None
    return ranking(records[compared.NAME], TUNED_IN, finished)[:NUM_RIVALS]


def rows(settings: TableSettings, records: Records) -> list[Row]:
    """EDL's rows come first. Those of its rivals wait for the table of methods."""
    rivals = best_rivals(settings, records)
    named = [name for name in (EDL, EDL_DEFAULT) if not settings.methods or name in settings.methods]
    found: list[Row] = []
    if rivals is None:
        found += compared.rows_for(settings, records, list(RIVALS), [TUNED_IN])
    elif settings.tuned:
        found += compared.tuning.rows_for(settings, [*rivals, EDL] if EDL in named else rivals, [TUNED_IN])
    for method in [*named, *(rivals or [])]:
        found += rows_of(settings, records, method)
    return found


def rows_of(settings: TableSettings, records: Records, method: str) -> list[Row]:
    """One row per maze, once the method is tuned."""
    steps, found = budget(settings), []
    chosen = settings._replace(tuned=False) if method == EDL_DEFAULT else settings
    trained = EDL if method == EDL_DEFAULT else method
    for maze in maze_names(settings.num_mazes, FIRST_MAZE):
        base = budgeted(settings, maze, trained, steps, num_seeds=settings.maze_seeds)
        tuned = tuned_config(chosen, records, base, TUNED_IN, trained)
        if tuned is not None:
            config, facts = tuned
            found.append(method_row(NAME, key_of(maze, method), method, config, {"budget": steps, **facts}))
    return found


def by_method(results: Results) -> dict[str, list[Result]]:
    """The results of each method in all mazes: EDL's first, then by their score."""
    found: dict[str, list[Result]] = {}
    for each in results.values():
        found.setdefault(each["method"], []).append(each)
    scores = {method: mean_of(each, SCORE) for method, each in found.items()}
    order = sorted(found, key=lambda method: (not method.startswith(EDL), scores[method] is None, scores[method]))
    return {method: found[method] for method in order}


def split(results: Results) -> tuple[dict[str, Result], dict[str, Result]]:
    """The results in the mazes of the table, and those in mazes that were looked at before."""
    known = maze_names(FIRST_MAZE)
    ours = {key: each for key, each in results.items() if each["env"] not in known}
    return ours, {key: each for key, each in results.items() if key not in ours}


def values_of(results: Sequence[Result], metric: str) -> list[float]:
    """A metric of every run: of every seed in every maze."""
    return [seed[metric] for each in results for seed in each.get("per_seed", []) if metric in seed]


def mean_of(results: Sequence[Result], metric: str) -> float | None:
    values = values_of(results, metric)
    return float(np.mean(values)) if values else None


def cell(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def line_of(label: str, found: Sequence[Result]) -> list[str]:
    """One method over several mazes: means and worst runs."""
    success, distances = values_of(found, "goal_success"), values_of(found, SCORE)
    return [
        label,
        f"{len(found)}, {len(distances)}",
        cell(mean_of(found, SCORE)),
        cell(max(distances, default=None)),
        cell(mean_of(found, "skill_coverage")),
        cell(mean_of(found, "goal_success"), 3),
        cell(min(success, default=None), 3),
        cell(float(np.mean(np.array(success) < LOW_SUCCESS)) if success else None, 3),
        mean_steps_cell(found),
    ]


def view(results: Results) -> str:
    """One line per method over all mazes of the table, and one over the mazes that were looked at before."""
    ours, looked_at = map(by_method, split(results))
    lines = [line_of(name_of(method), found) for method, found in ours.items()]
    lines += [line_of(f"{name_of(method)}; {LOOKED_AT}", found) for method, found in looked_at.items()]
    head = ["method", "mazes, runs", SCORE, "worst run", "skill_coverage", "goal_success", "worst run"]
    table = markdown_table([*head, f"runs below {LOW_SUCCESS}", "steps"], lines)
    failed = [f"{label_of(each['method'])} in {each['env']}" for each in results.values() if "failed" in each]
    notes = f"\n\nFailed: {', '.join(failed)}." if failed else ""
    budgets = " or ".join(sorted({million(each["budget"]) for each in results.values()}))
    about = f"{facts_line(results)} Up to {budgets} environment steps per run; `steps` are means over the mazes."
    return f"{about}\n\n{table}{missing_line(missing_methods(ours))}{notes}"


def name_of(method: str) -> str:
    return LABELS.get(method, label_of(method))


def missing_methods(found: Container[str]) -> list[str]:
    """What is not measured in the mazes of the table. Which rivals are the best ones is known to another table."""
    missing = [LABELS[name] for name in LABELS if name not in found]
    absent = NUM_RIVALS - sum(name in found for name in RIVALS)
    return [*missing, f"{absent} of the {NUM_RIVALS} best other methods"] if absent > 0 else missing


def edl_view(results: Results) -> str:
    """EDL's results in every maze."""
    lines = []
    for method in LABELS:
        for each in by_method(results).get(method, []):
            success = values_of([each], "goal_success")
            farthest = steps_to_farthest_cell(layout_of(each["env"]))
            shares = [cell(mean_of([each], "goal_success"), 3), cell(min(success, default=None), 3)]
            lines.append([f"`{each['env']}`", f"{farthest:.0f}", LABELS[method], *shares, cell(mean_of([each], SCORE))])
    head = ["maze", "steps to the farthest cell", "settings", "goal_success", "worst seed", SCORE]
    return markdown_table(head, lines) if lines else "Not measured."


def whole_view(results: Results) -> str:
    ours, looked_at = split(results)
    parts = [view(results), f"## EDL, maze by maze\n\n{edl_view(ours)}"]
    if looked_at:
        parts.append(f"## EDL, {LOOKED_AT}\n\n{edl_view(looked_at)}")
    return "\n\n".join(parts)


TABLE = Table("Random mazes without tuning", rows, {"": whole_view, "methods": view})
