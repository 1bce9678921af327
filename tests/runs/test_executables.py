"""Compiled functions: programs with a robot are compiled with full effort, others as asked for."""

import jax.numpy as jnp

import edl
from edl.runs.executables import has_robot


def test_a_robot_is_found_anywhere_in_the_arguments():
    robot, point = edl.make_env("half_cheetah"), edl.make_env("square")
    assert has_robot((jnp.zeros(2), {"env": robot}))
    assert not has_robot((jnp.zeros(2), point, None))
