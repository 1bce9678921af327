"""A run from Python: what it hands over, what it keeps, and what it can do without."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import edl
from edl.artifacts import States
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.runs import assess, executables, driver, stages, store, tensors
from edl.runs import run as runs
from edl.runs.driver import Work
from edl.runs.interrupt import Interrupt
from edl.runs.presets import complete
from edl.runs.result import Run
from edl.runs.session import Quiet, Session, unplace
from edl.runs.config import RunConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.explore.region import Region
from edl.learn import LearnConfig, placement
from edl.learn.walking import WalkingConfig
from edl.program import instant
from edl.rl.ppo import PPOConfig

MAZE = "+-+-+-+\n|S    |\n+-+-+-+\n"
WALK = RandomWalkConfig(iterations=4, rollouts=8, num_samples=256)  # as in test_cli.py, so that it is compiled once


def right(state):
    return state[0] > 0.5


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
def test_goals_are_placed_for_all_who_come_after_and_for_them_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "WORTHWHILE", 0.0)  # so that they move in an open room
    out, further = tmp_path / "run", tmp_path / "further"
    ppo = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
    learner = LearnConfig(walking=WalkingConfig(landmarks=32, neighbours=8, episodes=50), ppo=ppo)
    settings = {"explore": "random_walk", "explorer": WALK, "discover": "kmeans", "num_skills": 4, "learner": learner}
    discovered = edl.run("square", until="discover", **settings).skills.goals
    run = edl.run("square", out=out, **settings)
    np.testing.assert_array_equal(run.skills.goals, edl.load(out).skills.goals)
    assert not np.array_equal(run.skills.goals, discovered)
    policy = (out / "policy.safetensors").read_bytes()
    # As if it had been killed before placing was noted, and before it learned: all comes out the same.
    progress = json.loads((out / store.PROGRESS).read_text())
    (out / store.PROGRESS).write_text(json.dumps({name: progress[name] for name in ("explore", "discover")}))
    (out / "policy.safetensors").unlink()
    again = edl.run("square", out=out, resume=True, **settings)
    np.testing.assert_array_equal(run.skills.goals, again.skills.goals)
    assert (out / "policy.safetensors").read_bytes() == policy
    # Whoever learns them another way starts from what was discovered.
    plain = dataclasses.replace(run.config, learner=dataclasses.replace(learner, place_goals=False))
    runs.extend(out, "learn", plain, out=further)
    np.testing.assert_array_equal(edl.load(further).skills.goals, discovered)
    assert (further / "policy.safetensors").read_bytes() != policy


def given(skills):
    return instant(lambda key: skills)


def test_what_was_discovered_is_kept_when_it_was_placed(tmp_path):
    folder = store.create(tmp_path / "run")
    places = {name: {"goals": np.full((1, 2), i, np.float32)} for i, name in enumerate(("discover", "place"))}

    def results():
        session = Session(RunConfig(), folder, Interrupt(), Quiet())
        return [session.stage(name, Work(given, (places[name],), (True,)))["goals"] for name in places]

    np.testing.assert_array_equal(results(), [[[0, 0]], [[1, 1]]])
    np.testing.assert_array_equal(results(), [[[0, 0]], [[1, 1]]])
    # As if it had been killed when the placed skills were written but not noted: they are not placed twice.
    progress = folder.read_json(store.PROGRESS)
    folder.write_json(store.PROGRESS, {"discover": progress["discover"]})
    np.testing.assert_array_equal(results(), [[[0, 0]], [[1, 1]]])
    assert float(tensors.arrays_of(folder.read("skills.safetensors"), "skills")["goals"][0, 0]) == 1
    unplace(folder)
    assert float(tensors.arrays_of(folder.read("skills.safetensors"), "skills")["goals"][0, 0]) == 0


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = edl.run("square", until="explore", explore="random_walk", explorer=WALK, discover="kmeans", num_skills=3)
    assert run.states.experience.lengths.shape == (1, 32)
    assert 0 < run.metrics["aggregate"]["data_coverage"]["mean"] <= 1
    assert run.metrics["steps"] == {"explore": 1600}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["edl", pytest.param("reverse_mi", marks=pytest.mark.slow)])
def test_the_assessment_is_compiled_ahead_for_the_shapes_that_come(method, monkeypatch):
    """What is compiled while a run learns is what it needs at the end: nothing is compiled twice."""
    names, real = [], executables.compile_now

    def counted(function, *request):
        names.append(function.__name__)
        return real(function, *request)

    config = RunConfig(env="square", method=method, explore="oracle" if method == "edl" else "", num_skills=3)
    config = stages.settle(config)
    world = stages.make_world(config)
    works = stages.rehearse(config, world)
    monkeypatch.setattr(executables, "compile_now", counted)
    runs._prepare_assessment(config, world, works)
    assert sorted(names) == ["judge_seeds", "play_at_random", "play_seeds"]
    artifacts = [driver.outline(work, 1).artifact for work in works]
    policy, skills = jax.tree.map(
        lambda x: jax.numpy.zeros(x.shape, x.dtype), (artifacts[-1], artifacts[min(1, len(works) - 1)])
    )
    made = Run(
        config=config, env=world.env, layout=world.layout, policy=policy, skills=skills if method == "edl" else None
    )
    assert len(assess.assess(made).per_seed) == 1
    assert len(names) == 3


def test_a_region_that_was_never_reached_is_refused():
    samples = np.zeros((1, 5, 2), np.float32)
    samples[0, 3, 0] = 2.0
    config = RunConfig(explore="random_walk", region=Region("x<1"))
    stages.check_explored(dataclasses.replace(config, region=None), States(jax.numpy.asarray(samples)))
    with pytest.raises(ConfigError, match="seed 0 of explore=random_walk never came into the region x<1"):
        stages.check_explored(config, States(jax.numpy.asarray(samples)))


def test_only_states_without_experience_need_a_scout():
    walking, straight = LearnConfig(distance="walking"), LearnConfig(distance="euclidean")
    for explore in ("oracle", "dataset:states.npz"):
        assert complete(RunConfig(explore=explore, learner=walking)).scout is not None
        assert complete(RunConfig(explore=explore, learner=straight)).scout is None
    assert complete(RunConfig(explore="random_walk", learner=walking)).scout is None


def test_a_method_knows_the_number_of_skills_and_the_region():
    config = complete(RunConfig(explore="random_walk", discover="kmeans", num_skills=4, region=right))
    assert (config.discoverer.num_skills, config.explorer.region) == (4, right)
    assert isinstance(config.discoverer, KMeansConfig)


def test_a_seed_has_the_same_keys_in_any_company():
    alone = stages.keys(RunConfig(seed=5), "learn")
    among = stages.keys(RunConfig(seed=3, num_seeds=4), "learn")
    assert bool((alone[0] == among[2]).all())
    assert not bool((alone[0] == stages.keys(RunConfig(seed=5), "explore")[0]).all())
