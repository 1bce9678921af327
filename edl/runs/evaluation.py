"""Evaluate a run: the numbers of metrics.json, the figures, and the report."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from edl import evaluate
from edl.artifacts import Experience, SkillModel, SkillPolicy, States
from edl.config import ConfigError
from edl.discover import off_support, skill_report
from edl.envs.base import Env
from edl.envs.host import check_hosts
from edl.envs.rollout import Episode
from edl.evaluate import Evaluator
from edl.evaluate.coverage import BinGrid, coverage_curve
from edl.evaluate.discriminability import DiscriminatorResult, measure_discriminability
from edl.evaluate.skill_rollouts import play_skills, uniform_policy
from edl.evaluate.summary import NUM_TARGETS, bounds_of, visits_by_rollout
from edl.evaluate.versus_random import aggregate_comparisons, compare_with_random
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.executables import call_once, compile_once
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
from edl.runs.store import Folder
from edl.runtime.effort import quick_jit
from edl.types import Keys

DIMENSIONS = 2
"""Coverage of an env that is not a maze is over this many of its first features."""


class Evaluation(NamedTuple):
    """Metrics per seed and of random actions, and the rollouts they come from (with a leading axis of seeds)."""

    per_seed: list[dict[str, Any]]
    random: dict[str, float | None] | None
    coverage_over: str
    distance_unit: str
    episodes: Episode | None
    comparisons: list[dict[str, Any]]


def evaluator_of(run: Run, visited: Float[np.ndarray, "n s"] | None = None) -> Evaluator:
    """The evaluator of a run: cells for a maze; for other envs a box around the explored (or else visited) states."""
    if run.layout is not None:
        return evaluate.maze_evaluator(run.layout)
    states = visited if run.states is None else np.asarray(run.states.samples[0])
    if states is None:
        raise ConfigError(f"{run.config.env!r} cannot be evaluated: it is not a maze, and nothing was explored.")
    dims = range(min(DIMENSIONS, states.shape[1]))
    deviation = states.std(axis=0)
    return evaluate.box_evaluator(
        states[:: max(1, len(states) // NUM_TARGETS)],
        dims,
        bounds_of(states[:, list(dims)]),
        unit=np.where(deviation > 1e-6, deviation, 1.0),
    )


def evaluate_run(run: Run) -> Evaluation:
    """Evaluate the exploration, and the skills if a policy was learned."""
    episodes, random = (None, None) if run.policy is None else _play(run)
    visited = None if episodes is None else _visited(episodes, random)
    evaluator, seeds = evaluator_of(run, visited), range(run.config.num_seeds)
    per_seed: list[dict[str, Any]] = [{"seed": run.config.seed + i} for i in seeds]
    for i in seeds:
        experience = None if run.states is None else _one_seed(run.states.experience, i)
        per_seed[i] |= evaluate.summarise_data(evaluator, experience)
    if episodes is None or random is None:
        return Evaluation(per_seed, None, evaluator.coverage_over, evaluator.distance_unit, None, [])
    found, picks = _discriminate(run, episodes, evaluator)
    for i in seeds:
        per_seed[i] |= evaluate.summarise(evaluator, _one_seed(episodes, i), picks[i])
        per_seed[i]["discriminability"] = float(found.accuracy[i])
    random_visits = visits_by_rollout(evaluator.cells, random)
    random_metrics: dict[str, Any] = evaluate.summarise(evaluator, random)
    reach = "best_skill_distance"
    visits = [visits_by_rollout(evaluator.cells, _one_seed(episodes, i)) for i in seeds]
    comparisons = [
        compare_with_random(visits[i], random_visits, per_seed[i][reach], random_metrics[reach], i) for i in seeds
    ]
    return Evaluation(per_seed, random_metrics, evaluator.coverage_over, evaluator.distance_unit, episodes, comparisons)


def _play(run: Run) -> tuple[Episode, Episode]:
    """Rollouts of every seed's skills, and as many of random actions, with the goals of the first seed."""
    assert run.policy is not None
    keys = stage_keys(run.config, "evaluate")
    goals = run.policy.goals if run.skills is None else run.skills.goals
    episodes = call_once(play_seeds, (), keys, run.env, run.policy, goals)
    random = play_random_actions(run.env, run.policy.codes.shape[1], None if goals is None else goals[0])
    check_hosts(run.env)
    return jax.device_get((episodes, random))


