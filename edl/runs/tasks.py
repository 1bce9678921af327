"""`edl downstream --task NAME`: METRA's tasks, with a controller over frozen skills, and with PPO without skills.

    result = task_result(edl.load("runs/ant"), "ant_multi_goal")
    result["controller"]["score"], result["flat"]["score"]

The score of a learner is the mean sum of rewards per episode over the last `LAST_SHARE` of its training, with the noise
of its own actions. The skills are played by their mean.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from edl.artifacts import SkillPolicy, States
from edl.baselines.directions import DirectionOfTarget
from edl.config import ConfigError, check
from edl.envs.host import HostEnv
from edl.evaluate.floor import FARTHEST, accepts_goals
from edl.evaluate.statistics import bootstrap
from edl.hierarchy.tasks import SkillSpace, TaskBuilder, TaskConfig, check_task
from edl.runs.config import to_json
from edl.runs.downstream import pretraining_steps, recorded_steps
from edl.runs.driver import Work, advance, lane_mesh, outline
from edl.runs.result import Run
from edl.types import Keys

FIRST_KEY = 1100
"""The first number that is folded into a seed's key. `edl.runs.downstream` uses smaller ones."""
LEARNERS = ("controller", "flat")
LAST_SHARE = 0.1
DEFAULT_REACH = 10.0
"""Reach of a controller over a run without explored states."""

OnProgress = Callable[[str, float], None]
"""Receives the name of a learner and the share of its training that is done."""


def file_of(task: str) -> str:
    """The name of the file with the results of a task in the folder of a run."""
    return f"downstream_{task}.json"


def skill_space(policy: SkillPolicy) -> SkillSpace:
    """How a controller names the skills of a policy."""
    if accepts_goals(policy):
        return "goals"
    return "directions" if isinstance(policy.pick, DirectionOfTarget) and not policy.pick.discrete else "codes"


def reach_of(states: States | None, share: float) -> float:
    """Twice the way that a skill goes while it is held, by the radius that the explorer has reached in an episode.

    ``share`` is that of the episode for which a skill is held. A policy that learned to stop at its goal would be slow
    if all goals were near.
    """
    if states is None:
        return DEFAULT_REACH
    return float(2 * share * np.quantile(np.linalg.norm(np.asarray(states.samples), axis=-1), FARTHEST))


def policy_of(run: Run) -> SkillPolicy:
    """The policy of the skills, or that of the explorer in a run that has only explored."""
    policy = run.policy if run.policy is not None or run.states is None else run.states.policy
    if policy is None:
        raise ConfigError(f"{str(run.path)!r} has no policy. Run `edl learn` first.")
    return policy


def check_runs(runs: Mapping[str, Run], task: str, config: TaskConfig) -> None:
    """Reject runs that the task does not fit, before anything is trained."""
    first = next(iter(runs.values()))
    for path, run in runs.items():
        check_task(task, run.env, run.config.env)
        check(
            not isinstance(run.env, HostEnv) and run.layout is None,
            f"task {task!r} needs an open env in JAX (got env {run.config.env!r}). Use --env ant or half_cheetah.",
        )
        check(
            run.config.env == first.config.env and run.env.horizon == first.env.horizon,
            f"all runs must be in the same env with the same horizon (got {path!r} in {run.config.env!r} and the first "
            f"run in {first.config.env!r}). Compare them separately.",
        )
        check(
            run.env.horizon % config.hold == 0,
            f"hold must divide the {run.env.horizon} steps of an episode (got {config.hold}). "
            "Change --task-control.hold.",
        )
        policy_of(run)
        run.check_no_seed_failed()


def compare_on_task(
    runs: Mapping[str, Run],
    task: str,
    config: TaskConfig,
    on_progress: Callable[[str, str, float], None] = lambda run, name, share: None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """`task_result` for each run. PPO without skills is trained once per choice of seeds."""
    check_runs(runs, task, config)
    trained: dict[tuple[int, int], dict[str, Any]] = {}
    for path, run in runs.items():

        def report(name: str, share: float, path: str = path) -> None:
            on_progress(path, name, share)

        seeds = (run.config.seed, run.config.num_seeds)
        result = task_result(run, task, config, flat=trained.get(seeds), on_progress=report)
        trained[seeds] = result["flat"]
        yield path, result


def task_result(
    run: Run,
    task: str,
    config: TaskConfig = TaskConfig(),
    *,
    flat: dict[str, Any] | None = None,
    space: SkillSpace | None = None,
    on_progress: OnProgress = lambda name, share: None,
) -> dict[str, Any]:
    """Train a controller over a run's skills, and PPO without skills unless its result is given as ``flat``.

    ``space`` is how the controller names skills; None decides by the policy.
    """
    check_runs({str(run.path): run}, task, config)
    policy = policy_of(run)
    space = space or skill_space(policy)
    if not config.reach:
        config = dataclasses.replace(config, reach=reach_of(run.states, config.hold / run.env.horizon))
    return {
        "env": run.config.env,
        "method": run.config.method,
        "task": task,
        "skills_named_by": space,
        "control": to_json(config),
        "pretraining": _pretraining(run),
        "controller": train(run, "controller", TaskBuilder(task, space), policy, config, on_progress),
        "flat": flat or train(run, "flat", TaskBuilder(task, "codes"), None, config, on_progress),
    }


def _pretraining(run: Run) -> int | None:
    """Environment steps that the skills, or else the explorer's policy, cost; None if the run does not record them."""
    try:
        if run.policy is None:
            return recorded_steps(run).get("explore")
        return sum(pretraining_steps(run).values())
    except ConfigError:
        return None


def train(
    run: Run,
    name: str,
    builder: TaskBuilder,
    policy: SkillPolicy | None,
    config: TaskConfig,
    on_progress: OnProgress = lambda name, share: None,
) -> dict[str, Any]:
    """Train one learner for all seeds: its score with an interval over seeds, its curve, its steps and seconds."""
    keys = task_keys(run, name)
    work = Work(builder, (run.env, policy, config), (False, policy is not None, False))
    facts, mesh = outline(work, len(keys)), lane_mesh(len(keys), (run.env,))
    began, compile_seconds, steps, scores = time.perf_counter(), 0.0, [], []
    for tick in advance(work, keys, mesh=mesh):
        compile_seconds = tick.compile_seconds
        if tick.row is not None:
            steps.append(tick.position.iteration * facts.env_steps)
            scores.append(tick.row["score"])
        on_progress(name, tick.position.iteration / facts.iterations)
    seconds = time.perf_counter() - began - compile_seconds
    curves = np.asarray(scores, float).T
    per_seed = curves[:, -max(round(LAST_SHARE * len(steps)), 1) :].mean(axis=1)
    return {
        "score": float(per_seed.mean()),
        "ci95": list(bootstrap([per_seed])),
        "per_seed": per_seed.tolist(),
        "env_steps": facts.iterations * facts.env_steps,
        "seconds": round(seconds, 1),
        "curve": {"env_steps": steps, "score": curves.round(2).tolist()},
    }


def task_keys(run: Run, name: str) -> Keys:
    """One key per seed for a learner."""
    seeds = np.arange(run.config.seed, run.config.seed + run.config.num_seeds, dtype=np.uint32)
    number = FIRST_KEY + LEARNERS.index(name)
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), number))(seeds)
