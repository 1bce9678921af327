"""Reaching beyond: rewards and goals agree with their formulas in any unit, and it explores where chance does not."""

import dataclasses
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from edl.config import ConfigError
from edl.envs.base import Box, Env, Step
from edl.envs.maze import maze
from edl.envs.rollout import Episode, Skill, rollout
from edl.explore.beyond import BeyondConfig, GoalInput, beyond, beyond_objective, goal_input
from edl.explore.random_walk import RandomWalkConfig, random_walk
from edl.explore.visited import CellSet, ParticleSet, empty_cells
from edl.nets.mlp import MLP
from edl.program import run_program
from tests.compiling import jit
from tests.explore.thruster import Thruster

KEY = jax.random.key(0)
ENV = Thruster(horizon=4)
CONFIG = BeyondConfig(
    iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,), cells=64, states_per_cell=2, particles=16,
    neighbours=2, num_samples=32,
)  # fmt: skip


def episodes_of(paths, goals=((3.0, 4.0),), valid=None):
    paths, goals = jnp.asarray(paths, jnp.float32), jnp.asarray(goals, jnp.float32)
    flags = jnp.zeros((paths.shape[0], paths.shape[1] - 1), bool)
    return Episode(
        observations=paths,
        features=paths,
        actions=jnp.zeros((*flags.shape, 4)),
        terminated=flags,
        truncated=flags,
        valid=~flags if valid is None else jnp.asarray(valid),
        skill=Skill(goals, jnp.full(len(goals), -1), goals),
    )


def visiting(states, *, unit=1.0, config=CONFIG):
    """The state of the objective after these states were visited, in cells of side 1."""
    empty = beyond_objective(ENV, config).init(KEY)
    visited = empty_cells(jnp.full(2, unit), 1.0, config.cells, config.states_per_cell)
    states = jnp.asarray(states, jnp.float32)
    return empty._replace(visited=visited.add(KEY, states, jnp.ones(len(states), bool)))


CORNERS = np.array([[0, 0], [6, 0], [0, 8], [6, 8]]) + 0.5
"""Visits in four cells, whose centres are 5 from their centre."""
SPREAD = (25 + 1 / 12) ** 0.5


def test_reward_is_progress_and_a_bonus_that_grows_towards_the_goal():
    path, goal = [[3.0, 0.0], [3.0, 2.0], [3.0, 3.9], [3.0, 4.0], [0.0, 4.0]], (3.0, 4.0)
    config = dataclasses.replace(CONFIG, radius=0.05, bonus=0.6)
    rewards = jax.vmap(partial(beyond_objective(ENV, config).reward, visiting(CORNERS)))(episodes_of([path], [goal]))
    # Distances to the goal: 4, 2, 0.1, 0, 3. The bonus at the goal is 0.6 / 4 steps, and it is 0 beyond 0.05 * 5.01.
    near = 0.15 * (1 - 0.1 / (0.05 * SPREAD))
    wanted = [2 / SPREAD, 1.9 / SPREAD + near, 0.1 / SPREAD + 0.15, -3 / SPREAD]
    np.testing.assert_allclose(rewards[0], wanted, rtol=1e-4)


def test_the_rewards_of_parts_are_those_of_the_episode():
    path = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)), jnp.float32)
    reward = partial(beyond_objective(ENV, CONFIG).reward, visiting(CORNERS))
    whole, parts = episodes_of([path]), episodes_of([path[:3], path[2:]], [[3.0, 4.0]] * 2)
    np.testing.assert_allclose(jax.vmap(reward)(parts).ravel(), jax.vmap(reward)(whole)[0], rtol=1e-6)


