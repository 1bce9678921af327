"""An offline method learns from a user's log, and its run can be loaded without the log."""

import numpy as np
import pytest

import edl
from edl.baselines.fb import FBConfig


@pytest.mark.slow
def test_a_run_from_recorded_episodes(tmp_path):
    generator = np.random.default_rng(0)
    states, ends = generator.uniform(-0.4, 0.4, (40, 2)), np.arange(40) % 10 == 9
    np.savez(tmp_path / "logs.npz", states=states, actions=generator.uniform(-0.9, 0.9, (40, 2)), ends=ends)
    config = FBConfig(skill_size=4, hidden=(8,), iterations=2, gradient_steps=2, batch_size=8)
    run = edl.run(
        env="square", method="fb", explore=f"dataset:{tmp_path / 'logs.npz'}", baseline=config, num_skills=3,
        out=tmp_path / "run",
    )  # fmt: skip
    assert run.states.experience.paths.shape == (1, 4, 10, 2)
    assert run.metrics["per_seed"][0]["goal_distance"] > 0
    (tmp_path / "logs.npz").unlink()
    loaded = edl.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.policy.codes, run.policy.codes)
    np.testing.assert_array_equal(loaded.states.experience.lengths, run.states.experience.lengths)
