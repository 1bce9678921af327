"""The documentation site: built in strict mode, and used without a network in a real browser."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from edl.cli import main
from tests.doc_pages import DOCS, blocks
from tests.test_examples import little_training  # noqa: F401

ROOT = DOCS.parent
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc="([^"]*)"|<link[^>]*rel="stylesheet"[^>]*href="([^"]*)\""""
)
LITTLE = "--discover kmeans --learner.distance euclidean --learner.ppo.hidden 8"
"""Flags that leave out most of the programs to compile."""


def test_every_page_is_in_the_navigation():
    listed = re.findall(r": ([\w]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {page.name for page in DOCS.glob("*.md")} | {"first_hour.md"}
    assert sorted(listed) == sorted(pages)


def test_the_animation_of_the_readme_is_small_and_has_its_command():
    readme = (ROOT / "README.md").read_text("utf-8")
    (name,) = re.findall(r"!\[[^\]]*\]\((docs/images/\w+\.gif)\)", readme)
    assert readme.index(name) < readme.index("## Install")
    assert (ROOT / name).stat().st_size < 1_500_000
    assert "edl figure runs/bottleneck --format gif" in readme


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    pytest.importorskip("mkdocs", reason="`make docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_pages_load_only_files_of_the_site(site: Path):
    pages = [page for page in site.rglob("*.html") if "results" not in page.parts]
    assert len(pages) > 20
    for page in pages:
        for names in LOADED.findall(page.read_text("utf-8")):
            name = "".join(names).partition("?")[0].partition("#")[0]
            if page.name != "404.html" and not name.startswith("data:"):
                assert (page.parent / unquote(name)).is_file(), f"{page.name} loads {name}"
    assert "mermaid" not in (site / "architecture.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.browser
def test_the_site_works_from_files(site: Path, page):
    page.goto((site / "idea.html").as_uri())
    frame = page.frame_locator(".panel-frame")
    frame.locator("#studio .frame canvas").click()
    assert "picked by q(z|x)" in frame.locator("#studio .status").inner_text()
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").click()
    page.get_by_placeholder("Search").press_sequentially("walking distance")
    page.locator(".md-search-result__item").first.wait_for()
    assert page.locator(".md-search-result__item").count() > 2


@pytest.mark.usefixtures("little_training")
@pytest.mark.slow
def test_the_commands_and_scripts_of_your_data_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """With little training. `edl baseline` of an offline method is in tests/runs/test_offline_run.py."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(DOCS / "your_data.md"):
        if block.language == "python":
            exec(compile(block.text, block.file, "exec"), {})
        for words in map(shlex.split, block.text.splitlines() if block.language == "sh" else []):
            if words[1] == "run":
                assert main([*words[1:], *LITTLE.split()]) == 0, capsys.readouterr().err
    assert "goes to (0, -3)" in capsys.readouterr().out
    assert Path("runs/half_corridor/report.html").is_file()


@pytest.mark.slow
def test_the_quick_start_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    command, script = blocks(DOCS / "index.md")
    assert main(shlex.split(command.text)[1:]) == 0
    names: dict = {}
    exec(compile(script.text, "index.md", "exec"), names)
    assert names["run"].metrics["goal_success"] >= 0.95
    assert names["episodes"].features.shape == (20, 51, 2)


@pytest.mark.parametrize("page", ["index", "idea", "gallery", "your_data"])
def test_commands_of_the_new_pages_exist_with_their_flags(page: str, capsys: pytest.CaptureFixture[str]):
    lines = [
        line for block in blocks(DOCS / f"{page}.md") if block.language == "sh" for line in block.text.splitlines()
    ]
    assert lines
    for _, command, *rest in map(shlex.split, lines):
        named = [word for word in rest[:1] if command == "baseline"]
        assert main([command, *named, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(re.search(rf"{word}\b", shown) for word in rest if word.startswith("--"))
