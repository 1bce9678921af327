"""Recording the experience of a bonus keeps every field of its objective."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.envs.gridworld import gridworld
from edl.envs.rollout import Episode, Skill
from edl.explore.bonus import RecordingState, no_skill, reached_states, record_experience
from edl.explore.random_walk import random_episode
from edl.objective import Objective, RewardMemory
from edl.rl.ppo import SUPPORTED

KEY = jax.random.key(0)
ENV = gridworld(4, 4, 5)
EPISODES: Episode = jax.vmap(lambda key: random_episode(key, ENV, 0.5))(jax.random.split(KEY, 3))
ONE: Episode = jax.tree.map(lambda x: x[0], EPISODES)

FULL = Objective(
    init=lambda key: jnp.float32(1.0),
    sample=lambda key, learned: Skill(jnp.zeros(0), jnp.int32(learned)),
    reward=lambda learned, episode: learned * episode.valid,
    update=lambda key, learned, episodes: (learned + 1, {"learned": learned}),
    siblings=2,
    privileged=lambda learned, episode: jnp.full(3, learned),
    weight=lambda learned, episode: 0.5 * learned,
    entropy_scale=lambda learned, episode: 2.0 * learned,
    before_rewards=lambda learned, episodes: learned + 10,
    learns="before",
    needs="steps",
    memory=RewardMemory(lambda learned, first: learned, lambda learned, memory, part: (learned * part.valid, memory)),
)
"""Every field that PPO uses differs from its default and depends on the state, the number that ``init`` returns."""


def assert_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_every_field_that_ppo_uses_survives_recording():
    recording = record_experience(ENV, FULL, 6)
    state, learned = recording.init(KEY), FULL.init(KEY)
    defaults = Objective._field_defaults
    assert {name for name, default in defaults.items() if getattr(FULL, name) != default} == set(SUPPORTED), (
        "a new field that PPO uses needs a line in this test"
    )
    assert (recording.siblings, recording.learns) == (2, "before")
    assert recording.needs == "episode"  # experience consists of whole episodes
    assert recording.memory is None
    assert_equal(recording.sample(KEY, state), FULL.sample(KEY, learned))
    for name in ("reward", "privileged", "weight", "entropy_scale"):
        assert_equal(getattr(recording, name)(state, ONE), getattr(FULL, name)(learned, ONE))
    after = recording.before_rewards(state, EPISODES)
    assert after.learned == FULL.before_rewards(learned, EPISODES) == 11
    assert after._replace(learned=None) == state._replace(learned=None)


def test_fields_at_their_default_stay_at_their_default():
    plain = Objective(FULL.init, no_skill, FULL.reward, FULL.update)
    recording = record_experience(ENV, plain, 6)
    assert all(getattr(recording, name) == default for name, default in Objective._field_defaults.items())


def test_episodes_are_recorded_in_order():
    recording = record_experience(ENV, FULL, 6)
    state: RecordingState = recording.init(KEY)
    for number in (1, 2):
        state, metrics = recording.update(KEY, state, EPISODES)
        assert int(state.episodes) == 3 * number
        assert (float(state.learned), float(metrics["learned"])) == (number + 1, number)
    np.testing.assert_array_equal(state.experience.paths, np.tile(EPISODES.features, (2, 1, 1)))
    np.testing.assert_array_equal(state.experience.lengths, 5)


def test_reached_states_leave_out_the_start():
    states, valid = reached_states(EPISODES)
    np.testing.assert_array_equal(states, np.asarray(EPISODES.features[:, 1:]).reshape(-1, 2))
    assert valid.shape == (15,)
