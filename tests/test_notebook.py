"""docs/first_hour.ipynb runs from top to bottom: with little training here, and as it is in the slow test."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_examples import little_training  # noqa: F401

NOTEBOOK = Path(__file__).parents[1] / "docs" / "first_hour.ipynb"


def cells(kind: str) -> list[str]:
    found = json.loads(NOTEBOOK.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == kind]


QUICK = {
    'until="explore"': 'until="explore", explore="random_walk"',
    "states=states)": 'states=states, learner={"distance": "euclidean"})',
}
"""Replacements that leave out most of the programs to compile."""


def run_notebook(replacements: Mapping[str, str] = {}) -> dict[str, Any]:
    """Execute the code cells in order, in one namespace, as a kernel does. They use no magics."""
    names: dict[str, Any] = {}
    assert all(old in "".join(cells("code")) for old in replacements)
    for number, code in enumerate(cells("code")):
        for old, new in replacements.items():
            code = code.replace(old, new)
        exec(compile(code, f"{NOTEBOOK.name}[{number}]", "exec"), names)
    return names


def test_the_notebook_is_stored_without_results():
    found = json.loads(NOTEBOOK.read_text("utf-8"))
    code = [cell for cell in found["cells"] if cell["cell_type"] == "code"]
    assert found["nbformat"] == 4
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])


@pytest.mark.slow
@pytest.mark.usefixtures("little_training")
def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]):
    names = run_notebook(QUICK)
    assert names["skills"].goals.shape == (6, 2)
    assert names["ends"].shape == (20, 2)
    assert f"and then skill {names['second']} at" in capsys.readouterr().out


@pytest.mark.slow
def test_the_notebook_learns():
    names = run_notebook()
    assert names["explored"].metrics["data_coverage"] > 0.9
    assert names["run"].metrics["goal_success"] > 0.95
    goal = np.asarray(names["run"].skills.goals)[names["number"]]
    assert np.linalg.norm(names["ends"] - goal, axis=1).mean() < 1
    goal = np.asarray(names["run"].skills.goals)[names["second"]]
    assert np.linalg.norm(names["last"] - goal) < 0.5  # the plan of two steps
