"""Two tables about the training of methods without stages.

`COVERAGE`: the share of the reachable bins that a method visits in the 100,000 steps of its training, from scratch and
with its default settings, as ExDM (ICLR 2026) reports it: bins and steps are those of the table of explorers. CIC is
also trained with the reward of its authors' code, the entropy alone. Random actions are next to all of them.

`ENVS`: METRA on SAC and on PPO with different numbers of envs side by side, for the same number of environment steps.
SAC makes the same number of gradient steps per environment step for all of them, and so does phi of both, with batches
of the same size. PPO makes the same number per iteration.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.baselines import METHODS
from edl.envs import Env
from edl.evaluate.coverage import BinGrid, bins_of, coverage, visited
from edl.evaluate.statistics import aggregate
from edl.program import Program, program_keys
from edl.runs.config import RunConfig
from edl.runs.interrupt import Interrupt
from edl.runs.pipeline import stage_keys
from edl.runs.resolve import make_context, resolve_config
from edl.tables import explorers
from edl.tables.budget import SAC_CAPACITY, SAC_ROLLOUTS, SAC_UPDATE_EVERY, path_of_learner
from edl.tables.markdown import NONE, facts_line, markdown_table, mean_cell, missing_line
from edl.tables.published import verdict
from edl.tables.table import (
    MAZES,
    Records,
    Results,
    Row,
    Table,
    TableSettings,
    made_by,
    setting,
    with_values,
)
from edl.tables.tuning import SCORE, tuning_steps
from edl.types import Key

COVERAGE, ENVS = "training_coverage", "envs"
STEPS = 100_000
METRIC = "data_coverage_100k"
CIC_ENTROPY = "cic_entropy"
"""CIC with beta = 0: the reward of its authors' code."""
LEARNED: dict[str, tuple[str, dict[str, Any]]] = {
    "diayn": ("diayn", {}),
    "lsd": ("lsd", {}),
    "cic": ("cic", {}),
    CIC_ENTROPY: ("cic", {"baseline.contrast_weight": 0.0}),
    "becl": ("becl", {}),
}
"""The method of each row, and the settings that are not its defaults."""
ROW_LABELS = {CIC_ENTROPY: "`cic`, entropy alone"}
PUBLISHED = {
    "diayn": (0.41, 0.38, 0.29),
    "lsd": (0.45, 0.28, 0.34),
    "cic": (0.94, 0.89, 0.58),
    CIC_ENTROPY: (0.94, 0.89, 0.58),
    "becl": (0.50, 0.36, 0.29),
}
"""Coverage of square, tree and bottleneck after 100,000 steps in the paper of ExDM, ten seeds."""
REASON = (
    "Published are the numbers in ExDM's paper, of DDPG or PPO with the settings of each method's authors. Ours learn "
    "with SAC and our defaults, at one gradient step per 20 environment steps. The authors' code of CIC rewards the "
    "entropy alone (`--baseline.contrast-weight 0`), and our default the whole bound of the paper, whose skills are "
    "told apart."
)
NUM_ENVS = (8, 32, 128, 512)
METRA = ("metra", "metra_ppo")
ENVS_MAZES = ("square", "bottleneck")
ENVS_METRICS = (SCORE, "skill_coverage")


