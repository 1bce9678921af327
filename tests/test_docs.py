"""Links, paths, functions, commands and flags in the documentation exist, and its picture shows the real layers."""

import ast
import itertools
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edl.api.settings import build_config
from edl.baselines import FAMILIES
from edl.cli import COMMANDS, main
from edl.envs.layouts import parse
from edl.evaluate.metrics import METRICS
from edl.runs.config import RunConfig
from edl.runs.grid import read
from edl.runs.resolve import resolve_config
from tests.doc_pages import blocks

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)")
FILE = re.compile(r"`((?:edl|tests|benchmarks|docs)/[\w./-]*)`")
HOP = re.compile(r"^\| \d+ \| `(edl/[\w/]+\.py)`: `(\w+)` \|", re.MULTILINE)
MAX_HOPS = 15


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path):
    for name in FILE.findall(page.read_text("utf-8")):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("head", ["| method | form of the MI |", "| method | reward |"])
def test_tables_of_methods_are_grouped_by_family(head: str):
    page = (ROOT / "docs" / "methods.md").read_text("utf-8")
    cells = [row.split(" | ")[0] for row in page[page.index(head) :].split("\n\n")[0].splitlines()[2:]]
    listed = [name for cell in cells for name in re.findall(r"\| (\*.*\*)|`(\w+)`", cell)]
    families = [(f"*{family}*", *names) for family, names in FAMILIES.items()]
    assert [heading or name for heading, name in listed] == [*itertools.chain(*families), "*in stages*", "edl"]


def test_trace_of_a_run_names_functions_that_exist():
    hops = HOP.findall((ROOT / "docs" / "architecture.md").read_text("utf-8"))
    assert 10 <= len(hops) <= MAX_HOPS
    for file, function in hops:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in defined, f"{file} has no function {function}"


def test_picture_shows_the_layers_that_the_linter_checks():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    picture = re.search(r"^```mermaid\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert picture is not None
    arrows = re.findall(r"^ +(.+) --> (.+)$", picture[1], re.MULTILINE)
    rows = [arrows[0][0], *(below for _, below in arrows)]
    assert [above for above, _ in arrows] == rows[:-1]
    shown = [{name.removesuffix("_") for name in re.findall(r"\w+", row)} for row in rows]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert shown == [set(re.findall(r"\w+", layer)) for layer in layers]


def commands_of_readme() -> list[list[str]]:
    """The commands in the list of the README, without their explanations."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## On the command line")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("    edl ")]
    texts = [re.split(r" {2,}", line.strip())[0] for line in lines]
    return [shlex.split(part) for text in texts for part in re.split(r", (?:then )?(?=edl )", text)]


@pytest.mark.parametrize("words", commands_of_readme(), ids=" ".join)
def test_commands_of_the_readme_exist_with_their_flags(words: list[str], capsys: pytest.CaptureFixture[str]):
    _, command, *rest = words
    flags = [word for word in rest if word.startswith("--")]
    named = [word for word in rest[:1] if command == "baseline"]
    assert command in COMMANDS
    assert main([command, *named, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"{flag}\b", shown) for flag in flags)


def test_readme_lists_every_command():
    assert {words[1] for words in commands_of_readme()} == set(COMMANDS)


def test_the_page_of_metrics_lists_all_of_them():
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \|", page, re.MULTILINE)
    assert set(listed) == {(metric.name, metric.unit, metric.direction) for metric in METRICS.values()}


def test_the_maze_of_the_page_is_a_maze(tmp_path: Path):
    (block,) = [block for block in blocks(ROOT / "docs" / "maze_format.md") if block.file == "my_maze.txt"]
    layout = parse(block.text, "my_maze")
    assert len(layout.cells) == 12
    assert {(1.0, 0.0), (0.0, -1.0)} <= {tuple(map(float, cell)) for cell in layout.cells}


def test_the_sweep_of_the_page_is_a_grid(tmp_path: Path):
    (block,) = [block for block in blocks(ROOT / "docs" / "sweep.md") if block.file == "sweep.toml"]
    (tmp_path / "sweep.toml").write_text(block.text)
    grid = read(tmp_path / "sweep.toml")
    assert len(grid.points) == 6
    assert grid.metric == "best_skill_distance"
    assert grid.points[0].config.num_seeds == 3
    (block,) = [block for block in blocks(ROOT / "docs" / "sweep.md") if block.file == "search.toml"]
    (tmp_path / "search.toml").write_text(block.text)
    assert len(read(tmp_path / "search.toml").points) == 32


def calls_with_settings(text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The calls of run, learn and baseline in a Python text: function, env, and the settings that are literals."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("edl.run", "edl.learn", "edl.baseline"):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            method = {"method": texts[0]} if node.func.attr == "baseline" else {}
            settings = {each.arg: each.value for each in node.keywords if each.arg in RunConfig.__dataclass_fields__}
            values = {name: ast.literal_eval(value) for name, value in settings.items()}
            yield ast.unparse(node.func), texts[-1], method | values


def test_the_settings_in_the_readme_exist():
    """Without training: `test_examples_of_the_readme_learn` is slow."""
    python = [block.text for block in blocks(ROOT / "README.md") if block.language == "python"]
    found = [call for text in python for call in calls_with_settings(text)]
    assert len(found) == 3
    for _, env, settings in found:
        resolve_config(build_config(env, settings))


@pytest.mark.slow
def test_examples_of_the_readme_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    first, second = [block for block in blocks(ROOT / "README.md") if block.language == "python"]
    names: dict[str, Any] = {}
    exec(compile(first.text, "README.md", "exec"), names)
    assert names["run"].metrics["goal_success"] >= 0.95
    assert names["action"].shape == (2,)
    assert names["episodes"].features.shape == (20, 51, 2)
    exec(compile(second.text, "README.md", "exec"), names)
    assert names["run"].metrics["goal_success"] >= 0.95
    assert names["other"].policy.codes.shape[0] == 5
