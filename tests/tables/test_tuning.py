"""The grid of every method: the same size, around its defaults, and one program."""

import dataclasses
import typing

import pytest

from edl.config import check_numbers
from edl.runs.points import program_key
from edl.tables import TableSettings, tuning
from edl.tables.budget import budget, configured_steps
from edl.tables.make import jobs_of
from edl.tables.table import BASELINES, EDL_ORACLE, TLDR, is_finished, last_stage, setting, with_values
from edl.tables.tuning import DEFAULT, POINTS, TUNABLES, best_of, best_point, grid_of, values_at
from tests.tables.tiny import SETTINGS as TINY

SETTINGS = TableSettings()


def test_every_method_is_tuned():
    assert set(TUNABLES) == {*BASELINES, TLDR, "edl"}


def test_the_grid_has_the_defaults_and_all_corners():
    assert len(POINTS) == 9
    assert POINTS[DEFAULT] == (0, 0, 0)
    assert len(set(POINTS.values())) == 9
    assert POINTS["-+-"] == (-1, 1, -1)


@pytest.mark.parametrize("method", TUNABLES)
def test_tuned_settings_are_floats_and_the_grid_is_one_program(method):
    tunables = TUNABLES[method]
    base = SETTINGS.config("square", method)
    for path in (tunables.entropy_path, *tunables.rate_paths, tunables.main):
        parent = setting(base, path.rpartition(".")[0])
        assert typing.get_type_hints(type(parent))[path.rpartition(".")[2]] is float
    configs = [with_values(base, values_at(base, method, signs)) for signs in POINTS.values()]
    assert len({program_key(config) for config in configs}) == 1
    assert len(set(configs)) == 9
    for config in configs:
        check_numbers(config)
    assert configs[0] == base


@pytest.mark.parametrize("method", TUNABLES)
def test_the_defaults_lie_between_the_values_of_the_grid_or_at_their_end(method):
    base, tunables = SETTINGS.config("square", method), TUNABLES[method]
    low, high = tunables.main_values
    default = setting(base, tunables.main)
    assert low < default < high or (method == "skewfit" and default < min(low, high) < 0)
    values = values_at(base, method, (1, -1, 1))
    assert values[tunables.entropy_path] == setting(base, tunables.entropy_path) * tunables.entropy_factor
    assert [values[path] for path in tunables.rate_paths] == [setting(base, p) / 2 for p in tunables.rate_paths]
    assert values[tunables.main] == high


@pytest.mark.slow
def test_all_methods_have_the_same_effort():
    rows = tuning.rows(SETTINGS, {})
    jobs = jobs_of(rows)
    assert len(jobs) == len(TUNABLES)  # one program per method, for all mazes and points
    assert {len(job.rows) for job in jobs} == {3 * 9}
    assert {(row.config.seed, row.config.num_seeds) for row in rows} == {(1000, 3)}
    taken = [configured_steps(job.rows[0].config, last_stage(job.rows[0].facts["method"])) for job in jobs]
    assert max(taken) <= budget(SETTINGS) / 4
    assert jobs[0].is_slow
    assert not jobs[-1].is_slow


def result(row, score):
    return {"identity": row.identity, **row.facts, "mean": {"best_skill_distance": score}}


def test_the_best_point_needs_the_whole_grid():
    grid = grid_of(TINY, "square", "reverse_mi")
    rows = {row.key: result(row, score) for score, row in enumerate(grid, 1)}
    rows[grid[4].key]["mean"]["best_skill_distance"] = 0.5
    assert best_point({"tuning": rows}, TINY, "square", "reverse_mi")["point"] == list(POINTS)[4]
    assert best_point({"tuning": rows}, TINY._replace(tuning_seeds=2), "square", "reverse_mi") is None
    assert not is_finished(grid_of(TINY._replace(tuning_seeds=2), "square", "reverse_mi")[0], {"tuning": rows})
    rows[grid[4].key] = {"identity": grid[4].identity, **grid[4].facts, "failed": "not finite"}
    assert best_point({"tuning": rows}, TINY, "square", "reverse_mi")["point"] == DEFAULT
    del rows[grid[0].key]
    assert best_point({"tuning": rows}, TINY, "square", "reverse_mi") is None
    assert best_of([{"failed": "not finite"}]) is None


def test_edl_with_an_oracle_has_the_settings_of_edl():
    grid = grid_of(TINY, "square", "edl")
    rows = {row.key: result(row, -score) for score, row in enumerate(grid)}
    assert best_point({"tuning": rows}, TINY, "square", EDL_ORACLE)["point"] == "+++"
    assert len(tuning.rows_for(TINY, ["edl", EDL_ORACLE], ["square"])) == 9
    assert dataclasses.asdict(grid[-1].config.learner)["focus"] == TUNABLES["edl"].main_values[1]
