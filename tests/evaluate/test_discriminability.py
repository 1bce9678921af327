"""A new classifier separates skills that differ, and guesses among skills that do not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.envs.rollout import Episode, Skill
from edl.evaluate import discriminability
from edl.evaluate.discriminability import fit_classifier, labelled_visits, log_posterior, measure_discriminability
from tests.compiling import jit


def episodes(centres: np.ndarray, rollouts: int = 6, time: int = 10) -> Episode:
    """Each skill visits points scattered around its centre."""
    noise = 0.2 * jax.random.normal(jax.random.key(3), (len(centres), rollouts, time + 1, 2))
    features = jnp.asarray(centres)[:, None, None] + noise
    shape = (len(centres), rollouts, time)
    skill = Skill(code=jnp.zeros((*shape[:2], 1)), index=jnp.zeros(shape[:2], jnp.int32))
    never = jnp.zeros(shape, bool)
    return Episode(features, features, jnp.zeros((*shape, 2)), never, never, jnp.ones(shape, bool), skill)


measured = jit(measure_discriminability)


def test_disjoint_skills_are_separated():
    apart = episodes(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]]))
    assert float(measured(jax.random.key(0), apart)) > 0.98


def test_identical_skills_are_not_separated():
    alike = episodes(np.zeros((3, 2)))
    assert float(measured(jax.random.key(0), alike)) == pytest.approx(1 / 3, abs=0.12)


def test_the_start_and_states_after_the_end_are_ignored():
    some = episodes(np.array([[0.0, 0.0], [3.0, 0.0]]), rollouts=2, time=4)
    some = some._replace(valid=some.valid.at[1, 0, 2:].set(False))
    states, skills, valid = labelled_visits(some)
    assert states.shape == (2 * 2 * 4, 2)
    assert skills.tolist() == [0] * 8 + [1] * 8
    assert valid.tolist() == [1.0] * 8 + [1.0, 1.0, 0.0, 0.0] + [1.0] * 4
    np.testing.assert_array_equal(states[0], some.features[0, 0, 1])


def test_the_posterior_is_a_distribution_also_at_unvisited_states():
    rows = labelled_visits(episodes(np.array([[-1.0, 0.0], [1.0, 0.0]])))
    classifier = jit(functools.partial(fit_classifier, num_skills=2))(jax.random.key(0), rows)
    log_q = log_posterior(classifier, jnp.array([[-9.0, 0.0], [9.0, 0.0]]))
    np.testing.assert_allclose(np.exp(log_q).sum(axis=1), 1.0, rtol=1e-5)
    assert np.argmax(log_q, axis=1).tolist() == [0, 1]


def test_many_skills_are_measured_within_a_limit_of_logits(monkeypatch):
    centres = 3.0 * np.stack(np.meshgrid(np.arange(4.0), np.arange(2.0)), axis=-1).reshape(-1, 2)
    apart = episodes(centres)
    assert float(measured(jax.random.key(0), apart)) > 0.98
    posterior, sizes = discriminability.log_posterior, []

    def recorded(classifier, states):
        sizes.append(len(states))
        return posterior(classifier, states)

    monkeypatch.setattr(discriminability, "MAX_LOGITS", 8 * 12)
    monkeypatch.setattr(discriminability, "log_posterior", recorded)
    limited = jit(lambda key, played: measure_discriminability(key, played))(jax.random.key(0), apart)
    assert sizes == [1]  # traced for one state, and mapped over blocks of them
    assert float(limited) > 0.98
    rows = discriminability.limited_rows(240, 192)
    assert len(rows) == len(set(rows)) == 192
