"""Optuna chooses points in batches. A stopped sweep chooses the same ones, and bad points get no more seeds."""

import json

import pytest

from edl.runs import grid as grids
from edl.runs import optuna_search, sweep
from edl.runs.store import Folder

pytestmark = pytest.mark.cluster
SPACE = {
    "learner.ppo.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "learner.ppo.gamma": {"low": 0.9, "high": 0.99},
}
RUN = {
    "env": "square",
    "explore": "random_walk",
    "discover": "kmeans",
    "num_skills": 3,
    "num_seeds": 4,
    "explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256},
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 2, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    },
}
SEARCH = {"method": "optuna", "points": 12, "batch": 4, "rounds": 2, "space": SPACE}
GRID = grids.parse({"run": RUN, "search": SEARCH}, "sweep.json")


def made_up(wave, best):
    """Metrics that are better the nearer gamma is to ``best``, without any run."""
    found = {}
    for point in wave:
        score = 1 - 20 * abs(point.config.learner.ppo.gamma - best)
        seeds = range(point.config.seed, point.config.seed + point.config.num_seeds)
        per_seed = [{"seed": seed, "goal_success": score + 0.001 * seed} for seed in seeds]
        spread = {"mean": score, "ci95": [score - 0.05, score + 0.05]}
        found[point.name] = {"per_seed": per_seed, "aggregate": {"goal_success": spread}}
    return found


def tuned(path, stop_after=99, best=0.95):
    """Run the search on made-up results; raise after so many waves."""
    waves = []

    def run_wave(prefix, points):
        if len(waves) == stop_after:
            raise KeyboardInterrupt
        waves.append((prefix, [point.name for point in points], [point.config.num_seeds for point in points]))
        return made_up(points, best), {}

    path.mkdir(exist_ok=True)
    try:
        return optuna_search.tune(GRID, Folder(path), run_wave), waves
    except KeyboardInterrupt:
        return None, waves


def test_points_are_asked_for_in_batches_and_bad_ones_are_dropped(tmp_path):
    found, waves = tuned(tmp_path / "whole")
    assert [prefix for prefix, *_ in waves] == [f"{batch:03d}-{part}-" for batch in range(3) for part in range(2)]
    assert [len(names) for _, names, _ in waves[::2]] == [4, 4, 4]
    assert all(len(second) < len(first) for (_, first, _), (_, second, _) in zip(waves[::2], waves[1::2], strict=True))
    assert all(name.endswith("-1") for _, names, _ in waves[1::2] for name in names)
    assert {size for *_, sizes in waves for size in sizes} == {2}
    numbers = [len(metrics["per_seed"]) for metrics in found.metrics.values()]
    assert sorted(set(numbers)) == [2, 4]
    values, (other, _) = [point.values for point in found.grid.points], tuned(tmp_path / "other", best=0.9)
    assert [point.values for point in other.grid.points[:4]] == values[:4]
    assert [point.values for point in other.grid.points[4:]] != values[4:]  # chosen from other results

    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(tmp_path / "whole" / optuna_search.JOURNAL)))
    study = optuna.load_study(study_name="whole", storage=storage)
    assert [trial.user_attrs["point"] for trial in study.trials] == [f"{number:03d}" for number in range(12)]


@pytest.mark.parametrize("stop_after", [0, 1, 3, 4])
def test_a_stopped_search_continues_with_the_same_points(tmp_path, stop_after):
    whole, waves = tuned(tmp_path / "whole")
    assert tuned(tmp_path / "stopped", stop_after)[0] is None
    again, repeated = tuned(tmp_path / "stopped")
    assert [point.values for point in again.grid.points] == [point.values for point in whole.grid.points]
    assert repeated == waves
    assert again.metrics == whole.metrics


def test_a_sweep_with_optuna_writes_its_tables(tmp_path):
    search = SEARCH | {"points": 3, "batch": 2}
    grid = grids.parse({"run": RUN | {"num_seeds": 2}, "search": search}, "sweep.json")
    summary = sweep.sweep(grid, tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / "summary.json").read_text())["points"]) == 3
    assert summary.best is not None
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "points").rglob("*")}
    assert sweep.sweep(grid, tmp_path / "out", resume=True).best == summary.best
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "points").rglob("*")} == before
