"""Coverage of every explorer against environment steps, up to 100,000 and up to 1,000,000 steps.

    python benchmarks/explorers.py measure --out build/explorers [--env bottleneck] [--explore smm] [--num-seeds 10]
    python benchmarks/explorers.py draw --out build/explorers --docs docs

``measure`` writes a JSON file for each maze, explorer and budget, and skips the files that exist. ``draw`` creates the
picture and the table of docs/explorers.md from these files.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import edl
from edl import explore, runtime
from edl.envs import layouts
from edl.evaluate.coverage import bins_of, coverage_curve
from edl.evaluate.statistics import aggregate
from edl.explore.random_walk import RandomWalkConfig

MAZES = ("square", "tree", "bottleneck")
BUDGETS = (100_000, 1_000_000)
POINTS = 100
WITHOUT_STEPS = ("oracle",)
"""Explorers that take no environment steps."""
RANDOM = {"random": RandomWalkConfig(persistence=0.0), "persistent random": RandomWalkConfig()}
"""The two baselines: independent random actions, and actions that are mostly repeated."""
MAX_BUDGET = {"smm": 100_000}
"""SMM takes one gradient step of SAC per environment step: a million steps would take hours on a CPU."""


def explorers() -> dict[str, tuple[str, object]]:
    """The explorer and its settings, by the name in the figure."""
    left_out = (*WITHOUT_STEPS, "random_walk")
    chosen = {name: (name, method.config()) for name, method in explore.METHODS.items() if name not in left_out}
    return chosen | {name: ("random_walk", config) for name, config in RANDOM.items()}


def measure(maze: str, name: str, budget: int, num_seeds: int) -> dict:
    """The coverage of one explorer per seed, at evenly spaced numbers of steps."""
    explorer, config = explorers()[name]
    horizon = 50
    config = dataclasses.replace(config, iterations=budget // horizon // config.rollouts)
    run = edl.run(maze, explore=explorer, explorer=config, num_seeds=num_seeds, until="explore")
    steps = np.linspace(budget / POINTS, budget, POINTS).astype(int)
    grid = bins_of(layouts.load(maze))
    curve_of = jax.jit(lambda experience: coverage_curve(grid, experience, jnp.asarray(steps)))
    seeds = [curve_of(jax.tree.map(lambda x, i=i: x[i], run.states.experience)) for i in range(num_seeds)]
    curves = [[round(float(value), 5) for value in curve] for curve in seeds]
    device = jax.devices()[0].device_kind
    return {"maze": maze, "explorer": name, "steps": steps.tolist(), "coverage": curves, "device": device}


def draw(found: list[dict], docs: Path) -> str:
    """Draw one panel per maze and budget. Returns a table of the final coverage."""
    from matplotlib import pyplot as plt

    names = [name for name in explorers() if any(row["explorer"] == name for row in found)]
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
    """Final mean coverage with its 95 % interval, as a Markdown table."""
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
            found_coverage = aggregate([{"seed": i, "coverage": value} for i, value in enumerate(values)])["coverage"]
            low, high = found_coverage["ci95"]
            cells.append(f"{found_coverage['mean']:.3f} [{low:.3f}, {high:.3f}]")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure", "draw"))
    parser.add_argument("--out", type=Path, default=Path("build/explorers"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--env", choices=MAZES)
    parser.add_argument("--explore", choices=list(explorers()))
    parser.add_argument("--budget", type=int, choices=BUDGETS)
    parser.add_argument("--num-seeds", type=int, default=10)
    options = parser.parse_args()
    if options.command == "draw":
        found = [json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))]
        print(draw(found, options.docs))
        return
    runtime.enable()
    options.out.mkdir(parents=True, exist_ok=True)
    for budget in [options.budget] if options.budget else BUDGETS:
        for name in [options.explore] if options.explore else explorers():
            for maze in [options.env] if options.env else MAZES:
                path = options.out / f"{maze}-{name.replace(' ', '_')}-{budget}.json"
                if path.exists() or budget > MAX_BUDGET.get(name, budget):
                    continue
                row = measure(maze, name, budget, options.num_seeds)
                path.write_text(json.dumps(row))
                ends = [curve[-1] for curve in row["coverage"]]
                print(f"{maze:<11} {name:<18} {budget:>8} steps  coverage {np.mean(ends):.3f}", flush=True)


if __name__ == "__main__":
    main()
