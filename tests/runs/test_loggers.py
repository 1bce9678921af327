"""Logs of a run in other tools. The tools themselves are replaced by recorders."""

import sys
from types import SimpleNamespace

import pytest

from edl.config import ConfigError
from edl.runs.config import RunConfig
from edl.runs.loggers import log_to
from edl.runs.progress import SilentProgress, StageProgress

CHUNK = StageProgress(iteration=3, iterations=10, rate=1.0, env_steps=50, metrics={"goal_success": 0.25})
EXPECTED = (150, {"learn/goal_success": 0.25})


def advance(target, out):
    with log_to(target, out, RunConfig(), SilentProgress()) as progress:
        progress.stage_started("learn", 10)
        progress.stage_advanced("learn", CHUNK)
        progress.stage_finished("learn")


def test_csv(tmp_path):
    advance("csv", tmp_path / "run")
    advance("csv", tmp_path / "run")  # a resumed run continues the file
    assert (tmp_path / "run-log.csv").read_text() == "step,metric,value\n" + "150,learn/goal_success,0.25\n" * 2
    assert not (tmp_path / "run").exists()


def test_tensorboard(tmp_path, monkeypatch):
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            written.append(folder)

        def add_scalar(self, name, value, step):
            written.append((step, {name: value}))

        def close(self):
            written.append("closed")

    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=SummaryWriter))
    advance("tensorboard", tmp_path / "run")
    assert written == [str(tmp_path / "run-tensorboard"), EXPECTED, "closed"]


def test_wandb(tmp_path, monkeypatch):
    written = []
    session = SimpleNamespace(log=written.append, finish=lambda: written.append("finished"))

    def init(project, name, config):
        assert (project, name, config["env"]) == ("edl", "run", "square")
        return session

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    advance("wandb", tmp_path / "run")
    assert written == [{"learn/goal_success": 0.25, "step": 150}, "finished"]


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="needs wandb, which is not installed: pip install"):
        advance("wandb", tmp_path / "run")
    with pytest.raises(ConfigError, match="needs the folder of a run: pass --out DIR"):
        advance("csv", None)
