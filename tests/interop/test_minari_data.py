"""Local Minari datasets are read, and errors name the remedy."""

import sys
import warnings

import gymnasium
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.maze import maze
from edl.explore.region import Region
from edl.interop.minari_data import is_minari_id, load_minari, load_minari_experience

NAME = "edl/square-v0"
STEPS = 5


def save(name, observations, space, env=None):
    """Write episodes of observations as a dataset."""
    minari = pytest.importorskip("minari")
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=episode,
            actions=np.zeros((STEPS, 2), np.float32),
            rewards=[0.0] * STEPS,
            terminations=[False] * STEPS,
            truncations=[False] * (STEPS - 1) + [True],
        )
        for episode in observations
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the missing author, permalink and more
        actions = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        minari.create_dataset_from_buffers(name, buffers, env, observation_space=space, action_space=actions)


def walk(env, seed):
    """The observations of an episode in a maze."""
    env.action_space.seed(seed)
    first, _ = env.reset(seed=seed)
    return np.array([first, *(env.step(env.action_space.sample())[0] for _ in range(STEPS))])


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def seen(home):
    env = gymnasium.make("edl.interop.registration:edl/Square-v0")
    episodes = [walk(env, seed) for seed in range(3)]
    save(NAME, episodes, env.observation_space, env)
    return np.concatenate(episodes)


def test_observations_of_a_maze_are_read(seen):
    states = load_minari(NAME, 2)
    assert states.dtype == np.float32
    np.testing.assert_array_equal(states, seen)
    np.testing.assert_array_equal(load_minari(NAME, 2, Region("x > 0")), seen[seen[:, 0] > 0])


def test_episodes_are_read_with_their_actions(seen):
    found = load_minari_experience(NAME, maze("square"))
    np.testing.assert_array_equal(found.samples, seen)
    np.testing.assert_array_equal(found.experience.lengths, [STEPS] * 3)
    np.testing.assert_array_equal(found.experience.paths.reshape(-1, 2), seen)
    assert found.experience.actions.shape == (3, STEPS, 2)


def test_states_of_the_wrong_size_and_empty_regions_are_rejected(seen):
    with pytest.raises(ConfigError, match="has 2 columns, but the states of this env have 3"):
        load_minari(NAME, 3)
    with pytest.raises(ConfigError, match="empty"):
        load_minari(NAME, 2, Region("x > 1000"))


def test_an_unknown_id_lists_the_local_datasets(seen):
    with pytest.raises(
        ConfigError, match=r"no local Minari dataset 'edl/sqare-v0'. Available: edl/square-v0\..*minari download"
    ):
        load_minari("edl/sqare-v0")


def test_an_unknown_id_without_local_datasets(home):
    pytest.importorskip("minari")
    with pytest.raises(ConfigError, match="Available: none"):
        load_minari("D4RL/door/human-v2")


def test_observations_must_be_vectors(home):
    square = gymnasium.spaces.Box(0, 1, (2, 2), np.float32)
    save("square-v0", [np.zeros((STEPS + 1, 2, 2), np.float32)], square)
    with pytest.raises(ConfigError, match=r"Box of shape \(2, 2\)"):
        load_minari("square-v0")
    save("parts-v0", [{"all": np.zeros((STEPS + 1, 2, 2), np.float32)}], gymnasium.spaces.Dict({"all": square}))
    with pytest.raises(ConfigError, match="got a Dict"):
        load_minari("parts-v0")


def test_a_damaged_dataset_is_rejected(seen, home):
    file = next(home.rglob("*.hdf5"))
    file.write_bytes(b"not a dataset")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_minari(NAME)


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[data\]'"):
        load_minari(NAME)


@pytest.mark.parametrize("name", ["edl/square-v0", "D4RL/door/human-v2", "mine-v10"])
def test_ids(name):
    assert is_minari_id(name)


@pytest.mark.parametrize(
    "name", ["states.npz", "data/states.csv", "../square-v0", "/x/square-v0", "square", "a-v0.npz"]
)
def test_files_are_not_ids(name):
    assert not is_minari_id(name)
