"""The protocol of METRA and CSF for robots in the open: where do skills go, and do they go where they are told?

For envs in JAX without a maze, whose one or two features say where the agent is (`floor_protocol_applies`). All
rollouts use the deterministic policy.

* *Floor coverage* (Park et al., 2024): `NUM_ROLLOUTS` rollouts with one random skill each, and the number of unique
  cells (floor x, floor y), or floor x, over all of their states. K skills are played in turn, in random order. For
  codes of EDL with a continuous prior, and for directions of METRA, LSD, CSD and CSF, a random skill is a draw from the
  prior. A policy of another continuous method, such as CIC or VISR, does not store its prior: its example codes are
  played in turn. A goal-conditioned policy without skills is told states of its visited set.
* *Zero-shot goals* (Zheng et al., 2025, and METRA): `NUM_GOALS` goals per set, one rollout each, and how near it ends.
  A goal-conditioned policy is told the goal g. METRA plays the direction phi(g) - phi(s_t), which it computes again in
  every step. Other methods play the skill that they pick for g, for the whole episode (see `edl.evaluate.picking`); a
  method without a rule gets the skill whose coverage rollouts end nearest.

There are four sets of goals. ``reached``: uniform over what the run itself has reached, which is the visited set of
its explorer, or else the cells of its coverage rollouts. ``disc``: uniform in a disc (or interval) of radius
`DISC_RADIUS` around the start, the same for all runs. ``far``: CSF's box, +-50 with two features and +-100 with one.
``directions``: random directions, each told as a goal that is `OUT_OF_REACH` times as far away as the radius that 99 %
of the states that the run has reached are within. The coverage of these rollouts compares methods with and without
goals better than that of random skills: a policy that was told a near goal stays near, and METRA's skills, which are
directions, always go as far as they can.

*Skills and their own goals*: if every skill has a goal (EDL), the deterministic rollouts of the K skills in turn, and
how near they end to it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.artifacts import SkillModel, SkillPolicy, TargetAsGoal, pick_rule_of
from edl.baselines.directions import DirectionOfTarget
from edl.baselines.skill_priors import sample_direction, unit_vector
from edl.envs.base import Env
from edl.envs.layouts import Layout
from edl.envs.rollout import Skill, rollout
from edl.explore.beyond import GoalInput
from edl.explore.random_walk import random_action
from edl.nets.mlp import MLP
from edl.types import Key, Keys

NUM_ROLLOUTS = 48
"""Rollouts of floor coverage, as in METRA's code."""
NUM_GOALS = 50
"""Goals per set, as in CSF's code."""
GOAL_SETS = ("reached", "disc", "far", "directions")
NUM_TRIALS = NUM_GOALS * len(GOAL_SETS)
"""Episodes per call: the rollouts of coverage, as many of random actions, and then those of all goals share one
compiled program, because physics compile slowly."""
DISC_RADIUS = 25.0
FAR = {1: 100.0, 2: 50.0}
"""Half the side of CSF's box, by the number of features."""
OUT_OF_REACH = 1.25
"""Distance of the goals that stand for directions, in units of the radius that a run has reached."""
FARTHEST = 0.99
"""Share of the states that lie within that radius. A robot that was thrown once does not decide on it."""
NEAR, CLOSE = 1.0, 3.0
"""Distances within which a goal is reached: CSF counts both."""
METRICS_OF_FLOOR = ("floor_coverage", "zero_shot_success")
"""The entries of `edl.evaluate.METRICS` that are computed here."""
GOAL_SEED = 0
"""Seed of the goals in the disc and in the box: all runs have the same."""

Play = Callable[["Trials"], Float[np.ndarray, "seeds n t1 s"]]
"""Plays trials of all seeds, see `play_seeds_trials`."""


