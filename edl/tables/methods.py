"""Every method with the same environment steps: in three mazes with settings that were tuned there, and in others.

Every method has its best settings of the table `edl.tables.tuning` and other seeds. The variants of EDL have the
settings of EDL itself: with an oracle, and with inputs that are normalised by running moments, as in the baselines. In
ten random mazes that chose no setting of EDL, and in those of LEADS, every method has the settings that were best in
the bottleneck maze. ``random`` are uniform actions. All rows of a method are one program.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from edl.citation import year_of
from edl.evaluate.metrics import METRICS
from edl.evaluate.statistics import aggregate
from edl.runs.config import RunConfig
from edl.runs.evaluation import Evaluation
from edl.runs.points import Measure
from edl.runs.result import Run
from edl.tables import offline, published, tuning
from edl.tables.budget import budget, budgeted
from edl.tables.markdown import NONE, bold, facts_line, markdown_table, mean_cell, million, missing_line, steps_cell
from edl.tables.table import (
    COMPARED,
    EDL,
    EDL_ORACLE,
    EDL_RUNNING,
    FIRST_MAZE,
    LEADS_MAZES,
    MAZES,
    RANDOM_MAZES,
    RIVALS,
    Records,
    Result,
    Results,
    Row,
    Table,
    TableSettings,
    maze_names,
    method_row,
    total_steps,
    with_values,
)
from edl.tables.tuning import SCORE, best_point

NAME = "methods"
TUNED_IN = "bottleneck"
"""The maze whose settings are used in mazes in which nothing was tuned, and whose rollouts are drawn."""
MAX_RANDOM = 10
"""Number of random mazes in which all methods are compared."""
RANDOM = "random"
PATHS = "paths"
"""The key of the rollouts of the first seed in what is measured besides the metrics."""
SHORT_LABELS = {EDL: bold("EDL"), EDL_ORACLE: "EDL"}
LABELS = {
    EDL: bold("EDL, no oracle"),
    EDL_ORACLE: bold("EDL, oracle"),
    EDL_RUNNING: "EDL, inputs normalised like those of the others",
    RANDOM: "random actions",
}
DRAWN = tuple(method for method in COMPARED if method != EDL_RUNNING)
"""The methods with a panel in the picture of rollouts."""
COLUMNS = {
    "mutual_information": "MI",
    "skill_coverage": "skill_coverage",
    "best_skill_distance": "best_skill_distance",
    "zero_shot_distance": "zero_shot_distance",
    "goal_success": "goal_success",
    "discriminability": "discriminability",
}
OVERVIEW = (SCORE, "skill_coverage")
"""The metrics of the table over all mazes."""
README_COLUMNS = ("best_skill_distance", "skill_coverage", "mutual_information")
README_METHODS = ("reverse_mi", "forward_mi", "diayn", "metra", "skewfit", "map_elites")
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


def tuned_in(maze: str) -> str:
    """The maze whose settings a method has in a maze."""
    return maze if maze in MAZES else TUNED_IN


def rows_for(settings: TableSettings, records: Records, methods: list[str], mazes: Sequence[str]) -> list[Row]:
    """The rows of methods in mazes whose tuning is finished, and the tuning of the others."""
    steps, found = budget(settings), []
    if settings.tuned:
        found += tuning.rows_for(settings, methods, dict.fromkeys(map(tuned_in, mazes)))
    for maze in mazes:
        num_seeds = settings.num_seeds if maze in MAZES else settings.maze_seeds
        for method in methods:
            base = budgeted(settings, maze, method, steps, num_seeds=num_seeds)
            tuned = tuned_config(settings, records, base, tuned_in(maze), method)
            if tuned is not None:
                config, facts = tuned
                row = method_row(NAME, key_of(maze, method), method, config, {"budget": steps, **facts})
                drawing = skill_paths if maze == TUNED_IN and method in DRAWN else None
                found.append(row._replace(drawing=drawing, measure=measure_of(method)))
    return found


def all_mazes(settings: TableSettings) -> list[str]:
    """The mazes of the table. The name `RANDOM_MAZES` stands for all random ones."""
    chosen = settings.chosen_mazes((*MAZES, RANDOM_MAZES, *LEADS_MAZES))
    random = maze_names(min(settings.num_mazes, MAX_RANDOM), FIRST_MAZE)
    return [maze for name in chosen for maze in (random if name == RANDOM_MAZES else [name])]


def rows(settings: TableSettings, records: Records) -> list[Row]:
    return rows_for(settings, records, settings.chosen_methods(COMPARED), all_mazes(settings))


def measure_of(method: str) -> Measure | None:
    """What is measured besides the usual metrics: offline methods are prompted by goals and rewards."""
    return measure_prompts if method in offline.METHODS else None


def measure_prompts(run: Run, found: Evaluation) -> dict[str, Any]:
    """Prompts by goals and rewards and, in the maze that is drawn, the rollouts for the figure."""
    return {**offline.zero_shot(run, found), **(skill_paths(run, found) if run.config.env == TUNED_IN else {})}


def skill_paths(run: Run, found: Evaluation) -> dict[str, Any]:
    """One rollout of each skill of the first seed, for the figure with a panel per method."""
    assert found.episodes is not None
    first = next(index for index in range(run.config.num_seeds) if index not in run.failed)
    return {PATHS: np.asarray(found.episodes.features)[first, :, 0].round(2).tolist()}


def ranking(results: Results, maze: str, methods: list[str]) -> list[str]:
    """Methods that have a result in a maze, the best one first."""
    scores = {method: results.get(key_of(maze, method), {}).get("mean", {}).get(SCORE) for method in methods}
    return sorted((method for method in methods if scores[method] is not None), key=lambda method: scores[method])


def results_in(results: Results, maze: str) -> dict[str, Result]:
    """The results in a maze, by method, in the order of the table."""
    return {method: results[key] for method in COMPARED if (key := key_of(maze, method)) in results}


def random_values(found: Iterable[Result]) -> dict[str, float]:
    """The metrics of uniform actions, which every run measures next to its own."""
    return next((each["random"] for each in reversed(list(found)) if each.get("random")), {})


def random_cells(found: dict[str, Result], columns: Iterable[str]) -> list[str]:
    random = random_values(found.values())
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
        lines.append([label_of(method), *(mean_cell(each, name) for name in COLUMNS), steps_cell(each)])
    table = markdown_table([maze, *COLUMNS.values(), "steps"], lines)
    return f"{about(found)}\n\n{table}{missing_line([label_of(each) for each in COMPARED if each not in found])}"


def readme_view(results: Results) -> str:
    """The best baseline and a few others in the bottleneck maze, without intervals."""
    found = results_in(results, MAZES[-1])
    if not found:
        return "Not measured."
    baselines = [method for method in RIVALS if method in found]
    best = ranking(results, MAZES[-1], baselines)[:1]
    lines = [[label_of(RANDOM), "", *random_cells(found, README_COLUMNS), NONE]]
    for method in [*(each for each in README_METHODS if each in found and each not in best), *best, EDL_ORACLE, EDL]:
        if method not in found:
            continue
        note = f", the best of {len(baselines)} baselines" if method in best else ""
        each, oracle = found[method], {EDL_ORACLE: "yes", EDL: "no"}.get(method, "")
        cells = [f"{each['mean'][name]:.2f}" if name in each.get("mean", {}) else NONE for name in README_COLUMNS]
        lines.append([f"{SHORT_LABELS.get(method, label_of(method))}{note}", oracle, *cells, steps_cell(each)])
    table = markdown_table([MAZES[-1], "oracle", *README_COLUMNS, "steps"], lines)
    return f"{about(found)}\n\n{table}"


def metrics_view(results: Results) -> str:
    """Every metric of EDL and of random actions, for the page that explains the metrics."""
    places = (MAZES[0], MAZES[-1])
    found = {maze: results_in(results, maze) for maze in places}
    if not all(EDL in each for each in found.values()):
        return "Not measured."
    values = {maze: (each[EDL]["mean"], random_values(each.values())) for maze, each in found.items()}
    lines = [
        [f"`{name}`", *(f"{of[name]:.2f}" if name in of else NONE for pair in values.values() for of in pair)]
        for name in METRICS
        if any(name in mean for mean, _ in values.values())
    ]
    head = ["metric", *(f"{maze}: {who}" for maze in places for who in ("EDL", "random actions"))]
    facts = facts_line({maze: each[EDL] for maze, each in found.items()})
    return f"{facts} EDL has no oracle, and the settings that were tuned in each maze.\n\n{markdown_table(head, lines)}"


def in_random_mazes(results: Results) -> dict[str, list[Result]]:
    """The results in random mazes that have not failed, by method, in the order of the table."""
    chosen = {key: each for key, each in results.items() if key.startswith(f"{RANDOM_MAZES}:") and "mean" in each}
    found = {method: [each for each in chosen.values() if each["method"] == method] for method in COMPARED}
    return {method: each for method, each in found.items() if each}


def over_mazes(found: Sequence[Result], names: Iterable[str]) -> Result:
    """Means and intervals over mazes, of the means over the seeds of each maze; and the mean steps of a run."""
    names = [name for name in names if all(name in each["mean"] for each in found)]
    means = aggregate([{name: each["mean"][name] for name in names} for each in found])
    return {
        "num_seeds": len(found),
        "steps": {"mean": round(float(np.mean([total_steps(each) for each in found])))},
        "mean": {name: means[name]["mean"] for name in names},  # type: ignore[index]
        "ci95": {name: means[name]["ci95"] for name in names},  # type: ignore[index]
    }


def random_view(results: Results) -> str:
    """All methods over the random mazes."""
    found = in_random_mazes(results)
    if not found:
        return "Random mazes: not measured."
    everything = {key: each for key, each in results.items() if key.startswith(f"{RANDOM_MAZES}:")}
    at_random = [each["random"] for each in next(iter(found.values()))]
    means = {name: f"{np.mean([each[name] for each in at_random]):.2f}" for name in COLUMNS if name in at_random[0]}
    lines = [[label_of(RANDOM), "", *(means.get(name, NONE) for name in COLUMNS), NONE]]
    for method, each in found.items():
        runs = sum(len(result["per_seed"]) for result in each)
        pooled = over_mazes(each, COLUMNS)
        cells = [*(mean_cell(pooled, name) for name in COLUMNS), steps_cell(pooled)]
        lines.append([label_of(method), f"{len(each)}, {runs}", *cells])
    table = markdown_table(["random mazes", "mazes, runs", *COLUMNS.values(), "steps"], lines)
    failed = [f"{label_of(each['method'])} in {each['env']}" for each in everything.values() if "failed" in each]
    notes = f"\n\nFailed: {', '.join(failed)}." if failed else ""
    missing = missing_line([label_of(each) for each in COMPARED if each not in found])
    facts = f"{facts_line(everything)} Means and intervals over mazes; `steps` are means per run."
    return f"{facts}\n\n{table}{missing}{notes}"


def overview(results: Results) -> str:
    """All methods in all mazes, in one table: two metrics each, and the steps."""
    places = {maze: results_in(results, maze) for maze in (MAZES[0], MAZES[-1])}
    pooled = {method: over_mazes(each, OVERVIEW) for method, each in in_random_mazes(results).items()}
    everything = {**places, "random mazes": pooled}
    lines = []
    for method in COMPARED:
        cells = [each.get(method, {}) for each in everything.values()]
        if any(cells):
            year = year_of(tuning.tuned_name(method))
            measured = [
                text for each in cells for text in (*(mean_cell(each, name) for name in OVERVIEW), steps_cell(each))
            ]
            lines.append([label_of(method), NONE if year is None else str(year), *measured])
    head = ["method", "year", *(f"{place}: {name}" for place in everything for name in (*OVERVIEW, "steps"))]
    shown = {key: each for key, each in results.items() if "mean" in each and is_shown(each["env"])}
    return f"{facts_line(shown)}\n\n{markdown_table(head, lines)}" if lines else "Not measured."


def is_shown(env: str) -> bool:
    """Whether a maze is part of the overview."""
    return env in (MAZES[0], MAZES[-1]) or env.startswith(f"{RANDOM_MAZES}:")


def figure_view(results: Results) -> str:
    """The picture that ``benchmarks/methods.py`` draws, once there are rollouts to draw."""
    found = results_in(results, TUNED_IN)
    drawn = [method for method in DRAWN if PATHS in found.get(method, {}).get("measured", {})]
    if not drawn:
        return "Not drawn yet."
    missing = ", ".join(label_of(method) for method in DRAWN if method not in drawn)
    picture = "![Ten skills of each method in the bottleneck maze](images/methods.png)"
    return f"{picture}\n\nNot drawn: {missing}." if missing else picture


def view(results: Results) -> str:
    parts = {
        "All mazes": overview(results),
        **{maze: maze_view(maze, results) for maze in MAZES},
        "Random mazes": random_view(results),
        "The mazes of LEADS": published.leads_view(results),
        "Published numbers": published.information_view(results),
        "Offline methods": offline.view(results),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


TABLE = Table(
    "Every method with the same environment steps",
    rows,
    {
        "": view,
        "readme": readme_view,
        "metrics": metrics_view,
        "overview": overview,
        RANDOM_MAZES: random_view,
        "leads": published.leads_view,
        "published": published.information_view,
        "offline": offline.view,
        "figure": figure_view,
        **{maze: functools.partial(maze_view, maze) for maze in MAZES},
    },
)
