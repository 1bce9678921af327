import copy
import re

import pytest

from edl import figures
from edl.evaluate.metrics import CURRENT_DEFINITIONS
from edl.figures import numbers
from edl.figures.report import format_seconds, png_size, report_html

NASTY = "<script>alert('x')</script>&\"$title${x}"
METRICS = {
    "env": "square", "method": "edl", "explore": "oracle", "discover": "vqvae", "num_skills": 10, "num_seeds": 2,
    "per_seed": [
        {"seed": 0, "data_coverage": None, "goal_success": 1.0, "goal_distance": 0.1, "mutual_information": 1.8},
        {"seed": 1, "data_coverage": None, "goal_success": 0.96, "goal_distance": 0.2, "mutual_information": 1.9},
    ],
    "aggregate": {
        "data_coverage": None,
        "goal_success": {"mean": 0.98, "iqm": 0.98, "ci95": [0.96, 1.0]},
        "goal_distance": {"mean": 0.15, "iqm": 0.15, "ci95": [0.1, 0.2]},
        "mutual_information": {"mean": 1.85, "iqm": 1.85, "ci95": [1.8, 1.9]},
    },
    "random": {"goal_success": 0.04, "goal_distance": {"mean": 3.9}, "mutual_information": None},
    "steps": {"explore": 0, "learn": 2_500_000},
    "seconds": {"compile": 9.0, "explore": 0.0, "discover": 2.4, "learn": 31.0, "evaluate": 3.0, "total": 45.4},
}  # fmt: skip
PROVENANCE = {"edl": "0.1.0", "device": "cpu"}


@pytest.fixture(scope="module")
def report(request) -> str:
    from edl.envs.layouts import load

    layout = load("square")
    pictures = {
        "skills": figures.skills_figure(
            layout, layout.cells[:10, None, None] + [[0.0, 0], [0.1, 0.2]], layout.cells[:10]
        ),
        "states": figures.states_figure(layout, layout.cells),
        "curves": figures.curves_figure(
            [{"env_steps": i, "goal_success": 0.1 * i, "goal_distance": 1.0, "return": 1.0} for i in range(9)]
        ),
    }
    return report_html(METRICS, {"env": "square"}, PROVENANCE, figures.with_captions(pictures), "runs/my run")


def test_the_report_loads_nothing(report):
    assert report.startswith("<!doctype html>")
    assert "<script" not in report
    assert not re.search(r"""(src|href|action)\s*=\s*["'](?!data:)""", report)
    assert not re.search(r"url\(|@import|https?://", report)
    assert "default-src 'none'" in report


def test_tiles_show_the_metrics_and_the_random_baseline(report):
    tile = report.split('data-metric="goal_success"')[1].split("</div>\n")[0]
    assert "98.0%" in tile
    assert "random 4.0%" in tile
    assert "96.0% to 100%" in tile
    assert "random 3.90" in report.split('data-metric="goal_distance"')[1]
    assert 'data-metric="data_coverage"' not in report
    for fact in ("45 s", "2.5M", "vqvae", "cpu", "10 skills for square"):
        assert fact in report


def test_the_table_has_a_row_for_each_seed_and_each_summary(report):
    rows = re.findall(r'<th scope="row">(.*?)</th>', report)
    assert rows == ["seed 0", "seed 1", "mean", "interquartile mean", "95% interval", "random actions"]


def test_the_report_shows_how_to_use_the_run(report):
    assert "edl.load(&#x27;runs/my run&#x27;)" in report
    assert "edl evaluate &#x27;runs/my run&#x27;" in report
    assert "--resume" in report


def test_a_baseline_is_resumed_with_its_own_command():
    assert "edl baseline diayn --out runs/a --resume" in report_html({"method": "diayn"}, {}, {}, folder="runs/a")


def test_every_string_from_outside_is_escaped(run):
    metrics = copy.deepcopy(METRICS) | dict.fromkeys(("env", "method", "explore", "discover", "num_seeds"), NASTY)
    metrics["per_seed"][0] |= {"seed": NASTY, NASTY: 1.0, "best_skill_distance": NASTY}
    metrics["aggregate"][NASTY] = {"mean": NASTY}
    metrics["seconds"]["explore"] = NASTY
    metrics["steps"]["explore"] = NASTY
    png = figures.to_png(figures.states_figure(run.layout, run.samples), dpi=30)
    nasty = {NASTY: [NASTY], "device": NASTY, "edl": NASTY, "commit": NASTY}
    page = report_html(metrics, nasty, nasty, [(NASTY, NASTY, png), (NASTY, NASTY, png)], NASTY)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    # A dollar sign in a value is not a placeholder of the template.
    assert "$title${x}" in page
    # No attribute ends early.
    assert re.findall(r'alt="([^"]*)"', page)[0].count("&quot;") == NASTY.count('"')