def play_seeds(keys: Keys, env: Env, policy: SkillPolicy, goals: Float[Array, "seeds k s"] | None) -> Episode:
    """Rollouts of every seed's skills."""
    play = jax.vmap(play_skills, in_axes=(0, None, 0, 0, None if goals is None else 0))
    return play(keys, env, policy, policy.codes, goals)


def compile_evaluation(config: RunConfig, env: Env, policy: PyTree, goals: PyTree) -> None:
    """Compile what `evaluate_run` will run, and import what it needs. ``policy`` and ``goals`` are shapes."""
    from scipy.sparse import csgraph  # noqa: F401  takes a quarter of a second

    from edl import figures  # noqa: F401  importing matplotlib takes a second

    keys = stage_keys(config, "evaluate")
    episodes = jax.eval_shape(play_seeds, keys, env, policy, goals)
    targets = jax.ShapeDtypeStruct((NUM_TARGETS, env.feature_size), jnp.float32)
    compile_once(play_seeds, (), keys, env, policy, goals)
    compile_once(discriminate_seeds, (), keys, episodes, targets)
    first = None if goals is None else jax.ShapeDtypeStruct(goals.shape[1:], goals.dtype)
    compile_once(_play_random_actions, (policy.codes.shape[1],), env, first)


def _visited(*episodes: Episode | None) -> Float[np.ndarray, "n s"]:
    """All states that the rollouts visited."""
    rows = [np.asarray(each.features[..., 1:, :])[np.asarray(each.valid)] for each in episodes if each is not None]
    return np.concatenate(rows)


def _discriminate(
    run: Run, episodes: Episode, evaluator: Evaluator
) -> tuple[DiscriminatorResult, Int[np.ndarray, "seeds m"]]:
    """How well a fresh classifier identifies the skills, and the skill that is picked for each target.

    Skills are picked by the run's own q(z|s), or by the classifier if the method has none.
    """
    targets = jnp.asarray(evaluator.targets, jnp.float32)
    found = call_once(discriminate_seeds, (), stage_keys(run.config, "evaluate"), episodes, targets)
    if run.skills is None:
        return found, np.asarray(found.picks)
    return found, np.asarray(quick_jit(_assign_seeds)(run.skills, targets))


def discriminate_seeds(keys: Keys, episodes: Episode, targets: Float[Array, "m s"]) -> DiscriminatorResult:
    keys = jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)
    return jax.vmap(measure_discriminability, in_axes=(0, 0, None))(keys, episodes, targets)


def _assign(skills: SkillModel, states: Float[Array, "m s"]) -> Int[Array, " m"]:
    return jax.vmap(skills.assign)(states)


def _assign_seeds(skills: SkillModel, states: Float[Array, "m s"]) -> Int[Array, "seeds m"]:
    return jax.vmap(_assign, in_axes=(0, None))(skills, states)


def play_random_actions(env: Env, num_skills: int, goals: Float[Array, "k s"] | None) -> Episode:
    """Rollouts of random actions, with the same goals."""
    return call_once(_play_random_actions, (num_skills,), env, goals)


def _play_random_actions(num_skills: int, env: Env, goals: Float[Array, "k s"] | None) -> Episode:
    return play_skills(jax.random.key(0), env, uniform_policy(env), jnp.zeros((num_skills, 1)), goals)


