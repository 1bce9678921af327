"""The scripts in examples/ run.

By default with so little training that they learn nothing. The slow test runs them as they are and checks what they
print.
"""

import dataclasses
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edl import baselines
from edl.api import stages
from edl.runs import run as runs
from edl.runtime import effort
from edl.runtime.effort import Effort

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SMALL = {"iterations": 1, "rollouts": 4, "minibatches": 1, "epochs": 1, "gradient_steps": 20, "num_samples": 512}


def shrunk(config: Any) -> Any:
    """The config with small values for everything that takes time."""
    changes = {field.name: SMALL[field.name] for field in dataclasses.fields(config) if field.name in SMALL}
    nested = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    changes |= {name: shrunk(value) for name, value in nested.items() if dataclasses.is_dataclass(value)}
    return dataclasses.replace(config, **changes)


@pytest.fixture
def little_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make every run of the Python interface small, and compile quickly."""
    resolve, fill = runs.resolve_config, stages.complete
    monkeypatch.setattr(runs, "resolve_config", lambda config: shrunk(resolve(config)))
    monkeypatch.setattr(stages, "complete", lambda config: shrunk(fill(config)))
    monkeypatch.setitem(effort.OPTIONS, Effort.FULL, effort.OPTIONS[Effort.LEAST])
    registered = dict(baselines.METHODS)
    yield
    baselines.METHODS.clear()  # other tests iterate over the methods
    baselines.METHODS.update(registered)


SLOW = ("own_environment", "own_goals", "own_states", "skills_in_a_controller")
"""Examples with more programs to compile than the others."""


def example(path: Path):
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])


@pytest.mark.parametrize("path", [example(path) for path in EXAMPLES])
@pytest.mark.usefixtures("little_training")
def test_example_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    assert capsys.readouterr().out


EXPECTED = {
    "explore_only": r"(0\.9\d|1\.00) of the maze",
    "new_baseline": r"\bbetter than random",
    "own_environment": r"^better than random",
    "own_goals": r"goal_success (0\.9|1\.)",
    "own_states": r"(0\.9\d|1\.00) of the rollouts",
    "skills_in_a_controller": r"the agent is at \[ ?(1\.[5-9]\d*|2\.[0-4]?\d*) +-?(0\.\d*|1\.0?)\]",
}
"""What the examples print, as they are."""


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_learns(path: Path, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(EXPECTED[path.stem], done.stdout, re.MULTILINE), done.stdout
