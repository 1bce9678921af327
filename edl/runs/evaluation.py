"""Evaluate a run: the numbers of metrics.json, the figures, and the report."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt8

from edl import evaluate
from edl.artifacts import Experience, PickRule, SkillModel, SkillPolicy, States, goals_of, pick_rule_of
from edl.config import ConfigError
from edl.discover import off_support, skill_report
from edl.envs.base import Env
from edl.envs.host import check_hosts
from edl.envs.maze import Maze
from edl.envs.mjx.divergence import check_physics
from edl.envs.rollout import Episode
from edl.envs.success import success_of
from edl.evaluate import Evaluator
from edl.evaluate.coverage import BinGrid, coverage_curve
from edl.evaluate.discriminability import measure_discriminability
from edl.evaluate.floor import (
    METRICS_OF_FLOOR,
    Trials,
    coverage_trials,
    floor_protocol_applies,
    measure_floor,
    metrics_of_floor,
    play_seeds_trials,
    playable,
)
from edl.evaluate.metrics import CURRENT_DEFINITIONS
from edl.evaluate.picking import (
    PRACTICE_RULE,
    num_played,
    pick_by_practice,
    picks_code,
    play_picked,
    played_targets,
)
from edl.evaluate.skill_rollouts import last_states, play_skills, uniform_policy
from edl.evaluate.summary import NUM_TARGETS, bounds_of
from edl.evaluate.versus_random import Comparison, aggregate_comparisons, compare_with_random
from edl.explore.region import describe, inside
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.executables import call_once, compile_once
from edl.runs.failures import marked
from edl.runs.films import Film, film_caption, film_figure, film_of
from edl.runs.pipeline import stage_keys
from edl.runs.provenance import read_provenance
from edl.runs.resolve import Context
from edl.runs.result import Run, load_run, read_metrics, with_good_seeds
from edl.runs.session import env_steps_of, read_progress, seconds_of
from edl.runs.store import Folder
from edl.runtime.effort import quick_jit
from edl.types import Keys

DIMENSIONS = 2
"""Coverage of an env that is not a maze is over this many of its first features."""
CLASSIFIED, PICKED, PRACTISED, ON_FLOOR = 1, 2, 3, 5
"""Numbers that are folded into a seed's key for the classifier, for picked codes, for practice episodes, and for the
protocol of robots in the open (`edl.runs.cross_check` uses 4). The scored rollouts use the key itself."""


class Evaluation(NamedTuple):
    """Metrics per seed and of random actions, and the rollouts they come from (with a leading axis of seeds)."""

    per_seed: list[dict[str, Any]]
    random: dict[str, float | None] | None
    coverage_over: str
    distance_unit: str
    success_radius: float
    episodes: Episode | None
    comparisons: list[Comparison]


def evaluator_of(run: Run, visited: Float[np.ndarray, "n s"] | None = None) -> Evaluator:
    """The evaluator of a run: cells for a maze; for other envs a box around the explored (or else visited) states."""
    if run.layout is not None:
        return evaluate.maze_evaluator(run.layout)
    states = visited if run.states is None else np.asarray(run.states.samples[0])
    if states is None:
        raise ConfigError(f"{run.config.env!r} cannot be evaluated: it is not a maze, and nothing was explored.")
    dims = range(min(DIMENSIONS, states.shape[1]))
    deviation, success = states.std(axis=0), success_of(run.env)
    evaluator = evaluate.box_evaluator(
        states[np.linspace(0, len(states) - 1, min(NUM_TARGETS, len(states))).astype(int)],
        dims,
        bounds_of(states[:, list(dims)]),
        unit=1.0 if success.unit == "units" else np.where(deviation > 1e-6, deviation, 1.0),
    )
    return evaluator._replace(distance_unit=success.unit, success_radius=success.radius)


def evaluate_run(run: Run) -> Evaluation:
    """Evaluate the exploration, and the skills if a policy was learned. Failed seeds are marked and left out."""
    found = _evaluate_seeds(with_good_seeds(run))
    good = [each for index, each in enumerate(found.comparisons) if index not in run.failed]
    return found._replace(per_seed=marked(found.per_seed, run.failed), comparisons=good)


def _evaluate_seeds(run: Run) -> Evaluation:
    episodes, random = (None, None) if run.policy is None else _play(run)
    visited = None if episodes is None else _visited(episodes, random)
    evaluator, seeds = evaluator_of(run, visited), range(run.config.num_seeds)
    per_seed: list[dict[str, Any]] = [{"seed": run.config.seed + i} for i in seeds]
    for i in seeds:
        experience = None if run.states is None else _one_seed(run.states.experience, i)
        per_seed[i] |= evaluate.summarise_data(evaluator, experience)
    floors = evaluate_floor(run)
    for i in seeds:
        per_seed[i] |= dict.fromkeys(METRICS_OF_FLOOR) if floors is None else metrics_of_floor(floors[i])
    if episodes is None or random is None:
        return Evaluation(per_seed, None, *_facts(evaluator), None, [])
    accuracies = call_once(discriminate_seeds, (), stage_keys(run.config, "evaluate"), episodes)
    zero_shot = _zero_shot(run, evaluator)
    distances = [evaluate.end_distances(evaluator, _one_seed(episodes, i)) for i in seeds]
    for i in seeds:
        played = _one_seed(episodes, i)
        per_seed[i] |= evaluate.summarise(evaluator, played, zero_shot.picks[i], distances[i]) | zero_shot.metrics[i]
        per_seed[i]["discriminability"] = float(accuracies[i])
        per_seed[i]["skills"] = evaluate.skill_results(evaluator, played)
    # Random actions have no skills to pick from, so every target gets any of them.
    any_skill = np.arange(len(evaluator.targets)) % len(random.valid)
    far = evaluate.end_distances(evaluator, random)
    random_metrics: dict[str, Any] = evaluate.summarise(evaluator, random, any_skill, far)
    if floors is not None:
        random_metrics["floor_coverage"] = float(np.mean([each["random_floor_coverage"] for each in floors]))
    asked = evaluate.asked_for(evaluator, inside(run.config.region, evaluator.targets))
    # A region has other targets, and so other distances.
    at_random, *skills = (
        evaluate.behaviour_of(asked, each, known if asked is evaluator else None)
        for each, known in [(random, far), *((_one_seed(episodes, i), distances[i]) for i in seeds)]
    )
    comparisons = [compare_with_random(each, at_random, i) for i, each in zip(seeds, skills, strict=True)]
    return Evaluation(per_seed, random_metrics, *_facts(evaluator), episodes, comparisons)


def _facts(evaluator: Evaluator) -> tuple[str, str, float]:
    """What metrics.json says about how the metrics were computed."""
    return evaluator.coverage_over, evaluator.distance_unit, evaluator.success_radius


PlayIn = Callable[[Keys, Env, SkillPolicy, Trials], Float[np.ndarray, "seeds n t1 s"]]
"""Plays trials of all seeds, and returns the features of all states."""


def evaluate_floor(run: Run, play_in: PlayIn | None = None) -> list[dict[str, Any]] | None:
    """The protocol of `edl.evaluate.floor` for every seed: of the skills, or else of the explorer's policy.

    None if it does not apply to the env, or if there is no policy. ``play_in`` plays the trials in another simulator.
    """
    explorers = None if run.states is None else run.states.policy
    policy = explorers if run.policy is None else run.policy
    if policy is None or not floor_protocol_applies(run.env, run.layout):
        return None
    skills = run.skills if run.policy is not None else None
    samples = None if run.states is None else run.states.samples
    keys = floor_keys(run.config)

    def play(trials: Trials) -> Float[np.ndarray, "seeds n t1 s"]:
        if play_in is not None:
            return play_in(keys, run.env, policy, trials)
        paths = np.asarray(call_once(play_seeds_trials, (), keys, run.env, playable(policy), trials))
        check_physics(run.env, paths, "in the rollouts of the evaluation")
        return paths

    return measure_floor(keys, run.env, policy, skills, samples, play)


def floor_keys(config: RunConfig) -> Keys:
    """The keys of the rollouts of `evaluate_floor`."""
    return _fold_in(stage_keys(config, "evaluate"), ON_FLOOR)


def reevaluate(path: str | Path, *, env: str | None = None) -> tuple[Run, Evaluation]:
    """Load a run and compute its metrics again. Its environment steps and seconds are kept. Nothing is written."""
    folder = store.open_run(path)
    run = load_run(path, env=env, with_metrics=False)
    before, finished = read_metrics(folder, damaged_is_none=True) or {}, read_progress(folder)
    steps = {**env_steps_of(finished), **before.get("steps", {})}
    seconds = {**seconds_of(finished), **before.get("seconds", {})}
    found = evaluate_run(run)
    metrics = metrics_of(run, found, steps, seconds)
    return dataclasses.replace(run, metrics=store.plain(metrics)), found


def _play(run: Run) -> tuple[Episode, Episode]:
    """Rollouts of every seed's skills, and as many of random actions, with the goals of the first seed."""
    assert run.policy is not None
    goals = goals_of(run.policy, run.skills)
    episodes = call_once(play_seeds, (), stage_keys(run.config, "evaluate"), run.env, run.policy, goals)
    random = play_random_actions(run.env, run.policy.codes.shape[1], None if goals is None else goals[0])
    check_hosts(run.env)
    check_physics(run.env, (episodes.features, random.features), "in the rollouts of the evaluation")
    return jax.device_get((episodes, random))