def coverage_rows(settings: TableSettings, records: Records) -> list[Row]:
    """One row per method and maze. All steps stay in the replay buffer."""
    found = []
    for name in settings.chosen_methods(list(LEARNED)):
        method, changes = LEARNED[name]
        for maze in settings.chosen_mazes(MAZES):
            config = with_values(settings.config(maze, method, num_seeds=settings.num_seeds), changes)
            horizon = make_context(config).env.horizon
            sac = config.baseline.sac
            iterations = max((settings.steps or STEPS) // (horizon * sac.rollouts), 1)
            sac = dataclasses.replace(sac, iterations=iterations, capacity=iterations * sac.rollouts * horizon)
            config = resolve_config(with_values(config, {"baseline.sac": sac}))
            facts = {"method": name, "budget": sac.capacity}
            found.append(Row(COVERAGE, f"{maze}/{name}", config, facts, runner=cover))
    return found + explorers.random_rows(COVERAGE, settings.steps or STEPS, settings)


def cover(path: Path, rows: Sequence[Row], interrupt: Interrupt) -> dict[str, dict[str, Any]]:
    """Train the methods of rows of one maze, and measure what is in their replay buffers at the end."""
    results = {}
    for row in rows:
        shares = interrupt.run_interruptible(lambda row=row: train_seeds(row.config))
        per_seed = [{"seed": row.config.seed + i, METRIC: round(share, 4)} for i, share in enumerate(shares)]
        means: Any = aggregate([{METRIC: each[METRIC]} for each in per_seed])[METRIC]
        results[row.key] = {
            **made_by(row),
            "steps": {"learn": row.facts["budget"]},
            "mean": {METRIC: round(means["mean"], 4)},
            "ci95": {METRIC: [round(end, 4) for end in means["ci95"]]},
            "per_seed": per_seed,
        }
    return results


def train_seeds(config: RunConfig) -> list[float]:
    """The coverage of each seed of a method with SAC, after all of its training."""
    context, build = make_context(config), METHODS[config.method].build
    assert context.layout is not None

    def train(key: Key, env: Env, settings: Any, grid: BinGrid) -> Float[Array, ""]:
        return training_coverage(key, build(env, settings), grid)

    lanes = jax.jit(jax.vmap(train, in_axes=(0, None, None, None)))
    shares = lanes(stage_keys(config, "learn"), context.env, config.baseline, bins_of(context.layout))
    return np.asarray(shares, float).tolist()


def training_coverage(key: Key, program: Program, grid: BinGrid) -> Float[Array, ""]:
    """The coverage of all steps in the replay buffer of SAC at the end of a program."""
    first, keys = program_keys(key, program.iterations)
    state, _ = jax.lax.scan(lambda state, key: (program.step(state, key)[0], None), program.init(first), keys)
    steps = state.replay.rows.features
    real = jnp.arange(steps.shape[0]) < state.replay.size
    return coverage(grid, visited(grid, steps, jnp.broadcast_to(real[:, None], steps.shape[:2])))


def coverage_view(results: Results) -> str:
    """Our coverage, the published one, and a verdict for each maze; and the coverage of random actions."""
    lines, missing = [], []
    for name in (*explorers.RANDOM, *LEARNED):
        line = [name if name in explorers.RANDOM else ROW_LABELS.get(name, f"`{name}`")]
        for maze, value in zip(MAZES, PUBLISHED.get(name, (None,) * len(MAZES)), strict=True):
            each = results.get(f"{maze}/{name}")
            missing += [f"{line[0]} in {maze}"] if each is None else []
            ours = NONE if each is None else mean_cell(each, METRIC)
            judged = "" if each is None or value is None else f", {verdict(each, METRIC, value)}"
            line.append(f"{NONE if value is None else f'{value:.2f}'} / {ours}{judged}")
        lines.append(line)
    table = markdown_table(["method", *(f"{maze}: published / ours, verdict" for maze in MAZES)], lines)
    return f"{facts_line(results)} {REASON}\n\n{table}{missing_line(missing)}"


def envs_rows(settings: TableSettings, records: Records) -> list[Row]:
    """One row per method, number of envs and maze; both mazes are one program."""
    found, steps = [], tuning_steps(settings)
    for method in settings.chosen_methods(METRA):
        for count in NUM_ENVS:
            for maze in settings.chosen_mazes(ENVS_MAZES):
                config = with_envs(settings, maze, method, count, steps)
                facts = {"method": method, "envs": count, "budget": steps}
                found.append(Row(ENVS, f"{maze}/{method}/{count}", settings.adjust(config), facts))
    return found


def with_envs(settings: TableSettings, maze: str, method: str, count: int, steps: int) -> Any:
    """The config of a method with this many envs, and as many iterations as the steps allow."""
    config = settings.config(maze, method, num_seeds=settings.num_seeds)
    path = path_of_learner(config, "learn")
    learner, horizon = setting(config, path), make_context(config).env.horizon
    changes: dict[str, Any] = {"rollouts": count, "iterations": max(steps // (count * horizon), 1)}
    fits = max(round(config.baseline.minibatches * count / SAC_ROLLOUTS), 1)
    if path.endswith("sac"):
        batch = learner.objective_batch_size // config.baseline.minibatches  # that of each gradient step of phi
        changes |= {"update_every": SAC_UPDATE_EVERY, "capacity": SAC_CAPACITY, "objective_batch_size": batch * fits}
    values = {path: dataclasses.replace(learner, **changes), "baseline.minibatches": fits}
    return resolve_config(with_values(config, values))


def envs_view(results: Results) -> str:
    """One line per method and number of envs."""
    lines, missing = [], []
    for method in METRA:
        for count in NUM_ENVS:
            each = {maze: results.get(f"{maze}/{method}/{count}") for maze in ENVS_MAZES}
            missing += [f"`{method}` with {count} envs in {maze}" for maze, found in each.items() if found is None]
            cells = [
                NONE if found is None else mean_cell(found, name) for found in each.values() for name in ENVS_METRICS
            ]
            lines.append([f"`{method}`", str(count), *cells])
    head = ["method", "envs", *(f"{maze}: {name}" for maze in ENVS_MAZES for name in ENVS_METRICS)]
    return f"{facts_line(results)}\n\n{markdown_table(head, lines)}{missing_line(missing)}"


COVERAGE_TABLE = Table("Coverage of 100,000 steps of training", coverage_rows, {"": coverage_view})
ENVS_TABLE = Table("METRA with more environments side by side", envs_rows, {"": envs_view})
