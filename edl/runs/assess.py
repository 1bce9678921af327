"""What a finished run is worth: the numbers of metrics.json, the pictures, and the report."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from edl import evaluate
from edl.artifacts import Experience, SkillModel, SkillPolicy, States
from edl.config import ConfigError
from edl.runtime.effort import quick_jit
from edl.envs.base import Box, Env
from edl.envs.host import check_hosts
from edl.envs.rollout import Episode
from edl.evaluate import Yardstick
from edl.evaluate.coverage import Grid, coverage_curve
from edl.evaluate.discriminability import Judgement, judge
from edl.evaluate.evaluate import NUM_TARGETS, UniformPolicy, bounds_of, census_of_rollouts, play_skills
from edl.evaluate.versus_random import proof, summed_up
from edl.runs import stages, store
from edl.runs.executables import prepare_quickly, quickly
from edl.runs.result import Run
from edl.runs.config import RunConfig
from edl.runs.store import Folder
from edl.types import Keys

DIMENSIONS = 2
"""In a world that is not a maze, coverage is over the first dimensions of its features."""


class Assessment(NamedTuple):
    """Numbers per seed, those of random actions, and the rollouts they come from (with a leading axis of seeds)."""

    per_seed: list[dict[str, Any]]
    random: dict[str, float | None] | None
    about: str
    episodes: Episode | None
    proofs: list[dict[str, Any]]


def yardstick_of(run: Run, visited: Float[np.ndarray, "n s"] | None = None) -> Yardstick:
    """What the run's world is measured with: a maze by its cells, others by what was explored, or else visited."""
    if run.layout is not None:
        return evaluate.maze_yardstick(run.layout)
    states = visited if run.states is None else np.asarray(run.states.samples[0])
    if states is None:
        raise ConfigError(f"{run.config.env!r} is no maze, and nothing was explored: there is nothing to measure by.")
    dims = range(min(DIMENSIONS, states.shape[1]))
    deviation = states.std(axis=0)
    return evaluate.box_yardstick(
        states[:: max(1, len(states) // NUM_TARGETS)],
        dims,
        bounds_of(states[:, list(dims)]),
        unit=np.where(deviation > 1e-6, deviation, 1.0),
    )


def assess(run: Run) -> Assessment:
    """Evaluate what there is: the exploration, and the skills if they were learned."""
    episodes, random = (None, None) if run.policy is None else _played(run)
    visited = None if episodes is None else _visited(episodes, random)
    yardstick, seeds = yardstick_of(run, visited), range(run.config.num_seeds)
    per_seed: list[dict[str, Any]] = [{"seed": run.config.seed + i} for i in seeds]
    for i in seeds:
        experience = None if run.states is None else _pick(run.states.experience, i)
        per_seed[i] |= evaluate.summarise_data(yardstick, experience)
    if episodes is None or random is None:
        return Assessment(per_seed, None, yardstick.about, None, [])
    found, picks = _judged(run, episodes, yardstick)
    for i in seeds:
        per_seed[i] |= evaluate.summarise(yardstick, _pick(episodes, i), picks[i])
        per_seed[i]["discriminability"] = float(found.discriminability[i])
    chance = census_of_rollouts(yardstick.cells, random)
    at_chance: dict[str, Any] = evaluate.summarise(yardstick, random)
    reach = "zero_shot_distance"
    proofs = [
        proof(census_of_rollouts(yardstick.cells, _pick(episodes, i)), chance, per_seed[i][reach], at_chance[reach], i)
        for i in seeds
    ]
    return Assessment(per_seed, at_chance, yardstick.about, episodes, proofs)


def _played(run: Run) -> tuple[Episode, Episode]:
    """Rollouts of every seed's skills, and as many of random actions, with the goals of the first seed."""
    assert run.policy is not None
    keys = stages.keys(run.config, "evaluate")
    goals = run.policy.goals if run.skills is None else run.skills.goals
    episodes = quickly(play_seeds, (), keys, run.env, run.policy, goals)
    random = at_random(run.env, run.policy.codes.shape[1], None if goals is None else goals[0])
    check_hosts(run.env)
    return jax.device_get((episodes, random))


def play_seeds(keys: Keys, env: Env, policy: SkillPolicy, goals: Float[Array, "seeds k s"] | None) -> Episode:
    """Rollouts of every seed's skills."""
    play = jax.vmap(play_skills, in_axes=(0, None, 0, 0, None if goals is None else 0))
    return play(keys, env, policy, policy.codes, goals)


def _visited(*episodes: Episode | None) -> Float[np.ndarray, "n s"]:
    """All states of some rollouts."""
    rows = [np.asarray(each.features[..., 1:, :])[np.asarray(each.valid)] for each in episodes if each is not None]
    return np.concatenate(rows)


def _judged(run: Run, episodes: Episode, yardstick: Yardstick) -> tuple[Judgement, Int[np.ndarray, "seeds m"]]:
    """How well a stranger tells the skills apart, and the skills to take to each target.

    Those are picked by the skills' own q(z|s), or by the stranger's where a method hands over none.
    """
    targets = jnp.asarray(yardstick.targets, jnp.float32)
    found = quickly(judge_seeds, (), stages.keys(run.config, "evaluate"), episodes, targets)
    if run.skills is None:
        return found, np.asarray(found.picks)
    return found, np.asarray(quick_jit(_assign_seeds)(run.skills, targets))


def judge_seeds(keys: Keys, episodes: Episode, targets: Float[Array, "m s"]) -> Judgement:
    """A stranger's judgement of every seed's skills."""
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
    return jax.vmap(judge, in_axes=(0, 0, None))(keys, episodes, targets)


def _assign(skills: SkillModel, states: Float[Array, "m s"]) -> Int[Array, " m"]:
    return jax.vmap(skills.assign)(states)


def _assign_seeds(skills: SkillModel, states: Float[Array, "m s"]) -> Int[Array, "seeds m"]:
    return jax.vmap(_assign, in_axes=(0, None))(skills, states)


def at_random(env: Env, num_skills: int, goals: Float[Array, "k s"] | None) -> Episode:
    """Rollouts of random actions, with the same goals."""
    return quickly(play_at_random, (num_skills,), env, goals)


def play_at_random(num_skills: int, env: Env, goals: Float[Array, "k s"] | None) -> Episode:
    """What `at_random` compiles."""
    space = env.action_space
    policy = UniformPolicy(space if isinstance(space, Box) else jnp.int32(space.n))
    return play_skills(jax.random.key(0), env, policy, jnp.zeros((num_skills, 1)), goals)


def prepare(config: RunConfig, env: Env, policy: PyTree, goals: PyTree) -> None:
    """Compile, and import, what the assessment of a run will need; ``policy`` and ``goals`` are shapes, by seed."""
    from scipy.sparse import csgraph  # noqa: F401  takes a quarter of a second

    from edl import figures  # noqa: F401  matplotlib takes a second

    keys = stages.keys(config, "evaluate")
    episodes = jax.eval_shape(play_seeds, keys, env, policy, goals)
    targets = jax.ShapeDtypeStruct((NUM_TARGETS, env.feature_size), jnp.float32)
    one = None if goals is None else jax.ShapeDtypeStruct(goals.shape[1:], goals.dtype)
    prepare_quickly(play_seeds, (), keys, env, policy, goals)
    prepare_quickly(judge_seeds, (), keys, episodes, targets)
    prepare_quickly(play_at_random, (policy.codes.shape[1],), env, one)


def metrics_of(
    run: Run, found: Assessment, steps: Mapping[str, int | float], seconds: Mapping[str, int | float]
) -> dict[str, Any]:
    """The contents of metrics.json."""
    config = run.config
    return {
        "env": config.env,
        "method": config.method,
        "explore": config.explore or None,
        "discover": config.discover or None,
        "preset": config.preset,
        "num_skills": config.num_skills,
        "num_seeds": config.num_seeds,
        "per_seed": found.per_seed,
        "aggregate": evaluate.aggregate(found.per_seed),
        "random": found.random,
        "coverage_is_over": found.about,
        "proof": summed_up(found.proofs),
        "steps": {name: int(value) for name, value in steps.items()},
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def draw(run: Run, found: Assessment) -> dict[str, bytes]:
    """The pictures of the run's first seed, by name, as PNG."""
    from edl import figures  # matplotlib takes half a second, and not every run is drawn

    first, explored = run.seed(0), {}
    if run.states is not None and (found.episodes is None or run.states.experience is not None):
        explored = _explored(run, run.states)
    drawn: dict[str, Any] = {}
    if found.episodes is not None:
        drawn = figures.run_figures(
            run.layout,
            _paths(_pick(found.episodes, 0)),
            **_discovered(first),
            rows=run.log,
            random=found.random,
            title=_title(run),
        )
    return {name: figures.to_png(figure) for name, figure in (drawn | explored).items()}


def publish(folder: Folder, run: Run, metrics: Mapping[str, Any], pictures: Mapping[str, bytes]) -> None:
    """Write pictures, report and metrics, in this order: metrics.json says that the rest is there."""
    from edl import figures

    for name, png in pictures.items():
        folder.save_picture(name, png)
    shown = figures.with_captions(pictures)
    config, provenance = folder.read_json(store.CONFIG), folder.read_json(store.PROVENANCE)
    page = figures.report_html(metrics, config, provenance, shown, str(folder.path))
    folder.write(store.REPORT, page.encode())
    folder.write_json(store.METRICS, metrics)


def _explored(run: Run, states: States) -> dict[str, Any]:
    """The pictures of stage 1: the first seed, and the coverage of all."""
    from edl import figures

    samples, experience = np.asarray(states.samples[0]), states.experience
    if experience is None:
        return figures.explore_figures(run.layout, samples)
    bins, total = yardstick_of(run).bins, int(np.sum(np.asarray(experience.lengths[0])))
    steps = np.unique(np.linspace(0, total, 101).astype(np.int32))
    curves = quick_jit(_curves)(bins, experience, steps)
    return figures.explore_figures(
        run.layout,
        samples,
        paths=np.asarray(experience.paths[0]),
        lengths=np.asarray(experience.lengths[0]),
        steps=steps,
        coverage=np.asarray(curves),
    )


def _curves(bins: Grid, experience: Experience, steps: Int[Array, " c"]) -> Float[Array, "seeds c"]:
    return jax.vmap(lambda each: coverage_curve(bins, each, steps))(experience)


def _discovered(first: Run) -> dict[str, Any]:
    """What the figures show of stages 1 and 2."""
    shown: dict[str, Any] = {}
    if first.states is not None:
        shown["samples"] = np.asarray(first.states.samples)
    if first.skills is not None and first.states is not None:
        skills = first.skills
        assigned = quick_jit(_assign)(skills, first.states.samples)
        shown |= {"goals": skills.goals, "decoded": skills.decoded, "usage": skills.usage, "assignments": assigned}
    elif first.policy is not None and first.policy.goals is not None:
        shown["goals"] = first.policy.goals
    return {name: np.asarray(value) for name, value in shown.items()}


def _paths(episodes: Episode) -> np.ndarray:
    """Paths of the rollouts; a path that ended early stays where it ended."""
    paths, valid = np.asarray(episodes.features), np.asarray(episodes.valid)
    last = np.sum(valid, axis=-1)[..., None]
    time = np.minimum(np.arange(paths.shape[-2]), last)
    return np.take_along_axis(paths, time[..., None], axis=-2)


def _title(run: Run) -> str:
    return f"{run.config.num_skills} skills, {run.config.env if run.layout is None else run.layout.name}"


def _pick(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda x: x[index], tree)
