"""Worker processes execute every run, after its source, and raise its errors in the main process."""

import os
import time
from concurrent.futures import CancelledError

import pytest

from edl.config import ConfigError
from edl.paper.recipes import Recipe
from edl.paper.workers import Workers
from edl.runs.config import RunConfig
from edl.runs.executors.processes import ProcessExecutor
from edl.runs.resolve import resolve_config


def execute(path, group):
    """Write the process id and its number of cores. Fails for the run 'bad', and if the source is missing."""
    for recipe in group:
        execute_one(path, recipe)


def execute_one(path, recipe):
    if recipe.source is not None and not (path / recipe.source.title).exists():
        raise AssertionError("the source has not finished")
    if recipe.title == "bad":
        raise ConfigError("this run fails")
    time.sleep(0.2)
    (path / recipe.title).write_text(f"{os.getpid()} {len(os.sched_getaffinity(0))}")


def new_recipe(title, seed, source=None):
    return Recipe(title, resolve_config(RunConfig(seed=seed)), source)


def recipes():
    first, second, bad = (new_recipe(title, seed) for seed, title in enumerate(("first", "second", "bad")))
    after_second = new_recipe("after second", 7, source=second)
    after_bad = new_recipe("after bad", 8, source=bad)
    return [after_second, first, second, bad, after_bad]


def test_every_run_is_executed_in_another_process_and_after_its_source(tmp_path):
    finished = []
    after_second, first, second, bad, after_bad = every = recipes()
    groups = [[each] for each in every]
    workers = Workers(ProcessExecutor(2), execute, tmp_path, groups, lambda group, _: finished.append(group[0].title))
    for recipe in (after_second, first, second):
        workers.wait(recipe)
        process, cores = map(int, (tmp_path / recipe.title).read_text().split())
        assert process != os.getpid()
        assert cores == 1
    for recipe in (bad, after_bad):
        with pytest.raises(ConfigError, match="this run fails"):
            workers.wait(recipe)
    workers.close()
    assert sorted(finished) == ["after second", "first", "second"]


def test_a_source_that_has_already_finished_is_not_executed(tmp_path):
    after_second, _, second, *_ = recipes()
    (tmp_path / second.title).touch()
    workers = Workers(ProcessExecutor(1), execute, tmp_path, [[after_second]], lambda *_: None)
    workers.wait(after_second)
    workers.close()


def test_a_group_is_executed_together_and_after_all_of_its_sources(tmp_path):
    finished = []
    after_second, first, second, *_ = recipes()
    after_first = new_recipe("after first", 9, source=first)
    groups = [[after_second, after_first], [first], [second]]
    workers = Workers(ProcessExecutor(2), execute, tmp_path, groups, lambda group, _: finished.append(len(group)))
    workers.wait(after_first)
    processes = {(tmp_path / title).read_text() for title in ("after second", "after first")}
    assert len(processes) == 1
    assert finished == [1, 1, 2]
    workers.close()


def test_no_run_starts_after_close(tmp_path):
    many = [new_recipe(f"run {seed}", seed) for seed in range(6)]
    workers = Workers(ProcessExecutor(1), execute, tmp_path, [[each] for each in many], lambda *_: None)
    workers.wait(many[0])
    workers.close()
    with pytest.raises(CancelledError):
        workers.wait(many[-1])
