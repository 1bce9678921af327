"""Compiled functions: which are kept, and that programs with a robot are compiled with full effort."""

import jax
import jax.numpy as jnp

import edl
from edl.envs.mjx import acceleration
from edl.runs import executables
from edl.runs.executables import compiler_options, executable, robots_in
from edl.runtime import effort
from edl.runtime.effort import Effort


def test_a_robot_is_found_anywhere_in_the_arguments():
    robot, point = edl.make_env("half_cheetah"), edl.make_env("square")
    assert robots_in((jnp.zeros(2), {"env": robot})) == [robot]
    assert not robots_in((jnp.zeros(2), point, None))


def test_only_programs_with_a_small_robot_run_their_loops_on_the_gpu(monkeypatch):
    robot, point = edl.make_env("half_cheetah"), edl.make_env("square")
    monkeypatch.setattr(effort, "_enabled", True)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert dict(compiler_options(Effort.LEAST, (robot,))) == effort.LOOPS_ON_GPU
    assert compiler_options(Effort.LEAST, (point,)) == ()
    monkeypatch.setattr(acceleration, "MAX_DIRECT", 2)
    assert compiler_options(Effort.LEAST, (robot,)) == ()


def test_programs_with_a_robot_are_compiled_with_full_effort_on_a_cpu(monkeypatch):
    robot, point = edl.make_env("half_cheetah"), edl.make_env("square")
    monkeypatch.setattr(effort, "_enabled", True)
    assert compiler_options(Effort.LEAST, (robot,)) == ()
    assert dict(compiler_options(Effort.LEAST, (point,))) == effort.OPTIONS[Effort.LEAST]


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
