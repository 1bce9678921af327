"""Rewards written for a state, or for an end, are lifted to an episode."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.envs.rollout import Skill
from edl.objective import Objective, at_the_end, per_move, per_visit
from tests.learn.episodes import episode

PATH = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_per_visit_pays_for_the_state_that_a_step_reaches():
    reward = per_visit(lambda state, s, skill: state * s[0] + skill.goal[1])
    np.testing.assert_array_equal(reward(jnp.float32(10.0), episode(PATH, [0.0, 0.5])), [20.5, 40.5])


def test_per_move_pays_for_the_step_from_a_state_to_the_next():
    reward = per_move(lambda state, before, after, skill: state * before[0] + after[1] + skill.goal[0])
    np.testing.assert_array_equal(reward(jnp.float32(10.0), episode(PATH, [0.5, 0.0])), [3.5, 25.5])


def test_at_the_end_pays_at_the_last_valid_step():
    reward = at_the_end(lambda state, e: e.last[0] + state)
    np.testing.assert_array_equal(reward(jnp.float32(1.0), episode(PATH)), [0.0, 5.0])
    np.testing.assert_array_equal(reward(jnp.float32(1.0), episode(PATH, length=1)), [3.0, 0.0])


def test_by_default_there_are_no_siblings_no_privileges_and_everyone_trains():
    plain = Objective(
        init=lambda key: None,
        sample=lambda key, state: Skill(jnp.zeros(1), jnp.int32(0)),
        reward=per_visit(lambda state, s, skill: s[0]),
        update=lambda key, state, episodes: (state, {}),
    )
    assert plain.siblings == 1
    assert plain.privileged(None, episode(PATH)).shape == (0,)
    assert plain.weight(None, episode(PATH)) == 1.0


def test_lifted_rewards_can_be_vmapped_over_episodes():
    batch = jax.tree.map(lambda *x: jnp.stack(x), episode(PATH), episode(PATH, length=1))
    at_end = jax.vmap(at_the_end(lambda state, e: e.last[0]), (None, 0))(None, batch)
    np.testing.assert_array_equal(at_end, [[0.0, 4.0], [2.0, 0.0]])
