"""Coverage against environment steps, of every explorer: to 100,000 steps, and to 1,000,000.

    python benchmarks/explorers.py measure --out build/explorers [--env bottleneck] [--explore smm] [--num-seeds 10]
    python benchmarks/explorers.py draw --out build/explorers --docs docs

``measure`` leaves a JSON file for each maze, explorer and budget, and skips those that are there. ``draw`` makes the
picture and the table of docs/explorers.md from them.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import edl
from edl.runtime import compile_cache, explore
from edl.envs import layouts
from edl.evaluate.coverage import bins_of, coverage_curve
from edl.evaluate.statistics import aggregate
from edl.explore.random_walk import RandomWalkConfig

MAZES = ("square", "tree", "bottleneck")
BUDGETS = (100_000, 1_000_000)
POINTS = 100
NOT_ACTING = ("oracle", "dataset")
RANDOM = {"random": RandomWalkConfig(persistence=0.0), "persistent random": RandomWalkConfig()}
"""The two baselines: actions drawn anew at each step, and actions that are mostly repeated."""
SLOW = {"smm": 100_000}
"""A gradient step of SAC for each environment step: a million would take hours on a CPU."""


def contestants() -> dict[str, tuple[str, object]]:
    """Explorer and settings, by the name shown."""
    acting = {name: (name, method.config()) for name, method in explore.METHODS.items() if name not in NOT_ACTING}
    del acting["random_walk"]
    return acting | {shown: ("random_walk", config) for shown, config in RANDOM.items()}


def measure(maze: str, name: str, budget: int, num_seeds: int) -> dict:
    """The coverage of one explorer, seed by seed, at evenly spaced numbers of steps."""
    explorer, config = contestants()[name]
    horizon = 50
    config = dataclasses.replace(config, iterations=budget // horizon // config.rollouts)
    run = edl.run(maze, explore=explorer, explorer=config, num_seeds=num_seeds, until="explore")
    steps = np.linspace(budget / POINTS, budget, POINTS).astype(int)
    grid = bins_of(layouts.load(maze))
    one = jax.jit(lambda experience: coverage_curve(grid, experience, jnp.asarray(steps)))
    seeds = [one(jax.tree.map(lambda x, i=i: x[i], run.states.experience)) for i in range(num_seeds)]
    curves = [[round(float(each), 5) for each in curve] for curve in seeds]
    device = jax.devices()[0].device_kind
    return {"maze": maze, "explorer": name, "steps": steps.tolist(), "coverage": curves, "device": device}


def draw(found: list[dict], docs: Path) -> str:
    """A panel per maze and budget, and a table of what was covered at the end."""
    from matplotlib import pyplot as plt

    names = [name for name in contestants() if any(row["explorer"] == name for row in found)]
    colours = dict(zip(names, plt.get_cmap("tab10").colors, strict=False))
    figure, axes = plt.subplots(len(BUDGETS), len(MAZES), figsize=(12, 6.5), sharey=True, layout="constrained")
    for row in found:
        budget, name = row["steps"][-1], row["explorer"]
        panel = axes[BUDGETS.index(budget), MAZES.index(row["maze"])]
        curves = np.array(row["coverage"])
        style = "--" if "random" in name else "-"
        panel.plot(np.array(row["steps"]) / 1000, curves.mean(axis=0), style, color=colours[name], label=name)
        panel.fill_between(np.array(row["steps"]) / 1000, curves.min(axis=0), curves.max(axis=0), alpha=0.15,
                           color=colours[name], linewidth=0)  # fmt: skip
        panel.set_title(f"{row['maze']}, {budget // 1000}k steps", fontsize=10)
    for panel in axes.flat:
        panel.set(ylim=(0, 1.02))
        panel.spines[["top", "right"]].set_visible(False)
    for panel in axes[-1]:
        panel.set_xlabel("environment steps in thousands")
    for panel in axes[:, 0]:
        panel.set_ylabel("coverage")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(docs / "images" / "explorers.png", dpi=130)
    return table(found, names)


def table(found: list[dict], names: list[str]) -> str:
    """Mean coverage with its 95 % interval, in Markdown."""
    columns = [(maze, budget) for budget in BUDGETS for maze in MAZES]
    lines = ["| explorer | " + " | ".join(f"{maze}, {budget // 1000}k" for maze, budget in columns) + " |"]
    lines += ["|---" * (len(columns) + 1) + "|"]
    ends = {(r["explorer"], r["maze"], r["steps"][-1]): [curve[-1] for curve in r["coverage"]] for r in found}
    for name in names:
        cells = []
        for column in columns:
            values = ends.get((name, *column))
            if values is None:
                cells.append("not run")
                continue
            got = aggregate([{"seed": i, "coverage": value} for i, value in enumerate(values)])["coverage"]
            cells.append(f"{got['mean']:.3f} [{got['ci95'][0]:.3f}, {got['ci95'][1]:.3f}]")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """The two commands of the docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure", "draw"))
    parser.add_argument("--out", type=Path, default=Path("build/explorers"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--env", choices=MAZES)
    parser.add_argument("--explore", choices=list(contestants()))
    parser.add_argument("--budget", type=int, choices=BUDGETS)
    parser.add_argument("--num-seeds", type=int, default=10)
    given = parser.parse_args()
    if given.command == "draw":
        found = [json.loads(path.read_text()) for path in sorted(given.out.glob("*.json"))]
        print(draw(found, given.docs))
        return
    compile_cache.enable()
    given.out.mkdir(parents=True, exist_ok=True)
    for budget in [given.budget] if given.budget else BUDGETS:
        for name in [given.explore] if given.explore else contestants():
            for maze in [given.env] if given.env else MAZES:
                path = given.out / f"{maze}-{name.replace(' ', '_')}-{budget}.json"
                if path.exists() or budget > SLOW.get(name, budget):
                    continue
                row = measure(maze, name, budget, given.num_seeds)
                path.write_text(json.dumps(row))
                ends = [curve[-1] for curve in row["coverage"]]
                print(f"{maze:<11} {name:<18} {budget:>8} steps  coverage {np.mean(ends):.3f}", flush=True)


if __name__ == "__main__":
    main()
