"""MAP-Elites: places, insertion and the joined network by hand; evolution fills cells."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.baselines.map_elites import (
    LOG_DEVIATION,
    MAPElitesConfig,
    Repertoire,
    choose_members,
    insert,
    join_members,
    map_elites,
    vary,
)
from edl.config import ConfigError
from edl.envs.gridworld import gridworld
from edl.envs.maze import maze
from edl.evaluate.skill_rollouts import last_states, rollouts
from edl.nets.mlp import mlp
from edl.program import run_program
from tests.compiling import jit

EMPTY = Repertoire(jnp.zeros((64, 1)), jnp.zeros((64, 2)), jnp.full(64, -jnp.inf))


def test_few_cells_share_a_place():
    places = MAPElitesConfig().places
    empty = Repertoire(jnp.zeros((places, 1)), jnp.zeros((places, 2)), jnp.full(places, -jnp.inf))
    x, y = np.meshgrid(np.arange(-10, 10), np.arange(-10, 10))
    ends = jnp.asarray(0.5 * np.stack([x.ravel(), y.ravel()], axis=1) + 0.2)
    once = insert(empty, jnp.zeros((400, 1)), ends, jnp.zeros(400), 0.5)
    assert int(once.filled.sum()) > 370  # 381 of 400 on average if places were drawn at random
    # Other states of the same cells have the same places.
    again = insert(once, jnp.ones((400, 1)), ends + 0.2, jnp.full(400, -1.0), 0.5)
    np.testing.assert_array_equal(again.weights, once.weights)
    np.testing.assert_array_equal(again.filled, once.filled)


def test_a_place_keeps_the_fittest():
    ends = jnp.array([[0.1, 0.1], [0.2, 0.2], [5.0, 5.0]])
    first = insert(EMPTY, jnp.array([[1.0], [2.0], [3.0]]), ends, jnp.array([-3.0, -1.0, -9.0]), 0.5)
    assert set(np.asarray(first.weights[first.filled])[:, 0]) == {2.0, 3.0}
    # Less fit, as fit (the old one stays), and fitter.
    later = insert(first, jnp.array([[4.0], [5.0], [6.0]]), ends, jnp.array([-2.0, -1.0, -8.0]), 0.5)
    assert set(np.asarray(later.weights[later.filled])[:, 0]) == {2.0, 6.0}
    # Of two equally fit children of one cell, one takes its place.
    equal = insert(EMPTY, jnp.array([[7.0], [8.0]]), ends[:2], jnp.array([-1.0, -1.0]), 0.5)
    assert np.asarray(equal.weights[equal.filled]).tolist() == [[7.0]]


def test_children_lie_on_the_line_between_members():
    weights = jnp.zeros((64, 2)).at[5].set(jnp.array([1.0, 1.0])).at[9].set(jnp.array([3.0, 1.0]))
    members = Repertoire(weights, EMPTY.ends, EMPTY.fitness.at[jnp.array([5, 9])].set(0.0))
    children = vary(jax.random.key(0), members, MAPElitesConfig(rollouts=50, iso_sigma=0.0, line_sigma=1.0))
    np.testing.assert_allclose(children[:, 1], 1.0)
    assert len(np.unique(children[:, 0])) > 5


def test_the_joined_network_is_each_member_in_turn():
    members = jax.vmap(lambda key: mlp(key, (2, 5, 3)))(jax.random.split(jax.random.key(0), 4))
    members = jax.tree.map(lambda x: x + 0.1, members)  # biases that are not zero
    joined, x = join_members(members, 4), jnp.array([0.3, -2.0])
    for k in range(4):
        found = joined(jnp.concatenate([x, jnp.eye(4)[k]]))
        np.testing.assert_allclose(found[:3], jax.tree.map(lambda leaf, k=k: leaf[k], members)(x), atol=2e-3)
        np.testing.assert_allclose(found[3:], LOG_DEVIATION)


def test_skills_are_members_spread_over_the_repertoire():
    rows = jnp.array([3, 7, 20, 41])
    ends = EMPTY.ends.at[rows].set(jnp.array([[9.0, 9.0], [9.1, 9.0], [-9.0, 0.0], [-9.1, 0.0]]))
    chosen = np.asarray(choose_members(Repertoire(EMPTY.weights, ends, EMPTY.fitness.at[rows].set(0.0)), 2))
    assert len({3, 7} & set(chosen)) == len({20, 41} & set(chosen)) == 1


def test_all_members_count_alike_in_the_choice_of_skills():
    rows = jnp.array([3, 7, 20, 41])
    ends = EMPTY.ends.at[rows, 0].set(jnp.array([0.0, 3.0, 4.0, 20.0]))
    chosen = choose_members(Repertoire(EMPTY.weights, ends, EMPTY.fitness.at[rows].set(0.0)), 2)
    # The mean of 0, 3 and 4 is nearest to 3. If the 60 empty places counted as the first member, it would be 0.
    assert set(np.asarray(chosen).tolist()) == {7, 41}


def test_discrete_actions_are_rejected():
    with pytest.raises(ConfigError, match="continuous actions"):
        map_elites(gridworld(3, 3, 9), MAPElitesConfig())


@pytest.mark.slow
def test_evolution_fills_cells_and_skills_end_where_their_members_did():
    """On average over seeds: a network may turn left or right, depending on where in its cell an episode starts."""
    env = maze("corridor_center", horizon=25)
    program = map_elites(env, MAPElitesConfig(num_skills=4, iterations=60, rollouts=64, hidden_size=8))
    evolve = jit(lambda key: run_program(program, key))
    gaps, widths = [], []
    for seed in range(6):
        policy, metrics = evolve(jax.random.key(seed))
        members = np.asarray(metrics["members"])
        assert members[-1] > members[0] + 10
        ends = np.asarray(last_states(rollouts(jax.random.key(0), env, policy, policy.codes, num=10)))
        gaps.append(np.linalg.norm(ends - np.asarray(policy.goals)[:, None], axis=-1).mean())
        widths.append(np.ptp(ends[..., 0].mean(axis=1)))
    assert np.mean(gaps) < 1.5
    assert np.mean(widths) > 3
