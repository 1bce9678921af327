"""Robots: EDL, its explorer `beyond`, METRA, its family and others on Ant, HalfCheetah, and an ant in a maze.

Three tables, none of which is part of ``edl tables all``: they need MJX, and an accelerator.

* ``robots``: floor coverage, zero-shot goals and the rooms of the maze, with steps and seconds of every stage
  (`edl.evaluate.floor` has the protocol). Floor coverage is also measured while the methods learn, which gives curves
  over steps and over time (`edl.runs.snapshots`). The JSON file has them, and ``benchmarks/robots.py`` draws them.
* ``robot_tasks``: METRA's downstream tasks, with controllers over the skills of the first table, and PPO without
  skills.
* ``robot_envs``: METRA with the 8 envs of its authors and with more, after `ENVS_STEPS` steps.

EDL has its default settings. The baselines have theirs, and `STEPS` steps. Rows of one env whose runs begin with the
same exploration share it, and are measured as one job.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from edl.artifacts import SkillPolicy
from edl.envs.mjx.divergence import check_physics
from edl.evaluate.floor import (
    NUM_ROLLOUTS,
    NUM_TRIALS,
    Trials,
    accepts_goals,
    coverage_of,
    directed_coverage,
    floor_protocol_applies,
    play_coverage,
    play_seeds_trials,
    playable,
)
from edl.evaluate.statistics import aggregate
from edl.hierarchy.tasks import TASKS, TaskConfig
from edl.runs.config import RunConfig
from edl.runs.evaluation import evaluate_floor, floor_keys
from edl.runs.executables import call_once
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import Stage
from edl.runs.points import open_point
from edl.runs.resolve import Context, make_context, resolve_config
from edl.runs.result import Run, run_of
from edl.runs.session import env_steps_of
from edl.runs.snapshots import StageResult, policy_in, run_measured
from edl.runs.tasks import task_result
from edl.tables.markdown import NONE, facts_line, markdown_table, million, missing_line
from edl.tables.table import EDL, Records, Result, Results, Row, Table, TableSettings, folder_name, made_by

NAME, TASK_TABLE, ENVS_NAME = "robots", "robot_tasks", "robot_envs"
STEPS = 10_000_000
"""Environment steps of the baselines, which are those that METRA and CSF are compared at."""
NUM_SKILLS = 16
SCRATCH, BEYOND = "edl_scratch", "beyond"
ROUNDING = 0.1
"""Seconds by which the last point of a curve may be earlier than the end of its stages."""
WITHOUT_POLICY = "drift"
"""An explorer that learns no policy."""
METHODS = (BEYOND, EDL, SCRATCH, "metra", "csf", "csd", "lsd", "cic", "apt", "diayn")
ROBOTS: dict[str, tuple[str, ...]] = {
    "ant": METHODS,
    "half_cheetah": (BEYOND, EDL, "metra", "csf"),
    "ant:bottleneck": (BEYOND, EDL),
}
"""The methods in each env."""
LABELS = {
    BEYOND: "explorer `beyond`, told goals",
    EDL: "EDL, from the explorer's policy",
    SCRATCH: "EDL, stage 3 from scratch",
    "metra": "METRA",
    "csf": "CSF",
    "csd": "CSD",
    "lsd": "LSD",
    "cic": "CIC",
    "apt": "APT",
    "diayn": "DIAYN",
}
COVERED = {
    "floor_coverage": "cells",
    "floor.goals.directions.cells": "cells, told directions",
    "floor.goals.far.cells": "cells, told far goals",
}
"""Floor coverage of rollouts that are told different things."""
TASKS_OF = {"ant": ("ant_multi_goal",), "half_cheetah": ("half_cheetah_goal", "half_cheetah_hurdle")}
TASK_METHODS = (BEYOND, EDL, "metra")
ENVS_STEPS = 1_000_000
NUM_ENVS = (8, 64, 256)
"""Numbers of envs at the same time. The authors of METRA have 8; one gradient step per 32 steps in all rows."""
SHARED = "next to other programs"
"""Said of a result with ``shared_gpu``, which is set by hand. Its seconds are not compared."""
ROOMS = {
    "bottleneck": (
        "AAAAAAABBB",
        "AAAAAAABBB",
        "AAAAAAABBB",
        "AAAAAAABBB",
        "AAAAAAABBB",
        "CCCCCDDBBB",
        "CCCCCDDBBB",
        "CCCCCDDBBB",
        "CCCCCEEEFF",
        "CCCCCEEEFF",
    )
}
"""The rooms of a maze: a letter per cell. In the bottleneck maze the way is C (the start), E, then F or B, D, A."""


# Rows


def config_of(settings: TableSettings, env: str, method: str) -> RunConfig:
    """The config of a method on a robot, with the steps of the table."""
    base = {"num_skills": NUM_SKILLS, "num_seeds": settings.num_seeds}
    if method not in (EDL, SCRATCH, BEYOND):
        return with_steps(settings.config(env, method, **base), settings.steps or STEPS)
    config = settings.config(env, EDL, explore=BEYOND, **base)
    if method != SCRATCH:
        return config
    # After an explorer without a policy, learning starts from scratch, with the settings that this needs.
    learner = settings.config(env, EDL, explore=WITHOUT_POLICY, **base).learner
    return resolve_config(dataclasses.replace(config, learner=learner))


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    """A baseline with as many iterations as ``steps`` environment steps need."""
    name = "ppo" if hasattr(config.baseline, "ppo") else "sac"
    learner = getattr(config.baseline, name)
    per_iteration = learner.rollouts * (getattr(learner, "unroll", 0) or config.horizon)
    learner = dataclasses.replace(learner, iterations=max(-(-steps // per_iteration), 1))
    return dataclasses.replace(config, baseline=dataclasses.replace(config.baseline, **{name: learner}))


@functools.lru_cache(maxsize=64)
def row_of(settings: TableSettings, env: str, method: str) -> Row:
    """The row of a method on a robot. Making its config loads a MuJoCo model, so it is kept."""
    until = "explore" if method == BEYOND else "learn"
    config = config_of(settings, env, method)
    return Row(NAME, f"{env}/{method}", config, {"method": method}, until=until, runner=run_rows)


def rows(settings: TableSettings, records: Records) -> list[Row]:
    """A row per env and method."""
    return [
        row_of(settings, env, method)
        for env in settings.chosen_mazes(list(ROBOTS))
        for method in settings.chosen_methods(ROBOTS[env])
    ]


def task_rows(settings: TableSettings, records: Records) -> list[Row]:
    """A row per task and method. They use the runs of the table of robots, and make those that are missing."""
    found = []
    for env in settings.chosen_mazes(list(TASKS_OF)):
        for method in settings.chosen_methods(TASK_METHODS):
            base = row_of(settings, env, method)
            for task in TASKS_OF[env]:
                facts = {"method": method, "task": task}
                found.append(base._replace(table=TASK_TABLE, key=f"{task}/{method}", facts=facts, runner=run_task_rows))
    return found


def envs_rows(settings: TableSettings, records: Records) -> list[Row]:
    """METRA on Ant with several numbers of envs."""
    found = []
    for num_envs in NUM_ENVS:
        config = settings.config("ant", "metra", num_skills=NUM_SKILLS, num_seeds=settings.num_seeds)
        sac = dataclasses.replace(config.baseline.sac, rollouts=num_envs)
        config = dataclasses.replace(config, baseline=dataclasses.replace(config.baseline, sac=sac))
        config = with_steps(resolve_config(config), settings.steps or ENVS_STEPS)
        facts = {"method": "metra", "envs": num_envs}
        found.append(Row(ENVS_NAME, f"{num_envs}", config, facts, runner=run_rows))
    return found


# Measuring


def run_rows(path: Path, job_rows: Sequence[Row], interrupt: Interrupt) -> dict[str, dict[str, Any]]:
    """Run and measure rows of one env, in this order. Stages that they have in common run once."""
    known: dict[str, StageResult] = {}
    return {row.key: run_row(path, row, interrupt, known) for row in job_rows}


def run_row(path: Path, row: Row, interrupt: Interrupt, known: dict[str, StageResult]) -> dict[str, Any]:
    """One row: its stages with their curves, and the protocol at the end."""
    context = make_context(row.config)
    run, stages = trained_run(path, row, context, interrupt, known)
    per_seed = [{"seed": row.config.seed + i} for i in range(row.config.num_seeds)]
    floors = evaluate_floor(run)
    rooms = None if context.layout is None else rooms_reached(run)
    for i, each in enumerate(per_seed):
        if floors is not None:
            each |= {"floor_coverage": floors[i]["floor_coverage"], "floor": floors[i]}
        if rooms is not None:
            each |= rooms[i]
    scores = [{name: value for name, value in flat_numbers(each).items() if name != "seed"} for each in per_seed]
    means = aggregate(scores)
    found = {name: each for name, each in means.items() if each is not None}
    return {
        **made_by(row),
        "steps": steps_of(stages),
        "seconds": {name: round(each.facts["seconds"], 1) for name, each in stages.items()},
        "compile_seconds": {name: round(each.facts["compile_seconds"], 1) for name, each in stages.items()},
        "mean": {name: round(each["mean"], 4) for name, each in found.items()},
        "ci95": {name: [round(end, 4) for end in each["ci95"]] for name, each in found.items()},
        "per_seed": per_seed,
        "curve": joined_curve(stages),
    }


def steps_of(stages: Mapping[str, StageResult]) -> dict[str, int]:
    """Environment steps of the stages that took any."""
    return env_steps_of({name: each.facts for name, each in stages.items()})


def trained_run(
    path: Path, row: Row, context: Context, interrupt: Interrupt, known: dict[str, StageResult]
) -> tuple[Run, dict[str, StageResult]]:
    """The run of a row, from its folder or newly made, and its stages."""
    point = open_point(row.key, row.config, path / folder_name(row))

    def measure(stage: Stage, artifact: Any) -> dict[str, list[int]] | None:
        return coverage_now(row.config, context, artifact)

    stages = run_measured(point, context, interrupt, measure, until=row.until, known=known, runs=path)
    artifacts = {name: each.artifact for name, each in stages.items()}
    return run_of(row.config, context, artifacts, point.folder), stages


def coverage_now(config: RunConfig, context: Context, artifact: Any) -> dict[str, list[int]] | None:
    """The floor coverage of every seed with the policy of an artifact; None if it has none, or in a maze.

    ``directions`` is that of an explorer's policy which is told directions.
    """
    policy = policy_in(artifact)
    if policy is None or not floor_protocol_applies(context.env, context.layout):
        return None
    keys, samples = floor_keys(config), getattr(artifact, "samples", None)
    play_now = functools.partial(play, keys, context, policy)
    paths, _ = play_coverage(keys, context.env, policy, None, samples, play_now)
    found = {"floor_coverage": [coverage_of(each[:NUM_ROLLOUTS]) for each in paths]}
    if samples is not None and accepts_goals(policy):
        found["directions"] = directed_coverage(samples, paths, play_now)
    return found


def play(keys: Any, context: Context, policy: SkillPolicy, trials: Trials) -> np.ndarray:
    """The same compiled program as in the final evaluation."""
    paths = np.asarray(call_once(play_seeds_trials, (), keys, context.env, playable(policy), trials))
    check_physics(context.env, paths, "in the rollouts of the evaluation")
    return paths


def joined_curve(stages: Mapping[str, StageResult]) -> list[dict[str, Any]]:
    """The curves of all stages, one after the other: steps and seconds count from the beginning of the run."""
    points, steps, seconds = [], 0, 0.0
    for stage in stages.values():
        points += [
            {
                "env_steps": steps + point["env_steps"],
                "seconds": round(seconds + point["seconds"], 2),
                **point["value"],
            }
            for point in stage.curve
        ]
        steps, seconds = steps + int(stage.facts.get("env_steps") or 0), seconds + stage.facts["seconds"]
    return points


def flat_numbers(tree: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """All numbers of nested dicts, by their path: ``floor.goals.reached.within_1``."""
    found: dict[str, float] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= flat_numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[f"{prefix}{name}"] = float(value)
        elif isinstance(value, list) and all(isinstance(each, int | float) for each in value):
            found |= {f"{prefix}{name}.{i}": float(each) for i, each in enumerate(value)}
    return found


# Rooms of a maze


def room_of_cells(name: str, cells: np.ndarray) -> list[str]:
    """The room of each cell of a built-in maze, whose cells are in reading order."""
    letters = "".join(ROOMS[name])
    assert len(letters) == len(cells)
    return list(letters)


def rooms_reached(run: Run) -> list[dict[str, Any]]:
    """For each seed: the share of cells that the skills visit, the rooms they enter, and those in which they end.

    Every trial is a skill, or a state of the visited set that the explorer's policy is told, played by its mean.
    """
    assert run.layout is not None
    policy, samples = run.policy, None if run.states is None else run.states.samples
    if policy is None:
        assert run.states is not None
        policy = run.states.policy
        assert policy is not None
    index = jnp.arange(NUM_TRIALS)
    told = samples if run.policy is None else policy.codes
    assert told is not None
    codes = told[:, index * told.shape[1] // NUM_TRIALS if run.policy is None else index % told.shape[1]]
    never = jnp.zeros(codes.shape[:2], bool)
    trials = Trials(codes, jnp.zeros((*codes.shape[:2], run.env.feature_size)), never, never)
    keys = floor_keys(run.config)
    paths = play(keys, Context(run.env, run.layout), policy, trials)
    return [room_result(run.layout, each) for each in paths]


def room_result(layout: Any, paths: np.ndarray) -> dict[str, Any]:
    """What one seed's rollouts visit. Their positions are in cells."""
    rooms = room_of_cells(layout.name.rpartition(":")[2], layout.cells)
    gaps = np.abs(paths.reshape(-1, 1, 2) - layout.cells).max(axis=-1)
    nearest, inside = gaps.argmin(axis=1), gaps.min(axis=1) <= 0.5
    visited = set(nearest[inside].tolist())
    ends = nearest.reshape(paths.shape[:2])[:, -1]
    return {
        "cells": len(visited) / len(layout.cells),
        "rooms": sorted({rooms[cell] for cell in visited}),
        "rooms_at_the_end": sorted({rooms[cell] for cell in ends}),
        "share_of_rooms": len({rooms[cell] for cell in visited}) / len(set(rooms)),
    }


