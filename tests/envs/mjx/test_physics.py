"""The physics of a ball, compared with formulas by hand and with MuJoCo on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.mjx.names import make_robot
from edl.envs.rollout import empty_skill, rollout
from edl.interop.env_names import make_env
from tests.compiling import jit
from tests.envs.mjx.models import BALL, DAMPING, GEAR, MASS, TIMESTEP, UNSTABLE, one, write

pytest.importorskip("mujoco.mjx")


@pytest.fixture
def ball(tmp_path):
    return make_env(write(tmp_path) + "?frame_skip=3", features="x,y", horizon=4)


def push(env, action, num=3):
    """Episodes with one action, and their start states."""
    keys = jax.random.split(jax.random.key(0), num)

    def play(key):
        actor = lambda key, observation, code: (jnp.asarray(action, jnp.float32), jnp.zeros(0))  # noqa: E731
        return rollout(key, env, actor, empty_skill(), start_key=key)

    return jit(jax.vmap(play))(keys)


def moved(position, velocity, force, steps):
    """Semi-implicit Euler with implicit damping."""
    for _ in range(steps):
        acceleration = (force - DAMPING * velocity) / (MASS + TIMESTEP * DAMPING)
        velocity = velocity + TIMESTEP * acceleration
        position = position + TIMESTEP * velocity
    return position, velocity


def test_a_ball_moves_by_newtons_law(ball):
    episodes = push(ball, [1.5, -0.5])
    start = np.asarray(episodes.observations[:, 0], float)
    for step in range(5):
        x, vx = moved(start[:, 0], start[:, 2], 1.5 * GEAR, 3 * step)
        y, vy = moved(start[:, 1], start[:, 3], -0.5, 3 * step)
        np.testing.assert_allclose(episodes.observations[:, step].T, [x, y, vx, vy], rtol=1e-5, atol=1e-6)


def test_actions_are_clipped_to_the_range_of_each_actuator(ball):
    low, high = ball.action_space
    np.testing.assert_array_equal(low, [-2, -1])
    np.testing.assert_array_equal(high, [2, 1])
    np.testing.assert_array_equal(push(ball, [9.0, -9.0]).observations, push(ball, [2.0, -1.0]).observations)


def test_an_episode_is_truncated_at_its_horizon_and_never_terminates(ball):
    episodes = push(ball, [0.0, 0.0])
    assert not episodes.terminated.any()
    np.testing.assert_array_equal(episodes.truncated[0], [False, False, False, True])


def test_the_noise_at_reset_is_gyms(tmp_path):
    env = make_env(write(tmp_path) + "?noise=0.1")
    states = jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 4096))
    assert 0.099 < np.abs(states.qpos).max() <= 0.1
    np.testing.assert_allclose(np.std(states.qpos, axis=0), 0.1 / np.sqrt(3), rtol=0.05)
    np.testing.assert_allclose(np.std(states.qvel, axis=0), 0.1, rtol=0.05)


def test_a_keyframe_is_the_start(tmp_path):
    keyed = BALL.replace("</mujoco>", '<keyframe><key qpos="1 2" qvel="0 3"/></keyframe></mujoco>')
    env = make_env(write(tmp_path, keyed) + "?noise=0")
    np.testing.assert_allclose(env.observe(env.reset(jax.random.key(0))), [1, 2, 0, 3])


def test_a_model_that_is_made_twice_compiles_once(tmp_path):
    traces = []

    @jax.jit
    def features(env, observation):
        traces.append(env)
        return env.features(observation)

    for folder in (tmp_path, tmp_path):
        make_robot.cache_clear()
        features(make_env(write(folder), features="x,y"), jnp.zeros(4))
    assert len(traces) == 1
    features(make_env(write(tmp_path) + "?noise=0.5", features="x,y"), jnp.zeros(4))
    assert len(traces) == 2


def test_the_state_has_only_what_the_next_step_needs(tmp_path):
    state = jax.eval_shape(make_env(write(tmp_path)).reset, jax.random.key(0))
    assert {name: leaf.shape for name, leaf in state._asdict().items()} == {
        "qpos": (2,), "qvel": (2,), "act": (0,), "warmstart": (2,), "bodies": (0, 3), "time": (),
    }  # fmt: skip


def test_physics_that_diverges_gives_nan_until_the_end_of_the_episode(tmp_path):
    env = make_env(write(tmp_path, UNSTABLE), horizon=4)
    episodes = push(env, [1.0, 1.0])
    lost = np.isnan(episodes.observations[:, :, :2]).any(axis=-1)
    assert not lost[:, 0].any()
    assert lost[:, 1:].all()


def test_a_robot_whose_physics_diverges_can_be_put_at_rest(tmp_path):
    env = make_env(write(tmp_path, UNSTABLE) + "?divergence=rest", horizon=4)
    episodes = push(env, [1.0, 1.0])
    places, speeds = np.split(np.asarray(episodes.observations), 2, axis=-1)
    np.testing.assert_array_equal(places[:, 1:], np.broadcast_to(places[:, :1], places[:, 1:].shape))
    assert (speeds[:, 1:] == 0).all()
    assert np.isnan(push(env, [jnp.nan, 1.0]).observations[:, 1:, :2]).all()  # training diverged, not the physics


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<mujoco><foo/></mujoco>", r"not valid MuJoCo XML \(XML Error: Schema violation.*'foo', line 1\)"),
        ("hello", "not valid MuJoCo XML"),
        (BALL.replace("motor joint", "motor tendon"), "not valid MuJoCo XML"),
        (BALL.partition("<actuator>")[0] + "</mujoco>", "must have actuators"),
        (BALL.replace('cone="elliptic"', 'integrator="implicit"'), "MJX cannot simulate .*IMPLICIT"),
    ],
)
def test_invalid_models_are_rejected(tmp_path, xml, message):
    with pytest.raises(ConfigError, match=message):
        make_env(write(tmp_path, xml))


def test_a_missing_model_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file '.*nothing.xml'"):
        make_env(f"mjx:{tmp_path}/nothing.xml")


def test_the_reference_plays_the_same_trajectory(ball):
    from edl.envs.mjx.reference import ReferenceRobot

    episodes = push(ball, [1.0, 0.5])
    starts = jax.vmap(ball.reset)(jax.random.split(jax.random.key(0), 3))
    robot = ReferenceRobot(ball)
    for i in range(3):
        played = robot.play(one(starts, i), np.tile([1.0, 0.5], (4, 1)))
        np.testing.assert_allclose(played, episodes.observations[i], rtol=1e-5, atol=1e-6)
