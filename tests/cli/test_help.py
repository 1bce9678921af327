"""Help, `edl list` and `edl --version`."""

import re
import subprocess
import sys

import pytest

from edl import __version__, baselines, discover, explore
from edl.citation import year_of
from edl.cli import COMMANDS, listing, main
from edl.envs.gridworld import gridworld
from edl.envs.registry import ENVS, register

HELP = """
import sys
from edl.cli import main
assert main(["--help"]) == 0
heavy = {"jax", "numpy", "rich", "tyro", "matplotlib", "gymnasium"} & sys.modules.keys()
assert not heavy, heavy
"""


def test_help_imports_nothing_heavy_and_lists_all_commands():
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=60, check=True)
    assert all(f"  {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert f"usage: edl {command}" in printed
    assert "Traceback" not in printed


FLAGS = {
    "run": ["--env", "--out", "--resume", "--log", "--explorer.", "--discoverer.", "--learner.ppo.iterations"],
    "explore": ["--env", "--out", "--log", "--explorer."],
    "discover": ["RUN", "--discover", "--num-skills", "--out", "--log", "--discoverer.", "--env"],
    "learn": ["RUN", "--out", "--log", "--learner.ppo.iterations", "--env"],
    "baseline": ["--env", "--num-skills", "--out", "--baseline."],
    "evaluate": ["RUN", "--env", "--cross-check"],
    "figure": ["RUN", "--only", "--format {png,svg,pdf,gif}", "--dims", "--env"],
    "compare": ["RUN", "--metrics", "--csv", "--markdown", "--plot"],
    "export": ["RUN", "--out", "--format {numpy,onnx}", "--index", "--env"],
    "downstream": ["RUN", "--num-goals", "--radius", "--control."],
    "sweep": ["FILE", "--out", "--resume", "--max-lanes"],
    "reproduce": ["--num-seeds", "--preset", "--out"],
}
"""What the help of a command has to list."""


@pytest.mark.parametrize("command", FLAGS)
def test_help_lists_all_options(command, capsys):
    assert main([command, "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert [flag for flag in FLAGS[command] if flag not in printed] == []
    assert "(default: square)" not in printed or command not in ("discover", "learn")


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"edl {__version__}\n"


def test_the_options_are_those_of_the_named_methods(capsys):
    assert main(["run", "--discover", "kmeans", "--explore", "random_walk", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--explorer.persistence" in printed
    assert "--learner.ppo.learning-rate" in printed
    assert "--discoverer.commitment" not in printed
    assert "--discoverer.num-skills" not in printed


def test_the_options_of_a_baseline_are_its_own(capsys):
    assert main(["baseline", "reverse_mi", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "--baseline.ppo.learning-rate" in printed
    assert "--num-skills" in printed
    assert "--explore" not in printed
    assert "--region" not in printed


def test_the_options_of_a_later_stage_start_from_the_run(finished, capsys):
    assert main(["discover", str(finished), "--help"]) == 0
    printed = capsys.readouterr().out
    assert "(default: kmeans)" in printed
    assert "--num-seeds" not in printed


def test_horizon_is_a_setting_of_every_env(capsys):
    assert main(["run", "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Steps per episode; 0 uses the env's own horizon." in printed
    assert "Only for envs that offer a choice, such as Gymnasium envs." in printed


def test_list_has_all_names_with_a_description(capsys):
    assert main(["list"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    described = dict(lines)
    names = {*ENVS, *explore.METHODS, *discover.METHODS, *baselines.METHODS}
    assert described.keys() == names
    assert described["square"] == "maze, 17 cells"
    assert described["diayn"].startswith("2019  DIAYN")
    assert described["frontier"].startswith("Ours")


def test_list_has_the_year_of_every_method_and_sorts_each_family_by_it(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for names in listing.group_methods(baselines.METHODS).values():
        years = [int(re.search(rf"^  {name} +(\d{{4}})  \S", printed, re.MULTILINE)[1]) for name in names]
        assert years == [year_of(name) for name in names]
        assert years == sorted(years)


def test_the_headings_of_list_fit_into_a_terminal(capsys):
    assert main(["list"]) == 0
    headings = [line.strip() for line in capsys.readouterr().out.splitlines() if not line.startswith(("  ", "or "))]
    assert set(baselines.FAMILIES) <= set(headings)
    assert max(map(len, headings)) < 80


def make_grid():
    """A grid of 3 x 3 cells.

    More about it.
    """
    return gridworld(3, 3, 9)


def test_list_describes_registered_envs_by_their_docstring(capsys):
    register("my_grid", make_grid)
    try:
        assert main(["list"]) == 0
    finally:
        del ENVS["my_grid"]
    assert "  my_grid          A grid of 3 x 3 cells.\n" in capsys.readouterr().out
