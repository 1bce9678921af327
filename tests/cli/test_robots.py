"""`edl run` with a robot, from the command to the report and its figures."""

import json

import pytest

import edl
from edl.cli import main
from edl.evaluate.floor import METRICS_OF_FLOOR
from tests.cli.settings import FILES
from tests.envs.mjx.models import BALL, write

pytest.importorskip("mujoco.mjx")

EXPLORE = ["--explorer.iterations", "2", "--explorer.rollouts", "4", "--explorer.unroll", "0", "--explorer.epochs", "1"]
EXPLORE += ["--explorer.minibatches", "2", "--explorer.hidden", "8", "--explorer.cells", "64"]
EXPLORE += ["--explorer.episodes", "8", "--explorer.num-samples", "64"]
LEARN = ["--discover", "kmeans", "--num-skills", "2", "--learner.ppo.iterations", "2", "--learner.ppo.rollouts", "4"]
LEARN += ["--learner.ppo.unroll", "0", "--learner.ppo.epochs", "1", "--learner.ppo.minibatches", "2"]
LEARN += ["--learner.ppo.hidden", "8"]  # the policy of the explorer is the start
TINY = [*EXPLORE, *LEARN, "--horizon", "4"]


@pytest.mark.slow
def test_a_run_of_the_half_cheetah_has_floor_metrics_a_report_and_figures(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["run", "--env", "half_cheetah", *TINY, "--out", str(out)]) == 0
    assert "report.html" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == FILES
    saved = json.loads((out / "config.json").read_text())
    assert (saved["env"], saved["explore"]) == ("half_cheetah", "beyond")  # the default explorer of robots
    metrics = json.loads((out / "metrics.json").read_text())
    (seed,) = metrics["per_seed"]
    for name in METRICS_OF_FLOOR:
        assert seed[name] >= 0
    assert metrics["random"]["floor_coverage"] >= 1  # at least the cell of the start
    assert metrics["steps"].keys() == {"explore", "learn"}
    assert edl.load(out).policy.codes.shape == (2, 1)
    report = (out / "report.html").read_text()
    assert "half_cheetah" in report
    assert "floor_coverage" in report

    before = {path.name for path in (out / "figures").iterdir()}
    assert {"skills.png", "robot.png"} <= before
    assert main(["figure", str(out), "--only", "skills", "--format", "svg"]) == 0
    assert (out / "figures" / "skills.svg").read_text().startswith("<?xml")
    assert main(["figure", str(out)]) == 0
    assert before <= {path.name for path in (out / "figures").iterdir()}
    assert json.loads((out / "metrics.json").read_text())["per_seed"] == metrics["per_seed"]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("ankle", r"must be joints or bodies .*\(got 'ankle'\)\. Its joints are .*x.*y.*its bodies are .*ball"),
        ("x,ankle.z", r"\(got 'ankle.z'\)"),
        ("0,4", r"features must be different dimensions of the observation, from 0 to 3 \(got '0,4'\)"),
        ("x,9", r"dimensions of the observation, from 0 to 3 \(got '9'\)"),
        ("x,x", r"must differ \(got 'x,x'\)"),
    ],
)
def test_features_that_a_model_does_not_have_are_rejected(check_rejected, tmp_path, features, message):
    """The model has the joints x and y only: two positions and two velocities."""
    words = ["--env", write(tmp_path, BALL), "--features", features, "--out", tmp_path / "run"]
    check_rejected(["run", *words], message)
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]


def test_a_model_that_cannot_be_read_is_rejected(check_rejected, tmp_path):
    for xml in ("<mujoco>", "no XML"):
        check_rejected(["run", "--env", write(tmp_path, xml), "--out", tmp_path / "run"], "robot.xml")
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]
