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


WALKER = """
<mujoco model="walker">
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1"/>
    {fixed}
    <body name="torso" pos="0 0 1">
      <freejoint name="root"/>
      <geom size="0.2"/>
      <body name="leg" pos="0.2 0 0">
        <joint name="hip" type="hinge" axis="0 1 0"/>
        <geom size="0.1"/>
      </body>
    </body>
    {loose}
  </worldbody>
  <actuator>
    <motor joint="hip"/>
  </actuator>
</mujoco>
"""
BOX = '<geom type="box" size="1 1 1" pos="5 0 0"/>'
RAMP = '<geom type="plane" size="9 9 1" euler="0 20 0"/>'
CRATE = '<body pos="3 0 1"><freejoint/><geom size="0.2"/></body>'


@pytest.mark.parametrize(
    ("fixed", "loose", "features", "expected"),
    [
        ("", "", "root.x,root.y", True),
        ("", "", "0,1", True),
        ("", "", "1,0", False),
        ("", "", "root.x", False),  # a goal that is an x does not say where y is
        ("", "", "root.x,root.z", False),
        ("", "", "leg.x,leg.y", False),
        ("", "", lambda observation: observation[:2], False),
        (BOX, "", "root.x,root.y", False),
        (RAMP, "", "root.x,root.y", False),
        ("", CRATE, "root.x,root.y", False),
    ],
)
def test_nothing_depends_on_the_place_on_an_empty_floor(tmp_path, fixed, loose, features, expected):
    env = make_env(write(tmp_path, WALKER.format(fixed=fixed, loose=loose)), features=features)
    assert env.features_are_place_on_floor == expected


@pytest.mark.parametrize("option", ['gravity="1 0 -9.81"', 'wind="0 1 0"'])
def test_a_force_to_one_side_makes_the_heading_matter(tmp_path, option):
    xml = WALKER.format(fixed="", loose="").replace("<worldbody>", f"<option {option}/><worldbody>")
    assert not make_env(write(tmp_path, xml), features="root.x,root.y").features_are_place_on_floor


def test_a_robot_on_slide_joints_is_not_known_to_be_on_a_floor(tmp_path):
    assert not make_env(write(tmp_path), features="x,y").features_are_place_on_floor
