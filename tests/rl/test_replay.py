"""The replay ring agrees with a list, and transitions agree with the episodes they come from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.rollout import Episode, Skill
from edl.objective import Objective, per_visit
from edl.rl.replay import (
    Transition,
    add,
    as_episode,
    draw_places,
    empty_replay,
    end_at_time_limit,
    reached_later,
    read,
    relabel_skills,
    sample,
    sample_steps,
    to_transitions,
)
from tests.compiling import jit

CAPACITY = 7


def numbered(numbers):
    """Transitions with their number in every field."""
    x = np.asarray(numbers, np.float32)
    rows = Transition(
        observations=np.stack([x, x + 0.5], 1)[..., None],
        features=np.stack([x, x + 0.25], 1)[..., None],
        action=x[:, None],
        reward=x,
        terminated=x % 2 == 0,
        skill=Skill(x[:, None], x.astype(np.int32)),
    )
    return jax.tree.map(jnp.asarray, rows)


def episodes_of(seed, count=3, steps=5):
    """Episodes: the first one terminates after two steps, the others reach the time limit."""
    rng = np.random.default_rng(seed)
    terminated, truncated, valid = (np.full((count, steps), value) for value in (False, False, True))
    terminated[0, 1], truncated[:, -1], valid[0, 2:] = True, True, False
    episodes = Episode(
        observations=rng.normal(size=(count, steps + 1, 3)).astype(np.float32),
        features=rng.normal(size=(count, steps + 1, 2)).astype(np.float32),
        actions=rng.normal(size=(count, steps, 1)).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        valid=valid,
        skill=Skill(rng.normal(size=(count, 4)).astype(np.float32), np.arange(count), np.ones((count, 2), np.float32)),
    )
    return jax.tree.map(jnp.asarray, episodes)


ADD = jit(add)
ALL = np.ones(3, bool)


@pytest.mark.parametrize("seed", range(3))
def test_the_ring_holds_the_last_valid_transitions(seed):
    rng = np.random.default_rng(seed)
    replay, ring, cursor, added = empty_replay(numbered([0]), CAPACITY), np.zeros(CAPACITY), 0, 0
    for _ in range(8):
        numbers, valid = rng.integers(1, 1000, 4), rng.random(4) < 0.7
        replay = ADD(replay, numbered(numbers), jnp.asarray(valid))
        for number in numbers[valid]:
            ring[cursor] = number
            cursor, added = (cursor + 1) % CAPACITY, added + 1
        expected = numbered(ring)._replace(terminated=(ring % 2 == 0) & (np.arange(CAPACITY) < added))
        real = slice(min(added, CAPACITY))
        for ours, theirs in zip(jax.tree.leaves(replay.rows), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(ours[real], theirs[real])
        assert (int(replay.size), int(replay.cursor)) == (min(added, CAPACITY), cursor)
    assert added > CAPACITY


def test_a_step_is_stored_with_its_own_skill_if_skills_change():
    episodes = episodes_of(0)
    steps, _ = to_transitions(episodes, jnp.zeros((3, 5)))
    np.testing.assert_array_equal(steps.skill.index, np.repeat([0, 1, 2], 5))
    skills = Skill(jnp.zeros((3, 5, 4)), jnp.arange(15).reshape(3, 5), jnp.ones((3, 5, 2)))
    changing, _ = to_transitions(episodes._replace(skills=skills), jnp.zeros((3, 5)))
    np.testing.assert_array_equal(changing.skill.index, np.arange(15))
    assert as_episode(jax.tree.map(lambda x: x[7], changing)).skill.index == 7


def test_a_full_batch_replaces_the_whole_ring():
    replay = ADD(empty_replay(numbered([0]), 3), numbered([1, 2, 9]), jnp.asarray([True, True, False]))
    replay = ADD(replay, numbered([3, 4, 5]), jnp.asarray(ALL))
    np.testing.assert_array_equal(replay.rows.reward, [4, 5, 3])


def test_rings_of_several_seeds_fill_independently():
    valid = jnp.array([[True, True, True], [False, True, False]])
    empty = jax.vmap(lambda _: empty_replay(numbered([0]), CAPACITY))(jnp.arange(2))
    replay = jit(jax.vmap(add, (0, None, 0)))(empty, numbered([1, 2, 3]), valid)
    np.testing.assert_array_equal(replay.size, [3, 1])
    np.testing.assert_array_equal(replay.rows.reward[1, :2], [2, 0])


def test_samples_are_uniform_over_the_real_rows():
    replay = ADD(empty_replay(numbered([0]), 3000), numbered([10, 20, 30]), jnp.asarray(ALL))
    drawn = jit(lambda key: read(replay, sample(key, replay, (3000,))))(jax.random.key(0))
    numbers, counts = np.unique(drawn.reward, return_counts=True)
    np.testing.assert_array_equal(numbers, [10, 20, 30])
    assert np.all(np.abs(counts - 1000) < 130)  # five standard deviations


def test_transitions_are_the_steps_of_the_episodes():
    episodes = episodes_of(0)
    transitions, valid = jit(to_transitions)(episodes, jnp.arange(15.0).reshape(3, 5))
    np.testing.assert_array_equal(valid.reshape(3, 5), episodes.valid)
    row, episode, time = 5 + 2, 1, 2
    np.testing.assert_array_equal(transitions.observations[row], episodes.observations[episode, time : time + 2])
    np.testing.assert_array_equal(transitions.features[row], episodes.features[episode, time : time + 2])
    np.testing.assert_array_equal(transitions.action[row], episodes.actions[episode, time])
    np.testing.assert_array_equal(transitions.skill.code[row], episodes.skill.code[episode])
    np.testing.assert_array_equal(transitions.skill.goal[row], [1, 1])
    assert transitions.reward[row] == 7
    # A time limit is not a termination.
    np.testing.assert_array_equal(np.flatnonzero(transitions.terminated), [1])


@pytest.mark.parametrize(
    "reward",
    [
        per_visit(lambda state, s, skill: state * jnp.sum(s) + skill.code[0]),
        lambda state, episode: state * jnp.sum(episode.features[1:] - episode.features[:-1], axis=1),
    ],
    ids=["per_visit", "progress"],
)
def test_the_reward_of_a_transition_equals_the_reward_in_its_episode(reward):

    @jit
    def both(episodes):
        transitions, _ = to_transitions(episodes, jnp.zeros((3, 5)))
        single = jax.vmap(reward, (None, 0))(2.0, jax.vmap(as_episode)(transitions))
        return jax.vmap(reward, (None, 0))(2.0, episodes), single

    whole, single = both(episodes_of(1))
    np.testing.assert_allclose(single.reshape(3, 5), whole, rtol=1e-6)


def test_remaining_counts_the_later_steps_of_the_episode():
    transitions, valid = to_transitions(episodes_of(2), jnp.zeros((3, 5)))
    np.testing.assert_array_equal(transitions.remaining[valid], [1, 0, 4, 3, 2, 1, 0, 4, 3, 2, 1, 0])
    ends = jax.vmap(as_episode)(transitions)
    np.testing.assert_array_equal(np.flatnonzero(ends.truncated[valid]), [6, 11])  # at the time limits


def test_hindsight_stays_within_the_episode_after_the_ring_wraps_around():
    replay = empty_replay(to_transitions(episodes_of(0), jnp.zeros((3, 5)))[0], 8)
    for seed in range(2):  # twelve steps per seed, and a capacity of eight: the ring holds one episode and three steps
        episodes = episodes_of(seed)
        episodes = episodes._replace(features=jnp.broadcast_to(jnp.arange(3.0)[:, None, None] + 10 * seed, (3, 6, 2)))
        for each in range(3):
            one = jax.tree.map(lambda x, each=each: x[each : each + 1], episodes)
            replay = ADD(replay, *to_transitions(one, jnp.zeros((1, 5))))
    rows = jnp.tile(jnp.arange(8), 50)
    later = reached_later(replay, rows, jax.random.uniform(jax.random.key(0), rows.shape))
    np.testing.assert_array_equal(later, replay.rows.features[rows, 1])  # all states of an episode are equal


def test_hindsight_is_uniform_over_the_states_reached_later():
    episodes = episodes_of(0)
    episodes = episodes._replace(features=jnp.broadcast_to(jnp.arange(6.0)[None, :, None], (3, 6, 2)))
    transitions, valid = to_transitions(episodes, jnp.zeros((3, 5)))
    replay = ADD(empty_replay(transitions, 20), transitions, valid)
    rows = jnp.full(3000, 2 + 2)  # s_2 to s_3 of the second episode
    later = reached_later(replay, rows, jax.random.uniform(jax.random.key(1), rows.shape))[:, 0]
    values, counts = np.unique(later, return_counts=True)
    np.testing.assert_array_equal(values, [3, 4, 5])
    assert np.all(np.abs(counts - 1000) < 120)


def test_steps_are_relabelled_by_the_objective():
    transitions, valid = to_transitions(episodes_of(3), jnp.zeros((3, 5)))
    replay = ADD(empty_replay(transitions, 12), transitions, valid)
    objective = Objective(None, None, None, None)
    rows = jnp.array([[0, 5], [7, 11]])
    assert relabel_skills(jax.random.key(0), objective, 2.0, replay, rows) is None

    def relabel(key, state, step, later):
        return step.skill._replace(code=step.skill.code * state, goal=later)

    skill = jit(lambda: relabel_skills(jax.random.key(0), objective._replace(relabel=relabel), 2.0, replay, rows))()
    np.testing.assert_allclose(skill.code, 2 * replay.rows.skill.code[rows])
    np.testing.assert_array_equal(skill.goal[1, 1], replay.rows.features[11, 1])  # the last step of its episode


def test_end_at_time_limit_marks_truncations_as_terminations():
    episodes = episodes_of(0)
    ended = end_at_time_limit(episodes)
    np.testing.assert_array_equal(ended.terminated, episodes.terminated | episodes.truncated)
    np.testing.assert_array_equal(ended.truncated, episodes.truncated)


def test_sampled_steps_are_one_step_episodes_of_the_ring():
    replay = ADD(empty_replay(numbered([0]), 10), numbered([10, 20, 30]), jnp.asarray(ALL))
    steps = sample_steps(jax.random.key(0), replay, 50)
    assert steps.valid.shape == (50, 1)
    np.testing.assert_array_equal(np.unique(steps.actions), [10, 20, 30])
    np.testing.assert_array_equal(steps.features[:, 1] - steps.features[:, 0], np.full((50, 1), 0.25))


def test_all_steps_are_drawn_with_the_same_probability():
    """Also those of short episodes, and of rows between which an episode was not played."""
    lengths = jnp.array([2, 0, 1, 3, 0])
    rows, times = draw_places(jax.random.key(0), jnp.cumsum(lengths), 6000)
    counts = np.zeros((5, 3), int)
    np.add.at(counts, (np.asarray(rows), np.asarray(times)), 1)
    expected = 1000 * (np.arange(3) < np.asarray(lengths)[:, None])
    np.testing.assert_allclose(counts, expected, atol=100)  # three standard deviations
    assert (counts[expected == 0] == 0).all()
