"""`edl downstream`: sparse tasks, a controller over frozen skills, and the learners that it is compared with.

Goals lie in the `FAR_SHARE` of the env that is farthest from the start: centres of cells in a maze, by walking distance
(in the bottleneck maze they are across the bottleneck); explored states elsewhere, by distance in standard deviations.
All methods in one env get the same goals.

Skills cost environment steps before the first controller is trained. They are counted, and PPO without skills is
trained twice: ``flat`` has as many steps as the controller, ``flat_full`` as many as the training of the skills and the
controller together. Every task of ``flat_full`` gets all of these steps, although the skills are trained once for all
tasks, so this comparison favours PPO without skills.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillPolicy, pick_rule_of
from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.host import check_hosts
from edl.evaluate.picking import pick_by_practice, picks_code
from edl.evaluate.skill_rollouts import last_states, play_skills
from edl.evaluate.statistics import bootstrap
from edl.hierarchy.controller import (
    ControlConfig,
    play_tasks,
    ppo_without_skills,
    steps_per_task,
    succeeded,
    zero_shot_success,
)
from edl.hierarchy.envs import goal_env, skill_action_env
from edl.runs import store
from edl.runs.config import to_json
from edl.runs.controllers import Controllers, Tasks, controller_work
from edl.runs.driver import Work, advance, finish, lane_mesh, outline
from edl.runs.evaluation import evaluator_of
from edl.runs.executables import call_once
from edl.runs.pipeline import plan
from edl.runs.result import Run
from edl.runs.session import env_steps_of, read_progress
from edl.runtime.effort import quick_jit
from edl.types import Key, Keys

FILE = "downstream.json"
FIRST_KEY = 1000
"""The first number that is folded into a seed's key; the stages of a run use smaller numbers."""
KEYS = {
    "controller": 0,
    "flat": 1,
    "play_controller": 2,
    "play_flat": 3,
    "play_zero_shot": 4,
    "practice": 5,
    "flat_full": 6,
}
"""The numbers that are added to `FIRST_KEY`."""
FAR_SHARE = 0.3
EPISODES = 50
"""Episodes per task that evaluate a learner."""

OnProgress = Callable[[str, float], None]
"""Receives the name of a learner and the share of its training that is done."""


class Outcome(NamedTuple):
    """The contents of downstream.json for one run, and its controllers."""

    result: dict[str, Any]
    controllers: Controllers


class FlatBudget(NamedTuple):
    """What the result of PPO without skills depends on: runs that agree in it share one result."""

    name: str
    env_steps: int
    first_seed: int
    num_seeds: int


def tasks_of(run: Run, num_goals: int, radius: float, seed: int = 0) -> Tasks:
    """Goals far from where a run's episodes start."""
    evaluator = evaluator_of(run)
    targets = evaluator.targets if run.layout is None else np.asarray(run.layout.cells, float)
    starts = np.asarray(jax.vmap(lambda key: _first(run.env, key))(jax.random.split(jax.random.key(seed), 64)), float)
    distances = evaluator.distance(starts, targets).mean(axis=0)
    far = np.flatnonzero(distances >= np.quantile(distances, 1 - FAR_SHARE))
    if num_goals > len(far):
        raise ConfigError(f"num_goals must be at most {len(far)} in this env (got {num_goals}). Change --num-goals.")
    chosen = np.random.default_rng(seed).choice(far, num_goals, replace=False)
    size = np.broadcast_to(radius * np.asarray(evaluator.unit, float), evaluator.targets.shape[1:])
    return Tasks(jnp.asarray(targets[chosen], jnp.float32), jnp.asarray(size, jnp.float32))


def _first(env: Env, key: Key) -> Float[Array, " s"]:
    return env.features(env.observe(env.reset(key)))


def recorded_steps(run: Run) -> dict[str, int]:
    """Environment steps per seed of the stages that a run has finished, as far as it records them."""
    recorded = (run.metrics or {}).get("steps")
    if recorded is None and run.path is not None:
        recorded = env_steps_of(read_progress(store.open_run(run.path)))
    found = recorded or {}
    return {stage.name: int(found[stage.name]) for stage in plan(run.config) if stage.name in found}


def pretraining_steps(run: Run) -> dict[str, int]:
    """Environment steps per seed that the skills of a run cost, by stage: explore, scout and learn."""
    steps = recorded_steps(run)
    if "learn" not in steps:
        raise ConfigError(
            f"{str(run.path)!r} does not record the environment steps of its training: metrics.json has no steps. "
            "Restore it, or run again."
        )
    return steps


