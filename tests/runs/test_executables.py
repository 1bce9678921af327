"""Compiled functions: which are kept, and that programs with a robot are compiled with full effort."""

import jax
import jax.numpy as jnp

import edl
from edl.runs import executables
from edl.runs.executables import executable, has_robot


def test_a_robot_is_found_anywhere_in_the_arguments():
    robot, point = edl.make_env("half_cheetah"), edl.make_env("square")
    assert has_robot((jnp.zeros(2), {"env": robot}))
    assert not has_robot((jnp.zeros(2), point, None))


def test_the_functions_that_were_used_last_are_kept(monkeypatch):
    compiled = []
    monkeypatch.setattr(executables, "_executables", {})
    monkeypatch.setattr(executables, "MAX_EXECUTABLES", 2)
    monkeypatch.setattr(executables, "compile_now", lambda function, *_: compiled.append(function) or function)
    a, b, c = (lambda x, i=i: x + i for i in range(3))
    for function in (a, b, a, c, a, b):
        executable(function, (), jnp.zeros(1))
    assert compiled == [a, b, c, b]
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)  # a program per device
    for function in (a, b, c, a, b, c):
        executable(function, (), jnp.zeros(1))
    assert compiled == [a, b, c, b, c]
