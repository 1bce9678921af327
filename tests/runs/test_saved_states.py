"""Loaded states say whether their experience is a sample of the episodes; it then has no curve of coverage."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from edl.envs import layouts
from edl.envs.maze import maze
from edl.explore.beyond import BeyondConfig, beyond
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.evaluation import _explored
from edl.runs.result import Run
from edl.runs.saved_states import load_states

ENV = maze("square", horizon=4)
TINY = BeyondConfig(iterations=2, rollouts=4, minibatches=2, hidden=(8,), cells=64, num_samples=32)


def states_like(config):
    """Zeros in the shape of what the explorer returns, for one seed."""
    program = beyond(ENV, config)
    shapes = jax.eval_shape(lambda key: program.finish(program.init(key)), jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.zeros((1, *leaf.shape), leaf.dtype), shapes)


@pytest.mark.parametrize("sampled", [False, True])
def test_loaded_experience_is_marked(tmp_path, sampled):
    states = states_like(dataclasses.replace(TINY, episodes=8 if sampled else 4096))
    folder = store.create(tmp_path / "run")
    folder.write_json(store.CONFIG, {})
    folder.save("states.safetensors", states)  # the mark is not in the file, as in those of earlier versions
    loaded = load_states(folder, "states.safetensors", 1, 2, lambda: states)
    assert loaded.experience.sampled == states.experience.sampled == sampled
    assert jax.tree.structure(loaded) == jax.tree.structure(states)
    run = Run(config=RunConfig(env="square"), env=ENV, layout=layouts.load("square"), states=loaded)
    assert ("coverage" in _explored(run, loaded)) != sampled
