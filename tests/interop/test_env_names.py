"""A module is imported because the user named it, and never because a file did."""

import json
import sys

import pytest

import edl
from edl.cli import main
from edl.config import ConfigError
from edl.interop.env_names import NAMED, needs_import

MODULE = """
import pathlib
pathlib.Path({marker!r}).touch()
from tests.interop.hosted import Line
"""


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A run whose config.json asks for a module, and the file that importing it would leave behind."""
    marker = tmp_path / "imported"
    (tmp_path / "planted_world.py").write_text(MODULE.format(marker=str(marker)))
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    edl.run("square", explore="oracle", until="explore", out=run)
    yield run, marker
    sys.modules.pop("planted_world", None)
    NAMED.clear()


def plant(run, name):
    saved = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**saved, "env": name, "maze": None}))


@pytest.mark.parametrize("name", ["planted_world:Line", "planted_world:Line-v0"])
def test_a_run_cannot_have_a_module_imported(planted, name, capsys):
    run, marker = planted
    plant(run, name)
    with pytest.raises(ConfigError, match="named by a file"):
        edl.load(run)
    for command in ("evaluate", "figure", "discover", "export", "downstream"):
        assert main([command, str(run)]) == 2
    assert main(["run", "--config", str(run / "config.json"), "--out", str(run.parent / "other")]) == 2
    assert main(["run", "--resume", "--out", str(run)]) == 2
    assert "--env" in capsys.readouterr().err
    assert not marker.exists()


def test_the_user_can(planted):
    run, marker = planted
    plant(run, "planted_world:Line")
    main(["evaluate", str(run), "--env", "planted_world:Line"])  # refused further on: its states are a maze's
    assert marker.exists()


def test_which_names_stand_for_an_import():
    assert needs_import("module:Name")
    assert needs_import("module:Name-v0?a=1")
    assert not needs_import("CartPole-v1?path=c:d")
    assert not needs_import("square")