def test_parts_mark_the_same_cells_as_the_episode():
    paths, goals = np.arange(20.0).reshape(2, 5, 2), [[1.0, 1.0], [2.0, 2.0]]
    config = dataclasses.replace(CONFIG, rollouts=2)
    update, bit_by_bit = jit(beyond_objective(ENV, config).update), visiting(CORNERS, config=config)
    valid = np.array([[True, True, True, True], [True, True, False, False]])
    at_once, _ = update(KEY, bit_by_bit, episodes_of(paths, goals, valid))
    bit_by_bit, _ = update(KEY, bit_by_bit, episodes_of(paths[:, :3], goals, valid[:, :2]))
    bit_by_bit, _ = update(KEY, bit_by_bit, episodes_of(paths[:1, 2:].repeat(2, 0), goals, valid[:1, 2:].repeat(2, 0)))
    assert at_once.visited.size == bit_by_bit.visited.size == 4 + 6
    np.testing.assert_array_equal(at_once.visited.corners, bit_by_bit.visited.corners)
    assert at_once.visited.spread == bit_by_bit.visited.spread


def test_metrics_count_the_steps_at_the_goal():
    path, config = [[0, 0], [3.0, 4.0], [3.0, 4.1], [9.0, 9.0], [3.0, 4.0]], dataclasses.replace(CONFIG, rollouts=1)
    episodes, before = episodes_of([path], valid=[[True, True, True, False]]), visiting(CORNERS, config=config)
    state, metrics = beyond_objective(ENV, config).update(KEY, before, episodes)
    assert metrics["at_goal"] == pytest.approx(2 / 3)
    assert metrics["visited"] == 6
    assert metrics["spread"] == state.visited.spread


def draw_goals(state, config, num=4000):
    sample = beyond_objective(ENV, config).sample
    return np.asarray(jit(jax.vmap(lambda key: sample(key, state).goal))(jax.random.split(KEY, num)))


def test_goals_are_uniform_over_the_visited_cells_not_over_visits():
    state = visiting(np.concatenate([CORNERS, np.full((300, 2), 0.5)]))
    goals = draw_goals(state, dataclasses.replace(CONFIG, margin=0.0))
    cells, counts = np.unique(np.floor(goals), axis=0, return_counts=True)
    np.testing.assert_array_equal(cells, np.floor(sorted(CORNERS.tolist())))
    np.testing.assert_allclose(counts / 4000, 0.25, atol=0.03)


def test_goals_lie_beyond_the_visited_cells_by_the_margin():
    inside = draw_goals(visiting(CORNERS), dataclasses.replace(CONFIG, margin=0.0))
    goals = draw_goals(visiting(CORNERS), dataclasses.replace(CONFIG, margin=0.2))
    noise = goals - inside  # the same keys, so the same points
    assert np.sqrt((noise**2).sum(axis=1).mean()) == pytest.approx(0.2 * SPREAD, rel=0.05)
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.05)
    np.testing.assert_allclose(noise.std(axis=0), 0.2 * SPREAD / 2**0.5, rtol=0.05)
    assert np.mean(np.any(np.floor(goals) != np.floor(inside), axis=1)) > 0.5


def test_far_goals_are_twice_as_far_from_the_centre():
    centre = CORNERS.mean(axis=0)
    near = draw_goals(visiting(CORNERS), dataclasses.replace(CONFIG, margin=0.0))
    far = draw_goals(visiting(CORNERS), dataclasses.replace(CONFIG, margin=0.0, far=1.0))
    np.testing.assert_allclose(far - centre, 2 * (near - centre), rtol=1e-4, atol=1e-4)  # the same keys
    some = draw_goals(visiting(CORNERS), dataclasses.replace(CONFIG, margin=0.0, far=0.25))
    moved = np.abs(some - near).max(axis=1) > 1e-3
    assert np.mean(moved) == pytest.approx(0.25, abs=0.03)
    np.testing.assert_array_equal(some[moved], far[moved])


def test_goals_and_rewards_scale_with_the_coordinates():
    """Multiply all coordinates by 100: goals and margin do so too, and rewards stay the same."""
    small, large = visiting(CORNERS), visiting(100 * CORNERS, unit=100.0)
    np.testing.assert_allclose(draw_goals(large, CONFIG, 50), 100 * draw_goals(small, CONFIG, 50), rtol=1e-4, atol=1e-3)
    path = np.random.default_rng(0).normal(size=(1, 5, 2))
    reward = jax.vmap(beyond_objective(ENV, CONFIG).reward, (None, 0))
    np.testing.assert_allclose(
        reward(large, episodes_of(100 * path, [[300.0, 400.0]])), reward(small, episodes_of(path)), rtol=1e-4, atol=1e-6
    )


