"""Offline methods, zero-shot: prompted by goals, and by rewards.

By goal: the walking distance from the end of an episode to its goal, one of `NUM_GOALS` random points. FB gets
z = B(g); HILP turns towards the goal in every step (`TowardGoal`), and not only at the start.

By reward: how far the skill for "go right" goes to the right. There are four rewards, one per direction u of the plane.
HILP gets the reward u . (s' - s) of all recorded moves, and FB the reward u . s' of the states in which they end. The
return of an episode says how far it gets along u. A score is that distance as a share of the way to the farthest cell,
averaged over directions and rollouts: 1 is the end of the maze, 0 the start. Directions in which the maze ends within
`LEAST` cells of the start are left out.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy, States
from edl.baselines.fb import prompt_by_reward as fb_prompt
from edl.baselines.hilp import TowardGoal
from edl.baselines.hilp import prompt_by_reward as hilp_prompt
from edl.envs.layouts import Layout
from edl.evaluate.skill_rollouts import NUM_ROLLOUTS, play_skills, uniform_policy
from edl.runs.evaluation import Evaluation, evaluator_of
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
from edl.tables.markdown import facts_line, markdown_table, steps_cell
from edl.tables.table import MAZES, Results
from edl.types import Key

DIRECTIONS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
LEAST = 2.0
NUM_GOALS = 200
METHODS = ("hilp", "fb")
KEYS = tuple(f"{maze}/{method}" for maze in MAZES for method in METHODS)
MEASURED = {"goal_distance": "by goal: distance at the end", "reward_share": "by reward: share of the way"}
PROMPTED = 6
"""The number that the rollouts of prompts fold into the key of a seed."""


def prompt_hilp(policy: SkillPolicy, states: States, direction: Float[Array, " s"]) -> Float[Array, " z"]:
    """The skill of HILP for the reward u . (s' - s), from all recorded moves."""
    assert states.experience is not None
    paths, made = states.experience.paths, states.experience.valid
    after = jnp.where(made[:, :, None], paths[:, 1:], paths[:, :-1])  # a move that was not made has length 0
    before, after = (x.reshape(-1, paths.shape[-1]) for x in (paths[:, :-1], after))
    return hilp_prompt(policy, before, after, (after - before) @ direction)


def prompt_fb(policy: SkillPolicy, states: States, direction: Float[Array, " s"]) -> Float[Array, " z"]:
    """The skill of FB for the reward u . s, less its mean, from the states in which recorded moves end.

    They have FB's distribution rho. ``states.samples`` do not: `frontier` draws them evenly from the explored cells.
    """
    assert states.experience is not None
    made = states.experience.valid.reshape(-1)
    after = states.experience.paths[:, 1:].reshape(len(made), -1)
    rewards = after @ direction
    rewards = jnp.where(made, rewards - jnp.mean(rewards, where=made), 0.0)  # padding does not count
    return fb_prompt(policy, after, rewards)


PROMPTS = {"hilp": prompt_hilp, "fb": prompt_fb}


def zero_shot(run: Run, found: Evaluation | None = None) -> dict[str, Any]:
    """The distances to goals and the scores of rewards of every seed, and those of random actions."""
    assert run.layout is not None
    env, layout, random = run.env, run.layout, uniform_policy(run.env)
    prompt, directions = PROMPTS[run.config.method], jnp.asarray(DIRECTIONS, jnp.float32)
    evaluator = evaluator_of(run)
    goals = np.asarray(evaluator.targets)[:: len(evaluator.targets) // NUM_GOALS]
    told = jnp.asarray(goals, jnp.float32)

    def ends(key: Key, policy: Any, codes: Float[Array, "k z"], num: int) -> Float[Array, "2 k n s"]:
        episodes = play_skills(jax.random.fold_in(key, PROMPTED), env, policy, codes, num=num)
        return jnp.stack([episodes.features[:, :, 0], episodes.features[:, :, -1]])

    def by_goal(key: Key, policy: SkillPolicy) -> Float[Array, "2 k n s"]:
        if run.config.method == "hilp":
            return ends(key, TowardGoal(policy), told, 1)
        pick: Any = policy.pick
        return ends(key, policy, jax.vmap(pick)(told), 1)

    def by_reward(key: Key, policy: SkillPolicy, states: States) -> Float[Array, "2 d n s"]:
        codes = jax.vmap(lambda direction: prompt(policy, states, direction))(directions)
        return ends(key, policy, codes, NUM_ROLLOUTS)

    def distance(ends: Any) -> float:
        return round(float(np.mean(evaluator.paired(np.asarray(ends, float)[1, :, 0], goals))), 4)

    def share(ends: Any) -> float:
        return round(score(layout, np.asarray(ends[1] - ends[0])), 4)

    keys = stage_keys(run.config, "evaluate")
    blind = jax.jit(lambda key, codes, num: ends(key, random, codes, num), static_argnums=2)
    return {
        "goal_distance": [distance(each) for each in jax.jit(jax.vmap(by_goal))(keys, run.policy)],
        "reward_share": [share(each) for each in jax.jit(jax.vmap(by_reward))(keys, run.policy, run.states)],
        "random_goal_distance": distance(blind(keys[0], told, 1)),
        "random_reward_share": share(blind(keys[0], jnp.zeros((len(DIRECTIONS), 1)), NUM_ROLLOUTS)),
    }


def score(layout: Layout, moves: Float[np.ndarray, "d n s"]) -> float:
    """The mean share of the way to the farthest cell, over the directions that have one."""
    cells, start = np.asarray(layout.cells), np.mean(np.asarray(layout.starts), axis=0)
    extent = np.max((cells - start) @ DIRECTIONS.T, axis=0)
    gained = np.einsum("dns,ds->d", moves, DIRECTIONS) / moves.shape[1]
    return float(np.mean((gained / np.maximum(extent, 1e-9))[extent > LEAST]))


def view(results: Results) -> str:
    """Zero-shot by goal and by reward, for the offline methods in all mazes in which they were measured."""
    found = {key: results[key] for key in KEYS if "measured" in results.get(key, {})}
    if not found:
        return "Not measured."
    lines = []
    for result in found.values():
        measured = result["measured"]
        cells = [(spread(measured[name]), f"{measured[f'random_{name}']:.2f}") for name in MEASURED]
        lines.append([result["env"], f"`{result['method']}`", *(cell for pair in cells for cell in pair)])
    head = ["maze", "method", *(cell for title in MEASURED.values() for cell in (title, "random actions"))]
    steps = " or ".join(sorted({steps_cell(each) for each in found.values()}))
    about = f"{steps} environment steps of the explorer per seed. In brackets: the range of the seeds."
    return f"{facts_line(found)} {about}\n\n{markdown_table(head, lines)}"


def spread(values: Sequence[float]) -> str:
    """The mean, and the range of the seeds."""
    return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"
