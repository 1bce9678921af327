"""Plays the skills of a robot in C MuJoCo on the CPU, with the model's own solver settings, and compares with MJX.

MJX computes in float32, often with a faster solver, and its friction differs in detail: MuJoCo approximates the cone of
friction by a pyramid, and MJX turns the pyramid of a steep capsule by another angle. Single trajectories therefore
separate after the first contacts. What must agree is the result, within the spread over seeds: how near to its goal a
skill ends, how much of the floor is covered, and how many goals are reached.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy, goals_of
from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.reference import ReferenceRobot, reference_model
from edl.envs.rollout import Skill, rollout
from edl.envs.success import success_of
from edl.evaluate.distances import goal_success
from edl.evaluate.floor import Trials, trial_action
from edl.evaluate.geodesic import Geodesic, PairedDistance
from edl.evaluate.metrics import definitions_note
from edl.runs.evaluation import evaluate_floor
from edl.runs.executables import call_once
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run, with_good_seeds
from edl.types import Keys

NUM_ROLLOUTS = 4
"""Episodes per skill."""
CROSS_CHECKED = 4
"""Number that is folded into a seed's key."""
SIMULATORS = ("mjx", "mujoco")


class Ends(NamedTuple):
    """Features of the first and the last state of each episode of one seed."""

    first: Float[np.ndarray, "k n s"]
    last: Float[np.ndarray, "k n s"]


def cross_check(run: Run, num_rollouts: int = NUM_ROLLOUTS, within: float | None = None) -> dict[str, Any]:
    """Play the deterministic policy from the same starts in both simulators, and compare the results.

    ``per_seed`` has, for each simulator, the mean distance to the goals, the share of rollouts that end ``within`` that
    distance (by default that of `edl.envs.success`; both only for methods with goals), and the mean distance travelled.
    For robots in the open it also has the results of the protocol of `edl.evaluate.floor` (`floor_numbers`), which are
    all there is of a run that has only explored; ``floor`` has their details. ``agrees`` says of each number whether
    the means over seeds of the two simulators differ by at most the spread over seeds (their standard deviation); None
    for a single seed. Seeds that failed are left out.
    """
    good = [index for index in range(run.config.num_seeds) if index not in run.failed]
    floors = floors_of(run, good)
    per_seed: list[dict[str, Any]] = [{"seed": run.config.seed + i} for i in good]
    found: dict[str, Any] = {}
    if run.policy is not None or floors is None:
        within = success_of(run.env).radius if within is None else within
        found = {"num_rollouts": num_rollouts, "within": within}
        for each, played in zip(per_seed, _play_skills(run, good, num_rollouts, within), strict=True):
            each |= played
    for simulator, seeds in ({} if floors is None else floors).items():
        for each, floor in zip(per_seed, seeds, strict=True):
            each[simulator] = {**each.get(simulator, {}), **floor_numbers(floor)}
    found |= {"per_seed": per_seed, "agrees": _agreement(per_seed)}
    return found if floors is None else {**found, "floor": floors}


def check_is_robot(run: Run) -> None:
    """Reject a run in an env that MuJoCo cannot play."""
    if not isinstance(run.env, MjxEnv | MjxMaze):
        raise ConfigError(f"the cross-check needs the env of a robot (got env {run.config.env!r}).")


def floors_of(run: Run, good: Sequence[int]) -> dict[str, list[dict[str, Any]]] | None:
    """The protocol of `edl.evaluate.floor` in both simulators, for the seeds ``good``; None if it does not apply.

    Metrics that the run comes with have it for MJX, unless they are by other definitions.
    """
    whole = with_good_seeds(run)
    theirs = evaluate_floor(whole, play_trials_in_mujoco) if isinstance(run.env, MjxEnv) else None
    if theirs is None:
        return None
    metrics = run.metrics or {}
    current = bool(metrics.get("per_seed")) and definitions_note(metrics) is None
    ours = [each.get("floor") for each in metrics["per_seed"]] if current else []
    if len(ours) != len(theirs) or any(ours[i] is None for i in good):
        ours = evaluate_floor(whole)
        assert ours is not None
    return {name: [each[i] for i in good] for name, each in zip(SIMULATORS, (ours, theirs), strict=True)}