class Trials(NamedTuple):
    """Episodes to play: the code or goal that the policy is told. ``random`` ones ignore both and act at random.

    The code of a ``steered`` trial is computed again in every step, from its goal.
    """

    codes: Float[Array, "*seeds n z"]
    goals: Float[Array, "*seeds n s"]
    steered: Bool[Array, "*seeds n"]
    random: Bool[Array, "*seeds n"]


def floor_protocol_applies(env: Env, layout: Layout | None) -> bool:
    """Whether the protocol applies: an env in JAX without a maze, with one or two features that are positions."""
    return layout is None and env.features_are_place and env.feature_size in FAR


def accepts_goals(policy: SkillPolicy) -> bool:
    """Whether any state can be the code of a policy."""
    return isinstance(policy.pick, TargetAsGoal) or isinstance(policy.integrate, GoalInput)


def told_by(policy: SkillPolicy, skills: SkillModel | None) -> str:
    """How a policy is told a goal, in words."""
    if accepts_goals(policy):
        return "the goal g"
    if isinstance(policy.pick, DirectionOfTarget):
        return "the direction phi(g) - phi(s_t), in every step"
    rule = pick_rule_of(policy, skills)
    return "the skill whose coverage rollouts end nearest" if rule is None else f"the skill {rule.rule}, with x = g"


# Playing


def play_trials(key: Key, env: Env, policy: SkillPolicy, trials: Trials) -> Float[Array, "n t1 s"]:
    """The features of all states of each trial. After the end of an episode, its last state is repeated."""

    def play(key: Key, trial: Trials) -> Float[Array, "t1 s"]:
        def act(key: Key, observation: Float[Array, " o"], code: Float[Array, " z"]) -> tuple[Array, Array]:
            return trial_action(key, env, policy, trial, observation), jnp.zeros(0)

        episode = rollout(key, env, act, Skill(trial.codes, jnp.int32(-1)))
        last = jnp.minimum(jnp.arange(len(episode.features)), episode.length)
        return episode.features[last]

    return jax.vmap(play)(jax.random.split(key, len(trials.random)), trials)


def trial_action(
    key: Key, env: Env, policy: SkillPolicy, trial: Trials, observation: Float[Array, " o"]
) -> Float[Array, " a"]:
    """The action of one trial: that of the policy without noise, or a random one."""
    code = trial.codes
    chosen = jnp.where(trial.steered, steer(env, policy, observation, trial.goals, code), code)
    return jnp.where(trial.random, random_action(key, env.action_space), policy.mode(observation, chosen))


def steer(
    env: Env,
    policy: SkillPolicy,
    observation: Float[Array, " o"],
    goal: Float[Array, " s"],
    code: Float[Array, " z"],
) -> Float[Array, " z"]:
    """METRA's code in this step, from phi(g) - phi(s_t); the code itself for other methods.

    phi may see the whole observation. The rule then has phi of a start state that was moved to g.
    """
    rule, phi = policy.pick, policy.model
    if not isinstance(rule, DirectionOfTarget):
        return code
    sees_all = isinstance(phi, MLP) and phi.input_size == env.observation_size != env.feature_size
    now = phi(observation) if sees_all else rule.phi(env.features(observation))  # type: ignore[misc]
    direction = rule.phi(goal) - now
    return jax.nn.one_hot(jnp.argmax(direction), direction.shape[0]) if rule.discrete else unit_vector(direction)


def play_seeds_trials(keys: Keys, env: Env, policy: SkillPolicy, trials: Trials) -> Float[Array, "seeds n t1 s"]:
    """`play_trials` for every seed; on a CPU one seed after the other.

    Products of large networks of several seeds at once can block forever in XLA's threads on a CPU (seen with JAX
    0.10.2 on two cores, two seeds, and layers of 256).
    """
    if jax.default_backend() == "cpu":
        return jax.lax.map(lambda seed: play_trials(seed[0], env, seed[1], seed[2]), (keys, policy, trials))
    return jax.vmap(play_trials, in_axes=(0, None, 0, 0))(keys, env, policy, trials)


