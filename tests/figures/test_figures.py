import ast
import concurrent.futures
from pathlib import Path

import numpy as np
import pytest

import edl.figures
from edl import figures

ROWS = [{"env_steps": 1000 * i, "goal_success": [0.1 * i], "return": [1.0 * i]} for i in range(10)]


@pytest.fixture
def drawn(run):
    data = figures.RunData(
        run.layout, run.paths, run.goals, samples=run.samples, assignments=run.assignments, decoded=run.goals,
        usage=run.usage, rows=ROWS, title="square",
    )  # fmt: skip
    return figures.run_figures(data)


def test_a_run_has_all_figures_in_the_order_of_the_report(drawn):
    assert list(drawn) == ["skills", "states", "assignments", "usage", "curves"]
    for figure in drawn.values():
        png = figures.to_png(figure)
        assert png.startswith(b"\x89PNG")
        assert len(png) > 10_000


def test_figures_without_data_are_left_out(run):
    assert list(figures.run_figures(figures.RunData(run.layout, run.paths))) == ["skills"]
    assert list(figures.run_figures(figures.RunData(None, run.paths, samples=run.samples))) == ["skills", "states"]


def test_exploration_has_its_own_figures(run):
    paths = run.paths.reshape(-1, *run.paths.shape[2:])
    steps = np.array([0, 500, 1000])
    drawn = figures.explore_figures(
        run.layout, run.samples, paths=paths, lengths=np.full(len(paths), 20), steps=steps, coverage=steps / 2000
    )
    assert list(drawn) == ["states", "visits", "coverage", "density"]
    assert list(figures.explore_figures(None, run.samples)) == ["states", "density"]


def test_every_figure_has_a_caption(drawn, run):
    everything = drawn | figures.explore_figures(run.layout, run.samples, paths=run.paths[0])
    assert set(everything) <= figures.FIGURES.keys() | figures.OTHER_CAPTIONS.keys()
    assert all(title and caption for title, caption, _ in figures.with_captions(everything))


def test_the_same_data_give_the_same_bytes_in_any_thread(run):
    def draw(_: int) -> bytes:
        return figures.to_png(figures.skills_figure(run.layout, run.paths, run.goals), dpi=60)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(draw, range(8)))) == 1


def test_resolution_can_be_chosen(drawn):
    assert len(figures.to_png(drawn["usage"], dpi=50)) < len(figures.to_png(drawn["usage"], dpi=200))


def test_to_svg_does_not_change_the_figure(drawn):
    before = figures.to_png(drawn["usage"])
    svg = figures.to_svg(drawn["usage"])
    assert b"<svg" in svg
    assert figures.to_png(drawn["usage"]) == before


def test_figures_of_a_large_run_draw_a_bounded_number_of_dots(run):
    data = figures.RunData(
        run.layout, np.repeat(run.paths, 50, axis=1), run.goals, samples=np.tile(run.samples, (100, 1)),
        assignments=np.tile(run.assignments, 100), decoded=run.goals, usage=run.usage,
        rows=[{"env_steps": i, "return": 1.0} for i in range(5000)],
    )  # fmt: skip
    drawn = figures.run_figures(data)
    for name in ("skills", "states", "assignments"):
        assert sum(len(dots.get_offsets()) for dots in drawn[name].axes[0].collections) < 10_000
    assert len(drawn["curves"].axes[0].lines[0].get_xdata()) == 200


def test_only_figures_imports_matplotlib_and_nothing_imports_pyplot():
    root = Path(edl.figures.__file__).parent
    importers = set()
    for path in root.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any("pyplot" in name for name in names), path
            if any(name.split(".")[0] == "matplotlib" for name in names):
                importers.add(path.parent)
    assert importers == {root}
