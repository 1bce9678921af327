"""The values of the probes are the returns of their best actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.rollout import Skill, rollout
from tests.probes.envs import GAMMA, PROBES


@pytest.mark.parametrize("name", PROBES)
def test_the_return_of_the_best_action_equals_the_value(name):
    probe = PROBES[name]
    action = jnp.array([probe.best_action]) if name == "policy" else jnp.int32(probe.best_action or 0)
    skill = Skill(jnp.zeros(1), jnp.int32(0))
    episode = rollout(jax.random.key(0), probe.env, lambda key, observation, code: (action, jnp.zeros(())), skill)
    rewards = jax.vmap(probe.reward)(episode.features[1:]) * episode.valid
    earned = float(np.sum(np.asarray(rewards) * GAMMA ** np.arange(len(rewards))))
    if episode.truncated[-1] and not episode.terminated.any():  # the state at the time limit has the same value
        earned += GAMMA ** len(rewards) * probe.value
    assert earned == pytest.approx(probe.value, abs=1e-5)