# Which skills and goals are played


def coverage_trials(
    key: Key, env: Env, policy: SkillPolicy, skills: SkillModel | None, samples: Float[Array, "n s"] | None
) -> Trials:
    """Random skills, then as many episodes of random actions. The remaining trials are all skills in turn."""
    codes = random_codes(key, policy, skills, samples)
    index = jnp.arange(NUM_TRIALS)
    if own_goals(policy, skills) is not None:
        codes = jnp.where((index >= 2 * NUM_ROLLOUTS)[:, None], policy.codes[skill_in_turn(index, policy)], codes)
    random = (index >= NUM_ROLLOUTS) & (index < 2 * NUM_ROLLOUTS)
    goals = jnp.zeros((NUM_TRIALS, env.feature_size))
    return Trials(codes, goals, jnp.zeros(NUM_TRIALS, bool), random)


def own_goals(policy: SkillPolicy, skills: SkillModel | None) -> Float[Array, "*seeds k s"] | None:
    """The goals of the skills, if each has one."""
    if skills is None:
        return policy.goals
    return None if skills.continuous else skills.goals


def skill_in_turn(index: Int[Array, " n"], policy: SkillPolicy) -> Int[Array, " n"]:
    """The skill of each trial after those of random skills and random actions."""
    return (index - 2 * NUM_ROLLOUTS) % policy.codes.shape[-2]


def playable(policy: SkillPolicy) -> SkillPolicy:
    """The policy without what trials do not use, so that those of an explorer and of its skills are one program."""
    model = policy.model if isinstance(policy.pick, DirectionOfTarget) else None
    kept = (policy.codes[..., :1, :], None, model)
    return eqx.tree_at(lambda p: (p.codes, p.goals, p.model), policy, kept, is_leaf=lambda leaf: leaf is None)


def random_codes(
    key: Key, policy: SkillPolicy, skills: SkillModel | None, samples: Float[Array, "n s"] | None
) -> Float[Array, "m z"]:
    """Codes of random skills: draws from the prior if it is known, and else the skills in turn, in random order."""
    keys = jax.random.split(key, NUM_TRIALS)
    if skills is not None and skills.continuous:
        return jax.vmap(lambda key: skills.sample(key).code)(keys)
    if skills is None and samples is not None and accepts_goals(policy):
        return samples[jax.random.randint(key, (NUM_TRIALS,), 0, len(samples))]
    if isinstance(policy.pick, DirectionOfTarget) and not policy.pick.discrete:
        return jax.vmap(lambda key: sample_direction(key, policy.codes.shape[-1]).code)(keys)
    num_skills = len(policy.codes)
    return policy.codes[jax.random.permutation(key, num_skills)[jnp.arange(NUM_TRIALS) % num_skills]]


def goal_trials(
    env: Env,
    policy: SkillPolicy,
    skills: SkillModel | None,
    goals: Float[Array, "n s"],
    nearest: Float[Array, "n z"],
) -> Trials:
    """One trial per goal. ``nearest`` are the codes for a method that has no rule."""
    steered = isinstance(policy.pick, DirectionOfTarget)
    rule = pick_rule_of(policy, skills)
    if accepts_goals(policy):
        codes = goals
    elif rule is None or steered:
        codes = nearest
    else:
        picked = jax.vmap(rule)(goals)
        codes = policy.codes[picked] if picked.ndim == 1 else picked
    never = jnp.zeros(len(goals), bool)
    return Trials(codes, goals, never | steered, never)


def common_goals(size: int) -> dict[str, Float[np.ndarray, "n s"]]:
    """The goals of all runs: uniform in the disc, and uniform in CSF's box."""
    generator = np.random.default_rng(GOAL_SEED)
    directions = random_directions(generator, size)
    radii = DISC_RADIUS * generator.uniform(size=(NUM_GOALS, 1)) ** (1 / size)
    return {"disc": radii * directions, "far": generator.uniform(-FAR[size], FAR[size], size=(NUM_GOALS, size))}


