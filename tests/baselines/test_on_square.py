"""Methods since 2020 learn on square, each within three minutes on two CPU cores. All but CSF have default settings."""

import contextlib
import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.baselines.apt import APTConfig, apt
from edl.baselines.csf import CSFConfig
from edl.baselines.map_elites import MAPElitesConfig
from edl.envs.maze import maze
from edl.evaluate.skill_rollouts import rollouts, uniform_policy
from edl.program import run_program
from edl.runs.result import load
from edl.tables.offline import zero_shot
from tests.compiling import jit

CPU_SECONDS = 360
"""Three minutes on two cores."""
LEVEL = 0.8
"""Skills must end nearer to a random point than this share of the distance after random actions."""
LEVELS = {"map_elites": 0.4}
"""Levels of methods whose untrained skills reach `LEVEL`. Of the random networks with which it begins, MAP-Elites picks
those that end far apart: after one iteration, three seeds are at 0.64, 0.57 and 0.52 of the distance after random
actions. After all 400 they are at 0.24, 0.29 and 0.25."""
WITH_SKILLS = (
    *("metra_ppo", "lsd", "csd", "csf", "cic", "aps", "becl"),
    *("disco_dance", "rsd", "map_elites"),
)
SETTINGS = {"csf": CSFConfig(contrast=2.0)}
"""With the authors' xi = 5, which is for robots, half of the seeds of CSF miss the level in so few steps. With the 2
that tuning chose in both mazes, none of four did."""


@contextlib.contextmanager
def within_three_minutes():
    """Fail if what is inside takes longer than three minutes on two cores, with compilation."""
    start = time.process_time()
    yield
    assert time.process_time() - start < CPU_SECONDS


def distance_share(run):
    """The distance from the end of the best skill to a random point, as a share of that after random actions."""
    return run.metrics["per_seed"][0]["best_skill_distance"] / run.metrics["random"]["best_skill_distance"]


@pytest.mark.slow
@pytest.mark.parametrize("method", WITH_SKILLS)
def test_skills_end_nearer_to_a_random_point_than_random_actions(method, tmp_path):
    with within_three_minutes():
        run = edl.run(env="square", method=method, baseline=SETTINGS.get(method), out=tmp_path / "run")
    assert distance_share(run) < LEVELS.get(method, LEVEL)


@pytest.mark.slow
def test_map_elites_misses_its_level_after_one_iteration(tmp_path):
    run = edl.run(env="square", method="map_elites", baseline=MAPElitesConfig(iterations=1), out=tmp_path / "run")
    assert distance_share(run) > LEVELS["map_elites"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hilp", "fb"])
def test_offline_methods_do_what_a_reward_asks_for_and_hilp_reaches_goals(method, tmp_path):
    with within_three_minutes():
        edl.run(env="square", method=method, num_seeds=3, out=tmp_path / "run")
    found = zero_shot(load(tmp_path / "run"))
    assert np.mean(found["reward_share"]) > found["random_reward_share"] + 0.3
    if method == "hilp":
        assert max(found["goal_distance"]) < 0.5 * found["random_goal_distance"]


def cell_entropy(states):
    """Entropy of the unit cells that the states are in, in nats."""
    cells = np.floor(np.asarray(states).reshape(-1, 2) + 0.5)
    shares = np.unique(cells, axis=0, return_counts=True)[1] / len(cells)
    return -np.sum(shares * np.log(shares))


@pytest.mark.slow
def test_the_training_of_apt_visits_the_maze_more_evenly_than_random_actions():
    # APT spreads the states of its replay buffer. Its last policy alone goes where earlier ones have been least.
    env = maze("square")
    program = apt(env, APTConfig())
    program = dataclasses.replace(program, finish=lambda state: state.replay)
    with within_three_minutes():
        replay, _ = jax.block_until_ready(jit(lambda key: run_program(program, key))(jax.random.key(0)))
    random = rollouts(jax.random.key(1), env, uniform_policy(env), jnp.zeros((1, 1)), num=2000)
    assert cell_entropy(replay.rows.features[: replay.size, 1]) > cell_entropy(random.features[:, :, 1:]) + 0.5


@pytest.mark.slow
def test_tldr_covers_more_than_persistent_random_actions(tmp_path):
    def coverage(explorer):
        run = edl.run("square", explore=explorer, until="explore", out=tmp_path / explorer)
        return run.metrics["per_seed"][0]["data_coverage_100k"]

    with within_three_minutes():
        tldr = coverage("tldr")
    assert tldr > coverage("random_walk")
