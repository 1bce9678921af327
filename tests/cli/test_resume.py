"""Stopping and resuming a run, and rejecting folders that cannot be resumed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import edl
from edl.cli import main
from edl.config import ConfigError
from edl.runs import store, tensors
from edl.runs.config import RunConfig, to_json
from edl.runs.manifest import MANIFEST
from edl.runs.many_seeds import seeds_folder
from edl.runs.resolve import resolve_config
from tests.cli.settings import TINY

ROOT = Path(__file__).parents[2]
HANGING = 180
"""Seconds after which a process counts as hanging."""


def test_resuming_a_finished_run_only_prints_its_result(copied, capsys, check_rejected):
    before = (copied / "metrics.json").read_bytes()
    assert main(["run", "--resume", "--out", str(copied)]) == 0
    assert "goal_success" in capsys.readouterr().out
    assert (copied / "metrics.json").read_bytes() == before
    check_rejected(["run", *TINY, "--out", copied], "already holds a run. Continue it with --resume")
    check_rejected(["run", "--resume", "--out", copied, "--num-skills", "4"], "num_skills was 3 and is now 4")


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path, check_rejected):
    check_rejected(["run", "--resume", "--out", tmp_path / "none"], "holds no run")


def test_a_run_that_was_killed_before_it_wrote_anything_starts_again(tmp_path):
    (tmp_path / "run").mkdir()
    words = ["explore", "--explore", "oracle", "--explorer.num-samples", "64", "--out", str(tmp_path / "run")]
    assert main([*words, "--resume"]) == 0
    assert edl.load(tmp_path / "run").states.samples.shape == (64, 2)


def test_seeds_of_an_executor_are_resumed_with_an_executor(tmp_path, check_rejected, monkeypatch):
    """Before they are joined, a run has nothing but the folder of its seeds, whose config counts."""
    out = tmp_path / "run"
    store.create(seeds_folder(out)).write_json(store.CONFIG, to_json(resolve_config(RunConfig(num_skills=3))))
    check_rejected(["run", "--resume", "--out", out], "Add --executor processes or ray")
    execute = Mock(side_effect=ConfigError("reached the executor"))
    monkeypatch.setattr("edl.cli.execution.execute_seeds", execute)
    check_rejected(["run", "--resume", "--out", out, "--executor", "processes"], "reached the executor")
    assert execute.call_args.args[0].num_skills == 3


def reopen(run: Path) -> None:
    """Make a finished run look as if it had been stopped in stage 3."""
    progress = json.loads((run / store.PROGRESS).read_text())
    kept = {name: progress[name] for name in ("explore", "discover")}
    (run / store.PROGRESS).write_text(json.dumps(kept))
    (run / MANIFEST).unlink()  # as in folders of older versions, files can then be damaged without being noticed
    for name in ("policy.safetensors", "metrics.json"):
        (run / name).unlink()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("checkpoint/state.safetensors", b"garbage", "state.safetensors is damaged"),
        ("checkpoint/progress.json", b"[1]", "progress.json is damaged"),
        ("checkpoint/progress.json", b"{", "progress.json is not valid JSON"),
        ("checkpoint/progress.json", b'{"explore": {}}', "progress.json is damaged"),
        ("config.json", b"{", "config.json is not valid JSON"),
        ("states.safetensors", b"", "states.safetensors is damaged"),
        ("skills.safetensors", b"\x80\x04\x95", "skills.safetensors is damaged"),
    ],
)
def test_a_corrupt_run_is_rejected(copied, check_rejected, name, data, message):
    reopen(copied)
    (copied / name).write_bytes(data)
    check_rejected(["run", "--resume", "--out", copied], message)
    assert not (copied / "policy.safetensors").exists()


def test_the_checkpoint_of_another_run_is_rejected(copied, check_rejected):
    reopen(copied)
    notes = {"stage": "learn", "iteration": 3, "sums": {}, "spent": {}}
    store.Folder(copied).save(store.CHECKPOINT, {"x": np.zeros(3, np.float32)}, notes)
    check_rejected(["run", "--resume", "--out", copied], "does not belong to this run")


def start(out: Path, *words: str) -> subprocess.Popen:
    """`edl run` in its own process, with a checkpoint after every iteration."""
    command = [sys.executable, "-m", "tests.cli.edl_with_many_checkpoints", "run", *words, "--out", str(out)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process: subprocess.Popen) -> None:
    end = time.monotonic() + HANGING
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the process hangs"
        time.sleep(0.01)


def interrupt(process: subprocess.Popen) -> str:
    """Send Ctrl-C, and return what the process prints to standard error."""
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=HANGING)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    return printed


def has_checkpoint_of_learn(out: Path) -> bool:
    place = out / store.CHECKPOINT
    return place.is_file() and tensors.notes_of(place.read_bytes(), "").get("stage") == "learn"


def test_interrupted_and_killed_and_resumed_it_gives_the_same_bits(finished, tmp_path):
    out = tmp_path / "run"
    process = start(out, *TINY)
    wait_for((out / "config.json").is_file, process)
    assert f"Continue with: edl run --out {out} --resume" in interrupt(process)
    assert not (out / "policy.safetensors").exists()

    process = start(out, "--resume")
    wait_for(lambda: has_checkpoint_of_learn(out), process)
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


def test_an_interrupt_before_the_first_file_says_that_nothing_was_written(tmp_path, capsys, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("edl.runs.run.execute_run", interrupted)
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().err == "\nedl run: stopped. Nothing was written.\n"


def test_the_command_that_continues_keeps_the_log(copied, capsys, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("edl.runs.run.execute_run", interrupted)
    assert main(["run", "--out", str(copied), "--resume", "--log", "csv"]) == 130
    assert f"Continue with: edl run --out {copied} --resume --log csv\n" in capsys.readouterr().err


def test_seeds_on_an_executor_start_again_only_with_their_settings(tmp_path, check_rejected, monkeypatch):
    started = []

    def execute_seeds(config, out, *, resume, execution, **others):
        started.append((resume, execution.envs))
        raise KeyboardInterrupt

    monkeypatch.setattr("edl.cli.execution.execute_seeds", execute_seeds)
    executor = ["--executor", "processes", "--out", str(tmp_path / "run"), "--resume"]
    assert main(["run", "--env", "CartPole-v1?file=x.xml", *executor]) == 130  # killed before it wrote anything
    store.create(tmp_path / "run-seeds").write_json(store.CONFIG, {})
    assert main(["run", "--env", "square", *executor]) == 130
    assert started == [(False, ("CartPole-v1?file=x.xml",)), (True, ("square",))]
    monkeypatch.undo()
    (tmp_path / "run-seeds" / store.CONFIG).unlink()
    check_rejected(["run", *executor], "hold no run. Check --out")


@pytest.mark.parametrize(
    ("stage", "done", "continued"),
    [
        ("discover", ("explore",), "edl discover {run}"),
        ("discover", ("explore", "discover"), "edl figure {run}"),
        ("learn", ("explore", "discover"), "edl run --out {run} --resume"),
    ],
)
def test_an_interrupted_stage_says_how_to_continue(copied, capsys, monkeypatch, stage, done, continued):
    progress = json.loads((copied / store.PROGRESS).read_text())
    (copied / MANIFEST).unlink()
    (copied / store.PROGRESS).write_text(json.dumps({name: progress[name] for name in done}))

    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("edl.runs.run.extend", interrupted)
    assert main([stage, str(copied)]) == 130
    assert f"Continue with: {continued.format(run=copied)}\n" in capsys.readouterr().err
