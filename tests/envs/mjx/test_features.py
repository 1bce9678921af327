"""Features of a MuJoCo model: joints, bodies, and dimensions of the observation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.interop.env_names import make_env
from tests.compiling import jit
from tests.envs.mjx.models import ARM, one, write

pytest.importorskip("mujoco.mjx")

SIZE = 9 + 8
"""qpos (two hinges and a free joint of 7) and qvel (two hinges and 6)."""


@pytest.mark.parametrize(
    ("features", "dims", "extra"),
    [
        ("shoulder,wrist", (0, 1), 0),
        ("crate_joint", (2, 3, 4), 0),
        ("crate_joint.y,shoulder", (3, 0), 0),
        ("hand", (SIZE, SIZE + 1, SIZE + 2), 3),
        ("hand.y,crate.x", (SIZE + 1, SIZE + 3), 6),
        ("wrist, 16", (1, 16), 0),
        ("1,0", (1, 0), 0),
        ((0, 5), (0, 5), 0),
    ],
)
def test_features_by_name(tmp_path, features, dims, extra):
    env = make_env(write(tmp_path, ARM), features=features)
    assert env.selection == dims
    assert (env.observation_size, env.feature_size) == (SIZE + extra, len(dims))


def test_the_position_of_a_body_is_observed(tmp_path):
    env = make_env(write(tmp_path, ARM), features="hand.x,hand.y")
    state = jit(env.reset)(jax.random.key(0))
    state = jit(env.physics.observed)(state._replace(qpos=jnp.zeros(9).at[0].set(jnp.pi / 2)))
    np.testing.assert_allclose(env.features(env.observe(state)), [0.0, 1.0], atol=1e-6)


def test_without_features_skills_are_about_the_whole_observation(tmp_path):
    env = make_env(write(tmp_path, ARM))
    assert env.feature_size == SIZE
    observation = env.observe(one(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 1)), 0))
    np.testing.assert_array_equal(env.features(observation), observation)


def test_features_may_be_a_function(tmp_path):
    env = make_env(write(tmp_path, ARM), features=lambda observation: observation[:2] ** 2)
    np.testing.assert_allclose(env.features(jnp.arange(17.0)), [0.0, 1.0])


@pytest.mark.parametrize("features", ["rootx", "hand.w", "shoulder.x", "hand,elbow"])
def test_a_model_without_the_joints_of_the_features_is_rejected(tmp_path, features):
    with pytest.raises(
        ConfigError, match=r"must be joints or bodies .*Its joints are shoulder, wrist, crate_joint; its bodies are"
    ):
        make_env(write(tmp_path, ARM), features=features)


@pytest.mark.parametrize("features", ["0,17", "-1", "hand,17"])
def test_features_out_of_range_are_rejected(tmp_path, features):
    with pytest.raises(ConfigError, match="from 0 to 16"):
        make_env(write(tmp_path, ARM), features=features)


def test_features_must_differ(tmp_path):
    with pytest.raises(ConfigError, match="must differ"):
        make_env(write(tmp_path, ARM), features="shoulder,0")
