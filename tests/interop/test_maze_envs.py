import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from edl.config import ConfigError
from edl.interop.registration import GYMNASIUM_ENVS, register_envs

CORRIDOR = "+-+-+-+\n|S    |\n+-+-+-+"
NAMED = [name for name in GYMNASIUM_ENVS if name != "edl/Maze-v0"]


@pytest.mark.parametrize("name", NAMED)
def test_passes_check_env_without_a_warning(name):
    env = gymnasium.make(name, render_mode="rgb_array")
    assert env.spec.max_episode_steps == 50
    check_env(env.unwrapped)


@pytest.mark.parametrize(
    "code",
    [
        "gymnasium.make('edl.interop.registration:edl/Bottleneck-v0')",
        "import edl.interop.registration; gymnasium.make('edl/Bottleneck-v0')",
        "from edl.interop.registration import register_envs; register_envs(); gymnasium.make('edl/Bottleneck-v0')",
        "gymnasium.make_vec('edl.interop.registration:edl/Bottleneck-v0', num_envs=2)",
    ],
)
def test_ids_are_registered_by_an_import_of_the_module(code):
    check = "print(gymnasium.spec('edl/Bottleneck-v0').kwargs['env'])"
    command = [sys.executable, "-W", "error", "-c", f"import gymnasium; {code}; {check}"]
    assert subprocess.check_output(command, text=True).split() == ["bottleneck"]


def test_registering_again_changes_nothing():
    before = dict(gymnasium.registry)
    register_envs()
    assert gymnasium.registry == before


def test_import_edl_imports_no_gymnasium_and_installs_no_import_hook():
    code = (
        "import sys; before = list(sys.meta_path); import edl, edl.interop.env_names; "
        "print(sys.meta_path == before, 'gymnasium' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["True", "False"]


def test_any_maze_by_path_or_text(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(CORRIDOR)
    for kwargs in ({"path": str(path)}, {"path": path}, {"text": CORRIDOR}):
        env = gymnasium.make("edl/Maze-v0", **kwargs)
        np.testing.assert_array_equal(env.observation_space.high, [2.5, 0.5])
    check_env(gymnasium.make("edl/Maze-v0", text=CORRIDOR, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [({}, r"exactly one.* \(got none\)"), ({"path": "a", "text": "b"}, "got path and text"), ({"text": "+-+"}, "row 1"),
     ({"path": "no.txt"}, "cannot be read"), ({"env": "sqare"}, "Did you mean 'square'")],
)  # fmt: skip
def test_bad_mazes_are_rejected(kwargs, words):
    for build in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(ConfigError, match=words):
            build("edl/Maze-v0", **kwargs)


def test_a_point_moves_along_the_corridor_and_stops_at_its_end():
    env = gymnasium.make("edl/Maze-v0", text=CORRIDOR)
    start, _ = env.reset(seed=0)
    first, reward, terminated, truncated, _ = env.step(np.array([0.5, 0.0], np.float32))
    np.testing.assert_allclose(first, start + np.array([0.5, 0]), atol=1e-6)
    assert (reward, terminated, truncated) == (0.0, False, False)
    rest = [env.step(np.array([0.95, 0.0], np.float32)) for _ in range(49)]
    assert [step[3] for step in rest] == [False] * 48 + [True]
    assert 2.49 < rest[-1][0][0] < 2.5


def test_episodes_differ_without_a_seed_and_are_equal_with_one():
    env = gymnasium.make("edl/Square-v0")
    seeded, unseeded = env.reset(seed=3)[0], env.reset()[0]
    assert not np.array_equal(seeded, unseeded)
    np.testing.assert_array_equal(env.reset(seed=3)[0], seeded)


@pytest.mark.parametrize("action", [np.array([np.nan, 0]), np.zeros(3)])
def test_bad_actions_are_rejected(action):
    env = gymnasium.make("edl/Square-v0", disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="actions must be finite numbers"):
        env.step(action)


def test_frames_show_the_position_of_the_point():
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


def test_the_first_episodes_of_the_vector_env_equal_those_of_the_single_env():
    several = gymnasium.make_vec("edl/Square-v0", num_envs=3)
    single = gymnasium.make("edl/Square-v0")
    assert several.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    actions = np.random.default_rng(0).uniform(-0.95, 0.95, (50, 3, 2)).astype(np.float32)
    together = [several.reset(seed=7)[0]] + [several.step(action)[0] for action in actions]
    for index in range(3):
        alone = [single.reset(seed=7 + index)[0]] + [single.step(action)[0] for action in actions[:, index]]
        np.testing.assert_allclose(np.array(together)[:, index], alone, atol=1e-5)


def test_the_vector_env_resets_in_the_step_after_the_end():
    envs = gymnasium.make_vec("edl/CorridorCenter-v0", num_envs=4, max_episode_steps=3, render_mode="rgb_array")
    starts, _ = envs.reset(seed=0)
    action = np.full((4, 2), 0.3, np.float32)
    outcomes = [envs.step(action) for _ in range(8)]
    assert [outcome[3].tolist() for outcome in outcomes] == [[truncated] * 4 for truncated in [0, 0, 1, 0, 0, 0, 1, 0]]
    for observations, rewards, terminated, _, _ in outcomes:
        assert observations in envs.observation_space
        assert not rewards.any()
        assert not terminated.any()
    for index in (3, 7):
        assert np.abs(outcomes[index][0]).max() <= 0.45
        assert not np.isclose(outcomes[index][0], starts).any()
    assert not np.isclose(outcomes[3][0], outcomes[7][0]).any()
    assert len(envs.render()) == 4


def test_the_vector_env_accepts_a_list_of_seeds_or_none():
    envs = gymnasium.make_vec("edl/Tree-v0", num_envs=2)
    starts, _ = envs.reset(seed=[5, 5])
    np.testing.assert_array_equal(starts[0], starts[1])
    unseeded = [envs.reset()[0], envs.reset()[0]]
    assert len(np.unique(np.concatenate(unseeded), axis=0)) == 4
