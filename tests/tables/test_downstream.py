"""The table of downstream tasks."""

import json

import pytest

from edl.runtime import effort
from edl.runtime.effort import Effort
from edl.tables import TableSettings, downstream
from edl.tables.downstream import MAZE, METHODS, MeasureDownstream
from edl.tables.make import jobs_of, make_tables
from tests.tables.tiny import SETTINGS

UNTUNED = SETTINGS._replace(mazes=(MAZE,), methods=("reverse_mi", "edl"), tuned=False)


def learner(success, **facts):
    return {"success": success, "ci95": [success, 1.0], "per_seed": [success, 1.0], **facts}


def made_up(pretraining):
    """The result of a row."""
    measured = {
        "steps": {"pretraining": pretraining, "controller": 400_000, "total": sum(pretraining.values()) + 400_000},
        "controller": learner(0.5, skills_in_a_success=2.25),
        "zero_shot": learner(0.25),
        "flat": learner(0.125, env_steps=400_000),
        "flat_full": learner(0.375),
    }
    facts = {"seed": 0, "num_seeds": 2, "edl": "1.0", "commit": None, "device": "cpu", "date": "2030-01-01"}
    return facts | {"measured": measured}


def test_rows_have_fifty_skills_the_budget_and_the_best_settings():
    rows = downstream.rows(TableSettings(tuned=False), {})
    assert [row.key for row in rows] == list(METHODS)
    assert {(row.config.num_skills, row.config.env, row.config.num_seeds) for row in rows} == {(50, MAZE, 10)}
    assert {row.measure for row in rows} == {MeasureDownstream(400_000)}
    tuning = downstream.rows(UNTUNED._replace(tuned=True), {})
    assert {row.table for row in tuning} == {"tuning"}  # the rows of this table wait for it
    assert downstream.rows(UNTUNED._replace(mazes=("square",)), {}) == []


def test_steps_of_the_controller_are_part_of_the_identity():
    one, other = (downstream.rows(UNTUNED._replace(steps=steps), {})[0] for steps in (8000, 9000))
    assert (one.measure, other.measure) == (MeasureDownstream(800), MeasureDownstream(900))
    assert one.identity != other.identity
    assert len(jobs_of([one])) == 1


def test_the_view_shows_steps_and_both_budgets_of_ppo():
    results = {"edl": made_up({"explore": 100_000, "learn": 2_000_000}), "metra": made_up({"learn": 5_000_000})}
    table = downstream.view(results).splitlines()
    success = "0.500 [0.500, 1.000] | 0.250 [0.250, 1.000] | 0.375 [0.375, 1.000] | 2.2"
    assert table[4:7] == [
        f"| `metra` | 5.00M | 0.40M | {success} |",
        f"| **EDL, no oracle** | 2.10M | 0.40M | {success} |",
        "| none (PPO without skills) | - | 0.40M | 0.125 [0.125, 1.000] | - | - | - |",
    ]
    assert table[-1] == "Not measured: `reverse_mi`, `diayn`, `discern`, `skewfit`."


@pytest.mark.slow
def test_a_row_from_beginning_to_end(tmp_path, monkeypatch):
    monkeypatch.setitem(effort.OPTIONS, Effort.FULL, effort.OPTIONS[Effort.LEAST])
    chosen = UNTUNED._replace(methods=("edl",), num_seeds=1)
    assert make_tables(["downstream"], tmp_path / "out", chosen, runs=tmp_path / "runs") == []
    row = json.loads((tmp_path / "out" / "downstream.json").read_text())["rows"]["edl"]
    measured = row["measured"]
    assert measured["steps"]["pretraining"] == row["steps"] == {"explore": 4 * 8 * 50, "learn": 2 * 4 * 50}
    assert measured["steps"]["controller"] == 64 * 50  # one iteration
    assert measured["flat_full"]["env_steps"] == 2 * 64 * 50
    assert "none (PPO without skills)" in (tmp_path / "out" / "downstream.md").read_text()
