"""Blocks of pages are filled from the JSON files, and the committed pages are."""

import json
from pathlib import Path

import pytest

from edl.cli import main
from edl.config import ConfigError
from edl.runs.store import Folder
from edl.tables import TABLES
from edl.tables.pages import BLOCK, DEFAULT_PAGES, block_content, fill, fill_files, fill_pages

ROOT = Path(__file__).parents[2]
RESULT = {
    "identity": "0",
    "env": "spiral",
    "method": "edl",
    "seed": 0,
    "num_seeds": 2,
    "edl": "1.0",
    "commit": "0123456789+",
    "device": "1 x H200",
    "date": "2030-01-01",
    "steps": {"explore": 100_000, "learn": 900_000},
    "mean": {"goal_success": 0.5, "skill_coverage": 0.4},
    "per_seed": [
        {"seed": 0, "goal_success": 0.98, "failed_skills": []},
        {"seed": 1, "goal_success": 0.02, "failed_skills": [1, 4]},
    ],
}
PAGE = "before\n<!-- table: seeds -->\nold\n<!-- end -->\nafter\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "seeds.json").write_text(json.dumps({"table": "seeds", "title": "", "rows": {"spiral": RESULT}}))
    return Folder(tmp_path)


def test_a_block_is_filled_and_the_rest_is_kept(folder):
    filled = fill(PAGE, folder, "page.md")
    assert filled.startswith(
        "before\n<!-- table: seeds -->\n2 seeds from 0; 1 x H200; edl 1.0 (0123456+); 2030-01-01.\n"
    )
    assert filled.endswith("\n<!-- end -->\nafter\n")
    assert "| spiral | 2 from 0 | 0.500 | 0.020 | 1 | 0.40 | 1.00M | - |" in filled
    assert "* spiral: 1 (0.020, skills 1, 4)" in filled
    assert "Not measured: bottleneck, bottleneck (other seeds)." in filled
    assert "old" not in filled
    assert fill(filled, folder, "page.md") == filled


def test_a_block_without_results_is_left_alone(folder):
    page = "<!-- table: methods/tree -->\nold\n<!-- end -->"
    assert fill(page, folder, "page.md") == page


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- table: seds -->\n<!-- end -->", r"unknown table in page.md: 'seds'\. Did you mean 'seeds'\?"),
        ("<!-- table: methods/tre -->\n<!-- end -->", "unknown view of the table 'methods' in page.md: 'tre'"),
        ("<!-- table: seeds -->\n", "must end with '<!-- end -->'"),
    ],
)
def test_bad_blocks_are_rejected(folder, page, message):
    with pytest.raises(ConfigError, match=message):
        fill(page, folder, "page.md")


def test_the_command_fills_and_checks_pages(folder, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    words = ["tables", "--out", str(folder.path), "--pages", str(page)]
    assert main([*words, "--check"]) == 1
    assert f"differs   {page}\n" in capsys.readouterr().out
    assert page.read_text() == PAGE
    assert main([*words, "--fill"]) == 0
    assert f"filled    {page}\nfilled    {folder.path / 'seeds.md'}\n" in capsys.readouterr().out
    assert (folder.path / "seeds.md").read_text().startswith("# Many seeds, and a hard maze\n\n2 seeds from 0; ")
    assert main([*words, "--check"]) == 0
    assert main(["tables", "--pages", str(tmp_path / "no.md"), "--check"]) == 2
    assert main(["tables", "sedes"]) == 2
    assert main(["tables", "--jobs", "-1"]) == 2


def test_every_view_can_be_rendered_without_most_rows(folder):
    for name, table in TABLES.items():
        for view, render in table.views.items():
            row = RESULT | {"budget": 1, "tuned": True, "point": "default", "settings": {}, "ci95": {}, "random": {}}
            assert isinstance(render({"spiral": row}), str), (name, view)


def test_the_committed_pages_have_the_committed_results():
    pages = [ROOT / page for page in DEFAULT_PAGES]
    blocks = [block["name"] for page in pages for block in BLOCK.finditer(page.read_text("utf-8"))]
    folder = Folder(ROOT / "docs" / "results" / "tables")
    assert {"methods/square", "methods/bottleneck", "methods/readme", "mazes/methods", "seeds"} <= set(blocks)
    for name in blocks:
        block_content(name, folder, "a page")  # rejects unknown names
    changed = [*fill_pages(pages, folder, write=False), *fill_files(folder, write=False)]
    assert changed == [], "run `edl tables --fill`"
