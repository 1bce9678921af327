"""`edl run` and its stages one by one: the run folder, and loading it again."""

import json
import shutil

import jax
import pytest
from PIL import Image

import edl
from edl.cli import main
from edl.config import ConfigError
from edl.runs import tensors
from edl.runs.result import load
from tests.cli.settings import DISCOVER, EXPLORE, FILES, LEARN


def test_a_run_writes_a_folder_that_explains_itself(finished):
    assert {path.name for path in finished.iterdir()} == FILES
    metrics = json.loads((finished / "metrics.json").read_text())
    assert (metrics["env"], metrics["method"], metrics["num_skills"]) == ("square", "edl", 3)
    assert (metrics["explore"], metrics["discover"], metrics["num_seeds"]) == ("random_walk", "kmeans", 1)
    names = {"data_coverage", "data_coverage_100k", "skill_coverage", "goal_distance", "goal_success"}
    names |= {"best_skill_distance", "zero_shot_distance", "mutual_information"}
    assert names <= metrics["per_seed"][0].keys()
    assert {"mean", "iqm", "ci95"} <= metrics["aggregate"]["goal_success"].keys()
    assert metrics["steps"] == {"explore": 4 * 8 * 50, "learn": 40 * 4 * 50}
    seconds = metrics["seconds"]
    assert {"compile", "explore", "discover", "learn", "evaluate", "total"} <= seconds.keys()
    assert seconds["total"] >= seconds["learn"] + seconds["evaluate"]
    rows = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    learned = [row for row in rows if row["stage"] == "learn"]
    assert [row["iteration"] for row in learned] == list(range(1, 41))
    assert all(len(row["goal_success"]) == 1 for row in learned)
    assert json.loads((finished / "provenance.json").read_text())["packages"]["jax"] == jax.__version__
    assert (finished / "figures" / "skills.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_can_be_loaded(finished):
    run = edl.load(finished)
    assert run.states.samples.shape == (256, 2)
    assert run.skills.goals.shape == (3, 2)
    assert run.config.num_skills == 3
    one = run.seed(0)
    action = one.policy.act(jax.random.key(0), jax.numpy.zeros(2), one.skills.codes[0])
    assert action.shape == run.env.action_space.low.shape
    stored = (finished / "policy.safetensors").read_bytes()
    assert tensors.encode(load(finished).policy, tensors.notes_of(stored, "policy")) == stored
    with pytest.raises(ConfigError, match=r"between 0 and 0 \(got 1\)"):
        run.seed(1)


def test_the_stages_one_by_one_give_the_same_policy(finished, tmp_path, check_rejected):
    run, further = tmp_path / "run", tmp_path / "further"
    assert main(["explore", *EXPLORE, "--out", str(run)]) == 0
    assert edl.load(run).skills is None
    check_rejected(["learn", run], "has no finished stage 'discover'.*Run `edl discover`")
    check_rejected(["discover", run, "--num-skills", "500"], "num_skills=500 exceeds the 256 states explored")
    assert main(["discover", str(run), *DISCOVER]) == 0
    check_rejected(["discover", run], "already has a finished stage 'discover'")
    assert main(["learn", str(run), *LEARN, "--out", str(further)]) == 0
    check_rejected(["learn", run, "--out", further], "already holds a run")
    assert (further / "policy.safetensors").read_bytes() == (finished / "policy.safetensors").read_bytes()
    assert not (run / "policy.safetensors").exists()


def test_a_finished_run_can_be_evaluated_and_drawn_again(copied):
    before = json.loads((copied / "metrics.json").read_text())
    shutil.rmtree(copied / "figures")
    (copied / "report.html").unlink()
    assert main(["evaluate", str(copied)]) == 0
    assert json.loads((copied / "metrics.json").read_text()) == before
    assert main(["figure", str(copied)]) == 0
    assert (copied / "figures" / "skills.png").is_file()
    assert (copied / "report.html").is_file()


def test_single_figures_can_be_drawn_as_vector_graphics(copied, check_rejected):
    before = (copied / "report.html").read_bytes()
    assert main(["figure", str(copied), "--only", "skills", "--format", "svg"]) == 0
    assert (copied / "figures" / "skills.svg").read_bytes().startswith(b"<?xml")
    assert main(["figure", str(copied), "--only", "usage", "states", "--format", "pdf"]) == 0
    assert {path.name for path in (copied / "figures").glob("*.pdf")} == {"usage.pdf", "states.pdf"}
    assert main(["figure", str(copied), "--format", "gif"]) == 0
    with Image.open(copied / "figures" / "skills.gif") as animation:
        assert animation.n_frames > 10
    assert (copied / "report.html").read_bytes() == before
    check_rejected(
        ["figure", copied, "--only", "usage", "--format", "gif"], r"only the skills can be a gif \(got --only us"
    )
    check_rejected(["figure", copied, "--only", "skil"], "unknown figure 'skil'. Did you mean 'skills'")
    check_rejected(["figure", copied, "--dims", "0,1"], "a maze is drawn in its own two dimensions")


def test_stages_alone_print_a_table_and_draw_pictures(tmp_path, capsys):
    run = tmp_path / "run"
    words = ["--explore", "oracle", "--explorer.num-samples", "128", "--log", "csv", "--out", str(run)]
    assert main(["explore", *words]) == 0
    printed = capsys.readouterr().out
    assert "num_states" in printed
    assert (run / "figures" / "states.png").is_file()
    assert "It has not learned a policy yet." in (run / "report.html").read_text()
    assert main(["discover", str(run), *DISCOVER]) == 0
    printed = capsys.readouterr().out
    assert "codes_used" in printed
    assert "than random" not in printed
    assert "(took " in printed
    assert (run / "figures" / "assignments.png").is_file()
    assert (run / "figures" / "usage.png").is_file()
    assert "divided the explored states into one region per skill" in (run / "report.html").read_text()


def test_a_run_without_out_gets_a_free_folder(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "square-random_walk-kmeans").mkdir(parents=True)
    assert main(["explore", *EXPLORE, *DISCOVER[:2]]) == 0
    assert (tmp_path / "runs" / "square-random_walk-kmeans-2" / "config.json").is_file()
    assert "edl discover runs/square-random_walk-kmeans-2\n" in capsys.readouterr().out


def test_a_policy_can_be_exported(finished, tmp_path, capsys):
    assert main(["export", str(finished), "--out", str(tmp_path / "policy.py")]) == 0
    assert f"wrote     {tmp_path / 'policy.py'}\n" in capsys.readouterr().out
    assert "skills = NumpySkills.from_text(" in (tmp_path / "policy.py").read_text()