def play_seeds(keys: Keys, env: Env, policy: SkillPolicy, goals: Float[Array, "seeds k s"] | None) -> Episode:
    """Rollouts of every seed's skills."""
    play = jax.vmap(play_skills, in_axes=(0, None, 0, 0, None if goals is None else 0))
    return play(keys, env, policy, policy.codes, goals)


def compile_evaluation(config: RunConfig, context: Context, policy: PyTree, skills: PyTree) -> None:
    """Compile what `evaluate_run` will run, and import what it needs. ``policy`` and ``skills`` are shapes."""
    from scipy.sparse import csgraph  # noqa: F401  takes a quarter of a second

    from edl import figures  # noqa: F401  importing matplotlib takes a second

    env, keys, goals = context.env, stage_keys(config, "evaluate"), goals_of(policy, skills)
    episodes = jax.eval_shape(play_seeds, keys, env, policy, goals)
    compile_once(play_seeds, (), keys, env, policy, goals)
    compile_once(discriminate_seeds, (), keys, episodes)
    first = None if goals is None else jax.ShapeDtypeStruct(goals.shape[1:], goals.dtype)
    compile_once(_play_random_actions, (policy.codes.shape[1],), env, first)
    if floor_protocol_applies(env, context.layout):
        # Whether the run has samples only matters for which codes are drawn, and not for their shapes.
        trials = jax.eval_shape(jax.vmap(coverage_trials, (0, None, 0, None, None)), keys, env, policy, None, None)
        compile_once(play_seeds_trials, (), keys, env, jax.eval_shape(playable, policy), trials)
    rule = pick_rule_of(policy, skills)
    if rule is not None and picks_code(_first_seed_shapes(rule), env.feature_size):
        targets = jax.ShapeDtypeStruct((num_played(env), env.feature_size), jnp.float32)
        compile_once(play_picked_seeds, (), keys, env, policy, rule, targets)
    elif rule is not None:
        targets = jax.ShapeDtypeStruct((NUM_TARGETS, env.feature_size), jnp.float32)
        compile_once(pick_seeds, (config.num_seeds,), rule, targets)


