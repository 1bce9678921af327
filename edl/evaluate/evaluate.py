"""The numbers of one seed: what its explorer covered, and what its skills do.

A world is measured by a `Yardstick`, made once; episodes come from `rollouts`, which is one compiled program and can be
vmapped over seeds; `summarise` turns the episodes of one seed into numbers.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import Experience
from edl.runtime.effort import quick_jit
from edl.envs.base import Box, Env
from edl.envs.layouts import Layout
from edl.envs.rollout import Episode, Skill, rollout
from edl.evaluate.coverage import NEVER, Grid, bins_of, box_grid, cells_of, first_visits, visits
from edl.evaluate.geodesic import Geodesic, euclidean
from edl.evaluate.goals import goal_distance, goal_success, picked_distance, zero_shot_distance
from edl.evaluate.information import entropy, mutual_information
from edl.types import Key

Distance = Callable[[Float[np.ndarray, "n s"], Float[np.ndarray, "m s"]], Float[np.ndarray, "n m"]]

NUM_ROLLOUTS = 20
NUM_TARGETS = 1000
EARLY_STEPS = 100_000


@runtime_checkable
class Acts(Protocol):
    """What a policy must do to be evaluated; a `SkillPolicy` does."""

    def act(self, key: Key, observation: Float[Array, " o"], code: Float[Array, " z"]) -> Array:
        """Draw a ~ pi(a|s,z)."""
        ...


class Yardstick(NamedTuple):
    """What a world is measured with.

    ``bins`` are for data, ``cells`` for skills; ``targets`` are where a user might want to be, the same for every seed
    and method; ``about`` says in words what coverage is over; ``unit`` is that of goal distances, a number per
    dimension in worlds whose dimensions have no common one.
    """

    bins: Grid
    cells: Grid
    distance: Distance
    targets: Float[np.ndarray, "m s"]
    about: str
    unit: Float[np.ndarray, " s"] | float = 1.0


def maze_yardstick(layout: Layout, num_targets: int = NUM_TARGETS, seed: int = 0) -> Yardstick:
    """Bins and unit cells of the reachable area, walking distance, and uniform reachable targets."""
    generator = np.random.default_rng(seed)
    cells = layout.cells[generator.integers(len(layout.cells), size=num_targets)]
    targets = cells + generator.uniform(-0.5, 0.5, size=cells.shape)
    walking = Geodesic.from_layout(layout).distance
    return Yardstick(bins_of(layout), cells_of(layout), walking, targets, "the reachable area of the maze")


def box_yardstick(
    targets: Float[np.ndarray, "m s"],
    dims: Sequence[int],
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    fine: int = 50,
    coarse: int = 10,
    unit: Float[np.ndarray, " s"] | float = 1.0,
) -> Yardstick:
    """For a world that is not a maze: a grid over ``dims``, Euclidean distance between features, in the ``unit``.

    ``targets`` are states that someone may want to reach, e.g. explored ones; without ``bounds`` the grid spans them.
    """
    targets = np.asarray(targets, float)
    low, high = bounds_of(targets[:, list(dims)]) if bounds is None else bounds
    bins, cells = (box_grid(low, high, [num] * len(dims), dims) for num in (fine, coarse))
    spans = ", ".join(f"dimension {d} in [{a:.3g}, {b:.3g}]" for d, a, b in zip(dims, low, high, strict=True))
    about = f"a grid of {spans}: {fine} bins a side for data, {coarse} for skills"

    def straight(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "m s"]) -> Float[np.ndarray, "n m"]:
        return euclidean(x / unit, y / unit)

    return Yardstick(bins, cells, straight, targets, about, unit)


def bounds_of(states: Float[np.ndarray, "n d"]) -> tuple[list[float], list[float]]:
    """The smallest box around the states, a little wider, because the upper end of a bin is not in it."""
    low, high = states.min(axis=0), states.max(axis=0)
    room = 1e-3 * (high - low)
    return (low - room).tolist(), (high + room).tolist()


def rollouts(
    key: Key,
    env: Env,
    policy: Acts,
    codes: Float[Array, "k z"],
    goals: Float[Array, "k s"] | None = None,
    num: int = NUM_ROLLOUTS,
) -> Episode:
    """Play ``num`` stochastic episodes of each skill; every array has the leading axes (k, num).

    A compiled program of its own, which may be vmapped over seeds; inside another ``jit``, call `play_skills`.
    """
    return quick_jit(play_skills, "num")(key, env, policy, codes, goals, num=num)


def play_skills(
    key: Key,
    env: Env,
    policy: Acts,
    codes: Float[Array, "k z"],
    goals: Float[Array, "k s"] | None = None,
    num: int = NUM_ROLLOUTS,
) -> Episode:
    """What `rollouts` compiles."""

    def play(key: Key, skill: Skill) -> Episode:
        return rollout(key, env, lambda key, observation, code: (policy.act(key, observation, code), nothing), skill)

    nothing = jnp.zeros(0)
    keys = jax.random.split(key, (len(codes), num))
    skills = Skill(codes, jnp.arange(len(codes), dtype=jnp.int32), goals)  # type: ignore[arg-type]
    return jax.vmap(jax.vmap(play, in_axes=(0, None)))(keys, skills)


def summarise(
    yardstick: Yardstick, episodes: Episode, picks: Int[np.ndarray, " m"] | None = None
) -> dict[str, float | None]:
    """The metrics of one seed's skills, from its `rollouts`; null for goals where the method has none.

    ``picks`` says which skill someone who knows q(z|s) alone would take to each target.
    """
    counts = np.asarray(quick_jit(_census)(yardstick.cells, episodes))
    last, goal = last_states(episodes), episodes.skill.goal
    goals = None if goal is None else np.asarray(goal, float)[:, 0] / yardstick.unit
    distances = yardstick.distance(last.reshape(-1, last.shape[-1]), yardstick.targets)
    ends = last / yardstick.unit
    distances = distances.reshape(*last.shape[:2], -1)
    picked = {} if picks is None else {"zero_shot_picked_distance": picked_distance(distances, picks)}
    return {
        "skill_coverage": _share(yardstick.cells, np.any(counts[:, :-1], axis=0)),
        "goal_distance": None if goals is None else goal_distance(ends, goals),
        "goal_success": None if goals is None else goal_success(ends, goals),
        "zero_shot_distance": zero_shot_distance(distances),
        **picked,
        "mutual_information": mutual_information(counts),
        "state_entropy": entropy(np.sum(counts, axis=0)),
    }


def summarise_seeds(yardstick: Yardstick, episodes: Episode) -> list[dict[str, float | None]]:
    """The metrics of each seed, where `rollouts` was vmapped over seeds; one device-to-host copy for all."""
    host = jax.device_get(episodes)
    return [
        summarise(yardstick, jax.tree.map(lambda leaf, seed=seed: leaf[seed], host)) for seed in range(len(host.valid))
    ]


def last_states(episodes: Episode) -> Float[np.ndarray, "*n s"]:
    """Features of the last valid state of each episode."""
    lengths = np.sum(episodes.valid, axis=-1)[..., None, None]
    return np.take_along_axis(np.asarray(episodes.features, float), lengths, axis=-2)[..., 0, :]


def summarise_data(yardstick: Yardstick, experience: Experience | None) -> dict[str, float | None]:
    """The metrics of one seed's exploration; null for an oracle or a dataset, which explored nothing."""
    if experience is None:
        return {"data_coverage": None, "data_coverage_100k": None}
    reached = np.asarray(quick_jit(first_visits)(yardstick.bins, experience))
    share = functools.partial(_share, yardstick.bins)
    return {"data_coverage": share(reached < NEVER), "data_coverage_100k": share(reached <= EARLY_STEPS)}