def compare_runs(
    runs: Mapping[str, Run],
    config: ControlConfig,
    tasks: Tasks,
    *,
    full_budget: bool = True,
    on_progress: Callable[[str, str, float], None] = lambda run, name, share: None,
) -> Iterator[tuple[str, Outcome]]:
    """`downstream` for each run, with the same tasks. PPO without skills is trained once per number of steps."""
    for path, run in runs.items():
        _check(path, run, next(iter(runs.values())), config)
    trained: dict[FlatBudget, dict[str, Any]] = {}
    for path, run in runs.items():

        def report(name: str, share: float, path: str = path) -> None:
            on_progress(path, name, share)

        yield path, downstream(run, config, tasks, full_budget=full_budget, trained=trained, on_progress=report)


def _check(path: str, run: Run, first: Run, config: ControlConfig) -> None:
    if run.policy is None:
        raise ConfigError(f"{path!r} has no policy. Run `edl learn` first.")
    run.check_no_seed_failed()
    if run.config.env != first.config.env:
        raise ConfigError(
            f"all runs must be in the same env (got {path!r} in {run.config.env!r} and the first run in "
            f"{first.config.env!r}). Compare them separately."
        )
    if run.env.horizon != first.env.horizon:
        raise ConfigError(
            f"all runs must have the same horizon (got {run.env.horizon} steps in {path!r} and {first.env.horizon} in "
            "the first run). Compare them separately."
        )
    if run.env.horizon % config.hold:
        raise ConfigError(
            f"hold must divide the {run.env.horizon} steps of an episode (got {config.hold}). Change --control.hold."
        )
    pretraining_steps(run)


def downstream(
    run: Run,
    config: ControlConfig,
    tasks: Tasks,
    *,
    full_budget: bool = True,
    trained: dict[FlatBudget, dict[str, Any]] | None = None,
    on_progress: OnProgress = lambda name, share: None,
) -> Outcome:
    """Train and evaluate a run's controllers, and PPO without skills on the same tasks.

    Without ``full_budget``, PPO without skills only gets the steps of the controller. Its results in ``trained`` are
    reused, and new ones are added to it.
    """
    _check(str(run.path), run, run, config)
    trained = {} if trained is None else trained
    pretraining, steps = pretraining_steps(run), steps_per_task(run.env, config)
    total = sum(pretraining.values()) + steps

    def flat(name: str, env_steps: int) -> dict[str, Any]:
        budget = dataclasses.replace(config, env_steps=env_steps)
        key = FlatBudget(name, steps_per_task(run.env, budget), run.config.seed, run.config.num_seeds)
        if key not in trained:
            trained[key] = _flat(run, budget, tasks, name, on_progress)
        return trained[key]

    curve, policy = _learn(run, controller_work(run, tasks, config), "controller", on_progress)
    success, skills_used = _evaluate_controller(run, config, tasks, policy)
    result = {
        "env": run.config.env,
        "method": run.config.method,
        "goals": np.asarray(tasks.goals).tolist(),
        "radius": np.asarray(tasks.radius).tolist(),
        "env_steps": steps,
        "hold": config.hold,
        "control": to_json(config),
        "steps": {"pretraining": pretraining, "controller": steps, "total": total},
        "controller": {**_summary(success), "curve": curve, "skills_in_a_success": skills_used},
        "zero_shot": _summary(_evaluate_zero_shot(run, tasks)),
        "flat": flat("flat", steps),
        **({"flat_full": flat("flat_full", total)} if full_budget else {}),
    }
    return Outcome(result, Controllers(policy, tasks, config))


def _flat(run: Run, config: ControlConfig, tasks: Tasks, name: str, on_progress: OnProgress) -> dict[str, Any]:
    """Train PPO without skills for ``config.env_steps`` steps per task, and evaluate it."""
    work = Work(ppo_without_skills, (run.env, *tasks, config), (False, False, False, False))
    curve, policy = _learn(run, work, name, on_progress)
    return {
        **_summary(_evaluate_flat(run, tasks, policy)),
        "env_steps": steps_per_task(run.env, config),
        "curve": curve,
    }


def _keys(run: Run, name: str) -> Array:
    seeds = np.arange(run.config.seed, run.config.seed + run.config.num_seeds, dtype=np.uint32)
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), FIRST_KEY + KEYS[name]))(seeds)


def _learn(run: Run, work: Work, name: str, on_progress: OnProgress) -> tuple[dict[str, Any], SkillPolicy]:
    """Run a learner to its end: its learning curve (success by environment steps per task), and its policy."""
    keys = _keys(run, name)
    facts = outline(work, len(keys))
    per_iteration = steps_per_task(run.env, work.inputs[-1]) // facts.iterations
    steps, values, position = [], [], None
    mesh = lane_mesh(len(keys), work.inputs)
    for tick in advance(work, keys, mesh=mesh):
        position = tick.position
        if tick.row is not None:
            steps.append(position.iteration * per_iteration)
            values.append(tick.row["success"])
        on_progress(name, position.iteration / facts.iterations)
    assert position is not None
    curve = {"env_steps": steps, "success": np.asarray(values).T.tolist()}
    return curve, finish(work, position, len(keys), mesh=mesh)


