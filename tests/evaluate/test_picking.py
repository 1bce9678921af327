"""The skill that a run picks for a state: by a rule, by playing the code it picks, or by practice."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import PickRule, TargetAsGoal
from edl.baselines.pick_rules import NearestMean
from edl.envs import layouts
from edl.envs.maze import maze
from edl.evaluate import maze_evaluator, rollouts, summarise
from edl.evaluate.picking import pick_by_practice, picks_code, play_picked, played_targets
from tests.compiling import jit
from tests.interop.hosted import FailingLine

LAYOUT = layouts.load("corridor_center")
ENV = maze(LAYOUT)


class GoTo(eqx.Module):
    """A policy that goes to its code, as far as ``gain`` lets it."""

    gain: float = 1.0

    def act(self, key, observation, code):
        return self.gain * code - observation


class Opposite(PickRule):
    """The code is the target, mirrored."""

    rule: ClassVar[str] = "-x"

    def __call__(self, target):
        return -target


def test_a_rule_picks_a_skill_or_a_code():
    assert picks_code(TargetAsGoal(), 2)
    assert not picks_code(NearestMean(jnp.zeros((3, 2))), 2)
    shapes = jax.eval_shape(lambda: NearestMean(jnp.zeros((3, 2))))
    assert not picks_code(shapes, 2)


def test_the_picked_code_is_played_for_every_target():
    targets = jnp.array([[3.0, 0.0], [-2.0, 0.1]])
    ends = jit(play_picked)(jax.random.key(0), ENV, GoTo(), TargetAsGoal(), targets)
    np.testing.assert_allclose(ends, targets, atol=1e-3)
    ends = jit(play_picked)(jax.random.key(0), ENV, GoTo(), Opposite(), targets)
    np.testing.assert_allclose(ends, -targets, atol=1e-3)


def test_a_policy_that_goes_where_it_is_told_is_not_limited_by_its_example_skills():
    evaluator = maze_evaluator(LAYOUT)
    goals = jnp.stack([jnp.linspace(-5.0, 5.0, 10), jnp.zeros(10)], axis=1)
    episodes = rollouts(jax.random.key(0), ENV, GoTo(), goals, goals, num=2)
    targets = played_targets(ENV, evaluator.targets)
    ends = jit(play_picked)(jax.random.key(1), ENV, GoTo(), TargetAsGoal(), jnp.asarray(targets, jnp.float32))
    told = np.mean(evaluator.paired(np.asarray(ends, float), targets))
    assert told < 0.01
    assert summarise(evaluator, episodes)["best_skill_distance"] > 0.2


def test_the_targets_that_are_played_are_spread_over_all_targets():
    targets = np.arange(2500.0)[:, None]
    played = played_targets(ENV, targets)
    assert len(played) == 1000
    assert (played[0], played[-1]) == (0.0, 2497.0)
    np.testing.assert_array_equal(played_targets(ENV, targets[:7]), targets[:7])


def test_fewer_targets_are_played_where_steps_are_expensive():
    from edl.interop.env_names import make_env, remember_factory

    env = make_env(remember_factory(FailingLine), features="0", horizon=8)
    assert len(played_targets(env, np.zeros((1000, 1)))) == 200


def test_practice_picks_the_skill_that_ends_nearest_on_average():
    # Skill 0 ends at 0 and 10, skill 1 at 4 and 4, skill 2 at 9 and 9.
    last = np.array([[[0.0], [10.0]], [[4.0], [4.0]], [[9.0], [9.0]]])
    # At 0 the means are 5, 4 and 9; at 6.4 they are 5, 2.4 and 2.6; at 8 they are 5, 4 and 1.
    assert pick_by_practice(last, np.array([[0.0], [6.4], [8.0]]), 1.0).tolist() == [1, 1, 2]


def test_practice_measures_in_the_unit_of_the_env():
    last = np.array([[[3.0, 0.0]], [[0.0, 2.0]]])
    origin = np.zeros((1, 2))
    assert pick_by_practice(last, origin, 1.0).tolist() == [1]
    assert pick_by_practice(last, origin, np.array([3.0, 1.0])).tolist() == [0]


def test_practice_ignores_the_walls():
    """The rule must not use the map: straight distance picks the skill behind the wall."""
    layout = layouts.parse("+-+-+\n|S| |\n+ + +\n|   |\n+-+-+\n")
    last, target = np.array([[[0.4, 0.4]], [[1.0, -0.4]]]), np.array([[0.6, 0.4]])
    walked = maze_evaluator(layout).distance(last[:, 0], target)[:, 0]
    assert walked[0] > walked[1]
    assert pick_by_practice(last, target, 1.0).tolist() == [0]


def test_a_rule_needs_a_call():
    class Nothing(PickRule):
        rule: ClassVar[str] = "nothing"

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # type: ignore[abstract]
