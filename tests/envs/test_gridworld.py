import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.gridworld import GridState, OneStep, chain, gridworld
from edl.envs.rollout import Skill, rollout

RIGHT = 1
KEY = jax.random.key(0)


def always(action):
    return lambda key, observation, code: (jnp.int32(action), jnp.zeros(()))


@pytest.mark.parametrize(("action", "reached"), list(enumerate([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1)])))
def test_moves(action, reached):
    env = gridworld(5, 3, horizon=10)
    step = env.step(KEY, env.reset(KEY), jnp.int32(action))
    np.testing.assert_array_equal(step.observation, reached)


def test_the_border_blocks_moves():
    env = gridworld(5, 3, horizon=10)
    corner = GridState(jnp.array([4, 2]), jnp.int32(0))
    for action in (1, 2):
        np.testing.assert_array_equal(env.step(KEY, corner, jnp.int32(action)).state.tile, corner.tile)


def test_terminated_and_truncated_are_separate():
    skill = Skill(jnp.zeros(1), jnp.int32(0))
    ends = rollout(KEY, chain(4, 6, terminates=True), always(RIGHT), skill)
    assert ends.valid.tolist() == [True, True, True, False, False, False]
    assert ends.terminated.tolist()[:3] == [False, False, True]
    assert not ends.truncated[:5].any()
    np.testing.assert_array_equal(ends.last, [3, 0])
    continues = rollout(KEY, chain(4, 6, terminates=False), always(RIGHT), skill)
    assert continues.valid.all()
    assert not continues.terminated.any()
    assert continues.truncated.tolist() == [False] * 5 + [True]


def test_in_one_step_the_action_is_the_next_state():
    step = OneStep().step(KEY, jnp.zeros(1), jnp.array([0.3]))
    assert float(step.observation[0]) == pytest.approx(0.3)
    assert (bool(step.terminated), bool(step.truncated)) == (True, False)
    assert float(OneStep().step(KEY, jnp.zeros(1), jnp.array([3.0])).state[0]) == 1.0
