"""What an accelerator computes in a physics step is what MJX computes on a CPU."""

import importlib
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.mjx import acceleration
from edl.envs.mjx.acceleration import accelerated, repeat_while, runs_on_device, solve_positive_definite
from edl.envs.mjx.env import MjxEnv
from edl.envs.mjx.library import load_library
from edl.interop.env_names import make_env
from tests.compiling import jit

pytest.importorskip("mujoco.mjx")

HOPPING = """
<mujoco model="hopping">
  <option timestep="0.01" iterations="4" ls_iterations="4" integrator="Euler"/>
  <worldbody>
    <geom type="plane" size="5 5 1" condim="3"/>
    <body pos="0 0 0.3">
      <freejoint/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.1"/>
      <body pos="0.4 0 0">
        <joint name="knee" axis="0 1 0" damping="0.5" limited="true" range="-30 30"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.1"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="knee" gear="20"/>
  </actuator>
</mujoco>
"""


def physics_of_half_cheetah():
    env = make_env("half_cheetah")
    assert isinstance(env, MjxEnv)
    return env.physics


def solver():
    return importlib.import_module("mujoco.mjx._src.solver")


@pytest.mark.parametrize("size", [1, 2, 9, 14, 20])
def test_linear_systems_are_solved(size):
    key, other = jax.random.split(jax.random.key(size))
    root = jax.random.normal(key, (5, size, size))
    matrices = root @ root.mT + 0.1 * jnp.eye(size)
    vectors = jax.random.normal(other, (5, size))
    found = jit(jax.vmap(solve_positive_definite))(matrices, vectors)
    expected = np.linalg.solve(np.asarray(matrices, float), np.asarray(vectors, float)[..., None])[..., 0]
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-4)


def test_a_matrix_that_is_not_positive_definite_gives_nan():
    assert jnp.isnan(solve_positive_definite(jnp.array([[1.0, 2.0], [2.0, 1.0]]), jnp.ones(2))).all()


@pytest.mark.parametrize("stop", [0, 3, 5, 9])
def test_iterations_without_a_loop_are_those_of_the_loop(stop):
    values = {"count": jnp.int32(0), "x": jnp.float32(1.0)}

    def step(value):
        return {"count": value["count"] + 1, "x": value["x"] * 1.5}

    def goes_on(value):
        return value["count"] < stop

    expected = solver()._while_loop_scan(goes_on, step, values, 5)
    found = repeat_while(goes_on, step, values, 5)
    assert found == expected
    assert found["count"] == min(stop, 5)


def drop(enabled):
    """The model falls to the floor and pushes against the limit of its joint: its state after every step."""
    library = load_library()
    model = library.mujoco.MjModel.from_xml_string(HOPPING)
    mjx_model = library.mjx.put_model(model, impl="jax")
    data = library.mjx.make_data(model, impl="jax")

    def step(state, control):
        qpos, qvel, warmstart = state
        given = data.replace(qpos=qpos, qvel=qvel, qacc_warmstart=warmstart, ctrl=control[None])
        with accelerated(model, enabled=enabled):
            after = library.mjx.step(mjx_model, given)
        return (after.qpos, after.qvel, after.qacc_warmstart), (after.qpos, after.qvel)

    controls = jnp.sin(jnp.arange(60) / 5.0)
    start = (jnp.asarray(model.qpos0, jnp.float32), jnp.zeros(model.nv), jnp.zeros(model.nv))
    return jit(lambda: jax.lax.scan(step, start, controls)[1])()


def test_a_robot_moves_as_without_the_changes():
    (positions, velocities), (expected, expected_velocities) = drop(enabled=True), drop(enabled=False)
    assert expected[-1, 2] < expected[0, 2] - 0.1  # it fell
    np.testing.assert_allclose(positions, expected, atol=2e-4)
    np.testing.assert_allclose(velocities, expected_velocities, atol=2e-2)


def test_the_solver_calls_no_library_and_has_no_loop():
    """A GPU can only run a loop by itself if nothing in it needs the CPU."""
    library = load_library()
    physics = physics_of_half_cheetah()
    model, data = jax.tree.map(jnp.asarray, (physics.mjx_model, physics.mjx_data))

    def operations(enabled):
        def step(data):
            with accelerated(physics.model, enabled=enabled):
                return library.mjx.step(model, data).qpos

        return str(jax.make_jaxpr(step)(data))

    before, after = operations(enabled=False), operations(enabled=True)
    for name in ("cholesky", "triangular_solve", "while"):
        assert re.search(rf"= {name}\b", before)
        assert not re.search(rf"= {name}\b", after)


def test_large_models_keep_the_libraries():
    assert runs_on_device(14)
    assert not runs_on_device(60)


def test_mjx_is_as_before_after_an_error():
    modules = [importlib.import_module(f"mujoco.mjx._src.{name}") for name in acceleration.MODULES]
    model, loop = physics_of_half_cheetah().model, solver()._while_loop_scan

    def fail():
        with accelerated(model), accelerated(model):
            assert solver()._while_loop_scan is repeat_while
            assert all(module.jax is not jax for module in modules)
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert solver()._while_loop_scan is loop
    assert all(module.jax is jax for module in modules)


def test_a_thread_that_traces_physics_waits_for_the_others():
    """Each has the MJX that it asks for, and MJX is as before when all have left."""
    model, loop = physics_of_half_cheetah().model, solver()._while_loop_scan
    found, inside, leave = {}, threading.Event(), threading.Event()

    def first():
        with accelerated(model):
            inside.set()
            assert leave.wait(10)
            found["first"] = solver()._while_loop_scan

    def enter(name, enabled):
        with accelerated(model, enabled=enabled):
            found[name] = solver()._while_loop_scan

    threads = [threading.Thread(target=first)]
    threads += [threading.Thread(target=enter, args=each) for each in (("second", True), ("unchanged", False))]
    threads[0].start()
    assert inside.wait(10)
    for thread in threads[1:]:
        thread.start()
    threads[1].join(0.1)
    assert not found
    leave.set()
    for thread in threads:
        thread.join(10)
    assert found == {"first": repeat_while, "second": repeat_while, "unchanged": loop}
    assert solver()._while_loop_scan is loop
