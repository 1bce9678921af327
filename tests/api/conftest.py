"""A tiny run, made once through the Python interface. The CLI tests compile the same programs."""

from pathlib import Path
from typing import Any

import pytest

import edl

EXPLORE: dict[str, Any] = {"explorer": {"iterations": 4, "rollouts": 8, "num_samples": 256}}
LEARN: dict[str, Any] = {
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 40, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    }
}
TINY: dict[str, Any] = {"explore": "random_walk", "discover": "kmeans", "num_skills": 3, **EXPLORE, **LEARN}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api") / "run"


@pytest.fixture(scope="session")
def tiny(folder: Path) -> edl.Run:
    """A finished run of one seed. Tests must not change its folder."""
    return edl.run("square", out=folder, **TINY)