class InAnyUnit(Thruster):
    """All scales are one program."""

    scale: float | jax.Array = 1.0


@jit
def explore_in_parts(scale):
    """96 steps in parts of two, of which at most 14 episodes are kept."""
    config = dataclasses.replace(CONFIG, iterations=6, rollouts=8, unroll=2, episodes=14)
    return run_program(beyond(InAnyUnit(horizon=4, scale=scale), config), KEY)


@pytest.fixture(scope="module")
def in_parts():
    return explore_in_parts(1.0)


def test_the_whole_explorer_does_not_depend_on_the_units(in_parts):
    """A power of two scales without rounding, so the two runs agree exactly."""
    (states, metrics), (large, large_metrics) = in_parts, explore_in_parts(128.0)
    np.testing.assert_array_equal(large.samples, 128 * states.samples)
    np.testing.assert_array_equal(large.experience.paths, 128 * states.experience.paths)
    np.testing.assert_array_equal(large_metrics["visited"], metrics["visited"])
    np.testing.assert_allclose(large_metrics["return"], metrics["return"], rtol=1e-6)
    np.testing.assert_allclose(large_metrics["spread"], 128 * metrics["spread"], rtol=1e-6)


def test_parts_are_recorded_as_episodes_without_jumps_and_only_so_many(in_parts):
    paths, lengths = np.asarray(in_parts[0].experience.paths), np.asarray(in_parts[0].experience.lengths)
    assert paths.shape == (14, 5, 2)
    assert set(lengths) == {2, 4}
    assert np.abs(paths[:, 0]).max() < 0.1  # every recorded episode begins where episodes begin
    assert np.abs(np.diff(paths, axis=1)).max() < 1.0


@pytest.mark.parametrize(("episodes", "unroll", "sampled"), [(12, 0, False), (11, 0, True), (99, 2, True)])
def test_experience_that_is_a_sample_of_the_episodes_says_so(episodes, unroll, sampled):
    """12 episodes are played: 4 of random actions, and 2 iterations of 4. Parts can be of more episodes."""
    config = dataclasses.replace(CONFIG, episodes=episodes, unroll=unroll)
    program = beyond(ENV, config)
    states = jax.eval_shape(lambda key: program.finish(program.init(key)), KEY)
    assert states.experience.sampled == sampled


def test_the_networks_see_the_offset_to_the_goal():
    integrate = goal_input(ENV)
    np.testing.assert_array_equal(integrate(jnp.arange(4.0), jnp.array([5.0, 7.0])), [0, 1, 2, 3, 5, 7, 5, 6])
    assert integrate == goal_input(Thruster(horizon=4))
    assert hash(integrate) == hash(goal_input(Thruster(horizon=4)))
    # Envs of one kind differ in their arrays, which the input does not have.
    assert goal_input(maze("square")) == goal_input(maze("bottleneck"))


def test_networks_that_see_the_offset_see_neither_the_position_nor_the_goal():
    integrate = goal_input(ENV, "offset")
    seen = integrate(jnp.arange(4.0), jnp.array([5.0, 7.0]))
    np.testing.assert_array_equal(seen, [2, 3, 5, 6])  # the velocity, and g - x
    moved = integrate(jnp.array([10.0, 11.0, 2.0, 3.0]), jnp.array([15.0, 17.0]))
    np.testing.assert_array_equal(moved, seen)
    assert hash(integrate) == hash(goal_input(Thruster(horizon=4), "offset")) != hash(goal_input(ENV))
    assert isinstance(jax.jit(lambda: goal_input(ENV, "offset")(jnp.zeros(4), jnp.zeros(2)))(), jax.Array)
    with pytest.raises(ConfigError, match="entries of the observation"):
        goal_input(Doubled(), "offset")
    with pytest.raises(ConfigError, match=r"a robot on a free joint on an empty floor.*\(got another Thruster\)"):
        goal_input(ENV, "egocentric")


class Doubled(Thruster):
    """Its features are no entries of the observation."""

    def features(self, observation):
        return 2.0 * observation[:2]


