"""What commands print: names as they are, progress, and the next steps after a run."""

import dataclasses
import io
import re

import pytest
from rich.console import Console

from edl.api import display
from edl.api.display import ProgressBars, ProgressLines, RateMeter, format_duration, format_rate, headline
from edl.cli import main
from edl.cli.compare import comparison_table
from edl.cli.console import PlainConsole, print_labelled, print_table
from edl.cli.summary import codebook_warnings, print_summary, times_of
from edl.runs.compare import Entry
from edl.runs.progress import StageProgress
from edl.runs.result import load

NAMES = ["bodies:ant:", "[red]x[/red]", "[/]", ":smile: [bold]"]
PROGRESS = StageProgress(iteration=5, iterations=10, rate=2.0, env_steps=1000, metrics={"goal_success": 0.25})


@pytest.fixture
def console(monkeypatch):
    """A console of 200 columns that writes to a text, in the form that all commands use."""
    monkeypatch.setenv("COLUMNS", "200")
    console = PlainConsole()
    console.file = io.StringIO()
    return console


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_as_they_are(name, console, finished):
    run = load(finished)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, env=name), path=finished / name)
    print_summary(console, run)
    text = printed(console)
    assert f"{name}: 3 skills by random_walk + kmeans" in text
    assert f'run = edl.load("{finished}/{name}")\n' in text
    assert f"{finished}/{name}" in text.split("shell")[1]


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_lines_are_printed_as_they_are(name, console):
    entry = Entry(name, name, [0.5], 0.5, 0.5, (0.4, 0.6), None, None)
    print_table(console, comparison_table([entry]))
    print_labelled(console, "wrote", name)
    assert printed(console).count(name) == 3


@pytest.mark.parametrize("name", NAMES)
def test_progress_shows_names_as_they_are(name, console):
    progress = PROGRESS._replace(metrics={name: 0.25})
    with ProgressLines(console) as lines:
        lines.stage_started(name, 10)
        lines.stage_advanced(name, progress)
        lines.stage_finished(name)
    assert printed(console).count(name) == 3
    console.file = io.StringIO()
    with ProgressBars(console) as bars:
        bars.stage_started(name, 10)
        bars.stage_advanced(name, progress)
        console.print(bars.bars.get_renderable())
        bars.stage_finished(name)
    assert f"{name} 0.25" in printed(console)


@pytest.mark.parametrize("name", NAMES)
def test_error_messages_have_names_as_they_are(name, check_rejected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_rejected(["evaluate", name], re.escape(f"{name!r} holds no run"))
    check_rejected(["run", "--explore", name], re.escape(f"unknown explorer {name!r}"))


def test_the_end_of_a_run(finished, capsys):
    assert main(["run", "--resume", "--out", str(finished)]) == 0
    text = capsys.readouterr().out
    assert "square: 3 skills by random_walk + kmeans" in text
    header = next(line for line in text.splitlines() if line.startswith("metric"))
    assert header.split() == ["metric", "mean", "random", "meaning"]
    assert all(name in text for name in ("goal_success", "best_skill_distance", "mutual_information", "data_coverage"))
    assert "state_entropy" not in text
    assert "skills    " in text
    assert f"open      {finished}/report.html" in text
    assert f'Python    run = edl.load("{finished}")\n' in text
    assert f"shell     edl evaluate {finished}\n" in text


def test_the_next_steps_name_an_env_that_must_be_imported(console, finished):
    run = load(finished)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, env="bodies:ant"), policy=None)
    print_summary(console, run)
    assert f'run = edl.load("{finished}", env="bodies:ant")\n' in printed(console)
    assert f"edl learn {finished} --env bodies:ant\n" in printed(console)


def test_unused_codes_and_unreachable_goals_are_warned_about():
    bad = {"codes_used": 8, "dead_codes": 2, "goals_off_support": 1}
    good = {"codes_used": 10, "dead_codes": 0, "goals_off_support": 0}
    assert codebook_warnings([bad, good]) == [
        "2 of 20 codes have no states. Explore longer, or ask for fewer skills.",
        "1 of 20 decoded goals are far from every explored state.",
    ]
    assert codebook_warnings([good]) == codebook_warnings([]) == []


