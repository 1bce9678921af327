"""HILP and FB learn from a Minari dataset of a point maze, recorded here, and are prompted by goals and rewards."""

import warnings

import gymnasium
import numpy as np
import pytest

import edl
from edl.baselines.fb import FBConfig
from edl.baselines.hilp import HILPConfig
from edl.runs.result import load
from edl.tables.offline import zero_shot

minari = pytest.importorskip("minari")
NAME = "edl/square-walks-v0"
CONFIGS = {"hilp": HILPConfig(hidden=(64, 64), iterations=60), "fb": FBConfig(hidden=(64, 64), iterations=60)}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """150 episodes of the point maze: actions that mostly repeat."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MINARI_DATASETS_PATH", str(tmp_path_factory.mktemp("minari")))
    env = gymnasium.make_vec("edl.interop.registration:edl/Square-v0", num_envs=150)
    generator = np.random.default_rng(0)
    observations, actions = [env.reset(seed=0)[0]], [generator.uniform(-0.95, 0.95, (150, 2))]
    for _ in range(50):
        observations.append(env.step(actions[-1].astype(np.float32))[0])
        again = generator.uniform(size=(150, 1)) < 0.8
        actions.append(np.where(again, actions[-1], generator.uniform(-0.95, 0.95, (150, 2))))
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=np.stack(observations)[:, i],
            actions=np.stack(actions[:-1])[:, i].astype(np.float32),
            rewards=[0.0] * 50,
            terminations=[False] * 50,
            truncations=[False] * 49 + [True],
        )
        for i in range(150)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the missing author, permalink and more
        spaces = {"observation_space": env.single_observation_space, "action_space": env.single_action_space}
        minari.create_dataset_from_buffers(NAME, buffers, **spaces)
    yield f"dataset:{NAME}"
    patch.undo()


@pytest.mark.slow
@pytest.mark.parametrize("method", CONFIGS)
def test_prompts_by_goal_and_by_reward(recorded, tmp_path, method):
    edl.run(env="square", method=method, explore=recorded, baseline=CONFIGS[method], out=tmp_path / "run")
    found = zero_shot(load(tmp_path / "run"), None)
    assert found["goal_distance"][0] < 0.6 * found["random_goal_distance"]
    assert found["reward_share"][0] > found["random_reward_share"] + 0.3
