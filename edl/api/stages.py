"""The stages of EDL and the baselines as functions, with the defaults of `edl.run`.

    states = edl.explore("square")                       # stage 1: States
    skills = edl.discover(states, num_skills=6)          # stage 2: SkillModel
    run = edl.learn("square", skills, states=states)     # stage 3: a Run, evaluated
    run = edl.baseline("diayn", "square", num_skills=6)

`edl.explore`, `edl.discover` and `edl.learn` are also the packages of the methods: ``edl.explore.METHODS`` and ``from
edl.explore import FrontierConfig`` work as before. See `edl.callable_package`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edl import baselines
from edl import discover as discoverers
from edl.api.display import show_progress
from edl.api.messages import python_messages
from edl.api.programs import run_to_end
from edl.api.runs import Run, run_with
from edl.api.settings import build_config
from edl.artifacts import SkillModel, States
from edl.config import check, check_name, check_numbers
from edl.envs.maze import Maze
from edl.interop.env_names import is_maze, make_env
from edl.runs.pipeline import stage_keys
from edl.runs.presets import complete
from edl.runs.progress import Progress
from edl.runs.resolve import Given


def explore(
    env: str | Callable[[], Any] = "square",
    method: str | None = None,
    *,
    progress: bool | Progress | None = None,
    **settings: Any,
) -> States:
    """Stage 1: explore an env, and return samples of p(s) with the experience that they come from.

    ``method`` is the name of an explorer (see `edl list`); ``settings`` are those of `edl.run`, e.g. ``seed=1`` or
    ``explorer={"iterations": 20}``. The coverage of the result is `edl.run(env, until="explore").metrics`.
    """
    if method is not None:
        settings["explore"] = method
    done = run_with(env, settings, Given(), out=None, until="explore", progress=progress)
    check(len(done.seeds) == 1, "explore returns the states of one seed. Leave out num_seeds, or use edl.run.")
    assert done.states is not None
    return done.states


def discover(
    states: Any,
    method: str = "vqvae",
    *,
    num_skills: int = 10,
    seed: int = 0,
    progress: bool | Progress | None = None,
    **settings: Any,
) -> SkillModel:
    """Stage 2: fit skills to states, the result of `explore` or an array with one row per state.

    ``method`` is the name of a discoverer (see `edl list`), and ``discoverer={...}`` are its settings.
    """
    with python_messages():
        check_name(method, discoverers.METHODS, "discoverer", "`edl list` describes them.")
        known = {"discoverer", "preset"}
        for name in settings:
            check_name(name.partition(".")[0], known, "setting of edl.discover")
        given = {"discover": method, "num_skills": num_skills, "seed": seed, **settings}
        config = complete(build_config("square", given))
        check_numbers(config)
        samples = states.samples if isinstance(states, States) else States.from_samples(states).samples
        discoverers.check_states(config.discoverer, np.asarray(samples))
        program = discoverers.METHODS[method].build(States(samples), config.discoverer)
        with show_progress(progress) as display:
            return run_to_end(program, stage_keys(config, "discover")[0], progress=display, name="discover")[0]


def learn(
    env: str | Callable[[], Any],
    skills: Any,
    *,
    states: Any = None,
    out: str | Path | None = None,
    progress: bool | Progress | None = None,
    **settings: Any,
) -> Run:
    """Stage 3: learn a policy for skills, and evaluate it.

    ``skills`` are the result of `discover`, or your own goals: an array with one row per goal (see
    `SkillModel.from_goals`).

    ``states`` are those that the skills were discovered in. With them, learning is the same as in `edl.run`: goals that
    lie behind a wall are moved, and the experience of `explore` gives the walking distance. Without them, the goals are
    yours and stay where they are, unless ``learner={"place_goals": True}`` or ``**{"learner.place_goals": True}`` says
    otherwise; a `LearnConfig` does not.
    """
    if not isinstance(skills, SkillModel):
        _check_goals(env, settings, skills)
        skills = SkillModel.from_goals(skills, states)
    learner = settings.get("learner")
    if states is None and not (isinstance(learner, Mapping) and "place_goals" in learner):
        # A dotted name changes any learner, also one that is a LearnConfig.
        settings.setdefault("learner.place_goals", False)
    return run_with(env, settings, Given(states, skills), out=out, progress=progress)


def _check_goals(env: str | Callable[[], Any], settings: Mapping[str, Any], goals: Any) -> None:
    """Reject goals that no policy can reach, because they are outside of the cells of a maze."""
    if not isinstance(env, str) or not is_maze(env):
        return
    maze, points = make_env(env, maze=settings.get("maze")), np.asarray(goals, float)
    if not isinstance(maze, Maze) or points.ndim != 2 or points.shape[1] != 2:
        return  # the shape has a message of its own
    cells = np.asarray(maze.cells)[: int(maze.num_cells)]
    gaps = np.abs(points[:, None] - cells).max(axis=-1).min(axis=1)
    outside = [f"{point.tolist()}" for point, gap in zip(points, gaps, strict=True) if gap > 0.5]
    low, high = cells.min(axis=0) - 0.5, cells.max(axis=0) + 0.5
    check(
        not outside,
        f"goals must be inside of the maze {env!r}, in a cell that is not blocked (got {', '.join(outside)}). "
        f"It has x from {low[0]:g} to {high[0]:g} and y from {low[1]:g} to {high[1]:g}.",
    )


def baseline(
    method: str,
    env: str | Callable[[], Any] = "square",
    *,
    out: str | Path | None = None,
    progress: bool | Progress | None = None,
    **settings: Any,
) -> Run:
    """A skill-discovery method without stages (see `edl list`), e.g. ``edl.baseline("diayn", "square")``."""
    check_name(method, baselines.METHODS, "method", "`edl list` describes them.")
    return run_with(env, {**settings, "method": method}, Given(), out=out, progress=progress)
