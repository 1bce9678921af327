"""Points of one program: mazes as inputs of lanes, other numbers of seeds, points that fail, and where a stage ends."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import edl
from edl.artifacts import States
from edl.config import ConfigError
from edl.discover.kmeans import KMeansConfig
from edl.envs import layout_of
from edl.evaluate import maze_evaluator
from edl.explore.random_walk import RandomWalkConfig
from edl.learn import LearnConfig
from edl.rl.ppo import PPOConfig
from edl.runs import grid as grids
from edl.runs import points
from edl.runs.config import RunConfig
from edl.runs.interrupt import catch_interrupts
from edl.runs.lanes import LaneBatch, even_placement
from edl.runs.pipeline import plan
from edl.runs.points import (
    LaneContext,
    env_key,
    evaluate_point,
    group_contexts,
    open_point,
    point_result,
    program_key,
    run_group,
    until_done,
)
from edl.runs.progress import SilentProgress
from edl.runs.resolve import resolve_config
from edl.runs.sweep import sweep

PPO = PPOConfig(iterations=2, rollouts=4, epochs=1, minibatches=2, hidden=(8,))
MAZES = ["random:3x3?seed=1", "random:5x4?loops=0.5&rooms=1&seed=2", "corridor_left"]


def tiny(**changes):
    settings = {
        "env": MAZES[0],
        "explore": "random_walk",
        "discover": "kmeans",
        "num_skills": 3,
        "explorer": RandomWalkConfig(iterations=4, rollouts=8, num_samples=256),
        "discoverer": KMeansConfig(),
        "learner": LearnConfig(distance="euclidean", ppo=PPO),
    }
    return resolve_config(RunConfig(**(settings | changes)))


def run_points(configs, path, until=None):
    """All configs as one group: the points, and a function that evaluates one of them."""
    points = [open_point(f"{i}", config, path / f"{i}") for i, config in enumerate(configs)]
    contexts = group_contexts(configs)
    with catch_interrupts() as interrupt:
        run_group(points, contexts, LaneContext(jax.devices(), interrupt, SilentProgress()), until=until)
    return points, lambda each, measure=None: evaluate_point(each, contexts[env_key(each.config)], measure)


@pytest.fixture(scope="module")
def three_mazes(tmp_path_factory):
    configs = [tiny(env=env, num_seeds=seeds, seed=7) for env, seeds in zip(MAZES, (2, 1, 2), strict=True)]
    return configs, *run_points(configs, tmp_path_factory.mktemp("mazes"))


def test_mazes_and_floats_share_a_program_and_other_settings_do_not():
    key = program_key(tiny())
    assert program_key(tiny(env=MAZES[1], seed=5, num_seeds=9)) == key
    assert program_key(tiny(learner=LearnConfig(distance="euclidean", radius=0.3, ppo=PPO))) == key
    for other in (
        tiny(num_skills=4),
        tiny(horizon=20),
        tiny(learner=LearnConfig(distance="euclidean", reward="shipped", ppo=PPO)),
        tiny(learner=LearnConfig(distance="euclidean", ppo=dataclasses.replace(PPO, max_gradient_norm=None))),
        tiny(explore="oracle", explorer=None),
    ):
        assert program_key(other) != key


@pytest.mark.parametrize("number", [1, *(pytest.param(i, marks=pytest.mark.slow) for i in (0, 2))])
def test_a_lane_equals_the_same_maze_alone(three_mazes, number):
    configs, points, evaluate = three_mazes
    alone = edl.run(**{field.name: getattr(configs[number], field.name) for field in dataclasses.fields(RunConfig)})
    loaded = edl.load(points[number].folder.path)
    for field in ("states", "skills", "policy"):
        pairs = zip(jax.tree.leaves(getattr(alone, field)), jax.tree.leaves(getattr(loaded, field)), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
    metrics = evaluate(points[number])
    assert metrics["steps"] == alone.metrics["steps"]
    for one, other in zip(metrics["per_seed"], alone.metrics["per_seed"], strict=True):
        assert one["seed"] == other["seed"]
        assert one["best_skill_distance"] == pytest.approx(other["best_skill_distance"], abs=1e-2)


def test_every_point_stays_in_its_maze(three_mazes):
    configs, points, _ = three_mazes
    for config, point in zip(configs, points, strict=True):
        samples = np.asarray(edl.load(point.folder.path).states.samples, float).reshape(-1, 2)
        evaluator = maze_evaluator(layout_of(config.env))
        assert np.isfinite(evaluator.distance(samples[:50], evaluator.targets[:5])).all()


@pytest.mark.parametrize("mazes", [MAZES, ["square"]])
def test_a_sweep_over_mazes_is_one_group(mazes):
    run = {"explore": "oracle", "discover": "kmeans"}
    found = grids.parse({"run": run, "grid": {"env": mazes, "learner.epsilon": [1.0, 2.0]}}, "sweep.json")
    assert [axis.traced for axis in found.axes] == [True, True]
    assert len(found.groups) == 1
    assert [point.config.env for point in found.points] == [each for each in mazes for _ in range(2)]


def test_envs_that_are_not_mazes_are_groups_of_their_own():
    found = grids.parse({"run": {"horizon": 5}, "grid": {"env": ["Pendulum-v1", "square"]}}, "sweep.json")
    assert [axis.traced for axis in found.axes] == [False]
    assert len(found.groups) == 2


@pytest.fixture
def diverging():
    """Two points, of which the second has infinite weights after its first gradient step."""
    bad = dataclasses.replace(PPO, learning_rate=1e38, last_learning_rate=1e38)
    return [tiny(), tiny(learner=LearnConfig(distance="euclidean", ppo=bad))]


def test_a_point_that_fails_does_not_stop_the_others(tmp_path, diverging):
    (good, bad), evaluate = run_points(diverging, tmp_path)
    assert not good.failures
    assert np.isfinite(evaluate(good)["per_seed"][0]["best_skill_distance"])
    assert set(good.finished) == {"explore", "discover", "learn"}
    assert set(bad.finished) == {"explore", "discover"}
    assert bad.failures[0].startswith("1: the result of stage 'learn'")


@pytest.mark.slow
def test_a_sweep_with_a_failed_point_finishes_the_others_and_says_so(tmp_path):
    run = {"env": "square", "explore": "random_walk", "discover": "kmeans", "num_skills": 3}
    run |= {"explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256}}
    run |= {"learner": {"distance": "euclidean", "ppo": {"iterations": 2, "rollouts": 4, "hidden": [8]}}}
    rates = {"learner.ppo.learning_rate, learner.ppo.last_learning_rate": [1e-3, 1e38]}
    summary = sweep(grids.parse({"run": run, "grid": rates}, "sweep.json"), tmp_path / "out")
    assert (tmp_path / "out" / "points" / "000" / "metrics.json").is_file()
    assert summary.best == 0
    assert list(summary.failures) == [1]
    rows = json.loads((tmp_path / "out" / "summary.json").read_text())["points"]
    assert rows[0]["failed"] is None
    assert rows[1]["failed"].startswith("001: the result of stage 'learn' has NaN or infinity in")
    assert rows[1]["goal_success"] is None
    table = (tmp_path / "out" / "summary.md").read_text()
    assert "| failed |" in table
    assert "1 of 2 points failed and have no metrics: point 001: the result of stage 'learn'" in table
    worst = {name: values[1:] for name, values in rates.items()}
    with pytest.raises(ConfigError, match=r"all 1 points failed\. Point 000: "):
        sweep(grids.parse({"run": run, "grid": worst}, "sweep.json"), tmp_path / "worst")


def test_a_group_can_stop_after_a_stage_and_measure_more(tmp_path):
    measured = []

    def count_samples(run, found):
        measured.append(run.config.env)
        return {"samples": int(run.states.samples.shape[1])}

    configs = [tiny(env=env) for env in MAZES[:2]]
    for _ in range(2):  # the second time, everything is read from the folders
        points, evaluate = run_points(configs, tmp_path, until="explore")
        metrics = [evaluate(each, count_samples) for each in points]
        assert set(points[0].finished) == {"explore"}
        assert [each["measured"]["samples"] for each in metrics] == [256, 256]
        assert all(each["per_seed"][0]["data_coverage"] > 0 for each in metrics)
    assert measured == MAZES[:2]


def test_a_point_ends_in_the_row_in_which_its_own_seeds_are_done():
    rows = [
        {"iteration": 5 * (i + 1), "done": np.array(done)}
        for i, done in enumerate([[0, 0], [0.2, 0], [1, 0.4], [1, 1]])
    ]
    assert [row["iteration"] for row in until_done(rows)] == [5, 10, 15]
    assert len(until_done(rows[:2])) == 2
    assert len(until_done([{"iteration": 1}, {"iteration": 2}])) == 2


def test_seeds_are_in_order_if_several_devices_run_them_in_several_batches(tmp_path):
    """Two devices with one lane each run seeds 0 and 2, then 1 and 3. The seeds of another point come before them."""
    point = open_point("point", tiny(num_seeds=4), tmp_path / "point")
    placement, begin = even_placement(4, devices=2), 3

    def batch(start):
        lanes = begin + placement.batch(start, 1)
        rows = [{"iteration": i, "loss": 10.0 * i + lanes} for i in range(1, 4 - start)]
        return LaneBatch(lanes, States(jnp.float32(lanes)[:, None, None]), rows, len(rows), 8, 1.0, 0.5)

    batches = [batch(1), batch(0)]
    assert [each.lanes.tolist() for each in batches] == [[4, 6], [3, 5]]
    found = point_result(plan(point.config)[0], batches, point, begin)
    assert np.ravel(found.artifact.samples).tolist() == [3, 4, 5, 6]
    assert [row["loss"] for row in found.rows] == [[13, 14, 15, 16], [23, 24, 25, 26], [33, 24, 35, 26]]
    assert found.facts["iterations"] == 3


def test_a_point_has_its_share_of_the_time_of_its_device(tmp_path):
    """Eight lanes on one device, or on four."""
    for devices, lanes, share in ((1, 8, 1.0), (1, 2, 0.25), (4, 8, 1.0), (4, 2, 1.0), (4, 1, 0.5)):
        batch = LaneBatch(np.arange(8), None, [], 1, 8, 1.0, 0.5, devices=devices)
        assert batch.share(lanes) == share
    point = open_point("point", tiny(num_seeds=2), tmp_path / "point")
    rows = [{"iteration": 1, "loss": np.zeros(8)}]
    batch = LaneBatch(np.arange(8), States(jnp.zeros((8, 1, 1))), rows, 1, 8, 3.0, 1.0, devices=4)
    facts = point_result(plan(point.config)[0], [batch], point, 4).facts
    assert (facts["seconds"], facts["compile_seconds"]) == (3.0, 1.0)


def test_a_seed_that_its_stage_rejects_is_blank_in_that_stage(tmp_path, monkeypatch):
    point = open_point("point", tiny(num_seeds=2), tmp_path / "point")
    batch = LaneBatch(np.arange(2), States(jnp.ones((2, 1, 1))), [{"iteration": 1}], 1, 8, 3.0, 1.0)
    monkeypatch.setattr(points, "failed_seeds", lambda *_: {1: "stage 'explore': not in the region"})
    found = point_result(plan(point.config)[0], [batch], point, 0)
    np.testing.assert_array_equal(np.isnan(found.artifact.samples.ravel()), [False, True])