# Tasks


def run_task_rows(path: Path, job_rows: Sequence[Row], interrupt: Interrupt) -> dict[str, dict[str, Any]]:
    """Train the controllers of rows of one env. Their runs are those of the table of robots."""
    known: dict[str, StageResult] = {}
    flats: dict[str, dict[str, Any]] = {}
    results = {}
    for row in job_rows:
        base = row._replace(table=NAME, key=f"{row.config.env}/{row.facts['method']}", runner=run_rows)
        run, stages = trained_run(path, base, make_context(row.config), interrupt, known)
        task = row.facts["task"]
        space = "codes" if row.facts["method"] == EDL else None  # the K skills; the explorer's row has its goals
        result = task_result(run, task, TaskConfig(), flat=flats.get(task), space=space)
        flats[task] = result["flat"]
        results[row.key] = {**made_by(row), "steps": steps_of(stages), "measured": result}
    return results


# Views


def at(curve: Sequence[Mapping[str, Any]], axis: str, where: float | int) -> float | None:
    """The mean floor coverage at a number of steps or seconds, between two points of a curve; None beyond its end."""
    x = [0.0, *(point[axis] for point in curve)]
    y = [0.0, *(float(np.mean(point["floor_coverage"])) for point in curve)]
    return float(np.interp(where, x, y)) if curve and where <= x[-1] + ROUNDING else None


