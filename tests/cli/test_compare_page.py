"""``edl compare RUN RUN --page``."""

import json
import re
from pathlib import Path

import pytest

from edl.cli import main
from edl.cli.compare import with_page_name
from edl.interop import env_names
from tests.cli.settings import TINY


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a", "b", "--page"], ["a", "b", "--page", "compare.html"]),
        (["--page", "a", "b"], ["--page", "compare.html", "a", "b"]),
        (["a", "b", "--page", "x/y.html", "--csv", "z"], ["a", "b", "--page", "x/y.html", "--csv", "z"]),
        (["a", "b"], ["a", "b"]),
    ],
)
def test_the_name_of_the_page_is_optional(words, expected):
    assert with_page_name(words) == expected


def test_the_page_of_two_runs_has_the_data_of_both(finished, copied, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(finished), str(copied), "--page"]) == 0
    assert "compare.html" in capsys.readouterr().out
    page = Path("compare.html").read_text("utf-8")
    (data,) = re.findall(r'id="studio-data">(.*?)</script>', page)
    runs = json.loads(data)
    assert [run["title"].split(":")[0] for run in runs] == ["finished", "copied"]
    assert {run["kind"] for run in runs} == {"maze"}
    assert runs[0]["seeds"][0]["pick"]["rule"] == "q(z|x)"
    # The report of a run has the same panel.
    (report,) = re.findall(r'id="studio-data">(.*?)</script>', (finished / "report.html").read_text("utf-8"))
    assert json.loads(report)[0]["seeds"] == runs[0]["seeds"]


def test_the_env_of_a_run_can_be_named_again(finished, tmp_path, monkeypatch, check_rejected):
    name, run, page = "small_grid:small", tmp_path / "imported", tmp_path / "page.html"
    (tmp_path / "small_grid.py").write_text(
        "from edl.envs.gridworld import gridworld\ndef small(): return gridworld(3, 3, 5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(env_names, "IMPORTS_ALLOWED", set())
        assert main(["run", "--env", name, *TINY, "--out", str(run)]) == 0
    words = ["compare", str(finished), str(run), "--page", str(page)]
    check_rejected(words, f"name it yourself: --env {name}")
    assert main([*words, "--env", name]) == 0
    (data,) = re.findall(r'id="studio-data">(.*?)</script>', page.read_text("utf-8"))
    assert [each["title"].split(":")[0] for each in json.loads(data)] == ["finished", "imported"]


def test_a_page_needs_two_runs(finished, check_rejected):
    check_rejected(["compare", finished, "--page"], r"--page shows 2 to 4 runs \(got 1\)")
