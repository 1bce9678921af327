"""Seeds that run as chunks become one run, with the results of their seeds alone."""

import dataclasses

import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.envs.host import EnvError
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs import chunks, lanes, many_seeds
from edl.runs.config import RunConfig

CONFIG = RunConfig(
    env="square",
    explore="random_walk",
    discover="kmeans",
    num_skills=3,
    num_seeds=5,
    seed=7,
    explorer=RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
    discoverer=KMeansConfig(),
    learner=LearnConfig(
        distance="euclidean", ppo=PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
    ),
)


def test_every_seed_is_in_one_part():
    parts = [point.config for point in many_seeds.seed_points(CONFIG, 2)]
    seeds = [part.seed + i for part in parts for i in range(part.num_seeds)]
    assert seeds == [7, 8, 9, 10, 11]
    assert max(part.num_seeds for part in parts) == 2


def test_a_part_that_failed_has_nan_and_its_reason():
    good = many_seeds.Part(
        dataclasses.replace(CONFIG, num_seeds=1),
        {"explore": {"x": np.ones((1, 2))}, "learn": {"w": np.ones((1, 3)), "count": np.ones((1,), int)}},
        [{"stage": "explore", "seconds": 1.0}, {"stage": "learn", "seconds": 1.0, "loss": [0.5]}],
        {"explore": {}, "learn": {}},
        None,
    )
    config = dataclasses.replace(CONFIG, seed=8, num_seeds=2)
    own = {"explore": {"x": np.zeros((2, 2))}}
    failed = many_seeds.Part(config, own, good.rows[:1], {"explore": {}}, "no battery")
    found = many_seeds.filled(failed, good, ["explore", "learn"])
    assert found.artifacts["explore"] is own["explore"]
    assert np.isnan(found.artifacts["learn"]["w"]).all()
    assert found.artifacts["learn"]["w"].shape == (2, 3)
    assert found.facts["learn"]["failed"] == {"8": "no battery", "9": "no battery"}
    assert found.rows == [good.rows[0], {"stage": "learn", "seconds": 1.0, "loss": [None, None]}]


@pytest.mark.slow
def test_a_seed_that_fails_alone_in_its_part_is_named_and_the_others_are_kept(tmp_path, monkeypatch):
    run_batch, learned = lanes.run_batch, []

    def broken_env(work, *arguments):
        learned.extend([True] if work.build.method is None else [])  # `learn` has no registry of methods
        if work.build.method is None and len(learned) == 2:
            raise EnvError("the env raised ValueError: no battery")
        return run_batch(work, *arguments)

    monkeypatch.setattr(lanes, "run_batch", broken_env)
    run = many_seeds.execute_seeds(dataclasses.replace(CONFIG, num_seeds=3), tmp_path / "run")
    reasons = [each.get("failed") for each in run.metrics["per_seed"]]
    assert reasons == [None, "stage 'learn': the env raised ValueError: no battery", None]
    assert [bool(np.isnan(codes).any()) for codes in edl.load(tmp_path / "run").policy.codes] == [False, True, False]


@pytest.mark.slow
def test_seeds_in_chunks_are_joined_to_one_run(tmp_path, monkeypatch):
    monkeypatch.setitem(chunks.LANES, "cpu", 2)
    out = tmp_path / "run"
    run = many_seeds.execute_seeds(CONFIG, out)
    assert [each["seed"] for each in run.metrics["per_seed"]] == [7, 8, 9, 10, 11]
    assert run.metrics["steps"] == {"explore": 4 * 8 * 50, "learn": 2 * 4 * 50}
    assert not (tmp_path / "run-seeds").exists()
    loaded = edl.load(out)
    assert [len(row["loss"]) if "loss" in row else 5 for row in loaded.log] == [5] * len(loaded.log)
    settings = {name: getattr(CONFIG, name) for name in ("explore", "explorer", "discover", "learner", "num_skills")}
    alone = edl.run("square", **settings, seed=9)
    np.testing.assert_allclose(loaded.seed(2).states.samples, alone.states.samples, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(loaded.seed(2).skills.goals, alone.skills.goals, rtol=2e-4, atol=2e-5)
    with pytest.raises(ConfigError, match="already holds a run"):
        many_seeds.execute_seeds(CONFIG, out)
    assert many_seeds.execute_seeds(CONFIG, out, resume=True).metrics == run.metrics
