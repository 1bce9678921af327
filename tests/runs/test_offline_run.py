"""An offline method learns from a user's log, and its run can be loaded without the log."""

import jax
import numpy as np
import pytest

import edl
from edl.baselines.fb import FBConfig
from edl.config import ConfigError
from edl.runs.config import RunConfig
from edl.runs.pipeline import check_explored
from edl.runs.resolve import make_context, resolve_config, with_dataset


def test_recorded_states_are_restricted_to_the_region(tmp_path):
    generator = np.random.default_rng(0)
    states, ends = generator.uniform([-0.4, -4.4], [0.4, 0.4], (40, 2)), np.arange(40) % 10 == 9
    np.savez(tmp_path / "logs.npz", states=states, actions=generator.uniform(-0.9, 0.9, (40, 2)), ends=ends)

    def explored(region):
        given = RunConfig(env="square", method="fb", explore=f"dataset:{tmp_path / 'logs.npz'}", region=region)
        config = resolve_config(given)
        found = with_dataset(config, make_context(config)).samples
        check_explored(config, jax.tree.map(lambda leaf: leaf[None], found))
        return found

    everywhere, below = explored(None), explored("y < -2")
    np.testing.assert_array_equal(everywhere.samples, np.float32(states))
    np.testing.assert_array_equal(below.samples, np.float32(states[states[:, 1] < -2]))
    np.testing.assert_array_equal(below.experience.paths, everywhere.experience.paths)  # transitions are kept
    with pytest.raises(ConfigError, match=r"y > 3.* the 40 states of '.*logs\.npz'"):
        explored("y > 3")


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
    assert run.states.experience.paths.shape == (4, 10, 2)
    assert run.metrics["per_seed"][0]["goal_distance"] > 0
    (tmp_path / "logs.npz").unlink()
    loaded = edl.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.policy.codes, run.policy.codes)
    np.testing.assert_array_equal(loaded.states.experience.lengths, run.states.experience.lengths)
