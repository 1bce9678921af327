import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import edl  # noqa: F401  registers the worlds
from edl.config import ConfigError
from edl.interop import registration

CORRIDOR = "+-+-+-+\n|S    |\n+-+-+-+"
NAMED = [name for name in registration.WORLDS if name != "edl/Maze-v0"]


@pytest.mark.parametrize("name", NAMED)
def test_passes_check_env_without_a_warning(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    assert env.spec.max_episode_steps == 50
    check_env(env.unwrapped)


@pytest.mark.parametrize(
    "code",
    [
        "import edl, gymnasium",
        "import gymnasium, edl",
        "import edl; import gymnasium.spaces as gymnasium",
        "import edl, importlib; importlib.import_module('gymnasium')",
        "import edl, edl.interop.registration as r; r.announce(); r.announce(); import gymnasium; r.register()",
    ],
)
def test_ids_are_known_in_whichever_order_one_imports(code):
    check = (
        "import gymnasium; print(gymnasium.spec('edl/Bottleneck-v0').kwargs['world'], gymnasium.__spec__.loader.name)"
    )
    command = [sys.executable, "-W", "error", "-c", f"{code}; {check}"]
    assert subprocess.check_output(command, text=True).split() == ["bottleneck", "gymnasium"]


def test_any_maze_by_path_or_text(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(CORRIDOR)
    for kwargs in ({"path": str(path)}, {"path": path}, {"text": CORRIDOR}):
        env = gymnasium.make("edl/Maze-v0", **kwargs)
        np.testing.assert_array_equal(env.observation_space.high, [2.5, 0.5])
    check_env(gymnasium.make("edl/Maze-v0", text=CORRIDOR, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [({}, "got none"), ({"path": "a", "text": "b"}, "got path and text"), ({"text": "+-+"}, "row 1"),
     ({"path": "no.txt"}, "can't be read"), ({"world": "sqare"}, "did you mean 'square'")],
)  # fmt: skip
def test_bad_mazes_are_refused(kwargs, words):
    for build in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(ConfigError, match=words):
            build("edl/Maze-v0", **kwargs)


def test_walks_the_corridor_and_stops_at_its_end():
    env = gymnasium.make("edl/Maze-v0", text=CORRIDOR)
    start, _ = env.reset(seed=0)
    first, reward, terminated, truncated, _ = env.step(np.array([0.5, 0.0], np.float32))
    np.testing.assert_allclose(first, start + np.array([0.5, 0]), atol=1e-6)
    assert (reward, terminated, truncated) == (0.0, False, False)
    over = [env.step(np.array([0.95, 0.0], np.float32)) for _ in range(49)]
    assert [step[3] for step in over] == [False] * 48 + [True]
    assert 2.49 < over[-1][0][0] < 2.5


def test_episodes_differ_without_a_seed_and_agree_with_one():
    env = gymnasium.make("edl/Square-v0")
    seeded, unseeded = env.reset(seed=3)[0], env.reset()[0]
    assert not np.array_equal(seeded, unseeded)
    np.testing.assert_array_equal(env.reset(seed=3)[0], seeded)


@pytest.mark.parametrize("action", [np.array([np.nan, 0]), np.zeros(3)])
def test_bad_actions_are_refused(action):
    env = gymnasium.make("edl/Square-v0", disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="wanted finite numbers"):
        env.step(action)


def test_frames_show_the_point_where_it_is():
    env = gymnasium.make("edl/CorridorLeft-v0", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for _ in range(20):
        env.step(np.array([0.95, 0.0], np.float32))
    after = env.render()
    assert before.dtype == np.uint8
    red = [np.argwhere((frame[..., 0] > 200) & (frame[..., 1] < 100)).mean(axis=0) for frame in (before, after)]
    width = before.shape[1]
    assert red[0][1] < 0.1 * width
    assert red[1][1] > 0.9 * width


def test_vector_first_episodes_are_those_of_the_single_env():
    several = gymnasium.make_vec("edl/Square-v0", num_envs=3)
    single = gymnasium.make("edl/Square-v0")
    assert several.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    actions = np.random.default_rng(0).uniform(-0.95, 0.95, (50, 3, 2)).astype(np.float32)
    together = [several.reset(seed=7)[0]] + [several.step(action)[0] for action in actions]
    for index in range(3):
        alone = [single.reset(seed=7 + index)[0]] + [single.step(action)[0] for action in actions[:, index]]
        np.testing.assert_allclose(np.array(together)[:, index], alone, atol=1e-5)


def test_vector_resets_in_the_step_after_the_last():
    envs = gymnasium.make_vec("edl/CorridorCenter-v0", num_envs=4, max_episode_steps=3, render_mode="rgb_array")
    starts, _ = envs.reset(seed=0)
    action = np.full((4, 2), 0.3, np.float32)
    outcomes = [envs.step(action) for _ in range(8)]
    assert [outcome[3].tolist() for outcome in outcomes] == [[over] * 4 for over in [0, 0, 1, 0, 0, 0, 1, 0]]
    for observations, rewards, terminated, _, _ in outcomes:
        assert observations in envs.observation_space
        assert not rewards.any()
        assert not terminated.any()
    for index in (3, 7):
        assert np.abs(outcomes[index][0]).max() <= 0.45
        assert not np.isclose(outcomes[index][0], starts).any()
    assert not np.isclose(outcomes[3][0], outcomes[7][0]).any()
    assert len(envs.render()) == 4


def test_vector_takes_seeds_one_by_one_or_none():
    envs = gymnasium.make_vec("edl/Tree-v0", num_envs=2)
    starts, _ = envs.reset(seed=[5, 5])
    np.testing.assert_array_equal(starts[0], starts[1])
    unseeded = [envs.reset()[0], envs.reset()[0]]
    assert len(np.unique(np.concatenate(unseeded), axis=0)) == 4
