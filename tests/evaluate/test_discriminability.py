"""A fresh classifier tells apart what differs, and guesses where nothing does."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.rollout import Episode, Skill
from edl.evaluate.discriminability import fit_classifier, judge, log_posterior, visits_of
from edl.evaluate.goals import picked_distance, zero_shot_distance
from tests.compiling import jit


def episodes(centres: np.ndarray, rollouts: int = 6, time: int = 10) -> Episode:
    """Skills that scatter around a centre each."""
    noise = 0.2 * jax.random.normal(jax.random.key(3), (len(centres), rollouts, time + 1, 2))
    features = jnp.asarray(centres)[:, None, None] + noise
    shape = (len(centres), rollouts, time)
    skill = Skill(code=jnp.zeros((*shape[:2], 1)), index=jnp.zeros(shape[:2], jnp.int32))
    never = jnp.zeros(shape, bool)
    return Episode(features, features, jnp.zeros((*shape, 2)), never, never, jnp.ones(shape, bool), skill)


judged = jit(judge)
TARGETS = jnp.array([[2.5, 0.1], [0.1, 2.5]])


def test_disjoint_skills_are_told_apart():
    apart = episodes(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]]))
    found = judged(jax.random.key(0), apart, TARGETS)
    assert float(found.discriminability) > 0.98
    assert found.picks.tolist() == [1, 2]


def test_skills_that_do_the_same_are_not():
    alike = episodes(np.zeros((3, 2)))
    assert float(judged(jax.random.key(0), alike, TARGETS).discriminability) == pytest.approx(1 / 3, abs=0.12)


def test_the_start_and_what_follows_the_end_do_not_count():
    some = episodes(np.array([[0.0, 0.0], [3.0, 0.0]]), rollouts=2, time=4)
    some = some._replace(valid=some.valid.at[1, 0, 2:].set(False))
    states, skills, valid = visits_of(some)
    assert states.shape == (2 * 2 * 4, 2)
    assert skills.tolist() == [0] * 8 + [1] * 8
    assert valid.tolist() == [1.0] * 8 + [1.0, 1.0, 0.0, 0.0] + [1.0] * 4
    np.testing.assert_array_equal(states[0], some.features[0, 0, 1])


def test_a_posterior_is_a_distribution_and_extends_to_where_nobody_was():
    rows = visits_of(episodes(np.array([[-1.0, 0.0], [1.0, 0.0]])))
    classifier = jit(functools.partial(fit_classifier, num_skills=2))(jax.random.key(0), rows)
    log_q = log_posterior(classifier, jnp.array([[-9.0, 0.0], [9.0, 0.0]]))
    np.testing.assert_allclose(np.exp(log_q).sum(axis=1), 1.0, rtol=1e-5)
    assert np.argmax(log_q, axis=1).tolist() == [0, 1]


def test_picking_a_skill_is_at_best_as_good_as_trying_all():
    # Two skills, two rollouts each, three targets.
    distances = np.array([[[1.0, 4.0, 2.0], [1.0, 2.0, 0.0]], [[5.0, 1.0, 3.0], [7.0, 1.0, 3.0]]])
    assert zero_shot_distance(distances) == pytest.approx((1 + 1 + 1) / 3)
    assert picked_distance(distances, np.array([0, 1, 0])) == pytest.approx((1 + 1 + 1) / 3)
    assert picked_distance(distances, np.array([1, 0, 0])) == pytest.approx((6 + 3 + 1) / 3)
