"""What a finished run is worth: the numbers of metrics.json, the pictures, and the report."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl import evaluate
from edl.artifacts import States
from edl.config import ConfigError
from edl.envs.base import Box, Env
from edl.envs.rollout import Episode
from edl.evaluate import Yardstick
from edl.evaluate.coverage import coverage_curve
from edl.evaluate.evaluate import UniformPolicy
from edl.experiments import stages, store
from edl.experiments.result import Run
from edl.experiments.store import Folder

DIMENSIONS = 2
"""In a world that is not a maze, coverage is over the first dimensions of its features."""


class Assessment(NamedTuple):
    """Numbers per seed, those of random actions, and the rollouts they come from (with a leading axis of seeds)."""

    per_seed: list[dict[str, Any]]
    random: dict[str, float | None] | None
    about: str
    episodes: Episode | None


def yardstick_of(run: Run) -> Yardstick:
    """What the run's world is measured with."""
    if run.layout is not None:
        return evaluate.maze_yardstick(run.layout)
    if run.states is None:
        raise ConfigError(f"{run.config.env!r} is no maze, and nothing was explored: there is nothing to measure by.")
    targets = np.asarray(run.states.samples[0])
    return evaluate.box_yardstick(targets, range(min(DIMENSIONS, targets.shape[1])))


def assess(run: Run) -> Assessment:
    """Evaluate what there is: the exploration, and the skills if they were learned."""
    yardstick, seeds = yardstick_of(run), range(run.config.num_seeds)
    per_seed: list[dict[str, Any]] = [{"seed": run.config.seed + i} for i in seeds]
    for i in seeds:
        experience = None if run.states is None else _pick(run.states.experience, i)
        per_seed[i] |= evaluate.summarise_data(yardstick, experience)
    if run.policy is None:
        return Assessment(per_seed, None, yardstick.about, None)
    keys = stages.keys(run.config, "evaluate")
    goals = None if run.skills is None else run.skills.goals
    play = jax.vmap(evaluate.rollouts, in_axes=(0, None, 0, 0, None if goals is None else 0))
    episodes = play(keys, run.env, run.policy, run.policy.codes, goals)
    for i in seeds:
        per_seed[i] |= evaluate.summarise(yardstick, _pick(episodes, i))
    random = at_random(run.env, len(run.policy.codes[0]), None if goals is None else goals[0], yardstick)
    return Assessment(per_seed, random, yardstick.about, episodes)


def at_random(
    env: Env, num_skills: int, goals: Float[Array, "k s"] | None, yardstick: Yardstick
) -> dict[str, float | None]:
    """The same numbers for random actions, with the same goals."""
    space = env.action_space
    policy = UniformPolicy(space if isinstance(space, Box) else jnp.int32(space.n))
    episodes = evaluate.rollouts(jax.random.key(0), env, policy, jnp.zeros((num_skills, 1)), goals)
    return evaluate.summarise(yardstick, episodes)


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
    curves = jax.vmap(lambda each: coverage_curve(bins, each, jnp.asarray(steps)))(experience)
    return figures.explore_figures(
        run.layout,
        samples,
        paths=np.asarray(experience.paths[0]),
        lengths=np.asarray(experience.lengths[0]),
        steps=steps,
        coverage=np.asarray(curves),
    )


def _discovered(first: Run) -> dict[str, Any]:
    """What the figures show of stages 1 and 2."""
    shown: dict[str, Any] = {}
    if first.states is not None:
        shown["samples"] = np.asarray(first.states.samples)
    if first.skills is not None and first.states is not None:
        skills = first.skills
        assigned = jax.jit(jax.vmap(skills.assign))(first.states.samples)
        shown |= {"goals": skills.goals, "decoded": skills.decoded, "usage": skills.usage, "assignments": assigned}
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
