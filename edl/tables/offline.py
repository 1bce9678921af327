"""Offline methods prompted by a reward, zero-shot: how far the skill for "go right" goes to the right.

There are four rewards, one per direction u of the plane. A recorded move has the reward u . (s' - s) and a recorded
state u . s, so the return of an episode says how far it gets along u. A score is that distance as a share of the way to
the farthest cell, averaged over directions and rollouts: 1 is the end of the maze, 0 the start. Directions in which the
maze ends within `LEAST` cells of the start are left out.

Prompts by goal need no table of their own: they are the zero_shot_distance of the table of methods.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from edl.artifacts import SkillPolicy, States
from edl.baselines import fb, hilp
from edl.envs.layouts import Layout
from edl.evaluate.skill_rollouts import play_skills, uniform_policy
from edl.runs.evaluation import Evaluation
from edl.runs.pipeline import stage_keys
from edl.runs.result import Run
from edl.tables.markdown import markdown_table, mean_cell
from edl.tables.table import MAZES, Results
from edl.types import Key

DIRECTIONS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
LEAST = 2.0
METHODS = ("hilp", "fb")
PROMPTED = 6
"""The number that the rollouts of prompts fold into the key of a seed."""


def prompt_hilp(policy: SkillPolicy, states: States, direction: Float[Array, " s"]) -> Float[Array, " z"]:
    """The skill of HILP for the reward u . (s' - s), from all recorded moves."""
    assert states.experience is not None
    paths = states.experience.paths
    before, after = (x.reshape(-1, paths.shape[-1]) for x in (paths[:, :-1], paths[:, 1:]))
    return hilp.prompt_by_reward(policy, before, after, (after - before) @ direction)


def prompt_fb(policy: SkillPolicy, states: States, direction: Float[Array, " s"]) -> Float[Array, " z"]:
    """The skill of FB for the reward u . s, less its mean, from samples of p(s)."""
    samples = states.samples
    return fb.prompt_by_reward(policy, samples, (samples - jnp.mean(samples, axis=0)) @ direction)


PROMPTS = {"hilp": prompt_hilp, "fb": prompt_fb}


def prompts_by_reward(run: Run, found: Evaluation) -> dict[str, Any]:
    """The score of every seed, and that of random actions."""
    assert run.layout is not None
    prompt, env, directions = PROMPTS[run.config.method], run.env, jnp.asarray(DIRECTIONS, jnp.float32)

    def play(key: Key, policy: SkillPolicy, states: States) -> Float[Array, "d n s"]:
        codes = jax.vmap(lambda direction: prompt(policy, states, direction))(directions)
        return moves(key, policy, codes)

    def moves(key: Key, policy: Any, codes: Float[Array, "d z"]) -> Float[Array, "d n s"]:
        episodes = play_skills(jax.random.fold_in(key, PROMPTED), env, policy, codes)
        return episodes.features[:, :, -1] - episodes.features[:, :, 0]

    keys = stage_keys(run.config, "evaluate")
    scores = [score(run.layout, np.asarray(each)) for each in jax.jit(jax.vmap(play))(keys, run.policy, run.states)]
    random = jax.jit(lambda key: moves(key, uniform_policy(env), jnp.zeros((len(DIRECTIONS), 1))))(keys[0])
    return {"per_seed": [round(each, 4) for each in scores], "random": round(score(run.layout, np.asarray(random)), 4)}


def score(layout: Layout, moves: Float[np.ndarray, "d n s"]) -> float:
    """The mean share of the way to the farthest cell, over the directions that have one."""
    cells, start = np.asarray(layout.cells), np.mean(np.asarray(layout.starts), axis=0)
    extent = np.max((cells - start) @ DIRECTIONS.T, axis=0)
    gained = np.einsum("dns,ds->d", moves, DIRECTIONS) / moves.shape[1]
    return float(np.mean((gained / np.maximum(extent, 1e-9))[extent > LEAST]))


def view(results: Results) -> str:
    """Zero-shot by goal and by reward, for the offline methods in all mazes in which they were measured."""
    lines = []
    for maze in MAZES:
        for method in METHODS:
            each = results.get(f"{maze}/{method}", {})
            if "measured" not in each:
                continue
            scores = each["measured"]["per_seed"]
            spread = f"{np.mean(scores):.2f} [{min(scores):.2f}, {max(scores):.2f}]"
            random = f"{each['measured']['random']:.2f}"
            goal = [mean_cell(each, name) for name in ("zero_shot_distance", "goal_success")]
            lines.append([maze, f"`{method}`", *goal, f"{each['random']['zero_shot_distance']:.2f}", spread, random])
    head = ["maze", "method", "by goal: zero_shot_distance", "goal_success", "random actions"]
    head += ["by reward: share of the way, worst and best seed", "random actions"]
    return markdown_table(head, lines) if lines else "Not measured."
