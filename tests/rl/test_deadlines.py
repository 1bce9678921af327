"""Goals with a deadline: the reward, and what a step becomes when it is replayed with another goal and deadline."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs.clock import with_time_left
from edl.envs.maze import maze
from edl.envs.rollout import Episode, Skill
from edl.nets.normalise import Normaliser
from edl.rl.deadlines import Hindsight, check_timed, deadline_score, random_deadlines, replay_in_hindsight
from edl.rl.replay import add, empty_replay, to_transitions

HORIZON = 4
KEY = jax.random.key(0)
AWAY = 100.0


def episode(terminates: bool) -> Episode:
    """A walk 0, 1, 2, 3, 4 on a line; with ``terminates`` it ends in 2."""
    places = jnp.arange(HORIZON + 1.0)[:, None]
    time = jnp.arange(HORIZON)
    last = 1 if terminates else HORIZON - 1
    return Episode(
        observations=with_time_left(places, HORIZON - jnp.arange(HORIZON + 1), HORIZON),
        features=places,
        actions=jnp.ones((HORIZON, 1)),
        terminated=(time == last) & terminates,
        truncated=(time == last) & (not terminates),
        valid=time <= last,
        skill=Skill(jnp.zeros(1), jnp.int32(-1), jnp.array([4.0])),
    )


@pytest.fixture(scope="module")
def how() -> Hindsight:
    normaliser = Normaliser(jnp.array([1.0]), jnp.array([2.0]))
    return Hindsight(lambda key, n: jnp.full((n, 1), AWAY), normaliser, jnp.array([2.0]), 0.5, HORIZON)


def replayed(how: Hindsight, terminates: bool):
    episodes = jax.tree.map(lambda x: jnp.asarray(x)[None], episode(terminates))
    steps, valid = to_transitions(episodes, jnp.zeros((1, HORIZON)))
    replay = add(empty_replay(steps, 8), steps, valid)
    rows = jnp.tile(jnp.arange(replay.size), (64, 1))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), replay_in_hindsight(KEY, replay, rows, how))


def test_the_score_is_the_log_likelihood_of_a_cauchy_distribution():
    scores = deadline_score(jnp.array([[3.0], [4.0]]), jnp.array([[4.0]]), jnp.array([2.0]), 0.5)
    np.testing.assert_allclose(scores, [-np.log(2.0) / 4, 0.0], atol=1e-6)


def test_only_the_last_state_of_an_episode_is_rewarded(how):
    np.testing.assert_allclose(how.rewards(episode(False)), [0.0, 0.0, 0.0, 0.0])
    early = how.rewards(episode(True))
    np.testing.assert_allclose(early, [0.0, -np.log(5.0) / 4, 0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("terminates", [False, True])
def test_a_step_is_replayed_with_what_its_episode_reached_at_the_deadline(how, terminates):
    steps = replayed(how, terminates)
    place, left = steps.features[:, 0, 0], steps.remaining + 1
    own = steps.skill.goal[:, 0] != AWAY
    assert 0.3 < float(jnp.mean(own)) < 0.7
    end = 2 if terminates else 4
    np.testing.assert_allclose(steps.skill.goal[own, 0], jnp.minimum(place + left, end)[own])
    np.testing.assert_allclose(steps.skill.code, (steps.skill.goal - 1.0) / 2.0)
    # What happens after a time limit is unknown. A terminated episode stays where it is.
    assert float(jnp.max(place + left)) == (5 if terminates else 4)
    seen = with_time_left(place[:, None], left, HORIZON)
    np.testing.assert_allclose(steps.observations[:, 0], seen, atol=1e-6)
    np.testing.assert_allclose(steps.observations[:, 1], with_time_left(place[:, None] + 1, left - 1, HORIZON))
    at_end = (place == 1) & terminates
    np.testing.assert_array_equal(steps.terminated, (left == 1) | at_end)


def test_the_return_of_a_step_is_at_least_that_of_its_episode(how):
    steps = replayed(how, False)
    reached = (steps.features[:, 0] + (steps.remaining + 1)[:, None]).astype(jnp.float32)
    expected = deadline_score(reached, steps.skill.goal, how.unit, how.radius)
    np.testing.assert_allclose(steps.bounds[:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(steps.bounds[:, 1], 0.0)


def test_short_deadlines_are_drawn_more_often():
    drawn = np.asarray(random_deadlines(KEY, jnp.full(20_000, 100)))
    assert (drawn.min(), drawn.max()) == (1, 100)
    # Half of them are uniform, and half log-uniform: P(k = 1) = log 2 / log 101.
    assert np.mean(drawn == 1) == pytest.approx(0.5 * 0.01 + 0.5 * np.log(2) / np.log(101), abs=0.01)
    assert np.mean(drawn > 50) == pytest.approx(0.5 * 0.5 + 0.5 * np.log(101 / 51) / np.log(101), abs=0.01)


def test_an_env_that_shows_no_time_is_rejected():
    with pytest.raises(ConfigError, match="need an env that shows the time left"):
        check_timed(maze("square"))
