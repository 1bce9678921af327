"""The paper's appendix: with perfect densities, rewards are at most log N in known states and 0 in unseen states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.reverse_mi import reverse_reward
from edl.envs.gridworld import MOVES, gridworld
from edl.envs.rollout import Skill, rollout
from edl.evaluate.theory import (
    forward_landscape,
    gridworld_landscape,
    reverse_landscape,
    state_distribution,
)
from tests.compiling import jit

WIDTH, HEIGHT, HORIZON = 11, 9, 4
LANDSCAPE = gridworld_landscape(WIDTH, HEIGHT, HORIZON)
SEEN = LANDSCAPE.visits > 0
FORMS = ("reverse", "forward")


@pytest.mark.parametrize("form", FORMS)
def test_rewards_of_known_states_are_at_most_log_n(form):
    reward = getattr(LANDSCAPE, form)
    assert np.isclose(reward.max(), np.log(2))
    for skill, other in ((0, 1), (1, 0)):
        alone = SEEN[skill] & ~SEEN[other]
        assert alone.any()
        np.testing.assert_allclose(reward[skill][alone], np.log(2), atol=1e-12)
        assert (reward[skill][SEEN[skill]] <= np.log(2) + 1e-12).all()


@pytest.mark.parametrize("form", FORMS)
def test_rewards_of_unseen_states_are_zero(form):
    unseen = ~SEEN.any(axis=0)
    assert unseen.sum() > WIDTH
    np.testing.assert_allclose(getattr(LANDSCAPE, form)[:, unseen], 0.0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_rewards_are_zero_in_equally_shared_states_and_very_negative_in_states_of_the_other_skill(form):
    reward = getattr(LANDSCAPE, form)
    shared = SEEN.all(axis=0)
    assert shared.any()
    np.testing.assert_allclose(reward[:, shared], 0.0, atol=1e-12)
    assert (reward[0][SEEN[1] & ~SEEN[0]] < -100).all()


def test_both_forms_have_the_same_reward():
    finite = SEEN | ~SEEN.any(axis=0)  # in the other states one form is -inf and the other is very negative
    np.testing.assert_allclose(LANDSCAPE.reverse[finite], LANDSCAPE.forward[finite], atol=1e-12)


@pytest.mark.parametrize("skills", [2, 3, 10])
def test_any_number_of_skills_by_hand(skills):
    """Tiles: skill 0 only; all skills equally; no skill; skills 0 and 1 in the ratio 3 to 1."""
    visits = np.zeros((skills, 4))
    visits[0, 0], visits[:, 1], visits[0, 3], visits[1, 3] = 0.2, 0.1, 0.3, 0.1
    expected = [np.log(skills), 0.0, 0.0, np.log(0.75 * skills)]
    np.testing.assert_allclose(reverse_landscape(visits)[0], expected, atol=1e-12)
    np.testing.assert_allclose(forward_landscape(visits)[0], expected, atol=1e-12)


def test_the_reward_converges_as_epsilon_decreases():
    visits = np.array([[0.5, 0.0], [0.0, 0.0]])
    rewards = [forward_landscape(visits, epsilon)[0] for epsilon in (0.5, 1e-2, 1e-6)]
    assert rewards[0][0] == pytest.approx(np.log(1.0 / 0.75))
    assert rewards[0][0] < rewards[1][0] < rewards[2][0] < np.log(2)
    assert [r[1] for r in rewards] == [0.0, 0.0, 0.0]


def test_the_baseline_reward_equals_the_theory_for_a_perfect_classifier():
    shared = SEEN.any(axis=0)
    posterior = LANDSCAPE.visits[:, shared] / LANDSCAPE.visits[:, shared].sum(axis=0)
    with np.errstate(divide="ignore"):
        logits = jnp.asarray(np.log(posterior).T, jnp.float32)
    rewards = jax.vmap(reverse_reward, (0, None))(logits, jnp.int32(0))
    np.testing.assert_allclose(rewards, LANDSCAPE.reverse[0][shared], atol=1e-6)


@pytest.fixture(scope="module")
def paths():
    """5000 episodes of a non-uniform policy in a gridworld so small that episodes reach the border."""
    env, logits = gridworld(5, 3, 4), jnp.log(jnp.array([0.1, 0.4, 0.2, 0.2, 0.1]))
    skill = Skill(jnp.zeros(1), jnp.int32(0))

    def act(key, observation, code):
        return jax.random.categorical(key, logits).astype(jnp.int32), jnp.zeros(())

    keys = jax.random.split(jax.random.key(0), 5000)
    return np.asarray(jit(jax.vmap(lambda key: rollout(key, env, act, skill).features))(keys)).astype(int)


def test_the_exact_state_distribution_matches_rollouts(paths):
    counts = np.zeros((3, 5))
    np.add.at(counts, (paths[:, 1:, 1].ravel() + 1, paths[:, 1:, 0].ravel() + 2), 1)
    exact = state_distribution(np.array([0.1, 0.4, 0.2, 0.2, 0.1]), 5, 3, 4)
    assert exact.sum() == pytest.approx(1.0)
    assert len(MOVES) == 5
    np.testing.assert_allclose(counts / counts.sum(), exact, atol=0.01)
