"""The extra ``mjx``: what a user is told if it is missing or does not fit."""

import importlib
import threading

import jax.numpy as jnp
import pytest

from edl.config import ConfigError
from edl.envs.mjx import library
from edl.envs.mjx.library import check_versions, load_library, read_gym_model


@pytest.mark.parametrize(("mujoco", "mjx"), [("3.17.0", "3.17.0"), ("3.17.1", "3.17.0")])
def test_versions_of_one_release_fit(mujoco, mjx):
    check_versions(mujoco, mjx)


def test_versions_that_were_not_released_together_are_rejected():
    with pytest.raises(
        ConfigError, match=r"\(got mujoco 4.0.0 and mujoco-mjx 3.17.0\).*in a checkout, pip install '\.\[mjx\]'"
    ):
        check_versions("4.0.0", "3.17.0")


@pytest.mark.parametrize(("versions", "missing"), [({"mujoco": "3.17.0"}, "mujoco-mjx"), ({}, "mujoco and mujoco-mjx")])
def test_missing_packages_are_named_with_the_extra(monkeypatch, versions, missing):
    monkeypatch.setattr(library, "installed_version", versions.get)
    with pytest.raises(
        ConfigError, match=rf"that are not installed: {missing}\. .*in a checkout, pip install '\.\[mjx\]'"
    ):
        load_library()


def test_an_import_that_fails_says_what_to_do(monkeypatch):
    def fail(name):
        raise AttributeError("'NoneType' object has no attribute 'glGetError'")

    monkeypatch.setattr(library, "installed_version", lambda package: "3.17.0")
    monkeypatch.setattr(library.importlib, "import_module", fail)
    library._import_library.cache_clear()
    with pytest.raises(ConfigError, match=r"glGetError.*Unset MUJOCO_GL"):
        load_library()


def test_the_models_of_gym_are_found_without_importing_it():
    assert '<mujoco model="ant">' in read_gym_model("ant.xml")
    with pytest.raises(ConfigError, match=r"'no_such.xml' is part of gymnasium"):
        read_gym_model("no_such.xml")


@pytest.mark.parametrize("stop", [0, 3, 5, 9])
def test_the_unrolled_line_search_is_the_loop_of_mjx(stop):
    solver = importlib.import_module("mujoco.mjx._src.solver")
    values = {"count": jnp.int32(0), "x": jnp.float32(1.0)}

    def step(value):
        return {"count": value["count"] + 1, "x": value["x"] * 1.5}

    def goes_on(value):
        return value["count"] < stop

    loop = solver._while_loop_scan
    expected = loop(goes_on, step, values, 5)
    with library.unrolled_line_search():
        assert solver._while_loop_scan is library.repeat_while
        found = solver._while_loop_scan(goes_on, step, values, 5)
    assert solver._while_loop_scan is loop
    assert found == expected
    assert found["count"] == min(stop, 5)


def test_a_thread_that_traces_physics_waits_for_the_others():
    """Each has the line search that it asks for, and MJX has its own again when all have left."""
    solver = importlib.import_module("mujoco.mjx._src.solver")
    loop, found, inside, leave = solver._while_loop_scan, {}, threading.Event(), threading.Event()

    def first():
        with library.unrolled_line_search():
            inside.set()
            assert leave.wait(10)
            found["first"] = solver._while_loop_scan

    def enter(name, unroll):
        with library.unrolled_line_search(unroll=unroll):
            found[name] = solver._while_loop_scan

    threads = [threading.Thread(target=first)]
    threads += [threading.Thread(target=enter, args=each) for each in (("second", True), ("with the loop", False))]
    threads[0].start()
    assert inside.wait(10)
    for thread in threads[1:]:
        thread.start()
    threads[1].join(0.1)
    assert not found
    leave.set()
    for thread in threads:
        thread.join(10)
    assert found == {"first": library.repeat_while, "second": library.repeat_while, "with the loop": loop}
    assert solver._while_loop_scan is loop


def test_the_loop_of_mjx_comes_back_after_an_error():
    solver = importlib.import_module("mujoco.mjx._src.solver")
    loop = solver._while_loop_scan
    with pytest.raises(MemoryError), library.unrolled_line_search(), library.unrolled_line_search():
        raise MemoryError
    assert solver._while_loop_scan is loop