def test_skills_that_fail_are_warned_about(console, finished):
    run = load(finished)
    assert run.metrics is not None
    failed = {"skill": 2, "goal_success": 0.0, "goal_distance": 1.5}
    seeds = [{**run.metrics["per_seed"][0], "seed": i, "skills": [failed]} for i in range(7)]
    print_summary(console, dataclasses.replace(run, metrics={**run.metrics, "per_seed": seeds}))
    line = next(line for line in printed(console).splitlines() if "7 of 7 skills" in line)
    start = "warning   7 of 7 skills reach their goal in less than half of their rollouts. "
    assert line.startswith(f"{start}seed 0: skill 2 misses its goal (")
    assert line.endswith("seed 4: skill 2 misses its goal (0%, 1.50 cells away); and 2 more seeds.")


def test_progress_in_a_log(console):
    with ProgressLines(console) as lines:
        lines.stage_started("learn", 10)
        for iteration in (4, 5, 10):
            lines.stage_advanced("learn", PROGRESS._replace(iteration=iteration))
        lines.stage_finished("learn")
    *rows, last = printed(console).splitlines()
    assert rows == [
        "learn      40%  2k steps/s  goal_success 25.0%  0:03 left",
        "learn      50%  2k steps/s  goal_success 25.0%  0:02 left",
        "learn     100%  2k steps/s  goal_success 25.0%",
    ]
    assert last.startswith("learn     done in 0:0")


def test_the_headline_prefers_metrics_of_the_table():
    assert headline({"loss": 1.0, "goal_distance": 2.0, "goal_success": 0.5}) == "goal_success 50.0%"
    assert headline({"loss": 1.0, "perplexity": 3.14159}) == "perplexity 3.14"
    assert headline({"surprise": 0.5}) == "surprise 0.5"
    assert headline({"done": 1.0}) == headline({}) == ""


def test_durations_and_rates():
    assert [format_duration(seconds) for seconds in (7.0, 200.0, 3723.0)] == ["0:07", "3:20", "1:02:03"]
    assert [format_rate(2.0, 10_000), format_rate(1500.0, 0)] == ["20k steps/s", "1.5k it/s"]


def test_columns_of_numbers_are_not_cut_off_on_a_narrow_terminal(console):
    console.width = 40
    entry = Entry("a_run_with_a_long_name", "goal_success", [0.5] * 3, 0.5, 0.5, (0.4, 0.6), 0.9, (0.7, 1.0))
    print_table(console, comparison_table([entry], "another_run_with_a_long_name"))
    assert "a_run_with_a_long_name  0.500  0.400 to 0.600  0.500      3  0.90 [0.70, 1.00]" in printed(console)
    assert "beats" in printed(console)


def test_a_command_reports_its_own_time():
    metrics = {"seconds": {"total": 35.0}}
    assert times_of(metrics, 3.2) == " (took 3 s; all commands of this run 35 s)"
    assert times_of(metrics, 34.0) == " (took 34 s)"
    assert times_of(metrics, None) == " (the run took 35 s)"
    assert times_of({}, None) == ""


def test_rates_are_averaged(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("edl.api.display.time.perf_counter", lambda: now[0])
    meter = RateMeter()
    assert meter.rate(PROGRESS._replace(iteration=0, rate=50.0)) == 50.0
    for seconds in (4.0, 8.0, 12.0):
        now[0] = seconds
        assert meter.rate(PROGRESS._replace(iteration=int(10 * seconds), rate=999.0)) == pytest.approx(10.0)
    now[0] = 60.0
    assert meter.rate(PROGRESS._replace(iteration=160, rate=999.0)) == pytest.approx(40 / 48)


@pytest.mark.parametrize(("widgets", "expected"), [(True, ProgressBars), (False, ProgressLines)])
def test_a_notebook_shows_bars_only_with_ipywidgets(monkeypatch, widgets, expected):
    """Without it, rich would warn once per bar."""
    monkeypatch.setattr(display.importlib.util, "find_spec", lambda name: object() if widgets else None)
    assert isinstance(display.progress_display(Console(force_jupyter=True)), expected)


def test_a_metric_that_is_not_finite_is_a_dash(console, finished):
    run = load(finished)
    run.metrics["aggregate"]["zero_shot_distance"] = {"mean": None, "iqm": None, "ci95": [None, None]}
    print_summary(console, dataclasses.replace(run, config=dataclasses.replace(run.config, num_seeds=2)))
    (line,) = (line for line in printed(console).splitlines() if "zero_shot_distance" in line)
    assert re.match(r"\s*zero_shot_distance\s+-\s+- to -", line)
