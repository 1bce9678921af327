"""Compare two versions of EDL in random mazes, run by run: the same mazes and seeds, with default settings.

    python benchmarks/random_mazes.py run FILE --mazes 119 120 --seed 0     # with each version, to a file of its own
    python benchmarks/random_mazes.py compare BEFORE AFTER

Mazes are numbered from 0 in the sequence of `edl.envs.random_maze.random_mazes`. FILE gets one JSON line per run, and
more lines if it exists. Only runs that are in both files are compared.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import edl
from edl.evaluate.statistics import bootstrap
from edl.tables.table import maze_names

LOW = (0.95, 0.97)
"""Runs with a lower goal_success are counted."""


def run(file: Path, mazes: Sequence[int], seed: int) -> None:
    names = maze_names(max(mazes) + 1)
    for number in mazes:
        found = edl.run(names[number], seed=seed)
        metrics = found.seeds[0].metrics
        assert metrics is not None
        skills = [skill["goal_success"] for skill in metrics["skills"]]
        result = {
            "maze": number,
            "env": names[number],
            "seed": seed,
            "goal_success": metrics["goal_success"],
            "worst_skill_success": min(skills),
            "steps": found.metrics["steps"],
        }
        with file.open("a") as lines:
            lines.write(json.dumps(result) + "\n")
        print(f"{names[number]}, seed {seed}: goal_success {metrics['goal_success']:.3f}", flush=True)


def compare(before: Path, after: Path) -> None:
    runs = [{(each["maze"], each["seed"]): each for each in read(file)} for file in (before, after)]
    both = sorted(runs[0].keys() & runs[1].keys())
    success = [np.array([found[key]["goal_success"] for key in both]) for found in runs]
    for file, found, of in zip((before, after), success, runs, strict=True):
        low = ", ".join(f"{np.sum(found < limit)} below {limit}" for limit in LOW)
        dead = sum(of[key]["worst_skill_success"] < 0.5 for key in both)
        print(
            f"{file}: {len(both)} runs, mean {found.mean():.3f}, worst {found.min():.3f}, {low}, "
            f"{dead} with a skill below 0.5"
        )
    gains = success[1] - success[0]
    low, high = bootstrap([gains])
    counts = f"{np.sum(gains > 0)} better, {np.sum(gains < 0)} worse, {np.sum(gains == 0)} the same"
    print(f"difference {gains.mean():+.4f} [{low:.4f}, {high:.4f}]; {counts}")


def read(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--mazes", type=int, nargs="+", required=True)
    running.add_argument("--seed", type=int, default=0)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "run":
        run(options.file, options.mazes, options.seed)
    else:
        compare(options.before, options.after)


if __name__ == "__main__":
    main()
