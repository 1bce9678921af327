"""Runs in processes of their own: all are made, those with a source after it, and errors arrive."""

import os
import time
from concurrent.futures import CancelledError

import pytest

from edl.config import ConfigError
from edl.paper.recipes import Recipe
from edl.paper.workers import Workers
from edl.runs.config import RunConfig


def make(path, recipe):
    """Leave the number of the process; refuse what is called 'bad', and what comes before its source."""
    if recipe.source is not None and not (path / recipe.source.title).exists():
        raise AssertionError("the source is not there yet")
    if recipe.title == "bad":
        raise ConfigError("this one cannot be made")
    time.sleep(0.2)
    (path / recipe.title).write_text(f"{os.getpid()} {len(os.sched_getaffinity(0))}")


def recipes():
    first, second, bad = (Recipe(name, RunConfig(seed=i)) for i, name in enumerate(("first", "second", "bad")))
    heir = Recipe("heir", RunConfig(seed=7), source=second)
    lost = Recipe("lost", RunConfig(seed=8), source=bad)
    return [heir, first, second, bad, lost]


def test_every_run_is_made_elsewhere_and_after_its_source(tmp_path):
    told = []
    heir, first, second, bad, lost = recipes()
    workers = Workers(2, make, tmp_path, [heir, first, second, bad, lost], lambda recipe, _: told.append(recipe.title))
    for recipe in (heir, first, second):
        workers.wait(recipe)
        process, cores = map(int, (tmp_path / recipe.title).read_text().split())
        assert process != os.getpid()
        assert cores == 1
    for recipe in (bad, lost):
        with pytest.raises(ConfigError, match="this one cannot be made"):
            workers.wait(recipe)
    workers.close()
    assert sorted(told) == ["first", "heir", "second"]


def test_a_source_that_is_there_already_is_not_waited_for(tmp_path):
    heir, _, second, *_ = recipes()
    (tmp_path / second.title).touch()
    workers = Workers(1, make, tmp_path, [heir], lambda *_: None)
    workers.wait(heir)
    workers.close()


def test_nothing_new_begins_after_the_end(tmp_path):
    later = [Recipe(f"run {i}", RunConfig(seed=i)) for i in range(6)]
    workers = Workers(1, make, tmp_path, later, lambda *_: None)
    workers.wait(later[0])
    workers.close()
    with pytest.raises(CancelledError):
        workers.wait(later[-1])
