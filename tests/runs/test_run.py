"""A run from Python: its artifacts, its folder, and what it needs to be loaded and continued."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import edl
from edl.artifacts import States
from edl.config import ConfigError, RunWarning
from edl.discover.kmeans import KMeansConfig
from edl.envs import layouts
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig, placement
from edl.learn.walking import WalkingConfig
from edl.rl.ppo import PPOConfig
from edl.runs import evaluation, store, tensors
from edl.runs.config import RunConfig
from edl.runs.manifest import MANIFEST
from edl.runs.presets import complete
from edl.runs.resolve import Given, resolve_config, with_given
from edl.runs.result import load
from edl.runs.run import execute_run, extend, import_stages

MAZE = "+-+-+-+\n|S    |\n+-+-+-+\n"
WALK = RandomWalkConfig(iterations=4, rollouts=8, num_samples=256)  # as in the CLI tests, so that it is compiled once
PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))


def right(state):
    return state[0] > 0.5


def goals_in(path):
    """The goals of the only seed in a file of skills."""
    (goals,) = tensors.arrays_of(path.read_bytes(), path.name)["goals"]
    return goals


@pytest.fixture
def maze(tmp_path):
    path = tmp_path / "hall.txt"
    path.write_text(MAZE)
    return path


def test_a_run_can_be_loaded_after_its_inputs_are_gone(tmp_path, maze):
    data, out = tmp_path / "states.npy", tmp_path / "run"
    states = np.random.default_rng(0).uniform([-0.5, -0.5], [2.5, 0.5], (90, 2)).astype(np.float32)
    np.save(data, states)
    settings = {"explore": f"dataset:{data}", "discover": "kmeans", "num_skills": 2, "num_seeds": 2, "region": right}
    run = edl.run(str(maze), out=out, until="discover", **settings)
    data.unlink()
    maze.unlink()
    loaded = edl.load(out)
    kept = states[states[:, 0] > 0.5]
    for each in (run, loaded):
        np.testing.assert_array_equal(each.states.samples, [kept, kept])
        assert each.skills.goals.shape == (2, 2, 2)
        assert each.policy is None
        assert each.layout.name == "hall"
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), run.skills, loaded.skills))
    assert [seed["data_coverage"] for seed in loaded.metrics["per_seed"]] == [None, None]
    assert json.loads((out / "config.json").read_text())["region"] == "function right"
    with pytest.raises(ConfigError, match="from Python"):
        edl.run(str(maze), out=out, resume=True, maze=MAZE, **{**settings, "region": "function right"})


@pytest.mark.slow
def test_placed_goals_have_a_file_of_their_own_and_learning_without_them_starts_from_the_discovered_ones(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(placement, "MIN_SAVING", 0.0)  # so that goals move in an open room
    out, further = tmp_path / "run", tmp_path / "further"
    learner = LearnConfig(walking=WalkingConfig(landmarks=32, neighbours=8, episodes=50), ppo=PPO)
    settings = {"explore": "random_walk", "explorer": WALK, "discover": "kmeans", "num_skills": 4, "learner": learner}
    discovered = edl.run("square", until="discover", **settings).skills.goals
    run = edl.run("square", out=out, **settings)
    np.testing.assert_array_equal(run.skills.goals, edl.load(out).skills.goals)
    assert not np.array_equal(run.skills.goals, discovered)
    np.testing.assert_array_equal(goals_in(out / "skills.safetensors"), discovered)
    np.testing.assert_array_equal(goals_in(out / "placed_skills.safetensors"), run.skills.goals)
    assert not (out / "checkpoint" / "distance.safetensors").exists()
    policy = (out / "policy.safetensors").read_bytes()
    # As if the run had been killed before `place` was recorded: everything after it comes out the same.
    progress = json.loads((out / store.PROGRESS).read_text())
    (out / store.PROGRESS).write_text(json.dumps({name: progress[name] for name in ("explore", "discover")}))
    (out / MANIFEST).unlink()
    (out / "policy.safetensors").unlink()
    again = edl.run("square", out=out, resume=True, **settings)
    np.testing.assert_array_equal(run.skills.goals, again.skills.goals)
    assert (out / "policy.safetensors").read_bytes() == policy
    plain = dataclasses.replace(run.config, learner=dataclasses.replace(learner, place_goals=False))
    extend(out, "learn", plain, out=further)
    np.testing.assert_array_equal(edl.load(further).skills.goals, discovered)
    assert (further / "policy.safetensors").read_bytes() != policy


@pytest.mark.slow
def test_discovered_and_placed_skills_are_both_on_disk(tmp_path, monkeypatch):
    out = tmp_path / "run"
    learner = LearnConfig(walking=WalkingConfig(landmarks=32, neighbours=8, episodes=50), ppo=PPO)
    settings = {"explore": "random_walk", "explorer": WALK, "discover": "kmeans", "num_skills": 3, "learner": learner}
    run = edl.run("square", out=out, **settings)
    discovered = (out / "skills.safetensors").read_bytes()
    np.testing.assert_array_equal(goals_in(out / "placed_skills.safetensors"), run.skills.goals)
    assert list(run.metrics["seconds"]) == [
        "compile", "explore", "discover", "measure", "place", "learn", "evaluate", "draw", "total"
    ]  # fmt: skip
    assert "measure" in (out / "report.html").read_text()
    assert [(report["codes_used"], report["dead_codes"]) for report in run.metrics["codebook"]] == [(3, 0)]
    # `load` returns the skills in the file of `place`.
    skills = load(out).skills
    moved = eqx.tree_at(lambda skills: skills.goals, skills, skills.goals + 0.25)
    store.Folder(out).save("placed_skills.safetensors", moved)
    np.testing.assert_array_equal(load(out).skills.goals, moved.goals)
    # As if the run had been killed after it wrote the placed skills and before it recorded `place`: the discovered
    # goals are placed again, not the placed ones.
    progress = json.loads((out / store.PROGRESS).read_text())
    (out / store.PROGRESS).write_text(json.dumps({name: progress[name] for name in ("explore", "discover")}))
    (out / MANIFEST).unlink()
    monkeypatch.setattr(evaluation, "draw_figures", lambda *_: evaluation.Drawings())
    again = edl.run("square", out=out, resume=True, **settings)
    np.testing.assert_array_equal(again.skills.goals, run.skills.goals)
    np.testing.assert_array_equal(goals_in(out / "placed_skills.safetensors"), run.skills.goals)
    assert (out / "skills.safetensors").read_bytes() == discovered
    # A folder of edl 0.1, in which the placed skills replaced the discovered ones, can be loaded.
    (out / "placed_skills.safetensors").unlink()
    store.Folder(out).save("skills.safetensors", jax.tree.map(lambda leaf: leaf[None], again.skills))
    loaded = edl.load(out)
    np.testing.assert_array_equal(loaded.skills.goals, run.skills.goals)
    np.testing.assert_array_equal(loaded.policy.codes, run.policy.codes)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = edl.run("square", until="explore", explore="random_walk", explorer=WALK, discover="kmeans", num_skills=3)
    assert run.states.experience.lengths.shape == (32,)
    assert 0 < run.metrics["aggregate"]["data_coverage"]["mean"] <= 1
    assert run.metrics["steps"] == {"explore": 1600}
    assert list(tmp_path.iterdir()) == []


def test_a_run_can_start_from_given_artifacts(tmp_path):
    as_in_the_cli_tests = dataclasses.replace(PPO, iterations=40)  # so that it is compiled once
    euclidean = LearnConfig(distance="euclidean", ppo=as_in_the_cli_tests)
    config = resolve_config(RunConfig(explore="oracle", discover="kmeans", num_skills=3, learner=euclidean))
    source = execute_run(config, until="discover")
    moved = eqx.tree_at(lambda skills: skills.goals, source.skills, source.skills.goals + 0.25)
    import_stages(config, tmp_path / "run", {"explore": States(source.states.samples), "discover": moved})
    run = execute_run(config, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(run.skills.goals, moved.goals)
    assert run.policy is not None


def test_a_run_of_another_version_is_not_resumed(tmp_path):
    out = tmp_path / "run"
    settings = {"explore": "random_walk", "explorer": WALK, "discover": "kmeans", "num_skills": 3}
    edl.run("square", out=out, until="explore", **settings)
    made_by = json.loads((out / "provenance.json").read_text())
    store.Folder(out).write_json("provenance.json", {**made_by, "edl": "0.0.1"})
    with pytest.raises(ConfigError, match=r"was started by edl 0\.0\.1 and must be resumed by it"):
        edl.run("square", out=out, resume=True, until="explore", **settings)


def test_the_horizon_of_a_maze_can_be_set():
    settings = {"explore": "random_walk", "explorer": WALK, "discover": "kmeans", "num_skills": 3, "until": "explore"}
    run = edl.run("square", horizon=7, **settings)
    assert run.env.horizon == 7
    assert run.states.experience.paths.shape == (32, 8, 2)


def test_only_states_without_experience_need_a_scout():
    walking, straight = LearnConfig(distance="walking"), LearnConfig(distance="euclidean")
    for explore in ("oracle", "dataset:states.npz"):
        assert complete(RunConfig(explore=explore, learner=walking)).scout is not None
        assert complete(RunConfig(explore=explore, learner=straight)).scout is None
    assert complete(RunConfig(explore="random_walk", learner=walking)).scout is None


def test_the_number_of_skills_and_the_region_are_copied_to_the_methods():
    config = complete(RunConfig(explore="random_walk", discover="kmeans", num_skills=4, region=right))
    assert (config.discoverer.num_skills, config.explorer.region) == (4, right)
    assert isinstance(config.discoverer, KMeansConfig)


def test_a_run_in_a_users_process_changes_no_setting():
    kept = ("JAX_NUM_CPU_DEVICES", "EDL_CACHE", "JAX_COMPILATION_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in kept}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.runs.user_process"]
    subprocess.run(command, env={**environment, "JAX_PLATFORMS": "cpu"}, cwd=root, check=True)


def test_states_outside_of_the_maze_are_named():
    config = RunConfig(env="square")
    generator = np.random.default_rng(0)
    states = generator.choice(layouts.load("square").cells, 200) + generator.uniform(-0.5, 0.5, (200, 2))
    with_given(config, Given(states))
    with pytest.raises(ConfigError, match=r"% of the states of this run lie outside of the maze 'square'.*unit"):
        with_given(config, Given(100 * states))
    states[:20] += 6.0
    with pytest.warns(RunWarning, match=r"10 % of the states of this run"):
        with_given(config, Given(states))
