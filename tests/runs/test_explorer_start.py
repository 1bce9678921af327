"""Stage 3 can start from the policy of the explorer: with its networks, and with goals as codes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.artifacts import SkillModel
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.explore.beyond import BeyondConfig, GoalInput, beyond
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig, learn
from edl.learn.distance import EuclideanDistance
from edl.nets.normalise import identity_normaliser
from edl.rl.ppo import PPOConfig
from tests.compiling import jit
from tests.explore.thruster import Thruster

BEYOND = BeyondConfig(
    iterations=4, rollouts=4, unroll=3, epochs=1, minibatches=2, hidden=(8,), cells=64, num_samples=64, episodes=8
)
PPO = PPOConfig(
    iterations=2, rollouts=4, unroll=3, epochs=1, minibatches=2, hidden=(8,), normalise_codes=True, learning_rate=1e-9,
    last_learning_rate=1e-9,
)  # fmt: skip
LEARNER = LearnConfig(start="explorer", distance="normalised", bonus=0.5, scale_rewards=True, ppo=PPO)
SETTINGS = {
    "explore": "beyond",
    "explorer": BEYOND,
    "discover": "kmeans",
    "discoverer": KMeansConfig(),
    "learner": LEARNER,
    "num_skills": 2,
    "num_seeds": 2,
}


def short_thruster():
    return Thruster(horizon=6)


def test_before_the_first_gradient_step_the_policy_is_that_of_the_explorer():
    env, goals = short_thruster(), jnp.array([[0.5, 0.0], [0.0, 0.5]])
    skills = SkillModel(jnp.eye(2), goals, goals, jnp.full(2, 0.5), None, None, identity_normaliser(2))
    explorer = beyond(env, BEYOND)

    @jit
    def start(key):
        learned = explorer.finish(explorer.init(key)).policy
        program = learn(env, skills, EuclideanDistance(), LEARNER, learned)
        state = program.init(key)
        return learned, program.finish(state), state.inner.agent.critic.params

    learned, policy, critic = start(jax.random.key(0))
    np.testing.assert_array_equal(policy.codes, goals)
    assert isinstance(policy.integrate, GoalInput)
    observation = jnp.array([0.1, 0.0, 0.02, 0.0])
    np.testing.assert_allclose(policy(observation, goals[0]), learned(observation, goals[0]), rtol=1e-4, atol=1e-6)
    # Stage 3 rewards progress by 1 per standard deviation of p(s), which is 1 here.
    inputs = learned.model.moments.normaliser()(policy.integrate(observation, goals[0]))
    expected = learned.model.reward_unit * learned.model.critic(inputs)
    np.testing.assert_allclose(critic(inputs), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_run_is_resumed_and_loaded(tmp_path):
    """The policy of the explorer is read from its file, and learning goes on with it."""
    edl.run(short_thruster, out=tmp_path / "run", until="discover", **SETTINGS)
    run = edl.run(short_thruster, out=tmp_path / "run", resume=True, **SETTINGS)
    np.testing.assert_array_equal(run.policy.codes, run.skills.goals)
    assert run.metrics["picked_by"] == "q(z|x)"
    loaded = edl.load(run.path, env=short_thruster)
    np.testing.assert_array_equal(loaded.policy.actor.weights[0], run.policy.actor.weights[0])
    at_once = edl.run(short_thruster, **SETTINGS)
    np.testing.assert_array_equal(at_once.policy.actor.weights[0], run.policy.actor.weights[0])
    # The learning rate is nearly zero, so the last layer is still that of the explorer.
    weights = [policy.actor.weights[-1] for policy in (run.states.policy, run.policy)]
    np.testing.assert_allclose(*weights, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"explore": "random_walk", "explorer": RandomWalkConfig(iterations=1, rollouts=2)},
            r"needs an explorer that learns a policy for goals, such as beyond .*learner.start='scratch'",
        ),
        (
            {"learner": dataclasses.replace(LEARNER, ppo=dataclasses.replace(PPO, hidden=(16,)))},
            r"ppo.hidden must be that of the policy to start from, \(8,\) \(got \(16,\)\)",
        ),
        ({"discover": "gaussian_vae", "discoverer": None}, r"needs discrete skills, .*\(got a continuous prior\)"),
    ],
)
def test_a_start_that_is_not_offered_is_rejected_before_anything_runs(changes, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        edl.run(short_thruster, out=tmp_path / "run", **(SETTINGS | changes))
    assert not (tmp_path / "run").exists()