def _visited(*episodes: Episode | None) -> Float[np.ndarray, "n s"]:
    """All states that the rollouts visited."""
    rows = [np.asarray(each.features[..., 1:, :])[np.asarray(each.valid)] for each in episodes if each is not None]
    return np.concatenate(rows)


class ZeroShot(NamedTuple):
    """Per seed, the skill picked for each target; or None, and ``metrics`` have the distance after picked codes."""

    picks: Sequence[Int[np.ndarray, " m"] | None]
    metrics: Sequence[dict[str, float]]


def _zero_shot(run: Run, evaluator: Evaluator) -> ZeroShot:
    """The skills that a run picks for the targets, or the distances after the codes that it picks."""
    assert run.policy is not None
    num_seeds, keys = run.config.num_seeds, stage_keys(run.config, "evaluate")
    rule, nothing = pick_rule_of(run.policy, run.skills), [{} for _ in range(num_seeds)]
    if rule is None:
        goals = goals_of(run.policy, run.skills)
        practice = call_once(play_seeds, (), _fold_in(keys, PRACTISED), run.env, run.policy, goals)
        check_hosts(run.env)
        last = last_states(jax.device_get(practice))
        return ZeroShot([pick_by_practice(each, evaluator.targets, evaluator.unit) for each in last], nothing)
    if not picks_code(_first_seed_shapes(rule), run.env.feature_size):
        picks = call_once(pick_seeds, (num_seeds,), rule, jnp.asarray(evaluator.targets, jnp.float32))
        return ZeroShot(list(np.asarray(picks)), nothing)
    targets = played_targets(run.env, evaluator.targets)
    ends = call_once(play_picked_seeds, (), keys, run.env, run.policy, rule, jnp.asarray(targets, jnp.float32))
    check_hosts(run.env)
    means = [float(np.mean(evaluator.paired(each, targets))) for each in np.asarray(ends, float)]
    return ZeroShot([None] * num_seeds, [{"zero_shot_distance": mean} for mean in means])


