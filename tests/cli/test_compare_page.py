"""``edl compare RUN RUN --page``."""

import json
import re
from pathlib import Path

import pytest

from edl.cli import main
from edl.cli.compare import with_page_name


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


def test_a_page_needs_two_runs(finished, check_rejected):
    check_rejected(["compare", finished, "--page"], r"--page shows 2 to 4 runs \(got 1\)")
