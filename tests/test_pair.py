"""Two devices at work on one seed: what they do together is what one would have done alone."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

from edl import cores, pair

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from edl import compile_cache, cores, pair
cores.enable()
compile_cache.enable()
mesh = pair.mesh()
assert mesh.size == 2

def together(function, *args):
    return jax.jit(pair.together(mesh, function))(*args)

def same(one, two, **tolerance):
    assert jax.tree.structure(one) == jax.tree.structure(two)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), **tolerance)

# Half by each, whatever is in it; and all by both, where there is no half.
def function(x):
    return {"float": 2 * x, "whole": (x * 3).astype(jnp.int32), "truth": x > 2, "matrix": jnp.outer(x, x)}
for size in (6, 5):
    items = jnp.arange(2.0 * size).reshape(size, 2)
    same(together(lambda x: pair.mapped(function, x), items), jax.vmap(function)(items), rtol=0)
keys = jax.random.split(jax.random.key(0), 4)
same(together(lambda k: pair.mapped(jax.random.normal, k), keys), jax.vmap(jax.random.normal)(keys), rtol=0)

# Each does one of two things, and both know both.
def first(x):
    return {"a": x + 1, "n": jnp.int32(7)}
def second(x):
    return jnp.sum(x), x > 0
x = jnp.array([-1.0, 2.0])
same(together(lambda x: pair.apart(lambda: first(x), lambda: second(x)), x), (first(x), second(x)), rtol=0)

# A whole run: the driver with a pair, without one, and interrupted in between.
import dataclasses
from edl.experiments import drive, stages
from edl.experiments.settings import RunConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
ppo = PPOConfig(iterations=4, rollouts=6, minibatches=3, epochs=2, hidden=(8,), max_gradient_norm=None)
learner = LearnConfig(ppo=ppo, distance="euclidean", stop_at=2.0)
config = stages.settle(RunConfig(env="square", explore="oracle", discover="kmeans", learner=learner))
world = stages.make_world(config)

def result(work, stage, cut=None):
    keys, position = stages.keys(config, stage), None
    for tick in drive.advance(work, keys):
        position = tick.position
        if position.iteration == cut:
            host = jax.tree.map(np.asarray, position.state)
            return result_from(work, keys, position._replace(state=host))
    return drive.finish(work, position, 1)

def result_from(work, keys, position):
    for tick in drive.advance(work, keys, position):
        position = tick.position
    return drive.finish(work, position, 1)

states = result(stages.explore_work(config, world), "explore")
skills = result(stages.discover_work(config, states), "discover")
work = stages.learn_work(config, world, skills, stages.Euclidean())
assert work.mesh == mesh
two = result(work, "learn")
assert all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(two))
one = result(work._replace(mesh=None), "learn")
same(one, two, rtol=2e-4, atol=2e-5)
untrained = drive.outline(work, 1).artifact
assert jax.tree.structure(untrained) == jax.tree.structure(two)
same(result(work, "learn", cut=2), two, rtol=0)

# What is compiled ahead, of mere shapes, is what will be wanted.
from edl.experiments import compiled
shorter = dataclasses.replace(config, learner=dataclasses.replace(learner, ppo=dataclasses.replace(ppo, iterations=2)))
shapes = jax.eval_shape(lambda: skills)
drive.prepare([stages.learn_work(shorter, world, shapes, stages.Euclidean())], 1).join()
def compile_now(*request):
    raise AssertionError(f"not compiled ahead: {request}")
compiled.compile_now = compile_now
result(stages.learn_work(shorter, world, skills, stages.Euclidean()), "learn")
limited = dataclasses.replace(learner, ppo=dataclasses.replace(ppo, max_gradient_norm=0.5))
for other in (dataclasses.replace(config, num_seeds=2), dataclasses.replace(config, learner=limited)):
    assert stages.learn_work(other, world, skills, stages.Euclidean()).mesh is None
print("all the same")
"""


def test_two_devices_do_what_one_does():
    inherited = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    settings = {**inherited, "JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"}
    settings["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # it runs for less time than it compiles
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all the same" in done.stdout


def test_alone_all_work_is_done_here():
    assert not pair.paired()
    items = jnp.arange(6.0)
    np.testing.assert_array_equal(pair.mapped(lambda x: 2 * x, items), 2 * items)
    assert pair.apart(lambda: 1, lambda: "b") == (1, "b")
    assert pair.mesh() is None or len(jax.devices()) > 1


def devices(**settings):
    """How many devices there are after `cores.enable`, in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    script = "import jax; from edl import cores; cores.enable(); cores.enable(); print(len(jax.devices()))"
    environment = {**inherited, "JAX_PLATFORMS": "cpu", **settings}
    words = [sys.executable, "-c", script]
    return int(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)


def test_there_are_as_many_devices_as_cores_unless_someone_has_decided():
    assert devices() == len(cores.available())
    assert devices(JAX_NUM_CPU_DEVICES="3") == 3
    assert devices(XLA_FLAGS="--xla_force_host_platform_device_count=4") == 4


def test_once_jax_is_in_use_nothing_changes():
    before = len(jax.devices())
    cores.enable()
    assert len(jax.devices()) == before