def _first_seed_shapes(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), tree)


def pick_seeds(num_seeds: int, rule: PickRule, targets: Float[Array, "m s"]) -> Int[Array, "seeds m"]:
    """The skill that each seed picks for each target."""
    return jax.vmap(lambda rule: jax.vmap(rule)(targets), axis_size=num_seeds)(rule)


def play_picked_seeds(
    keys: Keys, env: Env, policy: SkillPolicy, rule: PickRule, targets: Float[Array, "n s"]
) -> Float[Array, "seeds n s"]:
    """The last state of each seed's episode for each target."""
    play = jax.vmap(play_picked, in_axes=(0, None, 0, 0, None))
    return play(_fold_in(keys, PICKED), env, policy, rule, targets)


def discriminate_seeds(keys: Keys, episodes: Episode) -> Float[Array, " seeds"]:
    """How well a new classifier identifies each seed's skills."""
    return jax.vmap(measure_discriminability)(_fold_in(keys, CLASSIFIED), episodes)


def _fold_in(keys: Keys, number: int) -> Keys:
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


def _assign(skills: SkillModel, states: Float[Array, "m s"]) -> Int[Array, " m"]:
    return jax.vmap(skills.assign)(states)


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
        "success_radius": found.success_radius,
        "metric_definitions": CURRENT_DEFINITIONS,
        "picked_by": picked_by(run),
        "proof": aggregate_comparisons(found.comparisons, found.distance_unit, describe(config.region) or None),
        "codebook": codebook_reports(run),
        "steps": {name: int(value) for name, value in steps.items()},
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
    }


def picked_by(run: Run) -> str | None:
    """The rule of ``zero_shot_distance`` in words; None without a policy."""
    if run.policy is None:
        return None
    rule = pick_rule_of(run.policy, run.skills)
    return PRACTICE_RULE if rule is None else rule.rule