def random_directions(generator: np.random.Generator, size: int) -> Float[np.ndarray, "n s"]:
    """Vectors of length 1."""
    directions = generator.normal(size=(NUM_GOALS, size))
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


def goals_out_of_reach(
    seed: int, samples: Float[np.ndarray, "n s"] | None, paths: Float[np.ndarray, "m t1 s"]
) -> Float[np.ndarray, "g s"]:
    """Goals in random directions, farther from the start than the visited set, or else than the coverage rollouts."""
    start = paths[:, 0].mean(axis=0)
    reached = paths.reshape(-1, paths.shape[-1]) if samples is None else np.asarray(samples, float)
    radius = np.quantile(np.linalg.norm(reached - start, axis=-1), FARTHEST)
    directions = random_directions(np.random.default_rng(seed), paths.shape[-1])
    return start + OUT_OF_REACH * radius * directions


def reached_goals(
    seed: int, samples: Float[np.ndarray, "n s"] | None, paths: Float[np.ndarray, "m t1 s"]
) -> Float[np.ndarray, "g s"]:
    """Goals uniform over the visited set, or else over the floor cells of the coverage rollouts."""
    generator = np.random.default_rng(seed)
    if samples is not None:
        return np.asarray(samples, float)[generator.integers(len(samples), size=NUM_GOALS)]
    cells = visited_cells(paths)
    return cells[generator.integers(len(cells), size=NUM_GOALS)] + generator.uniform(size=(NUM_GOALS, paths.shape[-1]))


def visited_cells(paths: Float[np.ndarray, "m t1 s"]) -> Int[np.ndarray, "c s"]:
    """The unique floor cells of all states."""
    return np.unique(np.floor(np.asarray(paths, float)).reshape(-1, paths.shape[-1]).astype(int), axis=0)


# Results


def measure_floor(
    keys: Keys,
    env: Env,
    policy: SkillPolicy,
    skills: SkillModel | None,
    samples: Float[Array, "seeds n s"] | None,
    play: Play,
) -> list[dict[str, Any]]:
    """The whole protocol for every seed: ``floor_coverage``, ``zero_shot_success``, and the details in ``floor``.

    ``policy``, ``skills`` and ``samples`` (states of the visited set) have a leading axis of seeds.
    """
    paths, trials = play_coverage(keys, env, policy, skills, samples, play)
    common, goals, nearest = common_goals(env.feature_size), [], []
    for seed in range(len(paths)):
        own = None if samples is None else np.asarray(samples[seed])
        own_paths = paths[seed, :NUM_ROLLOUTS]
        out_of_reach = goals_out_of_reach(seed, own, own_paths)
        chosen = {"reached": reached_goals(seed, own, own_paths), **common, "directions": out_of_reach}
        goals.append(np.concatenate([chosen[name] for name in GOAL_SETS]))
        ends = paths[seed, :NUM_ROLLOUTS, -1]
        closest = np.argmin(np.linalg.norm(goals[-1][:, None] - ends, axis=-1), axis=1)
        nearest.append(np.asarray(trials.codes[seed])[closest])
    told = jax.jit(jax.vmap(goal_trials, in_axes=(None, 0, 0, 0, 0)))(
        env, policy, skills, jnp.asarray(np.stack(goals), jnp.float32), jnp.asarray(np.stack(nearest), jnp.float32)
    )
    reached, wanted = play(told), own_goals(policy, skills)
    results = [
        floor_result(paths[i], reached[i], goals[i]) | {"told_by": told_by(policy, skills)} for i in range(len(paths))
    ]
    if wanted is not None:
        turn = np.asarray(skill_in_turn(jnp.arange(2 * NUM_ROLLOUTS, NUM_TRIALS), policy))
        for i, result in enumerate(results):
            result["skills"] = goal_result(paths[i, 2 * NUM_ROLLOUTS :], np.asarray(wanted[i], float)[turn])
    return results