def floor_numbers(floor: Mapping[str, Any]) -> dict[str, float]:
    """What is compared of the protocol of one seed: floor coverage, and the share of goals of each set reached.

    Directions are not there to be reached: their number is the coverage of the rollouts that are told them.
    """
    goals = dict(floor["goals"])
    directed = float(goals.pop("directions")["cells"])
    reached = {f"{name}_within_1": float(each["within_1"]) for name, each in goals.items()}
    return {"floor_coverage": float(floor["floor_coverage"]), "directions_coverage": directed, **reached}


def _play_skills(run: Run, good: Sequence[int], num_rollouts: int, within: float) -> Iterator[dict[str, Any]]:
    """For each of the seeds ``good``: the results of its skills in both simulators, and how far apart they end."""
    env, policy = run.env, with_good_seeds(run).policy
    if not isinstance(env, MjxEnv | MjxMaze) or policy is None:
        raise ConfigError(f"the cross-check needs a trained policy of a robot (got env {run.config.env!r}).")
    goals = goals_of(policy, run.skills)
    keys = jax.vmap(lambda key: jax.random.fold_in(key, CROSS_CHECKED))(stage_keys(run.config, "evaluate"))
    observations = np.asarray(call_once(play_modes, (num_rollouts,), keys, env, policy))
    model = reference_model(env)
    paired = _straight if run.layout is None else Geodesic.from_layout(run.layout).paired
    for i in good:
        one = run.seed(i).policy
        assert one is not None
        played = {"mjx": observations[i], "mujoco": play_reference(keys[i], env, one, model, num_rollouts)}
        ends = {name: _ends_of(env, each) for name, each in played.items()}
        goal = None if goals is None else np.asarray(goals[i], float)
        results = {name: _results(each, goal, paired, within) for name, each in ends.items()}
        apart = float(np.mean(np.linalg.norm(ends["mjx"].last - ends["mujoco"].last, axis=-1)))
        yield {**results, "ends_apart": apart}


def play_modes(num: int, keys: Keys, env: Env, policy: SkillPolicy) -> Float[Array, "seeds k n t o"]:
    """The observations of ``num`` episodes of each skill of each seed, with deterministic actions."""

    def play_seed(key: Array, policy: SkillPolicy) -> Float[Array, "k n t o"]:
        def play(key: Array, code: Float[Array, " z"]) -> Float[Array, "t o"]:
            skill = Skill(code, jnp.int32(0))
            actor: Any = lambda key, observation, code: (policy.mode(observation, code), jnp.zeros(0))  # noqa: E731
            return rollout(key, env, actor, skill, start_key=key).observations

        return jax.vmap(jax.vmap(play, in_axes=(0, None)))(_episode_keys(key, len(policy.codes), num), policy.codes)

    return jax.vmap(play_seed)(keys, policy)


def play_reference(key: Array, env: Env, policy: SkillPolicy, model: Any, num: int) -> Float[np.ndarray, "k n t o"]:
    """The same episodes of one seed in MuJoCo on the CPU. ``model`` is the `reference_model` of the env."""
    assert isinstance(env, MjxEnv | MjxMaze)
    keys = _episode_keys(key, len(policy.codes), num)
    codes = jnp.repeat(policy.codes, num, axis=0)
    act: Callable = jax.jit(jax.vmap(policy.mode))
    played = play_robots(env, model, keys.ravel(), lambda step, observations: act(observations, codes))
    return played.reshape(*keys.shape, *played.shape[1:])


def play_robots(
    env: MjxEnv | MjxMaze, model: Any, keys: Keys, act: Callable[[int, Float[Array, "n o"]], Float[Array, "n a"]]
) -> Float[np.ndarray, "n t1 o"]:
    """One episode per key in MuJoCo, side by side. ``act`` returns the actions of a step from the observations."""
    starts = jax.device_get(jax.jit(jax.vmap(env.reset))(keys))
    robots = [ReferenceRobot(env, model) for _ in range(len(keys))]
    rows = [np.stack([robot.start(jax.tree.map(lambda x: x[i], starts)) for i, robot in enumerate(robots)])]  # noqa: B023
    for step in range(env.horizon):
        actions = np.asarray(act(step, jnp.asarray(rows[-1], jnp.float32)))
        rows.append(np.stack([robot.step(action) for robot, action in zip(robots, actions, strict=True)]))
    return np.stack(rows, axis=1)