def codebook_reports(run: Run) -> list[dict[str, float | int]] | None:
    """Per seed: whether all codes are used, and whether the decoded goals are explored states."""
    if run.skills is None or run.states is None:
        return None
    good = [index for index in range(run.config.num_seeds) if index not in run.failed]
    skills, samples = jax.device_get((run.skills, run.states.samples))
    return [skill_report(_one_seed(skills, i), samples[i]) for i in good]


class Drawings(NamedTuple):
    """The figures of a run by name, as PNG, and the data of its interactive panel, if it has one.

    ``captions`` are those that differ from the captions of `edl.figures`.
    """

    pictures: Mapping[str, bytes] = {}
    panel: dict[str, Any] | None = None
    captions: Mapping[str, str] = {}


def draw_figures(run: Run, found: Evaluation) -> Drawings:
    """The figures of the run's first seed that did not fail, and the panel of its seeds."""
    from edl import figures  # importing matplotlib takes half a second, and not every run is drawn

    good, panel, played, film = with_good_seeds(run), None, None, None
    if found.episodes is not None:
        played = _one_seed(found.episodes, 0)
        film = _film(good, played)
        panel = panel_of(run, found.episodes, None if film is None else film.frames)
    drawn = figures_of(good, played, found.random, film=film)
    captions = {} if played is None else film_caption(film, len(played.valid))
    return Drawings({name: figures.to_png(figure) for name, figure in drawn.items()}, panel, captions)


def draw_run(run: Run, dims: str | None = None) -> dict[str, Any]:
    """The figures of the run's first seed that did not fail, by name, without the rest of the evaluation.

    ``dims`` are the features on the axes, e.g. "0,2" or "angle(0,1),2" (see `edl.figures.axes`).
    """
    from edl.figures.axes import parse_axes, show_axes

    if dims is not None and run.layout is not None:
        raise ConfigError(f"a maze is drawn in its own two dimensions (got dims={dims!r}). Leave out --dims.")
    axes = None if dims is None else parse_axes(dims, run.env.feature_size)
    run = with_good_seeds(run)
    played = None if run.policy is None else _one_seed(_play(run)[0], 0)
    film = None if played is None else _film(run, played)
    drawn = figures_of(run, played, None, axes, film)
    for figure in drawn.values():
        show_axes(figure, axes)
    return drawn


def _film(run: Run, played: Episode) -> Film | None:
    policy = run.seed(0).policy
    assert policy is not None  # it has played
    return film_of(run.env, policy, played)


def animate_run(run: Run) -> bytes:
    """The skills of the run's first seed as a GIF."""
    from edl.figures.animation import skills_gif

    if run.policy is None:
        raise ConfigError(f"{str(run.path)!r} has no policy. Learn one with `edl learn`.")
    run = with_good_seeds(run)
    assert run.policy is not None
    goals, played = goals_of(run.policy, run.skills), _one_seed(_play(run)[0], 0)
    return skills_gif(run.layout, _paths(played), None if goals is None else np.asarray(goals[0]), _title(run))


def figures_of(
    run: Run,
    played: Episode | None,
    random: Mapping[str, float | None] | None,
    axes: Any = None,
    film: Film | None = None,
) -> dict[str, Any]:
    """The figures of the run's first seed, by name: of its skills or else its codes, and of its exploration.

    ``played`` are the rollouts of its skills, and ``film`` pictures of one of each. ``axes`` are those of
    `edl.figures.axes`; by default, the first two features are drawn.
    """
    from edl import figures
    from edl.figures.axes import project

    first, explored, drawn = run.seed(0), {}, {}
    if run.states is not None and (played is None or run.states.experience is not None):
        explored = _explored(run, run.states, axes)
    shown: dict[str, Any] = {
        name: project(x, axes) if name in ("samples", "goals", "decoded") else x
        for name, x in _discovered(first).items()
    }
    if played is not None:
        shown |= {"rows": run.log, "random": random, "title": _title(run)}
        drawn = figures.run_figures(figures.RunData(run.layout, project(_paths(played), axes), **shown))
        drawn |= film_figure(film)
    elif run.skills is not None and run.states is not None:
        drawn = figures.code_figures(run.layout, **shown)
    return drawn | explored


