"""Logs of a run in other tools. The tools themselves are replaced by recorders."""

import sys
from types import SimpleNamespace

import pytest

from edl.config import ConfigError
from edl.runs.config import RunConfig
from edl.runs.loggers import log_to
from edl.runs.parts import parts_of
from edl.runs.progress import SilentProgress, StageProgress, Watcher

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


def test_a_file_is_opened_when_a_stage_starts(tmp_path):
    with log_to("csv", tmp_path / "run", RunConfig(), SilentProgress()):
        pass
    assert list(tmp_path.iterdir()) == []


def test_seeds_that_run_in_parts_have_curves_of_their_own(tmp_path):
    config = RunConfig(seed=5, num_seeds=5)
    assert [part.seeds(config) for part in parts_of(5, 2)] == ["5-6", "7-8", "9-9"]
    assert [part.seeds(config) for part in parts_of(5, 5)] == [""]
    with log_to("csv", tmp_path / "run", config, SilentProgress()) as progress:
        progress.stage_started("learn", 20)
        progress.stage_advanced("learn", CHUNK)
        progress.stage_advanced("learn", CHUNK._replace(iteration=13, begin=10, seeds="7-8"))
    rows = (tmp_path / "run-log.csv").read_text().splitlines()
    assert rows[1:] == ["150,learn/goal_success,0.25", "150,learn/goal_success/seeds_7-8,0.25"]


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
    with pytest.raises(ConfigError, match="needs wandb, which is not installed"):
        advance("wandb", tmp_path / "run")
    with pytest.raises(ConfigError, match="needs the folder of a run: pass --out DIR"):
        advance("csv", None)


class Viewer(SilentProgress):
    """A `Watcher`: keeps the states that it is shown."""

    def __init__(self):
        self.seen = []

    def stage_state(self, stage, state, artifact):
        self.seen.append((stage, state, artifact()))


def test_a_live_view_sees_the_states_of_a_run_that_is_logged(tmp_path):
    viewer = Viewer()
    with log_to("csv", tmp_path / "run", RunConfig(), viewer) as progress:
        assert isinstance(progress, Watcher)
        progress.stage_state("learn", 1, lambda: 2)
    assert viewer.seen == [("learn", 1, 2)]
    with log_to("csv", tmp_path / "run", RunConfig(), SilentProgress()) as progress:
        assert not isinstance(progress, Watcher)
