"""Recording the experience of a bonus keeps every field of its objective."""

import jax
import jax.numpy as jnp
import numpy as np

from edl.artifacts import SkillPolicy
from edl.envs.gridworld import gridworld
from edl.envs.rollout import Episode, Skill
from edl.explore.bonus import RecordingState, no_skill, reached_states, record_experience
from edl.explore.random_walk import random_episode
from edl.nets.distributions import Categorical
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.objective import LearnerView, LinearReward, Objective, RewardMemory

KEY = jax.random.key(0)
ENV = gridworld(4, 4, 5)
EPISODES: Episode = jax.vmap(lambda key: random_episode(key, ENV, 0.5))(jax.random.split(KEY, 3))
ONE: Episode = jax.tree.map(lambda x: x[0], EPISODES)
LATER = jnp.ones(2)

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
    relabel=lambda key, learned, step, later: Skill(later, jnp.int32(learned)),
    rewrite=lambda key, learned, replay, rows: learned * rows,
    linear=LinearReward(lambda learned, episode: learned * episode.features[1:], lambda codes: codes[None]),
    see_learner=lambda learned, learner: learned + 20,
    change_skill=lambda learned, skill, time, features: Skill(features, jnp.int32(learned) + time),
)
"""Every field differs from its default and depends on the state, which must be the number that ``init`` returns."""


def assert_equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_every_field_of_the_objective_survives_recording():
    recording = record_experience(ENV, FULL, 6)
    state, learned = recording.init(KEY), FULL.init(KEY)
    defaults = Objective._field_defaults
    assert all(getattr(FULL, name) != default for name, default in defaults.items())
    assert (recording.siblings, recording.learns) == (2, "before")
    assert recording.needs == "episode"  # experience consists of whole episodes
    assert recording.memory is None
    assert_equal(recording.sample(KEY, state), FULL.sample(KEY, learned))
    for name in ("reward", "privileged", "weight", "entropy_scale"):
        assert_equal(getattr(recording, name)(state, ONE), getattr(FULL, name)(learned, ONE))
    assert_equal(recording.relabel(KEY, state, ONE, LATER), FULL.relabel(KEY, learned, ONE, LATER))
    assert recording.rewrite is not None
    assert FULL.rewrite is not None
    rows = jnp.arange(6).reshape(2, 3)
    assert_equal(recording.rewrite(KEY, state, None, rows), FULL.rewrite(KEY, learned, None, rows))
    assert recording.change_skill is not None
    assert FULL.change_skill is not None
    now = (no_skill(KEY, learned), jnp.int32(5), LATER)
    assert_equal(recording.change_skill(state, *now), FULL.change_skill(learned, *now))
    assert recording.linear is not None
    assert FULL.linear is not None
    assert_equal(recording.linear.cumulants(state, ONE), FULL.linear.cumulants(learned, ONE))
    assert recording.linear.gpi_codes is FULL.linear.gpi_codes
    after = recording.before_rewards(state, EPISODES)
    assert after.learned == FULL.before_rewards(learned, EPISODES) == 11
    assert after._replace(learned=None) == state._replace(learned=None)
    net = MLP([jnp.zeros((2, 1))], [jnp.zeros(1)])
    learner = LearnerView(SkillPolicy(net, identity_normaliser(2), Categorical(1), jnp.zeros((1, 0))), net)
    assert recording.see_learner(state, learner).learned == FULL.see_learner(learned, learner) == 21
    covered = {
        "siblings",
        "privileged",
        "weight",
        "entropy_scale",
        "before_rewards",
        "learns",
        "needs",
        "memory",
        "relabel",
        "rewrite",
        "linear",
        "see_learner",
        "change_skill",
    }
    assert covered == set(defaults), "a new field of Objective needs a line in this test"


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
