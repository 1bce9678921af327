"""The paper's appendix: with perfect densities, known states pay up to log N, unseen ones 0, in both forms."""

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
def test_known_states_pay_up_to_log_n(form):
    reward = getattr(LANDSCAPE, form)
    assert np.isclose(reward.max(), np.log(2))
    for mine, other in ((0, 1), (1, 0)):
        alone = SEEN[mine] & ~SEEN[other]
        assert alone.any()
        np.testing.assert_allclose(reward[mine][alone], np.log(2), atol=1e-12)
        assert (reward[mine][SEEN[mine]] <= np.log(2) + 1e-12).all()


@pytest.mark.parametrize("form", FORMS)
def test_unseen_states_pay_nothing(form):
    unseen = ~SEEN.any(axis=0)
    assert unseen.sum() > WIDTH
    np.testing.assert_allclose(getattr(LANDSCAPE, form)[:, unseen], 0.0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_states_that_both_skills_visit_alike_pay_nothing_and_those_of_the_other_less(form):
    reward = getattr(LANDSCAPE, form)
    shared = SEEN.all(axis=0)
    assert shared.any()
    np.testing.assert_allclose(reward[:, shared], 0.0, atol=1e-12)
    assert (reward[0][SEEN[1] & ~SEEN[0]] < -100).all()


def test_both_forms_pay_the_same():
    somewhere = SEEN | ~SEEN.any(axis=0)  # elsewhere one is -inf and the other on its way there
    np.testing.assert_allclose(LANDSCAPE.reverse[somewhere], LANDSCAPE.forward[somewhere], atol=1e-12)


@pytest.mark.parametrize("skills", [2, 3, 10])
def test_any_number_of_skills_by_hand(skills):
    """Tiles: skill 0 alone; all alike; nobody; skills 0 and 1, of which 0 three times as often."""
    visits = np.zeros((skills, 4))
    visits[0, 0], visits[:, 1], visits[0, 3], visits[1, 3] = 0.2, 0.1, 0.3, 0.1
    expected = [np.log(skills), 0.0, 0.0, np.log(0.75 * skills)]
    np.testing.assert_allclose(reverse_landscape(visits)[0], expected, atol=1e-12)
    np.testing.assert_allclose(forward_landscape(visits)[0], expected, atol=1e-12)


def test_the_limit_is_approached_as_epsilon_falls():
    visits = np.array([[0.5, 0.0], [0.0, 0.0]])
    rewards = [forward_landscape(visits, epsilon)[0] for epsilon in (0.5, 1e-2, 1e-6)]
    assert rewards[0][0] == pytest.approx(np.log(1.0 / 0.75))
    assert rewards[0][0] < rewards[1][0] < rewards[2][0] < np.log(2)
    assert [r[1] for r in rewards] == [0.0, 0.0, 0.0]


def test_the_reward_of_the_baseline_is_that_of_the_theory_for_a_perfect_classifier():
    shared = SEEN.any(axis=0)
    posterior = LANDSCAPE.visits[:, shared] / LANDSCAPE.visits[:, shared].sum(axis=0)
    with np.errstate(divide="ignore"):
        logits = jnp.asarray(np.log(posterior).T, jnp.float32)
    paid = jax.vmap(reverse_reward, (0, None))(logits, jnp.int32(0))
    np.testing.assert_allclose(paid, LANDSCAPE.reverse[0][shared], atol=1e-6)


@pytest.fixture(scope="module")
def paths():
    """5000 episodes of a policy with preferences, in a world so small that it meets the border."""
    env, logits = gridworld(5, 3, 4), jnp.log(jnp.array([0.1, 0.4, 0.2, 0.2, 0.1]))
    skill = Skill(jnp.zeros(1), jnp.int32(0))

    def act(key, observation, code):
        return jax.random.categorical(key, logits).astype(jnp.int32), jnp.zeros(())

    keys = jax.random.split(jax.random.key(0), 5000)
    return np.asarray(jit(jax.vmap(lambda key: rollout(key, env, act, skill).features))(keys)).astype(int)


def test_the_exact_state_distribution_is_that_of_the_world(paths):
    counts = np.zeros((3, 5))
    np.add.at(counts, (paths[:, 1:, 1].ravel() + 1, paths[:, 1:, 0].ravel() + 2), 1)
    exact = state_distribution(np.array([0.1, 0.4, 0.2, 0.2, 0.1]), 5, 3, 4)
    assert exact.sum() == pytest.approx(1.0)
    assert len(MOVES) == 5
    np.testing.assert_allclose(counts / counts.sum(), exact, atol=0.01)
