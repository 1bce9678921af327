"""What a user types: exit statuses, messages, the folder a run leaves behind, and stopping and resuming it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import edl
from edl.cli import COMMANDS, main, options
from edl.config import ConfigError
from edl.runs import store, tensors

EXPLORE = ["--explore", "random_walk", "--explorer.iterations", "4", "--explorer.rollouts", "8"]
DISCOVER = ["--discover", "kmeans", "--num-skills", "3"]
LEARN = ["--learner.distance", "euclidean", "--learner.ppo.iterations", "40", "--learner.ppo.rollouts", "4"]
LEARN += ["--learner.ppo.epochs", "1", "--learner.ppo.minibatches", "2", "--learner.ppo.hidden", "8"]
TINY = [*EXPLORE, "--explorer.num-samples", "256", *DISCOVER, *LEARN]
FILES = {"config.json", "provenance.json", "states.safetensors", "skills.safetensors", "policy.safetensors"}
FILES |= {"metrics.json", "log.jsonl", "checkpoint", "figures", "report.html"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that went to its end."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    assert main(["run", *TINY, "--out", str(path)]) == 0
    return path


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it, to break."""
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def refused(capsys, words, message):
    """Check for exit status 2 with one message, that message, and no traceback."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert re.search(message, " ".join(said.err.replace("│", " ").split())), said.err


def test_help_is_there_at_once():
    began = time.perf_counter()
    code = "import sys; from edl.cli import main; s = main(['--help']); assert 'jax' not in sys.modules; sys.exit(s)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert time.perf_counter() - began < 10
    assert all(command in said.stdout for command in COMMANDS)


def test_lists_all_that_can_be_named(capsys):
    from edl import discover, explore

    assert main(["list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ["bottleneck", *explore.METHODS, *discover.METHODS])


def test_the_options_are_those_of_the_methods_named(capsys):
    assert main(["run", "--discover", "kmeans", "--explore", "random_walk", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--explorer.persistence" in said
    assert "--learner.ppo.learning-rate" in said
    assert "--discoverer.commitment" not in said
    assert "--discoverer.num-skills" not in said
    assert main(["--version"]) == 0


BAD = [
    (["--env", "sqare"], "unknown world 'sqare'.*did you mean 'square'"),
    (["--env", "nowhere.txt"], "nowhere.txt"),
    (["--explore", "orcale"], "unknown explorer 'orcale': did you mean 'oracle'"),
    (["--discover", "vqvea"], "unknown discoverer 'vqvea': did you mean 'vqvae'"),
    (["--preset", "fats"], "unknown preset 'fats': did you mean 'fast'"),
    (["--num-skills", "0"], "num_skills=0: an integer of at least 1"),
    (["--num-skills", "-3"], "num_skills=-3"),
    (["--num-seeds", "0"], "num_seeds=0"),
    (["--num-seeds", "-1"], "num_seeds=-1"),
    (["--seed", "-1"], "seed=-1"),
    (["--seed", "3000000000"], "seed=3000000000"),
    (["--num-skills", "ten"], "--num-skills.*ten"),
    (["--number-of-skills", "3"], "Unrecognized.*--num-skills"),
    (["--explorer.iterations", "0"], r"explorer\.iterations=0"),
    (["--explorer.persistence", "nan"], r"explorer\.persistence=nan"),
    (["--learner.ppo.learning-rate", "-1"], r"learner\.ppo\.learning_rate=-1"),
    (["--num-skills", "500"], "num_skills=500 exceeds the 256 states explored"),
    (["--region", "x>100"], "region 'x>100' is empty"),
    (["--region", "s2>0"], "uses dimension 2.*have 2"),
    (["--region", "q>0"], "unknown variable 'q'"),
    (["--region", "x"], "plain comparison expression"),
    (["--region", "__import__('os').mkdir('pwned')"], "plain comparison expression"),
    (["--explore", "dataset:none.npz"], "none.npz.*not a file"),
    (["--explore", "dataset:states.pkl"], "states.pkl.*one of .npz"),
    (["--config", "none.json"], "none.json.*cannot be read"),
    (["--resume"], "--out"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_is_refused_and_leaves_nothing(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    out = [] if words == ["--resume"] else ["--out", "run"]
    base = [] if "--explore" in words and "--explorer.iterations" not in words else TINY
    refused(capsys, ["run", *base, *words, *out], message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (np.array([[0.0, 1.0], [np.nan, 0.0]]), "nan in row 1, column 0"),
        (np.zeros((4, 3)), "3 columns.*have 2"),
        (np.zeros((0, 2)), "empty"),
        (np.array([[1, {}]], dtype=object), "pickled"),
        (np.zeros((5, 2)), "num_skills=10 exceeds the 5 states"),
    ],
)
def test_bad_datasets_are_refused(capsys, tmp_path, states, message):
    np.save(tmp_path / "states.npy", states, allow_pickle=True)
    refused(capsys, ["run", "--explore", f"dataset:{tmp_path / 'states.npy'}", "--out", tmp_path / "run"], message)
    assert not (tmp_path / "run").exists()


def test_broken_mazes_are_refused_by_row_and_column(capsys, tmp_path):
    (tmp_path / "maze.txt").write_text("+-+\n|?|\n+-+\n")
    refused(capsys, ["run", "--env", tmp_path / "maze.txt", "--out", tmp_path / "run"], "row 2.*column 2")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not a run's config"),
        ('{"num_skils": 3}', "did you mean 'num_skills'"),
        ('{"num_skills": "3"}', "num_skills='3'"),
        ('{"explore": "random_walk", "explorer": {"iteratoins": 3}}', "did you mean 'iterations'"),
        ('{"explore": "nothing"}', "unknown explorer 'nothing'"),
    ],
)
def test_bad_config_files_are_refused(capsys, tmp_path, text, message):
    (tmp_path / "c.json").write_text(text)
    refused(capsys, ["run", "--config", tmp_path / "c.json", "--out", tmp_path / "run"], message)


def test_commands_and_arguments_that_are_wrong(capsys, tmp_path):
    refused(capsys, ["rnu"], "unknown command 'rnu': did you mean 'run'")
    refused(capsys, ["list", "all"], "takes no arguments")
    refused(capsys, ["evaluate"], "RUN is missing")
    refused(capsys, ["evaluate", tmp_path], "holds no run")
    refused(capsys, ["figure", tmp_path / "none"], "holds no run")
    refused(capsys, ["learn", tmp_path], "holds no run")
    refused(capsys, ["baseline"], "METHOD is missing")
    refused(capsys, ["baseline", "nothing"], "unknown method 'nothing'")


def test_flags_override_a_config_that_overrides_the_preset(finished):
    saved = ["--config", str(finished / "config.json")]
    base = options.starting_point(saved)
    assert (base.explore, base.num_skills, base.learner.ppo.iterations) == ("random_walk", 3, 40)
    other = options.starting_point([*saved, "--explore", "oracle"])
    assert type(other.explorer).__name__ == "OracleConfig"
    assert other.learner.ppo.iterations == 40
    parsed = options.read([*saved, "--learner.ppo.iterations", "7"], base, "edl run", "", ["config"], ["learner"])
    assert options.merged(base, parsed).learner.ppo.iterations == 7
    assert options.starting_point(["--preset", "paper"]).learner.rivalry
    assert not options.starting_point([]).learner.rivalry


def test_a_run_leaves_a_folder_that_explains_itself(finished):
    assert {path.name for path in finished.iterdir()} == FILES
    metrics = json.loads((finished / "metrics.json").read_text())
    assert (metrics["env"], metrics["method"], metrics["num_skills"]) == ("square", "edl", 3)
    assert (metrics["explore"], metrics["discover"], metrics["num_seeds"]) == ("random_walk", "kmeans", 1)
    names = {"data_coverage", "data_coverage_100k", "skill_coverage", "goal_distance", "goal_success"}
    names |= {"zero_shot_distance", "mutual_information"}
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
    assert run.states.samples.shape == (1, 256, 2)
    assert run.skills.goals.shape == (1, 3, 2)
    assert run.config.num_skills == 3
    one = run.seed(0)
    action = one.policy.act(jax.random.key(0), jax.numpy.zeros(2), one.skills.codes[0])
    assert action.shape == run.env.action_space.low.shape
    assert tensors.encode(run.policy) == (finished / "policy.safetensors").read_bytes()
    with pytest.raises(ConfigError, match="seed number 1"):
        run.seed(1)


def test_the_three_stages_one_by_one_give_the_same(finished, tmp_path, capsys):
    run, further = tmp_path / "run", tmp_path / "further"
    assert main(["explore", *EXPLORE, "--explorer.num-samples", "256", "--out", str(run)]) == 0
    assert edl.load(run).skills is None
    refused(capsys, ["learn", run], "has not been through 'discover'")
    refused(capsys, ["discover", run, "--num-skills", "500"], "exceeds the 256 states")
    assert main(["discover", str(run), *DISCOVER]) == 0
    refused(capsys, ["discover", run], "been through 'discover' already")
    assert main(["learn", str(run), *LEARN, "--out", str(further)]) == 0
    refused(capsys, ["learn", run, "--out", further], "already holds a run")
    assert (further / "policy.safetensors").read_bytes() == (finished / "policy.safetensors").read_bytes()
    assert not (run / "policy.safetensors").exists()


def test_a_finished_run_is_measured_and_drawn_again(copied):
    before = json.loads((copied / "metrics.json").read_text())
    shutil.rmtree(copied / "figures")
    assert main(["evaluate", str(copied)]) == 0
    assert json.loads((copied / "metrics.json").read_text()) == before
    assert main(["figure", str(copied)]) == 0
    assert (copied / "figures" / "skills.png").is_file()


def test_resuming_a_finished_run_only_tells_its_result(copied, capsys):
    before = (copied / "metrics.json").read_bytes()
    assert main(["run", "--resume", "--out", str(copied)]) == 0
    assert "goal_success" in capsys.readouterr().out
    assert (copied / "metrics.json").read_bytes() == before
    refused(capsys, ["run", *TINY, "--out", copied], "already holds a run")
    refused(capsys, ["run", "--resume", "--out", copied, "--num-skills", "4"], "num_skills was 3 and is now 4")


def reopened(run):
    """Make a finished run look as if it had been stopped in stage 3."""
    progress = json.loads((run / store.PROGRESS).read_text())
    kept = {name: progress[name] for name in ("explore", "discover")}
    (run / store.PROGRESS).write_text(json.dumps(kept))
    for name in ("policy.safetensors", "metrics.json"):
        (run / name).unlink()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("checkpoint/state.safetensors", b"garbage", "state.safetensors is damaged"),
        ("checkpoint/progress.json", b"[1]", "progress.json is damaged"),
        ("checkpoint/progress.json", b"{", "progress.json is not JSON"),
        ("checkpoint/progress.json", b'{"explore": {}}', "progress.json is damaged"),
        ("config.json", b"{", "config.json is not JSON"),
        ("states.safetensors", b"", "states.safetensors is damaged"),
        ("skills.safetensors", b"\x80\x04\x95", "skills.safetensors is damaged"),
    ],
)
def test_a_corrupt_run_is_refused(copied, capsys, name, data, message):
    reopened(copied)
    (copied / name).write_bytes(data)
    refused(capsys, ["run", "--resume", "--out", copied], message)
    assert not (copied / "policy.safetensors").exists()


def test_a_foreign_checkpoint_is_refused(copied, capsys):
    reopened(copied)
    notes = {"stage": "learn", "iteration": 3, "sums": {}, "spent": {}}
    store.Folder(copied).save(store.CHECKPOINT, {"x": np.zeros(3, np.float32)}, notes)
    refused(capsys, ["run", "--resume", "--out", copied], "does not belong to this run")


def start(out, *words):
    """A run in a process of its own that checkpoints after every piece, and says where it is if it takes long."""
    code = (
        "import faulthandler, signal, sys; faulthandler.dump_traceback_later(6, repeat=True); "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # in the background of a shell it is ignored
        "from edl.cli import main; from edl.runs import driver, session; "
        "driver.PIECE_SECONDS = session.CHECKPOINT_SECONDS = session.SAVING_COST = 0.0; sys.exit(main())"
    )
    arguments = [sys.executable, "-c", code, "run", *words, "--out", str(out)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def wait_for(condition, process, seconds=120):
    until = time.perf_counter() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.perf_counter() < until
        time.sleep(0.01)


def learning(out):
    """Whether there is a checkpoint of stage 3."""
    place = out / store.CHECKPOINT
    return place.is_file() and tensors.notes_of(place.read_bytes(), "").get("stage") == "learn"


def test_stopped_and_killed_and_resumed_it_gives_the_same_bits(finished, tmp_path):
    out = tmp_path / "run"
    process = start(out, *TINY)
    wait_for((out / "config.json").is_file, process)
    process.send_signal(signal.SIGINT)
    asked = time.perf_counter()
    _, said = process.communicate(timeout=60)
    assert time.perf_counter() - asked < 10, said
    assert process.returncode == 130
    assert f"edl run --out {out} --resume" in said
    assert "Traceback" not in said

    process = start(out, "--resume")
    wait_for(lambda: learning(out), process)
    process.kill()
    process.communicate()
    assert not (out / "policy.safetensors").exists()

    assert main(["run", "--resume", "--out", str(out)]) == 0
    for name in ("states", "skills", "policy"):
        file = f"{name}.safetensors"
        assert (out / file).read_bytes() == (finished / file).read_bytes()
    ours, theirs = (
        [{k: v for k, v in row.items() if k != "seconds"} for row in edl.load(path).log] for path in (out, finished)
    )
    assert ours == theirs
