"""The replay ring against a list, and transitions against the episodes they come from."""

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
    blank_replay,
    ended,
    reached_later,
    read,
    relabelled,
    sample,
    transitions_of,
)
from tests.compiling import jit

CAPACITY = 7


def numbered(numbers):
    """Transitions that can be told apart by a number in every field."""
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
    """Episodes of which the first terminates after two steps, and the others reach the time limit."""
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
def test_the_ring_holds_the_last_valid_transitions_in_place(seed):
    rng = np.random.default_rng(seed)
    replay, ring, cursor, seen = blank_replay(numbered([0]), CAPACITY), np.zeros(CAPACITY), 0, 0
    for _ in range(8):
        numbers, valid = rng.integers(1, 1000, 4), rng.random(4) < 0.7
        replay = ADD(replay, numbered(numbers), jnp.asarray(valid))
        for number in numbers[valid]:
            ring[cursor] = number
            cursor, seen = (cursor + 1) % CAPACITY, seen + 1
        expected = numbered(ring)._replace(terminated=(ring % 2 == 0) & (np.arange(CAPACITY) < seen))
        real = slice(min(seen, CAPACITY))
        for ours, theirs in zip(jax.tree.leaves(replay.rows), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(ours[real], theirs[real])
        assert (int(replay.size), int(replay.cursor)) == (min(seen, CAPACITY), cursor)
    assert seen > CAPACITY


def test_a_batch_that_fills_the_ring_replaces_all_of_it():
    replay = ADD(blank_replay(numbered([0]), 3), numbered([1, 2, 9]), jnp.asarray([True, True, False]))
    replay = ADD(replay, numbered([3, 4, 5]), jnp.asarray(ALL))
    np.testing.assert_array_equal(replay.rows.reward, [4, 5, 3])


def test_rings_of_several_seeds_fill_at_their_own_pace():
    valid = jnp.array([[True, True, True], [False, True, False]])
    blank = jax.vmap(lambda _: blank_replay(numbered([0]), CAPACITY))(jnp.arange(2))
    replay = jit(jax.vmap(add, (0, None, 0)))(blank, numbered([1, 2, 3]), valid)
    np.testing.assert_array_equal(replay.size, [3, 1])
    np.testing.assert_array_equal(replay.rows.reward[1, :2], [2, 0])


def test_samples_are_uniform_over_what_is_there():
    replay = ADD(blank_replay(numbered([0]), 3000), numbered([10, 20, 30]), jnp.asarray(ALL))
    drawn = jit(lambda key: read(replay, sample(key, replay, (3000,))))(jax.random.key(0))
    numbers, counts = np.unique(drawn.reward, return_counts=True)
    np.testing.assert_array_equal(numbers, [10, 20, 30])
    assert np.all(np.abs(counts - 1000) < 130)  # five standard deviations


def test_transitions_are_the_steps_of_the_episodes():
    episodes = episodes_of(0)
    transitions, valid = jit(transitions_of)(episodes, jnp.arange(15.0).reshape(3, 5))
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
def test_a_reward_for_steps_is_the_same_for_transitions(reward):

    @jit
    def both(episodes):
        transitions, _ = transitions_of(episodes, jnp.zeros((3, 5)))
        single = jax.vmap(reward, (None, 0))(2.0, jax.vmap(as_episode)(transitions))
        return jax.vmap(reward, (None, 0))(2.0, episodes), single

    whole, single = both(episodes_of(1))
    np.testing.assert_allclose(single.reshape(3, 5), whole, rtol=1e-6)


def test_a_transition_knows_how_much_of_its_episode_remained():
    transitions, valid = transitions_of(episodes_of(2), jnp.zeros((3, 5)))
    np.testing.assert_array_equal(transitions.remaining[valid], [1, 0, 4, 3, 2, 1, 0, 4, 3, 2, 1, 0])
    ends = jax.vmap(as_episode)(transitions)
    np.testing.assert_array_equal(np.flatnonzero(ends.truncated[valid]), [6, 11])  # where it did not terminate


def test_hindsight_stays_within_the_episode_even_where_the_ring_has_turned():
    replay = blank_replay(transitions_of(episodes_of(0), jnp.zeros((3, 5)))[0], 8)
    for seed in range(2):  # twelve steps each in room for eight: the last rows are an episode and three steps
        episodes = episodes_of(seed)
        episodes = episodes._replace(features=jnp.broadcast_to(jnp.arange(3.0)[:, None, None] + 10 * seed, (3, 6, 2)))
        for each in range(3):
            one = jax.tree.map(lambda x, each=each: x[each : each + 1], episodes)
            replay = ADD(replay, *transitions_of(one, jnp.zeros((1, 5))))
    rows = jnp.tile(jnp.arange(8), 50)
    later = reached_later(replay, rows, jax.random.uniform(jax.random.key(0), rows.shape))
    np.testing.assert_array_equal(later, replay.rows.features[rows, 1])  # every state of an episode is its number


def test_hindsight_draws_uniformly_from_what_was_reached_later():
    episodes = episodes_of(0)
    episodes = episodes._replace(features=jnp.broadcast_to(jnp.arange(6.0)[None, :, None], (3, 6, 2)))
    transitions, valid = transitions_of(episodes, jnp.zeros((3, 5)))
    replay = ADD(blank_replay(transitions, 20), transitions, valid)
    rows = jnp.full(3000, 2 + 2)  # s_2 to s_3 of the second episode
    later = reached_later(replay, rows, jax.random.uniform(jax.random.key(1), rows.shape))[:, 0]
    values, counts = np.unique(later, return_counts=True)
    np.testing.assert_array_equal(values, [3, 4, 5])
    assert np.all(np.abs(counts - 1000) < 120)


def test_steps_are_replayed_with_the_skill_that_the_objective_says():
    transitions, valid = transitions_of(episodes_of(3), jnp.zeros((3, 5)))
    replay = ADD(blank_replay(transitions, 12), transitions, valid)
    objective = Objective(None, None, None, None)
    rows = jnp.array([[0, 5], [7, 11]])
    assert relabelled(jax.random.key(0), objective, 2.0, replay, rows) is None

    def relabel(key, state, step, later):
        return step.skill._replace(code=step.skill.code * state, goal=later)

    skill = jit(lambda: relabelled(jax.random.key(0), objective._replace(relabel=relabel), 2.0, replay, rows))()
    np.testing.assert_allclose(skill.code, 2 * replay.rows.skill.code[rows])
    np.testing.assert_array_equal(skill.goal[1, 1], replay.rows.features[11, 1])  # the last step: nothing came later


def test_a_time_limit_ends_the_world_where_it_is_not_bootstrapped_over():
    episodes = episodes_of(0)
    assert ended(episodes, True) is episodes
    np.testing.assert_array_equal(ended(episodes, False).terminated, episodes.terminated | episodes.truncated)