class UniformPolicy(NamedTuple):
    """Uniform actions, whatever the state and the skill: the row to beat in every table."""

    space: Box | Int[Array, ""]

    def act(self, key: Key, observation: Float[Array, " o"], code: Float[Array, " z"]) -> Array:
        """Draw a ~ U(A)."""
        if isinstance(self.space, Box):
            return jax.random.uniform(key, self.space.low.shape, minval=self.space.low, maxval=self.space.high)
        return jax.random.randint(key, (), 0, self.space)


def random_baseline(
    key: Key, env: Env, num_skills: int, yardstick: Yardstick, num: int = NUM_ROLLOUTS
) -> dict[str, float | None]:
    """The same numbers for "skills" that all act at random; without goals."""
    space = env.action_space
    policy = UniformPolicy(space if isinstance(space, Box) else jnp.int32(space.n))
    return summarise(yardstick, rollouts(key, env, policy, jnp.zeros((num_skills, 1)), None, num))


def census_of_rollouts(cells: Grid, episodes: Episode) -> Int[np.ndarray, "k n c"]:
    """How often each rollout of each skill was in each cell; the last entry is for what lies outside the grid."""
    return np.asarray(jax.vmap(lambda each: quick_jit(_census)(cells, each), in_axes=1, out_axes=1)(episodes))


def _census(cells: Grid, episodes: Episode) -> Int[Array, "k c"]:
    """How often each skill was in each cell; the last entry is for all that lies outside the grid."""
    start = jnp.ones_like(episodes.valid[..., :1])
    real = jnp.concatenate([start, episodes.valid], axis=-1)
    return jax.vmap(functools.partial(visits, cells))(episodes.features, real)


def _share(grid: Grid, bitmap: Bool[np.ndarray, " bins"]) -> float:
    """`coverage` in double precision: in single, 0.95 is a little less, which matters to whoever asks for it."""
    return float(np.mean(bitmap[np.asarray(grid.reachable)]))
