"""The rooms of a maze that a row of the table of robots visits, measured with a point instead of an ant."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edl.artifacts import States
from edl.evaluate.floor import NUM_TRIALS
from edl.runs.config import RunConfig
from edl.runs.interrupt import Interrupt
from edl.runs.resolve import make_context, resolve_config
from edl.runs.result import Run
from edl.runtime import effort
from edl.runtime.effort import Effort
from edl.tables import TableSettings, robots
from edl.tables.table import Row
from tests.probes.plane import linear_policy
from tests.tables.tiny import tiny_robot

ENV, NUM_SEEDS, HORIZON = "bottleneck", 2, 12


def tiny(config):
    return tiny_robot(config, horizon=HORIZON)


def test_rooms_of_policies_whose_paths_are_known():
    """a = z - x: of the two targets, one is in the room of the start, and one in the room behind its door."""
    config = resolve_config(RunConfig(env=ENV, num_seeds=NUM_SEEDS))
    context = make_context(config)
    run = Run(config=config, env=context.env, layout=context.layout)
    targets = jnp.array([[3.0, 3.0], [5.5, 1.0]])
    towards = linear_policy(jnp.concatenate([-jnp.eye(2), jnp.eye(2)]), targets)
    policy = jax.tree.map(lambda leaf: jnp.stack([leaf] * NUM_SEEDS), towards)
    skills = robots.rooms_reached(dataclasses.replace(run, policy=policy))
    samples = jnp.stack([targets[:1], targets[1:]])  # the explorer of each seed has seen one of the targets
    explored = States(samples=samples, policy=policy)
    near, far = robots.rooms_reached(dataclasses.replace(run, states=explored))
    for each in (*skills, far):
        assert each["rooms"] == ["C", "E"]
        assert each["share_of_rooms"] == 2 / 6
    assert all(each["rooms_at_the_end"] == ["C", "E"] for each in skills)
    assert "E" in far["rooms_at_the_end"]
    assert near["rooms"] == near["rooms_at_the_end"] == ["C"]
    assert 0.04 <= near["cells"] <= 0.25  # of the 100 cells, 25 are in the first room


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The results of the explorer and of EDL, and the paths that were played for them."""
    rows = []
    for method in (robots.BEYOND, "edl"):
        config = resolve_config(robots.config_of(TableSettings(num_seeds=NUM_SEEDS, adjust=tiny), ENV, method))
        until = "explore" if method == robots.BEYOND else "learn"
        rows.append(Row("robots", f"{ENV}/{method}", config, {"method": method}, until, runner=robots.run_rows))
    played, play = [], robots.play

    def recorded(*args):
        played.append((args[-1], play(*args)))
        return played[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robots, "play", recorded)
        patch.setitem(effort.OPTIONS, Effort.FULL, effort.OPTIONS[Effort.LEAST])  # compiling takes most of the time
        results = robots.run_rows(tmp_path_factory.mktemp("rooms"), rows, Interrupt())
    return list(results.values()), played


@pytest.mark.slow
def test_a_row_in_a_maze_has_rooms_and_no_floor(measured):
    for result in measured[0]:
        assert result["curve"] == []
        assert set(result["mean"]) == {"cells", "share_of_rooms"}
        assert [seed["seed"] for seed in result["per_seed"]] == [0, 1]
        for seed in result["per_seed"]:
            assert "C" in seed["rooms"]  # the room of the start
            assert set(seed["rooms_at_the_end"]) <= set(seed["rooms"]) <= set("ABCDEF")
            assert seed["share_of_rooms"] == len(seed["rooms"]) / 6
            assert 0.01 <= seed["cells"] <= 1
    explorer, edl = (result["steps"] for result in measured[0])
    assert explorer == {"explore": 3 * 8 * HORIZON}
    assert edl == explorer | {"learn": 2 * 4 * HORIZON}


@pytest.mark.slow
def test_the_explorer_is_told_its_samples_and_edl_its_skills(measured):
    results, played = measured
    (samples, of_explorer), (skills, of_edl) = played
    for trials, paths, result in ((samples, of_explorer, results[0]), (skills, of_edl, results[1])):
        assert paths.shape == (NUM_SEEDS, NUM_TRIALS, HORIZON + 1, 2)
        assert not np.any(trials.random)
        for seed, each in zip(paths, result["per_seed"], strict=True):
            cells = {tuple(cell) for cell in np.rint(seed.reshape(-1, 2)).astype(int)}
            assert each["cells"] == len(cells) / 100
    assert [len(np.unique(np.asarray(seed), axis=0)) for seed in skills.codes] == [3, 3]
    assert min(len(np.unique(np.asarray(seed), axis=0)) for seed in samples.codes) > 10


@pytest.mark.slow
def test_the_view_lists_the_rooms(measured):
    results = {f"ant:bottleneck/{name}": each for name, each in zip(("beyond", "edl"), measured[0], strict=True)}
    text = robots.rooms_view("ant:bottleneck", results)
    for result in measured[0]:
        assert "; ".join(" ".join(seed["rooms"]) for seed in result["per_seed"]) in text
