"""A run in a Gymnasium world: from a factory to a report, through a failure of the world, and loaded again."""

import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.envs.host import WorldError
from edl.explore.drift import DriftConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from tests.interop.hosted import Line

BROKEN = {"now": False}
PPO = PPOConfig(iterations=3, rollouts=8, epochs=1, minibatches=2, hidden=(8,), normalise=True)
SETTINGS = {
    "explore": "drift",
    "explorer": DriftConfig(iterations=2, rollouts=8, num_samples=128),
    "discover": "kmeans",
    "discoverer": KMeansConfig(num_skills=3, num_samples=128),
    "learner": LearnConfig(reward="visits", distance="normalised", ppo=PPO),
    "num_skills": 3,
    "features": "0",
    "horizon": 8,
}


class Moody(Line):
    """Fails at its third step while it is broken."""

    def step(self, action):
        if BROKEN["now"] and self.time == 2:
            raise RuntimeError("out of order")
        return super().step(action)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "moody"
    edl.run(Moody, out=out, until="discover", **SETTINGS)
    return out


def test_a_world_that_fails_can_be_mended_and_the_run_goes_on_and_is_loaded_with_its_world(folder):
    BROKEN["now"] = True
    with pytest.raises(WorldError, match=r"test_host_run:Moody' raised RuntimeError: out of order .* at step 3"):
        edl.run(Moody, out=folder, resume=True, **SETTINGS)
    BROKEN["now"] = False
    run = edl.run(Moody, out=folder, resume=True, **SETTINGS)
    assert run.metrics["proof"]["verdict"]
    assert run.metrics["coverage_is_over"].startswith("a grid of dimension 0")
    assert (folder / "report.html").is_file()

    run = edl.load(folder, env=Moody)
    assert (run.config.features, run.config.horizon) == ("0", 8)
    assert run.states.samples.shape == (1, 128, 1)
    ours = run.numpy_policy().mode(np.zeros(2), 1)
    wanted = run.seed(0).policy.mode(jnp.zeros(2), run.policy.codes[0, 1])
    np.testing.assert_allclose(ours, wanted, atol=1e-5)


def test_what_is_for_gymnasium_worlds_is_refused_elsewhere():
    with pytest.raises(ConfigError, match="features and horizon"):
        edl.run("square", features="0")
    with pytest.raises(ConfigError, match="restores states"):
        edl.run(Moody, explore="go_explore")