def panel_of(
    run: Run, episodes: Episode | None = None, frames: UInt8[np.ndarray, "k f h w 3"] | None = None
) -> dict[str, Any] | None:
    """The interactive panel of the run's seeds; None if there is no policy, or none that a page can show.

    Envs that are not point mazes show the rollouts ``episodes`` of all seeds, which are played again if not given.
    ``frames`` are pictures of the first seed that did not fail.
    """
    from edl.figures import panel

    if run.policy is None:
        return None
    good = [index for index in range(run.config.num_seeds) if index not in run.failed]
    if isinstance(run.env, Maze) and run.layout is not None:
        shown = (_maze_seed(run, index) for index in good)
        return panel.maze_panel(_title(run), run.layout, run.env.horizon, shown, len(good))
    played = _play(with_good_seeds(run))[0] if episodes is None else episodes
    shown = (_recorded_seed(run, index, played, frames if index == good[0] else None) for index in good)
    return panel.recorded_panel(_title(run), run.layout, shown, len(good))


def _maze_seed(run: Run, index: int) -> dict[str, Any] | None:
    from edl.figures import panel

    one = run.seed(index)
    assert one.policy is not None
    assert run.layout is not None
    goals = goals_of(one.policy, one.skills)
    return panel.maze_seed(
        run.config.seed + index,
        run.layout,
        one.policy,
        pick_rule_of(one.policy, one.skills),
        None if goals is None else np.asarray(goals),
        None if one.states is None else np.asarray(one.states.samples),
    )


def _recorded_seed(
    run: Run, index: int, played: Episode, frames: UInt8[np.ndarray, "k f h w 3"] | None
) -> dict[str, Any] | None:
    from edl.figures import panel

    one = run.seed(index)
    assert one.policy is not None
    goals = goals_of(one.policy, one.skills)
    return panel.recorded_seed(
        run.config.seed + index,
        _paths(_one_seed(played, index)),
        pick_rule_of(one.policy, one.skills),
        None if goals is None else np.asarray(goals),
        frames,
    )


def write_report(folder: Folder, metrics: Mapping[str, Any], drawings: Drawings) -> None:
    """Write figures, report and metrics. metrics.json is last: if it exists, so do the others."""
    from edl import figures

    for name, png in drawings.pictures.items():
        folder.save_picture(name, png)
    shown = figures.with_captions(drawings.pictures, drawings.captions)
    config, provenance = folder.read_json(store.CONFIG), read_provenance(folder)
    page = figures.report_html(metrics, config, provenance, shown, str(folder.path), drawings.panel)
    folder.write(store.REPORT, page.encode())
    folder.write_json(store.METRICS, metrics)


def _explored(run: Run, states: States, axes: Any = None) -> dict[str, Any]:
    """The figures of stage 1: the states of the first seed, and the coverage of all seeds."""
    from edl import figures
    from edl.figures.axes import project

    samples, experience = project(np.asarray(states.samples[0]), axes), states.experience
    if experience is None:
        return figures.explore_figures(run.layout, samples)
    paths, lengths = project(np.asarray(experience.paths[0]), axes), np.asarray(experience.lengths[0])
    if experience.sampled:  # coverage by the number of steps is unknown
        return figures.explore_figures(run.layout, samples, paths=paths, lengths=lengths)
    bins, total = evaluator_of(run).bins, int(np.sum(lengths))
    steps = np.unique(np.linspace(0, total, 101).astype(np.int32))
    curves = np.asarray(quick_jit(_curves)(bins, experience, steps))
    return figures.explore_figures(run.layout, samples, paths=paths, lengths=lengths, steps=steps, coverage=curves)


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
