"""Whole tables from beginning to end, with runs so small that they learn nothing."""

import dataclasses
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest

from edl.config import ConfigError
from edl.runs import store
from edl.tables import TABLES, explorers, make, mazes, methods, seeds, table, training, tuning
from edl.tables.make import expand, jobs_of, make_tables, share_results
from edl.tables.table import FIRST_MAZE, is_finished, maze_names, with_explorers_policy, with_values
from tests.tables.tiny import SETTINGS

BASELINE = SETTINGS._replace(methods=("reverse_mi",))


class Messages:
    """Keeps all messages."""

    def __init__(self):
        self.texts = []

    def message(self, text):
        self.texts.append(text)


def rows_in(out, name):
    return json.loads((out / f"{name}.json").read_text())["rows"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The table of methods with one method in one maze, which needs the tuning of that method."""
    folder, messages = tmp_path_factory.mktemp("tables"), Messages()
    failures = make_tables(["methods"], folder / "out", BASELINE, runs=folder / "runs", progress=messages)
    assert failures == []
    return folder, messages.texts


def test_tuning_is_followed_by_a_run_with_the_best_settings_and_other_seeds(finished):
    folder, messages = finished
    assert [re.sub("took .* s", "took", text) for text in messages] == [
        "tuning: reverse_mi, 9 rows, 9 lanes, started",
        "tuning: reverse_mi, 9 rows, 9 lanes, took",
        "methods: square/reverse_mi, 2 lanes, started",
        "methods: square/reverse_mi, 2 lanes, took",
    ]
    points = rows_in(folder / "out", "tuning")
    (row,) = rows_in(folder / "out", "methods").values()
    chosen = points[tuning.key_of("square", "reverse_mi", row["point"])]
    assert row["settings"] == chosen["settings"]
    scores = [each["mean"]["best_skill_distance"] for each in points.values()]
    assert chosen["mean"]["best_skill_distance"] == min(scores) < max(scores)
    assert [seed["seed"] for seed in row["per_seed"]] == [0, 1]
    assert {seed["seed"] for each in points.values() for seed in each["per_seed"]} == {1000}
    assert row["tuned"] is True
    assert row["steps"] == {"learn": 2 * 4 * 50}  # `tiny` has two iterations of four episodes, whatever the budget
    assert row["budget"] == 8000
    assert {"edl", "commit", "device", "date"} <= row.keys()


def test_the_markdown_shows_the_row_and_what_is_missing(finished):
    folder, _ = finished
    page = (folder / "out" / "methods.md").read_text()
    assert "| `reverse_mi` | " in page
    assert "Not measured: `forward_mi`," in page
    assert "tree: not measured." in page
    assert "Settings tuned in this maze." in page
    tuned = (folder / "out" / "tuning.md").read_text()
    assert "| square | `reverse_mi` | " in tuned


def test_finished_rows_are_not_measured_again(finished, monkeypatch):
    folder, _ = finished
    monkeypatch.setattr(make, "execute", lambda *_: pytest.fail("a finished row is measured again"))
    before = (folder / "out" / "methods.json").read_bytes()
    assert make_tables(["methods", "tuning"], folder / "out", BASELINE, runs=folder / "other") == []
    assert (folder / "out" / "methods.json").read_bytes() == before


def test_a_stopped_job_continues_with_its_finished_stages(finished, monkeypatch):
    folder, _ = finished
    rows = tuple(tuning.rows(BASELINE, {}))
    monkeypatch.setattr("edl.runs.points.run_lanes", lambda *_, **__: pytest.fail("a finished stage is run again"))
    again = make.execute(folder / "runs", jobs_of(rows)[0])
    assert again.results == rows_in(folder / "out", "tuning")


def test_rows_of_several_calls_are_merged(finished, tmp_path, monkeypatch):
    folder, _ = finished
    out = tmp_path / "out"
    out.mkdir()
    for name in ("tuning", "methods"):
        (out / f"{name}.json").write_bytes((folder / "out" / f"{name}.json").read_bytes())
    monkeypatch.setattr(make, "execute", lambda path, job: measured_without_running(job))
    untuned = SETTINGS._replace(methods=("forward_mi",), tuned=False)
    assert make_tables(["methods"], out, untuned, runs=tmp_path / "runs") == []
    assert set(rows_in(out, "methods")) == {"square/reverse_mi", "square/forward_mi"}
    page = (out / "methods.md").read_text()
    assert "Defaults for `forward_mi`; tuned settings." in page


def test_a_job_that_fails_does_not_stop_the_others(tmp_path, monkeypatch):
    def execute(path, job):
        if job.rows[0].facts["method"] == "reverse_mi":
            raise ConfigError("out of memory")
        return measured_without_running(job)

    monkeypatch.setattr(make, "execute", execute)
    chosen = SETTINGS._replace(methods=("reverse_mi", "forward_mi"), tuned=False)
    failures = make_tables(["methods"], tmp_path, chosen)
    assert failures == ["methods: square/reverse_mi, 2 lanes: ConfigError: out of memory"]
    assert set(rows_in(tmp_path, "methods")) == {"square/forward_mi"}


FACTS = {"env": "square", "seed": 0, "num_seeds": 2, "edl": "0", "commit": None, "device": "cpu", "date": "2030-01-01"}
FACTS |= {"steps": {"learn": 1}, "mean": {"best_skill_distance": 1.0}, "ci95": {"best_skill_distance": [0.5, 2.0]}}


def measured_without_running(job):
    """A result for every row of a job, in place of `make.execute`."""
    return make.JobResult({row.key: {"identity": row.identity, **FACTS, **row.facts} for row in job.rows}, 1.0)


def fake(rows, score=lambda row: 1.0):
    """Results of rows that were not measured."""
    found = {}
    for row in rows:
        mean = {"best_skill_distance": score(row)}
        found.setdefault(row.table, {})[row.key] = {"identity": row.identity, **FACTS, **row.facts, "mean": mean}
    return found


def test_the_five_best_rivals_go_to_the_random_mazes():
    settings = SETTINGS._replace(methods=(), mazes=("bottleneck",), tuned=False)
    order = [
        "metra",
        "vic",
        "dads",
        "diayn",
        "valor",
        "visr",
        "discern",
        "skewfit",
        "snn4hrl",
        "reverse_mi",
        "forward_mi",
    ]
    needed = mazes.rows(settings, {})
    assert {row.table for row in needed} == {"methods", "mazes"}  # EDL's rows do not wait
    assert {row.facts["method"] for row in needed if row.table == "mazes"} == {"edl", "edl_default"}
    ready = [row for row in needed if row.table == "methods"]
    assert mazes.best_rivals(settings, fake(ready[:-1])) is None
    ranks = {method: float(rank) for rank, method in enumerate(order)}
    records = fake(ready, lambda row: ranks.get(row.facts["method"], float(len(order))))
    assert mazes.best_rivals(settings, records) == order[:5]
    rows = mazes.rows(settings, records)
    assert [row.facts["method"] for row in rows[::2]] == ["edl", "edl_default", *order[:5]]
    assert {row.config.env for row in rows} == set(maze_names(2, FIRST_MAZE))
    assert not {row.config.env for row in rows}.intersection(maze_names(61))  # these were looked at
    first = mazes.rows(settings._replace(methods=("tldr",)), {})[0]
    assert (first.table, first.until, first.prepare) == ("mazes", "explore", with_explorers_policy)
    assert all(row.table == "mazes" for row in rows)
    assert [len(job.rows) for job in jobs_of(rows)] == [2, 2, 2, 4, 2, 2]  # EDL's two settings are one program


def test_methods_in_random_mazes_have_the_settings_of_the_bottleneck():
    settings = SETTINGS._replace(methods=("reverse_mi",), mazes=())
    grid = tuning.grid_of(settings, "bottleneck", "reverse_mi")
    assert [row.table for row in mazes.rows(settings, {})] == ["tuning"] * 9
    records = fake(grid, lambda row: 0.0 if row.facts["point"] == "+-+" else 1.0)
    rows = [row for row in mazes.rows(settings, records) if row.table == "mazes"]
    assert len(rows) == 2
    assert {row.config.baseline.ppo.entropy_weight for row in rows} == {0.01}


def test_a_revision_of_a_method_makes_its_rows_unfinished(monkeypatch):
    (row,) = methods.rows(BASELINE._replace(tuned=False), {})
    records = fake([row])
    monkeypatch.setitem(table.REVISIONS, row.facts["method"], 7)
    assert not is_finished(row, records)


def test_edl_with_running_moments_differs_in_nothing_else():
    settings = SETTINGS._replace(adjust=lambda config: config)
    running, usual = settings.config("square", "edl_running"), settings.config("square", "edl")
    assert running.learner.ppo.normalise
    assert not usual.learner.ppo.normalise
    assert with_values(running, {"learner.ppo.normalise": False}) == usual


def test_a_result_is_used_for_the_same_run_in_another_table(tmp_path):
    settings = SETTINGS._replace(methods=("reverse_mi",), mazes=("random",), tuned=False)
    folder = store.make_folder(tmp_path)
    measured = fake(mazes.rows(settings, {}))
    for each in measured["mazes"].values():
        each |= {"random": {}, "per_seed": [{}], "steps": {"learn": 1}, "ci95": {"best_skill_distance": [1, 1]}}
    records = {name: dict(measured.get(name, {})) for name in TABLES}
    share_results(folder, ["methods"], settings, records)
    rows = methods.rows(settings, {})
    assert len(rows) == 2
    assert all(is_finished(row, records) for row in rows)
    assert set(make.read_rows(folder, "methods")) == {row.key for row in rows}
    records["methods"].clear()
    other = settings._replace(maze_seeds=3)  # other runs
    share_results(folder, ["methods"], other, records)
    assert not records["methods"]


def test_a_job_on_a_cpu_has_few_lanes():
    settings = SETTINGS._replace(methods=("diayn",), mazes=("square", "bottleneck"))
    rows = tuning.rows(settings._replace(tuning_seeds=3), {})
    assert [len(job.rows) for job in jobs_of(rows)] == [18]
    parts = jobs_of(rows, max_lanes=10)
    assert [len(job.rows) for job in parts] == [3] * 6
    assert [row for job in parts for row in job.rows] == rows
    assert [len(job.rows) for job in jobs_of(rows, max_lanes=2)] == [1] * 18  # a row is never split
    shared = [rows[0]._replace(key=key, runner=rows_in) for key in ("goals", "tasks")]  # they share the first stage
    assert [len(job.rows) for job in jobs_of(shared, max_lanes=2)] == [2]


def test_a_changed_setting_makes_a_row_unfinished():
    (row,) = methods.rows(BASELINE._replace(tuned=False), {})
    records = fake([row])
    assert is_finished(row, records)
    (other,) = methods.rows(BASELINE._replace(tuned=False, num_seeds=3), {})
    assert not is_finished(other, records)


def test_stages_that_are_not_run_are_not_part_of_an_identity():
    (row,) = explorers.random_rows("explorers", 2000, SETTINGS._replace(methods=("random",), mazes=("square",)))
    learner = dataclasses.replace(row.config.learner, reward="shipped")
    other = row._replace(config=dataclasses.replace(row.config, learner=learner))
    assert other.identity == row.identity
    assert other._replace(until="learn").identity != row._replace(until="learn").identity
    seed = row._replace(config=dataclasses.replace(row.config, seed=1))
    assert seed.identity != row.identity


def test_methods_in_random_mazes_and_those_of_leads_are_one_program_with_few_seeds():
    settings = SETTINGS._replace(methods=("map_elites",), mazes=("bottleneck", "random", "leads_u"), tuned=False)
    rows = methods.rows(settings, {})
    assert [row.config.env for row in rows] == ["bottleneck", *maze_names(2, FIRST_MAZE), "leads_u"]
    assert [row.config.num_seeds for row in rows] == [2, 1, 1, 1]
    assert len(jobs_of(rows)) == 1
    assert [row.drawing is not None for row in rows] == [True, False, False, False]
    without = rows[0]._replace(drawing=None)
    assert without.identity == rows[0].identity  # a result without rollouts is finished all the same
    tuned = settings._replace(tuned=True, mazes=("leads_u",))
    assert {row.config.env for row in methods.rows(tuned, {})} == {"bottleneck"}  # its settings come from there


def test_slow_methods_start_first_and_tuned_ones_before_they_tune_others():
    settings = SETTINGS._replace(methods=("reverse_mi", "map_elites", "diayn", "metra"))
    records = fake(tuning.grid_of(settings, "square", "metra"))
    titles = [job.title.partition(",")[0] for job in jobs_of(methods.rows(settings, records))]
    assert titles[:3] == ["methods: square/metra", "tuning: diayn", "tuning: metra"]
    assert set(titles[3:]) == {"tuning: reverse_mi", "tuning: map_elites"}


def test_the_second_execution_of_many_seeds_is_a_job_of_its_own():
    settings = SETTINGS._replace(mazes=("bottleneck", "spiral"))
    first, more, hard = seeds.seed_rows(settings, {})
    assert [row.key for row in (first, more, hard)] == ["bottleneck", "bottleneck/more", "spiral"]
    assert first.config == dataclasses.replace(more.config, seed=first.config.seed)
    assert first.config.seed + first.config.num_seeds <= more.config.seed
    assert sorted(len(job.rows) for job in jobs_of([first, more, hard])) == [1, 1, 1]
    assert seeds.seed_rows(settings._replace(mazes=("spiral",)), {}) == [hard]
    assert seeds.seed_rows(settings._replace(methods=("metra",)), {}) == []


def test_the_rows_of_tldr_end_with_exploring():
    (row,) = methods.rows(SETTINGS._replace(methods=("tldr",), tuned=False), {})
    assert row.until == "explore"
    assert row.prepare is with_explorers_policy
    assert jobs_of([row])[0].is_slow


def test_metra_makes_equal_gradient_steps_of_equal_batches_with_any_number_of_envs():
    rows = training.envs_rows(table.TableSettings(methods=("metra",), mazes=("square",)), {})
    configs = [row.config.baseline for row in rows]
    assert [config.sac.rollouts for config in configs] == list(training.NUM_ENVS)
    fits = [config.minibatches * config.sac.iterations for config in configs]
    assert np.ptp(fits) <= 0.1 * max(fits)
    batches = {config.sac.objective_batch_size / config.minibatches for config in configs}
    assert batches == {128}


def test_the_coverage_of_training_has_rows_of_random_actions_and_of_the_authors_cic():
    rows = {row.key: row for row in training.coverage_rows(table.TableSettings(mazes=("square",)), {})}
    assert rows["square/cic"].config.baseline.contrast_weight == 1.0
    assert rows["square/cic_entropy"].config.baseline.contrast_weight == 0.0
    explored = [rows[f"square/{name}"].config for name in ("random", "persistent random")]
    assert [config.explore for config in explored] == ["random_walk", "random_walk"]
    steps = [config.explorer.iterations * config.explorer.rollouts * 50 for config in explored]
    assert steps == [100_000, 100_000]


@pytest.mark.slow
def test_rows_of_tldr_offline_methods_and_training_end_to_end(tmp_path):
    chosen = SETTINGS._replace(methods=("tldr", "fb", "cic", "metra"), mazes=("bottleneck",), tuned=False)
    names = ["methods", "training_coverage", "envs"]
    assert make_tables(names, tmp_path / "out", chosen, runs=tmp_path / "runs") == []
    rows = rows_in(tmp_path / "out", "methods")
    for method in ("tldr", "fb"):
        assert {"best_skill_distance", "zero_shot_distance", "goal_success"} <= rows[f"bottleneck/{method}"][
            "mean"
        ].keys()
        assert np.shape(rows[f"bottleneck/{method}"]["measured"]["paths"]) == (3, 51, 2)
    assert len(rows["bottleneck/fb"]["measured"]["reward_share"]) == 2
    assert all(0 < each < 20 for each in rows["bottleneck/fb"]["measured"]["goal_distance"])
    covered = rows_in(tmp_path / "out", "training_coverage")
    assert set(covered) == {"bottleneck/cic"}
    assert 0 < covered["bottleneck/cic"]["mean"]["data_coverage_100k"] < 1
    envs = rows_in(tmp_path / "out", "envs")
    assert set(envs) == {f"bottleneck/metra/{count}" for count in training.NUM_ENVS}


@pytest.mark.slow
def test_all_tables_with_worker_processes(tmp_path):
    settings = SETTINGS._replace(mazes=("square", "bottleneck", "spiral"), methods=("reverse_mi", "edl", "random"))
    assert make_tables(["all"], tmp_path / "out", settings, runs=tmp_path / "runs", jobs=2) == []
    without = ("envs", "gymnasium_explorers")  # they have other methods or envs
    usual = [name for name in expand(["all"]) if name not in without]
    assert {path.stem for path in (tmp_path / "out").glob("*.json")} == set(usual)
    counts = {name: len(rows_in(tmp_path / "out", name)) for name in usual}
    assert counts == {
        **{"tuning": 4 * 9, "methods": 4, "mazes": 4, "seeds": 3, "paper_mazes": 2},
        **{"downstream": 2, "explorers": 2, "explorers_million": 2, "training_coverage": 2},
    }
    for name in usual:
        assert (tmp_path / "out" / f"{name}.md").read_text().startswith(f"# {TABLES[name].title}\n")


@pytest.mark.slow
def test_explorers_seeds_and_random_mazes_end_to_end(tmp_path):
    chosen = SETTINGS._replace(methods=("edl", "random"), num_mazes=1, tuned=False)
    names = ["explorers", "seeds", "paper_mazes", "mazes"]
    chosen = chosen._replace(mazes=("square", "bottleneck", "spiral"))
    assert make_tables(names, tmp_path / "out", chosen, runs=tmp_path / "runs") == []
    explored = rows_in(tmp_path / "out", "explorers")["square/random"]
    curve = explored["measured"]
    assert len(curve["mean"]) == len(curve["env_steps"]) == 100
    assert all(low <= mean <= high for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True))
    assert explored["mean"]["data_coverage_100k"] == pytest.approx(curve["mean"][-1], abs=1e-3)
    measured = rows_in(tmp_path / "out", "seeds")
    many, more = measured["bottleneck"], measured["bottleneck/more"]
    assert [seed["seed"] for seed in many["per_seed"]] == [300, 301, 302]
    assert [seed["seed"] for seed in more["per_seed"]] == [500, 501, 502]
    assert many["seconds"]["total"] > many["seconds"]["learn"] > 0
    assert all(seed["failed_skills"] for seed in many["per_seed"])  # nothing was learned
    page = (tmp_path / "out" / "seeds.md").read_text()
    assert "| bottleneck | 3 from 300 | " in page
    assert "* bottleneck: 300 (" in page
    assert "| **EDL** | 1, 1 | " in (tmp_path / "out" / "mazes.md").read_text()
    assert "| square | - | " in (tmp_path / "out" / "paper_mazes.md").read_text()


def test_names_and_settings_are_checked(tmp_path):
    assert expand(["all"]) == [name for name, table in TABLES.items() if not table.on_request]
    assert expand(["robots", "all"]) == ["robots", *expand(["all"])]
    assert expand(["seeds", "seeds"]) == ["seeds"]
    with pytest.raises(ConfigError, match=r"unknown table 'sedes'\. Did you mean 'seeds'\?"):
        expand(["sedes"])
    for changes, message in (
        ({"methods": ("metraa",)}, "Did you mean 'metra'"),
        ({"mazes": ("sqare",)}, "Did you mean 'square'"),
        ({"num_seeds": 0}, r"num_seeds must be at least 1 \(got 0\)"),
        ({"steps": -1}, r"steps must be at least 0 \(got -1\)"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_tables(["seeds"], tmp_path / "out", SETTINGS._replace(**changes))
    assert not (tmp_path / "out").exists()


def test_tables_need_neither_tyro_nor_gymnasium_nor_matplotlib():
    code = "import sys, edl.tables.make, edl.tables.pages; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "edl.tables.make" in loaded
    assert not {"tyro", "gymnasium", "matplotlib", "rich"}.intersection(loaded)


@pytest.mark.slow
@pytest.mark.parametrize("method", tuning.TUNABLES)
def test_every_method_is_tuned_as_one_program(tmp_path, method, monkeypatch):
    monkeypatch.setattr(make, "CPU_LANES", math.inf)
    chosen = SETTINGS._replace(methods=(method,), mazes=("square", "bottleneck"))
    messages = Messages()
    assert make_tables(["tuning"], tmp_path / "out", chosen, runs=tmp_path / "runs", progress=messages) == []
    assert [text for text in messages.texts if "started" in text] == [f"tuning: {method}, 18 rows, 18 lanes, started"]
    rows = rows_in(tmp_path / "out", "tuning")
    assert not [row["failed"] for row in rows.values() if "failed" in row]
    assert tuning.best_point({"tuning": rows}, chosen, "square", method) is not None
    # Mazes and learning rates make a difference. Two iterations are too few for most main weights to make one.
    assert len({row["mean"]["best_skill_distance"] for row in rows.values()}) >= 4