def play_coverage(
    keys: Keys,
    env: Env,
    policy: SkillPolicy,
    skills: SkillModel | None,
    samples: Float[Array, "seeds n s"] | None,
    play: Play,
) -> tuple[Float[np.ndarray, "seeds m t1 s"], Trials]:
    """The rollouts of floor coverage: those of random skills, those of random actions, and those of all skills."""
    trials = jax.jit(jax.vmap(coverage_trials, in_axes=(0, None, 0, 0, 0)))(keys, env, policy, skills, samples)
    return play(trials), trials


def directed_coverage(
    samples: Float[Array, "seeds n s"],
    paths: Float[np.ndarray, "seeds m t1 s"],
    play: Play,
) -> list[int]:
    """The floor coverage of every seed if a goal-conditioned policy is told directions.

    ``paths`` are the rollouts of floor coverage. Nothing is compiled: this has as many trials as they have.
    """
    goals = np.stack(
        [goals_out_of_reach(i, np.asarray(samples[i]), paths[i, :NUM_ROLLOUTS]) for i in range(len(paths))]
    )
    told = jnp.asarray(np.tile(goals, (1, len(GOAL_SETS), 1)), jnp.float32)
    never = jnp.zeros(told.shape[:2], bool)
    return [coverage_of(each[:NUM_ROLLOUTS]) for each in play(Trials(told, told, never, never))]


def coverage_of(paths: Float[np.ndarray, "m t1 s"]) -> int:
    """Number of unique floor cells."""
    return len(visited_cells(paths))


def floor_result(
    paths: Float[np.ndarray, "m t1 s"], told: Float[np.ndarray, "n t1 s"], goals: Float[np.ndarray, "n s"]
) -> dict[str, Any]:
    """The results of one seed from its coverage rollouts and the rollouts that were told a goal."""
    own, random = paths[:NUM_ROLLOUTS], paths[NUM_ROLLOUTS : 2 * NUM_ROLLOUTS]
    parts = np.split(np.arange(len(goals)), len(GOAL_SETS))
    sets = {name: goal_result(told[part], goals[part]) for name, part in zip(GOAL_SETS, parts, strict=True)}
    return {
        "floor_coverage": coverage_of(own),
        "random_floor_coverage": coverage_of(random),
        "low": own.min(axis=(0, 1)).tolist(),
        "high": own.max(axis=(0, 1)).tolist(),
        "radius": float(np.max(np.linalg.norm(own - own[:, :1], axis=-1))),
        "goals": sets,
    }


def goal_result(told: Float[np.ndarray, "n t1 s"], goals: Float[np.ndarray, "n s"]) -> dict[str, float | int]:
    """How near the rollouts end to their goals, and how many pass within `NEAR` and `CLOSE` of them at some time.

    ``radius`` is the distance of the farthest goal from the start, and ``cells`` the floor coverage of as many of these
    rollouts as the floor coverage of random skills has.
    """
    distances = np.linalg.norm(np.asarray(told, float) - goals[:, None], axis=-1)
    ends, nearest = distances[:, -1], distances.min(axis=1)
    return {
        "radius": float(np.max(np.linalg.norm(goals, axis=-1))),
        "within_1": float(np.mean(ends <= NEAR)),
        "within_3": float(np.mean(ends <= CLOSE)),
        "passed_1": float(np.mean(nearest <= NEAR)),
        "passed_3": float(np.mean(nearest <= CLOSE)),
        "distance": float(np.mean(ends)),
        "cells": coverage_of(told[:NUM_ROLLOUTS]),
    }


def metrics_of_floor(result: dict[str, Any]) -> dict[str, Any]:
    """The metrics of one seed, and the details, which are not a metric."""
    success = result["goals"]["reached"]["within_1"]
    return {"floor_coverage": float(result["floor_coverage"]), "zero_shot_success": success, "floor": result}