def total_seconds(result: Result) -> float:
    return sum(result["seconds"].values())


def cell(result: Result, name: str, digits: int) -> str:
    """The mean of a number, and its interval if there are several seeds."""
    mean = result.get("mean", {}).get(name)
    if mean is None:
        return NONE
    if result["num_seeds"] == 1:
        return f"{mean:,.{digits}f}"
    low, high = result["ci95"][name]
    return f"{mean:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def stages_cell(result: Result) -> str:
    """Seconds of every stage, e.g. ``explore 200 s, learn 60 s``."""
    text = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in result["seconds"].items() if seconds >= 0.5)
    return f"{text}, {SHARED}" if result.get("shared_gpu") else text


def found_in(results: Results, env: str) -> dict[str, Result]:
    """The finished rows of an env, by method."""
    keys = {method: f"{env}/{method}" for method in ROBOTS[env]}
    return {method: results[key] for method, key in keys.items() if "mean" in results.get(key, {})}


def coverage_view(env: str, results: Results) -> str:
    """Floor coverage at the end, by what is told; after `STEPS` steps, and after the time of the fastest row.

    Only rows that ran alone are compared by their time.
    """
    found = found_in(results, env)
    if not found:
        return f"{env}: not measured."
    alone = [total_seconds(each) for each in found.values() if not each.get("shared_gpu")]
    lines = []
    for method, each in found.items():
        early = [at(each["curve"], "env_steps", STEPS)]
        if alone:
            early.append(None if each.get("shared_gpu") else at(each["curve"], "seconds", min(alone)))
        cells = [NONE if value is None else f"{value:,.0f}" for value in early]
        steps = million(sum(each["steps"].values()))
        covered = [cell(each, name, 0) for name in COVERED]
        lines.append([LABELS[method], *covered, *cells, steps, stages_cell(each), _reach(each)])
    random = np.mean([each["mean"]["floor.random_floor_coverage"] for each in found.values()])
    when = [f"at {million(STEPS)} steps", *([f"after {min(alone):.0f} s"] if alone else [])]
    nothing = [NONE] * (len(COVERED) - 1 + len(when))
    lines.append(["random actions", f"{random:,.0f}", *nothing, "0.00M", NONE, NONE])
    head = [env, *COVERED.values(), *when, "steps", "stages", _reach_head(env)]
    return f"{facts_line(found)}\n\n{markdown_table(head, lines)}{_missing(env, found)}"


