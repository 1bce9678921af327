"""Draw where a robot goes when the policy of its explorer is told goals, and print how many it reaches.

    python benchmarks/robot_goals.py RUN OUT.png

RUN is the folder of ``edl explore --env ant`` or ``edl run --env ant``. The goals are states of the visited set, and
the rollouts are those of MuJoCo on the CPU with the solver of the model. There is one panel per seed, with 48 goals;
the table is about `NUM_GOALS` per seed.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from edl.evaluate.floor import NUM_ROLLOUTS, Trials
from edl.figures.style import plot_figure, style_axes, to_png
from edl.runs.cross_check import play_trials_in_mujoco
from edl.runs.evaluation import floor_keys
from edl.runs.result import Run, load

NUM_GOALS = 200
WIDTH = 5.0
"""Width of the distances that are one line of the table."""


def rollouts(run: Run, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Goals, and the paths of the rollouts that are told them, of every seed."""
    assert run.states is not None
    assert run.states.policy is not None
    samples = run.states.samples
    goals = samples[:, :: samples.shape[1] // count][:, :count]
    never = jnp.zeros(goals.shape[:2], bool)
    trials = Trials(goals, goals, never, never)
    return np.asarray(goals), play_trials_in_mujoco(floor_keys(run.config), run.env, run.states.policy, trials)


def draw(run: Run) -> bytes:
    goals, paths = rollouts(run, NUM_ROLLOUTS)
    figure, panels = plot_figure(2.9, 2.9, columns=len(goals), right=0.02)
    reach = 1.1 * np.abs(paths).max()
    for seed, axes in enumerate(panels):
        ends = np.linalg.norm(paths[seed, :, -1] - goals[seed], axis=-1)
        axes.plot(*paths[seed].transpose(2, 1, 0), color="#4477aa", linewidth=0.6, alpha=0.8)
        axes.scatter(*goals[seed].T, marker="*", s=28, color="#cc3311", linewidths=0, zorder=3)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        axes.set_title(f"seed {run.config.seed + seed}: {np.mean(ends <= 1):.2f} end within 1", fontsize=8)
        style_axes(axes, "both")
    return to_png(figure)


def by_distance(goals: np.ndarray, paths: np.ndarray) -> str:
    """A line per distance of the goals from the origin: how many, and the share of rollouts that end near them."""
    left, far = (np.linalg.norm(each, axis=-1) for each in (paths[:, :, -1] - goals, goals))
    lines = ["distance   goals  within 1  within 3  all nearer ones within 1  mean distance at the end"]
    for low in np.arange(0.0, far.max(), WIDTH):
        chosen = left[(far >= low) & (far < low + WIDTH)]
        if chosen.size:
            nearer = np.mean(left[far < low + WIDTH] <= 1)
            shares = f"{np.mean(chosen <= 1):8.2f}  {np.mean(chosen <= 3):8.2f}  {nearer:24.2f}  {chosen.mean():.2f}"
            lines.append(f"{low:3.0f} to {low + WIDTH:2.0f}  {chosen.size:5d}  {shares}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    run = load(options.run)
    options.out.write_bytes(draw(run))
    print(by_distance(*rollouts(run, NUM_GOALS)))


if __name__ == "__main__":
    main()
