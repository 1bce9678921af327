"""The coverage of two Gymnasium envs by explorers after 100,000 environment steps.

A run in such an env reports ``data_coverage`` over a grid around the states that it has explored itself, so two
explorers have two grids. Here all of them have the same one: 50 bins per side, as in a run, over the bounds of the
env's state (`PLANES`). Nobody knows which bins can be reached: compare the rows with each other, not with 1.

All explorers have the settings of the preset, apart from the number of iterations and `ROLLOUTS`. The random episodes
that some of them play first are part of their steps. Episodes that end early make the number of steps smaller; the
table says by how much.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import Experience
from edl.evaluate.coverage import BinGrid, box_grid, data_coverage
from edl.evaluate.statistics import aggregate
from edl.evaluate.summary import bounds_of
from edl.explore.beyond import BeyondConfig
from edl.explore.frontier import FrontierConfig
from edl.explore.hindsight import HindsightConfig
from edl.program import NEVER_STOP
from edl.runs.config import RunConfig
from edl.runs.evaluation import Evaluation
from edl.runs.resolve import resolve_config
from edl.runs.result import Run
from edl.tables.explorers import RANDOM
from edl.tables.markdown import NONE, facts_line, markdown_table, mean_cell, missing_line
from edl.tables.table import Records, Results, Row, Table, TableSettings

NAME = "gymnasium_explorers"
STEPS = 100_000
EXPLORERS: dict[str, tuple[str, Any]] = {
    **{name: (name, None) for name in ("hindsight", "beyond", "frontier", "drift", "knn")},
    **{name: ("random_walk", config) for name, config in RANDOM.items()},
}
"""The explorer and its settings, by the name in the table. None means those of the preset."""
ROLLOUTS = 20
"""Episodes per iteration, which are those of mazes. The presets have 64, which leaves 8 iterations to learn from."""
PLAY_FIRST = (BeyondConfig, FrontierConfig)
"""These explorers play as many random episodes before the first iteration as they play in one."""
BINS = 50
COVERAGE, TAKEN = "coverage", "env_steps"


class Plane(NamedTuple):
    """Two coordinates that are the state of an env, as a function of its features, and the bounds of each."""

    names: str
    low: tuple[float, float]
    high: tuple[float, float]
    coordinates: Callable[[Float[Array, "*n s"]], Float[Array, "*n 2"]]

    @property
    def grid(self) -> BinGrid:
        return box_grid(*bounds_of(np.array([self.low, self.high])), [BINS, BINS], [0, 1])


def angle_and_velocity(features: Float[Array, "*n 3"]) -> Float[Array, "*n 2"]:
    """The state of the pendulum from the cosine and the sine of its angle, and its velocity."""
    return jnp.stack([jnp.arctan2(features[..., 1], features[..., 0]), features[..., 2]], axis=-1)


PLANES = {
    "MountainCarContinuous-v0": Plane("position and velocity", (-1.2, -0.07), (0.6, 0.07), lambda features: features),
    "Pendulum-v1": Plane("angle and velocity", (-np.pi, -8.0), (np.pi, 8.0), angle_and_velocity),
}
"""The bounds are those of the envs' own code. The first two features of the pendulum are a circle, which fills no
grid."""


def rows(settings: TableSettings, records: Records) -> list[Row]:
    """One row per explorer and env."""
    found = []
    for name in settings.chosen_methods(list(EXPLORERS)):
        explorer, config = EXPLORERS[name]
        for env in settings.chosen_mazes(list(PLANES)):
            base = settings.config(env, explore=explorer, explorer=config, num_seeds=settings.num_seeds)
            sized = settings.adjust(with_steps(base, STEPS))
            facts = {"method": name, "budget": STEPS}
            found.append(Row(NAME, f"{env}/{name}", sized, facts, until="explore", measure=coverage_of_plane))
    return found


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    """As many iterations as ``steps`` need, if no episode ends early."""
    explorer, episodes = config.explorer, -(-steps // config.horizon)
    if isinstance(explorer, HindsightConfig):
        iterations = max(-(-(episodes - explorer.first_episodes) // explorer.sac.rollouts), 1)
        sac = dataclasses.replace(explorer.sac, iterations=iterations)
        explorer = dataclasses.replace(explorer, sac=sac, stop_at=NEVER_STOP)
    else:
        first = ROLLOUTS if isinstance(explorer, PLAY_FIRST) else 0
        iterations = max(-(-(episodes - first) // ROLLOUTS), 1)
        explorer = dataclasses.replace(explorer, rollouts=ROLLOUTS, iterations=iterations)
    return resolve_config(dataclasses.replace(config, explorer=explorer))


def coverage_of_plane(run: Run, found: Evaluation) -> dict[str, Any]:
    """The share of the bins of the env's plane that each seed visited, and the steps that it took."""
    assert run.states is not None
    plane = PLANES[run.config.env]

    def of_seed(experience: Experience) -> dict[str, Float[Array, ""]]:
        paths = plane.coordinates(experience.paths)
        share = data_coverage(plane.grid, Experience(paths, experience.actions, experience.lengths), STEPS)
        return {COVERAGE: share, TAKEN: jnp.minimum(jnp.sum(experience.lengths), STEPS)}

    each = jax.device_get(jax.jit(jax.vmap(of_seed))(run.states.experience))
    per_seed = [
        {COVERAGE: round(float(share), 4), TAKEN: float(taken)}
        for share, taken in zip(each[COVERAGE], each[TAKEN], strict=True)
    ]
    means: Any = aggregate(per_seed)
    return {
        "mean": {name: round(means[name]["mean"], 4) for name in (COVERAGE, TAKEN)},
        "ci95": {name: [round(end, 4) for end in means[name]["ci95"]] for name in (COVERAGE, TAKEN)},
        "per_seed": per_seed,
    }


def view(results: Results) -> str:
    """One line per explorer: coverage and steps in each env."""
    lines, missing = [], []
    for name in EXPLORERS:
        line = [name]
        for env in PLANES:
            each = results.get(f"{env}/{name}")
            missing += [f"{name} in {env}"] if each is None else []
            line += [NONE, NONE] if each is None else cells(each)
        lines.append(line)
    head = ["explorer", *(column for env in PLANES for column in (env, "steps"))]
    grids = "; ".join(f"{env}: {plane.names}" for env, plane in PLANES.items())
    about = f"Share of {BINS} x {BINS} bins ({grids})."
    return f"{facts_line(results)} {about}\n\n{markdown_table(head, lines)}{missing_line(missing)}"


def cells(result: Any) -> list[str]:
    """Coverage with its interval, and steps. A row that has failed says so."""
    measured = result.get("measured")
    if measured is None:
        return [mean_cell(result, COVERAGE), NONE]
    return [mean_cell({**result, **measured}, COVERAGE, 3), f"{measured['mean'][TAKEN]:,.0f}"]


TABLE = Table("Coverage of Gymnasium envs by explorers after 100,000 steps", rows, {"": view})