def _reach_head(env: str) -> str:
    return "x from, to" if env == "half_cheetah" else "farthest from the start"


def _reach(result: Result) -> str:
    if "floor.low.1" in result["mean"]:
        return cell(result, "floor.radius", 0)
    return f"{result['mean']['floor.low.0']:.0f}, {result['mean']['floor.high.0']:.0f}"


def goals_view(env: str, results: Results) -> str:
    """Zero-shot goals: how near the rollouts end."""
    found = found_in(results, env)
    if not found:
        return f"{env}: not measured."
    sets = {"reached": "own reached area", "disc": "disc", "far": "CSF's box"}  # directions are not there to be reached
    lines = []
    for method, each in found.items():
        for name, label in sets.items():
            numbers = [cell(each, f"floor.goals.{name}.{key}", 2) for key in ("within_1", "within_3", "passed_3")]
            radius, distance = (cell(each, f"floor.goals.{name}.{key}", 1) for key in ("radius", "distance"))
            told = each["per_seed"][0]["floor"]["told_by"] if name == "reached" else ""
            lines.append([LABELS[method] if name == "reached" else "", told, label, radius, *numbers, distance])
        if "floor.skills.within_1" in each["mean"]:
            numbers = [cell(each, f"floor.skills.{key}", 2) for key in ("within_1", "within_3", "passed_3")]
            radius, distance = (cell(each, f"floor.skills.{key}", 1) for key in ("radius", "distance"))
            lines.append(["", "its skills", "the skills' own goals", radius, *numbers, distance])
    head = [
        env,
        "told",
        "goals",
        "farthest goal",
        "ends within 1",
        "within 3",
        "passes within 3",
        "distance at the end",
    ]
    return f"{facts_line(found)}\n\n{markdown_table(head, lines)}{_missing(env, found)}"