def metrics_of(
    run: Run, found: Evaluation, steps: Mapping[str, int | float], seconds: Mapping[str, int | float]
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
        "coverage_is_over": found.coverage_over,
        "distance_unit": found.distance_unit,
        "proof": aggregate_comparisons(found.comparisons),
        "codebook": codebook_reports(run),
        "steps": {name: int(value) for name, value in steps.items()},
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def codebook_reports(run: Run) -> list[dict[str, float | int]] | None:
    """Per seed: whether all codes are used, and whether the decoded goals are explored states."""
    if run.skills is None or run.states is None:
        return None
    skills, samples = jax.device_get((run.skills, run.states.samples))
    return [skill_report(_one_seed(skills, i), samples[i]) for i in range(run.config.num_seeds)]


def draw_figures(run: Run, found: Evaluation) -> dict[str, bytes]:
    """The figures of the run's first seed, by name, as PNG."""
    from edl import figures  # importing matplotlib takes half a second, and not every run is drawn

    first, explored = run.seed(0), {}
    if run.states is not None and (found.episodes is None or run.states.experience is not None):
        explored = _explored(run, run.states)
    drawn: dict[str, Any] = {}
    if found.episodes is not None:
        drawn = figures.run_figures(
            run.layout,
            _paths(_one_seed(found.episodes, 0)),
            **_discovered(first),
            rows=run.log,
            random=found.random,
            title=_title(run),
        )
    return {name: figures.to_png(figure) for name, figure in (drawn | explored).items()}


def write_report(folder: Folder, metrics: Mapping[str, Any], pictures: Mapping[str, bytes]) -> None:
    """Write figures, report and metrics. metrics.json is last: if it exists, so do the others."""
    from edl import figures

    for name, png in pictures.items():
        folder.save_picture(name, png)
    shown = figures.with_captions(pictures)
    config, provenance = folder.read_json(store.CONFIG), folder.read_json(store.PROVENANCE)
    page = figures.report_html(metrics, config, provenance, shown, str(folder.path))
    folder.write(store.REPORT, page.encode())
    folder.write_json(store.METRICS, metrics)


def _explored(run: Run, states: States) -> dict[str, Any]:
    """The figures of stage 1: the states of the first seed, and the coverage of all seeds."""
    from edl import figures

    samples, experience = np.asarray(states.samples[0]), states.experience
    if experience is None:
        return figures.explore_figures(run.layout, samples)
    bins, total = evaluator_of(run).bins, int(np.sum(np.asarray(experience.lengths[0])))
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


def _curves(bins: BinGrid, experience: Experience, steps: Int[Array, " c"]) -> Float[Array, "seeds c"]:
    return jax.vmap(lambda each: coverage_curve(bins, each, steps))(experience)


def _discovered(first: Run) -> dict[str, Any]:
    """The arrays of stages 1 and 2 that the figures show."""
    shown: dict[str, Any] = {}
    if first.states is not None:
        shown["samples"] = np.asarray(first.states.samples)
    if first.skills is not None and first.states is not None:
        skills = first.skills
        assigned = quick_jit(_assign)(skills, first.states.samples)
        shown["off_support"] = off_support(skills.decoded, first.states.samples)
        shown |= {"goals": skills.goals, "decoded": skills.decoded, "usage": skills.usage, "assignments": assigned}
    elif first.policy is not None and first.policy.goals is not None:
        shown["goals"] = first.policy.goals
    return {name: np.asarray(value) for name, value in shown.items()}


def _paths(episodes: Episode) -> np.ndarray:
    """Paths of the rollouts. A path that ended early repeats its last state."""
    paths, valid = np.asarray(episodes.features), np.asarray(episodes.valid)
    last = np.sum(valid, axis=-1)[..., None]
    time = np.minimum(np.arange(paths.shape[-2]), last)
    return np.take_along_axis(paths, time[..., None], axis=-2)


def _title(run: Run) -> str:
    return f"{run.config.num_skills} skills, {run.config.env if run.layout is None else run.layout.name}"


def _one_seed(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda x: x[index], tree)