def play_trials_in_mujoco(
    keys: Keys, env: Env, policy: SkillPolicy, trials: Trials
) -> Float[np.ndarray, "seeds n t1 s"]:
    """The trials of `edl.evaluate.floor` in MuJoCo on the CPU, for every seed."""
    assert isinstance(env, MjxEnv)
    model, count = reference_model(env), trials.random.shape[-1]
    act: Any = jax.jit(jax.vmap(trial_action, in_axes=(0, None, None, 0, 0)))
    paths = []
    for i in range(len(keys)):
        policy_i, trials_i = jax.tree.map(lambda x: x[i], (policy, trials))  # noqa: B023
        start_key, act_key = jax.random.split(keys[i])
        step_keys = jax.random.split(act_key, (env.horizon, count))
        played = play_robots(
            env,
            model,
            jax.random.split(start_key, count),
            lambda step, observations: act(step_keys[step], env, policy_i, trials_i, observations),  # noqa: B023
        )
        paths.append(np.asarray(jax.vmap(jax.vmap(env.features))(jnp.asarray(played, jnp.float32)), float))
    return np.stack(paths)


def _episode_keys(key: Array, num_skills: int, num: int) -> Keys:
    return jax.random.split(key, (num_skills, num))


def _ends_of(env: Env, observations: Float[np.ndarray, "k n t o"]) -> Ends:
    rows = jnp.asarray(observations[:, :, [0, -1]], jnp.float32)
    features = np.asarray(jax.vmap(jax.vmap(jax.vmap(env.features)))(rows), float)
    return Ends(features[:, :, 0], features[:, :, 1])


def _results(
    ends: Ends, goals: Float[np.ndarray, "k s"] | None, paired: PairedDistance, within: float
) -> dict[str, float]:
    travelled = {"travelled": float(np.mean(np.linalg.norm(ends.last - ends.first, axis=-1)))}
    if goals is None:
        return travelled
    repeated = np.repeat(goals, ends.last.shape[1], axis=0)
    distances = paired(ends.last.reshape(repeated.shape), repeated).reshape(ends.last.shape[:2])
    return {
        "goal_distance": float(np.mean(distances)),
        "goal_success": goal_success(distances, within),
        **travelled,
    }


def describe_cross_check(found: Mapping[str, Any]) -> dict[str, str]:
    """The results as lines of text, by their label: means over seeds, and which of them agree."""
    lines = {}
    for simulator in SIMULATORS if found else ():
        rows = [each[simulator] for each in found["per_seed"]]
        lines[simulator] = ", ".join(f"{name} {_number([row[name] for row in rows])}" for name in rows[0])
    for label, wanted in (("agree", True), ("differ", False)) if found.get("agrees") else ():
        lines[label] = ", ".join(name for name, agrees in found["agrees"].items() if agrees is wanted) or "none"
    return lines


def _number(values: Sequence[float]) -> str:
    """The mean, with three digits or more."""
    mean = float(np.mean(values))
    return f"{mean:.3g}" if abs(mean) < 1000 else f"{mean:.0f}"


def _agreement(per_seed: list[dict[str, Any]]) -> dict[str, bool] | None:
    """Whether the simulators differ by at most the spread over seeds, for each number."""
    if len(per_seed) < 2:
        return None
    found = {}
    for name in per_seed[0][SIMULATORS[0]]:
        values = np.array([[each[simulator][name] for simulator in SIMULATORS] for each in per_seed])
        spread = np.max(np.std(values, axis=0, ddof=1))
        found[name] = bool(abs(values[:, 0].mean() - values[:, 1].mean()) <= spread)
    return found


def _straight(x: Float[np.ndarray, "n s"], y: Float[np.ndarray, "n s"]) -> Float[np.ndarray, " n"]:
    return np.linalg.norm(x - y, axis=-1)
