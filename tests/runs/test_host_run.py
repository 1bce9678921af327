"""A run in a Gymnasium env: from a factory to a report, resumed after the env failed, and loaded again."""

import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.cli import main
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.envs.host import EnvError
from edl.explore.drift import DriftConfig
from edl.interop import gymnasium_envs
from edl.interop.env_names import allow_import, make_env
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs import films, sweep
from edl.runs import grid as grids
from edl.runs.progress import SilentProgress
from tests.interop.hosted import Closing, FailingLine

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


TROUBLES = {
    "raise": r"raised RuntimeError: the motor is on fire \(hosted.py, line \d+\)",
    "nan": "returned nan in dimension 0 of its observation",
    "shape": r"returned an observation of shape \(3,\) instead of \(2,\)",
    "die": r"crashed its worker process \(exit status 7\)",
}


class Stopping(SilentProgress):
    """Stops a run, like Ctrl-C, as soon as it has explored."""

    def stage_finished(self, stage):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "failing"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gymnasium_envs, "choose_workers", lambda env: 1)
        edl.run(FailingLine, out=out, until="discover", **SETTINGS)
    return out


def test_a_run_whose_env_failed_can_be_resumed_and_loaded(folder, monkeypatch):
    host = make_env("tests.interop.hosted:FailingLine", features="0", horizon=8).host
    for trouble, said in TROUBLES.items():
        host.close()  # a running worker does not see the new variable
        monkeypatch.setenv("LINE_TROUBLE", trouble)
        with pytest.raises(EnvError, match=rf"env 'tests.interop.hosted:FailingLine' {said} at step 3 of an episode"):
            edl.run(FailingLine, out=folder, resume=True, **SETTINGS)
    monkeypatch.delenv("LINE_TROUBLE")
    run = edl.run(FailingLine, out=folder, resume=True, **SETTINGS)
    assert host.workers == 1
    assert run.metrics["proof"]["verdict"]
    assert run.metrics["coverage_is_over"].startswith("a grid over feature 0")
    assert (folder / "report.html").is_file()

    run = edl.load(folder, env=FailingLine)
    assert (run.config.features, run.config.horizon) == ("0", 8)
    assert run.states.samples.shape == (128, 1)
    ours = run.numpy_policy().mode(np.zeros(2), 1)
    expected = run.policy.mode(jnp.zeros(2), run.policy.codes[1])
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_the_report_and_edl_figure_show_pictures_of_the_skills(folder, monkeypatch):
    """After the test above, the run is finished."""
    assert (folder / "figures" / "pictures.png").stat().st_size > 1000
    assert "as the env renders it" in (folder / "report.html").read_text()
    words = ["figure", str(folder), "--env", "tests.interop.hosted:FailingLine", "--only", "pictures", "--format"]
    assert main([*words, "svg"]) == 0
    drawn = (folder / "figures" / "pictures.svg").read_text()
    assert drawn.count("<image") == SETTINGS["num_skills"] * films.NUM_PICTURES
    monkeypatch.setenv("LAMP_IS_BROKEN", "1")
    assert main([*words, "svg"]) == 0
    drawn = (folder / "figures" / "pictures.svg").read_text()
    assert "<image" not in drawn


def test_settings_that_an_env_does_not_support_are_rejected():
    with pytest.raises(ConfigError, match="has fixed features"):
        edl.run("square", features="0")
    with pytest.raises(ConfigError, match="restores states"):
        edl.run(FailingLine, explore="go_explore")


def test_runs_close_their_envs_which_can_be_used_again(monkeypatch):
    monkeypatch.setattr(Closing, "opened", 0)
    run = edl.run(Closing, **SETTINGS)
    assert Closing.opened == 0
    assert run.rollout(0, n=3).features.shape == (3, 9, 1)
    assert Closing.opened > 0
    host = make_env("tests.interop.hosted:Closing", features="0", horizon=8).host
    host.close()
    with pytest.raises(KeyboardInterrupt):
        edl.run(Closing, progress=Stopping(), **SETTINGS)
    assert Closing.opened == 0
    assert host.failure is None


@pytest.mark.slow
def test_sweeps_close_their_envs(monkeypatch, tmp_path):
    monkeypatch.setattr(Closing, "opened", 0)
    content = {"env": allow_import("tests.interop.hosted:Closing"), "features": "0", "horizon": 8, "explore": "drift"}
    content |= {"explorer": {"iterations": 2, "rollouts": 8, "num_samples": 128}, "discover": "kmeans"}
    content |= {"discoverer": {"num_samples": 128}, "num_skills": 3, "learner.reward": "visits"}
    content |= {"learner.distance": "normalised", "learner.ppo": {"iterations": 3, "rollouts": 8, "epochs": 1}}
    content["learner.ppo"] |= {"minibatches": 2, "hidden": [8]}
    grid = grids.parse({"run": content, "grid": {"learner.ppo.gamma": [0.9, 0.99]}}, "sweep.json")
    assert len(sweep.sweep(grid, tmp_path / "swept").metrics) == 2
    assert Closing.opened == 0