def rooms_view(env: str, results: Results) -> str:
    """Cells and rooms that the skills visit."""
    found = found_in(results, env)
    if not found:
        return f"{env}: not measured."
    lines = []
    for method, each in found.items():
        rooms = [" ".join(seed["rooms"]) for seed in each["per_seed"]]
        ends = [" ".join(seed["rooms_at_the_end"]) for seed in each["per_seed"]]
        steps = million(sum(each["steps"].values()))
        visited = [cell(each, "cells", 2), cell(each, "share_of_rooms", 2)]
        lines.append([LABELS[method], *visited, "; ".join(rooms), "; ".join(ends), steps, stages_cell(each)])
    head = [env, "share of cells", "share of rooms", "rooms, by seed", "rooms of the last states", "steps", "stages"]
    return f"{facts_line(found)}\n\n{markdown_table(head, lines)}{_missing(env, found)}"


def _missing(env: str, found: Mapping[str, Result]) -> str:
    return missing_line([LABELS[method] for method in ROBOTS[env] if method not in found])


def view(results: Results) -> str:
    """All envs."""
    parts = [f"## {env}\n\n{coverage_view(env, results)}\n\n{goals_view(env, results)}" for env in TASKS_OF]
    return "\n\n".join([*parts, f"## ant:bottleneck\n\n{rooms_view('ant:bottleneck', results)}"])


