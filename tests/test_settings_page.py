"""docs/settings.md is what docs/generate_settings.py writes, and it explains every setting."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def text() -> str:
    return runpy.run_path(str(DOCS / "generate_settings.py"))["page"]()


def test_the_page_is_up_to_date(text):
    assert (DOCS / "settings.md").read_text("utf-8") == text, "run: python docs/generate_settings.py"


def test_settings_of_all_methods_are_listed(text):
    for name in (
        "num_skills",
        "explorer.num_samples",
        "discoverer.commitment",
        "learner.ppo.iterations",
        "control.hold",
    ):
        assert f"| `{name}` |" in text
    for method in ("frontier", "kmeans", "diayn"):
        assert f"### {method}\n" in text


def test_every_setting_has_a_meaning(text):
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    empty = [row for row in rows if row.endswith("|  |")]
    assert not empty, empty