def test_the_report_lists_every_stage_in_the_order_of_seconds():
    seconds = {"compile": 1.0, "unheard_of": 2.5, "learn": 3.0, "place": 0.0, "<draw>": 0.5, "total": 7.0}
    section = report_html(METRICS | {"seconds": seconds}, {}, {}).split("<h2>Time per stage</h2>")[1]
    legend = re.findall(r"</i>([^<]+)</li>", section.split("</section>")[0])
    assert legend == ["compile 1 s", "unheard_of 2.5 s", "learn 3 s", "place 0 s", "&lt;draw&gt; 0.5 s"]


def test_stages_without_a_number_are_left_out():
    assert "Time per stage" not in report_html({"seconds": {"learn": None, "total": 3.0}}, {}, {})
    page = report_html({"seconds": {"learn": None, "explore": float("nan"), "place": 2.0}}, {}, {})
    assert re.findall(r"</i>([^<]+)</li>", page) == ["place 2 s"]


@pytest.mark.parametrize(
    ("unit", "text"), [("cells", "skill&#x27;s goal (cells)</p>"), (None, "skill&#x27;s goal</p>")]
)
def test_distances_have_the_unit_of_the_run(unit, text):
    assert text in numbers.tiles(METRICS | {"distance_unit": unit})


def test_old_names_of_metrics_do_not_break_the_report():
    metrics = copy.deepcopy(METRICS)
    metrics["per_seed"][0] |= {"zero_shot_distance": 0.5, "zero_shot_picked_distance": 0.6}
    assert "Zero shot picked distance" in report_html(metrics, {}, {})


def test_the_report_names_the_skills_that_fail():
    metrics = copy.deepcopy(METRICS) | {"picked_by": "q(z|x) <b>", "metric_definitions": CURRENT_DEFINITIONS}
    metrics["per_seed"][1]["skills"] = [
        {"skill": 0, "goal_success": 1.0, "goal_distance": 0.1},
        {"skill": 4, "goal_success": 0.05, "goal_distance": 1.5},
    ]
    page = report_html(metrics, {}, {})
    assert "1 of 2 skills reach their goal in less than half of their rollouts." in page
    assert "seed 1: skill 4 misses its goal (5%, 1.50 cells away)." in page
    assert "picks a skill for a point x by q(z|x) &lt;b&gt;." in page
    assert f"Definitions of the metrics: number {CURRENT_DEFINITIONS} (" in page
    assert "This version of edl has other definitions" not in page


def test_the_report_of_old_metrics_says_that_they_are_old():
    page = report_html(METRICS, {}, {})
    assert "Definitions of the metrics: number 2 (edl 0.2:" in page
    assert "This version of edl has other definitions" in page


def test_an_empty_run_has_a_report():
    page = report_html({}, {}, {})
    assert "</html>" in page
    assert "data-metric" not in page


def test_one_seed_has_no_interval():
    metrics = METRICS | {"per_seed": METRICS["per_seed"][:1]}
    assert numbers.interval(metrics, "goal_success") is None
    assert "95% interval" not in numbers.tiles(metrics)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("goal_success", 0.123, "12.3%"), ("goal_success", 1.0, "100%"), ("goal_distance", 0.5, "0.50"),
        ("other", 1234.5, "1234"), ("other", 123.45, "123"), ("other", None, "—"), ("other", float("nan"), "—"),
        ("other", "text", "—"), ("other", True, "—"),
    ],
)  # fmt: skip
def test_format_value(name, value, text):
    assert numbers.format_value(name, value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.42, "0.42 s"), (9.96, "10 s"), (58.4, "58 s"), (192, "3 min 12 s"), (7500, "2 h 5 min")]
)
def test_format_seconds(seconds, text):
    assert format_seconds(seconds) == text


def test_pictures_must_be_png():
    with pytest.raises(ValueError, match="must be a matplotlib Figure or PNG bytes"):
        png_size(b"GIF89a")


@pytest.mark.browser
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_report_in_a_browser(report, page, tmp_path, colours):
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    file = tmp_path / "report.html"
    file.write_text(report, "utf-8")
    page.emulate_media(color_scheme=colours)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(file.as_uri())
        assert page.evaluate("[...document.images].map(image => image.naturalWidth > 0)") == [True] * 3
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".tile").count() == 3
        assert page.locator("[data-metric=goal_success] .value").inner_text().split() == ["98.0%", "random", "4.0%"]
    assert page.title() == "10 skills for square, discovered by EDL"
    assert {url.split(":")[0] for url in requests} <= {"file", "data"}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(245, 246, 248)" if colours == "light" else "rgb(16, 19, 23)"
    )


@pytest.mark.browser
def test_on_a_wide_screen_the_skills_come_first_beside_the_tiles(report, page, tmp_path):
    file = tmp_path / "report.html"
    file.write_text(report, "utf-8")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(file.as_uri())
    first, tile = page.locator("figure").first.bounding_box(), page.locator(".tile").first.bounding_box()
    assert page.locator("img").first.get_attribute("alt") == "Skills"
    assert tile["x"] > first["x"] + first["width"]
    assert abs(tile["y"] - first["y"]) < 2
