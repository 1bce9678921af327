"""Plays the skills of a robot in C MuJoCo on the CPU, with the model's own solver settings, and compares with MJX.

MJX computes in float32, often with a faster solver, and its friction differs in detail: MuJoCo approximates the cone of
friction by a pyramid, and MJX turns the pyramid of a steep capsule by another angle. Single trajectories therefore
separate after the first contacts. What must agree is the result: how near to its goal a skill ends, within the spread
over seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy
from edl.config import ConfigError
from edl.envs.base import Env
from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.reference import ReferenceRobot, reference_model
from edl.envs.rollout import Skill, rollout
from edl.envs.success import success_of
from edl.evaluate.distances import goal_success
from edl.evaluate.floor import Trials, trial_action
from edl.evaluate.geodesic import Geodesic, PairedDistance
from edl.runs.evaluation import evaluate_floor
from edl.runs.executables import call_once
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
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

    ``per_seed`` has the mean distance to the goals, the share of rollouts that end ``within`` that distance (by default
    that of `edl.envs.success`; both only for methods with goals), and the mean distance travelled. ``agrees`` says of
    each whether the means over seeds of the two simulators differ by at most the spread over seeds (their standard
    deviation); None for a single seed. ``floor`` is the protocol of `edl.evaluate.floor` in MuJoCo, for robots in the
    open. It is all there is of a run that has only explored.
    """
    env, policy = run.env, run.policy
    floor = evaluate_floor(run, play_trials_in_mujoco) if isinstance(env, MjxEnv) else None
    if policy is None and floor is not None:
        return {"floor": floor}
    if not isinstance(env, MjxEnv | MjxMaze) or policy is None:
        raise ConfigError(f"the cross-check needs a trained policy of a robot (got env {run.config.env!r}).")
    within = success_of(env).radius if within is None else within
    goals = policy.goals if run.skills is None else run.skills.goals
    keys = jax.vmap(lambda key: jax.random.fold_in(key, CROSS_CHECKED))(stage_keys(run.config, "evaluate"))
    observations = np.asarray(call_once(play_modes, (num_rollouts,), keys, env, policy))
    model, per_seed = reference_model(env), []
    paired = _straight if run.layout is None else Geodesic.from_layout(run.layout).paired
    for i in range(run.config.num_seeds):
        one = run.seed(i).policy
        assert one is not None
        played = {"mjx": observations[i], "mujoco": play_reference(keys[i], env, one, model, num_rollouts)}
        ends = {name: _ends_of(env, each) for name, each in played.items()}
        goal = None if goals is None else np.asarray(goals[i], float)
        results = {name: _results(each, goal, paired, within) for name, each in ends.items()}
        apart = float(np.mean(np.linalg.norm(ends["mjx"].last - ends["mujoco"].last, axis=-1)))
        per_seed.append({"seed": run.config.seed + i, **results, "ends_apart": apart})
    found = {"num_rollouts": num_rollouts, "within": within, "per_seed": per_seed, "agrees": _agreement(per_seed)}
    return found if floor is None else {**found, "floor": floor}


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
    """The results as lines of text, by their label: means over seeds."""
    lines = {}
    for simulator in SIMULATORS if "per_seed" in found else ():
        rows = [each[simulator] for each in found["per_seed"]]
        lines[simulator] = ", ".join(f"{name} {np.mean([row[name] for row in rows]):.3g}" for name in rows[0])
    if found.get("agrees"):
        agreeing = [name for name, agrees in found["agrees"].items() if agrees]
        lines["agree"] = ", ".join(agreeing) or "none"
    if "floor" in found:
        lines["floor"] = f"in MuJoCo: {describe_floor(found['floor'])}"
    return lines


def describe_floor(floors: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds: floor coverage, and the share of goals of each set that are reached."""
    sets = [
        f"{name} {np.mean([each['goals'][name]['within_1'] for each in floors]):.2f} "
        f"(up to {np.mean([each['goals'][name]['radius'] for each in floors]):.0f} away)"
        for name in floors[0]["goals"]
    ]
    return f"{np.mean([each['floor_coverage'] for each in floors]):.0f} cells; goals within 1: {', '.join(sets)}"


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