class Scaled(Env):
    """Its features depend on an array of the env."""

    factor: jax.Array
    horizon: int = eqx.field(static=True, default=3)
    observation_size: int = eqx.field(static=True, default=1)
    feature_size: int = eqx.field(static=True, default=1)

    @property
    def action_space(self):
        return Box(low=-jnp.ones(1), high=jnp.ones(1))

    def reset(self, key):
        return jnp.zeros(1)

    def step(self, key, state, action):
        return Step(state + action, state + action, jnp.bool_(False), jnp.bool_(False))

    def observe(self, state):
        return state

    def features(self, observation):
        return self.factor * observation


def test_bad_input_is_rejected():
    with pytest.raises(ConfigError, match=r"features that depend on the observation alone \(Scaled\.features uses"):
        beyond(Scaled(jnp.ones(1)), CONFIG)
    with pytest.raises(ConfigError, match=r"cells must be at least 4 for 2 features \(got 3\)"):
        beyond(ENV, dataclasses.replace(CONFIG, cells=3)).init(KEY)


class ManyFeatures(Env):
    """A point in six dimensions."""

    horizon: int = eqx.field(static=True, default=5)
    observation_size: int = eqx.field(static=True, default=6)
    feature_size: int = eqx.field(static=True, default=6)

    @property
    def action_space(self):
        return Box(low=-jnp.ones(6), high=jnp.ones(6))

    def reset(self, key):
        return (jnp.zeros(6), jnp.int32(0))

    def step(self, key, state, action):
        reached = (state[0] + action, state[1] + 1)
        return Step(reached, reached[0], jnp.bool_(False), reached[1] >= self.horizon)

    def observe(self, state):
        return state[0]

    def features(self, observation):
        return observation


def test_many_features_use_nearest_neighbours_instead_of_cells():
    env = ManyFeatures()
    program = beyond(env, CONFIG)
    state = jit(program.init)(KEY)
    assert isinstance(state.objective.visited, ParticleSet)
    assert isinstance(jax.eval_shape(beyond(ENV, CONFIG).init, KEY).objective.visited, CellSet)
    states, metrics = jit(lambda key: run_program(program, key))(KEY)
    assert states.samples.shape == (32, 6)
    visited = {tuple(s) for s in np.asarray(states.experience.paths).reshape(-1, 6)}
    assert {tuple(s) for s in np.asarray(states.samples)} <= visited
    assert (np.asarray(metrics["visited"]) == CONFIG.particles).all()


LEARNS = BeyondConfig(
    iterations=100, rollouts=64, minibatches=8, hidden=(64, 64), learning_rate=2e-3, cells=4096, episodes=8192,
    num_samples=1024,
)  # fmt: skip


@pytest.fixture(scope="module")
def explored():
    """200,000 steps in an env where random actions hardly move."""
    return jax.jit(lambda key: run_program(beyond(Thruster(), LEARNS), key))(KEY)


@pytest.mark.slow
def test_it_covers_more_than_a_random_walk(explored):
    walk = RandomWalkConfig(iterations=LEARNS.iterations + 1, rollouts=LEARNS.rollouts)
    walked, _ = jit(lambda key: run_program(random_walk(Thruster(), walk), key))(KEY)

    def cells(states):
        return len(np.unique(np.floor(np.asarray(states.experience.paths).reshape(-1, 2)), axis=0))

    assert np.sum(explored[0].experience.lengths) == np.sum(walked.experience.lengths)
    assert cells(explored[0]) > 3 * cells(walked)


@pytest.mark.slow
def test_samples_are_uniform_over_the_visited_cells(explored):
    states = explored[0]
    visits = np.floor(np.asarray(states.experience.paths).reshape(-1, 2) / 4)
    drawn = np.floor(np.asarray(states.samples) / 4)

    def unevenness(cells):
        counts = np.unique(cells, axis=0, return_counts=True)[1]
        return counts.std() / counts.mean()

    assert unevenness(drawn) < 0.5 * unevenness(visits)
    assert {tuple(s) for s in np.asarray(states.samples)} <= {
        tuple(s) for s in np.asarray(states.experience.paths).reshape(-1, 2)
    }


