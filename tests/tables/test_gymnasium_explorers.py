"""Explorers in Gymnasium envs are measured with equal steps, on one grid per env."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from edl.evaluate.coverage import visited
from edl.tables import TableSettings
from edl.tables.gymnasium_explorers import EXPLORERS, PLANES, STEPS, angle_and_velocity, rows, view
from edl.tables.make import jobs_of, make_tables
from tests.tables.test_views import MADE, lines_of
from tests.tables.tiny import SETTINGS

PENDULUM = PLANES["Pendulum-v1"]
FIRST = ("beyond", "frontier")
"""Explorers that play an iteration of random episodes first."""


def test_all_explorers_have_equal_steps():
    found = rows(TableSettings(num_seeds=3), {})
    assert [row.key for row in found] == [f"{env}/{name}" for name in EXPLORERS for env in PLANES]
    assert len(jobs_of(found)) == len(found) - len(PLANES)  # the two random rows differ in a float
    for row in found:
        explorer, horizon = row.config.explorer, row.config.horizon
        first = getattr(explorer, "first_episodes", explorer.rollouts if row.config.explore in FIRST else 0)
        learner = getattr(explorer, "sac", explorer)
        episodes = first + learner.iterations * learner.rollouts
        assert STEPS <= episodes * horizon < STEPS + learner.rollouts * horizon
        assert row.config.timed  # the policies of all explorers see the same


def test_planes_contain_all_states_of_their_env():
    for plane in PLANES.values():
        corners = np.array([plane.low, plane.high, (plane.low[0], plane.high[1])], np.float32)
        assert (np.asarray(plane.grid.bin_of(jnp.asarray(corners))) < plane.grid.size).all()
        assert plane.grid.size == 2500


def test_the_plane_of_the_pendulum_is_its_angle_and_velocity():
    angles = jnp.linspace(-3.1, 3.1, 200)
    features = jnp.stack([jnp.cos(angles), jnp.sin(angles), jnp.full(200, 2.0)], axis=-1)
    states = angle_and_velocity(features)
    np.testing.assert_allclose(states[:, 0], angles, atol=1e-5)
    assert int(visited(PENDULUM.grid, states).sum()) == 50  # one row of the grid


def made_up(coverage, steps):
    measured = {"mean": {"coverage": coverage, "env_steps": steps}, "ci95": {"coverage": [0.0, 1.0]}}
    return {**MADE, "measured": measured, "mean": {"data_coverage": 0.9}}


def test_the_view_shows_the_common_grid_and_the_steps():
    text = view({"Pendulum-v1/beyond": made_up(0.5, 99_000.4), "Pendulum-v1/knn": {**MADE, "failed": "not finite"}})
    lines = lines_of(text)
    assert lines[0] == ["explorer", "MountainCarContinuous-v0", "steps", "Pendulum-v1", "steps"]
    assert lines[3] == ["beyond", "-", "-", "0.500 [0.000, 1.000]", "99,000"]
    assert lines[6] == ["knn", "-", "-", "failed", "-"]
    assert "50 x 50 bins (MountainCarContinuous-v0: position and velocity; Pendulum-v1: angle and velocity)" in text
    assert "Not measured: hindsight in MountainCarContinuous-v0, hindsight in Pendulum-v1, beyond in Mount" in text


@pytest.mark.parametrize("env", PLANES)
def test_a_row_from_beginning_to_end(tmp_path, env):
    chosen = SETTINGS._replace(methods=("random",), mazes=(env,))
    assert make_tables(["gymnasium_explorers"], tmp_path / "out", chosen, runs=tmp_path / "runs") == []
    (row,) = json.loads((tmp_path / "out" / "gymnasium_explorers.json").read_text())["rows"].values()
    assert len(row["measured"]["per_seed"]) == 2
    assert 0 < row["measured"]["mean"]["coverage"] < 1
    assert row["measured"]["mean"]["env_steps"] <= 4 * 8 * 200