def _evaluate_controller(
    run: Run, config: ControlConfig, tasks: Tasks, learned: SkillPolicy
) -> tuple[Float[np.ndarray, "n g"], float]:
    """Success of each seed on each task, and the number of different skills in a successful episode."""
    keys = _keys(run, "play_controller")
    won, different = jax.device_get(
        call_once(play_controllers, (config.hold,), keys, run.env, run.policy, learned, tasks)
    )
    check_hosts(run.env)
    return won.mean(axis=-1), float(different[won].mean()) if won.any() else 0.0


def play_controllers(
    hold: int, keys: Keys, env: Env, policy: SkillPolicy, learned: SkillPolicy, tasks: Tasks
) -> tuple[Bool[Array, "n g e"], Int[Array, "n g e"]]:
    """Whether each episode of each seed's controllers succeeds, and the number of different skills in it."""

    def play(key: Key, skills: SkillPolicy, controllers: SkillPolicy) -> tuple[Array, Array]:
        def make_task(goal: Float[Array, " s"]) -> Env:
            return skill_action_env(goal_env(env, goal, tasks.radius), skills, hold)

        episodes = play_tasks(key, controllers, make_task, tasks.goals, EPISODES)
        chosen = jax.nn.one_hot(episodes.actions, skills.codes.shape[0]) * episodes.valid[..., None]
        return succeeded(episodes), jnp.sum(jnp.any(chosen > 0, axis=-2), axis=-1)

    return jax.vmap(play)(keys, policy, learned)


def _evaluate_flat(run: Run, tasks: Tasks, learned: SkillPolicy) -> Float[np.ndarray, "n g"]:
    won = call_once(play_flat, (), _keys(run, "play_flat"), run.env, learned, tasks)
    check_hosts(run.env)
    return np.asarray(won).mean(axis=-1)


def play_flat(keys: Keys, env: Env, learned: SkillPolicy, tasks: Tasks) -> Bool[Array, "n g e"]:
    """Whether each episode of each seed's PPO without skills succeeds."""

    def play(key: Key, policies: SkillPolicy) -> Bool[Array, "g e"]:
        episodes = play_tasks(key, policies, lambda goal: goal_env(env, goal, tasks.radius), tasks.goals, EPISODES)
        return succeeded(episodes)

    return jax.vmap(play)(keys, learned)


def _evaluate_zero_shot(run: Run, tasks: Tasks) -> Float[np.ndarray, "n g"]:
    """Success of one skill per task, played for the whole episode (see `zero_shot_codes`)."""
    codes = jnp.stack([zero_shot_codes(run, seed, tasks) for seed in range(run.config.num_seeds)])
    won = call_once(play_zero_shot, (), _keys(run, "play_zero_shot"), run.env, run.policy, codes, tasks)
    check_hosts(run.env)
    return np.asarray(won)


def play_zero_shot(
    keys: Keys, env: Env, policy: SkillPolicy, codes: Float[Array, "n g z"], tasks: Tasks
) -> Float[Array, "n g"]:
    """Success rate of each seed on each task with the skill of this code."""
    return jax.vmap(lambda key, each, code: zero_shot_success(key, env, each, code, *tasks, EPISODES))(
        keys, policy, codes
    )


def zero_shot_codes(run: Run, seed: int, tasks: Tasks) -> Float[Array, "g z"]:
    """The code that the run itself picks for each task, by the rule of ``zero_shot_distance`` (`edl.evaluate.picking`).

    A goal-conditioned method gets the goal itself. A method without a rule plays the skill whose practice episodes
    end nearest.
    """
    one = run.seed(seed)
    assert one.policy is not None
    codes, rule = one.policy.codes, pick_rule_of(one.policy, one.skills)
    if rule is None:
        practice = quick_jit(play_skills, "num")(_keys(run, "practice")[seed], run.env, one.policy, codes)
        check_hosts(run.env)
        goals, unit = (np.asarray(each, float) for each in tasks)
        return codes[pick_by_practice(last_states(practice), goals, unit)]
    picked = jax.vmap(rule)(tasks.goals)
    return picked if picks_code(rule, run.env.feature_size) else codes[picked]


def _summary(success: Float[np.ndarray, "n g"]) -> dict[str, Any]:
    """Mean success with its interval over seeds, and by seed and task."""
    per_seed = np.asarray(success, float).mean(axis=1)
    return {
        "success": float(per_seed.mean()),
        "ci95": list(bootstrap([per_seed])),
        "per_seed": per_seed.tolist(),
        "per_task": np.asarray(success, float).mean(axis=0).tolist(),
    }