@pytest.mark.slow
def test_its_policy_goes_where_it_is_told(explored):
    policy, env, goals = explored[0].policy, Thruster(), jnp.array([[4.0, 0.0], [-3.0, 3.0], [0.0, -5.0]])

    def end(goal):
        def act(key, observation, code):
            return policy.mode(observation, code), jnp.zeros(0)

        return rollout(KEY, env, act, Skill(goal, jnp.int32(-1))).last

    distances = np.linalg.norm(np.asarray(jit(jax.vmap(end))(goals)) - goals, axis=1)
    assert (distances < 1.5).all()


@pytest.mark.slow
def test_learning_can_continue_from_the_policy(explored):
    policy = explored[0].policy
    assert isinstance(policy.integrate, GoalInput)
    observation, goal = jnp.array([1.0, -2.0, 0.1, 0.2]), jnp.array([3.0, 1.0])
    normaliser = policy.model.moments.normaliser()
    inputs = normaliser(policy.integrate(observation, goal))
    first = policy.actor.weights[0]  # the policy's own network normalises its inputs by these moments
    weights = [first * normaliser.scale[:, None], *policy.actor.weights[1:]]
    biases = [policy.actor.biases[0] + normaliser.mean @ first, *policy.actor.biases[1:]]
    actor = MLP(weights, biases, policy.actor.activation)
    np.testing.assert_allclose(actor(inputs), policy(observation, goal), rtol=1e-3, atol=1e-3)
    assert np.isfinite(policy.model.critic(inputs)).all()


class Reach(NamedTuple):
    """How far the policy goes if it is told directions, and how near to visited states it ends if it is told these.

    ``miss`` is a share of the radius of the visited set.
    """

    reach: Array
    miss: Array
    within_1: Array


def explore_far(key, far, inputs="world"):
    """190,000 steps of a point with inertia, in episodes of 100 steps."""
    env = Thruster(horizon=100)
    config = BeyondConfig(
        iterations=300, rollouts=64, unroll=10, minibatches=4, hidden=(64, 64), learning_rate=2e-3,
        last_learning_rate=2e-4, cells=4096, episodes=64, num_samples=256, far=far, inputs=inputs,
    )  # fmt: skip
    angles = jnp.linspace(0, 2 * jnp.pi, 25)[:-1]
    directions = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)
    states, _ = run_program(beyond(env, config), key)

    def end(goal):
        def act(key, observation, code):
            return states.policy.mode(observation, code), jnp.zeros(0)

        return rollout(KEY, env, act, Skill(goal, jnp.int32(-1))).last

    radius = jnp.max(jnp.linalg.norm(states.samples, axis=1))
    reach = jnp.sum(jax.vmap(end)(1.25 * radius * directions) * directions, axis=1)
    goals = states.samples[:64]
    left = jnp.linalg.norm(jax.vmap(end)(goals) - goals, axis=1)
    return Reach(jnp.mean(reach), jnp.mean(left) / radius, jnp.mean(left < 1.0))


@pytest.mark.slow
def test_far_goals_extend_the_reach():
    """With and without far goals, means of four seeds."""
    lanes = jax.vmap(jax.vmap(lambda key, far: explore_far(key, far), (0, None)), (None, 0))
    found = jax.jit(lanes)(jax.random.split(KEY, 4), jnp.array([0.0, 0.1]))
    assert jnp.mean(found.reach[1]) > 1.2 * jnp.mean(found.reach[0])
    assert jnp.std(found.reach[1]) < jnp.std(found.reach[0])
    assert (found.miss < 0.02).all()


@pytest.mark.slow
def test_policies_that_see_the_offset_reach_far_and_are_precise():
    """Means of three seeds. ``pytest -m slow -s`` prints them."""
    world, offset = (
        jax.jit(jax.vmap(lambda key, each=each: explore_far(key, 0.2, each)))(jax.random.split(KEY, 3))
        for each in ("world", "offset")
    )
    for name, found in {"world": world, "offset": offset}.items():
        print(name, {key: round(float(jnp.mean(value)), 3) for key, value in found._asdict().items()})
    assert jnp.mean(offset.reach) > 0.95 * jnp.mean(world.reach)
    assert jnp.mean(offset.within_1) > jnp.mean(world.within_1) + 0.05
