"""Seeds that run as chunks become one run, with the results of their seeds alone."""

import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs import chunks, many_seeds
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
