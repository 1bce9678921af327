"""Skills that see the time left: in NumPy as in JAX, and in envs whose actions are skills."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import SkillModel, SkillPolicy
from edl.envs.base import Box
from edl.envs.clock import time_left
from edl.interop.numpy_policy import to_numpy
from edl.interop.skill_env import SkillEnv
from edl.nets.distributions import action_distribution
from edl.nets.mlp import mlp
from edl.nets.normalise import identity_normaliser
from tests.interop.hosted import Line

HORIZON = 7
OBSERVATION = np.array([0.5, -0.2], np.float32)


@pytest.fixture(scope="module")
def policy() -> SkillPolicy:
    """A policy of (position, velocity, time left) and a goal."""
    actions = action_distribution(Box(-jnp.ones(1), jnp.ones(1)), "tanh_gaussian")
    actor, codes = mlp(jax.random.key(0), (4, 8, 2)), jnp.array([[-1.0], [0.0], [1.0]])
    return SkillPolicy(actor, identity_normaliser(3), actions, codes, horizon=HORIZON)


def test_the_policy_in_numpy_sees_the_same_time(policy):
    skills = to_numpy(policy)
    assert skills.horizon == HORIZON
    found = [skills.mode(OBSERVATION, 2, time).item() for time in range(HORIZON + 2)]
    expected = [policy.mode(policy.at_time(OBSERVATION, time), 2).item() for time in range(HORIZON + 2)]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[0] != found[3]
    assert found[HORIZON] == found[HORIZON + 1]  # the time is over
    seen = np.array([*OBSERVATION, time_left(HORIZON - 3, HORIZON)])
    np.testing.assert_allclose(found[3], policy.mode(seen, 2).item(), atol=1e-6)


def test_a_batch_of_observations_has_one_time(policy):
    batch = np.stack([OBSERVATION, -OBSERVATION])
    np.testing.assert_allclose(to_numpy(policy).mode(batch, 1, 4), policy.mode(policy.at_time(batch, 4), 1), atol=1e-6)


def test_a_policy_without_a_clock_ignores_the_time(policy):
    plain = SkillPolicy(mlp(jax.random.key(0), (3, 8, 2)), identity_normaliser(2), policy.distribution, policy.codes)
    assert to_numpy(plain).horizon == 0
    assert to_numpy(plain).mode(OBSERVATION, 1, 3) == to_numpy(plain).mode(OBSERVATION, 1)
    np.testing.assert_array_equal(plain.at_time(OBSERVATION, 3), OBSERVATION)


def test_skills_are_picked_by_the_codes_of_stage_2_if_the_policy_has_goals_as_codes(policy):
    states = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    skills = SkillModel.from_goals([[-1.0, 0.0], [0.0, 2.0], [1.0, 0.0]], states)
    exported = to_numpy(policy, skills)
    assert [exported.pick(goal) for goal in skills.goals] == [0, 1, 2]


def test_a_skill_that_is_held_has_to_be_at_its_goal_after_these_steps(policy):
    skills, times = to_numpy(policy), []
    env = SkillEnv(Line(), skills, hold=3, deterministic=True)
    mode = skills.mode
    skills.mode = lambda observation, code, time=0: times.append(time) or mode(observation, code, time)
    env.reset(seed=0)
    env.step(1)
    assert times == [HORIZON - 3, HORIZON - 2, HORIZON - 1]
