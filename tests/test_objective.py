"""Rewards for a state, a move or an episode are lifted to rewards of all steps; learners reject unsupported fields."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.rollout import Skill
from edl.objective import Objective, check_supported, per_episode, per_move, per_visit
from edl.rl import ppo, sac
from tests.learn.episodes import episode

PATH = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_per_visit_is_the_reward_of_the_state_that_a_step_reaches():
    reward = per_visit(lambda state, s, skill: state * s[0] + skill.goal[1])
    np.testing.assert_array_equal(reward(jnp.float32(10.0), episode(PATH, [0.0, 0.5])), [20.5, 40.5])


def test_per_move_is_the_reward_of_a_state_and_the_next():
    reward = per_move(lambda state, before, after, skill: state * before[0] + after[1] + skill.goal[0])
    np.testing.assert_array_equal(reward(jnp.float32(10.0), episode(PATH, [0.5, 0.0])), [3.5, 25.5])


def test_lifted_rewards_see_the_skill_of_each_step_if_it_changes():
    goals = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    changing = episode(PATH, [9.0, 9.0])._replace(skills=Skill(jnp.zeros((2, 1)), jnp.zeros(2, jnp.int32), goals))
    visit = per_visit(lambda state, s, skill: state * s[0] + skill.goal[1])
    np.testing.assert_array_equal(visit(jnp.float32(10.0), changing), [22.0, 44.0])
    move = per_move(lambda state, before, after, skill: state * before[0] + after[1] + skill.goal[0])
    np.testing.assert_array_equal(move(jnp.float32(10.0), changing), [4.0, 28.0])


def test_per_episode_rewards_the_last_valid_step():
    reward = per_episode(lambda state, e: e.last[0] + state)
    np.testing.assert_array_equal(reward(jnp.float32(1.0), episode(PATH)), [0.0, 5.0])
    np.testing.assert_array_equal(reward(jnp.float32(1.0), episode(PATH, length=1)), [3.0, 0.0])


PLAIN = Objective(
    init=lambda key: None,
    sample=lambda key, state: Skill(jnp.zeros(1), jnp.int32(0)),
    reward=per_visit(lambda state, s, skill: s[0]),
    update=lambda key, state, episodes: (state, {}),
)
OTHER_VALUES = {name: (lambda *_: None) for name in Objective._field_defaults} | {"siblings": 2, "learns": "before"}


def test_defaults_are_one_episode_per_skill_no_privileged_input_and_weight_one():
    assert (PLAIN.siblings, PLAIN.learns) == (1, "after")
    assert PLAIN.privileged(None, episode(PATH)).shape == (0,)
    assert PLAIN.weight(None, episode(PATH)) == 1.0
    assert PLAIN.before_rewards(7, episode(PATH)) == 7


@pytest.mark.parametrize("field", Objective._field_defaults)
def test_a_learner_rejects_an_optional_field_that_it_does_not_list(field):
    objective = PLAIN._replace(**{field: OTHER_VALUES[field]})
    check_supported(PLAIN, "learner", ())
    check_supported(objective, "learner", (field,))
    others = tuple(name for name in Objective._field_defaults if name != field)
    with pytest.raises(ConfigError, match=rf"^learner does not support the field '{field}' of an Objective"):
        check_supported(objective, "learner", others)


def test_every_optional_field_is_supported_by_a_learner():
    assert set(ppo.SUPPORTED) | set(sac.SUPPORTED) == set(Objective._field_defaults)


def test_lifted_rewards_can_be_vmapped_over_episodes():
    batch = jax.tree.map(lambda *x: jnp.stack(x), episode(PATH), episode(PATH, length=1))
    at_end = jax.vmap(per_episode(lambda state, e: e.last[0]), (None, 0))(None, batch)
    np.testing.assert_array_equal(at_end, [[0.0, 4.0], [2.0, 0.0]])
