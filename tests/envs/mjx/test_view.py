"""A robot's own view: it does not change if the robot is moved or turned, and it is all that the dynamics depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.envs.mjx.view import heading, own_view, turned, turned_quaternion
from edl.explore.beyond import goal_input
from edl.interop.env_names import make_env
from tests.compiling import jit

mujoco = pytest.importorskip("mujoco")

QUARTER = jnp.float32(jnp.pi / 2)
HALF = np.sqrt(0.5)
LEFT = jnp.array([HALF, 0.0, 0.0, HALF])
"""A body that looks along y."""


def product(a, b):
    found = np.zeros(4)
    mujoco.mju_mulQuat(found, np.asarray(a, np.float64), np.asarray(b, np.float64))
    return found


def moved(qpos, qvel, angle, shift=(0.0, 0.0)):
    """A state whose robot is turned by ``angle`` about the origin, and then moved."""
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([[cos, -sin], [sin, cos]])
    qpos, qvel = np.array(qpos, float), np.array(qvel, float)
    qpos[:2] = turn @ qpos[:2] + shift
    qpos[3:7] = product([np.cos(angle / 2), 0, 0, np.sin(angle / 2)], qpos[3:7])
    qvel[:2] = turn @ qvel[:2]
    return qpos, qvel


def test_what_a_robot_that_looks_along_y_sees():
    assert heading(LEFT) == pytest.approx(QUARTER)
    np.testing.assert_allclose(turned(jnp.array([0.0, 3.0]), QUARTER), [3.0, 0.0], atol=1e-6)  # y is ahead
    np.testing.assert_allclose(turned(jnp.array([2.0, 0.0]), QUARTER), [0.0, -2.0], atol=1e-6)  # x is to the right
    np.testing.assert_allclose(turned_quaternion(LEFT, QUARTER), [1, 0, 0, 0], atol=1e-6)
    view, angle = own_view(jnp.array([5.0, 6.0, 0.7, *LEFT, 0.3]), jnp.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert angle == pytest.approx(QUARTER)
    np.testing.assert_allclose(view, [0.7, 1, 0, 0, 0, 0.3, 1, 0, 2, 3, 4, 5, 6], atol=1e-6)


@given(st.integers(0, 10_000), st.floats(-6.0, 6.0))
def test_the_view_does_not_depend_on_place_and_heading(seed, angle):
    draw = np.random.default_rng(seed)
    qpos, qvel = draw.normal(size=9), draw.normal(size=8)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    if np.hypot(1 - 2 * (qpos[5] ** 2 + qpos[6] ** 2), 2 * (qpos[4] * qpos[5] + qpos[3] * qpos[6])) < 0.05:
        return  # it looks up or down
    other = moved(qpos, qvel, angle, draw.normal(size=2))
    first, second = (own_view(jnp.asarray(q), jnp.asarray(v))[0] for q, v in ((qpos, qvel), other))
    if abs(first[1]) > 1e-3:  # of two equal quaternions, rounding decides
        np.testing.assert_allclose(first, second, atol=2e-4)


def test_networks_that_see_their_own_frame_see_no_place_and_no_heading():
    env = make_env("ant")
    integrate = goal_input(env, "egocentric")
    state = jit(env.reset)(jax.random.key(0))
    goal = np.array([3.0, 4.0])
    qpos, qvel = moved(state.qpos, state.qvel, 2.0, (7.0, -8.0))
    cos, sin = np.cos(2.0), np.sin(2.0)
    moved_goal = np.array([[cos, -sin], [sin, cos]]) @ goal + (7.0, -8.0)
    seen = integrate(env.observe(state), jnp.asarray(goal))
    again = integrate(
        jnp.concatenate([jnp.asarray(qpos), jnp.asarray(qvel)]).astype(jnp.float32), jnp.asarray(moved_goal)
    )
    assert seen.shape == (env.observation_size - 2 + 2,)
    np.testing.assert_allclose(seen, again, atol=1e-4)
    assert hash(integrate) == hash(goal_input(make_env("ant"), "egocentric")) != hash(goal_input(env, "offset"))


def test_the_dynamics_depend_on_the_view_alone():
    """With an elliptic cone of friction. A pyramid, which Gym's ant has, has edges that do not turn with the robot."""
    physics = make_env("ant").physics
    model = physics.spec.compile()
    model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    draw = np.random.default_rng(0)
    qpos = np.array(model.qpos0)
    qpos[2] = 0.45  # its feet are on the floor
    qpos[7:] = np.array([0, 1, 0, -1, 0, -1, 0, 1]) + 0.1 * draw.normal(size=8)
    qvel = 0.5 * draw.normal(size=model.nv)
    controls = draw.uniform(-1, 1, (30, model.nu))
    views = []
    for start in ((qpos, qvel), moved(qpos, qvel, 1.0, (20.0, 5.0))):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = start
        contacts = 0
        for control in controls:
            data.ctrl[:] = control
            mujoco.mj_step(model, data)
            contacts += data.ncon
        assert contacts > 10
        views.append(own_view(jnp.asarray(data.qpos), jnp.asarray(data.qvel))[0])
    np.testing.assert_allclose(*views, atol=1e-3)
