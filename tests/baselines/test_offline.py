"""HILP and FB: batches, losses and prompts by hand; from recorded random walks they learn to reach goals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import NUM_RESETS, Experience, SkillPolicy, States
from edl.baselines.fb import FBConfig, fb, measure_error, on_sphere
from edl.baselines.fb import prompt_by_reward as prompt_fb
from edl.baselines.hilp import HILPConfig, TowardGoal, expectile_loss, hilp, map_errors, mean_start
from edl.baselines.hilp import prompt_by_reward as prompt_hilp
from edl.baselines.offline import Transitions, check_offline, draw_transitions
from edl.config import ConfigError
from edl.envs.base import Box, Env
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.nets.distributions import Categorical, action_distribution
from edl.nets.mlp import MLP
from edl.nets.normalise import identity_normaliser
from edl.program import run_program
from edl.tables.offline import prompt_fb as fb_by_direction
from edl.tables.offline import prompt_hilp as prompt_by_direction
from tests.compiling import jit

LINE = jnp.arange(4.0)[:, None] * jnp.ones(2)
EXPERIENCE = Experience(
    paths=jnp.stack([LINE, 10 + LINE, 0 * LINE]), actions=jnp.ones((3, 3, 2)), lengths=jnp.array([3, 1, 0])
)
DOUBLE = MLP([2 * jnp.eye(2)], [jnp.zeros(2)])


def policy_with(model):
    actor = MLP([jnp.zeros((4, 1))], [jnp.zeros(1)])
    return SkillPolicy(actor, identity_normaliser(2), Categorical(1), jnp.eye(2), model=model)


def test_batches_have_real_steps_and_goals_that_come_later_or_from_anywhere():
    rows = jax.tree.map(np.asarray, draw_transitions(jax.random.key(0), EXPERIENCE, 400))
    np.testing.assert_allclose(rows.after - rows.before, 1.0)
    starts = np.unique(rows.before[:, 0])
    assert set(starts) == {0.0, 1.0, 2.0, 10.0}
    assert np.mean(rows.before[:, 0] == 10) == pytest.approx(1 / 4, abs=0.08)  # one of four recorded steps
    assert set(np.unique(rows.other[:, 0])) == {1.0, 2.0, 3.0, 11.0}
    np.testing.assert_allclose(rows.goal[rows.reached], rows.after[rows.reached])
    own = (rows.goal[:, 0] > rows.before[:, 0]) & ((rows.goal[:, 0] < 9) == (rows.before[:, 0] < 9))
    assert 0.6 < own.mean() < 0.95


def test_the_errors_of_the_map_by_hand():
    rows = Transitions(
        before=jnp.zeros((2, 2)), after=jnp.array([[1.0, 0.0], [1.0, 0.0]]), action=jnp.zeros((2, 2)),
        goal=jnp.array([[3.0, 0.0], [1.0, 0.0]]), reached=jnp.array([False, True]), other=jnp.zeros((2, 2)),
    )  # fmt: skip
    errors = map_errors(DOUBLE, DOUBLE, rows, 0.5)
    np.testing.assert_allclose(errors, [-1 + 0.5 * -4 + 6, -1 + 2], rtol=1e-4)
    assert expectile_loss(jnp.array([2.0, -1.0]), 0.9) == pytest.approx((0.9 * 4 + 0.1 * 1) / 2)


def test_the_loss_of_the_successor_measure_by_hand():
    measure, backups = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.ones((2, 2))
    assert measure_error(measure, backups) == pytest.approx(0.5 * (1 + 4) / 2 - 2.5)
    np.testing.assert_allclose(on_sphere(jnp.array([3.0, 4.0])), np.sqrt(2) * np.array([0.6, 0.8]), rtol=1e-5)


def test_prompts_by_reward_by_hand():
    before = jax.random.normal(jax.random.key(0), (50, 2))
    after = before + jax.random.normal(jax.random.key(1), (50, 2))
    rewards = 2 * (after - before) @ jnp.array([3.0, -4.0])
    np.testing.assert_allclose(prompt_hilp(policy_with(DOUBLE), before, after, rewards), [0.6, -0.8], atol=1e-4)
    states = jnp.array([[3.0, 4.0], [0.0, 2.0]])
    expected = np.array([0.6, 0.8]) * 2 - np.array([0.0, 1.0])
    found = prompt_fb(policy_with(DOUBLE), states, jnp.array([2.0, -1.0]))
    np.testing.assert_allclose(found, np.sqrt(2) * expected / np.linalg.norm(expected), rtol=1e-4)
    with pytest.raises(ConfigError, match="phi"):
        prompt_hilp(policy_with(None), before, after, rewards)
    with pytest.raises(ConfigError, match="policy with B"):
        prompt_fb(policy_with(None), states, jnp.zeros(2))


def test_prompts_ignore_what_follows_the_end_of_an_episode():
    paths = jnp.array([[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [9.0, -50.0]]])  # two steps
    states = States(paths[0], Experience(paths, jnp.zeros((1, 3, 2)), jnp.array([2])))
    phi = MLP([jnp.eye(2), jnp.eye(2)], [jnp.zeros(2), jnp.zeros(2)])  # max(s, 0)
    np.testing.assert_allclose(prompt_by_direction(policy_with(phi), states, jnp.array([0.0, 1.0])), [0, 1], atol=1e-5)


def test_the_prompt_of_fb_weighs_states_as_the_recording_does():
    # Moves end twice in (1, 0), once in (0, 1) and once in (2, 1). Samples of p(s) have other shares.
    paths = [[[5, 5], [1, 0], [1, 0], [9, 9]], [[7, 7], [0, 1], [2, 1], [8, 8]]]
    recorded = Experience(jnp.array(paths, jnp.float32), jnp.zeros((2, 3, 2)), jnp.array([2, 2]))
    np.testing.assert_array_equal(recorded.valid, [[True, True, False]] * 2)
    states = States(jnp.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), recorded)
    model = MLP([jnp.array([[3.0, 4.0], [0.0, 2.0]])], [jnp.zeros(2)])
    b_of_10, b_of_01, b_of_21 = np.array([0.6, 0.8]), np.array([0.0, 1.0]), np.array([6.0, 10.0]) / np.sqrt(136)
    # The rewards x - 1 and y - 1/2.
    for direction, expected in (([1.0, 0.0], b_of_21 - b_of_01), ([0.0, 1.0], b_of_21 + b_of_01 - 2 * b_of_10)):
        found = fb_by_direction(policy_with(model), states, jnp.array(direction))
        np.testing.assert_allclose(found, np.sqrt(2) * expected / np.linalg.norm(expected), rtol=1e-4)


def test_skills_of_hilp_start_at_recorded_first_states():
    np.testing.assert_allclose(mean_start(DOUBLE, EXPERIENCE), [10.0, 10.0])  # those of 0 and 10, and no third one
    firsts = jnp.where(jnp.arange(40) < NUM_RESETS, 1.0, 100.0)[:, None, None]  # as those of Go-Explore
    later = Experience(firsts * jnp.ones((40, 2, 2)), jnp.zeros((40, 1, 2)), jnp.ones(40, int))
    np.testing.assert_allclose(mean_start(DOUBLE, later), [2.0, 2.0])
    program = hilp(maze("square"), States(LINE, EXPERIENCE), HILPConfig(num_skills=2, hidden=(4,)))
    policy = jit(lambda key: program.finish(program.init(key)))(jax.random.key(0))
    np.testing.assert_allclose(policy.pick.origin, mean_start(policy.model, EXPERIENCE), rtol=1e-4, atol=1e-5)
    goals = jax.vmap(policy.model)(policy.goals) - policy.pick.origin
    directions = goals / jnp.linalg.norm(goals, axis=1, keepdims=True)
    np.testing.assert_allclose(policy.codes, directions, rtol=1e-3, atol=1e-4)


class OnlySizes(Env):
    """An env that says what its observations and actions are, and cannot be played."""

    horizon: int = 3
    observation_size: int = 2
    feature_size: int = 2

    @property
    def action_space(self):
        return Box(-2 * jnp.ones(2), 2 * jnp.ones(2))

    def reset(self, key):
        raise AssertionError("an offline method resets its env")

    def step(self, key, state, action):
        raise AssertionError("an offline method steps its env")

    observe = features = reset


@pytest.mark.parametrize("build", [hilp, fb])
def test_training_neither_resets_nor_steps_the_env(build):
    small = {"num_skills": 2, "skill_size": 3, "hidden": (4,), "iterations": 2, "gradient_steps": 2, "batch_size": 8}
    program = build(OnlySizes(), States(LINE, EXPERIENCE), {hilp: HILPConfig, fb: FBConfig}[build](**small))
    policy, metrics = jit(lambda key: run_program(program, key))(jax.random.key(0))
    assert policy.codes.shape == (2, 3)
    assert all(np.isfinite(each).all() for each in jax.tree.leaves((policy, metrics)))


def test_hilp_turns_towards_a_goal_in_every_step():
    actions = action_distribution(maze("square").action_space, "tanh_gaussian")
    actor = MLP([jnp.eye(4)], [jnp.zeros(4)])  # the means are s, the log deviations z
    policy = SkillPolicy(actor, identity_normaliser(2), actions, jnp.eye(2), model=DOUBLE)
    here, goal, key = jnp.array([0.1, 0.2]), jnp.array([3.1, -3.8]), jax.random.key(0)
    expected = policy.act(key, here, jnp.array([0.6, -0.8]))
    np.testing.assert_allclose(TowardGoal(policy).act(key, here, goal), expected, rtol=1e-4)
    assert not np.allclose(TowardGoal(policy).act(key, goal, here), expected)


def test_states_without_experience_and_discrete_actions_are_rejected():
    with pytest.raises(ConfigError, match="hilp learns from recorded transitions"):
        check_offline(maze("square"), States(LINE), "hilp")
    with pytest.raises(ConfigError, match="fb needs continuous actions"):
        check_offline(gridworld(3, 3, 9), States(LINE, EXPERIENCE), "fb")


@pytest.mark.parametrize(
    ("build", "config"), [(hilp, HILPConfig(num_skills=2, hidden=(4,))), (fb, FBConfig(num_skills=2, hidden=(4,)))]
)
def test_inputs_are_normalised_by_the_moments_of_all_samples(build, config):
    # The first episodes of a recording stay near the start, and the later ones are far from it.
    samples = jnp.concatenate([jnp.zeros((5000, 2)), jnp.full((5000, 2), 4.0)])
    program = build(maze("square"), States(samples, EXPERIENCE), config)
    normaliser = jit(lambda key: program.finish(program.init(key)).normaliser)(jax.random.key(0))
    np.testing.assert_allclose(normaliser.mean, 2.0, rtol=1e-5)
    np.testing.assert_allclose(normaliser.scale, 2.0, rtol=1e-5)


@pytest.fixture(scope="module")
def walks():
    """A corridor, and random walks in it."""
    env = maze("corridor_center", horizon=25)
    explorer = random_walk(env, RandomWalkConfig(iterations=8, rollouts=50))
    return env, jit(lambda key: run_program(explorer, key)[0])(jax.random.key(0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "config"),
    [
        (hilp, HILPConfig(num_skills=2, skill_size=2, hidden=(64, 64), iterations=30)),
        (fb, FBConfig(num_skills=2, skill_size=8, hidden=(64, 64), iterations=30)),
    ],
    ids=["hilp", "fb"],
)
def test_goals_and_rewards_lead_to_different_ends(walks, build, config):
    env, states = walks
    program = build(env, states, config)
    policy, _ = jit(lambda key: run_program(program, key))(jax.random.key(1))
    targets = jnp.array([[-4.0, 0.0], [4.0, 0.0]])
    by_goal = jnp.stack([policy.pick(target) for target in targets])
    before, after = states.experience.paths[:, :-1].reshape(-1, 2), states.experience.paths[:, 1:].reshape(-1, 2)
    if build is hilp:
        to_right = prompt_hilp(policy, before, after, (after - before)[:, 0])
    else:
        to_right = prompt_fb(policy, after, jnp.sign(after[:, 0]))
    codes = jnp.concatenate([by_goal, to_right[None]])
    ends = np.asarray(last_states(rollouts(jax.random.key(0), env, policy, codes, num=10))[..., 0]).mean(axis=1)
    assert ends[1] - ends[0] > 4
    assert ends[2] > 2