def tasks_view(results: Results) -> str:
    """The scores of the controllers, and of PPO without skills."""
    lines, missing = [], []
    for task in TASKS:
        found = {
            method: results[key] for method in TASK_METHODS if "measured" in results.get(key := f"{task}/{method}", {})
        }
        missing += [f"{task} with {LABELS[method]}" for method in TASK_METHODS if method not in found]
        for method, each in found.items():
            measured, learner = each["measured"], each["measured"]["controller"]
            steps = [million(sum(each["steps"].values())), million(learner["env_steps"])]
            lines.append([task, LABELS[method], measured["skills_named_by"], *steps, score_cell(learner)])
        for each in list(found.values())[:1]:
            flat = each["measured"]["flat"]
            lines.append([task, "none (PPO without skills)", NONE, NONE, million(flat["env_steps"]), score_cell(flat)])
    head = ["task", "skills", "named by", "pretraining", "steps", "score"]
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing_line(missing)}"


def envs_view(results: Results) -> str:
    """Floor coverage, goals and time by the number of envs."""
    found = {each["envs"]: each for each in results.values() if "mean" in each and "envs" in each}
    lines = [
        [
            str(num_envs),
            *(cell(each, name, 0) for name in ("floor_coverage", "floor.radius")),
            cell(each, "floor.goals.reached.within_3", 2),
            million(sum(each["steps"].values())),
            stages_cell(each),
        ]
        for num_envs, each in sorted(found.items())
    ]
    head = ["envs", "cells", "farthest from the start", "goals within 3", "steps", "stages"]
    missing = missing_line([f"{num_envs} envs" for num_envs in NUM_ENVS if num_envs not in found])
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing}" if found else "Not measured."


def score_cell(learner: Result) -> str:
    """The score, and its 95 % interval if there are several seeds."""
    if len(learner["per_seed"]) == 1:
        return f"{learner['score']:.2f}"
    return f"{learner['score']:.2f} [{learner['ci95'][0]:.2f}, {learner['ci95'][1]:.2f}]"


VIEWS = {
    "": view,
    "ant": functools.partial(coverage_view, "ant"),
    "ant_goals": functools.partial(goals_view, "ant"),
    "half_cheetah": functools.partial(coverage_view, "half_cheetah"),
    "half_cheetah_goals": functools.partial(goals_view, "half_cheetah"),
    "bottleneck": functools.partial(rooms_view, "ant:bottleneck"),
}
TABLE = Table("Robots: floor coverage, zero-shot goals, and rooms", rows, VIEWS, on_request=True)
ENVS_TABLE = Table("Robots: METRA and the number of envs", envs_rows, {"": envs_view}, on_request=True)
TASKS_TABLE = Table("Robots: METRA's downstream tasks", task_rows, {"": tasks_view}, on_request=True)
